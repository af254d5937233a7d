/* Rows that hold a text: --filter of every listing, for tables and for JSON alike.
 *
 *      --filter mail           any field holds "mail"
 *      --filter status=failed  the column or key STATUS holds "failed"
 *
 * Letters of ASCII are the same in either case.  It works on what the server sent, so it narrows
 * a page and does not look further: filters of the server (--match, --hook) do. */
#ifndef WEIR_CLI_FILTER_H
#define WEIR_CLI_FILTER_H

#include "base/buf.h"
#include "base/err.h"

struct filter {
        struct slice key;  /* empty: any field */
        struct slice text; /* empty: no filter */
};

void filter_parse(struct filter *f, const char *text);
bool filter_finds(struct slice hay, struct slice needle);

/* Keeps the rows of one JSON document that fit: elements that are objects, of the document itself
 * when it is an array, else of the arrays that are its members.  ERR_SYNTAX when it is no JSON. */
int filter_json(const struct filter *f, struct buf *doc, struct problem *p) MUST_CHECK;

#endif
