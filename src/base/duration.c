/* Durations as people write and say them.
 *
 * Units stand in falling order and once each, so that a text has one meaning and a slip ("1m30h",
 * "5s5s") is an error and not a surprise. */
#include "base/duration.h"

#include <stdio.h>

static const struct unit {
        const char *name;
        int64_t ms;
        const char *said;
} units[] = {
        {"d", MS_PER_DAY, "d"}, {"h", MS_PER_HOUR, "h"}, {"m", MS_PER_MIN, "min"},
        {"s", MS_PER_S, "s"},   {"ms", 1, "ms"},
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

static bool is_unit(struct slice name, const struct unit *u)
{
        return slice_eq(name, slice_str(u->name)) || slice_eq(name, slice_str(u->said));
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
                while (next < ARRAY_LEN(units) && !is_unit(name, &units[next]))
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

const char *duration_words(int64_t ms, char *ret)
{
        const struct unit *last = &units[ARRAY_LEN(units) - 1], *u = units;

        if (ms >= MS_PER_S && ms < 10 * MS_PER_S && ms % MS_PER_S >= 100) {
                (void)snprintf(ret, DURATION_TEXT_MAX, "%lld.%lld s", (long long)(ms / MS_PER_S),
                               (long long)(ms % MS_PER_S / 100));
                return ret;
        }
        while (u < last && ms < u->ms)
                u++;
        int len = snprintf(ret, DURATION_TEXT_MAX, "%lld %s", (long long)(ms / u->ms), u->said);
        int64_t rest = ms % u->ms;
        /* Beside seconds nobody wants milliseconds. */
        if (u + 1 < last && rest >= u[1].ms)
                (void)snprintf(ret + len, DURATION_TEXT_MAX - (size_t)len, " %lld %s",
                               (long long)(rest / u[1].ms), u[1].said);
        return ret;
}

void duration_put(struct buf *b, int64_t ms)
{
        char text[DURATION_TEXT_MAX];
        buf_put_str(b, duration_words(ms, text));
}

const char *duration_words_left(int64_t ms, char *ret)
{
        bool is_begun = ms > MS_PER_S && ms % MS_PER_S && ms < INT64_MAX - MS_PER_S;
        return duration_words(is_begun ? ms - ms % MS_PER_S + MS_PER_S : ms, ret);
}

void duration_put_left(struct buf *b, int64_t ms)
{
        char text[DURATION_TEXT_MAX];
        buf_put_str(b, duration_words_left(ms, text));
}
