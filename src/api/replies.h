/* What commands answer: a view for each reply of api/replies.def, and the function that tells it.
 *
 *      reply_holder(reply, &(struct holder_reply){.owner = owner, .fence = 7});
 *
 * A view only borrows.  A field that is not named in the initialiser is 0, "" or null. */
#ifndef WEIR_API_REPLIES_H
#define WEIR_API_REPLIES_H

#include "api/reply.h"

struct core;

/* The value of an INT_OR_NULL or INT_IF_KNOWN that there is not. */
#define REPLY_NONE INT64_MIN

/* The items of a list: `put` tells all n of them, and is not called when there are none. */
struct reply_items {
        size_t n;
        void (*put)(struct reply *r, const struct reply_items *items);
        const struct core *core;
        const void *of;
};

/* The kinds of fields: type in the view, when the key is there, what writes the value, schema. */
/* clang-format off */
#define REPLY_KIND_TEXT                   (struct slice,               ONE,      reply_text,          ":s")
#define REPLY_KIND_TEXT_OR_NULL           (struct slice,               ONE,      put_text_or_null,    ":s?")
#define REPLY_KIND_TEXT_IF_ANY            (struct slice,               IF_TEXT,  reply_text,          "~:s")
#define REPLY_KIND_STR                    (const char *,               ONE,      reply_str,           ":s")
#define REPLY_KIND_STR_OR_NULL            (const char *,               ONE,      put_str_or_null,     ":s?")
#define REPLY_KIND_STR_IF_ANY             (const char *,               IF_SET,   reply_str,           "~:s")
#define REPLY_KIND_WORD(words)            (const char *,               ONE,      reply_str,           ":<" words ">")
#define REPLY_KIND_WORD_IF_ANY(words)     (const char *,               IF_SET,   reply_str,           "~:<" words ">")
#define REPLY_KIND_WORD_TEXT(words)       (struct slice,               ONE,      reply_text,          ":<" words ">")
#define REPLY_KIND_INT                    (int64_t,                    ONE,      reply_int,           ":i")
#define REPLY_KIND_INT_OR_NULL            (int64_t,                    ONE,      put_int_or_null,     ":i?")
#define REPLY_KIND_INT_IF_ANY             (int64_t,                    IF_SET,   reply_int,           "~:i")
#define REPLY_KIND_INT_IF_KNOWN           (int64_t,                    IF_KNOWN, reply_int,           "~:i")
#define REPLY_KIND_BOOL                   (bool,                       ONE,      reply_bool,          ":b")
#define REPLY_KIND_BOOL_IF_NAMED          (bool,                       IF_NAMED, reply_bool,          ":b")
#define REPLY_KIND_DECIMAL                (double,                     ONE,      put_decimal,         ":s?")
#define REPLY_KIND_PAYLOAD                (struct slice,               ONE,      reply_payload,       ":p")
#define REPLY_KIND_PAYLOAD_OR_NULL        (struct slice,               ONE,      put_payload_or_null, ":p")
#define REPLY_KIND_LIST(of)               (struct reply_items,         ONE,      put_list,            ":[" of "]")
#define REPLY_KIND_LIST_IF_ANY(of)        (struct reply_items,         IF_ITEMS, put_list,            "~:[" of "]")
#define REPLY_KIND_MAP(of)                (struct reply_items,         ONE,      put_map,             ":{*:" of "}")
#define REPLY_KIND_VIEW(name)             (const struct name##_reply *, ONE,      reply_##name,        ":@" #name)
#define REPLY_KIND_VIEW_OR_NULL(name)     (const struct name##_reply *, ONE,      reply_##name,        ":@" #name "?")
/* clang-format on */
#define REPLY_TYPE_OF(kind)                      REPLY_TYPE_OF_TUPLE kind
#define REPLY_TYPE_OF_TUPLE(type, n, put, shape) type

#define REPLY(view, form, scope)                 struct view##_reply {
#define FIELD_AS(member, key, kind)              REPLY_TYPE_OF(REPLY_KIND_##kind) member;
#define FLAT(member, view)                       struct view##_reply member;
#define END(view)                                                                                  \
        }                                                                                          \
        ;                                                                                          \
        void reply_##view(struct reply *r, const struct view##_reply *v);
#define SHAPE(name, text, scope)
#include "api/replies.def"

/* A number as text, since RESP has no fractions that every client reads; null when it is not
 * finite. */
void reply_decimal(struct reply *reply, double value, int digits);

/* ---- the schemas ---- */

/* What a reply looks like in JSON, as text (door/shapes.h has the notation). */
struct reply_shape {
        const char *name, *text;
        bool is_component; /* OpenAPI has it under its name; else it stands where it is used */
        bool is_wrapped;   /* RESP has only the value of its one key */
};

extern const struct reply_shape reply_shapes[];
extern const size_t reply_shapes_len;

const struct reply_shape *reply_shape_find(struct slice name); /* NULL when there is none */

#endif
