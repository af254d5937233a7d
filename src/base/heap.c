/* The 4-ary heap behind every "what is next" of weir.
 *
 * The children of i are 4i+1 .. 4i+4, its parent is (i-1)/4.  Four children of 16 bytes are 64
 * bytes: at most two cache lines a level and half the levels of a binary heap, which is what
 * counts at millions of jobs; the price, three comparisons a level instead of one, stays within
 * those lines.  Moving is done with a hole: an entry is written once, where it ends up.
 *
 * Growth by half: at five million jobs doubling would hold up to 80 MB for nothing. */
#include "base/heap.h"

#include <stdlib.h>

#define ARITY   4
#define CAP_MIN 16

void heap_init(struct heap *h)
{
        *h = (struct heap){0};
}

void heap_release(struct heap *h)
{
        free(h->entries);
        *h = (struct heap){0};
}

static inline bool is_before(const struct heap_entry *a, const struct heap_entry *b)
{
        if (a->key != b->key)
                return a->key < b->key;
        return a->node->id < b->node->id;
}

static inline void place(struct heap *h, uint32_t at, struct heap_entry e)
{
        h->entries[at] = e;
        e.node->pos = at;
}

/* Puts e into the hole at `at` or above it. */
static void sift_up(struct heap *h, uint32_t at, struct heap_entry e)
{
        while (at > 0) {
                uint32_t parent = (at - 1) / ARITY;
                if (!is_before(&e, &h->entries[parent]))
                        break;
                place(h, at, h->entries[parent]);
                at = parent;
        }
        place(h, at, e);
}

/* Puts e into the hole at `at` or below it. */
static void sift_down(struct heap *h, uint32_t at, struct heap_entry e)
{
        for (;;) {
                uint64_t first = (uint64_t)at * ARITY + 1;
                if (first >= h->len)
                        break;
                uint64_t end = first + ARITY < h->len ? first + ARITY : h->len;
                uint32_t best = (uint32_t)first;
                for (uint32_t i = best + 1; i < end; i++)
                        if (is_before(&h->entries[i], &h->entries[best]))
                                best = i;
                if (!is_before(&h->entries[best], &e))
                        break;
                place(h, at, h->entries[best]);
                at = best;
        }
        place(h, at, e);
}

/* The entry at `at` has been overwritten in thought by e: finds e its place. */
static void sift(struct heap *h, uint32_t at, struct heap_entry e)
{
        if (at > 0 && is_before(&e, &h->entries[(at - 1) / ARITY]))
                sift_up(h, at, e);
        else
                sift_down(h, at, e);
}

static void grow(struct heap *h)
{
        uint64_t cap = (uint64_t)h->cap + h->cap / 2;

        if (cap < CAP_MIN)
                cap = CAP_MIN;
        if (cap > HEAP_NOWHERE)
                cap = HEAP_NOWHERE;
        ASSERT(cap > h->len);
        h->entries = xrealloc(h->entries, cap * sizeof(*h->entries));
        h->cap = (uint32_t)cap;
}

void heap_push(struct heap *h, struct heap_node *node, uint64_t key)
{
        ASSERT(node->pos == HEAP_NOWHERE);
        if (h->len == h->cap)
                grow(h);
        h->len++;
        sift_up(h, h->len - 1, (struct heap_entry){key, node});
}

void heap_remove(struct heap *h, struct heap_node *node)
{
        uint32_t at = node->pos;

        ASSERT(at < h->len && h->entries[at].node == node);
        h->len--;
        if (at < h->len)
                sift(h, at, h->entries[h->len]);
        node->pos = HEAP_NOWHERE;
}

void heap_update(struct heap *h, struct heap_node *node, uint64_t key)
{
        uint32_t at = node->pos;

        ASSERT(at < h->len && h->entries[at].node == node);
        sift(h, at, (struct heap_entry){key, node});
}

struct heap_node *heap_pop(struct heap *h)
{
        if (h->len == 0)
                return NULL;
        struct heap_node *node = h->entries[0].node;
        h->len--;
        if (h->len > 0)
                sift_down(h, 0, h->entries[h->len]);
        node->pos = HEAP_NOWHERE;
        return node;
}

/* Those before `e` in the subtree at `at`.  Below an item that is not before it none is, so only
 * the counted ones and their children are looked at.  The depth is that of the heap. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static size_t count_before(const struct heap *h, uint64_t at, const struct heap_entry *e,
                           size_t max)
{
        size_t n = 0;
        if (!max || at >= h->len || !is_before(&h->entries[at], e))
                return 0;
        n++;
        for (uint64_t i = at * ARITY + 1; i <= at * ARITY + ARITY; i++)
                n += count_before(h, i, e, max - n);
        return n;
}

size_t heap_count_before(const struct heap *h, const struct heap_node *node, size_t max)
{
        ASSERT(node->pos < h->len && h->entries[node->pos].node == node);
        return count_before(h, 0, &h->entries[node->pos], max);
}

void heap_check(const struct heap *h)
{
        ASSERT(h->len <= h->cap);
        for (uint32_t i = 0; i < h->len; i++) {
                ASSERT(h->entries[i].node->pos == i);
                if (i > 0)
                        ASSERT(!is_before(&h->entries[i], &h->entries[(i - 1) / ARITY]));
        }
}
