/* Finding jobs: one by id, a page of them, or the story of one.  Live and archived jobs are one
 * list, newest (largest id) first, or oldest first.
 *
 * A page is made in two steps.  First the live jobs beyond the cursor are walked, a bounded time a
 * turn (find_walk.h), and matching ones are copied; then the archive is asked for the same range.
 * In this order a job that moves from live to archive in between is seen twice at worst, never
 * missed; the merge drops the double.  Either side may stop early (a budget): then the page ends
 * where the shorter side ended, and the cursor says so.
 *
 * A job that was taken back from history (retry.c) has a row there that is true no longer.  So a
 * row of a job that is live when the page is put together stands for the live job: it is shown as
 * it is now, if it still is what was asked for. */
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/say.h"
#include "jobs/find_walk.h"
#include "jobs/tell_options.h"

#define LIST_LIMIT_DEFAULT 50
/* What a page may hold, so that telling it does not hold the loop: some 2 ms of encoding.  The
 * archive counts 1 KiB for each row beside its texts. */
#define PAGE_LIVE_BYTES (256 * KIB)
#define PAGE_OLD_BYTES  (1280 * KIB)
/* The whole answer is to come within both together; the archive gets what the live jobs left of the
 * first, and at least the second. */
#define PAGE_MS      130
#define PAGE_OLD_MIN 40

enum find_what { FIND_JOB, FIND_EVENTS, FIND_PAGE };

struct find {
        struct session_wait base;
        struct scan scan; /* while the live jobs are walked */
        enum find_what what;
        struct archive_query query; /* its arena holds the filter's texts and the live rows */
        struct job_view *live;      /* matching live jobs, in the order of the page */
        size_t n_live;
        struct live_walk walk;
        uint64_t live_end; /* where the walk stopped early; 0: it saw all */
        size_t copied_bytes;
        int64_t began_ns; /* by the watch */
};

/* ---- telling ---- */

static void tell_job(struct reply *reply, const struct job_view *v)
{
        struct options_room room;
        const struct options_reply options =
                options_of(v->options, (uint64_t)v->deferring_ms, &room);
        const struct job_reply told = {
                .id = (int64_t)v->id,
                .hook = v->hook,
                .args = v->args,
                .queue = v->queue,
                .group = v->group,
                .status = job_status_name(v->status),
                .priority = v->priority,
                .attempt = v->attempt,
                .attempts = v->attempts_max,
                .timeout = v->timeout_ms,
                .created_ms = v->created_ms,
                .due_ms = v->due_ms,
                .started_ms = v->started_ms,
                .finished_ms = v->finished_ms,
                .worker = v->worker,
                .fence = (int64_t)v->fence,
                .lease_until_ms = v->lease_until_ms,
                .progress = v->progress,
                .result = v->status == JOB_COMPLETE ? v->result : SLICE_NONE,
                .error = v->error,
                .options = &options,
        };
        reply_job(reply, &told);
        options_room_release(&room);
}

static void tell_event(struct reply *reply, const struct event *e)
{
        const struct event_reply told = {
                .event = event_name(e->type),
                .at_ms = e->wall_ms,
                .worker = e->worker,
                .message = e->message,
        };
        reply_event(reply, &told);
}

static void tell_events(struct reply *reply, const struct reply_items *items)
{
        const struct job_view *v = items->of;
        struct event e = {EVENT_CREATED, v->created_ms, SLICE_NONE, SLICE_NONE};
        struct slice rest = v->events;
        tell_event(reply, &e);
        while (event_next(&rest, v->created_ms, &e))
                tell_event(reply, &e);
}

static void tell_one(struct reply *reply, enum find_what what, const struct job_view *v)
{
        const struct events_reply events = {{1 + event_count(v->events), tell_events, NULL, v}};
        if (what == FIND_EVENTS)
                reply_events(reply, &events);
        else
                tell_job(reply, v);
}

/* A live job as others see it, with the end of its lease as a wall-clock time. */
static void view_live(const struct core *core, const struct job *job, struct job_view *ret)
{
        job_view(job, ret);
        if (job->extra)
                ret->deferring_ms =
                        job_deferred_ms(job, core->now.steady_ns) - job->extra->options.deferred_ms;
        if (job->state == JOB_LEASED)
                ret->lease_until_ms = core->now.wall_ms +
                                      (job->more->deadline_ns - core->now.steady_ns) / NS_PER_MS;
}

/* ---- pages ---- */

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

/* A live job that matches; false when the page has enough of them. */
static bool take_live(void *ctx, struct job *job)
{
        struct find *f = ctx;
        struct job_view view;
        view_live(f->base.core, job, &view);
        bool is_copied = copy_row(f, &view);
        if (is_copied && f->n_live < f->query.limit && f->copied_bytes <= PAGE_LIVE_BYTES)
                return true;
        f->live_end = is_copied ? view.id : f->query.is_oldest ? view.id - 1 : view.id + 1;
        return false;
}

static int64_t elapsed_ms(const struct core *core, const struct find *f)
{
        int64_t (*watch)(void) = core->options.watch_ns;
        return watch ? (watch() - f->began_ns) / NS_PER_MS : 0;
}

/* One step of the walk; true when it is done, or takes too long: then the page ends here. */
static bool walk_live(struct core *core, struct find *f)
{
        if (live_walk_step(core, &f->walk, &f->query.filter, take_live, f))
                return true;
        if (elapsed_ms(core, f) < PAGE_MS)
                return false;
        f->live_end = f->query.is_oldest ? f->walk.at - 1 : f->walk.at + 1;
        return true;
}

/* Does a come before b in this listing? */
static bool is_before(const struct find *f, uint64_t a, uint64_t b)
{
        return f->query.is_oldest ? a < b : a > b;
}

/* The archive's rows from *old on: the next that is no double of a live job that was walked, with
 * what is true of it now.  NULL at the end. */
static const struct job_view *next_old(struct find *f, struct live_filter *filter, size_t *old,
                                       uint64_t walked_id)
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
                if (!filter->is_none && live_filter_has(filter, job))
                        return row;
        }
        return NULL;
}

/* The next row of both lists; a job on both comes once, as it was live. */
static const struct job_view *merge_next(struct find *f, struct live_filter *filter, size_t *live,
                                         size_t *old)
{
        const struct job_view *a = *live < f->n_live ? &f->live[*live] : NULL;
        const struct job_view *b = next_old(f, filter, old, a ? a->id : 0);
        if (a && (!b || is_before(f, a->id, b->id))) {
                ++*live;
                return a;
        }
        *old += b != NULL;
        return b;
}

/* Beyond this id one of the two sides has not looked; 0: both have seen all. */
static uint64_t page_end(const struct find *f)
{
        const struct archive_query *q = &f->query;
        uint64_t live = f->live_end, old = 0;
        if (q->is_cut)
                old = q->last_id;
        else if (q->n_rows && q->n_rows == q->limit)
                old = q->rows[q->n_rows - 1].id;
        if (!live || !old)
                return live ? live : old;
        return is_before(f, live, old) ? live : old;
}

/* The rows of the page, and the cursor behind it (0: nothing is left). */
static size_t merge_page(struct find *f, const struct job_view **ret, uint64_t *ret_cursor)
{
        struct live_filter filter;
        uint64_t end = page_end(f);
        size_t n = 0, live = 0, old = 0;
        const struct job_view *row;
        live_filter_begin(&filter, f->base.core, &f->query.filter);
        while ((row = merge_next(f, &filter, &live, &old)) && n < f->query.limit) {
                if (end && is_before(f, end, row->id))
                        break;
                ret[n++] = row;
        }
        bool is_full = row && n == f->query.limit; /* and there is another */
        *ret_cursor = is_full ? ret[n - 1]->id : end;
        return n;
}

static void tell_rows(struct reply *reply, const struct reply_items *items)
{
        const struct job_view *const *rows = items->of;
        for (size_t i = 0; i < items->n; i++)
                tell_job(reply, rows[i]);
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
        if (cursor > 1 || (cursor && f->query.is_oldest))
                (void)say_i64(text, (int64_t)cursor);
        const struct jobs_reply told = {
                .jobs = {n, tell_rows, f->base.core, rows},
                .cursor = text,
        };
        reply_jobs(reply, &told);
}

/* ---- the archive's answer ---- */

static void find_free(struct find *f)
{
        filter_return_registry(&f->query.filter);
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
        } else if (f->query.n_rows && f->query.rows[0].is_damaged) {
                (void)problem_set(&problem, ERR_CORRUPT,
                                  "job %llu is damaged in history: its checksum is wrong; 'weir "
                                  "history verify' lists what is damaged",
                                  (unsigned long long)f->query.id);
                reply_error(reply, &problem);
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
        struct archive_query *q = &f->query;
        q->done = find_done;
        q->ctx = f;
        if (!archive) {
                find_done(q);
                return;
        }
        if (f->what == FIND_PAGE) {
                int64_t left = PAGE_MS - elapsed_ms(core, f);
                q->ms_max = left > PAGE_OLD_MIN ? left : PAGE_OLD_MIN;
        }
        if (f->live_end && q->is_oldest) /* the page does not reach further */
                q->before_id = f->live_end + 1;
        else if (f->live_end)
                q->after_id = f->live_end - 1;
        filter_lend_registry(core, &q->filter);
        archive->ops->query(archive, q);
}

static void find_cancel(struct core *core, struct session_wait *w)
{
        struct find *f = CONTAINER_OF(w, struct find, base);
        wait_end(core, w);
        if (list_is_linked(&f->scan.link)) {
                scan_end(&f->scan);
                find_free(f);
        } /* else the archive has it, and find_done() frees it */
}

static const struct wait_ops find_wait_ops = {.cancel = find_cancel};

static void find_step(struct core *core, struct scan *scan)
{
        struct find *f = CONTAINER_OF(scan, struct find, scan);
        if (!walk_live(core, f))
                return;
        scan_end(scan);
        ask_archive(core, f);
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

int exec_job(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem)
{
        return find_one(core, session, (uint64_t)cmd->arg[P_JOB_ID].num, FIND_JOB, reply, problem);
}

int exec_events(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        return find_one(core, session, (uint64_t)cmd->arg[P_EVENTS_ID].num, FIND_EVENTS, reply,
                        problem);
}

static int page_begin(struct core *core, struct find *f, const struct command *cmd,
                      struct problem *problem)
{
        const struct arg *limit = &cmd->arg[P_JOBS_LIMIT], *cursor = &cmd->arg[P_JOBS_CURSOR];
        struct archive_query *q = &f->query;
        uint64_t at = 0;
        if (cursor->text.len && !slice_to_u64(cursor->text, &at))
                return problem_set(problem, ERR_BADARG, "cursor must be one that JOBS gave");
        q->limit = limit->is_set ? (size_t)limit->num : LIST_LIMIT_DEFAULT;
        q->bytes_max = PAGE_OLD_BYTES;
        q->is_oldest = cmd->arg[P_JOBS_ORDER].num != 0;
        q->before_id = core->state.next_id;
        if (q->is_oldest)
                q->after_id = at;
        else if (at && at < q->before_id)
                q->before_id = at;
        f->walk = q->is_oldest ? live_walk_up(at) : live_walk_down(q->before_id);
        f->live = arena_array(&q->arena, q->limit, sizeof(*f->live));
        if (!f->live || !filter_take(&q->filter, cmd, &q->arena))
                return problem_set(problem, ERR_NOMEM, "no memory for this listing");
        f->began_ns = core->options.watch_ns ? core->options.watch_ns() : 0;
        return OK;
}

int exec_jobs(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem)
{
        (void)reply; /* the answer always comes through the session */
        struct find *f = find_new(core, session, FIND_PAGE);
        int r = page_begin(core, f, cmd, problem);
        if (r != OK) {
                wait_end(core, &f->base);
                find_free(f);
                return r;
        }
        /* Without an archive the answer would come before this returns: leave it to the turn. */
        if (core->options.archive && scan_spend(core, 0) && walk_live(core, f))
                ask_archive(core, f);
        else
                scan_begin(core, &f->scan, find_step);
        return CORE_LATER;
}

/* ---- counts ---- */

static void count_queue(struct job_counts_reply *c, const struct queue *q)
{
        c->ready += (int64_t)q->n_ready;
        c->scheduled += (int64_t)q->n_scheduled;
        c->waiting += (int64_t)q->n_waiting;
        c->running += (int64_t)q->n_running;
        c->complete += (int64_t)q->completed;
        c->failed += (int64_t)q->failed;
        c->canceled += (int64_t)q->canceled;
        c->parked += (int64_t)q->n_parked;
        c->returning += (int64_t)q->n_returning;
}

int exec_jobcounts(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        const struct hash *queues = &core->state.queues;
        struct slice name = cmd->arg[P_JOBCOUNTS_QUEUE].text;
        struct job_counts_reply told = {0};
        if (name.len) {
                const struct queue *q = state_queue_find(&core->state, name);
                if (!q)
                        return problem_set(problem, ERR_NOTFOUND, "there is no queue '%.*s'",
                                           (int)name.len, name.ptr);
                count_queue(&told, q);
        }
        for (struct hash_node *n = NULL; !name.len && (n = hash_next(queues, n));)
                count_queue(&told, CONTAINER_OF(n, const struct queue, node));
        told.pending = told.ready + told.scheduled + told.waiting;
        reply_job_counts(reply, &told);
        return OK;
}
