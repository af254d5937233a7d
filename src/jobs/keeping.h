/* What of the ended jobs is kept in history, and the room it will need there. */
#ifndef WEIR_JOBS_KEEPING_H
#define WEIR_JOBS_KEEPING_H

#include "core/kernel.h"

void keeping_init(struct core *core);
/* Counts anew what history will need, when that may have changed. */
void keeping_turn(struct core *core);
int64_t keeping_next_ns(const struct core *core);
/* Policies have changed, by a command or by the configuration: ended jobs that nobody wants any
 * more are let go of, also those that wait for room. */
void keeping_changed(struct core *core);
/* Before a job is handed over: the archive's threads see the policy of its queue. */
void keeping_mark(struct core *core, struct queue *queue);

/* Will history have room for `bytes` and `jobs` more of this queue, beside what was accepted? */
int keeping_admit(struct core *core, struct slice queue, uint64_t bytes, uint64_t jobs,
                  struct problem *problem) MUST_CHECK;
/* The same without looking at the queue: true is enough for any. */
bool keeping_has_room(const struct core *core, uint64_t bytes, uint64_t jobs);
/* Is history without room, so that nothing should wait for it? */
bool keeping_is_stuck(const struct core *core);

#endif
