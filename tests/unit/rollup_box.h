/* Rollups made of few words, for the tests. */
#ifndef WEIR_TESTS_UNIT_ROLLUP_BOX_H
#define WEIR_TESTS_UNIT_ROLLUP_BOX_H

#include <stdlib.h>

#include "core/rollup.h"

/* Of one minute, with nothing in it. */
static inline void minute_init(struct rollup *r, int64_t at)
{
        rollup_init(r);
        r->at = r->since = at;
        r->span = ROLLUP_MINUTE;
        for (size_t i = 0; i < TALLY_KINDS; i++)
                r->tables[i] = (struct rollup_table){xcalloc(1, sizeof(struct rollup_row)), 1};
}

/* The cell of a name, made when it is missing; the name is kept by the caller. */
static inline union tally_cell *minute_cell(struct rollup *r, enum tally_kind kind,
                                            struct slice name)
{
        struct rollup_table *t = &r->tables[kind];
        size_t i = 0;
        while (i < t->n && slice_cmp(t->rows[i].name, name) < 0)
                i++;
        if (i < t->n && slice_eq(t->rows[i].name, name))
                return &t->rows[i].cell;
        t->rows = xrealloc(t->rows, (t->n + 1) * sizeof(*t->rows));
        memmove(t->rows + i + 1, t->rows + i, (t->n - i) * sizeof(*t->rows));
        t->n++;
        t->rows[i] = (struct rollup_row){.name = name};
        return &t->rows[i].cell;
}

static inline void minute_job(struct rollup *r, const char *hook, uint64_t wait_ms, uint64_t run_ms)
{
        struct tally_jobs *c = &minute_cell(r, TALLY_HOOK, slice_str(hook))->jobs;
        octaves_add(&c->wait, wait_ms);
        octaves_add(&c->run, run_ms);
        c->completed++;
        r->totals[1]++; /* started */
        r->totals[2]++;
}

#endif
