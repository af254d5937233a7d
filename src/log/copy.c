/* A copy of a log that is being written meanwhile, from outside and without stopping anybody.
 *
 * Segments are copied in order.  Whether one is sealed is asked before it is copied: the next one
 * has a frame, and that is written only after the seal is on disk (invariant 6).  A sealed segment
 * does not change, so it is copied as it is.  The first that is not sealed is the last to be
 * copied: its frames are walked first, and only the bytes of those that are sound and one chain are
 * taken, so a frame that is being written, or that comes while we copy, is left out whole.  The
 * copy looks like a log after a crash at that moment, which every start knows how to go on from.
 *
 * Meanwhile the front may be trimmed and its files recycled, under our reading.  A segment counts
 * as copied only if its name still has the same life of the file afterwards.  When it does not,
 * what was copied so far is dropped, and the copy begins again at what is the first now: that is
 * whole without the front, since the objects that lived there were written again, durably, before
 * the trim, and the end is read after it. */
#include <stdlib.h>

#include "log/chain.h"
#include "log/file.h"

#define COPY_BYTES     (1 * MIB)
#define BEGINNINGS_MAX 100 /* a log that is trimmed faster than it is read */

struct copying {
        struct disk *from, *to;
        struct segment_reader reader;
        char *block; /* COPY_BYTES, aligned */
        struct file_log_report *report;
};

enum outcome { COPIED, COPIED_LAST, GONE };

/* The header of a segment as it is now; ERR_NOTFOUND when it is none of that number any more. */
static int read_header(struct copying *c, uint64_t number, struct segment_header *ret, int *ret_fd,
                       struct problem *p)
{
        int e = chain_open_segment(c->from, number, ret_fd, p);
        if (e)
                return e;
        e = c->from->ops->read(c->from, *ret_fd, 0, c->block, DISK_BLOCK, p);
        if (!e)
                e = segment_header_decode(c->block, 0, ret);
        if (!e && ret->number == number)
                return OK;
        c->from->ops->close(c->from, *ret_fd);
        if (e == ERR_UNAVAIL)
                return problem_set(p, e, "the log was written by a newer weir");
        /* Being recycled just now, or damaged: the next look tells. */
        return e == ERR_IO ? e : problem_set(p, ERR_NOTFOUND, "segment is not whole");
}

static int is_sealed(struct copying *c, uint64_t number, bool *ret, struct problem *p)
{
        struct segment_header h;
        struct frame f;
        int fd;
        *ret = false;
        int e = read_header(c, number + 1, &h, &fd, p);
        if (e)
                return e == ERR_NOTFOUND ? OK : e;
        e = c->from->ops->read(c->from, fd, SEGMENT_DATA_AT, c->block, DISK_BLOCK, p);
        if (!e)
                *ret = frame_decode(&h, c->block, &f);
        c->from->ops->close(c->from, fd);
        return e;
}

/* The frame at walk->at is not sound.  OK when nothing is behind it: it is the end, or being
 * written. */
static int judge_end(struct copying *c, const struct segment_walk *walk,
                     const struct frame_found *found, struct problem *p)
{
        struct chain_tail tail = {.at = walk->at};
        if (walk->next_seq) {
                tail.last_seq = walk->next_seq - 1;
                tail.last_crc = walk->prev;
        } else if (found->has_header) { /* the first of the segment */
                tail.last_seq = found->frame.seq - 1;
                tail.last_crc = found->frame.prev;
        }
        return chain_judge_end(&c->reader, found->why, &tail, p);
}

/* Where the sound frames of the last segment end; ERR_CORRUPT when others are behind them.  Those
 * may have come since the end was read: batches are written one after the other, so the end is then
 * whole when it is read again. */
static int find_end(struct copying *c, int fd, const struct segment_header *h, uint64_t *ret,
                    struct problem *p)
{
        struct segment_walk walk = {.reader = &c->reader, .at = SEGMENT_DATA_AT};
        struct frame_found found = {0};
        struct problem damage;
        int e = OK;
        segment_reader_turn_to(&c->reader, fd, h);
        while (!e && walk.at < segment_data_end(h)) {
                e = segment_walk_next(&walk, true, &found, p);
                if (e || !found.why)
                        continue;
                e = judge_end(c, &walk, &found, &damage);
                if (e != ERR_CORRUPT)
                        break;
                segment_reader_turn_to(&c->reader, fd, h); /* forgets what was read */
                e = segment_walk_next(&walk, true, &found, p);
                if (!e && found.why) {
                        *p = damage;
                        return ERR_CORRUPT;
                }
        }
        *ret = walk.at;
        return e;
}

/* The first `end` bytes; what follows them in the new file is zero. */
static int copy_bytes(struct copying *c, int from_fd, int to_fd, uint64_t end, struct problem *p)
{
        int e = OK;
        for (uint64_t at = 0; !e && at < end; at += COPY_BYTES) {
                uint64_t left = end - at < COPY_BYTES ? end - at : COPY_BYTES;
                size_t n = (size_t)ALIGN_UP(left, (uint64_t)DISK_BLOCK);
                e = c->from->ops->read(c->from, from_fd, at, c->block, n, p);
                if (e)
                        break;
                memset(c->block + left, 0, n - (size_t)left);
                e = c->to->ops->write(c->to, to_fd, at, c->block, n, p);
        }
        if (!e)
                e = c->to->ops->sync(c->to, to_fd, p);
        if (!e)
                c->report->bytes += end;
        return e;
}

static int copy_opened(struct copying *c, int fd, const struct segment_header *h, uint64_t end,
                       struct problem *p)
{
        char name[SEGMENT_NAME_SIZE];
        int to_fd;
        segment_name(h->number, name);
        int e = c->to->ops->create(c->to, name, h->size, &to_fd, p);
        if (e)
                return e;
        e = copy_bytes(c, fd, to_fd, end, p);
        c->to->ops->close(c->to, to_fd);
        return e;
}

static int copy_segment(struct copying *c, uint64_t number, enum outcome *ret, struct problem *p)
{
        struct segment_header h = {0}, after = {0};
        bool has_next;
        int fd = -1, after_fd = -1;
        *ret = GONE;
        int e = is_sealed(c, number, &has_next, p);
        if (!e)
                e = read_header(c, number, &h, &fd, p);
        if (e)
                return e == ERR_NOTFOUND ? OK : e;
        uint64_t end = h.size;
        if (!has_next)
                e = find_end(c, fd, &h, &end, p);
        if (!e)
                e = copy_opened(c, fd, &h, end, p);
        c->from->ops->close(c->from, fd);
        if (e && e != ERR_CORRUPT)
                return e;
        struct problem other;
        int later = read_header(c, number, &after, &after_fd, &other);
        if (later == ERR_NOTFOUND)
                return OK;
        if (later) {
                *p = other;
                return later;
        }
        c->from->ops->close(c->from, after_fd);
        if (after.tag != h.tag || after.seed != h.seed)
                return OK; /* recycled while it was read: what was seen there is no damage */
        *ret = has_next ? COPIED : COPIED_LAST;
        return e;
}

static int drop_name(void *ctx, const char *name)
{
        struct disk *to = ctx;
        struct problem ignored;
        uint64_t number;
        if (segment_number(name, &number))
                return to->ops->remove(to, name, &ignored);
        return OK;
}

/* From the first segment there is now to the end; GONE when it has to begin again. */
static int copy_chain(struct copying *c, enum outcome *ret, struct problem *p)
{
        struct chain chain;
        *c->report = (struct file_log_report){0};
        *ret = COPIED;
        int e = chain_list(c->from, &chain, p);
        if (e)
                return e;
        uint64_t number = chain.n ? chain.segs[0].header.number : 0;
        if (!chain.n)
                *ret = COPIED_LAST; /* a log that nothing was ever written to */
        chain_release(&chain);
        for (; !e && *ret == COPIED; number++) {
                e = copy_segment(c, number, ret, p);
                c->report->segments += *ret != GONE;
        }
        if (!e && *ret == GONE)
                e = c->to->ops->list(c->to, drop_name, c->to, p);
        return e;
}

int file_log_copy(struct disk *from, struct disk *to, struct file_log_report *ret,
                  struct problem *p)
{
        struct copying c = {.from = from, .to = to, .report = ret};
        enum outcome outcome = GONE;
        int e = OK;
        c.block = aligned_alloc(DISK_BLOCK, COPY_BYTES);
        if (!c.block)
                return problem_set(p, ERR_NOMEM, "no memory to copy the log");
        segment_reader_init(&c.reader, from);
        for (int i = 0; !e && outcome == GONE && i < BEGINNINGS_MAX; i++)
                e = copy_chain(&c, &outcome, p);
        if (!e && outcome == GONE)
                e = problem_set(p, ERR_UNAVAIL,
                                "the log is trimmed faster than it can be copied, or damaged: "
                                "'weir log verify' tells");
        if (!e)
                e = to->ops->sync_names(to, p);
        segment_reader_release(&c.reader);
        free(c.block);
        return e;
}
