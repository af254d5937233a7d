/* Where does the log end, and is what is missing at its end damage or just the last write?
 *
 * One batch is in flight at a time and the next is written only after the last is synced.  So at
 * most one frame can be torn, it is the last one, and nothing behind it was ever written.  Turned
 * around: a place that should hold a frame and does not is the end of the log only if no frame
 * with a higher number exists behind it.  segment_scan() looks for one, in the head only, because
 * the seal of a segment is on disk before the first frame of the next one is written (invariant
 * 6): as long as a segment is not sealed, there is nothing in the next one.
 *
 * A footer, sealed or closed, names a batch that was durable when it was written.  If the frames
 * end before that batch, they did not end there then: damage, even where it hit the last frame of
 * the log.  It stands in a block of its own, so that one lost sector cannot take both.
 *
 * Cost: two blocks of each segment, all of the head (64 MiB at most), and of the segment before
 * it only when the head has no sound frame. */
#include "log/chain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"

void chain_release(struct chain *c)
{
        free(c->segs);
        *c = (struct chain){0};
}

void chain_push(struct chain *c, const struct segment *s)
{
        if (c->n == c->cap) {
                c->cap = c->cap ? c->cap * 2 : 16;
                c->segs = xrealloc(c->segs, c->cap * sizeof(*c->segs));
        }
        c->segs[c->n++] = *s;
}

void chain_check(const struct chain *c, size_t head)
{
        uint64_t last_seq = 0;
        ASSERT(c->n <= c->cap && head < c->n);
        for (size_t i = 0; i < c->n; i++) {
                const struct segment *seg = &c->segs[i];
                ASSERT(seg->header.number == c->segs[0].header.number + i); /* (1) */
                ASSERT(i == head || (seg->base_seq > 0) == (i < head));     /* (2) */
                ASSERT(!seg->base_seq || seg->base_seq > last_seq);         /* (3) */
                if (seg->base_seq)
                        last_seq = seg->base_seq;
        }
}

int chain_corrupt(struct problem *p, uint64_t number, uint64_t at, const char *why, ...)
{
        char name[SEGMENT_NAME_SIZE], text[PROBLEM_DETAIL_MAX];
        segment_name(number, name);
        va_list ap;
        va_start(ap, why);
        vsnprintf(text, sizeof(text), why, ap);
        va_end(ap);
        return problem_set(p, ERR_CORRUPT, "%s at byte %llu: %s", name, (unsigned long long)at,
                           text);
}

int chain_open_segment(struct disk *disk, uint64_t number, int *ret_fd, struct problem *p)
{
        char name[SEGMENT_NAME_SIZE];
        segment_name(number, name);
        return disk->ops->open(disk, name, ret_fd, p);
}

static int take_name(void *ctx, const char *name)
{
        struct chain *c = ctx;
        struct segment s = {.fd = -1};
        if (strcmp(name, CHAIN_NAME_CREATE) == 0)
                c->has_create_tmp = true;
        else if (strcmp(name, CHAIN_NAME_RECYCLE) == 0)
                c->has_recycle_tmp = true;
        else if (segment_number(name, &s.header.number))
                chain_push(c, &s);
        return OK;
}

static int by_number(const void *a, const void *b)
{
        const struct segment *x = a, *y = b;
        return x->header.number < y->header.number ? -1 : x->header.number > y->header.number;
}

int chain_list(struct disk *disk, struct chain *ret, struct problem *p)
{
        struct chain c = {0};
        int e = disk->ops->list(disk, take_name, &c, p);
        if (e) {
                chain_release(&c);
                return e;
        }
        if (c.n > 1)
                qsort(c.segs, c.n, sizeof(*c.segs), by_number);
        *ret = c;
        return OK;
}

/* Fills in the header and base_seq of s, whose number is that of the name. */
static int load_segment(struct disk *disk, struct segment *s, char *blocks, int fd,
                        struct problem *p)
{
        uint64_t number = s->header.number, size;
        int e = disk->ops->size(disk, fd, &size, p);
        if (e)
                return e;
        if (size < SEGMENT_BYTES_MIN)
                return chain_corrupt(p, number, size, "the file is cut short");
        e = disk->ops->read(disk, fd, 0, blocks, 2 * (size_t)DISK_BLOCK, p);
        if (e)
                return e;
        struct segment_header h;
        e = segment_header_decode(blocks, 0, &h);
        if (e == ERR_UNAVAIL)
                return problem_set(p, ERR_UNAVAIL,
                                   "segment %llx was written by a newer weir; this one knows "
                                   "formats up to %d and leaves it as it is",
                                   (unsigned long long)number, SEGMENT_FORMAT);
        if (e)
                return chain_corrupt(p, number, 0, "the segment header is damaged");
        if (h.number != number)
                return chain_corrupt(p, number, 0, "the header says this is segment %llx",
                                     (unsigned long long)h.number);
        if (h.size != size)
                return chain_corrupt(p, number, size < h.size ? size : h.size,
                                     "the file has %llu bytes and must have %llu",
                                     (unsigned long long)size, (unsigned long long)h.size);
        s->header = h;
        struct frame f;
        if (frame_decode(&h, blocks + SEGMENT_DATA_AT, &f))
                s->base_seq = f.seq;
        return OK;
}

static int check_order(const struct chain *c, struct problem *p)
{
        bool is_spare = false; /* has one been seen? */
        for (size_t i = 0; i < c->n; i++) {
                const struct segment *s = &c->segs[i], *before = i ? s - 1 : NULL;
                if (before && s->header.number != before->header.number + 1)
                        return chain_corrupt(p, before->header.number + 1, 0,
                                             "this segment is missing");
                if (before && s->header.size != before->header.size)
                        return chain_corrupt(p, s->header.number, 0,
                                             "its size differs from that of the segment before");
                if (s->base_seq == 0) {
                        is_spare = true;
                        continue;
                }
                if (is_spare)
                        return chain_corrupt(p, before->header.number, SEGMENT_DATA_AT,
                                             "the first frame is damaged: the next segment is in "
                                             "use, this one looks empty");
                if (before && s->base_seq <= before->base_seq)
                        return chain_corrupt(p, s->header.number, SEGMENT_DATA_AT,
                                             "its first batch is older than the segment before");
        }
        return OK;
}

int chain_load(struct disk *disk, struct chain *ret, struct problem *p)
{
        struct chain c;
        int e = chain_list(disk, &c, p);
        if (e)
                return e;
        char *blocks = aligned_alloc(DISK_BLOCK, 2 * (size_t)DISK_BLOCK);
        if (!blocks)
                e = problem_set(p, ERR_NOMEM, "no memory to read the log");
        for (size_t i = 0; !e && i < c.n; i++) {
                int fd;
                e = chain_open_segment(disk, c.segs[i].header.number, &fd, p);
                if (e)
                        break;
                e = load_segment(disk, &c.segs[i], blocks, fd, p);
                disk->ops->close(disk, fd);
        }
        free(blocks);
        if (!e)
                e = check_order(&c, p);
        if (e) {
                chain_release(&c);
                return e;
        }
        *ret = c;
        return OK;
}

/* What stands at the place where frame last_seq + 1 would be: is it one that was not finished?
 * Even a header that is not sound may show it: a torn or flipped one still has its sequence
 * number or its link to the frame before.  Only counted, never believed. */
static int count_cut(struct segment_reader *r, struct chain_tail *t, struct problem *p)
{
        if (t->at > segment_data_end(&r->header) - FRAME_HEADER_BYTES)
                return OK;
        const char *bytes;
        int e = segment_read(r, t->at, FRAME_HEADER_BYTES, &bytes, p);
        if (e)
                return e;
        struct frame f;
        if (frame_decode(&r->header, bytes, &f)) {
                t->cut_batches = 1;
                t->cut_bytes = frame_bytes(f.body_len);
        } else if (load_u64(bytes + 8) == t->last_seq + 1 ||
                   (t->last_crc != 0 && load_u32(bytes + 28) == t->last_crc)) {
                t->cut_batches = 1;
                t->cut_bytes = FRAME_HEADER_BYTES;
        }
        return OK;
}

int chain_judge_end(struct segment_reader *r, const char *why, struct chain_tail *t,
                    struct problem *p)
{
        uint64_t number = r->header.number;
        struct frame_found here;
        int e = segment_read_frame(r, t->at, false, &here, p);
        if (e)
                return e;
        bool is_due = here.frame.seq == t->last_seq + 1 && here.frame.prev == t->last_crc;
        if (here.has_header && !is_due)
                return chain_corrupt(p, number, t->at, "%s", why);
        struct footer footer;
        bool has_footer;
        e = segment_read_footer(r, &has_footer, &footer, p);
        if (e)
                return e;
        if (has_footer && footer.last_seq > t->last_seq)
                return chain_corrupt(p, number, t->at,
                                     "%s; it is not the end of the log, batch %llu was here", why,
                                     (unsigned long long)footer.last_seq);
        uint64_t later_at;
        struct frame later;
        e = segment_scan(r, t->at + FRAME_ALIGN, t->last_seq + 1, &later_at, &later, p);
        if (e == ERR_NOTFOUND)
                return count_cut(r, t, p);
        if (e)
                return e;
        return chain_corrupt(p, number, t->at,
                             "%s; it is not the end of the log, batch %llu follows at byte %llu",
                             why, (unsigned long long)later.seq, (unsigned long long)later_at);
}

/* Walks all frames of segment `i` and notes the last one.  *ret_why: why no more. */
static int walk_segment(struct segment_reader *r, const struct chain *c, size_t i,
                        struct chain_tail *t, const char **ret_why, struct problem *p)
{
        struct segment_walk w = {
                .reader = r, .at = SEGMENT_DATA_AT, .next_seq = c->segs[i].base_seq};
        struct frame_found found;
        for (;;) {
                uint64_t from = w.at;
                int e = segment_walk_next(&w, true, &found, p);
                if (e)
                        return e;
                if (found.why)
                        break;
                t->last_seg = i;
                t->last_from = from;
                t->last_to = w.at;
                t->last_seq = found.frame.seq;
                t->last_crc = found.frame.crc;
        }
        t->at = w.at;
        *ret_why = found.why;
        return OK;
}

static int turn_to(struct segment_reader *r, const struct segment *s, struct problem *p)
{
        if (r->fd >= 0)
                r->disk->ops->close(r->disk, r->fd);
        r->fd = -1;
        int fd;
        int e = chain_open_segment(r->disk, s->header.number, &fd, p);
        if (!e)
                segment_reader_turn_to(r, fd, &s->header);
        return e;
}

/* The last segment in use begins with the header of a batch whose body is not sound.  The segment
 * before must then hold the last batch; it is kept until a batch behind it is durable (invariant
 * 7). */
static int end_before_head(struct segment_reader *r, const struct chain *c, size_t head,
                           const char *why, struct chain_tail *t, struct problem *p)
{
        const struct segment *s = &c->segs[head];
        if (head == 0 && s->base_seq > 1)
                return chain_corrupt(p, s->header.number, SEGMENT_DATA_AT, "%s", why);
        if (head > 0) {
                const char *end_why;
                int e = turn_to(r, s - 1, p);
                if (!e)
                        e = walk_segment(r, c, head - 1, t, &end_why, p);
                if (e)
                        return e;
                if (t->last_seq != s->base_seq - 1)
                        return chain_corrupt(p, s[-1].header.number, t->at,
                                             "%s; the next segment begins with batch %llu", end_why,
                                             (unsigned long long)s->base_seq);
                e = turn_to(r, s, p);
                if (e)
                        return e;
        }
        t->head = head;
        t->at = SEGMENT_DATA_AT;
        return chain_judge_end(r, why, t, p);
}

/* The frames of segment `last` end with t->last_seq, and no later segment begins with a frame. */
static int end_in(struct segment_reader *r, const struct chain *c, size_t last, const char *why,
                  struct chain_tail *t, struct problem *p)
{
        struct footer footer;
        bool has_footer;
        t->head = last;
        int e = segment_read_footer(r, &has_footer, &footer, p);
        if (e)
                return e;
        if (!has_footer || footer.kind != FOOTER_SEALED || footer.last_seq > t->last_seq)
                return chain_judge_end(r, why, t, p);
        if (footer.last_seq != t->last_seq || footer.end != t->at)
                return chain_corrupt(p, c->segs[last].header.number, segment_data_end(&r->header),
                                     "sealed after batch %llu, and yet it goes on",
                                     (unsigned long long)footer.last_seq);
        if (last + 1 == c->n)
                return chain_corrupt(p, c->segs[last].header.number + 1, 0,
                                     "this segment is missing: the one before says it goes on");
        t->head = last + 1;
        t->at = SEGMENT_DATA_AT;
        e = turn_to(r, &c->segs[t->head], p);
        return e ? e : chain_judge_end(r, "no frame header", t, p);
}

static int find_tail(struct segment_reader *r, const struct chain *c, struct chain_tail *t,
                     struct problem *p)
{
        size_t in_use = 0;
        while (in_use < c->n && c->segs[in_use].base_seq != 0)
                in_use++;
        if (c->n == 0)
                return OK;
        t->at = SEGMENT_DATA_AT;
        if (in_use == 0) {
                int e = turn_to(r, &c->segs[0], p);
                return e ? e : chain_judge_end(r, "no frame header", t, p);
        }
        size_t last = in_use - 1;
        const char *why;
        int e = turn_to(r, &c->segs[last], p);
        if (!e)
                e = walk_segment(r, c, last, t, &why, p);
        if (e)
                return e;
        if (t->last_from == t->last_to)
                return end_before_head(r, c, last, why, t, p);
        return end_in(r, c, last, why, t, p);
}

int chain_find_tail(struct disk *disk, const struct chain *c, struct chain_tail *ret,
                    struct problem *p)
{
        struct segment_reader r;
        segment_reader_init(&r, disk);
        *ret = (struct chain_tail){0};
        int e = find_tail(&r, c, ret, p);
        if (r.fd >= 0)
                disk->ops->close(disk, r.fd);
        segment_reader_release(&r);
        return e;
}
