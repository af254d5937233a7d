/* Which numeric addresses a handler may connect to.
 *
 * A name says nothing about where it leads, and may lead elsewhere a moment later: so it is the
 * address of the socket that is judged, each time one is opened.  Pure. */
#ifndef WEIR_WORK_ADDRESS_H
#define WEIR_WORK_ADDRESS_H

#include <sys/socket.h>

#include "base/err.h"

/* A network, always as IPv6: IPv4 is ::ffff:a.b.c.d. */
struct address_net {
        uint8_t bytes[16];
        unsigned bits;
};

struct address_rules {
        bool allows_private; /* loopback, private, carrier-grade NAT, unique-local */
        struct address_net *nets;
        size_t n_nets;
};

/* "10.1.0.0/16", "fd00::/8", or one address. */
bool address_net_parse(const char *text, struct address_net *ret);
/* NULL when it may be connected to; else what is wrong with it: "a loopback address". */
const char *address_refusal(const struct address_rules *rules, const struct sockaddr *addr);
/* The same for an address in digits. */
const char *address_text_refusal(const struct address_rules *rules, const char *text);

#endif
