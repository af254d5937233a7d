/* weir mutex: look at locks, and take them away from those who hold them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/text.h"

static const struct column columns[] = {
        {"LOCK", false, true},  {"HELD", true, false}, {"WAITING", true, false},
        {"FENCE", true, false}, {"AGE", true, false},  {"LEFT", true, false},
        {"OWNER", false, true},
};

static const struct column holder_columns[] = {
        {"FENCE", true, false},
        {"AGE", true, false},
        {"LEFT", true, false},
        {"OWNER", false, true},
};

static int64_t number_of(const struct value *v, const char *key)
{
        return value_int(value_get(v, key), 0);
}

static void add_duration(struct table *t, int64_t ms)
{
        struct buf text CLEANUP(buf_release);
        buf_init(&text, 0);
        duration_put(&text, ms);
        table_add(t, buf_slice(&text), TONE_PLAIN);
}

static void add_times_and_owner(struct table *t, const struct value *v)
{
        table_add_int(t, number_of(v, "fence"));
        add_duration(t, number_of(v, "age_ms"));
        add_duration(t, number_of(v, "remaining_ms"));
        table_add(t, value_text(value_get(v, "owner")), TONE_PLAIN);
}

static void list_row(struct table *t, const struct value *l)
{
        char held[48];
        int64_t count = number_of(l, "count");
        (void)snprintf(held, sizeof(held), "%lld/%lld", (long long)number_of(l, "held"),
                       (long long)count);
        table_add(t, value_text(value_get(l, "name")), TONE_PLAIN);
        table_add(t, slice_str(count > 1 ? held : "1"), TONE_PLAIN);
        table_add_int(t, number_of(l, "waiting"));
        add_times_and_owner(t, l);
}

/* ---- list ---- */

struct listing {
        struct table table;
        struct buf cursor; /* where the next page begins; empty at the end */
        uint64_t n;
};

static int list_page(struct cli *cli, struct listing *l, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, "LOCKS");
        cli_request_add_option(&req, &cli->args, "match", "MATCH");
        cli_request_add_option(&req, &cli->args, "limit", "LIMIT");
        if (l->cursor.len) {
                cli_request_add_str(&req, "CURSOR");
                cli_request_add(&req, buf_slice(&l->cursor));
        }
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        const struct value *locks = value_get(v, "locks");
        for (size_t i = 0; locks && i < locks->n; i++, l->n++) {
                if (!cli->is_json) {
                        list_row(&l->table, &locks->items[i]);
                        continue;
                }
                buf_put_str(&cli->out, l->n ? "," : "");
                value_put_json(&cli->out, &locks->items[i]);
        }
        buf_clear(&l->cursor);
        buf_put_slice(&l->cursor, value_text(value_get(v, "cursor")));
        return OK;
}

static void list_print(struct cli *cli, struct listing *l)
{
        if (cli->is_json) {
                struct value cursor = {.type = VALUE_TEXT, .text = buf_slice(&l->cursor)};
                buf_put_str(&cli->out, "],\"cursor\":");
                value_put_json(&cli->out, &cursor);
                buf_put_str(&cli->out, "}\n");
                return;
        }
        if (l->n)
                table_print(&l->table, &cli->screen, &cli->out);
        else
                buf_put_str(&cli->notes, "no locks are held\n");
        if (l->cursor.len)
                buf_put_str(&cli->notes, "there are more: --all shows them\n");
}

static int mutex_list(struct cli *cli, struct problem *p)
{
        struct listing l = {0};
        const char *cursor = args_get(&cli->args, "cursor");
        int r;
        table_init(&l.table, columns, ARRAY_LEN(columns));
        buf_init(&l.cursor, 0);
        if (cursor)
                buf_put_str(&l.cursor, cursor);
        if (cli->is_json)
                buf_put_str(&cli->out, "{\"locks\":[");
        do
                r = list_page(cli, &l, p);
        while (r == OK && l.cursor.len && args_has(&cli->args, "all"));
        if (r == OK)
                list_print(cli, &l);
        else
                buf_clear(&cli->out);
        table_release(&l.table);
        buf_release(&l.cursor);
        return r;
}

/* ---- show, release ---- */

static int mutex_show(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        struct table t;
        cli_request_init(&req, "LOCKED");
        cli_request_add_str(&req, cli->args.positional[0]);
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                value_put_json(&cli->out, v);
                buf_put_byte(&cli->out, '\n');
                return OK;
        }
        const struct value *holders = value_get(v, "holders");
        size_t n = holders ? holders->n : 0;
        buf_put_str(&cli->out, "lock ");
        text_put_safe(&cli->out, value_text(value_get(v, "name")));
        buf_printf(&cli->out, ": %zu of %lld held, %lld waiting\n\n", n,
                   (long long)number_of(v, "count"), (long long)number_of(v, "waiting"));
        table_init(&t, holder_columns, ARRAY_LEN(holder_columns));
        for (size_t i = 0; i < n; i++)
                add_times_and_owner(&t, &holders->items[i]);
        table_print(&t, &cli->screen, &cli->out);
        table_release(&t);
        return OK;
}

static int confirm(struct cli *cli, struct problem *p)
{
        char line[16] = "";
        if (args_has(&cli->args, "yes"))
                return OK;
        if (!isatty(STDIN_FILENO))
                return problem_set(p, ERR_FORBIDDEN,
                                   "this takes the lock away from a holder that may be at work; "
                                   "say --yes to mean it");
        struct buf question CLEANUP(buf_release);
        buf_init(&question, 0);
        buf_put_str(&question, "Take the lock ");
        text_put_safe(&question, slice_str(cli->args.positional[0]));
        buf_put_str(&question, " away from whoever holds it? [y/N] ");
        fputs(buf_cstr(&question), stderr);
        if (fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y'))
                return OK;
        return problem_set(p, ERR_FORBIDDEN, "nothing was changed");
}

static int mutex_release(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        int r = confirm(cli, p);
        if (r != OK)
                return r;
        cli_request_init(&req, "FORCEUNLOCK");
        cli_request_add_str(&req, cli->args.positional[0]);
        cli_request_add_option(&req, &cli->args, "reason", "REASON");
        r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                buf_printf(&cli->out, "{\"released\":%lld}\n", (long long)value_int(v, 0));
                return OK;
        }
        buf_put_str(&cli->out, "released lock ");
        text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        buf_put_byte(&cli->out, '\n');
        return OK;
}

static const struct option_def list_options[] = {
        {"match", "TEXT", "only locks whose name holds TEXT"},
        {"limit", "N", "at most N, up to 1000 (50)"},
        {"cursor", "CURSOR", "continue where an earlier listing ended"},
        {"all", NULL, "all of them, page after page"},
        {NULL, NULL, NULL},
};

static const struct option_def release_options[] = {
        {"reason", "TEXT", "why; it is written to the server's log"},
        {"yes", NULL, "do not ask"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {.name = "list",
         .usage = "",
         .summary = "List the locks that are held, by name.",
         .text = "FENCE, AGE, LEFT and OWNER are those of the holder that has it longest.\n",
         .options = list_options,
         .run = mutex_list},
        {.name = "show",
         .usage = "NAME",
         .summary = "Show who holds a lock and how many wait for it.",
         .min_words = 1,
         .max_words = 1,
         .run = mutex_show},
        {.name = "release",
         .usage = "NAME",
         .summary = "Take a lock away from all its holders.",
         .text = "For a holder that is gone for good. One that is still at work does not notice\n"
                 "before its next renewal: only the fence keeps it from doing harm.\n",
         .options = release_options,
         .min_words = 1,
         .max_words = 1,
         .run = mutex_release},
};

const struct cli_group cli_group_mutex = {"mutex", "Look at locks and take them away.", commands,
                                          ARRAY_LEN(commands)};
