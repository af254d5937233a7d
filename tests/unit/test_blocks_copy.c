/* Copying blocks beside tables that were copied, while the server drops some; and taking back jobs
 * from a copy. */
#include "check.h"

#include "history/blocks_copy.h"
#include "stored_block_box.h"

/* What happens just before the n-th block is read. */
static int reads_until;
static void (*before_read)(void);
static int n_reads;

static int hooked_read(struct segments *s, const struct segment_place *place, struct buf *ret,
                       struct problem *p)
{
        n_reads++;
        if (reads_until && --reads_until == 0)
                before_read();
        return segments_read(s, place, ret, p);
}

#define segments_read hooked_read
#include "../../src/history/block_table.c" /* NOLINT(bugprone-suspicious-include) */
#undef segments_read

static struct block_box box;
static char to_dir[TEMP_DIR_SIZE], to_path[TEMP_DIR_SIZE + 16];
static sqlite3 *from, *to;
static struct blocks_copy *copy;

static int setup(void **state)
{
        (void)state;
        reads_until = n_reads = 0;
        block_box_init(&box);
        temp_dir_make(to_dir);
        (void)snprintf(to_path, sizeof(to_path), "%s/history.db", to_dir);
        copy = blocks_copy_new(box.path, to_path);
        return sqlite3_open_v2(box.path, &from, SQLITE_OPEN_READONLY, NULL);
}

static int teardown(void **state)
{
        (void)state;
        copy = blocks_copy_free(copy);
        (void)sqlite3_close(to);
        to = NULL;
        (void)sqlite3_close(from);
        temp_dir_remove(to_dir);
        block_box_release(&box);
        return 0;
}

/* What `weir backup` does with the tables. */
static void copy_tables(void)
{
        (void)sqlite3_close(to);
        (void)unlink(to_path);
        assert_int_equal(sqlite3_open(to_path, &to), SQLITE_OK);
        sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
        assert_non_null(b);
        assert_int_equal(sqlite3_backup_step(b, -1), SQLITE_DONE);
        assert_int_equal(sqlite3_backup_finish(b), SQLITE_OK);
}

static int try_copy(struct problem *p)
{
        copy_tables();
        return blocks_copy_run(copy, from, to, p);
}

static void copy_all(void)
{
        struct problem p = {0};
        if (try_copy(&p) != OK)
                fail_msg("%s", p.detail);
}

static void keep_told(void *ctx, const char *what)
{
        (void)snprintf(ctx, 200, "%s", what);
}

/* The copy holds that many jobs, and is as sound as told. */
static void verify_copy(uint64_t rows, uint64_t damaged)
{
        struct archive_report report;
        struct problem p = {0};
        char told[200] = "";
        if (archive_file_verify(to_path, true, keep_told, told, &report, &p) != OK)
                fail_msg("%s", p.detail);
        if (report.rows != rows || report.damaged != damaged)
                fail_msg("%llu rows, %llu damaged: %s", (unsigned long long)report.rows,
                         (unsigned long long)report.damaged, told);
}

static uint64_t count(void)
{
        uint64_t n;
        struct problem p = {0};
        assert_int_equal(blocks_count(to, to_path, &n, &p), OK);
        return n;
}

static void a_copy_has_the_same_blocks_in_the_same_places(void **state)
{
        (void)state;
        struct block_mark first = block_box_put(&box, 1, 512, JOB_COMPLETE);
        for (uint64_t i = 1; i < 9; i++)
                block_box_put(&box, i * 1000, 512, JOB_COMPLETE);
        struct block_mark last = block_box_put(&box, 40000, 3, JOB_FAILED);
        assert_true(last.segment > first.segment);
        block_box_drop(&box, &first);
        copy_all();
        verify_copy(8 * 512 + 3, 0);
        assert_int_equal(count(), 8 * 512 + 3);
        char path[SEGMENT_PATH_BYTES];
        struct stat st;
        assert_int_equal(stat(segment_io_path(to_path, last.segment, path), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(st.st_size, last.offset + last.bytes);
        /* A server starts from it, and goes on where the last block ends. */
        struct block_box other = {.db = to};
        (void)snprintf(other.path, sizeof(other.path), "%s", to_path);
        block_box_open_segments(&other);
        struct block_mark next = block_box_put(&other, 50000, 5, JOB_COMPLETE);
        assert_int_equal(next.segment, last.segment);
        assert_true(next.offset >= last.offset + last.bytes);
        other.segments = segments_free(other.segments);
        verify_copy(8 * 512 + 3 + 5, 0);
}

static void a_history_without_blocks_is_copied_too(void **state)
{
        (void)state;
        copy_all();
        assert_int_equal(count(), 0);
        block_box_run(&box, "DROP TABLE block; DROP TABLE store; PRAGMA user_version = 5");
        copy_all();
        assert_int_equal(count(), 0);
        struct blocks_judge judge = {0};
        struct problem p = {0};
        assert_int_equal(blocks_take_back(to, to_path, &judge, &p), OK);
}

/* ---- a server at work ---- */

static struct block_mark to_drop;

static void drop_and_add(void)
{
        block_box_drop(&box, &to_drop);
        block_box_put(&box, 90000, 100, JOB_COMPLETE);
}

static void when_the_server_drops_a_block_only_the_rest_is_copied_again(void **state)
{
        (void)state;
        struct problem p = {0};
        block_box_put(&box, 1000, 512, JOB_COMPLETE);
        block_box_put(&box, 2000, 512, JOB_COMPLETE);
        to_drop = block_box_put(&box, 3000, 512, JOB_COMPLETE);
        block_box_put(&box, 4000, 512, JOB_COMPLETE);
        reads_until = 3;
        before_read = drop_and_add;
        assert_int_equal(try_copy(&p), ERR_CONFLICT);
        assert_int_equal(n_reads, 3);
        copy_all();
        assert_int_equal(n_reads, 3 + 2); /* the one behind it and the new one */
        verify_copy(3 * 512 + 100, 0);
        /* A third round has nothing to do. */
        n_reads = 0;
        copy_all();
        assert_int_equal(n_reads, 0);
        verify_copy(3 * 512 + 100, 0);
}

static void a_round_that_fails_early_forgets_nothing(void **state)
{
        (void)state;
        struct problem p = {0};
        to_drop = block_box_put(&box, 1000, 512, JOB_COMPLETE);
        block_box_put(&box, 2000, 512, JOB_COMPLETE);
        copy_all();
        /* The first block is another one now, and is gone before it is read. */
        block_box_run(&box, "UPDATE block SET bytes = bytes - 1 WHERE number = 1");
        copy_tables();
        block_box_drop(&box, &to_drop);
        n_reads = 0;
        assert_int_equal(blocks_copy_run(copy, from, to, &p), ERR_CONFLICT);
        assert_int_equal(n_reads, 1);
        copy_all();
        assert_int_equal(n_reads, 1);
        verify_copy(512, 0);
}

/* After a restart of the server a number or a place may be used again. */
static void another_block_of_the_same_number_is_copied(void **state)
{
        (void)state;
        struct block_mark m = block_box_put(&box, 1000, 512, JOB_COMPLETE);
        copy_all();
        block_box_drop(&box, &m);
        m = block_box_put(&box, 2000, 512, JOB_COMPLETE);
        assert_int_equal(m.number, 1);
        copy_all();
        verify_copy(512, 0);
}

/* ---- damage ---- */

static void a_damaged_block_is_copied_as_it_is(void **state)
{
        (void)state;
        struct block_mark m = block_box_put(&box, 1000, 512, JOB_COMPLETE);
        block_box_put(&box, 2000, 10, JOB_COMPLETE);
        block_box_flip(&box, &m, 100);
        copy_all();
        verify_copy(522, 512);
        block_box_run(&box, "UPDATE block SET mark = x'00' WHERE number = 1");
        copy_all();
        verify_copy(11, 1);
}

static void a_missing_file_ends_it(void **state)
{
        (void)state;
        struct problem p = {0};
        char path[SEGMENT_PATH_BYTES];
        struct block_mark m = block_box_put(&box, 1000, 512, JOB_COMPLETE);
        assert_int_equal(unlink(segment_io_path(box.path, m.segment, path)), 0);
        assert_int_equal(try_copy(&p), ERR_CORRUPT);
        has(p.detail, "block 1");
        has(p.detail, "is missing");
}

static void a_target_that_cannot_be_written_to_is_told(void **state)
{
        (void)state;
        struct problem p = {0};
        char path[SEGMENT_PATH_BYTES];
        block_box_put(&box, 1000, 512, JOB_COMPLETE);
        assert_int_equal(mkdir(segment_io_path(to_path, 1, path), 0700), 0);
        assert_int_equal(try_copy(&p), ERR_IO);
        has(p.detail, path);
}

/* ---- taking back ---- */

struct wanted {
        uint64_t first, last; /* these go */
        uint64_t run;         /* if they are of this run or a later one */
        int n_asked;
};

static bool is_asked(void *ctx, uint64_t first, uint64_t last)
{
        const struct wanted *w = ctx;
        return first <= w->last && last >= w->first;
}

static bool is_to_go(void *ctx, uint64_t id, uint64_t run)
{
        struct wanted *w = ctx;
        w->n_asked++;
        return id >= w->first && id <= w->last && run >= w->run;
}

static void take_back(uint64_t first, uint64_t last, uint64_t run, int n_asked)
{
        struct wanted w = {first, last, run, 0};
        struct blocks_judge judge = {is_asked, is_to_go, &w};
        struct problem p = {0};
        if (blocks_take_back(to, to_path, &judge, &p) != OK)
                fail_msg("%s", p.detail);
        assert_int_equal(w.n_asked, n_asked);
}

static int64_t ask(const char *sql)
{
        return block_box_ask(to, sql);
}

static void jobs_are_taken_back_one_by_one_and_blocks_when_they_are_empty(void **state)
{
        (void)state;
        block_box_put(&box, 1001, 20, JOB_COMPLETE);
        block_box_put(&box, 2001, 20, JOB_FAILED);
        block_box_put(&box, 3001, 20, JOB_COMPLETE);
        copy_all();
        take_back(1010, 1010, 1, 20); /* of a later run than that in the block */
        assert_int_equal(count(), 60);
        assert_int_equal(ask("SELECT count(*) FROM block WHERE dead IS NULL"), 3);
        take_back(1010, 1010, 0, 20);
        assert_int_equal(count(), 59);
        assert_int_equal(
                ask("SELECT hex(substr(dead, 1, 64)) = '0002' || hex(zeroblob(62)) FROM block "
                    "WHERE number = 1"),
                1);
        /* From some id on, over two blocks; the deleted one is not asked for again. */
        take_back(1005, 2003, 0, 19 + 20);
        assert_int_equal(count(), 59 - 15 - 3);
        verify_copy(59 - 15 - 3, 0);
        take_back(2000, UINT64_MAX, 0, 17 + 20);
        assert_int_equal(count(), 4);
        assert_int_equal(ask("SELECT count(*) FROM block"), 1);
        verify_copy(4, 0);
}

static void a_damaged_block_keeps_its_jobs(void **state)
{
        (void)state;
        struct block_mark m = block_box_put(&box, 1001, 20, JOB_COMPLETE);
        block_box_put(&box, 2001, 20, JOB_COMPLETE);
        block_box_flip(&box, &m, 60);
        copy_all();
        take_back(0, UINT64_MAX, 0, 20);
        assert_int_equal(count(), 20);
        assert_int_equal(ask("SELECT number FROM block"), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(a_copy_has_the_same_blocks_in_the_same_places),
                TEST(a_history_without_blocks_is_copied_too),
                TEST(when_the_server_drops_a_block_only_the_rest_is_copied_again),
                TEST(a_round_that_fails_early_forgets_nothing),
                TEST(another_block_of_the_same_number_is_copied),
                TEST(a_damaged_block_is_copied_as_it_is),
                TEST(a_missing_file_ends_it),
                TEST(a_target_that_cannot_be_written_to_is_told),
                TEST(jobs_are_taken_back_one_by_one_and_blocks_when_they_are_empty),
                TEST(a_damaged_block_keeps_its_jobs),
        };
        return cmocka_run_group_tests_name("blocks_copy", tests, NULL, NULL);
}
