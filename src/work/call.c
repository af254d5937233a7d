/* A request, from the job to the job's end.
 *
 * libcurl does HTTP and TLS; what is decided here is what it may do.  No redirects, no proxy from
 * the environment, no other protocol, no cookies, no decompression.  A socket is opened only after
 * its address was judged (on_open_socket), and a connection that is used again, perhaps opened by
 * another handler, is judged before the request goes out (on_ready): a name that changes its
 * address between two lookups gains nothing.
 *
 * An answer's status decides; of its body no more is read than will be kept. */
#include "work/call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shown.h"
#include "wire/json.h"
#include "work/sign.h"

#define ERROR_BODY_BYTES 4096 /* of an answer that is an error */
#define JSON_DEPTH       64

struct call {
        struct call_spec spec;
        CURL *easy;
        struct curl_slist *headers;
        struct buf url, text, body;
        struct buf target; /* of the request line: what is signed is what is sent */
        bool is_body_cut;
        bool has_opened;     /* a socket: one of the name's addresses is allowed */
        const char *refusal; /* what is wrong with an address, when that is why nothing was sent */
        char address[INET6_ADDRSTRLEN];
        char curl_error[CURL_ERROR_SIZE];
};

static void call_free(struct call *c)
{
        curl_easy_cleanup(c->easy);
        curl_slist_free_all(c->headers);
        buf_release(&c->url);
        buf_release(&c->target);
        buf_release(&c->text);
        buf_release(&c->body);
        free(c);
}

static curl_socket_t on_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
        struct call *c = ctx;
        (void)purpose;
        const char *why = address_refusal(&c->spec.handler->addresses, &a->addr);
        if (why) {
                struct sockaddr_in6 in6;
                const void *bytes = &((const struct sockaddr_in *)(const void *)&a->addr)->sin_addr;
                if (a->family == AF_INET6) {
                        memcpy(&in6, &a->addr, sizeof(in6));
                        bytes = &in6.sin6_addr;
                }
                (void)inet_ntop(a->family, bytes, c->address, sizeof(c->address));
                c->refusal = c->has_opened ? NULL : why;
                return CURL_SOCKET_BAD;
        }
        c->has_opened = true;
        c->refusal = NULL;
        return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int on_ready(void *ctx, char *remote, char *local, int remote_port, int local_port)
{
        struct call *c = ctx;
        (void)local;
        (void)remote_port;
        (void)local_port;
        const char *why = address_text_refusal(&c->spec.handler->addresses, remote);
        if (!why)
                return CURL_PREREQFUNC_OK;
        (void)snprintf(c->address, sizeof(c->address), "%s", remote);
        c->refusal = why;
        return CURL_PREREQFUNC_ABORT;
}

static long status_of(const struct call *c)
{
        long status = 0;
        (void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
        return status;
}

static bool is_good(long status)
{
        return status >= 200 && status < 300;
}

/* Less than n taken ends the transfer; call_ended knows why. */
static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
        struct call *c = ctx;
        size_t len = size * n;
        size_t max = is_good(status_of(c)) ? c->spec.handler->output_max : ERROR_BODY_BYTES;
        size_t room = max - c->body.len;
        if (len > room) {
                c->is_body_cut = true;
                buf_put(&c->body, bytes, room);
                return CURL_WRITEFUNC_ERROR;
        }
        buf_put(&c->body, bytes, len);
        return len;
}

/* ---- the request ---- */

static void add_header(struct call *c, const char *text)
{
        struct curl_slist *more = curl_slist_append(c->headers, text);
        ASSERT(more); /* out of memory for a line of text */
        c->headers = more;
}

/* A hook may hold any bytes; a header may not. */
static void add_header_value(struct call *c, const char *name, const char *value)
{
        buf_clear(&c->text);
        buf_printf(&c->text, "%s: ", name);
        for (const char *at = value; *at; at++) {
                unsigned char b = (unsigned char)*at;
                if (b <= ' ' || b >= 0x7f || b == '%')
                        buf_printf(&c->text, "%%%02X", b);
                else
                        buf_put_byte(&c->text, *at);
        }
        add_header(c, buf_cstr(&c->text));
}

static void add_header_number(struct call *c, const char *name, int64_t value)
{
        char digits[24];
        (void)snprintf(digits, sizeof(digits), "%lld", (long long)value);
        add_header_value(c, name, digits);
}

/* What the headers say, as they say it: the receiver builds the same text from what it got. */
static void put_signed_head(struct call *c, struct buf *b)
{
        static const char prefix[] = "X-Weir-";
        static const char *const names[] = {"Timestamp", "Job-Id",  "Hook",     "Queue",
                                            "Group",     "Attempt", "Attempts", "Fence"};
        buf_printf(b, "weir-request-2\nPOST\n%s\n", buf_cstr(&c->target));
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                size_t len = strlen(names[i]);
                for (const struct curl_slist *h = c->headers; h; h = h->next) {
                        const char *name = h->data + strlen(prefix);
                        if (strncmp(h->data, prefix, strlen(prefix)) == 0 &&
                            strncmp(name, names[i], len) == 0 && name[len] == ':')
                                buf_put_str(b, name + len + 2);
                }
                buf_put_byte(b, '\n');
        }
}

static bool add_signature(struct call *c, int64_t now_s)
{
        const struct handler *h = c->spec.handler;
        struct buf heads[SIGN_VERSIONS] = {0};
        bool is_signed = true;
        if (h->secrets.n == 0)
                return true;
        buf_printf(&heads[0], "%lld.%lld.", (long long)now_s, (long long)c->spec.job->id);
        put_signed_head(c, &heads[1]);
        buf_clear(&c->text);
        buf_printf(&c->text, "X-Weir-Signature: t=%lld", (long long)now_s);
        for (size_t v = 0; v < SIGN_VERSIONS; v++) {
                for (size_t i = 0; h->signs_with[v] && i < h->secrets.n && is_signed; i++) {
                        buf_printf(&c->text, ",v%zu=", v + 1);
                        is_signed = sign_put(&c->text, slice_str(h->secrets.argv[i]),
                                             buf_slice(&heads[v]), buf_slice(&c->spec.job->args));
                }
                buf_release(&heads[v]);
        }
        add_header(c, buf_cstr(&c->text));
        return is_signed;
}

static bool add_headers(struct call *c)
{
        const struct job *j = c->spec.job;
        int64_t now_s = clock_wall_ms() / MS_PER_S;
        bool is_json = json_is_valid(buf_slice(&j->args), JSON_DEPTH);
        add_header(c, is_json ? "Content-Type: application/json"
                              : "Content-Type: application/octet-stream");
        add_header(c, "Expect:"); /* no waiting for a 100 before the body */
        add_header_number(c, "X-Weir-Job-Id", j->id);
        add_header_value(c, "X-Weir-Hook", j->hook);
        add_header_value(c, "X-Weir-Queue", j->queue);
        if (j->group[0])
                add_header_value(c, "X-Weir-Group", j->group);
        add_header_number(c, "X-Weir-Attempt", j->attempt);
        add_header_number(c, "X-Weir-Attempts", j->attempts);
        add_header_number(c, "X-Weir-Fence", j->fence);
        add_header_number(c, "X-Weir-Timestamp", now_s);
        if (j->traceparent[0])
                add_header_value(c, "traceparent", j->traceparent);
        return add_signature(c, now_s);
}

#define SET(option, value)                                                                         \
        do {                                                                                       \
                CURLcode set_ = curl_easy_setopt(c->easy, option, value);                          \
                ASSERT(set_ == CURLE_OK);                                                          \
        } while (0)

static void set_options(struct call *c)
{
        const struct handler *h = c->spec.handler;
        SET(CURLOPT_URL, buf_cstr(&c->url));
        SET(CURLOPT_REQUEST_TARGET, buf_cstr(&c->target));
        SET(CURLOPT_PRIVATE, c);
        SET(CURLOPT_ERRORBUFFER, c->curl_error);
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDS, c->spec.job->args.len ? c->spec.job->args.ptr : "");
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->spec.job->args.len);
        SET(CURLOPT_HTTPHEADER, c->headers);
        SET(CURLOPT_USERAGENT, "weir");
        SET(CURLOPT_WRITEFUNCTION, on_body);
        SET(CURLOPT_WRITEDATA, c);
        SET(CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
        SET(CURLOPT_OPENSOCKETDATA, c);
        SET(CURLOPT_PREREQFUNCTION, on_ready);
        SET(CURLOPT_PREREQDATA, c);
        SET(CURLOPT_PROTOCOLS_STR, "http,https");
        SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_PROXY, "");
        SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
        SET(CURLOPT_PATH_AS_IS, 1L);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_QUICK_EXIT, 1L); /* never waits for a name server that does not answer */
        if (h->ca_file)
                SET(CURLOPT_CAINFO, h->ca_file);
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long)h->connect_ms);
        SET(CURLOPT_TIMEOUT_MS, (long)c->spec.job->limit_ms);
}

int call_start(const struct call_spec *spec, struct call **ret, struct problem *p)
{
        struct call *c = xcalloc(1, sizeof(*c));
        c->spec = *spec;
        buf_init(&c->url, 0);
        buf_init(&c->target, 0);
        buf_init(&c->text, 0);
        buf_init(&c->body, 0);
        int r = call_url(spec->handler, spec->job, &c->url, p);
        if (r == OK)
                call_url_target(buf_cstr(&c->url), &c->target);
        c->easy = curl_easy_init();
        if (r == OK && !c->easy)
                r = problem_set(p, ERR_UNAVAIL, "no memory for a request");
        if (r == OK && !add_headers(c))
                r = problem_set(p, ERR_INTERNAL, "the request cannot be signed");
        if (r == OK) {
                set_options(c);
                if (!curl_loop_add(spec->curl, c->easy))
                        r = problem_set(p, ERR_UNAVAIL, "no room for a request");
        }
        if (r != OK) {
                call_free(c);
                return r;
        }
        *ret = c;
        return OK;
}

/* ---- the answer ---- */

/* RFC 9110, 10.2.3: these three may have a Retry-After, and a 413 with one will pass. */
static int64_t retry_in_ms(const struct call *c, long status)
{
        curl_off_t seconds = 0;
        bool may_tell = status == 413 || status == 429 || status == 503;
        if (!may_tell || curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK ||
            seconds <= 0)
                return handler_is_final(c->spec.handler, status) ? HANDLER_RETRY_NEVER
                                                                 : HANDLER_RETRY_DEFAULT;
        if (seconds > HANDLER_RETRY_MAX_MS / MS_PER_S)
                return HANDLER_RETRY_MAX_MS;
        return (int64_t)seconds * MS_PER_S;
}

static void describe_answer(struct call *c, long status)
{
        char *to = NULL;
        buf_printf(&c->text, "HTTP %ld", status);
        (void)curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to);
        if (to)
                buf_printf(&c->text, " to %s: redirects are not followed",
                           SHOWN_MAX(slice_str(to), 300));
        struct slice body = buf_slice(&c->body);
        while (body.len && (body.ptr[body.len - 1] == '\n' || body.ptr[body.len - 1] == '\r'))
                body.len--;
        if (body.len) {
                buf_put_str(&c->text, ": ");
                buf_put_slice(&c->text, body);
        }
}

static void describe_trouble(struct call *c, CURLcode result)
{
        const char *says = c->curl_error[0] ? c->curl_error : curl_easy_strerror(result);
        if (c->refusal)
                buf_printf(&c->text,
                           "%s is %s: not connected to (see `allow` and `allow_private` of the "
                           "handler)",
                           c->address, c->refusal);
        else if (result == CURLE_OPERATION_TIMEDOUT)
                buf_printf(&c->text, "no answer in time: %s", says);
        else
                buf_printf(&c->text, "no answer: %s", says);
}

void call_ended(void *ctx, CURLcode result)
{
        struct call *c = ctx;
        long status = status_of(c);
        bool has_answer = result == CURLE_OK || (result == CURLE_WRITE_ERROR && c->is_body_cut);
        struct call_result r = {.retry_in_ms = HANDLER_RETRY_DEFAULT};
        buf_clear(&c->text);
        if (has_answer && is_good(status)) {
                r.is_done = true;
                r.body = buf_slice(&c->body);
                r.is_body_cut = c->is_body_cut;
        } else {
                if (has_answer)
                        describe_answer(c, status);
                else
                        describe_trouble(c, result);
                r.error = buf_slice(&c->text);
                if (has_answer)
                        r.retry_in_ms = retry_in_ms(c, status);
        }
        c->spec.done(c->spec.ctx, &r);
        call_free(c);
}

void call_cancel(struct call *c)
{
        curl_loop_remove(c->spec.curl, c->easy);
        call_free(c);
}
