/* The priorities that actions of one hook of one site had before weir put them in front.
 *
 * Named "SITE/HOOK".  A row is an action; one of a recurring action also stands for its series,
 * because Action Scheduler gives the next action of a series the priority of the last one.  A row
 * is durable before its action is changed; so an action with priority 0 that is not here had it
 * from its plugin.
 *
 * It goes when none of its actions is pending any more (sites/front.c).
 *
 * Invariants, checked by the kind's check():
 *   (1) 1 to FRONT_ROWS_MAX rows, in the order of their ids, none twice
 *   (2) no original is 0: that of such an action is not changed */
#ifndef WEIR_STATE_FRONT_H
#define WEIR_STATE_FRONT_H

#include "state/moved.h"

#define FRONT_ROWS_MAX 2000UL /* of one hook; more are put in front when some of these have run */

struct front_row {
        uint64_t id;
        uint32_t series; /* a number of its hook, arguments and group; 0: it does not recur */
        uint8_t priority;
};

struct front_values {
        uint64_t n_rows;
        struct slice rows;
};

struct front {
        struct thing thing;
        struct front_values values; /* its slice borrows from: */
        struct buf bytes;
};

#define FRONT_NAME_MAX (SITE_NAME_MAX + 1 + 191 + 1)
void front_put_name(char *ret, struct slice site, struct slice hook); /* FRONT_NAME_MAX bytes */
struct slice front_site(const struct front *f);
struct slice front_hook(const struct front *f);
/* NULL: none of its actions is in front. */
const struct front *front_find(const struct state *s, struct slice site, struct slice hook);
/* All of the site, in no order: start with NULL. */
const struct front *front_next(const struct state *s, struct slice site, const struct front *f);
int front_by_series(const void *a, const void *b); /* an order of rows */
/* The rows, as they are packed; room for FRONT_ROWS_MAX. */
size_t front_unpack(const struct front_values *v, struct front_row *ret);
/* Rows by id, none twice. */
void front_pack(struct front_values *v, const struct front_row *rows, size_t n, struct buf *packed);
void front_put(const struct front_values *v, struct buf *body);

#endif
