/* The table of networks that are no part of the public Internet, after the IANA special-purpose
 * registries.  All addresses are looked at as 16 bytes, IPv4 as ::ffff:a.b.c.d.
 *
 * Several IPv6 ranges carry an IPv4 address inside (mapped, compatible, NAT64, 6to4); a packet to
 * them may come out at that one, so the inner address is judged as well.  Teredo hides it; the
 * whole range is refused.
 *
 * A private network may be allowed as a whole.  Link-local ones may not; an operator who means one
 * lists the network.  The metadata services of clouds hand out the credentials of the machine to
 * any program that can connect to them.  Several have addresses inside networks that operators
 * allow for other reasons, so such an address is allowed only where it is listed itself. */
#include "work/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"

#define MAPPED       96 /* bits of ::ffff:0:0 */
#define ADDRESS_BITS 128

struct special {
        const char *net;
        const char *what;
        bool is_private; /* allowed by allow_private */
};

/* AWS, Google, Azure, Oracle and OpenStack share the first.  Then: containers on AWS, Azure's
 * platform services, Alibaba, Oracle's older one, AWS and its containers over IPv6, Google,
 * Scaleway. */
static const char *const metadata[] = {
        "169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192",
        "fd00:ec2::254",   "fd00:ec2::23",  "fd20:ce::254",  "fd00:42::42",
};

static const struct special specials[] = {
        {"0.0.0.0/8", "an address of no host", false},
        {"10.0.0.0/8", "a private address", true},
        {"100.64.0.0/10", "a carrier-grade NAT address", true},
        {"127.0.0.0/8", "a loopback address", true},
        {"169.254.0.0/16", "a link-local address", false},
        {"172.16.0.0/12", "a private address", true},
        {"192.0.0.0/24", "an address for protocols", false},
        {"192.0.2.0/24", "an address for documentation", false},
        {"192.88.99.0/24", "a relay address", false},
        {"192.168.0.0/16", "a private address", true},
        {"198.18.0.0/15", "an address for benchmarks", true},
        {"198.51.100.0/24", "an address for documentation", false},
        {"203.0.113.0/24", "an address for documentation", false},
        {"224.0.0.0/4", "a multicast address", false},
        {"240.0.0.0/4", "a reserved address", false},
        {"::/128", "an address of no host", false},
        {"::1/128", "a loopback address", true},
        {"64:ff9b:1::/48", "an address of a local translator", false}, /* RFC 8215 */
        {"100::/64", "a discard address", false},
        {"2001::/32", "a Teredo address", false},
        {"2001:db8::/32", "an address for documentation", false},
        {"3fff::/20", "an address for documentation", false},
        {"fc00::/7", "a unique-local address", true},
        {"fe80::/10", "a link-local address", false},
        {"fec0::/10", "a site-local address", true},
        {"ff00::/8", "a multicast address", false},
};

/* Where an IPv4 address lies inside an IPv6 one. */
static const struct {
        const char *net;
        unsigned at; /* byte */
} carriers[] = {
        {"::/96", 12},        {"::ffff:0:0:0/96", 12}, /* RFC 2765, 2.1 */
        {"64:ff9b::/96", 12}, {"64:ff9b:1::/48", 12},  {"2002::/16", 2},
};

static bool parse_ip(const char *text, uint8_t *ret16, bool *ret_is_v4)
{
        struct in_addr v4;
        struct in6_addr v6;
        *ret_is_v4 = inet_pton(AF_INET, text, &v4) == 1;
        if (*ret_is_v4) {
                memset(ret16, 0, 10);
                memset(ret16 + 10, 0xff, 2);
                memcpy(ret16 + 12, &v4, 4);
                return true;
        }
        if (inet_pton(AF_INET6, text, &v6) != 1)
                return false;
        memcpy(ret16, &v6, 16);
        return true;
}

bool address_net_parse(const char *text, struct address_net *ret)
{
        char ip[INET6_ADDRSTRLEN] = {0};
        const char *slash = strchr(text, '/');
        size_t len = slash ? (size_t)(slash - text) : strlen(text);
        bool is_v4;
        uint64_t bits;
        if (len >= sizeof(ip))
                return false;
        memcpy(ip, text, len);
        if (!parse_ip(ip, ret->bytes, &is_v4))
                return false;
        unsigned most = is_v4 ? 32 : 128;
        if (!slash)
                bits = most;
        else if (!slice_to_u64(slice_str(slash + 1), &bits) || bits > most)
                return false;
        ret->bits = (unsigned)bits + (is_v4 ? MAPPED : 0);
        return true;
}

static bool net_holds(const struct address_net *net, const uint8_t *bytes)
{
        unsigned whole = net->bits / 8, rest = net->bits % 8;
        if (memcmp(net->bytes, bytes, whole) != 0)
                return false;
        return rest == 0 || (net->bytes[whole] ^ bytes[whole]) >> (8 - rest) == 0;
}

static bool text_holds(const char *text, const uint8_t *bytes)
{
        struct address_net net;
        bool is_good = address_net_parse(text, &net);
        ASSERT(is_good); /* rows of our own tables */
        return net_holds(&net, bytes);
}

static const char *judge(const struct address_rules *rules, const uint8_t *bytes)
{
        bool is_credential_source = false;
        for (size_t i = 0; i < ARRAY_LEN(metadata); i++)
                is_credential_source |= text_holds(metadata[i], bytes);
        for (size_t i = 0; i < rules->n_nets; i++)
                if (net_holds(&rules->nets[i], bytes) &&
                    (!is_credential_source || rules->nets[i].bits == ADDRESS_BITS))
                        return NULL;
        if (is_credential_source)
                return "a cloud metadata address";
        for (size_t i = 0; i < ARRAY_LEN(specials); i++)
                if (text_holds(specials[i].net, bytes) &&
                    !(specials[i].is_private && rules->allows_private))
                        return specials[i].what;
        return NULL;
}

static const char *refusal(const struct address_rules *rules, const uint8_t *bytes)
{
        const char *why = judge(rules, bytes);
        /* ::1 and :: are in ::/96 too, and are what they are. */
        bool is_small = memcmp(bytes, (const uint8_t[15]){0}, 15) == 0 && bytes[15] <= 1;
        for (size_t i = 0; !why && !is_small && i < ARRAY_LEN(carriers); i++) {
                uint8_t inner[16] = {[10] = 0xff, [11] = 0xff};
                memcpy(inner + 12, bytes + carriers[i].at, 4);
                if (text_holds(carriers[i].net, bytes))
                        why = judge(rules, inner);
        }
        return why;
}

const char *address_refusal(const struct address_rules *rules, const struct sockaddr *addr)
{
        uint8_t bytes[16] = {[10] = 0xff, [11] = 0xff};
        if (addr->sa_family == AF_INET) {
                struct sockaddr_in in;
                memcpy(&in, addr, sizeof(in));
                memcpy(bytes + 12, &in.sin_addr, 4);
                return refusal(rules, bytes);
        }
        if (addr->sa_family != AF_INET6)
                return "no Internet address";
        struct sockaddr_in6 in6;
        memcpy(&in6, addr, sizeof(in6));
        memcpy(bytes, &in6.sin6_addr, 16);
        return refusal(rules, bytes);
}

const char *address_text_refusal(const struct address_rules *rules, const char *text)
{
        char ip[INET6_ADDRSTRLEN] = {0};
        uint8_t bytes[16];
        bool is_v4;
        size_t len = strcspn(text, "%"); /* a scope: fe80::1%eth0 */
        if (len >= sizeof(ip))
                return "no Internet address";
        memcpy(ip, text, len);
        return parse_ip(ip, bytes, &is_v4) ? refusal(rules, bytes) : "no Internet address";
}
