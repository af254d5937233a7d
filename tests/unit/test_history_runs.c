/* History and jobs that come back: their options, the row of a later run, and a file that an older
 * weir wrote.
 *
 * weir-test: tsan */
#include "check.h"

#include "history_box.h"

static struct job *job_of_run(uint64_t id, uint64_t run, enum job_status status)
{
        struct job *job = job_make(id, 256);
        struct job_options options = {.run = run, .key = SLICE_LIT("k"), .batch = SLICE_LIT("b")};
        job_set_packed(job, &options);
        job->view.status = status;
        job->view.finished_ms += (int64_t)run * 1000;
        if (status == JOB_FAILED)
                job_text(job, &job->view.error, "no route");
        job_tell_plainly(job);
        return job;
}

static void options_come_back_as_they_were(void **state)
{
        struct box box;
        struct job *jobs[2] = {job_of_run(1, 0, JOB_FAILED), job_plain(2)};
        (void)state;
        box_init(&box);
        box_store(&box, jobs, 2);
        assert_found(&box, &jobs[0]->view);
        assert_found(&box, &jobs[1]->view);
        assert_sql(&box, "SELECT typeof(options) FROM job WHERE id = 1", "blob");
        assert_sql(&box, "SELECT typeof(options) FROM job WHERE id = 2", "null");
        box_release(&box);
        jobs_drop(jobs, 2);
}

static void a_later_run_replaces_the_row_and_nothing_else_does(void **state)
{
        static const struct {
                uint64_t run;
                bool is_kept;
        } steps[] = {{0, true},  {0, false}, {2, true}, {1, false},
                     {2, false}, {0, false}, {3, true}};
        struct box box;
        struct job *jobs[ARRAY_LEN(steps)];
        size_t kept = 0;
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                jobs[i] = job_of_run(7, steps[i].run, i % 2 ? JOB_COMPLETE : JOB_FAILED);
                box_store(&box, &jobs[i], 1);
                if (steps[i].is_kept)
                        kept = i;
                assert_found(&box, &jobs[kept]->view);
                assert_int_equal(box_stat(&box).rows, 1);
        }
        assert_sql(&box, "SELECT count(*) || ' ' || max(run) FROM jobs", "1 3");
        assert_sql(&box, "SELECT rows FROM tally", "1");
        box_release(&box);
        jobs_drop(jobs, ARRAY_LEN(steps));
}

/* Rows go ten at a time unless one of them was there before. */
static void runs_and_first_ends_share_a_transaction(void **state)
{
        enum { N = 95 };
        struct box box;
        struct job *first[N], *second[N];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < N; i++) {
                first[i] = job_of_run(i + 1, 0, JOB_FAILED);
                second[i] = i % 13 ? job_of_run(1000 + i, 0, JOB_COMPLETE)
                                   : job_of_run(i + 1, 1, JOB_COMPLETE);
        }
        box_store(&box, first, N);
        box_store(&box, second, N);
        assert_int_equal(box_stat(&box).rows, N + N - 8);
        for (size_t i = 0; i < N; i++) {
                assert_found(&box, &second[i]->view);
                if (i % 13)
                        assert_found(&box, &first[i]->view);
        }
        box_close(&box);
        box_open(&box);
        assert_int_equal(box_stat(&box).rows, N + N - 8);
        assert_sql(&box, "PRAGMA integrity_check", "ok");
        box_release(&box);
        jobs_drop(first, N);
        jobs_drop(second, N);
}

/* Retention goes by the end of the last run. */
static void a_replaced_row_is_kept_from_its_new_end_on(void **state)
{
        struct box box;
        struct job *first = job_of_run(1, 0, JOB_FAILED), *second = job_of_run(1, 5, JOB_COMPLETE);
        (void)state;
        box_init_folder(&box);
        box.keep_done_ms = box.keep_failed_ms = 10000;
        box_open(&box);
        box_store(&box, &first, 1);
        box_store(&box, &second, 1);
        atomic_store(&box.wall_ms, BOX_NOW + 14999);
        history_sweep(box.archive);
        assert_true(box_has(&box, 1));
        atomic_store(&box.wall_ms, BOX_NOW + 15000);
        history_sweep(box.archive);
        assert_false(box_has(&box, 1));
        assert_sql(&box, "SELECT count(*) FROM span", "0");
        box_release(&box);
        job_drop(first);
        job_drop(second);
}

/* ---- a file of version 1 ---- */

static const char version_1_sql[] =
        "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL;"
        "CREATE TABLE job(id INTEGER PRIMARY KEY, status INTEGER, finished_ms INTEGER, queue TEXT,"
        " grp TEXT, hook TEXT, created_ms INTEGER, due_ms INTEGER, started_ms INTEGER,"
        " priority INTEGER, attempt INTEGER, attempts_max INTEGER, timeout_ms INTEGER,"
        " fence INTEGER, worker TEXT, progress TEXT, error TEXT, result TEXT, args TEXT,"
        " events TEXT);"
        "CREATE INDEX job_not_complete ON job(status) WHERE status > 2;"
        "CREATE TABLE span(block INTEGER PRIMARY KEY, done_ms INTEGER, failed_ms INTEGER);"
        "CREATE TABLE tally(rows INTEGER);"
        "INSERT INTO tally VALUES(2);"
        "CREATE VIEW jobs AS SELECT id, 'x' AS status, events FROM job;"
        "INSERT INTO job VALUES(5, 3, 1790000000000, 'default', NULL, 'mail.send', 1789999999000,"
        " 1789999999000, 1789999999800, 100, 1, 3, 0, 12, 'w1', NULL, 'no route', NULL,"
        " '{\"to\":\"a@b\"}', NULL);"
        "INSERT INTO job VALUES(6, 2, 1790000000000, 'default', NULL, 'mail.send', 1789999999000,"
        " 1789999999000, 1789999999800, 100, 1, 3, 0, 13, 'w1', NULL, NULL, 'well',"
        " '{\"to\":\"a@b\"}', NULL);"
        "INSERT INTO span VALUES(0, 1790000000000, 1790000000000);"
        "PRAGMA application_id = 0x77656972; PRAGMA user_version = 1;";

static void make_version_1(struct box *box)
{
        sqlite3 *db;
        box_init_folder(box);
        assert_int_equal(sqlite3_open(box->path, &db), SQLITE_OK);
        if (sqlite3_exec(db, version_1_sql, NULL, NULL, NULL) != SQLITE_OK)
                fail_msg("%s", sqlite3_errmsg(db));
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_file_of_version_1_is_brought_up_to_date_with_all_it_holds(void **state)
{
        struct box box;
        struct job *jobs[2] = {job_make(5, 64), job_make(6, 64)};
        (void)state;
        jobs[0]->view.status = JOB_FAILED;
        job_text(jobs[0], &jobs[0]->view.error, "no route");
        job_tell_plainly(jobs[0]);
        job_text(jobs[1], &jobs[1]->view.result, "well");
        job_tell_plainly(jobs[1]);
        make_version_1(&box);
        box_open(&box);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(box_stat(&box).rows, 2);
                assert_found(&box, &jobs[0]->view);
                assert_found(&box, &jobs[1]->view);
                assert_version(&box, ARCHIVE_VERSION);
                assert_sql(&box, "SELECT status || run FROM jobs WHERE id = 5", "failed0");
                box_close(&box); /* and again, as a file of version 2 */
                box_open(&box);
        }
        struct job *again[2] = {job_of_run(5, 0, JOB_COMPLETE), job_of_run(6, 1, JOB_FAILED)};
        box_store(&box, again, 2);
        assert_found(&box, &jobs[0]->view); /* run 0 as well */
        assert_found(&box, &again[1]->view);
        assert_sql(&box, "PRAGMA integrity_check", "ok");
        box_release(&box);
        jobs_drop(jobs, 2);
        jobs_drop(again, 2);
}

/* The same columns in the same places, whichever way the file came about. */
static void a_new_file_and_an_upgraded_one_have_the_same_columns(void **state)
{
        static const char columns[] =
                "SELECT group_concat(name || ' ' || type || ' ' || coalesce(dflt_value, '')) FROM "
                "pragma_table_info('job')";
        struct box fresh, old;
        char want[2048];
        (void)state;
        box_init(&fresh);
        make_version_1(&old);
        box_open(&old);
        ask_sql(&fresh, columns, want, sizeof(want));
        assert_sql(&old, columns, want);
        box_release(&fresh);
        box_release(&old);
}

static void an_upgrade_that_fails_leaves_the_file_as_it_was(void **state)
{
        struct box box;
        struct problem p;
        sqlite3 *db;
        (void)state;
        make_version_1(&box);
        assert_int_equal(sqlite3_open(box.path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, "CREATE TABLE lapse(x)", NULL, NULL, NULL), SQLITE_OK);
        assert_int_not_equal(box_try_open(&box, &p), OK);
        assert_sql(&box, "PRAGMA user_version", "1");
        assert_sql(&box, "SELECT count(*) FROM pragma_table_info('job')", "20");
        assert_int_equal(sqlite3_exec(db, "DROP TABLE lapse", NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        box_open(&box);
        assert_int_equal(box_stat(&box).rows, 2);
        box_release(&box);
}

static void a_file_of_version_6_gets_an_id_and_keeps_it(void **state)
{
        struct box box, other;
        char id[40], again[40];
        (void)state;
        box_init(&box);
        box_close(&box);
        box_downgrade(&box, 6);
        box_open(&box);
        assert_sql(&box, "SELECT count(*) || ' ' || length(id) FROM store", "1 16");
        assert_sql(&box, "SELECT count(*) FROM block", "0");
        ask_sql(&box, "SELECT hex(id) FROM store", id, sizeof(id));
        box_close(&box);
        box_open(&box);
        ask_sql(&box, "SELECT hex(id) FROM store", again, sizeof(again));
        assert_string_equal(id, again);
        box_init(&other);
        ask_sql(&other, "SELECT hex(id) FROM store", again, sizeof(again));
        assert_string_not_equal(id, again);
        box_release(&other);
        box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(options_come_back_as_they_were),
                cmocka_unit_test(a_later_run_replaces_the_row_and_nothing_else_does),
                cmocka_unit_test(runs_and_first_ends_share_a_transaction),
                cmocka_unit_test(a_replaced_row_is_kept_from_its_new_end_on),
                cmocka_unit_test(a_file_of_version_1_is_brought_up_to_date_with_all_it_holds),
                cmocka_unit_test(a_file_of_version_6_gets_an_id_and_keeps_it),
                cmocka_unit_test(a_new_file_and_an_upgraded_one_have_the_same_columns),
                cmocka_unit_test(an_upgrade_that_fails_leaves_the_file_as_it_was),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
