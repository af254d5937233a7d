/* Who leads: the lease, promotion and handing over, each rule by itself. */
#include "unit/sql_log_box.h"

/* ---- the lease ---- */

static void a_lease_is_taken_when_it_was_seen_expired_twice(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        (void)lead(r, 0);
        open_node(r, 1, 0);
        run_ms(r, 100);
        r->nodes[0].is_asleep = true;
        while (r->db.lease.until_ms * NS_PER_MS > memory_now_ns)
                run_ms(r, 10);
        int64_t over_ns = memory_now_ns;
        struct book *b = &r->nodes[1].book;
        run_ms(r, 990);
        assert_false(b->is_leading);
        run_ms(r, 300);
        assert_true(b->is_leading);
        assert_true(memory_now_ns - over_ns < 1500 * NS_PER_MS);
}

static void a_clock_that_went_back_keeps_no_lease_for_long(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        run_ms(r, 100);
        /* A leader that lives renews it. */
        r->db.skew_ms = -3600000;
        run_ms(r, LEASE * 3);
        assert_true(a->is_leading);
        assert_int_equal(a->n_lost, 0);
        /* One that is gone does not, and the lease seems to be over in two hours. */
        r->nodes[0].is_asleep = true;
        r->db.skew_ms = -7200000;
        run_ms(r, LEASE - 100);
        assert_false(r->nodes[1].book.is_leading);
        run_ms(r, 1500);
        assert_true(r->nodes[1].book.is_leading);
}

static void a_stall_of_the_database_changes_no_lead(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 5); /* it would be preferred */
        run_ms(r, 1000);
        r->db.is_down = true;
        r->db.life++;
        run_ms(r, 12000);
        assert_true(a->log->ops->leads_until_ns(a->log) < memory_now_ns);
        r->db.is_down = false;
        run_ms(r, 3000);
        assert_true(a->is_leading);
        assert_int_equal(a->n_lost, 0);
        assert_true(a->log->ops->leads_until_ns(a->log) > memory_now_ns);
}

static void a_node_of_lower_priority_waits_longer(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        (void)lead(r, 0);
        open_node(r, 1, 1);
        open_node(r, 2, 9);
        run_ms(r, 2000);
        r->nodes[0].is_asleep = true;
        run_ms(r, LEASE + 2500);
        assert_false(r->nodes[1].book.is_leading);
        assert_true(r->nodes[2].book.is_leading);
}

static void the_lease_counts_from_when_the_renewal_was_sent(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        const struct log_ops *ops = a->log->ops;
        int64_t before_ns = memory_now_ns;
        run_ms(r, 5000);
        assert_true(ops->leads_until_ns(a->log) > before_ns + LEASE * NS_PER_MS);
        assert_true(ops->leads_until_ns(a->log) <= memory_now_ns + LEASE * NS_PER_MS);
        assert_true(ops->leads_until_ns(a->log) >= memory_now_ns + LEASE / 2 * NS_PER_MS);
        /* The server's clock may jump. */
        r->db.skew_ms = 100000;
        run_ms(r, 5000);
        assert_true(a->is_leading);
        assert_true(ops->leads_until_ns(a->log) <= memory_now_ns + LEASE * NS_PER_MS);
        /* Nobody else asks for it, so the lead stays while the database is away: but unusable. */
        r->nodes[0].is_away = true;
        run_ms(r, 10000);
        assert_true(a->is_leading);
        assert_true(ops->leads_until_ns(a->log) < memory_now_ns);
        run_ms(r, 40000);
        assert_false(a->is_leading);
        assert_int_equal(ops->leads_until_ns(a->log), 0);
}

static void less_safety_twice_ends_the_lead(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        r->db.is_unsafe = true;
        run_ms(r, 1010);
        assert_true(a->is_leading);
        r->db.is_unsafe = false;
        run_ms(r, 1000);
        r->db.is_unsafe = true;
        run_ms(r, 1010);
        assert_true(a->is_leading); /* counted anew */
        run_ms(r, 1000);
        assert_false(a->is_leading);
        has(a->problem.detail, "synchronous_standby_names");
        run_ms(r, 10000);
        assert_int_equal(a->n_led, 1);
        r->db.is_unsafe = false;
        lead(r, 0);
}

static void the_number_of_the_epoch_row_may_be_taken(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        run_ms(r, 100);
        /* The old leader's batch is in flight and lands while the new one begins. */
        r->nodes[0].is_asleep = true;
        append(a, "late");
        r->db.next_append = FATE_WAITING;
        (void)sql_log_step_appender(a->log);
        assert_null(memory_db_row(&r->db, 2));
        struct book *b = lead(r, 1);
        if (memory_db_row(&r->db, 2)->head.kind == LEDGER_BATCH) {
                assert_int_equal(b->tail.last_seq, 3);
                assert_int_equal(book_at(b, 2), book_sum(SLICE_LIT("late")));
        } else {
                assert_int_equal(b->tail.last_seq, 2);
        }
        assert_same(b, b);
}

static void an_epoch_row_of_unknown_outcome_does_no_harm(void **state)
{
        struct rig *r = *state;
        for (int fate = FATE_LOST; fate < FATES; fate++) {
                r->db.next_append = (enum memory_fate)fate;
                open_node(r, 0, 0);
                struct book *a = lead(r, 0);
                append(a, "x");
                settle(r);
                assert_int_equal(a->n_durable, 1);
                assert_int_equal(a->next, memory_db_last(&r->db) + 1);
                book_release(a);
        }
}

/* A call takes longer than the lease; then all is replicated. */
static void take_long(void *ctx, struct memory_ledger *l, int64_t until_ns)
{
        struct memory_db *db = ctx;
        (void)l;
        (void)until_ns;
        memory_now_ns += 2 * LEASE * NS_PER_MS;
        db->meanwhile = NULL;
        memory_db_heal(db);
}

static void an_epoch_row_that_lands_after_the_lease_does_not_lead(void **state)
{
        struct rig *r = *state;
        r->db.is_cut = true;
        r->db.meanwhile = take_long;
        r->db.ctx = &r->db;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        assert_int_equal(memory_db_row(&r->db, 1)->head.kind, LEDGER_EPOCH);
        assert_int_equal(a->tail.last_seq, 2);
        assert_int_equal(a->n_led, 1);
        assert_true(a->log->ops->leads_until_ns(a->log) > memory_now_ns);
}

static void a_renewal_that_is_answered_after_the_lease_ends_the_lead(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        run_ms(r, 500);
        while (r->db.lease.until_ms > memory_now_ns / NS_PER_MS + 2 * LEASE / 3)
                memory_now_ns += NS_PER_MS; /* it is due */
        r->db.meanwhile = take_long;
        r->db.ctx = &r->db;
        r->db.per_mille_pause = 1000;
        (void)sql_log_step_watcher(a->log);
        r->db.per_mille_pause = 0;
        settle(r);
        assert_int_equal(a->n_lost, 1);
        lead(r, 0);
}

static void a_batch_for_a_lead_that_is_gone_is_not_written(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        /* Lost and won again, while the owner is busy with something else. */
        write_foreign(r, 2, 2, LEDGER_EPOCH);
        (void)snprintf(r->db.lease.node, sizeof(r->db.lease.node), "x");
        r->db.lease.until_ms = memory_now_ns / NS_PER_MS + 2000;
        r->nodes[0].is_asleep = true;
        for (int i = 0; i < 2000; i++) {
                memory_now_ns += 10 * NS_PER_MS;
                (void)sql_log_step_appender(a->log);
                (void)sql_log_step_watcher(a->log);
        }
        assert_int_equal(memory_db_last(&r->db), 3);
        append(a, "of the first lead");
        for (int i = 0; i < 10; i++)
                (void)sql_log_step_appender(a->log);
        assert_int_equal(memory_db_last(&r->db), 3);
        assert_int_equal(a->log->ops->leads_until_ns(a->log), 0);
        r->nodes[0].is_asleep = false;
        settle(r);
        assert_int_equal(a->n_lost, 1);
        assert_int_equal(a->n_led, 2);
        append(a, "of the second");
        settle(r);
        assert_int_equal(a->n_durable, 1);
}

static void the_row_before_the_batch_in_flight_is_not_trimmed(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        append(a, "x");
        settle(r);
        r->db.next_append = FATE_UNANSWERED;
        append(a, "y");
        (void)sql_log_step_appender(a->log);
        a->log->ops->trim(a->log, a->next);
        for (int i = 0; i < 10; i++)
                (void)sql_log_step_watcher(a->log);
        settle(r);
        assert_int_equal(a->n_durable, 2);
        assert_int_equal(a->n_lost, 0);
}

/* ---- handing over ---- */

static int hand_over(struct book *b, const char *to, struct problem *p)
{
        return b->log->ops->hand_over(b->log, slice_str(to), false, p);
}

static void a_lead_is_handed_over_within_a_second(void **state)
{
        struct rig *r = *state;
        struct problem p;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        struct book *b = &r->nodes[1].book;
        append(a, "x");
        run_ms(r, 3000);
        assert_int_equal(hand_over(a, "nobody", &p), ERR_NOTFOUND);
        assert_int_equal(hand_over(a, "a", &p), ERR_BADARG);
        assert_int_equal(hand_over(b, "a", &p), ERR_STATE);
        assert_int_equal(hand_over(a, "b", &p), OK);
        append(a, "while it is handed over");
        int64_t begun_ns = memory_now_ns;
        while (!b->is_leading && memory_now_ns < begun_ns + 10 * NS_PER_S)
                run_ms(r, 10);
        assert_true(memory_now_ns - begun_ns < 500 * NS_PER_MS);
        assert_int_equal(a->n_lost, 1);
        has(a->problem.detail, "handed over to b");
        run_ms(r, 1000);
        assert_same(b, a);
        assert_int_equal(b->n_restarted, 0);
}

static void the_batch_in_flight_is_waited_for_before_handing_over(void **state)
{
        struct rig *r = *state;
        struct problem p;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        run_ms(r, 3000);
        r->db.next_append = FATE_LOST;
        append(a, "x");
        (void)sql_log_step_appender(a->log); /* it is at it */
        assert_int_equal(hand_over(a, "", &p), OK);
        run_ms(r, 1000);
        assert_int_equal(a->n_durable, 1);
        assert_int_equal(a->n_lost, 1);
        assert_true(r->nodes[1].book.is_leading);
        assert_int_equal(book_at(&r->nodes[1].book, 2), book_sum(SLICE_LIT("x")));
}

static void who_is_not_ready_is_not_handed_the_lead(void **state)
{
        struct rig *r = *state;
        struct problem p;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        assert_int_equal(hand_over(a, "", &p), ERR_STATE);
        open_node(r, 1, 0);
        run_ms(r, 3000);
        r->nodes[1].is_asleep = true;
        run_ms(r, 10000);
        assert_int_equal(hand_over(a, "b", &p), ERR_STATE);
        has(p.detail, "not running");
        assert_int_equal(hand_over(a, "", &p), ERR_STATE);
        r->nodes[1].is_asleep = false;
        run_ms(r, 3000);
        assert_int_equal(hand_over(a, "b", &p), OK);
}

static void closing_leaves_the_lease_to_the_others(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        (void)lead(r, 0);
        open_node(r, 1, 0);
        run_ms(r, 3000);
        book_release(&r->nodes[0].book);
        run_ms(r, 300);
        assert_true(r->nodes[1].book.is_leading);
}

/* ---- closed ---- */

/* Another node leads after the last row, and is gone. */
static uint64_t write_epoch(struct rig *r)
{
        uint64_t last = memory_db_last(&r->db);
        uint64_t epoch = memory_db_row(&r->db, last)->head.epoch + 1;
        write_foreign(r, last + 1, epoch, LEDGER_EPOCH);
        return epoch;
}

static void nobody_leads_a_log_that_is_closed(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        append(a, "before");
        run_ms(r, 100);
        r->nodes[0].is_asleep = true;
        uint64_t epoch = write_epoch(r);
        write_foreign(r, memory_db_last(&r->db) + 1, epoch, LEDGER_CLOSED);
        write_foreign(r, memory_db_last(&r->db) + 1, epoch, LEDGER_BATCH);
        open_node(r, 1, 0);
        struct book *b = &r->nodes[1].book;
        run_ms(r, 4 * LEASE);
        assert_false(b->is_leading);
        assert_int_equal(b->next, memory_db_last(&r->db) + 1); /* it follows all the same */
        write_foreign(r, memory_db_last(&r->db) + 1, epoch, LEDGER_OPENED);
        (void)lead(r, 1);
}

static void a_mover_leads_a_log_that_is_closed_and_opens_it(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        r->nodes[0].is_asleep = true;
        uint64_t epoch = write_epoch(r);
        write_foreign(r, memory_db_last(&r->db) + 1, epoch, LEDGER_CLOSED);
        open_with(r, 1, &(struct sql_log_options){.is_mover = true});
        struct book *b = lead(r, 1);
        uint64_t seq = memory_db_last(&r->db) + 1;
        b->log->durable = NULL; /* the book knows of batches alone */
        assert_int_equal(sql_log_append_mark(b->log, seq, LEDGER_OPENED, SLICE_NONE), OK);
        run_ms(r, 100);
        assert_int_equal(memory_db_row(&r->db, seq)->head.kind, LEDGER_OPENED);
        book_release(b);
        r->nodes[0].is_asleep = false;
        run_ms(r, 100);
        assert_false(a->is_leading);
        (void)lead(r, 0);
}

static void a_log_that_is_closed_during_a_claim_is_not_led(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        (void)lead(r, 0);
        r->nodes[0].is_asleep = true;
        open_node(r, 1, 0);
        struct book *b = &r->nodes[1].book;
        while (r->db.lease.node[0] != 'b') {
                (void)sql_log_step_watcher(b->log);
                (void)b->log->ops->poll(b->log, MIB);
                memory_now_ns += NS_PER_MS;
        }
        uint64_t epoch = write_epoch(r);
        write_foreign(r, memory_db_last(&r->db) + 1, epoch, LEDGER_CLOSED);
        run_ms(r, 4 * LEASE);
        assert_false(b->is_leading);
        assert_true(r->db.lease.until_ms * NS_PER_MS <= memory_now_ns); /* it was given back */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(a_lease_is_taken_when_it_was_seen_expired_twice),
                RIG_TEST(a_clock_that_went_back_keeps_no_lease_for_long),
                RIG_TEST(a_stall_of_the_database_changes_no_lead),
                RIG_TEST(a_node_of_lower_priority_waits_longer),
                RIG_TEST(the_lease_counts_from_when_the_renewal_was_sent),
                RIG_TEST(less_safety_twice_ends_the_lead),
                RIG_TEST(the_number_of_the_epoch_row_may_be_taken),
                RIG_TEST(an_epoch_row_of_unknown_outcome_does_no_harm),
                RIG_TEST(an_epoch_row_that_lands_after_the_lease_does_not_lead),
                RIG_TEST(a_renewal_that_is_answered_after_the_lease_ends_the_lead),
                RIG_TEST(a_batch_for_a_lead_that_is_gone_is_not_written),
                RIG_TEST(the_row_before_the_batch_in_flight_is_not_trimmed),
                RIG_TEST(a_lead_is_handed_over_within_a_second),
                RIG_TEST(the_batch_in_flight_is_waited_for_before_handing_over),
                RIG_TEST(who_is_not_ready_is_not_handed_the_lead),
                RIG_TEST(closing_leaves_the_lease_to_the_others),
                RIG_TEST(nobody_leads_a_log_that_is_closed),
                RIG_TEST(a_mover_leads_a_log_that_is_closed_and_opens_it),
                RIG_TEST(a_log_that_is_closed_during_a_claim_is_not_led),
        };
        say_setup(SAY_NOTHING, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
