/* Little-endian integers and varints in byte strings: the alphabet of every on-disk format.
 *
 * A reader is sticky: after the first short or bad read, everything reads as zero and `failed`
 * is set, so a decoder checks once at its end. */
#ifndef WEIR_BASE_BYTES_H
#define WEIR_BASE_BYTES_H

#include "base/buf.h"

static inline void store_u16(void *p, uint16_t v)
{
        memcpy(p, &v, sizeof(v));
}
static inline void store_u32(void *p, uint32_t v)
{
        memcpy(p, &v, sizeof(v));
}
static inline void store_u64(void *p, uint64_t v)
{
        memcpy(p, &v, sizeof(v));
}
static inline uint16_t load_u16(const void *p)
{
        uint16_t v;
        memcpy(&v, p, sizeof(v));
        return v;
}
static inline uint32_t load_u32(const void *p)
{
        uint32_t v;
        memcpy(&v, p, sizeof(v));
        return v;
}
static inline uint64_t load_u64(const void *p)
{
        uint64_t v;
        memcpy(&v, p, sizeof(v));
        return v;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the formats are little-endian and these accessors copy");

/* LEB128; at most 10 bytes. */
static inline void buf_put_varint(struct buf *b, uint64_t v)
{
        if (!buf_reserve(b, 10))
                return;
        char *p = b->ptr + b->len;
        while (v >= 0x80) {
                *p++ = (char)(v | 0x80);
                v >>= 7;
        }
        *p++ = (char)v;
        b->len = (size_t)(p - b->ptr);
}

/* A varint length and the bytes. */
static inline void buf_put_lv(struct buf *b, struct slice s)
{
        buf_put_varint(b, s.len);
        buf_put_slice(b, s);
}

struct reader {
        const char *at;
        const char *end;
        bool failed;
};

static inline struct reader reader_make(struct slice s)
{
        /* An empty slice may have no pointer, and adding to NULL is undefined. */
        return (struct reader){s.ptr, s.len ? s.ptr + s.len : s.ptr, false};
}

static inline size_t reader_left(const struct reader *r)
{
        return (size_t)(r->end - r->at);
}

struct slice reader_bytes(struct reader *r, size_t n); /* borrowed from the source */
uint8_t reader_u8(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);
uint64_t reader_varint(struct reader *r);
struct slice reader_lv(struct reader *r);

#endif
