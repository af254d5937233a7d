/* Rows that become blocks, small blocks that become larger ones, and blocks whose marks are
 * damaged. */
#include "check.h"

#include "history/archive_writer.h"
#include "history_box.h"

#define FEW 50 /* too few for a block */

/* Stores jobs first..first+n-1, `each` in a transaction. */
static void store_jobs(struct box *box, uint64_t first, size_t n, size_t each)
{
        struct job **jobs = xcalloc(n, sizeof(struct job *));
        for (size_t i = 0; i < n; i++)
                jobs[i] = job_plain(first + i);
        for (size_t i = 0; i < n; i += each)
                box_store(box, jobs + i, n - i < each ? n - i : each);
        jobs_drop(jobs, n);
        free(jobs);
}

/* A pass over the closed history; returns how many jobs were packed. */
static uint64_t pack_all(struct box *box)
{
        static struct archive_writer writer;
        struct archive_pack pack = {0};
        struct problem p;
        uint64_t packed = 0;
        box_close(box);
        assert_int_equal(archive_writer_open(&writer, box->path, box_view, &p), OK);
        while (!pack.is_over) {
                assert_int_equal(archive_writer_pack(&writer, &pack, &p), OK);
                packed += pack.packed;
        }
        archive_writer_close(&writer);
        box_open(box);
        return packed;
}

static void assert_jobs(struct box *box, uint64_t first, size_t n)
{
        for (uint64_t id = first; id < first + n; id += 7) {
                struct job *job = job_plain(id);
                assert_found(box, &job->view);
                job_drop(job);
        }
}

static void rows_of_older_windows_become_blocks(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        store_jobs(&box, 100, 700, FEW);
        store_jobs(&box, WINDOW_IDS, 700, FEW);
        store_jobs(&box, 2 * WINDOW_IDS, FEW, FEW); /* too few */
        assert_sql(&box, "SELECT count(*) FROM job", "1450");
        assert_int_equal(pack_all(&box), 1400);
        assert_sql(&box, "SELECT count(*) FROM job", "50");
        assert_sql(&box, "SELECT rows FROM tally", "50");
        assert_sql(&box, "SELECT count(*) FROM block", "4");
        assert_int_equal(box_stat(&box).rows, 1450);
        assert_int_equal(box_count(&box), 1450);
        assert_jobs(&box, 100, 700);
        assert_jobs(&box, WINDOW_IDS, 700);
        assert_int_equal(pack_all(&box), 0);
        box_release(&box);
}

/* More will come to the newest window: only what fills blocks is packed. */
static void the_newest_window_is_packed_by_full_blocks(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        store_jobs(&box, 1, BLOCK_JOBS - 12, FEW);
        assert_int_equal(pack_all(&box), 0);
        store_jobs(&box, BLOCK_JOBS - 11, FEW, FEW);
        assert_int_equal(pack_all(&box), BLOCK_JOBS + 38);
        assert_sql(&box, "SELECT count(*) FROM job", "0");
        assert_int_equal(box_count(&box), BLOCK_JOBS + 38);
        box_release(&box);
}

static void remove_one(struct box *box, uint64_t id)
{
        static struct archive_writer writer;
        struct archive_ref ref = {.id = id};
        struct problem p;
        size_t removed;
        box_close(box);
        assert_int_equal(archive_writer_open(&writer, box->path, box_view, &p), OK);
        assert_int_equal(archive_writer_remove(&writer, &ref, 1, &removed, &p), OK);
        assert_int_equal(removed, 1);
        archive_writer_close(&writer);
        box_open(box);
}

static void small_blocks_are_put_together_without_what_was_deleted(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        store_jobs(&box, 1, 1000, 100);
        assert_sql(&box, "SELECT count(*) FROM block", "10");
        remove_one(&box, 150);
        assert_int_equal(pack_all(&box), 0); /* it is the newest window */
        store_jobs(&box, WINDOW_IDS, 100, 100);
        assert_int_equal(pack_all(&box), 999);
        assert_sql(&box, "SELECT count(*) FROM block", "3");
        assert_sql(&box, "SELECT count(*) FROM block WHERE dead IS NOT NULL", "0");
        assert_int_equal(box_stat(&box).rows, 1099);
        assert_int_equal(box_count(&box), 1099);
        assert_false(box_has(&box, 150));
        assert_jobs(&box, 1, 148);
        assert_jobs(&box, 151, 850);
        assert_int_equal(pack_all(&box), 0); /* what is there is large enough */
        box_release(&box);
}

/* Their texts take a block each, however well they pack. */
static void small_blocks_of_long_texts_stay_as_they_are(void **state)
{
        enum { N = 70, LONG = 60000, BLOCKS = 3 };
        static struct job *jobs[BLOCKS][N];
        static char text[LONG + 1];
        struct box box;
        (void)state;
        memset(text, 'r', LONG);
        box_init(&box);
        for (size_t b = 0; b < BLOCKS; b++) {
                for (size_t i = 0; i < N; i++) {
                        jobs[b][i] = job_make(1 + b * N + i, LONG);
                        job_text(jobs[b][i], &jobs[b][i]->view.result, text);
                        job_tell_plainly(jobs[b][i]);
                }
                box_store(&box, jobs[b], N);
        }
        store_jobs(&box, WINDOW_IDS, 100, 100);
        char before[16];
        ask_sql(&box, "SELECT max(number) FROM block", before, sizeof(before));
        assert_int_equal(pack_all(&box), 0);
        assert_sql(&box, "SELECT max(number) FROM block", before);
        assert_found(&box, &jobs[1][5]->view);
        box_release(&box);
        for (size_t b = 0; b < BLOCKS; b++)
                jobs_drop(jobs[b], N);
}

static void change_file(struct box *box, const char *sql)
{
        sqlite3 *db;
        box_close(box);
        assert_int_equal(sqlite3_open(box->path, &db), SQLITE_OK);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        box_open(box);
}

static void a_damaged_mark_is_made_anew_from_its_block(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        store_jobs(&box, 1, 200, 100);
        remove_one(&box, 20);
        change_file(&box, "UPDATE block SET mark = zeroblob(length(mark))");
        assert_int_equal(box_stat(&box).errors, 0);
        assert_int_equal(box_count(&box), 199);
        assert_false(box_has(&box, 20));
        assert_jobs(&box, 21, 180);
        box_release(&box);
}

/* Who would show jobs that were deleted, or hide others? */
static void a_block_whose_deleted_jobs_cannot_be_told_is_left_out(void **state)
{
        struct box box;
        (void)state;
        box_init(&box);
        store_jobs(&box, 1, 200, 100);
        remove_one(&box, 20);
        change_file(&box, "UPDATE block SET dead = zeroblob(length(dead)) WHERE dead IS NOT NULL");
        assert_int_equal(box_stat(&box).errors, 1);
        assert_int_equal(box_count(&box), 100);
        assert_jobs(&box, 101, 100);
        store_jobs(&box, 201, 100, 100); /* and its bytes stay where they are */
        assert_sql(&box, "SELECT count(DISTINCT offset) FROM block", "3");
        box_release(&box);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rows_of_older_windows_become_blocks),
                cmocka_unit_test(the_newest_window_is_packed_by_full_blocks),
                cmocka_unit_test(small_blocks_are_put_together_without_what_was_deleted),
                cmocka_unit_test(small_blocks_of_long_texts_stay_as_they_are),
                cmocka_unit_test(a_damaged_mark_is_made_anew_from_its_block),
                cmocka_unit_test(a_block_whose_deleted_jobs_cannot_be_told_is_left_out),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
