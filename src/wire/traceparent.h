/* W3C Trace Context, version 00: which trace something belongs to, and which span caused it.
 *
 *      00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
 *         trace                            span             flags
 *
 * Hex in lower case; neither trace nor span is all zeros.  What is longer or has another version is
 * none: a later version may mean something else by it. */
#ifndef WEIR_WIRE_TRACEPARENT_H
#define WEIR_WIRE_TRACEPARENT_H

#include "base/slice.h"

#define TRACE_BYTES       16
#define SPAN_BYTES        8
#define TRACEPARENT_BYTES 55 /* of the text */

/* For sentences that refuse one. */
#define TRACEPARENT_FORM                                                                           \
        "00-TRACE-SPAN-FLAGS with 32, 16 and 2 lower-case hex digits, TRACE and SPAN not all "     \
        "zeros"

enum trace_flag {
        TRACE_SAMPLED = 1, /* whoever began the trace records it */
        TRACE_RANDOM = 2,  /* the trace's last 7 bytes are random */
};
#define TRACE_FLAGS_KNOWN (TRACE_SAMPLED | TRACE_RANDOM)

struct traceparent {
        uint8_t trace[TRACE_BYTES];
        uint8_t span[SPAN_BYTES];
        uint8_t flags;
};

bool traceparent_parse(struct slice text, struct traceparent *ret); /* false: *ret is as it was */
void traceparent_text(const struct traceparent *t, char ret[TRACEPARENT_BYTES]); /* no NUL */

#endif
