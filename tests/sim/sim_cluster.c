/* The log of a cluster, on two or three nodes over one database, with a virtual clock and seeded
 * dice.  Servers fail over and forget what was not replicated, answers are lost or late, nodes
 * sleep and are killed, clocks jump (cluster_world.h, support/memory_ledger.h).
 *
 * Each node only notes the batches that it has (support/log_book.h).  What must hold:
 *
 *   (1) a batch that was told durable is replicated, and no other batch is ever told durable under
 *       its number
 *   (2) a leader begins with every batch that was ever told durable, except trimmed ones
 *   (3) each lead has an epoch of its own, and its first row is replicated
 *   (4) at most one node at a time may answer from memory (leads_until), and it has every batch
 * that was told durable (5) when all is well again, one node leads, appends, and everybody has
 * exactly the log
 *
 * WEIR_SEED repeats a run, WEIR_ROUNDS makes that many times as many. */
#include "unit/check.h"

#include <stdio.h>

#include "base/say.h"
#include "prop/dice.h"
#include "sim/cluster_world.h"
#include "support/log_book.h"

#define TICKS    6000
#define SEQS_MAX 20000

struct truth {
        struct book books[CLUSTER_NODES];
        uint64_t told[SEQS_MAX]; /* the sum of the batch that was told durable; 0: none was */
        uint64_t told_last;
        uint64_t trimmed; /* below this batches may be gone */
        uint64_t epochs[SEQS_MAX];
        size_t n_epochs;
        bool is_still; /* nothing is appended */
        uint64_t n_batches, n_told, n_leads, n_lost, n_restarted;
};

static struct truth *truth_of(struct cluster *c)
{
        return c->owner;
}

/* (1) */
static void on_durable(struct book *b, uint64_t seq, uint64_t sum)
{
        struct cnode *n = b->ctx;
        struct truth *t = truth_of(n->cluster);
        const struct db_row *row = memory_db_row(&n->cluster->db, seq);
        bool is_safe =
                row && row->state == ROW_SAFE && book_sum(slice_make(row->body, row->len)) == sum;
        assert_true(seq < SEQS_MAX);
        if (!is_safe && !(!row && seq < t->trimmed)) /* the answer may come that late */
                fail_msg("batch %llu was told durable and is not safe", (unsigned long long)seq);
        if (t->told[seq] && t->told[seq] != sum)
                fail_msg("two batches %llu were told durable", (unsigned long long)seq);
        t->told[seq] = sum;
        if (seq > t->told_last)
                t->told_last = seq;
        t->n_told++;
}

static void assert_has_all(const struct truth *t, const struct book *b)
{
        for (uint64_t seq = 1; seq <= t->told_last; seq++) {
                if (!t->told[seq] || (seq < b->first && seq < t->trimmed))
                        continue;
                if (book_at(b, seq) != t->told[seq])
                        fail_msg("a leader lacks batch %llu", (unsigned long long)seq);
        }
}

/* (2), (3) */
static void on_led(struct book *b)
{
        struct cnode *n = b->ctx;
        struct truth *t = truth_of(n->cluster);
        const struct db_row *row = memory_db_row(&n->cluster->db, b->tail.last_seq);
        if (!row || row->state != ROW_SAFE || row->head.kind != LEDGER_EPOCH)
                fail_msg("a lead begins without the row of its epoch");
        for (size_t i = 0; i < t->n_epochs; i++)
                if (t->epochs[i] == row->head.epoch)
                        fail_msg("two leads of epoch %llu", (unsigned long long)row->head.epoch);
        assert_true(t->n_epochs < SEQS_MAX);
        t->epochs[t->n_epochs++] = row->head.epoch;
        t->n_leads++;
}

static void born(struct cnode *n)
{
        struct book *b = &truth_of(n->cluster)->books[n->index];
        *b = (struct book){.on_durable = on_durable, .on_led = on_led, .ctx = n};
        n->owner = b;
        book_open(b, n->log, true);
}

static void died(struct cnode *n)
{
        struct book *b = n->owner;
        struct truth *t = truth_of(n->cluster);
        t->n_lost += b->n_lost;
        t->n_restarted += b->n_restarted;
        b->log = NULL; /* it is closed by who opened it */
        book_release(b);
}

static void lead_turn(struct cnode *n, struct book *b)
{
        struct cluster *c = n->cluster;
        struct truth *t = truth_of(c);
        struct problem p;
        char text[64];
        if (!b->is_in_flight && b->next + 1 < SEQS_MAX) {
                (void)snprintf(text, sizeof(text), "batch %llu by %zu",
                               (unsigned long long)++t->n_batches, n->index);
                book_append(b, slice_make(text, strlen(text)));
        }
        if (cluster_roll(c, 60) == 0) {
                uint64_t before = b->next - cluster_roll(c, b->next < 20 ? b->next : 20);
                b->log->ops->trim(b->log, before);
                if (before > t->trimmed)
                        t->trimmed = before;
        }
        if (cluster_roll(c, 300) == 0 && !c->is_calm)
                (void)b->log->ops->hand_over(b->log, SLICE_NONE, false,
                                             &p); /* if anybody is ready */
}

static void turn(struct cnode *n)
{
        struct book *b = n->owner;
        (void)b->log->ops->poll(b->log, cluster_roll(n->cluster, 1000)); /* the rest: next time */
        if (b->is_leading && !truth_of(n->cluster)->is_still && cluster_roll(n->cluster, 4) == 0)
                lead_turn(n, b);
}

/* (4) */
static void check(struct cluster *c)
{
        const struct truth *t = truth_of(c);
        size_t n_valid = 0;
        for (size_t i = 0; i < c->n_nodes; i++) {
                const struct book *b = &t->books[i];
                if (!c->nodes[i].log || !b->is_leading ||
                    b->log->ops->leads_until_ns(b->log) <= memory_now_ns)
                        continue;
                n_valid++;
                if (b->next <= t->told_last)
                        fail_msg("a leader would answer without batch %llu",
                                 (unsigned long long)t->told_last);
        }
        if (n_valid > 1)
                fail_msg("two nodes may answer from memory");
}

/* (5) */
static void check_calm(struct cluster *c)
{
        struct truth *t = truth_of(c);
        struct book *leader = NULL;
        uint64_t told = t->n_told;
        cluster_calm(c, 30000);
        for (size_t i = 0; i < c->n_nodes; i++) {
                if (!t->books[i].is_leading)
                        continue;
                assert_null(leader);
                leader = &t->books[i];
        }
        assert_non_null(leader);
        assert_true(t->n_told > told || leader->next + 2 > SEQS_MAX);
        assert_has_all(t, leader);
        t->is_still = true; /* so that everybody comes to have it */
        cluster_calm(c, 5000);
        t->is_still = false;
        for (size_t i = 0; i < c->n_nodes; i++) {
                const struct book *b = &t->books[i];
                assert_int_equal(b->next, leader->next);
                for (uint64_t seq = b->first; seq < b->next; seq++)
                        if (seq >= leader->first && book_at(b, seq) != book_at(leader, seq))
                                fail_msg("a follower has another batch %llu",
                                         (unsigned long long)seq);
        }
}

static const struct cluster_ops ops = {born, died, turn, check};

static void run_round(uint64_t seed)
{
        struct cluster *c = xcalloc(1, sizeof(*c));
        struct truth *t = xcalloc(1, sizeof(*t));
        cluster_init(c, &ops, seed);
        c->owner = t;
        for (size_t i = 0; i < c->n_nodes; i++)
                cnode_start(&c->nodes[i]);
        for (int part = 0; part < 2; part++) {
                for (int i = 0; i < TICKS; i++)
                        cluster_tick(c);
                check_calm(c);
        }
        cluster_release(c);
        print_message("told %llu, leads %llu, lost %llu, restarted %llu, faults %llu, kills %llu, "
                      "vanished %llu\n",
                      (unsigned long long)t->n_told, (unsigned long long)t->n_leads,
                      (unsigned long long)t->n_lost, (unsigned long long)t->n_restarted,
                      (unsigned long long)c->n_faults, (unsigned long long)c->n_kills,
                      (unsigned long long)c->db.n_vanished);
        free(t);
        free(c);
}

static void nothing_told_durable_is_lost_whoever_leads(void **unused)
{
        (void)unused;
        dice_play(100, run_round);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_told_durable_is_lost_whoever_leads),
        };
        say_setup(getenv("WEIR_SAY") ? SAY_DEBUG : SAY_NOTHING,
                  false); /* what operators are told of is not news here */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
