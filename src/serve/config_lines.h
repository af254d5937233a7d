/* Where in a configuration file a setting stands. */
#ifndef WEIR_SERVE_CONFIG_LINES_H
#define WEIR_SERVE_CONFIG_LINES_H

#include "base/err.h"
#include "base/slice.h"

/* The way to a setting: sections from the outside in, each with its title ("" when it has none),
 * and the name of the option; an empty name is the section itself. */
#define CONFIG_DEPTH 3
struct config_way {
        struct slice section[CONFIG_DEPTH], title[CONFIG_DEPTH];
        size_t n;
        struct slice option;
};

/* The line of it, from 1; of the innermost section that is there when the option is not; 0 when
 * there is nothing of it.  Of several the last one, which is the one that counts. */
unsigned config_lines_find(struct slice text, const struct config_way *way);

/* Puts file and line before the sentence of a problem that was found in a text after it was parsed.
 * The sentence says which section it is about; see config_targets.c, wrong(), and
 * config_throttle.c. */
void config_lines_name(struct slice text, const char *path, struct problem *problem);

/* libconfuse takes a text that ends within a section or a comment; half a file must not pass for a
 * whole one. */
int config_lines_check(struct slice text, const char *path, struct problem *problem) MUST_CHECK;

#endif
