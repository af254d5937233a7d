/* Ids to pointers: a radix tree that is dense where the ids are.
 *
 *      id    63 ........ 16 15 ...... 10 9 ........ 4 3 ....... 0
 *            further inner  | inner, 6   | inner, 6   | leaf, 4
 *
 * A leaf has 16 slots and 136 bytes, an inner node 64 and 520; each has a bitmap of its used
 * slots, so that the neighbour of a missing id is one ctz/clz per level away and an empty node
 * is seen without counting.  Nothing recurses: the tree is at most 11 levels.
 *
 * Small leaves, because a queue's live ids thin out towards the old end: one straggler pins 136
 * bytes and not a kilobyte.  get is one dependent load a level; the upper levels stay cached.
 *
 * Invariants: (1) no node in the tree is empty; (2) a slot is non-NULL exactly when its bit is
 * set; (3) height > 0 implies that the root has a child beyond slot 0, so the tree is never
 * taller than its largest id needs. */
#include "base/idmap.h"

#include <stdlib.h>

#define LEAF_BITS  4
#define LEAF_SLOTS (1U << LEAF_BITS)
#define NODE_BITS  6
#define NODE_SLOTS (1U << NODE_BITS)
#define HEIGHT_MAX 10 /* 4 + 10 * 6 = 64 bits */

struct leaf {
        uint64_t used; /* bit i: slot i holds an item */
        void *slot[LEAF_SLOTS];
};

struct node {
        uint64_t used;
        void *child[NODE_SLOTS];
};

void idmap_init(struct idmap *m)
{
        *m = (struct idmap){0};
}

/* The bits of the id that lie below an inner node of this height (1 = just above the leaves). */
static inline unsigned shift_of(unsigned height)
{
        return LEAF_BITS + (height - 1) * NODE_BITS;
}

static inline unsigned digit_of(uint64_t id, unsigned height)
{
        return height == 0 ? (unsigned)(id & (LEAF_SLOTS - 1))
                           : (unsigned)(id >> shift_of(height) & (NODE_SLOTS - 1));
}

/* The largest id a tree of this height can hold. */
static inline uint64_t span_of(unsigned height)
{
        unsigned bits = LEAF_BITS + height * NODE_BITS;
        return bits >= 64 ? UINT64_MAX : (1ULL << bits) - 1;
}

/* Inner nodes and leaves begin with the same bitmap, followed by the slots. */
static inline uint64_t used_of(const void *p)
{
        return *(const uint64_t *)p;
}

void *idmap_get(const struct idmap *m, uint64_t id)
{
        const void *p = m->root;

        if (!p || id > span_of(m->height))
                return NULL;
        for (unsigned h = m->height; h > 0; h--) {
                p = ((const struct node *)p)->child[digit_of(id, h)];
                if (!p)
                        return NULL;
        }
        return ((const struct leaf *)p)->slot[digit_of(id, 0)];
}

/* Makes the tree tall enough for the id. */
static void heighten(struct idmap *m, uint64_t id)
{
        while (id > span_of(m->height)) {
                if (m->root) {
                        struct node *n = xcalloc(1, sizeof(*n));
                        n->used = 1;
                        n->child[0] = m->root;
                        m->root = n;
                }
                m->height++;
        }
}

void idmap_put(struct idmap *m, uint64_t id, void *item)
{
        void **at = &m->root;

        ASSERT(item != NULL);
        heighten(m, id);
        for (unsigned h = m->height; h > 0; h--) {
                if (!*at)
                        *at = xcalloc(1, sizeof(struct node));
                struct node *n = *at;
                unsigned digit = digit_of(id, h);
                n->used |= 1ULL << digit;
                at = &n->child[digit];
        }
        if (!*at)
                *at = xcalloc(1, sizeof(struct leaf));
        struct leaf *l = *at;
        unsigned digit = digit_of(id, 0);
        ASSERT(l->slot[digit] == NULL);
        l->used |= 1ULL << digit;
        l->slot[digit] = item;
        m->len++;
}

/* Takes levels off that only lead to slot 0. */
static void lower(struct idmap *m)
{
        if (!m->root)
                m->height = 0;
        while (m->height > 0 && used_of(m->root) == 1) {
                struct node *n = m->root;
                m->root = n->child[0];
                m->height--;
                free(n);
        }
}

void *idmap_take(struct idmap *m, uint64_t id)
{
        struct node *path[HEIGHT_MAX + 1]; /* by height */
        void *p = m->root;

        if (!p || id > span_of(m->height))
                return NULL;
        for (unsigned h = m->height; h > 0; h--) {
                path[h] = p;
                p = path[h]->child[digit_of(id, h)];
                if (!p)
                        return NULL;
        }
        struct leaf *l = p;
        unsigned digit = digit_of(id, 0);
        void *item = l->slot[digit];
        if (!item)
                return NULL;
        l->slot[digit] = NULL;
        l->used &= ~(1ULL << digit);
        m->len--;
        /* p climbs as long as what it leaves behind is empty. */
        for (unsigned h = 0; used_of(p) == 0; h++) {
                free(p);
                if (h == m->height) {
                        m->root = NULL;
                        break;
                }
                struct node *n = path[h + 1];
                digit = digit_of(id, h + 1);
                n->child[digit] = NULL;
                n->used &= ~(1ULL << digit);
                p = n;
        }
        lower(m);
        return item;
}

/* Frees depth first, without a stack: an inner node forgets the children it has handed over, and
 * the path from the root is found again for each (at most 11 steps). */
void idmap_release(struct idmap *m)
{
        while (m->root) {
                void **at = &m->root;
                unsigned h = m->height;
                struct node *parent = NULL;
                for (; h > 0; h--) {
                        struct node *n = *at;
                        if (n->used == 0)
                                break;
                        parent = n;
                        at = &n->child[__builtin_ctzll(n->used)];
                }
                if (parent)
                        parent->used &= parent->used - 1;
                free(*at);
                *at = NULL;
        }
        idmap_init(m);
}

static inline uint64_t bits_from(unsigned digit) /* digit and above */
{
        return UINT64_MAX << digit;
}

static inline uint64_t bits_upto(unsigned digit) /* digit and below */
{
        return UINT64_MAX >> (63 - digit);
}

static inline unsigned lowest(uint64_t bits)
{
        return (unsigned)__builtin_ctzll(bits);
}

static inline unsigned highest(uint64_t bits)
{
        return 63 - (unsigned)__builtin_clzll(bits);
}

/* A place where the search can turn off: the subtree of `p` at `height` (0 = a slot of a leaf). */
struct turn {
        const void *p;
        unsigned height;
        uint64_t id; /* of the smallest id below p, as far as it is known */
};

static inline struct turn turn_to(const struct node *n, unsigned height, uint64_t id,
                                  unsigned digit)
{
        return (struct turn){n->child[digit], height - 1,
                             (id & ~span_of(height)) | (uint64_t)digit << shift_of(height)};
}

/* Some slots of one leaf. */
struct run {
        const struct leaf *leaf; /* NULL: there is none */
        uint64_t base;           /* id of its first slot */
        uint64_t bits;           /* the slots that are meant, at least one */
};

static struct run run_from(const struct idmap *m, uint64_t from)
{
        const void *p = m->root;
        struct turn turn = {0}; /* the lowest place with something to the right of the path */
        unsigned h = m->height;

        if (!p || from > span_of(h))
                return (struct run){0};
        for (; p && h > 0; h--) {
                const struct node *n = p;
                unsigned digit = digit_of(from, h);
                uint64_t right = n->used & bits_from(digit) & ~(1ULL << digit);
                if (right)
                        turn = turn_to(n, h, from, lowest(right));
                p = n->child[digit];
        }
        if (p) {
                const struct leaf *l = p;
                uint64_t right = l->used & bits_from(digit_of(from, 0));
                if (right)
                        return (struct run){l, from & ~(uint64_t)(LEAF_SLOTS - 1), right};
        }
        if (!turn.p)
                return (struct run){0};
        while (turn.height > 0)
                turn = turn_to(turn.p, turn.height, turn.id, lowest(used_of(turn.p)));
        return (struct run){turn.p, turn.id, used_of(turn.p)};
}

static struct run run_upto(const struct idmap *m, uint64_t from)
{
        const void *p = m->root;
        struct turn turn = {0}; /* the lowest place with something to the left of the path */
        unsigned h = m->height;

        if (from > span_of(h))
                from = span_of(h);
        for (; p && h > 0; h--) {
                const struct node *n = p;
                unsigned digit = digit_of(from, h);
                uint64_t left = n->used & bits_upto(digit) & ~(1ULL << digit);
                if (left)
                        turn = turn_to(n, h, from, highest(left));
                p = n->child[digit];
        }
        if (p) {
                const struct leaf *l = p;
                uint64_t left = l->used & bits_upto(digit_of(from, 0));
                if (left)
                        return (struct run){l, from & ~(uint64_t)(LEAF_SLOTS - 1), left};
        }
        if (!turn.p)
                return (struct run){0};
        while (turn.height > 0)
                turn = turn_to(turn.p, turn.height, turn.id, highest(used_of(turn.p)));
        return (struct run){turn.p, turn.id, used_of(turn.p)};
}

void *idmap_next(const struct idmap *m, uint64_t from, uint64_t *ret_id)
{
        struct run run = run_from(m, from);
        if (!run.leaf)
                return NULL;
        *ret_id = run.base | lowest(run.bits);
        return run.leaf->slot[lowest(run.bits)];
}

void *idmap_prev(const struct idmap *m, uint64_t from, uint64_t *ret_id)
{
        struct run run = run_upto(m, from);
        if (!run.leaf)
                return NULL;
        *ret_id = run.base | highest(run.bits);
        return run.leaf->slot[highest(run.bits)];
}

_Static_assert(IDMAP_SOME == LEAF_SLOTS, "some are at most those of a leaf");

size_t idmap_next_some(const struct idmap *m, uint64_t from, uint64_t *ret_ids, void **ret_items)
{
        struct run run = run_from(m, from);
        size_t n = 0;
        for (; run.bits; run.bits &= run.bits - 1, n++) {
                ret_ids[n] = run.base | lowest(run.bits);
                ret_items[n] = run.leaf->slot[lowest(run.bits)];
        }
        return n;
}

size_t idmap_prev_some(const struct idmap *m, uint64_t from, uint64_t *ret_ids, void **ret_items)
{
        struct run run = run_upto(m, from);
        size_t n = 0;
        for (; run.bits; run.bits &= ~(1ULL << highest(run.bits)), n++) {
                ret_ids[n] = run.base | highest(run.bits);
                ret_items[n] = run.leaf->slot[highest(run.bits)];
        }
        return n;
}
