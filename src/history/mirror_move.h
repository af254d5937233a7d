/* All of a history at once, from its files into a mirror (mirror.h) and back: for `weir move` and
 * for backups of a cluster.  No threads in here. */
#ifndef WEIR_HISTORY_MIRROR_MOVE_H
#define WEIR_HISTORY_MIRROR_MOVE_H

#include "base/err.h"
#include "history/mirror.h"

struct mirror_move {
        struct mirror *mirror; /* its owner may write to it, but for mirror_pull() */
        const char *path;      /* of the history file */
        /* Told now and then; may be NULL. */
        void (*progress)(void *ctx, uint64_t jobs, uint64_t bytes);
        void *ctx;
        /* What has been moved so far. */
        uint64_t jobs, bytes;
};

/* Removes everything from the mirror but the leaders that it had. */
int mirror_clear(struct mirror_move *m, struct problem *p) MUST_CHECK;
/* Puts all that the file has into a mirror that has nothing: blocks as they are, rows made into
 * blocks, minutes, incidents and the audit trail.  Nobody else uses the file, and it is not
 * changed.  ERR_NOTFOUND: there is none; ERR_CORRUPT: some of it cannot be read, and the mirror has
 * a part of the rest. */
int mirror_push(struct mirror_move *m, struct problem *p) MUST_CHECK;
/* Makes the file, which is not there, from all that the mirror has, and leaves it as one of its
 * own.  is_leading: proves at the end that nobody writes to the mirror meanwhile, and ERR_CORRUPT
 * tells of damage there; else damaged blocks are left out, with a warning. */
int mirror_pull(struct mirror_move *m, bool is_leading, struct problem *p) MUST_CHECK;

#endif
