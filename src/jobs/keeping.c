/* See keeping.h.
 *
 * An ended job stays in the log until history has it.  So a job may only be accepted when there is
 * room for it twice: in the log, and later in history's file, on the same disk.  The log keeps its
 * part ready as spare segments; history's part is a promise not to use that space for anything
 * else: new work is refused before it, and the log makes no spare segment of it (leave_free).
 *
 * The need is the weight of all live jobs whose queue is kept, with what their runs will add to it,
 * and half of that again, because SQLite fills its pages worst with rows of half a page.  It is
 * counted anew every COUNT_NS or COUNT_BYTES; in between whatever is live in addition counts.
 *
 * Another program may take that room all the same.  Then ended jobs wait, and the operator may
 * choose to let go of them: the archive's thread asks is_wanted() for each, which reads nothing
 * but what is atomic. */
#include "jobs/keeping.h"

#include <stdatomic.h>

#define COUNT_NS    (100 * NS_PER_MS)
#define COUNT_BYTES (4 * MIB)
/* What a run adds to a job, about: a worker's name, events, a short result. */
#define RUN_BYTES 256
/* For the transaction that is being written, and SQLite's own tables. */
#define SPARE_BYTES (16 * MIB)

static enum history_policy policy_of_name(const struct core *core, const struct queue *queue,
                                          struct slice name)
{
        if (!core->options.archive)
                return HISTORY_NONE;
        if (queue && queue->settings.history)
                return (enum history_policy)(queue->settings.history - 1);
        if (core->options.history_of)
                return core->options.history_of(core->options.ctx, name);
        return HISTORY_FULL;
}

static bool keeps(enum history_policy policy, enum job_status outcome)
{
        return policy == HISTORY_FULL || (policy == HISTORY_FAILURES && outcome == JOB_FAILED);
}

bool keeping_keeps(const struct core *core, const struct queue *queue, enum job_status outcome)
{
        return keeps(policy_of_name(core, queue, name_slice(queue->name)), outcome);
}

/* Runs on the archive's threads. */
static bool is_wanted(const struct job *job)
{
        uint8_t policy = atomic_load_explicit(&job->queue->history_now, memory_order_relaxed);
        return !atomic_load_explicit(&job->more->is_unwanted, memory_order_relaxed) &&
               keeps((enum history_policy)policy, (enum job_status)job->outcome);
}

/* Before jobs are handed over: the archive's threads see the policy of their queue. */
static void keeping_mark(struct core *core, struct queue *queue)
{
        enum history_policy policy = policy_of_name(core, queue, name_slice(queue->name));
        atomic_store_explicit(&queue->history_now, (uint8_t)policy, memory_order_relaxed);
}

void core_history_changed(struct core *core)
{
        struct archive *archive = core->options.archive;
        if (!archive)
                return;
        for (struct hash_node *n = NULL; (n = hash_next(&core->state.queues, n));)
                keeping_mark(core, CONTAINER_OF(n, struct queue, node));
        core->keeping.counted_ns = INT64_MIN;
        if (archive->ops->wake)
                archive->ops->wake(archive);
}

/* ---- room ---- */

static uint64_t with_pages(uint64_t bytes, uint64_t jobs)
{
        return (bytes + jobs * RUN_BYTES) / 2 * 3;
}

static uint64_t need(const struct core *core)
{
        const struct keeping *k = &core->keeping;
        uint64_t live = core->state.live_bytes;
        return SPARE_BYTES + k->counted + with_pages(live > k->live ? live - k->live : 0, 0);
}

static uint64_t count_queues(const struct core *core)
{
        uint64_t sum = 0;
        for (struct hash_node *n = NULL; (n = hash_next(&core->state.queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                if (q->job_bytes && policy_of_name(core, q, name_slice(q->name)) != HISTORY_NONE)
                        sum += with_pages(q->job_bytes, queue_n_jobs(q) - q->n_finished);
        }
        return sum;
}

static void count(struct core *core)
{
        struct keeping *k = &core->keeping;
        struct archive_stat stat;
        core_archive_stat(core, &stat);
        /* Queues are only looked at where it matters. */
        k->counted = with_pages(core->state.live_bytes, core->state.jobs.len);
        if (stat.room_bytes / 2 < k->counted + 2 * SPARE_BYTES)
                k->counted = count_queues(core);
        k->live = core->state.live_bytes;
        k->appended = core->log_stat.appended_bytes;
        k->counted_ns = core->now.steady_ns;
        k->room = stat.room_bytes;
        k->is_stuck = stat.is_stuck;
}

static bool is_count_due(const struct core *core)
{
        const struct keeping *k = &core->keeping;
        return k->counted_ns == INT64_MIN || core->now.steady_ns - k->counted_ns >= COUNT_NS ||
               core->state.live_bytes > k->live + COUNT_BYTES ||
               core->log_stat.appended_bytes > k->appended + COUNT_BYTES;
}

static void keeping_turn(struct core *core)
{
        struct log *log = core->options.log;
        if (!core->options.archive || !is_count_due(core))
                return;
        count(core);
        if (log->ops->leave_free)
                log->ops->leave_free(log, need(core));
}

int64_t keeping_looks_ns(const struct core *core)
{
        return core->keeping.counted_ns + COUNT_NS;
}

static void keeping_init(struct core *core)
{
        core->keeping = (struct keeping){.counted_ns = INT64_MIN, .room = UINT64_MAX};
        if (core->options.archive)
                core->options.archive->is_wanted = is_wanted;
}

bool keeping_has_room(const struct core *core, uint64_t bytes, uint64_t jobs)
{
        if (!core->options.archive || core->keeping.room == UINT64_MAX)
                return true;
        return core->keeping.room >= need(core) + with_pages(bytes, jobs);
}

bool keeping_is_stuck(const struct core *core)
{
        return core->keeping.is_stuck;
}

int keeping_admit(struct core *core, struct slice queue, uint64_t bytes, uint64_t jobs,
                  struct problem *problem)
{
        if (keeping_has_room(core, bytes, jobs))
                return OK;
        const struct queue *q = state_queue_find(&core->state, queue);
        if (policy_of_name(core, q, queue) == HISTORY_NONE)
                return OK;
        core->totals.refused_nospace++;
        return problem_set(problem, ERR_NOSPACE,
                           "the disk is full: the space left is kept for accepted jobs and their "
                           "history");
}

int keeping_admit_text(struct core *core, size_t len, struct problem *problem)
{
        if (len <= CORE_TIGHT_TEXT_BYTES ||
            (!core->log_stat.is_disk_full && keeping_has_room(core, len, 0)))
                return OK;
        return problem_set(problem, ERR_NOSPACE,
                           "the disk is full: send at most %d bytes of result or error now",
                           CORE_TIGHT_TEXT_BYTES);
}

const struct feature keeping_feature = {.name = "room for history",
                                        .init = keeping_init,
                                        .turn = keeping_turn,
                                        .hand_over = keeping_mark};
