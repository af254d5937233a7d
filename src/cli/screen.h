/* What people see: aligned tables, colours on a terminal only, and never a byte from a job that
 * a terminal would obey. */
#ifndef WEIR_CLI_SCREEN_H
#define WEIR_CLI_SCREEN_H

#include "base/buf.h"
#include "cli/filter.h"

enum tone { TONE_PLAIN, TONE_BOLD, TONE_DIM, TONE_RED, TONE_GREEN, TONE_YELLOW, TONE_BLUE };

struct screen {
        bool has_tones;       /* colours may be used */
        size_t width;         /* columns of the terminal; 0 = do not cut */
        struct filter filter; /* rows of tables that are printed; zeroed: all */
};

/* For standard output: tones unless NO_COLOR is set or TERM is "dumb". */
void screen_init(struct screen *s);

void screen_put_toned(const struct screen *s, struct buf *b, enum tone tone, struct slice text);

/* Appends text with everything a terminal might obey made visible: control characters as \n or
 * \x1b, marks that turn the writing direction as \u202e, bytes that are no UTF-8 as \xff. */
void text_put_safe(struct buf *b, struct slice text);
/* The same, but line feeds stay and each new line is indented. */
void text_put_safe_lines(struct buf *b, struct slice text, size_t indent);
size_t text_width(struct slice text);            /* terminal columns of safe text */
struct slice text_take_line(struct slice *rest); /* the first line, without its end */

struct value;

/* How a field of an answer is written for people; from AS_INT on, columns are right-aligned. */
enum field_as {
        AS_TEXT,
        AS_OR_DASH,  /* a text; "-" when it is empty */
        AS_MOMENT,   /* Unix milliseconds: 2026-11-15 10:00:05 +0100 */
        AS_RELATIVE, /* Unix milliseconds: "in 5 min", "3 s ago"; empty when 0 */
        AS_INT,
        AS_DURATION, /* milliseconds */
        AS_LEFT,     /* milliseconds that are left, rounded up */
        AS_WAIT,     /* the same; "now" when 0 */
        AS_AGE,      /* how long ago that was, in Unix milliseconds; empty when 0 */
};

/* A column of a table.  A table whose rows are answers of the server says here where a cell comes
 * from (table_add_row in cli/fields.h); others have a title and an alignment only. */
struct column {
        const char *title;
        bool is_right;   /* numbers */
        bool may_shrink; /* cut with an ellipsis when the terminal is too narrow */
        enum tone tone;
        const char *key; /* of the field */
        enum field_as as;
        /* Instead of key and as: writes the cell. */
        void (*put)(struct buf *b, const struct value *row, int64_t now_ms);
        enum tone (*tone_of)(const struct value *row); /* instead of tone */
};

struct cell;

struct table {
        const struct column *columns;
        size_t n_columns;
        struct cell *cells; /* row by row */
        size_t n_cells, cap;
        struct buf text; /* of all cells */
        size_t *widths;  /* of the parts that were printed; NULL: none was */
};

void table_init(struct table *t, const struct column *columns, size_t n_columns);
void table_release(struct table *t);
void table_add(struct table *t, struct slice text, enum tone tone); /* the next cell; made safe */
void table_add_int(struct table *t, int64_t v);
void table_print(const struct table *t, const struct screen *s, struct buf *ret);
/* A table too long to be collected: prints what was added and forgets it, the titles with the first
 * part only.  Columns keep the widths that they have got, or get wider. */
void table_print_part(struct table *t, const struct screen *s, struct buf *ret);

#endif
