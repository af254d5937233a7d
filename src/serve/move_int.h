/* What the two directions of `weir move` share.  Only move*.c include this. */
#ifndef WEIR_SERVE_MOVE_INT_H
#define WEIR_SERVE_MOVE_INT_H

#include "base/err.h"
#include "cli/progress.h"
#include "serve/cluster_store.h"
#include "serve/config.h"
#include "serve/move_mark.h"
#include "serve/mover.h"
#include "serve/pour.h"

#define MOVE_PATH_MAX 4096

struct move {
        struct config config;
        const char *data;
        struct cluster_store store;
        struct cluster_log log; /* as it was before the move */
        struct mover *mover;
        struct progress progress;
        struct problem *problem;
        /* What was moved. */
        uint64_t jobs, finished, batches;
        bool is_resumed; /* an earlier one had moved all, and only its end was missing */
};

int move_path(const struct move *m, const char *folder, const char *name, char ret[MOVE_PATH_MAX]);
/* Connects, and makes sure that no weir of the cluster runs. */
int move_open_store(struct move *m) MUST_CHECK;
/* Takes the lead of the log as it was read. */
int move_lead(struct move *m) MUST_CHECK;
/* "postgres at db1:5432, database weir" */
void move_put_place(const struct move *m, struct buf *ret);
void move_show_batches(void *move, uint64_t batches, uint64_t bytes);
void move_show_jobs(void *move, uint64_t jobs, uint64_t bytes);

int move_in(struct move *m) MUST_CHECK;
int move_out(struct move *m) MUST_CHECK;
int move_reopen(struct move *m) MUST_CHECK;

#endif
