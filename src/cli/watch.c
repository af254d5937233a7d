/* A command again and again: on a terminal each run in place of the last one, for a pipe one after
 * the other, with --json one object or array a line.
 *
 * The screen is not taken over as in `weir top`: there are no keys, and when it is interrupted the
 * last state stays where it can be read and copied.  So nothing has to be restored, and SIGINT may
 * simply end the process.
 *
 * A server that is away is waited for: the operator wants to see it come back. */
#include "cli/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shown.h"
#include "cli/filter.h"
#include "cli/listing.h"
#include "cli/term.h"
#include "cli/text.h"

#define EVERY_MS     2000
#define EVERY_MIN_MS 100
#define EVERY_MAX_MS (24LL * 3600 * MS_PER_S)

/* What only looks. */
static const char *const verbs[] = {"list",    "show",    "status",  "why",  "events",
                                    "history", "starved", "skipped", "next", "counts",
                                    "classes", "clients", "top"};

static const struct option_def options[] = {
        {"watch", "[=SECONDS]", "again and again, every 2 seconds or as said: --watch=0.5"},
        {"filter", "TEXT", "only rows that hold TEXT, or NAME=TEXT in the column NAME"},
        {NULL, NULL, NULL},
};

const struct option_def *cli_more_options(const struct cli_command *c)
{
        for (size_t i = 0; !cli_command_is_main(c) && c->name && i < ARRAY_LEN(verbs); i++)
                if (strcmp(verbs[i], c->name) == 0)
                        return options;
        return NULL;
}

int watch_run_once(struct cli *cli, struct problem *p)
{
        const char *text = args_find_value(&cli->args, "filter");
        struct filter filter;
        filter_parse(&filter, text ? text : "");
        cli->screen.filter = filter;
        int r = cli->command->run ? cli->command->run(cli, p) : cli_run_row(cli, p);
        if (r == OK && cli->is_json && filter.text.len)
                r = filter_json(&filter, &cli->out, p);
        return r;
}

/* ---- printing ---- */

static void put_clock(struct buf *b, const struct cli *cli, int64_t every_ms)
{
        struct buf every CLEANUP(buf_release) = {0};
        duration_put(&every, every_ms);
        moment_put(b, clock_wall_ms());
        buf_printf(b, "  every %s  ", buf_cstr(&every));
        text_put_safe(b, slice_str(cli->url.text));
        buf_put_byte(b, '\n');
}

/* In place of the last one: home, each line cut to the width, the rest cleared. */
static void put_screen(struct buf *b, struct slice text)
{
        struct term_size size = term_size();
        buf_put_str(b, "\033[H");
        for (size_t line = 1; text.len && line < size.rows; line++) {
                term_put_cut(b, text_take_line(&text), size.columns);
                buf_put_str(b, "\033[K\n");
        }
        buf_put_str(b, "\033[J");
}

static int print(const struct buf *b, struct problem *p)
{
        if (b->len && (fwrite(b->ptr, 1, b->len, stdout) != b->len || fflush(stdout) != 0))
                return problem_set(p, ERR_IO, "cannot write the output: %s", strerror(errno));
        return OK;
}

static int show(struct cli *cli, int64_t every_ms, const struct problem *trouble, struct problem *p)
{
        struct buf text CLEANUP(buf_release) = {0}, frame CLEANUP(buf_release) = {0};
        if (cli->is_json)
                return print(&cli->out, p);
        put_clock(&text, cli, every_ms);
        buf_put_slice(&text, buf_slice(&cli->out));
        buf_put_slice(&text, buf_slice(&cli->notes));
        if (trouble)
                buf_printf(&text, "weir: %s\n", trouble->detail);
        if (isatty(STDOUT_FILENO))
                put_screen(&frame, buf_slice(&text));
        else
                buf_printf(&frame, "%s\n", buf_cstr(&text));
        return print(&frame, p);
}

/* ---- the loop ---- */

static bool is_passing(int r)
{
        return r == ERR_UNAVAIL || r == ERR_IO || r == ERR_TIMEOUT || r == ERR_STOPPING;
}

static int run_connected(struct cli *cli, struct problem *p)
{
        int r = cli->client.fd >= 0 ? OK : client_connect(&cli->client, p);
        if (r == OK)
                r = watch_run_once(cli, p);
        if (is_passing(r)) {
                client_release(&cli->client);
                client_init(&cli->client, &cli->url);
        }
        return r;
}

static int every_of(const struct args *args, int64_t *ret, struct problem *p)
{
        const char *text = args_get(args, "watch");
        double seconds = 0;
        char rest = 0;
        *ret = EVERY_MS;
        if (!text[0])
                return OK;
        if (sscanf(text, "%lf%c", &seconds, &rest) != 1 || !(seconds * 1000 >= EVERY_MIN_MS) ||
            seconds * 1000 > (double)EVERY_MAX_MS)
                return problem_set(p, ERR_BADARG, "--watch=%s: say how many seconds, 0.1 to 86400",
                                   SHOWN_MAX(slice_str(text), 32));
        *ret = (int64_t)(seconds * 1000);
        return OK;
}

static void wait_until(int64_t *at_ns, int64_t every_ms)
{
        int64_t now_ns = clock_boot_ns();
        *at_ns += every_ms * NS_PER_MS;
        if (*at_ns < now_ns)
                *at_ns = now_ns; /* it takes longer than that */
        struct timespec until = {*at_ns / NS_PER_S, *at_ns % NS_PER_S};
        while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
                ;
}

int watch_run(struct cli *cli, struct problem *p)
{
        int64_t every_ms, at_ns = clock_boot_ns();
        bool was_away = false;
        int r = every_of(&cli->args, &every_ms, p);
        if (r == OK && isatty(STDOUT_FILENO) && !cli->is_json)
                fputs("\033[2J", stdout);
        while (r == OK) {
                struct problem trouble = {0};
                buf_clear(&cli->out);
                buf_clear(&cli->notes);
                int e = run_connected(cli, &trouble);
                if (e != OK && !is_passing(e)) {
                        buf_clear(&cli->out);
                        *p = trouble;
                        return e;
                }
                if (e != OK && (cli->is_json || !isatty(STDOUT_FILENO)) && !was_away)
                        fprintf(stderr, "weir: %s; trying again\n", trouble.detail);
                was_away = e != OK;
                if (e == OK || isatty(STDOUT_FILENO))
                        r = show(cli, every_ms, e != OK ? &trouble : NULL, p);
                wait_until(&at_ns, every_ms);
        }
        return r;
}
