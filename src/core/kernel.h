/* What the files of core/ share and nobody else sees: the core itself and how a change is made. */
#ifndef WEIR_CORE_KERNEL_H
#define WEIR_CORE_KERNEL_H

#include "api/limits.h"
#include "core/archive.h"
#include "core/core.h"
#include "core/feature.h"
#include "core/tally.h"
#include "log/log.h"
#include "state/backoff.h"
#include "state/state.h"

/* The open batch beyond this: doors read no more until the log has caught up. */
#define CORE_BATCH_SOFT_BYTES (16 * MIB)
/* Log bytes that finishing one accepted job may take at most while the disk is full: a start, an
 * end with a short text, and their share of ARCHIVED and CLOCK records. */
#define CORE_FINISH_BYTES     768
#define CORE_LET_GO_BYTES     32 /* the same for one that has ended: its share of ARCHIVED */
#define CORE_TIGHT_TEXT_BYTES 256
/* The same for entries of the audit trail, of commands that are always done. */
#define CORE_AUDIT_BYTES(slack) ((slack) / 20)
/* How often that may write a name of its options: a unique key that is held and let go of, a limit
 * that a start takes from, a breaker that is told twice, a batch, a schedule. */
#define CORE_NAMED_TIMES 3

/* Jobs promoted, leases or waits ended per turn, so that one turn stays short. */
#define CORE_TURN_STEPS 2000

struct core_totals {
        uint64_t enqueued, started, completed, failed, timed_out, released, retried, canceled;
        uint64_t late_completions, refused_nospace, cleaned_objects, cleaned_bytes;
        uint64_t batches, commands, slowed_claims, unsigned_jobs;
        uint64_t answers_repeated;
        uint64_t locks_granted, locks_expired, locks_forced;
        uint64_t slots_fired, slots_missed, slots_overlapped;
        uint64_t audit_dropped;
};

struct claim_ctx;

/* What listings and bulk commands may still do in this turn (find_walk.h). */
struct scan_budget {
        int64_t units;    /* looks at a job */
        int64_t until_ns; /* by the watch; 0: nothing was looked at yet */
};

/* keeping.c: what history will need, as counted last, and what it has. */
struct keeping {
        uint64_t counted;        /* bytes of its file for all live jobs */
        uint64_t live, appended; /* state.live_bytes and the log's bytes at that time */
        uint64_t room;           /* UINT64_MAX: not known */
        int64_t counted_ns;      /* INT64_MIN: count at the next turn */
        bool is_stuck;
};

struct core {
        struct core_options options;
        struct state state;
        struct now now;
        int64_t wall_minus_steady_ms; /* fixed at recovery: steady time as a wall that never jumps
                                       */

        struct buf batch[2];
        unsigned open;     /* which of the two is being filled; the other is in flight */
        uint64_t open_seq; /* the number the open batch will have */
        uint64_t durable_seq;
        bool is_in_flight;
        bool is_clock_told; /* the open batch holds a CLOCK of `now` */
        uint64_t trimmed_to, wanted_room;
        uint64_t trim_to;         /* when the batch in flight is durable, the log may be cut here */
        struct log_stat log_stat; /* as of the last turn */
        /* The operations of the features (core/feature.h) that each turn calls. */
        void (*turns[CORE_FEATURES_MAX])(struct core *core);
        int64_t (*nexts[CORE_FEATURES_MAX])(const struct core *core);
        void (*settles[CORE_FEATURES_MAX])(struct core *core);
        size_t n_turns, n_nexts, n_settles;

        struct buf packed; /* options of the job being made */
        struct buf body;   /* of the thing being written; cleared by whoever uses it next */

        struct throttle *throttle;
        struct core_checks checks; /* as configured, defaults filled in */
        struct core_config config; /* all NULL: there is none */
        struct rule_index *rules;
        struct clients *clients;
        struct check_ctx *checking; /* check.c: asks that wait, credits */
        struct tally *tally;        /* of the minute that is going on */
        struct rollups *rollups;    /* of those before */
        struct tracer *tracer;      /* core/trace.h; NULL: nobody wants spans.  Not owned */
        struct series *series;
        struct last_hour *last_hour;
        struct relearning *relearning; /* numbers/relearn.c's question to the archive; NULL: none */
        int64_t start_ms; /* Unix time of the first turn: what only memory counts began then */
        struct throttled *throttled; /* what was held back last */
        struct workers *workers;
        struct tokens *tokens;       /* who may ask (things/token.h) */
        struct audits *audits;       /* core/audit.c */
        struct sites *sites;         /* WordPress sites (sites/) */
        struct traffic *traffic;     /* doors of the MySQL proxy (traffic/) */
        struct claim_ctx *claiming;  /* claim.c's scratch: too large for the stack */
        struct list queues_to_serve; /* queues with a ready job, for waiting workers */
        /* jobs/dependents.c: jobs that may still be told of an end in this turn, and questions to
         * the archive about jobs that others wait for. */
        int dependents_steps;
        struct list lookups;
        size_t n_lookups;
        uint64_t look_up_from;  /* ids that are waited for are looked up from here on */
        int64_t look_up_ns;     /* when all of them are: at first, and after an error */
        bool is_history_unread; /* the last look failed */

        struct heap waits; /* every session_wait with an end, by steady ns */
        uint64_t n_waits, next_wait_id;
        struct list scans;                   /* find_walk.h: what goes on next turn */
        struct scan_budget scan_budget;      /* the same: of this turn */
        struct list bulks, bulk_waits;       /* jobs/bulk.c: all, and those that wait for history */
        struct list retry_asks, retry_waits; /* jobs/retry.c */

        struct keeping keeping;
        size_t n_ending; /* ended jobs whose end is in the batch in flight, or before it */
        bool is_stopping, is_slowed;
        bool is_recovered; /* or promoted: what is durable is known */
        bool is_following;
        bool has_begun; /* there was a turn since */
        /* The lead goes to this node ("": to any other) when all that was taken is durable and
         * told; until then nothing more is taken. */
        bool is_handing_over, is_lead_given;
        char hand_over_to[LOG_NAME_MAX + 1];
        /* core/verify.c */
        bool is_verify_wanted;    /* a digest of the state begins with the end of this batch */
        uint64_t told_digest_seq; /* the others know which digest ended in that batch */
        int64_t verify_ns;        /* steady time of the next one; 0: not known yet */
        bool are_locks_off; /* LOCK grants nothing, and nobody waits for one; by settings_apply() */
        bool are_locks_off_configured;
        bool is_everything_paused; /* no claim gets a job; by settings_apply() */
        struct core_totals totals;
};

/* Asserts the invariants of the kernel, of the state and of every feature:
 *
 *   (1) the open batch is the one after the last that was handed to the log;
 *   (2) what is durable was committed, and a batch in flight is the only one that is not;
 *   (3) each wait with an end is one of the waits. */
void core_invariants(const struct core *core);

/* The operations of each turn, without those that are NULL: nothing is looked at in vain. */
void core_sort_features(struct core *core);

/* Writes the effect into the open batch and makes it true.  Our own effects always apply. */
void core_emit(struct core *core, const struct effect *e);
/* The same for an effect that needs memory of a client's choosing: nothing happens on failure. */
int core_try_emit(struct core *core, const struct effect *e, struct problem *problem) MUST_CHECK;

/* Lets another machine lead, as soon as what was taken is durable; it is one that can. */
void core_hand_over(struct core *core, struct slice node);

/* Forgets ended jobs: history has them, or nobody wants them. */
void core_let_go(struct core *core, const uint64_t *ids, size_t n);

/* May a turn take one more step of what no command asked for (leases, alarms, cascades)?  n: how
 * many it took.  Not while the open batch is long: it has to end below LOG_BATCH_MAX. */
static inline bool core_may_go_on(const struct core *core, int n)
{
        return n < core->options.turn_steps && !core_is_congested(core);
}

/* Is there room in the log for `bytes` of new work, beside what finishing the accepted needs? */
int core_admit(struct core *core, uint64_t bytes, uint64_t jobs,
               struct problem *problem) MUST_CHECK;
int64_t core_steady_wall_ms(const struct core *core);
/* Due time `in_ms` from now, for an effect: 0 stays 0. */
int64_t core_due_in(const struct core *core, int64_t in_ms);

/* core/clean.c: keeps the log at most 2 x live + 64 MiB, a bounded step at a time. */
void core_clean(struct core *core);

/* core/verify.c: whether all machines of a cluster have the same state. */
bool core_can_verify(const struct core *core); /* there may be other machines */
/* Begins to compare, or goes on: returns a batch at or after which all machines tell a digest. */
uint64_t core_verify(struct core *core);
bool core_is_verifying(const struct core *core); /* the next batch has a step of it */
void core_verify_step(struct core *core);        /* the open batch is closed next */
void core_tell_digest(struct core *core);        /* a batch is durable: if it ended one */
extern const struct feature verify_feature;

/* core/wait.c */
struct session_wait;
struct wait_ops {
        /* Its time is over, or weir stops: answer with nothing and free it. */
        void (*time_over)(struct core *core, struct session_wait *w);
        /* The peer is gone: free it, or leave it to whoever holds it. */
        void (*cancel)(struct core *core, struct session_wait *w);
};
struct session_wait {
        struct heap_node timer; /* on core->waits when it has an end */
        const struct wait_ops *ops;
        struct session *session; /* NULL: the peer is gone, only the archive still holds this */
        struct core *core;
};
void wait_begin(struct core *core, struct session_wait *w, const struct wait_ops *ops,
                struct session *s);
void wait_until(struct core *core, struct session_wait *w, int64_t steady_ns);
void wait_end(struct core *core, struct session_wait *w); /* unlinks; the caller frees */

/* core/thing.c: effects of named things (state/thing.h), and their alarms. */
void thing_set(struct core *core, enum thing_kind kind, struct slice name, struct slice body);
/* The same for a body of a client's choosing: refused when the log is behind. */
int thing_try_set(struct core *core, enum thing_kind kind, struct slice name, struct slice body,
                  struct problem *problem) MUST_CHECK;
void thing_note(struct core *core, struct thing *t, struct slice body);
void thing_gone(struct core *core, struct thing *t);
extern const struct feature things_feature; /* their alarms */
/* What each kind does when its alarm rings (core/feature.h): in the file of its commands. */
#define X(name, text) void text##_due(struct core *core, struct thing *t);
THING_MAP(X)
#undef X

/* core/answer.c: runs a command with an idempotency key, or gives its first answer again. */
int answer_exec(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem) MUST_CHECK;
void answer_cancel(struct session *s); /* the peer is gone: no answer, nothing to keep */

/* core/audit_exec.c: runs a command and keeps what it changed in the audit trail. */
int audit_exec(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem) MUST_CHECK;
void audit_cancel(struct session *s);       /* the peer is gone */
extern const struct feature audits_feature; /* core/audit.c */
/* core/core.c: the command itself, under its key if it has one. */
int core_run(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem) MUST_CHECK;

#endif
