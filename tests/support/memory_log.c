/* See the header. */
#include "support/memory_log.h"

#include <stdlib.h>

static struct memory_log *memory_of(struct log *log)
{
        return CONTAINER_OF(log, struct memory_log, base);
}

static int memory_lead(struct log *log, struct log_tail *ret, struct problem *p)
{
        (void)p; /* memory does not fail */
        *ret = (struct log_tail){.first_seq = 1, .last_seq = memory_of(log)->last_seq};
        return OK;
}

static int memory_append(struct log *log, uint64_t seq, struct slice batch)
{
        struct memory_log *m = memory_of(log);
        ASSERT(seq == m->last_seq + 1 && m->in_flight == 0 && seq <= MEMORY_LOG_BATCHES);
        buf_init(&m->batches[seq - 1], 0);
        buf_put_slice(&m->batches[seq - 1], batch);
        m->last_seq = seq;
        m->in_flight = seq;
        m->stat.retained_bytes += batch.len;
        m->stat.appended_batches++;
        if (!m->is_manual)
                memory_log_sync(m);
        return OK;
}

void memory_log_sync(struct memory_log *m)
{
        uint64_t seq = m->in_flight;
        m->in_flight = 0;
        if (seq && m->base.durable)
                m->base.durable(m->base.ctx, seq);
}

static int memory_read(struct log *log, uint64_t from, log_read_fn fn, void *ctx, struct problem *p)
{
        struct memory_log *m = memory_of(log);
        (void)p; /* fn says what is wrong */
        for (uint64_t seq = from > 1 ? from : 1; seq <= m->last_seq; seq++) {
                if (seq < m->trimmed_before)
                        continue;
                int r = fn(ctx, seq, buf_slice(&m->batches[seq - 1]));
                if (r != OK)
                        return r;
        }
        return OK;
}

static int memory_trim(struct log *log, uint64_t before)
{
        struct memory_log *m = memory_of(log);
        if (before > m->trimmed_before)
                m->trimmed_before = before;
        return OK;
}

static void memory_want_room(struct log *log, uint64_t bytes)
{
        (void)log;
        (void)bytes; /* there is always room, unless the test says otherwise */
}

static void memory_stat(const struct log *log, struct log_stat *ret)
{
        *ret = CONTAINER_OF(log, const struct memory_log, base)->stat;
}

/* There is another machine, which changes its mind. */
static int memory_hand_over(struct log *log, struct slice node, bool is_trial, struct problem *p)
{
        (void)log;
        (void)node;
        return is_trial ? OK : problem_set(p, ERR_STATE, "the other one is gone");
}

static void memory_tell(struct log *log, uint64_t seq, uint64_t digest)
{
        struct memory_log *m = CONTAINER_OF(log, struct memory_log, base);
        m->digest_seq = seq;
        m->digest = digest;
}

static const struct log_ops memory_ops = {
        .lead = memory_lead,
        .append = memory_append,
        .read = memory_read,
        .trim = memory_trim,
        .want_room = memory_want_room,
        .stat = memory_stat,
        .hand_over = memory_hand_over,
        .tell = memory_tell,
};

void memory_log_init(struct memory_log *m)
{
        *m = (struct memory_log){.base = {.ops = &memory_ops}, .stat = {.room_bytes = 1ULL << 40}};
        m->batches = calloc(MEMORY_LOG_BATCHES, sizeof(struct buf));
        ASSERT(m->batches);
}

void memory_log_release(struct memory_log *m)
{
        for (uint64_t i = 0; i < m->last_seq; i++)
                buf_release(&m->batches[i]);
        free(m->batches);
}
