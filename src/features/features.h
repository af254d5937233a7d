/* All features of weir, for core_options.parts. */
#ifndef WEIR_FEATURES_FEATURES_H
#define WEIR_FEATURES_FEATURES_H

#include "core/feature.h"

extern const command_exec command_execs[];
extern const struct core_parts weir_parts;

#endif
