/* The log of a cluster (log/log.h) over a ledger: what appends, follows, takes the lead and notices
 * that it is lost.
 *
 * Two connections, each with a thread.  The appender writes the batch in flight, and finds out what
 * became of one whose outcome is unknown: it writes the same row again, and when that is there
 * already, waits for a barrier.  The watcher reads what others wrote, renews or takes the lease,
 * trims, meets the members and verifies the settings every second.
 *
 * Without threads (tests, the simulator) the steps below do what each of them would do next.
 *
 * README.md has the rules, and why each is there. */
#ifndef WEIR_CLUSTER_SQL_LOG_H
#define WEIR_CLUSTER_SQL_LOG_H

#include "base/rand.h"
#include "cluster/ledger.h"

struct sql_log_options {
        struct ledger *appender, *watcher; /* taken over; freed by close() */
        const char *node, *address;        /* copied */
        int priority;
        bool is_threaded;
        int64_t lease_ms;         /* 0: what the ledger says */
        int64_t (*boot_ns)(void); /* CLOCK_BOOTTIME, or a test's clock */
        struct rng *rng;          /* for the node's number; only while opening */
        bool is_mover;            /* takes the lead of a log that is closed, too */
};

/* Connects in the background, from the first lead() or poll() on: the owner sets its callbacks
 * before. A database that cannot be reached is said and tried again. */
int sql_log_open(const struct sql_log_options *options, struct log **ret,
                 struct problem *problem) MUST_CHECK;

/* As append(): closes the log, and says why, or opens it again (struct ledger_ops). */
int sql_log_append_mark(struct log *log, uint64_t seq, enum ledger_kind kind,
                        struct slice why) MUST_CHECK;

/* Without threads: one step of the appender or of the watcher; true when it did something. */
bool sql_log_step_appender(struct log *log);
bool sql_log_step_watcher(struct log *log);

#endif
