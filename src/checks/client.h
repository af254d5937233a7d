/* Those who ask: counters of every identity and every part of one, minute by minute for a day.
 *
 * A bounded table: LIMIT_CLIENTS entries, the one that asked longest ago goes first, and what it
 * had counted goes to "other".  Nothing of it is in the log. */
#ifndef WEIR_CHECKS_CLIENT_H
#define WEIR_CHECKS_CLIENT_H

#include "api/limits.h"
#include "core/kernel.h"
#include "gate/check.h"
#include "gate/identity.h"

#define CLIENT_ADDRESSES 4

/* One minute of one name; numbers stop at their largest. */
struct client_minute {
        uint32_t granted;
        uint32_t refused;
        uint32_t observed;                 /* granted, but would have been refused */
        uint32_t waited_ms;                /* parked by WAIT, in all */
        uint16_t by_reason[CHECK_REASONS]; /* of the refused and the observed */
        uint8_t target, metric;            /* of the last refusal with a metric; 255: none */
};

struct clients;
struct client;

struct retarget;
struct clients *clients_new(void);
struct clients *clients_free(struct clients *c);

/* The entry of the whole identity, made when it is missing; its parts' entries are counted along.
 * Valid until the next call. */
struct client *client_get(struct core *core, const struct identity *who);
/* What checks/check.c keeps of an identity; all zeros at first. */
struct client_note {
        uint64_t registry_seen; /* version of the registry that `tier` comes from */
        enum tier tier;
        uint8_t paced_target;
        int64_t paced_ns; /* steady: an ask that waits on that target is not granted before */
};
struct client_note *client_note(struct client *c);
/* One ask was answered. */
struct client_count {
        const struct check_verdict *verdict;
        uint8_t target, metric; /* 255: none */
        uint32_t waited_ms;
        struct slice address; /* of the asker; may be empty */
        bool is_authenticated;
        uint32_t more; /* asks beside this one that got the same answer, told together */
};
void client_count(struct core *core, struct client *e, const struct client_count *count);

/* Identities (wholes) that asked within the last 5 s on that target: for credits and fair shares.
 * At least 1. */
size_t clients_active(struct core *core, uint8_t target);

/* Once a turn: the watch for the starved.  An identity that goes on asking and was not granted once
 * for the configured time is starved; the one with most grants on the same target meanwhile is
 * the starver.  An event and a line in the log name both, once, and again when it is over. */
/* The targets were set up again. */
void clients_retarget(struct core *core, const struct retarget *r);
void clients_turn(struct core *core);
int64_t clients_next_ns(const struct core *core);
size_t clients_starved(const struct core *core);

/* For /recent-apps: every identity with each address it came from. */
void clients_each_address(const struct core *core,
                          void (*fn)(void *ctx, struct slice identity, struct slice address,
                                     int64_t wall_ms),
                          void *ctx);
/* Whether no client has asked by that name, as a whole or as a part, within the last day, or since
 * the start when that is later, though other clients have.  False when it is not known: the table
 * is full, and the name may have been dropped from it. */
bool client_is_unused(const struct core *core, struct slice name);

/* For Vitess's status: the last answer that each identity was given. */
struct client_seen {
        struct slice identity;
        int64_t age_ms;
        bool is_granted;
        enum check_reason reason; /* of a refusal */
};
void clients_each_seen(const struct core *core,
                       void (*fn)(void *ctx, const struct client_seen *seen), void *ctx);
/* For /metrics, bounded: the most active names, and "other". */
void clients_each_sample(const struct core *core,
                         void (*fn)(void *ctx, const char *name, const char *labels, double value),
                         void *ctx);

#endif
