/* See digests.h.
 *
 *      key of (class, digest) -> one of 1,024 sets -> 4 entries of 16 bytes
 *
 * An entry whose key is 0 is free.  The key is the mixed 64 bits, and nothing is compared besides:
 * two digests meet once in 2^64, and then share a mean.
 *
 * What is counted is how much an entry is worth keeping.  A new digest takes the place of the
 * rarest in a full set at once: without that it would never become known.  Halving the others is
 * what makes room in the long run: a statement that was frequent last month loses to one of today.
 * So entries that are used between two evictions of their set stay, and a flood of statements that
 * come once each only replaces itself.
 *
 * Its weakness: a flood in which nothing else is used forgets all, in about as many evictions per
 * set as the counts have binary digits.  What it forgot it knows again after DIGESTS_KNOWN
 * transactions.
 *
 * Costs: 64 KiB; a lookup reads 64 bytes of it. */
#include "gate/digests.h"

#include <math.h>
#include <stdlib.h>

#define SETS      1024 /* a power of two */
#define WAYS      4
#define MEAN_MOST 64 /* transactions the mean is over, about */

_Static_assert((SETS & (SETS - 1)) == 0, "a set is some bits of the key");

struct digest_entry {
        uint64_t key;   /* 0: free */
        float log_mean; /* of ln(ns) */
        uint32_t n;     /* transactions; halved with each eviction from the set */
};

struct digests {
        struct digest_entry sets[SETS][WAYS];
};

struct digests *digests_new(void)
{
        return xcalloc(1, sizeof(struct digests));
}

struct digests *digests_free(struct digests *d)
{
        free(d);
        return NULL;
}

/* The output step of splitmix64.  Never 0. */
static uint64_t digest_key(uint16_t class_number, uint64_t digest)
{
        uint64_t z = digest + (class_number + 1ULL) * 0x9e3779b97f4a7c15ULL;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
        z ^= z >> 31;
        return z ? z : 1;
}

/* The place of a key in its set; -1: it is not there. */
static int find_way(const struct digest_entry set[WAYS], uint64_t key)
{
        for (int i = 0; i < WAYS; i++)
                if (set[i].key == key)
                        return i;
        return -1;
}

/* A free entry of the set; when there is none, the rarest, and the others count half. */
static int make_way(struct digest_entry set[WAYS])
{
        int rarest = find_way(set, 0);

        if (rarest >= 0)
                return rarest;
        rarest = 0;
        for (int i = 1; i < WAYS; i++)
                if (set[i].n < set[rarest].n)
                        rarest = i;
        for (int i = 0; i < WAYS; i++)
                set[i].n /= 2;
        return rarest;
}

bool digests_find(const struct digests *d, uint16_t class_number, uint64_t digest,
                  double *ret_log_time)
{
        uint64_t key = digest_key(class_number, digest);
        const struct digest_entry *set = d->sets[key % SETS];
        int way = find_way(set, key);

        if (way < 0 || set[way].n < DIGESTS_KNOWN)
                return false;
        *ret_log_time = set[way].log_mean;
        return true;
}

void digests_add(struct digests *d, uint16_t class_number, uint64_t digest, double log_time)
{
        uint64_t key = digest_key(class_number, digest);
        struct digest_entry *set = d->sets[key % SETS];

        if (!isfinite(log_time)) /* it would stay in the mean for ever */
                return;
        int way = find_way(set, key);
        if (way < 0) {
                way = make_way(set);
                set[way] = (struct digest_entry){.key = key};
        }
        struct digest_entry *e = &set[way];
        e->n += e->n < UINT32_MAX;
        uint32_t over = e->n < MEAN_MOST ? e->n : MEAN_MOST;
        e->log_mean += ((float)log_time - e->log_mean) / (float)over;
}
