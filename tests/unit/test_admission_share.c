/* The law of admission where classes compete: shares by tier, the window under pressure, CoDel. */
#include "admission_box.h"

#include <math.h>

/* ---- shares ---- */

/* Keeps `depth` tickets of each class at the door, which runs `at_once`, and ends them in order;
 * returns how many started of each. */
static void crowd(struct rig *r, const int64_t *busy_ns, size_t n, uint32_t at_once, int ends,
                  uint64_t *ret)
{
        const int depth = 12;
        int running[TICKETS], begin = 0, end = 0;

        admission_set_concurrency(r->a, at_once, r->now_ns);
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

static void near(double got, double want)
{
        if (fabs(got - want) > 0.02 * want)
                fail_msg("%g is not near %g", got, want);
}

static void classes_that_always_wait_get_shares_by_tier(void **state)
{
        static const enum tier tiers[] = {TIER_CRITICAL, TIER_HIGH, TIER_NORMAL, TIER_DEFERRABLE};
        static const int64_t busy_ns[] = {MS, MS, MS, MS};
        uint64_t n[4];

        (void)state;
        for (uint32_t at_once = 1; at_once <= 7; at_once += 3) {
                struct rig *r = rig_new();
                for (size_t i = 0; i < 4; i++)
                        limits(r, i, (struct class_limits){.wait_ns = 1000 * S});
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
        for (size_t i = 0; i < 3; i++)
                limits(r, i, (struct class_limits){.wait_ns = 1000 * S});
        set_tiers(r, tiers, 3);
        crowd(r, busy_ns, 3, 3, 15000, n);
        near((double)n[1] / (double)n[0], 10);
        near((double)n[1] / (double)n[2], 1);
        rig_end(r);
}

static void a_ticket_can_lower_its_tier_and_not_raise_it(void **state)
{
        static const enum tier tiers[] = {TIER_NORMAL, TIER_NORMAL};
        static const int64_t busy_ns[] = {MS, MS};
        struct rig *r = rig_new();
        uint64_t n[2];

        (void)state;
        for (size_t i = 0; i < 2; i++)
                limits(r, i, (struct class_limits){.wait_ns = 1000 * S});
        set_tiers(r, tiers, 2);
        for (int i = 0; i < TICKETS; i++) /* crowd() gives odd tickets to class 1 */
                r->tickets[i].tier = i % 2 ? TIER_DEFERRABLE : TIER_CRITICAL;
        crowd(r, busy_ns, 2, 1, 6000, n);
        near((double)n[0] / (double)n[1], 2);
        rig_end(r);
}

static void a_class_that_was_idle_has_no_credit(void **state)
{
        struct rig *r = rig_new();
        int of_new = 0;

        (void)state;
        for (size_t i = 0; i < 2; i++)
                limits(r, i, (struct class_limits){.wait_ns = 1000 * S});
        admission_set_concurrency(r->a, 1, r->now_ns);
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

/* ---- the window ---- */

static void the_first_sample_over_halves_what_runs(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 2);
        press(r, 0, 2, false, LEVEL_NORMAL);
        assert_true(window(r) == UINT32_MAX);
        for (int i = 0; i < 10; i++)
                (void)ask(r, i, 0);
        (void)ask(r, 10, 1);
        press(r, 1, 2, true, LEVEL_ELEVATED);
        assert_int_equal(window(r), 5);
        assert_int_equal(state_of(r).pressed, 10); /* they count, though they started before */
        assert_int_equal(state_of(r).level, LEVEL_ELEVATED);
        assert_int_equal(verdict(r, 20, 0), ADMIT_WAIT);
        assert_int_equal(r->answers[20].reason, ADMIT_BY_SHARE);
        assert_int_equal(r->answers[20].check_reason, CHECK_THRESHOLD);
        assert_int_equal(verdict(r, 21, 1), ADMIT_RUN); /* it is granted */
        for (int i = 0; i < 5; i++)
                ended(r, i, MS);
        assert_int_equal(r->n_decided, 0);
        ended(r, 5, MS);
        assert_int_equal(r->n_decided, 1);
        assert_true(r->tickets[20].is_pressed);
        assert_int_equal(state_of(r).pressed, 5);
        /* A policy without a new sample changes nothing. */
        struct door_policy *p = granting(2);
        p->is_over = true;
        p->n_samples = r->n_samples;
        refuse(p, 0, CHECK_THRESHOLD);
        admission_publish(r->a, p, r->now_ns);
        assert_int_equal(window(r), 5);
        rig_end(r);
}

static void the_window_is_halved_per_sample_over_and_grows_by_one_below(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 1);
        sample(r, granting(1));
        for (int i = 0; i < 16; i++)
                (void)ask(r, i, 0);
        static const struct {
                bool is_over;
                enum level level;
                uint32_t window;
        } rows[] = {
                {true, LEVEL_ELEVATED, 8},  {true, LEVEL_ELEVATED, 4},  {false, LEVEL_ELEVATED, 5},
                {false, LEVEL_ELEVATED, 6}, {true, LEVEL_ELEVATED, 3},  {true, LEVEL_ELEVATED, 1},
                {true, LEVEL_ELEVATED, 1},  {true, LEVEL_CRITICAL, 0},  {true, LEVEL_CRITICAL, 0},
                {true, LEVEL_ELEVATED, 1},  {false, LEVEL_ELEVATED, 2}, {false, LEVEL_CRITICAL, 1},
                {true, LEVEL_UNKNOWN, 1},   {true, LEVEL_NORMAL, 1},    {false, LEVEL_ELEVATED, 2},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                press(r, 1, 1, rows[i].is_over, rows[i].level);
                assert_int_equal(window(r), rows[i].window);
        }
        rig_end(r);
}

/* Four run: the window is used up, and what runs is what it allows. */
static void a_width_that_was_too_much_is_not_tried_again_at_once(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 1);
        for (int i = 0; i < 4; i++)
                (void)ask(r, i, 0);
        press(r, 1, 1, false, LEVEL_ELEVATED);
        assert_int_equal(window(r), 4);
        press(r, 1, 1, true, LEVEL_ELEVATED);
        assert_int_equal(window(r), 2);
        for (int i = 0; i < 10; i++)
                press(r, 1, 1, false, LEVEL_ELEVATED);
        assert_int_equal(window(r), 3);
        pass(r, 30 * NS_PER_S);
        press(r, 1, 1, false, LEVEL_ELEVATED);
        press(r, 1, 1, false, LEVEL_ELEVATED);
        assert_int_equal(window(r), 5);
        rig_end(r);
}

static void what_is_pressed_later_brings_its_places_along(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 2);
        for (int i = 0; i < 40; i++)
                (void)ask(r, i, i < 4 ? 0 : 1);
        press(r, 1, 2, false, LEVEL_ELEVATED);
        assert_int_equal(window(r), 4);
        press(r, 2, 2, true, LEVEL_ELEVATED); /* 4 and 36, halved */
        assert_int_equal(window(r), 20);
        press(r, 1, 2, true, LEVEL_ELEVATED);
        assert_int_equal(window(r), 10);
        press(r, 2, 2, true, LEVEL_ELEVATED); /* not more than what runs */
        assert_int_equal(window(r), 20);
        rig_end(r);
}

static void places_of_the_window_that_are_not_used_become_no_more(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 1);
        for (int i = 0; i < 6; i++)
                (void)ask(r, i, 0);
        for (int i = 0; i < 100; i++)
                press(r, 1, 1, false, LEVEL_ELEVATED);
        assert_int_equal(window(r), 7);
        press(r, 1, 1, true, LEVEL_ELEVATED);
        assert_int_equal(window(r), 3);
        rig_end(r);
}

static void a_level_without_anything_over_keeps_what_runs(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 1);
        for (int i = 0; i < 6; i++)
                (void)ask(r, i, 0);
        struct door_policy *p = granting(1);
        refuse(p, 0, CHECK_LEVEL);
        p->level = LEVEL_ELEVATED;
        sample(r, p);
        assert_int_equal(window(r), 6);
        assert_int_equal(verdict(r, 6, 0), ADMIT_WAIT);
        press(r, 1, 1, false, LEVEL_ELEVATED);
        assert_int_equal(window(r), 7);
        assert_int_equal(r->answers[6].verdict, ADMIT_RUN);
        rig_end(r);
}

static void at_level_critical_nothing_pressed_starts_and_then_it_is_refused(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 1);
        struct door_policy *p = granting(1);
        p->level = LEVEL_CRITICAL;
        p->classes[0].retry_ms = 70;
        refuse(p, 0, CHECK_THRESHOLD);
        sample(r, p);
        assert_int_equal(window(r), 0);
        assert_int_equal(verdict(r, 0, 0), ADMIT_WAIT);
        pass(r, 2 * S);
        assert_int_equal(r->answers[0].retry_ms, 70);
        assert_int_equal(r->answers[0].verdict, ADMIT_REFUSE);
        assert_int_equal(r->answers[0].reason, ADMIT_BY_SHARE);
        assert_int_equal(r->answers[0].check_reason, CHECK_THRESHOLD);
        has(r->answers[0].why, "others of waiting tiers run (0 may)");
        rig_end(r);
}

static void the_critical_tier_is_never_pressed(void **state)
{
        static const enum check_reason reasons[] = {CHECK_THRESHOLD, CHECK_LEVEL,
                                                    CHECK_LOW_PRIORITY};

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
                struct rig *r = rig_new();
                plain(r, 2);
                struct door_policy *p = granting(2);
                p->is_over = true;
                p->level = LEVEL_CRITICAL;
                p->classes[0].tier = TIER_CRITICAL;
                refuse(p, 0, reasons[i]);
                refuse(p, 1, reasons[i]);
                sample(r, p);
                assert_int_equal(verdict(r, 0, 0), ADMIT_RUN);
                assert_int_equal(state_of(r).pressed, 0);
                assert_int_equal(verdict(r, 1, 1), ADMIT_WAIT);
                rig_end(r);
        }
}

static void without_a_window_a_pressed_class_goes(void **state)
{
        struct rig *r = rig_new();
        struct door_policy *p = granting(1);

        (void)state;
        plain(r, 1);
        refuse(p, 0, CHECK_LOW_PRIORITY); /* while nothing is over */
        sample(r, p);
        for (int i = 0; i < 20; i++)
                assert_int_equal(verdict(r, i, 0), ADMIT_RUN);
        assert_int_equal(state_of(r).pressed, 20);
        rig_end(r);
}

static void after_the_pressure_the_window_opens_without_a_herd(void **state)
{
        struct rig *r = rig_new();
        uint32_t most = 0;

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 100 * S});
        press(r, 1, 1, true, LEVEL_CRITICAL);
        for (int i = 0; i < 500; i++)
                assert_int_equal(verdict(r, i, 0), ADMIT_WAIT);
        pass(r, S);
        sample(r, granting(1)); /* the policy grants it again */
        assert_int_equal(window(r), 1);
        assert_int_equal(r->n_decided, 1);
        for (int second = 1; window(r) != UINT32_MAX; second++) {
                assert_true(second < 12);
                uint32_t before = window(r);
                int decided_before = r->n_decided;
                for (int k = 0; k < 100; k++) {
                        pass(r, 10 * MS);
                        /* At no moment many at once: at most a few percent of those that run. */
                        assert_true(r->n_decided - decided_before <=
                                    1 + (int)state_of(r).pressed / 10);
                        decided_before = r->n_decided;
                }
                if (window(r) == UINT32_MAX)
                        break;
                most = window(r);
                assert_true(most >= 2 * before && most <= 2 * before + 2);
                assert_int_equal(r->n_decided, most); /* and all places of it are taken */
                assert_int_equal(verdict(r, 500 + second, 0), ADMIT_WAIT);
        }
        assert_true(most >= 256);
        assert_true(r->n_decided >= 500);
        assert_int_equal(state_of(r).waiting, 0);
        assert_int_equal(verdict(r, 900, 0), ADMIT_RUN); /* no window any more */
        rig_end(r);
}

static void a_sample_widens_an_opening_window_by_one_more(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 100 * S});
        press(r, 1, 1, true, LEVEL_CRITICAL);
        for (int i = 0; i < 500; i++)
                (void)ask(r, i, 0);
        for (uint32_t i = 1; i <= 20; i++) {
                sample(r, granting(1)); /* no time passes */
                assert_int_equal(window(r), i);
        }
        r->now_ns += S; /* without a turn between */
        sample(r, granting(1));
        assert_int_equal(window(r), 41);
        press(r, 1, 1, true, LEVEL_NORMAL); /* and closes again from there */
        assert_int_equal(window(r), 20);
        pass(r, 5 * S);
        assert_int_equal(window(r), 20);
        rig_end(r);
}

static void a_window_that_nobody_waits_for_ends_with_the_pressure(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 1);
        (void)ask(r, 0, 0);
        press(r, 1, 1, true, LEVEL_ELEVATED);
        assert_int_equal(window(r), 1);
        sample(r, granting(1));
        assert_true(window(r) == UINT32_MAX);
        rig_end(r);
}

static void what_an_operator_exempts_is_free_while_the_window_opens(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 2);
        press(r, 2, 2, true, LEVEL_CRITICAL);
        for (int i = 0; i < 20; i++)
                (void)ask(r, i, (size_t)i % 2);
        struct door_policy *p = granting(2);
        for (int k = 0; k < 3; k++)
                p->classes[1].verdict[k].reason = CHECK_EXEMPT;
        sample(r, p);
        assert_int_equal(view_of(r, 1).running, 10);
        assert_int_equal(view_of(r, 0).running, 1);
        rig_end(r);
}

static void while_something_is_over_a_granted_class_is_free_at_once(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        plain(r, 2);
        press(r, 2, 2, true, LEVEL_CRITICAL);
        for (int i = 0; i < 20; i++)
                (void)ask(r, i, (size_t)i % 2);
        press(r, 1, 2, true, LEVEL_CRITICAL); /* the policy grants class 1, in full pressure */
        assert_int_equal(view_of(r, 1).running, 10);
        assert_int_equal(view_of(r, 0).running, 0);
        rig_end(r);
}

/* Classes 0 (high) and 1 (deferrable) are pressed, class 2 (high) is granted. */
static void press_two_of_three(struct rig *r, bool is_over)
{
        struct door_policy *p = granting(3);
        p->is_over = is_over;
        p->level = LEVEL_ELEVATED;
        p->classes[0].tier = TIER_HIGH;
        p->classes[1].tier = TIER_DEFERRABLE;
        p->classes[2].tier = TIER_HIGH;
        refuse(p, 0, CHECK_LEVEL);
        refuse(p, 1, CHECK_LEVEL);
        sample(r, p);
}

/* Ends a ticket; returns the one that got its place. */
static int replace(struct rig *r, int ticket)
{
        r->n_decided = 0;
        ended(r, ticket, MS);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->answers[r->order[0]].verdict, ADMIT_RUN);
        return r->order[0];
}

static void pressed_classes_share_the_window_by_tier_and_get_no_credit(void **state)
{
        struct rig *r = rig_new();
        int pressed = 0, granted = 600, n[3] = {0};

        (void)state;
        for (size_t i = 0; i < 3; i++)
                limits(r, i, (struct class_limits){.wait_ns = 1000 * S});
        press_two_of_three(r, true);
        assert_int_equal(window(r), 1);
        admission_set_concurrency(r->a, 2, r->now_ns);
        for (int i = 0; i < 900; i++) /* 0, 300, 600, 1, 301, 601 ... */
                (void)ask(r, i % 3 * 300 + i / 3, (size_t)i % 3);
        assert_int_equal(r->tickets[pressed].state, TICKET_RUNNING);
        assert_int_equal(r->tickets[granted].state, TICKET_RUNNING);
        for (int i = 0; i < 100; i++) {
                /* The granted class takes two turns for each one of the window. */
                granted = replace(r, replace(r, granted));
                assert_int_equal(r->tickets[granted].class_number, 2);
                pressed = replace(r, pressed);
                n[r->tickets[pressed].class_number]++;
        }
        assert_in_range(n[0], 79, 81); /* 4 to 1 */
        assert_in_range(n[1], 19, 21);
        /* A window as wide as the door: those that stood behind it have saved nothing up. */
        press_two_of_three(r, false);
        assert_int_equal(window(r), 2);
        memset(n, 0, sizeof(n));
        for (int i = 0; i < 90; i++) {
                granted = replace(r, granted);
                n[r->tickets[granted].class_number]++;
        }
        assert_in_range(n[0], 38, 42);
        assert_in_range(n[1], 8, 12);
        assert_in_range(n[2], 38, 42);
        rig_end(r);
}

/* ---- CoDel ---- */

/* A door of one place that is taken, with waiting ones of the high tier (class 0) and the
 * deferrable tier (class 1). */
static struct rig *standing_door(void)
{
        static const enum tier tiers[] = {TIER_HIGH, TIER_DEFERRABLE, TIER_CRITICAL};
        struct rig *r = rig_new();

        for (size_t i = 0; i < 3; i++)
                limits(r, i, (struct class_limits){.wait_ns = 100 * S});
        set_tiers(r, tiers, 3);
        admission_set_concurrency(r->a, 1, r->now_ns);
        (void)ask(r, 999, 2);
        return r;
}

static void a_standing_queue_sheds_its_least_important_tier(void **state)
{
        struct rig *r = standing_door();

        (void)state;
        for (int i = 0; i < 5; i++) {
                assert_int_equal(verdict(r, 10 + i, 1), ADMIT_WAIT);
                assert_int_equal(verdict(r, i, 0), ADMIT_WAIT);
        }
        pass(r, 100 * MS - 1);
        assert_int_equal(r->n_decided, 0);
        assert_false(state_of(r).is_standing);
        pass(r, 6 * MS);
        assert_true(state_of(r).is_standing);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->order[0], 10); /* the oldest */
        assert_int_equal(r->answers[10].verdict, ADMIT_REFUSE);
        assert_int_equal(r->answers[10].reason, ADMIT_BY_OVERLOAD);
        same(r->answers[10].why, "more important transactions stand in the queue");
        assert_int_equal(r->answers[10].retry_ms, 1000);
        pass(r, 60 * MS); /* the next one 100 ms / sqrt(2) after it */
        assert_int_equal(r->n_decided, 1);
        pass(r, 11 * MS);
        assert_int_equal(r->n_decided, 2);
        pass(r, 50 * MS); /* then 100 ms / sqrt(3) */
        assert_int_equal(r->n_decided, 2);
        pass(r, 9 * MS);
        assert_int_equal(r->n_decided, 3);
        assert_int_equal(state_of(r).shed, 3);
        pass(r, S); /* the high tier itself is not shed for its own sake */
        assert_int_equal(r->n_decided, 5);
        assert_int_equal(state_of(r).waiting, 5);
        assert_int_equal(view_of(r, 1).counts->refused, 5);
        rig_end(r);
}

static void one_that_comes_through_in_time_ends_the_shedding(void **state)
{
        struct rig *r = standing_door();

        (void)state;
        for (int i = 0; i < 5; i++)
                (void)ask(r, 10 + i, 1);
        (void)ask(r, 0, 0);
        pass(r, 106 * MS);
        assert_int_equal(r->n_decided, 1);
        ended(r, 999, MS); /* the high one goes, and none of its tier stands any more */
        assert_int_equal(r->order[1], 0);
        pass(r, 300 * MS); /* the deferrable tier stands on, but is not shed for its own sake */
        assert_true(state_of(r).is_standing);
        assert_int_equal(r->n_decided, 2);
        /* It begins anew: 100 ms, not what was left of the last time. */
        (void)ask(r, 1, 0);
        pass(r, 98 * MS);
        assert_int_equal(r->n_decided, 2);
        pass(r, 12 * MS);
        assert_int_equal(r->n_decided, 3);
        pass(r, 62 * MS); /* and its pace is that of the beginning */
        assert_int_equal(r->n_decided, 3);
        pass(r, 12 * MS);
        assert_int_equal(r->n_decided, 4);
        assert_int_equal(state_of(r).shed, 3);
        rig_end(r);
}

static void a_queue_that_moves_within_its_target_sheds_nobody(void **state)
{
        struct rig *r = standing_door();
        int at = 999;

        (void)state;
        for (int i = 0; i < 200; i++)
                (void)ask(r, 100 + i, 1);
        for (int i = 0; i < 100; i++) {
                (void)ask(r, i, 0);
                pass(r, 3 * MS);
                r->n_decided = 0;
                ended(r, at, MS / 10);
                at = r->order[0];
                if (r->tickets[at].class_number == 1) { /* the high one waits for the next place */
                        r->n_decided = 0;
                        ended(r, at, MS / 10);
                        at = r->order[0];
                }
        }
        assert_int_equal(state_of(r).shed, 0);
        rig_end(r);
}

static void who_waits_for_its_own_limit_does_not_stand_in_the_queue(void **state)
{
        static const enum tier tiers[] = {TIER_HIGH, TIER_DEFERRABLE};
        struct rig *r = rig_new();

        (void)state;
        limits(r, 0, (struct class_limits){.wait_ns = 10 * S, .concurrency = 1});
        limits(r, 1, (struct class_limits){.wait_ns = 10 * S});
        set_tiers(r, tiers, 2);
        admission_set_concurrency(r->a, 2, r->now_ns);
        for (int i = 0; i < 4; i++)
                (void)ask(r, i, 0);
        for (int i = 4; i < 8; i++)
                (void)ask(r, i, 1);
        pass(r, 5 * S);
        assert_int_equal(state_of(r).shed, 0);
        assert_int_equal(r->n_decided, 0);
        /* Nor is it shed for others. */
        struct door_policy *p = granting(2);
        p->classes[0].tier = TIER_DEFERRABLE;
        p->classes[1].tier = TIER_HIGH;
        sample(r, p);
        pass(r, S);
        assert_int_equal(r->n_decided, 0);
        assert_true(state_of(r).is_standing);
        rig_end(r);
}

static void a_queue_that_was_empty_does_not_stand_at_once(void **state)
{
        struct rig *r = standing_door();

        (void)state;
        (void)ask(r, 0, 0);
        (void)ask(r, 1, 1);
        pass(r, 110 * MS);
        assert_int_equal(state_of(r).shed, 1);
        ended(r, 999, MS);
        assert_int_equal(state_of(r).waiting, 0);
        assert_false(state_of(r).is_standing);
        r->now_ns += S;
        (void)ask(r, 2, 0);
        (void)ask(r, 1, 1);
        r->now_ns += 6 * MS; /* the owner comes late */
        (void)turn(r);
        assert_false(state_of(r).is_standing);
        assert_int_equal(state_of(r).shed, 1);
        rig_end(r);
}

static void of_the_least_important_the_oldest_is_shed(void **state)
{
        static const enum tier tiers[] = {TIER_HIGH,       TIER_DEFERRABLE, TIER_NORMAL,
                                          TIER_DEFERRABLE, TIER_DEFERRABLE, TIER_CRITICAL};
        static const int wanted[] = {3, 1, 4, 2};
        struct rig *r = rig_new();

        (void)state;
        for (size_t i = 0; i < 6; i++)
                limits(r, i, (struct class_limits){.wait_ns = 100 * S});
        set_tiers(r, tiers, 6);
        admission_set_concurrency(r->a, 1, r->now_ns);
        (void)ask(r, 999, 5);
        static const int order[] = {2, 3, 1, 4, 0};
        for (size_t i = 0; i < ARRAY_LEN(order); i++, r->now_ns += MS)
                (void)ask(r, order[i], (size_t)order[i]);
        pass(r, 5 * S);
        assert_int_equal(r->n_decided, 4); /* the normal one last, for the high one */
        for (int i = 0; i < 4; i++)
                assert_int_equal(r->order[i], wanted[i]);
        rig_end(r);
}

static void a_tier_of_which_some_come_through_in_time_does_not_stand(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        for (size_t i = 0; i < 3; i++)
                limits(r, i, (struct class_limits){.wait_ns = 100 * S});
        press_two_of_three(r, true);
        (void)ask(r, 0, 0); /* takes the window */
        (void)ask(r, 1, 0);
        (void)ask(r, 2, 1);
        for (int i = 0; i < 50; i++) {
                pass(r, 20 * MS);
                assert_int_equal(verdict(r, 3, 2), ADMIT_RUN); /* of the high tier, too */
                ended(r, 3, MS);
        }
        assert_int_equal(state_of(r).shed, 0);
        pass(r, 200 * MS);
        assert_true(state_of(r).shed > 0);
        rig_end(r);
}

static void a_lowered_ticket_is_shed_before_others_of_its_class(void **state)
{
        struct rig *r = standing_door();

        (void)state;
        (void)ask(r, 0, 0);
        r->tickets[1].tier = TIER_DEFERRABLE;
        (void)ask(r, 1, 0);
        (void)ask(r, 2, 0);
        pass(r, 5 * S);
        assert_int_equal(r->n_decided, 1);
        assert_int_equal(r->order[0], 1);
        rig_end(r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(classes_that_always_wait_get_shares_by_tier),
                cmocka_unit_test(shares_are_of_database_time),
                cmocka_unit_test(a_ticket_can_lower_its_tier_and_not_raise_it),
                cmocka_unit_test(a_class_that_was_idle_has_no_credit),
                cmocka_unit_test(the_first_sample_over_halves_what_runs),
                cmocka_unit_test(the_window_is_halved_per_sample_over_and_grows_by_one_below),
                cmocka_unit_test(a_width_that_was_too_much_is_not_tried_again_at_once),
                cmocka_unit_test(what_is_pressed_later_brings_its_places_along),
                cmocka_unit_test(places_of_the_window_that_are_not_used_become_no_more),
                cmocka_unit_test(a_level_without_anything_over_keeps_what_runs),
                cmocka_unit_test(at_level_critical_nothing_pressed_starts_and_then_it_is_refused),
                cmocka_unit_test(the_critical_tier_is_never_pressed),
                cmocka_unit_test(without_a_window_a_pressed_class_goes),
                cmocka_unit_test(after_the_pressure_the_window_opens_without_a_herd),
                cmocka_unit_test(a_sample_widens_an_opening_window_by_one_more),
                cmocka_unit_test(a_window_that_nobody_waits_for_ends_with_the_pressure),
                cmocka_unit_test(what_an_operator_exempts_is_free_while_the_window_opens),
                cmocka_unit_test(while_something_is_over_a_granted_class_is_free_at_once),
                cmocka_unit_test(pressed_classes_share_the_window_by_tier_and_get_no_credit),
                cmocka_unit_test(a_standing_queue_sheds_its_least_important_tier),
                cmocka_unit_test(one_that_comes_through_in_time_ends_the_shedding),
                cmocka_unit_test(a_queue_that_moves_within_its_target_sheds_nobody),
                cmocka_unit_test(who_waits_for_its_own_limit_does_not_stand_in_the_queue),
                cmocka_unit_test(a_queue_that_was_empty_does_not_stand_at_once),
                cmocka_unit_test(of_the_least_important_the_oldest_is_shed),
                cmocka_unit_test(a_tier_of_which_some_come_through_in_time_does_not_stand),
                cmocka_unit_test(a_lowered_ticket_is_shed_before_others_of_its_class),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
