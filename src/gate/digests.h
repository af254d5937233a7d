/* Which statements begin the transactions of a class, and how long those usually take: so that
 * scans inside the class of the checkout are told from the checkout.
 *
 * A set-associative cache of fixed size, without allocation: where a set is full, the one with the
 * fewest transactions goes, and all others of the set count half from then on. */
#ifndef WEIR_GATE_DIGESTS_H
#define WEIR_GATE_DIGESTS_H

#include "base/defs.h"

#define DIGESTS_KNOWN 3    /* transactions that make a digest known */
#define DIGESTS_MOST  4096 /* that are kept */

struct digests;

struct digests *digests_new(void);
struct digests *digests_free(struct digests *d); /* NULL is fine; returns NULL */
/* False: it is new.  *ret_log_time: the mean of ln(ns).  No digest is 0. */
bool digests_find(const struct digests *d, uint16_t class_number, uint64_t digest,
                  double *ret_log_time);
void digests_add(struct digests *d, uint16_t class_number, uint64_t digest, double log_time);

/* For a file: those that are known. */
struct digest_row {
        uint64_t digest;
        double log_time;
        uint16_t n, class_number;
};
size_t digests_copy(const struct digests *d, struct digest_row *ret); /* DIGESTS_MOST at most */
bool digest_row_is_valid(const struct digest_row *row);
void digests_put(struct digests *d,
                 const struct digest_row *row); /* its n is that of a known one */

#endif
