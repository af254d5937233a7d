/* A bounded, growing byte buffer with a sticky error.
 *
 * Appends past `max` or without memory set `failed` and become no-ops; the caller checks once at
 * the end.  A buffer owns its bytes; buf_release() gives them back.  Embedded object; all zeros are
 * an empty one without a bound. */
#ifndef WEIR_BASE_BUF_H
#define WEIR_BASE_BUF_H

#include "base/defs.h"
#include "base/slice.h"

struct buf {
        char *ptr;
        size_t len;
        size_t cap;
        size_t max; /* 0 = unbounded (only for sizes that no client decides) */
        bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory and forgets the error */
/* Room for n more bytes at b->ptr + b->len; false (and sticky) when that may not be. */
bool buf_reserve_slow(struct buf *b, size_t n);

static inline bool buf_reserve(struct buf *b, size_t n)
{
        return (!b->failed && n <= b->cap - b->len) || buf_reserve_slow(b, n);
}

static inline void buf_put(struct buf *b, const void *ptr, size_t n)
{
        if (n && buf_reserve(b, n)) {
                memcpy(b->ptr + b->len, ptr, n);
                b->len += n;
        }
}

static inline void buf_put_slice(struct buf *b, struct slice s)
{
        buf_put(b, s.ptr, s.len);
}

static inline void buf_put_byte(struct buf *b, char c)
{
        if (buf_reserve(b, 1))
                b->ptr[b->len++] = c;
}

void buf_put_str(struct buf *b, const char *s);
void buf_put_i64(struct buf *b, int64_t v); /* decimal */
void buf_put_u64(struct buf *b, uint64_t v);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
void buf_drop_front(struct buf *b, size_t n); /* moves the rest down */

static inline struct slice buf_slice(const struct buf *b)
{
        return (struct slice){b->ptr, b->len};
}

/* The buffer as a C string; adds (but does not count) a NUL. */
const char *buf_cstr(struct buf *b);

#endif
