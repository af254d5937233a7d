/* See reload.h.
 *
 * Both configurations are written out as text, defaults and all, and compared line by line
 * (cli/config_diff.h): what people are told is then what `weir config diff` shows, and no list of
 * fields has to be kept in step.  What needs a restart is moved from the old configuration into the
 * new one, so that the one that holds always says what is true. */
#include "serve/reload.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/say.h"
#include "cli/config_diff.h"
#include "operator/settings.h"
#include "serve/config_rows.h"
#include "serve/config_text.h"
#include "serve/sandbox.h"
#include "traffic/traffic.h"

/* ---- what is different ---- */

struct sorting {
        struct buf *changed, *restart;
};

static void sort_line(void *ctx, struct slice name, struct slice was, struct slice now)
{
        struct sorting *s = ctx;
        if (config_needs_restart(name)) {
                buf_put_slice(s->restart, name);
                buf_put_byte(s->restart, '\n');
                return;
        }
        config_diff_put(s->changed, name, was, now);
        buf_put_byte(s->changed, '\n');
}

static void compare(const struct config *was, const struct config *now, struct buf *ret_changed,
                    struct buf *ret_restart)
{
        struct sorting sorting = {ret_changed, ret_restart};
        struct buf a, b;
        buf_init(&a, 0);
        buf_init(&b, 0);
        config_put(was, true, &a);
        config_put(now, true, &b);
        config_diff(buf_slice(&a), buf_slice(&b), sort_line, &sorting);
        buf_release(&a);
        buf_release(&b);
        if (!config_secrets_are_same(&was->token, &now->token) &&
            config_text_is_same(was->token_file, now->token_file))
                buf_put_str(ret_changed, "token_file\n"); /* the file holds another token now */
}

/* ---- swapping ---- */

/* One line, for the log. */
static const char *in_one_line(struct buf *lines)
{
        if (lines->len)
                lines->len--; /* the last line's end */
        for (size_t i = 0; i < lines->len; i++)
                if (lines->ptr[i] == '\n')
                        lines->ptr[i] = ';';
        return buf_cstr(lines);
}

static void tell(struct reload *r, const struct buf *changed, const struct buf *restart)
{
        struct buf line;
        buf_init(&line, 0);
        buf_put_slice(&line, buf_slice(changed));
        say_info("config", changed->len ? "read again" : "read again, nothing changed", "path",
                 r->path, "changed", in_one_line(&line));
        buf_clear(&line);
        buf_put_slice(&line, buf_slice(restart));
        if (restart->len)
                say_warn("config", "needs a restart", "settings", in_one_line(&line));
        buf_release(&line);
}

void reload_set_exporter(struct reload *r)
{
        const struct config_telemetry *t = &r->config->telemetry;
        const struct exporter_options options = {
                .url = t->otlp,
                .headers = t->headers,
                .ca_file = t->ca,
                .service = t->service,
                .sample = t->sample,
                .queue_limit = t->queue_limit,
        };
        exporter_set(r->exporter, &options);
        core_set_tracer(r->core, exporter_tracer(r->exporter));
}

/* Makes `now` the configuration.  It keeps what only a restart changes: the new struct gets it as
 * it is, the old one, which goes, as it would be. */
static void swap(struct reload *r, struct config *now)
{
        struct problem problem;
        config_rows_swap_fixed(SECTION_TOP, now, r->config);
        struct config_cluster cluster = now->cluster;
        now->cluster = r->config->cluster;
        r->config->cluster = cluster;
        config_tokens_apply(&now->tokens, &now->token, r->core);
        core_set_locks(r->core, now->are_locks_off);
        struct tls_files tls = config_tls_files(now);
        if (tls.cert && server_set_tls(r->server, &tls, &problem) != OK) /* it was checked */
                say_warn("config", "the old certificate holds", "why", problem.detail);
        r->taken(r->ctx, now);
        config_unref(r->config);
        r->config = now;
        reload_set_exporter(r);
        core_history_changed(r->core);
        r->loaded_ms = clock_wall_ms();
}

int reload_run(struct reload *r, bool is_trial, struct buf *ret_changed, struct buf *ret_restart,
               struct problem *problem)
{
        struct config *now = config_new();
        int result = r->path ? r->read(r->ctx, now, problem)
                             : problem_set(problem, ERR_STATE,
                                           "weir was started without a configuration file; give "
                                           "it one with -c");
        if (result == OK)
                result = sandbox_check(now, problem);
        if (result == OK)
                compare(r->config, now, ret_changed, ret_restart);
        if (result == OK) /* what is listened on stays until a restart */
                result = config_check_access(r->config, now, problem);
        if (result == OK)
                result = config_check_tls(now, problem);
        if (is_trial) {
                config_unref(now);
                return result;
        }
        if (result == OK) /* first: what is most likely to fail, on an address that is taken */
                result = proxies_change(r->proxies, now, problem);
        if (result == OK)
                result = site_guards_change(r->guards, now, problem);
        if (result == OK)
                result = probes_change(r->probes, now, problem);
        if (result != OK) {
                config_unref(now);
                say_error("config", "not read again, the old one holds", "path",
                          r->path ? r->path : "", "why", problem->detail);
                return result;
        }
        proxies_tell_core(r->proxies, now);
        swap(r, now);
        tell(r, ret_changed, ret_restart);
        return OK;
}

/* ---- for the core ---- */

static int on_reload(void *ctx, bool is_trial, struct buf *ret_changed, struct buf *ret_restart,
                     struct problem *problem)
{
        return reload_run(ctx, is_trial, ret_changed, ret_restart, problem);
}

static void on_show(void *ctx, bool has_defaults, struct core_config_text *ret)
{
        const struct reload *r = ctx;
        config_put(r->config, has_defaults, ret->text);
        ret->path = r->path ? r->path : "";
        ret->loaded_ms = r->loaded_ms;
        r->given(r->ctx, ret->command_line);
}

/* What is configured, with what was set on top: its lists are made for it, the rest is borrowed. */
struct effective {
        struct config config;
        struct registry_entry *registry;
        struct config_target *levels;
        bool are_locks_changed, is_throttle_changed;
        bool is_target_changed[CONFIG_TARGETS_MAX];
        struct config_site *sites;
        bool is_site_changed[CONFIG_SITES_MAX];
        struct config_door *doors;
        bool is_door_changed[CONFIG_DOORS_MAX];
};

static void count_pattern(void *ctx, struct slice pattern, enum tier tier)
{
        (void)pattern; /* only how many */
        (void)tier;
        ++*(size_t *)ctx;
}

static void add_pattern(void *ctx, struct slice pattern, enum tier tier)
{
        struct config_throttle *t = ctx;
        t->registry[t->n_registry++] = (struct registry_entry){pattern, tier};
}

static void fill_own(struct effective *e, struct core *core)
{
        struct config_throttle *t = &e->config.throttle;
        struct core_effective now;
        size_t n = t->n_registry;
        core_effective(core, &now);
        e->are_locks_changed = now.are_locks_changed;
        e->config.are_locks_off = now.are_locks_off;
        e->is_throttle_changed = now.is_throttle_changed;
        t->policy = now.policy;
        t->is_off = now.is_off;
        t->checks.mode = now.check_mode;
        core_each_pattern(core, count_pattern, &n);
        e->registry = xcalloc(n + 1, sizeof(*e->registry));
        if (t->n_registry)
                memcpy(e->registry, t->registry, t->n_registry * sizeof(*t->registry));
        t->registry = e->registry;
        core_each_pattern(core, add_pattern, t); /* later ones win over equal ones before */
}

static void fill_targets(struct effective *e, struct core *core)
{
        struct config_targets *t = &e->config.targets;
        struct config_throttle *throttle = &e->config.throttle;
        struct level_rule rules[LEVEL_METRICS_MAX];
        double above[LEVEL_METRICS_MAX];
        bool is_auto[LEVEL_METRICS_MAX][2];
        e->levels = xcalloc(t->n + 1, sizeof(*e->levels));
        if (t->n)
                memcpy(e->levels, t->levels, t->n * sizeof(*t->levels));
        t->levels = e->levels;
        for (size_t i = 0; i < t->n; i++) {
                struct core_target_effective now = {t->levels[i].rules, t->levels[i].check_above,
                                                    t->levels[i].is_auto, t->levels[i].dwell_ns,
                                                    false};
                (void)core_effective_target(core, t->probes[i].name, &now); /* all are there */
                t->levels[i].dwell_ns = now.dwell_ns;
                e->is_target_changed[i] = now.is_changed;
        }
        struct core_target_effective own = {rules, above, is_auto, 0, false};
        if (throttle->has_queue_depth && core_effective_target(core, CONFIG_OWN_TARGET, &own)) {
                throttle->queue_depth = rules[0];
                e->is_throttle_changed |= own.is_changed;
        }
}

static void fill_sites(struct effective *e, const struct core *core)
{
        struct config_sites *s = &e->config.sites;
        e->sites = xcalloc(s->n + 1, sizeof(*e->sites));
        if (s->n)
                memcpy(e->sites, s->sites, s->n * sizeof(*s->sites));
        s->sites = e->sites;
        for (size_t i = 0; i < s->n; i++) {
                enum gate_mode mode = (enum gate_mode)e->sites[i].mode;
                e->is_site_changed[i] = core_effective_site(core, e->sites[i].name, &mode);
                e->sites[i].mode = mode;
        }
}

static void fill_doors(struct effective *e, const struct core *core)
{
        struct config_doors *d = &e->config.doors;
        e->doors = xcalloc(d->n + 1, sizeof(*e->doors));
        if (d->n)
                memcpy(e->doors, d->doors, d->n * sizeof(*d->doors));
        d->doors = e->doors;
        for (size_t i = 0; i < d->n && i < traffic_count(core); i++) {
                e->is_door_changed[i] = traffic_mode(core, i) != traffic_configured_mode(core, i);
                e->doors[i].mode = traffic_mode(core, i);
        }
}

static void on_settings(void *ctx, struct buf *ret)
{
        const struct reload *r = ctx;
        struct effective e = {.config = *r->config};
        fill_own(&e, r->core);
        fill_targets(&e, r->core);
        fill_sites(&e, r->core);
        fill_doors(&e, r->core);
        if (e.are_locks_changed)
                config_put_locks(&e.config, ret);
        if (e.is_throttle_changed)
                config_put_throttle(&e.config, false, ret);
        for (size_t i = 0; i < e.config.targets.n; i++)
                if (e.is_target_changed[i])
                        config_put_target(&e.config, i, false, ret);
        for (size_t i = 0; i < e.config.sites.n; i++)
                if (e.is_site_changed[i])
                        config_put_site(&e.config, i, false, ret);
        for (size_t i = 0; i < e.config.doors.n; i++)
                if (e.is_door_changed[i])
                        config_put_door(&e.config, i, false, ret);
        free(e.registry);
        free(e.levels);
        free(e.sites);
        free(e.doors);
}

void reload_offer(struct reload *r)
{
        const struct core_config config = {
                .reload = on_reload, .show = on_show, .settings = on_settings, .ctx = r};
        core_set_config(r->core, &config);
}
