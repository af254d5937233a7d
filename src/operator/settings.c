/* See settings.h.
 *
 * Every setting is a knob: a name, a type, bounds, and a place in the policy or in a target.  The
 * fixed ones are a table; delays, caps and those of targets follow from levels, tiers and the
 * targets there are, and are counted off rather than stored, so that a reload needs no care here.
 *
 * A value is kept in the log as the text that SETTINGS writes, so that it is read by the same
 * function whoever brings it.  One that cannot be read, or that does not go with another (critical
 * below elevated, after a reload), is passed over: what is configured holds.
 *
 * Costs: a change looks up every knob once, at most 3 per metric; there are few changes. */
#include "operator/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "base/duration.h"
#include "base/say.h"
#include "checks/check_ctx.h"
#include "jobs/claim.h"
#include "things/lock.h"
#include "things/setting.h"
#include "throttle/throttle_state.h"

#define CAP_MAX       100000
#define DEFERRALS_MAX 1000000
#define DWELL_MAX_MS  MS_PER_HOUR
#define VALUE_MAX     64 /* bytes of the text of a value */
#define DWELL_MS      30000

enum knob_type {
        KNOB_BOOL,
        KNOB_MODE,
        KNOB_LEVEL, /* elevated or critical */
        KNOB_DURATION,
        KNOB_INT,
        KNOB_PAIR,
        KNOB_NUMBER,
        KNOB_EXPIRY /* start or expire */
};

enum knob_place {
        AT_ENABLED,
        AT_LOCKS,
        AT_MODE,
        AT_CHECK_MODE,
        AT_MAX_DEFERRAL,
        AT_DEFERRALS,
        AT_QUEUE_AGE,
        AT_QUEUE_LEVEL,
        AT_EXPIRY_MARGIN,
        AT_EXPIRY,
        AT_DELAY,
        AT_CLAIM_SIZE,
        AT_CLAIMS,
        AT_DWELL,
        AT_ELEVATED,
        AT_CRITICAL,
        AT_CHECK,
        AT_PAUSED,
};

struct knob {
        char name[LIMIT_NAME_BYTES + 1];
        enum knob_place place;
        enum knob_type type;
        int64_t min, max; /* durations in ms */
        const char *unit, *text;
        int level, tier;    /* AT_DELAY and the caps */
        int target, metric; /* of a target; else -1 */
};

/* A value of any type; NAN in `a` is none. */
struct value {
        int64_t num;
        double a, b;
};

/*        name                           place            type           min max            unit */
static const struct {
        const char *name;
        enum knob_place place;
        enum knob_type type;
        int64_t max;
        const char *unit, *text;
} fixed[] = {
        {"throttle.enabled", AT_ENABLED, KNOB_BOOL, 0, "",
         "whether the gate makes jobs wait; off does not forget the mode"},
        {"locks.enabled", AT_LOCKS, KNOB_BOOL, 0, "",
         "whether locks are granted; off, LOCK is refused and holders keep theirs"},
        {"throttle.mode", AT_MODE, KNOB_MODE, 0, "", "what the gate does with jobs"},
        {"check.mode", AT_CHECK_MODE, KNOB_MODE, 0, "", "what checks are answered with"},
        {"throttle.max_deferral", AT_MAX_DEFERRAL, KNOB_DURATION, LIMIT_DELAY_MS, "",
         "a job that has waited so long in all runs; 0s: no bound"},
        {"throttle.deferrals_per_hour", AT_DEFERRALS, KNOB_INT, DEFERRALS_MAX, "deferrals",
         "a hook that was deferred so often within an hour runs; 0: no bound"},
        {"throttle.expiry_margin", AT_EXPIRY_MARGIN, KNOB_DURATION, GATE_MARGIN_MAX_MS, "",
         "a job that would expire while it waits starts so long before, at most a tenth of its "
         "time"},
        {"queues.paused", AT_PAUSED, KNOB_BOOL, 0, "",
         "whether no job of any queue starts, critical ones included; running ones go on"},
        {"throttle.queue_age", AT_QUEUE_AGE, KNOB_DURATION, MS_PER_DAY, "",
         "while other targets are calm, queue_depth counts once the oldest due job is this old"},
        {"throttle.queue_level", AT_QUEUE_LEVEL, KNOB_LEVEL, 0, "",
         "while other targets are calm, the level that queue_depth can make at most"},
};

#define N_FIXED  ARRAY_LEN(fixed)
#define N_LEVELS ((size_t)LEVELS - LEVEL_ELEVATED) /* at level normal all run */
#define N_DELAYS (N_LEVELS * (TIERS - 1))          /* the critical tier always runs */
#define N_CAPS   (N_LEVELS * 2)
#define N_EXPIRY ((size_t)TIERS - 1)

static const char *const mode_words[] = {"off", "test_observe", "observe", "enforce"};
static const char *const expiry_words[] = {"start", "expire"};
static const char *const level_words[] = {"elevated", "critical"};
static const char *const type_names[] = {
        [KNOB_BOOL] = "bool",         [KNOB_MODE] = "choice",   [KNOB_LEVEL] = "choice",
        [KNOB_DURATION] = "duration", [KNOB_INT] = "integer",   [KNOB_PAIR] = "pair",
        [KNOB_NUMBER] = "number",     [KNOB_EXPIRY] = "choice",
};

/* ---- the knobs there are ---- */

static void delay_knob(size_t i, struct knob *k)
{
        k->place = AT_DELAY;
        k->type = KNOB_DURATION;
        k->max = (int64_t)GATE_DELAY_MAX_MS;
        k->level = LEVEL_ELEVATED + (int)(i / (TIERS - 1));
        k->tier = TIER_HIGH + (int)(i % (TIERS - 1));
        k->text = "how long a job of that tier waits at that level; 0s: it runs";
        (void)snprintf(k->name, sizeof(k->name), "throttle.delay.%s.%s",
                       level_name((enum level)k->level), tier_name((enum tier)k->tier));
}

static void cap_knob(size_t i, struct knob *k)
{
        k->place = i % 2 ? AT_CLAIMS : AT_CLAIM_SIZE;
        k->type = KNOB_INT;
        k->max = CAP_MAX;
        k->unit = i % 2 ? "claims" : "jobs";
        k->level = LEVEL_ELEVATED + (int)(i / 2);
        k->text = i % 2 ? "claims of a queue at once at that level; 0: no cap"
                        : "jobs of one claim at that level; 0: no cap";
        (void)snprintf(k->name, sizeof(k->name), "throttle.cap.%s.%s",
                       level_name((enum level)k->level), i % 2 ? "claims" : "claim_size");
}

static void target_knob(const struct target *g, size_t i, struct knob *k)
{
        static const struct {
                enum knob_place place;
                enum knob_type type;
                const char *name, *text;
        } parts[] = {
                {AT_ELEVATED, KNOB_PAIR, "elevated", "enters and leaves the level elevated there"},
                {AT_CRITICAL, KNOB_PAIR, "critical", "enters and leaves the level critical there"},
                {AT_CHECK, KNOB_NUMBER, "check", "a check is refused while the value is above it"},
        };
        if (g->is_own) {
                i = 1 + 3 * (i / 2) + i % 2; /* only its levels can be configured */
        } else if (i == 0) {
                k->place = AT_DWELL;
                k->type = KNOB_DURATION;
                k->max = DWELL_MAX_MS;
                k->text = "how long it must be calm before the level falls";
                (void)snprintf(k->name, sizeof(k->name), "target.%s.dwell", g->name);
                return;
        }
        size_t part = (i - 1) % ARRAY_LEN(parts);
        k->metric = (int)((i - 1) / ARRAY_LEN(parts));
        k->place = parts[part].place;
        k->type = parts[part].type;
        k->text = parts[part].text;
        (void)snprintf(k->name, sizeof(k->name), "target.%s.%s.%s", g->name,
                       g->metrics[k->metric].name, parts[part].name);
}

static void expiry_knob(size_t i, struct knob *k)
{
        k->place = AT_EXPIRY;
        k->type = KNOB_EXPIRY;
        k->tier = TIER_HIGH + (int)i;
        k->text = "whether a job that would expire while it waits starts just before, or expires";
        (void)snprintf(k->name, sizeof(k->name), "throttle.expiry.%s",
                       tier_name((enum tier)k->tier));
}

/* The index-th knob; false past the last. */
static bool knob_at(const struct core *core, size_t index, struct knob *ret)
{
        const struct throttle *t = core->throttle;
        *ret = (struct knob){.unit = "", .text = "", .target = -1, .metric = -1};
        if (index < N_FIXED) {
                (void)snprintf(ret->name, sizeof(ret->name), "%s", fixed[index].name);
                ret->place = fixed[index].place;
                ret->type = fixed[index].type;
                ret->min = fixed[index].place == AT_EXPIRY_MARGIN ? MS_PER_S : 0;
                ret->max = fixed[index].max;
                ret->unit = fixed[index].unit;
                ret->text = fixed[index].text;
                return true;
        }
        index -= N_FIXED;
        if (index < N_DELAYS) {
                delay_knob(index, ret);
                return true;
        }
        index -= N_DELAYS;
        if (index < N_CAPS) {
                cap_knob(index, ret);
                return true;
        }
        index -= N_CAPS;
        if (index < N_EXPIRY) {
                expiry_knob(index, ret);
                return true;
        }
        index -= N_EXPIRY;
        for (size_t i = 0; i < t->n_targets; i++) {
                size_t n_metrics = t->targets[i].n_metrics;
                size_t n = t->targets[i].is_own ? 2 * n_metrics : 1 + 3 * n_metrics;
                if (index < n) {
                        ret->target = (int)i;
                        target_knob(&t->targets[i], index, ret);
                        return true;
                }
                index -= n;
        }
        return false;
}

static bool knob_find(const struct core *core, struct slice name, struct knob *ret)
{
        for (size_t i = 0; knob_at(core, i, ret); i++)
                if (slice_eq(name, slice_str(ret->name)))
                        return true;
        return false;
}

/* ---- values as text ---- */

/* The shortest that reads back the same. */
static void put_number(char *ret, size_t size, double v)
{
        for (int digits = 6; digits <= 17; digits++) {
                (void)snprintf(ret, size, "%.*g", digits, v);
                if (strtod(ret, NULL) == v)
                        return;
        }
}

/* "" is none. */
static const char *value_text(const struct knob *k, const struct value *v, char ret[VALUE_MAX])
{
        char a[32], b[32];
        ret[0] = '\0';
        switch (k->type) {
        case KNOB_BOOL:
                return v->num ? "true" : "false";
        case KNOB_MODE:
                return mode_name((enum gate_mode)v->num);
        case KNOB_LEVEL:
                return level_name((enum level)v->num);
        case KNOB_EXPIRY:
                return expiry_words[v->num != 0];
        case KNOB_DURATION:
                return duration_text(v->num, ret);
        case KNOB_INT:
                (void)say_i64(ret, v->num);
                return ret;
        case KNOB_PAIR:
                if (isnan(v->a))
                        return ret;
                put_number(a, sizeof(a), v->a);
                put_number(b, sizeof(b), isnan(v->b) ? v->a : v->b);
                (void)snprintf(ret, VALUE_MAX, "%s,%s", a, b);
                return ret;
        case KNOB_NUMBER:
                if (!isnan(v->a))
                        put_number(ret, VALUE_MAX, v->a);
                return ret;
        }
        return ret;
}

/* A plain decimal number, with a fraction or an exponent if need be; nothing else in it. */
static bool parse_number(struct slice text, double *ret)
{
        char room[VALUE_MAX];
        char *end;
        if (text.len == 0 || text.len >= sizeof(room))
                return false;
        memcpy(room, text.ptr, text.len);
        room[text.len] = '\0';
        if (strspn(room, "0123456789+-.eE") != text.len)
                return false;
        *ret = strtod(room, &end);
        return *end == '\0' && isfinite(*ret);
}

static struct slice trim(struct slice s)
{
        while (s.len && *s.ptr == ' ')
                s = slice_make(s.ptr + 1, s.len - 1);
        while (s.len && s.ptr[s.len - 1] == ' ')
                s.len--;
        return s;
}

static int parse_pair(struct slice text, struct value *ret, struct problem *problem)
{
        const char *comma = text.len ? memchr(text.ptr, ',', text.len) : NULL;
        size_t left = comma ? (size_t)(comma - text.ptr) : 0;
        if (!comma || !parse_number(trim(slice_make(text.ptr, left)), &ret->a) ||
            !parse_number(trim(slice_make(comma + 1, text.len - left - 1)), &ret->b))
                return problem_set(problem, ERR_BADARG,
                                   "the value must be two numbers, enter and exit, as in 5,3");
        if (ret->b > ret->a)
                return problem_set(problem, ERR_BADARG,
                                   "the exit (the second number) must not be above the enter "
                                   "threshold");
        return OK;
}

static int parse_bounded(const struct knob *k, struct slice text, struct value *ret,
                         struct problem *problem)
{
        char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
        bool is_time = k->type == KNOB_DURATION;
        bool is_read =
                is_time ? slice_to_duration_ms(text, &ret->num) : slice_to_i64(text, &ret->num);
        if (is_read && ret->num >= k->min && ret->num <= k->max)
                return OK;
        if (is_time)
                return problem_set(problem, ERR_BADARG,
                                   "the value must be a duration of %s to %s, as in 90s or 1h30m",
                                   duration_text(k->min, least), duration_text(k->max, most));
        return problem_set(problem, ERR_BADARG, "the value must be a number of %lld to %lld",
                           (long long)k->min, (long long)k->max);
}

static int parse_bool(struct slice text, struct value *ret, struct problem *problem)
{
        static const char *const words[2][4] = {{"false", "off", "no", "0"},
                                                {"true", "on", "yes", "1"}};
        for (int is_on = 0; is_on < 2; is_on++)
                for (size_t i = 0; i < ARRAY_LEN(words[0]); i++)
                        if (slice_eq_nocase(text, slice_str(words[is_on][i]))) {
                                ret->num = is_on;
                                return OK;
                        }
        return problem_set(problem, ERR_BADARG, "the value must be true or false");
}

static int parse_level(struct slice text, struct value *ret, struct problem *problem)
{
        for (int level = LEVEL_ELEVATED; level <= (int)LEVEL_CRITICAL; level++)
                if (slice_eq_nocase(text, slice_str(level_name((enum level)level)))) {
                        ret->num = level;
                        return OK;
                }
        return problem_set(problem, ERR_BADARG, "the value must be elevated or critical");
}

static int value_parse(const struct knob *k, struct slice text, struct value *ret,
                       struct problem *problem)
{
        *ret = (struct value){0};
        switch (k->type) {
        case KNOB_BOOL:
                return parse_bool(text, ret, problem);
        case KNOB_MODE:
                ret->num = mode_from_name(text);
                return ret->num >= 0 ? OK
                                     : problem_set(problem, ERR_BADARG,
                                                   "the value must be off, test_observe, observe "
                                                   "or enforce");
        case KNOB_LEVEL:
                return parse_level(text, ret, problem);
        case KNOB_EXPIRY:
                ret->num = slice_eq_nocase(text, slice_str(expiry_words[1]));
                return ret->num || slice_eq_nocase(text, slice_str(expiry_words[0]))
                               ? OK
                               : problem_set(problem, ERR_BADARG,
                                             "the value must be start or expire");
        case KNOB_DURATION:
        case KNOB_INT:
                return parse_bounded(k, text, ret, problem);
        case KNOB_PAIR:
                return parse_pair(text, ret, problem);
        case KNOB_NUMBER:
                return parse_number(text, &ret->a)
                               ? OK
                               : problem_set(problem, ERR_BADARG, "the value must be a number");
        }
        return ERR_INTERNAL;
}

/* ---- values in their places ---- */

static struct value policy_value(const struct policy *p, const struct knob *k)
{
        struct value v = {0};
        switch (k->place) {
        case AT_MODE:
                v.num = p->mode;
                break;
        case AT_MAX_DEFERRAL:
                v.num = (int64_t)p->max_deferral_ms;
                break;
        case AT_DEFERRALS:
                v.num = p->deferrals_per_hour;
                break;
        case AT_QUEUE_AGE:
                v.num = p->queue_age_ms;
                break;
        case AT_QUEUE_LEVEL:
                v.num = p->queue_level;
                break;
        case AT_EXPIRY_MARGIN:
                v.num = p->expiry_margin_ms;
                break;
        case AT_EXPIRY:
                v.num = p->lets_expire[k->tier];
                break;
        case AT_DELAY:
                v.num = p->delay_ms[k->level][k->tier];
                break;
        case AT_CLAIM_SIZE:
                v.num = p->caps[k->level].claim_size;
                break;
        case AT_CLAIMS:
                v.num = p->caps[k->level].claims;
                break;
        case AT_ENABLED:
        case AT_LOCKS:
        case AT_PAUSED:
        case AT_CHECK_MODE:
        case AT_DWELL:
        case AT_ELEVATED:
        case AT_CRITICAL:
        case AT_CHECK:
                break; /* not in the policy */
        }
        return v;
}

static struct value rule_value(const struct level_rule *rule, const struct knob *k)
{
        int i = k->place == AT_CRITICAL;
        return (struct value){.a = rule->enter[i], .b = rule->exit[i]};
}

static struct value configured_value(const struct core *core, const struct knob *k)
{
        const struct throttle *t = core->throttle;
        const struct target *g = k->target >= 0 ? &t->targets[k->target] : NULL;
        if (k->place == AT_ENABLED)
                return (struct value){.num = !t->is_off_configured};
        if (k->place == AT_LOCKS)
                return (struct value){.num = !core->are_locks_off_configured};
        if (k->place == AT_PAUSED)
                return (struct value){.num = false}; /* an act of an operator: no file says it */
        if (k->place == AT_CHECK_MODE)
                return (struct value){.num = core->checks.mode};
        if (!g)
                return policy_value(&t->configured, k);
        if (k->place == AT_DWELL)
                return (struct value){.num = g->dwell_configured_ns / NS_PER_MS};
        if (k->place == AT_CHECK)
                return (struct value){.a = g->metrics[k->metric].check_configured};
        return rule_value(&g->metrics[k->metric].configured, k);
}

/* False: it depends on the metric, and only what is configured is known. */
static bool default_value(const struct knob *k, struct value *ret)
{
        struct policy policy;
        if (k->place == AT_ENABLED || k->place == AT_LOCKS)
                *ret = (struct value){.num = true};
        else if (k->place == AT_PAUSED)
                *ret = (struct value){.num = false};
        else if (k->place == AT_CHECK_MODE)
                *ret = (struct value){.num = MODE_ENFORCE};
        else if (k->place == AT_DWELL)
                *ret = (struct value){.num = DWELL_MS};
        else if (k->target >= 0)
                return false;
        else {
                policy_init(&policy);
                *ret = policy_value(&policy, k);
        }
        return true;
}

static void put_policy(struct policy *p, const struct knob *k, const struct value *v)
{
        if (k->place == AT_MAX_DEFERRAL)
                p->max_deferral_ms = (uint64_t)v->num;
        else if (k->place == AT_QUEUE_AGE)
                p->queue_age_ms = (uint32_t)v->num;
        else if (k->place == AT_QUEUE_LEVEL)
                p->queue_level = (enum level)v->num;
        else if (k->place == AT_DEFERRALS)
                p->deferrals_per_hour = (uint32_t)v->num;
        else if (k->place == AT_EXPIRY_MARGIN)
                p->expiry_margin_ms = (uint32_t)v->num;
        else if (k->place == AT_EXPIRY)
                p->lets_expire[k->tier] = v->num;
        else if (k->place == AT_DELAY)
                p->delay_ms[k->level][k->tier] = (uint32_t)v->num;
        else if (k->place == AT_CLAIM_SIZE)
                p->caps[k->level].claim_size = (uint32_t)v->num;
        else if (k->place == AT_CLAIMS)
                p->caps[k->level].claims = (uint32_t)v->num;
}

static void put_rule(struct level_rule *rule, const struct knob *k, const struct value *v)
{
        int i = k->place == AT_CRITICAL;
        rule->enter[i] = v->a;
        rule->exit[i] = v->b;
}

static void put_value(struct core *core, const struct knob *k, const struct value *v)
{
        struct throttle *t = core->throttle;
        struct target *g = k->target >= 0 ? &t->targets[k->target] : NULL;
        if (k->place == AT_ENABLED)
                t->is_off = !v->num;
        else if (k->place == AT_LOCKS)
                core->are_locks_off = !v->num;
        else if (k->place == AT_PAUSED)
                core->is_everything_paused = v->num;
        else if (!g)
                put_policy(&t->policy, k, v);
        else if (k->place == AT_DWELL)
                g->dwell_ns = v->num * NS_PER_MS;
        else if (k->place == AT_CHECK)
                g->metrics[k->metric].check_above = v->a;
        else
                put_rule(&g->rules[k->metric], k, v);
}

/* ---- what was set ---- */

static const struct setting *find_setting(const struct core *core, struct slice name)
{
        const struct thing *t = thing_find(&core->state, THING_SETTING, name);
        return t ? CONTAINER_OF(t, const struct setting, thing) : NULL;
}

/* False: it was not set, or what was set cannot be read. */
static bool set_value(const struct core *core, const struct knob *k, struct value *ret)
{
        const struct setting *s = find_setting(core, slice_str(k->name));
        struct problem unused;
        return s && value_parse(k, buf_slice(&s->bytes), ret, &unused) == OK;
}

static bool is_ordered(const struct level_rule *r)
{
        return !(r->enter[1] < r->enter[0]); /* true with a NAN */
}

/* Those of one metric that do not go together give way to what is configured. */
static void check_target(struct target *g)
{
        for (size_t i = 0; i < g->n_metrics; i++) {
                if (is_ordered(&g->rules[i]))
                        continue;
                g->rules[i] = g->metrics[i].configured;
                say_warn("gate",
                         "thresholds that were set do not go with what is configured, ignoring",
                         "target", g->name, "metric", g->metrics[i].name);
        }
}

/* Puts what was set on top of what is configured: into the policy, the rules and dwells of the
 * targets, is_off, and are_locks_off.  By throttle_refresh(), which does the modes itself. */
static void settings_apply(struct core *core)
{
        struct throttle *t = core->throttle;
        struct knob k;
        struct value v;
        bool were_locks_off = core->are_locks_off, was_paused = core->is_everything_paused;
        t->is_off = t->is_off_configured;
        core->are_locks_off = core->are_locks_off_configured;
        core->is_everything_paused = false;
        for (size_t i = 0; i < t->n_targets; i++) {
                struct target *g = &t->targets[i];
                g->dwell_ns = g->dwell_configured_ns;
                for (size_t m = 0; m < g->n_metrics; m++) {
                        g->rules[m] = g->metrics[m].configured;
                        g->metrics[m].check_above = g->metrics[m].check_configured;
                }
        }
        for (size_t i = 0; knob_at(core, i, &k); i++)
                if (set_value(core, &k, &v))
                        put_value(core, &k, &v);
        for (size_t i = 0; i < t->n_targets; i++)
                check_target(&t->targets[i]);
        if (core->are_locks_off && !were_locks_off)
                locks_switched_off(core);
        if (was_paused && !core->is_everything_paused)
                claim_wake_all(core);
}

void core_set_locks(struct core *core, bool is_off)
{
        core->are_locks_off_configured = is_off;
        core->throttle->settings_seen = UINT64_MAX;
        if (core->now.wall_ms) /* else the first turn does it */
                throttle_refresh(core);
}

/* ---- for the configuration ---- */

static bool is_registry(const struct hash_node *n)
{
        const size_t skip = sizeof(SETTING_REGISTRY) - 1;
        return n->key.len > skip && memcmp(n->key.ptr, SETTING_REGISTRY, skip) == 0;
}

void core_each_pattern(const struct core *core,
                       void (*fn)(void *ctx, struct slice pattern, enum tier tier), void *ctx)
{
        const struct hash *all = &core->state.things[THING_SETTING];
        const size_t skip = sizeof(SETTING_REGISTRY) - 1;
        for (struct hash_node *it = NULL; (it = hash_next(all, it));) {
                const struct setting *s = CONTAINER_OF(it, const struct setting, thing.node);
                int tier = is_registry(it) ? tier_from_name(buf_slice(&s->bytes)) : -1;
                if (tier >= 0)
                        fn(ctx, slice_make(it->key.ptr + skip, it->key.len - skip),
                           (enum tier)tier);
        }
}

static void count_pattern(void *ctx, struct slice pattern, enum tier tier)
{
        (void)pattern; /* that there is one is enough */
        (void)tier;
        *(bool *)ctx = true;
}

void core_effective(struct core *core, struct core_effective *ret)
{
        struct throttle *t = core->throttle;
        struct knob k;
        struct value v;
        throttle_refresh(core);
        *ret = (struct core_effective){.policy = t->policy,
                                       .is_off = t->is_off,
                                       .check_mode = check_mode(core),
                                       .are_locks_off = core->are_locks_off};
        ret->policy.mode = t->mode;
        ret->policy.is_paused = false;
        core_each_pattern(core, count_pattern, &ret->is_throttle_changed);
        for (size_t i = 0; knob_at(core, i, &k); i++) {
                if (k.target >= 0 || !set_value(core, &k, &v))
                        continue;
                if (k.place == AT_LOCKS)
                        ret->are_locks_changed = true;
                else if (k.place != AT_PAUSED) /* no file says it */
                        ret->is_throttle_changed = true;
        }
}

bool core_effective_target(struct core *core, const char *name, struct level_rule *rules,
                           double *check_above, int64_t *ret_dwell_ns, bool *ret_is_changed)
{
        int target = throttle_target(core, slice_str(name));
        struct knob k;
        struct value v;
        throttle_refresh(core);
        if (target < 0)
                return false;
        const struct target *g = &core->throttle->targets[target];
        *ret_dwell_ns = g->dwell_ns;
        *ret_is_changed = false;
        for (size_t i = 0; i < g->n_metrics; i++) {
                rules[i] = g->rules[i];
                check_above[i] = g->metrics[i].check_above;
        }
        for (size_t i = 0; knob_at(core, i, &k); i++)
                *ret_is_changed |= k.target == target && set_value(core, &k, &v);
        return true;
}

/* ---- commands ---- */

static void tell_value(struct reply *reply, const char *key, const struct knob *k,
                       const struct value *v)
{
        char room[VALUE_MAX];
        const char *text = v ? value_text(k, v, room) : "";
        reply_key(reply, key);
        if (*text)
                reply_str(reply, text);
        else
                reply_null(reply);
}

static void tell_bound(struct reply *reply, const char *key, const struct knob *k, int64_t bound)
{
        struct value v = {.num = bound};
        bool is_bounded = k->type == KNOB_DURATION || k->type == KNOB_INT;
        tell_value(reply, key, k, is_bounded ? &v : NULL);
}

static void tell_choices(struct reply *reply, const struct knob *k)
{
        static const struct {
                const char *const *words;
                size_t n;
        } choices[] = {
                [KNOB_MODE] = {mode_words, ARRAY_LEN(mode_words)},
                [KNOB_LEVEL] = {level_words, ARRAY_LEN(level_words)},
                [KNOB_EXPIRY] = {expiry_words, ARRAY_LEN(expiry_words)},
        };
        size_t n = choices[k->type].n;
        reply_key(reply, "choices");
        reply_list(reply, n);
        for (size_t i = 0; i < n; i++)
                reply_str(reply, choices[k->type].words[i]);
        reply_end(reply);
}

static void tell_knob(const struct core *core, struct reply *reply, const struct knob *k)
{
        struct value configured = configured_value(core, k), usual = {0}, set = {0};
        bool is_set = set_value(core, k, &set), has_default = default_value(k, &usual);
        reply_map(reply, 11);
        tell_str(reply, "name", k->name);
        tell_value(reply, "value", k, is_set ? &set : &configured);
        tell_value(reply, "default", k, has_default ? &usual : NULL);
        tell_value(reply, "configured", k, &configured);
        tell_str(reply, "type", type_names[k->type]);
        tell_choices(reply, k);
        tell_bound(reply, "min", k, k->min);
        tell_bound(reply, "max", k, k->max);
        tell_str(reply, "unit", k->unit);
        tell_str(reply, "text", k->text);
        reply_key(reply, "is_changed");
        reply_bool(reply, is_set);
        reply_end(reply);
}

int exec_settings(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        struct knob k;
        size_t n = 0;
        while (knob_at(core, n, &k))
                n++;
        throttle_refresh(core);
        reply_wrap(reply, "settings");
        reply_list(reply, n);
        for (size_t i = 0; knob_at(core, i, &k); i++)
                tell_knob(core, reply, &k);
        reply_end(reply);
        return OK;
}

/* Would the policy or the metric of the knob be sound with this value? */
static int check_together(const struct core *core, const struct knob *k, const struct value *v,
                          struct problem *problem)
{
        const struct throttle *t = core->throttle;
        if (k->type == KNOB_PAIR) {
                struct level_rule rule = t->targets[k->target].rules[k->metric];
                put_rule(&rule, k, v);
                return is_ordered(&rule) ? OK
                                         : problem_set(problem, ERR_BADARG,
                                                       "critical must not begin below elevated: "
                                                       "elevated %g, critical %g",
                                                       rule.enter[0], rule.enter[1]);
        }
        struct policy policy = t->policy;
        put_policy(&policy, k, v);
        return policy_check(&policy, problem);
}

static int unknown_name(struct slice name, struct problem *problem)
{
        return problem_set(problem, ERR_NOTFOUND,
                           "there is no setting '%.*s'; the list of settings has all",
                           (int)name.len, name.ptr);
}

static void change(struct core *core, const struct knob *k, const char *text)
{
        struct value was;
        char room[VALUE_MAX], shown[VALUE_MAX];
        if (!set_value(core, k, &was))
                was = configured_value(core, k);
        (void)snprintf(shown, sizeof(shown), "%s", value_text(k, &was, room));
        if (text)
                setting_set(core, slice_str(k->name), 0, slice_str(text));
        else
                (void)setting_unset(core, slice_str(k->name)); /* looked up before */
        throttle_tell(core, "setting_changed", "%s: %s -> %s", k->name, *shown ? shown : "none",
                      text ? text : "as configured");
        say_info("gate", "setting_changed", "name", k->name, "from", shown, "to",
                 text ? text : "as configured");
}

int exec_settingset(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may steer */
        struct slice name = cmd->arg[P_SETTINGSET_NAME].text;
        struct knob k;
        struct value v;
        char room[VALUE_MAX];
        throttle_refresh(core);
        if (!knob_find(core, name, &k))
                return unknown_name(name, problem);
        int r = value_parse(&k, trim(cmd->arg[P_SETTINGSET_VALUE].text), &v, problem);
        if (r == OK)
                r = check_together(core, &k, &v, problem);
        bool is_new = !find_setting(core, name); /* else it takes the place of that one */
        if (r == OK && is_new)
                r = setting_admit(core, problem);
        if (r == OK && is_new)
                r = core_admit(core, name.len + VALUE_MAX + 64, 0, problem);
        if (r != OK)
                return r;
        change(core, &k, value_text(&k, &v, room));
        throttle_refresh(core);
        parking_turn(core);
        reply_ok(reply);
        return OK;
}

/* Set for a target that is gone meanwhile: nothing reads it, and it may be taken back. */
static bool is_left_over(const struct core *core, struct slice name)
{
        return name.len > 7 && memcmp(name.ptr, "target.", 7) == 0 && find_setting(core, name);
}

int exec_settingunset(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may steer */
        struct slice name = cmd->arg[P_SETTINGUNSET_NAME].text;
        struct knob k;
        bool is_known = knob_find(core, name, &k);
        if (!is_known && !is_left_over(core, name))
                return unknown_name(name, problem);
        if (!is_known)
                (void)setting_unset(core, name); /* it is there */
        else if (find_setting(core, name))
                change(core, &k, NULL);
        throttle_refresh(core);
        parking_turn(core);
        reply_ok(reply);
        return OK;
}

static const struct throttle_listener listener = {.apply_settings = settings_apply};

static void settings_init(struct core *core)
{
        throttle_listen(core, &listener);
}

const struct feature settings_feature = {.name = "settings", .init = settings_init};
