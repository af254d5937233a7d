/* Many jobs to a server at full speed: `weir job add --file` and `weir import`.
 *
 * Jobs that follow each other with the same options travel in one ENQUEUEMANY, which is added whole
 * or not at all, and several of those are on their way at once.  Everything is copied; a job may be
 * forgotten when bulk_add() returned. */
#ifndef WEIR_CLI_BULK_H
#define WEIR_CLI_BULK_H

#include "cli/client.h"

#define BULK_CHUNK_JOBS  10000      /* the server's most in one ENQUEUEMANY */
#define BULK_CHUNK_BYTES (16 * MIB) /* half of its largest request */

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
/* Sends what was collected and waits for every answer; more may be added afterwards. */
int bulk_wait(struct bulk *b, struct problem *p) MUST_CHECK;
/* Drops what was collected and not sent: a line of that chunk is bad. */
void bulk_drop(struct bulk *b);
/* Sends the rest and waits for every answer.  After an error too: what is on its way is waited for,
 * so that bulk_added() is exact. */
int bulk_finish(struct bulk *b, struct problem *p) MUST_CHECK;

uint64_t bulk_added(const struct bulk *b);
/* Jobs that were sent and never answered for, since the connection broke: added or not. */
uint64_t bulk_unknown(const struct bulk *b);
uint64_t bulk_last_line(const struct bulk *b); /* the last that was sent; 0: none */

void bulk_put_word(struct buf *options, struct slice word);

#endif
