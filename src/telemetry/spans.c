/* See spans.h.
 *
 * The form is that of OTLP 1.x: ids in hex, 64-bit numbers as strings, enums as numbers; attributes
 * are those of OpenTelemetry's messaging conventions, and weir.* for what has no word there. */
#include "telemetry/spans.h"

#include <stdio.h>

#include "wire/json.h"

/* ---- packing ---- */

struct texts {
        struct slice *of[5];
};

static struct texts texts_of(struct attempt *a)
{
        return (struct texts){{&a->queue, &a->hook, &a->group, &a->worker, &a->error}};
}

void spans_pack(struct buf *b, const struct attempt *a)
{
        struct attempt copy = *a;
        struct texts t = texts_of(&copy);
        if (copy.error.len > SPANS_ERROR_BYTES)
                copy.error.len = SPANS_ERROR_BYTES;
        buf_put(b, &copy, sizeof(copy));
        for (size_t i = 0; i < ARRAY_LEN(t.of); i++)
                buf_put_slice(b, *t.of[i]);
}

bool spans_unpack(struct slice *packed, struct attempt *ret)
{
        struct texts t = texts_of(ret);
        if (packed->len < sizeof(*ret))
                return false;
        memcpy(ret, packed->ptr, sizeof(*ret));
        size_t at = sizeof(*ret);
        for (size_t i = 0; i < ARRAY_LEN(t.of); i++) {
                ASSERT(t.of[i]->len <= packed->len - at);
                t.of[i]->ptr = packed->ptr + at;
                at += t.of[i]->len;
        }
        *packed = slice_make(packed->ptr + at, packed->len - at);
        return true;
}

/* ---- values ---- */

static void put_hex(struct buf *b, const char *key, const uint8_t *id, size_t n)
{
        char text[2 * TRACE_BYTES];
        json_put_key(b, key);
        hex_from_bytes(id, n, text);
        json_put_text(b, slice_make(text, 2 * n));
}

static void begin_attribute(struct buf *b, const char *key)
{
        json_put_comma(b);
        buf_put_byte(b, '{');
        json_put_key(b, "key");
        json_put_text(b, slice_str(key));
        json_put_key(b, "value");
        buf_put_byte(b, '{');
}

static void put_text(struct buf *b, const char *key, struct slice text)
{
        if (!text.len)
                return;
        begin_attribute(b, key);
        json_put_key(b, "stringValue");
        json_put_text_lossy(b, text);
        buf_put_str(b, "}}");
}

static void put_number(struct buf *b, const char *key, uint64_t value)
{
        begin_attribute(b, key);
        json_put_key(b, "intValue");
        buf_printf(b, "\"%llu\"}}", (unsigned long long)value);
}

static void put_time(struct buf *b, const char *key, int64_t ms)
{
        json_put_key(b, key);
        buf_printf(b, "\"%lld\"", (long long)(ms > 0 ? ms : 0) * NS_PER_MS);
}

/* ---- spans ---- */

enum span_kind { KIND_INTERNAL = 1, KIND_PRODUCER = 4, KIND_CONSUMER = 5 };
enum status_code { STATUS_ERROR = 2 };

struct span {
        const char *name;
        enum span_kind kind;
        const uint8_t *id, *parent;
        int64_t from_ms, to_ms;
        const char *operation; /* of the messaging conventions */
};

static const char *const end_names[ATTEMPT_ENDS] = {
        [ATTEMPT_COMPLETE] = "complete",   [ATTEMPT_FAILED] = "failed",
        [ATTEMPT_TIMED_OUT] = "timed_out", [ATTEMPT_CANCELED] = "canceled",
        [ATTEMPT_RELEASED] = "released",
};

static void begin_span(struct buf *b, const struct attempt *a, const struct span *s)
{
        static const uint8_t none[SPAN_BYTES];
        json_put_comma(b);
        buf_put_byte(b, '{');
        put_hex(b, "traceId", a->trace, TRACE_BYTES);
        put_hex(b, "spanId", s->id, SPAN_BYTES);
        if (memcmp(s->parent, none, SPAN_BYTES) != 0)
                put_hex(b, "parentSpanId", s->parent, SPAN_BYTES);
        json_put_key(b, "name");
        json_put_text(b, slice_str(s->name));
        json_put_key(b, "kind");
        buf_put_i64(b, s->kind);
        put_time(b, "startTimeUnixNano", s->from_ms);
        put_time(b, "endTimeUnixNano", s->to_ms);
        json_put_key(b, "attributes");
        buf_put_byte(b, '[');
        put_text(b, "messaging.system", SLICE_LIT("weir"));
        put_text(b, "messaging.destination.name", a->queue);
        put_text(b, "messaging.operation.name", slice_str(s->name));
        if (s->operation)
                put_text(b, "messaging.operation.type", slice_str(s->operation));
        char id[24];
        (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)a->job);
        put_text(b, "messaging.message.id", slice_str(id));
        put_text(b, "weir.hook", a->hook);
        put_text(b, "weir.group", a->group);
}

static void put_attempt(struct buf *b, const struct attempt *a)
{
        put_number(b, "weir.attempt", a->number);
        put_number(b, "weir.attempts", a->of);
        if (a->runs)
                put_number(b, "weir.run", a->runs);
}

static void put_run(struct buf *b, const struct attempt *a)
{
        const struct span s = {"run",         KIND_CONSUMER, a->run,   a->enqueue,
                               a->started_ms, a->ended_ms,   "process"};
        bool is_error = a->end == ATTEMPT_FAILED || a->end == ATTEMPT_TIMED_OUT;
        struct slice end = slice_str(end_names[a->end]);
        begin_span(b, a, &s);
        put_attempt(b, a);
        put_text(b, "messaging.client.id", a->worker);
        put_text(b, "weir.worker", a->worker);
        put_text(b, "weir.outcome", end);
        if (is_error)
                put_text(b, "error.type", end);
        buf_put_byte(b, ']');
        if (is_error) {
                json_put_key(b, "status");
                buf_put_byte(b, '{');
                json_put_key(b, "code");
                buf_put_i64(b, STATUS_ERROR);
                json_put_key(b, "message");
                json_put_text_lossy(b, a->error);
                buf_put_byte(b, '}');
        }
        buf_put_byte(b, '}');
}

static void put_attempt_spans(struct buf *b, const struct attempt *a)
{
        const struct span enqueue = {"enqueue",     KIND_PRODUCER, a->enqueue, a->client,
                                     a->created_ms, a->created_ms, "send"};
        const struct span wait = {"wait",    KIND_INTERNAL, a->wait, a->enqueue,
                                  a->due_ms, a->started_ms, NULL};
        if (a->has_enqueue) {
                begin_span(b, a, &enqueue);
                buf_put_str(b, "]}");
        }
        begin_span(b, a, &wait);
        put_attempt(b, a);
        buf_put_str(b, "]}");
        put_run(b, a);
}

/* ---- requests ---- */

static void put_resource(struct buf *b, const struct spans_source *source)
{
        json_put_key(b, "resource");
        buf_put_byte(b, '{');
        json_put_key(b, "attributes");
        buf_put_byte(b, '[');
        put_text(b, "service.name", slice_str(source->service));
        put_text(b, "service.version", slice_str(source->version));
        put_text(b, "service.instance.id", slice_str(source->instance));
        buf_put_str(b, "]}");
}

unsigned spans_put_request(struct buf *b, const struct spans_source *source, struct slice *packed,
                           unsigned max)
{
        struct slice rest = *packed;
        struct attempt a;
        unsigned n = 0;
        buf_put_str(b, "{\"resourceSpans\":[{");
        put_resource(b, source);
        buf_put_str(b, ",\"scopeSpans\":[{\"scope\":{\"name\":\"weir\"},\"spans\":[");
        while (spans_unpack(&rest, &a) && n + spans_of(&a) <= max) {
                put_attempt_spans(b, &a);
                n += spans_of(&a);
                *packed = rest;
        }
        buf_put_str(b, "]}]}]}");
        return n;
}
