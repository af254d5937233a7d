/* Replies as JSON, for programs. */
#ifndef WEIR_CLI_JSON_H
#define WEIR_CLI_JSON_H

#include "wire/resp_reply.h"

/* One value, compact.  Texts are strings, except under the keys "args" and "result", which hold
 * whatever the client gave: JSON there stays JSON, as in the answers of the HTTP door. */
void value_put_json(struct buf *b, const struct value *v);

#endif
