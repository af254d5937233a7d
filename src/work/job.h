/* A job as a CLAIM gave it: what a handler is told, and what proves that it is ours. */
#ifndef WEIR_WORK_JOB_H
#define WEIR_WORK_JOB_H

#include "base/buf.h"
#include "wire/resp_reply.h"
#include "work/words.h"

struct job {
        int64_t id, attempt, attempts, priority, fence, lease_ms;
        int64_t maxrun_ms; /* how long this attempt may run from its grant on; 0: no limit */
        int64_t limit_ms; /* what is left when its handler begins: of maxrun_ms and of the handler's
                           * own timeout the less; 0: no limit */
        char token[33];
        char traceparent[64]; /* of this attempt; empty: it is in no trace */
        char hook[256], queue[256], group[256];
        struct buf args; /* kept only until a handler has it */
};

void job_init(struct job *j);
void job_release(struct job *j);
/* False when the row is not one of a CLAIM's. */
bool job_read(struct job *j, const struct value *row);

/* The values of the placeholders in commands and addresses.  Borrowed from the job and from *ret.
 */
#define JOB_VALUES       6
#define JOB_PLACEHOLDERS "{id} {hook} {queue} {group} {attempt} {fence}"
struct job_values {
        struct word_value all[JOB_VALUES];
        char digits[3][24];
};
void job_values(const struct job *j, struct job_values *ret);

/* The environment of a command: PATH, LANG and HOME of this process, `extra` (NAME=VALUE, which
 * may replace those), and the job's WEIR_ variables, which nothing replaces.  All owned;
 * NULL-terminated. */
char **job_env(const struct job *j, const char *url, const struct words *extra);
void job_env_free(char **env);

#endif
