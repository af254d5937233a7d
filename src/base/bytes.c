/* The reading half of the byte formats: bounds are checked here and nowhere else.
 *
 * On the first failure the reader jumps to its end, so that every later read fails as well and a
 * decoder that loops "while bytes are left" stops. */
#include "base/bytes.h"

/* The next n bytes, or NULL and the sticky failure. */
static const char *take(struct reader *r, size_t n)
{
        const char *at = r->at;

        if (r->failed || n > reader_left(r)) {
                r->failed = true;
                r->at = r->end;
                return NULL;
        }
        if (n)
                r->at += n;
        return at;
}

struct slice reader_bytes(struct reader *r, size_t n)
{
        const char *at = take(r, n);
        return at ? slice_make(at, n) : SLICE_NONE;
}

uint8_t reader_u8(struct reader *r)
{
        const char *at = take(r, 1);
        return at ? (uint8_t)*at : 0;
}

uint32_t reader_u32(struct reader *r)
{
        const char *at = take(r, sizeof(uint32_t));
        return at ? load_u32(at) : 0;
}

uint64_t reader_u64(struct reader *r)
{
        const char *at = take(r, sizeof(uint64_t));
        return at ? load_u64(at) : 0;
}

uint64_t reader_varint(struct reader *r)
{
        uint64_t v = 0;

        for (unsigned shift = 0; shift < 64; shift += 7) {
                uint8_t byte = reader_u8(r);
                if (r->failed)
                        return 0;
                if (shift == 63 && byte > 1)
                        break; /* bits past the 64th, or an eleventh byte */
                v |= (uint64_t)(byte & 0x7f) << shift;
                if (byte < 0x80)
                        return v;
        }
        r->failed = true;
        r->at = r->end;
        return 0;
}

struct slice reader_lv(struct reader *r)
{
        uint64_t n = reader_varint(r);
        return r->failed ? SLICE_NONE : reader_bytes(r, n);
}
