/* The probes of a running weir: targets from the configuration, a probe for each, and their samples
 * brought to the core.
 *
 * Threads: everything on the loop; probes measure in threads of their own, and those that are not
 * needed any more are stopped in another, because that may take as long as a database does not
 * answer. */
#ifndef WEIR_SERVE_PROBES_H
#define WEIR_SERVE_PROBES_H

#include "loop/loop.h"
#include "serve/config.h"

struct probes;

/* Tells the core of its targets; call before the loop runs.  Takes a reference to the config. */
struct probes *probes_new(struct config *config, struct loop *loop);
/* Tells it once more: it has forgotten them. */
void probes_tell_core(struct probes *p);
/* Starts the probes.  Their threads post to the loop, which takes what they have. */
int probes_start(struct probes *p, struct problem *problem) MUST_CHECK;
/* Another configuration: probes of targets that stay as they are go on, others are started and
 * stopped, and the core is told.  After an error everything is as it was. */
int probes_change(struct probes *p, struct config *config, struct problem *problem) MUST_CHECK;
struct probes *probes_free(struct probes *p); /* waits for the threads */

#endif
