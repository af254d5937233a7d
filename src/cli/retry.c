/* weir job retry: failed and canceled jobs run again, one by one or all that fit a filter.  And
 * weir job run: a waiting job runs now.
 *
 * Many are taken a page at a time with a line of progress, so that an operator sees that it goes
 * on, and an interruption leaves every job either retried or untouched. */
#include "cli/retry.h"

#include <stdio.h>
#include <unistd.h>

#include "base/plural.h"
#include "base/shown.h"
#include "cli/json.h"
#include "cli/queue_name.h"
#include "cli/request.h"

#define PAGE "1000" /* the server's most */

const struct option_def retry_options[] = {
        {"all", NULL, "all failed jobs"},
        {"failed", NULL, "the failed jobs that fit the filters; what is meant without --canceled"},
        {"canceled", NULL, "the canceled jobs that fit the filters"},
        {"hook", "NAME", "jobs of this hook"},
        {"queue", "NAME", "jobs of this queue"},
        {"group", "NAME", "jobs of this group"},
        {"match", "TEXT", "jobs whose hook, args, result or error hold TEXT"},
        {"force", NULL, "with ID: also a job that is complete"},
        {NULL, NULL, NULL},
};

static bool has_choice(const struct args *args)
{
        for (const struct option_def *o = retry_options; o->name; o++)
                if (strcmp(o->name, "force") != 0 && args_has(args, o->name))
                        return true;
        return false;
}

/* ---- by id ---- */

static void put_done(struct cli *cli, const char *id, const struct value *status, bool is_first)
{
        if (!cli->is_json) {
                buf_printf(&cli->out, "job %s is ", id);
                text_put_safe(&cli->out, value_text(status));
                buf_put_byte(&cli->out, '\n');
                return;
        }
        buf_printf(&cli->out, "%s{\"id\":%s,\"status\":", is_first ? "" : ",", id);
        value_put_json(&cli->out, status);
        buf_put_byte(&cli->out, '}');
}

static int call_id(struct cli *cli, const char *command, const char *id, const struct value **ret,
                   struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, command);
        cli_request_add_str(&req, id);
        if (args_find_value(&cli->args, "force"))
                cli_request_add_str(&req, "FORCE");
        return cli_request_call(cli, &req, ret, p);
}

/* Goes on after a job that cannot be retried; the exit code tells of the first. */
static int retry_ids(struct cli *cli, struct problem *p)
{
        size_t n = cli->args.n_positional, done = 0;
        struct problem first = {0};
        if (cli->is_json)
                buf_put_str(&cli->out, "{\"jobs\":[");
        for (size_t i = 0; i < n; i++) {
                const char *id = cli->args.positional[i];
                const struct value *status;
                struct problem why;
                int r = call_id(cli, "RETRY", id, &status, &why);
                if (r == OK) {
                        put_done(cli, id, status, done++ == 0);
                        continue;
                }
                if (n > 1)
                        buf_printf(&cli->notes, "weir: %s\n", why.detail);
                if (!first.err)
                        first = why;
                if (r == ERR_IO) /* the connection is lost */
                        break;
        }
        if (cli->is_json)
                buf_put_str(&cli->out, "]}\n");
        if (!first.err)
                return OK;
        *p = first;
        return n == 1 ? first.err
                      : problem_set(p, first.err, "%zu of %zu jobs were not retried", n - done, n);
}

/* ---- by filter ---- */

struct sweep {
        struct buf cursor; /* where the next page begins; empty at the end */
        int64_t retried, skipped;
};

static int retry_page(struct cli *cli, struct sweep *s, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, "RETRYMANY");
        cli_request_add_str(&req, "STATUS");
        cli_request_add_str(&req, args_has(&cli->args, "canceled") ? "canceled" : "failed");
        cli_request_add_filter(&req, &cli->args);
        cli_request_add_page(&req, PAGE, buf_slice(&s->cursor));
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        s->retried += value_int(value_get(v, "retried"), 0);
        s->skipped += value_int(value_get(v, "skipped"), 0);
        buf_clear(&s->cursor);
        buf_put_slice(&s->cursor, value_text(value_get(v, "cursor")));
        return OK;
}

static int retry_many(struct cli *cli, struct problem *p)
{
        struct sweep s = {0};
        bool has_watcher = isatty(STDERR_FILENO) && !cli->is_json;
        int r;
        buf_init(&s.cursor, 0);
        do {
                r = retry_page(cli, &s, p);
                if (has_watcher && s.cursor.len)
                        fprintf(stderr, "\rretried %lld %s ...", (long long)s.retried,
                                plural((uint64_t)s.retried, "job", "jobs"));
        } while (r == OK && s.cursor.len);
        if (has_watcher)
                fprintf(stderr, "\r\033[K");
        buf_release(&s.cursor);
        if (r != OK && s.retried) {
                struct problem cause = *p;
                return problem_set(p, r, "%s (after %lld %s had been retried)",
                                   SHOWN_LONG(cause.detail), (long long)s.retried,
                                   plural((uint64_t)s.retried, "job", "jobs"));
        }
        if (r != OK)
                return r;
        if (cli->is_json)
                buf_printf(&cli->out, "{\"retried\":%lld,\"skipped\":%lld}\n", (long long)s.retried,
                           (long long)s.skipped);
        else
                buf_printf(&cli->out, "retried %lld %s\n", (long long)s.retried,
                           plural((uint64_t)s.retried, "job", "jobs"));
        if (!s.retried && !s.skipped)
                queue_name_note(cli);
        if (s.skipped && !cli->is_json)
                buf_printf(&cli->notes, "%lld could not come back: 'weir job retry ID' says why\n",
                           (long long)s.skipped);
        return OK;
}

int cli_job_retry(struct cli *cli, struct problem *p)
{
        bool has_ids = cli->args.n_positional > 0;
        if (has_ids == has_choice(&cli->args))
                return problem_set(p, ERR_SYNTAX,
                                   has_ids ? "give ids or filters, not both"
                                           : "say which: ids, --all, or filters");
        if (!has_ids && args_has(&cli->args, "force"))
                return problem_set(p, ERR_SYNTAX, "--force needs an id");
        if (args_has(&cli->args, "canceled") &&
            (args_has(&cli->args, "failed") || args_has(&cli->args, "all")))
                return problem_set(p, ERR_SYNTAX, "failed or canceled jobs, one after the other");
        return has_ids ? retry_ids(cli, p) : retry_many(cli, p);
}

int cli_job_run(struct cli *cli, struct problem *p)
{
        const struct value *status;
        const char *id = cli->args.positional[0];
        int r = call_id(cli, "RUN", id, &status, p);
        if (r != OK)
                return r;
        put_done(cli, id, status, true);
        if (cli->is_json)
                buf_put_byte(&cli->out, '\n');
        return OK;
}
