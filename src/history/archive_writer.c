/* Adding jobs to history, and taking them out.
 *
 * Adding is the busy side: every finished job passes here.  Jobs whose ids lie close together,
 * which under load are nearly all, go into blocks (archive_dense.c), the others into rows
 * (archive_rows.c); both are one transaction of SQLite, which names the blocks that count. */
#include "history/archive_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/shown.h"
#include "history/archive_file.h"
#include "history/archive_writer_int.h"

/* Room for a short transaction, whatever the disk has. */
#define WAL_KEPT_BYTES (int64_t)(1 * MIB)

static const char *const sql_texts[] = {
#define X(name, text) [SQL_##name] = text,
        ARCHIVE_WRITER_SQL_MAP(X)
#undef X
};

int writer_fail(struct archive_writer *w, struct problem *p)
{
        return archive_file_fail(w->db, w->path, p);
}

static int prepare(struct archive_writer *w, enum archive_writer_sql which, const char *sql)
{
        return sqlite3_prepare_v3(w->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &w->stmts[which],
                                  NULL);
}

static int prepare_insert(struct archive_writer *w, enum archive_writer_sql which, int rows)
{
        struct buf sql;
        buf_init(&sql, 0);
        buf_put_str(&sql, "INSERT OR IGNORE INTO job VALUES");
        for (int row = 0; row < rows; row++) {
                buf_put_str(&sql, row ? ",(?" : "(?");
                for (int column = 1; column < COLUMN_COUNT; column++)
                        buf_put_str(&sql, ",?");
                buf_put_str(&sql, ")");
        }
        int rc = prepare(w, which, buf_cstr(&sql));
        buf_release(&sql);
        return rc;
}

int writer_step(struct archive_writer *w, enum archive_writer_sql which, bool *ret_row)
{
        sqlite3_stmt *stmt = w->stmts[which];
        int rc = sqlite3_step(stmt);
        if (ret_row)
                *ret_row = rc == SQLITE_ROW;
        if (!ret_row || rc != SQLITE_ROW)
                (void)sqlite3_reset(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int writer_run(struct archive_writer *w, enum archive_writer_sql which)
{
        return writer_step(w, which, NULL);
}

void writer_bind(struct archive_writer *w, enum archive_writer_sql which, int at, int64_t v)
{
        /* Fails only on a wrong index or a running statement: a mistake of ours. */
        int rc = sqlite3_bind_int64(w->stmts[which], at, v);
        ASSERT(rc == SQLITE_OK);
}

int writer_code(int err)
{
        return err ? SQLITE_ERROR : SQLITE_OK;
}

/* After a failure; SQLite may have rolled back by itself already. */
int writer_undo(struct archive_writer *w, struct problem *p)
{
        int err = w->trouble.err;
        if (err)
                *p = w->trouble;
        else
                err = writer_fail(w, p);
        w->trouble.err = OK;
        rows_clear(w);
        if (!sqlite3_get_autocommit(w->db))
                (void)writer_run(w, SQL_ROLLBACK); /* the first error is the one to tell */
        mirrored_undo(&w->mirrored);
        blocks_lock(w->blocks);
        blocks_abandon(w->blocks);
        blocks_unlock(w->blocks);
        return err;
}

/* The only number of the only row; 0 when there is none. */
static int writer_number(struct archive_writer *w, enum archive_writer_sql which, int64_t *ret)
{
        bool is_row;
        int rc = writer_step(w, which, &is_row);
        *ret = is_row ? sqlite3_column_int64(w->stmts[which], 0) : 0;
        (void)sqlite3_reset(w->stmts[which]); /* repeats the error of step */
        return rc;
}

static int64_t wal_bytes(const struct archive_writer *w)
{
        char wal[4096 + 8];
        struct stat st;
        (void)snprintf(wal, sizeof(wal), "%s-wal", w->path); /* too long: the stat fails */
        return stat(wal, &st) == 0 ? st.st_size : 0;
}

static void measure(struct archive_writer *w)
{
        struct stat st;
        w->file_bytes = wal_bytes(w) + (int64_t)blocks_bytes(w->blocks);
        if (stat(w->path, &st) == 0)
                w->file_bytes += st.st_size;
        if (writer_number(w, SQL_FREE, &w->free_pages) != SQLITE_OK)
                w->free_pages = 0;
}

int writer_end(struct archive_writer *w, int64_t more_rows)
{
        if (more_rows) {
                writer_bind(w, SQL_TALLY_ADD, 1, more_rows);
                int rc = writer_run(w, SQL_TALLY_ADD);
                if (rc != SQLITE_OK)
                        return rc;
        }
        int rc = writer_code(blocks_sync(w->blocks, &w->trouble));
        if (rc == SQLITE_OK)
                rc = writer_code(mirrored_commit(&w->mirrored, &w->trouble));
        if (rc != SQLITE_OK)
                return rc;
        blocks_lock(w->blocks); /* readers see rows and marks of the same moment */
        rc = writer_run(w, SQL_COMMIT);
        if (rc == SQLITE_OK)
                blocks_publish(w->blocks);
        blocks_unlock(w->blocks);
        if (rc == SQLITE_OK) {
                mirrored_done(&w->mirrored);
                w->rows += more_rows;
                measure(w);
        }
        return rc;
}

/* SQLite goes on with the open file wherever that is now; what only it holds is gone when weir
 * ends. */
int archive_writer_check_place(struct archive_writer *w, struct problem *p)
{
        int is_elsewhere = 0;
        /* Fails only for a file system that cannot tell. */
        (void)sqlite3_file_control(w->db, "main", SQLITE_FCNTL_HAS_MOVED, &is_elsewhere);
        if (!is_elsewhere)
                return blocks_check_place(w->blocks, p);
        return problem_set(p, ERR_IO,
                           "the history file %s was removed, moved or replaced while weir runs; "
                           "put it back, or start weir again: a new file is made when none is "
                           "there",
                           SHOWN_MAX(slice_str(w->path), 120));
}

/* ---- adding ---- */

static uint64_t weigh(const struct job_view *v)
{
        return 128 + v->hook.len + v->args.len + v->progress.len + v->result.len + v->error.len +
               v->options.len + v->events.len * 4;
}

void writer_make_room(struct archive_writer *w, size_t n)
{
        if (n <= w->cap_picks)
                return;
        w->cap_picks = n;
        w->views = xrealloc(w->views, n * sizeof(*w->views));
        w->picks = xrealloc(w->picks, n * sizeof(*w->picks));
}

/* The first of the jobs that are wanted, as many as a transaction may have.  Returns how many of
 * the list were looked at. */
static size_t pick(struct archive_writer *w, struct job *const *jobs, size_t n)
{
        uint64_t bytes = 0, bytes_max = w->batch_bytes ? w->batch_bytes : ARCHIVE_BATCH_BYTES;
        size_t i = 0;
        if (n > ARCHIVE_BATCH_JOBS)
                n = ARCHIVE_BATCH_JOBS;
        writer_make_room(w, n);
        w->n_picks = 0;
        for (; i < n && bytes < bytes_max; i++) {
                if (w->is_wanted && !w->is_wanted(jobs[i]))
                        continue;
                struct job_view *v = &w->views[w->n_picks];
                w->view_of(jobs[i], v);
                w->picks[w->n_picks] = (struct pick){.id = v->id, .at = (uint32_t)w->n_picks};
                w->n_picks++;
                if ((int64_t)v->id > w->last_id)
                        w->last_id = (int64_t)v->id;
                bytes += weigh(v);
        }
        return i;
}

int archive_writer_add(struct archive_writer *w, struct job *const *jobs, size_t n, size_t *ret,
                       struct problem *p)
{
        int64_t inserted = 0;
        size_t done = pick(w, jobs, n);
        int rc = writer_run(w, SQL_BEGIN);
        if (rc == SQLITE_OK)
                rc = dense_add(w);
        if (rc == SQLITE_OK)
                rc = rows_add(w, &inserted);
        if (rc == SQLITE_OK)
                rc = rows_end(w);
        if (rc == SQLITE_OK)
                rc = writer_end(w, inserted);
        int err = rc == SQLITE_OK ? archive_writer_check_place(w, p) : writer_undo(w, p);
        /* These jobs come again and may be there then: the file may be put back, and nobody knows
         * what a mirror has that failed. */
        if (err && (rc == SQLITE_OK || writer_is_mirrored(w)))
                w->again_until_id = (uint64_t)w->last_id;
        *ret = done;
        return err;
}

/* ---- removing ---- */

/* A job that is not in a row may be in a block. */
static int remove_of_block(struct archive_writer *w, const struct archive_ref *ref, size_t *ret)
{
        const struct block_mark *m;
        size_t at;
        int err = blocks_find(w->blocks, ref->id, &w->cache, &m, &at, &w->trouble);
        if (err || !m || blocks_is_buried(w->blocks, m, at) || w->cache.block.run[at] != ref->run)
                return writer_code(err);
        uint16_t place = (uint16_t)at;
        ++*ret;
        return writer_code(blocks_bury(w->blocks, m, &place, 1, m->finished_first, &w->trouble));
}

int archive_writer_remove(struct archive_writer *w, const struct archive_ref *refs, size_t n,
                          size_t *ret, struct problem *p)
{
        int64_t removed = 0;
        size_t buried = 0;
        int rc = writer_run(w, SQL_BEGIN);
        for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
                writer_bind(w, SQL_REMOVE, 1, (int64_t)refs[i].id);
                writer_bind(w, SQL_REMOVE, 2, (int64_t)refs[i].run);
                rc = writer_run(w, SQL_REMOVE);
                int64_t changed = rc == SQLITE_OK ? sqlite3_changes(w->db) : 0;
                removed += changed;
                if (rc == SQLITE_OK && !changed)
                        rc = remove_of_block(w, &refs[i], &buried);
        }
        if (rc == SQLITE_OK)
                rc = writer_end(w, -removed);
        if (rc != SQLITE_OK)
                return writer_undo(w, p);
        *ret = (size_t)removed + buried;
        return OK;
}

/* ---- the connection ---- */

static int count_wal(void *ctx, sqlite3 *db, const char *name, int pages)
{
        struct archive_writer *w = ctx;
        (void)db;
        (void)name;
        w->wal_pages = pages;
        return SQLITE_OK;
}

int archive_writer_checkpoint(struct archive_writer *w, bool is_giving_back, struct problem *p)
{
        int in_wal = 0;
        int moved = 0;
        int how = SQLITE_CHECKPOINT_PASSIVE;
        if (is_giving_back) /* a short file is kept: on a full disk there would be no other */
                how = wal_bytes(w) > WAL_KEPT_BYTES ? SQLITE_CHECKPOINT_TRUNCATE
                                                    : SQLITE_CHECKPOINT_RESTART;
        int rc = sqlite3_wal_checkpoint_v2(w->db, NULL, how, &in_wal, &moved);
        if (rc != SQLITE_OK && rc != SQLITE_BUSY)
                return writer_fail(w, p);
        if (in_wal >= 0 && moved >= 0)
                w->wal_pages = in_wal - moved;
        measure(w);
        return OK;
}

/* What both sets hold together; not known (NULL) when that is so of one. */
static void marks_or(sqlite3_context *ctx, int n, sqlite3_value **v)
{
        uint8_t both[SPAN_MARK_BYTES];
        const uint8_t *a = sqlite3_value_blob(v[0]), *b = sqlite3_value_blob(v[1]);
        if (n != 2 || !a || !b || sqlite3_value_bytes(v[0]) != SPAN_MARK_BYTES ||
            sqlite3_value_bytes(v[1]) != SPAN_MARK_BYTES) {
                sqlite3_result_null(ctx);
                return;
        }
        for (size_t i = 0; i < SPAN_MARK_BYTES; i++)
                both[i] = a[i] | b[i];
        sqlite3_result_blob(ctx, both, SPAN_MARK_BYTES, SQLITE_TRANSIENT);
}

int archive_writer_open(struct archive_writer *w, const char *path,
                        void (*view_of)(const struct job *, struct job_view *), struct problem *p)
{
        *w = (struct archive_writer){.path = path, .view_of = view_of};
        w->mirrored.path = path;
        buf_init(&w->events_json, 0);
        rows_clear(w);
        int err = archive_file_open(path, &w->db, p);
        if (!err)
                err = blocks_open(w->db, path, false, &w->blocks, p);
        if (err) {
                archive_writer_close(w);
                return err;
        }
        w->mirrored.db = w->db;
        blocks_set_mirrored(w->blocks, &w->mirrored);
        w->maker = block_maker_new();
        err = archive_finder_open(&w->rows_finder, path, NULL, p);
        if (err) {
                archive_writer_close(w);
                return err;
        }
        int rc = sqlite3_create_function(w->db, "weir_marks_or", 2,
                                         SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, marks_or, NULL,
                                         NULL);
        for (int i = 0; i < SQL_INSERT_ONE && rc == SQLITE_OK; i++)
                rc = prepare(w, (enum archive_writer_sql)i, sql_texts[i]);
        if (rc == SQLITE_OK)
                rc = prepare_insert(w, SQL_INSERT_ONE, 1);
        if (rc == SQLITE_OK)
                rc = prepare_insert(w, SQL_INSERT_MANY, ARCHIVE_MANY);
        if (rc == SQLITE_OK)
                rc = writer_number(w, SQL_TALLY, &w->rows);
        if (rc == SQLITE_OK)
                rc = writer_number(w, SQL_LAST, &w->last_id);
        if (rc != SQLITE_OK) {
                err = writer_fail(w, p);
                archive_writer_close(w);
                return err;
        }
        if ((uint64_t)w->last_id < blocks_last_id(w->blocks))
                w->last_id = (int64_t)blocks_last_id(w->blocks);
        w->again_until_id = (uint64_t)w->last_id;
        (void)sqlite3_wal_hook(w->db, count_wal, w);
        measure(w);
        return OK;
}

int archive_writer_set_mirror(struct archive_writer *w, struct mirror *mirror, struct problem *p)
{
        return mirrored_set(&w->mirrored, mirror, p);
}

void archive_writer_close(struct archive_writer *w)
{
        for (int i = 0; i < SQL_COUNT; i++) {
                (void)sqlite3_finalize(w->stmts[i]); /* repeats the last error of a statement */
                w->stmts[i] = NULL;
        }
        archive_finder_close(&w->rows_finder);
        block_release(&w->cache.block);
        w->cache = (struct block_cache){0};
        w->blocks = blocks_close(w->blocks);
        mirrored_release(&w->mirrored);
        w->maker = block_maker_free(w->maker);
        free(w->views);
        free(w->picks);
        w->views = NULL;
        w->picks = NULL;
        w->cap_picks = 0;
        if (w->db)
                (void)sqlite3_close(
                        w->db); /* moves the rest of the -wal in; no statement is open */
        w->db = NULL;
        buf_release(&w->events_json);
}
