/* The pool of credits as a controller.
 *
 * What is controlled is mostly replication lag.  Lag is an integral: it grows for as long as steps
 * come faster than the replica applies them.  And it is told late, by itself: a lag of two seconds
 * is news of the work of two seconds ago.  Whoever goes k times as fast as the replica until the
 * limit is seen has by then k limits of work under way.  So a bound cannot be held by stopping at
 * it, nor by beginning to pace half way; it is held by never going much faster than the target can
 * take, which is unknown beforehand.
 *
 * So everybody is paced, always.  The pool begins small and grows by START_GROWTH a turn until the
 * first sign of pressure, as TCP begins; what was too much by then is taken back.  From then on
 * there is an estimate of what the target takes: the average of what was given out while there was
 * pressure.  Up to most of that the pool comes back as fast as it began; beyond, it grows by
 * GROWTH, less the nearer the aim, and more the longer there is no pressure at all.  Above the aim
 * it shrinks by the overshoot, but not far below the estimate: what lies in a long delay would else
 * be answered many times over, and the target run dry.  Both only while the pressure does not
 * already move the right way, which takes energy out of the swing that two integrals in a row make.
 *
 * The aim leaves more than half of the limit for what the target does by itself.  A lower one holds
 * the bound through longer stalls, but takes coarse samples and the work of others for pressure.
 *
 * The pool is what is learned; the room is what reacts.  With every sample the nearer the limit
 * the less of the pool is given out, and nothing at it.
 *
 * An answer gives what may be done in a quarter of a second, so that what was given out before the
 * bad news is little; but it may be used for longer, so that who is slow need not ask for more.
 * Who is slow by itself does not make the pool grow either, or it would be a large one, of which
 * nobody knows anything, when a fast one comes: only askers that were waiting for their pause to
 * end do, or that were given so few steps that asking is most of what they do.
 *
 * Costs are in a unit that the askers choose, so what is small is measured by their average.
 *
 * Nothing is learned from a turn in which nobody was granted anything; after IDLE_NS of that it
 * begins anew, as the target may be another one by then.
 *
 * Its limits, as tests/prop/prop_plant.c finds them; examples/purge has a real replica.
 *      slow       a target that takes fewer steps a second than the pool begins with (10) goes over
 *                 its limit once, at the beginning
 *      harmless   who does no harm is slowed down too until the pool has grown to its wish: to 100
 *                 steps a second within seven seconds, to 1,000 within thirteen, with two samples a
 *                 second or more
 *      uneven     a target that suddenly takes half as much, or stands still for half of the limit,
 *                 goes over it: no pace of the askers undoes what is already written
 *      rude       who does not pause is held by the limit only, as if it polled
 *
 * Costs: a handful of multiplications per tick and per grant; no memory, no libm. */
#include "gate/credit.h"

#include <math.h>

#define TURN_NS      (450 * NS_PER_MS) /* half a second, less what samples jitter */
#define TURNS_MAX    2                 /* that are made up for when samples are rare */
#define START        2                 /* times `increase`: the pool it begins with, in steps */
#define START_GROWTH 0.2               /* of the pool in a turn: half as much again in a second */
#define GROWTH       0.03              /* the same later, with no pressure at all */
#define BACK         0.6               /* of the pool is left when the beginning ends */
#define SIGN         0.25              /* of the aim: the first sign of pressure */
#define TAKEN_TURNS  16                /* the estimate is an average of about so many */
#define QUICKLY      0.8               /* of the estimate: up to there it grows as it began */
#define FLOOR        0.5               /* of the estimate: it shrinks no further */
#define CALM_TURNS   12                /* without pressure: it grows twice as fast, and so on */
#define ANEW_TURNS   10                /* without pressure: no less than what it began with */
#define MIN_GROWTH   0.2               /* steps; from nothing a part is nothing */
#define STILL        0.02              /* pressure: a rise of less is noise */
#define LEAST        (1.0 / 30)        /* steps, per asker: one each in half a minute */
#define MAX_RATE     1e6               /* steps, per asker */
#define IDLE_NS      (40 * NS_PER_S)   /* longer than PAUSE_MAX: who pauses is not gone */
#define PAUSE_MAX    30000             /* ms: who pauses must notice that all is well again */
#define PAUSE_ROOM   0.25              /* a moment without room makes a pause no longer than this */
#define PACE_MS      250               /* an answer grants the work of this time */
#define PACE_MAX     450               /* or in so long, when that is little: less than a turn */
#define LATE_NS      (400 * NS_PER_MS) /* a pause that ended earlier was not what it waited for */
#define FEW          12                /* steps of an answer: more of them would save asks */
#define USED         0.9               /* of the credits' time: who asks before had used them up */
#define UNIT_ASKS    8                 /* over so many the cost of a step is averaged */
#define MAX_CREDITS  1000000
#define MIN_MS       10
#define MAX_MS       60000

void credit_rule_init(struct credit_rule *r)
{
        *r = (struct credit_rule){
                .aim = 0.4, .increase = 5, .decrease = 0.4, .max = 1000, .ms = 1000};
}

int credit_rule_check(const struct credit_rule *r, struct problem *problem)
{
        /* Written so that a NAN is refused. */
        if (!(r->aim > 0 && r->aim < 1))
                return problem_set(problem, ERR_BADARG,
                                   "credits: aim must be above 0 and below 1, not %g", r->aim);
        if (!(r->increase > 0 && r->increase <= MAX_CREDITS))
                return problem_set(problem, ERR_BADARG,
                                   "credits: increase must be above 0, at most %d, not %g",
                                   MAX_CREDITS, r->increase);
        if (!(r->decrease > 0 && r->decrease <= 1))
                return problem_set(problem, ERR_BADARG,
                                   "credits: decrease must be above 0, at most 1, not %g",
                                   r->decrease);
        if (r->max > MAX_CREDITS)
                return problem_set(problem, ERR_BADARG, "credits: max is at most %d, not %u",
                                   MAX_CREDITS, r->max);
        if (r->ms < MIN_MS || r->ms > MAX_MS)
                return problem_set(problem, ERR_BADARG,
                                   "credits: their time is %d to %d ms, not %u", MIN_MS, MAX_MS,
                                   r->ms);
        return OK;
}

void credit_init(struct credit_pool *p)
{
        *p = (struct credit_pool){.pressure = NAN, .before = NAN, .unit = 1};
}

static double clamp(double v, double min, double max)
{
        if (!(v > min)) /* min may be above max: then it is max */
                v = min;
        return v < max ? v : max;
}

/* The part of the pool that is given out. */
static double room(double u)
{
        return u < 1 ? 1 - u : 0; /* of a NAN too */
}

/* What the target takes, told from what was given out while it had work left. */
static void estimate(struct credit_pool *p)
{
        if (!(p->taken > 0)) {
                p->base *= BACK;
                p->taken = p->base;
        }
        p->taken += (p->credits - p->taken) / TAKEN_TURNS;
}

/* `turns` of half a second have passed, for samples come as they like. */
static void grow(struct credit_pool *p, const struct credit_rule *r, double turns)
{
        double part = GROWTH * (1 - p->pressure / r->aim) * (1 + p->calm / CALM_TURNS);
        bool is_back = p->calm > 0 && p->base <= QUICKLY * p->taken;

        if (part > START_GROWTH || !(p->taken > 0) || is_back)
                part = START_GROWTH;
        double more = p->base * part * turns, least = MIN_GROWTH * p->unit;
        double start = START * r->increase * p->unit;
        p->base += more > least ? more : least;
        if (p->calm >= ANEW_TURNS && p->base < start)
                p->base = start;
}

static void shrink(struct credit_pool *p, const struct credit_rule *r)
{
        double over = (p->pressure - r->aim) / r->aim, floor = FLOOR * p->taken;

        p->base *= clamp(1 - r->decrease * over, 0.5, 1);
        if (p->base < floor)
                p->base = floor;
}

static void learn(struct credit_pool *p, const struct credit_rule *r, double turns)
{
        double u = p->pressure;

        p->calm = u < SIGN * r->aim ? p->calm + turns : 0;
        if (!(p->calm > 0))
                estimate(p);
        if (u >= r->aim && !(u < p->before))
                shrink(p, r);
        else if (u < r->aim && !(u > p->before + STILL) && p->is_wanted)
                grow(p, r, turns);
}

static void begin(struct credit_pool *p, const struct credit_rule *r, double unit)
{
        p->unit = unit;
        p->base = START * r->increase * unit;
        p->taken = p->calm = 0;
        p->is_begun = false;
}

static void turn(struct credit_pool *p, const struct credit_rule *r, double askers, int64_t now_ns)
{
        double turns = 2 * (double)(now_ns - p->tick_ns) / (double)NS_PER_S;

        if (p->asks)
                p->asked_ns = now_ns;
        if (!p->is_turned || (p->is_begun && now_ns - p->asked_ns >= IDLE_NS))
                begin(p, r, 1);
        else if (p->asks && !isnan(p->pressure))
                learn(p, r, clamp(turns, 0, TURNS_MAX));
        p->base = clamp(p->base, LEAST * askers * p->unit, MAX_RATE * askers * p->unit);
        p->before = p->pressure;
        p->asks = 0;
        p->is_wanted = false;
        p->tick_ns = now_ns;
        p->is_turned = true;
}

void credit_tick(struct credit_pool *p, const struct credit_rule *r, double pressure, size_t askers,
                 int64_t now_ns)
{
        p->pressure = pressure < 0 ? 0 : pressure;
        if (!p->is_turned || now_ns - p->tick_ns >= TURN_NS)
                turn(p, r, askers ? (double)askers : 1, now_ns);
        p->credits = p->base * room(p->pressure);
}

/* An answer gives what may be done in so long.  When the target is known it may be a bit more, to
 * save asks, but not so much that nobody asks within a turn. */
static double pace_ms(const struct credit_pool *p, const struct credit_rule *r, double rate)
{
        double ms = PACE_MS;

        if (p->taken > 0 && rate * PACE_MS < FEW * (double)MS_PER_S)
                ms = clamp(FEW * (double)MS_PER_S / rate, PACE_MS, PACE_MAX);
        return ms < r->ms ? ms : r->ms;
}

/* Was it kept waiting, or will it soon ask again only because it was given so few? */
static bool is_wanting(const struct credit_rule *r, double rate, int64_t late_ns)
{
        int64_t used_ns = (int64_t)(USED * r->ms - PACE_MS) * NS_PER_MS;

        return late_ns < LATE_NS || (rate * PACE_MS < FEW * (double)MS_PER_S && late_ns < used_ns);
}

struct credit_grant credit_give(struct credit_pool *p, const struct credit_rule *r, size_t askers,
                                uint32_t cost, int64_t late_ns)
{
        double size = cost ? cost : 1, per = size * (double)(askers ? askers : 1);

        if (!p->is_begun) {
                begin(p, r, size);
                p->credits = p->base * room(p->pressure);
                p->is_begun = true;
        }
        p->asks++;
        p->unit += (size - p->unit) / UNIT_ASKS;
        p->is_wanted = p->is_wanted || is_wanting(r, p->base / per, late_ns);
        if (r->max == 0 || isnan(p->pressure))
                return (struct credit_grant){0};
        /* In steps of this asker a second. */
        double rate = p->credits / per, least = p->base * PAUSE_ROOM / per;
        double steps = rate > 0 ? rate * pace_ms(p, r, rate) / (double)MS_PER_S : 0;
        /* The step that was asked for is one of them. */
        struct credit_grant g = {.steps = (uint32_t)clamp(steps - 1, 0, r->max)};
        g.ms = g.steps ? r->ms : 0;
        g.pause_ms = (uint32_t)clamp(MS_PER_S * (g.steps + 1.0) / (rate > least ? rate : least), 0,
                                     PAUSE_MAX);
        return g;
}
