/* The archive of finished jobs: what goes in comes out, once, in order, and any page of it.
 *
 * weir-test: tsan */
#include "check.h"

#include "history/archive_finder.h"
#include "history_box.h"

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
                size_t n = 0;
                struct archive_query q = {.filter = {.status = -1}};
                do { /* a walk that takes long is cut, and goes on where it was */
                        q = (struct archive_query){
                                .limit = 1000 - n, .before_id = q.last_id, .filter = q.filter};
                        box_ask(&box, &q);
                        assert_true(n || !reported || q.rows[0].id >= reported);
                        for (size_t k = 0; k < q.n_rows; k++)
                                assert_same_view(&q.rows[k], &jobs[q.rows[k].id - 1]->view);
                        n += q.n_rows;
                        arena_release(&q.arena);
                } while (q.is_cut);
                assert_true(n >= (reported < 1000 ? reported : 1000));
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
        box_store(&box, jobs, N / 2); /* so few are rows, not a block */
        box_store(&box, jobs + N / 2, N - N / 2);
        assert_int_equal(archive_finder_open(&finder, box.path, NULL, &p), OK);
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
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
