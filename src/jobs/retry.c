/* Running a job again: from history back to its queue.
 *
 * A job that has ended belongs to history, so RETRY asks the archive for it and makes it live again
 * with one effect, JOB_BACK, which holds all of the job: same id, no attempt used, run + 1.  The
 * row stays in history, unseen while the job is live (find.c), and is replaced when the job ends
 * again, because its run is larger.  So there is no moment at which a crash could lose the job or
 * make it two: before JOB_BACK is durable it is history, after that it is live.
 *
 * A job that has ended but is still live is in one of three places:
 *
 *      in its grace time          nobody else holds it: it is let go and taken back in one batch,
 *                                 and a late completion is refused from then on
 *      on the way to the archive  the archive reads its memory: RETRY waits until it has it
 *      with the archive           the same
 *
 * What was read from the archive must still be true when it is used: meanwhile the job could have
 * been taken back, run and archived again, and a second JOB_BACK made of the old row would have the
 * run of the new one.  Only a query of this file leads to JOB_BACK, so it is enough to have one of
 * them under way at a time; the others wait in line, which costs each some 50 us.
 *
 * Bulk commands that delete rows stand in the same line: what a query here has found is still there
 * when it is used.
 *
 * RETRYMANY takes one page of history at a time.  Before its first page it waits for what has ended
 * and is not archived yet, by counting: the archive reports jobs in the order they came.  Jobs in
 * their grace time are left alone, their workers may still complete them.  Ids that were named are
 * one answer, in as many pages as their rows need. */
#include "jobs/retry.h"

#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/say.h"
#include "jobs/bulk.h"
#include "jobs/dependents.h"
#include "jobs/find_filter.h"
#include "jobs/keeping.h"
#include "jobs/queues.h"
#include "state/hold.h"

#define RETRY_LIMIT_DEFAULT 100
#define RECORD_BYTES        256   /* about what JOB_BACK takes beside the texts */
#define WAIT_MS             10000 /* for history to store a job that has just ended */

struct page {
        uint64_t retried, skipped;
        uint64_t cursor; /* ids below it are left; 0: none */
};

struct retry {
        struct session_wait base;
        struct asker asker; /* on core->retry_waits until history has it, then in line */
        bool is_many;       /* query.id is 0 */
        bool is_forced;     /* a complete one too */
        uint64_t n_before;  /* many: jobs the archive is to report before it is asked */
        struct page page;   /* many: what was done so far */
        struct arena texts; /* many: of the filter, and the ids */
        struct archive_query query;
};

/* ---- one job ---- */

static void tell_pending(struct reply *reply)
{
        reply_status(reply, &(struct status_reply){job_status_name(JOB_PENDING)});
}

static bool is_name(struct slice s)
{
        return s.len > 0 && s.len <= LIMIT_NAME_BYTES;
}

/* The history file can be opened by others: nothing of it goes into the log unchecked. */
static bool is_sound(const struct job_view *v)
{
        return v->id > 0 && is_name(v->hook) && is_name(v->queue) &&
               v->group.len <= LIMIT_NAME_BYTES && v->worker.len <= LIMIT_NAME_BYTES &&
               v->args.len <= LIMIT_PAYLOAD_BYTES && v->error.len <= LIMIT_ERROR_BYTES &&
               v->attempts_max > 0 && v->attempts_max <= LIMIT_ATTEMPTS && v->created_ms >= 0 &&
               v->started_ms >= 0;
}

/* Events as a live job carries them; none rather than such that are not. */
static struct slice sound_events(const struct job_view *v, size_t *ret_n)
{
        struct slice rest = v->events;
        struct event e;
        size_t n = 0;
        while (event_next(&rest, v->created_ms, &e)) {
                uint64_t dropped;
                if (e.type == EVENT_DROPPED && (n > 0 || !slice_to_u64(e.message, &dropped)))
                        break;
                n++;
        }
        bool is_sane = rest.len == 0 && n <= JOB_EVENTS_KEPT;
        *ret_n = is_sane ? n : 0;
        return is_sane ? v->events : SLICE_NONE;
}

/* What holds for the new run: it waits for nobody, has no end, and counts one up. */
static int next_options(const struct job_view *v, struct job_options *o, struct buf *packed,
                        struct problem *problem)
{
        if (v->is_damaged || !is_sound(v) || !options_unpack(v->options, o))
                return problem_set(problem, ERR_CORRUPT,
                                   "job %llu is damaged in history and cannot run again; 'weir "
                                   "history verify' lists what is damaged",
                                   (unsigned long long)v->id);
        o->after = SLICE_NONE;
        o->when = o->otherwise = 0;
        o->expires_ms = 0;
        o->parked = o->parked_ns = o->parked_ms = o->parked_how = o->parked_due = 0;
        o->run++;
        options_pack(o, packed);
        return packed->failed ? problem_set(problem, ERR_NOMEM, "no memory for job %llu",
                                            (unsigned long long)v->id)
                              : OK;
}

/* Another job that has this key, live or for a while after its end; 0: none. */
static uint64_t other_holder(const struct state *s, struct slice key, uint64_t id)
{
        const struct job *job = state_unique_holder(s, key);
        const struct thing *t = thing_find(s, THING_HOLD, key);
        if (job)
                return job_id(job);
        uint64_t holder = t ? CONTAINER_OF(t, const struct hold, thing)->job_id : 0;
        return holder != id ? holder : 0;
}

static int check_place(struct core *core, const struct job_view *v, const struct job_options *o,
                       struct problem *problem)
{
        struct state *s = &core->state;
        uint64_t holder = o->unique.len ? other_holder(s, o->unique, v->id) : 0;
        if (holder)
                return problem_set(problem, ERR_STATE,
                                   "job %llu cannot come back: job %llu has its unique key",
                                   (unsigned long long)v->id, (unsigned long long)holder);
        if (dependents_are_left(core, v->id))
                return problem_set(problem, ERR_UNAVAIL,
                                   "jobs that come after job %llu are still being told of its end: "
                                   "try again in a moment",
                                   (unsigned long long)v->id);
        int r = queue_admit(core, v->queue, problem);
        if (r != OK)
                return r;
        size_t bytes = RECORD_BYTES + v->args.len + v->error.len + v->events.len + v->options.len;
        r = core_admit(core, bytes, 1, problem);
        return r == OK ? keeping_admit(core, v->queue, bytes, 1, problem) : r;
}

/* All of the job, as it is when its new run begins.  Borrows from v and the options. */
static struct effect make_back(struct core *core, const struct job_view *v, struct slice options)
{
        size_t n_events;
        struct slice events = sound_events(v, &n_events);
        struct effect e = {
                .type = EFFECT_JOB_BACK,
                .id = v->id,
                .due_ms = core->now.wall_ms,
                .priority = v->priority,
                .attempts = v->attempts_max,
                .timeout_ms = v->timeout_ms,
                .queue = v->queue,
                .queue_id = state_queue_get(&core->state, v->queue)->id,
                .hook = v->hook,
                .group = v->group,
                .args = v->args,
                .options = options,
                .view = *v,
                .state = JOB_READY,
                .has_more = true,
                .events_kept = (uint16_t)n_events,
        };
        e.view.status = JOB_PENDING;
        e.view.due_ms = e.due_ms;
        e.view.attempt = 0;
        e.view.finished_ms = 0;
        e.view.lease_until_ms = 0;
        e.view.progress = e.view.result = SLICE_NONE;
        e.view.events = events;
        e.view.options = options;
        return e;
}

/* A job of history is live again; nothing has changed on an error. */
static int take_back(struct core *core, const struct job_view *v, struct problem *problem)
{
        struct job_options options = {0};
        struct buf packed CLEANUP(buf_release) = {0};
        int r = next_options(v, &options, &packed, problem);
        if (r == OK)
                r = check_place(core, v, &options, problem);
        if (r != OK)
                return r;
        struct effect e = make_back(core, v, buf_slice(&packed));
        return core_try_emit(core, &e, problem);
}

static bool copy_texts(struct arena *a, struct job_view *v)
{
        struct slice *texts[] = {&v->hook,   &v->args,  &v->queue,  &v->group,
                                 &v->worker, &v->error, &v->events, &v->options};
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                if (!texts[i]->len)
                        continue;
                *texts[i] = arena_copy(a, *texts[i]);
                if (!texts[i]->ptr)
                        return false;
        }
        return true;
}

/* It ended for good, but its worker could still complete it: let go and taken back in one batch.
 * After the first effect there is no way back, so everything is checked before. */
static int take_from_grace(struct core *core, struct job *job, struct problem *problem)
{
        struct job_view v;
        struct job_options options = {0};
        struct arena arena CLEANUP(arena_release) = {0};
        struct buf packed CLEANUP(buf_release) = {0};
        arena_init(&arena, 16 * MIB);
        job_view(job, &v);
        if (core_is_congested(core))
                return problem_set(problem, ERR_UNAVAIL, "the log is behind; try again");
        if (!copy_texts(&arena, &v))
                return problem_set(problem, ERR_NOMEM, "no memory for job %llu",
                                   (unsigned long long)job_id(job));
        int r = next_options(&v, &options, &packed, problem);
        if (r == OK)
                r = check_place(core, &v, &options, problem);
        if (r != OK)
                return r;
        struct effect gone = {.type = EFFECT_ARCHIVED, .ids = &v.id, .n_ids = 1};
        struct effect back = make_back(core, &v, buf_slice(&packed));
        core_emit(core, &gone);
        core_emit(core, &back);
        return OK;
}

/* ---- a live job ---- */

int job_be_due(struct core *core, const struct job *job, struct slice why, struct problem *problem)
{
        struct effect e = {.type = EFFECT_JOB_DUE, .id = job_id(job), .text = why};
        int r = core_admit(core, RECORD_BYTES, 0, problem);
        if (r == OK)
                core_emit(core, &e);
        return r;
}

static int refuse_held(const struct job *job, struct problem *problem)
{
        const struct job_extra *x = job->extra;
        unsigned long long id = job_id(job), first = x->after[0].id;
        if (x->n_after > 1)
                return problem_set(problem, ERR_STATE,
                                   "job %llu comes after job %llu and %zu more that have not ended",
                                   id, first, x->n_after - 1);
        return problem_set(problem, ERR_STATE, "job %llu comes after job %llu, which has not ended",
                           id, first);
}

/* A job that has not ended does not wait for its time any longer. */
static int hurry(struct core *core, const struct job *job, struct slice why,
                 struct problem *problem)
{
        switch ((enum job_state)job->state) {
        case JOB_SCHEDULED:
                return job_be_due(core, job, why, problem);
        case JOB_READY:
        case JOB_WAITING:
                return OK; /* it is due already */
        case JOB_HELD:
                return refuse_held(job, problem);
        case JOB_LEASED:
        case JOB_FINISHED:
                break;
        }
        return problem_set(problem, ERR_STATE, "job %llu is %s", (unsigned long long)job_id(job),
                           job_status_name(job_status(job)));
}

static int check_outcome(uint64_t id, enum job_status status, bool is_forced,
                         struct problem *problem)
{
        if (status == JOB_FAILED || status == JOB_CANCELED || is_forced)
                return OK;
        return problem_set(problem, ERR_STATE,
                           "job %llu is complete: it runs again only with force",
                           (unsigned long long)id);
}

/* History cannot be written: nobody waits for it to store a job. */
static int refuse_stuck(struct core *core, struct slice queue, struct problem *problem)
{
        int r = core_admit(core, RECORD_BYTES, 1, problem);
        if (r == OK)
                r = keeping_admit(core, queue, RECORD_BYTES, 1, problem);
        if (r != OK)
                return r;
        return problem_set(problem, ERR_UNAVAIL,
                           "history cannot be written at the moment: its log lines say why");
}

/* CORE_LATER: history must have it first. */
static int retry_live(struct core *core, struct job *job, bool is_forced, struct problem *problem)
{
        if (job->state != JOB_FINISHED)
                return hurry(core, job, SLICE_LIT("retry now"), problem);
        int r = check_outcome(job_id(job), job_status(job), is_forced, problem);
        if (r != OK)
                return r;
        if (job->more->is_lease_open)
                return take_from_grace(core, job, problem);
        if (keeping_is_stuck(core))
                return refuse_stuck(core, name_slice(job->queue->name), problem);
        return CORE_LATER;
}

/* ---- asking history ---- */

static void retry_free(struct retry *r)
{
        filter_return_registry(&r->query.filter);
        arena_release(&r->query.arena);
        arena_release(&r->texts);
        free(r);
}

static void answer_error(struct retry *r, const struct problem *problem)
{
        struct session *session = r->base.session;
        wait_end(r->base.core, &r->base);
        session->is_partial = r->is_many && r->page.retried;
        reply_error(session->ops->reply_begin(session), problem);
        session->ops->reply_end(session);
}

static void retry_done(struct archive_query *q);

void asker_queue(struct core *core, struct asker *a)
{
        a->is_asked = false;
        list_push_back(&core->retry_asks, &a->link);
}

void asker_leave(struct asker *a)
{
        if (list_is_linked(&a->link))
                list_remove(&a->link);
}

void ask_next(struct core *core)
{
        struct list *first;
        while ((first = list_peek_front(&core->retry_asks))) {
                struct asker *a = CONTAINER_OF(first, struct asker, link);
                if (a->is_asked)
                        return;
                if (!core->is_stopping) {
                        a->is_asked = true;
                        a->ask(core, a);
                        return;
                }
                list_remove(&a->link);
                a->refuse(core, a);
        }
}

void asker_begin(struct core *core, struct asker *a)
{
        asker_queue(core, a);
        ask_next(core);
}

static struct retry *retry_of(struct asker *a)
{
        return CONTAINER_OF(a, struct retry, asker);
}

static void retry_ask(struct core *core, struct asker *a)
{
        struct retry *r = retry_of(a);
        r->query.n_rows = 0;
        r->query.done = retry_done;
        r->query.ctx = r;
        filter_lend_registry(core, &r->query.filter);
        core->options.archive->ops->query(core->options.archive, &r->query);
}

static void retry_refuse(struct core *core, struct asker *a)
{
        struct retry *r = retry_of(a);
        struct problem problem;
        (void)core;
        (void)problem_set(&problem, ERR_STOPPING, "weir is stopping");
        answer_error(r, &problem);
        retry_free(r);
}

static void wait_for_history(struct core *core, struct retry *r)
{
        r->asker.is_asked = false;
        list_push_back(&core->retry_waits, &r->asker.link);
        wait_until(core, &r->base, core->now.steady_ns + WAIT_MS * NS_PER_MS);
}

static bool is_waited_for(const struct core *core, const struct retry *r)
{
        if (r->is_many)
                return r->n_before > 0;
        const struct job *job = state_job(&core->state, r->query.id);
        return job && job->state == JOB_FINISHED;
}

static void retry_stored(struct core *core, size_t n)
{
        LIST_FOREACH(&core->retry_waits, it)
        {
                struct retry *r = CONTAINER_OF(it, struct retry, asker.link);
                r->n_before -= n < r->n_before ? n : r->n_before;
                if (is_waited_for(core, r))
                        continue;
                asker_leave(&r->asker);
                heap_remove(&core->waits, &r->base.timer);
                asker_queue(core, &r->asker);
        }
        ask_next(core);
}

static void retry_time_over(struct core *core, struct session_wait *w)
{
        struct retry *r = CONTAINER_OF(w, struct retry, base);
        struct problem problem;
        if (core->is_stopping)
                (void)problem_set(&problem, ERR_STOPPING, "weir is stopping");
        else
                (void)problem_set(&problem, ERR_UNAVAIL,
                                  "history has not stored the job yet; try again");
        asker_leave(&r->asker);
        answer_error(r, &problem);
        retry_free(r);
}

static void retry_cancel(struct core *core, struct session_wait *w)
{
        struct retry *r = CONTAINER_OF(w, struct retry, base);
        wait_end(core, w);
        if (r->asker.is_asked)
                return; /* the archive has it, and retry_done() frees it */
        asker_leave(&r->asker);
        retry_free(r);
}

static const struct wait_ops retry_wait_ops = {retry_time_over, retry_cancel};

static struct retry *retry_new(struct core *core, struct session *session)
{
        struct retry *r = xcalloc(1, sizeof(*r));
        arena_init(&r->query.arena, 64 * MIB);
        arena_init(&r->texts, MIB);
        r->asker.ask = retry_ask;
        r->asker.refuse = retry_refuse;
        wait_begin(core, &r->base, &retry_wait_ops, session);
        return r;
}

static void retry_init(struct core *core)
{
        list_init(&core->retry_asks);
        list_init(&core->retry_waits);
}

/* What an archive that is gone did not give back. */
static void retry_release(struct core *core)
{
        ASSERT(list_is_empty(&core->retry_waits));
        LIST_FOREACH(&core->retry_asks, it)
        {
                struct asker *a = CONTAINER_OF(it, struct asker, link);
                list_remove(it);
                if (a->ask == retry_ask) /* bulk_release() has the others */
                        retry_free(retry_of(a));
        }
}

/* ---- history's answer ---- */

static int finish_one(struct core *core, const struct retry *r, struct problem *problem)
{
        const struct archive_query *q = &r->query;
        struct job *job = state_job(&core->state, q->id);
        if (job) /* another was quicker */
                return retry_live(core, job, r->is_forced, problem);
        if (q->n_rows == 0)
                return problem_set(problem, ERR_NOTFOUND,
                                   "job %llu has ended and history does not hold it",
                                   (unsigned long long)q->id);
        const struct job_view *v = &q->rows[0];
        int err = v->is_damaged ? OK : check_outcome(q->id, v->status, r->is_forced, problem);
        return err == OK ? take_back(core, v, problem) : err;
}

/* Does it concern this job only, so that the next may fare better? */
static bool is_own_trouble(int err)
{
        return err == ERR_STATE || err == ERR_CORRUPT || err == ERR_LIMIT;
}

/* An error only when nothing was done. */
static int finish_page(struct core *core, struct retry *r, struct problem *problem)
{
        const struct archive_query *q = &r->query;
        struct page *page = &r->page;
        for (size_t i = 0; i < q->n_rows; i++) {
                const struct job_view *v = &q->rows[i];
                if (state_job(&core->state, v->id))
                        continue;
                int err = check_outcome(v->id, v->status, false, problem); /* of ids given */
                if (err == OK)
                        err = take_back(core, v, problem);
                if (err != OK && !is_own_trouble(err)) {
                        page->cursor = v->id + 1;
                        return page->retried ? OK : err;
                }
                page->retried += err == OK;
                page->skipped += err != OK;
        }
        if (q->n_ids)
                return OK;
        if (q->is_cut)
                page->cursor = q->last_id;
        else if (q->n_rows == q->limit)
                page->cursor = q->rows[q->n_rows - 1].id;
        return OK;
}

/* On to the ids whose rows were too much for one page; false when there are none. */
static bool next_ids(struct retry *r)
{
        struct archive_query *q = &r->query;
        if (!q->n_ids || !q->is_cut || r->page.cursor)
                return false;
        q->ids += q->n_seen;
        q->n_ids -= q->n_seen;
        arena_clear(&q->arena);
        return true;
}

static void tell_page(struct reply *reply, const struct page *page)
{
        char cursor[24] = "";
        if (page->cursor > 1)
                (void)say_i64(cursor, (int64_t)page->cursor);
        const struct retried_reply told = {
                .retried = (int64_t)page->retried,
                .skipped = (int64_t)page->skipped,
                .cursor = cursor,
                .matched = (int64_t)(page->retried + page->skipped),
                .changed = (int64_t)page->retried,
        };
        reply_retried(reply, &told);
}

static void retry_done(struct archive_query *q)
{
        struct retry *r = q->ctx;
        struct core *core = r->base.core;
        struct session *session = r->base.session;
        struct problem problem;
        int err = q->err;
        asker_leave(&r->asker);
        if (!session) {
                retry_free(r);
                ask_next(core);
                return;
        }
        if (err != OK)
                (void)problem_set(&problem, err, "history could not be read");
        else
                err = r->is_many ? finish_page(core, r, &problem) : finish_one(core, r, &problem);
        struct page page = r->page;
        if (err == OK && next_ids(r)) {
                asker_begin(core, &r->asker);
                return;
        }
        if (err == CORE_LATER) {
                arena_clear(&q->arena);
                wait_for_history(core, r);
        } else if (err != OK) {
                answer_error(r, &problem);
                retry_free(r);
        } else {
                wait_end(core, &r->base);
                struct reply *reply = session->ops->reply_begin(session);
                if (r->is_many)
                        tell_page(reply, &page);
                else
                        tell_pending(reply);
                session->ops->reply_end(session);
                retry_free(r);
        }
        if (page.retried)
                say_info("core", "jobs run again", "jobs", SAY_I64(page.retried), "skipped",
                         SAY_I64(page.skipped));
        ask_next(core);
}

/* ---- commands ---- */

int exec_retry(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        uint64_t id = (uint64_t)cmd->arg[P_RETRY_ID].num;
        bool is_forced = cmd->arg[P_RETRY_FORCE].num != 0;
        struct job *job = state_job(&core->state, id);
        int err = CORE_LATER;
        if (job)
                err = retry_live(core, job, is_forced, problem);
        else if (id >= core->state.next_id || !core->options.archive)
                err = problem_set(problem, ERR_NOTFOUND, "there is no job %llu",
                                  (unsigned long long)id);
        if (err == OK)
                tell_pending(reply);
        if (err != CORE_LATER)
                return err;
        struct retry *r = retry_new(core, session);
        r->query.id = id;
        r->is_forced = is_forced;
        if (job)
                wait_for_history(core, r);
        else
                asker_begin(core, &r->asker);
        return CORE_LATER;
}

static bool take_filter(struct retry *r, const struct command *cmd)
{
        struct archive_query *q = &r->query;
        struct slice ids = cmd->arg[P_RETRYMANY_IDS].text;
        uint64_t id;
        if (!filter_take(&q->filter, cmd, &r->texts))
                return false;
        q->filter.status = cmd->arg[P_RETRYMANY_STATUS].num == 0 ? JOB_FAILED : JOB_CANCELED;
        if (!ids.len)
                return true;
        q->limit = LIMIT_LIST_JOBS; /* the parameter takes no more */
        uint64_t *all = arena_array(&r->texts, q->limit, sizeof(*all));
        q->ids = all;
        while (all && ids_next(&ids, &id))
                all[q->n_ids++] = id;
        return all != NULL;
}

static int many_begin(struct core *core, struct retry *r, const struct command *cmd,
                      struct problem *problem)
{
        const struct arg *limit = &cmd->arg[P_RETRYMANY_LIMIT],
                         *cursor = &cmd->arg[P_RETRYMANY_CURSOR];
        uint64_t before = core->state.next_id;
        if (cursor->text.len && !slice_to_u64(cursor->text, &before))
                return problem_set(problem, ERR_BADARG, "cursor must be one that RETRYMANY gave");
        r->is_many = true;
        r->query.limit = limit->is_set ? (size_t)limit->num : RETRY_LIMIT_DEFAULT;
        r->query.before_id = before < core->state.next_id ? before : core->state.next_id;
        if (!take_filter(r, cmd))
                return problem_set(problem, ERR_NOMEM, "no memory for this filter");
        if (r->query.n_ids && (cursor->text.len || limit->is_set))
                return problem_set(problem, ERR_BADARG, "ids are no pages: leave limit and cursor");
        if (!cursor->text.len)
                r->n_before = core->state.n_finished - core->state.grace.len;
        if (r->n_before && keeping_is_stuck(core))
                return refuse_stuck(core, SLICE_LIT(JOB_QUEUE_DEFAULT), problem);
        return OK;
}

int exec_retrymany(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)reply; /* the answer always comes through the session */
        if (!core->options.archive)
                return problem_set(problem, ERR_NOTFOUND, "there is no history");
        if (cmd->arg[P_RETRYMANY_DRYRUN].num && cmd->arg[P_RETRYMANY_IDS].is_set)
                return problem_set(problem, ERR_BADARG, "dryrun counts by a filter, not by ids");
        if (cmd->arg[P_RETRYMANY_DRYRUN].num)
                return bulk_count_retries(core, session, cmd, problem);
        struct retry *r = retry_new(core, session);
        int err = many_begin(core, r, cmd, problem);
        if (err != OK) {
                wait_end(core, &r->base);
                retry_free(r);
                return err;
        }
        if (r->n_before)
                wait_for_history(core, r);
        else
                asker_begin(core, &r->asker);
        return CORE_LATER;
}

int exec_run(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may */
        uint64_t id = (uint64_t)cmd->arg[P_RUN_ID].num;
        const struct job *job = state_job(&core->state, id);
        if (!job && id >= core->state.next_id)
                return problem_set(problem, ERR_NOTFOUND, "there is no job %llu",
                                   (unsigned long long)id);
        if (!job || job->state == JOB_FINISHED)
                return problem_set(problem, ERR_STATE,
                                   "job %llu has ended: retry it to run it again",
                                   (unsigned long long)id);
        int r = hurry(core, job, SLICE_LIT("run now"), problem);
        if (r == OK)
                tell_pending(reply);
        return r;
}

const struct feature retry_feature = {
        .name = "retries", .init = retry_init, .release = retry_release, .stored = retry_stored};
