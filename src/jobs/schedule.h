/* Schedules in the core: schedule.c makes their jobs, schedule_command.c has the commands. */
#ifndef WEIR_JOBS_SCHEDULE_H
#define WEIR_JOBS_SCHEDULE_H

#include "core/kernel.h"

struct schedule;

/* How late a job may be made for a slot, unless WINDOW says otherwise. */
#define SCHEDULE_LATE_SKIP_MS 60000
#define SCHEDULE_LATE_ALL_MS  86400000

/* A job that a schedule made ends.  was_failed: it counted as failed before. */
void schedule_note(struct core *core, struct slice name, const struct job *job,
                   enum job_status outcome, bool was_failed);

/* Makes a job of it; slot_ms 0: outside the slots, now. */
int schedule_fire(struct core *core, struct schedule *sch, int64_t slot_ms, uint64_t *ret_id,
                  struct problem *problem) MUST_CHECK;
int64_t schedule_late_ms(const struct schedule *sch);

#endif
