/* A door with virtual time for the tests of the law of admission: its owner's tickets, and what it
 * said about each of them. */
#ifndef WEIR_TESTS_UNIT_ADMISSION_BOX_H
#define WEIR_TESTS_UNIT_ADMISSION_BOX_H

#include "check.h"

#include "gate/admission.h"

#define S       NS_PER_S
#define MS      NS_PER_MS
#define TICKETS 1000

struct rig {
        struct admission *a;
        int64_t now_ns;
        uint64_t n_samples;
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
        r.a = admission_new(1, decided, &r);
        for (int i = 0; i < TICKETS; i++)
                r.tickets[i].tier = -1;
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

/* A policy that grants n classes of the normal tier; the test changes and publishes it. */
static inline struct door_policy *granting(size_t n)
{
        struct door_policy *p = door_policy_new(n);
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

/* A sample over the threshold, or of that level, that presses the first n of `all` classes. */
static inline void press(struct rig *r, size_t n, size_t all, bool is_over, enum level level)
{
        struct door_policy *p = granting(all);
        p->is_over = is_over;
        p->level = level;
        for (size_t i = 0; i < n; i++)
                refuse(p, i, CHECK_THRESHOLD);
        sample(r, p);
}

static inline void set_tiers(struct rig *r, const enum tier *tiers, size_t n)
{
        struct door_policy *p = granting(n);
        for (size_t i = 0; i < n; i++)
                p->classes[i].tier = tiers[i];
        sample(r, p);
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

#endif
