/* Any bytes as the files of a log: start on them, read them, verify and salvage them.
 *
 * Input: one byte of flags, then the bytes of two segment files of 16 KiB, each as
 *
 *      u16 length, that many bytes, laid over zeros from byte 0 (raw) or behind a sound header
 *
 * Random bytes never have a right checksum, so unless a flag says raw, sums are put right: that of
 * each frame header that begins with the tag "TAG1" or "TAG2", of its body, and of the footer.
 *
 * What must hold: nothing crashes; what verify calls sound can be started on and read; and what was
 * read once is there again after a batch was appended. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "base/say.h"
#include "log/file.h"
#include "log/record.h"
#include "log/segment.h"
#include "support/sim_disk.h"

#define SEGMENT (16 * KIB)

enum { FLAG_RAW = 1, FLAG_KEEP_BODY_SUMS = 2, FLAG_KEEP_HEADER_SUMS = 4, FLAG_ONE_FILE = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore_durable(void *ctx, uint64_t seq)
{
        (void)ctx;
        (void)seq;
}

static void ignore_failed(void *ctx, const struct problem *p)
{
        (void)ctx;
        (void)p;
}

static struct segment_header header_of(uint64_t number)
{
        struct segment_header h = {.number = number, .size = SEGMENT, .seed = 7};
        memcpy(&h.tag, number == 1 ? "TAG1" : "TAG2", sizeof(h.tag));
        return h;
}

/* Puts the sums right of whatever begins with the tag. */
static void mend(const struct segment_header *h, char *file, unsigned flags)
{
        for (size_t at = SEGMENT_DATA_AT; at + 2ULL * FRAME_HEADER_BYTES <= SEGMENT; at += 8) {
                char *b = file + at;
                if (load_u32(b) != h->tag)
                        continue;
                if (at == SEGMENT - DISK_BLOCK) {
                        struct footer f = {.kind = load_u32(b + 24) % 2 ? FOOTER_CLOSED
                                                                        : FOOTER_SEALED,
                                           .last_seq = load_u64(b + 8),
                                           .end = load_u64(b + 16)};
                        footer_encode(h, &f, b);
                        continue;
                }
                struct frame f = {.seq = load_u64(b + 8),
                                  .body_len = load_u32(b + 16),
                                  .n_records = load_u32(b + 20),
                                  .body_crc = load_u32(b + 24),
                                  .prev = load_u32(b + 28)};
                if (!(flags & FLAG_KEEP_BODY_SUMS) && f.body_len <= SEGMENT - at - 32)
                        f.body_crc = crc32c(0, b + FRAME_HEADER_BYTES, f.body_len);
                if (!(flags & FLAG_KEEP_HEADER_SUMS))
                        frame_encode(h, &f, b);
        }
}

static void put_segment(struct sim_disk *disk, uint64_t number, struct reader *r, unsigned flags)
{
        static char file[SEGMENT];
        memset(file, 0, sizeof(file));
        struct segment_header h = header_of(number);
        size_t at = flags & FLAG_RAW ? 0 : SEGMENT_DATA_AT;
        if (at)
                segment_header_encode(&h, file);
        size_t len = reader_u8(r);
        len |= (size_t)reader_u8(r) << 8;
        if (len > reader_left(r))
                len = reader_left(r);
        if (len > SEGMENT - at)
                len = SEGMENT - at;
        struct slice bytes = reader_bytes(r, len);
        if (bytes.len)
                memcpy(file + at, bytes.ptr, bytes.len);
        if (!(flags & FLAG_RAW))
                mend(&h, file, flags);
        char name[SEGMENT_NAME_SIZE];
        segment_name(number, name);
        sim_disk_put_file(disk, name, file, sizeof(file));
}

struct content {
        uint64_t hash, n, last_seq;
};

static int take(void *ctx, uint64_t seq, struct slice batch)
{
        struct content *c = ctx;
        ASSERT(c->n == 0 || seq == c->last_seq + 1);
        c->last_seq = seq;
        c->n++;
        c->hash = c->hash * 31 + crc32c((uint32_t)seq, batch.ptr, batch.len);
        return OK;
}

static int start(struct sim_disk *disk, struct log **ret, struct log_tail *tail)
{
        struct problem p;
        struct disk *d = &disk->disk;
        struct file_log_options o = {.segment_bytes = SEGMENT, .seed = 99};
        int e = file_log_open(&d, &o, ret, &p);
        ASSERT(e == OK);
        (*ret)->durable = ignore_durable;
        (*ret)->failed = ignore_failed;
        e = (*ret)->ops->lead(*ret, tail, &p);
        ASSERT(e == OK || e == ERR_CORRUPT || e == ERR_UNAVAIL);
        if (e)
                (*ret)->ops->close(*ret);
        return e;
}

/* Starts, reads, appends, starts again: OK when it could be read. */
static int use(struct sim_disk *disk)
{
        struct log *log;
        struct log_tail tail;
        struct problem p;
        struct content before = {0}, after = {0};
        int e = start(disk, &log, &tail);
        if (e)
                return e;
        e = log->ops->read(log, 0, take, &before, &p);
        if (!e)
                ASSERT(log->ops->append(log, tail.last_seq + 1, SLICE_NONE) == OK);
        log->ops->close(log);
        if (e)
                return e;
        (void)take(&before, tail.last_seq + 1, SLICE_NONE);
        e = start(disk, &log, &tail);
        ASSERT(e == OK && tail.cut_batches == 0);
        e = log->ops->read(log, 0, take, &after, &p);
        ASSERT(e == OK && after.hash == before.hash && after.n == before.n);
        log->ops->close(log);
        return OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct sim_disk from, copy, to;
        say_setup(SAY_ERROR, false);
        struct reader r = reader_make(slice_make(data, size));
        unsigned flags = reader_u8(&r);
        sim_disk_init(&from, 1);
        sim_disk_init(&to, 2);
        put_segment(&from, 1, &r, flags);
        if (!(flags & FLAG_ONE_FILE))
                put_segment(&from, 2, &r, flags);
        sim_disk_copy(&copy, &from);

        int e = use(&from);
        struct file_log_report report;
        struct problem p;
        int v = file_log_verify(&copy.disk, NULL, NULL, &report, &p);
        ASSERT(v == OK || v == ERR_UNAVAIL);
        ASSERT(v != OK || report.bad_places > 0 || e == OK);
        /* A gap is filled with empty batches, and a forged number makes a gap of any size. */
        to.capacity_bytes = 4 * SEGMENT;
        if (v == OK) {
                v = file_log_salvage(&copy.disk, &to.disk, NULL, NULL, &report, &p);
                ASSERT(v == OK || v == ERR_NOSPACE);
        }
        if (v == OK) {
                v = file_log_verify(&to.disk, NULL, NULL, &report, &p);
                ASSERT(v == OK && report.bad_places == 0);
        }
        sim_disk_release(&from);
        sim_disk_release(&copy);
        sim_disk_release(&to);
        return 0;
}
