/* Certificates for trying TLS: an authority of one's own and what it signs.
 *
 * ECDSA keys on P-256, in memory; nothing is written here. */
#ifndef WEIR_SERVE_CERT_MAKE_H
#define WEIR_SERVE_CERT_MAKE_H

#include "base/buf.h"

struct cert;

enum cert_kind { CERT_AUTHORITY, CERT_SERVER, CERT_CLIENT };

struct cert_spec {
        enum cert_kind kind;
        const char *name; /* the subject's common name, at most CERT_NAME_MAX bytes */
        const char *const
                *names; /* of the subject otherwise: addresses, DNS names, "URI:...", "email:..." */
        size_t n_names;
        int64_t begins_ms, ends_ms; /* Unix ms */
};

#define CERT_NAME_MAX 64 /* of a common name, by X.509 */

/* issuer NULL: it signs itself.  NULL: OpenSSL refuses a name, or memory is out. */
struct cert *cert_new(const struct cert_spec *spec, const struct cert *issuer);
struct cert *cert_free(struct cert *c); /* NULL is fine; returns NULL */

/* As PEM; the caller wipes the key. */
void cert_put(const struct cert *c, struct buf *ret);
void cert_put_key(const struct cert *c, struct buf *ret);

#endif
