/* The way of a batch to the disk: one copy, one write.
 *
 * Frames are packed, writes are whole blocks.  The buffer therefore begins with the bytes that the
 * last block already holds, the new frame is copied behind them, the rest of its last block is
 * cleared, and all of it is written at once.  The block that was shared is written with the same
 * bytes again: a crash leaves each of its sectors old or new, and both hold the earlier frame.
 *
 * A frame larger than the buffer is written in pieces, which costs nothing: at that size the disk
 * is busy with the bytes and not with the calls.
 *
 * The clearing behind the frame matters as well: what stands where the next frame will begin is
 * zero or stale, never a header of this life of the file (invariant 5). */
#include "log/writer.h"

#include <stdlib.h>

#include "base/crc.h"
#include "log/record.h"

#define BUF_BYTES (1 * MIB)

int writer_init(struct writer *w, struct disk *disk, uint64_t largest, struct problem *p)
{
        *w = (struct writer){.disk = disk, .fd = -1};
        w->cap = largest < BUF_BYTES ? ALIGN_UP(largest, (size_t)DISK_BLOCK) : BUF_BYTES;
        w->buf = aligned_alloc(DISK_BLOCK, w->cap);
        w->footer = aligned_alloc(DISK_BLOCK, DISK_BLOCK);
        if (!w->buf || !w->footer)
                return problem_set(p, ERR_NOMEM, "no memory for the log's write buffer");
        return OK;
}

void writer_release(struct writer *w)
{
        free(w->buf);
        free(w->footer);
        *w = (struct writer){.fd = -1};
}

void writer_turn_to(struct writer *w, int fd, const struct segment_header *h)
{
        w->fd = fd;
        w->header = *h;
        w->at = SEGMENT_DATA_AT;
}

bool writer_fits(const struct writer *w, size_t body_len)
{
        return w->at + frame_bytes(body_len) <= segment_data_end(&w->header);
}

bool writer_is_empty(const struct writer *w)
{
        return w->at == SEGMENT_DATA_AT;
}

static uint64_t block_of(uint64_t at)
{
        return at & ~(uint64_t)(DISK_BLOCK - 1);
}

/* Writes `from` to `keep` again, and zeros from there to `to`. */
static int rewrite(struct writer *w, uint64_t from, uint64_t keep, uint64_t to, struct problem *p)
{
        const struct disk_ops *ops = w->disk->ops;
        to = ALIGN_UP(to, (uint64_t)DISK_BLOCK);
        for (uint64_t at = block_of(from); at < to;) {
                size_t n = to - at < w->cap ? to - at : w->cap;
                int e = ops->read(w->disk, w->fd, at, w->buf, n, p);
                if (e)
                        return e;
                if (at + n > keep) {
                        size_t kept = keep > at ? keep - at : 0;
                        memset(w->buf + kept, 0, n - kept);
                }
                e = ops->write(w->disk, w->fd, at, w->buf, n, p);
                if (e)
                        return e;
                at += n;
        }
        return writer_sync(w, p);
}

int writer_resume(struct writer *w, uint64_t from, uint64_t at, struct problem *p)
{
        /* The header of the next frame is where a torn one may stand: all of it is cleared. */
        uint64_t end = segment_data_end(&w->header);
        uint64_t to = at + FRAME_HEADER_BYTES < end ? at + FRAME_HEADER_BYTES : end;
        int e = rewrite(w, from, at, to, p);
        if (e)
                return e;
        w->at = at;
        return w->disk->ops->read(w->disk, w->fd, block_of(at), w->buf, DISK_BLOCK, p);
}

int writer_repeat(struct writer *w, uint64_t from, uint64_t to, struct problem *p)
{
        to = ALIGN_UP(to, (uint64_t)DISK_BLOCK);
        return rewrite(w, from, to, to, p);
}

static int put(struct writer *w, struct frame *f, struct slice body, struct problem *p)
{
        const struct disk_ops *ops = w->disk->ops;
        uint64_t off = block_of(w->at), end = w->at + frame_bytes(body.len);
        size_t fill = w->at - off;
        f->prev = w->prev;
        frame_encode(&w->header, f, w->buf + fill);
        fill += FRAME_HEADER_BYTES;
        while (body.len > 0) {
                size_t n = body.len < w->cap - fill ? body.len : w->cap - fill;
                memcpy(w->buf + fill, body.ptr, n);
                fill += n;
                body.ptr += n;
                body.len -= n;
                if (fill < w->cap)
                        break;
                int e = ops->write(w->disk, w->fd, off, w->buf, w->cap, p);
                if (e)
                        return e;
                off += w->cap;
                fill = 0;
        }
        if (fill > 0) {
                size_t n = ALIGN_UP(fill, (size_t)DISK_BLOCK);
                memset(w->buf + fill, 0, n - fill);
                int e = ops->write(w->disk, w->fd, off, w->buf, n, p);
                if (e)
                        return e;
        }
        w->at = end;
        w->prev = f->crc;
        if (block_of(end) != off && end != block_of(end))
                memcpy(w->buf, w->buf + (block_of(end) - off), end - block_of(end));
        return OK;
}

void writer_check(const struct writer *w)
{
        ASSERT(w->buf && w->footer && w->fd >= 0);
        ASSERT(w->at >= SEGMENT_DATA_AT && w->at <= segment_data_end(&w->header) && w->at % 8 == 0);
        ASSERT(w->cap > 0 && w->cap % DISK_BLOCK == 0);
}

int writer_put_batch(struct writer *w, uint64_t seq, struct slice batch, struct problem *p)
{
        ASSERT(writer_fits(w, batch.len) && seq > 0);
        if (IS_CHECKED)
                writer_check(w);
        struct frame f = {
                .seq = seq,
                .body_len = (uint32_t)batch.len,
                .body_crc = crc32c(0, batch.ptr, batch.len),
        };
        bool is_batch = record_count(batch, &f.n_records);
        ASSERT(is_batch); /* else nobody could read it back */
        return put(w, &f, batch, p);
}

int writer_put_footer(struct writer *w, enum footer_kind kind, uint64_t last_seq, struct problem *p)
{
        struct footer f = {.kind = kind, .last_seq = last_seq, .end = w->at};
        footer_encode(&w->header, &f, w->footer);
        int e = w->disk->ops->write(w->disk, w->fd, segment_data_end(&w->header), w->footer,
                                    DISK_BLOCK, p);
        return e ? e : writer_sync(w, p);
}

int writer_sync(struct writer *w, struct problem *p)
{
        return w->disk->ops->sync(w->disk, w->fd, p);
}
