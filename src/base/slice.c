/* Comparing, searching and reading borrowed bytes.
 *
 * UTF-8 is checked against the table of well-formed sequences (Unicode 15, table 3-7): overlong
 * forms, surrogates and values above U+10FFFF are refused.  Names and payloads are nearly always
 * ASCII, so eight bytes at a time are looked at for a high bit first. */
#include "base/slice.h"

static unsigned char lower(unsigned char c)
{
        return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
}

bool slice_eq_nocase(struct slice a, struct slice b)
{
        if (a.len != b.len)
                return false;
        for (size_t i = 0; i < a.len; i++)
                if (lower((unsigned char)a.ptr[i]) != lower((unsigned char)b.ptr[i]))
                        return false;
        return true;
}

int slice_cmp(struct slice a, struct slice b)
{
        size_t n = a.len < b.len ? a.len : b.len;
        int order = n ? memcmp(a.ptr, b.ptr, n) : 0;

        if (order != 0)
                return order < 0 ? -1 : 1;
        return (a.len > b.len) - (a.len < b.len);
}

bool slice_contains(struct slice hay, struct slice needle)
{
        if (needle.len == 0)
                return true;
        return hay.len >= needle.len && memmem(hay.ptr, hay.len, needle.ptr, needle.len) != NULL;
}

size_t utf8_sequence(const char *at, size_t left)
{
        const unsigned char *p = (const unsigned char *)at;
        unsigned char min = 0x80, max = 0xbf; /* bounds of the second byte */
        size_t n;

        if (p[0] < 0x80)
                return 1;
        if (p[0] >= 0xc2 && p[0] <= 0xdf) {
                n = 2;
        } else if ((p[0] & 0xf0) == 0xe0) {
                n = 3;
                if (p[0] == 0xe0)
                        min = 0xa0; /* below: overlong */
                else if (p[0] == 0xed)
                        max = 0x9f; /* above: surrogates */
        } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
                n = 4;
                if (p[0] == 0xf0)
                        min = 0x90; /* below: overlong */
                else if (p[0] == 0xf4)
                        max = 0x8f; /* above: past U+10FFFF */
        } else {
                return 0;
        }
        if (left < n || p[1] < min || p[1] > max)
                return 0;
        for (size_t i = 2; i < n; i++)
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
        return n;
}

bool slice_is_utf8(struct slice s)
{
        size_t i = 0;

        while (i < s.len) {
                uint64_t word;
                while (s.len - i >= sizeof(word)) {
                        memcpy(&word, s.ptr + i, sizeof(word));
                        if (word & 0x8080808080808080ULL)
                                break;
                        i += sizeof(word);
                }
                if (i == s.len)
                        break;
                size_t n = utf8_sequence(s.ptr + i, s.len - i);
                if (n == 0)
                        return false;
                i += n;
        }
        return true;
}

bool slice_to_u64(struct slice s, uint64_t *ret)
{
        uint64_t v = 0;

        if (s.len == 0 || s.len > 20 || (s.len > 1 && s.ptr[0] == '0'))
                return false;
        for (size_t i = 0; i < s.len; i++) {
                unsigned digit = (unsigned char)s.ptr[i] - (unsigned)'0';
                if (digit > 9)
                        return false;
                if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v))
                        return false;
        }
        *ret = v;
        return true;
}

bool slice_to_i64(struct slice s, int64_t *ret)
{
        bool is_negative = s.len > 0 && s.ptr[0] == '-';
        uint64_t limit = (uint64_t)INT64_MAX + (is_negative ? 1 : 0);
        uint64_t v;

        if (is_negative)
                s = slice_make(s.ptr + 1, s.len - 1);
        if (!slice_to_u64(s, &v) || v > limit || (is_negative && v == 0))
                return false;
        *ret = (int64_t)(is_negative ? 0 - v : v);
        return true;
}

bool slice_to_hex_bytes(struct slice s, uint8_t *ret, size_t n)
{
        /* A branch per digit is not worth it: bad ones are collected and looked at once. */
        static const uint8_t value[256] = {
                ['0'] = 0x10, ['1'] = 0x11, ['2'] = 0x12, ['3'] = 0x13, ['4'] = 0x14, ['5'] = 0x15,
                ['6'] = 0x16, ['7'] = 0x17, ['8'] = 0x18, ['9'] = 0x19, ['a'] = 0x1a, ['b'] = 0x1b,
                ['c'] = 0x1c, ['d'] = 0x1d, ['e'] = 0x1e, ['f'] = 0x1f, ['A'] = 0x1a, ['B'] = 0x1b,
                ['C'] = 0x1c, ['D'] = 0x1d, ['E'] = 0x1e, ['F'] = 0x1f,
        };
        if (s.len % 2 != 0 || s.len / 2 != n)
                return false;
        unsigned all = 0x10;
        for (size_t i = 0; i < s.len; i++)
                all &= value[(unsigned char)s.ptr[i]];
        if (!(all & 0x10))
                return false; /* *ret is set only on success */
        for (size_t i = 0; i < n; i++)
                ret[i] = (uint8_t)(value[(unsigned char)s.ptr[2 * i]] << 4 |
                                   (value[(unsigned char)s.ptr[2 * i + 1]] & 15));
        return true;
}

void hex_from_bytes(const uint8_t *bytes, size_t n, char *ret)
{
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n; i++) {
                ret[2 * i] = digits[bytes[i] >> 4];
                ret[2 * i + 1] = digits[bytes[i] & 15];
        }
}
