/* Actions of the critical tier go in front of all others (guard/front.c).
 *
 * The ledger (state/front.h) has what they had before.  A row goes when its action is not pending
 * with priority 0 any more: it ran, or somebody changed it.  A row of a series stays as long as an
 * action of the series is pending, because that one has inherited the 0.  Priorities are given back
 * when the hook leaves the tier, the site leaves enforce, or `front` is switched off. */
#include <stdlib.h>
#include <string.h>

#include "sites/sites_state.h"

#define SEEN_EVERY_MS   10000 /* the ledger is looked through; at once while it is given back */
#define ORDERED_KEPT_MS 60000 /* a runner claims at least once a minute while something is due */
#define FRONT_BYTES     (FRONT_ROWS_MAX * 16) /* of the log, for one hook */

void front_due(struct core *core, struct thing *t)
{
        (void)core; /* it has no alarm */
        (void)t;
}

static bool front_is_wanted(const struct core *core, const struct site *s, struct slice hook)
{
        return s->is_front && site_mode(core, s) == MODE_ENFORCE &&
               site_tier(core, s, hook) == TIER_CRITICAL;
}

static int front_by_id(const void *a, const void *b)
{
        const struct front_row *x = a, *y = b;
        return (x->id > y->id) - (x->id < y->id);
}

static void front_write(struct core *core, struct slice site, struct slice hook,
                        const struct front_row *rows, size_t n)
{
        char name[FRONT_NAME_MAX];
        struct buf packed CLEANUP(buf_release) = {0};
        struct front_values v;
        front_put_name(name, site, hook);
        if (!n) {
                struct thing *t = thing_find(&core->state, THING_FRONT, slice_str(name));
                if (t)
                        thing_gone(core, t);
                return;
        }
        front_pack(&v, rows, n, &packed);
        buf_clear(&core->body);
        front_put(&v, &core->body);
        thing_set(core, THING_FRONT, slice_str(name), buf_slice(&core->body));
}

/* ---- to the front ---- */

/* The new rows and those of the old ones that they do not replace: one action, or the next of one
 * series.  Returns how many; the new ones first. */
static size_t front_merge(struct front_row *rows, size_t n, const struct front_row *old,
                          size_t n_old)
{
        size_t n_all = n;
        for (size_t i = 0; i < n_old; i++) {
                bool is_replaced = bsearch(&old[i], rows, n, sizeof(*rows), front_by_id) != NULL;
                for (size_t k = 0; old[i].series && k < n && !is_replaced; k++)
                        is_replaced = rows[k].series == old[i].series;
                if (!is_replaced)
                        rows[n_all++] = old[i];
        }
        return n_all;
}

int sites_front(struct core *core, struct slice site, struct slice hook, struct front_row *rows,
                size_t *n, struct problem *problem)
{
        struct site *s = site_by_name(core, site);
        size_t n_asked = *n, n_old = 0, n_new = 0;
        *n = 0;
        if (!s || hook.len > SITE_HOOK_MAX || !front_is_wanted(core, s, hook))
                return OK;
        struct front_row *all = xcalloc(2 * FRONT_ROWS_MAX, sizeof(*all));
        struct front_row *old = xcalloc(FRONT_ROWS_MAX, sizeof(*old));
        const struct front *f = front_find(&core->state, site, hook);
        if (f)
                n_old = front_unpack(&f->values, old);
        qsort(rows, n_asked, sizeof(*rows), front_by_id);
        for (size_t i = 0; i < n_asked && n_old + n_new < FRONT_ROWS_MAX; i++)
                if (rows[i].priority && (!n_new || rows[i].id > all[n_new - 1].id))
                        all[n_new++] = rows[i];
        int r = n_new ? core_admit(core, FRONT_BYTES, 0, problem) : OK;
        if (r == OK && n_new) {
                memcpy(rows, all, n_new * sizeof(*rows));
                size_t n_all = front_merge(all, n_new, old, n_old);
                qsort(all, n_all, sizeof(*all), front_by_id);
                front_write(core, site, hook, all, n_all);
                s->total_fronted += n_new;
                *n = n_new;
        }
        free(all);
        free(old);
        return r;
}

/* ---- and back ---- */

/* The ledger of a hook beside what the site was asked for and what it has, each by id and by
 * series. */
struct front_look {
        struct front_row old[FRONT_ROWS_MAX], old_series[FRONT_ROWS_MAX];
        size_t n_old, n_seen;
        struct front_row *seen, *seen_series;
        const struct site_front *asked; /* by id */
};

static struct front_row *front_sorted(const struct front_row *rows, size_t n,
                                      int (*order)(const void *, const void *))
{
        struct front_row *copy = xcalloc(n + 1, sizeof(*copy));
        if (n)
                memcpy(copy, rows, n * sizeof(*copy));
        qsort(copy, n, sizeof(*copy), order);
        return copy;
}

static struct front_look *front_look_new(const struct front *f, const struct site_front *asked,
                                         const struct front_row *seen, size_t n)
{
        struct front_look *l = xcalloc(1, sizeof(*l));
        l->asked = asked;
        l->n_old = front_unpack(&f->values, l->old);
        memcpy(l->old_series, l->old, sizeof(l->old));
        qsort(l->old_series, l->n_old, sizeof(*l->old), front_by_series);
        l->n_seen = n;
        l->seen = front_sorted(seen, n, front_by_id);
        l->seen_series = front_sorted(seen, n, front_by_series);
        return l;
}

static void front_look_free(struct front_look *l)
{
        free(l->seen);
        free(l->seen_series);
        free(l);
}

static const struct front_row *front_lookup(const struct front_row *rows, size_t n,
                                            const struct front_row *rows_series,
                                            const struct front_row *key)
{
        const struct front_row *row = bsearch(key, rows, n, sizeof(*rows), front_by_id);
        if (!row && key->series)
                row = bsearch(key, rows_series, n, sizeof(*rows_series), front_by_series);
        return row;
}

/* Rows that came into the ledger since the site was asked stay. */
static void front_forget(struct core *core, struct slice site, struct slice hook,
                         const struct front_look *l)
{
        struct front_row *left = xcalloc(FRONT_ROWS_MAX, sizeof(*left));
        size_t n = 0;
        for (size_t i = 0; i < l->n_old; i++) {
                const struct front_row *row = &l->old[i];
                bool was_asked = bsearch(row, l->asked->rows, l->asked->n_rows, sizeof(*row),
                                         front_by_id) != NULL;
                if (!was_asked || front_lookup(l->seen, l->n_seen, l->seen_series, row))
                        left[n++] = *row;
        }
        if (n < l->n_old)
                front_write(core, site, hook, left, n);
        free(left);
}

void sites_fronted(struct core *core, struct slice site, const struct site_front *asked,
                   struct front_row *rows, size_t *n, bool is_all)
{
        struct slice hook = asked->hook;
        const struct site *s = site_by_name(core, site);
        const struct front *f = front_find(&core->state, site, hook);
        size_t n_seen = *n;
        *n = 0;
        if (!s || !f)
                return;
        struct front_look *l = front_look_new(f, asked, rows, n_seen);
        for (size_t i = 0; i < n_seen && !front_is_wanted(core, s, hook); i++) {
                const struct front_row *from =
                        front_lookup(l->old, l->n_old, l->old_series, &l->seen[i]);
                if (from && (!*n || l->seen[i].id > rows[*n - 1].id))
                        rows[(*n)++] = (struct front_row){l->seen[i].id, 0, from->priority};
        }
        if (is_all)
                front_forget(core, site, hook, l);
        front_look_free(l);
}

/* ---- the plan ---- */

bool site_has_fronts(const struct core *core, const struct site *s)
{
        return front_next(&core->state, slice_str(s->name), NULL) != NULL;
}

/* The rows of a hook whose ledger is to be compared with the site. */
static void front_add(struct site_plan *plan, const struct front *f)
{
        struct site_front *to = &plan->fronts[plan->n_fronts++];
        struct front_row *rows = arena_array(&plan->arena, f->values.n_rows + 1, sizeof(*rows));
        struct front_row *all = xcalloc(FRONT_ROWS_MAX, sizeof(*all));
        ASSERT(rows);
        to->n_rows = front_unpack(&f->values, all);
        memcpy(rows, all, to->n_rows * sizeof(*rows));
        free(all);
        to->rows = rows;
        to->hook = arena_copy(&plan->arena, front_hook(f));
        ASSERT(to->hook.ptr);
}

void site_plan_front(struct core *core, struct site *s, struct site_plan *plan)
{
        int64_t now_ms = core->now.wall_ms;
        bool is_time = now_ms - s->fronts_seen_ms >= SEEN_EVERY_MS || now_ms < s->fronts_seen_ms;
        bool is_ordered = s->ordered_ms && now_ms - s->ordered_ms < ORDERED_KEPT_MS;
        plan->is_front = s->is_front && plan->mode == MODE_ENFORCE && !is_ordered;
        plan->fronts = arena_array(&plan->arena, SITE_FIRST_MAX, sizeof(*plan->fronts));
        ASSERT(plan->fronts);
        if (is_time)
                s->fronts_seen_ms = now_ms;
        for (const struct front *f = NULL; plan->n_fronts < SITE_FIRST_MAX &&
                                           (f = front_next(&core->state, slice_str(s->name), f));)
                if (is_time || !front_is_wanted(core, s, front_hook(f)))
                        front_add(plan, f);
}
