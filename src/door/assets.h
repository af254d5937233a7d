/* The files of the page, compiled in: each as it is and gzipped. */
#ifndef WEIR_DOOR_ASSETS_H
#define WEIR_DOOR_ASSETS_H

#include "base/buf.h"
#include "base/slice.h"

struct asset {
        const char *name; /* "app.js" */
        const char *type; /* for Content-Type */
        const char *hash; /* of its contents, in hex */
        const char *plain, *plain_end;
        const char *gzip, *gzip_end;
};

/* Made by tools/embed. */
extern const struct asset asset_table[];
extern const size_t asset_table_len;

/* At "/" is index.html, at "/ui/NAME" any other file; NULL: nothing. */
const struct asset *asset_find(struct slice path);

/* What a request said about the form it wants; values of headers, empty when missing. */
struct asset_request {
        struct slice accept_encoding, if_none_match;
};

/* Writes the body, and header lines with all a browser needs to know; returns the status: 200, or
 * 304 without a body. */
int asset_put(const struct asset *a, const struct asset_request *request, struct buf *lines,
              struct buf *body);

/* Header lines of every answer that a browser may show as a page. */
extern const char asset_page_lines[];

#endif
