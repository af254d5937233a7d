/* Sessions of the page, named by a cookie.
 *
 * Loop thread only; the time is passed in.  Sessions live in memory: a restart logs everybody out.
 *
 * Invariants, checked by login_check():
 *   (1) by_use has the sessions of by_id, at most LIMIT_LOGINS, in order of used_ns
 *   (2) by_failure has the addresses of by_address */
#ifndef WEIR_DOOR_LOGIN_H
#define WEIR_DOOR_LOGIN_H

#include "api/access.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/rand.h"
#include "wire/secret.h"

#define LOGIN_COOKIE     "weir_session" /* '_' and hex digits of this weir follow */
#define LOGIN_TAIL_BYTES 4              /* of which those are made */
#define LOGIN_IDLE_MS    43200000       /* 12 h; as said in docs/page.md */
#define LOGIN_WINDOW_MS  60000          /* in which LIMIT_LOGIN_FAILURES are counted */
#define LOGIN_BODY_BYTES 4096           /* of POST /login: it comes from strangers */
#define LOGIN_HEX        32             /* digits of a session's name and of its CSRF value */

struct login_session {
        struct hash_node node; /* by id */
        struct list link;      /* by use */
        struct secret id;      /* of what the cookie holds, which itself is not kept */
        struct secret csrf_is;
        struct grant *grant; /* of the token that was shown */
        int64_t used_ns;
        char csrf[LOGIN_HEX + 1];
};

struct login {
        struct hash by_id;
        struct list by_use; /* the longest unused first */
        struct hash by_address;
        struct list by_failure; /* addresses, the longest without a failure first */
        struct rng rng;
        char cookie[sizeof(LOGIN_COOKIE "_") + 2UL * LOGIN_TAIL_BYTES]; /* its name */
};

/* `instance` names this weir and no other.  A browser sends a cookie to every port of a host, so
 * the cookie of each weir needs a name of its own.  It must be the same after a restart, or
 * browsers keep dead cookies. */
void login_init(struct login *l, struct slice instance);
void login_release(struct login *l);
void login_check(const struct login *l);

/* `cookies` is the value of a Cookie header.  Counts as use of the session.  NULL: there is no
 * session, or it was not used for LOGIN_IDLE_MS. */
const struct login_session *login_find(struct login *l, struct slice cookies, int64_t now_ns);
/* The same, by the session's id. */
bool login_touch(struct login *l, const struct secret *id, int64_t now_ns);
int login_check_csrf(const struct login_session *s, struct slice value,
                     struct problem *p) MUST_CHECK;

/* A request about the session itself. */
struct login_call {
        struct login *login;
        bool needs_token;
        const struct grant *grant; /* of the request; NULL: it has shown nothing */
        /* Whose token that is; NULL: nobody's. */
        struct grant *(*find)(void *ctx, struct slice token, const char *address);
        void *find_ctx;
        const char *version;
        int64_t now_ns;
        const char *address; /* of the peer */
        struct slice cookies;
        bool has_token; /* the request has shown the token itself */
        bool is_https;  /* as the browser sees it */
        struct slice content_type, content;
        struct arena *arena;
        struct buf *lines, *body; /* of the answer: header lines, JSON */
};

void login_tell(struct login_call *call);                               /* GET /v1/session */
int login_enter(struct login_call *call, struct problem *p) MUST_CHECK; /* POST /login */
void login_leave(struct login_call *call);                              /* POST /logout */

#endif
