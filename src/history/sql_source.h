/* Where the SQL tables get their rows from: pages of what a store holds.
 *
 * sql_source_open() is a store that this process only looks at; a server may be running on it.  The
 * store is opened when the first page is asked for, and sql_source_rest() closes it: between two
 * statements nothing is open, so a prompt that waits for a person keeps no transaction and no file,
 * and each statement sees what is there by then.
 *
 * A page is of one moment, the next one of a later: ids are told in order, so a job that moves
 * within the store between two pages is told once. */
#ifndef WEIR_HISTORY_SQL_SOURCE_H
#define WEIR_HISTORY_SQL_SOURCE_H

#include "base/err.h"
#include "core/archive.h"

/* Rollups of one step, the oldest first. */
struct sql_minute {
        int64_t at;        /* Unix minutes */
        struct slice body; /* core/rollup.h; not checked */
};

struct sql_minutes {
        unsigned span;    /* minutes of each */
        int64_t from, to; /* Unix minutes; both are in it */
        size_t limit;
        struct arena arena; /* the asker's; what the rows borrow from */
        /* Set by the source. */
        struct sql_minute *rows;
        size_t n_rows;
};

struct sql_source {
        /* Fill in an answer, as the archive does; *p says more about an error. */
        int (*jobs)(struct sql_source *s, struct archive_query *q, struct problem *p);
        int (*incidents)(struct sql_source *s, struct archive_incidents *q, struct problem *p);
        int (*audits)(struct sql_source *s, struct archive_audits *q, struct problem *p);
        int (*minutes)(struct sql_source *s, struct sql_minutes *q, struct problem *p);
};

/* `path` is that of the history file, `log` that of the log folder, which tells whether a server is
 * running (NULL: there may be one).  Opens the store once, so that what cannot be read is told now.
 * ERR_NOTFOUND: there is none. */
int sql_source_open(const char *path, const char *log, struct sql_source **ret,
                    struct problem *p) MUST_CHECK;
struct sql_source *sql_source_close(struct sql_source *s); /* NULL is fine; returns NULL */
void sql_source_rest(struct sql_source *s);

#endif
