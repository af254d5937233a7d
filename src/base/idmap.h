/* A map from 64-bit ids to pointers, ordered by id, cheap where ids are dense.
 *
 * A radix tree: leaves of 16 slots, inner nodes of 64, as tall as the largest id needs.  Job ids
 * only grow and live ones cluster, so a job costs about 10 bytes here, against 13-17 in a hash
 * table that could not list by id.  A lone id costs one leaf (144 bytes) and its path.
 * idmap_next/prev make cursors possible that survive any change of the map. */
#ifndef WEIR_BASE_IDMAP_H
#define WEIR_BASE_IDMAP_H

#include "base/defs.h"

struct idmap {
        void *root;
        unsigned height; /* inner levels above the leaves */
        size_t len;
};

void idmap_init(struct idmap *m);
void idmap_release(struct idmap *m);
void *idmap_get(const struct idmap *m, uint64_t id);      /* NULL when absent */
void idmap_put(struct idmap *m, uint64_t id, void *item); /* must be absent, item non-NULL */
void *idmap_take(struct idmap *m, uint64_t id);           /* removes; NULL when absent */
/* The item with the smallest id >= from (largest id <= from); NULL when there is none. */
void *idmap_next(const struct idmap *m, uint64_t from, uint64_t *ret_id);
void *idmap_prev(const struct idmap *m, uint64_t from, uint64_t *ret_id);
/* The same for up to IDMAP_SOME neighbours at once, nearest first: one descent for all of them, and
 * the caller can fetch them ahead.  0: there is none. */
#define IDMAP_SOME 16
size_t idmap_next_some(const struct idmap *m, uint64_t from, uint64_t *ret_ids, void **ret_items);
size_t idmap_prev_some(const struct idmap *m, uint64_t from, uint64_t *ret_ids, void **ret_items);

#endif
