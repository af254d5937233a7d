/* Blocks for the tests: made of jobs, opened, and compared with them field by field. */
#ifndef WEIR_TESTS_UNIT_BLOCK_BOX_H
#define WEIR_TESTS_UNIT_BLOCK_BOX_H

#include "api/limits.h"
#include "base/crc.h"
#include "history/block.h"
#include "history_box.h"

/* The bytes are the caller's; runs NULL: all 0. */
static inline struct slice block_of(struct job *const *jobs, const uint64_t *runs, size_t n)
{
        struct block_maker *m = block_maker_new();
        struct slice made;
        for (size_t i = 0; i < n; i++)
                block_maker_add(m, &jobs[i]->view, runs ? runs[i] : 0);
        assert_int_equal(block_maker_len(m), n);
        size_t raw_bytes = block_maker_raw_bytes(m);
        assert_int_equal(block_maker_end(m, &made), OK);
        assert_true(load_u32(made.ptr + 8) + load_u32(made.ptr + 16) <= raw_bytes);
        char *bytes = xmalloc(made.len);
        memcpy(bytes, made.ptr, made.len);
        struct slice ret = slice_make(bytes, made.len);
        block_maker_free(m);
        return ret;
}

static inline void block_drop(struct slice bytes)
{
        free((void *)(uintptr_t)bytes.ptr);
}

static inline void assert_same_columns(const struct block *b, size_t i, const struct job_view *v)
{
        assert_int_equal(b->id[i], v->id);
        assert_int_equal(b->fence[i], v->fence);
        assert_int_equal(b->created_ms[i], v->created_ms);
        assert_int_equal(b->due_ms[i], v->due_ms);
        assert_int_equal(b->started_ms[i], v->started_ms);
        assert_int_equal(b->finished_ms[i], v->finished_ms);
        assert_int_equal(b->status[i], v->status);
        assert_int_equal(b->priority[i], v->priority);
        assert_int_equal(b->attempt[i], v->attempt);
        assert_int_equal(b->attempts_max[i], v->attempts_max);
        assert_int_equal(b->timeout_ms[i], v->timeout_ms);
        assert_true(slice_eq(b->names[b->hook[i]], v->hook));
        assert_true(slice_eq(b->names[b->queue[i]], v->queue));
        assert_true(slice_eq(b->names[b->group[i]], v->group));
        assert_true(slice_eq(b->names[b->worker[i]], v->worker));
}

/* The block holds exactly these jobs. */
static inline void assert_holds(struct slice bytes, struct job *const *jobs, const uint64_t *runs,
                                size_t n)
{
        struct block b;
        struct arena arena;
        struct buf scratch;
        arena_init(&arena, 0);
        buf_init(&scratch, 0);
        assert_int_equal(block_open(&b, bytes), OK);
        assert_int_equal(b.n, n);
        for (size_t i = 0; i < n; i++) {
                const struct job_view *want = &jobs[i]->view;
                struct job_view got;
                assert_same_columns(&b, i, want);
                assert_int_equal(b.run[i], runs ? runs[i] : 0);
                assert_int_equal(block_find(&b, want->id), i);
                assert_int_equal(block_view(&b, i, &arena, &scratch, &got), OK);
                assert_same_view(&got, want);
                assert_false(got.is_damaged);
                arena_clear(&arena);
        }
        block_release(&b);
        arena_release(&arena);
        buf_release(&scratch);
}

/* Makes a block of the jobs, which must come back, and drops both. */
static inline void assert_round_trip(struct job **jobs, const uint64_t *runs, size_t n)
{
        struct slice bytes = block_of(jobs, runs, n);
        assert_holds(bytes, jobs, runs, n);
        block_drop(bytes);
        jobs_drop(jobs, n);
}

/* Puts the checksum right. */
static inline void mend_block(char *bytes, size_t len)
{
        store_u32(bytes + len - 4, crc32c(0, bytes, len - 4));
}

#endif
