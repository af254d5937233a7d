/* Reference pages from the tables, so that they cannot say anything else than the program does:
 *
 *      weir docs commands-md     docs/commands.md
 *      weir docs commands-man    docs/man/weir-commands.7.scd
 *      weir docs errors-man      a table in docs/man/weir-protocol.7.scd
 *      weir docs limits-man      another
 *      weir docs openapi         docs/openapi.json
 *      weir docs settings-man    the settings in docs/man/weir.conf.5.scd
 *      weir docs settings-md     those set while weir runs, in docs/settings.md
 *      weir docs settings-restart  what a reload leaves to a restart, there too
 *      weir docs log-md          docs/log-records.md
 *
 * `make lint` fails when the committed files differ from these. */
#include "serve/reference.h"

#include <stdio.h>
#include <string.h>

#include "api/command.h"
#include "api/limits.h"
#include "base/buf.h"
#include "door/openapi.h"
#include "serve/log_docs.h"
#include "serve/reference_settings.h"
#include "serve/serve.h"

/* What differs between the two pages. */
struct style {
        const char *row_begin, *row_mid, *row_end;
};

static void put_range(struct buf *b, const struct param_def *p)
{
        switch (p->type) {
        case PARAM_INT:
        case PARAM_ID:
                if (p->max == INT64_MAX)
                        buf_printf(b, " (%lld or more)", (long long)p->min);
                else
                        buf_printf(b, " (%lld to %lld)", (long long)p->min, (long long)p->max);
                break;
        case PARAM_NAME:
        case PARAM_BYTES:
        case PARAM_TEXT:
                if (p->max != INT64_MAX)
                        buf_printf(b, " (%lld to %lld bytes)", (long long)p->min,
                                   (long long)p->max);
                break;
        case PARAM_NAMES:
        case PARAM_JOBS:
                buf_printf(b, " (%lld to %lld of them)", (long long)p->min, (long long)p->max);
                break;
        case PARAM_TOKEN:
        case PARAM_STATUS:
        case PARAM_CLAIM:
        case PARAM_FLAG:
        case PARAM_CHOICE:
                break;
        case PARAM_IDS:
                buf_printf(b, " (at most %lld)", (long long)p->max);
                break;
        }
}

static void put_param(struct buf *b, const struct command_def *def, const struct param_def *p,
                      const struct style *style)
{
        buf_printf(b, "%s%s%s%s", style->row_begin, p->name, style->row_mid, p->text);
        put_range(b, p);
        if (p->type == PARAM_BYTES && def->path)
                buf_printf(b, "; over HTTP also as %s_base64, or as a string with %s_is_text",
                           p->name, p->name);
        if (p->flags & PARAM_REQUIRED)
                buf_put_str(b, param_is_needed(p) ? "; required" : "; required over RESP");
        else if (p->fallback)
                buf_printf(b, "; default: %s", p->fallback);
        buf_put_str(b, style->row_end);
}

static void put_md_command(struct buf *b, const struct command_def *def)
{
        static const struct style style = {"- `", "`: ", "\n"};
        buf_printf(b, "### %s\n\n%s\n\n```\n", def->name, def->summary);
        command_usage(def, b);
        buf_put_str(b, "\n```\n\n");
        if (def->path)
                buf_printf(b, "HTTP: `%s %s`\n\n", def->method, def->path);
        if (def->role != ROLE_ANYONE)
                buf_printf(b, "Role: %s\n\n", role_name(def->role));
        for (size_t i = 0; i < def->n_params; i++)
                put_param(b, def, &def->params[i], &style);
        buf_printf(b, "%sReturns: %s\n\n", def->n_params ? "\n" : "", def->returns);
}

static bool is_first_of_group(size_t row)
{
        for (size_t i = 0; i < row; i++)
                if (strcmp(command_table[i].group, command_table[row].group) == 0)
                        return false;
        return true;
}

/* Every command, by groups in the order in which the table has them. */
static void put_groups(struct buf *b, void (*put_title)(struct buf *b, const char *group),
                       void (*put)(struct buf *b, const struct command_def *def))
{
        for (size_t first = 0; first < command_table_len; first++) {
                const char *group = command_table[first].group;
                if (!is_first_of_group(first))
                        continue;
                put_title(b, group);
                for (size_t i = first; i < command_table_len; i++)
                        if (strcmp(command_table[i].group, group) == 0)
                                put(b, &command_table[i]);
        }
}

static void put_md_title(struct buf *b, const char *group)
{
        buf_printf(b, "## %s\n\n", group);
}

static void commands_md(struct buf *b)
{
        buf_put_str(b,
                    "# Commands\n\n"
                    "Written from the command table by `tools/docs-update`; not edited by hand.\n"
                    "RESP takes the words below; HTTP takes the same names as JSON keys, path or "
                    "query parameters.\n\n");
        put_groups(b, put_md_title, put_md_command);
        buf_put_str(b, "## Errors\n\n| code | HTTP | exit | meaning |\n|---|---|---|---|\n");
#define X(name, http, exit, text) buf_printf(b, "| %s | %d | %d | %s |\n", #name, http, exit, text);
        ERR_MAP(X)
#undef X
        buf_put_str(
                b, "\n## Limits\n\n| limit | value | unit | what it bounds |\n|---|---|---|---|\n");
        for (size_t i = 0; i < limit_table_len; i++)
                buf_printf(b, "| %s | %lld | %s | %s |\n", limit_table[i].name,
                           (long long)limit_table[i].value, limit_table[i].unit,
                           limit_table[i].text);
}

/* scdoc: '*' and '_' begin bold and underlined text, so a literal '_' is escaped. */
static void put_scd(struct buf *b, const char *text)
{
        for (; *text; text++) {
                if (*text == '_' || *text == '*' || *text == '<')
                        buf_put_byte(b, '\\');
                buf_put_byte(b, *text);
        }
}

static void put_man_command(struct buf *b, const struct command_def *def)
{
        struct buf usage, row;
        buf_init(&usage, 0);
        buf_init(&row, 0);
        command_usage(def, &usage);
        buf_put_str(b, "*");
        put_scd(b, buf_cstr(&usage));
        buf_put_str(b, "*\n");
        static const struct style style = {"", ": ", ".\n"};
        buf_put_byte(b, '\t');
        put_scd(b, def->summary);
        buf_put_str(b, " Returns: ");
        put_scd(b, def->returns);
        buf_put_byte(b, '\n');
        if (def->path)
                buf_printf(b, "\n\tHTTP: %s %s\n", def->method, def->path);
        if (def->role != ROLE_ANYONE)
                buf_printf(b, "\n\tRole: %s\n", role_name(def->role));
        buf_put_byte(b, '\n');
        for (size_t i = 0; i < def->n_params; i++) {
                buf_clear(&row);
                put_param(&row, def, &def->params[i], &style);
                buf_put_str(b, "\t- ");
                put_scd(b, buf_cstr(&row));
        }
        if (def->n_params)
                buf_put_byte(b, '\n');
        buf_release(&usage);
        buf_release(&row);
}

static void put_man_title(struct buf *b, const char *group)
{
        buf_put_str(b, "# ");
        for (const char *c = group; *c; c++)
                buf_put_byte(b, (char)(*c - ('a' - 'A')));
        buf_put_str(b, "\n\n");
}

static void commands_man(struct buf *b)
{
        buf_put_str(
                b, "weir-commands(7)\n\n# NAME\n\nweir-commands - the commands of a weir server\n\n"
                   "# DESCRIPTION\n\nRESP takes the words below; HTTP takes the same names as "
                   "JSON keys, path or query parameters.\n\n");
        put_groups(b, put_man_title, put_man_command);
        buf_put_str(b, "# SEE ALSO\n\n*weir*(1), *weir-work*(1), *weir.conf*(5), "
                       "*weir-protocol*(7)\n");
}

/* A table of scdoc: '|' begins a row, ':' a further cell; the last column takes what is left. */
static void put_man_cell(struct buf *b, const char *begin, const char *text)
{
        buf_put_str(b, begin);
        put_scd(b, text);
        buf_put_byte(b, '\n');
}

static void errors_man(struct buf *b)
{
        buf_put_str(b, "|[ *code*\n:] *HTTP*\n:] *exit*\n:< *meaning*\n");
#define X(name, http, exit, text)                                                                  \
        put_man_cell(b, "|  ", #name);                                                             \
        buf_printf(b, ":  %d\n:  %d\n", http, exit);                                               \
        put_man_cell(b, ":  ", text);
        ERR_MAP(X)
#undef X
}

static void limits_man(struct buf *b)
{
        /* Value and unit are one cell: a fourth column would leave no room for the names. */
        buf_put_str(b, "|[ *limit*\n:] *value*\n:< *what it bounds*\n");
        for (size_t i = 0; i < limit_table_len; i++) {
                put_man_cell(b, "|  ", limit_table[i].name);
                buf_printf(b, ":  %lld %s\n", (long long)limit_table[i].value, limit_table[i].unit);
                put_man_cell(b, ":  ", limit_table[i].text);
        }
}

static void openapi(struct buf *b)
{
        openapi_put(b, WEIR_VERSION, NULL);
        buf_put_byte(b, '\n');
}

static const struct {
        const char *name;
        void (*put)(struct buf *b);
} pages[] = {
        {"commands-md", commands_md},
        {"commands-man", commands_man},
        {"errors-man", errors_man},
        {"limits-man", limits_man},
        {"openapi", openapi},
        {"log-md", log_docs_md},
        {"settings-man", reference_settings_man},
        {"settings-md", reference_settings_md},
        {"settings-restart", reference_settings_restart},
};

int reference_main(int argc, char **argv)
{
        for (size_t i = 0; argc == 2 && i < ARRAY_LEN(pages); i++) {
                if (strcmp(argv[1], pages[i].name) != 0)
                        continue;
                struct buf b;
                buf_init(&b, 0);
                pages[i].put(&b);
                bool is_written = fwrite(b.ptr, 1, b.len, stdout) == b.len && fflush(stdout) == 0;
                buf_release(&b);
                return is_written ? 0 : err_exit(ERR_IO);
        }
        fputs("usage: weir docs", stderr);
        for (size_t i = 0; i < ARRAY_LEN(pages); i++)
                (void)fprintf(stderr, "%s %s", i ? " |" : "", pages[i].name);
        fputs("\n", stderr);
        return err_exit(ERR_SYNTAX);
}
