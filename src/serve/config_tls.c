/* See config_tls.h.
 *
 * The files are read here only to see that they are what they must be: the libraries read them
 * again at every connect, and would tell less.  A key with a passphrase is refused, because a
 * library would ask the terminal for it. */
#include "serve/config_tls.h"

#include <confuse.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/openssl.h"
#include "base/shown.h"
#include "cli/conf_file.h"
#include "serve/config.h"

#define KEY_FILE_MAX  (16 * KIB)
#define CERT_FILE_MAX (4 * MIB) /* all authorities of a system are a quarter of that */
#define NAME_MAX_LEN  255

/* ---- files ---- */

/* The first certificate of the file; the caller frees it. */
static int read_cert(const char *setting, const char *path, X509 **ret, struct problem *problem)
{
        struct buf text;
        buf_init(&text, CERT_FILE_MAX);
        int r = conf_file_read(setting, path, &text, problem);
        if (r == OK) {
                BIO *bio = BIO_new_mem_buf(text.ptr, (int)text.len);
                *ret = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
                BIO_free(bio);
                ERR_clear_error();
                if (!*ret)
                        r = problem_set(problem, ERR_BADARG,
                                        "%s %s holds no certificate in PEM form", setting, path);
        }
        buf_release(&text);
        return r;
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

static int read_key(const char *path, EVP_PKEY **ret, struct problem *problem)
{
        char text[KEY_FILE_MAX];
        bool is_asked = false;
        struct problem why;
        int r = config_read_secret("tls_key", path, text, sizeof(text), &why);
        if (r < 0)
                return problem_set(problem, r, r == ERR_FORBIDDEN ? "tls_key %s" : "%s",
                                   why.detail);
        BIO *bio = BIO_new_mem_buf(text, r);
        *ret = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &is_asked) : NULL;
        BIO_free(bio);
        ERR_clear_error();
        explicit_bzero(text, sizeof(text));
        if (*ret)
                return OK;
        return problem_set(problem, ERR_BADARG,
                           is_asked ? "tls_key %s has a passphrase: take that off"
                                    : "tls_key %s holds no private key in PEM form",
                           path);
}

static int check_pair(const char *cert_path, const char *key_path, struct problem *problem)
{
        X509 *cert = NULL;
        EVP_PKEY *key = NULL;
        int r = read_cert("tls_cert", cert_path, &cert, problem);
        if (r == OK)
                r = read_key(key_path, &key, problem);
        if (r == OK && X509_check_private_key(cert, key) != 1)
                r = problem_set(problem, ERR_BADARG, "tls_key %s is not the key of tls_cert %s",
                                key_path, cert_path);
        ERR_clear_error();
        X509_free(cert);
        EVP_PKEY_free(key);
        return r;
}

static int check_files(const struct sql_tls *tls, struct problem *problem)
{
        X509 *ca = NULL;
        int r = tls->ca ? read_cert("tls_ca", tls->ca, &ca, problem) : OK;
        X509_free(ca);
        return r == OK && tls->cert ? check_pair(tls->cert, tls->key, problem) : r;
}

/* ---- what goes together ---- */

static bool is_any_server_remote(const struct probe_options *o)
{
        bool is = o->primary.host[0] != '/';
        for (size_t i = 0; i < o->n_replicas; i++)
                is |= o->replicas[i].host[0] != '/';
        return is;
}

static int check_together(const char *cert, const char *key, struct problem *problem)
{
        if (!cert == !key)
                return OK;
        return problem_set(problem, ERR_BADARG, "tls_cert and tls_key go together: %s is missing",
                           cert ? "tls_key" : "tls_cert");
}

static int check_mode(const struct sql_tls *tls, bool is_remote, cfg_t *cfg,
                      struct problem *problem)
{
        bool is_said = cfg_getstr(cfg, "tls") != NULL;
        if (is_said && tls->mode > SQL_TLS_PREFER && !is_remote)
                return problem_set(problem, ERR_BADARG,
                                   "tls is for a host: what goes over a socket stays here");
        if (tls->mode == SQL_TLS_VERIFY && !tls->ca)
                return problem_set(problem, ERR_BADARG,
                                   "tls verify needs tls_ca, the certificates that are trusted; "
                                   "those of the system are usually in "
                                   "/etc/ssl/certs/ca-certificates.crt");
        if (tls->mode != SQL_TLS_VERIFY && tls->ca)
                return problem_set(problem, ERR_BADARG,
                                   "tls_ca needs tls = \"verify\": else nothing is compared with "
                                   "it");
        if (tls->mode == SQL_TLS_OFF && tls->cert)
                return problem_set(problem, ERR_BADARG, "tls_cert makes no sense with tls off");
        return OK;
}

static int check_name(const char *setting, const char *name, struct problem *problem)
{
        size_t len = strlen(name);
        if (len >= 1 && len <= NAME_MAX_LEN && slice_is_utf8(slice_make(name, len)))
                return OK;
        return problem_set(problem, ERR_BADARG, "%s must be 1 to %d bytes of UTF-8", setting,
                           NAME_MAX_LEN);
}

static int take_name(struct sql_server *s, enum sql_tls_mode mode, cfg_t *cfg,
                     struct problem *problem)
{
        const char *name = cfg_getstr(cfg, "tls_name");
        if (!name)
                return OK;
        if (mode != SQL_TLS_VERIFY || s->host[0] == '/')
                return problem_set(problem, ERR_BADARG,
                                   "tls_name needs tls = \"verify\" and a host");
        int r = check_name("tls_name", name, problem);
        if (r == OK)
                s->tls_name = xstrdup(name);
        return r;
}

static int take_names(struct probe_options *o, cfg_t *cfg, struct problem *problem)
{
        int r = take_name(&o->primary, o->tls.mode, cfg, problem);
        for (unsigned i = 0; r == OK && i < o->n_replicas; i++)
                r = take_name(&o->replicas[i], o->tls.mode, cfg_getnsec(cfg, "replica", i),
                              problem);
        return r;
}

static int check_http(const struct probe_options *o, cfg_t *cfg, struct problem *problem)
{
        bool is_plain = strncmp(o->url, "https://", 8) != 0;
        if (cfg_getstr(cfg, "tls") || cfg_getstr(cfg, "tls_name"))
                return problem_set(problem, ERR_BADARG,
                                   "tls and tls_name are for mysql and postgres: with https the "
                                   "certificate is always verified, for the host of the url");
        if (is_plain && (o->tls.ca || o->tls.cert))
                return problem_set(problem, ERR_BADARG, "%s needs an https url",
                                   o->tls.ca ? "tls_ca" : "tls_cert");
        return OK;
}

/* Kinds that connect to nothing. */
static int refuse(cfg_t *cfg, struct problem *problem)
{
        static const enum setting_id ids[] = {SET_TARGET_tls, SET_TARGET_tls_ca,
                                              SET_TARGET_tls_cert, SET_TARGET_tls_key,
                                              SET_TARGET_tls_name};
        for (size_t i = 0; i < ARRAY_LEN(ids); i++)
                if (cfg_getstr(cfg, setting_table[ids[i]].name))
                        return problem_set(problem, ERR_BADARG,
                                           "%s is for mysql, postgres and http",
                                           setting_table[ids[i]].name);
        return OK;
}

static int take(struct probe_options *o, cfg_t *cfg, struct problem *problem)
{
        bool is_database = o->kind == PROBE_MYSQL || o->kind == PROBE_POSTGRES;
        if (!is_database && o->kind != PROBE_HTTP)
                return refuse(cfg, problem);
        int r = check_together(o->tls.cert, o->tls.key, problem);
        if (r == OK && is_database)
                r = check_mode(&o->tls, is_any_server_remote(o), cfg, problem);
        if (r == OK && is_database)
                r = take_names(o, cfg, problem);
        if (r == OK && !is_database)
                r = check_http(o, cfg, problem);
        return r == OK ? check_files(&o->tls, problem) : r;
}

int config_tls_take(const struct config_at *at, cfg_t *cfg)
{
        struct problem why;
        int r = take(at->probe, cfg, &why);
        return r == OK ? OK : config_wrong(at, r, "%s", why.detail);
}

int config_tls_take_login(const struct config_at *at, struct sql_login *login, cfg_t *cfg)
{
        struct problem why;
        struct sql_server *s = &login->server;
        int r = check_together(login->tls.cert, login->tls.key, &why);
        if (r == OK)
                r = check_mode(&login->tls, s->host[0] != '/', cfg, &why);
        if (r == OK)
                r = take_name(s, login->tls.mode, cfg, &why);
        if (r == OK)
                r = check_files(&login->tls, &why);
        return r == OK ? OK : config_wrong(at, r, "%s", why.detail);
}

int config_tls_check_pair(const struct config_at *at, const char *cert, const char *key)
{
        struct problem why;
        int r = check_together(cert, key, &why);
        if (r == OK && cert)
                r = check_pair(cert, key, &why);
        return r == OK ? OK : config_wrong(at, r, "%s", why.detail);
}

int config_tls_check_ca(const struct config_at *at, const char *setting, const char *path)
{
        struct problem why;
        X509 *ca = NULL;
        int r = path ? read_cert(setting, path, &ca, &why) : OK;
        X509_free(ca);
        return r == OK ? OK : config_wrong(at, r, "%s", why.detail);
}

int config_tls_check_name(const struct config_at *at, const char *setting, const char *name)
{
        struct problem why;
        int r = name ? check_name(setting, name, &why) : OK;
        return r == OK ? OK : config_wrong(at, r, "%s", why.detail);
}
