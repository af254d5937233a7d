/* See mutex_site.h.
 *
 * PHP takes the same locks with weir_acquire_lock().  weir remembers none of them: every answer is
 * what the database says. */
#include "cli/mutex_site.h"

#include <string.h>

#include "base/clock.h"
#include "base/shown.h"
#include "cli/json.h"
#include "cli/text.h"

#define TTL_DEFAULT_MS 60000
#define TTL_MIN_MS     1000
#define TOKEN_DIGITS   32
#define EXIT_CONFLICT  1 /* as `weir lock run` has it */

const char *mutex_site(const struct cli *cli)
{
        return args_get(&cli->args, "wordpress");
}

/* Options of weir's own locks, which mean nothing here. */
static int refuse_options(const struct cli *cli, const char *const *names, const char *instead,
                          struct problem *p)
{
        for (; *names; names++)
                if (args_find_value(&cli->args, *names))
                        return problem_set(p, ERR_SYNTAX, "--%s does not go with --wordpress%s",
                                           *names, instead);
        return OK;
}

static void request_init(struct cli_request *req, const struct cli *cli, const char *command)
{
        cli_request_init(req, command);
        cli_request_add_str(req, mutex_site(cli));
        if (cli->args.n_positional)
                cli_request_add_str(req, cli->args.positional[0]);
}

/* ---- list ---- */

static const struct column columns[] = {
        {"LOCK", .key = "key", .may_shrink = true},
        {"FENCE", .key = "fence", .as = AS_INT},
        {"EXPIRES", .key = "expires_ms", .as = AS_RELATIVE},
};

static void show_locks(struct cli *cli, const struct value *v)
{
        table_print_rows(&cli->screen, &cli->out, columns, ARRAY_LEN(columns), v);
        if (!list_len(v))
                buf_put_str(&cli->notes, "no locks are held\n");
}

int mutex_site_list(struct cli *cli, struct problem *p)
{
        static const char *const paged[] = {"match", "limit", "cursor", "all", NULL};
        struct cli_request req;
        int r = refuse_options(cli, paged,
                               ": all locks of the site are listed; --filter TEXT chooses", p);
        if (r != OK)
                return r;
        request_init(&req, cli, "SITELOCKS");
        return cli_show(cli, &req, show_locks, p);
}

/* ---- acquire ---- */

static int add_token(struct cli_request *req, const struct cli *cli, struct problem *p)
{
        const char *token = args_get(&cli->args, "lock-token");
        if (!token)
                return OK;
        if (strlen(token) != TOKEN_DIGITS || token[strspn(token, "0123456789abcdef")])
                return problem_set(p, ERR_BADARG,
                                   "--lock-token: '%s' is no token: it has 32 digits, 0-9 and a-f, "
                                   "as 'weir mutex acquire' printed them",
                                   SHOWN_MAX(slice_str(token), 40));
        cli_request_add_str(req, "TOKEN");
        cli_request_add_str(req, token);
        return OK;
}

static const struct field_line taken_lines[] = {
        {"token", "token", AS_TEXT, NULL, NULL},
        {"fence", "fence", AS_INT, NULL, NULL},
        {"expires", "expires_ms", AS_MOMENT, NULL, NULL},
        {NULL, NULL, AS_TEXT, NULL, NULL},
};

static void show_taken(struct cli *cli, const struct value *v)
{
        bool is_acquired = field_is_true(v, "acquired");
        struct buf *b = is_acquired ? &cli->out : &cli->notes;
        buf_put_str(b, is_acquired ? "acquired lock " : "weir: another holds lock ");
        text_put_safe(b, slice_str(cli->args.positional[0]));
        if (is_acquired) {
                buf_put_byte(b, '\n');
                put_field_lines(&cli->screen, b, 8, taken_lines, v);
        } else {
                buf_put_str(b, ", until ");
                put_moment_line(b, field_int(v, "expires_ms"), clock_wall_ms());
        }
}

int mutex_site_acquire(struct cli *cli, struct problem *p)
{
        const char *ttl = args_get(&cli->args, "ttl");
        int64_t ttl_ms = TTL_DEFAULT_MS;
        struct cli_request req;
        const struct value *v;
        if (!mutex_site(cli))
                return problem_set(p, ERR_SYNTAX,
                                   "which site? --wordpress NAME; a lock of weir itself is held "
                                   "while a command runs: weir lock run NAME -- COMMAND");
        int r = ttl ? seconds_parse("--ttl", ttl, TTL_MIN_MS, &ttl_ms, p) : OK;
        if (r == OK && ttl_ms % 1000)
                r = problem_set(p, ERR_BADARG, "--ttl: whole seconds");
        if (r != OK)
                return r;
        request_init(&req, cli, "SITELOCK");
        cli_request_add_str(&req, "TTL");
        cli_request_add_int(&req, ttl_ms / 1000);
        r = add_token(&req, cli, p);
        if (r == OK)
                r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json)
                cli_put_json(cli, v);
        else
                show_taken(cli, v);
        cli->exit_code = field_is_true(v, "acquired") ? 0 : EXIT_CONFLICT;
        return OK;
}

/* ---- release ---- */

int mutex_site_release(struct cli *cli, struct problem *p)
{
        static const char *const own[] = {"reason", "yes", NULL};
        bool is_forced = args_has(&cli->args, "force");
        const char *key = cli->args.positional[0];
        struct cli_request req;
        const struct value *v;
        int r = refuse_options(cli, own, "; --force takes the lock away", p);
        if (r == OK && is_forced == args_has(&cli->args, "lock-token"))
                r = problem_set(p, ERR_SYNTAX,
                                "say --lock-token TOKEN to give your own lock back, or --force to "
                                "take it away from whoever holds it%s",
                                is_forced ? ", not both" : "");
        if (r != OK)
                return r;
        request_init(&req, cli, "SITEUNLOCK");
        if (is_forced)
                cli_request_add_str(&req, "FORCE");
        r = add_token(&req, cli, p);
        if (r == OK)
                r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (!field_is_true(v, "released"))
                return is_forced ? problem_set(p, ERR_NOTFOUND, "nobody holds lock '%s'",
                                               SHOWN_STR(key))
                                 : problem_set(p, ERR_NOTOWNER,
                                               "lock '%s' is not held with this token",
                                               SHOWN_STR(key));
        if (cli->is_json) {
                cli_put_json(cli, v);
        } else {
                buf_put_str(&cli->out, "released lock ");
                text_put_safe(&cli->out, slice_str(key));
                buf_put_byte(&cli->out, '\n');
        }
        return OK;
}
