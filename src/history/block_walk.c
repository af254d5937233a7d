#include "history/block_walk.h"

#include <stdlib.h>

/* --- what comes next --- */

static bool is_before(const struct block_walk *w, uint64_t a, uint64_t b)
{
        return w->is_oldest ? a < b : a > b;
}

static uint64_t next_id(const struct opened_block *o)
{
        return o->id[o->next];
}

/* The open block that has the next job, when there is one. */
static size_t nearest(const struct block_walk *w)
{
        size_t near = 0;
        for (size_t i = 1; i < w->n_opened; i++)
                if (is_before(w, next_id(&w->opened[i]), next_id(&w->opened[near])))
                        near = i;
        return near;
}

/* No job of the block comes before this id. */
static uint64_t bound_of(const struct block_walk *w, const struct block_mark *m)
{
        uint64_t id = w->is_oldest ? m->first_id : m->last_id;
        uint64_t start = id_range_next(&w->asked, w->is_oldest);
        return is_before(w, id, start) ? start : id;
}

static bool has_waiting(const struct block_walk *w)
{
        return w->next_waiting < w->n_waiting;
}

/* The next mark that was not looked at; NULL: none. */
static const struct block_mark *next_mark(const struct block_walk *w)
{
        if (w->is_oldest ? w->mark >= blocks_len(w->shelf->blocks) : !w->mark)
                return NULL;
        return blocks_at(w->shelf->blocks, w->is_oldest ? w->mark : w->mark - 1);
}

/* Brings `left` to what may come next. */
static void settle(struct block_walk *w)
{
        w->place = BLOCKS_BETWEEN;
        if (w->n_opened || has_waiting(w)) {
                uint64_t id = w->n_opened ? next_id(&w->opened[nearest(w)]) : 0;
                if (has_waiting(w)) {
                        uint64_t bound = bound_of(w, w->waiting[w->next_waiting]);
                        id = w->n_opened && is_before(w, id, bound) ? id : bound;
                }
                id_range_go_to(&w->left, w->is_oldest, id);
                return;
        }
        const struct block_mark *m = next_mark(w);
        if (!m) {
                id_range_clear(&w->left);
                return;
        }
        /* Marks of a window go by their last ids, so one behind this may have a smaller first. */
        uint64_t id = w->is_oldest ? window_of(m->first_id) << WINDOW_SHIFT : m->last_id;
        uint64_t start = id_range_next(&w->asked, w->is_oldest);
        id_range_go_to(&w->left, w->is_oldest, is_before(w, id, start) ? start : id);
}

/* --- marks --- */

static int by_first_id(const void *a, const void *b)
{
        const struct block_mark *x = *(const struct block_mark *const *)a;
        const struct block_mark *y = *(const struct block_mark *const *)b;
        return x->first_id < y->first_id ? -1 : x->first_id > y->first_id;
}

static void wait_for(struct block_walk *w, const struct block_mark *m)
{
        if (w->n_waiting == w->waiting_room) {
                w->waiting_room = w->waiting_room ? 2 * w->waiting_room : 64;
                w->waiting = xrealloc(w->waiting, w->waiting_room * sizeof(struct block_mark *));
        }
        w->waiting[w->n_waiting++] = m;
}

/* The candidates of the next window. */
static void enter_window(struct block_walk *w)
{
        const struct block_mark *m = next_mark(w);
        uint64_t window = window_of(m->last_id);
        w->n_waiting = w->next_waiting = 0;
        for (; m && window_of(m->last_id) == window; m = next_mark(w)) {
                if (m->first_id <= w->asked.high && m->last_id >= w->asked.low &&
                    block_filter_may_hold(&w->filter, m))
                        wait_for(w, m);
                w->mark = w->is_oldest ? w->mark + 1 : w->mark - 1;
        }
        if (w->is_oldest && w->n_waiting > 1)
                qsort(w->waiting, w->n_waiting, sizeof(struct block_mark *), by_first_id);
        settle(w);
}

/* --- blocks --- */

static struct opened_block *add_opened(struct block_walk *w)
{
        if (w->n_opened == w->opened_room) {
                w->opened_room = w->opened_room ? 2 * w->opened_room : 4;
                w->opened = xrealloc(w->opened, w->opened_room * sizeof(*w->opened));
        }
        return &w->opened[w->n_opened];
}

static void drop_opened(struct block_walk *w, size_t i)
{
        free(w->opened[i].tiers);
        w->n_opened--;
        if (i < w->n_opened)
                w->opened[i] = w->opened[w->n_opened];
}

/* Its jobs that match by their columns, if there are any. */
static int take_jobs(struct block_walk *w, const struct block_mark *m, const struct block *b,
                     size_t hint)
{
        struct opened_block *o = add_opened(w);
        uint16_t at[BLOCK_JOBS];
        size_t n = block_filter_columns(&w->filter, b, m, &w->asked, at);
        if (!n)
                return OK;
        o->mark = m;
        o->hint = hint;
        o->n = n;
        o->next = 0;
        o->tiers = NULL;
        if (w->filter.asked->tier) {
                o->tiers = calloc(b->n_names + 1, sizeof(*o->tiers));
                if (!o->tiers)
                        return ERR_NOMEM;
        }
        for (size_t i = 0; i < n; i++) {
                o->at[i] = at[w->is_oldest ? i : n - 1 - i];
                o->id[i] = b->id[o->at[i]];
        }
        w->n_opened++;
        return OK;
}

static int open_waiting(struct block_walk *w, struct problem *p)
{
        const struct block_mark *m = w->waiting[w->next_waiting];
        struct block *b;
        size_t hint = SIZE_MAX;
        int err = block_shelf_get(w->shelf, m, &hint, &b, p);
        if (err && err != ERR_CORRUPT)
                return err;
        w->next_waiting++;
        uint64_t shown = w->is_oldest ? m->first_id : m->last_id;
        if (err && id_range_has(&w->asked, shown)) {
                w->place = BLOCKS_AT_DAMAGE;
                w->damaged = m;
                return OK;
        }
        /* A damaged one that begins outside was shown on the page before. */
        err = err ? OK : take_jobs(w, m, b, hint);
        settle(w);
        return err;
}

int block_walk_step(struct block_walk *w, struct problem *p)
{
        ASSERT(w->place == BLOCKS_BETWEEN && !id_range_is_empty(&w->left));
        if (!w->n_opened && !has_waiting(w)) {
                enter_window(w);
                return OK;
        }
        size_t near = nearest(w);
        if (has_waiting(w) &&
            (!w->n_opened ||
             !is_before(w, next_id(&w->opened[near]), bound_of(w, w->waiting[w->next_waiting]))))
                return open_waiting(w, p);
        w->place = BLOCKS_AT_JOB;
        w->current = near;
        return OK;
}

/* --- at a job --- */

int block_walk_job(struct block_walk *w, struct block **ret, size_t *ret_at, struct problem *p)
{
        ASSERT(w->place == BLOCKS_AT_JOB);
        struct opened_block *o = &w->opened[w->current];
        int err = block_shelf_get(w->shelf, o->mark, &o->hint, ret, p);
        if (!err)
                *ret_at = o->at[o->next];
        if (err == ERR_CORRUPT) {
                w->place = BLOCKS_AT_DAMAGE;
                w->damaged = o->mark;
                drop_opened(w, w->current);
        }
        return err;
}

int block_walk_texts(struct block_walk *w, struct block *b, size_t at, bool *ret)
{
        *ret = true;
        if (!block_filter_needs_texts(&w->filter))
                return OK;
        return block_filter_texts(&w->filter, b, at, w->opened[w->current].tiers, ret);
}

void block_walk_pass(struct block_walk *w)
{
        ASSERT(w->place != BLOCKS_BETWEEN);
        if (w->place == BLOCKS_AT_JOB) {
                struct opened_block *o = &w->opened[w->current];
                if (++o->next == o->n)
                        drop_opened(w, w->current);
        }
        settle(w);
}

/* --- the whole --- */

void block_walk_begin(struct block_walk *w, struct block_shelf *shelf,
                      const struct archive_query *q, const struct id_range *range)
{
        block_walk_end(w);
        w->shelf = shelf;
        w->is_oldest = q->is_oldest;
        w->asked = w->left = *range;
        block_filter_init(&w->filter, &q->filter);
        if (!shelf->blocks || id_range_is_empty(range)) {
                id_range_clear(&w->left);
                return;
        }
        uint64_t window = window_of(id_range_next(range, w->is_oldest));
        w->mark = blocks_from(shelf->blocks, w->is_oldest ? window : window + 1);
        settle(w);
}

void block_walk_end(struct block_walk *w)
{
        while (w->n_opened)
                drop_opened(w, w->n_opened - 1);
        w->n_waiting = w->next_waiting = 0;
        w->place = BLOCKS_BETWEEN;
        w->damaged = NULL;
}

void block_walk_release(struct block_walk *w)
{
        block_walk_end(w);
        free(w->waiting);
        free(w->opened);
        *w = (struct block_walk){0};
}
