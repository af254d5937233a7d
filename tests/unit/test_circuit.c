/* Circuit breakers: each edge of the table in circuit.h, at its exact moment. */
#include "check.h"

#include "base/bytes.h"
#include "state/circuit.h"

#define MS    NS_PER_MS
#define S     NS_PER_S
#define START (1000 * S)

static struct circuit make(void)
{
        struct circuit_rule rule = circuit_rule_default();
        struct circuit c;

        circuit_init(&c, &rule, START);
        return c;
}

/* Closed -> open by the default threshold, with asks 1 to 5. */
static struct circuit make_open(void)
{
        struct circuit c = make();

        for (uint64_t id = 1; id <= CIRCUIT_FAILURES; id++)
                assert_int_equal(circuit_ask(&c, START, id, NULL), CIRCUIT_PASS);
        for (uint64_t id = 1; id <= CIRCUIT_FAILURES; id++)
                assert_int_equal(circuit_note(&c, START, false, id), id == CIRCUIT_FAILURES);
        assert_int_equal(c.state, CIRCUIT_OPEN);
        return c;
}

/* Open -> half-open with ask 6 as the probe, at the end of the cool-down. */
static struct circuit make_probing(void)
{
        struct circuit c = make_open();
        bool changed = false;

        assert_int_equal(circuit_ask(&c, START + 60 * S, 6, &changed), CIRCUIT_PROBE);
        assert_true(changed);
        return c;
}

static void a_circuit_opens_at_the_fifth_failure_in_a_row(void **state)
{
        struct circuit c = make();

        (void)state;
        for (uint64_t id = 1; id <= 9; id++) {
                assert_int_equal(circuit_ask(&c, START, id, NULL), CIRCUIT_PASS);
                /* The fifth is good: four in a row before it, four after it. */
                assert_false(circuit_note(&c, START, id == 5, id));
        }
        assert_int_equal(c.in_a_row, 4);
        assert_true(circuit_note(&c, START, false, CIRCUIT_NO_ASK));
        assert_int_equal(c.state, CIRCUIT_OPEN);
        assert_int_equal(c.trips, 1);
        circuit_check(&c);
}

static void an_open_circuit_refuses_until_its_cool_down_is_over(void **state)
{
        struct circuit c = make_open();
        bool changed = true;

        (void)state;
        assert_true(circuit_next_ns(&c) == START + 60 * S);
        assert_true(circuit_wait(&c, START + 10 * S) == 50 * S);
        assert_int_equal(circuit_ask(&c, START + 60 * S - 1, 6, &changed), CIRCUIT_REFUSED);
        assert_false(changed);
        assert_false(circuit_expire(&c, START + 60 * S - 1));
        assert_true(circuit_expire(&c, START + 60 * S));
        assert_int_equal(c.state, CIRCUIT_HALF_OPEN);
        assert_false(circuit_expire(&c, START + 60 * S));
        assert_true(circuit_next_ns(&c) == CIRCUIT_NEVER);
        assert_int_equal(circuit_wait(&c, START + 60 * S), 0);
}

static void there_is_one_probe_at_a_time(void **state)
{
        struct circuit c = make_probing();

        (void)state;
        assert_int_equal(circuit_ask(&c, START + 61 * S, 7, NULL), CIRCUIT_REFUSED);
        /* If nobody says anything: the rest of its 30 s, and then twice the cool-down. */
        assert_true(circuit_wait(&c, START + 61 * S) == 29 * S + 120 * S);
        assert_false(circuit_note(&c, START + 61 * S, true, 7)); /* not the probe's */
        assert_false(circuit_note(&c, START + 61 * S, true, CIRCUIT_NO_ASK));
        assert_int_equal(c.state, CIRCUIT_HALF_OPEN);
}

static void a_good_probe_closes(void **state)
{
        struct circuit c = make_probing();

        (void)state;
        assert_true(circuit_note(&c, START + 62 * S, true, 6));
        assert_int_equal(c.state, CIRCUIT_CLOSED);
        assert_true(c.since_ns == START + 62 * S);
        assert_int_equal(c.cool_ms, CIRCUIT_COOL_MS);
        assert_int_equal(circuit_ask(&c, START + 62 * S, 7, NULL), CIRCUIT_PASS);
        circuit_check(&c);
}

static void failed_probes_double_the_cool_down_up_to_its_cap(void **state)
{
        static const int64_t cools_s[] = {120, 240, 480, 900, 900};
        struct circuit c = make_open();
        int64_t now = START + 60 * S;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cools_s); i++) {
                uint64_t id = 10 + i;
                assert_int_equal(circuit_ask(&c, now - 1, id, NULL), CIRCUIT_REFUSED);
                assert_int_equal(circuit_ask(&c, now, id, NULL), CIRCUIT_PROBE);
                assert_true(circuit_note(&c, now + S, false, id));
                assert_int_equal(c.state, CIRCUIT_OPEN);
                now += S + cools_s[i] * S;
                assert_true(circuit_next_ns(&c) == now);
        }
        assert_int_equal(c.trips, 1);
        assert_int_equal(circuit_ask(&c, now, 99, NULL), CIRCUIT_PROBE);
        assert_true(circuit_note(&c, now, true, 99));
        assert_int_equal(c.cool_ms, CIRCUIT_COOL_MS);
}

static void a_probe_without_a_verdict_fails_at_its_deadline(void **state)
{
        struct circuit c = make_probing();
        int64_t dead = START + 90 * S;

        (void)state;
        assert_true(circuit_next_ns(&c) == dead);
        assert_false(circuit_expire(&c, dead - 1));
        struct circuit timely = c;
        assert_true(circuit_note(&timely, dead - 1, true, 6));
        assert_int_equal(timely.state, CIRCUIT_CLOSED);
        assert_true(circuit_note(&c, dead, true, 6)); /* it changed, but by dying */
        assert_int_equal(c.state, CIRCUIT_OPEN);
        assert_true(circuit_next_ns(&c) == dead + 120 * S);
}

static void what_was_due_long_ago_happened_at_its_time(void **state)
{
        struct circuit c = make_probing();
        bool changed = false;

        (void)state;
        assert_true(circuit_expire(&c, START + 3600 * S));
        assert_int_equal(c.state, CIRCUIT_OPEN);
        assert_true(c.since_ns == START + 90 * S);
        assert_true(circuit_expire(&c, START + 3600 * S));
        assert_int_equal(c.state, CIRCUIT_HALF_OPEN);
        assert_true(c.since_ns == START + 210 * S);
        assert_false(circuit_expire(&c, START + 3600 * S));
        c = make_probing();
        assert_int_equal(circuit_ask(&c, START + 3600 * S, 7, &changed), CIRCUIT_PROBE);
        assert_true(changed);
        assert_int_equal(c.cool_ms, 120000);
}

static void a_canceled_probe_makes_room_for_another(void **state)
{
        struct circuit c = make_probing();

        (void)state;
        assert_false(circuit_cancel(&c, START + 61 * S, 5));
        assert_int_equal(circuit_ask(&c, START + 61 * S, 7, NULL), CIRCUIT_REFUSED);
        assert_false(circuit_cancel(&c, START + 61 * S, 6));
        circuit_check(&c);
        assert_true(circuit_next_ns(&c) == CIRCUIT_NEVER);
        assert_int_equal(circuit_ask(&c, START + 62 * S, 8, NULL), CIRCUIT_PROBE);
        assert_true(circuit_next_ns(&c) == START + 92 * S);
        assert_false(circuit_note(&c, START + 62 * S, false, 6)); /* it gave up its say */
        assert_int_equal(c.cool_ms, CIRCUIT_COOL_MS);
}

static void late_answers_do_not_count_against_a_newer_state(void **state)
{
        struct circuit c = make();

        (void)state;
        for (uint64_t id = 1; id <= 20; id++)
                assert_int_equal(circuit_ask(&c, START, id, NULL), CIRCUIT_PASS);
        for (uint64_t id = 1; id <= 5; id++)
                (void)circuit_note(&c, START, false, id); /* the fifth opens it */
        assert_false(circuit_note(&c, START, true, 6));   /* open: nothing counts */
        assert_int_equal(circuit_ask(&c, START + 60 * S, 21, NULL), CIRCUIT_PROBE);
        assert_false(circuit_note(&c, START + 60 * S, false, 7));
        assert_true(circuit_note(&c, START + 60 * S, true, 21));
        for (uint64_t id = 8; id <= 20; id++)
                assert_false(circuit_note(&c, START + 60 * S, false, id));
        assert_false(circuit_note(&c, START + 60 * S, false, 21)); /* a second say of the probe */
        assert_int_equal(c.in_a_row, 0);
        for (uint64_t id = 22; id <= 26; id++)
                assert_int_equal(circuit_ask(&c, START + 60 * S, id, NULL), CIRCUIT_PASS);
        for (uint64_t id = 22; id <= 26; id++) {
                assert_false(circuit_note(&c, START + 60 * S, true, 9)); /* saves nothing */
                assert_int_equal(circuit_note(&c, START + 60 * S, false, id), id == 26);
        }
}

static struct circuit make_rated(uint32_t failures)
{
        struct circuit_rule rule = circuit_rule_default();
        struct circuit c;

        rule.failures = failures;
        rule.rate_percent = 50;
        rule.rate_min = 10;
        rule.rate_window_ms = 10000;
        circuit_init(&c, &rule, START);
        return c;
}

static void a_failure_rate_opens_it_when_there_were_enough(void **state)
{
        struct circuit c = make_rated(0);

        (void)state;
        for (int i = 0; i < 9; i++)
                assert_false(circuit_note(&c, START, false, CIRCUIT_NO_ASK));
        struct circuit other = c;
        assert_true(circuit_note(&c, START, false, CIRCUIT_NO_ASK));
        /* 9 of 18 and a good one: below one half; two more bad ones are 11 of 21. */
        for (int i = 0; i < 11; i++)
                assert_false(circuit_note(&other, START, true, CIRCUIT_NO_ASK));
        assert_false(circuit_note(&other, START, false, CIRCUIT_NO_ASK));
        assert_true(circuit_note(&other, START, false, CIRCUIT_NO_ASK));
        circuit_check(&other);
}

static void a_failure_rate_forgets_what_left_its_window(void **state)
{
        struct circuit c = make_rated(0);
        uint64_t bad, all;

        (void)state;
        for (int i = 0; i < 9; i++)
                assert_false(circuit_note(&c, START, false, CIRCUIT_NO_ASK));
        assert_false(circuit_note(&c, START + 2 * S, true, CIRCUIT_NO_ASK));
        circuit_rate(&c, START + 10 * S - 1, &bad, &all);
        assert_int_equal(bad, 9);
        assert_int_equal(all, 10);
        circuit_rate(&c, START + 10 * S, &bad, &all);
        assert_int_equal(bad, 0);
        assert_int_equal(all, 1);
        circuit_rate(&c, START + 12 * S, &bad, &all);
        assert_int_equal(all, 0);
        assert_false(circuit_note(&c, START + 10 * S, false, CIRCUIT_NO_ASK));
        assert_false(circuit_note(&c, START + 1000 * S, false, CIRCUIT_NO_ASK));
        circuit_rate(&c, START + 1000 * S, &bad, &all);
        assert_int_equal(bad, 1);
        assert_int_equal(all, 1);
}

static void a_circuit_that_closed_starts_with_a_clean_slate(void **state)
{
        struct circuit c = make_rated(3);
        uint64_t bad, all;

        (void)state;
        for (int i = 0; i < 3; i++)
                (void)circuit_note(&c, START, false, CIRCUIT_NO_ASK); /* the third opens it */
        assert_true(circuit_force(&c, START, CIRCUIT_FORCE_CLOSE));
        circuit_rate(&c, START, &bad, &all);
        assert_int_equal(bad + all, 0);
        assert_false(circuit_note(&c, START, false, CIRCUIT_NO_ASK));
        assert_false(circuit_note(&c, START, false, CIRCUIT_NO_ASK));
        assert_true(circuit_note(&c, START, false, CIRCUIT_NO_ASK));
}

static void a_held_circuit_stays_open_until_it_is_forced_otherwise(void **state)
{
        struct circuit c = make();

        (void)state;
        assert_true(circuit_force(&c, START, CIRCUIT_FORCE_HOLD));
        assert_false(circuit_force(&c, START, CIRCUIT_FORCE_HOLD));
        circuit_check(&c);
        assert_true(circuit_next_ns(&c) == CIRCUIT_NEVER);
        assert_true(circuit_wait(&c, START) == CIRCUIT_NEVER);
        assert_int_equal(circuit_ask(&c, START + 1000000 * S, 1, NULL), CIRCUIT_REFUSED);
        struct circuit other = c;
        assert_true(circuit_force(&c, START + 1000000 * S, CIRCUIT_FORCE_CLOSE));
        assert_int_equal(circuit_ask(&c, START + 1000000 * S, 2, NULL), CIRCUIT_PASS);
        assert_true(circuit_force(&other, START + 1000000 * S, CIRCUIT_FORCE_TRIP));
        assert_true(circuit_wait(&other, START + 1000000 * S) == 60 * S);
}

static void a_new_rule_keeps_the_state(void **state)
{
        struct circuit c = make();
        struct circuit_rule rule = circuit_rule_default();

        (void)state;
        for (int i = 0; i < 3; i++)
                assert_false(circuit_note(&c, START, false, CIRCUIT_NO_ASK));
        rule.failures = 2;
        rule.cool_ms = 1000;
        rule.cool_max_ms = 1500;
        circuit_set_rule(&c, &rule);
        circuit_check(&c);
        assert_int_equal(c.state, CIRCUIT_CLOSED);
        assert_true(circuit_note(&c, START, false, CIRCUIT_NO_ASK));
        assert_true(circuit_wait(&c, START) == S);
        c = make_open();
        circuit_set_rule(&c, &rule);
        circuit_check(&c);
        assert_true(circuit_wait(&c, START) == 60 * S); /* the running one */
        assert_int_equal(circuit_ask(&c, START + 60 * S, 9, NULL), CIRCUIT_PROBE);
        assert_true(circuit_note(&c, START + 60 * S, false, 9));
        assert_true(circuit_wait(&c, START + 60 * S) == 1500 * MS);
}

static void time_that_goes_back_counts_as_the_latest(void **state)
{
        struct circuit c = make_open();

        (void)state;
        assert_int_equal(circuit_ask(&c, START + 10 * S, 6, NULL), CIRCUIT_REFUSED);
        assert_true(circuit_wait(&c, 0) == 50 * S);
        assert_int_equal(circuit_ask(&c, -1, 7, NULL), CIRCUIT_REFUSED);
        assert_true(c.at_ns == START + 10 * S);
}

static void a_circuit_reads_back_and_damaged_bytes_make_no_impossible_one(void **state)
{
        struct circuit made[] = {make(), make_open(), make_probing(), make_rated(7)}, got;
        struct buf b, again;

        (void)state;
        buf_init(&b, 0);
        buf_init(&again, 0);
        assert_false(circuit_note(&made[3], START, false, CIRCUIT_NO_ASK));
        for (size_t i = 0; i < ARRAY_LEN(made); i++) {
                buf_clear(&b);
                buf_clear(&again);
                circuit_pack(&made[i], &b);
                struct slice s = buf_slice(&b);
                assert_true(circuit_unpack(&got, &s));
                assert_int_equal(s.len, 0);
                circuit_pack(&got, &again);
                assert_int_equal(b.len, again.len);
                assert_memory_equal(b.ptr, again.ptr, b.len);
                for (size_t n = 0; n < b.len; n++) {
                        s = slice_make(b.ptr, n);
                        assert_false(circuit_unpack(&got, &s));
                        assert_int_equal(s.len, n);
                }
                for (size_t n = 0; n < b.len * 256; n++) {
                        char old = b.ptr[n / 256];
                        b.ptr[n / 256] = (char)(n % 256);
                        s = buf_slice(&b);
                        if (circuit_unpack(&got, &s)) {
                                circuit_check(&got);
                                (void)circuit_note(&got, START + 90 * S, false, CIRCUIT_NO_ASK);
                                circuit_check(&got);
                        }
                        b.ptr[n / 256] = old;
                }
        }
        buf_release(&b);
        buf_release(&again);
}

static void a_time_to_which_nothing_can_be_added_is_not_read(void **state)
{
        struct circuit made = make(), got;
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        for (int i = 0; i < 2; i++) {
                made.at_ns = INT64_MAX / 2 + i;
                buf_clear(&b);
                circuit_pack(&made, &b);
                struct slice s = buf_slice(&b);
                assert_int_equal(circuit_unpack(&got, &s), i == 0);
        }
        made = make_open();
        for (int i = 0; i < 2; i++) {
                made.until_ns = made.at_ns + CIRCUIT_MS_MAX * MS + i;
                buf_clear(&b);
                circuit_pack(&made, &b);
                struct slice s = buf_slice(&b);
                assert_int_equal(circuit_unpack(&got, &s), i == 0);
        }
        buf_release(&b);
}

static void rules_are_checked_at_their_bounds(void **state)
{
        const struct circuit_rule good = make_rated(5).rule;
        struct circuit_rule bad[11];
        struct problem p;

        (void)state;
        assert_int_equal(circuit_rule_check(&good, NULL), OK);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                bad[i] = good;
        bad[0].failures = bad[0].rate_percent = 0;
        bad[1].failures = CIRCUIT_COUNT_MAX + 1;
        bad[2].rate_percent = 101;
        bad[3].rate_min = 0;
        bad[4].rate_min = CIRCUIT_COUNT_MAX + 1;
        bad[5].rate_window_ms = CIRCUIT_SLOTS - 1;
        bad[6].rate_window_ms = CIRCUIT_MS_MAX + 1;
        bad[7].cool_ms = 0;
        bad[8].cool_max_ms = bad[8].cool_ms - 1;
        bad[9].cool_max_ms = CIRCUIT_MS_MAX + 1;
        bad[10].probe_ms = 0;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                p = (struct problem){0};
                assert_int_equal(circuit_rule_check(&bad[i], &p), ERR_BADARG);
                assert_true(p.detail[0] != '\0');
        }
        assert_string_equal(circuit_state_name(CIRCUIT_HALF_OPEN), "half-open");
        assert_string_equal(circuit_state_name(CIRCUIT_OPEN), "open");
        assert_string_equal(circuit_state_name(CIRCUIT_CLOSED), "closed");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_circuit_opens_at_the_fifth_failure_in_a_row),
                cmocka_unit_test(an_open_circuit_refuses_until_its_cool_down_is_over),
                cmocka_unit_test(there_is_one_probe_at_a_time),
                cmocka_unit_test(a_good_probe_closes),
                cmocka_unit_test(failed_probes_double_the_cool_down_up_to_its_cap),
                cmocka_unit_test(a_probe_without_a_verdict_fails_at_its_deadline),
                cmocka_unit_test(what_was_due_long_ago_happened_at_its_time),
                cmocka_unit_test(a_canceled_probe_makes_room_for_another),
                cmocka_unit_test(late_answers_do_not_count_against_a_newer_state),
                cmocka_unit_test(a_failure_rate_opens_it_when_there_were_enough),
                cmocka_unit_test(a_failure_rate_forgets_what_left_its_window),
                cmocka_unit_test(a_circuit_that_closed_starts_with_a_clean_slate),
                cmocka_unit_test(a_held_circuit_stays_open_until_it_is_forced_otherwise),
                cmocka_unit_test(a_new_rule_keeps_the_state),
                cmocka_unit_test(time_that_goes_back_counts_as_the_latest),
                cmocka_unit_test(a_circuit_reads_back_and_damaged_bytes_make_no_impossible_one),
                cmocka_unit_test(a_time_to_which_nothing_can_be_added_is_not_read),
                cmocka_unit_test(rules_are_checked_at_their_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
