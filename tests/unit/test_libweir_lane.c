/* The parts of the client library that are values alone: reading answers, credits, throttling. */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "answer.h"
#include "lane.h"

#define REFUSAL                                                                                    \
        "*11\r\n+refused\r\n+threshold\r\n+lag\r\n+7.1\r\n+5\r\n:1\r\n_\r\n:2\r\n:0\r\n:0\r\n_"    \
        "\r\n"
#define NULLS "*11\r\n+granted\r\n+\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:1000\r\n:1\r\n_\r\n"

/* ---- answers ------------------------------------------------------------------------------- */

static bool read_slice(struct slice bytes, struct weir_answer *ret)
{
        struct arena arena;
        struct value *v;

        arena_init(&arena, 0);
        assert_int_equal(value_parse(bytes, &arena, &v), OK);
        locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        bool is_good = answer_read(v, c, ret);
        freelocale(c);
        arena_release(&arena);
        return is_good;
}

static bool read_reply(const char *bytes, struct weir_answer *ret)
{
        return read_slice(slice_str(bytes), ret);
}

static void fields_may_be_null_and_more_may_follow(void **state)
{
        struct weir_answer a;
        (void)state;

        assert_true(read_reply(NULLS, &a));
        assert_true(isnan(a.value) && isnan(a.threshold));
        assert_int_equal(a.age_ms, -1);
        assert_string_equal(a.metric, "");
        assert_int_equal(a.credits, 1000);
        assert_true(read_reply("*13\r\n+granted\r\n+\r\n_\r\n,1.5\r\n:5\r\n:1\r\n_\r\n:0\r\n:1\r\n"
                               ":99999999999\r\n_\r\n+new\r\n*1\r\n:1\r\n",
                               &a));
        assert_true(a.value == 1.5 && a.threshold == 5);
        assert_int_equal(a.credit_ms, 600000); /* nobody is deaf for longer */
}

static void half_an_answer_opens_nothing(void **state)
{
        static const char *const wrong[] = {
                "+granted\r\n",
                "*0\r\n",
                "*-1\r\n",
                "_\r\n",
                ":1\r\n",
                "*1\r\n+granted\r\n",
                "*10\r\n+granted\r\n+\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:0\r\n:0\r\n:0\r\n",
                "*11\r\n+GRANTED\r\n+\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:0\r\n:0\r\n:0\r\n_\r\n",
                "*11\r\n+granted!\r\n+\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:0\r\n:0\r\n:0\r\n_\r\n",
                "*11\r\n:1\r\n+\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:0\r\n:0\r\n:0\r\n_\r\n",
                "*11\r\n+granted\r\n*0\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:0\r\n:0\r\n:0\r\n_\r\n",
                "*11\r\n+granted\r\n+\r\n_\r\n+7,1\r\n_\r\n_\r\n_\r\n:0\r\n:0\r\n:0\r\n_\r\n",
                "*11\r\n+granted\r\n+\r\n_\r\n_\r\n+x\r\n_\r\n_\r\n:0\r\n:0\r\n:0\r\n_\r\n",
                "*11\r\n+granted\r\n+\r\n_\r\n_\r\n_\r\n:-2\r\n_\r\n:0\r\n:0\r\n:0\r\n_\r\n",
                "*11\r\n+granted\r\n+\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:-1\r\n:0\r\n:0\r\n_\r\n",
                "*11\r\n+granted\r\n+\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:0\r\n+many\r\n:0\r\n_\r\n",
        };
        struct weir_answer a;
        (void)state;

        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                assert_false(read_reply(wrong[i], &a));
        assert_false(
                read_slice(SLICE_LIT("*11\r\n+granted\r\n$3\r\na\0b\r\n_\r\n_\r\n_\r\n_\r\n_\r\n"
                                     ":0\r\n:0\r\n:0\r\n_\r\n"),
                           &a));
}

static void a_long_text_is_cut_between_characters(void **state)
{
        char reply[512];
        struct weir_answer a;
        (void)state;

        /* 30 bytes, then one character of two: it does not fit whole into 31. */
        (void)snprintf(
                reply, sizeof(reply),
                "*11\r\n+granted\r\n$34\r\n%s\r\n_\r\n_\r\n_\r\n_\r\n_\r\n:0\r\n:0\r\n:0\r\n_\r\n",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa9\xc3\xa9");
        assert_true(read_reply(reply, &a));
        assert_string_equal(a.reason, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

/* ---- lanes: credits and throttling as values ------------------------------------------------ */

#define K  200
#define T0 (1000 * NS_PER_S)

static void units_are_credits_of_any_size(void **state)
{
        struct lane l;
        (void)state;

        lane_init(&l);
        assert_false(lane_use_credit(&l, 1, T0));
        lane_put_credits(&l, 10, 100, T0 + 50);
        assert_true(lane_use_credit(&l, 900, T0 + 49));
        assert_false(lane_use_credit(&l, 101, T0 + 49));
        assert_true(lane_use_credit(&l, 100, T0 + 49));
        assert_false(lane_use_credit(&l, 1, T0 + 49));
        lane_put_credits(&l, 10, 100, T0 + 50);
        assert_false(lane_use_credit(&l, 1, T0 + 50));
        lane_put_credits(&l, UINT32_MAX, UINT32_MAX, T0 + 50);
        assert_true(lane_use_credit(&l, UINT32_MAX, T0));
        lane_release(&l);
}

static void request(struct lane *l, bool is_granted, int64_t at_ns)
{
        /* A dice of 1 never keeps back. */
        assert_int_equal(lane_admit(l, K, NS_PER_S, 1, at_ns), 0);
        lane_answered(l, K, is_granted, at_ns);
}

static void pressure_is_the_rule_of_the_book(void **state)
{
        struct lane l;
        (void)state;

        lane_init(&l);
        assert_true(lane_pressure(&l, K, T0) == 0);
        for (int i = 0; i < 10; i++)
                request(&l, true, T0);
        assert_true(lane_pressure(&l, K, T0) == 0);
        for (int i = 0; i < 10; i++)
                request(&l, false, T0);
        assert_true(lane_pressure(&l, K, T0) == 0); /* 20 requests, 10 accepts: not above K */
        for (int i = 0; i < 10; i++)
                request(&l, false, T0);
        assert_true(fabs(lane_pressure(&l, K, T0) - 10.0 / 31) < 1e-12);
        assert_true(fabs(lane_pressure(&l, 100, T0) - 20.0 / 31) < 1e-12);
        assert_true(lane_pressure(&l, 0, T0) == 0);
        lane_release(&l);
}

static void history_is_two_minutes_long(void **state)
{
        int64_t begin_ns = T0 - T0 % LANE_CELL_NS, end_ns = begin_ns + 120 * NS_PER_S;
        struct lane l;
        (void)state;

        lane_init(&l);
        for (int i = 0; i < 9; i++)
                request(&l, false, begin_ns);
        assert_true(lane_pressure(&l, K, end_ns - 1) == 0.9);
        assert_true(lane_pressure(&l, K, end_ns) == 0);
        request(&l, false, end_ns);
        assert_true(lane_pressure(&l, K, end_ns) == 0.5);
        assert_true(lane_pressure(&l, K, end_ns + 3600 * NS_PER_S) == 0);
        lane_release(&l);
}

static void what_is_kept_back_follows_the_dice_and_the_probe(void **state)
{
        struct lane l;
        (void)state;

        lane_init(&l);
        for (int i = 0; i < 9; i++)
                request(&l, false, T0);
        assert_int_equal(lane_admit(&l, K, NS_PER_S, 0.89, T0 + 1), NS_PER_S - 1);
        assert_int_equal(lane_admit(&l, K, NS_PER_S, 0.95, T0 + 2), 0);
        assert_int_equal(lane_admit(&l, K, NS_PER_S, 0, T0 + 3), NS_PER_S - 1);
        assert_int_equal(lane_admit(&l, K, NS_PER_S, 0, T0 + 1 + NS_PER_S), 1);
        assert_int_equal(lane_admit(&l, K, NS_PER_S, 0, T0 + 2 + NS_PER_S), 0); /* the probe */
        assert_int_not_equal(lane_admit(&l, K, NS_PER_S, 0, T0 + 3 + NS_PER_S), 0);
        lane_release(&l);
}

static void one_grant_pardons_an_hour_of_refusals(void **state)
{
        int64_t at_ns = T0;
        struct lane l;
        (void)state;

        lane_init(&l);
        for (int i = 0; i < 72000; i++, at_ns += NS_PER_S / 20)
                if (lane_admit(&l, K, NS_PER_S, 0, at_ns) == 0)
                        lane_answered(&l, K, false, at_ns);
        assert_true(lane_pressure(&l, K, at_ns) > 0.999);
        lane_answered(&l, K, true, at_ns);
        assert_true(lane_pressure(&l, K, at_ns) == 0);
        for (int i = 0; i < 100; i++) {
                assert_int_equal(lane_admit(&l, K, NS_PER_S, 0, at_ns), 0);
                lane_answered(&l, K, true, at_ns);
        }
        lane_release(&l);
}

static void a_client_that_is_refused_asks_once_a_second(void **state)
{
        int64_t at_ns = T0;
        uint64_t seed = 1;
        int asked = 0;
        struct lane l;
        (void)state;

        lane_init(&l);
        for (int i = 0; i < 20 * 600;
             i++, at_ns += NS_PER_S / 20) { /* ten minutes at 20 a second */
                seed = seed * 6364136223846793005U + 1442695040888963407U;
                if (lane_admit(&l, K, NS_PER_S, (double)(seed >> 11) * 0x1p-53, at_ns) == 0) {
                        lane_answered(&l, K, false, at_ns);
                        asked++;
                }
        }
        assert_in_range(asked, 600, 640); /* the dice let a few more through at the beginning */
        lane_release(&l);
}

static void the_lane_used_longest_ago_is_given_up(void **state)
{
        struct lanes all = {.n = 0};
        char name[] = "a";
        (void)state;

        for (int i = 0; i < LANES_MAX; i++) {
                name[0] = (char)('a' + i);
                struct lane *l = lanes_find(&all, slice_str(name), T0 + i);
                lane_put_credits(l, 1000, 1, INT64_MAX);
        }
        assert_true(lane_use_credit(lanes_find(&all, slice_str("a"), T0 + 100), 1, T0));
        assert_false(lane_use_credit(lanes_find(&all, slice_str("new"), T0 + 101), 1, T0));
        assert_true(lane_use_credit(lanes_find(&all, slice_str("a"), T0 + 102), 1, T0));
        assert_false(lane_use_credit(lanes_find(&all, slice_str("b"), T0 + 103), 1, T0));
        assert_int_equal(all.n, LANES_MAX);
        lanes_forget(&all);
        assert_false(lane_use_credit(lanes_find(&all, slice_str("a"), T0), 1, T0));
        lanes_forget(&all);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(fields_may_be_null_and_more_may_follow),
                cmocka_unit_test(half_an_answer_opens_nothing),
                cmocka_unit_test(a_long_text_is_cut_between_characters),
                cmocka_unit_test(units_are_credits_of_any_size),
                cmocka_unit_test(pressure_is_the_rule_of_the_book),
                cmocka_unit_test(history_is_two_minutes_long),
                cmocka_unit_test(what_is_kept_back_follows_the_dice_and_the_probe),
                cmocka_unit_test(one_grant_pardons_an_hour_of_refusals),
                cmocka_unit_test(a_client_that_is_refused_asks_once_a_second),
                cmocka_unit_test(the_lane_used_longest_ago_is_given_up),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
