/* The law of admission, one rule at a time: policy, modes, limits, deadlines.  Nothing was learned
 * here, so no transaction waits for load: that is in test_admission_load.c, shares are in
 * test_admission_share.c, and all of it against a model in prop_admission.c. */
#include "admission_box.h"

#include <stdio.h>

/* ---- the policy ---- */

static void before_any_policy_a_transaction_goes(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 1);
        assert_int_equal(verdict(r, 0, 0), ADMIT_RUN);
        assert_int_equal(r->answers[0].reason, ADMIT_BY_NONE);
        assert_false(r->answers[0].would_wait);
        same(r->answers[0].why, "");
        assert_int_equal(r->tickets[0].state, TICKET_RUNNING);
        assert_true(turn(r) == INT64_MAX);
        assert_null(view_of(r, 0).verdicts);
        ended(r, 0, MS);
        assert_int_equal(r->tickets[0].state, TICKET_NONE);
        rig_end(r);
}

static void a_class_the_core_does_not_know_waits_for_the_next_policy(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 3);
        sample(r, granting(1));
        assert_int_equal(verdict(r, 0, 1), ADMIT_WAIT);
        assert_int_equal(r->answers[0].reason, ADMIT_BY_NEW);
        assert_int_equal(verdict(r, 1, 2), ADMIT_WAIT);
        r->now_ns += MS;
        struct door_policy *p = granting(3);
        p->classes[2].is_known = false; /* its number is there, it is not */
        sample(r, p);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->answers[0].verdict, ADMIT_RUN);
        assert_true(r->answers[0].waited_ns == MS);
        assert_int_equal(view_of(r, 1).counts->held, 0); /* so short a moment is no wait */
        assert_non_null(view_of(r, 1).verdicts);
        assert_null(view_of(r, 2).verdicts);
        rig_end(r);
}

static void a_new_class_without_a_wait_is_refused_when_the_core_says_so(void **state)
{
        struct rig *r = rig_new();
        struct door_policy *p = granting(1);

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 0});
        sample(r, granting(0));
        assert_int_equal(verdict(r, 0, 0), ADMIT_WAIT);
        refuse(p, 0, CHECK_HOLD);
        sample(r, p);
        pass(r, 0);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->answers[0].verdict, ADMIT_REFUSE);
        assert_int_equal(r->answers[0].check_reason, CHECK_HOLD);
        rig_end(r);
}

static void a_class_the_core_keeps_silent_about_goes_after_a_second(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 1);
        limits(r, 1, (struct class_limits){.wait_ns = 100 * MS});
        limits(r, 2, (struct class_limits){.wait_ns = 0});
        limits(r, 3, (struct class_limits){.wait_ns = 100 * MS, .concurrency = 1});
        sample(r, granting(0));
        assert_int_equal(verdict(r, 0, 0), ADMIT_WAIT);
        assert_int_equal(verdict(r, 1, 1), ADMIT_WAIT);
        assert_int_equal(verdict(r, 2, 2), ADMIT_WAIT); /* else new names would always pass */
        assert_int_equal(verdict(r, 3, 3), ADMIT_WAIT);
        assert_int_equal(verdict(r, 4, 3), ADMIT_WAIT);
        assert_true(turn(r) == r->now_ns + 100 * MS);
        pass(r, 100 * MS - 1);
        assert_int_equal(r->n_decided, 0);
        pass(r, 1);
        assert_int_equal(r->n_decided, 4);
        assert_int_equal(r->answers[1].verdict, ADMIT_RUN);
        assert_int_equal(r->answers[2].verdict, ADMIT_RUN);
        assert_int_equal(r->answers[3].verdict, ADMIT_RUN);
        assert_int_equal(r->answers[4].verdict, ADMIT_REFUSE); /* its limits still hold */
        assert_int_equal(r->answers[4].reason, ADMIT_BY_CONCURRENCY);
        pass(r, 900 * MS - 1);
        assert_int_equal(r->n_decided, 4);
        pass(r, 1);
        assert_int_equal(r->answers[0].verdict, ADMIT_RUN);
        assert_int_equal(view_of(r, 0).counts->held, 1);
        assert_int_equal(view_of(r, 0).counts->by_reason[ADMIT_BY_NEW], 1);
        rig_end(r);
}

static void a_stopped_class_waits_and_is_refused_at_its_deadline(void **state)
{
        static const enum check_reason reasons[] = {CHECK_PAUSED, CHECK_HOLD, CHECK_RATIO};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
                struct rig *r = rig_new();
                plain(r, 2);
                struct door_policy *p = granting(2);
                refuse(p, 0, reasons[i]);
                p->classes[0].retry_ms = 250;
                sample(r, p);
                assert_int_equal(verdict(r, 0, 0), ADMIT_WAIT);
                assert_int_equal(r->answers[0].reason, ADMIT_BY_POLICY);
                assert_int_equal(r->answers[0].check_reason, reasons[i]);
                assert_int_equal(verdict(r, 1, 1), ADMIT_RUN); /* in nobody's way */
                pass(r, 2 * S - 1);
                assert_int_equal(r->n_decided, 0);
                assert_true(view_of(r, 0).oldest_ns == 2 * S - 1);
                pass(r, 1);
                const struct admit_answer *answer = &r->answers[0];
                assert_int_equal(answer->verdict, ADMIT_REFUSE);
                assert_int_equal(answer->reason, ADMIT_BY_POLICY);
                assert_int_equal(answer->check_reason, reasons[i]);
                assert_int_equal(answer->retry_ms, 250);
                assert_true(answer->waited_ns == 2 * S);
                same(answer->why, check_reason_text(reasons[i]));
                assert_int_equal(r->tickets[0].state, TICKET_NONE);
                assert_true(turn(r) == INT64_MAX);
                rig_end(r);
        }
}

static void what_is_measured_for_jobs_neither_holds_nor_is_told(void **state)
{
        (void)state;
        for (int i = 0; i < CHECK_LIMIT; i++) {
                enum check_reason reason = (enum check_reason)i;
                bool is_ignored = reason == CHECK_THRESHOLD || reason == CHECK_LEVEL ||
                                  reason == CHECK_LOW_PRIORITY || reason == CHECK_UNKNOWN;
                assert_true(admission_ignores(reason) == is_ignored);
                if (!is_ignored)
                        continue;
                for (int tier = 0; tier < TIERS; tier++) {
                        struct rig *r = rig_new();
                        plain(r, 2);
                        struct door_policy *p = granting(2);
                        p->classes[0].tier = p->classes[1].tier = (enum tier)tier;
                        refuse(p, 0, reason);
                        for (int k = 0; k < 3; k++) { /* a rule that only observes says it */
                                p->classes[1].verdict[k].would_refuse = true;
                                p->classes[1].verdict[k].would_reason = reason;
                        }
                        sample(r, p);
                        for (int k = 0; k < 20; k++) {
                                const struct admit_answer *answer = ask(r, k, (size_t)k % 2);
                                assert_int_equal(answer->verdict, ADMIT_RUN);
                                assert_false(answer->would_wait);
                        }
                        rig_end(r);
                }
        }
}

static void a_new_policy_lets_a_stopped_one_go(void **state)
{
        struct rig *r = rig_new();
        struct door_policy *p = granting(1);

        (void)state;
        plain(r, 1);
        refuse(p, 0, CHECK_HOLD);
        sample(r, p);
        for (int i = 0; i < 3; i++)
                assert_int_equal(verdict(r, i, 0), ADMIT_WAIT);
        pass(r, S);
        sample(r, granting(1));
        assert_int_equal(r->n_decided, 3);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(r->order[i], i);
                assert_int_equal(r->answers[i].verdict, ADMIT_RUN);
                assert_true(r->answers[i].waited_ns == S);
        }
        rig_end(r);
}

/* A policy that refuses a share of class 0 by the dice. */
static struct door_policy *rationing(double share)
{
        struct door_policy *p = granting(1);
        p->classes[0].bound[0] = p->classes[0].bound[1] = share;
        p->classes[0].verdict[0] = (struct check_verdict){.reason = CHECK_RATIO};
        return p;
}

static void a_ratio_stops_those_whose_dice_fell_badly_and_nobody_else(void **state)
{
        struct rig *r = rig_new();
        int waiting = 0, goes = 0, better = 0;

        (void)state;
        plain(r, 1);
        sample(r, rationing(0.5));
        for (int i = 0; i < 400; i++) {
                bool is_stopped = verdict(r, i, 0) == ADMIT_WAIT;
                assert_true(is_stopped == (r->tickets[i].roll < 0.5));
                waiting += is_stopped;
        }
        assert_true(waiting > 140 && waiting < 260);
        assert_int_equal(view_of(r, 0).waiting, waiting);
        /* The same dice count for the next policy, too. */
        sample(r, rationing(0.25));
        for (int i = 0; i < 400; i++) {
                double roll = r->tickets[i].roll;
                assert_int_equal(r->tickets[i].state,
                                 roll < 0.25 ? TICKET_WAITING : TICKET_RUNNING);
                goes += roll >= 0.25;
                better += roll >= 0.25 && roll < 0.5;
        }
        assert_int_equal(r->n_decided, better);
        assert_int_equal(state_of(r).running, goes);
        rig_end(r);
}

static void what_waits_for_a_policy_keeps_its_order(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 1);
        struct door_policy *p = rationing(0.5);
        for (int k = 1; k < 3; k++)
                p->classes[0].verdict[k] = (struct check_verdict){.reason = CHECK_HOLD};
        sample(r, p);
        for (int i = 0; i < 50; i++, r->now_ns += MS)
                assert_int_equal(verdict(r, i, 0), ADMIT_WAIT);
        p = granting(1);
        refuse(p, 0, CHECK_HOLD); /* all of them in one band now */
        sample(r, p);
        sample(r, granting(1));
        assert_int_equal(r->n_decided, 50);
        for (int i = 0; i < 50; i++)
                assert_int_equal(r->order[i], i);
        rig_end(r);
}

static void the_words_of_a_refusal_say_metric_and_rule(void **state)
{
        struct rig *r = rig_new();
        struct door_policy *p = granting(1);

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 0});
        refuse(p, 0, CHECK_HOLD);
        (void)snprintf(p->classes[0].why, ADMIT_WHY, "threads_running 150 against 15");
        (void)snprintf(p->classes[0].rule, ADMIT_WHY, "hold reports:* until 18:00");
        sample(r, p);
        assert_int_equal(verdict(r, 0, 0), ADMIT_REFUSE); /* without a wait it is refused at once */
        same(r->answers[0].why,
             "a rule holds it: threads_running 150 against 15 (hold reports:* until 18:00)");
        assert_int_equal(r->answers[0].retry_ms, 1000);
        assert_int_equal(r->tickets[0].state, TICKET_NONE);
        assert_int_equal(r->n_decided, 0);
        /* Words that have no room are left out whole. */
        p = granting(1);
        refuse(p, 0, CHECK_HOLD);
        memset(p->classes[0].why, 'w', ADMIT_WHY - 1);
        memset(p->classes[0].rule, 'r', ADMIT_WHY - 1);
        sample(r, p);
        assert_int_equal(verdict(r, 0, 0), ADMIT_REFUSE);
        has(r->answers[0].why, "www");
        has_not(r->answers[0].why, "r)");
        rig_end(r);
}

static void every_reason_has_a_name_and_words(void **state)
{
        (void)state;
        for (int i = 0; i < ADMIT_REASONS; i++) {
                assert_true(strlen(admit_reason_name((enum admit_reason)i)) > 0);
                assert_true(strlen(admit_reason_text((enum admit_reason)i)) > 0);
        }
        same(admit_reason_name(ADMIT_BY_BUDGET), "time_budget");
        same(admit_reason_text(ADMIT_BY_DOOR), "the door runs as many as it may");
        same(admit_reason_name(ADMIT_BY_LOAD), "load");
}

static void a_policy_lives_as_long_as_it_is_held(void **state)
{
        struct rig *r = rig_new();
        struct door_policy *p = granting(1);

        (void)state;
        plain(r, 1);
        assert_null(door_policy_unref(NULL));
        assert_ptr_equal(door_policy_ref(p), p);
        sample(r, p);
        assert_int_equal(p->refs, 2);
        sample(r, granting(1));
        assert_int_equal(p->refs, 1);
        assert_null(door_policy_unref(p));
        rig_end(r);
}

/* ---- modes ---- */

static void off_and_observe_never_wait_and_tell_what_they_saw(void **state)
{
        static const enum gate_mode modes[] = {MODE_OFF, MODE_TEST_OBSERVE, MODE_OBSERVE};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
                struct rig *r = rig_new();
                struct class_limits l = {.mode = modes[i], .wait_ns = 2 * S, .concurrency = 1};
                admission_set_class(r->a, 0, &l, r->now_ns);
                sample(r, granting(1));
                assert_false(ask(r, 0, 0)->would_wait);
                const struct admit_answer *answer = ask(r, 1, 0);
                assert_int_equal(answer->verdict, ADMIT_RUN);
                assert_true(answer->would_wait);
                assert_int_equal(answer->reason, ADMIT_BY_CONCURRENCY);
                same(answer->why, "its class runs as many as it may (1)");
                struct door_policy *p = granting(1);
                refuse(p, 0, CHECK_PAUSED);
                sample(r, p);
                answer = ask(r, 2, 0);
                assert_int_equal(answer->verdict, ADMIT_RUN);
                assert_int_equal(answer->reason, ADMIT_BY_POLICY);
                assert_int_equal(answer->check_reason, CHECK_PAUSED);
                const struct class_counts *n = view_of(r, 0).counts;
                assert_int_equal(n->transactions, 3);
                assert_int_equal(n->observed, 2);
                assert_int_equal(n->held, 0);
                assert_int_equal(n->by_reason[ADMIT_BY_CONCURRENCY], 1);
                assert_int_equal(n->by_reason[ADMIT_BY_POLICY], 1);
                assert_int_equal(state_of(r).waiting, 0);
                rig_end(r);
        }
}

static void a_rule_that_observes_is_told_while_the_class_is_enforced(void **state)
{
        struct rig *r = rig_new();
        struct door_policy *p = granting(1);

        (void)state;
        plain(r, 1);
        for (int k = 0; k < 3; k++) {
                p->classes[0].verdict[k].would_refuse = true;
                p->classes[0].verdict[k].would_reason = CHECK_HOLD;
        }
        sample(r, p);
        assert_int_equal(verdict(r, 0, 0), ADMIT_RUN);
        assert_true(r->answers[0].would_wait);
        assert_int_equal(r->answers[0].check_reason, CHECK_HOLD);
        assert_int_equal(view_of(r, 0).counts->observed, 1);
        rig_end(r);
}

static void a_class_that_is_no_longer_enforced_lets_all_go(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 2 * S, .concurrency = 1});
        for (int i = 0; i < 5; i++)
                (void)ask(r, i, 0);
        assert_int_equal(view_of(r, 0).waiting, 4);
        limits(r, 0, (struct class_limits){.mode = MODE_OBSERVE, .concurrency = 1});
        assert_int_equal(r->n_decided, 4);
        assert_int_equal(state_of(r).running, 5);
        assert_true(turn(r) == INT64_MAX);
        rig_end(r);
}

/* ---- the limits of a class and of the door ---- */

static void a_class_runs_as_many_as_it_may_and_is_in_nobodys_way(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 2 * S, .concurrency = 2});
        limits(r, 1, (struct class_limits){.wait_ns = 2 * S});
        struct door_policy *p = granting(2);
        p->classes[0].retry_ms = 70; /* that of the policy, which does not refuse here */
        sample(r, p);
        assert_int_equal(verdict(r, 0, 0), ADMIT_RUN);
        assert_int_equal(verdict(r, 1, 0), ADMIT_RUN);
        assert_int_equal(verdict(r, 2, 0), ADMIT_WAIT);
        assert_int_equal(r->answers[2].reason, ADMIT_BY_CONCURRENCY);
        assert_int_equal(verdict(r, 3, 0), ADMIT_WAIT);
        assert_int_equal(verdict(r, 4, 1), ADMIT_RUN);
        r->now_ns += 3 * MS;
        ended(r, 4, MS);
        assert_int_equal(r->n_decided, 0);
        ended(r, 1, MS);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->answers[2].verdict, ADMIT_RUN);
        assert_true(r->answers[2].waited_ns == 3 * MS && r->tickets[2].waited_ns == 3 * MS);
        pass(r, 2 * S);
        assert_int_equal(r->answers[3].verdict, ADMIT_REFUSE);
        assert_int_equal(r->answers[3].reason, ADMIT_BY_CONCURRENCY);
        assert_int_equal(r->answers[3].retry_ms, 1000);
        same(r->answers[3].why, "its class runs as many as it may (2)");
        rig_end(r);
}

static void a_rate_lets_a_tenth_of_a_second_go_at_once(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 150 * MS, .rate = 25});
        for (int i = 0; i < 3; i++) /* 2.5, rounded up */
                assert_int_equal(verdict(r, i, 0), ADMIT_RUN);
        for (int i = 3; i < 8; i++)
                assert_int_equal(verdict(r, i, 0), ADMIT_WAIT);
        assert_int_equal(r->answers[3].reason, ADMIT_BY_RATE);
        assert_true(turn(r) == r->now_ns + 40 * MS);
        pass(r, 40 * MS - 1);
        assert_int_equal(r->n_decided, 0);
        pass(r, 1);
        assert_int_equal(r->n_decided, 1);
        pass(r, 110 * MS);
        assert_int_equal(r->n_decided, 5);
        assert_int_equal(r->answers[5].verdict, ADMIT_RUN);
        assert_int_equal(r->answers[6].verdict, ADMIT_REFUSE);
        assert_int_equal(r->answers[6].reason, ADMIT_BY_RATE);
        same(r->answers[6].why, "its class starts as many a second as it may (25)");
        assert_int_equal(r->answers[6].retry_ms, 51); /* 10 ms until the next one, which */
        assert_int_equal(r->answers[7].retry_ms, 11); /* is ticket 7's while that waits */
        rig_end(r);
}

static void who_is_refused_by_a_rate_is_told_when_its_turn_would_be(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 2 * S, .rate = 1});
        for (int i = 0; i < 4; i++)
                (void)ask(r, i, 0);
        limits(r, 0, (struct class_limits){.wait_ns = 0, .rate = 0.1});
        assert_int_equal(verdict(r, 5, 0), ADMIT_REFUSE);
        assert_int_equal(r->answers[5].reason, ADMIT_BY_RATE);
        /* A second is left to the next start; the three before it are gone soon. */
        (void)turn(r);
        assert_int_equal(view_of(r, 0).waiting, 0);
        assert_int_equal(verdict(r, 6, 0), ADMIT_REFUSE);
        assert_int_equal(r->answers[6].retry_ms, 1001);
        rig_end(r);
}

static void a_rate_that_is_observed_counts_what_is_too_much(void **state)
{
        struct rig *r = rig_new();
        int n = 0;

        (void)state;
        limits(r, 0, (struct class_limits){.mode = MODE_OBSERVE, .rate = 10});
        for (int i = 0; i < 200; i++, r->now_ns += 50 * MS)
                n += ask(r, i, 0)->would_wait;
        assert_in_range(n, 99, 101); /* every other one */
        rig_end(r);
}

static void a_faster_rate_holds_at_once(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 20 * S, .rate = 0.1});
        (void)ask(r, 0, 0);
        assert_int_equal(verdict(r, 1, 0), ADMIT_WAIT);
        limits(r, 0, (struct class_limits){.wait_ns = 20 * S, .rate = 4});
        pass(r, 250 * MS);
        assert_int_equal(r->n_decided, 1);
        limits(r, 0, (struct class_limits){.wait_ns = 20 * S, .rate = 0});
        for (int i = 2; i < 100; i++)
                assert_int_equal(verdict(r, i, 0), ADMIT_RUN);
        rig_end(r);
}

static void a_budget_is_paid_with_the_time_that_follows(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 2 * S, .budget_ns = 100 * MS});
        for (int i = 0; i < 3; i++)
                assert_int_equal(verdict(r, i, 0), ADMIT_RUN); /* it owes nothing yet */
        ended(r, 0, 60 * MS);
        assert_int_equal(verdict(r, 0, 0), ADMIT_RUN);
        ended(r, 1, 60 * MS); /* 20 ms too many: 200 ms of time */
        assert_int_equal(verdict(r, 1, 0), ADMIT_WAIT);
        assert_int_equal(r->answers[1].reason, ADMIT_BY_BUDGET);
        pass(r, 200 * MS);
        assert_int_equal(r->n_decided, 0);
        pass(r, 1);
        assert_int_equal(r->n_decided, 1);
        ended(r, 1, 300 * MS); /* three seconds of time */
        assert_int_equal(verdict(r, 1, 0), ADMIT_WAIT);
        pass(r, 2 * S);
        assert_int_equal(r->answers[1].verdict, ADMIT_REFUSE);
        assert_int_equal(r->answers[1].retry_ms, 1000);
        same(r->answers[1].why, "its class used up its database time (100 ms a second)");
        pass(r, 100 * S); /* what is saved is a second's worth */
        assert_int_equal(verdict(r, 1, 0), ADMIT_RUN);
        ended(r, 1, 100 * MS);
        assert_int_equal(verdict(r, 1, 0), ADMIT_WAIT);
        rig_end(r);
}

static void another_budget_forgets_the_debts(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 2 * S, .budget_ns = MS});
        (void)ask(r, 0, 0);
        ended(r, 0, 3600 * S);
        assert_int_equal(verdict(r, 0, 0), ADMIT_WAIT);
        limits(r, 0, (struct class_limits){.wait_ns = 3 * S, .budget_ns = MS});
        assert_int_equal(r->answers[0].verdict, ADMIT_WAIT); /* it is the same budget */
        limits(r, 0, (struct class_limits){.wait_ns = 2 * S, .budget_ns = 2 * MS});
        assert_int_equal(r->answers[0].verdict, ADMIT_RUN);
        /* What only observes owes a second at most. */
        limits(r, 0, (struct class_limits){.mode = MODE_OBSERVE, .budget_ns = 2 * MS});
        ended(r, 0, 3600 * S);
        assert_true(ask(r, 0, 0)->would_wait);
        pass(r, S + 1);
        assert_false(ask(r, 1, 0)->would_wait);
        rig_end(r);
}

static void the_door_runs_as_many_as_it_may(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 3);
        set_door(r, 2);
        (void)ask(r, 0, 0);
        (void)ask(r, 1, 1);
        assert_int_equal(verdict(r, 2, 2), ADMIT_WAIT);
        assert_int_equal(r->answers[2].reason, ADMIT_BY_DOOR);
        assert_int_equal(verdict(r, 3, 0), ADMIT_WAIT);
        assert_int_equal(verdict(r, 4, 0), ADMIT_WAIT);
        ended(r, 0, MS);
        assert_int_equal(r->n_decided, 1);
        set_door(r, 3);
        assert_int_equal(r->n_decided, 2);
        assert_int_equal(state_of(r).concurrency, 3);
        pass(r, 2 * S);
        assert_int_equal(r->n_decided, 3);
        assert_int_equal(r->answers[r->order[2]].reason, ADMIT_BY_DOOR);
        same(r->answers[r->order[2]].why, "the door runs as many as it may (3)");
        set_door(r, 0);
        for (int i = 10; i < 50; i++)
                assert_int_equal(verdict(r, i, 0), ADMIT_RUN);
        rig_end(r);
}

static void a_shorter_wait_holds_for_those_who_wait(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 100 * S, .concurrency = 1});
        (void)ask(r, 0, 0);
        (void)ask(r, 1, 0);
        pass(r, S);
        (void)ask(r, 2, 0);
        limits(r, 0, (struct class_limits){.wait_ns = 2 * S, .concurrency = 1});
        pass(r, S - 1);
        assert_int_equal(r->n_decided, 0);
        pass(r, 1);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->answers[1].verdict, ADMIT_REFUSE);
        limits(r, 0, (struct class_limits){.wait_ns = -1, .concurrency = 1}); /* at once */
        pass(r, 0);
        assert_int_equal(r->n_decided, 2);
        rig_end(r);
}

static void a_place_that_is_free_at_the_deadline_is_taken(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = S, .rate = 1});
        (void)ask(r, 0, 0);
        (void)ask(r, 1, 0);
        r->now_ns += 5 * S; /* the owner comes late */
        assert_true(turn(r) == INT64_MAX);
        assert_int_equal(r->answers[1].verdict, ADMIT_RUN);
        rig_end(r);
}

static void who_comes_after_waiting_ones_does_not_overtake_them(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 5 * S, .rate = 1});
        (void)ask(r, 0, 0);
        (void)ask(r, 1, 0);
        r->now_ns += S; /* a start is due, but no turn has come */
        assert_int_equal(verdict(r, 2, 0), ADMIT_WAIT);
        pass(r, S - 1);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->answers[1].verdict, ADMIT_RUN);
        pass(r, 1);
        assert_int_equal(r->n_decided, 2);
        rig_end(r);
}

/* ---- leaving ---- */

static void who_left_is_never_decided(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 2 * S, .concurrency = 1});
        for (int i = 0; i < 3; i++)
                (void)ask(r, i, 0);
        r->now_ns += MS;
        admission_leave(r->a, &r->tickets[1], NULL, r->now_ns);
        assert_int_equal(r->tickets[1].state, TICKET_NONE);
        assert_int_equal(view_of(r, 0).counts->left, 1);
        assert_int_equal(view_of(r, 0).waiting, 1);
        admission_leave(r->a, &r->tickets[0], NULL, r->now_ns); /* the running one */
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->order[0], 2);
        assert_int_equal(view_of(r, 0).counts->left, 1);
        pass(r, 10 * S);
        assert_int_equal(r->n_decided, 1);
        /* The ticket can be used again. */
        assert_int_equal(verdict(r, 1, 0), ADMIT_WAIT);
        rig_end(r);
}

/* ---- the rest ---- */

static void one_call_decides_a_few_hundred_at_most(void **state)
{
        struct rig *r = rig_new();
        struct door_policy *p = granting(3);

        (void)state;
        plain(r, 2);
        limits(r, 2, (struct class_limits){.wait_ns = 0});
        refuse(p, 0, CHECK_HOLD);
        sample(r, p);
        for (int i = 0; i < 900; i++)
                (void)ask(r, i, 0);
        sample(r, granting(3));
        assert_true(r->n_decided > 100 && r->n_decided < 500);
        /* The others come first, unless there is no time to wait for them. */
        assert_int_equal(verdict(r, 900, 1), ADMIT_WAIT);
        assert_int_equal(verdict(r, 901, 2), ADMIT_RUN);
        int turns = 0;
        while (turn(r) == r->now_ns)
                turns++;
        assert_true(turns >= 2 && turns < 9);
        assert_int_equal(r->n_decided, 901);
        for (int i = 0; i < 900; i++)
                ended(r, i, 0);
        /* The same at a deadline. */
        p = granting(2);
        refuse(p, 0, CHECK_HOLD);
        sample(r, p);
        for (int i = 0; i < 900; i++)
                (void)ask(r, i, 0);
        r->n_decided = 0;
        r->now_ns += 2 * S;
        assert_true(turn(r) == r->now_ns);
        assert_true(r->n_decided > 100 && r->n_decided < 500);
        while (turn(r) == r->now_ns)
                continue;
        assert_int_equal(r->n_decided, 900);
        assert_int_equal(view_of(r, 0).counts->refused, 900);
        rig_end(r);
}

static void many_that_are_let_go_at_their_deadline_all_go(void **state)
{
        struct rig *r = rig_new();
        struct door_policy *p = granting(1);

        (void)state;
        plain(r, 1);
        refuse(p, 0, CHECK_HOLD);
        sample(r, p);
        for (int i = 0; i < 900; i++)
                (void)ask(r, i, 0);
        r->now_ns += 2 * S;
        sample(r, granting(1)); /* before a turn saw the deadlines */
        while (turn(r) == r->now_ns)
                continue;
        assert_int_equal(view_of(r, 0).running, 900);
        assert_int_equal(view_of(r, 0).counts->refused, 0);
        rig_end(r);
}

static void what_happened_is_counted(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 3, (struct class_limits){.wait_ns = 2 * S, .concurrency = 1});
        assert_int_equal(admission_classes(r->a), 4);
        struct class_view v;
        assert_false(admission_view(r->a, 0, r->now_ns, &v));
        assert_false(admission_view(r->a, 4, r->now_ns, &v));
        (void)ask(r, 0, 3);
        (void)ask(r, 1, 3);
        r->now_ns += 16000;
        ended(r, 0, 5 * MS);
        r->now_ns += 16001;
        ended(r, 1, 7 * MS);
        v = view_of(r, 3);
        assert_int_equal(v.counts->transactions, 2);
        assert_int_equal(v.counts->statements, 4);
        assert_int_equal(v.counts->rows, 6);
        assert_int_equal(v.counts->errors, 2);
        assert_int_equal(v.counts->held, 1);
        assert_int_equal(v.counts->refused, 0);
        assert_true(v.counts->busy_ns == 12 * MS);
        assert_int_equal(v.counts->waits.n[0], 1); /* 16 us are in the first bucket */
        assert_int_equal(v.counts->waits.sum_ns, 16000);
        assert_int_equal(v.counts->services.n[0], 1);
        assert_int_equal(v.counts->services.n[1], 1); /* and one ns more is not */
        assert_true(v.counts->last_ns == r->now_ns);
        assert_int_equal(v.limits.concurrency, 1);
        (void)ask(r, 0, 3);
        r->now_ns += 3600 * S;
        ended(r, 0, 0);
        assert_int_equal(view_of(r, 3).counts->services.n[ADMIT_BUCKETS - 1], 1);
        rig_end(r);
}

static void time_that_goes_back_a_little_does_no_harm(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 2 * S, .concurrency = 1, .rate = 100});
        (void)ask(r, 0, 0);
        r->now_ns -= MS; /* another thread read the clock before */
        assert_int_equal(verdict(r, 1, 0), ADMIT_WAIT);
        assert_true(r->tickets[1].asked_ns == r->tickets[0].asked_ns);
        ended(r, 0, MS);
        r->now_ns += 12 * MS;
        pass(r, 0);
        assert_int_equal(r->answers[1].verdict, ADMIT_RUN);
        assert_true(r->answers[1].waited_ns >= 0);
        rig_end(r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(before_any_policy_a_transaction_goes),
                cmocka_unit_test(a_class_the_core_does_not_know_waits_for_the_next_policy),
                cmocka_unit_test(a_new_class_without_a_wait_is_refused_when_the_core_says_so),
                cmocka_unit_test(a_class_the_core_keeps_silent_about_goes_after_a_second),
                cmocka_unit_test(a_stopped_class_waits_and_is_refused_at_its_deadline),
                cmocka_unit_test(what_is_measured_for_jobs_neither_holds_nor_is_told),
                cmocka_unit_test(a_new_policy_lets_a_stopped_one_go),
                cmocka_unit_test(a_ratio_stops_those_whose_dice_fell_badly_and_nobody_else),
                cmocka_unit_test(what_waits_for_a_policy_keeps_its_order),
                cmocka_unit_test(the_words_of_a_refusal_say_metric_and_rule),
                cmocka_unit_test(every_reason_has_a_name_and_words),
                cmocka_unit_test(a_policy_lives_as_long_as_it_is_held),
                cmocka_unit_test(off_and_observe_never_wait_and_tell_what_they_saw),
                cmocka_unit_test(a_rule_that_observes_is_told_while_the_class_is_enforced),
                cmocka_unit_test(a_class_that_is_no_longer_enforced_lets_all_go),
                cmocka_unit_test(a_class_runs_as_many_as_it_may_and_is_in_nobodys_way),
                cmocka_unit_test(a_rate_lets_a_tenth_of_a_second_go_at_once),
                cmocka_unit_test(who_is_refused_by_a_rate_is_told_when_its_turn_would_be),
                cmocka_unit_test(a_rate_that_is_observed_counts_what_is_too_much),
                cmocka_unit_test(a_faster_rate_holds_at_once),
                cmocka_unit_test(a_budget_is_paid_with_the_time_that_follows),
                cmocka_unit_test(another_budget_forgets_the_debts),
                cmocka_unit_test(the_door_runs_as_many_as_it_may),
                cmocka_unit_test(a_shorter_wait_holds_for_those_who_wait),
                cmocka_unit_test(a_place_that_is_free_at_the_deadline_is_taken),
                cmocka_unit_test(who_comes_after_waiting_ones_does_not_overtake_them),
                cmocka_unit_test(who_left_is_never_decided),
                cmocka_unit_test(one_call_decides_a_few_hundred_at_most),
                cmocka_unit_test(many_that_are_let_go_at_their_deadline_all_go),
                cmocka_unit_test(what_happened_is_counted),
                cmocka_unit_test(time_that_goes_back_a_little_does_no_harm),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
