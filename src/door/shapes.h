/* The shape of an answer over HTTP, as a line of text that becomes a JSON Schema.
 *
 *      s i b j          string, integer, true or false, any JSON
 *      p                a payload: any JSON, or a text or bytes under other names (wire/payload.h)
 *      <a,b>            one of these words
 *      [t]              a list of t
 *      {k:t k~:t}       an object of exactly these keys; with ~ one may be left out
 *      {k:+name}        the keys of the reply of that name stand here
 *      {*:t}            an object of any keys
 *      @name            a reply of api/replies.def
 *      t?               or null
 *      t|t              one or the other
 *
 * The row of a command has the shape of its answer; the replies in it are those of
 * api/replies.def.  tests/integration/schemas.py holds every answer against its schema. */
#ifndef WEIR_DOOR_SHAPES_H
#define WEIR_DOOR_SHAPES_H

#include "base/buf.h"

/* The schema of a shape, with its braces.  A text that is not of this notation is our fault. */
void shape_put_schema(struct buf *b, const char *text);

#endif
