/* Waiting with a deadline, calls that are made aside, and sockets that are cut off in time.
 *
 * A call that the system offers only in a blocking form (getaddrinfo, statvfs on a network file
 * system that is gone) runs on a thread of its own, detached.  The caller waits for it as long as
 * its tick lasts; when that is over, the thread keeps what it works on until it ends by itself.
 * They do not pile up: a target whose name was not found in time rests, and a lookup ends by itself
 * at some time; a disk is not asked again before it has answered. */
#include "sql/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"

int wait_for(const struct sql_wait *w, int fd, short events, short *ret_got)
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

int wait_problem(const struct sql_wait *w, int err, struct problem *problem)
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

int aside_wait(const struct aside *a, const struct sql_wait *w)
{
        return aside_is_done(a) ? OK : wait_for(w, a->done_fd, POLLIN, NULL);
}

const void *aside_arg(const struct aside *a)
{
        ASSERT(aside_is_done(a));
        return a->arg;
}

/* ---- cutting off ---- */

struct cutoff {
        struct sql_wait wait;
        /* A second name of the socket: the first may be closed and given to another meanwhile. */
        int fd;
        int done_fd;
        int err; /* of the wait; read after the join */
        pthread_t thread;
};

static void *cutoff_thread(void *ctx)
{
        struct cutoff *c = ctx;
        c->err = wait_for(&c->wait, c->done_fd, POLLIN, NULL);
        if (c->err != OK)
                (void)shutdown(c->fd, SHUT_RDWR); /* fine when it is lost */
        return NULL;
}

static void cutoff_free(struct cutoff *c)
{
        if (c->fd >= 0)
                (void)close(c->fd);
        if (c->done_fd >= 0)
                (void)close(c->done_fd);
        free(c);
}

struct cutoff *cutoff_begin(const struct sql_wait *w, int fd)
{
        struct cutoff *c = xmalloc(sizeof(*c));
        *c = (struct cutoff){
                .wait = *w,
                .fd = eventfd(0, EFD_CLOEXEC), /* only for its number */
                .done_fd = eventfd(0, EFD_CLOEXEC),
        };
        /* Not F_DUPFD_CLOEXEC: the thread sanitizer does not see it, nor libuv's closing of what
         * had the number before, and takes ours for that. */
        if (c->fd < 0 || c->done_fd < 0 || dup3(fd, c->fd, O_CLOEXEC) < 0 ||
            pthread_create(&c->thread, NULL, cutoff_thread, c) != 0) {
                cutoff_free(c);
                return NULL;
        }
        return c;
}

int cutoff_end(struct cutoff *c)
{
        uint64_t one = 1;
        ssize_t n = write(c->done_fd, &one, sizeof(one));
        ASSERT(n == sizeof(one));            /* an eventfd with nothing in it takes one */
        (void)pthread_join(c->thread, NULL); /* at once: it has been told */
        int err = c->err;
        cutoff_free(c);
        return err;
}
