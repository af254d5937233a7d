/* See traceparent.h.  The form is fixed: each part is at its place or the text is refused. */
#include "wire/traceparent.h"

#define TRACE_AT 3
#define SPAN_AT  (TRACE_AT + 2 * TRACE_BYTES + 1)
#define FLAGS_AT (SPAN_AT + 2 * SPAN_BYTES + 1)
_Static_assert(FLAGS_AT + 2 == TRACEPARENT_BYTES, "the parts fill the text");

static bool is_lower_hex(struct slice s)
{
        for (size_t i = 0; i < s.len; i++)
                if (!(s.ptr[i] >= '0' && s.ptr[i] <= '9') && !(s.ptr[i] >= 'a' && s.ptr[i] <= 'f'))
                        return false;
        return true;
}

static bool read_part(struct slice text, size_t at, uint8_t *ret, size_t n)
{
        struct slice part = slice_make(text.ptr + at, 2 * n);
        return is_lower_hex(part) && slice_to_hex_bytes(part, ret, n);
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
        unsigned any = 0;
        for (size_t i = 0; i < n; i++)
                any |= bytes[i];
        return any == 0;
}

bool traceparent_parse(struct slice text, struct traceparent *ret)
{
        struct traceparent t;
        if (text.len != TRACEPARENT_BYTES || memcmp(text.ptr, "00-", TRACE_AT) != 0 ||
            text.ptr[SPAN_AT - 1] != '-' || text.ptr[FLAGS_AT - 1] != '-' ||
            !read_part(text, TRACE_AT, t.trace, TRACE_BYTES) ||
            !read_part(text, SPAN_AT, t.span, SPAN_BYTES) ||
            !read_part(text, FLAGS_AT, &t.flags, 1) || is_zero(t.trace, TRACE_BYTES) ||
            is_zero(t.span, SPAN_BYTES))
                return false;
        *ret = t;
        return true;
}

void traceparent_text(const struct traceparent *t, char ret[TRACEPARENT_BYTES])
{
        memcpy(ret, "00-", TRACE_AT);
        hex_from_bytes(t->trace, TRACE_BYTES, ret + TRACE_AT);
        ret[SPAN_AT - 1] = '-';
        hex_from_bytes(t->span, SPAN_BYTES, ret + SPAN_AT);
        ret[FLAGS_AT - 1] = '-';
        hex_from_bytes(&t->flags, 1, ret + FLAGS_AT);
}
