/* See order.h.
 *
 * Invariants, checked by order_check():
 *   (1) an in-order walk meets the names in ascending order, each once
 *   (2) no node has a larger hash than the one above it
 *   (3) `up` of a child is its parent; the root's is NULL */
#include "base/order.h"

/* Where the pointer to n is kept. */
static struct order_node **place_of(struct order *o, const struct order_node *n)
{
        if (!n->up)
                return &o->root;
        return n->up->left == n ? &n->up->left : &n->up->right;
}

static void set_up(struct order_node *n, struct order_node *up)
{
        if (n)
                n->up = up;
}

/* The child takes the place of its parent, which becomes its child on the other side. */
static void rotate(struct order *o, struct order_node *child)
{
        struct order_node *parent = child->up;
        *place_of(o, parent) = child;
        child->up = parent->up;
        if (parent->left == child) {
                parent->left = child->right;
                set_up(child->right, parent);
                child->right = parent;
        } else {
                parent->right = child->left;
                set_up(child->left, parent);
                child->left = parent;
        }
        parent->up = child;
}

void order_insert(struct order *o, struct order_node *n, const struct hash_node *of)
{
        struct order_node **at = &o->root, *up = NULL;
        while (*at) {
                up = *at;
                int c = slice_cmp(of->key, up->of->key);
                ASSERT(c != 0);
                at = c < 0 ? &up->left : &up->right;
        }
        *n = (struct order_node){.up = up, .of = of};
        *at = n;
        while (n->up && n->up->of->hash < of->hash)
                rotate(o, n);
}

void order_remove(struct order *o, struct order_node *n)
{
        ASSERT(n->of);
        while (n->left && n->right)
                rotate(o, n->left->of->hash > n->right->of->hash ? n->left : n->right);
        struct order_node *child = n->left ? n->left : n->right;
        *place_of(o, n) = child;
        set_up(child, n->up);
        *n = (struct order_node){0};
}

struct order_node *order_after(const struct order *o, struct slice name)
{
        struct order_node *found = NULL;
        for (struct order_node *n = o->root; n;) {
                if (!name.len || slice_cmp(n->of->key, name) > 0) {
                        found = n;
                        n = n->left;
                } else {
                        n = n->right;
                }
        }
        return found;
}

struct order_node *order_next(const struct order_node *n)
{
        struct order_node *next = n->right;
        if (next) {
                while (next->left)
                        next = next->left;
                return next;
        }
        for (next = n->up; next && next->right == n; next = next->up)
                n = next;
        return next;
}

void order_check(const struct order *o, size_t len)
{
        ASSERT(!o->root || !o->root->up);
        const struct order_node *last = NULL;
        for (const struct order_node *n = order_after(o, SLICE_NONE); n; n = order_next(n)) {
                ASSERT(!last || slice_cmp(last->of->key, n->of->key) < 0);
                ASSERT(!n->left || (n->left->up == n && n->left->of->hash <= n->of->hash));
                ASSERT(!n->right || (n->right->up == n && n->right->of->hash <= n->of->hash));
                last = n;
                ASSERT(len-- > 0);
        }
        ASSERT(len == 0);
}
