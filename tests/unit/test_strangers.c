/* Connections that have not shown the token, and those that show a wrong one: how many are let in,
 * and who has to go.  With real sockets and small limits. */
#include "check.h"

#include <stdio.h>

#include "api/limits.h"
#include "door/address.h"

static bool is_machine_near; /* whether the peers of the test are taken for this machine */
static bool is_near_now(const struct sockaddr *a)
{
        (void)a;
        return is_machine_near;
}

#define SHORT_MS                   60
#define LIMIT_TOKEN_WAIT_MS        SHORT_MS
#define LIMIT_CONNECTIONS          12
#define LIMIT_RESERVED_CONNECTIONS 2
#define LIMIT_ADDRESS_CONNECTIONS  8
#define LIMIT_PREAUTH_CONNECTIONS  5
#define LIMIT_PREAUTH_ADDRESS      4
#define sockaddr_is_loopback       is_near_now
#include "../../src/door/admit.c" /* NOLINT(bugprone-suspicious-include) */
#include "../../src/door/conn.c"  /* NOLINT(bugprone-suspicious-include) */
#undef LIMIT_TOKEN_WAIT_MS
#undef LIMIT_CONNECTIONS
#undef LIMIT_RESERVED_CONNECTIONS
#undef LIMIT_ADDRESS_CONNECTIONS
#undef LIMIT_PREAUTH_CONNECTIONS
#undef LIMIT_PREAUTH_ADDRESS
#undef sockaddr_is_loopback
/* As above, for the tests. */
#define ALL      12
#define RESERVED 2
#define OF_ONE   8
#define STRANGE  4
#define FAR      5

#include "support/bench.h"

#define TOKEN   "correct horse battery staple"
#define WRONG   "AUTH 'wrong horse battery staple'\r\n"
#define RIGHT   "AUTH '" TOKEN "'\r\n"
#define BEARER  "GET /v1/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
#define LOGIN   "POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
#define BY_FORM LOGIN "Content-Length: 17\r\n\r\n{\"token\":\"wrong\"}"

static int dial_in(struct bench *b)
{
        uint64_t before = b->server->counter[DOOR_ACCEPTED];
        int fd = dial(b->resp_port);
        until(b, b->server->counter[DOOR_ACCEPTED] == before + 1);
        return fd;
}

static bool is_gone(struct bench *b, int fd)
{
        turns(b);
        const char *text = heard(fd);
        while (text && *text)
                text = heard(fd);
        return !text;
}

/* --- wrong tokens --------------------------------------------------------------------------- */

/* Ten wrong tokens, which are answered at once. */
static void use_up(struct bench *b)
{
        int fd = dial_in(b);
        for (int i = 0; i < LIMIT_TOKEN_FAILURES; i++) {
                tell(fd, WRONG);
                (void)expect_begin(b, fd, "-BADTOKEN ");
        }
        close(fd);
        until(b, open_connections(b) == 0);
}

/* The answer that is in the socket comes late, and then the end. */
static void expect_late(struct bench *b, int fd, uint64_t failures, const char *part)
{
        until(b, b->server->counter[DOOR_AUTH_FAILURES] == failures);
        int64_t begun_ns = b->loop->now.steady_ns;
        expect_farewell(b, fd, part);
        assert_true(b->loop->now.steady_ns - begun_ns >= SHORT_MS * NS_PER_MS);
        close(fd);
}

static void after_ten_wrong_tokens_the_answer_waits_and_is_the_last(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, TOKEN);
        use_up(&b);
        int fd = dial_in(&b);
        /* What comes behind the wrong one is not looked at. */
        tell(fd, WRONG WRONG WRONG RIGHT "QUEUES\r\n");
        expect_late(&b, fd, 11, "-BADTOKEN ");
        assert_int_equal(b.server->counter[DOOR_AUTH_FAILURES], 11);
        fd = dial_in(&b);
        tell(fd, "HELLO 3 AUTH user wrong\r\n");
        expect_late(&b, fd, 12, "-BADTOKEN ");
        bench_release(&b);
}

static void http_is_held_to_the_same(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, TOKEN);
        use_up(&b);
        int web = dial(b.http_port);
        tell(web, BEARER "wrong\r\n\r\n" BEARER "wrong\r\n\r\n");
        expect_late(&b, web, 11, "HTTP/1.1 401 ");
        web = dial(b.http_port);
        tell(web, BY_FORM);
        expect_late(&b, web, 12, "HTTP/1.1 401 ");
        web = dial(b.http_port);
        tell(web, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n"
                  "Authorization: Bearer wrong\r\n\r\n{");
        expect_late(&b, web, 13, "Connection: close");
        bench_release(&b);
}

static void the_right_token_is_answered_at_once_all_the_same(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, TOKEN);
        use_up(&b);
        int fd = dial_in(&b);
        tell(fd, RIGHT);
        expect_text(&b, fd, "+OK\r\n");
        int web = dial(b.http_port);
        tell(web, BEARER TOKEN "\r\n\r\n");
        (void)expect_begin(&b, web, "HTTP/1.1 200 ");
        close(fd);
        close(web);
        bench_release(&b);
}

static void a_server_that_stops_does_not_wait_for_wrong_tokens(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, TOKEN);
        use_up(&b);
        int fd = dial_in(&b);
        tell(fd, WRONG);
        until(&b, b.server->counter[DOOR_AUTH_FAILURES] == 11);
        loop_stop(b.loop);
        assert_int_equal(open_connections(&b), 0);
        close(fd);
        bench_release(&b);
}

/* --- strangers ------------------------------------------------------------------------------ */

static void the_oldest_stranger_makes_room_for_a_new_one(void **state)
{
        struct bench b;
        int fds[STRANGE + 1];

        (void)state;
        for (int near = 0; near < 2; near++) {
                is_machine_near = near;
                bench_init(&b, TOKEN);
                int known = dial_in(&b);
                tell(known, RIGHT);
                expect_text(&b, known, "+OK\r\n");
                for (int i = 0; i < STRANGE; i++)
                        fds[i] = dial_in(&b);
                turns(&b);
                assert_int_equal(open_connections(&b), STRANGE + 1);
                fds[STRANGE] = dial_in(&b);
                expect_farewell(&b, fds[0], "-LIMIT ");
                assert_int_equal(b.server->counter[DOOR_CUT_STRANGERS], 1);
                assert_int_equal(open_connections(&b), STRANGE + 1);
                /* Those that are left can still show it, and are strangers no more. */
                tell(fds[1], RIGHT);
                expect_text(&b, fds[1], "+OK\r\n");
                int more = dial_in(&b);
                assert_false(is_gone(&b, fds[2]));
                assert_false(is_gone(&b, known));
                tell(known, "RESET\r\n"); /* and one of them becomes one again */
                expect_text(&b, known, "+RESET\r\n");
                close(more);
                close(known);
                for (int i = 0; i <= STRANGE; i++)
                        close(fds[i]);
                until(&b, open_connections(&b) == 0);
                assert_int_equal(b.server->strangers, 0);
                assert_int_equal(b.server->peers.by_name.len, 0);
                bench_release(&b);
        }
}

/* From 127.0.0.n, which is an address of its own while is_machine_near is false. */
static int dial_from(struct bench *b, uint32_t n)
{
        uint64_t before = b->server->counter[DOOR_ACCEPTED];
        struct sockaddr_in from = {.sin_family = AF_INET,
                                   .sin_addr = {htonl(INADDR_LOOPBACK - 1 + n)}};
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)b->resp_port),
                                 .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
        until(b, b->server->counter[DOOR_ACCEPTED] == before + 1);
        return fd;
}

static void of_all_other_machines_the_oldest_stranger_goes_and_none_of_this_one(void **state)
{
        struct bench b;
        int fds[FAR + 1];

        (void)state;
        bench_init(&b, TOKEN);
        is_machine_near = true;
        int near = dial_in(&b); /* the oldest of all */
        is_machine_near = false;
        for (uint32_t i = 0; i < FAR; i++)
                fds[i] = dial_from(&b, i + 1);
        assert_int_equal(b.server->strangers, FAR);
        assert_int_equal(b.server->counter[DOOR_CUT_STRANGERS], 0);
        fds[FAR] = dial_from(&b, FAR + 1);
        expect_farewell(&b, fds[0], "-LIMIT ");
        assert_int_equal(b.server->strangers, FAR);
        assert_false(is_gone(&b, near));
        assert_false(is_gone(&b, fds[1]));
        for (size_t i = 0; i <= FAR; i++)
                close(fds[i]);
        close(near);
        bench_release(&b);
}

static void those_that_showed_a_wrong_token_go_first(void **state)
{
        struct bench b;
        int fds[STRANGE];

        (void)state;
        is_machine_near = false;
        bench_init(&b, TOKEN);
        use_up(&b);
        for (int i = 0; i < STRANGE; i++)
                fds[i] = dial_in(&b);
        tell(fds[2], WRONG);
        until(&b, b.server->counter[DOOR_AUTH_FAILURES] == 11);
        int more = dial_in(&b);
        assert_true(is_gone(&b, fds[2]));
        assert_false(is_gone(&b, fds[0]));
        close(more);
        for (int i = 0; i < STRANGE; i++)
                close(fds[i]);
        bench_release(&b);
}

/* --- surplus -------------------------------------------------------------------------------- */

static int known(struct bench *b)
{
        int fd = dial_in(b);
        tell(fd, RIGHT);
        (void)expect_begin(b, fd, "+OK\r\n");
        return fd;
}

static void one_address_cannot_have_all_connections_and_this_machine_has_a_reserve(void **state)
{
        struct bench b;
        int fds[ALL];
        size_t n = 0;

        (void)state;
        is_machine_near = false;
        bench_init(&b, TOKEN);
        while (n < OF_ONE)
                fds[n++] = known(&b);
        int one_more = dial_in(&b);
        expect_farewell(&b, one_more, "from this address");
        close(one_more);
        is_machine_near = true;
        while (n < ALL - RESERVED)
                fds[n++] = known(&b);
        is_machine_near = false;
        one_more = dial_in(&b);
        expect_farewell(&b, one_more, "10 connections are open");
        close(one_more);
        is_machine_near = true;
        while (n < ALL)
                fds[n++] = known(&b);
        one_more = dial_in(&b);
        expect_farewell(&b, one_more, "12 connections are open");
        close(one_more);
        assert_int_equal(b.server->counter[DOOR_REFUSED], 3);
        while (n)
                close(fds[--n]);
        bench_release(&b);
}

static void a_connection_on_one_of_the_last_descriptors_is_turned_away(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        is_machine_near = true;
        int fd = dial_in(&b), used;
        LIST_FOREACH(&b.server->conns, it)
        assert_int_equal(uv_fileno(&CONTAINER_OF(it, struct conn, link)->uv.handle, &used), 0);
        /* Our own ends of the sockets take descriptors too: the next is two further. */
        b.server->files_max = used + 3 + SPARE_FILES_NEAR;
        int next = dial_in(&b);
        tell(next, "PING\r\n");
        expect_text(&b, next, "+PONG\r\n");
        int surplus = dial_in(&b);
        expect_farewell(&b, surplus, "-LIMIT ");
        assert_int_equal(b.server->counter[DOOR_REFUSED], 1);
        close(fd);
        close(next);
        close(surplus);
        bench_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(after_ten_wrong_tokens_the_answer_waits_and_is_the_last),
                cmocka_unit_test(http_is_held_to_the_same),
                cmocka_unit_test(the_right_token_is_answered_at_once_all_the_same),
                cmocka_unit_test(a_server_that_stops_does_not_wait_for_wrong_tokens),
                cmocka_unit_test(the_oldest_stranger_makes_room_for_a_new_one),
                cmocka_unit_test(
                        of_all_other_machines_the_oldest_stranger_goes_and_none_of_this_one),
                cmocka_unit_test(those_that_showed_a_wrong_token_go_first),
                cmocka_unit_test(
                        one_address_cannot_have_all_connections_and_this_machine_has_a_reserve),
                cmocka_unit_test(a_connection_on_one_of_the_last_descriptors_is_turned_away),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
