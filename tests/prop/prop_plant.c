/* The law of credits against replicas that tell their lag as real ones do: late, by the lag.
 *
 * A replica applies `capacity` steps a second; the askers could do k times as many.  Its lag is the
 * age of the newest step that it has applied, as a heartbeat shows it, and is sampled now and then.
 * The askers keep to what they are told, in one of two ways: they spread their steps over the
 * pause, as examples/purge does, or they do them at once and are parked until the pause is over, as
 * clients of libweir are; then they are answered in rounds, as checks/check_wait.c does.
 *
 * Whatever the numbers are, the lag settles under the limit, the replica is kept busy, and few asks
 * do it.  They are drawn anew each time. */
#include "../unit/check.h"

#include <math.h>

#include "dice.h"
#include "gate/credit.h"

#define RUN_MS     150000
#define SETTLED_MS 60000
#define ASKERS_MAX 4

struct asker {
        double wish;               /* steps a second, if it were alone in the world */
        double next_ms, gap_ms;    /* its next step, and between two */
        double until_ms, paced_ms; /* its credits and its pause end */
        uint32_t left;
        bool is_parked;
};

struct plant {
        struct rng dice;
        double capacity, limit_s, sample_ms;
        uint32_t cost;
        size_t n;
        bool is_bursting;
        struct asker askers[ASKERS_MAX];
        struct credit_rule rule;
        struct credit_pool pool;
        double *written; /* steps on the primary, by millisecond */
        int newest;      /* the millisecond up to which all of them are applied */
        double steps, applied;
        double seen_s; /* the lag as last sampled */
        double next_sample_ms;
        /* since SETTLED_MS */
        double worst_s, taken;
        uint64_t asks, began_steps;
};

static double between(struct rng *dice, double min, double max)
{
        return min + (max - min) * (double)rng_below(dice, 1 << 30) / (1 << 30);
}

/* Between the two, small ones as likely as large ones. */
static double about(struct rng *dice, double min, double max)
{
        return min * exp(between(dice, 0, log(max / min)));
}

static void take_grant(struct plant *p, struct asker *a, int ms)
{
        int64_t late_ns =
                isnan(a->paced_ms) ? INT64_MAX : (int64_t)((ms - a->paced_ms) * (double)NS_PER_MS);
        struct credit_grant g = credit_give(&p->pool, &p->rule, p->n, p->cost, late_ns);
        double gap = p->is_bursting ? 0 : g.pause_ms / (g.steps + 1.0), least = 1000 / a->wish;

        a->left = g.steps;
        a->until_ms = ms + (double)g.ms;
        a->paced_ms = ms + (double)g.pause_ms;
        a->gap_ms = gap > least ? gap : least;
}

/* True: it may take the step.  Else it is parked, and asks no more. */
static bool ask(struct plant *p, struct asker *a, int ms)
{
        bool is_paced = p->is_bursting && ms < a->paced_ms; /* a NAN is not */

        p->asks += !a->is_parked;
        a->is_parked = is_paced || p->seen_s > p->limit_s;
        if (a->is_parked)
                return false;
        if (a->next_ms < ms - 1)
                a->next_ms = ms; /* it waited: nothing is made up for */
        take_grant(p, a, ms);
        return true;
}

static void act(struct plant *p, struct asker *a, int ms)
{
        while (a->next_ms <= ms) {
                if (a->left > 0 && ms < a->until_ms)
                        a->left--;
                else if (!ask(p, a, ms))
                        return;
                p->steps++;
                a->next_ms += a->gap_ms;
        }
}

static double lag_s(const struct plant *p, int ms)
{
        return (ms - p->newest) / 1000.0;
}

static void sample(struct plant *p, int ms)
{
        if (ms < p->next_sample_ms)
                return;
        p->next_sample_ms = ms + p->sample_ms * between(&p->dice, 0.97, 1.03);
        p->seen_s = lag_s(p, ms);
        credit_tick(&p->pool, &p->rule, p->seen_s / p->limit_s, p->n,
                    ms * NS_PER_MS + 1000 * NS_PER_S);
}

static void plant_begin(struct plant *p, size_t n, double wish)
{
        p->n = n;
        p->newest = 0;
        p->steps = p->applied = p->next_sample_ms = 0;
        credit_rule_init(&p->rule);
        credit_init(&p->pool);
        for (size_t i = 0; i < n; i++)
                p->askers[i] = (struct asker){.wish = wish / (double)n,
                                              .next_ms = between(&p->dice, 0, 1000),
                                              .paced_ms = NAN};
}

static void play(struct plant *p, int from_ms, int to_ms)
{
        p->worst_s = 0;
        p->taken = p->applied;
        p->asks = 0;
        p->began_steps = (uint64_t)p->steps;
        for (int ms = from_ms; ms < to_ms; ms++) {
                sample(p, ms);
                for (size_t i = 0; i < p->n; i++)
                        act(p, &p->askers[i], ms);
                p->written[ms] = p->steps;
                p->applied = fmin(p->steps, p->applied + p->capacity / 1000);
                while (p->newest < ms && p->written[p->newest + 1] <= p->applied + 1e-9)
                        p->newest++;
                p->worst_s = fmax(p->worst_s, lag_s(p, ms));
        }
        p->taken = (p->applied - p->taken) / (p->capacity * (to_ms - from_ms) / 1000);
}

static void say(const struct plant *p, const char *what)
{
        double steps = p->steps - (double)p->began_steps;

        (void)printf(
                "# %s: %zu %s askers of %.1f/s, cost %u, capacity %.1f/s, limit %.1f s, sampled "
                "every %.0f ms: worst %.2f, %.0f %% used, %.1f steps per ask\n",
                what, p->n, p->is_bursting ? "parked" : "spreading", p->askers[0].wish, p->cost,
                p->capacity, p->limit_s, p->sample_ms, p->worst_s / p->limit_s, 100 * p->taken,
                steps / (double)p->asks);
}

static struct plant *plant_new(const char *what)
{
        struct plant *p = xcalloc(1, sizeof(*p));

        dice_init(&p->dice, what);
        p->written = xcalloc(RUN_MS, sizeof(*p->written));
        return p;
}

static void plant_free(struct plant *p)
{
        free(p->written);
        free(p);
}

static void draw(struct plant *p)
{
        p->limit_s = between(&p->dice, 2, 10);
        p->sample_ms = between(&p->dice, 250, 1000);
        p->is_bursting = rng_below(&p->dice, 2) == 0;
        p->cost = rng_below(&p->dice, 4) ? 1 : (uint32_t)rng_below(&p->dice, 5000);
}

static void the_lag_settles_under_the_limit_and_the_replica_is_kept_busy(void **state)
{
        struct plant *p = plant_new("plant greedy");

        (void)state;
        for (uint64_t i = dice_rounds(60); i > 0; i--) {
                draw(p);
                p->capacity = about(&p->dice, 10, 1000);
                plant_begin(p, 1 + rng_below(&p->dice, ASKERS_MAX),
                            p->capacity * about(&p->dice, 1.2, 20));
                play(p, 0, SETTLED_MS);
                play(p, SETTLED_MS, RUN_MS);
                say(p, "greedy");
                assert_true(p->worst_s < p->limit_s);
                assert_true(p->taken > 0.5);
        }
        plant_free(p);
}

static void harmless_askers_soon_ask_ten_times_less_and_are_not_slowed(void **state)
{
        struct plant *p = plant_new("plant harmless");

        (void)state;
        for (uint64_t i = dice_rounds(40); i > 0; i--) {
                draw(p);
                p->sample_ms = between(&p->dice, 100, 500);
                size_t n = 1 + rng_below(&p->dice, ASKERS_MAX);
                double wish = about(&p->dice, 12, 250) * (double)n;
                p->capacity = 5 * wish;
                plant_begin(p, n, wish);
                play(p, 0, 15000);
                play(p, 15000, 45000);
                say(p, "harmless");
                double steps = p->steps - (double)p->began_steps;
                assert_true(steps >= 10 * (double)p->asks);
                assert_true(steps > 0.9 * 30 * wish);
        }
        plant_free(p);
}

/* A slow asker has been there for long when a fast one comes. */
static void a_slow_asker_does_not_make_the_pool_large_for_a_fast_one(void **state)
{
        struct plant *p = plant_new("plant wound up");

        (void)state;
        for (uint64_t i = dice_rounds(20); i > 0; i--) {
                draw(p);
                p->cost = 1;
                p->capacity = about(&p->dice, 50, 500);
                plant_begin(p, 2, 2 * about(&p->dice, 0.2, 5));
                p->askers[1].next_ms = SETTLED_MS;
                p->askers[1].wish = p->capacity * about(&p->dice, 2, 20);
                play(p, 0, SETTLED_MS);
                play(p, SETTLED_MS, RUN_MS);
                say(p, "late");
                assert_true(p->worst_s < p->limit_s);
                assert_true(p->taken > 0.4);
        }
        plant_free(p);
}

static void a_replica_that_slows_down_is_followed_and_followed_back(void **state)
{
        struct plant *p = plant_new("plant dip");

        (void)state;
        for (uint64_t i = dice_rounds(20); i > 0; i--) {
                draw(p);
                p->capacity = 200;
                plant_begin(p, 1 + rng_below(&p->dice, ASKERS_MAX), 400);
                play(p, 0, 30000);
                p->capacity = 50;
                play(p, 30000, 90000);
                play(p, 90000, 110000);
                say(p, "slow");
                assert_true(p->worst_s < p->limit_s);
                assert_true(p->taken > 0.5);
                p->capacity = 200;
                play(p, 110000, 130000);
                play(p, 130000, RUN_MS);
                say(p, "quick again");
                assert_true(p->worst_s < p->limit_s);
                assert_true(p->taken > 0.5);
        }
        plant_free(p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_lag_settles_under_the_limit_and_the_replica_is_kept_busy),
                cmocka_unit_test(harmless_askers_soon_ask_ten_times_less_and_are_not_slowed),
                cmocka_unit_test(a_slow_asker_does_not_make_the_pool_large_for_a_fast_one),
                cmocka_unit_test(a_replica_that_slows_down_is_followed_and_followed_back),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
