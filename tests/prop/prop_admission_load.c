/* The law of load: eight invariants that hold in any history, in virtual time.  Their numbers are
 * those of the reference; each is a check with its number.
 *
 *      1, 2, 4, 7, 8   random transactions, samples and memories, looked at after every call
 *      3               the same trace twice, with and without what must delay nothing
 *      5, 6            a window that is used up, and one sample of any value
 *
 * No class has limits of its own here, so whatever waits, waits for load.  With limits and
 * policies: prop_admission.c. */
#include "../unit/check.h"

#include <math.h>

#include "dice.h"
#include "gate/admission.h"

#define S  NS_PER_S
#define MS NS_PER_MS

static struct usual_memory week_of(double executing, int64_t time_ns)
{
        struct usual_memory m = {
                .ends = 1000 * 1000,
                .seconds = 7 * 86400,
                .executing = executing,
                .log_time = log((double)time_ns),
                .n_hours = USUAL_HOURS,
        };
        memset(m.hours, (int)usual_bucket(executing), sizeof(m.hours));
        return m;
}

static struct door_policy *policy_of(const enum tier *tiers, size_t n)
{
        struct door_policy *p = door_policy_new(n);

        p->running = p->running_most = NAN;
        for (size_t i = 0; i < n; i++) {
                p->classes[i].is_known = true;
                p->classes[i].tier = tiers[i];
                for (int k = 0; k < 3; k++)
                        p->classes[i].verdict[k].is_granted = true;
        }
        return p;
}

static uint32_t window(const struct admission *a)
{
        struct admission_state st;
        admission_state(a, &st);
        return st.window;
}

/* ---- any history: 1, 2, 4, 7, 8, and no step of the window but those of the law ---- */

/* Two of each tier: the first is learned (sooner or later), the other never.  The last one only
 * observes. */
static const enum tier tiers[] = {TIER_CRITICAL,   TIER_CRITICAL,   TIER_HIGH,
                                  TIER_HIGH,       TIER_NORMAL,     TIER_NORMAL,
                                  TIER_DEFERRABLE, TIER_DEFERRABLE, TIER_NORMAL};
#define CLASSES  ARRAY_LEN(tiers)
#define OBSERVED (CLASSES - 1)
#define TICKETS  100
#define DIGESTS  4

struct load_class {
        uint32_t executing, strays;
        double usual; /* by the memory; 0: none */
};

struct load_ticket {
        struct ticket t;
        bool is_waiting, is_running, is_idle;
        bool went_on; /* after it was idle */
        /* Since it executes: the widest window, and the most free places of its class. */
        uint32_t widest, places;
};

struct world {
        struct rng dice;
        struct admission *a;
        int64_t now_ns;
        uint64_t n_samples;
        bool is_learned, has_digests, is_floor_off, is_harmed, is_slow;
        struct load_class classes[CLASSES];
        struct load_ticket tickets[TICKETS];
        uint32_t width, excess; /* before the last call */
        int64_t grown_ns;
        uint64_t waited, refused, strays, over, cuts;
};

static bool is_enforced(size_t number)
{
        return number != OBSERVED;
}

/* So many of the class never wait for load, if its usual counts so many times. */
static uint32_t places_of(const struct world *w, size_t number, double boost)
{
        enum tier tier = tiers[number];

        if (!w->is_learned || tier == TIER_CRITICAL)
                return UINT32_MAX;
        if (tier == TIER_DEFERRABLE || !(w->classes[number].usual > 0))
                return 0;
        return (uint32_t)fmax(1, round(w->classes[number].usual * boost)) *
               (tier == TIER_HIGH ? 2 : 1);
}

static uint32_t executing_in(const struct world *w, enum tier tier)
{
        uint32_t n = 0;
        for (size_t i = 0; i < CLASSES; i++)
                n += is_enforced(i) && tiers[i] == tier ? w->classes[i].executing : 0;
        return n;
}

/* 1: critical, and a class of high or normal below its usual, is never held for load. */
static void check_usual_is_not_held(const struct world *w, const struct load_ticket *lt)
{
        const struct load_class *c = &w->classes[lt->t.class_number];

        assert_int_not_equal(tiers[lt->t.class_number], TIER_CRITICAL);
        if (!lt->t.is_stray)
                assert_true(c->executing - c->strays >= places_of(w, lt->t.class_number, 1));
}

/* 2: after any call no tier has tickets waiting for load and none executing. */
static void check_no_tier_stands_still(const struct world *w, const struct load_ticket *lt)
{
        enum tier tier = tiers[lt->t.class_number];

        if (tier != TIER_DEFERRABLE || !w->is_floor_off)
                assert_true(executing_in(w, tier) > 0);
}

/* The free places of the class now. */
static uint32_t places_now(const struct world *w, size_t number)
{
        struct class_view v;

        assert_true(admission_view(w->a, number, w->now_ns, &v));
        assert_int_equal(v.executing, w->classes[number].executing);
        assert_true(v.free >= places_of(w, number, 1) && v.free <= places_of(w, number, 4));
        return v.free;
}

/* 4: of each tier but the critical one, executing <= sum of usuals (high x2, outside x4) + largest
 * window since they started + 1, without idle ones that go on.  The sum over the tiers is no
 * tighter bound, because the excess of a tier does not count for a more important one. */
static void check_no_more_than_it_may(struct world *w, uint32_t width)
{
        uint32_t executing[TIERS] = {0}, widest[TIERS] = {0}, places[CLASSES] = {0};
        uint64_t all_places[TIERS] = {0};

        for (size_t i = 0; i < TICKETS; i++) {
                struct load_ticket *lt = &w->tickets[i];
                size_t number = lt->t.class_number;
                enum tier tier = tiers[number];
                if (!lt->is_running || lt->is_idle || lt->went_on || !is_enforced(number))
                        continue;
                uint32_t now = places_now(w, number);
                lt->widest = lt->widest > width ? lt->widest : width;
                lt->places = lt->places > now ? lt->places : now;
                places[number] = places[number] > lt->places ? places[number] : lt->places;
                widest[tier] = widest[tier] > lt->widest ? widest[tier] : lt->widest;
                executing[tier]++;
        }
        for (size_t i = 0; i < CLASSES; i++)
                all_places[tiers[i]] += places[i];
        for (int tier = TIER_HIGH; tier < TIERS && w->is_learned; tier++)
                assert_true(executing[tier] <= all_places[tier] + widest[tier] + 1);
}

/* 8: nothing learned: nothing held. */
static void check_nothing_is_held(const struct world *w, const struct admit_answer *answer)
{
        if (!w->is_learned)
                assert_true(answer->verdict == ADMIT_RUN && !answer->would_wait);
}

/* The window is never cut to less than half of what is in it (5), nor below 1; it grows by half at
 * most, and not twice a second (6), or is as at the beginning. */
static void check_steps_of_the_window(struct world *w, const struct admission_state *st)
{
        uint32_t most = w->excess < st->excess ? w->excess : st->excess;

        most = most > 0 ? most - 1 : 0; /* one may have ended before the cut, within the call */
        if (most > w->width)
                most = w->width;
        assert_true(st->window >= 1 && st->window >= (st->window == 4 ? 1 : most / 2));
        if (st->window < w->width)
                w->cuts++;
        if (st->window > w->width && st->window != 4) {
                assert_true(st->window <= (w->width + 1) * 3 / 2);
                assert_true(w->now_ns - w->grown_ns >= S);
                w->grown_ns = w->now_ns;
        }
        w->width = st->window;
        w->excess = st->excess;
}

static void check_all(struct world *w)
{
        struct admission_state st;

        admission_check(w->a);
        admission_state(w->a, &st);
        assert_true(st.is_learned == w->is_learned);
        w->over += st.is_over;
        check_steps_of_the_window(w, &st);
        check_no_more_than_it_may(w, st.window);
        for (size_t i = 0; i < TICKETS; i++) {
                if (!w->tickets[i].is_waiting)
                        continue;
                check_usual_is_not_held(w, &w->tickets[i]);
                check_no_tier_stands_still(w, &w->tickets[i]);
        }
}

static void executes_now(struct world *w, struct load_ticket *lt)
{
        struct load_class *c = &w->classes[lt->t.class_number];
        c->executing++;
        c->strays += lt->t.is_stray;
        lt->is_idle = false;
        lt->widest = 0;
        lt->places = 0;
}

static void rests_now(struct world *w, struct load_ticket *lt)
{
        struct load_class *c = &w->classes[lt->t.class_number];
        c->executing--;
        c->strays -= lt->t.is_stray;
        lt->is_idle = true;
}

static void saw_start(struct world *w, struct load_ticket *lt)
{
        lt->is_running = true;
        lt->went_on = false;
        executes_now(w, lt);
}

static void decided(void *ctx, struct ticket *t, const struct admit_answer *answer)
{
        struct world *w = ctx;
        struct load_ticket *lt = CONTAINER_OF(t, struct load_ticket, t);

        assert_true(lt->is_waiting);
        lt->is_waiting = false;
        if (answer->verdict == ADMIT_RUN) {
                saw_start(w, lt);
                return;
        }
        /* 7: refused for load only at the deadline. */
        assert_int_equal(answer->reason, ADMIT_BY_LOAD);
        assert_true(w->now_ns >= t->deadline_ns);
        w->refused++;
}

static void ask_one(struct world *w, struct load_ticket *lt)
{
        struct admit_answer answer;
        size_t number = rng_below(&w->dice, CLASSES);

        lt->t.digest = w->has_digests ? rng_below(&w->dice, DIGESTS) : 0;
        admission_ask(w->a, &lt->t, number, w->now_ns, &answer);
        w->strays += lt->t.is_stray;
        assert_true(w->has_digests || !lt->t.is_stray);
        check_nothing_is_held(w, &answer);
        if (answer.verdict == ADMIT_RUN) {
                saw_start(w, lt);
        } else if (answer.verdict == ADMIT_WAIT) {
                assert_int_equal(answer.reason, ADMIT_BY_LOAD);
                assert_true(is_enforced(number));
                lt->is_waiting = true;
                w->waited++;
        } else {
                assert_int_equal(answer.reason, ADMIT_BY_LOAD);
                assert_true(lt->t.deadline_ns == w->now_ns);
                check_usual_is_not_held(w, lt);
                w->refused++;
        }
}

static void change_idle(struct world *w, struct load_ticket *lt)
{
        if (lt->is_idle) {
                admission_resume(w->a, &lt->t, w->now_ns);
                executes_now(w, lt);
                lt->went_on = true;
        } else {
                rests_now(w, lt);
                admission_idle(w->a, &lt->t, w->now_ns);
        }
}

/* The last digest takes 40 times as long, so it strays. */
static void end_one(struct world *w, struct load_ticket *lt)
{
        struct ticket_use use = {.busy_ns = (5 + (int64_t)rng_below(&w->dice, 10)) * MS};

        use.busy_ns *= (w->is_slow ? 5 : 1) * (lt->t.digest == DIGESTS - 1 ? 40 : 1);
        if (!lt->is_idle)
                rests_now(w, lt);
        lt->is_running = lt->is_idle = false;
        admission_end(w->a, &lt->t, &use, w->now_ns);
}

static void move_one(struct world *w)
{
        struct load_ticket *lt = &w->tickets[rng_below(&w->dice, TICKETS)];

        if (lt->is_running && rng_below(&w->dice, 4) == 0) {
                change_idle(w, lt);
        } else if (lt->is_running) {
                end_one(w, lt);
        } else if (!lt->is_waiting) {
                ask_one(w, lt);
        } else if (rng_below(&w->dice, 20) == 0) {
                lt->is_waiting = false;
                admission_leave(w->a, &lt->t, NULL, w->now_ns);
        }
}

/* Calm, slow and harmed times follow each other; the sample may be anything. */
static void publish(struct world *w)
{
        static const double values[] = {NAN, 0, 3, 30, 80, 300, 1e300, -5};
        struct door_policy *p = policy_of(tiers, CLASSES);

        if (rng_below(&w->dice, 20) == 0)
                w->is_slow = !w->is_slow;
        if (rng_below(&w->dice, 20) == 0)
                w->is_harmed = rng_below(&w->dice, 3) == 0;
        p->n_samples = ++w->n_samples;
        p->running = values[rng_below(&w->dice, ARRAY_LEN(values))];
        p->running_most = 50;
        p->is_harmed = w->is_harmed;
        admission_publish(w->a, p, w->now_ns);
}

/* Of classes with an even number; another call looks at it. */
static void remember(struct world *w, size_t number)
{
        struct usual_memory m = week_of(1 + 5 * rng_unit(&w->dice), 10 * MS);

        w->classes[number].usual = m.executing;
        assert_true(admission_remember(w->a, number, &m));
        publish(w);
}

static void step(struct world *w)
{
        uint64_t what = rng_below(&w->dice, 1000);

        if (what < 250)
                w->now_ns += (int64_t)rng_below(&w->dice, 30 * MS);
        else if (what < 252)
                w->now_ns += (int64_t)rng_below(&w->dice, 15 * S);
        else if (what < 280)
                publish(w);
        else if (what < 284 && w->is_learned)
                remember(w, 2 * rng_below(&w->dice, (CLASSES + 1) / 2));
        else if (what < 286)
                admission_set_door(w->a, 0, w->is_floor_off = rng_below(&w->dice, 2), w->now_ns);
        else
                move_one(w);
}

static void begin_world(struct world *w, uint64_t seed)
{
        memset(w, 0, sizeof(*w));
        rng_init_seed(&w->dice, seed);
        w->now_ns = (1 + (int64_t)rng_below(&w->dice, 1000)) * S;
        w->a = admission_new(seed, decided, w);
        for (size_t i = 0; i < CLASSES; i++) {
                static const int64_t waits_ns[] = {0, 300 * MS, 2 * S, 1000 * S};
                struct class_limits limits = {
                        .mode = is_enforced(i) ? MODE_ENFORCE : MODE_OBSERVE,
                        .wait_ns = waits_ns[rng_below(&w->dice, ARRAY_LEN(waits_ns))],
                };
                admission_set_class(w->a, i, &limits, w->now_ns);
        }
        publish(w);
        w->width = window(w->a);
        w->grown_ns = w->now_ns - S;
        w->is_learned = seed % 4 != 0;
        w->has_digests = seed % 4 == 1;
        for (size_t i = 0; i < CLASSES && w->is_learned; i += 2)
                remember(w, i);
}

static uint64_t n_over, n_cuts, n_refused, n_strays; /* of all plays */

static void play_history(uint64_t seed)
{
        static struct world w;

        begin_world(&w, seed);
        for (int i = 0; i < 4000; i++) {
                step(&w);
                check_all(&w);
                (void)admission_turn(w.a, w.now_ns);
                check_all(&w);
        }
        assert_true((w.waited > 50) == w.is_learned);
        assert_true(w.strays == 0 || w.has_digests);
        n_strays += w.strays;
        n_over += w.over;
        n_cuts += w.cuts;
        n_refused += w.refused;
        w.a = admission_free(w.a);
}

static void usual_work_goes_and_nothing_stands_still_in_any_history(void **state)
{
        (void)state;
        dice_play(12, play_history);
        if (n_over < 1000 || n_cuts < 20 || n_refused < 1000 || n_strays < 50)
                fail_msg("too little happened: over %llu, cuts %llu, refused %llu, strays %llu",
                         (unsigned long long)n_over, (unsigned long long)n_cuts,
                         (unsigned long long)n_refused, (unsigned long long)n_strays);
}

/* ---- 3: what is less important, or idle, delays nothing ---- */

/* One class is watched, high or normal.  Those after it come only in the second run, those before
 * it never exceed their usual: between several that wait the order is a question of shares, and one
 * that goes earlier may well end where another one would have begun. */
enum { CRIT, HIGH, NORMAL, DEFER_USUAL, DEFER_NEW, IDLE, TRACED };
static const enum tier traced_tiers[TRACED] = {TIER_CRITICAL,   TIER_HIGH,       TIER_NORMAL,
                                               TIER_DEFERRABLE, TIER_DEFERRABLE, TIER_NORMAL};
/* Fixed; those of the learned classes are their usual time. */
static const int64_t traced_ns[TRACED] = {20 * MS, 40 * MS, 90 * MS, 110 * MS, 900 * MS, 5 * S};
#define ARRIVALS 600
#define BURST    40 /* of them come at once, about */
#define LENGTH   (20 * S)
#define STEP     (10 * MS)
#define STEPS    (10 * LENGTH / STEP)

struct arrival {
        struct ticket t;
        int64_t at_ns, ends_ns; /* INT64_MAX: it does not run */
        int64_t started_ns;     /* INT64_MAX: not yet */
        size_t number;
};

struct trace {
        struct admission *a;
        int64_t now_ns;
        struct arrival arrivals[ARRIVALS]; /* in the order of their times */
        bool is_harmed[LENGTH / (250 * MS) + 1];
        bool is_with_all;
        size_t watched;
        uint32_t width[2][STEPS]; /* of the window, [is_with_all] */
};

static void begins(struct trace *tr, struct arrival *arrival)
{
        arrival->started_ns = tr->now_ns;
        arrival->ends_ns = tr->now_ns + traced_ns[arrival->number];
}

static void trace_decided(void *ctx, struct ticket *t, const struct admit_answer *answer)
{
        assert_int_equal(answer->verdict, ADMIT_RUN);
        begins(ctx, CONTAINER_OF(t, struct arrival, t));
}

/* An idle one takes no time at the server at all: it opens its transaction and waits. */
static void arrive(struct trace *tr, struct arrival *arrival)
{
        struct admit_answer answer;

        if (arrival->number > tr->watched && !tr->is_with_all)
                return;
        admission_ask(tr->a, &arrival->t, arrival->number, tr->now_ns, &answer);
        if (answer.verdict == ADMIT_RUN)
                begins(tr, arrival);
        if (arrival->number != IDLE)
                return;
        if (answer.verdict == ADMIT_RUN)
                admission_idle(tr->a, &arrival->t, tr->now_ns);
        else
                admission_leave(tr->a, &arrival->t, NULL, tr->now_ns);
}

static void end_those_due(struct trace *tr)
{
        for (size_t i = 0; i < ARRIVALS; i++) {
                struct arrival *arrival = &tr->arrivals[i];
                if (arrival->ends_ns > tr->now_ns)
                        continue;
                struct ticket_use use = {
                        .busy_ns = arrival->number == IDLE ? 0 : traced_ns[arrival->number]};
                arrival->ends_ns = INT64_MAX;
                admission_end(tr->a, &arrival->t, &use, tr->now_ns);
        }
}

static void publish_trace(struct trace *tr)
{
        struct door_policy *p = policy_of(traced_tiers, TRACED);
        p->n_samples = 1 + (uint64_t)(tr->now_ns / (250 * MS));
        p->is_harmed = tr->now_ns < LENGTH && tr->is_harmed[tr->now_ns / (250 * MS)];
        admission_publish(tr->a, p, tr->now_ns);
}

/* In steps, so that both runs look at the same times. */
static void run_trace(struct trace *tr, bool is_with_all)
{
        size_t next = 0;

        tr->is_with_all = is_with_all;
        tr->now_ns = 0;
        tr->a = admission_new(1, trace_decided, tr);
        for (size_t i = 0; i < TRACED; i++) {
                struct class_limits limits = {.mode = MODE_ENFORCE, .wait_ns = 3600 * S};
                admission_set_class(tr->a, i, &limits, 0);
        }
        for (size_t i = 0; i < TRACED; i++) {
                struct usual_memory m = week_of(i < tr->watched ? 50 : 2, traced_ns[i]);
                if (i <= DEFER_USUAL)
                        assert_true(admission_remember(tr->a, i, &m));
        }
        for (size_t i = 0; i < ARRIVALS; i++)
                tr->arrivals[i].started_ns = tr->arrivals[i].ends_ns = INT64_MAX;
        for (int i = 0; i < STEPS; i++, tr->now_ns = i * STEP) {
                struct admission_state st;
                if (tr->now_ns % (250 * MS) == 0)
                        publish_trace(tr);
                end_those_due(tr);
                for (; next < ARRIVALS && tr->arrivals[next].at_ns <= tr->now_ns; next++)
                        arrive(tr, &tr->arrivals[next]);
                (void)admission_turn(tr->a, tr->now_ns);
                admission_check(tr->a);
                admission_state(tr->a, &st);
                tr->width[is_with_all][i] = st.window;
                if (next == ARRIVALS && st.running == 0 && st.waiting == 0)
                        break;
        }
        tr->a = admission_free(tr->a);
}

static void make_trace(struct trace *tr, uint64_t seed)
{
        struct rng dice;
        int64_t at_ns = 0;
        bool is_harmed = false;

        rng_init_seed(&dice, seed);
        tr->watched = seed % 2 ? HIGH : NORMAL;
        for (size_t i = 0; i < ARRIVALS; i++) {
                if (rng_below(&dice, BURST) == 0)
                        at_ns += (int64_t)rng_below(&dice, 2 * LENGTH * BURST / ARRIVALS);
                tr->arrivals[i].at_ns = at_ns;
                tr->arrivals[i].number = rng_below(&dice, TRACED);
        }
        for (size_t i = 0; i < ARRAY_LEN(tr->is_harmed); i++) {
                if (rng_below(&dice, 10) == 0)
                        is_harmed = rng_below(&dice, 2) && seed / 2 % 2;
                tr->is_harmed[i] = is_harmed;
        }
}

/* When the window was first narrower than it was alone.  Less important work uses it up, so it
 * grows more, and then "unused" and "drained" are other times than alone. */
static int64_t narrower_ns(const struct trace *tr)
{
        int i = 0;
        while (i < STEPS && tr->width[true][i] >= tr->width[false][i])
                i++;
        return i * STEP;
}

static uint64_t n_compared;

static void play_twice(uint64_t seed)
{
        static struct trace tr;
        static int64_t alone_ns[ARRIVALS];

        memset(&tr, 0, sizeof(tr));
        make_trace(&tr, seed);
        run_trace(&tr, false);
        for (size_t i = 0; i < ARRIVALS; i++)
                alone_ns[i] = tr.arrivals[i].started_ns;
        run_trace(&tr, true);
        int64_t until_ns = narrower_ns(&tr);
        for (size_t i = 0; i < ARRIVALS; i++) {
                const struct arrival *arrival = &tr.arrivals[i];
                if (arrival->number > tr.watched || alone_ns[i] >= until_ns)
                        continue;
                if (arrival->started_ns > alone_ns[i])
                        fail_msg("arrival %zu, class %zu, at %.3f s: %.3f s, alone %.3f s", i,
                                 arrival->number, (double)arrival->at_ns / S,
                                 (double)arrival->started_ns / S, (double)alone_ns[i] / S);
                n_compared += alone_ns[i] > arrival->at_ns + STEP; /* that waited */
        }
}

/* 3: adding less important or idle transactions to a trace never delays a more important one. */
static void less_important_work_delays_nothing(void **state)
{
        (void)state;
        dice_play(20, play_twice);
        assert_true(n_compared > 100);
}

/* ---- 5 and 6: one sample of any value, and the growth of a window that is used up ---- */

/* What the window is for: long transactions of the normal or the deferrable tier, of which many
 * wait, beside usual work that is below its usual all the time. */
enum { WORK, LONG, SAMPLED };
#define LONGS 1000
#define WORKS 4

struct used_up {
        struct rng dice;
        struct admission *a;
        int64_t now_ns;
        uint64_t n_samples;
        double running;
        bool is_harmed, is_busy, is_normal;
        struct ticket works[WORKS], longs[LONGS];
        int n_asked;    /* of longs */
        uint32_t width; /* before the last 10 ms, */
        uint32_t excess;
};

static void long_decided(void *ctx, struct ticket *t, const struct admit_answer *answer)
{
        struct used_up *u = ctx;
        assert_true(t >= u->longs && t < u->longs + LONGS); /* 5: usual work never waits */
        assert_int_equal(answer->verdict, ADMIT_RUN);
}

static void publish_used_up(struct used_up *u, bool is_sample)
{
        const enum tier used_tiers[SAMPLED] = {TIER_NORMAL,
                                               u->is_normal ? TIER_NORMAL : TIER_DEFERRABLE};
        struct door_policy *p = policy_of(used_tiers, SAMPLED);

        p->n_samples = u->n_samples += is_sample;
        p->running = u->running;
        p->running_most = 1000;
        p->is_harmed = u->is_harmed;
        admission_publish(u->a, p, u->now_ns);
}

/* 5: usual work is not delayed, whatever was sampled. */
static void do_usual_work(struct used_up *u)
{
        const struct ticket_use use = {.busy_ns = 10 * MS};
        struct admit_answer answer;

        for (size_t i = 0; i < WORKS; i++) {
                if (u->works[i].state == TICKET_RUNNING)
                        admission_end(u->a, &u->works[i], &use, u->now_ns);
                if (!u->is_busy && rng_below(&u->dice, 100))
                        continue;
                admission_ask(u->a, &u->works[i], WORK, u->now_ns, &answer);
                assert_int_equal(answer.verdict, ADMIT_RUN);
        }
}

/* 10 ms; a few of the long ones may end, and always some wait. */
static void pass_used_up(struct used_up *u)
{
        struct admission_state st;
        struct admit_answer answer;

        admission_state(u->a, &st);
        u->width = st.window;
        u->excess = st.excess;
        u->now_ns += 10 * MS;
        (void)admission_turn(u->a, u->now_ns);
        do_usual_work(u);
        struct ticket *t = &u->longs[rng_below(&u->dice, LONGS)];
        if (t->state == TICKET_RUNNING)
                admission_end(u->a, t, NULL, u->now_ns);
        for (admission_state(u->a, &st); st.waiting < 40; admission_state(u->a, &st)) {
                assert_true(u->n_asked < LONGS);
                admission_ask(u->a, &u->longs[u->n_asked++], LONG, u->now_ns, &answer);
        }
        (void)admission_turn(u->a, u->now_ns);
        admission_check(u->a);
}

static void begin_used_up(struct used_up *u, uint64_t seed)
{
        memset(u, 0, sizeof(*u));
        rng_init_seed(&u->dice, seed);
        u->now_ns = (1 + (int64_t)rng_below(&u->dice, 1000)) * S;
        u->is_busy = seed % 2; /* else too few transactions end to judge by */
        u->is_normal = seed / 2 % 2;
        u->running = 5;
        u->a = admission_new(seed, long_decided, u);
        for (size_t i = 0; i < SAMPLED; i++) {
                struct class_limits limits = {.mode = MODE_ENFORCE, .wait_ns = 3600 * S};
                admission_set_class(u->a, i, &limits, u->now_ns);
        }
        struct usual_memory m = week_of(WORKS, 10 * MS);
        assert_true(admission_remember(u->a, WORK, &m));
        publish_used_up(u, true);
}

/* 6: calm and used up: x1.5 a second, until it comes to the last cut. */
static void check_growth(struct used_up *u, uint32_t last_cut)
{
        uint32_t before = window(u->a);

        for (int i = 0; i < 125; i++) /* a second, and a look */
                pass_used_up(u);
        uint32_t least = before * 3 / 2;
        if (last_cut && least > last_cut)
                least = before < last_cut ? last_cut : before + (before / 8 > 1 ? before / 8 : 1);
        assert_true(window(u->a) >= least);
}

/* 5: one sample of any value.  It is replaced before there was time for two looks. */
static void check_one_sample(struct used_up *u)
{
        static const double values[] = {NAN, INFINITY, -INFINITY, 0, -1, 1e300, 1001, 2001, 1e9};
        uint32_t before = window(u->a);

        u->running = values[rng_below(&u->dice, ARRAY_LEN(values))];
        u->is_harmed = rng_below(&u->dice, 2);
        publish_used_up(u, true);
        for (int i = 0; i < 24; i++) {
                pass_used_up(u);
                uint32_t least = u->width < u->excess ? u->width : u->excess;
                assert_true(window(u->a) >= (least / 2 > 1 ? least / 2 : 1));
        }
        bool is_harmed = u->is_harmed;
        u->running = 5;
        u->is_harmed = false;
        publish_used_up(u, true);
        bool is_cut = is_harmed && before > 1;
        assert_true(window(u->a) >= (before / 2 > 1 ? before / 2 : 1));
        assert_true((window(u->a) < before) == is_cut || !is_harmed);
        uint32_t back = before < 4 ? before : 4;
        for (int i = 0; window(u->a) < back; i++) {
                assert_true(i < 800);
                pass_used_up(u);
        }
}

static void play_used_up(uint64_t seed)
{
        static struct used_up u;

        begin_used_up(&u, seed);
        pass_used_up(&u);
        for (uint64_t n = rng_below(&u.dice, 8); n > 0; n--)
                check_growth(&u, 0);
        uint32_t cut_at = window(u.a);
        check_one_sample(&u);
        check_growth(&u, cut_at);
        u.a = admission_free(u.a);
}

static void one_sample_does_little_and_a_used_window_grows(void **state)
{
        (void)state;
        dice_play(40, play_used_up);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(usual_work_goes_and_nothing_stands_still_in_any_history),
                cmocka_unit_test(less_important_work_delays_nothing),
                cmocka_unit_test(one_sample_does_little_and_a_used_window_grows),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
