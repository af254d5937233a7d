/* Pages of a store on disk.
 *
 * Rows and the marks of blocks must be of one moment, so they are read in one transaction, and
 * pages too, for as long as it lasts: a second beside a server, whose checkpoints wait for it.  The
 * bytes of a block are in no transaction: a server that drops the block gives its space back at
 * once.  A page that meets damage beside a server is therefore asked for again, of a later moment,
 * before the damage is believed. */
#include "history/sql_source.h"

#include <stdlib.h>

#include "base/clock.h"
#include "history/archive_file.h"
#include "history/archive_finder.h"
#include "history/audits.h"
#include "history/blocks.h"
#include "history/incidents.h"
#include "log/disk.h"

/* One page may take so long, so that a statement that finds nothing can be stopped. */
#define PAGE_MS   200
#define MOMENT_MS 1000
#define TRIES     4 /* of a page that meets damage, beside a server */

struct store {
        struct sql_source base;
        char *path, *log;
        /* One moment of it. */
        struct blocks *blocks;
        struct archive_finder finder;
        int64_t until_ns;
        bool is_open, is_in_use;
};

static struct store *store_of(struct sql_source *s)
{
        return CONTAINER_OF(s, struct store, base);
}

static void close_moment(struct store *s)
{
        s->blocks = blocks_close(s->blocks);
        archive_finder_close(&s->finder);
}

void sql_source_rest(struct sql_source *source)
{
        struct store *s = store_of(source);
        if (s->is_open)
                close_moment(s);
        s->is_open = false;
}

static bool may_be_in_use(const struct store *s)
{
        return !s->log || disk_is_in_use(s->log);
}

static int open_moment(struct store *s, struct problem *p)
{
        sqlite3 *db = NULL;
        int err = archive_file_open_to_look(s->path, s->is_in_use, &db, p);
        if (err)
                return err;
        s->finder = (struct archive_finder){.file.db = db};
        if (sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
                err = archive_file_fail(db, s->path, p);
        if (!err)
                err = blocks_open(db, s->path, /* is_reader= */ true, &s->blocks, p);
        if (!err)
                err = archive_finder_use(&s->finder, db, s->path, s->blocks, p);
        if (err)
                close_moment(s);
        return err;
}

static int wake(struct store *s, struct problem *p)
{
        bool is_over = s->is_in_use ? clock_boot_ns() >= s->until_ns : may_be_in_use(s);
        if (s->is_open && is_over)
                sql_source_rest(&s->base);
        if (s->is_open)
                return OK;
        s->is_in_use = may_be_in_use(s);
        int err = open_moment(s, p);
        for (int i = 1; err == ERR_CORRUPT && s->is_in_use && i < TRIES; i++)
                err = open_moment(s, p); /* a file of blocks may have gone meanwhile */
        if (err)
                return err;
        s->finder.ms_max = PAGE_MS;
        s->finder.rows_max = SIZE_MAX;
        s->until_ns = clock_boot_ns() + MOMENT_MS * NS_PER_MS;
        s->is_open = true;
        return OK;
}

static int try_jobs(struct store *s, struct archive_query *q, struct problem *p)
{
        int err = wake(s, p);
        if (err)
                return err;
        archive_finder_run(&s->finder, q);
        if (q->err && s->finder.problem.detail[0])
                *p = s->finder.problem;
        else if (q->err)
                (void)problem_set(p, q->err, "%s", err_text(q->err));
        return q->err;
}

static bool has_damage(const struct archive_query *q, int err)
{
        for (size_t i = 0; !err && i < q->n_rows; i++)
                if (q->rows[i].is_damaged)
                        return true;
        return err == ERR_CORRUPT || err == ERR_IO;
}

static int get_jobs(struct sql_source *source, struct archive_query *q, struct problem *p)
{
        struct store *s = store_of(source);
        int err = try_jobs(s, q, p);
        for (int i = 1; s->is_open && s->is_in_use && has_damage(q, err) && i < TRIES; i++) {
                sql_source_rest(source);
                arena_clear(&q->arena);
                err = try_jobs(s, q, p);
        }
        return err;
}

static int get_incidents(struct sql_source *source, struct archive_incidents *q, struct problem *p)
{
        struct store *s = store_of(source);
        int err = wake(s, p);
        if (err)
                return err;
        incidents_find(s->finder.file.db, q);
        return q->err ? archive_file_fail(s->finder.file.db, s->path, p) : OK;
}

static int get_audits(struct sql_source *source, struct archive_audits *q, struct problem *p)
{
        struct store *s = store_of(source);
        int err = wake(s, p);
        if (err)
                return err;
        audits_find(s->finder.file.db, q);
        return q->err ? archive_file_fail(s->finder.file.db, s->path, p) : OK;
}

static bool take_minute(sqlite3_stmt *stmt, struct sql_minutes *q)
{
        const void *body = sqlite3_column_blob(stmt, 1);
        struct sql_minute *m = &q->rows[q->n_rows++];
        m->at = sqlite3_column_int64(stmt, 0);
        m->body = arena_copy(&q->arena, slice_make(body, (size_t)sqlite3_column_bytes(stmt, 1)));
        return m->body.ptr;
}

static int find_minutes(sqlite3 *db, struct sql_minutes *q)
{
        static const char sql[] = "SELECT at, body FROM minute WHERE step = ?1 AND at >= ?2 "
                                  "AND at <= ?3 ORDER BY at LIMIT ?4";
        const int64_t values[] = {q->span, q->from, q->to, (int64_t)q->limit};
        sqlite3_stmt *stmt = NULL;
        q->n_rows = 0;
        q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
        int rc = q->rows ? sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) : SQLITE_NOMEM;
        for (int i = 0; i < (int)ARRAY_LEN(values) && rc == SQLITE_OK; i++)
                rc = sqlite3_bind_int64(stmt, i + 1, values[i]);
        while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
                rc = take_minute(stmt, q) ? SQLITE_OK : SQLITE_NOMEM;
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int get_minutes(struct sql_source *source, struct sql_minutes *q, struct problem *p)
{
        struct store *s = store_of(source);
        int err = wake(s, p);
        if (err)
                return err;
        int rc = find_minutes(s->finder.file.db, q);
        if (rc == SQLITE_NOMEM)
                return problem_set(p, ERR_NOMEM, "no memory for minutes of the history");
        return rc == SQLITE_OK ? OK : archive_file_fail(s->finder.file.db, s->path, p);
}

int sql_source_open(const char *path, const char *log, struct sql_source **ret, struct problem *p)
{
        struct store *s = xcalloc(1, sizeof(*s));
        s->base = (struct sql_source){get_jobs, get_incidents, get_audits, get_minutes};
        s->path = xstrdup(path);
        s->log = log ? xstrdup(log) : NULL;
        int err = wake(s, p);
        if (err) {
                (void)sql_source_close(&s->base);
                return err;
        }
        sql_source_rest(&s->base);
        *ret = &s->base;
        return OK;
}

struct sql_source *sql_source_close(struct sql_source *source)
{
        if (!source)
                return NULL;
        struct store *s = store_of(source);
        sql_source_rest(source);
        free(s->path);
        free(s->log);
        free(s);
        return NULL;
}
