/* The minute that is going on: names and places, at most 500 of a kind and the rest as other, what
 * asks and metrics add up to. */
#include "check.h"

#include <stdio.h>

#include "core/rollup.h"
#include "core/tally.h"

#define SEED 3

static void ask(struct tally *t, uint16_t *place, const char *name, const struct tally_ask *a)
{
        const struct tally_who who = {TALLY_CLIENT, slice_str(name), place, place};
        tally_asked(t, &who, a);
        tally_check(t);
}

static const struct tally_ask granted = {.is_granted = true, .n = 1};

static struct tally_asks asks_of(const struct rollup *r, const char *name)
{
        const union tally_cell *c = rollup_find(&r->tables[TALLY_CLIENT], slice_str(name));
        assert_non_null(c);
        return c->asks;
}

static void numbered(struct tally *t, uint16_t *places, size_t from, size_t to)
{
        for (size_t i = from; i < to; i++) {
                char name[24];
                (void)snprintf(name, sizeof(name), "c%zu", i);
                ask(t, &places[i], name, &granted);
        }
}

static void a_name_is_counted_wherever_its_object_is(void **unused)
{
        (void)unused;
        struct tally *t = tally_new(SEED);
        struct rollup r;
        uint16_t a = 0, again = 0, b = 0;
        rollup_init(&r);
        ask(t, &a, "etl", &granted);
        ask(t, &b, "web", &granted);
        ask(t, &again, "etl", &granted); /* made anew, elsewhere */
        ask(t, &a, "etl", &granted);
        assert_int_equal(a, again);
        tally_take(t, &r);
        assert_int_equal(asks_of(&r, "etl").granted, 3);
        assert_int_equal(asks_of(&r, "web").granted, 1);
        assert_int_equal(r.tables[TALLY_CLIENT].n, 3); /* with other */
        rollup_release(&r);
        tally_take(t, &r); /* it began anew, and who did nothing is not in it */
        assert_int_equal(r.tables[TALLY_CLIENT].n, 1);
        rollup_release(&r);
        tally_free(t);
}

/* An object made at the address of another one, whose place it does not know. */
static void a_new_object_at_an_old_address_counts_for_its_own_name(void **unused)
{
        (void)unused;
        struct tally *t = tally_new(SEED);
        struct rollup r;
        uint16_t place = 0;
        rollup_init(&r);
        ask(t, &place, "etl", &granted);
        place = 0;
        ask(t, &place, "web", &granted);
        tally_take(t, &r);
        assert_int_equal(asks_of(&r, "etl").granted, 1);
        assert_int_equal(asks_of(&r, "web").granted, 1);
        rollup_release(&r);
        tally_free(t);
}

static void names_beyond_500_are_other_until_some_are_idle(void **unused)
{
        (void)unused;
        struct tally *t = tally_new(SEED);
        struct rollup r;
        static uint16_t places[TALLY_NAMES + 2];
        memset(places, 0, sizeof(places));
        rollup_init(&r);
        numbered(t, places, 0, TALLY_NAMES + 2);
        ask(t, &places[TALLY_NAMES], "c500", &granted);
        tally_take(t, &r);
        assert_int_equal(r.tables[TALLY_CLIENT].n, TALLY_NAMES + 1);
        assert_int_equal(asks_of(&r, "c499").granted, 1);
        assert_null(rollup_find(&r.tables[TALLY_CLIENT], SLICE_LIT("c500")));
        assert_int_equal(asks_of(&r, "other").granted, 3);
        rollup_release(&r);
        numbered(t, places, 1, TALLY_NAMES + 1); /* the first is idle in this minute */
        tally_take(t, &r);
        assert_int_equal(asks_of(&r, "other").granted, 1);
        rollup_release(&r);
        ask(t, &places[TALLY_NAMES], "c500", &granted); /* and makes room in the next */
        ask(t, &places[0], "c0", &granted);
        ask(t, &places[1], "c1", &granted);
        tally_take(t, &r);
        assert_int_equal(asks_of(&r, "c500").granted, 1);
        assert_int_equal(asks_of(&r, "c1").granted, 1);
        assert_int_equal(asks_of(&r, "other").granted, 1);
        rollup_release(&r);
        tally_free(t);
}

static void the_bytes_of_all_names_are_bounded(void **unused)
{
        (void)unused;
        struct tally *t = tally_new(SEED);
        struct rollup r;
        uint16_t places[80] = {0};
        char name[256];
        rollup_init(&r);
        memset(name, 'x', 255);
        name[255] = '\0';
        for (size_t i = 0; i < 80; i++) {
                (void)snprintf(name, 4, "%03zu", i);
                name[3] = '-';
                ask(t, &places[i], name, &granted);
        }
        tally_take(t, &r);
        assert_int_equal(r.tables[TALLY_CLIENT].n - 1, TALLY_NAME_BYTES / 255);
        assert_int_equal(asks_of(&r, "other").granted, 80 - TALLY_NAME_BYTES / 255);
        rollup_release(&r);
        tally_free(t);
}

static void the_name_other_is_not_told_apart_from_the_others(void **unused)
{
        (void)unused;
        struct tally *t = tally_new(SEED);
        struct rollup r;
        uint16_t place = 0;
        rollup_init(&r);
        ask(t, &place, "other", &granted);
        tally_take(t, &r);
        assert_int_equal(r.tables[TALLY_CLIENT].n, 1);
        assert_int_equal(asks_of(&r, "other").granted, 1);
        rollup_release(&r);
        tally_free(t);
}

static void asks_add_up_by_reason_and_name_their_metric(void **unused)
{
        (void)unused;
        struct tally *t = tally_new(SEED);
        struct rollup r;
        uint16_t place = 0;
        const struct tally_ask refused = {.reason = CHECK_THRESHOLD,
                                          .n = 2,
                                          .waited_ms = 30,
                                          .target = SLICE_LIT("shop"),
                                          .metric = SLICE_LIT("lag")};
        const struct tally_ask observed = {
                .is_granted = true, .would_refuse = true, .reason = CHECK_HOLD, .n = 1};
        rollup_init(&r);
        tally_sampled(t, SLICE_LIT("shop"), SLICE_LIT("lag"), 3.5);
        tally_sampled(t, SLICE_LIT("shop"), SLICE_LIT("lag"), 1.5);
        tally_sampled(t, SLICE_LIT("shop"), SLICE_LIT("lag"), __builtin_nan("")); /* is no value */
        tally_level(t, SLICE_LIT("shop"), LEVEL_NORMAL);
        tally_level(t, SLICE_LIT("shop"), LEVEL_CRITICAL);
        ask(t, &place, "etl", &granted);
        ask(t, &place, "etl", &refused);
        ask(t, &place, "etl", &observed);
        tally_take(t, &r);
        struct tally_asks got = asks_of(&r, "etl");
        assert_int_equal(got.granted, 2);
        assert_int_equal(got.refused, 2);
        assert_int_equal(got.observed, 1);
        assert_int_equal(got.waited_ms, 30);
        assert_int_equal(got.by_reason[CHECK_THRESHOLD], 2);
        assert_int_equal(got.by_reason[CHECK_HOLD], 1);
        assert_int_equal(got.by_reason[CHECK_GRANTED], 0);
        assert_memory_equal(got.cause.ptr, "shop\0lag", 8);
        const union tally_cell *lag =
                rollup_find(&r.tables[TALLY_METRIC], slice_make("shop\0lag", 8));
        assert_non_null(lag);
        assert_int_equal(lag->values.n, 2);
        assert_true(lag->values.min == 1.5f && lag->values.max == 3.5f && lag->values.sum == 5);
        const union tally_cell *shop = rollup_find(&r.tables[TALLY_TARGET], SLICE_LIT("shop"));
        assert_int_equal(shop->asks.levels, 1 << LEVEL_NORMAL | 1 << LEVEL_CRITICAL);
        rollup_release(&r);
        tally_free(t);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_name_is_counted_wherever_its_object_is),
                cmocka_unit_test(a_new_object_at_an_old_address_counts_for_its_own_name),
                cmocka_unit_test(names_beyond_500_are_other_until_some_are_idle),
                cmocka_unit_test(the_bytes_of_all_names_are_bounded),
                cmocka_unit_test(the_name_other_is_not_told_apart_from_the_others),
                cmocka_unit_test(asks_add_up_by_reason_and_name_their_metric),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
