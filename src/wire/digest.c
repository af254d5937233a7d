/* See digest.h.  A file of its own because OpenSSL's headers claim names that ours use. */
#include "wire/digest.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/bytes.h"

void digest_init(struct digest *d)
{
        *d = (struct digest){.ctx = EVP_MD_CTX_new()};
        d->failed = !d->ctx || EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) != 1;
}

void digest_put_bytes(struct digest *d, const void *bytes, size_t n)
{
        if (!d->failed && n)
                d->failed = EVP_DigestUpdate(d->ctx, bytes, n) != 1;
}

void digest_put_num(struct digest *d, uint64_t v)
{
        char bytes[8];
        store_u64(bytes, v);
        digest_put_bytes(d, bytes, sizeof(bytes));
}

void digest_put(struct digest *d, struct slice part)
{
        digest_put_num(d, part.len);
        digest_put_bytes(d, part.ptr, part.len);
}

bool digest_end(struct digest *d, uint8_t ret[DIGEST_BYTES])
{
        bool is_good = !d->failed && EVP_DigestFinal_ex(d->ctx, ret, NULL) == 1;
        EVP_MD_CTX_free(d->ctx);
        d->ctx = NULL;
        return is_good;
}

void digest_text(const struct slice *parts, size_t n, char ret[DIGEST_TEXT])
{
        uint8_t hash[DIGEST_BYTES];
        struct digest d;
        digest_init(&d);
        for (size_t i = 0; i < n; i++)
                digest_put(&d, parts[i]);
        bool is_good = digest_end(&d, hash);
        ASSERT(is_good);
        hex_from_bytes(hash, sizeof(hash), ret);
}

bool digest_mac(struct slice key, struct slice bytes, uint8_t ret[DIGEST_BYTES])
{
        unsigned n = 0;
        ASSERT(key.len <= INT_MAX);
        return HMAC(EVP_sha256(), key.ptr, (int)key.len, (const uint8_t *)bytes.ptr, bytes.len, ret,
                    &n) &&
               n == DIGEST_BYTES;
}

bool digest_is_same(const uint8_t a[DIGEST_BYTES], const uint8_t b[DIGEST_BYTES])
{
        return CRYPTO_memcmp(a, b, DIGEST_BYTES) == 0;
}
