/* IP addresses and networks, without a socket.
 *
 * An address is always 16 bytes: that of IPv4 is the same as ::ffff:a.b.c.d, so a client that comes
 * as the one matches a network that is written as the other. */
#ifndef WEIR_BASE_NETWORK_H
#define WEIR_BASE_NETWORK_H

#include "base/slice.h"

#define IP_BYTES   16U
#define IP_V4_AT   12U /* where the four bytes of IPv4 begin */
#define IP_V4_SIZE 4U

struct ip {
        uint8_t bytes[IP_BYTES];
};

/* The bits of `base` that addresses of the network have in common: 96 more for IPv4. */
struct network {
        struct ip base;
        unsigned bits;
};

struct ip ip_from_v4(const void *four);
bool ip_is_v4(const struct ip *ip);
/* "10.0.0.7", "fd00::7", "::ffff:10.0.0.7"; no zone ("fe80::1%eth0"). */
bool ip_parse(struct slice text, struct ip *ret);

/* "10.0.0.0/8", "fd00::/8", or an address, which is a network of one. */
bool network_parse(struct slice text, struct network *ret);
bool network_has(const struct network *n, const struct ip *ip);
/* No bit is set beyond those that count: "10.0.0.0/8", but not "10.1.0.0/8". */
bool network_ends_with_zeros(const struct network *n);

#endif
