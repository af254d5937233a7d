/* See rollup_view.h.
 *
 * A rollup must not be longer than a step, and lies in one: whoever asks takes care of it.  What it
 * counts belongs to the point of its first minute.  The minutes from `since` on were without
 * events: they are known, and gauges were as they are told. */
#include "core/rollup_view.h"

#include <math.h>
#include <stdlib.h>

#include "base/civil.h"

void rollup_view_init(struct rollup_view *v)
{
        arena_init(&v->texts, 0);
        v->points = xcalloc(v->n + 1, sizeof(*v->points));
        v->maxima = xmalloc((v->n * v->n_metrics + 1) * sizeof(*v->maxima));
        for (size_t i = 0; i < v->n * v->n_metrics; i++)
                v->maxima[i] = NAN;
}

void rollup_view_release(struct rollup_view *v)
{
        free(v->points);
        free(v->maxima);
        arena_release(&v->texts);
        v->points = NULL;
        v->maxima = NULL;
}

static void know(struct rollup_view *v, const struct rollup *r)
{
        int64_t first = floor_div(r->since - v->from, v->step);
        int64_t last = floor_div(r->at - v->from, v->step);
        for (int64_t i = first > 0 ? first : 0; i <= last && i < (int64_t)v->n; i++) {
                struct rollup_point *p = &v->points[i];
                p->is_known = true;
                for (size_t k = ROLLUP_COUNTS; k < ROLLUP_TOTALS; k++)
                        if (r->totals[k] > p->totals[k])
                                p->totals[k] = r->totals[k];
        }
}

static void add_metrics(struct rollup_view *v, const struct rollup *r, size_t at)
{
        for (size_t i = 0; i < v->n_metrics; i++) {
                const union tally_cell *c = rollup_find(&r->tables[TALLY_METRIC], v->metrics[i]);
                float *max = &v->maxima[i * v->n + at];
                if (c && c->values.n)
                        *max = fmaxf(*max, c->values.max); /* passes over NAN */
        }
}

static unsigned kinds_of(const struct rollup_view *v)
{
        if (v->kind >= 0)
                return 1u << v->kind;
        return v->n_metrics ? 1u << TALLY_METRIC : 0;
}

/* A cause is a text of its rollup: kept here, with a NUL behind it. */
static struct slice keep_text(struct rollup_view *v, struct slice cause)
{
        char *text = arena_alloc(&v->texts, cause.len + 1);
        if (!text)
                return SLICE_NONE;
        memcpy(text, cause.ptr, cause.len);
        text[cause.len] = '\0';
        return slice_make(text, cause.len);
}

static void add(struct rollup_view *v, const struct rollup *r)
{
        know(v, r);
        int64_t at = floor_div(r->at - v->from, v->step);
        if (at < 0 || at >= (int64_t)v->n)
                return;
        struct rollup_point *p = &v->points[at];
        for (size_t i = 0; i < ROLLUP_COUNTS; i++)
                p->totals[i] += r->totals[i];
        add_metrics(v, r, (size_t)at);
        if (v->kind < 0)
                return;
        const union tally_cell *c = rollup_find(&r->tables[v->kind], v->name);
        if (!c)
                return;
        tally_cell_merge((enum tally_kind)v->kind, &p->cell, c);
        if (v->kind == TALLY_CLIENT && c->asks.cause.len)
                p->cell.asks.cause = keep_text(v, c->asks.cause);
}

int rollup_view_add(struct rollup_view *v, struct slice body)
{
        struct rollup r;
        rollup_init(&r);
        int err = rollup_unpack(body, kinds_of(v), &r);
        if (!err)
                add(v, &r);
        rollup_release(&r);
        return err;
}
