/* A feature: what a room above the kernel adds to it.
 *
 * The kernel knows no feature by name.  It is given a table of them (core_options.parts; the one of
 * weir is features/features.c) and calls their operations in the order of that table.  Each may be
 * NULL. */
#ifndef WEIR_CORE_FEATURE_H
#define WEIR_CORE_FEATURE_H

#include <stddef.h>
#include <stdint.h>

#include "api/command.h"

struct core;
struct queue;
struct thing;
struct thing_ops;

struct feature {
        const char *name;
        bool is_local; /* turn(), next_ns() and settle() are called while the core follows, too */
        void (*init)(struct core *core);    /* makes its state; nothing is replayed yet */
        void (*release)(struct core *core); /* frees its state; that of the kernel is still there */
        void (*turn)(struct core *core);    /* once a turn, before its commands */
        /* Steady time at which turn() has something to do; INT64_MAX: never. */
        int64_t (*next_ns)(const struct core *core);
        /* Before each commit: does what follows from the commands of this turn. */
        void (*settle)(struct core *core);
        /* The open batch is closed next: last chance to write into it what it must hold. */
        void (*close)(struct core *core);
        /* The core followed, and leads from here on. */
        void (*promoted)(struct core *core);
        /* Ended jobs of this queue are handed to the archive next. */
        void (*hand_over)(struct core *core, struct queue *queue);
        /* The archive has stored n jobs; the log has let go of them. */
        void (*stored)(struct core *core, size_t n);
        /* Settings were changed by a command (state/setting.h). */
        void (*settings_changed)(struct core *core);
        /* The time of a setting is over; it is removed next. */
        void (*setting_ended)(struct core *core, struct slice name);
        /* The last turn is over; the archive is still open. */
        void (*end)(struct core *core);
        /* Asserts the invariants of its state (debug and sanitizer builds). */
        void (*check)(const struct core *core);
};

/* Called when the alarm of a named thing rang; the thing is off the heap.  It must emit what
 * follows from that (an effect whose set or note arms the next alarm), or arm it again with
 * thing_alarm().
 */
typedef void (*thing_due)(struct core *core, struct thing *t);

struct core_parts {
        const struct feature *const *features;
        size_t n_features;
        const struct thing_ops *const *thing_kinds; /* by enum thing_kind, state/thing.h */
        const thing_due *thing_due;                 /* by enum thing_kind */
        const command_exec *execs;                  /* by enum command_id */
        /* Runs a command with core_run() and keeps what it changed; notes one that was refused. */
        command_exec audit_exec;
        void (*audit_refused)(struct core *core, const struct session *s, const char *what,
                              const struct problem *p);
};

#define CORE_FEATURES_MAX 32

#endif
