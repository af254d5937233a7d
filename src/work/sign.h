/* The signature of a request to a handler: its receiver can tell that it comes from a worker that
 * knows the key, that it is whole, and when it was made. */
#ifndef WEIR_WORK_SIGN_H
#define WEIR_WORK_SIGN_H

#include "base/buf.h"

/* Appends hex(HMAC-SHA256(key, time_s "." id "." body)); false when OpenSSL cannot. */
bool sign_put(struct buf *b, struct slice key, int64_t time_s, int64_t id,
              struct slice body) MUST_CHECK;

#endif
