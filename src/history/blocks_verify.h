/* Reading all blocks of a history file from outside: for `weir history verify`, and for a start
 * without a log.  A file of a version without blocks is fine. */
#ifndef WEIR_HISTORY_BLOCKS_VERIFY_H
#define WEIR_HISTORY_BLOCKS_VERIFY_H

#include <sqlite3.h>

#include "history/archive_file.h"

struct blocks_verify {
        archive_damage_fn tell;
        void *ctx;
        /* Is added to: the jobs of each block to `rows`, those of a damaged one to `damaged` too.
         */
        struct archive_report *report;
};

/* A server may use the file meanwhile: what it drops is passed over. */
int blocks_verify(const struct blocks_verify *v, sqlite3 *db, const char *path,
                  struct problem *p) MUST_CHECK;

/* The largest fence of any job in a block, or *ret if that is larger.  ERR_CORRUPT: a block cannot
 * be read; *ret is that of the others. */
int blocks_last_fence(sqlite3 *db, const char *path, uint64_t *ret, struct problem *p) MUST_CHECK;

#endif
