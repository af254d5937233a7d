/* See queue.h.  A lane stays when it runs empty, as long as its virtual time is ahead of the
 * queue's: forgetting it would give its group a turn too many. */
#include "state/queue.h"

#include <stdlib.h>

#include "state/job.h"

/* What a start costs a group of weight 1. */
#define TURN_COST 1000000
/* 8 bits of priority above the virtual time: at most 2^56 / TURN_COST starts of weight 1. */
#define TIME_MASK ((1ULL << 56) - 1)
/* Idle lanes are looked through when there are so many. */
#define LANES_KEPT 1024

struct lane {
        struct hash_node node; /* by the group's name */
        struct heap_node turn; /* on queue->turns while it has ready jobs */
        struct heap ready;
        uint64_t virtual_time;
        char group[];
};

void queue_init(struct queue *q)
{
        heap_init(&q->ready);
        heap_init(&q->turns);
        hash_init(&q->lanes,
                  1); /* groups are names already checked; nothing is won by collisions */
        idmap_init(&q->claims);
        buf_init(&q->packed, 0);
        list_init(&q->waiters);
}

static struct lane *lane_of_node(const struct hash_node *n)
{
        return CONTAINER_OF(n, struct lane, node);
}

static void free_lane(struct queue *q, struct lane *lane)
{
        ASSERT(!lane->ready.len);
        hash_remove(&q->lanes, &lane->node);
        heap_release(&lane->ready);
        free(lane);
}

static void free_lanes(struct queue *q, bool is_all)
{
        for (struct hash_node *n = hash_next(&q->lanes, NULL), *next; n; n = next) {
                next = hash_next(&q->lanes, n);
                struct lane *lane = lane_of_node(n);
                if (!lane->ready.len && (is_all || lane->virtual_time <= q->virtual_time))
                        free_lane(q, lane);
        }
}

void queue_release(struct queue *q)
{
        ASSERT(q->n_ready == 0 && q->claims.len == 0);
        free_lanes(q, true);
        hash_release(&q->lanes);
        heap_release(&q->ready);
        heap_release(&q->turns);
        idmap_release(&q->claims);
        buf_release(&q->packed);
}

/* ---- ready jobs ---- */

static struct job *first_of(const struct heap *h)
{
        struct heap_node *n = heap_peek(h);
        return n ? CONTAINER_OF(n, struct job, node) : NULL;
}

struct job *queue_first(const struct queue *q)
{
        if (!q->turns.len)
                return first_of(&q->ready);
        return first_of(&CONTAINER_OF(heap_peek(&q->turns), struct lane, turn)->ready);
}

size_t queue_ahead(const struct queue *q, const struct job *job, size_t max)
{
        if (!q->settings.fair)
                return heap_count_before(&q->ready, &job->node, max);
        struct hash_node *n = hash_find(&q->lanes, name_slice(job->group));
        ASSERT(n);
        return heap_count_before(&lane_of_node(n)->ready, &job->node, max);
}

/* The keys lie side by side, so this is a walk through memory and touches no job. */
static int64_t oldest_of(const struct heap *h, size_t *budget)
{
        uint64_t oldest = UINT64_MAX;
        size_t n = h->len < *budget ? h->len : *budget;
        for (size_t i = 0; i < n; i++) {
                uint64_t due = job_due_of_key(h->entries[i].key);
                if (due < oldest)
                        oldest = due;
        }
        *budget -= n;
        return oldest == UINT64_MAX ? INT64_MAX : (int64_t)oldest;
}

int64_t queue_oldest_due_ms(const struct queue *q, size_t *budget)
{
        int64_t oldest = oldest_of(&q->ready, budget);
        for (size_t i = 0; i < q->turns.len && *budget; i++) {
                const struct lane *lane = CONTAINER_OF(q->turns.entries[i].node, struct lane, turn);
                int64_t due = oldest_of(&lane->ready, budget);
                if (due < oldest)
                        oldest = due;
        }
        return oldest;
}

static struct lane *lane_get(struct queue *q, const struct job *job)
{
        struct slice group = name_slice(job->group);
        struct hash_node *n = hash_find(&q->lanes, group);
        if (n)
                return lane_of_node(n);
        if (q->lanes.len >= LANES_KEPT)
                free_lanes(q, false);
        struct lane *lane = xcalloc(1, sizeof(*lane) + group.len + 1);
        memcpy(lane->group, group.len ? group.ptr : "", group.len);
        heap_init(&lane->ready);
        lane->turn.pos = HEAP_NOWHERE;
        hash_insert(&q->lanes, &lane->node, slice_make(lane->group, group.len));
        return lane;
}

static void place_lane(struct queue *q, struct lane *lane)
{
        if (heap_has(&lane->turn))
                heap_remove(&q->turns, &lane->turn);
        struct job *first = first_of(&lane->ready);
        if (!first)
                return;
        lane->turn.id = job_id(first);
        heap_push(&q->turns, &lane->turn,
                  (uint64_t)first->priority << 56 | (lane->virtual_time & TIME_MASK));
}

void queue_push(struct queue *q, struct job *job)
{
        q->n_ready++;
        if (!q->settings.fair) {
                heap_push(&q->ready, &job->node, job_ready_key(job));
                return;
        }
        struct lane *lane = lane_get(q, job);
        if (!lane->ready.len && lane->virtual_time < q->virtual_time)
                lane->virtual_time = q->virtual_time;
        heap_push(&lane->ready, &job->node, job_ready_key(job));
        place_lane(q, lane);
}

void queue_take(struct queue *q, struct job *job)
{
        q->n_ready--;
        if (!q->settings.fair) {
                heap_remove(&q->ready, &job->node);
                return;
        }
        struct lane *lane = lane_get(q, job);
        heap_remove(&lane->ready, &job->node);
        place_lane(q, lane);
}

void queue_charge(struct queue *q, const struct job *job, uint64_t weight)
{
        if (!q->settings.fair)
                return;
        struct lane *lane = lane_get(q, job);
        if (lane->virtual_time > q->virtual_time)
                q->virtual_time = lane->virtual_time;
        else
                lane->virtual_time = q->virtual_time;
        lane->virtual_time += TURN_COST / weight;
        place_lane(q, lane);
}

/* ---- settings ---- */

void queue_settings_pack(const struct queue_settings *o, struct buf *b)
{
        QUEUE_SETTING_MAP(PACK_TEXT, PACK_NUM)
}

bool queue_settings_unpack(struct slice packed, struct queue_settings *ret)
{
        struct reader r = reader_make(packed);
        struct queue_settings *o = ret;
        *o = (struct queue_settings){0};
        while (reader_left(&r) && !r.failed)
                switch (reader_u8(&r)) {
                        QUEUE_SETTING_MAP(UNPACK_TEXT, UNPACK_NUM)
                default:
                        r.failed = true;
                }
        return !r.failed;
}

/* Moves every ready job from the one order to the other. */
static void sort_anew(struct queue *q, uint64_t fair)
{
        struct job **jobs = xcalloc(q->n_ready + 1, sizeof(struct job *));
        size_t n = 0;
        for (struct job *job; (job = queue_first(q)); n++) {
                jobs[n] = job;
                queue_take(q, job);
        }
        free_lanes(q, true);
        q->settings.fair = fair;
        for (size_t i = 0; i < n; i++)
                queue_push(q, jobs[i]);
        free(jobs);
}

bool queue_set(struct queue *q, struct slice packed)
{
        struct queue_settings settings;
        struct buf copy;
        buf_init(&copy, 0);
        buf_put_slice(&copy, packed);
        if (!queue_settings_unpack(buf_slice(&copy), &settings)) {
                buf_release(&copy);
                return false;
        }
        if (settings.fair != q->settings.fair)
                sort_anew(q, settings.fair);
        buf_release(&q->packed);
        q->packed = copy;
        q->settings = settings;
        return true;
}

/* ---- claims ---- */

void queue_count_claim(struct queue *q, uint64_t claim, int by)
{
        if (!q->settings.claims)
                return; /* nobody asks */
        uintptr_t n = (uintptr_t)idmap_take(&q->claims, claim);
        ASSERT(by > 0 || n > 0);
        n += (uintptr_t)(intptr_t)by;
        if (n)
                idmap_put(&q->claims, claim, (void *)n); // NOLINT(performance-no-int-to-ptr)
}

void queue_check(const struct queue *q)
{
        size_t n = q->ready.len;
        heap_check(&q->ready);
        heap_check(&q->turns);
        for (struct hash_node *it = NULL; (it = hash_next(&q->lanes, it));) {
                const struct lane *lane = lane_of_node(it);
                heap_check(&lane->ready);
                ASSERT(heap_has(&lane->turn) == (lane->ready.len > 0));
                n += lane->ready.len;
        }
        ASSERT(n == q->n_ready);
}
