/* RESP values as JSON documents.
 *
 * Integers stay integers (exact 64 bits), maps become objects in the order the server sent.  The
 * payload fields are the one place where the two formats differ on the wire: RESP sends bytes, so
 * whether they are JSON, text or neither is seen here (wire/payload.h).  Other texts that are no
 * UTF-8, which a worker may have written into an error, become U+FFFD. */
#include "cli/json.h"

#include "wire/json.h"
#include "wire/payload.h"

#define PAYLOAD_DEPTH 64 /* as deep as the server takes a JSON body */

/* NOLINTNEXTLINE(misc-no-recursion): at most VALUE_DEPTH_MAX deep */
static void put_map(struct buf *b, const struct value *v)
{
        buf_put_byte(b, '{');
        for (size_t i = 0; i + 1 < v->n; i += 2) {
                const struct value *key = &v->items[i], *item = &v->items[i + 1];
                bool is_payload = slice_eq(key->text, SLICE_LIT("args")) ||
                                  slice_eq(key->text, SLICE_LIT("result"));
                if (item->type == VALUE_TEXT && is_payload) {
                        payload_put_json(b, key->text, item->text, PAYLOAD_DEPTH);
                        continue;
                }
                json_put_comma(b);
                json_put_text_lossy(b, key->text);
                buf_put_byte(b, ':');
                value_put_json(b, item);
        }
        buf_put_byte(b, '}');
}

/* NOLINTNEXTLINE(misc-no-recursion): at most VALUE_DEPTH_MAX deep */
static void put_list(struct buf *b, const struct value *v)
{
        buf_put_byte(b, '[');
        for (size_t i = 0; i < v->n; i++) {
                if (i > 0)
                        buf_put_byte(b, ',');
                value_put_json(b, &v->items[i]);
        }
        buf_put_byte(b, ']');
}

/* NOLINTNEXTLINE(misc-no-recursion): at most VALUE_DEPTH_MAX deep */
void value_put_json(struct buf *b, const struct value *v)
{
        switch (v->type) {
        case VALUE_NULL:
                buf_put_str(b, "null");
                break;
        case VALUE_BOOL:
                buf_put_str(b, v->num ? "true" : "false");
                break;
        case VALUE_INT:
                buf_put_i64(b, v->num);
                break;
        case VALUE_TEXT:
        case VALUE_ERROR:
                json_put_text_lossy(b, v->text);
                break;
        case VALUE_LIST:
                put_list(b, v);
                break;
        case VALUE_MAP:
                put_map(b, v);
                break;
        }
}
