/* freno's contract.
 *
 * A store of freno's is a target of weir's, an app is an identity, and "throttling an app" is a
 * rule of kind ratio.  The verdict comes from core_check(); this file only says it in freno's
 * words: the status, the two numbers of the metric that decided, and the message.
 *
 *      200 ""                      granted
 *      417 "App denied"            a rule, the operator's pause, or p=low shortly after a refusal
 *      429 "Threshold exceeded"    the metric is above its threshold
 *      500 the metric's error      unknown, and weir knows why
 *      404 "No such metric"        no such store; or its last sample is too old
 *      400 a sentence              the name of the app or the threshold is invalid
 *
 * freno's known faults are not copied; docs/freno.md has them one by one.  Most of them cannot
 * happen here by construction: nothing of an answer is shared between requests, and rules live in
 * the log with their end. */
#include "door/freno.h"

#include <math.h>
#include <unistd.h>

#include "base/duration.h"
#include "checks/client.h"
#include "checks/rule.h"
#include "throttle/host.h"
#include "wire/json.h"

/* Built in, so that a client can try what a refusal is like; until it is unthrottled. */
#define ABUSER         "abusing-app"
#define ABUSER_MS      (10 * 365LL * MS_PER_DAY)
#define TTL_MINUTES    60
#define RECENT_MS      MS_PER_DAY
#define HOST_NAME_SIZE 256

enum check_kind { WRITE = 0, IF_EXISTS = 1, READ = 2 };

/* --- answers --------------------------------------------------------------------------------- */

static void put_literal(struct buf *b, const char *s)
{
        buf_put(b, s, strlen(s));
}

/* "mysql/main1": the quote between the two texts becomes what joins them. */
static void put_joined(struct buf *b, struct slice first, char between, struct slice second)
{
        json_put_text_lossy(b, first);
        if (b->failed)
                return;
        size_t at = --b->len;
        json_put_text_lossy(b, second);
        if (!b->failed)
                b->ptr[at] = between;
}

void freno_refuse(struct contract_call *call, int status, const char *message)
{
        struct buf *b = call->body;
        buf_clear(b);
        call->status = status;
        call->content_type = CONTRACT_JSON;
        put_literal(b, "{\"StatusCode\":");
        buf_put_i64(b, status);
        put_literal(b, ",\"Message\":");
        json_put_text_lossy(b, slice_str(message));
        put_literal(b, "}\n");
}

static void accept(struct contract_call *call)
{
        freno_refuse(call, 200, "OK");
}

/* {"StatusCode":200,"Value":0.430933,"Threshold":1,"Message":""} */
static void answer_check(struct contract_call *call, int status, double value, double threshold,
                         const char *message)
{
        struct buf *b = call->body;
        if (status == 404 && (call->route->arg & IF_EXISTS))
                status = 200;
        call->status = status;
        put_literal(b, "{\"StatusCode\":");
        buf_put_i64(b, status);
        put_literal(b, ",\"Value\":");
        put_go_float(b, value);
        put_literal(b, ",\"Threshold\":");
        put_go_float(b, threshold);
        if (!message[0]) {
                put_literal(b, ",\"Message\":\"\"}\n");
                return;
        }
        put_literal(b, ",\"Message\":");
        json_put_text_lossy(b, slice_str(message));
        put_literal(b, "}\n");
}

/* --- checks ---------------------------------------------------------------------------------- */

static void answer_unknown(struct contract_call *call, const struct check_metric *m)
{
        if (m && m->error[0])
                answer_check(call, 500, 0, m->v.threshold, m->error);
        else if (m && m->age_ms < 0)
                answer_check(call, 500, 0, m->v.threshold, "Metric not collected yet");
        else
                answer_check(call, 404, 0, m ? m->v.threshold : 0, "No such metric");
}

static void answer_verdict(struct contract_call *call, const struct check_answer *a)
{
        int at = a->verdict.value;
        if (at < 0 && a->n_metrics)
                at = 0;
        const struct check_metric *m = at >= 0 ? &a->metrics[at] : NULL;
        double value = m && m->v.is_known ? m->v.value : 0, threshold = m ? m->v.threshold : 0;
        if (a->verdict.is_granted)
                answer_check(call, 200, value, threshold, "");
        else if (a->verdict.reason == CHECK_THRESHOLD)
                answer_check(call, 429, value, threshold, "Threshold exceeded");
        else if (a->verdict.reason == CHECK_UNKNOWN)
                answer_unknown(call, m);
        else
                answer_check(call, 417, 0, 0, "App denied");
}

/* Whether freno's own name is denied: not when it was removed, nor when a rule of its own says how
 * much of it is. */
static bool has_abuser(struct contract_call *call)
{
        return core_has_builtin(call->core, ABUSER) && !contract_has_rule(call, SLICE_LIT(ABUSER));
}

static void note_kind(void *ctx, const struct check_target *t)
{
        struct slice *kind = ctx;
        if (slice_eq(*kind, slice_str(t->kind)))
                *kind = SLICE_NONE;
}

/* "mysql", as freno has it, or what some target is. */
static bool is_type(struct contract_call *call, struct slice kind)
{
        if (slice_eq(kind, SLICE_LIT("mysql")))
                return true;
        core_each_check_target(call->core, note_kind, &kind);
        return !kind.len;
}

static void run_check(struct contract_call *call)
{
        struct slice priority;
        struct problem problem;
        struct check_ask ask = {
                .identity = call->param[0],
                .kind = call->param[1],
                .target = call->param[2],
                .tier = -1,
                .threshold = NAN,
                .is_contract = true,
                .is_read = (call->route->arg & READ) != 0,
                .is_rules_first = true,
                .address = call->address,
                .is_authenticated = call->is_authenticated,
        };
        if (call->query.len && contract_query(call, "p", &priority))
                ask.is_low = slice_eq(priority, SLICE_LIT("low"));
        if (ask.is_read && go_to_float(call->param[3], &ask.threshold, &problem) != OK) {
                answer_check(call, 400, 0, 0, problem.detail);
                return;
        }
        /* To the core an empty name is the first target, and an empty kind is any. */
        if (!ask.target.len || !ask.kind.len) {
                answer_check(call, 404, 0, 0, "No such metric");
                return;
        }
        bool is_abuser = slice_eq(ask.identity, SLICE_LIT(ABUSER)) && has_abuser(call);
        if (is_abuser && is_type(call, ask.kind)) {
                answer_check(call, 417, 0, 0, "App denied");
                return;
        }
        int r = access_check_identity(call->grant, ask.identity, &problem);
        if (r == OK)
                r = core_check(call->core, &ask, call->answer, &problem);
        if (r == OK && call->answer->target.len)
                answer_verdict(call, call->answer);
        else if (r == OK && is_type(call, ask.kind)) /* refused before its store was looked for */
                answer_check(call, 417, 0, 0, "App denied");
        else if (r == OK || r == ERR_NOTFOUND)
                answer_check(call, 404, 0, 0, "No such metric");
        else
                answer_check(call, err_http(r), 0, 0, problem.detail);
}

/* --- what is known of the stores ------------------------------------------------------------- */

struct telling {
        struct contract_call *call;
        bool is_brief;
        int64_t minutes; /* /recent-apps: not older; 0: a day */
};

static void put_store(struct buf *b, const struct check_target *t)
{
        json_put_comma(b);
        put_joined(b, slice_str(t->kind), '/', slice_str(t->name));
        buf_put_byte(b, ':');
}

static bool is_store(const struct check_target *t)
{
        return t->kind && t->kind[0] && t->first.name;
}

static void tell_aggregate(void *ctx, const struct check_target *t)
{
        const struct telling *w = ctx;
        struct buf *b = w->call->body;
        const struct check_metric *m = &t->first;
        if (!is_store(t))
                return;
        put_store(b, t);
        if (m->v.is_known) {
                buf_printf(b, w->is_brief ? "\"%.3f\"" : "\"%f\"", m->v.value);
                return;
        }
        struct slice why = m->error[0]     ? slice_str(m->error)
                           : m->age_ms < 0 ? SLICE_LIT("Metric not collected yet")
                                           : SLICE_LIT("No such metric");
        put_joined(b, SLICE_LIT("error:"), ' ', why);
}

static void run_aggregated(struct contract_call *call)
{
        struct slice brief;
        struct telling w = {.call = call};
        w.is_brief = contract_query(call, "brief", &brief) && slice_eq(brief, SLICE_LIT("true"));
        buf_put_byte(call->body, '{');
        core_each_check_target(call->core, tell_aggregate, &w);
        put_literal(call->body, "}\n");
}

static void tell_health(void *ctx, const struct check_target *t)
{
        const struct telling *w = ctx;
        struct buf *b = w->call->body;
        int64_t now_ms = w->call->now.wall_ms;
        if (!is_store(t) || !t->healthy_ms)
                return; /* never healthy: freno has no entry for it either */
        put_store(b, t);
        put_literal(b, "{\"LastHealthyAt\":");
        put_go_time(b, t->healthy_ms);
        put_literal(b, ",\"SecondsSinceLastHealthy\":");
        buf_put_i64(b, now_ms > t->healthy_ms ? (now_ms - t->healthy_ms) / MS_PER_S : 0);
        buf_put_byte(b, '}');
}

static void run_health(struct contract_call *call)
{
        struct telling w = {.call = call};
        buf_put_byte(call->body, '{');
        core_each_check_target(call->core, tell_health, &w);
        put_literal(call->body, "}\n");
}

/* --- apps ------------------------------------------------------------------------------------ */

enum throttle_form { WITH_RATIO = 1, WITH_TTL = 2 };

/* Minutes; below 0 is an end that is past, which the caller gives a meaning. */
static int read_ttl(struct contract_call *call, struct slice text, bool is_zero_good,
                    int64_t *ret_ms, struct problem *problem)
{
        int64_t minutes = 0, max = rule_max_ms(call->core) / MS_PER_MIN;
        int r = go_to_int(text, &minutes, problem);
        if (r != OK)
                return r;
        if (minutes > max || (minutes == 0 && !is_zero_good))
                return problem_set(problem, ERR_BADARG,
                                   "ttl must be 1 to %lld minutes (rule_max), not %lld",
                                   (long long)max, (long long)minutes);
        *ret_ms = minutes < 0 ? -1 : minutes * MS_PER_MIN;
        return OK;
}

static void answer_control(struct contract_call *call, int r, const struct problem *problem)
{
        if (r == OK)
                accept(call);
        else
                freno_refuse(call, 500, problem->detail);
}

static int unthrottle(struct contract_call *call, struct slice app, struct slice target,
                      struct problem *problem)
{
        int r = OK;
        if (slice_eq(app, SLICE_LIT(ABUSER)) && !target.len)
                r = core_remove_builtin(call->core, ABUSER, problem);
        if (r == OK)
                contract_unthrottle(call, "freno", app, target);
        return r;
}

static void run_throttle(struct contract_call *call)
{
        int form = call->route->arg, r = OK;
        struct problem problem;
        struct contract_throttle t = {.contract = "freno", .app = call->param[0], .ratio = -1};
        (void)contract_query(call, "store_name", &t.target); /* or none: every store */
        if (form & WITH_TTL)
                r = read_ttl(call, call->param[1], false, &t.for_ms, &problem);
        if (r == OK && (form & WITH_RATIO))
                r = go_to_ratio(call->param[form & WITH_TTL ? 2 : 1], &t.ratio, &problem);
        if (!form) { /* not a change of a rule, but a refusal for an hour */
                t.ratio = 1;
                t.for_ms = TTL_MINUTES * MS_PER_MIN;
        }
        if (r == OK && t.for_ms < 0)
                r = unthrottle(call, t.app, t.target, &problem);
        else if (r == OK)
                r = contract_throttle(call, &t, &problem);
        answer_control(call, r, &problem);
}

static void run_unthrottle(struct contract_call *call)
{
        struct problem problem;
        struct slice target = SLICE_NONE;
        (void)contract_query(call, "store_name", &target);
        answer_control(call, unthrottle(call, call->param[0], target, &problem), &problem);
}

static void put_app(struct buf *b, struct slice app, struct slice more)
{
        json_put_comma(b);
        if (more.len)
                put_joined(b, app, '/', more);
        else
                json_put_text_lossy(b, app);
        buf_put_byte(b, ':');
}

static void tell_app(void *ctx, const struct contract_app *app)
{
        struct buf *b = ((const struct telling *)ctx)->call->body;
        if (app->is_exempt)
                return; /* freno has no word for it */
        put_app(b, app->app, app->target);
        put_literal(b, "{\"ExpireAt\":");
        put_go_time(b, app->until_ms);
        put_literal(b, ",\"Ratio\":");
        put_go_float(b, app->ratio);
        buf_put_byte(b, '}');
}

static void run_throttled(struct contract_call *call)
{
        struct telling w = {.call = call};
        struct contract_app abuser = {
                .app = SLICE_LIT(ABUSER), .until_ms = call->started_ms + ABUSER_MS, .ratio = 1};
        buf_put_byte(call->body, '{');
        if (has_abuser(call))
                tell_app(&w, &abuser);
        contract_each_app(call, tell_app, &w);
        put_literal(call->body, "}\n");
}

static void tell_recent(void *ctx, struct slice identity, struct slice address, int64_t wall_ms)
{
        const struct telling *w = ctx;
        struct buf *b = w->call->body;
        int64_t age_ms = w->call->now.wall_ms > wall_ms ? w->call->now.wall_ms - wall_ms : 0;
        if (age_ms > RECENT_MS || (w->minutes > 0 && age_ms / MS_PER_MIN > w->minutes))
                return;
        put_app(b, identity, address);
        put_literal(b, "{\"CheckedAtEpoch\":");
        buf_put_i64(b, wall_ms / MS_PER_S);
        put_literal(b, ",\"MinutesSinceChecked\":");
        buf_put_i64(b, age_ms / MS_PER_MIN);
        buf_put_byte(b, '}');
}

static void run_recent(struct contract_call *call)
{
        struct telling w = {.call = call};
        struct problem problem;
        if (call->param[0].len && go_to_int(call->param[0], &w.minutes, &problem) != OK) {
                freno_refuse(call, 500, problem.detail);
                return;
        }
        buf_put_byte(call->body, '{');
        clients_each_address(call->core, tell_recent, &w);
        put_literal(call->body, "}\n");
}

/* --- hosts ----------------------------------------------------------------------------------- */

static void run_skip(struct contract_call *call)
{
        struct problem problem;
        int64_t for_ms = 0; /* an hour, unless the operator allows less */
        int r = call->route->arg ? read_ttl(call, call->param[1], true, &for_ms, &problem) : OK;
        if (r == OK && for_ms < 0)
                (void)core_recover_host(call->core, call->param[0]); /* or it was not skipped */
        else if (r == OK)
                r = core_skip_host(call->core, call->param[0], for_ms, &problem);
        answer_control(call, r, &problem);
}

static void run_recover(struct contract_call *call)
{
        (void)core_recover_host(call->core, call->param[0]); /* or it was not skipped */
        accept(call);
}

static void tell_skipped(void *ctx, struct slice host, int64_t until_ms)
{
        struct buf *b = ((const struct telling *)ctx)->call->body;
        put_app(b, host, SLICE_NONE);
        put_go_time(b, until_ms);
}

static void run_skipped(struct contract_call *call)
{
        struct telling w = {.call = call};
        buf_put_byte(call->body, '{');
        core_each_skipped(call->core, tell_skipped, &w);
        put_literal(call->body, "}\n");
}

/* --- the service ----------------------------------------------------------------------------- */

static void put_host_name(struct buf *b)
{
        char name[HOST_NAME_SIZE] = "";
        if (gethostname(name, sizeof(name) - 1) < 0)
                name[0] = '\0';
        json_put_text_lossy(b, slice_str(name));
}

/* A text in quotes and a newline.  freno names no type for these, and Go guesses this one. */
static void answer_text(struct contract_call *call)
{
        call->content_type = CONTRACT_TEXT;
        buf_put_byte(call->body, '\n');
}

static void run_leader_check(struct contract_call *call)
{
        call->status = call->is_stopping ? 404 : 200;
        buf_printf(call->body, "\"HTTP %d\"", call->status);
        answer_text(call);
}

static void run_host_name(struct contract_call *call)
{
        put_host_name(call->body);
        answer_text(call);
}

static void run_state(struct contract_call *call)
{
        put_literal(call->body, "\"Leader\"");
        answer_text(call);
}

static void run_status(struct contract_call *call)
{
        struct buf *b = call->body;
        put_literal(b, "{\"ServiceID\":");
        put_host_name(b);
        put_literal(b, ",\"Healthy\":true,\"IsLeader\":true,\"Leader\":");
        put_host_name(b);
        put_literal(b, ",\"State\":\"Leader\",\"Domain\":\"\",\"ShareDomain\":\"\","
                       "\"ShareDomainServices\":{},\"ShareDomainServicesList\":[");
        put_host_name(b);
        put_literal(b, "],\"HealthyDomainServicesList\":[");
        put_host_name(b);
        put_literal(b, "]}\n");
}

static void run_memcache(struct contract_call *call)
{
        put_literal(call->body, "{\"MemcacheServers\":[],\"MemcachePath\":\"freno\"}\n");
}

static void run_help(struct contract_call *call);

/* --- routes ---------------------------------------------------------------------------------- */

#define ROUTE(first, rest, access, arg, run)                                                       \
        {                                                                                          \
                SLICE_LIT(first), SLICE_LIT(rest), "/" first rest, access, false, arg, run         \
        }
#define STORE "/:app/:storeType/:storeName"

/* The usual one first; those with the same first segment may stand anywhere. */
const struct contract_route freno_routes[] = {
        ROUTE("check", STORE, CONTRACT_CHECK, WRITE, run_check),
        ROUTE("check-if-exists", STORE, CONTRACT_CHECK, IF_EXISTS, run_check),
        ROUTE("check-read", STORE "/:threshold", CONTRACT_CHECK, READ, run_check),
        ROUTE("check-read-if-exists", STORE "/:threshold", CONTRACT_CHECK, READ | IF_EXISTS,
              run_check),
        ROUTE("lb-check", "", CONTRACT_CHECK, 0, accept),
        ROUTE("_ping", "", CONTRACT_CHECK, 0, accept),
        ROUTE("status", "", CONTRACT_CHECK, 0, accept),
        ROUTE("leader-check", "", CONTRACT_CHECK, 0, run_leader_check),
        ROUTE("raft", "/leader", CONTRACT_READ, 0, run_host_name),
        ROUTE("raft", "/state", CONTRACT_READ, 0, run_state),
        ROUTE("consensus", "/leader", CONTRACT_READ, 0, run_host_name),
        ROUTE("consensus", "/state", CONTRACT_READ, 0, run_state),
        ROUTE("consensus", "/status", CONTRACT_READ, 0, run_status),
        ROUTE("hostname", "", CONTRACT_READ, 0, run_host_name),
        ROUTE("aggregated-metrics", "", CONTRACT_READ, 0, run_aggregated),
        ROUTE("metrics-health", "", CONTRACT_READ, 0, run_health),
        ROUTE("throttle-app", "/:app", CONTRACT_CONTROL, 0, run_throttle),
        ROUTE("throttle-app", "/:app/ratio/:ratio", CONTRACT_CONTROL, WITH_RATIO, run_throttle),
        ROUTE("throttle-app", "/:app/ttl/:ttlMinutes", CONTRACT_CONTROL, WITH_TTL, run_throttle),
        ROUTE("throttle-app", "/:app/ttl/:ttlMinutes/ratio/:ratio", CONTRACT_CONTROL,
              WITH_TTL | WITH_RATIO, run_throttle),
        ROUTE("unthrottle-app", "/:app", CONTRACT_CONTROL, 0, run_unthrottle),
        ROUTE("throttled-apps", "", CONTRACT_READ, 0, run_throttled),
        ROUTE("recent-apps", "", CONTRACT_READ, 0, run_recent),
        ROUTE("recent-apps", "/:lastMinutes", CONTRACT_READ, 0, run_recent),
        ROUTE("skip-host", "/:hostName", CONTRACT_CONTROL, 0, run_skip),
        ROUTE("skip-host", "/:hostName/ttl/:ttlMinutes", CONTRACT_CONTROL, WITH_TTL, run_skip),
        ROUTE("recover-host", "/:hostName", CONTRACT_CONTROL, 0, run_recover),
        ROUTE("skipped-hosts", "", CONTRACT_READ, 0, run_skipped),
        ROUTE("help", "", CONTRACT_READ, 0, run_help),
        {SLICE_LIT("config"), SLICE_LIT("/memcache"), "/config/memcache", CONTRACT_READ, true, 0,
         run_memcache},
};
const size_t freno_routes_len = ARRAY_LEN(freno_routes);

static void run_help(struct contract_call *call)
{
        buf_put_byte(call->body, '[');
        for (size_t i = 0; i < freno_routes_len; i++) {
                if (freno_routes[i].is_get_only)
                        continue; /* freno does not list it either */
                json_put_comma(call->body);
                json_put_text(call->body, slice_str(freno_routes[i].path));
        }
        put_literal(call->body, "]\n");
}
