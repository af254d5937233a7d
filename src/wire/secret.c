/* The access token.
 *
 * Both sides are hashed and the hashes compared in constant time: neither the length nor the
 * first wrong byte can be read off the clock, and the token itself does not stay in memory here.
 * A file of its own because OpenSSL's headers claim names that ours use. */
#include "wire/secret.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

_Static_assert(sizeof(((struct secret *)0)->hash) == SHA256_DIGEST_LENGTH, "the hash fits");

void secret_init(struct secret *s, struct slice token)
{
        (void)SHA256((const unsigned char *)token.ptr, token.len, s->hash); /* returns s->hash */
}

bool secret_is(const struct secret *s, struct slice token)
{
        struct secret other;
        secret_init(&other, token);
        return CRYPTO_memcmp(s->hash, other.hash, sizeof(s->hash)) == 0;
}
