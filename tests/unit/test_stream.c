/* The live stream on real sockets, with short beats: what listeners get, and what becomes of those
 * who do not read, are too many, or whose session ends. */
#include "check.h"

#include <stdio.h>

#include "door/stream.h"

#undef STREAM_BEAT_MS
#define STREAM_BEAT_MS 2
#include "../../src/door/stream.c" /* NOLINT(bugprone-suspicious-include) */

#include "support/bench.h"

#define GET_LIVE  "GET /v1/live HTTP/1.1\r\nHost: localhost\r\n"
#define HEAD_LIVE "HEAD /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define TOKEN     "secret"

/* All that came since the connection began. */
struct ear {
        int fd;
        bool is_over;
        struct buf all;
};

static struct ear listen_to(struct bench *b, const char *more)
{
        struct ear e = {.fd = dial(b->http_port)};
        buf_init(&e.all, 0);
        tell(e.fd, GET_LIVE);
        tell(e.fd, more);
        tell(e.fd, "\r\n");
        return e;
}

static const char *hear(struct bench *b, struct ear *e)
{
        turn(b);
        const char *more = e->is_over ? "" : heard(e->fd);
        if (more)
                buf_put_str(&e->all, more);
        else
                e->is_over = true;
        return buf_cstr(&e->all);
}

static void hear_of(struct bench *b, struct ear *e, const char *part)
{
        until(b, strstr(hear(b, e), part));
}

static void end_ear(struct ear *e)
{
        close(e->fd);
        buf_release(&e->all);
}

static size_t n_of(const char *text, const char *part)
{
        size_t n = 0;
        for (const char *at = text; (at = strstr(at, part)); at++)
                n++;
        return n;
}

static void do_command(struct bench *b, int fd, const char *line)
{
        tell(fd, line);
        const char *said = expect_begin(b, fd, "");
        assert_true(said[0] == '+' || said[0] == '$');
}

static void a_listener_is_told_what_is_now_again_and_again(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        assert_false(uv_is_active((uv_handle_t *)&b.server->stream.timer.uv));
        struct ear e = listen_to(&b, "");
        hear_of(&b, &e, "retry: 2000\n\n");
        const char *text = hear(&b, &e);
        assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"));
        assert_null(strstr(text, "Content-Length"));
        assert_non_null(strstr(text, "Connection: close\r\n"));
        until(&b, n_of(hear(&b, &e), "event: now\ndata: {\"at_ms\":") > 20);
        assert_true(n_of(hear(&b, &e), "\n\n: still here\n\n") >= 1);
        until(&b, n_of(hear(&b, &e), "}\n\n") > 20);
        end_ear(&e);
        until(&b, open_connections(&b) == 0);
        assert_int_equal(b.server->stream.n, 0);
        assert_false(uv_is_active((uv_handle_t *)&b.server->stream.timer.uv));
        bench_release(&b);
}

static void an_event_reaches_all_who_listen_with_the_same_bytes(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        int fd = dial(b.resp_port);
        do_command(&b, fd, "THROTTLE PAUSE FOR 1000\r\n"); /* before anybody listens */
        struct ear one = listen_to(&b, ""), two = listen_to(&b, "");
        hear_of(&b, &one, "event: now");
        hear_of(&b, &two, "event: now");
        do_command(&b, fd, "THROTTLE RESUME\r\n");
        hear_of(&b, &one, "throttle_resumed");
        hear_of(&b, &two, "throttle_resumed");
        hear_of(&b, &one, "by the operator\"}\n\n");
        hear_of(&b, &two, "by the operator\"}\n\n");
        const char *a = strstr(hear(&b, &one), "event: event");
        const char *c = strstr(hear(&b, &two), "event: event");
        assert_memory_equal(a, c, strcspn(a, "}"));
        assert_null(strstr(hear(&b, &one), "throttle_paused"));
        end_ear(&one);
        end_ear(&two);
        close(fd);
        bench_release(&b);
}

static void who_comes_back_gets_what_it_missed(void **state)
{
        struct bench b;
        char line[80];

        (void)state;
        bench_init(&b, NULL);
        int fd = dial(b.resp_port);
        do_command(&b, fd, "THROTTLE PAUSE FOR 1000\r\n");
        do_command(&b, fd, "THROTTLE RESUME\r\n");
        do_command(&b, fd, "THROTTLE MODE SET observe\r\n");
        long long epoch = (long long)b.server->started_ms;

        (void)snprintf(line, sizeof(line), "Last-Event-ID: %lld-1\r\n", epoch);
        struct ear e = listen_to(&b, line);
        hear_of(&b, &e, "event: now");
        assert_null(strstr(hear(&b, &e), "throttle_paused"));
        (void)snprintf(line, sizeof(line), "id: %lld-2\nevent: event\ndata: {", epoch);
        assert_non_null(strstr(hear(&b, &e), line));
        (void)snprintf(line, sizeof(line), "id: %lld-3\nevent: now\n", epoch);
        assert_non_null(strstr(hear(&b, &e), line));
        assert_int_equal(n_of(hear(&b, &e), "event: event"), 2);
        end_ear(&e);

        /* Of an earlier life of weir: everything is new. */
        (void)snprintf(line, sizeof(line), "Last-Event-ID: %lld-900\r\n", epoch - 1);
        e = listen_to(&b, line);
        hear_of(&b, &e, "event: now");
        assert_int_equal(n_of(hear(&b, &e), "event: event"), 3);
        end_ear(&e);

        /* The newest, a later one, and what we never gave: nothing was missed. */
        static const char *const ids[] = {"%lld-3", "%lld-99", "%lld", "%lld-", "%lld-x", "-", ""};
        for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
                char id[40] = "";
                const char *rest = strncmp(ids[i], "%lld", 4) == 0 ? ids[i] + 4 : NULL;
                if (rest)
                        (void)snprintf(id, sizeof(id), "%lld%s", epoch, rest);
                (void)snprintf(line, sizeof(line), "Last-Event-ID: %s\r\n", rest ? id : ids[i]);
                e = listen_to(&b, line);
                hear_of(&b, &e, "event: now");
                assert_int_equal(n_of(hear(&b, &e), "event: event"), 0);
                end_ear(&e);
        }
        close(fd);
        bench_release(&b);
}

static void events_that_come_too_fast_are_left_out_from_the_oldest_on(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        int fd = dial(b.resp_port);
        for (int i = 0; i < 150; i++)
                do_command(&b, fd, "THROTTLE MODE SET observe\r\n");
        char line[80];
        (void)snprintf(line, sizeof(line), "Last-Event-ID: %lld-0\r\n",
                       (long long)b.server->started_ms);
        struct ear e = listen_to(&b, line);
        hear_of(&b, &e, "event: now");
        assert_int_equal(n_of(hear(&b, &e), "event: event"), STREAM_EVENTS_MAX);
        end_ear(&e);
        close(fd);
        bench_release(&b);
}

static void a_listener_that_does_not_read_is_dropped_and_others_go_on(void **state)
{
        struct bench b;
        int small = 4096;

        (void)state;
        bench_init(&b, NULL);
        struct ear good = listen_to(&b, ""), slow = {.fd = dial(b.http_port)};
        assert_int_equal(setsockopt(slow.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
        buf_init(&slow.all, 0);
        tell(slow.fd, GET_LIVE "\r\n");
        until(&b, b.server->stream.n == 2);
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        while (b.server->stream.n == 2) {
                (void)hear(&b, &good);
                LIST_FOREACH(&b.server->stream.listeners, it)
                {
                        struct stream_listener *l = CONTAINER_OF(it, struct stream_listener, link);
                        assert_true(conn_unsent(l->conn) <=
                                    STREAM_UNSENT_MAX + 4 * KIB); /* and a frame */
                }
                assert_true(clock_boot_ns() < give_up_ns);
        }
        assert_int_equal(b.server->counter[DOOR_CUT], 1);
        size_t n = n_of(hear(&b, &good), "event: now");
        until(&b, n_of(hear(&b, &good), "event: now") > n + 3);
        assert_false(good.is_over);
        end_ear(&good);
        end_ear(&slow);
        bench_release(&b);
}

static void one_listener_too_many_is_refused_until_another_leaves(void **state)
{
        struct bench b;
        struct ear all[LIMIT_LIVE];

        (void)state;
        bench_init(&b, NULL);
        for (size_t i = 0; i < LIMIT_LIVE; i++)
                all[i] = listen_to(&b, "");
        until(&b, b.server->stream.n == LIMIT_LIVE);
        struct ear late = listen_to(&b, "");
        hear_of(&b, &late, "HTTP/1.1 503 ");
        hear_of(&b, &late, "\"code\":\"UNAVAIL\"");
        end_ear(&late);
        end_ear(&all[0]);
        until(&b, b.server->stream.n == LIMIT_LIVE - 1);
        late = listen_to(&b, "");
        hear_of(&b, &late, "event: now");
        end_ear(&late);
        for (size_t i = 1; i < LIMIT_LIVE; i++)
                end_ear(&all[i]);
        bench_release(&b);
}

static void a_listener_asks_nothing_more_and_is_cut_by_no_deadline(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        struct ear e = {.fd = dial(b.http_port)};
        buf_init(&e.all, 0);
        tell(e.fd, GET_LIVE "\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        hear_of(&b, &e, "event: now");
        tell(e.fd, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nand more");
        until(&b, n_of(hear(&b, &e), "event: now") > 10);
        assert_int_equal(n_of(hear(&b, &e), "HTTP/1.1"), 1);
        LIST_FOREACH(&b.server->conns, it)
        {
                struct conn *c = CONTAINER_OF(it, struct conn, link);
                assert_int_equal(c->deadline, CONN_DEADLINE_NONE);
                assert_int_equal(c->in.cap, 0);
        }
        end_ear(&e);
        bench_release(&b);
}

static void head_tells_the_head_and_takes_no_place(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        int fd = dial(b.http_port);
        for (int i = 0; i < 3; i++) {
                tell(fd, HEAD_LIVE);
                const char *text = expect_begin(&b, fd, "HTTP/1.1 200 OK\r\n");
                assert_string_equal(text + strlen(text) - 4, "\r\n\r\n");
        }
        assert_int_equal(b.server->stream.n, 0);
        close(fd);
        bench_release(&b);
}

static void stopping_ends_the_stream_and_waits_for_nobody_who_does_not_read(void **state)
{
        struct bench b;
        int small = 4096;

        (void)state;
        bench_init(&b, NULL);
        struct ear e = listen_to(&b, ""), slow = {.fd = dial(b.http_port)};
        assert_int_equal(setsockopt(slow.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
        buf_init(&slow.all, 0);
        tell(slow.fd, GET_LIVE "\r\n");
        bool is_stuck = false;
        while (!is_stuck) {
                (void)hear(&b, &e);
                LIST_FOREACH(&b.server->stream.listeners, it)
                is_stuck |= CONTAINER_OF(it, struct stream_listener, link)->conn->writing > 0;
        }
        loop_stop(b.loop);
        until(&b, b.loop->is_stopped);
        assert_false(b.loop->is_stop_late);
        until(&b, (hear(&b, &e), e.is_over));
        assert_true(e.all.len > 2 && memcmp(e.all.ptr + e.all.len - 2, "\n\n", 2) == 0);
        end_ear(&e);
        end_ear(&slow);
        bench_release(&b);
}

static void what_is_told_is_durable(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b, NULL);
        struct ear e = listen_to(&b, "");
        hear_of(&b, &e, "event: now");
        b.log.is_manual = true;
        int fd = dial(b.resp_port);
        tell(fd, "THROTTLE PAUSE FOR 1000\r\n");
        until(&b, b.log.in_flight == 1);
        for (int i = 0; i < 100; i++)
                assert_null(strstr(hear(&b, &e), "throttle_paused"));
        memory_log_sync(&b.log);
        hear_of(&b, &e, "throttle_paused");
        end_ear(&e);
        close(fd);
        bench_release(&b);
}

/* Logs in and gives "Cookie: weir_session_...\r\n". */
static void log_in(struct bench *b, char ret[80])
{
        int fd = dial(b->http_port);
        tell(fd, "POST /login HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\n"
                 "Content-Length: 18\r\n\r\n{\"token\":\"" TOKEN "\"}");
        const char *at = strstr(expect_begin(b, fd, "HTTP/1.1 200 "), LOGIN_COOKIE);
        assert_non_null(at);
        (void)snprintf(ret, 80, "Cookie: %.*s\r\n", (int)strcspn(at, ";"), at);
        close(fd);
}

static void a_stream_goes_with_the_session_that_opened_it(void **state)
{
        struct bench b;
        char cookie[80];

        (void)state;
        bench_init(&b, TOKEN);
        struct ear e = listen_to(&b, "");
        hear_of(&b, &e, "HTTP/1.1 401 ");
        end_ear(&e);
        log_in(&b, cookie);
        e = listen_to(&b, cookie);
        struct ear other = listen_to(&b, "Authorization: Bearer " TOKEN "\r\n");
        hear_of(&b, &e, "event: now");
        hear_of(&b, &other, "event: now");
        /* Twelve hours pass in which the stream alone uses it. */
        b.loop->steady_base_ns += 11 * 3600 * NS_PER_S;
        until(&b, n_of(hear(&b, &e), "event: now") > 5);
        b.loop->steady_base_ns += 11 * 3600 * NS_PER_S;
        size_t n = n_of(hear(&b, &e), "event: now");
        until(&b, n_of(hear(&b, &e), "event: now") > n + 5);
        login_release(&b.server->login); /* as when everybody logs out */
        login_init(&b.server->login, SLICE_NONE);
        until(&b, (hear(&b, &e), e.is_over));
        n = n_of(hear(&b, &other), "event: now");
        until(&b, n_of(hear(&b, &other), "event: now") > n + 5);
        end_ear(&e);
        end_ear(&other);
        bench_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_listener_is_told_what_is_now_again_and_again),
                cmocka_unit_test(an_event_reaches_all_who_listen_with_the_same_bytes),
                cmocka_unit_test(who_comes_back_gets_what_it_missed),
                cmocka_unit_test(events_that_come_too_fast_are_left_out_from_the_oldest_on),
                cmocka_unit_test(a_listener_that_does_not_read_is_dropped_and_others_go_on),
                cmocka_unit_test(one_listener_too_many_is_refused_until_another_leaves),
                cmocka_unit_test(a_listener_asks_nothing_more_and_is_cut_by_no_deadline),
                cmocka_unit_test(head_tells_the_head_and_takes_no_place),
                cmocka_unit_test(stopping_ends_the_stream_and_waits_for_nobody_who_does_not_read),
                cmocka_unit_test(what_is_told_is_durable),
                cmocka_unit_test(a_stream_goes_with_the_session_that_opened_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
