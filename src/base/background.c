/* See background.h.  Both are allowed to every user; where they fail, answers are a little later.
 */
#include "base/background.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOWER_NICE 5

void background_set(bool is_background)
{
        const struct sched_param none = {0};
        (void)sched_setscheduler(0, is_background ? SCHED_BATCH : SCHED_OTHER, &none);
}

void background_lower(void)
{
        background_set(true);
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), LOWER_NICE); /* Linux: of this thread */
}
