/* Any bytes as the header of a relay: what is none, what has a wrong proof, and what has the right
 * one.
 *
 * Without the secret no input is ever accepted.  The same bytes with a right proof put at their end
 * may be accepted; then they say the same after they were written and read again. */
#include <stdlib.h>

#include "wire/digest.h"
#include "wire/relay_header.h"

#define MAC_BYTES DIGEST_BYTES

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct slice secret = SLICE_LIT("secret");

static int read_copy(const uint8_t *data, size_t n, int64_t now_ms, struct relay_header *ret,
                     size_t *ret_len, char **ret_copy)
{
        struct problem p;
        char *copy = malloc(n ? n : 1); /* of exactly that size: nothing is read beyond it */
        ASSERT(copy);
        if (n)
                memcpy(copy, data, n);
        int r = relay_header_read(slice_make(copy, n), secret, now_ms, ret, ret_len, &p);
        ASSERT(r == OK || r == ERR_SYNTAX || r == ERR_FORBIDDEN);
        ASSERT(*ret_len <= n && (r == OK || !*ret_len));
        *ret_copy = copy;
        return r;
}

static void check_written(const struct relay_header *h)
{
        struct relay_header again;
        struct buf out = {0};
        size_t len;
        ASSERT(relay_header_put(&out, h, secret));
        ASSERT(out.len <= PROXY_HEADER_MAX);
        ASSERT(relay_header_read(buf_slice(&out), secret, h->sent_ms, &again, &len, NULL) == OK);
        ASSERT(len == out.len && again.door == h->door && again.proto == h->proto);
        ASSERT(again.has_address == h->has_address && again.is_tls == h->is_tls);
        ASSERT(slice_eq(again.node, h->node) && slice_eq(again.name, h->name) &&
               slice_eq(again.token, h->token));
        buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct relay_header h;
        char *copy, *signed_copy;
        size_t len;
        int r = read_copy(data, size, 0, &h, &len, &copy);
        ASSERT(r != OK || !len); /* nobody can guess the proof */
        free(copy);
        if (size < MAC_BYTES)
                return 0;
        uint8_t *whole = malloc(size);
        ASSERT(whole);
        memcpy(whole, data, size);
        ASSERT(digest_mac(secret, slice_make(whole, size - MAC_BYTES), whole + size - MAC_BYTES));
        r = read_copy(whole, size, 0, &h, &len, &signed_copy);
        if (r == OK && len)
                check_written(&h);
        free(signed_copy);
        free(whole);
        return 0;
}
