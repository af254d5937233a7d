/* See gate.h. */
#include "serve/gate.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/limits.h"

#define TAKE_AT_ONCE 64

struct gate {
        const struct config *config;
        struct core *core;
        int64_t steady_base_ns;
        struct probe *probe; /* NULL: no targets */
};

static void on_asked(void *ctx)
{
        const struct gate *g = ctx;
        if (g->probe)
                probe_asked(g->probe);
}

/* ---- hosts that are skipped ---- */

struct hosts {
        char *names[LIMIT_SKIPPED_HOSTS];
        size_t n;
};

static void add_host(void *ctx, struct slice host, int64_t until_wall_ms)
{
        (void)until_wall_ms; /* the core tells when it is over */
        struct hosts *h = ctx;
        char *name = xmalloc(host.len + 1);
        memcpy(name, host.ptr, host.len);
        name[host.len] = '\0';
        ASSERT(h->n < ARRAY_LEN(h->names));
        h->names[h->n++] = name;
}

static void on_skips_changed(void *ctx)
{
        const struct gate *g = ctx;
        struct hosts hosts = {.n = 0};
        if (!g->probe)
                return; /* gate_start() will tell it */
        core_each_skipped(g->core, add_host, &hosts);
        probe_set_skipped(g->probe, (const char *const *)hosts.names, hosts.n);
        for (size_t i = 0; i < hosts.n; i++)
                free(hosts.names[i]);
}

/* ---- targets ---- */

static void put_target(struct core_target *to, struct core_metric *metrics,
                       const struct probe_options *p, const struct config_target *level)
{
        for (size_t i = 0; i < p->n_metrics; i++)
                metrics[i] = (struct core_metric){.name = p->metrics[i].name,
                                                  .rule = level->rules[i],
                                                  .check_above = level->check_above[i],
                                                  .is_checked = level->is_checked[i]};
        *to = (struct core_target){
                .name = p->name,
                .kind = probe_kind_name(p->kind),
                .metrics = metrics,
                .n_metrics = p->n_metrics,
                .dwell_ns = level->dwell_ns,
                .mode = level->mode,
        };
        memcpy(to->unknown, level->unknown, sizeof(to->unknown));
}

/* Weir's own queues, which the core samples itself. */
static void put_own(struct core_target *to, const struct core_metric *depth)
{
        *to = (struct core_target){
                .name = CONFIG_OWN_TARGET,
                .metrics = depth,
                .n_metrics = 1,
                .dwell_ns = 30 * NS_PER_S,
                .mode = -1,
                .is_own = true,
        };
        config_unknown_init(to->unknown);
}

static void set_up(struct gate *g)
{
        const struct config_targets *t = &g->config->targets;
        const struct config_throttle *c = &g->config->throttle;
        const struct core_metric depth = {.name = "queue_depth",
                                          .rule = c->queue_depth,
                                          .check_above = config_check_above(&c->queue_depth),
                                          .is_checked = true};
        struct core_target *targets = xcalloc(t->n + 1, sizeof(*targets));
        struct core_metric *metrics = xcalloc((t->n + 1) * LEVEL_METRICS_MAX, sizeof(*metrics));
        for (size_t i = 0; i < t->n; i++)
                put_target(&targets[i], metrics + i * LEVEL_METRICS_MAX, &t->probes[i],
                           &t->levels[i]);
        if (c->has_queue_depth)
                put_own(&targets[t->n], &depth);
        struct core_throttle options = {
                .targets = targets,
                .n_targets = t->n + c->has_queue_depth,
                .policy = c->policy,
                .registry = c->registry,
                .n_registry = c->n_registry,
                .ramp_cycles = c->ramp_cycles,
                .ramp_cycle_ns = c->ramp_cycle_ns,
                .adaptive = c->adaptive,
                .zone = c->zone,
                .checks = c->checks,
                .asked = on_asked,
                .skips_changed = on_skips_changed,
                .ctx = g,
        };
        core_set_throttle(g->core, &options);
        free(metrics);
        free(targets);
}

struct gate *gate_new(const struct config *config, struct core *core, int64_t steady_base_ns)
{
        struct gate *g = xcalloc(1, sizeof(*g));
        g->config = config;
        g->core = core;
        g->steady_base_ns = steady_base_ns;
        set_up(g);
        return g;
}

int gate_start(struct gate *g, void (*notify)(void *ctx), void *ctx, struct problem *problem)
{
        const struct config_targets *t = &g->config->targets;
        if (!t->n)
                return OK;
        int r = probe_start(t->probes, t->n, notify, ctx, &g->probe, problem);
        if (r == OK)
                on_skips_changed(g); /* before the loop takes the first sample */
        return r;
}

void gate_poll(void *gate)
{
        struct gate *g = gate;
        struct probe_sample samples[TAKE_AT_ONCE];
        size_t n;
        while (g->probe && (n = probe_take(g->probe, samples, ARRAY_LEN(samples))))
                for (size_t i = 0; i < n; i++)
                        core_sample(g->core, samples[i].target, samples[i].metric, samples[i].value,
                                    samples[i].at_ns + g->steady_base_ns, samples[i].is_error,
                                    slice_str(samples[i].error));
}

struct gate *gate_free(struct gate *g)
{
        if (!g)
                return NULL;
        g->probe = probe_stop(g->probe);
        free(g);
        return NULL;
}
