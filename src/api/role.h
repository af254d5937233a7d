/* Roles: what a token lets its owner do.
 *
 * Each command needs one role (the column of api/commands.def).  A token has one or more; an
 * operator has all but that of the admin, the admin has all. */
#ifndef WEIR_API_ROLE_H
#define WEIR_API_ROLE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Bits in the log: append new rows at the end.    name, what it allows */
#define ROLE_MAP(X)                                                                                \
        X(READER, "reader", "looks at everything and changes nothing")                             \
        X(PRODUCER, "producer", "adds jobs and batches, to the queues named")                      \
        X(WORKER, "worker", "claims and ends jobs, of the queues named")                           \
        X(CHECKER, "checker", "asks whether heavy work may go, under the identities named")        \
        X(LOCKER, "locker", "takes locks, rate limits and breakers, of the names given")           \
        X(OPERATOR, "operator", "does everything but what an admin does")                          \
        X(ADMIN, "admin", "does everything, with tokens and settings too")

enum role {
        ROLE_ANYONE, /* needs no role, only to be let in */
#define X(id, name, text) ROLE_##id,
        ROLE_MAP(X)
#undef X
                N_ROLES
};

#define ROLE_BIT(role)  (1U << (role))
#define ROLES_ALL       (ROLE_BIT(N_ROLES) - ROLE_BIT(ROLE_READER))
#define ROLE_TEXT_BYTES 64 /* names of all roles with commas between them */

const char *role_name(enum role role); /* "reader" */
const char *role_text(enum role role); /* what it allows */

/* "producer,worker" -> bits; spaces around the names are fine. */
int roles_parse(struct slice text, unsigned *ret, struct problem *p) MUST_CHECK;
/* The same back. */
void roles_put(struct buf *b, unsigned roles);
/* What these roles allow, those of an operator or admin counted in. */
unsigned roles_held(unsigned roles);

#endif
