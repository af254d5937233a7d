/* What history tells of itself: how many jobs are rows, and how many are in blocks. */
#include "check.h"

#include "history_box.h"

/* As many as one commit leaves as rows, and not as many as make a block. */
enum { FEW = 50, TWICE = 2 * FEW };

static void store_few(struct box *box, uint64_t first_id, size_t n)
{
        struct job *jobs[FEW];
        for (size_t i = 0; i < n; i++)
                jobs[i] = job_plain(first_id + i);
        box_store(box, jobs, n);
        jobs_drop(jobs, n);
}

/* The writer packs when it is idle, and tells nobody: it is asked. */
static struct archive_stat wait_packed(const struct box *box, uint64_t n)
{
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        time_t until = t.tv_sec + BOX_WAIT_NS / NS_PER_S;
        for (;;) {
                struct archive_stat st = box_stat(box);
                if (st.block_jobs >= n)
                        return st;
                (void)sched_yield();
                (void)clock_gettime(CLOCK_MONOTONIC, &t);
                assert_true(t.tv_sec < until);
        }
}

static void it_tells_how_many_rows_are_packed_into_blocks(void **state)
{
        struct box box;
        (void)state;
        box_init_folder(&box);
        box.pack_every_ms = 1;
        box_open(&box);
        store_few(&box, 100000, 1); /* far from the others, which get no more neighbours later */
        store_few(&box, 1, FEW);
        struct archive_stat st = box_stat(&box);
        assert_int_equal(st.rows, FEW + 1);
        assert_int_equal(st.block_jobs, 0);
        assert_int_equal(st.blocks, 0);
        assert_int_equal(st.block_bytes, 0);
        store_few(&box, 1 + FEW, FEW);
        st = wait_packed(&box, TWICE);
        assert_int_equal(st.rows, TWICE + 1);
        assert_int_equal(st.block_jobs, TWICE); /* the other has no neighbours */
        assert_int_equal(st.blocks, 1);
        assert_true(st.block_bytes > 0 && st.block_bytes < st.bytes);
        box_close(&box);
        box_open(&box); /* the same after a restart */
        st = box_stat(&box);
        assert_int_equal(st.rows, TWICE + 1);
        assert_int_equal(st.block_jobs, TWICE);
        assert_int_equal(st.blocks, 1);
        assert_true(st.block_bytes > 0);
        box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(it_tells_how_many_rows_are_packed_into_blocks),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
