/* A page of things by name: one look at each of a kind, and memory for the page alone.
 *
 *      const struct thing *things[LIMIT_LIST_BATCHES];
 *      struct page p = {.things = things, .max = 50};
 *      page_fill(&p, &core->state, THING_BATCH, cursor);
 */
#ifndef WEIR_CORE_PAGE_H
#define WEIR_CORE_PAGE_H

#include "state/state.h"

struct page {
        const struct thing **things; /* room for max of them */
        size_t n, max;
        struct slice match; /* a text the names must hold; empty: any */
        bool has_more;
};

/* The first names after the cursor (empty: from the beginning) of those that the log knows. */
void page_fill(struct page *p, const struct state *s, enum thing_kind kind, struct slice cursor);
/* Where the next page begins; empty at the end. */
struct slice page_cursor(const struct page *p);

#endif
