/* Base64 (RFC 4648, padded), for bytes that a text cannot hold. */
#ifndef WEIR_BASE_BASE64_H
#define WEIR_BASE_BASE64_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

/* At most this many bytes come out of n characters. */
#define BASE64_DECODED_MAX(n) ((n) / 4 * 3)

void base64_put(struct buf *b, struct slice bytes);
/* Strict: whole groups, padding only at the end and with zero bits, nothing else.  ret holds
 * BASE64_DECODED_MAX(text.len). */
bool base64_decode(struct slice text, void *ret, size_t *ret_len);
/* The same into memory of the arena: ERR_BADARG when it is none, ERR_NOMEM. */
int base64_take(struct arena *arena, struct slice text, struct slice *ret) MUST_CHECK;

#endif
