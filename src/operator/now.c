/* See now.h.
 *
 * NOW is made of what other rooms count; nothing is kept for it. */

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

#define RATE_SECONDS   5
#define DECIMAL_DIGITS 10

/* ---- now ---- */

static void tell_decimal(struct reply *reply, const char *key, double value)
{
        reply_key(reply, key);
        reply_decimal(reply, value, DECIMAL_DIGITS);
}

static void tell_gate(struct core *core, struct reply *reply)
{
        const struct throttle *t = core->throttle;
        int64_t now = core->now.steady_ns, pause_ns = throttle_pause_ns(core);
        int64_t left_ms = pause_ns == INT64_MAX ? -1 : (pause_ns - now) / NS_PER_MS;
        tell_str(reply, "mode", mode_name(t->mode));
        tell_str(reply, "check_mode", mode_name(check_mode(core)));
        tell_str(reply, "level", level_name(t->enforced));
        tell_str(reply, "target", t->deciding >= 0 ? t->targets[t->deciding].name : "");
        tell_int(reply, "since_ms", (now - t->level_since_ns) / NS_PER_MS);
        throttle_tell_watched(core, reply);
        reply_key(reply, "paused");
        reply_bool(reply, pause_ns != 0);
        tell_int(reply, "pause_left_ms", pause_ns ? left_ms : 0);
        reply_key(reply, "targets");
        reply_list(reply, t->n_targets);
        for (size_t i = 0; i < t->n_targets; i++)
                throttle_tell_target(core, reply, &t->targets[i], false);
        reply_end(reply);
}

static void tell_by_tier(struct reply *reply, const char *key, const size_t n[TIERS])
{
        reply_key(reply, key);
        reply_map(reply, TIERS);
        for (size_t i = 0; i < TIERS; i++)
                tell_int(reply, tier_name((enum tier)i), (int64_t)n[i]);
        reply_end(reply);
}

static void tell_jobs(struct core *core, struct reply *reply)
{
        const struct state *s = &core->state;
        int64_t failed_from_ms;
        uint64_t ready = 0, scheduled = 0, waiting = 0;
        for (struct hash_node *n = NULL; (n = hash_next(&s->queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                ready += q->n_ready;
                scheduled += q->n_scheduled;
                waiting += q->n_waiting;
        }
        reply_map(reply, 9);
        tell_int(reply, "ready", (int64_t)ready);
        tell_int(reply, "scheduled", (int64_t)scheduled);
        tell_int(reply, "waiting", (int64_t)waiting);
        tell_int(reply, "running", s->running.len);
        tell_int(reply, "finished", (int64_t)s->n_finished);
        tell_int(reply, "failed_hour", (int64_t)last_hour_failed(core, &failed_from_ms));
        tell_int(reply, "failed_from_ms", failed_from_ms);
        tell_by_tier(reply, "parked", s->n_parked);
        tell_by_tier(reply, "returning", s->n_returning);
        reply_end(reply);
}

/* NAN in the first second after the start: nothing is known yet. */
static double rate_of(const struct core *core, enum series_id id)
{
        unsigned seconds = series_known(core, RATE_SECONDS);
        return seconds ? (double)series_sum(core, id, seconds) / seconds : NAN;
}

static void tell_rates(const struct core *core, struct reply *reply)
{
        double deferred = 0;
        for (size_t i = 0; i < TIERS; i++)
                deferred += rate_of(core, (enum series_id)(SERIES_DEFERRED_CRITICAL + i));
        reply_map(reply, 7);
        tell_decimal(reply, "enqueued", rate_of(core, SERIES_ENQUEUED));
        tell_decimal(reply, "started", rate_of(core, SERIES_STARTED));
        tell_decimal(reply, "completed", rate_of(core, SERIES_COMPLETED));
        tell_decimal(reply, "failed", rate_of(core, SERIES_FAILED));
        tell_decimal(reply, "deferred", deferred);
        tell_decimal(reply, "granted", rate_of(core, SERIES_GRANTED));
        tell_decimal(reply, "refused", rate_of(core, SERIES_REFUSED));
        reply_end(reply);
}

int exec_now(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        throttle_refresh(core);
        reply_map(reply, 20);
        tell_int(reply, "at_ms", core->now.wall_ms);
        tell_int(reply, "start_ms", core->start_ms);
        tell_gate(core, reply);
        reply_key(reply, "jobs");
        tell_jobs(core, reply);
        reply_key(reply, "rates");
        tell_rates(core, reply);
        reply_key(reply, "ramp");
        throttle_tell_ramp(core, reply);
        reply_key(reply, "checks");
        reply_map(reply, 3);
        tell_int(reply, "waiting", (int64_t)core->checking->n_waiting);
        tell_int(reply, "rules", (int64_t)core->state.things[THING_RULE].len);
        tell_int(reply, "starved", (int64_t)clients_starved(core));
        reply_end(reply);
        reply_key(reply, "throttle_enabled");
        reply_bool(reply, !core->throttle->is_off);
        reply_key(reply, "locks_enabled");
        reply_bool(reply, !core->are_locks_off);
        reply_key(reply, "everything_paused");
        reply_bool(reply, core->is_everything_paused);
        tell_int(reply, "events", (int64_t)core->throttle->n_events);
        reply_end(reply);
        return OK;
}
