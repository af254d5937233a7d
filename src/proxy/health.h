/* A thread that looks up the servers of all doors, and knocks at those that are away.
 *
 * Names are looked up here because that may block; again every minute, and at once when a server
 * cannot be reached.  A server that answers is left alone: a connection that is closed without a
 * login counts as an error there, and after some of them it would shut weir out. */
#ifndef WEIR_PROXY_HEALTH_H
#define WEIR_PROXY_HEALTH_H

#include "base/err.h"

struct door;
struct proxy;
struct health;

int health_new(struct proxy *p, struct health **ret, struct problem *problem) MUST_CHECK;
struct health *health_free(struct health *h); /* NULL is fine; returns NULL */
/* On the caller's thread, and may block: before a new door takes connections. */
void health_look(struct door *d);
void health_poke(struct health *h); /* any thread: a server is away, or doors changed */

#endif
