/* See learned.h.
 *
 * A file is written whole beside the old one, synced, and takes its name: after a power cut there
 * is the old one or the new one. */
#include "serve/learned.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/background.h"
#include "base/clock.h"
#include "base/say.h"
#include "base/shown.h"

#define EVERY_S   300
#define PATH_SIZE 4096
#define FILE_MAX  (8 << 20)

struct learned {
        struct proxy *proxy;
        char *folder;
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t wake;
        bool is_ending;  /* under the lock */
        bool has_failed; /* the thread's: it was said */
};

/* ---- writing ---- */

/* Returns 0 or an errno. */
static int write_whole(const char *path, const struct buf *text)
{
        int error = 0;
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0)
                return errno;
        for (size_t at = 0; !error && at < text->len;) {
                ssize_t n = write(fd, text->ptr + at, text->len - at);
                if (n > 0)
                        at += (size_t)n;
                else if (n < 0 && errno != EINTR)
                        error = errno;
        }
        if (!error && fsync(fd) != 0)
                error = errno;
        (void)close(fd); /* it is synced */
        return error;
}

static int write_file(const struct learned *l, const char *name, const struct buf *text)
{
        char path[PATH_SIZE], part[PATH_SIZE];
        int n = snprintf(path, sizeof(path), "%s/learned.%s", l->folder, name);
        int m = snprintf(part, sizeof(part), "%s/learned.%s.part", l->folder, name);
        if (n < 0 || m < 0 || m >= PATH_SIZE)
                return ENAMETOOLONG;
        int error = write_whole(part, text);
        if (!error && rename(part, path) != 0)
                error = errno;
        return error;
}

static void write_all(struct learned *l)
{
        char name[TRAFFIC_NAME_MAX + 1];
        int error = 0;
        for (size_t i = 0; !error; i++) {
                struct buf text CLEANUP(buf_release) = {0};
                if (!proxy_memory(l->proxy, i, name, &text))
                        break;
                error = write_file(l, name, &text);
        }
        if (error && !l->has_failed)
                say_warn("proxy", "cannot keep what the doors learned, trying again", "folder",
                         l->folder, "error", strerror(error));
        l->has_failed = error != 0;
}

/* ---- the thread ---- */

static void *learned_thread(void *ctx)
{
        struct learned *l = ctx;
        background_lower();
        (void)pthread_mutex_lock(&l->lock);
        while (!l->is_ending) {
                struct timespec until;
                (void)clock_gettime(CLOCK_MONOTONIC, &until);
                until.tv_sec += EVERY_S;
                int r = 0;
                while (!l->is_ending && r == 0)
                        r = pthread_cond_timedwait(&l->wake, &l->lock, &until);
                (void)pthread_mutex_unlock(&l->lock);
                write_all(l);
                (void)pthread_mutex_lock(&l->lock);
        }
        (void)pthread_mutex_unlock(&l->lock);
        return NULL;
}

struct learned *learned_new(struct proxy *proxy, const char *folder)
{
        struct learned *l = xcalloc(1, sizeof(*l));
        pthread_condattr_t attr;
        sigset_t all, was;
        l->proxy = proxy;
        l->folder = xstrdup(folder);
        /* These fail only without memory or for bad arguments. */
        int r = pthread_mutex_init(&l->lock, NULL) | pthread_condattr_init(&attr) |
                pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) |
                pthread_cond_init(&l->wake, &attr);
        ASSERT(r == 0);
        (void)pthread_condattr_destroy(&attr);
        (void)sigfillset(&all); /* signals are for the loop thread */
        (void)pthread_sigmask(SIG_SETMASK, &all, &was);
        r = pthread_create(&l->thread, NULL, learned_thread, l);
        (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
        if (r == 0)
                return l;
        say_warn("proxy", "no thread to keep what the doors learn", "error", strerror(r));
        free(l->folder);
        free(l);
        return NULL;
}

struct learned *learned_free(struct learned *l)
{
        if (!l)
                return NULL;
        (void)pthread_mutex_lock(&l->lock);
        l->is_ending = true;
        (void)pthread_cond_signal(&l->wake);
        (void)pthread_mutex_unlock(&l->lock);
        (void)pthread_join(l->thread, NULL);
        (void)pthread_cond_destroy(&l->wake);
        (void)pthread_mutex_destroy(&l->lock);
        free(l->folder);
        free(l);
        return NULL;
}

/* ---- reading ---- */

/* Returns 0 or an errno; ENOENT: there is no such file. */
static int read_whole(const char *path, struct buf *ret)
{
        char bytes[4096];
        int error = 0;
        ssize_t n = 1;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return errno;
        while (!error && n != 0) {
                n = read(fd, bytes, sizeof(bytes));
                if (n > 0)
                        buf_put(ret, bytes, (size_t)n);
                else if (n < 0 && errno != EINTR)
                        error = errno;
                if (ret->len > FILE_MAX)
                        error = EFBIG;
        }
        (void)close(fd);
        return error;
}

void learned_read(struct proxy *proxy, const char *folder, size_t door, const char *name)
{
        char path[PATH_SIZE];
        struct buf text CLEANUP(buf_release) = {0};
        struct problem problem;
        int n = snprintf(path, sizeof(path), "%s/learned.%s", folder, name);
        int error = n < 0 || n >= PATH_SIZE ? ENAMETOOLONG : read_whole(path, &text);
        if (error == ENOENT)
                return;
        if (error)
                say_warn("proxy", "cannot read what a door learned: it learns anew", "file", path,
                         "error", strerror(error));
        else if (proxy_remember(proxy, door, buf_slice(&text), &problem) != OK)
                say_warn("proxy", "what a door learned makes no sense: it learns anew", "file",
                         path, "error", problem.detail);
}
