/* An access token, kept as its hash and compared without telling how much was right. */
#ifndef WEIR_WIRE_SECRET_H
#define WEIR_WIRE_SECRET_H

#include "base/slice.h"

struct secret {
        uint8_t hash[32]; /* SHA-256 */
};

void secret_init(struct secret *s, struct slice token);
bool secret_is(const struct secret *s, struct slice token);

#endif
