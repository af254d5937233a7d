/* The places of one blog's runners: which are taken, how each ended, when the next may start.
 *
 * How many there are in all is not known here: the caller starts them one by one. */
#ifndef WEIR_WORK_SITE_PLACES_H
#define WEIR_WORK_SITE_PLACES_H

#include <uv.h>

#include "work/site_blog.h"

#define SITE_RUNNERS_MAX 64

struct site_places;

/* Of all blogs. */
struct site_tally {
        uint64_t n_started, n_failed;
};

/* Everything is borrowed for its life. */
struct site_places_spec {
        uv_loop_t *loop;
        const char *site;
        const struct site_command *command;
        const struct words *env;
        const char *dir;
        const struct site_blog *blog;
        struct site_tally *tally;
        size_t n; /* places, at most SITE_RUNNERS_MAX */
        bool passes_errors;
        void (*ended)(void *ctx); /* a runner has */
        void *ctx;
};

/* What the server says of the blog. */
struct site_told {
        int64_t due, critical, allowed, survey_ms;
};

struct site_places *site_places_new(const struct site_places_spec *spec);
/* When none is taken. */
void site_places_free(struct site_places *p);
void site_places_tell(struct site_places *p, const struct site_told *told);
const struct site_told *site_places_told(const struct site_places *p);
/* How many more may be started now, and would find something. */
int64_t site_places_wants(const struct site_places *p);
/* More critical actions are due than runners began with lately. */
bool site_places_is_critical(const struct site_places *p);
/* first: hooks that go first, a list in JSON, may be empty.  Only when it wants one. */
void site_places_start(struct site_places *p, struct slice first);
size_t site_places_running(const struct site_places *p);
/* SIGTERM for all of them; none is said to have failed from now on. */
void site_places_stop(struct site_places *p);
void site_places_kill(struct site_places *p);

#endif
