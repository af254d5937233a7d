/* The server's half of HTTP/1.1: bytes in, a request out; and the head of a response.
 *
 * Pure: no socket, no clock.  llhttp does the grammar; this adds what a server must refuse beyond
 * it and keeps offsets instead of pointers, so that the caller may move its buffer.
 *
 * The caller shows everything since the request's first byte, at each call from the beginning;
 * bytes seen before are not looked at again.  Chunked bodies are joined in place, which is why
 * the bytes are writable. */
#ifndef WEIR_WIRE_HTTP_H
#define WEIR_WIRE_HTTP_H

#include <llhttp.h>

#include "base/buf.h"

enum http_step {
        HTTP_STEP_MORE,    /* not complete; is_head_done says whether the head is */
        HTTP_STEP_REQUEST, /* complete: `used` bytes belong to it */
        HTTP_STEP_BAD,     /* answer with `status` and `error`, then close */
};

/* Offsets from the request's first byte; len 0 and is_set false when the header is missing. */
struct http_span {
        uint32_t at;
        uint32_t len : 31, is_set : 1; /* a connection keeps fifteen of these */
};

#define HTTP_HEADER_MAP(X)                                                                         \
        X(HOST, "host")                                                                            \
        X(AUTHORIZATION, "authorization")                                                          \
        X(CONTENT_TYPE, "content-type")                                                            \
        X(EXPECT, "expect")                                                                        \
        X(ORIGIN, "origin")                                                                        \
        X(FETCH_SITE, "sec-fetch-site")                                                            \
        X(TRANSFER_ENCODING, "transfer-encoding")                                                  \
        X(IDEMPOTENCY_KEY, "idempotency-key")

enum http_header {
#define X(name, text) HTTP_HEADER_##name,
        HTTP_HEADER_MAP(X)
#undef X
                HTTP_HEADER_COUNT
};

struct http_parser {
        llhttp_t ll;
        /* Set by http_parser_init. */
        uint32_t head_max, body_max; /* bytes */
        /* The request, valid from is_head_done (body: from HTTP_STEP_REQUEST). */
        struct http_span target, path, query; /* of the request line; query without '?' */
        struct http_span header[HTTP_HEADER_COUNT];
        struct http_span body;
        bool is_head_done;
        bool is_keep_alive;
        bool has_body;   /* announced by Content-Length > 0 or chunked */
        bool has_fields; /* the request line is behind us */
        bool is_done;
        /* Set by the caller: leave the bytes behind the head as they are, until it is not set. */
        bool stops_at_head;
        uint32_t used; /* bytes of the request, once complete */
        /* HTTP_STEP_BAD */
        int status;        /* 400, 413, 414, 431, 501, 505 */
        const char *error; /* a sentence, static */
        /* How far we are. */
        uint32_t fed;
        uint32_t data_end;             /* offset after the newest body data, before joining */
        char *base;                    /* the caller's bytes, during a call only */
        struct http_span field, value; /* of the header being read */
};

void http_parser_init(struct http_parser *p, uint32_t head_max, uint32_t body_max);
void http_parser_next(struct http_parser *p); /* ready for the next request */
enum http_step http_parse(struct http_parser *p, char *bytes, size_t len);

const char *http_method(const struct http_parser *p); /* "GET" */

static inline struct slice http_slice(const char *bytes, struct http_span s)
{
        return s.is_set ? slice_make(bytes + s.at, s.len) : SLICE_NONE;
}

/* The value of a header that is not in the table above, without spaces around it, from a request
 * whose head is done; the first one when it came more than once, empty when it did not come.  The
 * name in lower case. */
struct slice http_field(const struct http_parser *p, const char *bytes, struct slice name);

/* Percent-decodes into ret (room for s.len bytes); '+' is a space when is_query.  False on a bad
 * escape or a NUL. */
bool http_unescape(struct slice s, bool is_query, char *ret, size_t *ret_len);

/* Takes "key=value" off the front of *query; both still escaped.  False at the end. */
bool http_query_next(struct slice *query, struct slice *ret_key, struct slice *ret_value);

struct http_head {
        int status;
        const char *content_type; /* NULL: no such line */
        size_t length;            /* Content-Length, also of a HEAD answer */
        bool is_closing;          /* "Connection: close" */
        bool is_stream;           /* no Content-Length: it ends with the connection */
        bool is_keeping;          /* "Connection: keep-alive", which HTTP/1.0 wants to hear */
        const char *date;         /* IMF-fixdate; NULL: no such line */
        struct slice extra;       /* more lines, each with its CR LF */
};

void http_put_head(struct buf *b, const struct http_head *h);
const char *http_reason(int status);

#endif
