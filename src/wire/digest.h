/* SHA-256 over parts.
 *
 * A part has its length in front of it, so that ("ab", "c") and ("a", "bc") differ; numbers and
 * bytes of a fixed length need none.  The same parts give the same digest for ever: unique keys and
 * fingerprints of requests are in the log. */
#ifndef WEIR_WIRE_DIGEST_H
#define WEIR_WIRE_DIGEST_H

#include "base/slice.h"

#define DIGEST_BYTES 32
#define DIGEST_TEXT  64

struct digest {
        void *ctx; /* OpenSSL's */
        bool failed;
};

void digest_init(struct digest *d);
void digest_put_bytes(struct digest *d, const void *bytes, size_t n); /* as they are */
void digest_put_num(struct digest *d, uint64_t v);
void digest_put(struct digest *d, struct slice part);
/* And releases it.  False: no memory. */
bool digest_end(struct digest *d, uint8_t ret[DIGEST_BYTES]) MUST_CHECK;

/* Of several parts, in hex. */
void digest_text(const struct slice *parts, size_t n, char ret[DIGEST_TEXT]);

/* HMAC-SHA256.  False: no memory. */
bool digest_mac(struct slice key, struct slice bytes, uint8_t ret[DIGEST_BYTES]) MUST_CHECK;
/* Whether they are the same, in the same time for all. */
bool digest_is_same(const uint8_t a[DIGEST_BYTES], const uint8_t b[DIGEST_BYTES]);

#endif
