/* The bounds of the law of credits, whatever happens.  In a closed loop it is in prop_plant.c. */
#include "../unit/check.h"

#include <math.h>

#include "dice.h"
#include "gate/credit.h"

static double unit(struct rng *dice)
{
        return (double)rng_below(dice, 1ULL << 53) / (double)(1ULL << 53);
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
                int64_t late_ns = rng_below(&dice, 10) ? (int64_t)rng_below(&dice, NS_PER_S)
                                                       : INT64_MAX * -(int64_t)rng_below(&dice, 2);
                for (uint64_t k = rng_below(&dice, 20); k > 0; k--)
                        g = credit_give(&p, &r, n, cost, late_ns);
                assert_true(g.steps <= r.max && g.pause_ms <= 30000);
                assert_true(g.ms == (g.steps ? r.ms : 0));
                assert_true((double)g.steps * (double)n * cost <= p.credits);
                assert_true(isfinite(p.base) && p.base > 0 && isfinite(p.taken) && p.taken >= 0);
                if (!(u < 1))
                        assert_true(g.steps == 0 && p.credits == 0);
                if (isnan(u))
                        assert_int_equal(g.pause_ms, 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(any_history_keeps_the_bounds),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
