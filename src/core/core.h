/* The core: all live state and the one way through it.
 *
 * Loop thread only.  Time and dice are passed in; the log and the archive are interfaces.  The
 * server's turn:
 *
 *      core_turn(core, now)         leases end, delayed jobs fall due, waits time out
 *      core_exec(...) many times    commands of this turn, effects into the open batch
 *      core_commit(core)            the open batch goes to the log, if none is in flight
 *      core_durable(core, seq)      when the log says so: lets go of replies up to seq
 *
 * A reply made at some moment may leave when core_durable_seq() >= the core_reply_seq() of that
 * moment.  Commands that see no state (PING, HELP) need not wait. */
#ifndef WEIR_CORE_CORE_H
#define WEIR_CORE_CORE_H

#include "base/clock.h"
#include "base/rand.h"
#include "core/command.h"
#include "core/session.h"
#include "gate/gate.h"
#include "gate/level.h"
#include "gate/registry.h"
#include "gate/zone.h"

struct archive;
struct sign_keys;
struct log;

enum history_policy { HISTORY_FULL, HISTORY_FAILURES, HISTORY_NONE };

struct core_options {
        struct log *log;         /* led already; not owned */
        struct archive *archive; /* not owned; NULL: finished jobs are let go at once */
        struct rng *rng;         /* not owned */
        /* What is kept of a finished job of this queue; NULL = always HISTORY_FULL. */
        enum history_policy (*history_of)(void *ctx, struct slice queue);
        void *ctx;
        /* Keys that every job must be signed with; NULL or none: no job needs to be.  Not owned. */
        const struct sign_keys *sign_keys;
        /* Ended jobs that the archive has not confirmed, before no more work is handed out. */
        uint64_t finished_max; /* 0 = 200,000 */
        /* The log may be 2 x live bytes + this long before the cleaner works; other reserves are
         * shares of it.  0 = 40 MiB; small in simulations with small segments. */
        uint64_t log_slack_bytes;
};

struct core *core_new(const struct core_options *options);
struct core *core_free(struct core *core);
DEFINE_CLEANUP(struct core, core_free)

/* Replays the log.  Afterwards core_steady_ns() is where steady time must continue. */
int core_recover(struct core *core, struct problem *problem) MUST_CHECK;
int64_t core_steady_ns(const struct core *core);

void core_turn(struct core *core, struct now now);
/* Steady time at which core_turn must run next; INT64_MAX when nothing is due ever. */
int64_t core_next_ns(const struct core *core);

int core_exec(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem);

/* True when a batch was handed to the log.  core_commit_now: and waited for, if the log offers it.
 */
bool core_commit(struct core *core);
bool core_commit_now(struct core *core);
uint64_t core_sync_ns(const struct core *core); /* time of the last write and sync */
void core_durable(struct core *core, uint64_t seq);
bool core_is_settled(const struct core *core);   /* nothing open and nothing in flight */
bool core_is_congested(const struct core *core); /* the open batch is large: read no more input */
uint64_t core_reply_seq(const struct core *core);
uint64_t core_durable_seq(const struct core *core);

/* Databases and other things whose load decides what may run.  Before the first turn; everything is
 * copied.  Without targets only the operator's pause decides. */
struct core_metric {
        const char *name;
        struct level_rule rule;
};
struct core_target {
        const char *name;
        const struct core_metric *metrics;
        size_t n_metrics;
        int64_t dwell_ns;
        int mode;    /* enum gate_mode; -1: that of all */
        bool is_own; /* weir's own queues: queue_depth and oldest_due_s, sampled by the core */
};
struct core_throttle {
        const struct core_target *targets;
        size_t n_targets;
        struct policy policy;                  /* policy_init() and what the operator configured */
        const struct registry_entry *registry; /* on top of the defaults */
        size_t n_registry;
        unsigned ramp_cycles;  /* 0: 3 */
        int64_t ramp_cycle_ns; /* 0: 60 s */
        /* The number of jobs that run at once follows the pressure on the targets (gate/zone.h):
         * MODE_OFF, MODE_OBSERVE or MODE_ENFORCE. */
        enum gate_mode adaptive;
        struct zone_rule zone;
        /* Somebody claims and wants to know: at most once a second.  May be NULL. */
        void (*asked)(void *ctx);
        void *ctx;
};
void core_set_throttle(struct core *core, const struct core_throttle *options);
/* A metric was sampled (loop thread); steady_ns is the core's steady time of it. */
void core_sample(struct core *core, size_t target, size_t metric, double value, int64_t steady_ns,
                 bool is_error, struct slice error);

/* What /metrics tells of the gate: calls fn for each sample of each family. */
void core_each_gate_sample(const struct core *core,
                           void (*fn)(void *ctx, const char *name, const char *labels,
                                      double value),
                           void *ctx);

/* The archive has news (call on the loop thread after archive->notify). */
void core_archive_poll(struct core *core);

/* No new work is handed out from here on; waits are answered with nothing. */
void core_stop(struct core *core);

/* Counters, as rows with a sentence of meaning: INFO and /metrics walk them. */
enum counter_kind { COUNTER_TOTAL, COUNTER_GAUGE };
struct counter_row {
        const char *name; /* "jobs_enqueued" */
        enum counter_kind kind;
        const char *text;
        uint64_t value;
};
#define CORE_COUNTERS_MAX 48
size_t core_counters(const struct core *core, struct counter_row *ret, size_t max);

/* Per queue, for /metrics and QUEUES. */
struct queue_stat {
        struct slice name;
        bool is_paused;
        uint64_t ready, scheduled, waiting, running, enqueued, completed, failed, canceled;
        int64_t oldest_due_ms; /* age basis: due time of the oldest ready job, 0 = none */
};
/* Calls fn for every queue, by name. */
void core_each_queue(const struct core *core, void (*fn)(void *ctx, const struct queue_stat *),
                     void *ctx);

#endif
