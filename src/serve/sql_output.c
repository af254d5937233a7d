/* Rows as text.
 *
 * A column is as wide as its widest cell, so a table is printed in parts: the widths of the first
 * few hundred rows hold for the next, or grow.  A column is aligned to the right when its first
 * part has nothing but numbers. */
#include "serve/sql_output.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "wire/json.h"

#define PART_ROWS   500
#define PART_BYTES  (256 * KIB)
#define WRITE_BYTES (64 * KIB)

void sql_output_init(struct sql_output *o, enum sql_format format)
{
        *o = (struct sql_output){.format = format};
        screen_init(&o->screen);
}

static void end_statement(struct sql_output *o)
{
        table_release(&o->table);
        free(o->columns);
        o->columns = NULL;
        buf_clear(&o->titles);
}

void sql_output_release(struct sql_output *o)
{
        end_statement(o);
        buf_release(&o->titles);
        buf_release(&o->text);
}

/* ---- writing ---- */

/* For a write of PIPE_BUF bytes: a pipe that is ready takes so many at once. */
static bool would_wait(void)
{
        struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
        return poll(&out, 1, 0) == 0;
}

static int write_all(struct sql_output *o, struct problem *p)
{
        struct slice left = buf_slice(&o->text);
        if (o->text.failed)
                return problem_set(p, ERR_NOMEM, "no memory for the output");
        while (left.len) {
                if (o->before_wait && would_wait())
                        o->before_wait(o->ctx);
                size_t part = left.len < PIPE_BUF ? left.len : PIPE_BUF;
                ssize_t n = write(STDOUT_FILENO, left.ptr, part);
                if (n < 0 && errno == EINTR)
                        return problem_set(p, ERR_STOPPING, "interrupted");
                if (n < 0)
                        return problem_set(p, ERR_IO, "cannot write the output: %s",
                                           strerror(errno));
                left = slice_make(left.ptr + n, left.len - (size_t)n);
        }
        buf_clear(&o->text);
        return OK;
}

/* ---- cells ---- */

static struct slice cell_bytes(sqlite3_stmt *stmt, int i)
{
        bool is_blob = sqlite3_column_type(stmt, i) == SQLITE_BLOB;
        const void *ptr = is_blob ? sqlite3_column_blob(stmt, i) : sqlite3_column_text(stmt, i);
        return slice_make(ptr, ptr ? (size_t)sqlite3_column_bytes(stmt, i) : 0);
}

static void put_hex(struct buf *b, struct slice bytes)
{
        if (buf_reserve(b, bytes.len * 2)) {
                hex_from_bytes((const uint8_t *)bytes.ptr, bytes.len, b->ptr + b->len);
                b->len += bytes.len * 2;
        }
}

static void put_csv_text(struct buf *b, struct slice s)
{
        bool is_plain = s.len > 0; /* "" is an empty text, nothing is NULL */
        for (size_t i = 0; i < s.len && is_plain; i++)
                is_plain = !strchr(",\"\r\n", s.ptr[i]) || !s.ptr[i];
        if (is_plain) {
                buf_put_slice(b, s);
                return;
        }
        buf_put_byte(b, '"');
        for (size_t i = 0; i < s.len; i++) {
                if (s.ptr[i] == '"')
                        buf_put_byte(b, '"');
                buf_put_byte(b, s.ptr[i]);
        }
        buf_put_byte(b, '"');
}

static void put_csv(struct buf *b, sqlite3_stmt *stmt, int i)
{
        int type = sqlite3_column_type(stmt, i);
        if (i)
                buf_put_byte(b, ',');
        if (type == SQLITE_BLOB)
                put_hex(b, cell_bytes(stmt, i));
        else if (type != SQLITE_NULL)
                put_csv_text(b, cell_bytes(stmt, i));
}

static void put_json(struct buf *b, sqlite3_stmt *stmt, int i)
{
        struct slice bytes;
        json_put_comma(b);
        json_put_text_lossy(b, slice_str(sqlite3_column_name(stmt, i)));
        buf_put_byte(b, ':');
        switch (sqlite3_column_type(stmt, i)) {
        case SQLITE_NULL:
                buf_put_str(b, "null");
                break;
        case SQLITE_FLOAT:
                if (isinf(sqlite3_column_double(stmt, i))) /* JSON has no word for it */
                        buf_put_str(b, sqlite3_column_double(stmt, i) > 0 ? "1e999" : "-1e999");
                else
                        buf_put_slice(b, cell_bytes(stmt, i));
                break;
        case SQLITE_INTEGER:
                buf_put_i64(b, sqlite3_column_int64(stmt, i));
                break;
        case SQLITE_BLOB:
                bytes = cell_bytes(stmt, i);
                buf_put_byte(b, '"');
                put_hex(b, bytes);
                buf_put_byte(b, '"');
                break;
        default:
                json_put_text_lossy(b, cell_bytes(stmt, i));
        }
}

/* ---- tables ---- */

static void put_cell(struct sql_output *o, sqlite3_stmt *stmt, int i)
{
        int type = sqlite3_column_type(stmt, i);
        struct slice bytes = cell_bytes(stmt, i);
        if (type == SQLITE_TEXT || type == SQLITE_BLOB)
                o->columns[i].is_right &= o->table.widths != NULL;
        if (type != SQLITE_BLOB) {
                table_add(&o->table, bytes, TONE_PLAIN);
                return;
        }
        struct buf hex CLEANUP(buf_release) = {0};
        put_hex(&hex, bytes);
        table_add(&o->table, buf_slice(&hex), TONE_PLAIN);
}

static void put_part(struct sql_output *o)
{
        for (size_t i = 0; i < o->table.n_columns; i++)
                o->columns[i].may_shrink = !o->columns[i].is_right;
        table_print_part(&o->table, &o->screen, &o->text);
}

static void begin_table(struct sql_output *o, sqlite3_stmt *stmt, size_t n)
{
        size_t at = 0;
        o->columns = xcalloc(n, sizeof(*o->columns));
        for (size_t i = 0; i < n; i++) {
                text_put_safe(&o->titles, slice_str(sqlite3_column_name(stmt, (int)i)));
                buf_put_byte(&o->titles, '\0');
        }
        for (size_t i = 0; i < n; i++) {
                o->columns[i] = (struct column){.title = o->titles.ptr + at, .is_right = true};
                at += strlen(o->titles.ptr + at) + 1;
        }
        table_init(&o->table, o->columns, n);
}

/* ---- a statement ---- */

void sql_output_begin(struct sql_output *o, sqlite3_stmt *stmt)
{
        size_t n = (size_t)sqlite3_column_count(stmt);
        o->rows = 0;
        if (o->format == SQL_TABLE)
                begin_table(o, stmt, n);
        if (o->format == SQL_JSON)
                buf_put_byte(&o->text, '[');
        for (size_t i = 0; o->format == SQL_CSV && i < n; i++) {
                if (i)
                        buf_put_byte(&o->text, ',');
                put_csv_text(&o->text, slice_str(sqlite3_column_name(stmt, (int)i)));
        }
        if (o->format == SQL_CSV)
                buf_put_str(&o->text, "\r\n");
}

int sql_output_row(struct sql_output *o, sqlite3_stmt *stmt, struct problem *p)
{
        int n = sqlite3_column_count(stmt);
        if (o->format == SQL_JSON)
                buf_put_str(&o->text, o->rows ? ",\n{" : "{");
        for (int i = 0; i < n; i++) {
                if (o->format == SQL_JSON)
                        put_json(&o->text, stmt, i);
                else if (o->format == SQL_CSV)
                        put_csv(&o->text, stmt, i);
                else
                        put_cell(o, stmt, i);
        }
        if (o->format == SQL_JSON)
                buf_put_byte(&o->text, '}');
        if (o->format == SQL_CSV)
                buf_put_str(&o->text, "\r\n");
        o->rows++;
        if (o->format == SQL_TABLE &&
            (o->table.n_cells >= PART_ROWS * (size_t)n || o->table.text.len >= PART_BYTES))
                put_part(o);
        return o->text.len >= WRITE_BYTES || o->text.failed ? write_all(o, p) : OK;
}

static int put_rest(struct sql_output *o, struct problem *p)
{
        if (o->format == SQL_TABLE && o->table.n_cells)
                put_part(o);
        end_statement(o);
        return write_all(o, p);
}

int sql_output_end(struct sql_output *o, struct problem *p)
{
        if (o->format == SQL_TABLE && !o->rows)
                put_part(o); /* the titles alone */
        if (o->format == SQL_JSON)
                buf_put_str(&o->text, "]\n");
        return put_rest(o, p);
}

void sql_output_break(struct sql_output *o)
{
        struct problem ignored; /* the caller has one to tell */
        if (put_rest(o, &ignored) != OK)
                buf_clear(&o->text);
}
