/* What an export leaves behind, said so that nobody finds out later. */
#ifndef WEIR_CLI_EXPORT_LEFT_H
#define WEIR_CLI_EXPORT_LEFT_H

#include "cli/command.h"
#include "cli/kinds.h"

/* Counted while it is written. */
struct left_jobs {
        uint64_t running;          /* they wait again */
        uint64_t scheduled;        /* made by a schedule, which will not know them */
        uint64_t unbatched;        /* written without the batch that they count for */
        uint64_t kinds[KINDS_MAX]; /* things of that kind that do not move */
};

/* Appends a line for each thing that the reader of the file will miss; nothing when there is none.
 * Asks the server for what the file has nothing of.  is_only: whether a kind is exported, by its
 * plural. */
int left_put(struct buf *notes, struct cli *cli, const struct left_jobs *jobs,
             bool (*is_only)(const struct args *args, const char *plural),
             struct problem *p) MUST_CHECK;

#endif
