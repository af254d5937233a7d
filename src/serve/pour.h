/* Batches of one log into another: as they are and in order, but several small ones as one, so that
 * not each of them waits for a disk. */
#ifndef WEIR_SERVE_POUR_H
#define WEIR_SERVE_POUR_H

#include "base/buf.h"
#include "base/err.h"
#include "log/log.h"
#include "serve/replayed.h"

struct pour {
        /* Returns when it is durable. */
        int (*append)(void *ctx, struct slice batch, struct problem *problem);
        void *ctx;
        /* Told after each; may be NULL. */
        void (*progress)(void *ctx, uint64_t batches, uint64_t bytes);
        void *progress_ctx;
        struct replayed *replayed; /* borrowed: what is poured is read into it; NULL: it is not */
        /* Its own. */
        struct buf open;
        uint64_t batches, bytes; /* that were appended */
        struct problem *problem;
};

void pour_init(struct pour *p, struct problem *problem);      /* all else is set afterwards */
void pour_release(struct pour *p);                            /* all zeros is fine */
int pour_batch(void *pour, uint64_t seq, struct slice batch); /* a log_read_fn */
int pour_end(struct pour *p) MUST_CHECK;

/* The log of a new folder, to be poured into. */
struct folder_log;
int folder_log_new(const char *path, struct folder_log **ret, struct problem *problem) MUST_CHECK;
/* A struct pour's append. */
int folder_log_append(void *folder_log, struct slice batch, struct problem *problem) MUST_CHECK;
struct folder_log *folder_log_close(struct folder_log *l); /* NULL is fine; returns NULL */
/* Reads the log of a folder without changing it. */
int folder_log_read(const char *path, log_read_fn fn, void *ctx,
                    struct problem *problem) MUST_CHECK;

#endif
