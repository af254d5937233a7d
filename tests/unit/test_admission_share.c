/* The law of admission where classes compete: shares by tier, usual places, the window with its
 * floor and its growth, idle transactions, observed classes. */
#include "admission_box.h"

/* ---- shares ---- */

/* Keeps `depth` tickets of each class at the door, which runs `at_once`, and ends them in order;
 * returns how many started of each. */
static void crowd(struct rig *r, const int64_t *busy_ns, size_t n, uint32_t at_once, int ends,
                  uint64_t *ret)
{
        const int depth = 12;
        int running[TICKETS], begin = 0, end = 0;

        set_door(r, at_once);
        for (int i = 0; i < depth * (int)n; i++)
                if (verdict(r, i, (size_t)i % n) == ADMIT_RUN)
                        running[end++ % TICKETS] = i;
        for (int i = 0; i < ends; i++) {
                int t = running[begin++ % TICKETS];
                size_t number = r->tickets[t].class_number;
                r->now_ns += MS / 10;
                r->n_decided = 0;
                admission_end(r->a, &r->tickets[t],
                              &(struct ticket_use){.busy_ns = busy_ns[number]}, r->now_ns);
                for (int k = 0; k < r->n_decided; k++) {
                        assert_int_equal(r->answers[r->order[k]].verdict, ADMIT_RUN);
                        running[end++ % TICKETS] = r->order[k];
                }
                assert_int_equal(verdict(r, t, number), ADMIT_WAIT);
        }
        for (size_t i = 0; i < n; i++)
                ret[i] = view_of(r, i).counts->transactions;
}

static void classes_that_always_wait_get_shares_by_tier(void **state)
{
        static const enum tier tiers[] = {TIER_CRITICAL, TIER_HIGH, TIER_NORMAL, TIER_DEFERRABLE};
        static const int64_t busy_ns[] = {MS, MS, MS, MS};
        uint64_t n[4];

        (void)state;
        for (uint32_t at_once = 1; at_once <= 7; at_once += 3) {
                struct rig *r = rig_new();
                patient(r, 4);
                set_tiers(r, tiers, 4);
                crowd(r, busy_ns, 4, at_once, 15000, n);
                for (int i = 0; i < 4; i++)
                        near((double)n[i], 15000 * (8 >> i) / 15.0);
                rig_end(r);
        }
}

static void shares_are_of_database_time(void **state)
{
        static const enum tier tiers[] = {TIER_NORMAL, TIER_NORMAL, TIER_NORMAL};
        static const int64_t busy_ns[] = {10 * MS, MS, MS};
        struct rig *r = rig_new();
        uint64_t n[3];

        (void)state;
        patient(r, 3);
        set_tiers(r, tiers, 3);
        crowd(r, busy_ns, 3, 3, 15000, n);
        near((double)n[1] / (double)n[0], 10);
        near((double)n[1] / (double)n[2], 1);
        rig_end(r);
}

static void a_class_that_was_idle_has_no_credit(void **state)
{
        struct rig *r = rig_new();
        int of_new = 0;

        (void)state;
        patient(r, 2);
        set_door(r, 1);
        (void)ask(r, 999, 0);
        for (int i = 0; i < 300; i++)
                (void)ask(r, i, 0);
        int at = 999;
        for (int i = 0; i < 200; i++) {
                ended(r, at, MS);
                at = r->order[i];
        }
        for (int i = 300; i < 400; i++)
                (void)ask(r, i, 1);
        for (int i = 200; i < 300; i++) {
                ended(r, at, MS);
                at = r->order[i];
                of_new += r->tickets[at].class_number == 1;
        }
        assert_in_range(of_new, 49, 51);
        rig_end(r);
}

/* ---- shares of the window ---- */

/* Ends a ticket; returns the one that got its place. */
static int replace(struct rig *r, int ticket, int64_t busy_ns)
{
        r->n_decided = 0;
        ended(r, ticket, busy_ns);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->answers[r->order[0]].verdict, ADMIT_RUN);
        return r->order[0];
}

/* Class 2 is usual, 0 and 1 were never seen. */
static struct rig *half_learned(enum tier tier_of_1)
{
        const enum tier tiers[] = {TIER_NORMAL, tier_of_1, TIER_NORMAL};
        struct rig *r = rig_new();

        patient(r, 3);
        set_tiers(r, tiers, 3);
        learn(r, 2, 15, MS);
        return r;
}

static void classes_of_a_tier_share_the_window(void **state)
{
        struct rig *r = half_learned(TIER_NORMAL);
        int running[4], n[2] = {0};

        (void)state;
        for (int i = 0; i < 800; i++)
                (void)ask(r, i, (size_t)i % 2);
        assert_int_equal(window(r), 4);
        for (int i = 0; i < 4; i++)
                running[i] = i;
        for (int i = 0; i < 400; i++) {
                int64_t busy_ns = r->tickets[running[i % 4]].class_number ? 3 * MS : MS;
                running[i % 4] = replace(r, running[i % 4], busy_ns);
                n[r->tickets[running[i % 4]].class_number]++;
        }
        assert_in_range(n[0], 290, 310); /* three of 1 ms for one of 3 ms */
        assert_in_range(n[1], 90, 110);
        rig_end(r);
}

static void a_class_that_stood_behind_the_window_has_no_credit(void **state)
{
        struct rig *r = half_learned(TIER_HIGH);
        int running[4], n[3] = {0};

        (void)state;
        set_door(r, 8);
        for (int i = 0; i < 4; i++) {
                assert_int_equal(verdict(r, i, 1), ADMIT_RUN); /* the window is theirs */
                running[i] = 4 + i;
                assert_int_equal(verdict(r, running[i], 2), ADMIT_RUN);
        }
        for (int i = 8; i < 800; i++)
                assert_int_equal(verdict(r, i, i % 2 ? 0 : 2), ADMIT_WAIT);
        for (int i = 0; i < 300; i++) {
                running[i % 4] = replace(r, running[i % 4], MS);
                assert_int_equal(r->tickets[running[i % 4]].class_number, 2);
        }
        set_door(r, 4);
        r->n_decided = 0;
        for (int i = 0; i < 4; i++)
                ended(r, i, MS);
        assert_int_equal(r->n_decided, 0);
        /* Now there is room in the window, and what stood behind it has saved nothing up. */
        for (int i = 0; i < 90; i++) {
                running[i % 4] = replace(r, running[i % 4], MS);
                n[r->tickets[running[i % 4]].class_number]++;
        }
        assert_in_range(n[0], 42, 48);
        assert_in_range(n[2], 42, 48);
        rig_end(r);
}

/* ---- what is usual, and what is beyond ---- */

static void the_window_begins_at_four(void **state)
{
        struct rig *r = door();

        (void)state;
        assert_true(state_of(r).is_learned);
        assert_int_equal(window(r), 4);
        fill(r, 0, 4, FRESH);
        held_for_load(r, 4, FRESH);
        assert_int_equal(state_of(r).excess, 4);
        assert_int_equal(state_of(r).executing, 4);
        assert_int_equal(view_of(r, FRESH).excess, 4);
        assert_int_equal(view_of(r, FRESH).free, 0);
        assert_true(view_of(r, FRESH).usual == 0);
        ended(r, 2, MS);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->answers[4].verdict, ADMIT_RUN);
        assert_int_equal(view_of(r, FRESH).counts->by_reason[ADMIT_BY_LOAD], 1);
        rig_end(r);
}

static void usual_work_goes_while_the_window_is_full(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, FRESH);
        held_for_load(r, 4, FRESH);
        fill(r, 10, 3, USUAL);
        held_for_load(r, 13, USUAL);
        near(view_of(r, USUAL).usual, 3);
        near(view_of(r, USUAL).usual_ms, 10);
        assert_int_equal(view_of(r, USUAL).free, 3);
        assert_int_equal(view_of(r, USUAL).excess, 0);
        assert_int_equal(state_of(r).excess, 4);
        /* A place of its usual goes to its own, not to the one that waits for the window. */
        ended(r, 10, MS);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->order[0], 13);
        rig_end(r);
}

static void the_high_tier_has_twice_its_usual_and_the_deferrable_one_none(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, FRESH);
        assert_int_equal(view_of(r, HIGH).free, 4);
        fill(r, 10, 4, HIGH);
        assert_int_equal(view_of(r, HIGH).excess, 0);
        assert_int_equal(view_of(r, DEFERRABLE).free, 0);
        fill(r, 20, 1, DEFERRABLE); /* the floor */
        held_for_load(r, 21, DEFERRABLE);
        rig_end(r);
}

static void the_critical_tier_never_waits_and_takes_no_place(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, FRESH);
        fill(r, 100, 200, CRITICAL);
        assert_int_equal(view_of(r, CRITICAL).free, UINT32_MAX);
        assert_int_equal(state_of(r).excess, 4);
        ended_all(r, 0, 4);
        assert_int_equal(state_of(r).excess, 0);
        fill(r, 0, 4, FRESH);
        rig_end(r);
}

static void what_a_rule_exempts_never_waits_and_takes_no_place(void **state)
{
        struct rig *r = door();
        struct door_policy *p = granting(CLASSES);

        (void)state;
        p->running = 1;
        p->running_most = 100;
        p->classes[DEFERRABLE].tier = TIER_DEFERRABLE;
        for (int k = 0; k < 3; k++)
                p->classes[DEFERRABLE].verdict[k].reason = CHECK_EXEMPT;
        sample(r, p);
        fill(r, 0, 50, DEFERRABLE);
        assert_int_equal(view_of(r, DEFERRABLE).free, UINT32_MAX);
        assert_int_equal(state_of(r).excess, 0);
        fill(r, 100, 4, FRESH);
        held_for_load(r, 104, FRESH);
        /* The rule ends: what runs of the class counts, and no more may start. */
        publish(r);
        assert_int_equal(state_of(r).excess, 54);
        held_for_load(r, 50, DEFERRABLE);
        rig_end(r);
}

static void less_important_excess_is_in_no_ones_way(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, DEFERRABLE);
        held_for_load(r, 4, DEFERRABLE);
        fill(r, 10, 4, FRESH);
        held_for_load(r, 14, FRESH);
        fill(r, 20, 4 + 4, HIGH); /* its usual, and the window */
        held_for_load(r, 28, HIGH);
        assert_int_equal(state_of(r).excess, 12);
        /* What is more important counts for what is less: the others are gone, and of each tier
         * one goes, by the floor. */
        ended_all(r, 10, 4);
        ended_all(r, 0, 4);
        assert_int_equal(r->answers[14].verdict, ADMIT_RUN);
        assert_int_equal(r->answers[4].verdict, ADMIT_RUN);
        assert_int_equal(r->n_decided, 2);
        held_for_load(r, 15, FRESH);
        held_for_load(r, 5, DEFERRABLE);
        ended(r, 20, MS); /* a place of high goes to high */
        assert_int_equal(r->n_decided, 3);
        assert_int_equal(r->order[2], 28);
        rig_end(r);
}

static void of_each_tier_one_goes_if_none_executes(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 20, 8, HIGH);
        fill(r, 0, 1, FRESH);
        held_for_load(r, 1, FRESH);
        fill(r, 10, 1, DEFERRABLE);
        held_for_load(r, 11, DEFERRABLE);
        ended(r, 0, MS);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->order[0], 1);
        ended(r, 10, MS);
        assert_int_equal(r->n_decided, 2);
        assert_int_equal(r->order[1], 11);
        /* Of the tier, not of the class: usual work of it is enough. */
        fill(r, 30, 1, USUAL);
        held_for_load(r, 0, FRESH);
        ended(r, 1, MS);
        assert_int_equal(r->n_decided, 2);
        ended(r, 30, MS);
        assert_int_equal(r->n_decided, 3);
        assert_int_equal(r->order[2], 0);
        rig_end(r);
}

static void without_its_floor_the_deferrable_tier_may_stand_still(void **state)
{
        struct rig *r = door();

        (void)state;
        admission_set_door(r->a, 0, true, r->now_ns);
        fill(r, 20, 8, HIGH);
        held_for_load(r, 0, DEFERRABLE);
        held_for_load(r, 1, DEFERRABLE);
        fill(r, 10, 1, FRESH); /* the floor of other tiers stays */
        admission_set_door(r->a, 0, false, r->now_ns);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->order[0], 0);
        admission_set_door(r->a, 0, true, r->now_ns);
        ended(r, 0, MS);
        assert_int_equal(r->n_decided, 1);
        ended_all(r, 10, 1);
        ended_all(r, 20, 1);
        assert_int_equal(r->n_decided, 2); /* there is room in the window */
        assert_int_equal(r->order[1], 1);
        rig_end(r);
}

static void a_refusal_for_load_comes_at_the_deadline(void **state)
{
        struct rig *r = door();

        (void)state;
        limits(r, FRESH, (struct class_limits){.wait_ns = 2 * S});
        limits(r, DEFERRABLE, (struct class_limits){.wait_ns = 0});
        fill(r, 20, 8, HIGH);
        fill(r, 0, 1, FRESH);
        fill(r, 10, 1, DEFERRABLE);
        held_for_load(r, 1, FRESH);
        assert_int_equal(verdict(r, 11, DEFERRABLE), ADMIT_REFUSE); /* it never waits */
        assert_int_equal(r->answers[11].reason, ADMIT_BY_LOAD);
        r->harm = "replication_lag 12 against 10"; /* the window stays full */
        publish(r);
        pass(r, 2 * S - 1);
        assert_int_equal(r->n_decided, 0);
        pass(r, 1);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->answers[1].verdict, ADMIT_REFUSE);
        assert_int_equal(r->answers[1].reason, ADMIT_BY_LOAD);
        assert_int_equal(r->answers[1].retry_ms, 1000);
        assert_true(r->answers[1].waited_ns == 2 * S);
        rig_end(r);
}

static void the_words_of_a_wait_for_load_say_window_and_usual(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, FRESH);
        held_for_load(r, 4, FRESH);
        same(r->answers[4].why, "the window of 4 is full, 4 of its class execute, none usually");
        fill(r, 10, 3, USUAL);
        held_for_load(r, 13, USUAL);
        same(r->answers[13].why, "the window of 4 is full, 3 of its class execute, usually 3");
        set_harm(r, true);
        held_for_load(r, 14, USUAL);
        same(r->answers[14].why, "the window of 2 is full, 3 of its class execute, usually 3; "
                                 "replication_lag 12 against 10");
        assert_int_equal(view_of(r, USUAL).wait.reason, ADMIT_BY_LOAD);
        same(view_of(r, USUAL).wait.why, r->answers[14].why); /* of now, also for the first */
        same(state_of(r).why, "replication_lag 12 against 10");
        set_harm(r, false);
        same(state_of(r).why, "");
        rig_end(r);
}

/* ---- idle transactions ---- */

static void an_idle_transaction_gives_its_place_back(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, FRESH);
        held_for_load(r, 4, FRESH);
        held_for_load(r, 5, FRESH);
        admission_idle(r->a, &r->tickets[1], r->now_ns);
        admission_check(r->a);
        assert_true(r->tickets[1].is_idle);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->order[0], 4);
        assert_int_equal(state_of(r).running, 5);
        assert_int_equal(state_of(r).executing, 4);
        assert_int_equal(view_of(r, FRESH).running, 5);
        assert_int_equal(view_of(r, FRESH).executing, 4);
        /* It goes on at once, and counts again: the next place is not given away. */
        admission_resume(r->a, &r->tickets[1], r->now_ns);
        admission_check(r->a);
        assert_false(r->tickets[1].is_idle);
        assert_int_equal(state_of(r).excess, 5);
        ended(r, 0, MS);
        assert_int_equal(r->n_decided, 1);
        ended(r, 2, MS);
        assert_int_equal(r->n_decided, 2);
        /* An idle one that ends gives nothing back a second time. */
        admission_idle(r->a, &r->tickets[1], r->now_ns);
        ended(r, 1, MS);
        assert_int_equal(state_of(r).executing, 3);
        assert_int_equal(state_of(r).running, 3);
        rig_end(r);
}

static void an_idle_transaction_takes_no_place_of_the_usual(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 4, FRESH);
        for (int i = 10; i < 60; i++) {
                assert_int_equal(verdict(r, i, USUAL), ADMIT_RUN);
                admission_idle(r->a, &r->tickets[i], r->now_ns);
        }
        assert_int_equal(view_of(r, USUAL).executing, 0);
        fill(r, 100, 3, USUAL);
        held_for_load(r, 103, USUAL);
        /* Those that go on are beyond the usual, and take places of the window. */
        admission_resume(r->a, &r->tickets[10], r->now_ns);
        assert_int_equal(view_of(r, USUAL).excess, 1);
        assert_int_equal(state_of(r).excess, 5);
        rig_end(r);
}

static void idle_transactions_still_run_for_the_limits(void **state)
{
        struct rig *r = door();

        (void)state;
        limits(r, USUAL, (struct class_limits){.wait_ns = 2 * S, .concurrency = 2});
        fill(r, 0, 2, USUAL);
        admission_idle(r->a, &r->tickets[0], r->now_ns);
        assert_int_equal(verdict(r, 2, USUAL), ADMIT_WAIT);
        assert_int_equal(r->answers[2].reason, ADMIT_BY_CONCURRENCY);
        rig_end(r);
}

/* ---- growth ---- */

static void a_full_window_grows_by_half_a_second(void **state)
{
        struct rig *r = door();

        (void)state;
        r->running_most = 10000;
        publish(r);
        for (int i = 0; i < 200; i++)
                (void)ask(r, i, FRESH);
        for (int i = 0; i < 6; i++) {
                uint32_t before = window(r);
                int64_t ns = until_window_changes(r);
                assert_true(ns <= 1250 * MS && (i == 0 || ns >= 1000 * MS));
                assert_in_range(window(r), before * 3 / 2, (before + 1) * 3 / 2);
                assert_int_equal(state_of(r).excess, window(r)); /* and its places are taken */
        }
        assert_in_range(window(r), 40, 46);
        rig_end(r);
}

static void more_samples_do_not_make_it_grow_faster(void **state)
{
        struct rig *r = door();

        (void)state;
        r->running_most = 10000;
        for (int i = 0; i < 100; i++)
                (void)ask(r, i, FRESH);
        for (int i = 0; i < 60; i++) {
                pass(r, 50 * MS);
                publish(r);
        }
        assert_in_range(window(r), 9, 14); /* 3 s */
        rig_end(r);
}

static void a_window_with_room_does_not_grow(void **state)
{
        struct rig *r = door();

        (void)state;
        fill(r, 0, 3, FRESH);
        for (int i = 0; i < 36; i++) {
                watch(r, 250 * MS);
                assert_int_equal(window(r), 4);
        }
        rig_end(r);
}

static void above_a_width_that_was_too_much_it_grows_slowly(void **state)
{
        struct rig *r = door();
        uint32_t cut_at = 0;

        (void)state;
        r->running_most = 10000;
        publish(r);
        for (int i = 0; i < 500; i++)
                (void)ask(r, i, FRESH);
        while (window(r) < 28)
                (void)until_window_changes(r);
        cut_at = window(r);
        set_harm(r, true);
        assert_int_equal(window(r), cut_at / 2);
        set_harm(r, false);
        uint32_t before = window(r);
        int64_t from_ns = r->now_ns;
        for (; window(r) < cut_at; before = window(r)) { /* as fast as before */
                (void)until_window_changes(r);
                assert_true(window(r) >= cut_at || window(r) >= before * 3 / 2);
        }
        assert_true(r->now_ns - from_ns < 3 * S);
        assert_in_range(window(r), cut_at, cut_at * 3 / 2);
        for (int i = 0; i < 10; i++) {
                before = window(r);
                assert_true(until_window_changes(r) >= 1000 * MS);
                assert_in_range(window(r), before + before / 8, before + before / 8 + 1);
        }
        rig_end(r);
}

static void a_window_that_is_not_used_is_four_after_ten_seconds(void **state)
{
        struct rig *r = door();

        (void)state;
        r->running_most = 10000;
        publish(r);
        for (int i = 0; i < 30; i++)
                (void)ask(r, i, FRESH);
        while (window(r) < 28)
                (void)until_window_changes(r);
        uint32_t wide = window(r);
        while (state_of(r).running > 0)
                for (int i = 0; i < 30; i++)
                        if (r->tickets[i].state == TICKET_RUNNING)
                                ended(r, i, MS);
        watch(r, 9 * S);
        assert_int_equal(window(r), wide);
        watch(r, 1500 * MS);
        assert_int_equal(window(r), 4);
        /* The same after a cut. */
        set_harm(r, true);
        assert_int_equal(window(r), 1);
        set_harm(r, false);
        watch(r, 11 * S);
        assert_int_equal(window(r), 4);
        rig_end(r);
}

/* It grew for a burst; what goes on needs less, but more than at the beginning. */
static void a_window_that_is_too_wide_is_as_wide_as_it_is_used(void **state)
{
        struct rig *r = door();

        (void)state;
        r->running_most = 10000;
        publish(r);
        for (int i = 0; i < 30; i++)
                (void)ask(r, i, FRESH);
        while (window(r) < 30)
                (void)until_window_changes(r);
        for (int i = 0; i < 30; i++) {
                assert_int_equal(r->tickets[i].state, TICKET_RUNNING);
                if (i >= 12)
                        ended(r, i, MS);
        }
        watch(r, 9 * S);
        assert_in_range(window(r), 30, 100);
        for (int i = 0; i < 30; i++) {
                watch(r, S);
                if (i >= 2) /* 12 is full, so it may grow by half */
                        assert_in_range(window(r), 12, 18);
        }
        rig_end(r);
}

/* ---- modes ---- */

static void observed_classes_tell_and_take_no_place(void **state)
{
        struct rig *r = door();

        (void)state;
        limits(r, FRESH, (struct class_limits){.mode = MODE_OBSERVE});
        for (int i = 0; i < 10; i++) {
                const struct admit_answer *answer = ask(r, i, FRESH);
                assert_int_equal(answer->verdict, ADMIT_RUN);
                assert_true(answer->would_wait == (i >= 4));
                assert_int_equal(answer->reason, i >= 4 ? ADMIT_BY_LOAD : ADMIT_BY_NONE);
                assert_true((answer->why[0] != '\0') == (i >= 4));
        }
        assert_int_equal(view_of(r, FRESH).counts->observed, 6);
        assert_int_equal(view_of(r, FRESH).counts->by_reason[ADMIT_BY_LOAD], 6);
        assert_int_equal(view_of(r, FRESH).counts->held, 0);
        assert_int_equal(view_of(r, FRESH).excess, 10);
        assert_int_equal(state_of(r).excess, 0);
        assert_int_equal(state_of(r).executing, 10);
        fill(r, 20, 3 + 4, USUAL); /* the window is all theirs */
        held_for_load(r, 27, USUAL);
        rig_end(r);
}

static void what_only_observes_is_no_floor_of_its_tier(void **state)
{
        struct rig *r = door();

        (void)state;
        limits(r, USUAL, (struct class_limits){.mode = MODE_OBSERVE});
        fill(r, 0, 10, USUAL);
        fill(r, 20, 8, HIGH); /* and the window is full */
        fill(r, 30, 1, FRESH);
        held_for_load(r, 31, FRESH);
        rig_end(r);
}

static void an_observed_class_below_its_usual_would_go(void **state)
{
        struct rig *r = door();

        (void)state;
        limits(r, USUAL, (struct class_limits){.mode = MODE_OBSERVE});
        fill(r, 0, 8, HIGH); /* and the window is full */
        for (int i = 10; i < 14; i++)
                assert_true(ask(r, i, USUAL)->would_wait == (i == 13));
        rig_end(r);
}

static void a_mode_moves_what_executes_into_the_window_and_out_of_it(void **state)
{
        struct rig *r = door();

        (void)state;
        limits(r, FRESH, (struct class_limits){.mode = MODE_OBSERVE});
        fill(r, 0, 10, FRESH);
        limits(r, FRESH, (struct class_limits){.wait_ns = 100 * S});
        assert_int_equal(state_of(r).excess, 10);
        held_for_load(r, 10, FRESH);
        limits(r, FRESH, (struct class_limits){.mode = MODE_OBSERVE});
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(state_of(r).excess, 0);
        rig_end(r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(classes_that_always_wait_get_shares_by_tier),
                cmocka_unit_test(shares_are_of_database_time),
                cmocka_unit_test(a_class_that_was_idle_has_no_credit),
                cmocka_unit_test(classes_of_a_tier_share_the_window),
                cmocka_unit_test(a_class_that_stood_behind_the_window_has_no_credit),
                cmocka_unit_test(the_window_begins_at_four),
                cmocka_unit_test(usual_work_goes_while_the_window_is_full),
                cmocka_unit_test(the_high_tier_has_twice_its_usual_and_the_deferrable_one_none),
                cmocka_unit_test(the_critical_tier_never_waits_and_takes_no_place),
                cmocka_unit_test(what_a_rule_exempts_never_waits_and_takes_no_place),
                cmocka_unit_test(less_important_excess_is_in_no_ones_way),
                cmocka_unit_test(of_each_tier_one_goes_if_none_executes),
                cmocka_unit_test(without_its_floor_the_deferrable_tier_may_stand_still),
                cmocka_unit_test(a_refusal_for_load_comes_at_the_deadline),
                cmocka_unit_test(the_words_of_a_wait_for_load_say_window_and_usual),
                cmocka_unit_test(an_idle_transaction_gives_its_place_back),
                cmocka_unit_test(an_idle_transaction_takes_no_place_of_the_usual),
                cmocka_unit_test(idle_transactions_still_run_for_the_limits),
                cmocka_unit_test(a_full_window_grows_by_half_a_second),
                cmocka_unit_test(more_samples_do_not_make_it_grow_faster),
                cmocka_unit_test(a_window_with_room_does_not_grow),
                cmocka_unit_test(above_a_width_that_was_too_much_it_grows_slowly),
                cmocka_unit_test(a_window_that_is_not_used_is_four_after_ten_seconds),
                cmocka_unit_test(a_window_that_is_too_wide_is_as_wide_as_it_is_used),
                cmocka_unit_test(observed_classes_tell_and_take_no_place),
                cmocka_unit_test(what_only_observes_is_no_floor_of_its_tier),
                cmocka_unit_test(an_observed_class_below_its_usual_would_go),
                cmocka_unit_test(a_mode_moves_what_executes_into_the_window_and_out_of_it),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
