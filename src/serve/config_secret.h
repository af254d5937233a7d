/* Files that hold a secret: a token, a password, keys. */
#ifndef WEIR_SERVE_CONFIG_SECRET_H
#define WEIR_SERVE_CONFIG_SECRET_H

#include <stddef.h>

#include "base/err.h"

/* Reads a file with a secret in it, whole, as a C string; the caller wipes it.  `what` names it.
 * Returns how many bytes it has, or an error. */
int config_read_secret(const char *what, const char *path, char *ret, size_t size,
                       struct problem *problem) MUST_CHECK;

#endif
