/* weir breaker: circuit breakers, and a command that runs behind one. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/plural.h"
#include "cli/listing.h"
#include "cli/text.h"

#define TOKEN_DIGITS 32

static void put_retry(struct buf *b, const struct value *v, int64_t now_ms)
{
        (void)now_ms;
        int64_t ms = field_int(v, "retry_ms");
        if (ms < 0)
                buf_put_str(b, "held open");
        else if (ms == 0)
                buf_put_str(b, "now");
        else
                duration_put_left(b, ms);
}

static enum tone tone_of(const struct value *breaker)
{
        if (field_is(breaker, "state", "closed"))
                return TONE_GREEN;
        return field_is(breaker, "state", "open") ? TONE_RED : TONE_YELLOW;
}

static const struct column columns[] = {
        {"BREAKER", .key = "name", .may_shrink = true},
        {"STATE", .key = "state", .tone_of = tone_of},
        {"SINCE", .key = "since_ms", .as = AS_DURATION},
        {"RETRY", .put = put_retry, .is_right = true},
        {"FAILURES", .key = "failures", .as = AS_INT},
        {"TRIPS", .key = "trips", .as = AS_INT},
        {"WAITING", .key = "waiting_jobs", .as = AS_INT},
        {"REASON", .key = "reason", .may_shrink = true},
};

static const struct listing listing = {
        .empty = "no circuit breakers: asking for one makes it\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

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
        put_retry(b, v, 0);
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

/* ---- run ---- */

/* On a connection of its own: the command may take hours, too long to keep one open. */
static int call_alone(struct cli *cli, const struct cli_request *req, const struct value **ret,
                      struct problem *p)
{
        client_hang_up(&cli->client);
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

/* The terminal sends Ctrl-C to the command too; other signals come to us alone and are passed on.
 * Either way we stay to report how the command ended. */
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
        client_hang_up(&cli->client);
        cli->exit_code = run_child(cli->rest);
        cli_request_init_named(&req, cli, "REPORT");
        cli_request_add_str(&req, token);
        cli_request_add_str(&req, cli->exit_code == 0 ? "ok" : "fail");
        if (call_alone(cli, &req, &v, &unreported) != OK) /* the command's code is what counts */
                buf_printf(&cli->notes, "weir: not reported: %s\n", unreported.detail);
        return OK;
}

static const struct cli_command commands[] = {
        {"list", "", "List circuit breakers.", NULL, .command = "BREAKERS", .listing = &listing},
        {"show", "NAME", "Show one circuit breaker.", NULL, .command = "BREAKERSTATE",
         .show = show_breaker},
        {"set", "NAME", "Make or change a circuit breaker; its state stays.",
         "What is not given is the default. queue:NAME stands before all starts of a "
         "queue.\n",
         .command = "BREAKER", .done = "set breaker"},
        {"trip", "NAME", "Open a circuit breaker by hand.", NULL, .command = "TRIP",
         .done = "tripped breaker"},
        {"close", "NAME", "Close a circuit breaker by hand.", NULL, .command = "CLOSEBREAKER",
         .done = "closed breaker"},
        {"remove", "NAME", "Remove a circuit breaker.", NULL, .command = "UNBREAKER",
         .done = "removed breaker"},
        {"run", "NAME -- COMMAND [ARG...]", "Run a command unless the breaker is open.",
         "Exits with the command's code, which is reported: 0 is a success. With 7 and "
         "without\n"
         "running it when the breaker is open.\n\n"
         "  weir breaker run backup-host -- rsync -a /srv/ backup:/srv/\n",
         .is_local = true, .run = breaker_run},
};

const struct cli_group cli_group_breaker = {"breaker", "Show, set and use circuit breakers.",
                                            commands, ARRAY_LEN(commands)};
