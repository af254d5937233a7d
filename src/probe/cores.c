/* See cores.h. */
#include "probe/cores.h"

#define CPU_MAX 65535 /* the largest number of a processor that makes sense */

/* Takes a decimal number off the front; false: no digits, or too large. */
static bool take_decimal(struct slice *s, unsigned *ret)
{
        size_t n = 0;
        unsigned v = 0;
        while (n < s->len && s->ptr[n] >= '0' && s->ptr[n] <= '9' && v <= CPU_MAX)
                v = v * 10 + (unsigned)(s->ptr[n++] - '0');
        *s = slice_make(s->ptr + n, s->len - n);
        *ret = v;
        return n > 0 && v <= CPU_MAX;
}

static bool take_byte(struct slice *s, char byte)
{
        if (!s->len || *s->ptr != byte)
                return false;
        *s = slice_make(s->ptr + 1, s->len - 1);
        return true;
}

static bool count_list(struct slice s, unsigned *ret)
{
        unsigned first, last;
        *ret = 0;
        do {
                if (!take_decimal(&s, &first))
                        return false;
                last = first;
                if (take_byte(&s, '-') && !take_decimal(&s, &last))
                        return false;
                if (last < first || *ret > CORES_MAX)
                        return false;
                *ret += last - first + 1;
        } while (take_byte(&s, ','));
        return s.len == 0;
}

unsigned cores_read(struct slice text, enum cores_form form)
{
        unsigned cores;
        bool is_read = form == CORES_LIST ? count_list(text, &cores)
                                          : take_decimal(&text, &cores) && !text.len;
        return is_read && cores <= CORES_MAX ? cores : 0;
}
