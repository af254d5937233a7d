/* Queues as people see them: listed, paused, resumed, set, removed. */
#include "jobs/queues.h"

#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/plural.h"
#include "jobs/keeping.h"
#include "state/backoff.h"

static void stat_of(const struct queue *q, struct queue_stat *ret)
{
        *ret = (struct queue_stat){
                .name = name_slice(q->name),
                .is_paused = q->is_paused,
                .ready = q->n_ready,
                .scheduled = q->n_scheduled,
                .waiting = q->n_waiting,
                .parked = q->n_parked,
                .returning = q->n_returning,
                .running = q->n_running,
                .enqueued = q->enqueued,
                .completed = q->completed,
                .failed = q->failed,
                .canceled = q->canceled,
        };
        const struct job *first = queue_first(q);
        if (first)
                ret->oldest_due_ms = first->due_ms;
}

/* A queue that only a waiting worker has named so far is nobody else's business. */
static bool is_known(const struct queue *q)
{
        return list_is_linked(&q->live.link);
}

static int by_name(const void *a, const void *b)
{
        const struct queue *const *x = a, *const *y = b;
        return slice_cmp(name_slice((*x)->name), name_slice((*y)->name));
}

void core_each_queue(const struct core *core, void (*fn)(void *ctx, const struct queue_stat *),
                     void *ctx)
{
        const struct state *s = &core->state;
        struct queue **sorted = xcalloc(s->queues.len + 1, sizeof(struct queue *));
        size_t n = 0;
        for (struct hash_node *it = NULL; (it = hash_next(&s->queues, it));) {
                struct queue *q = CONTAINER_OF(it, struct queue, node);
                if (is_known(q))
                        sorted[n++] = q;
        }
        qsort(sorted, n, sizeof(struct queue *), by_name);
        for (size_t i = 0; i < n; i++) {
                struct queue_stat stat;
                stat_of(sorted[i], &stat);
                fn(ctx, &stat);
        }
        free(sorted);
}

static int not_found(struct slice name, struct problem *problem)
{
        return problem_set(problem, ERR_NOTFOUND, "there is no queue '%.*s'", (int)name.len,
                           name.ptr);
}

/* ---- room ---- */

static void forget(struct core *core, const struct queue *q)
{
        struct effect e = {.type = EFFECT_QUEUE_GONE, .queue = name_slice(q->name)};
        core_emit(core, &e);
}

/* Nobody would miss it: it has no jobs, and nothing was said about it. */
static bool is_idle(const struct queue *q)
{
        return queue_n_jobs(q) == 0 && list_is_empty(&q->waiters) && !q->is_paused &&
               buf_slice(&q->packed).len == 0;
}

static void forget_idle(struct core *core)
{
        const struct state *s = &core->state;
        for (struct hash_node *n = hash_next(&s->queues, NULL), *next; n; n = next) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                next = hash_next(&s->queues, n);
                if (is_idle(q))
                        forget(core, q);
        }
}

int queues_admit(struct core *core, size_t n_new, struct problem *problem)
{
        const struct state *s = &core->state;
        if (n_new == 0)
                return OK;
        if (state_n_queues(s) + n_new > LIMIT_QUEUES)
                forget_idle(core);
        if (state_n_queues(s) + n_new <= LIMIT_QUEUES)
                return OK;
        return problem_set(problem, ERR_LIMIT,
                           "there are %d queues already that have jobs or settings, are paused or "
                           "waited for",
                           LIMIT_QUEUES);
}

int queue_admit(struct core *core, struct slice name, struct problem *problem)
{
        return queues_admit(core, !state_queue_find(&core->state, name), problem);
}

/* ---- telling ---- */

static void count_queue(void *ctx, const struct queue_stat *stat)
{
        (void)stat; /* only how many there are */
        ++*(size_t *)ctx;
}

static struct queue_row_reply row_of(const struct queue_stat *q)
{
        return (struct queue_row_reply){
                .name = q->name,
                .paused = q->is_paused,
                .ready = (int64_t)q->ready,
                .scheduled = (int64_t)q->scheduled,
                .waiting = (int64_t)q->waiting,
                .running = (int64_t)q->running,
                .enqueued = (int64_t)q->enqueued,
                .completed = (int64_t)q->completed,
                .failed = (int64_t)q->failed,
                .canceled = (int64_t)q->canceled,
                .oldest_due_ms = q->oldest_due_ms,
        };
}

static void tell_queue(void *ctx, const struct queue_stat *q)
{
        const struct queue_row_reply told = row_of(q);
        reply_queue_row(ctx, &told);
}

static void tell_queues(struct reply *reply, const struct reply_items *items)
{
        core_each_queue(items->core, tell_queue, reply);
}

int exec_queues(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        size_t n = 0;
        core_each_queue(core, count_queue, &n);
        const struct queues_reply told = {{n, tell_queues, core, NULL}};
        reply_queues(reply, &told);
        return OK;
}

static int set_paused(struct core *core, const struct command *cmd, bool is_paused,
                      struct reply *reply, struct problem *problem)
{
        struct slice name = cmd->arg[P_PAUSE_QUEUE].text;
        const struct queue *q = state_queue_find(&core->state, name);
        bool must_exist = !is_paused || cmd->arg[P_PAUSE_EXISTING].num;
        if (must_exist && (!q || (is_paused && !is_known(q))))
                return not_found(name, problem);
        int r = queue_admit(core, name, problem);
        if (r != OK)
                return r;
        if (!q || q->is_paused != is_paused) {
                struct effect e = {
                        .type = EFFECT_QUEUE_SET,
                        .queue = name,
                        .queue_id = state_queue_get(&core->state, name)->id,
                        .is_paused = is_paused,
                        .options = q ? buf_slice(&q->packed) : SLICE_NONE,
                };
                core_emit(core, &e);
        }
        reply_ok(reply);
        return OK;
}

int exec_pause(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may pause */
        return set_paused(core, cmd, true, reply, problem);
}

int exec_resume(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may resume */
        return set_paused(core, cmd, false, reply, problem);
}

/* ---- settings ---- */

static const char *const history_names[] = {"default", "full", "failures", "none"};

struct backoff queue_backoff(const struct core *core, const struct queue *q)
{
        struct backoff backoff = {.kind = BACKOFF_NONE};
        struct slice packed = q->settings.backoff;
        if (!packed.len)
                return core->options.backoff ? *core->options.backoff : backoff;
        bool is_read = backoff_unpack(&backoff, &packed);
        ASSERT(is_read); /* checked when it was set */
        return backoff;
}

/* The settings with what the command names changed; `room` holds a backoff's bytes. */
static int change_settings(const struct command *cmd, struct queue_settings *s, struct buf *room,
                           struct problem *problem)
{
        const struct {
                size_t param;
                uint64_t *to;
        } numbers[] = {
                {P_QUEUESET_CAP, &s->cap},       {P_QUEUESET_CLAIMSIZE, &s->claim_size},
                {P_QUEUESET_CLAIMS, &s->claims}, {P_QUEUESET_LEASE, &s->lease_ms},
                {P_QUEUESET_FAIR, &s->fair},     {P_QUEUESET_HISTORY, &s->history},
        };
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                if (cmd->arg[numbers[i].param].is_set)
                        *numbers[i].to = (uint64_t)cmd->arg[numbers[i].param].num;
        if (s->lease_ms && s->lease_ms < LIMIT_LEASE_MIN_MS)
                return problem_set(problem, ERR_BADARG, "lease must be 0, or %d to %d",
                                   LIMIT_LEASE_MIN_MS, LIMIT_LEASE_MAX_MS);
        if (!cmd->arg[P_QUEUESET_BACKOFF].is_set)
                return OK;
        struct slice text = cmd->arg[P_QUEUESET_BACKOFF].text;
        struct backoff backoff;
        s->backoff = SLICE_NONE;
        if (slice_eq(text, SLICE_LIT("default")))
                return OK;
        int r = backoff_parse(text, &backoff, problem);
        if (r != OK)
                return r;
        backoff_pack(&backoff, room);
        s->backoff = buf_slice(room);
        return OK;
}

int exec_queueset(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may set it */
        struct slice name = cmd->arg[P_QUEUESET_QUEUE].text;
        const struct queue *q = state_queue_find(&core->state, name);
        struct queue_settings settings = q ? q->settings : (struct queue_settings){0};
        if (cmd->arg[P_QUEUESET_EXISTING].num && (!q || !is_known(q)))
                return not_found(name, problem);
        struct buf room;
        buf_init(&room, 0);
        int r = change_settings(cmd, &settings, &room, problem);
        if (r == OK)
                r = queue_admit(core, name, problem);
        if (r == OK && !(q && is_known(q))) /* else one record takes the place of another */
                r = core_admit(core, name.len + 256, 0, problem);
        if (r == OK) {
                buf_clear(&core->packed);
                queue_settings_pack(&settings, &core->packed);
                struct effect e = {
                        .type = EFFECT_QUEUE_SET,
                        .queue = name,
                        .queue_id = state_queue_get(&core->state, name)->id,
                        .is_paused = q && q->is_paused,
                        .options = buf_slice(&core->packed),
                };
                core_emit(core, &e);
                if (cmd->arg[P_QUEUESET_HISTORY].is_set)
                        core_history_changed(core);
                reply_ok(reply);
        }
        buf_release(&room);
        return r;
}

int exec_queue(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        struct slice name = cmd->arg[P_QUEUE_QUEUE].text;
        const struct queue *q = state_queue_find(&core->state, name);
        struct queue_stat stat;
        if (!q || !is_known(q))
                return not_found(name, problem);
        stat_of(q, &stat);
        const struct queue_settings *s = &q->settings;
        struct backoff backoff = queue_backoff(core, q);
        struct buf text;
        buf_init(&text, 0);
        backoff_to_text(&backoff, &text);
        const struct queue_reply told = {
                .row = row_of(&stat),
                .cap = (int64_t)s->cap,
                .claimsize = (int64_t)s->claim_size,
                .claims = (int64_t)s->claims,
                .lease = (int64_t)s->lease_ms,
                .fair = s->fair ? "on" : "off",
                .backoff = buf_slice(&text),
                .history = history_names[s->history],
        };
        reply_queue(reply, &told);
        buf_release(&text);
        return OK;
}

/* ---- removing ---- */

int exec_unqueue(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may remove it */
        struct slice name = cmd->arg[P_UNQUEUE_QUEUE].text;
        const struct queue *q = state_queue_find(&core->state, name);
        if (!q || !is_known(q))
                return not_found(name, problem);
        uint64_t n_open = queue_n_jobs(q) - q->n_finished;
        if (n_open)
                return problem_set(
                        problem, ERR_STATE, "queue '%.*s' has %llu %s", (int)name.len, name.ptr,
                        (unsigned long long)n_open,
                        plural(n_open, "job that has not ended: let it run, or cancel it",
                               "jobs that have not ended: let them run, or cancel them"));
        if (q->n_finished)
                return problem_set(problem, ERR_UNAVAIL,
                                   "the last jobs of queue '%.*s' are on their way into history: "
                                   "try again in a moment",
                                   (int)name.len, name.ptr);
        if (!list_is_empty(&q->waiters))
                return problem_set(problem, ERR_STATE,
                                   "a worker waits for jobs of queue '%.*s': end it first",
                                   (int)name.len, name.ptr);
        forget(core, q);
        reply_ok(reply);
        return OK;
}
