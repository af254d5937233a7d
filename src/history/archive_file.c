/* Opening the history file, and refusing to when it is not what it should be.
 *
 * Settings, measured with a million 200-byte jobs (CPU of SQLite and the kernel for one job,
 * syncs and checkpoints included, on a machine whose figures vary by 0.3 us):
 *
 *   page size      4 KiB 3.5 us, 8 KiB 2.5, 16 KiB 2.1, when stories were still written out;
 *                  without them 16 KiB 1.4 and 32 KiB 1.7.  Fewer, larger writes, until a small
 *                  transaction writes too much for its rows.
 *   WAL, FULL      a commit is one sequential write and one sync, readers never wait for it, and
 *                  it is durable when it returns.
 *   names as text  numbers with a table of names would save 0.2 us and 50 bytes a job, but the
 *                  table would need its own retention, and a person could not read the rows.
 *   no index on    0.6-0.9 us a job for each.  The table span is enough for retention, and since
 *   times, hooks   version 3 it says what its 4,096 ids can hold, so a filter passes over those
 * that hold nothing for it: 0.03 us a job, and an old file needs no rebuilding.  Failed and
 * canceled jobs, which people look for, have a partial index that complete ones do not pay for.
 *
 *   lapse          results with a lifetime of their own are few: a row here for each of them costs
 *                  the others nothing, an index over all rows would.
 *
 * A file is checked on opening as far as that is quick: its mark and version, its tables, both
 * ends of each.  Damage in the middle shows when a query meets it.  A damaged file is never
 * repaired, emptied or replaced here: that is for a person to decide. */
#include "history/archive_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/shown.h"
#include "core/rollup.h"
#include "history/audits.h"
#include "history/blocks_verify.h"
#include "history/checksum.h"
#include "state/job_view.h"

#define APPLICATION_ID 0x77656972 /* "weir" */
/* An operator's sqlite3 shell may hold the lock for a moment.  Later on history.c tries again by
 * itself, and must be able to stop soon. */
#define OPEN_WAIT_MS 2000
#define BUSY_WAIT_MS 200

/* The numbers are in files out there. */
_Static_assert(JOB_COMPLETE == 2 && JOB_FAILED == 3 && JOB_CANCELED == 4,
               "statuses are stored as numbers");

#define STRING(x)      #x
#define NUMBER(x)      STRING(x)
#define ISO(ms_column) "strftime('%Y-%m-%dT%H:%M:%fZ', " ms_column " / 1000.0, 'unixepoch')"

/* The page size must be set before the first table.  16 MiB of cache hold an ordinary
 * transaction; of a larger one pages go to the -wal file early, which costs nothing more. */
static const char setup_sql[] =
        "PRAGMA page_size = " NUMBER(ARCHIVE_PAGE_BYTES) ";"
                                                         "PRAGMA auto_vacuum = NONE;"
                                                         "PRAGMA secure_delete = OFF;"
                                                         "PRAGMA synchronous = FULL;"
                                                         "PRAGMA wal_autocheckpoint = 0;"
                                                         "PRAGMA journal_size_limit = 134217728;"
                                                         "PRAGMA temp_store = MEMORY;"
                                                         "PRAGMA cache_size = -16384;";

/* An `events` that is NULL stands for the plain list of events, which the other columns tell
 * already: history/events_json.h and this view must agree on it. */
/* clang-format off */
#define VIEW_SQL                                                                                   \
        "CREATE VIEW jobs AS SELECT id,"                                                           \
        " CASE status WHEN 2 THEN 'complete' WHEN 3 THEN 'failed' ELSE 'canceled' END AS status,"  \
        " hook, queue, grp AS \"group\", priority, attempt, attempts_max, timeout_ms,"             \
        " " ISO("created_ms") " AS created,"                                                       \
        " " ISO("due_ms") " AS due,"                                                               \
        " " ISO("nullif(started_ms, 0)") " AS started,"                                            \
        " " ISO("finished_ms") " AS finished,"                                                     \
        " worker, fence, args, progress, result, error,"                                           \
        " coalesce(events,"                                                                        \
        "  '[' || json_object('event', 'created', 'at', created_ms) ||"                            \
        "  CASE WHEN started_ms > 0 THEN ',' || json_patch("                                       \
        "   json_object('event', 'started', 'at', started_ms), json_object('worker', worker))"     \
        "   ELSE '' END || ',' ||"                                                                 \
        "  json_patch(json_object('event', CASE status WHEN 2 THEN 'completed' WHEN 3 THEN"        \
        "   'failed' ELSE 'canceled' END, 'at', finished_ms),"                                     \
        "   json_object('worker', worker, 'message', CASE status WHEN 3 THEN error END))"          \
        "  || ']') AS events, run"                                                                 \
        " FROM job;"
#define LAPSE_SQL                                                                                  \
        "CREATE TABLE lapse(until_ms INTEGER, id INTEGER, run INTEGER, finished_ms INTEGER,"       \
        " PRIMARY KEY(until_ms, id, run, finished_ms)) WITHOUT ROWID;"
#define SPAN_SQL                                                                                   \
        "ALTER TABLE span ADD COLUMN created_first INTEGER;"                                       \
        "ALTER TABLE span ADD COLUMN created_last INTEGER;"                                        \
        "ALTER TABLE span ADD COLUMN marks BLOB;"
#define CHECKSUM_SQL "ALTER TABLE job ADD COLUMN checksum INTEGER;"
#define INCIDENT_SQL                                                                               \
        "CREATE TABLE incident(number INTEGER PRIMARY KEY, at_ms INTEGER, event TEXT,"             \
        " message TEXT);"                                                                          \
        "CREATE VIEW incidents AS SELECT number, " ISO("at_ms") " AS at, event, message"           \
        " FROM incident;"
#define BLOCK_SQL                                                                                  \
        "CREATE TABLE block(number INTEGER PRIMARY KEY, segment INTEGER NOT NULL,"                 \
        " offset INTEGER NOT NULL, bytes INTEGER NOT NULL, mark BLOB NOT NULL, dead BLOB);"        \
        "CREATE TABLE store(id BLOB NOT NULL);"                                                    \
        "INSERT INTO store VALUES(randomblob(16));"
#define AUDIT_SQL                                                                                  \
        "CREATE TABLE audit(number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL,"                   \
        " times INTEGER NOT NULL, who TEXT NOT NULL, role TEXT NOT NULL, address TEXT NOT NULL,"   \
        " door TEXT NOT NULL, command TEXT NOT NULL, what TEXT NOT NULL, \"before\" TEXT NOT NULL," \
        " \"after\" TEXT NOT NULL, reason TEXT NOT NULL, checksum INTEGER NOT NULL);"              \
        "CREATE INDEX audit_at ON audit(at_ms);"
#define MINUTE_SQL                                                                                 \
        "CREATE TABLE minute(step INTEGER, at INTEGER, body BLOB, PRIMARY KEY(step, at));"
#define VERSION_SQL "PRAGMA user_version = " NUMBER(ARCHIVE_VERSION) ";"

static const char schema_sql[] =
        "CREATE TABLE job(id INTEGER PRIMARY KEY"
#define X(name, text, type) ", " text " " type
        ARCHIVE_COLUMN_MAP(X)
#undef X
        ");"
        "CREATE INDEX job_not_complete ON job(status) WHERE status > 2;"
        "CREATE TABLE span(block INTEGER PRIMARY KEY, done_ms INTEGER, failed_ms INTEGER);"
        "CREATE TABLE tally(rows INTEGER);"
        "INSERT INTO tally VALUES(0);"
        SPAN_SQL LAPSE_SQL VIEW_SQL INCIDENT_SQL MINUTE_SQL BLOCK_SQL AUDIT_SQL
        "PRAGMA application_id = " NUMBER(APPLICATION_ID) ";"
        VERSION_SQL;

/* From an older version, in place and in the time of a commit: SQLite adds columns without touching
 * the rows.  An index on the new columns would read the whole file; hence the table lapse.  The
 * spans that are there say nothing about their rows: those are looked through.  The rows that are
 * there have no checksum and are not checked. */
static const char upgrade_1_sql[] =
        "ALTER TABLE job ADD COLUMN options BLOB;"
        "ALTER TABLE job ADD COLUMN run INTEGER DEFAULT 0;"
        LAPSE_SQL
        "DROP VIEW jobs;" VIEW_SQL
        SPAN_SQL CHECKSUM_SQL INCIDENT_SQL MINUTE_SQL BLOCK_SQL AUDIT_SQL VERSION_SQL;
static const char upgrade_2_sql[] = SPAN_SQL CHECKSUM_SQL INCIDENT_SQL MINUTE_SQL BLOCK_SQL AUDIT_SQL VERSION_SQL;
static const char upgrade_3_sql[] = CHECKSUM_SQL INCIDENT_SQL MINUTE_SQL BLOCK_SQL AUDIT_SQL VERSION_SQL;
static const char upgrade_4_sql[] = INCIDENT_SQL MINUTE_SQL BLOCK_SQL AUDIT_SQL VERSION_SQL;
static const char upgrade_5_sql[] = MINUTE_SQL BLOCK_SQL AUDIT_SQL VERSION_SQL;
static const char upgrade_6_sql[] = BLOCK_SQL AUDIT_SQL VERSION_SQL;
static const char upgrade_7_sql[] = AUDIT_SQL VERSION_SQL;
static const char *const upgrades[ARCHIVE_VERSION] = {[1] = upgrade_1_sql,
                                                      [2] = upgrade_2_sql,
                                                      [3] = upgrade_3_sql,
                                                      [4] = upgrade_4_sql,
                                                      [5] = upgrade_5_sql,
                                                      [6] = upgrade_6_sql,
                                                      [7] = upgrade_7_sql};
/* clang-format on */

/* Reads the first and the last page of each table and index, which is quick in any size. */
static const char touch_sql[] = "SELECT min(id) FROM job UNION ALL SELECT max(id) FROM job "
                                "UNION ALL SELECT min(block) FROM span "
                                "UNION ALL SELECT max(block) FROM span "
                                "UNION ALL SELECT count(*) FROM (SELECT rows FROM tally LIMIT 1) "
                                "UNION ALL SELECT count(*) FROM "
                                "(SELECT id FROM job WHERE status = 3 AND status > 2 LIMIT 1) "
                                "UNION ALL SELECT count(*) FROM (SELECT id FROM jobs LIMIT 1)";
static const char touch_new_sql[] = "SELECT min(until_ms) FROM lapse " /* since version 2 */
                                    "UNION ALL SELECT count(marks) FROM (SELECT marks FROM span "
                                    "LIMIT 1) " /* since version 3 */
                                    "UNION ALL SELECT count(checksum) FROM (SELECT checksum FROM "
                                    "job LIMIT 1) " /* since version 4 */
                                    "UNION ALL SELECT min(number) FROM incident "
                                    "UNION ALL SELECT max(number) FROM incident "
                                    "UNION ALL SELECT count(*) FROM "
                                    "(SELECT number FROM incidents LIMIT 1) " /* since version 5 */
                                    "UNION ALL SELECT min(at) FROM minute WHERE step = 1 "
                                    "UNION ALL SELECT max(at) FROM minute WHERE "
                                    "step = 60 " /* since version 6 */
                                    "UNION ALL SELECT min(number) FROM block "
                                    "UNION ALL SELECT max(number) FROM block "
                                    "UNION ALL SELECT length(id) FROM store " /* since version 7 */
                                    "UNION ALL SELECT min(number) FROM audit "
                                    "UNION ALL SELECT max(number) FROM audit "
                                    "UNION ALL SELECT max(at_ms) FROM audit"; /* since version 8 */

/* Counting allocations would take a process-wide mutex for each of them. */
static void configure_sqlite(void)
{
        (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* refused when already in use: fine */
}

/* Without its folder: the files that belong together have names that begin with it. */
static const char *name_of(const char *path)
{
        const char *slash = strrchr(path, '/');
        return slash ? slash + 1 : path;
}

int archive_file_fail(sqlite3 *db, const char *path, struct problem *p)
{
        int code = sqlite3_extended_errcode(db);
        int os = sqlite3_system_errno(db);
        switch (code & 0xff) {
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
                return problem_set(p, ERR_CORRUPT,
                                   "the history file %s is damaged (%s); move all of %s* away and "
                                   "start again: the finished jobs in them are lost from history, "
                                   "live jobs are not",
                                   SHOWN_MAX(slice_str(path), 110), sqlite3_errmsg(db),
                                   SHOWN_MAX(slice_str(name_of(path)), 20));
        case SQLITE_FULL:
                return problem_set(p, ERR_NOSPACE, "no space is left for the history file %s",
                                   SHOWN_LONG(path));
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                return problem_set(p, ERR_LOCKED,
                                   "another process holds the history file %s locked",
                                   SHOWN_LONG(path));
        case SQLITE_NOMEM:
                return problem_set(p, ERR_NOMEM, "no memory for the history file %s",
                                   SHOWN_LONG(path));
        default:
                return problem_set(p, ERR_IO, "history file %s: %s%s%s",
                                   SHOWN_MAX(slice_str(path), 120), sqlite3_errmsg(db),
                                   os ? ": " : "", os ? strerror(os) : "");
        }
}

/* Runs every statement of `sql`; the last row's first number, if there was one, in *ret. */
static int run(sqlite3 *db, const char *sql, int64_t *ret)
{
        while (*sql) {
                sqlite3_stmt *stmt = NULL;
                int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, &sql);
                if (rc != SQLITE_OK)
                        return rc;
                for (rc = sqlite3_step(stmt); rc == SQLITE_ROW; rc = sqlite3_step(stmt))
                        if (ret)
                                *ret = sqlite3_column_int64(stmt, 0);
                (void)sqlite3_finalize(stmt); /* repeats the error of step */
                if (rc != SQLITE_DONE)
                        return rc;
        }
        return SQLITE_OK;
}

/* SQLite gives a new file the mode 0644 and its -wal and -shm that of the file; jobs may hold
 * secrets, so the file is made here. */
static int make_private(const char *path, struct problem *p)
{
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
                return problem_set(p, ERR_IO, "cannot open the history file %s: %s",
                                   SHOWN_LONG(path), strerror(errno));
        (void)close(fd); /* nothing was written */
        return OK;
}

/* All of it or nothing. */
static int change_tables(sqlite3 *db, const char *sql, const char *path, struct problem *p)
{
        if (run(db, "BEGIN IMMEDIATE", NULL) == SQLITE_OK && run(db, sql, NULL) == SQLITE_OK &&
            run(db, "COMMIT", NULL) == SQLITE_OK)
                return OK;
        int err = archive_file_fail(db, path, p);
        (void)run(db, "ROLLBACK", NULL); /* the error above is the one to tell */
        return err;
}

static int touch(sqlite3 *db, const char *sql, const char *path, struct problem *p)
{
        if (run(db, sql, NULL) == SQLITE_OK)
                return OK;
        int err = archive_file_fail(db, path, p);
        if (sqlite3_errcode(db) != SQLITE_ERROR)
                return err;
        return problem_set(
                p, ERR_CORRUPT,
                "the history file %s lacks a table (%s); move all of %s* away and start again: the "
                "finished jobs in them are lost from history, live jobs are not",
                SHOWN_MAX(slice_str(path), 110), sqlite3_errmsg(db),
                SHOWN_MAX(slice_str(name_of(path)), 20));
}

/* The format version; 0: an empty file. */
static int read_version(sqlite3 *db, const char *path, int64_t *ret, struct problem *p)
{
        int64_t application = 0;
        int64_t version = 0;
        int64_t tables = 0;
        *ret = 0;
        if (run(db, "PRAGMA application_id", &application) != SQLITE_OK ||
            run(db, "PRAGMA user_version", &version) != SQLITE_OK ||
            run(db, "SELECT count(*) FROM sqlite_schema", &tables) != SQLITE_OK)
                return archive_file_fail(db, path, p);
        if (application == 0 && tables == 0)
                return OK;
        if (application != APPLICATION_ID)
                return problem_set(p, ERR_CORRUPT,
                                   "%s is an SQLite file, but not weir's history; move it away "
                                   "or name another file",
                                   SHOWN_LONG(path));
        if (version < 1 || version > ARCHIVE_VERSION)
                return problem_set(p, ERR_CORRUPT,
                                   "the history file %s has format %lld, this weir knows %d; "
                                   "use the weir that wrote it, or move it away",
                                   SHOWN_MAX(slice_str(path), 120), (long long)version,
                                   ARCHIVE_VERSION);
        *ret = version;
        return OK;
}

static int check_tables(sqlite3 *db, const char *path, struct problem *p)
{
        int64_t version;
        int err = read_version(db, path, &version, p);
        if (err)
                return err;
        if (!version)
                return change_tables(db, schema_sql, path, p);
        err = touch(db, touch_sql, path, p);
        if (!err && version < ARCHIVE_VERSION)
                err = change_tables(db, upgrades[version], path, p);
        return err ? err : touch(db, touch_new_sql, path, p);
}

static int set_up(sqlite3 *db, const char *path, struct problem *p)
{
        if (sqlite3_busy_timeout(db, OPEN_WAIT_MS) != SQLITE_OK ||
            run(db, setup_sql, NULL) != SQLITE_OK ||
            run(db, "PRAGMA journal_mode = WAL", NULL) != SQLITE_OK)
                return archive_file_fail(db, path, p);
        int err = check_tables(db, path, p);
        if (!err && sqlite3_busy_timeout(db, BUSY_WAIT_MS) != SQLITE_OK)
                return archive_file_fail(db, path, p);
        return err;
}

static int connect_to(const char *path, int flags, sqlite3 **ret, struct problem *p)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        sqlite3 *db = NULL;
        (void)pthread_once(&once, configure_sqlite);
        if (sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
                int err = db ? archive_file_fail(db, path, p)
                             : problem_set(p, ERR_NOMEM, "no memory for the history file");
                (void)sqlite3_close(db);
                return err;
        }
        (void)sqlite3_extended_result_codes(db, 1); /* only sets a flag */
        *ret = db;
        return OK;
}

int archive_file_open(const char *path, sqlite3 **ret, struct problem *p)
{
        sqlite3 *db = NULL;
        int err = make_private(path, p);
        if (!err)
                err = connect_to(path, SQLITE_OPEN_READWRITE, &db, p);
        if (err)
                return err;
        err = set_up(db, path, p);
        if (err) {
                (void)sqlite3_close(db); /* no statement is open */
                return err;
        }
        *ret = db;
        return OK;
}

int archive_file_open_reader(const char *path, sqlite3 **ret, struct problem *p)
{
        sqlite3 *db = NULL;
        int err = connect_to(path, SQLITE_OPEN_READONLY, &db, p);
        if (err)
                return err;
        if (sqlite3_busy_timeout(db, BUSY_WAIT_MS) != SQLITE_OK ||
            run(db, "PRAGMA cache_size = -8192", NULL) != SQLITE_OK) {
                err = archive_file_fail(db, path, p);
                (void)sqlite3_close(db); /* no statement is open */
                return err;
        }
        *ret = db;
        return OK;
}

/* As SQLite reads it: "file:PATH", with what ends a path there written as %XX. */
static void put_uri(struct buf *b, const char *path, const char *query)
{
        buf_put_str(b, "file:");
        for (const char *c = path; *c; c++) {
                if (strchr("%?#", *c))
                        buf_printf(b, "%%%02X", (unsigned)*c);
                else
                        buf_put_byte(b, *c);
        }
        buf_put_str(b, query);
}

/* Without a -wal file the main file is all there is, and SQLite need not make one to read it. */
static const char *query_for(const char *path, bool is_in_use)
{
        char wal[4096 + 8];
        struct stat st;
        int n = snprintf(wal, sizeof(wal), "%s-wal", path);
        bool has_wal = n < (int)sizeof(wal) && stat(wal, &st) == 0 && st.st_size > 0;
        return has_wal || is_in_use ? "?mode=ro" : "?mode=ro&immutable=1";
}

/* A connection for looking at a file that this process does not otherwise use. */
static int look_at(const char *path, bool is_in_use, sqlite3 **ret, struct problem *p)
{
        struct buf uri CLEANUP(buf_release) = {0};
        if (access(path, F_OK) != 0)
                return problem_set(p, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: %s",
                                   SHOWN_LONG(path), strerror(errno));
        put_uri(&uri, path, query_for(path, is_in_use));
        int err = connect_to(buf_cstr(&uri), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, ret, p);
        if (!err)
                (void)sqlite3_busy_timeout(*ret, OPEN_WAIT_MS); /* only sets a number */
        return err;
}

static int check_version(sqlite3 *db, const char *path, struct problem *p)
{
        int64_t version;
        int err = read_version(db, path, &version, p);
        if (!err && !version)
                return problem_set(p, ERR_NOTFOUND, "the history file %s is empty",
                                   SHOWN_LONG(path));
        if (!err && version < ARCHIVE_VERSION)
                return problem_set(p, ERR_STATE,
                                   "the history file %s has the older format %lld; a server of "
                                   "this version upgrades it when it starts",
                                   SHOWN_LONG(path), (long long)version);
        return err;
}

int archive_file_open_to_look(const char *path, bool is_in_use, sqlite3 **ret, struct problem *p)
{
        sqlite3 *db = NULL;
        int err = look_at(path, is_in_use, &db, p);
        if (err)
                return err;
        err = check_version(db, path, p);
        if (!err)
                err = touch(db, touch_sql, path, p);
        if (!err)
                err = touch(db, touch_new_sql, path, p);
        if (err) {
                (void)sqlite3_close(db); /* no statement is open */
                return err;
        }
        *ret = db;
        return OK;
}

/* What SQLite can tell about its own pages, tables and indexes. */
static int verify_structure(sqlite3 *db, archive_damage_fn tell, void *ctx,
                            struct archive_report *report)
{
        sqlite3_stmt *stmt = NULL;
        int rc = sqlite3_prepare_v2(db, "PRAGMA integrity_check(100)", -1, &stmt, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        for (; rc == SQLITE_ROW; rc = sqlite3_step(stmt)) {
                const char *text = (const char *)sqlite3_column_text(stmt, 0);
                if (text && strcmp(text, "ok") == 0)
                        continue;
                report->damaged++;
                tell(ctx, text ? text : "no memory for what SQLite found");
        }
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int verify_rows(sqlite3 *db, archive_damage_fn tell, void *ctx,
                       struct archive_report *report)
{
        bool is_required;
        char what[80];
        sqlite3_stmt *stmt = NULL;
        int rc = checksum_is_required(db, &is_required);
        if (rc == SQLITE_OK)
                rc = sqlite3_prepare_v2(db, "SELECT * FROM job ORDER BY id", -1, &stmt, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        for (; rc == SQLITE_ROW; rc = sqlite3_step(stmt)) {
                enum checksum_verdict verdict = checksum_check(stmt, is_required);
                report->rows++;
                report->unchecked += verdict == CHECKSUM_NONE;
                if (verdict != CHECKSUM_BAD)
                        continue;
                report->damaged++;
                (void)snprintf(what, sizeof(what), "job %lld: its checksum is wrong",
                               (long long)sqlite3_column_int64(stmt, COLUMN_ID));
                tell(ctx, what);
        }
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Rollups have a checksum each. */
static int verify_minutes(sqlite3 *db, archive_damage_fn tell, void *ctx,
                          struct archive_report *report)
{
        char what[80];
        sqlite3_stmt *stmt = NULL;
        int rc = sqlite3_prepare_v2(db, "SELECT step, at, body FROM minute", -1, &stmt, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(stmt);
        for (; rc == SQLITE_ROW; rc = sqlite3_step(stmt)) {
                struct rollup r;
                const void *body = sqlite3_column_blob(stmt, 2);
                size_t len = (size_t)sqlite3_column_bytes(stmt, 2);
                long long step = sqlite3_column_int64(stmt, 0), at = sqlite3_column_int64(stmt, 1);
                rollup_init(&r);
                bool is_good = rollup_unpack(slice_make(body, len), ROLLUP_ALL_KINDS, &r) == OK &&
                               r.span == step && r.at == at;
                rollup_release(&r);
                if (is_good)
                        continue;
                report->damaged++;
                (void)snprintf(what, sizeof(what), "minute %lld of step %lld is damaged", at, step);
                tell(ctx, what);
        }
        (void)sqlite3_finalize(stmt); /* repeats the error of step */
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int archive_file_verify(const char *path, bool is_in_use, archive_damage_fn tell, void *ctx,
                        struct archive_report *ret, struct problem *p)
{
        sqlite3 *db = NULL;
        int64_t version = 0;
        *ret = (struct archive_report){0};
        int err = look_at(path, is_in_use, &db, p);
        if (err)
                return err;
        err = read_version(db, path, &version, p);
        if (!err && version)
                err = touch(db, touch_sql, path, p);
        if (!err && version == ARCHIVE_VERSION)
                err = touch(db, touch_new_sql, path, p);
        if (!err && version &&
            (verify_structure(db, tell, ctx, ret) != SQLITE_OK ||
             verify_rows(db, tell, ctx, ret) != SQLITE_OK ||
             (version == ARCHIVE_VERSION && (verify_minutes(db, tell, ctx, ret) != SQLITE_OK ||
                                             audits_verify(db, tell, ctx, ret) != SQLITE_OK))))
                err = archive_file_fail(db, path, p);
        /* After the rows: a job moves from a row into a block, never back. */
        struct blocks_verify blocks = {tell, ctx, ret};
        if (!err && version)
                err = blocks_verify(&blocks, db, path, p);
        (void)sqlite3_close(db); /* no statement is open */
        return err;
}

int archive_file_last_fence(const char *path, uint64_t *ret, struct problem *p)
{
        sqlite3 *db = NULL;
        int64_t fence = 0;
        int err = look_at(path, true, &db, p);
        if (err)
                return err;
        if (run(db, "SELECT max(fence) FROM job", &fence) != SQLITE_OK)
                err = archive_file_fail(db, path, p);
        *ret = fence > 0 ? (uint64_t)fence : 0;
        if (!err)
                err = blocks_last_fence(db, path, ret, p);
        (void)sqlite3_close(db); /* no statement is open */
        return err;
}
