/* Reading RESP2 with a cursor, for the generator: a value is read only when it is whole, so a
 * caller that runs out of bytes starts the same reply again when more have come. */
#ifndef WEIR_BENCH_RESP_H
#define WEIR_BENCH_RESP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum resp_state { RESP_OK, RESP_SHORT, RESP_WRONG };

struct resp {
        const char *p, *end;
        enum resp_state state; /* sticky: after the first failure nothing moves */
};

/* The number after a type byte, up to CRLF.  0 on failure. */
static inline int64_t resp_number(struct resp *r, char type)
{
        if (r->state != RESP_OK)
                return 0;
        const char *p = r->p;
        if (p >= r->end) {
                r->state = RESP_SHORT;
                return 0;
        }
        if (*p++ != type) {
                r->state = RESP_WRONG;
                return 0;
        }
        bool is_negative = p < r->end && *p == '-';
        p += is_negative;
        int64_t v = 0;
        while (p < r->end && *p >= '0' && *p <= '9')
                v = v * 10 + (*p++ - '0');
        if (r->end - p < 2) {
                r->state = RESP_SHORT;
                return 0;
        }
        if (p[0] != '\r' || p[1] != '\n') {
                r->state = RESP_WRONG;
                return 0;
        }
        r->p = p + 2;
        return is_negative ? -v : v;
}

/* A bulk string; NULL with *len == 0 for a null one and on failure. */
static inline const char *resp_bulk(struct resp *r, size_t *len)
{
        *len = 0;
        int64_t n = resp_number(r, '$');
        if (r->state != RESP_OK || n < 0)
                return NULL;
        if (r->end - r->p < n + 2) {
                r->state = RESP_SHORT;
                return NULL;
        }
        const char *bytes = r->p;
        r->p += n + 2;
        *len = (size_t)n;
        return bytes;
}

/* Any value that is not an array. */
static inline void resp_skip(struct resp *r)
{
        if (r->state != RESP_OK)
                return;
        if (r->p >= r->end) {
                r->state = RESP_SHORT;
                return;
        }
        size_t len;
        if (*r->p == '$')
                resp_bulk(r, &len);
        else if (*r->p == ':')
                resp_number(r, ':');
        else
                r->state = RESP_WRONG;
}

/* Exactly these bytes. */
static inline void resp_literal(struct resp *r, const char *bytes, size_t len)
{
        if (r->state != RESP_OK)
                return;
        size_t have = (size_t)(r->end - r->p);
        if (memcmp(r->p, bytes, have < len ? have : len) != 0)
                r->state = RESP_WRONG;
        else if (have < len)
                r->state = RESP_SHORT;
        else
                r->p += len;
}

#endif
