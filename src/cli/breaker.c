/* weir breaker: circuit breakers, and a command that runs behind one. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/plural.h"
#include "cli/listing.h"
#include "cli/text.h"

#define TOKEN_DIGITS  32
#define EXIT_NOEXEC   126
#define EXIT_NOTFOUND 127

static const struct column columns[] = {
        {"BREAKER", false, true}, {"STATE", false, false},   {"SINCE", true, false},
        {"RETRY", true, false},   {"FAILURES", true, false}, {"TRIPS", true, false},
        {"WAITING", true, false}, {"REASON", false, true},
};

static void put_retry(struct buf *b, const struct value *v)
{
        int64_t ms = field_int(v, "retry_ms");
        if (ms < 0)
                buf_put_str(b, "held open");
        else if (ms == 0)
                buf_put_str(b, "now");
        else
                duration_put_left(b, ms);
}

static enum tone tone_of(struct slice state)
{
        if (slice_eq(state, SLICE_LIT("closed")))
                return TONE_GREEN;
        return slice_eq(state, SLICE_LIT("open")) ? TONE_RED : TONE_YELLOW;
}

static void list_row(struct table *t, const struct value *v, int64_t now_ms)
{
        struct slice state = field_text(v, "state");
        struct buf text CLEANUP(buf_release) = {0};
        (void)now_ms;
        table_add(t, field_text(v, "name"), TONE_PLAIN);
        table_add(t, state, tone_of(state));
        duration_put(&text, field_int(v, "since_ms"));
        table_add(t, buf_slice(&text), TONE_PLAIN);
        buf_clear(&text);
        put_retry(&text, v);
        table_add(t, buf_slice(&text), TONE_PLAIN);
        table_add_int(t, field_int(v, "failures"));
        table_add_int(t, field_int(v, "trips"));
        table_add_int(t, field_int(v, "waiting_jobs"));
        table_add(t, field_text(v, "reason"), TONE_PLAIN);
}

static const struct listing listing = {
        .command = "BREAKERS",
        .empty = "no circuit breakers: asking for one makes it\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
};

static int breaker_list(struct cli *cli, struct problem *p)
{
        return listing_run(cli, &listing, p);
}

static void put_duration_line(struct buf *b, const char *title, int64_t ms)
{
        buf_printf(b, "\n%-10s", title);
        duration_put(b, ms);
}

static void show_breaker(struct cli *cli, const struct value *v)
{
        struct buf *b = &cli->out;
        int64_t rate = field_int(v, "rate");
        struct slice reason = field_text(v, "reason");
        buf_put_str(b, "breaker   ");
        text_put_safe(b, field_text(v, "name"));
        buf_put_str(b,
                    field_is_true(v, "passing") ? "  (made by an ask, forgotten when idle)" : "");
        buf_put_str(b, "\nstate     ");
        text_put_safe(b, field_text(v, "state"));
        buf_put_str(b, field_is_true(v, "probing") ? ", a probe is out" : "");
        if (reason.len) {
                buf_put_str(b, "\nreason    ");
                text_put_safe(b, reason);
        }
        put_duration_line(b, "since", field_int(v, "since_ms"));
        buf_put_str(b, "\nretry     ");
        put_retry(b, v);
        buf_printf(b, "\nfailures  %lld in a row", (long long)field_int(v, "failures"));
        if (rate)
                buf_printf(b, ", %lld of %lld in the window",
                           (long long)field_int(v, "window_failures"),
                           (long long)field_int(v, "window_outcomes"));
        uint64_t waiting = (uint64_t)field_int(v, "waiting_jobs");
        buf_printf(b, "\ntrips     %lld\nwaiting   %llu %s\nthreshold %lld in a row",
                   (long long)field_int(v, "trips"), (unsigned long long)waiting,
                   plural(waiting, "job", "jobs"), (long long)field_int(v, "threshold"));
        if (rate) {
                buf_printf(b, ", %lld %% of %lld or more in ", (long long)rate,
                           (long long)field_int(v, "volume"));
                duration_put(b, field_int(v, "window_ms"));
        }
        put_duration_line(b, "cooldown", field_int(v, "cooldown_ms"));
        buf_put_str(b, " to ");
        duration_put(b, field_int(v, "cooldown_max_ms"));
        put_duration_line(b, "probe", field_int(v, "probe_ms"));
        buf_put_str(b, field_int(v, "handlers") ? "\nhandlers  their failures count\n" : "\n");
}

static int breaker_show(struct cli *cli, struct problem *p)
{
        return cli_show_named(cli, "BREAKERSTATE", show_breaker, p);
}

static int breaker_set(struct cli *cli, struct problem *p)
{
        const struct args *args = &cli->args;
        struct cli_request req;
        cli_request_init(&req, "BREAKER");
        cli_request_add_str(&req, args->positional[0]);
        cli_request_add_option(&req, args, "threshold", "THRESHOLD");
        cli_request_add_option(&req, args, "rate", "RATE");
        cli_request_add_option(&req, args, "volume", "VOLUME");
        int r = cli_request_add_duration(&req, args, "window", "WINDOW", p);
        if (r == OK)
                r = cli_request_add_duration(&req, args, "cooldown", "COOLDOWN", p);
        if (r == OK)
                r = cli_request_add_duration(&req, args, "cooldown-max", "COOLDOWNMAX", p);
        if (r == OK)
                r = cli_request_add_duration(&req, args, "probe", "PROBE", p);
        if (r != OK)
                return r;
        if (args_has(args, "handlers"))
                cli_request_add_str(&req, "HANDLERS");
        return cli_change(cli, &req, "set breaker", p);
}

static int breaker_trip(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        cli_request_init_named(&req, cli, "TRIP");
        cli_request_add_option(&req, &cli->args, "reason", "REASON");
        if (args_has(&cli->args, "hold"))
                cli_request_add_str(&req, "HOLD");
        return cli_change(cli, &req, "tripped breaker", p);
}

static int breaker_close(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "CLOSEBREAKER", "closed breaker", p);
}

static int breaker_remove(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "UNBREAKER", "removed breaker", p);
}

/* ---- run ---- */

/* On a connection of its own: the command may take hours, and nobody keeps one open for that. */
static int call_alone(struct cli *cli, const struct cli_request *req, const struct value **ret,
                      struct problem *p)
{
        client_release(&cli->client);
        client_init(&cli->client, &cli->url);
        int r = client_connect(&cli->client, p);
        return r == OK ? cli_request_call(cli, req, ret, p) : r;
}

static int ask(struct cli *cli, char *ret_token, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init_named(&req, cli, "ASK");
        int r = call_alone(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (v->type != VALUE_LIST || v->n < 3)
                return problem_set(p, ERR_SYNTAX, "what answers on %s is no weir", cli->url.text);
        struct slice token = value_text(&v->items[1]);
        int64_t retry_ms = value_int(&v->items[2], 0);
        char text[DURATION_TEXT_MAX];
        if (token.len != TOKEN_DIGITS && retry_ms < 0)
                return problem_set(p, ERR_UNAVAIL, "the breaker is held open");
        if (token.len != TOKEN_DIGITS)
                return problem_set(p, ERR_UNAVAIL, "the breaker is open; try again in %s",
                                   duration_words_left(retry_ms, text));
        memcpy(ret_token, token.ptr, TOKEN_DIGITS);
        ret_token[TOKEN_DIGITS] = '\0';
        return OK;
}

static pid_t child;

static void pass_on(int sig)
{
        if (child > 0)
                (void)kill(child, sig);
}

/* Ctrl-C reaches the command by itself; what is sent to us alone is passed on.  Either way we stay
 * to report how it ended. */
static void set_signals(bool is_on)
{
        const struct sigaction forward = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        const struct sigaction ignore = {.sa_handler = SIG_IGN};
        (void)sigaction(SIGTERM, is_on ? &forward : &usual, NULL);
        (void)sigaction(SIGHUP, is_on ? &forward : &usual, NULL);
        (void)sigaction(SIGINT, is_on ? &ignore : &usual, NULL);
        (void)sigaction(SIGQUIT, is_on ? &ignore : &usual, NULL);
}

/* The exit code of the command, or the shell's code for one that could not be started. */
static int run_child(char **argv)
{
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
                (void)execvp(argv[0], argv);
                int code = errno == ENOENT ? EXIT_NOTFOUND : EXIT_NOEXEC;
                fprintf(stderr, "weir: cannot run %s: %s\n", argv[0], strerror(errno));
                _exit(code);
        }
        if (pid < 0) {
                fprintf(stderr, "weir: cannot run %s: %s\n", argv[0], strerror(errno));
                return EXIT_NOEXEC;
        }
        child = pid;
        set_signals(true);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        child = 0;
        set_signals(false);
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int breaker_run(struct cli *cli, struct problem *p)
{
        char token[TOKEN_DIGITS + 1];
        struct cli_request req;
        const struct value *v;
        struct problem unreported;
        if (!cli->rest || !cli->rest[0])
                return problem_set(p, ERR_SYNTAX, "what to run? it comes after two dashes: -- CMD");
        int r = ask(cli, token, p);
        if (r != OK)
                return r;
        client_release(&cli->client);
        client_init(&cli->client, &cli->url);
        cli->exit_code = run_child(cli->rest);
        cli_request_init_named(&req, cli, "REPORT");
        cli_request_add_str(&req, token);
        cli_request_add_str(&req, cli->exit_code == 0 ? "ok" : "fail");
        if (call_alone(cli, &req, &v, &unreported) != OK) /* the command's code is what counts */
                buf_printf(&cli->notes, "weir: not reported: %s\n", unreported.detail);
        return OK;
}

static const struct option_def set_options[] = {
        {"threshold", "N", "failures in a row that open it; 0: never for that (5)"},
        {"rate", "PERCENT", "share of failures in the window that opens it (none)"},
        {"window", "TIME", "over which the rate is counted (1m)"},
        {"volume", "N", "outcomes in the window below which the rate does not count (10)"},
        {"cooldown", "TIME", "stays open so long before a probe; failed ones double it (1m)"},
        {"cooldown-max", "TIME", "where doubling stops (15m)"},
        {"probe", "TIME", "a client's probe may take so long (30s)"},
        {"handlers", NULL, "queue:NAME only: failures of handlers count too"},
        {NULL, NULL, NULL},
};

static const struct option_def trip_options[] = {
        {"reason", "TEXT", "why, for people"},
        {"hold", NULL, "stay open until it is closed by hand"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"list", "", "List circuit breakers.", NULL, NULL, 0, 0, false, breaker_list},
        {"show", "NAME", "Show one circuit breaker.", NULL, NULL, 1, 1, false, breaker_show},
        {"set", "NAME", "Make or change a circuit breaker; its state stays.",
         "What is not given is the default. queue:NAME stands before all starts of a queue.\n",
         set_options, 1, 1, false, breaker_set},
        {"trip", "NAME", "Open a circuit breaker by hand.", NULL, trip_options, 1, 1, false,
         breaker_trip},
        {"close", "NAME", "Close a circuit breaker by hand.", NULL, NULL, 1, 1, false,
         breaker_close},
        {"remove", "NAME", "Remove a circuit breaker.", NULL, NULL, 1, 1, false, breaker_remove},
        {"run", "NAME -- COMMAND [ARG...]", "Run a command unless the breaker is open.",
         "Exits with the command's code, which is reported: 0 is a success. With 7 and without\n"
         "running it when the breaker is open.\n\n"
         "  weir breaker run backup-host -- rsync -a /srv/ backup:/srv/\n",
         NULL, 1, 1, true, breaker_run},
};

const struct cli_group cli_group_breaker = {"breaker", "Show, set and use circuit breakers.",
                                            commands, ARRAY_LEN(commands)};
