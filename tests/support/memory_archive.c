/* See the header. */
#include "support/memory_archive.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/rollup_view.h"
#include "gate/registry.h"
#include "state/job.h"

/* An array of n gets room for one more; it doubles, since a sanitizer's realloc() always copies. */
static void *room_for_one(void *array, size_t n, size_t size)
{
        return n & (n - 1) ? array : xrealloc(array, (n ? 2 * n : 1) * size);
}

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

static struct memory_audit *durable_audit(struct memory_archive *a, uint64_t number)
{
        for (size_t i = 0; i < a->n_audits; i++)
                if (a->audits[i].is_durable && a->audits[i].row.number == number)
                        return &a->audits[i];
        return NULL;
}

static void drop_audit(struct memory_archive *a, size_t i)
{
        buf_release(&a->audits[i].bytes);
        a->n_audits--;
        memmove(a->audits + i, a->audits + i + 1, (a->n_audits - i) * sizeof(*a->audits));
}

static void commit_audits(struct memory_archive *a)
{
        for (size_t i = 0; i < a->n_audits; i++) {
                struct memory_audit *row = &a->audits[i];
                if (row->is_durable)
                        continue;
                struct memory_audit *old = durable_audit(a, row->row.number);
                if (old) { /* again after a crash: the first stays, and is reported again */
                        old->is_reported = false;
                        drop_audit(a, i--);
                        continue;
                }
                row->is_durable = true;
                if (row->row.number > a->base.last_audit)
                        a->base.last_audit = row->row.number;
        }
}

void memory_archive_commit(struct memory_archive *a, size_t n)
{
        if (n && !a->is_stuck)
                commit_audits(a);
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
        a->incidents = room_for_one(a->incidents, a->n_incidents, sizeof(*a->incidents));
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

static void memory_audit(struct archive *base, const struct audit_entry *e)
{
        struct memory_archive *a = memory_of(base);
        a->audits = room_for_one(a->audits, a->n_audits, sizeof(*a->audits));
        struct memory_audit *row = &a->audits[a->n_audits++];
        *row = (struct memory_audit){.row = *e};
        struct slice *const texts[] = {&row->row.who,    &row->row.role,    &row->row.address,
                                       &row->row.door,   &row->row.command, &row->row.what,
                                       &row->row.before, &row->row.after,   &row->row.reason};
        size_t at = 0;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                buf_put_slice(&row->bytes, *texts[i]);
        for (size_t i = 0; i < ARRAY_LEN(texts); at += texts[i]->len, i++)
                texts[i]->ptr = row->bytes.ptr + at;
}

static void memory_audits(struct archive *base, struct archive_audits *q)
{
        struct memory_archive *a = memory_of(base);
        q->next = a->reviews;
        a->reviews = q;
        if (base->notify)
                base->notify(base->notify_ctx);
}

/* Few: the largest number below the last is looked for each time. */
static void find_audits(const struct memory_archive *a, struct archive_audits *q)
{
        uint64_t below = q->before;
        while (q->n_rows < q->limit) {
                const struct audit_entry *next = NULL;
                for (size_t i = 0; i < a->n_audits; i++) {
                        const struct memory_audit *row = &a->audits[i];
                        if (row->is_durable && row->row.number < below &&
                            (!next || row->row.number > next->number))
                                next = &row->row;
                }
                if (!next)
                        return;
                below = next->number;
                if (archive_audits_want(q, next))
                        q->rows[q->n_rows++] = *next;
        }
}

static void answer_reviews(struct memory_archive *a, bool is_gone)
{
        while (a->reviews) {
                struct archive_audits *q = a->reviews;
                a->reviews = q->next;
                q->n_rows = q->n_damaged = 0;
                q->is_cut = false;
                q->err = a->is_broken || is_gone ? ERR_IO : OK;
                q->rows = arena_array(&q->arena, q->limit, sizeof(*q->rows));
                ASSERT(q->rows);
                if (!q->err)
                        find_audits(a, q);
                q->done(q);
        }
}

static void report_audits(struct memory_archive *a)
{
        for (size_t i = 0; i < a->n_audits; i++) {
                if (!a->audits[i].is_durable || a->audits[i].is_reported)
                        continue;
                a->audits[i].is_reported = true;
                a->base.audited(a->base.audited_ctx, a->audits[i].row.number);
        }
}

static void memory_roll(struct archive *base, struct slice minute)
{
        struct memory_archive *a = memory_of(base);
        a->rolls = room_for_one(a->rolls, a->n_rolls, sizeof(*a->rolls));
        a->rolls[a->n_rolls] = (struct buf){0};
        buf_put_slice(&a->rolls[a->n_rolls++], minute);
}

static void memory_rollups(struct archive *base, struct archive_rollups *q)
{
        struct memory_archive *a = memory_of(base);
        q->next = a->surveys;
        a->surveys = q;
        if (base->notify)
                base->notify(base->notify_ctx);
}

static int64_t minute_of(const struct buf *roll)
{
        struct rollup r;
        rollup_init(&r);
        ASSERT(rollup_unpack(buf_slice(roll), 0, &r) == OK);
        int64_t at = r.at;
        rollup_release(&r);
        return at;
}

/* Minutes alone: whoever is shown their sums cannot tell. */
static void answer_surveys(struct memory_archive *a, bool is_gone)
{
        while (a->surveys) {
                struct archive_rollups *q = a->surveys;
                a->surveys = q->next;
                q->n_damaged = 0;
                q->err = a->is_broken || is_gone ? ERR_IO : OK;
                for (size_t i = 0; i < a->n_rolls && !q->err; i++) {
                        int64_t at = minute_of(&a->rolls[i]);
                        if (at >= q->from && at < q->to)
                                ASSERT(rollup_view_add(q->view, buf_slice(&a->rolls[i])) == OK);
                }
                q->done(q);
        }
}

static void memory_poll(struct archive *base)
{
        struct memory_archive *a = memory_of(base);
        answer_inquiries(a, false);
        answer_surveys(a, false);
        answer_reviews(a, false);
        report_audits(a);
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
        answer_surveys(a, true);
        answer_reviews(a, true);
        for (size_t i = a->n_audits; i--;)
                if (!a->audits[i].is_durable)
                        drop_audit(a, i);
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

void memory_archive_copy(struct memory_archive *to, const struct memory_archive *from)
{
        uint64_t id = 0;
        for (const struct memory_row *row; (row = idmap_next(&from->rows, id, &id)); id++) {
                const struct memory_row *old = idmap_get(&to->rows, id);
                if (old && run_of(old->view.options) >= run_of(row->view.options))
                        continue;
                if (old)
                        drop_row(to, id);
                struct memory_row *copy = xcalloc(1, sizeof(*copy));
                copy->view = row->view;
                own_texts(copy);
                idmap_put(&to->rows, id, copy);
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
        .audit = memory_audit,
        .audits = memory_audits,
        .roll = memory_roll,
        .rollups = memory_rollups,
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
        for (size_t i = 0; i < a->n_audits; i++)
                buf_release(&a->audits[i].bytes);
        free(a->audits);
        for (size_t i = 0; i < a->n_rolls; i++)
                buf_release(&a->rolls[i]);
        free(a->rolls);
        free(a->handed);
}
