/* See dependents.h, and state/sequel.h for what is in the log.
 *
 * A job that ends may release, cancel or fail others, and those may do the same: a tree as wide and
 * as deep as clients make it.  So it is walked by a list (state->sequels) and not by recursion, and
 * at most options.turn_steps jobs are told per turn: a crowd takes many turns and batches, and the
 * end of the first is durable before the last is told.  The newest sequel goes first with half of
 * the steps, which walks the tree by depth, and keeps small cascades in the batch of their end
 * beside a large one; the oldest gets the other half, so that each comes to its end.
 *
 * A job may come after one that history already holds.  The archive is asked, and its answer begins
 * a sequel; until then the job waits.  One that history does not know any more counts as complete.
 * While history cannot be read, it is asked again every AGAIN_NS.  At most LOOKUPS_MAX questions
 * are under way; what is beyond is found by walking the ids that are waited for. */
#include "jobs/dependents.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/say.h"
#include "core/archive.h"
#include "jobs/job_end.h"
#include "state/sequel.h"

#define AGAIN_NS NS_PER_S
/* A damaged row tells no outcome until a person mends or deletes it. */
#define DAMAGED_NS  (60 * NS_PER_S)
#define LOOKUPS_MAX 1000
#define NO_WALK     UINT64_MAX

struct lookup {
        struct list link; /* on core->lookups */
        struct core *core;
        struct archive_query query;
};

/* ---- one of those that come after it ---- */

static void resolve(struct core *core, const struct job *job, uint64_t other_id)
{
        struct effect e = {.type = EFFECT_JOB_AFTER, .id = job_id(job), .other_id = other_id};
        core_emit(core, &e);
}

static void end_unmet(struct core *core, struct job *job, const struct sequel *other)
{
        char text[96];
        int n = snprintf(text, sizeof(text), "job %llu, which it comes after, is %s",
                         (unsigned long long)other->job_id,
                         job_status_name((enum job_status)other->outcome));
        struct slice why = slice_make(text, (size_t)n);
        if (job->extra->options.otherwise == OTHERWISE_FAIL)
                job_fail_unstarted(core, job, why);
        else
                job_cancel(core, job, why);
}

static void tell_one(struct core *core, struct job *job, const struct sequel *other)
{
        switch ((enum after_when)job->extra->options.when) {
        case AFTER_COMPLETE:
                if (other->outcome != JOB_COMPLETE) {
                        end_unmet(core, job, other);
                        return;
                }
                break;
        case AFTER_FAILED:
                if (other->outcome == JOB_FAILED) {
                        resolve(core, job, 0); /* one is enough */
                        return;
                }
                if (job->extra->n_after == 1) {
                        end_unmet(core, job, other);
                        return;
                }
                break;
        case AFTER_ENDED:
                break;
        }
        resolve(core, job, other->job_id);
}

/* ---- all of them ---- */

static void keep(struct core *core, struct sequel *q)
{
        buf_clear(&core->body);
        buf_put_byte(&core->body, (char)q->outcome);
        thing_set(core, THING_SEQUEL, thing_name(&q->thing), buf_slice(&core->body));
}

/* A late completion changes what those are told that were not told of the failure yet. */
void dependents_begin(struct core *core, uint64_t job_id, enum job_status outcome)
{
        if (!idmap_get(&core->state.after, job_id))
                return;
        struct sequel *q = sequel_find(&core->state, job_id);
        bool is_kept_otherwise = q && thing_is_durable(&q->thing) && q->outcome != outcome;
        q = sequel_get(&core->state, job_id, outcome);
        if (is_kept_otherwise)
                keep(core, q);
}

bool dependents_are_left(const struct core *core, uint64_t job_id)
{
        return sequel_find(&core->state, job_id) != NULL;
}

static void end(struct core *core, struct sequel *q)
{
        if (thing_is_durable(&q->thing))
                thing_gone(core, &q->thing);
        else
                thing_drop(&core->state, &q->thing);
}

/* Whose turn it is; NULL: nobody's. */
static struct sequel *next(const struct core *core)
{
        const struct list *all = &core->state.sequels;
        if (list_is_empty(all))
                return NULL;
        bool is_newest = core->dependents_steps > core->options.turn_steps / 2;
        return CONTAINER_OF(is_newest ? all->next : all->prev, struct sequel, link);
}

void dependents_work(struct core *core)
{
        struct sequel *q;
        struct job *job;
        while (core->dependents_steps && !core_is_congested(core) && (q = next(core))) {
                core->dependents_steps--;
                if (state_next_after(&core->state, q->job_id, &job))
                        tell_one(core, job, q);
                if (!state_next_after(&core->state, q->job_id, &job))
                        end(core, q);
        }
}

/* The newest are first, and all that are older are in the log. */
static void dependents_keep(struct core *core)
{
        LIST_FOREACH(&core->state.sequels, it)
        {
                struct sequel *q = CONTAINER_OF(it, struct sequel, link);
                if (thing_is_durable(&q->thing))
                        return;
                keep(core, q);
        }
}

/* It has no alarm. */
void sequel_due(struct core *core, struct thing *t)
{
        (void)core;
        (void)t;
}

/* ---- those that ended before ---- */

/* Said once until history answers again. */
static void look_up_again(struct core *core, uint64_t id)
{
        if (!core->is_history_unread)
                say_error("core", "history could not be read for a dependency and is asked again",
                          "job", SAY_I64(id));
        core->is_history_unread = true;
        core->look_up_ns = core->now.steady_ns + AGAIN_NS;
}

static void take_answer(struct core *core, const struct archive_query *q)
{
        if (q->err != OK) {
                look_up_again(core, q->id);
        } else if (q->n_rows && q->rows[0].is_damaged) {
                int64_t at = core->now.steady_ns + DAMAGED_NS;
                if (at < core->look_up_ns)
                        core->look_up_ns = at;
        } else {
                core->is_history_unread = false;
                if (!dependents_are_left(core, q->id)) /* else that knows better */
                        dependents_begin(core, q->id, q->n_rows ? q->rows[0].status : JOB_COMPLETE);
        }
}

static void look_up_done(struct archive_query *q)
{
        struct lookup *l = q->ctx;
        if (l->core) {
                take_answer(l->core, q);
                list_remove(&l->link);
                l->core->n_lookups--;
        }
        arena_release(&q->arena);
        free(l);
}

static void ask(struct core *core, uint64_t id)
{
        struct archive *archive = core->options.archive;
        struct lookup *l = xcalloc(1, sizeof(*l));
        l->core = core;
        l->query.id = id;
        l->query.done = look_up_done;
        l->query.ctx = l;
        arena_init(&l->query.arena, 8 * MIB);
        list_push_back(&core->lookups, &l->link);
        core->n_lookups++;
        archive->ops->query(archive, &l->query);
}

static void look_up(struct core *core, uint64_t id)
{
        const struct job *job = state_job(&core->state, id);
        if (dependents_are_left(core, id))
                return; /* it tells them */
        if (job && job->state == JOB_FINISHED)
                dependents_begin(core, id, (enum job_status)job->outcome);
        if (job)
                return;
        if (!core->options.archive)
                dependents_begin(core, id, JOB_COMPLETE);
        else if (core->n_lookups < LOOKUPS_MAX)
                ask(core, id);
        else if (core->look_up_from > id)
                core->look_up_from = id;
}

void dependents_look_up(struct core *core, const struct job *job)
{
        for (size_t i = 0; i < job->extra->n_after; i++)
                look_up(core, job->extra->after[i].id);
}

static void walk_waited_for(struct core *core)
{
        for (int n = 0; n < CORE_TURN_STEPS && core->n_lookups < LOOKUPS_MAX; n++) {
                uint64_t id = core->look_up_from;
                if (id == NO_WALK || !idmap_next(&core->state.after, id, &id)) {
                        core->look_up_from = NO_WALK;
                        return;
                }
                core->look_up_from = id + 1;
                look_up(core, id);
        }
}

static void dependents_turn(struct core *core)
{
        core->dependents_steps = core->options.turn_steps;
        if (core->look_up_ns <= core->now.steady_ns) {
                core->look_up_ns = INT64_MAX;
                core->look_up_from = 0;
        }
        walk_waited_for(core);
}

static int64_t dependents_next_ns(const struct core *core)
{
        bool is_walking = core->look_up_from != NO_WALK && core->n_lookups < LOOKUPS_MAX;
        if (is_walking || !list_is_empty(&core->state.sequels))
                return core->now.steady_ns;
        return core->look_up_ns;
}

static void dependents_release(struct core *core)
{
        LIST_FOREACH(&core->lookups, it)
        CONTAINER_OF(it, struct lookup, link)->core = NULL; /* the archive still has them */
}

static void dependents_init(struct core *core)
{
        list_init(&core->lookups);
}

/* Invariants: (1) each question to the archive is on the list, and they are bounded; (2) the steps
 * of a turn are never overdrawn. */
static void dependents_check(const struct core *core)
{
        size_t n = 0;
        LIST_FOREACH(&core->lookups, it)
        {
                ASSERT(CONTAINER_OF(it, struct lookup, link)->core == core);
                n++;
        }
        ASSERT(n == core->n_lookups && n <= LOOKUPS_MAX); /* (1) */
        ASSERT(core->dependents_steps >= 0);              /* (2) */
}

const struct feature dependents_feature = {.name = "dependents",
                                           .init = dependents_init,
                                           .release = dependents_release,
                                           .turn = dependents_turn,
                                           .next_ns = dependents_next_ns,
                                           .settle = dependents_work,
                                           .close = dependents_keep,
                                           .check = dependents_check};
