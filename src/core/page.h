/* A page of things by name: what is looked at is the page, and memory is for the page alone.
 *
 *      const struct thing *things[LIMIT_LIST_BATCHES];
 *      struct page p = {.things = things, .max = 50};
 *      page_fill(&p, &core->state, THING_BATCH, cursor);
 *
 * Only for kinds that are kept in order (state/thing.h thing_ops.is_ordered). */
#ifndef WEIR_CORE_PAGE_H
#define WEIR_CORE_PAGE_H

#include "state/state.h"

struct page {
        const struct thing **things; /* room for max of them */
        size_t n, max;
        struct slice match;       /* a text the names must hold; empty: any */
        const struct thing *last; /* that was looked at */
        bool has_more;            /* beyond it */
};

/* The first names after the cursor (empty: from the beginning) of those that the log knows.  With a
 * text to match, a page may end early, or be empty, and still not be the last: see page_cursor().
 */
void page_fill(struct page *p, const struct state *s, enum thing_kind kind, struct slice cursor);
/* Where the next page begins; empty at the end. */
struct slice page_cursor(const struct page *p);

#endif
