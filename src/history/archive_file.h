/* The history file: its tables, and how a connection to it is opened.  Format version 8.
 *
 *   job    one row for each finished job; the columns below, in this order
 *   span   for each run of ARCHIVE_SPAN_IDS ids that has rows: the earliest end of a complete or
 *          canceled job in it, and of a failed one (ARCHIVE_NEVER when there is none).  May be
 *          earlier than the truth, never later.  Retention finds its work here.  Since version 3
 *          also what can be among its rows: the first and the last creation, and a set of marks
 *          (span_mark.h) of their statuses, queues, groups, hooks and workers.  NULL: not known,
 *          look at the rows.  May hold more than the rows do, never less.
 *   lapse  one row for each result that goes before its job does: when, and of which run and end;
 *          may be there without its job
 *   tally  one row: how many rows job has
 *   block  one row for each block of finished jobs (block.h): where its bytes are in the segment
 *          files beside this one (segment.h), its mark (block_mark.h), and in `dead` a bit for each
 *          of its jobs that was deleted since, with a checksum; NULL: none was
 *   store  one row: 16 random bytes, which are also in each segment file of this history
 *   incident  one row for each thing that the gate did or that an operator did to it (incidents.h)
 *   audit  one row for each entry of the audit trail (audits.h)
 *   minute  one row for each minute, ten minutes and hour in which weir ran (rollups.h)
 *   mirror  only in the copy of a mirror (mirrored.h): one row, the last transaction that it has,
 *          and the last row of MIRROR_LEAD
 *   jobs, incidents  views for people: names of statuses, ISO times, all events
 *
 * Version 2 added the columns options and run, and the table lapse; version 3 what span says about
 * its rows; version 4 the checksum of each row; version 5 the table incident; version 6 the table
 * minute; version 7 the tables block and store; version 8 the table audit.
 *
 * To change the format: raise ARCHIVE_VERSION, teach archive_file_open() the step from the
 * version before, and keep a file of the old version among the tests. */
#ifndef WEIR_HISTORY_ARCHIVE_FILE_H
#define WEIR_HISTORY_ARCHIVE_FILE_H

#include <sqlite3.h>

#include "base/err.h"

#define ARCHIVE_PAGE_BYTES  16384
#define ARCHIVE_VERSION     8
#define ARCHIVE_WITH_BLOCKS 7  /* the first version that has the table block */
#define ARCHIVE_SPAN_SHIFT  12 /* block = id >> shift */
#define ARCHIVE_SPAN_IDS    (1LL << ARCHIVE_SPAN_SHIFT)
#define ARCHIVE_NEVER       INT64_MAX

/* The columns after `id`.  What filters and retention look at comes first, and what may be long
 * last: SQLite decodes a row from the left and reads overflow pages only when it gets there.
 * Empty texts are NULL.  Texts that are not UTF-8, or hold a NUL, are blobs of the same bytes.
 * New columns go to the end: ALTER TABLE can put them nowhere else. */
#define ARCHIVE_COLUMN_MAP(X)                                                                      \
        X(STATUS, "status", "INTEGER") /* enum job_status */                                       \
        X(FINISHED, "finished_ms", "INTEGER")                                                      \
        X(QUEUE, "queue", "TEXT")                                                                  \
        X(GROUP, "grp", "TEXT")                                                                    \
        X(HOOK, "hook", "TEXT")                                                                    \
        X(CREATED, "created_ms", "INTEGER")                                                        \
        X(DUE, "due_ms", "INTEGER")                                                                \
        X(STARTED, "started_ms", "INTEGER")                                                        \
        X(PRIORITY, "priority", "INTEGER")                                                         \
        X(ATTEMPT, "attempt", "INTEGER")                                                           \
        X(ATTEMPTS_MAX, "attempts_max", "INTEGER")                                                 \
        X(TIMEOUT, "timeout_ms", "INTEGER")                                                        \
        X(FENCE, "fence", "INTEGER")                                                               \
        X(WORKER, "worker", "TEXT")                                                                \
        X(PROGRESS, "progress", "TEXT")                                                            \
        X(ERROR, "error", "TEXT")                                                                  \
        X(RESULT, "result", "TEXT")                                                                \
        X(ARGS, "args", "TEXT")                                                                    \
        X(EVENTS, "events", "TEXT")                 /* history/events_json.h */                    \
        X(OPTIONS, "options", "BLOB")               /* packed, state/option.h */                   \
        X(RUN, "run", "INTEGER DEFAULT 0")          /* how often it was taken back before */       \
        X(CHECKSUM, "checksum", "INTEGER NOT NULL") /* checksum.h; NULL in rows of an older weir   \
                                                     */

enum archive_column {
        COLUMN_ID,
#define X(name, text, type) COLUMN_##name,
        ARCHIVE_COLUMN_MAP(X)
#undef X
                COLUMN_COUNT
};

/* The writer's connection: makes the file (mode 0600) and its tables when they are missing. */
int archive_file_open(const char *path, sqlite3 **ret, struct problem *p) MUST_CHECK;
/* A connection that can only read; the writer's must be open. */
int archive_file_open_reader(const char *path, sqlite3 **ret, struct problem *p) MUST_CHECK;

/* The same for a process that is not the server: nothing is changed, and no file is made beside it
 * unless a server uses it (is_in_use).  ERR_NOTFOUND: it is not there or empty; ERR_STATE: it is of
 * an older version, which only a server upgrades. */
int archive_file_open_to_look(const char *path, bool is_in_use, sqlite3 **ret,
                              struct problem *p) MUST_CHECK;

/* What reading the whole file found. */
struct archive_report {
        uint64_t rows;      /* and jobs in blocks */
        uint64_t unchecked; /* rows without a checksum, of a file that an older weir made */
        uint64_t damaged;   /* rows, jobs in blocks, and what SQLite finds wrong with its tables */
};
typedef void (*archive_damage_fn)(void *ctx, const char *what);

/* Would archive_file_open() take it, and is every row and every block as it was written?  Reads all
 * of it, changes nothing, and makes no file beside it unless a server uses it (is_in_use).  Each
 * damaged place is told; an error means that the file as a whole cannot be used.  A file that is
 * not there is ERR_NOTFOUND. */
int archive_file_verify(const char *path, bool is_in_use, archive_damage_fn tell, void *ctx,
                        struct archive_report *ret, struct problem *p) MUST_CHECK;
/* The largest fence of any job; reads all rows and all blocks.  ERR_CORRUPT: a block cannot be
 * read, and *ret is the largest of the rest. */
int archive_file_last_fence(const char *path, uint64_t *ret, struct problem *p) MUST_CHECK;

/* Turns the connection's last error into a problem: what failed, and what to do when the file
 * is damaged.  Returns p->err. */
int archive_file_fail(sqlite3 *db, const char *path, struct problem *p);

#endif
