/* See mirrored.h.
 *
 * What a transaction changes is gathered before the mirror is asked for anything: then the jobs it
 * was made of are not needed any more, however long the database takes. */
#include "history/mirrored.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "history/archive_file.h"

#define BODIES_KEPT MIB /* of memory, for the next transaction */

enum change_what { CHANGE_PUT, CHANGE_BURY, CHANGE_DROP };

struct mirrored_change {
        enum change_what what;
        enum mirror_kind kind;
        uint64_t key;
        size_t at, len; /* of its bytes in m->bodies */
};

/* ---- the table mirror ---- */

int mirrored_run(sqlite3 *db, const char *sql, const int64_t *numbers, int n)
{
        sqlite3_stmt *stmt = NULL;
        int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
        for (int i = 0; i < n && rc == SQLITE_OK; i++)
                rc = sqlite3_bind_int64(stmt, i + 1, numbers[i]);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int number_of(sqlite3 *db, const char *sql, int64_t *ret)
{
        sqlite3_stmt *stmt = NULL;
        int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW)
                *ret = sqlite3_column_int64(stmt, 0);
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int read_table(struct mirrored *m)
{
        sqlite3_stmt *row = NULL;
        int rc = sqlite3_prepare_v2(m->db, "SELECT change, lead, id FROM mirror", -1, &row, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(row);
        if (rc == SQLITE_ROW) {
                m->change = (uint64_t)sqlite3_column_int64(row, 0);
                m->lead.change = (uint64_t)sqlite3_column_int64(row, 1);
                if (sqlite3_column_bytes(row, 2) == MIRRORED_ID_BYTES)
                        memcpy(m->lead.id, sqlite3_column_blob(row, 2), MIRRORED_ID_BYTES);
        }
        (void)sqlite3_finalize(row); /* repeats the error of step */
        return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int mirrored_set_lead(struct mirrored *m, const struct mirrored_lead *lead)
{
        sqlite3_stmt *stmt = NULL;
        int rc = sqlite3_prepare_v2(m->db, "UPDATE mirror SET lead = ?1, id = ?2", -1, &stmt, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 1, (int64_t)lead->change);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_blob(stmt, 2, lead->id, MIRRORED_ID_BYTES, SQLITE_STATIC);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        if (rc != SQLITE_DONE)
                return rc;
        m->lead = *lead;
        return SQLITE_OK;
}

/* A new copy begins with nothing.  What people would miss is not thrown away. */
static int begin_copy(struct mirrored *m, struct problem *p)
{
        int64_t own = 0;
        if (number_of(m->db,
                      "SELECT EXISTS(SELECT 1 FROM job) OR EXISTS(SELECT 1 FROM block) OR "
                      "EXISTS(SELECT 1 FROM audit)",
                      &own) != SQLITE_OK)
                return archive_file_fail(m->db, m->path, p);
        if (own)
                return problem_set(
                        p, ERR_STATE,
                        "the history file %s has jobs that are not in the cluster's database; "
                        "name another folder with `data`, or move the files away",
                        SHOWN_MAX(slice_str(m->path), 120));
        int rc = sqlite3_exec(m->db,
                              "BEGIN IMMEDIATE; DELETE FROM incident; DELETE FROM minute;"
                              "CREATE TABLE mirror(change INTEGER NOT NULL, lead INTEGER NOT NULL,"
                              " id BLOB); INSERT INTO mirror VALUES(0, 0, NULL); COMMIT",
                              NULL, NULL, NULL);
        return rc == SQLITE_OK ? OK : mirrored_fail(m, p);
}

int mirrored_set(struct mirrored *m, struct mirror *mirror, struct problem *p)
{
        int64_t is_copy = 0;
        int rc = number_of(m->db, "SELECT 1 FROM sqlite_schema WHERE name = 'mirror'", &is_copy);
        m->mirror = mirror;
        m->is_behind = true; /* until it was looked at */
        if (rc == SQLITE_OK && mirror && is_copy)
                rc = read_table(m);
        /* From now on the file goes its own way. */
        if (rc == SQLITE_OK && !mirror && is_copy)
                rc = mirrored_run(m->db, "DROP TABLE mirror", NULL, 0);
        if (rc != SQLITE_OK)
                return archive_file_fail(m->db, m->path, p);
        return mirror && !is_copy ? begin_copy(m, p) : OK;
}

void mirrored_release(struct mirrored *m)
{
        free(m->changes);
        buf_release(&m->bodies);
        *m = (struct mirrored){0};
}

/* ---- what a transaction changes ---- */

uint64_t mirrored_number(struct mirrored *m)
{
        ASSERT(m->n_blocks < MIRRORED_BLOCKS); /* ARCHIVE_BATCH_JOBS is less */
        return (m->change + 1) << MIRRORED_SHIFT | m->n_blocks++;
}

static void add(struct mirrored *m, struct mirrored_change change, struct slice bytes)
{
        if (!mirrored_is_on(m))
                return;
        if (m->n_changes == m->cap_changes) {
                m->cap_changes = m->cap_changes ? m->cap_changes * 2 : 64;
                m->changes = xrealloc(m->changes, m->cap_changes * sizeof(*m->changes));
        }
        change.at = m->bodies.len;
        change.len = bytes.len;
        buf_put_slice(&m->bodies, bytes);
        m->changes[m->n_changes++] = change;
}

void mirrored_put(struct mirrored *m, enum mirror_kind kind, uint64_t key, struct slice body)
{
        add(m, (struct mirrored_change){.what = CHANGE_PUT, .kind = kind, .key = key}, body);
}

void mirrored_bury(struct mirrored *m, uint64_t block, struct slice dead)
{
        add(m, (struct mirrored_change){.what = CHANGE_BURY, .kind = MIRROR_BLOCK, .key = block},
            dead);
}

void mirrored_drop(struct mirrored *m, enum mirror_kind kind, uint64_t key)
{
        add(m, (struct mirrored_change){.what = CHANGE_DROP, .kind = kind, .key = key}, SLICE_NONE);
}

/* ---- the end of a transaction ---- */

static int send_change(struct mirrored *m, const struct mirrored_change *c, struct problem *p)
{
        const struct mirror_ops *ops = m->mirror->ops;
        struct slice bytes = c->len ? slice_make(m->bodies.ptr + c->at, c->len) : SLICE_NONE;
        struct mirror_row row = {.kind = c->kind, .key = c->key, .body = bytes};
        switch (c->what) {
        case CHANGE_PUT:
                row.change = m->change + 1;
                return ops->put(m->mirror, &row, p);
        case CHANGE_BURY:
                return ops->bury(m->mirror, c->key, bytes, p);
        case CHANGE_DROP:
                break;
        }
        return ops->drop(m->mirror, c->kind, c->key, p);
}

static int send_all(struct mirrored *m, struct problem *p)
{
        const struct mirror_ops *ops = m->mirror->ops;
        int err = ops->begin(m->mirror, m->change + 1, p);
        for (size_t i = 0; i < m->n_changes && !err; i++)
                err = send_change(m, &m->changes[i], p);
        if (err)
                ops->abandon(m->mirror);
        else
                err = ops->commit(m->mirror, p);
        return err;
}

static int keep_number(struct mirrored *m, uint64_t change, struct problem *p)
{
        const int64_t numbers[] = {(int64_t)change};
        int rc = mirrored_run(m->db, "UPDATE mirror SET change = ?1", numbers, 1);
        return rc == SQLITE_OK ? OK : archive_file_fail(m->db, m->path, p);
}

int mirrored_commit(struct mirrored *m, struct problem *p)
{
        if (!m->mirror)
                return OK;
        if (m->is_applying)
                return keep_number(m, m->upto, p);
        if (!m->n_changes && !m->is_forced)
                return OK;
        if (m->is_behind && !m->is_forced)
                return problem_set(p, ERR_UNAVAIL,
                                   "the copy of the cluster's history is brought up to date first");
        if (m->bodies.failed)
                return problem_set(p, ERR_NOMEM, "no memory for a transaction of history");
        int err = keep_number(m, m->change + 1, p);
        if (err)
                return err;
        if (m->on_built)
                m->on_built(m->on_built_ctx);
        err = send_all(m, p);
        m->is_committed = !err;
        if (err) {
                m->is_behind = true;
                m->is_same = false; /* the next connection may be to another server */
        }
        return err;
}

static void forget(struct mirrored *m)
{
        m->n_changes = 0;
        m->n_blocks = 0;
        m->is_committed = false;
        if (m->bodies.cap > BODIES_KEPT)
                buf_release(&m->bodies);
        buf_clear(&m->bodies);
}

void mirrored_done(struct mirrored *m)
{
        if (m->is_applying)
                m->change = m->upto;
        else if (m->is_committed)
                m->change++;
        forget(m);
}

void mirrored_undo(struct mirrored *m)
{
        if (m->is_committed)
                m->is_behind = true;
        forget(m);
}

int mirrored_begin(struct mirrored *m)
{
        return sqlite3_exec(m->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
}

int mirrored_end(struct mirrored *m)
{
        if (mirrored_commit(m, &m->trouble))
                return SQLITE_ERROR;
        int rc = sqlite3_exec(m->db, "COMMIT", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
                mirrored_done(m);
        return rc;
}

int mirrored_fail(struct mirrored *m, struct problem *p)
{
        int err = m->trouble.err;
        if (err)
                *p = m->trouble;
        else
                err = archive_file_fail(m->db, m->path, p);
        m->trouble.err = OK;
        if (!sqlite3_get_autocommit(m->db)) /* the error above is the one to tell */
                (void)sqlite3_exec(m->db, "ROLLBACK", NULL, NULL, NULL);
        mirrored_undo(m);
        return err;
}
