/* What must hold of the state, by the numbers in state.h.
 *
 * Tests and simulations check the whole after each step.  Builds with IS_CHECKED check a few jobs
 * each turn, so that the cost does not grow with the state. */
#include "state/state_int.h"

/* Jobs, and live objects, that a turn looks at. */
#define CHECKED_EACH_TURN 32

static void check_queue(const struct queue *q, const struct queue *found)
{
        queue_check(q);
        ASSERT(q->n_ready == found->n_ready);
        ASSERT(q->n_scheduled == found->n_scheduled);
        ASSERT(q->n_waiting == found->n_waiting);
        ASSERT(q->n_running == found->n_running);
        ASSERT(q->n_finished == found->n_finished);
        ASSERT(q->job_bytes == found->job_bytes);
        ASSERT(q->n_parked == found->n_parked);
        ASSERT(q->n_returning == found->n_returning);
}

/* Those on a list are as many as are counted, and each is where its options say. */
static void check_parked_list(const struct state *s, size_t tier, bool is_returning)
{
        const struct list *head = &(is_returning ? s->returning : s->parked)[tier];
        size_t n = 0;
        for (const struct list *it = head->next; it != head; it = it->next, n++) {
                const struct job_extra *x = CONTAINER_OF(it, const struct job_extra, parked);
                ASSERT(x->job->state == JOB_SCHEDULED && x->options.parked == 1 + tier);
                ASSERT(x->parked_tier == tier && x->is_returning == is_returning);
                ASSERT(x->job->hook->n_parked[tier] > 0);
        }
        ASSERT(n == (is_returning ? s->n_returning : s->n_parked)[tier]);
}

static void count_job(const struct job *job, struct queue *found)
{
        found->job_bytes += job_weight(job);
        found->n_parked += job_is_parked(job);
        found->n_returning += job_is_returning(job);
        switch ((enum job_state)job->state) {
        case JOB_SCHEDULED:
                found->n_scheduled++;
                break;
        case JOB_READY:
                found->n_ready++;
                break;
        case JOB_WAITING:
        case JOB_HELD:
                found->n_waiting++;
                break;
        case JOB_LEASED:
                found->n_running++;
                break;
        case JOB_FINISHED:
                found->n_finished++;
                break;
        }
}

static void check_job(const struct state *s, const struct job *job, uint64_t id)
{
        job_check(job);
        ASSERT(job_id(job) == id && id < s->next_id);       /* (1) */
        ASSERT(!job->more || job->more->fence <= s->fence); /* (5) */
        ASSERT(queue_n_jobs(job->queue) > 0);               /* (2) */
        ASSERT(job->queue->job_bytes >= job_weight(job));   /* (4) */
        ASSERT(s->live_bytes >= job->queue->job_bytes);
}

void state_check_turn(struct state *s)
{
        uint64_t id = s->check_next;
        size_t n = 0;
        for (const struct job *job; n < CHECKED_EACH_TURN && (job = idmap_next(&s->jobs, id, &id));
             id++, n++)
                check_job(s, job, id);
        s->check_next = n < CHECKED_EACH_TURN ? 0 : id;
        uint64_t last_seq = 0;
        n = 0;
        for (const struct list *it = s->live.next; it != &s->live && n < CHECKED_EACH_TURN;
             it = it->next, n++) {
                const struct live *live = CONTAINER_OF(it, const struct live, link);
                ASSERT(live->seq >= last_seq); /* (3) */
                last_seq = live->seq;
        }
        ASSERT(s->n_finished <= s->jobs.len && s->n_ended <= s->cap_ended);
        ASSERT(s->running.len + s->grace.len <= s->jobs.len);
}

void state_check(const struct state *s)
{
        uint64_t weight = 0, options = 0, last_seq = 0, id = 0;
        size_t n_live = 0, n_expected = 1 + s->jobs.len + state_is_digesting(s);
        for (const struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++) {
                check_job(s, job, id);
                weight += job_weight(job);
                options += job->extra ? job->extra->packed.len : 0;
        }
        for (struct hash_node *n = NULL; (n = hash_next(&s->queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                struct queue found = {0};
                id = 0;
                for (const struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++)
                        if (job->queue == q)
                                count_job(job, &found);
                check_queue(q, &found);
                if (list_is_linked(&q->live.link)) {
                        weight += state_queue_weight(q);
                        n_expected++;
                }
        }
        LIST_FOREACH(&s->live, it)
        {
                const struct live *live = CONTAINER_OF(it, struct live, link);
                ASSERT(live->seq >= last_seq);
                last_seq = live->seq;
                n_live++;
        }
        for (size_t tier = 0; tier < STATE_TIERS; tier++) {
                check_parked_list(s, tier, false);
                check_parked_list(s, tier, true);
        }
        things_check(s, &weight, &n_expected);
        ASSERT(n_live == n_expected);
        ASSERT(weight == s->live_bytes);
        ASSERT(options == s->option_bytes);
        heap_check(&s->delayed);
        heap_check(&s->timed);
        heap_check(&s->running);
        heap_check(&s->grace);
        links_check(s);
}
