/* What /metrics tells of the doors.
 *
 * At most OWN_CLASSES classes of a door have lines of their own, the most active first; all others
 * are added up as "other".  Once told, a class keeps its lines: one that went back into the sum
 * would make a counter fall. */
#include <math.h>
#include <stdio.h>

#include "traffic/traffic_state.h"

#define OWN_CLASSES 100
#define OTHER       "other"
#define S_OF_NS     1e-9

struct samples {
        void (*fn)(void *ctx, const char *name, const char *labels, double value);
        void *ctx;
        struct buf labels;
};

static void put(struct samples *s, const char *name, double value)
{
        s->fn(s->ctx, name, buf_cstr(&s->labels), value);
}

/* ---- doors ---- */

static void put_door(struct samples *s, const struct door *d, const struct traffic_door *now)
{
        const struct admission_state *a = &now->admission;
        buf_clear(&s->labels);
        throttle_put_label(&s->labels, "proxy", d->name);
        put(s, "proxy_up", !now->problem[0]);
        put(s, "proxy_draining", now->is_draining);
        put(s, "proxy_connections", now->connections);
        put(s, "proxy_in_transaction", now->in_transaction);
        put(s, "proxy_with_locks", now->with_locks);
        put(s, "proxy_blind", now->blind);
        put(s, "proxy_running", a->running);
        put(s, "proxy_waiting", a->waiting);
        put(s, "proxy_executing", a->executing);
        put(s, "proxy_window", a->window);
        put(s, "proxy_excess", a->excess);
        put(s, "proxy_over", a->is_over);
        put(s, "proxy_slowdown_ratio", a->slowdown > 0 ? a->slowdown : NAN);
        put(s, "proxy_slow_ratio", a->slow_share);
        put(s, "proxy_accepted_total", (double)now->accepted);
        put(s, "proxy_refused_connections_total", (double)now->refused);
        size_t len = s->labels.len;
        throttle_put_label(&s->labels, "direction", "in");
        put(s, "proxy_bytes_total", (double)now->bytes_in);
        s->labels.len = len;
        throttle_put_label(&s->labels, "direction", "out");
        put(s, "proxy_bytes_total", (double)now->bytes_out);
}

/* ---- classes ---- */

/* Prometheus adds up: a bucket holds all times up to its bound.  Every second bound is told. */
static void put_times(struct samples *s, const char *family, const struct admit_times *t)
{
        char name[48], bound[32];
        size_t len = s->labels.len;
        uint64_t sum = 0;
        (void)snprintf(name, sizeof(name), "%s_bucket", family);
        for (size_t i = 0; i < ADMIT_BUCKETS; i++) {
                bool is_last = i == ADMIT_BUCKETS - 1;
                sum += t->n[i];
                if (i % 2 && !is_last)
                        continue;
                (void)snprintf(bound, sizeof(bound), "%.6g", ldexp(16e-6, (int)i));
                throttle_put_label(&s->labels, "le", is_last ? "+Inf" : bound);
                put(s, name, (double)sum);
                s->labels.len = len;
        }
        (void)snprintf(name, sizeof(name), "%s_sum", family);
        put(s, name, (double)t->sum_ns * S_OF_NS);
        (void)snprintf(name, sizeof(name), "%s_count", family);
        put(s, name, (double)sum);
}

static void put_reasons(struct samples *s, const struct class_counts *n, bool is_other)
{
        size_t len = s->labels.len;
        for (size_t i = ADMIT_BY_NONE + 1; i < ADMIT_REASONS; i++) {
                if (!n->by_reason[i] && !is_other)
                        continue;
                throttle_put_label(&s->labels, "reason", admit_reason_name((enum admit_reason)i));
                put(s, "proxy_kept_total", (double)n->by_reason[i]);
                s->labels.len = len;
        }
}

static void put_class(struct samples *s, const struct door *d, const struct told_class *c,
                      bool is_other)
{
        const struct class_counts *n = &c->counts;
        buf_clear(&s->labels);
        throttle_put_label(&s->labels, "proxy", d->name);
        throttle_put_label(&s->labels, "class", c->class.identity);
        throttle_put_label(&s->labels, "row", c->class.row);
        put(s, "proxy_class_running", c->running);
        put(s, "proxy_class_waiting", c->waiting);
        put(s, "proxy_class_executing", c->executing);
        put(s, "proxy_class_usual", c->usual > 0 ? c->usual : NAN);
        put(s, "proxy_class_oldest_wait_seconds", (double)c->oldest_ns * S_OF_NS);
        put(s, "proxy_transactions_total", (double)n->transactions);
        put(s, "proxy_statements_total", (double)n->statements);
        put(s, "proxy_rows_total", (double)n->rows);
        put(s, "proxy_errors_total", (double)n->errors);
        put(s, "proxy_held_total", (double)n->held);
        put(s, "proxy_refused_total", (double)n->refused);
        put(s, "proxy_left_total", (double)n->left);
        put(s, "proxy_observed_total", (double)n->observed);
        put(s, "proxy_busy_seconds_total", (double)n->busy_ns * S_OF_NS);
        put_reasons(s, n, is_other);
        put_times(s, "proxy_wait_seconds", &n->waits);
        put_times(s, "proxy_service_seconds", &n->services);
}

static void add_times(struct admit_times *to, const struct admit_times *t)
{
        to->sum_ns += t->sum_ns;
        for (size_t i = 0; i < ADMIT_BUCKETS; i++)
                to->n[i] += t->n[i];
}

static void add_class(struct told_class *to, const struct told_class *c)
{
        const struct class_counts *n = &c->counts;
        to->running += c->running;
        to->waiting += c->waiting;
        to->executing += c->executing;
        if (c->oldest_ns > to->oldest_ns)
                to->oldest_ns = c->oldest_ns;
        counts_add(&to->counts, n);
        for (size_t i = 0; i < ADMIT_REASONS; i++)
                to->counts.by_reason[i] += n->by_reason[i];
        add_times(&to->counts.waits, &n->waits);
        add_times(&to->counts.services, &n->services);
}

/* Has the class lines of its own?  *n_own counts those that have. */
static bool is_own(const struct door *d, const struct told_class *c, size_t *n_own)
{
        struct known_class *k = c->number < d->n_classes ? d->classes[c->number] : NULL;
        if (!k || (strcmp(c->class.identity, OTHER) == 0 && !c->class.row[0]))
                return false;
        if (!k->has_samples && *n_own < OWN_CLASSES) {
                k->has_samples = true;
                ++*n_own;
        }
        return k->has_samples;
}

static void put_classes(struct samples *s, const struct core *core, size_t door)
{
        const struct door *d = door_at(core, door);
        struct told_class other = {.class = {.identity = OTHER}};
        struct told_classes all;
        size_t n_own = 0;
        for (size_t i = 0; i < d->n_classes; i++)
                n_own += d->classes[i] && d->classes[i]->has_samples;
        traffic_copy_classes(core, door, ADMIT_CLASSES_MAX, &all);
        for (size_t i = 0; i < all.n; i++) {
                if (is_own(d, &all.classes[i], &n_own))
                        put_class(s, d, &all.classes[i], false);
                else
                        add_class(&other, &all.classes[i]);
        }
        put_class(s, d, &other, true);
        told_classes_release(&all);
}

void traffic_each_sample(const struct core *core,
                         void (*fn)(void *ctx, const char *name, const char *labels, double value),
                         void *ctx)
{
        const struct traffic *t = core->traffic;
        struct samples s = {.fn = fn, .ctx = ctx};
        buf_init(&s.labels, 0);
        for (size_t i = 0; i < t->n && t->has_threads; i++) {
                struct traffic_door now = {0};
                t->threads.state(t->threads.ctx, i, &now);
                put_door(&s, &t->doors[i], &now);
                put_classes(&s, core, i);
        }
        buf_release(&s.labels);
}
