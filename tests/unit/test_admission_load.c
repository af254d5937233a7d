/* How the law of admission judges the database, and what it learns: over, the cuts of the window,
 * load from outside, strays, the usual.  Against a model: prop_admission_load.c. */
#include "admission_box.h"

/* ---- over: slower and more ---- */

/* Transactions of the class that take that long, so many at once, one lot after the other. */
static void traffic(struct rig *r, size_t number, int at_once, int lots, int64_t each_ns)
{
        for (int lot = 0; lot < lots; lot++) {
                for (int i = 900; i < 900 + at_once; i++)
                        (void)ask(r, i, number);
                r->now_ns += each_ns;
                for (int i = 900; i < 900 + at_once; i++)
                        ended(r, i, each_ns);
        }
}

/* 20 statements run usually, `running` do now, and transactions take so many times as long. */
static struct rig *door_with(double running, int slower)
{
        struct rig *r = door();

        fill(r, 0, 4, DEFERRABLE);
        r->running = 4 + running;
        r->running_most = 20;
        publish(r);
        traffic(r, USUAL, 3, 15, slower * 10 * MS);
        watch(r, 250 * MS);
        return r;
}

static void slower_alone_is_not_over(void **state)
{
        struct rig *r = door_with(10, 5);

        (void)state;
        near(state_of(r).slowdown, 5);
        near(view_of(r, USUAL).slowdown, 5);
        assert_false(is_over(r));
        assert_true(window(r) >= 4);
        rig_end(r);
}

static void more_alone_is_not_over(void **state)
{
        struct rig *r = door_with(1000, 1);

        (void)state;
        near(state_of(r).slowdown, 1);
        near(state_of(r).server, 1004);
        assert_false(is_over(r));
        assert_true(window(r) >= 4);
        rig_end(r);
}

static void slower_and_more_halves_the_window(void **state)
{
        struct rig *r = door_with(30, 5);

        (void)state;
        assert_true(is_over(r));
        assert_int_equal(window(r), 2);
        rig_end(r);
}

/* Above 2, and not at 2. */
static void it_is_slower_at_more_than_twice_the_usual_time(void **state)
{
        (void)state;
        for (int i = 0; i < 2; i++) {
                struct rig *r = door();
                r->running = 30;
                r->running_most = 20;
                publish(r);
                traffic(r, USUAL, 3, 30, i ? 21 * MS : 19 * MS);
                watch(r, 250 * MS);
                assert_true(is_over(r) == (i == 1));
                rig_end(r);
        }
}

/* So many transactions, of which some are slow: longer than four times the mean. */
static struct rig *door_with_slow(int n, int slow)
{
        struct rig *r = door();

        r->running = 30;
        r->running_most = 20;
        publish(r);
        for (int i = 0; i < n; i++)
                traffic(r, USUAL, 1, 1, i < slow ? 50 * MS : 9 * MS);
        watch(r, 250 * MS);
        return r;
}

/* A server that is short of processors runs most statements at once, and a few wait for long. */
static void slow_ones_are_slower_though_the_mean_is_usual(void **state)
{
        struct rig *r = door_with_slow(100, 8);

        (void)state;
        near(state_of(r).slow_share, (8 - 2 * sqrt(8)) / 100);
        assert_false(is_over(r));
        rig_end(r);
        r = door_with_slow(100, 16);
        near(state_of(r).slow_share, (16 - 2 * sqrt(16)) / 100);
        assert_true(state_of(r).slowdown < 1.5);
        assert_true(is_over(r));
        same(state_of(r).why,
             "8 % of the transactions are slow, usually 2, 30 statements run, usually up to 20");
        rig_end(r);
}

static void a_few_slow_ones_of_few_say_nothing(void **state)
{
        struct rig *r = door_with_slow(40, 5);

        (void)state;
        assert_true(state_of(r).slow_share < 0.03);
        assert_false(is_over(r));
        rig_end(r);
        r = door_with_slow(19, 19);
        assert_true(isnan(state_of(r).slow_share));
        rig_end(r);
}

static void the_window_is_not_cut_again_before_it_has_drained(void **state)
{
        struct rig *r = door();

        (void)state;
        r->running_most = 10000;
        publish(r);
        for (int i = 0; i < 9; i++)
                (void)ask(r, i, FRESH);
        while (window(r) < 9)
                (void)until_window_changes(r);
        assert_int_equal(state_of(r).excess, 9);
        set_harm(r, true);
        assert_int_equal(window(r), 4);
        watch(r, 5 * S);
        assert_int_equal(window(r), 4);
        ended_all(r, 0, 4);
        watch(r, 5 * S);
        assert_int_equal(state_of(r).excess, 5);
        assert_int_equal(window(r), 4);
        ended_all(r, 4, 1);
        watch(r, 250 * MS);
        assert_int_equal(window(r), 2);
        ended_all(r, 5, 2);
        watch(r, S);
        assert_int_equal(window(r), 1);
        ended_all(r, 7, 2);
        watch(r, 5 * S);
        assert_int_equal(window(r), 1); /* never less */
        rig_end(r);
}

static void places_that_are_not_used_are_no_measure_of_a_cut(void **state)
{
        struct rig *r = door();

        (void)state;
        r->running_most = 10000;
        publish(r);
        for (int i = 0; i < 30; i++)
                (void)ask(r, i, FRESH);
        while (window(r) < 28)
                (void)until_window_changes(r);
        while (state_of(r).running > 6)
                for (int i = 0; i < 30 && state_of(r).running > 6; i++)
                        if (r->tickets[i].state == TICKET_RUNNING)
                                ended(r, i, MS);
        assert_int_equal(state_of(r).excess, 6);
        set_harm(r, true);
        assert_int_equal(window(r), 3);
        rig_end(r);
}

static void harm_alone_is_over(void **state)
{
        struct rig *r = door();

        (void)state;
        r->running = r->running_most = NAN;
        fill(r, 0, 4, FRESH);
        set_harm(r, true);
        assert_true(is_over(r));
        has(state_of(r).why, "replication_lag 12 against 10");
        assert_int_equal(window(r), 2);
        set_harm(r, false);
        assert_false(is_over(r));
        rig_end(r);
}

/* `slow` of n classes take four times as long, and more runs than usual. */
static bool is_over_with(size_t slow, size_t n)
{
        static const enum tier tiers[] = {TIER_NORMAL, TIER_HIGH, TIER_NORMAL, TIER_HIGH};
        struct rig *r = rig_new();

        patient(r, n);
        r->running = 30;
        r->running_most = 20;
        set_tiers(r, tiers, n);
        for (size_t i = 0; i < n; i++)
                learn(r, i, 3, 10 * MS);
        for (size_t i = 0; i < n; i++)
                traffic(r, i, 3, 10, i < slow ? 40 * MS : 10 * MS);
        watch(r, 250 * MS);
        bool ret = is_over(r);
        rig_end(r);
        return ret;
}

static void one_slow_class_is_its_own_problem(void **state)
{
        (void)state;
        assert_true(is_over_with(1, 1));
        assert_false(is_over_with(1, 2)); /* the lower median */
        assert_true(is_over_with(2, 2));
        assert_false(is_over_with(1, 3));
        assert_true(is_over_with(2, 3));
        assert_false(is_over_with(2, 4));
        assert_true(is_over_with(3, 4));
}

static void a_deferrable_class_does_not_judge_the_database(void **state)
{
        struct rig *r = door();

        (void)state;
        r->running = 30;
        r->running_most = 20;
        publish(r);
        traffic(r, DEFERRABLE, 3, 20, 100 * MS);
        watch(r, 250 * MS);
        assert_true(state_of(r).slowdown == 0);
        assert_false(is_over(r));
        rig_end(r);
}

/* 30 run of usually 20: too little to be over without a class that is slower. */
static void twenty_transactions_of_five_seconds_judge(void **state)
{
        struct rig *r = door();

        (void)state;
        r->running = 30;
        r->running_most = 20;
        publish(r);
        traffic(r, USUAL, 1, 19, 50 * MS);
        watch(r, 250 * MS);
        assert_true(state_of(r).slowdown == 0);
        assert_false(is_over(r));
        traffic(r, USUAL, 1, 1, 50 * MS);
        watch(r, 250 * MS);
        near(state_of(r).slowdown, 5);
        assert_true(is_over(r));
        watch(r, 5 * S);
        assert_true(state_of(r).slowdown == 0);
        assert_false(is_over(r));
        rig_end(r);
}

/* A pile-up: nothing ends. */
static void running_ones_older_than_usual_count(void **state)
{
        (void)state;
        for (int n = 19; n <= 20; n++) {
                struct rig *r = door();
                learn(r, USUAL, 40, 10 * MS);
                r->running = 30;
                r->running_most = 20;
                publish(r); /* they come beside those 30 */
                fill(r, 0, n, USUAL);
                publish(r); /* they are among those 30 */
                watch(r, S);
                assert_true(is_over(r) == (n == 20));
                assert_true((state_of(r).slowdown > 2) == (n == 20));
                rig_end(r);
        }
}

static void idle_ones_are_never_older_than_usual(void **state)
{
        struct rig *r = door();

        (void)state;
        learn(r, USUAL, 40, 10 * MS);
        r->running = 30;
        r->running_most = 20;
        fill(r, 0, 30, USUAL);
        for (int i = 0; i < 30; i++)
                admission_idle(r->a, &r->tickets[i], r->now_ns);
        publish(r);
        watch(r, 10 * S);
        for (int i = 0; i < 30; i++) /* their age counts from here */
                admission_resume(r->a, &r->tickets[i], r->now_ns);
        publish(r);
        assert_true(state_of(r).slowdown == 0);
        assert_false(is_over(r));
        rig_end(r);
}

static void without_a_class_to_judge_twice_the_usual_number_is_over(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, FRESH);
        r->running_most = 20;
        r->running = 40;
        publish(r);
        watch(r, 250 * MS);
        assert_false(is_over(r));
        r->running = 41;
        publish(r);
        watch(r, 250 * MS);
        assert_true(is_over(r));
        assert_int_equal(window(r), 2);
        rig_end(r);
}

static void our_own_count_is_current(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 10, CRITICAL);
        r->running = 25;
        r->running_most = 20;
        publish(r);
        near(state_of(r).server, 25);
        near(state_of(r).server_most, 20);
        fill(r, 10, 40, CRITICAL);
        near(state_of(r).server, 65);
        watch(r, 250 * MS);
        assert_true(is_over(r)); /* without another sample */
        ended_all(r, 0, 48);
        near(state_of(r).server, 17);
        watch(r, 250 * MS);
        assert_false(is_over(r));
        r->running = 1; /* less than our own: the others are not less than none */
        publish(r);
        near(state_of(r).server, 2);
        rig_end(r);
}

static void what_the_operator_wrote_counts_instead_of_what_was_learned(void **state)
{
        struct rig *r = door();
        double n[USUAL_BUCKETS] = {0};

        (void)state;
        n[usual_bucket(11)] = 100000;
        assert_true(admission_remember_metric(r->a, n, 7 * 86400));
        r->running_most = NAN;
        r->running = 25;
        publish(r);
        watch(r, 250 * MS);
        near(state_of(r).server_most, 11);
        assert_true(is_over(r));
        r->running_most = 20;
        publish(r);
        watch(r, 250 * MS);
        near(state_of(r).server_most, 20);
        assert_false(is_over(r));
        rig_end(r);
}

static void an_unknown_metric_alone_is_not_over(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, FRESH);
        r->running = NAN;
        publish(r);
        watch(r, 250 * MS);
        assert_true(isnan(state_of(r).server));
        assert_false(is_over(r));
        r->running = 1e9;
        r->running_most = NAN; /* nor was it learned */
        publish(r);
        watch(r, 250 * MS);
        assert_true(isnan(state_of(r).server_most));
        assert_false(is_over(r));
        assert_int_equal(window(r), 4);
        rig_end(r);
}

static void without_any_policy_slow_transactions_do_no_harm(void **state)
{
        struct rig *r = rig_new();
        struct usual_memory m = week_of(3, 10 * MS);

        (void)state;
        patient(r, 1);
        assert_true(admission_remember(r->a, 0, &m));
        traffic(r, 0, 3, 50, 100 * MS);
        assert_true(isnan(state_of(r).server));
        near(state_of(r).slowdown, 10);
        assert_int_equal(view_of(r, 0).free, 3);
        rig_end(r);
}

/* ---- load from outside ---- */

static void load_from_outside_multiplies_the_usual_by_the_slowdown(void **state)
{
        static const struct {
                int slower;
                uint32_t times;
        } rows[] = {{1, 1}, {3, 3}, {4, 4}, {10, 4}};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct rig *r = door();
                r->running = 50;
                r->running_most = 20;
                publish(r);
                traffic(r, USUAL, 3, 15, rows[i].slower * 10 * MS);
                watch(r, 250 * MS);
                assert_true(is_over(r) == (rows[i].slower > 2));
                assert_int_equal(view_of(r, USUAL).free, 3 * rows[i].times);
                assert_int_equal(view_of(r, HIGH).free, 2 * 2 * rows[i].times);
                assert_int_equal(view_of(r, FRESH).free, 0);
                assert_int_equal(view_of(r, DEFERRABLE).free, 0);
                fill(r, 0, 3 * (int)rows[i].times, USUAL);
                assert_int_equal(view_of(r, USUAL).excess, 0);
                /* It ends with the trouble. */
                r->running = 1;
                publish(r);
                watch(r, 250 * MS);
                assert_int_equal(view_of(r, USUAL).free, 3);
                assert_int_equal(view_of(r, USUAL).excess, 3 * rows[i].times - 3);
                rig_end(r);
        }
}

static void half_of_what_runs_must_come_from_outside(void **state)
{
        (void)state;
        for (int own = 24; own <= 26; own++) {
                struct rig *r = door();
                fill(r, 0, own, CRITICAL);
                r->running = 50;
                r->running_most = 20;
                publish(r);
                traffic(r, USUAL, 3, 15, 30 * MS);
                watch(r, 250 * MS);
                assert_true(is_over(r));
                assert_int_equal(view_of(r, USUAL).free, own < 25 ? 9 : 3);
                rig_end(r);
        }
}

static void those_who_wait_go_when_the_usual_is_multiplied(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, FRESH);
        traffic(r, USUAL, 3, 15, 40 * MS); /* slower, but not more */
        fill(r, 10, 3, USUAL);
        for (int i = 13; i < 30; i++)
                held_for_load(r, i, USUAL);
        r->running = 50;
        r->running_most = 20;
        publish(r);
        watch(r, 250 * MS);
        assert_int_equal(view_of(r, USUAL).free, 12);
        assert_int_equal(view_of(r, USUAL).executing, 12);
        assert_int_equal(r->n_decided, 9);
        rig_end(r);
}

/* ---- strays ---- */

/* Transactions that begin with that digest. */
static void digest_traffic(struct rig *r, size_t number, uint64_t digest, int n, int64_t each_ns,
                           int64_t every_ns)
{
        for (int i = 0; i < n; i++) {
                r->tickets[900].digest = digest;
                assert_int_equal(verdict(r, 900, number), ADMIT_RUN);
                r->now_ns += each_ns;
                ended(r, 900, each_ns);
                r->now_ns += every_ns;
        }
}

/* Starts one with that digest; is it a stray? */
static bool strays(struct rig *r, int i, size_t number, uint64_t digest)
{
        r->tickets[i].digest = digest;
        (void)ask(r, i, number);
        return r->tickets[i].is_stray;
}

static void a_digest_that_takes_twenty_times_as_long_has_no_usual(void **state)
{
        struct rig *r = door();

        (void)state;
        learn(r, USUAL, 3, 10 * MS);
        digest_traffic(r, USUAL, 1, 50, 10 * MS, MS);
        digest_traffic(r, USUAL, 2, 5, 250 * MS, MS);
        digest_traffic(r, USUAL, 3, 5, 150 * MS, MS);
        watch(r, 6 * S);
        assert_false(strays(r, 0, USUAL, 1));
        assert_false(strays(r, 1, USUAL, 3));
        assert_true(strays(r, 2, USUAL, 2));
        assert_int_equal(view_of(r, USUAL).excess, 1);
        for (int i = 3; i < 6; i++)
                assert_true(strays(r, i, USUAL, 2));
        assert_int_equal(view_of(r, USUAL).excess, 4);
        assert_true(strays(r, 6, USUAL, 2));
        assert_int_equal(r->answers[6].verdict, ADMIT_WAIT);
        assert_int_equal(r->answers[6].reason, ADMIT_BY_LOAD);
        /* They take no place of the usual, and hold nothing up in it. */
        assert_false(strays(r, 7, USUAL, 1));
        assert_int_equal(r->answers[7].verdict, ADMIT_RUN);
        assert_false(strays(r, 8, USUAL, 1));
        assert_int_equal(r->answers[8].verdict, ADMIT_WAIT); /* the fourth of the usual three */
        /* Places of the usual go to others, places of the window to strays, too. */
        ended(r, 0, MS);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->order[0], 8);
        ended(r, 3, MS);
        assert_int_equal(r->n_decided, 2);
        assert_int_equal(r->order[1], 6);
        rig_end(r);
}

static void a_new_digest_in_a_settled_class_has_no_usual(void **state)
{
        struct rig *r = door();

        (void)state;
        assert_false(strays(r, 0, USUAL, 77)); /* all are new */
        ended(r, 0, 10 * MS);
        digest_traffic(r, USUAL, 1, 2000, 10 * MS, 400 * MS);
        assert_false(strays(r, 0, USUAL, 1));
        assert_true(strays(r, 1, USUAL, 2));
        assert_int_equal(view_of(r, USUAL).excess, 1);
        ended(r, 0, 10 * MS);
        ended(r, 1, 10 * MS);
        digest_traffic(r, USUAL, 2, 4, 10 * MS, MS);
        assert_false(strays(r, 0, USUAL, 2)); /* it is known now */
        assert_false(strays(r, 1, USUAL, 0)); /* no digest says nothing */
        rig_end(r);
}

/* After a restart, too: what was known of the statements is part of what was learned. */
static void a_digest_that_was_remembered_is_not_new(void **state)
{
        const struct digest_row quick = {
                .digest = 71, .log_time = log(10 * MS), .n = 100, .class_number = USUAL};
        const struct digest_row slow = {
                .digest = 72, .log_time = log(500 * MS), .n = 3, .class_number = USUAL};
        struct digest_row wrong = quick;
        struct rig *r = door();

        (void)state;
        wrong.n = 2;
        assert_false(admission_remember_digest(r->a, &wrong));
        r->tickets[0].digest = 73;
        assert_int_equal(verdict(r, 0, USUAL), ADMIT_RUN);
        assert_false(r->tickets[0].is_stray); /* nothing is known: it may be usual */
        assert_true(admission_remember_digest(r->a, &quick));
        assert_true(admission_remember_digest(r->a, &slow));
        for (int i = 1; i <= 3; i++) {
                r->tickets[i].digest = 70 + (uint64_t)i;
                assert_int_equal(verdict(r, i, USUAL), ADMIT_RUN);
                assert_true(r->tickets[i].is_stray == (i > 1));
        }
        rig_end(r);
}

static void in_a_class_with_many_new_digests_they_are_usual(void **state)
{
        struct rig *r = door();

        (void)state;
        for (uint64_t i = 0; i < 2000; i++)
                digest_traffic(r, USUAL, i % 10 ? 1 : 1000 + i, 1, 10 * MS, 400 * MS);
        assert_false(strays(r, 0, USUAL, 999));
        rig_end(r);
}

static void a_critical_transaction_never_strays(void **state)
{
        struct rig *r = door();

        (void)state;
        learn(r, CRITICAL, 3, 10 * MS);
        digest_traffic(r, CRITICAL, 2, 5, 900 * MS, MS);
        watch(r, 6 * S);
        for (int i = 0; i < 20; i++) {
                r->tickets[i].digest = 2;
                assert_int_equal(verdict(r, i, CRITICAL), ADMIT_RUN);
        }
        assert_int_equal(state_of(r).excess, 0);
        rig_end(r);
}

/* ---- learning ---- */

static void while_nothing_was_learned_nothing_is_held(void **state)
{
        static const enum tier tiers[] = {TIER_HIGH, TIER_NORMAL, TIER_DEFERRABLE};
        struct rig *r = rig_new();

        (void)state;
        patient(r, 3);
        limits(r, 1, (struct class_limits){.mode = MODE_OBSERVE});
        set_tiers(r, tiers, 3);
        r->running = 1000;
        r->running_most = 1;
        set_harm(r, true);
        for (int i = 0; i < 300; i++) {
                assert_int_equal(verdict(r, i, (size_t)i % 3), ADMIT_RUN);
                assert_false(r->answers[i].would_wait);
        }
        assert_false(state_of(r).is_learned);
        /* A deferrable class is no measure. */
        learn(r, 2, 3, 10 * MS);
        assert_false(state_of(r).is_learned);
        fill(r, 300, 50, 2);
        learn(r, 0, 3, 10 * MS);
        assert_true(state_of(r).is_learned);
        held_for_load(r, 350, 2);
        rig_end(r);
}

/* Calm traffic: `at_once` transactions of that length, started every so often. */
static void calm_traffic(struct rig *r, size_t number, int at_once, int64_t each_ns,
                         int64_t every_ns, int64_t total_ns)
{
        struct ticket_use use = {.statements = 1, .busy_ns = each_ns};
        for (int64_t end_ns = r->now_ns + total_ns; r->now_ns < end_ns;) {
                for (int i = 0; i < at_once; i++)
                        admission_ask(r->a, &r->tickets[i], number, r->now_ns, &r->answers[i]);
                r->now_ns += each_ns;
                for (int i = 0; i < at_once; i++)
                        admission_end(r->a, &r->tickets[i], &use, r->now_ns);
                r->now_ns += every_ns - each_ns;
                publish(r);
        }
}

static struct rig *door_that_observes(void)
{
        static const enum tier tiers[] = {TIER_NORMAL, TIER_NORMAL};
        struct rig *r = rig_new();

        limits(r, 0, (struct class_limits){.mode = MODE_OBSERVE});
        limits(r, 1, (struct class_limits){.mode = MODE_OBSERVE});
        r->running = 7;
        set_tiers(r, tiers, 2);
        return r;
}

static void ten_minutes_of_calm_traffic_teach_what_is_usual(void **state)
{
        struct rig *r = door_that_observes();

        (void)state;
        calm_traffic(r, 0, 3, 50 * MS, 200 * MS, 590 * S);
        assert_false(state_of(r).is_learned);
        assert_true(view_of(r, 0).usual == 0);
        assert_true(isnan(state_of(r).server_most));
        calm_traffic(r, 0, 3, 50 * MS, 200 * MS, 120 * S);
        assert_true(state_of(r).is_learned);
        near(view_of(r, 0).usual, 3);
        near(view_of(r, 0).usual_ms, 50);
        assert_int_equal(view_of(r, 0).free, 3);
        near(state_of(r).server_most, 7);
        assert_true(view_of(r, 1).usual == 0); /* it had none */
        assert_int_equal(view_of(r, 1).free, 0);
        rig_end(r);
}

static void a_thousand_transactions_teach_what_is_usual(void **state)
{
        struct rig *r = door_that_observes();

        (void)state;
        calm_traffic(r, 0, 1, 50 * MS, S, 990 * S);
        assert_false(state_of(r).is_learned);
        assert_true(view_of(r, 0).usual == 0);
        calm_traffic(r, 0, 1, 50 * MS, S, 90 * S);
        assert_true(state_of(r).is_learned);
        near(view_of(r, 0).usual, 1);
        rig_end(r);
}

static void trouble_teaches_nothing(void **state)
{
        struct rig *r = door_that_observes();

        (void)state;
        set_harm(r, true);
        calm_traffic(r, 0, 3, 50 * MS, 200 * MS, 1200 * S);
        assert_false(state_of(r).is_learned);
        assert_true(isnan(state_of(r).server_most));
        rig_end(r);
}

static void what_was_learned_moves_to_another_admission(void **state)
{
        struct rig *r = door_that_observes();
        struct usual_memory m, again;

        (void)state;
        assert_false(admission_memory(r->a, 0, &m));
        assert_false(admission_memory(r->a, 7, &m));
        calm_traffic(r, 0, 3, 50 * MS, 200 * MS, 720 * S);
        assert_true(admission_memory(r->a, 0, &m));
        assert_false(admission_memory(r->a, 1, &again));
        struct usual_metric metric = *admission_metric(r->a);
        rig_end(r);

        r = rig_new();
        plain(r, 2);
        assert_true(isnan(state_of(r).server_most));
        assert_true(admission_remember(r->a, 1, &m)); /* by another number */
        assert_true(admission_remember_metric(r->a, metric.n, metric.seconds));
        assert_true(admission_memory(r->a, 1, &again));
        assert_true(again.ends == m.ends && again.seconds == m.seconds);
        assert_true(again.executing == m.executing && again.log_time == m.log_time);
        assert_int_equal(again.n_hours, m.n_hours);
        assert_memory_equal(again.hours, m.hours, sizeof(m.hours));
        (void)ask(r, 0, 1);
        near(view_of(r, 1).usual, 3);
        near(view_of(r, 1).usual_ms, 50);
        assert_int_equal(view_of(r, 1).free, 3);
        near(state_of(r).server_most, 7);
        assert_true(state_of(r).is_learned);
        rig_end(r);
}

static void a_memory_that_makes_no_sense_changes_nothing(void **state)
{
        struct rig *r = door();
        const double wrong[] = {-1, 0.5, NAN, INFINITY, 1e300};
        double n[USUAL_BUCKETS] = {0};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                struct usual_memory m = week_of(5, MS);
                m.executing = wrong[i];
                assert_false(admission_remember(r->a, USUAL, &m));
                n[3] = wrong[i] == 0.5 || wrong[i] == 1e300 ? NAN : wrong[i];
                assert_false(admission_remember_metric(r->a, n, 3600));
        }
        struct usual_memory m = week_of(5, MS);
        m.log_time = NAN;
        assert_false(admission_remember(r->a, USUAL, &m));
        m = week_of(5, MS);
        m.seconds = -1;
        assert_false(admission_remember(r->a, USUAL, &m));
        m = week_of(5, MS);
        m.n_hours = USUAL_HOURS + 1;
        assert_false(admission_remember(r->a, USUAL, &m));
        m = week_of(5, MS);
        m.next_hour = USUAL_HOURS;
        assert_false(admission_remember(r->a, USUAL, &m));
        m = week_of(5, MS);
        m.hours[9] = USUAL_BUCKETS;
        assert_false(admission_remember(r->a, USUAL, &m));
        n[3] = 1000;
        assert_false(admission_remember_metric(r->a, n, NAN));
        watch(r, S);
        near(view_of(r, USUAL).usual, 3);
        near(view_of(r, USUAL).usual_ms, 10);
        assert_int_equal(view_of(r, USUAL).free, 3);
        rig_end(r);
}

/* A lower usual, by another memory: what executes is excess now. */
static void another_usual_counts_for_those_who_execute_and_wait(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 10, 8, HIGH);
        fill(r, 0, 3, USUAL);
        held_for_load(r, 3, USUAL);
        held_for_load(r, 4, USUAL);
        learn(r, USUAL, 4, 10 * MS);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->order[0], 3);
        learn(r, USUAL, 1, 10 * MS);
        assert_int_equal(view_of(r, USUAL).excess, 3);
        assert_int_equal(state_of(r).excess, 4 + 3);
        ended(r, 0, 10 * MS);
        ended(r, 1, 10 * MS);
        assert_int_equal(r->n_decided, 1);
        rig_end(r);
}

/* ---- words ---- */

static void the_words_of_over_say_how_slow_and_how_many(void **state)
{
        struct rig *r = door_with(30, 5);

        (void)state;
        same(state_of(r).why, "the database is 5.0 times as slow as usual, 34 statements run, "
                              "usually up to 20");
        rig_end(r);
        r = door();
        r->running = 41;
        r->running_most = 20;
        publish(r);
        watch(r, 250 * MS);
        same(state_of(r).why, "41 statements run, usually up to 20");
        rig_end(r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(slower_alone_is_not_over),
                cmocka_unit_test(more_alone_is_not_over),
                cmocka_unit_test(slower_and_more_halves_the_window),
                cmocka_unit_test(it_is_slower_at_more_than_twice_the_usual_time),
                cmocka_unit_test(slow_ones_are_slower_though_the_mean_is_usual),
                cmocka_unit_test(a_few_slow_ones_of_few_say_nothing),
                cmocka_unit_test(the_window_is_not_cut_again_before_it_has_drained),
                cmocka_unit_test(places_that_are_not_used_are_no_measure_of_a_cut),
                cmocka_unit_test(harm_alone_is_over),
                cmocka_unit_test(one_slow_class_is_its_own_problem),
                cmocka_unit_test(a_deferrable_class_does_not_judge_the_database),
                cmocka_unit_test(twenty_transactions_of_five_seconds_judge),
                cmocka_unit_test(running_ones_older_than_usual_count),
                cmocka_unit_test(idle_ones_are_never_older_than_usual),
                cmocka_unit_test(without_a_class_to_judge_twice_the_usual_number_is_over),
                cmocka_unit_test(our_own_count_is_current),
                cmocka_unit_test(what_the_operator_wrote_counts_instead_of_what_was_learned),
                cmocka_unit_test(an_unknown_metric_alone_is_not_over),
                cmocka_unit_test(without_any_policy_slow_transactions_do_no_harm),
                cmocka_unit_test(load_from_outside_multiplies_the_usual_by_the_slowdown),
                cmocka_unit_test(half_of_what_runs_must_come_from_outside),
                cmocka_unit_test(those_who_wait_go_when_the_usual_is_multiplied),
                cmocka_unit_test(a_digest_that_takes_twenty_times_as_long_has_no_usual),
                cmocka_unit_test(a_new_digest_in_a_settled_class_has_no_usual),
                cmocka_unit_test(a_digest_that_was_remembered_is_not_new),
                cmocka_unit_test(in_a_class_with_many_new_digests_they_are_usual),
                cmocka_unit_test(a_critical_transaction_never_strays),
                cmocka_unit_test(while_nothing_was_learned_nothing_is_held),
                cmocka_unit_test(ten_minutes_of_calm_traffic_teach_what_is_usual),
                cmocka_unit_test(a_thousand_transactions_teach_what_is_usual),
                cmocka_unit_test(trouble_teaches_nothing),
                cmocka_unit_test(what_was_learned_moves_to_another_admission),
                cmocka_unit_test(a_memory_that_makes_no_sense_changes_nothing),
                cmocka_unit_test(another_usual_counts_for_those_who_execute_and_wait),
                cmocka_unit_test(the_words_of_over_say_how_slow_and_how_many),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
