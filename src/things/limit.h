/* Rate limits in the core: what a claim asks, and the places of the commands' parameters. */
#ifndef WEIR_THINGS_LIMIT_H
#define WEIR_THINGS_LIMIT_H

#include "core/kernel.h"

/* The limit that keeps the whole queue waiting now, or NULL.  Waiting claims of the queue are
 * served when it no longer does. */
struct thing *limit_of_queue(struct core *core, const struct queue *queue);
/* The first limit of its own (hook, option) that keeps this job from starting now, or NULL. */
struct thing *limit_block(struct core *core, const struct job *job);
/* The job is being started: takes from all its limits.  The two above have just returned NULL. */
void limit_start(struct core *core, const struct job *job);
/* Somebody is put on t->waiting, or passed over because of it: wakes them when it is time. */
void limit_want(struct core *core, struct thing *t);
/* How long until a start may be possible, for people. */
int64_t limit_wait_ns(const struct core *core, struct thing *t);

int exec_limit(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem);
int exec_unlimit(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem);
int exec_limits(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem);
int exec_usage(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem);
int exec_take(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem);
int exec_resetlimit(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem);

enum { P_LIMIT_NAME, P_LIMIT_AMOUNT, P_LIMIT_PERIOD, P_LIMIT_KIND, P_LIMIT_BURST };
enum {
        P_TAKE_NAME,
        P_TAKE_COST,
        P_TAKE_WAIT,
        P_TAKE_AMOUNT,
        P_TAKE_PERIOD,
        P_TAKE_KIND,
        P_TAKE_BURST,
};

#endif
