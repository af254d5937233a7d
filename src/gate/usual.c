/* See usual.h for what is learned.
 *
 * Counts are kept as a histogram, not as an average: an average of a load that comes in waves lies
 * between its waves, and would slow down each of them.  A bucket is a quarter of an octave wide, so
 * a figure is at most a fourth too high; in return a week of figures is 168 bytes.
 *
 *      usual_spend -> spent_ns of this hour -- when it is over --> ring of 168 hours
 *                            |  99th percentile                      |  one figure each
 *                            +---> 90th percentile of all figures <--+
 *                                        |  limited in how fast it rises
 *                                        +--> memory.executing
 *
 * The current hour has a figure as soon as ten minutes of it are known.  When the ring is full,
 * this figure stands for the oldest one, which it will overwrite.  So the end of an hour moves a
 * figure from one place to the other, and changes nothing else.
 *
 * The time before the first transaction is not learned from: a kind that is known by name but not
 * used yet would otherwise begin its first day with a history of zeros, and rise slowly from there.
 *
 * The server time is averaged as a logarithm: a scan that takes a thousand times as long then
 * counts for 7 more, and does not hide everything else.  Each look counts by the time it covers,
 * not by its transactions, so that a burst of slow ones moves the mean no faster than a few.
 *
 * Which times are slow is read from a histogram of ln(time / mean), in steps of a quarter: it needs
 * no idea of how times are distributed, and a class with two kinds of statements has the slower
 * kind in it.
 *
 * Metrics decay once a minute instead of with each sample: one exp() a minute for all buckets.
 *
 * Costs: usual_spend, usual_end and pace_add are a few additions; usual_settle goes over 56 buckets
 * and 168 hours; no allocation. */
#include "gate/usual.h"

#include <math.h>
#include <string.h>

#define EXACT_OCTAVE   4 /* of USUAL_EXACT */
#define HOUR_NS        (3600 * NS_PER_S)
#define DAY_NS         (24 * HOUR_NS)
#define LEAST_NS       (USUAL_LEAST_S * NS_PER_S)
#define BEYOND_HOUR    0.01 /* of the time of an hour may be above its figure */
#define BEYOND_USUAL   0.1  /* of the hours may be above the usual, */
#define BEYOND_METRIC  0.01 /* and of the values of a metric above its usual */
#define FREE_HOURS     24   /* of figures; before, the usual rises at once */
#define RISE_PER_DAY   0.25
#define TIME_S         1200  /* over so long the mean time is averaged, */
#define UNWELL_TIME_S  12000 /* and while the database is not well */
#define RATIO_STEP     0.25  /* of ln(time / mean), for each bucket */
#define BEYOND_SLOW    0.02  /* of the transactions are slow, usually */
#define RATIOS_LEAST   500   /* transactions that say which */
#define METRIC_GAP_NS  (60 * NS_PER_S)
#define METRIC_TURN_S  60 /* so often a metric is settled */
#define METRIC_DECAY_S (7 * 86400.0)
#define METRIC_LEAST   60 /* values that say something */

_Static_assert(1 << EXACT_OCTAVE == USUAL_EXACT, "the exact buckets end where an octave begins");

/* ---- buckets ---- */

unsigned usual_bucket(double count)
{
        uint32_t most = usual_bucket_most(USUAL_BUCKETS - 1);

        if (!(count > 0)) /* a NAN, too */
                return 0;
        uint32_t n = count < most ? (uint32_t)ceil(count) : most;
        if (n < USUAL_EXACT)
                return n;
        unsigned octave = 31 - (unsigned)__builtin_clz(n);
        return USUAL_EXACT + 4 * (octave - EXACT_OCTAVE) + (n >> (octave - 2) & 3);
}

uint32_t usual_bucket_most(unsigned bucket)
{
        ASSERT(bucket < USUAL_BUCKETS);
        if (bucket < USUAL_EXACT)
                return bucket;
        unsigned octave = (bucket - USUAL_EXACT) / 4 + EXACT_OCTAVE, quarter = bucket % 4;
        return ((5 + quarter) << (octave - 2)) - 1;
}

static double sum_of(const double weight[USUAL_BUCKETS])
{
        double sum = 0;

        for (unsigned b = 0; b < USUAL_BUCKETS; b++)
                sum += weight[b];
        return sum;
}

/* The lowest bucket with at most that share of the weight above it. */
static unsigned find_percentile(const double weight[USUAL_BUCKETS], double beyond)
{
        double sum = sum_of(weight), upto = 0;

        for (unsigned b = 0; b < USUAL_BUCKETS; b++) {
                upto += weight[b];
                if (sum - upto <= sum * beyond)
                        return b;
        }
        return USUAL_BUCKETS - 1;
}

/* ---- what executes at once ---- */

void usual_spend(struct usual *u, uint32_t executing, int64_t ns)
{
        bool is_begun = executing > 0 || u->memory.ends > 0;

        if (ns <= 0 || !is_begun)
                return;
        u->spent_ns[usual_bucket(executing)] += ns;
        u->spent_sum_ns += ns;
}

static unsigned hour_figure(const struct usual *u)
{
        double weight[USUAL_BUCKETS];

        for (unsigned b = 0; b < USUAL_BUCKETS; b++)
                weight[b] = (double)u->spent_ns[b];
        return find_percentile(weight, BEYOND_HOUR);
}

static void end_hour(struct usual *u)
{
        struct usual_memory *m = &u->memory;

        if (u->spent_sum_ns >= LEAST_NS) {
                m->hours[m->next_hour] = (uint8_t)hour_figure(u);
                m->next_hour = (uint16_t)((m->next_hour + 1) % USUAL_HOURS);
                m->n_hours += m->n_hours < USUAL_HOURS;
        }
        memset(u->spent_ns, 0, sizeof(u->spent_ns));
        u->spent_sum_ns = u->hour_ns = 0;
}

/* What the figures of the last hours say; 0: there are none. */
static uint32_t usual_target(const struct usual *u)
{
        const struct usual_memory *m = &u->memory;
        double weight[USUAL_BUCKETS] = {0};
        bool is_hour_known = u->spent_sum_ns >= LEAST_NS;
        unsigned n_hours = m->n_hours;

        if (is_hour_known) {
                weight[hour_figure(u)]++;
                n_hours -= n_hours == USUAL_HOURS; /* the oldest one */
        } else if (n_hours == 0) {
                return 0;
        }
        for (unsigned back = 1; back <= n_hours; back++)
                weight[m->hours[(m->next_hour + USUAL_HOURS - back) % USUAL_HOURS]]++;
        uint32_t most = usual_bucket_most(find_percentile(weight, BEYOND_USUAL));
        return most ? most : 1;
}

void usual_settle(struct usual *u, int64_t ns)
{
        struct usual_memory *m = &u->memory;

        if (u->hour_ns >= HOUR_NS)
                end_hour(u);
        double target = usual_target(u);
        if (!(target > 0))
                return;
        double days = ns > 0 ? (double)ns / (double)DAY_NS : 0;
        double reach = m->executing * (1 + RISE_PER_DAY * days);
        bool is_free = !(m->executing > 0) || m->n_hours < FREE_HOURS;
        m->executing = is_free || target < reach ? target : reach;
}

/* ---- how long the server takes ---- */

/* The first one has all that take less than the mean, the last one what takes ages. */
static unsigned ratio_bucket(double ratio)
{
        double bucket = fmax(ratio, 0) / RATIO_STEP;
        return bucket < USUAL_RATIOS ? (unsigned)bucket : USUAL_RATIOS - 1;
}

/* What is not finite would stay in the mean for ever: the logarithm of 0, for example. */
void usual_end(struct usual *u, double log_time)
{
        double log_ns = fmin(fmax(log_time, 0), USUAL_LOG_TIME_MAX);

        u->memory.ends++;
        u->look_sum += log_ns;
        u->look_n++;
        if (u->memory.log_time > 0)
                u->look_ratio[ratio_bucket(log_ns - u->memory.log_time)]++;
}

/* The plain average counts as long as the ends before this look were too few: the first look may
 * well have a thousand of them. */
static void move_time(struct usual *u, double seconds, bool is_well)
{
        struct usual_memory *m = &u->memory;
        double mean = u->look_sum / u->look_n;
        double weight = -expm1(-fmin(seconds, 1) / (is_well ? TIME_S : UNWELL_TIME_S));

        if (m->ends - u->look_n < USUAL_ENDS)
                weight = u->look_n / (double)m->ends;
        m->log_time += (mean - m->log_time) * weight;
}

static void work_out_slow(struct usual *u)
{
        float sum = 0, beyond = 0;

        for (unsigned b = 0; b < USUAL_RATIOS; b++)
                sum += u->ratio_n[b];
        if (sum < RATIOS_LEAST)
                return;
        for (unsigned b = USUAL_RATIOS; b-- > 0;) {
                beyond += u->ratio_n[b];
                if (beyond <= (float)BEYOND_SLOW * sum)
                        continue;
                u->memory.slow = (b + 1) * RATIO_STEP;
                return;
        }
}

/* The times of this look join those of about the last twenty minutes. */
static void move_ratios(struct usual *u, double seconds)
{
        float kept = (float)exp(-fmin(seconds, 1) / TIME_S);

        for (unsigned b = 0; b < USUAL_RATIOS; b++)
                u->ratio_n[b] = u->ratio_n[b] * kept + (float)u->look_ratio[b];
        work_out_slow(u);
}

void usual_look(struct usual *u, int64_t ns, bool is_well)
{
        if (ns < 0)
                ns = 0;
        double seconds = (double)ns / (double)NS_PER_S;
        if (is_well && u->memory.ends > 0)
                u->memory.seconds += seconds;
        if (u->look_n > 0) {
                move_time(u, seconds, is_well);
                if (is_well)
                        move_ratios(u, seconds);
        }
        memset(u->look_ratio, 0, sizeof(u->look_ratio));
        u->look_sum = 0;
        u->look_n = 0;
        u->hour_ns += ns;
}

/* ---- kept over a restart ---- */

/* False for a NAN, too. */
static bool is_within(double v, double least, double most)
{
        return v >= least && v <= most;
}

bool usual_restore(struct usual *u, const struct usual_memory *memory)
{
        double most = usual_bucket_most(USUAL_BUCKETS - 1);
        bool is_unlearned = is_within(memory->executing, 0, 0);

        if (!is_unlearned && !is_within(memory->executing, 1, most))
                return false;
        if (!isfinite(memory->seconds) || memory->seconds < 0 ||
            !is_within(memory->log_time, 0, USUAL_LOG_TIME_MAX) ||
            !is_within(memory->slow, 0, USUAL_LOG_TIME_MAX))
                return false;
        if (memory->n_hours > USUAL_HOURS || memory->next_hour >= USUAL_HOURS)
                return false;
        for (unsigned i = 0; i < USUAL_HOURS; i++)
                if (memory->hours[i] >= USUAL_BUCKETS)
                        return false;
        *u = (struct usual){.memory = *memory};
        return true;
}

/* ---- metrics ---- */

void usual_metric_init(struct usual_metric *m)
{
        *m = (struct usual_metric){.most = NAN};
}

static bool is_metric_known(const struct usual_metric *m)
{
        return m->seconds >= USUAL_LEAST_S && sum_of(m->n) >= METRIC_LEAST;
}

static void work_out_most(struct usual_metric *m)
{
        if (is_metric_known(m))
                m->most = usual_bucket_most(find_percentile(m->n, BEYOND_METRIC));
}

static void decay_metric(struct usual_metric *m)
{
        double kept = exp(-m->unsettled_s / METRIC_DECAY_S);

        for (unsigned b = 0; b < USUAL_BUCKETS; b++)
                m->n[b] *= kept;
        m->unsettled_s = 0;
}

void usual_metric_add(struct usual_metric *m, double value, int64_t since_ns)
{
        int64_t ns = since_ns < METRIC_GAP_NS ? since_ns : METRIC_GAP_NS;
        double seconds = ns > 0 ? (double)ns / (double)NS_PER_S : 0;

        if (isnan(value))
                return;
        m->seconds += seconds;
        m->unsettled_s += seconds;
        m->n[usual_bucket(value)]++;
        bool is_turn = m->unsettled_s >= METRIC_TURN_S;
        if (is_turn || isnan(m->most))
                work_out_most(m);
        if (is_turn)
                decay_metric(m);
}

bool usual_metric_restore(struct usual_metric *m, const double n[USUAL_BUCKETS], double seconds)
{
        if (!isfinite(seconds) || seconds < 0 || !isfinite(sum_of(n)))
                return false;
        for (unsigned b = 0; b < USUAL_BUCKETS; b++)
                if (n[b] < 0)
                        return false;
        usual_metric_init(m);
        memcpy(m->n, n, sizeof(m->n));
        m->seconds = seconds;
        work_out_most(m);
        return true;
}

/* ---- pace ---- */

/* Slots never go back, and the first one is 0: so a zeroed struct is an empty one. */
void pace_add(struct pace *p, double log_ratio, bool is_slow, int64_t now_ns)
{
        int64_t slot = now_ns / PACE_SLOT_NS;

        for (int i = 0; i < PACE_SLOTS && slot - i > p->slot; i++) {
                p->sum[(slot - i) % PACE_SLOTS] = 0;
                p->n[(slot - i) % PACE_SLOTS] = p->slow[(slot - i) % PACE_SLOTS] = 0;
        }
        if (slot > p->slot)
                p->slot = slot;
        p->sum[p->slot % PACE_SLOTS] += (float)log_ratio;
        p->n[p->slot % PACE_SLOTS]++;
        p->slow[p->slot % PACE_SLOTS] += is_slow;
}

struct pace_sum pace_sum(const struct pace *p, int64_t now_ns)
{
        int64_t oldest = now_ns / PACE_SLOT_NS - PACE_SLOTS + 1;
        struct pace_sum all = {.n = 0};

        for (int64_t slot = p->slot; slot >= 0 && slot >= oldest; slot--) {
                if (p->slot - slot >= PACE_SLOTS)
                        break;
                all.log_ratio += p->sum[slot % PACE_SLOTS];
                all.n += p->n[slot % PACE_SLOTS];
                all.slow += p->slow[slot % PACE_SLOTS];
        }
        return all;
}
