/* Bytes of the MySQL protocol for tests: from hex digits, and packets of any length. */
#ifndef WEIR_TESTS_UNIT_MYSQL_BYTES_H
#define WEIR_TESTS_UNIT_MYSQL_BYTES_H

#include "check.h"

#include "base/buf.h"

#define CACHING (MARIADB_CACHE_METADATA | MARIADB_PROGRESS)

/* Bytes from hex digits with spaces between them, in memory of exactly that size. */
struct bytes {
        uint8_t *at;
        size_t n;
};

static inline struct bytes bytes_of(const char *hex)
{
        char digits[4096];
        size_t n = 0;
        for (; *hex; hex++) {
                if (*hex == ' ')
                        continue;
                assert_true(n < sizeof(digits));
                digits[n++] = *hex;
        }
        struct bytes b = {malloc(n / 2 + 1), n / 2};
        assert_non_null(b.at);
        assert_true(slice_to_hex_bytes(slice_make(digits, n), b.at, b.n));
        b.at = realloc(b.at, n / 2 ? n / 2 : 1);
        assert_non_null(b.at);
        return b;
}

static inline struct slice slice_of(struct bytes b)
{
        return slice_make(b.at, b.n);
}

/* Frames payloads that are written in hex with a bar between them; sequences from 1. */
static inline struct bytes packets_of(const char *payloads)
{
        struct buf out = {0};
        uint8_t sequence = 1;
        for (const char *at = payloads; at;) {
                char hex[2048];
                const char *bar = strchr(at, '|');
                size_t n = bar ? (size_t)(bar - at) : strlen(at);
                assert_true(n < sizeof(hex));
                memcpy(hex, at, n);
                hex[n] = 0;
                struct bytes payload = bytes_of(hex);
                uint8_t header[] = {(uint8_t)payload.n, (uint8_t)(payload.n >> 8), 0, sequence++};
                buf_put(&out, header, sizeof(header));
                buf_put(&out, payload.at, payload.n);
                free(payload.at);
                at = bar ? bar + 1 : NULL;
        }
        assert_false(out.failed);
        return (struct bytes){(uint8_t *)out.ptr, out.len};
}

/* Appends a packet of `len` bytes that begins with `first`; the rest looks like ends of replies. */
static inline void put_long(struct buf *out, uint8_t first, uint32_t len)
{
        uint8_t header[] = {(uint8_t)len, (uint8_t)(len >> 8), (uint8_t)(len >> 16), 9};
        buf_put(out, header, sizeof(header));
        assert_true(buf_reserve(out, len));
        memset(out->ptr + out->len, 0xfe, len);
        if (len)
                out->ptr[out->len] = (char)first;
        out->len += len;
}

#endif
