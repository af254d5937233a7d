/* Any bytes as an identity.
 *
 * A second reader, byte by byte and without tricks, must agree on whether it is one and on its
 * parts.  What is refused says why, in printable words, and leaves the answer alone.  The text is
 * in a block of exactly its size, so that a word read past its end is seen. */
#include <stdlib.h>

#include "gate/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_good_part(const uint8_t *at, size_t len)
{
        if (len < 1 || len > IDENTITY_PART_BYTES || (len == 3 && memcmp(at, "all", 3) == 0))
                return false;
        for (size_t i = 0; i < len;) {
                size_t n = utf8_sequence((const char *)at + i, len - i);
                if (n == 0 || at[i] <= ' ' || at[i] == 0x7f || at[i] == '/')
                        return false;
                if (n == 2 && at[i] == 0xc2 && at[i + 1] < 0xa0)
                        return false;
                i += n;
        }
        return true;
}

static bool slow_parse(const uint8_t *text, size_t size, struct identity *ret)
{
        size_t from = 0;

        ret->n = 0;
        for (size_t i = 0; i <= size; i++) {
                if (i < size && text[i] != ':')
                        continue;
                if (ret->n == IDENTITY_PARTS || !is_good_part(text + from, i - from))
                        return false;
                ret->part[ret->n++] = slice_make(text + from, i - from);
                from = i + 1;
        }
        return size <= IDENTITY_BYTES;
}

static void check_parts(const struct identity *who, const struct identity *want)
{
        ASSERT(who->n == want->n);
        for (size_t i = 0; i < who->n; i++)
                ASSERT(who->part[i].ptr == want->part[i].ptr &&
                       who->part[i].len == want->part[i].len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct identity who = {.n = 77}, want;
        struct problem p = {0};
        uint8_t *text = malloc(size ? size : 1);

        ASSERT(text);
        if (size)
                memcpy(text, data, size);
        struct slice s = slice_make(text, size);
        int err = identity_parse(s, &who, &p);
        ASSERT((err == OK) == slow_parse(text, size, &want));
        bool is_all = slice_eq(s, SLICE_LIT("all"));
        ASSERT((identity_check_name(s, NULL) == OK) == (err == OK || is_all));
        if (err == OK) {
                ASSERT(who.whole.ptr == s.ptr && who.whole.len == s.len);
                check_parts(&who, &want);
        } else {
                ASSERT(err == ERR_BADARG && p.err == err && p.detail[0] && who.n == 77);
                for (const char *at = p.detail; *at; at++)
                        ASSERT(*at >= ' ' && *at != 0x7f);
        }
        free(text);
        return 0;
}
