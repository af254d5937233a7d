/* Merging against a plain model: minutes with random names and counts, merged in random groups and
 * orders, packed and read between, must add up to what one list of all events adds up to. */
#include "../unit/check.h"

#include "../unit/rollup_box.h"
#include "dice.h"

#define NAMES   40
#define MINUTES 60

struct model {
        uint64_t wait[NAMES][OCTAVES], run[NAMES][OCTAVES];
        uint64_t completed[NAMES], refused[NAMES][CHECK_REASONS], totals[ROLLUP_TOTALS];
};

static const char *name_of(size_t i)
{
        static char names[NAMES][24];
        static const char *const stems[] = {"a", "mail", "mail_", "sh\xc3\xb6p/", "zz"};
        (void)snprintf(names[i], sizeof(names[i]), "%s%zu", stems[i % ARRAY_LEN(stems)], i);
        return names[i];
}

static void one_event(struct rng *dice, struct rollup *m, struct model *model)
{
        size_t i = rng_below(dice, NAMES);
        if (rng_below(dice, 3) == 0) {
                struct tally_asks *c = &minute_cell(m, TALLY_CLIENT, slice_str(name_of(i)))->asks;
                size_t reason = rng_below(dice, CHECK_REASONS);
                c->refused++;
                c->by_reason[reason]++;
                model->refused[i][reason]++;
                return;
        }
        uint64_t wait = rng_below(dice, 1ULL << rng_below(dice, 40));
        uint64_t run = rng_below(dice, 1ULL << rng_below(dice, 20));
        minute_job(m, name_of(i), wait, run);
        model->wait[i][octave_of(wait)]++;
        model->run[i][octave_of(run)]++;
        model->completed[i]++;
        model->totals[1]++;
        model->totals[2]++;
}

/* As it would come back from a file. */
static void through_bytes(struct rollup *r)
{
        struct buf b CLEANUP(buf_release) = {0};
        rollup_pack(r, &b);
        rollup_release(r);
        assert_int_equal(rollup_unpack(buf_slice(&b), ROLLUP_ALL_KINDS, r), OK);
}

static void merge_into(struct rng *dice, struct rollup *to, struct rollup *from)
{
        assert_int_equal(rollup_merge(to, from), OK);
        rollup_release(from);
        if (rng_below(dice, 2))
                through_bytes(to);
}

static void compare(const struct rollup *r, const struct model *model)
{
        assert_memory_equal(r->totals, model->totals, sizeof(r->totals));
        for (size_t i = 0; i < NAMES; i++) {
                const union tally_cell *c =
                        rollup_find(&r->tables[TALLY_HOOK], slice_str(name_of(i)));
                const union tally_cell *k =
                        rollup_find(&r->tables[TALLY_CLIENT], slice_str(name_of(i)));
                assert_int_equal(c ? c->jobs.completed : 0, model->completed[i]);
                for (size_t o = 0; o < OCTAVES; o++) {
                        assert_int_equal(c ? c->jobs.wait.n[o] : 0, model->wait[i][o]);
                        assert_int_equal(c ? c->jobs.run.n[o] : 0, model->run[i][o]);
                }
                for (size_t o = 0; o < CHECK_REASONS; o++)
                        assert_int_equal(k ? k->asks.by_reason[o] : 0, model->refused[i][o]);
        }
}

static void merged_minutes_are_the_sum_of_their_events(void **state)
{
        struct rng dice;
        (void)state;
        dice_init(&dice, "rollup");
        uint64_t rounds = 30 * dice_env("WEIR_ROUNDS", 1);
        for (uint64_t round = 0; round < rounds; round++) {
                static struct model model;
                struct rollup hour, tens[6], m;
                memset(&model, 0, sizeof(model));
                minute_init(&hour, 600);
                hour.span = ROLLUP_HOUR;
                for (size_t i = 0; i < 6; i++) {
                        minute_init(&tens[i], 600 + 10 * (int64_t)i);
                        tens[i].span = ROLLUP_TEN;
                }
                size_t n = rng_below(&dice, MINUTES * 2); /* some come twice */
                for (size_t i = 0; i < n; i++) {
                        size_t at = rng_below(&dice, MINUTES);
                        minute_init(&m, 600 + (int64_t)at);
                        for (size_t k = rng_below(&dice, 30); k > 0; k--)
                                one_event(&dice, &m, &model);
                        through_bytes(&m);
                        merge_into(&dice, rng_below(&dice, 2) ? &hour : &tens[at / 10], &m);
                }
                for (size_t i = 0; i < 6; i++)
                        merge_into(&dice, &hour, &tens[i]);
                compare(&hour, &model);
                rollup_release(&hour);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(merged_minutes_are_the_sum_of_their_events),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
