/* Targets out of the configuration file.
 *
 *      target "shop" {
 *              kind = "mysql"
 *              host = "127.0.0.1"
 *              user = "weir"
 *              password_file = "/etc/weir/shop.password"
 *              metric "threads_running" { elevated = {5, 3} critical = {15, 10} }
 *      }
 *
 * Everything is checked here, so that a probe never meets a setting that makes no sense.  There is
 * no option for a password itself: it comes from a file that only its owner may read, or from the
 * environment, and no sentence of ours repeats it. */
#include "serve/config_targets.h"

#include <confuse.h>
#include <math.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/shown.h"
#include "checks/check.h"
#include "serve/config.h"
#include "serve/config_rows.h"
#include "serve/config_tls.h"
#include "throttle/host.h"

#define PASSWORD_MAX 1024
#define STALE_MIN_MS 10000 /* by default */
#define REPLICAS_MAX 64

/* QueryGuard's thresholds, which have proven themselves, and some of the same kind. */
static const struct {
        const char *metric;
        double enter[2], exit[2];
} thresholds[] = {
        {"threads_running", {5, 15}, {3, 10}},
        {"active_backends", {5, 15}, {3, 10}},
        {"queue_depth", {100, 500}, {50, 250}},
        {"replication_lag", {2, 10}, {1, 5}},
};

/* What a target without metrics gets. */
static const char *const usual_metric[PROBE_KINDS] = {
        [PROBE_MYSQL] = "threads_running",
        [PROBE_POSTGRES] = "active_backends",
        [PROBE_HOST] = "load_per_core",
};

void config_target_init(struct probe_options *o, struct config_target *level)
{
        const struct config_at at = {.section = SECTION_TARGET, .own = level, .probe = o};
        *o = (struct probe_options){.n_metrics = 0};
        *level = (struct config_target){.dwell_ns = 0};
        config_rows_init(&at);
}

/* ---- metrics ---- */

static bool read_number(const char *text, double *ret)
{
        char *end;
        *ret = strtod(text, &end);
        return *text && !*end && isfinite(*ret);
}

static int take_pair(cfg_t *cfg, const char *name, int level, struct level_rule *rule,
                     bool *ret_auto, const struct config_at *at)
{
        unsigned n = cfg_size(cfg, name);
        double enter, exit;
        if (n == 0)
                return OK;
        *ret_auto = n == 1 && strcmp(cfg_getnstr(cfg, name, 0), "auto") == 0;
        if (*ret_auto)
                return OK;
        if (n != 2 || !read_number(cfg_getnstr(cfg, name, 0), &enter) ||
            !read_number(cfg_getnstr(cfg, name, 1), &exit))
                return config_wrong(at, ERR_BADARG,
                                    "%s must be two numbers, {enter, exit}, or \"auto\"", name);
        if (exit > enter)
                return config_wrong(at, ERR_BADARG,
                                    "%s: the exit must not be above the enter threshold", name);
        rule->enter[level] = enter;
        rule->exit[level] = exit;
        return OK;
}

void config_default_thresholds(const char *metric, struct level_rule *rule)
{
        for (int k = 0; k < 2; k++)
                rule->enter[k] = rule->exit[k] = NAN;
        for (size_t i = 0; i < ARRAY_LEN(thresholds); i++) {
                if (strcmp(thresholds[i].metric, metric) != 0)
                        continue;
                memcpy(rule->enter, thresholds[i].enter, sizeof(rule->enter));
                memcpy(rule->exit, thresholds[i].exit, sizeof(rule->exit));
        }
}

bool config_is_by_cores(enum probe_kind kind, const struct probe_metric *m)
{
        static const char running[] = "threads_running";
        return kind == PROBE_MYSQL && strcmp(m->name, running) == 0 &&
               strcmp(m->source, running) == 0;
}

int64_t config_default_stale_ms(const struct probe_options *o)
{
        int64_t ms = 3 * o->interval_ms + o->timeout_ms;
        return ms > STALE_MIN_MS ? ms : STALE_MIN_MS;
}

static int take_thresholds(cfg_t *cfg, struct level_rule *rule, bool ret_auto[2],
                           const struct config_at *at)
{
        int r = take_pair(cfg, "elevated", 0, rule, &ret_auto[0], at);
        if (r == OK)
                r = take_pair(cfg, "critical", 1, rule, &ret_auto[1], at);
        if (ret_auto[0] || ret_auto[1])
                return r; /* what was learned gives way to what is written */
        if (r == OK && rule->enter[1] < rule->enter[0]) /* false with a NAN */
                r = config_wrong(at, ERR_BADARG, "critical must not begin below elevated");
        return r;
}

double config_check_above(const struct level_rule *rule)
{
        return isnan(rule->enter[0]) ? rule->enter[1] : rule->enter[0];
}

static int take_check_above(cfg_t *cfg, const struct level_rule *rule, double *ret,
                            const struct config_at *at)
{
        *ret = config_check_above(rule);
        if (cfg_size(cfg, "threshold") == 0)
                return OK;
        *ret = cfg_getfloat(cfg, "threshold");
        if (!isfinite(*ret))
                return config_wrong(at, ERR_BADARG, "threshold must be a number");
        return OK;
}

/* The source of a metric of that name, checked; an http metric may be named by its path alone. */
static int take_source(struct probe_metric *m, enum probe_kind kind, const char *source,
                       const struct config_at *at)
{
        struct problem why;
        size_t len = strlen(m->name);
        if (len == 0 || !slice_is_utf8(slice_make(m->name, len)))
                return config_wrong(at, ERR_BADARG, "a metric needs a name of 1 to %d bytes",
                                    PROBE_NAME_MAX);
        m->source = xstrdup(source ? source : m->name);
        int r = probe_check_source(kind, m->source, &why);
        return r == OK ? OK : config_wrong(at, r, "%s", why.detail);
}

static int take_metric(const struct config_at *target, struct config_target *level, cfg_t *cfg)
{
        struct probe_options *o = target->probe;
        struct probe_metric *m = &o->metrics[o->n_metrics];
        struct level_rule *rule = &level->rules[o->n_metrics];
        bool *is_auto = level->is_auto[o->n_metrics];
        const char *name = cfg_title(cfg), *stale = cfg_getstr(cfg, "stale");
        struct config_at at = {.section = SECTION_METRIC, .own = rule, .problem = target->problem};
        int64_t stale_ms = config_default_stale_ms(o);
        (void)snprintf(at.where, sizeof(at.where),
                       "target \"%s\", metric \"%s\": ", SHOWN_STR(o->name), SHOWN_STR(name));
        if (strlen(name) >= sizeof(m->name))
                return config_wrong(&at, ERR_BADARG, "the name is longer than %d bytes",
                                    PROBE_NAME_MAX);
        (void)snprintf(m->name, sizeof(m->name), "%s", name);
        o->n_metrics++;
        config_default_thresholds(m->name, rule);
        int r = take_source(m, o->kind, cfg_getstr(cfg, "source"), &at);
        if (r == OK)
                r = config_rows_take(&at, cfg);
        if (r == OK)
                r = take_thresholds(cfg, rule, is_auto, &at);
        if (r == OK && stale)
                r = config_row_check_ms(&at, &setting_table[SET_METRIC_stale], o->interval_ms,
                                        stale, &stale_ms);
        if (r == OK)
                r = take_check_above(cfg, rule, &level->check_above[o->n_metrics - 1], &at);
        rule->stale_ns = stale_ms * NS_PER_MS;
        size_t i = o->n_metrics - 1;
        level->is_written[i] = cfg_size(cfg, "elevated") > 0 && !is_auto[0];
        level->is_any_written[i] =
                level->is_written[i] || (cfg_size(cfg, "critical") > 0 && !is_auto[1]);
        level->is_check_written[i] = cfg_size(cfg, "threshold") > 0;
        return r;
}

static int take_metrics(const struct config_at *at, struct config_target *level, cfg_t *cfg)
{
        struct probe_options *o = at->probe;
        unsigned n = cfg_size(cfg, "metric");
        unsigned max = o->kind == PROBE_COMMAND ? 1 : PROBE_METRICS_MAX;
        if (n > max)
                return config_wrong(at, ERR_BADARG, "more than %u metrics", max);
        o->metrics = xcalloc(n + 1, sizeof(*o->metrics));
        for (unsigned i = 0; i < n; i++) {
                int r = take_metric(at, level, cfg_getnsec(cfg, "metric", i));
                if (r != OK)
                        return r;
        }
        if (n)
                return OK;
        if (!usual_metric[o->kind])
                return config_wrong(at, ERR_BADARG, "it needs a metric");
        o->n_metrics = 1;
        (void)snprintf(o->metrics[0].name, sizeof(o->metrics[0].name), "%s", usual_metric[o->kind]);
        o->metrics[0].source = xstrdup(usual_metric[o->kind]);
        config_default_thresholds(usual_metric[o->kind], &level->rules[0]);
        level->rules[0].stale_ns = config_default_stale_ms(o) * NS_PER_MS;
        level->check_above[0] = config_check_above(&level->rules[0]);
        return OK;
}

/* ---- checks ---- */

void config_unknown_init(struct unknown_rule ret[TIERS])
{
        for (size_t i = 0; i < TIERS; i++)
                ret[i].policy = i <= TIER_HIGH ? UNKNOWN_OPEN : UNKNOWN_CLOSED;
}

static int take_unknown(struct config_target *level, cfg_t *cfg, const struct config_at *at)
{
        unsigned n = cfg_size(cfg, "unknown");
        struct problem why;
        config_unknown_init(level->unknown);
        if (n != 0 && n != TIERS)
                return config_wrong(
                        at, ERR_BADARG,
                        "unknown takes %d texts, for the tiers critical, high, normal and "
                        "deferrable, each open, closed or wait:30s, not %u",
                        TIERS, n);
        for (unsigned i = 0; i < n; i++) {
                int r = unknown_rule_parse(slice_str(cfg_getnstr(cfg, "unknown", i)),
                                           &level->unknown[i], &why);
                if (r != OK)
                        return config_wrong(at, r, "unknown: %s", why.detail);
        }
        return OK;
}

static size_t find_metric(const struct probe_options *o, const char *name)
{
        size_t i = 0;
        while (i < o->n_metrics && strcmp(o->metrics[i].name, name) != 0)
                i++;
        return i;
}

static int no_metric(const struct probe_options *o, const char *name, const struct config_at *at)
{
        char have[PROBLEM_DETAIL_MAX] = "";
        size_t len = 0;
        for (size_t i = 0; i < o->n_metrics && len < sizeof(have); i++) {
                int n = snprintf(have + len, sizeof(have) - len, "%s%s", i ? ", " : "",
                                 o->metrics[i].name); /* cut is fine */
                len += (size_t)n;
        }
        return config_wrong(at, ERR_BADARG, "check: it has no metric '%s'; it has %s",
                            SHOWN_STR(name), have);
}

/* The item at `from` moves to `to`, which is not behind it; those between move on by one. */
static void move_item(void *items, size_t size, size_t from, size_t to)
{
        char *first = (char *)items + to * size, *last = (char *)items + from * size;
        char room[sizeof(struct probe_metric)];
        ASSERT(size <= sizeof(room) && to <= from);
        memcpy(room, last, size);
        memmove(first + size, first, (from - to) * size);
        memcpy(first, room, size);
}

/* Metric `from` becomes metric `to`, with all that is known of it. */
static void move_metric(struct probe_options *o, struct config_target *level, size_t from,
                        size_t to)
{
        const struct {
                void *items;
                size_t size;
        } lists[] = {
                {o->metrics, sizeof(*o->metrics)},
                {level->rules, sizeof(*level->rules)},
                {level->check_above, sizeof(*level->check_above)},
                {level->is_written, sizeof(*level->is_written)},
                {level->is_any_written, sizeof(*level->is_any_written)},
                {level->is_check_written, sizeof(*level->is_check_written)},
                {level->is_auto, sizeof(*level->is_auto)},
        };
        for (size_t i = 0; i < ARRAY_LEN(lists); i++)
                move_item(lists[i].items, lists[i].size, from, to);
}

/* The one that is checked when the file does not say: the lag, else one that can refuse. */
static size_t usual_check(const struct probe_options *o, const struct config_target *level)
{
        for (size_t i = 0; i < o->n_metrics; i++)
                if (strcmp(o->metrics[i].name, "replication_lag") == 0 ||
                    strcmp(o->metrics[i].source, "replication_lag") == 0)
                        return i;
        for (size_t i = 0; i < o->n_metrics; i++)
                if (!isnan(level->check_above[i]))
                        return i;
        return 0;
}

static int take_check(const struct config_at *at, struct config_target *level, cfg_t *cfg)
{
        struct probe_options *o = at->probe;
        unsigned n = cfg_size(cfg, "check");
        for (unsigned i = 0; i < n; i++) {
                const char *name = cfg_getnstr(cfg, "check", i);
                size_t k = find_metric(o, name);
                if (k == o->n_metrics)
                        return no_metric(o, name, at);
                if (k < i)
                        return config_wrong(at, ERR_BADARG, "check: '%s' stands there twice",
                                            SHOWN_STR(name));
                move_metric(o, level, k, i);
                level->is_checked[i] = true;
        }
        if (n == 0)
                level->is_checked[usual_check(o, level)] = true;
        return take_unknown(level, cfg, at);
}

/* Sleeping probes must still be fresh when a client checks. */
static void set_hibernation(struct probe_options *o, const struct config_target *level)
{
        int64_t every_ms = HIBERNATE_EVERY_MS;
        for (size_t i = 0; i < o->n_metrics; i++) {
                int64_t half_ms = level->rules[i].stale_ns / 2 / NS_PER_MS;
                every_ms = half_ms < every_ms ? half_ms : every_ms;
        }
        o->hibernate_after_ms = HIBERNATE_MS;
        o->hibernate_every_ms = every_ms > o->interval_ms ? every_ms : o->interval_ms;
}

/* ---- where ---- */

int config_usual_port(enum probe_kind kind)
{
        return kind == PROBE_POSTGRES ? 5432 : 3306;
}

int config_server_take(const struct config_at *at, cfg_t *cfg, int usual_port,
                       struct sql_server *ret)
{
        const char *host = cfg_getstr(cfg, "host"), *socket = cfg_getstr(cfg, "socket");
        long port = cfg_getint(cfg, "port");
        if (host && socket)
                return config_wrong(at, ERR_BADARG, "give host or socket, not both");
        if (socket && !*socket)
                return config_wrong(at, ERR_BADARG, "socket must be a path, not ''");
        if (host && (!*host || *host == '/'))
                return config_wrong(at, ERR_BADARG, "host must be a name or an address, not '%s'",
                                    host);
        int r = config_row_check_int(at, &setting_table[SET_TARGET_port], port);
        if (r != OK)
                return r;
        ret->host = xstrdup(socket ? socket : host ? host : "127.0.0.1");
        ret->port = port ? (int)port : usual_port;
        return OK;
}

static int take_replicas(const struct config_at *at, cfg_t *cfg)
{
        struct probe_options *o = at->probe;
        unsigned n = cfg_size(cfg, "replica");
        if (n > REPLICAS_MAX)
                return config_wrong(at, ERR_BADARG, "more than %d replicas", REPLICAS_MAX);
        if (n && o->ignore_replicas >= n)
                return config_wrong(at, ERR_BADARG,
                                    "ignore_replicas must be less than the number of replicas");
        o->replicas = xcalloc(n + 1, sizeof(*o->replicas));
        for (unsigned i = 0; i < n; i++) {
                cfg_t *section = cfg_getnsec(cfg, "replica", i);
                struct sql_server *s = &o->replicas[o->n_replicas++];
                s->name = xstrdup(cfg_title(section));
                if (!core_is_host_name(slice_str(s->name))) /* else a client could not skip it */
                        return config_wrong(at, ERR_BADARG,
                                            "replica \"%s\" must be named with 1 to %d bytes of "
                                            "UTF-8 without blanks and control characters",
                                            SHOWN_STR(s->name), LIMIT_NAME_BYTES);
                if (!cfg_getstr(section, "host") && !cfg_getstr(section, "socket"))
                        return config_wrong(at, ERR_BADARG, "replica \"%s\" needs a host", s->name);
                int r = config_server_take(at, section, config_usual_port(o->kind), s);
                if (r != OK)
                        return r;
        }
        return OK;
}

int config_password_take(const struct config_at *at, const char *file, const char *env, char **ret)
{
        char text[PASSWORD_MAX + 3];
        struct problem why;
        if (file && env)
                return config_wrong(at, ERR_BADARG, "give password_file or password_env, not both");
        if (env && !getenv(env))
                return config_wrong(at, ERR_BADARG, "the environment has no %s", env);
        if (env)
                *ret = xstrdup(getenv(env));
        if (!file)
                return OK;
        int r = config_read_secret("password file", file, text, sizeof(text), &why);
        if (r < 0)
                return config_wrong(at, r, "%s", why.detail);
        size_t n = (size_t)r;
        r = OK;
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
                n--;
        text[n] = '\0';
        if (n > PASSWORD_MAX || strlen(text) != n || strchr(text, '\n'))
                r = config_wrong(at, ERR_BADARG, "password file %s must hold one line", file);
        else
                *ret = xstrdup(text);
        explicit_bzero(text, sizeof(text));
        return r;
}

void config_password_release(char **password)
{
        if (*password)
                explicit_bzero(*password, strlen(*password));
        free(*password);
        *password = NULL;
}

/* It goes into a statement as it stands. */
static bool is_table_name(const char *name)
{
        static const char allowed[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$";
        size_t len = strspn(name, allowed);
        if (len && name[len] == '.') {
                name += len + 1;
                len = strspn(name, allowed);
        }
        return len > 0 && name[len] == '\0';
}

static int take_database(const struct config_at *at, cfg_t *cfg)
{
        struct probe_options *o = at->probe;
        const char *table = o->heartbeat_table;
        bool has_utc = cfg_size(cfg, "heartbeat_utc") != 0;
        if (cfg_getstr(cfg, "heartbeat_table") && o->kind != PROBE_MYSQL)
                return config_wrong(at, ERR_BADARG, "heartbeat_table is for mysql only");
        if (table && !is_table_name(table))
                return config_wrong(at, ERR_BADARG,
                                    "heartbeat_table must be a name or database.name");
        if (!table && has_utc)
                return config_wrong(at, ERR_BADARG, "heartbeat_utc needs heartbeat_table");
        o->is_heartbeat_utc = has_utc && cfg_getbool(cfg, "heartbeat_utc") == cfg_true;
        int r = config_server_take(at, cfg, config_usual_port(o->kind), &o->primary);
        return r == OK ? take_replicas(at, cfg) : r;
}

static bool is_env(const char *text)
{
        static const char allowed[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
        size_t len = strspn(text, allowed);
        return len > 0 && (text[0] < '0' || text[0] > '9') && (!text[len] || text[len] == '=');
}

static int take_env(struct probe_options *o, cfg_t *cfg, const struct config_at *at)
{
        unsigned n = cfg_size(cfg, "env");
        o->env = n ? xcalloc(n + 1, sizeof(char *)) : NULL;
        for (unsigned i = 0; i < n; i++) {
                const char *text = cfg_getnstr(cfg, "env", i);
                if (!is_env(text)) /* a value may be a secret, so only the name is shown */
                        return config_wrong(at, ERR_BADARG,
                                            "env: '%s' is no NAME=VALUE and no NAME to pass on",
                                            SHOWN(slice_make(text, strcspn(text, "="))));
                o->env[i] = xstrdup(text);
        }
        return OK;
}

static int take_command(struct probe_options *o, cfg_t *cfg, const struct config_at *at)
{
        unsigned n = cfg_size(cfg, "command");
        if (n == 0)
                return config_wrong(at, ERR_BADARG,
                                    "kind command needs command = {\"program\", ...}");
        o->argv = xcalloc(n + 1, sizeof(char *));
        for (unsigned i = 0; i < n; i++)
                o->argv[i] = xstrdup(cfg_getnstr(cfg, "command", i));
        return take_env(o, cfg, at);
}

static int take_url(struct probe_options *o, cfg_t *cfg, const struct config_at *at)
{
        const char *url = cfg_getstr(cfg, "url");
        if (!url || (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0))
                return config_wrong(at, ERR_BADARG, "kind http needs url = \"http://...\"");
        if (strchr(url, '@'))
                return config_wrong(at, ERR_BADARG, "user and password do not belong into the url");
        o->url = xstrdup(url);
        return OK;
}

/* ---- a target ---- */

static int take_kind(const struct config_at *at, cfg_t *cfg)
{
        const char *kind = cfg_getstr(cfg, "kind");
        if (!kind || !probe_kind_from_name(kind, &at->probe->kind))
                return config_wrong(at, ERR_BADARG,
                                    "kind must be mysql, postgres, host, http or command%s%s",
                                    kind ? ", not " : "", kind ? kind : "");
        return OK;
}

/* What a target of its kind has alone. */
static int take_own(const struct config_at *at, cfg_t *cfg)
{
        struct probe_options *o = at->probe;
        if (o->kind == PROBE_COMMAND)
                return take_command(o, cfg, at);
        if (cfg_size(cfg, "env"))
                return config_wrong(at, ERR_BADARG, "env is for kind command");
        if (o->kind == PROBE_HTTP)
                return take_url(o, cfg, at);
        return o->kind == PROBE_HOST ? OK : take_database(at, cfg);
}

bool config_is_name(const char *name)
{
        size_t len = strlen(name);
        for (size_t i = 0; i < len; i++)
                if ((unsigned char)name[i] < ' ' || name[i] == 0x7f || name[i] == '/')
                        return false;
        return len >= 1 && len <= PROBE_NAME_MAX && slice_is_utf8(slice_make(name, len));
}

static int take_target(struct probe_options *o, struct config_target *level, cfg_t *cfg,
                       struct problem *problem)
{
        const char *name = cfg_title(cfg);
        struct config_at at = {
                .section = SECTION_TARGET, .own = level, .probe = o, .problem = problem};
        (void)snprintf(at.where, sizeof(at.where), "target \"%s\": ", SHOWN_STR(name));
        config_target_init(o, level);
        if (!config_is_name(name))
                return config_wrong(&at, ERR_BADARG,
                                    "a target needs a name of 1 to %d bytes of UTF-8 without '/' "
                                    "and control characters",
                                    PROBE_NAME_MAX);
        (void)snprintf(o->name, sizeof(o->name), "%s", name);
        int r = take_kind(&at, cfg);
        if (r == OK)
                r = config_rows_take(&at, cfg);
        if (r == OK)
                r = take_own(&at, cfg);
        if (r == OK)
                r = config_password_take(&at, level->password_file, level->password_env,
                                         &o->password);
        if (r == OK)
                r = config_tls_take(&at, cfg);
        if (r == OK)
                r = take_metrics(&at, level, cfg);
        if (r == OK)
                r = take_check(&at, level, cfg);
        if (r == OK)
                set_hibernation(o, level);
        return r;
}

int config_targets_take(struct config_targets *t, cfg_t *cfg, struct problem *problem)
{
        unsigned n = cfg_size(cfg, "target");
        if (n > CONFIG_TARGETS_MAX)
                return problem_set(problem, ERR_BADARG, "more than %d targets", CONFIG_TARGETS_MAX);
        t->probes = xcalloc(n + 1, sizeof(*t->probes));
        t->levels = xcalloc(n + 1, sizeof(*t->levels));
        for (unsigned i = 0; i < n; i++) {
                t->n++;
                int r = take_target(&t->probes[i], &t->levels[i], cfg_getnsec(cfg, "target", i),
                                    problem);
                if (r != OK)
                        return r;
        }
        return OK;
}

void config_server_release(struct sql_server *s)
{
        free(s->host);
        free(s->name);
        free(s->tls_name);
}

static void free_words(char **words)
{
        for (char **word = words; word && *word; word++)
                free(*word);
        free(words);
}

static void release_target(struct probe_options *o, struct config_target *level)
{
        const struct config_at at = {.section = SECTION_TARGET, .own = level, .probe = o};
        config_rows_release(&at);
        config_password_release(&o->password);
        config_server_release(&o->primary);
        for (size_t i = 0; i < o->n_replicas; i++)
                config_server_release(&o->replicas[i]);
        free(o->replicas);
        free_words(o->argv);
        free_words(o->env);
        for (size_t i = 0; i < o->n_metrics; i++)
                free(o->metrics[i].source);
        free(o->metrics);
}

void config_targets_release(struct config_targets *t)
{
        for (size_t i = 0; i < t->n; i++)
                release_target(&t->probes[i], &t->levels[i]);
        free(t->probes);
        free(t->levels);
        *t = (struct config_targets){0};
}

static void put_target_names(const struct config_targets *targets, char *ret, size_t size)
{
        size_t len = 0;
        ret[0] = '\0';
        for (size_t i = 0; i < targets->n && len < size; i++) /* cut is fine */
                len += (size_t)snprintf(ret + len, size - len, "%s'%s'", i ? ", " : "",
                                        SHOWN_STR(targets->probes[i].name));
}

int config_check_target(const struct config_at *at, const char *name,
                        const struct config_targets *targets)
{
        char have[PROBLEM_DETAIL_MAX];
        for (size_t i = 0; i < targets->n; i++)
                if (strcmp(targets->probes[i].name, name) == 0)
                        return OK;
        put_target_names(targets, have, sizeof(have));
        return config_wrong(at, ERR_BADARG, "target '%s' is not in this file; it has %s",
                            SHOWN_STR(name), targets->n ? have : "no target");
}

/* ---- the same? ---- */

bool config_text_is_same(const char *a, const char *b)
{
        return a && b ? strcmp(a, b) == 0 : a == b;
}

bool config_server_is_same(const struct sql_server *a, const struct sql_server *b)
{
        return config_text_is_same(a->host, b->host) && a->port == b->port &&
               config_text_is_same(a->name, b->name) &&
               config_text_is_same(a->tls_name, b->tls_name);
}

bool config_tls_is_same(const struct sql_tls *a, const struct sql_tls *b)
{
        return a->mode == b->mode && config_text_is_same(a->ca, b->ca) &&
               config_text_is_same(a->cert, b->cert) && config_text_is_same(a->key, b->key);
}

static bool is_same_words(char *const *a, char *const *b)
{
        if (!a || !b)
                return a == b;
        while (*a && *b && strcmp(*a, *b) == 0) {
                a++;
                b++;
        }
        return !*a && !*b;
}

static bool has_same_lists(const struct probe_options *a, const struct probe_options *b)
{
        if (a->n_replicas != b->n_replicas || a->n_metrics != b->n_metrics)
                return false;
        for (size_t i = 0; i < a->n_replicas; i++)
                if (!config_server_is_same(&a->replicas[i], &b->replicas[i]))
                        return false;
        for (size_t i = 0; i < a->n_metrics; i++)
                if (strcmp(a->metrics[i].name, b->metrics[i].name) != 0 ||
                    !config_text_is_same(a->metrics[i].source, b->metrics[i].source))
                        return false;
        return true;
}

bool config_probe_is_same(const struct probe_options *a, const struct probe_options *b)
{
        return strcmp(a->name, b->name) == 0 && a->kind == b->kind &&
               config_server_is_same(&a->primary, &b->primary) &&
               a->ignore_replicas == b->ignore_replicas &&
               a->is_missing_replica_fine == b->is_missing_replica_fine &&
               config_text_is_same(a->user, b->user) &&
               config_text_is_same(a->password, b->password) &&
               config_tls_is_same(&a->tls, &b->tls) &&
               config_text_is_same(a->database, b->database) &&
               config_text_is_same(a->heartbeat_table, b->heartbeat_table) &&
               a->is_heartbeat_utc == b->is_heartbeat_utc && config_text_is_same(a->url, b->url) &&
               is_same_words(a->argv, b->argv) && is_same_words(a->env, b->env) &&
               a->interval_ms == b->interval_ms && a->timeout_ms == b->timeout_ms &&
               a->hibernate_after_ms == b->hibernate_after_ms &&
               a->hibernate_every_ms == b->hibernate_every_ms && has_same_lists(a, b);
}
