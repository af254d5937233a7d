/* Rate limits: for clients that take, for jobs that start.
 *
 * Every take is decided on the loop thread with the time that its batch records, and is on disk
 * before the client hears of it.  So there is no window between reading and writing in which two
 * could take the last one, and none after a crash either.
 *
 * A client or job that cannot be served now waits in one of three places, and the thing's one alarm
 * wakes it:
 *   asks            clients that take with WAIT, in the order they came.  While one of them waits,
 *                   no other take is granted: a small one must not overtake a large one for ever.
 *   thing.waiting   jobs that carry the limit or whose hook it is; best job first.  As many are let
 *                   go as could start.  A job let go that is not started (no worker is free, it was
 *                   canceled) would keep its place for nothing, so a second later others may try.
 *   is_wanted       a job was, or is about to be, put aside, or claims passed over a queue, whose
 *                   waiting claims are then served again.
 *
 * A limit made by a TAKE is forgotten when it is idle: a new one would answer the same. */
#include "things/limit.h"

#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/say.h"
#include "core/kernel.h"
#include "state/limit.h"
#include "things/scope.h"

/* A take in the log: record header, name and a few bytes. */
#define TAKE_BYTES 512
/* Jobs let go per turn, so that one turn stays short. */
#define SERVE_STEPS 2000

struct take_wait {
        struct session_wait base;
        struct list link; /* on limit->asks */
        struct rate_limit *limit;
        uint64_t cost;
};

static const struct wait_ops take_wait_ops;

static struct take_wait *take_of(struct session_wait *w)
{
        return CONTAINER_OF(w, struct take_wait, base);
}

static int64_t ms_up(int64_t ns)
{
        return ns / NS_PER_MS + (ns % NS_PER_MS != 0);
}

/* ---- changes ---- */

static void note_take(struct core *core, struct rate_limit *l, uint64_t n)
{
        buf_clear(&core->body);
        limit_put_take(&core->body, n);
        thing_note(core, &l->thing, buf_slice(&core->body));
}

/* Sets the rule of a limit, made when it is missing; `l` may be NULL. */
static int set_rule(struct core *core, struct slice name, struct rate_limit *l,
                    const struct bucket_rule *rule, bool is_passing, struct problem *problem)
{
        struct bucket bucket;
        if (!l && core->state.things[THING_LIMIT].len >= LIMIT_RATE_LIMITS)
                return problem_set(problem, ERR_LIMIT, "there are %d rate limits already",
                                   LIMIT_RATE_LIMITS);
        int r = core_admit(core, TAKE_BYTES, 0, problem);
        if (r != OK)
                return r;
        buf_clear(&core->body);
        bucket_init(&bucket, rule);
        if (l) { /* the usage goes along: a copy by way of its bytes */
                bucket_pack(&l->bucket, &core->body);
                struct slice packed = buf_slice(&core->body);
                bucket_release(&bucket);
                bool is_read = bucket_unpack(&bucket, &packed);
                ASSERT(is_read);
                bucket_set_rule(&bucket, rule, core->now.steady_ns);
                buf_clear(&core->body);
        }
        limit_put(is_passing, &bucket, &core->body);
        bucket_release(&bucket);
        return thing_try_set(core, THING_LIMIT, name, buf_slice(&core->body), problem);
}

/* ---- who waits ---- */

static void tell_take(struct reply *reply, const struct core *core, const struct rate_limit *l,
                      bool is_granted, int64_t wait_ns)
{
        const struct limit_taken_reply told = {
                .granted = is_granted,
                .left = (int64_t)bucket_left(&l->bucket, core->now.steady_ns),
                .retry_ms = is_granted ? 0 : ms_up(wait_ns),
        };
        reply_limit_taken(reply, &told);
}

/* How long a take of `cost` behind all who ask would wait: as if they were one, up to the
 * capacity. */
static int64_t line_wait_ns(const struct core *core, const struct rate_limit *l, uint64_t cost)
{
        uint64_t capacity = bucket_capacity(&l->bucket), sum = cost;
        LIST_FOREACH(&l->asks, it)
        {
                sum += CONTAINER_OF(it, struct take_wait, link)->cost;
                if (sum >= capacity)
                        break;
        }
        return bucket_wait(&l->bucket, sum < capacity ? sum : capacity, core->now.steady_ns);
}

/* Out of the line; `w` is the caller's to answer and free. */
static void leave_line(struct take_wait *w)
{
        struct rate_limit *l = w->limit;
        list_remove(&w->link);
        struct list *front = list_peek_front(&l->asks);
        l->front_cost = front ? CONTAINER_OF(front, struct take_wait, link)->cost : 0;
}

/* Ends a wait with an answer; `problem` when it cannot be granted any more. */
static void answer(struct core *core, struct take_wait *w, bool is_granted,
                   const struct problem *problem)
{
        struct session *session = w->base.session;
        leave_line(w);
        wait_end(core, &w->base);
        struct reply *reply = session->ops->reply_begin(session);
        if (problem)
                reply_error(reply, problem);
        else
                tell_take(reply, core, w->limit, is_granted, line_wait_ns(core, w->limit, w->cost));
        free(w);
        session->ops->reply_end(session);
}

static void take_time_over(struct core *core, struct session_wait *base)
{
        struct take_wait *w = take_of(base);
        struct rate_limit *l = w->limit;
        answer(core, w, false, NULL);
        limit_arm(&core->state, l, core->now.steady_ns);
}

static void take_cancel(struct core *core, struct session_wait *base)
{
        struct take_wait *w = take_of(base);
        struct rate_limit *l = w->limit;
        leave_line(w);
        wait_end(core, base);
        free(w);
        limit_arm(&core->state, l, core->now.steady_ns);
}

static const struct wait_ops take_wait_ops = {take_time_over, take_cancel};

static int wait_in_line(struct core *core, struct session *session, struct rate_limit *l,
                        uint64_t cost, int64_t wait_ms)
{
        struct take_wait *w = xmalloc(sizeof(*w));
        w->limit = l;
        w->cost = cost;
        wait_begin(core, &w->base, &take_wait_ops, session);
        if (list_is_empty(&l->asks))
                l->front_cost = cost;
        list_push_back(&l->asks, &w->link);
        wait_until(core, &w->base, core->now.steady_ns + wait_ms * NS_PER_MS);
        limit_arm(&core->state, l, core->now.steady_ns);
        return CORE_LATER;
}

static int too_costly(const struct bucket *b, uint64_t cost, struct problem *problem)
{
        return problem_set(problem, ERR_BADARG,
                           "cost is %llu, but the limit never holds more than %llu",
                           (unsigned long long)cost, (unsigned long long)bucket_capacity(b));
}

static void serve_asks(struct core *core, struct rate_limit *l)
{
        for (struct list *it; (it = list_peek_front(&l->asks));) {
                struct take_wait *w = CONTAINER_OF(it, struct take_wait, link);
                struct problem problem;
                int64_t wait_ns = bucket_wait(&l->bucket, w->cost, core->now.steady_ns);
                if (wait_ns == BUCKET_NEVER) { /* a stricter rule came meanwhile */
                        (void)too_costly(&l->bucket, w->cost, &problem);
                        answer(core, w, false, &problem);
                        continue;
                }
                if (wait_ns > 0)
                        return;
                note_take(core, l, w->cost);
                answer(core, w, true, NULL);
        }
}

/* The queue whose starts it limits; NULL when there is none. */
static struct queue *queue_of(const struct core *core, const struct rate_limit *l)
{
        return l->scope == LIMIT_OF_QUEUE
                       ? scope_queue(core, &l->thing, SLICE_LIT(LIMIT_QUEUE_PREFIX))
                       : NULL;
}

static void serve_jobs(struct core *core, struct rate_limit *l)
{
        uint64_t left = bucket_left(&l->bucket, core->now.steady_ns);
        if (!left)
                return;
        if (l->n_let >= left) /* they had their time */
                l->n_let = 0;
        uint64_t n = left - l->n_let;
        l->n_let += state_unblock(&core->state, &l->thing, n < SERVE_STEPS ? n : SERVE_STEPS);
        if (!l->is_wanted)
                return;
        l->is_wanted = false;
        scope_wake(core, queue_of(core, l));
}

static void serve(struct core *core, struct rate_limit *l)
{
        serve_asks(core, l);
        if (list_is_empty(&l->asks))
                serve_jobs(core, l);
        limit_arm(&core->state, l, core->now.steady_ns);
}

void limit_due(struct core *core, struct thing *t)
{
        struct rate_limit *l = limit_of(t);
        bool is_idle = bucket_is_idle(&l->bucket, core->now.steady_ns);
        if (l->is_passing && is_idle && list_is_empty(&l->asks) && !t->waiting.len)
                thing_gone(core, t);
        else
                serve(core, l);
}

/* ---- starts of jobs ---- */

static bool is_blocking(const struct core *core, const struct rate_limit *l)
{
        return !list_is_empty(&l->asks) || bucket_wait(&l->bucket, 1, core->now.steady_ns) > 0;
}

static struct rate_limit *limit_or_null(struct thing *t)
{
        return t ? limit_of(t) : NULL;
}

static struct rate_limit *find(const struct core *core, struct slice name)
{
        return limit_or_null(thing_find(&core->state, THING_LIMIT, name));
}

static struct rate_limit *find_of_queue(const struct core *core, const struct queue *queue)
{
        if (!core->state.n_queue_limits)
                return NULL;
        return limit_or_null(scope_find(core, THING_LIMIT, SLICE_LIT(LIMIT_QUEUE_PREFIX),
                                        name_slice(queue->name)));
}

static struct rate_limit *find_of_hook(const struct core *core, const struct job *job)
{
        if (!core->state.n_hook_limits)
                return NULL;
        return limit_or_null(
                scope_find(core, THING_LIMIT, SLICE_LIT(LIMIT_HOOK_PREFIX), name_slice(job->hook)));
}

static struct rate_limit *find_of_option(const struct core *core, const struct job *job)
{
        struct slice name = job->extra ? job->extra->options.limit : SLICE_NONE;
        return name.len ? find(core, name) : NULL;
}

void limit_want(struct core *core, struct thing *t)
{
        struct rate_limit *l = limit_of(t);
        l->is_wanted = true;
        limit_arm(&core->state, l, core->now.steady_ns);
}

struct thing *limit_of_queue(struct core *core, const struct queue *queue)
{
        struct rate_limit *l = find_of_queue(core, queue);
        if (!l || !is_blocking(core, l))
                return NULL;
        if (!l->is_wanted)
                limit_want(core, &l->thing);
        return &l->thing;
}

struct thing *limit_block(struct core *core, const struct job *job)
{
        struct rate_limit *hook = find_of_hook(core, job), *option = find_of_option(core, job);
        if (hook && is_blocking(core, hook))
                return &hook->thing;
        return option && is_blocking(core, option) ? &option->thing : NULL;
}

void limit_start(struct core *core, const struct job *job)
{
        struct rate_limit *queue = find_of_queue(core, job->queue);
        struct rate_limit *hook = find_of_hook(core, job), *option = find_of_option(core, job);
        struct rate_limit *const limits[] = {
                queue, hook,
                option == queue || option == hook ? NULL : option, /* one start takes once */
        };
        for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
                struct rate_limit *l = limits[i];
                if (!l)
                        continue;
                if (l->n_let)
                        l->n_let--;
                note_take(core, l, 1);
        }
}

int64_t limit_wait_ns(const struct core *core, struct thing *t)
{
        return line_wait_ns(core, limit_of(t), 1);
}

/* ---- commands ---- */

static int no_limit(struct slice name, struct problem *problem)
{
        return problem_set(problem, ERR_NOTFOUND, "there is no rate limit '%.*s'", (int)name.len,
                           name.ptr);
}

/* From the four parameters that LIMIT and TAKE share, the first of them at `args`. */
static int read_rule(const struct arg *args, struct bucket_rule *ret, struct problem *problem)
{
        const struct arg *kind = &args[2], *burst = &args[3];
        bool is_tokens = kind->is_set && kind->num == 1;
        if (burst->is_set && !is_tokens)
                return problem_set(problem, ERR_BADARG, "burst goes with kind tokens only");
        *ret = (struct bucket_rule){
                .kind = is_tokens ? BUCKET_TOKENS : BUCKET_WINDOW,
                .amount = (uint64_t)args[0].num,
                .period_ms = args[1].num,
                .burst = is_tokens ? (uint64_t)(burst->is_set ? burst->num : args[0].num) : 0,
        };
        return bucket_rule_check(ret, problem);
}

int exec_limit(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may set one */
        struct slice name = cmd->arg[P_LIMIT_NAME].text;
        struct bucket_rule rule;
        int r = read_rule(&cmd->arg[P_LIMIT_AMOUNT], &rule, problem);
        if (r == OK)
                r = set_rule(core, name, find(core, name), &rule, false, problem);
        if (r != OK)
                return r;
        struct rate_limit *l = find(core, name);
        ASSERT(l);
        say_info("core", "rate limit set", "name", l->thing.name, "amount", SAY_I64(rule.amount),
                 "period_ms", SAY_I64(rule.period_ms));
        serve(core, l);
        reply_ok(reply);
        return OK;
}

int exec_unlimit(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may remove one */
        struct slice name = cmd->arg[P_UNLIMIT_NAME].text;
        struct rate_limit *l = find(core, name);
        struct problem gone;
        if (!l)
                return no_limit(name, problem);
        (void)problem_set(&gone, ERR_NOTFOUND, "the rate limit '%.*s' was removed", (int)name.len,
                          name.ptr);
        for (struct list *it; (it = list_peek_front(&l->asks));)
                answer(core, CONTAINER_OF(it, struct take_wait, link), false, &gone);
        say_info("core", "rate limit removed", "name", l->thing.name);
        struct queue *q = queue_of(core, l);
        thing_gone(core, &l->thing); /* lets its jobs go */
        scope_wake(core, q);
        reply_ok(reply);
        return OK;
}

/* Jobs that would start if it allowed more.  The limit of a queue is asked once for all of them, so
 * they stay in the queue. */
static int64_t n_waiting_jobs(const struct core *core, const struct rate_limit *l)
{
        const struct queue *q = is_blocking(core, l) ? queue_of(core, l) : NULL;
        return (int64_t)(l->thing.waiting.len + (q ? q->n_ready : 0));
}

static void tell_usage(const struct core *core, struct rate_limit *l, struct reply *reply)
{
        const struct bucket *b = &l->bucket;
        int64_t now_ns = core->now.steady_ns;
        size_t asking = 0;
        LIST_FOREACH(&l->asks, it)
        asking++;
        const struct limit_usage_reply told = {
                .name = thing_name(&l->thing),
                .kind = b->rule.kind == BUCKET_TOKENS ? "tokens" : "window",
                .passing = l->is_passing,
                .amount = (int64_t)b->rule.amount,
                .period_ms = b->rule.period_ms,
                .burst = (int64_t)b->rule.burst,
                .used = (int64_t)bucket_used(b, now_ns),
                .left = (int64_t)bucket_left(b, now_ns),
                .retry_ms = ms_up(line_wait_ns(core, l, 1)),
                .reset_ms = ms_up(bucket_idle_wait(b, now_ns)),
                .waiting_jobs = n_waiting_jobs(core, l),
                .waiting_clients = (int64_t)asking,
        };
        reply_limit_usage(reply, &told);
}

int exec_usage(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        struct slice name = cmd->arg[P_USAGE_NAME].text;
        struct rate_limit *l = find(core, name);
        if (!l)
                return no_limit(name, problem);
        tell_usage(core, l, reply);
        return OK;
}

static void tell_sorted(struct reply *reply, const struct reply_items *items)
{
        struct thing *const *sorted = items->of;
        for (size_t i = 0; i < items->n; i++)
                tell_usage(items->core, limit_of(sorted[i]), reply);
}

int exec_limits(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        size_t n;
        struct thing **sorted = scope_sorted(core, THING_LIMIT, &n);
        const struct limits_reply told = {{n, tell_sorted, core, sorted}};
        reply_limits(reply, &told);
        free(sorted);
        return OK;
}

int exec_resetlimit(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may reset */
        struct slice name = cmd->arg[P_RESETLIMIT_NAME].text;
        struct rate_limit *l = find(core, name);
        if (!l)
                return no_limit(name, problem);
        buf_clear(&core->body);
        limit_put_reset(&core->body);
        thing_note(core, &l->thing, buf_slice(&core->body));
        say_info("core", "rate limit reset", "name", l->thing.name);
        serve(core, l);
        reply_ok(reply);
        return OK;
}

static bool is_rule_eq(const struct bucket_rule *a, const struct bucket_rule *b)
{
        return a->kind == b->kind && a->amount == b->amount && a->period_ms == b->period_ms &&
               a->burst == b->burst;
}

/* The limit that a TAKE names; one made by a TAKE follows what the last TAKE said. */
static int limit_for_take(struct core *core, const struct command *cmd, uint64_t cost,
                          struct rate_limit **ret, struct problem *problem)
{
        const struct arg *amount = &cmd->arg[P_TAKE_AMOUNT], *period = &cmd->arg[P_TAKE_PERIOD];
        struct slice name = cmd->arg[P_TAKE_NAME].text;
        struct rate_limit *l = *ret = find(core, name);
        struct bucket_rule rule;
        if (amount->is_set != period->is_set ||
            (!amount->is_set && (cmd->arg[P_TAKE_KIND].is_set || cmd->arg[P_TAKE_BURST].is_set)))
                return problem_set(problem, ERR_BADARG,
                                   "amount and period go together; kind and burst with them");
        if (!amount->is_set)
                return l ? OK
                         : problem_set(problem, ERR_NOTFOUND,
                                       "there is no rate limit '%.*s'; an amount and its period "
                                       "would make one",
                                       (int)name.len, name.ptr);
        int r = read_rule(amount, &rule, problem);
        if (r != OK || (l && (!l->is_passing || is_rule_eq(&rule, &l->bucket.rule))))
                return r; /* what was set by LIMIT stays as it was set */
        if (!l && limit_scope_of(name) != LIMIT_NAMED)
                return problem_set(problem, ERR_BADARG,
                                   "a name with queue: or hook: holds for jobs: LIMIT sets it");
        struct bucket asked; /* as it will be, to refuse before anything is changed */
        bucket_init(&asked, &rule);
        if (cost > bucket_capacity(&asked))
                return too_costly(&asked, cost, problem);
        r = set_rule(core, name, l, &rule, true, problem);
        if (r != OK)
                return r;
        *ret = find(core, name);
        ASSERT(*ret);
        serve(core, *ret); /* the new rule may let somebody go */
        return OK;
}

int exec_take(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem)
{
        const struct arg *arg = cmd->arg;
        uint64_t cost = arg[P_TAKE_COST].is_set ? (uint64_t)arg[P_TAKE_COST].num : 1;
        struct rate_limit *l;
        int r = limit_for_take(core, cmd, cost, &l, problem);
        if (r == OK && cost > bucket_capacity(&l->bucket))
                r = too_costly(&l->bucket, cost, problem);
        if (r == OK)
                r = core_admit(core, TAKE_BYTES, 0, problem);
        if (r != OK)
                return r;
        int64_t wait_ns = line_wait_ns(core, l, cost);
        bool is_granted = wait_ns == 0 && list_is_empty(&l->asks);
        if (!is_granted && arg[P_TAKE_WAIT].num && !core->is_stopping)
                return wait_in_line(core, session, l, cost, arg[P_TAKE_WAIT].num);
        if (is_granted)
                note_take(core, l, cost);
        tell_take(reply, core, l, is_granted, wait_ns);
        return OK;
}
