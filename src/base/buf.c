/* Growing bytes with one check at the end.
 *
 * Capacity grows by half, at least BUF_MIN, never past `max`, so cap <= max holds and the inline
 * fast path needs no look at max.  One byte more than `cap` is always allocated: that is where
 * buf_cstr() and buf_printf() put their NUL, also in a buffer that is full to its limit.
 *
 * Decimal numbers are written two digits at a time from a table, since replies are mostly
 * numbers: half the divisions of the plain loop. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BUF_MIN    64
#define U64_DIGITS 20 /* of UINT64_MAX */

void buf_init(struct buf *b, size_t max)
{
        *b = (struct buf){.max = max};
}

void buf_release(struct buf *b)
{
        free(b->ptr);
        *b = (struct buf){.max = b->max};
}

void buf_clear(struct buf *b)
{
        b->len = 0;
        b->failed = false;
}

bool buf_reserve_slow(struct buf *b, size_t n)
{
        size_t need, cap;

        if (b->failed)
                return false;
        if (__builtin_add_overflow(b->len, n, &need) || need >= PTRDIFF_MAX ||
            (b->max && need > b->max)) {
                b->failed = true;
                return false;
        }
        if (need <= b->cap)
                return true;
        cap = b->cap + b->cap / 2;
        if (cap < BUF_MIN)
                cap = BUF_MIN;
        if (cap < need)
                cap = need;
        if (b->max && cap > b->max)
                cap = b->max;
        char *ptr = realloc(b->ptr, cap + 1);
        if (!ptr) {
                b->failed = true;
                return false;
        }
        b->ptr = ptr;
        b->cap = cap;
        return true;
}

void buf_put_str(struct buf *b, const char *s)
{
        buf_put(b, s, strlen(s));
}

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324"
                                  "25262728293031323334353637383940414243444546474849"
                                  "50515253545556575859606162636465666768697071727374"
                                  "75767778798081828384858687888990919293949596979899";

/* Writes v so that it ends before `end`; returns where it begins. */
static char *u64_before(char *end, uint64_t v)
{
        while (v >= 100) {
                end -= 2;
                memcpy(end, digit_pairs + v % 100 * 2, 2);
                v /= 100;
        }
        if (v >= 10) {
                end -= 2;
                memcpy(end, digit_pairs + v * 2, 2);
        } else {
                *--end = (char)('0' + v);
        }
        return end;
}

void buf_put_u64(struct buf *b, uint64_t v)
{
        char text[U64_DIGITS];
        char *end = text + sizeof(text);
        char *at = u64_before(end, v);

        buf_put(b, at, (size_t)(end - at));
}

void buf_put_i64(struct buf *b, int64_t v)
{
        char text[1 + U64_DIGITS];
        char *end = text + sizeof(text);
        char *at = u64_before(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);

        if (v < 0)
                *--at = '-';
        buf_put(b, at, (size_t)(end - at));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
        va_list args;

        if (!buf_reserve(b, 1))
                return;
        va_start(args, fmt);
        int n = vsnprintf(b->ptr + b->len, b->cap - b->len + 1, fmt, args);
        va_end(args);
        if (n < 0) {
                b->failed = true;
                return;
        }
        if ((size_t)n > b->cap - b->len) {
                if (!buf_reserve(b, (size_t)n))
                        return;
                va_start(args, fmt);
                n = vsnprintf(b->ptr + b->len, b->cap - b->len + 1, fmt, args);
                va_end(args);
                ASSERT(n >= 0 && (size_t)n <= b->cap - b->len);
        }
        b->len += (size_t)n;
}

void buf_drop_front(struct buf *b, size_t n)
{
        ASSERT(n <= b->len);
        if (n == 0)
                return;
        b->len -= n;
        if (b->len)
                memmove(b->ptr, b->ptr + n, b->len);
}

const char *buf_cstr(struct buf *b)
{
        if (!b->ptr)
                return "";
        b->ptr[b->len] = '\0';
        return b->ptr;
}
