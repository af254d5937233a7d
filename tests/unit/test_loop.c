/* The loop without a door: mail from threads, timers within a turn, and stopping. */
#include <pthread.h>

#include "core/core.h"
#include "features/features.h"
#include "loop/loop.h"
#include "support/memory_log.h"
#include "unit/check.h"

enum { THREADS = 4, ROUNDS = 2000 };

struct box {
        struct memory_log log;
        struct rng rng;
        struct core *core;
        struct loop *loop;
};

static void box_init(struct box *b)
{
        struct problem p;
        *b = (struct box){0};
        memory_log_init(&b->log);
        rng_init_seed(&b->rng, 1);
        struct core_options options = {.parts = &weir_parts, .log = &b->log.base, .rng = &b->rng};
        b->core = core_new(&options);
        assert_int_equal(core_recover(b->core, &p), OK);
        assert_int_equal(loop_new(&b->loop, &p), OK);
        loop_set_core(b->loop, b->core, 0);
}

static void box_release(struct box *b)
{
        b->loop = loop_free(b->loop);
        b->core = core_free(b->core);
        memory_log_release(&b->log);
}

/* --- mail ----------------------------------------------------------------------------------- */

struct letter {
        struct loop_mail mail;
        struct loop *loop;
        struct order *order;
        int number;
        _Atomic int written; /* by the sender, before it posts */
        int seen;            /* by the loop */
        int delivered;
};

struct order {
        int numbers[8];
        size_t n;
};

static void take_letter(void *ctx)
{
        struct letter *l = ctx;
        assert_true(l->loop->is_in_turn);
        l->seen = atomic_load(&l->written);
        l->delivered++;
        if (l->order)
                l->order->numbers[l->order->n++] = l->number;
}

static void letter_init(struct letter *l, struct loop *loop, int number, struct order *order)
{
        *l = (struct letter){.loop = loop, .number = number, .order = order};
        l->mail.deliver = take_letter;
        l->mail.ctx = l;
}

static void mail_is_delivered_within_a_turn_once_and_in_order(void **state)
{
        struct box b;
        struct order order = {.n = 0};
        struct letter letters[3];

        (void)state;
        box_init(&b);
        for (int i = 0; i < 3; i++)
                letter_init(&letters[i], b.loop, i, &order);
        loop_post(b.loop, &letters[2].mail);
        loop_post(b.loop, &letters[0].mail);
        loop_post(b.loop, &letters[2].mail); /* is there already */
        loop_post(b.loop, &letters[1].mail);
        (void)uv_run(&b.loop->uv, UV_RUN_ONCE);
        assert_int_equal(order.n, 3);
        assert_int_equal(order.numbers[0], 2);
        assert_int_equal(order.numbers[1], 0);
        assert_int_equal(order.numbers[2], 1);
        assert_false(b.loop->is_in_turn);
        loop_post(b.loop, &letters[2].mail); /* and again, now that it was delivered */
        (void)uv_run(&b.loop->uv, UV_RUN_ONCE);
        assert_int_equal(letters[2].delivered, 2);
        box_release(&b);
}

static void *send_many(void *ctx)
{
        struct letter *l = ctx;
        for (int i = 1; i <= ROUNDS; i++) {
                atomic_store(&l->written, i);
                loop_post(l->loop, &l->mail);
        }
        return NULL;
}

static void what_a_thread_did_before_it_posted_is_seen(void **state)
{
        struct box b;
        struct letter letters[THREADS];
        pthread_t threads[THREADS];

        (void)state;
        box_init(&b);
        for (int i = 0; i < THREADS; i++) {
                letter_init(&letters[i], b.loop, i, NULL);
                assert_int_equal(pthread_create(&threads[i], NULL, send_many, &letters[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
                while (letters[i].seen < ROUNDS)
                        (void)uv_run(&b.loop->uv, UV_RUN_ONCE); /* a lost letter hangs here */
        for (int i = 0; i < THREADS; i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                assert_in_range(letters[i].delivered, 1, ROUNDS);
        }
        box_release(&b);
}

/* --- timers and stopping -------------------------------------------------------------------- */

struct ring {
        struct loop_timer timer;
        int n;
};

static void on_ring(void *ctx)
{
        struct ring *r = ctx;
        assert_true(r->timer.loop->is_in_turn);
        if (++r->n == 2)
                loop_stop(r->timer.loop);
}

static void a_timer_rings_within_a_turn_and_the_loop_stops_when_told(void **state)
{
        struct box b;
        struct ring ring = {.n = 0};

        (void)state;
        box_init(&b);
        loop_timer_init(b.loop, &ring.timer, on_ring, &ring);
        assert_false(loop_timer_is_on(&ring.timer));
        loop_timer_start(&ring.timer, 3600000, 0);
        loop_timer_hasten(&ring.timer, 7200000); /* no: it rings sooner */
        assert_in_range(uv_timer_get_due_in(&ring.timer.uv), 0, 3600000);
        loop_timer_start(&ring.timer, 1, 1);
        assert_int_equal(loop_run(b.loop), OK);
        assert_int_equal(ring.n, 2);
        assert_true(b.loop->is_stopped);
        loop_check(b.loop);
        box_release(&b);
}

/* --- how long turns take -------------------------------------------------------------------- */

static void the_longest_turn_of_a_minute_is_known_and_then_forgotten(void **state)
{
        struct turn_watch t = {0};
        uint64_t at = 1000 * TURN_SLOT_NS;

        (void)state;
        turn_watch_begin(&t, at);
        t.waited_ns = 3000000; /* for the disk: does not count */
        turn_watch_end(&t, at + 10000000);
        turn_watch_begin(&t, at + TURN_SLOT_NS);
        turn_watch_end(&t, at + TURN_SLOT_NS + 1000);
        assert_int_equal(turn_watch_max_ns(&t, at + 2 * TURN_SLOT_NS), 7000000);
        assert_int_equal(turn_watch_max_ns(&t, at + 7 * TURN_SLOT_NS), 1000);
        assert_int_equal(turn_watch_max_ns(&t, at + 100 * TURN_SLOT_NS), 0);
        assert_int_equal(t.slow, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(mail_is_delivered_within_a_turn_once_and_in_order),
                cmocka_unit_test(what_a_thread_did_before_it_posted_is_seen),
                cmocka_unit_test(a_timer_rings_within_a_turn_and_the_loop_stops_when_told),
                cmocka_unit_test(the_longest_turn_of_a_minute_is_known_and_then_forgotten),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
