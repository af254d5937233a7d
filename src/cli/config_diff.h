/* What is different between two configurations, both written in the one way weir writes them
 * (CONFIGSHOW with the defaults): a line per setting, in sections.  Pure. */
#ifndef WEIR_CLI_CONFIG_DIFF_H
#define WEIR_CLI_CONFIG_DIFF_H

#include "base/buf.h"
#include "base/slice.h"

/* Calls fn for each setting that is different, by name: "throttle.mode", "target.shop.dwell".  A
 * value is as it is written; ptr NULL: it is not there.  A section with a title that is only in one
 * of the two is told as a whole, with the value "".  Targets, and the metrics of one, have places:
 * "target order" with the lists of their names, when another is first or two changed places. */
void config_diff(struct slice was, struct slice now,
                 void (*fn)(void *ctx, struct slice name, struct slice was, struct slice now),
                 void *ctx);
/* "throttle.mode: "off" -> "enforce"", "target.shop: added", "target.shop: removed". */
void config_diff_put(struct buf *ret, struct slice name, struct slice was, struct slice now);
/* Does a setting of that name hold only after a restart? */
bool config_needs_restart(struct slice name);

#endif
