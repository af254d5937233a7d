/* Records: what a batch is made of.
 *
 *      0        4     5         6         8            12
 *      +--------+-----+---------+---------+------------+-------- - - -
 *      | length | type| version | zero    | crc32c     | body (length bytes)
 *      +--------+-----+---------+---------+------------+-------- - - -
 *
 * The CRC covers bytes 0-7 and the body.  Little-endian.  Types and bodies belong to the caller
 * (state/effect.h); the log never looks inside. */
#ifndef WEIR_LOG_RECORD_H
#define WEIR_LOG_RECORD_H

#include "base/buf.h"
#include "base/err.h"

#define RECORD_HEADER_BYTES 12

struct record {
        uint8_t type;
        uint8_t version;
        struct slice body;
};

/* Opens a record at the end of b; body bytes are then appended; record_end closes it. */
size_t record_begin(struct buf *b, uint8_t type, uint8_t version);
void record_end(struct buf *b, size_t begun_at);

/* Takes the next record off the front of *rest.  OK, ERR_NOTFOUND at the end, ERR_CORRUPT. */
int record_next(struct slice *rest, struct record *ret) MUST_CHECK;

/* How many records the batch holds, by their lengths alone; false when the lengths do not add up.
 * Nothing is summed: this runs on the way to the disk, over bytes that were just made. */
bool record_count(struct slice batch, uint32_t *ret);

#endif
