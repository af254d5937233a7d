/* See config_throttle.h. */
#include "serve/config_throttle.h"

#include <stdlib.h>

#include "api/limits.h"
#include "base/duration.h"
#include "cli/text.h"

#define CREDITS_MAX    1000000
#define CREDITS_MIN_MS 100
#define CREDITS_MAX_MS 60000

void config_throttle_init(struct config_throttle *c)
{
        *c = (struct config_throttle){0};
        policy_init(&c->policy);
        zone_rule_init(&c->zone);
        c->checks = (struct core_checks){
                .mode = MODE_ENFORCE, /* whoever asks wants to know */
                .rule_max_ms = 7 * MS_PER_DAY,
                .starved_ms = 5 * MS_PER_MIN,
                .exempt_budget = 0.2,
        };
        credit_rule_init(&c->checks.credit);
}

cfg_opt_t *config_throttle_opts(void)
{
        static cfg_opt_t level_opts[] = {
                CFG_STR_LIST("delays", NULL, CFGF_NODEFAULT),
                CFG_INT("claim_size", -1, CFGF_NONE),
                CFG_INT("claims", -1, CFGF_NONE),
                CFG_END(),
        };
        static cfg_opt_t opts[] = {
                CFG_BOOL("enabled", cfg_true, CFGF_NONE),
                CFG_STR("mode", NULL, CFGF_NODEFAULT),
                CFG_INT("ramp_cycles", 0, CFGF_NONE),
                CFG_STR("ramp_cycle", NULL, CFGF_NODEFAULT),
                CFG_STR("max_deferral", NULL, CFGF_NODEFAULT),
                CFG_INT("deferrals_per_hour", -1, CFGF_NONE),
                CFG_STR("expiry_margin", NULL, CFGF_NODEFAULT),
                CFG_STR_LIST("expire", NULL, CFGF_NODEFAULT),
                CFG_STR_LIST("registry", NULL, CFGF_NODEFAULT),
                CFG_STR("adaptive", NULL, CFGF_NODEFAULT),
                CFG_INT_LIST("adaptive_limit", NULL, CFGF_NODEFAULT),
                CFG_FLOAT_LIST("queue_depth", NULL, CFGF_NODEFAULT),
                CFG_STR("queue_age", NULL, CFGF_NODEFAULT),
                CFG_STR("queue_level", NULL, CFGF_NODEFAULT),
                CFG_STR("check_mode", NULL, CFGF_NODEFAULT),
                CFG_STR("rule_max", NULL, CFGF_NODEFAULT),
                CFG_BOOL("rule_endless", cfg_false, CFGF_NONE),
                CFG_STR("starved_after", NULL, CFGF_NODEFAULT),
                CFG_FLOAT("exempt_budget", 0, CFGF_NODEFAULT),
                CFG_BOOL("exempt_ends", cfg_false, CFGF_NONE),
                CFG_INT("credits_max", 0, CFGF_NODEFAULT),
                CFG_STR("credits_time", NULL, CFGF_NODEFAULT),
                CFG_SEC("level", level_opts, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
                CFG_END(),
        };
        return opts;
}

static int take_duration(cfg_t *cfg, const char *name, int64_t *ret, struct problem *problem)
{
        const char *text = cfg_getstr(cfg, name);
        return text ? duration_parse(name, text, ret, problem) : OK;
}

static int take_delays(cfg_t *section, uint32_t *delays, struct problem *problem)
{
        unsigned n = cfg_size(section, "delays");
        if (n == 0)
                return OK;
        if (n != TIERS)
                return problem_set(problem, ERR_BADARG,
                                   "throttle level \"%s\": delays takes %d durations (critical, "
                                   "high, normal, deferrable), not %u",
                                   cfg_title(section), TIERS, n);
        for (unsigned i = 0; i < n; i++) {
                int64_t ms = 0;
                int r = duration_parse("delays", cfg_getnstr(section, "delays", i), &ms, problem);
                if (r != OK)
                        return r;
                if (ms > UINT32_MAX)
                        return problem_set(problem, ERR_BADARG,
                                           "throttle level \"%s\": a delay may be 49 days long",
                                           cfg_title(section));
                delays[i] = (uint32_t)ms;
        }
        return OK;
}

static int take_level(struct policy *p, cfg_t *section, struct problem *problem)
{
        const char *name = cfg_title(section);
        int level = -1;
        for (int i = LEVEL_ELEVATED; i < LEVELS; i++)
                if (strcmp(name, level_name((enum level)i)) == 0)
                        level = i;
        if (level < 0)
                return problem_set(problem, ERR_BADARG,
                                   "throttle: level must be \"elevated\", \"critical\" or "
                                   "\"unknown\", not \"%s\"",
                                   name);
        long size = cfg_getint(section, "claim_size"), claims = cfg_getint(section, "claims");
        if (size > 100000 || claims > 100000)
                return problem_set(problem, ERR_BADARG,
                                   "throttle level \"%s\": claim_size and claims may be 100000",
                                   name);
        if (size >= 0)
                p->caps[level].claim_size = (uint32_t)size;
        if (claims >= 0)
                p->caps[level].claims = (uint32_t)claims;
        return take_delays(section, p->delay_ms[level], problem);
}

static int take_mode(cfg_t *section, const char *name, enum gate_mode *ret, struct problem *problem)
{
        const char *text = cfg_getstr(section, name);
        int mode = text ? mode_from_name(slice_str(text)) : (int)*ret;
        if (mode < 0)
                return problem_set(problem, ERR_BADARG,
                                   "throttle: %s must be off, test_observe, observe or enforce, "
                                   "not '%s'",
                                   name, text);
        *ret = (enum gate_mode)mode;
        return OK;
}

/* queue_depth = {100, 50, 500, 250}: elevated enter and exit, critical enter and exit. */
static int take_queue_depth(struct config_throttle *c, cfg_t *section, struct problem *problem)
{
        unsigned n = cfg_size(section, "queue_depth");
        double v[4] = {0};
        if (n == 0)
                return OK;
        for (unsigned i = 0; i < n && i < 4; i++)
                v[i] = cfg_getnfloat(section, "queue_depth", i);
        if (n != 4 || !(v[1] <= v[0] && v[3] <= v[2] && v[0] <= v[2] && v[1] >= 0))
                return problem_set(problem, ERR_BADARG,
                                   "throttle: queue_depth takes four numbers: elevated enter and "
                                   "exit, critical enter and exit, e.g. {100, 50, 500, 250}");
        c->has_queue_depth = true;
        c->queue_depth = (struct level_rule){
                .enter = {v[0], v[2]}, .exit = {v[1], v[3]}, .stale_ns = 10 * NS_PER_S};
        return OK;
}

/* queue_age = "60s", queue_level = "elevated": when and as what the depth alone counts. */
static int take_queue_bounds(struct policy *p, cfg_t *section, struct problem *problem)
{
        const char *level = cfg_getstr(section, "queue_level");
        int64_t ms = p->queue_age_ms;
        int r = take_duration(section, "queue_age", &ms, problem);
        if (r != OK)
                return r;
        if (ms > MS_PER_DAY)
                return problem_set(problem, ERR_BADARG, "throttle: queue_age must be 0s to 1d");
        p->queue_age_ms = (uint32_t)ms;
        if (!level)
                return OK;
        for (int i = LEVEL_ELEVATED; i <= (int)LEVEL_CRITICAL; i++)
                if (strcmp(level, level_name((enum level)i)) == 0) {
                        p->queue_level = (enum level)i;
                        return OK;
                }
        return problem_set(problem, ERR_BADARG,
                           "throttle: queue_level must be \"elevated\" or \"critical\", not \"%s\"",
                           level);
}

/* adaptive = "observe", adaptive_limit = {1, 10, 1000}: smallest, first and largest. */
static int take_adaptive(struct config_throttle *c, cfg_t *section, struct problem *problem)
{
        const char *text = cfg_getstr(section, "adaptive");
        unsigned n = cfg_size(section, "adaptive_limit");
        int mode = text ? mode_from_name(slice_str(text)) : MODE_OFF;
        if (mode < 0 || mode == MODE_TEST_OBSERVE)
                return problem_set(problem, ERR_BADARG,
                                   "throttle: adaptive must be off, observe or enforce, not '%s'",
                                   text);
        c->adaptive = (enum gate_mode)mode;
        if (n == 0)
                return OK;
        if (n != 3)
                return problem_set(problem, ERR_BADARG,
                                   "throttle: adaptive_limit takes three numbers: smallest, first "
                                   "and largest, e.g. {1, 10, 1000}");
        c->zone.min = (uint32_t)cfg_getnint(section, "adaptive_limit", 0);
        c->zone.start = (uint32_t)cfg_getnint(section, "adaptive_limit", 1);
        c->zone.max = (uint32_t)cfg_getnint(section, "adaptive_limit", 2);
        return zone_rule_check(&c->zone, problem);
}

static int take_bounded(cfg_t *section, const char *name, int64_t min_ms, int64_t max_ms,
                        int64_t *ret, struct problem *problem)
{
        char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
        int64_t ms = *ret;
        int r = take_duration(section, name, &ms, problem);
        if (r == OK && (ms < min_ms || ms > max_ms))
                r = problem_set(problem, ERR_BADARG, "throttle: %s must be %s to %s, not '%s'",
                                name, duration_text(min_ms, least), duration_text(max_ms, most),
                                cfg_getstr(section, name));
        if (r == OK)
                *ret = ms;
        return r;
}

static int take_credits(struct credit_rule *rule, cfg_t *section, struct problem *problem)
{
        bool has_max = cfg_size(section, "credits_max") != 0;
        long max = has_max ? cfg_getint(section, "credits_max") : 0;
        int64_t ms = rule->ms;
        if (max < 0 || max > CREDITS_MAX)
                return problem_set(problem, ERR_BADARG,
                                   "throttle: credits_max must be 0 (none) to %d, not %ld",
                                   CREDITS_MAX, max);
        if (has_max)
                rule->max = (uint32_t)max;
        int r = take_bounded(section, "credits_time", CREDITS_MIN_MS, CREDITS_MAX_MS, &ms, problem);
        rule->ms = (uint32_t)ms;
        return r == OK ? credit_rule_check(rule, problem) : r;
}

static int take_exemptions(struct core_checks *c, cfg_t *section, struct problem *problem)
{
        if (cfg_size(section, "exempt_budget"))
                c->exempt_budget = cfg_getfloat(section, "exempt_budget");
        if (!(c->exempt_budget > 0 && c->exempt_budget <= 1)) /* NAN too */
                return problem_set(problem, ERR_BADARG,
                                   "throttle: exempt_budget is a share of time, above 0 and at "
                                   "most 1, not %g",
                                   c->exempt_budget);
        c->exempt_ends = cfg_getbool(section, "exempt_ends") == cfg_true;
        return OK;
}

/* The check door: checks, rules, the starved, exemptions, credits. */
static int take_checks(struct core_checks *c, cfg_t *section, struct problem *problem)
{
        c->is_endless_allowed = cfg_getbool(section, "rule_endless") == cfg_true;
        int r = take_mode(section, "check_mode", &c->mode, problem);
        if (r == OK)
                r = take_bounded(section, "rule_max", MS_PER_MIN, LIMIT_RULE_MS, &c->rule_max_ms,
                                 problem);
        if (r == OK)
                r = take_bounded(section, "starved_after", MS_PER_S, MS_PER_DAY, &c->starved_ms,
                                 problem);
        if (r == OK)
                r = take_exemptions(c, section, problem);
        return r == OK ? take_credits(&c->credit, section, problem) : r;
}

void config_throttle_release(struct config_throttle *c)
{
        for (size_t i = 0; i < c->n_registry; i++)
                free(c->registry_texts[i]);
        free(c->registry_texts);
        free(c->registry);
        c->registry_texts = NULL;
        c->registry = NULL;
        c->n_registry = 0;
}

/* registry = {"my_sync_*=deferrable", "checkout=critical"} */
static int take_registry(struct config_throttle *c, cfg_t *section, struct problem *problem)
{
        unsigned n = cfg_size(section, "registry");
        c->registry = xcalloc(n + 1, sizeof(*c->registry));
        c->registry_texts = xcalloc(n + 1, sizeof(char *));
        for (unsigned i = 0; i < n; i++) {
                const char *text = cfg_getnstr(section, "registry", i);
                const char *equals = strrchr(text, '=');
                int tier = equals ? tier_from_name(slice_str(equals + 1)) : -1;
                if (tier < 0)
                        return problem_set(
                                problem, ERR_BADARG,
                                "throttle: registry takes \"PATTERN=TIER\" with critical, "
                                "high, normal or deferrable, not \"%s\"",
                                text);
                struct slice pattern = slice_make(text, (size_t)(equals - text));
                int r = registry_check_pattern(pattern, problem);
                if (r != OK)
                        return r;
                char *copy = c->registry_texts[c->n_registry] = xstrdup(text);
                c->registry[c->n_registry++] =
                        (struct registry_entry){slice_make(copy, pattern.len), (enum tier)tier};
        }
        return OK;
}

/* expiry_margin = "60s" expire = {"deferrable"} */
static int take_expiry(struct policy *p, cfg_t *section, struct problem *problem)
{
        int64_t margin_ms = p->expiry_margin_ms;
        int r = take_bounded(section, "expiry_margin", MS_PER_S, GATE_MARGIN_MAX_MS, &margin_ms,
                             problem);
        p->expiry_margin_ms = (uint32_t)margin_ms;
        for (unsigned i = 0; r == OK && i < cfg_size(section, "expire"); i++) {
                const char *text = cfg_getnstr(section, "expire", i);
                int tier = tier_from_name(slice_str(text));
                if (tier <= TIER_CRITICAL)
                        return problem_set(
                                problem, ERR_BADARG,
                                "throttle: expire takes high, normal and deferrable, not \"%s\"",
                                text);
                p->lets_expire[tier] = true;
        }
        return r;
}

int config_throttle_take(struct config_throttle *c, cfg_t *cfg, struct problem *problem)
{
        cfg_t *section = cfg_getsec(cfg, "throttle");
        if (!section)
                return OK;
        long cycles = cfg_getint(section, "ramp_cycles");
        long per_hour = cfg_getint(section, "deferrals_per_hour");
        c->is_off = cfg_getbool(section, "enabled") != cfg_true;
        int64_t cycle_ms = 0, max_ms = (int64_t)c->policy.max_deferral_ms;
        int r = take_mode(section, "mode", &c->policy.mode, problem);
        if (r == OK && (cycles < 0 || cycles > 1000))
                r = problem_set(problem, ERR_BADARG, "throttle: ramp_cycles must be 1 to 1000");
        if (r == OK)
                r = take_duration(section, "ramp_cycle", &cycle_ms, problem);
        if (r == OK)
                r = take_duration(section, "max_deferral", &max_ms, problem);
        if (r == OK)
                r = take_expiry(&c->policy, section, problem);
        if (r == OK)
                r = take_queue_depth(c, section, problem);
        if (r == OK)
                r = take_queue_bounds(&c->policy, section, problem);
        if (r == OK)
                r = take_adaptive(c, section, problem);
        if (r == OK)
                r = take_checks(&c->checks, section, problem);
        if (r == OK)
                r = take_registry(c, section, problem);
        for (unsigned i = 0; r == OK && i < cfg_size(section, "level"); i++)
                r = take_level(&c->policy, cfg_getnsec(section, "level", i), problem);
        if (r != OK)
                return r;
        c->ramp_cycles = (unsigned)cycles;
        c->ramp_cycle_ns = cycle_ms * NS_PER_MS;
        c->policy.max_deferral_ms = (uint64_t)max_ms;
        if (per_hour >= 0)
                c->policy.deferrals_per_hour = (uint32_t)per_hour;
        return policy_check(&c->policy, problem);
}
