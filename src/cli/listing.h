/* What commands that list things share: ask, page after page if there are pages, and print the
 * rows as a table or as JSON. */
#ifndef WEIR_CLI_LISTING_H
#define WEIR_CLI_LISTING_H

#include "cli/request.h"

/* One kind of list, as a constant of the group that has it. */
struct listing {
        const char *command; /* "LOCKS" */
        const char *key;     /* "locks", where a page has its rows; NULL: the answer is all of them,
                                a list, and there are no pages */
        const char *empty;   /* what is said when there are none, with its end of line */
        const char *const (*options)[2]; /* option and keyword of what is passed on; ends with a
                                            NULL; may be NULL */
        const char *word; /* keyword of the first word given, if one was; may be NULL */
        const struct column *columns;
        size_t n_columns;
        void (*row)(struct table *t, const struct value *v, int64_t now_ms);
        /* Of a list with pages: what the last page tells beside its rows, for people; may be
         * NULL.  Programs get every key of it as it is. */
        void (*after)(struct buf *notes, const struct value *page);
};

/* With a key the command has the options --cursor and --all besides those passed on. */
int listing_run(struct cli *cli, const struct listing *l, struct problem *p) MUST_CHECK;

/* Rows for the command's table of options, after its own. */
/* clang-format off */
#define LISTING_PAGE_OPTIONS                                                                       \
        {"limit", "N", "at most N, up to 1000 (50)"},                                              \
        {"cursor", "CURSOR", "continue where an earlier listing ended"},                           \
        {"all", NULL, "all of them, page after page"}
/* clang-format on */
extern const char *const listing_page_options[][2];  /* --limit */
extern const char *const listing_match_options[][2]; /* --match and --limit */

/* What begins a line of a "show": the name of a fact, in a column of that width. */
void cli_put_label(struct cli *cli, int width, const char *name);
/* The answer as it is, on a line of its own. */
void cli_put_json(struct cli *cli, const struct value *v);

/* Sends a request; programs get the answer, a list inside an object, people what show() writes. */
typedef void (*cli_show_fn)(struct cli *cli, const struct value *v);
int cli_show(struct cli *cli, const struct cli_request *req, cli_show_fn show,
             struct problem *p) MUST_CHECK;

/* The same, of a command that takes the first word given alone. */
int cli_show_named(struct cli *cli, const char *command, cli_show_fn show,
                   struct problem *p) MUST_CHECK;

/* Sends a request whose answer matters to programs only: they get it, and people are told
 * "`done` NAME", where NAME is the first word given. */
int cli_change(struct cli *cli, const struct cli_request *req, const char *done,
               struct problem *p) MUST_CHECK;

/* The same, of a command that takes that word alone. */
int cli_change_named(struct cli *cli, const char *command, const char *done,
                     struct problem *p) MUST_CHECK;

/* Of a map; 0, false and empty when it is missing. */
int64_t field_int(const struct value *v, const char *key);
bool field_is_true(const struct value *v, const char *key);
struct slice field_text(const struct value *v, const char *key);
bool is_switched_off(const struct value *v); /* it says so; older servers do not say, and are on */
size_t list_len(const struct value *v);      /* 0 when it is missing or no list */

/* When something happened, as the first cell of a row of a story. */
void table_add_moment(struct table *t, int64_t at_ms);

#endif
