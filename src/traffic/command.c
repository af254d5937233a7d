/* What people see of the doors: PROXIES, PROXY, PROXYCLASSES, PROXYCLIENTS, PROXYTOP, PROXYEXPLAIN
 * and PROXYDRAIN.
 *
 * Numbers are copied from the threads when a command asks, under the lock of the door; everything
 * else (percentiles, order, texts) is worked out from the copy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/shown.h"
#include "traffic/traffic_state.h"

#define CLIENTS_USUAL    100
#define STATEMENTS_USUAL 50
/* With a filter so many connections are looked at. */
#define CLIENTS_LOOKED_AT 10000
#define NO_CLASS          UINT32_MAX
#define WHY_TEXT          ((size_t)2 * ADMIT_WHY)
#define DIGEST_TEXT       17 /* 16 hex digits and the NUL */

/* ---- which door ---- */

static int need_door(const struct core *core, struct slice name, size_t *ret,
                     struct problem *problem)
{
        const struct traffic *t = core->traffic;
        char have[TRAFFIC_TEXT] = "none is configured";
        size_t len = 0;
        for (size_t i = 0; i < t->n; i++)
                if (slice_eq(slice_str(t->doors[i].name), name)) {
                        *ret = i;
                        return OK;
                }
        for (size_t i = 0; i < t->n && len < sizeof(have); i++)
                len += (size_t)snprintf(have + len, sizeof(have) - len, "%s%s",
                                        i ? ", " : "there is ", t->doors[i].name);
        return problem_set(problem, ERR_NOTFOUND, "unknown MySQL door '%s'; %s", SHOWN(name), have);
}

static int need_threads(const struct core *core, struct problem *problem)
{
        return core->traffic->has_threads
                       ? OK
                       : problem_set(problem, ERR_STATE, "the threads of the proxy do not run");
}

/* ---- classes ---- */

void told_classes_release(struct told_classes *t)
{
        free(t->classes);
}

void counts_add(struct class_counts *to, const struct class_counts *n)
{
        to->transactions += n->transactions;
        to->statements += n->statements;
        to->rows += n->rows;
        to->errors += n->errors;
        to->held += n->held;
        to->refused += n->refused;
        to->left += n->left;
        to->observed += n->observed;
        to->busy_ns += n->busy_ns;
}

static void copy_class(void *ctx, size_t number, const struct traffic_class *c,
                       const struct class_view *v)
{
        struct told_classes *t = ctx;
        counts_add(&t->sum, v->counts);
        if (t->n == t->max)
                return;
        struct told_class *told = &t->classes[t->n++];
        *told = (struct told_class){
                .number = number,
                .class = *c,
                .counts = *v->counts,
                .limits = v->limits,
                .running = v->running,
                .waiting = v->waiting,
                .executing = v->executing,
                .excess = v->excess,
                .free = v->free,
                .usual = v->usual,
                .usual_ms = v->usual_ms,
                .slowdown = v->slowdown,
                .oldest_ns = v->oldest_ns,
                .waits_for = v->wait.reason,
        };
        (void)snprintf(told->why, sizeof(told->why), "%s", v->wait.why);
}

static struct known_class *known_of(const struct core *core, size_t door, size_t number)
{
        const struct door *d = door_at(core, door);
        return number < d->n_classes ? d->classes[number] : NULL;
}

/* Means of the last seconds. */
static void find_rates(const struct core *core, size_t door, struct told_class *c)
{
        const struct door *d = door_at(core, door);
        const struct known_class *k = known_of(core, door, c->number);
        uint64_t n = d->n_ticks < TRAFFIC_RATE_S ? d->n_ticks : TRAFFIC_RATE_S;
        if (!k || !n)
                return;
        const struct class_numbers *then =
                &k->ring[d->n_ticks < TRAFFIC_RATE_S ? 0 : d->n_ticks % TRAFFIC_RATE_S];
        if (k->now.transactions < then->transactions || k->now.busy_ns < then->busy_ns)
                return; /* it began anew */
        c->transactions_per_s = (double)(k->now.transactions - then->transactions) / (double)n;
        c->busy_ms_per_s = (double)(k->now.busy_ns - then->busy_ns) / (double)NS_PER_MS / (double)n;
}

static int by_busy(const void *a, const void *b)
{
        const struct told_class *x = a, *y = b;
        if (x->busy_ms_per_s != y->busy_ms_per_s)
                return x->busy_ms_per_s < y->busy_ms_per_s ? 1 : -1;
        if (x->counts.busy_ns != y->counts.busy_ns)
                return x->counts.busy_ns < y->counts.busy_ns ? 1 : -1;
        return (x->number > y->number) - (x->number < y->number);
}

void traffic_copy_classes(const struct core *core, size_t door, size_t max,
                          struct told_classes *ret)
{
        const struct traffic *t = core->traffic;
        *ret = (struct told_classes){.max = max};
        if (max)
                ret->classes = xcalloc(max, sizeof(*ret->classes));
        if (t->has_threads)
                t->threads.each_class(t->threads.ctx, door, copy_class, ret);
        for (size_t i = 0; i < ret->n; i++)
                find_rates(core, door, &ret->classes[i]);
        if (ret->n)
                qsort(ret->classes, ret->n, sizeof(*ret->classes), by_busy);
}

/* ---- times ---- */

/* Where the share of all times lies, in us, from the buckets since `then`; 0: there are none.
 * Within a bucket times are taken as spread evenly. */
static int64_t percentile_us(const struct admit_times *now, const struct admit_times *then,
                             double share)
{
        uint64_t n[ADMIT_BUCKETS], sum = 0;
        for (size_t i = 0; i < ADMIT_BUCKETS; i++) {
                n[i] = now->n[i] >= then->n[i] ? now->n[i] - then->n[i] : now->n[i];
                sum += n[i];
        }
        double left = share * (double)sum;
        for (size_t i = 0; i < ADMIT_BUCKETS && sum; i++) {
                double from = i ? ldexp(8, (int)i) : 0, to = ldexp(16, (int)i);
                if (left <= (double)n[i])
                        return (int64_t)(from + (to - from) * (n[i] ? left / (double)n[i] : 0));
                left -= (double)n[i];
        }
        return 0;
}

/* ---- verdicts ---- */

struct told_verdict {
        const char *verdict, *reason;
        char why[WHY_TEXT];
};

static void put_why(struct told_verdict *ret, enum check_reason reason,
                    const struct class_verdicts *v)
{
        bool has_detail = check_reason_has_detail(reason) && v->why[0];
        ret->reason = check_reason_name(reason);
        (void)snprintf(ret->why, sizeof(ret->why), "%s%s%s", check_reason_text(reason),
                       has_detail ? ": " : "", has_detail ? v->why : "");
}

/* What becomes of a transaction now; of several answers the one that is worst for it. */
static struct told_verdict verdict_of(const struct class_verdicts *v, enum gate_mode mode)
{
        struct told_verdict told = {"run", check_reason_name(CHECK_GRANTED), ""};
        if (!v->is_known)
                return told;
        if (v->verdict[2].is_granted && v->verdict[2].reason != CHECK_GRANTED)
                put_why(&told, v->verdict[2].reason, v);
        for (size_t i = ARRAY_LEN(v->verdict); i-- > 0;) {
                const struct check_verdict *one = &v->verdict[i];
                enum check_reason reason = one->is_granted ? one->would_reason : one->reason;
                if ((one->is_granted && !one->would_refuse) || admission_ignores(reason))
                        continue;
                bool waits = !one->is_granted && mode == MODE_ENFORCE;
                put_why(&told, reason, v);
                if (mode >= MODE_OBSERVE)
                        told.verdict = waits ? "wait" : "observe";
                if (waits)
                        break;
        }
        return told;
}

/* 0 stands for none. */
static double above_zero(double number)
{
        return number > 0 ? number : NAN;
}

#define RATE_TEXT 32

static struct proxy_class_reply class_row(const struct core *core, size_t door,
                                          const struct told_class *c, struct told_verdict *now,
                                          char rate[RATE_TEXT])
{
        static const struct admit_times nothing;
        static const struct class_verdicts unknown;
        const struct known_class *k = known_of(core, door, c->number);
        const struct class_counts *n = &c->counts;
        const struct class_verdicts *v = k ? &k->verdicts : &unknown;
        const struct admit_times *waits = k ? &k->waits[1] : &nothing;
        const struct admit_times *services = k ? &k->services[1] : &nothing;
        *now = verdict_of(v, c->limits.mode);
        if (c->waits_for != ADMIT_BY_NONE && strcmp(now->verdict, "wait") != 0) {
                bool is_load = c->waits_for == ADMIT_BY_LOAD;
                *now = (struct told_verdict){
                        .verdict = "wait",
                        .reason = is_load ? admit_reason_name(ADMIT_BY_LOAD)
                                          : check_reason_name(CHECK_LIMIT),
                };
                (void)snprintf(now->why, sizeof(now->why), "%s", c->why);
        }
        (void)snprintf(rate, RATE_TEXT, "%.1f", c->transactions_per_s);
        return (struct proxy_class_reply){
                .class = c->class.identity,
                .row = c->class.row,
                .tier = tier_name(v->is_known ? v->tier : TIER_NORMAL),
                .mode = mode_name(c->limits.mode),
                .verdict = now->verdict,
                .reason = now->reason,
                .why = now->why,
                .rule = v->rule,
                .running = c->running,
                .waiting = c->waiting,
                .executing = c->executing,
                .usual = above_zero(c->usual),
                .free = c->free == UINT32_MAX ? -1 : (int64_t)c->free,
                .excess = c->excess,
                .usual_ms = above_zero(c->usual_ms),
                .slowdown = above_zero(c->slowdown),
                .oldest_ms = c->oldest_ns / NS_PER_MS,
                .transactions = (int64_t)n->transactions,
                .statements = (int64_t)n->statements,
                .rows = (int64_t)n->rows,
                .errors = (int64_t)n->errors,
                .held = (int64_t)n->held,
                .refused = (int64_t)n->refused,
                .left = (int64_t)n->left,
                .observed = (int64_t)n->observed,
                .busy_ms = (int64_t)(n->busy_ns / NS_PER_MS),
                .busy_ms_per_s = llround(c->busy_ms_per_s),
                .transactions_per_s = rate,
                .wait_us_p50 = percentile_us(&n->waits, waits, 0.5),
                .wait_us_p99 = percentile_us(&n->waits, waits, 0.99),
                .service_us_p50 = percentile_us(&n->services, services, 0.5),
                .service_us_p99 = percentile_us(&n->services, services, 0.99),
                .concurrency = c->limits.concurrency,
                .rate = above_zero(c->limits.rate),
                .time_budget_ms = c->limits.budget_ns / NS_PER_MS,
                .wait_ms = c->limits.wait_ns / NS_PER_MS,
                .last_ms = k ? k->last_ms : 0,
        };
}

/* ---- doors ---- */

struct telling {
        size_t door;
        struct told_classes classes;
};

static void tell_classes(struct reply *reply, const struct reply_items *items)
{
        const struct telling *t = items->of;
        for (size_t i = 0; i < t->classes.n; i++) {
                char rate[RATE_TEXT];
                struct told_verdict now;
                struct proxy_class_reply row =
                        class_row(items->core, t->door, &t->classes.classes[i], &now, rate);
                reply_proxy_class(reply, &row);
        }
}

static struct proxy_row_reply door_row(const struct core *core, size_t door,
                                       const struct class_counts *sum, struct traffic_door *state)
{
        const struct traffic *t = core->traffic;
        const struct door *d = &t->doors[door];
        const struct admission_state *a = &state->admission;
        *state = (struct traffic_door){.admission = {.server = NAN, .server_most = NAN}};
        if (t->has_threads)
                t->threads.state(t->threads.ctx, door, state);
        const char *learning = admission_state_learning(a);
        return (struct proxy_row_reply){
                .name = d->name,
                .target = d->target,
                .mode = mode_name(traffic_mode(core, door)),
                .level = level_name(door_level(core, d)),
                .listens = state->listens,
                .server = state->server,
                .problem = state->problem,
                .connections = state->connections,
                .connections_max = state->connections_max,
                .in_transaction = state->in_transaction,
                .with_locks = state->with_locks,
                .blind = state->blind,
                .running = a->running,
                .waiting = a->waiting,
                .window = a->window,
                .executing = a->executing,
                .excess = a->excess,
                .learned = a->is_learned,
                .over = a->is_over,
                .why = learning && !a->is_over ? learning : a->why,
                .slowdown = above_zero(a->slowdown),
                .slow_percent = 100 * a->slow_share,
                .server_running = a->server,
                .server_usual = a->server_most,
                .concurrency = a->concurrency,
                .draining = state->is_draining,
                .accepted = (int64_t)state->accepted,
                .refused_connections = (int64_t)state->refused,
                .transactions = (int64_t)sum->transactions,
                .statements = (int64_t)sum->statements,
                .held = (int64_t)sum->held,
                .refused = (int64_t)sum->refused,
                .left = (int64_t)sum->left,
                .observed = (int64_t)sum->observed,
                .busy_ms = (int64_t)(sum->busy_ns / NS_PER_MS),
                .bytes_in = (int64_t)state->bytes_in,
                .bytes_out = (int64_t)state->bytes_out,
        };
}

static void tell_doors(struct reply *reply, const struct reply_items *items)
{
        for (size_t i = 0; i < items->core->traffic->n; i++) {
                struct told_classes classes;
                struct traffic_door state;
                traffic_copy_classes(items->core, i, 0, &classes);
                struct proxy_row_reply row = door_row(items->core, i, &classes.sum, &state);
                reply_proxy_row(reply, &row);
        }
}

int exec_proxies(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        (void)cmd;     /* it takes no arguments */
        (void)problem; /* cannot fail */
        const struct proxies_reply told = {.proxies = {core->traffic->n, tell_doors, core, NULL}};
        reply_proxies(reply, &told);
        return OK;
}

/* ---- the series ---- */

/* One number of each point, the oldest first; `of` points to its place in the newest. */
struct told_series {
        const struct door *door;
        size_t offset;
};

static void tell_numbers(struct reply *reply, const struct reply_items *items)
{
        const struct told_series *s = items->of;
        const struct door *d = s->door;
        for (size_t i = 0; i < items->n; i++) {
                uint64_t second = (uint64_t)d->second - items->n + 1 + i;
                const struct traffic_point *p = &d->series[second % TRAFFIC_SERIES_S];
                reply_int(reply, *(const uint32_t *)((const char *)p + s->offset));
        }
}

int exec_proxy(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        struct telling t;
        int r = need_door(core, cmd->arg[P_PROXY_NAME].text, &t.door, problem);
        if (r != OK)
                return r;
        const struct door *d = door_at(core, t.door);
        struct traffic_door state;
        size_t n = d->n_ticks < TRAFFIC_SERIES_S ? d->n_ticks : TRAFFIC_SERIES_S;
#define SERIES(name)                                                                               \
        {                                                                                          \
                d, offsetof(struct traffic_point, name)                                            \
        }
        const struct told_series series[] = {SERIES(held_ms), SERIES(waiting), SERIES(running),
                                             SERIES(transactions), SERIES(busy_ms)};
#undef SERIES
        const struct proxy_series_reply told_series = {
                .step_ms = MS_PER_S,
                .held_ms = {n, tell_numbers, core, &series[0]},
                .waiting = {n, tell_numbers, core, &series[1]},
                .running = {n, tell_numbers, core, &series[2]},
                .transactions = {n, tell_numbers, core, &series[3]},
                .busy_ms = {n, tell_numbers, core, &series[4]},
        };
        traffic_copy_classes(core, t.door, ADMIT_CLASSES_MAX, &t.classes);
        const struct proxy_reply told = {
                .row = door_row(core, t.door, &t.classes.sum, &state),
                .series = &told_series,
                .classes = {t.classes.n, tell_classes, core, &t},
        };
        reply_proxy(reply, &told);
        told_classes_release(&t.classes);
        return OK;
}

int exec_proxyclasses(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        struct telling t;
        int r = need_door(core, cmd->arg[P_PROXYCLASSES_NAME].text, &t.door, problem);
        if (r != OK)
                return r;
        traffic_copy_classes(core, t.door, ADMIT_CLASSES_MAX, &t.classes);
        const struct proxy_classes_reply told = {{t.classes.n, tell_classes, core, &t}};
        reply_proxy_classes(reply, &told);
        told_classes_release(&t.classes);
        return OK;
}

/* ---- clients ---- */

struct told_clients {
        size_t door;
        struct traffic_client *clients;
        size_t n;
};

static const char *class_name(const struct core *core, size_t door, uint32_t number)
{
        const struct known_class *k = number == NO_CLASS ? NULL : known_of(core, door, number);
        return k ? k->class.identity : "";
}

/* Why a client waits: its class tells it; the threads do when it is refused. */
static void put_client_why(const struct core *core, size_t door, const struct traffic_client *c,
                           char ret[WHY_TEXT])
{
        const struct known_class *k =
                c->class_number == NO_CLASS ? NULL : known_of(core, door, c->class_number);
        const char *why = c->why;
        struct told_verdict now;
        if (c->state == TRAFFIC_HELD && !why[0] && k) {
                now = verdict_of(&k->verdicts, MODE_ENFORCE);
                why = strcmp(now.verdict, "wait") == 0 ? now.why : check_reason_text(CHECK_LIMIT);
        }
        (void)snprintf(ret, WHY_TEXT, "%s", why);
}

static void tell_clients(struct reply *reply, const struct reply_items *items)
{
        const struct told_clients *t = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct traffic_client *c = &t->clients[i];
                char why[WHY_TEXT];
                put_client_why(items->core, t->door, c, why);
                const struct proxy_client_reply told = {
                        .id = c->thread_id,
                        .state = traffic_state_name(c->state),
                        .state_ms = c->state_ns / NS_PER_MS,
                        .connected_ms = c->connected_ns / NS_PER_MS,
                        .class = class_name(items->core, t->door, c->class_number),
                        .user = c->user,
                        .database = c->database,
                        .program = c->program,
                        .address = c->address,
                        .has_locks = c->has_locks,
                        .statements = (int64_t)c->statements,
                        .transactions = (int64_t)c->transactions,
                        .why = why,
                        .text = c->text,
                };
                reply_proxy_client(reply, &told);
        }
}

/* Those that wait come first, then those at work. */
static int client_rank(const struct traffic_client *c)
{
        static const int ranks[TRAFFIC_STATES] = {
                [TRAFFIC_HELD] = 0,  [TRAFFIC_RUNNING] = 1, [TRAFFIC_OPEN] = 2,
                [TRAFFIC_LOGIN] = 3, [TRAFFIC_BLIND] = 4,   [TRAFFIC_IDLE] = 5};
        return ranks[c->state];
}

static int by_state(const void *a, const void *b)
{
        const struct traffic_client *x = a, *y = b;
        if (client_rank(x) != client_rank(y))
                return client_rank(x) - client_rank(y);
        return (x->state_ns < y->state_ns) - (x->state_ns > y->state_ns);
}

static bool is_wanted(const struct core *core, size_t door, const struct command *cmd,
                      const struct traffic_client *c)
{
        const struct arg *state = &cmd->arg[P_PROXYCLIENTS_STATE];
        const struct arg *class = &cmd->arg[P_PROXYCLIENTS_CLASS];
        if (state->is_set && state->num != (int64_t)c->state)
                return false;
        return !class->is_set ||
               slice_eq(class->text, slice_str(class_name(core, door, c->class_number)));
}

int exec_proxyclients(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        struct told_clients t = {0};
        const struct arg *limit = &cmd->arg[P_PROXYCLIENTS_LIMIT];
        const struct traffic *all = core->traffic;
        size_t max = limit->is_set ? (size_t)limit->num : CLIENTS_USUAL, n = 0;
        bool has_more = false;
        int r = need_door(core, cmd->arg[P_PROXYCLIENTS_NAME].text, &t.door, problem);
        if (r != OK)
                return r;
        t.clients = xcalloc(CLIENTS_LOOKED_AT, sizeof(*t.clients));
        if (all->has_threads)
                t.n = all->threads.clients(all->threads.ctx, t.door, t.clients, CLIENTS_LOOKED_AT,
                                           &has_more);
        for (size_t i = 0; i < t.n; i++)
                if (is_wanted(core, t.door, cmd, &t.clients[i]))
                        t.clients[n++] = t.clients[i];
        qsort(t.clients, n, sizeof(*t.clients), by_state);
        const struct proxy_clients_reply told = {
                .clients = {n < max ? n : max, tell_clients, core, &t},
                .more = has_more || n > max,
        };
        reply_proxy_clients(reply, &told);
        free(t.clients);
        return OK;
}

/* ---- statements ---- */

struct told_statements {
        size_t door;
        struct traffic_statement *statements;
};

static const char *digest_text(uint64_t digest, char ret[DIGEST_TEXT])
{
        (void)snprintf(ret, DIGEST_TEXT, "%016llx", (unsigned long long)digest);
        return ret;
}

static void tell_statements(struct reply *reply, const struct reply_items *items)
{
        const struct told_statements *t = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct traffic_statement *s = &t->statements[i];
                char digest[DIGEST_TEXT];
                const struct proxy_statement_reply told = {
                        .digest = digest_text(s->digest, digest),
                        .text = s->text,
                        .class = class_name(items->core, t->door, s->class_number),
                        .count = (int64_t)s->count,
                        .errors = (int64_t)s->errors,
                        .rows = (int64_t)s->rows,
                        .held = (int64_t)s->held,
                        .busy_ms = s->busy_ns / NS_PER_MS,
                        .mean_us = s->count ? s->busy_ns / (int64_t)s->count / 1000 : 0,
                        .max_us = s->max_ns / 1000,
                        .held_ms = s->held_ns / NS_PER_MS,
                };
                reply_proxy_statement(reply, &told);
        }
}

int exec_proxytop(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        struct told_statements t = {0};
        const struct traffic *all = core->traffic;
        const struct arg *limit = &cmd->arg[P_PROXYTOP_LIMIT], *sort = &cmd->arg[P_PROXYTOP_SORT];
        size_t max = limit->is_set ? (size_t)limit->num : STATEMENTS_USUAL, n = 0;
        enum traffic_order order = sort->is_set ? (enum traffic_order)sort->num : TRAFFIC_BY_TIME;
        int r = need_door(core, cmd->arg[P_PROXYTOP_NAME].text, &t.door, problem);
        if (r != OK)
                return r;
        t.statements = xcalloc(max, sizeof(*t.statements));
        if (all->has_threads)
                n = all->threads.statements(all->threads.ctx, t.door, order, t.statements, max);
        const struct proxy_statements_reply told = {{n, tell_statements, core, &t}};
        reply_proxy_statements(reply, &told);
        free(t.statements);
        return OK;
}

/* ---- explain ---- */

/* What the gate says of a class that may not be there yet. */
static void explain_verdict(struct core *core, size_t door, const struct traffic_class *c,
                            struct class_verdicts *ret)
{
        struct known_class k = {.class = *c};
        struct problem unused;
        throttle_refresh(core);
        *ret = (struct class_verdicts){.tier = TIER_NORMAL};
        if (identity_parse(slice_str(k.class.identity), &k.who, &unused) != OK)
                return;
        const struct check_subject s = {.who = k.who,
                                        .target = door_target(core, door_at(core, door)),
                                        .tier = known_tier(core, &k)};
        check_freeze(core, &s, ret);
}

/* Why it does not wait for load; NULL: it does. */
static const char *why_load_is_nothing(const struct traffic_explained *e,
                                       const struct class_verdicts *v)
{
        bool is_exempt = v->verdict[2].is_granted && v->verdict[2].reason == CHECK_EXEMPT;
        if (!e->how.can_wait)
                return "never waits";
        if (v->tier == TIER_CRITICAL || is_exempt)
                return "never waits for load";
        bool has_begun = v->tier == TIER_DEFERRABLE && e->admission.is_server_known;
        return has_begun ? NULL : admission_state_learning(&e->admission);
}

/* What the law of load would say of it now. */
static void explain_load(const struct traffic_explained *e, const struct class_verdicts *v,
                         struct told_verdict *now, char ret[WHY_TEXT])
{
        const struct admission_state *a = &e->admission;
        const struct class_view *c = &e->view;
        const char *why_not = why_load_is_nothing(e, v);
        char usual[64] = "it has no usual yet";
        if (why_not) {
                (void)snprintf(ret, WHY_TEXT, "%s", why_not);
                return;
        }
        if (v->tier == TIER_DEFERRABLE)
                (void)snprintf(usual, sizeof(usual), "deferrable work has no usual");
        else if (e->is_seen && c->free)
                (void)snprintf(usual, sizeof(usual), "%u may at once", c->free);
        bool is_usual = e->is_seen && c->executing < c->free;
        bool is_full = !is_usual && a->excess >= a->window && e->is_seen && c->executing;
        (void)snprintf(ret, WHY_TEXT, "%u of its class execute, %s; window: %u of %u",
                       e->is_seen ? c->executing : 0, usual, a->excess, a->window);
        if (!is_full || strcmp(now->verdict, "run") != 0)
                return;
        *now = (struct told_verdict){e->limits.mode == MODE_ENFORCE ? "wait" : "observe",
                                     admit_reason_name(ADMIT_BY_LOAD), ""};
        (void)snprintf(now->why, sizeof(now->why), "%s", admit_reason_text(ADMIT_BY_LOAD));
}

int exec_proxyexplain(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        const struct arg *arg = cmd->arg;
        const struct traffic *t = core->traffic;
        struct traffic_explained e = {0};
        struct class_verdicts v;
        size_t door;
        char digest[DIGEST_TEXT];
        int r = need_door(core, arg[P_PROXYEXPLAIN_NAME].text, &door, problem);
        if (r == OK)
                r = need_threads(core, problem);
        if (r != OK)
                return r;
        const struct class_facts facts = {.user = arg[P_PROXYEXPLAIN_USER].text,
                                          .database = arg[P_PROXYEXPLAIN_DATABASE].text,
                                          .program = arg[P_PROXYEXPLAIN_PROGRAM].text,
                                          .address = arg[P_PROXYEXPLAIN_ADDRESS].text,
                                          .kind = SQL_KINDS};
        t->threads.explain(t->threads.ctx, door, &facts, arg[P_PROXYEXPLAIN_SQL].text, &e);
        explain_verdict(core, door, &e.class, &v);
        struct told_verdict now = verdict_of(&v, e.limits.mode);
        if (!e.how.can_wait)
                now = (struct told_verdict){"run", check_reason_name(CHECK_GRANTED), ""};
        char load[WHY_TEXT];
        explain_load(&e, &v, &now, load);
        const struct proxy_explained_reply told = {
                .class = e.class.identity,
                .row = e.class.row,
                .tier = tier_name(v.tier),
                .mode = mode_name(e.limits.mode),
                .kind = sql_kind_name(e.how.kind),
                .can_wait = e.how.can_wait,
                .identity_from = class_source_text(e.how.source),
                .digest = digest_text(e.how.digest, digest),
                .digest_text = e.how.digest_text,
                .verdict = now.verdict,
                .reason = now.reason,
                .why = now.why,
                .rule = v.rule,
                .load = load,
                .concurrency = e.limits.concurrency,
                .rate = above_zero(e.limits.rate),
                .time_budget_ms = e.limits.budget_ns / NS_PER_MS,
                .wait_ms = e.limits.wait_ns / NS_PER_MS,
        };
        reply_proxy_explained(reply, &told);
        return OK;
}

/* ---- drain ---- */

int exec_proxydrain(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)session; /* answers at once */
        const struct traffic *t = core->traffic;
        bool is_on = cmd->arg[P_PROXYDRAIN_ON].is_set && cmd->arg[P_PROXYDRAIN_ON].num;
        size_t door;
        int r = need_door(core, cmd->arg[P_PROXYDRAIN_NAME].text, &door, problem);
        if (r == OK)
                r = need_threads(core, problem);
        if (r != OK)
                return r;
        t->threads.drain(t->threads.ctx, door, is_on);
        throttle_tell(core, is_on ? "proxy_drains" : "proxy_undrained", "%s", t->doors[door].name);
        reply_ok(reply);
        return OK;
}
