/* A 4-ary min-heap of (key, item) with positions kept in the items.
 *
 * The 64-bit key lies in the heap's own array, so most comparisons touch no item; a tie is broken
 * by the item's 64-bit `id` (smaller first), read through the item.  The item embeds a
 * struct heap_node; `pos` lets remove and update work in O(log n) from the item alone.
 * Weakness: a tie costs a cache miss per compared item. */
#ifndef WEIR_BASE_HEAP_H
#define WEIR_BASE_HEAP_H

#include "base/defs.h"

#define HEAP_NOWHERE UINT32_MAX

/* `id` breaks ties; `pos` is the index in the heap's array, HEAP_NOWHERE when on no heap. */
struct heap_node {
        uint64_t id;
        uint32_t pos;
};

struct heap_entry {
        uint64_t key;
        struct heap_node *node;
};

struct heap {
        struct heap_entry *entries;
        uint32_t len, cap;
};

void heap_init(struct heap *h);
void heap_release(struct heap *h); /* frees the array, not the items */
void heap_push(struct heap *h, struct heap_node *node, uint64_t key);
void heap_remove(struct heap *h, struct heap_node *node);
void heap_update(struct heap *h, struct heap_node *node, uint64_t key);
struct heap_node *heap_pop(struct heap *h); /* NULL when empty */
void heap_check(const struct heap *h);      /* asserts order and positions */
/* Items that come out before this one; counts no further than `max`, and costs what it counts. */
size_t heap_count_before(const struct heap *h, const struct heap_node *node, size_t max);

static inline struct heap_node *heap_peek(const struct heap *h)
{
        return h->len ? h->entries[0].node : NULL;
}

static inline uint64_t heap_peek_key(const struct heap *h)
{
        ASSERT(h->len > 0);
        return h->entries[0].key;
}

static inline uint64_t heap_key(const struct heap *h, const struct heap_node *node)
{
        ASSERT(node->pos < h->len && h->entries[node->pos].node == node);
        return h->entries[node->pos].key;
}

static inline bool heap_has(const struct heap_node *node)
{
        return node->pos != HEAP_NOWHERE;
}

/* Signed times keep their order as heap keys. */
static inline uint64_t heap_key_i64(int64_t v)
{
        return (uint64_t)v ^ (1ULL << 63);
}
static inline int64_t heap_key_to_i64(uint64_t key)
{
        return (int64_t)(key ^ (1ULL << 63));
}

#endif
