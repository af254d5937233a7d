/* Pages of jobs, one after the other. */
#include "history/sql_walk.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"

#define TOLD_MAX 1000 /* damaged places that are named; 'weir history verify' names all */

void sql_shared_release(struct sql_shared *s)
{
        free(s->told);
        s->told = NULL;
        s->n_told = 0;
}

int sql_shared_fail(struct sql_shared *s, int err, const struct problem *p)
{
        s->problem = *p;
        s->problem.err = err;
        if (err == ERR_NOMEM)
                return SQLITE_NOMEM;
        if (err == ERR_STOPPING)
                return SQLITE_INTERRUPT;
        return err == ERR_CORRUPT ? SQLITE_CORRUPT : SQLITE_ERROR;
}

static bool is_told(struct sql_shared *s, uint64_t hash)
{
        for (size_t i = 0; i < s->n_told; i++)
                if (s->told[i] == hash)
                        return true;
        return false;
}

void sql_shared_tell(struct sql_shared *s, const char *what)
{
        uint64_t hash = hash_bytes(0, slice_str(what));
        if (is_told(s, hash))
                return;
        s->damaged++;
        if (s->n_told == TOLD_MAX)
                return;
        if (!s->told)
                s->told = xcalloc(TOLD_MAX, sizeof(*s->told));
        s->told[s->n_told++] = hash;
        s->tell_damage(s->ctx, what);
}

/* The store says what is damaged where the error of the job would be: a block has many jobs and is
 * told of once. */
static void tell(struct sql_shared *s, const struct job_view *v)
{
        static const char begin[] = "history is damaged here: ", block[] = "block ";
        char what[256];
        struct slice text = v->error;
        if (text.len > strlen(begin) && memcmp(text.ptr, begin, strlen(begin)) == 0)
                text = slice_make(text.ptr + strlen(begin), text.len - strlen(begin));
        bool is_block = text.len > strlen(block) && memcmp(text.ptr, block, strlen(block)) == 0;
        int n = is_block ? 0
                         : snprintf(what, sizeof(what), "job %llu: ", (unsigned long long)v->id);
        (void)snprintf(what + n, sizeof(what) - (size_t)n, "%.*s", (int)text.len, text.ptr);
        sql_shared_tell(s, what);
}

void sql_walk_init(struct sql_walk *w, struct sql_shared *shared)
{
        *w = (struct sql_walk){.shared = shared, .is_last = true};
        arena_init(&w->names, 0);
        arena_init(&w->plan.query.arena, SQL_PAGE_ROOM);
}

void sql_walk_release(struct sql_walk *w)
{
        arena_release(&w->names);
        arena_release(&w->plan.query.arena);
}

static int get_page(struct sql_walk *w)
{
        struct archive_query *q = &w->plan.query;
        struct problem p = {0};
        uint64_t before = q->last_id;
        arena_clear(&q->arena);
        q->limit = w->limit;
        q->bytes_max = SQL_PAGE_BYTES;
        w->at = 0;
        w->limit = w->limit * 4 < SQL_PAGE_MAX ? w->limit * 4 : SQL_PAGE_MAX;
        int err = w->shared->source->jobs(w->shared->source, q, &p);
        if (err) {
                q->n_rows = 0;
                w->is_last = true;
                return sql_shared_fail(w->shared, err, &p);
        }
        w->is_last = q->id || (!q->is_cut && q->n_rows < q->limit);
        ASSERT(w->is_last || q->last_id != before); /* else it would never end */
        if (q->is_oldest)
                q->after_id = q->last_id;
        else
                q->before_id = q->last_id;
        return SQLITE_OK;
}

/* From w->at to a job that is sound, or to the end. */
static int settle(struct sql_walk *w)
{
        const struct archive_query *q = &w->plan.query;
        for (;;) {
                for (; w->at < q->n_rows && q->rows[w->at].is_damaged; w->at++)
                        tell(w->shared, &q->rows[w->at]);
                if (w->at < q->n_rows || w->is_last)
                        return SQLITE_OK;
                if (w->shared->is_stopped)
                        return SQLITE_INTERRUPT;
                int rc = get_page(w);
                if (rc != SQLITE_OK)
                        return rc;
        }
}

int sql_walk_begin(struct sql_walk *w, const struct sql_shape *shape, const char *plan,
                   sqlite3_value **values)
{
        struct arena rows = w->plan.query.arena;
        struct problem p = {.detail = "no memory for the values of a condition"};
        arena_clear(&w->names);
        int err = sql_plan_apply(shape, plan, values, &w->names, &w->plan);
        w->plan.query.arena = rows;
        w->limit = SQL_PAGE_FIRST;
        w->at = 0;
        w->is_last = err || w->plan.is_empty;
        return err ? sql_shared_fail(w->shared, err, &p) : settle(w);
}

int sql_walk_next(struct sql_walk *w)
{
        w->at++;
        return settle(w);
}

const struct job_view *sql_walk_job(const struct sql_walk *w)
{
        const struct archive_query *q = &w->plan.query;
        return w->at < q->n_rows ? &q->rows[w->at] : NULL;
}
