/* Any bytes through the JSON reader and writer.
 *
 * What is refused must be refused with a place inside the document.  What is taken is walked to
 * the last value, written again from what was read, and read once more: both must say the same.
 * Every input is read from memory of exactly its size, so that a byte too far is seen. */
#include <stdio.h>
#include <stdlib.h>

#include "wire/json.h"

#define DEPTH 24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The values that are open while a document is walked. */
struct level {
        struct json_value value;
        struct json_iter it;
};

static void put_scalar(struct buf *b, const struct json_value *v, struct arena *a)
{
        struct slice s;
        int64_t n;
        bool is;

        if (v->type == JSON_STRING) {
                ASSERT(json_to_text(v, a, &s) == OK);
                ASSERT(slice_is_utf8(s));
                json_put_text(b, s);
        } else if (json_to_i64(v, &n)) {
                buf_put_i64(b, n);
        } else if (json_to_bool(v, &is)) {
                buf_put_str(b, is ? "true" : "false");
        } else {
                ASSERT(v->type == JSON_NULL || v->type == JSON_NUMBER);
                buf_put_slice(b, v->text);
        }
}

/* A key's meaning must be what json_key_is says it is. */
static void put_key(struct buf *b, struct slice raw, struct arena *a)
{
        struct slice key;

        ASSERT(json_unescape(raw, a, &key) == OK);
        ASSERT(key.len == raw.len || memchr(raw.ptr, '\\', raw.len));
        if (!memchr(key.ptr, '\\', key.len))
                ASSERT(json_key_is(raw, key));
        json_put_text(b, key);
        buf_put_byte(b, ':');
}

static void check_within(const struct json_value *outer, const struct json_value *inner)
{
        ASSERT(inner->text.len > 0);
        ASSERT(inner->text.ptr > outer->text.ptr);
        ASSERT(inner->text.ptr + inner->text.len < outer->text.ptr + outer->text.len);
        ASSERT(json_is_valid(inner->text, DEPTH));
}

/* Writes the document anew, without space, and returns how many values it holds. */
static size_t rewrite(const struct json_value *root, struct buf *b, struct arena *a)
{
        struct level levels[DEPTH + 1];
        size_t depth = 0, n = 1;
        struct json_value v = *root;
        struct slice key;

        for (;;) {
                if (v.type == JSON_ARRAY || v.type == JSON_OBJECT) {
                        ASSERT(depth < DEPTH);
                        levels[depth++] = (struct level){v, {0}};
                        buf_put_byte(b, v.type == JSON_ARRAY ? '[' : '{');
                } else {
                        put_scalar(b, &v, a);
                }
                for (;; depth--) {
                        if (depth == 0)
                                return n;
                        struct level *l = &levels[depth - 1];
                        bool is_object = l->value.type == JSON_OBJECT;
                        if (is_object ? json_object_next(&l->value, &l->it, &key, &v)
                                      : json_array_next(&l->value, &l->it, &v)) {
                                check_within(&l->value, &v);
                                json_put_comma(b);
                                if (is_object)
                                        put_key(b, key, a);
                                n++;
                                break;
                        }
                        buf_put_byte(b, is_object ? '}' : ']');
                }
        }
}

static void check_taken(const struct json_value *root, struct slice doc)
{
        struct json_value again;
        struct arena a;
        struct buf first, second;

        ASSERT(slice_is_utf8(doc));
        ASSERT(root->text.ptr >= doc.ptr);
        ASSERT(root->text.ptr + root->text.len <= doc.ptr + doc.len);
        arena_init(&a, 0);
        buf_init(&first, 0);
        buf_init(&second, 0);
        size_t n = rewrite(root, &first, &a);
        ASSERT(json_parse(buf_slice(&first), DEPTH, &again, NULL) == OK);
        ASSERT(again.type == root->type && again.text.len == first.len);
        ASSERT(rewrite(&again, &second, &a) == n);
        ASSERT(slice_eq(buf_slice(&first), buf_slice(&second)));
        buf_release(&first);
        buf_release(&second);
        arena_release(&a);
}

static void check_refused(const struct problem *p, struct slice doc)
{
        const char *at = strstr(p->detail, " at offset ");
        size_t offset, line = 1, column;

        ASSERT(p->err == ERR_SYNTAX && at != NULL);
        /* The first line is not named. */
        if (sscanf(at, " at offset %zu (line %zu, column %zu)", &offset, &line, &column) == 3)
                ASSERT(line >= 2);
        else
                ASSERT(sscanf(at, " at offset %zu (column %zu)", &offset, &column) == 2);
        ASSERT(offset <= doc.len && column >= 1 && line + column <= offset + 2);
        ASSERT((line > 1) == (offset > 0 && memchr(doc.ptr, '\n', offset) != NULL));
        /* What lies before the place cannot be the reason. */
        ASSERT(!json_is_valid(doc, JSON_DEPTH_MAX) || strstr(p->detail, "deeper"));
}

/* Any bytes at all can be written as a string, and come back when they were UTF-8. */
static void check_written(struct slice bytes)
{
        struct json_value v;
        struct slice back;
        struct arena a;
        struct buf b;

        arena_init(&a, 0);
        buf_init(&b, 0);
        json_put_text_lossy(&b, bytes);
        ASSERT(json_parse(buf_slice(&b), 0, &v, NULL) == OK);
        ASSERT(json_to_text(&v, &a, &back) == OK);
        ASSERT(slice_eq(back, bytes) == slice_is_utf8(bytes));
        buf_release(&b);
        arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct problem p = {0};
        struct json_value root;
        char *copy = malloc(size ? size : 1);

        if (!copy)
                return 0;
        if (size)
                memcpy(copy, data, size);
        struct slice doc = slice_make(copy, size);
        int err = json_parse(doc, DEPTH, &root, &p);
        ASSERT((err == OK) == json_is_valid(doc, DEPTH));
        if (err == OK)
                check_taken(&root, doc);
        else
                check_refused(&p, doc);
        check_written(doc);
        free(copy);
        return 0;
}
