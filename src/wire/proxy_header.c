#include "wire/proxy_header.h"

#define V1_MAX   107U /* with its CRLF */
#define V2_FIXED 16U
#define V2_LOCAL 0x20 /* version and command */
#define V2_PROXY 0x21
#define ANY_KIND 0x00 /* family and transport */
#define TCP4     0x11
#define TCP6     0x21
#define UNIX     0x31
#define PORT     2U
#define PATHS    216U /* the addresses of UNIX */
#define TLV_HEAD 3U

static const char signature[12] = "\r\n\r\n\0\r\nQUIT\n";
static const char v1_start[6] = "PROXY ";

static int senseless(struct problem *problem, const char *what)
{
        return problem_set(problem, ERR_SYNTAX, "the PROXY header makes no sense: %s", what);
}

/* ---- version 1 ---- */

/* Words have one space between them. */
static bool next_word(struct slice *rest, struct slice *ret)
{
        if (!rest->len)
                return false;
        const char *space = memchr(rest->ptr, ' ', rest->len);
        size_t len = space ? (size_t)(space - rest->ptr) : rest->len;
        size_t step = space ? len + 1 : len;
        *ret = slice_make(rest->ptr, len);
        *rest = slice_make(rest->ptr + step, rest->len - step);
        return true;
}

static bool read_end(struct slice ip, struct slice port, bool is_v6, struct proxy_end *ret)
{
        uint64_t number;
        bool has_colon = ip.len && memchr(ip.ptr, ':', ip.len);
        if (has_colon != is_v6 || !ip_parse(ip, &ret->ip) || !slice_to_u64(port, &number) ||
            number > UINT16_MAX)
                return false;
        ret->port = (uint16_t)number;
        return true;
}

/* "TCP4 192.0.2.1 192.0.2.9 56324 3306" or "UNKNOWN", after which anything may stand. */
static bool read_line(struct slice line, struct proxy_header *ret)
{
        struct slice family, from, to, from_port, to_port;
        if (!next_word(&line, &family))
                return false;
        if (slice_eq(family, SLICE_LIT("UNKNOWN")))
                return true;
        bool is_v6 = slice_eq(family, SLICE_LIT("TCP6"));
        if (!is_v6 && !slice_eq(family, SLICE_LIT("TCP4")))
                return false;
        if (!next_word(&line, &from) || !next_word(&line, &to) || !next_word(&line, &from_port))
                return false;
        to_port = line;
        ret->is_told = true;
        return read_end(from, from_port, is_v6, &ret->from) &&
               read_end(to, to_port, is_v6, &ret->to);
}

static int parse_v1(struct slice bytes, struct proxy_header *ret, size_t *ret_len,
                    struct problem *problem)
{
        size_t n = bytes.len < V1_MAX ? bytes.len : V1_MAX;
        if (memcmp(bytes.ptr, v1_start, n < sizeof(v1_start) ? n : sizeof(v1_start)) != 0)
                return problem_set(problem, ERR_SYNTAX,
                                   "the connection does not begin with a PROXY header");
        const char *end = memchr(bytes.ptr, '\n', n);
        if (!end && bytes.len < V1_MAX)
                return OK;
        size_t len = end ? (size_t)(end - bytes.ptr) : 0;
        if (len <= sizeof(v1_start) || end[-1] != '\r')
                return senseless(problem, "its line has no end");
        struct slice line = slice_make(bytes.ptr + sizeof(v1_start), len - 1 - sizeof(v1_start));
        struct proxy_header read = {.is_told = false};
        if (!read_line(line, &read))
                return senseless(problem, "its line is none of TCP4, TCP6 or UNKNOWN");
        *ret = read;
        *ret_len = len + 1;
        return OK;
}

/* ---- version 2 ---- */

static struct proxy_end read_binary(const uint8_t *ip, size_t n_bytes, const uint8_t *port)
{
        struct proxy_end end = {.port = (uint16_t)(port[0] << 8 | port[1])};
        if (n_bytes == IP_V4_SIZE)
                end.ip = ip_from_v4(ip);
        else
                memcpy(end.ip.bytes, ip, IP_BYTES);
        return end;
}

/* `body`: what follows the fixed part; addresses, and extras that nobody here needs. */
static bool read_body(uint8_t kind, struct slice body, struct proxy_header *ret)
{
        const uint8_t *at = (const uint8_t *)body.ptr;
        if (kind == ANY_KIND || kind == UNIX)
                return true;
        size_t n = kind == TCP4 ? IP_V4_SIZE : IP_BYTES;
        if ((kind != TCP4 && kind != TCP6) || body.len < 2 * (n + PORT))
                return false;
        ret->is_told = true;
        ret->from = read_binary(at, n, at + 2 * n);
        ret->to = read_binary(at + n, n, at + 2 * n + PORT);
        return true;
}

static int parse_v2(struct slice bytes, struct proxy_header *ret, size_t *ret_len,
                    struct problem *problem)
{
        const uint8_t *b = (const uint8_t *)bytes.ptr;
        if (bytes.len < V2_FIXED)
                return OK;
        if (b[12] != V2_LOCAL && b[12] != V2_PROXY)
                return senseless(problem, "its version or command is unknown");
        size_t len = V2_FIXED + (size_t)(b[14] << 8 | b[15]);
        if (len > PROXY_HEADER_MAX)
                return senseless(problem, "it is too long");
        if (bytes.len < len)
                return OK;
        struct slice body = slice_make(bytes.ptr + V2_FIXED, len - V2_FIXED);
        if (b[12] == V2_PROXY && !read_body(b[13], body, ret))
                return senseless(problem, "it has no addresses of TCP");
        *ret_len = len;
        return OK;
}

bool proxy_header_is_begun(struct slice bytes)
{
        size_t n = bytes.len < sizeof(signature) ? bytes.len : sizeof(signature);
        return !n || memcmp(bytes.ptr, signature, n) == 0;
}

int proxy_header_parse(struct slice bytes, struct proxy_header *ret, size_t *ret_len,
                       struct problem *problem)
{
        *ret = (struct proxy_header){.is_told = false};
        *ret_len = 0;
        if (!bytes.len)
                return OK;
        if (proxy_header_is_begun(bytes))
                return parse_v2(bytes, ret, ret_len, problem);
        return parse_v1(bytes, ret, ret_len, problem);
}

/* ---- writing ---- */

static void put_u16(struct buf *out, size_t v)
{
        buf_put_byte(out, (char)(v >> 8));
        buf_put_byte(out, (char)v);
}

void proxy_header_put_with(struct buf *out, const struct proxy_header *h, struct slice extras)
{
        bool is_v4 = ip_is_v4(&h->from.ip) && ip_is_v4(&h->to.ip);
        size_t skip = is_v4 ? IP_V4_AT : 0, n = IP_BYTES - skip;
        buf_put(out, signature, sizeof(signature));
        buf_put_byte(out, h->is_told ? V2_PROXY : V2_LOCAL);
        if (!h->is_told) {
                buf_put_byte(out, ANY_KIND);
                put_u16(out, extras.len);
        } else {
                buf_put_byte(out, is_v4 ? TCP4 : TCP6);
                put_u16(out, 2 * (n + PORT) + extras.len);
                buf_put(out, h->from.ip.bytes + skip, n);
                buf_put(out, h->to.ip.bytes + skip, n);
                put_u16(out, h->from.port);
                put_u16(out, h->to.port);
        }
        buf_put_slice(out, extras);
}

void proxy_header_put(struct buf *out, const struct proxy_header *h)
{
        proxy_header_put_with(out, h, SLICE_NONE);
}

/* ---- extras ---- */

struct slice proxy_header_extras(struct slice header)
{
        size_t at = V2_FIXED;
        if (header.len < V2_FIXED || !proxy_header_is_begun(header))
                return SLICE_NONE;
        uint8_t kind = (uint8_t)header.ptr[13];
        if (kind == TCP4)
                at += 2UL * (IP_V4_SIZE + PORT);
        else if (kind == TCP6)
                at += 2UL * (IP_BYTES + PORT);
        else if (kind == UNIX)
                at += PATHS;
        return at < header.len ? slice_make(header.ptr + at, header.len - at) : SLICE_NONE;
}

void proxy_extra_put(struct buf *extras, uint8_t type, struct slice value)
{
        ASSERT(value.len <= UINT16_MAX);
        buf_put_byte(extras, (char)type);
        put_u16(extras, value.len);
        buf_put_slice(extras, value);
}

bool proxy_extra_next(struct slice *extras, uint8_t *ret_type, struct slice *ret_value)
{
        const uint8_t *at = (const uint8_t *)extras->ptr;
        if (extras->len < TLV_HEAD)
                return false;
        size_t len = (size_t)(at[1] << 8 | at[2]), step = TLV_HEAD + len;
        if (extras->len < step)
                return false;
        *ret_type = at[0];
        *ret_value = slice_make(extras->ptr + TLV_HEAD, len);
        *extras = slice_make(extras->ptr + step, extras->len - step);
        return true;
}
