/* A payload in JSON: the args of a job, its result and the like, which are any bytes.
 *
 *      "args":{ "a": 1 }                       bytes that are JSON, as they are, spaces too
 *      "args":"hello","args_is_text":true      other UTF-8: the text of the string is the bytes
 *      "args_base64":"/wA="                    all else
 *
 * The same members are taken from who sends one, so that what was told can be sent back and gives
 * the same bytes: without args_is_text a string is JSON, and its quotes belong to it. */
#ifndef WEIR_WIRE_PAYLOAD_H
#define WEIR_WIRE_PAYLOAD_H

#include "base/buf.h"

#define PAYLOAD_BASE64  "_base64"
#define PAYLOAD_IS_TEXT "_is_text"

/* Writes the members of an object that tell these bytes, with a comma before them if one is due.
 * JSON that is deeper than max_depth is told as text. */
void payload_put_json(struct buf *b, struct slice name, struct slice bytes, unsigned max_depth);

#endif
