/* Waiting with a deadline, readings, calls that are made aside, and sockets that are guarded.
 *
 * A call that the system offers only in a blocking form (getaddrinfo, statvfs on a network file
 * system that is gone) runs on a thread of its own, detached.  The caller waits for it as long as
 * its tick lasts; when that is over, the thread keeps what it works on until it ends by itself.
 * They do not pile up: a target whose name was not found in time rests, and a lookup ends by itself
 * at some time; a disk is not asked again before it has answered. */
#include "probe/probe_int.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/shown.h"

#define NUMBER_MAX 64 /* characters of the longest number that makes sense */

int wait_for(const struct probe_wait *w, int fd, short events, short *ret_got)
{
        for (;;) {
                struct pollfd fds[2] = {{.fd = w->stop_fd, .events = POLLIN},
                                        {.fd = fd, .events = events}};
                int64_t left_ns = w->deadline_ns - clock_boot_ns();
                if (left_ns <= 0)
                        return ERR_TIMEOUT;
                int64_t left_ms = (left_ns + NS_PER_MS - 1) / NS_PER_MS;
                int n = poll(fds, 2, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
                ASSERT(n >= 0 || errno == EINTR);
                if (n < 0)
                        continue;
                if (fds[0].revents)
                        return ERR_STOPPING;
                if (fds[1].revents) {
                        if (ret_got)
                                *ret_got = fds[1].revents;
                        return OK;
                }
        }
}

int wait_problem(const struct probe_wait *w, int err, struct problem *problem)
{
        char text[DURATION_TEXT_MAX];
        if (err == ERR_STOPPING)
                return problem_set(problem, err, "weir is stopping");
        return problem_set(problem, err, "no answer within %s", duration_text(w->timeout_ms, text));
}

int answer_too_long(struct problem *problem)
{
        return problem_set(problem, ERR_TOOBIG, "the answer is longer than 1 MiB");
}

/* ---- readings ---- */

void reading_set(struct reading *r, double value)
{
        *r = (struct reading){.value = value};
}

void reading_fail(struct reading *r, const char *fmt, ...)
{
        struct reading failed = {.is_error = true};
        va_list args;
        va_start(args, fmt);
        shown_vprintf(failed.text, sizeof(failed.text), fmt, args);
        va_end(args);
        *r = failed; /* only now: what it held may be part of the sentence */
}

void reading_remark(struct reading *r, const char *fmt, ...)
{
        va_list args;
        va_start(args, fmt);
        shown_vprintf(r->text, sizeof(r->text), fmt, args);
        va_end(args);
}

bool is_silence(int err)
{
        return err == ERR_TIMEOUT || err == ERR_STOPPING || err == ERR_IO;
}

bool is_nobody_there(int error)
{
        return error == ECONNREFUSED || error == ENOENT || error == EACCES;
}

static bool is_decimal(const char *text, size_t len)
{
        for (size_t i = 0; i < len; i++)
                if (!isdigit((unsigned char)text[i]) && !strchr("+-.eE", text[i]))
                        return false;
        return len > 0;
}

void reading_set_text(struct reading *r, const char *text, size_t len)
{
        char copy[NUMBER_MAX + 1], *end = NULL;
        while (len && isspace((unsigned char)text[len - 1]))
                len--;
        while (len && isspace((unsigned char)*text)) {
                text++;
                len--;
        }
        if (len <= NUMBER_MAX && is_decimal(text, len)) {
                memcpy(copy, text, len);
                copy[len] = '\0';
                double value = strtod(copy, &end);
                if (*end == '\0' && isfinite(value)) {
                        reading_set(r, value);
                        return;
                }
        }
        if (!len)
                reading_fail(r, "the value is empty, not a number");
        else
                reading_fail(r, "the value is no number: '%s'", SHOWN(slice_make(text, len)));
}

/* ---- resting ---- */

void rest_begin(struct rest *r, int64_t now_ns)
{
        r->pause_ms = r->pause_ms ? r->pause_ms * 2 : REST_MIN_MS;
        if (r->pause_ms > REST_MAX_MS)
                r->pause_ms = REST_MAX_MS;
        r->until_ns = now_ns + r->pause_ms * NS_PER_MS;
}

bool rest_is_over(const struct rest *r, int64_t now_ns)
{
        return now_ns >= r->until_ns;
}

bool rest_is_on(const struct rest *r)
{
        return r->pause_ms > 0;
}

/* ---- aside ---- */

struct aside {
        atomic_int refs;
        atomic_bool is_done; /* orders what the thread wrote before what the caller reads */
        int done_fd;
        void (*fn)(void *arg);
        void *arg;
};

struct aside *aside_end(struct aside *a)
{
        if (!a || atomic_fetch_sub(&a->refs, 1) != 1)
                return NULL;
        (void)close(a->done_fd);
        free(a->arg);
        free(a);
        return NULL;
}

static void *aside_thread(void *ctx)
{
        struct aside *a = ctx;
        uint64_t one = 1;
        a->fn(a->arg);
        atomic_store(&a->is_done, true);
        ssize_t n = write(a->done_fd, &one, sizeof(one));
        ASSERT(n == sizeof(one)); /* an eventfd with nothing in it takes one */
        return aside_end(a);
}

static int aside_start(struct aside *a)
{
        pthread_t thread;
        pthread_attr_t attr;
        int r = pthread_attr_init(&attr);
        if (r)
                return r;
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED); /* a valid value */
        r = pthread_create(&thread, &attr, aside_thread, a);
        (void)pthread_attr_destroy(&attr); /* cannot fail */
        return r;
}

struct aside *aside_begin(void (*fn)(void *arg), void *arg)
{
        struct aside *a = xmalloc(sizeof(*a));
        *a = (struct aside){.done_fd = eventfd(0, EFD_CLOEXEC), .fn = fn, .arg = arg};
        atomic_init(&a->refs, 2);
        atomic_init(&a->is_done, false);
        if (a->done_fd >= 0 && aside_start(a) == 0)
                return a;
        if (a->done_fd >= 0)
                (void)close(a->done_fd);
        free(arg);
        free(a);
        return NULL;
}

bool aside_is_done(const struct aside *a)
{
        return atomic_load(&a->is_done);
}

int aside_wait(const struct aside *a, const struct probe_wait *w)
{
        return aside_is_done(a) ? OK : wait_for(w, a->done_fd, POLLIN, NULL);
}

const void *aside_arg(const struct aside *a)
{
        ASSERT(aside_is_done(a));
        return a->arg;
}

/* ---- guards ---- */

struct guard {
        struct probe_wait wait;
        /* A second name of the socket: the first may be closed and given to another meanwhile. */
        int fd;
        int done_fd;
        int err; /* of the wait; read after the join */
        pthread_t thread;
};

static void *guard_thread(void *ctx)
{
        struct guard *g = ctx;
        g->err = wait_for(&g->wait, g->done_fd, POLLIN, NULL);
        if (g->err != OK)
                (void)shutdown(g->fd, SHUT_RDWR); /* fine when it is lost */
        return NULL;
}

static void guard_free(struct guard *g)
{
        if (g->fd >= 0)
                (void)close(g->fd);
        if (g->done_fd >= 0)
                (void)close(g->done_fd);
        free(g);
}

struct guard *guard_begin(const struct probe_wait *w, int fd)
{
        struct guard *g = xmalloc(sizeof(*g));
        *g = (struct guard){
                .wait = *w,
                .fd = eventfd(0, EFD_CLOEXEC), /* only for its number */
                .done_fd = eventfd(0, EFD_CLOEXEC),
        };
        /* Not F_DUPFD_CLOEXEC: the thread sanitizer does not see it, nor libuv's closing of what
         * had the number before, and takes ours for that. */
        if (g->fd < 0 || g->done_fd < 0 || dup3(fd, g->fd, O_CLOEXEC) < 0 ||
            pthread_create(&g->thread, NULL, guard_thread, g) != 0) {
                guard_free(g);
                return NULL;
        }
        return g;
}

int guard_end(struct guard *g)
{
        uint64_t one = 1;
        ssize_t n = write(g->done_fd, &one, sizeof(one));
        ASSERT(n == sizeof(one));            /* an eventfd with nothing in it takes one */
        (void)pthread_join(g->thread, NULL); /* at once: it has been told */
        int err = g->err;
        guard_free(g);
        return err;
}
