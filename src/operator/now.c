/* The command NOW: made of what other rooms count; nothing is kept for it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/replies.h"
#include "base/shown.h"
#include "checks/check_ctx.h"
#include "numbers/last_hour.h"
#include "numbers/series.h"
#include "throttle/throttle_state.h"
#include "traffic/traffic.h"

#define RATE_SECONDS 5

/* ---- now ---- */

static void tell_targets(struct reply *reply, const struct reply_items *items)
{
        const struct target *targets = items->of;
        for (size_t i = 0; i < items->n; i++) {
                char last[THROTTLE_TEXT];
                const struct target_row_reply told =
                        throttle_target_row(items->core, &targets[i], last);
                reply_target_row(reply, &told);
        }
}

static struct tier_counts_reply by_tier(const size_t n[TIERS])
{
        return (struct tier_counts_reply){
                .critical = (int64_t)n[TIER_CRITICAL],
                .high = (int64_t)n[TIER_HIGH],
                .normal = (int64_t)n[TIER_NORMAL],
                .deferrable = (int64_t)n[TIER_DEFERRABLE],
        };
}

/* Without the counts by tier. */
static struct now_jobs_reply jobs_of(struct core *core)
{
        const struct state *s = &core->state;
        struct now_jobs_reply told = {
                .running = s->running.len,
                .finished = (int64_t)s->n_finished,
        };
        for (struct hash_node *n = NULL; (n = hash_next(&s->queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                told.ready += (int64_t)q->n_ready;
                told.scheduled += (int64_t)q->n_scheduled;
                told.waiting += (int64_t)q->n_waiting;
        }
        told.failed_hour = (int64_t)last_hour_failed(core, &told.failed_from_ms);
        return told;
}

/* NAN in the first second after the start: nothing is known yet. */
static double rate_of(const struct core *core, enum series_id id)
{
        unsigned seconds = series_known(core, RATE_SECONDS);
        return seconds ? (double)series_sum(core, id, seconds) / seconds : NAN;
}

static struct rates_reply rates_of(const struct core *core)
{
        double deferred = 0;
        for (size_t i = 0; i < TIERS; i++)
                deferred += rate_of(core, (enum series_id)(SERIES_DEFERRED_CRITICAL + i));
        return (struct rates_reply){
                .enqueued = rate_of(core, SERIES_ENQUEUED),
                .started = rate_of(core, SERIES_STARTED),
                .completed = rate_of(core, SERIES_COMPLETED),
                .failed = rate_of(core, SERIES_FAILED),
                .deferred = deferred,
                .granted = rate_of(core, SERIES_GRANTED),
                .refused = rate_of(core, SERIES_REFUSED),
        };
}

int exec_now(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        throttle_refresh(core);
        const struct throttle *t = core->throttle;
        int64_t now = core->now.steady_ns, pause_ns = throttle_pause_ns(core);
        int64_t left_ms = pause_ns == INT64_MAX ? -1 : (pause_ns - now) / NS_PER_MS;
        struct now_jobs_reply jobs = jobs_of(core);
        const struct tier_counts_reply parked = by_tier(core->state.n_parked);
        const struct tier_counts_reply returning = by_tier(core->state.n_returning);
        const struct rates_reply rates = rates_of(core);
        const struct ramp_reply ramp = throttle_ramp(core);
        const struct now_checks_reply checks = {
                .waiting = (int64_t)core->checking->n_waiting,
                .rules = (int64_t)core->state.things[THING_RULE].len,
                .starved = (int64_t)clients_starved(core),
        };
        struct archive_stat stat;
        core_archive_stat(core, &stat);
        const struct now_history_reply history = {
                .failing_since_ms = stat.failing_since_ms ? stat.failing_since_ms : REPLY_NONE,
                .problem = slice_str(stat.failing),
                .waiting = (int64_t)(core->state.n_finished - core->state.grace.len),
        };
        jobs.parked = &parked;
        jobs.returning = &returning;
        const struct now_reply told = {
                .at_ms = core->now.wall_ms,
                .start_ms = core->start_ms,
                .mode = mode_name(t->mode),
                .check_mode = mode_name(check_mode(core)),
                .doors_mode = mode_name(traffic_doors_mode(core)),
                .level = level_name(t->enforced),
                .target = t->deciding >= 0 ? t->targets[t->deciding].name : "",
                .since_ms = (now - t->level_since_ns) / NS_PER_MS,
                .observed_level = level_name(t->watched),
                .observed_target = t->watching >= 0 ? t->targets[t->watching].name : "",
                .paused = pause_ns != 0,
                .pause_left_ms = pause_ns ? left_ms : 0,
                .targets = {t->n_targets, tell_targets, core, t->targets},
                .jobs = &jobs,
                .rates = &rates,
                .ramp = &ramp,
                .checks = &checks,
                .history = &history,
                .throttle_enabled = !t->is_off,
                .locks_enabled = !core->are_locks_off,
                .everything_paused = core->is_everything_paused,
                .events = (int64_t)t->n_events,
        };
        reply_now(reply, &told);
        return OK;
}
