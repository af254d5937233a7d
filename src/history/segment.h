/* Segment files: where the bytes of blocks are.  They lie beside the history file and are called
 * PATH-blocks-000001 and so on, so that `mv history.db*` takes them along.
 *
 *      header, 4096 bytes: magic "wseg" | version u32 | store id 16 bytes | number u32 | CRC32C u32
 *      blocks, one after the other, each at a multiple of 8 bytes
 *
 * A file is made with SEGMENT_BYTES reserved on the disk (fallocate), so that what was accepted can
 * be archived on a disk that others fill; with less on a disk that has little left, so that others
 * have something too.  A block that is larger gets a file of its own.  What is
 * behind the last block that a committed mark knows is nothing: a crash leaves it, and it is
 * written over.  The space of dropped blocks goes back to the disk (a hole); a file without blocks
 * is removed, unless it is the last one.
 *
 * A store id, made with the history file, is in each header: files of another history are never
 * read, written over or removed.
 *
 * Threads: one thread writes; segments_read(), segments_bytes() and segments_room() may run on any
 * beside it.  What is read must not be dropped meanwhile: the owner sees to that (blocks.h). */
#ifndef WEIR_HISTORY_SEGMENT_H
#define WEIR_HISTORY_SEGMENT_H

#include "base/buf.h"
#include "base/err.h"

#define SEGMENT_BYTES        (64 * MIB)
#define SEGMENT_HEADER_BYTES 4096
#define SEGMENT_ID_BYTES     16

struct segments;

struct segment_place {
        uint32_t segment, bytes;
        uint64_t offset;
};

/* `path` of the history file, copied.  Opens nothing yet. */
struct segments *segments_new(const char *path, const uint8_t id[SEGMENT_ID_BYTES], bool is_reader);
struct segments *segments_free(struct segments *s); /* closes; NULL is fine; returns NULL */

/* At the start: a block is there.  Call it for each, then segments_settle(), which finds the end of
 * the last file, removes files of this store without blocks, and makes sure of the others: a file
 * that is missing or has another header is ERR_CORRUPT, named in *p. */
void segments_know(struct segments *s, const struct segment_place *place);
int segments_settle(struct segments *s, struct problem *p) MUST_CHECK;

/* Writes at the end; makes another file when it does not fit.  Durable after segments_sync(). */
int segments_append(struct segments *s, struct slice bytes, struct segment_place *ret,
                    struct problem *p) MUST_CHECK;
int segments_sync(struct segments *s, struct problem *p) MUST_CHECK;
/* Forgets what was appended since the last segments_keep(). */
void segments_keep(struct segments *s);
void segments_undo(struct segments *s);
/* The block, one that was kept, is gone for good: gives its space back, and the file when it was
 * the last one in it.  What the system refuses costs space and is no error. */
void segments_drop(struct segments *s, const struct segment_place *place);

int segments_read(struct segments *s, const struct segment_place *place, struct buf *ret,
                  struct problem *p) MUST_CHECK;
/* Removed, moved or replaced while weir runs: ERR_IO. */
int segments_check_place(struct segments *s, struct problem *p) MUST_CHECK;

uint64_t segments_bytes(const struct segments *s); /* on the disk */
uint64_t segments_room(const struct segments *s);  /* reserved in the last file and not used */

#endif
