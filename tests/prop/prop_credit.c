/* Credits in a closed loop: a replica that falls behind when the steps come too fast, sampled once
 * a second, and askers that use what they are given to the last step and come back as soon as they
 * may.
 *
 * The replica applies `capacity` steps a second; its lag is what it has not applied yet, in
 * seconds; the pressure is the lag against a threshold of 3 s and more.  The askers want up to ten
 * times the capacity.  After a while to find it, the pressure stays below 1, nearly all of the
 * capacity is used, and nobody asks for each step.  The numbers are drawn anew each time. */
#include "../unit/check.h"

#include <math.h>

#include "dice.h"
#include "gate/credit.h"

#define ASKERS_MAX 64
#define STEP_S     0.002 /* of the simulation */
#define RETRY_S    0.25  /* after a refusal */
#define ACTIVE_S   5     /* an asker counts as active for so long, as in core/client.h */

struct asker {
        double next_s;  /* when it wants to take its next step */
        double until_s; /* its credits end */
        double pause_s; /* it does not ask before */
        double asked_s; /* it asked last */
        uint32_t credits;
};

struct world {
        struct rng dice;
        struct credit_rule rule;
        struct credit_pool pool;
        struct asker askers[ASKERS_MAX];
        size_t n;
        double wish;      /* steps a second of one asker that is not held back */
        double capacity;  /* steps a second of the replica */
        double threshold; /* of the lag, in seconds */
        bool is_pausing;  /* the askers heed the pause */
        double now_s, sample_s, lag_s, seen;
        /* counted since the last count_reset() */
        uint64_t steps, asks;
        double worst, over_s;
};

static double unit(struct rng *dice)
{
        return (double)rng_below(dice, 1ULL << 53) / (double)(1ULL << 53);
}

static double between(struct rng *dice, double min, double max)
{
        return min + (max - min) * unit(dice);
}

static void world_init(struct world *w, size_t n, double capacity, double threshold, double wish)
{
        w->n = n;
        w->capacity = capacity;
        w->threshold = threshold;
        w->wish = wish / (double)n;
        w->is_pausing = true;
        w->now_s = w->lag_s = 0;
        w->seen = NAN;
        w->sample_s = unit(&w->dice);
        credit_rule_init(&w->rule);
        credit_init(&w->pool);
        for (size_t i = 0; i < n; i++)
                w->askers[i] = (struct asker){.next_s = unit(&w->dice), .asked_s = -ACTIVE_S};
}

static void count_reset(struct world *w)
{
        w->steps = w->asks = 0;
        w->worst = w->over_s = 0;
}

static size_t active(const struct world *w)
{
        size_t n = 0;

        for (size_t i = 0; i < w->n; i++)
                n += w->now_s - w->askers[i].asked_s < ACTIVE_S;
        return n ? n : 1;
}

static void ask(struct world *w, struct asker *a, size_t n)
{
        w->asks++;
        a->asked_s = w->now_s;
        if (w->seen > 1) {
                a->next_s = w->now_s + RETRY_S * between(&w->dice, 1, 1.2);
                return;
        }
        struct credit_grant g = credit_give(&w->pool, &w->rule, n, 1);
        a->credits = g.steps;
        a->until_s = w->now_s + g.ms / 1000.0;
        a->pause_s = w->now_s + (w->is_pausing ? g.pause_ms / 1000.0 : 0);
        a->next_s = w->now_s + 1 / w->wish;
        w->steps++;
}

static void act(struct world *w, struct asker *a, size_t n)
{
        while (a->next_s <= w->now_s) {
                if (a->credits && w->now_s < a->until_s) {
                        a->credits--;
                        a->next_s += 1 / w->wish;
                        w->steps++;
                } else if (w->now_s < a->pause_s) {
                        a->next_s = a->pause_s;
                } else {
                        ask(w, a, n);
                }
        }
}

static void run(struct world *w, double seconds)
{
        double end_s = w->now_s + seconds;

        for (; w->now_s < end_s; w->now_s += STEP_S) {
                size_t n = active(w);
                uint64_t before = w->steps;
                for (size_t i = 0; i < w->n; i++)
                        act(w, &w->askers[i], n);
                w->lag_s += (double)(w->steps - before) / w->capacity - STEP_S;
                w->lag_s = w->lag_s > 0 ? w->lag_s : 0;
                double u = w->lag_s / w->threshold;
                w->worst = u > w->worst ? u : w->worst;
                w->over_s += u > 1 ? STEP_S : 0;
                if (w->now_s < w->sample_s)
                        continue;
                w->sample_s += between(&w->dice, 0.98, 1.02);
                w->seen = u;
                credit_tick(&w->pool, &w->rule, u, active(w), (int64_t)(w->now_s * 1e9));
        }
}

static void say(const struct world *w, const char *what, double seconds)
{
        (void)printf("# %s: %zu askers want %.0f of %.0f/s, threshold %.1f s: worst %.2f, %.0f %% "
                     "used, %.1f steps per ask\n",
                     what, w->n, w->wish * (double)w->n, w->capacity, w->threshold, w->worst,
                     100 * (double)w->steps / seconds / w->capacity,
                     (double)w->steps / (double)w->asks);
}

static void greedy_askers_are_held_below_the_limit_and_the_capacity_is_used(void **state)
{
        struct world *w = xcalloc(1, sizeof(*w));

        (void)state;
        dice_init(&w->dice, "credit greedy");
        for (uint64_t i = dice_rounds(30); i > 0; i--) {
                double capacity = between(&w->dice, 20, 400);
                size_t n = 1 + rng_below(&w->dice,
                                         capacity < ASKERS_MAX ? (uint64_t)capacity : ASKERS_MAX);
                world_init(w, n, capacity, between(&w->dice, 3, 30),
                           capacity * between(&w->dice, 1.2, 10));
                run(w, 90);
                count_reset(w);
                run(w, 90);
                say(w, "greedy", 90);
                assert_true(w->worst < 1);
                assert_true((double)w->steps > 0.9 * 90 * capacity);
        }
        free(w);
}

static void a_harmless_asker_soon_asks_ten_times_less_and_is_never_slowed(void **state)
{
        struct world *w = xcalloc(1, sizeof(*w));

        (void)state;
        dice_init(&w->dice, "credit harmless");
        for (uint64_t i = dice_rounds(20); i > 0; i--) {
                double wish = between(&w->dice, 12, 450);
                world_init(w, 1, 500, 5, wish);
                run(w, 10);
                count_reset(w);
                run(w, 10);
                say(w, "harmless", 10);
                assert_true(w->steps >= 10 * w->asks);
                assert_true(fabs((double)w->steps - 10 * wish) <= 0.03 * 10 * wish + 1);
        }
        free(w);
}

/* Who does not heed the pause is held by the limit alone.  Then credits must add next to nothing to
 * what a sample's delay costs anyhow, which is one second at full speed. */
static void askers_that_do_not_pause_go_no_further_than_pollers(void **state)
{
        struct world *w = xcalloc(1, sizeof(*w));

        (void)state;
        dice_init(&w->dice, "credit rude");
        for (uint64_t i = dice_rounds(10); i > 0; i--) {
                double ratio = between(&w->dice, 1.2, 10), threshold = between(&w->dice, 3, 30);
                size_t n = 1 + rng_below(&w->dice, 20);
                double worst[2];
                for (int has_credits = 0; has_credits < 2; has_credits++) {
                        world_init(w, n, 100, threshold, 100 * ratio);
                        w->is_pausing = false;
                        w->rule.max = has_credits ? 1000 : 0;
                        run(w, 60);
                        count_reset(w);
                        run(w, 60);
                        say(w, has_credits ? "rude" : "polling", 60);
                        assert_true((double)w->steps > 0.9 * 60 * 100);
                        worst[has_credits] = w->worst;
                }
                double a_second = ratio / threshold;
                assert_true(worst[1] <= worst[0] + 0.25 * a_second + 0.05);
        }
        free(w);
}

static void a_replica_that_slows_down_is_followed_and_followed_back(void **state)
{
        struct world *w = xcalloc(1, sizeof(*w));

        (void)state;
        dice_init(&w->dice, "credit dip");
        for (uint64_t i = dice_rounds(10); i > 0; i--) {
                world_init(w, 1 + rng_below(&w->dice, 10), 200, between(&w->dice, 5, 30), 400);
                run(w, 60);
                w->capacity = 50;
                run(w, 60);
                count_reset(w);
                run(w, 30);
                say(w, "slow", 30);
                assert_true(w->worst < 1);
                assert_true((double)w->steps > 0.8 * 30 * 50);
                w->capacity = 200;
                run(w, 60);
                count_reset(w);
                run(w, 30);
                say(w, "quick again", 30);
                assert_true(w->worst < 1);
                assert_true((double)w->steps > 0.8 * 30 * 200);
        }
        free(w);
}

/* Whatever the samples and the asks: no number is wrong, and the bounds hold. */
static void any_history_keeps_the_bounds(void **state)
{
        static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 0, 1, 0.5, 1e300};
        struct rng dice;
        struct credit_rule r;
        struct credit_pool p;
        int64_t now_ns = 0;

        (void)state;
        dice_init(&dice, "credit bounds");
        credit_rule_init(&r);
        credit_init(&p);
        for (uint64_t i = dice_rounds(200000); i > 0; i--) {
                size_t n = rng_below(&dice, 300);
                uint32_t cost = (uint32_t)rng_below(&dice, 50);
                double u = rng_below(&dice, 20) ? 1.5 * unit(&dice)
                                                : odd[rng_below(&dice, ARRAY_LEN(odd))];
                now_ns += (int64_t)rng_below(&dice, 2 * NS_PER_S) - NS_PER_S / 10;
                credit_tick(&p, &r, u, n, now_ns);
                assert_true(isfinite(p.credits) && p.credits >= 0 && p.credits <= p.base);
                struct credit_grant g = {0};
                for (uint64_t k = rng_below(&dice, 20); k > 0; k--)
                        g = credit_give(&p, &r, n, cost);
                assert_true(g.steps <= r.max && g.pause_ms <= 30000);
                assert_true(g.ms == (g.steps ? r.ms : 0));
                assert_true((double)g.steps * (double)n * cost <= p.credits);
                assert_true(g.pause_ms == 0 || p.demand > 0);
                if (!(u < 1))
                        assert_true(g.steps == 0 && p.credits == 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(greedy_askers_are_held_below_the_limit_and_the_capacity_is_used),
                cmocka_unit_test(a_harmless_asker_soon_asks_ten_times_less_and_is_never_slowed),
                cmocka_unit_test(askers_that_do_not_pause_go_no_further_than_pollers),
                cmocka_unit_test(a_replica_that_slows_down_is_followed_and_followed_back),
                cmocka_unit_test(any_history_keeps_the_bounds),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
