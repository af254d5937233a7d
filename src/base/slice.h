/* A slice is a borrowed run of bytes: no NUL at the end, no ownership. */
#ifndef WEIR_BASE_SLICE_H
#define WEIR_BASE_SLICE_H

#include <string.h>

#include "base/defs.h"

struct slice {
        const char *ptr;
        size_t len;
};

#define SLICE_NONE   ((struct slice){NULL, 0})
#define SLICE_LIT(s) ((struct slice){"" s, sizeof(s) - 1})

static inline struct slice slice_make(const void *ptr, size_t len)
{
        return (struct slice){ptr, len};
}

static inline struct slice slice_str(const char *s)
{
        return (struct slice){s, s ? strlen(s) : 0};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
        return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool slice_eq_nocase(struct slice a, struct slice b); /* ASCII only */
int slice_cmp(struct slice a, struct slice b);        /* bytewise, shorter first on a tie */
bool slice_contains(struct slice hay, struct slice needle);
bool slice_is_utf8(struct slice s);
/* Length of the well-formed UTF-8 sequence at `at`, of which `left` (at least 1) bytes may be
 * read; 0 when there is none. */
size_t utf8_sequence(const char *at, size_t left);

/* Strict decimal: optional '-' (i64 only), digits, nothing else, no leading zeros, no "-0", no
 * overflow. */
bool slice_to_i64(struct slice s, int64_t *ret);
bool slice_to_u64(struct slice s, uint64_t *ret);

/* Lower- or upper-case hex, exactly 2*n digits. */
bool slice_to_hex_bytes(struct slice s, uint8_t *ret, size_t n);
void hex_from_bytes(const uint8_t *bytes, size_t n, char *ret); /* writes 2*n, no NUL */

#endif
