/* The log of a cluster: appending and following, each rule by itself.  test_sql_log_lead.c has the
 * lease, tests/sim/sim_cluster.c all at once, with dice. */
#include "unit/sql_log_box.h"

/* ---- leading and following ---- */

static void the_first_node_leads_when_its_epoch_row_is_durable(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        r->db.is_cut = true;
        run_ms(r, 20000);
        assert_int_equal(r->nodes[0].book.n_led, 0); /* the row waits for the other server */
        memory_db_heal(&r->db);
        struct book *b = lead(r, 0);
        uint64_t last = b->tail.last_seq;
        assert_int_equal(b->tail.epoch, memory_db_row(&r->db, last)->head.epoch);
        assert_int_equal(memory_db_row(&r->db, last)->head.kind, LEDGER_EPOCH);
        assert_int_equal(memory_db_row(&r->db, last)->state, ROW_SAFE);
        append(b, "one");
        assert_int_equal(b->n_durable, 0);
        settle(r);
        assert_int_equal(b->n_durable, 1);
        const struct db_row *row = memory_db_row(&r->db, last + 1);
        assert_slice(slice_make(row->body, row->len), "one");
        starts_with(row->head.node, "a.");
        assert_int_equal(strlen(row->head.node), 18);
}

static void a_follower_has_each_batch_soon(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        for (int i = 0; i < 50; i++) {
                append(a, i % 7 ? "abc" : "defghijkl");
                run_ms(r, 20);
        }
        run_ms(r, 40);
        assert_int_equal(a->n_durable, 50);
        assert_same(a, &r->nodes[1].book);
        assert_int_equal(r->nodes[1].book.n_led, 0);
        assert_int_equal(r->nodes[1].book.n_restarted, 0);
        assert_true(r->nodes[1].book.n_notified > 0);
}

static void a_follower_that_comes_late_begins_with_the_oldest_batch(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        for (int i = 0; i < 30; i++) {
                append(a, "abc");
                settle(r);
        }
        a->log->ops->trim(a->log, 20);
        run_ms(r, 10);
        open_node(r, 1, 0);
        run_ms(r, 100);
        assert_int_equal(r->nodes[1].book.first, 20);
        assert_same(a, &r->nodes[1].book);
}

/* ---- outcomes ---- */

static void an_unknown_append_is_resolved_and_told_once(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *b = lead(r, 0);
        for (int fate = FATE_LOST; fate < FATES; fate++) {
                r->db.next_append = (enum memory_fate)fate;
                append(b, "what becomes of it");
                uint64_t seq = b->next;
                for (int i = 0; i < 100 && b->is_in_flight; i++)
                        run_ms(r, 1000);
                assert_int_equal(b->n_durable, fate);
                assert_int_equal(memory_db_row(&r->db, seq)->state, ROW_SAFE);
                assert_int_equal(memory_db_last(&r->db), seq);
        }
        assert_int_equal(b->n_lost, 0);
}

static void a_row_that_is_there_is_durable_only_after_a_barrier(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *b = lead(r, 0);
        r->db.is_cut = true;
        r->db.next_append = FATE_LOCAL;
        append(b, "x");
        run_ms(r, 2000);
        assert_int_equal(memory_db_row(&r->db, b->next)->state, ROW_LOCAL);
        assert_int_equal(b->n_durable, 0);
        memory_db_fail_over(&r->db); /* it is gone, and must be written again */
        run_ms(r, 2000);
        assert_int_equal(b->n_durable, 1);
        assert_int_equal(memory_db_row(&r->db, b->next - 1)->state, ROW_SAFE);
}

static void a_foreign_row_ends_the_lead(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *b = lead(r, 0);
        write_foreign(r, b->next, 2, LEDGER_EPOCH);
        append(b, "x");
        run_ms(r, 10);
        assert_int_equal(b->n_lost, 1);
        assert_int_equal(b->n_durable, 0);
        has(b->problem.detail, "x.0000000000000000");
        /* It follows again, from the oldest on, and leads again behind the other's row. */
        lead(r, 0);
        assert_int_equal(b->n_led, 2);
        assert_int_equal(b->tail.last_seq, 3);
        append(b, "y");
        settle(r);
        assert_int_equal(b->n_durable, 1);
}

static void a_refused_batch_ends_the_lead(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *b = lead(r, 0);
        r->db.is_unsafe = true; /* the guard of an insert asks for the setting, too */
        append(b, "x");
        run_ms(r, 10);
        assert_int_equal(b->n_lost, 1);
        run_ms(r, 20000);
        assert_int_equal(b->n_led, 1);
        assert_int_equal(b->n_durable, 0);
        r->db.is_unsafe = false;
        lead(r, 0);
}

static void a_full_disk_is_waited_for(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *b = lead(r, 0);
        r->db.is_full = true;
        append(b, "x");
        run_ms(r, 20000);
        assert_int_equal(b->n_durable, 0);
        assert_int_equal(b->n_lost, 0);
        r->db.is_full = false;
        run_ms(r, 500);
        assert_int_equal(b->n_durable, 1);
}

static void a_deposed_leader_never_hears_of_its_batch(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        run_ms(r, 100);
        r->nodes[0].is_asleep = true;
        append(a, "too late");
        struct book *b = lead(r, 1);
        append(b, "in its place");
        settle(r);
        r->nodes[0].is_asleep = false;
        run_ms(r, 200);
        assert_int_equal(a->n_durable, 0);
        assert_int_equal(a->n_lost, 1);
        assert_same(b, a);
}

static void a_batch_that_is_lost_and_lands_later_arrives(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        run_ms(r, 100);
        r->db.next_append = FATE_UNANSWERED;
        append(a, "it landed");
        (void)sql_log_step_appender(a->log);
        r->nodes[0].is_away = true;
        struct book *b = lead(r, 1);
        run_ms(r, 40000);
        assert_int_equal(a->n_durable, 0);
        assert_int_equal(a->n_lost, 1); /* cut off for too long */
        assert_int_equal(book_at(b, b->tail.last_seq - 1), book_sum(SLICE_LIT("it landed")));
        r->nodes[0].is_away = false;
        run_ms(r, 1000);
        assert_same(b, a);
}

/* The trap of a fence that was trimmed away. */
static void a_sleeper_is_refused_after_others_trimmed_past_it(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        run_ms(r, 100);
        r->nodes[0].is_asleep = true;
        append(a, "too late");
        struct book *b = lead(r, 1);
        for (int i = 0; i < 100; i++) {
                append(b, "x");
                settle(r);
        }
        b->log->ops->trim(b->log, b->next - 5);
        run_ms(r, 100);
        assert_null(memory_db_row(&r->db, b->next - 50));
        assert_non_null(memory_db_row(&r->db, b->tail.last_seq)); /* the row of its epoch stays */
        r->nodes[0].is_asleep = false;
        run_ms(r, 200);
        assert_int_equal(a->n_durable, 0);
        assert_int_equal(a->n_lost, 1);
        assert_same(b, a);
}

/* ---- what a follower may not believe ---- */

static void a_follower_drops_a_row_that_vanished(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        append(a, "stays");
        run_ms(r, 100);
        r->db.is_cut = true;
        r->db.next_append = FATE_LOCAL;
        append(a, "goes");
        (void)sql_log_step_appender(a->log);
        r->nodes[0].is_asleep = true;
        run_ms(r, 50);
        assert_int_equal(book_at(&r->nodes[1].book, 3), book_sum(SLICE_LIT("goes")));
        memory_db_fail_over(&r->db);
        r->nodes[0].is_asleep = false;
        r->nodes[0].is_away = true; /* so that it does not write it once more */
        struct book *b = lead(r, 1);
        assert_int_equal(b->n_restarted, 1);
        assert_int_equal(b->next, 4);
        assert_int_equal(book_at(b, 2), book_sum(SLICE_LIT("stays")));
        assert_int_equal(book_at(b, 3), 0);
}

/* The follower has a row that is gone, and others stand in its place: two rows of another node, the
 * first of them the first of an epoch.  Returns the follower's book. */
static const struct book *replace_row(struct rig *r, enum ledger_kind second, bool is_connected)
{
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        append(a, "stays");
        run_ms(r, 100);
        r->db.is_cut = true;
        r->db.next_append = FATE_LOCAL;
        append(a, "goes");
        (void)sql_log_step_appender(a->log);
        r->nodes[0].is_asleep = true;
        run_ms(r, 50);
        assert_int_equal(r->nodes[1].book.next, 4);
        r->nodes[1].is_asleep = true;
        memory_db_fail_over(&r->db);
        write_foreign(r, 3, 2, LEDGER_EPOCH);
        if (is_connected) { /* as where any server may be read */
                r->db.life--;
                write_foreign(r, 4, second == LEDGER_EPOCH ? 3 : 2, second);
        }
        r->nodes[1].is_asleep = false;
        run_ms(r, 300);
        return &r->nodes[1].book;
}

static void a_follower_looks_for_its_last_row_when_it_connects(void **state)
{
        const struct book *b = replace_row(*state, LEDGER_EPOCH, false);
        assert_int_equal(b->n_restarted, 1);
        assert_int_equal(b->next, 4);
        assert_int_equal(book_at(b, 3), 0);
}

static void a_follower_notices_an_epoch_that_it_did_not_see_begin(void **state)
{
        const struct book *b = replace_row(*state, LEDGER_BATCH, true);
        assert_int_equal(b->n_restarted, 1);
        assert_int_equal(book_at(b, 3), 0);
        assert_int_equal(book_at(b, 4), book_sum(SLICE_LIT("foreign")));
}

static void a_follower_notices_an_epoch_that_it_missed(void **state)
{
        const struct book *b = replace_row(*state, LEDGER_EPOCH, true);
        assert_int_equal(b->n_restarted, 1);
        assert_int_equal(b->next, 5);
        assert_int_equal(book_at(b, 3), 0);
}

static void a_follower_that_was_trimmed_past_starts_again(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        open_node(r, 1, 0);
        append(a, "x");
        run_ms(r, 100);
        r->nodes[1].is_asleep = true;
        for (int i = 0; i < 40; i++) {
                append(a, "x");
                settle(r);
        }
        a->log->ops->trim(a->log, 30);
        run_ms(r, 50);
        r->nodes[1].is_asleep = false;
        run_ms(r, 100);
        assert_int_equal(r->nodes[1].book.n_restarted, 1);
        assert_int_equal(r->nodes[1].book.first, 30);
        assert_same(a, &r->nodes[1].book);
}

static void a_slow_owner_is_not_flooded(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        char *big = xcalloc(1, 8 * MIB);
        for (int i = 0; i < 20; i++) {
                book_append(a, slice_make(big, 8 * MIB));
                settle(r);
        }
        free(big);
        open_node(r, 1, 0);
        struct log *log = r->nodes[1].book.log;
        for (int i = 0; i < 200; i++) {
                (void)sql_log_step_watcher(log);
                memory_now_ns += 10 * NS_PER_MS;
        }
        assert_int_equal(r->nodes[1].book.n_arrived, 0);
        uint64_t n = 0;
        while (log->ops->poll(log, 8 * MIB))
                n++;
        assert_true(r->nodes[1].book.n_arrived <= 10); /* 64 MiB and one more */
        run_ms(r, 500);
        assert_same(a, &r->nodes[1].book);
}

/* ---- what is told ---- */

static void members_are_told_with_what_they_have(void **state)
{
        struct rig *r = *state;
        struct log_member m[LOG_MEMBERS_MAX];
        open_node(r, 0, 7);
        struct book *a = lead(r, 0);
        open_node(r, 1, 3);
        append(a, "x");
        run_ms(r, 100);
        r->nodes[1].book.log->ops->tell(r->nodes[1].book.log, 2, 0xabc);
        run_ms(r, 3000);
        assert_int_equal(a->log->ops->members(a->log, m, LOG_MEMBERS_MAX), 2);
        same(m[0].node, "a");
        same(m[0].address, "weir:7379");
        assert_true(m[0].is_self && m[0].is_leader && !m[1].is_self && !m[1].is_leader);
        assert_int_equal(m[1].priority, 3);
        assert_int_equal(m[1].seq, 2);
        assert_int_equal(m[1].epoch, 1);
        assert_int_equal(m[1].digest_seq, 2);
        assert_int_equal(m[1].digest, 0xabc);
        assert_true(m[1].seen_ms <= 2000);
        struct log *b = r->nodes[1].book.log;
        assert_int_equal(b->ops->members(b, m, LOG_MEMBERS_MAX), 2);
        assert_true(m[0].is_leader && m[1].is_self);
}

static void what_is_kept_and_appended_is_counted(void **state)
{
        struct rig *r = *state;
        struct log_stat stat;
        static char kib[1024];
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        for (int i = 0; i < 100; i++) {
                book_append(a, slice_make(kib, sizeof(kib)));
                settle(r);
        }
        a->log->ops->stat(a->log, &stat);
        assert_int_equal(stat.appended_batches, 100);
        assert_int_equal(stat.appended_bytes, 100 * KIB);
        assert_int_equal(stat.retained_bytes, 100 * KIB);
        assert_true(stat.room_bytes == UINT64_MAX && !stat.is_disk_full);
        assert_int_equal(stat.head_seq, 101);
        a->log->ops->trim(a->log, 52);
        run_ms(r, 10);
        a->log->ops->stat(a->log, &stat);
        assert_true(stat.retained_bytes >= 50 * KIB && stat.retained_bytes <= 55 * KIB);
        /* The next leader counts the same. */
        book_release(a);
        open_node(r, 1, 0);
        struct book *b = lead(r, 1);
        b->log->ops->stat(b->log, &stat);
        assert_true(stat.retained_bytes >= 50 * KIB && stat.retained_bytes <= 55 * KIB);
        assert_int_equal(b->tail.first_seq, 52);
}

static void the_newest_row_stays(void **state)
{
        struct rig *r = *state;
        open_node(r, 0, 0);
        struct book *a = lead(r, 0);
        for (int i = 0; i < 10; i++) {
                append(a, "x");
                settle(r);
        }
        a->log->ops->trim(a->log, 12);
        run_ms(r, 100);
        assert_non_null(memory_db_row(&r->db, 11));
        assert_null(memory_db_row(&r->db, 10));
        append(a, "y");
        settle(r);
        assert_int_equal(a->n_durable, 11);
        /* Only rows of epochs are left when all batches are trimmed. */
        book_release(a);
        open_node(r, 0, 0);
        a = lead(r, 0);
        a->log->ops->trim(a->log, a->next);
        run_ms(r, 100);
        assert_int_equal(memory_db_last(&r->db), 13);
        assert_null(memory_db_row(&r->db, 12));
        open_node(r, 1, 0);
        run_ms(r, 100);
        assert_int_equal(r->nodes[1].book.n_arrived, 0);
        append(a, "z");
        run_ms(r, 100);
        assert_int_equal(r->nodes[1].book.first, 14);
        assert_same(a, &r->nodes[1].book);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(the_first_node_leads_when_its_epoch_row_is_durable),
                RIG_TEST(a_follower_has_each_batch_soon),
                RIG_TEST(a_follower_that_comes_late_begins_with_the_oldest_batch),
                RIG_TEST(an_unknown_append_is_resolved_and_told_once),
                RIG_TEST(a_row_that_is_there_is_durable_only_after_a_barrier),
                RIG_TEST(a_foreign_row_ends_the_lead),
                RIG_TEST(a_refused_batch_ends_the_lead),
                RIG_TEST(a_full_disk_is_waited_for),
                RIG_TEST(a_deposed_leader_never_hears_of_its_batch),
                RIG_TEST(a_batch_that_is_lost_and_lands_later_arrives),
                RIG_TEST(a_sleeper_is_refused_after_others_trimmed_past_it),
                RIG_TEST(a_follower_drops_a_row_that_vanished),
                RIG_TEST(a_follower_looks_for_its_last_row_when_it_connects),
                RIG_TEST(a_follower_notices_an_epoch_that_it_did_not_see_begin),
                RIG_TEST(a_follower_notices_an_epoch_that_it_missed),
                RIG_TEST(a_follower_that_was_trimmed_past_starts_again),
                RIG_TEST(a_slow_owner_is_not_flooded),
                RIG_TEST(members_are_told_with_what_they_have),
                RIG_TEST(what_is_kept_and_appended_is_counted),
                RIG_TEST(the_newest_row_stays),
        };
        say_setup(SAY_NOTHING, false);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
