/* Whether a new connection may stay. */
#ifndef WEIR_DOOR_ADMIT_H
#define WEIR_DOOR_ADMIT_H

#include "base/defs.h"

struct conn;

/* It was just accepted and its peer is known.  False: it was turned away and is closed.  Otherwise
 * another one may have been closed to make room. */
bool admit_conn(struct conn *c);

#endif
