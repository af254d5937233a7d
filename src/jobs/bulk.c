/* See bulk.h.
 *
 * Live jobs (CANCELMANY, RUNMANY, RETIERMANY) are walked by id as a listing does; each step gathers
 * the ids of some that match and then changes those, each with the effects that the command for one
 * job has.  Gathering first, because what an end brings with it may move other jobs in memory.  A
 * job that comes after the command began has a larger id and is not concerned.
 *
 * Ended jobs (DELETEMANY) are rows of history.  A row may go only when nothing can bring it back:
 *
 *      a live job that has ended      the archive would write it again: the command waits until all
 *                                     that had ended when it came are stored, and passes over those
 *                                     that are still live when it meets their rows; while the
 *                                     archive cannot write, it is told to forget them instead
 *      an ARCHIVED effect in flight   after a crash the job would be live and ended again: the
 *                                     command waits until the batch that may hold it is durable
 *      a RETRY that has read the row  would make the job live again: both stand in the same line
 *                                     (retry.h)
 *      a later run of the same job    is another row: rows are named by id and run
 *
 * So a row that is gone stays gone, and a crash half-way leaves the rest where it was.  Deleting
 * 2,000 rows is one transaction of some 10 ms on history's own thread.
 *
 * State        list                       left by
 *   WALKING    core->scans                the last job was seen; the archive is full; an error
 *   FORGETTING core->scans                the same, for ended jobs that the archive cannot take
 *   STORING    core->bulk_waits           bulk_stored()
 *   IN LINE    core->retry_asks           its turn
 *   ASKED      the archive has the query  delete_found()
 *   SYNCING    core->scans                the batch is durable
 *   REMOVING   the archive has the refs   delete_removed() */
#include "jobs/bulk.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/plural.h"
#include "base/say.h"
#include "jobs/bulk_tier.h"
#include "jobs/find_walk.h"
#include "jobs/job_end.h"
#include "jobs/keeping.h"
#include "jobs/retry.h"

/* Changes of one step: an effect takes 1-2 us, and its share of the commit as much again. */
#define STEP_JOBS 500
/* What a change is in looks at a job (find_walk.h), about. */
#define CHANGE_UNITS 30
#define PAGE_REFS    2000
#define BY_BULK      "by a bulk command"

enum bulk_what { BULK_CANCEL, BULK_RUN, BULK_TIER, BULK_DELETE, BULK_RETRY };

static const char *const bulk_names[] = {"canceled", "made due", "retiered", "deleted", "retried"};

struct bulk {
        struct session_wait base;
        struct list all;     /* on core->bulks */
        struct scan scan;    /* WALKING, SYNCING */
        struct list storing; /* on core->bulk_waits */
        struct asker asker;
        enum bulk_what what;
        bool is_dry, is_with_archive;
        bool is_forgetting; /* the archive is told to forget what it cannot take */
        bool is_more;       /* REMOVING: there are pages after this one */
        unsigned tier;
        struct live_walk walk;
        const uint64_t *ids; /* of the arena; NULL: the filter decides */
        size_t n_ids, at_id;
        uint64_t n_before; /* STORING: jobs the archive is to report first */
        uint64_t sync_seq; /* SYNCING */
        uint64_t matched, changed;
        struct arena texts;         /* of the filter */
        struct archive_query query; /* its filter is the bulk's; its arena holds one page */
        struct archive_removal removal;
};

/* ---- its end ---- */

static void bulk_free(struct bulk *b)
{
        ASSERT(!b->base.session);
        scan_end(&b->scan);
        if (list_is_linked(&b->storing))
                list_remove(&b->storing);
        asker_leave(&b->asker);
        list_remove(&b->all);
        filter_return_registry(&b->query.filter);
        arena_release(&b->query.arena);
        arena_release(&b->texts);
        free(b);
}

/* The archive has something of it: it is freed when that comes back. */
static void bulk_let_go(struct core *core, struct bulk *b)
{
        wait_end(core, &b->base);
        if (b->is_with_archive)
                return;
        bulk_free(b);
        ask_next(core);
}

static void say_done(const struct bulk *b)
{
        if (b->changed)
                say_info("core", "bulk command", "done", bulk_names[b->what], "jobs",
                         SAY_I64(b->changed));
}

static void bulk_fail(struct core *core, struct bulk *b, const struct problem *why)
{
        struct session *session = b->base.session;
        struct problem told;
        say_done(b);
        if (session) {
                wait_end(core, &b->base);
                (void)problem_set(&told, why->err, "%llu %s %s, then: %s",
                                  (unsigned long long)b->changed,
                                  plural(b->changed, "job was", "jobs were"), bulk_names[b->what],
                                  why->detail);
                session->is_partial = b->changed > 0;
                reply_error(session->ops->reply_begin(session), b->changed ? &told : why);
                session->ops->reply_end(session);
        }
        bulk_let_go(core, b);
}

static void bulk_finish(struct core *core, struct bulk *b)
{
        struct session *session = b->base.session;
        say_done(b);
        wait_end(core, &b->base);
        struct reply *reply = session->ops->reply_begin(session);
        const struct bulk_reply told = {(int64_t)b->matched, (int64_t)b->changed};
        reply_bulk(reply, &told);
        session->ops->reply_end(session);
        bulk_let_go(core, b);
}

static void bulk_stop(struct core *core, struct session_wait *w)
{
        struct problem problem;
        (void)problem_set(&problem, ERR_STOPPING, "weir is stopping");
        bulk_fail(core, CONTAINER_OF(w, struct bulk, base), &problem);
}

static void bulk_cancel(struct core *core, struct session_wait *w)
{
        struct bulk *b = CONTAINER_OF(w, struct bulk, base);
        say_done(b);
        bulk_let_go(core, b);
}

static const struct wait_ops bulk_wait_ops = {bulk_stop, bulk_cancel};

static void bulk_init(struct core *core)
{
        list_init(&core->bulks);
        list_init(&core->bulk_waits);
}

/* What an archive that is gone did not give back. */
static void bulk_release(struct core *core)
{
        LIST_FOREACH(&core->bulks, it)
        bulk_free(CONTAINER_OF(it, struct bulk, all));
}

/* ---- live jobs ---- */

/* Does the command concern a job in this state at all? */
static bool is_concerned(const struct bulk *b, const struct job *job)
{
        enum job_status status = job_status(job);
        return status == JOB_PENDING || (status == JOB_RUNNING && b->what != BULK_RUN);
}

static int change(struct core *core, struct bulk *b, struct job *job, struct problem *problem)
{
        bool is_changed = true;
        int r = OK;
        if (b->what == BULK_CANCEL) {
                job_cancel(core, job,
                           job->state == JOB_LEASED ? SLICE_LIT("while it was running, " BY_BULK)
                                                    : SLICE_LIT(BY_BULK));
        } else if (b->what == BULK_RUN) {
                is_changed = job->state == JOB_SCHEDULED;
                if (is_changed)
                        r = job_be_due(core, job, SLICE_LIT("run now, " BY_BULK), problem);
        } else {
                r = job_retier(core, job, b->tier, ", " BY_BULK, &is_changed, problem);
        }
        b->changed += r == OK && is_changed;
        return r;
}

struct gathered {
        struct bulk *b;
        uint64_t ids[STEP_JOBS];
        size_t n;
};

static bool gather(void *ctx, struct job *job)
{
        struct gathered *g = ctx;
        if (!is_concerned(g->b, job))
                return true;
        g->ids[g->n++] = job_id(job);
        return g->n < STEP_JOBS;
}

/* True when all were seen. */
static bool gather_some(struct core *core, struct bulk *b, struct gathered *g)
{
        if (!b->ids) {
                bool is_stopped = live_walk_step(core, &b->walk, &b->query.filter, gather, g);
                return is_stopped && (b->walk.is_over || g->n < STEP_JOBS);
        }
        while (b->at_id < b->n_ids && g->n < STEP_JOBS) {
                struct job *job = state_job(&core->state, b->ids[b->at_id++]);
                if (job)
                        (void)gather(g, job); /* the loop sees when it is full */
        }
        (void)scan_spend(core, STEP_JOBS); /* one step of this and then the others' turn */
        return b->at_id == b->n_ids;
}

/* What was canceled waits for the archive: no more of it while too much does. */
static bool is_archive_behind(struct core *core, struct bulk *b)
{
        if (b->what != BULK_CANCEL || b->is_dry || !core->options.archive ||
            keeping_is_stuck(core) || core->state.n_finished < core->options.finished_max)
                return false;
        b->n_before = core->options.finished_max / 10 + 1;
        scan_end(&b->scan);
        list_push_back(&core->bulk_waits, &b->storing);
        return true;
}

static void walk_step(struct core *core, struct scan *scan)
{
        struct bulk *b = CONTAINER_OF(scan, struct bulk, scan);
        struct gathered g = {.b = b};
        struct problem problem;
        if ((!b->is_dry && core_is_congested(core)) || is_archive_behind(core, b))
                return;
        bool is_over = gather_some(core, b, &g);
        b->matched += g.n;
        for (size_t i = 0; i < g.n && !b->is_dry; i++) {
                int r = change(core, b, state_job(&core->state, g.ids[i]), &problem);
                if (r != OK) {
                        bulk_fail(core, b, &problem);
                        return;
                }
        }
        (void)scan_spend(core, b->is_dry ? 0 : (int64_t)g.n * CHANGE_UNITS); /* seen at the next */
        if (is_over)
                bulk_finish(core, b);
}

/* ---- ended jobs ---- */

static void delete_found(struct archive_query *q);
static void delete_removed(struct archive_removal *r);

static void delete_ask(struct core *core, struct asker *a)
{
        struct bulk *b = CONTAINER_OF(a, struct bulk, asker);
        struct archive_query *q = &b->query;
        q->done = delete_found;
        q->ctx = b;
        arena_clear(&q->arena);
        q->is_brief = true;
        q->limit = PAGE_REFS;
        q->ids = b->ids ? b->ids + b->at_id : NULL;
        q->n_ids = b->ids ? b->n_ids - b->at_id : 0;
        if (q->n_ids > PAGE_REFS)
                q->n_ids = PAGE_REFS;
        b->is_with_archive = true;
        filter_lend_registry(core, &q->filter);
        core->options.archive->ops->query(core->options.archive, q);
}

static void delete_refuse(struct core *core, struct asker *a)
{
        struct bulk *b = CONTAINER_OF(a, struct bulk, asker);
        bulk_stop(core, &b->base);
}

/* Where the next page begins; false when this one was the last. */
static bool next_page(struct bulk *b)
{
        const struct archive_query *q = &b->query;
        if (b->ids) {
                b->at_id += q->is_cut ? q->n_seen : q->n_ids;
                return b->at_id < b->n_ids;
        }
        bool is_more = q->is_cut || q->n_rows == q->limit;
        if (is_more)
                b->query.before_id = q->is_cut ? q->last_id : q->refs[q->n_rows - 1].id;
        return is_more && b->query.before_id > 1;
}

/* The page is dealt with.  The next one asks at the end of the line, so that others get a turn. */
static void page_done(struct core *core, struct bulk *b, bool is_more)
{
        asker_leave(&b->asker);
        if (is_more)
                asker_begin(core, &b->asker);
        else
                bulk_finish(core, b); /* asks the next in line */
}

/* Keeps the rows of jobs that are not live again; returns how many. */
static size_t drop_live(const struct core *core, struct archive_query *q)
{
        size_t n = 0;
        for (size_t i = 0; i < q->n_rows; i++)
                if (!state_job(&core->state, q->refs[i].id))
                        q->refs[n++] = q->refs[i];
        return n;
}

static void sync_step(struct core *core, struct scan *scan)
{
        struct bulk *b = CONTAINER_OF(scan, struct bulk, scan);
        if (core_durable_seq(core) < b->sync_seq)
                return;
        scan_end(scan);
        b->removal.done = delete_removed;
        b->removal.ctx = b;
        b->is_with_archive = true;
        core->options.archive->ops->remove(core->options.archive, &b->removal);
}

static void archive_failed(struct core *core, struct bulk *b, int err, const char *what)
{
        struct problem problem;
        (void)problem_set(&problem, err, "history could not %s%s", what,
                          err == ERR_NOSPACE ? ": no space is left on its disk" : "");
        bulk_fail(core, b, &problem);
}

static void delete_found(struct archive_query *q)
{
        struct bulk *b = q->ctx;
        struct core *core = b->base.core;
        b->is_with_archive = false;
        if (!b->base.session) {
                bulk_let_go(core, b);
                return;
        }
        if (q->err != OK) {
                archive_failed(core, b, q->err, "be read");
                return;
        }
        bool is_more = next_page(b);
        size_t n = drop_live(core, q);
        b->matched += n;
        if (b->is_dry || !n) {
                page_done(core, b, is_more);
                return;
        }
        b->is_more = is_more;
        b->removal = (struct archive_removal){.refs = q->refs, .n = n};
        b->sync_seq = core_reply_seq(core);
        scan_begin(core, &b->scan, sync_step);
}

static void delete_removed(struct archive_removal *r)
{
        struct bulk *b = r->ctx;
        struct core *core = b->base.core;
        b->is_with_archive = false;
        b->changed += r->removed;
        if (!b->base.session)
                bulk_let_go(core, b);
        else if (r->err != OK)
                archive_failed(core, b, r->err, "delete");
        else
                page_done(core, b, b->is_more);
}

/* The archive has reported n jobs: commands that waited for them go on. */
static void bulk_stored(struct core *core, size_t n)
{
        LIST_FOREACH(&core->bulk_waits, it)
        {
                struct bulk *b = CONTAINER_OF(it, struct bulk, storing);
                b->n_before -= n < b->n_before ? n : b->n_before;
                if (b->n_before)
                        continue;
                list_remove(it);
                if (b->what == BULK_CANCEL)
                        scan_begin(core, &b->scan, walk_step);
                else
                        asker_queue(core, &b->asker);
        }
        ask_next(core);
}

static void delete_wait(struct core *core, struct bulk *b)
{
        if (b->n_before)
                list_push_back(&core->bulk_waits, &b->storing);
        else
                asker_begin(core, &b->asker);
}

/* The archive reads its memory: it reports it back instead of storing it. */
static bool forget_one(void *ctx, struct job *job)
{
        struct bulk *b = ctx;
        if (job->state != JOB_FINISHED || job->more->is_lease_open)
                return true;
        b->matched++;
        if (b->is_dry)
                return true;
        atomic_store_explicit(&job->more->is_unwanted, true, memory_order_relaxed);
        b->changed++;
        b->n_before++;
        return true;
}

/* Ended jobs that history cannot take now. */
static void forget_step(struct core *core, struct scan *scan)
{
        struct bulk *b = CONTAINER_OF(scan, struct bulk, scan);
        const struct archive *archive = core->options.archive;
        if (!b->ids && !live_walk_step(core, &b->walk, &b->query.filter, forget_one, b))
                return;
        for (size_t i = 0; b->ids && i < b->n_ids; i++) {
                struct job *job = state_job(&core->state, b->ids[i]);
                if (job)
                        (void)forget_one(b, job); /* it is always true */
        }
        scan_end(scan);
        if (b->n_before && archive->ops->wake)
                archive->ops->wake(core->options.archive);
        delete_wait(core, b);
}

/* The archive cannot write: commands that wait for it go on without it. */
static void bulk_stuck(struct core *core)
{
        LIST_FOREACH(&core->bulk_waits, it)
        {
                struct bulk *b = CONTAINER_OF(it, struct bulk, storing);
                if (b->is_forgetting)
                        continue;
                list_remove(it);
                b->n_before = 0;
                b->is_forgetting = b->what == BULK_DELETE;
                if (b->what == BULK_RETRY)
                        asker_queue(core, &b->asker);
                else
                        scan_begin(core, &b->scan, b->is_forgetting ? forget_step : walk_step);
        }
        ask_next(core);
}

static void delete_begin(struct core *core, struct bulk *b)
{
        if (b->what == BULK_DELETE && keeping_is_stuck(core)) {
                b->is_forgetting = true;
                scan_begin(core, &b->scan, forget_step);
                return;
        }
        b->n_before = core->state.n_finished - core->state.grace.len;
        delete_wait(core, b);
}

/* ---- commands ---- */

static struct bulk *bulk_new(struct core *core, struct session *session, enum bulk_what what)
{
        struct bulk *b = xcalloc(1, sizeof(*b));
        b->what = what;
        b->asker.ask = delete_ask;
        b->asker.refuse = delete_refuse;
        b->walk = live_walk_down(core->state.next_id);
        b->query.before_id = core->state.next_id;
        arena_init(&b->texts, MIB);
        arena_init(&b->query.arena, MIB);
        list_push_back(&core->bulks, &b->all);
        wait_begin(core, &b->base, &bulk_wait_ops, session);
        wait_until(core, &b->base, INT64_MAX); /* so that a stop finds it */
        return b;
}

static int take_ids(struct bulk *b, struct slice text, struct problem *problem)
{
        uint64_t *ids = arena_array(&b->texts, LIMIT_LIST_JOBS, sizeof(*ids));
        uint64_t id;
        if (!ids)
                return problem_set(problem, ERR_NOMEM, "no memory for these ids");
        while (b->n_ids < LIMIT_LIST_JOBS && ids_next(&text, &id)) {
                size_t i = 0;
                while (i < b->n_ids && ids[i] != id)
                        i++;
                ids[i] = id; /* one that is named twice is one */
                b->n_ids += i == b->n_ids;
        }
        b->ids = ids;
        return OK;
}

/* Without a filter the command would change every job, so an explicit one is required. */
static int take_meaning(struct bulk *b, const struct command *cmd, struct slice ids,
                        struct problem *problem)
{
        struct job_filter *f = &b->query.filter;
        if (!filter_take(f, cmd, &b->texts))
                return problem_set(problem, ERR_NOMEM, "no memory for this filter");
        if (!ids.len && filter_is_any(f))
                return problem_set(problem, ERR_BADARG,
                                   "name the jobs by ids, or by at least one filter (status)");
        if (ids.len && !filter_is_any(f))
                return problem_set(problem, ERR_BADARG, "give ids or a filter, not both");
        return ids.len ? take_ids(b, ids, problem) : OK;
}

static int bulk_begin(struct core *core, struct session *session, const struct command *cmd,
                      enum bulk_what what, struct problem *problem)
{
        struct bulk *b = bulk_new(core, session, what);
        int r = take_meaning(b, cmd, cmd->arg[P_RETIERMANY_IDS].text, problem);
        if (r == OK && what == BULK_DELETE && !core->options.archive)
                r = problem_set(problem, ERR_NOTFOUND, "there is no history");
        if (r != OK) {
                wait_end(core, &b->base);
                bulk_free(b);
                return r;
        }
        b->is_dry = cmd->arg[P_RETIERMANY_DRYRUN].num != 0;
        if (what == BULK_TIER) {
                int64_t choice = cmd->arg[P_RETIERMANY_SET].num;
                b->tier = choice < TIERS ? 1 + (unsigned)choice : 0;
        }
        if (what == BULK_DELETE)
                delete_begin(core, b);
        else
                scan_begin(core, &b->scan, walk_step);
        return CORE_LATER;
}

int exec_cancelmany(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)reply; /* the answer always comes through the session */
        return bulk_begin(core, session, cmd, BULK_CANCEL, problem);
}

int exec_runmany(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)reply; /* the same */
        return bulk_begin(core, session, cmd, BULK_RUN, problem);
}

int exec_retiermany(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)reply; /* the same */
        return bulk_begin(core, session, cmd, BULK_TIER, problem);
}

int exec_deletemany(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)reply; /* the same */
        return bulk_begin(core, session, cmd, BULK_DELETE, problem);
}

int bulk_count_retries(struct core *core, struct session *session, const struct command *cmd,
                       struct problem *problem)
{
        struct bulk *b = bulk_new(core, session, BULK_RETRY);
        if (!filter_take(&b->query.filter, cmd, &b->texts)) {
                wait_end(core, &b->base);
                bulk_free(b);
                return problem_set(problem, ERR_NOMEM, "no memory for this filter");
        }
        b->query.filter.status = cmd->arg[P_RETRYMANY_STATUS].num == 0 ? JOB_FAILED : JOB_CANCELED;
        b->is_dry = true;
        delete_begin(core, b);
        return CORE_LATER;
}

static void bulk_turn(struct core *core)
{
        if (!list_is_empty(&core->bulk_waits) && keeping_is_stuck(core))
                bulk_stuck(core);
}

/* A command that waits for the archive must learn when the archive is stuck. */
static int64_t bulk_next_ns(const struct core *core)
{
        return list_is_empty(&core->bulk_waits) ? INT64_MAX : keeping_looks_ns(core);
}

/* Invariants: (1) a bulk command that waits for the archive is one of all; (2) it waits for some
 * job, or it only forgets. */
static void bulk_check(const struct core *core)
{
        LIST_FOREACH(&core->bulk_waits, it)
        {
                const struct bulk *b = CONTAINER_OF(it, struct bulk, storing);
                ASSERT(list_is_linked(&b->all));         /* (1) */
                ASSERT(b->n_before || b->is_forgetting); /* (2) */
        }
}

const struct feature bulk_feature = {.name = "bulk commands",
                                     .init = bulk_init,
                                     .release = bulk_release,
                                     .turn = bulk_turn,
                                     .next_ns = bulk_next_ns,
                                     .stored = bulk_stored,
                                     .check = bulk_check};
