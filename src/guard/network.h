/* The blogs of a WordPress network that have Action Scheduler's tables.
 *
 * Blog 1 has the tables of the prefix itself and is not listed; blog 7 has those of "wp_7_".  Runs
 * on the thread of the site whose prefix it is, with its connection. */
#ifndef WEIR_GUARD_NETWORK_H
#define WEIR_GUARD_NETWORK_H

#include "guard/store.h"

#define NETWORK_BLOGS_MAX  1000 /* that one reading tells of, the lowest numbers */
#define NETWORK_ID_DIGITS  10
#define NETWORK_NOTICE_MAX 400

struct network_blog {
        uint32_t id;
        bool is_open; /* not archived, deleted or spam */
};

struct network_blogs {
        struct network_blog blogs[NETWORK_BLOGS_MAX]; /* n of them, by number */
        size_t n;
        bool is_known;                   /* else it could not be read, and the last list holds */
        bool is_refused;                 /* for want of the privilege */
        char notice[NETWORK_NOTICE_MAX]; /* why not, or what it does not tell; "" */
};

/* A store that could at least connect: blog 1 need not have Action Scheduler's tables.  What is
 * refused is in the notice, with the GRANT to run; an error is one of the connection. */
int network_read(struct store *s, struct network_blogs *ret, struct problem *problem) MUST_CHECK;
/* "GRANT SELECT ON `shop`.`wp_blogs` TO 'weir'@'%'" */
void network_put_grant(const struct store *s, struct buf *ret);

#endif
