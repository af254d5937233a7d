/* The real disk: one folder of the file system.
 *
 * Handles are file descriptors.  Files are opened with O_DIRECT where the file system takes it:
 * measured on ext4, a 4 KiB write and fdatasync into a zero-filled file takes 80 us that way and
 * 120 us through the page cache, and a read asks the disk and not a cache that may hold what a
 * failed sync left behind.  Where it is not taken (tmpfs before Linux 6.6, some FUSE), the same
 * calls go through the cache; the log's recovery does not rely on either.
 *
 * What is relied on:
 *   - a sector of 512 bytes is written whole or not at all
 *   - fdatasync returns 0 only when what was written is on stable storage; when it fails, what
 *     is there is unknown and asking again proves nothing (so nobody asks again)
 *   - a rename replaces nothing here and is there or not, never half
 *
 * A new file is written full of zeros rather than only allocated: the first write into allocated
 * but unwritten space changes metadata, and its fdatasync would have to wait for the journal.
 *
 * Thread-safe: there is no state but the folder's descriptor.  The lock is an open-file-description
 * lock, which a second open in this same process does not get either, and which no close() of some
 * other descriptor loses. */
#include "log/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LOCK_NAME "lock"
/* Zero-filling in pieces this large; aligned for O_DIRECT. */
#define FILL_BYTES (1 * MIB)

struct folder {
        struct disk disk;
        char *path;
        int dir_fd;
        int lock_fd;
};

static struct folder *folder_of(struct disk *d)
{
        return CONTAINER_OF(d, struct folder, disk);
}

/* Descriptors and memory can run out like space: the file is refused, nothing is broken. */
static int err_of(int errnum)
{
        switch (errnum) {
        case ENOSPC:
        case EDQUOT:
        case EMFILE:
        case ENFILE:
        case ENOMEM:
                return ERR_NOSPACE;
        case ENOENT:
                return ERR_NOTFOUND;
        default:
                return ERR_IO;
        }
}

static int failed(struct folder *f, const char *what, const char *name, struct problem *p)
{
        int errnum = errno;
        char text[128];
        return problem_set(p, err_of(errnum), "cannot %s %s%s%s: %s", what, f->path,
                           *name ? "/" : "", name, strerror_r(errnum, text, sizeof(text)));
}

static int folder_lock(struct disk *d, struct problem *p)
{
        struct folder *f = folder_of(d);
        if (f->lock_fd >= 0)
                return OK;
        int fd = openat(f->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return failed(f, "open", LOCK_NAME, p);
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        char text[24] = "";
        if (fcntl(fd, F_OFD_SETLK, &whole) < 0) {
                int r = errno == EAGAIN || errno == EACCES ? ERR_LOCKED : ERR_IO;
                if (r == ERR_IO) {
                        (void)failed(f, "lock", LOCK_NAME, p);
                } else {
                        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
                        long pid = n > 0 ? strtol(text, NULL, 10) : 0;
                        if (pid > 0)
                                problem_set(p, r, "%s is in use by process %ld", f->path, pid);
                        else
                                problem_set(p, r, "%s is in use by another process", f->path);
                }
                close(fd);
                return r;
        }
        /* Only for the message above; on a full disk it may fail, and the lock holds anyway.
         * Fixed width, so that it fits into the block the file has had since it was made. */
        int n = snprintf(text, sizeof(text), "%-20ld\n", (long)getpid());
        ssize_t ignored = pwrite(fd, text, (size_t)n, 0);
        (void)ignored;
        f->lock_fd = fd;
        return OK;
}

bool disk_is_in_use(const char *path)
{
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int fd = dir_fd < 0 ? -1 : openat(dir_fd, LOCK_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        bool is_held = fd >= 0 && fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
        if (fd >= 0)
                close(fd);
        if (dir_fd >= 0)
                close(dir_fd);
        return is_held;
}

static int folder_list(struct disk *d, disk_list_fn fn, void *ctx, struct problem *p)
{
        struct folder *f = folder_of(d);
        int fd = openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return failed(f, "list", "", p);
        DIR *dir = fdopendir(fd);
        if (!dir) {
                close(fd);
                return failed(f, "list", "", p);
        }
        int r = OK;
        struct dirent *entry;
        errno = 0;
        for (; !r && (entry = readdir(dir)); errno = 0) {
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = fn(ctx, entry->d_name);
        }
        if (!r && errno != 0)
                r = failed(f, "list", "", p);
        closedir(dir);
        return r;
}

static int open_file(struct folder *f, const char *name, int flags)
{
        flags |= O_CLOEXEC | O_NOFOLLOW;
        int fd = openat(f->dir_fd, name, flags | O_DIRECT, 0600);
        if (fd < 0 && errno == EINVAL)
                fd = openat(f->dir_fd, name, flags, 0600);
        return fd;
}

static int folder_open(struct disk *d, const char *name, int *ret_fd, struct problem *p)
{
        struct folder *f = folder_of(d);
        int fd = open_file(f, name, O_RDWR);
        /* The tools may look at a folder that is not theirs to change. */
        if (fd < 0 && (errno == EACCES || errno == EROFS))
                fd = open_file(f, name, O_RDONLY);
        if (fd < 0)
                return failed(f, "open", name, p);
        *ret_fd = fd;
        return OK;
}

/* Writes all of it, or -1 with errno.  A short write is continued: it is not a failure, and the
 * next call tells what stopped it. */
static int write_all(int fd, uint64_t at, const char *buf, size_t n)
{
        while (n > 0) {
                ssize_t done = pwrite(fd, buf, n, (off_t)at);
                if (done < 0 && errno == EINTR)
                        continue;
                if (done <= 0) {
                        if (done == 0)
                                errno = EIO;
                        return -1;
                }
                buf += done;
                at += (uint64_t)done;
                n -= (size_t)done;
        }
        return 0;
}

static int fill_with_zeros(int fd, uint64_t size)
{
        /* Looks before it takes: on a nearly full disk this is tried again every second, and each
         * try would take what little is left from everybody else for a moment. */
        struct statvfs fs;
        if (fstatvfs(fd, &fs) == 0 && fs.f_blocks > 0 && fs.f_bavail < size / fs.f_frsize) {
                errno = ENOSPC;
                return -1;
        }
        if (fallocate(fd, 0, 0, (off_t)size) < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
                return -1;
        char *zeros = aligned_alloc(DISK_BLOCK, FILL_BYTES);
        if (!zeros)
                return -1;
        memset(zeros, 0, FILL_BYTES);
        int r = 0;
        for (uint64_t at = 0; !r && at < size; at += FILL_BYTES)
                r = write_all(fd, at, zeros, size - at < FILL_BYTES ? size - at : FILL_BYTES);
        free(zeros);
        return r;
}

static int folder_create(struct disk *d, const char *name, uint64_t size, int *ret_fd,
                         struct problem *p)
{
        struct folder *f = folder_of(d);
        int fd = open_file(f, name, O_RDWR | O_CREAT | O_EXCL);
        if (fd < 0)
                return failed(f, "create", name, p);
        if (fill_with_zeros(fd, size) < 0 || fsync(fd) < 0 || fsync(f->dir_fd) < 0) {
                int r = failed(f, "create", name, p);
                close(fd);
                /* Should this fail as well, the next start removes it by its name. */
                (void)unlinkat(f->dir_fd, name, 0);
                return r;
        }
        *ret_fd = fd;
        return OK;
}

static uint64_t folder_free_bytes(struct disk *d)
{
        struct statvfs st;
        if (fstatvfs(folder_of(d)->dir_fd, &st) < 0)
                return UINT64_MAX; /* asking for space will tell */
        return (uint64_t)st.f_bavail * st.f_frsize;
}

static int folder_size(struct disk *d, int fd, uint64_t *ret, struct problem *p)
{
        struct stat st;
        if (fstat(fd, &st) < 0)
                return failed(folder_of(d), "look at a file of", "", p);
        *ret = (uint64_t)st.st_size;
        return OK;
}

static int read_all(int fd, uint64_t at, char *ret, size_t n)
{
        while (n > 0) {
                ssize_t done = pread(fd, ret, n, (off_t)at);
                if (done < 0 && errno == EINTR)
                        continue;
                if (done <= 0) {
                        if (done == 0)
                                errno = EIO; /* shorter than it was a moment ago */
                        return -1;
                }
                ret += done;
                at += (uint64_t)done;
                n -= (size_t)done;
        }
        return 0;
}

/* O_DIRECT takes only aligned reads; the log makes no others, but the contract allows them. */
static int read_unaligned(int fd, uint64_t at, void *ret, size_t n)
{
        uint64_t from = at & ~(uint64_t)(DISK_BLOCK - 1);
        size_t len = ALIGN_UP((size_t)(at - from) + n, (size_t)DISK_BLOCK);
        char *bounce = aligned_alloc(DISK_BLOCK, len);
        if (!bounce)
                return -1;
        ssize_t done = pread(fd, bounce, len, (off_t)from);
        if (done >= 0 && (size_t)done < (at - from) + n) {
                errno = EIO;
                done = -1;
        }
        if (done >= 0)
                memcpy(ret, bounce + (at - from), n);
        free(bounce);
        return done < 0 ? -1 : 0;
}

static int folder_read(struct disk *d, int fd, uint64_t at, void *ret, size_t n, struct problem *p)
{
        bool is_aligned = ((uintptr_t)ret | at | n) % DISK_BLOCK == 0;
        int r = is_aligned ? read_all(fd, at, ret, n) : read_unaligned(fd, at, ret, n);
        return r < 0 ? failed(folder_of(d), "read a segment in", "", p) : OK;
}

static int folder_write(struct disk *d, int fd, uint64_t at, const void *buf, size_t n,
                        struct problem *p)
{
        ASSERT(((uintptr_t)buf | at | n) % DISK_BLOCK == 0);
        return write_all(fd, at, buf, n) < 0 ? failed(folder_of(d), "write a segment in", "", p)
                                             : OK;
}

static int folder_sync(struct disk *d, int fd, struct problem *p)
{
        return fdatasync(fd) < 0 ? failed(folder_of(d), "sync a segment in", "", p) : OK;
}

static int folder_rename(struct disk *d, const char *from, const char *to, struct problem *p)
{
        struct folder *f = folder_of(d);
        if (renameat2(f->dir_fd, from, f->dir_fd, to, RENAME_NOREPLACE) < 0) {
                if (errno != EINVAL && errno != ENOSYS)
                        return failed(f, "rename", from, p);
                /* A file system without the flag; the log never renames onto a name in use. */
                if (renameat(f->dir_fd, from, f->dir_fd, to) < 0)
                        return failed(f, "rename", from, p);
        }
        return OK;
}

static int folder_remove(struct disk *d, const char *name, struct problem *p)
{
        struct folder *f = folder_of(d);
        return unlinkat(f->dir_fd, name, 0) < 0 ? failed(f, "remove", name, p) : OK;
}

static int folder_sync_names(struct disk *d, struct problem *p)
{
        struct folder *f = folder_of(d);
        return fsync(f->dir_fd) < 0 ? failed(f, "sync", "", p) : OK;
}

static void folder_close(struct disk *d, int fd)
{
        (void)d;
        /* What matters was synced; close has nothing to add. */
        (void)close(fd);
}

static struct disk *folder_release(struct disk *d)
{
        struct folder *f = folder_of(d);
        if (f->lock_fd >= 0)
                close(f->lock_fd);
        close(f->dir_fd);
        free(f->path);
        free(f);
        return NULL;
}

static const struct disk_ops FOLDER_OPS = {
        .lock = folder_lock,
        .list = folder_list,
        .open = folder_open,
        .create = folder_create,
        .size = folder_size,
        .free_bytes = folder_free_bytes,
        .read = folder_read,
        .write = folder_write,
        .sync = folder_sync,
        .rename = folder_rename,
        .remove = folder_remove,
        .sync_names = folder_sync_names,
        .close = folder_close,
        .release = folder_release,
};

static int sync_parent(const char *path)
{
        const char *slash = strrchr(path, '/');
        char *parent = slash && slash != path ? strndup(path, (size_t)(slash - path))
                                              : strdup(slash ? "/" : ".");
        if (!parent)
                return -1;
        int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        free(parent);
        int r = fd < 0 ? -1 : fsync(fd);
        if (fd >= 0)
                close(fd);
        return r;
}

/* Makes one folder, its name durable. */
static int make_one(const char *path)
{
        struct stat st;
        if (stat(path, &st) == 0) {
                /* Perhaps made by a start that did not come this far.  Who may not open the
                 * parent did not make it. */
                (void)sync_parent(path);
                return 0;
        }
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return -1;
        return sync_parent(path);
}

static int make_folders(char *path)
{
        for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                struct stat st;
                int r = stat(path, &st) == 0 ? 0 : make_one(path);
                *slash = '/';
                if (r < 0)
                        return -1;
        }
        return make_one(path);
}

static int open_folder(const char *path, bool may_make, struct disk **ret, struct problem *p)
{
        struct folder *f = xcalloc(1, sizeof(*f));
        *f = (struct folder){.disk.ops = &FOLDER_OPS, .path = xstrdup(path), .lock_fd = -1};
        for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
                f->path[n - 1] = '\0';
        f->dir_fd = -1;
        if (!may_make || make_folders(f->path) == 0)
                f->dir_fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (f->dir_fd < 0) {
                int r = failed(f, "open the folder", "", p);
                free(f->path);
                free(f);
                return r;
        }
        *ret = &f->disk;
        return OK;
}

int disk_open_folder(const char *path, struct disk **ret, struct problem *p)
{
        return open_folder(path, true, ret, p);
}

int disk_open_existing(const char *path, struct disk **ret, struct problem *p)
{
        return open_folder(path, false, ret, p);
}
