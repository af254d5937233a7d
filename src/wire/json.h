/* JSON, read in place and written into a buffer.
 *
 * Reading is two steps.  json_parse() checks the whole document once: RFC 8259 and nothing more
 * (no comments, no trailing commas, no byte order mark), well-formed UTF-8, no lone surrogates in
 * \u escapes, no deeper than the caller allows.  After that, values are walked without checking
 * again: a value is its type and its exact bytes, borrowed from the document.  Nothing is
 * allocated, except by json_to_text() for a string with escapes.
 *
 *      struct json_value root, v;
 *      struct json_iter it = {0};
 *      struct slice key;
 *      int err = json_parse(body, 32, &root, problem);
 *      ...
 *      while (json_object_next(&root, &it, &key, &v))
 *              if (json_key_is(key, SLICE_LIT("priority")) && json_to_i64(&v, &n))
 *                      ...
 *
 * Only values that came from json_parse() may be walked.  Asking a value for what it is not is
 * harmless: an iteration over a number ends at once, json_to_i64() of a string is false.
 *
 * A key that occurs twice is well-formed JSON, and seen twice here: who binds an object to
 * parameters refuses the second value of one it has already, and names it does not know. */
#ifndef WEIR_WIRE_JSON_H
#define WEIR_WIRE_JSON_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum json_type {
        JSON_NULL,
        JSON_BOOL,
        JSON_NUMBER,
        JSON_STRING,
        JSON_ARRAY,
        JSON_OBJECT,
};

struct json_value {
        enum json_type type;
        struct slice text; /* exact bytes, quotes and brackets included, no space around */
};

#define JSON_DEPTH_MAX 512 /* the largest max_depth that may be asked for */

/* max_depth counts open arrays and objects: 0 allows a number, 1 also [1], 2 also [[1]].  The
 * error is ERR_SYNTAX; its detail says what was expected and found, at which byte offset (from
 * 0), line and column (from 1, in characters). */
int json_parse(struct slice doc, unsigned max_depth, struct json_value *ret,
               struct problem *p) MUST_CHECK;
bool json_is_valid(struct slice doc, unsigned max_depth);

/* Zeroed before the first call; false at the end. */
struct json_iter {
        const char *at;
};
/* The key is raw, what lies between its quotes: json_key_is() compares it, json_unescape() reads
 * it. */
bool json_object_next(const struct json_value *object, struct json_iter *it, struct slice *ret_key,
                      struct json_value *ret);
bool json_array_next(const struct json_value *array, struct json_iter *it, struct json_value *ret);
size_t json_count(const struct json_value *v); /* elements or members; walks them */
/* The first member of that name; false when there is none. */
bool json_get(const struct json_value *object, const char *name, struct json_value *ret);
bool json_key_is_slow(struct slice raw_key, struct slice name);
/* Whether the key means this name, which must not hold a backslash. */
static inline bool json_key_is(struct slice raw_key, struct slice name)
{
        if (raw_key.len == name.len)
                return slice_eq(raw_key, name);
        /* Escapes make it longer, and one in front is the only way to begin differently. */
        if (raw_key.len < name.len || name.len == 0 ||
            (raw_key.ptr[0] != '\\' && raw_key.ptr[0] != name.ptr[0]))
                return false;
        return json_key_is_slow(raw_key, name);
}

/* Written as an integer (no '.', no 'e') and within int64_t; "-0" is 0. */
bool json_to_i64(const struct json_value *v, int64_t *ret);
bool json_to_bool(const struct json_value *v, bool *ret);
/* What the string says: borrowed from the document when it has no escapes, else from the arena.
 * It may hold any character, NUL too.  ERR_BADARG when it is no string, ERR_NOMEM when the arena
 * is full. */
int json_to_text(const struct json_value *v, struct arena *arena, struct slice *ret) MUST_CHECK;
int json_unescape(struct slice raw, struct arena *arena, struct slice *ret) MUST_CHECK;

const char *json_type_name(enum json_type type); /* "a string", "an object": for sentences */

/* Writing.  Numbers go through buf_put_i64, ready JSON through buf_put_slice.  The comma is put
 * by what follows it, which looks at the last byte written: after a '{' or '[' comes none. */
void json_put_comma(struct buf *b);                 /* before an element of an array */
void json_put_key(struct buf *b, const char *name); /* comma if needed, "name": */
void json_put_text(struct buf *b, struct slice s);  /* "..."; s must be UTF-8 */
/* The same for bytes of unknown origin: what is not UTF-8 becomes U+FFFD. */
void json_put_text_lossy(struct buf *b, struct slice s);

#endif
