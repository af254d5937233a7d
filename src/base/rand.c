/* Dice: the system's, or repeatable ones.
 *
 * getrandom(2) costs some 200 ns; a lease token needs 16 bytes, so it is asked for a pool at a
 * time, and bytes given out are wiped from it.  The seeded generator is xoshiro256** (Blackman,
 * Vigna), its state filled by splitmix64 so that seeds 1, 2, 3 are as far apart as any.  It is
 * for tests only: its output can be predicted. */
#include "base/rand.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

void rng_init_system(struct rng *r)
{
        *r = (struct rng){.pool_at = RNG_POOL_BYTES};
}

static uint64_t splitmix64(uint64_t *state)
{
        uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
        return z ^ z >> 31;
}

void rng_init_seed(struct rng *r, uint64_t seed)
{
        *r = (struct rng){.is_seeded = true};
        for (size_t i = 0; i < ARRAY_LEN(r->s); i++)
                r->s[i] = splitmix64(&seed);
}

static inline uint64_t rotl(uint64_t v, unsigned n)
{
        return v << n | v >> (64 - n);
}

static uint64_t xoshiro(uint64_t s[4])
{
        uint64_t v = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = rotl(s[3], 45);
        return v;
}

static void refill(struct rng *r)
{
        size_t have = 0;

        while (have < RNG_POOL_BYTES) {
                ssize_t n = getrandom(r->pool + have, RNG_POOL_BYTES - have, 0);
                /* Only a signal before the kernel's pool is ready may interrupt this; a kernel
                 * without getrandom cannot run weir safely. */
                ASSERT(n > 0 || (n < 0 && errno == EINTR));
                if (n > 0)
                        have += (size_t)n;
        }
        r->pool_at = 0;
}

static void fill_system(struct rng *r, uint8_t *ret, size_t n)
{
        while (n > 0) {
                if (r->pool_at == RNG_POOL_BYTES)
                        refill(r);
                size_t part = RNG_POOL_BYTES - r->pool_at;
                if (part > n)
                        part = n;
                memcpy(ret, r->pool + r->pool_at, part);
                explicit_bzero(r->pool + r->pool_at, part);
                r->pool_at += part;
                ret += part;
                n -= part;
        }
}

void rng_fill(struct rng *r, void *ret, size_t n)
{
        uint8_t *at = ret;

        if (!r->is_seeded) {
                fill_system(r, at, n);
                return;
        }
        while (n > 0) {
                uint64_t v = xoshiro(r->s);
                size_t part = n < sizeof(v) ? n : sizeof(v);
                memcpy(at, &v, part);
                at += part;
                n -= part;
        }
}

uint64_t rng_u64(struct rng *r)
{
        uint64_t v;

        rng_fill(r, &v, sizeof(v));
        return v;
}

/* The high half of a 64x64-bit product is uniform when the products whose low half falls into
 * the incomplete stretch, 2^64 mod n of them, are rolled again (Lemire 2019). */
uint64_t rng_below(struct rng *r, uint64_t n)
{
        ASSERT(n > 0);
        unsigned __int128 product = (unsigned __int128)rng_u64(r) * n;
        if ((uint64_t)product < n) {
                uint64_t incomplete = (0 - n) % n;
                while ((uint64_t)product < incomplete)
                        product = (unsigned __int128)rng_u64(r) * n;
        }
        return (uint64_t)(product >> 64);
}

double rng_unit(struct rng *r)
{
        return (double)(rng_u64(r) >> 11) * 0x1p-53;
}
