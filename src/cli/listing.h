/* What commands that list things share: ask, page after page if there are pages, and print the
 * rows as a table or as JSON. */
#ifndef WEIR_CLI_LISTING_H
#define WEIR_CLI_LISTING_H

#include "cli/fields.h"
#include "cli/params.h"

/* One kind of list, as a constant of the noun that has it; the row of the command says what is
 * asked. */
struct listing {
        const char *key;   /* "locks", where a page has its rows; NULL: the answer is all of them,
                              a list, and there are no pages */
        const char *empty; /* what is said when there are none, with its end of line */
        const struct column *columns;
        size_t n_columns;
        /* Adds what the server's row does not say to a request; may be NULL. */
        int (*prepare)(struct cli *cli, struct cli_request *req, struct problem *p);
        const char *page;  /* keyword that takes the cursor; NULL: CURSOR */
        bool tells_cursor; /* people are told where the next page begins */
        /* Of a list with pages: what the last page tells beside its rows, for people; may be
         * NULL.  Programs get every key of it as it is. */
        void (*after)(struct buf *notes, const struct value *page);
};

/* With a key the command has the options --cursor and --all. */
int listing_run(struct cli *cli, const struct listing *l, struct problem *p) MUST_CHECK;

/* A command that is one request: builds it by the server's row, sends it and shows the answer. */
int cli_run_row(struct cli *cli, struct problem *p) MUST_CHECK;

/* Is 'weir pause' in effect?  *ret is set only on success. */
int cli_everything_is_paused(struct cli *cli, bool *ret, struct problem *p) MUST_CHECK;

/* The answer as it is, on a line of its own. */
void cli_put_json(struct cli *cli, const struct value *v);

/* Sends a request; programs get the answer, a list inside an object, people what show() writes. */
typedef void (*cli_show_fn)(struct cli *cli, const struct value *v);
int cli_show(struct cli *cli, const struct cli_request *req, cli_show_fn show,
             struct problem *p) MUST_CHECK;

/* Sends a request whose answer matters to programs only: they get it, and people are told
 * "`done` NAME", where NAME is the first word given. */
int cli_change(struct cli *cli, const struct cli_request *req, const char *done,
               struct problem *p) MUST_CHECK;

#endif
