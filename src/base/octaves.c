/* See octaves.h. */
#include "base/octaves.h"

#include <math.h>

void octaves_merge(struct octaves *to, const struct octaves *from)
{
        for (size_t i = 0; i < OCTAVES; i++)
                to->n[i] = add_bounded_u32(to->n[i], from->n[i]);
}

uint64_t octaves_total(const struct octaves *o)
{
        uint64_t sum = 0;
        for (size_t i = 0; i < OCTAVES; i++)
                sum += o->n[i];
        return sum;
}

double octaves_quantile(const struct octaves *o, double q)
{
        double rank = q * (double)octaves_total(o);
        double below = 0;
        unsigned last = OCTAVES;
        for (unsigned i = 0; i < OCTAVES; i++) {
                if (!o->n[i])
                        continue;
                last = i;
                if (below + o->n[i] >= rank)
                        break;
                below += o->n[i];
        }
        if (last == OCTAVES)
                return NAN;
        double share = (rank - below) / o->n[last]; /* of the bucket */
        return last ? (double)octave_from(last) * exp2(share) : share;
}
