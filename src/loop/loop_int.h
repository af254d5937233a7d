/* What the files of this room share.  Only files in loop/ include this. */
#ifndef WEIR_LOOP_LOOP_INT_H
#define WEIR_LOOP_LOOP_INT_H

#include "loop/loop.h"

/* For idle handles: while one is active, polls do not sleep, and that is all. */
void loop_on_idle(uv_idle_t *handle);

/* commit.c: hands the open batch to the log, unless one is in flight or more is expected soon. */
void loop_hand_over_batch(struct loop *l);
/* commit.c: a wait for more is over, of a loop. */
void loop_on_gather_late(void *ctx);
/* commit.c: takes what the log has reported since the last call. */
void loop_take_durable(struct loop *l);

/* mailbox.c */
int loop_mailbox_init(struct loop *l);

#define EACH_MEMBER(l, m)                                                                          \
        for (const struct loop_member *m = (l)->members; m < (l)->members + (l)->n_members; m++)

#endif
