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

#include "api/command.h"
#include "api/session.h"
#include "base/clock.h"
#include "base/rand.h"
#include "gate/check.h"
#include "gate/credit.h"
#include "gate/gate.h"
#include "gate/level.h"
#include "gate/registry.h"
#include "gate/zone.h"

struct archive;
struct backoff;
struct sign_keys;
struct log;

enum history_policy { HISTORY_FULL, HISTORY_FAILURES, HISTORY_NONE };

struct core_parts;

struct core_options {
        const struct core_parts *parts; /* core/feature.h; not owned */
        struct log *log;                /* led already, or followed; not owned */
        struct archive *archive;        /* not owned; NULL: finished jobs are let go at once */
        struct rng *rng;                /* not owned */
        /* What is kept of a finished job of this queue; NULL = always HISTORY_FULL. */
        enum history_policy (*history_of)(void *ctx, struct slice queue);
        void *ctx;
        /* Keys that every job must be signed with; NULL or none: no job needs to be.  Not owned. */
        const struct sign_keys *sign_keys;
        /* How long failed jobs wait whose queue and enqueue say nothing; NULL: not at all.  Not
         * owned.
         */
        const struct backoff *backoff;
        /* Ended jobs that the archive has not confirmed, before no more work is handed out. */
        uint64_t finished_max; /* 0 = 200,000 */
        /* The log may be 2 x live bytes + this long before the cleaner works; other reserves are
         * shares of it.  0 = 40 MiB; small in simulations with small segments. */
        uint64_t log_slack_bytes;
        /* Leases, waits and alarms that end in one turn, each, and jobs that are told of an end.  0
         * = 2,000; few in simulations, so that small crowds take several batches. */
        int turn_steps;
        /* A clock for how long a listing may hold a turn; NULL: its steps are counted instead, so
         * that a simulation does the same each time. */
        int64_t (*watch_ns)(void);
};

struct core *core_new(const struct core_options *options);
struct core *core_free(struct core *core);
DEFINE_CLEANUP(struct core, core_free)

/* Replays the log.  Afterwards core_steady_ns() is where steady time must continue. */
int core_recover(struct core *core, struct problem *problem) MUST_CHECK;
int64_t core_steady_ns(const struct core *core);

/* ---- a core that follows (log/log.h) ----
 *
 * Instead of being recovered it takes batches as they arrive, and is promoted when its machine
 * leads.  Until then nothing is true by its own decision: turns keep levels, checks and MySQL doors
 * up to date, from the settings, rules and tokens that arrived; commands with COMMAND_LOCAL may be
 * run, all others are ERR_UNAVAIL. */

void core_follow(struct core *core);
bool core_is_following(const struct core *core);
struct log_member;
/* The machines that share the log, as log_ops.members; none when weir is alone. */
size_t core_members(const struct core *core, struct log_member *ret, size_t max);
int core_arrive(struct core *core, uint64_t seq, struct slice batch,
                struct problem *problem) MUST_CHECK;
/* All has arrived: as after core_recover(). */
int core_promote(struct core *core, struct problem *problem) MUST_CHECK;
/* Back to what core_new() made: nothing has arrived, nothing is configured.  No session has a wait
 * or a grant any more, and the archive nothing to report. */
void core_empty(struct core *core);
/* A digest of all that is durable: equal on all machines after the same batch.  Looks at
 * everything. */
uint64_t core_digest(const struct core *core);

/* May what is in memory be told, at that CLOCK_BOOTTIME?  Not when another machine could lead by
 * now.  A core that follows tells nothing that could be stale. */
bool core_may_tell(const struct core *core, int64_t boot_ns);

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
bool core_is_shared(const struct core *core);   /* its log is one of several machines */
void core_log_gives_way(struct core *core, bool is_giving_way); /* log.h: give_way */
uint64_t core_live_bytes(const struct core *core); /* of all live objects, as records of the log */
void core_durable(struct core *core, uint64_t seq);
bool core_is_settled(const struct core *core);   /* nothing open and nothing in flight */
bool core_is_congested(const struct core *core); /* the open batch is large: read no more input */
uint64_t core_reply_seq(const struct core *core);
uint64_t core_durable_seq(const struct core *core);

/* Databases and other things whose load decides what may run; everything is copied.  Without
 * targets only the operator's pause decides.  Called again it replaces what was set before: targets
 * and metrics of the same names keep their levels, values and parked asks. */
struct core_metric {
        const char *name;
        struct level_rule rule;
        double check_above;    /* threshold of the check door; NAN: it has none */
        bool is_checked;       /* without METRICS the target is checked by this one */
        bool is_running;       /* its value: statements that run at a database server */
        bool is_written;       /* the operator wrote its thresholds; else they are the usual ones */
        bool is_percent;       /* its value is at most 100 */
        bool is_auto[2];       /* elevated, critical: as learned; until then by default */
        bool is_default;       /* the file has neither of its thresholds */
        bool is_check_default; /* nor that of its check */
        bool is_by_cores;      /* its default thresholds follow the processors of the server */
        /* The thresholds of a metric of that name by default; only these of the rule.  NAN: none */
        struct level_rule shipped;
};
struct core_target {
        const char *name;
        const struct core_metric *metrics;
        size_t n_metrics;
        int64_t dwell_ns;
        int mode;         /* enum gate_mode; -1: that of all */
        bool is_own;      /* weir's own queues: queue_depth and oldest_due_s, sampled by the core */
        const char *kind; /* "mysql"; NULL: none */
        struct unknown_rule unknown[TIERS]; /* what a check gets while a metric is unknown */
};
/* The check door. */
struct core_checks {
        enum gate_mode mode;     /* of checks: who asks wants to know, so by default enforce */
        int64_t rule_max_ms;     /* longest rule; 0: 7 days */
        bool is_endless_allowed; /* a rule may have no end */
        int64_t starved_ms;      /* not granted for so long is starved; 0: 5 min */
        double exempt_budget; /* share of time over the threshold an exemption may have; 0: 0.2 */
        bool exempt_ends;     /* past it every exemption ends, not only those that say so */
        struct credit_rule credit;
};

struct core_throttle {
        const struct core_target *targets;
        size_t n_targets;
        struct policy policy;                  /* policy_init() and what the operator configured */
        bool is_off;                           /* the gate of jobs is switched off, mode or not */
        const struct registry_entry *registry; /* on top of the defaults */
        size_t n_registry;
        unsigned ramp_cycles;  /* 0: 3 */
        int64_t ramp_cycle_ns; /* 0: 60 s */
        /* The number of jobs that run at once follows the pressure on the targets (gate/zone.h):
         * MODE_OFF, MODE_OBSERVE or MODE_ENFORCE. */
        enum gate_mode adaptive;
        struct zone_rule zone;
        struct core_checks checks;
        /* Somebody claims and wants to know: at most once a second.  May be NULL. */
        void (*asked)(void *ctx);
        /* The hosts that are skipped changed (core_each_skipped).  May be NULL. */
        void (*skips_changed)(void *ctx);
        void *ctx;
};
void core_set_throttle(struct core *core, const struct core_throttle *options);
/* The server of the target has so many processors; 0, or more than CORE_CORES_MAX: not known. */
#define CORE_CORES_MAX 1024
void core_set_cores(struct core *core, size_t target, unsigned cores);
/* Whether locks are switched off, as configured; the setting locks.enabled comes before it.  While
 * they are, nobody is granted one, and whoever waits is told; holders keep theirs. */
void core_set_locks(struct core *core, bool is_off);
/* core_options.history_of answers otherwise now. */
void core_history_changed(struct core *core);
/* A metric was sampled (loop thread); steady_ns is the core's steady time of it.  The remark says
 * why there is no value, or what there is to say of a good one (replicas that were left out). */
void core_sample(struct core *core, size_t target, size_t metric, double value, int64_t steady_ns,
                 enum sample_state state, struct slice remark);

/* What /metrics tells of the gate: calls fn for each sample of each family. */
void core_each_gate_sample(const struct core *core,
                           void (*fn)(void *ctx, const char *name, const char *labels,
                                      double value),
                           void *ctx);

/* Events of the gate (THROTTLE HISTORY), numbered from 0 on as they come.  Calls fn for those in
 * [from, to) that are still kept, oldest first. */
struct core_event {
        uint64_t number;
        int64_t at_ms;    /* Unix ms */
        const char *name; /* "load_level_transition" */
        const char *text;
};
uint64_t core_n_events(const struct core *core);
void core_each_event(const struct core *core, uint64_t from, uint64_t to,
                     void (*fn)(void *ctx, const struct core_event *e), void *ctx);

/* The configuration, for CONFIGRELOAD, CONFIGSHOW and SETTINGSTEXT: somebody else reads it. */
struct core_config_text {
        struct buf *text;  /* to be filled in */
        const char *path;  /* of the file; "" without one */
        int64_t loaded_ms; /* Unix ms */
        /* To be filled in: the names of settings that were given on the command line, a line each;
         * no file changes them. */
        struct buf *command_line;
};
struct core_config {
        /* Reads it again.  A line each of what changed, and of what would need a restart.  After an
         * error, and after a trial, everything is as it was. */
        int (*reload)(void *ctx, bool is_trial, struct buf *ret_changed, struct buf *ret_restart,
                      struct problem *problem);
        void (*show)(void *ctx, bool has_defaults, struct core_config_text *ret); /* no secrets */
        void (*settings)(void *ctx, struct buf *ret); /* sections with what was set since */
        void *ctx;
};
void core_set_config(struct core *core, const struct core_config *config);

/* Who is told of attempts that ended (core/trace.h); NULL: nobody.  Not owned. */
struct tracer;
void core_set_tracer(struct core *core, struct tracer *tracer);

/* The archive has news (call on the loop thread after archive->notify). */
void core_archive_poll(struct core *core);

/* No new work is handed out from here on; waits are answered with nothing. */
void core_stop(struct core *core);
/* No turn and no command comes any more: features give the archive what only memory has.  Before
 * the archive is closed. */
void core_end(struct core *core);

/* What the archive tells of itself; zeros when there is none. */
struct archive_stat;
void core_archive_stat(const struct core *core, struct archive_stat *ret);

/* Counters, as rows with a sentence of meaning: INFO and /metrics walk them. */
enum counter_kind { COUNTER_TOTAL, COUNTER_GAUGE };
struct counter_row {
        const char *name; /* "jobs_enqueued" */
        enum counter_kind kind;
        const char *text;
        uint64_t value;
};
#define CORE_COUNTERS_MAX 64
size_t core_counters(const struct core *core, struct counter_row *ret, size_t max);

/* The times of jobs by queue or by hook, for /metrics: core/tally.h. */
struct tally_life;
void core_each_life(const struct core *core, bool is_by_hook,
                    void (*fn)(void *ctx, const struct tally_life *l), void *ctx);

/* Per queue, for /metrics and QUEUES. */
struct queue_stat {
        struct slice name;
        bool is_paused;
        uint64_t ready, scheduled, waiting, running, enqueued, completed, failed, canceled;
        uint64_t parked, returning; /* of the scheduled ones: by the gate, and let go by the ramp */
        int64_t oldest_due_ms;      /* age basis: due time of the oldest ready job, 0 = none */
};
/* Calls fn for every queue, by name. */
void core_each_queue(const struct core *core, void (*fn)(void *ctx, const struct queue_stat *),
                     void *ctx);

#endif
