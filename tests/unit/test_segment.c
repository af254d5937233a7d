/* Segment files: what is appended is read back, undone, dropped, and settled after a crash. */
#include "check.h"

#include "segment_box.h"

/* ---- ordinary days ---- */

static void what_is_appended_is_read_back_also_after_a_restart(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        assert_int_equal(n_files(), 0);
        assert_int_equal(segments_bytes(s), 0);
        struct segment_place places[] = {put(s, 1, 100), put(s, 2, 1), put(s, 3, 9000)};
        commit(s);
        for (unsigned round = 0; round < 2; round++) {
                for (unsigned i = 0; i < 3; i++) {
                        assert_int_equal(places[i].segment, 1);
                        assert_int_equal(places[i].offset % 8, 0);
                        assert_there(s, &places[i], i + 1);
                }
                s = segments_free(s);
                s = start(places, 3);
        }
        assert_int_equal(places[0].offset, SEGMENT_HEADER_BYTES);
        /* The next one comes behind them. */
        struct segment_place next = put(s, 4, 10);
        assert_true(next.offset >= places[2].offset + 9000);
        assert_int_equal(next.segment, 1);
        assert_there(s, &places[2], 3);
        s = segments_free(s);
}

static void a_file_has_its_space_from_the_start_and_is_private(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct stat st;
        put(s, 1, 1000);
        commit(s);
        assert_int_equal(stat(file(1), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(st.st_size, SMALL);
        assert_true((uint64_t)st.st_blocks * 512 >= SMALL);
        assert_int_equal(segments_bytes(s), disk_bytes_of(1));
        assert_int_equal(segments_room(s), SMALL - SEGMENT_HEADER_BYTES - 1000);
        assert_int_equal(n_files(), 1);
        s = segments_free(s);
}

static void a_full_file_is_followed_by_another_and_loses_what_it_did_not_use(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place places[5];
        for (unsigned i = 0; i < 5; i++) {
                places[i] = put(s, i, 25000);
                assert_int_equal(places[i].segment, 1 + i / 2);
        }
        assert_int_equal(size_of(1), SMALL); /* until it is kept */
        commit(s);
        assert_int_equal(size_of(1), SEGMENT_HEADER_BYTES + 50000);
        assert_int_equal(size_of(3), SMALL);
        assert_int_equal(segments_bytes(s), disk_bytes_of(1) + disk_bytes_of(2) + disk_bytes_of(3));
        s = segments_free(s);
        s = start(places, 5);
        for (unsigned i = 0; i < 5; i++)
                assert_there(s, &places[i], i);
        assert_int_equal(segments_room(s), SMALL - SEGMENT_HEADER_BYTES - 25000);
        assert_int_equal(segments_bytes(s), disk_bytes_of(1) + disk_bytes_of(2) + disk_bytes_of(3));
        s = segments_free(s);
}

static void a_block_larger_than_a_segment_gets_a_file_of_its_own(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place places[] = {put(s, 1, 100), put(s, 2, 3 * SMALL), put(s, 3, 100)};
        commit(s);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(places[i].segment, i + 1);
                assert_there(s, &places[i], i + 1);
        }
        assert_int_equal(size_of(2), SEGMENT_HEADER_BYTES + 3 * SMALL);
        s = segments_free(s);
        s = start(places, 3);
        assert_there(s, &places[1], 2);
        s = segments_free(s);
}

static void only_files_that_were_written_to_are_synced(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        put(s, 1, 40000);
        put(s, 2, 40000);
        commit(s);
        assert_int_equal(n_syncs, 2);
        commit(s);
        assert_int_equal(n_syncs, 2);
        put(s, 3, 100);
        commit(s);
        assert_int_equal(n_syncs, 3);
        s = segments_free(s);
}

static void there_may_be_more_files_than_are_kept_open(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        enum { MANY = OPEN_MAX * 3 };
        struct segment_place places[MANY];
        segments_set_limit(s, 8192);
        for (unsigned i = 0; i < MANY; i++) {
                places[i] = put(s, i, 4000);
                commit(s);
                assert_int_equal(places[i].segment, i + 1);
        }
        for (unsigned i = 0; i < MANY; i++)
                assert_there(s, &places[i * 29 % MANY], i * 29 % MANY);
        assert_int_equal(s->n_open, OPEN_MAX);
        /* Those of one transaction stay open until they are on the disk. */
        for (unsigned i = 0; i < MANY; i++)
                put(s, i, 4000);
        assert_there(s, &places[0], 0);
        assert_true(s->n_open > MANY);
        commit(s);
        segments_undo(s);
        s = segments_free(s);
}

/* ---- transactions ---- */

static void an_undone_append_is_written_over(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place kept = put(s, 1, 500);
        commit(s);
        struct segment_place gone = put(s, 2, 700);
        segments_undo(s);
        struct segment_place again = put(s, 3, 100);
        assert_int_equal(again.offset, gone.offset);
        commit(s);
        assert_there(s, &kept, 1);
        assert_there(s, &again, 3);
        assert_int_equal(segments_room(s), SMALL - again.offset - 104);
        s = segments_free(s);
}

static void an_undone_transaction_leaves_at_most_one_file_and_uses_it(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place first = put(s, 0, 100);
        commit(s);
        for (unsigned i = 0; i < 4; i++)
                put(s, i, 40000);
        assert_int_equal(n_files(), 4);
        segments_undo(s);
        assert_int_equal(n_files(), 2);
        struct segment_place places[] = {first, put(s, 7, 40000), put(s, 8, 40000)};
        assert_int_equal(places[1].segment, 2);
        assert_int_equal(places[1].offset, SEGMENT_HEADER_BYTES);
        commit(s);
        assert_int_equal(n_files(), 3);
        assert_int_equal(segments_bytes(s),
                         disk_bytes_of(1) + disk_bytes_of(2) + disk_bytes_of(places[2].segment));
        s = segments_free(s);
        s = start(places, 3);
        assert_there(s, &places[1], 7);
        assert_there(s, &places[2], 8);
        s = segments_free(s);
}

static void the_first_transaction_of_all_may_be_undone(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        for (unsigned i = 0; i < 3; i++)
                put(s, i, 40000);
        segments_undo(s);
        assert_int_equal(n_files(), 1);
        struct segment_place place = put(s, 1, 50);
        assert_int_equal(place.offset, SEGMENT_HEADER_BYTES);
        commit(s);
        assert_there(s, &place, 1);
        s = segments_free(s);
}

static void after_a_crash_what_no_mark_knows_is_written_over(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place known = put(s, 1, 300);
        commit(s);
        struct segment_place lost = put(s, 2, 30000);
        put(s, 3, 40000); /* in file 2 */
        s = segments_free(s);
        assert_int_equal(close(open(new_path(&(struct segments){.path = path},
                                             (char[SEGMENT_PATH_BYTES]){0}),
                                    O_CREAT | O_WRONLY, 0600)),
                         0);
        s = start(&known, 1);
        assert_int_equal(n_files(), 1);
        assert_there(s, &known, 1);
        struct segment_place next = put(s, 4, 200);
        assert_int_equal(next.segment, 1);
        assert_int_equal(next.offset, lost.offset);
        /* No number is given twice: a reader of another process may still look for that file. */
        assert_int_equal(put(s, 5, 61400).segment, 2 + 1);
        s = segments_free(s);
}

/* ---- dropping ---- */

static void a_dropped_block_gives_its_pages_back(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 10000), b = put(s, 2, 30000), c = put(s, 3, 10000);
        commit(s);
        uint64_t before = segments_bytes(s);
        segments_drop(s, &b);
        assert_there(s, &a, 1);
        assert_there(s, &c, 3);
        assert_int_equal(segments_bytes(s), disk_bytes_of(1));
        assert_true(segments_bytes(s) <= before - 20480);
        assert_int_equal(size_of(1), SMALL);
        s = segments_free(s);
}

static void a_file_without_blocks_is_removed_unless_it_is_the_last(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 40000), b = put(s, 2, 40000), c = put(s, 3, 40000);
        commit(s);
        segments_drop(s, &b);
        assert_false(has_file(2));
        segments_drop(s, &c);
        assert_true(has_file(3));
        assert_there(s, &a, 1);
        assert_int_equal(segments_bytes(s), disk_bytes_of(1) + disk_bytes_of(3));
        /* Its end does not go back: a reader of another process may still look at that place. */
        struct segment_place d = put(s, 4, 1000);
        assert_int_equal(d.segment, 3);
        assert_true(d.offset > c.offset);
        commit(s);
        segments_drop(s, &d);
        /* When it is not the last one any more, it goes, too. */
        struct segment_place e = put(s, 5, 40000);
        assert_int_equal(e.segment, 4);
        commit(s);
        assert_false(has_file(3));
        assert_there(s, &e, 5);
        s = segments_free(s);
}

/* ---- threads ---- */

struct reading {
        struct segments *s;
        const struct segment_place *places;
        size_t n;
        bool has_failed;
};

static void *read_many(void *arg)
{
        struct reading *r = arg;
        struct buf got = {0};
        struct problem p;
        for (size_t i = 0; i < 2000 && !r->has_failed; i++) {
                const struct segment_place *place = &r->places[i * 13 % r->n];
                r->has_failed = segments_read(r->s, place, &got, &p) != OK ||
                                got.len != place->bytes || (uint8_t)got.ptr[0] != place->segment;
        }
        buf_release(&got);
        return NULL;
}

static void files_are_read_by_several_threads_while_others_are_made(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        enum { MANY = OPEN_MAX * 2 };
        struct segment_place places[MANY];
        pthread_t threads[2];
        struct reading readings[2];
        char bytes[4000] = {0};
        struct problem p = {0};
        segments_set_limit(s, 8192);
        for (unsigned i = 0; i < MANY; i++) {
                bytes[0] = (char)(i + 1); /* the number of the file that it comes into */
                assert_int_equal(
                        segments_append(s, slice_make(bytes, sizeof(bytes)), &places[i], &p), OK);
        }
        commit(s);
        for (size_t i = 0; i < 2; i++) {
                readings[i] = (struct reading){s, places, MANY, false};
                assert_int_equal(pthread_create(&threads[i], NULL, read_many, &readings[i]), 0);
        }
        for (unsigned i = 0; i < 30; i++) {
                struct segment_place place = put(s, i, 4000);
                commit(s);
                segments_drop(s, &place);
        }
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                assert_false(readings[i].has_failed);
        }
        s = segments_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(what_is_appended_is_read_back_also_after_a_restart),
                TEST(a_file_has_its_space_from_the_start_and_is_private),
                TEST(a_full_file_is_followed_by_another_and_loses_what_it_did_not_use),
                TEST(a_block_larger_than_a_segment_gets_a_file_of_its_own),
                TEST(only_files_that_were_written_to_are_synced),
                TEST(there_may_be_more_files_than_are_kept_open),
                TEST(an_undone_append_is_written_over),
                TEST(an_undone_transaction_leaves_at_most_one_file_and_uses_it),
                TEST(the_first_transaction_of_all_may_be_undone),
                TEST(after_a_crash_what_no_mark_knows_is_written_over),
                TEST(a_dropped_block_gives_its_pages_back),
                TEST(a_file_without_blocks_is_removed_unless_it_is_the_last),
                TEST(files_are_read_by_several_threads_while_others_are_made),
        };
        return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
