/* Who set which rule when, and how it ended: the last RULELOG_KEPT changes, in one thing named
 * "rules".
 *
 *      body of a SET: number of the oldest entry varint, then entries; of a NOTE: one entry
 *      entry: at_ms varint, action u8, then name, author, address, text (length varint, bytes) */
#ifndef WEIR_STATE_RULELOG_H
#define WEIR_STATE_RULELOG_H

#include "state/state.h"

#define RULELOG_KEPT 500
#define RULELOG_NAME "rules"
/* While a rule has an end, the log is told the time this often: steady time goes on from the last
 * one in the log, so a restart lengthens a rule by no more than this. */
#define RULELOG_BEAT_NS (10 * NS_PER_S)

/* Numbers are in the log. */
enum rulelog_action {
        RULELOG_SET,
        RULELOG_UNSET,
        RULELOG_EXPIRED,
        RULELOG_OVER_BUDGET,
        RULELOG_ACTIONS
};

struct rulelog_entry {
        int64_t at_ms;
        enum rulelog_action action;
        struct slice name, author, address, text; /* in `bytes` */
        char *bytes;
};

struct rulelog {
        struct thing thing;
        uint64_t first; /* number of the oldest kept */
        size_t n;
        struct rulelog_entry entries[RULELOG_KEPT]; /* number i is at i % RULELOG_KEPT */
};

const char *rulelog_action_name(enum rulelog_action action);       /* "set" */
void rulelog_put(const struct rulelog_entry *e, struct buf *body); /* a NOTE */
/* The SET that makes the thing, with its first entry. */
void rulelog_put_first(const struct rulelog_entry *e, struct buf *body);
/* The newest entry (0), the one before it (1) and so on; NULL when there is none. */
const struct rulelog_entry *rulelog_peek(const struct rulelog *l, size_t back);

#endif
