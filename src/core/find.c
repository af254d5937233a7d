/* Finding jobs: one by id, a page of them, or the story of one.  Live and archived jobs are one
 * list, newest (largest id) first.
 *
 * A page is made in two steps.  First the live jobs below the cursor are walked, a bounded number
 * a turn, and matching ones are copied; then the archive is asked for the same range.  In this
 * order a job that moves from live to archive in between is seen twice at worst, never missed;
 * the merge drops the double.  Either side may stop early (a budget): then the page ends where
 * the shorter side ended, and the cursor says so.
 *
 * A job that was taken back from history (retry.c) has a row there that is true no longer.  So a
 * row of a job that is live when the page is put together stands for the live job: it is shown as
 * it is now, if it still is what was asked for. */
#include <stdlib.h>

#include "base/say.h"
#include "core/inside.h"
#include "core/params.h"
#include "core/tell_options.h"

#define LIST_LIMIT_DEFAULT 50
#define SCAN_STEP_JOBS     20000
#define PAGE_BYTES_MAX     (8 * MIB)

enum find_what { FIND_JOB, FIND_EVENTS, FIND_PAGE };

struct find {
        struct session_wait base;
        struct list link; /* on core->scans while the live jobs are walked */
        enum find_what what;
        struct archive_query query; /* its arena holds the filter's texts and the live rows */
        struct job_view *live;      /* matching live jobs, largest id first */
        size_t n_live;
        uint64_t at;       /* the walk goes on at this id */
        uint64_t live_low; /* every live match with an id >= this is in `live` */
        size_t copied_bytes;
};

/* ---- telling ---- */

static void tell_times(struct reply *reply, const struct job_view *v)
{
        const struct {
                const char *key;
                int64_t value;
        } rows[] = {
                {"created_ms", v->created_ms},
                {"due_ms", v->due_ms},
                {"started_ms", v->started_ms},
                {"finished_ms", v->finished_ms},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                reply_key(reply, rows[i].key);
                reply_int(reply, rows[i].value);
        }
}

static void tell_job(struct reply *reply, const struct job_view *v)
{
        reply_map(reply, 21);
        tell_int(reply, "id", (int64_t)v->id);
        tell_text(reply, "hook", v->hook);
        reply_key(reply, "args");
        reply_payload(reply, v->args);
        tell_text(reply, "queue", v->queue);
        tell_text(reply, "group", v->group);
        tell_text(reply, "status", slice_str(job_status_name(v->status)));
        tell_int(reply, "priority", v->priority);
        tell_int(reply, "attempt", v->attempt);
        tell_int(reply, "attempts", v->attempts_max);
        tell_int(reply, "timeout", v->timeout_ms);
        tell_times(reply, v);
        tell_text(reply, "worker", v->worker);
        tell_int(reply, "fence", (int64_t)v->fence);
        tell_int(reply, "lease_until_ms", v->lease_until_ms);
        tell_text(reply, "progress", v->progress);
        reply_key(reply, "result");
        if (v->status == JOB_COMPLETE && v->result.len)
                reply_payload(reply, v->result);
        else
                reply_null(reply);
        tell_text(reply, "error", v->error);
        reply_key(reply, "options");
        tell_options(reply, v->options);
        reply_end(reply);
}

static void tell_event(struct reply *reply, const struct event *e)
{
        reply_map(reply, 4);
        tell_text(reply, "event", slice_str(event_name(e->type)));
        tell_int(reply, "at_ms", e->wall_ms);
        tell_text(reply, "worker", e->worker);
        tell_text(reply, "message", e->message);
        reply_end(reply);
}

static void tell_events(struct reply *reply, const struct job_view *v)
{
        struct event e = {EVENT_CREATED, v->created_ms, SLICE_NONE, SLICE_NONE};
        struct slice rest = v->events;
        reply_wrap(reply, "events");
        reply_list(reply, 1 + event_count(v->events));
        tell_event(reply, &e);
        while (event_next(&rest, v->created_ms, &e))
                tell_event(reply, &e);
        reply_end(reply);
}

static void tell_one(struct reply *reply, enum find_what what, const struct job_view *v)
{
        if (what == FIND_EVENTS)
                tell_events(reply, v);
        else
                tell_job(reply, v);
}

/* A live job as others see it, with the end of its lease as a wall-clock time. */
static void view_live(const struct core *core, const struct job *job, struct job_view *ret)
{
        job_view(job, ret);
        if (job->state == JOB_LEASED)
                ret->lease_until_ms = core->now.wall_ms +
                                      (job->more->deadline_ns - core->now.steady_ns) / NS_PER_MS;
}

/* ---- pages ---- */

static bool is_wanted(struct slice filter, struct slice value)
{
        return !filter.len || slice_eq(filter, value);
}

static bool is_match(const struct job_filter *f, const struct job_view *v)
{
        if (f->status >= 0 && f->status != (int)v->status)
                return false;
        if (!is_wanted(f->hook, v->hook) || !is_wanted(f->queue, v->queue) ||
            !is_wanted(f->group, v->group))
                return false;
        return !f->match.len || slice_contains(v->hook, f->match) ||
               slice_contains(v->args, f->match) || slice_contains(v->result, f->match) ||
               slice_contains(v->error, f->match);
}

/* False without memory: the page ends before this job. */
static bool copy_row(struct find *f, const struct job_view *v)
{
        struct job_view *row = &f->live[f->n_live];
        struct arena *a = &f->query.arena;
        struct slice *texts[] = {&row->hook,   &row->args,   &row->queue,
                                 &row->group,  &row->worker, &row->progress,
                                 &row->result, &row->error,  &row->options};
        *row = *v;
        row->events = SLICE_NONE;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                if (!texts[i]->len)
                        continue;
                *texts[i] = arena_copy(a, *texts[i]);
                if (!texts[i]->ptr)
                        return false;
                f->copied_bytes += texts[i]->len;
        }
        f->n_live++;
        return true;
}

/* One step of the walk; true when it is done. */
static bool walk_live(struct core *core, struct find *f)
{
        for (int n = 0; n < SCAN_STEP_JOBS; n++) {
                uint64_t id;
                struct job *job = f->at ? idmap_prev(&core->state.jobs, f->at, &id) : NULL;
                if (!job) {
                        f->live_low = 0;
                        return true;
                }
                struct job_view view;
                view_live(core, job, &view);
                bool is_hit = is_match(&f->query.filter, &view);
                if (is_hit && !copy_row(f, &view)) {
                        f->live_low = id + 1;
                        return true;
                }
                f->at = id - 1;
                if (f->n_live == f->query.limit || f->copied_bytes > PAGE_BYTES_MAX) {
                        f->live_low = id;
                        return true;
                }
        }
        return false;
}

/* The archive's rows from *old on: the next that is no double of a live job that was walked, with
 * what is true of it now.  NULL at the end. */
static const struct job_view *next_old(struct find *f, size_t *old, uint64_t walked_id)
{
        struct archive_query *q = &f->query;
        for (; *old < q->n_rows; ++*old) {
                struct job_view *row = &q->rows[*old];
                const struct job *job = state_job(&f->base.core->state, row->id);
                if (row->id == walked_id)
                        continue;
                if (!job)
                        return row;
                view_live(f->base.core, job, row); /* borrowed, and told in this same step */
                if (is_match(&q->filter, row))
                        return row;
        }
        return NULL;
}

/* The next row of both lists, largest id first; a job on both comes once, as it was live. */
static const struct job_view *merge_next(struct find *f, size_t *live, size_t *old)
{
        const struct job_view *a = *live < f->n_live ? &f->live[*live] : NULL;
        const struct job_view *b = next_old(f, old, a ? a->id : 0);
        if (a && (!b || a->id > b->id)) {
                ++*live;
                return a;
        }
        *old += b != NULL;
        return b;
}

/* Below this id one of the two sides has not looked. */
static uint64_t page_low(const struct find *f)
{
        const struct archive_query *q = &f->query;
        uint64_t low = 0;
        if (q->is_cut)
                low = q->last_id;
        else if (q->n_rows && q->n_rows == q->limit)
                low = q->rows[q->n_rows - 1].id;
        return low > f->live_low ? low : f->live_low;
}

/* The rows of the page, and the cursor behind it (0: nothing is left). */
static size_t merge_page(struct find *f, const struct job_view **ret, uint64_t *ret_cursor)
{
        uint64_t low = page_low(f);
        size_t n = 0, live = 0, old = 0;
        const struct job_view *row;
        while ((row = merge_next(f, &live, &old)) && row->id >= low && n < f->query.limit)
                ret[n++] = row;
        bool is_full = row && n == f->query.limit; /* and there is another */
        *ret_cursor = is_full ? ret[n - 1]->id : low;
        return n;
}

static void tell_page(struct find *f, struct reply *reply)
{
        const struct job_view **rows =
                arena_array(&f->query.arena, f->query.limit, sizeof(struct job_view *));
        if (!rows) {
                struct problem problem;
                (void)problem_set(&problem, ERR_NOMEM, "no memory for this page");
                reply_error(reply, &problem);
                return;
        }
        uint64_t cursor;
        size_t n = merge_page(f, rows, &cursor);
        char text[24] = "";
        if (cursor > 1)
                (void)say_i64(text, (int64_t)cursor);
        reply_map(reply, 2);
        reply_key(reply, "jobs");
        reply_list(reply, n);
        for (size_t i = 0; i < n; i++)
                tell_job(reply, rows[i]);
        reply_end(reply);
        reply_key(reply, "cursor");
        reply_str(reply, text);
        reply_end(reply);
}

/* ---- the archive's answer ---- */

static void find_free(struct find *f)
{
        arena_release(&f->query.arena);
        free(f);
}

static void tell_found(struct find *f, struct reply *reply)
{
        struct problem problem;
        struct job_view view;
        const struct job *job = f->query.id ? state_job(&f->base.core->state, f->query.id) : NULL;
        if (job) { /* taken back meanwhile */
                view_live(f->base.core, job, &view);
                tell_one(reply, f->what, &view);
        } else if (f->query.err != OK) {
                (void)problem_set(&problem, f->query.err, "history could not be read");
                reply_error(reply, &problem);
        } else if (f->what == FIND_PAGE) {
                tell_page(f, reply);
        } else if (f->query.n_rows) {
                tell_one(reply, f->what, &f->query.rows[0]);
        } else {
                (void)problem_set(&problem, ERR_NOTFOUND,
                                  "job %llu has ended and history does not hold it",
                                  (unsigned long long)f->query.id);
                reply_error(reply, &problem);
        }
}

static void find_done(struct archive_query *q)
{
        struct find *f = q->ctx;
        struct session *session = f->base.session;
        if (session) {
                wait_end(f->base.core, &f->base);
                tell_found(f, session->ops->reply_begin(session));
                session->ops->reply_end(session);
        }
        find_free(f);
}

static void ask_archive(struct core *core, struct find *f)
{
        struct archive *archive = core->options.archive;
        f->query.done = find_done;
        f->query.ctx = f;
        if (archive)
                archive->ops->query(archive, &f->query);
        else
                find_done(&f->query);
}

static void find_cancel(struct core *core, struct session_wait *w)
{
        struct find *f = CONTAINER_OF(w, struct find, base);
        wait_end(core, w);
        if (list_is_linked(&f->link)) {
                list_remove(&f->link);
                find_free(f);
        } /* else the archive has it, and find_done() frees it */
}

static const struct wait_ops find_wait_ops = {.cancel = find_cancel};

void find_step_all(struct core *core)
{
        LIST_FOREACH(&core->scans, it)
        {
                struct find *f = CONTAINER_OF(it, struct find, link);
                if (!walk_live(core, f))
                        continue;
                list_remove(&f->link);
                ask_archive(core, f);
        }
}

/* ---- commands ---- */

static struct find *find_new(struct core *core, struct session *session, enum find_what what)
{
        struct find *f = xcalloc(1, sizeof(*f));
        f->what = what;
        arena_init(&f->query.arena, 64 * MIB);
        wait_begin(core, &f->base, &find_wait_ops, session);
        return f;
}

static int find_one(struct core *core, struct session *session, uint64_t id, enum find_what what,
                    struct reply *reply, struct problem *problem)
{
        const struct job *job = state_job(&core->state, id);
        if (job) {
                struct job_view view;
                view_live(core, job, &view);
                tell_one(reply, what, &view);
                return OK;
        }
        if (id >= core->state.next_id || !core->options.archive)
                return problem_set(problem, ERR_NOTFOUND, "there is no job %llu",
                                   (unsigned long long)id);
        struct find *f = find_new(core, session, what);
        f->query.id = id;
        ask_archive(core, f);
        return CORE_LATER;
}

EXEC(exec_job)
{
        return find_one(core, session, (uint64_t)cmd->arg[P_ID].num, FIND_JOB, reply, problem);
}

EXEC(exec_events)
{
        return find_one(core, session, (uint64_t)cmd->arg[P_ID].num, FIND_EVENTS, reply, problem);
}

static int take_filter(struct find *f, const struct command *cmd)
{
        const struct {
                int param;
                struct slice *to;
        } texts[] = {
                {P_JOBS_HOOK, &f->query.filter.hook},
                {P_JOBS_QUEUE, &f->query.filter.queue},
                {P_JOBS_GROUP, &f->query.filter.group},
                {P_JOBS_MATCH, &f->query.filter.match},
        };
        f->query.filter.status =
                cmd->arg[P_JOBS_STATUS].is_set ? (int)cmd->arg[P_JOBS_STATUS].num : -1;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                struct slice text = cmd->arg[texts[i].param].text;
                if (!text.len)
                        continue;
                *texts[i].to = arena_copy(&f->query.arena, text);
                if (!texts[i].to->ptr)
                        return ERR_NOMEM;
        }
        f->live = arena_array(&f->query.arena, f->query.limit, sizeof(*f->live));
        return f->live ? OK : ERR_NOMEM;
}

EXEC(exec_jobs)
{
        (void)reply; /* the answer always comes through the session */
        const struct arg *limit = &cmd->arg[P_JOBS_LIMIT], *cursor = &cmd->arg[P_JOBS_CURSOR];
        uint64_t before = core->state.next_id;
        if (cursor->text.len && !slice_to_u64(cursor->text, &before))
                return problem_set(problem, ERR_BADARG, "cursor must be one that JOBS gave");
        if (before > core->state.next_id)
                before = core->state.next_id;
        struct find *f = find_new(core, session, FIND_PAGE);
        f->query.limit = limit->is_set ? (size_t)limit->num : LIST_LIMIT_DEFAULT;
        f->query.before_id = before;
        f->at = before ? before - 1 : 0;
        if (take_filter(f, cmd) != OK) {
                wait_end(core, &f->base);
                find_free(f);
                return problem_set(problem, ERR_NOMEM, "no memory for this listing");
        }
        /* Without an archive the answer would come before this returns: leave it to the turn. */
        if (core->options.archive && walk_live(core, f))
                ask_archive(core, f);
        else
                list_push_back(&core->scans, &f->link);
        return CORE_LATER;
}
