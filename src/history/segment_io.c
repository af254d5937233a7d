#include "history/segment_io.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc.h"

#define MAGIC         "wseg"
#define VERSION       1
#define NAME_PART     "-blocks-"
#define HEADER_CRC_AT 28
#define HEADER_USED   32

const char *segment_io_path(const char *history, uint32_t number, char ret[SEGMENT_PATH_BYTES])
{
        (void)snprintf(ret, SEGMENT_PATH_BYTES, "%s" NAME_PART "%06u", history, number);
        return ret;
}

uint32_t segment_io_number_in(const char *name, const char *history)
{
        char again[SEGMENT_PATH_BYTES];
        size_t len = strlen(history);
        if (strncmp(name, history, len) != 0 ||
            strncmp(name + len, NAME_PART, strlen(NAME_PART)) != 0)
                return 0;
        unsigned long long number = strtoull(name + len + strlen(NAME_PART), NULL, 10);
        if (number == 0 || number >= UINT32_MAX)
                return 0;
        segment_io_path(history, (uint32_t)number, again);
        return strcmp(name, again) == 0 ? (uint32_t)number : 0;
}

void segment_io_make_header(const uint8_t id[SEGMENT_ID_BYTES], uint32_t number,
                            char ret[SEGMENT_HEADER_BYTES])
{
        memset(ret, 0, SEGMENT_HEADER_BYTES);
        memcpy(ret, MAGIC, 4);
        store_u32(ret + 4, VERSION);
        memcpy(ret + 8, id, SEGMENT_ID_BYTES);
        store_u32(ret + 24, number);
        store_u32(ret + HEADER_CRC_AT, crc32c(0, ret, HEADER_CRC_AT));
}

const char *segment_io_check_header(const uint8_t id[SEGMENT_ID_BYTES], uint32_t number, int fd)
{
        char h[HEADER_USED];
        ssize_t n = segment_io_read(fd, 0, h, sizeof(h));
        if (n < 0)
                return "cannot be read";
        if (n < HEADER_USED || memcmp(h, MAGIC, 4) != 0 ||
            load_u32(h + HEADER_CRC_AT) != crc32c(0, h, HEADER_CRC_AT))
                return "is damaged at its beginning";
        if (load_u32(h + 4) != VERSION)
                return "is of another version of weir";
        if (memcmp(h + 8, id, SEGMENT_ID_BYTES) != 0)
                return "belongs to another history";
        return load_u32(h + 24) == number ? NULL : "was renamed";
}

int segment_io_write(int fd, uint64_t at, const char *bytes, size_t n)
{
        while (n > 0) {
                ssize_t done = pwrite(fd, bytes, n, (off_t)at);
                if (done < 0 && errno == EINTR)
                        continue;
                if (done <= 0) {
                        if (done == 0)
                                errno = EIO;
                        return -1;
                }
                bytes += done;
                at += (uint64_t)done;
                n -= (size_t)done;
        }
        return 0;
}

ssize_t segment_io_read(int fd, uint64_t at, char *ret, size_t n)
{
        size_t len = 0;
        while (len < n) {
                ssize_t done = pread(fd, ret + len, n - len, (off_t)(at + len));
                if (done < 0 && errno == EINTR)
                        continue;
                if (done < 0)
                        return -1;
                if (done == 0)
                        break;
                len += (size_t)done;
        }
        return (ssize_t)len;
}

int segment_io_allocate(int fd, int mode, uint64_t from, uint64_t to)
{
        int r;
        do
                r = fallocate(fd, mode, (off_t)from, (off_t)(to - from));
        while (r < 0 && errno == EINTR);
        return r;
}

uint64_t segment_io_room(int fd)
{
        struct statvfs fs;
        if (fstatvfs(fd, &fs) != 0 || fs.f_blocks == 0)
                return UINT64_MAX;
        return (uint64_t)fs.f_bavail * fs.f_frsize;
}

int segment_io_rename(const char *from, const char *to)
{
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EINVAL && errno != ENOSYS)
                return -1;
        /* A file system without the flag. */
        if (access(to, F_OK) != 0)
                return rename(from, to);
        errno = EEXIST;
        return -1;
}

int segment_io_sync_folder(const char *history)
{
        char path[SEGMENT_PATH_BYTES];
        (void)snprintf(path, sizeof(path), "%s", history);
        int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = fd < 0 ? -1 : fsync(fd);
        int errnum = errno;
        if (fd >= 0)
                (void)close(fd); /* a folder has nothing to write */
        errno = errnum;
        return r;
}
