/* What there is at which address: the rows of the command table, the files of the page, and a few
 * addresses that the door answers itself. */
#ifndef WEIR_DOOR_SITE_H
#define WEIR_DOOR_SITE_H

#include "base/err.h"
#include "door/bind.h"

struct asset;
struct server;

enum site_kind {
        SITE_TEXT, /* `put` writes it */
        SITE_SESSION,
        SITE_LOGIN,
        SITE_LOGOUT,
        SITE_LIVE,
};

struct site_page {
        const char *method;
        const char *path;
        enum site_kind kind;
        bool is_open; /* needs no token: it tells nothing about jobs */
        const char *content_type;
        /* Writes the body, returns the status; NULL unless SITE_TEXT. */
        int (*put)(const struct server *s, struct buf *ret);
        /* For the OpenAPI text. */
        const char *name; /* lower case: that of a command never is */
        const char *summary, *returns;
        const char *shape;    /* of the answer, as in door/shapes.h */
        const char *statuses; /* of its problems: "401 403" */
};

extern const struct site_page site_pages[];
extern const size_t site_pages_len;

struct site_match {
        const struct command_def *def; /* or: */
        const struct site_page *page;  /* or: */
        const struct asset *asset;
        struct bind_path path[BIND_PATH_MAX];
        size_t n_path;
        char allow[64]; /* "GET, HEAD, OPTIONS": of this address, when there is one */
};

/* OK; ERR_UNKNOWN: no such address; ERR_METHOD: not with this method.  HEAD finds what GET does.
 * OPTIONS finds nothing, but fills in `allow`. */
int site_find(struct slice method, struct slice path, struct site_match *ret) MUST_CHECK;

#endif
