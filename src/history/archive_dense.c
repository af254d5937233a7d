/* Jobs that lie close together, on their way into blocks.
 *
 * The jobs of a transaction are sorted by their ids.  Those of one window and family that are at
 * least DENSE_LEAST make blocks, evenly filled; fewer are rows until the writer is idle and packs
 * them with others (archive_pack.c).  Rows are also jobs of a later run, which take the place of
 * another, and jobs whose result goes before they do.
 *
 * With a mirror all jobs go into blocks, however few. */
#include <stdlib.h>

#include "history/archive_writer_int.h"

#define DENSE_LEAST 64

/* By id; the same id in the order in which they came. */
static int by_id(const void *a, const void *b)
{
        const struct pick *x = a, *y = b;
        if (x->id != y->id)
                return x->id < y->id ? -1 : 1;
        return x->at < y->at ? -1 : x->at > y->at;
}

static void sort_picks(struct archive_writer *w)
{
        for (size_t i = 1; i < w->n_picks; i++) {
                if (w->picks[i - 1].id > w->picks[i].id) {
                        qsort(w->picks, w->n_picks, sizeof(*w->picks), by_id);
                        return;
                }
        }
}

/* Was it handed over already, in an earlier life of weir? */
static int is_stored(struct archive_writer *w, uint64_t id, bool *ret)
{
        const struct block_mark *m;
        size_t at;
        writer_bind(w, SQL_IS_ROW, 1, (int64_t)id);
        int rc = writer_step(w, SQL_IS_ROW, ret);
        (void)sqlite3_reset(w->stmts[SQL_IS_ROW]); /* repeats the error of step */
        if (rc != SQLITE_OK || *ret)
                return rc;
        int err = blocks_find(w->blocks, id, &w->cache, &m, &at, &w->trouble);
        if (err == ERR_CORRUPT) {
                w->trouble.err = OK; /* what cannot be read does not count */
                return SQLITE_OK;
        }
        *ret = !err && m;
        return writer_code(err);
}

/* A job that was taken back and ended again may be there twice.  Its latest run counts, and of the
 * same run the first: that one is in *k afterwards. */
static void keep_latest(const struct archive_writer *w, struct pick *before, struct pick *k)
{
        if (wish_of(&w->views[k->at]).run <= wish_of(&w->views[before->at]).run) {
                struct pick other = *k;
                *k = *before;
                *before = other;
        }
        before->is_done = true;
}

/* Which of them may be in a block. */
static int sort_out(struct archive_writer *w)
{
        int rc = SQLITE_OK;
        for (size_t i = 0; i < w->n_picks && rc == SQLITE_OK; i++) {
                struct pick *k = &w->picks[i];
                const struct job_view *v = &w->views[k->at];
                struct wish wish = wish_of(v);
                k->is_row =
                        !writer_is_mirrored(w) && (wish.run || (wish.result_ms && v->result.len));
                if (writer_is_mirrored(w) && (wish.run || k->id <= w->again_until_id))
                        rc = rows_drop_older_of_block(w, k->id, wish.run, &k->is_done);
                else if (!k->is_row && k->id <= w->again_until_id)
                        rc = is_stored(w, k->id, &k->is_done);
                if (i && w->picks[i - 1].id == k->id)
                        keep_latest(w, &w->picks[i - 1], k);
        }
        return rc;
}

static bool is_of(const struct archive_writer *w, const struct pick *k, enum block_family family)
{
        return !k->is_row && !k->is_done && family_of(w->views[k->at].status) == family;
}

static int put_block(struct archive_writer *w, enum block_family family)
{
        struct slice bytes;
        int err = block_maker_end(w->maker, &bytes);
        if (err)
                err = problem_set(&w->trouble, err, "no memory for a block of history");
        else
                err = blocks_put(w->blocks, bytes, family, &w->trouble);
        return writer_code(err);
}

/* The picks from..to are of one window; `n` of them are of the family. */
static int put_family(struct archive_writer *w, size_t from, size_t to, enum block_family family,
                      size_t n)
{
        size_t n_blocks = (n + BLOCK_JOBS - 1) / BLOCK_JOBS, each = (n + n_blocks - 1) / n_blocks;
        int rc = SQLITE_OK;
        for (size_t i = from; i < to && rc == SQLITE_OK; i++) {
                struct pick *k = &w->picks[i];
                if (!is_of(w, k, family))
                        continue;
                struct wish wish = wish_of(&w->views[k->at]);
                block_maker_add(w->maker, &w->views[k->at], wish.run);
                k->is_done = true;
                rc = rows_add_lapse(w, &w->views[k->at], &wish);
                if (rc == SQLITE_OK && (block_maker_len(w->maker) == each ||
                                        block_maker_raw_bytes(w->maker) >= BLOCK_FULL))
                        rc = put_block(w, family);
        }
        if (rc == SQLITE_OK && block_maker_len(w->maker))
                rc = put_block(w, family);
        return rc;
}

static int add_window(struct archive_writer *w, size_t from, size_t to, size_t least)
{
        int rc = SQLITE_OK;
        for (enum block_family family = 0; family < FAMILIES && rc == SQLITE_OK; family++) {
                size_t n = 0;
                for (size_t i = from; i < to; i++)
                        n += is_of(w, &w->picks[i], family);
                if (n >= least)
                        rc = put_family(w, from, to, family, n);
        }
        for (size_t i = from; i < to; i++)
                w->picks[i].is_row |= !w->picks[i].is_done;
        return rc;
}

int dense_add(struct archive_writer *w)
{
        sort_picks(w);
        int rc = sort_out(w);
        return rc == SQLITE_OK
                       ? dense_pack(w, w->is_short || writer_is_mirrored(w) ? 1 : DENSE_LEAST)
                       : rc;
}

int dense_pack(struct archive_writer *w, size_t least)
{
        int rc = SQLITE_OK;
        sort_picks(w);
        block_maker_clear(w->maker); /* of a transaction that failed */
        for (size_t from = 0; from < w->n_picks && rc == SQLITE_OK;) {
                size_t to = from + 1;
                while (to < w->n_picks &&
                       window_of(w->picks[to].id) == window_of(w->picks[from].id))
                        to++;
                rc = add_window(w, from, to, least);
                from = to;
        }
        return rc;
}
