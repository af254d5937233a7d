/* The operator's commands for the gate: its status and history, pause and resume, the mode, the
 * registry. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/duration.h"
#include "base/say.h"
#include "checks/check_ctx.h"
#include "numbers/series.h"
#include "operator/settings.h"
#include "state/setting.h"
#include "things/setting.h"
#include "throttle/incident.h"
#include "throttle/last_level.h"
#include "throttle/throttle_state.h"
#include "traffic/traffic.h"

enum { DO_STATUS, DO_PAUSE, DO_RESUME, DO_HISTORY, DO_MODE, DO_CHECKMODE };

#define PAUSE_DEFAULT_MS 3600000

/* ---- status ---- */

static int64_t age_ms(const struct core *core, const struct level_sample *s)
{
        return s->at_ns ? (core->now.steady_ns - s->at_ns) / NS_PER_MS : -1;
}

static void tell_metrics(struct reply *reply, const struct reply_items *items)
{
        const struct target *g = items->of;
        for (size_t i = 0; i < g->n_metrics; i++) {
                const struct level_sample *s = &g->samples[i];
                char origin[THROTTLE_TEXT];
                const struct throttle_metric_reply told = {
                        .name = g->metrics[i].name,
                        .value = s->at_ns ? s->value : NAN,
                        .age_ms = age_ms(items->core, s),
                        .error = g->metrics[i].error,
                        .note = g->metrics[i].note,
                        .elevated = g->rules[i].enter[0],
                        .critical = g->rules[i].enter[1],
                        .thresholds_from = metric_origin(g, i, origin),
                        .level = level_name((enum level)g->leveler.metric_level[i]),
                };
                reply_throttle_metric(reply, &told);
        }
}

static const char *first_error(const struct target *g)
{
        for (size_t i = 0; i < g->n_metrics; i++)
                if (g->metrics[i].error[0])
                        return g->metrics[i].error;
        return "";
}

/* While it dwells: when the level falls if all stays as calm as it is; else -1. */
static int64_t falls_in_ms(const struct core *core, const struct target *g)
{
        const struct leveler *l = &g->leveler;
        bool is_high = l->level == LEVEL_ELEVATED || l->level == LEVEL_CRITICAL;
        if (!is_high || !l->calm_since_ns)
                return -1;
        int64_t ns = l->calm_since_ns + g->dwell_ns - core->now.steady_ns;
        return ns > 0 ? ns / NS_PER_MS : 0;
}

struct target_row_reply throttle_target_row(const struct core *core, const struct target *g,
                                            char last[THROTTLE_TEXT])
{
        const struct throttle *t = core->throttle;
        const struct leveler *l = &g->leveler;
        bool has_metric = l->metric >= 0;
        const struct level_sample *s = has_metric ? &g->samples[l->metric] : NULL;
        return (struct target_row_reply){
                .name = g->name,
                .mode = mode_name(g->mode >= 0 ? (enum gate_mode)g->mode : t->mode),
                .level = level_name(l->level),
                .since_ms = (core->now.steady_ns - l->since_ns) / NS_PER_MS,
                .metric = has_metric ? g->metrics[l->metric].name : "",
                .value = has_metric ? l->value : NAN,
                .threshold = has_metric ? l->threshold : NAN,
                .now = s && s->at_ns ? s->value : NAN,
                .age_ms = s ? age_ms(core, s) : -1,
                .falls_in_ms = falls_in_ms(core, g),
                .error = first_error(g),
                .measured = !target_is_unmeasured(g),
                .last_known = last_level_words(g, last),
        };
}

static void tell_targets(struct reply *reply, const struct reply_items *items)
{
        const struct target *targets = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct target *g = &targets[i];
                char last[THROTTLE_TEXT];
                const struct target_reply told = {
                        .row = throttle_target_row(items->core, g, last),
                        .metrics = {g->n_metrics, tell_metrics, items->core, g},
                };
                reply_target(reply, &told);
        }
}

static void tell_tiers(struct reply *reply, const struct reply_items *items)
{
        const struct core *core = items->core;
        const struct throttle *t = core->throttle;
        enum level would[TIERS];
        throttle_levels_if_enforced(core, would);
        for (enum tier i = 0; i < TIERS; i++) {
                const struct tier_row_reply told = {
                        .tier = tier_name(i),
                        .parked = (int64_t)core->state.n_parked[i],
                        .deferred = (int64_t)t->deferred[i],
                        .would_defer = (int64_t)t->observed[i],
                        .released = (int64_t)t->released[i],
                        .delay_ms = t->policy.delay_ms[throttle_level_for(t, i)][i],
                        .returning = (int64_t)core->state.n_returning[i],
                        .enforce_delay_ms = t->policy.delay_ms[would[i]][i],
                };
                reply_tier_row(reply, &told);
        }
}

struct ramp_reply throttle_ramp(const struct core *core)
{
        const struct ramp *r = &core->throttle->ramp;
        int64_t next = ramp_next_ns(r);
        return (struct ramp_reply){
                .running = ramp_is_running(r),
                .cycle = r->cycle,
                .cycles = ramp_cycles(r),
                .next_in_ms = next == INT64_MAX ? -1 : (next - core->now.steady_ns) / NS_PER_MS,
        };
}

static struct adaptive_reply adaptive_of(const struct core *core)
{
        const struct throttle *t = core->throttle;
        bool is_on = t->adaptive != MODE_OFF;
        return (struct adaptive_reply){
                .mode = mode_name(t->adaptive),
                .limit = is_on ? t->zone.limit : 0,
                .running = core->state.running.len,
                .pressure = is_on ? t->zone.average : NAN,
                .would_wait = (int64_t)t->zone_waits[0],
                .waited = (int64_t)t->zone_waits[1],
        };
}

static struct throttle_checks_reply checks_of(struct core *core)
{
        const struct check_ctx *c = core->checking;
        uint64_t refused = 0;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                refused += c->refused[i];
        return (struct throttle_checks_reply){
                .mode = mode_name(check_mode(core)),
                .granted = (int64_t)c->granted,
                .refused = (int64_t)refused,
                .would_refuse = (int64_t)c->observed,
                .waiting = (int64_t)c->n_waiting,
                .rules = (int64_t)core->state.things[THING_RULE].len,
                .starved = (int64_t)clients_starved(core),
        };
}

static void tell_status(struct core *core, struct reply *reply)
{
        const struct throttle *t = core->throttle;
        int64_t pause_ns = throttle_pause_ns(core), pause_left_ms = 0;
        if (pause_ns)
                pause_left_ms =
                        pause_ns == INT64_MAX ? -1 : (pause_ns - core->now.steady_ns) / NS_PER_MS;
        throttle_refresh(core);
        const struct level_caps level_caps = throttle_caps(core);
        const struct throttle_caps_reply caps = {level_caps.claim_size, level_caps.claims};
        const struct ramp_reply ramp = throttle_ramp(core);
        const struct adaptive_reply adaptive = adaptive_of(core);
        const struct throttle_checks_reply checks = checks_of(core);
        const struct throttle_status_reply told = {
                .mode = mode_name(t->mode),
                .enabled = !t->is_off,
                .doors_mode = mode_name(traffic_doors_mode(core)),
                .level = level_name(t->enforced),
                .since_ms = (core->now.steady_ns - t->level_since_ns) / NS_PER_MS,
                .target = t->deciding >= 0 ? t->targets[t->deciding].name : "",
                .observed_level = level_name(t->watched),
                .observed_target = t->watching >= 0 ? t->targets[t->watching].name : "",
                .paused = pause_ns != 0,
                .pause_left_ms = pause_left_ms,
                .targets = {t->n_targets, tell_targets, core, t->targets},
                .tiers = {TIERS, tell_tiers, core, NULL},
                .caps = &caps,
                .ramp = &ramp,
                .adaptive = &adaptive,
                .checks = &checks,
                .start_ms = core->start_ms,
        };
        reply_throttle_status(reply, &told);
}

int exec_throttlestatus(struct core *core, struct session *session, const struct command *cmd,
                        struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        tell_status(core, reply);
        return OK;
}

static int tell_history(struct core *core, struct session *session, const struct arg *count,
                        const struct arg *before, struct reply *reply)
{
        return incident_tell(core, session, reply,
                             count->is_set ? (size_t)count->num : INCIDENT_COUNT,
                             before->is_set ? (uint64_t)before->num : 0);
}

int exec_throttlehistory(struct core *core, struct session *session, const struct command *cmd,
                         struct reply *reply, struct problem *problem)
{
        (void)problem;
        return tell_history(core, session, &cmd->arg[P_THROTTLEHISTORY_COUNT],
                            &cmd->arg[P_THROTTLEHISTORY_BEFORE], reply);
}

uint64_t core_n_events(const struct core *core)
{
        return core->throttle->n_events;
}

/* The oldest event of the ring that is not yet told; NULL when there is none. */
static const struct throttle_event *oldest(const struct throttle_ring *r, size_t told)
{
        uint64_t n = r->n < THROTTLE_EVENTS ? r->n : THROTTLE_EVENTS;
        return told < n ? &r->events[(r->n - n + told) % THROTTLE_EVENTS] : NULL;
}

void core_each_event(const struct core *core, uint64_t from, uint64_t to,
                     void (*fn)(void *ctx, const struct core_event *e), void *ctx)
{
        const struct throttle_ring *rings = core->throttle->rings;
        size_t told[2] = {0};
        for (;;) {
                const struct throttle_event *a = oldest(&rings[0], told[0]);
                const struct throttle_event *b = oldest(&rings[1], told[1]);
                bool is_second = !a || (b && b->number < a->number);
                const struct throttle_event *e = is_second ? b : a;
                if (!e || e->number >= to)
                        return;
                told[is_second]++;
                if (e->number >= from)
                        fn(ctx, &(struct core_event){e->number, e->wall_ms, e->name, e->text});
        }
}

/* ---- pause, resume, mode ---- */

static int do_pause(struct core *core, const struct command *cmd, struct reply *reply)
{
        const struct arg *length = &cmd->arg[P_THROTTLE_FOR];
        int64_t ms = length->is_set ? length->num : PAUSE_DEFAULT_MS;
        bool is_endless = cmd->arg[P_THROTTLE_UNTILRESUMED].num;
        char text[DURATION_TEXT_MAX];
        setting_set(core, SLICE_LIT(SETTING_PAUSE),
                    is_endless ? 0 : core->now.steady_ns + ms * NS_PER_MS, SLICE_NONE);
        if (is_endless)
                throttle_tell(core, "throttle_paused", "until resumed");
        else
                throttle_tell(core, "throttle_paused", "for %s", duration_words(ms, text));
        say_info("gate", "throttle_paused", "ms", SAY_I64(is_endless ? 0 : ms));
        reply_ok(reply);
        return OK;
}

static int do_resume(struct core *core, struct reply *reply)
{
        if (setting_unset(core, SLICE_LIT(SETTING_PAUSE))) {
                throttle_tell(core, "throttle_resumed", "by the operator");
                say_info("gate", "throttle_resumed", "by", "operator");
        }
        reply_ok(reply);
        return OK;
}

/* The mode of the jobs, or that of the checks. */
static int do_mode(struct core *core, const struct command *cmd, struct reply *reply, bool is_check)
{
        const struct arg *set = &cmd->arg[P_THROTTLE_SET];
        const char *event = is_check ? "check_mode" : "throttle_mode";
        if (set->is_set) {
                const char *name = mode_name((enum gate_mode)set->num);
                setting_set(core, is_check ? SLICE_LIT(SETTING_CHECK) : SLICE_LIT(SETTING_MODE), 0,
                            slice_str(name));
                throttle_tell(core, event, "%s", name);
                say_info("gate", event, "mode", name);
        }
        throttle_refresh(core);
        enum gate_mode mode = is_check ? check_mode(core) : core->throttle->mode;
        reply_throttle_mode(reply, &(struct throttle_mode_reply){mode_name(mode)});
        return OK;
}

/* An option of another action would be passed over without a word. */
static int check_options(const struct command *cmd, struct problem *problem)
{
        static const struct {
                size_t param;
                unsigned actions; /* a bit for each that takes it */
                const char *sentence;
        } rows[] = {
                {P_THROTTLE_FOR, 1U << DO_PAUSE, "for goes with pause"},
                {P_THROTTLE_UNTILRESUMED, 1U << DO_PAUSE, "untilresumed goes with pause"},
                {P_THROTTLE_SET, 1U << DO_MODE | 1U << DO_CHECKMODE,
                 "a mode goes with mode and checkmode"},
                {P_THROTTLE_COUNT, 1U << DO_HISTORY, "count goes with history"},
                {P_THROTTLE_BEFORE, 1U << DO_HISTORY, "before goes with history"},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (cmd->arg[rows[i].param].is_set &&
                    !(rows[i].actions >> cmd->arg[P_THROTTLE_ACTION].num & 1))
                        return problem_set(problem, ERR_BADARG, "%s", rows[i].sentence);
        return OK;
}

int exec_throttle(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session;                       /* whoever has the token may steer */
        int r = check_options(cmd, problem); /* a full disk takes it: what is kept is replaced */
        if (r != OK)
                return r;
        switch (cmd->arg[P_THROTTLE_ACTION].num) {
        case DO_PAUSE:
                return do_pause(core, cmd, reply);
        case DO_RESUME:
                return do_resume(core, reply);
        case DO_HISTORY:
                return tell_history(core, session, &cmd->arg[P_THROTTLE_COUNT],
                                    &cmd->arg[P_THROTTLE_BEFORE], reply);
        case DO_MODE:
        case DO_CHECKMODE:
                return do_mode(core, cmd, reply, cmd->arg[P_THROTTLE_ACTION].num == DO_CHECKMODE);
        default:
                tell_status(core, reply);
                return OK;
        }
}

/* ---- the registry ---- */

static struct slice registry_name(struct slice pattern, char *room, size_t size)
{
        int n = snprintf(room, size, SETTING_REGISTRY "%.*s", (int)pattern.len, pattern.ptr);
        return slice_make(room, (size_t)n);
}

int exec_registryset(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may set it */
        char room[sizeof(SETTING_REGISTRY) + LIMIT_NAME_BYTES];
        struct slice pattern = cmd->arg[P_REGISTRYSET_PATTERN].text;
        const char *tier = tier_name((enum tier)cmd->arg[P_REGISTRYSET_TIER].num);
        int r = registry_check_pattern(pattern, problem);
        bool is_new = !thing_find(&core->state, THING_SETTING,
                                  registry_name(pattern, room, sizeof(room)));
        if (r == OK && is_new)
                r = setting_admit(core, problem);
        if (r == OK && is_new) /* else it takes the place of that one */
                r = core_admit(core, pattern.len + 64, 0, problem);
        if (r != OK)
                return r;
        setting_set(core, registry_name(pattern, room, sizeof(room)), 0, slice_str(tier));
        throttle_tell(core, "registry_set", "%.*s is %s", (int)pattern.len, pattern.ptr, tier);
        parking_judge(core);
        reply_ok(reply);
        return OK;
}

int exec_registryunset(struct core *core, struct session *session, const struct command *cmd,
                       struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may set it */
        char room[sizeof(SETTING_REGISTRY) + LIMIT_NAME_BYTES];
        struct slice pattern = cmd->arg[P_REGISTRYUNSET_PATTERN].text;
        if (!setting_unset(core, registry_name(pattern, room, sizeof(room))))
                return problem_set(problem, ERR_NOTFOUND,
                                   "'%.*s' was not set; the registry lists what was",
                                   (int)pattern.len, pattern.ptr);
        throttle_tell(core, "registry_unset", "%.*s", (int)pattern.len, pattern.ptr);
        parking_judge(core);
        reply_ok(reply);
        return OK;
}

static void tell_pattern(struct reply *reply, struct slice pattern, enum tier tier, bool is_default)
{
        const struct pattern_reply told = {pattern, slice_str(tier_name(tier)), is_default};
        reply_pattern(reply, &told);
}

static void tell_set_pattern(void *reply, struct slice pattern, enum tier tier)
{
        tell_pattern(reply, pattern, tier, false);
}

static void count_set_pattern(void *n, struct slice pattern, enum tier tier)
{
        (void)pattern;
        (void)tier;
        ++*(size_t *)n;
}

static void tell_patterns(struct reply *reply, const struct reply_items *items)
{
        const struct throttle *t = items->core->throttle;
        core_each_pattern(items->core, tell_set_pattern, reply);
        for (size_t i = 0; i < t->n_own; i++)
                tell_pattern(reply, t->own[i].pattern, t->own[i].tier, false);
        for (size_t i = 0; i < registry_defaults_len; i++)
                tell_pattern(reply, registry_defaults[i].pattern, registry_defaults[i].tier, true);
}

int exec_registry(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        size_t n = registry_defaults_len + core->throttle->n_own;
        core_each_pattern(core, count_set_pattern, &n);
        const struct registry_reply told = {{n, tell_patterns, core, NULL}};
        reply_registry(reply, &told);
        return OK;
}

int exec_tier(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)problem;
        struct slice pattern = SLICE_NONE;
        throttle_refresh(core);
        enum tier tier = registry_explain(core->throttle->registry, cmd->arg[0].text, &pattern);
        const struct hook_tier_reply told = {cmd->arg[0].text, tier_name(tier), pattern};
        reply_hook_tier(reply, &told);
        return OK;
}

/* ---- for /metrics ---- */

/* Behind the labels of the metric. */
static void
each_threshold(const struct target *g, size_t metric, struct buf *labels,
               void (*fn)(void *ctx, const char *name, const char *labels, double value), void *ctx)
{
        const struct {
                const char *level;
                double value; /* NAN: none */
        } thresholds[] = {
                {"elevated", g->rules[metric].enter[0]},
                {"critical", g->rules[metric].enter[1]},
                {"check", g->metrics[metric].check_above},
        };
        size_t len = labels->len;
        for (size_t i = 0; i < ARRAY_LEN(thresholds); i++) {
                labels->len = len;
                throttle_put_label(labels, "level", thresholds[i].level);
                fn(ctx, "gate_metric_threshold", buf_cstr(labels),
                   isfinite(thresholds[i].value) ? thresholds[i].value : NAN);
        }
}

static void each_target_sample(const struct core *core, const struct target *g,
                               void (*fn)(void *ctx, const char *name, const char *labels,
                                          double value),
                               void *ctx)
{
        struct buf labels;
        buf_init(&labels, 0);
        throttle_put_label(&labels, "target", g->name);
        fn(ctx, "gate_level", buf_cstr(&labels), (double)g->leveler.level);
        for (size_t k = 0; k < g->n_metrics; k++) {
                const struct level_sample *s = &g->samples[k];
                buf_clear(&labels);
                throttle_put_label(&labels, "target", g->name);
                throttle_put_label(&labels, "metric", g->metrics[k].name);
                fn(ctx, "gate_metric", buf_cstr(&labels), s->at_ns ? s->value : NAN);
                fn(ctx, "gate_metric_age_seconds", buf_cstr(&labels),
                   s->at_ns ? (double)age_ms(core, s) / 1000 : NAN);
                fn(ctx, "gate_metric_error", buf_cstr(&labels), s->state != SAMPLE_GOOD);
                each_threshold(g, k, &labels, fn, ctx);
        }
        buf_release(&labels);
}

void core_each_gate_sample(const struct core *core,
                           void (*fn)(void *ctx, const char *name, const char *labels,
                                      double value),
                           void *ctx)
{
        const struct throttle *t = core->throttle;
        char labels[3 * THROTTLE_TEXT];
        for (size_t i = 0; i < t->n_targets; i++)
                each_target_sample(core, &t->targets[i], fn, ctx);
        for (size_t i = 0; i < TIERS; i++) {
                (void)snprintf(labels, sizeof(labels), "tier=\"%s\"", tier_name((enum tier)i));
                fn(ctx, "gate_parked", labels, (double)core->state.n_parked[i]);
                fn(ctx, "gate_returning", labels, (double)core->state.n_returning[i]);
                fn(ctx, "gate_deferred_total", labels, (double)t->deferred[i]);
                fn(ctx, "gate_would_defer_total", labels, (double)t->observed[i]);
                fn(ctx, "gate_released_total", labels, (double)t->released[i]);
                for (size_t l = 0; l < LEVELS; l++) {
                        for (int v = 0; v < 2; v++) {
                                (void)snprintf(labels, sizeof(labels),
                                               "tier=\"%s\",level=\"%s\",verdict=\"%s\"",
                                               tier_name((enum tier)i), level_name((enum level)l),
                                               v ? "wait" : "run");
                                fn(ctx, "gate_decisions_total", labels,
                                   (double)t->decisions[l][i][v]);
                        }
                }
        }
        checking_each_sample(core, fn, ctx);
        fn(ctx, "gate_ramp_running", "", ramp_is_running(&t->ramp));
        if (t->adaptive != MODE_OFF)
                fn(ctx, "gate_adaptive_limit", "", t->zone.limit);
}
