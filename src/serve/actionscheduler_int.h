/* What both directions share: the site, the running weir, the choice of hooks, and what is told at
 * the end. */
#ifndef WEIR_SERVE_ACTIONSCHEDULER_INT_H
#define WEIR_SERVE_ACTIONSCHEDULER_INT_H

#include "cli/client.h"
#include "cli/options.h"
#include "gate/registry.h"
#include "guard/transfer.h"
#include "serve/config.h"

/* Numbers under texts, in the order in which they were first met. */
struct tally {
        struct tally_row {
                char *text;
                uint64_t n;
                char first[48]; /* "action 17": an example */
        } * rows;
        size_t n, last;
};

struct moving {
        struct args args;
        struct config config;
        const struct config_site *site;
        struct config_site *blog; /* its own; NULL: `site` is a section */
        struct store store;
        struct transfer transfer;
        struct registry *patterns; /* of --hooks; NULL: every hook but Action Scheduler's own */
        struct server_url url;
        struct client client;
        const char *queue; /* --queue; NULL: not given */
        bool is_export, is_dry;
        uint64_t limit; /* --limit: actions; UINT64_MAX: all */
        uint64_t jobs, schedules;
        struct tally hooks; /* what was moved */
        struct tally left;  /* what was not, by reason */
};

bool moving_wants(const struct moving *m, struct slice hook);
void tally_add(struct tally *t, struct slice text, const char *example);
/* Counts one that stays where it is: "action 17", and "with a cron expression with a year". */
void moving_leave(struct moving *m, const char *what, uint64_t id, struct slice why);

/* The name of a moved action in weir: the idempotency key of its import and the KEY of its job,
 * which is told with the job for as long as that is kept.  "wordpress:shop:17:s1714550400": site,
 * id, kind, date.  At most one job of a KEY runs at a time, so it changes nothing for a single job,
 * and keeps those of a schedule apart, as Action Scheduler does. */
#define MARK_PREFIX "wordpress:"
#define MARK_MAX    (SITE_NAME_MAX + 80)
/* Kinds in a mark, by enum transfer_kind. */
#define MARK_KINDS "asic"

int moving_import(struct moving *m, struct problem *problem) MUST_CHECK;
int moving_export(struct moving *m, struct problem *problem) MUST_CHECK;

#endif
