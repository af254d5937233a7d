/* The signature of a request to a handler: its receiver can tell that it comes from a worker that
 * has the key, that it is whole, and when it was made.
 *
 * Two versions; docs/work.md has the texts.  Version 1 signs the time, the id and the body.
 * Version 2 signs the method, the path and every header about the job as well: with version 1 a
 * request could be sent again to another path, or with another hook, and still be accepted. */
#ifndef WEIR_WORK_SIGN_H
#define WEIR_WORK_SIGN_H

#include "base/buf.h"

#define SIGN_VERSIONS 2

/* Appends hex(HMAC-SHA256(key, head body)); false when OpenSSL cannot. */
bool sign_put(struct buf *b, struct slice key, struct slice head, struct slice body) MUST_CHECK;

#endif
