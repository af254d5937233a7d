/* See the header. */
#include "sim/cluster_world.h"

#include "unit/check.h"

#include "cluster/sql_log.h"

#define DEPTH_MAX 4
#define LEASE_MS  3000
#define HOUR_MS   3600000

/* ---- nodes ---- */

void cnode_start(struct cnode *n)
{
        static const char *const names[CLUSTER_NODES] = {"a", "b", "c"};
        struct cluster *c = n->cluster;
        struct problem p;
        struct sql_log_options o = {
                .appender = memory_ledger_new(&c->db, &n->is_away, &n->actors[ACTOR_APPENDER]),
                .watcher = memory_ledger_new(&c->db, &n->is_away, &n->actors[ACTOR_WATCHER]),
                .node = names[n->index],
                .address = names[n->index],
                .priority = (int)cluster_roll(c, 3),
                .boot_ns = memory_boot_ns,
                .rng = &c->rng,
        };
        n->ledgers[0] = CONTAINER_OF(o.appender, struct memory_ledger, base);
        n->ledgers[1] = CONTAINER_OF(o.watcher, struct memory_ledger, base);
        n->dead_until = 0;
        assert_int_equal(sql_log_open(&o, &n->log, &p), OK);
        c->ops->born(n);
}

void cnode_stop(struct cnode *n, bool is_clean)
{
        for (int i = 0; i < 2 && !is_clean; i++)
                n->ledgers[i]->is_open = false;
        /* A call that waits belongs to the actor that made it: nobody else runs meanwhile. */
        n->cluster->depth += DEPTH_MAX;
        n->cluster->ops->died(n);
        n->log = n->log->ops->close(n->log);
        n->cluster->depth -= DEPTH_MAX;
}

static bool is_busy(const struct cnode *n)
{
        for (size_t i = 0; i < ACTORS; i++)
                if (n->actors[i].is_busy)
                        return true;
        return false;
}

/* ---- faults ---- */

static void set_trouble(struct cluster *c, enum trouble t, bool is)
{
        switch (t) {
        case TROUBLE_CUT:
                if (is)
                        c->db.is_cut = true;
                else if (c->db.is_cut)
                        memory_db_heal(&c->db);
                break;
        case TROUBLE_DOWN:
                c->db.is_down = is;
                break;
        case TROUBLE_FULL:
                c->db.is_full = is;
                break;
        case TROUBLE_UNSAFE:
                c->db.is_unsafe = is;
                break;
        case TROUBLE_FROZEN:
                c->db.is_frozen = is;
                break;
        case TROUBLE_AWAY:
        case TROUBLES:
        default:
                c->nodes[t - TROUBLE_AWAY].is_away = is;
                break;
        }
}

static void begin_trouble(struct cluster *c, enum trouble t, uint64_t max_ms)
{
        set_trouble(c, t, true);
        c->ends_ns[t] = memory_now_ns + (int64_t)cluster_roll(c, max_ms) * NS_PER_MS;
}

static void end_troubles(struct cluster *c)
{
        for (int t = 0; t < TROUBLES; t++) {
                if (!c->ends_ns[t] || (c->ends_ns[t] > memory_now_ns && !c->is_calm))
                        continue;
                c->ends_ns[t] = 0;
                set_trouble(c, (enum trouble)t, false);
        }
        for (size_t i = 0; i < c->n_nodes; i++) {
                struct cnode *n = &c->nodes[i];
                if (c->is_calm)
                        n->asleep_until = 0;
                if (!n->log && (n->dead_until <= memory_now_ns || c->is_calm))
                        cnode_start(n);
        }
}

/* By seconds, as the clocks of two servers differ, or by an hour, as one that is set. */
static void change_clock(struct cluster *c)
{
        int64_t far_ms = cluster_roll(c, 4) == 0 ? HOUR_MS : 0;
        c->db.skew_ms =
                (int64_t)cluster_roll(c, 6000) - 3000 + far_ms * ((int64_t)cluster_roll(c, 3) - 1);
}

static void kill_node(struct cluster *c, struct cnode *n)
{
        if (!n->log || is_busy(n))
                return;
        c->n_kills++;
        cnode_stop(n, cluster_roll(c, 3) == 0);
        n->dead_until = memory_now_ns + (int64_t)cluster_roll(c, 15000) * NS_PER_MS;
}

static void cause_trouble(struct cluster *c)
{
        struct cnode *n = &c->nodes[cluster_roll(c, c->n_nodes)];
        c->n_faults++;
        switch (cluster_roll(c, 12)) {
        case 0:
        case 1:
                memory_db_fail_over(&c->db);
                c->ends_ns[TROUBLE_CUT] = 0;
                change_clock(c);
                begin_trouble(c, TROUBLE_DOWN, 15000);
                break;
        case 2:
                memory_db_restart(&c->db);
                begin_trouble(c, TROUBLE_DOWN, 2000);
                break;
        case 3:
                begin_trouble(c, TROUBLE_CUT, 20000);
                break;
        case 4:
                begin_trouble(c, TROUBLE_FULL, 8000);
                break;
        case 5:
                begin_trouble(c, TROUBLE_UNSAFE, 5000);
                break;
        case 6:
                begin_trouble(c, TROUBLE_FROZEN, 12000);
                break;
        case 7:
                begin_trouble(c, (enum trouble)(TROUBLE_AWAY + n->index), 40000);
                break;
        case 8:
        case 9:
                n->asleep_until = memory_now_ns + (int64_t)cluster_roll(c, 30000) * NS_PER_MS;
                break;
        case 10:
                change_clock(c);
                break;
        default:
                kill_node(c, n);
                break;
        }
}

/* ---- ticks ---- */

static void step(struct cluster *c)
{
        struct cnode *n = &c->nodes[cluster_roll(c, c->n_nodes)];
        enum actor_kind kind = (enum actor_kind)cluster_roll(c, ACTORS);
        if (!n->log || n->actors[kind].is_busy || n->asleep_until > memory_now_ns)
                return;
        if (kind == ACTOR_APPENDER)
                (void)sql_log_step_appender(n->log);
        else if (kind == ACTOR_WATCHER)
                (void)sql_log_step_watcher(n->log);
        else
                c->ops->turn(n);
}

void cluster_tick(struct cluster *c)
{
        c->n_ticks++;
        memory_now_ns += (int64_t)cluster_roll(c, 12) * NS_PER_MS;
        end_troubles(c);
        memory_db_tick(&c->db);
        if (!c->is_calm && cluster_roll(c, 1000) < c->per_mille_fault)
                cause_trouble(c);
        step(c);
        c->ops->check(c);
}

/* The call of an actor waits. */
static void pass_time(void *ctx, struct memory_ledger *l, int64_t until_ns)
{
        struct cluster *c = ctx;
        struct actor *a = l->owner;
        bool is_first = !a->is_busy;
        a->is_busy = true;
        c->depth++;
        if (c->depth > DEPTH_MAX) {
                if (until_ns > memory_now_ns && c->depth <= 2 * DEPTH_MAX)
                        memory_now_ns = until_ns;
        } else if (!until_ns) {
                /* Seldom it takes longer than a lease. */
                int64_t max_ns = (c->is_calm || cluster_roll(c, 30) ? 100 : 10000) * NS_PER_MS;
                until_ns = memory_now_ns + (int64_t)cluster_roll(c, (uint64_t)max_ns);
                while (memory_now_ns < until_ns)
                        cluster_tick(c);
        } else {
                int64_t jump_ns = (until_ns - memory_now_ns) / 100;
                while (memory_now_ns < until_ns &&
                       (c->db.is_cut || c->db.is_frozen || a->node->is_away)) {
                        memory_now_ns += (int64_t)cluster_roll(c, (uint64_t)jump_ns + 1);
                        cluster_tick(c);
                }
        }
        c->depth--;
        a->is_busy = !is_first;
}

void cluster_calm(struct cluster *c, int64_t ms)
{
        unsigned append = c->db.per_mille_append, call = c->db.per_mille_call;
        unsigned connect = c->db.per_mille_connect;
        assert_int_equal(c->depth, 0);
        c->is_calm = true;
        c->db.per_mille_append = c->db.per_mille_call = c->db.per_mille_connect = 0;
        for (int64_t end_ns = memory_now_ns + ms * NS_PER_MS; memory_now_ns < end_ns;)
                cluster_tick(c);
        c->is_calm = false;
        c->db.per_mille_append = append;
        c->db.per_mille_call = call;
        c->db.per_mille_connect = connect;
}

void cluster_init(struct cluster *c, const struct cluster_ops *ops, uint64_t seed)
{
        *c = (struct cluster){.ops = ops};
        memory_now_ns = 1000 * NS_PER_S;
        rng_init_seed(&c->dice, seed);
        rng_init_seed(&c->rng, seed + 1);
        memory_db_init(&c->db, seed + 2);
        c->n_nodes = 2 + cluster_roll(c, 2);
        c->db.lease_min_ms = LEASE_MS;
        c->db.meanwhile = pass_time;
        c->db.ctx = c;
        c->db.per_mille_append = (unsigned)cluster_roll(c, 100);
        c->db.per_mille_call = (unsigned)cluster_roll(c, 8);
        c->db.per_mille_connect = (unsigned)cluster_roll(c, 300);
        c->db.per_mille_pause = (unsigned)cluster_roll(c, 60);
        c->per_mille_fault = (unsigned)cluster_roll(c, 12);
        for (size_t i = 0; i < c->n_nodes; i++) {
                struct cnode *n = &c->nodes[i];
                n->cluster = c;
                n->index = i;
                for (size_t k = 0; k < ACTORS; k++)
                        n->actors[k].node = n;
        }
}

void cluster_release(struct cluster *c)
{
        for (size_t i = 0; i < c->n_nodes; i++)
                if (c->nodes[i].log)
                        cnode_stop(&c->nodes[i], false);
        memory_db_release(&c->db);
}
