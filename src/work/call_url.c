/* The address of a request, from the handler's template and the job's values.
 *
 *      https :// shop.example :8443 /hooks/{hook}?id={id}
 *      scheme    host         port  rest
 *
 * The parts are found in the template, before anything is filled in, so a value can never move the
 * border between them.  Scheme and port take no values.  The host takes them only from a handler
 * with a list of hosts, and only letters, digits, '-' and '.': then the list decides. */
#include "base/shown.h"
#include "work/call.h"

#include <ctype.h>
#include <strings.h>

struct parts {
        struct slice scheme; /* with "://" */
        struct slice host;   /* with brackets for IPv6 */
        struct slice port;   /* with ':', or empty */
        struct slice rest;   /* from '/' or '?' on, or empty */
};

static int parts_take(const char *url, struct parts *ret, struct problem *p)
{
        const char *sep = strstr(url, "://");
        size_t scheme = sep ? (size_t)(sep - url) : 0;
        bool is_http = scheme == 4 && strncasecmp(url, "http", 4) == 0;
        if (!is_http && !(scheme == 5 && strncasecmp(url, "https", 5) == 0))
                return problem_set(p, ERR_BADARG, "'%s' does not begin with http:// or https://",
                                   SHOWN_MAX(slice_str(url), 100));
        const char *host = sep + 3;
        size_t all = strcspn(host, "/?#");
        if (memchr(host, '@', all))
                return problem_set(p, ERR_BADARG, "no user or password in an address, please");
        if (strpbrk(url, " \t\r\n#\\"))
                return problem_set(p, ERR_BADARG, "'%s' holds a blank, '#' or '\\'",
                                   SHOWN_MAX(slice_str(url), 100));
        const char *end = host + all, *colon = NULL;
        for (const char *at = host; at < end; at++)
                colon = *at == ':' ? at : *at == ']' ? NULL : colon;
        if (host[0] == '[' && !memchr(host, ']', all))
                return problem_set(p, ERR_BADARG, "'%s': a '[' is never closed",
                                   SHOWN_MAX(slice_str(url), 100));
        ret->scheme = slice_make(url, scheme + 3);
        ret->host = slice_make(host, colon ? (size_t)(colon - host) : all);
        ret->port = colon ? slice_make(colon, (size_t)(end - colon)) : SLICE_NONE;
        ret->rest = slice_str(end);
        if (ret->host.len == 0)
                return problem_set(p, ERR_BADARG, "'%s' names no host",
                                   SHOWN_MAX(slice_str(url), 100));
        uint64_t port;
        if (ret->port.len && (!slice_to_u64(slice_make(colon + 1, ret->port.len - 1), &port) ||
                              port == 0 || port > 65535))
                return problem_set(p, ERR_BADARG, "'%s': a port is a number from 1 to 65535",
                                   SHOWN_MAX(slice_str(url), 100));
        return OK;
}

static const struct word_value *value_at(struct slice left, const struct job_values *values)
{
        for (size_t i = 0; i < JOB_VALUES; i++) {
                size_t len = strlen(values->all[i].name);
                if (left.len >= len + 2 && memcmp(left.ptr + 1, values->all[i].name, len) == 0 &&
                    left.ptr[1 + len] == '}')
                        return &values->all[i];
        }
        return NULL;
}

static void put_encoded(struct buf *b, struct slice value)
{
        for (size_t i = 0; i < value.len; i++) {
                unsigned char c = (unsigned char)value.ptr[i];
                if (isalnum(c) || memchr("-._~", c, 4))
                        buf_put_byte(b, (char)c);
                else
                        buf_printf(b, "%%%02X", c);
        }
}

static bool is_host_text(struct slice value)
{
        for (size_t i = 0; i < value.len; i++)
                if (!isalnum((unsigned char)value.ptr[i]) && !memchr("-.", value.ptr[i], 2))
                        return false;
        return value.len > 0;
}

/* Fills in the placeholders of one part. */
static int put_part(struct buf *b, struct slice part, const struct job_values *values, bool is_host,
                    struct problem *p)
{
        for (size_t i = 0; i < part.len; i++) {
                const struct word_value *v = NULL;
                if (part.ptr[i] == '{')
                        v = value_at(slice_make(part.ptr + i, part.len - i), values);
                if (!v) {
                        buf_put_byte(b, part.ptr[i]);
                        continue;
                }
                if (is_host && !is_host_text(v->value))
                        return problem_set(p, ERR_BADARG,
                                           "the job's %s cannot be part of a host's name", v->name);
                put_encoded(b, v->value);
                i += strlen(v->name) + 1;
        }
        return OK;
}

/* "." and ".." lead out of the folder that was meant, here or at the receiver. */
static bool has_dots(struct slice rest)
{
        const char *query = rest.len ? memchr(rest.ptr, '?', rest.len) : NULL;
        size_t len = query ? (size_t)(query - rest.ptr) : rest.len, from = 1;
        for (size_t i = 1; i <= len; i++) {
                if (i < len && rest.ptr[i] != '/')
                        continue;
                struct slice part = slice_make(rest.ptr + from, i - from);
                if (slice_eq(part, SLICE_LIT(".")) || slice_eq(part, SLICE_LIT("..")))
                        return true;
                from = i + 1;
        }
        return false;
}

static int check_host(const struct handler *h, struct slice host, struct problem *p)
{
        char name[300];
        struct slice bare = host;
        if (bare.len > 2 && bare.ptr[0] == '[') /* IPv6 */
                bare = slice_make(bare.ptr + 1, bare.len - 2);
        if (bare.len >= sizeof(name))
                return problem_set(p, ERR_BADARG, "the host's name is too long");
        memcpy(name, bare.ptr, bare.len);
        name[bare.len] = '\0';
        if (!handler_allows_host(h, name))
                return problem_set(p, ERR_FORBIDDEN, "the host %s is not in the list `allow`",
                                   SHOWN_LONG(name));
        return OK;
}

int call_url(const struct handler *h, const struct job *job, struct buf *ret, struct problem *p)
{
        struct parts parts;
        struct job_values values;
        job_values(job, &values);
        int r = parts_take(h->url, &parts, p);
        if (r != OK)
                return r;
        buf_put_slice(ret, parts.scheme);
        size_t host = ret->len;
        r = put_part(ret, parts.host, &values, true, p);
        if (r == OK)
                r = check_host(h, slice_make(ret->ptr + host, ret->len - host), p);
        buf_put_slice(ret, parts.port);
        size_t rest = ret->len;
        if (r == OK)
                r = put_part(ret, parts.rest, &values, false, p);
        if (r == OK && has_dots(slice_make(ret->ptr + rest, ret->len - rest)))
                r = problem_set(p, ERR_BADARG, "the address would hold '.' or '..' as a folder");
        return r;
}

void call_url_target(const char *url, struct buf *ret)
{
        const char *host = strstr(url, "://") + 3; /* parts_take has seen it */
        const char *rest = host + strcspn(host, "/?");
        buf_put_str(ret, *rest == '/' ? "" : "/");
        buf_put_str(ret, rest);
}

int call_url_check(const struct handler *h, struct problem *p)
{
        static const char known[] = JOB_PLACEHOLDERS;
        struct parts parts;
        int r = parts_take(h->url, &parts, p);
        if (r != OK)
                return r;
        if (memchr(parts.host.ptr, '{', parts.host.len))
                return h->hosts.n ? OK
                                  : problem_set(p, ERR_BADARG,
                                                "a host with a placeholder needs the hosts it may "
                                                "be in `allow`");
        for (const char *at = strchr(parts.rest.ptr, '{'); at; at = strchr(at + 1, '{')) {
                const char *end = strchr(at, '}');
                size_t len = end ? (size_t)(end - at) + 1 : strlen(at);
                if (!end || !memmem(known, sizeof(known) - 1, at, len))
                        return problem_set(p, ERR_BADARG, "'%s' is none of %s",
                                           SHOWN(slice_make(at, len)), known);
        }
        return check_host(h, parts.host, p);
}
