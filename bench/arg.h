/* A number among the options of the generators. */
#ifndef WEIR_BENCH_ARG_H
#define WEIR_BENCH_ARG_H

#include <stdlib.h>

#include "sample.h"

/* Ends the program when the text is none, or not within these. */
static inline unsigned number_arg(const char *text, unsigned min, unsigned max)
{
        char *end;
        unsigned long v = strtoul(text, &end, 10);
        if (*end || end == text || v < min || v > max)
                die("%s is not a number of %u..%u", text, min, max);
        return (unsigned)v;
}

#endif
