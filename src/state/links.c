/* What links a job to others: a key that only one may hold, a cap on how many run at once, jobs it
 * comes after, a time after which it must not start, the schedule that made it,
 * the batch it counts for.
 *
 * All of it follows from the options of the live jobs and their states, so none of it is in the
 * log: replay makes the same links.  A job without options has none and pays nothing.
 *
 * Invariants, checked by links_check():
 *   (1) a unique key has at least one job, and each of its jobs has that key and has not ended
 *   (2) a list of dependents is not empty, and all of them are HELD and wait for that job
 *   (3) a job on `expiring` is pending and has an end */
#include <stdlib.h>

#include "state/batch.h"
#include "state/cap.h"
#include "state/schedule.h"
#include "state/state_int.h"

/* The kinds of things that a job may belong to. */
static const enum thing_kind joined[] = {THING_CAP, THING_SCHEDULE, THING_BATCH};

/* All that wait for one job. */
struct after_list {
        struct list waiting; /* struct job_after */
};

/* A unique key and the jobs that want it: mostly one.  A job that returned to its queue may find
 * that another has come meanwhile; the oldest is the one that holds the key, so it does not matter
 * in which order a restart sees them. */
struct unique_key {
        struct hash_node node;
        struct list jobs; /* by job_extra.unique */
        char text[];
};

static struct unique_key *unique_key_get(struct state *s, struct slice key)
{
        struct hash_node *n = hash_find(&s->unique, key);
        if (n)
                return CONTAINER_OF(n, struct unique_key, node);
        struct unique_key *k = xmalloc(sizeof(*k) + key.len);
        memcpy(k->text, key.ptr, key.len);
        list_init(&k->jobs);
        hash_insert(&s->unique, &k->node, slice_make(k->text, key.len));
        return k;
}

static void hold_unique(struct state *s, struct job_extra *x, bool is_wanted)
{
        if (!x->options.unique.len || list_is_linked(&x->unique) == is_wanted)
                return;
        struct unique_key *k = unique_key_get(s, x->options.unique);
        if (is_wanted) {
                list_push_back(&k->jobs, &x->unique);
                return;
        }
        list_remove(&x->unique);
        if (!list_is_empty(&k->jobs))
                return;
        hash_remove(&s->unique, &k->node);
        free(k);
}

struct job *state_unique_holder(const struct state *s, struct slice key)
{
        struct hash_node *n = hash_find(&s->unique, key);
        struct job *oldest = NULL;
        if (!n)
                return NULL;
        LIST_FOREACH(&CONTAINER_OF(n, struct unique_key, node)->jobs, it)
        {
                struct job *job = CONTAINER_OF(it, struct job_extra, unique)->job;
                if (!oldest || job_id(job) < job_id(oldest))
                        oldest = job;
        }
        return oldest;
}

static void hold_expiry(struct state *s, struct job_extra *x, bool is_wanted)
{
        if (!x->options.expires_ms || heap_has(&x->expiry) == is_wanted)
                return;
        if (is_wanted)
                heap_push(&s->expiring, &x->expiry, heap_key_i64((int64_t)x->options.expires_ms));
        else
                heap_remove(&s->expiring, &x->expiry);
}

/* ---- jobs it comes after ---- */

static struct after_list *after_list_get(struct state *s, uint64_t id)
{
        struct after_list *l = idmap_get(&s->after, id);
        if (!l) {
                l = xmalloc(sizeof(*l));
                list_init(&l->waiting);
                idmap_put(&s->after, id, l);
        }
        return l;
}

static void unlink_after(struct state *s, struct job_after *a)
{
        struct after_list *l = idmap_get(&s->after, a->id);
        list_remove(&a->link);
        if (list_is_empty(&l->waiting))
                free(idmap_take(&s->after, a->id));
}

static void link_after(struct state *s, struct job *job)
{
        struct job_extra *x = job->extra;
        struct reader r = reader_make(x->options.after);
        size_t n = 0;
        while (reader_left(&r) && !r.failed) {
                (void)reader_varint(&r);
                n++;
        }
        ASSERT(!r.failed && !x->n_after);
        x->after = n ? xcalloc(n, sizeof(*x->after)) : NULL;
        x->n_after = n;
        r = reader_make(x->options.after);
        for (size_t i = 0; i < n; i++) {
                x->after[i] = (struct job_after){.id = reader_varint(&r), .job = job};
                list_push_back(&after_list_get(s, x->after[i].id)->waiting, &x->after[i].link);
        }
}

static void clear_after(struct state *s, struct job_extra *x)
{
        for (size_t i = 0; i < x->n_after; i++)
                unlink_after(s, &x->after[i]);
        free(x->after);
        x->after = NULL;
        x->n_after = 0;
}

static void count_parked(struct state *s, const struct job_extra *x, int by)
{
        struct queue *q = x->job->queue;
        (x->is_returning ? s->n_returning : s->n_parked)[x->parked_tier] += (size_t)by;
        *(x->is_returning ? &q->n_returning : &q->n_parked) += (uint64_t)(int64_t)by;
        x->job->hook->n_parked[x->parked_tier] += (uint32_t)by;
}

static void unpark(struct state *s, struct job_extra *x)
{
        if (s->parked_next == &x->parked)
                s->parked_next = x->parked.next;
        list_remove(&x->parked);
        count_parked(s, x, -1);
}

/* Parked as long as it is scheduled and its options say so. */
static void hold_parked(struct state *s, struct job *job)
{
        struct job_extra *x = job->extra;
        uint64_t tier = x->options.parked;
        bool is_returning = x->options.parked_how & PARKED_RETURNS;
        bool is_wanted = tier && tier <= STATE_TIERS && job->state == JOB_SCHEDULED;
        bool is_same = is_wanted && x->parked_tier == tier - 1 && x->is_returning == is_returning;
        if (list_is_linked(&x->parked) && !is_same)
                unpark(s, x);
        if (!is_wanted || list_is_linked(&x->parked))
                return;
        x->parked_tier = (uint8_t)(tier - 1);
        x->is_returning = is_returning;
        list_push_back(&(is_returning ? s->returning : s->parked)[tier - 1], &x->parked);
        count_parked(s, x, 1);
}

void links_update(struct state *s, struct job *job)
{
        struct job_extra *x = job->extra;
        bool is_pending = job->state != JOB_LEASED && job->state != JOB_FINISHED;
        bool is_held = x->options.unique_scope != UNIQUE_PENDING && job->state == JOB_LEASED;
        hold_unique(s, x, is_pending || is_held);
        hold_expiry(s, x, is_pending);
        hold_parked(s, job);
        if (job->state != JOB_HELD)
                clear_after(s, x);
        for (size_t i = 0; i < ARRAY_LEN(joined); i++)
                if (s->kinds[joined[i]]->moved)
                        s->kinds[joined[i]]->moved(job);
}

void links_resolve(struct state *s, struct job *job, uint64_t other_id)
{
        struct job_extra *x = job->extra;
        struct job_options left = x->options;
        struct buf ids;
        buf_init(&ids, 0);
        for (size_t i = 0; other_id && i < x->n_after; i++)
                if (x->after[i].id != other_id)
                        buf_put_varint(&ids, x->after[i].id);
        left.after = buf_slice(&ids);
        clear_after(s, x);
        hold_unique(s, x, false); /* its key moves with the options */
        job_set_options(job, &left);
        buf_release(&ids);
        link_after(s, job);
        hold_unique(s, x, true);
}

bool state_next_after(const struct state *s, uint64_t id, struct job **ret)
{
        struct after_list *l = idmap_get(&s->after, id);
        if (!l)
                return false;
        struct list *first = list_peek_front(&l->waiting);
        ASSERT(first); /* an empty list is freed */
        *ret = CONTAINER_OF(first, struct job_after, link)->job;
        return true;
}

/* ---- the whole ---- */

void links_begin(struct state *s, struct job *job)
{
        for (size_t i = 0; i < ARRAY_LEN(joined); i++)
                s->kinds[joined[i]]->join(s, job);
        link_after(s, job);
}

void links_end(struct state *s, struct job *job)
{
        struct job_extra *x = job->extra;
        if (list_is_linked(&x->parked))
                unpark(s, x);
        hold_unique(s, x, false);
        hold_expiry(s, x, false);
        clear_after(s, x);
        for (size_t i = 0; i < ARRAY_LEN(joined); i++)
                s->kinds[joined[i]]->part(s, job);
}

void links_release(struct state *s)
{
        ASSERT(s->after.len == 0 && s->unique.len == 0 && s->expiring.len == 0);
        idmap_release(&s->after);
        hash_release(&s->unique);
        heap_release(&s->expiring);
}

void links_check(const struct state *s)
{
        for (struct hash_node *n = NULL; (n = hash_next(&s->unique, n));) {
                const struct unique_key *k = CONTAINER_OF(n, struct unique_key, node);
                ASSERT(!list_is_empty(&k->jobs)); /* (1) */
                LIST_FOREACH(&k->jobs, it)
                {
                        const struct job_extra *x = CONTAINER_OF(it, struct job_extra, unique);
                        ASSERT(slice_eq(x->options.unique, n->key));
                        ASSERT(x->job->state != JOB_FINISHED);
                }
        }
        uint64_t id = 0;
        for (struct after_list *l; (l = idmap_next(&s->after, id, &id)); id++) {
                ASSERT(!list_is_empty(&l->waiting)); /* (2) */
                LIST_FOREACH(&l->waiting, it)
                {
                        const struct job_after *a = CONTAINER_OF(it, struct job_after, link);
                        ASSERT(a->id == id && a->job->state == JOB_HELD);
                }
        }
        heap_check(&s->expiring);
        for (uint32_t i = 0; i < s->expiring.len; i++) { /* (3) */
                const struct job_extra *x =
                        CONTAINER_OF(s->expiring.entries[i].node, struct job_extra, expiry);
                ASSERT(x->options.expires_ms > 0);
                ASSERT(x->job->state != JOB_LEASED && x->job->state != JOB_FINISHED);
        }
}
