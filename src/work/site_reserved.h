/* The reserved runner of a WordPress site, or of one blog of it: one PHP process that stays, claims
 * only actions of the critical hooks, and works beside the runners of site_runner.h at every level.
 *
 * It is told the hooks on its standard input.  It keeps the last ones while the server is away. */
#ifndef WEIR_WORK_SITE_RESERVED_H
#define WEIR_WORK_SITE_RESERVED_H

#include <uv.h>

#include "work/site_blog.h"

struct site_reserved;

/* Everything is borrowed for its life. */
struct site_reserved_spec {
        uv_loop_t *loop;
        const char *site;
        const struct site_command *command;
        const struct words *env;
        const char *dir;
        const struct site_blog *blog;
        bool passes_errors;
        void (*left)(void *ctx); /* its process has ended after it was told to leave or to stop */
        void *ctx;
};

struct site_reserved *site_reserved_new(const struct site_reserved_spec *spec);
/* Whether there is to be a process; at first there is none. */
void site_reserved_want(struct site_reserved *r, bool is_wanted);
bool site_reserved_is_there(const struct site_reserved *r); /* or in a pause, or about to leave */
/* A process that was killed has left a claim, which the next one gives back. */
bool site_reserved_has_claim(const struct site_reserved *r);
/* A list of texts.  None ends the process, any starts it while one is wanted. */
void site_reserved_set_hooks(struct site_reserved *r, const struct value *hooks);
/* As a list in JSON; "" without any. */
struct slice site_reserved_hooks(const struct site_reserved *r);
/* The process may end the action it works on, and starts no other. */
void site_reserved_stop(struct site_reserved *r);
void site_reserved_kill(struct site_reserved *r);
bool site_reserved_is_stopped(const struct site_reserved *r);
/* When it is stopped.  It is gone for the caller. */
void site_reserved_close(struct site_reserved *r);

#endif
