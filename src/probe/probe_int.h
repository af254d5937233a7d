/* What the files of this room share: how a kind of target is asked, and how waiting is done.
 *
 * Nothing here waits without a deadline, or without watching stop_fd: it becomes readable when the
 * probes are to end, and stays so. */
#ifndef WEIR_PROBE_PROBE_INT_H
#define WEIR_PROBE_PROBE_INT_H

#include "probe/probe.h"

struct probe_wait {
        int stop_fd;
        int64_t deadline_ns; /* CLOCK_BOOTTIME; of everything that is asked at one tick */
        int64_t timeout_ms;  /* as configured: for sentences */
};

/* OK when one of the events (or an error of the fd) is there; ERR_TIMEOUT; ERR_STOPPING.  An fd of
 * -1 only waits. */
int wait_for(const struct probe_wait *w, int fd, short events, short *ret_got) MUST_CHECK;
/* The sentence for what wait_for() returned. */
int wait_problem(const struct probe_wait *w, int err, struct problem *problem);

/* No answer to one question is longer than this; what a server says beyond it is not read. */
#define ANSWER_MAX MIB
int answer_too_long(struct problem *problem); /* the sentence */

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
/* Whether that errno of a connect says that no server listens there: the machine itself answers. */
bool is_nobody_there(int error);
/* The value is this text, which must be a finite decimal number. */
void reading_set_text(struct reading *r, const char *text, size_t len);

/* How a kind is asked.  Each object belongs to one thread. */
struct prober_ops {
        /* Whether it has a metric of that source; the problem says which it has. */
        int (*check)(const char *source, struct problem *problem);
        /* For one server of the target; a replica is asked for its lag only, and fills ret[0]. */
        void *(*open)(const struct probe_options *o, const struct probe_server *server,
                      bool is_replica);
        void (*close)(void *self);
        /* NULL when there is nothing to connect to.  After an error nothing is connected;
         * is_silence() tells which kind it is. */
        int (*connect)(void *self, const struct probe_wait *w, struct problem *problem);
        void (*disconnect)(void *self);
        /* "TLSv1.3" while the connection is encrypted, else NULL; the op is NULL when it never is.
         */
        const char *(*tls)(void *self);
        /* One reading per metric of the options.  ERR_IO: the connection is lost, and perhaps only
         * because it had been idle for long; ERR_TIMEOUT: no answer; both want a disconnect. */
        int (*sample)(void *self, const struct probe_wait *w, struct reading *ret);
};

extern const struct prober_ops mysql_prober, postgres_prober, host_prober, http_prober,
        command_prober;
const char *metric_source(const struct probe_metric *m);
/* Before the first thread: libraries that must not be set up by two threads at once. */
void mysql_prober_setup(void);
void http_prober_setup(void);
void tls_setup(void);

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

/* Runs fn(arg) on a thread of its own: for calls that cannot be told to give up, name lookups and
 * file systems that are gone.  arg must be from malloc; it is freed with free() by the last user,
 * the thread or aside_end().  NULL: there is no thread to be had, and arg is freed. */
struct aside;
struct aside *aside_begin(void (*fn)(void *arg), void *arg) MUST_CHECK;
int aside_wait(const struct aside *a, const struct probe_wait *w) MUST_CHECK; /* OK: it is done */
bool aside_is_done(const struct aside *a);
const void *aside_arg(const struct aside *a); /* what fn made of it; only when it is done */
struct aside *aside_end(struct aside *a);     /* done or not; NULL is fine; returns NULL */

/* Cuts a socket off when the time of w is over: for a call that waits for it without asking us.
 * That call then fails at once.  NULL when there is no thread to be had.  guard_end() returns OK,
 * or ERR_TIMEOUT or ERR_STOPPING when it did cut. */
struct guard;
struct guard *guard_begin(const struct probe_wait *w, int fd);
int guard_end(struct guard *g) MUST_CHECK;

/* "db2 (10.0.0.2:3306)", "10.0.0.2:3306", "/run/mysqld/mysqld.sock". */
#define WHERE_MAX 128
const char *server_where(const struct probe_server *s, char *ret);
bool server_is_socket(const struct probe_server *s);
/* Whether people call it so: by its name, its host, or host:port; in any case. */
bool server_is_called(const struct probe_server *s, const char *name);
/* What a certificate must be for. */
const char *server_tls_name(const struct probe_server *s);
enum probe_tls_mode server_tls_mode(const struct probe_options *o, const struct probe_server *s);
/* Looks the name up and tries each address until one does: OK and what attempt() said last. */
int server_attempt(const struct probe_server *s, const struct probe_wait *w,
                   int (*attempt)(void *self, const char *address, const struct probe_wait *w,
                                  struct problem *problem),
                   void *self, struct problem *problem) MUST_CHECK;

/* Sentences for what TLS can fail by, the same for every kind of database.  `code` is OpenSSL's
 * X509_V_ERR. */
int tls_no_server(struct problem *problem, const char *where);
int tls_wrong_name(struct problem *problem, const char *where, const struct probe_server *s);
int tls_bad_certificate(struct problem *problem, const char *where, long code);
/* What the certificate of the last connection that ended on this thread was refused for, since
 * tls_forget(); 0: nothing. */
void tls_forget(void);
long tls_last_code(void);

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
