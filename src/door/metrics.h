/* Counters for Prometheus, text format 0.0.4. */
#ifndef WEIR_DOOR_METRICS_H
#define WEIR_DOOR_METRICS_H

#include "base/buf.h"

struct server;

void metrics_put(const struct server *s, struct buf *ret);
/* A label's value: backslash, quote and line feed escaped. */
void metrics_put_label(struct buf *b, struct slice value);

#endif
