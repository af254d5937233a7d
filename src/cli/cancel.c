/* weir job cancel: jobs by id, or all pending ones that fit a filter.
 *
 * A filter takes pending jobs only: a running job is canceled by its id.  Pages are read newest
 * first and go by id, so canceling does not disturb them, and jobs added meanwhile are left alone.
 * So is a job that starts after its page was read.
 * An interruption leaves every job either canceled or untouched. */
#include "cli/cancel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/shown.h"
#include "cli/json.h"
#include "cli/listing.h"
#include "cli/queue_name.h"

#define PAGE     "1000" /* the server's most */
#define PAGE_MAX 1000

const struct option_def cancel_options[] = {
        {"all", NULL, "all pending jobs"},
        {"hook", "NAME", "the pending jobs of this hook"},
        {"queue", "NAME", "the pending jobs of this queue"},
        {"group", "NAME", "the pending jobs of this group"},
        {"match", "TEXT", "the pending jobs whose hook or args hold TEXT"},
        {NULL, NULL, NULL},
};

static int cancel_one(struct cli *cli, const char *id, bool is_pending_only,
                      const struct value **ret, struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, "CANCEL");
        cli_request_add_str(&req, id);
        if (is_pending_only)
                cli_request_add_str(&req, "PENDING");
        return cli_request_call(cli, &req, ret, p);
}

/* ---- by id ---- */

static void put_canceled(struct cli *cli, const char *id, bool is_first)
{
        if (cli->is_json)
                buf_printf(&cli->out, "%s{\"id\":%s,\"status\":\"canceled\"}", is_first ? "" : ",",
                           id);
        else
                buf_printf(&cli->out, "canceled job %s\n", id);
}

/* Goes on after a job that cannot be canceled; the exit code is that of the first such job. */
static int cancel_ids(struct cli *cli, struct problem *p)
{
        size_t n = cli->args.n_positional, done = 0;
        struct problem first = {0};
        const struct value *v;
        if (cli->is_json)
                buf_put_str(&cli->out, "{\"jobs\":[");
        for (size_t i = 0; i < n && first.err != ERR_IO; i++) {
                struct problem why = {0};
                if (cancel_one(cli, cli->args.positional[i], false, &v, &why) == OK) {
                        put_canceled(cli, cli->args.positional[i], done++ == 0);
                        continue;
                }
                buf_printf(&cli->notes, "weir: %s\n", why.detail);
                if (!first.err)
                        first = why;
        }
        if (cli->is_json)
                buf_put_str(&cli->out, "]}\n");
        return first.err
                       ? problem_set(p, first.err, "%zu of %zu jobs were not canceled", n - done, n)
                       : OK;
}

static int cancel_id(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = cancel_one(cli, cli->args.positional[0], false, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json)
                cli_put_json(cli, v);
        else
                put_canceled(cli, cli->args.positional[0], true);
        return OK;
}

/* ---- by filter ---- */

struct sweep {
        struct buf cursor; /* where the next page begins; empty at the end */
        int64_t ids[PAGE_MAX];
        size_t n;
        int64_t canceled, skipped;
};

static int find_page(struct cli *cli, struct sweep *s, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, "JOBS");
        cli_request_add_str(&req, "STATUS");
        cli_request_add_str(&req, "pending");
        cli_request_add_filter(&req, &cli->args);
        cli_request_add_page(&req, PAGE, buf_slice(&s->cursor));
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        const struct value *jobs = value_get(v, "jobs");
        s->n = 0;
        for (size_t i = 0; i < list_len(jobs) && s->n < PAGE_MAX; i++)
                s->ids[s->n++] = field_int(&jobs->items[i], "id");
        buf_clear(&s->cursor);
        buf_put_slice(&s->cursor, field_text(v, "cursor"));
        return OK;
}

/* Skips a job that started or ended in between; any other error is final. */
static int cancel_page(struct cli *cli, struct sweep *s, struct problem *p)
{
        char id[24];
        const struct value *v;
        for (size_t i = 0; i < s->n; i++) {
                (void)snprintf(id, sizeof(id), "%lld", (long long)s->ids[i]);
                int r = cancel_one(cli, id, true, &v, p);
                if (r == OK)
                        s->canceled++;
                else if (r == ERR_STATE || r == ERR_NOTFOUND)
                        s->skipped++;
                else
                        return r;
        }
        return OK;
}

static int cancel_many(struct cli *cli, struct problem *p)
{
        struct sweep *s = xcalloc(1, sizeof(*s));
        int r;
        do {
                r = find_page(cli, s, p);
                if (r == OK)
                        r = cancel_page(cli, s, p);
        } while (r == OK && s->cursor.len);
        if (r != OK && s->canceled) {
                struct problem cause = *p;
                (void)problem_set(p, r, "%s (after %lld %s had been canceled)",
                                  SHOWN_LONG(cause.detail), (long long)s->canceled,
                                  plural((uint64_t)s->canceled, "job", "jobs"));
        } else if (r == OK && cli->is_json) {
                buf_printf(&cli->out, "{\"canceled\":%lld,\"skipped\":%lld}\n",
                           (long long)s->canceled, (long long)s->skipped);
        } else if (r == OK) {
                buf_printf(&cli->out, "canceled %lld %s\n", (long long)s->canceled,
                           plural((uint64_t)s->canceled, "job", "jobs"));
                if (!s->canceled && !s->skipped)
                        queue_name_note(cli);
        }
        buf_release(&s->cursor);
        free(s);
        return r;
}

int cli_job_cancel(struct cli *cli, struct problem *p)
{
        bool has_ids = cli->args.n_positional > 0, has_choice = false;
        for (const struct option_def *o = cancel_options; o->name; o++)
                has_choice |= args_has(&cli->args, o->name);
        if (has_ids == has_choice)
                return problem_set(p, ERR_SYNTAX,
                                   has_ids ? "give ids or filters, not both"
                                           : "say which: ids, --all, or filters");
        if (!has_ids)
                return cancel_many(cli, p);
        return cli->args.n_positional == 1 ? cancel_id(cli, p) : cancel_ids(cli, p);
}
