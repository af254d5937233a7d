/* The appender: writes the batch in flight, and finds out what became of it.
 *
 *      insert -> one row                                                            -> durable
 *             -> zero rows: the row before is not ours any more                     -> lost
 *             -> taken: is it ours, byte for byte? -> no                            -> lost
 *                                                  -> yes: barrier                  -> durable
 *             -> unknown, or the connection ends on the way: connect, insert again
 *             -> busy (another insert of that number is not done), full: wait, insert again
 *
 * Reading alone decides nothing: a row that is not there may still come, and a row that is there
 * may still go (an unreplicated row of a server that fails over).  Only the insert of the same row
 * and the barrier are certain.  So an unknown outcome is never told; it is resolved, however long
 * that takes, unless the lead is lost meanwhile: then the batch is let go untold. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cluster/sql_log_int.h"

#define BUSY_MS 20

/* Lets go of a batch whose lead is lost. */
static void let_go(struct sql_log *s) /* mu held */
{
        struct appender *a = &s->appender;
        uint64_t n;
        a->is_given = a->is_picked = false;
        /* What made it give up is done with, unless it is to end. */
        if (!s->is_stopping && read(s->appender_stop_fd, &n, sizeof(n)) < 0)
                ASSERT(errno == EAGAIN);
        (void)pthread_cond_broadcast(&s->for_others);
}

/* The batch is certainly durable. */
static void finish(struct sql_log *s)
{
        struct appender *a = &s->appender;
        struct ledger_head head = a->head;
        (void)pthread_mutex_lock(&s->mu);
        if (!s->is_leading) {
                let_go(s);
                (void)pthread_mutex_unlock(&s->mu);
                sql_log_wake_watcher(s);
                return;
        }
        a->is_given = a->is_picked = false;
        s->last = head;
        s->polled_seq = head.seq;
        marks_add(&s->marks, head.seq, a->body.len);
        s->retained_bytes += a->body.len;
        s->appended_bytes += a->body.len;
        s->appended_batches++;
        s->sync_ns_last = (uint64_t)(s->boot_ns() - a->begun_ns);
        bool is_awaited = a->is_held;
        s->is_telling = true;
        (void)pthread_mutex_unlock(&s->mu);

        if (s->log.durable)
                s->log.durable(s->log.ctx, head.seq);

        (void)pthread_mutex_lock(&s->mu);
        s->is_telling = false;
        (void)pthread_cond_broadcast(&s->for_others);
        (void)pthread_mutex_unlock(&s->mu);
        if (is_awaited)
                sql_log_wake_watcher(s);
}

/* Somebody else's row is there, or the row before is gone. */
static void deposed(struct sql_log *s, const struct ledger_head *seen)
{
        struct problem p;
        if (seen && seen->seq)
                (void)problem_set(&p, ERR_UNAVAIL, "batch %llu is from %s, epoch %llu",
                                  (unsigned long long)seen->seq, seen->node,
                                  (unsigned long long)seen->epoch);
        else
                (void)problem_set(&p, ERR_UNAVAIL,
                                  "batch %llu was refused: another node has written to the log",
                                  (unsigned long long)s->appender.head.seq);
        (void)pthread_mutex_lock(&s->mu);
        uint64_t term = s->term;
        (void)pthread_mutex_unlock(&s->mu);
        lead_lose(s, term, &p);
}

static void again_in(struct sql_log *s, int64_t ms)
{
        s->appender.again_ns = s->boot_ns() + ms * NS_PER_MS;
}

static bool connect_appender(struct sql_log *s)
{
        struct appender *a = &s->appender;
        struct sql_wait w = sql_log_wait(s, s->appender_stop_fd, CONNECT_MS);
        struct problem p = {0};
        int r = a->ledger->ops->connect(a->ledger, &w, &p);
        if (r == OK)
                return true;
        if (r != ERR_STOPPING)
                sql_log_say(s, &a->said_ns, "cannot connect to write, retrying",
                            a->ledger->ops->where(a->ledger), &p);
        again_in(s, RETRY_MS);
        return false;
}

/* A row with that number is there. */
static void resolve_taken(struct sql_log *s, const struct sql_wait *w)
{
        struct appender *a = &s->appender;
        const struct ledger_ops *ops = a->ledger->ops;
        struct ledger_head seen = {0};
        struct problem p = {0};
        bool is_mine = false;
        int r = ops->has(a->ledger, &a->head, buf_slice(&a->body), w, &seen, &is_mine, &p);
        if (r == OK && !is_mine && seen.seq) {
                deposed(s, &seen);
                return;
        }
        if (r == OK && is_mine)
                r = ops->barrier(a->ledger, w, &p);
        if (r == OK && is_mine) {
                finish(s);
                return;
        }
        /* It vanished between the two, or one of them failed: insert again. */
        again_in(s, r == OK ? 0 : BUSY_MS);
}

static void attempt(struct sql_log *s)
{
        struct appender *a = &s->appender;
        int64_t ms = APPEND_MS + (int64_t)(a->body.len / MIB) * APPEND_MS_PER_MIB;
        struct sql_wait w = sql_log_wait(s, s->appender_stop_fd, ms);
        struct problem p = {0};
        if (a->n_tries++ == 0)
                a->begun_ns = s->boot_ns();
        switch (a->ledger->ops->append(a->ledger, &a->head, buf_slice(&a->body), &a->previous, &w,
                                       &p)) {
        case LEDGER_DURABLE:
                finish(s);
                return;
        case LEDGER_REFUSED:
                deposed(s, NULL);
                return;
        case LEDGER_TAKEN:
                resolve_taken(s, &w);
                return;
        case LEDGER_BUSY:
                again_in(s, BUSY_MS);
                break;
        case LEDGER_FULL:
                /* Perhaps it is only read-only: another server may be the one that takes writes. */
                a->ledger->ops->disconnect(a->ledger);
                again_in(s, RETRY_MS);
                break;
        case LEDGER_UNKNOWN:
                /* At once at first; a server that always cuts the connection is not flooded. */
                again_in(s, a->n_tries < 3 ? 0 : RETRY_MS);
                break;
        }
        sql_log_say(s, &a->said_ns, "a batch is not written yet, trying again",
                    a->ledger->ops->where(a->ledger), &p);
}

bool appender_step(struct sql_log *s)
{
        struct appender *a = &s->appender;
        (void)pthread_mutex_lock(&s->mu);
        bool is_dropped = a->is_picked && !s->is_leading;
        if (is_dropped) {
                let_go(s);
        } else if (a->is_given && !a->is_picked && !a->is_held && s->is_leading) {
                a->is_picked = true;
                a->n_tries = 0;
                a->again_ns = 0;
        }
        bool is_picked = a->is_picked, is_leading = s->is_leading;
        (void)pthread_mutex_unlock(&s->mu);
        if (is_dropped) {
                sql_log_wake_watcher(s);
                return true;
        }
        if (!is_leading || s->boot_ns() < a->again_ns)
                return false;
        /* Connected before the first batch comes: it would wait for it. */
        if (!a->ledger->ops->is_open(a->ledger))
                return connect_appender(s) || is_picked;
        if (!is_picked)
                return false;
        attempt(s);
        return true;
}

/* Waits until there is something to do; false when it is time to end. */
static bool appender_wait(struct sql_log *s)
{
        struct appender *a = &s->appender;
        bool is_open = a->ledger->ops->is_open(a->ledger);
        (void)pthread_mutex_lock(&s->mu);
        while (!s->is_stopping || a->is_given) {
                int64_t left_ns = a->again_ns - s->boot_ns();
                bool is_work =
                        a->is_picked || (a->is_given && !a->is_held) || (s->is_leading && !is_open);
                if (is_work && (left_ns <= 0 || (a->is_picked && !s->is_leading)))
                        break;
                if (!is_work) {
                        (void)pthread_cond_wait(&s->for_appender, &s->mu);
                        continue;
                }
                struct timespec at;
                (void)clock_gettime(CLOCK_MONOTONIC, &at); /* always there */
                int64_t ns = at.tv_nsec + left_ns;
                at.tv_sec += ns / NS_PER_S;
                at.tv_nsec = ns % NS_PER_S;
                (void)pthread_cond_timedwait(&s->for_appender, &s->mu, &at);
        }
        bool is_going_on = !s->is_stopping || a->is_given;
        (void)pthread_mutex_unlock(&s->mu);
        return is_going_on;
}

void *appender_main(void *sql_log)
{
        struct sql_log *s = sql_log;
        (void)pthread_setname_np(pthread_self(), "log-append"); /* for people */
        while (appender_wait(s))
                (void)appender_step(s);
        return NULL;
}
