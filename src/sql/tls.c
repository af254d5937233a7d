/* What connections to databases say about TLS: the words of its settings, and the sentences for
 * what it can fail by.  The libraries do the rest.
 *
 * libpq does not say why a certificate was refused, libmariadb only in words, and both have let go
 * of OpenSSL's connection when they return.  OpenSSL tells everybody who asks when one of its
 * connections ends, and its verdict can still be read then. */
#include "sql/tls.h"

#include <pthread.h>

#include "base/openssl.h"
#include "base/shown.h"

static const char *const modes[SQL_TLS_MODES] = {
        [SQL_TLS_OFF] = "off",
        [SQL_TLS_PREFER] = "prefer",
        [SQL_TLS_REQUIRE] = "require",
        [SQL_TLS_VERIFY] = "verify",
};

const char *sql_tls_mode_name(enum sql_tls_mode mode)
{
        ASSERT(mode < SQL_TLS_MODES);
        return modes[mode];
}

int tls_no_server(struct problem *problem, const char *where)
{
        return problem_set(problem, ERR_UNAVAIL,
                           "cannot connect to %s: the server has no TLS, and tls asks for it",
                           where);
}

int tls_wrong_name(struct problem *problem, const char *where, const struct sql_server *s)
{
        return problem_set(problem, ERR_UNAVAIL,
                           "cannot connect to %s: its certificate is not for the name %s", where,
                           SHOWN_MAX(slice_str(server_tls_name(s)), 60));
}

int tls_bad_certificate(struct problem *problem, const char *where, long code)
{
        const char *text = X509_verify_cert_error_string(code);
        switch (code) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
        case X509_V_ERR_CERT_NOT_YET_VALID: /* "certificate has expired" */
                return problem_set(problem, ERR_UNAVAIL, "cannot connect to %s: its %s", where,
                                   text);
        default:
                return problem_set(problem, ERR_UNAVAIL,
                                   "cannot connect to %s: its certificate is not trusted: %s",
                                   where, text);
        }
}

/* ---- why a certificate was refused ---- */

static _Thread_local long last_code;

static void on_end(void *ssl, void *data, CRYPTO_EX_DATA *all, int index, long n, void *arg)
{
        (void)data;
        (void)all;
        (void)index;
        (void)n;
        (void)arg;
        long code = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
        if (code != X509_V_OK)
                last_code = code;
}

static void set_up(void)
{
        (void)SSL_get_ex_new_index(0, NULL, NULL, NULL,
                                   on_end); /* without it a reason is missing */
}

void tls_setup(void)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        (void)pthread_once(&once, set_up); /* fails for a bad argument only */
}

void tls_forget(void)
{
        last_code = X509_V_OK;
}

long tls_last_code(void)
{
        return last_code;
}
