/* What happens when the time of a slot has come.
 *
 * The alarm of a schedule is its next slot.  When it rings, everything is decided again from the
 * cursor and the wall clock, so it does not matter why it rings late: weir was down, the clock was
 * set forward, the disk was full, or the loop was busy.
 *
 *      cursor             late              newest          now
 *        |----x------x------|----x-------x----x--------------|
 *          over: missed      `all`: one each
 *                            `one`, `skip`: a job for the newest, the others are missed
 *
 * `late` is now - WINDOW.  A newest slot that is older than that makes no job: with `skip` the
 * window is a minute, so that a job that was merely delayed still runs; with `one` it has no bound.
 *
 * One call serves one slot.  With many to make up for, the alarm stays in the past and rings again,
 * as often per turn as core/thing.c allows, so a long absence does not stop the loop.
 *
 * The job and its slot are one record (state/schedule.h).  There is no moment at which a crash
 * could make a second job for a slot, or lose one. */
#include "jobs/schedule.h"

#include <stdio.h>

#include "base/say.h"
#include "jobs/enqueue.h"
#include "jobs/job_end.h"
#include "jobs/keeping.h"
#include "jobs/queues.h"
#include "state/schedule.h"

/* Until a job that could not be made is tried again. */
#define RETRY_MS 1000
/* A job's record beside its args: names, options. */
#define JOB_BYTES 2048
/* Jobs canceled at a time, so that one turn stays short. */
#define CANCEL_STEPS 1000
/* OVERLAP queue: a job waits for the last so many of those before it.  The last one would do, were
 * it not that people cancel jobs. */
#define AFTER_JOBS 32
/* Missed slots of a cron expression that are counted at a time: only the figure suffers. */
#define COUNT_MAX 1000

int64_t schedule_late_ms(const struct schedule *sch)
{
        static const int64_t late_ms[MISSED_COUNT] = {
                [MISSED_SKIP] = SCHEDULE_LATE_SKIP_MS,
                [MISSED_ONE] = INT64_MAX,
                [MISSED_ALL] = SCHEDULE_LATE_ALL_MS,
        };
        return sch->def.window_ms ? sch->def.window_ms : late_ms[sch->def.missed];
}

/* ---- one job ---- */

static void fill_spec(const struct schedule *sch, int64_t slot_ms, struct job_spec *spec)
{
        const struct schedule_def *d = &sch->def;
        *spec = (struct job_spec){
                .hook = d->hook,
                .args = d->args,
                .queue = d->queue,
                .group = d->group,
                .priority = d->priority,
                .attempts = d->attempts,
                .timeout_ms = d->timeout_ms,
                .has_options = true,
                .expires_in = d->expires_in,
                .options = d->options,
        };
        spec->options.schedule = thing_name(&sch->thing);
        spec->options.slot_ms = (uint64_t)slot_ms;
}

/* Of a schedule with OVERLAP queue: the ids it comes after, as ENQUEUE would take them. */
static void come_after(const struct schedule *sch, struct job_spec *spec, struct buf *ids)
{
        size_t skip = sch->n_jobs > AFTER_JOBS ? sch->n_jobs - AFTER_JOBS : 0;
        LIST_FOREACH(&sch->jobs, it)
        {
                if (skip) {
                        skip--;
                        continue;
                }
                const struct job_extra *x = CONTAINER_OF(it, struct job_extra, sibling);
                if (ids->len)
                        buf_put_byte(ids, ',');
                buf_put_u64(ids, job_id(x->job));
        }
        spec->after = buf_slice(ids);
        spec->options.when = AFTER_ENDED;
}

static int check_room(struct core *core, const struct schedule *sch, struct problem *problem)
{
        if (core_is_congested(core))
                return problem_set(problem, ERR_UNAVAIL, "the log is behind");
        size_t bytes = JOB_BYTES + sch->def.args.len;
        int r = queue_admit(core, sch->def.queue, problem);
        if (r == OK)
                r = core_admit(core, bytes, 1, problem);
        return r == OK ? keeping_admit(core, sch->def.queue, bytes, 1, problem) : r;
}

int schedule_fire(struct core *core, struct schedule *sch, int64_t slot_ms, uint64_t *ret_id,
                  struct problem *problem)
{
        struct buf ids CLEANUP(buf_release) = {0};
        struct job_spec spec;
        int r = check_room(core, sch, problem);
        if (r != OK)
                return r;
        fill_spec(sch, slot_ms, &spec);
        if (slot_ms && sch->def.jitter_ms)
                spec.at_ms = slot_ms + (int64_t)rng_below(core->options.rng,
                                                          (uint64_t)sch->def.jitter_ms + 1);
        if (slot_ms && sch->def.overlap == OVERLAP_QUEUE && sch->n_jobs)
                come_after(sch, &spec, &ids);
        r = enqueue_one(core, &spec, ret_id, problem);
        if (r == OK)
                core->totals.slots_fired += slot_ms != 0;
        return r;
}

/* ---- a slot ---- */

static void pass(struct core *core, struct schedule *sch, int64_t cursor_ms, uint64_t missed,
                 uint64_t overlapped)
{
        buf_clear(&core->body);
        schedule_put_pass(&core->body, cursor_ms, missed, overlapped);
        thing_note(core, &sch->thing, buf_slice(&core->body));
        core->totals.slots_missed += missed;
        core->totals.slots_overlapped += overlapped;
}

/* The slot that is to make a job now; 0: none of those that are over. */
static int64_t choose_slot(const struct schedule *sch, int64_t now_ms)
{
        int64_t window_ms = schedule_late_ms(sch), cursor_ms = sch->past.cursor_ms;
        int64_t late_ms = window_ms < now_ms ? now_ms - window_ms : 0;
        if (sch->def.missed == MISSED_ALL) {
                int64_t slot =
                        slots_next(&sch->slots, late_ms - 1 > cursor_ms ? late_ms - 1 : cursor_ms);
                return slot <= now_ms ? slot : 0;
        }
        int64_t newest = slots_newest(&sch->slots, cursor_ms, now_ms);
        return newest >= late_ms ? newest : 0;
}

/* Moves the cursor to just before `to_ms`, over slots that make no job. */
static void miss_up_to(struct core *core, struct schedule *sch, int64_t to_ms)
{
        uint64_t n = slots_count(&sch->slots, sch->past.cursor_ms, to_ms, COUNT_MAX);
        if (!n)
                return;
        say_info("core", "slots of a schedule were missed", "schedule", sch->thing.name, "slots",
                 SAY_I64(n), "until_ms", SAY_I64(to_ms));
        pass(core, sch, to_ms, n, 0);
}

/* Makes way for the job of this slot; false: it makes none, or not yet. */
static bool meet_overlap(struct core *core, struct schedule *sch, int64_t slot_ms)
{
        struct list *first = list_peek_front(&sch->jobs);
        if (!first || sch->def.overlap == OVERLAP_ALLOW || sch->def.overlap == OVERLAP_QUEUE)
                return true;
        if (sch->def.overlap == OVERLAP_SKIP) {
                const struct job_extra *x = CONTAINER_OF(first, struct job_extra, sibling);
                say_info("core", "a slot was skipped: the job before has not ended", "schedule",
                         sch->thing.name, "slot_ms", SAY_I64(slot_ms), "job",
                         SAY_I64(job_id(x->job)));
                pass(core, sch, slot_ms, 0, 1);
                return false;
        }
        for (int n = 0; n < CANCEL_STEPS && (first = list_peek_front(&sch->jobs)); n++)
                job_cancel(core, CONTAINER_OF(first, struct job_extra, sibling)->job,
                           SLICE_LIT("the next run of its schedule took its place"));
        if (first)
                thing_alarm(&core->state, &sch->thing, slot_ms); /* more of them in a moment */
        return !first;
}

/* No job can be made for it now: said once, tried again. */
static void put_off(struct core *core, struct schedule *sch, const struct problem *problem)
{
        if (!sch->trouble)
                say_warn("core", "a schedule could not make its job and tries again", "schedule",
                         sch->thing.name, "why", problem->detail);
        schedule_trouble(sch, problem->detail);
        thing_alarm(&core->state, &sch->thing, core->now.wall_ms + RETRY_MS);
}

void schedule_due(struct core *core, struct thing *t)
{
        struct schedule *sch = schedule_of(t);
        struct problem problem;
        int64_t now_ms = core->now.wall_ms;
        uint64_t id;
        if (sch->next_ms > now_ms) { /* the clock was set back while a slot was put off */
                thing_alarm(&core->state, t, sch->next_ms);
                return;
        }
        if (check_room(core, sch, &problem) != OK) {
                put_off(core, sch, &problem);
                return;
        }
        int64_t slot_ms = choose_slot(sch, now_ms);
        miss_up_to(core, sch, slot_ms ? slot_ms - 1 : now_ms);
        if (slot_ms && meet_overlap(core, sch, slot_ms) &&
            schedule_fire(core, sch, slot_ms, &id, &problem) != OK) {
                put_off(core, sch, &problem);
                return;
        }
        schedule_trouble(sch, NULL);
        if (sch->past.status == SCHEDULE_ACTIVE && sch->next_ms == INT64_MAX)
                say_info("core", "a schedule is done: it has no more slots", "schedule",
                         sch->thing.name);
}

/* ---- the end of a job ---- */

static void note_end(struct core *core, struct schedule *sch, uint64_t failures, uint64_t stop_job)
{
        buf_clear(&core->body);
        schedule_put_end(&core->body, failures, stop_job);
        thing_note(core, &sch->thing, buf_slice(&core->body));
}

static void note_failed(struct core *core, struct schedule *sch, const struct job *job)
{
        uint64_t failures = sch->past.failures + 1, after = sch->def.stop_after;
        bool is_over = after && failures >= after && sch->past.status == SCHEDULE_ACTIVE;
        note_end(core, sch, failures, is_over ? job_id(job) : sch->past.stop_job);
        if (is_over)
                say_warn("core", "a schedule is stopped: its jobs failed too often in a row",
                         "schedule", sch->thing.name, "failures", SAY_I64(failures), "job",
                         SAY_I64(job_id(job)));
}

/* A late completion takes back the failure that stopped it. */
static void note_complete(struct core *core, struct schedule *sch, const struct job *job,
                          bool was_failed)
{
        if (was_failed && sch->past.status == SCHEDULE_STOPPED &&
            sch->past.stop_job == job_id(job)) {
                buf_clear(&core->body);
                schedule_put_resume(&core->body);
                thing_note(core, &sch->thing, buf_slice(&core->body));
                say_info("core", "a schedule goes on: the job that stopped it was completed late",
                         "schedule", sch->thing.name, "job", SAY_I64(job_id(job)));
        } else if (sch->past.failures && sch->past.status != SCHEDULE_STOPPED) {
                note_end(core, sch, 0, 0);
        }
}

void schedule_note(struct core *core, struct slice name, const struct job *job,
                   enum job_status outcome, bool was_failed)
{
        struct thing *t = thing_find(&core->state, THING_SCHEDULE, name);
        if (!t || !thing_is_durable(t) || job_id(job) < schedule_of(t)->past.since_id)
                return;
        if (outcome == JOB_FAILED)
                note_failed(core, schedule_of(t), job);
        else if (outcome == JOB_COMPLETE)
                note_complete(core, schedule_of(t), job, was_failed);
}
