/* The contract of Vitess's tablet throttler, over HTTP as its versions 17 to 24 have it.
 *
 * A check names an app and perhaps metrics, and gets a result for each metric and one for all: the
 * last that fails, as Vitess shows it.  The verdict is core_check()'s, with its one roll of the
 * dice for the whole ask; what stands in the map of metrics is read off the same answer, so the two
 * never disagree.
 *
 * Three generations of bodies: version 18's five fields, version 22's without the status, and
 * between them version 21's, which has the fields of both and is what is sent unless v= says
 * otherwise.
 *
 * weir has no shards: a target is one database with its replicas, and whichever scope is asked for
 * has the same values.  The scope is accepted and shown back. */
#include "door/vitess.h"

#include <math.h>

#include "base/duration.h"
#include "checks/client.h"
#include "checks/rule.h"
#include "gate/identity.h"
#include "throttle/throttle.h"
#include "wire/json.h"

#define APP_DEFAULT    "vitess"
#define APP_ALWAYS     "always-throttled-app"
#define ALWAYS_MS      (10 * 365LL * MS_PER_DAY)
#define METRIC_DEFAULT "default"
#define RECENTLY_NS    (2 * NS_PER_S) /* Vitess: within a tick of one second, or two */
#define RECENT_APPS_MS MS_PER_HOUR    /* how long Vitess remembers an app that checked */

enum { SCOPE_SHARD, SCOPE_SELF };

/* Numbers and names of tabletmanagerdata.CheckThrottlerResponseCode. */
enum code { UNDEFINED, GRANTED, THRESHOLD_EXCEEDED, APP_DENIED, UNKNOWN_METRIC, INTERNAL_ERROR };

static int status_of(enum code code)
{
        static const int statuses[] = {400, 200, 429, 417, 404, 500};
        return statuses[code];
}

struct result {
        struct slice name; /* of the metric, as asked */
        enum code code;
        double value, threshold;
        const char *message;
};

struct check {
        struct contract_call *call;
        struct slice app, scope;
        struct slice matched; /* the part of the app, or "all", that a rule is for; else the app */
        struct identity who;
        int version; /* 18, 21 or 22 */
        bool is_recent;
        bool has_metrics; /* the map is told, though it may be empty */
        struct result result[CHECK_METRICS_MAX];
        size_t n;
};

/* --- bodies ---------------------------------------------------------------------------------- */

static void put_code(struct buf *b, const struct check *c, enum code code)
{
        if (c->version < 22) {
                json_put_key(b, "StatusCode");
                buf_put_i64(b, status_of(code));
        }
        if (c->version > 18) {
                json_put_key(b, "ResponseCode");
                buf_put_i64(b, (int64_t)code);
        }
}

static void put_numbers(struct buf *b, const struct result *r)
{
        json_put_key(b, "Value");
        put_go_float(b, r->value);
        json_put_key(b, "Threshold");
        put_go_float(b, r->threshold);
        json_put_key(b, "Message");
        json_put_text_lossy(b, slice_str(r->message));
}

static void put_text(struct buf *b, const char *key, struct slice text)
{
        json_put_key(b, key);
        json_put_text_lossy(b, text);
}

static void put_metric(struct buf *b, const struct check *c, const struct result *r)
{
        json_put_comma(b);
        json_put_text_lossy(b, r->name);
        buf_put_str(b, ":{");
        put_code(b, c, r->code);
        put_text(b, "Scope", c->scope);
        put_numbers(b, r);
        put_text(b, "AppName", c->matched);
        buf_put_byte(b, '}');
}

/* In order of their names, as Go writes maps.  There are at most 32. */
static void put_metrics(struct buf *b, const struct check *c)
{
        uint8_t order[CHECK_METRICS_MAX];
        for (size_t i = 0; i < c->n; i++) {
                size_t k = i;
                for (; k > 0 && slice_cmp(c->result[i].name, c->result[order[k - 1]].name) < 0; k--)
                        order[k] = order[k - 1];
                order[k] = (uint8_t)i;
        }
        buf_put_byte(b, '{');
        for (size_t i = 0; i < c->n; i++)
                put_metric(b, c, &c->result[order[i]]);
        buf_put_byte(b, '}');
}

static void answer(struct check *c, const struct result *top)
{
        struct buf *b = c->call->body;
        c->call->status = status_of(top->code);
        buf_put_byte(b, '{');
        put_code(b, c, top->code);
        put_numbers(b, top);
        json_put_key(b, "RecentlyChecked");
        buf_put_str(b, c->is_recent ? "true" : "false");
        if (c->version > 18) {
                put_text(b, "AppName", c->app);
                put_text(b, "MetricName", top->name);
                put_text(b, "Scope", top->name.len ? c->scope : SLICE_NONE);
                json_put_key(b, "Metrics");
                if (c->has_metrics)
                        put_metrics(b, c);
                else
                        buf_put_str(b, "null");
        }
        buf_put_str(b, "}\n");
}

/* Without a metric: the throttler is off, the app is exempt, or the question was none. */
static void answer_plain(struct check *c, enum code code, const char *message)
{
        struct result r = {.code = code, .message = message};
        c->has_metrics = false;
        answer(c, &r);
}

/* The last that fails; else the default one, else the first. */
static void answer_worst(struct check *c)
{
        const struct result *top = NULL, *usual = NULL;
        for (size_t i = 0; i < c->n; i++) {
                if (c->result[i].code != GRANTED)
                        top = &c->result[i];
                if (slice_eq(c->result[i].name, SLICE_LIT(METRIC_DEFAULT)))
                        usual = &c->result[i];
        }
        if (!top)
                top = usual;
        if (!top && c->n)
                top = &c->result[0];
        c->has_metrics = true;
        if (top)
                answer(c, top);
        else
                answer_plain(c, GRANTED, "");
}

static void answer_denied(struct check *c)
{
        if (c->n)
                answer_worst(c);
        else
                answer_plain(c, APP_DENIED, "app denied");
}

/* --- checks ---------------------------------------------------------------------------------- */

/* "self/lag" is the metric "lag"; the scope that was asked for stands beside it. */
static struct slice bare(struct slice name)
{
        static const struct slice scopes[] = {SLICE_LIT("self/"), SLICE_LIT("shard/")};
        for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
                size_t len = scopes[i].len;
                if (name.len > len && memcmp(name.ptr, scopes[i].ptr, len) == 0)
                        return slice_make(name.ptr + len, name.len - len);
        }
        return name;
}

static struct result denied(struct slice name)
{
        return (struct result){name, APP_DENIED, 0, 0, "app denied"};
}

static struct result judge_unknown(const struct check_metric *m, bool is_deciding)
{
        struct result r = {bare(m->asked), GRANTED, 0, m->v.threshold, m->error};
        if (!is_deciding)
                return r; /* what is unknown does not speak against it here, but it is said */
        r.code = m->error[0] || m->age_ms < 0 ? INTERNAL_ERROR : UNKNOWN_METRIC;
        if (!m->error[0])
                r.message = m->age_ms < 0 ? "metric not collected yet" : "no such metric";
        return r;
}

static struct result judge(const struct check_verdict *v, const struct check_metric *m,
                           bool is_denied)
{
        struct slice name = bare(m->asked);
        if (is_denied)
                return denied(name);
        if (!m->v.is_known)
                return judge_unknown(m, !v->is_granted && v->reason != CHECK_THRESHOLD);
        if (!v->is_granted && m->v.value > m->v.threshold)
                return (struct result){name, THRESHOLD_EXCEEDED, m->v.value, m->v.threshold,
                                       "threshold exceeded"};
        return (struct result){name, GRANTED, m->v.value, m->v.threshold, ""};
}

static void answer_verdict(struct check *c, const struct check_answer *a)
{
        const struct check_verdict *v = &a->verdict;
        bool is_vitess = slice_eq(c->app, SLICE_LIT(APP_DEFAULT));
        /* Vitess asks itself under this name: rules for others must not blind it. */
        bool is_denied = !v->is_granted && !is_vitess && v->reason != CHECK_THRESHOLD &&
                         v->reason != CHECK_UNKNOWN;
        if (a->matched[0] && !is_vitess)
                c->matched = slice_str(a->matched);
        if (v->reason == CHECK_EXEMPT)
                c->app = c->matched;
        if (v->reason == CHECK_OFF || v->reason == CHECK_EXEMPT) {
                answer_plain(c, GRANTED, "");
                return;
        }
        for (size_t i = 0; is_denied && i < c->n; i++) /* a denied app learns nothing of metrics */
                c->result[i] = denied(c->result[i].name);
        for (size_t i = 0; i < a->n_metrics && c->n < CHECK_METRICS_MAX; i++)
                c->result[c->n++] = judge(v, &a->metrics[i], is_denied);
        if (is_denied)
                answer_denied(c);
        else
                answer_worst(c);
}

static bool is_recent(const struct contract_call *call)
{
        int64_t checked_ns = *call->checked_ns;
        return checked_ns && call->now.steady_ns - checked_ns < RECENTLY_NS;
}

/* The app's name; returns false after replying with an error. */
static bool take_app(struct check *c)
{
        struct problem problem;
        struct slice v = SLICE_NONE, s;
        if (!contract_query(c->call, "app", &c->app) || !c->app.len)
                c->app = SLICE_LIT(APP_DEFAULT);
        if (contract_query(c->call, "v", &v) && slice_eq(v, SLICE_LIT("18")))
                c->version = 18;
        else if (slice_eq(v, SLICE_LIT("22")))
                c->version = 22;
        c->matched = c->app;
        if (identity_parse(c->app, &c->who, &problem) != OK) {
                answer_plain(c, UNDEFINED, problem.detail);
                return false;
        }
        bool is_silent = slice_eq(c->app, SLICE_LIT(APP_DEFAULT)) ||
                         (contract_query(c->call, "s", &s) && slice_eq(s, SLICE_LIT("true")));
        if (!is_silent)
                *c->call->checked_ns = c->call->now.steady_ns;
        c->is_recent = is_recent(c->call);
        return true;
}

static bool has_part(const struct identity *who, struct slice name)
{
        for (size_t i = 0; i < who->n; i++)
                if (slice_eq(who->part[i], name))
                        return true;
        return false;
}

/* Continuous and light: Vitess never throttles them. */
static bool is_exempt(const struct identity *who)
{
        static const struct slice names[] = {SLICE_LIT("binlog-watcher"), SLICE_LIT("messager"),
                                             SLICE_LIT("schema-tracker")};
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (has_part(who, names[i]))
                        return true;
        return false;
}

static bool take_scope(struct check *c)
{
        struct slice s;
        c->scope = c->call->route->arg == SCOPE_SELF ? SLICE_LIT("self") : SLICE_LIT("shard");
        if (!contract_query(c->call, "scope", &s) || !s.len)
                return true;
        c->scope = s;
        return slice_eq(s, SLICE_LIT("self")) || slice_eq(s, SLICE_LIT("shard"));
}

static bool is_listed(const struct check *c, const struct slice *names, size_t n, struct slice name)
{
        for (size_t i = 0; i < c->n; i++)
                if (slice_eq(c->result[i].name, name))
                        return true;
        for (size_t i = 0; i < n; i++)
                if (slice_eq(names[i], name))
                        return true;
        return false;
}

/* The metrics that were asked for and that the target has; those it has not become results at
 * once.  False: too many. */
static bool take_metrics(struct check *c, int target, struct slice *names, size_t *ret_n)
{
        struct slice rest = c->call->query, name;
        size_t n = 0;
        while (contract_query_next(c->call, &rest, "m", &name)) {
                name = bare(name);
                if (!name.len || is_listed(c, names, n, name))
                        continue;
                if (n + c->n == CHECK_METRICS_MAX)
                        return false;
                if (target >= 0 && throttle_metric(c->call->core, (size_t)target, name) >= 0)
                        names[n++] = name;
                else
                        c->result[c->n++] =
                                (struct result){name, UNKNOWN_METRIC, 0, 0, "no such metric"};
        }
        *ret_n = n;
        return true;
}

/* Without m=: the app's own list, which the core knows; else the default metric; and Vitess's own
 * app looks at all of them. */
static size_t usual_metrics(const struct check *c, int target, struct slice *names)
{
        struct rule_match match;
        if (target < 0 || slice_eq(c->app, SLICE_LIT(APP_DEFAULT)))
                return 0;
        rule_match(c->call->core, &c->who,
                   slice_str(throttle_target_name(c->call->core, (size_t)target)), &match);
        if (match.n_metrics ||
            throttle_metric(c->call->core, (size_t)target, SLICE_LIT(METRIC_DEFAULT)) < 0)
                return 0;
        names[0] = SLICE_LIT(METRIC_DEFAULT);
        return 1;
}

static void ask(struct check *c, struct slice target_name, int target)
{
        struct contract_call *call = c->call;
        struct slice names[CHECK_METRICS_MAX], priority;
        struct problem problem;
        size_t n = 0;
        if (!take_metrics(c, target, names, &n)) {
                answer_plain(c, UNDEFINED, "at most 32 metrics may be asked for at once");
                return;
        }
        if (!n && c->n) {
                answer_worst(c);
                return;
        }
        if (!n)
                n = usual_metrics(c, target, names);
        if (has_part(&c->who, SLICE_LIT(APP_ALWAYS))) {
                c->matched = SLICE_LIT(APP_ALWAYS);
                for (size_t i = 0; i < n && c->n < CHECK_METRICS_MAX; i++)
                        c->result[c->n++] = denied(names[i]);
                answer_denied(c);
                return;
        }
        struct check_ask a = {
                .identity = c->app,
                .target = target_name,
                .tier = -1,
                .metrics = names,
                .n_metrics = n,
                .threshold = NAN,
                .is_contract = true,
                .is_low = contract_query(call, "p", &priority) &&
                          slice_eq(priority, SLICE_LIT("low")),
                .address = call->address,
                .is_authenticated = call->is_authenticated,
        };
        int r = access_check_identity(call->grant, a.identity, &problem);
        if (r == OK)
                r = core_check(call->core, &a, call->answer, &problem);
        if (r == OK)
                answer_verdict(c, call->answer);
        else if (r == ERR_NOTFOUND)
                answer_plain(c, UNKNOWN_METRIC, "no such metric");
        else
                answer_plain(c, UNDEFINED, problem.detail);
}

static void run_check(struct contract_call *call)
{
        struct check c = {.call = call, .version = 21};
        struct slice name = SLICE_NONE;
        (void)contract_query(call, "target", &name); /* or none: the first */
        if (!take_app(&c))
                return;
        int target = throttle_target(call->core, name);
        if (!take_scope(&c))
                answer_plain(&c, UNDEFINED, "a scope is self or shard");
        else if (is_exempt(&c.who))
                answer_plain(&c, GRANTED, "");
        else if (target < 0 && name.len)
                answer_plain(&c, UNKNOWN_METRIC, "no such metric");
        else
                ask(&c, name, target);
}

/* --- apps ------------------------------------------------------------------------------------ */

static void refuse(struct contract_call *call, const char *why)
{
        call->status = 500;
        call->content_type = CONTRACT_TEXT;
        buf_put_str(call->body, "not ok: ");
        buf_put_str(call->body, why);
        buf_put_byte(call->body, '\n');
}

static void put_app(struct buf *b, const struct contract_app *app)
{
        json_put_comma(b);
        buf_put_byte(b, '{');
        put_text(b, "AppName", app->app);
        json_put_key(b, "ExpireAt");
        put_go_time(b, app->until_ms);
        json_put_key(b, "Ratio");
        put_go_float(b, app->ratio);
        json_put_key(b, "Exempt");
        buf_put_str(b, app->is_exempt ? "true" : "false");
        if (app->target.len)
                put_text(b, "Target", app->target);
        buf_put_byte(b, '}');
}

static void answer_app(struct contract_call *call, const struct contract_throttle *t)
{
        struct contract_app app = {
                .app = t->app,
                .target = t->target,
                .until_ms = call->now.wall_ms + t->for_ms,
                .ratio = t->ratio,
        };
        put_app(call->body, &app);
        buf_put_byte(call->body, '\n');
}

static void run_unthrottle(struct contract_call *call)
{
        struct contract_throttle t = {.contract = "vitess"};
        (void)contract_query(call, "app", &t.app);
        (void)contract_query(call, "target", &t.target);
        contract_unthrottle(call, t.contract, t.app, t.target);
        answer_app(call, &t);
}

static void run_throttle(struct contract_call *call)
{
        struct contract_throttle t = {.contract = "vitess", .ratio = 1};
        struct slice duration = SLICE_NONE, ratio;
        struct problem problem;
        int64_t ns = 0;
        (void)contract_query(call, "app", &t.app);
        (void)contract_query(call, "target", &t.target);
        (void)contract_query(call, "duration", &duration);
        int r = go_to_duration_ns(duration, &ns, &problem);
        if (r == OK && contract_query(call, "ratio", &ratio) && ratio.len)
                r = go_to_ratio(ratio, &t.ratio, &problem);
        if (r == OK && slice_eq(t.app, SLICE_LIT(APP_DEFAULT)))
                r = problem_set(&problem, ERR_FORBIDDEN, "vitess is never throttled by its name");
        if (r == OK && ns <= 0) { /* an end that is past is an end */
                run_unthrottle(call);
                return;
        }
        t.for_ms = ns / NS_PER_MS + (ns % NS_PER_MS > 0);
        if (r == OK)
                r = contract_throttle(call, &t, &problem);
        if (r == OK)
                answer_app(call, &t);
        else
                refuse(call, problem.detail);
}

static void tell_app(void *ctx, const struct contract_app *app)
{
        put_app(ctx, app);
}

static void put_apps(struct contract_call *call)
{
        struct contract_app always = {
                .app = SLICE_LIT(APP_ALWAYS), .until_ms = call->started_ms + ALWAYS_MS, .ratio = 1};
        buf_put_byte(call->body, '[');
        put_app(call->body, &always);
        contract_each_app(call, tell_app, call->body);
        buf_put_byte(call->body, ']');
}

static void run_throttled(struct contract_call *call)
{
        put_apps(call);
        buf_put_byte(call->body, '\n');
}

/* --- status ---------------------------------------------------------------------------------- */

struct telling {
        struct contract_call *call;
        struct slice name; /* of the target that is told; empty: the first */
        bool is_told;
};

static void put_scoped(struct buf *b, const char *scope, const char *name)
{
        struct buf both;
        buf_init(&both, 0);
        buf_printf(&both, "%s/%s", scope, name);
        json_put_key(b, buf_cstr(&both));
        buf_release(&both);
}

static void put_value(struct buf *b, const struct check_metric *m)
{
        buf_put_byte(b, '{');
        if (m->v.is_known) {
                json_put_key(b, "Value");
                put_go_float(b, m->v.value);
        } else {
                put_text(b, "Error", slice_str(m->error));
        }
        buf_put_byte(b, '}');
}

static void put_health(const struct telling *w, struct buf *b, const struct check_target *t)
{
        int64_t now_ms = w->call->now.wall_ms;
        put_scoped(b, "self", t->first.name);
        buf_put_str(b, "{\"LastHealthyAt\":");
        put_go_time(b, t->healthy_ms);
        buf_put_str(b, ",\"SecondsSinceLastHealthy\":");
        buf_put_i64(b, now_ms > t->healthy_ms ? (now_ms - t->healthy_ms) / MS_PER_S : 0);
        buf_put_byte(b, '}');
}

/* What rules of kind metrics give an app: that of the target before that of every target. */
static void tell_checked(void *ctx, const struct rule *r)
{
        const struct telling *w = ctx;
        struct rule_place own = {slice_str(rule_slot(RULE_METRICS)), r->who, w->name, false};
        if (r->kind != RULE_METRICS || r->mode != MODE_ENFORCE ||
            (r->target.len && !slice_eq(r->target, w->name)) ||
            (!r->target.len && w->name.len && rule_find(w->call->core, &own)))
                return;
        json_put_comma(w->call->body);
        json_put_text_lossy(w->call->body, r->who);
        buf_put_byte(w->call->body, ':');
        json_put_text_lossy(w->call->body, r->list);
}

static enum code code_of(const struct client_seen *seen)
{
        if (seen->is_granted)
                return GRANTED;
        if (seen->reason == CHECK_THRESHOLD)
                return THRESHOLD_EXCEEDED;
        return seen->reason == CHECK_UNKNOWN ? INTERNAL_ERROR : APP_DENIED;
}

static void tell_seen(void *ctx, const struct client_seen *seen)
{
        const struct telling *w = ctx;
        struct buf *b = w->call->body;
        if (seen->age_ms > RECENT_APPS_MS)
                return;
        json_put_comma(b);
        json_put_text_lossy(b, seen->identity);
        buf_put_str(b, ":{");
        put_text(b, "AppName", seen->identity);
        json_put_key(b, "CheckedAt");
        put_go_time(b, w->call->now.wall_ms - seen->age_ms);
        json_put_key(b, "ResponseCode");
        buf_put_i64(b, (int64_t)code_of(seen));
        buf_put_byte(b, '}');
}

/* What is the same for every target: Keyspace to RecentlyChecked. */
static void put_status_head(struct contract_call *call, const char *name, bool is_enabled)
{
        struct buf *b = call->body;
        const char *enabled = is_enabled ? "true" : "false";
        buf_put_byte(b, '{');
        put_text(b, "Keyspace", slice_str(name));
        buf_printf(b,
                   ",\"Shard\":\"\",\"IsLeader\":true,\"IsOpen\":%s,\"IsEnabled\":%s,"
                   "\"IsDormant\":false,\"RecentlyChecked\":%s,\"Query\":\"\",\"CustomQuery\":\"\"",
                   enabled, enabled, is_recent(call) ? "true" : "false");
}

static void put_status_apps(struct telling *w)
{
        struct buf *b = w->call->body;
        json_put_key(b, "ThrottledApps");
        put_apps(w->call);
        json_put_key(b, "AppCheckedMetrics");
        buf_put_byte(b, '{');
        rule_each(w->call->core, tell_checked, w);
        buf_put_byte(b, '}');
        json_put_key(b, "RecentApps");
        buf_put_byte(b, '{');
        clients_each_seen(w->call->core, tell_seen, w);
        buf_put_str(b, "}}\n");
}

static void put_status_metrics(struct telling *w, const struct check_target *t)
{
        static const char *const scopes[] = {"self", "shard"};
        struct buf *b = w->call->body;
        bool has_metric = t->first.name != NULL;
        json_put_key(b, "Threshold");
        put_go_float(b, has_metric ? t->first.v.threshold : 0);
        put_text(b, "MetricNameUsedAsDefault", slice_str(has_metric ? t->first.name : ""));
        json_put_key(b, "AggregatedMetrics");
        buf_put_byte(b, '{');
        for (size_t i = 0; has_metric && i < ARRAY_LEN(scopes); i++) {
                put_scoped(b, scopes[i], t->first.name);
                put_value(b, &t->first);
        }
        buf_put_byte(b, '}');
        json_put_key(b, "MetricsThresholds");
        buf_put_byte(b, '{');
        if (has_metric) {
                json_put_key(b, t->first.name);
                put_go_float(b, t->first.v.threshold);
        }
        buf_put_byte(b, '}');
        json_put_key(b, "MetricsHealth");
        buf_put_byte(b, '{');
        if (has_metric && t->healthy_ms) /* never healthy: Vitess has no entry either */
                put_health(w, b, t);
        buf_put_byte(b, '}');
}

static void tell_target(void *ctx, const struct check_target *t)
{
        struct telling *w = ctx;
        if (w->is_told || (w->name.len && !slice_eq(w->name, slice_str(t->name))))
                return;
        w->is_told = true;
        w->name = slice_str(t->name);
        put_status_head(w->call, t->name, true);
        put_status_metrics(w, t);
        put_status_apps(w);
}

static void run_status(struct contract_call *call)
{
        struct telling w = {.call = call};
        struct check_target none = {.name = ""};
        (void)contract_query(call, "target", &w.name);
        core_each_check_target(call->core, tell_target, &w);
        if (w.is_told)
                return;
        call->status = w.name.len ? 404 : 200;
        w.name = SLICE_NONE;
        put_status_head(call, "", false);
        put_status_metrics(&w, &none);
        put_status_apps(&w);
}

#define ROUTE(rest, access, arg, run)                                                              \
        {                                                                                          \
                SLICE_LIT("throttler"), SLICE_LIT(rest), "/throttler" rest, access, false, arg,    \
                        run                                                                        \
        }
const struct contract_route vitess_routes[] = {
        ROUTE("/check", CONTRACT_CHECK, SCOPE_SHARD, run_check),
        ROUTE("/check-self", CONTRACT_CHECK, SCOPE_SELF, run_check),
        ROUTE("/status", CONTRACT_READ, 0, run_status),
        ROUTE("/throttle-app", CONTRACT_CONTROL, 0, run_throttle),
        ROUTE("/unthrottle-app", CONTRACT_CONTROL, 0, run_unthrottle),
        ROUTE("/throttled-apps", CONTRACT_READ, 0, run_throttled),
};
const size_t vitess_routes_len = ARRAY_LEN(vitess_routes);
