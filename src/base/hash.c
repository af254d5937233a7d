/* Names to nodes: chains in a power-of-two table, doubled when it is as long as it holds nodes.
 *
 * The hash is SipHash-1-3 (Aumasson, Bernstein; the reduced rounds that Python and Rust use for
 * tables), keyed with the table's seed, so that clients who choose the names cannot choose the
 * chains.  The 64-bit hash is kept in the node: growing re-hashes nothing, and a chain is walked
 * without touching keys that differ.  The slots come with the first insert; an empty table costs
 * nothing.  It never shrinks: names are few. */
#include "base/hash.h"

#include <stdlib.h>

#define SLOTS_MIN 16

static inline uint64_t rotl(uint64_t v, unsigned n)
{
        return v << n | v >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
        v[0] += v[1];
        v[1] = rotl(v[1], 13) ^ v[0];
        v[0] = rotl(v[0], 32);
        v[2] += v[3];
        v[3] = rotl(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotl(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotl(v[1], 17) ^ v[2];
        v[2] = rotl(v[2], 32);
}

/* SipHash-1-3 of the key under (k0, k1). */
static uint64_t siphash13(uint64_t k0, uint64_t k1, struct slice key)
{
        uint64_t v[4] = {
                k0 ^ 0x736f6d6570736575ULL,
                k1 ^ 0x646f72616e646f6dULL,
                k0 ^ 0x6c7967656e657261ULL,
                k1 ^ 0x7465646279746573ULL,
        };
        uint64_t word, last = 0;
        size_t i = 0;

        for (; key.len - i >= sizeof(word); i += sizeof(word)) {
                memcpy(&word, key.ptr + i, sizeof(word));
                v[3] ^= word;
                sip_round(v);
                v[0] ^= word;
        }
        if (i < key.len)
                memcpy(&last, key.ptr + i, key.len - i);
        last |= (uint64_t)key.len << 56;
        v[3] ^= last;
        sip_round(v);
        v[0] ^= last;
        v[2] ^= 0xff;
        for (int n = 0; n < 3; n++)
                sip_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t hash_bytes(uint64_t seed, struct slice key)
{
        /* SipHash wants 128 bits; the second half is made from the first by an odd constant. */
        return siphash13(seed, seed * 0x9e3779b97f4a7c15ULL + 0xd1b54a32d192ed03ULL, key);
}

void hash_init(struct hash *h, uint64_t seed)
{
        *h = (struct hash){.seed = seed};
}

void hash_release(struct hash *h)
{
        free(h->slots);
        *h = (struct hash){.seed = h->seed};
}

static inline size_t slot_of(const struct hash *h, uint64_t hash)
{
        return hash & (h->n_slots - 1);
}

struct hash_node *hash_find(const struct hash *h, struct slice key)
{
        if (h->len == 0)
                return NULL;
        uint64_t hash = hash_bytes(h->seed, key);
        struct hash_node *node = h->slots[slot_of(h, hash)];

        while (node && !(node->hash == hash && slice_eq(node->key, key)))
                node = node->next;
        return node;
}

static void push(struct hash *h, struct hash_node *node)
{
        struct hash_node **slot = &h->slots[slot_of(h, node->hash)];

        node->next = *slot;
        *slot = node;
}

static void grow(struct hash *h)
{
        size_t n_old = h->n_slots;
        struct hash_node **old = h->slots;

        h->n_slots = n_old ? 2 * n_old : SLOTS_MIN;
        h->slots = xcalloc(h->n_slots, sizeof(struct hash_node *));
        for (size_t i = 0; i < n_old; i++) {
                for (struct hash_node *node = old[i], *next; node; node = next) {
                        next = node->next;
                        push(h, node);
                }
        }
        free(old);
}

void hash_insert(struct hash *h, struct hash_node *node, struct slice key)
{
        if (h->len == h->n_slots)
                grow(h);
        node->hash = hash_bytes(h->seed, key);
        node->key = key;
        for (struct hash_node *n = h->slots[slot_of(h, node->hash)]; n; n = n->next)
                ASSERT(!(n->hash == node->hash && slice_eq(n->key, key)));
        push(h, node);
        h->len++;
}

void hash_remove(struct hash *h, struct hash_node *node)
{
        ASSERT(h->len > 0);
        struct hash_node **at = &h->slots[slot_of(h, node->hash)];

        while (*at && *at != node)
                at = &(*at)->next;
        ASSERT(*at == node);
        *at = node->next;
        node->next = NULL;
        h->len--;
}

struct hash_node *hash_next(const struct hash *h, const struct hash_node *node)
{
        size_t slot = 0;

        if (node) {
                if (node->next)
                        return node->next;
                slot = slot_of(h, node->hash) + 1;
        }
        for (; slot < h->n_slots; slot++)
                if (h->slots[slot])
                        return h->slots[slot];
        return NULL;
}
