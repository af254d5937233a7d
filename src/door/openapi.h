/* The HTTP interface described for machines, from the command table and the pages of the door. */
#ifndef WEIR_DOOR_OPENAPI_H
#define WEIR_DOOR_OPENAPI_H

#include "base/buf.h"

/* One JSON document, OpenAPI 3.1, no line feed at the end.  cookie: the name of the one that this
 * weir gives to sessions; NULL: of no weir in particular. */
void openapi_put(struct buf *ret, const char *version, const char *cookie);

#endif
