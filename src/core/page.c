/* See page.h.  While the kind is walked, the page is a heap of the smallest names so far with the
 * largest on top: most names are compared with that one and left out. */
#include "core/page.h"

#include <stdlib.h>

static int compare(const struct thing *a, const struct thing *b)
{
        return slice_cmp(thing_name(a), thing_name(b));
}

static void sift_down(struct page *p, const struct thing *t)
{
        size_t i = 0;
        for (;;) {
                size_t child = 2 * i + 1;
                if (child + 1 < p->n && compare(p->things[child], p->things[child + 1]) < 0)
                        child++;
                if (child >= p->n || compare(p->things[child], t) <= 0)
                        break;
                p->things[i] = p->things[child];
                i = child;
        }
        p->things[i] = t;
}

static void add(struct page *p, const struct thing *t)
{
        if (p->n == p->max) {
                p->has_more = true;
                if (compare(t, p->things[0]) < 0)
                        sift_down(p, t);
                return;
        }
        size_t i = p->n++;
        for (; i > 0 && compare(t, p->things[(i - 1) / 2]) > 0; i = (i - 1) / 2)
                p->things[i] = p->things[(i - 1) / 2];
        p->things[i] = t;
}

static int by_name(const void *a, const void *b)
{
        const struct thing *const *x = a, *const *y = b;
        return compare(*x, *y);
}

void page_fill(struct page *p, const struct state *s, enum thing_kind kind, struct slice cursor)
{
        ASSERT(p->max > 0);
        p->n = 0;
        p->has_more = false;
        for (struct hash_node *n = NULL; (n = hash_next(&s->things[kind], n));) {
                const struct thing *t = CONTAINER_OF(n, struct thing, node);
                if (!thing_is_durable(t) || (cursor.len && slice_cmp(n->key, cursor) <= 0))
                        continue;
                if (!p->match.len || slice_contains(n->key, p->match))
                        add(p, t);
        }
        qsort(p->things, p->n, sizeof(const struct thing *), by_name);
}

struct slice page_cursor(const struct page *p)
{
        return p->has_more ? thing_name(p->things[p->n - 1]) : SLICE_LIT("");
}
