/* Has a machine of a cluster the state that the leader has?  By the digests that both told. */
#ifndef WEIR_LOG_MEMBER_H
#define WEIR_LOG_MEMBER_H

#include "log/log.h"

enum member_state {
        MEMBER_UNKNOWN, /* there is no leader, or they told no digests of the same batch */
        MEMBER_SAME,
        MEMBER_DIFFERS,
};

/* `m` is one of the n members. */
enum member_state member_state(const struct log_member *m, const struct log_member *all, size_t n);

#endif
