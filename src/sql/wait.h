/* Waiting with a deadline, for threads that talk to databases.
 *
 * Nothing here waits without a deadline, or without watching stop_fd: it becomes readable when the
 * thread is to end, and stays so. */
#ifndef WEIR_SQL_WAIT_H
#define WEIR_SQL_WAIT_H

#include "base/err.h"

struct sql_wait {
        int stop_fd;
        int64_t deadline_ns; /* CLOCK_BOOTTIME; of everything that is asked at one tick */
        int64_t timeout_ms;  /* as configured: for sentences */
};

/* OK when one of the events (or an error of the fd) is there; ERR_TIMEOUT; ERR_STOPPING.  An fd of
 * -1 only waits. */
int wait_for(const struct sql_wait *w, int fd, short events, short *ret_got) MUST_CHECK;
/* The sentence for what wait_for() returned. */
int wait_problem(const struct sql_wait *w, int err, struct problem *problem);

/* No answer to one question is longer than this; what a server says beyond it is not read. */
#define ANSWER_MAX MIB
int answer_too_long(struct problem *problem); /* the sentence */

/* Runs fn(arg) on a thread of its own: for calls that cannot be told to give up, name lookups and
 * file systems that are gone.  arg must be from malloc; it is freed with free() by the last user,
 * the thread or aside_end().  NULL: there is no thread to be had, and arg is freed. */
struct aside;
struct aside *aside_begin(void (*fn)(void *arg), void *arg) MUST_CHECK;
int aside_wait(const struct aside *a, const struct sql_wait *w) MUST_CHECK; /* OK: it is done */
bool aside_is_done(const struct aside *a);
const void *aside_arg(const struct aside *a); /* what fn made of it; only when it is done */
struct aside *aside_end(struct aside *a);     /* done or not; NULL is fine; returns NULL */

/* Cuts a socket off when the time of w is over: for a call that waits for it without asking us.
 * That call then fails at once.  NULL when there is no thread to be had.  cutoff_end() returns OK,
 * or ERR_TIMEOUT or ERR_STOPPING when it did cut. */
struct cutoff;
struct cutoff *cutoff_begin(const struct sql_wait *w, int fd);
int cutoff_end(struct cutoff *c) MUST_CHECK;

#endif
