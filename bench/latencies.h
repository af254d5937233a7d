/* Latencies of one thread or of all: kept one by one, so that percentiles are exact.
 *
 * Ownership: latencies_release() frees the numbers.  Threads: one at a time. */
#ifndef WEIR_BENCH_LATENCIES_H
#define WEIR_BENCH_LATENCIES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

struct latencies {
        int64_t *ns;
        size_t n, size;
};

static inline void latencies_add(struct latencies *l, int64_t ns)
{
        if (l->n == l->size) {
                l->size = l->size ? 2 * l->size : 1024;
                l->ns = realloc(l->ns, l->size * sizeof(*l->ns));
                if (!l->ns)
                        die("out of memory");
        }
        l->ns[l->n++] = ns;
}

static inline void latencies_add_all(struct latencies *l, const struct latencies *from)
{
        for (size_t i = 0; i < from->n; i++)
                latencies_add(l, from->ns[i]);
}

static inline int latencies_compare(const void *a, const void *b)
{
        int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
        return (x > y) - (x < y);
}

static inline void latencies_sort(struct latencies *l)
{
        if (l->n > 0)
                qsort(l->ns, l->n, sizeof(*l->ns), latencies_compare);
}

/* Of sorted ones; 0 when there are none. */
static inline double latencies_us(const struct latencies *sorted, unsigned percent)
{
        size_t at = sorted->n * percent / 100;
        return sorted->n ? (double)sorted->ns[at < sorted->n ? at : sorted->n - 1] / 1e3 : 0;
}

static inline void latencies_release(struct latencies *l)
{
        free(l->ns);
        memset(l, 0, sizeof(*l));
}

#endif
