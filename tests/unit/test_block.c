/* Blocks: every value comes back, and damaged bytes never become a job. */
#include "check.h"

#include "base/rand.h"
#include "block_box.h"
#include "block_golden.h"

static void a_job_comes_back_in_all_its_fields(void **state)
{
        struct job *job = job_make(77, 1024);
        struct job_view *v = &job->view;
        uint64_t run = 3;
        (void)state;
        v->status = JOB_FAILED;
        v->timeout_ms = 1500;
        v->due_ms = v->created_ms + 250;
        job_text(job, &v->group, "tenant-1");
        job_text(job, &v->result, "{\"half\":true}");
        job_text(job, &v->error, "no route");
        job_text(job, &v->progress, "page 3 of 7");
        job_set_packed(job, &(struct job_options){.run = run, .key = SLICE_LIT("k")});
        job_tell_plainly(job);
        assert_round_trip(&job, &run, 1);
}

static void every_number_takes_its_extremes(void **state)
{
        static const int64_t times[] = {0, INT64_MIN, -1, BOX_NOW, 1, INT64_MAX};
        static const uint64_t numbers[] = {0, UINT64_MAX, 1, 255, 65535, UINT32_MAX, 1ULL << 63};
        struct job *jobs[BLOCK_JOBS];
        uint64_t runs[BLOCK_JOBS];
        (void)state;
        for (size_t i = 0; i < BLOCK_JOBS; i++) {
                /* The last ids there are, with a gap, and the first. */
                jobs[i] = job_make(i < 256 ? i : UINT64_MAX - (BLOCK_JOBS - 1 - i), 256);
                struct job_view *v = &jobs[i]->view;
                v->status = (enum job_status)(JOB_COMPLETE + i % 3);
                v->created_ms = times[i % 6];
                v->due_ms = times[i / 6 % 6];
                v->started_ms = times[i / 36 % 6];
                v->finished_ms = times[i * 7 % 6];
                v->fence = numbers[i % 7];
                v->priority = (uint8_t)numbers[i / 2 % 7];
                v->attempt = (uint16_t)numbers[i / 3 % 7];
                v->attempts_max = (uint16_t)numbers[i / 4 % 7];
                v->timeout_ms = (uint32_t)numbers[i / 5 % 7];
                runs[i] = numbers[i / 7 % 7];
                job_tell_plainly(jobs[i]);
        }
        assert_round_trip(jobs, runs, BLOCK_JOBS);
}

/* Each way of keeping a column: all the same, few that differ, small numbers, any numbers. */
static void every_kind_of_column_comes_back(void **state)
{
        static const size_t lengths[] = {1, 2, 3, 4, 5, 8, 100, 511, 512};
        (void)state;
        for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
                struct job *jobs[BLOCK_JOBS];
                uint64_t runs[BLOCK_JOBS];
                size_t n = lengths[k];
                for (size_t i = 0; i < n; i++) {
                        jobs[i] = job_make(1000 + i * i, 256);
                        struct job_view *v = &jobs[i]->view;
                        v->priority = i == n - 1 ? 7 : 100;
                        v->attempt = i % 4 == 0 ? 1000 : 1;
                        v->attempts_max = (uint16_t)(i % 256);
                        v->timeout_ms = (uint32_t)(i * 1000);
                        v->finished_ms = BOX_NOW + (i == 0 ? 1LL << 50 : 0);
                        runs[i] = i % 5 == 4;
                        job_tell_plainly(jobs[i]);
                }
                assert_round_trip(jobs, runs, n);
        }
}

static void a_block_holds_512_jobs_with_four_names_each(void **state)
{
        struct job *jobs[BLOCK_JOBS];
        (void)state;
        for (size_t i = 0; i < BLOCK_JOBS; i++) {
                char name[LIMIT_NAME_BYTES + 1];
                jobs[i] = job_make(i + 1, 2000);
                struct job_view *v = &jobs[i]->view;
                struct slice *const names[] = {&v->hook, &v->queue, &v->group, &v->worker};
                for (size_t k = 0; k < 4; k++) {
                        /* Of every length, the shortest shared by many. */
                        size_t len = 1 + (i * 4 + k) % LIMIT_NAME_BYTES;
                        memset(name, 'x', sizeof(name));
                        (void)snprintf(name, sizeof(name), "%zu", i * 4 + k);
                        *names[k] = job_keep(jobs[i], slice_make(name, len));
                }
                job_tell_plainly(jobs[i]);
        }
        assert_round_trip(jobs, NULL, BLOCK_JOBS);
}

static void one_name_may_be_of_all_four_kinds_or_empty(void **state)
{
        struct job *jobs[3];
        (void)state;
        for (size_t i = 0; i < 3; i++) {
                jobs[i] = job_plain(i + 1);
                struct job_view *v = &jobs[i]->view;
                v->hook = v->queue = v->group = v->worker = i == 1 ? SLICE_NONE : SLICE_LIT("a");
        }
        jobs[2]->view.group = SLICE_LIT("ab");
        struct slice bytes = block_of(jobs, NULL, 3);
        struct block b;
        assert_int_equal(block_open(&b, bytes), OK);
        assert_int_equal(b.n_names, 3);
        assert_int_equal(b.hook[1], 0);
        assert_int_equal(b.names[0].len, 0);
        assert_int_equal(b.hook[0], b.worker[2]);
        block_release(&b);
        block_drop(bytes);
        assert_round_trip(jobs, NULL, 3);
}

static void texts_of_any_length_and_any_bytes_come_back(void **state)
{
        static const size_t lengths[] = {0, 1, 2, 127, 128, 255, 256, 16383, 16384, MIB};
        struct job *jobs[ARRAY_LEN(lengths)];
        char *bytes = xmalloc(MIB);
        (void)state;
        for (size_t i = 0; i < MIB; i++)
                bytes[i] = (char)(i * i >> 7);
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
                size_t n = lengths[i];
                jobs[i] = job_make(i + 1, 5 * n + 64);
                struct job_view *v = &jobs[i]->view;
                v->args = job_keep(jobs[i], slice_make(bytes, n));
                v->result = job_keep(jobs[i], slice_make(bytes + MIB - n, n));
                v->error = job_keep(jobs[i], slice_make(bytes, n / 2));
                v->progress = job_keep(jobs[i], slice_make(bytes + 1, n ? n - 1 : 0));
                v->options = job_keep(jobs[i], slice_make(bytes, n / 3));
                v->events = job_keep(jobs[i], slice_make(bytes, n / 4)); /* no events at all */
        }
        assert_round_trip(jobs, NULL, ARRAY_LEN(lengths));
        free(bytes);
}

static void expect_plain(struct job *job, bool is_plain)
{
        struct slice bytes = block_of(&job, NULL, 1);
        struct block b;
        struct block_texts t;
        assert_int_equal(block_open(&b, bytes), OK);
        assert_int_equal(block_texts(&b, 0, &t), OK);
        assert_int_equal(t.is_plain, is_plain);
        assert_true(slice_eq(t.events, is_plain ? SLICE_NONE : job->view.events));
        assert_true(slice_eq(t.args, job->view.args));
        assert_true(slice_eq(t.error, job->view.error));
        block_release(&b);
        assert_holds(bytes, &job, NULL, 1);
        block_drop(bytes);
        job_drop(job);
}

static void plain_events_are_derived(void **state)
{
        (void)state;
        for (int status = JOB_COMPLETE; status <= JOB_CANCELED; status++) {
                for (int is_started = 0; is_started < 2; is_started++) {
                        struct job *job = job_make(5, 256);
                        job->view.status = (enum job_status)status;
                        if (!is_started)
                                job->view.started_ms = 0;
                        /* Neither must be UTF-8. */
                        job->view.worker = SLICE_LIT("w\xff\0");
                        job->view.error = SLICE_LIT("no \xfe route");
                        job_tell_plainly(job);
                        expect_plain(job, true);
                }
        }
}

static void other_events_are_kept(void **state)
{
        struct job *job = job_make(1, 256);
        (void)state;
        expect_plain(job, false); /* there are none */

        job = job_make(1, 256);
        job_tell_event(job, EVENT_DEFERRED, BOX_NOW - 500, SLICE_NONE, SLICE_LIT("busy"));
        job_tell_plainly(job);
        expect_plain(job, false);

        job = job_make(1, 256);
        job_tell_plainly(job);
        job_tell_event(job, EVENT_RETRIED, BOX_NOW, SLICE_NONE, SLICE_NONE);
        expect_plain(job, false);

        job = job_make(1, 256);
        job_tell_plainly(job);
        job->view.finished_ms++;
        expect_plain(job, false);

        job = job_plain(1);
        job->view.worker = SLICE_LIT("w2");
        expect_plain(job, false);

        job = job_make(1, 256);
        job_tell_plainly(job);
        job->view.status = JOB_CANCELED;
        expect_plain(job, false);

        /* The same events in other bytes: a varint may be longer than it must be. */
        job = job_make(1, 256);
        job->view.started_ms = 0;
        job->view.finished_ms = job->view.created_ms;
        job->view.events = SLICE_LIT("\x02\x80\x00\x02w1\x00");
        assert_int_equal(event_count(job->view.events), 1);
        expect_plain(job, false);
}

static void a_body_that_does_not_pack_is_kept_as_it_is(void **state)
{
        struct job *jobs[64];
        struct rng dice;
        size_t n_bytes = 0;
        (void)state;
        rng_init_seed(&dice, 1);
        for (size_t i = 0; i < 64; i++) {
                char noise[1000];
                rng_fill(&dice, noise, sizeof(noise));
                jobs[i] = job_make(i + 1, sizeof(noise));
                jobs[i]->view.args = job_keep(jobs[i], slice_make(noise, sizeof(noise)));
                job_tell_plainly(jobs[i]);
                n_bytes += sizeof(noise);
        }
        struct slice bytes = block_of(jobs, NULL, 64);
        assert_int_equal(load_u32(bytes.ptr + 16), n_bytes);
        assert_int_equal(load_u32(bytes.ptr + 20), n_bytes);
        assert_true(bytes.len < n_bytes + 300);
        block_drop(bytes);
        assert_round_trip(jobs, NULL, 64);
}

static void jobs_that_are_alike_take_few_bytes(void **state)
{
        struct job *jobs[BLOCK_JOBS];
        (void)state;
        for (size_t i = 0; i < BLOCK_JOBS; i++)
                jobs[i] = job_plain(i + 1);
        struct slice bytes = block_of(jobs, NULL, BLOCK_JOBS);
        assert_true(bytes.len < 300);
        block_drop(bytes);
        assert_round_trip(jobs, NULL, BLOCK_JOBS);
}

static void an_id_is_found_or_it_is_not_there(void **state)
{
        struct job *jobs[100];
        struct block b = {0};
        (void)state;
        block_release(&b); /* all zeros is fine */
        for (size_t i = 0; i < 100; i++)
                jobs[i] = job_plain(10 + 2 * i);
        struct slice bytes = block_of(jobs, NULL, 100);
        assert_int_equal(block_open(&b, bytes), OK);
        for (uint64_t id = 0; id < 250; id++) {
                bool is_there = id >= 10 && id < 210 && id % 2 == 0;
                assert_int_equal(block_find(&b, id), is_there ? (int)(id - 10) / 2 : -1);
        }
        assert_int_equal(block_find(&b, UINT64_MAX), -1);
        block_release(&b);
        block_drop(bytes);
        jobs_drop(jobs, 100);
}

static void a_view_wants_memory(void **state)
{
        struct job *job = job_plain(1);
        struct slice bytes = block_of(&job, NULL, 1);
        struct arena arena;
        struct buf scratch;
        struct block b;
        struct job_view v;
        (void)state;
        buf_init(&scratch, 0);
        assert_int_equal(block_open(&b, bytes), OK);
        arena_init(&arena, 16);
        assert_int_equal(block_view(&b, 0, &arena, &scratch, &v), ERR_NOMEM);
        arena_release(&arena);
        arena_init(&arena, 32); /* for the texts, not for the events */
        assert_int_equal(block_view(&b, 0, &arena, &scratch, &v), ERR_NOMEM);
        arena_release(&arena);
        block_release(&b);
        buf_release(&scratch);
        block_drop(bytes);
        job_drop(job);
}

/* ---- damage ---- */

static void expect_corrupt(struct slice bytes)
{
        struct block b;
        /* At the very end of memory of its own, so that no byte behind it is read unnoticed. */
        char *copy = xmalloc(bytes.len ? bytes.len : 1);
        memcpy(copy, bytes.ptr, bytes.len);
        assert_int_equal(block_open(&b, slice_make(copy, bytes.len)), ERR_CORRUPT);
        free(copy);
}

/* Two jobs with something in all columns; head and body do not pack. */
static void small_jobs(struct job **jobs)
{
        for (size_t i = 0; i < 2; i++) {
                jobs[i] = job_make(40 + i, 256);
                struct job_view *v = &jobs[i]->view;
                job_text(jobs[i], &v->hook, i ? "mail.send" : "report");
                job_text(jobs[i], &v->args, i ? "{\"a\":1}" : "[17,\"x\"]");
                job_text(jobs[i], &v->group, i ? "g" : "");
                job_text(jobs[i], &v->result, i ? "" : "ok");
                v->status = i ? JOB_FAILED : JOB_COMPLETE;
                v->attempt = (uint16_t)(1 + i * 3);
                job_text(jobs[i], &v->error, i ? "gone" : "");
                if (i)
                        job_tell_event(jobs[i], EVENT_DEFERRED, BOX_NOW - 400, SLICE_NONE,
                                       SLICE_LIT("db"));
                job_tell_plainly(jobs[i]);
        }
}

static void a_flipped_bit_is_found(void **state)
{
        struct job *jobs[2];
        (void)state;
        small_jobs(jobs);
        struct slice bytes = block_of(jobs, NULL, 2);
        char *damaged = xmalloc(bytes.len);
        for (size_t bit = 0; bit < bytes.len * 8; bit++) {
                memcpy(damaged, bytes.ptr, bytes.len);
                damaged[bit / 8] = (char)(damaged[bit / 8] ^ 1 << bit % 8);
                expect_corrupt(slice_make(damaged, bytes.len));
        }
        free(damaged);
        block_drop(bytes);
        jobs_drop(jobs, 2);
}

static void a_block_that_is_too_short_or_too_long_is_found(void **state)
{
        struct job *jobs[2];
        (void)state;
        small_jobs(jobs);
        struct slice bytes = block_of(jobs, NULL, 2);
        for (size_t n = 0; n < bytes.len; n++) {
                expect_corrupt(slice_make(bytes.ptr, n));
                if (n < 5)
                        continue;
                char *cut = xmalloc(n);
                memcpy(cut, bytes.ptr, n);
                mend_block(cut, n);
                expect_corrupt(slice_make(cut, n));
                free(cut);
        }
        char *more = xcalloc(1, bytes.len + 1);
        memcpy(more, bytes.ptr, bytes.len);
        expect_corrupt(slice_make(more, bytes.len + 1));
        mend_block(more, bytes.len + 1);
        expect_corrupt(slice_make(more, bytes.len + 1));
        free(more);
        block_drop(bytes);
        jobs_drop(jobs, 2);
}

static void a_header_that_cannot_be_is_found_behind_a_right_checksum(void **state)
{
        static const struct {
                size_t at, n_bytes;
                uint32_t value;
        } wrong[] = {
                {0, 1, 'W'},         {4, 1, 0},           {4, 1, 2},
                {5, 1, 0},           {5, 1, 1},           {5, 1, 2},
                {5, 1, 7},           {6, 2, 0},           {6, 2, 513},
                {6, 2, 1},           {6, 2, 3},           {6, 2, 65535},
                {8, 4, 0},           {8, 4, UINT32_MAX},  {8, 4, BLOCK_RAW_BYTES},
                {12, 4, 0},          {12, 4, UINT32_MAX}, {16, 4, 0},
                {16, 4, UINT32_MAX}, {20, 4, 0},          {20, 4, UINT32_MAX},
        };
        struct job *jobs[2];
        (void)state;
        small_jobs(jobs);
        struct slice bytes = block_of(jobs, NULL, 2);
        assert_int_equal(bytes.ptr[5], 3); /* both halves are as they are */
        char *damaged = xmalloc(bytes.len);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                memcpy(damaged, bytes.ptr, bytes.len);
                memcpy(damaged + wrong[i].at, &wrong[i].value, wrong[i].n_bytes);
                mend_block(damaged, bytes.len);
                expect_corrupt(slice_make(damaged, bytes.len));
        }
        free(damaged);
        block_drop(bytes);
        jobs_drop(jobs, 2);
}

/* Opens it and looks at everything; the sanitizers judge. */
static int read_all(struct slice bytes)
{
        struct block b;
        struct arena arena;
        struct buf scratch;
        int err = block_open(&b, bytes);
        if (err)
                return err;
        arena_init(&arena, 0);
        buf_init(&scratch, 0);
        for (size_t i = 0; i < b.n && !err; i++) {
                struct job_view v;
                err = block_view(&b, i, &arena, &scratch, &v);
                assert_true(i == 0 || b.id[i] > b.id[i - 1]);
                assert_in_range(b.status[i], JOB_COMPLETE, JOB_CANCELED);
        }
        arena_release(&arena);
        buf_release(&scratch);
        block_release(&b);
        return err;
}

static void a_head_that_cannot_be_is_read_safely(void **state)
{
        static const uint8_t values[] = {0, 1, 2, 3, 4, 16, 0x7f, 0x80, 0xff};
        struct job *jobs[2];
        size_t n_refused = 0;
        (void)state;
        small_jobs(jobs);
        struct slice bytes = block_of(jobs, NULL, 2);
        char *damaged = xmalloc(bytes.len);
        for (size_t at = 0; at < bytes.len - 4; at++) {
                for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                        memcpy(damaged, bytes.ptr, bytes.len);
                        damaged[at] = (char)values[i];
                        mend_block(damaged, bytes.len);
                        int err = read_all(slice_make(damaged, bytes.len));
                        assert_true(err == OK || err == ERR_CORRUPT);
                        n_refused += err != OK;
                }
        }
        assert_true(n_refused > 500);
        free(damaged);
        block_drop(bytes);
        jobs_drop(jobs, 2);
}

static void a_packed_half_that_cannot_be_is_refused(void **state)
{
        struct job *jobs[BLOCK_JOBS];
        (void)state;
        for (size_t i = 0; i < BLOCK_JOBS; i++) {
                jobs[i] = job_plain(1 + i + i / 10);
                jobs[i]->view.priority = (uint8_t)i;
        }
        struct slice bytes = block_of(jobs, NULL, BLOCK_JOBS);
        size_t head_at = 24, body_at = head_at + load_u32(bytes.ptr + 12);
        assert_int_equal(bytes.ptr[5], 0); /* both halves are packed */
        char *damaged = xmalloc(bytes.len);
        memcpy(damaged, bytes.ptr, bytes.len);
        store_u32(damaged + 16, load_u32(bytes.ptr + 16) + 1); /* the body is one byte longer */
        mend_block(damaged, bytes.len);
        assert_int_equal(read_all(slice_make(damaged, bytes.len)), ERR_CORRUPT);
        memcpy(damaged, bytes.ptr, bytes.len);
        store_u32(damaged + 8, load_u32(bytes.ptr + 8) - 1);
        mend_block(damaged, bytes.len);
        expect_corrupt(slice_make(damaged, bytes.len));
        memcpy(damaged, bytes.ptr, bytes.len);
        memset(damaged + body_at, 0xff, bytes.len - 4 - body_at);
        mend_block(damaged, bytes.len);
        assert_int_equal(read_all(slice_make(damaged, bytes.len)), ERR_CORRUPT);
        memset(damaged + head_at, 0xff, body_at - head_at);
        mend_block(damaged, bytes.len);
        expect_corrupt(slice_make(damaged, bytes.len));
        free(damaged);
        block_drop(bytes);
        jobs_drop(jobs, BLOCK_JOBS);
}

/* ---- versions ---- */

static void packed_jobs(struct job **jobs, uint64_t *runs)
{
        static const char *const names[] = {"mail.send", "report.make", "sync"};
        for (size_t i = 0; i < 24; i++) {
                char args[64];
                jobs[i] = job_make(1000 + 3 * i, 512);
                struct job_view *v = &jobs[i]->view;
                (void)snprintf(args, sizeof(args), "{\"to\":\"user%zu@example.com\",\"n\":%zu}",
                               i * 37, i);
                job_text(jobs[i], &v->args, args);
                job_text(jobs[i], &v->hook, names[i % 3]);
                v->created_ms += (int64_t)i;
                v->due_ms = v->created_ms + (i == 5 ? 60000 : 0);
                v->finished_ms += (int64_t)(i * i);
                v->status = (enum job_status)(JOB_COMPLETE + (i == 7) + 2 * (i == 9));
                v->timeout_ms = i == 3 ? 90000 : 0;
                runs[i] = i == 11 ? 2 : 0;
                if (i == 9)
                        v->started_ms = 0;
                if (i % 2)
                        job_text(jobs[i], &v->result, "{\"ok\":true}");
                if (i == 7)
                        job_text(jobs[i], &v->error, "HTTP 503 from upstream");
                if (i == 4)
                        job_text(jobs[i], &v->progress, "half");
                if (i == 11)
                        job_set_packed(jobs[i], &(struct job_options){.run = 2});
                if (i % 6 == 4)
                        job_tell_event(jobs[i], EVENT_DEFERRED, v->created_ms + 5, SLICE_NONE,
                                       SLICE_LIT("gate"));
                job_tell_plainly(jobs[i]);
        }
}

static void expect_golden(const char *hex, struct job **jobs, const uint64_t *runs, size_t n)
{
        uint8_t bytes[4096];
        size_t n_bytes = strlen(hex) / 2;
        assert_true(n_bytes <= sizeof(bytes));
        assert_true(slice_to_hex_bytes(slice_str(hex), bytes, n_bytes));
        assert_holds(slice_make(bytes, n_bytes), jobs, runs, n);
        jobs_drop(jobs, n);
}

static void blocks_of_version_1_are_read(void **state)
{
        struct job *jobs[24];
        uint64_t runs[24];
        (void)state;
        small_jobs(jobs);
        expect_golden(golden_small, jobs, NULL, 2);
        packed_jobs(jobs, runs);
        expect_golden(golden_packed, jobs, runs, 24);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_job_comes_back_in_all_its_fields),
                cmocka_unit_test(every_number_takes_its_extremes),
                cmocka_unit_test(every_kind_of_column_comes_back),
                cmocka_unit_test(a_block_holds_512_jobs_with_four_names_each),
                cmocka_unit_test(one_name_may_be_of_all_four_kinds_or_empty),
                cmocka_unit_test(texts_of_any_length_and_any_bytes_come_back),
                cmocka_unit_test(plain_events_are_derived),
                cmocka_unit_test(other_events_are_kept),
                cmocka_unit_test(a_body_that_does_not_pack_is_kept_as_it_is),
                cmocka_unit_test(jobs_that_are_alike_take_few_bytes),
                cmocka_unit_test(an_id_is_found_or_it_is_not_there),
                cmocka_unit_test(a_view_wants_memory),
                cmocka_unit_test(a_flipped_bit_is_found),
                cmocka_unit_test(a_block_that_is_too_short_or_too_long_is_found),
                cmocka_unit_test(a_header_that_cannot_be_is_found_behind_a_right_checksum),
                cmocka_unit_test(a_head_that_cannot_be_is_read_safely),
                cmocka_unit_test(a_packed_half_that_cannot_be_is_refused),
                cmocka_unit_test(blocks_of_version_1_are_read),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
