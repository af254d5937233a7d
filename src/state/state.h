/* The live state: every queue and every job that is not yet history.
 *
 * state_apply() is the only way anything here changes, live and in replay alike; that is what
 * makes a restart arrive at the same state.  Lists and counters are moved together by one
 * function (set_state in state.c), so they cannot drift.
 *
 * Invariants, checked by state_check():
 *   (1) every job passes job_check and is in `jobs` under its id, which is < next_id
 *   (2) the counters of each queue equal the jobs found on the lists
 *   (3) the live list is sorted by seq and holds meta, every queue the log knows, every job, and
 *       the mark of the digest while one is made
 *   (4) live_bytes is the sum of the weights
 *   (5) no job has a fence above `fence`
 */
#ifndef WEIR_STATE_STATE_H
#define WEIR_STATE_STATE_H

#include "base/idmap.h"
#include "state/effect.h"
#include "state/thing.h"

/* As many as the gate has; the state only sorts by their number. */
#define STATE_TIERS NAME_TIERS

/* A digest of the state that is made in steps (digest.c). */
struct digest_walk {
        struct live mark; /* on the live list, behind what was visited, while it goes on */
        uint64_t sum;
        uint64_t seq, digest; /* of the last one: it ended in that batch; 0: there was none */
};

struct state {
        const struct thing_ops *const *kinds; /* of named things, by enum thing_kind; not owned */
        struct live meta; /* next_id and fence have a full record of their own */
        uint64_t next_id;
        uint64_t fence;             /* the highest given out */
        int64_t steady_ns, wall_ms; /* of the last CLOCK */

        struct idmap jobs;
        struct name_table names;
        struct hash queues;
        struct idmap queues_by_id;
        uint64_t next_queue_id;
        struct heap delayed; /* SCHEDULED by delay: key is due_ms on the steady wall */
        struct heap timed;   /* SCHEDULED by AT: key is due_ms on the real wall */
        struct heap running; /* by deadline_ns */
        struct heap grace;   /* FINISHED, still open to a late completion; by deadline_ns */
        struct hash things[THING_KINDS];
        struct order ordered[THING_KINDS]; /* the same by name, where thing_ops.is_ordered */
        struct heap alarms;                /* of things, by steady ns */
        struct heap wall_alarms;           /* of things, by Unix ms */
        uint64_t next_thing_id;            /* not durable: it only breaks ties */
        struct hash moved_hooks;           /* the ledger of WordPress sites (state/moved.h) */
        struct idmap after; /* id of a job -> the jobs that come after it (links.c) */
        struct hash unique; /* unique keys -> the jobs that want it (links.c) */
        struct list audits; /* struct audit: entries that are not history yet, by number */
        size_t n_audits;
        struct list sequels;  /* struct sequel: ends whose followers are to be told, newest first */
        struct heap expiring; /* pending jobs with an end, by expires_ms on the steady wall */
        size_t n_group_caps;
        uint64_t settings_version; /* grows with every change of a setting; not durable */
        uint64_t tokens_version;   /* the same for access tokens */
        uint64_t rules_version;    /* the same for rules */
        /* job_extra.parked: jobs that the gate makes wait, and those that the ramp has let go and
         * that wait for their moment; the oldest first. */
        struct list parked[STATE_TIERS], returning[STATE_TIERS];
        size_t n_parked[STATE_TIERS], n_returning[STATE_TIERS];
        struct list *parked_next; /* where a walk over these lists goes on (throttle/parking.c);
                                     NULL: there is none */
        size_t n_running_tier[STATE_TIERS]; /* of the jobs whose tier is known: since the start */
        uint64_t answer_bytes;              /* all kept answers with their keys */
        size_t n_queue_limits, n_hook_limits, n_queue_breakers; /* none: nothing to look up */
        struct list live;
        struct digest_walk digest;
        uint64_t first_seq; /* the first batch that had something in it; 0: there was none yet */
        uint64_t live_bytes;
        uint64_t option_bytes; /* of the live jobs, packed: names that their ends write again */
        uint64_t n_finished;

        /* Jobs that ended and are to be handed to the archive: the core takes them. */
        struct job **ended;
        size_t n_ended, cap_ended;

        /* Called when a queue got a ready job (the core serves waiting workers); may be NULL. */
        void (*on_ready)(void *ctx, struct queue *queue);
        void *ctx;

        uint64_t check_next; /* id of the job at which state_check_turn() goes on */

        struct idmap skipped; /* replay: ids of effects whose job was not seen yet */
        struct hash skipped_things;
        bool is_replaying;
};

void state_init(struct state *s, uint64_t hash_seed, const struct thing_ops *const *kinds);
void state_release(struct state *s);

/* `seq` is the batch the effect is in.  ERR_CORRUPT when it cannot be: in replay that stops the
 * start, live it is our own mistake. */
int state_apply(struct state *s, const struct effect *e, uint64_t seq,
                struct problem *problem) MUST_CHECK;
/* After the last batch: every object must have been seen. */
int state_replay_end(struct state *s, struct problem *problem) MUST_CHECK;

struct job *state_job(const struct state *s, uint64_t id);
struct queue *state_queue_find(const struct state *s, struct slice name);
struct queue *state_queue_get(struct state *s, struct slice name); /* made when missing */
size_t state_n_queues(const struct state *s);

/* Moves what has fallen due from SCHEDULED to READY, at most `max` jobs.  Not an effect: it is
 * what the clock says.  steady_wall_ms: wall time that never jumps (see core.c). */
size_t state_promote(struct state *s, int64_t steady_wall_ms, int64_t wall_ms, size_t max);

/* Keeps a ready job from being claimed until state_unblock() of that thing: not an effect, as with
 * promotion it is what follows from the rest of the state. */
void state_block(struct state *s, struct job *job, struct thing *by);
/* Gives up to `max` of the jobs that wait for `by` back to their queues, best first. */
size_t state_unblock(struct state *s, struct thing *by, size_t max);

/* The first of the jobs that come after `id`; false when there is none. */
bool state_next_after(const struct state *s, uint64_t id, struct job **ret);
struct job *state_unique_holder(const struct state *s, struct slice key); /* NULL: nobody */

void state_check(const struct state *s); /* all of it; visits every job once per queue */
/* Some of it: goes around the jobs, a few each turn. */
void state_check_turn(struct state *s);
/* A digest of everything durable, for "replay equals live". */
uint64_t state_digest(const struct state *s);

/* The object whose newest full record is the oldest: the log is needed from there on. */
const struct live *state_oldest(const struct state *s);

/* A digest in steps, see digest.c.  The first step names the batch from which on the log has every
 * object; 0: it goes on.  A step visits about so many bytes, and one object at least. */
bool state_is_digesting(const struct state *s);
uint64_t state_digest_from(const struct state *s); /* for the first step */
void state_digest_step(struct state *s, uint64_t from, uint64_t bytes, uint64_t seq);

#endif
