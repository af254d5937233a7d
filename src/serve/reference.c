/* Reference pages from the tables, so that they cannot say anything else than the program does:
 *
 *      weir docs commands-md     docs/commands.md
 *      weir docs commands-man    docs/man/weir-commands.7.scd
 *      weir docs openapi         docs/openapi.json
 *
 * `make lint` fails when the committed files differ from these. */
#include "serve/reference.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "core/command.h"
#include "core/limits.h"
#include "door/openapi.h"
#include "serve/serve.h"

static const char *const groups[] = {"jobs", "workers", "queues", "server", "connection"};

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
                buf_printf(b, " (%lld to %lld bytes)", (long long)p->min, (long long)p->max);
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

static void put_param(struct buf *b, const struct param_def *p, const struct style *style)
{
        buf_printf(b, "%s%s%s%s", style->row_begin, p->name, style->row_mid, p->text);
        put_range(b, p);
        if (p->flags & PARAM_REQUIRED)
                buf_put_str(b, "; required");
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
        for (size_t i = 0; i < def->n_params; i++)
                put_param(b, &def->params[i], &style);
        buf_printf(b, "%sReturns: %s\n\n", def->n_params ? "\n" : "", def->returns);
}

static void put_group(struct buf *b, const char *group,
                      void (*put)(struct buf *b, const struct command_def *def))
{
        for (size_t i = 0; i < command_table_len; i++)
                if (strcmp(command_table[i].group, group) == 0)
                        put(b, &command_table[i]);
}

static void commands_md(struct buf *b)
{
        buf_put_str(b,
                    "# Commands\n\n"
                    "Written from the command table by `tools/docs-update`; not edited by hand.\n"
                    "RESP takes the words below; HTTP takes the same names as JSON keys, path or "
                    "query parameters.\n\n");
        for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
                buf_printf(b, "## %s\n\n", groups[g]);
                put_group(b, groups[g], put_md_command);
        }
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
        buf_put_byte(b, '\n');
        for (size_t i = 0; i < def->n_params; i++) {
                buf_clear(&row);
                put_param(&row, &def->params[i], &style);
                buf_put_str(b, "\t- ");
                put_scd(b, buf_cstr(&row));
        }
        if (def->n_params)
                buf_put_byte(b, '\n');
        buf_release(&usage);
        buf_release(&row);
}

static void commands_man(struct buf *b)
{
        buf_put_str(
                b, "weir-commands(7)\n\n# NAME\n\nweir-commands - the commands of a weir server\n\n"
                   "# DESCRIPTION\n\nRESP takes the words below; HTTP takes the same names as "
                   "JSON keys, path or query parameters.\n\n");
        for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
                buf_put_str(b, "# ");
                for (const char *c = groups[g]; *c; c++)
                        buf_put_byte(b, (char)(*c - ('a' - 'A')));
                buf_put_str(b, "\n\n");
                put_group(b, groups[g], put_man_command);
        }
        buf_put_str(b, "# SEE ALSO\n\n*weir*(1), *weir-work*(1), *weir.conf*(5)\n");
}

static void openapi(struct buf *b)
{
        openapi_put(b, WEIR_VERSION);
        buf_put_byte(b, '\n');
}

static const struct {
        const char *name;
        void (*put)(struct buf *b);
} pages[] = {
        {"commands-md", commands_md},
        {"commands-man", commands_man},
        {"openapi", openapi},
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
        fputs("usage: weir docs commands-md | commands-man | openapi\n", stderr);
        return err_exit(ERR_SYNTAX);
}
