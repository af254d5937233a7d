/* See the header. */
#include "support/log_book.h"

#include "unit/check.h"

#include <stdlib.h>

#include "base/crc.h"

uint64_t book_sum(struct slice batch)
{
        return batch.len ? (uint64_t)batch.len << 32 | crc32c(0, batch.ptr, batch.len) : 0;
}

static void put(struct book *b, uint64_t seq, uint64_t sum)
{
        if (b->first == b->next)
                b->first = b->next = seq;
        assert_int_equal(seq, b->next);
        size_t n = b->next - b->first;
        if (n == b->cap) {
                b->cap = b->cap ? 2 * b->cap : 64;
                b->sums = xrealloc(b->sums, b->cap * sizeof(*b->sums));
        }
        b->sums[n] = sum;
        b->next++;
}

static void forget(struct book *b)
{
        b->first = b->next = 0;
        b->is_leading = b->is_in_flight = false;
}

static void on_durable(void *ctx, uint64_t seq)
{
        struct book *b = ctx;
        assert_true(b->is_leading && b->is_in_flight);
        b->is_in_flight = false;
        b->n_durable++;
        put(b, seq, b->flying_sum);
        if (b->on_durable)
                b->on_durable(b, seq, b->flying_sum);
}

static void on_failed(void *ctx, const struct problem *p)
{
        (void)ctx;
        fail_msg("the log failed: %s", p->detail);
}

static void on_notify(void *ctx)
{
        ((struct book *)ctx)->n_notified++;
}

static void on_arrived(void *ctx, uint64_t seq, struct slice batch)
{
        struct book *b = ctx;
        assert_false(b->is_leading);
        b->n_arrived++;
        put(b, seq, book_sum(batch));
}

static void on_restarted(void *ctx)
{
        struct book *b = ctx;
        assert_false(b->is_leading);
        b->n_restarted++;
        forget(b);
}

static void on_led(void *ctx, const struct log_tail *tail)
{
        struct book *b = ctx;
        assert_false(b->is_leading);
        assert_int_equal(tail->last_seq + 1, b->next);
        assert_true(tail->first_seq <= tail->last_seq + 1);
        b->is_leading = true;
        b->n_led++;
        b->tail = *tail;
        if (b->on_led)
                b->on_led(b);
}

static void on_lost(void *ctx, const struct problem *p)
{
        struct book *b = ctx;
        assert_true(b->is_leading);
        b->n_lost++;
        b->problem = *p;
        forget(b);
}

void book_open(struct book *b, struct log *log, bool wants_lead)
{
        struct log_tail tail;
        struct problem p;
        b->log = log;
        log->durable = on_durable;
        log->failed = on_failed;
        log->notify = on_notify;
        log->arrived = on_arrived;
        log->restarted = on_restarted;
        log->led = on_led;
        log->lost = on_lost;
        log->ctx = b;
        if (wants_lead)
                assert_int_equal(log->ops->lead(log, &tail, &p), ERR_UNAVAIL);
}

void book_release(struct book *b)
{
        if (b->log)
                b->log = b->log->ops->close(b->log);
        free(b->sums);
        b->sums = NULL;
        b->cap = 0;
        forget(b);
}

void book_append(struct book *b, struct slice batch)
{
        assert_true(b->is_leading && !b->is_in_flight);
        b->is_in_flight = true;
        b->flying_sum = book_sum(batch);
        assert_int_equal(b->log->ops->append(b->log, b->next, batch), OK);
}

uint64_t book_at(const struct book *b, uint64_t seq)
{
        return seq >= b->first && seq < b->next ? b->sums[seq - b->first] : 0;
}
