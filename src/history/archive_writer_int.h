/* What the files of the writer share: archive_writer.c (the connection, transactions, adding and
 * removing), archive_rows.c (rows of the table job), archive_dense.c (jobs that go into blocks),
 * archive_pack.c (rows that become blocks), archive_sweep.c (retention) and archive_follow.c (the
 * copy of a mirror).  Inside, functions
 * return a code of SQLite; a block that could not be written is SQLITE_ERROR with the reason in
 * w->trouble. */
#ifndef WEIR_HISTORY_ARCHIVE_WRITER_INT_H
#define WEIR_HISTORY_ARCHIVE_WRITER_INT_H

#include "history/archive_file.h"
#include "history/archive_writer.h"

/* Runs a statement that gives no rows, or whose first row is all that is wanted: *ret_row tells
 * whether there is one, and the caller resets.  Without ret_row it is reset here. */
int writer_step(struct archive_writer *w, enum archive_writer_sql which, bool *ret_row);
int writer_run(struct archive_writer *w, enum archive_writer_sql which);
void writer_bind(struct archive_writer *w, enum archive_writer_sql which, int at, int64_t v);
/* The error of a call of blocks.h that was given &w->trouble, as a code of SQLite. */
int writer_code(int err);
/* Commits; more_rows: of the table job. */
int writer_end(struct archive_writer *w, int64_t more_rows);
/* Tells what failed and rolls back; returns p->err. */
int writer_undo(struct archive_writer *w, struct problem *p);
int writer_fail(struct archive_writer *w, struct problem *p);

/* What history itself reads of a job's options. */
struct wish {
        uint64_t run, result_ms;
};
struct wish wish_of(const struct job_view *v);

/* A job of the transaction that is being put together. */
struct pick {
        uint64_t id;
        uint32_t at;  /* in w->views */
        bool is_row;  /* goes into the table job */
        bool is_done; /* is there already, or in a block */
};

void writer_make_room(struct archive_writer *w, size_t n); /* for so many views and picks */
/* Is the file the copy of a mirror?  Then all jobs are in blocks. */
static inline bool writer_is_mirrored(const struct archive_writer *w)
{
        return w->mirrored.mirror != NULL;
}

/* ---- rows ---- */

/* Adds those picks that are rows; *rows grows by how many there are more. */
int rows_add(struct archive_writer *w, int64_t *rows);
int rows_end(struct archive_writer *w); /* before the commit: what the spans are to tell */
void rows_clear(struct archive_writer *w);
/* The span's times from the rows that are left, or its end when there are none. */
int rows_renew_span(struct archive_writer *w, int64_t span);
/* Makes room for a later run of a job that is in a block; *ret: there is one of this run or a later
 * one. */
int rows_drop_older_of_block(struct archive_writer *w, uint64_t id, uint64_t run, bool *ret);
/* Remembers when the result goes, if it goes before the job does. */
int rows_add_lapse(struct archive_writer *w, const struct job_view *v, const struct wish *wish);

/* ---- blocks ---- */

#define BLOCK_FULL (4 * MIB) /* of raw bytes: then a block has enough */

/* Puts picks that lie close together into blocks, and marks the others as rows. */
int dense_add(struct archive_writer *w);
/* The same of picks that may all be in blocks and are in none that stays; `least`: jobs of a window
 * and family that are worth a block. */
int dense_pack(struct archive_writer *w, size_t least);

#endif
