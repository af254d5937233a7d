/* Probes: threads that measure the load of databases, the host, addresses and commands.
 *
 * A thread samples every metric of its target each interval and hands the results to the loop
 * through probe_take(); it owns nothing else.  When a target does not answer in time, refuses the
 * password, lacks a privilege or hangs, its metrics carry an error sentence without credentials,
 * and the probe retries with growing pauses.
 *
 * After HIBERNATE_MS without a call of probe_asked(), targets are sampled only every
 * HIBERNATE_EVERY_MS; the next call wakes them at once. */
#ifndef WEIR_PROBE_PROBE_H
#define WEIR_PROBE_PROBE_H

#include "base/err.h"
#include "sql/login.h"

enum probe_kind { PROBE_MYSQL, PROBE_POSTGRES, PROBE_HOST, PROBE_HTTP, PROBE_COMMAND, PROBE_KINDS };

#define PROBE_NAME_MAX     64 /* bytes */
#define PROBE_METRICS_MAX  32
#define PROBE_ERROR_MAX    160
#define PROBE_TLS_MAX      16 /* bytes of "TLSv1.3" */

#define HIBERNATE_MS       60000
#define HIBERNATE_EVERY_MS 5000

struct probe_metric {
        char name[PROBE_NAME_MAX + 1];
        /* What is read, by the kind of target; see docs/probes.md:
         *   mysql, postgres: a built-in name (threads_running, replication_lag, ...), "status:NAME"
         *                    (mysql: SHOW GLOBAL STATUS), or "sql:SELECT ..." with one value
         *   host: load_per_core, psi_cpu, psi_io, psi_memory, disk_used:/path
         *   http: "json:path.to.value"; command: "" (its first line of output is the value)
         * NULL: its name says it. */
        char *source;
};

struct probe_options {
        char name[PROBE_NAME_MAX + 1]; /* of the target */
        enum probe_kind kind;
        struct sql_server primary;
        struct sql_server *replicas; /* replication_lag is that of the worst of them */
        size_t n_replicas;
        unsigned ignore_replicas;     /* number of the worst replicas to leave out */
        bool is_missing_replica_fine; /* one that is gone or stale counts as no lag, and is named */
        char *user, *password;        /* from file or environment; never logged */
        /* Of the replicas too.  http takes the files only: its url says the rest, and a certificate
         * is always verified. */
        struct sql_tls tls;
        char *database;
        char *heartbeat_table; /* mysql: "meta.heartbeat"; NULL: SHOW REPLICA STATUS */
        bool is_heartbeat_utc; /* its ts is in UTC, not in the time of the server */
        char *url;             /* http */
        char **argv;           /* command */
        char **env;            /* command: "NAME=VALUE", or "NAME" of our own; NULL: none */
        int64_t interval_ms, timeout_ms;
        /* 0: the defaults above.  Sleeping longer than the shortest maximum age of a metric would
         * make it unknown while no client asks. */
        int64_t hibernate_after_ms, hibernate_every_ms;
        struct probe_metric *metrics;
        size_t n_metrics;
};

struct probe_sample {
        size_t target, metric;
        double value;
        int64_t at_ns; /* CLOCK_BOOTTIME when it was taken, or when that failed */
        bool is_error;
        bool is_silent; /* an error: no answer came, rather than one that is no value */
        unsigned cores; /* of the server, 1 to CORES_MAX; 0: not known */
        char error[PROBE_ERROR_MAX]; /* why, when is_error; else a remark (replicas left out) or ""
                                      */
        char tls[PROBE_TLS_MAX];     /* its connection is encrypted by; "": it is not, or several */
};

struct probe;

/* Whether targets of this kind have such a metric; if not, the problem lists those they have. */
int probe_check_source(enum probe_kind kind, const char *source,
                       struct problem *problem) MUST_CHECK;
const char *probe_kind_name(enum probe_kind kind); /* "mysql" */
bool probe_kind_from_name(const char *name, enum probe_kind *ret);

/* Starts a thread per target.  The options must outlive it.  notify is called from those threads
 * when there is something to take. */
int probe_start(const struct probe_options *targets, size_t n, void (*notify)(void *ctx), void *ctx,
                struct probe **ret, struct problem *problem) MUST_CHECK;
struct probe *probe_stop(struct probe *p); /* waits for the threads, at most a timeout; NULL */
/* Loop thread: takes up to max samples, the longest waiting first.  When a metric was sampled again
 * before its sample was taken, only the newest is there. */
size_t probe_take(struct probe *p, struct probe_sample *ret, size_t max);
/* A client wants to know: the targets stay awake for the next minute. */
void probe_asked(struct probe *p);
/* Replicas with these names (their own, their host, or host:port; case does not matter) do not
 * count for replication_lag from now on.  Replaces the list set before; copies it.  Any thread. */
void probe_set_skipped(struct probe *p, const char *const *hosts, size_t n);

#endif
