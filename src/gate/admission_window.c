/* The policy of an admission and its window.  See admission.h.
 *
 * A class is pressed when the policy refuses it by threshold, level or low priority.  What runs of
 * pressed classes counts for the window, whether it started before the pressure or since: else the
 * first sample above the threshold would let half as many again start at once.
 *
 *      sample                          window
 *      over, or level critical         half of it; the first time, half of what runs, if that is
 *                                      less
 *      not over, level above normal    one more, if it is used up and below its ceiling; the
 *                                      first time, what runs
 *      not over, level normal          it opens: one more, and twice as wide within a second
 *
 * A width that was too much is its ceiling for CEILING_NS: trying it again with every other sample
 * would have the database over its threshold half of the time.  A sample counts for that only when
 * no more runs than the window allows, because what started before says nothing of the width.
 *
 * The policy grants a class again as soon as the pressure ends.  While the window opens, the class
 * still counts as pressed, because else all that waited would start at once.  Once no ticket waits
 * for the window, there is none. */
#include "gate/admission_int.h"

#include <math.h>
#include <stdlib.h>

#define WIDTH_MAX  1e6 /* wider than any number of connections */
#define CEILING_NS (30 * NS_PER_S)

struct door_policy *door_policy_new(size_t n)
{
        ASSERT(n <= ADMIT_CLASSES_MAX);
        struct door_policy *p = xcalloc(1, sizeof(*p) + n * sizeof(p->classes[0]));
        p->refs = 1;
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

static void set_width(struct admission *a, double width)
{
        a->width = width;
        a->width_ns = a->now_ns;
        a->window = width < WIDTH_MAX ? (uint32_t)width : WINDOW_NONE;
}

static bool is_over(const struct door_policy *p)
{
        return p->is_over || p->level == LEVEL_CRITICAL;
}

static bool is_calm(const struct door_policy *p)
{
        return !is_over(p) && p->level == LEVEL_NORMAL;
}

static bool is_pressure(enum check_reason reason)
{
        return reason == CHECK_THRESHOLD || reason == CHECK_LEVEL || reason == CHECK_LOW_PRIORITY;
}

bool admission_ignores(enum check_reason reason, enum tier tier)
{
        return tier == TIER_CRITICAL && is_pressure(reason);
}

static enum lane_kind kind_of(enum check_reason reason, enum tier tier)
{
        if (admission_ignores(reason, tier))
                return LANE_GRANTED;
        return is_pressure(reason) ? LANE_PRESSED : LANE_STOPPED;
}

static void adopt_band(struct admit_class *c, unsigned band, const struct check_verdict *v)
{
        c->reason[band] = (uint8_t)v->reason;
        c->kind[band] = (uint8_t)(v->is_granted ? LANE_GRANTED : kind_of(v->reason, c->tier));
        c->would_reason[band] = c->reason[band];
        c->would[band] = c->kind[band];
        if (v->is_granted && v->would_refuse) {
                c->would_reason[band] = (uint8_t)v->would_reason;
                c->would[band] = (uint8_t)kind_of(v->would_reason, c->tier);
        }
}

static void adopt_all(struct admit_class *c, enum lane_kind kind)
{
        static const struct check_verdict granted = {.is_granted = true};
        for (unsigned i = 0; i < BANDS; i++) {
                adopt_band(c, i, &granted);
                c->kind[i] = c->would[i] = (uint8_t)kind;
        }
        c->bound[0] = c->bound[1] = 0;
        c->tier = TIER_NORMAL;
}

/* A class that the end of the pressure released keeps to the window until that has opened.  What an
 * operator exempts is free at once. */
static bool is_still_pressed(const struct admission *a, const struct admit_class *c, unsigned band)
{
        return c->is_pressed && a->window != WINDOW_NONE && is_calm(a->policy) &&
               c->kind[band] == LANE_GRANTED && c->reason[band] == CHECK_GRANTED &&
               c->tier != TIER_CRITICAL;
}

static void adopt_verdicts(struct admission *a, struct admit_class *c)
{
        const struct class_verdicts *v =
                a->policy && c->number < a->policy->n ? &a->policy->classes[c->number] : NULL;
        bool is_pressed = false;

        if (!v || !v->is_known) {
                adopt_all(c, a->policy ? LANE_NEW : LANE_GRANTED);
                c->is_pressed = false;
                return;
        }
        c->tier = v->tier;
        c->bound[0] = v->bound[0];
        c->bound[1] = v->bound[1];
        for (unsigned i = 0; i < BAND_NEW; i++) {
                adopt_band(c, i, &v->verdict[i]);
                if (is_still_pressed(a, c, i))
                        c->kind[i] = c->would[i] = LANE_PRESSED;
                is_pressed |= (c->is_enforced ? c->kind[i] : c->would[i]) == LANE_PRESSED;
        }
        c->is_pressed = is_pressed;
}

/* A class became pressed beside others: what runs of it took no place of the window before, so the
 * window gets that much wider, but not wider than what runs. */
static void widen(struct admission *a, double by)
{
        if (a->window != WINDOW_NONE && a->width < a->pressed[true])
                set_width(a, fmin(a->width + by, a->pressed[true]));
}

void class_adopt(struct admission *a, struct admit_class *c)
{
        double bound[2] = {c->bound[0], c->bound[1]};
        enum tier tier = c->tier;
        bool was_new = c->kind[0] == LANE_NEW, was_pressed = c->is_enforced && c->is_pressed;

        a->pressed[c->is_enforced] -= class_pressed(c);
        c->is_enforced = c->limits.mode == MODE_ENFORCE;
        adopt_verdicts(a, c);
        a->pressed[c->is_enforced] += class_pressed(c);
        if (c->is_enforced && c->is_pressed && !was_pressed)
                widen(a, c->running);
        if (tier != c->tier || was_new != (c->kind[0] == LANE_NEW) || bound[0] != c->bound[0] ||
            bound[1] != c->bound[1])
                lanes_relane(c);
}

/* Places that nobody takes are no reason for more of them: a burst would get them all. */
static bool is_used_up(const struct admission *a)
{
        return a->ready[LINE_WINDOW].len > 0 || a->pressed[true] >= a->window;
}

static bool is_below_ceiling(const struct admission *a)
{
        return a->now_ns >= a->ceiling_until_ns || a->width + 1 < a->ceiling;
}

static void learn_ceiling(struct admission *a)
{
        if (a->window == WINDOW_NONE || a->pressed[true] > a->window)
                return;
        a->ceiling = a->window;
        a->ceiling_until_ns = a->now_ns + CEILING_NS;
}

/* What the window is measured by at first: where nothing is enforced, what is observed. */
static double base(const struct admission *a)
{
        return a->pressed[true] ? a->pressed[true] : a->pressed[false];
}

void window_sample(struct admission *a)
{
        const struct door_policy *p = a->policy;
        bool is_new = p->n_samples != a->n_samples, is_limited = a->window != WINDOW_NONE;
        double least = p->level == LEVEL_CRITICAL ? 0 : 1, width = is_limited ? a->window : base(a);

        if (is_new && is_over(p)) {
                learn_ceiling(a);
                if (!a->was_over && width > base(a))
                        width = base(a); /* places that are not used are no measure */
                set_width(a, fmax(least, floor(width / 2)));
        } else if (is_new && is_limited) {
                if (is_calm(p) || (is_used_up(a) && is_below_ceiling(a)))
                        set_width(a, a->width + 1);
        } else if (is_new && !is_calm(p)) {
                set_width(a, fmax(least, width));
        }
        a->n_samples = p->n_samples;
        a->was_over = is_over(p);
        a->is_opening = is_calm(p) && a->window != WINDOW_NONE;
        if (a->is_opening && a->width < 1)
                set_width(a, 1); /* twice nothing would stay nothing */
        a->width_ns = a->now_ns;
}

void window_open(struct admission *a)
{
        if (!a->is_opening)
                return;
        double seconds = (double)(a->now_ns - a->width_ns) / NS_PER_S;
        if (seconds > 0)
                set_width(a, a->width * exp2(fmin(seconds, 64)));
        a->is_opening = a->window != WINDOW_NONE;
}

void window_finish(struct admission *a)
{
        if (!a->is_opening || a->ready[LINE_WINDOW].len > 0)
                return;
        a->is_opening = false;
        a->ceiling_until_ns = 0;
        set_width(a, WIDTH_MAX);
}
