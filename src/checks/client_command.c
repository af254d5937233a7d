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
#include "checks/client_day.h"
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
        const char *target, *metric; /* "": none */
        bool is_open;                /* there is one */
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

static void run_add(struct run *run, int64_t minute, const struct day_minute *m)
{
        if (!run->is_open)
                *run = (struct run){.from = minute, .target = "", .metric = "", .is_open = true};
        run->to = minute;
        run->refused += m->refused;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                run->by_reason[i] += m->by_reason[i];
        if (*m->metric) {
                run->target = m->target;
                run->metric = m->metric;
        }
}

/* The next run from *minute on, which moves behind it; false at the end of the day. */
static bool run_next(const struct client_day *d, int64_t *minute, struct run *run)
{
        *run = (struct run){0};
        for (int64_t last = day_last(d->core); *minute <= last; ++*minute) {
                struct day_minute m;
                bool has_asked = day_at(d, *minute, &m);
                if (run->is_open && *minute - run->to > STORY_GAP + 1) {
                        if (is_told(run))
                                return true;
                        run->is_open = false;
                }
                if (has_asked && m.refused > m.granted)
                        run_add(run, *minute, &m);
        }
        return is_told(run);
}

static void put_because(struct buf *b, const struct run *run)
{
        enum check_reason reason = top_reason(run->by_reason);
        if (reason == CHECK_THRESHOLD && *run->metric)
                buf_printf(b, "because of %s on %s", run->metric, run->target);
        else if (reason == CHECK_UNKNOWN && *run->metric)
                buf_printf(b, "because %s on %s was not known", run->metric, run->target);
        else
                buf_printf(b, "because %s", check_reason_text(reason));
}

static void put_clock(struct buf *b, int64_t minute)
{
        int64_t of_day = floor_mod(minute, CLIENT_MINUTES);
        buf_printf(b, "%02d:%02d", (int)(of_day / 60), (int)(of_day % 60));
}

/* What is told of one name. */
struct shown {
        struct client_day day;
        struct slice name;
};

static void tell_run(struct reply *reply, struct slice name, const struct run *run)
{
        enum check_reason reason = top_reason(run->by_reason);
        bool has_metric = reason == CHECK_THRESHOLD || reason == CHECK_UNKNOWN;
        struct buf text;
        buf_init(&text, STORY_TEXT);
        buf_put_slice(&text, name);
        buf_put_str(&text, " was mostly refused between ");
        put_clock(&text, run->from);
        buf_put_str(&text, " and ");
        put_clock(&text, run->to + 1);
        buf_put_str(&text, " UTC ");
        put_because(&text, run);
        const struct client_story_reply told = {
                .text = buf_slice(&text),
                .from_ms = run->from * MS_PER_MIN,
                .to_ms = (run->to + 1) * MS_PER_MIN,
                .refused = (int64_t)run->refused,
                .reason = check_reason_name(reason),
                .metric = has_metric ? run->metric : "",
                .target = has_metric ? run->target : "",
        };
        reply_client_story(reply, &told);
        buf_release(&text);
}

static size_t count_runs(const struct client_day *d)
{
        struct run run;
        size_t n = 0;
        for (int64_t at = day_first(d->core); run_next(d, &at, &run);)
                n++;
        return n;
}

static void tell_story(struct reply *reply, const struct reply_items *items)
{
        const struct shown *s = items->of;
        struct run run;
        for (int64_t at = day_first(items->core); run_next(&s->day, &at, &run);)
                tell_run(reply, s->name, &run);
}

/* ---- CLIENTSHOW: the rest ---- */

static void tell_minute(struct reply *reply, int64_t minute, const struct day_minute *m)
{
        bool has_reason = m->refused || m->observed;
        const struct client_minute_reply told = {
                .at_ms = minute * MS_PER_MIN,
                .asks = (int64_t)(m->granted + m->refused),
                .granted = (int64_t)m->granted,
                .refused = (int64_t)m->refused,
                .observed = (int64_t)m->observed,
                .waited_ms = (int64_t)m->waited_ms,
                .reason = has_reason ? check_reason_name(top_reason(m->by_reason)) : "",
                .metric = m->metric,
                .target = m->target,
        };
        reply_client_minute(reply, &told);
}

static size_t count_minutes(const struct client_day *d, size_t max)
{
        struct day_minute m;
        size_t n = 0;
        for (int64_t at = day_last(d->core); at >= day_first(d->core) && n < max; at--)
                n += day_at(d, at, &m);
        return n;
}

/* The newest first. */
static void tell_minutes(struct reply *reply, const struct reply_items *items)
{
        const struct shown *s = items->of;
        struct day_minute m;
        size_t n = items->n;
        for (int64_t at = day_last(items->core); n > 0; at--) {
                if (!day_at(&s->day, at, &m))
                        continue;
                tell_minute(reply, at, &m);
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

/* The first minute before that of the start in which weir ran; the start when none is known. */
static int64_t past_from_ms(const struct client_day *d, int64_t start_ms)
{
        for (size_t i = 0; d->past && i + 1 < d->past->n; i++)
                if (d->past->points[i].is_known)
                        return (d->past->from + (int64_t)i) * MS_PER_MIN;
        return start_ms;
}

/* From when its minutes are known: hours are taken back when all names together have too many. */
static int64_t minutes_from_ms(const struct client_day *d)
{
        const struct core *core = d->core;
        int64_t lost_hour = core->clients->minutes.lost_hour;
        int64_t day_ms = core->now.wall_ms - CLIENT_MINUTES * MS_PER_MIN;
        int64_t from_ms = d->client ? counted_from_ms(core, d->client) : core->start_ms;
        int64_t kept_ms =
                lost_hour == INT64_MIN ? 0 : (lost_hour + 1) * MINUTES_PER_HOUR * MS_PER_MIN;
        if (from_ms == core->start_ms && !kept_ms)
                from_ms = past_from_ms(d, from_ms);
        from_ms = kept_ms > from_ms ? kept_ms : from_ms;
        return day_ms > from_ms ? day_ms : from_ms;
}

static void tell_client(struct reply *reply, const struct shown *s, size_t max)
{
        const struct core *core = s->day.core;
        const struct client *e = s->day.client;
        struct client_totals t = client_total(e);
        char share[SHARE_TEXT];
        const struct client_reply told = {
                .row = row_of(core, e, share),
                .from_ms = counted_from_ms(core, e),
                .minutes_from_ms = minutes_from_ms(&s->day),
                .first_ms = e->first_ms,
                .granted_ms = e->granted_ms,
                .refused_ms = e->refused_ms,
                .waited_ms = (int64_t)t.waited_ms,
                .authenticated = e->is_authenticated,
                .identities = e->n_owners,
                .reasons = {count_reasons(&t), tell_reasons, core, &t},
                .addresses = {e->n_addresses, tell_addresses, core, e},
                .parts = {e->n_parts, tell_parts, core, e},
                .story = {count_runs(&s->day), tell_story, core, s},
                .minutes = {count_minutes(&s->day, max), tell_minutes, core, s},
        };
        reply_client(reply, &told);
}

/* One that has not asked since the start: its totals are those of the day, as far as they are kept.
 * Whether it is an identity or a part is not; one with parts has a colon. */
static void tell_past(struct reply *reply, const struct shown *s, size_t max)
{
        const struct core *core = s->day.core;
        int64_t first, last;
        struct client_totals t = day_past(&s->day, &first, &last);
        uint64_t asks = totals_asks(&t);
        char share[SHARE_TEXT];
        (void)snprintf(share, SHARE_TEXT, "%.4g", (double)t.refused / (double)asks);
        const struct client_reply told = {
                .row = {.name = s->name,
                        .kind = "identity",
                        .asks = (int64_t)asks,
                        .granted = (int64_t)t.granted,
                        .refused = (int64_t)t.refused,
                        .observed = (int64_t)t.observed,
                        .share_refused = share,
                        .last_ms = last * MS_PER_MIN},
                .from_ms = minutes_from_ms(&s->day),
                .minutes_from_ms = minutes_from_ms(&s->day),
                .first_ms = first * MS_PER_MIN,
                .waited_ms = (int64_t)t.waited_ms,
                .reasons = {count_reasons(&t), tell_reasons, core, &t},
                .story = {count_runs(&s->day), tell_story, core, s},
                .minutes = {count_minutes(&s->day, max), tell_minutes, core, s},
        };
        reply_client(reply, &told);
}

static int show(const struct core *core, struct slice name, const struct rollup_view *past,
                size_t max, struct reply *reply, struct problem *problem)
{
        struct hash_node *n = hash_find(&core->clients->names, name);
        const struct shown s = {
                .day = {core, n ? CONTAINER_OF(n, const struct client, node) : NULL, past},
                .name = name,
        };
        int64_t first, last;
        if (s.day.client) {
                tell_client(reply, &s, max);
                return OK;
        }
        struct client_totals t = day_past(&s.day, &first, &last);
        if (!totals_asks(&t))
                return problem_set(problem, ERR_NOTFOUND,
                                   "no client has asked as '%.*s' since weir started%s; the list "
                                   "of clients shows who has asked",
                                   (int)name.len, name.ptr,
                                   past ? ", and no earlier minute in history names it" : "");
        tell_past(reply, &s, max);
        return OK;
}

struct showing {
        struct session_wait base;
        struct archive_rollups query;
        struct rollup_view view;
        size_t max;
        size_t name_len;
        char name[];
};

static void on_past(struct archive_rollups *q)
{
        struct showing *w = q->ctx;
        struct session *session = w->base.session;
        struct problem problem;
        if (session) {
                wait_end(w->base.core, &w->base);
                struct reply *reply = session->ops->reply_begin(session);
                if (show(w->base.core, slice_make(w->name, w->name_len), q->err ? NULL : &w->view,
                         w->max, reply, &problem) != OK)
                        reply_error(reply, &problem);
                session->ops->reply_end(session);
        }
        rollup_view_release(&w->view);
        free(w);
}

static void showing_cancel(struct core *core, struct session_wait *wait)
{
        wait_end(core, wait); /* the archive has it, and on_past() frees it */
}

static const struct wait_ops showing_ops = {.cancel = showing_cancel};

int exec_clientshow(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        struct slice name = cmd->arg[P_CLIENTSHOW_NAME].text;
        const struct arg *minutes = &cmd->arg[P_CLIENTSHOW_MINUTES];
        size_t max = minutes->is_set ? (size_t)minutes->num : MINUTES_DEFAULT;
        struct archive *archive = core->options.archive;
        int64_t first = day_first(core), start = day_start(core);
        if (first > start || !archive || !archive->ops->rollups)
                return show(core, name, NULL, max, reply, problem);
        struct showing *w = xcalloc(1, sizeof(*w) + name.len);
        memcpy(w->name, name.ptr, name.len);
        w->name_len = name.len;
        w->max = max;
        w->view = (struct rollup_view){.from = first,
                                       .step = 1,
                                       .n = (size_t)(start - first + 1),
                                       .kind = TALLY_CLIENT,
                                       .name = slice_make(w->name, name.len)};
        rollup_view_init(&w->view);
        w->query = (struct archive_rollups){.span = ROLLUP_MINUTE,
                                            .from = first,
                                            .mid = first,
                                            .to = start + 1,
                                            .view = &w->view,
                                            .done = on_past,
                                            .ctx = w};
        wait_begin(core, &w->base, &showing_ops, session);
        archive->ops->rollups(archive, &w->query);
        return CORE_LATER;
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
