/* Any bytes through the HTTP parser, whole and cut.
 *
 * The first byte says how the input is cut.  Each request of a stream is read twice from memory
 * of exactly its size: with everything there, and a piece at a time with the bytes moved between
 * the calls.  Both must give the same request or the same refusal.  Then the parts that a door
 * looks at are walked: every span must lie inside the request. */
#include <stdlib.h>

#include "wire/http.h"

#define HEAD_MAX 2048
#define BODY_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
        struct http_parser p;
        char *bytes;
        size_t len;
        enum http_step step;
};

static void show(struct reading *x, const uint8_t *data, size_t len)
{
        char *moved = malloc(len ? len : 1);
        ASSERT(moved);
        if (x->len)
                memcpy(moved, x->bytes, x->len); /* with what the parser joined */
        if (len > x->len)
                memcpy(moved + x->len, data + x->len, len - x->len);
        free(x->bytes);
        x->bytes = moved;
        x->len = len;
        x->step = http_parse(&x->p, moved, len);
}

static void read_request(struct reading *x, const uint8_t *data, size_t size, size_t step_bytes)
{
        *x = (struct reading){.step = HTTP_STEP_MORE};
        http_parser_init(&x->p, HEAD_MAX, BODY_MAX);
        size_t n = step_bytes ? 0 : size;
        do {
                n = size - n < step_bytes ? size : n + step_bytes;
                show(x, data, n);
        } while (x->step == HTTP_STEP_MORE && n < size);
}

static void check_span(const struct reading *x, struct http_span s)
{
        ASSERT(!s.is_set || ((size_t)s.at <= x->len && s.len <= x->len - s.at));
}

static void walk_query(struct slice query)
{
        struct slice key, value;
        char *text = malloc(query.len + 1);
        size_t len;
        ASSERT(text);
        while (http_query_next(&query, &key, &value)) {
                if (http_unescape(key, true, text, &len))
                        ASSERT(len <= key.len);
                if (http_unescape(value, false, text, &len))
                        ASSERT(len <= value.len);
        }
        free(text);
}

static void walk(const struct reading *x)
{
        ASSERT(x->p.used > 0 && x->p.used <= x->len);
        check_span(x, x->p.target);
        check_span(x, x->p.path);
        check_span(x, x->p.query);
        check_span(x, x->p.body);
        for (size_t i = 0; i < HTTP_HEADER_COUNT; i++)
                check_span(x, x->p.header[i]);
        ASSERT(x->p.body.len <= BODY_MAX);
        ASSERT(http_method(&x->p)[0]);
        walk_query(http_slice(x->bytes, x->p.query));
}

static void check_same(const struct reading *a, const struct reading *b)
{
        ASSERT(a->step == b->step);
        if (a->step == HTTP_STEP_BAD) {
                ASSERT(a->p.status >= 400 && a->p.error && a->p.error[0]);
                ASSERT(b->p.status >= 400 && b->p.error && b->p.error[0]);
        }
        if (a->step != HTTP_STEP_REQUEST)
                return;
        ASSERT(a->p.used == b->p.used && a->p.is_keep_alive == b->p.is_keep_alive);
        ASSERT(slice_eq(http_slice(a->bytes, a->p.path), http_slice(b->bytes, b->p.path)));
        ASSERT(slice_eq(http_slice(a->bytes, a->p.query), http_slice(b->bytes, b->p.query)));
        ASSERT(slice_eq(http_slice(a->bytes, a->p.body), http_slice(b->bytes, b->p.body)));
        for (size_t i = 0; i < HTTP_HEADER_COUNT; i++)
                ASSERT(slice_eq(http_slice(a->bytes, a->p.header[i]),
                                http_slice(b->bytes, b->p.header[i])));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 1)
                return 0;
        size_t step_bytes = 1 + data[0] % 32, used = 1;
        for (int n = 0; n < 8 && used < size; n++) {
                struct reading whole, cut;
                read_request(&whole, data + used, size - used, 0);
                read_request(&cut, data + used, size - used, step_bytes);
                check_same(&whole, &cut);
                bool is_over = whole.step != HTTP_STEP_REQUEST;
                if (!is_over)
                        walk(&whole);
                used += whole.p.used;
                free(whole.bytes);
                free(cut.bytes);
                if (is_over)
                        break;
        }
        return 0;
}
