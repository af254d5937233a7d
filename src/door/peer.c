/* The table of peers. */
#include "door/peer.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/rand.h"

/* Never an address. */
#define NEAR_NAME "local"
/* Bytes of an IPv6 address that name its network. */
#define NET_BYTES 8

void peers_init(struct peers *p, uint64_t seed)
{
        *p = (struct peers){0};
        hash_init(&p->by_name, seed);
        list_init(&p->idle);
}

static void forget(struct peers *p, struct peer *peer)
{
        if (list_is_linked(&peer->link)) {
                list_remove(&peer->link);
                p->n_idle--;
        }
        hash_remove(&p->by_name, &peer->node);
        free(peer);
}

void peers_release(struct peers *p)
{
        while (!list_is_empty(&p->idle))
                forget(p, CONTAINER_OF(p->idle.next, struct peer, link));
        ASSERT(p->by_name.len == 0);
        hash_release(&p->by_name);
}

/* Into ret; its length. */
static size_t peer_name(const char *address, bool is_near, char ret[INET6_ADDRSTRLEN])
{
        struct in6_addr v6;
        if (is_near)
                address = NEAR_NAME;
        if (inet_pton(AF_INET6, address, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6)) {
                hex_from_bytes(v6.s6_addr, NET_BYTES, ret);
                return 2UL * NET_BYTES;
        }
        size_t n = strlen(address);
        ASSERT(n < INET6_ADDRSTRLEN);
        memcpy(ret, address, n);
        return n;
}

struct peer *peer_join(struct peers *p, const char *address, bool is_near)
{
        char name[INET6_ADDRSTRLEN];
        struct slice key = slice_make(name, peer_name(address, is_near, name));
        struct hash_node *node = hash_find(&p->by_name, key);
        struct peer *peer = node ? CONTAINER_OF(node, struct peer, node) : NULL;
        if (!peer) {
                peer = xcalloc(1, sizeof(*peer));
                memcpy(peer->name, name, key.len);
                hash_insert(&p->by_name, &peer->node, slice_make(peer->name, key.len));
        }
        if (list_is_linked(&peer->link)) {
                list_remove(&peer->link);
                p->n_idle--;
        }
        peer->conns++;
        return peer;
}

/* In order of the last wrong token; most leave soon after it, so the walk is short. */
static void keep_idle(struct peers *p, struct peer *peer)
{
        struct list *at = &p->idle;
        while (at->prev != &p->idle &&
               CONTAINER_OF(at->prev, struct peer, link)->failed_ns > peer->failed_ns)
                at = at->prev;
        list_insert_before(at, &peer->link);
        if (++p->n_idle > PEERS_KEPT)
                forget(p, CONTAINER_OF(p->idle.next, struct peer, link));
}

void peer_leave(struct peers *p, struct peer *peer)
{
        ASSERT(peer->conns > 0);
        if (--peer->conns)
                return;
        ASSERT(peer->strangers == 0);
        if (peer->failures)
                keep_idle(p, peer);
        else
                forget(p, peer);
}

bool peer_fail(struct peer *peer, int64_t now_ns)
{
        if (peer->failures && now_ns - peer->failed_ns >= PEER_FORGET_NS)
                peer->failures = 0;
        peer->failed_ns = now_ns;
        if (peer->failures < UINT32_MAX)
                peer->failures++;
        return peer->failures > LIMIT_TOKEN_FAILURES;
}

uint64_t peer_fail_line(struct peers *p, struct peer *peer, int64_t now_ns)
{
        uint64_t n = muffle_count(&peer->said, now_ns);
        if (!n)
                return 0;
        if (now_ns - p->lines_ns >= MUFFLE_NS || !p->lines_ns) {
                p->lines_ns = now_ns;
                p->lines = 0;
        }
        return ++p->lines <= PEER_LINES ? n : 0;
}

void peers_check(const struct peers *p)
{
        size_t n = 0;
        int64_t failed_ns = INT64_MIN;
        LIST_FOREACH(&p->idle, it)
        {
                const struct peer *peer = CONTAINER_OF(it, struct peer, link);
                ASSERT(!peer->conns && !peer->strangers);               /* (1) */
                ASSERT(peer->failures && peer->failed_ns >= failed_ns); /* (3) */
                failed_ns = peer->failed_ns;
                n++;
        }
        ASSERT(n == p->n_idle && n <= PEERS_KEPT && n <= p->by_name.len); /* (2) */
}
