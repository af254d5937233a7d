/* Any bytes as a cron expression.  The first byte chooses the zone and the next eight the moment.
 *
 * What is taken must have a next time that is later, and asking just before it must give it again;
 * what is refused must say why, in printable words. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/cron.h"
#include "base/tz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const zones[] = {"UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"};

static void check_next(const struct cron *c, const struct tz *tz, int64_t after_ms)
{
        for (int i = 0; i < 4; i++) {
                int64_t next_ms = cron_next(c, tz, after_ms);
                if (next_ms == INT64_MAX) {
                        ASSERT(after_ms > INT64_MAX / 2);
                        return;
                }
                ASSERT(next_ms > after_ms && next_ms % 1000 == 0);
                ASSERT(cron_next(c, tz, next_ms - 1) == next_ms);
                after_ms = next_ms;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 9)
                return 0;
        const struct tz *tz;
        ASSERT(tz_open(slice_str(zones[data[0] % ARRAY_LEN(zones)]), &tz, NULL) == OK);
        size_t len = size - 9;
        char *text = malloc(len ? len : 1);
        ASSERT(text);
        memcpy(text, data + 9, len);
        struct cron c;
        struct problem p = {0};
        int err = cron_parse(slice_make(text, len), &c, &p);
        free(text);
        if (err == OK) {
                check_next(&c, tz, (int64_t)load_u64(data + 1));
                return 0;
        }
        ASSERT(err == ERR_BADARG && p.err == err && p.detail[0]);
        ASSERT(slice_is_utf8(slice_str(p.detail)));
        for (const char *at = p.detail; *at; at++)
                ASSERT((unsigned char)*at >= ' ' && *at != 0x7f);
        return 0;
}
