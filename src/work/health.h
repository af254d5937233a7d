/* A worker's health for a monitor: a file of JSON, replaced as a whole. */
#ifndef WEIR_WORK_HEALTH_H
#define WEIR_WORK_HEALTH_H

#include "base/err.h"

struct health {
        const char *state; /* "working", "idle", "draining", "disconnected" */
        const char *name;
        size_t slots, running, held, reporting;
        uint64_t completed, failed, released, lost;
        uint64_t memory_bytes;
};

/* Writes beside the file and renames: a reader sees the old or the new one, never half of one. */
int health_write(const char *path, const struct health *h, struct problem *p) MUST_CHECK;
uint64_t health_memory_bytes(void); /* what this process has in memory; 0 = cannot tell */

#endif
