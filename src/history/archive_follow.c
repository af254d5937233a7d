/* The copy of a mirror, brought up to date: archive_writer.h tells what each call is for.
 *
 * Following is asking the mirror for what changed since the last transaction that the files have.
 * Rows that were dropped are not among it: comparing the keys finds them.  So a copy in between has
 * jobs twice for a moment, in a block and in the one that took its place; one that is about to lead
 * has followed to the end and compared, and its claim fails if the mirror changed meanwhile.
 *
 * The table lapse is made from the blocks as they come: everything else that the files keep of a
 * job is in its block. */
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "base/say.h"
#include "history/archive_writer_int.h"
#include "history/audits.h"
#include "history/incidents.h"
#include "history/rollups.h"

#define PAGE_BYTES (8 * MIB) /* of rows, taken over in one transaction */
#define PAGE_KEYS  8192
#define DROP_MOST  256U /* blocks in one transaction */

/* ---- the beginning and the end of what comes from the mirror ---- */

static int apply_begin(struct archive_writer *w)
{
        w->mirrored.is_applying = true;
        w->mirrored.upto = w->mirrored.change;
        return writer_run(w, SQL_BEGIN);
}

/* Ends the transaction, or undoes it when rc says that something failed. */
static int apply_end(struct archive_writer *w, int rc, struct problem *p)
{
        int err = OK;
        if (rc == SQLITE_OK)
                rc = writer_end(w, 0);
        if (rc != SQLITE_OK)
                err = writer_undo(w, p);
        w->mirrored.is_applying = false;
        if (!err && (uint64_t)w->last_id < blocks_last_id(w->blocks))
                w->last_id = (int64_t)blocks_last_id(w->blocks);
        return err;
}

/* An error of the mirror, which may be another server by now. */
static int mirror_failed(struct archive_writer *w, int err)
{
        if (err)
                w->mirrored.is_same = false;
        return err;
}

/* ---- rows ---- */

/* Results that go before their jobs. */
static int add_lapses(struct archive_writer *w, struct block *b, struct problem *p)
{
        int rc = SQLITE_OK;
        for (size_t i = 0; i < b->n && rc == SQLITE_OK; i++) {
                struct block_texts texts;
                int err = block_texts(b, i, &texts);
                if (err)
                        return problem_set(p, err, "cannot read a block of the cluster's history");
                struct job_view v = {.id = b->id[i],
                                     .finished_ms = b->finished_ms[i],
                                     .options = texts.options,
                                     .result = texts.result};
                if (!v.options.len || !v.result.len)
                        continue;
                struct wish wish = wish_of(&v);
                rc = rows_add_lapse(w, &v, &wish);
        }
        return rc == SQLITE_OK ? OK : writer_fail(w, p);
}

static int apply_block(struct archive_writer *w, const struct mirror_row *row, struct problem *p)
{
        struct block b = {0};
        int err = blocks_apply(w->blocks, row, &b, p);
        if (err == ERR_CORRUPT) {
                /* The others are worth having. */
                say_warn("history", "a damaged block of the cluster's history is left out",
                         "problem", p->detail);
                p->err = OK;
                return OK;
        }
        if (!err)
                err = add_lapses(w, &b, p);
        block_release(&b);
        return err;
}

/* The row of MIRROR_LEAD; false: it is none. */
static bool read_lead(const struct mirror_row *row, struct mirrored_lead *ret)
{
        ret->change = row->key;
        if (row->kind != MIRROR_LEAD || !row->key || row->body.len != MIRRORED_ID_BYTES)
                return false;
        memcpy(ret->id, row->body.ptr, MIRRORED_ID_BYTES);
        return true;
}

static int apply_lead(struct archive_writer *w, const struct mirror_row *row, struct problem *p)
{
        struct mirrored_lead lead;
        if (!read_lead(row, &lead))
                return problem_set(p, ERR_CORRUPT,
                                   "row %llu of kind %d of the cluster's history is damaged",
                                   (unsigned long long)row->key, (int)row->kind);
        int rc = mirrored_set_lead(&w->mirrored, &lead);
        return rc == SQLITE_OK ? OK : writer_fail(w, p);
}

static int apply_row(void *ctx, const struct mirror_row *row, struct problem *p)
{
        struct archive_writer *w = ctx;
        int rc = SQLITE_OK;
        switch (row->kind) {
        case MIRROR_BLOCK:
                return apply_block(w, row, p);
        case MIRROR_LEAD:
                return apply_lead(w, row, p);
        case MIRROR_MINUTE:
                rc = rollups_apply(w->db, row);
                break;
        case MIRROR_INCIDENT:
                rc = incidents_apply(w->db, row);
                break;
        case MIRROR_AUDIT:
                rc = audits_apply(w->db, row);
                break;
        case MIRROR_KINDS:
                break;
        }
        return rc == SQLITE_OK ? OK : writer_fail(w, p);
}

/* ---- another database ---- */

/* Up to DROP_MOST blocks that are to go. */
static size_t pick_blocks(const struct archive_writer *w, bool (*is_to_go)(void *, uint64_t),
                          void *ctx, const struct block_mark **ret)
{
        size_t n = 0;
        for (size_t i = 0; i < blocks_len(w->blocks) && n < DROP_MOST; i++)
                if (is_to_go(ctx, blocks_at(w->blocks, i)->number))
                        ret[n++] = blocks_at(w->blocks, i);
        return n;
}

/* From the files alone. */
static int drop_blocks(struct archive_writer *w, bool (*is_to_go)(void *, uint64_t), void *ctx,
                       struct problem *p)
{
        const struct block_mark *marks[DROP_MOST];
        size_t n;
        int err = OK;
        while (!err && (n = pick_blocks(w, is_to_go, ctx, marks)) > 0) {
                int rc = apply_begin(w);
                for (size_t i = 0; i < n && rc == SQLITE_OK; i++)
                        rc = writer_code(blocks_drop(w->blocks, marks[i], &w->trouble));
                err = apply_end(w, rc, p);
        }
        return err;
}

static bool is_any(void *ctx, uint64_t number)
{
        (void)ctx;
        (void)number;
        return true;
}

/* The copy begins with nothing.  Until it has no block left, it knows of no leader: so it goes on
 * here after a crash. */
static int throw_away(struct archive_writer *w, const char *why, struct problem *p)
{
        say_warn("history", "the copy of the cluster's history is thrown away and made anew", "why",
                 why, "path", w->path);
        int rc = apply_begin(w);
        w->mirrored.upto = 0;
        if (rc == SQLITE_OK)
                rc = sqlite3_exec(w->db,
                                  "DELETE FROM incident; DELETE FROM audit; DELETE FROM minute;"
                                  "DELETE FROM lapse",
                                  NULL, NULL, NULL);
        if (rc == SQLITE_OK)
                rc = mirrored_set_lead(&w->mirrored, &(struct mirrored_lead){0});
        int err = apply_end(w, rc, p);
        return err ? err : drop_blocks(w, is_any, NULL, p);
}

struct lead_seen {
        struct mirrored_lead want;
        bool is_there;
};

static int see_lead(void *ctx, const struct mirror_row *row, struct problem *p)
{
        struct lead_seen *seen = ctx;
        struct mirrored_lead lead;
        (void)p;
        seen->is_there |= read_lead(row, &lead) && lead.change == seen->want.change &&
                          memcmp(lead.id, seen->want.id, sizeof(lead.id)) == 0;
        return OK;
}

/* Does the mirror have the last leader that the files know of, and none after it up to where they
 * are? */
static int find_lead(struct archive_writer *w, bool *ret, struct problem *p)
{
        struct mirrored *m = &w->mirrored;
        const struct mirror_ops *ops = m->mirror->ops;
        struct lead_seen seen = {.want = m->lead};
        struct mirror_page page = {.since = m->lead.change - 1, .fn = see_lead, .ctx = &seen};
        uint64_t next = 0;
        size_t n = 0;
        int err = ops->since(m->mirror, &page, p);
        if (!err)
                err = ops->keys(m->mirror, MIRROR_LEAD, m->lead.change + 1, &next, 1, &n, p);
        *ret = seen.is_there && (!n || next > m->change);
        return err;
}

/* Is the mirror still what this is a copy of? */
static int check_mirror(struct archive_writer *w, uint64_t last, struct problem *p)
{
        struct mirrored *m = &w->mirrored;
        bool is_there = true;
        if (last < m->change)
                return throw_away(w, "the database has less than the copy", p);
        if (!m->lead.change && (m->change || blocks_len(w->blocks)))
                return throw_away(w, "it was begun and not finished", p);
        if (m->is_same)
                return OK;
        int err = m->lead.change ? find_lead(w, &is_there, p) : OK;
        if (!err && !is_there)
                err = throw_away(w, "the database has other transactions than the copy", p);
        m->is_same = !err;
        return err;
}

/* ---- following ---- */

/* Damaged blocks go, and are fetched again with all else. */
static int drop_damaged(struct archive_writer *w, struct problem *p)
{
        for (size_t i = 0; i < blocks_len(w->blocks);) {
                const struct block_mark *m = blocks_at(w->blocks, i);
                struct block b = {0};
                int err = blocks_read(w->blocks, m, &b, p);
                block_release(&b);
                if (err && err != ERR_CORRUPT)
                        return err;
                if (!err) {
                        i++;
                        continue;
                }
                say_warn("history", "a damaged block is fetched again from the cluster's database",
                         "problem", p->detail);
                int rc = apply_begin(w);
                w->mirrored.upto = 0;
                if (rc == SQLITE_OK)
                        rc = writer_code(blocks_drop(w->blocks, m, &w->trouble));
                err = apply_end(w, rc, p);
                if (err)
                        return err;
        }
        w->mirrored.is_damaged = false;
        return OK;
}

/* Everything is asked for again; what is there stays. */
static int follow_anew(struct archive_writer *w, struct problem *p)
{
        int rc = apply_begin(w);
        w->mirrored.upto = 0;
        return apply_end(w, rc, p);
}

static int take_page(struct archive_writer *w, struct problem *p)
{
        struct mirrored *m = &w->mirrored;
        struct mirrored_lead lead = m->lead;
        struct mirror_page page = {
                .since = m->change, .bytes = PAGE_BYTES, .fn = apply_row, .ctx = w};
        int rc = apply_begin(w);
        if (rc == SQLITE_OK)
                rc = writer_code(m->mirror->ops->since(m->mirror, &page, &w->trouble));
        m->upto = page.upto;
        int err = apply_end(w, rc, p);
        if (err)
                m->lead = lead;
        return mirror_failed(w, err);
}

int archive_writer_follow(struct archive_writer *w, bool *ret_done, struct problem *p)
{
        struct mirrored *m = &w->mirrored;
        uint64_t last = 0;
        int err = m->is_damaged ? drop_damaged(w, p) : OK;
        if (!err)
                err = mirror_failed(w, m->mirror->ops->last(m->mirror, &last, p));
        if (!err)
                err = mirror_failed(w, check_mirror(w, last, p));
        if (!err && last != m->change)
                err = take_page(w, p);
        *ret_done = !err && m->change >= last;
        return err;
}

/* ---- comparing ---- */

/* Numbers in ascending order. */
struct key_list {
        uint64_t *keys;
        size_t n, cap;
};

static void key_list_release(struct key_list *l)
{
        free(l->keys);
}

static void key_list_reserve(struct key_list *l, size_t more)
{
        if (l->cap - l->n >= more)
                return;
        l->cap = l->cap * 2 > l->n + more ? l->cap * 2 : l->n + more;
        l->keys = xrealloc(l->keys, l->cap * sizeof(*l->keys));
}

static void key_list_add(struct key_list *l, uint64_t key)
{
        key_list_reserve(l, 1);
        l->keys[l->n++] = key;
}

static bool key_list_has(void *ctx, uint64_t key)
{
        const struct key_list *l = ctx;
        size_t low = 0, high = l->n;
        while (low < high) {
                size_t mid = low + (high - low) / 2;
                if (l->keys[mid] < key)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low < l->n && l->keys[low] == key;
}

/* The tables, by enum mirror_kind. */
static const struct {
        const char *keys_sql, *drop_sql;
        bool is_queue; /* only the oldest go, but for clocks that were set back */
} tables[] = {
        [MIRROR_BLOCK] = {"SELECT number FROM block ORDER BY number", NULL, false},
        [MIRROR_MINUTE] = {"SELECT (at << 8 | step) AS k FROM minute ORDER BY k",
                           "DELETE FROM minute WHERE at = ?1 >> 8 AND step = (?1 & 255)", false},
        [MIRROR_INCIDENT] = {"SELECT number FROM incident ORDER BY number",
                             "DELETE FROM incident WHERE number = ?1", true},
        [MIRROR_AUDIT] = {"SELECT number FROM audit ORDER BY number",
                          "DELETE FROM audit WHERE number = ?1", true},
};

static int keys_here(struct archive_writer *w, enum mirror_kind kind, struct key_list *ret,
                     struct problem *p)
{
        sqlite3_stmt *row = NULL;
        int rc = sqlite3_prepare_v2(w->db, tables[kind].keys_sql, -1, &row, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(row);
        for (; rc == SQLITE_ROW; rc = sqlite3_step(row))
                key_list_add(ret, (uint64_t)sqlite3_column_int64(row, 0));
        int err = rc == SQLITE_DONE ? OK : writer_fail(w, p);
        (void)sqlite3_finalize(row); /* repeats the error of step */
        return err;
}

static int keys_there(struct archive_writer *w, enum mirror_kind kind, struct key_list *ret,
                      struct problem *p)
{
        struct mirror *mirror = w->mirrored.mirror;
        size_t n = PAGE_KEYS;
        for (uint64_t from = 0; n == PAGE_KEYS;) {
                key_list_reserve(ret, PAGE_KEYS);
                int err =
                        mirror->ops->keys(mirror, kind, from, ret->keys + ret->n, PAGE_KEYS, &n, p);
                if (err)
                        return mirror_failed(w, err);
                ret->n += n;
                if (n)
                        from = ret->keys[ret->n - 1] + 1;
        }
        return OK;
}

/* Of a queue: what is before the first of the mirror. */
static int keys_before(struct archive_writer *w, enum mirror_kind kind, const struct key_list *here,
                       struct key_list *ret_gone, struct problem *p)
{
        struct mirror *mirror = w->mirrored.mirror;
        uint64_t first = 0;
        size_t n = 0;
        int err = mirror->ops->keys(mirror, kind, 0, &first, 1, &n, p);
        for (size_t i = 0; i < here->n && !err && (!n || here->keys[i] < first); i++)
                key_list_add(ret_gone, here->keys[i]);
        return mirror_failed(w, err);
}

/* What is here and not there, and how many blocks are there and should be here. */
static size_t find_gone(const struct archive_writer *w, enum mirror_kind kind,
                        const struct key_list *here, const struct key_list *there,
                        struct key_list *ret_gone)
{
        size_t j = 0, n_missing = 0;
        for (size_t i = 0; i < here->n || j < there->n;) {
                if (j == there->n || (i < here->n && here->keys[i] < there->keys[j])) {
                        key_list_add(ret_gone, here->keys[i++]);
                } else if (i == here->n || there->keys[j] < here->keys[i]) {
                        /* One of a later transaction comes in its turn. */
                        n_missing += kind == MIRROR_BLOCK &&
                                     there->keys[j] >> MIRRORED_SHIFT <= w->mirrored.change;
                        j++;
                } else {
                        i++;
                        j++;
                }
        }
        return n_missing;
}

static int drop_rows(struct archive_writer *w, enum mirror_kind kind, const struct key_list *gone,
                     struct problem *p)
{
        int rc = apply_begin(w);
        for (size_t i = 0; i < gone->n && rc == SQLITE_OK; i++) {
                const int64_t key = (int64_t)gone->keys[i];
                rc = mirrored_run(w->db, tables[kind].drop_sql, &key, 1);
        }
        return apply_end(w, rc, p);
}

static int compare_kind(struct archive_writer *w, enum mirror_kind kind, bool is_thorough,
                        size_t *ret_missing, struct problem *p)
{
        struct key_list here CLEANUP(key_list_release) = {0};
        struct key_list there CLEANUP(key_list_release) = {0};
        struct key_list gone CLEANUP(key_list_release) = {0};
        int err = keys_here(w, kind, &here, p);
        if (!err && tables[kind].is_queue && !is_thorough) {
                err = keys_before(w, kind, &here, &gone, p);
        } else if (!err) {
                err = keys_there(w, kind, &there, p);
                if (!err)
                        *ret_missing += find_gone(w, kind, &here, &there, &gone);
        }
        if (err || !gone.n)
                return err;
        return kind == MIRROR_BLOCK ? drop_blocks(w, key_list_has, &gone, p)
                                    : drop_rows(w, kind, &gone, p);
}

int archive_writer_compare(struct archive_writer *w, bool is_thorough, bool *ret_done,
                           struct problem *p)
{
        size_t n_missing = 0;
        int err = OK;
        for (enum mirror_kind kind = 0; kind < ARRAY_LEN(tables) && !err; kind++)
                err = compare_kind(w, kind, is_thorough, &n_missing, p);
        if (err)
                return err;
        /* Blocks that were asked for again and did not come are damaged in the mirror. */
        *ret_done = n_missing <= w->mirrored.n_missing;
        w->mirrored.n_missing = n_missing;
        return *ret_done ? OK : follow_anew(w, p);
}

/* ---- leading ---- */

static int put_lead(struct archive_writer *w)
{
        struct rng rng;
        struct mirrored_lead lead = {.change = w->mirrored.change + 1};
        rng_init_system(&rng);
        rng_fill(&rng, lead.id, sizeof(lead.id));
        mirrored_put(&w->mirrored, MIRROR_LEAD, lead.change,
                     slice_make((const char *)lead.id, sizeof(lead.id)));
        return mirrored_set_lead(&w->mirrored, &lead);
}

int archive_writer_claim(struct archive_writer *w, bool *ret_done, struct problem *p)
{
        struct mirrored *m = &w->mirrored;
        struct mirrored_lead before = m->lead;
        uint64_t last;
        struct problem ignored;
        *ret_done = true;
        m->is_forced = true;
        int rc = writer_run(w, SQL_BEGIN);
        if (rc == SQLITE_OK)
                rc = put_lead(w);
        if (rc == SQLITE_OK)
                rc = writer_end(w, 0);
        m->is_forced = false;
        if (rc == SQLITE_OK) {
                m->is_behind = false;
                w->again_until_id = (uint64_t)w->last_id;
                return OK;
        }
        m->lead = before;
        int err = writer_undo(w, p);
        if (err == ERR_STATE && m->mirror->ops->last(m->mirror, &last, &ignored) == OK)
                *ret_done = last == m->change;
        return err;
}
