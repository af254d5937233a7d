/* What rate limits and circuit breakers share: their names say what they are about ("queue:mail").
 */
#ifndef WEIR_THINGS_SCOPE_H
#define WEIR_THINGS_SCOPE_H

#include "core/kernel.h"

/* The thing whose name is the prefix and then this name; NULL when there is none. */
struct thing *scope_find(const struct core *core, enum thing_kind kind, struct slice prefix,
                         struct slice name);
/* The queue that is named behind the prefix; NULL when there is none. */
struct queue *scope_queue(const struct core *core, const struct thing *t, struct slice prefix);
/* Claims that wait for the queue are served at the end of the turn; NULL is fine. */
void scope_wake(struct core *core, struct queue *queue);
/* All of a kind in the order of their names; the caller frees the array. */
struct thing **scope_sorted(const struct core *core, enum thing_kind kind, size_t *ret_n);

#endif
