/* Durations as people write them.
 *
 * Units stand in falling order and once each, so that a text has one meaning and a slip ("1m30h",
 * "5s5s") is an error and not a surprise. */
#include "base/duration.h"

#include <stdio.h>

static const struct unit {
        const char *name;
        int64_t ms;
} units[] = {
        {"d", MS_PER_DAY}, {"h", MS_PER_HOUR}, {"m", MS_PER_MIN}, {"s", MS_PER_S}, {"ms", 1},
};

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static struct slice take_run(struct slice *s, bool of_digits)
{
        size_t n = 0;
        while (n < s->len && is_digit(s->ptr[n]) == of_digits)
                n++;
        struct slice run = slice_make(s->ptr, n);
        *s = slice_make(s->ptr + n, s->len - n);
        return run;
}

bool slice_to_duration_ms(struct slice s, int64_t *ret)
{
        int64_t sum = 0, n;
        size_t next = 0; /* the largest unit that may still come */

        if (s.len > 0 && is_digit(s.ptr[0]) && slice_to_i64(s, ret))
                return true;
        if (s.len == 0)
                return false;
        while (s.len > 0) {
                struct slice number = take_run(&s, true), name = take_run(&s, false);
                while (next < ARRAY_LEN(units) && !slice_eq(name, slice_str(units[next].name)))
                        next++;
                if (next == ARRAY_LEN(units) || !slice_to_i64(number, &n) ||
                    __builtin_mul_overflow(n, units[next].ms, &n) ||
                    __builtin_add_overflow(sum, n, &sum))
                        return false;
                next++;
        }
        *ret = sum;
        return true;
}

const char *duration_text(int64_t ms, char *ret)
{
        size_t len = 0;

        ASSERT(ms >= 0);
        (void)snprintf(ret, DURATION_TEXT_MAX, "0s");
        for (size_t i = 0; i < ARRAY_LEN(units); i++) {
                if (ms < units[i].ms)
                        continue;
                len += (size_t)snprintf(ret + len, DURATION_TEXT_MAX - len, "%lld%s",
                                        (long long)(ms / units[i].ms), units[i].name);
                ms %= units[i].ms;
        }
        return ret;
}
