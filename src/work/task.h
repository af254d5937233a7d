/* One run of a command: payload in, output kept, exit code out.
 *
 * A task leads a process group (and session) of its own, so that all of it can be killed.  It
 * ends when the command has exited and its output has been read to the end; processes it left
 * behind in its group are killed then.  It frees itself after `done` returned.
 *
 * Standard input ends after `input`.  With `keeps_input` it stays open: task_write() adds to it,
 * and a command that reads to its end can be told to leave by task_end_input(). */
#ifndef WEIR_WORK_TASK_H
#define WEIR_WORK_TASK_H

#include <uv.h>

#include "base/err.h"
#include "base/slice.h"
#include "work/spawn.h"

struct task;

struct task_result {
        int exit_code;       /* when signal is 0 */
        int signal;          /* that ended it, or 0 */
        struct slice output; /* standard output, at most output_max bytes */
        bool is_output_cut;
        bool has_left_behind; /* processes that still held its streams a second after its end */
        struct slice errors;  /* the end of standard error, from the start of a line */
};

struct task_spec {
        struct spawn command; /* borrowed until task_start returns; its stdio is filled in */
        struct slice input;   /* copied */
        bool keeps_input;
        void (*said)(void *ctx, struct slice bytes); /* standard output as it comes; may be NULL */
        size_t output_max;
        bool passes_errors; /* standard error is also copied to ours */
        void (*done)(void *ctx, const struct task_result *result);
        void *ctx;
};

/* ERR_NOTFOUND when there is no such program, ERR_UNAVAIL when the system has no room for a
 * process; `done` is not called then. */
int task_start(uv_loop_t *loop, const struct task_spec *spec, struct task **ret,
               struct problem *p) MUST_CHECK;
void task_kill(struct task *t, int signum); /* its whole group */
/* Copied.  Lost when the command has closed its input or ended. */
void task_write(struct task *t, struct slice bytes);
void task_end_input(struct task *t); /* what was not read yet may be lost */
/* Whether the command has ended by itself, also when the loop has not heard of it yet. */
bool task_has_ended(const struct task *t);

#endif
