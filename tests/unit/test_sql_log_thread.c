/* The log of a cluster with its threads, over a database in memory: two nodes append, follow, hand
 * over and end, while answers are lost. */
#include "unit/check.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/say.h"
#include "cluster/sql_log.h"
#include "support/memory_ledger.h"

#define NODES    2
#define LEASE_MS 60000 /* it does not end while a slow machine is at it */
#define SHORT_MS 300   /* another takes it */
#define WAIT_S   120   /* ends what hangs; how long a thing takes is not the matter here */

/* What the loop of a node is: it handles what its threads told it, durable batches first. */
struct node {
        struct log *log;
        pthread_mutex_t mu;
        pthread_cond_t told;
        bool is_notified;      /* under mu */
        uint64_t told_durable; /* under mu */
        uint64_t durable;
        bool is_leading, is_in_flight;
        uint64_t next; /* the number of the next batch */
        uint64_t sum;  /* of the bytes of all batches it has, since it began */
        unsigned n_led, n_lost, n_restarted;
};

struct rig {
        struct memory_db db;
        struct rng rng;
        struct node nodes[NODES];
};

static void on_durable(void *ctx, uint64_t seq)
{
        struct node *n = ctx;
        pthread_mutex_lock(&n->mu);
        n->told_durable = seq;
        pthread_cond_signal(&n->told);
        pthread_mutex_unlock(&n->mu);
}

static void on_notify(void *ctx)
{
        struct node *n = ctx;
        pthread_mutex_lock(&n->mu);
        n->is_notified = true;
        pthread_cond_signal(&n->told);
        pthread_mutex_unlock(&n->mu);
}

static void on_failed(void *ctx, const struct problem *p)
{
        (void)ctx;
        panic(__FILE__, __LINE__, __func__, p->detail); /* not on the thread of the test */
}

static void add(struct node *n, struct slice batch)
{
        for (size_t i = 0; i < batch.len; i++)
                n->sum = n->sum * 31 + (unsigned char)batch.ptr[i];
}

static void on_arrived(void *ctx, uint64_t seq, struct slice batch)
{
        struct node *n = ctx;
        assert_false(n->is_leading);
        assert_true(n->next == 0 || seq == n->next);
        n->next = seq + 1;
        add(n, batch);
}

static void begin_again(struct node *n)
{
        n->next = n->sum = 0;
        n->is_leading = n->is_in_flight = false;
}

static void on_restarted(void *ctx)
{
        struct node *n = ctx;
        n->n_restarted++;
        begin_again(n);
}

static void on_led(void *ctx, const struct log_tail *tail)
{
        struct node *n = ctx;
        assert_int_equal(n->next, tail->last_seq + 1);
        n->is_leading = true;
        n->n_led++;
}

static void on_lost(void *ctx, const struct problem *p)
{
        struct node *n = ctx;
        (void)p;
        assert_true(n->is_leading);
        n->n_lost++;
        begin_again(n);
}

static void open_node(struct rig *r, size_t i)
{
        struct node *n = &r->nodes[i];
        struct problem p;
        struct log_tail tail;
        struct sql_log_options o = {
                .appender = memory_ledger_new(&r->db, NULL, NULL),
                .watcher = memory_ledger_new(&r->db, NULL, NULL),
                .node = i ? "b" : "a",
                .address = "here",
                .is_threaded = true,
                .boot_ns = clock_boot_ns,
                .rng = &r->rng,
        };
        assert_int_equal(sql_log_open(&o, &n->log, &p), OK);
        n->log->durable = on_durable;
        n->log->failed = on_failed;
        n->log->notify = on_notify;
        n->log->arrived = on_arrived;
        n->log->restarted = on_restarted;
        n->log->led = on_led;
        n->log->lost = on_lost;
        n->log->ctx = n;
        begin_again(n);
        assert_int_equal(n->log->ops->lead(n->log, &tail, &p), ERR_UNAVAIL);
}

static void close_node(struct node *n)
{
        n->log = n->log->ops->close(n->log);
        n->told_durable = 0;
        n->is_notified = false;
        begin_again(n);
}

/* One turn of the loop; waits a moment for something to do. */
static void turn(struct node *n)
{
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 5 * NS_PER_MS;
        until.tv_sec += until.tv_nsec / NS_PER_S;
        until.tv_nsec %= NS_PER_S;
        pthread_mutex_lock(&n->mu);
        if (!n->is_notified && !n->told_durable)
                (void)pthread_cond_timedwait(&n->told, &n->mu, &until);
        uint64_t durable = n->told_durable;
        n->told_durable = 0;
        n->is_notified = false;
        pthread_mutex_unlock(&n->mu);
        if (durable) {
                assert_true(n->is_in_flight && durable == n->next);
                n->is_in_flight = false;
                n->next++;
                n->durable = durable;
        }
        while (n->log->ops->poll(n->log, 1000))
                ;
}

#define UNTIL(r, condition)                                                                        \
        do {                                                                                       \
                int64_t end_ns_ = clock_boot_ns() + WAIT_S * NS_PER_S;                             \
                while (!(condition)) {                                                             \
                        if (clock_boot_ns() > end_ns_)                                             \
                                fail_msg("in vain: %s", #condition);                               \
                        for (size_t i_ = 0; i_ < NODES; i_++)                                      \
                                if ((r)->nodes[i_].log)                                            \
                                        turn(&(r)->nodes[i_]);                                     \
                }                                                                                  \
        } while (0)

static void set(struct rig *r, enum memory_fate fate, bool is_frozen)
{
        pthread_mutex_lock(&r->db.mu);
        r->db.next_append = fate;
        r->db.is_frozen = is_frozen;
        pthread_mutex_unlock(&r->db.mu);
}

static void append(struct node *n, struct slice batch)
{
        assert_true(n->is_leading && !n->is_in_flight);
        n->is_in_flight = true;
        add(n, batch);
        assert_int_equal(n->log->ops->append(n->log, n->next, batch), OK);
}

static int rig_setup(void **state)
{
        struct rig *r = xcalloc(1, sizeof(*r));
        memory_db_init(&r->db, 3);
        r->db.is_threaded = true;
        r->db.lease_min_ms = LEASE_MS;
        rng_init_seed(&r->rng, 1);
        for (size_t i = 0; i < NODES; i++) {
                pthread_mutex_init(&r->nodes[i].mu, NULL);
                pthread_cond_init(&r->nodes[i].told, NULL);
        }
        *state = r;
        return 0;
}

static int rig_teardown(void **state)
{
        struct rig *r = *state;
        for (size_t i = 0; i < NODES; i++)
                if (r->nodes[i].log)
                        close_node(&r->nodes[i]);
        memory_db_release(&r->db);
        free(r);
        return 0;
}

static void batches_are_appended_and_followed_while_answers_are_lost(void **state)
{
        static const enum memory_fate fates[] = {FATE_NONE, FATE_LOST, FATE_UNANSWERED, FATE_LOCAL};
        struct rig *r = *state;
        struct node *a = &r->nodes[0], *b = &r->nodes[1];
        char text[64];
        open_node(r, 0);
        UNTIL(r, a->is_leading);
        open_node(r, 1);
        for (int i = 0; i < 200; i++) {
                uint64_t seq = a->next;
                set(r, fates[i % ARRAY_LEN(fates)], false);
                memset(text, 'a' + i % 26, sizeof(text));
                append(a, slice_make(text, 1 + (size_t)i % sizeof(text)));
                memset(text, '?', sizeof(text)); /* it is the caller's again */
                UNTIL(r, !a->is_in_flight);
                assert_int_equal(a->durable, seq);
        }
        UNTIL(r, b->next == a->next);
        assert_int_equal(b->sum, a->sum);
        assert_int_equal(b->n_restarted, 0);
}

static void the_lead_goes_round(void **state)
{
        struct rig *r = *state;
        struct problem p;
        open_node(r, 0);
        open_node(r, 1);
        for (int i = 0; i < 4; i++) {
                UNTIL(r, r->nodes[0].is_leading || r->nodes[1].is_leading);
                struct node *n = r->nodes[0].is_leading ? &r->nodes[0] : &r->nodes[1];
                struct node *other = n == &r->nodes[0] ? &r->nodes[1] : &r->nodes[0];
                unsigned n_led = other->n_led;
                append(n, SLICE_LIT("before it is handed over"));
                UNTIL(r, !n->is_in_flight);
                while (n->is_leading && other->n_led == n_led) {
                        if (n->log->ops->hand_over(n->log, SLICE_NONE, false, &p) == OK)
                                UNTIL(r, !n->is_leading);
                        else
                                turn(n);
                        turn(other);
                }
                UNTIL(r, r->nodes[0].is_leading || r->nodes[1].is_leading);
        }
        UNTIL(r, r->nodes[0].next == r->nodes[1].next);
        assert_int_equal(r->nodes[0].sum, r->nodes[1].sum);
}

static void a_log_ends_while_its_database_does_not_answer(void **state)
{
        struct rig *r = *state;
        r->db.lease_min_ms = SHORT_MS;
        open_node(r, 0);
        UNTIL(r, r->nodes[0].is_leading);
        set(r, FATE_NONE, true);
        append(&r->nodes[0], SLICE_LIT("never told"));
        close_node(&r->nodes[0]);
        assert_int_equal(r->nodes[0].durable, 0);
        set(r, FATE_NONE, false);
        open_node(r, 1);
        UNTIL(r, r->nodes[1].is_leading);
}

static void a_log_ends_at_any_time(void **state)
{
        struct rig *r = *state;
        r->db.lease_min_ms = SHORT_MS;
        for (int i = 0; i < 20; i++) {
                open_node(r, 0);
                for (int k = 0; k < i % 5; k++)
                        turn(&r->nodes[0]);
                close_node(&r->nodes[0]);
        }
        open_node(r, 0);
        UNTIL(r, r->nodes[0].is_leading);
}

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(batches_are_appended_and_followed_while_answers_are_lost),
                RIG_TEST(the_lead_goes_round),
                RIG_TEST(a_log_ends_while_its_database_does_not_answer),
                RIG_TEST(a_log_ends_at_any_time),
        };
        say_setup(SAY_NOTHING, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
