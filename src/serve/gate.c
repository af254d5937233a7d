/* See gate.h. */
#include "serve/gate.h"

#include <stdlib.h>

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

static void put_target(struct core_target *to, struct core_metric *metrics,
                       const struct probe_options *p, const struct config_target *level)
{
        for (size_t i = 0; i < p->n_metrics; i++)
                metrics[i] = (struct core_metric){p->metrics[i].name, level->rules[i]};
        *to = (struct core_target){
                .name = p->name,
                .metrics = metrics,
                .n_metrics = p->n_metrics,
                .dwell_ns = level->dwell_ns,
                .mode = level->mode,
        };
}

static void set_up(struct gate *g)
{
        const struct config_targets *t = &g->config->targets;
        const struct config_throttle *c = &g->config->throttle;
        const struct core_metric depth = {"queue_depth", c->queue_depth};
        struct core_target *targets = xcalloc(t->n + 1, sizeof(*targets));
        struct core_metric *metrics = xcalloc((t->n + 1) * LEVEL_METRICS_MAX, sizeof(*metrics));
        for (size_t i = 0; i < t->n; i++)
                put_target(&targets[i], metrics + i * LEVEL_METRICS_MAX, &t->probes[i],
                           &t->levels[i]);
        if (c->has_queue_depth)
                targets[t->n] = (struct core_target){.name = "queues",
                                                     .metrics = &depth,
                                                     .n_metrics = 1,
                                                     .dwell_ns = 30 * NS_PER_S,
                                                     .mode = -1,
                                                     .is_own = true};
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
                .asked = on_asked,
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
        return probe_start(t->probes, t->n, notify, ctx, &g->probe, problem);
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
