/* See scope.h. */
#include "things/scope.h"

#include <stdlib.h>

struct thing *scope_find(const struct core *core, enum thing_kind kind, struct slice prefix,
                         struct slice name)
{
        char text[LIMIT_NAME_BYTES];
        if (!name.len || prefix.len + name.len > sizeof(text))
                return NULL; /* no thing has such a name */
        memcpy(text, prefix.ptr, prefix.len);
        memcpy(text + prefix.len, name.ptr, name.len);
        return thing_find(&core->state, kind, slice_make(text, prefix.len + name.len));
}

struct queue *scope_queue(const struct core *core, const struct thing *t, struct slice prefix)
{
        struct slice name = thing_name(t);
        ASSERT(name.len > prefix.len);
        return state_queue_find(&core->state,
                                slice_make(name.ptr + prefix.len, name.len - prefix.len));
}

void scope_wake(struct core *core, struct queue *queue)
{
        if (queue)
                core->state.on_ready(core->state.ctx, queue);
}

static int by_name(const void *a, const void *b)
{
        struct thing *const *x = a, *const *y = b;
        return slice_cmp(thing_name(*x), thing_name(*y));
}

struct thing **scope_sorted(const struct core *core, enum thing_kind kind, size_t *ret_n)
{
        const struct hash *all = &core->state.things[kind];
        struct thing **sorted = xcalloc(all->len + 1, sizeof(struct thing *));
        *ret_n = 0;
        for (struct hash_node *it = NULL; (it = hash_next(all, it));)
                sorted[(*ret_n)++] = CONTAINER_OF(it, struct thing, node);
        qsort(sorted, *ret_n, sizeof(struct thing *), by_name);
        return sorted;
}
