/* A schedule: what to run, and the slots at which a job of it is made.
 *
 * A slot is a moment of the wall clock, in Unix ms.  Those of an interval are first + k * every,
 * counted from the first, so they never drift; those of a cron expression follow from it and its
 * zone.  No slot lies before `first` or after `until`.
 *
 * `cursor_ms` says how far it is: every slot up to it was served, skipped or missed, no later one
 * was.  It only grows, so a wall clock that goes back cannot make a slot fire twice.  The next slot
 * is the first after the cursor: derived, as the alarm is.
 *
 * Records:
 *      THING_SET    definition and past, whole
 *      JOB_NEW      of a job that names the schedule and a slot: the job is made and the cursor
 *                   moves to its slot, in one record.  That is what "exactly once" rests on.
 *      THING_NOTE   the rest: slots passed without a job, ends that count, pause and resume
 *
 * Jobs that have not ended know their schedule (`jobs`): not in the log, it follows from the jobs.
 * So a schedule may exist without the log knowing of it, while jobs of a removed one live.
 *
 * Invariants, checked by its check():
 *   (1) next_ms is the first slot after the cursor, and the alarm is set if and only if it is
 * ACTIVE and has a next slot (or rings at this moment) (2) last_slot_ms <= cursor_ms */
#ifndef WEIR_STATE_SCHEDULE_H
#define WEIR_STATE_SCHEDULE_H

#include "base/cron.h"
#include "base/tz.h"
#include "state/option.h"
#include "state/thing.h"

/* Times are kept within 1970 and the year 3000, whatever a wall clock says: no slot lies elsewhere.
 */
#define SCHEDULE_TIME_MAX_MS 32503680000000

/* Numbers in the log. */
enum schedule_missed { MISSED_SKIP, MISSED_ONE, MISSED_ALL, MISSED_COUNT };
enum schedule_overlap { OVERLAP_SKIP, OVERLAP_QUEUE, OVERLAP_ALLOW, OVERLAP_CANCEL, OVERLAP_COUNT };
enum schedule_status { SCHEDULE_ACTIVE, SCHEDULE_PAUSED, SCHEDULE_STOPPED, SCHEDULE_STATUS_COUNT };

/* Texts are borrowed. */
struct schedule_def {
        /* When. */
        struct slice cron; /* empty: an interval */
        struct slice zone; /* of the expression; empty: UTC */
        int64_t every_ms;
        int64_t first_ms;    /* the first slot of an interval; no cron slot is before it (0: any) */
        int64_t until_ms;    /* 0 = no end */
        bool is_first_given; /* else first_ms was made from the time of the command */
        /* How. */
        int64_t jitter_ms;
        int64_t window_ms;   /* how late a job may be made for a slot; 0 = as the policy has it */
        uint64_t stop_after; /* failures in a row; 0 = never */
        uint8_t missed, overlap;
        /* What. */
        uint8_t priority;
        uint16_t attempts;
        uint32_t timeout_ms;
        uint64_t expires_in;
        struct slice hook, args, queue, group;
        struct job_options options; /* as given; `backoff` is the text */
};

struct schedule_past {
        uint8_t status;
        int64_t cursor_ms;
        int64_t last_slot_ms; /* the last one that made a job; 0 = none */
        uint64_t last_job;    /* 0 = none */
        uint64_t since_id;    /* jobs from here on are of this definition: only they count */
        uint64_t failures;    /* in a row */
        uint64_t stop_job;    /* the job whose failure stopped it; 0 = it is not stopped */
        uint64_t n_jobs;
        uint64_t n_missed;     /* slots over before a job could be made for them */
        uint64_t n_overlapped; /* slots skipped because a job had not ended */
};

/* The slots of a definition, ready to be asked. */
struct slots {
        const struct tz *tz; /* NULL: there are none, the zone cannot be read */
        bool is_cron;
        struct cron cron;
        int64_t every_ms, first_ms, until_ms; /* until_ms: INT64_MAX = no end */
};

struct schedule {
        struct thing thing;
        struct buf text; /* the packed definition, which def borrows from */
        struct schedule_def def;
        struct schedule_past past;

        /* Not durable. */
        struct slots slots;
        int64_t next_ms;  /* INT64_MAX = none */
        struct list jobs; /* job_extra.sibling of those that have not ended, oldest first */
        size_t n_jobs;    /* on that list */
        size_t n_tied;    /* jobs that point here, ended ones too */
        char *trouble;    /* why no job can be made for its slot; NULL = nothing is wrong */
};

static inline struct schedule *schedule_of(struct thing *t)
{
        return CONTAINER_OF(t, struct schedule, thing);
}

static inline int64_t schedule_time(int64_t ms)
{
        if (ms < 0)
                return 0;
        return ms < SCHEDULE_TIME_MAX_MS ? ms : SCHEDULE_TIME_MAX_MS;
}

/* ERR_BADARG when the expression or the zone is none. */
int slots_init(struct slots *ret, const struct schedule_def *def,
               struct problem *problem) MUST_CHECK;
/* The first slot after that time; INT64_MAX: none. */
int64_t slots_next(const struct slots *s, int64_t after_ms);
/* The last slot in (after_ms, until_ms], of which there must be one. */
int64_t slots_newest(const struct slots *s, int64_t after_ms, int64_t until_ms);
/* How many slots are in (after_ms, until_ms]; of a cron expression at most `max` are counted. */
uint64_t slots_count(const struct slots *s, int64_t after_ms, int64_t until_ms, uint64_t max);

/* Bodies. */
void schedule_put(const struct schedule_def *def, const struct schedule_past *past,
                  struct buf *body);
void schedule_put_pass(struct buf *body, int64_t cursor_ms, uint64_t missed, uint64_t overlapped);
void schedule_put_end(struct buf *body, uint64_t failures, uint64_t stop_job);
void schedule_put_pause(struct buf *body);
void schedule_put_resume(struct buf *body);

struct job;
/* A job of a schedule was made (apply.c): the cursor moves to its slot, if it has one. */
void schedule_fired(struct state *s, const struct job *job);

void schedule_trouble(struct schedule *sch, const char *why); /* NULL: it is over */

#endif
