/* What the files of the clients share. */
#ifndef WEIR_CHECKS_CLIENT_INT_H
#define WEIR_CHECKS_CLIENT_INT_H

#include "base/duration.h"
#include "base/hash.h"
#include "checks/client.h"
#include "checks/minutes.h"

#define CLIENT_NOWHERE     255 /* no target, no metric */
#define CLIENT_TARGETS     8   /* of one identity that are told apart; the last asked about */
#define CLIENT_ADDRESS     46  /* as session.address: an IPv6 address and its NUL */
#define CLIENT_ACTIVE_S    5
#define CLIENT_SECONDS     8 /* a ring: a power of two above CLIENT_ACTIVE_S + 1 */
#define CLIENT_GRANT_SPAN  64

#define STARVED_DEFAULT_MS (5 * MS_PER_MIN)
#define STARVED_ASKS       3               /* fewer refusals are bad luck */
#define STARVED_ASKED_NS   (30 * NS_PER_S) /* it still asks: no longer ago than this, ... */
#define STARVED_LEAST_NS   (2 * NS_PER_S)  /* ... half of the configured time, but seen by a turn */
#define STARVED_QUIET_NS   (300 * NS_PER_S) /* who asks no more is not starved */

struct client_totals {
        uint64_t granted, refused, observed; /* observed: some of the granted */
        uint64_t waited_ms;
        uint64_t by_reason[CHECK_REASONS]; /* of the refused and the observed */
};

/* A name counts what it asked itself, as a whole identity, apart from what identities asked that
 * have it as a part: the first add up to all asks, the sum of both is what people steer by. */
enum client_role { AS_WHOLE, AS_PART, CLIENT_ROLES };

struct client_address {
        char text[CLIENT_ADDRESS];
        uint8_t len;
        int64_t wall_ms; /* of the last ask from there */
};

/* An identity on a target: asked when, and granted how often since when. */
struct client_use {
        uint8_t target;
        int64_t second; /* steady, of the last ask */
        int64_t span;   /* newest of the spans below, see client_stamp */
        uint32_t granted[CLIENT_GRANT_SPAN];
};

/* What every ask touches stands together: with thousands of identities an ask costs what it has to
 * fetch from memory. */
struct client {
        struct hash_node node;
        bool is_whole, is_authenticated, is_starved;
        uint8_t n_parts; /* of a whole: one that is there twice counts once */
        uint8_t n_uses, n_addresses;
        uint8_t last_target;              /* of the last ask as a whole */
        uint8_t last_reason, last_metric; /* of the last refusal */
        uint16_t tally_place;             /* core/tally.h's; 0 at first */
        uint32_t n_owners;                /* identities that have it as a part */

        /* As a whole. */
        struct client_use *use; /* of the last ask; NULL: none */
        /* Refusals in a row, and when the first of them was asked for, steady.  A grant or a long
         * silence ends the run. */
        uint64_t streak;
        int64_t since_ns, asked_ns;
        int64_t patience_ns; /* how long its last ask was parked: the next may be as long */
        int64_t moved;       /* clients_mark() when it went to the end of: */
        struct list recent;  /* clients.recent */
        struct client_note note;

        int64_t first_ms, last_ms, granted_ms, refused_ms; /* wall; 0: never */
        struct client_totals total[CLIENT_ROLES];
        struct minutes minutes;
        struct client_address addresses[CLIENT_ADDRESSES]; /* the last one first */
        struct client_use *uses[CLIENT_TARGETS];
        struct list watch; /* clients.hungry or, when is_starved, clients.starved */
        /* n_parts of them, and the name behind them: a name with parts has a colon and is no part,
         * so it has them from the beginning. */
        struct client *parts[];
};

/* Identities that asked about a target, by the second of their last ask. */
struct client_activity {
        int64_t second; /* of the newest */
        uint32_t asked[CLIENT_SECONDS];
};

/* The time in the units of the counters, worked out once for all asks of one moment. */
struct client_stamp {
        struct now now;
        int64_t hour; /* of the wall */
        unsigned minute;
        int64_t second; /* steady */
        int64_t span;   /* steady: tenths of starved_ns, but at least a second each */
        int64_t span_ns;
        int64_t starved_ns; /* as configured */
};

struct clients {
        struct hash names;
        struct list recent; /* wholes by their last ask, about: see clients_mark() */
        uint64_t n_made;    /* wholes, ever */
        struct list hungry, starved;
        size_t n_wholes, n_starved;
        struct minute_pool minutes;
        struct client_stamp stamp;
        struct client_totals other; /* of identities that are not in the table any more */
        struct client_totals told;  /* of "other" to /metrics, where totals must not fall */
        struct client_activity active[CLIENT_NOWHERE + 1];
        int64_t turned_ns;
};

static inline struct slice client_name(const struct client *e)
{
        return e->node.key;
}

/* An identity goes to the end of the list of the recent ones when it asks and this has changed:
 * once a second, and after some have been dropped, however short the second was.  So one that goes
 * on asking stays, whatever others do. */
#define CLIENT_MADE 512
static inline int64_t clients_mark(const struct clients *c)
{
        return c->stamp.second * 256 + (int64_t)(c->n_made / CLIENT_MADE % 256);
}
static inline int64_t clients_mark_second(int64_t mark)
{
        return mark / 256;
}

static inline uint64_t totals_asks(const struct client_totals *t)
{
        return t->granted + t->refused;
}

/* Both roles together. */
struct client_totals client_total(const struct client *e);
void totals_add(struct client_totals *to, const struct client_totals *t);
const struct client_stamp *client_stamp(struct core *core);

/* Who had most grants on the target of the starved one since then; NULL when nobody had any.  Of
 * the last CLIENT_GRANT_SPAN spans only.  The answer is kept in the memo (all zeros at first) and
 * good for others that wait as long, until somebody asks. */
struct starver {
        bool is_known;
        uint8_t target;
        int64_t span;
        const struct client *who;
        uint64_t grants;
};
void client_starver(struct core *core, const struct client *starved, struct starver *memo);
/* It is granted, or nobody follows it any more: it is on no list of the watch. */
void starved_granted(struct core *core, struct client *e);
void starved_forget(struct core *core, struct client *e);

/* The best of them in an order, in that order: a heap of at most max with the worst on top. */
struct client_top {
        const struct client **clients; /* room for max of them */
        size_t n, max;
        int (*compare)(const struct client *a, const struct client *b); /* < 0: a comes first */
        bool has_more;
};
void client_top_add(struct client_top *t, const struct client *e);
void client_top_sort(struct client_top *t);

void clients_check(const struct clients *c);

#endif
