/* Attempts as spans of OpenTelemetry: the JSON form of OTLP.
 *
 * Pure: no clock, no socket.  Attempts are packed one after the other on the loop and unpacked by
 * the thread that writes JSON. */
#ifndef WEIR_TELEMETRY_SPANS_H
#define WEIR_TELEMETRY_SPANS_H

#include "base/buf.h"
#include "core/attempt.h"

/* Texts of a packed attempt are cut to these; names are short enough by themselves. */
#define SPANS_ERROR_BYTES 1024

/* Spans that an attempt makes. */
static inline unsigned spans_of(const struct attempt *a)
{
        return a->has_enqueue ? 3 : 2;
}

void spans_pack(struct buf *b, const struct attempt *a);
/* Takes the first off *packed, which it borrows from; false at the end. */
bool spans_unpack(struct slice *packed, struct attempt *ret);

/* Who sends them. */
struct spans_source {
        const char *service, *version, *instance;
};

/* Appends one request of at most `max` spans and takes those attempts off *packed.  Returns how
 * many spans it has. */
unsigned spans_put_request(struct buf *b, const struct spans_source *source, struct slice *packed,
                           unsigned max);

#endif
