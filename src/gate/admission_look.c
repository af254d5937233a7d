/* Is the database well, and how wide is the window?  Looked at each 250 ms, by whatever call comes
 * then.  See admission.h.
 *
 * Over is: slower, and more.
 *
 *      slower          of the transactions that ended within 5 s, and of those that execute for
 *                      longer than usual (in a pile-up nothing ends), 20 at least: for each class
 *                      of normal and above, the mean of ln(server time / its usual), and the
 *                      share that is slow (gate/usual.h), less two standard deviations, so that a
 *                      few of few say nothing.  Of each the lower median of the classes counts:
 *                      one slow class is its own problem.  A mean above 2, or 3 % that are slow,
 *                      is slower
 *      more            statements at the server, by the last sample, with our own at that time
 *                      exchanged for our own now: above what is usual
 *
 * Without a class to judge by, twice the usual number alone is over.  Without a sample, slower
 * alone is.  A metric of harm, such as a replica's lag, is over above its threshold, whatever else.
 *
 *      over            the window is halved: half of what is in it, 1 at least; and not again
 *                      before no more is in it than it allows
 *      well            and used up: half as wide again after each second; above the width that was
 *                      too much the last time only an eighth, or one
 *      not used up     for 10 s: as wide as the most that was in it meanwhile, at least as at the
 *                      beginning.  So a steady load keeps the width that it needs
 *
 * Between over and well (a mean above 1.5, 2 % that are slow, 1.5 times the number) it stays as it
 * is.
 *
 * While it is over, and most of what runs comes from elsewhere, each transaction takes longer, so
 * the same work needs more places: the usual is multiplied by the slowdown, up to 4.
 *
 * What is learned, is learned while the database is not over. */
#include "gate/admission_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WIDTH_FIRST   4.0
#define WIDTH_MOST    1e6 /* wider than any number of connections */
#define GROW_NS       NS_PER_S
#define GROW_BY       1.5
#define UNUSED_NS     (10 * NS_PER_S)
#define BOOST_MOST    4.0
#define PILED_MOST    8.0 /* what one that still executes says at most */
#define SETTLE_NS     (60 * NS_PER_S)
#define NEW_MEMORY    256 /* transactions that the share of new digests is of */
#define LEAST_BUSY_NS 1000

/* How much slower: the mean, the share of slow ones, and where no class can tell, the number of
 * statements against the usual one. */
static const struct slower {
        double times, share, number;
} slower = {2.0, 0.03, 2.0}, slower_some = {1.5, 0.02, 1.5};

void look_init(struct admission *a)
{
        a->width = WIDTH_FIRST;
        a->slowdown = a->slow_share = NAN;
        a->boost = 1;
        usual_metric_init(&a->metric);
        a->digests = digests_new();
}

/* ---- learning ---- */

void look_spend(const struct admission *a, struct admit_class *c)
{
        if (!a->is_over)
                usual_spend(&c->usual, c->executing, a->now_ns - c->spent_ns);
        c->spent_ns = a->now_ns;
}

static void learn_digest(const struct admission *a, struct admit_class *c, uint64_t digest,
                         double log_time)
{
        double unused;
        bool is_new = !digests_find(a->digests, c->number, digest, &unused);
        if (!c->digested)
                c->digested_ns = a->now_ns;
        c->digested += c->digested < UINT32_MAX;
        uint32_t n = c->digested < NEW_MEMORY ? c->digested : NEW_MEMORY;
        c->new_share += ((is_new ? 1 : 0) - c->new_share) / (float)n;
        digests_add(a->digests, c->number, digest, log_time);
}

void look_end(const struct admission *a, struct admit_class *c, const struct ticket *t,
              int64_t busy_ns)
{
        double log_time = log((double)(busy_ns > LEAST_BUSY_NS ? busy_ns : LEAST_BUSY_NS));
        if (usual_is_learned(&c->usual))
                pace_add(&c->pace, log_time - c->usual.memory.log_time,
                         usual_is_slow(&c->usual, log_time), a->now_ns);
        usual_end(&c->usual, log_time);
        if (t->digest && !a->is_over)
                learn_digest(a, c, t->digest, log_time);
}

/* The classes are worked out one after the other: all of them within a minute. */
static void learn_class(const struct admission *a, struct admit_class *c, int64_t ns)
{
        look_spend(a, c);
        usual_look(&c->usual, ns, !a->is_over);
        if (a->now_ns - c->settled_ns < SETTLE_NS)
                return;
        usual_settle(&c->usual, a->now_ns - c->settled_ns);
        c->settled_ns = a->now_ns;
}

static void learn(struct admission *a, int64_t ns)
{
        a->is_learned = false;
        for (size_t i = 0; i < a->n; i++) {
                struct admit_class *c = a->classes[i];
                if (!c)
                        continue;
                learn_class(a, c, ns);
                a->is_learned |= c->tier < TIER_DEFERRABLE && usual_is_learned(&c->usual);
        }
}

/* ---- slower ---- */

struct class_pace look_pace(const struct admission *a, const struct admit_class *c)
{
        struct pace_sum all = pace_sum(&c->pace, a->now_ns);
        double usual = c->usual.memory.log_time;
        uint32_t piled = 0;

        LIST_FOREACH(&c->executing_list, it)
        {
                const struct ticket *t = CONTAINER_OF(it, const struct ticket, place);
                double log_time = log(fmax((double)(a->now_ns - t->since_ns), 1));
                if (log_time <= usual || piled++ == PACE_LEAST)
                        break;
                all.log_ratio += fmin(log_time - usual, log(PILED_MOST));
                all.slow += usual_is_slow(&c->usual, log_time);
                all.n++;
        }
        if (all.n < PACE_LEAST)
                return (struct class_pace){NAN, NAN};
        double surely = fmax(0, all.slow - 2 * sqrt(all.slow));
        return (struct class_pace){
                .slowdown = exp(all.log_ratio / all.n),
                .slow_share = c->usual.memory.slow > 0 ? surely / all.n : (double)NAN,
        };
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;
        return (x > y) - (x < y);
}

static double lower_median(double *values, size_t n)
{
        if (!n)
                return NAN;
        qsort(values, n, sizeof(values[0]), by_value);
        return values[(n - 1) / 2];
}

static void find_pace(struct admission *a)
{
        double times[ADMIT_CLASSES_MAX], shares[ADMIT_CLASSES_MAX];
        size_t n_times = 0, n_shares = 0;

        for (size_t i = 0; i < a->n; i++) {
                const struct admit_class *c = a->classes[i];
                if (!c || c->tier > TIER_NORMAL || !usual_is_learned(&c->usual))
                        continue;
                struct class_pace pace = look_pace(a, c);
                if (!isnan(pace.slowdown))
                        times[n_times++] = pace.slowdown;
                if (!isnan(pace.slow_share))
                        shares[n_shares++] = pace.slow_share;
        }
        a->slowdown = lower_median(times, n_times);
        a->slow_share = lower_median(shares, n_shares);
}

/* ---- more ---- */

double look_server(const struct admission *a)
{
        if (!a->policy || isnan(a->policy->running))
                return NAN;
        return fmax(a->policy->running - a->sampled_executing, 0) + a->executing;
}

double look_server_most(const struct admission *a)
{
        bool is_written = a->policy && !isnan(a->policy->running_most);
        return is_written ? a->policy->running_most : a->metric.most;
}

bool look_knows_server(const struct admission *a)
{
        return !isnan(a->metric.most);
}

/* False also when it is not known. */
static bool runs_more_than(const struct admission *a, double times)
{
        return look_server(a) > times * look_server_most(a);
}

/* Slower by that much, and more. */
static bool is_strained(const struct admission *a, const struct slower *by)
{
        bool is_known = !isnan(look_server(a)) && !isnan(look_server_most(a));
        if (isnan(a->slowdown))
                return runs_more_than(a, by->number);
        bool is_slower = a->slowdown > by->times || a->slow_share > by->share;
        return is_slower && (!is_known || runs_more_than(a, 1));
}

void look_sample(struct admission *a)
{
        const struct door_policy *p = a->policy;
        if (p->n_samples == a->n_samples)
                return;
        int64_t since_ns = a->sampled_ns ? a->now_ns - a->sampled_ns : 0;
        a->n_samples = p->n_samples;
        a->sampled_ns = a->now_ns;
        a->sampled_executing = a->executing;
        if (!isnan(p->running) && !a->is_over)
                usual_metric_add(&a->metric, p->running, since_ns);
}

void look_say(const struct admission *a, char *ret, size_t size)
{
        double server = look_server(a), most = look_server_most(a);
        int n = 0;
        ret[0] = '\0';
        if (a->policy && a->policy->is_harmed) {
                (void)snprintf(ret, size, "%s", a->policy->harm);
                return;
        }
        if (a->slow_share > slower.share && !(a->slowdown > slower.times))
                n = snprintf(ret, size, "%.0f %% of the transactions are slow, usually 2",
                             100 * a->slow_share);
        else if (!isnan(a->slowdown))
                n = snprintf(ret, size, "the database is %.1f times as slow as usual", a->slowdown);
        if (!isnan(server) && !isnan(most) && n >= 0 && (size_t)n < size)
                (void)snprintf(ret + n, size - (size_t)n,
                               "%s%.0f statements run, usually up to %.0f", n ? ", " : "", server,
                               most);
}

/* ---- the window ---- */

/* What is in the window.  Where no class is enforced, what is observed. */
static uint32_t all_excess(const struct admission *a)
{
        return window_excess(a, TIER_DEFERRABLE, a->n_enforced > 0);
}

static void cut_window(struct admission *a)
{
        uint32_t excess = all_excess(a);
        if (a->is_draining && (double)excess > a->width)
                return;
        a->last_cut = fmax(1, fmin(a->width, excess));
        a->width = fmax(1, fmin(a->width, excess) / 2);
        a->is_draining = excess > a->width;
}

static void grow_window(struct admission *a)
{
        double wider = a->width * GROW_BY;
        if (a->last_cut > 0 && wider > a->last_cut)
                wider = a->width < a->last_cut ? a->last_cut : a->width + fmax(1, a->width / 8);
        a->width = fmin(wider, WIDTH_MOST);
}

/* Empty it is narrow at each look, so that it grows a whole second after it is full again. */
static void narrow_window(struct admission *a)
{
        a->width = fmax(WIDTH_FIRST, a->used_most);
        a->last_cut = 0;
        a->is_draining = false;
        a->grown_ns = a->now_ns;
        if (a->used_most)
                a->used_ns = a->now_ns;
        a->used_most = 0;
}

static void size_window(struct admission *a)
{
        uint32_t excess = all_excess(a);
        bool is_full = a->is_used_up || excess >= window_size(a);
        if (is_full) {
                a->used_ns = a->now_ns;
                a->used_most = 0;
        } else if (excess > a->used_most) {
                a->used_most = excess;
        }
        a->is_used_up = false;
        if (a->is_over)
                cut_window(a);
        if (a->is_over || is_strained(a, &slower_some)) {
                a->grown_ns = a->now_ns;
        } else if (a->now_ns - a->used_ns >= UNUSED_NS) {
                narrow_window(a);
        } else if (a->now_ns - a->grown_ns >= GROW_NS) {
                if (a->used_ns > a->grown_ns)
                        grow_window(a);
                a->grown_ns = a->now_ns;
        }
}

/* Twice the usual work of others is no reason for ours to wait: it only takes longer. */
static double find_boost(const struct admission *a)
{
        double server = look_server(a);
        bool is_harmed = a->policy && a->policy->is_harmed;
        bool is_outside = a->is_over && !is_harmed && a->executing < server / 2;
        return is_outside && a->slowdown > 1 ? fmin(a->slowdown, BOOST_MOST) : 1;
}

void look_if_due(struct admission *a)
{
        int64_t ns = a->now_ns - a->looked_ns;
        bool is_first = a->looked_ns == 0;
        if (!is_first && ns < LOOK_NS)
                return;
        a->looked_ns = a->now_ns;
        learn(a, is_first ? 0 : ns);
        find_pace(a);
        a->is_over = (a->policy && a->policy->is_harmed) || is_strained(a, &slower);
        size_window(a);
        a->boost = find_boost(a);
        for (size_t i = 0; i < a->n; i++)
                if (a->classes[i])
                        class_weigh(a, a->classes[i]);
        if (!a->waiting)
                return;
        lanes_settle_all(a);
        lanes_dispatch(a);
}
