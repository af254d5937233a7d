/* See tls_files.h.  A key with a passphrase is refused, because OpenSSL would ask the terminal for
 * it. */
#include "door/tls_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/openssl.h"

/* All authorities of a system are a quarter of that. */
#define FILE_MAX_BYTES MIB

const char *tls_date(int64_t ms, char ret[TLS_DATE_MAX])
{
        time_t s = (time_t)(ms / MS_PER_S);
        struct tm tm = {0};
        (void)gmtime_r(&s, &tm); /* fails for years that no certificate can name */
        (void)strftime(ret, TLS_DATE_MAX, "%Y-%m-%d %H:%M:%SZ", &tm);
        return ret;
}

/* ---- files ---- */

static int check_kind(int fd, bool is_secret, const char **ret_why)
{
        struct stat st;
        if (fstat(fd, &st) != 0)
                *ret_why = strerror(errno);
        else if (!S_ISREG(st.st_mode))
                *ret_why = "it is not a file";
        else if (st.st_size > (off_t)FILE_MAX_BYTES)
                *ret_why = "it is larger than 1 MiB";
        else if (is_secret && st.st_mode & (S_IWGRP | S_IWOTH | S_IROTH))
                *ret_why = "it can be read or written by others: chmod 600 it";
        else
                return OK;
        return ERR_FORBIDDEN;
}

/* `name` is that of the setting. */
static int read_whole(const char *name, const char *path, struct buf *ret, struct problem *problem)
{
        const char *why = NULL;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return problem_set(problem, ERR_IO, "tls: %s %s: %s", name, path, strerror(errno));
        int r = check_kind(fd, strcmp(name, "key") == 0, &why);
        while (r == OK && buf_reserve(ret, 4 * KIB)) {
                ssize_t n = read(fd, ret->ptr + ret->len, ret->cap - ret->len);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        why = strerror(errno);
                        r = ERR_IO;
                }
                if (n <= 0)
                        break;
                ret->len += (size_t)n;
        }
        (void)close(fd); /* only read from */
        if (r == OK && ret->failed) {
                why = "it is larger than 1 MiB";
                r = ERR_TOOBIG;
        }
        return r == OK ? OK : problem_set(problem, r, "tls: %s %s: %s", name, path, why);
}

/* Calls add() for each certificate of a file, the first with at = 0, and frees them. */
typedef int add_fn(SSL_CTX *ctx, X509 *cert, unsigned at);

static int add_each(SSL_CTX *ctx, const char *name, const char *path, add_fn *add,
                    struct problem *problem)
{
        struct buf text CLEANUP(buf_release) = {.max = 2 * FILE_MAX_BYTES};
        unsigned n = 0;
        bool is_fine = true;
        int r = read_whole(name, path, &text, problem);
        if (r != OK)
                return r;
        BIO *bio = BIO_new_mem_buf(text.ptr, (int)text.len);
        ERR_clear_error();
        while (bio && is_fine) {
                X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
                if (!cert)
                        break;
                is_fine = add(ctx, cert, n++) == 1;
                X509_free(cert);
        }
        unsigned long e = ERR_peek_last_error();
        bool is_end = ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE;
        const char *said = ERR_reason_error_string(e);
        BIO_free(bio);
        if (is_fine && n == 0)
                r = problem_set(problem, ERR_BADARG, "tls: %s %s holds no certificate in PEM form",
                                name, path);
        else if (!is_fine || !is_end)
                r = problem_set(problem, ERR_BADARG,
                                "tls: %s %s: certificate %u of it cannot be used: %s", name, path,
                                is_fine ? n + 1 : n, said ? said : "unknown error");
        return r;
}

/* ---- certificate and key ---- */

static int add_own(SSL_CTX *ctx, X509 *cert, unsigned at)
{
        return at == 0 ? SSL_CTX_use_certificate(ctx, cert)
                       : (int)SSL_CTX_add1_chain_cert(ctx, cert);
}

/* OpenSSL calls it for a passphrase: there is none. */
static int no_passphrase(char *room, int size, int is_writing, void *asked)
{
        (void)room;
        (void)size;
        (void)is_writing;
        *(bool *)asked = true;
        return -1;
}

static int load_key(SSL_CTX *ctx, const struct tls_files *files, struct problem *problem)
{
        struct buf text;
        bool is_asked = false;
        buf_init(&text, 2 * FILE_MAX_BYTES);
        int r = read_whole("key", files->key, &text, problem);
        BIO *bio = r == OK ? BIO_new_mem_buf(text.ptr, (int)text.len) : NULL;
        EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &is_asked) : NULL;
        BIO_free(bio);
        if (text.ptr)
                explicit_bzero(text.ptr, text.cap);
        buf_release(&text);
        if (r == OK && !key)
                r = problem_set(problem, ERR_BADARG,
                                is_asked ? "tls: key %s has a passphrase: take that off"
                                         : "tls: key %s holds no private key in PEM form",
                                files->key);
        else if (r == OK && X509_check_private_key(SSL_CTX_get0_certificate(ctx), key) != 1)
                r = problem_set(problem, ERR_BADARG, "tls: key %s is not the key of cert %s",
                                files->key, files->cert);
        else if (r == OK && SSL_CTX_use_PrivateKey(ctx, key) != 1)
                r = problem_set(problem, ERR_BADARG, "tls: key %s cannot be used: %s", files->key,
                                ERR_reason_error_string(ERR_peek_last_error()));
        EVP_PKEY_free(key);
        return r;
}

/* ---- authorities ---- */

/* Clients are told the names, so that they can choose a certificate. */
static int add_authority(SSL_CTX *ctx, X509 *cert, unsigned at)
{
        (void)at;
        return X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert) == 1 &&
               SSL_CTX_add_client_CA(ctx, cert) == 1;
}

static int64_t unix_ms(const ASN1_TIME *time)
{
        struct tm tm = {0};
        return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) * MS_PER_S : 0;
}

int tls_files_load(const struct tls_files *files, SSL_CTX *ctx, int64_t *ret_begins_ms,
                   int64_t *ret_ends_ms, struct problem *problem)
{
        int r = add_each(ctx, "cert", files->cert, add_own, problem);
        if (r == OK)
                r = load_key(ctx, files, problem);
        if (r == OK && files->verify != TLS_VERIFY_OFF)
                r = add_each(ctx, "ca", files->ca, add_authority, problem);
        if (r != OK)
                return r;
        const X509 *cert = SSL_CTX_get0_certificate(ctx);
        *ret_begins_ms = unix_ms(X509_get0_notBefore(cert));
        *ret_ends_ms = unix_ms(X509_get0_notAfter(cert));
        return OK;
}

int tls_files_expired(const struct tls_files *files, int64_t ends_ms, struct problem *problem)
{
        char date[TLS_DATE_MAX];
        return problem_set(problem, ERR_BADARG, "tls: cert %s expired on %s; put a new one there",
                           files->cert, tls_date(ends_ms, date));
}
