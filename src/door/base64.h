/* Base64 (RFC 4648, padded) for bytes that JSON cannot hold. */
#ifndef WEIR_DOOR_BASE64_H
#define WEIR_DOOR_BASE64_H

#include "base/buf.h"

/* At most this many bytes come out of n characters. */
#define BASE64_DECODED_MAX(n) ((n) / 4 * 3)

void base64_put(struct buf *b, struct slice bytes);
/* Strict: whole groups, padding only at the end and with zero bits, nothing else.  ret holds
 * BASE64_DECODED_MAX(text.len). */
bool base64_decode(struct slice text, char *ret, size_t *ret_len);

#endif
