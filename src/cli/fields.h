/* Fields of the server's answers, and how people see them: cells of a table, lines of a "show".
 *
 * One table of columns or lines per noun says what is shown and how. */
#ifndef WEIR_CLI_FIELDS_H
#define WEIR_CLI_FIELDS_H

#include "cli/screen.h"
#include "wire/resp_reply.h"

/* Of a map; 0, false and empty when the field is missing. */
int64_t field_int(const struct value *v, const char *key);
bool field_is_true(const struct value *v, const char *key);
struct slice field_text(const struct value *v, const char *key);
bool field_is(const struct value *v, const char *key, const char *text); /* is its text that? */
size_t list_len(const struct value *v);                                  /* 0 when it is no list */
const struct value *list_find(const struct value *list, struct slice name); /* by "name", or NULL */
enum tone level_tone(struct slice level); /* normal, elevated, critical, unknown */
/* Does the answer say that the feature is disabled ("enabled": false)? */
bool is_switched_off(const struct value *v);

/* One row of a table whose columns have a key or put(); cells that the caller has added before are
 * its first ones. */
void table_add_row(struct table *t, const struct value *row, int64_t now_ms);
/* A table of these rows; nothing when there are none. */
void table_print_rows(const struct screen *s, struct buf *out, const struct column *columns,
                      size_t n_columns, const struct value *rows);

/* A line of a "show": a label, and one field. */
struct field_line {
        const char *label;
        const char *key;
        enum field_as as;
        const char *none; /* what 0 or an empty text is written as; NULL: no line then */
        void (*put)(struct buf *b, const struct value *v,
                    int64_t now_ms); /* instead of key and as */
};

/* Labels are dim and take `width` columns after two spaces. */
void put_label(const struct screen *s, struct buf *out, int width, const char *label);
void put_field_lines(const struct screen *s, struct buf *out, int width,
                     const struct field_line *lines, const struct value *v);
/* "2026-11-15 10:00:05 +0100 (3 s ago)" and the end of the line. */
void put_moment_line(struct buf *out, int64_t at_ms, int64_t now_ms);

#endif
