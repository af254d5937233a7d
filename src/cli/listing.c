/* Lists on the screen and for programs.
 *
 * A page is asked for, its rows go into the table (or, for programs, straight into the output), and
 * with --all the next one follows where the cursor says.  So a list of a hundred thousand locks
 * costs one page of answers at a time and the text of the table, which has to be whole before its
 * columns have widths.  When a page fails, the rows before it are dropped: half a list that looks
 * like a whole one is worse than none. */
#include "cli/listing.h"

#include <string.h>

#include "api/command.h"
#include "api/replies.h"
#include "base/clock.h"
#include "cli/json.h"

struct progress {
        const struct listing *listing;
        struct table table;
        struct buf cursor; /* where the next page begins; empty at the end */
        struct buf rest;   /* what the last page told beside its rows: JSON, or notes */
        uint64_t n;
        int64_t now_ms; /* one moment for all rows */
};

void cli_put_json(struct cli *cli, const struct value *v)
{
        value_put_json(&cli->out, v);
        buf_put_byte(&cli->out, '\n');
}

/* Over RESP some commands answer with a list or a number alone.  The table of replies has the key
 * that this answer has over HTTP, so that programs read the same object from both, and a key can be
 * added later.  The id of a new job stays a number, as `job add` prints it. */
static struct slice answer_key(struct slice command)
{
        const struct command_def *def = command_find(command);
        if (!def || !def->reply || def->id == CMD_RUNSCHEDULE)
                return SLICE_NONE;
        const struct reply_shape *shape = reply_shape_find(slice_str(def->reply + 1)); /* "@name" */
        if (!shape || !shape->is_wrapped)
                return SLICE_NONE;
        return slice_make(shape->text + 1, strcspn(shape->text + 1, ":~")); /* "{key:..." */
}

static void put_answer_json(struct cli *cli, struct slice command, const struct value *v)
{
        struct slice key = answer_key(command);
        if (key.len)
                buf_printf(&cli->out, "{\"%.*s\":", (int)key.len, key.ptr);
        value_put_json(&cli->out, v);
        buf_put_str(&cli->out, key.len ? "}\n" : "\n");
}

static int ask(struct cli *cli, const struct progress *at, const struct value **ret,
               struct problem *p)
{
        struct cli_request req;
        int r = cli_request_of_row(&req, cli, p);
        if (r == OK && at->listing->prepare)
                r = at->listing->prepare(cli, &req, p);
        if (r != OK)
                return r;
        if (at->cursor.len) {
                cli_request_add_str(&req, at->listing->page ? at->listing->page : "CURSOR");
                cli_request_add(&req, buf_slice(&at->cursor));
        }
        return cli_request_call(cli, &req, ret, p);
}

static void add_rows(struct progress *at, const struct value *rows)
{
        for (size_t i = 0; i < list_len(rows); i++, at->n++)
                table_add_row(&at->table, &rows->items[i], at->now_ms);
}

/* Whatever else a page tells goes on behind the rows; of several pages the last one counts. */
static void keep_rest(struct cli *cli, struct progress *at, const struct value *page)
{
        const struct listing *l = at->listing;
        buf_clear(&at->rest);
        if (!cli->is_json && l->after)
                l->after(&at->rest, page);
        for (size_t i = 0; cli->is_json && page->type == VALUE_MAP && i + 1 < page->n; i += 2) {
                if (slice_eq(value_text(&page->items[i]), slice_str(l->key)))
                        continue;
                buf_put_byte(&at->rest, ',');
                value_put_json(&at->rest, &page->items[i]);
                buf_put_byte(&at->rest, ':');
                value_put_json(&at->rest, &page->items[i + 1]);
        }
}

static int get_page(struct cli *cli, struct progress *at, struct problem *p)
{
        const struct value *v;
        int r = ask(cli, at, &v, p);
        if (r != OK)
                return r;
        const struct value *rows = value_get(v, at->listing->key);
        if (!cli->is_json)
                add_rows(at, rows);
        for (size_t i = 0; cli->is_json && rows && i < rows->n; i++, at->n++) {
                buf_put_str(&cli->out, at->n ? "," : "");
                value_put_json(&cli->out, &rows->items[i]);
        }
        keep_rest(cli, at, v);
        buf_clear(&at->cursor);
        buf_put_slice(&at->cursor, field_text(v, "cursor"));
        return OK;
}

static int get_pages(struct cli *cli, struct progress *at, struct problem *p)
{
        const char *cursor = args_find_value(&cli->args, "cursor"); /* not all lists have pages */
        int r;
        if (cursor)
                buf_put_str(&at->cursor, cursor);
        if (cli->is_json)
                buf_printf(&cli->out, "{\"%s\":[", at->listing->key);
        do
                r = get_page(cli, at, p);
        while (r == OK && at->cursor.len && args_has(&cli->args, "all"));
        if (r != OK)
                buf_clear(&cli->out);
        if (r != OK || !cli->is_json)
                return r;
        buf_put_byte(&cli->out, ']');
        buf_put_slice(&cli->out, buf_slice(&at->rest));
        buf_put_str(&cli->out, "}\n");
        return OK;
}

static int get_whole(struct cli *cli, struct progress *at, struct problem *p)
{
        const struct value *v;
        int r = ask(cli, at, &v, p);
        if (r == OK && cli->is_json)
                put_answer_json(cli, slice_str(cli->command->command), v);
        else if (r == OK)
                add_rows(at, v);
        return r;
}

int listing_run(struct cli *cli, const struct listing *l, struct problem *p)
{
        struct progress at = {.listing = l, .now_ms = clock_wall_ms()};
        table_init(&at.table, l->columns, l->n_columns);
        buf_init(&at.cursor, 0);
        buf_init(&at.rest, 0);
        int r = l->key ? get_pages(cli, &at, p) : get_whole(cli, &at, p);
        if (r == OK && !cli->is_json) {
                if (at.n)
                        table_print(&at.table, &cli->screen, &cli->out);
                else
                        buf_put_str(&cli->notes, l->empty);
                if (at.cursor.len && l->tells_cursor)
                        buf_printf(&cli->notes,
                                   "there are more: --all shows them, --cursor %s the next page\n",
                                   buf_cstr(&at.cursor));
                else if (at.cursor.len)
                        buf_put_str(&cli->notes, "there are more: --all shows them\n");
                buf_put_slice(&cli->notes, buf_slice(&at.rest));
        }
        table_release(&at.table);
        buf_release(&at.cursor);
        buf_release(&at.rest);
        return r;
}

int cli_show(struct cli *cli, const struct cli_request *req, cli_show_fn show, struct problem *p)
{
        const struct value *v;
        int r = cli_request_call(cli, req, &v, p);
        if (r == OK && cli->is_json)
                put_answer_json(cli, req->argv[0], v);
        else if (r == OK)
                show(cli, v);
        return r;
}

int cli_change(struct cli *cli, const struct cli_request *req, const char *done, struct problem *p)
{
        const struct value *v;
        int r = cli_request_call(cli, req, &v, p);
        if (r == OK && cli->is_json) {
                put_answer_json(cli, req->argv[0], v);
        } else if (r == OK) {
                buf_printf(&cli->out, "%s ", done);
                text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
                buf_put_byte(&cli->out, '\n');
        }
        return r;
}

int cli_everything_is_paused(struct cli *cli, bool *ret, struct problem *p)
{
        struct cli_request req;
        const struct value *now;
        cli_request_init(&req, "NOW");
        int r = cli_request_call(cli, &req, &now, p);
        if (r == OK)
                *ret = field_is_true(now, "everything_paused");
        return r;
}

int cli_run_row(struct cli *cli, struct problem *p)
{
        const struct cli_command *c = cli->command;
        struct cli_request req;
        ASSERT(c->listing || c->show || c->done);
        if (c->listing)
                return listing_run(cli, c->listing, p);
        int r = cli_request_of_row(&req, cli, p);
        if (r != OK)
                return r;
        return c->show ? cli_show(cli, &req, c->show, p) : cli_change(cli, &req, c->done, p);
}
