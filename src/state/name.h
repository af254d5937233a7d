/* Interned names: hooks, queues, groups and workers repeat, so each text is kept once.
 *
 * name_get() gives a reference, name_unref() takes it back; the last one frees the text.
 * Loop thread only, except that anybody may read the text of a name whose holder is kept. */
#ifndef WEIR_STATE_NAME_H
#define WEIR_STATE_NAME_H

#include "base/hash.h"

#define NAME_TIERS 4 /* as many as the gate has */

struct name {
        struct hash_node node;
        uint32_t refs;
        uint32_t len;
        uint32_t n_parked[NAME_TIERS]; /* of a hook: its jobs that are parked or returning */
        uint16_t tally_place;          /* of a hook: core/tally.h's; 0 at first */
        char text[];
};

struct name_table {
        struct hash table;
        uint64_t bytes; /* memory of all names, for INFO */
};

void name_table_init(struct name_table *t, uint64_t seed);
void name_table_release(struct name_table *t); /* every name must have been given back */

struct name *name_get(struct name_table *t, struct slice text);
struct name *name_ref(struct name *n);
void name_unref(struct name_table *t, struct name *n); /* NULL is fine */

static inline struct slice name_slice(const struct name *n)
{
        return n ? (struct slice){n->text, n->len} : SLICE_NONE;
}

#endif
