/* See workers.h.
 *
 * A claim leaves a note of who asked: its name, where it came from, its queues.  Notes are found by
 * name and in the order of their last claim, the one that claimed longest ago goes first when
 * there are too many.  A worker that claims a hundred thousand times a second is noted once a
 * second, so a claim costs one look into a hash.
 *
 * What a worker has in hand is not counted along but looked up when it is asked for, from the
 * running jobs and the waiting claims themselves: then it cannot drift, and claims and ends pay
 * nothing for it.  At most LOOKS jobs are looked at, so that the loop is not held: with more that
 * run at once the answer says how many it is about. */
#include "jobs/workers.h"

#include <stdlib.h>

#include "api/exec.h"
#include "api/replies.h"
#include "jobs/claim.h"

#define FORGET_S     3600
#define QUEUES_BYTES 2048 /* of the names of one worker's queues; what does not fit is not told */
#define LOOKS        20000

struct note {
        struct hash_node node; /* key: the name */
        struct list recent;
        int64_t second; /* steady, of the last claim that was noted */
        int64_t wall_ms;
        char address[sizeof(((struct session *)NULL)->address)];
        struct buf queues; /* a byte for the length, and the name; one behind the other */
        size_t n_queues;
        char name[];
};

struct workers {
        struct hash names;
        struct list recent; /* notes, the one that claimed longest ago first */
};

static void forget(struct workers *w, struct note *n)
{
        hash_remove(&w->names, &n->node);
        list_remove(&n->recent);
        buf_release(&n->queues);
        free(n);
}

static struct note *oldest(const struct workers *w)
{
        struct list *first = list_peek_front(&w->recent);
        return first ? CONTAINER_OF(first, struct note, recent) : NULL;
}

static void workers_init(struct core *core)
{
        struct workers *w = core->workers = xcalloc(1, sizeof(*w));
        hash_init(&w->names, core->state.queues.seed);
        list_init(&w->recent);
}

static void workers_release(struct core *core)
{
        struct workers *w = core->workers;
        for (struct note *n; (n = oldest(w));)
                forget(w, n);
        hash_release(&w->names);
        free(w);
}

/* ---- claims ---- */

static struct note *note_new(struct workers *w, struct slice name)
{
        if (w->names.len >= WORKERS_MAX)
                forget(w, oldest(w));
        struct note *n = xcalloc(1, sizeof(*n) + name.len);
        memcpy(n->name, name.ptr, name.len);
        n->second = -1;
        buf_init(&n->queues, QUEUES_BYTES);
        hash_insert(&w->names, &n->node, slice_make(n->name, name.len));
        list_push_back(&w->recent, &n->recent);
        return n;
}

static void note_queues(struct note *n, const struct claim_spec *spec)
{
        buf_clear(&n->queues);
        n->n_queues = 0;
        for (size_t i = 0; i < spec->n_queues; i++) {
                struct slice q = spec->queues[i];
                if (n->queues.len + 1 + q.len > QUEUES_BYTES)
                        return;
                buf_put_byte(&n->queues, (char)q.len);
                buf_put_slice(&n->queues, q);
                n->n_queues++;
        }
}

void workers_claim(struct core *core, const struct session *session, const struct claim_spec *spec)
{
        struct workers *w = core->workers;
        struct hash_node *found = hash_find(&w->names, spec->worker);
        struct note *n = found ? CONTAINER_OF(found, struct note, node) : NULL;
        int64_t second = core->now.steady_ns / NS_PER_S;
        if (n && n->second == second)
                return;
        if (!n)
                n = note_new(w, spec->worker);
        n->second = second;
        n->wall_ms = core->now.wall_ms;
        memcpy(n->address, session->address, sizeof(n->address));
        note_queues(n, spec);
        list_remove(&n->recent);
        list_push_back(&w->recent, &n->recent);
}

/* Invariants: the table is bounded, its list has every note in the order of claims, and a note
 * tells as many queues as it says. */
static void workers_check(const struct core *core)
{
        const struct workers *w = core->workers;
        size_t n = 0;
        int64_t second = -1;
        ASSERT(w->names.len <= WORKERS_MAX);
        LIST_FOREACH(&w->recent, it)
        {
                const struct note *note = CONTAINER_OF(it, struct note, recent);
                size_t n_queues = 0;
                for (size_t at = 0; at < note->queues.len; n_queues++)
                        at += 1 + (unsigned char)note->queues.ptr[at];
                ASSERT(n_queues == note->n_queues);
                ASSERT(note->second >= second);
                second = note->second;
                n++;
        }
        ASSERT(n == w->names.len);
}

/* ---- telling ---- */

struct row {
        struct hash_node node;   /* key: the name, as its job, its claim or its note has it */
        const struct note *note; /* NULL: none is kept */
        int64_t last_ms;
        uint64_t running, waiting;
        size_t n_jobs;
        uint64_t jobs[WORKERS_JOBS];
};

struct roll {
        const struct core *core;
        struct row *rows; /* room for WORKERS_MAX */
        size_t n;
        struct hash names;
        struct row *last; /* found last: jobs of one claim lie together */
        uint64_t n_looked;
};

/* NULL: there are too many. */
static struct row *row_of(struct roll *roll, struct slice name)
{
        if (roll->last && slice_eq(roll->last->node.key, name))
                return roll->last;
        struct hash_node *found = hash_find(&roll->names, name);
        if (found)
                return roll->last = CONTAINER_OF(found, struct row, node);
        if (roll->n == WORKERS_MAX)
                return NULL;
        struct row *r = &roll->rows[roll->n++];
        struct hash_node *note = hash_find(&roll->core->workers->names, name);
        *r = (struct row){.note = note ? CONTAINER_OF(note, struct note, node) : NULL};
        r->last_ms = r->note ? r->note->wall_ms : 0;
        hash_insert(&roll->names, &r->node, name);
        return roll->last = r;
}

static void add_running(struct roll *roll)
{
        const struct heap *h = &roll->core->state.running;
        for (size_t i = 0; i < h->len && i < LOOKS; i++) {
                const struct job *job = CONTAINER_OF(h->entries[i].node, struct job, node);
                const struct name *worker = job->more->worker;
                struct row *r = worker ? row_of(roll, name_slice(worker)) : NULL;
                roll->n_looked++;
                if (!r)
                        continue;
                r->running++;
                if (r->n_jobs < WORKERS_JOBS)
                        r->jobs[r->n_jobs++] = job_id(job);
                if (!r->note && job->more->started_ms > r->last_ms)
                        r->last_ms = job->more->started_ms;
        }
}

static void add_waiting(void *ctx, struct slice worker)
{
        struct row *r = row_of(ctx, worker);
        if (r)
                r->waiting++;
}

/* Forgets workers that have not claimed for long and have nothing in hand. */
static void forget_old(struct roll *roll, struct workers *w)
{
        int64_t second = roll->core->now.steady_ns / NS_PER_S;
        LIST_FOREACH(&w->recent, it)
        {
                struct note *n = CONTAINER_OF(it, struct note, recent);
                if (second - n->second < FORGET_S)
                        return;
                if (!hash_find(&roll->names, n->node.key))
                        forget(w, n);
        }
}

/* With jobs in hand, then waiting for some, then the rest; each by name. */
static int by_use(const void *a, const void *b)
{
        const struct row *x = a, *y = b;
        if (!x->running != !y->running)
                return x->running ? -1 : 1;
        if (!x->waiting != !y->waiting)
                return x->waiting ? -1 : 1;
        return slice_cmp(x->node.key, y->node.key);
}

static int by_number(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;
        return *x < *y ? -1 : *x > *y;
}

static void tell_queues(struct reply *reply, const struct reply_items *items)
{
        struct slice rest = buf_slice(items->of);
        while (rest.len) {
                size_t len = (unsigned char)rest.ptr[0];
                reply_text(reply, slice_make(rest.ptr + 1, len));
                rest = slice_make(rest.ptr + 1 + len, rest.len - 1 - len);
        }
}

static void tell_jobs(struct reply *reply, const struct reply_items *items)
{
        const uint64_t *jobs = items->of;
        for (size_t i = 0; i < items->n; i++)
                reply_int(reply, (int64_t)jobs[i]);
}

static void tell_rows(struct reply *reply, const struct reply_items *items)
{
        const struct row *rows = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct row *r = &rows[i];
                const struct note *note = r->note;
                const struct worker_reply told = {
                        .name = r->node.key,
                        .address = note ? note->address : "",
                        .running = (int64_t)r->running,
                        .waiting = (int64_t)r->waiting,
                        .queues = {note ? note->n_queues : 0, tell_queues, items->core,
                                   note ? &note->queues : NULL},
                        .last_ms = r->last_ms,
                        .jobs = {r->n_jobs, tell_jobs, items->core, r->jobs},
                };
                reply_worker(reply, &told);
        }
}

int exec_workers(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        struct workers *w = core->workers;
        struct roll roll = {.core = core, .rows = xcalloc(WORKERS_MAX, sizeof(struct row))};
        hash_init(&roll.names, w->names.seed);
        add_running(&roll);
        claim_each_waiting(core, add_waiting, &roll);
        forget_old(&roll, w);
        for (struct list *it = w->recent.prev; it != &w->recent; it = it->prev)
                (void)row_of(&roll, CONTAINER_OF(it, struct note, recent)->node.key);
        qsort(roll.rows, roll.n, sizeof(struct row), by_use);
        for (size_t i = 0; i < roll.n; i++)
                qsort(roll.rows[i].jobs, roll.rows[i].n_jobs, sizeof(roll.rows[i].jobs[0]),
                      by_number);
        const struct workers_reply told = {
                .workers = {roll.n, tell_rows, core, roll.rows},
                .running = core->state.running.len,
                .counted = (int64_t)roll.n_looked,
        };
        reply_workers(reply, &told);
        hash_release(&roll.names);
        free(roll.rows);
        return OK;
}

const struct feature workers_feature = {.name = "workers",
                                        .init = workers_init,
                                        .release = workers_release,
                                        .check = workers_check};
