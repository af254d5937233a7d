/* Any bytes as a block of finished jobs, and as a mark of one.
 *
 * Input: one byte of flags, then the bytes of the block.  Random bytes never have a right checksum
 * and seldom a right header, so unless a flag says otherwise the checksum is put right; and a flag
 * lets the input be a head alone, behind a header that fits it, with a body of zeros:
 *
 *      FLAG_HEAD   n u16, size of the body u16, head
 *
 * What must hold: nothing crashes; what can be opened has ascending ids, known statuses and names;
 * and jobs that can be read can be made into a block again, from which they read the same. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "history/block.h"
#include "history/block_mark.h"

enum { FLAG_KEEP_SUM = 1, FLAG_HEAD = 2, FLAG_MARK = 4 };

#define HEADER_BYTES 24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void build(struct buf *b, unsigned flags, struct slice input)
{
        static const char zeros[65536];
        if (!(flags & FLAG_HEAD) || input.len < 4) {
                buf_put_slice(b, input);
                return;
        }
        size_t body = load_u16(input.ptr + 2), head = input.len - 4;
        char header[HEADER_BYTES] = "wblk\1\3";
        memcpy(header + 6, input.ptr, 2);
        store_u32(header + 8, (uint32_t)head);
        store_u32(header + 12, (uint32_t)head);
        store_u32(header + 16, (uint32_t)body);
        store_u32(header + 20, (uint32_t)body);
        buf_put(b, header, sizeof(header));
        buf_put(b, input.ptr + 4, head);
        buf_put(b, zeros, body);
        buf_put(b, zeros, 4);
}

static void check_columns(const struct block *b)
{
        ASSERT(b->n >= 1 && b->n <= BLOCK_JOBS && b->n_names >= 1 && b->names[0].len == 0);
        for (size_t i = 0; i < b->n; i++) {
                ASSERT(i == 0 || b->id[i] > b->id[i - 1]);
                ASSERT(b->status[i] >= JOB_COMPLETE && b->status[i] <= JOB_CANCELED);
                ASSERT(b->hook[i] < b->n_names && b->queue[i] < b->n_names);
                ASSERT(b->group[i] < b->n_names && b->worker[i] < b->n_names);
                ASSERT(block_find(b, b->id[i]) == (int)i);
        }
}

/* Touches every byte, so that the sanitizer looks at them. */
static uint32_t sum_view(const struct job_view *v, uint64_t run)
{
        const struct slice texts[] = {v->hook,   v->queue, v->group,    v->worker,  v->args,
                                      v->result, v->error, v->progress, v->options, v->events};
        const uint64_t numbers[] = {v->id,
                                    run,
                                    v->status,
                                    v->priority,
                                    v->attempt,
                                    v->attempts_max,
                                    v->timeout_ms,
                                    (uint64_t)v->created_ms,
                                    (uint64_t)v->due_ms,
                                    (uint64_t)v->started_ms,
                                    (uint64_t)v->finished_ms,
                                    v->fence};
        uint32_t crc = crc32c(0, numbers, sizeof(numbers));
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                crc = crc32c(crc, &texts[i].len, sizeof(texts[i].len));
                crc = crc32c(crc, texts[i].ptr, texts[i].len);
        }
        return crc;
}

static int read_jobs(struct block *b, struct arena *arena, uint32_t *sums, struct block_maker *m)
{
        struct buf scratch = {0};
        int err = OK;
        for (size_t i = 0; i < b->n && !err; i++) {
                struct job_view v;
                err = block_view(b, i, arena, &scratch, &v);
                ASSERT(err == OK || err == ERR_CORRUPT);
                if (err)
                        break;
                sums[i] = sum_view(&v, b->run[i]);
                if (m)
                        block_maker_add(m, &v, b->run[i]);
        }
        buf_release(&scratch);
        return err;
}

static void check_mark(const struct block *b)
{
        struct block_mark m, again;
        struct buf packed = {0};
        block_mark_make(&m, b, FAMILY_DONE);
        for (size_t i = 0; i < b->n; i++)
                ASSERT(block_mark_has(&m, span_mark_hash(MARK_GROUP, b->names[b->group[i]])));
        block_mark_pack(&m, &packed);
        ASSERT(block_mark_unpack(buf_slice(&packed), &again) == OK);
        block_mark_release(&again);
        block_mark_release(&m);
        buf_release(&packed);
}

static void read_block(struct slice bytes)
{
        static uint32_t sums[BLOCK_JOBS], again[BLOCK_JOBS];
        struct block b;
        int err = block_open(&b, bytes);
        ASSERT(err == OK || err == ERR_CORRUPT);
        if (err)
                return;
        struct block_maker *m = block_maker_new();
        struct arena arena;
        struct slice made;
        arena_init(&arena, 0);
        check_columns(&b);
        check_mark(&b);
        if (read_jobs(&b, &arena, sums, m) == OK) {
                size_t n = b.n;
                ASSERT(block_maker_end(m, &made) == OK);
                block_release(&b);
                ASSERT(block_open(&b, made) == OK && b.n == n);
                ASSERT(read_jobs(&b, &arena, again, NULL) == OK);
                ASSERT(memcmp(sums, again, n * sizeof(*sums)) == 0);
        }
        block_release(&b);
        block_maker_free(m);
        arena_release(&arena);
}

static void read_mark(struct slice bytes)
{
        struct block_mark m;
        if (block_mark_unpack(bytes, &m) != OK)
                return;
        (void)block_mark_has(&m, 0x123456789abcdef0); /* either is right */
        block_mark_release(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct buf b = {0};
        if (size < 1)
                return 0;
        unsigned flags = data[0];
        build(&b, flags, slice_make(data + 1, size - 1));
        if (!(flags & FLAG_KEEP_SUM) && b.len >= 4)
                store_u32(b.ptr + b.len - 4, crc32c(0, b.ptr, b.len - 4));
        /* Memory of exactly that size: a buffer has some more. */
        char *bytes = xmalloc(b.len + !b.len);
        if (b.len)
                memcpy(bytes, b.ptr, b.len);
        if (flags & FLAG_MARK)
                read_mark(slice_make(bytes, b.len));
        else
                read_block(slice_make(bytes, b.len));
        free(bytes);
        buf_release(&b);
        return 0;
}
