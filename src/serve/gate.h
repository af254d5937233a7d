/* The gate of a running weir: targets from the configuration, probes, and their samples brought to
 * the core. */
#ifndef WEIR_SERVE_GATE_H
#define WEIR_SERVE_GATE_H

#include "serve/config.h"

struct gate;

/* Tells the core of its targets; call before the server runs.  The config must outlive it. */
struct gate *gate_new(const struct config *config, struct core *core, int64_t steady_base_ns);
/* Starts the probes; notify is called from their threads and must lead to gate_poll(). */
int gate_start(struct gate *g, void (*notify)(void *ctx), void *ctx,
               struct problem *problem) MUST_CHECK;
void gate_poll(void *gate); /* on the loop, within a turn */
struct gate *gate_free(struct gate *g);

#endif
