/* WordPress sites: what is known of each, what the gate decides for their actions, and the ledger
 * of those that were moved.
 *
 * Loop thread only.  The thread of a site (guard/) does all SQL; it comes here through the loop
 * with a survey and gets a plan (sites/survey.h).  A site is addressed by its name, so that a
 * reload may change the list at any time; calls for a name that is gone do nothing. */
#ifndef WEIR_SITES_SITES_H
#define WEIR_SITES_SITES_H

#include "core/core.h"
#include "sites/survey.h"

#define SITES_MAX 32

struct site_options {
        const char *name;
        const char *target; /* whose level decides; NULL: none, and the site stays off */
        const char *prefix; /* of its tables, for runners; NULL: not told */
        /* The site whose blog this is; `site.THAT.mode` holds for it too.  NULL: of none. */
        const char *network;
        const char *notice; /* lines that its advice begins with; may be NULL */
        /* A blog that is closed: what weir moved or put in front is given back, nothing else is
         * done. */
        bool is_leaving;
        enum gate_mode mode;
        int64_t interval_ms;
        bool is_front;         /* actions of the critical tier are put in front of all others */
        bool is_lost_critical; /* lost ones of that tier are set pending */
        enum gate_mode repairs[SITE_REPAIRS];
};

/* Who does the SQL.  Both may be called only on the loop thread. */
struct sites_guard {
        void (*wake)(void *ctx, struct slice site); /* begins the next cycle at once */
        /* Runs it; q->done is called later.  False: there is no such site. */
        bool (*request)(void *ctx, struct slice site, struct site_request *q);
        void *ctx;
};

/* Everything is copied.  Sites that stay keep what is known of them. */
void core_set_sites(struct core *core, const struct site_options *sites, size_t n,
                    const struct sites_guard *guard);
/* Is there something to give back to this site, which need not be one of the list? */
bool sites_has_ledger(const struct core *core, struct slice name);

/* ---- for the guard ---- */

/* What the guard may do.  Never off while it has priorities to give back. */
enum gate_mode sites_mode(const struct core *core, struct slice site);
/* A cycle ended early. */
void sites_failed(struct core *core, struct slice site, const char *why);
/* Takes the survey, also its arena.  The plan wants site_plan_release(). */
void sites_surveyed(struct core *core, struct slice site, struct site_survey *survey,
                    struct site_plan *ret);
void site_plan_release(struct site_plan *plan);
/* What repairs of the last plan found and did. */
void sites_repaired(struct core *core, struct slice site,
                    const struct site_fault faults[SITE_REPAIRS], const char *advice);

/* Rows that are about to be moved to step->to_s.  Sets the originals of async ones from the ledger,
 * leaves out those that have waited long enough or were deferred often enough (*n gets smaller, and
 * 0 also when the hook need not wait any more; the rows are sorted by id), and writes the batch.
 * The rows may be moved when the open batch of the core is durable. */
int sites_propose(struct core *core, struct slice site, struct site_step *step,
                  struct site_due_row *rows, size_t *n, struct problem *problem) MUST_CHECK;
/* The same before a SHIFT; ERR_STATE when it is not to be done any more. */
int sites_propose_shift(struct core *core, struct slice site, struct site_step *step,
                        struct problem *problem) MUST_CHECK;
/* The step was done.  is_refused: some rows could not be changed because of locks, or it is not
 * known whether they were: the ledger keeps them.  (A MOVE of which nothing was moved for sure is
 * told as not refused: then its batch goes.) */
void sites_stepped(struct core *core, struct slice site, const struct site_step *step,
                   uint64_t n_changed, bool is_refused);

/* Actions at the date of a move, of any hooks.  Keeps those that are not in the ledger (*n gets
 * smaller).  is_taken: writes them into it, as if weir had moved them just now, as far as the site
 * is in enforce and the ledger has room; *n: how many.  They are in it when the open batch of the
 * core is durable, and return like all others. */
void sites_take_strays(struct core *core, struct slice site, struct site_stray *rows, size_t *n,
                       bool is_taken);

/* Actions of a hook whose priority is about to become 0.  Leaves out those that must not (*n gets
 * smaller), and writes down what they have; they may be changed when the open batch of the core is
 * durable.  Sorts the rows by id. */
int sites_front(struct core *core, struct slice site, struct slice hook, struct front_row *rows,
                size_t *n, struct problem *problem) MUST_CHECK;
/* Of the actions that a plan asked about, and of their series: those that wait or run with priority
 * 0; is_all: there are no more of them.  Forgets the others.  Keeps in `rows` those that get their
 * priority back now, with it, by id. */
void sites_fronted(struct core *core, struct slice site, const struct site_front *asked,
                   struct front_row *rows, size_t *n, bool is_all);
/* A few times a second while actions may return: a plan of returns alone. */
void sites_top_up(struct core *core, struct slice site, const struct site_pace *pace,
                  struct site_plan *ret);

/* ---- for other rooms of the core ---- */

/* For /metrics: calls fn for each sample of each family. */
void sites_each_sample(const struct core *core,
                       void (*fn)(void *ctx, const char *name, const char *labels, double value),
                       void *ctx);
bool sites_has(const struct core *core, struct slice name);
size_t sites_count(const struct core *core);
const char *sites_name(const struct core *core, size_t index);
enum gate_mode sites_configured_mode(const struct core *core, size_t index);
bool sites_has_target(const struct core *core, size_t index); /* else its mode is off */
extern const struct feature sites_feature;

#endif
