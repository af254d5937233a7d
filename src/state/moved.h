/* The ledger: actions of one hook of one site that weir has moved to a later date together.
 *
 * A batch is durable before its rows are moved, so that a row with one of its dates can always be
 * given back to where it was.  A row that has another date is not ours any more: it ran, or a
 * person edited or canceled it.  So a batch never needs to be right, only complete.
 *
 * Named "SITE/NUMBER".  The rows are packed, oldest original first: about 5 bytes each.
 *
 * A batch ends when its rows are back, or when none of them is found at its dates any more.  One
 * that nobody looks after (its site is not configured any more, or not in enforce) is forgotten a
 * day after its date: its rows fell due by themselves.
 *
 * Invariants, checked by the kind's check():
 *   (1) a batch has 1 to SITE_ROWS_MAX rows, in the order of their originals
 *   (2) date_s is not 0, and before_s is 0 unless a shift has begun and not ended
 *   (3) a batch is on the list of its site and hook, and that counts its rows */
#ifndef WEIR_STATE_MOVED_H
#define WEIR_STATE_MOVED_H

#include "base/list.h"
#include "state/state.h"

#define SITE_NAME_MAX 64  /* bytes of the name of a site */
#define SITE_ROWS_MAX 500 /* actions of one batch */

struct site_row {
        uint64_t id;
        int64_t original_s; /* the date that it is given back to */
};

#define MOVED_FORGET_S 86400LL     /* after its date */
#define MOVED_DATE_MAX 32503680000 /* the year 3000 */

struct moved_values {
        struct slice site, hook;
        int64_t date_s;   /* where its rows are */
        int64_t before_s; /* where some may still be; 0: none */
        int64_t made_s;
        uint64_t n_rows;
        uint64_t n_moved; /* that were found and changed at the last move; 0: not told yet */
        int64_t oldest_s; /* the first original */
        struct slice rows;
};

/* All batches of one hook of one site: in state->moved_hooks, by both. */
struct moved_hook {
        struct hash_node node;
        struct list batches; /* moved.link, in no order */
        uint64_t n_rows, n_moved;
        struct slice site, hook; /* borrow from: */
        char text[];
};

struct moved {
        struct thing thing;
        struct list link;
        struct moved_hook *of_hook; /* NULL: it has no values yet */
        uint64_t number;
        struct moved_values values; /* its slices borrow from: */
        struct buf bytes;
};

static inline const struct moved *moved_of(const struct hash_node *n)
{
        return CONTAINER_OF(n, const struct moved, thing.node);
}

#define MOVED_NAME_MAX (SITE_NAME_MAX + 24)
void moved_put_name(char *ret, struct slice site, uint64_t number); /* MOVED_NAME_MAX bytes */
/* Sorts the rows, packs them into `packed` and sets n_rows, oldest_s and rows of the values. */
void moved_pack(struct moved_values *v, struct site_row *rows, size_t n, struct buf *packed);
/* The next row of packed rows; `row` is the one before, zeroed at first.  False at the end. */
bool moved_next(struct reader *r, struct site_row *row);
void moved_put(const struct moved_values *v, struct buf *body);

/* NULL: it has no batches. */
const struct moved_hook *moved_hook_find(const struct state *s, struct slice site,
                                         struct slice hook);
static inline const struct moved *moved_of_link(const struct list *link)
{
        return CONTAINER_OF(link, const struct moved, link);
}

/* Is the action in the ledger, at the date that it has now? */
struct moved_ask {
        uint64_t id;
        struct slice hook;
        int64_t date_s;
        bool is_found;
        int64_t original_s; /* when it is */
};
/* Answers all of them in one walk of their hooks' batches; sorts them by hook and id. */
void moved_find(const struct state *s, struct slice site, struct moved_ask *asks, size_t n);
/* The answer for one of them; NULL: it is not in the ledger. */
const struct moved_ask *moved_answer(const struct moved_ask *asks, size_t n, struct slice hook,
                                     uint64_t id);

#endif
