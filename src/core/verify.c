/* Verification: do all machines of a cluster have the same state?
 *
 * The leader writes the steps of a digest into the log (state/digest.c), one at the end of each
 * batch until the digest is complete; when there is nothing else to write, batches of their own.
 * Each machine that has applied the last step tells the others which digest it has (log_ops.tell),
 * the leader when that batch is durable.  Who compares them is operator/cluster.c.
 *
 * A step visits a share of the slack, and twice what the batch holds.  So a batch gets longer only
 * in proportion to what it costs anyway, and the end of the live list, to which new objects go, is
 * reached under any load. */
#include "core/kernel.h"

/* 1 MiB of the usual 40 MiB: about 1 ms. */
#define STEP_BYTES(slack) ((slack) / 40)
/* A leader begins by itself: soon after it took over, and then so often. */
#define VERIFY_FIRST_NS (60 * NS_PER_S)
#define VERIFY_EVERY_NS (3600 * NS_PER_S)

bool core_can_verify(const struct core *core)
{
        return core->options.log->ops->tell != NULL;
}

uint64_t core_verify(struct core *core)
{
        ASSERT(core_can_verify(core) && !core->is_following);
        core->is_verify_wanted = !state_is_digesting(&core->state);
        return core->open_seq;
}

bool core_is_verifying(const struct core *core)
{
        return (core->is_verify_wanted || state_is_digesting(&core->state)) && !core->is_stopping &&
               !core->is_handing_over;
}

void core_verify_step(struct core *core)
{
        struct effect e = {.type = EFFECT_DIGEST,
                           .bytes = STEP_BYTES(core->options.log_slack_bytes) +
                                    2 * core->batch[core->open].len};
        if (!state_is_digesting(&core->state))
                e.from = state_digest_from(&core->state);
        core->is_verify_wanted = false;
        core_emit(core, &e);
}

void core_tell_digest(struct core *core)
{
        struct log *log = core->options.log;
        const struct digest_walk *w = &core->state.digest;
        ASSERT(w->seq <=
               core->durable_seq); /* one batch is in flight, and it ends in no later one */
        if (!core_can_verify(core) || w->seq == core->told_digest_seq)
                return;
        core->told_digest_seq = w->seq;
        log->ops->tell(log, w->seq, w->digest);
}

/* ---- by itself ---- */

static void turn(struct core *core)
{
        if (!core->options.log->ops->members) /* nobody to compare with */
                return;
        if (!core->verify_ns)
                core->verify_ns = core->now.steady_ns + VERIFY_FIRST_NS;
        if (core->now.steady_ns < core->verify_ns)
                return;
        core->verify_ns = core->now.steady_ns + VERIFY_EVERY_NS;
        (void)core_verify(core); /* nobody waits for it */
}

static int64_t next_ns(const struct core *core)
{
        return core->verify_ns ? core->verify_ns : INT64_MAX;
}

const struct feature verify_feature = {.name = "verify", .turn = turn, .next_ns = next_ns};
