/* OpenSSL between two memory BIOs.
 *
 * The bytes of the socket are written to one BIO and read from the other, so OpenSSL waits for
 * nothing and raises no SIGPIPE, and the worker's loop, the command line and the library share this
 * file.
 *
 * Each connection has a context of its own.  That costs reading the files again, which takes less
 * time than the handshake; in return a renewed certificate needs no restart.
 *
 * In TLS 1.3 the client is done before the server has looked at the client's certificate: a refusal
 * comes as an alert where the first answer is expected.  So alerts are explained at any time, and
 * is_asked_for_cert remembers that the server asked for a certificate that the client has not. */
#include "wire/tls_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/openssl.h"
#include "base/shown.h"

#include <openssl/x509v3.h>

#define READ_BYTES  4096
#define NAMES_BYTES 80 /* of the names in a certificate, as shown */

struct tls_client {
        const struct server_url *url;
        SSL_CTX *ctx;
        SSL *ssl;       /* owns both BIOs */
        BIO *from, *to; /* the socket's bytes: come, and to be sent */
        struct buf out;
        X509 *refused;                                      /* the certificate that did not pass */
        bool is_up, is_ended, is_asked_for_cert, has_heard; /* has_heard: plain bytes came */
};

static int no_memory(const struct tls_client *t, struct problem *p)
{
        return problem_set(p, ERR_NOMEM, "no memory for TLS with %s", t->url->text);
}

/* ---- the files ---- */

/* OpenSSL would ask the terminal for a passphrase. */
static int no_passphrase(char *room, int size, int is_writing, void *is_asked)
{
        (void)room;
        (void)size;
        (void)is_writing;
        *(bool *)is_asked = true;
        return -1;
}

static int file_problem(const char *option, const char *path, bool is_locked, struct problem *p)
{
        unsigned long first = ERR_peek_error();
        char room[128];
        const char *why = strcmp(option, "key") == 0 ? "it holds no private key in PEM form"
                                                     : "it holds no certificate in PEM form";
        if (ERR_SYSTEM_ERROR(first))
                why = strerror_r(ERR_GET_REASON(first), room, sizeof(room)); /* GNU's */
        else if (is_locked)
                why = "it has a passphrase, and weir takes only a key without one";
        else if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
                why = "it is not the key of the certificate";
        return problem_set(p, ERR_BADARG, "cannot use the TLS %s %s: %s", option, SHOWN_LONG(path),
                           why);
}

static int load_files(struct tls_client *t, struct problem *p)
{
        const struct server_tls *o = &t->url->tls;
        const char *key = o->key[0] ? o->key : o->cert;
        bool is_locked = false;
        if (server_url_is_verified(t->url) && o->ca[0]) {
                if (SSL_CTX_load_verify_file(t->ctx, o->ca) != 1)
                        return file_problem("ca", o->ca, false, p);
                /* The certificate of the server itself may be what is trusted. */
                (void)X509_STORE_set_flags(SSL_CTX_get_cert_store(t->ctx),
                                           X509_V_FLAG_PARTIAL_CHAIN);
        } else if (server_url_is_verified(t->url)) {
                if (SSL_CTX_set_default_verify_paths(t->ctx) != 1)
                        return no_memory(t, p);
        }
        if (!o->cert[0])
                return OK;
        SSL_CTX_set_default_passwd_cb(t->ctx, no_passphrase);
        SSL_CTX_set_default_passwd_cb_userdata(t->ctx, &is_locked);
        if (SSL_CTX_use_certificate_chain_file(t->ctx, o->cert) != 1)
                return file_problem("cert", o->cert, false, p);
        if (SSL_CTX_use_PrivateKey_file(t->ctx, key, SSL_FILETYPE_PEM) != 1)
                return file_problem("key", key, is_locked, p);
        return OK;
}

/* ---- what can be wrong ---- */

static const char *wanted_name(const struct tls_client *t)
{
        return t->url->tls.name[0] ? t->url->tls.name : t->url->host;
}

/* "DNS:db.example, IP Address:10.0.0.1", or the common name, which TLS does not look at if there
 * are others. */
static void put_names(const X509 *cert, struct buf *ret)
{
        GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
        BIO *text = BIO_new(BIO_s_mem());
        char *ptr = NULL;
        for (int i = 0; text && i < sk_GENERAL_NAME_num(names); i++) {
                (void)BIO_puts(text, i ? ", " : "");
                (void)GENERAL_NAME_print(text, sk_GENERAL_NAME_value(names, i));
        }
        if (text && sk_GENERAL_NAME_num(names) <= 0)
                (void)X509_NAME_print_ex(text, X509_get_subject_name(cert), 0, XN_FLAG_ONELINE);
        long n = text ? BIO_get_mem_data(text, &ptr) : 0;
        if (n > 0)
                buf_put(ret, ptr, (size_t)n);
        BIO_free(text);
        GENERAL_NAMES_free(names);
}

static void put_date(const ASN1_TIME *time, char *ret, size_t size)
{
        struct tm tm = {0};
        if (!time || ASN1_TIME_to_tm(time, &tm) != 1 ||
            strftime(ret, size, "%Y-%m-%d %H:%M UTC", &tm) == 0)
                (void)snprintf(ret, size, "an unknown date");
}

static int name_problem(const struct tls_client *t, const X509 *cert, struct problem *p)
{
        struct buf names CLEANUP(buf_release) = {0};
        if (cert)
                put_names(cert, &names);
        return problem_set(p, ERR_UNAVAIL,
                           "the certificate of %s is for %s, not for '%s': name the host as the "
                           "certificate does, or set name=NAME in the url or WEIR_TLS_NAME",
                           SHOWN_STR(t->url->text),
                           names.len ? SHOWN_MAX(buf_slice(&names), NAMES_BYTES) : "no name",
                           SHOWN_STR(wanted_name(t)));
}

static int certificate_problem(const struct tls_client *t, long code, struct problem *p)
{
        const X509 *cert = t->refused;
        const char *where = t->url->text;
        char date[32];
        switch (code) {
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH:
                return name_problem(t, cert, p);
        case X509_V_ERR_CERT_HAS_EXPIRED:
                put_date(cert ? X509_get0_notAfter(cert) : NULL, date, sizeof(date));
                return problem_set(p, ERR_UNAVAIL,
                                   "the certificate of %s expired (%s): the server needs a new "
                                   "one, or the clock of this machine is wrong",
                                   where, date);
        case X509_V_ERR_CERT_NOT_YET_VALID:
                put_date(cert ? X509_get0_notBefore(cert) : NULL, date, sizeof(date));
                return problem_set(p, ERR_UNAVAIL,
                                   "the certificate of %s is not valid before %s: is the clock of "
                                   "this machine right?",
                                   where, date);
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        case X509_V_ERR_CERT_UNTRUSTED:
                return problem_set(p, ERR_UNAVAIL,
                                   "the certificate of %s is signed by an unknown authority: set "
                                   "ca=FILE in the url or WEIR_TLS_CA to the authority's "
                                   "certificate (now: %s)",
                                   where,
                                   t->url->tls.ca[0] ? SHOWN_STR(t->url->tls.ca)
                                                     : "what the system trusts");
        default:
                return problem_set(p, ERR_UNAVAIL, "the certificate of %s is refused: %s", where,
                                   X509_verify_cert_error_string(code));
        }
}

static bool is_alert_about_certificate(int reason)
{
        return reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED ||
               reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ||
               reason == SSL_R_TLSV1_ALERT_ACCESS_DENIED ||
               reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
               reason == SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE ||
               reason == SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED ||
               reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED ||
               reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN;
}

static int alert_problem(const struct tls_client *t, int reason, struct problem *p)
{
        const char *where = t->url->text, *text = ERR_reason_error_string(ERR_peek_last_error());
        if (t->is_asked_for_cert && !t->has_heard)
                return problem_set(p, ERR_UNAVAIL,
                                   "%s wants a client certificate: set cert=FILE and key=FILE in "
                                   "the url, or WEIR_TLS_CERT and WEIR_TLS_KEY",
                                   where);
        if (t->url->tls.cert[0] && is_alert_about_certificate(reason))
                return problem_set(p, ERR_UNAVAIL, "%s refuses the client certificate %s: %s",
                                   where, SHOWN_STR(t->url->tls.cert), text);
        if (reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION || reason == SSL_R_UNSUPPORTED_PROTOCOL)
                return problem_set(p, ERR_UNAVAIL,
                                   "%s speaks only versions of TLS that are too old; weir needs "
                                   "1.2 or 1.3",
                                   where);
        return problem_set(p, ERR_UNAVAIL, "TLS with %s failed: %s", where,
                           text ? text : "unknown error");
}

/* What the last call of OpenSSL failed by. */
static int failure(const struct tls_client *t, struct problem *p)
{
        unsigned long error = ERR_peek_error();
        int reason = ERR_GET_REASON(error);
        long code = SSL_get_verify_result(t->ssl);
        int r;
        if (ERR_GET_LIB(error) != ERR_LIB_SSL)
                r = alert_problem(t, 0, p);
        else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && code != X509_V_OK)
                r = certificate_problem(t, code, p);
        else if (!t->is_up &&
                 (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
                  reason == SSL_R_RECORD_LENGTH_MISMATCH))
                r = problem_set(p, ERR_UNAVAIL,
                                "what answers on %s does not speak TLS: name its TLS port, usually "
                                "%d, or use redis:// for a port without TLS",
                                t->url->text, SERVER_PORT_TLS_DEFAULT);
        else
                r = alert_problem(t, reason, p);
        ERR_clear_error();
        return r;
}

int tls_client_silent(const struct tls_client *t, struct problem *p)
{
        return problem_set(p, ERR_TIMEOUT,
                           "%s took the connection but does not go on with the TLS handshake: is "
                           "it a TLS port?",
                           t->url->text);
}

int tls_client_cut(const struct tls_client *t, struct problem *p)
{
        return problem_set(p, ERR_UNAVAIL,
                           "%s closed the connection in the TLS handshake: name its TLS port, "
                           "usually %d, or use redis:// for a port without TLS",
                           t->url->text, SERVER_PORT_TLS_DEFAULT);
}

/* ---- the bytes ---- */

/* Moves what OpenSSL wants to send to t->out. */
static int drain(struct tls_client *t, struct problem *p)
{
        size_t n = BIO_ctrl_pending(t->to);
        if (n == 0)
                return OK;
        if (!buf_reserve(&t->out, n) || BIO_read(t->to, t->out.ptr + t->out.len, (int)n) != (int)n)
                return no_memory(t, p);
        t->out.len += n;
        return OK;
}

static int shake(struct tls_client *t, struct problem *p)
{
        ERR_clear_error();
        int n = SSL_do_handshake(t->ssl);
        int kind = SSL_get_error(t->ssl, n);
        int r = n == 1 || kind == SSL_ERROR_WANT_READ ? OK : failure(t, p);
        int sent = drain(t, r == OK ? p : NULL); /* the alert too */
        t->is_up = n == 1;
        return r == OK ? sent : r;
}

int tls_client_take(struct tls_client *t, struct slice bytes, struct buf *plain, struct problem *p)
{
        char room[READ_BYTES];
        if (bytes.len && BIO_write(t->from, bytes.ptr, (int)bytes.len) != (int)bytes.len)
                return no_memory(t, p);
        int r = t->is_up ? OK : shake(t, p);
        if (r != OK || !t->is_up)
                return r;
        for (;;) {
                ERR_clear_error();
                int n = SSL_read(t->ssl, room, sizeof(room));
                if (n <= 0) {
                        int kind = SSL_get_error(t->ssl, n);
                        t->is_ended = t->is_ended || kind == SSL_ERROR_ZERO_RETURN;
                        if (!t->is_ended && kind != SSL_ERROR_WANT_READ)
                                r = failure(t, p);
                        break;
                }
                t->has_heard = true;
                buf_put(plain, room, (size_t)n);
                if (plain->failed) {
                        r = problem_set(p, ERR_TOOBIG, "the answer of %s is too large",
                                        t->url->text);
                        break;
                }
        }
        explicit_bzero(room, sizeof(room)); /* a job's data, a lock's token */
        int sent = drain(t, r == OK ? p : NULL);
        return r == OK ? sent : r;
}

int tls_client_put(struct tls_client *t, struct slice plain, struct problem *p)
{
        size_t n = 0;
        if (!t->is_up)
                return problem_set(p, ERR_INTERNAL, "TLS with %s is not ready", t->url->text);
        ERR_clear_error();
        if (plain.len && (SSL_write_ex(t->ssl, plain.ptr, plain.len, &n) != 1 || n != plain.len))
                return failure(t, p);
        return drain(t, p);
}

void tls_client_end(struct tls_client *t)
{
        ERR_clear_error();
        if (t->is_up)
                (void)SSL_shutdown(t->ssl); /* 0: the server's own goodbye has not come yet */
        (void)drain(t, NULL);
}

struct buf *tls_client_out(struct tls_client *t)
{
        return &t->out;
}

bool tls_client_is_up(const struct tls_client *t)
{
        return t->is_up;
}

bool tls_client_is_ended(const struct tls_client *t)
{
        return t->is_ended;
}

/* ---- beginning and end ---- */

/* OpenSSL has forgotten the certificate when the handshake has failed. */
static int on_verified(int is_good, X509_STORE_CTX *store)
{
        SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
        struct tls_client *t = SSL_get_app_data(ssl);
        X509 *cert = X509_STORE_CTX_get_current_cert(store);
        if (!is_good && cert && !t->refused && X509_up_ref(cert) == 1)
                t->refused = cert;
        return is_good;
}

/* The server asks for a certificate, and the url names none. */
static int on_asked_for_cert(SSL *ssl, X509 **ret_cert, EVP_PKEY **ret_key)
{
        struct tls_client *t = SSL_get_app_data(ssl);
        (void)ret_cert;
        (void)ret_key;
        t->is_asked_for_cert = true;
        return 0; /* it goes on without one */
}

/* A name goes into the hello as well; an address may not (RFC 6066, section 3). */
static bool set_name(struct tls_client *t)
{
        const char *name = wanted_name(t);
        X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
        ASN1_OCTET_STRING *address = a2i_IPADDRESS(name);
        if (address) {
                ASN1_OCTET_STRING_free(address);
                return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
        }
        ERR_clear_error();
        SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        /* As the macro SSL_set_tlsext_host_name(), which drops a const. */
        return SSL_set1_host(t->ssl, name) == 1 &&
               SSL_ctrl(t->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                        (void *)(uintptr_t)name) == 1;
}

static bool set_up(struct tls_client *t)
{
        t->ssl = SSL_new(t->ctx);
        t->from = BIO_new(BIO_s_mem());
        t->to = BIO_new(BIO_s_mem());
        if (!t->ssl || !t->from || !t->to) {
                BIO_free(t->from);
                BIO_free(t->to);
                return false;
        }
        SSL_set_bio(t->ssl, t->from, t->to);
        SSL_set_app_data(t->ssl, t);
        SSL_set_connect_state(t->ssl);
        return set_name(t);
}

int tls_client_new(const struct server_url *url, struct tls_client **ret, struct problem *p)
{
        CLEANUP(tls_client_freep) struct tls_client *t = calloc(1, sizeof(*t));
        if (!t)
                return problem_set(p, ERR_NOMEM, "no memory for TLS with %s", url->text);
        t->url = url;
        buf_init(&t->out, 0); /* what the caller puts is bounded */
        ERR_clear_error();
        t->ctx = SSL_CTX_new(TLS_client_method());
        if (!t->ctx || SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION) != 1)
                return no_memory(t, p);
        (void)SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION);
        (void)SSL_CTX_set_mode(t->ctx, SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_verify(t->ctx, server_url_is_verified(url) ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                           server_url_is_verified(url) ? on_verified : NULL);
        SSL_CTX_set_client_cert_cb(t->ctx, on_asked_for_cert);
        int r = load_files(t, p);
        ERR_clear_error();
        if (r == OK && !set_up(t))
                r = no_memory(t, p);
        if (r == OK)
                r = shake(t, p);
        if (r == OK)
                *ret = TAKE_PTR(t);
        return r;
}

struct tls_client *tls_client_free(struct tls_client *t)
{
        if (!t)
                return NULL;
        X509_free(t->refused);
        SSL_free(t->ssl);
        SSL_CTX_free(t->ctx);
        buf_release(&t->out);
        free(t);
        return NULL;
}
