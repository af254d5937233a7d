/* Digests of the state: of all of it at once, for tests, and in steps, for `weir cluster verify`.
 *
 * A million jobs take a fifth of a second to digest, and nothing may hold a turn for so long.  So a
 * walk goes over the live list in steps, and each step is an effect: the log says when it is taken
 * and how far it goes.  Every machine takes the step at the same place of the log, where all of
 * them have the same state if none is wrong.  What changes between two steps changes everywhere.
 * Nothing needs to be copied or to stand still.
 *
 * The live list has the same order on all machines: that of the newest full records in the log.  A
 * mark on the list stands behind what was visited.  Objects that are written again while a walk
 * goes on move to the end of the list and may be visited twice, on every machine alike.
 *
 * A machine that began to read the log at a later batch takes part only if it has every object: if
 * it began no later than at the oldest full record of the leader, or than the leader itself.  The
 * first step names that batch.
 *
 * Rejected: a digest that each effect keeps up to date (two hashes of a whole object for every
 * change, and it would not notice memory that was damaged), and copies of what changes during a
 * walk (jobs change queues, batches and limits without naming them). */
#include "state/state_int.h"

/* What the smallest object costs, in bytes of a step: looking it up takes time, too. */
#define OBJECT_BYTES 128
/* A prime, so that the order counts (FNV). */
#define DIGEST_PRIME 1099511628211ULL

/* SCHEDULED and READY differ only by what the clock says, so both count as pending here. */
static uint64_t digest_job(const struct job *job, struct buf *b)
{
        struct effect e;
        effect_of_job(job, &e);
        if (e.state == JOB_SCHEDULED || e.state == JOB_WAITING)
                e.state = JOB_READY;
        buf_clear(b);
        effect_write(b, &e);
        return hash_bytes(1, buf_slice(b));
}

static uint64_t digest_queue(const struct queue *q, struct buf *b)
{
        struct effect e;
        effect_of_queue(q, &e);
        buf_clear(b);
        effect_write(b, &e);
        return hash_bytes(2, buf_slice(b));
}

static uint64_t digest_thing(const struct state *s, const struct thing *t, struct buf *b)
{
        buf_clear(b);
        buf_put_lv(b, thing_name(t));
        s->kinds[t->kind]->put(t, b);
        return hash_bytes(3 + t->kind, buf_slice(b));
}

/* ---- all at once ---- */

static uint64_t digest_things(const struct state *s, struct buf *b)
{
        uint64_t sum = 0;
        for (size_t i = 0; i < THING_KINDS; i++) {
                for (struct hash_node *it = NULL; (it = hash_next(&s->things[i], it));) {
                        const struct thing *t = CONTAINER_OF(it, struct thing, node);
                        if (thing_is_durable(t))
                                sum += digest_thing(s, t, b); /* no order among them */
                }
        }
        return sum;
}

uint64_t state_digest(const struct state *s)
{
        struct buf b;
        buf_init(&b, 0);
        uint64_t sum = s->next_id * 31 + s->fence, id = 0;
        for (const struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++)
                sum = sum * DIGEST_PRIME + digest_job(job, &b);
        for (struct hash_node *n = NULL; (n = hash_next(&s->queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                if (list_is_linked(&q->live.link))
                        sum += digest_queue(q, &b); /* queues have no order */
        }
        sum += digest_things(s, &b);
        buf_release(&b);
        return sum;
}

/* ---- in steps ---- */

static uint64_t digest_live(const struct state *s, const struct live *live, struct buf *b)
{
        buf_clear(b);
        switch ((enum live_kind)live->kind) {
        case LIVE_META:
                return (s->next_id * DIGEST_PRIME + s->fence) * DIGEST_PRIME + s->next_queue_id;
        case LIVE_QUEUE:
                return digest_queue(CONTAINER_OF(live, const struct queue, live), b);
        case LIVE_JOB:
                return digest_job(CONTAINER_OF(live, const struct job, live), b);
        case LIVE_THING:
                return digest_thing(s, CONTAINER_OF(live, const struct thing, live), b);
        case LIVE_MARK:
                break;
        }
        ASSERT(!"the mark of the walk is off the list");
        return 0;
}

bool state_is_digesting(const struct state *s)
{
        return list_is_linked(&s->digest.mark.link);
}

uint64_t state_digest_from(const struct state *s)
{
        uint64_t seq = state_oldest(s)->seq;
        /* The counters have no record before they are written again: the log is complete then. */
        return seq > s->first_seq ? seq : s->first_seq;
}

/* Where a step begins, with the mark off the list; NULL: this machine takes no part. */
static struct list *take_mark(struct state *s, uint64_t from)
{
        struct digest_walk *w = &s->digest;
        struct list *next = NULL;
        if (state_is_digesting(s)) {
                next = w->mark.link.next;
                list_remove(&w->mark.link);
        }
        if (!from)
                return next;
        if (from < s->first_seq)
                return NULL; /* some objects may not have been seen yet */
        w->sum = 0;
        w->mark.seq = 0;
        return s->live.next;
}

void state_digest_step(struct state *s, uint64_t from, uint64_t bytes, uint64_t seq)
{
        struct digest_walk *w = &s->digest;
        struct list *it = take_mark(s, from);
        struct buf b;
        if (!it)
                return;
        buf_init(&b, 0);
        for (uint64_t used = 0; it != &s->live && (used < bytes || !used); it = it->next) {
                const struct live *live = CONTAINER_OF(it, const struct live, link);
                w->sum = w->sum * DIGEST_PRIME + digest_live(s, live, &b);
                w->mark.seq = live->seq;
                used += b.len > OBJECT_BYTES ? b.len : OBJECT_BYTES;
        }
        buf_release(&b);
        if (it != &s->live) {
                list_insert_before(it, &w->mark.link);
                return;
        }
        w->seq = seq;
        w->digest = w->sum;
}
