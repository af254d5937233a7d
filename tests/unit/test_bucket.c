/* Rate limits: the exact instants at which something is granted, and what survives changes. */
#include "check.h"

#include "base/bytes.h"
#include "state/bucket.h"

#define MS        NS_PER_MS
#define S         NS_PER_S
#define QUANTUM_S 4 /* of a period of 1020 s: 255 quanta of 4 s */

static struct bucket make(enum bucket_kind kind, uint64_t amount, int64_t period_ms, uint64_t burst)
{
        struct bucket_rule rule = {kind, amount, period_ms, burst};
        struct bucket b;

        bucket_init(&b, &rule);
        return b;
}

static void a_window_grants_its_amount_and_not_one_more(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 3, 1020000, 0);

        (void)state;
        for (int i = 0; i < 3; i++)
                assert_int_equal(bucket_take(&b, 1, 8 * S), 0);
        assert_true(bucket_take(&b, 1, 8 * S) > 0);
        assert_int_equal(bucket_used(&b, 8 * S), 3);
        assert_int_equal(bucket_left(&b, 8 * S), 0);
        bucket_release(&b);
}

static void a_take_counts_until_its_quantum_has_left_and_no_longer(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 1, 1020000, 0);
        int64_t end = (8 + QUANTUM_S) * S - 1; /* the last instant of the quantum of 8 s */

        (void)state;
        assert_int_equal(bucket_take(&b, 1, 8 * S), 0);
        assert_true(bucket_take(&b, 1, 10 * S) == end + 1020 * S - 10 * S);
        assert_true(bucket_take(&b, 1, end + 1020 * S - 1) == 1);
        assert_false(bucket_is_idle(&b, end + 1020 * S - 1));
        assert_true(bucket_is_idle(&b, end + 1020 * S));
        assert_int_equal(bucket_take(&b, 1, end + 1020 * S), 0);
        bucket_release(&b);
}

static void a_short_period_has_quanta_of_a_millisecond(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 1, 1, 0);

        (void)state;
        assert_int_equal(bucket_take(&b, 1, 5 * MS + MS - 1), 0);
        assert_true(bucket_take(&b, 1, 6 * MS) == MS - 1);
        assert_int_equal(bucket_take(&b, 1, 7 * MS - 1), 0);
        bucket_release(&b);
}

static void the_wait_is_for_as_many_as_are_asked_for(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 3, 1020000, 0);

        (void)state;
        for (int i = 0; i < 3; i++)
                assert_int_equal(bucket_take(&b, 1, i * QUANTUM_S * S), 0);
        for (int n = 1; n <= 3; n++)
                assert_true(bucket_wait(&b, (uint64_t)n, 12 * S) ==
                            n * QUANTUM_S * S - 1 + 1020 * S - 12 * S);
        assert_true(bucket_wait(&b, 4, 12 * S) == BUCKET_NEVER);
        assert_int_equal(bucket_wait(&b, 0, 12 * S), 0);
        bucket_release(&b);
}

static void the_ring_holds_as_many_quanta_as_a_window_can_touch(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 100000, 1020000, 0);

        (void)state;
        for (int i = 0; i < 2000; i++) {
                assert_int_equal(bucket_take(&b, 1, i * QUANTUM_S * S), 0);
                bucket_check(&b);
                assert_int_equal(bucket_used(&b, i * QUANTUM_S * S), i < 256 ? i + 1 : 256);
        }
        assert_int_equal(b.size, 256);
        bucket_release(&b);
        assert_null(b.ring);
}

static void few_takes_need_little_memory(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 3, 1020000, 0);

        (void)state;
        assert_null(b.ring);
        for (int i = 0; i < 10000; i++)
                assert_true(bucket_take(&b, 1, i * S) >= 0); /* most are refused */
        assert_int_equal(b.size, 4);
        bucket_release(&b);
}

static void tokens_come_back_evenly_and_to_the_nanosecond(void **state)
{
        /* 3 in 1 s: a token every 333,333,333 1/3 ns. */
        struct bucket b = make(BUCKET_TOKENS, 3, 1000, 2);

        (void)state;
        assert_int_equal(bucket_take(&b, 2, 0), 0);
        assert_true(bucket_take(&b, 1, 0) == 333333334);
        assert_true(bucket_take(&b, 1, 333333333) == 1);
        assert_int_equal(bucket_take(&b, 1, 333333334), 0);
        /* The two thirds of a ns it came late are not lost, since the bucket was not full. */
        assert_true(bucket_wait(&b, 1, 333333334) == 666666667 - 333333334);
        assert_int_equal(bucket_take(&b, 1, 666666667), 0);
        assert_true(bucket_wait(&b, 1, 666666667) == S - 666666667);
}

static void tokens_do_not_drift_in_a_million_turns(void **state)
{
        struct bucket b = make(BUCKET_TOKENS, 7, 1000, 2);
        int64_t now = 0, wait;

        (void)state;
        assert_int_equal(bucket_take(&b, 2, 0), 0);
        for (int i = 0; i < 1000000; i++) {
                while ((wait = bucket_take(&b, 1, now)) != 0)
                        now += wait;
        }
        /* Each take comes at the next whole ns; the rounding does not add up. */
        assert_true(now == 1000000 * S / 7 + 1);
}

static void a_burst_of_one_spaces_takes_by_a_whole_turn(void **state)
{
        struct bucket b = make(BUCKET_TOKENS, 3, 1000, 1);

        (void)state;
        for (int i = 0; i < 10; i++) {
                assert_int_equal(bucket_take(&b, 1, i * 333333334LL), 0);
                assert_true(bucket_take(&b, 1, i * 333333334LL) == 333333334);
        }
}

static void a_full_bucket_of_tokens_gives_its_burst_at_once(void **state)
{
        struct bucket b = make(BUCKET_TOKENS, 10, 1000, 0), c = make(BUCKET_TOKENS, 10, 1000, 25);

        (void)state;
        assert_int_equal(bucket_capacity(&b), 10);
        assert_int_equal(bucket_take(&b, 10, 0), 0);
        assert_true(bucket_take(&b, 1, 0) == S / 10);
        assert_int_equal(bucket_capacity(&c), 25);
        assert_true(bucket_take(&c, 26, 0) == BUCKET_NEVER);
        assert_int_equal(bucket_take(&c, 25, 0), 0);
        assert_int_equal(bucket_used(&c, S / 20), 25); /* a half counts as used and not as left */
        assert_int_equal(bucket_left(&c, S / 20), 0);
        assert_true(bucket_idle_wait(&c, S) == 3 * S / 2);
}

static void the_largest_rule_does_not_overflow(void **state)
{
        struct bucket b = make(BUCKET_TOKENS, 1, BUCKET_PERIOD_MAX_MS, BUCKET_AMOUNT_MAX);
        struct bucket c = make(BUCKET_TOKENS, BUCKET_AMOUNT_MAX, 1, 0);
        struct bucket d = make(BUCKET_WINDOW, BUCKET_AMOUNT_MAX, BUCKET_PERIOD_MAX_MS, 0);

        (void)state;
        assert_int_equal(bucket_take(&b, BUCKET_AMOUNT_MAX, 0), 0);
        assert_true(bucket_take(&b, 1, 0) == BUCKET_PERIOD_MAX_MS * MS);
        assert_true(bucket_take(&b, BUCKET_AMOUNT_MAX, 0) == BUCKET_NEVER - 1);
        assert_true(bucket_take(&b, 1, INT64_MAX) == 0);
        assert_int_equal(bucket_take(&c, BUCKET_AMOUNT_MAX, 0), 0);
        assert_int_equal(bucket_take(&c, BUCKET_AMOUNT_MAX, INT64_MAX), 0);
        assert_int_equal(bucket_take(&d, BUCKET_AMOUNT_MAX, INT64_MAX), 0);
        assert_true(bucket_take(&d, 1, INT64_MAX) > 0);
        bucket_release(&d);
}

static void time_that_goes_back_counts_as_the_latest(void **state)
{
        struct bucket b = make(BUCKET_TOKENS, 1, 1000, 1), c = make(BUCKET_WINDOW, 1, 1000, 0);

        (void)state;
        assert_int_equal(bucket_take(&b, 1, 100 * S), 0);
        assert_true(bucket_take(&b, 1, 50 * S) == S);
        assert_true(bucket_take(&b, 1, -5) == S);
        assert_int_equal(bucket_take(&c, 1, 100 * S), 0);
        assert_true(bucket_take(&c, 1, 0) == bucket_take(&c, 1, 100 * S));
        bucket_release(&c);
}

static void a_refused_take_changes_nothing(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 1, 1000, 0);

        (void)state;
        assert_int_equal(bucket_take(&b, 1, 0), 0);
        struct bucket before = b;
        assert_true(bucket_take(&b, 1, S / 2) > 0);
        assert_memory_equal(&before, &b, sizeof(b));
        bucket_release(&b);
}

static void a_minute_limit_holds_at_the_turn_of_the_minute(void **state)
{
        struct bucket_rule rule = bucket_per_minute(100);
        struct bucket b;

        (void)state;
        bucket_init(&b, &rule);
        assert_int_equal(bucket_take(&b, 100, 59 * S), 0);
        assert_true(bucket_take(&b, 1, 60 * S) > 58 * S);
        bucket_release(&b);
}

static void a_reset_forgets_what_was_taken(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 1, 1000, 0), c = make(BUCKET_TOKENS, 1, 1000, 0);

        (void)state;
        assert_int_equal(bucket_take(&b, 1, 5), 0);
        assert_int_equal(bucket_take(&c, 1, 5), 0);
        bucket_reset(&b);
        bucket_reset(&c);
        assert_true(bucket_is_idle(&b, 5) && bucket_is_idle(&c, 5));
        assert_int_equal(bucket_take(&b, 1, 5), 0);
        assert_int_equal(bucket_take(&c, 1, 5), 0);
        bucket_release(&b);
}

static void what_is_forced_counts_beyond_the_limit(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 2, 1000, 0), c = make(BUCKET_TOKENS, 2, 1000, 0);

        (void)state;
        bucket_force(&b, 5, S);
        bucket_force(&c, 5, S);
        assert_int_equal(bucket_used(&b, S), 5);
        assert_int_equal(bucket_used(&c, S), 5);
        assert_int_equal(bucket_left(&b, S) + bucket_left(&c, S), 0);
        assert_true(bucket_take(&c, 1, S) == 2 * S);
        bucket_force(&b, UINT64_MAX, S);
        assert_int_equal(bucket_used(&b, S), BUCKET_AMOUNT_MAX);
        bucket_force(&c, UINT64_MAX, S);
        bucket_check(&b);
        bucket_check(&c);
        bucket_release(&b);
}

static void a_new_limit_counts_what_was_taken_under_the_old_one(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 100, 60000, 0);
        struct bucket_rule tight = {BUCKET_WINDOW, 10, 60000, 0}, wide = bucket_per_minute(200);

        (void)state;
        assert_int_equal(bucket_take(&b, 50, 0), 0);
        bucket_set_rule(&b, &tight, S);
        assert_int_equal(bucket_used(&b, S), 50);
        assert_int_equal(bucket_left(&b, S), 0);
        assert_true(bucket_take(&b, 1, 59 * S) > 0);
        bucket_set_rule(&b, &wide, 59 * S);
        assert_true(bucket_take(&b, 151, 59 * S) > 0);
        assert_int_equal(bucket_take(&b, 150, 59 * S), 0);
        bucket_check(&b);
        bucket_release(&b);
}

static void a_new_period_moves_takes_later_and_never_into_the_future(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 10, 1020000, 0);
        struct bucket_rule brief = {BUCKET_WINDOW, 10, 1000, 0};
        struct bucket_rule lengthy = {BUCKET_WINDOW, 10, 3600000, 0};

        (void)state;
        assert_int_equal(bucket_take(&b, 10, 9 * S), 0);
        bucket_set_rule(&b, &brief, 10 * S); /* the old quantum would end at 12 s */
        bucket_check(&b);
        assert_true(bucket_wait(&b, 1, 10 * S) <= S + 4 * MS);
        assert_true(bucket_wait(&b, 1, 10 * S) >= S);
        bucket_set_rule(&b, &lengthy, 10 * S + S / 2);
        bucket_check(&b);
        assert_true(bucket_wait(&b, 1, 10 * S) >= 3599 * S);
        bucket_release(&b);
}

static void a_new_kind_keeps_the_count(void **state)
{
        struct bucket b = make(BUCKET_WINDOW, 10, 1000, 0);
        struct bucket_rule drops = {BUCKET_TOKENS, 10, 1000, 10},
                           window = {BUCKET_WINDOW, 10, 1000, 0};

        (void)state;
        assert_int_equal(bucket_take(&b, 7, S), 0);
        bucket_set_rule(&b, &drops, S);
        bucket_check(&b);
        assert_int_equal(bucket_left(&b, S), 3);
        assert_true(bucket_wait(&b, 4, S) == S / 10);
        bucket_set_rule(&b, &window, S + S / 20); /* half a token came back: counted as used */
        bucket_check(&b);
        assert_int_equal(bucket_used(&b, S + S / 20), 7);
        bucket_release(&b);
}

static void a_token_debt_stays_when_the_burst_shrinks(void **state)
{
        struct bucket b = make(BUCKET_TOKENS, 10, 1000, 100);
        struct bucket_rule small = {BUCKET_TOKENS, 10, 2000, 5};

        (void)state;
        assert_int_equal(bucket_take(&b, 100, 0), 0);
        bucket_set_rule(&b, &small, 0);
        assert_int_equal(bucket_used(&b, 0), 100);
        assert_true(bucket_take(&b, 1, 0) == 96 * S / 5);
        assert_true(bucket_take(&b, 1, 96 * S / 5 - 1) == 1);
        assert_int_equal(bucket_take(&b, 1, 96 * S / 5), 0);
}

static void a_bucket_reads_back_as_it_was_written(void **state)
{
        struct bucket made[] = {
                make(BUCKET_WINDOW, 1000, 1020000, 0),
                make(BUCKET_WINDOW, 1, 1, 0),
                make(BUCKET_TOKENS, 7, 1000, 9),
                make(BUCKET_TOKENS, 1, BUCKET_PERIOD_MAX_MS, BUCKET_AMOUNT_MAX),
        };
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        for (size_t i = 0; i < ARRAY_LEN(made); i++) {
                buf_clear(&b);
                bucket_pack(&made[i], &b);
                assert_true(b.len <= 20);
                for (int k = 0; k < 5; k++)
                        assert_true(bucket_take(&made[i], 1, k * 6 * S) >=
                                    0); /* some are refused */
                buf_clear(&b);
                bucket_pack(&made[i], &b);
                struct slice s = buf_slice(&b);
                struct bucket got;
                assert_true(bucket_unpack(&got, &s));
                assert_int_equal(s.len, 0);
                bucket_check(&got);
                for (uint64_t n = 1; n < 9; n++)
                        assert_true(bucket_wait(&got, n, 30 * S) ==
                                    bucket_wait(&made[i], n, 30 * S));
                bucket_release(&got);
                bucket_release(&made[i]);
        }
        buf_release(&b);
}

static void no_cut_or_changed_bytes_make_an_impossible_bucket(void **state)
{
        struct bucket made[] = {make(BUCKET_WINDOW, 50, 1020000, 0),
                                make(BUCKET_TOKENS, 7, 1000, 9)};
        struct bucket got;
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        for (size_t i = 0; i < ARRAY_LEN(made); i++) {
                for (int k = 0; k < 9; k++)
                        assert_true(bucket_take(&made[i], 3, k * 50 * S) >= 0);
                buf_clear(&b);
                bucket_pack(&made[i], &b);
                bucket_release(&made[i]);
                for (size_t n = 0; n < b.len; n++) {
                        struct slice s = slice_make(b.ptr, n);
                        assert_false(bucket_unpack(&got, &s));
                        assert_int_equal(s.len, n);
                        assert_null(got.ring);
                }
                for (size_t n = 0; n < b.len * 256; n++) {
                        char old = b.ptr[n / 256];
                        b.ptr[n / 256] = (char)(n % 256);
                        struct slice s = buf_slice(&b);
                        if (bucket_unpack(&got, &s)) {
                                bucket_check(&got);
                                assert_true(bucket_take(&got, 1, 600 * S) >=
                                            0); /* must not fail itself */
                                bucket_check(&got);
                                bucket_release(&got);
                        }
                        b.ptr[n / 256] = old;
                }
        }
        buf_release(&b);
}

/* at_ns 3000 s, period 1020 s: quantum 750 is the present one. */
static bool reads(const uint64_t *ring, size_t n)
{
        struct bucket got;
        struct buf b;

        buf_init(&b, 0);
        buf_put_byte(&b, BUCKET_WINDOW);
        buf_put_varint(&b, BUCKET_AMOUNT_MAX);
        buf_put_varint(&b, 1020000);
        buf_put_varint(&b, 3000 * S);
        buf_put_varint(&b, n / 2);
        for (size_t i = 0; i < n; i++)
                buf_put_varint(&b, ring[i]);
        struct slice s = buf_slice(&b);
        bool is_read = bucket_unpack(&got, &s);
        if (is_read)
                bucket_check(&got);
        bucket_release(&got);
        buf_release(&b);
        return is_read;
}

static void a_ring_is_read_only_within_its_bounds(void **state)
{
        static const uint64_t far[] = {0, 1, 255, 1}, further[] = {0, 1, 256, 1};
        static const uint64_t first[] = {750, 1}, before[] = {751, 1}, twice[] = {0, 1, 0, 1};
        static const uint64_t full[] = {0, BUCKET_AMOUNT_MAX - 1, 1, 1};
        static const uint64_t over[] = {0, BUCKET_AMOUNT_MAX, 1, 1};
        static const uint64_t huge[] = {0, 1ULL << 32 | 1};

        (void)state;
        assert_true(reads(far, 4) && reads(first, 2) && reads(full, 4));
        assert_false(reads(further, 4) || reads(before, 2) || reads(twice, 4));
        assert_false(reads(over, 4) || reads(huge, 2));
}

static void rules_are_checked_at_their_bounds(void **state)
{
        static const struct {
                struct bucket_rule rule;
                bool is_ok;
        } rows[] = {
                {{BUCKET_WINDOW, 1, 1, 0}, true},
                {{BUCKET_WINDOW, BUCKET_AMOUNT_MAX, BUCKET_PERIOD_MAX_MS, 0}, true},
                {{BUCKET_TOKENS, 1, 1, BUCKET_AMOUNT_MAX}, true},
                {{BUCKET_WINDOW, 0, 1, 0}, false},
                {{BUCKET_WINDOW, BUCKET_AMOUNT_MAX + 1, 1, 0}, false},
                {{BUCKET_WINDOW, 1, 0, 0}, false},
                {{BUCKET_WINDOW, 1, -1, 0}, false},
                {{BUCKET_WINDOW, 1, BUCKET_PERIOD_MAX_MS + 1, 0}, false},
                {{BUCKET_TOKENS, 1, 1, BUCKET_AMOUNT_MAX + 1}, false},
                {{(enum bucket_kind)3, 1, 1, 0}, false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct problem p = {0};
                int want = rows[i].is_ok ? OK : ERR_BADARG;
                assert_int_equal(bucket_rule_check(&rows[i].rule, &p), want);
                assert_int_equal(p.detail[0] == '\0', rows[i].is_ok);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_window_grants_its_amount_and_not_one_more),
                cmocka_unit_test(a_take_counts_until_its_quantum_has_left_and_no_longer),
                cmocka_unit_test(a_short_period_has_quanta_of_a_millisecond),
                cmocka_unit_test(the_wait_is_for_as_many_as_are_asked_for),
                cmocka_unit_test(the_ring_holds_as_many_quanta_as_a_window_can_touch),
                cmocka_unit_test(few_takes_need_little_memory),
                cmocka_unit_test(tokens_come_back_evenly_and_to_the_nanosecond),
                cmocka_unit_test(tokens_do_not_drift_in_a_million_turns),
                cmocka_unit_test(a_burst_of_one_spaces_takes_by_a_whole_turn),
                cmocka_unit_test(a_full_bucket_of_tokens_gives_its_burst_at_once),
                cmocka_unit_test(the_largest_rule_does_not_overflow),
                cmocka_unit_test(time_that_goes_back_counts_as_the_latest),
                cmocka_unit_test(a_refused_take_changes_nothing),
                cmocka_unit_test(a_minute_limit_holds_at_the_turn_of_the_minute),
                cmocka_unit_test(a_reset_forgets_what_was_taken),
                cmocka_unit_test(what_is_forced_counts_beyond_the_limit),
                cmocka_unit_test(a_new_limit_counts_what_was_taken_under_the_old_one),
                cmocka_unit_test(a_new_period_moves_takes_later_and_never_into_the_future),
                cmocka_unit_test(a_new_kind_keeps_the_count),
                cmocka_unit_test(a_token_debt_stays_when_the_burst_shrinks),
                cmocka_unit_test(a_bucket_reads_back_as_it_was_written),
                cmocka_unit_test(no_cut_or_changed_bytes_make_an_impossible_bucket),
                cmocka_unit_test(a_ring_is_read_only_within_its_bounds),
                cmocka_unit_test(rules_are_checked_at_their_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
