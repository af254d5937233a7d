/* The bytes of a segment file, and a reader over them.  log/README.md draws them.
 *
 * A segment is one block with its header, then frames packed at 8-byte alignment, and one block
 * with its footer.  A frame is a 32-byte header and a body: a batch.  The footer says how far the
 * frames reached when the segment was left or the log closed.  Frames and footer are told from
 * remains of an earlier life of the file by `tag` and `seed`, which are drawn anew each time the
 * file is prepared (invariant 3). */
#ifndef WEIR_LOG_SEGMENT_H
#define WEIR_LOG_SEGMENT_H

#include "log/disk.h"

#define SEGMENT_FORMAT      1 /* raise it with any change of these bytes; README says how */
#define SEGMENT_HEADER_COPY 2048
#define SEGMENT_DATA_AT     DISK_BLOCK
#define SEGMENT_BYTES_MIN   (16 * KIB)
#define SEGMENT_BYTES_MAX   (1024 * MIB)
#define SEGMENT_NAME_SIZE   32

#define FRAME_HEADER_BYTES  32
#define FRAME_ALIGN         8
#define FRAME_SEQ_MAX       (UINT64_MAX / 2) /* so that "the next one" never overflows */

struct segment_header {
        uint64_t number; /* the same as in the file's name */
        uint64_t size;   /* of the file, bytes */
        uint32_t tag;    /* first word of each frame in this file; random, not 0 */
        uint32_t seed;   /* start value of each frame header's sum; random */
};

struct frame {
        uint64_t seq;
        uint32_t body_len;
        uint32_t n_records;
        uint32_t body_crc;
        uint32_t prev; /* `crc` of the frame before, also across segments */
        uint32_t crc;  /* of this header */
};

enum footer_kind {
        FOOTER_CLOSED = 1, /* the log was closed here in good order; it may have gone on since */
        FOOTER_SEALED = 2, /* the log goes on in the next segment */
};

struct footer {
        enum footer_kind kind;
        uint64_t last_seq; /* durable then: a batch up to this one that is missing is damage */
        uint64_t end;      /* offset behind it */
};

/* Where the frames end at the latest, and the footer stands (invariant 4). */
static inline uint64_t segment_data_end(const struct segment_header *h)
{
        return h->size - DISK_BLOCK;
}

static inline uint64_t frame_bytes(uint64_t body_len)
{
        return ALIGN_UP(FRAME_HEADER_BYTES + body_len, (uint64_t)FRAME_ALIGN);
}

/* "0000000000000001.seg" */
void segment_name(uint64_t number, char ret[SEGMENT_NAME_SIZE]);
bool segment_number(const char *name, uint64_t *ret); /* false: not the name of a segment */

/* Fills one block: the header and its copy, the rest zero. */
void segment_header_encode(const struct segment_header *h, char *ret_block);
/* The header at `at` (0 or SEGMENT_HEADER_COPY) of the block.  ERR_CORRUPT; ERR_UNAVAIL when it
 * is sound but of a later format. */
int segment_header_decode(const char *block, size_t at, struct segment_header *ret) MUST_CHECK;

/* Fills in f->crc as well. */
void frame_encode(const struct segment_header *h, struct frame *f, char *ret_bytes);
/* Is there a frame header of this life of the file?  Looks at FRAME_HEADER_BYTES. */
bool frame_decode(const struct segment_header *h, const char *bytes, struct frame *ret);

void footer_encode(const struct segment_header *h, const struct footer *f, char *ret_block);
bool footer_decode(const struct segment_header *h, const char *block, struct footer *ret);

/* Reads one segment through a window of aligned memory.  Embedded; owns the window, borrows the
 * disk and the handle. */
struct segment_reader {
        struct disk *disk;
        int fd;
        struct segment_header header;
        char *window;
        uint64_t at; /* file offset of the window */
        size_t len, cap;
};

void segment_reader_init(struct segment_reader *r, struct disk *disk);
void segment_reader_release(struct segment_reader *r);
/* Turns to another file; the window's memory is kept. */
void segment_reader_turn_to(struct segment_reader *r, int fd, const struct segment_header *h);

/* Borrowed until the next call.  The range must lie within the file. */
int segment_read(struct segment_reader *r, uint64_t at, size_t n, const char **ret,
                 struct problem *p) MUST_CHECK;

struct frame_found {
        struct frame frame;
        struct slice body; /* borrowed until the next read */
        const char *why;   /* NULL: sound */
        bool has_header;   /* the header is sound, and `frame` filled, whatever the body is */
};
/* The frame at `at`, on its own. */
int segment_read_frame(struct segment_reader *r, uint64_t at, bool with_body,
                       struct frame_found *ret, struct problem *p) MUST_CHECK;

/* Walks the frames of one segment in order and checks that they are one chain. */
struct segment_walk {
        struct segment_reader *reader;
        uint64_t at;       /* of the next frame */
        uint64_t next_seq; /* 0: whatever the first frame says */
        uint32_t prev;     /* `crc` of the last frame */
        bool is_prev_known;
};

/* The next frame, which must continue the chain; otherwise `why` says what is wrong and the walk
 * stays where it is. */
int segment_walk_next(struct segment_walk *w, bool with_body, struct frame_found *ret,
                      struct problem *p) MUST_CHECK;

/* false: there is none of this life of the file. */
int segment_read_footer(struct segment_reader *r, bool *ret_is_there, struct footer *ret,
                        struct problem *p) MUST_CHECK;

/* The first frame header from `from` on that belongs to this life of the file and has at least
 * sequence number `min_seq`.  ERR_NOTFOUND when there is none. */
int segment_scan(struct segment_reader *r, uint64_t from, uint64_t min_seq, uint64_t *ret_at,
                 struct frame *ret, struct problem *p) MUST_CHECK;

#endif
