/* The story of a job in the history file: JSON that people can query, and back, event for event. */
#include "check.h"

#include "history/events_json.h"
#include "history_box.h"

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
                events_json_write(&b, &job->view);
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
                assert_int_equal(events_json_read(slice_str(bad[i]), &arena, &scratch, &v),
                                 ERR_CORRUPT);
                assert_int_equal(v.events.len, 0);
        }
        struct job_view v = {.created_ms = BOX_NOW};
        assert_int_equal(events_json_read(SLICE_LIT("[]"), &arena, &scratch, &v), OK);
        assert_int_equal(v.events.len, 0);
        arena_release(&arena);
        arena_init(&arena, 16);
        assert_non_null(arena_alloc(&arena, 16));
        assert_int_equal(events_json_read(SLICE_NONE, &arena, &scratch, &v), ERR_NOMEM);
        assert_int_equal(
                events_json_read(SLICE_LIT("[{\"event\":\"failed\",\"at\":1,\"message_hex\":"
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(any_story_comes_back_event_for_event),
                cmocka_unit_test(a_plain_story_costs_nothing_and_the_view_tells_it),
                cmocka_unit_test(an_almost_plain_story_is_written_out),
                cmocka_unit_test(json_that_is_no_story_is_refused),
                cmocka_unit_test(the_view_speaks_of_names_and_iso_times),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
