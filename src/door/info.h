/* The state of the server as text, in the manner of Redis' INFO. */
#ifndef WEIR_DOOR_INFO_H
#define WEIR_DOOR_INFO_H

#include "base/buf.h"

struct server;

/* Lines of name:value under "# Section" titles.  section: one of them in any case, or empty,
 * "all", "everything" or "default" for all.  An unknown section gives nothing. */
void info_write(const struct server *s, struct slice section, struct buf *ret);

#endif
