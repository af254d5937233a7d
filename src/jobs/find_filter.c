/* See find_filter.h.  What a look at a live job costs decides how long a listing of a million
 * takes: 10-20 ns for what the job itself says, and a text search at the speed of memchr. */
#include "jobs/find_filter.h"

#include <stdlib.h>

#include "api/params.h"
#include "throttle/throttle_state.h"

/* ---- from a command ---- */

bool filter_take(struct job_filter *f, const struct command *cmd, struct arena *arena)
{
        const struct {
                int param;
                struct slice *to;
        } texts[] = {
                {P_JOBS_HOOK, &f->hook},     {P_JOBS_QUEUE, &f->queue}, {P_JOBS_GROUP, &f->group},
                {P_JOBS_WORKER, &f->worker}, {P_JOBS_MATCH, &f->match},
        };
        const struct arg *status = &cmd->arg[P_JOBS_STATUS], *tier = &cmd->arg[P_JOBS_TIER];
        f->status = status->is_set ? (int)status->num : -1;
        f->tier = tier->is_set ? 1 + (unsigned)tier->num : 0;
        f->since_ms = cmd->arg[P_JOBS_SINCE].num;
        f->until_ms = cmd->arg[P_JOBS_UNTIL].num;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                struct slice text = cmd->arg[texts[i].param].text;
                if (!text.len)
                        continue;
                *texts[i].to = arena_copy(arena, text);
                if (!texts[i].to->ptr)
                        return false;
        }
        return true;
}

bool filter_is_any(const struct job_filter *f)
{
        return f->status < 0 && !f->hook.len && !f->queue.len && !f->group.len && !f->worker.len &&
               !f->match.len && !f->since_ms && !f->until_ms && !f->tier;
}

void filter_lend_registry(const struct core *core, struct job_filter *f)
{
        if (f->tier && !f->registry)
                f->registry = throttle_build_registry(core, NULL);
}

void filter_return_registry(struct job_filter *f)
{
        union {
                const struct registry *lent;
                struct registry *own;
        } r = {f->registry};
        registry_free(r.own);
        f->registry = NULL;
}

/* ---- live jobs ---- */

/* NULL with a text: no live job has that name. */
static const struct name *find_name(const struct core *core, struct slice text)
{
        struct hash_node *n = text.len ? hash_find(&core->state.names.table, text) : NULL;
        return n ? CONTAINER_OF(n, struct name, node) : NULL;
}

static bool has_status(const struct state *s, int status)
{
        size_t ended = s->n_finished, running = s->running.len;
        if (status < 0)
                return true;
        if (status == JOB_PENDING)
                return s->jobs.len > ended + running;
        return status == JOB_RUNNING ? running > 0 : ended > 0;
}

void live_filter_begin(struct live_filter *l, struct core *core, const struct job_filter *f)
{
        *l = (struct live_filter){.core = core, .f = f, .needle = needle_make(f->match)};
        if (f->tier)
                throttle_refresh(core);
        l->hook = find_name(core, f->hook);
        l->group = find_name(core, f->group);
        l->worker = find_name(core, f->worker);
        l->queue = f->queue.len ? state_queue_find(&core->state, f->queue) : NULL;
        l->is_none = (f->hook.len && !l->hook) || (f->group.len && !l->group) ||
                     (f->worker.len && !l->worker) ||
                     (f->queue.len && (!l->queue || !queue_n_jobs(l->queue))) ||
                     !has_status(&core->state, f->status);
}

static size_t known_hook(struct live_filter *l, const struct job *job)
{
        size_t at = ((uintptr_t)job->hook >> 4) % FILTER_HOOKS;
        if (l->hooks[at].name == job->hook)
                return at;
        l->hooks[at].name = job->hook;
        l->hooks[at].tier =
                (uint8_t)(1 + registry_tier(l->core->throttle->registry, name_slice(job->hook)));
        l->hooks[at].has_text = needle_is_in(&l->needle, name_slice(job->hook));
        return at;
}

static bool is_of_tier(struct live_filter *l, const struct job *job)
{
        if (!l->f->tier)
                return true;
        if (job->extra && job->extra->options.tier)
                return job->extra->options.tier == l->f->tier;
        return l->hooks[known_hook(l, job)].tier == l->f->tier;
}

static bool has_text(struct live_filter *l, const struct job *job)
{
        const struct needle *n = &l->needle;
        if (!n->text.len || needle_is_in(n, slice_make(job->args, job->args_len)) ||
            l->hooks[known_hook(l, job)].has_text)
                return true;
        const struct job_more *more = job->more;
        return more && (needle_is_in(n, slice_make(more->result.ptr, more->result.len)) ||
                        needle_is_in(n, slice_make(more->error.ptr, more->error.len)));
}

bool live_filter_has(struct live_filter *l, const struct job *job)
{
        const struct job_filter *f = l->f;
        if ((l->queue && job->queue != l->queue) || (l->hook && job->hook != l->hook) ||
            (l->group && job->group != l->group))
                return false;
        if (f->status >= 0 && (int)job_status(job) != f->status)
                return false;
        if ((f->since_ms && job->created_ms < f->since_ms) ||
            (f->until_ms && job->created_ms >= f->until_ms))
                return false;
        if (l->worker && (!job->more || job->more->worker != l->worker))
                return false;
        return is_of_tier(l, job) && has_text(l, job);
}
