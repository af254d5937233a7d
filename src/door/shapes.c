/* See shapes.h.
 *
 * The reader goes over the text once and writes the schema as it goes; it looks ahead only to learn
 * whether a '|' or a '?' follows.  Shapes are constants, so a mistake in one is found by the first
 * who reads it: the unit test reads them all. */
#include "door/shapes.h"

#include <string.h>

#include "api/replies.h"
#include "wire/json.h"

/* Deeper than any answer is, far less than the stack could take. */
#define DEPTH_MAX 16

struct reading {
        const char *at;
        struct buf *b;
        unsigned depth;
};

static bool take(struct reading *r, char c)
{
        if (*r->at != c)
                return false;
        r->at++;
        return true;
}

static void need(struct reading *r, char c)
{
        ASSERT(*r->at == c);
        r->at++;
}

/* The bytes up to one of these. */
static struct slice take_word(struct reading *r, const char *ends)
{
        size_t len = strcspn(r->at, ends);
        ASSERT(len && r->at[len]);
        struct slice word = slice_make(r->at, len);
        r->at += len;
        return word;
}

/* Where the base that begins at `at` ends: at its '?', at a '|', or at what is around it. */
static const char *end_of_base(const char *at)
{
        unsigned open = 0;
        for (; *at; at++) {
                if (strchr("{[<", *at))
                        open++;
                else if (open && strchr("}]>", *at))
                        open--;
                else if (!open && strchr("?| }]", *at))
                        return at;
        }
        ASSERT(!open);
        return at;
}

static void put_type(struct buf *b, const char *type, bool is_nullable)
{
        json_put_key(b, "type");
        if (is_nullable)
                buf_put_byte(b, '[');
        json_put_text(b, slice_str(type));
        if (is_nullable)
                buf_put_str(b, ",\"null\"]");
}

static void read_choice(struct reading *r, bool is_nullable)
{
        put_type(r->b, "string", is_nullable);
        json_put_key(r->b, "enum");
        buf_put_byte(r->b, '[');
        (void)take(r, ','); /* a list that a macro made begins with one */
        do {
                json_put_comma(r->b);
                json_put_text(r->b, take_word(r, ",>"));
        } while (take(r, ','));
        need(r, '>');
        buf_put_str(r->b, is_nullable ? ",null]" : "]");
}

static void read_type(struct reading *r);

/* A reading of the members of a reply that has a name. */
static struct reading members_of(const struct reading *r, struct slice name)
{
        const struct reply_shape *shape = reply_shape_find(name);
        ASSERT(shape && shape->text[0] == '{' && r->depth < DEPTH_MAX);
        return (struct reading){shape->text + 1, r->b, r->depth + 1};
}

/* A payload that is no JSON has a name of its own (wire/payload.h), so none of them is needed. */
static void put_payload(struct buf *b, struct slice key)
{
        static const char *const rows[][2] = {{"\":", "{}"},
                                              {"_is_text\":", "{\"type\":\"boolean\"}"},
                                              {"_base64\":", "{\"type\":\"string\"}"}};
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                json_put_comma(b);
                buf_put_byte(b, '"');
                buf_put_slice(b, key);
                buf_put_str(b, rows[i][0]);
                buf_put_str(b, rows[i][1]);
        }
}

/* The members of an object: called a second time for the names alone of those that are needed.
 * Around it and in it, read_type() and members_of() hold the depth below DEPTH_MAX. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static void read_members(struct reading *r, bool is_needed_only)
{
        while (*r->at != '}') {
                struct slice key = take_word(r, "~:");
                bool is_optional = take(r, '~');
                need(r, ':');
                if (take(r, '+')) {
                        struct reading more = members_of(r, take_word(r, " }"));
                        read_members(&more, is_needed_only);
                } else if (take(r, 'p')) {
                        if (!is_needed_only)
                                put_payload(r->b, key);
                } else if (is_needed_only) {
                        if (!is_optional) {
                                json_put_comma(r->b);
                                json_put_text(r->b, key);
                        }
                        r->at = end_of_base(r->at);
                        while (*r->at == '?' || *r->at == '|')
                                r->at = end_of_base(r->at + 1);
                } else {
                        json_put_comma(r->b);
                        json_put_text(r->b, key);
                        buf_put_byte(r->b, ':');
                        read_type(r);
                }
                ASSERT(*r->at == '}' || *r->at == ' ');
                while (take(r, ' ')) {
                }
        }
}

/* NOLINTNEXTLINE(misc-no-recursion): as above */
static void read_object(struct reading *r, bool is_nullable)
{
        put_type(r->b, "object", is_nullable);
        if (take(r, '*')) {
                need(r, ':');
                json_put_key(r->b, "additionalProperties");
                read_type(r);
                need(r, '}');
                return;
        }
        json_put_key(r->b, "additionalProperties");
        buf_put_str(r->b, "false");
        json_put_key(r->b, "properties");
        buf_put_byte(r->b, '{');
        const char *members = r->at;
        read_members(r, false);
        buf_put_byte(r->b, '}');
        json_put_key(r->b, "required");
        buf_put_byte(r->b, '[');
        r->at = members;
        read_members(r, true);
        buf_put_byte(r->b, ']');
        need(r, '}');
}

/* NOLINTNEXTLINE(misc-no-recursion): as above */
static void read_reference(struct reading *r, bool is_nullable)
{
        const char *end = end_of_base(r->at);
        struct slice name = slice_make(r->at, (size_t)(end - r->at));
        const struct reply_shape *shape = reply_shape_find(name);
        ASSERT(shape);
        r->at = end;
        if (!shape->is_component) {
                struct reading members = members_of(r, name);
                read_object(&members, is_nullable);
                return;
        }
        if (is_nullable)
                buf_put_str(r->b, "\"oneOf\":[{");
        buf_put_str(r->b, "\"$ref\":\"#/components/schemas/");
        buf_put_slice(r->b, name);
        buf_put_byte(r->b, '"');
        if (is_nullable)
                buf_put_str(r->b, "},{\"type\":\"null\"}]");
}

/* NOLINTNEXTLINE(misc-no-recursion): as above */
static void read_base(struct reading *r)
{
        bool is_nullable = *end_of_base(r->at) == '?';
        buf_put_byte(r->b, '{');
        switch (*r->at++) {
        case 's':
                put_type(r->b, "string", is_nullable);
                break;
        case 'i':
                put_type(r->b, "integer", is_nullable);
                json_put_key(r->b, "format");
                buf_put_str(r->b, "\"int64\"");
                break;
        case 'b':
                put_type(r->b, "boolean", is_nullable);
                break;
        case 'j': /* no schema: anything */
                break;
        case '<':
                read_choice(r, is_nullable);
                break;
        case '[':
                put_type(r->b, "array", is_nullable);
                json_put_key(r->b, "items");
                read_type(r);
                need(r, ']');
                break;
        case '{':
                read_object(r, is_nullable);
                break;
        case '@':
                read_reference(r, is_nullable);
                break;
        default:
                ASSERT(!"a letter that means nothing in a shape");
        }
        (void)take(r, '?');
        buf_put_byte(r->b, '}');
}

/* NOLINTNEXTLINE(misc-no-recursion): at most DEPTH_MAX deep */
static void read_type(struct reading *r)
{
        ASSERT(r->depth < DEPTH_MAX);
        r->depth++;
        const char *end = end_of_base(r->at);
        bool is_one_of = *end == '|' || (*end == '?' && end[1] == '|');
        if (is_one_of)
                buf_put_str(r->b, "{\"oneOf\":[");
        read_base(r);
        while (take(r, '|')) {
                json_put_comma(r->b);
                read_base(r);
        }
        if (is_one_of)
                buf_put_str(r->b, "]}");
        r->depth--;
}

void shape_put_schema(struct buf *b, const char *text)
{
        struct reading r = {text, b, 0};
        read_type(&r);
        ASSERT(!*r.at);
}
