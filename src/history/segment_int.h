/* What only tests may ask of segment files. */
#ifndef WEIR_HISTORY_SEGMENT_INT_H
#define WEIR_HISTORY_SEGMENT_INT_H

#include "history/segment.h"

/* How large files are made from now on, instead of SEGMENT_BYTES. */
void segments_set_limit(struct segments *s, uint64_t bytes);

#endif
