/* Thresholds that are "auto": what follows from the usual values of their metrics, worked out at
 * the start, when one becomes "auto", and then every hour.
 *
 * Only a core that leads learns: the minutes are in its history. */
#ifndef WEIR_NUMBERS_RELEARN_H
#define WEIR_NUMBERS_RELEARN_H

#include "core/kernel.h"

extern const struct feature relearn_feature;

#endif
