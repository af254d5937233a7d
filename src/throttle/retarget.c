/* See retarget.h.
 *
 * A target is the same when its name is, a metric when its name and that of its target are: an
 * address, a threshold or a dwell that changed does not make the load of before untrue.  The level
 * goes along whole, with what it knows of the past, so that a reload alone never makes a
 * transition; only when the metric that decides is gone the level begins anew, and at once follows
 * from the values of the others. */
#include "throttle/retarget.h"

#include <stdlib.h>

/* ---- the map ---- */

static int find_target(const struct target *targets, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(targets[i].name, name) == 0)
                        return (int)i;
        return -1;
}

struct retarget *retarget_new(const struct target *old, size_t n_old, const struct target *now,
                              size_t n_now)
{
        struct retarget *r = xcalloc(1, sizeof(*r));
        r->n_old = n_old;
        r->n_new = n_now;
        r->is_same = true;
        r->old = xcalloc(n_old + 1, sizeof(*r->old));
        for (size_t i = 0; i < n_old; i++) {
                int to = r->old[i].target = find_target(now, n_now, old[i].name);
                r->is_same &= to == (int)i;
                for (size_t k = 0; k < LEVEL_METRICS_MAX; k++) {
                        bool is_there = to >= 0 && k < old[i].n_metrics;
                        r->old[i].metric[k] =
                                is_there
                                        ? target_metric(&now[to], slice_str(old[i].metrics[k].name))
                                        : -1;
                        r->is_same &= k >= old[i].n_metrics || r->old[i].metric[k] == (int)k;
                }
        }
        return r;
}

struct retarget *retarget_free(struct retarget *r)
{
        if (r)
                free(r->old);
        free(r);
        return NULL;
}

int retarget_target(const struct retarget *r, int target)
{
        return target >= 0 && (size_t)target < r->n_old ? r->old[target].target : -1;
}

int retarget_metric(const struct retarget *r, int target, int metric)
{
        if (target < 0 || (size_t)target >= r->n_old || metric < 0 || metric >= LEVEL_METRICS_MAX)
                return -1;
        return r->old[target].metric[metric];
}

/* ---- levels ---- */

/* The history moves over; the old metric keeps an empty one, to be freed. */
static void carry_metric(struct target *to, size_t k, struct target *from, size_t j)
{
        struct metric *m = &to->metrics[k], *was = &from->metrics[j];
        float *empty = m->history;
        m->history = was->history;
        m->history_s = was->history_s;
        was->history = empty;
        m->has_learned = was->has_learned;
        m->learned = was->learned;
        m->learned_hours = was->learned_hours;
        m->learned_ns = was->learned_ns;
        memcpy(m->error, was->error, sizeof(m->error));
        memcpy(m->note, was->note, sizeof(m->note));
        to->samples[k] = from->samples[j];
}

static void carry_leveler(struct leveler *to, const struct leveler *from, const int *metric,
                          size_t n_old)
{
        struct leveler l = *from;
        l.known_mask = l.pending_mask = 0;
        memset(l.metric_level, 0, sizeof(l.metric_level));
        memset(l.reached, 0, sizeof(l.reached));
        for (size_t j = 0; j < n_old; j++) {
                if (metric[j] < 0)
                        continue;
                l.metric_level[metric[j]] = from->metric_level[j];
                l.reached[metric[j]] = from->reached[j];
                l.known_mask |= (from->known_mask >> j & 1) << metric[j];
                l.pending_mask |= (from->pending_mask >> j & 1) << metric[j];
        }
        l.metric = from->metric >= 0 ? metric[from->metric] : -1;
        l.cause = from->cause >= 0 ? metric[from->cause] : -1;
        *to = l;
}

static void carry_target(struct core *core, struct target *to, struct target *from,
                         const int *metric)
{
        const struct leveler *was = &from->leveler;
        size_t n_kept = 0;
        to->is_restored = from->is_restored;
        to->cores = from->cores;
        for (size_t j = 0; j < from->n_metrics; j++) {
                if (metric[j] < 0)
                        continue;
                carry_metric(to, (size_t)metric[j], from, j);
                n_kept++;
        }
        if (was->metric >= 0 && metric[was->metric] < 0) {
                throttle_tell(core, "level_begins_anew",
                              "%s was %s by %s, which is no metric of it any more", to->name,
                              level_name(was->level), from->metrics[was->metric].name);
                return;
        }
        to->last_known = from->last_known;
        to->last_known_ms = from->last_known_ms;
        carry_leveler(&to->leveler, was, metric, from->n_metrics);
        if (n_kept < to->n_metrics) /* the new ones are waited for from now on */
                to->leveler.began_ns = core->now.steady_ns;
}

void retarget_levels(struct core *core, const struct retarget *r, struct target *old)
{
        for (size_t i = 0; i < r->n_old; i++)
                if (r->old[i].target >= 0)
                        carry_target(core, &core->throttle->targets[r->old[i].target], &old[i],
                                     r->old[i].metric);
}
