/* What a log must still know, kept beside it: every batch that was acknowledged, byte for byte,
 * and the one that was in flight when everything stopped. */
#ifndef WEIR_TESTS_SUPPORT_LOG_MODEL_H
#define WEIR_TESTS_SUPPORT_LOG_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "log/file.h"
#include "log/record.h"
#include "support/sim_disk.h"

#define MODEL_SEGMENT_BYTES (20 * KIB)
#define MODEL_BATCHES_MAX   1024

struct log_model {
        struct sim_disk disk;
        struct log *log;
        struct rng rng;
        uint64_t log_seed;

        struct slice batches[MODEL_BATCHES_MAX]; /* by seq; owned */
        uint64_t last;                           /* acknowledged */
        uint64_t trimmed_to;                     /* batches below may be gone */
        struct slice in_flight;                  /* of last + 1; owned, .ptr NULL when none */

        struct log_tail tail; /* of the last lead */
        unsigned n_failed;    /* calls of `failed` on this log */
        struct problem failure;
        uint64_t n_checked;
};

SIM_FN void model_init(struct log_model *m, uint64_t seed)
{
        memset(m, 0, sizeof(*m));
        sim_disk_init(&m->disk, seed);
        rng_init_seed(&m->rng, seed ^ 0x5eed);
        m->log_seed = rng_u64(&m->rng) | 1;
        m->trimmed_to = 1;
}

SIM_FN void model_forget(struct slice *s)
{
        free((void *)(uintptr_t)s->ptr);
        *s = SLICE_NONE;
}

SIM_FN void model_release(struct log_model *m)
{
        if (m->log)
                m->log->ops->close(m->log);
        for (uint64_t i = 0; i <= m->last; i++)
                model_forget(&m->batches[i]);
        model_forget(&m->in_flight);
        sim_disk_release(&m->disk);
}

SIM_FN void model_on_durable(void *ctx, uint64_t seq)
{
        struct log_model *m = ctx;
        ASSERT(m->n_failed == 0);
        ASSERT(seq == m->last + 1 && m->in_flight.ptr);
        m->last = seq;
        m->batches[seq] = m->in_flight;
        m->in_flight = SLICE_NONE;
}

SIM_FN void model_on_failed(void *ctx, const struct problem *p)
{
        struct log_model *m = ctx;
        m->n_failed++;
        m->failure = *p;
}

/* A batch of `n` records with `least` to `most` bytes each. */
SIM_FN struct slice model_batch_of(struct log_model *m, size_t n, size_t least, size_t most)
{
        if (n == 0) /* so that an empty batch has an address as well */
                return slice_make(xmalloc(1), 0);
        struct buf b;
        buf_init(&b, 0);
        for (size_t i = 0; i < n; i++) {
                size_t begun_at = record_begin(&b, (uint8_t)i, 1);
                size_t len = least + rng_below(&m->rng, most - least + 1);
                for (size_t at = 0; at < len; at += 8) {
                        uint64_t word = rng_u64(&m->rng);
                        buf_put(&b, &word, len - at < 8 ? len - at : 8);
                }
                record_end(&b, begun_at);
        }
        ASSERT(!b.failed);
        return buf_slice(&b);
}

SIM_FN struct slice model_batch(struct log_model *m, size_t n, size_t most)
{
        return model_batch_of(m, n, 0, most);
}

SIM_FN int model_open(struct log_model *m, struct problem *p)
{
        struct file_log_options o = {.segment_bytes = MODEL_SEGMENT_BYTES, .seed = m->log_seed};
        struct disk *disk = &m->disk.disk;
        struct log *log;
        int e = file_log_open(&disk, &o, &log, p);
        if (e)
                return e;
        log->durable = model_on_durable;
        log->failed = model_on_failed;
        log->ctx = m;
        m->n_failed = 0;
        e = log->ops->lead(log, &m->tail, p);
        if (e) {
                log->ops->close(log);
                return e;
        }
        m->log = log;
        return OK;
}

SIM_FN void model_close(struct log_model *m)
{
        if (m->log)
                m->log = m->log->ops->close(m->log);
}

/* Takes the batch. */
SIM_FN int model_append(struct log_model *m, struct slice batch)
{
        ASSERT(m->last + 1 < MODEL_BATCHES_MAX);
        model_forget(&m->in_flight);
        m->in_flight = batch;
        return m->log->ops->append(m->log, m->last + 1, batch);
}

SIM_FN void model_trim(struct log_model *m, uint64_t before)
{
        if (before > m->trimmed_to)
                m->trimmed_to = before;
        (void)m->log->ops->trim(m->log, before);
}

struct model_walk {
        struct log_model *m;
        uint64_t first, next; /* 0 before the first */
        unsigned n_wrong;
};

SIM_FN int model_walk_batch(void *ctx, uint64_t seq, struct slice batch)
{
        struct model_walk *w = ctx;
        if (w->next && seq != w->next)
                w->n_wrong++;
        if (!w->first)
                w->first = seq;
        w->next = seq + 1;
        if (seq > w->m->last || !slice_eq(batch, w->m->batches[seq]))
                w->n_wrong++;
        w->m->n_checked++;
        return OK;
}

/* After a lead: the batch in flight is there or not, as the log says; everything else must be as
 * it was. */
SIM_FN void model_settle(struct log_model *m)
{
        if (m->tail.last_seq == m->last + 1 && m->in_flight.ptr) {
                m->last++;
                m->batches[m->last] = m->in_flight;
                m->in_flight = SLICE_NONE;
        }
        assert_int_equal(m->tail.last_seq, m->last);
        assert_true(m->tail.cut_batches <= 1);
        model_forget(&m->in_flight);
}

SIM_FN void model_check(struct log_model *m)
{
        struct problem p = {0};
        struct model_walk w = {.m = m};
        int e = m->log->ops->read(m->log, 0, model_walk_batch, &w, &p);
        if (e)
                fail_msg("read: %s", p.detail);
        assert_int_equal(w.n_wrong, 0);
        if (m->last == 0)
                return;
        uint64_t due = m->trimmed_to <= m->last ? m->last + 1 : 0;
        if (due)
                assert_int_equal(w.next, due);
        w = (struct model_walk){.m = m};
        e = m->log->ops->read(m->log, m->trimmed_to, model_walk_batch, &w, &p);
        assert_int_equal(e, OK);
        assert_int_equal(w.n_wrong, 0);
        assert_int_equal(w.next, due);
        if (due)
                assert_int_equal(w.first, m->trimmed_to);
}

#endif
