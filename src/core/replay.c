/* How the core comes to know what is durable: all at once at a start, or batch by batch while it
 * follows another machine.  Either way the same effects are applied, and the state is tied together
 * after the last of them: the full record of an object may come after effects on it. */
#include "core/kernel.h"

/* ---- a start ---- */

struct replay {
        struct core *core;
        struct problem *problem;
};

static int replay_batch(void *ctx, uint64_t seq, struct slice batch)
{
        struct replay *replay = ctx;
        struct core *core = replay->core;
        struct record record;
        struct effect effect;
        int r;
        if (!core->state.first_seq && batch.len)
                core->state.first_seq = seq;
        while ((r = record_next(&batch, &record)) == OK) {
                r = effect_read(&record, &effect, replay->problem);
                if (r == OK)
                        r = state_apply(&core->state, &effect, seq, replay->problem);
                if (r != OK)
                        return r;
        }
        if (r != ERR_NOTFOUND)
                return problem_set(replay->problem, ERR_CORRUPT, "batch %llu holds a bad record",
                                   (unsigned long long)seq);
        core->durable_seq = seq;
        core->open_seq = seq + 1;
        return OK;
}

/* Nothing more comes: what is durable is known. */
static int end_replay(struct core *core, struct problem *problem)
{
        struct log *log = core->options.log;
        int r = state_replay_end(&core->state, problem);
        if (r != OK)
                return r;
        core->open_seq = core->durable_seq + 1;
        if (!core->state.first_seq)
                core->state.first_seq = core->open_seq;
        core->is_recovered = true;
        log->ops->stat(log, &core->log_stat);
        return OK;
}

int core_recover(struct core *core, struct problem *problem)
{
        struct replay replay = {core, problem};
        struct log *log = core->options.log;
        core->state.is_replaying = true;
        int r = log->ops->read(log, 0, replay_batch, &replay, problem);
        return r == OK ? end_replay(core, problem) : r;
}

/* ---- following ---- */

void core_follow(struct core *core)
{
        ASSERT(!core->is_recovered && !core->durable_seq);
        core->is_following = core->state.is_replaying = true;
        core->open_seq = 1;
        if (core_can_verify(core)) /* what was told before it was emptied does not count */
                core->options.log->ops->tell(core->options.log, 0, 0);
        core_sort_features(core);
}

bool core_is_following(const struct core *core)
{
        return core->is_following;
}

size_t core_members(const struct core *core, struct log_member *ret, size_t max)
{
        struct log *log = core->options.log;
        return log->ops->members ? log->ops->members(log, ret, max) : 0;
}

int core_arrive(struct core *core, uint64_t seq, struct slice batch, struct problem *problem)
{
        struct replay replay = {core, problem};
        ASSERT(core->is_following && (!core->durable_seq || seq == core->durable_seq + 1));
        int r = replay_batch(&replay, seq, batch);
        if (r == OK)
                core_tell_digest(core);
        return r;
}

int core_promote(struct core *core, struct problem *problem)
{
        ASSERT(core->is_following);
        int r = end_replay(core, problem);
        if (r != OK)
                return r;
        core->is_following = false;
        core->now.steady_ns = core->state.steady_ns; /* this machine's own may have run ahead */
        core->is_clock_told = false;
        core_sort_features(core);
        const struct core_parts *parts = core->options.parts;
        for (size_t i = 0; i < parts->n_features; i++)
                if (parts->features[i]->promoted)
                        parts->features[i]->promoted(core);
        return OK;
}

uint64_t core_digest(const struct core *core)
{
        return state_digest(&core->state);
}
