/* See bits.h. */
#include "base/bits.h"

#define WIDTH_MAX 32

void bits_put(struct bit_writer *w, uint64_t value, unsigned width)
{
        ASSERT(width <= WIDTH_MAX && value >> width == 0);
        w->held |= value << w->n;
        w->n += width;
        while (w->n >= 8) {
                buf_put_byte(w->to, (char)(w->held & 0xff));
                w->held >>= 8;
                w->n -= 8;
        }
}

static void put_wide(struct bit_writer *w, uint64_t value, unsigned width)
{
        unsigned low = width < WIDTH_MAX ? width : WIDTH_MAX;
        bits_put(w, value & ((1ULL << low) - 1), low);
        if (width > low)
                bits_put(w, value >> low, width - low);
}

void bits_put_number(struct bit_writer *w, uint64_t value)
{
        ASSERT(value < UINT64_MAX);
        uint64_t v = value + 1;
        unsigned more = bits_width(v) - 1; /* digits after the first, which is a 1 */
        put_wide(w, 0, more);
        bits_put(w, 1, 1);
        put_wide(w, v & ((1ULL << more) - 1), more);
}

void bits_put_signed(struct bit_writer *w, int64_t value)
{
        bits_put_number(w, value < 0 ? (uint64_t) - (value + 1) * 2 + 1 : (uint64_t)value * 2);
}

void bits_end(struct bit_writer *w)
{
        if (w->n)
                bits_put(w, 0, 8 - w->n);
}

struct bit_reader bits_make(struct slice s)
{
        const uint8_t *at = (const uint8_t *)s.ptr;
        return (struct bit_reader){.at = at, .end = s.len ? at + s.len : at};
}

uint64_t bits_get(struct bit_reader *r, unsigned width)
{
        ASSERT(width <= WIDTH_MAX);
        while (r->n < width && r->at < r->end) {
                r->held |= (uint64_t)*r->at++ << r->n;
                r->n += 8;
        }
        if (r->n < width || r->failed) {
                r->failed = true;
                return 0;
        }
        uint64_t value = r->held & ((1ULL << width) - 1);
        r->held >>= width;
        r->n -= width;
        return value;
}

static uint64_t get_wide(struct bit_reader *r, unsigned width)
{
        unsigned low = width < WIDTH_MAX ? width : WIDTH_MAX;
        uint64_t value = bits_get(r, low);
        return width > low ? value | bits_get(r, width - low) << low : value;
}

uint64_t bits_get_number(struct bit_reader *r)
{
        unsigned more = 0;
        while (!r->failed && !bits_get(r, 1))
                if (++more > 63)
                        r->failed = true;
        if (r->failed)
                return 0;
        uint64_t low = get_wide(r, more);
        return r->failed ? 0 : (1ULL << more | low) - 1;
}

int64_t bits_get_signed(struct bit_reader *r)
{
        uint64_t v = bits_get_number(r);
        return v & 1 ? -(int64_t)(v >> 1) - 1 : (int64_t)(v >> 1);
}
