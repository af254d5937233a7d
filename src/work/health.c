/* The health file.  Not synced: after a crash of the machine it says nothing worth keeping. */
#include "work/health.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/shown.h"
#include "wire/json.h"

static void put_health(struct buf *b, const struct health *h)
{
        const struct {
                const char *key;
                uint64_t n;
        } numbers[] = {
                {"pid", (uint64_t)getpid()},
                {"time_ms", (uint64_t)clock_wall_ms()},
                {"slots", h->slots},
                {"running", h->running},
                {"held", h->held},
                {"reporting", h->reporting},
                {"completed", h->completed},
                {"failed", h->failed},
                {"released", h->released},
                {"lost", h->lost},
                {"memory_bytes", h->memory_bytes},
        };
        buf_put_byte(b, '{');
        json_put_key(b, "state");
        json_put_text(b, slice_str(h->state));
        json_put_key(b, "name");
        json_put_text_lossy(b, slice_str(h->name));
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
                json_put_key(b, numbers[i].key);
                buf_put_u64(b, numbers[i].n);
        }
        buf_put_str(b, "}\n");
}

/* O_EXCL: in a folder where others may write, a link of that name would lead to a file of ours.
 * What a worker of the same pid has left is removed first. */
static int write_file(const char *path, struct slice text)
{
        (void)unlink(path); /* there is none, or open() says what is wrong */
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return errno;
        ssize_t n = write(fd, text.ptr, text.len);
        int error = n < 0 ? errno : (size_t)n < text.len ? ENOSPC : 0;
        if (close(fd) != 0 && !error)
                error = errno;
        return error;
}

int health_write(const char *path, const struct health *h, struct problem *p)
{
        char beside[PATH_MAX];
        struct buf text CLEANUP(buf_release) = {0};
        put_health(&text, h);
        int n = snprintf(beside, sizeof(beside), "%s.%ld", path, (long)getpid());
        int error = n < 0 || (size_t)n >= sizeof(beside) ? ENAMETOOLONG : 0;
        if (!error)
                error = write_file(beside, buf_slice(&text));
        if (!error && rename(beside, path) != 0)
                error = errno;
        if (!error)
                return OK;
        (void)unlink(beside); /* what is left of it */
        return problem_set(p, ERR_IO, "health file %s: %s", SHOWN_LONG(path), strerror(error));
}

uint64_t health_memory_bytes(void)
{
        char text[128];
        int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (fd >= 0)
                (void)close(fd); /* only read from */
        if (n <= 0)
                return 0;
        text[n] = '\0'; /* "total resident shared ..." in pages */
        const char *resident = strchr(text, ' ');
        uint64_t pages = 0;
        if (!resident ||
            !slice_to_u64(slice_make(resident + 1, strcspn(resident + 1, " ")), &pages))
                return 0;
        return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
