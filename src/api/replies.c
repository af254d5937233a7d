/* The functions that write the views, and the texts of their schemas.
 *
 * Both come from api/replies.def, which is read once for each of them.  The functions are
 * straight-line code: the form and the presence of a field are constants there, so a reply costs
 * what it would cost if its calls were written out. */
#include "api/replies.h"

#include <math.h>
#include <stdio.h>

#include "gate/check.h"
#include "state/job_view.h"

#define DECIMAL_DIGITS 10

/* ---- values ---- */

/* A reply may have thousands of numbers, mostly whole ones: those go without printf. */
static struct slice whole_text(uint64_t v, bool is_negative, char *end)
{
        char *at = end;
        do
                *--at = (char)('0' + v % 10);
        while (v /= 10);
        if (is_negative)
                *--at = '-';
        return slice_make(at, (size_t)(end - at));
}

void reply_decimal(struct reply *reply, double value, int digits)
{
        char text[40];
        if (!isfinite(value)) {
                reply_null(reply);
                return;
        }
        double size = fabs(value);
        if (size < 1e15 && (double)(uint64_t)size == size) {
                reply_text(reply, whole_text((uint64_t)size, value < 0, text + sizeof(text)));
                return;
        }
        (void)snprintf(text, sizeof(text), "%.*g", digits, value);
        reply_str(reply, text);
}

static inline void put_decimal(struct reply *r, double value)
{
        reply_decimal(r, value, DECIMAL_DIGITS);
}

static inline void put_text_or_null(struct reply *r, struct slice text)
{
        if (text.len)
                reply_text(r, text);
        else
                reply_null(r);
}

static inline void put_str_or_null(struct reply *r, const char *text)
{
        if (text)
                reply_str(r, text);
        else
                reply_null(r);
}

static inline void put_int_or_null(struct reply *r, int64_t value)
{
        if (value != REPLY_NONE)
                reply_int(r, value);
        else
                reply_null(r);
}

static inline void put_payload_or_null(struct reply *r, struct slice bytes)
{
        if (bytes.len)
                reply_payload(r, bytes);
        else
                reply_null(r);
}

static inline void put_list(struct reply *r, struct reply_items items)
{
        reply_list(r, items.n);
        if (items.n)
                items.put(r, &items);
        reply_end(r);
}

static inline void put_map(struct reply *r, struct reply_items items)
{
        reply_map(r, items.n);
        if (items.n)
                items.put(r, &items);
        reply_end(r);
}

/* ---- views ---- */

#define IS_COMPONENT true
#define IS_INLINE    false

enum reply_form { FORM_map, FORM_record, FORM_wrap };

static inline void begin(struct reply *r, enum reply_form form, size_t n)
{
        if (form == FORM_map)
                reply_map(r, n);
        else if (form == FORM_record)
                reply_record(r, n);
}

static inline void put_key(struct reply *r, enum reply_form form, const char *key)
{
        if (form == FORM_wrap)
                reply_wrap(r, key);
        else
                reply_key(r, key);
}

static inline void end(struct reply *r, enum reply_form form)
{
        if (form != FORM_wrap)
                reply_end(r);
}

/* How many keys a field has in this reply. */
#define ONE(r, field)      1
#define IF_TEXT(r, field)  ((field).len > 0)
#define IF_SET(r, field)   ((field) != 0)
#define IF_KNOWN(r, field) ((field) != REPLY_NONE)
#define IF_NAMED(r, field) ((r)->ops->has_names)
#define IF_ITEMS(r, field) ((field).n > 0)

/* clang-format off */
#define N_OF(kind)                      N_OF_TUPLE kind
#define N_OF_TUPLE(type, n, put, shape) n
#define PUT_OF(kind)                    PUT_OF_TUPLE kind
#define PUT_OF_TUPLE(type, n, put, shape) put
#define SHAPE_OF(kind)                  SHAPE_OF_TUPLE kind
#define SHAPE_OF_TUPLE(type, n, put, shape) shape

#define REPLY(view, form, scope)                                                                   \
        enum { view##_form = FORM_##form, view##_is_component = IS_##scope };                      \
        static inline size_t view##_count(const struct reply *r, const struct view##_reply *v)     \
        {                                                                                          \
                (void)r;                                                                           \
                (void)v;                                                                           \
                return 0
#define FIELD_AS(member, key, kind) + N_OF(REPLY_KIND_##kind)(r, v->member)
#define FLAT(member, view)          + view##_count(r, &v->member)
#define END(view)                   ; }
#define SHAPE(name, text, scope)
#include "api/replies.def"

#define REPLY(view, form, scope)                                                                   \
        static inline void view##_fields(struct reply *r, const struct view##_reply *v)            \
        {                                                                                          \
                const enum reply_form of = FORM_##form;
#define FIELD_AS(member, key, kind)                                                                \
                if (N_OF(REPLY_KIND_##kind)(r, v->member)) {                                       \
                        put_key(r, of, key);                                                       \
                        PUT_OF(REPLY_KIND_##kind)(r, v->member);                                   \
                }
#define FLAT(member, view)       view##_fields(r, &v->member);
#define END(view)                                                                                  \
        }                                                                                          \
        void reply_##view(struct reply *r, const struct view##_reply *v)                           \
        {                                                                                          \
                if (!v) {                                                                          \
                        reply_null(r);                                                             \
                        return;                                                                    \
                }                                                                                  \
                begin(r, (enum reply_form)view##_form, view##_count(r, v));                        \
                view##_fields(r, v);                                                               \
                end(r, (enum reply_form)view##_form);                                              \
        }
#define SHAPE(name, text, scope)
#include "api/replies.def"

/* ---- schemas ---- */

#define JOIN_NAME(id, name, ...) "," name
#define STATUS JOB_STATUS_MAP(JOIN_NAME)
#define REASON CHECK_REASON_MAP(JOIN_NAME)
#define TIER   TIER_MAP(JOIN_NAME)
#define LEVEL  LEVEL_MAP(JOIN_NAME)
#define MODE   MODE_MAP(JOIN_NAME)
#define BREAKER "closed,open,half-open"
#define SCHEDULE "active,paused,stopped,done"

#define REPLY(view, form, scope)    {#view, "{"
#define FIELD_AS(member, key, kind) key SHAPE_OF(REPLY_KIND_##kind) " "
#define FLAT(member, view)          #member ":+" #view " "
#define END(view)                   "}", view##_is_component, (int)view##_form == FORM_wrap},
#define SHAPE(name, text, scope)    {#name, text, IS_##scope, false},
const struct reply_shape reply_shapes[] = {
#include "api/replies.def"
};
/* clang-format on */
const size_t reply_shapes_len = ARRAY_LEN(reply_shapes);

const struct reply_shape *reply_shape_find(struct slice name)
{
        for (size_t i = 0; i < ARRAY_LEN(reply_shapes); i++)
                if (slice_eq(slice_str(reply_shapes[i].name), name))
                        return &reply_shapes[i];
        return NULL;
}
