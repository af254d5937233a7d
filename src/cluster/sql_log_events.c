/* What waits for poll(), and the lead as all threads see it.
 *
 * Events are told in the order in which they happened, on the loop thread.  durable() comes from
 * the appender's thread instead, so lead_lose() waits until one that is being told has been: after
 * the event `lost` is in the queue, no batch of that lead is told durable. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/say.h"
#include "cluster/sql_log_int.h"

#define MARKS_MAX 16384

struct sql_wait sql_log_wait(const struct sql_log *s, int stop_fd, int64_t ms)
{
        return (struct sql_wait){
                .stop_fd = stop_fd,
                .deadline_ns = s->boot_ns() + ms * NS_PER_MS,
                .timeout_ms = ms,
        };
}

void sql_log_say(const struct sql_log *s, int64_t *said_ns, const char *text, const char *where,
                 const struct problem *p)
{
        int64_t now = s->boot_ns();
        if (*said_ns && now - *said_ns < SAY_AGAIN_MS * NS_PER_MS)
                return;
        *said_ns = now;
        say_warn("cluster", text, "server", where, "error", p->detail);
}

void sql_log_notify(struct sql_log *s)
{
        if (s->log.notify)
                s->log.notify(s->log.ctx);
}

void sql_log_wake_watcher(struct sql_log *s)
{
        uint64_t one = 1;
        if (s->has_threads && write(s->wake_fd, &one, sizeof(one)) < 0)
                ASSERT(errno == EAGAIN); /* it has been told very often */
}

void sql_log_check(const struct sql_log *s)
{
        const struct appender *a = &s->appender;
        ASSERT((!a->is_picked || a->is_given) && (!a->is_given || s->is_leading || a->is_picked));
        ASSERT(!s->is_leading ||
               (s->last.epoch == s->epoch && strcmp(s->last.node, s->node) == 0)); /* (2) */
        uint64_t bytes = 0;
        for (const struct event *e = s->queue; e; e = e->next)
                bytes += sizeof(*e) + e->len;
        ASSERT(bytes == s->queue_bytes); /* (3) */
}

/* ---- the queue ---- */

static void push(struct sql_log *s, struct event *e) /* mu held */
{
        e->next = NULL;
        *s->queue_end = e;
        s->queue_end = &e->next;
        s->queue_bytes += sizeof(*e) + e->len;
}

static struct event *pop(struct sql_log *s) /* mu held */
{
        struct event *e = s->queue;
        if (!e)
                return NULL;
        s->queue = e->next;
        if (!s->queue)
                s->queue_end = &s->queue;
        s->queue_bytes -= sizeof(*e) + e->len;
        return e;
}

bool sql_log_push_batch(struct sql_log *s, uint64_t seq, struct slice body)
{
        struct event *e = malloc(sizeof(*e) + body.len);
        if (!e)
                return false;
        *e = (struct event){.kind = EVENT_ARRIVED, .seq = seq, .len = body.len};
        if (body.len)
                memcpy(e->body, body.ptr, body.len);
        (void)pthread_mutex_lock(&s->mu); /* cannot fail: not recursive, always valid */
        push(s, e);
        marks_add(&s->marks, seq, body.len);
        (void)pthread_mutex_unlock(&s->mu);
        return true;
}

void sql_log_push_restarted(struct sql_log *s)
{
        struct event *e = xcalloc(1, sizeof(*e));
        e->kind = EVENT_RESTARTED;
        (void)pthread_mutex_lock(&s->mu);
        push(s, e);
        (void)pthread_mutex_unlock(&s->mu);
        sql_log_notify(s);
}

bool sql_log_is_queue_full(struct sql_log *s)
{
        (void)pthread_mutex_lock(&s->mu);
        bool is_full = s->queue_bytes > QUEUE_BYTES_MAX;
        (void)pthread_mutex_unlock(&s->mu);
        return is_full;
}

/* Tells one event.  mu is not held: the owner may call any operation. */
static void tell(struct sql_log *s, const struct event *e)
{
        struct log *log = &s->log;
        switch (e->kind) {
        case EVENT_ARRIVED:
                log->arrived(log->ctx, e->seq, slice_make(e->body, e->len));
                break;
        case EVENT_RESTARTED:
                log->restarted(log->ctx);
                break;
        case EVENT_LED:
                s->told_term = e->term;
                log->led(log->ctx, &e->tail);
                break;
        case EVENT_LOST:
                s->told_term = 0;
                log->lost(log->ctx, &e->problem);
                break;
        }
}

bool sql_log_poll(struct log *log, uint64_t bytes)
{
        struct sql_log *s = sql_log_of(log);
        uint64_t told = 0;
        for (;;) {
                (void)pthread_mutex_lock(&s->mu);
                if (IS_CHECKED)
                        sql_log_check(s);
                bool was_full = s->queue_bytes > QUEUE_BYTES_MAX;
                struct event *e = told > bytes ? NULL : pop(s);
                bool is_more = s->queue != NULL;
                bool is_full = s->queue_bytes > QUEUE_BYTES_MAX;
                if (e && e->kind == EVENT_ARRIVED)
                        s->polled_seq = e->seq;
                else if (e && e->kind != EVENT_LED)
                        s->polled_seq = 0;
                (void)pthread_mutex_unlock(&s->mu);
                if (was_full && !is_full)
                        sql_log_wake_watcher(s);
                if (!e)
                        return is_more;
                bool is_batch = e->kind == EVENT_ARRIVED;
                told += e->len + 1;
                tell(s, e);
                free(e);
                if (!is_batch) /* the owner acts on it before it hears more */
                        return is_more;
        }
}

void sql_log_drop_events(struct sql_log *s)
{
        (void)pthread_mutex_lock(&s->mu);
        for (struct event *e; (e = pop(s));)
                free(e);
        (void)pthread_mutex_unlock(&s->mu);
}

/* ---- bytes that are kept ---- */

void marks_add(struct marks *m, uint64_t seq, uint64_t bytes)
{
        if (m->n == 0 || m->bytes - m->at[m->n - 1].bytes >= m->step) {
                if (m->n == MARKS_MAX) { /* half as exact */
                        for (size_t i = 0; i < MARKS_MAX / 2; i++)
                                m->at[i] = m->at[2 * i];
                        m->n = MARKS_MAX / 2;
                        m->step *= 2;
                }
                if (m->n == m->cap) {
                        m->cap = m->cap ? 2 * m->cap : 64;
                        m->at = xrealloc(m->at, m->cap * sizeof(*m->at));
                }
                m->at[m->n++] = (struct mark){seq, m->bytes};
        }
        m->bytes += bytes;
}

uint64_t marks_bytes_from(struct marks *m, uint64_t seq)
{
        size_t i = 0;
        if (m->n == 0)
                return 0;
        while (i + 1 < m->n && m->at[i + 1].seq <= seq)
                i++;
        memmove(m->at, m->at + i, (m->n - i) * sizeof(*m->at));
        m->n -= i;
        return m->bytes - m->at[0].bytes;
}

/* ---- the lead ---- */

void lead_begin(struct sql_log *s, const struct ledger_head *row, uint64_t first, int64_t until_ns)
{
        struct event *e = xcalloc(1, sizeof(*e));
        e->kind = EVENT_LED;
        e->tail = (struct log_tail){.first_seq = first, .last_seq = row->seq, .epoch = row->epoch};
        (void)pthread_mutex_lock(&s->mu);
        ASSERT(!s->is_leading && !s->appender.is_given);
        s->is_leading = true;
        s->epoch = row->epoch;
        s->last = *row;
        s->until_ns = until_ns;
        s->hand_to[0] = '\0';
        s->appender.is_held = false;
        s->trim_before = 0;
        s->retained_bytes = marks_bytes_from(&s->marks, first);
        e->term = ++s->term;
        push(s, e);
        (void)pthread_cond_signal(&s->for_appender); /* it connects */
        (void)pthread_mutex_unlock(&s->mu);
        sql_log_notify(s);
}

void lead_lose(struct sql_log *s, uint64_t term, const struct problem *p)
{
        struct appender *a = &s->appender;
        struct event *e = xcalloc(1, sizeof(*e));
        e->kind = EVENT_LOST;
        e->problem = *p;
        (void)pthread_mutex_lock(&s->mu);
        while (s->is_telling) {
                ASSERT(s->has_threads); /* durable() must not come here */
                (void)pthread_cond_wait(&s->for_others, &s->mu);
        }
        bool is_lost = s->is_leading && s->term == term;
        if (is_lost) {
                uint64_t one = 1;
                s->is_leading = false;
                s->until_ns = 0;
                s->hand_to[0] = '\0';
                a->is_held = false;
                if (!a->is_picked)
                        a->is_given = false;
                else if (write(s->appender_stop_fd, &one, sizeof(one)) < 0) /* it lets go */
                        ASSERT(errno == EAGAIN);
                push(s, e);
                s->retained_bytes = 0;
                (void)pthread_cond_signal(&s->for_appender);
                (void)pthread_cond_broadcast(&s->for_others);
        }
        (void)pthread_mutex_unlock(&s->mu);
        if (!is_lost) {
                free(e);
                return;
        }
        say_warn("cluster", "this node does not lead any more", "node", s->name, "reason",
                 p->detail);
        sql_log_notify(s);
        sql_log_wake_watcher(s);
}
