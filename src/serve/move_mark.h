/* The marks of a move: what was moved, and where it is now.
 *
 * A data folder that was moved into a cluster has a file `moved`: its first line is for people, and
 * a weir that is started on it tells it and ends.  A log of a cluster that is being filled, or that
 * was moved into a folder, is closed (cluster/ledger.h), and the first line says why.  The second
 * line of both is the same: it names the move, so that one that was interrupted is recognised, and
 * the numbers that must not go back. */
#ifndef WEIR_SERVE_MOVE_MARK_H
#define WEIR_SERVE_MOVE_MARK_H

#include "base/err.h"
#include "cluster/ledger.h"

enum move_way { MOVE_IN, MOVE_OUT }; /* of the cluster */

#define MOVE_ID_LEN 32
struct move_mark {
        enum move_way way;
        char id[MOVE_ID_LEN + 1];    /* "": not moved */
        uint64_t next_id, fence;     /* of the state that was moved, or of what was there before */
        char why[LEDGER_CLOSED_MAX]; /* the first line */
};

void move_mark_new_id(struct move_mark *m);
/* "2026-11-17T13:00:00Z" */
#define MOVE_TIME_LEN 20
void move_mark_time(char ret[MOVE_TIME_LEN + 1]);

/* Both lines; within LEDGER_CLOSED_MAX, if need be with a shorter `why`. */
void move_mark_print(const struct move_mark *m, char ret[LEDGER_CLOSED_MAX]);
/* false: it is no mark, and only m->why is set. */
bool move_mark_parse(const char *text, struct move_mark *m);

/* The mark of a folder.  An id "": there is none. */
int move_mark_read(const char *folder, const char *name, struct move_mark *ret,
                   struct problem *problem) MUST_CHECK;
/* Durable on return. */
int move_mark_write(const char *folder, const char *name, const struct move_mark *m,
                    struct problem *problem) MUST_CHECK;
#define MOVED_NAME      "moved"      /* of a folder whose data are in a cluster */
#define MOVED_FROM_NAME "moved_from" /* of one that is made from a cluster and whole */

/* ERR_STATE: the data of this folder are in a cluster now. */
int move_mark_check(const char *data, struct problem *problem) MUST_CHECK;
/* Makes the names in a folder durable. */
int move_mark_sync_folder(const char *path, struct problem *problem) MUST_CHECK;

#endif
