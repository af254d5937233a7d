/* Marks of blocks: they know of everything that is in a block, and seldom of more. */
#include "check.h"

#include "base/rand.h"
#include "block_box.h"
#include "history/block_mark.h"

static void mark_of(struct job *const *jobs, size_t n, enum block_family family,
                    struct block_mark *ret)
{
        struct slice bytes = block_of(jobs, NULL, n);
        struct block b;
        assert_int_equal(block_open(&b, bytes), OK);
        block_mark_make(ret, &b, family);
        block_release(&b);
        block_drop(bytes);
}

static bool knows(const struct block_mark *m, enum span_mark_kind kind, struct slice name)
{
        return block_mark_has(m, span_mark_hash(kind, name));
}

static struct slice numbered(struct job *job, const char *what, size_t i)
{
        char name[64];
        (void)snprintf(name, sizeof(name), "%s-%zu", what, i);
        return job_keep(job, slice_str(name));
}

/* 512 jobs: a hook, group and worker each, five queues; a job in eight failed or was canceled. */
static void many_jobs(struct job **jobs)
{
        for (size_t i = 0; i < BLOCK_JOBS; i++) {
                jobs[i] = job_make(5000 + 2 * i, 512);
                struct job_view *v = &jobs[i]->view;
                v->hook = numbered(jobs[i], "hook", i);
                v->queue = numbered(jobs[i], "queue", i % 5);
                v->group = i % 3 ? numbered(jobs[i], "group", i) : SLICE_NONE;
                v->worker = numbered(jobs[i], "worker", i);
                v->status = i % 16 == 3 ? JOB_FAILED : i % 16 == 11 ? JOB_CANCELED : JOB_COMPLETE;
                job_tell_plainly(jobs[i]);
        }
}

static void a_mark_knows_every_name_of_its_block(void **state)
{
        struct job *jobs[BLOCK_JOBS];
        struct block_mark m;
        (void)state;
        many_jobs(jobs);
        mark_of(jobs, BLOCK_JOBS, FAMILY_DONE, &m);
        for (size_t i = 0; i < BLOCK_JOBS; i++) {
                const struct job_view *v = &jobs[i]->view;
                assert_true(knows(&m, MARK_HOOK, v->hook));
                assert_true(knows(&m, MARK_QUEUE, v->queue));
                assert_true(knows(&m, MARK_GROUP, v->group));
                assert_true(knows(&m, MARK_WORKER, v->worker));
                if (v->status != JOB_COMPLETE)
                        assert_true(knows(&m, MARK_BAD_HOOK, v->hook));
        }
        block_mark_release(&m);
        jobs_drop(jobs, BLOCK_JOBS);
}

static void a_mark_is_seldom_wrong(void **state)
{
        struct job *jobs[BLOCK_JOBS];
        struct block_mark m;
        size_t n_wrong = 0, n_bad = 0, n_asked = 50000;
        (void)state;
        many_jobs(jobs);
        mark_of(jobs, BLOCK_JOBS, FAMILY_DONE, &m);
        /* Other names like these, and these as names of another kind. */
        for (size_t i = 0; i < n_asked; i++) {
                char name[64];
                (void)snprintf(name, sizeof(name), "hook-%zu", BLOCK_JOBS + i);
                n_wrong += knows(&m, MARK_HOOK, slice_str(name));
        }
        assert_true(n_wrong < n_asked / 50);
        for (size_t i = 0; i < BLOCK_JOBS; i++) {
                n_bad += knows(&m, MARK_QUEUE, jobs[i]->view.hook);
                if (jobs[i]->view.status == JOB_COMPLETE)
                        n_bad += knows(&m, MARK_BAD_HOOK, jobs[i]->view.hook);
        }
        assert_true(n_bad < 2 * BLOCK_JOBS / 50);
        /* Some bytes for each name, not more. */
        assert_true(m.n_bits / 8 <= 4 * 4 * BLOCK_JOBS);
        block_mark_release(&m);
        jobs_drop(jobs, BLOCK_JOBS);
}

static void few_names_take_few_bits(void **state)
{
        struct job *jobs[BLOCK_JOBS];
        struct block_mark m;
        size_t n_wrong = 0;
        (void)state;
        for (size_t i = 0; i < BLOCK_JOBS; i++)
                jobs[i] = job_plain(i);
        mark_of(jobs, BLOCK_JOBS, FAMILY_DONE, &m);
        assert_int_equal(m.n_bits, 64); /* a hook, a queue, a worker, and no group */
        assert_true(knows(&m, MARK_GROUP, SLICE_NONE));
        assert_true(knows(&m, MARK_HOOK, SLICE_LIT("mail.send")));
        for (size_t i = 0; i < 10000; i++) {
                char name[64];
                (void)snprintf(name, sizeof(name), "other-%zu", i);
                n_wrong += knows(&m, MARK_HOOK, slice_str(name));
        }
        assert_true(n_wrong < 10000 / 50);
        block_mark_release(&m);
        jobs_drop(jobs, BLOCK_JOBS);
}

static void a_mark_says_when_and_how_many(void **state)
{
        struct job *jobs[3];
        struct block_mark m;
        (void)state;
        for (size_t i = 0; i < 3; i++)
                jobs[i] = job_plain(100 + 10 * i);
        jobs[0]->view.created_ms = 5000;
        jobs[1]->view.created_ms = 3000;
        jobs[2]->view.created_ms = 4000;
        jobs[0]->view.finished_ms = -7;
        jobs[1]->view.finished_ms = 9000;
        jobs[2]->view.finished_ms = 8000;
        jobs[2]->view.status = JOB_CANCELED;
        mark_of(jobs, 3, FAMILY_DONE, &m);
        assert_int_equal(m.number, 0);
        assert_int_equal(m.n, 3);
        assert_int_equal(m.n_dead, 0);
        assert_null(m.dead);
        assert_int_equal(m.family, FAMILY_DONE);
        assert_int_equal(m.first_id, 100);
        assert_int_equal(m.last_id, 120);
        assert_int_equal(m.created_first, 3000);
        assert_int_equal(m.created_last, 5000);
        assert_int_equal(m.finished_first, -7);
        assert_int_equal(m.finished_last, 9000);
        assert_int_equal(m.n_status[JOB_COMPLETE], 2);
        assert_int_equal(m.n_status[JOB_CANCELED], 1);
        assert_int_equal(m.n_status[JOB_FAILED], 0);
        block_mark_release(&m);
        block_mark_release(&m); /* all zeros is fine */
        jobs_drop(jobs, 3);
}

static void ids_have_windows_and_jobs_families(void **state)
{
        struct block_mark m = {.n = 9};
        uint8_t dead[MARK_DEAD_BYTES] = {0x01, 0x01};
        (void)state;
        assert_int_equal(window_of(0), 0);
        assert_int_equal(window_of(32767), 0);
        assert_int_equal(window_of(32768), 1);
        assert_int_equal(WINDOW_IDS, 32768);
        assert_int_equal(family_of(JOB_FAILED), FAMILY_FAILED);
        assert_int_equal(family_of(JOB_COMPLETE), FAMILY_DONE);
        assert_int_equal(family_of(JOB_CANCELED), FAMILY_DONE);
        assert_false(block_mark_is_dead(&m, 0));
        m.dead = dead;
        for (size_t i = 0; i < 9; i++)
                assert_int_equal(block_mark_is_dead(&m, i), i == 0 || i == 8);
}

/* ---- packed ---- */

static void assert_same_mark(const struct block_mark *got, const struct block_mark *want)
{
        assert_int_equal(got->first_id, want->first_id);
        assert_int_equal(got->last_id, want->last_id);
        assert_int_equal(got->created_first, want->created_first);
        assert_int_equal(got->created_last, want->created_last);
        assert_int_equal(got->finished_first, want->finished_first);
        assert_int_equal(got->finished_last, want->finished_last);
        assert_int_equal(got->n, want->n);
        assert_int_equal(got->n_dead, want->n_dead);
        assert_memory_equal(got->n_status, want->n_status, sizeof(want->n_status));
        assert_int_equal(got->family, want->family);
        assert_int_equal(got->n_bits, want->n_bits);
        assert_memory_equal(got->filter, want->filter, want->n_bits / 8);
        /* These are the table's. */
        assert_int_equal(got->number, 0);
        assert_int_equal(got->segment, 0);
        assert_int_equal(got->bytes, 0);
        assert_int_equal(got->offset, 0);
        assert_null(got->dead);
}

static void a_packed_mark_comes_back(void **state)
{
        struct job *jobs[BLOCK_JOBS];
        struct block_mark m, again;
        struct buf packed;
        (void)state;
        buf_init(&packed, 0);
        many_jobs(jobs);
        for (size_t n = 1; n <= BLOCK_JOBS; n += 73) {
                mark_of(jobs, n, n % 2 ? FAMILY_DONE : FAMILY_FAILED, &m);
                m.number = 17;
                m.segment = 3;
                m.bytes = 400;
                m.offset = 9;
                m.n_dead = (uint16_t)(n / 2);
                m.finished_first = INT64_MIN;
                m.created_last = INT64_MAX;
                buf_put_str(&packed, "before"); /* it is appended */
                size_t start = packed.len;
                block_mark_pack(&m, &packed);
                struct slice bytes = slice_make(packed.ptr + start, packed.len - start);
                assert_int_equal(block_mark_unpack(bytes, &again), OK);
                assert_same_mark(&again, &m);
                block_mark_release(&again);
                block_mark_release(&m);
        }
        buf_release(&packed);
        jobs_drop(jobs, BLOCK_JOBS);
}

static void a_damaged_mark_is_found(void **state)
{
        struct job *job = job_plain(1);
        struct block_mark m, again = {.n = 99};
        struct buf packed;
        (void)state;
        buf_init(&packed, 0);
        mark_of(&job, 1, FAMILY_DONE, &m);
        block_mark_pack(&m, &packed);
        for (size_t bit = 0; bit < packed.len * 8; bit++) {
                char *at = &packed.ptr[bit / 8];
                *at = (char)(*at ^ 1 << bit % 8);
                assert_int_equal(block_mark_unpack(buf_slice(&packed), &again), ERR_CORRUPT);
                *at = (char)(*at ^ 1 << bit % 8);
        }
        for (size_t n = 0; n < packed.len; n++)
                assert_int_equal(block_mark_unpack(slice_make(packed.ptr, n), &again), ERR_CORRUPT);
        assert_int_equal(again.n, 99); /* it is set only on success */
        packed.max = packed.len;
        block_mark_pack(&m, &packed);
        assert_true(packed.failed);
        buf_release(&packed);
        block_mark_release(&m);
        job_drop(job);
}

static void expect_unsound(struct block_mark m)
{
        struct block_mark again;
        struct buf packed;
        buf_init(&packed, 0);
        block_mark_pack(&m, &packed);
        assert_int_equal(block_mark_unpack(buf_slice(&packed), &again), ERR_CORRUPT);
        buf_release(&packed);
}

static void a_mark_that_cannot_be_is_found_behind_a_right_checksum(void **state)
{
        static uint8_t filter[65536 / 4];
        struct block_mark good = {.n = 3,
                                  .n_status = {[JOB_COMPLETE] = 3},
                                  .first_id = 5,
                                  .last_id = 7,
                                  .n_bits = 64,
                                  .filter = filter};
        struct block_mark m, again;
        struct buf packed;
        (void)state;
        buf_init(&packed, 0);
        block_mark_pack(&good, &packed);
        assert_int_equal(block_mark_unpack(buf_slice(&packed), &again), OK);
        block_mark_release(&again);
        /* Another version. */
        packed.ptr[0]++;
        mend_block(packed.ptr, packed.len);
        assert_int_equal(block_mark_unpack(buf_slice(&packed), &again), ERR_CORRUPT);
        packed.ptr[0]--;
        /* More bytes than the filter has. */
        packed.len--;
        mend_block(packed.ptr, packed.len);
        assert_int_equal(block_mark_unpack(buf_slice(&packed), &again), ERR_CORRUPT);
        buf_release(&packed);

        m = good, m.n = 4, expect_unsound(m);
        m = good, m.n = 0, m.n_status[JOB_COMPLETE] = 0, expect_unsound(m);
        m = good, m.n = m.n_status[JOB_COMPLETE] = BLOCK_JOBS + 1, m.last_id = 9000;
        expect_unsound(m);
        m = good, m.n_dead = 4, expect_unsound(m);
        m = good, m.family = FAMILIES, expect_unsound(m);
        m = good, m.last_id = 6, expect_unsound(m);
        m = good, m.last_id = 4, expect_unsound(m);
        m = good, m.n_bits = 32, expect_unsound(m);
        m = good, m.n_bits = 96, expect_unsound(m);
        m = good, m.n_bits = 2 * 65536, expect_unsound(m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_mark_knows_every_name_of_its_block),
                cmocka_unit_test(a_mark_is_seldom_wrong),
                cmocka_unit_test(few_names_take_few_bits),
                cmocka_unit_test(a_mark_says_when_and_how_many),
                cmocka_unit_test(ids_have_windows_and_jobs_families),
                cmocka_unit_test(a_packed_mark_comes_back),
                cmocka_unit_test(a_damaged_mark_is_found),
                cmocka_unit_test(a_mark_that_cannot_be_is_found_behind_a_right_checksum),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
