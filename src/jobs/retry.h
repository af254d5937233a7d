/* Running jobs again: what the rest of the core calls. */
#ifndef WEIR_JOBS_RETRY_H
#define WEIR_JOBS_RETRY_H

#include "core/kernel.h"

/* Only one at a time has something of history in its hands that it is going to change: a job to be
 * made live again, rows to be deleted.  The others wait in line. */
struct asker {
        struct list link;
        bool is_asked; /* it is its turn */
        void (*ask)(struct core *core, struct asker *a);
        /* weir is stopping; it is not in line any more */
        void (*refuse)(struct core *core, struct asker *a);
};
void asker_queue(struct core *core, struct asker *a); /* at the end of the line */
/* It is done, or wants its turn no longer; in line or not. */
void asker_leave(struct asker *a);
void ask_next(struct core *core);                     /* the first in line has its turn */
void asker_begin(struct core *core, struct asker *a); /* asker_queue(), then ask_next() */

/* A pending job that waits for its time waits no longer. */
int job_be_due(struct core *core, const struct job *job, struct slice why,
               struct problem *problem) MUST_CHECK;

extern const struct feature retry_feature;

#endif
