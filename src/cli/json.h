/* Replies as JSON, for programs. */
#ifndef WEIR_CLI_JSON_H
#define WEIR_CLI_JSON_H

#include "wire/resp_reply.h"

/* One value, compact.  Texts are strings, except under the keys "args" and "result", which hold
 * whatever the client gave: as in the answers of the HTTP door, JSON there stays JSON, other text
 * is marked by "args_is_text", and the rest comes under "args_base64" (wire/payload.h). */
void value_put_json(struct buf *b, const struct value *v);

#endif
