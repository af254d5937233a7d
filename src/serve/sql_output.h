/* The rows of a statement on standard output: an aligned table for people, CSV (RFC 4180), or a
 * JSON array of objects.  Rows are written as they come; memory is bounded by a few hundred of them
 * and by the largest. */
#ifndef WEIR_SERVE_SQL_OUTPUT_H
#define WEIR_SERVE_SQL_OUTPUT_H

#include <sqlite3.h>

#include "base/err.h"
#include "cli/screen.h"

enum sql_format { SQL_TABLE, SQL_CSV, SQL_JSON };

struct sql_output {
        enum sql_format format;
        struct screen screen;
        /* Before a write that would wait for the reader of the output; may be NULL. */
        void (*before_wait)(void *ctx);
        void *ctx;
        /* Its own. */
        struct buf text; /* made and not written yet */
        struct table table;
        struct column *columns;
        struct buf titles;
        uint64_t rows; /* of this statement */
};

/* For standard output.  before_wait and ctx are set afterwards. */
void sql_output_init(struct sql_output *o, enum sql_format format);
void sql_output_release(struct sql_output *o);

/* The statement is prepared, and at a row for sql_output_row().  ERR_IO, ERR_STOPPING: a signal
 * came while the reader of the output was waited for. */
void sql_output_begin(struct sql_output *o, sqlite3_stmt *stmt);
int sql_output_row(struct sql_output *o, sqlite3_stmt *stmt, struct problem *p) MUST_CHECK;
int sql_output_end(struct sql_output *o, struct problem *p) MUST_CHECK;
/* Instead of the end, after an error: rows that were made are written, if they can be, but a JSON
 * array stays open, so that half of an answer does not look like all of it. */
void sql_output_break(struct sql_output *o);

#endif
