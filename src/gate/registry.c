/* Hooks to tiers: a table of texts, and an index of grams for the patterns that are none.
 *
 * Entries are sorted once by the law of registry.h, so that a position in the array is a rank and
 * the answer is the matching entry of the lowest rank.  They are found in two ways:
 *
 *   texts  A name without wildcards, and a name with nothing but `*` at its end.  One
 * open-addressed table holds both, keyed by length, kind and a hash that is rolled along the hook:
 * all prefixes of the hook are hashed in one pass, and only lengths that occur are looked up, the
 * longest first.  Its first hit is the best of them all.
 *
 *   odd    Everything else (`*_export`, `shop_?_sync_*`).  Each has at least one gram, 4 bytes in a
 *          row without a wildcard, or else 2, that any match must contain; it is filed under the
 * one that the fewest others contain.  A look-up walks the grams of the hook, and matches what is
 * filed there byte by byte.  A small bit map says for most grams that there is nothing. What has no
 * two literal bytes in a row is on a list that is always walked; there can be few such patterns
 * that make sense.
 *
 * Rejected: a trie (a miss in the cache for each byte, with 10,000 patterns), one automaton for all
 * patterns (exponential to build with `*` inside), trying them all in order (100 us).
 *
 * Cost of a look-up: some 1 ns for each byte of the hook, and per length, gram and candidate a few
 * more; bench/gate_bench.c measures it.  Weakness: thousands of odd patterns that share all their
 * grams (`*aaaa?1`, `*aaaa?2`, ...) are tried one by one. */
#include "gate/registry.h"

#include <stdlib.h>

#define NONE      UINT32_MAX
#define GRAM_BITS 65536U /* of the bit map, for each size of gram: 8 KiB */

struct entry {
        struct slice pattern; /* in registry.text */
        uint8_t tier;
        bool is_exact;
        uint8_t prefix_len; /* before the first wildcard */
        uint8_t literals;
        uint32_t order; /* of being set */
};

struct text_slot {
        uint64_t hash;
        uint32_t entry; /* NONE: empty */
};

/* An odd entry under one gram. */
struct filed {
        uint32_t gram;
        uint32_t entry;
};

/* Entries filed under grams of one size: sorted by gram, then rank. */
struct grams {
        struct filed *filed;
        uint32_t n;
        uint32_t *slots; /* gram -> the first of its run; NONE: empty */
        uint32_t mask;
        uint64_t *bits; /* GRAM_BITS of them: may there be something? */
};

struct registry {
        struct entry *entries; /* sorted: best first */
        size_t n;
        char *text;
        struct text_slot *slots;
        uint64_t slot_mask;
        uint64_t lengths[4]; /* bit n: a text with a `*` behind n bytes exists */
        struct grams four, two;
        uint32_t *bare; /* odd entries without a gram, best first */
        uint32_t n_bare;
};

/* --- patterns --------------------------------------------------------------------------------- */

static bool is_wild(char c)
{
        return c == '*' || c == '?';
}

/* After a mismatch, the last `*` takes one byte more; earlier ones never need to, since the last
 * one can take whatever they would.  O(pattern x text) at worst. */
bool registry_matches(struct slice pattern, struct slice text)
{
        size_t p = 0, t = 0, star = SIZE_MAX, taken = 0;

        while (t < text.len) {
                if (p < pattern.len && pattern.ptr[p] == '*') {
                        star = p++;
                        taken = t;
                } else if (p < pattern.len &&
                           (pattern.ptr[p] == '?' || pattern.ptr[p] == text.ptr[t])) {
                        p++;
                        t++;
                } else if (star != SIZE_MAX) {
                        p = star + 1;
                        t = ++taken;
                } else {
                        return false;
                }
        }
        while (p < pattern.len && pattern.ptr[p] == '*')
                p++;
        return p == pattern.len;
}

int registry_check_pattern(struct slice pattern, struct problem *problem)
{
        if (pattern.len < 1 || pattern.len > REGISTRY_PATTERN_MAX)
                return problem_set(problem, ERR_BADARG, "a hook pattern has 1 to %d bytes",
                                   REGISTRY_PATTERN_MAX);
        for (size_t i = 0; i < pattern.len; i++)
                if ((unsigned char)pattern.ptr[i] < 0x20 || pattern.ptr[i] == 0x7f)
                        return problem_set(problem, ERR_BADARG,
                                           "a hook pattern has no control characters");
        if (!slice_is_utf8(pattern))
                return problem_set(problem, ERR_BADARG, "a hook pattern is UTF-8");
        return OK;
}

static void describe(struct entry *e)
{
        size_t first = e->pattern.len, literals = 0;

        for (size_t i = e->pattern.len; i-- > 0;) {
                if (is_wild(e->pattern.ptr[i]))
                        first = i;
                else
                        literals++;
        }
        e->is_exact = first == e->pattern.len;
        e->prefix_len = (uint8_t)first;
        e->literals = (uint8_t)literals;
}

/* Nothing but `*` behind the text, and at least one. */
static bool is_prefix(const struct entry *e)
{
        for (size_t i = e->prefix_len; i < e->pattern.len; i++)
                if (e->pattern.ptr[i] != '*')
                        return false;
        return !e->is_exact;
}

static int by_rank(const void *a, const void *b)
{
        const struct entry *x = a, *y = b;

        if (x->is_exact != y->is_exact)
                return x->is_exact ? -1 : 1;
        if (x->prefix_len != y->prefix_len)
                return x->prefix_len > y->prefix_len ? -1 : 1;
        if (x->literals != y->literals)
                return x->literals > y->literals ? -1 : 1;
        return x->order > y->order ? -1 : 1;
}

/* --- texts ------------------------------------------------------------------------------------ */

#define HASH_SEED  0x9e3779b97f4a7c15ULL
#define EXACT_SALT 0xd1b54a32d192ed03ULL

static inline uint64_t roll(uint64_t hash, char byte)
{
        return (hash ^ (unsigned char)byte) * 0xff51afd7ed558ccdULL;
}

/* The rolled hash has its entropy in the high bits; two different lengths must not meet. */
static inline uint64_t finish(uint64_t hash, size_t len, bool is_exact)
{
        hash ^= len * HASH_SEED ^ (is_exact ? EXACT_SALT : 0);
        hash ^= hash >> 32;
        hash *= 0xc4ceb9fe1a85ec53ULL;
        return hash ^ hash >> 29;
}

static struct text_slot *text_slot(const struct registry *r, uint64_t hash, struct slice text,
                                   bool is_exact)
{
        for (uint64_t at = hash & r->slot_mask;; at = (at + 1) & r->slot_mask) {
                struct text_slot *slot = &r->slots[at];
                if (slot->entry == NONE)
                        return slot;
                if (slot->hash != hash)
                        continue;
                const struct entry *e = &r->entries[slot->entry];
                if (e->is_exact == is_exact &&
                    slice_eq(slice_make(e->pattern.ptr, e->prefix_len), text))
                        return slot;
        }
}

/* In order of rank: of equal texts the first one stays. */
static void add_text(struct registry *r, uint32_t i)
{
        const struct entry *e = &r->entries[i];
        uint64_t hash = HASH_SEED;

        for (size_t k = 0; k < e->prefix_len; k++)
                hash = roll(hash, e->pattern.ptr[k]);
        hash = finish(hash, e->prefix_len, e->is_exact);
        struct text_slot *slot =
                text_slot(r, hash, slice_make(e->pattern.ptr, e->prefix_len), e->is_exact);
        if (slot->entry == NONE)
                *slot = (struct text_slot){hash, i};
        if (!e->is_exact)
                r->lengths[e->prefix_len / 64] |= 1ULL << e->prefix_len % 64;
}

/* The highest length of a text that is at most len; -1: none. */
static int longest_length(const struct registry *r, int len)
{
        for (int word = len / 64; len >= 0 && word >= 0; word--) {
                uint64_t bits = r->lengths[word];
                if (word == len / 64 && len % 64 != 63)
                        bits &= (1ULL << (len % 64 + 1)) - 1;
                if (bits)
                        return word * 64 + 63 - __builtin_clzll(bits);
        }
        return -1;
}

static uint32_t find_text(const struct registry *r, struct slice hook)
{
        uint64_t hashes[REGISTRY_PATTERN_MAX + 1];
        int max = hook.len < REGISTRY_PATTERN_MAX ? (int)hook.len : REGISTRY_PATTERN_MAX;

        hashes[0] = HASH_SEED;
        for (int i = 0; i < max; i++)
                hashes[i + 1] = roll(hashes[i], hook.ptr[i]);
        if (hook.len <= REGISTRY_PATTERN_MAX) {
                uint32_t i = text_slot(r, finish(hashes[max], hook.len, true), hook, true)->entry;
                if (i != NONE)
                        return i;
        }
        for (int n = longest_length(r, max); n >= 0; n = longest_length(r, n - 1)) {
                struct slice text = slice_make(hook.ptr, (size_t)n);
                uint32_t i = text_slot(r, finish(hashes[n], text.len, false), text, false)->entry;
                if (i != NONE)
                        return i;
        }
        return NONE;
}

/* --- grams ------------------------------------------------------------------------------------ */

static inline uint32_t gram_at(const char *at, size_t size)
{
        uint32_t gram = 0;

        memcpy(&gram, at, size);
        return gram;
}

static inline uint32_t gram_hash(uint32_t gram)
{
        uint64_t h = gram * HASH_SEED;
        return (uint32_t)(h >> 32);
}

/* The slot of a gram: its own, or the empty one where it would be. */
static uint32_t *gram_slot(const struct grams *g, uint32_t gram, uint32_t hash)
{
        uint32_t at = hash >> 7 & g->mask;

        while (g->slots[at] != NONE && g->filed[g->slots[at]].gram != gram)
                at = (at + 1) & g->mask;
        return &g->slots[at];
}

static bool has_gram_at(struct slice pattern, size_t at, size_t size)
{
        for (size_t i = at; i < at + size; i++)
                if (i >= pattern.len || is_wild(pattern.ptr[i]))
                        return false;
        return true;
}

static bool has_gram(struct slice pattern, size_t size)
{
        for (size_t i = 0; i < pattern.len; i++)
                if (has_gram_at(pattern, i, size))
                        return true;
        return false;
}

/* Counts are kept by hash, so that counting needs no table of its own: two grams that meet are both
 * thought more common than they are, which only makes the choice less good. */
static void count_grams(struct slice pattern, size_t size, uint32_t *counts)
{
        for (size_t i = 0; i < pattern.len; i++)
                if (has_gram_at(pattern, i, size))
                        counts[gram_hash(gram_at(pattern.ptr + i, size)) % GRAM_BITS]++;
}

static uint32_t rarest_gram(struct slice pattern, size_t size, const uint32_t *counts)
{
        uint32_t best = 0, fewest = UINT32_MAX;

        for (size_t i = 0; i < pattern.len; i++) {
                if (!has_gram_at(pattern, i, size))
                        continue;
                uint32_t gram = gram_at(pattern.ptr + i, size);
                uint32_t count = counts[gram_hash(gram) % GRAM_BITS];
                if (count < fewest) {
                        fewest = count;
                        best = gram;
                }
        }
        return best;
}

static int by_gram(const void *a, const void *b)
{
        const struct filed *x = a, *y = b;

        if (x->gram != y->gram)
                return x->gram < y->gram ? -1 : 1;
        return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static uint32_t table_size(size_t n)
{
        uint32_t size = 16;

        while (size < 2 * n)
                size *= 2;
        return size;
}

/* Files the entries of `odd`, all of which have a gram of that size. */
static void grams_init(struct grams *g, const struct registry *r, const uint32_t *odd, uint32_t n,
                       size_t size)
{
        *g = (struct grams){.n = n};
        if (n == 0)
                return;
        uint32_t *counts = xcalloc(GRAM_BITS, sizeof(*counts));
        for (uint32_t i = 0; i < n; i++)
                count_grams(r->entries[odd[i]].pattern, size, counts);
        g->filed = xcalloc(n, sizeof(*g->filed));
        for (uint32_t i = 0; i < n; i++)
                g->filed[i] = (struct filed){rarest_gram(r->entries[odd[i]].pattern, size, counts),
                                             odd[i]};
        free(counts);
        qsort(g->filed, n, sizeof(*g->filed), by_gram);
        g->mask = table_size(n) - 1;
        g->slots = xmalloc((g->mask + 1UL) * sizeof(*g->slots));
        memset(g->slots, 0xff, (g->mask + 1UL) * sizeof(*g->slots));
        g->bits = xcalloc(GRAM_BITS / 64, sizeof(*g->bits));
        for (uint32_t i = n; i-- > 0;) { /* the first of a run is written last */
                uint32_t hash = gram_hash(g->filed[i].gram), bit = hash % GRAM_BITS;
                *gram_slot(g, g->filed[i].gram, hash) = i;
                g->bits[bit / 64] |= 1ULL << bit % 64;
        }
}

static void grams_release(struct grams *g)
{
        free(g->filed);
        free(g->slots);
        free(g->bits);
}

/* The best of `best` and what is filed under the grams of the hook. */
static uint32_t find_gram(const struct registry *r, const struct grams *g, size_t size,
                          struct slice hook, uint32_t best)
{
        if (g->n == 0)
                return best;
        for (size_t i = 0; i + size <= hook.len; i++) {
                uint32_t gram = gram_at(hook.ptr + i, size), hash = gram_hash(gram);
                uint32_t bit = hash % GRAM_BITS;
                if (!(g->bits[bit / 64] >> bit % 64 & 1))
                        continue;
                for (uint32_t k = *gram_slot(g, gram, hash);
                     k < g->n && g->filed[k].gram == gram && g->filed[k].entry < best; k++)
                        if (registry_matches(r->entries[g->filed[k].entry].pattern, hook))
                                best = g->filed[k].entry;
        }
        return best;
}

/* --- the registry ----------------------------------------------------------------------------- */

static void copy_entries(struct registry *r, const struct registry_entry *entries, size_t n)
{
        size_t bytes = 0;

        for (size_t i = 0; i < n; i++) {
                ASSERT(entries[i].pattern.len >= 1 &&
                       entries[i].pattern.len <= REGISTRY_PATTERN_MAX);
                ASSERT((unsigned)entries[i].tier < TIERS);
                bytes += entries[i].pattern.len;
        }
        r->n = n;
        r->entries = xcalloc(n + 1, sizeof(*r->entries));
        r->text = xmalloc(bytes + 1);
        char *at = r->text;
        for (size_t i = 0; i < n; i++) {
                struct slice pattern = entries[i].pattern;
                memcpy(at, pattern.ptr, pattern.len);
                r->entries[i] = (struct entry){
                        .pattern = slice_make(at, pattern.len),
                        .tier = (uint8_t)entries[i].tier,
                        .order = (uint32_t)i,
                };
                describe(&r->entries[i]);
                at += pattern.len;
        }
        qsort(r->entries, n, sizeof(*r->entries), by_rank);
}

static void index_texts(struct registry *r)
{
        r->slot_mask = table_size(r->n) - 1;
        r->slots = xmalloc((r->slot_mask + 1) * sizeof(*r->slots));
        for (uint64_t i = 0; i <= r->slot_mask; i++)
                r->slots[i] = (struct text_slot){0, NONE};
        for (uint32_t i = 0; i < r->n; i++)
                if (r->entries[i].is_exact || is_prefix(&r->entries[i]))
                        add_text(r, i);
}

static void index_odd(struct registry *r)
{
        uint32_t *four = xcalloc(r->n + 1, sizeof(*four)), n_four = 0;
        uint32_t *two = xcalloc(r->n + 1, sizeof(*two)), n_two = 0;

        r->bare = xcalloc(r->n + 1, sizeof(*r->bare));
        for (uint32_t i = 0; i < r->n; i++) {
                const struct entry *e = &r->entries[i];
                if (e->is_exact || is_prefix(e))
                        continue;
                if (has_gram(e->pattern, 4))
                        four[n_four++] = i;
                else if (has_gram(e->pattern, 2))
                        two[n_two++] = i;
                else
                        r->bare[r->n_bare++] = i;
        }
        grams_init(&r->four, r, four, n_four, 4);
        grams_init(&r->two, r, two, n_two, 2);
        free(four);
        free(two);
}

struct registry *registry_new(const struct registry_entry *entries, size_t n)
{
        ASSERT(n < NONE / 4);
        struct registry *r = xcalloc(1, sizeof(*r));

        copy_entries(r, entries, n);
        index_texts(r);
        index_odd(r);
        return r;
}

struct registry *registry_free(struct registry *r)
{
        if (!r)
                return NULL;
        grams_release(&r->four);
        grams_release(&r->two);
        free(r->bare);
        free(r->slots);
        free(r->text);
        free(r->entries);
        free(r);
        return NULL;
}

static uint32_t find(const struct registry *r, struct slice hook)
{
        uint32_t best = find_text(r, hook);

        if (best != NONE && r->entries[best].is_exact)
                return best;
        best = find_gram(r, &r->four, 4, hook, best);
        best = find_gram(r, &r->two, 2, hook, best);
        for (uint32_t i = 0; i < r->n_bare && r->bare[i] < best; i++)
                if (registry_matches(r->entries[r->bare[i]].pattern, hook))
                        return r->bare[i];
        return best;
}

enum tier registry_explain(const struct registry *r, struct slice hook, struct slice *ret_pattern)
{
        uint32_t i = find(r, hook);

        *ret_pattern = i == NONE ? SLICE_NONE : r->entries[i].pattern;
        return i == NONE ? TIER_NORMAL : (enum tier)r->entries[i].tier;
}

enum tier registry_tier(const struct registry *r, struct slice hook)
{
        struct slice pattern;
        return registry_explain(r, hook, &pattern);
}

#define DEFAULT(text, of)                                                                          \
        {                                                                                          \
                .pattern = {text, sizeof(text) - 1}, .tier = (of)                                  \
        }

const struct registry_entry registry_defaults[] = {
        DEFAULT("nofraud_*", TIER_CRITICAL),
        DEFAULT("woocommerce_payment_*", TIER_CRITICAL),
        DEFAULT("wc_payment_*", TIER_CRITICAL),
        DEFAULT("woocommerce_scheduled_subscription_*", TIER_HIGH),
        DEFAULT("wcs_*", TIER_HIGH),
        DEFAULT("woocommerce_deliver_webhook_*", TIER_HIGH),
        DEFAULT("woocommerce_run_*", TIER_NORMAL),
        DEFAULT("action_scheduler_*", TIER_NORMAL),
        DEFAULT("facebook_for_woocommerce_*", TIER_DEFERRABLE),
        DEFAULT("wc_facebook_*", TIER_DEFERRABLE),
        DEFAULT("shipstation_*", TIER_DEFERRABLE),
        DEFAULT("klaviyo_*", TIER_DEFERRABLE),
        DEFAULT("woocommerce_flush_*", TIER_DEFERRABLE),
};
const size_t registry_defaults_len = ARRAY_LEN(registry_defaults);
