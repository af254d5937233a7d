/* See rollups.h. */
#include "history/rollups.h"

#include <stdlib.h>
#include <string.h>

#include "base/civil.h"
#include "base/duration.h"
#include "core/rollup_view.h"
#include "history/archive_file.h"

#define MINUTES_PER_DAY 1440LL

static const struct {
        unsigned span;
        int64_t kept; /* minutes */
} steps[] = {
        {ROLLUP_MINUTE, 2 * MINUTES_PER_DAY},
        {ROLLUP_TEN, 10 * MINUTES_PER_DAY},
        {ROLLUP_HOUR, 30 * MINUTES_PER_DAY},
};

static const char get_sql[] = "SELECT body FROM minute WHERE step = ?1 AND at = ?2";
static const char put_sql[] = "INSERT INTO minute VALUES(?1, ?2, ?3) "
                              "ON CONFLICT(step, at) DO UPDATE SET body = excluded.body";
static const char drop_sql[] =
        "DELETE FROM minute WHERE step = ?1 AND at IN (SELECT at FROM minute "
        "WHERE step = ?1 AND at < ?2 ORDER BY at LIMIT ?3) RETURNING at";
static const char find_sql[] = "SELECT body, at FROM minute WHERE step = ?1 AND at >= ?2 "
                               "AND at < ?3 ORDER BY at";

struct rollup_note *rollup_note_new(struct slice minute)
{
        struct rollup_note *n = xmalloc(sizeof(*n) + minute.len);
        n->next = NULL;
        n->len = minute.len;
        memcpy(n->bytes, minute.ptr, minute.len);
        return n;
}

void rollup_notes_free(struct rollup_note *first)
{
        while (first) {
                struct rollup_note *next = first->next;
                free(first);
                first = next;
        }
}

/* ---- writing ---- */

struct adding {
        struct mirrored *mirrored;
        sqlite3_stmt *get, *put, *drop;
        size_t n_damaged;
};

static struct slice body_of(sqlite3_stmt *row)
{
        const void *bytes = sqlite3_column_blob(row, 0);
        return slice_make(bytes, (size_t)sqlite3_column_bytes(row, 0));
}

/* Damaged or of another time: it cannot be in this place. */
static bool is_row(const struct rollup *r, unsigned span, int64_t at)
{
        return r->span == span && r->at == at;
}

/* What the row holds, or nothing: it is not there, or damaged. */
static int read_row(struct adding *a, unsigned span, int64_t at, struct rollup *ret)
{
        int rc = sqlite3_bind_int64(a->get, 1, span);
        bool is_there = false;
        rollup_init(ret);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(a->get, 2, at);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(a->get);
        if (rc == SQLITE_ROW) {
                is_there = rollup_unpack(body_of(a->get), ROLLUP_ALL_KINDS, ret) == OK &&
                           is_row(ret, span, at);
                a->n_damaged += !is_there;
        }
        (void)sqlite3_reset(a->get); /* repeats the error of step */
        if (!is_there) {
                rollup_release(ret);
                ret->at = ret->since = at;
                ret->span = span;
                for (size_t i = 0; i < TALLY_KINDS; i++)
                        ret->tables[i] =
                                (struct rollup_table){xcalloc(1, sizeof(struct rollup_row)), 1};
        }
        return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Of a row in a mirror.  No span has more than 255 minutes. */
static uint64_t key_of(unsigned span, int64_t at)
{
        return (uint64_t)at << 8 | span;
}

static int put_body(sqlite3_stmt *put, unsigned span, int64_t at, struct slice body)
{
        int rc = sqlite3_bind_int64(put, 1, span);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(put, 2, at);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_blob(put, 3, body.ptr, (int)body.len, SQLITE_STATIC);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(put);
        (void)sqlite3_reset(put);          /* repeats the error of step */
        (void)sqlite3_clear_bindings(put); /* the body goes */
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int write_row(struct adding *a, const struct rollup *r)
{
        struct buf body CLEANUP(buf_release) = {0};
        rollup_pack(r, &body);
        if (body.failed)
                return SQLITE_NOMEM;
        if (mirrored_is_on(a->mirrored))
                mirrored_put(a->mirrored, MIRROR_MINUTE, key_of(r->span, r->at), buf_slice(&body));
        return put_body(a->put, r->span, r->at, buf_slice(&body));
}

static int add_minute(struct adding *a, struct slice body)
{
        struct rollup minute, row;
        rollup_init(&minute);
        int rc = SQLITE_OK;
        /* It comes from memory: what cannot be read is no minute, and nobody could use it. */
        bool is_good = rollup_unpack(body, ROLLUP_ALL_KINDS, &minute) == OK;
        for (size_t i = 0; i < ARRAY_LEN(steps) && is_good && rc == SQLITE_OK; i++) {
                unsigned span = steps[i].span;
                rc = read_row(a, span, floor_div(minute.at, span) * span, &row);
                if (rc == SQLITE_OK && rollup_merge(&row, &minute) != OK)
                        rc = SQLITE_NOMEM;
                if (rc == SQLITE_OK)
                        rc = write_row(a, &row);
                rollup_release(&row);
        }
        rollup_release(&minute);
        return rc;
}

static int drop_old(struct adding *a, int64_t now_ms)
{
        int rc = SQLITE_OK;
        for (size_t i = 0; i < ARRAY_LEN(steps) && rc == SQLITE_OK; i++) {
                int64_t until = floor_div(now_ms, MS_PER_MIN) - steps[i].kept - steps[i].span;
                rc = sqlite3_bind_int64(a->drop, 1, steps[i].span);
                if (rc == SQLITE_OK)
                        rc = sqlite3_bind_int64(a->drop, 2, until);
                if (rc == SQLITE_OK)
                        rc = sqlite3_bind_int64(a->drop, 3, ROLLUPS_DROP_ROWS);
                while (rc == SQLITE_OK && (rc = sqlite3_step(a->drop)) == SQLITE_ROW) {
                        int64_t at = sqlite3_column_int64(a->drop, 0);
                        mirrored_drop(a->mirrored, MIRROR_MINUTE, key_of(steps[i].span, at));
                        rc = SQLITE_OK;
                }
                (void)sqlite3_reset(a->drop); /* repeats the error of step */
                rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
        }
        return rc;
}

static int add_all(struct adding *a, const struct rollup_note *first, int64_t now_ms)
{
        sqlite3 *db = a->mirrored->db;
        int rc = mirrored_begin(a->mirrored);
        if (rc == SQLITE_OK)
                rc = sqlite3_prepare_v2(db, get_sql, -1, &a->get, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_prepare_v2(db, put_sql, -1, &a->put, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_prepare_v2(db, drop_sql, -1, &a->drop, NULL);
        for (const struct rollup_note *n = first; n && rc == SQLITE_OK; n = n->next)
                rc = add_minute(a, slice_make(n->bytes, n->len));
        if (rc == SQLITE_OK)
                rc = drop_old(a, now_ms);
        (void)sqlite3_finalize(a->get); /* these repeat the error of step */
        (void)sqlite3_finalize(a->put);
        (void)sqlite3_finalize(a->drop);
        return rc == SQLITE_OK ? mirrored_end(a->mirrored) : rc;
}

int rollups_add(struct mirrored *m, const struct rollup_note *first, int64_t now_ms,
                size_t *ret_damaged, struct problem *p)
{
        struct adding a = {.mirrored = m};
        if (add_all(&a, first, now_ms) != SQLITE_OK)
                return mirrored_fail(m, p);
        *ret_damaged = a.n_damaged;
        return OK;
}

int rollups_apply(sqlite3 *db, const struct mirror_row *row)
{
        sqlite3_stmt *put = NULL;
        int rc = sqlite3_prepare_v2(db, put_sql, -1, &put, NULL);
        if (rc == SQLITE_OK)
                rc = put_body(put, row->key & 255, (int64_t)(row->key >> 8), row->body);
        (void)sqlite3_finalize(put); /* repeats the error of step */
        return rc;
}

/* ---- reading ---- */

/* One row, when it is what it should be; a damaged one is left out and counted. */
static int add_row(struct archive_rollups *q, unsigned span, sqlite3_stmt *row)
{
        struct rollup r;
        struct slice body = body_of(row);
        rollup_init(&r);
        int err = rollup_unpack(body, 0, &r);
        if (!err && !is_row(&r, span, sqlite3_column_int64(row, 1)))
                err = ERR_CORRUPT;
        rollup_release(&r);
        if (!err)
                err = rollup_view_add(q->view, body);
        q->n_damaged += err == ERR_CORRUPT;
        return err == ERR_NOMEM ? SQLITE_NOMEM : SQLITE_OK;
}

static int find(sqlite3 *db, struct archive_rollups *q, unsigned span, int64_t from, int64_t to)
{
        sqlite3_stmt *stmt = NULL;
        int rc = sqlite3_prepare_v2(db, find_sql, -1, &stmt, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 1, span);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 2, from);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 3, to);
        while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
                rc = add_row(q, span, stmt);
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void rollups_find(sqlite3 *db, struct archive_rollups *q)
{
        int64_t mid = q->mid < q->to ? q->mid : q->to;
        int rc = find(db, q, q->span, q->from, mid);
        if (rc == SQLITE_OK)
                rc = find(db, q, ROLLUP_MINUTE, q->from > mid ? q->from : mid, q->to);
        if (rc != SQLITE_OK)
                q->err = rc == SQLITE_NOMEM ? ERR_NOMEM : ERR_IO;
}
