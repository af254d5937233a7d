/* What there is at which address: the rows of the command table and a few pages. */
#ifndef WEIR_DOOR_SITE_H
#define WEIR_DOOR_SITE_H

#include "base/err.h"
#include "door/bind.h"

struct server;

struct site_page {
        const char *path;
        const char *content_type;
        const char *extra; /* header lines of its own, or NULL */
        bool is_open;      /* needs no token: it tells nothing about jobs */
        /* Writes the body, returns the status. */
        int (*put)(const struct server *s, struct buf *ret);
};

struct site_match {
        const struct command_def *def; /* or: */
        const struct site_page *page;
        struct bind_path path[BIND_PATH_MAX];
        size_t n_path;
        char allow[64]; /* "GET, HEAD, OPTIONS": of this address, when there is one */
};

/* OK; ERR_UNKNOWN: no such address; ERR_METHOD: not with this method.  HEAD finds what GET does.
 * OPTIONS finds nothing, but fills in `allow`. */
int site_find(struct slice method, struct slice path, struct site_match *ret) MUST_CHECK;

#endif
