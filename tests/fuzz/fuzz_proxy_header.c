/* Any bytes as a PROXY header.
 *
 * What is a header says the same with more bytes behind it, and none of its beginnings is one or is
 * wrong; what it tells is the same after it was written and read again. */
#include <stdlib.h>

#include "wire/proxy_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int parse(const uint8_t *data, size_t n, struct proxy_header *ret, size_t *ret_len)
{
        struct problem problem;
        char *copy = malloc(n ? n : 1); /* of exactly that size: nothing is read beyond it */
        ASSERT(copy);
        if (n)
                memcpy(copy, data, n);
        int err = proxy_header_parse(slice_make(copy, n), ret, ret_len, &problem);
        free(copy);
        ASSERT(err == OK || (err == ERR_SYNTAX && problem.err == err));
        ASSERT(*ret_len <= n && *ret_len <= PROXY_HEADER_MAX);
        ASSERT(!ret->is_told || *ret_len > 0);
        return err;
}

static bool is_same(const struct proxy_end *a, const struct proxy_end *b)
{
        return memcmp(a->ip.bytes, b->ip.bytes, IP_BYTES) == 0 && a->port == b->port;
}

static void check_written(const struct proxy_header *h)
{
        struct buf out = {0};
        struct proxy_header again;
        size_t len;
        proxy_header_put(&out, h);
        ASSERT(out.len <= 52);
        ASSERT(parse((const uint8_t *)out.ptr, out.len, &again, &len) == OK && len == out.len);
        ASSERT(again.is_told == h->is_told);
        ASSERT(is_same(&again.from, &h->from) && is_same(&again.to, &h->to));
        buf_release(&out);
}

/* Extras are within the header, and so is each of them. */
static void check_extras(const uint8_t *data, size_t len)
{
        struct slice all = proxy_header_extras(slice_make(data, len)), rest = all, value;
        uint8_t type;
        ASSERT(all.len < len);
        while (proxy_extra_next(&rest, &type, &value))
                ASSERT(value.len < all.len && rest.len < all.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct proxy_header h, cut;
        size_t len, cut_len;
        if (parse(data, size, &h, &len) != OK || !len)
                return 0;
        check_written(&h);
        check_extras(data, len);
        ASSERT(parse(data, len, &cut, &cut_len) == OK && cut_len == len);
        for (size_t i = 0; i < len; i++)
                ASSERT(parse(data, i, &cut, &cut_len) == OK && !cut_len);
        return 0;
}
