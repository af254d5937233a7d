/* Batches that are being taken in: made before their jobs, and closed or canceled, as they were in
 * the old weir, when all of those have come.  One of which a job is missing stays open and is told:
 * its callbacks would say that something is done which is not. */
#ifndef WEIR_CLI_IMPORT_BATCH_H
#define WEIR_CLI_IMPORT_BATCH_H

#include "base/hash.h"
#include "base/list.h"
#include "cli/command.h"

struct import_batches {
        struct hash by_name;
        struct list all; /* in the order of the file */
        uint64_t open;   /* that stayed open, though they were closed */
};

void import_batches_init(struct import_batches *b);
void import_batches_release(struct import_batches *b);
/* total: of its jobs, ended ones too; then: what is to be done with it at the end, a command, or
 * NULL. */
void import_batches_add(struct import_batches *b, struct slice name, uint64_t total,
                        const char *then, bool is_made);
/* It is in the file and could not be made: its jobs must not join another of that name. */
bool import_batches_is_lost(const struct import_batches *b, struct slice name);
/* All jobs have come. */
int import_batches_finish(struct import_batches *b, struct cli *cli, struct problem *p) MUST_CHECK;

#endif
