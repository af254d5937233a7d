/* See params.h.
 *
 * Sentences of parameters speak to programs: of milliseconds, and of other parameters by their
 * upper-case keyword.  People write 5m and --key-max, so both are translated here. */
#include "cli/params.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/command.h"
#include "base/clock.h"
#include "base/shown.h"
#include "cli/text.h"

#define RANGE_SHOWN_MAX 10000 /* larger ranges tell nothing */

/* Names of more than one word, which are written without dashes on the wire. */
static const char *const spellings[] = {
        "claim-size", "cooldown-max",      "done-args",    "done-signature", "key-max",
        "max-run",    "on-done",           "on-success",   "result-for",     "self-ending",
        "stop-after", "success-signature", "success-args", "unique-for",     "until-resumed",
};

static bool is_same_name(const char *option, const char *param)
{
        for (; *option; option++) {
                if (*option == '-')
                        continue;
                if (*option != *param++)
                        return false;
        }
        return !*param;
}

static const struct option_def *find_own(const struct cli_command *c, const char *param)
{
        for (const struct option_def *o = c->options; o && o->name; o++)
                if (is_same_name(o->name, param))
                        return o;
        return NULL;
}

static const char *option_name(const struct cli_command *c, const struct param_def *param)
{
        const struct option_def *own = find_own(c, param->name);
        if (own)
                return own->name;
        for (size_t i = 0; i < ARRAY_LEN(spellings); i++)
                if (is_same_name(spellings[i], param->name))
                        return spellings[i];
        return param->name;
}

/* Is the name one of the words of cli_command.apart? */
static bool is_apart(const struct cli_command *c, const char *name)
{
        const char *at = c->apart ? strstr(c->apart, name) : NULL;
        size_t len = strlen(name);
        for (; at; at = strstr(at + 1, name))
                if ((at == c->apart || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
                        return true;
        return false;
}

/* Is the parameter sent from an option, by us? */
static bool is_option(const struct cli_command *c, const struct param_def *param)
{
        bool is_list = param->type == PARAM_NAMES || param->type == PARAM_JOBS ||
                       param->type == PARAM_CLAIM;
        return param->flags & PARAM_KEYWORD && !is_list && !is_apart(c, param->name);
}

static bool is_moment(const struct param_def *param)
{
        return param->type == PARAM_INT && strstr(param->text, "Unix time") != NULL;
}

static bool is_duration(const struct param_def *param)
{
        return param->type == PARAM_INT && param_is_ms(param) && !is_moment(param);
}

/* ---- help ---- */

/* What a value of the parameter is called; NULL: a flag has none. */
static void put_arg(struct buf *b, const struct param_def *param)
{
        static const char *const names[] = {
                [PARAM_NAME] = "NAME", [PARAM_BYTES] = "ARGS",  [PARAM_TEXT] = "TEXT",
                [PARAM_INT] = "N",     [PARAM_ID] = "ID",       [PARAM_STATUS] = "STATUS",
                [PARAM_IDS] = "ID,ID", [PARAM_TOKEN] = "TOKEN",
        };
        if (param->type == PARAM_CHOICE && strcmp(param->name, "tier") == 0)
                buf_put_str(b, "TIER");
        else if (param->type == PARAM_CHOICE)
                buf_put_slice(b, param_choices(param));
        else if (is_moment(param))
                buf_put_str(b, "TIME");
        else
                buf_put_str(b, is_duration(param) ? "DURATION" : names[param->type]);
}

/* The keyword or number at the front of *at, as people write it; false: it is neither. */
static bool put_translated(struct buf *b, const struct cli_command *c,
                           const struct command_def *def, const struct param_def *param,
                           const char **at)
{
        static const char *const times[][2] = {
                {"Unix time in milliseconds", "time"},
                {"many milliseconds", "long"},
                {" in milliseconds", ""},
                {"milliseconds", "time"},
        };
        char text[DURATION_TEXT_MAX];
        size_t digits = strspn(*at, "0123456789");
        size_t capitals = strspn(*at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        int64_t ms;
        if (is_duration(param) && digits >= 3 && slice_to_i64(slice_make(*at, digits), &ms)) {
                buf_put_str(b, duration_text(ms, text));
                *at += digits;
                return true;
        }
        for (size_t i = 0; i < ARRAY_LEN(times); i++) {
                size_t len = strlen(times[i][0]);
                if (strncmp(*at, times[i][0], len) != 0)
                        continue;
                buf_put_str(b, times[i][1]);
                *at += len;
                return true;
        }
        for (size_t i = 0; capitals > 1 && i < def->n_params; i++) {
                const struct param_def *other = &def->params[i];
                if (!is_option(c, other) ||
                    !slice_eq_nocase(slice_str(other->name), slice_make(*at, capitals)))
                        continue;
                buf_printf(b, "--%s", option_name(c, other));
                *at += capitals;
                return true;
        }
        return false;
}

static void put_sentence(struct buf *b, const struct cli_command *c, const struct command_def *def,
                         const struct param_def *param, const char *text)
{
        bool is_word_start = true;
        while (*text) {
                if ((is_word_start || *text == ' ') && put_translated(b, c, def, param, &text)) {
                        is_word_start = false;
                        continue;
                }
                is_word_start = !isalnum((unsigned char)*text);
                buf_put_byte(b, *text++);
        }
}

/* "lower runs first, 0 to 255 (100)" */
static void put_help(struct buf *b, const struct cli_command *c, const struct command_def *def,
                     const struct param_def *param)
{
        static const char *const unsaid[] = {"none", "no", "false", "any", "off", "as it is", "0"};
        const char *text = param->text, *fallback = param->fallback;
        size_t choices = param_choices(param).len;
        if (param->type == PARAM_CHOICE && text[choices] == ':')
                text += choices + 2;
        put_sentence(b, c, def, param, text);
        if (param->type == PARAM_INT && !param_is_ms(param) && param->max <= RANGE_SHOWN_MAX)
                buf_printf(b, "%c %lld to %lld", strchr(text, ';') ? ';' : ',',
                           (long long)param->min, (long long)param->max);
        if (is_moment(param))
                buf_put_str(b, "; as 2026-11-15T10:00[Z|+01:00], 10:00 or @UNIX");
        for (size_t i = 0; fallback && i < ARRAY_LEN(unsaid); i++)
                if (strcmp(fallback, unsaid[i]) == 0)
                        fallback = NULL;
        if (!fallback)
                return;
        buf_put_str(b, " (");
        put_sentence(b, c, def, param, fallback);
        buf_put_byte(b, ')');
}

static const char *keep(struct param_options *o, const char *text)
{
        char *kept = o->text + o->n_text;
        size_t size = strlen(text) + 1;
        ASSERT(o->n_text + size <= sizeof(o->text));
        memcpy(kept, text, size);
        o->n_text += size;
        return kept;
}

static void add_param(struct param_options *o, const struct cli_command *c,
                      const struct command_def *def, const struct param_def *param)
{
        struct buf arg CLEANUP(buf_release) = {0}, help CLEANUP(buf_release) = {0};
        struct option_def row = {option_name(c, param), NULL, NULL};
        ASSERT(o->n < PARAM_OPTIONS_MAX);
        put_help(&help, c, def, param);
        row.text = keep(o, buf_cstr(&help));
        if (param->type != PARAM_FLAG) {
                put_arg(&arg, param);
                row.arg = keep(o, buf_cstr(&arg));
        }
        o->rows[o->n++] = row;
}

static const struct command_def *row_of(const struct cli_command *c)
{
        const struct command_def *def = command_find(slice_str(c->command));
        ASSERT(def);
        return def;
}

const struct option_def *cli_command_options(const struct cli_command *c, struct param_options *ret)
{
        static const struct option_def all = {"all", NULL, "all of them, page after page"};
        ret->n = ret->n_text = 0;
        if (!c->command)
                return c->options;
        const struct command_def *def = row_of(c);
        for (size_t i = 0; i < def->n_params; i++)
                if (is_option(c, &def->params[i]) && !find_own(c, def->params[i].name))
                        add_param(ret, c, def, &def->params[i]);
        for (const struct option_def *own = c->options; own && own->name; own++) {
                ASSERT(ret->n < PARAM_OPTIONS_MAX);
                ret->rows[ret->n++] = *own;
        }
        if (command_param(def, SLICE_LIT("cursor")) >= 0)
                ret->rows[ret->n++] = all;
        ret->rows[ret->n] = (struct option_def){NULL, NULL, NULL};
        return ret->n ? ret->rows : NULL;
}

/* ---- requests ---- */

/* `what` names the word or option in what is said of a bad one. */
static int add_value(struct cli_request *r, const struct param_def *param, const char *what,
                     const char *text, struct problem *p)
{
        int64_t ms;
        if (!is_duration(param) && !is_moment(param)) {
                cli_request_add_str(r, text);
                return OK;
        }
        int e = is_moment(param) ? moment_parse(what, text, clock_wall_ms(), &ms, p)
                                 : duration_parse(what, text, &ms, p);
        if (e == OK)
                cli_request_add_int(r, ms);
        return e;
}

static int add_option(struct cli_request *r, const struct cli *cli, const struct param_def *param,
                      struct problem *p)
{
        const char *name = option_name(cli->command, param);
        const char *text = args_get(&cli->args, name);
        char what[40];
        if (!text)
                return OK;
        (void)snprintf(what, sizeof(what), "--%s", name);
        cli_request_add_keyword(r, param->name);
        return param->type == PARAM_FLAG ? OK : add_value(r, param, what, text, p);
}

int cli_request_add_past(struct cli_request *req, const struct args *args, const char *option,
                         const char *keyword, struct problem *p)
{
        const char *text = args_get(args, option);
        struct problem ignored;
        char what[16];
        int64_t ms, now_ms = clock_wall_ms();
        if (!text)
                return OK;
        (void)snprintf(what, sizeof(what), "--%s", option);
        if (duration_parse(what, text, &ms, &ignored) == OK)
                ms = now_ms - ms;
        else if (moment_parse(what, text, now_ms, &ms, &ignored) != OK)
                return problem_set(p, ERR_BADARG,
                                   "%s: '%s' is no time: 2h (so long ago), 2026-11-15T10:00, "
                                   "2026-11-15T09:00Z, 10:00 or @1731661200",
                                   what, SHOWN_STR(text));
        cli_request_add_str(req, keyword);
        cli_request_add_int(req, ms);
        return OK;
}

int cli_request_add_params(struct cli_request *r, const struct cli *cli, struct problem *p)
{
        const struct cli_command *c = cli->command;
        const struct command_def *def = row_of(c);
        int e = OK;
        for (size_t i = 0; e == OK && i < def->n_params; i++)
                if (is_option(c, &def->params[i]) && strcmp(def->params[i].name, "cursor") != 0)
                        e = add_option(r, cli, &def->params[i], p);
        return e;
}

/* Positional parameters first; a word that is left goes to the keyword cli_command.word. */
static int add_words(struct cli_request *r, const struct cli *cli, struct problem *p)
{
        const struct cli_command *c = cli->command;
        const struct command_def *def = row_of(c);
        size_t at = 0;
        int e = OK;
        for (size_t i = 0; e == OK && i < def->n_params && at < cli->args.n_positional; i++) {
                const struct param_def *param = &def->params[i];
                char what[40];
                if (param->flags & PARAM_KEYWORD)
                        continue;
                size_t len = strlen(param->name);
                for (size_t k = 0; k <= len && k < sizeof(what) - 1; k++)
                        what[k] = (char)toupper((unsigned char)param->name[k]);
                e = add_value(r, param, what, cli->args.positional[at++], p);
        }
        if (e == OK && at < cli->args.n_positional && c->word) {
                cli_request_add_str(r, c->word);
                cli_request_add_str(r, cli->args.positional[at]);
        }
        return e;
}

int cli_request_of_row(struct cli_request *r, const struct cli *cli, struct problem *p)
{
        cli_request_init(r, cli->command->command);
        int e = add_words(r, cli, p);
        return e == OK ? cli_request_add_params(r, cli, p) : e;
}
