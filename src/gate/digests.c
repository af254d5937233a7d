/* See digests.h.
 *
 *      hash of (class, digest) -> one of 1,024 sets -> 4 entries of 16 bytes
 *
 * An entry whose digest is 0 is free.
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

#include "gate/usual.h"

#define SETS      1024 /* a power of two */
#define WAYS      4
#define MEAN_MOST 64 /* transactions the mean is over, about */

_Static_assert((SETS & (SETS - 1)) == 0, "a set is some bits of the key");

_Static_assert(SETS *WAYS == DIGESTS_MOST, "all of them");

struct digest_entry {
        uint64_t digest; /* 0: free */
        float log_mean;  /* of ln(ns) */
        uint16_t n;      /* transactions; halved with each eviction from the set */
        uint16_t class_number;
};
_Static_assert(sizeof(struct digest_entry) == 16, "a set is a line of the processor's cache");

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

/* The output step of splitmix64. */
static uint64_t digest_hash(uint16_t class_number, uint64_t digest)
{
        uint64_t z = digest + (class_number + 1ULL) * 0x9e3779b97f4a7c15ULL;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
        z ^= z >> 31;
        return z;
}

/* The place in its set; -1: it is not there. */
static int find_way(const struct digest_entry set[WAYS], uint16_t class_number, uint64_t digest)
{
        for (int i = 0; i < WAYS; i++)
                if (set[i].digest == digest && set[i].class_number == class_number)
                        return i;
        return -1;
}

/* A free entry of the set, else the rarest; then the others count half. */
static int make_way(struct digest_entry set[WAYS])
{
        int rarest = 0;

        for (int i = 0; i < WAYS; i++)
                if (set[i].digest == 0)
                        return i;
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
        const struct digest_entry *set = d->sets[digest_hash(class_number, digest) % SETS];
        int way = find_way(set, class_number, digest);

        if (way < 0 || set[way].n < DIGESTS_KNOWN)
                return false;
        *ret_log_time = set[way].log_mean;
        return true;
}

static struct digest_entry *entry_for(struct digests *d, uint16_t class_number, uint64_t digest)
{
        struct digest_entry *set = d->sets[digest_hash(class_number, digest) % SETS];
        int way = find_way(set, class_number, digest);

        if (way < 0) {
                way = make_way(set);
                set[way] = (struct digest_entry){.digest = digest, .class_number = class_number};
        }
        return &set[way];
}

void digests_add(struct digests *d, uint16_t class_number, uint64_t digest, double log_time)
{
        if (!isfinite(log_time)) /* it would stay in the mean for ever */
                return;
        struct digest_entry *e = entry_for(d, class_number, digest);
        e->n += e->n < UINT16_MAX;
        uint32_t over = e->n < MEAN_MOST ? e->n : MEAN_MOST;
        e->log_mean += ((float)log_time - e->log_mean) / (float)over;
}

size_t digests_copy(const struct digests *d, struct digest_row *ret)
{
        size_t n = 0;

        for (size_t i = 0; i < SETS; i++) {
                for (size_t way = 0; way < WAYS; way++) {
                        const struct digest_entry *e = &d->sets[i][way];
                        if (e->n < DIGESTS_KNOWN)
                                continue;
                        ret[n] = (struct digest_row){.digest = e->digest,
                                                     .log_time = e->log_mean,
                                                     .n = e->n,
                                                     .class_number = e->class_number};
                        n++;
                }
        }
        return n;
}

bool digest_row_is_valid(const struct digest_row *row)
{
        bool is_time = row->log_time >= 0 && row->log_time <= USUAL_LOG_TIME_MAX;
        return row->digest != 0 && row->n >= DIGESTS_KNOWN && is_time;
}

void digests_put(struct digests *d, const struct digest_row *row)
{
        struct digest_entry *e = entry_for(d, row->class_number, row->digest);
        e->n = row->n;
        e->log_mean = (float)row->log_time;
}
