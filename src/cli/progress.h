/* How far long work has come: a bar on a terminal, a line now and then elsewhere; all of it on
 * standard error. */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include "base/buf.h"

struct progress {
        const char *verb;     /* "added" */
        const char *noun;     /* "jobs" */
        uint64_t total_bytes; /* 0: not known, and then there is no bar and no end in sight */
        int64_t began_ns, told_ns;
        bool is_tty, is_quiet;
        bool is_shown; /* something stands on the terminal's line */
};

void progress_init(struct progress *p, const char *verb, const char *noun, uint64_t total_bytes,
                   bool is_quiet);
/* `done` things, read from the first `bytes` of the work; tells when it is time to. */
void progress_tell(struct progress *p, uint64_t done, uint64_t bytes);
/* Takes the bar away. */
void progress_end(struct progress *p);

/* What is told, without the ends of a line: pure. */
void progress_put(struct buf *b, const struct progress *p, uint64_t done, uint64_t bytes,
                  int64_t now_ns);

/* 1234567 as "1,234,567". */
void count_put(struct buf *b, uint64_t n);

#endif
