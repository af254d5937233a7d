/* See role.h. */
#include "api/role.h"

#include <stdio.h>

#include "base/shown.h"

#define ROLE_NAMES_BYTES 128 /* with room for more */

static const struct {
        const char *name, *text;
} table[N_ROLES] = {[ROLE_ANYONE] = {"anyone", "needs no role"},
#define X(id, name, text) [ROLE_##id] = {name, text},
                    ROLE_MAP(X)
#undef X
};

const char *role_name(enum role role)
{
        ASSERT(role < N_ROLES);
        return table[role].name;
}

const char *role_text(enum role role)
{
        ASSERT(role < N_ROLES);
        return table[role].text;
}

static struct slice trim(struct slice s)
{
        while (s.len && s.ptr[0] == ' ')
                s = slice_make(s.ptr + 1, s.len - 1);
        while (s.len && s.ptr[s.len - 1] == ' ')
                s.len--;
        return s;
}

/* "reader, producer, ... and admin" */
static const char *all_names(char ret[ROLE_NAMES_BYTES])
{
        size_t n = 0;
        for (unsigned role = ROLE_READER; role < N_ROLES; role++) {
                const char *before = role == ROLE_READER   ? ""
                                     : role == N_ROLES - 1 ? " and "
                                                           : ", ";
                n += (size_t)snprintf(ret + n, ROLE_NAMES_BYTES - n, "%s%s", before,
                                      table[role].name);
        }
        return ret;
}

int roles_parse(struct slice text, unsigned *ret, struct problem *p)
{
        char names[ROLE_NAMES_BYTES];
        unsigned roles = 0;
        while (text.len) {
                const char *comma = memchr(text.ptr, ',', text.len);
                size_t n = comma ? (size_t)(comma - text.ptr) : text.len;
                struct slice word = trim(slice_make(text.ptr, n));
                unsigned role = ROLE_READER;
                while (role < N_ROLES && !slice_eq(word, slice_str(table[role].name)))
                        role++;
                if (role == N_ROLES)
                        return problem_set(p, ERR_BADARG, "there is no role '%s'; the roles are %s",
                                           SHOWN(word), all_names(names));
                roles |= ROLE_BIT(role);
                n += comma != NULL;
                text = slice_make(text.ptr + n, text.len - n);
        }
        if (!roles)
                return problem_set(p, ERR_BADARG, "a token needs a role; the roles are %s",
                                   all_names(names));
        *ret = roles;
        return OK;
}

void roles_put(struct buf *b, unsigned roles)
{
        const char *before = "";
        for (unsigned role = ROLE_READER; role < N_ROLES; role++) {
                if (!(roles & ROLE_BIT(role)))
                        continue;
                buf_put_str(b, before);
                buf_put_str(b, table[role].name);
                before = ",";
        }
}

unsigned roles_held(unsigned roles)
{
        if (roles & ROLE_BIT(ROLE_ADMIN))
                return ROLES_ALL;
        return roles & ROLE_BIT(ROLE_OPERATOR) ? ROLES_ALL & ~ROLE_BIT(ROLE_ADMIN) : roles;
}
