/* See digest.h.  A file of its own because OpenSSL's headers claim names that ours use. */
#include "wire/digest.h"

#include <openssl/evp.h>

void digest_text(const struct slice *parts, size_t n, char ret[DIGEST_TEXT])
{
        unsigned char hash[DIGEST_TEXT / 2];
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        ASSERT(ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
        for (size_t i = 0; i < n; i++) {
                uint64_t len = parts[i].len;
                ASSERT(EVP_DigestUpdate(ctx, &len, sizeof(len)) == 1);
                ASSERT(!len || EVP_DigestUpdate(ctx, parts[i].ptr, parts[i].len) == 1);
        }
        ASSERT(EVP_DigestFinal_ex(ctx, hash, NULL) == 1);
        EVP_MD_CTX_free(ctx);
        hex_from_bytes(hash, sizeof(hash), ret);
}
