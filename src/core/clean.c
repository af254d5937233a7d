/* The cleaner: keeps the log short by writing live objects again.
 *
 * The live list is in log order (state/live.h), so its head is the object that keeps the oldest
 * part of the log alive.  While the log is longer than 2 x live bytes + slack, each turn
 * writes the heads again: at least twice the bytes the turn itself wrote, so the cleaner always
 * gains on the load, and at most CLEAN_STEP_MAX, so no turn is long.
 *
 * Cost: an object is written again once per trip of the head around the log.  With the log at
 * twice the live bytes, half of what it meets is dead already and costs nothing.  A queue that is
 * drained as fast as it is filled is cleaned for almost nothing. */
#include "core/kernel.h"

/* Shares of the slack: 64 KiB and 1 MiB of the usual 40 MiB. */
#define CLEAN_STEP_MIN(slack) ((slack) / 640)
#define CLEAN_STEP_MAX(slack) ((slack) / 40)

static void write_again(struct core *core, const struct live *live)
{
        struct effect e = {0};
        switch ((enum live_kind)live->kind) {
        case LIVE_META:
                e.type = EFFECT_META_FULL;
                e.next_id = core->state.next_id;
                e.fence = core->state.fence;
                e.next_queue_id = core->state.next_queue_id;
                break;
        case LIVE_QUEUE:
                effect_of_queue(CONTAINER_OF(live, const struct queue, live), &e);
                break;
        case LIVE_JOB:
                effect_of_job(CONTAINER_OF(live, const struct job, live), &e);
                break;
        case LIVE_THING:
                effect_of_thing(&core->state, CONTAINER_OF(live, const struct thing, live),
                                &core->body, &e);
                break;
        case LIVE_MARK:
                ASSERT(!"the mark is no object");
        }
        core_emit(core, &e);
        core->totals.cleaned_objects++;
}

void core_clean(struct core *core)
{
        struct buf *b = &core->batch[core->open];
        uint64_t slack = core->options.log_slack_bytes;
        uint64_t allowed = 2 * core->state.live_bytes + slack;
        if (core->log_stat.retained_bytes <= allowed || core_is_congested(core))
                return;
        uint64_t budget = 2 * b->len;
        if (budget < CLEAN_STEP_MIN(slack))
                budget = CLEAN_STEP_MIN(slack);
        if (budget > CLEAN_STEP_MAX(slack))
                budget = CLEAN_STEP_MAX(slack);
        size_t before = b->len;
        while (b->len - before < budget) {
                const struct live *oldest = state_oldest(&core->state);
                if (oldest->seq >= core->log_stat.head_seq)
                        break; /* what is left lies in the head, which cannot be given back */
                write_again(core, oldest);
        }
        core->totals.cleaned_bytes += b->len - before;
}
