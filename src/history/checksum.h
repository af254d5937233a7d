/* The checksum of a row of the history file.
 *
 * A job that is read from history can become work again, so a flipped bit in the file must never
 * reach a worker.  SQLite has no checksums of its own.  Each row therefore carries two CRC32Cs in
 * one number, the column `checksum`:
 *
 *      low half    every other column but `result`, in the order of ARCHIVE_COLUMN_MAP
 *      high half   `result`; 0 when there is none
 *
 * They are apart because retention may drop a result before its job (archive_writer.h clears the
 * high half then).  A number is 8 bytes, little-endian; a text is its length as such a number and
 * its bytes; NULL is an empty text.  Cost: some 50 ns for a job of 200 bytes. */
#ifndef WEIR_HISTORY_CHECKSUM_H
#define WEIR_HISTORY_CHECKSUM_H

#include <sqlite3.h>

#include "base/slice.h"
#include "history/archive_file.h"

/* Begin with {0} and add the columns in their order. */
struct checksum {
        uint32_t row, result;
};

void checksum_number(struct checksum *c, int64_t number);
void checksum_bytes(struct checksum *c, enum archive_column column, struct slice bytes);
int64_t checksum_value(const struct checksum *c);

enum checksum_verdict {
        CHECKSUM_GOOD,
        CHECKSUM_NONE, /* written before rows had one, in a file that an older weir made */
        CHECKSUM_BAD,
};

/* Must every row of the file have one?  True of files made since version 4. */
int checksum_is_required(sqlite3 *db, bool *ret) MUST_CHECK; /* an SQLite code */
/* `row` is at a row of SELECT * FROM job. */
enum checksum_verdict checksum_check(sqlite3_stmt *row, bool is_required);

#endif
