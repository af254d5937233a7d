/* The doors of the MySQL proxy: opened, changed and closed as the configuration says.  Loop thread
 * only. */
#ifndef WEIR_SERVE_PROXIES_H
#define WEIR_SERVE_PROXIES_H

#include "loop/loop.h"
#include "serve/config.h"

struct proxies;

/* Opens the doors and tells the core of them.  Without a door there are no threads either. */
int proxies_start(const struct config *config, struct loop *loop, struct proxies **ret,
                  struct problem *problem) MUST_CHECK;
/* Another configuration is to hold: doors of the same name go on with their connections.  After an
 * error all is as it was.  proxies_tell_core() follows in the same turn, when the core knows the
 * targets. */
int proxies_change(struct proxies *p, const struct config *config,
                   struct problem *problem) MUST_CHECK;
void proxies_tell_core(struct proxies *p, const struct config *config);
/* Address i of all doors, in their order; NULL at the end. */
const char *proxies_address(const struct proxies *p, size_t i);
/* Closes all.  NULL is fine; returns NULL. */
struct proxies *proxies_free(struct proxies *p);

#endif
