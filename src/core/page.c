/* See page.h.  A step to the next name takes 0.1 us when its memory is not in the cache, so a page
 * of 50 among 100,000 things takes some microseconds.  A text that few names hold could lead
 * through all of them: LOOKS_MAX of them are enough for one page, and the cursor goes on from
 * there. */
#include "core/page.h"

#include "base/needle.h"

#define LOOKS_MAX 5000

static bool is_wanted(const struct needle *match, const struct thing *t)
{
        return thing_is_durable(t) && needle_is_in(match, thing_name(t));
}

void page_fill(struct page *p, const struct state *s, enum thing_kind kind, struct slice cursor)
{
        struct needle match = needle_make(p->match);
        size_t looks = 0;
        ASSERT(p->max > 0 && s->kinds[kind]->is_ordered);
        p->n = 0;
        p->last = NULL;
        p->has_more = false;
        for (struct order_node *n = order_after(&s->ordered[kind], cursor); n; n = order_next(n)) {
                const struct thing *t = CONTAINER_OF(n, const struct thing, order);
                bool is_here = is_wanted(&match, t);
                /* Something that is not wanted follows a full page: nothing is known yet. */
                p->has_more = (is_here && p->n == p->max) || looks++ == LOOKS_MAX;
                if (p->has_more)
                        return;
                if (is_here)
                        p->things[p->n++] = t;
                if (p->n < p->max || is_here)
                        p->last = t;
        }
}

struct slice page_cursor(const struct page *p)
{
        return p->has_more && p->last ? thing_name(p->last) : SLICE_LIT("");
}
