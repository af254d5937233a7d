/* The bytes of a segment file, and a reader over them.  log/README.md draws them.
 *
 * A segment is one block with its header and then frames, packed at 8-byte alignment.  A frame is
 * a 32-byte header and a body: a batch.  A mark is a frame without a body that says how the
 * frames before it end.  Frames are told from remains of an earlier life of the file by `tag` and
 * `seed`, which are drawn anew each time the file is prepared (invariant 3). */
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
/* Every frame leaves room behind it for the mark that ends the segment (invariant 4). */
#define FRAME_MARK_BYTES FRAME_HEADER_BYTES

struct segment_header {
        uint64_t number; /* the same as in the file's name */
        uint64_t size;   /* of the file, bytes */
        uint32_t tag;    /* first word of each frame in this file; random, not 0 */
        uint32_t seed;   /* start value of each frame header's sum; random */
};

enum frame_kind {
        FRAME_BATCH,
        FRAME_CLOSE, /* the log was closed here in good order */
        FRAME_SEAL,  /* the log goes on in the next segment */
};

struct frame {
        enum frame_kind kind;
        uint64_t seq; /* of a mark: that of the last batch before it */
        uint32_t body_len;
        uint32_t n_records;
        uint32_t body_crc;
        uint32_t prev; /* `crc` of the frame before, also across segments; of a mark: its complement */
        uint32_t crc;  /* of this header */
};

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
        struct slice body;    /* borrowed until the next read */
        const char *why;      /* NULL: sound */
        bool has_header;      /* the header is sound, and `frame` filled, whatever the body is */
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
 * stays where it is.  Also stays in front of a mark, which is delivered as a frame. */
int segment_walk_next(struct segment_walk *w, bool with_body, struct frame_found *ret,
                      struct problem *p) MUST_CHECK;

/* The first frame header from `from` on that belongs to this life of the file and has at least
 * sequence number `min_seq`.  ERR_NOTFOUND when there is none. */
int segment_scan(struct segment_reader *r, uint64_t from, uint64_t min_seq, uint64_t *ret_at,
                 struct frame *ret, struct problem *p) MUST_CHECK;

#endif
