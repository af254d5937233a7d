/* A door with virtual time for the tests of the law of admission: its owner's tickets, and what it
 * said about each of them. */
#ifndef WEIR_TESTS_UNIT_ADMISSION_BOX_H
#define WEIR_TESTS_UNIT_ADMISSION_BOX_H

#include "check.h"

#include <math.h>
#include <stdio.h>

#include "gate/admission.h"

#define S       NS_PER_S
#define MS      NS_PER_MS
#define TICKETS 1000
#define TIERED  8 /* classes that set_tiers() gives a tier to, at most */

struct rig {
        struct admission *a;
        int64_t now_ns;
        uint64_t n_samples;
        /* What publish() says. */
        size_t n_tiers;
        enum tier tiers[TIERED];
        double running, running_most;
        const char *harm; /* NULL: none */
        struct ticket tickets[TICKETS];
        struct admit_answer answers[TICKETS]; /* the last one of each ticket */
        int n_decided;
        int order[TICKETS]; /* decided ones, the first TICKETS of them */
};

static inline void decided(void *ctx, struct ticket *t, const struct admit_answer *answer)
{
        struct rig *r = ctx;
        int i = (int)(t - r->tickets);

        assert_true(r->answers[i].verdict == ADMIT_WAIT);
        r->answers[i] = *answer;
        if (r->n_decided < TICKETS)
                r->order[r->n_decided] = i;
        r->n_decided++;
}

static inline struct rig *rig_new(void)
{
        static struct rig r;

        memset(&r, 0, sizeof(r));
        r.now_ns = 1000 * S;
        r.running = r.running_most = NAN;
        r.a = admission_new(1, decided, &r);
        return &r;
}

static inline void rig_end(struct rig *r)
{
        admission_check(r->a);
        r->a = admission_free(r->a);
        assert_null(r->a);
}

static inline void limits(struct rig *r, size_t number, struct class_limits l)
{
        if (l.mode == MODE_OFF)
                l.mode = MODE_ENFORCE;
        admission_set_class(r->a, number, &l, r->now_ns);
}

/* Classes that wait up to two seconds and have no limits. */
static inline void plain(struct rig *r, size_t n)
{
        for (size_t i = 0; i < n; i++)
                limits(r, i, (struct class_limits){.wait_ns = 2 * S});
}

/* Classes that wait longer than any test. */
static inline void patient(struct rig *r, size_t n)
{
        for (size_t i = 0; i < n; i++)
                limits(r, i, (struct class_limits){.wait_ns = 3600 * S});
}

static inline void set_door(struct rig *r, uint32_t concurrency)
{
        admission_set_door(r->a, concurrency, false, r->now_ns);
}

/* A policy that grants n classes of the normal tier and knows no metric; the test changes and
 * publishes it. */
static inline struct door_policy *granting(size_t n)
{
        struct door_policy *p = door_policy_new(n);
        p->running = p->running_most = NAN;
        for (size_t i = 0; i < n; i++) {
                p->classes[i].is_known = true;
                p->classes[i].tier = TIER_NORMAL;
                for (int k = 0; k < 3; k++)
                        p->classes[i].verdict[k] = (struct check_verdict){.is_granted = true};
        }
        return p;
}

static inline void refuse(struct door_policy *p, size_t number, enum check_reason reason)
{
        for (int k = 0; k < 3; k++)
                p->classes[number].verdict[k] = (struct check_verdict){.reason = reason};
}

/* Publishes it as a new sample of the target. */
static inline void sample(struct rig *r, struct door_policy *p)
{
        p->n_samples = ++r->n_samples;
        admission_publish(r->a, p, r->now_ns);
        admission_check(r->a);
}

/* The tiers, the metric and the harm that the rig holds now, without a new sample. */
static inline void republish(struct rig *r)
{
        struct door_policy *p = granting(r->n_tiers);
        for (size_t i = 0; i < r->n_tiers; i++)
                p->classes[i].tier = r->tiers[i];
        p->running = r->running;
        p->running_most = r->running_most;
        p->is_harmed = r->harm != NULL;
        (void)snprintf(p->harm, sizeof(p->harm), "%s", r->harm ? r->harm : "");
        p->n_samples = r->n_samples;
        admission_publish(r->a, p, r->now_ns);
        admission_check(r->a);
}

/* The same as a new sample. */
static inline void publish(struct rig *r)
{
        r->n_samples++;
        republish(r);
}

static inline void set_tiers(struct rig *r, const enum tier *tiers, size_t n)
{
        assert_true(n <= TIERED);
        memcpy(r->tiers, tiers, n * sizeof(*tiers));
        r->n_tiers = n;
        publish(r);
}

/* As if a week had shown that so many execute at once, and how long one takes. */
static inline struct usual_memory week_of(double executing, int64_t time_ns)
{
        struct usual_memory m = {
                .ends = 1000 * 1000,
                .seconds = 7 * 86400,
                .executing = executing,
                .log_time = log((double)time_ns),
                .slow = log(4),
                .n_hours = USUAL_HOURS,
        };
        memset(m.hours, (int)usual_bucket(executing), sizeof(m.hours));
        return m;
}

static inline void learn(struct rig *r, size_t number, double executing, int64_t time_ns)
{
        struct usual_memory m = week_of(executing, time_ns);
        assert_true(admission_remember(r->a, number, &m));
        r->now_ns += 250 * MS; /* it counts from the next look on */
        republish(r);
}

static inline struct admit_answer *ask(struct rig *r, int i, size_t number)
{
        admission_ask(r->a, &r->tickets[i], number, r->now_ns, &r->answers[i]);
        admission_check(r->a);
        return &r->answers[i];
}

static inline enum admit_verdict verdict(struct rig *r, int i, size_t number)
{
        return ask(r, i, number)->verdict;
}

static inline void ended(struct rig *r, int i, int64_t busy_ns)
{
        struct ticket_use use = {.statements = 2, .rows = 3, .errors = 1, .busy_ns = busy_ns};
        admission_end(r->a, &r->tickets[i], &use, r->now_ns);
        admission_check(r->a);
}

static inline int64_t turn(struct rig *r)
{
        int64_t next_ns = admission_turn(r->a, r->now_ns);
        admission_check(r->a);
        return next_ns;
}

/* Lets time pass as the owner would: with a turn whenever one is wanted. */
static inline void pass(struct rig *r, int64_t ns)
{
        int64_t end_ns = r->now_ns + ns;
        for (int64_t next_ns = turn(r); next_ns <= end_ns; next_ns = turn(r))
                r->now_ns = next_ns;
        r->now_ns = end_ns;
        (void)turn(r); /* nothing is due before */
}

/* The same while the core publishes its policy four times a second. */
static inline void watch(struct rig *r, int64_t ns)
{
        int64_t end_ns = r->now_ns + ns;
        while (end_ns - r->now_ns > 250 * MS) {
                pass(r, 250 * MS);
                republish(r);
        }
        pass(r, end_ns - r->now_ns);
        republish(r);
}

static inline uint32_t window(const struct rig *r)
{
        struct admission_state st;
        admission_state(r->a, &st);
        return st.window;
}

static inline struct admission_state state_of(const struct rig *r)
{
        struct admission_state st;
        admission_state(r->a, &st);
        return st;
}

static inline struct class_view view_of(const struct rig *r, size_t number)
{
        struct class_view v;
        assert_true(admission_view(r->a, number, r->now_ns, &v));
        return v;
}

/* ---- a door that has learned ---- */

/* The classes of most tests. */
enum {
        USUAL,      /* normal: usually 3 of 10 ms */
        FRESH,      /* normal, never seen before */
        HIGH,       /* high: usually 2, so 4 are free */
        DEFERRABLE, /* usually 5, but it has no free places */
        CRITICAL,
        CLASSES
};

/* A database of which usually up to 100 statements run, and 1 does now. */
static inline struct rig *door(void)
{
        static const enum tier tiers[] = {TIER_NORMAL, TIER_NORMAL, TIER_HIGH, TIER_DEFERRABLE,
                                          TIER_CRITICAL};
        struct rig *r = rig_new();

        patient(r, CLASSES);
        r->running = 1;
        r->running_most = 100;
        set_tiers(r, tiers, CLASSES);
        learn(r, USUAL, 3, 10 * MS);
        learn(r, HIGH, 2, 10 * MS);
        learn(r, DEFERRABLE, 5, 10 * MS);
        return r;
}

/* Starts tickets from that one on, which all go. */
static inline void fill(struct rig *r, int from, int n, size_t number)
{
        for (int i = from; i < from + n; i++)
                assert_int_equal(verdict(r, i, number), ADMIT_RUN);
}

static inline void held_for_load(struct rig *r, int i, size_t number)
{
        assert_int_equal(verdict(r, i, number), ADMIT_WAIT);
        assert_int_equal(r->answers[i].reason, ADMIT_BY_LOAD);
}

static inline void ended_all(struct rig *r, int from, int n)
{
        for (int i = from; i < from + n; i++)
                ended(r, i, MS);
}

static inline bool is_over(const struct rig *r)
{
        return state_of(r).is_over;
}

static inline void set_harm(struct rig *r, bool is_harmed)
{
        r->harm = is_harmed ? "replication_lag 12 against 10" : NULL;
        publish(r);
        watch(r, 250 * MS);
}

static inline void near(double got, double want)
{
        if (fabs(got - want) > 0.02 * want)
                fail_msg("%g is not near %g", got, want);
}

/* Waits for the window to change; returns after how long. */
static inline int64_t until_window_changes(struct rig *r)
{
        uint32_t before = window(r);
        int64_t from_ns = r->now_ns;

        while (window(r) == before) {
                assert_true(r->now_ns - from_ns < 20 * S);
                pass(r, 10 * MS);
        }
        return r->now_ns - from_ns;
}

#endif
