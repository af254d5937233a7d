/* Commands of the command line as rows: dispatch, --help, suggestions and the tests read them. */
#ifndef WEIR_CLI_COMMAND_H
#define WEIR_CLI_COMMAND_H

#include "cli/client.h"
#include "cli/options.h"
#include "cli/screen.h"

/* Exit codes of commands that run another one and cannot: as a shell has them. */
#define EXIT_NOEXEC   126
#define EXIT_NOTFOUND 127

struct cli_command;
struct listing;

/* Options made from the server's rows, and their texts. */
#define PARAM_OPTIONS_MAX 48
struct param_options {
        struct option_def rows[PARAM_OPTIONS_MAX + 2];
        size_t n;
        char text[8 * KIB];
        size_t n_text;
};

/* One run of a command: its input and its output. */
struct cli {
        const struct cli_command *command;
        struct args args;
        struct param_options options; /* what args.own points to */
        char **rest;                  /* what follows "--" when the usage has one; ends with NULL */
        struct screen screen;
        bool is_json;
        struct server_url url;
        struct client client; /* connected before run() unless the row is_local */
        struct buf out;       /* for standard output, written when run() returned */
        struct buf notes;     /* for standard error, after it */
        int exit_code;        /* when run() returned OK */
};

/* Commands that are one request to the server name its row, and say how the answer is shown: by
 * the columns of `listing`, by show(), or in a line: "`done` NAME", where NAME is the first word.
 */
struct cli_command {
        const char *name;    /* NULL: the group itself is the command */
        const char *usage;   /* the words it takes: "HOOK [ARGS]", or "NAME -- COMMAND" */
        const char *summary; /* one line */
        const char *text;    /* more lines for its --help; NULL = none */
        const struct option_def *options; /* besides or instead of those of the server's row */
        size_t min_words, max_words;      /* max_words == 0: as the usage says */
        bool is_local;                    /* connects by itself or not at all */
        /* OK, or an error with its sentence in the problem; both decide the exit code.  NULL: a
         * single request, or a command of main(). */
        int (*run)(struct cli *cli, struct problem *p);

        const char *command; /* of the server: "SKIPHOST"; NULL: run() knows what to ask */
        const char *apart; /* its parameters that are no option, or that run() sends: "mode for" */
        const char *word;  /* keyword of a word behind the positional ones; may be NULL */
        const char *done;
        void (*show)(struct cli *cli, const struct value *v);
        const struct listing *listing;
};

/* Does main() run it? */
static inline bool cli_command_is_main(const struct cli_command *c)
{
        return !c->run && !c->command;
}

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
extern const struct cli_group cli_group_token;
extern const struct cli_group cli_group_audit;
extern const struct cli_group cli_group_cluster;
extern const struct cli_group cli_group_config;
extern const struct cli_group cli_group_ping;
extern const struct cli_group cli_group_top;
extern const struct cli_group cli_group_wordpress;
extern const struct cli_group cli_group_proxy;
extern const struct cli_group cli_group_export;
extern const struct cli_group cli_group_import;
extern const struct cli_group cli_group_completion;

/* Writes cli->out to standard output and empties it. */
int cli_write_out(struct cli *cli, struct problem *p) MUST_CHECK;

/* All of them, those of main() too, in the order of the help. */
const struct cli_group *const *cli_groups(size_t *ret_n);
/* One word is the whole command: `weir ping`. */
bool cli_group_is_command(const struct cli_group *g);
/* Options that a command has because of what it does, besides its own; NULL: none. */
const struct option_def *cli_more_options(const struct cli_command *c);

#endif
