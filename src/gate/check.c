/* See check.h.
 *
 * The enforced verdict and the one that enforce would give come from one walk through the same
 * steps: a step that speaks against the ask ends the walk when it is enforced, and is remembered
 * when it only observes.  So an observing rule can never hide what an enforced one says.
 *
 * The dice are rolled at the rule's step and nowhere else: once per ask, whatever the number of
 * names, parts and metrics.  With an observing ratio beside an enforced one the same roll serves
 * both. */
#include "gate/check.h"

#include <math.h>

#include "base/duration.h"
#include "base/shown.h"

static const struct {
        const char *name, *text;
} reasons[CHECK_REASONS] = {
#define X(id, name, text) {name, text},
        CHECK_REASON_MAP(X)
#undef X
};

const char *check_reason_name(enum check_reason reason)
{
        ASSERT((unsigned)reason < CHECK_REASONS);
        return reasons[reason].name;
}

const char *check_reason_text(enum check_reason reason)
{
        ASSERT((unsigned)reason < CHECK_REASONS);
        return reasons[reason].text;
}

int unknown_rule_parse(struct slice text, struct unknown_rule *ret, struct problem *problem)
{
        static const struct slice wait = SLICE_LIT("wait:");
        int64_t ms = 0;
        if (slice_eq(text, SLICE_LIT("open"))) {
                *ret = (struct unknown_rule){UNKNOWN_OPEN, 0};
                return OK;
        }
        if (slice_eq(text, SLICE_LIT("closed"))) {
                *ret = (struct unknown_rule){UNKNOWN_CLOSED, 0};
                return OK;
        }
        if (text.len > wait.len && memcmp(text.ptr, wait.ptr, wait.len) == 0 &&
            slice_to_duration_ms(slice_make(text.ptr + wait.len, text.len - wait.len), &ms) &&
            ms > 0 && ms <= UINT32_MAX) {
                *ret = (struct unknown_rule){UNKNOWN_WAIT, (uint32_t)ms};
                return OK;
        }
        return problem_set(problem, ERR_BADARG,
                           "an unknown metric means open, closed or wait:30s (then open), not "
                           "'%s'",
                           SHOWN(text));
}

static bool is_known(const struct check_value *v)
{
        return v->is_known && !isnan(v->value);
}

static bool is_open(const struct unknown_rule *u, const struct check_value *v)
{
        return u->policy == UNKNOWN_OPEN ||
               (u->policy == UNKNOWN_WAIT && v->unknown_ms >= u->wait_ms);
}

/* How near its threshold a value is; 1 is at it. */
static double nearness(const struct check_value *v)
{
        if (!is_known(v) || isnan(v->threshold))
                return -INFINITY;
        return v->threshold > 0 ? v->value / v->threshold : v->value - v->threshold;
}

/* What the metrics say: granted, unknown or threshold; the metric that says it, or the nearest. */
static enum check_reason look_at_metrics(const struct check_case *c, int *ret)
{
        double nearest = -INFINITY;
        int unknown = -1, above = -1;
        *ret = c->n_values ? 0 : -1;
        for (size_t i = 0; i < c->n_values; i++) {
                const struct check_value *v = &c->values[i];
                double near = nearness(v);
                bool is_above = is_known(v) && v->value > v->threshold; /* false with a NAN */
                if (!is_known(v) && !is_open(&c->unknown, v) && unknown < 0)
                        unknown = (int)i;
                if (is_above && (above < 0 || near > nearness(&c->values[above])))
                        above = (int)i;
                if (near > nearest) {
                        nearest = near;
                        *ret = (int)i;
                }
        }
        /* What is known to be too much says more than what is not known. */
        if (above >= 0) {
                *ret = above;
                return CHECK_THRESHOLD;
        }
        if (unknown >= 0) {
                *ret = unknown;
                return CHECK_UNKNOWN;
        }
        return CHECK_GRANTED;
}

/* Hold or ratio speak against it; else GRANTED. */
static enum check_reason look_at_rule(const struct check_rule *r, double roll)
{
        if (r->share == SHARE_HOLD)
                return CHECK_HOLD;
        if (r->share == SHARE_RATIO && roll < r->ratio)
                return CHECK_RATIO;
        return CHECK_GRANTED;
}

/* Notes what would have been refused; the first reason stands. */
static void would(struct check_verdict *v, enum check_reason reason)
{
        if (reason == CHECK_GRANTED || v->would_refuse)
                return;
        v->would_refuse = true;
        v->would_reason = reason;
}

static struct check_verdict refuse(struct check_verdict v, enum check_reason reason)
{
        would(&v, reason);
        v.is_granted = false;
        v.reason = reason;
        return v;
}

struct check_verdict check_decide(const struct check_case *c, struct rng *rng)
{
        struct check_verdict v = {.is_granted = true, .reason = CHECK_GRANTED, .value = -1};
        bool has_dice = c->rule.share == SHARE_RATIO || c->observed.share == SHARE_RATIO;
        double roll = !has_dice ? 1 : c->roll ? *c->roll : rng_unit(rng);
        enum check_reason metrics = look_at_metrics(c, &v.value);
        v.is_over = metrics == CHECK_THRESHOLD;
        v.roll = roll;

        if (c->is_paused)
                return refuse(v, CHECK_PAUSED);
        if (c->rule.share == SHARE_HOLD)
                return refuse(v, CHECK_HOLD);
        if (c->is_low && c->mode == MODE_ENFORCE)
                return refuse(v, CHECK_LOW_PRIORITY);
        if (c->is_low && c->mode == MODE_OBSERVE)
                would(&v, CHECK_LOW_PRIORITY);
        would(&v, look_at_rule(&c->observed, roll));
        enum check_reason rule = look_at_rule(&c->rule, roll);
        if (rule != CHECK_GRANTED)
                return refuse(v, rule);
        if (c->rule.share == SHARE_EXEMPT) {
                v.reason = CHECK_EXEMPT;
                return v;
        }
        if (c->mode <= MODE_TEST_OBSERVE) {
                v.reason = CHECK_OFF;
                return v;
        }
        if (metrics == CHECK_GRANTED && c->has_level)
                metrics = CHECK_LEVEL;
        if (metrics == CHECK_GRANTED)
                return v;
        if (c->mode == MODE_ENFORCE)
                return refuse(v, metrics);
        would(&v, metrics);
        return v;
}
