/* Filters on the side of the command line.
 *
 * Commands write their JSON into a buffer in many places; rather than teach each of them, the
 * finished document is read again and written without the rows that do not fit.  A listing is some
 * hundred kilobytes, so the second reading is not felt. */
#include "cli/filter.h"

#include <string.h>

#include "wire/json.h"

#define DEPTH_MAX 64

void filter_parse(struct filter *f, const char *text)
{
        const char *equals = text ? strchr(text, '=') : NULL;
        *f = (struct filter){0};
        if (equals && equals > text)
                f->key = slice_make(text, (size_t)(equals - text));
        f->text = slice_str(f->key.len ? equals + 1 : text);
}

bool filter_finds(struct slice hay, struct slice needle)
{
        for (size_t at = 0; at + needle.len <= hay.len; at++)
                if (slice_eq_nocase(slice_make(hay.ptr + at, needle.len), needle))
                        return true;
        return false;
}

static bool row_fits(const struct filter *f, const struct json_value *row)
{
        struct json_iter it = {0};
        struct json_value v;
        struct slice key;
        if (!f->key.len)
                return filter_finds(row->text, f->text);
        while (json_object_next(row, &it, &key, &v))
                if (slice_eq_nocase(key, f->key))
                        return filter_finds(v.text, f->text);
        return false;
}

static void put_rows(const struct filter *f, const struct json_value *list, struct buf *ret)
{
        struct json_iter it = {0};
        struct json_value v;
        buf_put_byte(ret, '[');
        while (json_array_next(list, &it, &v)) {
                if (v.type == JSON_OBJECT && !row_fits(f, &v))
                        continue;
                json_put_comma(ret);
                buf_put_slice(ret, v.text);
        }
        buf_put_byte(ret, ']');
}

static void put_members(const struct filter *f, const struct json_value *object, struct buf *ret)
{
        struct json_iter it = {0};
        struct json_value v;
        struct slice key;
        buf_put_byte(ret, '{');
        while (json_object_next(object, &it, &key, &v)) {
                json_put_comma(ret);
                buf_put_byte(ret, '"');
                buf_put_slice(ret, key);
                buf_put_str(ret, "\":");
                if (v.type == JSON_ARRAY)
                        put_rows(f, &v, ret);
                else
                        buf_put_slice(ret, v.text);
        }
        buf_put_byte(ret, '}');
}

int filter_json(const struct filter *f, struct buf *doc, struct problem *p)
{
        struct json_value root;
        struct buf kept CLEANUP(buf_release) = {0};
        if (!f->text.len)
                return OK;
        int r = json_parse(buf_slice(doc), DEPTH_MAX, &root, p);
        if (r != OK)
                return r;
        if (root.type == JSON_ARRAY)
                put_rows(f, &root, &kept);
        else if (root.type == JSON_OBJECT)
                put_members(f, &root, &kept);
        else
                buf_put_slice(&kept, root.text);
        buf_put_byte(&kept, '\n');
        buf_clear(doc);
        buf_put_slice(doc, buf_slice(&kept));
        return OK;
}
