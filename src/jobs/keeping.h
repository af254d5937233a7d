/* What of the ended jobs is kept in history, and the room it will need there. */
#ifndef WEIR_JOBS_KEEPING_H
#define WEIR_JOBS_KEEPING_H

#include "core/kernel.h"

/* Is a job of this queue that ends so kept? */
bool keeping_keeps(const struct core *core, const struct queue *queue, enum job_status outcome);

/* Will history have room for `bytes` and `jobs` more of this queue, beside what was accepted? */
int keeping_admit(struct core *core, struct slice queue, uint64_t bytes, uint64_t jobs,
                  struct problem *problem) MUST_CHECK;
/* The same without looking at the queue: true is enough for any. */
bool keeping_has_room(const struct core *core, uint64_t bytes, uint64_t jobs);
/* Is history without room, so that nothing should wait for it? */
bool keeping_is_stuck(const struct core *core);
/* When that is looked at again: steady ns. */
int64_t keeping_looks_ns(const struct core *core);
/* May an end carry this text?  Only short ones while the disk is full. */
int keeping_admit_text(struct core *core, size_t len, struct problem *problem) MUST_CHECK;

extern const struct feature keeping_feature;

#endif
