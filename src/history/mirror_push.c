/* A history file into a mirror.
 *
 * Everything goes in transactions of some MiB, with the numbers that follow the last one.  A block
 * gets another number, as every block of a mirror has the number of its transaction in it; which of
 * its jobs are dead is kept.  Rows, which a mirror has none of, are read window by window and made
 * into blocks, each family by itself. */
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "history/archive_writer_int.h"
#include "history/audits.h"
#include "history/block_table.h"
#include "history/incidents.h"
#include "history/mirror_move.h"
#include "history/mirrored.h"

#define STEP_BYTES (4 * MIB) /* of a transaction, and the row that is one too many */
#define STEP_ROWS  1000
#define PAGE_ROWS  500
#define PAGE_BYTES (16 * MIB)

struct push {
        struct mirror_move *move;
        sqlite3 *db;
        uint64_t change; /* the transaction that is open, or comes next */
        bool is_open;
        size_t n_rows, n_blocks, bytes; /* of it */
        struct block_maker *maker;
        enum block_family family; /* of what is in the maker */
        struct problem *p;
};

/* ---- transactions ---- */

static int push_begin(struct push *u)
{
        struct mirror *m = u->move->mirror;
        if (u->is_open)
                return OK;
        int err = m->ops->begin(m, u->change, u->p);
        if (err)
                m->ops->abandon(m);
        u->is_open = !err;
        u->n_rows = u->n_blocks = u->bytes = 0;
        return err;
}

static int push_end(struct push *u)
{
        struct mirror *m = u->move->mirror;
        if (!u->is_open)
                return OK;
        u->is_open = false;
        int err = m->ops->commit(m, u->p);
        u->change += !err;
        u->move->bytes += err ? 0 : u->bytes;
        if (!err && u->move->progress)
                u->move->progress(u->move->ctx, u->move->jobs, u->move->bytes);
        return err;
}

/* Something was sent, or could not be. */
static int push_sent(struct push *u, int err, size_t bytes)
{
        struct mirror *m = u->move->mirror;
        if (err) {
                m->ops->abandon(m);
                u->is_open = false;
                return err;
        }
        u->bytes += bytes;
        return ++u->n_rows >= STEP_ROWS || u->bytes >= STEP_BYTES ? push_end(u) : OK;
}

static int push_row(struct push *u, enum mirror_kind kind, uint64_t key, struct slice body)
{
        struct mirror *m = u->move->mirror;
        int err = push_begin(u);
        if (err)
                return err;
        struct mirror_row row = {.kind = kind, .key = key, .change = u->change, .body = body};
        return push_sent(u, m->ops->put(m, &row, u->p), body.len);
}

/* The first transaction has a row of MIRROR_LEAD: without one a copy does not believe the rest. */
static int push_lead(struct push *u)
{
        struct rng rng;
        char id[MIRRORED_ID_BYTES];
        rng_init_system(&rng);
        rng_fill(&rng, id, sizeof(id));
        return push_row(u, MIRROR_LEAD, u->change, slice_make(id, sizeof(id)));
}

/* ---- blocks ---- */

/* mark: which of its jobs are dead; NULL: none. */
static int push_block(struct push *u, struct slice bytes, const struct block_mark *mark)
{
        struct mirror *m = u->move->mirror;
        char dead[BLOCK_DEAD_BYTES];
        int err = push_begin(u);
        if (err)
                return err;
        ASSERT(u->n_blocks < MIRRORED_BLOCKS);
        uint64_t number = u->change << MIRRORED_SHIFT | u->n_blocks++;
        struct mirror_row row = {
                .kind = MIRROR_BLOCK, .key = number, .change = u->change, .body = bytes};
        err = m->ops->put(m, &row, u->p);
        if (!err && mark && mark->dead) {
                block_dead_pack(number, mark->dead, dead);
                err = m->ops->bury(m, number, slice_make(dead, sizeof(dead)), u->p);
        }
        return push_sent(u, err, bytes.len);
}

struct block_push {
        struct push *push;
        struct block_table table;
};

static int on_block(void *ctx, const struct block_mark *m, struct problem *p)
{
        struct block_push *b = ctx;
        struct buf bytes CLEANUP(buf_release) = {0};
        struct block block = {0};
        struct problem why;
        int err = block_table_read(&b->table, m, &bytes, &block, &why);
        if (err)
                return problem_set(p, err, "block %llu of history cannot be read: %s",
                                   (unsigned long long)m->number, why.detail);
        b->push->move->jobs += block.n - m->n_dead;
        block_release(&block);
        return push_block(b->push, buf_slice(&bytes), m);
}

static int push_blocks(struct push *u)
{
        struct block_push b = {.push = u};
        int err = block_table_open(&b.table, u->db, u->move->path, u->p);
        if (!err)
                err = block_table_walk(&b.table, on_block, &b, u->p);
        block_table_close(&b.table);
        return err;
}

/* ---- rows ---- */

static int end_block(struct push *u)
{
        struct slice bytes;
        if (!block_maker_len(u->maker))
                return OK;
        int err = block_maker_end(u->maker, &bytes);
        return err ? problem_set(u->p, err, "no memory for a block of history")
                   : push_block(u, bytes, NULL);
}

/* The rows of a family, which are of one window and in the order of their ids. */
static int push_family(struct push *u, const struct archive_query *q, enum block_family family)
{
        int err = OK;
        for (size_t i = 0; i < q->n_rows && !err; i++) {
                const struct job_view *v = &q->rows[i];
                if (family_of(v->status) != family)
                        continue;
                if (v->is_damaged)
                        return problem_set(u->p, ERR_CORRUPT, "job %llu of history is damaged",
                                           (unsigned long long)v->id);
                block_maker_add(u->maker, v, wish_of(v).run);
                u->move->jobs++;
                if (block_maker_len(u->maker) == BLOCK_JOBS ||
                    block_maker_raw_bytes(u->maker) >= BLOCK_FULL)
                        err = end_block(u);
        }
        return err ? err : end_block(u);
}

/* Some rows after *after, all of one window; *after is the last of them then, 0: there are none. */
static int push_page(struct push *u, struct archive_finder *f, uint64_t *after)
{
        struct archive_query q = {.after_id = *after,
                                  .is_oldest = true,
                                  .limit = PAGE_ROWS,
                                  .bytes_max = PAGE_BYTES,
                                  .filter = {.status = -1}};
        int err = OK;
        archive_finder_run(f, &q);
        if (q.err)
                err = problem_set(u->p, q.err, "cannot read the rows of history");
        while (q.n_rows && window_of(q.rows[q.n_rows - 1].id) != window_of(q.rows[0].id))
                q.n_rows--;
        for (enum block_family family = 0; family < FAMILIES && !err; family++)
                err = push_family(u, &q, family);
        *after = q.n_rows ? q.rows[q.n_rows - 1].id : 0;
        arena_release(&q.arena);
        return err;
}

static int push_rows(struct push *u)
{
        struct archive_finder finder = {0};
        sqlite3 *db = NULL;
        uint64_t after = 0;
        int err = archive_file_open_to_look(u->move->path, false, &db, u->p);
        if (err)
                return err;
        err = archive_finder_use(&finder, db, u->move->path, NULL, u->p);
        finder.ms_max = INT64_MAX / NS_PER_MS;
        u->maker = block_maker_new();
        do {
                err = err ? err : push_page(u, &finder, &after);
        } while (!err && after);
        u->maker = block_maker_free(u->maker);
        archive_finder_close(&finder);
        return err;
}

/* ---- the tables ---- */

static int push_minutes(struct push *u)
{
        sqlite3_stmt *row = NULL;
        int err = OK;
        int rc = sqlite3_prepare_v2(u->db, "SELECT (at << 8 | step), body FROM minute", -1, &row,
                                    NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(row);
        for (; rc == SQLITE_ROW && !err; rc = sqlite3_step(row)) {
                struct slice body = slice_make(sqlite3_column_blob(row, 1),
                                               (size_t)sqlite3_column_bytes(row, 1));
                err = push_row(u, MIRROR_MINUTE, (uint64_t)sqlite3_column_int64(row, 0), body);
        }
        (void)sqlite3_finalize(row); /* repeats the error of step */
        if (!err && rc != SQLITE_DONE)
                err = archive_file_fail(u->db, u->move->path, u->p);
        return err;
}

/* Incidents below *before, the newest first; *before is 0 when there are no more. */
static int push_incidents_page(struct push *u, uint64_t *before)
{
        struct archive_incidents q = {.before = *before, .limit = PAGE_ROWS};
        struct buf body CLEANUP(buf_release) = {0};
        arena_init(&q.arena, 0);
        incidents_find(u->db, &q);
        int err = q.err ? problem_set(u->p, q.err, "cannot read the incidents of history") : OK;
        for (size_t i = 0; i < q.n_rows && !err; i++) {
                buf_clear(&body);
                incidents_put_body(&q.rows[i], &body);
                err = push_row(u, MIRROR_INCIDENT, q.rows[i].number, buf_slice(&body));
                *before = q.rows[i].number;
        }
        if (q.n_rows < q.limit)
                *before = 0;
        arena_release(&q.arena);
        return err;
}

static int push_audits_page(struct push *u, uint64_t *before)
{
        struct archive_audits q = {.before = *before, .limit = PAGE_ROWS};
        struct buf body CLEANUP(buf_release) = {0};
        arena_init(&q.arena, 0);
        audits_find(u->db, &q);
        int err = q.err ? problem_set(u->p, q.err, "cannot read the audit trail") : OK;
        if (!err && q.n_damaged)
                err = problem_set(u->p, ERR_CORRUPT, "entry %llu of the audit trail is damaged",
                                  (unsigned long long)q.damaged_at);
        for (size_t i = 0; i < q.n_rows && !err; i++) {
                buf_clear(&body);
                audits_put_body(&q.rows[i], &body);
                err = push_row(u, MIRROR_AUDIT, q.rows[i].number, buf_slice(&body));
        }
        *before = q.n_rows == q.limit || q.is_cut ? q.last : 0;
        arena_release(&q.arena);
        return err;
}

static int push_tables(struct push *u)
{
        int err = push_minutes(u);
        for (uint64_t before = INT64_MAX; !err && before;)
                err = push_incidents_page(u, &before);
        for (uint64_t before = INT64_MAX; !err && before;)
                err = push_audits_page(u, &before);
        return err;
}

/* ---- all of it ---- */

static int push_prepare(struct push *u)
{
        struct mirror *m = u->move->mirror;
        int err = m->ops->last(m, &u->change, u->p);
        u->change++;
        return err;
}

int mirror_push(struct mirror_move *m, struct problem *p)
{
        struct push u = {.move = m, .p = p};
        int err = archive_file_open_to_look(m->path, false, &u.db, p);
        if (!err)
                err = push_prepare(&u);
        if (!err)
                err = push_lead(&u);
        if (!err)
                err = push_blocks(&u);
        if (!err)
                err = push_rows(&u);
        if (!err)
                err = push_tables(&u);
        if (!err)
                err = push_end(&u);
        if (u.is_open)
                m->mirror->ops->abandon(m->mirror);
        (void)sqlite3_close(u.db); /* no statement is open */
        return err;
}

/* ---- clearing ---- */

static int drop_row(struct push *u, enum mirror_kind kind, uint64_t key)
{
        struct mirror *m = u->move->mirror;
        int err = push_begin(u);
        return err ? err : push_sent(u, m->ops->drop(m, kind, key, u->p), 0);
}

static int clear_kind(struct push *u, enum mirror_kind kind)
{
        struct mirror *m = u->move->mirror;
        uint64_t keys[STEP_ROWS];
        size_t n = 1;
        int err = OK;
        while (!err && n) {
                err = m->ops->keys(m, kind, 0, keys, ARRAY_LEN(keys), &n, u->p);
                for (size_t i = 0; i < n && !err; i++)
                        err = drop_row(u, kind, keys[i]);
                if (!err)
                        err = push_end(u);
        }
        return err;
}

int mirror_clear(struct mirror_move *m, struct problem *p)
{
        struct push u = {.move = m, .p = p};
        int err = push_prepare(&u);
        /* From here on no transaction of another one, which may still be under way, is done. */
        if (!err)
                err = push_lead(&u);
        if (!err)
                err = push_end(&u);
        for (enum mirror_kind kind = 0; kind < MIRROR_LEAD && !err; kind++)
                err = clear_kind(&u, kind);
        return err;
}
