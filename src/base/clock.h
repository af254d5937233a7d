/* Time as a value.  Nothing below main and the doors reads a clock: it is told the time.
 *
 *   steady_ns  CLOCK_BOOTTIME, continued over restarts from the last time in the log, so it only
 *              grows and stands still while weir is down: leases and waits.
 *   wall_ms    Unix time in ms: "at", cron and display.  May jump either way. */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include "base/defs.h"

struct now {
        int64_t steady_ns;
        int64_t wall_ms;
};

int64_t clock_boot_ns(void);
int64_t clock_wall_ms(void);

/* "2026-11-15T08:51:00.123Z"; ret must hold CLOCK_TEXT_SIZE bytes. */
#define CLOCK_TEXT_SIZE 32
const char *clock_text(int64_t wall_ms, char *ret);

#endif
