/* Numbers of few bits in a byte string: what tables of small counts are packed with.
 *
 * A number may be written with a known width (bits_put), or as an Elias gamma code of itself + 1
 * (bits_put_number): 1 bit for 0, 3 for 1 and 2, 2 log2(v) + 1 for larger ones.  The first bit is
 * the lowest of the first byte.
 *
 * A reader is sticky, as `struct reader` is: after the first short read everything reads as 0 and
 * `failed` is set. */
#ifndef WEIR_BASE_BITS_H
#define WEIR_BASE_BITS_H

#include "base/buf.h"

struct bit_writer {
        struct buf *to;
        uint64_t held; /* the bits that do not fill a byte yet */
        unsigned n;    /* of them, below 8 between calls */
};

struct bit_reader {
        const uint8_t *at, *end;
        uint64_t held;
        unsigned n;
        bool failed;
};

void bits_put(struct bit_writer *w, uint64_t value, unsigned width); /* width <= 32 */
void bits_put_number(struct bit_writer *w, uint64_t value);          /* below UINT64_MAX */
void bits_put_signed(struct bit_writer *w, int64_t value);           /* small either way is short */
void bits_end(struct bit_writer *w); /* fills the last byte with zeros */

struct bit_reader bits_make(struct slice s);
uint64_t bits_get(struct bit_reader *r, unsigned width);
uint64_t bits_get_number(struct bit_reader *r);
int64_t bits_get_signed(struct bit_reader *r);

/* How many binary digits; 0 has none. */
static inline unsigned bits_width(uint64_t v)
{
        return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

#endif
