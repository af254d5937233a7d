/* See json_canon.h.  The cost is that of parsing, and of sorting the members of each object. */
#include "wire/json_canon.h"

#include <stdlib.h>
#include <string.h>

#include "wire/json.h"

struct canon {
        struct buf *to;
        struct arena arena; /* unescaped texts, and members while they are sorted */
};

struct member {
        struct slice name;
        struct json_value value;
        size_t at; /* its place in the document: members of the same name keep their order */
};

static bool put_value(struct canon *c, const struct json_value *v);

static int compare_members(const void *a, const void *b)
{
        const struct member *x = a, *y = b;
        size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
        int order = n ? memcmp(x->name.ptr, y->name.ptr, n) : 0;
        if (order)
                return order;
        if (x->name.len != y->name.len)
                return x->name.len < y->name.len ? -1 : 1;
        return x->at < y->at ? -1 : 1;
}

/* NOLINTNEXTLINE(misc-no-recursion): no deeper than JSON_CANON_DEPTH */
static bool put_object(struct canon *c, const struct json_value *object)
{
        struct json_iter it = {0};
        struct slice raw;
        size_t n = 0, count = json_count(object);
        struct member *members = arena_array(&c->arena, count ? count : 1, sizeof(*members));
        if (!members)
                return false;
        for (struct json_value v; json_object_next(object, &it, &raw, &v); n++) {
                members[n] = (struct member){.value = v, .at = n};
                if (json_unescape(raw, &c->arena, &members[n].name) != OK)
                        return false;
        }
        qsort(members, n, sizeof(*members), compare_members);
        buf_put_byte(c->to, '{');
        for (size_t i = 0; i < n; i++) {
                json_put_comma(c->to);
                json_put_text(c->to, members[i].name);
                buf_put_byte(c->to, ':');
                if (!put_value(c, &members[i].value))
                        return false;
        }
        buf_put_byte(c->to, '}');
        return true;
}

/* NOLINTNEXTLINE(misc-no-recursion): no deeper than JSON_CANON_DEPTH */
static bool put_array(struct canon *c, const struct json_value *array)
{
        struct json_iter it = {0};
        buf_put_byte(c->to, '[');
        for (struct json_value v; json_array_next(array, &it, &v);) {
                json_put_comma(c->to);
                if (!put_value(c, &v))
                        return false;
        }
        buf_put_byte(c->to, ']');
        return true;
}

/* One that does not fit is refused: two of them could not be told apart. */
static bool read_exponent(struct slice text, int64_t *ret)
{
        *ret = 0;
        if (text.len && text.ptr[0] == '+')
                text = slice_make(text.ptr + 1, text.len - 1);
        return !text.len || (slice_to_i64(text, ret) && *ret > -(1LL << 60) && *ret < 1LL << 60);
}

/* Whole numbers up to this many digits are written out, as most documents have them already. */
#define DIGITS_MAX 40

/* The digits of a number without its point and without zeros in front; *ret_scale is the power of
 * ten that the point stands for. */
static void put_digits(struct buf *to, struct slice digits, int64_t *ret_scale)
{
        size_t from = to->len;
        bool is_fraction = false;
        *ret_scale = 0;
        for (size_t i = 0; i < digits.len; i++) {
                if (digits.ptr[i] == '.') {
                        is_fraction = true;
                        continue;
                }
                *ret_scale -= is_fraction;
                if (digits.ptr[i] != '0' || to->len > from)
                        buf_put_byte(to, (uint8_t)digits.ptr[i]);
        }
}

/* Without zeros at either end, and with a power of ten where that is needed: "1.50" is 15e-1. */
static bool put_number(struct buf *to, struct slice text)
{
        bool is_negative = text.ptr[0] == '-';
        size_t from = to->len, begin = is_negative, end = begin;
        int64_t exponent, scale;
        while (end < text.len && text.ptr[end] != 'e' && text.ptr[end] != 'E')
                end++;
        size_t power = end + (end < text.len);
        if (!read_exponent(slice_make(text.ptr + power, text.len - power), &exponent))
                return false;
        if (is_negative)
                buf_put_byte(to, '-');
        size_t first = to->len;
        put_digits(to, slice_make(text.ptr + begin, end - begin), &scale);
        if (to->failed)
                return false;
        if (to->len == first) { /* zero, with either sign */
                to->len = from;
                buf_put_byte(to, '0');
                return true;
        }
        for (exponent += scale; to->ptr[to->len - 1] == '0'; exponent++)
                to->len--;
        if (exponent >= 0 && (int64_t)(to->len - first) + exponent <= DIGITS_MAX) {
                while (exponent-- > 0)
                        buf_put_byte(to, '0');
        } else {
                buf_put_byte(to, 'e');
                buf_put_i64(to, exponent);
        }
        return true;
}

/* NOLINTNEXTLINE(misc-no-recursion): no deeper than JSON_CANON_DEPTH */
static bool put_value(struct canon *c, const struct json_value *v)
{
        struct slice text;
        switch (v->type) {
        case JSON_OBJECT:
                return put_object(c, v);
        case JSON_ARRAY:
                return put_array(c, v);
        case JSON_NUMBER:
                return put_number(c->to, v->text);
        case JSON_STRING:
                if (json_to_text(v, &c->arena, &text) != OK)
                        return false;
                json_put_text(c->to, text);
                return true;
        case JSON_NULL:
        case JSON_BOOL:
                break;
        }
        buf_put_slice(c->to, v->text);
        return true;
}

bool json_canon(struct slice doc, struct buf *to)
{
        struct json_value root;
        struct problem ignored; /* only whether it is JSON */
        struct canon c = {.to = to};
        if (json_parse(doc, JSON_CANON_DEPTH, &root, &ignored) != OK)
                return false;
        /* Names and texts are no longer than the document; a member takes 56 bytes, and 4 bytes of
         * the document are the shortest. */
        arena_init(&c.arena, doc.len * 32 + 64 * KIB);
        bool is_done = put_value(&c, &root);
        arena_release(&c.arena);
        return is_done && !to->failed;
}
