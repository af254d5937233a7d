/* HTTP/1.1 requests.
 *
 * llhttp reads the grammar byte by byte and calls back with pieces; the pieces of one header may
 * come in two calls when a packet ends inside it.  Since the caller keeps an unfinished request
 * in one run of bytes, a piece is an offset and a length, and the second half only makes the
 * length grow.  Nothing is copied and nothing allocated; only the eight headers somebody asks
 * for are remembered.
 *
 * A request may be read differently by whoever stands in front of us, and what the two disagree
 * about can be smuggled through.  So everything ambiguous is refused: Content-Length together
 * with Transfer-Encoding and repeated Content-Length (llhttp), and here bare CR and LF, folded
 * headers, NUL, codings other than "chunked", Transfer-Encoding in HTTP/1.0, a repeated or
 * missing Host, bytes after "#".  The head is checked for those as a whole when it is complete,
 * before any of it is used.
 *
 * Cost: llhttp is about 1 ns a byte; the second look at the head is two memchr runs. */
#include "wire/http.h"

#include "base/slice.h"

static const struct slice header_names[] = {
#define X(name, text) SLICE_LIT(text),
        HTTP_HEADER_MAP(X)
#undef X
};

/* Returned by callbacks to stop llhttp; status and error say why. */
static int refuse(struct http_parser *p, int status, const char *error)
{
        p->status = status;
        p->error = error;
        return HPE_USER;
}

static uint32_t offset(const struct http_parser *p, const char *at)
{
        return (uint32_t)(at - p->base);
}

static void span_extend(const struct http_parser *p, struct http_span *s, const char *at, size_t n)
{
        if (!s->is_set) {
                s->at = offset(p, at);
                s->is_set = true;
        }
        s->len = offset(p, at) + (uint32_t)n - s->at;
}

static int on_url(llhttp_t *ll, const char *at, size_t n)
{
        struct http_parser *p = ll->data;
        span_extend(p, &p->target, at, n);
        return 0;
}

static int on_header_field(llhttp_t *ll, const char *at, size_t n)
{
        struct http_parser *p = ll->data;
        p->has_fields = true;
        span_extend(p, &p->field, at, n);
        return 0;
}

static int on_header_value(llhttp_t *ll, const char *at, size_t n)
{
        struct http_parser *p = ll->data;
        span_extend(p, &p->value, at, n);
        return 0;
}

static struct http_span trimmed(const struct http_parser *p, struct http_span s)
{
        while (s.len && (p->base[s.at + s.len - 1] == ' ' || p->base[s.at + s.len - 1] == '\t'))
                s.len--;
        s.is_set = true; /* an empty value was still given */
        return s;
}

static int on_header_value_complete(llhttp_t *ll)
{
        struct http_parser *p = ll->data;
        struct slice name = http_slice(p->base, p->field);
        struct http_span value = trimmed(p, p->value);
        p->field = p->value = (struct http_span){0};
        if (name.len == 0 || memchr(name.ptr, ' ', name.len))
                return refuse(p, 400, "a header's name is empty or holds a space");
        /* Trailers of a chunked body come here too; they may not say anything about the head. */
        if (p->is_head_done)
                return 0;
        for (size_t i = 0; i < HTTP_HEADER_COUNT; i++) {
                if (!slice_eq_nocase(name, header_names[i]))
                        continue;
                if (p->header[i].is_set)
                        return refuse(p, 400, "a header that may come once came twice");
                p->header[i] = value;
        }
        return 0;
}

/* What llhttp lets pass for the sake of old peers. */
static int check_head_bytes(struct http_parser *p, const char *end)
{
        const char *at = p->base;
        for (const char *lf; (lf = memchr(at, '\n', (size_t)(end - at))) != NULL; at = lf + 1) {
                if (lf == p->base || lf[-1] != '\r')
                        return refuse(p, 400, "a line ends in LF without CR");
                if (lf + 1 < end && (lf[1] == ' ' || lf[1] == '\t'))
                        return refuse(p, 400, "folded header lines are not taken");
        }
        at = p->base;
        for (const char *cr; (cr = memchr(at, '\r', (size_t)(end - at))) != NULL; at = cr + 1)
                if (cr + 1 < end && cr[1] != '\n')
                        return refuse(p, 400, "a CR stands without LF");
        if (memchr(p->base, '\0', (size_t)(end - p->base)))
                return refuse(p, 400, "a NUL byte stands in the head");
        return 0;
}

/* Exactly "METHOD target HTTP/1.x" CR LF: llhttp also takes more spaces. */
static int check_request_line(struct http_parser *p)
{
        const char *target = p->base + p->target.at, *after = target + p->target.len;
        if (target[-1] != ' ' || target[-2] == ' ' || memcmp(after, " HTTP/1.", 8) != 0 ||
            memcmp(after + 9, "\r\n", 2) != 0)
                return refuse(p, 400, "the request line must be METHOD address HTTP/1.1");
        return 0;
}

/* "/path?query", "http://host/path?query" (RFC 9112 3.2.2: must be understood) or "*". */
static int split_target(struct http_parser *p)
{
        struct slice t = http_slice(p->base, p->target);
        static const struct slice scheme = SLICE_LIT("http://");
        if (t.len && memchr(t.ptr, '#', t.len))
                return refuse(p, 400, "the address holds a fragment");
        if (t.len > scheme.len && slice_eq_nocase(slice_make(t.ptr, scheme.len), scheme)) {
                const char *host = t.ptr + scheme.len;
                size_t left = t.len - scheme.len, n = 0;
                while (n < left && host[n] != '/' && host[n] != '?')
                        n++;
                p->header[HTTP_HEADER_HOST] =
                        (struct http_span){offset(p, host), (uint32_t)n, true};
                t = slice_make(host + n, left - n);
        } else if (t.len == 0 || (t.ptr[0] != '/' && !slice_eq(t, SLICE_LIT("*")))) {
                return refuse(p, 400, "the address must begin with '/'");
        }
        const char *mark = memchr(t.ptr, '?', t.len);
        size_t path_len = mark ? (size_t)(mark - t.ptr) : t.len;
        p->path = (struct http_span){offset(p, t.ptr), (uint32_t)path_len, true};
        if (mark)
                p->query = (struct http_span){offset(p, mark + 1), (uint32_t)(t.len - path_len - 1),
                                              true};
        return 0;
}

static int on_headers_complete(llhttp_t *ll)
{
        struct http_parser *p = ll->data;
        const struct http_span *te = &p->header[HTTP_HEADER_TRANSFER_ENCODING];
        if (ll->http_major != 1 || ll->http_minor > 1)
                return refuse(p, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
        if (te->is_set && (ll->http_minor == 0 || !(ll->flags & F_CHUNKED) ||
                           !slice_eq_nocase(http_slice(p->base, *te), SLICE_LIT("chunked"))))
                return refuse(p, 501, "the only transfer coding taken is chunked");
        if ((ll->flags & F_CONTENT_LENGTH) && ll->content_length > p->body_max)
                return refuse(p, 413, "the body is larger than the limit");
        int r = check_request_line(p);
        if (!r)
                r = split_target(p);
        if (r)
                return r;
        if (!p->header[HTTP_HEADER_HOST].is_set && ll->http_minor == 1)
                return refuse(p, 400, "HTTP/1.1 wants a Host header");
        p->has_body = (ll->flags & F_CHUNKED) ||
                      ((ll->flags & F_CONTENT_LENGTH) && ll->content_length > 0);
        /* An offer to upgrade may be ignored (RFC 9110 7.8), and is. */
        ll->upgrade = 0;
        p->is_head_done = true;
        return HPE_PAUSED;
}

static int on_body(llhttp_t *ll, const char *at, size_t n)
{
        struct http_parser *p = ll->data;
        if (!p->body.is_set)
                p->body = (struct http_span){offset(p, at), 0, true};
        if (n > p->body_max - p->body.len)
                return refuse(p, 413, "the body is larger than the limit");
        char *to = p->base + p->body.at + p->body.len;
        if (to != at)
                memmove(to, at, n);
        p->body.len += (uint32_t)n;
        p->data_end = offset(p, at) + (uint32_t)n;
        return 0;
}

/* Built without its strict mode, llhttp takes any two bytes after the data of a chunk.  They
 * have all arrived when the next chunk begins; joining never writes past the end of the data. */
static int check_chunk_end(struct http_parser *p)
{
        if (p->body.is_set && memcmp(p->base + p->data_end, "\r\n", 2) != 0)
                return refuse(p, 400, "a chunk does not end in CR LF where its size says");
        return 0;
}

static int on_chunk_header(llhttp_t *ll)
{
        struct http_parser *p = ll->data;
        if (ll->content_length > p->body_max - p->body.len)
                return refuse(p, 413, "the body is larger than the limit");
        return check_chunk_end(p);
}

static int on_message_complete(llhttp_t *ll)
{
        struct http_parser *p = ll->data;
        p->is_done = true;
        p->is_keep_alive = llhttp_should_keep_alive(ll) != 0;
        return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
        .on_url = on_url,
        .on_header_field = on_header_field,
        .on_header_value = on_header_value,
        .on_header_value_complete = on_header_value_complete,
        .on_headers_complete = on_headers_complete,
        .on_body = on_body,
        .on_chunk_header = on_chunk_header,
        .on_message_complete = on_message_complete,
};

void http_parser_init(struct http_parser *p, uint32_t head_max, uint32_t body_max)
{
        p->head_max = head_max;
        p->body_max = body_max;
        http_parser_next(p);
}

void http_parser_next(struct http_parser *p)
{
        *p = (struct http_parser){.head_max = p->head_max, .body_max = p->body_max};
        llhttp_init(&p->ll, HTTP_REQUEST, &settings);
}

static enum http_step bad(struct http_parser *p, int status, const char *error)
{
        refuse(p, status, error);
        return HTTP_STEP_BAD;
}

/* One run of bytes through llhttp, up to the end of the head, of the request, or of the bytes.
 * HTTP_STEP_MORE: p->fed says how far it came. */
static enum http_step feed(struct http_parser *p, size_t upto)
{
        p->ll.data = p;
        bool was_head_done = p->is_head_done;
        llhttp_errno_t err = llhttp_execute(&p->ll, p->base + p->fed, upto - p->fed);
        bool is_paused = err == HPE_PAUSED && (p->is_done || p->is_head_done != was_head_done);
        if (err != HPE_OK && !is_paused) {
                if (!p->status)
                        refuse(p, 400, llhttp_get_error_reason(&p->ll));
                if (!p->error || !*p->error)
                        p->error = "this is not HTTP";
                return HTTP_STEP_BAD;
        }
        p->fed = err == HPE_OK ? (uint32_t)upto : offset(p, llhttp_get_error_pos(&p->ll));
        if (is_paused)
                llhttp_resume(&p->ll);
        if (p->is_head_done && !was_head_done && check_head_bytes(p, p->base + p->fed))
                return HTTP_STEP_BAD;
        p->used = p->fed;
        if (!p->is_done)
                return HTTP_STEP_MORE;
        if ((p->ll.flags & F_CHUNKED) && p->base[p->used - 2] != '\r')
                return bad(p, 400, "a bare LF ends the body");
        return HTTP_STEP_REQUEST;
}

enum http_step http_parse(struct http_parser *p, char *bytes, size_t len)
{
        p->base = bytes;
        if (!p->is_head_done) {
                enum http_step step = feed(p, len < p->head_max ? len : p->head_max);
                if (step == HTTP_STEP_BAD)
                        return step;
                if (!p->is_head_done && len >= p->head_max)
                        return p->has_fields ? bad(p, 431, "the head is larger than the limit")
                                             : bad(p, 414, "the address is larger than the limit");
                if (!p->is_head_done)
                        return HTTP_STEP_MORE;
        }
        if (p->stops_at_head)
                return HTTP_STEP_MORE;
        /* Also with no byte left: a request without a body is complete after its head. */
        enum http_step step = feed(p, len);
        /* The framing of chunks is not body, but it is bounded all the same. */
        if (step == HTTP_STEP_MORE && p->fed > p->head_max + 2 * (uint64_t)p->body_max)
                return bad(p, 413, "the body is larger than the limit");
        return step;
}

const char *http_method(const struct http_parser *p)
{
        return llhttp_method_name((llhttp_method_t)p->ll.method);
}

struct slice http_field(const struct http_parser *p, const char *bytes, struct slice name)
{
        const char *at = bytes + p->target.at, *end = bytes + p->fed;
        while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL && ++at < end && *at != '\r') {
                const char *cr = memchr(at, '\r', (size_t)(end - at));
                if (!cr)
                        break;
                if ((size_t)(cr - at) <= name.len || at[name.len] != ':' ||
                    !slice_eq_nocase(slice_make(at, name.len), name))
                        continue;
                const char *value = at + name.len + 1;
                while (value < cr && (*value == ' ' || *value == '\t'))
                        value++;
                while (cr > value && (cr[-1] == ' ' || cr[-1] == '\t'))
                        cr--;
                return slice_make(value, (size_t)(cr - value));
        }
        return SLICE_NONE;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool http_unescape(struct slice s, bool is_query, char *ret, size_t *ret_len)
{
        size_t n = 0;
        for (size_t i = 0; i < s.len; i++) {
                char c = s.ptr[i];
                if (c == '%') {
                        if (s.len - i < 3 || hex_digit(s.ptr[i + 1]) < 0 ||
                            hex_digit(s.ptr[i + 2]) < 0)
                                return false;
                        c = (char)(hex_digit(s.ptr[i + 1]) * 16 + hex_digit(s.ptr[i + 2]));
                        i += 2;
                } else if (c == '+' && is_query) {
                        c = ' ';
                }
                if (c == '\0')
                        return false;
                ret[n++] = c;
        }
        *ret_len = n;
        return true;
}

bool http_query_next(struct slice *query, struct slice *ret_key, struct slice *ret_value)
{
        while (query->len && query->ptr[0] == '&')
                *query = slice_make(query->ptr + 1, query->len - 1);
        if (query->len == 0)
                return false;
        const char *amp = memchr(query->ptr, '&', query->len);
        struct slice pair = slice_make(query->ptr, amp ? (size_t)(amp - query->ptr) : query->len);
        const char *eq = memchr(pair.ptr, '=', pair.len);
        *ret_key = slice_make(pair.ptr, eq ? (size_t)(eq - pair.ptr) : pair.len);
        *ret_value = eq ? slice_make(eq + 1, pair.len - ret_key->len - 1) : SLICE_NONE;
        *query = slice_make(query->ptr + pair.len, query->len - pair.len);
        return true;
}

/* --- responses ------------------------------------------------------------------------------ */

static const struct reason {
        int status;
        const char *text;
} reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {204, "No Content"},
        {301, "Moved Permanently"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
};

const char *http_reason(int status)
{
        for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
                if (reasons[i].status == status)
                        return reasons[i].text;
        return "Error";
}

static void put_line(struct buf *b, const char *name, const char *value)
{
        buf_put_str(b, name);
        buf_put_str(b, value);
        buf_put(b, "\r\n", 2);
}

void http_put_head(struct buf *b, const struct http_head *h)
{
        buf_put_str(b, "HTTP/1.1 ");
        buf_put_u64(b, (uint64_t)h->status);
        buf_put_byte(b, ' ');
        put_line(b, "", http_reason(h->status));
        if (h->content_type)
                put_line(b, "Content-Type: ", h->content_type);
        if (h->status != 204 && h->status != 304 && !h->is_stream) {
                buf_put_str(b, "Content-Length: ");
                buf_put_u64(b, h->length);
                buf_put(b, "\r\n", 2);
        }
        if (h->date)
                put_line(b, "Date: ", h->date);
        if (h->is_closing)
                put_line(b, "Connection: ", "close");
        else if (h->is_keeping)
                put_line(b, "Connection: ", "keep-alive");
        buf_put_slice(b, h->extra);
        buf_put(b, "\r\n", 2);
}
