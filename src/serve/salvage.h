/* `weir log salvage`: a new log from what is sound in a damaged one. */
#ifndef WEIR_SERVE_SALVAGE_H
#define WEIR_SERVE_SALVAGE_H

#include "log/file.h"

/* Reads `from` (changing nothing) and makes `new_folder` a data folder that a server starts on.
 * Each place and each change that had to be left behind is told to `left_behind`. */
int salvage(struct disk *from, const char *new_folder, file_log_bad_fn left_behind, void *ctx,
            struct file_log_report *ret, struct problem *problem) MUST_CHECK;

#endif
