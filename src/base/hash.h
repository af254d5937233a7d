/* A hash table from byte strings to intrusive nodes: chained, grows by doubling in small steps
 * of work per insert is not needed (names are few; jobs live in idmap).
 *
 * The node embeds `struct hash_node`; the table never owns items.  The hash is keyed with a
 * per-table seed, so that a client cannot choose names that collide. */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include "base/slice.h"

struct hash_node {
        struct hash_node *next;
        uint64_t hash;
        struct slice key; /* borrowed from the item */
};

struct hash {
        struct hash_node **slots;
        size_t n_slots; /* power of two */
        size_t len;
        uint64_t seed;
};

void hash_init(struct hash *h, uint64_t seed);
void hash_release(struct hash *h); /* frees the slots, not the items */
struct hash_node *hash_find(const struct hash *h, struct slice key);
void hash_insert(struct hash *h, struct hash_node *node, struct slice key); /* must be absent */
void hash_remove(struct hash *h, struct hash_node *node);                   /* must be present */
/* Walks all nodes; start with NULL.  The table must not change during the walk, but for nodes that
 * were walked over. */
struct hash_node *hash_next(const struct hash *h, const struct hash_node *node);
/* The same where each node is removed: asks for the next before. */
#define HASH_DRAIN(h, node)                                                                        \
        for (struct hash_node *node = hash_next(h, NULL), *node##_next;                            \
             node && (node##_next = hash_next(h, node), true); node = node##_next)
uint64_t hash_bytes(uint64_t seed, struct slice key);

#endif
