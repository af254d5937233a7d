/* Turns between connections: a client that floods the server has its go and then waits for the
 * others, and a turn does a bounded amount of work. */
#include "check.h"

#include <stdio.h>

#include "support/bench.h"

#define FLOODERS 20
/* Commands that a flooder sends at once; they fit into the socket, and one read takes them. */
#define FLOOD 4000

static void flood(const int *fds, size_t n, const char *command)
{
        static char text[FLOOD * 16];
        size_t len = strlen(command);
        assert_true(len < 16);
        for (size_t i = 0; i < FLOOD; i++)
                memcpy(text + i * len, command, len);
        for (size_t i = 0; i < n; i++) {
                size_t at = 0;
                while (at < FLOOD * len) {
                        ssize_t sent = send(fds[i], text + at, FLOOD * len - at,
                                            MSG_NOSIGNAL | MSG_DONTWAIT);
                        if (sent <= 0)
                                break; /* the socket is full: that is a flood */
                        at += (size_t)sent;
                }
        }
}

/* All are connected, and the next turn is shared by so many. */
static void warm_up(struct bench *b, size_t n)
{
        until(b, open_connections(b) == n);
        turns(b);
        b->loop->share.n_active = (unsigned)n;
}

static void one_client_does_not_wait_for_all_that_others_have_sent(void **state)
{
        struct bench b;
        int fds[FLOODERS + 1];

        (void)state;
        bench_init(&b, NULL);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                fds[i] = dial(b.resp_port);
        int other = fds[FLOODERS];
        warm_up(&b, ARRAY_LEN(fds));
        flood(fds, FLOODERS, "PING\r\n");
        tell(other, "ECHO hello\r\n");
        uint64_t before = b.server->counter[DOOR_RESP_COMMANDS];
        expect_text(&b, other, "$5\r\nhello\r\n");
        /* Each flooder has a go when its input is read and one in the round, and may begin another
         * while the answer is on its way. */
        uint64_t ran = b.server->counter[DOOR_RESP_COMMANDS] - before;
        if (ran > 4ULL * SHARE_TURN_COMMANDS)
                fail_msg("%llu commands ran before its own", (unsigned long long)ran);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
                close(fds[i]);
        bench_release(&b);
}

static void clients_that_send_the_same_get_equally_far(void **state)
{
        struct bench b;
        int fds[FLOODERS];
        uint64_t share = SHARE_TURN_COMMANDS / FLOODERS;

        (void)state;
        bench_init(&b, NULL);
        for (size_t i = 0; i < FLOODERS; i++)
                fds[i] = dial(b.resp_port);
        warm_up(&b, FLOODERS);
        flood(fds, FLOODERS, "PING\r\n");
        uint64_t before = b.server->counter[DOOR_RESP_COMMANDS];
        until(&b, b.server->counter[DOOR_RESP_COMMANDS] > before + (uint64_t)FLOODERS * FLOOD / 2);
        size_t least = SIZE_MAX, most = 0;
        LIST_FOREACH(&b.server->conns, it)
        {
                const struct conn *c = CONTAINER_OF(it, struct conn, link);
                size_t left = (c->in.len - c->in_at) / strlen("PING\r\n");
                least = left < least ? left : least;
                most = left > most ? left : most;
        }
        assert_true(least > 0);
        if (most - least > 3 * share)
                fail_msg("one has %zu commands left, another %zu", most, least);
        for (size_t i = 0; i < FLOODERS; i++)
                close(fds[i]);
        bench_release(&b);
}

/* What one connection sends is all answered, in order, however many goes it takes. */
static void a_long_pipeline_is_answered_whole(void **state)
{
        struct bench b;
        char want[16];

        (void)state;
        bench_init(&b, NULL);
        int fd = dial(b.resp_port);
        enum { N = 3000 };
        static char text[N * 16], got[N * 16];
        size_t len = 0, have = 0;
        for (int i = 0; i < N; i++)
                len += (size_t)snprintf(text + len, sizeof(text) - len, "ECHO %04d\r\n", i % 10000);
        tell(fd, text);
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        while (have < N * 10UL) {
                turn(&b);
                const char *more = heard(fd);
                assert_non_null(more);
                memcpy(got + have, more, strlen(more));
                have += strlen(more);
                assert_true(clock_boot_ns() < give_up_ns);
        }
        for (int i = 0; i < N; i++) {
                (void)snprintf(want, sizeof(want), "$4\r\n%04d\r\n", i % 10000);
                assert_memory_equal(got + (size_t)i * 10, want, 10);
        }
        /* And when the client has said its last word before they ran. */
        tell(fd, text);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        have = 0;
        for (const char *more = ""; more; more = heard(fd)) {
                have += strlen(more);
                turn(&b);
                assert_true(clock_boot_ns() < give_up_ns);
        }
        assert_int_equal(have, N * 10UL);
        close(fd);
        bench_release(&b);
}

static void work_is_shared_by_those_that_ask_for_it(void **state)
{
        struct share s = {0};
        uint32_t seen[3] = {0};

        (void)state;
        share_begin(&s, 1);
        assert_int_equal(s.commands, SHARE_TURN_COMMANDS); /* alone, as far as is known */
        for (size_t i = 0; i < 3; i++) {
                assert_true(share_enter(&s, &seen[i]));
                assert_false(share_enter(&s, &seen[i])); /* counted once a turn */
        }
        share_begin(&s, 2);
        assert_int_equal(s.commands, SHARE_TURN_COMMANDS / 3);
        for (size_t i = 0; i < 100000; i++) {
                uint32_t one = 0;
                (void)share_enter(&s, &one);
        }
        share_begin(&s, 3);
        assert_int_equal(s.commands, SHARE_LEAST_COMMANDS);
        assert_int_equal(s.bytes, SHARE_LEAST_BYTES);
        assert_int_equal(s.read_bytes, SHARE_LEAST_BYTES);
        /* A turn that ended before all had a go is no reason for larger shares. */
        s.is_over = true;
        share_begin(&s, 4);
        assert_int_equal(s.commands, SHARE_LEAST_COMMANDS);
        share_begin(&s, 5);
        assert_int_equal(s.commands, SHARE_TURN_COMMANDS);
}

static void a_turn_is_over_when_its_time_is(void **state)
{
        struct share s = {0};
        uint64_t now = 1000;

        (void)state;
        share_begin(&s, now);
        share_look(&s, now + SHARE_NS - 1);
        assert_false(s.is_over);
        share_look(&s, now + SHARE_NS);
        assert_true(s.is_over);
        share_extend(&s, now + SHARE_NS);
        assert_false(s.is_over);
        share_look(&s, now + 2 * SHARE_NS);
        assert_true(s.is_over);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_client_does_not_wait_for_all_that_others_have_sent),
                cmocka_unit_test(clients_that_send_the_same_get_equally_far),
                cmocka_unit_test(a_long_pipeline_is_answered_whole),
                cmocka_unit_test(work_is_shared_by_those_that_ask_for_it),
                cmocka_unit_test(a_turn_is_over_when_its_time_is),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
