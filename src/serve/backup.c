/* A backup of a running server, taken from outside: the log, then history, then both made to tell
 * of the same moment.
 *
 * The log is the truth about everything that lives.  Its copy (log/copy.c) ends at some batch B,
 * and a start from it finds what a crash after B would have left.  History is copied afterwards, so
 * it holds every job that the log has let go by B (a job goes from the log only when history has
 * it). But it may hold more: jobs that ended between B and its own copy, which in the copied log
 * still wait or run.  They would run again and be finished already.  So the copied log is replayed,
 * as a start does, which also proves it whole, and rows of history that it does not know of yet are
 * taken out: ids that are not given yet, and jobs that live.  A job that was taken back from
 * history before B keeps the row of its earlier run.
 *
 * History is tables and, beside them, files full of blocks.  The tables are copied first, in one
 * go, and the blocks that they name afterwards.  When the server drops one of those meanwhile, the
 * tables are copied again (history/blocks_copy.h).
 *
 * What the copy does not undo: the row of a job that was finished before B, and retried and ended
 * again after it, tells of the later end.
 *
 * The copy of a cluster is made from its database in the same two steps (backup_cluster.h).
 *
 * It is done by this process and not by the server: no request waits for it, a server that hangs
 * can be backed up, and one that is stopped too.  It must be allowed to read the folder. */
#include "serve/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "history/archive_file.h"
#include "history/blocks_copy.h"
#include "log/file.h"
#include "serve/backup_cluster.h"
#include "serve/config.h"
#include "serve/replayed.h"
#include "state/job.h"

#define BUSY_WAIT_MS 10000
/* How often the tables of history are copied, at most.  The second time there are only the blocks
 * that the first did not get to, and those that were made meanwhile. */
#define HISTORY_TRIES 5
#define PATH_MAX_     4096

struct backup {
        const char *data, *to;
        const struct config_cluster *cluster; /* NULL: a lone weir's folder */
        char part[PATH_MAX_];                 /* what it is called until it is whole */
        struct file_log_report log;
        struct replayed replayed; /* the log */
        int64_t rows;             /* of history, and jobs in its blocks */
        struct problem *problem;
};

static int path_of(const char *folder, const char *name, char ret[PATH_MAX_], struct problem *p)
{
        int n = snprintf(ret, PATH_MAX_, "%s/%s", folder, name);
        if (n < 0 || n >= PATH_MAX_)
                return problem_set(p, ERR_BADARG, "the path is too long");
        return OK;
}

/* ---- the log ---- */

static int copy_log(struct backup *b)
{
        char from_path[PATH_MAX_], to_path[PATH_MAX_];
        struct disk *from = NULL, *to = NULL;
        int r = path_of(b->data, "log", from_path, b->problem);
        if (r == OK)
                r = path_of(b->part, "log", to_path, b->problem);
        if (r == OK)
                r = disk_open_existing(from_path, &from, b->problem);
        if (r == OK)
                r = disk_open_folder(to_path, &to, b->problem);
        if (r == OK)
                r = file_log_copy(from, to, &b->log, b->problem);
        if (r == OK)
                r = file_log_walk(to, replayed_batch, &b->replayed, b->problem);
        if (r == OK)
                r = replayed_end(&b->replayed);
        if (r == ERR_CORRUPT) {
                struct problem found = *b->problem;
                r = problem_set(b->problem, r,
                                "the log is damaged, nothing was copied: %s; 'weir log salvage %s "
                                "NEWDIR' saves what is sound",
                                found.detail, SHOWN_LONG(b->data));
        }
        if (from)
                from = from->ops->release(from);
        if (to)
                to = to->ops->release(to);
        return r;
}

/* ---- history ---- */

static int sqlite_problem(sqlite3 *db, const char *what, const char *path, struct problem *p)
{
        int code = db ? sqlite3_errcode(db) & 0xff : SQLITE_NOMEM;
        return problem_set(p, code == SQLITE_FULL ? ERR_NOSPACE : ERR_IO, "%s %s: %s", what,
                           SHOWN_LONG(path), db ? sqlite3_errmsg(db) : "no memory");
}

/* The copy failed: because of what was read, or of where it is written. */
static int copy_problem(const struct backup *b, sqlite3 *to, const char *path)
{
        char from_path[PATH_MAX_];
        int code = sqlite3_errcode(to) & 0xff;
        if ((code == SQLITE_CORRUPT || code == SQLITE_NOTADB) &&
            path_of(b->data, "history.db", from_path, b->problem) == OK)
                return archive_file_fail(to, from_path, b->problem);
        return sqlite_problem(to, "cannot write", path, b->problem);
}

static int copy_pages(const struct backup *b, sqlite3 *from, sqlite3 *to, const char *path)
{
        sqlite3_backup *copy = sqlite3_backup_init(to, "main", from, "main");
        if (!copy)
                return copy_problem(b, to, path);
        /* All pages in one go are one moment of the file; the writer goes on in its WAL. */
        int step;
        int64_t until_ns = clock_boot_ns() + BUSY_WAIT_MS * NS_PER_MS;
        do {
                step = sqlite3_backup_step(copy, -1);
                if (step == SQLITE_BUSY || step == SQLITE_LOCKED)
                        (void)sqlite3_sleep(20);
        } while ((step == SQLITE_BUSY || step == SQLITE_LOCKED) && clock_boot_ns() < until_ns);
        int end = sqlite3_backup_finish(copy);
        if (step != SQLITE_DONE || end != SQLITE_OK)
                return copy_problem(b, to, path);
        return OK;
}

/* Runs a statement with a number; *ret_changed grows by the rows it changed. */
static int run_sql(sqlite3 *db, const char *sql, int64_t number, int64_t *ret_changed)
{
        sqlite3_stmt *s = NULL;
        int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_bind_int64(s, 1, number);
        if (rc == SQLITE_OK)
                rc = sqlite3_step(s) == SQLITE_DONE ? SQLITE_OK : SQLITE_ERROR;
        if (rc == SQLITE_OK && ret_changed)
                *ret_changed += sqlite3_changes(db);
        (void)sqlite3_finalize(s); /* tells the error of the step again */
        return rc;
}

static uint64_t run_of(const struct job *job)
{
        return job->extra ? job->extra->options.run : 0;
}

/* Rows of jobs that live.  One that ended before is in history, or gets there at the start. */
static int take_back_live(struct backup *b, sqlite3 *db, int64_t *taken)
{
        sqlite3_stmt *s = NULL;
        uint64_t id = 0;
        int rc =
                sqlite3_prepare_v2(db, "DELETE FROM job WHERE id = ?1 AND run >= ?2", -1, &s, NULL);
        for (const struct job *job;
             rc == SQLITE_OK && (job = idmap_next(&b->replayed.state.jobs, id, &id)); id++) {
                if (job->state == JOB_FINISHED)
                        continue;
                (void)sqlite3_bind_int64(s, 1, (int64_t)id); /* cannot fail: two parameters */
                (void)sqlite3_bind_int64(s, 2, (int64_t)run_of(job));
                rc = sqlite3_step(s) == SQLITE_DONE ? sqlite3_reset(s) : SQLITE_ERROR;
                *taken += sqlite3_changes(db);
        }
        (void)sqlite3_finalize(s); /* tells the error of the step again */
        return rc;
}

/* Rows of what, by the log, has not ended yet. */
static int take_back_rows(struct backup *b, sqlite3 *db)
{
        int64_t taken = 0;
        int rc = run_sql(db, "DELETE FROM job WHERE id >= ?1", (int64_t)b->replayed.state.next_id,
                         &taken);
        if (rc == SQLITE_OK)
                rc = take_back_live(b, db, &taken);
        if (rc == SQLITE_OK)
                rc = run_sql(db, "UPDATE tally SET rows = rows - ?1", taken, NULL);
        return rc;
}

/* The same of a job in a block. */
static bool has_not_ended(void *ctx, uint64_t id, uint64_t run)
{
        const struct backup *b = ctx;
        const struct job *job = idmap_get(&b->replayed.state.jobs, id);
        return id >= b->replayed.state.next_id ||
               (job && job->state != JOB_FINISHED && run >= run_of(job));
}

/* May one of them not have ended?  Jobs that live are few among ids that history has. */
static bool has_live_among(void *ctx, uint64_t first, uint64_t last)
{
        const struct backup *b = ctx;
        uint64_t id = 0;
        return last >= b->replayed.state.next_id ||
               (idmap_next(&b->replayed.state.jobs, first, &id) && id <= last);
}

static int count_rows(sqlite3 *db, int64_t *ret)
{
        sqlite3_stmt *s = NULL;
        int rc = sqlite3_prepare_v2(db, "SELECT rows FROM tally", -1, &s, NULL);
        if (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
                *ret = sqlite3_column_int64(s, 0);
        (void)sqlite3_finalize(s); /* a count that cannot be told is 0 */
        return rc;
}

static int make_true(struct backup *b, sqlite3 *db, const char *path)
{
        struct blocks_judge judge = {has_live_among, has_not_ended, b};
        uint64_t in_blocks = 0;
        int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
                rc = take_back_rows(b, db);
        int r = rc == SQLITE_OK ? blocks_take_back(db, path, &judge, b->problem) : OK;
        if (r == OK && rc == SQLITE_OK)
                rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
        if (r == OK && rc == SQLITE_OK)
                rc = count_rows(db, &b->rows);
        if (r == OK && rc == SQLITE_OK)
                r = blocks_count(db, path, &in_blocks, b->problem);
        b->rows += (int64_t)in_blocks;
        return rc == SQLITE_OK ? r : copy_problem(b, db, path);
}

/* The tables, the blocks that they name, and then without what has not ended yet.  ERR_CONFLICT:
 * try again. */
static int copy_once(struct backup *b, sqlite3 *from, struct blocks_copy *blocks,
                     const char *to_path)
{
        sqlite3 *to = NULL;
        int r = OK;
        int fd = open(to_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                return problem_set(b->problem, ERR_IO, "%s: %s", to_path, strerror(errno));
        (void)close(fd); /* SQLite opens it itself; this was for its mode */
        if (sqlite3_open_v2(to_path, &to, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
                r = sqlite_problem(to, "cannot write", to_path, b->problem);
        if (r == OK)
                r = copy_pages(b, from, to, to_path);
        if (r == OK)
                r = blocks_copy_run(blocks, from, to, b->problem);
        if (r == OK)
                r = make_true(b, to, to_path);
        if (sqlite3_close(to) != SQLITE_OK && r == OK)
                r = problem_set(b->problem, ERR_IO, "cannot close %s", to_path);
        if (r == ERR_CONFLICT && unlink(to_path) != 0)
                r = problem_set(b->problem, ERR_IO, "cannot remove %s: %s", to_path,
                                strerror(errno));
        return r;
}

static int copy_history(struct backup *b)
{
        char from_path[PATH_MAX_], to_path[PATH_MAX_];
        sqlite3 *from = NULL;
        int r = path_of(b->data, "history.db", from_path, b->problem);
        if (r == OK)
                r = path_of(b->part, "history.db", to_path, b->problem);
        if (r != OK || access(from_path, F_OK) != 0)
                return r; /* none yet */
        if (sqlite3_open_v2(from_path, &from, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
                r = sqlite_problem(from, "cannot read", from_path, b->problem);
        else
                (void)sqlite3_busy_timeout(from, BUSY_WAIT_MS); /* only sets a number */
        struct blocks_copy *blocks = blocks_copy_new(from_path, to_path);
        int tries = r == OK ? HISTORY_TRIES : 0;
        while (tries-- > 0) {
                r = copy_once(b, from, blocks, to_path);
                if (r != ERR_CONFLICT)
                        break;
        }
        if (r == ERR_CONFLICT)
                r = problem_set(b->problem, ERR_UNAVAIL,
                                "the server changes history faster than it can be copied; try "
                                "again");
        (void)blocks_copy_free(blocks);
        (void)sqlite3_close(from);
        return r;
}

/* ---- the command ---- */

static int sync_folder(const char *path, struct problem *p)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int error = fd < 0 || fsync(fd) != 0 ? errno : 0;
        if (fd >= 0)
                (void)close(fd);
        return error ? problem_set(p, ERR_IO, "%s: %s", path, strerror(error)) : OK;
}

/* There is something to copy. */
static int check_source(struct backup *b)
{
        struct stat st;
        char log_path[PATH_MAX_];
        int r = path_of(b->data, "log", log_path, b->problem);
        if (r != OK)
                return r;
        if (stat(log_path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR))
                return problem_set(b->problem, ERR_NOTFOUND,
                                   "%s is no data folder of weir: name it with --data or -c",
                                   SHOWN_LONG(b->data));
        if (stat(log_path, &st) != 0)
                return problem_set(b->problem, ERR_IO,
                                   "cannot read %s: %s; run this as the user of the server",
                                   SHOWN_LONG(b->data), strerror(errno));
        return OK;
}

static int make_part(struct backup *b)
{
        struct stat st;
        if (lstat(b->to, &st) == 0)
                return problem_set(b->problem, ERR_IO, "%s is there already: name a new folder",
                                   SHOWN_LONG(b->to));
        if (snprintf(b->part, sizeof(b->part), "%s.part", b->to) >= (int)sizeof(b->part))
                return problem_set(b->problem, ERR_BADARG, "the path is too long");
        if (mkdir(b->part, 0700) == 0)
                return OK;
        if (errno == EEXIST)
                return problem_set(b->problem, ERR_IO,
                                   "%s is left of a backup that did not end, or of one that goes "
                                   "on: remove it first",
                                   SHOWN_LONG(b->part));
        return problem_set(b->problem, ERR_IO, "cannot make %s: %s", SHOWN_LONG(b->part),
                           strerror(errno));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
        (void)st;
        (void)type;
        (void)at;
        (void)remove(path); /* what cannot be removed is found by the next try */
        return 0;
}

/* Gives it its name: from here on it is a backup. */
static int finish(struct backup *b)
{
        char copy[PATH_MAX_];
        int r = sync_folder(b->part, b->problem);
        if (r != OK)
                return r;
        if (rename(b->part, b->to) != 0)
                return problem_set(b->problem, ERR_IO, "cannot rename %s to %s: %s",
                                   SHOWN_LONG(b->part), SHOWN_LONG(b->to), strerror(errno));
        (void)snprintf(copy, sizeof(copy), "%s", b->to); /* it was shorter than b->part */
        return sync_folder(dirname(copy), b->problem);
}

/* The log and the history of a cluster, from its database. */
static int copy_cluster(struct backup *b)
{
        char path[PATH_MAX_];
        sqlite3 *db = NULL;
        int r = path_of(b->part, "history.db", path, b->problem);
        if (r == OK)
                r = backup_cluster_copy(b->cluster, b->part, &b->replayed, &b->log.bytes,
                                        b->problem);
        if (r != OK)
                return r;
        if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
                r = sqlite_problem(db, "cannot write", path, b->problem);
        if (r == OK)
                r = make_true(b, db, path);
        if (sqlite3_close(db) != SQLITE_OK && r == OK)
                r = problem_set(b->problem, ERR_IO, "cannot close %s", path);
        return r;
}

static int copy_folder(struct backup *b)
{
        int r = copy_log(b);
        return r == OK ? copy_history(b) : r;
}

static int make_backup(struct backup *b)
{
        int r = b->cluster ? OK : check_source(b);
        if (r == OK)
                r = make_part(b);
        if (r != OK)
                return r;
        replayed_init(&b->replayed, b->problem);
        r = b->cluster ? copy_cluster(b) : copy_folder(b);
        if (r == OK)
                r = finish(b);
        if (r != OK)
                (void)nftw(b->part, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        return r;
}

static void tell(const struct backup *b, bool is_json, int64_t took_ms)
{
        char text[DURATION_TEXT_MAX];
        if (is_json)
                printf("{\"batch\":%llu,\"jobs\":%llu,\"history\":%lld,\"segments\":%llu,"
                       "\"log_bytes\":%llu,\"ms\":%lld}\n",
                       (unsigned long long)b->replayed.last_seq,
                       (unsigned long long)b->replayed.jobs, (long long)b->rows,
                       (unsigned long long)b->log.segments, (unsigned long long)b->log.bytes,
                       (long long)took_ms);
        else
                printf("copied %llu live and %lld finished %s, up to batch %llu, in %s\n"
                       "start from it with: weir serve --data %s\n",
                       (unsigned long long)b->replayed.jobs, (long long)b->rows,
                       plural((uint64_t)b->rows, "job", "jobs"),
                       (unsigned long long)b->replayed.last_seq, duration_words(took_ms, text),
                       b->to);
}

static int run(const struct args *args, struct problem *p)
{
        struct config config;
        struct backup b = {.problem = p};
        const char *file = args_get(args, "config"), *data = args_get(args, "data");
        int64_t began_ns = clock_boot_ns();
        if (!args->n_positional || !args->positional[0][0])
                return problem_set(p, ERR_SYNTAX, "name the new folder: weir backup DIR");
        if (args->n_positional > 1)
                return problem_set(p, ERR_SYNTAX, "unexpected argument '%s'",
                                   SHOWN_STR(args->positional[1]));
        config_init(&config);
        int r = file ? config_read_file(&config, file, p) : OK;
        if (data)
                config_set_data(&config, data);
        if (r == OK)
                r = config_finish(&config, p);
        b.data = config.data;
        b.to = args->positional[0];
        b.cluster = config.cluster.is_given && !data ? &config.cluster : NULL;
        if (r == OK)
                r = make_backup(&b);
        if (r == OK)
                tell(&b, args_has(args, "json"), (clock_boot_ns() - began_ns) / NS_PER_MS);
        replayed_release(&b.replayed);
        config_release(&config);
        return r;
}

int backup_main(int argc, char **argv)
{
        struct args args = {0};
        struct problem p = {0};
        int r = args_parse(&args, cli_backup_options, argv + 1, argc - 1, &p);
        if (r == OK && args_has(&args, "help"))
                return cli_help("backup", NULL);
        if (r == OK)
                r = run(&args, &p);
        if (r == OK && fflush(stdout) != 0)
                r = problem_set(&p, ERR_IO, "cannot write the output: %s", strerror(errno));
        if (r != OK)
                fprintf(stderr, "weir backup: %s\n", p.detail);
        return err_exit(r);
}
