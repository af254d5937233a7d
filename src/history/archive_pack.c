/* Packing: rows become blocks, and small blocks larger ones, when the writer has nothing else to
 * do.
 *
 * A pass goes first over all windows that have rows, a step at a time: the rows of a window, as
 * many as a step may have, are read by a finder of its own, made into blocks, and deleted, in one
 * transaction.  A window that may still get many more jobs, which is the newest, is packed only by
 * full blocks; others when it is worth a block.  What is left are rows: few, late, or with a result
 * that goes before they do.  They are looked at again in the next pass.
 *
 * Then it goes over the windows with small blocks, of quiet times or with many deleted jobs: those
 * of a window and family are put together.  The newest window is left alone, since more will come;
 * with a mirror, where every transaction makes blocks however small, it waits until there are
 * MERGE_MOST of them.
 *
 * A file of an older weir is nothing but rows, so this is also how it is converted: whenever weir
 * ends, each job is in a row or in a block. */
#include "history/archive_writer_int.h"

#define STEP_JOBS   4096
#define STEP_BYTES  (16 * MIB)
#define PACK_LEAST  64               /* rows of a window and family that are worth a block */
#define SMALL_JOBS  (BLOCK_JOBS / 2) /* fewer than this and no more bytes: a small block */
#define SMALL_BYTES (64 * KIB)
#define MERGE_MOST  64U /* small blocks in a step */

/* The first window from k->window on that has rows. */
static int next_window(struct archive_writer *w, struct archive_pack *k, bool *ret)
{
        writer_bind(w, SQL_NEXT_ROW, 1, (int64_t)(k->window << WINDOW_SHIFT));
        int rc = writer_step(w, SQL_NEXT_ROW, ret);
        if (*ret)
                k->window = window_of((uint64_t)sqlite3_column_int64(w->stmts[SQL_NEXT_ROW], 0));
        (void)sqlite3_reset(w->stmts[SQL_NEXT_ROW]); /* repeats the error of step */
        return rc;
}

static void read_rows(struct archive_writer *w, uint64_t window, struct archive_query *q)
{
        *q = (struct archive_query){
                .after_id = window << WINDOW_SHIFT,
                .before_id = (window + 1) << WINDOW_SHIFT,
                .is_oldest = true,
                .limit = STEP_JOBS,
                .bytes_max = STEP_BYTES,
                .filter = {.status = -1},
        };
        if (q->after_id)
                q->after_id--;
        archive_finder_run(&w->rows_finder, q);
}

/* Takes over those that may be in a block.  Damaged rows stay where they are. */
static void pick_rows(struct archive_writer *w, const struct archive_query *q)
{
        writer_make_room(w, q->n_rows);
        w->n_picks = 0;
        for (size_t i = 0; i < q->n_rows; i++) {
                const struct job_view *v = &q->rows[i];
                bool has_lapse = v->result.len && wish_of(v).result_ms;
                if (v->is_damaged || has_lapse)
                        continue;
                w->views[w->n_picks] = *v;
                w->picks[w->n_picks] = (struct pick){.id = v->id, .at = (uint32_t)w->n_picks};
                w->n_picks++;
        }
}

/* Deletes the rows of those that are in blocks now, and renews their spans. */
static int delete_packed(struct archive_writer *w, int64_t *ret)
{
        int64_t span = -1;
        int rc = SQLITE_OK;
        for (size_t i = 0; i < w->n_picks && rc == SQLITE_OK; i++) {
                const struct pick *k = &w->picks[i];
                if (!k->is_done)
                        continue;
                int64_t its = (int64_t)(k->id >> ARCHIVE_SPAN_SHIFT);
                if (span >= 0 && its != span)
                        rc = rows_renew_span(w, span);
                span = its;
                writer_bind(w, SQL_ROW_DROP, 1, (int64_t)k->id);
                if (rc == SQLITE_OK)
                        rc = writer_run(w, SQL_ROW_DROP);
                ++*ret;
        }
        if (rc == SQLITE_OK && span >= 0)
                rc = rows_renew_span(w, span);
        return rc;
}

/* Rows of the next window that has some. */
static int pack_rows(struct archive_writer *w, struct archive_pack *k, struct problem *p)
{
        struct archive_query q;
        int64_t packed = 0;
        bool is_more;
        int rc = next_window(w, k, &is_more);
        if (rc != SQLITE_OK)
                return writer_fail(w, p);
        if (!is_more) {
                k->are_rows_done = true;
                k->window = 0;
                return OK;
        }
        read_rows(w, k->window, &q);
        if (q.err) {
                arena_release(&q.arena);
                return problem_set(p, q.err, "cannot read rows of history to pack them");
        }
        pick_rows(w, &q);
        bool is_newest = k->window >= window_of((uint64_t)w->last_id);
        rc = writer_run(w, SQL_BEGIN);
        if (rc == SQLITE_OK)
                rc = dense_pack(w, is_newest ? BLOCK_JOBS : PACK_LEAST);
        if (rc == SQLITE_OK)
                rc = delete_packed(w, &packed);
        if (rc == SQLITE_OK)
                rc = writer_end(w, -packed);
        arena_release(&q.arena);
        if (rc != SQLITE_OK)
                return writer_undo(w, p);
        k->packed = (uint64_t)packed;
        /* The same window again while it gives full steps. */
        if (!packed || q.n_rows < STEP_JOBS / 2)
                k->window++;
        return OK;
}

/* ---- small blocks ---- */

static bool is_small(const struct block_mark *m)
{
        return m->n - m->n_dead < SMALL_JOBS && m->bytes <= SMALL_BYTES;
}

/* Small blocks of the family in the window that begins at *i, which goes on to the next one. */
static size_t find_small(const struct blocks *b, size_t *i, enum block_family family,
                         const struct block_mark **ret)
{
        uint64_t window = window_of(blocks_at(b, *i)->last_id);
        size_t n = 0;
        for (; *i < blocks_len(b) && window_of(blocks_at(b, *i)->last_id) == window; ++*i) {
                const struct block_mark *m = blocks_at(b, *i);
                if (m->family == family && is_small(m) && n < MERGE_MOST)
                        ret[n++] = m;
        }
        return n;
}

/* The next window and family from where it is that has some to put together; 0: there is none. */
static size_t next_small(struct archive_writer *w, struct archive_pack *k,
                         const struct block_mark **ret)
{
        uint64_t newest = window_of((uint64_t)w->last_id);
        size_t from = blocks_from(w->blocks, k->window);
        while (from < blocks_len(w->blocks)) {
                uint64_t window = window_of(blocks_at(w->blocks, from)->last_id);
                if (window >= newest && !writer_is_mirrored(w))
                        return 0;
                size_t least = window >= newest ? MERGE_MOST : 2;
                if (window != k->window)
                        k->family = FAMILY_DONE;
                k->window = window;
                size_t next = from;
                size_t n = find_small(w->blocks, &next, k->family, ret);
                if (n >= least)
                        return n;
                if (++k->family < FAMILIES)
                        continue;
                k->family = FAMILY_DONE;
                k->window++;
                from = next;
        }
        return 0;
}

static uint64_t text_bytes(const struct job_view *v)
{
        return v->args.len + v->result.len + v->error.len + v->progress.len + v->options.len +
               v->events.len;
}

/* Takes over the jobs of the block that are not deleted, and adds up their texts; false: it cannot
 * be read, and stays. */
static bool pick_jobs(struct archive_writer *w, const struct block_mark *m, struct arena *arena,
                      uint64_t *bytes)
{
        struct problem p;
        struct block b = {0};
        struct buf scratch CLEANUP(buf_release) = {0};
        size_t before = w->n_picks;
        int err = blocks_read(w->blocks, m, &b, &p);
        if (!err)
                writer_make_room(w, before + b.n);
        for (size_t i = 0; i < b.n && !err; i++) {
                if (block_mark_is_dead(m, i))
                        continue;
                struct job_view *v = &w->views[w->n_picks];
                err = block_view(&b, i, arena, &scratch, v);
                *bytes += err ? 0 : text_bytes(v);
                w->picks[w->n_picks] = (struct pick){.id = b.id[i], .at = (uint32_t)w->n_picks};
                w->n_picks++;
        }
        block_release(&b);
        if (err)
                w->n_picks = before;
        return !err;
}

/* The jobs of these blocks into new ones, and the old ones away. */
static int merge(struct archive_writer *w, const struct block_mark **small, size_t n)
{
        int rc = writer_run(w, SQL_BEGIN);
        if (rc == SQLITE_OK)
                rc = dense_pack(w, 1);
        for (size_t i = 0; i < n && rc == SQLITE_OK; i++)
                rc = writer_code(blocks_drop(w->blocks, small[i], &w->trouble));
        return rc == SQLITE_OK ? writer_end(w, 0) : rc;
}

static int merge_blocks(struct archive_writer *w, struct archive_pack *k, struct problem *p)
{
        const struct block_mark *small[MERGE_MOST];
        struct arena arena;
        size_t n = next_small(w, k, small), n_read = 0, i = 0;
        uint64_t bytes = 0;
        k->is_over = !n;
        if (!n)
                return OK;
        arena_init(&arena, 0);
        w->n_picks = 0;
        for (; i < n && w->n_picks < STEP_JOBS && bytes < STEP_BYTES; i++)
                if (pick_jobs(w, small[i], &arena, &bytes))
                        small[n_read++] = small[i];
        /* Long texts that pack well are small blocks and make no fewer. */
        bool is_worth_it = n_read >= 2 && bytes / BLOCK_FULL + 1 < n_read;
        int rc = is_worth_it ? merge(w, small, n_read) : SQLITE_OK;
        arena_release(&arena);
        if (rc != SQLITE_OK)
                return writer_undo(w, p);
        k->packed = is_worth_it ? w->n_picks : 0;
        bool is_rest = i == n && n < MERGE_MOST;
        if (is_rest || !is_worth_it) {
                k->window += k->family + 1 == FAMILIES;
                k->family = (k->family + 1) % FAMILIES;
        }
        return OK;
}

int archive_writer_pack(struct archive_writer *w, struct archive_pack *k, struct problem *p)
{
        k->packed = 0;
        k->is_over = false;
        return k->are_rows_done ? merge_blocks(w, k, p) : pack_rows(w, k, p);
}
