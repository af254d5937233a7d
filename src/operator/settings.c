/* See settings.h.
 *
 * Name, type, range and sentence of a setting are in its row of api/setting_table.def.  Here is the
 * list of those there are now: delays, caps and those of targets follow from levels, tiers and the
 * targets, and are counted off rather than stored, so that a reload needs no care here.
 *
 * A value is kept in the log as the text that SETTINGS writes, so that it is read by the same
 * function whoever brings it.  One that cannot be read, or that does not go with another (critical
 * below elevated, after a reload), is passed over: what is configured holds.
 *
 * Costs: a change looks up every setting once, at most 3 per metric; there are few changes. */
#include "operator/settings.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "api/setting_table.h"
#include "base/duration.h"
#include "base/say.h"
#include "checks/check_ctx.h"
#include "jobs/claim.h"
#include "sites/sites.h"
#include "things/lock.h"
#include "things/setting.h"
#include "throttle/throttle_state.h"
#include "traffic/traffic.h"

#define VALUE_MAX LEVEL_PAIR_MAX /* bytes of the text of a value */

/* One that can be set now. */
struct live_setting {
        char name[LIMIT_NAME_BYTES + 1];
        enum setting_id id;
        const struct setting_def *def;
        enum level level;   /* SET_LEVEL_*: of which */
        enum tier tier;     /* SET_LEVEL_delays, SET_LIVE_expiry */
        int target, metric; /* of a target; else -1 */
        int site;           /* SET_WORDPRESS_mode: its index; else -1 */
        int door;           /* SET_MYSQL_mode: the same of a door of the MySQL proxy */
};

/* A value of any type; NAN in `a` is none. */
struct value {
        int64_t num;
        double a, b;
        bool is_auto; /* SETTING_PAIR: what is learned */
};

static const enum setting_id fixed[] = {
        SET_THROTTLE_enabled,       SET_LOCKS_enabled,         SET_THROTTLE_mode,
        SET_THROTTLE_check_mode,    SET_THROTTLE_max_deferral, SET_THROTTLE_deferrals_per_hour,
        SET_THROTTLE_expiry_margin, SET_LIVE_paused,           SET_THROTTLE_queue_age,
        SET_THROTTLE_queue_level,
};

#define N_FIXED  ARRAY_LEN(fixed)
#define N_LEVELS ((size_t)LEVELS - LEVEL_ELEVATED) /* at level normal all run */
#define N_DELAYS (N_LEVELS * (TIERS - 1))          /* the critical tier always runs */
#define N_CAPS   (N_LEVELS * 2)
#define N_EXPIRY ((size_t)TIERS - 1)

/* ---- the settings there are ---- */

/* `index` is among those of the target. */
static void target_setting(const struct target *g, size_t index, struct live_setting *s)
{
        static const enum setting_id of_metric[] = {SET_METRIC_elevated, SET_METRIC_critical,
                                                    SET_METRIC_threshold};
        size_t n = g->is_own ? 2 : 3; /* only the levels of our own can be configured */
        if (!g->is_own && index == 0) {
                s->id = SET_TARGET_dwell;
                return;
        }
        index -= !g->is_own;
        s->metric = (int)(index / n);
        s->id = of_metric[index % n];
}

static bool find_row(const struct core *core, size_t index, struct live_setting *s)
{
        const struct throttle *t = core->throttle;
        if (index < N_FIXED) {
                s->id = fixed[index];
                return true;
        }
        index -= N_FIXED;
        if (index < N_DELAYS) {
                s->id = SET_LEVEL_delays;
                s->level = (enum level)(LEVEL_ELEVATED + index / (TIERS - 1));
                s->tier = (enum tier)(TIER_HIGH + index % (TIERS - 1));
                return true;
        }
        index -= N_DELAYS;
        if (index < N_CAPS) {
                s->id = index % 2 ? SET_LEVEL_claims : SET_LEVEL_claim_size;
                s->level = (enum level)(LEVEL_ELEVATED + index / 2);
                return true;
        }
        index -= N_CAPS;
        if (index < N_EXPIRY) {
                s->id = SET_LIVE_expiry;
                s->tier = (enum tier)(TIER_HIGH + index);
                return true;
        }
        index -= N_EXPIRY;
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                size_t n = g->is_own ? 2 * g->n_metrics : 1 + 3 * g->n_metrics;
                if (index < n) {
                        s->target = (int)i;
                        target_setting(g, index, s);
                        return true;
                }
                index -= n;
        }
        if (index < sites_count(core)) {
                s->id = SET_WORDPRESS_mode;
                s->site = (int)index;
                return true;
        }
        index -= sites_count(core);
        if (index >= traffic_count(core))
                return false;
        s->id = SET_MYSQL_mode;
        s->door = (int)index;
        return true;
}

/* Writes the name: the words in capitals of the row's become what they stand for. */
static void put_name(const struct core *core, struct live_setting *s)
{
        const struct target *g = s->target >= 0 ? &core->throttle->targets[s->target] : NULL;
        const char *name = s->site >= 0   ? sites_name(core, (size_t)s->site)
                           : s->door >= 0 ? traffic_name(core, (size_t)s->door)
                                          : "";
        const struct {
                const char *word, *name;
        } words[] = {
                {"LEVEL", level_name(s->level)},
                {"TIER", tier_name(s->tier)},
                {"NAME", g ? g->name : name},
                {"METRIC", g && s->metric >= 0 ? g->metrics[s->metric].name : ""},
        };
        size_t len = 0;
        for (const char *at = s->def->live; *at && len < sizeof(s->name);) {
                size_t n = strcspn(at, "."), k = 0;
                while (k < ARRAY_LEN(words) &&
                       (strlen(words[k].word) != n || memcmp(words[k].word, at, n) != 0))
                        k++;
                bool is_name = k < ARRAY_LEN(words);
                len += (size_t)snprintf(s->name + len, sizeof(s->name) - len, "%.*s%s",
                                        is_name ? (int)strlen(words[k].name) : (int)n,
                                        is_name ? words[k].name : at, at[n] ? "." : "");
                at += n + (at[n] != '\0');
        }
}

/* The index-th setting; false past the last. */
static bool setting_at(const struct core *core, size_t index, struct live_setting *ret)
{
        *ret = (struct live_setting){.target = -1, .metric = -1, .site = -1, .door = -1};
        if (!find_row(core, index, ret))
                return false;
        ret->def = &setting_table[ret->id];
        ASSERT(ret->def->live);
        put_name(core, ret);
        return true;
}

static bool live_find(const struct core *core, struct slice name, struct live_setting *ret)
{
        for (size_t i = 0; setting_at(core, i, ret); i++)
                if (slice_eq(name, slice_str(ret->name)))
                        return true;
        return false;
}

/* ---- values as text ---- */

/* "" is none. */
static const char *value_text(const struct setting_def *def, const struct value *v,
                              char ret[VALUE_MAX])
{
        ret[0] = '\0';
        switch (def->type) {
        case SETTING_BOOL:
                return v->num ? "true" : "false";
        case SETTING_CHOICE:
                ASSERT(v->num >= 0 && v->num < SETTING_CHOICES_MAX && def->choices[v->num]);
                return def->choices[v->num];
        case SETTING_DURATION:
        case SETTING_DURATIONS:
                return duration_text(v->num, ret);
        case SETTING_INT:
                (void)say_i64(ret, v->num);
                return ret;
        case SETTING_PAIR:
                return v->is_auto ? "auto" : level_pair_text(v->a, v->b, ret);
        case SETTING_NUMBER:
                return isnan(v->a) ? ret : level_number_text(v->a, ret);
        case SETTING_SHARE:
        case SETTING_SIZE:
        case SETTING_TEXT:
        case SETTING_TEXTS:
        case SETTING_INTS:
        case SETTING_NUMBERS:
                break; /* none of them can be set */
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
        ret->is_auto = slice_eq(text, SLICE_LIT("auto"));
        if (ret->is_auto)
                return OK;
        if (!comma || !parse_number(trim(slice_make(text.ptr, left)), &ret->a) ||
            !parse_number(trim(slice_make(comma + 1, text.len - left - 1)), &ret->b))
                return problem_set(problem, ERR_BADARG,
                                   "the value must be two numbers, enter and exit, as in 5,3, or "
                                   "auto");
        if (ret->b > ret->a)
                return problem_set(problem, ERR_BADARG,
                                   "the exit (the second number) must not be above the enter "
                                   "threshold");
        return OK;
}

static int parse_bounded(const struct setting_def *def, struct slice text, struct value *ret,
                         struct problem *problem)
{
        char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
        bool is_time = def->type != SETTING_INT;
        bool is_read =
                is_time ? slice_to_duration_ms(text, &ret->num) : slice_to_i64(text, &ret->num);
        if (is_read && ret->num >= def->min && ret->num <= def->max)
                return OK;
        if (is_time)
                return problem_set(problem, ERR_BADARG,
                                   "the value must be a duration of %s to %s, as in 90s or 1h30m",
                                   duration_text(def->min, least), duration_text(def->max, most));
        return problem_set(problem, ERR_BADARG, "the value must be a number of %lld to %lld",
                           (long long)def->min, (long long)def->max);
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

static int parse_choice(const struct setting_def *def, struct slice text, struct value *ret,
                        struct problem *problem)
{
        ret->num = setting_choice(def, text);
        if (ret->num >= 0)
                return OK;
        struct buf choices;
        buf_init(&choices, 0);
        setting_put_choices(def, "", &choices);
        int r = problem_set(problem, ERR_BADARG, "the value must be %s", buf_cstr(&choices));
        buf_release(&choices);
        return r;
}

static int value_parse(const struct setting_def *def, struct slice text, struct value *ret,
                       struct problem *problem)
{
        *ret = (struct value){0};
        switch (def->type) {
        case SETTING_BOOL:
                return parse_bool(text, ret, problem);
        case SETTING_CHOICE:
                return parse_choice(def, text, ret, problem);
        case SETTING_DURATION:
        case SETTING_DURATIONS:
        case SETTING_INT:
                return parse_bounded(def, text, ret, problem);
        case SETTING_PAIR:
                return parse_pair(text, ret, problem);
        case SETTING_NUMBER:
                return parse_number(text, &ret->a)
                               ? OK
                               : problem_set(problem, ERR_BADARG, "the value must be a number");
        case SETTING_SHARE:
        case SETTING_SIZE:
        case SETTING_TEXT:
        case SETTING_TEXTS:
        case SETTING_INTS:
        case SETTING_NUMBERS:
                break; /* none of them can be set */
        }
        return ERR_INTERNAL;
}

/* ---- values in their places ---- */

/* Rows that are kept as POLICY. */
static const struct {
        uint16_t offset, size;
} in_policy[SETTING_IDS] = {
/* clang-format off */
#define AT_POLICY(m) {offsetof(struct policy, m), sizeof(((struct policy *)NULL)->m)}
#define AT_NONE(m)   {0}
/* clang-format on */
#define AT_OWN(m)        AT_NONE(m)
#define AT_LIST(m)       AT_NONE(m)
#define AT_AT(m)         AT_NONE(m)
#define AT_PROBE(m)      AT_NONE(m)
#define SETTINGS_SECTION 0
#define SETTING(section, name, type, kept, member, ...)                                            \
        [SET_##section##_##name] = AT_##kept(member),
#include "api/setting_table.def"
};

/* Where it is in a policy; NULL: it is not. */
static void *policy_place(struct policy *p, const struct live_setting *s, size_t *ret_size)
{
        *ret_size = sizeof(uint32_t);
        if (s->id == SET_LEVEL_delays)
                return &p->delay_ms[s->level][s->tier];
        if (s->id == SET_LEVEL_claim_size)
                return &p->caps[s->level].claim_size;
        if (s->id == SET_LEVEL_claims)
                return &p->caps[s->level].claims;
        *ret_size = sizeof(bool);
        if (s->id == SET_LIVE_expiry)
                return &p->lets_expire[s->tier];
        *ret_size = in_policy[s->id].size;
        return *ret_size ? (char *)p + in_policy[s->id].offset : NULL;
}

static struct value policy_value(const struct policy *from, const struct live_setting *s)
{
        struct policy p = *from;
        size_t size;
        const void *place = policy_place(&p, s, &size);
        uint32_t small = 0;
        uint64_t large = 0;
        ASSERT(place);
        if (size == sizeof(bool))
                large = *(const bool *)place;
        else if (size == sizeof(large))
                memcpy(&large, place, sizeof(large));
        else {
                memcpy(&small, place, sizeof(small));
                large = small;
        }
        return (struct value){.num = (int64_t)large};
}

/* Not the mode: throttle_refresh() takes it from its own setting, with the pause. */
static void put_policy(struct policy *p, const struct live_setting *s, const struct value *v)
{
        size_t size;
        void *place = policy_place(p, s, &size);
        uint32_t small = (uint32_t)v->num;
        uint64_t large = (uint64_t)v->num;
        if (!place || s->id == SET_THROTTLE_mode)
                return;
        if (size == sizeof(bool))
                *(bool *)place = v->num != 0;
        else
                memcpy(place, size == sizeof(large) ? (void *)&large : (void *)&small, size);
}

static struct value configured_value(const struct core *core, const struct live_setting *s)
{
        const struct throttle *t = core->throttle;
        const struct target *g = s->target >= 0 ? &t->targets[s->target] : NULL;
        if (s->id == SET_THROTTLE_enabled)
                return (struct value){.num = !t->is_off_configured};
        if (s->id == SET_LOCKS_enabled)
                return (struct value){.num = !core->are_locks_off_configured};
        if (s->id == SET_LIVE_paused)
                return (struct value){.num = false}; /* an act of an operator: no file says it */
        if (s->id == SET_THROTTLE_check_mode)
                return (struct value){.num = core->checks.mode};
        if (s->site >= 0)
                return (struct value){.num = sites_configured_mode(core, (size_t)s->site)};
        if (s->door >= 0)
                return (struct value){.num = traffic_configured_mode(core, (size_t)s->door)};
        if (!g)
                return policy_value(&t->configured, s);
        if (s->id == SET_TARGET_dwell)
                return (struct value){.num = g->dwell_configured_ns / NS_PER_MS};
        if (s->id == SET_METRIC_threshold)
                return (struct value){.a = metric_unset_check(g, (size_t)s->metric)};
        const struct level_rule rule = metric_unset_rule(g, (size_t)s->metric);
        int i = s->id == SET_METRIC_critical;
        return (struct value){
                .a = rule.enter[i], .b = rule.exit[i], .is_auto = g->metrics[s->metric].is_auto[i]};
}

/* False: it depends on the metric, and only what is configured is known. */
static bool default_value(const struct live_setting *s, struct value *ret)
{
        struct policy policy;
        if (s->metric >= 0)
                return false;
        policy_init(&policy);
        *ret = s->def->section == SECTION_LEVEL ? policy_value(&policy, s)
                                                : (struct value){.num = s->def->usual};
        return true;
}

static void put_rule(struct level_rule *rule, const struct live_setting *s, const struct value *v)
{
        int i = s->id == SET_METRIC_critical;
        rule->enter[i] = v->a;
        rule->exit[i] = v->b;
}

/* Not the mode of a site or a door: sites/ and traffic/ take it from the setting. */
static void put_value(struct core *core, const struct live_setting *s, const struct value *v)
{
        struct throttle *t = core->throttle;
        struct target *g = s->target >= 0 ? &t->targets[s->target] : NULL;
        if (s->id == SET_THROTTLE_enabled)
                t->is_off = !v->num;
        else if (s->id == SET_LOCKS_enabled)
                core->are_locks_off = !v->num;
        else if (s->id == SET_LIVE_paused)
                core->is_everything_paused = v->num;
        else if (!g && s->site < 0 && s->door < 0)
                put_policy(&t->policy, s, v);
        else if (!g)
                return;
        else if (s->id == SET_TARGET_dwell)
                g->dwell_ns = v->num * NS_PER_MS;
        else if (s->id == SET_METRIC_threshold)
                g->metrics[s->metric].check_above = v->a;
        else {
                struct metric *m = &g->metrics[s->metric];
                m->set[s->id == SET_METRIC_critical] = v->is_auto ? THRESHOLD_AUTO : THRESHOLD_PAIR;
                put_rule(&m->set_rule, s, v);
        }
}

/* ---- what was set ---- */

static const struct setting *find_setting(const struct core *core, struct slice name)
{
        const struct thing *t = thing_find(&core->state, THING_SETTING, name);
        return t ? CONTAINER_OF(t, const struct setting, thing) : NULL;
}

/* False: it was not set, or what was set cannot be read. */
static bool set_value(const struct core *core, const struct live_setting *s, struct value *ret)
{
        const struct setting *set = find_setting(core, slice_str(s->name));
        struct problem unused;
        return set && value_parse(s->def, buf_slice(&set->bytes), ret, &unused) == OK;
}

static bool is_ordered(const struct level_rule *r)
{
        return !(r->enter[1] < r->enter[0]); /* true with a NAN */
}

/* Those of one metric that do not go together give way to what is configured. */
static void resolve_target(struct target *g)
{
        for (size_t i = 0; i < g->n_metrics; i++)
                if (!metric_resolve(g, i))
                        say_warn("gate",
                                 "thresholds that were set do not go with what is configured, "
                                 "ignoring",
                                 "target", g->name, "metric", g->metrics[i].name);
}

/* Puts what was set on top of what is configured: into the policy, the rules and dwells of the
 * targets, is_off, and are_locks_off.  By throttle_refresh(), which does the modes itself. */
static void settings_apply(struct core *core)
{
        struct throttle *t = core->throttle;
        struct live_setting s;
        struct value v;
        bool were_locks_off = core->are_locks_off, was_paused = core->is_everything_paused;
        t->is_off = t->is_off_configured;
        core->are_locks_off = core->are_locks_off_configured;
        core->is_everything_paused = false;
        for (size_t i = 0; i < t->n_targets; i++) {
                struct target *g = &t->targets[i];
                g->dwell_ns = g->dwell_configured_ns;
                for (size_t m = 0; m < g->n_metrics; m++) {
                        g->metrics[m].check_above = metric_unset_check(g, m);
                        g->metrics[m].set[0] = g->metrics[m].set[1] = THRESHOLD_UNSET;
                }
        }
        for (size_t i = 0; setting_at(core, i, &s); i++)
                if (set_value(core, &s, &v))
                        put_value(core, &s, &v);
        for (size_t i = 0; i < t->n_targets; i++)
                resolve_target(&t->targets[i]);
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

void core_each_pattern(const struct core *core,
                       void (*fn)(void *ctx, struct slice pattern, enum tier tier), void *ctx)
{
        const struct hash *all = &core->state.things[THING_SETTING];
        const size_t skip = sizeof(SETTING_REGISTRY) - 1;
        for (struct hash_node *it = NULL; (it = hash_next(all, it));) {
                const struct setting *s = CONTAINER_OF(it, const struct setting, thing.node);
                if (it->key.len <= skip || memcmp(it->key.ptr, SETTING_REGISTRY, skip) != 0)
                        continue;
                int tier = tier_from_name(buf_slice(&s->bytes));
                if (tier >= 0)
                        fn(ctx, slice_make(it->key.ptr + skip, it->key.len - skip),
                           (enum tier)tier);
        }
}

static void note_pattern(void *is_any, struct slice pattern, enum tier tier)
{
        (void)pattern; /* that there is one is enough */
        (void)tier;
        *(bool *)is_any = true;
}

void core_effective(struct core *core, struct core_effective *ret)
{
        struct throttle *t = core->throttle;
        struct live_setting s;
        struct value v;
        throttle_refresh(core);
        *ret = (struct core_effective){.policy = t->policy,
                                       .is_off = t->is_off,
                                       .check_mode = check_mode(core),
                                       .are_locks_off = core->are_locks_off};
        ret->policy.mode = t->mode;
        ret->policy.is_paused = false;
        core_each_pattern(core, note_pattern, &ret->is_throttle_changed);
        for (size_t i = 0; setting_at(core, i, &s); i++) {
                if (s.target >= 0 || s.site >= 0 || s.door >= 0 || !set_value(core, &s, &v))
                        continue;
                if (s.id == SET_LOCKS_enabled)
                        ret->are_locks_changed = true;
                else if (s.id != SET_LIVE_paused) /* no file says it */
                        ret->is_throttle_changed = true;
        }
}

bool core_effective_target(struct core *core, const char *name, struct core_target_effective *ret)
{
        int target = throttle_target(core, slice_str(name));
        struct live_setting s;
        struct value v;
        throttle_refresh(core);
        if (target < 0)
                return false;
        const struct target *g = &core->throttle->targets[target];
        ret->dwell_ns = g->dwell_ns;
        ret->is_changed = false;
        for (size_t i = 0; i < g->n_metrics; i++) {
                const struct metric *m = &g->metrics[i];
                bool is_unset = !m->set[0] && !m->set[1];
                bool is_check_unset = m->check_above == metric_unset_check(g, i);
                ret->rules[i] = is_unset ? m->configured : g->rules[i];
                for (size_t k = 0; k < ARRAY_LEN(m->is_auto); k++)
                        ret->is_auto[i][k] = metric_is_auto(m, k);
                ret->check_above[i] = is_check_unset ? m->check_configured : m->check_above;
        }
        for (size_t i = 0; setting_at(core, i, &s); i++)
                ret->is_changed |= s.target == target && set_value(core, &s, &v);
        return true;
}

bool core_effective_site(const struct core *core, const char *name, enum gate_mode *ret)
{
        struct live_setting s;
        struct value v;
        for (size_t i = 0; setting_at(core, i, &s); i++)
                if (s.site >= 0 && strcmp(sites_name(core, (size_t)s.site), name) == 0 &&
                    set_value(core, &s, &v)) {
                        *ret = (enum gate_mode)v.num;
                        return true;
                }
        return false;
}

/* ---- commands ---- */

/* NULL: there is none. */
static const char *text_of(const struct setting_def *def, const struct value *v,
                           char room[VALUE_MAX])
{
        const char *text = v ? value_text(def, v, room) : "";
        return *text ? text : NULL;
}

static size_t count_choices(const struct setting_def *def)
{
        size_t n = 0;
        for (size_t i = 0; i < SETTING_CHOICES_MAX; i++)
                n += def->choices[i] != NULL;
        return n;
}

static void tell_choices(struct reply *reply, const struct reply_items *items)
{
        const struct setting_def *def = items->of;
        for (size_t i = 0; i < SETTING_CHOICES_MAX; i++)
                if (def->choices[i])
                        reply_str(reply, def->choices[i]);
}

static void tell_setting(const struct core *core, struct reply *reply, const struct live_setting *s)
{
        static const char *const type_names[] = {
                [SETTING_BOOL] = "bool",         [SETTING_CHOICE] = "choice",
                [SETTING_DURATION] = "duration", [SETTING_DURATIONS] = "duration",
                [SETTING_INT] = "integer",       [SETTING_PAIR] = "pair",
                [SETTING_NUMBER] = "number",
        };
        const struct setting_def *def = s->def;
        struct value configured = configured_value(core, s), usual = {0}, set = {0};
        bool is_set = set_value(core, s, &set), has_default = default_value(s, &usual);
        bool is_bounded = def->type == SETTING_DURATION || def->type == SETTING_DURATIONS ||
                          def->type == SETTING_INT;
        const struct value min = {.num = def->min}, max = {.num = def->max};
        char rooms[5][VALUE_MAX];
        const struct setting_reply told = {
                .name = s->name,
                .value = text_of(def, is_set ? &set : &configured, rooms[0]),
                .fallback = text_of(def, has_default ? &usual : NULL, rooms[1]),
                .configured = text_of(def, &configured, rooms[2]),
                .type = type_names[def->type],
                .choices = {count_choices(def), tell_choices, core, def},
                .min = text_of(def, is_bounded ? &min : NULL, rooms[3]),
                .max = text_of(def, is_bounded ? &max : NULL, rooms[4]),
                .unit = def->unit ? def->unit : "",
                .text = def->text,
                .is_changed = is_set,
        };
        reply_setting(reply, &told);
}

static void tell_settings(struct reply *reply, const struct reply_items *items)
{
        struct live_setting s;
        for (size_t i = 0; setting_at(items->core, i, &s); i++)
                tell_setting(items->core, reply, &s);
}

int exec_settings(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        struct live_setting s;
        size_t n = 0;
        while (setting_at(core, n, &s))
                n++;
        throttle_refresh(core);
        const struct settings_reply told = {{n, tell_settings, core, NULL}};
        reply_settings(reply, &told);
        return OK;
}

/* Would the policy or the metric of the setting be sound with this value? */
static int check_together(const struct core *core, const struct live_setting *s,
                          const struct value *v, struct problem *problem)
{
        const struct throttle *t = core->throttle;
        if (v->is_auto)
                return OK; /* what is learned gives way to the other level */
        if (s->def->type == SETTING_PAIR) {
                struct level_rule rule = t->targets[s->target].rules[s->metric];
                put_rule(&rule, s, v);
                return is_ordered(&rule) ? OK
                                         : problem_set(problem, ERR_BADARG,
                                                       "critical must not begin below elevated: "
                                                       "elevated %g, critical %g",
                                                       rule.enter[0], rule.enter[1]);
        }
        if (s->site >= 0 && v->num != MODE_OFF && !sites_has_target(core, (size_t)s->site))
                return problem_set(problem, ERR_BADARG,
                                   "the site has no target whose load it could follow, so it "
                                   "stays off: give it one in the configuration file");
        struct policy policy = t->policy;
        put_policy(&policy, s, v);
        return policy_check(&policy, problem);
}

static int unknown_name(struct slice name, struct problem *problem)
{
        return problem_set(problem, ERR_NOTFOUND,
                           "there is no setting '%.*s'; the list of settings has all",
                           (int)name.len, name.ptr);
}

static void change(struct core *core, const struct live_setting *s, const char *text)
{
        struct value was;
        char room[VALUE_MAX], shown[VALUE_MAX];
        if (!set_value(core, s, &was))
                was = configured_value(core, s);
        (void)snprintf(shown, sizeof(shown), "%s", value_text(s->def, &was, room));
        if (text)
                setting_set(core, slice_str(s->name), 0, slice_str(text));
        else
                (void)setting_unset(core, slice_str(s->name)); /* looked up before */
        throttle_tell(core, "setting_changed", "%s: %s -> %s", s->name, *shown ? shown : "none",
                      text ? text : "as configured");
        say_info("gate", "setting_changed", "name", s->name, "from", shown, "to",
                 text ? text : "as configured");
}

int exec_settingset(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may steer */
        struct slice name = cmd->arg[P_SETTINGSET_NAME].text;
        struct live_setting s;
        struct value v;
        char room[VALUE_MAX];
        throttle_refresh(core);
        if (!live_find(core, name, &s))
                return unknown_name(name, problem);
        int r = value_parse(s.def, trim(cmd->arg[P_SETTINGSET_VALUE].text), &v, problem);
        if (r == OK)
                r = check_together(core, &s, &v, problem);
        bool is_new = !find_setting(core, name); /* else it takes the place of that one */
        if (r == OK && is_new)
                r = setting_admit(core, problem);
        if (r == OK && is_new)
                r = core_admit(core, name.len + VALUE_MAX + 64, 0, problem);
        if (r != OK)
                return r;
        change(core, &s, value_text(s.def, &v, room));
        throttle_refresh(core);
        parking_turn(core);
        reply_ok(reply);
        return OK;
}

static bool begins(struct slice name, const char *with)
{
        size_t n = strlen(with);
        return name.len > n && memcmp(name.ptr, with, n) == 0;
}

int exec_settingunset(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* whoever has the token may steer */
        struct slice name = cmd->arg[P_SETTINGUNSET_NAME].text;
        struct live_setting s;
        bool is_known = live_find(core, name, &s), is_set = find_setting(core, name);
        /* What was set for a target, a site or a door that is gone is read by nobody, and may be
         * taken back. */
        bool is_left_over = is_set && (begins(name, "target.") || begins(name, "site.") ||
                                       begins(name, "mysql."));
        if (!is_known && !is_left_over)
                return unknown_name(name, problem);
        if (!is_known)
                (void)setting_unset(core, name); /* it is there */
        else if (is_set)
                change(core, &s, NULL);
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
