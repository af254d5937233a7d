/* See sites.h.
 *
 * What is known of a site is the last survey and the ledger.  The ledger is in the log (moved.h);
 * everything else begins anew with the process, because the next survey tells it again. */
#include "sites/sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/say.h"
#include "base/shown.h"
#include "sites/sites_state.h"
#include "things/setting.h"

const char *site_repair_name(enum site_repair repair)
{
        static const char *const names[SITE_REPAIRS] = {
#define X(id, name, text) [REPAIR_##id] = name,
                SITE_REPAIR_MAP(X)
#undef X
        };
        ASSERT(repair < SITE_REPAIRS);
        return names[repair];
}

/* ---- sites ---- */

struct site *site_by_name(const struct core *core, struct slice name)
{
        const struct sites *all = core->sites;
        for (size_t i = 0; i < all->n; i++)
                if (slice_eq(slice_str(all->sites[i].name), name))
                        return &all->sites[i];
        return NULL;
}

struct site *site_need(const struct core *core, struct slice name, struct problem *problem)
{
        struct site *s = site_by_name(core, name);
        const struct sites *all = core->sites;
        char have[SITE_TEXT] = "none is configured";
        size_t len = 0;
        for (size_t i = 0; !s && i < all->n && len < sizeof(have); i++)
                len += (size_t)snprintf(have + len, sizeof(have) - len, "%s%s",
                                        i ? ", " : "there is ", all->sites[i].name);
        if (!s)
                (void)problem_set(problem, ERR_NOTFOUND, "unknown WordPress site %s; %s",
                                  SHOWN(name), have);
        return s;
}

bool sites_has(const struct core *core, struct slice name)
{
        return site_by_name(core, name) != NULL;
}

size_t sites_count(const struct core *core)
{
        return core->sites->n;
}

const char *sites_name(const struct core *core, size_t index)
{
        ASSERT(index < core->sites->n);
        return core->sites->sites[index].name;
}

/* What was set for the site of this name; -1: nothing. */
static int set_mode(const struct core *core, const char *name)
{
        char setting[SITE_NAME_MAX + 16];
        (void)snprintf(setting, sizeof(setting), "site.%s.mode", name);
        return mode_from_name(setting_bytes(core, slice_str(setting)));
}

/* What holds while nothing is set for the site itself. */
static enum gate_mode mode_unless_set(const struct core *core, const struct site *s)
{
        int mode = s->network[0] ? set_mode(core, s->network) : -1;
        return mode >= 0 ? (enum gate_mode)mode : s->configured_mode;
}

enum gate_mode sites_configured_mode(const struct core *core, size_t index)
{
        ASSERT(index < core->sites->n);
        return mode_unless_set(core, &core->sites->sites[index]);
}

bool sites_has_target(const struct core *core, size_t index)
{
        ASSERT(index < core->sites->n);
        return core->sites->sites[index].target[0] != '\0';
}

static void site_release(struct site *s)
{
        site_survey_release(&s->survey);
        free(s->advice);
        free(s->name);
        free(s->target);
        free(s->prefix);
        free(s->network);
        free(s->notice);
}

static void site_take_options(struct site *s, const struct site_options *o)
{
        char **const texts[] = {&s->target, &s->prefix, &s->network, &s->notice};
        const char *const now[] = {o->target, o->prefix, o->network, o->notice};
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                free(*texts[i]);
                *texts[i] = xstrdup(now[i] ? now[i] : "");
        }
        s->configured_mode = o->mode;
        s->interval_ms = o->interval_ms;
        s->is_leaving = o->is_leaving;
        s->is_front = o->is_front && !o->is_leaving;
        s->is_lost_critical = o->is_lost_critical && !o->is_leaving;
        for (size_t i = 0; i < SITE_REPAIRS; i++)
                s->repairs[i] = o->is_leaving ? MODE_OFF : o->repairs[i];
        ASSERT(o->interval_ms > 0);
}

/* They ask again. */
static void end_all_runs(struct core *core)
{
        for (size_t i = 0; i < core->sites->n; i++)
                site_end_runs(core, &core->sites->sites[i]);
}

/* Before any site changes, because an answer may tell of other blogs. */
static void end_old_runs(struct core *core, const struct site_options *sites, size_t n)
{
        for (size_t i = 0; i < core->sites->n; i++) {
                struct site *s = &core->sites->sites[i];
                size_t at = 0;
                while (at < n && strcmp(sites[at].name, s->name) != 0)
                        at++;
                if (at == n)
                        site_end_runs(core, s);
        }
}

void core_set_sites(struct core *core, const struct site_options *sites, size_t n,
                    const struct sites_guard *guard)
{
        struct sites *all = core->sites;
        struct site *now = xcalloc(n + 1, sizeof(*now));
        ASSERT(n <= SITES_MAX);
        end_old_runs(core, sites, n);
        for (size_t i = 0; i < n; i++) {
                struct site *old = site_by_name(core, slice_str(sites[i].name));
                if (old) {
                        now[i] = *old;
                        list_init(&now[i].runs);
                        site_move_runs(old, &now[i]);
                        *old = (struct site){0};
                        old->name = xstrdup("");
                } else {
                        now[i].name = xstrdup(sites[i].name);
                        list_init(&now[i].runs);
                }
                site_take_options(&now[i], &sites[i]);
        }
        for (size_t i = 0; i < all->n; i++)
                site_release(&all->sites[i]);
        free(all->sites);
        all->sites = now;
        all->n = n;
        all->guard = guard ? *guard : (struct sites_guard){0};
        end_all_runs(core); /* what they are told is the new list */
}

bool sites_has_ledger(const struct core *core, struct slice name)
{
        const struct hash *all = &core->state.moved_hooks;
        for (const struct hash_node *n = NULL; (n = hash_next(all, n));)
                if (slice_eq(CONTAINER_OF(n, const struct moved_hook, node)->site, name))
                        return true;
        return front_next(&core->state, name, NULL) != NULL;
}

static void sites_init(struct core *core)
{
        core->sites = xcalloc(1, sizeof(*core->sites));
}

static void sites_release(struct core *core)
{
        struct sites *all = core->sites;
        end_all_runs(core);
        for (size_t i = 0; i < all->n; i++)
                site_release(&all->sites[i]);
        free(all->sites);
        free(all);
}

void site_survey_release(struct site_survey *v)
{
        arena_release(&v->arena);
        *v = (struct site_survey){0};
}

void site_plan_release(struct site_plan *plan)
{
        arena_release(&plan->arena);
        *plan = (struct site_plan){0};
}

/* ---- decisions ---- */

enum gate_mode site_mode(const struct core *core, const struct site *s)
{
        int mode = set_mode(core, s->name);
        if (throttle_is_off(core) || !s->target[0])
                return MODE_OFF;
        return mode >= 0 ? (enum gate_mode)mode : mode_unless_set(core, s);
}

enum gate_mode sites_mode(const struct core *core, struct slice site)
{
        const struct site *s = site_by_name(core, site);
        enum gate_mode mode = s ? site_mode(core, s) : MODE_OFF;
        return mode == MODE_OFF && s && site_has_fronts(core, s) ? MODE_TEST_OBSERVE : mode;
}

static const struct target *target_of(const struct core *core, const struct site *s)
{
        int target = throttle_target(core, slice_str(s->target));
        return target >= 0 ? &core->throttle->targets[target] : NULL;
}

/* Its first samples are still to come: no action is moved or given back on a guess. */
static bool is_not_measured_yet(const struct target *g)
{
        return g && g->leveler.is_unmeasured && g->leveler.pending_mask;
}

bool site_is_guess(const struct core *core, const struct site *s)
{
        return !core->throttle->policy.is_paused && is_not_measured_yet(target_of(core, s));
}

enum level site_level(const struct core *core, const struct site *s)
{
        const struct target *g = target_of(core, s);
        if (core->throttle->policy.is_paused)
                return LEVEL_CRITICAL;
        if (is_not_measured_yet(g))
                return LEVEL_NORMAL;
        return g ? g->leveler.level : LEVEL_UNKNOWN;
}

/* Is the level that of its target, and nothing that stands for it? */
static bool is_targets(const struct core *core, const struct target *g)
{
        return g && !core->throttle->policy.is_paused && !is_not_measured_yet(g);
}

enum level site_level_for(const struct core *core, const struct site *s, enum tier tier)
{
        const struct target *g = target_of(core, s);
        if (!is_targets(core, g))
                return site_level(core, s);
        return leveler_level_for(&g->leveler, &core->throttle->policy, tier, core->now.steady_ns);
}

struct level_caps site_level_caps(const struct core *core, const struct site *s)
{
        const struct target *g = target_of(core, s);
        const struct policy *p = &core->throttle->policy;
        return is_targets(core, g) ? leveler_caps(&g->leveler, p, core->now.steady_ns)
                                   : p->caps[site_level(core, s)];
}

struct gate_answer site_decide(struct core *core, const struct site *s, struct slice hook,
                               enum tier *ret_tier)
{
        throttle_refresh(core);
        struct policy policy = core->throttle->policy;
        struct gate_ask ask = {.tier = site_tier(core, s, hook)};
        ask.level = site_level_for(core, s, ask.tier);
        if (policy.deferrals_per_hour)
                ask.hook_deferrals = throttle_hook_deferrals(core, hook);
        policy.mode = s->is_leaving ? MODE_OFF : MODE_ENFORCE;
        *ret_tier = ask.tier;
        return gate_decide(&policy, &ask);
}

void site_put_reason(const struct core *core, const struct site *s, char *ret)
{
        const struct target *g = target_of(core, s);
        const struct leveler *l = g ? &g->leveler : NULL;
        enum level level = site_level(core, s);
        if (core->throttle->policy.is_paused)
                (void)snprintf(ret, SITE_TEXT, "an operator paused deferrable work");
        else if (!g)
                (void)snprintf(ret, SITE_TEXT, "the target %s is not configured", s->target);
        else if (level == LEVEL_UNKNOWN && l->held > LEVEL_NORMAL)
                (void)snprintf(ret, SITE_TEXT, "the load of %s is unknown, and was %s before",
                               g->name, level_name(l->held));
        else if (level == LEVEL_UNKNOWN || l->metric < 0)
                (void)snprintf(ret, SITE_TEXT, "the load of %s is %s", g->name, level_name(level));
        else
                (void)snprintf(ret, SITE_TEXT, "the load of %s is %s: %s %g, threshold %g", g->name,
                               level_name(level), g->metrics[l->metric].name, l->value,
                               l->threshold);
}

/* Whatever changes decisions: when it differs, the next cycle begins at once. */
static uint64_t decision_key(const struct core *core, const struct site *s)
{
        const struct throttle *t = core->throttle;
        const struct target *g = target_of(core, s);
        uint64_t versions = t->registry_version + core->state.settings_version;
        uint64_t held = g ? leveler_held_tiers(&g->leveler, &t->policy, core->now.steady_ns) : 0;
        return versions << 12 | held << 8 | (uint64_t)site_level(core, s) << 4 |
               (uint64_t)(g && g->leveler.is_unmeasured) << 1 | (uint64_t)t->policy.is_paused;
}

static void sites_turn(struct core *core)
{
        const struct sites *all = core->sites;
        for (size_t i = 0; i < all->n; i++) {
                struct site *s = &all->sites[i];
                uint64_t key = decision_key(core, s);
                if (key == s->seen_key)
                        continue;
                s->seen_key = key;
                if (all->guard.wake)
                        all->guard.wake(all->guard.ctx, slice_str(s->name));
        }
}

/* ---- what the guard tells ---- */

void sites_failed(struct core *core, struct slice site, const char *why)
{
        struct site *s = site_by_name(core, site);
        if (!s)
                return;
        if (!s->error[0]) {
                s->error_since_ms = core->now.wall_ms;
                throttle_tell(core, "site_failed", "%s: %s", s->name, why);
                say_warn("site", "a cycle failed, retrying", "site", s->name, "why", why);
        }
        (void)shown_put(s->error, sizeof(s->error), slice_str(why));
}

void sites_repaired(struct core *core, struct slice site,
                    const struct site_fault faults[SITE_REPAIRS], const char *advice)
{
        struct site *s = site_by_name(core, site);
        if (!s)
                return;
        for (size_t i = 0; i < SITE_REPAIRS; i++) {
                s->faults[i] = faults[i];
                s->total_mended[i] += faults[i].mended;
                if (!faults[i].mended)
                        continue;
                throttle_tell(core, "site_repaired", "%s: %u %s", s->name, faults[i].mended,
                              site_repair_name((enum site_repair)i));
                say_info("site", "site_repaired", "site", s->name, "what",
                         site_repair_name((enum site_repair)i), "n", SAY_I64(faults[i].mended));
        }
        free(s->advice);
        s->advice = advice ? xstrdup(advice) : NULL;
}

void sites_each_sample(const struct core *core,
                       void (*fn)(void *ctx, const char *name, const char *labels, double value),
                       void *ctx)
{
        struct buf text CLEANUP(buf_release) = {0};
        for (size_t i = 0; i < core->sites->n; i++) {
                const struct site *s = &core->sites->sites[i];
                const struct site_survey *v = &s->survey;
                int64_t oldest_s = v->now_s;
                uint64_t moved = 0, due = 0;
                for (const struct moved_hook *h = NULL; (h = site_next_hook(core, s, h));)
                        moved += h->n_moved;
                for (size_t k = 0; k < v->n_hooks; k++) {
                        due += v->hooks[k].due;
                        if (v->hooks[k].due && v->hooks[k].oldest_due_s < oldest_s)
                                oldest_s = v->hooks[k].oldest_due_s;
                }
                buf_clear(&text);
                throttle_put_label(&text, "site", s->name);
                const char *labels = buf_cstr(&text);
                fn(ctx, "site_up", labels, s->is_surveyed && !s->error[0]);
                fn(ctx, "site_due", labels, (double)due);
                fn(ctx, "site_oldest_due_seconds", labels, (double)(v->now_s - oldest_s));
                fn(ctx, "site_moved", labels, (double)moved);
                fn(ctx, "site_would_move", labels, (double)s->would_move);
                fn(ctx, "site_running", labels, v->running);
                fn(ctx, "site_failed", labels, v->failed);
                fn(ctx, "site_survey_seconds", labels, (double)v->took_us / 1e6);
                fn(ctx, "site_moved_total", labels, (double)s->total_moved);
                fn(ctx, "site_returned_total", labels, (double)s->total_returned);
                fn(ctx, "site_fronted_total", labels, (double)s->total_fronted);
                for (size_t k = 0; k < SITE_REPAIRS; k++) {
                        buf_clear(&text);
                        throttle_put_label(&text, "site", s->name);
                        throttle_put_label(&text, "repair", site_repair_name((enum site_repair)k));
                        fn(ctx, "site_mended_total", buf_cstr(&text), (double)s->total_mended[k]);
                }
        }
}

const struct feature sites_feature = {.name = "WordPress sites",
                                      .init = sites_init,
                                      .release = sites_release,
                                      .turn = sites_turn};
