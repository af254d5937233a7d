/* What the files of the repairs share: one call of store_repair(), its statements and its advice.
 */
#ifndef WEIR_GUARD_REPAIR_LOOK_H
#define WEIR_GUARD_REPAIR_LOOK_H

#include "guard/store.h"

#define LOOK_WALK_ROWS 500  /* of one page of a pass */
#define LOOK_IDS_MAX   2000 /* of one page of claimed actions */
#define LOOK_LOG_INDEX STORE_LOG_INDEX
#define LOOK_DAY_S     86400LL

/* A recurring action has its successor already. */
#define LOOK_RUNS_ONCE STORE_RUNS_ONCE("a.")

/* Each line of advice that there can be; the last SITE_REPAIRS say why a repair failed. */
enum advice {
        ADVICE_MIGRATION,
        ADVICE_ACTIONS_SIZE,
        ADVICE_LOGS_SIZE,
        ADVICE_OLD_INDEX,
        ADVICE_ORPHANS,
        ADVICE_FAILED,
        ADVICE_GIVEN_UP,
        ADVICE_DUPLICATES,
        ADVICE_AUTOLOAD,
        ADVICE_RETRIES,
        ADVICE_RETENTION, /* how much there is to delete */
        ADVICE_PURGE,     /* why deleting stopped */
        ADVICE_RESTORED,  /* why weir does not take strays */
        ADVICE_TROUBLE,
        ADVICES = ADVICE_TROUBLE + SITE_REPAIRS + 1,
};
_Static_assert(ADVICES <= STORE_ADVICE_LINES, "each advice has a line in struct store_memory");

/* One call of store_repair(). */
struct repair_look {
        struct store *s;
        const struct site_plan *plan;
        struct site_survey *survey;
        struct problem *problem;
};

struct look_ids {
        uint64_t at[LOOK_IDS_MAX];
        size_t n;
};

uint64_t look_u64(struct slice cell); /* 0: no number */
void look_put_index(struct buf *sql, const char *index);
void look_put_ids(struct buf *sql, const uint64_t *ids, size_t n);
bool look_may_mend(const struct repair_look *l, enum site_repair repair);
void look_advise(struct repair_look *l, unsigned advice, const char *fmt, ...) PRINTF(3, 4);
void look_forget(struct repair_look *l, unsigned advice);
int look_run(struct repair_look *l, struct mysql_result *ret) MUST_CHECK;
/* A row that another transaction holds is left for the next cycle. */
int look_unless_locked(int err) MUST_CHECK;
/* Runs a statement that answers with one number. */
int look_count(struct repair_look *l, uint32_t *ret) MUST_CHECK;
/* Runs a statement that answers with ids; those beyond the room in *ret are left out. */
int look_read_ids(struct repair_look *l, struct look_ids *ret) MUST_CHECK;
void look_copy_cell(char *ret, size_t size, struct slice cell);
/* After a page of a pass; the last page begins the next pass. */
void look_walk_on(struct store_walk *w, uint32_t seen, bool is_last);
uint32_t look_walk_found(const struct store_walk *w);

/* "FROM (a page of failed actions, the latest date first, below the walk) AS page JOIN actions a":
 * with dates from from_s on; 0: any. */
void look_put_failed(struct store *s, const struct store_walk *w, int64_t from_s, unsigned rows);

/* retry.c */
int look_at_retries(struct repair_look *l) MUST_CHECK;
/* stray.c */
int look_at_restored(struct repair_look *l) MUST_CHECK;
/* retention.c */
int look_at_retention(struct repair_look *l) MUST_CHECK;
/* advice.c: what a person should look at, one look in turn, and what the survey itself says. */
int look_around(struct repair_look *l) MUST_CHECK;
void look_advise_on_survey(struct repair_look *l);

#endif
