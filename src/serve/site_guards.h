/* The guards of the configured WordPress sites: started and stopped as the configuration says. Loop
 * thread only. */
#ifndef WEIR_SERVE_SITE_GUARDS_H
#define WEIR_SERVE_SITE_GUARDS_H

#include "loop/loop.h"
#include "serve/config.h"

struct site_guards;

/* Tells the core of the sites and starts their threads; is_on false: of none. */
int site_guards_start(struct config *config, struct loop *loop, bool is_on,
                      struct site_guards **ret, struct problem *problem) MUST_CHECK;
/* From now on, or no longer. */
int site_guards_set(struct site_guards *g, struct config *config, bool is_on,
                    struct problem *problem) MUST_CHECK;
/* Another configuration holds: guards whose site is the same go on.  After an error all is as it
 * was. */
int site_guards_change(struct site_guards *g, struct config *config,
                       struct problem *problem) MUST_CHECK;
/* Stops all.  NULL is fine; returns NULL. */
struct site_guards *site_guards_free(struct site_guards *g);

#endif
