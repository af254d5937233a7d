/* See config_text.h.
 *
 * One line per setting, "name = value", sections indented, in the order of the rows of
 * api/setting_table.def; what is as by default is left out or not.  A section is opened when its
 * first line comes, so that one without lines does not show, except where the section itself says
 * something (a target, a metric). */
#include "serve/config_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "serve/config_rows.h"

#define DEPTH_MAX 4

struct writer {
        struct buf *out;
        bool has_defaults;
        const char *kind;     /* of the target that is written; NULL: none is */
        size_t depth, opened; /* sections entered, and those of them that show */
        struct {
                const char *name, *title; /* title NULL: none */
        } section[DEPTH_MAX];
};

/* ---- lines ---- */

static void put_text(struct buf *b, const char *text)
{
        buf_put_byte(b, '"');
        for (const char *c = text; *c; c++) {
                if (*c == '\n') {
                        buf_put_str(b, "\\n");
                        continue;
                }
                if (*c == '"' || *c == '\\' || *c == '$') /* "${HOME}" is replaced when read */
                        buf_put_byte(b, '\\');
                buf_put_byte(b, *c);
        }
        buf_put_byte(b, '"');
}

static void indent(const struct writer *w, size_t depth)
{
        for (size_t i = 0; i < depth; i++)
                buf_put_str(w->out, "        ");
}

static void open_sections(struct writer *w)
{
        for (; w->opened < w->depth; w->opened++) {
                if (w->opened == 0 && w->out->len)
                        buf_put_byte(w->out, '\n');
                indent(w, w->opened);
                buf_put_str(w->out, w->section[w->opened].name);
                if (w->section[w->opened].title) {
                        buf_put_byte(w->out, ' ');
                        put_text(w->out, w->section[w->opened].title);
                }
                buf_put_str(w->out, " {\n");
        }
}

static void enter(struct writer *w, const char *name, const char *title)
{
        ASSERT(w->depth < DEPTH_MAX);
        w->section[w->depth].name = name;
        w->section[w->depth++].title = title;
}

static void leave(struct writer *w)
{
        w->depth--;
        if (w->opened <= w->depth)
                return;
        w->opened = w->depth;
        indent(w, w->depth);
        buf_put_str(w->out, "}\n");
}

/* True: "name = " stands there and the value is to follow. */
static bool begin(struct writer *w, const char *name, bool is_default)
{
        if (is_default && !w->has_defaults)
                return false;
        open_sections(w);
        indent(w, w->depth);
        buf_put_str(w->out, name);
        buf_put_str(w->out, " = ");
        return true;
}

static void end(struct writer *w)
{
        buf_put_byte(w->out, '\n');
}

/* The shortest that reads back the same. */
static void put_number(struct buf *b, double value)
{
        char text[40];
        for (int digits = 6; digits <= 17; digits++) {
                (void)snprintf(text, sizeof(text), "%.*g", digits, value);
                if (strtod(text, NULL) == value)
                        break;
        }
        buf_put_str(b, text);
}

/* NULL is nothing to say. */
static void line_text(struct writer *w, const char *name, const char *text, bool is_default)
{
        if (!text || !begin(w, name, is_default))
                return;
        put_text(w->out, text);
        end(w);
}

static void line_int(struct writer *w, const char *name, int64_t value, bool is_default)
{
        if (!begin(w, name, is_default))
                return;
        buf_put_i64(w->out, value);
        end(w);
}

static void line_bool(struct writer *w, const char *name, bool value, bool is_default)
{
        if (!begin(w, name, is_default))
                return;
        buf_put_str(w->out, value ? "true" : "false");
        end(w);
}

static void line_numbers(struct writer *w, const char *name, const double *values, size_t n,
                         bool is_default)
{
        if (!begin(w, name, is_default))
                return;
        for (size_t i = 0; i < n; i++) {
                buf_put_str(w->out, i ? ", " : "{");
                put_number(w->out, values[i]);
        }
        buf_put_str(w->out, "}");
        end(w);
}

static void line_number(struct writer *w, const char *name, double value, bool is_default)
{
        if (!begin(w, name, is_default))
                return;
        put_number(w->out, value);
        end(w);
}

static void line_texts(struct writer *w, const char *name, char *const *texts, size_t n,
                       bool is_default)
{
        if (!begin(w, name, is_default))
                return;
        buf_put_byte(w->out, '{');
        for (size_t i = 0; i < n; i++) {
                buf_put_str(w->out, i ? ", " : "");
                put_text(w->out, texts[i]);
        }
        buf_put_byte(w->out, '}');
        end(w);
}

/* ---- rows ---- */

/* As size_parse() reads it; 0 is nothing to say. */
static void line_size(struct writer *w, const char *name, int64_t bytes)
{
        char text[24];
        bool is_mib = bytes % (int64_t)MIB == 0;
        (void)snprintf(text, sizeof(text), "%lld%s",
                       (long long)(is_mib ? bytes / (int64_t)MIB : bytes), is_mib ? "m" : "");
        line_text(w, name, bytes ? text : NULL, false);
}

static void line_num(struct writer *w, const struct setting_def *def, int64_t value,
                     bool is_default)
{
        char text[DURATION_TEXT_MAX];
        if (def->type == SETTING_BOOL)
                line_bool(w, def->name, value, is_default);
        else if (def->type == SETTING_INT)
                line_int(w, def->name, value, is_default);
        else if (def->type == SETTING_SIZE)
                line_size(w, def->name, value);
        else if (def->type == SETTING_CHOICE)
                line_text(w, def->name, value < 0 ? NULL : def->choices[value], is_default);
        else if (def->flags & SETTING_FOREVER && value == 0)
                line_text(w, def->name, "forever", is_default);
        else
                line_text(w, def->name, value < 0 ? NULL : duration_text(value, text), is_default);
}

static void put_row(struct writer *w, const struct config_at *at, enum setting_id id)
{
        const struct setting_def *def = &setting_table[id];
        bool has_usual = at->usual != NULL;
        if (def->type == SETTING_TEXT) {
                const char *text = config_row_text(at, id);
                line_text(w, def->name, text,
                          text && def->usual_text && strcmp(text, def->usual_text) == 0);
        } else if (def->type == SETTING_TEXTS) {
                size_t n;
                char *const *texts = config_row_list(at, id, &n);
                line_texts(w, def->name, texts, n,
                           def->usual_text ? n == 1 && strcmp(texts[0], def->usual_text) == 0
                                           : n == 0);
        } else if (def->type == SETTING_SHARE || def->type == SETTING_NUMBER) {
                double value = config_row_number(at, id, false);
                line_number(w, def->name, value, value == config_row_number(at, id, true));
        } else {
                int64_t value = config_row_num(at, id, false);
                line_num(w, def, value, has_usual && value == config_row_num(at, id, true));
        }
}

typedef void put_fn(struct writer *w, const struct config_at *at, const char *name);

/* ---- rows that are kept in a way of their own ---- */

static void put_expire(struct writer *w, const struct config_at *at, const char *name)
{
        const struct config_throttle *t = at->from;
        char room[TIERS][16];
        char *tiers[TIERS];
        size_t n = 0;
        for (size_t i = 0; i < TIERS; i++) {
                if (!t->policy.lets_expire[i])
                        continue;
                (void)snprintf(room[n], sizeof(room[n]), "%s", tier_name((enum tier)i));
                tiers[n] = room[n];
                n++;
        }
        line_texts(w, name, tiers, n, n == 0);
}

static void put_registry(struct writer *w, const struct config_at *at, const char *name)
{
        const struct config_throttle *t = at->from;
        if (t->n_registry == 0 || !begin(w, name, false))
                return;
        buf_put_byte(w->out, '{');
        for (size_t i = 0; i < t->n_registry; i++) {
                const struct registry_entry *e = &t->registry[i];
                char text[REGISTRY_PATTERN_MAX + 16];
                (void)snprintf(text, sizeof(text), "%.*s=%s", (int)e->pattern.len, e->pattern.ptr,
                               tier_name(e->tier));
                buf_put_str(w->out, i ? ", " : "");
                put_text(w->out, text);
        }
        buf_put_byte(w->out, '}');
        end(w);
}

static void put_queue_depth(struct writer *w, const struct config_at *at, const char *name)
{
        const struct config_throttle *t = at->from;
        const struct level_rule *q = &t->queue_depth;
        const double depth[] = {q->enter[0], q->exit[0], q->enter[1], q->exit[1]};
        if (t->has_queue_depth)
                line_numbers(w, name, depth, ARRAY_LEN(depth), false);
}

static void put_adaptive_limit(struct writer *w, const struct config_at *at, const char *name)
{
        const struct config_throttle *t = at->from, *usual = at->usual;
        const double limits[] = {t->zone.min, t->zone.start, t->zone.max};
        line_numbers(w, name, limits, ARRAY_LEN(limits),
                     t->zone.min == usual->zone.min && t->zone.start == usual->zone.start &&
                             t->zone.max == usual->zone.max);
}

/* host or socket, port and tls_name of a server. */
static void put_server(struct writer *w, const struct sql_server *s, enum probe_kind kind)
{
        bool is_socket = s->host && s->host[0] == '/';
        line_text(w, is_socket ? "socket" : "host", s->host, false);
        line_int(w, "port", s->port, s->port == config_usual_port(kind));
        line_text(w, "tls_name", s->tls_name, false);
}

static void put_primary(struct writer *w, const struct config_at *at, const char *name)
{
        (void)name; /* there are several */
        if (at->from_probe->primary.host)
                put_server(w, &at->from_probe->primary, at->from_probe->kind);
}

static void put_replica(struct writer *w, const struct config_at *at, const char *name)
{
        (void)name; /* there are several */
        put_server(w, at->from, at->from_probe->kind);
}

static void put_site_server(struct writer *w, const struct config_at *at, const char *name)
{
        (void)name; /* there are several */
        const struct config_site *site = at->from;
        put_server(w, &site->store.login.server, PROBE_MYSQL);
}

static void put_heartbeat_utc(struct writer *w, const struct config_at *at, const char *name)
{
        const struct probe_options *o = at->from_probe;
        if (o->heartbeat_table)
                line_bool(w, name, o->is_heartbeat_utc, !o->is_heartbeat_utc);
}

static void line_words(struct writer *w, const char *name, char *const *words)
{
        size_t n = 0;
        while (words && words[n])
                n++;
        if (n)
                line_texts(w, name, words, n, false);
}

static void put_command(struct writer *w, const struct config_at *at, const char *name)
{
        line_words(w, name, at->from_probe->argv);
}

static void put_env(struct writer *w, const struct config_at *at, const char *name)
{
        line_words(w, name, at->from_probe->env);
}

static void put_check(struct writer *w, const struct config_at *at, const char *name)
{
        const struct probe_options *o = at->from_probe;
        char *names[LEVEL_METRICS_MAX];
        size_t n = 0;
        for (size_t i = 0; i < o->n_metrics; i++)
                if (at->level->is_checked[i])
                        names[n++] = o->metrics[i].name;
        if (n)
                line_texts(w, name, names, n, false);
}

static void put_unknown(struct writer *w, const struct config_at *at, const char *name)
{
        struct unknown_rule usual[TIERS];
        char room[TIERS][DURATION_TEXT_MAX + 8], time[DURATION_TEXT_MAX];
        char *texts[TIERS];
        bool is_usual = true;
        config_unknown_init(usual);
        for (size_t i = 0; i < TIERS; i++) {
                const struct unknown_rule *r = &at->level->unknown[i];
                bool is_wait = r->policy == UNKNOWN_WAIT;
                (void)snprintf(room[i], sizeof(room[i]), "%s%s",
                               is_wait                       ? "wait:"
                               : r->policy == UNKNOWN_CLOSED ? "closed"
                                                             : "open",
                               is_wait ? duration_text(r->wait_ms, time) : "");
                texts[i] = room[i];
                is_usual &= r->policy == usual[i].policy && !is_wait;
        }
        line_texts(w, name, texts, TIERS, is_usual);
}

static void put_source(struct writer *w, const struct config_at *at, const char *name)
{
        const struct probe_metric *m = &at->from_probe->metrics[at->metric];
        line_text(w, name, m->source, strcmp(m->source, m->name) == 0);
}

static void put_pair(struct writer *w, const struct config_at *at, const char *name, int i)
{
        const struct level_rule *r = at->from;
        const double pair[] = {r->enter[i], isnan(r->exit[i]) ? r->enter[i] : r->exit[i]};
        struct level_rule usual = {.stale_ns = 0};
        config_default_thresholds(at->from_probe->metrics[at->metric].name, &usual);
        if (at->level->is_auto[at->metric][i])
                line_text(w, name, "auto", false);
        else if (!isnan(pair[0]))
                line_numbers(w, name, pair, 2,
                             r->enter[i] == usual.enter[i] && pair[1] == usual.exit[i]);
}

static void put_elevated(struct writer *w, const struct config_at *at, const char *name)
{
        put_pair(w, at, name, 0);
}

static void put_critical(struct writer *w, const struct config_at *at, const char *name)
{
        put_pair(w, at, name, 1);
}

static void put_stale(struct writer *w, const struct config_at *at, const char *name)
{
        const struct level_rule *r = at->from;
        int64_t ms = r->stale_ns / NS_PER_MS;
        char text[DURATION_TEXT_MAX];
        line_text(w, name, duration_text(ms, text), ms == config_default_stale_ms(at->from_probe));
}

static void put_threshold(struct writer *w, const struct config_at *at, const char *name)
{
        double above = at->level->check_above[at->metric];
        if (!isnan(above))
                line_number(w, name, above, above == config_check_above(at->from));
}

static put_fn *const put_own[SETTING_IDS] = {
        [SET_THROTTLE_expire] = put_expire,
        [SET_THROTTLE_registry] = put_registry,
        [SET_THROTTLE_queue_depth] = put_queue_depth,
        [SET_THROTTLE_adaptive_limit] = put_adaptive_limit,
        [SET_TARGET_host] = put_primary,
        [SET_TARGET_heartbeat_utc] = put_heartbeat_utc,
        [SET_TARGET_command] = put_command,
        [SET_TARGET_env] = put_env,
        [SET_TARGET_check] = put_check,
        [SET_TARGET_unknown] = put_unknown,
        [SET_REPLICA_host] = put_replica,
        [SET_METRIC_source] = put_source,
        [SET_METRIC_elevated] = put_elevated,
        [SET_METRIC_critical] = put_critical,
        [SET_METRIC_stale] = put_stale,
        [SET_METRIC_threshold] = put_threshold,
        [SET_WORDPRESS_host] = put_site_server,
};

/* ---- sections ---- */

static void put_rows(struct writer *w, const struct config_at *at)
{
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                if (def->section != at->section)
                        continue;
                if (put_own[id])
                        put_own[id](w, at, def->name);
                else if (config_row_is_kept(id) && (!w->kind || config_row_is_for(def, w->kind)))
                        put_row(w, at, id);
        }
}

/* The delays of a level are in another place than its caps. */
static void put_level(struct writer *w, const struct policy *p, enum level level)
{
        struct policy usual;
        char room[TIERS][DURATION_TEXT_MAX];
        char *delays[TIERS];
        policy_init(&usual);
        for (size_t i = 0; i < TIERS; i++) {
                (void)duration_text(p->delay_ms[level][i], room[i]); /* returns the room */
                delays[i] = room[i];
        }
        const struct config_at at = {
                .section = SECTION_LEVEL, .from = &p->caps[level], .usual = &usual.caps[level]};
        enter(w, "level", level_name(level));
        line_texts(w, setting_table[SET_LEVEL_delays].name, delays, TIERS,
                   memcmp(p->delay_ms[level], usual.delay_ms[level], sizeof(p->delay_ms[0])) == 0);
        put_rows(w, &at);
        leave(w);
}

static void put_throttle(struct writer *w, const struct config_throttle *t)
{
        struct config_throttle usual;
        config_throttle_init(&usual);
        const struct config_at at = {.section = SECTION_THROTTLE, .from = t, .usual = &usual};
        enter(w, "throttle", NULL);
        put_rows(w, &at);
        for (int level = LEVEL_ELEVATED; level < LEVELS; level++)
                put_level(w, &t->policy, (enum level)level);
        leave(w);
}

static void put_target(struct writer *w, const struct probe_options *o,
                       const struct config_target *level)
{
        struct probe_options usual_probe;
        struct config_target usual;
        struct level_rule usual_rule = {.is_required = false};
        config_target_init(&usual_probe, &usual);
        struct config_at at = {.section = SECTION_TARGET,
                               .from = level,
                               .usual = &usual,
                               .from_probe = o,
                               .usual_probe = &usual_probe,
                               .level = level};
        enter(w, "target", o->name);
        w->kind = probe_kind_name(o->kind);
        put_rows(w, &at);
        w->kind = NULL;
        at.section = SECTION_REPLICA;
        for (size_t i = 0; i < o->n_replicas; i++) {
                at.from = &o->replicas[i];
                enter(w, "replica", o->replicas[i].name);
                put_rows(w, &at);
                leave(w);
        }
        at.section = SECTION_METRIC;
        at.usual = &usual_rule;
        for (at.metric = 0; at.metric < o->n_metrics; at.metric++) {
                at.from = &level->rules[at.metric];
                enter(w, "metric", o->metrics[at.metric].name);
                open_sections(w);
                put_rows(w, &at);
                leave(w);
        }
        leave(w);
}

static void put_site(struct writer *w, const struct config_site *site)
{
        struct config_site usual;
        config_site_init(&usual);
        const struct config_at at = {.section = SECTION_WORDPRESS, .from = site, .usual = &usual};
        enter(w, "wordpress", site->name);
        put_rows(w, &at);
        leave(w);
}

static void put_door(struct writer *w, const struct config_door *door)
{
        struct config_door usual;
        config_door_init(&usual);
        const struct config_at at = {.section = SECTION_MYSQL, .from = door, .usual = &usual};
        enter(w, "mysql", door->name);
        put_rows(w, &at);
        leave(w);
}

static void put_class(struct writer *w, const struct config_class *class)
{
        struct config_class usual;
        config_class_init(&usual);
        const struct config_at at = {.section = SECTION_CLASS, .from = class, .usual = &usual};
        enter(w, "class", class->name);
        put_rows(w, &at);
        leave(w);
}

static void put_token(struct writer *w, const struct config_token *token)
{
        struct config_token usual;
        config_token_init(&usual);
        const struct config_at at = {.section = SECTION_TOKEN, .from = token, .usual = &usual};
        enter(w, "token", token->name);
        put_rows(w, &at);
        leave(w);
}

static void put_tls(struct writer *w, const struct config *c, const struct config *usual)
{
        const struct config_at at = {.section = SECTION_TLS, .from = c, .usual = usual};
        enter(w, "tls", NULL);
        put_rows(w, &at);
        leave(w);
}

static void put_telemetry(struct writer *w, const struct config_telemetry *t,
                          const struct config_telemetry *usual)
{
        const struct config_at at = {.section = SECTION_TELEMETRY, .from = t, .usual = usual};
        enter(w, "telemetry", NULL);
        put_rows(w, &at);
        leave(w);
}

static void put_cluster(struct writer *w, const struct config_cluster *c,
                        const struct config_cluster *usual)
{
        const struct config_at at = {.section = SECTION_CLUSTER, .from = c, .usual = usual};
        if (!c->is_given)
                return;
        enter(w, "cluster", NULL);
        put_rows(w, &at);
        leave(w);
}

static void put_locks(struct writer *w, const struct config *c, const struct config *usual)
{
        const struct config_at at = {.section = SECTION_LOCKS, .from = c, .usual = usual};
        enter(w, "locks", NULL);
        put_rows(w, &at);
        leave(w);
}

void config_put_locks(const struct config *c, struct buf *ret)
{
        struct writer w = {.out = ret, .has_defaults = true};
        put_locks(&w, c, NULL);
}

void config_put_throttle(const struct config *c, bool has_defaults, struct buf *ret)
{
        struct writer w = {.out = ret, .has_defaults = has_defaults};
        put_throttle(&w, &c->throttle);
}

void config_put_target(const struct config *c, size_t target, bool has_defaults, struct buf *ret)
{
        struct writer w = {.out = ret, .has_defaults = has_defaults};
        ASSERT(target < c->targets.n);
        put_target(&w, &c->targets.probes[target], &c->targets.levels[target]);
}

void config_put_site(const struct config *c, size_t site, bool has_defaults, struct buf *ret)
{
        struct writer w = {.out = ret, .has_defaults = has_defaults};
        ASSERT(site < c->sites.n);
        put_site(&w, &c->sites.sites[site]);
}

void config_put_door(const struct config *c, size_t door, bool has_defaults, struct buf *ret)
{
        struct writer w = {.out = ret, .has_defaults = has_defaults};
        ASSERT(door < c->doors.n);
        put_door(&w, &c->doors.doors[door]);
}

void config_put(const struct config *c, bool has_defaults, struct buf *ret)
{
        struct writer w = {.out = ret, .has_defaults = has_defaults};
        struct config usual;
        config_init(&usual);
        struct config_at at = {.section = SECTION_TOP, .from = c, .usual = &usual};
        put_rows(&w, &at);
        put_tls(&w, c, &usual);
        at.section = SECTION_QUEUE;
        at.usual = NULL; /* what is said of one queue is always shown */
        for (size_t i = 0; i < c->n_queues; i++) {
                at.from = &c->queues[i];
                enter(&w, "queue", c->queues[i].name);
                put_rows(&w, &at);
                leave(&w);
        }
        put_locks(&w, c, &usual);
        put_throttle(&w, &c->throttle);
        for (size_t i = 0; i < c->targets.n; i++)
                config_put_target(c, i, has_defaults, ret);
        for (size_t i = 0; i < c->sites.n; i++)
                config_put_site(c, i, has_defaults, ret);
        for (size_t i = 0; i < c->doors.n; i++)
                config_put_door(c, i, has_defaults, ret);
        for (size_t i = 0; i < c->doors.n_classes; i++)
                put_class(&w, &c->doors.classes[i]);
        for (size_t i = 0; i < c->tokens.n; i++)
                put_token(&w, &c->tokens.tokens[i]);
        put_telemetry(&w, &c->telemetry, &usual.telemetry);
        put_cluster(&w, &c->cluster, &usual.cluster);
}

int config_read_text(const char *path, struct buf *ret, struct problem *problem)
{
        struct config c;
        config_init(&c);
        int r = config_read_file(&c, path, problem);
        if (r == OK)
                r = config_finish(&c, problem);
        if (r == OK)
                r = config_check_access(&c, &c, problem);
        if (r == OK)
                r = config_check_tls(&c, problem);
        if (r == OK)
                config_put(&c, true, ret);
        config_release(&c);
        return r;
}
