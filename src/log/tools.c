/* Looking at a log from outside: verify and salvage.
 *
 * Both are one walk over all bytes, the survey, which unlike lead() does not stop at the first
 * damaged place: it notes it, looks for the next sound frame and goes on.  Verify only counts;
 * salvage hands what it meets to a sink, which writes a new log.
 *
 * Salvage keeps numbers: a batch has the same number in the new log as in the old, and one that
 * is lost becomes an empty batch, so that the new log is as gapless as any.
 *
 * Of a damaged batch the sound records are kept, but no record is ever guessed.  A client chooses
 * most of the bytes and could have chosen some that look like a record, so a search for records is
 * out of the question.  They are taken from the start of the body to the first that is not sound;
 * those behind it only if the lengths of all records, the unsound one's as well, add up to just
 * the body and the number of records that the sound frame header tells. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "log/log_int.h"
#include "log/record.h"

struct sink {
        struct file_log *f;
        struct problem failure; /* of the new log; sticky */
        uint64_t next_seq;      /* 0 before the first batch */
        struct buf kept;        /* sound records of a damaged batch */
};

struct survey {
        struct disk *disk;
        struct segment_reader reader;
        struct file_log_report *report;
        file_log_bad_fn bad;
        void *ctx;
        struct sink *sink; /* NULL: verify */

        uint64_t next_seq; /* 0: any */
        uint32_t prev;
        bool is_prev_known;
};

/* What the first walk learns of a file. */
struct surveyed {
        uint64_t number;              /* by its name */
        struct segment_header header; /* size: as much of it as is there */
        uint64_t base_seq;            /* of its first sound frame header, 0 when it has none */
        bool is_usable;
};

static void tell(struct survey *s, uint64_t number, uint64_t at, const char *why)
{
        s->report->bad_places++;
        char name[SEGMENT_NAME_SIZE];
        segment_name(number, name);
        if (s->bad)
                s->bad(s->ctx, name, at, why);
}

/* ---- the sink ---- */

static int sink_append(struct sink *k, uint64_t seq, struct slice batch, struct problem *p)
{
        if (k->next_seq == 0) {
                k->next_seq = seq;
                atomic_store(&k->f->last_seq, seq - 1);
        }
        for (; k->next_seq <= seq; k->next_seq++) {
                struct slice b = k->next_seq == seq ? batch : SLICE_NONE;
                int e = k->f->log.ops->append(&k->f->log, k->next_seq, b);
                if (e)
                        return problem_set(p, e, "%s", k->failure.detail);
        }
        return OK;
}

/* Collects the sound records of a damaged body.  `n_records` 0: not known. */
static uint32_t sound_records(struct slice body, uint32_t n_records, struct buf *ret)
{
        struct record r;
        uint32_t n = 0, counted;
        bool is_framed = n_records > 0 && record_count(body, &counted) && counted == n_records;
        buf_clear(ret);
        while (body.len > 0) {
                struct slice rest = body;
                size_t len = RECORD_HEADER_BYTES;
                if (record_next(&rest, &r) == OK) {
                        len += r.body.len;
                        buf_put(ret, body.ptr, len);
                        n++;
                } else if (is_framed) {
                        len += load_u32(body.ptr);
                } else {
                        break;
                }
                body.ptr += len;
                body.len -= len;
        }
        return n;
}

static int salvage_body(struct survey *s, uint64_t seq, struct slice body, uint32_t n_records,
                        uint32_t *ret_kept, struct problem *p)
{
        struct sink *k = s->sink;
        *ret_kept = 0;
        if (!k || seq == 0 || seq < k->next_seq)
                return OK;
        uint32_t n = sound_records(body, n_records, &k->kept);
        if (k->kept.failed)
                return problem_set(p, ERR_NOMEM, "no memory to keep a damaged batch");
        if (n == 0)
                return OK;
        *ret_kept = n;
        s->report->records += n;
        return sink_append(k, seq, buf_slice(&k->kept), p);
}

/* ---- the survey ---- */

static int take_batch(struct survey *s, uint64_t at, const struct frame_found *found,
                      struct problem *p)
{
        const struct frame *f = &found->frame;
        uint64_t number = s->reader.header.number;
        char why[96];
        if (s->next_seq && f->seq > s->next_seq) {
                snprintf(why, sizeof(why), "batches %" PRIu64 " to %" PRIu64 " are missing",
                         s->next_seq, f->seq - 1);
                tell(s, number, at, why);
        } else if (s->next_seq && f->seq < s->next_seq) {
                tell(s, number, at, "an older batch stands here");
                return OK;
        } else if (s->is_prev_known && f->prev != s->prev) {
                tell(s, number, at, "does not continue the frame before it");
        }
        s->next_seq = f->seq + 1;
        s->prev = f->crc;
        s->is_prev_known = true;

        struct slice rest = found->body;
        struct record r;
        uint32_t n = 0;
        int e;
        while ((e = record_next(&rest, &r)) == OK)
                n++;
        s->report->batches++;
        s->report->records += n;
        s->report->bytes += frame_bytes(f->body_len);
        if (s->report->first_seq == 0)
                s->report->first_seq = f->seq;
        s->report->last_seq = f->seq;
        if (e == ERR_CORRUPT || n != f->n_records) {
                tell(s, number, at, "the frame is sound and its records are not");
                s->report->records -= n;
                return salvage_body(s, f->seq, found->body, 0, &n, p);
        }
        return s->sink ? sink_append(s->sink, f->seq, found->body, p) : OK;
}

/* The frame at `at` is not sound, and yet is not the end: the next sound one is `later`, at `next`;
 * or there is none in this file (then `later` is NULL and `next` the file's end) but in another. */
static int take_damaged(struct survey *s, uint64_t at, uint64_t next, const struct frame *later,
                        const char *why, struct problem *p)
{
        struct frame_found found;
        int e = segment_read_frame(&s->reader, at, true, &found, p);
        if (e)
                return e;
        uint64_t seq = s->next_seq;
        if (seq == 0 && later)
                seq = later->seq - 1;
        struct slice body = found.body;
        uint32_t n_records = 0, kept = 0;
        if (found.has_header) {
                seq = found.frame.seq;
                n_records = found.frame.n_records;
        } else if (next > at + FRAME_HEADER_BYTES) {
                /* The header is lost, but its place is known, and so is that of the body. */
                body.len = (size_t)(next - at - FRAME_HEADER_BYTES);
                e = segment_read(&s->reader, at + FRAME_HEADER_BYTES, body.len, &body.ptr, p);
        }
        if (!e)
                e = salvage_body(s, seq, body, n_records, &kept, p);
        if (e)
                return e;
        char text[160];
        if (s->sink)
                snprintf(text, sizeof(text), "%s (batch %" PRIu64 ", %" PRIu32 " records kept)",
                         why, seq, kept);
        tell(s, s->reader.header.number, at, s->sink ? text : why);
        if (seq >= s->next_seq)
                s->next_seq = seq + 1;
        s->is_prev_known = found.has_header;
        s->prev = found.frame.crc;
        return OK;
}

/* At a place without a sound frame.  Goes on to the next in this file; *ret_at is the end of the
 * frames when there is none.  `until_seq`: batches below it are known to have been here. */
static int skip_damage(struct survey *s, uint64_t at, const char *why, uint64_t until_seq,
                       uint64_t *ret_at, struct problem *p)
{
        struct frame later;
        *ret_at = segment_data_end(&s->reader.header);
        int e = segment_scan(&s->reader, at + FRAME_ALIGN, s->next_seq ? s->next_seq : 1, ret_at,
                             &later, p);
        if (e == OK)
                return take_damaged(s, at, *ret_at, &later, why, p);
        if (e != ERR_NOTFOUND)
                return e;
        if (s->next_seq < until_seq)
                return take_damaged(s, at, *ret_at, NULL, why, p);
        return OK; /* the end, as a start would see it: nothing, or a torn batch */
}

/* All frames of the file the reader is turned to.  `next_base`: the batch that the next file with
 * frames begins with, 0 when there is none. */
static int survey_frames(struct survey *s, uint64_t next_base, struct problem *p)
{
        const struct segment_header *h = &s->reader.header;
        uint64_t at = SEGMENT_DATA_AT, until_seq = next_base;
        struct footer footer;
        bool has_footer;
        int e = segment_read_footer(&s->reader, &has_footer, &footer, p);
        if (e)
                return e;
        if (has_footer && (footer.kind == FOOTER_SEALED || footer.last_seq >= until_seq))
                until_seq = footer.last_seq + 1;
        while (at < segment_data_end(h)) {
                struct frame_found found;
                e = segment_read_frame(&s->reader, at, true, &found, p);
                if (e)
                        return e;
                if (found.why) {
                        e = skip_damage(s, at, found.why, until_seq, &at, p);
                } else {
                        e = take_batch(s, at, &found, p);
                        at += frame_bytes(found.frame.body_len);
                }
                if (e)
                        return e;
        }
        if (next_base && !(has_footer && footer.kind == FOOTER_SEALED))
                tell(s, h->number, segment_data_end(h), "the footer that seals it is damaged");
        return OK;
}

/* The header of one file, or its copy when the header is damaged.  is_usable stays false when
 * neither is sound: nothing in such a file can be told from chance. */
static int survey_header(struct survey *s, struct surveyed *v, int fd, char *block,
                         struct problem *p)
{
        uint64_t size;
        int e = s->disk->ops->size(s->disk, fd, &size, p);
        if (e)
                return e;
        if (size < SEGMENT_BYTES_MIN) {
                tell(s, v->number, size, "the file is cut short");
                return OK;
        }
        e = s->disk->ops->read(s->disk, fd, 0, block, DISK_BLOCK, p);
        if (e)
                return e;
        e = segment_header_decode(block, 0, &v->header);
        if (e == ERR_CORRUPT) {
                tell(s, v->number, 0, "the segment header is damaged");
                e = segment_header_decode(block, SEGMENT_HEADER_COPY, &v->header);
        }
        if (e == ERR_UNAVAIL)
                return problem_set(p, e, "segment %" PRIx64 " was written by a newer weir",
                                   v->number);
        if (e)
                return OK;
        v->is_usable = true;
        if (v->header.number != v->number)
                tell(s, v->number, 0, "the header names another segment");
        if (v->header.size != size)
                tell(s, v->number, size, "the file has not the size that its header tells");
        if (size < v->header.size)
                v->header.size = size & ~(uint64_t)(DISK_BLOCK - 1);
        v->header.number = v->number; /* as the file is called in what is told */
        return OK;
}

static int find_base(struct survey *s, uint64_t *ret, struct problem *p)
{
        uint64_t at;
        struct frame f = {0};
        int e = segment_scan(&s->reader, SEGMENT_DATA_AT, 1, &at, &f, p);
        *ret = e ? 0 : f.seq;
        return e == ERR_NOTFOUND ? OK : e;
}

/* First walk: what each file is. */
static int survey_files(struct survey *s, const struct chain *c, struct surveyed *files,
                        struct problem *p)
{
        char *block = aligned_alloc(DISK_BLOCK, DISK_BLOCK);
        if (!block)
                return problem_set(p, ERR_NOMEM, "no memory to read the log");
        int e = OK;
        for (size_t i = 0; !e && i < c->n; i++) {
                struct surveyed *v = &files[i];
                v->number = c->segs[i].header.number;
                if (i > 0 && v->number != v[-1].number + 1)
                        tell(s, v[-1].number + 1, 0, "this segment is missing");
                int fd;
                e = chain_open_segment(s->disk, v->number, &fd, p);
                if (e)
                        break;
                e = survey_header(s, v, fd, block, p);
                if (!e && v->is_usable) {
                        segment_reader_turn_to(&s->reader, fd, &v->header);
                        e = find_base(s, &v->base_seq, p);
                }
                s->disk->ops->close(s->disk, fd);
        }
        free(block);
        return e;
}

/* Second walk: the frames. */
static int survey_contents(struct survey *s, const struct surveyed *files, size_t n,
                           struct problem *p)
{
        size_t in_use = n; /* behind the last file with frames */
        while (in_use > 0 && files[in_use - 1].base_seq == 0)
                in_use--;
        s->report->segments = in_use;
        s->report->spares = n - in_use;
        for (size_t i = 0; i < in_use; i++) {
                const struct surveyed *v = &files[i];
                if (!v->is_usable)
                        continue; /* told already */
                int fd;
                int e = chain_open_segment(s->disk, v->number, &fd, p);
                if (e)
                        return e;
                segment_reader_turn_to(&s->reader, fd, &v->header);
                uint64_t next_base = 0;
                for (size_t j = i + 1; j < in_use && next_base == 0; j++)
                        next_base = files[j].base_seq;
                e = survey_frames(s, next_base, p);
                s->disk->ops->close(s->disk, fd);
                if (e)
                        return e;
        }
        return OK;
}

/* A start must come to the same verdict. */
static int ask_as_a_start_would(struct survey *s, struct problem *p)
{
        struct chain c;
        struct chain_tail t;
        struct problem verdict;
        int e = chain_load(s->disk, &c, &verdict);
        if (!e) {
                e = chain_find_tail(s->disk, &c, &t, &verdict);
                chain_release(&c);
        }
        if (e == ERR_CORRUPT && s->report->bad_places == 0) {
                s->report->bad_places = 1;
                if (s->bad)
                        s->bad(s->ctx, "log", 0, verdict.detail);
        }
        if (e && e != ERR_CORRUPT) {
                *p = verdict;
                return e;
        }
        if (!e) {
                s->report->cut_batches = t.cut_batches;
                s->report->cut_bytes = t.cut_bytes;
        }
        return OK;
}

static int survey(struct survey *s, struct problem *p)
{
        struct chain c;
        int e = chain_list(s->disk, &c, p);
        if (e)
                return e;
        segment_reader_init(&s->reader, s->disk);
        struct surveyed *files = xcalloc(c.n + 1, sizeof(*files));
        e = survey_files(s, &c, files, p);
        if (!e)
                e = survey_contents(s, files, c.n, p);
        if (!e)
                e = ask_as_a_start_would(s, p);
        free(files);
        segment_reader_release(&s->reader);
        chain_release(&c);
        return e;
}

int file_log_verify(struct disk *disk, file_log_bad_fn bad, void *ctx, struct file_log_report *ret,
                    struct problem *p)
{
        struct file_log_report report = {0};
        struct survey s = {.disk = disk, .bad = bad, .ctx = ctx, .report = &report};
        int e = survey(&s, p);
        if (!e)
                *ret = report;
        return e;
}

/* ---- salvage ---- */

static void sink_durable(void *ctx, uint64_t seq)
{
        (void)ctx;
        (void)seq;
}

static void sink_failed(void *ctx, const struct problem *p)
{
        struct sink *k = ctx;
        k->failure = *p;
}

/* The segment size of the old log, so that each of its batches fits; 0 when nobody knows. */
static uint64_t size_like(struct disk *from, const struct chain *c)
{
        struct problem ignored;
        struct segment_header h = {0};
        char *block = aligned_alloc(DISK_BLOCK, DISK_BLOCK);
        for (size_t i = 0; block && h.size == 0 && i < c->n; i++) {
                int fd;
                if (chain_open_segment(from, c->segs[i].header.number, &fd, &ignored) != OK)
                        continue;
                if (from->ops->read(from, fd, 0, block, DISK_BLOCK, &ignored) == OK &&
                    segment_header_decode(block, 0, &h) != OK &&
                    segment_header_decode(block, SEGMENT_HEADER_COPY, &h) != OK)
                        h.size = 0;
                from->ops->close(from, fd);
        }
        free(block);
        return h.size;
}

static int sink_open(struct sink *k, struct disk *from, struct disk *to, struct problem *p)
{
        struct chain c;
        int e = chain_list(to, &c, p);
        if (e)
                return e;
        bool is_empty = c.n == 0 && !c.has_create_tmp && !c.has_recycle_tmp;
        chain_release(&c);
        if (!is_empty)
                return problem_set(p, ERR_BADARG, "the folder to salvage into holds a log already");
        e = chain_list(from, &c, p);
        if (e)
                return e;
        struct log *log;
        struct file_log_options o = {.segment_bytes = size_like(from, &c)};
        chain_release(&c);
        e = file_log_open(&to, &o, &log, p);
        if (e)
                return e;
        k->f = CONTAINER_OF(log, struct file_log, log);
        k->f->is_disk_borrowed = true;
        k->f->is_lazy = true;
        log->durable = sink_durable;
        log->failed = sink_failed;
        log->ctx = k;
        buf_init(&k->kept, 0);
        struct log_tail tail;
        e = log->ops->lead(log, &tail, p);
        if (e)
                log->ops->close(log);
        return e;
}

int file_log_salvage(struct disk *from, struct disk *to, file_log_bad_fn left_behind, void *ctx,
                     struct file_log_report *ret, struct problem *p)
{
        struct sink sink = {0};
        struct file_log_report report = {0};
        struct survey s = {
                .disk = from, .bad = left_behind, .ctx = ctx, .report = &report, .sink = &sink};
        int e = sink_open(&sink, from, to, p);
        if (e)
                return e;
        e = survey(&s, p);
        ASSERT(sink.f);
        if (!e)
                e = writer_sync(&sink.f->writer, p);
        sink.f->log.ops->close(&sink.f->log);
        buf_release(&sink.kept);
        if (!e)
                *ret = report;
        return e;
}
