/* See the header. */
#include "support/memory_archive.h"

#include <stdlib.h>

#include "base/err.h"
#include "gate/registry.h"
#include "state/job.h"

static struct memory_archive *memory_of(struct archive *a)
{
        return CONTAINER_OF(a, struct memory_archive, base);
}

static void memory_store(struct archive *base, struct job *const *jobs, size_t n)
{
        struct memory_archive *a = memory_of(base);
        if (a->n_handed + n > a->cap_handed) {
                a->cap_handed = 2 * (a->n_handed + n);
                a->handed = xrealloc(a->handed, a->cap_handed * sizeof(struct job *));
        }
        memcpy(a->handed + a->n_handed, jobs, n * sizeof(struct job *));
        a->n_handed += n;
}

static void own_texts(struct memory_row *row)
{
        struct job_view *v = &row->view;
        struct slice *texts[] = {&v->hook,     &v->args,   &v->queue, &v->group,  &v->worker,
                                 &v->progress, &v->result, &v->error, &v->events, &v->options};
        size_t n = 1;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                n += texts[i]->len;
        char *at = row->bytes = xmalloc(n);
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                if (texts[i]->len)
                        memcpy(at, texts[i]->ptr, texts[i]->len);
                texts[i]->ptr = at;
                at += texts[i]->len;
        }
}

static uint64_t run_of(struct slice options)
{
        struct job_options o;
        ASSERT(options_unpack(options, &o));
        return o.run;
}

static void drop_row(struct memory_archive *a, uint64_t id)
{
        struct memory_row *row = idmap_take(&a->rows, id);
        free(row->bytes);
        free(row);
}

/* The first stays, unless it is of an earlier run: see core/archive.h. */
static void keep(struct memory_archive *a, const struct job *job)
{
        struct memory_row *old = idmap_get(&a->rows, job_id(job));
        uint64_t run = job->extra ? job->extra->options.run : 0;
        if (old && run_of(old->view.options) >= run) {
                a->ignored++;
                return;
        }
        if (old)
                drop_row(a, job_id(job));
        struct memory_row *row = xcalloc(1, sizeof(*row));
        job_view(job, &row->view);
        own_texts(row);
        idmap_put(&a->rows, job_id(job), row);
}

void memory_archive_commit(struct memory_archive *a, size_t n)
{
        for (; n && !a->is_stuck && a->n_committed < a->n_handed; n--) {
                const struct job *job = a->handed[a->n_committed++];
                if (!a->base.is_wanted || a->base.is_wanted(job))
                        keep(a, job);
        }
}

static bool is_of_tier(const struct job_filter *f, const struct job_view *v)
{
        struct job_options o;
        ASSERT(options_unpack(v->options, &o));
        return o.tier ? o.tier == f->tier : 1U + registry_tier(f->registry, v->hook) == f->tier;
}

static bool matches(const struct job_filter *f, const struct job_view *v)
{
        if ((f->tier && !is_of_tier(f, v)) || (f->since_ms && v->created_ms < f->since_ms) ||
            (f->until_ms && v->created_ms >= f->until_ms) ||
            (f->ended_since_ms && v->finished_ms < f->ended_since_ms) ||
            (f->worker.len && !slice_eq(f->worker, v->worker)))
                return false;
        return (f->status < 0 || f->status == (int)v->status) &&
               (!f->hook.len || slice_eq(f->hook, v->hook)) &&
               (!f->queue.len || slice_eq(f->queue, v->queue)) &&
               (!f->group.len || slice_eq(f->group, v->group)) &&
               (!f->match.len || slice_contains(v->args, f->match) ||
                slice_contains(v->hook, f->match) || slice_contains(v->error, f->match) ||
                slice_contains(v->result, f->match));
}

static void give(struct archive_query *q, uint64_t id, const struct memory_row *row)
{
        if (q->is_brief)
                q->refs[q->n_rows++] =
                        (struct archive_ref){id, run_of(row->view.options), row->view.finished_ms};
        else
                q->rows[q->n_rows++] = row->view;
}

static void make_room(struct archive_query *q, size_t limit)
{
        q->n_rows = 0;
        q->is_cut = false;
        q->rows = arena_array(&q->arena, limit, sizeof(*q->rows));
        q->refs = arena_array(&q->arena, limit, sizeof(*q->refs));
        ASSERT(q->rows && q->refs);
}

static void give_ids(struct memory_archive *a, struct archive_query *q)
{
        for (size_t i = 0; i < q->n_ids && q->n_rows < q->limit; i++) {
                struct memory_row *row = idmap_get(&a->rows, q->ids[i]);
                if (row)
                        give(q, q->ids[i], row);
        }
}

static void give_page(struct memory_archive *a, struct archive_query *q)
{
        uint64_t id = q->is_oldest ? q->after_id + 1 : q->before_id - 1;
        size_t seen = 0;
        while (q->n_rows < q->limit && id && !q->is_cut) {
                struct memory_row *row = q->is_oldest ? idmap_next(&a->rows, id, &id)
                                                      : idmap_prev(&a->rows, id, &id);
                if (!row || id <= q->after_id || (q->before_id && id >= q->before_id))
                        break;
                if (matches(&q->filter, &row->view))
                        give(q, id, row);
                q->last_id = id;
                q->is_cut = a->budget && ++seen == a->budget && q->n_rows < q->limit;
                id = q->is_oldest ? id + 1 : id - 1;
        }
}

static void answer(struct memory_archive *a, struct archive_query *q)
{
        make_room(q, q->id ? 1 : q->limit);
        q->err = a->is_broken ? ERR_IO : OK;
        if (a->is_broken)
                return;
        const struct memory_row *row = q->id ? idmap_get(&a->rows, q->id) : NULL;
        if (row)
                q->rows[q->n_rows++] = row->view;
        else if (!q->id && q->n_ids)
                give_ids(a, q);
        else if (!q->id)
                give_page(a, q);
}

static void memory_remove(struct archive *base, struct archive_removal *r)
{
        struct memory_archive *a = memory_of(base);
        r->next = a->to_remove;
        a->to_remove = r;
        r->err = OK;
        r->removed = 0;
}

static void remove_asked(struct memory_archive *a)
{
        while (a->to_remove) {
                struct archive_removal *r = a->to_remove;
                a->to_remove = r->next;
                r->err = a->is_broken ? ERR_IO : OK;
                for (size_t i = 0; i < r->n && !a->is_broken; i++) {
                        struct memory_row *row = idmap_get(&a->rows, r->refs[i].id);
                        if (!row || run_of(row->view.options) != r->refs[i].run)
                                continue;
                        drop_row(a, r->refs[i].id);
                        r->removed++;
                }
                r->done(r);
        }
}

static void memory_query(struct archive *base, struct archive_query *q)
{
        struct memory_archive *a = memory_of(base);
        q->next = a->asked;
        a->asked = q;
        if (base->notify)
                base->notify(base->notify_ctx);
}

static void memory_note(struct archive *base, const struct archive_incident *incident)
{
        struct memory_archive *a = memory_of(base);
        if (incident->number <= base->last_incident)
                return;
        a->incidents = xrealloc(a->incidents, (a->n_incidents + 1) * sizeof(*a->incidents));
        struct memory_incident *row = &a->incidents[a->n_incidents++];
        *row = (struct memory_incident){.row = *incident};
        buf_put_slice(&row->event, incident->event);
        buf_put_slice(&row->message, incident->message);
        row->row.event = buf_slice(&row->event);
        row->row.message = buf_slice(&row->message);
        base->last_incident = incident->number;
}

static void memory_incidents(struct archive *base, struct archive_incidents *q)
{
        struct memory_archive *a = memory_of(base);
        q->next = a->inquiries;
        a->inquiries = q;
        if (base->notify)
                base->notify(base->notify_ctx);
}

static void answer_inquiries(struct memory_archive *a, bool is_gone)
{
        while (a->inquiries) {
                struct archive_incidents *q = a->inquiries;
                a->inquiries = q->next;
                q->n_rows = 0;
                q->err = a->is_broken || is_gone ? ERR_IO : OK;
                q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
                ASSERT(q->rows);
                for (size_t i = a->n_incidents; !q->err && i > 0 && q->n_rows < q->limit; i--)
                        if (a->incidents[i - 1].row.number < q->before)
                                q->rows[q->n_rows++] = a->incidents[i - 1].row;
                q->done(q);
        }
}

static void memory_poll(struct archive *base)
{
        struct memory_archive *a = memory_of(base);
        answer_inquiries(a, false);
        while (a->asked) {
                struct archive_query *q = a->asked;
                a->asked = q->next;
                answer(a, q);
                q->done(q);
        }
        remove_asked(a);
        size_t n = a->n_committed;
        if (!n)
                return;
        base->stored(base->stored_ctx, a->handed, n);
        memmove(a->handed, a->handed + n, (a->n_handed - n) * sizeof(struct job *));
        a->n_handed -= n;
        a->n_committed = 0;
}

void memory_archive_crash(struct memory_archive *a)
{
        a->n_handed = a->n_committed = 0;
        answer_inquiries(a, true);
        /* Whoever asked is gone; the questions are given back so that nobody leaks them. */
        while (a->asked) {
                struct archive_query *q = a->asked;
                a->asked = q->next;
                q->err = ERR_IO;
                q->done(q);
        }
        while (a->to_remove) {
                struct archive_removal *r = a->to_remove;
                a->to_remove = r->next;
                r->err = ERR_IO;
                r->done(r);
        }
}

const struct job_view *memory_archive_find(const struct memory_archive *a, uint64_t id)
{
        const struct memory_row *row = idmap_get(&a->rows, id);
        return row ? &row->view : NULL;
}

static void memory_stat(struct archive *base, struct archive_stat *ret)
{
        const struct memory_archive *a = memory_of(base);
        *ret = (struct archive_stat){.room_bytes = a->room ? a->room : UINT64_MAX,
                                     .is_stuck = a->is_stuck};
}

/* Those that nobody wants any more come first, and are reported next. */
static void memory_wake(struct archive *base)
{
        struct memory_archive *a = memory_of(base);
        for (size_t i = a->n_committed; i < a->n_handed; i++) {
                struct job *job = a->handed[i];
                if (base->is_wanted(job))
                        continue;
                memmove(a->handed + a->n_committed + 1, a->handed + a->n_committed,
                        (i - a->n_committed) * sizeof(struct job *));
                a->handed[a->n_committed++] = job;
        }
}

static const struct archive_ops memory_ops = {
        .stat = memory_stat,
        .wake = memory_wake,
        .store = memory_store,
        .query = memory_query,
        .remove = memory_remove,
        .note = memory_note,
        .incidents = memory_incidents,
        .poll = memory_poll,
};

void memory_archive_init(struct memory_archive *a)
{
        *a = (struct memory_archive){.base = {.ops = &memory_ops}};
        idmap_init(&a->rows);
}

void memory_archive_release(struct memory_archive *a)
{
        uint64_t id = 0;
        for (struct memory_row *row; (row = idmap_next(&a->rows, id, &id)); id++) {
                (void)idmap_take(&a->rows, id); /* it is `row` itself */
                free(row->bytes);
                free(row);
        }
        idmap_release(&a->rows);
        for (size_t i = 0; i < a->n_incidents; i++) {
                buf_release(&a->incidents[i].event);
                buf_release(&a->incidents[i].message);
        }
        free(a->incidents);
        free(a->handed);
}
