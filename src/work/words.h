/* A command as one text, split into words the way a shell would, but never given to one. */
#ifndef WEIR_WORK_WORDS_H
#define WEIR_WORK_WORDS_H

#include "base/err.h"
#include "base/slice.h"

/* NULL-terminated; all strings are owned. */
struct words {
        char **argv;
        size_t n;
};

/* Blanks separate; '...' is literal, "..." and \ quote as in sh(1).  What only a shell could do
 * ($, |, ;, &, <, >, backquote, parentheses, when not quoted) is refused, not passed on. */
int words_split(const char *text, struct words *ret, struct problem *p) MUST_CHECK;
void words_release(struct words *w);
void words_add(struct words *w, const char *word); /* copied */

/* The environment that commands begin with: PATH, LANG and HOME of this process, and `extra`
 * (NAME=VALUE), which may replace those. */
void env_make(struct words *ret, const struct words *extra);
void env_add(struct words *env, const char *name, const char *value);
/* The value of a variable among words NAME=VALUE, ended by NULL; NULL when it is not set. */
const char *env_get(char *const *env, const char *name);

struct word_value {
        const char *name; /* "id" for {id} */
        struct slice value;
};

/* A copy with the placeholders filled in, each inside its word; ${id} is a variable of a shell and
 * none of them.  In the first word, the program,
 * a value may not be empty, begin with '.' or '-' or hold a '/': a job must not choose a program
 * outside the folder that was meant. */
int words_fill(const struct words *w, const struct word_value *values, size_t n_values,
               struct words *ret, struct problem *p) MUST_CHECK;

#endif
