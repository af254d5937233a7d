/* A crowd of clients that pipeline, wait, cut their commands anywhere, stop reading, hang up and
 * reset, while the log syncs when the dice say so.  Whoever stays gets every answer, in order, of
 * the right kind; whoever leaves is forgotten; nothing is touched after it is freed (the
 * sanitizer watches), and the invariants of every connection hold after every turn. */
#include "support/bench.h"

#include "prop/dice.h"
#include "wire/resp_reply.h"

#define CLIENTS  12
#define STEPS    3000
#define EXPECTED 4096 /* answers a client may be owed at once */
#define QUEUES   3

enum kind { KIND_PING, KIND_INT, KIND_LIST, KIND_ERROR };

struct owed {
        enum kind kind;
        uint64_t number; /* of a PING */
};

struct client {
        int fd; /* -1 = not connected */
        bool is_web;
        bool is_shut;    /* has said that nothing more comes */
        struct buf rest; /* of the command that was cut */
        struct buf in;
        struct owed owed[EXPECTED];
        size_t n_owed;
};

struct crowd {
        struct bench bench;
        struct rng dice;
        struct client clients[CLIENTS];
        uint64_t pings;
        uint64_t answers;
};

static uint64_t roll(struct crowd *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

/* --- one client ----------------------------------------------------------------------------- */

static void join(struct crowd *w, struct client *c)
{
        c->is_web = roll(w, 4) == 0;
        c->is_shut = false;
        c->n_owed = 0;
        buf_init(&c->rest, 0);
        buf_init(&c->in, 0);
        c->fd = dial(c->is_web ? w->bench.http_port : w->bench.resp_port);
}

static void leave(struct client *c, bool is_rude)
{
        struct linger rude = {1, 0};
        if (is_rude)
                assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &rude, sizeof(rude)), 0);
        close(c->fd);
        c->fd = -1;
        buf_release(&c->rest);
        buf_release(&c->in);
}

static void owe(struct client *c, enum kind kind, uint64_t number)
{
        if (!c->is_web)
                c->owed[c->n_owed++] = (struct owed){kind, number};
}

static void make_command(struct crowd *w, struct client *c, struct buf *b)
{
        static const unsigned waits[] = {0, 1, 5, 60000};
        unsigned queue = (unsigned)roll(w, QUEUES), wait = waits[roll(w, ARRAY_LEN(waits))];
        char body[128];
        if (c->is_web) {
                int n = snprintf(body, sizeof(body),
                                 "{\"worker\":\"w\",\"wait\":%u,\"queues\":[\"q%u\"]}", wait,
                                 queue);
                buf_printf(b,
                           "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\n"
                           "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                           n, body);
                return;
        }
        switch (roll(w, 6)) {
        case 0:
                buf_printf(b, "CLAIM w WAIT %u QUEUES q%u\r\n", wait, queue);
                owe(c, KIND_LIST, 0);
                break;
        case 1:
        case 2:
                buf_printf(b, "ENQUEUE h a QUEUE q%u\r\n", queue);
                owe(c, KIND_INT, 0);
                break;
        case 3:
                buf_put_str(b, "*2\r\n$6\r\nCANCEL\r\n$8\r\n99999999\r\n");
                owe(c, KIND_ERROR, 0);
                break;
        default:
                w->pings++;
                buf_printf(b, "PING %llu\r\n", (unsigned long long)w->pings);
                owe(c, KIND_PING, w->pings);
                break;
        }
}

/* Sends what the socket takes of some commands, the last one perhaps cut. */
static void speak(struct crowd *w, struct client *c)
{
        if (c->is_shut || c->n_owed > EXPECTED - 64)
                return;
        for (uint64_t n = roll(w, 20); n; n--)
                make_command(w, c, &c->rest);
        size_t len = roll(w, 2) ? c->rest.len : roll(w, c->rest.len + 1);
        ssize_t sent = send(c->fd, c->rest.ptr, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0)
                buf_drop_front(&c->rest, (size_t)sent);
}

static void check_answer(struct crowd *w, struct client *c, const struct value *v)
{
        static const enum value_type types[] = {[KIND_PING] = VALUE_TEXT,
                                                [KIND_INT] = VALUE_INT,
                                                [KIND_LIST] = VALUE_LIST,
                                                [KIND_ERROR] = VALUE_ERROR};
        assert_true(c->n_owed > 0);
        struct owed want = c->owed[0];
        memmove(c->owed, c->owed + 1, --c->n_owed * sizeof(want));
        assert_int_equal(v->type, types[want.kind]);
        if (want.kind == KIND_PING) {
                char text[24];
                (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)want.number);
                assert_slice(v->text, text);
        }
        w->answers++;
}

static void listen_to(struct crowd *w, struct client *c)
{
        const char *text;
        while ((text = heard(c->fd)) != NULL && *text)
                buf_put_str(&c->in, text);
        if (c->is_web)
                buf_clear(&c->in); /* what it is told is not looked at here */
        for (;;) {
                struct value_scan scan;
                struct arena arena;
                struct value *v;
                value_scan_init(&scan);
                int r = value_scan(&scan, buf_slice(&c->in));
                assert_true(r >= 0);
                if (r == 0)
                        return;
                arena_init(&arena, MIB);
                assert_int_equal(value_parse(slice_make(c->in.ptr, scan.at), &arena, &v), OK);
                check_answer(w, c, v);
                arena_release(&arena);
                buf_drop_front(&c->in, scan.at);
        }
}

/* --- the crowd ------------------------------------------------------------------------------ */

static void step(struct crowd *w)
{
        struct client *c = &w->clients[roll(w, CLIENTS)];
        uint64_t what = roll(w, 40);
        if (c->fd < 0) {
                join(w, c);
        } else if (what < 20) {
                speak(w, c);
        } else if (what < 30) {
                listen_to(w, c);
        } else if (what == 30) {
                leave(c, false);
        } else if (what == 31) {
                leave(c, true);
        } else if (what == 32 && !c->is_shut) {
                c->is_shut = true; /* answers may be lost: a claim that waits ends with it */
                (void)shutdown(c->fd, SHUT_WR);
        } else if (what == 33) {
                w->bench.log.is_manual = !w->bench.log.is_manual;
        }
        if (roll(w, 3) == 0 || !w->bench.log.is_manual)
                memory_log_sync(&w->bench.log);
        if (roll(w, 2))
                turn(&w->bench);
}

/* Those that stay send what they cut, and get all they are owed. */
static void finish_client(struct crowd *w, struct client *c, int helper)
{
        int64_t give_up_ns = clock_boot_ns() + PATIENCE_NS;
        while (c->n_owed || c->rest.len) {
                ssize_t n = send(c->fd, c->rest.ptr, c->rest.len, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n > 0)
                        buf_drop_front(&c->rest, (size_t)n);
                tell(helper, "ENQUEUE h a QUEUE q0\r\nENQUEUE h a QUEUE q1\r\n"
                             "ENQUEUE h a QUEUE q2\r\n");
                turn(&w->bench);
                listen_to(w, c);
                (void)heard(helper);
                assert_true(clock_boot_ns() < give_up_ns);
        }
}

static void whoever_stays_is_answered_in_order_and_whoever_leaves_is_forgotten(void **state)
{
        static struct crowd w;

        (void)state;
        (void)dice_init(&w.dice, "prop_conn");
        for (uint64_t round = dice_rounds(3); round; round--) {
                bench_init(&w.bench, NULL);
                for (size_t i = 0; i < CLIENTS; i++)
                        w.clients[i].fd = -1;
                for (int i = 0; i < STEPS; i++)
                        step(&w);
                w.bench.log.is_manual = false;
                memory_log_sync(&w.bench.log);
                int helper = dial(w.bench.resp_port);
                for (size_t i = 0; i < CLIENTS; i++) {
                        struct client *c = &w.clients[i];
                        if (c->fd < 0)
                                continue;
                        if (!c->is_shut && !c->is_web)
                                finish_client(&w, c, helper);
                        leave(c, roll(&w, 2));
                }
                close(helper);
                until(&w.bench, open_connections(&w.bench) == 0);
                assert_int_equal(counter(&w.bench, "waiting_claims"), 0);
                bench_release(&w.bench);
        }
        (void)printf("# %llu answers checked\n", (unsigned long long)w.answers);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(
                        whoever_stays_is_answered_in_order_and_whoever_leaves_is_forgotten),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
