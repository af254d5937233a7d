/* Reading the configuration again while weir runs: parse, check, swap.
 *
 * What cannot change without a restart stays as it is and is named.  An error anywhere leaves the
 * old configuration in place and says in which line it is.  On the loop, within a turn. */
#ifndef WEIR_SERVE_RELOAD_H
#define WEIR_SERVE_RELOAD_H

#include "base/buf.h"
#include "serve/config.h"
#include "serve/probes.h"
#include "serve/proxies.h"
#include "serve/site_guards.h"
#include "telemetry/exporter.h"

struct reload {
        struct config *config;      /* the one that holds; a reference */
        struct probes *probes;      /* not owned */
        struct site_guards *guards; /* not owned */
        struct proxies *proxies;    /* not owned */
        struct exporter *exporter;  /* not owned */
        struct core *core;          /* not owned */
        struct server *server;      /* not owned */
        char *path;                 /* of the file, from /; NULL: there is none */
        int64_t loaded_ms;          /* Unix ms */
        /* Reads everything anew into a config that was initialised: the file, then the options. */
        int (*read)(void *ctx, struct config *ret, struct problem *problem);
        /* The names of the settings that the options give, a line each. */
        void (*given)(void *ctx, struct buf *ret);
        /* It holds from now on. */
        void (*taken)(void *ctx, struct config *config);
        void *ctx;
};

/* Also says what came of it to the log.  The buffers get a line per thing that changed, and per
 * thing that needs a restart.  A trial changes and says nothing. */
int reload_run(struct reload *r, bool is_trial, struct buf *ret_changed, struct buf *ret_restart,
               struct problem *problem);
/* Gives the exporter what is configured, and the core the exporter. */
void reload_set_exporter(struct reload *r);
/* Tells the core how to reach this; `r` must outlive it. */
void reload_offer(struct reload *r);

#endif
