/* The policy of an admission, the usual places of its classes, and their excess.  See admission.h.
 *
 *      free            executing at once that never wait for load: the usual, twice that for high;
 *                      none for deferrable and new classes, and while a metric is too high that a
 *                      rule names for the class; any number for the critical tier, for
 *                      what a rule exempts, and for all while nothing was learned.  Where the
 *                      application goes around the door, nothing but the number of statements
 *                      at the server is ever learned: then only deferrable classes have none
 *      excess          what executes beyond, and strays
 *
 * Both are kept per class, and the excess also as a sum per tier: asking whether the window has
 * room adds up three numbers.  What is enforced counts only what is enforced, so that a class that
 * only observes takes no place from others; what observes counts all. */
#include "gate/admission_int.h"

#include <math.h>
#include <stdlib.h>

#define SLOW_DIGEST 20 /* times the class: a digest without a usual */
#define NEW_SHARE                                                                                  \
        0.02 /* of transactions: a class with more new digests than that has no strays             \
                for being new */

struct door_policy *door_policy_new(size_t n)
{
        ASSERT(n <= ADMIT_CLASSES_MAX);
        struct door_policy *p = xcalloc(1, sizeof(*p) + n * sizeof(p->classes[0]));
        p->refs = 1;
        p->running = p->running_most = NAN;
        p->n = n;
        return p;
}

struct door_policy *door_policy_ref(struct door_policy *p)
{
        ASSERT(p->refs > 0);
        p->refs++;
        return p;
}

struct door_policy *door_policy_unref(struct door_policy *p)
{
        if (!p)
                return NULL;
        ASSERT(p->refs > 0);
        if (--p->refs == 0)
                free(p);
        return NULL;
}

/* ---- the policy ---- */

bool admission_ignores(enum check_reason reason)
{
        return reason == CHECK_THRESHOLD || reason == CHECK_LEVEL || reason == CHECK_LOW_PRIORITY ||
               reason == CHECK_UNKNOWN;
}

static enum lane_kind refused_kind(const struct admit_class *c, enum check_reason reason)
{
        if (!admission_ignores(reason))
                return LANE_STOPPED;
        return c->is_free ? LANE_FREE : LANE_OPEN;
}

static void adopt_band(struct admit_class *c, unsigned band, const struct check_verdict *v)
{
        enum lane_kind granted = c->is_free ? LANE_FREE : LANE_OPEN;
        c->reason[band] = c->would_reason[band] = (uint8_t)v->reason;
        c->kind[band] = (uint8_t)(v->is_granted ? granted : refused_kind(c, v->reason));
        c->would[band] = c->kind[band];
        if (v->is_granted && v->would_refuse) {
                c->would_reason[band] = (uint8_t)v->would_reason;
                c->would[band] = (uint8_t)refused_kind(c, v->would_reason);
        }
}

static void adopt_verdicts(const struct admission *a, struct admit_class *c)
{
        const struct door_policy *p = a->policy;
        const struct class_verdicts *v = p && c->number < p->n ? &p->classes[c->number] : NULL;
        static const struct class_verdicts granted = {
                .tier = TIER_NORMAL,
                .verdict = {{.is_granted = true}, {.is_granted = true}, {.is_granted = true}}};
        bool is_new = p && (!v || !v->is_known);

        if (!v || !v->is_known)
                v = &granted;
        c->tier = v->tier;
        c->bound[0] = v->bound[0];
        c->bound[1] = v->bound[1];
        c->is_free = v->tier == TIER_CRITICAL ||
                     (v->verdict[2].is_granted && v->verdict[2].reason == CHECK_EXEMPT);
        c->is_ruled_out =
                v->rule[0] && !v->verdict[2].is_granted && v->verdict[2].reason == CHECK_THRESHOLD;
        for (unsigned i = 0; i < BANDS; i++)
                adopt_band(c, i, &v->verdict[i < BAND_NEW ? i : 2]);
        for (unsigned i = 0; i < BANDS && is_new; i++)
                c->kind[i] = c->would[i] = LANE_NEW;
}

/* Takes the class out of the sums, or puts it there. */
static void add_sums(struct admission *a, const struct admit_class *c, bool is_in)
{
        uint32_t sign = is_in ? 1 : UINT32_MAX; /* -1, modulo 2^32 */
        if (c->is_free)
                return;
        a->excess[c->is_enforced][c->tier] += sign * c->excess;
        a->executing_tier[c->is_enforced][c->tier] += sign * c->executing;
}

void class_adopt(struct admission *a, struct admit_class *c)
{
        double bound[2] = {c->bound[0], c->bound[1]};
        bool was_new = c->kind[0] == LANE_NEW;

        lanes_unplace(a, c);
        add_sums(a, c, false);
        a->n_enforced -= c->is_enforced;
        c->is_enforced = c->limits.mode == MODE_ENFORCE;
        a->n_enforced += c->is_enforced;
        adopt_verdicts(a, c);
        add_sums(a, c, true);
        class_weigh(a, c);
        if (was_new != (c->kind[0] == LANE_NEW) || bound[0] != c->bound[0] ||
            bound[1] != c->bound[1])
                lanes_relane(c);
}

/* ---- the usual places ---- */

static uint32_t free_places(const struct admission *a, const struct admit_class *c)
{
        if (c->is_free)
                return FREE_ANY;
        if (!a->is_learned)
                return c->tier == TIER_DEFERRABLE && look_knows_server(a) ? 0 : FREE_ANY;
        if (c->tier == TIER_DEFERRABLE || c->is_ruled_out || !usual_is_learned(&c->usual))
                return 0;
        double usual = fmax(1, round(c->usual.memory.executing * a->boost));
        return (uint32_t)(c->tier == TIER_HIGH ? 2 * usual : usual);
}

void class_weigh(struct admission *a, struct admit_class *c)
{
        add_sums(a, c, false);
        c->free = free_places(a, c);
        uint32_t settled = class_settled(c);
        c->excess = c->free == FREE_ANY ? 0 : c->strays;
        if (settled > c->free)
                c->excess += settled - c->free;
        add_sums(a, c, true);
}

static void change_executing(struct admission *a, struct admit_class *c, const struct ticket *t,
                             uint32_t by)
{
        look_spend(a, c);
        add_sums(a, c, false);
        c->executing += by;
        c->strays += t->is_stray ? by : 0;
        a->executing += by;
        add_sums(a, c, true);
        class_weigh(a, c);
}

void ticket_execute(struct admission *a, struct admit_class *c, struct ticket *t)
{
        t->is_idle = false;
        t->since_ns = a->now_ns;
        list_push_back(&c->executing_list, &t->place);
        change_executing(a, c, t, 1);
}

void ticket_rest(struct admission *a, struct admit_class *c, struct ticket *t)
{
        t->is_idle = true;
        list_remove(&t->place);
        change_executing(a, c, t, UINT32_MAX); /* -1 */
}

/* ---- strays ---- */

bool class_strays(const struct admission *a, const struct admit_class *c, uint64_t digest)
{
        double log_time;
        if (!digest || c->free == FREE_ANY || c->free == 0)
                return false;
        if (digests_find(a->digests, c->number, digest, &log_time))
                return log_time - c->usual.memory.log_time > log(SLOW_DIGEST);
        return c->digested >= USUAL_ENDS && c->new_share < NEW_SHARE &&
               a->now_ns - c->digested_ns >= USUAL_LEAST_S * NS_PER_S;
}

/* ---- the window ---- */

uint32_t window_excess(const struct admission *a, enum tier tier, bool is_enforced)
{
        uint32_t n = 0;
        for (unsigned i = TIER_HIGH; i <= (unsigned)tier; i++)
                n += a->excess[true][i] + (is_enforced ? 0 : a->excess[false][i]);
        return n;
}

bool window_has_room(const struct admission *a, enum tier tier, bool is_enforced)
{
        if (window_excess(a, tier, is_enforced) < window_size(a))
                return true;
        if (tier == TIER_DEFERRABLE && a->is_floor_off)
                return false;
        return a->executing_tier[true][tier] + (is_enforced ? 0 : a->executing_tier[false][tier]) ==
               0;
}
