/* A connection that SQL can read the history on, and do nothing else: an empty database in memory
 * with the tables of sql_tables.h.  ATTACH, PRAGMA and statements that write are refused.
 *
 * One statement at a time, by one thread; sql_reader_stop() from any, and from a signal handler. */
#ifndef WEIR_HISTORY_SQL_READER_H
#define WEIR_HISTORY_SQL_READER_H

#include "history/sql_tables.h"

struct sql_reader;

/* `source` is borrowed; what is damaged is told to tell_damage(). */
int sql_reader_new(struct sql_source *source, void (*tell_damage)(void *ctx, const char *what),
                   void *ctx, struct sql_reader **ret, struct problem *p) MUST_CHECK;
struct sql_reader *sql_reader_free(struct sql_reader *r); /* NULL is fine; returns NULL */

/* Statements that are left, and the line that the first of them begins on, from 1. */
struct sql_script {
        const char *at;
        uint64_t line;
};

/* Takes the next statement off the text, for sqlite3_step() and sqlite3_finalize().  *ret is NULL
 * when it is none: a comment, or nothing.  ERR_SYNTAX: it is wrong or refused; the sentence has
 * the place. */
int sql_reader_prepare(struct sql_reader *r, struct sql_script *text, sqlite3_stmt **ret,
                       struct problem *p) MUST_CHECK;
/* Why sqlite3_step() failed, with this code.  ERR_STOPPING: it was stopped. */
int sql_reader_fail(struct sql_reader *r, int code, struct problem *p);

/* Ends the statement that runs, with ERR_STOPPING. */
void sql_reader_stop(struct sql_reader *r);
uint64_t sql_reader_damaged(const struct sql_reader *r); /* places that were met so far */

#endif
