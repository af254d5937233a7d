/* See incidents.h. */
#include "history/incidents.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "history/archive_file.h"

static const char insert_sql[] = "INSERT OR IGNORE INTO incident VALUES(?1, ?2, ?3, ?4)";
static const char old_sql[] = "SELECT EXISTS(SELECT 1 FROM incident WHERE at_ms <= ?1) OR "
                              "(SELECT max(number) - min(number) >= ?2 FROM incident)";
static const char expire_sql[] =
        "DELETE FROM incident WHERE number IN (SELECT number FROM incident "
        "WHERE at_ms <= ?1 OR number <= (SELECT max(number) FROM incident) "
        "- ?2 ORDER BY number LIMIT ?3) RETURNING number";
static const char last_sql[] = "SELECT max(number) FROM incident";
static const char find_sql[] = "SELECT number, at_ms, event, message FROM incident "
                               "WHERE number < ?1 ORDER BY number DESC LIMIT ?2";

static struct slice keep(char **at, struct slice s)
{
        struct slice kept = slice_make(*at, s.len);
        if (s.len)
                memcpy(*at, s.ptr, s.len);
        *at += s.len;
        return kept;
}

struct incident_note *incident_note_new(const struct archive_incident *row)
{
        struct incident_note *n = xmalloc(sizeof(*n) + row->event.len + row->message.len);
        char *at = n->bytes;
        n->next = NULL;
        n->row = *row;
        n->row.event = keep(&at, row->event);
        n->row.message = keep(&at, row->message);
        return n;
}

void incident_notes_free(struct incident_note *first)
{
        while (first) {
                struct incident_note *next = first->next;
                free(first);
                first = next;
        }
}

static int prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret)
{
        return sqlite3_prepare_v2(db, sql, -1, ret, NULL);
}

static int insert(sqlite3_stmt *stmt, const struct archive_incident *row)
{
        int rc = sqlite3_bind_int64(stmt, 1, (int64_t)row->number);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 2, row->at_ms);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_text(stmt, 3, row->event.ptr, (int)row->event.len, SQLITE_STATIC);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_text(stmt, 4, row->message.ptr, (int)row->message.len,
                                       SQLITE_STATIC);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        (void)sqlite3_reset(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void incidents_put_body(const struct archive_incident *row, struct buf *ret)
{
        buf_put_varint(ret, (uint64_t)row->at_ms);
        buf_put_lv(ret, row->event);
        buf_put_lv(ret, row->message);
}

static void put_in_mirror(struct mirrored *m, const struct archive_incident *row)
{
        struct buf body CLEANUP(buf_release) = {0};
        incidents_put_body(row, &body);
        mirrored_put(m, MIRROR_INCIDENT, row->number, buf_slice(&body));
}

static int add_all(struct mirrored *m, const struct incident_note *first)
{
        sqlite3_stmt *stmt = NULL;
        int rc = mirrored_begin(m);
        if (rc == SQLITE_OK)
                rc = prepare(m->db, insert_sql, &stmt);
        for (const struct incident_note *n = first; n && rc == SQLITE_OK; n = n->next) {
                rc = insert(stmt, &n->row);
                if (rc == SQLITE_OK && mirrored_is_on(m) && sqlite3_changes(m->db))
                        put_in_mirror(m, &n->row);
        }
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_OK ? mirrored_end(m) : rc;
}

int incidents_add(struct mirrored *m, const struct incident_note *first, struct problem *p)
{
        return add_all(m, first) == SQLITE_OK ? OK : mirrored_fail(m, p);
}

int incidents_apply(sqlite3 *db, const struct mirror_row *row)
{
        struct reader r = reader_make(row->body);
        sqlite3_stmt *stmt = NULL;
        struct archive_incident is = {.number = row->key, .at_ms = (int64_t)reader_varint(&r)};
        is.event = reader_lv(&r);
        is.message = reader_lv(&r);
        if (r.failed || reader_left(&r))
                return SQLITE_OK;
        int rc = prepare(db, insert_sql, &stmt);
        if (rc == SQLITE_OK)
                rc = insert(stmt, &is);
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc;
}

/* Runs a statement with one or two numbers; the first number of its row, 0 without one. */
static int run(sqlite3 *db, const char *sql, const int64_t *numbers, int n, int64_t *ret)
{
        sqlite3_stmt *stmt = NULL;
        int rc = prepare(db, sql, &stmt);
        for (int i = 0; i < n && rc == SQLITE_OK; i++)
                rc = sqlite3_bind_int64(stmt, i + 1, numbers[i]);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        *ret = rc == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int expire(struct mirrored *m, int64_t until_ms, int64_t *ret)
{
        const int64_t numbers[] = {until_ms, INCIDENTS_MAX, INCIDENTS_EXPIRE_ROWS};
        sqlite3_stmt *stmt = NULL;
        int rc = mirrored_begin(m);
        *ret = 0;
        if (rc == SQLITE_OK)
                rc = prepare(m->db, expire_sql, &stmt);
        for (int i = 0; i < (int)ARRAY_LEN(numbers) && rc == SQLITE_OK; i++)
                rc = sqlite3_bind_int64(stmt, i + 1, numbers[i]);
        while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
                mirrored_drop(m, MIRROR_INCIDENT, (uint64_t)sqlite3_column_int64(stmt, 0));
                ++*ret;
                rc = SQLITE_OK;
        }
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? mirrored_end(m) : rc;
}

int incidents_expire(struct mirrored *m, int64_t until_ms, bool *ret_more, struct problem *p)
{
        const int64_t numbers[] = {until_ms, INCIDENTS_MAX};
        int64_t is_due, deleted = 0;
        int rc = run(m->db, old_sql, numbers, 2, &is_due); /* mostly there is nothing to write */
        if (rc == SQLITE_OK && is_due)
                rc = expire(m, until_ms, &deleted);
        *ret_more = deleted == INCIDENTS_EXPIRE_ROWS;
        return rc == SQLITE_OK ? OK : mirrored_fail(m, p);
}

int incidents_last(sqlite3 *db, const char *path, uint64_t *ret, struct problem *p)
{
        int64_t last = 0;
        if (run(db, last_sql, NULL, 0, &last) != SQLITE_OK)
                return archive_file_fail(db, path, p);
        *ret = last > 0 ? (uint64_t)last : 0;
        return OK;
}

static bool take(sqlite3_stmt *stmt, struct arena *arena, struct archive_incident *ret)
{
        struct slice event =
                slice_make(sqlite3_column_blob(stmt, 2), (size_t)sqlite3_column_bytes(stmt, 2));
        struct slice message =
                slice_make(sqlite3_column_blob(stmt, 3), (size_t)sqlite3_column_bytes(stmt, 3));
        *ret = (struct archive_incident){.number = (uint64_t)sqlite3_column_int64(stmt, 0),
                                         .at_ms = sqlite3_column_int64(stmt, 1)};
        ret->event = arena_copy(arena, event);
        ret->message = arena_copy(arena, message);
        return ret->event.ptr && ret->message.ptr;
}

void incidents_find(sqlite3 *db, struct archive_incidents *q)
{
        sqlite3_stmt *stmt = NULL;
        int64_t before = q->before > INT64_MAX ? INT64_MAX : (int64_t)q->before;
        q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
        int rc = q->rows ? prepare(db, find_sql, &stmt) : SQLITE_NOMEM;
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 1, before);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(stmt, 2, (int64_t)q->limit);
        while (rc == SQLITE_OK && q->n_rows < q->limit && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
                rc = take(stmt, &q->arena, &q->rows[q->n_rows++]) ? SQLITE_OK : SQLITE_NOMEM;
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        if (rc != SQLITE_OK && rc != SQLITE_DONE)
                q->err = rc == SQLITE_NOMEM ? ERR_NOMEM : ERR_IO;
}
