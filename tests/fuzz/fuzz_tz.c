/* Any bytes as a zone file.  What is taken must answer for any moment: spans are not empty, hold
 * their moment and meet their neighbours, and the instant of a local time is the first at which the
 * clocks show it or a later one. */
#include <stdlib.h>

#include "base/tz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_moment(const struct tz *tz, int64_t at)
{
        struct tz_span span = tz_span_at(tz, at);
        enum tz_kind kind;

        ASSERT(span.from_s < span.until_s && span.from_s <= at && at < span.until_s);
        ASSERT(span.offset_s >= -93600 && span.offset_s <= 93600);
        int64_t local = tz_to_local(tz, at);
        ASSERT(local == at + span.offset_s);
        ASSERT(tz_to_utc(tz, local, NULL) <= at);
        for (int i = 0; i < 2; i++, local = at) { /* any number is a local time */
                int64_t back = tz_to_utc(tz, local, &kind);
                ASSERT(tz_to_local(tz, back - 1) < local);
                ASSERT((tz_to_local(tz, back) == local) == (kind != TZ_SKIPPED));
                ASSERT(tz_to_local(tz, back) >= local);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *copy = malloc(size ? size : 1);
        ASSERT(copy);
        if (size)
                memcpy(copy, data, size);
        struct tz *tz = NULL;
        struct problem p = {0};
        int err = tz_parse(SLICE_LIT("Fuzz/Zone"), slice_make(copy, size), &tz, &p);
        free(copy);
        if (err) {
                ASSERT((err == ERR_CORRUPT || err == ERR_BADARG) && p.detail[0] && !tz);
                return 0;
        }
        for (int64_t at = -4000000000; at < 8000000000; at += 86400LL * 97 + 1237)
                check_moment(tz, at);
        struct tz_span span = tz_span_at(tz, -5000000000);
        for (int i = 0; i < 400 && span.until_s < 8000000000; i++) {
                check_moment(tz, span.until_s - 1);
                check_moment(tz, span.until_s);
                struct tz_span next = tz_span_at(tz, span.until_s);
                ASSERT(next.from_s == span.until_s);
                span = next;
        }
        tz_free(tz);
        return 0;
}
