/* HMAC-SHA256 over a head and a body, fed one after the other: a body of a megabyte is not copied.
 */
#include "work/sign.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#define MAC_BYTES 32

static bool mac_run(EVP_MAC_CTX *ctx, struct slice key, struct slice head, struct slice body,
                    uint8_t *ret)
{
        char digest[] = "SHA256";
        size_t len = 0;
        OSSL_PARAM params[] = {
                OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                OSSL_PARAM_construct_end(),
        };
        return EVP_MAC_init(ctx, (const unsigned char *)key.ptr, key.len, params) == 1 &&
               EVP_MAC_update(ctx, (const unsigned char *)head.ptr, head.len) == 1 &&
               (body.len == 0 ||
                EVP_MAC_update(ctx, (const unsigned char *)body.ptr, body.len) == 1) &&
               EVP_MAC_final(ctx, ret, &len, MAC_BYTES) == 1 && len == MAC_BYTES;
}

bool sign_put(struct buf *b, struct slice key, struct slice head, struct slice body)
{
        char hex[2 * MAC_BYTES];
        uint8_t mac[MAC_BYTES];
        EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
        EVP_MAC_CTX *ctx = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
        bool is_done = ctx && mac_run(ctx, key, head, body, mac);
        EVP_MAC_CTX_free(ctx);
        EVP_MAC_free(hmac);
        if (!is_done)
                return false;
        hex_from_bytes(mac, sizeof(mac), hex);
        buf_put(b, hex, sizeof(hex));
        return true;
}
