/* See config_text.h.
 *
 * One line per setting, "name = value", sections indented; what is in its default place is left out
 * or not.  A section is opened when its first line comes, so that one without lines does not show,
 * except where the section itself says something (a target, a metric). */
#include "serve/config_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "gate/ramp.h"
#include "history/history.h"
#include "serve/config_tls.h"

#define DEPTH_MAX 4

struct writer {
        struct buf *out;
        bool has_defaults;
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

/* NULL is nothing to say. */
static void line_text(struct writer *w, const char *name, const char *text, const char *usual)
{
        if (!text || !begin(w, name, usual && strcmp(text, usual) == 0))
                return;
        put_text(w->out, text);
        end(w);
}

/* 0 is nothing to say.  As size_parse() reads it. */
static void line_size(struct writer *w, const char *name, uint64_t bytes)
{
        char text[24];
        bool is_mib = bytes % MIB == 0;
        (void)snprintf(text, sizeof(text), "%llu%s",
                       (unsigned long long)(is_mib ? bytes / MIB : bytes), is_mib ? "m" : "");
        line_text(w, name, bytes ? text : NULL, NULL);
}

static void line_bool(struct writer *w, const char *name, bool value, bool usual)
{
        if (!begin(w, name, value == usual))
                return;
        buf_put_str(w->out, value ? "true" : "false");
        end(w);
}

static void line_int(struct writer *w, const char *name, int64_t value, int64_t usual)
{
        if (!begin(w, name, value == usual))
                return;
        buf_put_i64(w->out, value);
        end(w);
}

static void line_duration(struct writer *w, const char *name, int64_t ms, int64_t usual_ms)
{
        char text[DURATION_TEXT_MAX];
        if (!begin(w, name, ms == usual_ms))
                return;
        put_text(w->out, duration_text(ms, text));
        end(w);
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

static void line_number(struct writer *w, const char *name, double value, bool is_default)
{
        if (!begin(w, name, is_default))
                return;
        put_number(w->out, value);
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

/* ---- the throttle ---- */

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
        enter(w, "level", level_name(level));
        line_texts(w, "delays", delays, TIERS,
                   memcmp(p->delay_ms[level], usual.delay_ms[level], sizeof(p->delay_ms[0])) == 0);
        line_int(w, "claim_size", p->caps[level].claim_size, usual.caps[level].claim_size);
        line_int(w, "claims", p->caps[level].claims, usual.caps[level].claims);
        leave(w);
}

static void put_registry(struct writer *w, const struct registry_entry *entries, size_t n)
{
        if (n == 0 || !begin(w, "registry", false))
                return;
        buf_put_byte(w->out, '{');
        for (size_t i = 0; i < n; i++) {
                char text[REGISTRY_PATTERN_MAX + 16];
                (void)snprintf(text, sizeof(text), "%.*s=%s", (int)entries[i].pattern.len,
                               entries[i].pattern.ptr, tier_name(entries[i].tier));
                buf_put_str(w->out, i ? ", " : "");
                put_text(w->out, text);
        }
        buf_put_byte(w->out, '}');
        end(w);
}

static void put_load(struct writer *w, const struct config_throttle *t)
{
        const struct level_rule *q = &t->queue_depth;
        const double depth[] = {q->enter[0], q->exit[0], q->enter[1], q->exit[1]};
        struct zone_rule usual;
        const double limits[] = {t->zone.min, t->zone.start, t->zone.max};
        zone_rule_init(&usual);
        if (t->has_queue_depth)
                line_numbers(w, "queue_depth", depth, ARRAY_LEN(depth), false);
        line_duration(w, "queue_age", t->policy.queue_age_ms, GATE_QUEUE_AGE_MS);
        line_text(w, "queue_level", level_name(t->policy.queue_level), level_name(LEVEL_ELEVATED));
        line_text(w, "adaptive", mode_name(t->adaptive), mode_name(MODE_OFF));
        line_numbers(w, "adaptive_limit", limits, ARRAY_LEN(limits),
                     t->zone.min == usual.min && t->zone.start == usual.start &&
                             t->zone.max == usual.max);
}

static void put_checks(struct writer *w, const struct core_checks *c)
{
        struct config_throttle usual;
        config_throttle_init(&usual);
        const struct core_checks *u = &usual.checks;
        line_text(w, "check_mode", mode_name(c->mode), mode_name(u->mode));
        line_duration(w, "rule_max", c->rule_max_ms, u->rule_max_ms);
        line_bool(w, "rule_endless", c->is_endless_allowed, false);
        line_duration(w, "starved_after", c->starved_ms, u->starved_ms);
        line_number(w, "exempt_budget", c->exempt_budget, c->exempt_budget == u->exempt_budget);
        line_bool(w, "exempt_ends", c->exempt_ends, false);
        line_int(w, "credits_max", c->credit.max, u->credit.max);
        line_duration(w, "credits_time", c->credit.ms, u->credit.ms);
}

static void put_expiry(struct writer *w, const struct policy *p)
{
        char room[TIERS][16];
        char *tiers[TIERS];
        size_t n = 0;
        line_duration(w, "expiry_margin", p->expiry_margin_ms, GATE_MARGIN_MS);
        for (size_t i = 0; i < TIERS; i++) {
                if (!p->lets_expire[i])
                        continue;
                (void)snprintf(room[n], sizeof(room[n]), "%s", tier_name((enum tier)i));
                tiers[n] = room[n];
                n++;
        }
        line_texts(w, "expire", tiers, n, n == 0);
}

static void put_throttle(struct writer *w, const struct config_throttle *t)
{
        unsigned cycles = t->ramp_cycles ? t->ramp_cycles : RAMP_CYCLES;
        int64_t cycle_ns = t->ramp_cycle_ns ? t->ramp_cycle_ns : RAMP_CYCLE_NS;
        enter(w, "throttle", NULL);
        line_bool(w, "enabled", !t->is_off, true);
        line_text(w, "mode", mode_name(t->policy.mode), mode_name(MODE_OFF));
        line_int(w, "ramp_cycles", cycles, RAMP_CYCLES);
        line_duration(w, "ramp_cycle", cycle_ns / NS_PER_MS, RAMP_CYCLE_NS / NS_PER_MS);
        line_duration(w, "max_deferral", (int64_t)t->policy.max_deferral_ms, 0);
        line_int(w, "deferrals_per_hour", t->policy.deferrals_per_hour, 0);
        put_expiry(w, &t->policy);
        put_registry(w, t->registry, t->n_registry);
        put_load(w, t);
        put_checks(w, &t->checks);
        for (int level = LEVEL_ELEVATED; level < LEVELS; level++)
                put_level(w, &t->policy, (enum level)level);
        leave(w);
}

/* ---- targets ---- */

static void put_server(struct writer *w, const struct probe_server *s, enum probe_kind kind)
{
        int usual = kind == PROBE_POSTGRES ? 5432 : 3306;
        bool is_socket = s->host && s->host[0] == '/';
        line_text(w, is_socket ? "socket" : "host", s->host, NULL);
        line_int(w, "port", s->port, usual);
        line_text(w, "tls_name", s->tls_name, NULL);
}

static void put_tls(struct writer *w, const struct probe_options *o)
{
        if (o->kind == PROBE_MYSQL || o->kind == PROBE_POSTGRES)
                line_text(w, "tls", probe_tls_mode_name(o->tls.mode),
                          probe_tls_mode_name(CONFIG_TLS_MODE));
        line_text(w, "tls_ca", o->tls.ca, NULL);
        line_text(w, "tls_cert", o->tls.cert, NULL);
        line_text(w, "tls_key", o->tls.key, NULL);
}

static void line_words(struct writer *w, const char *name, char *const *words)
{
        size_t n = 0;
        while (words && words[n])
                n++;
        if (n)
                line_texts(w, name, words, n, false);
}

static void put_where(struct writer *w, const struct probe_options *o,
                      const struct config_target *level)
{
        line_text(w, "kind", probe_kind_name(o->kind), NULL);
        if (o->primary.host)
                put_server(w, &o->primary, o->kind);
        line_text(w, "user", o->user, NULL);
        line_text(w, "password_file", level->password_file, NULL);
        line_text(w, "password_env", level->password_env, NULL);
        put_tls(w, o);
        line_text(w, "database", o->database, NULL);
        line_text(w, "heartbeat_table", o->heartbeat_table, NULL);
        if (o->heartbeat_table)
                line_bool(w, "heartbeat_utc", o->is_heartbeat_utc, false);
        line_text(w, "url", o->url, NULL);
        line_words(w, "command", o->argv);
        line_words(w, "env", o->env);
}

static void put_unknown(struct writer *w, const struct unknown_rule rules[TIERS])
{
        struct unknown_rule usual[TIERS];
        char room[TIERS][DURATION_TEXT_MAX + 8], time[DURATION_TEXT_MAX];
        char *texts[TIERS];
        bool is_usual = true;
        config_unknown_init(usual);
        for (size_t i = 0; i < TIERS; i++) {
                const struct unknown_rule *r = &rules[i];
                bool is_wait = r->policy == UNKNOWN_WAIT;
                (void)snprintf(room[i], sizeof(room[i]), "%s%s",
                               is_wait                       ? "wait:"
                               : r->policy == UNKNOWN_CLOSED ? "closed"
                                                             : "open",
                               is_wait ? duration_text(r->wait_ms, time) : "");
                texts[i] = room[i];
                is_usual &= r->policy == usual[i].policy && !is_wait;
        }
        line_texts(w, "unknown", texts, TIERS, is_usual);
}

static void put_check_list(struct writer *w, struct probe_options *o,
                           const struct config_target *level)
{
        char *names[LEVEL_METRICS_MAX];
        size_t n = 0;
        for (size_t i = 0; i < o->n_metrics; i++)
                if (level->is_checked[i])
                        names[n++] = o->metrics[i].name;
        if (n)
                line_texts(w, "check", names, n, false);
        put_unknown(w, level->unknown);
}

static void put_pair(struct writer *w, const char *name, const struct level_rule *r,
                     const struct level_rule *usual, int i)
{
        const double pair[] = {r->enter[i], isnan(r->exit[i]) ? r->enter[i] : r->exit[i]};
        if (!isnan(pair[0]))
                line_numbers(w, name, pair, 2,
                             r->enter[i] == usual->enter[i] && pair[1] == usual->exit[i]);
}

static void put_metric(struct writer *w, const struct probe_options *o,
                       const struct config_target *level, size_t i)
{
        const struct probe_metric *m = &o->metrics[i];
        const struct level_rule *r = &level->rules[i];
        double above = level->check_above[i], usual_above = config_check_above(r);
        struct level_rule usual = {.stale_ns = 0};
        config_default_thresholds(m->name, &usual);
        enter(w, "metric", m->name);
        open_sections(w);
        line_text(w, "source", m->source, m->name);
        put_pair(w, "elevated", r, &usual, 0);
        put_pair(w, "critical", r, &usual, 1);
        line_duration(w, "stale", r->stale_ns / NS_PER_MS, config_default_stale_ms(o));
        line_bool(w, "required", r->is_required, false);
        if (!isnan(above))
                line_number(w, "threshold", above, above == usual_above);
        leave(w);
}

static void put_target(struct writer *w, struct probe_options *o, const struct config_target *level)
{
        bool has_replicas = o->kind == PROBE_MYSQL || o->kind == PROBE_POSTGRES;
        enter(w, "target", o->name);
        put_where(w, o, level);
        line_duration(w, "interval", o->interval_ms, CONFIG_INTERVAL_MS);
        line_duration(w, "timeout", o->timeout_ms, CONFIG_TIMEOUT_MS);
        line_duration(w, "dwell", level->dwell_ns / NS_PER_MS, CONFIG_DWELL_MS);
        line_text(w, "mode", level->mode >= 0 ? mode_name((enum gate_mode)level->mode) : NULL,
                  NULL);
        if (has_replicas) {
                line_int(w, "ignore_replicas", o->ignore_replicas, 0);
                line_text(w, "missing_replica", o->is_missing_replica_fine ? "ignore" : "unknown",
                          "unknown");
        }
        put_check_list(w, o, level);
        for (size_t i = 0; i < o->n_replicas; i++) {
                enter(w, "replica", o->replicas[i].name);
                put_server(w, &o->replicas[i], o->kind);
                leave(w);
        }
        for (size_t i = 0; i < o->n_metrics; i++)
                put_metric(w, o, level, i);
        leave(w);
}

/* ---- all of it ---- */

static const char *history_name(enum history_policy policy)
{
        static const char *const names[] = {"full", "failures", "none"};
        return names[policy];
}

static const char *log_level_name(enum say_level level)
{
        static const char *const names[] = {"debug", "info", "warn", "error"};
        return names[level];
}

static void put_keep(struct writer *w, const char *name, int64_t ms, int64_t usual_ms)
{
        if (ms)
                line_duration(w, name, ms, usual_ms);
        else
                line_text(w, name, "forever", NULL);
}

static void put_addrs(struct writer *w, const char *name, char *const *addrs, size_t n,
                      const char *usual)
{
        line_texts(w, name, addrs, n, n == 1 && strcmp(addrs[0], usual) == 0);
}

static void put_top(struct writer *w, const struct config *c)
{
        line_text(w, "data", c->data, CONFIG_DATA);
        put_addrs(w, "resp", c->resp, c->n_resp, CONFIG_RESP);
        put_addrs(w, "http", c->http, c->n_http, CONFIG_HTTP);
        line_text(w, "token_file", c->token_file, NULL);
        line_bool(w, "check_without_token", c->is_check_open, false);
        line_size(w, "client_memory", c->client_bytes);
        line_text(w, "signing_keys_file", c->signing_keys_file, NULL);
        line_text(w, "log_level", log_level_name(c->log_level), log_level_name(SAY_INFO));
        line_bool(w, "log_json", c->is_log_json, false);
        line_text(w, "history", history_name(c->history), history_name(HISTORY_FULL));
        put_keep(w, "history_keep_done", c->keep_done_ms, HISTORY_KEEP_DONE_MS);
        put_keep(w, "history_keep_failed", c->keep_failed_ms, HISTORY_KEEP_FAILED_MS);
        put_keep(w, "history_keep_incidents", c->keep_incidents_ms, HISTORY_KEEP_INCIDENTS_MS);
        for (size_t i = 0; i < c->n_queues; i++) {
                enter(w, "queue", c->queues[i].name);
                line_text(w, "history", history_name(c->queues[i].history), NULL);
                leave(w);
        }
}

static void put_locks(struct writer *w, const struct config *c)
{
        enter(w, "locks", NULL);
        line_bool(w, "enabled", !c->are_locks_off, true);
        leave(w);
}

void config_put_locks(const struct config *c, struct buf *ret)
{
        struct writer w = {.out = ret, .has_defaults = true};
        put_locks(&w, c);
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

void config_put(const struct config *c, bool has_defaults, struct buf *ret)
{
        struct writer w = {.out = ret, .has_defaults = has_defaults};
        put_top(&w, c);
        put_locks(&w, c);
        put_throttle(&w, &c->throttle);
        for (size_t i = 0; i < c->targets.n; i++)
                config_put_target(c, i, has_defaults, ret);
}

int config_read_text(const char *path, struct buf *ret, struct problem *problem)
{
        struct config c;
        config_init(&c);
        int r = config_read_file(&c, path, problem);
        if (r == OK)
                r = config_finish(&c, problem);
        if (r == OK)
                r = config_check_access(&c, problem);
        if (r == OK)
                config_put(&c, true, ret);
        config_release(&c);
        return r;
}
