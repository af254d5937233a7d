/* Encoding, decoding and reading of segment files.
 *
 * Two decisions carry the rest:
 *
 * A frame is recognised by 64 bits that only this life of the file knows: its `tag` as first word
 * and its `seed` under the header's sum.  A recycled file is full of old frames, and of payloads
 * that a client chose; neither can be taken for a frame, so nothing needs to be wiped before a
 * file is used again, and a search for "is there a later frame?" has no false alarms.  (The
 * rejected alternative, telling old frames by their lower sequence number, believes a payload
 * that looks like a frame.)
 *
 * The body has a plain sum of its own, stored in the header.  So a damaged body is told from a
 * damaged header, and the frames behind a damaged body are found without a search.
 *
 * The reader goes through a window of aligned memory, a MiB at a time, larger when a frame is:
 * O_DIRECT needs the alignment, and the disk is asked rather than the page cache (README, step 6
 * of recovery). */
#include "log/segment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/crc.h"

static const char MAGIC[8] = {'w', 'e', 'i', 'r', 's', 'e', 'g', '\n'};

/* Offsets in the segment header.  They keep their meaning in every format, so that an older weir
 * can tell a newer file from a damaged one. */
enum {
        AT_MAGIC = 0,
        AT_FORMAT = 8,
        AT_NUMBER = 16,
        AT_SIZE = 24,
        AT_TAG = 32,
        AT_SEED = 36,
        AT_CRC = 60,
        HEADER_BYTES = 64,
};

/* Offsets in a frame header. */
enum {
        AT_FRAME_TAG = 0,
        AT_FRAME_CRC = 4,
        AT_FRAME_SEQ = 8, /* the sum begins here */
        AT_FRAME_BODY_LEN = 16,
        AT_FRAME_RECORDS = 20,
        AT_FRAME_BODY_CRC = 24,
        AT_FRAME_PREV = 28,
};

/* Offsets in the footer. */
enum {
        AT_FOOTER_TAG = 0,
        AT_FOOTER_CRC = 4,
        AT_FOOTER_SEQ = 8, /* the sum begins here */
        AT_FOOTER_END = 16,
        AT_FOOTER_KIND = 24,
        FOOTER_BYTES = 32,
};
/* Not a frame header, even where the sum would allow it. */
#define FOOTER_SEED  0x746f6f66U

#define WINDOW_BYTES (1 * MIB)

void segment_name(uint64_t number, char ret[SEGMENT_NAME_SIZE])
{
        snprintf(ret, SEGMENT_NAME_SIZE, "%016" PRIx64 ".seg", number);
}

bool segment_number(const char *name, uint64_t *ret)
{
        if (strlen(name) != 20 || strcmp(name + 16, ".seg") != 0)
                return false;
        uint64_t number = 0;
        for (int i = 0; i < 16; i++) {
                char c = name[i];
                if (c >= '0' && c <= '9')
                        number = number << 4 | (uint64_t)(c - '0');
                else if (c >= 'a' && c <= 'f')
                        number = number << 4 | (uint64_t)(c - 'a' + 10);
                else
                        return false;
        }
        *ret = number;
        return true;
}

void segment_header_encode(const struct segment_header *h, char *ret_block)
{
        memset(ret_block, 0, DISK_BLOCK);
        memcpy(ret_block + AT_MAGIC, MAGIC, sizeof(MAGIC));
        store_u32(ret_block + AT_FORMAT, SEGMENT_FORMAT);
        store_u64(ret_block + AT_NUMBER, h->number);
        store_u64(ret_block + AT_SIZE, h->size);
        store_u32(ret_block + AT_TAG, h->tag);
        store_u32(ret_block + AT_SEED, h->seed);
        store_u32(ret_block + AT_CRC, crc32c(0, ret_block, AT_CRC));
        memcpy(ret_block + SEGMENT_HEADER_COPY, ret_block, HEADER_BYTES);
}

int segment_header_decode(const char *block, size_t at, struct segment_header *ret)
{
        const char *b = block + at;
        if (memcmp(b + AT_MAGIC, MAGIC, sizeof(MAGIC)) != 0 ||
            load_u32(b + AT_CRC) != crc32c(0, b, AT_CRC))
                return ERR_CORRUPT;
        if (load_u32(b + AT_FORMAT) > SEGMENT_FORMAT)
                return ERR_UNAVAIL;
        *ret = (struct segment_header){
                .number = load_u64(b + AT_NUMBER),
                .size = load_u64(b + AT_SIZE),
                .tag = load_u32(b + AT_TAG),
                .seed = load_u32(b + AT_SEED),
        };
        if (ret->size < SEGMENT_BYTES_MIN || ret->size > SEGMENT_BYTES_MAX ||
            ret->size % DISK_BLOCK != 0)
                return ERR_CORRUPT;
        return OK;
}

static uint32_t header_crc(const struct segment_header *h, const char *bytes)
{
        return crc32c(h->seed, bytes + AT_FRAME_SEQ, FRAME_HEADER_BYTES - AT_FRAME_SEQ);
}

void frame_encode(const struct segment_header *h, struct frame *f, char *ret_bytes)
{
        store_u32(ret_bytes + AT_FRAME_TAG, h->tag);
        store_u64(ret_bytes + AT_FRAME_SEQ, f->seq);
        store_u32(ret_bytes + AT_FRAME_BODY_LEN, f->body_len);
        store_u32(ret_bytes + AT_FRAME_RECORDS, f->n_records);
        store_u32(ret_bytes + AT_FRAME_BODY_CRC, f->body_crc);
        store_u32(ret_bytes + AT_FRAME_PREV, f->prev);
        f->crc = header_crc(h, ret_bytes);
        store_u32(ret_bytes + AT_FRAME_CRC, f->crc);
}

bool frame_decode(const struct segment_header *h, const char *bytes, struct frame *ret)
{
        if (load_u32(bytes + AT_FRAME_TAG) != h->tag ||
            load_u32(bytes + AT_FRAME_CRC) != header_crc(h, bytes))
                return false;
        *ret = (struct frame){
                .seq = load_u64(bytes + AT_FRAME_SEQ),
                .body_len = load_u32(bytes + AT_FRAME_BODY_LEN),
                .n_records = load_u32(bytes + AT_FRAME_RECORDS),
                .body_crc = load_u32(bytes + AT_FRAME_BODY_CRC),
                .prev = load_u32(bytes + AT_FRAME_PREV),
                .crc = load_u32(bytes + AT_FRAME_CRC),
        };
        return ret->seq >= 1 && ret->seq <= FRAME_SEQ_MAX;
}

static uint32_t footer_crc(const struct segment_header *h, const char *bytes)
{
        return crc32c(h->seed ^ FOOTER_SEED, bytes + AT_FOOTER_SEQ, FOOTER_BYTES - AT_FOOTER_SEQ);
}

void footer_encode(const struct segment_header *h, const struct footer *f, char *ret_block)
{
        memset(ret_block, 0, DISK_BLOCK);
        store_u32(ret_block + AT_FOOTER_TAG, h->tag);
        store_u64(ret_block + AT_FOOTER_SEQ, f->last_seq);
        store_u64(ret_block + AT_FOOTER_END, f->end);
        store_u32(ret_block + AT_FOOTER_KIND, f->kind);
        store_u32(ret_block + AT_FOOTER_CRC, footer_crc(h, ret_block));
}

bool footer_decode(const struct segment_header *h, const char *block, struct footer *ret)
{
        if (load_u32(block + AT_FOOTER_TAG) != h->tag ||
            load_u32(block + AT_FOOTER_CRC) != footer_crc(h, block))
                return false;
        uint32_t kind = load_u32(block + AT_FOOTER_KIND);
        if (kind != FOOTER_CLOSED && kind != FOOTER_SEALED)
                return false;
        *ret = (struct footer){
                .kind = (enum footer_kind)kind,
                .last_seq = load_u64(block + AT_FOOTER_SEQ),
                .end = load_u64(block + AT_FOOTER_END),
        };
        return true;
}

void segment_reader_init(struct segment_reader *r, struct disk *disk)
{
        *r = (struct segment_reader){.disk = disk, .fd = -1};
}

void segment_reader_release(struct segment_reader *r)
{
        free(r->window);
        *r = (struct segment_reader){.fd = -1};
}

void segment_reader_turn_to(struct segment_reader *r, int fd, const struct segment_header *h)
{
        r->fd = fd;
        r->header = *h;
        r->at = 0;
        r->len = 0;
}

static int window_grow(struct segment_reader *r, size_t need, struct problem *p)
{
        if (need <= r->cap)
                return OK;
        char *window = aligned_alloc(DISK_BLOCK, need);
        if (!window)
                return problem_set(p, ERR_NOMEM, "no memory to read a frame of %zu bytes", need);
        free(r->window);
        r->window = window;
        r->cap = need;
        r->len = 0;
        return OK;
}

int segment_read(struct segment_reader *r, uint64_t at, size_t n, const char **ret,
                 struct problem *p)
{
        ASSERT(at <= r->header.size && n <= r->header.size - at);
        if (at < r->at || at + n > r->at + r->len) {
                uint64_t from = at & ~(uint64_t)(DISK_BLOCK - 1);
                uint64_t to = ALIGN_UP(at + n, (uint64_t)DISK_BLOCK);
                if (to - from < WINDOW_BYTES)
                        to = from + WINDOW_BYTES;
                if (to > r->header.size)
                        to = r->header.size;
                int e = window_grow(r, to - from, p);
                if (e)
                        return e;
                r->len = 0;
                e = r->disk->ops->read(r->disk, r->fd, from, r->window, to - from, p);
                if (e)
                        return e;
                r->at = from;
                r->len = to - from;
        }
        *ret = r->window + (at - r->at);
        return OK;
}

int segment_read_frame(struct segment_reader *r, uint64_t at, bool with_body,
                       struct frame_found *ret, struct problem *p)
{
        *ret = (struct frame_found){.why = "no frame header"};
        uint64_t end = segment_data_end(&r->header);
        if (at > end - FRAME_HEADER_BYTES)
                return OK;
        const char *bytes;
        int e = segment_read(r, at, FRAME_HEADER_BYTES, &bytes, p);
        if (e)
                return e;
        struct frame f;
        if (!frame_decode(&r->header, bytes, &f))
                return OK;
        if (frame_bytes(f.body_len) > end - at) {
                ret->why = "frame reaches beyond the end of the segment";
                return OK;
        }
        ret->frame = f;
        ret->has_header = true;
        if (!with_body) {
                ret->why = NULL;
                return OK;
        }
        e = segment_read(r, at + FRAME_HEADER_BYTES, f.body_len, &bytes, p);
        if (e)
                return e;
        ret->body = slice_make(bytes, f.body_len);
        ret->why = crc32c(0, bytes, f.body_len) == f.body_crc ? NULL : "wrong checksum of the body";
        return OK;
}

static const char *chain_fault(const struct segment_walk *w, const struct frame *f)
{
        if (w->next_seq != 0 && f->seq != w->next_seq)
                return "not the batch that must follow here";
        if (w->is_prev_known && f->prev != w->prev)
                return "does not continue the frame before it";
        return NULL;
}

int segment_walk_next(struct segment_walk *w, bool with_body, struct frame_found *ret,
                      struct problem *p)
{
        int e = segment_read_frame(w->reader, w->at, with_body, ret, p);
        if (e)
                return e;
        if (ret->has_header) {
                const char *fault = chain_fault(w, &ret->frame);
                if (fault)
                        ret->why = fault;
        }
        if (ret->why)
                return OK;
        w->at += frame_bytes(ret->frame.body_len);
        w->next_seq = ret->frame.seq + 1;
        w->prev = ret->frame.crc;
        w->is_prev_known = true;
        return OK;
}

int segment_read_footer(struct segment_reader *r, bool *ret_is_there, struct footer *ret,
                        struct problem *p)
{
        const char *block;
        int e = segment_read(r, segment_data_end(&r->header), DISK_BLOCK, &block, p);
        if (!e)
                *ret_is_there = footer_decode(&r->header, block, ret);
        return e;
}

int segment_scan(struct segment_reader *r, uint64_t from, uint64_t min_seq, uint64_t *ret_at,
                 struct frame *ret, struct problem *p)
{
        uint64_t at = ALIGN_UP(from, (uint64_t)FRAME_ALIGN);
        /* The footer's block as well: a disk may have put a block in the wrong place. */
        uint64_t end = r->header.size - FRAME_HEADER_BYTES;
        while (at <= end) {
                const char *bytes;
                int e = segment_read(r, at, FRAME_HEADER_BYTES, &bytes, p);
                if (e)
                        return e;
                /* As far as the window reaches without asking again. */
                uint64_t stop = r->at + r->len - FRAME_HEADER_BYTES;
                for (; at <= stop; at += FRAME_ALIGN, bytes += FRAME_ALIGN) {
                        if (load_u32(bytes) == r->header.tag &&
                            frame_decode(&r->header, bytes, ret) && ret->seq >= min_seq) {
                                *ret_at = at;
                                return OK;
                        }
                }
        }
        return ERR_NOTFOUND;
}
