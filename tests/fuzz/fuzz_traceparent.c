/* Any bytes as a traceparent.
 *
 * A second reader with a pattern, digit by digit, must agree on whether it is one; what is one is
 * written back byte for byte, and what is none changes nothing.  The text is in a block of exactly
 * its size, so that a byte read past its end is seen. */
#include <stdlib.h>

#include "wire/traceparent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool slow_is_one(const uint8_t *text, size_t size)
{
        static const char pattern[] = "00-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff";
        bool has_trace = false, has_span = false;
        if (size != sizeof(pattern) - 1)
                return false;
        for (size_t i = 0; i < size; i++) {
                bool is_digit = strchr("0123456789abcdef", text[i]) && text[i];
                if (!strchr("tsf", pattern[i]) ? text[i] != (uint8_t)pattern[i] : !is_digit)
                        return false;
                has_trace |= pattern[i] == 't' && text[i] != '0';
                has_span |= pattern[i] == 's' && text[i] != '0';
        }
        return has_trace && has_span;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct traceparent t, before;
        char written[TRACEPARENT_BYTES];
        uint8_t *text = malloc(size ? size : 1);
        ASSERT(text);
        if (size)
                memcpy(text, data, size);
        memset(&before, 0x5a, sizeof(before));
        t = before;
        bool is_one = traceparent_parse(slice_make((const char *)text, size), &t);
        ASSERT(is_one == slow_is_one(text, size));
        if (is_one) {
                traceparent_text(&t, written);
                ASSERT(memcmp(written, text, size) == 0);
        } else {
                ASSERT(memcmp(&t, &before, sizeof(t)) == 0);
        }
        free(text);
        return 0;
}
