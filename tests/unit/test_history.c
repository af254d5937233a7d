/* The archive of finished jobs: what goes in comes out, once, in order, for as long as it is kept,
 * and nothing is lost when the process or the disk fails.
 *
 * weir-test: tsan */
#include "check.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/mount.h>

#include "history/archive_file.h"
#include "history/archive_finder.h"
#include "history/archive_writer.h"
#include "history/story.h"
#include "unit/history_box.h"

/* ---- what goes in comes out ---- */

static void every_field_of_a_job_comes_back(void **state)
{
        struct box box;
        struct job *job = job_make(12, 1024);
        struct job_view *v = &job->view;
        (void)state;
        box_init(&box);
        v->status = JOB_FAILED;
        v->priority = 255;
        v->attempt = 999;
        v->attempts_max = 1000;
        v->timeout_ms = 86400000;
        v->due_ms = BOX_NOW - 500;
        v->fence = INT64_MAX;
        job_text(job, &v->group, "tenant-1");
        job_text(job, &v->progress, "7 of 9");
        job_text(job, &v->result, "{\"half\":true}");
        job_text(job, &v->error, "no route to host");
        job_tell_plainly(job);
        box_store(&box, &job, 1);
        assert_int_equal(job->reported, 1);
        assert_found(&box, v);
        assert_int_equal(box_stat(&box).rows, 1);
        assert_int_equal(box_stat(&box).stored, 1);
        assert_true(box_stat(&box).bytes > 0);
        box_release(&box);
        job_drop(job);
}

static void a_job_with_nothing_but_a_hook_comes_back(void **state)
{
        struct box box;
        struct job *job = xcalloc(1, sizeof(*job));
        (void)state;
        box_init(&box);
        job->view.id = 1;
        job->view.status = JOB_CANCELED;
        job->view.hook = SLICE_LIT("h");
        box_store(&box, &job, 1);
        assert_found(&box, &job->view);
        box_release(&box);
        job_drop(job);
}

static void bytes_that_are_no_text_come_back_exactly(void **state)
{
        static const struct slice odd[] = {
                SLICE_LIT("\0"),           SLICE_LIT("a\0b"), SLICE_LIT("\xff\xfe"),
                SLICE_LIT("\xed\xa0\x80"), SLICE_LIT("\xc3"), SLICE_LIT("gr\xc3\xbc\xc3\x9f"),
                SLICE_LIT("12"),           SLICE_LIT("1e3"),  SLICE_LIT("x'00'"),
        };
        struct box box;
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
                struct job *job = job_make(i + 1, 512);
                struct job_view *v = &job->view;
                v->args = v->result = v->error = v->progress = v->worker = v->hook = odd[i];
                v->group = odd[i];
                v->status = i % 2 ? JOB_FAILED : JOB_COMPLETE;
                job_tell_plainly(job);
                box_store(&box, &job, 1);
                assert_found(&box, v);
                job_drop(job);
        }
        box_release(&box);
}

static void a_mebibyte_of_args_and_of_result_comes_back(void **state)
{
        struct box box;
        struct job *job = job_make(1, 2 * MIB + 64);
        char *large = malloc(MIB);
        (void)state;
        assert_non_null(large);
        for (size_t i = 0; i < MIB; i++)
                large[i] = (char)(i * 31 >> 3);
        box_init(&box);
        job->view.args = job_keep(job, slice_make(large, MIB));
        job->view.result = job_keep(job, slice_make(large, MIB - 1));
        job_tell_plainly(job);
        box_store(&box, &job, 1);
        assert_found(&box, &job->view);
        box_release(&box);
        job_drop(job);
        free(large);
}

static void an_id_that_was_never_stored_is_not_found(void **state)
{
        struct box box;
        struct job *job = job_plain(5);
        (void)state;
        box_init(&box);
        box_store(&box, &job, 1);
        assert_false(box_has(&box, 4));
        assert_false(box_has(&box, 6));
        assert_false(box_has(&box, UINT64_MAX));
        assert_true(box_has(&box, 5));
        box_release(&box);
        job_drop(job);
}

static void a_job_handed_over_again_is_kept_as_it_was_first(void **state)
{
        struct box box;
        struct job *jobs[25];
        struct job *again[25];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < 25; i++) {
                jobs[i] = job_plain(i + 1);
                again[i] = job_make(i + 1, 0);
                job_text(again[i], &again[i]->view.result, "second");
                job_tell_plainly(again[i]);
        }
        box_store(&box, jobs, 20);
        box_store(&box, again, 20);
        box_close(&box);
        box_open(&box);
        box_store(&box, again + 3, 22); /* 17 that are there and 5 that are new */
        for (size_t i = 0; i < 25; i++) {
                assert_found(&box, i < 20 ? &jobs[i]->view : &again[i]->view);
                assert_int_equal(again[i]->reported, (i < 20) + (i >= 3));
        }
        assert_int_equal(box_stat(&box).rows, 25);
        box_release(&box);
        jobs_drop(jobs, 25);
        jobs_drop(again, 25);
}

static void jobs_are_reported_once_each_and_in_order(void **state)
{
        enum { N = 3000 };
        struct box box;
        static struct job *jobs[N];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < N; i++)
                jobs[i] = job_plain(i + 1);
        for (size_t i = 0; i < N; i += 100)
                box_hand_over(&box, jobs + i, 100);
        box_wait_reported(&box, N);
        for (size_t i = 0; i < N; i++) {
                assert_int_equal(jobs[i]->reported, 1);
                assert_int_equal(jobs[i]->reported_at, i);
        }
        assert_int_equal(box_stat(&box).rows, N);
        assert_int_equal(box_stat(&box).stored, N);
        box_release(&box);
        jobs_drop(jobs, N);
}

static void close_writes_and_reports_what_was_handed_over(void **state)
{
        enum { N = 1000 };
        struct box box;
        static struct job *jobs[N];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < N; i++)
                jobs[i] = job_plain(i + 1);
        box_hand_over(&box, jobs, N);
        box_close(&box);
        assert_int_equal(box.n_reported, N);
        box_open(&box);
        assert_int_equal(box_stat(&box).rows, N);
        assert_found(&box, &jobs[0]->view);
        assert_found(&box, &jobs[N - 1]->view);
        box_release(&box);
        jobs_drop(jobs, N);
}

static void count_answer(struct archive_query *q)
{
        int *n = q->ctx;
        assert_true(q->err == OK || q->err == ERR_STOPPING);
        ++*n;
}

static void close_answers_every_query(void **state)
{
        struct box box;
        struct archive_query queries[50];
        int n = 0;
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
                queries[i] = (struct archive_query){
                        .limit = 10, .filter = {.status = -1}, .done = count_answer, .ctx = &n};
                box.archive->ops->query(box.archive, &queries[i]);
        }
        box_close(&box);
        assert_int_equal(n, ARRAY_LEN(queries));
        for (size_t i = 0; i < ARRAY_LEN(queries); i++)
                arena_release(&queries[i].arena);
        box_release(&box);
}

static void a_query_sees_all_that_was_reported_while_more_is_written(void **state)
{
        enum { N = 4000, STEP = 50 };
        struct box box;
        static struct job *jobs[N];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < N; i++)
                jobs[i] = job_plain(i + 1);
        for (size_t i = 0; i < N; i += STEP) {
                box_hand_over(&box, jobs + i, STEP);
                size_t reported = box.n_reported;
                struct archive_query q = {.limit = 1000, .filter = {.status = -1}};
                box_ask(&box, &q);
                assert_true(q.n_rows >= (reported < 1000 ? reported : 1000));
                assert_true(!reported || q.rows[0].id >= reported);
                for (size_t k = 0; k < q.n_rows; k++)
                        assert_same_view(&q.rows[k], &jobs[q.rows[k].id - 1]->view);
                arena_release(&q.arena);
        }
        box_wait_reported(&box, N);
        box_release(&box);
        jobs_drop(jobs, N);
}

/* ---- listings ---- */

static void a_listing_goes_from_the_newest_id_to_the_oldest(void **state)
{
        struct box box;
        struct job *jobs[9];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < 9; i++)
                jobs[i] = job_plain(1 + i * 4 % 9); /* any order */
        box_store(&box, jobs, 9);
        struct archive_query q = {.before_id = 8, .limit = 4, .filter = {.status = -1}};
        box_ask(&box, &q);
        assert_int_equal(q.n_rows, 4);
        for (uint64_t i = 0; i < 4; i++)
                assert_int_equal(q.rows[i].id, 7 - i);
        assert_false(q.is_cut);
        arena_release(&q.arena);

        q = (struct archive_query){.limit = 100, .filter = {.status = -1}};
        box_ask(&box, &q);
        assert_int_equal(q.n_rows, 9);
        assert_int_equal(q.rows[0].id, 9);
        arena_release(&q.arena);

        q = (struct archive_query){.before_id = 1, .limit = 100, .filter = {.status = -1}};
        box_ask(&box, &q);
        assert_int_equal(q.n_rows, 0);
        arena_release(&q.arena);
        box_release(&box);
        jobs_drop(jobs, 9);
}

static size_t count_of(struct box *box, struct job_filter filter)
{
        struct archive_query q = {.before_id = UINT64_MAX, .limit = 1000, .filter = filter};
        box_ask(box, &q);
        size_t n = q.n_rows;
        arena_release(&q.arena);
        return n;
}

static void filters_are_exact_and_match_looks_inside(void **state)
{
        struct box box;
        struct job *jobs[6];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < 6; i++) {
                jobs[i] = job_make(i + 1, 256);
                jobs[i]->view.status = (enum job_status)(JOB_COMPLETE + i % 3);
        }
        job_text(jobs[0], &jobs[0]->view.queue, "slow");
        job_text(jobs[1], &jobs[1]->view.group, "g1");
        job_text(jobs[1], &jobs[1]->view.error, "lost needle here");
        job_text(jobs[2], &jobs[2]->view.result, "needle");
        job_text(jobs[3], &jobs[3]->view.args, "a needle");
        job_text(jobs[4], &jobs[4]->view.hook, "needle.make");
        job_text(jobs[5], &jobs[5]->view.progress, "needle");
        for (size_t i = 0; i < 6; i++)
                job_tell_plainly(jobs[i]);
        box_store(&box, jobs, 6);
        for (int status = JOB_COMPLETE; status <= JOB_CANCELED; status++)
                assert_int_equal(count_of(&box, (struct job_filter){.status = status}), 2);
        assert_int_equal(count_of(&box, (struct job_filter){.status = JOB_PENDING}), 0);
        assert_int_equal(count_of(&box, (struct job_filter){.status = JOB_RUNNING}), 0);
        struct job_filter f = {.status = -1, .queue = SLICE_LIT("slow")};
        assert_int_equal(count_of(&box, f), 1);
        f = (struct job_filter){.status = -1, .queue = SLICE_LIT("slo")};
        assert_int_equal(count_of(&box, f), 0);
        f = (struct job_filter){.status = -1, .group = SLICE_LIT("g1")};
        assert_int_equal(count_of(&box, f), 1);
        f = (struct job_filter){.status = -1, .hook = SLICE_LIT("mail.send")};
        assert_int_equal(count_of(&box, f), 5);
        f = (struct job_filter){.status = -1, .match = SLICE_LIT("needle")};
        assert_int_equal(count_of(&box, f), 4); /* progress is not searched */
        f = (struct job_filter){.status = JOB_FAILED, .match = SLICE_LIT("needle")};
        assert_int_equal(count_of(&box, f), 2);
        f.queue = SLICE_LIT("nowhere");
        assert_int_equal(count_of(&box, f), 0);
        box_release(&box);
        jobs_drop(jobs, 6);
}

static void a_walk_stops_at_its_budget_and_goes_on_from_there(void **state)
{
        enum { N = 100 };
        struct box box;
        struct job *jobs[N];
        struct archive_finder finder;
        struct problem p;
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < N; i++) {
                jobs[i] = job_make(i + 1, 16);
                if (i % 30 == 0)
                        job_text(jobs[i], &jobs[i]->view.group, "rare");
                job_tell_plainly(jobs[i]);
        }
        box_store(&box, jobs, N);
        assert_int_equal(archive_finder_open(&finder, box.path, &p), OK);
        finder.rows_max = 7;
        size_t found = 0;
        size_t pages = 0;
        struct archive_query q;
        uint64_t before = UINT64_MAX;
        do {
                q = (struct archive_query){.before_id = before,
                                           .limit = 10,
                                           .filter = {.status = -1, .group = SLICE_LIT("rare")}};
                archive_finder_run(&finder, &q);
                assert_int_equal(q.err, OK);
                found += q.n_rows;
                pages++;
                assert_true(!q.is_cut || q.last_id == N + 1 - 7 * pages);
                before = q.last_id;
                arena_release(&q.arena);
        } while (q.is_cut);
        assert_int_equal(found, 4); /* 1, 31, 61, 91 */
        assert_int_equal(pages, 15);

        finder.rows_max = ARCHIVE_FIND_ROWS;
        finder.ms_max = 0; /* the clock is looked at every 64 rows */
        q = (struct archive_query){.limit = 1000, .filter = {.status = -1}};
        archive_finder_run(&finder, &q);
        assert_true(q.is_cut);
        assert_int_equal(q.n_rows, 64);
        assert_int_equal(q.last_id, N + 1 - 64);
        arena_release(&q.arena);
        archive_finder_close(&finder);
        box_release(&box);
        jobs_drop(jobs, N);
}

static void a_page_of_large_jobs_is_cut_by_its_bytes(void **state)
{
        enum { N = 40 };
        struct box box;
        struct job *jobs[N];
        char *large = malloc(MIB);
        (void)state;
        assert_non_null(large);
        memset(large, 'x', MIB);
        box_init(&box);
        for (size_t i = 0; i < N; i++) {
                jobs[i] = job_make(i + 1, MIB);
                jobs[i]->view.args = job_keep(jobs[i], slice_make(large, MIB));
                job_tell_plainly(jobs[i]);
        }
        box_store(&box, jobs, N);
        struct archive_query q = {.limit = N, .filter = {.status = -1}};
        box_ask(&box, &q);
        assert_true(q.is_cut);
        assert_in_range(q.n_rows, 28, 32);
        assert_int_equal(q.last_id, q.rows[q.n_rows - 1].id);
        size_t n = q.n_rows;
        uint64_t last = q.last_id;
        arena_release(&q.arena);
        q = (struct archive_query){.before_id = last, .limit = N, .filter = {.status = -1}};
        box_ask(&box, &q);
        assert_false(q.is_cut);
        assert_int_equal(n + q.n_rows, N);
        arena_release(&q.arena);

        /* An arena that the asker made small: at least one row, or a clear answer. */
        q = (struct archive_query){.limit = N, .filter = {.status = -1}};
        arena_init(&q.arena, 3 * MIB);
        box_ask(&box, &q);
        assert_true(q.is_cut);
        assert_int_equal(q.n_rows, 2);
        assert_int_equal(q.last_id, N - 1);
        arena_release(&q.arena);
        box_release(&box);
        jobs_drop(jobs, N);
        free(large);
}

/* ---- stories ---- */

/* The first column of the first row, as people would ask for it. */
static void ask_sql(const struct box *box, const char *sql, char *ret, size_t size)
{
        sqlite3 *db;
        sqlite3_stmt *stmt;
        assert_int_equal(sqlite3_open_v2(box->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
        const unsigned char *text = sqlite3_column_text(stmt, 0);
        (void)snprintf(ret, size, "%s", text ? (const char *)text : "NULL");
        assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void assert_sql(const struct box *box, const char *sql, const char *want)
{
        char got[4096];
        ask_sql(box, sql, got, sizeof(got));
        assert_string_equal(got, want);
}

static void any_story_comes_back_event_for_event(void **state)
{
        struct box box;
        struct job *job = job_make(1, 1024);
        struct slice odd = SLICE_LIT("w\xff\"\\\n\0z");
        (void)state;
        box_init(&box);
        job_tell_event(job, EVENT_DROPPED, BOX_NOW - 990, SLICE_NONE, SLICE_LIT("17"));
        job_tell_event(job, EVENT_STARTED, BOX_NOW - 900, SLICE_LIT("w1"), SLICE_NONE);
        job_tell_event(job, EVENT_TIMED_OUT, BOX_NOW - 5000, SLICE_LIT("w1"),
                       SLICE_LIT("a \"quoted\"\tline\nand \0 and \x7f gr\xc3\xbc\xc3\x9f"));
        job_tell_event(job, EVENT_RETRIED, BOX_NOW - 600, odd, odd);
        job_tell_event(job, EVENT_CREATED, BOX_NOW - 600, SLICE_NONE, SLICE_NONE);
        job_tell_event(job, EVENT_COMPLETED, BOX_NOW, SLICE_LIT("w1"), SLICE_NONE);
        box_store(&box, &job, 1);
        assert_found(&box, &job->view);
        assert_sql(&box, "SELECT json_valid(events) FROM job", "1");
        assert_sql(&box, "SELECT group_concat(e.value ->> 'event') FROM job, json_each(events) e",
                   "created,dropped,started,timed out,retried,created,completed");
        assert_sql(&box, "SELECT events ->> '$[4].message_hex' FROM jobs", "77ff225c0a007a");
        box_release(&box);
        job_drop(job);
}

static void a_plain_story_costs_nothing_and_the_view_tells_it(void **state)
{
        static const char *const stories[] = {
                [JOB_COMPLETE] = "[{\"event\":\"created\",\"at\":1789999999000},"
                                 "{\"event\":\"started\",\"at\":1789999999800,\"worker\":\"w1\"},"
                                 "{\"event\":\"completed\",\"at\":1790000000000,"
                                 "\"worker\":\"w1\"}]",
                [JOB_FAILED] = "[{\"event\":\"created\",\"at\":1789999999000},"
                               "{\"event\":\"started\",\"at\":1789999999800,\"worker\":\"w1\"},"
                               "{\"event\":\"failed\",\"at\":1790000000000,\"worker\":\"w1\","
                               "\"message\":\"no \\\"route\\\"\"}]",
                [JOB_CANCELED] = "[{\"event\":\"created\",\"at\":1789999999000},"
                                 "{\"event\":\"canceled\",\"at\":1790000000000}]",
        };
        (void)state;
        for (int status = JOB_COMPLETE; status <= JOB_CANCELED; status++) {
                struct box box;
                struct job *job = job_make(1, 256);
                box_init(&box);
                job->view.status = (enum job_status)status;
                if (status == JOB_FAILED)
                        job_text(job, &job->view.error, "no \"route\"");
                if (status == JOB_CANCELED) {
                        job->view.started_ms = 0;
                        job->view.worker = SLICE_NONE;
                }
                job_tell_plainly(job);
                box_store(&box, &job, 1);
                assert_found(&box, &job->view);
                assert_sql(&box, "SELECT events IS NULL FROM job", "1");
                assert_sql(&box, "SELECT events FROM jobs", stories[status]);
                /* The JSON written for any other story has the same form. */
                struct buf b;
                buf_init(&b, 0);
                job_tell_event(job, EVENT_DEFERRED, 5, SLICE_NONE, SLICE_NONE);
                story_write(&b, &job->view);
                size_t common = strlen(stories[status]) - 1;
                assert_memory_equal(b.ptr, stories[status], common);
                assert_string_equal(buf_cstr(&b) + common, ",{\"event\":\"deferred\",\"at\":5}]");
                buf_release(&b);
                box_release(&box);
                job_drop(job);
        }
}

static void an_almost_plain_story_is_written_out(void **state)
{
        struct box box;
        struct job *jobs[5];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < 5; i++)
                jobs[i] = job_make(i + 1, 256);
        job_tell_event(jobs[0], EVENT_COMPLETED, BOX_NOW, SLICE_LIT("w1"), SLICE_NONE);
        jobs[1]->view.finished_ms++;
        job_tell_event(jobs[1], EVENT_STARTED, BOX_NOW - 200, SLICE_LIT("w1"), SLICE_NONE);
        job_tell_event(jobs[1], EVENT_COMPLETED, BOX_NOW, SLICE_LIT("w1"), SLICE_NONE);
        job_tell_event(jobs[2], EVENT_STARTED, BOX_NOW - 200, SLICE_LIT("w2"), SLICE_NONE);
        job_tell_event(jobs[2], EVENT_COMPLETED, BOX_NOW, SLICE_LIT("w1"), SLICE_NONE);
        job_tell_event(jobs[3], EVENT_STARTED, BOX_NOW - 200, SLICE_LIT("w1"), SLICE_NONE);
        job_tell_event(jobs[3], EVENT_COMPLETED, BOX_NOW, SLICE_LIT("w1"), SLICE_LIT("x"));
        jobs[4]->view.worker = SLICE_LIT("w\xff"); /* the view cannot make JSON of it */
        job_tell_plainly(jobs[4]);
        box_store(&box, jobs, 5);
        for (size_t i = 0; i < 5; i++)
                assert_found(&box, &jobs[i]->view);
        assert_sql(&box, "SELECT count(*) FROM job WHERE json_valid(events)", "5");
        assert_sql(&box, "SELECT count(*) FROM jobs WHERE json_valid(events)", "5");
        box_release(&box);
        jobs_drop(jobs, 5);
}

static void json_that_is_no_story_is_refused(void **state)
{
        static const char *const bad[] = {
                "x",
                "{}",
                "[1]",
                "[{}]",
                "[{\"event\":\"started\"}]",
                "[{\"event\":\"nonsense\",\"at\":1}]",
                "[{\"event\":\"started\",\"at\":\"1\"}]",
                "[{\"event\":1,\"at\":1}]",
                "[{\"event\":\"started\",\"at\":1,\"worker\":5}]",
                "[{\"event\":\"started\",\"at\":1,\"worker_hex\":\"0\"}]",
                "[{\"event\":\"started\",\"at\":1,\"worker_hex\":\"0g\"}]",
                "[{\"event\":\"started\",\"at\":1,\"message_hex\":7}]",
        };
        struct arena arena;
        struct buf scratch;
        (void)state;
        arena_init(&arena, MIB);
        buf_init(&scratch, 0);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct job_view v = {.created_ms = BOX_NOW, .events = SLICE_LIT("old")};
                assert_int_equal(story_read(slice_str(bad[i]), &arena, &scratch, &v), ERR_CORRUPT);
                assert_int_equal(v.events.len, 0);
        }
        struct job_view v = {.created_ms = BOX_NOW};
        assert_int_equal(story_read(SLICE_LIT("[]"), &arena, &scratch, &v), OK);
        assert_int_equal(v.events.len, 0);
        arena_release(&arena);
        arena_init(&arena, 16);
        assert_non_null(arena_alloc(&arena, 16));
        assert_int_equal(story_read(SLICE_NONE, &arena, &scratch, &v), ERR_NOMEM);
        assert_int_equal(story_read(SLICE_LIT("[{\"event\":\"failed\",\"at\":1,\"message_hex\":"
                                              "\"00\"}]"),
                                    &arena, &scratch, &v),
                         ERR_NOMEM);
        arena_release(&arena);
        buf_release(&scratch);
}

static void the_view_speaks_of_names_and_iso_times(void **state)
{
        struct box box;
        struct job *job = job_make(1, 256);
        (void)state;
        box_init(&box);
        job->view.status = JOB_FAILED;
        job->view.finished_ms = BOX_NOW + 123;
        job_text(job, &job->view.group, "g");
        job_tell_plainly(job);
        box_store(&box, &job, 1);
        assert_sql(&box, "SELECT status FROM jobs", "failed");
        assert_sql(&box, "SELECT finished FROM jobs", "2026-09-21T14:13:20.123Z");
        assert_sql(&box, "SELECT \"group\" FROM jobs", "g");
        assert_sql(&box, "SELECT typeof(args) FROM job", "text");
        assert_sql(&box, "SELECT result IS NULL FROM jobs", "1");
        assert_sql(&box, "PRAGMA integrity_check", "ok");
        struct stat st;
        assert_int_equal(stat(box.path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        box_release(&box);
        job_drop(job);
}

/* ---- retention ---- */

static void a_job_goes_when_its_time_has_come_and_not_before(void **state)
{
        static const struct {
                enum job_status status;
                int64_t keep_ms;
        } cases[] = {
                {JOB_COMPLETE, HISTORY_KEEP_DONE_MS},
                {JOB_CANCELED, HISTORY_KEEP_DONE_MS},
                {JOB_FAILED, HISTORY_KEEP_FAILED_MS},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct box box;
                struct job *job = job_make(7, 64);
                box_init_folder(&box);
                box.keep_done_ms = HISTORY_KEEP_DONE_MS;
                box.keep_failed_ms = HISTORY_KEEP_FAILED_MS;
                box_open(&box);
                job->view.status = cases[i].status;
                job_tell_plainly(job);
                box_store(&box, &job, 1);
                for (int64_t off = -1; off <= 1; off++) {
                        atomic_store(&box.wall_ms, BOX_NOW + cases[i].keep_ms + off);
                        history_sweep(box.archive);
                        assert_int_equal(box_has(&box, 7), off < 0);
                        assert_int_equal(box_stat(&box).deleted, off >= 0);
                        assert_int_equal(box_stat(&box).rows, off < 0);
                }
                box_release(&box);
                job_drop(job);
        }
}

static void zero_keeps_for_ever(void **state)
{
        struct box box;
        struct job *jobs[2] = {job_plain(1), job_make(2, 64)};
        (void)state;
        jobs[1]->view.status = JOB_FAILED;
        job_tell_plainly(jobs[1]);
        box_init_folder(&box);
        box.keep_done_ms = 1000; /* and failed ones for ever */
        box_open(&box);
        box_store(&box, jobs, 2);
        atomic_store(&box.wall_ms, BOX_NOW * 5);
        history_sweep(box.archive);
        assert_false(box_has(&box, 1));
        assert_true(box_has(&box, 2));
        box_close(&box);
        box.keep_done_ms = 0;
        box.keep_failed_ms = 1000;
        box_open(&box);
        box_store(&box, jobs, 1);
        history_sweep(box.archive);
        assert_true(box_has(&box, 1));
        assert_false(box_has(&box, 2));
        box_store(&box, jobs + 1, 1);
        history_sweep(box.archive);
        assert_false(box_has(&box, 2));
        box_release(&box);
        jobs_drop(jobs, 2);
}

/* More rows than a step deletes, over several spans, in any order of ends. */
static void a_sweep_takes_all_that_is_due_and_nothing_else(void **state)
{
        enum { N = 9000 };
        struct box box;
        static struct job *jobs[N];
        size_t due = 0;
        (void)state;
        box_init_folder(&box);
        box.keep_done_ms = 100000;
        box.keep_failed_ms = 200000;
        box_open(&box);
        for (size_t i = 0; i < N; i++) {
                jobs[i] = job_make(i + 1, 16);
                jobs[i]->view.status = i % 10 ? JOB_COMPLETE : JOB_FAILED;
                jobs[i]->view.finished_ms = BOX_NOW + (int64_t)(i * 7919 % 150000);
                job_tell_plainly(jobs[i]);
        }
        box_store(&box, jobs, N);
        int64_t now = BOX_NOW + 210000;
        atomic_store(&box.wall_ms, now);
        history_sweep(box.archive);
        for (size_t i = 0; i < N; i++) {
                const struct job_view *v = &jobs[i]->view;
                int64_t keep_ms = v->status == JOB_FAILED ? 200000 : 100000;
                bool is_due = v->finished_ms + keep_ms <= now;
                due += is_due;
                if (i % 37 == 0)
                        assert_int_equal(box_has(&box, v->id), !is_due);
        }
        assert_in_range(due, 5000, 8000);
        assert_int_equal(box_stat(&box).deleted, due);
        assert_int_equal(box_stat(&box).rows, N - due);
        char text[32];
        (void)snprintf(text, sizeof(text), "%zu", N - due);
        assert_sql(&box, "SELECT count(*) FROM job", text);
        assert_sql(&box, "SELECT rows FROM tally", text);
        assert_sql(&box, "SELECT count(*) FROM span", "3");
        atomic_store(&box.wall_ms, BOX_NOW + 1000000);
        history_sweep(box.archive);
        assert_int_equal(box_stat(&box).rows, 0);
        assert_sql(&box, "SELECT count(*) FROM span", "0");
        assert_sql(&box, "PRAGMA integrity_check", "ok");
        box_release(&box);
        jobs_drop(jobs, N);
}

static void the_space_of_deleted_jobs_is_used_again(void **state)
{
        enum { N = 2000, ROUNDS = 6 };
        struct box box;
        static struct job *jobs[N];
        uint64_t bytes[ROUNDS];
        (void)state;
        box_init_folder(&box);
        box.keep_done_ms = 1000;
        box_open(&box);
        for (size_t i = 0; i < N; i++)
                jobs[i] = job_plain(i + 1);
        for (int round = 0; round < ROUNDS; round++) {
                for (size_t i = 0; i < N; i++)
                        jobs[i]->view.id = (uint64_t)round * N + i + 1;
                box_store(&box, jobs, N);
                atomic_store(&box.wall_ms, BOX_NOW + 1000);
                history_sweep(box.archive);
                assert_int_equal(box_stat(&box).rows, 0);
                box_close(&box); /* moves the -wal into the file */
                struct stat st;
                assert_int_equal(stat(box.path, &st), 0);
                bytes[round] = (uint64_t)st.st_size;
                box_open(&box);
        }
        assert_true(bytes[ROUNDS - 1] <= bytes[0] + 64 * KIB);
        box_release(&box);
        jobs_drop(jobs, N);
}

/* ---- the process and the disk fail ---- */

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
                char text[32];
                (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)box_stat(&box).rows);
                assert_sql(&box, "SELECT count(*) FROM job", text);
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

static void await_errors(struct box *box, uint64_t n)
{
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        time_t until = t.tv_sec + BOX_WAIT_NS / NS_PER_S;
        while (box_stat(box).errors < n) {
                (void)sched_yield();
                (void)clock_gettime(CLOCK_MONOTONIC, &t);
                assert_true(t.tv_sec < until);
        }
}

static void a_full_disk_delays_jobs_and_loses_none(void **state)
{
        enum { N = 6000 };
        struct box box;
        static struct job *jobs[N];
        char fill[900];
        (void)state;
        box_init_folder(&box);
        if (!mount_at(&box, "size=3m", 0)) {
                box_release(&box);
                skip();
        }
        memset(fill, 'f', sizeof(fill) - 1);
        fill[sizeof(fill) - 1] = '\0';
        for (size_t i = 0; i < N; i++) {
                jobs[i] = job_make(i + 1, 1024);
                job_text(jobs[i], &jobs[i]->view.args, fill);
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
        await_errors(&box, 1);
        assert_int_equal(job->reported, 0);
        assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
        box_wait_reported(&box, 1);
        assert_found(&box, &job->view);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        box_release(&box);
        job_drop(job);
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
        for (size_t i = 0; i < N; i++)
                jobs[i] = job_plain(i + 1);
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

/* A history with a thousand jobs, closed. */
static void make_file(struct box *box)
{
        enum { N = 1000 };
        static struct job *jobs[N];
        box_init(box);
        for (size_t i = 0; i < N; i++)
                jobs[i] = job_plain(i + 1);
        box_store(box, jobs, N);
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
        change_file(&box, "PRAGMA user_version = 2");
        assert_refused(&box, "format 2");
        change_file(&box, "PRAGMA user_version = 1; DROP TABLE span");
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
                cmocka_unit_test(every_field_of_a_job_comes_back),
                cmocka_unit_test(a_job_with_nothing_but_a_hook_comes_back),
                cmocka_unit_test(bytes_that_are_no_text_come_back_exactly),
                cmocka_unit_test(a_mebibyte_of_args_and_of_result_comes_back),
                cmocka_unit_test(an_id_that_was_never_stored_is_not_found),
                cmocka_unit_test(a_job_handed_over_again_is_kept_as_it_was_first),
                cmocka_unit_test(jobs_are_reported_once_each_and_in_order),
                cmocka_unit_test(close_writes_and_reports_what_was_handed_over),
                cmocka_unit_test(close_answers_every_query),
                cmocka_unit_test(a_query_sees_all_that_was_reported_while_more_is_written),
                cmocka_unit_test(a_listing_goes_from_the_newest_id_to_the_oldest),
                cmocka_unit_test(filters_are_exact_and_match_looks_inside),
                cmocka_unit_test(a_walk_stops_at_its_budget_and_goes_on_from_there),
                cmocka_unit_test(a_page_of_large_jobs_is_cut_by_its_bytes),
                cmocka_unit_test(any_story_comes_back_event_for_event),
                cmocka_unit_test(a_plain_story_costs_nothing_and_the_view_tells_it),
                cmocka_unit_test(an_almost_plain_story_is_written_out),
                cmocka_unit_test(json_that_is_no_story_is_refused),
                cmocka_unit_test(the_view_speaks_of_names_and_iso_times),
                cmocka_unit_test(a_job_goes_when_its_time_has_come_and_not_before),
                cmocka_unit_test(zero_keeps_for_ever),
                cmocka_unit_test(a_sweep_takes_all_that_is_due_and_nothing_else),
                cmocka_unit_test(the_space_of_deleted_jobs_is_used_again),
                cmocka_unit_test(what_was_reported_survives_a_kill),
                cmocka_unit_test(a_full_disk_delays_jobs_and_loses_none),
                cmocka_unit_test(somebody_elses_write_lock_is_waited_out),
                cmocka_unit_test(close_gives_up_on_a_full_disk_and_the_jobs_come_again),
                cmocka_unit_test(a_read_only_disk_is_refused_with_its_name),
                cmocka_unit_test(a_folder_that_is_not_there_is_refused),
                cmocka_unit_test(a_damaged_file_is_refused_and_says_what_to_do),
                cmocka_unit_test(a_file_that_is_not_ours_is_refused_and_left_alone),
                cmocka_unit_test(damage_in_the_middle_fails_the_query_that_meets_it),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
