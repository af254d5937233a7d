/* How a command's end is told: its error for people, and the delay it asked for. */
#ifndef WEIR_WORK_OUTCOME_H
#define WEIR_WORK_OUTCOME_H

#include "base/buf.h"
#include "work/handler.h"
#include "work/task.h"

/* "exit 3: the end of standard error"; limit_ms: the time after which it was killed, 0 if it was
 * not for that. */
void outcome_put_failure(struct buf *b, const struct handler *h, const struct task_result *r,
                         int64_t limit_ms);
/* Errors are shown to people: bytes that are no UTF-8 and control characters are not. */
void outcome_put_text(struct buf *b, struct slice text);

/* A last line "weir-retry-in: 30s" is taken off *text.  Units: ms, s, m, h, d; `never` is
 * HANDLER_RETRY_NEVER. */
bool outcome_take_retry(struct slice *text, int64_t *ret_ms);

#endif
