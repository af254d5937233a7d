/* A rollup: what happened in a minute, ten minutes or an hour, by name.
 *
 * Packed it is one string of bytes with a checksum, which the archive keeps (core/archive.h) and
 * merges into longer ones.  Merging is adding: counts and histograms are summed, gauges and maxima
 * compared; so in whatever order minutes are merged, the result is the same, but for which names
 * become `other` beyond TALLY_NAMES.
 *
 * Layout, integers as varints unless said otherwise:
 *
 *      crc32c (4 bytes, of all that follows)   version (1 byte)   at   span   at - since
 *      then sections, each with its length in bytes before it, so that a reader can pass over it:
 *      totals   their number, then each
 *      a kind   its number of rows after `other`, their names (how many bytes are those of the name
 *               before, then the rest as length and bytes), then the cells in bits (base/bits.h),
 *               that of `other` first
 *
 * With 500 busy hooks at 40,000 jobs/s a minute is 17 KB, ten minutes 21 KB and an hour 25 KB
 * (test_rollup.c prints it): 103 MB for 30 days.  Varints, compressed with LZ4, took twice as much:
 * there is little to find in counts but their number of digits. */
#ifndef WEIR_CORE_ROLLUP_H
#define WEIR_CORE_ROLLUP_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/tally.h"

/* Totals of all names: counts, which are summed, then gauges, of which the largest counts.  Their
 * meaning is that of numbers/series.h.  Append only, each behind its own. */
#define ROLLUP_COUNTS 10
#define ROLLUP_GAUGES 2
#define ROLLUP_TOTALS (ROLLUP_COUNTS + ROLLUP_GAUGES)

/* How long they are, in minutes. */
enum { ROLLUP_MINUTE = 1, ROLLUP_TEN = 10, ROLLUP_HOUR = 60 };

struct rollup_row {
        struct slice name;
        union tally_cell cell;
};

/* Sorted by name; the first one has none and is `other`. */
struct rollup_table {
        struct rollup_row *rows; /* owned */
        size_t n;                /* 0: not read; else at least 1 */
};

struct rollup {
        int64_t at;    /* Unix minutes: its first */
        int64_t since; /* weir was there from this minute on; its counts are of `at` and later */
        unsigned span; /* minutes */
        uint64_t totals[ROLLUP_TOTALS];
        struct rollup_table tables[TALLY_KINDS];
        struct arena arena; /* names of one that was unpacked or merged into */
};

void rollup_init(struct rollup *r);
void rollup_release(struct rollup *r);

/* All tables must be there. */
void rollup_pack(const struct rollup *r, struct buf *ret);
/* Reads the tables of the kinds in the set (1 << kind) and leaves the others empty.  `ret` was
 * initialised.  ERR_CORRUPT: the bytes are damaged; *ret may only be released. */
#define ROLLUP_ALL_KINDS ((1u << TALLY_KINDS) - 1)
int rollup_unpack(struct slice body, unsigned kinds, struct rollup *ret) MUST_CHECK;

/* Adds `from`, a shorter one within the time of `to` or of the same; both have all tables.  The
 * names are copied. */
int rollup_merge(struct rollup *to, const struct rollup *from) MUST_CHECK;
void tally_cell_merge(enum tally_kind kind, union tally_cell *to, const union tally_cell *from);

/* NULL when the name is not among the rows; "other" is the first. */
const union tally_cell *rollup_find(const struct rollup_table *t, struct slice name);

#endif
