/* A text to search for in many others.
 *
 * By its rarest byte: memchr looks at 32 bytes a step, memmem at one, and texts here are JSON, in
 * which some bytes are everywhere and others hardly ever met. */
#ifndef WEIR_BASE_NEEDLE_H
#define WEIR_BASE_NEEDLE_H

#include "base/slice.h"

struct needle {
        struct slice text; /* borrowed; the empty one is in every text */
        size_t rare;       /* where its rarest byte is */
};

struct needle needle_make(struct slice text);
bool needle_is_in(const struct needle *n, struct slice hay);

#endif
