#include "history/blocks_verify.h"

#include <stdio.h>

#include "history/block_table.h"

#define WHAT_BYTES (PROBLEM_DETAIL_MAX + 100)

/* Does the mark say enough for a walk to find every job that is left? */
static bool is_covered(const struct block *b, const struct block_mark *m)
{
        struct block_mark made = {0};
        for (size_t i = 0; i < b->n; i++) {
                if (block_mark_is_dead(m, i))
                        continue;
                if (family_of((enum job_status)b->status[i]) != m->family ||
                    b->created_ms[i] < m->created_first || b->created_ms[i] > m->created_last ||
                    b->finished_ms[i] < m->finished_first || b->finished_ms[i] > m->finished_last)
                        return false;
        }
        /* A filter of another size is of another version, and not known here. */
        block_mark_make(&made, b, (enum block_family)m->family);
        bool has_all = true;
        for (size_t i = 0; made.n_bits == m->n_bits && i < made.n_bits / 8; i++)
                has_all = has_all && (made.filter[i] & ~m->filter[i]) == 0;
        block_mark_release(&made);
        return has_all;
}

static int check_texts(struct block *b, struct problem *p)
{
        struct block_texts texts;
        for (size_t i = 0; i < b->n; i++) {
                int err = block_texts(b, i, &texts);
                if (err == ERR_NOMEM)
                        return problem_set(p, err, "no memory to read a block of history");
                if (err)
                        return problem_set(p, err, "its texts are damaged");
        }
        return OK;
}

static int check_block(struct block_table *t, const struct block_mark *m, struct problem *p)
{
        struct buf bytes CLEANUP(buf_release) = {0};
        struct block b;
        int err = block_table_read(t, m, &bytes, &b, p);
        if (err)
                return err;
        err = check_texts(&b, p);
        if (!err && !is_covered(&b, m))
                err = problem_set(p, ERR_CORRUPT, "its mark does not cover its jobs");
        block_release(&b);
        return err;
}

/* Without a mark it is not known how many jobs there are, but there is one. */
static uint64_t n_left(const struct block_mark *m)
{
        return m->n ? (uint64_t)m->n - m->n_dead : 1;
}

static void tell_damage(const struct blocks_verify *v, const struct block_mark *m, const char *why)
{
        char what[WHAT_BYTES];
        if (m->n)
                (void)snprintf(what, sizeof(what), "block %llu (jobs %llu to %llu): %s",
                               (unsigned long long)m->number, (unsigned long long)m->first_id,
                               (unsigned long long)m->last_id, why);
        else
                (void)snprintf(what, sizeof(what), "block %llu: %s", (unsigned long long)m->number,
                               why);
        v->report->damaged += n_left(m);
        v->tell(v->ctx, what);
}

struct verifying {
        const struct blocks_verify *v;
        struct block_table table;
};

static int verify_one(void *ctx, const struct block_mark *m, struct problem *p)
{
        struct verifying *verifying = ctx;
        struct problem why = {0};
        bool is_there = true;
        int damage = check_block(&verifying->table, m, &why);
        if (damage == ERR_NOMEM)
                return problem_set(p, damage, "%s", why.detail);
        int err = damage ? block_table_has(&verifying->table, m, &is_there, p) : OK;
        if (err || !is_there) /* then the server dropped it before it was read */
                return err;
        if (damage)
                tell_damage(verifying->v, m, why.detail);
        verifying->v->report->rows += n_left(m);
        return OK;
}

int blocks_verify(const struct blocks_verify *v, sqlite3 *db, const char *path, struct problem *p)
{
        struct verifying verifying = {.v = v};
        int err = block_table_open(&verifying.table, db, path, p);
        if (err)
                return err == ERR_NOTFOUND ? OK : err;
        err = block_table_walk(&verifying.table, verify_one, &verifying, p);
        block_table_close(&verifying.table);
        return err;
}

/* ---- fences ---- */

struct fences {
        struct block_table table;
        uint64_t last;
        int damage;
};

static int look_for_fence(void *ctx, const struct block_mark *m, struct problem *p)
{
        struct fences *f = ctx;
        struct buf bytes CLEANUP(buf_release) = {0};
        struct block b;
        struct problem why = {0};
        int err = block_table_read(&f->table, m, &bytes, &b, &why);
        if (err) {
                f->damage = problem_set(p, err, "block %llu of history: %s",
                                        (unsigned long long)m->number, why.detail);
                return OK;
        }
        for (size_t i = 0; i < b.n; i++)
                f->last = b.fence[i] > f->last ? b.fence[i] : f->last;
        block_release(&b);
        return OK;
}

int blocks_last_fence(sqlite3 *db, const char *path, uint64_t *ret, struct problem *p)
{
        struct fences f = {.last = *ret};
        int err = block_table_open(&f.table, db, path, p);
        if (err)
                return err == ERR_NOTFOUND ? OK : err;
        err = block_table_walk(&f.table, look_for_fence, &f, p);
        block_table_close(&f.table);
        *ret = f.last;
        return err ? err : f.damage;
}
