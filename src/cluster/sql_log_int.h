/* What the files of the SQL log share: the log itself, its two workers, and the events that wait
 * for poll().
 *
 *      sql_log.c           the calls of the loop thread, start and end
 *      sql_log_events.c    what waits for poll(), the lead as all threads see it, bytes that are
 * kept sql_log_appender.c  writes the batch in flight sql_log_watcher.c   connects, reads, meets
 * the members, verifies, trims: one chore at a time sql_log_lead.c      the chores of the lease:
 * look, take, promote, renew, hand over
 *
 * Each ledger is used by its own worker alone, and without `mu`.  `term` counts how often this log
 * got the lead.  Every event of a lead carries it, so that a call of the loop thread that was made
 * before it heard of a change is told from one that was made afterwards.
 *
 * Invariants under `mu`, checked by sql_log_check():
 *   (1) a batch is picked only if it is given, and given only while this log leads or until the
 *       appender has let it go
 *   (2) while this log leads, the row before the next one (`last`) is its own, of its epoch
 *   (3) queue_bytes is the sum over the queue */
#ifndef WEIR_CLUSTER_SQL_LOG_INT_H
#define WEIR_CLUSTER_SQL_LOG_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "cluster/sql_log.h"

/* The watcher stops reading while so much waits for poll(). */
#define QUEUE_BYTES_MAX (64 * MIB)
/* One read: short enough that the lease is renewed between two. */
#define READ_BYTES (4 * MIB)
/* How often a follower asks for more rows (reference: 0.4 % of a core, 11 ms behind). */
#define READ_EVERY_MS 20
/* How often the lease is looked at: what a hand-over waits for. */
#define LOOK_EVERY_MS 100
/* A lease must be seen expired twice, so far apart, before another node takes it: a database that
 * stalled ends every lease at once, and its holder must have the time to renew it. */
#define EXPIRED_MS 1000
/* A renewal moves the end of the lease further than this; the time that an answer takes does not.
 */
#define MOVED_MS 200
/* Each live member of a higher priority makes this one wait so much longer. */
#define PRIORITY_MS 300
#define SECOND_MS   1000 /* how often members meet and settings are verified */
/* A leader that could not renew for so long gives up: it is cut off, and its clients must know. */
#define CUT_OFF_MS 30000
/* Connecting tries every server, a mute one costs 2 s. */
#define CONNECT_MS 10000
/* A read or an append may carry 56 MiB, and a database that lost a server stalls for 6 s. */
#define CALL_MS  10000
#define RETRY_MS 100
/* An append that is not done by then counts as unknown, and so does each further MiB a second
 * later. */
#define APPEND_MS         10000
#define APPEND_MS_PER_MIB 1000
/* close() waits so long for a batch in flight. */
#define CLOSE_MS 5000
/* A member that was not seen for so long is not there. */
#define MEMBER_GONE_MS 3500
/* The same trouble is said again so often. */
#define SAY_AGAIN_MS 10000

enum event_kind { EVENT_ARRIVED, EVENT_RESTARTED, EVENT_LED, EVENT_LOST };

struct event {
        struct event *next;
        enum event_kind kind;
        uint64_t seq;           /* ARRIVED */
        uint64_t term;          /* LED */
        struct log_tail tail;   /* LED */
        struct problem problem; /* LOST */
        size_t len;
        char body[]; /* ARRIVED */
};

/* So many bytes of batches came before `seq`. */
struct mark {
        uint64_t seq, bytes;
};

struct marks {
        struct mark *at;
        size_t n, cap;
        uint64_t step; /* bytes between two */
        uint64_t bytes;
};

enum chore {
        CHORE_RENEW,
        CHORE_HAND_OVER,
        CHORE_MEET,
        CHORE_VERIFY,
        CHORE_LOOK,
        CHORE_READ,
        CHORE_PROMOTE,
        CHORE_TRIM,
        CHORES
};

/* Role      entered by                          leaves by
 *   FOLLOW  open, lead_lose, lease not ours     LOOK: the lease is ours
 *   CLAIM   LOOK                                PROMOTE: the epoch row is durable; RENEW: not ours
 *   LEAD    PROMOTE                             RENEW, HAND_OVER, VERIFY, the appender: lead_lose
 */
enum role { ROLE_FOLLOW, ROLE_CLAIM, ROLE_LEAD };

/* Of the watcher's thread only. */
struct watcher {
        struct ledger *ledger;
        enum role role;
        int64_t at_ns[CHORES]; /* when each is due; INT64_MAX: when something happens */
        int64_t connect_ns;    /* when to try again */
        int64_t said_ns;       /* trouble was said last */

        /* The place in the log.  Without one the next read begins with the oldest batch. */
        bool has_place;
        bool is_first;   /* no row has been read since the place was found: any row may be next */
        bool is_checked; /* over this connection `last` was seen to be still there */
        bool is_at_tail; /* the last read found nothing more */
        bool has_pushed; /* batches, since the last event that made the owner forget them */
        bool is_broken;  /* while reading: a row does not follow from the one before */
        bool is_short;   /* while reading: no memory */
        uint64_t next;   /* the number that is read next */
        uint64_t n_read; /* bytes and rows of this read */
        struct ledger_head last;
        char closed[LEDGER_CLOSED_MAX]; /* why the log is, by what was read of it; "": it is open */
        uint64_t first;                 /* the oldest batch, as far as known */
        bool is_first_known;            /* over this connection; trimming begins there */

        struct ledger_lease lease; /* as it was last seen */
        int64_t expired_ns;        /* since when it is seen expired; 0: it is not */
        int64_t same_ns;           /* since when it is seen unchanged; 0: it is not known */
        int64_t until_ns;          /* when it ends, by this clock, as it was seen then */
        int64_t sent_ns;           /* of the take that last said that it is ours */
        int64_t held_ns;           /* until then it is ours, by this clock */
        bool is_verified;          /* in this claim */
        unsigned n_unsafe;         /* verifications that failed since one succeeded */
        uint64_t met_seq;          /* what this node told at the last meeting, and before */
        uint64_t met_seq_before;
};

struct appender {
        struct ledger *ledger;
        int64_t again_ns; /* its thread: not before */
        unsigned n_tries; /* its thread: of this batch */
        int64_t begun_ns; /* its thread: of this batch */
        int64_t said_ns;

        /* Under mu. */
        bool is_given;  /* there is a batch */
        bool is_picked; /* and the appender is at it: head, previous and body do not change */
        bool is_held;   /* no batch is picked: the lead is being handed over */
        struct ledger_head head, previous;
        struct buf body;
};

struct sql_log {
        struct log log;
        int64_t (*boot_ns)(void);
        bool is_threaded, has_threads, is_mover;
        char name[LOG_NAME_MAX + 1], address[LOG_ADDRESS_MAX + 1];
        char node[LEDGER_NODE_MAX + 1]; /* the name, '.', 16 hex digits */
        int priority;
        int64_t lease_min_ms;

        struct watcher watcher;
        struct appender appender;
        pthread_t watcher_thread, appender_thread;
        int watcher_stop_fd, appender_stop_fd; /* readable: give up what you wait for */
        int wake_fd;                           /* of the watcher */

        uint64_t told_term; /* loop thread: of the last LED */

        pthread_mutex_t mu;
        pthread_cond_t for_appender;
        pthread_cond_t for_others; /* the appender has told, or let go */
        /* Under mu. */
        bool is_stopping;
        bool wants_lead;
        bool is_leading;
        bool is_telling; /* durable() is being called */
        uint64_t term, epoch;
        struct ledger_head last; /* durable, while this log leads */
        int64_t until_ns;        /* the lease, while this log leads */
        struct event *queue, **queue_end;
        uint64_t queue_bytes;
        uint64_t polled_seq; /* the last batch that the owner has */
        uint64_t trim_before;
        char hand_to[LOG_NAME_MAX + 1]; /* "": nobody */
        uint64_t digest_seq, digest;
        struct log_member members[LOG_MEMBERS_MAX];
        size_t n_members;
        int64_t met_ns;
        char leader[LOG_NAME_MAX + 1]; /* "": none is known */
        uint64_t ready_seq;            /* who has this one may take over */
        struct marks marks;
        uint64_t retained_bytes, appended_bytes, appended_batches, sync_ns_last;
};

/* sql_log_events.c */

/* The deadline of one call that begins now. */
struct sql_wait sql_log_wait(const struct sql_log *s, int stop_fd, int64_t ms);
/* Says trouble, the same not too often. */
void sql_log_say(const struct sql_log *s, int64_t *said_ns, const char *text, const char *where,
                 const struct problem *p);
void sql_log_notify(struct sql_log *s);
void sql_log_wake_watcher(struct sql_log *s);
void sql_log_check(const struct sql_log *s); /* mu held */
/* False when there is no memory for it. */
bool sql_log_push_batch(struct sql_log *s, uint64_t seq, struct slice body) MUST_CHECK;
void sql_log_push_restarted(struct sql_log *s);
bool sql_log_is_queue_full(struct sql_log *s);
bool sql_log_poll(struct log *log, uint64_t bytes);
void sql_log_drop_events(struct sql_log *s);
void marks_add(struct marks *m, uint64_t seq, uint64_t bytes);
uint64_t marks_bytes_from(struct marks *m, uint64_t seq); /* forgets those before */

/* This log leads from here on: the row of its epoch is durable. */
void lead_begin(struct sql_log *s, const struct ledger_head *row, uint64_t first, int64_t until_ns);
/* It does not lead any more; nothing happens when it did not.  Any thread, without mu. */
void lead_lose(struct sql_log *s, uint64_t term, const struct problem *p);

/* sql_log_appender.c */
bool appender_step(struct sql_log *s);
void *appender_main(void *sql_log);

/* sql_log_watcher.c */
bool watcher_step(struct sql_log *s);
void *watcher_main(void *sql_log);
/* Reads some rows: OK, or why not. */
void watcher_read(struct sql_log *s);
/* A call failed; the chore is tried again. */
void watcher_failed(struct sql_log *s, enum chore chore, const char *what, const struct problem *p);
/* The log is followed again from the oldest batch on. */
void watcher_forget_place(struct sql_log *s);
void watcher_set_role(struct sql_log *s, enum role role);

/* sql_log_lead.c */
void chore_renew(struct sql_log *s);
void chore_hand_over(struct sql_log *s);
void chore_look(struct sql_log *s);
void chore_promote(struct sql_log *s);
/* The process ends: the others need not wait until the lease is over. */
void lead_resign(struct sql_log *s);
int sql_log_hand_over(struct log *log, struct slice node, bool is_trial, struct problem *problem);

static inline struct sql_log *sql_log_of(struct log *log)
{
        return CONTAINER_OF(log, struct sql_log, log);
}

#endif
