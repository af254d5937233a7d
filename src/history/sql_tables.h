/* The tables that people query with `weir history sql`, as virtual tables of SQLite:
 *
 *      jobs       one row for each finished job
 *      events     one row for each event of a job
 *      minutes    one row for each name that a rollup counts by
 *      incidents  one row for each entry of the incident log
 *      audit      one row for each entry of the audit trail
 *
 * They are there on any connection they are registered on, without CREATE, and cannot be written.
 */
#ifndef WEIR_HISTORY_SQL_TABLES_H
#define WEIR_HISTORY_SQL_TABLES_H

#include "base/buf.h"
#include "history/sql_walk.h"

/* `shared` must outlive the connection.  An SQLite code. */
int sql_tables_register(sqlite3 *db, struct sql_shared *shared) MUST_CHECK;

/* The name of a table and those of its columns, or NULL at the end. */
const char *sql_table_name(size_t i);
void sql_table_put_columns(size_t i, struct buf *b); /* "id, status, ..." */

#endif
