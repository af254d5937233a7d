/* See config_throttle.h.
 *
 * Most settings are taken by their rows (config_rows.h); here are the lists, and what must hold
 * between several. */
#include "serve/config_throttle.h"

#include <stdlib.h>

#include "base/duration.h"
#include "base/shown.h"
#include "cli/text.h"
#include "serve/config_rows.h"

void config_throttle_init(struct config_throttle *c)
{
        *c = (struct config_throttle){0};
        policy_init(&c->policy);
        zone_rule_init(&c->zone);
        credit_rule_init(&c->checks.credit);
        struct config_at at = {.section = SECTION_THROTTLE, .own = c};
        config_rows_init(&at);
}

static int take_delays(const struct config_at *at, uint32_t *delays, cfg_t *section)
{
        unsigned n = cfg_size(section, "delays");
        if (n == 0)
                return OK;
        if (n != TIERS)
                return config_wrong(at, ERR_BADARG,
                                    "delays takes %d durations (critical, high, normal, "
                                    "deferrable), not %u",
                                    TIERS, n);
        for (unsigned i = 0; i < n; i++) {
                struct problem why;
                int64_t ms = 0;
                int r = duration_parse("delays", cfg_getnstr(section, "delays", i), &ms, &why);
                if (r != OK)
                        return config_wrong(at, r, "%s", why.detail);
                if (ms > UINT32_MAX)
                        return config_wrong(at, ERR_BADARG, "a delay may be 49 days long");
                delays[i] = (uint32_t)ms;
        }
        return OK;
}

static int take_level(struct policy *p, cfg_t *section, const struct config_at *throttle)
{
        const char *name = cfg_title(section);
        int level = LEVEL_ELEVATED;
        while (level < LEVELS && strcmp(name, level_name((enum level)level)) != 0)
                level++;
        if (level == LEVELS)
                return config_wrong(throttle, ERR_BADARG,
                                    "level must be \"elevated\", \"critical\" or \"unknown\", "
                                    "not \"%s\"",
                                    name);
        struct config_at at = {
                .section = SECTION_LEVEL, .own = &p->caps[level], .problem = throttle->problem};
        (void)snprintf(at.where, sizeof(at.where), "throttle level \"%s\": ", name);
        int r = config_rows_take(&at, section);
        return r == OK ? take_delays(&at, p->delay_ms[level], section) : r;
}

/* queue_depth = {100, 50, 500, 250}: elevated enter and exit, critical enter and exit. */
static int take_queue_depth(struct config_throttle *c, cfg_t *section, const struct config_at *at)
{
        unsigned n = cfg_size(section, "queue_depth");
        double v[4] = {0};
        if (n == 0)
                return OK;
        for (unsigned i = 0; i < n && i < 4; i++)
                v[i] = cfg_getnfloat(section, "queue_depth", i);
        if (n != 4 || !(v[1] <= v[0] && v[3] <= v[2] && v[0] <= v[2] && v[1] >= 0))
                return config_wrong(at, ERR_BADARG,
                                    "queue_depth takes four numbers: elevated enter and exit, "
                                    "critical enter and exit, e.g. {100, 50, 500, 250}");
        c->has_queue_depth = true;
        c->queue_depth = (struct level_rule){
                .enter = {v[0], v[2]}, .exit = {v[1], v[3]}, .stale_ns = 10 * NS_PER_S};
        return OK;
}

/* adaptive_limit = {1, 10, 1000}: smallest, first and largest. */
static int take_adaptive_limit(struct zone_rule *zone, cfg_t *section, const struct config_at *at)
{
        unsigned n = cfg_size(section, "adaptive_limit");
        if (n == 0)
                return OK;
        if (n != 3)
                return config_wrong(at, ERR_BADARG,
                                    "adaptive_limit takes three numbers: smallest, first and "
                                    "largest, e.g. {1, 10, 1000}");
        zone->min = (uint32_t)cfg_getnint(section, "adaptive_limit", 0);
        zone->start = (uint32_t)cfg_getnint(section, "adaptive_limit", 1);
        zone->max = (uint32_t)cfg_getnint(section, "adaptive_limit", 2);
        return zone_rule_check(zone, at->problem);
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
static int take_registry(struct config_throttle *c, cfg_t *section, const struct config_at *at)
{
        unsigned n = cfg_size(section, "registry");
        c->registry = xcalloc(n + 1, sizeof(*c->registry));
        c->registry_texts = xcalloc(n + 1, sizeof(char *));
        for (unsigned i = 0; i < n; i++) {
                const char *text = cfg_getnstr(section, "registry", i);
                const char *equals = strrchr(text, '=');
                int tier = equals ? tier_from_name(slice_str(equals + 1)) : -1;
                if (tier < 0)
                        return config_wrong(at, ERR_BADARG,
                                            "registry takes \"PATTERN=TIER\" with critical, high, "
                                            "normal or deferrable, not \"%s\"",
                                            text);
                struct slice pattern = slice_make(text, (size_t)(equals - text));
                int r = registry_check_pattern(pattern, at->problem);
                if (r != OK)
                        return r;
                char *copy = c->registry_texts[c->n_registry] = xstrdup(text);
                c->registry[c->n_registry++] =
                        (struct registry_entry){slice_make(copy, pattern.len), (enum tier)tier};
        }
        return OK;
}

/* expire = {"deferrable"} */
static int take_expire(struct policy *p, cfg_t *section, const struct config_at *at)
{
        for (unsigned i = 0; i < cfg_size(section, "expire"); i++) {
                const char *text = cfg_getnstr(section, "expire", i);
                int tier = tier_from_name(slice_str(text));
                if (tier <= TIER_CRITICAL)
                        return config_wrong(at, ERR_BADARG,
                                            "expire takes high, normal and deferrable, not \"%s\"",
                                            text);
                p->lets_expire[tier] = true;
        }
        return OK;
}

int config_throttle_take(struct config_throttle *c, cfg_t *section, struct problem *problem)
{
        struct config_at at = {
                .section = SECTION_THROTTLE, .where = "throttle: ", .own = c, .problem = problem};
        int r = config_rows_take(&at, section);
        if (r == OK)
                r = take_expire(&c->policy, section, &at);
        if (r == OK)
                r = take_queue_depth(c, section, &at);
        if (r == OK)
                r = take_adaptive_limit(&c->zone, section, &at);
        if (r == OK)
                r = credit_rule_check(&c->checks.credit, problem);
        if (r == OK)
                r = take_registry(c, section, &at);
        for (unsigned i = 0; r == OK && i < cfg_size(section, "level"); i++)
                r = take_level(&c->policy, cfg_getnsec(section, "level", i), &at);
        return r == OK ? policy_check(&c->policy, problem) : r;
}
