/* Batches: made, closed, canceled and asked by clients; counted by the ends of jobs.
 *
 * Whatever makes a batch finish, the end of a job or CLOSEBATCH, makes its callbacks in the same
 * step, so they are in the log together: there is no moment at which a crash could lose a callback
 * or make it twice.  When there is no room for them, the batch stays due and its alarm tries again;
 * what was made already is known by its id, so each callback is made once.
 *
 * A batch may have as many jobs as its makers like.  Canceling takes CANCEL_STEP of them at a time
 * and goes on with the alarm; that it is being canceled is in the log, so it goes on after a
 * restart too.  A batch that is being canceled is closed, so there is an end to that. */
#include "jobs/batch.h"

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/plural.h"
#include "base/say.h"
#include "core/page.h"
#include "jobs/enqueue.h"
#include "jobs/job_end.h"
#include "jobs/keeping.h"
#include "jobs/queues.h"
#include "state/batch.h"

/* Jobs canceled per turn, and the time between two such turns. */
#define CANCEL_STEP        1000
#define CANCEL_PAUSE_NS    NS_PER_MS
#define LIST_LIMIT_DEFAULT 50
/* A SET beside its texts, and a callback's job beside its texts. */
#define BATCH_RECORD_BYTES 128

static struct batch *find(const struct core *core, struct slice name)
{
        struct thing *t = thing_find(&core->state, THING_BATCH, name);
        return t && thing_is_durable(t) ? batch_of(t) : NULL;
}

static int no_such_batch(struct slice name, struct problem *problem)
{
        return problem_set(problem, ERR_NOTFOUND, "there is no batch '%.*s'", (int)name.len,
                           name.ptr);
}

static int too_many_jobs(struct problem *problem)
{
        return problem_set(problem, ERR_LIMIT, "a batch has at most %d jobs", LIMIT_BATCH_JOBS);
}

static void change(struct core *core, struct batch *b, enum batch_change what, uint64_t value)
{
        buf_clear(&core->body);
        buf_put_byte(&core->body, (char)what);
        buf_put_varint(&core->body, value);
        thing_note(core, &b->thing, buf_slice(&core->body));
}

/* ---- its end ---- */

static bool is_wanted(const struct batch *b, enum batch_event event)
{
        if (!b->terms.callbacks[event].hook.len || b->callback_ids[event])
                return false;
        return event == BATCH_ON_DONE || (!b->failed && !b->canceled);
}

static int call(struct core *core, struct batch *b, enum batch_event event, struct problem *problem)
{
        const struct batch_callback *c = &b->terms.callbacks[event];
        struct job_spec spec;
        uint64_t id;
        job_spec_init(&spec);
        spec.hook = c->hook;
        spec.args = c->args;
        spec.queue = b->terms.queue;
        spec.priority = b->terms.priority;
        spec.options.signature = c->signature;
        spec.has_options = c->signature.len > 0;
        int r = queue_admit(core, spec.queue, problem);
        if (r == OK)
                r = core_admit(core, BATCH_RECORD_BYTES + spec.args.len, 1, problem);
        if (r == OK)
                r = keeping_admit(core, spec.queue, BATCH_RECORD_BYTES + spec.args.len, 1, problem);
        if (r == OK)
                r = enqueue_one(core, &spec, &id, problem);
        if (r == OK)
                change(core, b, BATCH_CALLED_SUCCESS + event, id);
        return r;
}

/* Tells of it once: what is wrong is told elsewhere too, and lasts. */
static void call_later(struct core *core, struct batch *b, const struct problem *problem)
{
        thing_alarm(&core->state, &b->thing, core->now.steady_ns + BATCH_RETRY_NS);
        if (!b->is_late)
                say_warn("core", "the callback of a batch has to wait", "batch", b->thing.name,
                         "why", problem->detail);
        b->is_late = true;
}

static void finish_if_due(struct core *core, struct batch *b)
{
        struct problem problem = {0};
        if (!batch_is_due(b))
                return;
        for (enum batch_event e = 0; e < BATCH_EVENTS; e++) {
                if (is_wanted(b, e) && call(core, b, e, &problem) != OK) {
                        call_later(core, b, &problem);
                        return;
                }
        }
        change(core, b, BATCH_FINISHED, 0);
}

/* ---- its jobs ---- */

int batch_check(struct core *core, struct slice name, size_t n, struct problem *problem)
{
        const struct batch *b = find(core, name);
        if (!b)
                return no_such_batch(name, problem);
        if (b->flags & BATCH_IS_CLOSED)
                return problem_set(problem, ERR_STATE, "the batch '%.*s' is closed", (int)name.len,
                                   name.ptr);
        if (b->total + n > LIMIT_BATCH_JOBS)
                return too_many_jobs(problem);
        return OK;
}

void batch_add(struct core *core, struct slice name, uint64_t n)
{
        struct batch *b = find(core, name);
        ASSERT(b); /* batch_check() was asked in the same step */
        change(core, b, BATCH_ADDED, n);
}

void batch_note(struct core *core, struct slice name, enum job_status outcome, bool was_failed)
{
        struct batch *b = find(core, name);
        if (!b)
                return;
        enum batch_change what = BATCH_CANCELED;
        if (outcome == JOB_COMPLETE)
                what = was_failed ? BATCH_LATE : BATCH_COMPLETE;
        else if (outcome == JOB_FAILED)
                what = BATCH_FAILED;
        change(core, b, what, 1);
        finish_if_due(core, b);
}

static void cancel_some(struct core *core, struct batch *b)
{
        struct list *first;
        for (int n = 0; n < CANCEL_STEP && (first = list_peek_front(&b->left)); n++) {
                struct job *job = CONTAINER_OF(first, struct job_extra, batch_link)->job;
                job_cancel(core, job, SLICE_LIT("with its batch"));
        }
        if (b->n_left)
                thing_alarm(&core->state, &b->thing, core->now.steady_ns + CANCEL_PAUSE_NS);
}

void batch_due(struct core *core, struct thing *t)
{
        struct batch *b = batch_of(t);
        if (b->flags & BATCH_IS_FINISHED)
                thing_gone(core, t);
        else if (batch_is_due(b))
                finish_if_due(core, b);
        else if (b->flags & BATCH_IS_CANCELING)
                cancel_some(core, b);
}

/* ---- commands ---- */

static int check_new(const struct core *core, const struct command *cmd, struct problem *problem)
{
        static const struct {
                int hook, other;
                const char *text;
        } pairs[] = {
                {P_BATCH_ONSUCCESS, P_BATCH_SUCCESSARGS, "successargs needs onsuccess"},
                {P_BATCH_ONSUCCESS, P_BATCH_SUCCESSSIGNATURE, "successsignature needs onsuccess"},
                {P_BATCH_ONDONE, P_BATCH_DONEARGS, "doneargs needs ondone"},
                {P_BATCH_ONDONE, P_BATCH_DONESIGNATURE, "donesignature needs ondone"},
        };
        struct slice name = cmd->arg[P_BATCH_NAME].text;
        for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
                if (cmd->arg[pairs[i].other].is_set && !cmd->arg[pairs[i].hook].is_set)
                        return problem_set(problem, ERR_BADARG, "%s", pairs[i].text);
        if (cmd->arg[P_BATCH_COMPLETE].num + cmd->arg[P_BATCH_FAILED].num +
                    cmd->arg[P_BATCH_CANCELED].num >
            LIMIT_BATCH_JOBS)
                return too_many_jobs(problem);
        if (find(core, name))
                return problem_set(problem, ERR_CONFLICT, "there is a batch '%.*s' already",
                                   (int)name.len, name.ptr);
        if (core->state.things[THING_BATCH].len >= LIMIT_BATCHES)
                return problem_set(problem, ERR_LIMIT,
                                   "there are %d batches already: remove finished ones",
                                   LIMIT_BATCHES);
        return OK;
}

int exec_batch(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may make one */
        const struct arg *arg = cmd->arg;
        int r = check_new(core, cmd, problem);
        if (r != OK)
                return r;
        struct batch_terms terms = {
                .first_id = core->state.next_id,
                .created_ms = core->now.wall_ms,
                .title = arg[P_BATCH_TITLE].text,
                .queue = arg[P_BATCH_QUEUE].is_set ? arg[P_BATCH_QUEUE].text
                                                   : SLICE_LIT(JOB_QUEUE_DEFAULT),
                .priority = arg[P_BATCH_PRIORITY].is_set ? (uint8_t)arg[P_BATCH_PRIORITY].num
                                                         : JOB_PRIORITY_DEFAULT,
                .callbacks = {{arg[P_BATCH_ONSUCCESS].text, arg[P_BATCH_SUCCESSARGS].text,
                               arg[P_BATCH_SUCCESSSIGNATURE].text},
                              {arg[P_BATCH_ONDONE].text, arg[P_BATCH_DONEARGS].text,
                               arg[P_BATCH_DONESIGNATURE].text}},
        };
        const struct batch_past past = {
                .complete = (uint64_t)arg[P_BATCH_COMPLETE].num,
                .failed = (uint64_t)arg[P_BATCH_FAILED].num,
                .canceled = (uint64_t)arg[P_BATCH_CANCELED].num,
        };
        buf_clear(&core->body);
        batch_put_new(&core->body, &terms, &past);
        r = core_admit(core, BATCH_RECORD_BYTES + core->body.len, 0, problem);
        if (r == OK)
                r = thing_try_set(core, THING_BATCH, arg[P_BATCH_NAME].text, buf_slice(&core->body),
                                  problem);
        if (r == OK)
                reply_ok(reply);
        return r;
}

static const char *status_of(const struct batch *b)
{
        if (b->flags & BATCH_IS_FINISHED)
                return "finished";
        if (b->flags & BATCH_IS_CANCELING)
                return "canceling";
        return b->flags & BATCH_IS_CLOSED ? "closed" : "open";
}

int exec_closebatch(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may close it */
        struct batch *b = find(core, cmd->arg[P_CLOSEBATCH_NAME].text);
        if (!b)
                return no_such_batch(cmd->arg[P_CLOSEBATCH_NAME].text, problem);
        if (!(b->flags & BATCH_IS_CLOSED)) {
                change(core, b, BATCH_CLOSED, 0);
                finish_if_due(core, b);
        }
        reply_batch_closed(reply, &(struct batch_closed_reply){status_of(b)});
        return OK;
}

int exec_cancelbatch(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may cancel */
        struct batch *b = find(core, cmd->arg[P_CANCELBATCH_NAME].text);
        if (!b)
                return no_such_batch(cmd->arg[P_CANCELBATCH_NAME].text, problem);
        uint64_t n = b->n_left;
        if (!(b->flags & (BATCH_IS_FINISHED | BATCH_IS_CANCELING))) {
                change(core, b, BATCH_CANCELING, 0);
                cancel_some(core, b);
                finish_if_due(core, b); /* it may have had none */
        }
        reply_batch_canceled(reply, &(struct batch_canceled_reply){(int64_t)n});
        return OK;
}

int exec_unbatch(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may remove it */
        struct batch *b = find(core, cmd->arg[P_UNBATCH_NAME].text);
        if (!b)
                return no_such_batch(cmd->arg[P_UNBATCH_NAME].text, problem);
        if (b->n_left)
                return problem_set(
                        problem, ERR_STATE,
                        "%zu %s of the batch '%s' %s not ended: CANCELBATCH ends what is "
                        "left of it",
                        b->n_left, plural(b->n_left, "job", "jobs"), b->thing.name,
                        plural(b->n_left, "has", "have"));
        if (batch_is_due(b))
                return problem_set(problem, ERR_STATE,
                                   "the callbacks of the batch '%s' are still to be made",
                                   b->thing.name);
        thing_gone(core, &b->thing);
        reply_ok(reply);
        return OK;
}

/* ---- answers ---- */

static struct batch_row_reply row_of(const struct batch *b)
{
        return (struct batch_row_reply){
                .name = thing_name(&b->thing),
                .title = b->terms.title,
                .status = status_of(b),
                .total = (int64_t)b->total,
                .left = (int64_t)batch_left(b),
                .complete = (int64_t)b->complete,
                .failed = (int64_t)b->failed,
                .canceled = (int64_t)b->canceled,
                .created_ms = b->terms.created_ms,
                .finished_ms = b->finished_ms,
        };
}

/* NULL: the batch has none. */
static const struct callback_reply *callback_of(const struct batch *b, enum batch_event event,
                                                struct callback_reply *room)
{
        const struct batch_callback *c = &b->terms.callbacks[event];
        uint64_t job = b->callback_ids[event];
        *room = (struct callback_reply){
                .hook = c->hook,
                .args = c->args,
                .job = job ? (int64_t)job : REPLY_NONE,
                .signature = c->signature,
        };
        return c->hook.len ? room : NULL;
}

static void tell_rows(struct reply *reply, const struct reply_items *items)
{
        const struct page *p = items->of;
        for (size_t i = 0; i < p->n; i++) {
                const struct batch_row_reply told =
                        row_of(CONTAINER_OF(p->things[i], const struct batch, thing));
                reply_batch_row(reply, &told);
        }
}

int exec_batchstate(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        struct batch *b = find(core, cmd->arg[P_BATCHSTATE_NAME].text);
        if (!b)
                return no_such_batch(cmd->arg[P_BATCHSTATE_NAME].text, problem);
        struct callback_reply success, done;
        const struct batch_reply told = {
                .row = row_of(b),
                .queue = b->terms.queue,
                .priority = b->terms.priority,
                .onsuccess = callback_of(b, BATCH_ON_SUCCESS, &success),
                .ondone = callback_of(b, BATCH_ON_DONE, &done),
        };
        reply_batch(reply, &told);
        return OK;
}

int exec_batches(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)problem;
        const struct arg *limit = &cmd->arg[P_BATCHES_LIMIT];
        const struct thing *things[LIMIT_LIST_BATCHES];
        struct page p = {.things = things,
                         .max = limit->is_set ? (size_t)limit->num : LIST_LIMIT_DEFAULT};
        page_fill(&p, &core->state, THING_BATCH, cmd->arg[P_BATCHES_CURSOR].text);
        const struct batches_reply told = {
                .batches = {p.n, tell_rows, core, &p},
                .cursor = page_cursor(&p),
        };
        reply_batches(reply, &told);
        return OK;
}
