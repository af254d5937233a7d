/* Payloads as members of a JSON object. */
#include "wire/payload.h"

#include "base/base64.h"
#include "wire/json.h"

static void put_name(struct buf *b, struct slice name, const char *rest)
{
        json_put_comma(b);
        buf_put_byte(b, '"');
        buf_put_slice(b, name);
        buf_put_str(b, rest);
}

void payload_put_json(struct buf *b, struct slice name, struct slice bytes, unsigned max_depth)
{
        if (json_is_valid(bytes, max_depth)) {
                put_name(b, name, "\":");
                buf_put_slice(b, bytes);
        } else if (slice_is_utf8(bytes)) {
                put_name(b, name, "\":");
                json_put_text(b, bytes);
                put_name(b, name, PAYLOAD_IS_TEXT "\":true");
        } else {
                put_name(b, name, PAYLOAD_BASE64 "\":\"");
                base64_put(b, bytes);
                buf_put_byte(b, '"');
        }
}
