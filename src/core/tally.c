/* See tally.h.
 *
 * A table for each kind: cells at fixed places, and a hash of their names.  An object remembers its
 * place, so an event costs a look at the cell's owner and no hash: the owner is the address of the
 * object, which is compared and never followed.  An object that is made at the address of one that
 * is gone has the place 0, which nobody owns, and finds its cell by name. */
#include "core/tally.h"

#include <stdlib.h>

#include "base/hash.h"
#include "core/rollup.h"
#include "state/job.h"
#include "state/queue.h"

#define OTHER 0 /* the place of all names that have none */

struct entry {
        struct hash_node node;
        const void *owner; /* who found it last; NULL: nobody */
        bool is_counted;   /* in this minute */
        bool was_idle;     /* in the minute before */
        bool has_life;     /* of a hook or a queue; and then its place among the lives: */
        uint16_t life;
        union tally_cell cell;
        char text[];
};

struct table {
        struct hash names;
        struct entry *entries[TALLY_NAMES + 1];
        size_t bytes;        /* of all names */
        bool is_cleared_out; /* idle names were dropped in this minute */
};

struct lives {
        struct tally_life of[TALLY_LIVES + 1]; /* names are owned; the first is OTHER */
        uint16_t n;
};

struct tally {
        struct table tables[TALLY_KINDS];
        struct lives hooks, queues;
};

static struct entry *entry_new(struct slice name)
{
        struct entry *e = xcalloc(1, sizeof(*e) + name.len);
        if (name.len)
                memcpy(e->text, name.ptr, name.len);
        return e;
}

struct tally *tally_new(uint64_t seed)
{
        struct tally *t = xcalloc(1, sizeof(*t));
        for (size_t i = 0; i < TALLY_KINDS; i++) {
                hash_init(&t->tables[i].names, seed);
                t->tables[i].entries[OTHER] = entry_new(SLICE_NONE);
        }
        t->hooks.of[OTHER].name = t->queues.of[OTHER].name = SLICE_LIT("other");
        t->hooks.n = t->queues.n = 1;
        return t;
}

static void free_names(struct lives *lives)
{
        for (size_t i = 1; i < lives->n; i++)
                free((void *)(uintptr_t)lives->of[i].name.ptr);
}

struct tally *tally_free(struct tally *t)
{
        if (!t)
                return NULL;
        for (size_t i = 0; i < TALLY_KINDS; i++) {
                for (size_t k = 0; k <= TALLY_NAMES; k++)
                        free(t->tables[i].entries[k]);
                hash_release(&t->tables[i].names);
        }
        free_names(&t->hooks);
        free_names(&t->queues);
        free(t);
        return NULL;
}

/* ---- names and places ---- */

/* Makes room: names that did nothing for a whole minute, and nothing yet in this one. */
static void clear_out(struct table *table)
{
        table->is_cleared_out = true;
        for (size_t i = 1; i <= TALLY_NAMES; i++) {
                struct entry *e = table->entries[i];
                if (!e || !e->was_idle || e->is_counted)
                        continue;
                table->bytes -= e->node.key.len;
                hash_remove(&table->names, &e->node);
                free(e);
                table->entries[i] = NULL;
        }
}

static bool has_room(const struct table *table, struct slice name)
{
        return table->names.len < TALLY_NAMES && table->bytes + name.len <= TALLY_NAME_BYTES;
}

static bool make_room(struct table *table, struct slice name)
{
        if (!has_room(table, name) && !table->is_cleared_out)
                clear_out(table);
        return has_room(table, name);
}

static uint16_t place_of(struct table *table, struct slice name)
{
        struct hash_node *n = hash_find(&table->names, name);
        struct entry *e = n ? CONTAINER_OF(n, struct entry, node) : NULL;
        uint16_t at = 1;
        if (!e && (!name.len || slice_eq(name, SLICE_LIT("other")) || !make_room(table, name)))
                return OTHER;
        while (table->entries[at] != e) /* a free one when it is new */
                at++;
        if (e)
                return at;
        e = entry_new(name);
        table->entries[at] = e;
        table->bytes += name.len;
        hash_insert(&table->names, &e->node, slice_make(e->text, name.len));
        return at;
}

static union tally_cell *cell_of(struct table *table, uint16_t *place, const void *owner,
                                 struct slice name)
{
        struct entry *e = table->entries[*place];
        if (!e || e->owner != owner) {
                *place = place_of(table, name);
                e = table->entries[*place];
                e->owner = *place ? owner : NULL;
        }
        e->is_counted = true;
        return &e->cell;
}

/* ---- jobs ---- */

struct job_cells {
        struct tally_jobs *hook, *queue;
};

/* Once for each cell: that a name has one already is rare. */
static uint16_t find_life(struct lives *lives, struct slice name)
{
        uint16_t i = 1;
        while (i < lives->n && !slice_eq(lives->of[i].name, name))
                i++;
        if (i < lives->n)
                return i;
        if (lives->n > TALLY_LIVES)
                return OTHER;
        char *text = xmalloc(name.len + 1);
        memcpy(text, name.ptr, name.len);
        lives->of[i].name = slice_make(text, name.len);
        return lives->n++;
}

static struct tally_life *life_of(struct lives *lives, const struct tally_jobs *cell)
{
        struct entry *e = CONTAINER_OF(cell, struct entry, cell);
        if (!e->has_life) {
                e->life = e->node.key.len ? find_life(lives, e->node.key) : OTHER;
                e->has_life = true;
        }
        return &lives->of[e->life];
}

static struct job_cells cells_of(struct tally *t, const struct job *job)
{
        struct name *hook = job->hook;
        struct queue *queue = job->queue;
        return (struct job_cells){
                &cell_of(&t->tables[TALLY_HOOK], &hook->tally_place, hook, name_slice(hook))->jobs,
                &cell_of(&t->tables[TALLY_QUEUE], &queue->tally_place, queue,
                         name_slice(queue->name))
                         ->jobs,
        };
}

/* The wall may have been set back meanwhile. */
static uint64_t ms_between(int64_t from_ms, int64_t to_ms)
{
        return to_ms > from_ms ? (uint64_t)(to_ms - from_ms) : 0;
}

static void add_wait(struct tally_life *life, uint64_t ms)
{
        life->wait[octave_of(ms)]++;
        life->wait_ms += ms;
}

static void add_run(struct tally_life *life, uint64_t ms)
{
        life->run[octave_of(ms)]++;
        life->run_ms += ms;
}

void tally_start(struct tally *t, const struct job *job, int64_t wall_ms)
{
        struct job_cells c = cells_of(t, job);
        int64_t due_ms = job->extra ? (int64_t)job->extra->options.parked_due : 0;
        uint64_t wait_ms = ms_between(due_ms ? due_ms : job->due_ms, wall_ms);
        octaves_add(&c.hook->wait, wait_ms);
        octaves_add(&c.queue->wait, wait_ms);
        add_wait(life_of(&t->hooks, c.hook), wait_ms);
        add_wait(life_of(&t->queues, c.queue), wait_ms);
}

static void count_end(struct job_cells c, enum tally_end end)
{
        c.hook->completed += end == TALLY_COMPLETED;
        c.queue->completed += end == TALLY_COMPLETED;
        c.hook->failed += end == TALLY_FAILED;
        c.queue->failed += end == TALLY_FAILED;
}

void tally_end(struct tally *t, const struct job *job, enum tally_end end, int64_t wall_ms)
{
        struct job_cells c = cells_of(t, job);
        uint64_t run_ms = ms_between(job->more->started_ms, wall_ms);
        octaves_add(&c.hook->run, run_ms);
        octaves_add(&c.queue->run, run_ms);
        add_run(life_of(&t->hooks, c.hook), run_ms);
        add_run(life_of(&t->queues, c.queue), run_ms);
        count_end(c, end);
}

void tally_ended(struct tally *t, const struct job *job, enum tally_end end)
{
        count_end(cells_of(t, job), end);
}

void tally_deferred(struct tally *t, const struct job *job)
{
        struct job_cells c = cells_of(t, job);
        c.hook->deferred++;
        c.queue->deferred++;
}

/* ---- asks, metrics, levels ---- */

struct slice tally_metric_name(struct slice target, struct slice metric, char *room)
{
        if (!target.len || !metric.len || target.len + 1 + metric.len > TALLY_METRIC_BYTES)
                return SLICE_NONE;
        memcpy(room, target.ptr, target.len);
        room[target.len] = '\0';
        memcpy(room + target.len + 1, metric.ptr, metric.len);
        return slice_make(room, target.len + 1 + metric.len);
}

/* The text of the metric's own cell lives as long as the minute does. */
static struct slice cause_of(const struct tally *t, const struct tally_ask *ask)
{
        char room[TALLY_METRIC_BYTES];
        struct slice name = tally_metric_name(ask->target, ask->metric, room);
        struct hash_node *n = name.len ? hash_find(&t->tables[TALLY_METRIC].names, name) : NULL;
        return n && CONTAINER_OF(n, struct entry, node)->is_counted ? n->key : SLICE_NONE;
}

void tally_asked(struct tally *t, const struct tally_who *who, const struct tally_ask *ask)
{
        struct tally_asks *c =
                &cell_of(&t->tables[who->kind], who->place, who->owner, who->name)->asks;
        if (ask->is_granted)
                c->granted = add_bounded_u32(c->granted, ask->n);
        else
                c->refused = add_bounded_u32(c->refused, ask->n);
        c->waited_ms += ask->waited_ms;
        if (ask->is_granted && !ask->would_refuse)
                return;
        if (ask->is_granted)
                c->observed = add_bounded_u32(c->observed, ask->n);
        c->by_reason[ask->reason] = add_bounded_u32(c->by_reason[ask->reason], ask->n);
        if (who->kind == TALLY_CLIENT && ask->metric.len)
                c->cause = cause_of(t, ask);
}

/* Without a place to remember: once a second for each, at most. */
static union tally_cell *find_cell(struct table *table, struct slice name)
{
        struct entry *e = table->entries[place_of(table, name)];
        e->is_counted = true;
        return &e->cell;
}

void tally_sampled(struct tally *t, struct slice target, struct slice metric, double value)
{
        char room[TALLY_METRIC_BYTES];
        struct slice name = tally_metric_name(target, metric, room);
        if (!name.len || value != value)
                return;
        struct tally_values *c = &find_cell(&t->tables[TALLY_METRIC], name)->values;
        float v = (float)value;
        c->min = c->n && c->min < v ? c->min : v;
        c->max = c->n && c->max > v ? c->max : v;
        c->sum += value;
        c->n += c->n < UINT32_MAX;
}

void tally_level(struct tally *t, struct slice target, enum level level)
{
        find_cell(&t->tables[TALLY_TARGET], target)->asks.levels |= (uint8_t)(1u << level);
}

/* ---- the end of the minute ---- */

static int by_name(const void *a, const void *b)
{
        return slice_cmp(((const struct rollup_row *)a)->name,
                         ((const struct rollup_row *)b)->name);
}

static void take_table(struct table *table, struct rollup_table *ret)
{
        struct rollup_row *rows = xcalloc(table->names.len + 1, sizeof(*rows));
        size_t n = 1; /* the first is for `other` */
        rows[0].cell = table->entries[OTHER]->cell;
        for (size_t i = 1; i <= TALLY_NAMES; i++) {
                const struct entry *e = table->entries[i];
                if (e && e->is_counted)
                        rows[n++] = (struct rollup_row){e->node.key, e->cell};
        }
        qsort(rows + 1, n - 1, sizeof(*rows), by_name);
        *ret = (struct rollup_table){rows, n};
}

void tally_take(struct tally *t, struct rollup *ret)
{
        for (size_t i = 0; i < TALLY_KINDS; i++) {
                struct table *table = &t->tables[i];
                take_table(table, &ret->tables[i]);
                table->is_cleared_out = false;
                for (size_t k = 0; k <= TALLY_NAMES; k++) {
                        struct entry *e = table->entries[k];
                        if (!e)
                                continue;
                        e->was_idle = !e->is_counted;
                        if (e->is_counted)
                                memset(&e->cell, 0, sizeof(e->cell));
                        e->is_counted = false;
                }
        }
}

void tally_each_life(const struct tally *t, enum tally_kind kind,
                     void (*fn)(void *ctx, const struct tally_life *l), void *ctx)
{
        ASSERT(kind == TALLY_HOOK || kind == TALLY_QUEUE);
        const struct lives *lives = kind == TALLY_HOOK ? &t->hooks : &t->queues;
        for (size_t i = lives->n; i-- > 0;) /* "other" last */
                fn(ctx, &lives->of[i]);
}

/* (1) No more names and bytes than may be; (2) each has a place; (3) nobody owns `other`. */
void tally_check(const struct tally *t)
{
        for (size_t i = 0; i < TALLY_KINDS; i++) {
                const struct table *table = &t->tables[i];
                size_t n = 0, bytes = 0;
                for (size_t k = 1; k <= TALLY_NAMES; k++) {
                        n += table->entries[k] != NULL;
                        bytes += table->entries[k] ? table->entries[k]->node.key.len : 0;
                }
                ASSERT(n == table->names.len && bytes == table->bytes);
                ASSERT(n <= TALLY_NAMES && bytes <= TALLY_NAME_BYTES);
                ASSERT(table->entries[OTHER] && !table->entries[OTHER]->owner);
        }
}
