/* A database in virtual time, the clients in front of it, and the law of admission between them,
 * for prop_admission_sim.c.
 *
 * The database shares its cores: of n transactions that execute each progresses at the rate
 * min(1, cores / n).  So all progress alike, and one virtual clock says who is done: the service
 * that each of them got since the beginning.  A transaction that begins at service s and needs d is
 * done at s + d, which is its key in a heap.
 *
 * Thrash: with more than 2 per core, all cores together do 1 / (1 + (n / cores - 2) / 5) of their
 * work.  This is invented, and mild: 16 transactions on 4 cores get the work of 2.9 cores done, 128
 * that of 0.57.  It makes a database that does not recover by itself.
 *
 * A load is one kind of transaction: open (so many arrive a second, whatever happens, and those
 * beyond its connections queue in the client) or closed (each connection has one after the other).
 * A refused transaction is tried again after a back-off, and until then holds no connection.  Each
 * load has dice of its own, so the same load arrives with and without a gate. */
#ifndef WEIR_TESTS_PROP_SIM_DATABASE_H
#define WEIR_TESTS_PROP_SIM_DATABASE_H

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "gate/admission.h"

#define S           NS_PER_S
#define MS          NS_PER_MS

#define SIM_START   (10000 * S) /* times of plans are since then; some load may come before */
#define SIM_SECONDS 128         /* that it may last */
#define SIM_LOADS   6
#define SIM_CLASSES 6
#define SIM_WAIT_NS (2 * S)

struct sim;

struct timer {
        struct heap_node node;
        void (*fire)(struct sim *s, struct timer *t);
};

struct plan {
        const char *name;
        size_t class_number;
        enum tier tier;
        double mean_ms;
        double sigma;           /* of a lognormal time; 0: exponential */
        double rate;            /* arrivals a second; 0: closed */
        uint32_t connections;   /* at once, at most */
        int64_t from_ns, to_ns; /* when they arrive, since SIM_START */
        int64_t idle_ns;        /* not 0: open until to_ns, idle so long between statements */
        int64_t lock_from_ns;   /* those that begin then wait for a lock */
        int64_t lock_to_ns;
        double surge;  /* so many times as many arrive, and */
        double weight; /* each needs so many times as much, in the time of trouble */
        uint64_t digest;
        bool is_direct; /* they do not ask the gate */
};

struct load;

/* One transaction, from its arrival until it is done. */
struct txn {
        struct ticket ticket;
        struct heap_node place; /* executing, by the service when it is done */
        struct timer timer;     /* of a back-off, an idle time or a lock */
        struct load *load;
        struct txn *next; /* in the queue of its client, or free */
        double need_ns;
        int64_t arrived_ns, began_ns, busy_ns;
};

#define BLOCK_TXNS 64
struct block {
        struct block *next;
        struct txn txns[BLOCK_TXNS];
};

/* What was seen of a load. */
struct tally {
        uint32_t arrived[SIM_SECONDS], served[SIM_SECONDS]; /* by the second of the event */
        double latency_ns[SIM_SECONDS];                     /* sum, of the served */
        float *troubled_ms; /* latencies of those that arrived in the time of trouble */
        size_t n_troubled, room;
        uint64_t ends, held, refused;
        double log_sum;       /* of the times at the server, ln(ns) */
        struct usual learned; /* from these: which of them are slow */
        int64_t spent_ns[USUAL_BUCKETS], spent_from_ns;
};

struct load {
        struct plan plan;
        struct rng dice;
        struct timer arrival;
        struct txn *first, *last; /* the queue of its client */
        uint32_t busy;            /* connections */
        uint32_t executing;
        struct tally tally;
};

struct database {
        double cores, speed;
        bool thrashes;
        uint32_t outside, blocked; /* that always execute; that wait for a lock */
        struct heap executing;
        double service_ns; /* that each got since the beginning */
        int64_t now_ns;
};

struct sim {
        struct database db;
        struct heap timers;
        uint64_t n_ids;
        struct admission *a; /* NULL: no gate */
        int64_t turn_ns;     /* of the law */
        int64_t backoff_ns, sample_ns;
        int64_t trouble_from_ns, trouble_to_ns;
        struct load loads[SIM_LOADS];
        size_t n_loads;
        /* The metric as the gate sees it: false in the time of trouble for so long. */
        double false_value;
        int64_t false_ns;
        struct timer sample;
        uint64_t n_samples;
        double samples[USUAL_BUCKETS];
        struct block *blocks;      /* of all transactions, */
        struct txn *unused;        /* and those of no load now */
        bool has_free_connections; /* that nobody has taken yet */
        /* Of each tier: those that wait, since when none was done, and the longest such time. */
        uint32_t waiting[TIERS], all_waiting;
        int64_t standing_from_ns[TIERS], stop_ns[TIERS], longest_ns[TIERS];
};

static inline bool load_is_closed(const struct load *l)
{
        return l->plan.rate <= 0;
}

static inline size_t sim_second(const struct sim *s)
{
        int64_t i = (s->db.now_ns - SIM_START) / S;
        ASSERT(i < SIM_SECONDS);
        return i > 0 ? (size_t)i : 0;
}

static inline bool sim_is_troubled(const struct sim *s, int64_t at_ns)
{
        return at_ns >= s->trouble_from_ns && at_ns < s->trouble_to_ns;
}

/* ---- the database ---- */

static inline double db_rate(const struct database *db)
{
        double n = db->executing.len + db->outside, cores = db->cores;

        if (n <= cores)
                return db->speed;
        if (db->thrashes && n > 2 * cores)
                cores /= 1 + (n / cores - 2) / 5;
        return db->speed * cores / n;
}

static inline void db_advance(struct database *db, int64_t now_ns)
{
        db->service_ns += (double)(now_ns - db->now_ns) * db_rate(db);
        db->now_ns = now_ns;
}

static inline int64_t db_next_ns(const struct database *db)
{
        if (!db->executing.len)
                return INT64_MAX;
        double left_ns = (double)heap_peek_key(&db->executing) - db->service_ns;
        return db->now_ns + (int64_t)fmax(0, ceil(left_ns / db_rate(db)));
}

/* What a sample of the metric says. */
static inline double db_running(const struct database *db)
{
        return db->executing.len + db->outside + db->blocked;
}

/* ---- timers ---- */

static inline void timer_set(struct sim *s, struct timer *t, int64_t at_ns,
                             void (*fire)(struct sim *s, struct timer *t))
{
        t->fire = fire;
        t->node = (struct heap_node){.id = s->n_ids++, .pos = HEAP_NOWHERE};
        heap_push(&s->timers, &t->node, heap_key_i64(at_ns));
}

/* ---- what is seen ---- */

static inline void tier_waits(struct sim *s, enum tier tier)
{
        if (s->waiting[tier]++ == 0)
                s->standing_from_ns[tier] = s->db.now_ns;
        s->all_waiting++;
}

static inline void tier_stood(struct sim *s, enum tier tier)
{
        int64_t stop_ns = s->db.now_ns - s->standing_from_ns[tier];
        if (s->waiting[tier] && s->stop_ns[tier] < stop_ns)
                s->stop_ns[tier] = stop_ns;
}

static inline void tier_waits_no_more(struct sim *s, enum tier tier)
{
        tier_stood(s, tier);
        s->waiting[tier]--;
        s->all_waiting--;
}

/* A statement is done, or the end has come. */
static inline void tier_took(struct sim *s, const struct txn *x)
{
        int64_t *longest_ns = &s->longest_ns[x->load->plan.tier];
        if (*longest_ns < s->db.now_ns - x->began_ns)
                *longest_ns = s->db.now_ns - x->began_ns;
}

static inline void load_count_executing(struct sim *s, struct load *l, int by)
{
        struct tally *t = &l->tally;
        t->spent_ns[usual_bucket(l->executing)] += s->db.now_ns - t->spent_from_ns;
        t->spent_from_ns = s->db.now_ns;
        l->executing += (uint32_t)by;
}

static inline void load_count_served(struct sim *s, struct load *l, const struct txn *x)
{
        struct tally *t = &l->tally;
        int64_t latency_ns = s->db.now_ns - x->arrived_ns;

        t->ends++;
        t->log_sum += log((double)x->busy_ns);
        usual_end(&t->learned, log((double)x->busy_ns));
        if (t->ends % 50 == 0)
                usual_look(&t->learned, S / 4, true);
        t->served[sim_second(s)]++;
        t->latency_ns[sim_second(s)] += (double)latency_ns;
        if (!sim_is_troubled(s, x->arrived_ns))
                return;
        if (t->n_troubled == t->room) {
                t->room = t->room ? 2 * t->room : 1024;
                t->troubled_ms = xrealloc(t->troubled_ms, t->room * sizeof(float));
        }
        t->troubled_ms[t->n_troubled++] = (float)latency_ns / (float)MS;
}

/* ---- transactions ---- */

static inline double load_need_ns(struct sim *s, struct load *l)
{
        const struct plan *p = &l->plan;
        double u = 1 - rng_unit(&l->dice), ns = p->mean_ms * (double)MS;

        if (sim_is_troubled(s, s->db.now_ns) && p->weight > 0)
                ns *= p->weight;
        if (p->sigma <= 0)
                return ns * -log(u);
        double normal = sqrt(-2 * log(u)) * cos(2 * M_PI * rng_unit(&l->dice));
        return ns * exp(p->sigma * normal - p->sigma * p->sigma / 2);
}

static inline void txn_drop(struct sim *s, struct txn *x)
{
        x->next = s->unused;
        s->unused = x;
}

static inline struct txn *txn_new(struct sim *s, struct load *l)
{
        if (!s->unused) {
                struct block *b = xcalloc(1, sizeof(*b));
                b->next = s->blocks;
                s->blocks = b;
                for (size_t i = 0; i < BLOCK_TXNS; i++)
                        txn_drop(s, &b->txns[i]);
        }
        struct txn *x = s->unused;
        s->unused = x->next;
        *x = (struct txn){.load = l, .arrived_ns = s->db.now_ns};
        x->place = (struct heap_node){.id = s->n_ids++, .pos = HEAP_NOWHERE};
        x->ticket.owner = x;
        x->ticket.digest = l->plan.digest;
        x->need_ns = load_need_ns(s, l);
        return x;
}

static inline void txn_execute(struct sim *s, struct txn *x)
{
        double done_ns = s->db.service_ns + fmax(1000, x->need_ns);
        heap_push(&s->db.executing, &x->place, (uint64_t)ceil(done_ns));
}

static inline void txn_unlock(struct sim *s, struct timer *t)
{
        s->db.blocked--;
        txn_execute(s, CONTAINER_OF(t, struct txn, timer));
}

/* It was let through, or goes on. */
static inline void txn_begin(struct sim *s, struct txn *x)
{
        const struct plan *p = &x->load->plan;
        int64_t at_ns = s->db.now_ns - SIM_START;

        x->began_ns = s->db.now_ns;
        load_count_executing(s, x->load, 1);
        if (at_ns < p->lock_from_ns || at_ns >= p->lock_to_ns) {
                txn_execute(s, x);
                return;
        }
        s->db.blocked++;
        timer_set(s, &x->timer, SIM_START + p->lock_to_ns, txn_unlock);
}

/* A free connection takes it. */
static inline void txn_ask(struct sim *s, struct txn *x)
{
        struct load *l = x->load;
        struct admit_answer answer;

        l->busy++;
        if (!s->a || l->plan.is_direct) {
                txn_begin(s, x);
                return;
        }
        admission_ask(s->a, &x->ticket, l->plan.class_number, s->db.now_ns, &answer);
        ASSERT(answer.verdict != ADMIT_REFUSE); /* at once: its class has a wait */
        if (answer.verdict == ADMIT_RUN) {
                txn_begin(s, x);
                return;
        }
        l->tally.held++;
        tier_waits(s, l->plan.tier);
}

static inline void load_pull(struct sim *s, struct load *l)
{
        while (l->first && l->busy < l->plan.connections) {
                struct txn *x = l->first;
                l->first = x->next;
                txn_ask(s, x);
        }
}

static inline void load_offer(struct sim *s, struct load *l, struct txn *x)
{
        x->next = NULL;
        if (l->first)
                l->last->next = x;
        else
                l->first = x;
        l->last = x;
        load_pull(s, l);
}

static inline void txn_retry(struct sim *s, struct timer *t)
{
        struct txn *x = CONTAINER_OF(t, struct txn, timer);
        struct load *l = x->load;

        if (load_is_closed(l) && s->db.now_ns >= SIM_START + l->plan.to_ns)
                txn_drop(s, x);
        else
                load_offer(s, l, x);
}

static inline void txn_decided(void *ctx, struct ticket *t, const struct admit_answer *answer)
{
        struct sim *s = ctx;
        struct txn *x = t->owner;

        tier_waits_no_more(s, x->load->plan.tier);
        if (answer->verdict == ADMIT_RUN) {
                txn_begin(s, x);
                return;
        }
        ASSERT(answer->verdict == ADMIT_REFUSE);
        ASSERT(s->db.now_ns >= t->deadline_ns); /* an error only after the full wait */
        x->load->tally.refused++;
        x->load->busy--;
        s->has_free_connections = true; /* the law is in a call: see sim_turn() */
        timer_set(s, &x->timer, s->db.now_ns + s->backoff_ns, txn_retry);
}

static inline void load_arrival(struct sim *s, struct load *l)
{
        l->tally.arrived[sim_second(s)]++;
        load_offer(s, l, txn_new(s, l));
}

static inline void load_end(struct sim *s, struct load *l, struct txn *x)
{
        struct ticket_use use = {.statements = 1, .busy_ns = x->busy_ns};

        if (s->a && !l->plan.is_direct)
                admission_end(s->a, &x->ticket, &use, s->db.now_ns);
        load_count_served(s, l, x);
        txn_drop(s, x);
        l->busy--;
        /* A closed connection has the next one. */
        if (load_is_closed(l) && s->db.now_ns < SIM_START + l->plan.to_ns)
                load_arrival(s, l);
        else
                load_pull(s, l);
}

static inline void txn_go_on(struct sim *s, struct timer *t)
{
        struct txn *x = CONTAINER_OF(t, struct txn, timer);
        struct load *l = x->load;

        if (s->db.now_ns >= SIM_START + l->plan.to_ns) {
                load_end(s, l, x);
                return;
        }
        x->need_ns = load_need_ns(s, l);
        if (s->a && !l->plan.is_direct)
                admission_resume(s->a, &x->ticket, s->db.now_ns);
        txn_begin(s, x);
}

/* The database is done with the statement. */
static inline void txn_done(struct sim *s, struct txn *x)
{
        struct load *l = x->load;
        enum tier tier = l->plan.tier;

        x->busy_ns += s->db.now_ns - x->began_ns;
        load_count_executing(s, l, -1);
        tier_stood(s, tier);
        s->standing_from_ns[tier] = s->db.now_ns;
        tier_took(s, x);
        if (!l->plan.idle_ns) {
                load_end(s, l, x);
                return;
        }
        if (s->a && !l->plan.is_direct)
                admission_idle(s->a, &x->ticket, s->db.now_ns);
        double idle_ns = (double)l->plan.idle_ns * -log(1 - rng_unit(&l->dice));
        timer_set(s, &x->timer, s->db.now_ns + (int64_t)idle_ns, txn_go_on);
}

/* ---- loads ---- */

static inline void load_arrives(struct sim *s, struct timer *t)
{
        struct load *l = CONTAINER_OF(t, struct load, arrival);
        const struct plan *p = &l->plan;

        if (s->db.now_ns >= SIM_START + p->to_ns)
                return;
        if (load_is_closed(l)) {
                for (uint32_t i = 0; i < p->connections; i++)
                        load_arrival(s, l);
                return;
        }
        load_arrival(s, l);
        double rate = p->rate;
        if (sim_is_troubled(s, s->db.now_ns) && p->surge > 0)
                rate *= p->surge;
        double gap_ns = -log(1 - rng_unit(&l->dice)) / rate * S;
        timer_set(s, &l->arrival, s->db.now_ns + (int64_t)gap_ns, load_arrives);
}

static inline void sim_add(struct sim *s, const struct plan *plan, uint64_t seed)
{
        ASSERT(s->n_loads < SIM_LOADS);
        struct load *l = &s->loads[s->n_loads++];

        l->plan = *plan;
        l->tally.spent_from_ns = s->db.now_ns;
        rng_init_seed(&l->dice, seed * SIM_LOADS + s->n_loads);
        timer_set(s, &l->arrival, SIM_START + plan->from_ns, load_arrives);
}

/* ---- the whole ---- */

static inline void sim_publish(struct sim *s, double running)
{
        struct door_policy *p = door_policy_new(SIM_CLASSES);

        p->n_samples = ++s->n_samples;
        p->running = running;
        p->running_most = NAN; /* what was learned counts */
        for (size_t i = 0; i < s->n_loads; i++) {
                const struct plan *plan = &s->loads[i].plan;
                struct class_verdicts *v = &p->classes[plan->class_number];
                v->is_known = true;
                v->tier = plan->tier;
                for (int k = 0; k < 3; k++)
                        v->verdict[k].is_granted = true;
        }
        admission_publish(s->a, p, s->db.now_ns);
        admission_check(s->a);
}

static inline void sim_take_sample(struct sim *s, struct timer *t)
{
        double running = db_running(&s->db);
        int64_t from_ns = s->trouble_from_ns;

        s->samples[usual_bucket(running)]++;
        if (s->db.now_ns >= from_ns && s->db.now_ns < from_ns + s->false_ns)
                running = s->false_value;
        if (s->a)
                sim_publish(s, running);
        timer_set(s, t, s->db.now_ns + s->sample_ns, sim_take_sample);
}

/* Begins so long before SIM_START; no gate yet, see sim_guard(). */
static inline void sim_init(struct sim *s, double cores, int64_t lead_ns, int64_t sample_ns)
{
        memset(s, 0, sizeof(*s));
        s->turn_ns = INT64_MAX;
        s->sample_ns = sample_ns;
        s->db = (struct database){.cores = cores, .speed = 1, .now_ns = SIM_START - lead_ns};
        heap_init(&s->timers);
        heap_init(&s->db.executing);
        timer_set(s, &s->sample, s->db.now_ns + sample_ns / 2, sim_take_sample);
}

static inline void sim_guard(struct sim *s, uint64_t seed)
{
        struct class_limits limits = {.mode = MODE_ENFORCE, .wait_ns = SIM_WAIT_NS};

        s->a = admission_new(seed, txn_decided, s);
        for (size_t i = 0; i < SIM_CLASSES; i++)
                admission_set_class(s->a, i, &limits, s->db.now_ns);
        admission_set_door(s->a, 0, false, s->db.now_ns);
        sim_publish(s, 0);
        s->turn_ns = admission_turn(s->a, s->db.now_ns);
}

/* What the law still knows goes away, as if all clients were gone. */
static inline void sim_release(struct sim *s)
{
        for (struct block *b = s->blocks; s->a && b; b = b->next) {
                for (size_t i = 0; i < BLOCK_TXNS; i++) {
                        struct ticket *t = &b->txns[i].ticket;
                        if (t->state == TICKET_WAITING)
                                tier_waits_no_more(s, b->txns[i].load->plan.tier);
                        if (t->state != TICKET_NONE)
                                admission_leave(s->a, t, NULL, s->db.now_ns);
                }
        }
        s->a = admission_free(s->a);
        heap_release(&s->timers);
        heap_release(&s->db.executing);
        for (size_t i = 0; i < s->n_loads; i++)
                free(s->loads[i].tally.troubled_ms);
        while (s->blocks) {
                struct block *b = s->blocks;
                s->blocks = b->next;
                free(b);
        }
}

/* The owner's part: after any call while tickets wait, and when the law asked for it. */
static inline void sim_turn(struct sim *s)
{
        for (int i = 0; s->a && (s->all_waiting || s->turn_ns <= s->db.now_ns); i++) {
                ASSERT(i < 100);
                s->turn_ns = admission_turn(s->a, s->db.now_ns);
                if (s->has_free_connections) {
                        s->has_free_connections = false;
                        for (size_t k = 0; k < s->n_loads; k++)
                                load_pull(s, &s->loads[k]);
                } else if (s->turn_ns > s->db.now_ns) {
                        return;
                }
        }
}

static inline void sim_run(struct sim *s, int64_t to_ns)
{
        for (;;) {
                int64_t timer_ns = heap_key_to_i64(heap_peek_key(&s->timers));
                int64_t done_ns = db_next_ns(&s->db);
                int64_t at_ns = timer_ns < done_ns ? timer_ns : done_ns;
                if (s->turn_ns < at_ns)
                        at_ns = s->turn_ns;
                if (at_ns >= to_ns)
                        break;
                db_advance(&s->db, at_ns);
                if (at_ns == timer_ns) {
                        struct timer *t = CONTAINER_OF(heap_pop(&s->timers), struct timer, node);
                        t->fire(s, t);
                } else if (at_ns == done_ns) {
                        txn_done(s, CONTAINER_OF(heap_pop(&s->db.executing), struct txn, place));
                }
                sim_turn(s);
        }
        for (uint32_t i = 0; i < s->db.executing.len; i++)
                tier_took(s, CONTAINER_OF(s->db.executing.entries[i].node, struct txn, place));
}

#endif
