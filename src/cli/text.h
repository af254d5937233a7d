/* Durations, sizes and moments as people write and read them. */
#ifndef WEIR_CLI_TEXT_H
#define WEIR_CLI_TEXT_H

#include "base/duration.h"
#include "cli/options.h"

/* "500ms", "30s", "5m", "2h", "1d", and sums such as "1h30m"; a number alone is refused.  `what`
 * names the option. */
int duration_parse(const char *what, const char *text, int64_t *ret_ms,
                   struct problem *p) MUST_CHECK;

/* The same, or a plain number, which is seconds, as flock has it; from min_ms to a day. */
int seconds_parse(const char *what, const char *text, int64_t min_ms, int64_t *ret_ms,
                  struct problem *p) MUST_CHECK;

/* The delays of a --backoff need units: to the server a bare number is milliseconds, and a person
 * who types "fixed:5" means seconds.  The server checks everything else. */
int backoff_check(const char *text, struct problem *p) MUST_CHECK;

/* "4096", "64k", "1m", "1g" (1024s); at most max. */
int size_parse(const char *what, const char *text, uint64_t max, uint64_t *ret,
               struct problem *p) MUST_CHECK;

struct range {
        int64_t min, max;
};
int number_parse(const char *what, const char *text, struct range range, int64_t *ret,
                 struct problem *p) MUST_CHECK;
/* The value of an option; *ret stays when the option is not given. */
int args_number(const struct args *args, const char *option, struct range range, int64_t *ret,
                struct problem *p) MUST_CHECK;

/* "2026-11-15T10:00[:05][.5][Z|+01:00]" (a space for the T; local time without a zone),
 * "10:00[:05]" (the next time it is that late), "@1731661200" (Unix seconds). */
int moment_parse(const char *what, const char *text, int64_t now_ms, int64_t *ret_ms,
                 struct problem *p) MUST_CHECK;

void moment_put(struct buf *b, int64_t at_ms); /* 2026-11-15 10:00:05 +0100 */
void moment_put_relative(struct buf *b, int64_t at_ms, int64_t now_ms); /* in 5 min; 3 s ago */
void age_put_read(struct buf *b,
                  int64_t age_ms); /* "was last read 3 s ago"; -1: "was never read" */

#endif
