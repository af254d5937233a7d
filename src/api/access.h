/* Who may run which command: what a token grants, and the one place that checks it.
 *
 * A grant is what is known of a client that has shown a token or a certificate.  The session of the
 * connection points to it.  A session without one may do everything: no token is configured, or
 * weir itself asks.
 *
 * Patterns are separated by commas; `*` stands for any text and `?` for one byte.  No patterns:
 * every name. */
#ifndef WEIR_API_ACCESS_H
#define WEIR_API_ACCESS_H

#include "api/command.h"
#include "api/role.h"

/* What a token, or an address, may use of the server at most. */
struct use_limits {
        uint32_t connections;
        uint32_t commands; /* a second */
        uint64_t bytes;    /* of unfinished input and unsent output, all connections together */
};

/* What is used of that, kept by the door. */
struct use {
        uint32_t connections;
        uint64_t bytes;
        uint64_t commands; /* so far */
        int64_t next_ns;   /* steady: each command moves it on by its share of a second */
};

struct grant {
        unsigned refs;
        bool is_ended;            /* taken back: whoever has it must show another token */
        unsigned roles;           /* bits of enum role, as given */
        unsigned held;            /* and what they allow (roles_held) */
        uint64_t series;          /* another one: whoever has it must show the secret again */
        struct use_limits limits; /* 0: that of the table (api/limits.h) */
        struct use use;
        struct slice name;
        struct slice queues;      /* of a producer and a worker */
        struct slice identities;  /* of a checker */
        struct slice names;       /* of a locker: locks, rate limits, breakers */
        struct slice certificate; /* a name in a client's certificate that stands for the token */
        char bytes[];             /* what these borrow from, in one made by grant_new() */
};

/* Texts are copied; refs, is_ended and held of `from` do not matter.  It has one reference. */
struct grant *grant_new(const struct grant *from);
struct grant *grant_ref(struct grant *g);   /* NULL stays NULL */
struct grant *grant_unref(struct grant *g); /* NULL */
/* Is `made` what grant_new(from) would make? */
bool grant_is_same(const struct grant *made, const struct grant *from);

/* Is the name one, and are these patterns that its roles have a use for? */
int access_check_grant(const struct grant *g, struct problem *p) MUST_CHECK;

/* OK, or ERR_FORBIDDEN and the role or name that is missing.  g == NULL: OK. */
int access_check_role(const struct grant *g, enum role role, const char *what,
                      struct problem *p) MUST_CHECK;
int access_check_identity(const struct grant *g, struct slice identity,
                          struct problem *p) MUST_CHECK;
/* The role of a bound command, and the names in it. */
int access_check(const struct grant *g, const struct command *cmd, struct problem *p) MUST_CHECK;

#endif
