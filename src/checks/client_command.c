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
#include "base/civil.h"
#include "checks/client_int.h"
#include "throttle/throttle_state.h"

#define LIST_LIMIT_DEFAULT 50
#define MINUTES_DEFAULT    60
#define MS_PER_MINUTE      60000
#define STORY_GAP          2
#define STORY_MINUTES      2
#define STORY_REFUSALS     10
#define STORY_TEXT         640
#define SAMPLES_MAX        50
#define LABEL_TEXT         (2 * IDENTITY_BYTES + 64) /* every byte may need a backslash */

enum { KIND_IDENTITY, KIND_PART };
enum { ORDER_NAME, ORDER_ASKS, ORDER_REFUSED };

static void tell_bool(struct reply *reply, const char *key, bool value)
{
        reply_key(reply, key);
        reply_bool(reply, value);
}

/* RESP has no fractions that every client reads: numbers are told as text. */
static void tell_share(struct reply *reply, const char *key, uint64_t part, uint64_t all)
{
        char text[32];
        (void)snprintf(text, sizeof(text), "%.4g", all ? (double)part / (double)all : 0.0);
        tell_str(reply, key, text);
}

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

static struct slice last_address(const struct client *e)
{
        return e->n_addresses ? slice_make(e->addresses[0].text, e->addresses[0].len)
                              : SLICE_LIT("");
}

#define HEAD_FIELDS 11
static void tell_head(const struct core *core, struct reply *reply, const struct client *e)
{
        struct client_totals t = client_total(e);
        tell_text(reply, "name", client_name(e));
        tell_str(reply, "kind", e->is_whole ? "identity" : "part");
        tell_int(reply, "asks", (int64_t)totals_asks(&t));
        tell_int(reply, "granted", (int64_t)t.granted);
        tell_int(reply, "refused", (int64_t)t.refused);
        tell_int(reply, "observed", (int64_t)t.observed);
        tell_share(reply, "share_refused", t.refused, totals_asks(&t));
        tell_int(reply, "last_ms", e->last_ms);
        tell_text(reply, "address", last_address(e));
        tell_int(reply, "waiting_ms", waiting_ms(core, e));
        tell_bool(reply, "starved", e->is_starved);
}

static int check_order(const struct command *cmd, struct problem *problem)
{
        return cmd->arg[P_CLIENTS_ORDER].num != ORDER_NAME && cmd->arg[P_CLIENTS_CURSOR].text.len
                       ? problem_set(problem, ERR_BADARG, "cursor goes with order name")
                       : OK;
}

int exec_clients(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        static int (*const orders[])(const struct client *,
                                     const struct client *) = {by_name, by_asks, by_refused};
        const struct clients *c = core->clients;
        const struct arg *limit = &cmd->arg[P_CLIENTS_LIMIT];
        const struct client *room[LIMIT_LIST_CLIENTS];
        struct client_top top = {.clients = room,
                                 .max = limit->is_set ? (size_t)limit->num : LIST_LIMIT_DEFAULT,
                                 .compare = orders[cmd->arg[P_CLIENTS_ORDER].num]};
        int r = check_order(cmd, problem);
        if (r != OK)
                return r;
        for (struct hash_node *n = NULL; (n = hash_next(&c->names, n));) {
                const struct client *e = CONTAINER_OF(n, const struct client, node);
                if (is_wanted(e, cmd))
                        client_top_add(&top, e);
        }
        client_top_sort(&top);
        reply_map(reply, 4);
        reply_key(reply, "clients");
        reply_list(reply, top.n);
        for (size_t i = 0; i < top.n; i++) {
                reply_map(reply, HEAD_FIELDS);
                tell_head(core, reply, top.clients[i]);
                reply_end(reply);
        }
        reply_end(reply);
        tell_text(reply, "cursor",
                  top.has_more && top.compare == by_name ? client_name(top.clients[top.n - 1])
                                                         : SLICE_LIT(""));
        tell_int(reply, "other", (int64_t)totals_asks(&c->other));
        tell_int(reply, "start_ms", core->start_ms);
        reply_end(reply);
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
        reply_map(reply, 7);
        tell_text(reply, "text", buf_slice(&text));
        tell_int(reply, "from_ms", run->from * MS_PER_MINUTE);
        tell_int(reply, "to_ms", (run->to + 1) * MS_PER_MINUTE);
        tell_int(reply, "refused", (int64_t)run->refused);
        tell_str(reply, "reason", check_reason_name(reason));
        tell_str(reply, "metric", has_metric ? metric_name(core, run->target, run->metric) : "");
        tell_str(reply, "target", has_metric ? target_name(core, run->target) : "");
        reply_end(reply);
        buf_release(&text);
}

static void tell_story(const struct core *core, struct reply *reply, const struct client *e)
{
        int64_t last = floor_div(core->now.wall_ms, MS_PER_MINUTE);
        int64_t first = last - CLIENT_MINUTES + 1;
        struct run run;
        size_t n = 0;
        for (int64_t at = first; run_next(e, &at, last, &run);)
                n++;
        reply_list(reply, n);
        for (int64_t at = first; run_next(e, &at, last, &run);)
                tell_run(core, reply, e, &run);
        reply_end(reply);
}

/* ---- CLIENTSHOW: the rest ---- */

static void tell_minute(const struct core *core, struct reply *reply, int64_t minute,
                        const struct client_minute *m)
{
        uint64_t by_reason[CHECK_REASONS];
        for (size_t i = 0; i < CHECK_REASONS; i++)
                by_reason[i] = m->by_reason[i];
        bool has_reason = m->refused || m->observed;
        reply_map(reply, 9);
        tell_int(reply, "at_ms", minute * MS_PER_MINUTE);
        tell_int(reply, "asks", (int64_t)m->granted + m->refused);
        tell_int(reply, "granted", m->granted);
        tell_int(reply, "refused", m->refused);
        tell_int(reply, "observed", m->observed);
        tell_int(reply, "waited_ms", m->waited_ms);
        tell_str(reply, "reason", has_reason ? check_reason_name(top_reason(by_reason)) : "");
        tell_str(reply, "metric", metric_name(core, m->target, m->metric));
        tell_str(reply, "target", target_name(core, m->target));
        reply_end(reply);
}

/* The newest first. */
static void tell_minutes(const struct core *core, struct reply *reply, const struct client *e,
                         size_t max)
{
        int64_t last = floor_div(core->now.wall_ms, MS_PER_MINUTE);
        int64_t first = last - CLIENT_MINUTES + 1;
        size_t n = 0;
        for (int64_t at = last; at >= first && n < max; at--)
                n += minutes_peek(&e->minutes, at) != NULL;
        reply_list(reply, n);
        for (int64_t at = last; n > 0; at--) {
                const struct client_minute *m = minutes_peek(&e->minutes, at);
                if (!m)
                        continue;
                tell_minute(core, reply, at, m);
                n--;
        }
        reply_end(reply);
}

static void tell_reasons(struct reply *reply, const struct client_totals *t)
{
        size_t n = 0;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                n += t->by_reason[i] > 0;
        reply_map(reply, n);
        for (size_t i = 0; i < CHECK_REASONS; i++)
                if (t->by_reason[i])
                        tell_int(reply, check_reason_name((enum check_reason)i),
                                 (int64_t)t->by_reason[i]);
        reply_end(reply);
}

static void tell_addresses(struct reply *reply, const struct client *e)
{
        reply_list(reply, e->n_addresses);
        for (size_t i = 0; i < e->n_addresses; i++) {
                reply_map(reply, 2);
                tell_text(reply, "address", slice_make(e->addresses[i].text, e->addresses[i].len));
                tell_int(reply, "last_ms", e->addresses[i].wall_ms);
                reply_end(reply);
        }
        reply_end(reply);
}

static void tell_parts(struct reply *reply, const struct client *e)
{
        reply_list(reply, e->n_parts);
        for (size_t i = 0; i < e->n_parts; i++)
                reply_text(reply, client_name(e->parts[i]));
        reply_end(reply);
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
        int64_t day_ms = core->now.wall_ms - CLIENT_MINUTES * (int64_t)MS_PER_MINUTE;
        int64_t from_ms = counted_from_ms(core, e);
        int64_t kept_ms = lost_hour == INT64_MIN
                                  ? 0
                                  : (lost_hour + 1) * MINUTES_PER_HOUR * (int64_t)MS_PER_MINUTE;
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
        reply_map(reply, HEAD_FIELDS + 13);
        tell_head(core, reply, e);
        tell_int(reply, "from_ms", counted_from_ms(core, e));
        tell_int(reply, "minutes_from_ms", minutes_from_ms(core, e));
        tell_int(reply, "first_ms", e->first_ms);
        tell_int(reply, "granted_ms", e->granted_ms);
        tell_int(reply, "refused_ms", e->refused_ms);
        tell_int(reply, "waited_ms", (int64_t)t.waited_ms);
        tell_bool(reply, "authenticated", e->is_authenticated);
        tell_int(reply, "identities", e->n_owners);
        reply_key(reply, "reasons");
        tell_reasons(reply, &t);
        reply_key(reply, "addresses");
        tell_addresses(reply, e);
        reply_key(reply, "parts");
        tell_parts(reply, e);
        reply_key(reply, "story");
        tell_story(core, reply, e);
        reply_key(reply, "minutes");
        tell_minutes(core, reply, e, minutes->is_set ? (size_t)minutes->num : MINUTES_DEFAULT);
        reply_end(reply);
        return OK;
}

/* ---- STARVED ---- */

static int by_since(const struct client *a, const struct client *b)
{
        if (a->since_ns != b->since_ns)
                return a->since_ns < b->since_ns ? -1 : 1;
        return by_name(a, b);
}

static void tell_starved(struct core *core, struct reply *reply, const struct client *e,
                         struct starver *memos)
{
        struct starver *memo = &memos[e->last_target];
        client_starver(core, e, memo);
        reply_map(reply, 9);
        tell_text(reply, "name", client_name(e));
        tell_int(reply, "since_ms", waiting_ms(core, e));
        tell_int(reply, "asks", (int64_t)e->streak);
        tell_int(reply, "refused", (int64_t)e->streak);
        tell_str(reply, "reason", check_reason_name((enum check_reason)e->last_reason));
        tell_str(reply, "metric", metric_name(core, e->last_target, e->last_metric));
        tell_text(reply, "starver", memo->who ? client_name(memo->who) : SLICE_LIT(""));
        tell_int(reply, "starver_grants", (int64_t)memo->grants);
        tell_str(reply, "target", target_name(core, e->last_target));
        reply_end(reply);
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
        reply_wrap(reply, "starved");
        reply_list(reply, top.n);
        for (size_t i = 0; i < top.n; i++)
                tell_starved(core, reply, top.clients[i], memos);
        reply_end(reply);
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
