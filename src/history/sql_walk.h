/* A walk over jobs for one loop of a statement: page after page, until the statement has enough.
 *
 * The first page is small, for the many statements that end with LIMIT, and the next are larger.
 * Memory is that of one page.  What is damaged is told, once, and passed over. */
#ifndef WEIR_HISTORY_SQL_WALK_H
#define WEIR_HISTORY_SQL_WALK_H

#include <signal.h>

#include "history/sql_plan.h"
#include "history/sql_source.h"

#define SQL_PAGE_FIRST 64
#define SQL_PAGE_MAX   4096
#define SQL_PAGE_BYTES (8 * MIB)  /* of texts, unless one job has more */
#define SQL_PAGE_ROOM  (64 * MIB) /* more than that: a page ends before */

/* What all walks of a connection share.  The first four are the owner's. */
struct sql_shared {
        struct sql_source *source;
        void (*tell_damage)(void *ctx, const char *what); /* "job 5: ..."; once for each place */
        void *ctx;
        volatile sig_atomic_t is_stopped; /* the statement is to end; a signal handler may set it */
        struct problem problem;           /* why a walk failed, until the owner clears it */
        uint64_t *told;                   /* hashes of damage that was told; owned */
        size_t n_told;
        uint64_t damaged; /* places that were told, and those too many to be told one by one */
};
void sql_shared_release(struct sql_shared *s);
/* Counts a damaged place and tells of it, unless it was told before. */
void sql_shared_tell(struct sql_shared *s, const char *what);
/* Keeps the problem and makes an SQLite code of it. */
int sql_shared_fail(struct sql_shared *s, int err, const struct problem *p);

struct sql_walk {
        struct sql_shared *shared;
        struct sql_plan plan;
        struct arena names; /* of the plan */
        size_t at;          /* in the page */
        size_t limit;       /* of the next page */
        bool is_last;       /* there is no other page */
};

void sql_walk_init(struct sql_walk *w, struct sql_shared *shared);
void sql_walk_release(struct sql_walk *w);
/* The next two return an SQLite code; the problem is in `shared`. */
int sql_walk_begin(struct sql_walk *w, const struct sql_shape *shape, const char *plan,
                   sqlite3_value **values) MUST_CHECK;
int sql_walk_next(struct sql_walk *w) MUST_CHECK;
/* The job that it is at, good until the next step; NULL: the end. */
const struct job_view *sql_walk_job(const struct sql_walk *w);

#endif
