/* The handlers file of `weir work`: sections `handler "pattern" { ... }`. */
#ifndef WEIR_CLI_WORK_FILE_H
#define WEIR_CLI_WORK_FILE_H

#include "work/handler.h"

/* Errors name file and line, and what is allowed.  *ret is empty on error. */
int work_file_read(const char *path, struct handlers *ret, struct problem *p) MUST_CHECK;

/* NAME=VALUE as it is, or NAME for this process's own; a name that is not set adds nothing. */
int work_env_add(struct words *env, const char *text, struct problem *p) MUST_CHECK;

/* Refuses what is nearly a placeholder and would reach the command as it is: {hok}, {job_id}. */
int work_placeholders_check(const struct words *command, const char *name,
                            struct problem *p) MUST_CHECK;

/* `none`, or up to HANDLER_CODES_MAX exit codes or statuses, as the kind of the handler is. */
int work_no_retry_take(struct handler *h, const char *name, const char *const *texts, size_t n,
                       struct problem *p) MUST_CHECK;

#endif
