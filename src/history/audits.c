/* See audits.h. */
#include "history/audits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc.h"

/* Rows that one question looks at, some 100 ms; the next page goes on behind them. */
#define LOOKED_AT_MAX 100000
#define EXPIRE_ROWS   10000 /* in one step of retention */

#define COLUMNS                                                                                    \
        "number, at_ms, times, who, role, address, door, command, what, \"before\", \"after\", "   \
        "reason, checksum"

enum { COLUMN_NUMBER, COLUMN_AT, COLUMN_TIMES, COLUMN_TEXTS, COLUMN_CHECK = COLUMN_TEXTS + 9 };

static const char insert_sql[] = "INSERT OR IGNORE INTO audit(" COLUMNS
                                 ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
static const char expire_sql[] = "DELETE FROM audit WHERE number IN (SELECT number FROM audit "
                                 "WHERE at_ms <= ?1 ORDER BY at_ms LIMIT ?2) RETURNING number";
static const char last_sql[] = "SELECT max(number) FROM audit";
static const char find_sql[] =
        "SELECT " COLUMNS " FROM audit WHERE number < ?1 ORDER BY number DESC";

/* The texts of an entry, in the order of the columns. */
#define N_TEXTS (COLUMN_CHECK - COLUMN_TEXTS)
static void texts_of(struct audit_entry *e, struct slice *ret[N_TEXTS])
{
        struct slice *const texts[] = {&e->who,  &e->role,   &e->address, &e->door,  &e->command,
                                       &e->what, &e->before, &e->after,   &e->reason};
        _Static_assert(ARRAY_LEN(texts) == N_TEXTS, "each has a column");
        memcpy(ret, texts, sizeof(texts));
}

struct audit_note *audit_note_new(const struct audit_entry *row)
{
        struct audit_entry is = *row;
        struct slice *texts[N_TEXTS];
        size_t len = 0;
        texts_of(&is, texts);
        for (size_t i = 0; i < N_TEXTS; i++)
                len += texts[i]->len;
        struct audit_note *n = xmalloc(sizeof(*n) + len);
        char *at = n->bytes;
        for (size_t i = 0; i < N_TEXTS; i++) {
                if (texts[i]->len)
                        memcpy(at, texts[i]->ptr, texts[i]->len);
                *texts[i] = slice_make(at, texts[i]->len);
                at += texts[i]->len;
        }
        n->next = NULL;
        n->row = is;
        return n;
}

void audit_notes_free(struct audit_note *first)
{
        while (first) {
                struct audit_note *next = first->next;
                free(first);
                first = next;
        }
}

static int64_t checksum_of(const struct audit_entry *e)
{
        struct buf b CLEANUP(buf_release) = {0};
        buf_put_varint(&b, e->number);
        audit_entry_put(e, &b);
        return crc32c(0, b.ptr, b.len);
}

/* ---- writing ---- */

static int prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret)
{
        return sqlite3_prepare_v2(db, sql, -1, ret, NULL);
}

static int insert(sqlite3_stmt *stmt, const struct audit_entry *row)
{
        struct audit_entry e = *row;
        struct slice *texts[N_TEXTS];
        texts_of(&e, texts);
        int rc = sqlite3_bind_int64(stmt, COLUMN_NUMBER + 1, (int64_t)e.number);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, COLUMN_AT + 1, e.at_ms);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, COLUMN_TIMES + 1, (int64_t)e.times);
        for (int i = 0; i < N_TEXTS && rc == SQLITE_OK; i++)
                rc = sqlite3_bind_text(stmt, COLUMN_TEXTS + 1 + i,
                                       texts[i]->len ? texts[i]->ptr : "", (int)texts[i]->len,
                                       SQLITE_STATIC);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, COLUMN_CHECK + 1, checksum_of(row));
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        (void)sqlite3_reset(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void audits_put_body(const struct audit_entry *row, struct buf *ret)
{
        struct audit_entry e = *row;
        struct slice *texts[N_TEXTS];
        texts_of(&e, texts);
        buf_put_varint(ret, (uint64_t)e.at_ms);
        buf_put_varint(ret, e.times);
        for (size_t i = 0; i < N_TEXTS; i++)
                buf_put_lv(ret, *texts[i]);
}

static void put_in_mirror(struct mirrored *m, const struct audit_entry *row)
{
        struct buf body CLEANUP(buf_release) = {0};
        audits_put_body(row, &body);
        mirrored_put(m, MIRROR_AUDIT, row->number, buf_slice(&body));
}

static int add_all(struct mirrored *m, const struct audit_note *first)
{
        sqlite3_stmt *stmt = NULL;
        int rc = mirrored_begin(m);
        if (rc == SQLITE_OK)
                rc = prepare(m->db, insert_sql, &stmt);
        for (const struct audit_note *n = first; n && rc == SQLITE_OK; n = n->next) {
                rc = insert(stmt, &n->row);
                if (rc == SQLITE_OK && mirrored_is_on(m) && sqlite3_changes(m->db))
                        put_in_mirror(m, &n->row);
        }
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_OK ? mirrored_end(m) : rc;
}

int audits_add(struct mirrored *m, const struct audit_note *first, struct problem *p)
{
        return add_all(m, first) == SQLITE_OK ? OK : mirrored_fail(m, p);
}

int audits_apply(sqlite3 *db, const struct mirror_row *row)
{
        struct reader r = reader_make(row->body);
        sqlite3_stmt *stmt = NULL;
        struct audit_entry e = {.number = row->key, .at_ms = (int64_t)reader_varint(&r)};
        struct slice *texts[N_TEXTS];
        e.times = reader_varint(&r);
        texts_of(&e, texts);
        for (size_t i = 0; i < N_TEXTS; i++)
                *texts[i] = reader_lv(&r);
        if (r.failed || reader_left(&r))
                return SQLITE_OK;
        int rc = prepare(db, insert_sql, &stmt);
        if (rc == SQLITE_OK)
                rc = insert(stmt, &e);
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc;
}

static int expire(struct mirrored *m, int64_t until_ms, int64_t *ret)
{
        sqlite3_stmt *stmt = NULL;
        int rc = mirrored_begin(m);
        *ret = 0;
        if (rc == SQLITE_OK)
                rc = prepare(m->db, expire_sql, &stmt);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 1, until_ms);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 2, EXPIRE_ROWS);
        while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
                mirrored_drop(m, MIRROR_AUDIT, (uint64_t)sqlite3_column_int64(stmt, 0));
                ++*ret;
                rc = SQLITE_OK;
        }
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? mirrored_end(m) : rc;
}

int audits_expire(struct mirrored *m, int64_t until_ms, bool *ret_more, struct problem *p)
{
        int64_t deleted;
        if (expire(m, until_ms, &deleted) != SQLITE_OK)
                return mirrored_fail(m, p);
        *ret_more = deleted == EXPIRE_ROWS;
        return OK;
}

int audits_last(sqlite3 *db, const char *path, uint64_t *ret, struct problem *p)
{
        sqlite3_stmt *stmt = NULL;
        int rc = prepare(db, last_sql, &stmt);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        int64_t last = rc == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        if (rc != SQLITE_ROW)
                return archive_file_fail(db, path, p);
        *ret = last > 0 ? (uint64_t)last : 0;
        return OK;
}

/* ---- reading ---- */

/* At a row of COLUMNS; the texts are SQLite's until the next step.  False: it is damaged. */
static bool read_row(sqlite3_stmt *stmt, struct audit_entry *ret)
{
        struct slice *texts[N_TEXTS];
        *ret = (struct audit_entry){
                .number = (uint64_t)sqlite3_column_int64(stmt, COLUMN_NUMBER),
                .at_ms = sqlite3_column_int64(stmt, COLUMN_AT),
                .times = (uint64_t)sqlite3_column_int64(stmt, COLUMN_TIMES),
        };
        texts_of(ret, texts);
        for (int i = 0; i < N_TEXTS; i++) {
                const void *text = sqlite3_column_blob(stmt, COLUMN_TEXTS + i);
                int len = sqlite3_column_bytes(stmt, COLUMN_TEXTS + i);
                *texts[i] = slice_make(text, (size_t)len);
        }
        return ret->at_ms >= 0 && checksum_of(ret) == sqlite3_column_int64(stmt, COLUMN_CHECK);
}

static bool keep(struct archive_audits *q, const struct audit_entry *from)
{
        struct audit_entry *to = &q->rows[q->n_rows];
        struct slice *texts[N_TEXTS];
        *to = *from;
        texts_of(to, texts);
        for (size_t i = 0; i < N_TEXTS; i++) {
                *texts[i] = arena_copy(&q->arena, *texts[i]);
                if (!texts[i]->ptr)
                        return false;
        }
        q->n_rows++;
        return true;
}

static int find_rows(sqlite3_stmt *stmt, struct archive_audits *q)
{
        int rc = SQLITE_DONE;
        size_t looked_at = 0;
        while (q->n_rows < q->limit && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
                struct audit_entry e;
                bool is_good = read_row(stmt, &e);
                q->last = e.number;
                if (!is_good) {
                        q->n_damaged++;
                        q->damaged_at = e.number;
                } else if (archive_audits_want(q, &e) && !keep(q, &e)) {
                        return SQLITE_NOMEM;
                }
                if (++looked_at == LOOKED_AT_MAX) {
                        q->is_cut = true;
                        return SQLITE_OK;
                }
        }
        return q->n_rows == q->limit || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void audits_find(sqlite3 *db, struct archive_audits *q)
{
        sqlite3_stmt *stmt = NULL;
        int64_t before = q->before > INT64_MAX ? INT64_MAX : (int64_t)q->before;
        q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
        int rc = q->rows ? prepare(db, find_sql, &stmt) : SQLITE_NOMEM;
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 1, before);
        if (rc == SQLITE_OK)
                rc = find_rows(stmt, q);
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        if (rc != SQLITE_OK)
                q->err = rc == SQLITE_NOMEM ? ERR_NOMEM : ERR_IO;
}

int audits_verify(sqlite3 *db, archive_damage_fn tell, void *ctx, struct archive_report *report)
{
        char what[80];
        sqlite3_stmt *stmt = NULL;
        int rc = prepare(db, "SELECT " COLUMNS " FROM audit", &stmt);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        for (; rc == SQLITE_ROW; rc = sqlite3_step(stmt)) {
                struct audit_entry e;
                if (read_row(stmt, &e))
                        continue;
                report->damaged++;
                (void)snprintf(what, sizeof(what), "audit entry %lld: its checksum is wrong",
                               (long long)e.number);
                tell(ctx, what);
        }
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
}
