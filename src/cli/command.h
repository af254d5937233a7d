/* Commands of the command line as rows: dispatch, --help, suggestions and the tests read them. */
#ifndef WEIR_CLI_COMMAND_H
#define WEIR_CLI_COMMAND_H

#include "cli/client.h"
#include "cli/options.h"
#include "cli/screen.h"

struct cli_command;

/* One run of a command: what it was told, and what it says. */
struct cli {
        const struct cli_command *command;
        struct args args;
        char **rest; /* what follows "--" when the usage has one; ends with NULL */
        struct screen screen;
        bool is_json;
        struct server_url url;
        struct client client; /* connected before run() unless the row is_local */
        struct buf out;       /* for standard output, written when run() returned */
        struct buf notes;     /* for standard error, after it */
        int exit_code;        /* when run() returned OK */
};

struct cli_command {
        const char *name;    /* NULL: the group itself is the command */
        const char *usage;   /* the words it takes: "HOOK [ARGS]", or "NAME -- COMMAND" */
        const char *summary; /* one line */
        const char *text;    /* more lines for its --help; NULL = none */
        const struct option_def *options;
        size_t min_words, max_words;
        bool is_local; /* connects by itself or not at all */
        /* OK, or an error with its sentence in the problem; both decide the exit code. */
        int (*run)(struct cli *cli, struct problem *p); /* NULL: belongs to main() */
};

struct cli_group {
        const char *name;
        const char *summary;
        const struct cli_command *commands;
        size_t n_commands;
};

extern const struct cli_group cli_group_job;
extern const struct cli_group cli_group_queue;
extern const struct cli_group cli_group_pause;
extern const struct cli_group cli_group_resume;
extern const struct cli_group cli_group_schedule;
extern const struct cli_group cli_group_batch;
extern const struct cli_group cli_group_cap;
extern const struct cli_group cli_group_work;
extern const struct cli_group cli_group_lock;
extern const struct cli_group cli_group_mutex;
extern const struct cli_group cli_group_limit;
extern const struct cli_group cli_group_breaker;
extern const struct cli_group cli_group_throttle;
extern const struct cli_group cli_group_registry;
extern const struct cli_group cli_group_check;
extern const struct cli_group cli_group_rule;
extern const struct cli_group cli_group_client;
extern const struct cli_group cli_group_host;
extern const struct cli_group cli_group_setting;
extern const struct cli_group cli_group_config;
extern const struct cli_group cli_group_ping;
extern const struct cli_group cli_group_top;
extern const struct cli_group cli_group_export;
extern const struct cli_group cli_group_import;
extern const struct cli_group cli_group_completion;

/* All of them, those of main() too, in the order of the help. */
const struct cli_group *const *cli_groups(size_t *ret_n);
/* One word is the whole command: `weir ping`. */
bool cli_group_is_command(const struct cli_group *g);
/* Options that a command has because of what it does, besides its own; NULL: none. */
const struct option_def *cli_more_options(const struct cli_command *c);

/* A request being put together; numbers keep their digits in it. */
#define REQUEST_WORDS_MAX 64
struct cli_request {
        struct slice argv[REQUEST_WORDS_MAX];
        size_t argc;
        char digits[8][24];
        size_t n_digits;
};

void cli_request_init(struct cli_request *r, const char *command);
/* The command and the first word given, which names what it is about. */
void cli_request_init_named(struct cli_request *r, const struct cli *cli, const char *command);
void cli_request_add(struct cli_request *r, struct slice word);
void cli_request_add_str(struct cli_request *r, const char *word);
void cli_request_add_int(struct cli_request *r, int64_t n);
/* "QUEUE q" when the option of that (lower-case) name was given. */
void cli_request_add_option(struct cli_request *r, const struct args *args, const char *option,
                            const char *keyword);
/* Those that choose among jobs: --hook, --queue, --group, --match. */
void cli_request_add_filter(struct cli_request *r, const struct args *args);
bool cli_has_filter(const struct args *args); /* one of them is given */
/* LIMIT, and CURSOR unless it is empty: the first page. */
void cli_request_add_page(struct cli_request *r, const char *limit, struct slice cursor);
/* A duration, which is sent in milliseconds. */
int cli_request_add_duration(struct cli_request *r, const struct args *args, const char *option,
                             const char *keyword, struct problem *p) MUST_CHECK;
int cli_request_call(struct cli *cli, const struct cli_request *r, const struct value **ret,
                     struct problem *p) MUST_CHECK;
int cli_call_named(struct cli *cli, const char *command, const struct value **ret,
                   struct problem *p) MUST_CHECK;

/* --url, --token and their environment variables, in that order of precedence. */
int cli_server(const struct args *args, struct server_url *ret, struct problem *p) MUST_CHECK;

#endif
