/* Things of a hash table in the order of their names, for listings a page at a time.
 *
 * A treap: a search tree by name that is a heap by the hash of the name, so it is balanced as well
 * as the hash is random, without a dice of its own.  Insertion, removal and search are O(log n),
 * about 0.5 us each among 100,000; a step to the next is O(1) on average.  Intrusive: 32 bytes a
 * thing. */
#ifndef WEIR_BASE_ORDER_H
#define WEIR_BASE_ORDER_H

#include "base/hash.h"

struct order_node {
        struct order_node *left, *right, *up;
        const struct hash_node *of; /* its name and hash; NULL: it is in no order */
};

struct order {
        struct order_node *root;
};

void order_insert(struct order *o, struct order_node *n, const struct hash_node *of);
void order_remove(struct order *o, struct order_node *n);
/* The first with a name beyond this one (empty: the very first); NULL when there is none. */
struct order_node *order_after(const struct order *o, struct slice name);
struct order_node *order_next(const struct order_node *n);
void order_check(const struct order *o, size_t len); /* asserts that it is one, of so many */

#endif
