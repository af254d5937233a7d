/* What the two foreign contracts of the check door share (freno's and Vitess's): their routes, the
 * way from a request to an answer, and the spellings of Go, in which both were written.
 *
 * A contract answers at once, out of the core's memory.  A check changes nothing durable, and its
 * reply does not wait for the log; that of every other route does, as a client that sees a rule
 * must see one that is on disk.
 *
 * Loop thread only.  Everything a call borrows lives until its answer is written. */
#ifndef WEIR_DOOR_CONTRACT_H
#define WEIR_DOOR_CONTRACT_H

#include "api/access.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "checks/check.h"

#define CONTRACT_PARAMS 4
#define CONTRACT_JSON   "application/json"
#define CONTRACT_TEXT   "text/plain; charset=utf-8"

struct contract_call;

enum contract_access {
        CONTRACT_CHECK,   /* asks; without the token when the operator opened the checks */
        CONTRACT_READ,    /* tells what is */
        CONTRACT_CONTROL, /* changes something, though the method is GET */
};

struct contract_route {
        struct slice segment; /* the first of the path: routes are told apart by it first */
        struct slice rest; /* "/:app/:storeType": ':' stands for one segment, whatever its name */
        const char *path;  /* both, as /help shows it */
        enum contract_access access;
        bool is_get_only; /* not even HEAD */
        int arg;          /* for functions that serve several routes */
        void (*run)(struct contract_call *call);
};

struct contract_match {
        const struct contract_route *route;  /* NULL: no such route */
        bool is_slash;                       /* but for a '/' at the end, which is to be left out */
        struct slice param[CONTRACT_PARAMS]; /* still percent-escaped */
};

struct contract_call {
        struct core *core;
        struct now now;
        int64_t started_ms; /* Unix ms: of this process */
        bool is_stopping;
        const struct contract_route *route;
        struct slice param[CONTRACT_PARAMS]; /* decoded; empty when the route has fewer */
        struct slice query;                  /* without '?', as it came */
        struct slice address;                /* of the asker, as it or its proxy says */
        bool is_authenticated;
        const struct grant *grant;   /* what the asker may do (api/access.h) */
        struct arena *arena;         /* for what must be decoded */
        struct check_answer *answer; /* room for one: too large for the stack of every call */
        int64_t *checked_ns;         /* Vitess: the last check; steady, 0: never */

        /* The answer. */
        int status;
        const char *content_type;
        struct buf *body;
};

/* The route of a path; false when no contract has it.  Any other path costs a look at its first
 * segment. */
bool contract_find(struct slice path, struct contract_match *ret);
/* Decodes the path's parameters and answers; call->body is empty before and whole after. */
void contract_run(struct contract_call *call, const struct contract_match *match);
/* Where X-Forwarded-For says the asker is, the first of a list; empty when it says nothing that
 * could be an address.  `lines` begins with the request line and goes on at least to the empty
 * line. */
struct slice contract_forwarded(struct slice lines);

/* The value of a query parameter, decoded; false when it is missing or not escaped rightly, which
 * is the same to Go.  Of several the first. */
bool contract_query(const struct contract_call *call, const char *name, struct slice *ret);
/* The next value of that name; *rest begins as call->query. */
bool contract_query_next(const struct contract_call *call, struct slice *rest, const char *name,
                         struct slice *ret);

/* A rule of the operator by way of a contract.  Parts that were not given are kept from a rule
 * that is there: ratio < 0, for_ms 0. */
struct contract_throttle {
        const char *contract; /* "freno": the author is freno:127.0.0.1 */
        struct slice app, target;
        double ratio;   /* 0..1, or negative: as it is, else 1 */
        int64_t for_ms; /* or 0: as long as it is, else the default */
};
int contract_throttle(struct contract_call *call, const struct contract_throttle *t,
                      struct problem *problem) MUST_CHECK;
/* Nothing happens when there is none, or none could have that name. */
void contract_unthrottle(struct contract_call *call, const char *contract, struct slice app,
                         struct slice target);

/* Is there a rule that throttles or exempts this very name on every target? */
bool contract_has_rule(struct contract_call *call, struct slice app);

/* One app that rules throttle or exempt now. */
struct contract_app {
        struct slice app, target; /* target empty: on every one */
        int64_t until_ms;         /* Unix ms; 0: it does not end by itself */
        double ratio;
        bool is_exempt;
};
void contract_each_app(struct contract_call *call,
                       void (*fn)(void *ctx, const struct contract_app *app), void *ctx);

/* --- as Go writes and reads --------------------------------------------------------------------
 */

/* As encoding/json writes a float64: the shortest text that reads back the same, without an
 * exponent from 1e-6 up to 1e21.  What is no number is 0: JSON has no word for it. */
void put_go_float(struct buf *b, double v);
/* As fmt's %v does: with an exponent below 1e-4 and from 1e6 on; NaN, +Inf. */
void put_go_value(struct buf *b, double v);
/* RFC 3339 in UTC; 0 is Go's zero time. */
void put_go_time(struct buf *b, int64_t wall_ms);
/* strconv.ParseFloat and ParseInt(s, 10, 64); the problem holds Go's sentence. */
int go_to_float(struct slice s, double *ret, struct problem *problem) MUST_CHECK;
int go_to_int(struct slice s, int64_t *ret, struct problem *problem) MUST_CHECK;
/* time.ParseDuration: "1h30m", "1.5s", "-5ms". */
int go_to_duration_ns(struct slice s, int64_t *ret, struct problem *problem) MUST_CHECK;
/* A ratio is 0 to 1; the problem says what freno says. */
int go_to_ratio(struct slice s, double *ret, struct problem *problem) MUST_CHECK;

#endif
