/* Segment files in a folder of their own, and a system beneath them that refuses when it is told
 * to. It is the module itself that is included here, with some of its calls replaced. */
#ifndef WEIR_TESTS_UNIT_SEGMENT_BOX_H
#define WEIR_TESTS_UNIT_SEGMENT_BOX_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "support/temp_dir.h"

/* What the system says instead of doing it, when that is not 0. */
static int allocate_error, write_error, sync_error;
static off_t allocate_max; /* more than this is refused with ENOSPC; 0: no bound */
static uint64_t free_max;  /* the disk says that it has no more than this; 0: no bound */
static size_t write_max;   /* no call writes more; 0: no bound */
static int n_syncs, n_interrupts;

static inline int faulty_fallocate(int fd, int mode, off_t from, off_t len)
{
        if (n_interrupts > 0) {
                n_interrupts--;
                errno = EINTR;
                return -1;
        }
        if (allocate_error || (allocate_max && len > allocate_max)) {
                errno = allocate_error ? allocate_error : ENOSPC;
                return -1;
        }
        return fallocate(fd, mode, from, len);
}

static inline ssize_t faulty_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
        if (n_interrupts > 0)
                n_interrupts--, errno = EINTR;
        else if (write_error)
                errno = write_error;
        else
                return pwrite(fd, bytes, write_max && n > write_max ? write_max : n, at);
        return -1;
}

static inline int faulty_fdatasync(int fd)
{
        n_syncs++;
        if (sync_error) {
                errno = sync_error;
                return -1;
        }
        return fdatasync(fd);
}

static inline int small_fstatvfs(int fd, struct statvfs *ret)
{
        int r = fstatvfs(fd, ret);
        if (free_max && r == 0)
                ret->f_bavail = free_max / ret->f_frsize;
        return r;
}

#define fallocate faulty_fallocate
#define fstatvfs  small_fstatvfs
#define pwrite    faulty_pwrite
#define fdatasync faulty_fdatasync
#include "../../src/history/segment.c"    /* NOLINT(bugprone-suspicious-include) */
#include "../../src/history/segment_io.c" /* NOLINT(bugprone-suspicious-include) */
#undef fallocate
#undef fstatvfs
#undef pwrite
#undef fdatasync

#define SMALL (64 * KIB)

static const uint8_t our_id[SEGMENT_ID_BYTES] = "sixteen bytes ok";
static const uint8_t other_id[SEGMENT_ID_BYTES] = "sixteen bytes no";
static char dir[TEMP_DIR_SIZE];
static char path[TEMP_DIR_SIZE + 16];

static inline int setup(void **state)
{
        (void)state;
        allocate_error = write_error = sync_error = n_syncs = n_interrupts = 0;
        allocate_max = 0;
        free_max = 0;
        write_max = 0;
        temp_dir_make(dir);
        snprintf(path, sizeof(path), "%s/history.db", dir);
        return 0;
}

static inline int teardown(void **state)
{
        (void)state;
        temp_dir_remove(dir);
        return 0;
}

/* ---- what the tests do ---- */

static inline struct segments *start_as(const uint8_t *id, const struct segment_place *places,
                                        size_t n)
{
        struct problem p = {0};
        struct segments *s = segments_new(path, id, false);
        segments_set_limit(s, SMALL);
        for (size_t i = 0; i < n; i++)
                segments_know(s, &places[i]);
        if (segments_settle(s, &p) != OK)
                fail_msg("%s", p.detail);
        return s;
}

static inline struct segments *start(const struct segment_place *places, size_t n)
{
        return start_as(our_id, places, n);
}

/* Bytes that tell which block they are of. */
static inline const char *content(unsigned seed, size_t n)
{
        static char bytes[4 * SMALL];
        assert_true(n <= sizeof(bytes));
        for (size_t i = 0; i < n; i++)
                bytes[i] = (char)(1 + (seed * 31 + i * 7) % 250);
        return bytes;
}

static inline int try_put(struct segments *s, unsigned seed, size_t n, struct segment_place *ret,
                          struct problem *p)
{
        return segments_append(s, slice_make(content(seed, n), n), ret, p);
}

static inline struct segment_place put(struct segments *s, unsigned seed, size_t n)
{
        struct problem p = {0};
        struct segment_place place = {0};
        if (try_put(s, seed, n, &place, &p) != OK)
                fail_msg("%s", p.detail);
        return place;
}

static inline void commit(struct segments *s)
{
        struct problem p = {0};
        if (segments_sync(s, &p) != OK)
                fail_msg("%s", p.detail);
        segments_keep(s);
}

static inline void assert_there(struct segments *s, const struct segment_place *place,
                                unsigned seed)
{
        struct buf got = {0};
        struct problem p = {0};
        if (segments_read(s, place, &got, &p) != OK)
                fail_msg("%s", p.detail);
        assert_int_equal(got.len, place->bytes);
        assert_memory_equal(got.ptr, content(seed, got.len), got.len);
        buf_release(&got);
}

static inline const char *file(uint32_t number)
{
        static char ret[SEGMENT_PATH_BYTES];
        return segment_io_path(path, number, ret);
}

static inline bool has_file(uint32_t number)
{
        return access(file(number), F_OK) == 0;
}

static inline int64_t size_of(uint32_t number)
{
        struct stat st;
        return stat(file(number), &st) == 0 ? (int64_t)st.st_size : -1;
}

static inline uint64_t disk_bytes_of(uint32_t number)
{
        struct stat st;
        assert_int_equal(stat(file(number), &st), 0);
        return (uint64_t)st.st_blocks * 512;
}

static inline int n_files(void)
{
        int n = 0;
        DIR *d = opendir(dir);
        for (struct dirent *e; (e = readdir(d));)
                n += e->d_name[0] != '.';
        closedir(d);
        return n;
}

#endif
