/* Taking apart the address of a server.
 *
 * Every form people try is either understood or answered with the form that is meant: an http
 * address is the commonest mistake, since the other door prints one. */
#include "wire/server_url.h"

#include <stdio.h>
#include <string.h>

#include "base/shown.h"

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

/* Percent-decoded; a token may hold any byte but NUL. */
static int token_decode(struct slice s, struct server_url *ret, struct problem *p)
{
        size_t n = 0;
        for (size_t i = 0; i < s.len; i++) {
                char c = s.ptr[i];
                if (c == '%') {
                        int hi = i + 2 < s.len ? hex_digit(s.ptr[i + 1]) : -1;
                        int lo = i + 2 < s.len ? hex_digit(s.ptr[i + 2]) : -1;
                        if (hi < 0 || lo < 0 || (hi == 0 && lo == 0))
                                return problem_set(p, ERR_BADARG,
                                                   "the url's token has a bad %%-escape");
                        c = (char)(hi * 16 + lo);
                        i += 2;
                }
                if (n + 1 >= sizeof(ret->token))
                        return problem_set(p, ERR_BADARG, "the token is longer than %zu bytes",
                                           sizeof(ret->token) - 1);
                ret->token[n++] = c;
        }
        ret->token[n] = '\0';
        return OK;
}

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
        ret->port = SERVER_PORT_DEFAULT;
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

/* What follows redis:// */
static int authority(const char *text, struct server_url *ret, struct problem *p)
{
        struct slice s = slice_str(text);
        const char *slash = memchr(s.ptr, '/', s.len);
        if (slash && strcmp(slash, "/") != 0 && strcmp(slash, "/0") != 0)
                return problem_set(p, ERR_BADARG, "weir has no databases: leave out '%s'",
                                   SHOWN_STR(slash));
        if (slash)
                s.len = (size_t)(slash - s.ptr);
        const char *at = s.len ? memrchr(s.ptr, '@', s.len) : NULL;
        if (at) {
                struct slice user = slice_make(s.ptr, (size_t)(at - s.ptr));
                const char *colon = user.len ? memchr(user.ptr, ':', user.len) : NULL;
                if (!colon)
                        return problem_set(p, ERR_BADARG,
                                           "a token is written redis://:token@host:port");
                int r = token_decode(slice_make(colon + 1, (size_t)(at - colon) - 1), ret, p);
                if (r != OK)
                        return r;
                s = slice_make(at + 1, s.len - user.len - 1);
        }
        return host_port(s, ret, p);
}

int server_url_parse(const char *text, struct server_url *ret, struct problem *p)
{
        *ret = (struct server_url){0};
        if (starts_with(text, "redis://"))
                return authority(text + 8, ret, p);
        if (starts_with(text, "weir://"))
                return authority(text + 7, ret, p);
        if (starts_with(text, "unix://"))
                return unix_path(text + 7, ret, p);
        if (starts_with(text, "unix:"))
                return unix_path(text + 5, ret, p);
        if (starts_with(text, "http://") || starts_with(text, "https://"))
                return problem_set(p, ERR_BADARG,
                                   "'%s' is the HTTP address; this command speaks RESP, so "
                                   "name the other one: redis://host:7379 or unix:/path (the "
                                   "line 'ready' of weir serve shows both)",
                                   SHOWN_MAX(slice_str(text), 100));
        if (starts_with(text, "rediss://"))
                return problem_set(p, ERR_BADARG,
                                   "weir speaks no TLS: use redis:// over loopback, "
                                   "a unix socket or a tunnel");
        if (strstr(text, "://"))
                return problem_set(p, ERR_BADARG,
                                   "'%s' is no address of weir: redis://host:port, unix:/path "
                                   "or host:port",
                                   SHOWN_MAX(slice_str(text), 100));
        if (strchr(text, '/'))
                return unix_path(text, ret, p);
        if (*text == '\0')
                return problem_set(p, ERR_BADARG,
                                   "the url is empty: redis://host:port, unix:/path or host:port");
        return host_port(slice_str(text), ret, p);
}
