/* The real disk, as far as a folder of a working file system shows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "log/disk.h"
#include "support/temp_dir.h"

static char dir[TEMP_DIR_SIZE];

static int setup(void **state)
{
        struct problem p;
        struct disk *d;
        temp_dir_make(dir);
        if (disk_open_folder(dir, &d, &p) != OK)
                return -1;
        *state = d;
        return 0;
}

static int teardown(void **state)
{
        struct disk *d = *state;
        d->ops->release(d);
        temp_dir_remove(dir);
        return 0;
}

static int count_name(void *ctx, const char *name)
{
        (void)name;
        ++*(int *)ctx;
        return OK;
}

static int n_files(struct disk *d)
{
        int n = 0;
        struct problem p;
        assert_int_equal(d->ops->list(d, count_name, &n, &p), OK);
        return n;
}

static void a_created_file_is_full_of_zeros_and_has_its_space(void **state)
{
        struct disk *d = *state;
        struct problem p;
        int fd;
        assert_int_equal(d->ops->create(d, "f", 3 * MIB + DISK_BLOCK, &fd, &p), OK);
        uint64_t size;
        assert_int_equal(d->ops->size(d, fd, &size, &p), OK);
        assert_int_equal(size, 3 * MIB + DISK_BLOCK);
        struct stat st;
        assert_int_equal(fstat(fd, &st), 0);
        assert_true((uint64_t)st.st_blocks * 512 >= size);
        assert_int_equal(st.st_mode & 0777, 0600);
        char *buf = aligned_alloc(DISK_BLOCK, DISK_BLOCK), *zeros = calloc(1, DISK_BLOCK);
        assert_int_equal(d->ops->read(d, fd, 3 * MIB, buf, DISK_BLOCK, &p), OK);
        assert_memory_equal(buf, zeros, DISK_BLOCK);
        free(buf);
        free(zeros);
        d->ops->close(d, fd);
}

static void what_is_written_is_read_back_at_any_alignment(void **state)
{
        struct disk *d = *state;
        struct problem p;
        int fd;
        assert_int_equal(d->ops->create(d, "f", 4 * (uint64_t)DISK_BLOCK, &fd, &p), OK);
        char *buf = aligned_alloc(DISK_BLOCK, 2 * (size_t)DISK_BLOCK);
        for (int i = 0; i < 2 * DISK_BLOCK; i++)
                buf[i] = (char)(i * 7);
        assert_int_equal(d->ops->write(d, fd, DISK_BLOCK, buf, 2 * (size_t)DISK_BLOCK, &p), OK);
        assert_int_equal(d->ops->sync(d, fd, &p), OK);
        d->ops->close(d, fd);
        assert_int_equal(d->ops->open(d, "f", &fd, &p), OK);
        char odd[1001];
        assert_int_equal(d->ops->read(d, fd, DISK_BLOCK + 4000, odd, sizeof(odd), &p), OK);
        assert_memory_equal(odd, buf + 4000, sizeof(odd));
        assert_int_equal(d->ops->read(d, fd, 4 * (uint64_t)DISK_BLOCK, odd, 1, &p), ERR_IO);
        d->ops->close(d, fd);
        free(buf);
}

static void a_file_is_created_once_and_renamed_onto_nothing(void **state)
{
        struct disk *d = *state;
        struct problem p;
        int fd;
        assert_int_equal(d->ops->create(d, "a", DISK_BLOCK, &fd, &p), OK);
        d->ops->close(d, fd);
        assert_int_equal(d->ops->create(d, "a", DISK_BLOCK, &fd, &p), ERR_IO);
        assert_int_equal(d->ops->create(d, "b", DISK_BLOCK, &fd, &p), OK);
        d->ops->close(d, fd);
        assert_int_equal(d->ops->rename(d, "a", "b", &p), ERR_IO);
        assert_int_equal(d->ops->rename(d, "a", "c", &p), OK);
        assert_int_equal(d->ops->sync_names(d, &p), OK);
        assert_int_equal(d->ops->open(d, "a", &fd, &p), ERR_NOTFOUND);
        assert_int_equal(n_files(d), 2);
        assert_int_equal(d->ops->remove(d, "c", &p), OK);
        assert_int_equal(d->ops->remove(d, "c", &p), ERR_NOTFOUND);
        assert_int_equal(n_files(d), 1);
}

static void a_create_that_finds_no_space_leaves_nothing(void **state)
{
        struct disk *d = *state;
        struct problem p;
        int fd;
        assert_int_equal(d->ops->create(d, "huge", 1ULL << 50, &fd, &p), ERR_NOSPACE);
        assert_non_null(strstr(p.detail, dir));
        assert_int_equal(n_files(d), 0);
}

static void the_lock_keeps_a_second_one_out_and_names_the_holder(void **state)
{
        struct disk *d = *state, *other;
        struct problem p;
        assert_int_equal(d->ops->lock(d, &p), OK);
        assert_int_equal(d->ops->lock(d, &p), OK); /* ours already */
        assert_int_equal(disk_open_folder(dir, &other, &p), OK);
        assert_int_equal(other->ops->lock(other, &p), ERR_LOCKED);
        char pid[32];
        snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
        assert_non_null(strstr(p.detail, pid));
        assert_non_null(strstr(p.detail, dir));
        other->ops->release(other);
        /* Closing the other did not lose ours, as a POSIX lock would. */
        assert_int_equal(disk_open_folder(dir, &other, &p), OK);
        assert_int_equal(other->ops->lock(other, &p), ERR_LOCKED);
        other->ops->release(other);
}

static void folders_are_made_when_missing_but_not_for_those_who_only_look(void **state)
{
        (void)state;
        char deep[TEMP_DIR_SIZE + 32];
        snprintf(deep, sizeof(deep), "%s/one/two/", dir);
        struct disk *d;
        struct problem p;
        assert_int_equal(disk_open_existing(deep, &d, &p), ERR_NOTFOUND);
        assert_int_equal(disk_open_folder(deep, &d, &p), OK);
        struct stat st;
        assert_int_equal(stat(deep, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
        d->ops->release(d);
        assert_int_equal(disk_open_existing(deep, &d, &p), OK);
        d->ops->release(d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(a_created_file_is_full_of_zeros_and_has_its_space),
                TEST(what_is_written_is_read_back_at_any_alignment),
                TEST(a_file_is_created_once_and_renamed_onto_nothing),
                TEST(a_create_that_finds_no_space_leaves_nothing),
                TEST(the_lock_keeps_a_second_one_out_and_names_the_holder),
                TEST(folders_are_made_when_missing_but_not_for_those_who_only_look),
        };
        return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}
