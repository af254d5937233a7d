/* Retention: taking out of history what is past its time.
 *
 * Finding old rows without an index on their times, which would cost every job 0.6-0.9 us: ids are
 * given in order of creation, so rows near each other mostly ended near each other; the table span
 * keeps, for every 4,096 ids, the earliest end among its rows.  A sweep looks for a span that has
 * something to give, deletes what there is of it, long rows in several steps, and when no more is
 * left there works out the span's times anew.  A span that still holds one job kept for longer is
 * thus looked at again only when that job's time has come.  A step must be worth its commit: a busy
 * writer takes four a second, and has to delete as fast as jobs come.
 *
 * Blocks are of one family each, so nearly all of them go as a whole, by their marks alone.
 *
 * With a mirror also jobs whose result goes before they do are in blocks: without it they go into
 * another one. */
#include "history/archive_writer_int.h"

#define STEP_ROWS   ARCHIVE_SPAN_IDS      /* deleted in one transaction */
#define STEP_BYTES  ((int64_t)(16 * MIB)) /* the same, estimated from the average row */
#define STEP_FEW    16                    /* but at least this many */
#define STEP_BLOCKS 256                   /* dropped in one transaction */
#define STEP_OPENED 16                    /* looked into in one transaction */
#define STEP_LAPSES 64                    /* results in blocks that go in one transaction */
#define TIDY_LAPSES 1000                  /* results that another machine took */

/* ---- rows ---- */

/* Long rows are many pages each: fewer of them make a step. */
static int64_t step_rows(const struct archive_writer *w)
{
        int64_t average = w->file_bytes / (w->rows > 0 ? w->rows : 1) + 1;
        int64_t n = STEP_BYTES / average;
        if (n > STEP_ROWS)
                return STEP_ROWS;
        return n < STEP_FEW ? STEP_FEW : n;
}

static int expire(struct archive_writer *w, struct archive_sweep *s, int64_t block)
{
        int64_t limit = step_rows(w);
        writer_bind(w, SQL_EXPIRE, 1, block * ARCHIVE_SPAN_IDS);
        writer_bind(w, SQL_EXPIRE, 2, (block + 1) * ARCHIVE_SPAN_IDS - 1);
        writer_bind(w, SQL_EXPIRE, 3, s->done_until_ms);
        writer_bind(w, SQL_EXPIRE, 4, s->failed_until_ms);
        writer_bind(w, SQL_EXPIRE, 5, limit);
        int rc = writer_run(w, SQL_EXPIRE);
        if (rc != SQLITE_OK)
                return rc;
        int64_t deleted = sqlite3_changes(w->db);
        bool is_block_done = deleted < limit || limit == ARCHIVE_SPAN_IDS;
        if (is_block_done)
                rc = rows_renew_span(w, block);
        if (rc == SQLITE_OK)
                rc = writer_end(w, -deleted);
        if (rc != SQLITE_OK)
                return rc;
        s->deleted = (uint64_t)deleted;
        s->block = is_block_done ? block + 1 : block;
        return SQLITE_OK;
}

/* A job that is in a block, and the end whose result is to go. */
struct lapse {
        uint64_t id, run;
        int64_t finished_ms;
};

/* Takes the job out of its block, if it still has that result, and among the picks. */
static int lapse_in_block(struct archive_writer *w, const struct lapse *l, struct arena *arena)
{
        struct buf scratch CLEANUP(buf_release) = {0};
        const struct block_mark *m;
        size_t at;
        int err = blocks_find(w->blocks, l->id, &w->cache, &m, &at, &w->trouble);
        if (err == ERR_CORRUPT)
                w->mirrored.is_damaged = w->mirrored.is_behind = true; /* it is fetched again */
        if (err || !m || blocks_is_buried(w->blocks, m, at) || w->cache.block.run[at] != l->run ||
            w->cache.block.finished_ms[at] != l->finished_ms)
                return writer_code(err);
        writer_make_room(w, w->n_picks + 1);
        struct job_view *v = &w->views[w->n_picks];
        err = block_view(&w->cache.block, at, arena, &scratch, v);
        if (err)
                return writer_code(problem_set(&w->trouble, err, "cannot read a job of history"));
        if (!v->result.len)
                return SQLITE_OK;
        v->result = SLICE_NONE;
        w->picks[w->n_picks] = (struct pick){.id = v->id, .at = (uint32_t)w->n_picks};
        w->n_picks++;
        uint16_t place = (uint16_t)at;
        return writer_code(blocks_bury(w->blocks, m, &place, 1, m->finished_first, &w->trouble));
}

/* Takes the next result whose time is over; false in *ret when there is none. */
static int lapse_one(struct archive_writer *w, int64_t now_ms, struct arena *arena, bool *ret)
{
        sqlite3_stmt *found = w->stmts[SQL_LAPSE_FIND];
        writer_bind(w, SQL_LAPSE_FIND, 1, now_ms);
        int rc = writer_step(w, SQL_LAPSE_FIND, ret);
        if (rc != SQLITE_OK || !*ret)
                return rc;
        for (int i = 0; i < 4; i++) {
                writer_bind(w, SQL_LAPSE_DROP, i + 1, sqlite3_column_int64(found, i));
                if (i > 0)
                        writer_bind(w, SQL_RESULT_DROP, i, sqlite3_column_int64(found, i));
        }
        struct lapse l = {(uint64_t)sqlite3_column_int64(found, 1),
                          (uint64_t)sqlite3_column_int64(found, 2), sqlite3_column_int64(found, 3)};
        (void)sqlite3_reset(found); /* it succeeded */
        rc = writer_run(
                w, SQL_RESULT_DROP); /* of no row when the job is gone or was run again since */
        if (rc == SQLITE_OK && writer_is_mirrored(w))
                rc = lapse_in_block(w, &l, arena);
        return rc == SQLITE_OK ? writer_run(w, SQL_LAPSE_DROP) : rc;
}

/* Is the result of that end still in a block? */
static int has_result(struct archive_writer *w, const struct lapse *l, bool *ret)
{
        const struct block_mark *m;
        struct block_texts texts;
        size_t at;
        *ret = false;
        int err = blocks_find(w->blocks, l->id, &w->cache, &m, &at, &w->trouble);
        if (err == ERR_CORRUPT)
                w->mirrored.is_damaged = true; /* it is fetched again */
        if (err || !m || w->cache.block.run[at] != l->run ||
            w->cache.block.finished_ms[at] != l->finished_ms)
                return writer_code(err);
        err = block_texts(&w->cache.block, at, &texts);
        if (err)
                return writer_code(problem_set(&w->trouble, err, "cannot read a job of history"));
        *ret = texts.result.len > 0;
        return SQLITE_OK;
}

int archive_writer_tidy(struct archive_writer *w, int64_t now_ms, struct problem *p)
{
        bool is_row = true;
        int rc = writer_run(w, SQL_BEGIN);
        for (int n = 0; n < TIDY_LAPSES && is_row && rc == SQLITE_OK; n++) {
                sqlite3_stmt *found = w->stmts[SQL_LAPSE_FIND];
                writer_bind(w, SQL_LAPSE_FIND, 1, now_ms);
                rc = writer_step(w, SQL_LAPSE_FIND, &is_row);
                if (rc != SQLITE_OK || !is_row)
                        break;
                for (int i = 0; i < 4; i++)
                        writer_bind(w, SQL_LAPSE_DROP, i + 1, sqlite3_column_int64(found, i));
                struct lapse l = {(uint64_t)sqlite3_column_int64(found, 1),
                                  (uint64_t)sqlite3_column_int64(found, 2),
                                  sqlite3_column_int64(found, 3)};
                (void)sqlite3_reset(found); /* it succeeded */
                bool has = false;
                rc = has_result(w, &l, &has);
                if (has) /* the leader takes it soon; those after it come later */
                        break;
                if (rc == SQLITE_OK)
                        rc = writer_run(w, SQL_LAPSE_DROP);
        }
        w->mirrored.is_applying = true; /* nothing of it is for the mirror */
        w->mirrored.upto = w->mirrored.change;
        if (rc == SQLITE_OK)
                rc = writer_end(w, 0);
        int err = rc == SQLITE_OK ? OK : writer_undo(w, p);
        w->mirrored.is_applying = false;
        return err;
}

static int lapse_some(struct archive_writer *w, struct archive_sweep *s)
{
        bool is_more = true;
        int rc = SQLITE_OK;
        struct arena arena;
        arena_init(&arena, 0);
        w->n_picks = 0;
        for (int64_t n = writer_is_mirrored(w) ? STEP_LAPSES : step_rows(w);
             n > 0 && is_more && rc == SQLITE_OK; n--)
                rc = lapse_one(w, s->now_ms, &arena, &is_more);
        if (rc == SQLITE_OK)
                rc = dense_pack(w, 1);
        if (rc == SQLITE_OK)
                rc = writer_end(w, 0);
        arena_release(&arena);
        if (rc == SQLITE_OK)
                s->are_results_done = !is_more;
        return rc;
}

/* Is there a result to take?  Looks before a transaction is begun for it. */
static int has_lapse(struct archive_writer *w, const struct archive_sweep *s, bool *ret)
{
        writer_bind(w, SQL_LAPSE_FIND, 1, s->now_ms);
        int rc = writer_step(w, SQL_LAPSE_FIND, ret);
        (void)sqlite3_reset(w->stmts[SQL_LAPSE_FIND]); /* repeats the error of step */
        return rc;
}

static int sweep_results(struct archive_writer *w, struct archive_sweep *s, struct problem *p)
{
        bool is_row = false;
        int rc = has_lapse(w, s, &is_row);
        if (rc != SQLITE_OK)
                return writer_fail(w, p);
        if (!is_row) {
                s->are_results_done = true;
                return OK;
        }
        rc = writer_run(w, SQL_BEGIN);
        if (rc == SQLITE_OK)
                rc = lapse_some(w, s);
        return rc == SQLITE_OK ? OK : writer_undo(w, p);
}

/* ---- blocks ---- */

static int64_t until_of(const struct archive_sweep *s, const struct block_mark *m)
{
        return m->family == FAMILY_FAILED ? s->failed_until_ms : s->done_until_ms;
}

/* Buries what is past its time of a block that also has younger jobs. */
static int expire_some(struct archive_writer *w, struct archive_sweep *s,
                       const struct block_mark *m)
{
        uint16_t gone[BLOCK_JOBS];
        size_t n = 0;
        int64_t first_left = m->finished_last, until_ms = until_of(s, m);
        struct block b = {0};
        int err = blocks_read(w->blocks, m, &b, &w->trouble);
        if (err == ERR_CORRUPT)
                w->trouble.err = OK; /* it goes when the time of all its jobs is over */
        else if (err)
                return writer_code(err);
        for (size_t i = 0; i < b.n; i++) {
                if (block_mark_is_dead(m, i))
                        continue;
                if (b.finished_ms[i] <= until_ms)
                        gone[n++] = (uint16_t)i;
                else if (b.finished_ms[i] < first_left)
                        first_left = b.finished_ms[i];
        }
        block_release(&b);
        s->deleted += n;
        return writer_code(blocks_bury(w->blocks, m, gone, n, first_left, &w->trouble));
}

/* Blocks go as a whole, but for those at the edge of the time. */
static int expire_blocks(struct archive_writer *w, struct archive_sweep *s, size_t *ret)
{
        int rc = SQLITE_OK;
        size_t opened = 0;
        *ret = 0;
        for (size_t i = 0; i < blocks_len(w->blocks) && rc == SQLITE_OK; i++) {
                const struct block_mark *m = blocks_at(w->blocks, i);
                if (m->finished_first > until_of(s, m))
                        continue;
                if (*ret == STEP_BLOCKS || opened == STEP_OPENED)
                        return SQLITE_OK;
                if (m->finished_last <= until_of(s, m)) {
                        s->deleted += m->n - m->n_dead;
                        rc = writer_code(blocks_drop(w->blocks, m, &w->trouble));
                } else {
                        rc = expire_some(w, s, m);
                        opened++;
                }
                ++*ret;
        }
        return rc;
}

static int sweep_blocks(struct archive_writer *w, struct archive_sweep *s, struct problem *p)
{
        size_t changed = 0;
        int rc = writer_run(w, SQL_BEGIN);
        if (rc == SQLITE_OK)
                rc = expire_blocks(w, s, &changed);
        if (rc == SQLITE_OK)
                rc = writer_end(w, 0);
        if (rc != SQLITE_OK)
                return writer_undo(w, p);
        s->is_over = changed == 0;
        return OK;
}

int archive_writer_sweep(struct archive_writer *w, struct archive_sweep *s, struct problem *p)
{
        bool is_row;
        s->deleted = 0;
        s->is_over = false;
        if (!s->are_results_done)
                return sweep_results(w, s, p);
        writer_bind(w, SQL_SPAN_FIND, 1, s->block);
        writer_bind(w, SQL_SPAN_FIND, 2, s->done_until_ms);
        writer_bind(w, SQL_SPAN_FIND, 3, s->failed_until_ms);
        int rc = writer_step(w, SQL_SPAN_FIND, &is_row);
        if (rc != SQLITE_OK)
                return writer_fail(w, p);
        if (!is_row)
                return sweep_blocks(w, s, p);
        int64_t block = sqlite3_column_int64(w->stmts[SQL_SPAN_FIND], 0);
        (void)sqlite3_reset(w->stmts[SQL_SPAN_FIND]); /* it succeeded */
        rc = writer_run(w, SQL_BEGIN);
        if (rc == SQLITE_OK)
                rc = expire(w, s, block);
        return rc == SQLITE_OK ? OK : writer_undo(w, p);
}
