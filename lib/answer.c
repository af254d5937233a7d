/* Reading the record of a CHECK:
 *
 *      0 verdict   1 reason   2 metric   3 value   4 threshold   5 age_ms   6 rule
 *      7 wait_ms   8 credits   9 credit_ms   10 would
 *
 * Texts may be null, fractions are texts, whole numbers are integers.  A reply that has the shape
 * but not the meaning (an unknown verdict, a list for a number) is refused as a whole: half an
 * answer must not open the gate.
 *
 * Times are cut to ten minutes, so that a mistake on the other side cannot make a client that has
 * credits deaf for a day. */
#include "answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS      11
#define TIME_MAX_MS 600000

void answer_clear(struct weir_answer *a)
{
        *a = (struct weir_answer){.value = NAN, .threshold = NAN, .age_ms = -1};
}

static bool read_text(const struct value *v, char *ret, size_t size)
{
        if (v->type != VALUE_TEXT && v->type != VALUE_NULL)
                return false;
        struct slice s = value_text(v);
        size_t n = s.len < size - 1 ? s.len : size - 1;
        if (n < s.len) /* not in the middle of a character */
                while (n > 0 && ((unsigned char)s.ptr[n] & 0xc0) == 0x80)
                        n--;
        if (n)
                memcpy(ret, s.ptr, n);
        ret[n] = '\0';
        return n == 0 || !memchr(ret, '\0', n);
}

static bool read_fraction(const struct value *v, locale_t c_locale, double *ret)
{
        char text[64], *end;

        *ret = NAN;
        if (v->type == VALUE_INT)
                *ret = (double)v->num;
        if (v->type == VALUE_INT || v->type == VALUE_NULL)
                return true;
        if (v->type != VALUE_TEXT || v->text.len >= sizeof(text))
                return false;
        if (v->text.len == 0)
                return true;
        memcpy(text, v->text.ptr, v->text.len);
        text[v->text.len] = '\0';
        *ret = strtod_l(text, &end, c_locale);
        return end == text + v->text.len;
}

/* Null is `none`; what is larger than `most` is `most`. */
static bool read_count(const struct value *v, int64_t none, int64_t most, int64_t *ret)
{
        *ret = none;
        if (v->type == VALUE_NULL)
                return true;
        if (v->type != VALUE_INT && v->type != VALUE_TEXT)
                return false;
        int64_t n = value_int(v, INT64_MIN);
        if (n < none)
                return false;
        *ret = n < most ? n : most;
        return true;
}

bool answer_read(const struct value *v, locale_t c_locale, struct weir_answer *ret)
{
        struct weir_answer a;
        int64_t wait_ms, credits, credit_ms;

        if (v->type != VALUE_LIST || v->n < FIELDS)
                return false;
        const struct value *f = v->items;
        bool is_granted = slice_eq(value_text(&f[0]), SLICE_LIT("granted"));
        if (!is_granted && !slice_eq(value_text(&f[0]), SLICE_LIT("refused")))
                return false;
        answer_clear(&a);
        a.verdict = is_granted ? WEIR_GO : WEIR_NO;
        if (!read_text(&f[1], a.reason, sizeof(a.reason)) ||
            !read_text(&f[2], a.metric, sizeof(a.metric)) ||
            !read_fraction(&f[3], c_locale, &a.value) ||
            !read_fraction(&f[4], c_locale, &a.threshold) ||
            !read_count(&f[5], -1, INT64_MAX, &a.age_ms) ||
            !read_text(&f[6], a.rule, sizeof(a.rule)) ||
            !read_count(&f[7], 0, TIME_MAX_MS, &wait_ms) ||
            !read_count(&f[8], 0, UINT32_MAX, &credits) ||
            !read_count(&f[9], 0, TIME_MAX_MS, &credit_ms) ||
            !read_text(&f[10], a.would, sizeof(a.would)))
                return false;
        a.wait_ms = (uint32_t)wait_ms;
        a.credits = (uint32_t)credits;
        a.credit_ms = (uint32_t)credit_ms;
        *ret = a;
        return true;
}
