/* See cert_make.h. */
#include "serve/cert_make.h"

#include <stdlib.h>

#include "base/network.h"
#include "base/openssl.h"

#define SERIAL_BITS 127 /* positive, and never met twice */

struct cert {
        X509 *cert;
        EVP_PKEY *key;
};

static bool set_serial(X509 *cert)
{
        BIGNUM *number = BN_new();
        bool is_fine = number &&
                       BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) &&
                       BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
        BN_free(number);
        return is_fine;
}

static bool set_subject(X509 *cert, const char *name)
{
        return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                                          (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool set_times(X509 *cert, const struct cert_spec *spec)
{
        return ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)(spec->begins_ms / MS_PER_S)) &&
               ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)(spec->ends_ms / MS_PER_S));
}

static bool add_extension(X509 *cert, const struct cert *issuer, int nid, const char *value)
{
        X509V3_CTX ctx;
        X509V3_set_ctx_nodb(&ctx);
        X509V3_set_ctx(&ctx, issuer ? issuer->cert : cert, cert, NULL, NULL, 0);
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
        bool is_fine = e && X509_add_ext(cert, e, -1) == 1;
        X509_EXTENSION_free(e);
        return is_fine;
}

/* A comma would begin another name. */
static bool add_names(X509 *cert, const struct cert_spec *spec)
{
        struct buf text CLEANUP(buf_release) = {0};
        struct ip ip;
        for (size_t i = 0; i < spec->n_names; i++) {
                struct slice name = slice_str(spec->names[i]);
                if (!name.len || memchr(name.ptr, ',', name.len))
                        return false;
                buf_put_str(&text, i ? "," : "");
                if (strncmp(name.ptr, "URI:", 4) != 0 && strncmp(name.ptr, "email:", 6) != 0)
                        buf_put_str(&text, ip_parse(name, &ip) ? "IP:" : "DNS:");
                buf_put_slice(&text, name);
        }
        return !text.len || add_extension(cert, NULL, NID_subject_alt_name, buf_cstr(&text));
}

static bool add_uses(X509 *cert, const struct cert_spec *spec, const struct cert *issuer)
{
        static const struct {
                const char *constraints, *use, *purpose;
        } rows[] = {
                [CERT_AUTHORITY] = {"critical,CA:TRUE,pathlen:0", "critical,keyCertSign,cRLSign",
                                    NULL},
                [CERT_SERVER] = {"critical,CA:FALSE", "critical,digitalSignature", "serverAuth"},
                [CERT_CLIENT] = {"critical,CA:FALSE", "critical,digitalSignature", "clientAuth"},
        };
        const char *purpose = rows[spec->kind].purpose;
        return add_extension(cert, issuer, NID_basic_constraints, rows[spec->kind].constraints) &&
               add_extension(cert, issuer, NID_key_usage, rows[spec->kind].use) &&
               (!purpose || add_extension(cert, issuer, NID_ext_key_usage, purpose)) &&
               add_extension(cert, issuer, NID_subject_key_identifier, "hash") &&
               add_extension(cert, issuer, NID_authority_key_identifier, "keyid");
}

static bool fill(struct cert *c, const struct cert_spec *spec, const struct cert *issuer)
{
        const struct cert *by = issuer ? issuer : c;
        c->cert = X509_new();
        c->key = EVP_EC_gen("P-256");
        return c->cert && c->key && X509_set_version(c->cert, X509_VERSION_3) == 1 &&
               set_serial(c->cert) && set_subject(c->cert, spec->name) &&
               set_times(c->cert, spec) && X509_set_pubkey(c->cert, c->key) == 1 &&
               X509_set_issuer_name(c->cert, X509_get_subject_name(by->cert)) == 1 &&
               add_uses(c->cert, spec, issuer) && add_names(c->cert, spec) &&
               X509_sign(c->cert, by->key, EVP_sha256()) > 0;
}

struct cert *cert_new(const struct cert_spec *spec, const struct cert *issuer)
{
        struct cert *c = xcalloc(1, sizeof(*c));
        bool is_fine = fill(c, spec, issuer);
        ERR_clear_error();
        return is_fine ? c : cert_free(c);
}

struct cert *cert_free(struct cert *c)
{
        if (!c)
                return NULL;
        X509_free(c->cert);
        EVP_PKEY_free(c->key);
        free(c);
        return NULL;
}

static void put_and_free(BIO *bio, struct buf *ret)
{
        char *text;
        long n = BIO_get_mem_data(bio, &text);
        buf_put(ret, text, n > 0 ? (size_t)n : 0);
        BIO_free(bio);
}

void cert_put(const struct cert *c, struct buf *ret)
{
        BIO *bio = BIO_new(BIO_s_mem());
        ASSERT(bio && PEM_write_bio_X509(bio, c->cert) == 1);
        put_and_free(bio, ret);
}

/* The memory of such a BIO is wiped when it is freed. */
void cert_put_key(const struct cert *c, struct buf *ret)
{
        BIO *bio = BIO_new(BIO_s_secmem());
        ASSERT(bio && PEM_write_bio_PrivateKey(bio, c->key, NULL, NULL, 0, NULL, NULL) == 1);
        put_and_free(bio, ret);
}
