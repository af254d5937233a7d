/* Queues as people see them: listed, paused, resumed. */
#include <stdlib.h>

#include "core/inside.h"
#include "core/params.h"

static void stat_of(const struct queue *q, struct queue_stat *ret)
{
        *ret = (struct queue_stat){
                .name = name_slice(q->name),
                .is_paused = q->is_paused,
                .ready = q->ready.len,
                .scheduled = q->n_scheduled,
                .running = q->n_running,
                .enqueued = q->enqueued,
                .completed = q->completed,
                .failed = q->failed,
                .canceled = q->canceled,
        };
        if (q->ready.len)
                ret->oldest_due_ms = CONTAINER_OF(heap_peek(&q->ready), struct job, node)->due_ms;
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

static void count_queue(void *ctx, const struct queue_stat *stat)
{
        (void)stat; /* only how many there are */
        ++*(size_t *)ctx;
}

static void tell_queue(void *ctx, const struct queue_stat *q)
{
        struct reply *reply = ctx;
        const struct {
                const char *key;
                uint64_t value;
        } numbers[] = {
                {"ready", q->ready},         {"scheduled", q->scheduled},
                {"running", q->running},     {"enqueued", q->enqueued},
                {"completed", q->completed}, {"failed", q->failed},
                {"canceled", q->canceled},   {"oldest_due_ms", (uint64_t)q->oldest_due_ms},
        };
        reply_map(reply, 2 + ARRAY_LEN(numbers));
        reply_key(reply, "name");
        reply_text(reply, q->name);
        reply_key(reply, "paused");
        reply_bool(reply, q->is_paused);
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
                reply_key(reply, numbers[i].key);
                reply_int(reply, (int64_t)numbers[i].value);
        }
        reply_end(reply);
}

EXEC(exec_queues)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        size_t n = 0;
        core_each_queue(core, count_queue, &n);
        reply_wrap(reply, "queues");
        reply_list(reply, n);
        core_each_queue(core, tell_queue, reply);
        reply_end(reply);
        return OK;
}

static int set_paused(struct core *core, const struct command *cmd, bool is_paused,
                      struct reply *reply, struct problem *problem)
{
        struct slice name = cmd->arg[P_QUEUE_NAME].text;
        const struct queue *q = state_queue_find(&core->state, name);
        if (!q && state_n_queues(&core->state) >= LIMIT_QUEUES)
                return problem_set(problem, ERR_LIMIT, "there are %d queues already", LIMIT_QUEUES);
        if (!q && !is_paused)
                return problem_set(problem, ERR_NOTFOUND, "there is no queue '%.*s'", (int)name.len,
                                   name.ptr);
        if (!q || q->is_paused != is_paused) {
                struct effect e = {
                        .type = EFFECT_QUEUE_SET,
                        .queue = name,
                        .queue_id = state_queue_get(&core->state, name)->id,
                        .is_paused = is_paused,
                };
                core_emit(core, &e);
        }
        reply_ok(reply);
        return OK;
}

EXEC(exec_pause)
{
        (void)session; /* anybody may pause */
        return set_paused(core, cmd, true, reply, problem);
}

EXEC(exec_resume)
{
        (void)session; /* anybody may resume */
        return set_paused(core, cmd, false, reply, problem);
}
