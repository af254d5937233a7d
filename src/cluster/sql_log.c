/* The calls of the loop thread, start and end.  The workers start with the first poll() or lead(),
 * when the owner has set its callbacks.
 *
 * A batch is copied when it is handed over: after the lead is lost, its owner goes on at once, and
 * the appender may still be at it. */
#include "cluster/sql_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/say.h"
#include "cluster/sql_log_int.h"

/* A buffer that a giant batch made is not kept. */
#define BODY_KEPT_BYTES (4 * MIB)
#define MARK_BYTES      (4 * KIB)

static void start(struct sql_log *s)
{
        if (!s->is_threaded || s->has_threads)
                return;
        s->has_threads = true;
        int r = pthread_create(&s->appender_thread, NULL, appender_main, s);
        ASSERT(r == 0); /* a process that cannot have two threads at its start serves nobody */
        r = pthread_create(&s->watcher_thread, NULL, watcher_main, s);
        ASSERT(r == 0);
}

static int log_lead(struct log *log, struct log_tail *ret, struct problem *problem)
{
        struct sql_log *s = sql_log_of(log);
        (void)ret; /* `led` tells */
        (void)pthread_mutex_lock(&s->mu);
        s->wants_lead = true;
        (void)pthread_mutex_unlock(&s->mu);
        start(s);
        return problem_set(problem, ERR_UNAVAIL, "no node leads yet");
}

static int append_row(struct sql_log *s, uint64_t seq, enum ledger_kind kind, struct slice batch)
{
        struct appender *a = &s->appender;
        int r = OK;
        (void)pthread_mutex_lock(&s->mu);
        /* Else the lead is lost, and the owner hears of it with the next poll(). */
        if (s->is_leading && s->told_term == s->term) {
                ASSERT(!a->is_given && seq == s->last.seq + 1);
                if (a->body.cap > BODY_KEPT_BYTES)
                        buf_release(&a->body);
                buf_clear(&a->body);
                buf_put_slice(&a->body, batch);
                r = a->body.failed ? ERR_NOMEM : OK;
                a->is_given = r == OK;
                a->previous = s->last;
                a->head = (struct ledger_head){.seq = seq, .epoch = s->epoch, .kind = kind};
                memcpy(a->head.node, s->node, sizeof(a->head.node));
        }
        (void)pthread_mutex_unlock(&s->mu);
        /* Not before: it would wake up only to wait for mu, and be late by the turn of whoever gets
         * the processor meanwhile. */
        (void)pthread_cond_signal(&s->for_appender);
        return r;
}

int sql_log_append_mark(struct log *log, uint64_t seq, enum ledger_kind kind, struct slice why)
{
        return append_row(sql_log_of(log), seq, kind, why);
}

static int log_append(struct log *log, uint64_t seq, struct slice batch)
{
        return append_row(sql_log_of(log), seq, LEDGER_BATCH, batch);
}

static int log_read(struct log *log, uint64_t from, log_read_fn fn, void *ctx,
                    struct problem *problem)
{
        (void)log;
        (void)from;
        (void)fn;
        (void)ctx;
        return problem_set(problem, ERR_STATE, "the log of a cluster is read as it arrives");
}

static int log_trim(struct log *log, uint64_t before)
{
        struct sql_log *s = sql_log_of(log);
        (void)pthread_mutex_lock(&s->mu);
        bool is_news = s->is_leading && s->told_term == s->term && before > s->trim_before;
        if (is_news)
                s->trim_before = before;
        (void)pthread_mutex_unlock(&s->mu);
        if (is_news)
                sql_log_wake_watcher(s);
        return OK;
}

static void log_want_room(struct log *log, uint64_t bytes)
{
        (void)log;
        (void)bytes; /* the database's disk is not ours to fill in advance */
}

static void log_stat(const struct log *log, struct log_stat *ret)
{
        struct sql_log *s = CONTAINER_OF(log, struct sql_log, log);
        (void)pthread_mutex_lock(&s->mu);
        *ret = (struct log_stat){
                .retained_bytes = s->retained_bytes,
                .room_bytes = UINT64_MAX,
                .head_seq = s->is_leading ? s->last.seq : 0,
                .appended_bytes = s->appended_bytes,
                .appended_batches = s->appended_batches,
                .sync_ns_last = s->sync_ns_last,
        };
        (void)pthread_mutex_unlock(&s->mu);
}

static bool log_poll(struct log *log, uint64_t bytes)
{
        start(sql_log_of(log));
        return sql_log_poll(log, bytes);
}

static int64_t log_leads_until_ns(const struct log *log)
{
        struct sql_log *s = CONTAINER_OF(log, struct sql_log, log);
        (void)pthread_mutex_lock(&s->mu);
        int64_t until_ns = s->is_leading && s->told_term == s->term ? s->until_ns : 0;
        (void)pthread_mutex_unlock(&s->mu);
        return until_ns;
}

static void log_tell(struct log *log, uint64_t seq, uint64_t digest)
{
        struct sql_log *s = sql_log_of(log);
        (void)pthread_mutex_lock(&s->mu);
        s->digest_seq = seq;
        s->digest = digest;
        (void)pthread_mutex_unlock(&s->mu);
}

static size_t log_members(struct log *log, struct log_member *ret, size_t max)
{
        struct sql_log *s = sql_log_of(log);
        (void)pthread_mutex_lock(&s->mu);
        size_t n = s->n_members < max ? s->n_members : max;
        int64_t age_ms = (s->boot_ns() - s->met_ns) / NS_PER_MS;
        for (size_t i = 0; i < n; i++) {
                struct log_member *m = &ret[i];
                *m = s->members[i];
                m->seen_ms += age_ms;
                m->is_self = strcmp(m->node, s->name) == 0;
                m->is_leader = s->leader[0] && strcmp(m->node, s->leader) == 0;
        }
        (void)pthread_mutex_unlock(&s->mu);
        return n;
}

/* ---- the end ---- */

static void signal_fd(int fd)
{
        uint64_t one = 1;
        if (write(fd, &one, sizeof(one)) < 0)
                ASSERT(errno == EAGAIN);
}

/* Waits for the batch in flight, and then no longer. */
static void stop(struct sql_log *s)
{
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until); /* always there */
        until.tv_sec += CLOSE_MS / MS_PER_S;
        (void)pthread_mutex_lock(&s->mu);
        s->is_stopping = true;
        while (s->appender.is_given || s->is_telling)
                if (pthread_cond_timedwait(&s->for_others, &s->mu, &until) == ETIMEDOUT)
                        break;
        if (s->appender.is_given) { /* let go */
                s->is_leading = false;
                s->appender.is_given = s->appender.is_picked;
        }
        (void)pthread_cond_broadcast(&s->for_appender);
        (void)pthread_mutex_unlock(&s->mu);
        signal_fd(s->appender_stop_fd);
        signal_fd(s->watcher_stop_fd);
        (void)pthread_join(s->appender_thread, NULL);
        (void)pthread_join(s->watcher_thread, NULL);
}

static struct log *log_close(struct log *log)
{
        if (!log)
                return NULL;
        struct sql_log *s = sql_log_of(log);
        if (s->has_threads)
                stop(s);
        lead_resign(s);
        sql_log_drop_events(s);
        s->appender.ledger = s->appender.ledger->ops->free(s->appender.ledger);
        s->watcher.ledger = s->watcher.ledger->ops->free(s->watcher.ledger);
        buf_release(&s->appender.body);
        free(s->marks.at);
        const int fds[] = {s->appender_stop_fd, s->watcher_stop_fd, s->wake_fd};
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                if (fds[i] >= 0)
                        (void)close(fds[i]);
        (void)pthread_cond_destroy(&s->for_appender);
        (void)pthread_cond_destroy(&s->for_others);
        (void)pthread_mutex_destroy(&s->mu);
        free(s);
        return NULL;
}

/* ---- the start ---- */

static const struct log_ops sql_log_ops = {
        .lead = log_lead,
        .append = log_append,
        .read = log_read,
        .trim = log_trim,
        .want_room = log_want_room,
        .stat = log_stat,
        .close = log_close,
        .poll = log_poll,
        .leads_until_ns = log_leads_until_ns,
        .hand_over = sql_log_hand_over,
        .tell = log_tell,
        .members = log_members,
};

static void init_locks(struct sql_log *s)
{
        pthread_condattr_t attr;
        (void)pthread_condattr_init(&attr); /* none of these fails */
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&s->for_appender, &attr);
        (void)pthread_cond_init(&s->for_others, &attr);
        (void)pthread_condattr_destroy(&attr);
        (void)pthread_mutex_init(&s->mu, NULL);
}

int sql_log_open(const struct sql_log_options *options, struct log **ret, struct problem *problem)
{
        struct sql_log *s = xcalloc(1, sizeof(*s));
        s->log.ops = &sql_log_ops;
        s->appender.ledger = options->appender;
        s->watcher.ledger = options->watcher;
        s->boot_ns = options->boot_ns;
        s->is_threaded = options->is_threaded;
        s->priority = options->priority;
        s->is_mover = options->is_mover;
        s->lease_min_ms = options->lease_ms;
        s->queue_end = &s->queue;
        s->marks.step = MARK_BYTES;
        (void)snprintf(s->name, sizeof(s->name), "%s", options->node);
        (void)snprintf(s->address, sizeof(s->address), "%s", options->address);
        (void)snprintf(s->node, sizeof(s->node), "%s.%016llx", s->name,
                       (unsigned long long)rng_u64(options->rng));
        init_locks(s);
        s->appender_stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        s->watcher_stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (s->appender_stop_fd < 0 || s->watcher_stop_fd < 0 || s->wake_fd < 0) {
                int error = errno;
                (void)log_close(&s->log); /* NULL */
                return problem_set(problem, ERR_IO, "eventfd: %s", strerror(error));
        }
        *ret = &s->log;
        return OK;
}

bool sql_log_step_appender(struct log *log)
{
        return appender_step(sql_log_of(log));
}

bool sql_log_step_watcher(struct log *log)
{
        return watcher_step(sql_log_of(log));
}
