/* A server on a bench: real sockets, a log in memory that syncs when told, and a loop that turns
 * when told.  One thread: the test writes to a socket, lets the loop turn until something is true,
 * and reads.  All connections are checked for their invariants after every turn. */
#ifndef WEIR_TESTS_BENCH_H
#define WEIR_TESTS_BENCH_H

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "door/door_int.h"
#include "features/features.h"
#include "support/memory_log.h"
#include "unit/check.h"

#define PATIENCE_NS (120 * NS_PER_S) /* a turn that takes longer will never come */
#define IDLE_TURNS  64               /* so many in which nothing comes, and a turn sleeps first */
#define IDLE_MS     5

struct bench {
        struct memory_log log;
        struct rng rng;
        struct core *core;
        struct loop *loop;
        struct server *server; /* the loop owns it */
        int resp_port, http_port;
        struct bench *other; /* turns with this one; NULL: none */
        unsigned idle;       /* turns since something came */
};

static inline void bench_durable(void *ctx, uint64_t seq)
{
        struct bench *b = ctx;
        loop_log_durable(b->loop, seq);
}

static inline int port_of(const char *address)
{
        int64_t port = 0;
        const char *colon = strrchr(address, ':');
        assert_true(colon && slice_to_i64(slice_str(colon + 1), &port));
        return (int)port;
}

/* Clients must show it; NULL: none. */
static inline void bench_set_token(struct core *core, const char *token)
{
        struct token_setup setup = {.n_secrets = 1};
        if (!token)
                return;
        setup.grant = grant_new(&(struct grant){.name = SLICE_LIT(TOKEN_DEFAULT_NAME),
                                                .roles = ROLE_BIT(ROLE_ADMIN)});
        secret_init(&setup.secrets[0], slice_str(token));
        tokens_configure(core, &setup, 1);
        (void)grant_unref(setup.grant); /* NULL */
}

/* One of a cluster; secret and node NULL: it is alone. */
static inline void bench_init_node(struct bench *b, const char *token, const char *secret,
                                   const char *node)
{
        static const char *const any[] = {":0"};
        struct problem p;
        *b = (struct bench){0};
        (void)signal(SIGPIPE, SIG_IGN); /* as `weir serve` does */
        memory_log_init(&b->log);
        b->log.base.durable = bench_durable;
        b->log.base.ctx = b;
        rng_init_seed(&b->rng, 1);
        struct core_options core = {.parts = &weir_parts, .log = &b->log.base, .rng = &b->rng};
        b->core = core_new(&core);
        assert_int_equal(core_recover(b->core, &p), OK);
        bench_set_token(b->core, token);
        struct server_options options = {.addresses = {{any, 1}, {any, 1}},
                                         .version = "test",
                                         .cluster_secret = secret,
                                         .node = node};
        assert_int_equal(loop_new(&b->loop, &p), OK);
        loop_set_core(b->loop, b->core, 0);
        assert_int_equal(server_new(b->loop, &options, &b->server, &p), OK);
        b->resp_port = port_of(server_address(b->server, SERVER_RESP, 0));
        b->http_port = port_of(server_address(b->server, SERVER_HTTP, 0));
}

static inline void bench_init(struct bench *b, const char *token)
{
        bench_init_node(b, token, NULL, NULL);
}

static inline void bench_release(struct bench *b)
{
        b->loop = loop_free(b->loop);
        b->core = core_free(b->core);
        memory_log_release(&b->log);
}

static inline void turn_one(struct bench *b)
{
        (void)uv_run(&b->loop->uv, UV_RUN_NOWAIT); /* handles are always left */
        LIST_FOREACH(&b->server->conns, it)
        conn_check(CONTAINER_OF(it, struct conn, link));
}

/* Counts turns in which nothing came; after many of them it sleeps until something comes or a timer
 * rings: a test that waits leaves the processor to others. */
static inline void rest(struct bench *b)
{
        struct bench *all[] = {b, b->other};
        struct pollfd fds[2];
        nfds_t n = 0;
        int ms = IDLE_MS;
        for (size_t i = 0; i < ARRAY_LEN(all) && all[i]; i++) {
                int next_ms = uv_backend_timeout(&all[i]->loop->uv); /* -1: there is no timer */
                if (next_ms >= 0 && next_ms < ms)
                        ms = next_ms;
                fds[n++] =
                        (struct pollfd){.fd = uv_backend_fd(&all[i]->loop->uv), .events = POLLIN};
        }
        if (poll(fds, n, b->idle < IDLE_TURNS ? 0 : ms) > 0)
                b->idle = 0;
        else
                b->idle++;
}

static inline void turn(struct bench *b)
{
        rest(b);
        turn_one(b);
        if (b->other)
                turn_one(b->other);
}

/* Turns the loop until the condition holds. */
#define until(b, condition)                                                                        \
        do {                                                                                       \
                int64_t give_up_ns_ = clock_boot_ns() + PATIENCE_NS;                               \
                while (!(condition)) {                                                             \
                        turn(b);                                                                   \
                        assert_true(clock_boot_ns() < give_up_ns_);                                \
                }                                                                                  \
        } while (0)

/* Enough turns for everything that needs no clock: accept, read, commit, write. */
static inline void turns(struct bench *b)
{
        for (int i = 0; i < 20; i++)
                turn(b);
}

/* --- the client's side ---------------------------------------------------------------------- */

static inline int dial(int port)
{
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
        return fd;
}

static inline void tell(int fd, const char *text)
{
        assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What has arrived by now; "" when nothing, NULL at the end of the stream. */
static inline const char *heard(int fd)
{
        static char text[65536];
        ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return "";
        if (n <= 0)
                return NULL; /* closed, or reset */
        text[n] = '\0';
        return text;
}

static inline void expect_text(struct bench *b, int fd, const char *want)
{
        char got[4096] = "";
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        while (strlen(got) < strlen(want)) {
                const char *more = heard(fd);
                assert_non_null(more);
                assert_true(strlen(got) + strlen(more) < sizeof(got));
                memcpy(got + strlen(got), more, strlen(more) + 1);
                turn(b);
                assert_true(clock_boot_ns() < give_up_ns);
        }
        assert_string_equal(got, want);
}

/* The next text that comes, which begins like this. */
static inline const char *expect_begin(struct bench *b, int fd, const char *begin)
{
        const char *text = heard(fd);
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        while (text && !*text) {
                turn(b);
                text = heard(fd);
                assert_true(clock_boot_ns() < give_up_ns);
        }
        assert_non_null(text);
        if (!text || strncmp(text, begin, strlen(begin)) != 0)
                fail_msg("'%s' does not begin with '%s'", text ? text : "", begin);
        return text;
}

/* Something that holds `part`, and then the end. */
static inline void expect_farewell(struct bench *b, int fd, const char *part)
{
        char all[4096] = "";
        const char *more = "";
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        for (; more; more = heard(fd)) {
                assert_true(strlen(all) + strlen(more) < sizeof(all));
                memcpy(all + strlen(all), more, strlen(more) + 1);
                turn(b);
                assert_true(clock_boot_ns() < give_up_ns);
        }
        if (!strstr(all, part))
                fail_msg("'%s' does not hold '%s'", all, part);
}

static inline void expect_nothing(struct bench *b, int fd)
{
        turns(b);
        const char *text = heard(fd);
        assert_non_null(text);
        assert_string_equal(text, "");
}

static inline uint64_t counter(const struct bench *b, const char *name)
{
        struct counter_row rows[CORE_COUNTERS_MAX];
        size_t n = core_counters(b->core, rows, ARRAY_LEN(rows));
        for (size_t i = 0; i < n; i++)
                if (strcmp(rows[i].name, name) == 0)
                        return rows[i].value;
        fail_msg("there is no counter %s", name);
        return 0;
}

static inline uint64_t open_connections(const struct bench *b)
{
        return b->server->counter[DOOR_CONNECTIONS];
}

#endif
