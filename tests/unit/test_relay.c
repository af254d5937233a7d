/* Two servers of a cluster in one thread, each with its own core, log and loop: the one leads, the
 * other follows and relays.  Real sockets between them. */
#include "check.h"

#include <stdio.h>

#include "support/bench.h"
#include "support/tls_peer.h"
#include "wire/relay_header.h"

#define SECRET   "the secret of the cluster"
#define WEB      "HTTP/1.1\r\nHost: localhost\r\n"
#define NAMED    "GET /v1/queues " WEB "\r\n"
#define BIG      1048576
#define REMAINED "+PONG\r\n"

struct pair {
        struct bench leader, follower;
        char address[32]; /* of the leader */
};

static void pair_init(struct pair *p, const char *token)
{
        bench_init_node(&p->leader, token, SECRET, "a");
        bench_init_node(&p->follower, token, SECRET, "b");
        p->leader.other = &p->follower;
        p->follower.other = &p->leader;
        (void)snprintf(p->address, sizeof(p->address), "127.0.0.1:%d", p->leader.resp_port);
        server_follow(p->follower.server, p->address);
}

static void pair_release(struct pair *p)
{
        bench_release(&p->follower);
        bench_release(&p->leader);
}

static uint64_t door_count(const struct bench *b, enum door_counter which)
{
        return b->server->counter[which];
}

/* A token of that role for both; `default` stays the admin's. */
static void add_token(struct bench *b, const char *secret, enum role role)
{
        struct token_setup setups[2] = {{.n_secrets = 1}, {.n_secrets = 1}};
        setups[0].grant = grant_new(&(struct grant){.name = SLICE_LIT(TOKEN_DEFAULT_NAME),
                                                    .roles = ROLE_BIT(ROLE_ADMIN)});
        setups[1].grant =
                grant_new(&(struct grant){.name = SLICE_LIT("limited"), .roles = ROLE_BIT(role)});
        secret_init(&setups[0].secrets[0], SLICE_LIT("admin"));
        secret_init(&setups[1].secrets[0], slice_str(secret));
        tokens_configure(b->core, setups, 2);
        (void)grant_unref(setups[0].grant); /* NULL */
        (void)grant_unref(setups[1].grant); /* NULL */
}

/* Everything that comes, until it holds `part`. */
static const char *hear_until(struct bench *b, int fd, struct buf *all, const char *part)
{
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        while (!strstr(buf_cstr(all), part)) {
                const char *more = heard(fd);
                if (!more)
                        fail_msg("it closed after '%s' and without '%s'", buf_cstr(all), part);
                buf_put_str(all, more);
                turn(b);
                if (clock_boot_ns() > give_up_ns)
                        fail_msg("'%s' never had '%s'", buf_cstr(all), part);
        }
        return buf_cstr(all);
}

static void expect_part(struct bench *b, int fd, const char *part)
{
        struct buf all CLEANUP(buf_release) = {0};
        (void)hear_until(b, fd, &all, part);
}

/* Exactly this, and then the end. */
static void expect_last(struct bench *b, int fd, const char *want)
{
        struct buf all CLEANUP(buf_release) = {0};
        const char *more = "";
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        for (; more; more = heard(fd)) {
                buf_put_str(&all, more);
                turn(b);
                assert_true(clock_boot_ns() < give_up_ns);
        }
        assert_string_equal(buf_cstr(&all), want);
}

static void expect_pong(struct bench *b, int fd)
{
        tell(fd, "PING\r\n");
        expect_text(b, fd, REMAINED);
}

/* --- RESP ----------------------------------------------------------------------------------- */

static void a_pipeline_is_answered_in_order_by_both(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        int fd = dial(p.follower.resp_port);
        tell(fd, "PING here\r\nENQUEUE h a\r\nPING there\r\nENQUEUE h b\r\n");
        expect_text(&p.follower, fd, "$4\r\nhere\r\n:1\r\n$5\r\nthere\r\n:2\r\n");
        assert_int_equal(door_count(&p.follower, DOOR_RELAYS), 1);
        assert_int_equal(door_count(&p.leader, DOOR_RELAYED), 1);
        assert_int_equal(door_count(&p.follower, DOOR_RESP_COMMANDS), 1);
        assert_int_equal(door_count(&p.leader, DOOR_RESP_COMMANDS), 3);
        assert_int_equal(p.follower.log.last_seq, 0);
        close(fd);
        until(&p.follower, open_connections(&p.follower) + open_connections(&p.leader) == 0);
        assert_int_equal(door_count(&p.follower, DOOR_RELAYS), 0);
        pair_release(&p);
}

static void what_was_asked_before_the_end_of_the_stream_is_answered(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        int fd = dial(p.follower.resp_port);
        tell(fd, "ENQUEUE h a\r\nENQUEUE h b\r\nPIN");
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        expect_farewell(&p.follower, fd, ":1\r\n:2\r\n");
        close(fd);
        pair_release(&p);
}

static void checks_and_small_talk_are_answered_by_the_follower(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        int fd = dial(p.follower.resp_port);
        tell(fd, "HELLO 3\r\n");
        expect_part(&p.follower, fd, "$7\r\nreplica\r\n");
        tell(fd, "CLIENT SETNAME me\r\n");
        expect_text(&p.follower, fd, "+OK\r\n");
        tell(fd, "CHECK app\r\n");
        (void)expect_begin(&p.follower, fd, "*");
        tell(fd, "ACL WHOAMI\r\n");
        expect_text(&p.follower, fd, "$7\r\ndefault\r\n");
        assert_int_equal(open_connections(&p.leader), 0);
        /* The leader knows what was said here. */
        tell(fd, "ENQUEUE h a\r\n");
        expect_text(&p.follower, fd, ":1\r\n");
        tell(fd, "CLIENT GETNAME\r\n");
        expect_text(&p.follower, fd, "$2\r\nme\r\n");
        tell(fd, "JOB 2\r\n");
        (void)expect_begin(&p.follower, fd, "-NOTFOUND ");
        close(fd);
        pair_release(&p);
}

static void a_claim_waits_at_the_leader(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        int fd = dial(p.follower.resp_port), gone = dial(p.follower.resp_port);
        int other = dial(p.leader.resp_port);
        tell(fd, "CLAIM w WAIT 60000 QUEUES q\r\nPING after\r\n");
        tell(gone, "CLAIM w WAIT 60000 QUEUES r\r\n");
        until(&p.leader, counter(&p.leader, "waiting_claims") == 2);
        expect_nothing(&p.follower, fd);
        close(gone);
        until(&p.leader, counter(&p.leader, "waiting_claims") == 1);
        tell(other, "ENQUEUE h a QUEUE q\r\n");
        expect_text(&p.leader, other, ":1\r\n");
        struct buf all CLEANUP(buf_release) = {0};
        const char *text = hear_until(&p.follower, fd, &all, "$5\r\nafter\r\n");
        assert_int_equal(strncmp(text, "*1\r\n*12\r\n:1\r\n", 13), 0);
        close(fd);
        close(other);
        pair_release(&p);
}

/* A request larger than the sockets hold, sent in pieces between turns. */
static void send_big(struct bench *b, int fd, const char *bytes, size_t n)
{
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        while (n) {
                ssize_t sent = send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
                assert_true(sent > 0 || errno == EAGAIN);
                if (sent > 0) {
                        bytes += sent;
                        n -= (size_t)sent;
                }
                turn(b);
                assert_true(clock_boot_ns() < give_up_ns);
        }
}

static void large_payloads_pass_both_ways_and_a_slow_reader_costs_little(void **state)
{
        enum { TIMES = 24 };
        struct pair p;
        struct buf job CLEANUP(buf_release) = {0};
        (void)state;
        pair_init(&p, NULL);
        int fd = dial(p.follower.resp_port);
        buf_printf(&job, "*3\r\n$7\r\nENQUEUE\r\n$1\r\nh\r\n$%d\r\n", BIG);
        for (int i = 0; i < BIG; i++)
                buf_put_byte(&job, (char)('a' + i % 26));
        buf_put_str(&job, "\r\n");
        send_big(&p.follower, fd, job.ptr, job.len);
        expect_text(&p.follower, fd, ":1\r\n");
        /* The second goes through an open relay, which keeps no whole request. */
        send_big(&p.follower, fd, job.ptr, job.len);
        expect_text(&p.follower, fd, ":2\r\n");
        for (int i = 0; i < TIMES; i++)
                tell(fd, "JOB 2\r\n");
        until(&p.follower, door_count(&p.leader, DOOR_RESP_COMMANDS) > 4);
        for (int i = 0; i < 20; i++)
                turns(&p.follower); /* enough to read all of it */
        /* Neither of the two holds more than it may for one that does not read. */
        assert_true(door_count(&p.follower, DOOR_CLIENT_BYTES) <=
                    2 * LIMIT_OUTPUT_BYTES + 4 * SERVER_READ_BYTES);
        assert_true(door_count(&p.leader, DOOR_RESP_COMMANDS) < 2 + TIMES);
        size_t got = 0, whole = 0;
        int64_t give_up_ns = clock_boot_ns() + 3 * PATIENCE_NS;
        while (whole < TIMES) {
                const char *more = heard(fd);
                assert_non_null(more);
                got += strlen(more);
                whole = got / (BIG + 1); /* each has a little more than its payload */
                turn(&p.follower);
                assert_true(clock_boot_ns() < give_up_ns);
        }
        until(&p.follower,
              *heard(fd) == '\0' && conn_unsent(CONTAINER_OF(p.follower.server->conns.next,
                                                             struct conn, link)) == 0);
        tell(fd, "PING\r\n");
        expect_text(&p.follower, fd, "+PONG\r\n");
        close(fd);
        pair_release(&p);
}

/* --- HTTP ----------------------------------------------------------------------------------- */

static void requests_of_a_kept_connection_are_relayed(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        int web = dial(p.follower.http_port);
        tell(web, "GET /healthz " WEB "\r\n");
        expect_part(&p.follower, web, "\r\n\r\nok\n");
        tell(web, "POST /v1/check " WEB "Content-Type: application/json\r\n"
                  "Content-Length: 18\r\n\r\n{\"identity\":\"app\"}");
        expect_part(&p.follower, web, "HTTP/1.1 200 OK\r\n");
        tell(web, "GET /check/app/mysql/main " WEB "\r\n");
        expect_part(&p.follower, web, "HTTP/1.1 ");
        turns(&p.follower);
        (void)heard(web);
        assert_int_equal(open_connections(&p.leader), 0);
        /* Chunks arrive as they were sent, and in pieces. */
        tell(web, "POST /v1/jobs " WEB "Content-Type: application/json\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"hoo\r\n6\r\nk\":\"h\"\r\n");
        turns(&p.follower);
        tell(web, "1\r\n}\r\n0\r\n\r\nGET /v1/jobs/1 " WEB "\r\n");
        struct buf all CLEANUP(buf_release) = {0};
        const char *text = hear_until(&p.follower, web, &all, "\"hook\":\"h\"");
        assert_int_equal(strncmp(text, "HTTP/1.1 201 ", 13), 0);
        tell(web, NAMED);
        expect_part(&p.follower, web, "{\"queues\":[{");
        assert_int_equal(door_count(&p.leader, DOOR_RELAYED), 1);
        close(web);
        pair_release(&p);
}

static void the_page_and_its_events_pass_through(void **state)
{
        struct pair p;
        struct buf all CLEANUP(buf_release) = {0};
        (void)state;
        pair_init(&p, NULL);
        int web = dial(p.follower.http_port), live = dial(p.follower.http_port);
        tell(web, "GET / " WEB "\r\n");
        expect_part(&p.follower, web, "HTTP/1.1 200 OK\r\nContent-Type: text/html");
        assert_int_equal(open_connections(&p.leader), 0);
        tell(live, "GET /v1/live " WEB "\r\n");
        (void)hear_until(&p.follower, live, &all, "event: now\ndata: {");
        assert_int_equal(p.leader.server->stream.n, 1);
        assert_int_equal(p.follower.server->stream.n, 0);
        close(live);
        until(&p.leader, p.leader.server->stream.n == 0);
        close(web);
        pair_release(&p);
}

static void the_leader_judges_host_and_origin_of_the_follower(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        int web = dial(p.follower.http_port);
        tell(web, "GET /v1/queues HTTP/1.1\r\nHost: weir.example\r\n\r\n");
        expect_part(&p.follower, web, "HTTP/1.1 421 ");
        close(web);
        web = dial(p.follower.http_port);
        tell(web, "DELETE /v1/jobs/1 " WEB "Origin: http://evil.test\r\n\r\n");
        expect_part(&p.follower, web, "HTTP/1.1 403 ");
        close(web);
        pair_release(&p);
}

static void a_browser_logs_in_through_the_follower(void **state)
{
        struct pair p;
        struct buf all CLEANUP(buf_release) = {0};
        char cookie[128] = "", request[512];
        (void)state;
        pair_init(&p, "secret");
        int web = dial(p.follower.http_port);
        tell(web, NAMED);
        expect_part(&p.follower, web, "HTTP/1.1 401 ");
        close(web);
        web = dial(p.follower.http_port);
        tell(web, "POST /login " WEB "Content-Type: application/json\r\nContent-Length: 18\r\n\r\n"
                  "{\"token\":\"secret\"}");
        const char *text = hear_until(&p.follower, web, &all, "\"csrf\":\"");
        const char *set = strstr(text, "Set-Cookie: ");
        assert_non_null(set);
        assert_int_equal(sscanf(set, "Set-Cookie: %127[^;]", cookie), 1);
        (void)snprintf(request, sizeof(request), "GET /v1/queues " WEB "Cookie: %s\r\n\r\n",
                       cookie);
        tell(web, request);
        expect_part(&p.follower, web, "{\"queues\":[]}");
        tell(web, "GET /v1/queues " WEB "Authorization: Bearer secret\r\n\r\n");
        expect_part(&p.follower, web, "{\"queues\":[]}");
        close(web);
        pair_release(&p);
}

/* --- who is there ---------------------------------------------------------------------------- */

static void a_token_that_was_shown_here_holds_there(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, "admin");
        add_token(&p.leader, "limited", ROLE_READER);
        add_token(&p.follower, "limited", ROLE_READER);
        int fd = dial(p.follower.resp_port), late = dial(p.follower.resp_port);
        tell(fd, "QUEUES\r\n");
        (void)expect_begin(&p.follower, fd, "-NOAUTH ");
        assert_int_equal(open_connections(&p.leader), 0);
        tell(fd, "AUTH limited\r\n");
        expect_text(&p.follower, fd, "+OK\r\n");
        tell(fd, "QUEUES\r\n");
        expect_text(&p.follower, fd, "*0\r\n");
        tell(fd, "ENQUEUE h a\r\n");
        (void)expect_begin(&p.follower, fd, "-FORBIDDEN ");
        tell(fd, "ACL WHOAMI\r\n");
        expect_text(&p.follower, fd, "$7\r\nlimited\r\n");
        /* From here on the leader looks at tokens. */
        tell(fd, "AUTH wrong\r\n");
        (void)expect_begin(&p.follower, fd, "-BADTOKEN ");
        tell(fd, "AUTH admin\r\n");
        expect_text(&p.follower, fd, "+OK\r\n");
        tell(fd, "ENQUEUE h a\r\n");
        expect_text(&p.follower, fd, ":1\r\n");
        tell(late, "HELLO 3 AUTH limited limited SETNAME n\r\n");
        expect_part(&p.follower, late, "$7\r\nmodules\r\n*0\r\n");
        tell(late, "JOB 1\r\n");
        (void)expect_begin(&p.follower, late, "%21\r\n");
        close(fd);
        close(late);
        pair_release(&p);
}

static void a_token_that_the_leader_does_not_know_is_refused(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, "admin");
        add_token(&p.follower, "limited", ROLE_READER);
        int fd = dial(p.follower.resp_port);
        tell(fd, "AUTH limited\r\n");
        expect_text(&p.follower, fd, "+OK\r\n");
        tell(fd, "QUEUES\r\n");
        expect_farewell(&p.follower, fd, "-BADTOKEN ");
        close(fd);
        pair_release(&p);
}

/* --- the leader's end ------------------------------------------------------------------------- */

static void put_header(struct buf *b, const char *secret, const char *address, char nonce)
{
        struct relay_header h = {.has_address = true,
                                 .door = RELAY_RESP,
                                 .proto = 2,
                                 .node = SLICE_LIT("b"),
                                 .sent_ms = clock_wall_ms(),
                                 .nonce = {(uint8_t)nonce}};
        assert_true(ip_parse(slice_str(address), &h.ip));
        assert_true(relay_header_put(b, &h, slice_str(secret)));
}

static int dial_with(int port, const struct buf *header)
{
        int fd = dial(port);
        assert_int_equal(send(fd, header->ptr, header->len, MSG_NOSIGNAL), header->len);
        return fd;
}

static void a_relayed_connection_is_the_clients(void **state)
{
        struct pair p;
        struct buf header CLEANUP(buf_release) = {0};
        (void)state;
        pair_init(&p, NULL);
        put_header(&header, SECRET, "192.0.2.7", 1);
        int fd = dial(p.leader.resp_port);
        for (size_t i = 0; i < header.len; i++) { /* in the smallest pieces */
                assert_int_equal(send(fd, header.ptr + i, 1, MSG_NOSIGNAL), 1);
                turn(&p.leader);
        }
        expect_part(&p.leader, fd, "\r\n");
        struct conn *c = CONTAINER_OF(p.leader.server->conns.next, struct conn, link);
        assert_string_equal(c->session.address, "192.0.2.7");
        assert_false(c->is_near);
        expect_pong(&p.leader, fd);
        close(fd);
        pair_release(&p);
}

/* A client of HTTP whose certificate its weir has seen: it shows nothing else, request by request.
 */
static void a_certificate_that_was_shown_there_holds_here(void **state)
{
        struct pair p;
        struct buf header CLEANUP(buf_release) = {0};
        struct relay_header h = {.door = RELAY_HTTP,
                                 .is_tls = true,
                                 .is_certified = true,
                                 .token = SLICE_LIT("limited"),
                                 .sent_ms = clock_wall_ms()};
        (void)state;
        pair_init(&p, "admin");
        add_token(&p.leader, "limited", ROLE_READER);
        assert_true(relay_header_put(&header, &h, SLICE_LIT(SECRET)));
        int web = dial_with(p.leader.resp_port, &header);
        expect_part(&p.leader, web, "+WEIR ");
        for (int i = 0; i < 2; i++) {
                tell(web, NAMED);
                expect_part(&p.leader, web, "{\"queues\":[]}");
        }
        tell(web, "DELETE /v1/jobs/1 " WEB "\r\n");
        expect_part(&p.leader, web, "HTTP/1.1 403 ");
        /* Its page came over TLS. */
        tell(web, "GET /v1/queues " WEB "Origin: http://localhost\r\n\r\n");
        expect_part(&p.leader, web, "another origin");
        tell(web, "GET /v1/queues " WEB "Origin: https://localhost\r\n\r\n");
        expect_part(&p.leader, web, "{\"queues\":[]}");
        close(web);
        pair_release(&p);
}

static void a_leader_with_tls_is_reached_and_known(void **state)
{
        static const char *const any[] = {":0"};
        struct pair p;
        struct cert_bed bed;
        struct server *secured;
        struct problem problem;
        char url[PEER_PATH_MAX + 64];
        (void)state;
        pair_init(&p, NULL);
        bed_init(&bed);
        struct server_options options = {.addresses = {[SERVER_RESP_TLS] = {any, 1}},
                                         .tls = {.cert = bed.cert_path, .key = bed.key_path},
                                         .cluster_secret = SECRET};
        assert_int_equal(server_new(p.leader.loop, &options, &secured, &problem), OK);
        int port = port_of(server_address(secured, SERVER_RESP_TLS, 0));
        (void)snprintf(url, sizeof(url), "rediss://127.0.0.1:%d?ca=%s", port, bed.ca_path);
        server_follow(p.follower.server, url);
        int fd = dial(p.follower.resp_port), web = dial(p.follower.http_port);
        tell(fd, "PING\r\nENQUEUE h a\r\nPING x\r\n");
        expect_text(&p.follower, fd, "+PONG\r\n:1\r\n$1\r\nx\r\n");
        /* The way to the leader is encrypted; the client's is not, and its page is its own. */
        tell(web, "POST /v1/jobs " WEB "Origin: http://localhost\r\n"
                  "Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"hook\":\"h\"}");
        expect_part(&p.follower, web, "HTTP/1.1 201 ");
        tell(fd, "ENQUEUE h a\r\n");
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        expect_farewell(&p.follower, fd, ":3\r\n");
        assert_int_equal(secured->counter[DOOR_RELAYED], 2);
        close(fd);
        close(web);
        pair_release(&p);
        bed_release(&bed);
}

static void a_header_without_a_proof_is_refused(void **state)
{
        struct pair p;
        struct buf good CLEANUP(buf_release) = {0}, bad CLEANUP(buf_release) = {0};
        (void)state;
        pair_init(&p, NULL);
        put_header(&good, SECRET, "192.0.2.7", 1);
        put_header(&bad, "another secret", "192.0.2.7", 2);
        int fd = dial_with(p.leader.resp_port, &bad);
        expect_farewell(&p.leader, fd, "-FORBIDDEN ");
        close(fd);
        fd = dial_with(p.leader.resp_port, &good);
        expect_part(&p.leader, fd, "+WEIR ");
        int again = dial_with(p.leader.resp_port, &good);
        expect_farewell(&p.leader, again, "used before");
        expect_pong(&p.leader, fd);
        close(fd);
        close(again);
        /* One that follows takes nothing. */
        buf_clear(&good);
        put_header(&good, SECRET, "192.0.2.7", 3);
        fd = dial_with(p.follower.resp_port, &good);
        expect_farewell(&p.follower, fd, "-UNAVAIL this weir does not lead");
        close(fd);
        assert_int_equal(door_count(&p.leader, DOOR_RELAYED_REFUSED), 2);
        pair_release(&p);
}

static void blanks_are_no_header(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        int fd = dial(p.leader.resp_port);
        tell(fd, "\r\n");
        turns(&p.leader);
        expect_pong(&p.leader, fd);
        close(fd);
        pair_release(&p);
}

static void a_weir_that_is_alone_knows_no_header(void **state)
{
        struct bench b;
        struct buf header CLEANUP(buf_release) = {0};
        (void)state;
        bench_init(&b, NULL);
        put_header(&header, SECRET, "192.0.2.7", 1);
        int fd = dial_with(b.resp_port, &header);
        expect_farewell(&b, fd, "");
        assert_int_equal(door_count(&b, DOOR_RELAYED), 0);
        close(fd);
        bench_release(&b);
}

/* --- changes ---------------------------------------------------------------------------------- */

static void a_relay_waits_for_a_leader(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        server_follow(p.follower.server, NULL);
        int fd = dial(p.follower.resp_port), web = dial(p.follower.http_port);
        tell(fd, "ENQUEUE h a\r\nPING x\r\n");
        tell(web, NAMED);
        expect_nothing(&p.follower, fd);
        expect_nothing(&p.follower, web);
        server_follow(p.follower.server, p.address);
        expect_text(&p.follower, fd, ":1\r\n$1\r\nx\r\n");
        expect_part(&p.follower, web, "HTTP/1.1 200 OK\r\n");
        close(fd);
        close(web);
        pair_release(&p);
}

static void a_follower_that_becomes_the_leader_runs_what_waits(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        int open = dial(p.follower.resp_port), checks = dial(p.follower.resp_port);
        tell(open, "ENQUEUE h a\r\n");
        expect_text(&p.follower, open, ":1\r\n");
        expect_pong(&p.follower, checks);
        server_follow(p.follower.server, NULL);
        expect_last(&p.follower, open, "");
        int fd = dial(p.follower.resp_port);
        tell(fd, "ENQUEUE h a\r\n");
        expect_nothing(&p.follower, fd);
        server_lead(p.follower.server);
        expect_text(&p.follower, fd, ":1\r\n");
        assert_int_equal(p.follower.log.last_seq, 1);
        expect_pong(&p.follower, checks);
        tell(checks, "ENQUEUE h a\r\n");
        expect_text(&p.follower, checks, ":2\r\n");
        close(fd);
        close(open);
        close(checks);
        pair_release(&p);
}

/* The clock of the log stood while nobody led; that of the follower went on. */
static void a_client_of_a_follower_is_not_slowed_down_when_that_leads(void **state)
{
        struct pair p;
        struct loop *loop;
        (void)state;
        pair_init(&p, "secret");
        loop = p.follower.loop;
        loop->steady_base_ns += 3600 * NS_PER_S;
        int fd = dial(p.follower.resp_port);
        tell(fd, "AUTH secret\r\n");
        expect_text(&p.follower, fd, "+OK\r\n");
        expect_pong(&p.follower, fd);
        loop_led(loop);
        server_lead(p.follower.server);
        expect_pong(&p.follower, fd);
        assert_int_equal(door_count(&p.follower, DOOR_SLOWED), 0);
        close(fd);
        pair_release(&p);
}

static void a_turn_in_which_a_machine_begins_to_lead_has_the_time_of_the_log(void **state)
{
        struct bench b;
        (void)state;
        bench_init(&b, NULL);
        loop_turn_begin(b.loop);
        int64_t now_ns = b.loop->boot_ns + b.loop->log_base_ns;
        b.core->now.steady_ns = now_ns - 3600 * NS_PER_S; /* the last batch; see core_promote() */
        loop_led(b.loop);
        assert_int_equal(b.core->now.steady_ns, now_ns);
        assert_int_equal(b.loop->now.steady_ns, now_ns);
        bench_release(&b);
}

static void a_deposed_leader_sends_what_is_durable_and_nothing_else(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        struct bench *b = &p.leader;
        int fd = dial(b->resp_port), waits = dial(b->resp_port), checks = dial(b->resp_port);
        int relayed = dial(p.follower.resp_port);
        expect_pong(b, checks);
        tell(relayed, "ENQUEUE h r\r\n");
        expect_text(&p.follower, relayed, ":1\r\n");
        tell(waits, "CLAIM w WAIT 60000 QUEUES q\r\n");
        until(b, counter(b, "waiting_claims") == 1);
        b->log.is_manual = true;
        tell(fd, "ENQUEUE h a\r\nPING behind\r\n");
        tell(relayed, "ENQUEUE h b\r\n");
        until(b, b->log.in_flight && counter(b, "jobs_enqueued") == 3);
        server_follow(b->server, NULL);
        memory_log_sync(&b->log); /* too late */
        expect_last(b, fd, "");
        expect_last(b, waits, "");
        expect_last(&p.follower, relayed, "");
        assert_int_equal(counter(b, "waiting_claims"), 0);
        expect_pong(b, checks);
        b->log.is_manual = false;
        close(fd);
        close(waits);
        close(checks);
        close(relayed);
        pair_release(&p);
}

static void hanging_up_leaves_nothing_of_the_core(void **state)
{
        struct bench b;
        (void)state;
        bench_init_node(&b, "secret", SECRET, "a");
        int fd = dial(b.resp_port), waits = dial(b.resp_port), idle = dial(b.resp_port);
        tell(waits, "AUTH secret\r\nCLAIM w WAIT 60000 QUEUES q\r\n");
        tell(fd, "AUTH secret\r\nENQUEUE h a\r\n");
        until(&b, counter(&b, "waiting_claims") == 1 && b.loop->durable_seen == 1);
        turns(&b);
        assert_false(server_is_empty(b.server));
        server_hang_up(b.server);
        assert_true(server_is_empty(b.server));
        expect_last(&b, fd, "+OK\r\n:1\r\n");
        expect_last(&b, waits, "+OK\r\n");
        expect_last(&b, idle, "");
        fd = dial(b.resp_port); /* others may come */
        expect_pong(&b, fd);
        close(fd);
        close(waits);
        close(idle);
        bench_release(&b);
}

/* Answers that are durable and wait only for a client that does not read. */
static void answers_that_may_leave_do(void **state)
{
        enum { TIMES = 24 };
        struct bench b;
        struct buf job CLEANUP(buf_release) = {0};
        (void)state;
        bench_init_node(&b, NULL, SECRET, "a");
        int fd = dial(b.resp_port);
        buf_printf(&job, "*3\r\n$7\r\nENQUEUE\r\n$1\r\nh\r\n$%d\r\n", BIG);
        for (int i = 0; i < BIG; i++)
                buf_put_byte(&job, 'x');
        buf_put_str(&job, "\r\n");
        send_big(&b, fd, job.ptr, job.len);
        expect_text(&b, fd, ":1\r\n");
        for (int i = 0; i < TIMES; i++)
                tell(fd, "JOB 1\r\n");
        until(&b, door_count(&b, DOOR_RESP_COMMANDS) > 2);
        turns(&b);
        uint64_t asked = door_count(&b, DOOR_RESP_COMMANDS) - 1;
        assert_true(asked < TIMES);
        server_follow(b.server, NULL);
        size_t got = 0;
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        for (const char *more = ""; more; more = heard(fd)) {
                got += strlen(more);
                turn(&b);
                assert_true(clock_boot_ns() < give_up_ns);
        }
        assert_int_equal(got / BIG, asked);
        assert_true(got % BIG < asked * 4096);
        assert_int_equal(got % BIG % asked, 0); /* each whole */
        close(fd);
        bench_release(&b);
}

/* /metrics of a machine holds this, whatever the log does. */
static void expect_metric(struct bench *b, const char *line)
{
        int web = dial(b->http_port);
        tell(web, "GET /metrics " WEB "\r\n");
        expect_part(b, web, line);
        close(web);
}

static void while_the_lease_is_in_doubt_only_checks_are_answered(void **state)
{
        struct bench b;
        (void)state;
        bench_init_node(&b, NULL, SECRET, "a");
        int fd = dial(b.resp_port), checks = dial(b.resp_port), fresh = dial(b.resp_port);
        int web = dial(b.http_port);
        b.log.is_manual = true;
        tell(fd, "ENQUEUE h a\r\n");
        until(&b, b.log.in_flight == 1);
        expect_metric(&b, "\nweir_cluster_held 0\n");
        server_hold(b.server, true);
        expect_metric(&b, "\nweir_cluster_held 1\n");
        memory_log_sync(&b.log); /* durable, but who knows who leads */
        expect_nothing(&b, fd);
        tell(checks, "CHECK app\r\n");
        (void)expect_begin(&b, checks, "*");
        tell(fd, "PING\r\n");
        tell(fresh, "ENQUEUE h b\r\n");
        tell(web, "GET /healthz " WEB "\r\nPOST /v1/jobs " WEB "Content-Type: application/json\r\n"
                  "Transfer-Encoding: chunked\r\n\r\nc\r\n{\"hook\":\"h\"}\r\n0\r\n\r\n");
        expect_part(&b, web, "\r\n\r\nok\n");
        expect_nothing(&b, fd);
        expect_nothing(&b, fresh);
        expect_nothing(&b, web);
        assert_int_equal(counter(&b, "jobs_enqueued"), 1);
        b.log.is_manual = false;
        server_hold(b.server, false);
        expect_text(&b, fd, ":1\r\n+PONG\r\n");
        (void)expect_begin(&b, fresh, ":");
        expect_part(&b, web, "HTTP/1.1 201 ");
        /* What was held when the lead is lost never leaves. */
        tell(fd, "JOB 1\r\n");
        turn(&b); /* it may have run */
        server_hold(b.server, true);
        turns(&b);
        bool had_left = *heard(fd) != '\0';
        server_follow(b.server, NULL);
        if (!had_left)
                expect_last(&b, fd, "");
        tell(checks, "CHECK app\r\n");
        (void)expect_begin(&b, checks, "*");
        close(fd);
        close(checks);
        close(fresh);
        close(web);
        bench_release(&b);
}

/* --- who leads -------------------------------------------------------------------------------- */

static void expect_ready(struct bench *b, int web, const char *path, const char *status,
                         const char *part)
{
        struct buf all CLEANUP(buf_release) = {0};
        char request[64];
        (void)snprintf(request, sizeof(request), "GET %s " WEB "\r\n", path);
        tell(web, request);
        const char *text = hear_until(b, web, &all, "}\n");
        assert_non_null(strstr(text, status));
        if (!strstr(text, part))
                fail_msg("'%s' does not hold '%s'", text, part);
}

static void role_and_readiness_say_who_leads(void **state)
{
        struct pair p;
        char part[128];
        (void)state;
        pair_init(&p, NULL);
        int fd = dial(p.follower.resp_port), web = dial(p.follower.http_port);
        int there = dial(p.leader.resp_port), web_there = dial(p.leader.http_port);
        tell(there, "ENQUEUE h a\r\n");
        expect_text(&p.leader, there, ":1\r\n");
        tell(there, "ROLE\r\n");
        expect_text(&p.leader, there, "*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n");
        tell(fd, "ROLE\r\n");
        (void)snprintf(part, sizeof(part),
                       "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:%d\r\n$9\r\nconnected\r\n:0\r\n",
                       p.leader.resp_port);
        expect_text(&p.follower, fd, part);
        server_set_lag(p.follower.server, 7);
        expect_ready(&p.leader, web_there, "/readyz", "HTTP/1.1 200 ",
                     "{\"status\":\"ok\",\"role\":\"leader\",\"node\":\"a\",\"leader\":\"\","
                     "\"batch\":1,\"lag_batches\":0}");
        expect_ready(&p.leader, web_there, "/readyz/leader", "HTTP/1.1 200 ", "\"ok\"");
        (void)snprintf(part, sizeof(part),
                       "{\"status\":\"ok\",\"role\":\"follower\",\"node\":\"b\",\"leader\":"
                       "\"127.0.0.1:%d\",\"batch\":0,\"lag_batches\":7}",
                       p.leader.resp_port);
        expect_ready(&p.follower, web, "/readyz", "HTTP/1.1 200 ", part);
        expect_ready(&p.follower, web, "/readyz/leader", "HTTP/1.1 503 ", "does not lead");
        expect_metric(&p.leader, "\nweir_cluster_leader 1\n");
        expect_metric(&p.follower, "\nweir_cluster_leader 0\n");
        expect_metric(&p.follower, "\nweir_cluster_lag_batches 7\n");
        server_follow(p.follower.server, NULL);
        expect_ready(&p.follower, web, "/readyz", "HTTP/1.1 503 ", "no leader");
        tell(fd, "ROLE\r\n");
        expect_text(&p.follower, fd,
                    "*5\r\n$5\r\nslave\r\n$0\r\n\r\n:0\r\n$7\r\nconnect\r\n:0\r\n");
        tell(fd, "INFO server\r\n");
        expect_part(&p.follower, fd, "\r\nrole:slave\r\n");
        server_lead(p.follower.server);
        expect_metric(&p.follower, "\nweir_cluster_lag_batches 0\n");
        expect_metric(&p.follower, "\nweir_cluster_leads_total 1\n");
        close(fd);
        close(web);
        close(there);
        close(web_there);
        pair_release(&p);
}

/* Stopping: what the leader has been asked is answered. */
static void a_follower_that_stops_lets_the_leader_answer(void **state)
{
        struct pair p;
        (void)state;
        pair_init(&p, NULL);
        p.leader.log.is_manual = true;
        int fd = dial(p.follower.resp_port);
        tell(fd, "ENQUEUE h a\r\n");
        until(&p.leader, p.leader.log.in_flight == 1);
        loop_stop(p.follower.loop);
        turns(&p.follower);
        assert_string_equal(heard(fd), "");
        memory_log_sync(&p.leader.log);
        expect_farewell(&p.follower, fd, ":1\r\n");
        p.leader.log.is_manual = false;
        close(fd);
        pair_release(&p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_pipeline_is_answered_in_order_by_both),
                cmocka_unit_test(what_was_asked_before_the_end_of_the_stream_is_answered),
                cmocka_unit_test(checks_and_small_talk_are_answered_by_the_follower),
                cmocka_unit_test(a_claim_waits_at_the_leader),
                cmocka_unit_test(large_payloads_pass_both_ways_and_a_slow_reader_costs_little),
                cmocka_unit_test(requests_of_a_kept_connection_are_relayed),
                cmocka_unit_test(the_page_and_its_events_pass_through),
                cmocka_unit_test(the_leader_judges_host_and_origin_of_the_follower),
                cmocka_unit_test(a_browser_logs_in_through_the_follower),
                cmocka_unit_test(a_token_that_was_shown_here_holds_there),
                cmocka_unit_test(a_token_that_the_leader_does_not_know_is_refused),
                cmocka_unit_test(a_relayed_connection_is_the_clients),
                cmocka_unit_test(a_certificate_that_was_shown_there_holds_here),
                cmocka_unit_test(a_leader_with_tls_is_reached_and_known),
                cmocka_unit_test(a_header_without_a_proof_is_refused),
                cmocka_unit_test(blanks_are_no_header),
                cmocka_unit_test(a_weir_that_is_alone_knows_no_header),
                cmocka_unit_test(a_relay_waits_for_a_leader),
                cmocka_unit_test(a_follower_that_becomes_the_leader_runs_what_waits),
                cmocka_unit_test(a_client_of_a_follower_is_not_slowed_down_when_that_leads),
                cmocka_unit_test(a_turn_in_which_a_machine_begins_to_lead_has_the_time_of_the_log),
                cmocka_unit_test(a_deposed_leader_sends_what_is_durable_and_nothing_else),
                cmocka_unit_test(hanging_up_leaves_nothing_of_the_core),
                cmocka_unit_test(answers_that_may_leave_do),
                cmocka_unit_test(while_the_lease_is_in_doubt_only_checks_are_answered),
                cmocka_unit_test(role_and_readiness_say_who_leads),
                cmocka_unit_test(a_follower_that_stops_lets_the_leader_answer),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
