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

#include "core/limits.h"

/* The deadlines of conn.c, short enough to be waited for. */
#define SHORT_MS         60
#define LIMIT_STALL_MS   SHORT_MS
#define LIMIT_PREAUTH_MS SHORT_MS
#include "../../src/door/conn.c" /* NOLINT(bugprone-suspicious-include) */
#undef LIMIT_STALL_MS
#undef LIMIT_PREAUTH_MS

#include "support/memory_log.h"

#define PATIENCE_NS (20 * NS_PER_S) /* a turn that takes longer will never come */
#define GET_HEALTHZ "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

struct bench {
        struct memory_log log;
        struct rng rng;
        struct core *core;
        struct server *server;
        int resp_port, http_port;
};

static void bench_durable(void *ctx, uint64_t seq)
{
        struct bench *b = ctx;
        server_log_durable(b->server, seq);
}

static int port_of(const char *address)
{
        int64_t port = 0;
        const char *colon = strrchr(address, ':');
        assert_true(colon && slice_to_i64(slice_str(colon + 1), &port));
        return (int)port;
}

static void bench_init(struct bench *b, const char *token)
{
        static const char *const any[] = {":0"};
        struct problem p;
        *b = (struct bench){0};
        memory_log_init(&b->log);
        b->log.base.durable = bench_durable;
        b->log.base.ctx = b;
        rng_init_seed(&b->rng, 1);
        struct core_options core = {.log = &b->log.base, .rng = &b->rng};
        b->core = core_new(&core);
        assert_int_equal(core_recover(b->core, &p), OK);
        struct server_options options = {.resp_addrs = any,
                                         .n_resp = 1,
                                         .http_addrs = any,
                                         .n_http = 1,
                                         .token = token,
                                         .version = "test",
                                         .core = b->core};
        assert_int_equal(server_new(&options, &b->server, &p), OK);
        b->resp_port = port_of(server_address(b->server, SERVER_RESP, 0));
        b->http_port = port_of(server_address(b->server, SERVER_HTTP, 0));
}

static void bench_release(struct bench *b)
{
        b->server = server_free(b->server);
        b->core = core_free(b->core);
        memory_log_release(&b->log);
}

static void turn(struct bench *b)
{
        (void)uv_run(&b->server->loop, UV_RUN_NOWAIT); /* handles are always left */
        LIST_FOREACH(&b->server->conns, it)
        conn_check(CONTAINER_OF(it, struct conn, link));
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
static void turns(struct bench *b)
{
        for (int i = 0; i < 20; i++)
                turn(b);
}

/* --- the client's side ---------------------------------------------------------------------- */

static int dial(int port)
{
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
        return fd;
}

static void tell(int fd, const char *text)
{
        assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What has arrived by now; "" when nothing, NULL at the end of the stream. */
static const char *heard(int fd)
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

static void expect_text(struct bench *b, int fd, const char *want)
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

/* Something that holds `part`, and then the end. */
static void expect_farewell(struct bench *b, int fd, const char *part)
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

static void expect_nothing(struct bench *b, int fd)
{
        turns(b);
        const char *text = heard(fd);
        assert_non_null(text);
        assert_string_equal(text, "");
}

static uint64_t counter(const struct bench *b, const char *name)
{
        struct counter_row rows[CORE_COUNTERS_MAX];
        size_t n = core_counters(b->core, rows, ARRAY_LEN(rows));
        for (size_t i = 0; i < n; i++)
                if (strcmp(rows[i].name, name) == 0)
                        return rows[i].value;
        fail_msg("there is no counter %s", name);
        return 0;
}

static uint64_t open_connections(const struct bench *b)
{
        return b->server->counter[DOOR_CONNECTIONS];
}

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
        until(&b, strncmp(heard(other), "*40\r\n", 5) == 0);
        close(fd);
        close(other);
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
        until(&b, strncmp(heard(other), "-NOTOWNER ", 10) == 0);
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
        const char *text = "";
        until(&b, strlen(text = heard(fd)) > 0);
        assert_memory_equal(text, "*1\r\n*12\r\n:1\r\n$32\r\n", 18);
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
        until(&b, strncmp(heard(idle_web), "HTTP/1.1 200 OK\r\n", 17) == 0);
        close(idle);
        close(idle_web);
        close(half);
        close(half_web);
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
        const char *text = heard(fd);
        assert_memory_equal(text, "-NOAUTH ", 8);
        assert_non_null(strstr(text, "+OK\r\n*0\r\n"));
        tell(web, "GET /v1/queues HTTP/1.1\r\nHost: x\r\n\r\n"
                  "GET /v1/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secreT\r\n\r\n"
                  "GET /v1/queues HTTP/1.1\r\nHost: x\r\nAuthorization: bearer secret\r\n\r\n");
        until(&b, b.server->counter[DOOR_HTTP_REQUESTS] == 3);
        text = heard(web);
        assert_memory_equal(text, "HTTP/1.1 401 ", 13);
        assert_non_null(strstr(text, "WWW-Authenticate: Bearer"));
        assert_non_null(strstr(text, "{\"queues\":[]}"));
        assert_int_equal(b.server->counter[DOOR_AUTH_FAILURES], 3);
        close(fd);
        close(web);
        bench_release(&b);
}

/* --- addresses ------------------------------------------------------------------------------ */

static int try_listen(struct bench *b, const char *address, const char *token, struct problem *p)
{
        struct server *s = NULL;
        const char *const addresses[] = {address};
        struct server_options options = {
                .resp_addrs = addresses, .n_resp = 1, .token = token, .core = b->core};
        int r = server_new(&options, &s, p);
        server_free(s);
        return r;
}

static void a_public_address_needs_a_token(void **state)
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
        assert_int_equal(try_listen(&b, "0.0.0.0:0", "token", &p), OK);
        for (size_t i = 0; i < ARRAY_LEN(local_ones); i++)
                assert_int_equal(try_listen(&b, local_ones[i], NULL, &p), OK);
        bench_release(&b);
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

        struct server *s = NULL;
        const char *const addresses[] = {path};
        struct server_options options = {.resp_addrs = addresses, .n_resp = 1, .core = b.core};
        assert_int_equal(server_new(&options, &s, &p), OK);
        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0660);
        assert_string_equal(server_address(s, SERVER_RESP, 0), path);
        assert_null(server_address(s, SERVER_RESP, 1));
        assert_int_equal(try_listen(&b, path, NULL, &p), ERR_LOCKED);
        server_free(s);

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
        server_stop(b.server);
        expect_farewell(&b, idle, "");
        expect_nothing(&b, fd);
        expect_nothing(&b, waiting);
        assert_false(b.server->is_stopped);
        memory_log_sync(&b.log);
        expect_farewell(&b, fd, ":1\r\n");
        expect_farewell(&b, waiting, "*0\r\n");
        until(&b, b.server->is_stopped);
        assert_false(b.server->is_stop_late);
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
        until(&b, strlen(heard(web)) > 0);
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
                cmocka_unit_test(an_error_that_tells_of_the_state_waits_as_well),
                cmocka_unit_test(a_waiting_claim_is_answered_and_the_pipeline_behind_it_goes_on),
                cmocka_unit_test(a_peer_that_leaves_while_it_waits_is_forgotten_at_once),
                cmocka_unit_test(commands_before_the_end_of_the_stream_are_answered),
                cmocka_unit_test(a_request_that_is_not_finished_is_cut_and_an_idle_peer_is_not),
                cmocka_unit_test(drip_does_not_make_a_deadline_longer),
                cmocka_unit_test(a_peer_that_does_not_take_its_output_is_cut),
                cmocka_unit_test(before_authentication_the_bytes_are_counted),
                cmocka_unit_test(the_token_opens_both_doors_and_nothing_else_does),
                cmocka_unit_test(a_public_address_needs_a_token),
                cmocka_unit_test(an_address_that_is_none_is_refused),
                cmocka_unit_test(a_unix_socket_is_for_its_group_and_a_stale_one_is_replaced),
                cmocka_unit_test(stopping_answers_what_was_accepted_and_then_closes),
                cmocka_unit_test(an_idle_connection_holds_no_buffers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
