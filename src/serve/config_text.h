/* The configuration as text that weir.conf takes, in one order and one way of writing.  Passwords
 * and tokens are not in it, only where they come from. */
#ifndef WEIR_SERVE_CONFIG_TEXT_H
#define WEIR_SERVE_CONFIG_TEXT_H

#include "base/buf.h"
#include "serve/config.h"

/* has_defaults: also what is as it is without a file. */
void config_put(const struct config *c, bool has_defaults, struct buf *ret);
/* One section each. */
void config_put_locks(const struct config *c, struct buf *ret); /* with its default */
void config_put_throttle(const struct config *c, bool has_defaults, struct buf *ret);
void config_put_target(const struct config *c, size_t target, bool has_defaults, struct buf *ret);
void config_put_site(const struct config *c, size_t site, bool has_defaults, struct buf *ret);
void config_put_door(const struct config *c, size_t door, bool has_defaults, struct buf *ret);

/* Reads a file, with everything that is checked at start, and writes it as config_put() does with
 * the defaults. */
int config_read_text(const char *path, struct buf *ret, struct problem *problem) MUST_CHECK;

#endif
