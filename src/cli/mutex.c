/* weir mutex: look at locks, and take them away from those who hold them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/listing.h"
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

static void add_times_and_owner(struct table *t, const struct value *v)
{
        char text[DURATION_TEXT_MAX];
        table_add_int(t, field_int(v, "fence"));
        table_add(t, slice_str(duration_words(field_int(v, "age_ms"), text)), TONE_PLAIN);
        table_add(t, slice_str(duration_words_left(field_int(v, "remaining_ms"), text)),
                  TONE_PLAIN);
        table_add(t, field_text(v, "owner"), TONE_PLAIN);
}

static void list_row(struct table *t, const struct value *l, int64_t now_ms)
{
        char held[48];
        int64_t count = field_int(l, "count");
        (void)now_ms;
        (void)snprintf(held, sizeof(held), "%lld/%lld", (long long)field_int(l, "held"),
                       (long long)count);
        table_add(t, field_text(l, "name"), TONE_PLAIN);
        table_add(t, slice_str(count > 1 ? held : "1"), TONE_PLAIN);
        table_add_int(t, field_int(l, "waiting"));
        add_times_and_owner(t, l);
}

/* ---- list ---- */

static void put_off(struct buf *notes, const struct value *page)
{
        if (is_switched_off(page))
                buf_put_str(notes,
                            "locks are switched off (setting locks.enabled): nobody is given one, "
                            "holders keep theirs; 'weir setting set locks.enabled true' switches "
                            "them on\n");
}

static const struct listing listing = {
        .command = "LOCKS",
        .key = "locks",
        .empty = "no locks are held\n",
        .options = listing_match_options,
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
        .after = put_off,
};

static int mutex_list(struct cli *cli, struct problem *p)
{
        return listing_run(cli, &listing, p);
}

/* ---- show, release ---- */

static void show_lock(struct cli *cli, const struct value *v)
{
        struct table t;
        const struct value *holders = value_get(v, "holders");
        size_t n = list_len(holders);
        buf_put_str(&cli->out, "lock ");
        text_put_safe(&cli->out, field_text(v, "name"));
        if (!n) {
                buf_put_str(&cli->out, ": free\n");
                return;
        }
        buf_printf(&cli->out, ": %zu of %lld held, %lld waiting\n\n", n,
                   (long long)field_int(v, "count"), (long long)field_int(v, "waiting"));
        table_init(&t, holder_columns, ARRAY_LEN(holder_columns));
        for (size_t i = 0; i < n; i++)
                add_times_and_owner(&t, &holders->items[i]);
        table_print(&t, &cli->screen, &cli->out);
        table_release(&t);
}

static int mutex_show(struct cli *cli, struct problem *p)
{
        return cli_show_named(cli, "LOCKED", show_lock, p);
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
        struct buf question CLEANUP(buf_release) = {0};
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
        cli_request_init_named(&req, cli, "FORCEUNLOCK");
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
        LISTING_PAGE_OPTIONS,
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
