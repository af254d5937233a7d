/* A server that plays a script, on a unix socket: good answers to CHECK, none, half of one, wrong
 * ones.  One connection at a time, in a thread of its own. */
#ifndef WEIR_TESTS_UNIT_FAKE_WEIR_H
#define WEIR_TESTS_UNIT_FAKE_WEIR_H

#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "weir.h"

#include "support/temp_dir.h"
#include "wire/resp.h"

#define GRANT                                                                                      \
        "*11\r\n$7\r\ngranted\r\n$7\r\ngranted\r\n$3\r\nlag\r\n$3\r\n0.5\r\n$1\r\n5\r\n:120\r\n"   \
        "$0\r\n\r\n:0\r\n:0\r\n:0\r\n$0\r\n\r\n"
#define REFUSAL                                                                                    \
        "*11\r\n$7\r\nrefused\r\n$9\r\nthreshold\r\n$3\r\nlag\r\n$3\r\n7.1\r\n$1\r\n5\r\n:120\r\n" \
        "$4\r\nslow\r\n:2\r\n:0\r\n:0\r\n$0\r\n\r\n"
/* 5 credits for a minute. */
#define CREDITS                                                                                    \
        "*11\r\n$7\r\ngranted\r\n$7\r\ngranted\r\n$3\r\nlag\r\n$3\r\n0.5\r\n$1\r\n5\r\n:120\r\n"   \
        "$0\r\n\r\n:0\r\n:5\r\n:60000\r\n$0\r\n\r\n"
#define BRIEF                                                                                      \
        "*11\r\n$7\r\ngranted\r\n$7\r\ngranted\r\n$-1\r\n$-1\r\n$-1\r\n:-1\r\n$-1\r\n:0\r\n"       \
        ":1000\r\n:1\r\n$-1\r\n"

struct turn {
        const char *say;  /* NULL: nothing */
        size_t len;       /* 0: strlen(say) */
        bool is_dripping; /* byte by byte */
        bool is_last;     /* hang up afterwards */
};

struct fake {
        char dir[TEMP_DIR_SIZE];
        char url[256];
        char path[108];
        const char *auth; /* what AUTH gets; NULL: +OK */
        int listener, peer, stop[2];
        pthread_t thread;
        pthread_mutex_t lock; /* guards what follows */
        struct turn turns[4];
        size_t at, n; /* the last turn is played for ever */
        unsigned accepts, asks;
        char heard[2048]; /* words of the last question, each followed by a space */
};

static inline struct turn next_turn(struct fake *f, const struct resp_request *r)
{
        size_t len = 0;

        assert_int_equal(pthread_mutex_lock(&f->lock), 0);
        f->asks++;
        for (size_t i = 0; i < r->argc; i++)
                len += (size_t)snprintf(f->heard + len, sizeof(f->heard) - len, "%.*s ",
                                        (int)r->argv[i].len, r->argv[i].ptr);
        struct turn t = f->turns[f->at];
        if (f->at + 1 < f->n)
                f->at++;
        assert_int_equal(pthread_mutex_unlock(&f->lock), 0);
        return t;
}

static inline void say(int fd, const struct turn *t)
{
        size_t len = t->len ? t->len : strlen(t->say), step = t->is_dripping ? 1 : len;

        for (size_t at = 0; at < len; at += step)
                if (send(fd, t->say + at, step, MSG_NOSIGNAL) < 0)
                        return;
}

/* Answers one question; false: the connection is over. */
static inline bool answer_one(struct fake *f, int fd, const struct resp_request *r)
{
        if (slice_eq(r->argv[0], SLICE_LIT("AUTH"))) {
                struct turn t = {.say = f->auth ? f->auth : "+OK\r\n"};
                say(fd, &t);
                return true;
        }
        struct turn t = next_turn(f, r);
        if (t.say)
                say(fd, &t);
        return !t.is_last;
}

static inline bool is_readable(struct fake *f, int fd)
{
        struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = f->stop[0], .events = POLLIN}};

        while (poll(p, 2, -1) < 0)
                ;
        return !p[1].revents;
}

static inline void serve(struct fake *f, int fd)
{
        struct slice argv[64];
        struct arena arena;
        char in[8192];
        size_t len = 0;

        arena_init(&arena, 0);
        while (is_readable(f, fd)) {
                ssize_t n = recv(fd, in + len, sizeof(in) - len, 0);
                if (n <= 0)
                        break;
                len += (size_t)n;
                bool goes_on = true;
                while (goes_on && len > 0) {
                        struct resp_request r = {.argv = argv, .argv_max = 64, .bytes_max = 8192};
                        if (resp_parse(slice_make(in, len), &arena, &r) != RESP_REQUEST)
                                break;
                        goes_on = answer_one(f, fd, &r);
                        memmove(in, in + r.used, len - r.used);
                        len -= r.used;
                }
                if (!goes_on)
                        break;
        }
        arena_release(&arena);
}

static inline void *fake_run(void *arg)
{
        struct fake *f = arg;

        while (is_readable(f, f->listener)) {
                int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
                if (fd < 0)
                        continue;
                assert_int_equal(pthread_mutex_lock(&f->lock), 0);
                f->accepts++;
                f->peer = fd;
                assert_int_equal(pthread_mutex_unlock(&f->lock), 0);
                serve(f, fd);
                assert_int_equal(pthread_mutex_lock(&f->lock), 0);
                f->peer = -1;
                (void)close(fd);
                assert_int_equal(pthread_mutex_unlock(&f->lock), 0);
        }
        return NULL;
}

static inline void fake_listen(struct fake *f)
{
        struct sockaddr_un addr = {.sun_family = AF_UNIX};

        memcpy(addr.sun_path, f->path, sizeof(f->path));
        f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(f->listener >= 0);
        assert_int_equal(bind(f->listener, (const struct sockaddr *)&addr, sizeof(addr)), 0);
        assert_int_equal(listen(f->listener, 64), 0);
}

/* A folder and an address, and nobody there. */
static inline void fake_init(struct fake *f)
{
        *f = (struct fake){.listener = -1, .peer = -1};
        (void)temp_dir_make(f->dir);
        (void)snprintf(f->path, sizeof(f->path), "%.100s/weir", f->dir);
        (void)snprintf(f->url, sizeof(f->url), "unix:%s", f->path);
        assert_int_equal(pthread_mutex_init(&f->lock, NULL), 0);
}

static inline void fake_play(struct fake *f, size_t n, const struct turn *turns)
{
        assert_int_equal(pthread_mutex_lock(&f->lock), 0);
        memcpy(f->turns, turns, n * sizeof(*turns));
        f->n = n;
        f->at = 0;
        assert_int_equal(pthread_mutex_unlock(&f->lock), 0);
}

static inline void fake_start(struct fake *f)
{
        fake_listen(f);
        assert_int_equal(pipe(f->stop), 0);
        assert_int_equal(pthread_create(&f->thread, NULL, fake_run, f), 0);
}

static inline void fake_new(struct fake *f, size_t n, const struct turn *turns)
{
        fake_init(f);
        fake_play(f, n, turns);
        fake_start(f);
}
#define FAKE(f, ...)                                                                               \
        do {                                                                                       \
                const struct turn turns_[] = {__VA_ARGS__};                                        \
                fake_new((f), ARRAY_LEN(turns_), turns_);                                          \
        } while (0)
#define PLAY(f, ...)                                                                               \
        do {                                                                                       \
                const struct turn turns_[] = {__VA_ARGS__};                                        \
                fake_play((f), ARRAY_LEN(turns_), turns_);                                         \
        } while (0)

static inline void fake_stop(struct fake *f)
{
        if (f->listener < 0)
                return;
        assert_int_equal(write(f->stop[1], "x", 1), 1);
        assert_int_equal(pthread_join(f->thread, NULL), 0);
        (void)close(f->listener);
        (void)close(f->stop[0]);
        (void)close(f->stop[1]);
        (void)unlink(f->path);
        f->listener = -1;
}

static inline void fake_free(struct fake *f)
{
        fake_stop(f);
        (void)pthread_mutex_destroy(&f->lock);
        temp_dir_remove(f->dir);
}

/* Does something to the connection that is open now, from outside of the script. */
static inline void fake_push(struct fake *f, const char *bytes)
{
        assert_int_equal(pthread_mutex_lock(&f->lock), 0);
        assert_true(f->peer >= 0);
        if (bytes)
                assert_int_equal(send(f->peer, bytes, strlen(bytes), 0), strlen(bytes));
        else
                assert_int_equal(shutdown(f->peer, SHUT_RDWR), 0);
        assert_int_equal(pthread_mutex_unlock(&f->lock), 0);
}

static inline struct weir *handle(const struct fake *f, enum weir_policy policy)
{
        struct weir *w;

        assert_int_equal(weir_new(f->url, policy, &w), WEIR_OK);
        /* Long enough for a busy machine; tests of lateness set their own. */
        assert_int_equal(weir_set(w, WEIR_SET_REPLY_MS, 30000), WEIR_OK);
        return w;
}

static const struct weir_ask plain = {.identity = "purge:nightly"};

static inline int64_t now_ns(void)
{
        struct timespec ts;

        assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
        return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

#endif
