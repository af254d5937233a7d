/* RESP, the server's half.
 *
 *      *2\r\n$4\r\nPING\r\n$2\r\nhi\r\n        an array of bulk strings, or
 *      PING hi\r\n                             an inline line
 *
 * The parser keeps no state between calls.  A resumable one would have to keep an array of
 * offsets for each half-arrived command; this one starts over instead, and bounds what that costs
 * with `need`: every argument still missing takes at least 6 bytes ("$0\r\n\r\n"), so a peer that
 * drips bytes is looked at only when a whole request could be there.  Commands that arrive whole,
 * which is nearly all of them, are parsed once and in place.
 *
 * Lengths are strict: digits without sign or leading zero, CR LF after them.  Redis takes a bit
 * more; being strict costs no client anything and leaves nothing to disagree about.
 *
 * A request that starts like HTTP or TLS was meant for somebody else: a browser can be made to
 * send bytes of an attacker's choice to a port on this machine, so such a connection is dropped
 * before anything in it is taken as a command. */
#include "wire/resp.h"

/* "$0\r\n\r\n" */
#define ARG_BYTES_MIN 6
/* "*" or "$", at most ten digits, CR LF. */
#define LENGTH_DIGITS_MAX 10

static const struct slice foreign_words[] = {
        SLICE_LIT("GET "),     SLICE_LIT("POST "),  SLICE_LIT("PUT "),     SLICE_LIT("HEAD "),
        SLICE_LIT("DELETE "),  SLICE_LIT("PATCH "), SLICE_LIT("OPTIONS "), SLICE_LIT("TRACE "),
        SLICE_LIT("CONNECT "), SLICE_LIT("PRI "),   SLICE_LIT("Host:"),
};

static enum resp_step bad(struct resp_request *r, const char *error)
{
        r->error = error;
        return RESP_BAD;
}

/* The digits and CR LF of a length.  RESP_REQUEST: *at moved past them. */
static inline enum resp_step parse_length(struct slice in, size_t *at, size_t *ret,
                                          struct resp_request *r)
{
        const char *p = in.ptr + *at, *end = in.ptr + in.len;
        const char *start = p;
        uint64_t v = 0;
        while (p < end && *p >= '0' && *p <= '9') {
                v = v * 10 + (uint64_t)(*p - '0');
                if (++p - start > LENGTH_DIGITS_MAX)
                        return bad(r, "a length has too many digits");
        }
        if (p == end) {
                r->need = in.len + 1;
                return RESP_MORE;
        }
        if (p == start || *p != '\r' || (*start == '0' && p - start > 1))
                return bad(r, "a length is not a number");
        if (p + 1 == end) {
                r->need = in.len + 1;
                return RESP_MORE;
        }
        if (p[1] != '\n')
                return bad(r, "a length does not end in CR LF");
        *at = (size_t)(p - in.ptr) + 2;
        *ret = (size_t)v;
        return RESP_REQUEST;
}

/* Argument i of argc at *at; `left` more follow it. */
static inline enum resp_step parse_arg(struct slice in, size_t *at, size_t left,
                                       struct resp_request *r, struct slice *ret)
{
        size_t len;
        if (*at == in.len) {
                r->need = *at + (left + 1) * ARG_BYTES_MIN;
                return r->need > r->bytes_max ? bad(r, "the request is too large") : RESP_MORE;
        }
        if (in.ptr[*at] != '$')
                return bad(r, "an argument is not a bulk string ('$')");
        size_t pos = *at + 1;
        enum resp_step step = parse_length(in, &pos, &len, r);
        if (step != RESP_REQUEST)
                return step;
        size_t whole = pos + len + 2 + left * ARG_BYTES_MIN;
        if (whole > r->bytes_max)
                return bad(r, "the request is too large");
        if (in.len < pos + len + 2) {
                r->need = whole;
                return RESP_MORE;
        }
        if (in.ptr[pos + len] != '\r' || in.ptr[pos + len + 1] != '\n')
                return bad(r, "a bulk string does not end in CR LF where its length says");
        *ret = slice_make(in.ptr + pos, len);
        *at = pos + len + 2;
        return RESP_REQUEST;
}

static enum resp_step parse_array(struct slice in, struct resp_request *r)
{
        size_t at = 1, argc;
        enum resp_step step = parse_length(in, &at, &argc, r);
        if (step != RESP_REQUEST)
                return step;
        if (argc > r->argv_max)
                return bad(r, "too many arguments");
        for (size_t i = 0; i < argc; i++) {
                step = parse_arg(in, &at, argc - i - 1, r, &r->argv[i]);
                if (step != RESP_REQUEST)
                        return step;
        }
        r->argc = argc;
        r->used = at;
        return RESP_REQUEST;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One escape after a backslash in double quotes, as redis-cli writes them; *p is at the
 * character after the backslash and moves past the escape. */
static char unescape(const char **p, const char *end)
{
        const char *s = *p;
        if (*s == 'x' && end - s > 2 && hex_digit(s[1]) >= 0 && hex_digit(s[2]) >= 0) {
                *p = s + 3;
                return (char)(hex_digit(s[1]) * 16 + hex_digit(s[2]));
        }
        *p = s + 1;
        switch (*s) {
        case 'n':
                return '\n';
        case 'r':
                return '\r';
        case 't':
                return '\t';
        case 'b':
                return '\b';
        case 'a':
                return '\a';
        default:
                return *s;
        }
}

/* A quoted word from after its opening quote; NULL when the quote is not closed by the end or
 * something is glued to it. */
static const char *parse_quoted(const char *p, const char *end, char quote, char *out, size_t *len)
{
        size_t n = 0;
        while (p < end && *p != quote) {
                if (*p == '\\' && p + 1 < end && quote == '"') {
                        p++;
                        out[n++] = unescape(&p, end);
                } else if (*p == '\\' && p + 1 < end && p[1] == '\'') {
                        out[n++] = '\'';
                        p += 2;
                } else {
                        out[n++] = *p++;
                }
        }
        if (p >= end)
                return NULL;
        p++;
        if (p < end && *p != ' ' && *p != '\t')
                return NULL;
        *len = n;
        return p;
}

static enum resp_step parse_words(struct slice line, struct arena *arena, struct resp_request *r)
{
        const char *p = line.ptr, *end = line.ptr + line.len;
        char *scratch = NULL;
        for (;;) {
                while (p < end && (*p == ' ' || *p == '\t'))
                        p++;
                if (p == end)
                        return RESP_REQUEST;
                if (r->argc == r->argv_max)
                        return bad(r, "too many arguments");
                const char *start = p;
                if (*p == '"' || *p == '\'') {
                        size_t len;
                        /* All unescaped words together are shorter than the line. */
                        if (!scratch)
                                scratch = arena_alloc(arena, line.len);
                        if (!scratch)
                                return bad(r, "no memory for this request");
                        p = parse_quoted(p + 1, end, *start, scratch, &len);
                        if (!p)
                                return bad(r, "unbalanced quotes in an inline request");
                        r->argv[r->argc++] = slice_make(scratch, len);
                        scratch += len;
                        continue;
                }
                while (p < end && *p != ' ' && *p != '\t')
                        p++;
                r->argv[r->argc++] = slice_make(start, (size_t)(p - start));
        }
}

/* Looks only at the first word, so it knows before the line is complete. */
static bool is_foreign(struct slice in)
{
        if (in.len >= 2 && in.ptr[0] == 0x16 && in.ptr[1] == 0x03)
                return true; /* a TLS handshake record */
        for (size_t i = 0; i < ARRAY_LEN(foreign_words); i++) {
                struct slice w = foreign_words[i];
                if (in.len >= w.len && slice_eq_nocase(slice_make(in.ptr, w.len), w))
                        return true;
        }
        return false;
}

/* "FOO / HTTP/1.1": a request line of a method we do not list. */
static bool is_request_line(const struct resp_request *r)
{
        if (r->argc != 3)
                return false;
        struct slice last = r->argv[2];
        return last.len >= 5 && slice_eq(slice_make(last.ptr, 5), SLICE_LIT("HTTP/"));
}

static enum resp_step parse_inline(struct slice in, struct arena *arena, struct resp_request *r)
{
        if (is_foreign(in))
                return RESP_FOREIGN;
        size_t max = r->bytes_max < RESP_INLINE_MAX ? r->bytes_max : RESP_INLINE_MAX;
        size_t look = in.len < max ? in.len : max;
        const char *lf = memchr(in.ptr, '\n', look);
        if (!lf) {
                r->need = in.len + 1;
                return in.len >= max ? bad(r, "an inline request is too long") : RESP_MORE;
        }
        struct slice line = slice_make(in.ptr, (size_t)(lf - in.ptr));
        r->used = line.len + 1;
        if (line.len && line.ptr[line.len - 1] == '\r')
                line.len--;
        if (memchr(line.ptr, '\0', line.len))
                return bad(r, "an inline request holds a NUL byte");
        enum resp_step step = parse_words(line, arena, r);
        return step == RESP_REQUEST && is_request_line(r) ? RESP_FOREIGN : step;
}

enum resp_step resp_parse(struct slice in, struct arena *arena, struct resp_request *r)
{
        r->argc = 0;
        r->used = 0;
        r->need = 1;
        if (in.len == 0)
                return RESP_MORE;
        return in.ptr[0] == '*' ? parse_array(in, r) : parse_inline(in, arena, r);
}

/* --- replies -------------------------------------------------------------------------------- */

/* A type byte, at most 20 characters of number, CR LF. */
#define HEADER_BYTES_MAX 24

/* Writes v in decimal at p; returns the end. */
static inline char *put_digits(char *p, uint64_t v)
{
        char tmp[20];
        size_t n = 0;
        do {
                tmp[n++] = (char)('0' + v % 10);
                v /= 10;
        } while (v);
        while (n)
                *p++ = tmp[--n];
        return p;
}

static inline char *put_header(char *p, char type, uint64_t v)
{
        *p++ = type;
        p = put_digits(p, v);
        *p++ = '\r';
        *p++ = '\n';
        return p;
}

static void put_count(struct buf *b, char type, uint64_t n)
{
        if (!buf_reserve(b, HEADER_BYTES_MAX))
                return;
        char *end = put_header(b->ptr + b->len, type, n);
        b->len = (size_t)(end - b->ptr);
}

void resp_put_int(struct buf *b, int64_t v)
{
        if (!buf_reserve(b, HEADER_BYTES_MAX))
                return;
        char *p = b->ptr + b->len;
        *p++ = ':';
        if (v < 0)
                *p++ = '-';
        p = put_digits(p, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
        *p++ = '\r';
        *p++ = '\n';
        b->len = (size_t)(p - b->ptr);
}

void resp_put_bulk(struct buf *b, struct slice s)
{
        if (!buf_reserve(b, s.len + HEADER_BYTES_MAX + 2))
                return;
        char *p = put_header(b->ptr + b->len, '$', s.len);
        if (s.len)
                memcpy(p, s.ptr, s.len);
        p += s.len;
        *p++ = '\r';
        *p++ = '\n';
        b->len = (size_t)(p - b->ptr);
}

void resp_put_simple(struct buf *b, const char *text)
{
        buf_put_byte(b, '+');
        buf_put_str(b, text);
        buf_put(b, "\r\n", 2);
}

void resp_put_error(struct buf *b, const char *name, const char *detail)
{
        buf_put_byte(b, '-');
        buf_put_str(b, name);
        buf_put_byte(b, ' ');
        buf_put_str(b, detail);
        buf_put(b, "\r\n", 2);
}

void resp_put_null(struct buf *b, int proto)
{
        buf_put_str(b, proto >= 3 ? "_\r\n" : "$-1\r\n");
}

void resp_put_bool(struct buf *b, bool v, int proto)
{
        if (proto >= 3)
                buf_put_str(b, v ? "#t\r\n" : "#f\r\n");
        else
                buf_put_str(b, v ? ":1\r\n" : ":0\r\n");
}

void resp_put_array(struct buf *b, size_t n)
{
        put_count(b, '*', n);
}

void resp_put_map(struct buf *b, size_t n, int proto)
{
        if (proto >= 3)
                put_count(b, '%', n);
        else
                put_count(b, '*', 2 * n);
}

void resp_put_verbatim(struct buf *b, struct slice s, int proto)
{
        if (proto < 3) {
                resp_put_bulk(b, s);
                return;
        }
        put_count(b, '=', s.len + 4);
        buf_put_str(b, "txt:");
        buf_put_slice(b, s);
        buf_put(b, "\r\n", 2);
}
