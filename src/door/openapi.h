/* The HTTP interface described for machines, from the command table. */
#ifndef WEIR_DOOR_OPENAPI_H
#define WEIR_DOOR_OPENAPI_H

#include "base/buf.h"

/* One JSON document, OpenAPI 3.1, no line feed at the end. */
void openapi_put(struct buf *ret, const char *version);

#endif
