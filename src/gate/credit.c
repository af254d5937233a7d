/* The pool of credits as a controller.
 *
 * What is controlled is mostly replication lag, and lag is an integral: it grows for as long as the
 * steps come faster than the replica applies them, and is seen a sample later.  Three consequences.
 *
 * A pool that is itself only summed up (more below the aim, less above) makes two integrals in a
 * row, which swing without end.  So the pool has a proportional part, the room: at the aim all of
 * it is given out, at the limit nothing, in between evenly less; and the sum moves only while the
 * pressure is not already on its way back, which takes energy out of every swing.
 *
 * Credits alone cannot hold the pressure under the limit: who may ask again at once and is granted
 * goes as fast as it can, however few credits it gets, until the limit itself refuses, a sample too
 * late.  So above the aim the share is a rate, and the grant says how long to pause.  Who does not
 * pause is held by the limit only, as if it polled.
 *
 * The pool has to begin near the truth.  A thousand credits that nobody uses would take a dozen
 * halvings to mean anything.  So it grows only as far as the askers come back early, and pacing
 * begins with what they took in the second before.
 *
 * Nothing is learned from a second in which nobody was granted anything: a target that is slow by
 * itself does not wind the pool down to nothing, and a quiet night does not wind it up.
 *
 * Costs: a handful of multiplications per tick and per grant; no memory, no libm. */
#include "gate/credit.h"

#include <math.h>

#define TURN_NS     (900 * NS_PER_MS) /* a second, less what samples jitter */
#define LEAST       (1.0 / 30)        /* of the pool, per asker: a step each in half a minute */
#define GROWTH      0.125             /* of the pool in a second, while paced */
#define MIN_GROWTH  1                 /* credits; from nothing an eighth is nothing */
#define STILL       0.02              /* pressure: a rise of less is noise */
#define FADE        0.98              /* of the pool in a second, while free and not used up */
#define EARLY       1.25              /* asks per asker and credits' time: more came back early */
#define IDLE_TURNS  60                /* after a minute without a grant all is forgotten */
#define PAUSE_MAX   30000             /* ms: who pauses must notice that all is well again */
#define MAX_CREDITS 1000000
#define NO_CREDITS  1000.0 /* bound of the pool per asker when none are given out */
#define MIN_MS      10
#define MAX_MS      60000

void credit_rule_init(struct credit_rule *r)
{
        *r = (struct credit_rule){
                .aim = 0.5, .increase = 5, .decrease = 0.4, .max = 1000, .ms = 1000};
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
        *p = (struct credit_pool){.pressure = NAN, .before = NAN};
}

/* The part of the pool that is given out. */
static double room(const struct credit_rule *r, double u)
{
        if (!(u < 1)) /* a NAN too */
                return 0;
        return u <= r->aim ? 1 : (1 - u) / (1 - r->aim);
}

static double clamp(double v, double min, double max)
{
        if (!(v > min)) /* min may be above max: then it is max */
                v = min;
        return v < max ? v : max;
}

static void turn_free(struct credit_pool *p, const struct credit_rule *r, double askers,
                      double seconds)
{
        double once = askers * seconds * (double)MS_PER_S / r->ms;

        if (!p->is_counted || (double)p->asks > EARLY * once) {
                /* Half of what they asked for in a second changes nothing but the asking. */
                p->base += r->increase * askers;
                if (p->base < p->asked / seconds / 2)
                        p->base = p->asked / seconds / 2;
        } else {
                p->base *= FADE;
        }
}

static void turn_paced(struct credit_pool *p, const struct credit_rule *r)
{
        double u = p->pressure;

        if (u >= r->aim && !(u < p->before)) {
                p->base *= clamp(1 - r->decrease * (u - r->aim) / r->aim, 0.5, 1);
        } else if (u < r->aim && !(u > p->before + STILL)) {
                double more = p->base * GROWTH;
                p->base += more > MIN_GROWTH ? more : MIN_GROWTH;
        }
}

static void turn(struct credit_pool *p, const struct credit_rule *r, double askers, int64_t now_ns)
{
        double seconds = p->is_turned ? (double)(now_ns - p->tick_ns) / (double)NS_PER_S : 1;

        p->rate = p->taken / seconds;
        p->idle = p->asks || !p->is_counted ? 0 : p->idle + 1;
        if (p->idle >= IDLE_TURNS)
                p->base = p->demand = 0;
        if (p->idle == 0 && !isnan(p->pressure)) {
                if (p->demand > 0 || (!p->is_counted && p->pressure >= r->aim))
                        turn_paced(p, r);
                else if (p->pressure < r->aim)
                        turn_free(p, r, askers, seconds);
                p->base = clamp(p->base, LEAST * askers, (r->max ? r->max : NO_CREDITS) * askers);
        }
        if (p->pressure < r->aim && p->base >= p->demand)
                p->demand = 0;
        p->before = p->pressure;
        p->taken = p->asked = 0;
        p->asks = 0;
        p->tick_ns = now_ns;
        p->is_turned = true;
}

/* With what was taken just now.  When that is nothing the pool is empty and all stays free: whoever
 * comes next asks for each step, and after a second it is known what it takes. */
static void begin_pacing(struct credit_pool *p)
{
        if (!p->is_counted)
                return;
        p->base = p->rate;
        if (p->rate > 0 && p->taken > p->rate) /* within a part of a second already */
                p->base = p->taken;
        p->demand = p->base;
}

void credit_tick(struct credit_pool *p, const struct credit_rule *r, double pressure, size_t askers,
                 int64_t now_ns)
{
        p->pressure = pressure < 0 ? 0 : pressure;
        if (!p->is_turned || now_ns - p->tick_ns >= TURN_NS)
                turn(p, r, askers ? (double)askers : 1, now_ns);
        if (!(p->demand > 0) && p->pressure >= r->aim)
                begin_pacing(p);
        p->credits = p->base * room(r, p->pressure);
}

static struct credit_grant grant(const struct credit_pool *p, const struct credit_rule *r,
                                 size_t askers, uint32_t cost)
{
        bool is_paced = p->demand > 0;
        /* Steps of one asker within the credits' time. */
        double steps = p->credits * r->ms / (double)MS_PER_S / (double)(askers ? askers : 1) /
                       (cost ? cost : 1);

        if (r->max == 0 || !(steps > 0))
                return (struct credit_grant){0};
        /* While paced the step that was asked for is one of them. */
        double further = clamp(is_paced ? steps - 1 : steps, 0, r->max);
        struct credit_grant g = {.steps = (uint32_t)further};
        g.ms = g.steps ? r->ms : 0;
        if (is_paced)
                g.pause_ms = (uint32_t)clamp(r->ms * (g.steps + 1.0) / steps, 0, PAUSE_MAX);
        return g;
}

struct credit_grant credit_give(struct credit_pool *p, const struct credit_rule *r, size_t askers,
                                uint32_t cost)
{
        /* What grew while nobody was counted has no meaning: it begins with the first asker. */
        if (!p->is_counted)
                p->base = p->credits = 0;
        struct credit_grant g = grant(p, r, askers, cost);
        p->is_counted = true;
        p->asks++;
        p->asked += cost ? cost : 1;
        p->taken += (g.steps + 1.0) * (cost ? cost : 1);
        return g;
}

uint32_t credit_share(const struct credit_pool *p, const struct credit_rule *r, size_t askers,
                      uint32_t cost)
{
        return grant(p, r, askers, cost).steps;
}
