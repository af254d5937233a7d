/* The certificate that new connections are shown: the newest good one of its files.
 *
 * The files are looked at once a second; a change is read, and when that fails (half of a pair is
 * written, a disk is full) the old certificate stays and the log says so once.
 *
 * Threads: loop thread only.  Time is passed in. */
#ifndef WEIR_DOOR_TLS_STORE_H
#define WEIR_DOOR_TLS_STORE_H

#include "base/clock.h"
#include "door/tls.h"

struct tls_store;

/* The store keeps copies of the paths. */
int tls_store_new(const struct tls_files *files, int64_t now_ms, struct tls_store **ret,
                  struct problem *problem) MUST_CHECK;
struct tls_store *tls_store_free(struct tls_store *s); /* NULL is fine; returns NULL */

/* Other files, or the same once more.  After an error everything is as before. */
int tls_store_set(struct tls_store *s, const struct tls_files *files, int64_t now_ms,
                  struct problem *problem) MUST_CHECK;
/* Once a second: reads files that changed, and says when the certificate ends soon. */
void tls_store_look(struct tls_store *s, int64_t now_ms);

struct tls_ctx *tls_store_peek(const struct tls_store *s);

#endif
