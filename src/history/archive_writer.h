/* What the writer thread does to the history file: adding jobs, deleting old ones, checkpoints.
 * No threads in here, no clock and no policy: history.c decides when. */
#ifndef WEIR_HISTORY_ARCHIVE_WRITER_H
#define WEIR_HISTORY_ARCHIVE_WRITER_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/archive.h"
#include "history/archive_finder.h"
#include "history/blocks.h"
#include "history/mirrored.h"
#include "history/span_mark.h"

struct job;
struct pick;

/* One transaction holds at most this much: it is what is written again when it fails, and what a
 * stop may have to wait for. */
#define ARCHIVE_BATCH_JOBS  50000
#define ARCHIVE_BATCH_BYTES (48 * MIB)

#define ARCHIVE_MANY        10  /* rows a statement: 0.9 us each, against 1.1 one by one */
#define ARCHIVE_SUMS        256 /* a million ids: jobs of all of them may end in any order */

/* What a transaction changes in the table span, gathered before it is written.  block < 0: free. */
struct archive_span {
        int64_t block;
        int64_t done_ms, failed_ms;
        int64_t created_first, created_last;
        uint8_t marks[SPAN_MARK_BYTES];
};

#define ARCHIVE_WRITER_SQL_MAP(X)                                                                  \
        X(BEGIN, "BEGIN IMMEDIATE")                                                                \
        X(COMMIT, "COMMIT")                                                                        \
        X(ROLLBACK, "ROLLBACK")                                                                    \
        X(SPAN_ADD, "INSERT INTO span VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(block) DO "       \
                    "UPDATE SET done_ms = min(done_ms, excluded.done_ms), "                        \
                    "failed_ms = min(failed_ms, excluded.failed_ms), "                             \
                    "created_first = min(created_first, excluded.created_first), "                 \
                    "created_last = max(created_last, excluded.created_last), "                    \
                    "marks = weir_marks_or(marks, excluded.marks)")                                \
        X(SPAN_FIND, "SELECT block FROM span WHERE block >= ?1 AND "                               \
                     "(done_ms <= ?2 OR failed_ms <= ?3) ORDER BY block LIMIT 1")                  \
        X(SPAN_DROP, "DELETE FROM span WHERE block = ?1")                                          \
        X(SPAN_SET, "UPDATE span SET done_ms = ?2, failed_ms = ?3 WHERE block = ?1")               \
        X(SPAN_LEFT, "SELECT count(*), min(CASE status WHEN 3 THEN NULL ELSE finished_ms END), "   \
                     "min(CASE status WHEN 3 THEN finished_ms END) FROM job "                      \
                     "WHERE id BETWEEN ?1 AND ?2")                                                 \
        X(EXPIRE, "DELETE FROM job WHERE id IN (SELECT id FROM job WHERE id BETWEEN ?1 AND ?2 "    \
                  "AND finished_ms <= CASE status WHEN 3 THEN ?4 ELSE ?3 END LIMIT ?5)")           \
        X(REMOVE, "DELETE FROM job WHERE id = ?1 AND run = ?2")                                    \
        X(OLDER_DROP, "DELETE FROM job WHERE id = ?1 AND run < ?2")                                \
        X(LAPSE_ADD, "INSERT OR IGNORE INTO lapse VALUES(?1, ?2, ?3, ?4)")                         \
        X(LAPSE_FIND, "SELECT until_ms, id, run, finished_ms FROM lapse WHERE until_ms <= ?1 "     \
                      "ORDER BY until_ms, id, run, finished_ms LIMIT 1")                           \
        X(LAPSE_DROP, "DELETE FROM lapse WHERE until_ms = ?1 AND id = ?2 AND run = ?3 AND "        \
                      "finished_ms = ?4")                                                          \
        X(RESULT_DROP, "UPDATE job SET result = NULL, checksum = checksum & 4294967295 "           \
                       "WHERE id = ?1 AND run = ?2 AND finished_ms = ?3")                          \
        X(TALLY_ADD, "UPDATE tally SET rows = rows + ?1")                                          \
        X(TALLY, "SELECT rows FROM tally")                                                         \
        X(LAST, "SELECT max(id) FROM job")                                                         \
        X(NEXT_ROW, "SELECT id FROM job WHERE id >= ?1 ORDER BY id LIMIT 1")                       \
        X(ROW_DROP, "DELETE FROM job WHERE id = ?1")                                               \
        X(IS_ROW, "SELECT 1 FROM job WHERE id = ?1")                                               \
        X(FREE, "PRAGMA freelist_count")

enum archive_writer_sql {
#define X(name, text) SQL_##name,
        ARCHIVE_WRITER_SQL_MAP(X)
#undef X
                SQL_INSERT_ONE,
        SQL_INSERT_MANY,
        SQL_COUNT
};

struct archive_writer {
        sqlite3 *db;
        const char *path; /* borrowed */
        sqlite3_stmt *stmts[SQL_COUNT];
        void (*view_of)(const struct job *job, struct job_view *ret);
        /* Set by the owner before each call of add: which jobs are still wanted (NULL: all), and
         * how many bytes a transaction may take, about; 0: ARCHIVE_BATCH_BYTES. */
        bool (*is_wanted)(const struct job *job);
        uint64_t batch_bytes;
        bool is_short;         /* there is no room for rows: put all that can be into blocks */
        struct blocks *blocks; /* readers share it */
        struct mirrored mirrored;
        struct block_maker *maker;
        struct archive_finder rows_finder; /* finds rows alone, for packing */
        struct block_cache cache;          /* the block that was looked into last */
        struct problem trouble;            /* of a block; err is OK when there is none */
        /* The jobs of the transaction that is being put together. */
        struct job_view *views;
        struct pick *picks;
        size_t n_picks, cap_picks;
        struct archive_span sums[ARCHIVE_SUMS]; /* of the open transaction, by block modulo */
        struct buf events_json;                 /* JSON of the rows being added */
        int64_t rows;                           /* in the file, as of the last commit */
        int64_t last_id;                        /* the largest that it was given; 0: none */
        /* Only jobs up to this id can be there already: an earlier life of weir handed them over,
         * or the file was away when they were written. */
        uint64_t again_until_id;
        int wal_pages;      /* written and not yet moved into the main file */
        int64_t file_bytes; /* main file and -wal, as of the last commit */
        int64_t free_pages; /* of the main file: room in it */
};

int archive_writer_open(struct archive_writer *w, const char *path,
                        void (*view_of)(const struct job *, struct job_view *),
                        struct problem *p) MUST_CHECK;
void archive_writer_close(struct archive_writer *w); /* never opened is fine */
/* Once, before anything else: the file is the copy of that mirror, or, when it is NULL, of none.
 * All jobs are in blocks then. */
int archive_writer_set_mirror(struct archive_writer *w, struct mirror *mirror,
                              struct problem *p) MUST_CHECK;

/* Adds the first jobs of the list in one transaction, durable on return; *ret is how many it
 * took (at least one), those among them that are not wanted passed over.  When it fails nothing was
 * added, or only to a file that is not in its place any more.  A job that is there already stays as
 * it is, unless this one is of a later run. */
int archive_writer_add(struct archive_writer *w, struct job *const *jobs, size_t n, size_t *ret,
                       struct problem *p) MUST_CHECK;

/* Retention, in steps of one short transaction each: first the results whose own time is over,
 * then the jobs. */
struct archive_sweep {
        int64_t now_ms;
        int64_t done_until_ms,
                failed_until_ms; /* what ended then or before goes; INT64_MIN: none */
        bool are_results_done;
        int64_t block;    /* where to go on; 0 at first */
        bool is_over;     /* set when a step found nothing more */
        uint64_t deleted; /* by the last step */
};
int archive_writer_sweep(struct archive_writer *w, struct archive_sweep *s,
                         struct problem *p) MUST_CHECK;

/* Rows into blocks, and then small blocks into larger ones, in steps of one transaction each. */
struct archive_pack {
        bool are_rows_done;
        uint64_t window; /* where to go on; 0 at first */
        enum block_family family;
        bool is_over;    /* set when a step found nothing more */
        uint64_t packed; /* jobs, by the last step */
};
int archive_writer_pack(struct archive_writer *w, struct archive_pack *k,
                        struct problem *p) MUST_CHECK;

/* ---- with a mirror ---- */

/* Takes over some of what the mirror has more than the files; *ret_done: there is no more. */
int archive_writer_follow(struct archive_writer *w, bool *ret_done, struct problem *p) MUST_CHECK;
/* Finds out what was dropped from the mirror, of a copy that has all else; is_thorough: also in the
 * middle of the incidents and of the audit trail.  *ret_done false: the copy lacks something, and
 * follows from the beginning. */
int archive_writer_compare(struct archive_writer *w, bool is_thorough, bool *ret_done,
                           struct problem *p) MUST_CHECK;
/* Forgets results whose time is over and which the leader has taken, some of them. */
int archive_writer_tidy(struct archive_writer *w, int64_t now_ms, struct problem *p) MUST_CHECK;
/* Proves, by a transaction, that this machine leads and that the copy has everything, and makes all
 * before it durable.  ERR_STATE: it does not lead, or (*ret_done false) the mirror has more. */
int archive_writer_claim(struct archive_writer *w, bool *ret_done, struct problem *p) MUST_CHECK;

/* Deletes the jobs that are still of these runs, in one transaction, durable on return. */
int archive_writer_remove(struct archive_writer *w, const struct archive_ref *refs, size_t n,
                          size_t *ret, struct problem *p) MUST_CHECK;

/* Is the open file still the one in its place?  Else what is written to it is gone when weir ends.
 */
int archive_writer_check_place(struct archive_writer *w, struct problem *p) MUST_CHECK;

/* Moves what is in the -wal file into the main file, as far as readers allow; is_giving_back: and
 * gives its space back to the disk. */
int archive_writer_checkpoint(struct archive_writer *w, bool is_giving_back,
                              struct problem *p) MUST_CHECK;

#endif
