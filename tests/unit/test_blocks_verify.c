/* Blocks that are looked at from outside: sound, damaged, and dropped by the server meanwhile. */
#include "check.h"

#include "stored_block_box.h"

/* What happens just before a block is read. */
static void (*before_read)(void *ctx);
static void *before_read_ctx;

static int hooked_read(struct segments *s, const struct segment_place *place, struct buf *ret,
                       struct problem *p)
{
        void (*fn)(void *ctx) = before_read;
        before_read = NULL;
        if (fn)
                fn(before_read_ctx);
        return segments_read(s, place, ret, p);
}

#define segments_read hooked_read
#include "../../src/history/block_table.c" /* NOLINT(bugprone-suspicious-include) */
#undef segments_read

static struct block_box box;
static char told[4096];
static struct archive_report report;

static int setup(void **state)
{
        (void)state;
        before_read = NULL;
        block_box_init(&box);
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        block_box_release(&box);
        return 0;
}

static void tell(void *ctx, const char *what)
{
        (void)ctx;
        size_t len = strlen(told);
        (void)snprintf(told + len, sizeof(told) - len, "%s\n", what);
}

static int try_verify(struct problem *p)
{
        told[0] = '\0';
        return archive_file_verify(box.path, true, tell, NULL, &report, p);
}

static void verify(uint64_t rows, uint64_t damaged)
{
        struct problem p = {0};
        if (try_verify(&p) != OK)
                fail_msg("%s", p.detail);
        if (report.rows != rows || report.damaged != damaged)
                fail_msg("%llu rows, %llu damaged: %s", (unsigned long long)report.rows,
                         (unsigned long long)report.damaged, told);
        if (!damaged)
                same(told, "");
}

static void sound_blocks_are_counted_without_what_was_deleted(void **state)
{
        (void)state;
        verify(0, 0);
        block_box_put(&box, 1000, 512, JOB_COMPLETE);
        struct block_mark m = block_box_put(&box, 1600, 20, JOB_FAILED);
        block_box_put(&box, 40000, 1, JOB_CANCELED);
        verify(533, 0);
        const uint8_t dead[MARK_DEAD_BYTES] = {7, 1};
        block_box_bury(&box, &m, dead);
        verify(529, 0);
        block_box_run(&box, "UPDATE block SET dead = x'0F' || substr(dead, 2) WHERE number = %lld",
                      (long long)m.number);
        verify(514, 1);
        same(told, "block 2: its mark is damaged\n");
}

static void a_damaged_block_is_named_with_its_jobs(void **state)
{
        (void)state;
        block_box_put(&box, 1, 100, JOB_COMPLETE);
        struct block_mark m = block_box_put(&box, 1000, 512, JOB_COMPLETE);
        block_box_put(&box, 2000, 100, JOB_COMPLETE);
        for (int64_t at = 0; at < m.bytes; at += m.bytes / 7) {
                block_box_flip(&box, &m, at);
                verify(712, 512);
                same(told, "block 2 (jobs 1000 to 1511): its checksum is wrong\n");
                block_box_flip(&box, &m, at);
        }
        verify(712, 0);
}

static void a_file_that_is_missing_or_not_ours_damages_all_its_blocks(void **state)
{
        (void)state;
        char path[SEGMENT_PATH_BYTES], away[SEGMENT_PATH_BYTES];
        struct block_mark m = block_box_put(&box, 1, 100, JOB_COMPLETE);
        block_box_put(&box, 201, 50, JOB_COMPLETE);
        block_box_flip(&box, &m, -1);
        verify(150, 150);
        has(told, "block 1 (jobs 1 to 100): the history file ");
        has(told, "block 2 (jobs 201 to 250): the history file ");
        has(told, "is damaged at its beginning");
        segment_io_path(box.path, 1, path);
        (void)snprintf(away, sizeof(away), "%s/away", box.dir);
        assert_int_equal(rename(path, away), 0);
        verify(150, 150);
        has(told, "is missing");
        assert_int_equal(rename(away, path), 0);
}

static void a_mark_that_is_wrong_is_damage(void **state)
{
        (void)state;
        struct block_mark a = block_box_put(&box, 1, 100, JOB_COMPLETE);
        struct block_mark b = block_box_put(&box, 501, 100, JOB_COMPLETE);
        block_box_run(&box,
                      "UPDATE block SET mark = (SELECT mark FROM block WHERE number = %lld)"
                      " WHERE number = %lld",
                      (long long)b.number, (long long)a.number);
        verify(200, 100);
        same(told, "block 1 (jobs 501 to 600): it is not the block that its mark tells of\n");
        block_box_run(&box, "UPDATE block SET mark = x'00' WHERE number = %lld",
                      (long long)a.number);
        verify(101, 1);
        same(told, "block 1: its mark is damaged\n");
        block_box_run(&box, "DELETE FROM block WHERE number = %lld", (long long)a.number);
        block_box_run(&box, "UPDATE block SET dead = x'01'");
        verify(1, 1);
        same(told, "block 2: its mark is damaged\n");
        block_box_run(&box, "UPDATE block SET dead = NULL, segment = 0");
        verify(1, 1);
        has(told, "block 2: ");
}

/* Ids and counts are right, but a filter would pass over the block. */
static void a_mark_that_would_hide_jobs_is_damage(void **state)
{
        (void)state;
        struct block_mark m = block_box_put(&box, 1, 100, JOB_COMPLETE);
        struct {
                const char *what;
                int64_t created_first, created_last, finished_first, finished_last;
                uint8_t family, names;
        } cases[] = {
                {"sound", m.created_first, m.created_last, m.finished_first, m.finished_last,
                 FAMILY_DONE, 0xff},
                {"wider", 0, INT64_MAX, 0, INT64_MAX, FAMILY_DONE, 0xff},
                {"created later", m.created_first + 1, m.created_last + 1, m.finished_first,
                 m.finished_last, FAMILY_DONE, 0xff},
                {"created earlier", 0, m.created_last - 1, m.finished_first, m.finished_last,
                 FAMILY_DONE, 0xff},
                {"finished later", m.created_first, m.created_last, m.finished_first + 1, INT64_MAX,
                 FAMILY_DONE, 0xff},
                {"finished earlier", m.created_first, m.created_last, 0, m.finished_last - 1,
                 FAMILY_DONE, 0xff},
                {"the other family", m.created_first, m.created_last, m.finished_first,
                 m.finished_last, FAMILY_FAILED, 0xff},
                {"no names", m.created_first, m.created_last, m.finished_first, m.finished_last,
                 FAMILY_DONE, 0},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct buf packed = {0};
                struct block_mark changed = m;
                changed.filter = xmalloc(m.n_bits / 8);
                memset(changed.filter, cases[i].names, m.n_bits / 8);
                changed.created_first = cases[i].created_first;
                changed.created_last = cases[i].created_last;
                changed.finished_first = cases[i].finished_first;
                changed.finished_last = cases[i].finished_last;
                changed.family = cases[i].family;
                block_mark_pack(&changed, &packed);
                sqlite3_stmt *s = NULL;
                assert_int_equal(
                        sqlite3_prepare_v2(box.db, "UPDATE block SET mark = ?1", -1, &s, NULL),
                        SQLITE_OK);
                assert_int_equal(
                        sqlite3_bind_blob(s, 1, packed.ptr, (int)packed.len, SQLITE_STATIC),
                        SQLITE_OK);
                assert_int_equal(sqlite3_step(s), SQLITE_DONE);
                assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
                print_message("# %s\n", cases[i].what);
                verify(100, i < 2 ? 0 : 100);
                if (i >= 2)
                        same(told, "block 1 (jobs 1 to 100): its mark does not cover its jobs\n");
                block_mark_release(&changed);
                buf_release(&packed);
        }
}

static void drop_it(void *ctx)
{
        block_box_drop(&box, ctx);
}

static void a_block_that_the_server_drops_meanwhile_is_no_damage(void **state)
{
        (void)state;
        struct block_mark m = block_box_put(&box, 1, 512, JOB_COMPLETE);
        block_box_put(&box, 1001, 10, JOB_COMPLETE);
        before_read = drop_it;
        before_read_ctx = &m;
        verify(10, 0);
        assert_null(before_read);
        /* But one that is still in the table is. */
        m = block_box_put(&box, 2001, 512, JOB_COMPLETE);
        struct segment_place place = {m.segment, m.bytes, m.offset};
        segments_drop(box.segments, &place);
        verify(522, 512);
}

static void a_store_without_an_id_is_damaged_as_a_whole(void **state)
{
        (void)state;
        struct problem p = {0};
        block_box_put(&box, 1, 5, JOB_COMPLETE);
        block_box_run(&box, "UPDATE store SET id = x'0102'");
        assert_int_equal(try_verify(&p), ERR_CORRUPT);
        has(p.detail, "store");
        block_box_run(&box, "DELETE FROM store");
        assert_int_equal(try_verify(&p), ERR_CORRUPT);
        has(p.detail, "store");
}

static void a_file_of_an_older_version_has_no_blocks(void **state)
{
        (void)state;
        uint64_t fence = 0;
        struct problem p = {0};
        block_box_run(&box, "DROP TABLE block; DROP TABLE store; PRAGMA user_version = 5");
        verify(0, 0);
        assert_int_equal(archive_file_last_fence(box.path, &fence, &p), OK);
        assert_int_equal(fence, 0);
}

static void the_largest_fence_may_be_in_a_row_or_in_a_block(void **state)
{
        (void)state;
        uint64_t fence = 1;
        struct problem p = {0};
        assert_int_equal(archive_file_last_fence(box.path, &fence, &p), OK);
        assert_int_equal(fence, 0);
        block_box_put(&box, 9001, 40, JOB_COMPLETE);
        struct block_mark m = block_box_put(&box, 1, 40, JOB_COMPLETE);
        assert_int_equal(archive_file_last_fence(box.path, &fence, &p), OK);
        assert_int_equal(fence, 9040 + 7);
        block_box_run(&box, "INSERT INTO job(id, fence, checksum) VALUES(5, 100000, 0)");
        assert_int_equal(archive_file_last_fence(box.path, &fence, &p), OK);
        assert_int_equal(fence, 100000);
        /* A damaged block is told, and the others count. */
        block_box_run(&box, "DELETE FROM job");
        block_box_flip(&box, &m, 50);
        assert_int_equal(archive_file_last_fence(box.path, &fence, &p), ERR_CORRUPT);
        assert_int_equal(fence, 9040 + 7);
        has(p.detail, "block 2");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(sound_blocks_are_counted_without_what_was_deleted),
                TEST(a_damaged_block_is_named_with_its_jobs),
                TEST(a_file_that_is_missing_or_not_ours_damages_all_its_blocks),
                TEST(a_mark_that_is_wrong_is_damage),
                TEST(a_mark_that_would_hide_jobs_is_damage),
                TEST(a_block_that_the_server_drops_meanwhile_is_no_damage),
                TEST(a_store_without_an_id_is_damaged_as_a_whole),
                TEST(a_file_of_an_older_version_has_no_blocks),
                TEST(the_largest_fence_may_be_in_a_row_or_in_a_block),
        };
        return cmocka_run_group_tests_name("blocks_verify", tests, NULL, NULL);
}
