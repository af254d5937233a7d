/* How long history keeps jobs, to the millisecond, with a clock that the test moves.
 *
 * weir-test: tsan */
#include "check.h"

#include "history_box.h"

#include "history/archive_file.h"
#include "history/archive_writer.h"

#define KEEP_DONE_MS   (31 * HISTORY_DAY_MS)
#define KEEP_FAILED_MS (93 * HISTORY_DAY_MS)

static void a_job_goes_when_its_time_has_come_and_not_before(void **state)
{
        static const struct {
                enum job_status status;
                int64_t keep_ms;
        } cases[] = {
                {JOB_COMPLETE, KEEP_DONE_MS},
                {JOB_CANCELED, KEEP_DONE_MS},
                {JOB_FAILED, KEEP_FAILED_MS},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct box box;
                struct job *job = job_make(7, 64);
                box_init_folder(&box);
                box.keep_done_ms = KEEP_DONE_MS;
                box.keep_failed_ms = KEEP_FAILED_MS;
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

/* Over several spans, in any order of ends. */
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
        assert_int_equal(box_count(&box), N - due);
        atomic_store(&box.wall_ms, BOX_NOW + 1000000);
        history_sweep(box.archive);
        assert_int_equal(box_stat(&box).rows, 0);
        assert_sql(&box, "SELECT count(*) FROM span", "0");
        assert_sql(&box, "SELECT count(*) FROM block", "0");
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

/* ---- results ---- */

static struct job *job_with_result(uint64_t id, uint64_t run, uint64_t result_ms)
{
        struct job *job = job_make(id, 256);
        struct job_options options = {.run = run, .result_ms = result_ms};
        job_set_packed(job, &options);
        job_text(job, &job->view.result, "forty-two");
        job_tell_plainly(job);
        return job;
}

static size_t result_len(struct box *box, uint64_t id)
{
        struct archive_query q = {.id = id};
        box_ask(box, &q);
        assert_int_equal(q.n_rows, 1);
        size_t n = q.rows[0].result.len;
        arena_release(&q.arena);
        return n;
}

static void a_result_goes_when_its_own_time_has_come_and_not_before(void **state)
{
        enum { KEEP = 5000 };
        struct box box;
        struct job *jobs[3] = {job_with_result(1, 0, KEEP), job_with_result(2, 0, 0),
                               job_with_result(3, 0, KEEP)};
        (void)state;
        box_init_folder(&box);
        box.keep_done_ms = 3 * KEEP;
        box_open(&box);
        jobs[2]->view.finished_ms += 1;
        box_store(&box, jobs, 3);
        for (int64_t off = -1; off <= 1; off++) {
                atomic_store(&box.wall_ms, BOX_NOW + KEEP + off);
                history_sweep(box.archive);
                assert_int_equal(result_len(&box, 1), off < 0 ? 9 : 0);
                assert_int_equal(result_len(&box, 2), 9);
                assert_int_equal(result_len(&box, 3), off < 1 ? 9 : 0);
        }
        assert_int_equal(box_stat(&box).rows, 3);
        assert_int_equal(box_stat(&box).deleted, 0);
        jobs[0]->view.result = SLICE_NONE;
        assert_found(&box, &jobs[0]->view); /* all the rest of it is there */
        assert_sql(&box, "SELECT count(*) FROM lapse", "0");
        box_close(&box); /* over a restart too */
        box_open(&box);
        assert_int_equal(result_len(&box, 1), 0);
        box_release(&box);
        jobs_drop(jobs, 3);
}

static const struct archive_sweep of_done_jobs = {.now_ms = BOX_NOW,
                                                  .done_until_ms = BOX_NOW,
                                                  .failed_until_ms = INT64_MIN,
                                                  .are_results_done = true};

/* A busy writer takes four steps a second, so a step is what bounds the file under load. */
static void a_step_takes_all_the_short_jobs_of_a_span(void **state)
{
        enum { SPANS = 3, N = SPANS * ARCHIVE_SPAN_IDS };
        static struct job *jobs[N];
        static struct archive_writer writer;
        struct box box;
        struct problem p;
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < N; i++)
                /* From the beginning of a span on; with results that may go earlier they are rows.
                 */
                jobs[i] = job_with_result(ARCHIVE_SPAN_IDS + i, 0, UINT64_MAX);
        box_store(&box, jobs, N);
        box_close(&box);
        assert_int_equal(archive_writer_open(&writer, box.path, box_view, &p), OK);
        struct archive_sweep sweep = of_done_jobs;
        for (int i = 0; i < SPANS; i++) {
                assert_int_equal(archive_writer_sweep(&writer, &sweep, &p), OK);
                assert_int_equal(sweep.deleted, ARCHIVE_SPAN_IDS);
        }
        assert_int_equal(archive_writer_sweep(&writer, &sweep, &p), OK);
        assert_true(sweep.is_over);
        assert_int_equal(writer.rows, 0);
        archive_writer_close(&writer);
        assert_sql(&box, "SELECT count(*) FROM span", "0");
        box_release(&box);
        jobs_drop(jobs, N);
}

/* Of long jobs a step takes few: each is many pages. */
static void long_jobs_go_some_at_a_time_and_all_go(void **state)
{
        enum { N = 40, LONG = 1 << 20 };
        static struct job *jobs[N];
        static struct archive_writer writer;
        static char text[LONG + 1];
        static const uint64_t steps[] = {16, 16, 8, 0};
        struct box box;
        struct problem p;
        (void)state;
        memset(text, 'r', LONG);
        box_init(&box);
        for (size_t i = 0; i < N; i++) {
                jobs[i] = job_make(i + 1, LONG);
                job_text(jobs[i], &jobs[i]->view.result, text);
                job_tell_plainly(jobs[i]);
        }
        box_store(&box, jobs, N);
        box_close(&box);
        assert_int_equal(archive_writer_open(&writer, box.path, box_view, &p), OK);
        struct archive_sweep sweep = of_done_jobs;
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                assert_false(sweep.is_over);
                assert_int_equal(archive_writer_sweep(&writer, &sweep, &p), OK);
                assert_int_equal(sweep.deleted, steps[i]);
        }
        assert_true(sweep.is_over);
        archive_writer_close(&writer);
        box_release(&box);
        jobs_drop(jobs, N);
}

static void more_results_than_a_step_takes_all_go(void **state)
{
        enum { N = 9876 };
        struct box box;
        static struct job *jobs[N];
        (void)state;
        box_init(&box);
        for (size_t i = 0; i < N; i++)
                jobs[i] = job_with_result(i + 1, 0, 1000 + i % 7);
        box_store(&box, jobs, N);
        assert_sql(&box, "SELECT count(*) FROM lapse", "9876");
        atomic_store(&box.wall_ms, BOX_NOW + 1006);
        history_sweep(box.archive);
        assert_sql(&box, "SELECT count(*) FROM lapse", "0");
        assert_sql(&box, "SELECT count(*) FROM job WHERE result IS NOT NULL", "0");
        assert_sql(&box, "SELECT count(*) FROM job", "9876");
        box_release(&box);
        jobs_drop(jobs, N);
}

static void a_later_run_has_its_own_result_and_its_own_time(void **state)
{
        struct box box;
        struct job *first = job_with_result(1, 0, 1000), *second = job_with_result(1, 1, 1000);
        (void)state;
        box_init(&box);
        second->view.finished_ms += 5000;
        box_store(&box, &first, 1);
        box_store(&box, &second, 1);
        atomic_store(&box.wall_ms, BOX_NOW + 5999);
        history_sweep(box.archive);
        assert_int_equal(result_len(&box, 1), 9);
        atomic_store(&box.wall_ms, BOX_NOW + 6000);
        history_sweep(box.archive);
        assert_int_equal(result_len(&box, 1), 0);
        /* Handed over again after a crash: still gone, at the latest after the next sweep. */
        box_store(&box, &second, 1);
        history_sweep(box.archive);
        assert_int_equal(result_len(&box, 1), 0);
        assert_sql(&box, "SELECT count(*) FROM lapse", "0");
        box_release(&box);
        job_drop(first);
        job_drop(second);
}

static void a_lifetime_beyond_all_time_is_kept_like_none(void **state)
{
        struct box box;
        struct job *job = job_with_result(1, 0, UINT64_MAX);
        (void)state;
        box_init(&box);
        box_store(&box, &job, 1);
        atomic_store(&box.wall_ms, INT64_MAX);
        history_sweep(box.archive);
        assert_int_equal(result_len(&box, 1), 9);
        box_release(&box);
        job_drop(job);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_job_goes_when_its_time_has_come_and_not_before),
                cmocka_unit_test(zero_keeps_for_ever),
                cmocka_unit_test(a_sweep_takes_all_that_is_due_and_nothing_else),
                cmocka_unit_test(the_space_of_deleted_jobs_is_used_again),
                cmocka_unit_test(a_result_goes_when_its_own_time_has_come_and_not_before),
                cmocka_unit_test(a_step_takes_all_the_short_jobs_of_a_span),
                cmocka_unit_test(long_jobs_go_some_at_a_time_and_all_go),
                cmocka_unit_test(more_results_than_a_step_takes_all_go),
                cmocka_unit_test(a_later_run_has_its_own_result_and_its_own_time),
                cmocka_unit_test(a_lifetime_beyond_all_time_is_kept_like_none),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
