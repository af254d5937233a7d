/* A histogram of whole octaves: how many values had which number of binary digits.
 *
 *      bucket   0     1     2      3      ...   31
 *      values   0     1     2-3    4-7    ...   2^30 and more
 *
 * For times in ms it reaches from below 1 ms to 12 days.  Two of them merge by adding bucket by
 * bucket, in any order.  Why whole octaves: half of them would give quantiles twice as exact and
 * cost twice the bytes wherever they are kept, and people ask a quantile for its size. */
#ifndef WEIR_BASE_OCTAVES_H
#define WEIR_BASE_OCTAVES_H

#include "base/defs.h"

#define OCTAVES 32

struct octaves {
        uint32_t n[OCTAVES]; /* stop at their largest value */
};

static inline unsigned octave_of(uint64_t value)
{
        unsigned digits = value ? 64 - (unsigned)__builtin_clzll(value) : 0;
        return digits < OCTAVES ? digits : OCTAVES - 1;
}

/* The smallest value of a bucket. */
static inline uint64_t octave_from(unsigned bucket)
{
        return bucket ? 1ULL << (bucket - 1) : 0;
}

static inline uint32_t add_bounded_u32(uint32_t a, uint64_t b)
{
        return b < UINT32_MAX - a ? a + (uint32_t)b : UINT32_MAX;
}

static inline void octaves_add(struct octaves *o, uint64_t value)
{
        uint32_t *n = &o->n[octave_of(value)];
        *n += *n < UINT32_MAX;
}

void octaves_merge(struct octaves *to, const struct octaves *from);
uint64_t octaves_total(const struct octaves *o);
/* The value that a share of `q` (0 to 1) of all values does not exceed, about: within a bucket they
 * are taken as evenly spread over the octave.  NAN when there are none. */
double octaves_quantile(const struct octaves *o, double q);

#endif
