/* Which tier a hook belongs to: patterns with a tier each, the most specific first.
 *
 * `*` stands for any text, `?` for one byte.  An exact name comes first, then the pattern with the
 * longest text before its first wildcard, then the one with more literal bytes in all, then the
 * one set last.  A hook that nothing matches is normal.
 *
 * Built once from its entries and then only read: a change builds a new one.  Look-ups must stay
 * under 1 us with 10,000 patterns. */
#ifndef WEIR_GATE_REGISTRY_H
#define WEIR_GATE_REGISTRY_H

#include "base/err.h"
#include "gate/gate.h"

struct registry_entry {
        struct slice pattern; /* borrowed while building: copied */
        enum tier tier;
};

struct registry;

#define REGISTRY_PATTERN_MAX 255

/* The entries later in the array win over equal patterns before them. */
struct registry *registry_new(const struct registry_entry *entries, size_t n);
struct registry *registry_free(struct registry *r);
DEFINE_CLEANUP(struct registry, registry_free)

enum tier registry_tier(const struct registry *r, struct slice hook);
/* The same, and the pattern that decided (empty: none did). */
enum tier registry_explain(const struct registry *r, struct slice hook, struct slice *ret_pattern);

/* One pattern alone. */
bool registry_matches(struct slice pattern, struct slice text);
/* 1..255 bytes of UTF-8 without control characters. */
int registry_check_pattern(struct slice pattern, struct problem *problem) MUST_CHECK;

/* The defaults for WooCommerce and Action Scheduler. */
extern const struct registry_entry registry_defaults[];
extern const size_t registry_defaults_len;

#endif
