/* What the files of this room share: how a kind of target is asked, and what comes of it. */
#ifndef WEIR_PROBE_PROBE_INT_H
#define WEIR_PROBE_PROBE_INT_H

#include "probe/probe.h"
#include "sql/wait.h"

/* One metric at one tick. */
struct reading {
        double value;
        bool is_error;
        bool is_silent;             /* an error: no answer came, so the last value may still hold */
        bool is_skipped;            /* nothing to tell this time */
        char text[PROBE_ERROR_MAX]; /* why, or a remark, or nothing */
};

void reading_set(struct reading *r, double value);
/* The server answered with an error; when no answer came, the caller sets is_silent as well. */
void reading_fail(struct reading *r, const char *fmt, ...) PRINTF(2, 3);
void reading_remark(struct reading *r, const char *fmt, ...) PRINTF(2, 3); /* to a value */
/* Whether that error of a connect or a statement means that no answer came: no time left, a lost
 * connection, a server out of reach.  A refusal is an answer. */
bool is_silence(int err);
/* The value is this text, which must be a finite decimal number. */
void reading_set_text(struct reading *r, const char *text, size_t len);

/* How a kind is asked.  Each object belongs to one thread. */
struct prober_ops {
        /* Whether it has a metric of that source; the problem says which it has. */
        int (*check)(const char *source, struct problem *problem);
        /* For one server of the target; a replica is asked for its lag only, and fills ret[0]. */
        void *(*open)(const struct probe_options *o, const struct sql_server *server,
                      bool is_replica);
        void (*close)(void *self);
        /* NULL when there is nothing to connect to.  After an error nothing is connected;
         * is_silence() tells which kind it is. */
        int (*connect)(void *self, const struct sql_wait *w, struct problem *problem);
        void (*disconnect)(void *self);
        /* "TLSv1.3" while the connection is encrypted, else NULL; the op is NULL when it never is.
         */
        const char *(*tls)(void *self);
        /* How many processors the server has; 0: not known.  The op may be NULL. */
        unsigned (*cores)(void *self);
        /* One reading per metric of the options.  ERR_IO: the connection is lost, and perhaps only
         * because it had been idle for long; ERR_TIMEOUT: no answer; both want a disconnect. */
        int (*sample)(void *self, const struct sql_wait *w, struct reading *ret);
};

extern const struct prober_ops mysql_prober, postgres_prober, host_prober, http_prober,
        command_prober;
const char *metric_source(const struct probe_metric *m);
/* Before the first thread: curl must not be set up by two threads at once. */
void http_prober_setup(void);

/* A metric that hung or failed for want of time is left alone for a while, so that one bad query
 * neither piles up on the server nor slows the others. */
struct rest {
        int64_t until_ns;
        int64_t pause_ms;
};
#define REST_MIN_MS 1000
#define REST_MAX_MS 10000
void rest_begin(struct rest *r, int64_t now_ns); /* longer each time */
bool rest_is_over(const struct rest *r, int64_t now_ns);
bool rest_is_on(const struct rest *r); /* it failed the last time; its rest may be over */

/* Whether it is a question and only one: begins with SELECT or WITH, has no semicolon. */
bool sql_is_query(const char *sql);

/* The lag of all replicas together; see lag.c. */
struct lag_slot {
        const char *name;
        bool is_known;   /* it has been asked at all */
        bool is_skipped; /* the operator says that it does not count */
        struct reading reading;
        int64_t at_ns;
};
/* False while one that counts has not been asked yet.  ret_at_ns: of the oldest that counted. */
bool lag_combine(const struct lag_slot *slots, size_t n, const struct probe_options *o,
                 struct reading *ret, int64_t *ret_at_ns);

#endif
