/* History when the process is killed, the disk is full or read-only, the file damaged or locked:
 * nothing that was reported is lost, and whoever must act is told what to do.
 *
 * weir-test: tsan */
#include "check.h"

#include <errno.h>
#include <sys/mount.h>

#include "history_box.h"

/* The child stores for ever and writes each reported id into the pipe. */
_Noreturn static void store_until_killed(struct box *box, int fd)
{
        enum { N = 100 };
        struct job *jobs[N];
        box_open(box);
        for (uint64_t id = 1;; id += N) {
                for (uint64_t i = 0; i < N; i++)
                        jobs[i] = job_plain(id + i);
                box_store(box, jobs, N);
                uint64_t last = id + N - 1;
                if (write(fd, &last, sizeof(last)) != sizeof(last))
                        _exit(1);
                jobs_drop(jobs, N);
        }
}

static void what_was_reported_survives_a_kill(void **state)
{
        struct box box;
        (void)state;
        for (unsigned round = 0; round < 8; round++) {
                int fds[2];
                uint64_t last = 0;
                uint64_t got = 0;
                box_init_folder(&box);
                assert_int_equal(pipe(fds), 0);
                pid_t pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        (void)close(fds[0]);
                        store_until_killed(&box, fds[1]);
                }
                (void)close(fds[1]);
                for (unsigned i = 0; i < 1 + round; i++)
                        assert_int_equal(read(fds[0], &last, sizeof(last)), sizeof(last));
                assert_int_equal(kill(pid, SIGKILL), 0);
                assert_int_equal(waitpid(pid, NULL, 0), pid);
                while (read(fds[0], &got, sizeof(got)) == sizeof(got))
                        last = got;
                (void)close(fds[0]);
                box_open(&box);
                for (uint64_t id = 1; id <= last; id += 7) {
                        struct job *job = job_plain(id);
                        assert_found(&box, &job->view);
                        job_drop(job);
                }
                assert_true(box_has(&box, last));
                /* Whole transactions, and the tally agrees. */
                assert_int_equal(box_stat(&box).rows % 100, 0);
                assert_true(box_stat(&box).rows >= last);
                assert_int_equal(box_count(&box), box_stat(&box).rows);
                box_release(&box);
        }
}

/* A small disk of its own at the box's folder; false when that may not be done here. */
static bool mount_at(const struct box *box, const char *options, unsigned long flags)
{
        if (mount("tmpfs", box->folder, "tmpfs", flags, options) == 0)
                return true;
        assert_true(errno == EPERM || errno == EACCES);
        return false;
}

static void a_full_disk_delays_jobs_and_loses_none(void **state)
{
        enum { N = 6000 };
        struct box box;
        static struct job *jobs[N];
        (void)state;
        box_init_folder(&box);
        if (!mount_at(&box, "size=3m", 0)) {
                box_release(&box);
                skip();
        }
        for (size_t i = 0; i < N; i++) {
                jobs[i] = job_make(i + 1, 1024);
                job_noise(jobs[i], &jobs[i]->view.args, 900);
                job_tell_plainly(jobs[i]);
        }
        box_open(&box);
        box_store(&box, jobs, 100);
        box_hand_over(&box, jobs + 100, N - 100);
        await_errors(&box, 2);
        box.archive->ops->poll(box.archive);
        assert_true(box.n_reported < N);
        assert_found(&box, &jobs[0]->view); /* reading goes on */
        assert_int_equal(mount("tmpfs", box.folder, "tmpfs", MS_REMOUNT, "size=64m"), 0);
        box_wait_reported(&box, N);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(jobs[i]->reported, 1);
        assert_int_equal(box_stat(&box).rows, N);
        assert_found(&box, &jobs[N - 1]->view);
        assert_sql(&box, "PRAGMA integrity_check", "ok");
        box_close(&box);
        assert_int_equal(umount(box.folder), 0);
        box_release(&box);
        jobs_drop(jobs, N);
}

static _Atomic bool is_half_wanted;

static bool is_wanted(const struct job *job)
{
        return !is_half_wanted || job->view.id % 2;
}

static void what_nobody_wants_is_reported_although_nothing_can_be_written(void **state)
{
        enum { N = 6000 };
        struct box box;
        static struct job *jobs[N];
        (void)state;
        box_init_folder(&box);
        if (!mount_at(&box, "size=3m", 0)) {
                box_release(&box);
                skip();
        }
        for (size_t i = 0; i < N; i++) {
                jobs[i] = job_make(i + 1, 1024);
                job_noise(jobs[i], &jobs[i]->view.args, 900);
        }
        is_half_wanted = false;
        box_open(&box);
        box.archive->is_wanted = is_wanted;
        box_hand_over(&box, jobs, N);
        await_errors(&box, 2);
        box.archive->ops->poll(box.archive);
        assert_true(box.n_reported < N / 2);
        while (!box_stat(&box).is_stuck) /* a short transaction may have found room between */
                await_errors(&box, box_stat(&box).errors + 1);
        assert_true(box_stat(&box).room_bytes < 3 * MIB);
        is_half_wanted = true;
        box.archive->ops->wake(box.archive);
        for (size_t i = 1; i < N; i += 2)
                while (!jobs[i]->reported)
                        box_turn(&box);
        assert_true(box.n_reported < N); /* some are wanted and wait */
        assert_int_equal(mount("tmpfs", box.folder, "tmpfs", MS_REMOUNT, "size=64m"), 0);
        box_wait_reported(&box, N);
        assert_false(box_stat(&box).is_stuck);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(jobs[i]->reported, 1);
        for (size_t i = 0; i < N; i += 2)
                assert_true(box_has(&box, i + 1));
        assert_false(box_has(&box, N));
        box_close(&box);
        assert_int_equal(umount(box.folder), 0);
        box_release(&box);
        jobs_drop(jobs, N);
}

static void somebody_elses_write_lock_is_waited_out(void **state)
{
        struct box box;
        struct job *job = job_plain(1);
        sqlite3 *db;
        (void)state;
        box_init(&box);
        assert_int_equal(sqlite3_open(box.path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
        box_hand_over(&box, &job, 1);
        assert_int_equal(box_stat(&box).failing_since_ms, 0);
        await_errors(&box, 1);
        assert_int_equal(job->reported, 0);
        struct archive_stat st = box_stat(&box);
        assert_int_equal(st.failing_since_ms, BOX_NOW);
        assert_non_null(strstr(st.failing, "locked"));
        /* Trouble that lasts began when it began. */
        atomic_store(&box.wall_ms, BOX_NOW + 1000);
        await_errors(&box, st.errors + 1);
        assert_int_equal(box_stat(&box).failing_since_ms, BOX_NOW);
        assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
        box_wait_reported(&box, 1);
        assert_int_equal(box_stat(&box).failing_since_ms, 0);
        assert_string_equal(box_stat(&box).failing, "");
        assert_found(&box, &job->view);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        box_release(&box);
        job_drop(job);
}

/* Removed or replaced under a running weir, the open file takes whatever is written, and all of it
 * is gone with the process. */
static void a_file_that_is_gone_gets_no_jobs_and_none_is_lost(void **state)
{
        static const bool are_replaced[] = {false, true};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(are_replaced); i++) {
                struct box box;
                struct job *before = job_plain(1), *after = job_plain(2);
                char away[240];
                box_init(&box);
                box_store(&box, &before, 1);
                (void)snprintf(away, sizeof(away), "%s.away", box.path);
                assert_int_equal(rename(box.path, away), 0);
                if (are_replaced[i]) {
                        int fd = open(box.path, O_WRONLY | O_CREAT | O_EXCL, 0600);
                        assert_true(fd >= 0);
                        assert_int_equal(close(fd), 0);
                }
                box_hand_over(&box, &after, 1);
                await_errors(&box, 2);
                box.archive->ops->poll(box.archive);
                assert_int_equal(after->reported, 0);
                assert_int_equal(rename(away, box.path), 0); /* and put back */
                box_wait_reported(&box, 2);
                box_close(&box);
                box_open(&box);
                assert_found(&box, &before->view);
                assert_found(&box, &after->view);
                box_release(&box);
                job_drop(before);
                job_drop(after);
        }
}

static void close_gives_up_on_a_full_disk_and_the_jobs_come_again(void **state)
{
        enum { N = 4000 };
        struct box box;
        static struct job *jobs[N];
        (void)state;
        box_init_folder(&box);
        if (!mount_at(&box, "size=512k", 0)) {
                box_release(&box);
                skip();
        }
        for (size_t i = 0; i < N; i++) {
                jobs[i] = job_make(i + 1, 1024);
                job_noise(jobs[i], &jobs[i]->view.args, 900);
                job_tell_plainly(jobs[i]);
        }
        box_open(&box);
        box_hand_over(&box, jobs, N);
        box_close(&box);
        size_t before = box.n_reported;
        assert_true(before < N);
        assert_int_equal(mount("tmpfs", box.folder, "tmpfs", MS_REMOUNT, "size=64m"), 0);
        box_open(&box);
        assert_int_equal(box_stat(&box).rows, before);
        box_store(&box, jobs, N);
        assert_int_equal(box_stat(&box).rows, N);
        box_close(&box);
        assert_int_equal(umount(box.folder), 0);
        box_release(&box);
        jobs_drop(jobs, N);
}

static void a_read_only_disk_is_refused_with_its_name(void **state)
{
        struct box box;
        struct problem p;
        (void)state;
        box_init_folder(&box);
        if (!mount_at(&box, "size=1m", MS_RDONLY)) {
                box_release(&box);
                skip();
        }
        assert_int_equal(box_try_open(&box, &p), ERR_IO);
        assert_non_null(strstr(p.detail, box.path));
        assert_non_null(strstr(p.detail, "Read-only"));
        assert_int_equal(umount(box.folder), 0);
        box_release(&box);
}

static void a_folder_that_is_not_there_is_refused(void **state)
{
        struct box box;
        struct problem p;
        (void)state;
        box_init_folder(&box);
        (void)snprintf(box.path, sizeof(box.path), "%s/no/history.db", box.folder);
        assert_int_equal(box_try_open(&box, &p), ERR_IO);
        assert_non_null(strstr(p.detail, "No such file"));
        box_release(&box);
}

/* A history with a thousand jobs in rows, closed. */
static void make_file(struct box *box)
{
        enum { N = 1000, FEW = 50 }; /* too few for a block */
        static struct job *jobs[N];
        box_init(box);
        for (size_t i = 0; i < N; i++)
                jobs[i] = job_plain(i + 1);
        for (size_t i = 0; i < N; i += FEW)
                box_store(box, jobs + i, FEW);
        box_close(box);
        jobs_drop(jobs, N);
}

static void overwrite(const struct box *box, off_t at, off_t n)
{
        char junk[4096];
        int fd = open(box->path, O_WRONLY);
        assert_true(fd >= 0);
        memset(junk, 0xa5, sizeof(junk));
        for (off_t done = 0; done < n; done += (off_t)sizeof(junk))
                assert_int_equal(pwrite(fd, junk, sizeof(junk), at + done), sizeof(junk));
        assert_int_equal(close(fd), 0);
}

static void assert_refused(struct box *box, const char *why)
{
        struct problem p;
        struct stat before;
        struct stat after;
        assert_int_equal(stat(box->path, &before), 0);
        assert_int_equal(box_try_open(box, &p), ERR_CORRUPT);
        assert_non_null(strstr(p.detail, box->path));
        if (!strstr(p.detail, why))
                fail_msg("\"%s\" does not say \"%s\"", p.detail, why);
        assert_int_equal(stat(box->path, &after), 0);
        assert_int_equal(before.st_size, after.st_size); /* kept for whoever wants to save it */
}

static void a_damaged_file_is_refused_and_says_what_to_do(void **state)
{
        static const struct {
                off_t at, n, cut;
        } damages[] = {
                {0, 4096, 0},          /* no SQLite file at all */
                {4096, 12288, 0},      /* the tables' definitions */
                {16384, 5 * 16384, 0}, /* the tops of all tables */
                {0, 0, 16384},         /* cut after the first page */
        };
        struct box box;
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
                make_file(&box);
                overwrite(&box, damages[i].at, damages[i].n);
                if (damages[i].cut)
                        assert_int_equal(truncate(box.path, damages[i].cut), 0);
                assert_refused(&box, "live jobs are not");
                /* And what it says to do helps. */
                char away[240];
                (void)snprintf(away, sizeof(away), "%s.away", box.path);
                assert_int_equal(rename(box.path, away), 0);
                box_open(&box);
                assert_int_equal(box_stat(&box).rows, 0);
                box_release(&box);
        }
}

static void change_file(const struct box *box, const char *sql)
{
        sqlite3 *db;
        assert_int_equal(sqlite3_open(box->path, &db), SQLITE_OK);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_file_that_is_not_ours_is_refused_and_left_alone(void **state)
{
        struct box box;
        (void)state;
        box_init_folder(&box);
        change_file(&box, "CREATE TABLE job(x); INSERT INTO job VALUES(1)");
        assert_refused(&box, "not weir's history");
        assert_sql(&box, "SELECT x FROM job", "1");
        box_release(&box);

        make_file(&box);
        change_file(&box, "PRAGMA user_version = 9");
        assert_refused(&box, "format 9");
        change_file(&box, "PRAGMA user_version = 0");
        assert_refused(&box, "format 0");
        change_file(&box, "PRAGMA user_version = 8; ALTER TABLE lapse RENAME TO elapsed");
        assert_refused(&box, "lacks a table");
        change_file(&box, "ALTER TABLE elapsed RENAME TO lapse; DROP TABLE span");
        assert_refused(&box, "lacks a table");
        box_release(&box);
}

static void note_error(struct archive_query *q)
{
        int *err = q->ctx;
        *err = q->err ? q->err : 1;
}

static void damage_in_the_middle_fails_the_query_that_meets_it(void **state)
{
        struct box box;
        int err = 0;
        (void)state;
        make_file(&box);
        struct stat st;
        assert_int_equal(stat(box.path, &st), 0);
        off_t middle = st.st_size * 3 / 4 / 16384 * 16384; /* the first pages are other tables' */
        overwrite(&box, middle, 16384);
        box_open(&box);
        struct archive_query q = {
                .limit = 1000, .filter = {.status = -1}, .done = note_error, .ctx = &err};
        box.archive->ops->query(box.archive, &q);
        while (!err)
                box_turn(&box);
        assert_int_equal(err, ERR_CORRUPT);
        assert_int_equal(box_stat(&box).errors, 1);
        arena_release(&q.arena);
        struct job *job = job_plain(1000);
        assert_found(&box, &job->view); /* the rest can be read */
        job->view.id = 1001;
        box_store(&box, &job, 1); /* and written */
        job_drop(job);
        box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_was_reported_survives_a_kill),
                cmocka_unit_test(a_full_disk_delays_jobs_and_loses_none),
                cmocka_unit_test(what_nobody_wants_is_reported_although_nothing_can_be_written),
                cmocka_unit_test(somebody_elses_write_lock_is_waited_out),
                cmocka_unit_test(a_file_that_is_gone_gets_no_jobs_and_none_is_lost),
                cmocka_unit_test(close_gives_up_on_a_full_disk_and_the_jobs_come_again),
                cmocka_unit_test(a_read_only_disk_is_refused_with_its_name),
                cmocka_unit_test(a_folder_that_is_not_there_is_refused),
                cmocka_unit_test(a_damaged_file_is_refused_and_says_what_to_do),
                cmocka_unit_test(a_file_that_is_not_ours_is_refused_and_left_alone),
                cmocka_unit_test(damage_in_the_middle_fails_the_query_that_meets_it),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
