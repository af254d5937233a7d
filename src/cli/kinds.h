/* What `weir export` writes besides jobs, and `weir import` takes in: each kind as a row, read by
 * both, so that neither can forget what the other knows. */
#ifndef WEIR_CLI_KINDS_H
#define WEIR_CLI_KINDS_H

#include "base/slice.h"

enum field_rule {
        FIELD_PLAIN,
        FIELD_NOT_ZERO, /* 0 stands for "none" */
        FIELD_NOT_ONE,  /* the default, which the server takes only where it means something */
        FIELD_FLAG,     /* the keyword alone, when true */
        FIELD_LEFT,     /* milliseconds that were left at the export; -1: no end */
};

struct kind_field {
        const char *name;    /* as the server tells it; NULL ends the list */
        const char *keyword; /* as it takes it */
        enum field_rule rule;
};

#define KIND_WORDS_MAX 3
struct kind {
        const char *type;
        const char *plural; /* for --only, and for telling how many */
        const char *list;   /* command that lists them */
        const char *key;    /* of the rows in the answer; NULL: it is the rows, without pages */
        const char *show;   /* command that tells all of one; NULL: the list does */
        const char *set;    /* command that makes one */
        const char *words[KIND_WORDS_MAX + 1]; /* fields that it takes first, in order */
        const struct kind_field *fields;
        const char *wanted;   /* exported only when this field is true; NULL: always */
        const char *unwanted; /* ... and this one is not */
        /* A second command, with the name, when this field has this value; NULL: none. */
        const char *then_field, *then_value, *then;
};

extern const struct kind kinds[];
extern const size_t n_kinds;

const struct kind *kind_find(struct slice type); /* NULL: there is none */

#endif
