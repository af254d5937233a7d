/* The throttle as it is set up: targets, policy, registry of the configuration, ramp and limits.
 *
 * At start, and again when the configuration is read again: then what is known of targets that stay
 * goes over to the new ones (retarget.h), and what runs (a ramp, the adaptive limit) goes on. */
#include <math.h>
#include <stdlib.h>

#include "throttle/retarget.h"
#include "throttle/throttle_state.h"

static void free_targets(struct target *targets, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct target *g = &targets[i];
                for (size_t k = 0; k < g->n_metrics; k++) {
                        free(g->metrics[k].name);
                        free(g->metrics[k].history);
                }
                free(g->metrics);
                free(g->rules);
                free(g->samples);
                free(g->kind);
                free(g->name);
        }
        free(targets);
}

static void free_own(struct throttle *t)
{
        buf_release(&t->own_texts);
        free(t->own);
        t->own = NULL;
        t->n_own = 0;
}

void throttle_setup_release(struct throttle *t)
{
        free_targets(t->targets, t->n_targets);
        free_own(t);
}

/* The patterns lie one behind the other in own_texts. */
static void copy_own(struct throttle *t, const struct registry_entry *entries, size_t n)
{
        size_t at = 0;
        free_own(t);
        t->own = xcalloc(n + 1, sizeof(*t->own));
        for (size_t i = 0; i < n; i++)
                buf_put_slice(&t->own_texts, entries[i].pattern);
        for (size_t i = 0; i < n; i++) {
                size_t len = entries[i].pattern.len;
                t->own[i] = (struct registry_entry){slice_make(t->own_texts.ptr + at, len),
                                                    entries[i].tier};
                at += len;
        }
        t->n_own = n;
}

static void copy_target(struct target *to, const struct core_target *from, int64_t now_ns)
{
        size_t n = from->n_metrics;
        *to = (struct target){
                .name = xstrdup(from->name),
                .metrics = xcalloc(n + 1, sizeof(*to->metrics)),
                .rules = xcalloc(n + 1, sizeof(*to->rules)),
                .samples = xcalloc(n + 1, sizeof(*to->samples)),
                .n_metrics = n,
                .dwell_ns = from->dwell_ns,
                .dwell_configured_ns = from->dwell_ns,
                .mode = from->mode,
                .is_own = from->is_own,
                .kind = from->kind ? xstrdup(from->kind) : NULL,
                .last_known = -1,
        };
        memcpy(to->unknown, from->unknown, sizeof(to->unknown));
        for (size_t i = 0; i < n; i++) {
                to->metrics[i].name = xstrdup(from->metrics[i].name);
                to->metrics[i].history = xcalloc(THROTTLE_HISTORY_S, sizeof(float));
                for (size_t k = 0; k < THROTTLE_HISTORY_S; k++)
                        to->metrics[i].history[k] = NAN;
                to->rules[i] = to->metrics[i].configured = from->metrics[i].rule;
                to->metrics[i].check_above = from->metrics[i].check_above;
                to->metrics[i].check_configured = from->metrics[i].check_above;
                to->metrics[i].is_running = from->metrics[i].is_running;
                to->metrics[i].is_written = from->metrics[i].is_written;
                to->metrics[i].is_checked = from->metrics[i].is_checked;
                to->metrics[i].is_percent = from->metrics[i].is_percent;
                memcpy(to->metrics[i].is_auto, from->metrics[i].is_auto,
                       sizeof(to->metrics[i].is_auto));
                to->metrics[i].is_default = from->metrics[i].is_default;
                to->metrics[i].is_check_default = from->metrics[i].is_check_default;
                to->metrics[i].is_by_cores = from->metrics[i].is_by_cores;
                to->metrics[i].shipped = from->metrics[i].shipped;
        }
        leveler_init(&to->leveler, now_ns);
}

/* A ramp that runs goes on; with other cycles it begins anew with what is still parked. */
static void set_ramp(struct core *core, unsigned cycles, int64_t cycle_ns)
{
        struct ramp *r = &core->throttle->ramp, was = *r;
        ramp_init(r, cycles, cycle_ns);
        if (!ramp_is_running(&was))
                return;
        if (r->cycles == was.cycles && r->cycle_ns == was.cycle_ns)
                *r = was;
        else
                ramp_begin(r, core->now.steady_ns);
}

static void set_zone(struct core *core, enum gate_mode mode, const struct zone_rule *rule)
{
        struct throttle *t = core->throttle;
        const struct zone_rule *was = &t->zone.rule;
        bool is_same = t->adaptive != MODE_OFF && was->min == rule->min && was->max == rule->max &&
                       was->start == rule->start;
        t->adaptive = mode;
        if (mode != MODE_OFF && !is_same)
                zone_init(&t->zone, rule, core->now.steady_ns);
}

/* The new ones, with what is known of those that stay. */
static void set_targets(struct core *core, const struct core_target *targets, size_t n)
{
        struct throttle *t = core->throttle;
        struct target *old = t->targets;
        size_t n_old = t->n_targets;
        t->targets = xcalloc(n + 1, sizeof(*t->targets));
        t->n_targets = n;
        t->deciding = -1;
        /* Before the first turn time is where the log left it, not 0: else all that was not sampled
         * yet would be overdue. */
        int64_t began_ns = core->now.steady_ns ? core->now.steady_ns : core->state.steady_ns;
        for (size_t i = 0; i < n; i++)
                copy_target(&t->targets[i], &targets[i], began_ns);
        struct retarget *map = retarget_new(old, n_old, t->targets, n);
        retarget_levels(core, map, old);
        for (size_t i = 0; i < t->n_listeners; i++)
                if (t->listeners[i]->retargeted)
                        t->listeners[i]->retargeted(core, map, old);
        retarget_free(map);
        free_targets(old, n_old);
}

void core_set_throttle(struct core *core, const struct core_throttle *options)
{
        struct throttle *t = core->throttle;
        copy_own(t, options->registry, options->n_registry);
        t->configured = t->policy = options->policy;
        t->is_off_configured = options->is_off;
        t->settings_seen = UINT64_MAX;
        set_zone(core, options->adaptive, &options->zone);
        t->asked = options->asked;
        t->skips_changed = options->skips_changed;
        t->asked_ctx = options->ctx;
        set_ramp(core, options->ramp_cycles, options->ramp_cycle_ns);
        core->checks = options->checks;
        t->awaits_levels |= !t->targets; /* at the start, not at a reload */
        set_targets(core, options->targets, options->n_targets);
        t->are_targets_new = true;
        if (!core->now.wall_ms)
                return; /* the first turn does the rest */
        throttle_refresh(core);
        parking_judge(core);
}
