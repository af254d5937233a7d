/* A digest of several byte strings, as text: the same parts give the same text, for ever. */
#ifndef WEIR_WIRE_DIGEST_H
#define WEIR_WIRE_DIGEST_H

#include "base/slice.h"

#define DIGEST_TEXT 64

/* SHA-256 over each part's length and bytes, so that ("ab", "c") and ("a", "bc") differ. */
void digest_text(const struct slice *parts, size_t n, char ret[DIGEST_TEXT]);

#endif
