/* One text for one JSON value: two documents that mean the same become the same bytes.
 *
 * Space is left out, members of objects are sorted by their names (bytes; doubles stay, in their
 * order), texts are escaped in one way, and numbers are written in one way: 1, 1.0, 10e-1 and
 * 0.1E+1 are all 1.  Numbers are not rounded, whatever their length.  The text is for comparing,
 * not for people. */
#ifndef WEIR_WIRE_JSON_CANON_H
#define WEIR_WIRE_JSON_CANON_H

#include "base/buf.h"
#include "base/slice.h"

#define JSON_CANON_DEPTH 64

/* Appends to `to`.  False: it is not JSON, is nested deeper than JSON_CANON_DEPTH, or there is no
 * memory; `to` then holds a part. */
bool json_canon(struct slice doc, struct buf *to);

#endif
