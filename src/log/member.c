/* See member.h. */
#include "log/member.h"

enum member_state member_state(const struct log_member *m, const struct log_member *all, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                const struct log_member *leader = &all[i];
                if (!leader->is_leader || !leader->digest_seq)
                        continue;
                if (leader->digest_seq != m->digest_seq)
                        return MEMBER_UNKNOWN;
                return leader->digest == m->digest ? MEMBER_SAME : MEMBER_DIFFERS;
        }
        return MEMBER_UNKNOWN;
}
