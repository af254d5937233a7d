/* Certificate, key and authorities out of their files, into an SSL_CTX.
 *
 * Errors name the file and the reason, which OpenSSL's own do not. */
#ifndef WEIR_DOOR_TLS_FILES_H
#define WEIR_DOOR_TLS_FILES_H

#include "door/tls.h"

struct ssl_ctx_st;

/* The times are Unix ms.  After an error the SSL_CTX is of no use. */
int tls_files_load(const struct tls_files *files, struct ssl_ctx_st *ctx, int64_t *ret_begins_ms,
                   int64_t *ret_ends_ms, struct problem *problem) MUST_CHECK;
/* For a certificate that ended then. */
int tls_files_expired(const struct tls_files *files, int64_t ends_ms, struct problem *problem);

#define TLS_DATE_MAX 24
/* "2027-03-01 12:00:00Z" */
const char *tls_date(int64_t ms, char ret[TLS_DATE_MAX]);

#endif
