/* Segment files that are missing, moved, damaged or of another history, and a system that refuses.
 */
#include "check.h"

#include "segment_box.h"

/* ---- files that are not as they should be ---- */

static void files_of_another_history_are_left_alone(void **state)
{
        (void)state;
        struct segments *other = start_as(other_id, NULL, 0);
        struct segment_place theirs[] = {put(other, 1, 40000), put(other, 2, 40000)};
        commit(other);
        other = segments_free(other);
        struct segments *s = start(NULL, 0);
        struct segment_place ours = put(s, 3, 40000);
        commit(s);
        assert_int_equal(ours.segment, 3);
        s = segments_free(s);
        other = start_as(other_id, theirs, 2);
        assert_there(other, &theirs[0], 1);
        assert_there(other, &theirs[1], 2);
        struct segment_place fourth = put(other, 4, 60000);
        assert_int_equal(fourth.segment, 4);
        other = segments_free(other);
        s = start(&ours, 1);
        assert_there(s, &ours, 3);
        assert_int_equal(n_files(), 4);
        s = segments_free(s);
}

/* A file that appears while weir runs. */
static void a_name_that_is_taken_is_passed_over(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        put(s, 1, 40000);
        int fd = open(file(2), O_CREAT | O_WRONLY, 0600);
        assert_int_equal(write(fd, "mine", 4), 4);
        close(fd);
        struct segment_place place = put(s, 2, 40000);
        assert_int_equal(place.segment, 3);
        commit(s);
        assert_there(s, &place, 2);
        assert_int_equal(size_of(2), 4);
        s = segments_free(s);
}

static void settle_says(const struct segment_place *place, const char *what)
{
        struct problem p = {0};
        struct segments *s = segments_new(path, our_id, false);
        segments_know(s, place);
        assert_int_equal(segments_settle(s, &p), ERR_CORRUPT);
        has(p.detail, what);
        has(p.detail, file(place->segment));
        has(p.detail, "history.db*");
        s = segments_free(s);
}

static void a_file_that_cannot_be_used_is_named(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 40000), b = put(s, 2, 40000);
        commit(s);
        s = segments_free(s);
        char first[SEGMENT_PATH_BYTES];
        snprintf(first, sizeof(first), "%s", file(1));
        settle_says(&(struct segment_place){9, 10, 4096}, "is missing");
        settle_says(&(struct segment_place){1, 10, 90000}, "is too short");
        settle_says(&(struct segment_place){1, 10, 8}, "is too short");
        settle_says(&(struct segment_place){1, 10, UINT64_MAX - 4}, "is too short");
        assert_int_equal(rename(first, file(7)), 0);
        settle_says(&(struct segment_place){7, 10, 4096}, "was renamed");
        settle_says(&a, "is missing");
        int fd = open(file(2), O_WRONLY);
        assert_int_equal(pwrite(fd, "x", 1, 9), 1);
        close(fd);
        settle_says(&b, "is damaged at its beginning");
        assert_int_equal(truncate(file(2), 20), 0);
        settle_says(&b, "is damaged at its beginning");
        struct segments *other = start_as(other_id, NULL, 0);
        struct segment_place theirs = put(other, 1, 10);
        other = segments_free(other);
        settle_says(&theirs, "belongs to another history");
        assert_true(has_file(7) && has_file(2) && has_file(theirs.segment));
}

static void reading_what_is_not_there_is_told(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 100);
        struct problem p = {0};
        struct buf got = {0};
        commit(s);
        struct segment_place wrong[] = {{2, 10, 4096},
                                        {1, 10, SMALL},
                                        {1, 10, 0},
                                        {1, UINT32_MAX, 4096},
                                        {1, 1, UINT64_MAX}};
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                assert_int_equal(segments_read(s, &wrong[i], &got, &p), ERR_CORRUPT);
        assert_int_equal(segments_read(s, &a, &got, &p), OK);
        buf_release(&got);
        buf_init(&got, 10);
        assert_int_equal(segments_read(s, &a, &got, &p), ERR_NOMEM);
        buf_release(&got);
        s = segments_free(s);
}

static void a_file_that_is_moved_or_replaced_is_noticed(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct problem p = {0};
        char away[SEGMENT_PATH_BYTES];
        put(s, 1, 40000);
        put(s, 2, 40000);
        put(s, 3, 40000);
        commit(s);
        assert_int_equal(segments_check_place(s, &p), OK);
        for (uint32_t i = 1; i <= 3; i++) {
                snprintf(away, sizeof(away), "%s/away", dir);
                assert_int_equal(rename(file(i), away), 0);
                assert_int_equal(segments_check_place(s, &p), ERR_IO);
                has(p.detail, file(i));
                int fd = open(file(i), O_CREAT | O_WRONLY, 0600);
                assert_int_equal(segments_check_place(s, &p), ERR_IO);
                close(fd);
                assert_int_equal(rename(away, file(i)), 0);
                assert_int_equal(segments_check_place(s, &p), OK);
        }
        s = segments_free(s);
}

static void a_copy_in_the_place_of_a_file_is_noticed_also_when_it_was_read(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 40000);
        struct problem p = {0};
        char bytes[SMALL];
        put(s, 2, 40000);
        commit(s);
        int fd = open(file(1), O_RDONLY);
        ssize_t n = read(fd, bytes, sizeof(bytes));
        close_file(s, s->at[0]); /* as when others were used since */
        assert_int_equal(unlink(file(1)), 0);
        int copy = open(file(1), O_CREAT | O_WRONLY, 0600);
        assert_int_equal(write(copy, bytes, (size_t)n), n);
        close(copy);
        close(fd); /* not before: its inode must not be used again */
        assert_there(s, &a, 1);
        assert_int_equal(segments_check_place(s, &p), ERR_IO);
        s = segments_free(s);
}

static void a_file_in_the_place_of_ours_is_not_removed(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 40000);
        put(s, 2, 40000);
        commit(s);
        assert_int_equal(unlink(file(1)), 0);
        close(open(file(1), O_CREAT | O_WRONLY, 0600));
        segments_drop(s, &a);
        assert_true(has_file(1));
        s = segments_free(s);
}

static void a_reader_only_looks(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 40000), b = put(s, 2, 40000);
        struct problem p = {0};
        struct buf got = {0};
        commit(s);
        struct segments *reader = segments_new(path, our_id, true);
        struct segment_place missing = {9, 10, 4096};
        segments_know(reader, &a);
        segments_know(reader, &missing);
        assert_int_equal(segments_settle(reader, &p), OK);
        assert_there(reader, &a, 1);
        assert_there(reader, &b, 2); /* made since, as far as it knows */
        assert_int_equal(segments_read(reader, &missing, &got, &p), ERR_CORRUPT);
        has(p.detail, "is missing");
        assert_int_equal(n_files(), 2);
        /* What it has open stays readable when the writer removes it. */
        segments_drop(s, &a);
        assert_false(has_file(1));
        assert_there(reader, &a, 1);
        reader = segments_free(reader);
        reader = segments_new(path, other_id, true);
        assert_int_equal(segments_read(reader, &b, &got, &p), ERR_CORRUPT);
        has(p.detail, "another history");
        reader = segments_free(reader);
        buf_release(&got);
        s = segments_free(s);
}

static void an_undo_removes_nothing_that_was_there_before(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place places[3];
        struct problem p = {0};
        for (unsigned i = 0; i < 3; i++)
                places[i] = put(s, i, 40000);
        commit(s);
        s = segments_free(s);
        struct segments *reader = segments_new(path, our_id, true);
        segments_know(reader, &places[0]);
        for (unsigned i = 0; i < 3; i++)
                assert_there(reader, &places[i], i);
        segments_undo(reader);
        reader = segments_free(reader);
        assert_int_equal(n_files(), 3);
        /* A start that failed half-way. */
        assert_int_equal(truncate(file(3), 10), 0);
        s = segments_new(path, our_id, false);
        for (unsigned i = 0; i < 3; i++)
                segments_know(s, &places[i]);
        assert_int_equal(segments_settle(s, &p), ERR_CORRUPT);
        segments_undo(s);
        s = segments_free(s);
        assert_int_equal(n_files(), 3);
}

/* ---- a system that refuses ---- */

static void without_reservation_a_file_grows_as_it_is_written(void **state)
{
        (void)state;
        allocate_error = EOPNOTSUPP;
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 5000), b = put(s, 2, 5000);
        commit(s);
        assert_int_equal(b.segment, 1);
        assert_int_equal(size_of(1), b.offset + 5000);
        assert_int_equal(segments_room(s), 0);
        assert_int_equal(segments_bytes(s), disk_bytes_of(1));
        segments_drop(s, &a); /* no hole, no harm */
        assert_there(s, &b, 2);
        s = segments_free(s);
        s = start(&b, 1);
        assert_int_equal(put(s, 3, 100).segment, 1);
        s = segments_free(s);
}

static void on_a_nearly_full_disk_a_file_gets_what_its_block_needs(void **state)
{
        (void)state;
        allocate_max = 16384;
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 6001);
        commit(s);
        assert_int_equal(size_of(1), SEGMENT_HEADER_BYTES + 6008);
        assert_int_equal(segments_room(s), 0);
        struct segment_place b = put(s, 2, 16000);
        assert_int_equal(b.segment, 1); /* the file grows */
        commit(s);
        struct segment_place none;
        struct problem p = {0};
        assert_int_equal(try_put(s, 3, 17000, &none, &p), ERR_NOSPACE);
        has(p.detail, file(1));
        put(s, 3, 12000);
        segments_undo(s);
        assert_int_equal(segments_room(s), 12000);
        assert_int_equal(try_put(s, 3, 17000, &none, &p), ERR_NOSPACE);
        assert_int_equal(segments_room(s), 0); /* the try took it */
        /* A file that is not to be had is not there. */
        assert_int_equal(try_put(s, 3, 50000, &none, &p), ERR_NOSPACE);
        assert_int_equal(n_files(), 1);
        segments_undo(s);
        assert_there(s, &a, 1);
        assert_there(s, &b, 2);
        allocate_max = 0;
        struct segment_place c = put(s, 3, 17000);
        commit(s);
        assert_int_equal(c.segment, 1);
        assert_int_equal(size_of(1), SMALL);
        assert_there(s, &c, 3);
        s = segments_free(s);
}

static void a_file_takes_only_a_share_of_the_space_that_is_left(void **state)
{
        (void)state;
        free_max = 256 * KIB; /* a segment is a quarter of it */
        struct segments *s = start(NULL, 0);
        struct segment_place a = put(s, 1, 6001);
        commit(s);
        assert_int_equal(size_of(1), 32 * KIB);
        assert_int_equal(segments_room(s), 32 * KIB - SEGMENT_HEADER_BYTES - 6008);
        struct segment_place b = put(s, 2, 40000); /* more than the share, and it is there */
        commit(s);
        assert_int_equal(b.segment, 1);
        assert_int_equal(size_of(1), b.offset + 40000);
        free_max = 8 * MIB;
        struct segment_place c = put(s, 3, 100);
        commit(s);
        assert_int_equal(c.segment, 1);
        assert_int_equal(size_of(1), SMALL); /* never more than a whole segment */
        assert_there(s, &a, 1);
        assert_there(s, &b, 2);
        assert_there(s, &c, 3);
        s = segments_free(s);
}

static void a_disk_with_no_space_at_all_says_so(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place place;
        struct problem p = {0};
        free_max = 4096; /* less than a block needs; only trying tells */
        place = put(s, 1, 100);
        assert_int_equal(size_of(1), SEGMENT_HEADER_BYTES + 104);
        segments_undo(s);
        write_error = ENOSPC;
        assert_int_equal(try_put(s, 2, 100, &place, &p), ERR_NOSPACE);
        write_error = EIO;
        assert_int_equal(try_put(s, 2, 100, &place, &p), ERR_IO);
        has(p.detail, "Input/output error");
        has(p.detail, file(1));
        segments_undo(s);
        write_error = 0;
        place = put(s, 3, 100);
        assert_int_equal(place.offset, SEGMENT_HEADER_BYTES);
        commit(s);
        assert_there(s, &place, 3);
        s = segments_free(s);
}

static void a_folder_that_takes_no_file_is_told(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct segment_place place;
        struct problem p = {0};
        char moved[TEMP_DIR_SIZE + 8];
        snprintf(moved, sizeof(moved), "%s-moved", dir);
        assert_int_equal(rename(dir, moved), 0);
        assert_int_equal(try_put(s, 1, 100, &place, &p), ERR_IO);
        has(p.detail, "No such file");
        assert_int_equal(segments_settle(s, &p), ERR_IO);
        assert_int_equal(rename(moved, dir), 0);
        put(s, 1, 100);
        s = segments_free(s);
}

static void writes_are_finished_whatever_interrupts_them(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        write_max = 1000;
        n_interrupts = 5;
        struct segment_place a = put(s, 1, 20000);
        n_interrupts = 3;
        struct segment_place b = put(s, 2, 20000);
        commit(s);
        assert_int_equal(n_interrupts, 0);
        assert_there(s, &a, 1);
        assert_there(s, &b, 2);
        assert_int_equal(size_of(1), SMALL);
        s = segments_free(s);
}

static void after_a_failed_sync_nothing_counts_until_it_is_undone(void **state)
{
        (void)state;
        struct segments *s = start(NULL, 0);
        struct problem p = {0};
        struct segment_place a = put(s, 1, 100);
        sync_error = EIO;
        assert_int_equal(segments_sync(s, &p), ERR_IO);
        sync_error = 0;
        assert_int_equal(segments_sync(s, &p), ERR_IO);
        segments_undo(s);
        assert_int_equal(segments_sync(s, &p), OK); /* there is nothing to sync */
        int before = n_syncs;
        struct segment_place b = put(s, 2, 100);
        assert_int_equal(b.offset, a.offset);
        commit(s);
        assert_int_equal(n_syncs, before + 1);
        s = segments_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(files_of_another_history_are_left_alone),
                TEST(a_name_that_is_taken_is_passed_over),
                TEST(a_file_that_cannot_be_used_is_named),
                TEST(reading_what_is_not_there_is_told),
                TEST(a_file_that_is_moved_or_replaced_is_noticed),
                TEST(a_copy_in_the_place_of_a_file_is_noticed_also_when_it_was_read),
                TEST(a_file_in_the_place_of_ours_is_not_removed),
                TEST(a_reader_only_looks),
                TEST(an_undo_removes_nothing_that_was_there_before),
                TEST(without_reservation_a_file_grows_as_it_is_written),
                TEST(on_a_nearly_full_disk_a_file_gets_what_its_block_needs),
                TEST(a_file_takes_only_a_share_of_the_space_that_is_left),
                TEST(a_disk_with_no_space_at_all_says_so),
                TEST(a_folder_that_takes_no_file_is_told),
                TEST(writes_are_finished_whatever_interrupts_them),
                TEST(after_a_failed_sync_nothing_counts_until_it_is_undone),
        };
        return cmocka_run_group_tests_name("segment_trouble", tests, NULL, NULL);
}
