/* Levels under a month of ordinary noise, and under inputs chosen to break them.
 *
 * Three observers.  The noise stays below every enter threshold, with samples that come late and
 * tries that fail: nothing may happen at all.  A model of one metric, written down from the law as
 * a person would apply it by hand (a list of past values instead of a timer), must agree with the
 * leveler at each step.  And with several metrics that hop around all thresholds, vanish and come
 * back, what must hold of any history is checked after each step, and a twin that is woken only by
 * samples and by leveler_next_ns() must not differ from one that is looked at all the time. */
#include "../unit/check.h"

#include <math.h>

#include "dice.h"
#include "gate/level.h"

#define S          NS_PER_S
#define METRICS    4
#define DAY_S      86400
#define MONTH_DAYS 30
#define PAST       4096

static double unit(struct rng *dice)
{
        return (double)rng_below(dice, 1ULL << 53) / (double)(1ULL << 53);
}

/* --- a month of noise ---------------------------------------------------------------------------
 */

static const struct level_rule ordinary[METRICS] = {
        {{5, 15}, {3, 10}, 3 * S, true},
        {{100, 500}, {50, 250}, 10 * S, false},
        {{NAN, 30}, {NAN, 10}, 3 * S, false},
        {{0.8, 0.95}, {0.7, 0.9}, 3 * S, true},
};

/* Mostly low, a daily wave, bursts that end a hair below the lowest threshold. */
static double noise(struct rng *dice, const struct level_rule *rule, int64_t second)
{
        double top = isnan(rule->enter[0]) ? rule->enter[1] : rule->enter[0];
        double wave = 0.3 + 0.2 * sin((double)second * 2 * 3.14159265358979 / DAY_S);

        if (rng_below(dice, 100) == 0)
                return nextafter(top, 0);
        if (rng_below(dice, 20) == 0)
                return top * unit(dice) * 0.999;
        return top * wave * unit(dice);
}

static void a_month_of_ordinary_noise_changes_nothing(void **state)
{
        struct rng dice;
        struct leveler l;
        struct level_sample samples[METRICS] = {0};
        int64_t now_ns = 12345 * S;

        (void)state;
        dice_init(&dice, "level noise");
        leveler_init(&l, now_ns);
        for (size_t i = 0; i < METRICS; i++)
                samples[i].at_ns = now_ns;
        assert_true(leveler_update(&l, ordinary, samples, METRICS, 30 * S, now_ns)); /* measured */
        for (int64_t second = 0; second < (int64_t)MONTH_DAYS * DAY_S; second++) {
                /* Between the samples it is looked at when it asks to be: a value may grow old. */
                int64_t next_ns = leveler_next_ns(&l, ordinary, samples, METRICS, 30 * S);
                if (second && next_ns < now_ns + S)
                        assert_false(
                                leveler_update(&l, ordinary, samples, METRICS, 30 * S, next_ns));
                now_ns += S;
                for (size_t i = 0; i < METRICS; i++) {
                        struct level_sample *s = &samples[i];
                        /* A try may fail or come late, but not twice in a row. */
                        bool fails = s->state == SAMPLE_GOOD && rng_below(&dice, 50) == 0;
                        s->state = fails ? SAMPLE_SILENT : SAMPLE_GOOD;
                        if (fails)
                                continue;
                        s->value = noise(&dice, &ordinary[i], second);
                        s->at_ns = now_ns - (int64_t)rng_below(&dice, S / 2);
                }
                assert_false(leveler_update(&l, ordinary, samples, METRICS, 30 * S, now_ns));
                assert_true(leveler_next_ns(&l, ordinary, samples, METRICS, 30 * S) > now_ns);
        }
        assert_int_equal(l.level, LEVEL_NORMAL);
        assert_int_equal(l.cause, -1);
}

/* --- one metric, by hand ------------------------------------------------------------------------
 */

/* Is every value since `from` (which is after the last change) below the exit threshold? */
static bool was_calm(const double *past, int64_t from, int64_t to, double exit)
{
        for (int64_t i = from; i <= to; i++)
                if (past[i] >= exit)
                        return false;
        return true;
}

static enum level by_hand(enum level was, int64_t changed, const double *past, int64_t at,
                          int64_t dwell)
{
        const struct level_rule *rule = &ordinary[0];
        double v = past[at];

        if (v >= rule->enter[1])
                return LEVEL_CRITICAL;
        if (was == LEVEL_NORMAL)
                return v >= rule->enter[0] ? LEVEL_ELEVATED : LEVEL_NORMAL;
        /* The value of the change itself made the level; calm can begin behind it. */
        if (at - dwell <= changed ||
            !was_calm(past, at - dwell, at, rule->exit[was == LEVEL_CRITICAL]))
                return was;
        if (was == LEVEL_CRITICAL && v >= rule->enter[0])
                return LEVEL_ELEVATED;
        return LEVEL_NORMAL;
}

/* Values at, just below and just above thresholds, with stretches of calm. */
static double hop(struct rng *dice, double last)
{
        static const double at[] = {3, 5, 10, 15, 0, 20};

        switch (rng_below(dice, 12)) {
        case 0:
                return at[rng_below(dice, ARRAY_LEN(at))];
        case 1:
                return nextafter(at[rng_below(dice, 4)], 0);
        case 2:
                return 20 * unit(dice);
        default:
                return last;
        }
}

static uint64_t hand_episode(struct rng *dice)
{
        static double past[PAST];
        int64_t dwell = (int64_t)rng_below(dice, 12), changed = -1000;
        struct leveler l;
        enum level want = LEVEL_NORMAL;
        uint64_t changes = 0;

        leveler_init(&l, S);
        assert_true(leveler_update(&l, ordinary, &(struct level_sample){0, S, false}, 1, dwell * S,
                                   S)); /* measured: normal */
        for (int64_t i = 0; i < PAST; i++) {
                past[i] = hop(dice, i ? past[i - 1] : 0);
                struct level_sample sample = {past[i], (i + 1) * S, false};
                enum level now = by_hand(want, changed, past, i, dwell);
                bool is_change = leveler_update(&l, ordinary, &sample, 1, dwell * S, (i + 1) * S);
                assert_int_equal(l.level, now);
                assert_int_equal(is_change, now != want);
                if (now != want)
                        changed = i;
                changes += now != want;
                want = now;
        }
        return changes;
}

static void one_metric_does_what_the_law_says_by_hand(void **state)
{
        struct rng dice;
        uint64_t changes = 0;

        (void)state;
        dice_init(&dice, "level by hand");
        for (uint64_t n = dice_rounds(25); n > 0; n--)
                changes += hand_episode(&dice);
        (void)printf("# %llu transitions\n", (unsigned long long)changes);
        assert_true(changes > 1000);
}

/* --- several metrics, with gaps -----------------------------------------------------------------
 */

struct world {
        struct rng dice;
        struct level_rule rules[METRICS];
        struct level_sample samples[METRICS];
        struct leveler l, twin;
        int64_t now_ns, began_ns, dwell_ns;
        int64_t fell_ns;    /* the last fall; INT64_MIN: none */
        int64_t high_ns[3]; /* when what counted was last at that enter threshold or above */
        enum level last_known;
        uint64_t seen[LEVELS][LEVELS];
};

static int badness(enum level level)
{
        static const int order[LEVELS] = {[LEVEL_NORMAL] = 0,
                                          [LEVEL_UNKNOWN] = 1,
                                          [LEVEL_ELEVATED] = 2,
                                          [LEVEL_CRITICAL] = 3};
        return order[level];
}

/* A value that nobody answers for any more is believed for a shorter time, and one that an error
 * came after not at all. */
static int64_t patience(const struct world *w, size_t i)
{
        int64_t stale_ns = w->rules[i].stale_ns;
        if (w->samples[i].state == SAMPLE_FAILED)
                return -3 * S; /* no sample is from so far ahead */
        return w->samples[i].state == SAMPLE_SILENT && stale_ns > LEVEL_SILENCE_NS
                       ? LEVEL_SILENCE_NS
                       : stale_ns;
}

static bool is_known(const struct world *w, size_t i)
{
        const struct level_sample *s = &w->samples[i];
        return s->at_ns && isfinite(s->value) && w->now_ns - s->at_ns <= patience(w, i);
}

static bool is_pending(const struct world *w, size_t i)
{
        const struct level_sample *s = &w->samples[i];
        return !s->at_ns && w->now_ns - w->began_ns <= patience(w, i);
}

static bool is_blind(const struct world *w)
{
        size_t missing = 0;

        for (size_t i = 0; i < METRICS; i++) {
                if (is_known(w, i) || is_pending(w, i))
                        continue;
                if (w->rules[i].is_required)
                        return true;
                missing++;
        }
        return missing == METRICS;
}

static enum level entered(const struct world *w)
{
        enum level worst = LEVEL_NORMAL;

        for (size_t i = 0; i < METRICS; i++) {
                if (!is_known(w, i))
                        continue;
                for (int level = LEVEL_ELEVATED; level <= LEVEL_CRITICAL; level++)
                        if (w->samples[i].value >= w->rules[i].enter[level - 1] &&
                            (int)worst < level)
                                worst = (enum level)level;
        }
        return worst;
}

static void check_fall(struct world *w, enum level was)
{
        enum level now = w->l.level;

        /* Down by one or more, but not by ceasing to know. */
        if (badness(now) >= badness(was) || now == LEVEL_UNKNOWN)
                return;
        if (w->fell_ns != INT64_MIN)
                assert_true(w->now_ns - w->fell_ns >= w->dwell_ns);
        w->fell_ns = w->now_ns;
}

/* However it came there, by unknown or not: what it was before has been calm for dwell.  (From
 * critical to normal it may have been elevated meanwhile.) */
static void check_dwell(struct world *w)
{
        enum level now = w->l.level;

        if (now == LEVEL_UNKNOWN)
                return;
        for (int level = (int)now + 1; level <= (int)LEVEL_CRITICAL; level++)
                if (level == LEVEL_CRITICAL || w->last_known == LEVEL_ELEVATED)
                        assert_true(w->now_ns - w->high_ns[level] >= w->dwell_ns);
        w->last_known = now;
}

static void check(struct world *w, enum level was, bool changed)
{
        enum level high = entered(w), now = w->l.level;
        bool is_from_nothing = was == LEVEL_UNKNOWN && w->l.cause < 0;

        for (int level = LEVEL_ELEVATED; level <= (int)high && !is_blind(w); level++)
                w->high_ns[level] = w->now_ns;
        assert_int_equal(changed, now != was);
        if (now != LEVEL_UNKNOWN || !w->l.is_unmeasured)
                assert_int_equal(w->l.metric >= 0, now != LEVEL_NORMAL);
        assert_true(isfinite(w->l.value) && isfinite(w->l.threshold));
        assert_true(w->l.held != LEVEL_UNKNOWN);
        if (is_blind(w)) {
                /* What was known before the first sample outlasts that nothing comes. */
                assert_int_equal(now, w->l.is_unmeasured ? was : LEVEL_UNKNOWN);
        } else {
                assert_true(badness(now) >= badness(high)); /* a rise is immediate */
                assert_true(was != LEVEL_NORMAL || now != LEVEL_UNKNOWN);
        }
        if (changed) {
                assert_true(w->l.since_ns == w->now_ns);
                assert_true(w->l.cause >= 0 || (is_from_nothing && now == LEVEL_NORMAL));
                w->seen[was][now]++;
        }
        check_fall(w, was);
        check_dwell(w);
}

static bool step_one(struct world *w, struct leveler *l, int64_t now_ns)
{
        return leveler_update(l, w->rules, w->samples, METRICS, w->dwell_ns, now_ns);
}

static int64_t next_ns(const struct world *w, const struct leveler *l)
{
        return leveler_next_ns(l, w->rules, w->samples, METRICS, w->dwell_ns);
}

static void look(struct world *w)
{
        enum level was = w->l.level;
        bool changed = step_one(w, &w->l, w->now_ns);

        check(w, was, changed);
}

/* Time passes: the leveler is looked at at every turn, the twin when it asked for it. */
static void pass_time(struct world *w, int64_t by_ns)
{
        int64_t end_ns = w->now_ns + by_ns;

        while (w->now_ns < end_ns) {
                int64_t due = next_ns(w, &w->twin);
                int64_t some = w->now_ns + 1 + (int64_t)rng_below(&w->dice, S);
                w->now_ns = some < end_ns ? some : end_ns;
                if (due < w->now_ns)
                        w->now_ns = due;
                look(w);
                if (due == w->now_ns)
                        (void)step_one(w, &w->twin, w->now_ns); /* compared below */
                assert_int_equal(w->l.level, w->twin.level);
                assert_true(w->l.since_ns == w->twin.since_ns);
                /* What is asked for is in the future, or somebody would spin. */
                assert_true(next_ns(w, &w->l) > w->now_ns);
        }
}

static double bad_value(struct rng *dice)
{
        static const double bad[] = {NAN, INFINITY, -INFINITY};
        return bad[rng_below(dice, ARRAY_LEN(bad))];
}

static void sample(struct world *w)
{
        size_t i = rng_below(&w->dice, METRICS);
        struct level_sample *s = &w->samples[i];
        uint64_t dice = rng_below(&w->dice, 40);

        if (dice == 0) {
                s->state = rng_below(&w->dice, 2) ? SAMPLE_SILENT : SAMPLE_FAILED;
        } else {
                double last = isfinite(s->value) ? s->value : 0;
                s->value = dice == 1 ? bad_value(&w->dice) : hop(&w->dice, last);
                s->at_ns = w->now_ns - (int64_t)rng_below(&w->dice, 2 * S);
                s->state = SAMPLE_GOOD;
        }
        look(w);
        (void)step_one(w, &w->twin, w->now_ns); /* compared */
        assert_int_equal(w->l.level, w->twin.level);
        assert_true(w->l.since_ns == w->twin.since_ns);
        assert_true(w->l.metric == w->twin.metric);
}

static void any_rules(struct world *w)
{
        bool some_required = rng_below(&w->dice, 2);

        for (size_t i = 0; i < METRICS; i++) {
                w->rules[i] = ordinary[0];
                w->rules[i].stale_ns = (1 + (int64_t)rng_below(&w->dice, 60)) * S;
                w->rules[i].is_required = some_required && rng_below(&w->dice, 3) == 0;
                if (rng_below(&w->dice, 5) == 0)
                        w->rules[i].enter[rng_below(&w->dice, 2)] = NAN;
                if (rng_below(&w->dice, 5) == 0)
                        w->rules[i].exit[rng_below(&w->dice, 2)] = NAN;
                w->samples[i] = (struct level_sample){0};
        }
        w->dwell_ns = (int64_t)rng_below(&w->dice, 40) * S;
}

/* Half of them begin with a level that was known before. */
static void any_beginning(struct world *w)
{
        static const enum level levels[] = {LEVEL_NORMAL, LEVEL_ELEVATED, LEVEL_CRITICAL};
        enum level level = levels[rng_below(&w->dice, ARRAY_LEN(levels))];
        int metric = (int)rng_below(&w->dice, METRICS);

        leveler_init(&w->l, w->now_ns);
        if (rng_below(&w->dice, 2)) {
                leveler_restore(&w->l, level, level == LEVEL_NORMAL ? -1 : metric, 1, 2);
                w->last_known = level;
                for (int i = LEVEL_ELEVATED; i <= (int)level; i++)
                        w->high_ns[i] = w->now_ns;
        }
        w->twin = w->l;
}

static void gap_episode(struct world *w)
{
        any_rules(w);
        w->began_ns = w->now_ns += (int64_t)rng_below(&w->dice, 1000000) * S;
        w->fell_ns = INT64_MIN;
        w->last_known = LEVEL_NORMAL;
        w->high_ns[LEVEL_ELEVATED] = w->high_ns[LEVEL_CRITICAL] = 0;
        any_beginning(w);
        look(w);
        (void)step_one(w, &w->twin, w->now_ns); /* as the other */
        for (int n = 0; n < 2000; n++) {
                sample(w);
                pass_time(w, (int64_t)rng_below(&w->dice, rng_below(&w->dice, 20) ? S : 40 * S));
        }
}

static void hopping_values_and_gaps_make_one_fall_per_dwell_and_rises_at_once(void **state)
{
        static struct world w;

        (void)state;
        dice_init(&w.dice, "level gaps");
        w.now_ns = 1000 * S;
        for (uint64_t n = dice_rounds(25); n > 0; n--)
                gap_episode(&w);
        for (int from = 0; from < LEVELS; from++)
                (void)printf("# %s: %llu normal, %llu elevated, %llu critical, %llu unknown\n",
                             level_name((enum level)from), (unsigned long long)w.seen[from][0],
                             (unsigned long long)w.seen[from][1],
                             (unsigned long long)w.seen[from][2],
                             (unsigned long long)w.seen[from][3]);
        for (int from = 0; from < LEVELS; from++)
                for (int to = 0; to < LEVELS; to++)
                        assert_int_equal(w.seen[from][to] > 0, from != to);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_month_of_ordinary_noise_changes_nothing),
                cmocka_unit_test(one_metric_does_what_the_law_says_by_hand),
                cmocka_unit_test(hopping_values_and_gaps_make_one_fall_per_dwell_and_rises_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
