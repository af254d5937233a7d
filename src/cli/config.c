/* weir config: check a file, show what holds, what a reload would change, reload. */
#include "cli/config.h"

#include <string.h>

#include "cli/config_diff.h"
#include "cli/json.h"
#include "cli/listing.h"
#include "wire/json.h"

int (*cli_config_read)(const char *path, struct buf *ret, struct problem *problem);

static int call_show(struct cli *cli, bool has_defaults, const struct value **ret,
                     struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, "CONFIGSHOW");
        if (has_defaults)
                cli_request_add_str(&req, "DEFAULTS");
        return cli_request_call(cli, &req, ret, p);
}

static bool is_given(const struct value *given, struct slice name)
{
        for (size_t i = 0; i < list_len(given); i++)
                if (slice_eq(value_text(&given->items[i]), name))
                        return true;
        return false;
}

/* The options of weir serve win over any file. */
static void note_given(struct cli *cli, const struct value *given)
{
        if (!list_len(given))
                return;
        buf_put_str(&cli->notes, "set on the command line, whatever the file says: ");
        for (size_t i = 0; i < given->n; i++) {
                buf_put_str(&cli->notes, i ? ", " : "");
                text_put_safe(&cli->notes, value_text(&given->items[i]));
        }
        buf_put_byte(&cli->notes, '\n');
}

static int config_check(struct cli *cli, struct problem *p)
{
        struct buf text CLEANUP(buf_release) = {0};
        int r = cli_config_read(cli->args.positional[0], &text, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                buf_put_str(&cli->out, "{\"ok\":true}\n");
                return OK;
        }
        text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        buf_put_str(&cli->out, " is fine\n");
        return OK;
}

static int config_show(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = call_show(cli, args_has(&cli->args, "defaults"), &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                cli_put_json(cli, v);
                return OK;
        }
        struct slice path = value_text(value_get(v, "path"));
        if (path.len) {
                buf_put_str(&cli->notes, "from ");
                text_put_safe(&cli->notes, path);
        } else {
                buf_put_str(&cli->notes, "no configuration file was given");
                if (!args_has(&cli->args, "defaults"))
                        buf_put_str(&cli->notes, "; --defaults shows what holds");
        }
        buf_put_byte(&cli->notes, '\n');
        note_given(cli, value_get(v, "command_line"));
        buf_put_slice(&cli->out, value_text(value_get(v, "text")));
        return OK;
}

/* ---- diff ---- */

struct differences {
        struct cli *cli;
        const struct value *given; /* names of settings that no file changes; NULL: none */
        size_t n;
};

static void put_text(struct buf *out, const char *key, struct slice text)
{
        json_put_key(out, key);
        if (text.ptr)
                json_put_text_lossy(out, text);
        else
                buf_put_str(out, "null");
}

static void put_difference(void *ctx, struct slice name, struct slice was, struct slice now)
{
        struct differences *d = ctx;
        struct buf line CLEANUP(buf_release) = {0}, *out = &d->cli->out;
        bool is_restart = config_needs_restart(name);
        if (is_given(d->given, name))
                return;
        if (d->cli->is_json) {
                json_put_comma(out);
                buf_put_byte(out, '{');
                put_text(out, "name", name);
                put_text(out, "was", was);
                put_text(out, "now", now);
                json_put_key(out, "needs_restart");
                buf_put_str(out, is_restart ? "true}" : "false}");
        } else {
                config_diff_put(&line, name, was, now);
                text_put_safe(out, buf_slice(&line));
                buf_put_str(out, is_restart ? "  (needs a restart)\n" : "\n");
        }
        d->n++;
}

/* Reads the file here and compares it with what the server shows. */
static int diff_file(struct cli *cli, const char *path, struct problem *p)
{
        const struct value *v;
        struct buf now CLEANUP(buf_release) = {0};
        int r = call_show(cli, true, &v, p);
        if (r == OK)
                r = cli_config_read(path, &now, p);
        if (r != OK)
                return r;
        struct differences d = {cli, value_get(v, "command_line"), 0};
        if (cli->is_json)
                buf_put_str(&cli->out, "{\"changes\":[");
        else
                note_given(cli, d.given);
        config_diff(value_text(value_get(v, "text")), buf_slice(&now), put_difference, &d);
        if (cli->is_json) {
                buf_put_str(&cli->out, "],\"command_line\":");
                if (d.given)
                        value_put_json(&cli->out, d.given);
                else
                        buf_put_str(&cli->out, "[]");
                buf_put_str(&cli->out, "}\n");
        } else if (!d.n) {
                buf_put_str(&cli->notes, "nothing would change\n");
        }
        return OK;
}

/* ---- reload ---- */

static void put_lines(struct buf *out, const char *prefix, const struct value *list)
{
        for (size_t i = 0; i < list_len(list); i++) {
                buf_put_str(out, prefix);
                text_put_safe(out, value_text(&list->items[i]));
                buf_put_byte(out, '\n');
        }
}

static int call_reload(struct cli *cli, bool is_trial, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, "CONFIGRELOAD");
        if (is_trial)
                cli_request_add_str(&req, "DRYRUN");
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                cli_put_json(cli, v);
                return OK;
        }
        const struct value *changed = value_get(v, "changed");
        put_lines(&cli->out, "", changed);
        put_lines(&cli->notes, "needs a restart: ", value_get(v, "needs_restart"));
        if (!changed || changed->n == 0)
                buf_put_str(&cli->notes,
                            is_trial ? "nothing would change\n" : "read again, nothing changed\n");
        return OK;
}

static int config_reload(struct cli *cli, struct problem *p)
{
        return call_reload(cli, false, p);
}

/* Without a file: the server reads its own, with the options it was started with. */
static int config_diff_run(struct cli *cli, struct problem *p)
{
        if (cli->args.n_positional)
                return diff_file(cli, cli->args.positional[0], p);
        return call_reload(cli, true, p);
}

static const struct cli_command commands[] = {
        {"check", "FILE", "Check a configuration file and say where it is wrong.",
         "Exits 0 when a server would start with it, else 2, with file and line.\n\n"
         "  weir config check /etc/weir/weir.conf\n",
         .is_local = true, .run = config_check},
        {"show", "", "Show the configuration that holds, without secrets.",
         "What was set while weir runs (docs/settings.md) is not in it.\n\n"
         "  weir config show --defaults\n",
         .command = "CONFIGSHOW", .run = config_show},
        {"diff", "[FILE]", "Show what a reload would change.",
         "Without FILE the one that weir runs with, as it is on disk now. A FILE is read "
         "here. "
         "What\n"
         "was set on the command line of weir serve wins over both: it is named and not "
         "compared.\n\n"
         "  weir config diff /etc/weir/weir.conf\n",
         .run = config_diff_run},
        {"reload", "", "Read the configuration file again.",
         "The same as SIGHUP. An error says where and changes nothing; what cannot change "
         "while\n"
         "weir runs is named and stays.\n\n"
         "  weir config reload\n",
         .run = config_reload},
};

const struct cli_group cli_group_config = {"config", "Check, show, compare and reload settings.",
                                           commands, ARRAY_LEN(commands)};
