/* Requests to the server as commands of the command line build them. */
#ifndef WEIR_CLI_REQUEST_H
#define WEIR_CLI_REQUEST_H

#include "cli/command.h"

/* A request being put together; numbers keep their digits in it. */
#define REQUEST_WORDS_MAX 64
struct cli_request {
        struct slice argv[REQUEST_WORDS_MAX];
        size_t argc;
        char made[REQUEST_WORDS_MAX][24]; /* numbers and keywords */
        size_t n_made;
};

void cli_request_init(struct cli_request *r, const char *command);
/* The command and the first word given, which names what it is about. */
void cli_request_init_named(struct cli_request *r, const struct cli *cli, const char *command);
void cli_request_add(struct cli_request *r, struct slice word);
void cli_request_add_str(struct cli_request *r, const char *word);
void cli_request_add_keyword(struct cli_request *r, const char *name); /* in upper case */
void cli_request_add_int(struct cli_request *r, int64_t n);
/* "QUEUE q" when the option of that (lower-case) name was given. */
void cli_request_add_option(struct cli_request *r, const struct args *args, const char *option,
                            const char *keyword);
/* Those that choose among jobs: --hook, --queue, --group, --match. */
void cli_request_add_filter(struct cli_request *r, const struct args *args);
bool cli_has_filter(const struct args *args); /* one of them is given */
/* LIMIT, and CURSOR unless it is empty: the first page. */
void cli_request_add_page(struct cli_request *r, const char *limit, struct slice cursor);
int cli_request_call(struct cli *cli, const struct cli_request *r, const struct value **ret,
                     struct problem *p) MUST_CHECK;
int cli_call_named(struct cli *cli, const char *command, const struct value **ret,
                   struct problem *p) MUST_CHECK;

/* Reads a file, or standard input for "-", whole; refuses more than max bytes. */
int cli_read_file(const char *path, size_t max, struct buf *ret, struct problem *p) MUST_CHECK;
/* The ARGS of a job: the word itself, "-" for standard input, or "@FILE". */
int cli_read_args(const char *word, struct buf *ret, struct problem *p) MUST_CHECK;

/* --url, --token and their environment variables, in that order of precedence. */
int cli_server(const struct args *args, struct server_url *ret, struct problem *p) MUST_CHECK;

#endif
