/* Targets and metrics by name.
 *
 * A client of Vitess or freno names metrics its own way; those names are taken for ours. */
#include <stdio.h>

#include "base/shown.h"
#include "throttle/throttle_state.h"

size_t throttle_targets(const struct core *core)
{
        return core->throttle->n_targets;
}

const char *throttle_target_name(const struct core *core, size_t target)
{
        ASSERT(target < core->throttle->n_targets);
        return core->throttle->targets[target].name;
}

int throttle_target(const struct core *core, struct slice name)
{
        const struct throttle *t = core->throttle;
        if (!name.len)
                return t->n_targets ? 0 : -1;
        for (size_t i = 0; i < t->n_targets; i++)
                if (slice_eq(name, slice_str(t->targets[i].name)))
                        return (int)i;
        return -1;
}

int throttle_no_target(const struct core *core, struct slice name, struct problem *problem)
{
        char names[THROTTLE_TEXT] = "";
        size_t n = throttle_targets(core), used = 0;
        for (size_t i = 0; i < n && used < sizeof(names); i++) /* cut is fine */
                used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
                                         throttle_target_name(core, i));
        return problem_set(problem, ERR_NOTFOUND, "there is no target '%s'%s%s", SHOWN(name),
                           n ? "; there are " : "; none is configured", names);
}

const char *throttle_metric_name(const struct core *core, size_t target, size_t metric)
{
        ASSERT(target < core->throttle->n_targets);
        ASSERT(metric < core->throttle->targets[target].n_metrics);
        return core->throttle->targets[target].metrics[metric].name;
}

/* "self/lag" and "shard/lag" are "lag". */
static struct slice without_scope(struct slice name)
{
        static const struct slice scopes[] = {SLICE_LIT("self/"), SLICE_LIT("shard/")};
        for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
                if (name.len > scopes[i].len && !memcmp(name.ptr, scopes[i].ptr, scopes[i].len))
                        return slice_make(name.ptr + scopes[i].len, name.len - scopes[i].len);
        return name;
}

int target_metric(const struct target *g, struct slice name)
{
        for (size_t i = 0; i < g->n_metrics; i++)
                if (slice_eq(name, slice_str(g->metrics[i].name)))
                        return (int)i;
        return -1;
}

static int first_checked(const struct target *g)
{
        for (size_t i = 0; i < g->n_metrics; i++)
                if (g->metrics[i].is_checked)
                        return (int)i;
        return g->n_metrics ? 0 : -1;
}

int throttle_metric(const struct core *core, size_t target, struct slice name)
{
        static const struct {
                const char *theirs, *ours;
        } same[] = {
                {"lag", "replication_lag"},
                {"loadavg", "load_per_core"},
                {"mysqld-loadavg", "load_per_core"},
                {"mysqld-datadir-used-ratio", "disk_used"},
        };
        const struct target *g = &core->throttle->targets[target];
        struct slice bare = without_scope(name);
        int i = target_metric(g, bare);
        if (i < 0 && slice_eq(bare, SLICE_LIT("default")))
                i = first_checked(g);
        for (size_t k = 0; i < 0 && k < ARRAY_LEN(same); k++)
                if (slice_eq(bare, slice_str(same[k].theirs)))
                        i = target_metric(g, slice_str(same[k].ours));
        return i;
}
