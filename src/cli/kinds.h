/* What `weir export` writes besides jobs, and `weir import` takes in: each kind as a row, read by
 * both, so that neither can forget what the other knows. */
#ifndef WEIR_CLI_KINDS_H
#define WEIR_CLI_KINDS_H

#include "wire/resp_reply.h"

enum field_rule {
        FIELD_PLAIN,
        FIELD_BYTES,    /* a payload: JSON as it is, other bytes under KEY_base64 */
        FIELD_NOT_ZERO, /* 0 stands for "none" */
        FIELD_NOT_ONE,  /* the default, which the server takes only where it means something */
        FIELD_FLAG,     /* the keyword alone, when true */
        FIELD_LEFT,     /* milliseconds that were left at the export; -1: no end */
};

struct kind_field {
        const char *name;    /* as the server tells it, "a.b": b in a; NULL ends the list */
        const char *keyword; /* as it takes it; NULL: it only tells */
        enum field_rule rule;
};

#define KIND_WORDS_MAX 3
#define KIND_THENS_MAX 2
struct kind {
        const char *type;
        const char *plural; /* for --only */
        const char *list;   /* command that lists them */
        const char *key;    /* of the rows in the answer; NULL: it is the rows, without pages */
        const char *show;   /* command that tells all of one; NULL: the list does */
        const char *set;    /* command that makes one */
        const char *words[KIND_WORDS_MAX + 1]; /* fields that it takes first, in order */
        const struct kind_field *fields;
        bool (*is_moved)(const struct value *v); /* NULL: always */
        /* What those are that are not moved, one and many; NULL: nobody misses them. */
        const char *left_one, *left_many;
        /* A second command, with the name, when this field has one of these values. */
        const char *then_field;
        struct {
                const char *value, *command;
        } thens[KIND_THENS_MAX];
        bool has_jobs; /* jobs belong to it: the second command comes after the last of them */
};

#define KINDS_MAX 16
extern const struct kind kinds[];
extern const size_t n_kinds;

const struct kind *kind_find(struct slice type); /* NULL: there is none */
/* What it is called in the file: as the server tells it, and what is in something else as the
 * server takes it, in lower case.  May be written to room. */
#define KIND_KEY_MAX 32
const char *kind_field_key(const struct kind_field *f, char room[KIND_KEY_MAX]);
/* The second command for this value of then_field; NULL: none. */
const char *kind_then(const struct kind *k, struct slice value);

#endif
