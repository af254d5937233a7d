/* The law of admission against a model that only counts: thousands of random transactions, limits,
 * samples, policies and memories of one door, in virtual time.  After every call the model knows
 * from the limits, the policy, the usual of the classes and the width of the window whether a
 * transaction that started was allowed to, and whether one that waits has a reason to.  How wide
 * the window is, and why, is in prop_admission_load.c.
 *
 * Rates and budgets have a high and a low account in the model: what may at most, and what must at
 * least be left.  They differ only after the limits changed, when the law may keep or forget. */
#include "../unit/check.h"

#include <math.h>

#include "dice.h"
#include "gate/admission.h"

#define CLASSES 7
#define TICKETS 90
#define S       NS_PER_S
#define MS      NS_PER_MS

struct account {
        double tokens, balance_ns;
};

struct model_class {
        struct class_limits limits;
        uint32_t running, executing;
        struct account high, low;
        int64_t seen_ns; /* the accounts are those of then */
};

struct model_ticket {
        struct ticket t;
        bool is_asked; /* it waits, by the model */
        bool is_running, is_idle;
        int64_t started_ns;
};

struct world {
        struct rng dice;
        struct admission *a;
        struct door_policy *policy; /* the model's own reference */
        uint64_t n_samples;
        int64_t now_ns;
        uint32_t concurrency, running;
        bool is_floor_off;
        bool is_learned; /* something, all the time */
        bool is_settled; /* a turn was made since time passed */
        struct model_class classes[CLASSES];
        struct model_ticket tickets[TICKETS];
        uint64_t asked, run, refused, left, loaded;
};

static double burst_of(double rate)
{
        return fmax(1, ceil(rate / 10));
}

static void refill(struct model_class *m, int64_t now_ns)
{
        double seconds = (double)(now_ns - m->seen_ns) / S, budget = (double)m->limits.budget_ns;
        m->seen_ns = now_ns;
        if (m->limits.rate > 0) {
                double rate = (double)S / ceil((double)S / m->limits.rate); /* whole ns apart */
                double burst = burst_of(m->limits.rate);
                m->high.tokens = fmin(burst, m->high.tokens + m->limits.rate * seconds);
                m->low.tokens = fmin(burst, m->low.tokens + rate * seconds);
        }
        m->high.balance_ns = fmin(budget, m->high.balance_ns + budget * seconds);
        m->low.balance_ns = fmin(budget, m->low.balance_ns + budget * seconds);
}

static const struct class_verdicts *known(const struct world *w, size_t number)
{
        bool is = w->policy && number < w->policy->n && w->policy->classes[number].is_known;
        return is ? &w->policy->classes[number] : NULL;
}

static const struct check_verdict *verdict_of(const struct class_verdicts *v, double roll)
{
        if (roll < v->bound[0])
                return &v->verdict[0];
        return roll < v->bound[1] ? &v->verdict[1] : &v->verdict[2];
}

enum word { GOES, STOPPED, NEW };

/* How long a class that the core does not know waits for it. */
static int64_t new_wait_ns(int64_t wait_ns)
{
        int64_t least_ns = S / 10;
        return wait_ns < least_ns ? least_ns : wait_ns < S ? wait_ns : S;
}

static enum word word_of(const struct world *w, const struct ticket *t)
{
        const struct class_verdicts *v = known(w, t->class_number);
        int64_t wait_ns = w->classes[t->class_number].limits.wait_ns;

        if (!w->policy)
                return GOES;
        if (!v)
                return w->now_ns < t->asked_ns + new_wait_ns(wait_ns) ? NEW : GOES;
        const struct check_verdict *verdict = verdict_of(v, t->roll);
        if (verdict->is_granted)
                return GOES;
        return admission_ignores(verdict->reason) ? GOES : STOPPED;
}

static bool is_enforced(const struct world *w, size_t number)
{
        return w->classes[number].limits.mode == MODE_ENFORCE;
}

/* ---- load ---- */

static enum tier tier_of(const struct world *w, size_t number)
{
        const struct class_verdicts *v = known(w, number);
        return v ? v->tier : TIER_NORMAL;
}

static bool is_free_of_load(const struct world *w, size_t number)
{
        const struct class_verdicts *v = known(w, number);
        bool is_exempt = v && v->verdict[2].is_granted && v->verdict[2].reason == CHECK_EXEMPT;
        return !w->is_learned || is_exempt || tier_of(w, number) == TIER_CRITICAL;
}

static struct class_view view_of(const struct world *w, size_t number)
{
        struct class_view v;
        assert_true(admission_view(w->a, number, w->now_ns, &v));
        return v;
}

static uint32_t window(const struct world *w)
{
        struct admission_state st;
        admission_state(w->a, &st);
        return st.window;
}

/* The free places of a class, when the usual counts so many times. */
static uint32_t places_of(const struct world *w, size_t number, double usual, double boost)
{
        enum tier tier = tier_of(w, number);

        if (is_free_of_load(w, number))
                return UINT32_MAX;
        if (tier == TIER_DEFERRABLE || !(usual > 0))
                return 0;
        return (uint32_t)fmax(1, round(usual * boost)) * (tier == TIER_HIGH ? 2 : 1);
}

static uint32_t excess_of(const struct world *w, size_t number)
{
        uint32_t places = view_of(w, number).free, executing = w->classes[number].executing;
        return executing > places ? executing - places : 0;
}

/* Of enforced classes of the tiers from high to this one. */
static uint32_t excess_upto(const struct world *w, enum tier tier)
{
        uint32_t n = 0;
        for (size_t i = 0; i < CLASSES; i++) {
                bool counts = is_enforced(w, i) && tier_of(w, i) != TIER_CRITICAL;
                n += counts && tier_of(w, i) <= tier ? excess_of(w, i) : 0;
        }
        return n;
}

static uint32_t executing_in(const struct world *w, enum tier tier)
{
        uint32_t n = 0;
        for (size_t i = 0; i < CLASSES; i++) {
                bool counts = is_enforced(w, i) && !is_free_of_load(w, i);
                n += counts && tier_of(w, i) == tier ? w->classes[i].executing : 0;
        }
        return n;
}

/* Load keeps the next one of the class from starting. */
static bool is_loaded(const struct world *w, size_t number)
{
        enum tier tier = tier_of(w, number);

        if (is_free_of_load(w, number))
                return false;
        if (w->classes[number].executing < view_of(w, number).free)
                return false;
        if (excess_upto(w, tier) < window(w))
                return false;
        return executing_in(w, tier) > 0 || (tier == TIER_DEFERRABLE && w->is_floor_off);
}

/* ---- starts and waits ---- */

/* A ticket starts now, by whatever call. */
static void saw_start(struct world *w, struct model_ticket *mt)
{
        struct model_class *m = &w->classes[mt->t.class_number];

        assert_int_equal(mt->t.state, TICKET_RUNNING);
        refill(m, w->now_ns);
        if (is_enforced(w, mt->t.class_number)) {
                assert_int_equal(word_of(w, &mt->t), GOES);
                assert_true(!m->limits.concurrency || m->running < m->limits.concurrency);
                assert_true(!w->concurrency || w->running < w->concurrency);
                if (m->limits.rate > 0) {
                        assert_true(m->high.tokens > 1 - 1e-6);
                        m->high.tokens -= 1;
                        m->low.tokens -= 1;
                }
                assert_true(!m->limits.budget_ns || m->high.balance_ns > 0);
                assert_false(is_loaded(w, mt->t.class_number));
        }
        m->executing++;
        m->running++;
        w->running++;
        w->run++;
        mt->is_running = true;
        mt->started_ns = w->now_ns;
}

static void decided(void *ctx, struct ticket *t, const struct admit_answer *answer)
{
        struct world *w = ctx;
        struct model_ticket *mt = CONTAINER_OF(t, struct model_ticket, t);

        assert_true(mt->is_asked); /* once, and never after it left */
        mt->is_asked = false;
        assert_true(answer->verdict == ADMIT_RUN || answer->verdict == ADMIT_REFUSE);
        assert_true(answer->waited_ns == w->now_ns - t->asked_ns);
        if (answer->verdict == ADMIT_RUN) {
                saw_start(w, mt);
                return;
        }
        assert_int_equal(t->state, TICKET_NONE);
        assert_true(answer->reason != ADMIT_BY_NONE && answer->reason != ADMIT_BY_NEW);
        assert_true(answer->retry_ms > 0 && answer->why[0]);
        assert_true(w->now_ns >= t->deadline_ns);
        w->refused++;
}

/* The ticket waits; is there a reason for it? */
static void has_reason(struct world *w, const struct ticket *t)
{
        struct model_class *m = &w->classes[t->class_number];
        enum word word = word_of(w, t);

        refill(m, w->now_ns);
        assert_true(is_enforced(w, t->class_number));
        if (word == NEW) /* also beyond its own wait: the core decides about it first */
                return;
        assert_true(t->deadline_ns > w->now_ns);
        if (word == STOPPED)
                return;
        bool is_own = (m->limits.concurrency && m->running >= m->limits.concurrency) ||
                      (m->limits.rate > 0 && m->low.tokens < 1 + 1e-6) ||
                      (m->limits.budget_ns && m->low.balance_ns <= 1e3);
        bool is_door = w->concurrency && w->running >= w->concurrency;
        bool is_load = is_loaded(w, t->class_number);
        assert_true(is_own || is_door || is_load);
        w->loaded += !is_own && !is_door;
}

/* The usual of the class, as the law has it, is what the policy and the memory say. */
static void look_at_class(const struct world *w, size_t number, bool is_over)
{
        struct class_view v = view_of(w, number);
        const struct model_class *m = &w->classes[number];
        uint32_t least = places_of(w, number, v.usual, 1);

        assert_int_equal(v.running, m->running);
        assert_int_equal(v.executing, m->executing);
        assert_int_equal(v.excess, excess_of(w, number));
        assert_true(v.free >= least && v.free <= places_of(w, number, v.usual, 4));
        assert_true(is_over || v.free == least);
        assert_true((v.verdicts != NULL) == (known(w, number) != NULL));
}

static void look(struct world *w)
{
        struct admission_state st;
        uint32_t waiting = 0, executing = 0;

        if (w->is_settled) /* else tickets may be due for a turn */
                admission_check(w->a);
        admission_state(w->a, &st);
        for (size_t i = 0; i < CLASSES; i++) {
                look_at_class(w, i, st.is_over);
                executing += w->classes[i].executing;
        }
        for (size_t i = 0; i < TICKETS; i++)
                waiting += w->tickets[i].is_asked;
        assert_int_equal(st.waiting, waiting);
        assert_int_equal(st.running, w->running);
        assert_int_equal(st.executing, executing);
        assert_int_equal(st.excess, excess_upto(w, TIER_DEFERRABLE));
        assert_true(st.window >= 1);
        assert_true(st.is_learned == w->is_learned);
}

/* The owner's part: turns until the law has nothing to do at this time. */
static void settle(struct world *w)
{
        struct admission_state st;
        int64_t next_ns = w->now_ns;

        look(w);
        w->is_settled = true;
        for (int i = 0; next_ns <= w->now_ns; i++) {
                assert_true(i < 3);
                next_ns = admission_turn(w->a, w->now_ns);
                look(w);
        }
        admission_state(w->a, &st);
        for (size_t i = 0; i < TICKETS; i++) {
                if (w->tickets[i].is_asked)
                        has_reason(w, &w->tickets[i].t);
        }
        assert_true(st.waiting == 0 || next_ns < INT64_MAX);
}

static void ask(struct world *w, struct model_ticket *mt)
{
        struct admit_answer answer;
        size_t number = rng_below(&w->dice, CLASSES);

        admission_ask(w->a, &mt->t, number, w->now_ns, &answer);
        w->asked++;
        if (!is_enforced(w, number))
                assert_int_equal(answer.verdict, ADMIT_RUN);
        if (answer.verdict == ADMIT_RUN) {
                saw_start(w, mt);
        } else if (answer.verdict == ADMIT_WAIT) {
                assert_int_equal(mt->t.state, TICKET_WAITING);
                assert_true(answer.reason != ADMIT_BY_NONE);
                mt->is_asked = true;
                if (w->is_settled)
                        has_reason(w, &mt->t);
        } else {
                assert_true(w->classes[number].limits.wait_ns == 0);
                w->refused++;
        }
}

/* Ends a running one; its client may have gone. */
static void end(struct world *w, struct model_ticket *mt)
{
        struct model_class *m = &w->classes[mt->t.class_number];
        struct ticket_use use = {.statements = 1, .busy_ns = w->now_ns - mt->started_ns};

        refill(m, w->now_ns);
        m->running--;
        m->executing -= !mt->is_idle;
        w->running--;
        m->low.balance_ns -= (double)use.busy_ns;
        /* A look comes before the end, and others may start at it. */
        bool is_charged = w->is_settled;
        m->high.balance_ns -= is_charged ? (double)use.busy_ns : 0;
        mt->is_running = mt->is_idle = false;
        if (rng_below(&w->dice, 4))
                admission_end(w->a, &mt->t, &use, w->now_ns);
        else
                admission_leave(w->a, &mt->t, &use, w->now_ns);
        m->high.balance_ns -= is_charged ? 0 : (double)use.busy_ns;
        assert_int_equal(mt->t.state, TICKET_NONE);
}

/* A running one waits for its client, or goes on. */
static void change_idle(struct world *w, struct model_ticket *mt)
{
        struct model_class *m = &w->classes[mt->t.class_number];

        if (mt->is_idle) {
                admission_resume(w->a, &mt->t, w->now_ns);
                m->executing++;
        } else {
                m->executing--;
                admission_idle(w->a, &mt->t, w->now_ns);
        }
        mt->is_idle = !mt->is_idle;
        assert_true(mt->t.is_idle == mt->is_idle);
}

static void move_ticket(struct world *w)
{
        struct model_ticket *mt = &w->tickets[rng_below(&w->dice, TICKETS)];

        if (mt->is_running && rng_below(&w->dice, 3) == 0) {
                change_idle(w, mt);
        } else if (mt->is_running) {
                end(w, mt);
        } else if (!mt->is_asked) {
                ask(w, mt);
        } else if (rng_below(&w->dice, 10) == 0) {
                mt->is_asked = false;
                w->left++;
                admission_leave(w->a, &mt->t, NULL, w->now_ns);
                assert_int_equal(mt->t.state, TICKET_NONE);
        }
}

static void change_limits(struct world *w)
{
        static const double rates[] = {0, 0, 0, 0.5, 3, 40, 333};
        static const int64_t budgets[] = {0, 0, 0, 5 * MS, 300 * MS, 4 * S};
        static const int64_t waits[] = {0, 7 * MS, 300 * MS, 2 * S, 2 * S};
        size_t number = rng_below(&w->dice, CLASSES);
        struct model_class *m = &w->classes[number];

        refill(m, w->now_ns);
        m->limits = (struct class_limits){
                .mode = rng_below(&w->dice, 6) ? MODE_ENFORCE
                                               : (enum gate_mode)rng_below(&w->dice, MODES),
                .wait_ns = waits[rng_below(&w->dice, ARRAY_LEN(waits))],
                .concurrency = rng_below(&w->dice, 2) ? 0 : 1 + (uint32_t)rng_below(&w->dice, 8),
                .rate = rates[rng_below(&w->dice, ARRAY_LEN(rates))],
                .budget_ns = budgets[rng_below(&w->dice, ARRAY_LEN(budgets))],
        };
        m->high.tokens = burst_of(m->limits.rate);
        m->high.balance_ns = (double)m->limits.budget_ns;
        m->low.tokens = fmin(m->low.tokens, 0);
        m->low.balance_ns = fmin(m->low.balance_ns, 0);
        admission_set_class(w->a, number, &m->limits, w->now_ns);
}

static struct check_verdict any_verdict(struct world *w)
{
        struct check_verdict v = {.is_granted = rng_below(&w->dice, 3) > 0};
        if (v.is_granted) {
                v.reason = (enum check_reason)rng_below(&w->dice, CHECK_EXEMPT);
                v.would_refuse = rng_below(&w->dice, 4) == 0;
                v.would_reason = CHECK_PAUSED +
                                 (enum check_reason)rng_below(&w->dice, CHECK_LIMIT - CHECK_PAUSED);
        } else {
                v.reason = CHECK_PAUSED +
                           (enum check_reason)rng_below(&w->dice, CHECK_LIMIT - CHECK_PAUSED);
        }
        return v;
}

static void any_class(struct world *w, struct class_verdicts *v)
{
        double share = rng_unit(&w->dice);
        uint64_t kind = rng_below(&w->dice, 4);

        v->is_known = rng_below(&w->dice, 12) > 0;
        v->tier = (enum tier)rng_below(&w->dice, TIERS);
        v->bound[0] = rng_below(&w->dice, 2) ? 0 : share;
        v->bound[1] = rng_below(&w->dice, 2) ? v->bound[0] : 1;
        v->retry_ms = (uint32_t)rng_below(&w->dice, 3) * 100;
        for (int k = 0; k < 3; k++) {
                v->verdict[k].is_granted = true;
                if (kind == 0)
                        v->verdict[k] = any_verdict(w);
                else if (kind == 1 && share < 0.3) /* the whole class, or none of it */
                        v->verdict[k].reason = CHECK_EXEMPT;
        }
}

static void publish(struct world *w)
{
        size_t n = CLASSES - (rng_below(&w->dice, 5) == 0 ? rng_below(&w->dice, CLASSES) : 0);
        struct door_policy *p = door_policy_new(n);

        p->n_samples = w->n_samples += rng_below(&w->dice, 4) > 0;
        p->running = rng_below(&w->dice, 6) ? (double)rng_below(&w->dice, 100) : NAN;
        p->running_most = rng_below(&w->dice, 6) ? 10 + 60 * rng_unit(&w->dice) : NAN;
        p->is_harmed = rng_below(&w->dice, 6) == 0;
        for (size_t i = 0; i < n; i++)
                any_class(w, &p->classes[i]);
        if (n) /* class 0 is what was learned, whatever else changes */
                p->classes[0].tier = TIER_NORMAL;
        door_policy_unref(w->policy);
        w->policy = door_policy_ref(p);
        admission_publish(w->a, p, w->now_ns);
}

/* Another usual of a class, as after a restart.  The next call looks at it. */
static void remember(struct world *w, size_t number)
{
        struct usual_memory m = {
                .ends = 1000 * 1000,
                .seconds = 7 * 86400,
                .executing = 1 + 6 * rng_unit(&w->dice),
                .log_time = log((double)(1 + rng_below(&w->dice, 50)) * MS),
                .n_hours = USUAL_HOURS,
        };
        memset(m.hours, (int)usual_bucket(m.executing), sizeof(m.hours));
        assert_true(admission_remember(w->a, number, &m));
        publish(w);
}

static void pass_time(struct world *w, int64_t most_ns)
{
        w->now_ns += (int64_t)rng_below(&w->dice, (uint64_t)most_ns);
        w->is_settled = false;
}

static void set_door(struct world *w)
{
        w->concurrency = rng_below(&w->dice, 2) ? 0 : 9 + (uint32_t)rng_below(&w->dice, 20);
        w->is_floor_off = rng_below(&w->dice, 2);
        admission_set_door(w->a, w->concurrency, w->is_floor_off, w->now_ns);
}

static void step(struct world *w)
{
        uint64_t what = rng_below(&w->dice, 1000);

        if (what < 300)
                pass_time(w, 20 * MS);
        else if (what < 303)
                pass_time(w, 3 * S);
        else if (what < 330)
                publish(w);
        else if (what < 340)
                change_limits(w);
        else if (what < 343)
                set_door(w);
        else if (what < 348 && w->is_learned)
                remember(w, rng_below(&w->dice, CLASSES));
        else
                move_ticket(w);
}

static void play(uint64_t seed)
{
        static struct world w;
        uint32_t waiting = 0;

        memset(&w, 0, sizeof(w));
        rng_init_seed(&w.dice, seed);
        w.now_ns = (int64_t)rng_below(&w.dice, 1000 * S);
        w.a = admission_new(seed, decided, &w);
        for (size_t i = 0; i < CLASSES; i++) {
                w.classes[i].seen_ns = w.now_ns;
                w.classes[i].limits = (struct class_limits){.mode = MODE_ENFORCE, .wait_ns = S};
                admission_set_class(w.a, i, &w.classes[i].limits, w.now_ns);
        }
        publish(&w);
        w.is_learned = seed % 4 != 0;
        if (w.is_learned)
                remember(&w, 0);
        for (int i = 0; i < 4000; i++) {
                step(&w);
                if (w.is_settled || rng_below(&w.dice, 4)) /* else other calls come first */
                        settle(&w);
                else
                        look(&w);
        }
        for (size_t i = 0; i < TICKETS; i++)
                waiting += w.tickets[i].is_asked;
        assert_int_equal(w.asked, w.run + w.refused + w.left + waiting);
        assert_true(w.run > 100 && w.refused > 0);
        assert_true((w.loaded > 100) == w.is_learned); /* nothing learned: nothing held for it */
        w.policy = door_policy_unref(w.policy);
        w.a = admission_free(w.a);
}

static void any_history_keeps_the_limits_and_wastes_no_place(void **state)
{
        (void)state;
        dice_play(10, play);
}

/* ---- shares ---- */

#define CROWD 240

struct crowd {
        struct ticket tickets[CROWD];
        struct ticket *next[CROWD]; /* running ones, in the order of their starts */
        int begin, end;
};

static void crowd_decided(void *ctx, struct ticket *t, const struct admit_answer *answer)
{
        struct crowd *c = ctx;
        assert_int_equal(answer->verdict, ADMIT_RUN);
        c->next[c->end++ % CROWD] = t;
}

/* Classes of any tiers and costs of which many always wait, at a door of any width: each gets a
 * share of the database's time by its weight. */
static void share(uint64_t seed)
{
        static struct crowd crowd;
        struct rng dice;
        int64_t cost_ns[6], now_ns = S;
        double weights = 0, all_ns = 0;

        memset(&crowd, 0, sizeof(crowd));
        rng_init_seed(&dice, seed);
        struct admission *a = admission_new(seed, crowd_decided, &crowd);
        size_t n = 2 + rng_below(&dice, 5);
        struct door_policy *p = door_policy_new(n);
        ASSERT(n > 0); /* the analyzer takes the sum for any number */
        for (size_t i = 0; i < n; i++) {
                struct class_limits limits = {.mode = MODE_ENFORCE, .wait_ns = 3600 * S};
                admission_set_class(a, i, &limits, now_ns);
                p->classes[i].is_known = true;
                p->classes[i].tier = (enum tier)rng_below(&dice, TIERS);
                p->classes[i].verdict[2].is_granted = true;
                cost_ns[i] = (int64_t)(1 + rng_below(&dice, 20)) * MS / 2;
                weights += 8 >> p->classes[i].tier;
        }
        admission_publish(a, door_policy_ref(p), now_ns);
        admission_set_door(a, 1 + (uint32_t)rng_below(&dice, 6), false, now_ns);
        for (size_t i = 0; i < CROWD; i++) {
                struct admit_answer answer;
                admission_ask(a, &crowd.tickets[i], i % n, now_ns, &answer);
                if (answer.verdict == ADMIT_RUN)
                        crowd.next[crowd.end++ % CROWD] = &crowd.tickets[i];
        }
        for (int i = 0; i < 20000; i++) {
                struct ticket *t = crowd.next[crowd.begin++ % CROWD];
                struct ticket_use use = {.busy_ns = cost_ns[t->class_number]};
                struct admit_answer answer;
                now_ns += MS;
                admission_end(a, t, &use, now_ns);
                admission_ask(a, t, t->class_number, now_ns, &answer);
                assert_int_equal(answer.verdict, ADMIT_WAIT);
                all_ns += (double)use.busy_ns;
        }
        for (size_t i = 0; i < n; i++) {
                struct class_view v;
                assert_true(admission_view(a, i, now_ns, &v));
                double want_ns = (8 >> p->classes[i].tier) * all_ns;
                double got_ns = (double)v.counts->busy_ns * weights;
                if (fabs(got_ns - want_ns) > 0.05 * want_ns)
                        fail_msg("class %zu of %zu: %g for %g", i, n, got_ns, want_ns);
        }
        admission_check(a);
        door_policy_unref(p);
        admission_free(a);
}

static void classes_that_always_wait_share_the_time_by_weight(void **state)
{
        (void)state;
        dice_play(6, share);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(any_history_keeps_the_limits_and_wastes_no_place),
                cmocka_unit_test(classes_that_always_wait_share_the_time_by_weight),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
