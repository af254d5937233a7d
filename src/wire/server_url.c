/* Taking apart the address of a server.
 *
 * Every form people try is either understood or answered with the form that is meant: an http
 * address is the commonest mistake, since the other door prints one. */
#include "wire/server_url.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"

/* One row for each option of TLS: its name in the url and in the environment, and its place in
 * struct server_tls. */
static const struct tls_option {
        const char *name, *env;
        size_t at, size;
} tls_options[] = {
#define ROW(name, env)                                                                             \
        {                                                                                          \
#name, env, offsetof(struct server_tls, name),                                     \
                        sizeof(((struct server_tls *)0)->name)                                     \
        }
        ROW(ca, "WEIR_TLS_CA"),     ROW(cert, "WEIR_TLS_CERT"),     ROW(key, "WEIR_TLS_KEY"),
        ROW(name, "WEIR_TLS_NAME"), ROW(verify, "WEIR_TLS_VERIFY"),
#undef ROW
};

static bool starts_with(const char *s, const char *with)
{
        return strncmp(s, with, strlen(with)) == 0;
}

static int unix_path(const char *path, struct server_url *ret, struct problem *p)
{
        size_t len = strlen(path);
        if (len == 0)
                return problem_set(p, ERR_BADARG, "the url names no socket: unix:/path/to/socket");
        if (len >= sizeof(ret->path))
                return problem_set(p, ERR_BADARG,
                                   "the socket's path has %zu bytes, at most %zu fit", len,
                                   sizeof(ret->path) - 1);
        ret->is_unix = true;
        memcpy(ret->path, path, len + 1);
        (void)snprintf(ret->text, sizeof(ret->text), "%s", path);
        return OK;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

/* Percent-decoded; it may hold any byte but NUL.  `what` names it in sentences. */
static int decode(struct slice s, const char *what, char *ret, size_t size, struct problem *p)
{
        size_t n = 0;
        for (size_t i = 0; i < s.len; i++) {
                char c = s.ptr[i];
                if (c == '%') {
                        int hi = i + 2 < s.len ? hex_digit(s.ptr[i + 1]) : -1;
                        int lo = i + 2 < s.len ? hex_digit(s.ptr[i + 2]) : -1;
                        if (hi < 0 || lo < 0 || (hi == 0 && lo == 0))
                                return problem_set(p, ERR_BADARG,
                                                   "the url's %s has a bad %%-escape", what);
                        c = (char)(hi * 16 + lo);
                        i += 2;
                }
                if (n + 1 >= size)
                        return problem_set(p, ERR_BADARG, "the %s is longer than %zu bytes", what,
                                           size - 1);
                ret[n++] = c;
        }
        ret[n] = '\0';
        return OK;
}

/* ---- TLS ---- */

static char *option_of(struct server_url *u, const struct tls_option *o)
{
        return (char *)&u->tls + o->at;
}

/* `from` is "the url's verify" or "WEIR_TLS_VERIFY". */
static int verify_check(const char *value, const char *from, struct problem *p)
{
        if (strcmp(value, "on") == 0 || strcmp(value, "off") == 0)
                return OK;
        return problem_set(p, ERR_BADARG, "%s is '%s'; it must be on or off", from,
                           SHOWN_MAX(slice_str(value), 32));
}

static int option_take(struct server_url *u, struct slice name, struct slice value,
                       struct problem *p)
{
        const struct tls_option *o = NULL;
        for (size_t i = 0; i < ARRAY_LEN(tls_options) && !o; i++)
                if (slice_eq(name, slice_str(tls_options[i].name)))
                        o = &tls_options[i];
        if (!o)
                return problem_set(p, ERR_BADARG,
                                   "unknown option '%s' in the url; the options are ca, cert, key, "
                                   "name and verify",
                                   SHOWN(name));
        char *to = option_of(u, o), text[SERVER_FILE_SIZE];
        if (*to)
                return problem_set(p, ERR_BADARG, "the url has the option %s twice", o->name);
        if (value.len == 0)
                return problem_set(p, ERR_BADARG, "the url's option %s has no value: %s=%s",
                                   o->name, o->name, to == u->tls.verify ? "off" : "VALUE");
        if (to != u->tls.verify)
                return decode(value, o->name, to, o->size, p);
        int r = decode(value, o->name, text, sizeof(text), p);
        if (r == OK)
                r = verify_check(text, "the url's verify", p);
        if (r == OK)
                memcpy(to, text, strlen(text) + 1);
        return r;
}

/* ca=FILE&verify=off */
static int query_parse(struct slice s, struct server_url *ret, struct problem *p)
{
        while (s.len > 0) {
                const char *end = memchr(s.ptr, '&', s.len);
                struct slice one = slice_make(s.ptr, end ? (size_t)(end - s.ptr) : s.len);
                const char *is = one.len ? memchr(one.ptr, '=', one.len) : NULL;
                size_t n_name = is ? (size_t)(is - one.ptr) : one.len;
                size_t n_value = is ? one.len - n_name - 1 : 0;
                int r = option_take(ret, slice_make(one.ptr, n_name),
                                    slice_make(one.ptr + one.len - n_value, n_value), p);
                if (r != OK)
                        return r;
                size_t used = one.len + (end ? 1 : 0);
                s = slice_make(s.ptr + used, s.len - used);
        }
        return OK;
}

int server_url_add_env(struct server_url *u, struct problem *p)
{
        if (!u->is_tls)
                return OK;
        for (size_t i = 0; i < ARRAY_LEN(tls_options); i++) {
                const struct tls_option *o = &tls_options[i];
                const char *value = secure_getenv(o->env);
                char *to = option_of(u, o);
                if (*to || !value || !*value)
                        continue;
                int r = to == u->tls.verify ? verify_check(value, o->env, p) : OK;
                if (r != OK)
                        return r;
                if (strlen(value) >= o->size)
                        return problem_set(p, ERR_BADARG, "%s is longer than %zu bytes", o->env,
                                           o->size - 1);
                memcpy(to, value, strlen(value) + 1);
        }
        if (u->tls.key[0] && !u->tls.cert[0])
                return problem_set(p, ERR_BADARG,
                                   "the key %s has no certificate: set cert=FILE or WEIR_TLS_CERT",
                                   SHOWN_LONG(u->tls.key));
        return OK;
}

bool server_url_is_verified(const struct server_url *u)
{
        return strcmp(u->tls.verify, "off") != 0;
}

/* ---- the address ---- */

static int port_parse(struct slice s, struct server_url *ret, struct problem *p)
{
        uint64_t port;
        if (!slice_to_u64(s, &port) || port == 0 || port > 65535)
                return problem_set(p, ERR_BADARG, "'%s' is no port: a number from 1 to 65535",
                                   SHOWN(s));
        ret->port = (uint16_t)port;
        return OK;
}

/* host, host:port, :port, [v6], [v6]:port; a bare v6 address has more than one colon. */
static int host_port(struct slice s, struct server_url *ret, struct problem *p)
{
        struct slice host = s, port = SLICE_NONE;
        const char *colon = memrchr(s.ptr, ':', s.len);
        const char *close = memchr(s.ptr, ']', s.len);
        if (s.len && s.ptr[0] == '[') {
                if (!close || (close + 1 != s.ptr + s.len && close[1] != ':'))
                        return problem_set(p, ERR_BADARG, "an IPv6 address is written [::1]:7379");
                host = slice_make(s.ptr + 1, (size_t)(close - s.ptr) - 1);
                if (close + 1 != s.ptr + s.len)
                        port = slice_make(close + 2, (size_t)(s.ptr + s.len - close) - 2);
        } else if (colon && memchr(s.ptr, ':', s.len) == colon) {
                host = slice_make(s.ptr, (size_t)(colon - s.ptr));
                port = slice_make(colon + 1, s.len - host.len - 1);
        }
        if (host.len == 0)
                host = SLICE_LIT("127.0.0.1");
        if (host.len >= sizeof(ret->host))
                return problem_set(p, ERR_BADARG, "the host name is longer than 255 bytes");
        memcpy(ret->host, host.ptr, host.len);
        ret->host[host.len] = '\0';
        ret->port = ret->is_tls ? SERVER_PORT_TLS_DEFAULT : SERVER_PORT_DEFAULT;
        if (port.ptr) {
                int r = port_parse(port, ret, p);
                if (r != OK)
                        return r;
        }
        bool is_v6 = strchr(ret->host, ':') != NULL;
        (void)snprintf(ret->text, sizeof(ret->text), is_v6 ? "[%s]:%u" : "%s:%u", ret->host,
                       (unsigned)ret->port);
        return OK;
}

/* [user]:token; a user without a token has it from elsewhere, and is written user: */
static int credentials(struct slice s, struct server_url *ret, struct problem *p)
{
        const char *colon = s.len ? memchr(s.ptr, ':', s.len) : NULL;
        if (!colon)
                return problem_set(p, ERR_BADARG, "a token is written %s://:token@host:port",
                                   ret->is_tls ? "rediss" : "redis");
        size_t n = (size_t)(colon - s.ptr);
        int r = decode(slice_make(s.ptr, n), "user", ret->user, sizeof(ret->user), p);
        if (r != OK)
                return r;
        return decode(slice_make(colon + 1, s.len - n - 1), "token", ret->token, sizeof(ret->token),
                      p);
}

/* What follows redis:// */
static int authority(const char *text, struct server_url *ret, struct problem *p)
{
        struct slice s = slice_str(text), query = SLICE_NONE;
        const char *mark = ret->is_tls ? memchr(s.ptr, '?', s.len) : NULL;
        if (mark) {
                query = slice_str(mark + 1);
                s.len = (size_t)(mark - s.ptr);
        }
        const char *slash = s.len ? memchr(s.ptr, '/', s.len) : NULL;
        if (slash) {
                struct slice path = slice_make(slash, s.len - (size_t)(slash - s.ptr));
                if (!slice_eq(path, SLICE_LIT("/")) && !slice_eq(path, SLICE_LIT("/0")))
                        return problem_set(p, ERR_BADARG, "weir has no databases: leave out '%s'",
                                           SHOWN(path));
                s.len -= path.len;
        }
        const char *at = s.len ? memrchr(s.ptr, '@', s.len) : NULL;
        if (at) {
                size_t n = (size_t)(at - s.ptr);
                int r = credentials(slice_make(s.ptr, n), ret, p);
                if (r != OK)
                        return r;
                s = slice_make(at + 1, s.len - n - 1);
        }
        if (s.len && memchr(s.ptr, '?', s.len))
                return problem_set(p, ERR_BADARG,
                                   "options follow '?' in rediss:// and weirs:// addresses only");
        int r = host_port(s, ret, p);
        return r == OK ? query_parse(query, ret, p) : r;
}

int server_url_parse(const char *text, struct server_url *ret, struct problem *p)
{
        static const struct {
                const char *prefix;
                bool is_tls;
        } schemes[] = {
                {"redis://", false}, {"weir://", false}, {"rediss://", true}, {"weirs://", true}};
        *ret = (struct server_url){0};
        for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
                if (!starts_with(text, schemes[i].prefix))
                        continue;
                ret->is_tls = schemes[i].is_tls;
                return authority(text + strlen(schemes[i].prefix), ret, p);
        }
        if (starts_with(text, "unix://"))
                return unix_path(text + 7, ret, p);
        if (starts_with(text, "unix:"))
                return unix_path(text + 5, ret, p);
        if (starts_with(text, "http://") || starts_with(text, "https://"))
                return problem_set(p, ERR_BADARG,
                                   "'%s' is the HTTP address; this command speaks RESP, so "
                                   "name the other one: redis://host:7379, rediss://host:7381 or "
                                   "unix:/path (the line 'ready' of weir serve shows both)",
                                   SHOWN_MAX(slice_str(text), 100));
        if (strstr(text, "://"))
                return problem_set(p, ERR_BADARG,
                                   "'%s' is no address of weir: redis://host:port, "
                                   "rediss://host:port, unix:/path or host:port",
                                   SHOWN_MAX(slice_str(text), 100));
        if (strchr(text, '/'))
                return unix_path(text, ret, p);
        if (*text == '\0')
                return problem_set(p, ERR_BADARG,
                                   "the url is empty: redis://host:port, rediss://host:port, "
                                   "unix:/path or host:port");
        return host_port(slice_str(text), ret, p);
}

/* ---- what it says ---- */

static void put_escaped(struct buf *b, const char *s)
{
        for (; *s; s++) {
                bool is_plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
                                (*s >= '0' && *s <= '9') || strchr("/._-", *s);
                if (is_plain)
                        buf_put_byte(b, *s);
                else
                        buf_printf(b, "%%%02X", (unsigned)(unsigned char)*s);
        }
}

void server_url_put(struct buf *b, const struct server_url *u)
{
        char mark = '?';
        buf_printf(b, "%s%s", u->is_tls ? "rediss://" : "", u->text);
        for (size_t i = 0; i < ARRAY_LEN(tls_options) && u->is_tls; i++) {
                const char *value = (const char *)&u->tls + tls_options[i].at;
                if (!*value)
                        continue;
                buf_printf(b, "%c%s=", mark, tls_options[i].name);
                put_escaped(b, value);
                mark = '&';
        }
}

size_t server_url_auth(const struct server_url *u, struct slice ret[SERVER_AUTH_WORDS])
{
        size_t n = 0;
        if (!u->user[0] && !u->token[0])
                return 0;
        ret[n++] = SLICE_LIT("AUTH");
        if (u->user[0])
                ret[n++] = slice_str(u->user);
        ret[n++] = slice_str(u->token);
        return n;
}
