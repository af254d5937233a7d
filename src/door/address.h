/* Addresses to listen on: reading and checking them. */
#ifndef WEIR_DOOR_ADDRESS_H
#define WEIR_DOOR_ADDRESS_H

#include <netinet/in.h>

#include "base/err.h"

/* A unix socket's path, or an internet address. */
struct address {
        const char *path; /* borrowed; NULL when it is not a unix socket */
        union {
                struct sockaddr any;
                struct sockaddr_in v4;
                struct sockaddr_in6 v6;
                struct sockaddr_storage room;
        } ip;
        bool is_loopback; /* only this machine can reach it */
};

int address_parse(const char *text, struct address *ret, struct problem *p) MUST_CHECK;
/* Whether it may be listened on: one that other machines can reach needs a token (NULL or empty:
 * none) that cannot be guessed. */
int address_check_token(const struct address *a, const char *text, const char *token,
                        struct problem *p) MUST_CHECK;
/* Whether it needs TLS and has it, or has it for nothing.  is_insecure: it may do without. */
int address_check_tls(const struct address *a, const char *text, bool is_tls, bool is_insecure,
                      struct problem *p) MUST_CHECK;
/* Whether it is an address of this machine alone. */
bool sockaddr_is_loopback(const struct sockaddr *a);
/* A unix socket's file stays behind after a crash and then blocks the next start.  It is removed
 * only when it is a socket and no process answers on it; ERR_LOCKED: one does. */
int address_clear_path(const char *path, struct problem *p) MUST_CHECK;
/* Nothing is lost on the way to ourselves, so a congestion control that paces its packets (bbr,
 * where the system prefers it) only costs a timer per answer: 3 % at 64 clients.  reno is in every
 * kernel; where it may not be chosen, the system's choice serves as well. */
void address_stop_pacing(int fd);

#endif
