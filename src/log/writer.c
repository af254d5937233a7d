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

int writer_init(struct writer *w, struct disk *disk, struct problem *p)
{
        *w = (struct writer){.disk = disk, .fd = -1};
        w->buf = aligned_alloc(DISK_BLOCK, BUF_BYTES);
        if (!w->buf)
                return problem_set(p, ERR_NOMEM, "no memory for the log's write buffer");
        return OK;
}

void writer_release(struct writer *w)
{
        free(w->buf);
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
        return w->at + frame_bytes(body_len) + FRAME_MARK_BYTES <= w->header.size;
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
                size_t n = to - at < BUF_BYTES ? to - at : BUF_BYTES;
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
        int e = rewrite(w, from, at, at + FRAME_HEADER_BYTES, p);
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
        f->prev = f->kind == FRAME_BATCH ? w->prev : ~w->prev;
        frame_encode(&w->header, f, w->buf + fill);
        fill += FRAME_HEADER_BYTES;
        while (body.len > 0) {
                size_t n = body.len < BUF_BYTES - fill ? body.len : BUF_BYTES - fill;
                memcpy(w->buf + fill, body.ptr, n);
                fill += n;
                body.ptr += n;
                body.len -= n;
                if (fill < BUF_BYTES)
                        break;
                int e = ops->write(w->disk, w->fd, off, w->buf, BUF_BYTES, p);
                if (e)
                        return e;
                off += BUF_BYTES;
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
        if (block_of(end) != off && end != block_of(end))
                memcpy(w->buf, w->buf + (block_of(end) - off), end - block_of(end));
        return OK;
}

int writer_put_batch(struct writer *w, uint64_t seq, struct slice batch, struct problem *p)
{
        ASSERT(writer_fits(w, batch.len));
        struct frame f = {
                .kind = FRAME_BATCH,
                .seq = seq,
                .body_len = (uint32_t)batch.len,
                .body_crc = crc32c(0, batch.ptr, batch.len),
        };
        bool is_batch = record_count(batch, &f.n_records);
        ASSERT(is_batch); /* else nobody could read it back */
        int e = put(w, &f, batch, p);
        if (!e)
                w->prev = f.crc;
        return e;
}

int writer_put_mark(struct writer *w, enum frame_kind kind, uint64_t last_seq, struct problem *p)
{
        struct frame f = {.kind = kind, .seq = last_seq};
        return put(w, &f, SLICE_NONE, p);
}

int writer_sync(struct writer *w, struct problem *p)
{
        return w->disk->ops->sync(w->disk, w->fd, p);
}
