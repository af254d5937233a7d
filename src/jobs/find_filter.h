/* Which jobs a listing or a bulk command means.
 *
 * A filter (core/archive.h) is texts; for live jobs it is turned into pointers first: names are
 * kept once each, so a hook, queue, group or worker is compared by address.  A live_filter holds
 * for the step it was begun in and no longer: names come and go between turns. */
#ifndef WEIR_JOBS_FIND_FILTER_H
#define WEIR_JOBS_FIND_FILTER_H

#include "base/needle.h"
#include "core/kernel.h"

/* Reads JOB_FILTER (commands.def), which is where JOBS has it; texts are copied into the arena.
 * False without memory. */
bool filter_take(struct job_filter *f, const struct command *cmd, struct arena *arena);
/* Is anything asked for at all? */
bool filter_is_any(const struct job_filter *f);
/* The registry the archive needs to know tiers; frees it again. */
void filter_lend_registry(const struct core *core, struct job_filter *f);
void filter_return_registry(struct job_filter *f);

#define FILTER_HOOKS 64

struct live_filter {
        struct core *core;
        const struct job_filter *f;
        bool is_none; /* no live job can match */
        const struct queue *queue;
        const struct name *hook, *group, *worker;
        struct needle needle;
        /* What is known of the hooks met so far, by their address. */
        struct {
                const struct name *name;
                uint8_t tier; /* 1 + enum tier */
                bool has_text;
        } hooks[FILTER_HOOKS];
};
void live_filter_begin(struct live_filter *l, struct core *core, const struct job_filter *f);
bool live_filter_has(struct live_filter *l, const struct job *job);

#endif
