/* Three nodes over a database in memory, step by step and with a clock of its own: for the tests of
 * the SQL log. */
#ifndef WEIR_TESTS_UNIT_SQL_LOG_BOX_H
#define WEIR_TESTS_UNIT_SQL_LOG_BOX_H

#include "unit/check.h"

#include <stdio.h>

#include "base/say.h"
#include "cluster/sql_log.h"
#include "support/log_book.h"
#include "support/memory_ledger.h"

#define NODES 3
#define LEASE 3000

struct node {
        struct book book;
        bool is_away;
        bool is_asleep; /* none of its threads runs */
};

struct rig {
        struct memory_db db;
        struct rng rng;
        struct node nodes[NODES];
};

static inline int rig_setup(void **state)
{
        struct rig *r = xcalloc(1, sizeof(*r));
        memory_now_ns = 100 * NS_PER_S;
        memory_db_init(&r->db, 1);
        r->db.lease_min_ms = LEASE;
        rng_init_seed(&r->rng, 1);
        *state = r;
        return 0;
}

static inline int rig_teardown(void **state)
{
        struct rig *r = *state;
        for (size_t i = 0; i < NODES; i++)
                book_release(&r->nodes[i].book);
        memory_db_release(&r->db);
        free(r);
        return 0;
}

/* `with` has what is not the same for all. */
static inline void open_with(struct rig *r, size_t i, const struct sql_log_options *with)
{
        static const char *const names[NODES] = {"a", "b", "c"};
        struct node *n = &r->nodes[i];
        struct problem p;
        struct log *log = NULL;
        struct sql_log_options o = {
                .appender = memory_ledger_new(&r->db, &n->is_away, n),
                .watcher = memory_ledger_new(&r->db, &n->is_away, n),
                .node = names[i],
                .address = "weir:7379",
                .priority = with->priority,
                .is_mover = with->is_mover,
                .boot_ns = memory_boot_ns,
                .rng = &r->rng,
        };
        assert_int_equal(sql_log_open(&o, &log, &p), OK);
        n->book = (struct book){0};
        n->is_away = n->is_asleep = false;
        book_open(&n->book, log, true);
}

static inline void open_node(struct rig *r, size_t i, int priority)
{
        open_with(r, i, &(struct sql_log_options){.priority = priority});
}

/* Lets everybody do what is due. */
static inline void settle(struct rig *r)
{
        bool is_busy = true;
        for (int i = 0; is_busy && i < 1000; i++) {
                is_busy = false;
                for (size_t k = 0; k < NODES; k++) {
                        struct node *n = &r->nodes[k];
                        if (!n->book.log || n->is_asleep)
                                continue;
                        is_busy |= sql_log_step_appender(n->book.log);
                        is_busy |= sql_log_step_watcher(n->book.log);
                        is_busy |= n->book.log->ops->poll(n->book.log, MIB);
                }
        }
        memory_db_tick(&r->db);
}

static inline void run_ms(struct rig *r, int64_t ms)
{
        for (int64_t at = 0; at < ms; at += 10) {
                settle(r);
                memory_now_ns += 10 * NS_PER_MS;
        }
        settle(r);
}

static inline struct book *lead(struct rig *r, size_t i)
{
        for (int k = 0; k < 100 && !r->nodes[i].book.is_leading; k++)
                run_ms(r, 100);
        assert_true(r->nodes[i].book.is_leading);
        return &r->nodes[i].book;
}

static inline void append(struct book *b, const char *text)
{
        book_append(b, slice_str(text));
}

/* All that a leads has been appended, and b has it. */
static inline void assert_same(const struct book *a, const struct book *b)
{
        assert_int_equal(a->next, b->next);
        for (uint64_t seq = b->first; seq < b->next; seq++)
                assert_int_equal(book_at(a, seq), book_at(b, seq));
}

/* Another node's row, written past all logs. */
static inline void write_foreign(struct rig *r, uint64_t seq, uint64_t epoch, enum ledger_kind kind)
{
        struct ledger *l = memory_ledger_new(&r->db, NULL, NULL);
        struct sql_wait w = {.stop_fd = -1, .deadline_ns = INT64_MAX};
        struct problem p;
        struct ledger_head head = {.seq = seq, .epoch = epoch, .kind = kind};
        (void)snprintf(head.node, sizeof(head.node), "x.0000000000000000");
        const struct db_row *previous = memory_db_row(&r->db, seq - 1);
        assert_non_null(previous);
        assert_int_equal(l->ops->connect(l, &w, &p), OK);
        assert_int_equal(l->ops->append(l, &head, slice_str(kind == LEDGER_BATCH ? "foreign" : ""),
                                        &previous->head, &w, &p),
                         LEDGER_DURABLE);
        l->ops->free(l);
}

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

#endif
