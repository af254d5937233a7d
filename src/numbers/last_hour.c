/* See last_hour.h.
 *
 * History is asked for the jobs that failed in the hour before the start, page after page, and they
 * are counted by the minute of their end, so that minutes leave the hour as it moves on.  It is
 * asked only when it holds all that ended before the start: jobs are stored in the order they
 * ended, so it is enough to count.  Then no job is missing and none is counted twice.
 *
 * History has no answer when it is off, cannot be read, or does not keep the failed jobs of some
 * queue.  A failed job that was retried or deleted since is not in it and does not count. */
#include "numbers/last_hour.h"

#include <stdlib.h>

#include "base/duration.h"
#include "jobs/keeping.h"
#include "numbers/series.h"

#define MINUTES    60
#define PAGE       1000
#define PAGE_BYTES (4 * MIB)
#define AGAIN_NS   (5 * NS_PER_S) /* after an error */

enum answer { NOT_ASKED, ASKED, KNOWN };

/* The archive may have the question longer than there is a core. */
struct ask {
        struct core *core; /* NULL: it is gone */
        struct archive_query query;
};

struct last_hour {
        int64_t begin_ms;         /* Unix time an hour before the start; 0: before the first turn */
        uint64_t n_old;           /* jobs that ended before the start and are not stored yet */
        uint32_t failed[MINUTES]; /* from begin_ms on */
        enum answer answer;
        struct ask *ask;
        int64_t again_ns;
};

static void count(struct last_hour *h, const struct archive_query *q)
{
        for (size_t i = 0; i < q->n_rows; i++) {
                int64_t at_ms = q->refs[i].finished_ms - h->begin_ms;
                if (at_ms >= 0 && at_ms < MS_PER_HOUR)
                        h->failed[at_ms / MS_PER_MIN]++;
        }
}

static void page_done(struct archive_query *q)
{
        struct ask *ask = q->ctx;
        struct last_hour *h = ask->core ? ask->core->last_hour : NULL;
        if (h && q->err == OK) {
                count(h, q);
                if (q->is_cut || q->n_rows == q->limit) {
                        q->before_id = q->last_id;
                        arena_clear(&q->arena);
                        ask->core->options.archive->ops->query(ask->core->options.archive, q);
                        return;
                }
        }
        if (h) {
                h->answer = q->err == OK ? KNOWN : NOT_ASKED;
                h->again_ns = ask->core->now.steady_ns + AGAIN_NS;
                h->ask = NULL;
        }
        arena_release(&q->arena);
        free(ask);
}

static void ask_history(struct core *core)
{
        struct last_hour *h = core->last_hour;
        struct ask *ask = xcalloc(1, sizeof(*ask));
        ask->core = core;
        ask->query.limit = PAGE;
        ask->query.is_brief = true;
        ask->query.filter =
                (struct job_filter){.status = JOB_FAILED, .ended_since_ms = h->begin_ms};
        ask->query.done = page_done;
        ask->query.ctx = ask;
        arena_init(&ask->query.arena, PAGE_BYTES);
        memset(h->failed, 0, sizeof(h->failed));
        h->answer = ASKED;
        h->ask = ask;
        core->options.archive->ops->query(core->options.archive, &ask->query);
}

static bool keeps_all_failed(const struct core *core)
{
        for (struct hash_node *n = NULL; (n = hash_next(&core->state.queues, n));)
                if (!keeping_keeps(core, CONTAINER_OF(n, struct queue, node), JOB_FAILED))
                        return false;
        return core->options.archive != NULL;
}

uint64_t last_hour_failed(struct core *core, int64_t *ret_from_ms)
{
        struct last_hour *h = core->last_hour;
        int64_t from_ms = core->now.wall_ms - MS_PER_HOUR;
        uint64_t sum =
                series_sum(core, SERIES_FAILED, SERIES_SECONDS) + series_rest(core, SERIES_FAILED);
        *ret_from_ms = from_ms > core->start_ms ? from_ms : core->start_ms;
        if (from_ms >= core->start_ms || !keeps_all_failed(core))
                return sum;
        if (h->answer == NOT_ASKED && !h->n_old && core->now.steady_ns >= h->again_ns)
                ask_history(core);
        if (h->answer != KNOWN)
                return sum;
        *ret_from_ms = from_ms;
        for (int64_t i = 0; i < MINUTES; i++)
                if (h->begin_ms + (i + 1) * MS_PER_MIN > from_ms)
                        sum += h->failed[i];
        return sum;
}

/* ---- the feature ---- */

static void last_hour_init(struct core *core)
{
        core->last_hour = xcalloc(1, sizeof(*core->last_hour));
}

static void last_hour_release(struct core *core)
{
        if (core->last_hour->ask)
                core->last_hour->ask->core = NULL;
        free(core->last_hour);
}

static void last_hour_turn(struct core *core)
{
        struct last_hour *h = core->last_hour;
        if (h->begin_ms)
                return;
        h->begin_ms = core->start_ms - MS_PER_HOUR;
        h->n_old = core->state.n_ended;
}

static void last_hour_stored(struct core *core, size_t n)
{
        struct last_hour *h = core->last_hour;
        h->n_old -= n < h->n_old ? n : h->n_old;
}

const struct feature last_hour_feature = {.name = "last hour",
                                          .init = last_hour_init,
                                          .release = last_hour_release,
                                          .turn = last_hour_turn,
                                          .stored = last_hour_stored};
