/* What is told of those who ask: CLIENTS, CLIENTSHOW, STARVED, and the samples of /metrics.
 *
 * The story of a name is made when somebody wants to read it, from the minutes of a day.  A minute
 * with more refusals than grants is a bad one.  Bad minutes with no more than STORY_GAP others
 * between them are one run, and a run is told when it is at least STORY_MINUTES long or had
 * STORY_REFUSALS: one refused ask is no story.  Its reason is the most frequent one, and metric and
 * target are those of its last refusal that had a metric. */
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/civil.h"
#include "checks/client_int.h"
#include "throttle/throttle_state.h"

#define LIST_LIMIT_DEFAULT 50
#define MINUTES_DEFAULT    60
#define STORY_GAP          2
#define STORY_MINUTES      2
#define STORY_REFUSALS     10
#define STORY_TEXT         640
#define SAMPLES_MAX        50
#define LABEL_TEXT         (2 * IDENTITY_BYTES + 64) /* every byte may need a backslash */

enum { KIND_IDENTITY, KIND_PART };

static const char *target_name(const struct core *core, size_t target)
{
        return target < throttle_targets(core) ? throttle_target_name(core, target) : "";
}

static const char *metric_name(const struct core *core, size_t target, size_t metric)
{
        const struct throttle *t = core->throttle;
        return target < t->n_targets && metric < t->targets[target].n_metrics
                       ? t->targets[target].metrics[metric].name
                       : "";
}

/* ---- CLIENTS ---- */

static int by_name(const struct client *a, const struct client *b)
{
        return slice_cmp(client_name(a), client_name(b));
}

/* The larger number first, and names for those with the same. */
static int by_number(uint64_t x, uint64_t y, const struct client *a, const struct client *b)
{
        if (x != y)
                return x > y ? -1 : 1;
        return by_name(a, b);
}

static uint64_t refused_of(const struct client *e)
{
        return e->total[AS_WHOLE].refused + e->total[AS_PART].refused;
}

static uint64_t asks_of(const struct client *e)
{
        return totals_asks(&e->total[AS_WHOLE]) + totals_asks(&e->total[AS_PART]);
}

static int by_refused(const struct client *a, const struct client *b)
{
        return by_number(refused_of(a), refused_of(b), a, b);
}

static int by_asks(const struct client *a, const struct client *b)
{
        return by_number(asks_of(a), asks_of(b), a, b);
}

static bool is_wanted(const struct client *e, const struct command *cmd)
{
        const struct arg *kind = &cmd->arg[P_CLIENTS_KIND], *cursor = &cmd->arg[P_CLIENTS_CURSOR];
        struct slice match = cmd->arg[P_CLIENTS_MATCH].text;
        if (kind->is_set && (kind->num == KIND_IDENTITY ? !e->is_whole : !e->n_owners))
                return false;
        if (cursor->text.len && slice_cmp(client_name(e), cursor->text) <= 0)
                return false;
        return !match.len || slice_contains(client_name(e), match);
}

static int64_t waiting_ms(const struct core *core, const struct client *e)
{
        return e->is_whole && e->streak ? (core->now.steady_ns - e->since_ns) / NS_PER_MS : 0;
}

#define SHARE_TEXT 32

/* RESP has no fractions that every client reads: the share is told as text, in `share`. */
static struct client_row_reply row_of(const struct core *core, const struct client *e, char *share)
{
        struct client_totals t = client_total(e);
        uint64_t asks = totals_asks(&t);
        (void)snprintf(share, SHARE_TEXT, "%.4g", asks ? (double)t.refused / (double)asks : 0.0);
        return (struct client_row_reply){
                .name = client_name(e),
                .kind = e->is_whole ? "identity" : "part",
                .asks = (int64_t)asks,
                .granted = (int64_t)t.granted,
                .refused = (int64_t)t.refused,
                .observed = (int64_t)t.observed,
                .share_refused = share,
                .last_ms = e->last_ms,
                .address = slice_make(e->addresses[0].text, e->addresses[0].len), /* or "" */
                .waiting_ms = waiting_ms(core, e),
                .starved = e->is_starved,
        };
}

static void tell_rows(struct reply *reply, const struct reply_items *items)
{
        const struct client *const *clients = items->of;
        for (size_t i = 0; i < items->n; i++) {
                char share[SHARE_TEXT];
                const struct client_row_reply told = row_of(items->core, clients[i], share);
                reply_client_row(reply, &told);
        }
}

int exec_clients(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        static int (*const orders[])(const struct client *, const struct client *) = {
                by_name, by_asks, by_refused}; /* as the choices of ORDER */
        const struct clients *c = core->clients;
        const struct arg *limit = &cmd->arg[P_CLIENTS_LIMIT];
        const struct client *room[LIMIT_LIST_CLIENTS];
        struct client_top top = {.clients = room,
                                 .max = limit->is_set ? (size_t)limit->num : LIST_LIMIT_DEFAULT,
                                 .compare = orders[cmd->arg[P_CLIENTS_ORDER].num]};
        if (top.compare != by_name && cmd->arg[P_CLIENTS_CURSOR].text.len)
                return problem_set(problem, ERR_BADARG, "cursor goes with order name");
        for (struct hash_node *n = NULL; (n = hash_next(&c->names, n));) {
                const struct client *e = CONTAINER_OF(n, const struct client, node);
                if (is_wanted(e, cmd))
                        client_top_add(&top, e);
        }
        client_top_sort(&top);
        bool has_cursor = top.has_more && top.compare == by_name;
        const struct clients_reply told = {
                .clients = {top.n, tell_rows, core, room},
                .cursor = has_cursor ? client_name(top.clients[top.n - 1]) : SLICE_NONE,
                .other = (int64_t)totals_asks(&c->other),
                .start_ms = core->start_ms,
        };
        reply_clients(reply, &told);
        return OK;
}

/* ---- CLIENTSHOW: the story ---- */

struct run {
        int64_t from, to; /* minutes, both within */
        uint64_t refused;
        uint64_t by_reason[CHECK_REASONS];
        uint8_t target, metric;
        bool is_open; /* there is one */
};

static enum check_reason top_reason(const uint64_t *by_reason)
{
        size_t best = CHECK_GRANTED;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                if (by_reason[i] > by_reason[best])
                        best = i;
        return (enum check_reason)best;
}

static bool is_told(const struct run *run)
{
        return run->is_open &&
               (run->to - run->from + 1 >= STORY_MINUTES || run->refused >= STORY_REFUSALS);
}

static void run_add(struct run *run, int64_t minute, const struct client_minute *m)
{
        if (!run->is_open)
                *run = (struct run){.from = minute,
                                    .target = CLIENT_NOWHERE,
                                    .metric = CLIENT_NOWHERE,
                                    .is_open = true};
        run->to = minute;
        run->refused += m->refused;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                run->by_reason[i] += m->by_reason[i];
        if (m->metric != CLIENT_NOWHERE) {
                run->target = m->target;
                run->metric = m->metric;
        }
}

/* The next run from *minute on, which moves behind it; false at the end of the day. */
static bool run_next(const struct client *e, int64_t *minute, int64_t last, struct run *run)
{
        *run = (struct run){0};
        for (; *minute <= last; ++*minute) {
                const struct client_minute *m = minutes_peek(&e->minutes, *minute);
                if (run->is_open && *minute - run->to > STORY_GAP + 1) {
                        if (is_told(run))
                                return true;
                        run->is_open = false;
                }
                if (m && m->refused > m->granted)
                        run_add(run, *minute, m);
        }
        return is_told(run);
}

static void put_because(const struct core *core, struct buf *b, const struct run *run)
{
        enum check_reason reason = top_reason(run->by_reason);
        const char *metric = metric_name(core, run->target, run->metric);
        const char *target = target_name(core, run->target);
        if (reason == CHECK_THRESHOLD && *metric)
                buf_printf(b, "because of %s on %s", metric, target);
        else if (reason == CHECK_UNKNOWN && *metric)
                buf_printf(b, "because %s on %s was not known", metric, target);
        else
                buf_printf(b, "because %s", check_reason_text(reason));
}

static void put_clock(struct buf *b, int64_t minute)
{
        int64_t of_day = floor_mod(minute, CLIENT_MINUTES);
        buf_printf(b, "%02d:%02d", (int)(of_day / 60), (int)(of_day % 60));
}

static void tell_run(const struct core *core, struct reply *reply, const struct client *e,
                     const struct run *run)
{
        enum check_reason reason = top_reason(run->by_reason);
        bool has_metric = reason == CHECK_THRESHOLD || reason == CHECK_UNKNOWN;
        struct buf text;
        buf_init(&text, STORY_TEXT);
        buf_put_slice(&text, client_name(e));
        buf_put_str(&text, " was mostly refused between ");
        put_clock(&text, run->from);
        buf_put_str(&text, " and ");
        put_clock(&text, run->to + 1);
        buf_put_str(&text, " UTC ");
        put_because(core, &text, run);
        const struct client_story_reply told = {
                .text = buf_slice(&text),
                .from_ms = run->from * MS_PER_MIN,
                .to_ms = (run->to + 1) * MS_PER_MIN,
                .refused = (int64_t)run->refused,
                .reason = check_reason_name(reason),
                .metric = has_metric ? metric_name(core, run->target, run->metric) : "",
                .target = has_metric ? target_name(core, run->target) : "",
        };
        reply_client_story(reply, &told);
        buf_release(&text);
}

/* The minutes of the day that ends now: the first and the last. */
static int64_t last_minute(const struct core *core)
{
        return floor_div(core->now.wall_ms, MS_PER_MIN);
}
static int64_t first_minute(const struct core *core)
{
        return last_minute(core) - CLIENT_MINUTES + 1;
}

static size_t count_runs(const struct core *core, const struct client *e)
{
        struct run run;
        size_t n = 0;
        for (int64_t at = first_minute(core); run_next(e, &at, last_minute(core), &run);)
                n++;
        return n;
}

static void tell_story(struct reply *reply, const struct reply_items *items)
{
        const struct core *core = items->core;
        struct run run;
        for (int64_t at = first_minute(core); run_next(items->of, &at, last_minute(core), &run);)
                tell_run(core, reply, items->of, &run);
}

/* ---- CLIENTSHOW: the rest ---- */

static void tell_minute(const struct core *core, struct reply *reply, int64_t minute,
                        const struct client_minute *m)
{
        uint64_t by_reason[CHECK_REASONS];
        for (size_t i = 0; i < CHECK_REASONS; i++)
                by_reason[i] = m->by_reason[i];
        bool has_reason = m->refused || m->observed;
        const struct client_minute_reply told = {
                .at_ms = minute * MS_PER_MIN,
                .asks = (int64_t)m->granted + m->refused,
                .granted = m->granted,
                .refused = m->refused,
                .observed = m->observed,
                .waited_ms = m->waited_ms,
                .reason = has_reason ? check_reason_name(top_reason(by_reason)) : "",
                .metric = metric_name(core, m->target, m->metric),
                .target = target_name(core, m->target),
        };
        reply_client_minute(reply, &told);
}

static size_t count_minutes(const struct core *core, const struct client *e, size_t max)
{
        size_t n = 0;
        for (int64_t at = last_minute(core); at >= first_minute(core) && n < max; at--)
                n += minutes_peek(&e->minutes, at) != NULL;
        return n;
}

/* The newest first. */
static void tell_minutes(struct reply *reply, const struct reply_items *items)
{
        const struct client *e = items->of;
        size_t n = items->n;
        for (int64_t at = last_minute(items->core); n > 0; at--) {
                const struct client_minute *m = minutes_peek(&e->minutes, at);
                if (!m)
                        continue;
                tell_minute(items->core, reply, at, m);
                n--;
        }
}

static size_t count_reasons(const struct client_totals *t)
{
        size_t n = 0;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                n += t->by_reason[i] > 0;
        return n;
}

static void tell_reasons(struct reply *reply, const struct reply_items *items)
{
        const struct client_totals *t = items->of;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                if (t->by_reason[i]) {
                        reply_key(reply, check_reason_name((enum check_reason)i));
                        reply_int(reply, (int64_t)t->by_reason[i]);
                }
}

static void tell_addresses(struct reply *reply, const struct reply_items *items)
{
        const struct client *e = items->of;
        for (size_t i = 0; i < e->n_addresses; i++) {
                const struct client_address_reply told = {
                        .address = slice_make(e->addresses[i].text, e->addresses[i].len),
                        .last_ms = e->addresses[i].wall_ms,
                };
                reply_client_address(reply, &told);
        }
}

static void tell_parts(struct reply *reply, const struct reply_items *items)
{
        const struct client *e = items->of;
        for (size_t i = 0; i < e->n_parts; i++)
                reply_text(reply, client_name(e->parts[i]));
}

/* From when the totals of a name count: the start, or its first ask when it may be one of those
 * that were forgotten and came back. */
static int64_t counted_from_ms(const struct core *core, const struct client *e)
{
        return totals_asks(&core->clients->other) ? e->first_ms : core->start_ms;
}

/* From when its minutes are known: hours are taken back when all names together have too many. */
static int64_t minutes_from_ms(const struct core *core, const struct client *e)
{
        int64_t lost_hour = core->clients->minutes.lost_hour;
        int64_t day_ms = core->now.wall_ms - CLIENT_MINUTES * MS_PER_MIN;
        int64_t from_ms = counted_from_ms(core, e);
        int64_t kept_ms =
                lost_hour == INT64_MIN ? 0 : (lost_hour + 1) * MINUTES_PER_HOUR * MS_PER_MIN;
        from_ms = kept_ms > from_ms ? kept_ms : from_ms;
        return day_ms > from_ms ? day_ms : from_ms;
}

int exec_clientshow(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        struct slice name = cmd->arg[P_CLIENTSHOW_NAME].text;
        const struct arg *minutes = &cmd->arg[P_CLIENTSHOW_MINUTES];
        struct hash_node *n = hash_find(&core->clients->names, name);
        if (!n)
                return problem_set(
                        problem, ERR_NOTFOUND,
                        "nobody called '%.*s' has asked since weir started; the list of clients "
                        "has who did",
                        (int)name.len, name.ptr);
        const struct client *e = CONTAINER_OF(n, const struct client, node);
        struct client_totals t = client_total(e);
        size_t max = minutes->is_set ? (size_t)minutes->num : MINUTES_DEFAULT;
        char share[SHARE_TEXT];
        const struct client_reply told = {
                .row = row_of(core, e, share),
                .from_ms = counted_from_ms(core, e),
                .minutes_from_ms = minutes_from_ms(core, e),
                .first_ms = e->first_ms,
                .granted_ms = e->granted_ms,
                .refused_ms = e->refused_ms,
                .waited_ms = (int64_t)t.waited_ms,
                .authenticated = e->is_authenticated,
                .identities = e->n_owners,
                .reasons = {count_reasons(&t), tell_reasons, core, &t},
                .addresses = {e->n_addresses, tell_addresses, core, e},
                .parts = {e->n_parts, tell_parts, core, e},
                .story = {count_runs(core, e), tell_story, core, e},
                .minutes = {count_minutes(core, e, max), tell_minutes, core, e},
        };
        reply_client(reply, &told);
        return OK;
}

/* ---- STARVED ---- */

static int by_since(const struct client *a, const struct client *b)
{
        if (a->since_ns != b->since_ns)
                return a->since_ns < b->since_ns ? -1 : 1;
        return by_name(a, b);
}

struct starved_ctx {
        struct core *core;
        const struct client_top *top;
        struct starver *memos; /* for each target what was found last */
};

static void tell_starved(struct reply *reply, const struct reply_items *items)
{
        const struct starved_ctx *ctx = items->of;
        struct core *core = ctx->core;
        for (size_t i = 0; i < items->n; i++) {
                const struct client *e = ctx->top->clients[i];
                struct starver *memo = &ctx->memos[e->last_target];
                client_starver(core, e, memo);
                const struct starved_row_reply told = {
                        .name = client_name(e),
                        .since_ms = waiting_ms(core, e),
                        .asks = (int64_t)e->streak,
                        .refused = (int64_t)e->streak,
                        .reason = check_reason_name((enum check_reason)e->last_reason),
                        .metric = metric_name(core, e->last_target, e->last_metric),
                        .starver = memo->who ? client_name(memo->who) : SLICE_NONE,
                        .starver_grants = (int64_t)memo->grants,
                        .target = target_name(core, e->last_target),
                };
                reply_starved_row(reply, &told);
        }
}

int exec_starved(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        const struct client *room[LIMIT_LIST_CLIENTS];
        struct client_top top = {.clients = room, .max = LIMIT_LIST_CLIENTS, .compare = by_since};
        /* In order of time each target needs one search per span at most. */
        struct starver memos[CLIENT_NOWHERE + 1] = {{0}};
        LIST_FOREACH(&core->clients->starved, it)
        {
                client_top_add(&top, CONTAINER_OF(it, const struct client, watch));
        }
        client_top_sort(&top);
        const struct starved_ctx ctx = {core, &top, memos};
        const struct starved_reply told = {{top.n, tell_starved, core, &ctx}};
        reply_starved(reply, &told);
        return OK;
}

/* ---- for /metrics ---- */

/* Room: two bytes of `ret` for each of the value.  Escapes as the text format of Prometheus wants.
 */
static size_t put_label(char *ret, struct slice value)
{
        size_t n = 0;
        for (size_t i = 0; i < value.len; i++) {
                char c = value.ptr[i];
                if (c == '\\' || c == '"' || c == '\n')
                        ret[n++] = '\\';
                ret[n++] = c == '\n' ? 'n' : c;
        }
        return n;
}

struct sampling {
        void (*fn)(void *ctx, const char *name, const char *labels, double value);
        void *ctx;
};

/* Each ask has one verdict: what observe let through is not among the granted here. */
static void put_asks(const struct sampling *s, struct slice identity, const struct client_totals *t)
{
        const struct {
                const char *verdict;
                uint64_t n;
        } rows[] = {
                {"granted", t->granted - t->observed},
                {"observed", t->observed},
                {"refused", t->refused},
        };
        char labels[LABEL_TEXT];
        size_t n = (size_t)snprintf(labels, sizeof(labels), "identity=\"");
        n += put_label(labels + n, identity);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                (void)snprintf(labels + n, sizeof(labels) - n, "\",verdict=\"%s\"",
                               rows[i].verdict);
                s->fn(s->ctx, "check_asks_total", labels, (double)rows[i].n);
        }
}

static int by_own_asks(const struct client *a, const struct client *b)
{
        return by_number(totals_asks(&a->total[AS_WHOLE]), totals_asks(&b->total[AS_WHOLE]), a, b);
}

/* A total that falls is a restart to whoever collects it.  When a name comes among the most active,
 * "other" would: it stands still instead until it has caught up. */
static struct client_totals never_less(struct client_totals *told, const struct client_totals *now)
{
        uint64_t plain = now->granted - now->observed, was = told->granted - told->observed;
        told->observed = now->observed > told->observed ? now->observed : told->observed;
        told->granted = (plain > was ? plain : was) + told->observed;
        told->refused = now->refused > told->refused ? now->refused : told->refused;
        return *told;
}

void clients_each_sample(const struct core *core,
                         void (*fn)(void *ctx, const char *name, const char *labels, double value),
                         void *ctx)
{
        struct clients *c = core->clients;
        const struct sampling s = {fn, ctx};
        const struct client *room[SAMPLES_MAX];
        struct client_top top = {.clients = room, .max = SAMPLES_MAX, .compare = by_own_asks};
        struct client_totals other = c->other, told;
        LIST_FOREACH(&c->recent, it)
        {
                const struct client *e = CONTAINER_OF(it, const struct client, recent);
                totals_add(&other, &e->total[AS_WHOLE]);
                if (!slice_eq(client_name(e), SLICE_LIT("other"))) /* it is one of them */
                        client_top_add(&top, e);
        }
        client_top_sort(&top);
        for (size_t i = 0; i < top.n; i++) {
                const struct client_totals *t = &top.clients[i]->total[AS_WHOLE];
                put_asks(&s, client_name(top.clients[i]), t);
                other.granted -= t->granted;
                other.observed -= t->observed;
                other.refused -= t->refused;
        }
        told = never_less(&c->told, &other);
        put_asks(&s, SLICE_LIT("other"), &told);
        fn(ctx, "check_starved", "", (double)c->n_starved);
        fn(ctx, "check_clients", "", (double)c->names.len);
}
