/* What a virtual table is made of: its columns, a cursor, and functions of that cursor. */
#ifndef WEIR_HISTORY_SQL_TABLES_INT_H
#define WEIR_HISTORY_SQL_TABLES_INT_H

#include "history/sql_walk.h"

struct sql_cursor {
        sqlite3_vtab_cursor base; /* first: SQLite knows no more of it */
        struct sql_shared *shared;
};

struct sql_table {
        const char *name;
        struct sql_shape shape;
        size_t cursor_bytes;
        int (*choose)(const struct sql_shape *shape, sqlite3_index_info *info);
        void (*open)(struct sql_cursor *c); /* the rest of it is zeros */
        void (*close)(struct sql_cursor *c);
        /* An SQLite code; the problem is in `shared`. */
        int (*begin)(struct sql_cursor *c, const char *plan, sqlite3_value **values);
        int (*next)(struct sql_cursor *c);
        bool (*is_end)(const struct sql_cursor *c);
        /* Not at the end. */
        void (*column)(struct sql_cursor *c, sqlite3_context *ret, int i);
        int64_t (*rowid)(const struct sql_cursor *c);
};

extern const struct sql_table sql_minutes_table;
extern const struct sql_table sql_audit_table;

/* Values of a cell.  An empty text is NULL, and one that is not UTF-8 or holds a NUL a blob. */
void sql_tell_text(sqlite3_context *ret, struct slice s);
void sql_tell_moment(sqlite3_context *ret, int64_t ms);

/* Columns are rows of X(NAME, "name", "TYPE", enum sql_key, is_text, what tells the value).  What
 * tells it may use these three, with `ret` for where the value goes. */
#define NUMBER(n)                                           sqlite3_result_int64(ret, (int64_t)(n))
#define TEXT(s)                                             sql_tell_text(ret, s)
#define MOMENT(n)                                           sql_tell_moment(ret, n)

#define COLUMN_NUMBER(name, text, type, key, is_text, tell) COLUMN_##name,
#define COLUMN_ROW(name, text, type, key, is_text, tell)    {text, type, key, is_text},
#define COLUMN_CASE(name, text, type, key, is_text, tell_it)                                       \
        case COLUMN_##name:                                                                        \
                tell_it;                                                                           \
                break;

#endif
