/* See shown.h. */
#include "base/shown.h"

#include <stdio.h>

size_t shown_len(struct slice s, size_t max)
{
        if (s.len <= max)
                return s.len;
        size_t n = max;
        while (n > 0 && max - n < 3 && ((unsigned char)s.ptr[n] & 0xc0) == 0x80)
                n--;
        bool is_within = n + utf8_sequence(s.ptr + n, s.len - n) > max;
        return is_within ? n : max;
}

/* U+0080 to U+009F: terminals take them for the control characters they are. */
static bool is_high_control(const char *at)
{
        return (unsigned char)at[0] == 0xc2 && (unsigned char)at[1] < 0xa0;
}

/* From `at`, in place or from elsewhere, into ret, which has room for len bytes and a NUL. */
static void put_clean(char *ret, const char *at, size_t len)
{
        const char *end = at + len;
        while (at < end) {
                size_t n = utf8_sequence(at, (size_t)(end - at));
                bool is_text = n > 1 ? !is_high_control(at) : n && *at >= ' ' && *at != 0x7f;
                if (is_text)
                        memmove(ret, at, n);
                else
                        *ret = '?';
                ret += is_text ? n : 1;
                at += n ? n : 1;
        }
        *ret = '\0';
}

const char *shown_put(char *ret, size_t size, struct slice s)
{
        bool is_cut = s.len >= size;
        put_clean(ret, s.ptr, is_cut ? shown_len(s, size - sizeof(SHOWN_DOTS)) : s.len);
        if (is_cut)
                memcpy(ret + strlen(ret), SHOWN_DOTS, sizeof(SHOWN_DOTS));
        return ret;
}

void shown_vprintf(char *ret, size_t size, const char *fmt, va_list args)
{
        int n = vsnprintf(ret, size, fmt, args);
        bool is_cut = n >= 0 && (size_t)n >= size;
        if (is_cut)
                n = (int)shown_len(slice_make(ret, size - 1), size - sizeof(SHOWN_DOTS));
        put_clean(ret, ret, n > 0 ? (size_t)n : 0);
        if (is_cut)
                memcpy(ret + strlen(ret), SHOWN_DOTS, sizeof(SHOWN_DOTS));
}
