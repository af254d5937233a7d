/* A job as one line of JSON, as POST /v1/jobs takes it:
 *
 *      {"hook": "mail.send", "args": {"to": 17}, "queue": "mail", "priority": 10}
 *
 * args keep the exact bytes of their JSON; with args_is_text they are the text of a string, and
 * other bytes come as args_base64 (wire/payload.h).  Times are milliseconds, as there.  Pure. */
#ifndef WEIR_CLI_JOB_LINE_H
#define WEIR_CLI_JOB_LINE_H

#include "cli/bulk.h"

struct job_line {
        struct bulk_job job;        /* hook is empty when the line names none */
        uint64_t id;                /* of an exported job; else 0 */
        struct slice status;        /* likewise; else empty */
        int64_t due_ms, expires_ms; /* likewise; else 0 */
        struct buf options;         /* what job.options points to */
        struct buf ties;            /* options that go with `after` */
        bool has_after;             /* some ids of it are left */
        bool is_text;               /* args are the text of a string */
        struct arena arena;         /* for texts with escapes, and base64 */
};

struct job_line_rules {
        bool is_export; /* fields that only tell are let through: id, status, created_ms ... */
        /* Keyword, value, ... (bulk_put_word) for what the line does not say; may be empty. */
        struct slice defaults;
        struct slice hook; /* likewise */
        /* Translates the ids of `after`; 0: leave it out.  NULL: as they are. */
        uint64_t (*map_id)(void *ctx, uint64_t id);
        /* Whether a job is still to count for this batch.  NULL: it is. */
        bool (*keeps_batch)(void *ctx, struct slice name);
        void *ctx;
};

/* Whether a job may have this key: what an export writes of a job's options. */
bool job_line_has_key(struct slice name);

void job_line_init(struct job_line *l);
void job_line_release(struct job_line *l);
/* Reads a line; what it gives is valid until the next. */
int job_line_parse(struct job_line *l, struct slice line, const struct job_line_rules *rules,
                   struct problem *p) MUST_CHECK;
/* One more option, after the line was read: job.options has it too. */
void job_line_put(struct job_line *l, const char *keyword, int64_t value);

/* Lines of a file, without their ends; empty ones are counted and left out. */
struct line_reader {
        int fd;
        struct buf bytes;
        size_t at;       /* behind the last line, in bytes */
        uint64_t line;   /* its number, from 1 */
        uint64_t offset; /* behind it, in the file */
        bool is_end;
};

#define LINE_MAX_BYTES (4 * MIB) /* a payload in base64 and every option fit */

int line_reader_open(struct line_reader *r, const char *path, uint64_t *ret_size,
                     struct problem *p) MUST_CHECK; /* "-": standard input; size 0: not known */
void line_reader_close(struct line_reader *r);
/* ERR_NOTFOUND at the end. */
int line_reader_next(struct line_reader *r, struct slice *ret, struct problem *p) MUST_CHECK;

#endif
