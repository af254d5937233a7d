/* Which thresholds a metric has where no setting says it: those of the file, else the default ones.
 *
 * The default thresholds of running statements are made for a server of up to LEVEL_CORES
 * processors, and follow the processors where the server tells them.  That is known after the first
 * sample, changes with the server, and is not kept: `configured` stays what the file says. */
#include <math.h>
#include <stdio.h>

#include "base/say.h"
#include "throttle/throttle_state.h"

static bool follows_cores(const struct target *g, const struct metric *m)
{
        return m->is_by_cores && m->is_default && g->cores > LEVEL_CORES;
}

struct level_rule metric_unset_rule(const struct target *g, size_t metric)
{
        const struct metric *m = &g->metrics[metric];
        struct level_rule r = m->configured;
        if (follows_cores(g, m))
                level_rule_scale(&r, g->cores);
        return r;
}

double metric_unset_check(const struct target *g, size_t metric)
{
        const struct metric *m = &g->metrics[metric];
        if (m->is_check_default && follows_cores(g, m))
                return metric_unset_rule(g, metric).enter[0];
        return m->check_configured;
}

struct level_rule metric_default_rule(const struct target *g, size_t metric)
{
        const struct metric *m = &g->metrics[metric];
        struct level_rule r = m->shipped;
        if (m->is_by_cores)
                level_rule_scale(&r, g->cores);
        return r;
}

const char *metric_origin(const struct target *g, size_t metric, char *ret)
{
        const struct metric *m = &g->metrics[metric];
        const struct level_rule *r = &g->rules[metric];
        const char *word = m->is_default ? "default" : "file";
        if (isnan(r->enter[0]) && isnan(r->enter[1]))
                word = "";
        else if (m->is_set[0] || m->is_set[1])
                word = "setting";
        else if (follows_cores(g, m)) {
                (void)snprintf(ret, THROTTLE_TEXT, "default for %u cores", g->cores);
                return ret;
        }
        (void)snprintf(ret, THROTTLE_TEXT, "%s", word);
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
