/* weir mutex: look at locks, and take them away from those who hold them.
 *
 * With --wordpress they are locks of a site instead of weir's own (cli/mutex_site.h). */
#include <stdio.h>
#include <unistd.h>

#include "cli/mutex_site.h"

/* ---- list ---- */

static void put_held(struct buf *b, const struct value *lock, int64_t now_ms)
{
        int64_t count = field_int(lock, "count");
        (void)now_ms;
        if (count > 1)
                buf_printf(b, "%lld/%lld", (long long)field_int(lock, "held"), (long long)count);
        else
                buf_put_byte(b, '1');
}

/* clang-format off */
#define HOLDER_COLUMNS                                                                             \
        {"FENCE", .key = "fence", .as = AS_INT},                                                   \
        {"AGE", .key = "age_ms", .as = AS_DURATION},                                               \
        {"LEFT", .key = "remaining_ms", .as = AS_LEFT},                                            \
        {"OWNER", .key = "owner", .may_shrink = true}

static const struct column columns[] = {
        {"LOCK", .key = "name", .may_shrink = true},
        {"HELD", .put = put_held, .is_right = true},
        {"WAITING", .key = "waiting", .as = AS_INT},
        HOLDER_COLUMNS,
};

static const struct column holder_columns[] = {HOLDER_COLUMNS};
/* clang-format on */

static void put_off(struct buf *notes, const struct value *page)
{
        if (is_switched_off(page))
                buf_put_str(notes,
                            "locks are switched off (setting locks.enabled): nobody is given one, "
                            "holders keep theirs; 'weir setting set locks.enabled true' switches "
                            "them on\n");
}

static const struct listing listing = {
        .key = "locks",
        .empty = "no locks are held\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .after = put_off,
};

static int mutex_list(struct cli *cli, struct problem *p)
{
        return mutex_site(cli) ? mutex_site_list(cli, p) : cli_run_row(cli, p);
}

/* ---- show, release ---- */

static void show_lock(struct cli *cli, const struct value *v)
{
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
        table_print_rows(&cli->screen, &cli->out, holder_columns, ARRAY_LEN(holder_columns),
                         holders);
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
        if (mutex_site(cli))
                return mutex_site_release(cli, p);
        if (args_has(&cli->args, "force") || args_has(&cli->args, "lock-token"))
                return problem_set(p, ERR_SYNTAX,
                                   "--force and --lock-token go with --wordpress NAME; --yes takes "
                                   "a lock of weir away without a question");
        int r = confirm(cli, p);
        return r == OK ? cli_run_row(cli, p) : r;
}

#define WORDPRESS_OPTION                                                                           \
        {                                                                                          \
                "wordpress", "NAME", "locks of this WordPress site, in its options table"          \
        }

static const struct option_def list_options[] = {
        WORDPRESS_OPTION,
        {NULL, NULL, NULL},
};

static const struct option_def acquire_options[] = {
        WORDPRESS_OPTION,
        {"ttl", "SECONDS", "time until it is free again, 1 to 86400 (60)"},
        {"lock-token", "TOKEN", "of a lock that is held already: renews it"},
        {NULL, NULL, NULL},
};

static const struct option_def release_options[] = {
        {"yes", NULL, "do not ask"},
        WORDPRESS_OPTION,
        {"lock-token", "TOKEN", "with --wordpress: give the lock back that has this token"},
        {"force", NULL, "with --wordpress: take it away whoever holds it"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"list", "", "List the locks that are held, by name.",
         "FENCE, AGE, LEFT and OWNER are those of the holder that has it longest.\n",
         .options = list_options, .command = "LOCKS", .listing = &listing, .run = mutex_list},
        {"show", "NAME", "Show who holds a lock and how many wait for it.", NULL,
         .command = "LOCKED", .show = show_lock},
        {"acquire", "NAME", "Take a lock that PHP and weir share, in a WordPress site.",
         "As weir_acquire_lock() does in PHP; prints its token and its fence. Exits with 1 when\n"
         "another holds it.\n\n"
         "  weir mutex --wordpress shop acquire nightly-export --ttl 10m\n",
         .options = acquire_options, .run = mutex_site_acquire},
        {"release", "NAME", "Take a lock away from all its holders.",
         "For a holder that is gone for good. One that is still at work does not notice\n"
         "before its next renewal: only the fence keeps it from doing harm.\n",
         .options = release_options, .command = "FORCEUNLOCK", .done = "released lock",
         .run = mutex_release},
};

const struct cli_group cli_group_mutex = {"mutex", "Look at locks and take them away.", commands,
                                          ARRAY_LEN(commands)};
