/* Host, Origin, Referer and the Sec-Fetch headers.
 *
 * A Host is compared as a whole: "[::1].evil.test" and "127.0.0.1:80.evil.test" are names of
 * another's domain, however they begin.
 *
 * Browsers that are up to date send Sec-Fetch-Site with every request to this machine.  For those
 * that do not, a GET for an image carries no Origin either; such a browser is told by its
 * User-Agent, which begins with "Mozilla/" in every browser and in no client of freno. */
#include "door/origin.h"

#include <arpa/inet.h>

static bool is_port(struct slice s)
{
        unsigned port = 0;
        if (s.len == 0 || s.len > 5)
                return false;
        for (size_t i = 0; i < s.len; i++) {
                if (s.ptr[i] < '0' || s.ptr[i] > '9')
                        return false;
                port = port * 10 + (unsigned)(s.ptr[i] - '0');
        }
        return port <= UINT16_MAX;
}

/* Takes ":port" off the end; false when what follows the name is something else. */
static bool split_port(struct slice host, struct slice *ret_name)
{
        static const struct slice six = SLICE_LIT("[::1]");
        const char *end = NULL;
        if (host.len >= six.len && host.ptr[0] == '[')
                end = host.ptr + six.len;
        else if (host.len)
                end = memchr(host.ptr, ':', host.len);
        size_t n = end ? (size_t)(end - host.ptr) : host.len;
        *ret_name = slice_make(host.ptr, n);
        if (n == host.len)
                return true;
        return host.ptr[n] == ':' && is_port(slice_make(host.ptr + n + 1, host.len - n - 1));
}

bool origin_is_loopback(struct slice host)
{
        char text[INET_ADDRSTRLEN];
        struct in_addr v4;
        struct slice name;
        if (!split_port(host, &name))
                return false;
        if (slice_eq_nocase(name, SLICE_LIT("localhost")) || slice_eq(name, SLICE_LIT("[::1]")))
                return true;
        if (name.len == 0 || name.len >= sizeof(text))
                return false;
        memcpy(text, name.ptr, name.len);
        text[name.len] = '\0';
        return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static bool begins_with(struct slice s, struct slice begin)
{
        return s.len >= begin.len && slice_eq_nocase(slice_make(s.ptr, begin.len), begin);
}

/* `url` is an origin, or an address when may_have_path.  Without TLS both schemes count: a proxy
 * before us may speak it. */
static bool is_same_origin(struct slice url, struct slice host, bool may_have_path, bool is_tls)
{
        static const struct slice schemes[] = {SLICE_LIT("https://"), SLICE_LIT("http://")};
        for (size_t i = 0; i < (is_tls ? 1 : ARRAY_LEN(schemes)); i++) {
                size_t n = schemes[i].len;
                if (url.len <= n || !begins_with(url, schemes[i]))
                        continue;
                struct slice rest = slice_make(url.ptr + n, url.len - n);
                const char *slash = may_have_path ? memchr(rest.ptr, '/', rest.len) : NULL;
                if (slash)
                        rest.len = (size_t)(slash - rest.ptr);
                return slice_eq_nocase(rest, host);
        }
        return false;
}

static struct slice host_of(const struct http_parser *p, const char *bytes)
{
        return http_slice(bytes, p->header[HTTP_HEADER_HOST]);
}

bool origin_is_foreign(const struct http_parser *p, const char *bytes, struct origin_way way)
{
        struct slice site = http_slice(bytes, p->header[HTTP_HEADER_FETCH_SITE]);
        struct slice origin = http_slice(bytes, p->header[HTTP_HEADER_ORIGIN]);
        if (site.len && !slice_eq_nocase(site, SLICE_LIT("same-origin")) &&
            !slice_eq_nocase(site, SLICE_LIT("none")))
                return true;
        if (!p->header[HTTP_HEADER_ORIGIN].is_set ||
            is_same_origin(origin, host_of(p, bytes), false, way.is_tls))
                return false;
        /* A proxy may send a Host of its own.  No page can write this header: a browser asks us
         * first whether it may, and we say nothing. */
        struct slice host = http_field(p, bytes, SLICE_LIT("x-forwarded-host"));
        return !way.is_proxied || !is_same_origin(origin, host, false, way.is_tls);
}

static bool may_be_browser(const struct http_parser *p, const char *bytes)
{
        static const struct slice signs[] = {SLICE_LIT("sec-fetch-mode"),
                                             SLICE_LIT("sec-fetch-dest"), SLICE_LIT("referer")};
        if (p->header[HTTP_HEADER_FETCH_SITE].is_set || p->header[HTTP_HEADER_ORIGIN].is_set)
                return true;
        for (size_t i = 0; i < ARRAY_LEN(signs); i++)
                if (http_field(p, bytes, signs[i]).len)
                        return true;
        return begins_with(http_field(p, bytes, SLICE_LIT("user-agent")), SLICE_LIT("Mozilla/"));
}

bool origin_is_unproven(const struct http_parser *p, const char *bytes, bool is_tls)
{
        struct slice site = http_slice(bytes, p->header[HTTP_HEADER_FETCH_SITE]);
        if (!may_be_browser(p, bytes))
                return false;
        if (origin_is_foreign(p, bytes, (struct origin_way){.is_tls = is_tls}))
                return true;
        if (site.len)
                return !slice_eq_nocase(site, SLICE_LIT("same-origin"));
        if (p->header[HTTP_HEADER_ORIGIN].is_set)
                return false; /* it is ours, or the request would be foreign */
        struct slice referer = http_field(p, bytes, SLICE_LIT("referer"));
        return !is_same_origin(referer, host_of(p, bytes), true, is_tls);
}
