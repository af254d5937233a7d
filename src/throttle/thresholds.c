/* Which thresholds a metric has: those of a setting, else of the file, else the default ones.
 *
 * Each level is picked alone, then both are put in order: critical must not begin below elevated.
 *
 *      a setting with a pair, a pair of the file     hard: it holds
 *      "auto" of a setting or of the file            soft: as learned, else the default
 *      the default                                   soft
 *
 * A soft level gives way to a hard one.  Of two soft ones critical gives way, so that elevated is
 * never below what was learned.  Two hard ones that are out of order can only come from a file that
 * was changed after the setting: then the file holds.
 *
 * The default thresholds of running statements are made for a server of up to LEVEL_CORES
 * processors, and follow the processors where the server tells them.  That is known after the first
 * sample, changes with the server, and is not kept: `configured` stays what the file says. */
#include <math.h>
#include <stdio.h>

#include "base/say.h"
#include "gate/advice.h"
#include "throttle/throttle_state.h"

/* Thresholds of one level. */
struct pick {
        double enter, exit;
        bool is_soft;
};

static bool follows_cores(const struct target *g, const struct metric *m)
{
        return m->is_by_cores && m->is_default && g->cores > LEVEL_CORES;
}

bool metric_is_auto(const struct metric *m, size_t level)
{
        return m->set[level] == THRESHOLD_AUTO ||
               (m->set[level] == THRESHOLD_UNSET && m->is_auto[level]);
}

struct level_rule metric_default_rule(const struct target *g, size_t metric)
{
        const struct metric *m = &g->metrics[metric];
        struct level_rule r = m->shipped;
        if (m->is_by_cores)
                level_rule_scale(&r, g->cores);
        return r;
}

static struct pick pick_of(const struct level_rule *r, size_t level, bool is_soft)
{
        return (struct pick){r->enter[level], r->exit[level], is_soft};
}

static struct pick pick_level(const struct target *g, size_t metric, size_t level,
                              enum threshold_set set)
{
        const struct metric *m = &g->metrics[metric];
        if (set == THRESHOLD_PAIR)
                return pick_of(&m->set_rule, level, false);
        bool is_auto = set == THRESHOLD_AUTO || m->is_auto[level];
        if (is_auto && m->has_learned)
                return pick_of(&m->learned, level, true);
        struct level_rule r = is_auto ? metric_default_rule(g, metric) : m->configured;
        if (!is_auto && follows_cores(g, m))
                level_rule_scale(&r, g->cores);
        return pick_of(&r, level, is_auto || m->is_default);
}

/* False: both are hard and out of order. */
static bool resolve(const struct target *g, size_t metric, const enum threshold_set set[2],
                    struct level_rule *ret)
{
        const struct metric *m = &g->metrics[metric];
        struct pick elevated = pick_level(g, metric, 0, set[0]);
        struct pick critical = pick_level(g, metric, 1, set[1]);
        bool is_elevated_learned =
                m->has_learned && elevated.is_soft && elevated.enter == m->learned.enter[0];
        if (critical.enter < elevated.enter && critical.is_soft && is_elevated_learned)
                critical = pick_of(&m->learned, 1, true); /* its default is not for this server */
        if (critical.enter < elevated.enter) {            /* false with a NAN */
                if (!critical.is_soft && !elevated.is_soft)
                        return false;
                if (critical.is_soft)
                        critical = elevated;
                else
                        elevated = critical;
        }
        *ret = m->configured;
        ret->enter[0] = elevated.enter;
        ret->exit[0] = elevated.exit;
        ret->enter[1] = critical.enter;
        ret->exit[1] = critical.exit;
        return true;
}

struct level_rule metric_unset_rule(const struct target *g, size_t metric)
{
        static const enum threshold_set none[2] = {THRESHOLD_UNSET, THRESHOLD_UNSET};
        struct level_rule r;
        return resolve(g, metric, none, &r) ? r : g->metrics[metric].configured;
}

bool metric_resolve(struct target *g, size_t metric)
{
        struct metric *m = &g->metrics[metric];
        if (resolve(g, metric, m->set, &g->rules[metric]))
                return true;
        m->set[0] = m->set[1] = THRESHOLD_UNSET;
        g->rules[metric] = metric_unset_rule(g, metric);
        return false;
}

double metric_unset_check(const struct target *g, size_t metric)
{
        const struct metric *m = &g->metrics[metric];
        if (!m->is_check_default || !(follows_cores(g, m) || m->is_auto[0] || m->is_auto[1]))
                return m->check_configured;
        const struct level_rule r = metric_unset_rule(g, metric);
        return isnan(r.enter[0]) ? r.enter[1] : r.enter[0];
}

const char *metric_origin(const struct target *g, size_t metric, char *ret)
{
        const struct metric *m = &g->metrics[metric];
        const struct level_rule *r = &g->rules[metric];
        bool is_none = isnan(r->enter[0]) && isnan(r->enter[1]);
        bool is_auto = metric_is_auto(m, 0) || metric_is_auto(m, 1);
        bool is_set = m->set[0] || m->set[1];
        const char *where = is_set ? "setting" : m->is_default ? "default" : "file";
        bool is_limited = false, has_default = true; /* it gave way; of each that is auto */
        for (size_t i = 0; i < ARRAY_LEN(r->enter); i++) {
                is_limited |= metric_is_auto(m, i) && r->enter[i] != m->learned.enter[i];
                has_default &= !metric_is_auto(m, i) || !isnan(r->enter[i]);
        }
        if (is_auto && m->has_learned)
                (void)snprintf(ret, THROTTLE_TEXT, "learned from %u h%s", m->learned_hours,
                               is_limited ? ", limited by the other level" : "");
        else if (is_auto)
                (void)snprintf(ret, THROTTLE_TEXT, "%s until %d h are learned",
                               has_default ? "default" : "none", ADVICE_LEAST / ADVICE_PER_HOUR);
        else if (!is_none && !is_set && follows_cores(g, m))
                (void)snprintf(ret, THROTTLE_TEXT, "default for %u cores", g->cores);
        else
                (void)snprintf(ret, THROTTLE_TEXT, "%s", is_none ? "" : where);
        return ret;
}

void core_set_cores(struct core *core, size_t target, unsigned cores)
{
        struct throttle *t = core->throttle;
        if (target >= t->n_targets || !cores || cores > CORE_CORES_MAX)
                return;
        struct target *g = &t->targets[target];
        if (g->cores == cores)
                return;
        g->cores = cores;
        say_info("gate", "cores", "target", g->name, "cores", SAY_I64(cores));
        t->settings_seen = UINT64_MAX; /* thresholds are worked out again */
        throttle_refresh(core);
}
