/* The server with real sockets, a log that syncs when told, and short deadlines: when replies may
 * leave, how connections end, who may connect.
 *
 * One thread: the test writes to a socket, lets the loop turn until something is true, and reads.
 * All connections are checked for their invariants after every turn. */
#include "check.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "api/limits.h"

/* The deadlines of conn.c, short enough to be waited for, and long enough for a busy machine. */
#define SHORT_MS         300
#define LIMIT_STALL_MS   SHORT_MS
#define LIMIT_PREAUTH_MS SHORT_MS
#include "../../src/door/conn.c" /* NOLINT(bugprone-suspicious-include) */
#undef LIMIT_STALL_MS
#undef LIMIT_PREAUTH_MS

#include "support/bench.h"

#define GET_HEALTHZ "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* --- when replies leave --------------------------------------------------------------------- */

static void a_reply_leaves_when_its_batch_is_durable_and_not_before(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        b.log.is_manual = true;
        int fd = dial(b.resp_port);
        tell(fd, "PING\r\nENQUEUE h a\r\nPING\r\n");
        /* What comes before the job need not wait; what comes after it must not overtake it. */
        expect_text(&b, fd, "+PONG\r\n");
        expect_nothing(&b, fd);
        memory_log_sync(&b.log);
        expect_text(&b, fd, ":1\r\n+PONG\r\n");
        close(fd);
        bench_release(&b);
}

static void the_batches_of_a_connection_are_let_go_one_by_one(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        b.log.is_manual = true;
        int fd = dial(b.resp_port), other = dial(b.resp_port);
        tell(fd, "ENQUEUE h a\r\n");
        until(&b, b.log.in_flight == 1);
        tell(fd, "ENQUEUE h b\r\nPING x\r\n");
        tell(other, "JOB 1\r\n"); /* who sees a job sees it durable */
        expect_nothing(&b, fd);
        expect_nothing(&b, other);
        memory_log_sync(&b.log);
        expect_text(&b, fd, ":1\r\n");
        expect_nothing(&b, fd);
        assert_int_equal(b.log.in_flight, 2);
        memory_log_sync(&b.log);
        expect_text(&b, fd, ":2\r\n$1\r\nx\r\n");
        (void)expect_begin(&b, other, "*42\r\n");
        close(fd);
        close(other);
        bench_release(&b);
}

/* With slow syncs the loop waits a little for more; the batch that closes that wait may be synced
 * on the loop itself, which wakes nobody. */
static void a_batch_synced_after_a_wait_for_more_is_answered(void **state)
{
        enum { CLIENTS = 5 };
        struct bench b;
        int fds[CLIENTS];

        (void)state;
        bench_init(&b, NULL);
        b.loop->thread = pthread_self();
        b.log.is_manual = true;
        b.log.stat.sync_ns_last = 4000000;
        for (int i = 0; i < CLIENTS; i++)
                fds[i] = dial(b.resp_port);
        turns(&b);
        for (int i = 0; i < CLIENTS; i++)
                tell(fds[i], "ENQUEUE h a\r\n");
        while (b.loop->durable_seen < core_reply_seq(b.core) || !b.log.last_seq) {
                turns(&b);
                memory_log_sync(&b.log);
                tell(fds[0], "PING\r\n"); /* a log with a thread would wake the loop */
                turn(&b);
        }
        assert_true(b.loop->gather_until_ns > 0);
        b.log.is_manual = false;
        b.log.stat.sync_ns_last = 1000;
        tell(fds[1], "ENQUEUE h b\r\n");
        (void)expect_begin(&b, fds[1], ":");
        expect_text(&b, fds[1], ":6\r\n");
        for (int i = 0; i < CLIENTS; i++)
                close(fds[i]);
        bench_release(&b);
}

enum { GATHERED = 5 };

static bool nothing_happened(struct log *log, uint64_t bytes)
{
        (void)log;
        (void)bytes;
        return false;
}

/* Clients of a log of several machines whose commits are slow, just answered: the loop waits for
 * their next commands. */
static void wait_for_more(struct bench *b, struct log_ops *ops, int fds[GATHERED])
{
        *ops = *b->log.base.ops;
        ops->poll = nothing_happened;
        b->log.base.ops = ops;
        b->loop->thread = pthread_self();
        b->log.is_manual = true;
        b->log.stat.sync_ns_last = 60 * NS_PER_S;
        for (int i = 0; i < GATHERED; i++)
                fds[i] = dial(b->resp_port);
        /* Again, should this process have slept meanwhile. */
        while (!b->loop->gather_until_ns) {
                for (int i = 0; i < GATHERED; i++)
                        tell(fds[i], "ENQUEUE h a\r\n");
                while (b->loop->durable_seen < core_reply_seq(b->core) || !b->log.last_seq) {
                        turns(b);
                        memory_log_sync(&b->log);
                        tell(fds[0], "PING\r\n"); /* a log with a thread would wake the loop */
                        turn(b);
                }
        }
        assert_true(loop_timer_is_on(&b->loop->gather_timer)); /* asleep */
}

static void slow_commits_of_several_machines_take_all_answered_clients_along(void **state)
{
        struct bench b;
        struct log_ops ops;
        int fds[GATHERED];

        (void)state;
        bench_init(&b, NULL);
        wait_for_more(&b, &ops, fds);
        uint64_t seq = b.log.last_seq;
        b.loop->gather_until_ns = b.loop->gather_want = UINT64_MAX;
        loop_timer_start(&b.loop->gather_timer, INT32_MAX, 0);
        turns(&b);
        for (int i = 0; i < GATHERED; i++)
                tell(fds[i], "ENQUEUE h b\r\n");
        uint64_t before = b.loop->n_requests;
        until(&b, b.loop->n_requests >= before + GATHERED);
        assert_int_equal(b.log.last_seq, seq);
        b.loop->gather_want = b.loop->n_requests + 1;
        tell(fds[0], "ENQUEUE h c\r\n");
        until(&b, b.log.in_flight == seq + 1);
        assert_int_equal(b.loop->gather_until_ns, 0);
        assert_int_equal(b.loop->gather_rest, 0);
        memory_log_sync(&b.log);
        assert_int_equal(b.loop->committed, b.loop->n_requests); /* in one batch */
        for (int i = 0; i < GATHERED; i++)
                close(fds[i]);
        bench_release(&b);
}

static void a_wait_in_vain_is_not_repeated_at_once(void **state)
{
        struct bench b;
        struct log_ops ops;
        int fds[GATHERED];

        (void)state;
        bench_init(&b, NULL);
        wait_for_more(&b, &ops, fds);
        uint64_t seq = b.log.last_seq;
        tell(fds[0], "ENQUEUE h b\r\n");
        until(&b, b.log.in_flight == seq + 1); /* the timer has rung */
        assert_int_equal(b.loop->gather_missed, 2);
        assert_int_equal(b.loop->gather_rest, 4);
        uint64_t before = b.loop->n_requests;
        for (int i = 0; i < GATHERED; i++)
                tell(fds[i], "ENQUEUE h c\r\n");
        until(&b, b.loop->n_requests >= before + GATHERED);
        for (int i = 2; i <= 3; i++) {
                memory_log_sync(&b.log);
                tell(fds[0], "ENQUEUE h d\r\n");
                until(&b, b.log.in_flight == seq + (uint64_t)i);
        }
        assert_int_equal(b.loop->gather_rest, 3); /* five were answered */
        assert_int_equal(b.loop->gather_until_ns, 0);
        for (int i = 0; i < GATHERED; i++)
                close(fds[i]);
        bench_release(&b);
}

static void an_error_that_tells_of_the_state_waits_as_well(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        b.log.is_manual = true;
        int fd = dial(b.resp_port), other = dial(b.resp_port);
        tell(fd, "ENQUEUE h a\r\n");
        until(&b, b.log.in_flight == 1);
        tell(other, "COMPLETE 1 00000000000000000000000000000000\r\n");
        expect_nothing(&b, other);
        memory_log_sync(&b.log);
        (void)expect_begin(&b, other, "-NOTOWNER ");
        close(fd);
        close(other);
        bench_release(&b);
}

static void a_waiting_claim_is_answered_and_the_pipeline_behind_it_goes_on(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        int fd = dial(b.resp_port), other = dial(b.resp_port);
        tell(fd, "CLAIM w WAIT 60000 QUEUES q\r\nPING after\r\n");
        until(&b, counter(&b, "waiting_claims") == 1);
        expect_nothing(&b, fd);
        tell(other, "ENQUEUE h a QUEUE q\r\n");
        expect_text(&b, other, ":1\r\n");
        const char *text = expect_begin(&b, fd, "*1\r\n*12\r\n:1\r\n$32\r\n");
        assert_non_null(strstr(text, "$5\r\nafter\r\n"));
        close(fd);
        close(other);
        bench_release(&b);
}

static void a_peer_that_leaves_while_it_waits_is_forgotten_at_once(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        for (int i = 0; i < 2; i++) {
                int fd = dial(b.resp_port);
                tell(fd, "CLAIM w WAIT 60000 QUEUES q\r\nPING\r\n");
                until(&b, counter(&b, "waiting_claims") == 1);
                if (i == 0)
                        close(fd); /* politely */
                else
                        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER,
                                                    &(struct linger){1, 0}, sizeof(struct linger)),
                                         0);
                if (i == 1)
                        close(fd); /* with a reset */
                until(&b, counter(&b, "waiting_claims") == 0 && open_connections(&b) == 0);
        }
        bench_release(&b);
}

static void commands_before_the_end_of_the_stream_are_answered(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        b.log.is_manual = true;
        int fd = dial(b.resp_port);
        tell(fd, "ENQUEUE h a\r\nPING x\r\nPIN");
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        until(&b, b.log.in_flight == 1);
        expect_nothing(&b, fd);
        memory_log_sync(&b.log);
        expect_farewell(&b, fd, ":1\r\n$1\r\nx\r\n");
        close(fd);
        bench_release(&b);
}

/* --- deadlines ------------------------------------------------------------------------------ */

static void a_request_that_is_not_finished_is_cut_and_an_idle_peer_is_not(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        int idle = dial(b.resp_port), idle_web = dial(b.http_port);
        int half = dial(b.resp_port), half_web = dial(b.http_port);
        tell(idle, "PING\r\n");
        expect_text(&b, idle, "+PONG\r\n");
        int64_t begun_ns = clock_boot_ns();
        tell(half, "*2\r\n$4\r\nPI");
        tell(half_web, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12");
        expect_farewell(&b, half, "-TIMEOUT ");
        assert_true(clock_boot_ns() - begun_ns >= SHORT_MS * NS_PER_MS);
        expect_farewell(&b, half_web, "HTTP/1.1 408 ");
        assert_int_equal(b.server->counter[DOOR_CUT], 2);
        tell(idle, "PING\r\n");
        expect_text(&b, idle, "+PONG\r\n");
        tell(idle_web, GET_HEALTHZ);
        (void)expect_begin(&b, idle_web, "HTTP/1.1 200 OK\r\n");
        close(idle);
        close(idle_web);
        close(half);
        close(half_web);
        bench_release(&b);
}

/* weir stood still: what the client sent in time is read before it is told that it was late. */
static void a_token_that_came_in_time_counts_however_late_it_is_read(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, "secret");
        int fd = dial(b.resp_port);
        until(&b, open_connections(&b) == 1);
        tell(fd, "AUTH secret\r\n");
        int64_t late_ns = clock_boot_ns() + 5 * SHORT_MS * NS_PER_MS;
        while (clock_boot_ns() < late_ns) /* no turn is made */
                ;
        expect_text(&b, fd, "+OK\r\n");
        int silent = dial(b.resp_port);
        expect_farewell(&b, silent, "-NOAUTH ");
        close(fd);
        close(silent);
        bench_release(&b);
}

static void drip_does_not_make_a_deadline_longer(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, "a token");
        int fd = dial(b.resp_port), finished = dial(b.resp_port);
        tell(finished, "AUTH 'a token'\r\n");
        expect_text(&b, finished, "+OK\r\n");
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        while (open_connections(&b) == 2) {
                (void)send(fd, "x", 1, MSG_NOSIGNAL); /* fails once it is cut */
                turn(&b);
                assert_true(clock_boot_ns() < give_up_ns);
        }
        tell(finished, "PING\r\n");
        expect_text(&b, finished, "+PONG\r\n");
        close(fd);
        close(finished);
        bench_release(&b);
}

static void a_peer_that_does_not_take_its_output_is_cut(void **state)
{
        struct bench b;
        static char job[LIMIT_PAYLOAD_BYTES + 64];

        (void)state;
        bench_init(&b, NULL);
        int fd = dial(b.resp_port), other = dial(b.resp_port);
        int head = snprintf(job, sizeof(job), "*3\r\n$7\r\nENQUEUE\r\n$1\r\nh\r\n$%d\r\n",
                            LIMIT_PAYLOAD_BYTES);
        memset(job + head, 'x', LIMIT_PAYLOAD_BYTES);
        (void)snprintf(job + head + LIMIT_PAYLOAD_BYTES, 3, "\r\n");
        for (const char *at = job; *at; turn(&b)) {
                ssize_t n = send(other, at, strlen(at), MSG_DONTWAIT | MSG_NOSIGNAL);
                at += n > 0 ? n : 0;
        }
        expect_text(&b, other, ":1\r\n");
        /* More than the sockets hold, and more than the server keeps: it stops running them. */
        for (int i = 0; i < 40; i++)
                tell(fd, "JOB 1\r\n");
        until(&b, b.server->counter[DOOR_RESP_COMMANDS] > 4);
        until(&b, open_connections(&b) == 1);
        assert_int_equal(b.server->counter[DOOR_CUT], 1);
        assert_true(b.server->counter[DOOR_RESP_COMMANDS] < 40);
        tell(other, "PING\r\n");
        expect_text(&b, other, "+PONG\r\n");
        close(fd);
        close(other);
        bench_release(&b);
}

/* --- authentication ------------------------------------------------------------------------- */

/* No other client says anything then, so no later turn would take the reason along. */
static void a_request_that_is_cut_for_its_memory_is_told_why_in_the_same_turn(void **state)
{
        static char body[150001];
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        b.server->client_bytes_max = 64 * KIB;
        memset(body, 'x', sizeof(body) - 1);
        int fd = dial(b.resp_port);
        tell(fd, "*3\r\n$7\r\nENQUEUE\r\n$1\r\nh\r\n$900000\r\n");
        tell(fd, body);
        until(&b, b.server->counter[DOOR_CUT_MEMORY] == 1);
        const char *said = heard(fd);
        assert_non_null(said);
        assert_non_null(strstr(said, "-LIMIT all clients together hold more than client_memory"));
        close(fd);
        bench_release(&b);
}

static void before_authentication_the_bytes_are_counted(void **state)
{
        struct bench b;

        (void)state;
        for (size_t n = LIMIT_PREAUTH_BYTES - 1; n <= LIMIT_PREAUTH_BYTES + 1; n++) {
                bench_init(&b, "a token");
                char text[LIMIT_PREAUTH_BYTES + 2];
                int fd = dial(b.resp_port);
                memset(text, ' ', n); /* a line of blanks asks for nothing */
                text[n - 1] = '\n';
                text[n] = '\0';
                tell(fd, text);
                until(&b, b.server->counter[DOOR_BYTES_IN] == n);
                if (n <= LIMIT_PREAUTH_BYTES) {
                        expect_nothing(&b, fd);
                } else {
                        expect_farewell(&b, fd, "-");
                }
                close(fd);
                bench_release(&b);
        }
}

static void the_token_opens_both_doors_and_nothing_else_does(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, "secret");
        int fd = dial(b.resp_port), web = dial(b.http_port);
        tell(fd, "QUEUES\r\nAUTH secre\r\nAUTH secret1\r\nAUTH secret\r\nQUEUES\r\n");
        until(&b, b.server->counter[DOOR_RESP_COMMANDS] == 5);
        const char *text = expect_begin(&b, fd, "-NOAUTH ");
        assert_non_null(strstr(text, "+OK\r\n*0\r\n"));
        tell(web, "GET /v1/queues HTTP/1.1\r\nHost: x\r\n\r\n"
                  "GET /v1/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secreT\r\n\r\n"
                  "GET /v1/queues HTTP/1.1\r\nHost: x\r\nAuthorization: bearer secret\r\n\r\n");
        until(&b, b.server->counter[DOOR_HTTP_REQUESTS] == 3);
        text = expect_begin(&b, web, "HTTP/1.1 401 ");
        assert_non_null(strstr(text, "WWW-Authenticate: Bearer"));
        assert_non_null(strstr(text, "{\"queues\":[]}"));
        assert_int_equal(b.server->counter[DOOR_AUTH_FAILURES], 3);
        close(fd);
        close(web);
        bench_release(&b);
}

/* --- addresses ------------------------------------------------------------------------------ */

static bool is_insecure = true; /* of try_listen() */

static int try_listen(struct bench *b, const char *address, const char *token, struct problem *p)
{
        struct loop *loop;
        struct server *s;
        const char *const addresses[] = {address};
        struct server_options options = {.addresses = {{addresses, 1}}, .is_insecure = is_insecure};
        struct address a;
        assert_int_equal(loop_new(&loop, p), OK);
        loop_set_core(loop, b->core, 0);
        if (token && *token)
                bench_set_token(b->core, token);
        else
                tokens_configure(b->core, NULL, 0);
        int r = server_new(loop, &options, &s, p);
        if (r == OK && token)
                r = address_parse(address, &a, p);
        if (r == OK && token)
                r = address_check_token(&a, address, token, p);
        loop_free(loop);
        return r;
}

static const struct sockaddr *sockaddr_of(const char *text, struct sockaddr_storage *ret)
{
        int r = strchr(text, ':') ? uv_ip6_addr(text, 1, (struct sockaddr_in6 *)ret)
                                  : uv_ip4_addr(text, 1, (struct sockaddr_in *)ret);
        assert_int_equal(r, 0);
        return (const struct sockaddr *)ret;
}

static void a_public_address_needs_a_token_and_TLS(void **state)
{
        static const char *const public_ones[] = {"0.0.0.0:0", "[::]:0"};
        static const char *const local_ones[] = {":0", "127.0.0.1:0", "127.9.8.7:0", "localhost:0"};
        struct bench b;
        struct problem p;

        (void)state;
        bench_init(&b, NULL);
        for (size_t i = 0; i < ARRAY_LEN(public_ones); i++) {
                assert_int_equal(try_listen(&b, public_ones[i], NULL, &p), ERR_FORBIDDEN);
                assert_non_null(strstr(p.detail, "token"));
                assert_int_equal(try_listen(&b, public_ones[i], "", &p), ERR_FORBIDDEN);
        }
        assert_int_equal(try_listen(&b, "0.0.0.0:0", "0123456789abcdef012345", &p), OK);
        assert_int_equal(try_listen(&b, "0.0.0.0:0", "0123456789abcdef01234", &p), ERR_FORBIDDEN);
        assert_non_null(strstr(p.detail, "22 characters or more, not 21"));
        assert_int_equal(try_listen(&b, "0.0.0.0:0", "0123456012345601234560", &p), ERR_FORBIDDEN);
        assert_non_null(strstr(p.detail, "8 different characters or more, not 7"));
        assert_int_equal(try_listen(&b, "[::]:0", "0123456701234567012345", &p), OK);
        assert_int_equal(try_listen(&b, "127.0.0.1:0", "token", &p), OK);
        is_insecure = false;
        for (size_t i = 0; i < ARRAY_LEN(public_ones); i++) {
                assert_int_equal(try_listen(&b, public_ones[i], NULL, &p), ERR_FORBIDDEN);
                assert_non_null(strstr(p.detail, "set a token"));
                assert_int_equal(try_listen(&b, public_ones[i], "0123456789abcdef012345", &p),
                                 ERR_FORBIDDEN);
                assert_non_null(strstr(p.detail, public_ones[i]));
                assert_non_null(strstr(p.detail, "resp_tls or http_tls"));
                assert_non_null(strstr(p.detail, "listen on 127.0.0.1"));
                assert_non_null(strstr(p.detail, "insecure = true"));
        }
        for (size_t i = 0; i < ARRAY_LEN(local_ones); i++)
                assert_int_equal(try_listen(&b, local_ones[i], NULL, &p), OK);
        is_insecure = true;
        bench_release(&b);
}

static void an_address_is_of_this_machine_or_not(void **state)
{
        static const char *const own[] = {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"};
        static const char *const others[] = {"10.0.0.1", "128.0.0.1",         "0.0.0.0",
                                             "::",       "::ffff:10.0.0.127", "fe80::1"};
        struct sockaddr_storage a;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(own); i++)
                assert_true(sockaddr_is_loopback(sockaddr_of(own[i], &a)));
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                assert_false(sockaddr_is_loopback(sockaddr_of(others[i], &a)));
        a.ss_family = AF_UNIX;
        assert_false(sockaddr_is_loopback((const struct sockaddr *)&a));
}

static void an_address_that_is_none_is_refused(void **state)
{
        static const char *const wrong[] = {"",   "localhost", "127.0.0.1:",  ":65536", ":-1",
                                            ":x", "::1:80",    "1.2.3.4.5:1", ":01"};
        struct bench b;
        struct problem p;
        char path[200];

        (void)state;
        bench_init(&b, NULL);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                assert_int_equal(try_listen(&b, wrong[i], NULL, &p), ERR_BADARG);
        memset(path, 'x', sizeof(path));
        path[0] = '/';
        path[108] = '\0';
        assert_int_equal(try_listen(&b, path, NULL, &p), ERR_BADARG);
        assert_int_equal(try_listen(&b, "/nowhere/at/all", NULL, &p), ERR_IO);
        bench_release(&b);
}

static void a_unix_socket_is_for_its_group_and_a_stale_one_is_replaced(void **state)
{
        char folder[] = "/tmp/weir-test.XXXXXX", path[64];
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        struct bench b;
        struct problem p;
        struct stat st;

        (void)state;
        bench_init(&b, NULL);
        assert_non_null(mkdtemp(folder));
        (void)snprintf(path, sizeof(path), "%s/s", folder);
        (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
        int stale = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(bind(stale, (struct sockaddr *)&un, sizeof(un)), 0);
        close(stale); /* the file stays, and nobody answers */
        assert_int_equal(try_listen(&b, path, NULL, &p), OK);
        assert_int_equal(lstat(path, &st), -1); /* gone with its server */

        struct loop *loop;
        struct server *s;
        const char *const addresses[] = {path};
        struct server_options options = {.addresses = {{addresses, 1}}};
        assert_int_equal(loop_new(&loop, &p), OK);
        loop_set_core(loop, b.core, 0);
        assert_int_equal(server_new(loop, &options, &s, &p), OK);
        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0660);
        assert_string_equal(server_address(s, SERVER_RESP, 0), path);
        assert_null(server_address(s, SERVER_RESP, 1));
        assert_int_equal(try_listen(&b, path, NULL, &p), ERR_LOCKED);
        loop_free(loop);

        FILE *f = fopen(path, "w");
        assert_non_null(f);
        (void)fclose(f);
        assert_int_equal(try_listen(&b, path, NULL, &p), ERR_BADARG);
        assert_int_equal(unlink(path), 0); /* was left alone */
        assert_int_equal(rmdir(folder), 0);
        bench_release(&b);
}

/* --- ends ----------------------------------------------------------------------------------- */

static void stopping_answers_what_was_accepted_and_then_closes(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        b.log.is_manual = true;
        int fd = dial(b.resp_port), idle = dial(b.http_port), waiting = dial(b.resp_port);
        tell(waiting, "CLAIM w WAIT 60000 QUEUES q\r\n");
        until(&b, counter(&b, "waiting_claims") == 1);
        memory_log_sync(&b.log);
        tell(fd, "ENQUEUE h a\r\n");
        until(&b, b.log.in_flight > 0);
        loop_stop(b.loop);
        expect_farewell(&b, idle, "");
        expect_nothing(&b, fd);
        expect_nothing(&b, waiting);
        assert_false(b.loop->is_stopped);
        memory_log_sync(&b.log);
        expect_farewell(&b, fd, ":1\r\n");
        expect_farewell(&b, waiting, "*0\r\n");
        until(&b, b.loop->is_stopped);
        assert_false(b.loop->is_stop_late);
        close(fd);
        close(idle);
        close(waiting);
        bench_release(&b);
}

static void an_idle_connection_holds_no_buffers(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        int fd = dial(b.resp_port), web = dial(b.http_port);
        tell(fd, "*2\r\n$4\r\nECHO\r\n$3\r\nab");
        turns(&b);
        tell(fd, "c\r\n");
        expect_text(&b, fd, "$3\r\nabc\r\n");
        tell(web, GET_HEALTHZ);
        (void)expect_begin(&b, web, "HTTP/1.1 200 ");
        assert_int_equal(open_connections(&b), 2);
        LIST_FOREACH(&b.server->conns, it)
        {
                struct conn *c = CONTAINER_OF(it, struct conn, link);
                assert_int_equal(c->in.cap + c->out.cap, 0);
                assert_true(c->door->conn_bytes <= 1024);
                assert_int_equal(c->deadline, CONN_DEADLINE_NONE);
        }
        close(fd);
        close(web);
        bench_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_reply_leaves_when_its_batch_is_durable_and_not_before),
                cmocka_unit_test(the_batches_of_a_connection_are_let_go_one_by_one),
                cmocka_unit_test(a_batch_synced_after_a_wait_for_more_is_answered),
                cmocka_unit_test(slow_commits_of_several_machines_take_all_answered_clients_along),
                cmocka_unit_test(a_wait_in_vain_is_not_repeated_at_once),
                cmocka_unit_test(an_error_that_tells_of_the_state_waits_as_well),
                cmocka_unit_test(a_waiting_claim_is_answered_and_the_pipeline_behind_it_goes_on),
                cmocka_unit_test(a_peer_that_leaves_while_it_waits_is_forgotten_at_once),
                cmocka_unit_test(commands_before_the_end_of_the_stream_are_answered),
                cmocka_unit_test(a_request_that_is_not_finished_is_cut_and_an_idle_peer_is_not),
                cmocka_unit_test(a_token_that_came_in_time_counts_however_late_it_is_read),
                cmocka_unit_test(drip_does_not_make_a_deadline_longer),
                cmocka_unit_test(a_peer_that_does_not_take_its_output_is_cut),
                cmocka_unit_test(a_request_that_is_cut_for_its_memory_is_told_why_in_the_same_turn),
                cmocka_unit_test(before_authentication_the_bytes_are_counted),
                cmocka_unit_test(the_token_opens_both_doors_and_nothing_else_does),
                cmocka_unit_test(a_public_address_needs_a_token_and_TLS),
                cmocka_unit_test(an_address_is_of_this_machine_or_not),
                cmocka_unit_test(an_address_that_is_none_is_refused),
                cmocka_unit_test(a_unix_socket_is_for_its_group_and_a_stale_one_is_replaced),
                cmocka_unit_test(stopping_answers_what_was_accepted_and_then_closes),
                cmocka_unit_test(an_idle_connection_holds_no_buffers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
