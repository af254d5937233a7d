/* Many jobs to a server at full speed: `weir job add --file` and `weir import`.
 *
 * Jobs in a row with the same options travel in one ENQUEUEMANY, which the server adds whole or not
 * at all.  Several of these requests are on their way at once.  bulk_add() copies the job. */
#ifndef WEIR_CLI_BULK_H
#define WEIR_CLI_BULK_H

#include "api/limits.h"
#include "cli/client.h"

#define BULK_CHUNK_JOBS  LIMIT_BULK_JOBS
#define BULK_CHUNK_BYTES (LIMIT_COMMAND_BYTES / 2)

struct bulk_job {
        struct slice hook, args;
        struct slice options; /* words of bulk_put_word(): keyword, value, ... */
        uint64_t line;        /* of the file, from 1 */
        uint64_t tag;         /* the caller's */
};

struct bulk_options {
        struct client *client;
        bool is_skipping; /* go on after a job that the server refuses; else its chunk is the end */
        const char *once; /* idempotency key of the whole file, or NULL */
        size_t chunk_jobs; /* 0: BULK_CHUNK_JOBS */
        void (*added)(void *ctx, uint64_t line, uint64_t tag, int64_t id);
        void (*refused)(void *ctx, uint64_t first_line, uint64_t last_line,
                        const struct problem *why);
        void *ctx;
};

struct bulk;

struct bulk *bulk_new(const struct bulk_options *options);
struct bulk *bulk_free(struct bulk *b);
/* The same as options->once, for a key that only the file tells; `once` must live. */
void bulk_set_once(struct bulk *b, const char *once);

/* ERR_... of the server or the connection is final: nothing more is sent. */
int bulk_add(struct bulk *b, const struct bulk_job *job, struct problem *p) MUST_CHECK;
/* Sends the jobs that were not sent yet, and waits for every answer; more may be added then. */
int bulk_wait(struct bulk *b, struct problem *p) MUST_CHECK;
/* Drops the jobs that were not sent yet: a line of their chunk is bad. */
void bulk_drop(struct bulk *b);
/* Sends the rest and waits for every answer, after an error too, so that bulk_added() is exact. */
int bulk_finish(struct bulk *b, struct problem *p) MUST_CHECK;

uint64_t bulk_added(const struct bulk *b);
/* Jobs without an answer because the connection broke: the server may have added them. */
uint64_t bulk_unknown(const struct bulk *b);
uint64_t bulk_last_line(const struct bulk *b); /* the last that was sent; 0: none */

void bulk_put_word(struct buf *options, struct slice word);

#endif
