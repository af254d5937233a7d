/* See name.h.  A text is found by one hash look-up; nothing else here is worth an essay. */
#include "state/name.h"

#include <stdlib.h>

void name_table_init(struct name_table *t, uint64_t seed)
{
        hash_init(&t->table, seed);
        t->bytes = 0;
}

void name_table_release(struct name_table *t)
{
        ASSERT(t->table.len == 0);
        hash_release(&t->table);
}

struct name *name_get(struct name_table *t, struct slice text)
{
        struct hash_node *found = hash_find(&t->table, text);
        if (found)
                return name_ref(CONTAINER_OF(found, struct name, node));

        struct name *n = xmalloc(sizeof(*n) + text.len);
        n->refs = 1;
        n->len = (uint32_t)text.len;
        memset(n->n_parked, 0, sizeof(n->n_parked));
        n->tally_place = 0;
        if (text.len)
                memcpy(n->text, text.ptr, text.len);
        hash_insert(&t->table, &n->node, slice_make(n->text, n->len));
        t->bytes += sizeof(*n) + text.len;
        return n;
}

struct name *name_ref(struct name *n)
{
        ASSERT(n->refs > 0 && n->refs < UINT32_MAX);
        n->refs++;
        return n;
}

void name_unref(struct name_table *t, struct name *n)
{
        if (!n)
                return;
        ASSERT(n->refs > 0);
        if (--n->refs > 0)
                return;
        hash_remove(&t->table, &n->node);
        t->bytes -= sizeof(*n) + n->len;
        free(n);
}
