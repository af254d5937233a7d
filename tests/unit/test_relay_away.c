/* A server that follows, when the leader cannot be had: with a short patience, so that it can be
 * waited for. */
#include "check.h"

#include <stdio.h>

#include "door/server.h"

#undef RELAY_WAIT_MS
#define RELAY_WAIT_MS 60
#include "../../src/door/conn.c" /* NOLINT(bugprone-suspicious-include) */

#include "support/bench.h"

#define SECRET "the secret of the cluster"
#define WEB    "HTTP/1.1\r\nHost: localhost\r\n"

static void bench_follow(struct bench *b, const char *leader)
{
        bench_init_node(b, NULL, SECRET, "b");
        server_follow(b->server, leader);
}

static void expect_part(struct bench *b, int fd, const char *part)
{
        struct buf all CLEANUP(buf_release) = {0};
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        while (!strstr(buf_cstr(&all), part)) {
                const char *more = heard(fd);
                if (!more || clock_boot_ns() > give_up_ns)
                        fail_msg("'%s' does not hold '%s'", buf_cstr(&all), part);
                buf_put_str(&all, more ? more : "");
                turn(b);
        }
}

#define ENQUEUE "ENQUEUE h private\r\n"

/* Asks until the answer holds `part`: a slow machine may need more than one patience to get there.
 */
static void ask_until(struct bench *b, int fd, const char *part)
{
        struct buf all CLEANUP(buf_release) = {0};
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        tell(fd, ENQUEUE);
        while (!strstr(buf_cstr(&all), part)) {
                const char *more = heard(fd);
                if (!more || clock_boot_ns() > give_up_ns)
                        fail_msg("'%s' does not hold '%s'", buf_cstr(&all), part);
                if (more && *more)
                        tell(fd, ENQUEUE);
                buf_put_str(&all, more ? more : "");
                turn(b);
        }
}

static void without_a_leader_a_client_is_told_and_may_go_on(void **state)
{
        struct bench b;
        (void)state;
        bench_follow(&b, NULL);
        int fd = dial(b.resp_port), web = dial(b.http_port), ended = dial(b.resp_port);
        tell(fd, "PING a\r\nENQUEUE h a\r\nPING b\r\nIDEMPOTENT k ENQUEUE h a\r\nPING c\r\n");
        tell(web, "GET /v1/queues " WEB "\r\nGET /healthz " WEB "\r\n");
        tell(ended, "ENQUEUE h a\r\n");
        assert_int_equal(shutdown(ended, SHUT_WR), 0);
        struct buf all CLEANUP(buf_release) = {0};
        until(&b, (buf_put_str(&all, heard(fd)), strstr(buf_cstr(&all), "$1\r\nc\r\n")));
        const char *told = "-UNAVAIL no weir of this cluster leads now";
        assert_non_null(strstr(buf_cstr(&all), "$1\r\na\r\n-UNAVAIL "));
        assert_int_equal(times(buf_cstr(&all), told), 2);
        expect_part(&b, web, "\r\n\r\nok\n");
        expect_farewell(&b, ended, told);
        tell(web, "GET /v1/queues " WEB "\r\n");
        expect_part(&b, web, "HTTP/1.1 503 ");
        /* The next request waits again. */
        tell(web, "GET /v1/queues " WEB "\r\n");
        expect_part(&b, web, "Retry-After: 1\r\n");
        tell(fd, "PING\r\n");
        expect_text(&b, fd, "+PONG\r\n");
        assert_int_equal(b.log.last_seq, 0);
        close(fd);
        close(web);
        close(ended);
        bench_release(&b);
}

static void a_request_whose_body_is_missing_ends_the_connection(void **state)
{
        struct bench b;
        (void)state;
        bench_follow(&b, NULL);
        int web = dial(b.http_port);
        tell(web, "POST /v1/jobs " WEB "Content-Length: 100\r\n\r\n{");
        expect_farewell(&b, web, "HTTP/1.1 503 ");
        close(web);
        bench_release(&b);
}

/* A port that nothing listens on. */
static int dead_port(void)
{
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t len = sizeof(at);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
        close(fd);
        return ntohs(at.sin_port);
}

static void an_unreachable_leader_is_named_with_what_is_wrong(void **state)
{
        struct bench b;
        char address[32];
        (void)state;
        (void)snprintf(address, sizeof(address), "127.0.0.1:%d", dead_port());
        bench_follow(&b, address);
        int fd = dial(b.resp_port), other = dial(b.resp_port);
        ask_until(&b, fd, "connection refused");
        ask_until(&b, other, address);
        assert_true(b.server->counter[DOOR_RELAY_FAILURES] > 0);
        close(fd);
        close(other);
        fd = dial(b.resp_port);
        tell(fd, "ROLE\r\n");
        expect_part(&b, fd, "$7\r\nconnect\r\n");
        close(fd);
        bench_release(&b);
}

static void no_address_at_all_is_told(void **state)
{
        struct bench b;
        (void)state;
        bench_follow(&b, "/tmp/a.sock");
        int fd = dial(b.resp_port);
        tell(fd, "ENQUEUE h a\r\n");
        expect_part(&b, fd, "-UNAVAIL ");
        close(fd);
        server_follow(b.server, "no-such-host.invalid:7379");
        fd = dial(b.resp_port);
        ask_until(&b, fd, "-UNAVAIL the host of the leader no-such-host.invalid:7379 is unknown");
        close(fd);
        bench_release(&b);
}

static void another_secret_is_told_to_the_client(void **state)
{
        struct bench leader, b;
        char address[32];
        (void)state;
        bench_init_node(&leader, NULL, "another secret", "a");
        (void)snprintf(address, sizeof(address), "127.0.0.1:%d", leader.resp_port);
        bench_follow(&b, address);
        b.other = &leader;
        int fd = dial(b.resp_port);
        ask_until(&b, fd, "not the same cluster secret");
        assert_int_equal(leader.server->counter[DOOR_RELAYED], 0);
        assert_int_equal(leader.log.last_seq, 0);
        close(fd);
        bench_release(&b);
        bench_release(&leader);
}

/* Whoever listens there and does not know the secret gets nothing of the client. */
static void an_impostor_gets_no_request(void **state)
{
        struct bench b;
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t len = sizeof(at);
        char address[32], got[2048] = "";
        (void)state;
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(listen(listener, 8), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
        (void)snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
        bench_follow(&b, address);
        int fd = dial(b.resp_port), line = -1;
        tell(fd, ENQUEUE);
        for (int64_t end_ns = clock_boot_ns() + PATIENCE_NS; line < 0; turn(&b)) {
                line = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (*heard(fd))
                        tell(fd, ENQUEUE);
                assert_true(clock_boot_ns() < end_ns);
        }
        (void)send(line, "+WEIR 0000\r\n", 12, MSG_NOSIGNAL);
        expect_part(&b, fd, "-UNAVAIL ");
        ssize_t n = recv(line, got, sizeof(got), 0);
        for (ssize_t i = 0; i + 7 <= n; i++)
                assert_true(memcmp(got + i, "private", 7) != 0);
        close(fd);
        close(line);
        close(listener);
        bench_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(without_a_leader_a_client_is_told_and_may_go_on),
                cmocka_unit_test(a_request_whose_body_is_missing_ends_the_connection),
                cmocka_unit_test(an_unreachable_leader_is_named_with_what_is_wrong),
                cmocka_unit_test(no_address_at_all_is_told),
                cmocka_unit_test(another_secret_is_told_to_the_client),
                cmocka_unit_test(an_impostor_gets_no_request),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
