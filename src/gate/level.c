/* See level.h for the law.
 *
 * Two machines, one on the other.  Each metric has a level of its own that follows its value at
 * once, up and down; the exit threshold counts for it from the level it has reached since the
 * target last fell.  The target holds the worst of them and lets go only after dwell; `held` is
 * that, and knows nothing of gaps.  `level` is what is shown: held, or unknown while it cannot be
 * told. Keeping them apart closes a way round the dwell: one lost sample while critical must not
 * make the next calm one a fresh start.
 *
 *      from       to         when
 *      any        higher     a known metric is there: at once
 *      critical   elevated   all below critical's exit for dwell, one at elevated's enter or above
 *      critical   normal     all below critical's exit for dwell, none at elevated's enter
 *      elevated   normal     all below elevated's exit for dwell
 *      any        unknown    nothing known, or something required not: at once; who raised it is
 *                            missing and the others are normal: after dwell
 *      unknown    normal     all known are calm, and no missing one was higher, for dwell
 *      unknown    held       a known metric is above normal: at once
 *      unmeasured normal     all were measured and are calm, and nothing above normal was last
 *                            known: at once
 *
 * dwell starts anew with each transition, which is what bounds the falls to one per dwell whatever
 * the inputs are.  O(metrics) per update, no allocation, no clock. */
#include "gate/level.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum freshness { KNOWN, PENDING, MISSING };

struct input {
        const struct level_rule *rules;
        const struct level_sample *samples;
        size_t n;
        int64_t dwell_ns, now_ns;
};

/* What one look at all samples says. */
struct look {
        enum level worst; /* of the known metrics */
        enum level lost;  /* the worst that a missing metric had when it was last known */
        int lost_metric;  /* that one */
        int missing;      /* a required metric that is missing, else any; -1: none is */
        bool is_blind;    /* a required one is missing, or nothing is known and nothing to come */
};

void level_rule_scale(struct level_rule *rule, unsigned cores)
{
        if (cores <= LEVEL_CORES)
                return;
        for (size_t i = 0; i < ARRAY_LEN(rule->enter); i++) {
                rule->enter[i] = round(rule->enter[i] * cores / LEVEL_CORES);
                rule->exit[i] = round(rule->exit[i] * cores / LEVEL_CORES);
        }
}

const char *level_number_text(double v, char ret[LEVEL_NUMBER_MAX])
{
        for (int digits = 6; digits <= 17; digits++) {
                (void)snprintf(ret, LEVEL_NUMBER_MAX, "%.*g", digits, v);
                if (strtod(ret, NULL) == v)
                        break;
        }
        return ret;
}

const char *level_pair_text(double enter, double exit, char ret[LEVEL_PAIR_MAX])
{
        char a[LEVEL_NUMBER_MAX], b[LEVEL_NUMBER_MAX];
        ret[0] = '\0';
        if (!isnan(enter))
                (void)snprintf(ret, LEVEL_PAIR_MAX, "%s,%s", level_number_text(enter, a),
                               level_number_text(isnan(exit) ? enter : exit, b));
        return ret;
}

void leveler_init(struct leveler *l, int64_t now_ns)
{
        *l = (struct leveler){
                .level = LEVEL_UNKNOWN,
                .held = LEVEL_NORMAL,
                .since_ns = now_ns,
                .began_ns = now_ns,
                .metric = -1,
                .cause = -1,
                .is_unmeasured = true,
        };
}

void leveler_restore(struct leveler *l, enum level level, int metric, double value,
                     double threshold)
{
        ASSERT(l->is_unmeasured && level != LEVEL_UNKNOWN && metric < LEVEL_METRICS_MAX);
        if (level == LEVEL_NORMAL || metric < 0)
                return;
        l->level = l->held = level;
        l->metric = l->cause = metric;
        l->metric_level[metric] = l->reached[metric] = (int8_t)level;
        l->value = value;
        l->threshold = threshold;
}

/* How old a value may be: less once the target is silent, so that a database that is gone is known
 * to be within seconds, and one lost packet is not enough at the usual interval. */
static int64_t patience_ns(const struct level_rule *rule, const struct level_sample *s)
{
        if (s->state == SAMPLE_FAILED)
                return 0;
        return s->state == SAMPLE_SILENT && rule->stale_ns > LEVEL_SILENCE_NS ? LEVEL_SILENCE_NS
                                                                              : rule->stale_ns;
}

int64_t level_good_until_ns(const struct level_rule *rule, const struct level_sample *sample)
{
        return isfinite(sample->value) ? sample->at_ns + patience_ns(rule, sample) : sample->at_ns;
}

static bool is_fresh(const struct level_rule *rule, const struct level_sample *s, int64_t now_ns)
{
        if (!s->at_ns || !isfinite(s->value) || s->state == SAMPLE_FAILED)
                return false;
        return rule->stale_ns <= 0 || now_ns - s->at_ns <= patience_ns(rule, s);
}

/* Has a metric that was never sampled still time?  When the target is silent it has little of it,
 * also one whose samples are never too old; after a definite failure it has none. */
static bool is_awaited(const struct leveler *l, const struct level_rule *rule,
                       const struct level_sample *s, int64_t now_ns)
{
        if (s->state == SAMPLE_FAILED)
                return false;
        int64_t ns = patience_ns(rule, s);
        if (ns <= 0)
                ns = s->state == SAMPLE_SILENT ? LEVEL_SILENCE_NS : INT64_MAX;
        return now_ns - l->began_ns <= ns;
}

static enum freshness freshness(const struct leveler *l, const struct level_rule *rule,
                                const struct level_sample *s, int64_t now_ns)
{
        if (is_fresh(rule, s, now_ns))
                return KNOWN;
        if (s->at_ns == 0 && is_awaited(l, rule, s, now_ns))
                return PENDING;
        return MISSING;
}

/* A NAN threshold compares false: such a level is never entered. */
static bool is_entered(const struct level_rule *rule, enum level level, double value)
{
        return value >= rule->enter[level - 1];
}

static double exit_of(const struct level_rule *rule, enum level level)
{
        double at = rule->exit[level - 1];
        return isnan(at) ? rule->enter[level - 1] : at;
}

/* The level of a metric that has reached `was`.  While the target is still critical, elevated
 * counts from its enter threshold: the fall from critical asks for that one. */
static enum level own_level(const struct level_rule *rule, enum level was, bool is_held_critical,
                            double value)
{
        if (is_entered(rule, LEVEL_CRITICAL, value))
                return LEVEL_CRITICAL;
        if (was == LEVEL_CRITICAL && value >= exit_of(rule, LEVEL_CRITICAL))
                return LEVEL_CRITICAL;
        if (is_entered(rule, LEVEL_ELEVATED, value))
                return LEVEL_ELEVATED;
        if (was == LEVEL_ELEVATED && !is_held_critical && value >= exit_of(rule, LEVEL_ELEVATED))
                return LEVEL_ELEVATED;
        return LEVEL_NORMAL;
}

static void look_at_missing(const struct leveler *l, const struct level_rule *rule, size_t i,
                            struct look *look)
{
        enum level was = (enum level)l->metric_level[i];

        if (look->missing < 0 || (rule->is_required && !look->is_blind))
                look->missing = (int)i;
        look->is_blind |= rule->is_required;
        if (was > look->lost) {
                look->lost = was;
                look->lost_metric = (int)i;
        }
}

static bool is_known(const struct leveler *l, int metric)
{
        return metric >= 0 && (l->known_mask >> metric & 1);
}

/* Who is known, who is waited for, who is missing. */
static struct look look_who(struct leveler *l, const struct input *in)
{
        struct look look = {.lost_metric = -1, .missing = -1};

        l->known_mask = l->pending_mask = 0;
        for (size_t i = 0; i < in->n; i++) {
                enum freshness f = freshness(l, &in->rules[i], &in->samples[i], in->now_ns);
                if (f == KNOWN)
                        l->known_mask |= 1U << i;
                else if (f == PENDING)
                        l->pending_mask |= 1U << i;
                else
                        look_at_missing(l, &in->rules[i], i, &look);
        }
        if (look.missing >= 0 && !l->known_mask && !l->pending_mask)
                look.is_blind = true;
        return look;
}

/* Whether the target is critical is found out first: it must not matter for the others in which
 * order metrics stand, nor how often the same samples are looked at. */
static struct look look_at(struct leveler *l, const struct input *in)
{
        struct look look = look_who(l, in);
        bool is_critical = l->held == LEVEL_CRITICAL;

        for (size_t i = 0; i < in->n && !is_critical; i++)
                is_critical = is_known(l, (int)i) &&
                              own_level(&in->rules[i], (enum level)l->reached[i], true,
                                        in->samples[i].value) == LEVEL_CRITICAL;
        for (size_t i = 0; i < in->n; i++) {
                if (!is_known(l, (int)i))
                        continue;
                enum level own = own_level(&in->rules[i], (enum level)l->reached[i], is_critical,
                                           in->samples[i].value);
                l->metric_level[i] = (int8_t)own;
                if (own > (enum level)l->reached[i])
                        l->reached[i] = (int8_t)own;
                if (own > look.worst)
                        look.worst = own;
        }
        if (look.worst > l->held)
                l->held = look.worst;
        return look;
}

/* The known metric at that level that is farthest above its threshold; -1: none is. */
static int find_worst(const struct leveler *l, const struct input *in, enum level level)
{
        int worst = -1;
        double most = -INFINITY;

        for (size_t i = 0; i < in->n; i++) {
                if (!is_known(l, (int)i) || l->metric_level[i] != (int8_t)level)
                        continue;
                double enter = in->rules[i].enter[level - 1], value = in->samples[i].value;
                double over = enter > 0 ? value / enter : value - enter;
                if (worst < 0 || over > most) {
                        worst = (int)i;
                        most = over;
                }
        }
        return worst;
}

/* Names the metric that makes the level, and goes on naming it while it does.  When all are calm it
 * is the last one until dwell is over; after a gap in which that was lost, the worst there is. */
static void name_metric(struct leveler *l, const struct input *in)
{
        if (is_known(l, l->metric) && l->metric_level[l->metric] == (int8_t)l->level)
                return;
        int level = (int)l->level;
        int worst = find_worst(l, in, l->level);
        while (worst < 0 && l->metric < 0 && --level > LEVEL_NORMAL)
                worst = find_worst(l, in, (enum level)level);
        if (worst < 0)
                return;
        const struct level_rule *rule = &in->rules[worst];
        l->metric = worst;
        l->value = in->samples[worst].value;
        l->threshold = is_entered(rule, (enum level)level, l->value)
                               ? rule->enter[level - 1]
                               : exit_of(rule, (enum level)level);
}

static void change(struct leveler *l, enum level level, int64_t now_ns)
{
        l->level = level;
        l->since_ns = now_ns;
        l->calm_since_ns = 0;
}

/* What was reached before the fall is over: only entering again counts. */
static void let_go(struct leveler *l, enum level held)
{
        l->held = held;
        memcpy(l->reached, l->metric_level, sizeof(l->reached));
}

static bool to_unknown(struct leveler *l, const struct input *in, int metric)
{
        bool changed = l->level != LEVEL_UNKNOWN;
        const struct level_sample *s = &in->samples[metric];
        int64_t at_ns = s->at_ns ? s->at_ns : l->began_ns;

        if (changed)
                change(l, LEVEL_UNKNOWN, in->now_ns);
        l->calm_since_ns = 0;
        if (changed || l->metric != metric) {
                l->metric = l->cause = metric;
                l->value = (double)(in->now_ns - at_ns) / (double)NS_PER_S;
                l->threshold = (double)patience_ns(&in->rules[metric], s) / (double)NS_PER_S;
        }
        return changed;
}

static bool to_level(struct leveler *l, const struct input *in)
{
        bool changed = l->level != l->held;

        if (changed) {
                change(l, l->held, in->now_ns);
                l->metric = -1;
        }
        name_metric(l, in);
        if (changed)
                l->cause = l->metric;
        return changed;
}

/* The last metric that decided says what it is now, and which threshold it is below. */
static bool to_normal(struct leveler *l, const struct input *in)
{
        enum level was = l->level == LEVEL_CRITICAL ? LEVEL_CRITICAL : LEVEL_ELEVATED;
        int metric = l->metric;

        change(l, LEVEL_NORMAL, in->now_ns);
        let_go(l, LEVEL_NORMAL);
        l->metric = -1;
        l->cause = metric;
        l->value = l->threshold = 0;
        if (is_known(l, metric)) {
                double at = exit_of(&in->rules[metric], was);
                l->value = in->samples[metric].value;
                l->threshold = isnan(at) ? 0 : at;
        }
        return true;
}

/* All that is known is below what is held, or just normal: dwell decides. */
static bool calm(struct leveler *l, const struct input *in, const struct look *look)
{
        bool is_lost = look->worst == LEVEL_NORMAL && look->lost > LEVEL_NORMAL;

        if (l->level == LEVEL_UNKNOWN && look->worst > LEVEL_NORMAL) {
                bool changed = to_level(l, in);
                l->calm_since_ns = in->now_ns;
                return changed;
        }
        if (l->level == LEVEL_UNKNOWN && is_lost)
                return to_unknown(l, in, look->lost_metric);
        if (!l->calm_since_ns)
                l->calm_since_ns = in->now_ns;
        if (in->now_ns - l->calm_since_ns < in->dwell_ns)
                return false;
        if (look->worst > LEVEL_NORMAL) {
                let_go(l, look->worst);
                return to_level(l, in);
        }
        if (!is_lost)
                return to_normal(l, in);
        let_go(l, LEVEL_NORMAL);
        return to_unknown(l, in, look->lost_metric);
}

/* Does what was last known still hold?  Else the target counts as measured from now on. */
static bool is_still_unmeasured(struct leveler *l, const struct look *look)
{
        if (!l->is_unmeasured)
                return false;
        bool is_high = look->worst > LEVEL_NORMAL && look->worst == l->held;
        if (!is_high && (l->pending_mask || (look->is_blind && l->held > LEVEL_NORMAL)))
                return true;
        l->is_unmeasured = false;
        return false;
}

bool leveler_update(struct leveler *l, const struct level_rule *rules,
                    const struct level_sample *samples, size_t n, int64_t dwell_ns, int64_t now_ns)
{
        ASSERT(n <= LEVEL_METRICS_MAX);
        const struct input in = {rules, samples, n, dwell_ns, now_ns};
        bool was_unmeasured = l->is_unmeasured;
        struct look look = look_at(l, &in);

        if (is_still_unmeasured(l, &look))
                return false;
        if (look.is_blind)
                return to_unknown(l, &in, look.missing);
        if (look.worst > LEVEL_NORMAL && look.worst == l->held) {
                l->calm_since_ns = 0;
                return to_level(l, &in);
        }
        if (l->level == LEVEL_NORMAL)
                return false;
        if (was_unmeasured && l->held == LEVEL_NORMAL)
                return to_normal(l, &in);
        return calm(l, &in, &look);
}

int64_t leveler_next_ns(const struct leveler *l, const struct level_rule *rules,
                        const struct level_sample *samples, size_t n, int64_t dwell_ns)
{
        int64_t next = INT64_MAX;

        if (l->level != LEVEL_NORMAL && l->calm_since_ns)
                next = l->calm_since_ns + dwell_ns;
        for (size_t i = 0; i < n; i++) {
                bool is_waited_for = l->pending_mask >> i & 1;
                if (rules[i].stale_ns <= 0 || !(is_waited_for || is_known(l, (int)i)))
                        continue;
                int64_t from = is_waited_for ? l->began_ns : samples[i].at_ns;
                int64_t at = from + patience_ns(&rules[i], &samples[i]) + 1;
                if (at < next)
                        next = at;
        }
        return next;
}

/* ---- for a tier ---- */

static int64_t held_until_ns(const struct leveler *l, const struct policy *p, enum tier tier)
{
        return l->since_ns + (int64_t)p->delay_ms[l->held][tier] * NS_PER_MS;
}

bool leveler_is_held(const struct leveler *l, const struct policy *p, enum tier tier,
                     int64_t now_ns)
{
        return l->level == LEVEL_UNKNOWN && now_ns < held_until_ns(l, p, tier);
}

unsigned leveler_held_tiers(const struct leveler *l, const struct policy *p, int64_t now_ns)
{
        unsigned held = 0;
        for (enum tier tier = 0; tier < TIERS; tier++)
                held |= (unsigned)leveler_is_held(l, p, tier, now_ns) << tier;
        return held;
}

int64_t leveler_held_next_ns(const struct leveler *l, const struct policy *p, int64_t now_ns)
{
        int64_t next = INT64_MAX;
        for (enum tier tier = 0; tier < TIERS; tier++) {
                int64_t at = held_until_ns(l, p, tier);
                if (leveler_is_held(l, p, tier, now_ns) && at < next)
                        next = at;
        }
        return next;
}

enum level leveler_level_for(const struct leveler *l, const struct policy *p, enum tier tier,
                             int64_t now_ns)
{
        enum level level = l->level;
        if (leveler_is_held(l, p, tier, now_ns))
                level = policy_worse_level(p, level, l->held, tier);
        return l->is_unmeasured ? policy_worse_level(p, level, LEVEL_UNKNOWN, tier) : level;
}

struct level_caps leveler_caps(const struct leveler *l, const struct policy *p, int64_t now_ns)
{
        struct level_caps caps = p->caps[l->level];
        bool is_held = leveler_held_tiers(l, p, now_ns) != 0;
        for (enum tier tier = 0; tier < TIERS; tier++)
                is_held &= !p->delay_ms[l->held][tier] || leveler_is_held(l, p, tier, now_ns);
        if (is_held)
                level_caps_lower(&caps, &p->caps[l->held]);
        if (l->is_unmeasured)
                level_caps_lower(&caps, &p->caps[LEVEL_UNKNOWN]);
        return caps;
}

double level_pressure(const struct level_rule *rules, const struct level_sample *samples, size_t n,
                      int64_t now_ns)
{
        double most = NAN;

        for (size_t i = 0; i < n; i++) {
                double limit = rules[i].enter[LEVEL_CRITICAL - 1];
                if (!(limit > 0) || !is_fresh(&rules[i], &samples[i], now_ns))
                        continue;
                double part = samples[i].value > 0 ? samples[i].value / limit : 0;
                if (isnan(most) || part > most)
                        most = part;
        }
        return most;
}
