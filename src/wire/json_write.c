/* The JSON writer: strings with their escapes, and the commas.
 *
 * Escaped is what RFC 8259 asks for and nothing else: '"', '\\' and the control characters.  What
 * lies between goes over in runs, found 16 bytes at a time, since most strings need no escape at
 * all.  Whether a comma is due is read off the last byte written, so writers carry no state: a
 * value never ends in '{' or '['. */
#include "wire/json.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* The first byte in [p, end) that must be escaped, or end. */
static inline const char *find_escape(const char *p, const char *end)
{
#if defined(__SSE2__)
        const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
        const __m128i last_control = _mm_set1_epi8(0x1f);
        for (; end - p >= 16; p += 16) {
                __m128i w = _mm_loadu_si128((const __m128i *)(const void *)p);
                __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(w, quote), _mm_cmpeq_epi8(w, slash));
                /* There is no unsigned comparison, but an unsigned minimum: w <= 0x1f. */
                hit = _mm_or_si128(hit, _mm_cmpeq_epi8(_mm_min_epu8(w, last_control), w));
                unsigned mask = (unsigned)_mm_movemask_epi8(hit);
                if (mask)
                        return p + __builtin_ctz(mask);
        }
#endif
        while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' ')
                p++;
        return p;
}

void json_put_comma(struct buf *b)
{
        if (b->len > 0 && b->ptr[b->len - 1] != '[' && b->ptr[b->len - 1] != '{')
                buf_put_byte(b, ',');
}

void json_put_key(struct buf *b, const char *name)
{
        json_put_comma(b);
        json_put_text(b, slice_str(name));
        buf_put_byte(b, ':');
}

static void put_escape(struct buf *b, unsigned char c)
{
        static const char hex[] = "0123456789abcdef", letters[] = "btnvfr";
        char form[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

        if (c == '"' || c == '\\') {
                form[1] = (char)c;
                buf_put(b, form, 2);
        } else if (c >= '\b' && c <= '\r' && c != '\v') {
                form[1] = letters[c - '\b'];
                buf_put(b, form, 2);
        } else {
                buf_put(b, form, sizeof(form));
        }
}

/* Without the quotes. */
static void put_escaped(struct buf *b, struct slice s)
{
        const char *p = s.ptr, *end = s.len ? s.ptr + s.len : s.ptr;

        while (p < end) {
                const char *stop = find_escape(p, end);
                buf_put(b, p, (size_t)(stop - p));
                if (stop == end)
                        break;
                put_escape(b, (unsigned char)*stop);
                p = stop + 1;
        }
}

void json_put_text(struct buf *b, struct slice s)
{
        if (!buf_reserve(b, s.len + 2)) /* mostly all that is needed: one look at the room */
                return;
        buf_put_byte(b, '"');
        put_escaped(b, s);
        buf_put_byte(b, '"');
}

void json_put_text_lossy(struct buf *b, struct slice s)
{
        size_t clean = 0, at = 0; /* [clean, at) is well-formed and not yet written */

        if (slice_is_utf8(s)) {
                json_put_text(b, s);
                return;
        }
        buf_put_byte(b, '"');
        while (at < s.len) {
                size_t n = utf8_sequence(s.ptr + at, s.len - at);
                if (n > 0) {
                        at += n;
                        continue;
                }
                put_escaped(b, slice_make(s.ptr + clean, at - clean));
                buf_put_str(b, "\xef\xbf\xbd");
                clean = ++at;
        }
        put_escaped(b, slice_make(s.ptr + clean, at - clean));
        buf_put_byte(b, '"');
}
