/* Finding jobs in history.
 *
 * A job is in a row of the history file or in a block.  A listing walks over both from the newest
 * id (or from the oldest, or from the cursor), each a step at a time (row_walk.h, block_walk.h):
 * the next step is that of the walk which is further behind, so neither looks further ahead than
 * the page needs.
 *
 * Texts (MATCH) and tiers have no marks, and names together may be in a span or a block without
 * meeting in a job.  So a listing has a budget of jobs and of time; what it found until then is the
 * answer, with is_cut and the id it got to, and the asker decides whether to go on.  Rows
 * themselves are bounded in bytes the same way: a thousand jobs of a mebibyte each are no reply.
 *
 * A query is one read transaction, so it holds a checkpoint up for no longer than its budget.  It
 * holds blocks_lock() from before its begin, so rows and marks are of the same moment: a job that
 * moves from a row into a block is in one of them. */
#include "history/archive_finder.h"

#include <stdio.h>
#include <time.h>

#include "base/say.h"
#include "history/archive_file.h"
#include "history/checksum.h"
#include "history/events_json.h"

#define CLOCK_EVERY 64   /* jobs between two looks at the clock, when they are cheap to look at */
#define VIEW_BYTES  1024 /* what a job counts for in an answer, beside its texts */

static int64_t now_ms(void)
{
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
        return t.tv_sec * MS_PER_S + t.tv_nsec / NS_PER_MS;
}

/* --- a job in a row --- */

static bool copy_column(sqlite3_stmt *row, enum archive_column which, struct arena *arena,
                        struct slice *ret)
{
        struct slice s = row_bytes_of(row, which);
        *ret = SLICE_NONE;
        if (s.len)
                *ret = arena_copy(arena, s);
        return !s.len || ret->ptr;
}

static size_t row_bytes(sqlite3_stmt *row)
{
        static const enum archive_column long_ones[] = {COLUMN_PROGRESS, COLUMN_ERROR,
                                                        COLUMN_RESULT,   COLUMN_ARGS,
                                                        COLUMN_EVENTS,   COLUMN_OPTIONS};
        size_t n = VIEW_BYTES;
        for (size_t i = 0; i < ARRAY_LEN(long_ones); i++)
                n += (size_t)sqlite3_column_bytes(row, (int)long_ones[i]);
        return n;
}

/* Nothing of a damaged row is given out but its id, and its status for the listing's sake. */
static void read_damaged(struct archive_finder *f, sqlite3_stmt *row, struct job_view *v)
{
        int64_t status = row_number_of(row, COLUMN_STATUS);
        *v = (struct job_view){
                .id = (uint64_t)row_number_of(row, COLUMN_ID),
                .status = status >= JOB_COMPLETE && status <= JOB_CANCELED ? (enum job_status)status
                                                                           : JOB_FAILED,
                .error = SLICE_LIT("history is damaged here: the checksum of this row is wrong"),
                .is_damaged = true,
        };
        if (f->damaged_id != v->id)
                say_error("history", "the checksum of a row is wrong, not delivering it", "path",
                          f->file.path, "job", SAY_I64(v->id));
        f->damaged_id = v->id;
}

static bool copy_names(sqlite3_stmt *row, struct arena *arena, struct job_view *v)
{
        return copy_column(row, COLUMN_HOOK, arena, &v->hook) &&
               copy_column(row, COLUMN_QUEUE, arena, &v->queue) &&
               copy_column(row, COLUMN_GROUP, arena, &v->group) &&
               copy_column(row, COLUMN_WORKER, arena, &v->worker);
}

static bool copy_texts(sqlite3_stmt *row, struct arena *arena, struct job_view *v)
{
        return copy_column(row, COLUMN_ARGS, arena, &v->args) &&
               copy_column(row, COLUMN_PROGRESS, arena, &v->progress) &&
               copy_column(row, COLUMN_RESULT, arena, &v->result) &&
               copy_column(row, COLUMN_ERROR, arena, &v->error) &&
               copy_column(row, COLUMN_OPTIONS, arena, &v->options);
}

/* Into the next of q->rows. */
static int read_row(struct archive_finder *f, sqlite3_stmt *row, struct archive_query *q)
{
        struct job_view *v = &q->rows[q->n_rows];
        if (checksum_check(row, f->is_checksum_required) == CHECKSUM_BAD) {
                read_damaged(f, row, v);
                return OK;
        }
        *v = (struct job_view){
                .id = (uint64_t)row_number_of(row, COLUMN_ID),
                .status = (enum job_status)row_number_of(row, COLUMN_STATUS),
                .priority = (uint8_t)row_number_of(row, COLUMN_PRIORITY),
                .attempt = (uint16_t)row_number_of(row, COLUMN_ATTEMPT),
                .attempts_max = (uint16_t)row_number_of(row, COLUMN_ATTEMPTS_MAX),
                .timeout_ms = (uint32_t)row_number_of(row, COLUMN_TIMEOUT),
                .created_ms = row_number_of(row, COLUMN_CREATED),
                .due_ms = row_number_of(row, COLUMN_DUE),
                .started_ms = row_number_of(row, COLUMN_STARTED),
                .finished_ms = row_number_of(row, COLUMN_FINISHED),
                .fence = (uint64_t)row_number_of(row, COLUMN_FENCE),
        };
        if ((unsigned)v->status >= JOB_STATUS_COUNT)
                return ERR_CORRUPT;
        if (!copy_names(row, &q->arena, v))
                return ERR_NOMEM;
        if (q->is_without_texts)
                return OK;
        if (!copy_texts(row, &q->arena, v))
                return ERR_NOMEM;
        int err = events_json_read(row_bytes_of(row, COLUMN_EVENTS), &q->arena, &f->scratch, v);
        if (err == ERR_CORRUPT) {
                /* The job itself is sound: better without its events than not at all. */
                say_warn("history", "a job's events cannot be read, ignoring them", "path",
                         f->file.path, "job", SAY_I64(v->id));
                return OK;
        }
        return err;
}

/* The row of that id from `one`, which the caller resets; *ret is false when there is none. */
static int fetch(struct archive_finder *f, uint64_t id, bool *ret, struct problem *p)
{
        *ret = false;
        if (id > ID_RANGE_MAX)
                return OK;
        if (sqlite3_bind_int64(f->one, 1, (int64_t)id) != SQLITE_OK)
                return archive_file_fail(f->file.db, f->file.path, p);
        int rc = sqlite3_step(f->one);
        *ret = rc == SQLITE_ROW;
        return rc == SQLITE_ROW || rc == SQLITE_DONE
                       ? OK
                       : archive_file_fail(f->file.db, f->file.path, p);
}

/* --- a job in a block --- */

/* What stands for the jobs of a damaged block.  Its status is one that the block has jobs of. */
static void read_damage(const struct block_mark *m, uint64_t id, struct archive_query *q)
{
        struct job_view *v = &q->rows[q->n_rows++];
        char text[128];
        (void)snprintf(text, sizeof(text), "history is damaged here: block %llu, jobs %llu to %llu",
                       (unsigned long long)m->number, (unsigned long long)m->first_id,
                       (unsigned long long)m->last_id);
        *v = (struct job_view){
                .id = id,
                .status = JOB_FAILED,
                .error = arena_copy(&q->arena, slice_str(text)),
                .is_damaged = true,
        };
        if (!v->error.ptr)
                v->error = SLICE_LIT("history is damaged here");
        if (q->filter.status >= 0 && m->n_status[q->filter.status])
                v->status = (enum job_status)q->filter.status;
        else if (m->n_status[JOB_COMPLETE])
                v->status = JOB_COMPLETE;
        else if (m->n_status[JOB_CANCELED])
                v->status = JOB_CANCELED;
}

/* --- an answer --- */

struct walk {
        struct archive_finder *f;
        struct archive_query *q;
        struct problem *p;
        struct row_walk rows;
        struct block_walk *blocks;
        uint64_t start;    /* where the walk was at first */
        size_t seen, work; /* jobs in all, and since the last look at the clock */
        int64_t until_ms;
        size_t bytes, bytes_max;
        bool is_over; /* the page is full, or it was cut */
};

/* Is there room for one more of this size?  There always is for the first. */
static bool has_room(struct walk *w, size_t bytes)
{
        w->bytes += bytes;
        return w->q->n_rows == 0 || w->bytes <= w->bytes_max;
}

/* After reading the next of q->rows; *ret_full when there was no more room for it and it must be
 * asked for again. */
static int end_take(struct walk *w, int err, bool *ret_full)
{
        *ret_full = err == ERR_NOMEM && w->q->n_rows > 0;
        if (!err)
                w->q->n_rows++;
        return *ret_full ? OK : err;
}

static int take_fetched(struct walk *w, bool *ret_full)
{
        *ret_full = !has_room(w, row_bytes(w->f->one));
        return *ret_full ? OK : end_take(w, read_row(w->f, w->f->one, w->q), ret_full);
}

/* A job that is in a block. */
static int take_job(struct walk *w, const struct shelf_place *at, bool *ret_full)
{
        struct archive_query *q = w->q;
        struct block *b = at->block;
        struct block_texts t = {0};
        *ret_full = false;
        if (q->is_brief) {
                q->refs[q->n_rows++] =
                        (struct archive_ref){b->id[at->at], b->run[at->at], b->finished_ms[at->at]};
                return OK;
        }
        int err = q->is_without_texts ? OK : block_texts(b, at->at, &t);
        if (!err && !has_room(w, VIEW_BYTES + t.args.len + t.result.len + t.error.len +
                                         t.progress.len + t.options.len + t.events.len)) {
                *ret_full = true;
                return OK;
        }
        if (!err && q->is_without_texts)
                err = block_columns(b, at->at, &q->arena, &q->rows[q->n_rows]);
        else if (!err)
                err = block_view(b, at->at, &q->arena, &w->f->scratch, &q->rows[q->n_rows]);
        if (err == ERR_CORRUPT) { /* its columns are sound and its texts are not */
                read_damage(at->mark, b->id[at->at], q);
                return OK;
        }
        return end_take(w, err, ret_full);
}

/* What is at the place of a job that is in a block, if there is any. */
static int take_place(struct walk *w, const struct shelf_place *at, uint64_t id, bool *ret_full)
{
        *ret_full = false;
        if (at->block)
                return take_job(w, at, ret_full);
        if (at->mark && !w->q->is_brief) {
                *ret_full = !has_room(w, VIEW_BYTES);
                if (!*ret_full)
                        read_damage(at->mark, id, w->q);
        }
        return OK;
}

/* --- ids that are named --- */

/* The job of this id, if it is there.  A row is read in one go: it may be deleted at any moment. */
static int take_id(struct walk *w, uint64_t id, bool *ret_full)
{
        struct archive_finder *f = w->f;
        struct archive_query *q = w->q;
        bool is_row;
        *ret_full = false;
        int err = fetch(f, id, &is_row, w->p);
        if (!err && is_row && q->is_brief)
                q->refs[q->n_rows++] =
                        (struct archive_ref){id, (uint64_t)row_number_of(f->one, COLUMN_RUN),
                                             row_number_of(f->one, COLUMN_FINISHED)};
        else if (!err && is_row)
                err = take_fetched(w, ret_full);
        (void)sqlite3_reset(f->one); /* its error was seen at step */
        if (err || is_row || !f->shelf.blocks)
                return err;
        struct shelf_place at;
        err = block_shelf_find(&f->shelf, id, &at, w->p);
        return err ? err : take_place(w, &at, id, ret_full);
}

static int take_ids(struct walk *w)
{
        struct archive_query *q = w->q;
        int err = OK;
        for (size_t i = 0; i < q->n_ids && q->n_rows < q->limit && !err && !q->is_cut; i++) {
                if (i > 0 && now_ms() >= w->until_ms)
                        q->is_cut = true;
                else
                        err = take_id(w, q->ids[i], &q->is_cut);
                q->n_seen = q->is_cut ? i : i + 1;
        }
        return err;
}

/* --- a listing --- */

/* The walk that is to go on next: rows first when both are at the same id. */
static bool is_row_next(const struct walk *w)
{
        const struct id_range *rows = &w->rows.left, *blocks = &w->blocks->left;
        if (id_range_is_empty(rows) || id_range_is_empty(blocks))
                return id_range_is_empty(blocks);
        return w->q->is_oldest ? rows->low <= blocks->low : rows->high >= blocks->high;
}

static bool is_left(const struct walk *w)
{
        return !id_range_is_empty(&w->rows.left) || !id_range_is_empty(&w->blocks->left);
}

/* Nothing before this id is left; when something is left at all. */
static uint64_t position(const struct walk *w)
{
        const struct id_range *next = is_row_next(w) ? &w->rows.left : &w->blocks->left;
        return id_range_next(next, w->q->is_oldest);
}

static void cut(struct walk *w)
{
        w->q->is_cut = true;
        w->q->last_id = position(w) + (w->q->is_oldest ? -1ULL : 1);
        w->is_over = true;
}

/* A budget ends no walk that did not move yet: who goes on from there would never get further. */
static bool is_budget_spent(struct walk *w)
{
        if (w->seen < w->f->rows_max && w->work < CLOCK_EVERY)
                return false;
        w->work = 0;
        return is_left(w) && position(w) != w->start &&
               (w->seen >= w->f->rows_max || now_ms() >= w->until_ms);
}

/* A job was looked at, and so many bytes of its texts. */
static void look_is_over(struct walk *w, uint64_t id, size_t text_bytes)
{
        w->q->last_id = id;
        w->seen++;
        w->work += 1 + text_bytes / 1024; /* a long text takes as long as many jobs */
        /* Not cut when the page is full: that is an answer like any other. */
        w->is_over = w->q->n_rows == w->q->limit;
}

static int take_row(struct walk *w, bool *ret_full)
{
        struct archive_ref ref = row_walk_ref(&w->rows);
        bool is_there;
        *ret_full = false;
        if (w->q->is_brief) {
                w->q->refs[w->q->n_rows++] = ref;
                return OK;
        }
        int err = fetch(w->f, ref.id, &is_there, w->p);
        if (!err && !is_there)
                err = ERR_CORRUPT; /* an index that names a row that is not there */
        if (!err)
                err = take_fetched(w, ret_full);
        (void)sqlite3_reset(w->f->one); /* its error was seen at step */
        return err;
}

static int step_rows(struct walk *w)
{
        struct row_walk *r = &w->rows;
        bool is_full = false;
        if (!r->is_at_row) {
                int err = row_walk_step(r, w->p);
                if (!r->is_at_row)
                        w->work = CLOCK_EVERY; /* a span takes as long as some rows */
                return err;
        }
        if (row_walk_matches(r)) {
                int err = take_row(w, &is_full);
                if (err)
                        return err;
        }
        if (is_full) {
                cut(w);
                return OK;
        }
        uint64_t id = id_range_next(&r->left, w->q->is_oldest);
        size_t bytes = row_walk_text_bytes(r);
        row_walk_pass(r);
        look_is_over(w, id, bytes);
        return OK;
}

/* Takes what the walk over blocks is at, when it matches. */
static int look_at_block(struct walk *w, bool *ret_full)
{
        struct block_walk *b = w->blocks;
        struct shelf_place at = {.mark = b->damaged};
        uint64_t id = id_range_next(&b->left, w->q->is_oldest);
        *ret_full = false;
        if (b->place == BLOCKS_AT_DAMAGE)
                return take_place(w, &at, id, ret_full);
        int err = block_walk_job(b, &at.block, &at.at, w->p);
        if (err == ERR_CORRUPT) { /* it had to be read again: the walk is at the damage now */
                at.mark = b->damaged;
                return take_place(w, &at, id_range_next(&b->left, w->q->is_oldest), ret_full);
        }
        if (err)
                return err;
        bool is_match;
        at.mark = b->opened[b->current].mark;
        err = block_walk_texts(b, at.block, at.at, &is_match);
        if (err == ERR_CORRUPT) /* nobody can tell: it is shown as damaged */
                at.block = NULL;
        else if (err || !is_match)
                return err;
        return take_place(w, &at, id, ret_full);
}

static int step_blocks(struct walk *w)
{
        struct block_walk *b = w->blocks;
        bool is_full;
        if (b->place == BLOCKS_BETWEEN) {
                int err = block_walk_step(b, w->p);
                if (b->place == BLOCKS_BETWEEN)
                        w->work = CLOCK_EVERY; /* a block or a window of marks */
                return err;
        }
        size_t searched = b->filter.searched_bytes;
        uint64_t id = id_range_next(&b->left, w->q->is_oldest);
        int err = look_at_block(w, &is_full);
        if (err)
                return err;
        if (is_full) {
                cut(w);
                return OK;
        }
        block_walk_pass(b);
        look_is_over(w, id, b->filter.searched_bytes - searched);
        return OK;
}

static int walk_all(struct walk *w)
{
        int err = OK;
        w->start = is_left(w) ? position(w) : 0;
        while (!err && !w->is_over && is_left(w)) {
                err = is_row_next(w) ? step_rows(w) : step_blocks(w);
                if (!err && !w->is_over && is_budget_spent(w))
                        cut(w);
        }
        return err;
}

static bool make_room(struct archive_query *q, size_t n)
{
        if (q->is_brief)
                q->refs = arena_array(&q->arena, n, sizeof(*q->refs));
        else
                q->rows = arena_array(&q->arena, n, sizeof(*q->rows));
        return q->refs || q->rows;
}

static int list(struct walk *w)
{
        struct archive_query *q = w->q;
        struct id_range range = {.low = q->after_id + (q->after_id < UINT64_MAX),
                                 .high = q->before_id ? q->before_id - 1 : ID_RANGE_MAX};
        if (range.high > ID_RANGE_MAX) /* before_id may be anything */
                range.high = ID_RANGE_MAX;
        if (q->filter.status == JOB_PENDING || q->filter.status == JOB_RUNNING)
                return OK;
        w->rows.left = range;
        int err = row_walk_begin(&w->rows, &w->f->file, q, w->p);
        block_walk_begin(w->blocks, &w->f->shelf, q, &range);
        if (!err)
                err = walk_all(w);
        row_walk_end(&w->rows);
        block_walk_end(w->blocks);
        return err;
}

static int answer(struct archive_finder *f, struct archive_query *q, struct problem *p)
{
        struct walk w = {
                .f = f,
                .q = q,
                .p = p,
                .blocks = &f->walk,
                .until_ms = now_ms() + (q->ms_max && q->ms_max < f->ms_max ? q->ms_max : f->ms_max),
                .bytes_max = q->bytes_max ? q->bytes_max : ARCHIVE_FIND_BYTES,
        };
        bool is_full;
        if (!q->id && !q->limit)
                return OK;
        if (!make_room(q, q->id ? 1 : q->limit))
                return ERR_NOMEM;
        if (q->id)
                return take_id(&w, q->id, &is_full);
        return q->n_ids ? take_ids(&w) : list(&w);
}

/* --- the finder --- */

static int run_once(struct archive_finder *f, sqlite3_stmt *stmt, struct problem *p)
{
        int rc = sqlite3_step(stmt);
        int err = rc == SQLITE_DONE ? OK : archive_file_fail(f->file.db, f->file.path, p);
        (void)sqlite3_reset(stmt); /* its error was seen at step */
        return err;
}

void archive_finder_run(struct archive_finder *f, struct archive_query *q)
{
        bool is_inside = !sqlite3_get_autocommit(f->file.db);
        f->problem = (struct problem){0};
        q->rows = NULL;
        q->refs = NULL;
        q->n_rows = 0;
        q->is_cut = false;
        q->last_id = 0;
        q->n_seen = 0;
        if (!q->arena.max_bytes)
                arena_init(&q->arena, 2 * ARCHIVE_FIND_BYTES);
        if (f->shelf.blocks)
                blocks_lock(f->shelf.blocks);
        q->err = is_inside ? OK : run_once(f, f->begin, &f->problem);
        if (!q->err)
                q->err = answer(f, q, &f->problem);
        if (!is_inside && !sqlite3_get_autocommit(f->file.db)) /* some errors end it */
                (void)run_once(f, f->end, NULL); /* nothing was written that could be lost */
        block_shelf_trim(&f->shelf);
        if (f->shelf.blocks)
                blocks_unlock(f->shelf.blocks);
        if (q->err && f->problem.detail[0])
                say_warn("history", "cannot read", "problem", f->problem.detail);
}

int archive_finder_use(struct archive_finder *f, sqlite3 *db, const char *path,
                       struct blocks *blocks, struct problem *p)
{
        int err = OK;
        *f = (struct archive_finder){.file = {.db = db, .path = path},
                                     .rows_max = ARCHIVE_FIND_ROWS,
                                     .ms_max = ARCHIVE_FIND_MS};
        buf_init(&f->scratch, 0);
        block_shelf_init(&f->shelf, blocks);
        if (sqlite3_prepare_v2(db, "SELECT * FROM job WHERE id = ?1", -1, &f->one, NULL) !=
                    SQLITE_OK ||
            sqlite3_prepare_v2(db, "BEGIN", -1, &f->begin, NULL) != SQLITE_OK ||
            sqlite3_prepare_v2(db, "COMMIT", -1, &f->end, NULL) != SQLITE_OK ||
            checksum_is_required(db, &f->is_checksum_required) != SQLITE_OK)
                err = archive_file_fail(db, path, p);
        if (!err)
                err = row_file_prepare(&f->file, p);
        if (err)
                archive_finder_close(f);
        return err;
}

int archive_finder_open(struct archive_finder *f, const char *path, struct blocks *blocks,
                        struct problem *p)
{
        sqlite3 *db = NULL;
        int err = archive_file_open_reader(path, &db, p);
        return err ? err : archive_finder_use(f, db, path, blocks, p);
}

void archive_finder_close(struct archive_finder *f)
{
        block_walk_release(&f->walk);
        block_shelf_release(&f->shelf);
        row_file_release(&f->file);
        (void)sqlite3_finalize(f->one); /* finalize repeats the last error of a statement */
        (void)sqlite3_finalize(f->begin);
        (void)sqlite3_finalize(f->end);
        f->one = f->begin = f->end = NULL;
        if (f->file.db)
                (void)sqlite3_close(f->file.db); /* no statement is open */
        f->file.db = NULL;
        buf_release(&f->scratch);
}
