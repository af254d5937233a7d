/* Whole cores on two or three nodes over one database, with a virtual clock and seeded dice: one
 * leads, the others follow, and any of them may be the next (cluster_world.h has the faults).
 *
 * Clients send random commands to whoever leads (story.h); what they are told when its batch is
 * durable is a promise, over all leads.  When a node begins to lead:
 *
 *   (1) nothing promised is lost, fences only grow, no job has two live leases, counters equal
 * lists (checks.h) (2) its state is the one that the writer of the last batch had after it
 *
 * At any time (3) all nodes whose digest of the state (state/digest.c) ended in the same batch have
 * the same digest.  When all is well again, all nodes have the same state, and the same digest.
 *
 * The archive of each node holds what all of them committed; only the leader of the newest epoch
 * can commit, as in the database.
 *
 * WEIR_SEED repeats a run, WEIR_ROUNDS makes that many times as many. */
#include "unit/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/say.h"
#include "features/features.h"
#include "prop/dice.h"
#include "sim/checks.h"
#include "sim/cluster_world.h"
#include "sim/story.h"
#include "sim/world.h"

#define TICKS    6000
#define SEQS_MAX 20000

/* The state of the node that wrote this batch, after it. */
struct written {
        uint64_t seq, epoch, digest;
};

/* The digest that ended in this batch. */
struct digested {
        struct ledger_head head;
        uint64_t digest;
};

struct peer {
        struct cnode *node;
        struct world world;
        bool is_told;    /* that it leads */
        bool is_leading; /* and it serves */
        uint64_t epoch;
};

struct truth {
        struct peer peers[CLUSTER_NODES];
        struct model model; /* what clients were told by any of them */
        struct memory_archive archive;
        uint64_t believed_seq; /* the newest batch that clients were told of */
        int64_t wall_ms;
        struct written *written;
        size_t n_written, cap_written;
        struct digested *digested;
        size_t n_digested, cap_digested;
        bool is_quiet; /* clients send nothing */
        bool is_still; /* not even time passes for a core */
        uint64_t n_leads, n_lost, n_restarted, n_durable, n_compared, n_verified;
};

static struct truth *truth_of(struct cnode *n)
{
        return n->cluster->owner;
}

/* ---- the core of a node ---- */

static struct reply *session_begin(struct session *s)
{
        struct world *w = CONTAINER_OF(s, struct world, session);
        text_reply_clear(&w->reply);
        return &w->reply.base;
}

static void session_end(struct session *s)
{
        (void)s; /* nobody waits here: claims answer at once */
}

static const struct session_ops session_ops_sim = {session_begin, session_end};

static struct reply *bulk_begin(struct session *s)
{
        return session_begin(&CONTAINER_OF(s, struct world, bulk)->session);
}

static const struct session_ops bulk_ops_sim = {bulk_begin, session_end};

/* A client that sent the end of its lease has let go, whether or not that lands (model_die). */
static void let_go(struct truth *t, const struct model *m)
{
        for (size_t i = 0; i < m->n_said; i++) {
                const struct saying *s = &m->said[i];
                struct promise *p = &t->model.jobs[s->id];
                if (strcmp(p->token, m->jobs[s->id].token) != 0)
                        continue; /* another one has the lease by now */
                if (s->what == S_ENDED || s->what == S_RETURNED)
                        p->is_held = false;
                if (s->what == S_EXTENDED && s->until_ns < p->held_until_ns)
                        p->held_until_ns = s->until_ns;
        }
}

/* It forgets all, as a process that begins. */
static void begin_again(struct peer *p)
{
        struct world *w = &p->world;
        let_go(truth_of(p->node), &w->model);
        model_die(&w->model);
        session_release(w->core, &w->session);
        session_release(w->core, &w->bulk);
        memory_archive_crash(&w->archive);
        core_empty(w->core);
        core_follow(w->core);
        session_init(&w->session, &session_ops_sim);
        session_init(&w->bulk, &bulk_ops_sim);
        p->is_told = p->is_leading = false;
}

/* ---- the log ---- */

/* A node that was overtaken and does not know it may still hear that a batch is durable, and say
 * so. Leases that it tells of may have ended since. */
static void spread_late(struct truth *t, const struct model *m)
{
        for (size_t i = 0; i < m->n_flying; i++) {
                const struct saying *s = &m->said[i];
                struct promise *p = &t->model.jobs[s->id];
                if (s->what == S_GRANTED && s->fence > t->model.fence)
                        t->model.fence = s->fence;
                if (s->what == S_ENDED) {
                        p->told = T_ENDED;
                        p->status = s->status;
                } else if (s->what == S_ENQUEUED && p->told == T_NOTHING) {
                        p->told = T_ENQUEUED;
                        p->args_len = ARGS_OTHER;
                }
        }
}

/* What the node's clients were told becomes known to all. */
static void spread(struct truth *t, const struct model *m, uint64_t seq)
{
        if (seq < t->believed_seq) {
                spread_late(t, m);
                return;
        }
        t->believed_seq = seq;
        t->model.n_said = t->model.n_flying = m->n_flying;
        memcpy(t->model.said, m->said, m->n_flying * sizeof(m->said[0]));
        for (uint64_t id = 1; id <= JOBS_MAX; id++)
                t->model.jobs[id].args_len = m->jobs[id].args_len;
        model_believe(&t->model);
}

/* (3), when batch `seq` is applied.  One that is not there any more is about to be forgotten. */
static void check_digest(struct cnode *n, const struct core *core, uint64_t seq)
{
        struct truth *t = truth_of(n);
        const struct digest_walk *w = &core->state.digest;
        const struct db_row *row = memory_db_row(&n->cluster->db, seq);
        if (w->seq != seq || !row)
                return;
        for (size_t i = 0; i < t->n_digested; i++) {
                const struct digested *d = &t->digested[i];
                if (d->head.seq != seq || d->head.epoch != row->head.epoch ||
                    strcmp(d->head.node, row->head.node) != 0)
                        continue;
                if (d->digest != w->digest)
                        fail_msg("two nodes have other digests in batch %llu",
                                 (unsigned long long)seq);
                t->n_verified++;
                return;
        }
        if (t->n_digested == t->cap_digested) {
                t->cap_digested = t->cap_digested ? 2 * t->cap_digested : 256;
                t->digested = xrealloc(t->digested, t->cap_digested * sizeof(*t->digested));
        }
        t->digested[t->n_digested++] = (struct digested){row->head, w->digest};
}

static void on_durable(void *ctx, uint64_t seq)
{
        struct cnode *n = ctx;
        struct peer *p = n->owner;
        struct truth *t = truth_of(n);
        const struct db_row *row = memory_db_row(&n->cluster->db, seq);
        if (!p->is_leading || (row && (row->state != ROW_SAFE || row->head.epoch != p->epoch)) ||
            memory_db_last(&n->cluster->db) < seq) /* it may be trimmed when the answer comes */
                fail_msg("batch %llu was told durable and is not safe", (unsigned long long)seq);
        t->n_durable++;
        spread(t, &p->world.model, seq);
        model_believe(&p->world.model);
        core_durable(p->world.core, seq);
        check_digest(n, p->world.core, seq);
}

static void on_failed(void *ctx, const struct problem *p)
{
        (void)ctx;
        fail_msg("the log failed: %s", p->detail);
}

static void on_arrived(void *ctx, uint64_t seq, struct slice batch)
{
        struct cnode *n = ctx;
        struct peer *p = n->owner;
        struct problem problem;
        if (core_arrive(p->world.core, seq, batch, &problem) != OK)
                fail_msg("batch %llu: %s", (unsigned long long)seq, problem.detail);
        check_digest(n, p->world.core, seq);
}

static void on_restarted(void *ctx)
{
        struct cnode *n = ctx;
        truth_of(n)->n_restarted++;
        begin_again(n->owner);
}

static void on_lost(void *ctx, const struct problem *problem)
{
        struct cnode *n = ctx;
        (void)problem;
        truth_of(n)->n_lost++;
        begin_again(n->owner);
}

/* (2); false when the batch before was trimmed. */
static bool find_digest(struct truth *t, const struct memory_db *db, uint64_t seq, uint64_t *ret)
{
        const struct db_row *row = NULL;
        while (seq && (row = memory_db_row(db, seq)) && row->head.kind == LEDGER_EPOCH)
                seq--;
        for (size_t i = t->n_written; row && seq && i-- > 0;) {
                const struct written *w = &t->written[i];
                if (w->seq == seq && w->epoch == row->head.epoch) {
                        *ret = w->digest;
                        return true;
                }
        }
        return false;
}

static uint64_t newest_epoch(const struct memory_db *db)
{
        return memory_db_row(db, memory_db_last(db))->head.epoch;
}

/* It may have been overtaken before it hears that it leads: then it is about to lose the lead,
 * unless the other's row vanishes, and what was promised since is not its matter. */
static void serve(struct cnode *n)
{
        struct peer *p = n->owner;
        struct world *w = &p->world;
        struct truth *t = truth_of(n);
        if (newest_epoch(&n->cluster->db) != p->epoch)
                return;
        p->is_leading = true;
        for (size_t i = 0; i < n->cluster->n_nodes; i++)
                let_go(t, &t->peers[i].world.model); /* of a leader that has not heard of it yet */
        memory_archive_copy(&w->archive, &t->archive);
        w->model = t->model;
        for (uint64_t id = 1; id <= JOBS_MAX; id++)
                if (w->model.jobs[id].told == T_NOTHING) /* of a lost lead, and landed or not */
                        w->model.jobs[id].args_len = ARGS_OTHER;
        check_after_start(w);
        w->now = (struct now){.steady_ns = core_steady_ns(w->core), .wall_ms = t->wall_ms};
        core_turn(w->core, w->now);
}

static void on_led(void *ctx, const struct log_tail *tail)
{
        struct cnode *n = ctx;
        struct peer *p = n->owner;
        struct world *w = &p->world;
        struct truth *t = truth_of(n);
        struct problem problem;
        const struct db_row *row = memory_db_row(&n->cluster->db, tail->last_seq);
        if (core_promote(w->core, &problem) != OK)
                fail_msg("promotion: %s", problem.detail);
        assert_true(row && row->head.kind == LEDGER_EPOCH && row->state == ROW_SAFE);
        assert_int_equal(core_durable_seq(w->core), tail->last_seq);
        p->epoch = row->head.epoch;
        t->n_leads++;
        w->digest_born = state_digest(&w->core->state);
        w->digest_durable = w->digest_flying = w->digest_born;
        if (find_digest(t, &n->cluster->db, tail->last_seq, &w->digest_durable)) {
                w->digest_flying = w->digest_durable;
                t->n_compared++;
        }
        p->is_told = true;
        serve(n);
}

/* ---- lives ---- */

static void born(struct cnode *n)
{
        struct truth *t = truth_of(n);
        struct peer *p = &t->peers[n->index];
        struct world *w = &p->world;
        struct log_tail tail;
        struct problem problem;
        struct core_options options = {
                .parts = &weir_parts,
                .log = n->log,
                .archive = &w->archive.base,
                .rng = &w->rng,
                .log_slack_bytes = 32 * KIB,
                .turn_steps = 1 + (int)cluster_roll(n->cluster, 20),
        };
        n->owner = p;
        p->node = n;
        *n->log = (struct log){.ops = n->log->ops,
                               .durable = on_durable,
                               .failed = on_failed,
                               .arrived = on_arrived,
                               .restarted = on_restarted,
                               .led = on_led,
                               .lost = on_lost,
                               .ctx = n};
        p->is_told = p->is_leading = false;
        w->core = core_new(&options);
        core_follow(w->core);
        session_init(&w->session, &session_ops_sim);
        session_init(&w->bulk, &bulk_ops_sim);
        assert_int_equal(n->log->ops->lead(n->log, &tail, &problem), ERR_UNAVAIL);
}

static void died(struct cnode *n)
{
        struct peer *p = n->owner;
        begin_again(p);
        p->world.core = core_free(p->world.core);
        memory_archive_crash(&p->world.archive);
}

static void note_written(struct truth *t, const struct peer *p)
{
        /* It may land and never be told: then args are no longer what was told. */
        for (uint64_t id = 1; id <= JOBS_MAX; id++)
                if (p->world.model.jobs[id].args_len == ARGS_UNKNOWN)
                        t->model.jobs[id].args_len = ARGS_UNKNOWN;
        if (t->n_written == t->cap_written) {
                t->cap_written = t->cap_written ? 2 * t->cap_written : 256;
                t->written = xrealloc(t->written, t->cap_written * sizeof(*t->written));
        }
        t->written[t->n_written++] = (struct written){core_durable_seq(p->world.core) + 1, p->epoch,
                                                      p->world.digest_flying};
}

static void lead_turn(struct cnode *n, struct peer *p)
{
        struct truth *t = truth_of(n);
        struct world *w = &p->world;
        struct memory_db *db = &n->cluster->db;
        struct problem problem;
        w->archive.is_stuck = newest_epoch(db) != p->epoch;
        if (!t->is_quiet)
                for (uint64_t k = 1 + roll(w, 5); k; k--)
                        story_step(w);
        else if (roll(w, 2))
                story_time(w);
        if (t->is_quiet) {
                memory_archive_commit(&w->archive, 1000);
                core_archive_poll(w->core);
        }
        if (roll(w, 8) == 0)
                (void)core_verify(w->core); /* all that tell a digest have the same */
        bool was_flying = w->core->is_in_flight;
        world_commit(w);
        if (!was_flying && w->core->is_in_flight)
                note_written(t, p);
        check_crowd(w);
        if (!w->archive.is_stuck) {
                memory_archive_copy(&t->archive, &w->archive);
                if (w->now.wall_ms > t->wall_ms)
                        t->wall_ms = w->now.wall_ms;
        }
        if (roll(w, 300) == 0 && !t->is_quiet)
                (void)n->log->ops->hand_over(n->log, SLICE_NONE, false,
                                             &problem); /* if one is ready */
}

static void turn(struct cnode *n)
{
        struct peer *p = n->owner;
        (void)n->log->ops->poll(n->log, cluster_roll(n->cluster, 10000)); /* the rest: next time */
        if (p->is_told && !p->is_leading)
                serve(n);
        if (p->is_leading && !truth_of(n)->is_still && cluster_roll(n->cluster, 4) == 0)
                lead_turn(n, p);
}

static void check(struct cluster *c)
{
        const struct truth *t = c->owner;
        size_t n_valid = 0;
        for (size_t i = 0; i < c->n_nodes; i++)
                n_valid += c->nodes[i].log && t->peers[i].is_leading &&
                           c->nodes[i].log->ops->leads_until_ns(c->nodes[i].log) > memory_now_ns;
        if (n_valid > 1)
                fail_msg("two nodes may answer from memory");
}

static const struct cluster_ops ops = {born, died, turn, check};

static void check_calm(struct cluster *c)
{
        struct truth *t = c->owner;
        struct world *leader = NULL;
        t->is_quiet = true;
        cluster_calm(c, 40000);
        for (size_t i = 0; i < c->n_nodes; i++) {
                if (!t->peers[i].is_leading)
                        continue;
                assert_null(leader);
                leader = &t->peers[i].world;
        }
        assert_non_null(leader);
        t->is_still = true;
        cluster_calm(c, 3000);
        uint64_t digest = core_digest(leader->core);
        for (size_t i = 0; i < c->n_nodes; i++) {
                const struct core *core = t->peers[i].world.core;
                /* Where there are only rows of epochs nothing arrives. */
                bool is_empty =
                        memory_db_row(&c->db, memory_db_last(&c->db))->head.kind == LEDGER_EPOCH;
                if (core_durable_seq(core) || !is_empty)
                        assert_int_equal(core_durable_seq(core), core_durable_seq(leader->core));
                if (!core_is_settled(leader->core))
                        continue;
                if (core_digest(core) != digest)
                        fail_msg("a follower has another state than the leader");
                const struct digest_walk *w = &core->state.digest,
                                         *its = &leader->core->state.digest;
                if (w->seq != its->seq || w->digest != its->digest)
                        fail_msg("a follower has another digest than the leader: batch %llu, not "
                                 "%llu, first %llu",
                                 (unsigned long long)w->seq, (unsigned long long)its->seq,
                                 (unsigned long long)core->state.first_seq);
        }
        t->is_still = false;
        t->is_quiet = false;
}

static void release(struct truth *t, size_t n)
{
        for (size_t i = 0; i < n; i++)
                world_release(&t->peers[i].world);
        memory_archive_release(&t->archive);
        free(t->written);
        free(t->digested);
        free(t);
}

static void run_round(uint64_t seed)
{
        struct cluster *c = xcalloc(1, sizeof(*c));
        struct truth *t = xcalloc(1, sizeof(*t));
        cluster_init(c, &ops, seed);
        c->owner = t;
        memory_archive_init(&t->archive);
        for (size_t i = 0; i < c->n_nodes; i++) {
                world_init(&t->peers[i].world, seed);
                rng_init_seed(&t->peers[i].world.rng, 10 * seed + i); /* tokens differ */
                t->wall_ms = t->peers[i].world.now.wall_ms;
                cnode_start(&c->nodes[i]);
        }
        for (int part = 0; part < 2; part++) {
                for (int i = 0; i < TICKS; i++)
                        cluster_tick(c);
                check_calm(c);
        }
        size_t n = c->n_nodes;
        cluster_release(c);
        print_message("told %llu, batches %llu, leads %llu (%llu compared), digests %zu (%llu "
                      "compared), lost %llu, restarted %llu, faults %llu\n",
                      (unsigned long long)t->model.n_told, (unsigned long long)t->n_durable,
                      (unsigned long long)t->n_leads, (unsigned long long)t->n_compared,
                      t->n_digested, (unsigned long long)t->n_verified,
                      (unsigned long long)t->n_lost, (unsigned long long)t->n_restarted,
                      (unsigned long long)c->n_faults);
        release(t, n);
        free(c);
}

static void nothing_told_is_lost_whichever_node_leads(void **unused)
{
        (void)unused;
        dice_play(10, run_round);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_told_is_lost_whichever_node_leads),
        };
        say_setup(getenv("WEIR_SAY") ? SAY_DEBUG : SAY_NOTHING,
                  false); /* what operators are told of is not news here */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
