/* Making blocks one after the other: what is kept between two of them, and what must not be. */
#include "check.h"

#include "../../src/history/block_maker.c" /* NOLINT(bugprone-suspicious-include) */
#include "block_box.h"

static void a_maker_makes_one_block_after_the_other(void **state)
{
        struct block_maker *m = block_maker_new();
        struct job *jobs[30];
        (void)state;
        assert_null(block_maker_free(NULL));
        for (size_t i = 0; i < 30; i++) {
                jobs[i] = job_plain(100 - i); /* each block begins anew, with any id */
                jobs[i]->view.created_ms += (int64_t)(i * 1000);
                jobs[i]->view.hook = i % 2 ? SLICE_LIT("odd") : SLICE_LIT("even");
        }
        for (size_t i = 0; i < 30; i++) {
                struct slice bytes;
                assert_int_equal(block_maker_len(m), 0);
                assert_int_equal(block_maker_raw_bytes(m), 0);
                block_maker_add(m, &jobs[i]->view, i);
                assert_int_equal(block_maker_len(m), 1);
                size_t raw_bytes = block_maker_raw_bytes(m);
                assert_true(raw_bytes >= jobs[i]->view.args.len);
                uint64_t run = i;
                assert_int_equal(block_maker_end(m, &bytes), OK);
                assert_int_equal(block_maker_len(m), 0);
                assert_int_equal(block_maker_raw_bytes(m), 0);
                assert_holds(bytes, &jobs[i], &run, 1);
        }
        block_maker_free(m);
        jobs_drop(jobs, 30);
}

/* Names are known by their address, but not for longer than they are borrowed. */
static void a_name_is_not_taken_for_the_one_that_was_there_before(void **state)
{
        struct block_maker *m = block_maker_new();
        struct job *job = job_plain(1);
        char name[] = "aaaa";
        struct slice bytes;
        (void)state;
        job->view.hook = slice_make(name, 4);
        block_maker_add(m, &job->view, 0);
        assert_int_equal(block_maker_end(m, &bytes), OK);
        assert_holds(bytes, &job, NULL, 1);
        memcpy(name, "bbbb", 4);
        block_maker_add(m, &job->view, 0);
        block_maker_clear(m);
        assert_int_equal(block_maker_len(m), 0);
        assert_int_equal(block_maker_raw_bytes(m), 0);
        memcpy(name, "cccc", 4);
        block_maker_add(m, &job->view, 0);
        assert_int_equal(block_maker_end(m, &bytes), OK);
        assert_holds(bytes, &job, NULL, 1);
        block_maker_free(m);
        job_drop(job);
}

static void a_name_is_stored_once_wherever_its_bytes_are(void **state)
{
        struct job *jobs[3];
        char names[3][8] = {"alpha", "alpha", "alphabe"};
        struct block b;
        (void)state;
        for (size_t i = 0; i < 3; i++) {
                jobs[i] = job_plain(i + 1);
                jobs[i]->view.hook = slice_make(names[i], 5);
                jobs[i]->view.group = slice_make(names[2], 4 + i); /* one address, three names */
                jobs[i]->view.worker = jobs[i]->view.queue = SLICE_NONE;
        }
        struct slice bytes = block_of(jobs, NULL, 3);
        assert_int_equal(block_open(&b, bytes), OK);
        assert_int_equal(b.n_names, 4); /* none, alpha, alph, alphab */
        block_release(&b);
        block_drop(bytes);
        assert_round_trip(jobs, NULL, 3);
}

static void what_was_added_counts(void **state)
{
        struct block_maker *m = block_maker_new();
        struct job *job = job_plain(1);
        static const char text[100] = "any";
        (void)state;
        job->view.args = slice_make(text, 100);
        job->view.events = slice_make(text, 77);
        size_t last = 0;
        for (size_t i = 0; i < BLOCK_JOBS; i++) {
                job->view.id++;
                block_maker_add(m, &job->view, 0);
                size_t now = block_maker_raw_bytes(m);
                assert_true(now >= last + 177 && now < last + 177 + 10 * KIB);
                last = now;
        }
        assert_true(last < BLOCK_JOBS * 500);
        block_maker_free(m);
        job_drop(job);
}

/* A block of 5 MiB, and then one of a few bytes: memory is given back. */
static void large_buffers_are_not_kept(void **state)
{
        struct block_maker *m = block_maker_new();
        struct job *large = job_make(1, 5 * MIB), *small = job_plain(2);
        char *zeros = xcalloc(1, 5 * MIB);
        struct slice bytes;
        (void)state;
        large->view.args = job_keep(large, slice_make(zeros, 5 * MIB));
        free(zeros);
        block_maker_add(m, &large->view, 0);
        assert_int_equal(block_maker_end(m, &bytes), OK);
        assert_true(bytes.len < 100 * KIB);
        assert_holds(bytes, &large, NULL, 1);
        block_maker_add(m, &small->view, 0);
        assert_int_equal(block_maker_end(m, &bytes), OK);
        assert_holds(bytes, &small, NULL, 1);
        assert_true(m->head.cap + m->body.cap + m->out.cap < 100 * KIB);
        block_maker_free(m);
        job_drop(large);
        job_drop(small);
}

static void without_memory_everything_is_still_there(void **state)
{
        struct block_maker *m = block_maker_new();
        struct buf *const buffers[] = {&m->head, &m->body, &m->out};
        struct job *jobs[2] = {job_plain(1), job_plain(2)};
        (void)state;
        for (size_t k = 0; k < ARRAY_LEN(buffers); k++) {
                struct slice bytes = SLICE_NONE;
                for (size_t i = 0; i < 2; i++)
                        block_maker_add(m, &jobs[i]->view, 0);
                buf_release(buffers[k]);
                buffers[k]->max = 4;
                for (int again = 0; again < 2; again++) {
                        assert_int_equal(block_maker_end(m, &bytes), ERR_NOMEM);
                        assert_int_equal(block_maker_len(m), 2);
                        assert_true(block_maker_raw_bytes(m) > 0);
                }
                buffers[k]->max = 0;
                assert_int_equal(block_maker_end(m, &bytes), OK);
                assert_holds(bytes, jobs, NULL, 2);
        }
        block_maker_free(m);
        jobs_drop(jobs, 2);
}

/* ---- our own mistakes ---- */

static void add_ids(const uint64_t *ids, size_t n)
{
        struct block_maker *m = block_maker_new();
        struct job *job = job_plain(1);
        for (size_t i = 0; i < n; i++) {
                job->view.id = ids[i];
                block_maker_add(m, &job->view, 0);
        }
}

static void add_an_id_twice(void)
{
        add_ids((const uint64_t[]){7, 7}, 2);
}

static void add_an_older_id(void)
{
        add_ids((const uint64_t[]){7, 6}, 2);
}

static void add_too_many(void)
{
        uint64_t ids[BLOCK_JOBS + 1];
        for (size_t i = 0; i <= BLOCK_JOBS; i++)
                ids[i] = i;
        add_ids(ids, BLOCK_JOBS + 1);
}

static void add_one(enum job_status status, bool is_damaged)
{
        struct job *job = job_plain(1);
        job->view.status = status;
        job->view.is_damaged = is_damaged;
        block_maker_add(block_maker_new(), &job->view, 0);
}

static void add_a_running_job(void)
{
        add_one(JOB_RUNNING, false);
}

static void add_a_damaged_job(void)
{
        add_one(JOB_COMPLETE, true);
}

static void end_without_a_job(void)
{
        struct slice bytes;
        int err = block_maker_end(block_maker_new(), &bytes);
        (void)err; /* it does not come back */
}

static void mistakes_end_the_process(void **state)
{
        (void)state;
        assert_panics(add_an_id_twice);
        assert_panics(add_an_older_id);
        assert_panics(add_too_many);
        assert_panics(add_a_running_job);
        assert_panics(add_a_damaged_job);
        assert_panics(end_without_a_job);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_maker_makes_one_block_after_the_other),
                cmocka_unit_test(a_name_is_not_taken_for_the_one_that_was_there_before),
                cmocka_unit_test(a_name_is_stored_once_wherever_its_bytes_are),
                cmocka_unit_test(what_was_added_counts),
                cmocka_unit_test(large_buffers_are_not_kept),
                cmocka_unit_test(without_memory_everything_is_still_there),
                cmocka_unit_test(mistakes_end_the_process),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
