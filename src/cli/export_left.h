/* Notes about what an export leaves behind, for the person who moves to another weir. */
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

/* Appends a line for each kind of thing that is not in the file; asks the server how many there
 * are.  is_only(): is the kind with that plural exported? */
int left_put(struct buf *notes, struct cli *cli, const struct left_jobs *jobs,
             bool (*is_only)(const struct args *args, const char *plural),
             struct problem *p) MUST_CHECK;

#endif
