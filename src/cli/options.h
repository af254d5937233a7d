/* Options of a command as rows: what is parsed, what --help prints and what is suggested after a
 * typing error come from the same table. */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include "base/err.h"

struct option_def {
        const char *name; /* without dashes; NULL ends the table */
        const char *arg;  /* what its value is called; NULL = a switch; "[=N]" may be left out,
                             and is then "": only --name=value gives it */
        const char *text;
};

/* Rows every client command takes besides its own: --url, --token, --json, --help. */
extern const struct option_def options_common[];

#define ARGS_MAX 96

/* The command line after parsing; everything is borrowed from argv and the tables. */
struct args {
        const struct option_def *own;  /* may be NULL */
        const struct option_def *more; /* likewise; set before args_parse() */
        struct {
                const struct option_def *def;
                const char *value; /* "" for a switch */
        } given[ARGS_MAX];
        size_t n_given;
        const char *positional[ARGS_MAX];
        size_t n_positional;
};

/* Options and positional words may be mixed; "--" ends the options; "-" is a word. */
int args_parse(struct args *a, const struct option_def *own, char **argv, int argc,
               struct problem *p) MUST_CHECK;
/* Only the common options before the first word; *ret_used is the place of that word. */
int args_parse_leading(struct args *a, char **argv, int argc, int *ret_used,
                       struct problem *p) MUST_CHECK;

/* The last value of an option, NULL when it was not given.  The option must be in a table. */
const char *args_get(const struct args *a, const char *name);
bool args_has(const struct args *a, const char *name);
/* The same for an option that may be in no table of this command. */
const char *args_find_value(const struct args *a, const char *name);
/* The values of a repeatable option, in order; start with *at = 0; NULL at the end. */
const char *args_next(const struct args *a, const char *name, size_t *at);

/* The candidate most like `word`, or NULL when none is near.  `names` ends with NULL. */
const char *nearest_name(const char *word, const char *const *names);

#endif
