/* The blogs that one `weir work --wordpress` works for: the site itself, and those of its network.
 *
 * The server tells the list with each answer to SITERUN, so a blog may come and go at any time.
 * Runners and reserved runners are bounded for all blogs together; site_turns.h says who is next.
 */
#ifndef WEIR_WORK_SITE_MEMBERS_H
#define WEIR_WORK_SITE_MEMBERS_H

#include "work/link.h"
#include "work/site_places.h"
#include "work/site_runner.h"

struct site_members;

/* Everything is borrowed for its life. */
struct site_members_spec {
        uv_loop_t *loop;
        const struct site_runner_options *options;
        const struct words *env;
        void (*changed)(void *ctx); /* a runner or a reserved one has ended */
        void *ctx;
};

struct site_members *site_members_new(const struct site_members_spec *spec);
/* A reply to SITERUN; NULL: nothing is due, as far as is known.  Returns whether critical
 * hooks are missing that SITEFIRST would tell now. */
bool site_members_learn(struct site_members *m, const struct value *reply);
/* Starts what may be started. */
void site_members_work(struct site_members *m);
/* One runner of the blog whose turn it is, whatever was told. */
void site_members_start_blindly(struct site_members *m);
/* Sends a SITEFIRST for each blog; the answers set the hooks of its reserved runner. */
void site_members_ask_first(struct site_members *m, struct link *link, int64_t answer_ms);
int64_t site_members_due(const struct site_members *m);
size_t site_members_running(const struct site_members *m);
struct site_tally site_members_tally(const struct site_members *m);
void site_members_stop(struct site_members *m);
void site_members_kill(struct site_members *m);
bool site_members_are_stopped(const struct site_members *m);
/* When they are stopped and the link is closed. */
void site_members_close(struct site_members *m);

#endif
