/* weir completion: what a shell needs to complete the words of weir, made from the same rows as the
 * help, so that it cannot fall behind.
 *
 * Each shell gets one script with everything in it: completing a word runs neither weir nor a
 * request.  The three have the same shape: find the group and the command among the words so far,
 * then offer the values of the option before, or options when the word begins with a dash, or the
 * next word.
 *
 * Choices come from the rows too: an argument written on|off is its own list; the names in
 * `choices` below stand for the same words in every command. */
#include <string.h>

#include "base/shown.h"
#include "cli/params.h"

static const struct {
        const char *arg; /* as the rows have it */
        const char *words;
} choices[] = {
        {"STATUS", "pending in-progress complete failed canceled"},
        {"TIER", "critical high normal deferrable"},
        {"LEVEL", "debug info warn error"},
};

enum value_kind { VALUE_OF_NONE, VALUE_OF_ANY, VALUE_OF_FILE, VALUE_OF_FOLDER, VALUE_OF_CHOICE };

/* "on|off" as "on off"; the dashes and brackets of a usage are left out. */
static void put_alternatives(struct buf *b, struct slice text)
{
        for (size_t i = 0; i < text.len; i++)
                if (!strchr("[]()", text.ptr[i]))
                        buf_put_byte(b, text.ptr[i] == '|' ? ' ' : text.ptr[i]);
}

static bool is_alternatives(struct slice text)
{
        bool has_bar = false;
        for (size_t i = 0; i < text.len; i++) {
                if (text.ptr[i] >= 'A' && text.ptr[i] <= 'Z')
                        return false;
                has_bar |= text.ptr[i] == '|';
        }
        return has_bar;
}

/* What an argument of that name may be; its choices go to `words`. */
static enum value_kind kind_of(const char *arg, struct buf *words)
{
        if (!arg || arg[0] == '[')
                return VALUE_OF_NONE;
        if (strcmp(arg, "FILE") == 0)
                return VALUE_OF_FILE;
        if (strcmp(arg, "DIR") == 0)
                return VALUE_OF_FOLDER;
        for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
                if (strcmp(arg, choices[i].arg) == 0) {
                        buf_put_str(words, choices[i].words);
                        return VALUE_OF_CHOICE;
                }
        }
        if (!is_alternatives(slice_str(arg)))
                return VALUE_OF_ANY;
        put_alternatives(words, slice_str(arg));
        return VALUE_OF_CHOICE;
}

/* The words that may stand behind a command: alternatives and known names of its usage. */
static void put_usage_words(struct buf *b, const char *usage)
{
        for (const char *at = usage; *at;) {
                size_t len = strcspn(at, " ");
                struct slice word = slice_make(at, len);
                char name[64] = {0};
                if (len < sizeof(name) && len && at[0] != '-') {
                        struct buf words CLEANUP(buf_release) = {0};
                        memcpy(name, at, len);
                        if (is_alternatives(word))
                                put_alternatives(&words, word);
                        else
                                (void)kind_of(name, &words);
                        buf_put_str(b, b->len && words.len ? " " : "");
                        buf_put_slice(b, buf_slice(&words));
                }
                at += len + (at[len] ? 1 : 0);
        }
}

/* ---- walking the rows ---- */

/* How bash and zsh complete the value of an option; fish has flags for that. */
struct shell {
        const char *file, *folder;
        const char *choice[2]; /* before and after the words to choose from */
        const char *any[2];    /* before and after the name of the value; "": no message */
};

struct place {
        struct buf *out;
        const struct shell *shell;
        const struct cli_group *group;
        const struct cli_command *command;
};

static void each_command(struct buf *out, const struct shell *shell,
                         void (*fn)(const struct place *at))
{
        size_t n;
        const struct cli_group *const *groups = cli_groups(&n);
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < groups[i]->n_commands; k++)
                        fn(&(struct place){out, shell, groups[i], &groups[i]->commands[k]});
}

static void each_option(const struct place *at,
                        void (*fn)(const struct place *at, const struct option_def *o))
{
        const struct cli_command *c = at->command;
        struct param_options from_row;
        for (const struct option_def *o = cli_command_options(c, &from_row); o && o->name; o++)
                fn(at, o);
        for (const struct option_def *o = cli_more_options(c); o && o->name; o++)
                fn(at, o);
        for (const struct option_def *o = options_common; !cli_command_is_main(c) && o->name; o++)
                fn(at, o);
}

static const char *command_name(const struct place *at)
{
        return at->command->name ? at->command->name : "";
}

/* The names of the groups that are one command; the word after such a name is no command. */
static void put_whole_groups(struct buf *b, const char *separator)
{
        size_t n, n_put = 0;
        const struct cli_group *const *groups = cli_groups(&n);
        for (size_t i = 0; i < n; i++)
                if (cli_group_is_command(groups[i]))
                        buf_printf(b, "%s%s", n_put++ ? separator : "", groups[i]->name);
}

/* In single quotes, for all three shells.  Texts are only shown, so quotes within are left out. */
static void put_quoted(struct buf *b, const char *text)
{
        buf_put_byte(b, '\'');
        for (; *text; text++)
                if (*text != '\'' && *text != '\\')
                        buf_put_byte(b, *text);
        buf_put_byte(b, '\'');
}

/* The end of the loop over the words, for bash and zsh: the first word that is no option is the
 * group, the second one the command. */
static void put_word_taken(struct buf *b, const char *array)
{
        buf_printf(b,
                   "                *)\n"
                   "                        if [[ -z $group ]]; then\n"
                   "                                group=${%s[i]}\n"
                   "                        elif [[ -z $command ]]; then\n"
                   "                                command=${%s[i]}\n"
                   "                        fi ;;\n"
                   "                esac\n"
                   "        done\n",
                   array, array);
}

static void put_value(const struct place *at, const struct option_def *o)
{
        struct buf *b = at->out;
        const struct shell *s = at->shell;
        struct buf words CLEANUP(buf_release) = {0};
        enum value_kind kind = kind_of(o->arg, &words);
        if (kind == VALUE_OF_NONE)
                return;
        buf_printf(b, "        '%s/%s/--%s') ", at->group->name, command_name(at), o->name);
        if (kind == VALUE_OF_FILE)
                buf_put_str(b, s->file);
        else if (kind == VALUE_OF_FOLDER)
                buf_put_str(b, s->folder);
        else if (kind == VALUE_OF_CHOICE)
                buf_printf(b, "%s%s%s", s->choice[0], buf_cstr(&words), s->choice[1]);
        else if (s->any[0][0])
                buf_printf(b, "%s%s%s", s->any[0], o->arg, s->any[1]);
        buf_put_str(b, " return ;;\n");
}

static void put_values(const struct place *at)
{
        each_option(at, put_value);
}

/* The part of a bash or zsh script that completes the values of options, and the start of the part
 * that completes words. */
static void put_value_cases(struct buf *b, const struct shell *shell)
{
        buf_put_str(b, "        case $group in\n        ");
        put_whole_groups(b, " | ");
        buf_put_str(b, ") command= ;;\n        esac\n        case $group/$command/$prev in\n");
        each_command(b, shell, put_values);
        buf_put_str(b, "        esac\n        case $group/$command in\n        '/')");
}

/* ---- bash ---- */

static const char bash_head[] =
        "# bash completion for weir; made by 'weir completion bash'.\n"
        "_weir()\n"
        "{\n"
        "        local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
        "        local group= command= words= i\n"
        "        COMPREPLY=()\n"
        "        if [[ $cur == '=' ]]; then\n"
        "                cur=\n"
        "        elif [[ $prev == '=' ]]; then\n"
        "                prev=${COMP_WORDS[COMP_CWORD-2]}\n"
        "        fi\n"
        "        for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "                case ${COMP_WORDS[i]} in\n"
        "                --) return ;;\n"
        "                --url | --token | --wordpress)\n"
        "                        [[ ${COMP_WORDS[i+1]} == '=' ]] && ((i++))\n"
        "                        ((i++)) ;;\n"
        "                -* | '=') ;;\n";

static const struct shell bash = {
        .file = "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"));",
        .folder = "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"));",
        .choice = {"COMPREPLY=($(compgen -W '", "' -- \"$cur\"));"},
        .any = {"", ""},
};

static void put_option_name(const struct place *at, const struct option_def *o)
{
        buf_printf(at->out, " --%s", o->name);
}

static void bash_words(const struct place *at)
{
        struct buf *b = at->out;
        buf_printf(b, "        '%s/%s') [[ $cur == -* ]] && words='", at->group->name,
                   command_name(at));
        each_option(at, put_option_name);
        buf_put_str(b, "' || words='");
        put_usage_words(b, at->command->usage);
        buf_put_str(b, "' ;;\n");
}

static void put_bash(struct buf *b)
{
        size_t n;
        const struct cli_group *const *groups = cli_groups(&n);
        buf_put_str(b, bash_head);
        put_word_taken(b, "COMP_WORDS");
        put_value_cases(b, &bash);
        buf_put_str(b, " words='");
        for (size_t i = 0; i < n; i++)
                buf_printf(b, "%s%s", i ? " " : "", groups[i]->name);
        buf_put_str(b, "'; [[ $cur == -* ]] && words='--url --token --json --help' ;;\n");
        for (size_t i = 0; i < n; i++) {
                if (cli_group_is_command(groups[i]))
                        continue;
                buf_printf(b, "        '%s/') words='", groups[i]->name);
                for (size_t k = 0; k < groups[i]->n_commands; k++)
                        buf_printf(b, "%s%s", k ? " " : "", groups[i]->commands[k].name);
                buf_put_str(b, " --help' ;;\n");
        }
        each_command(b, &bash, bash_words);
        buf_put_str(b, "        esac\n"
                       "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                       "}\n"
                       "complete -F _weir weir\n");
}

/* ---- zsh ---- */

static const char zsh_head[] = "#compdef weir\n"
                               "# zsh completion for weir; made by 'weir completion zsh'.\n"
                               "_weir()\n"
                               "{\n"
                               "        local group= command= prev=${words[CURRENT-1]} i\n"
                               "        local -a list\n"
                               "        for ((i = 2; i < CURRENT; i++)); do\n"
                               "                case ${words[i]} in\n"
                               "                --) _normal; return ;;\n"
                               "                --url | --token | --wordpress) ((i++)) ;;\n"
                               "                -*) ;;\n";

static const char zsh_rest[] = "        if [[ $PREFIX == --*=* ]]; then\n"
                               "                prev=${PREFIX%%=*}\n"
                               "                compset -P '*='\n"
                               "        fi\n";

static const struct shell zsh = {
        .file = "_files;",
        .folder = "_files -/;",
        .choice = {"compadd -- ", ";"},
        .any = {"_message '", "';"},
};

/* 'name:what it is', as _describe wants it. */
static void zsh_item(struct buf *b, const char *dashes, const char *name, const char *text)
{
        struct buf item CLEANUP(buf_release) = {0};
        buf_printf(&item, "%s%s:%s", dashes, name, text);
        buf_put_str(b, "                ");
        put_quoted(b, buf_cstr(&item));
        buf_put_byte(b, '\n');
}

static void zsh_option(const struct place *at, const struct option_def *o)
{
        zsh_item(at->out, "--", o->name, o->text);
}

static void zsh_words(const struct place *at)
{
        struct buf words CLEANUP(buf_release) = {0};
        put_usage_words(&words, at->command->usage);
        buf_printf(at->out, "        '%s/%s')\n", at->group->name, command_name(at));
        if (words.len)
                buf_printf(at->out, "                [[ $PREFIX != -* ]] && compadd -- %s\n",
                           buf_cstr(&words));
        buf_put_str(at->out, "                list=(\n");
        each_option(at, zsh_option);
        buf_put_str(at->out, "                )\n"
                             "                _describe -o option list ;;\n");
}

static void put_zsh(struct buf *b)
{
        size_t n;
        const struct cli_group *const *groups = cli_groups(&n);
        buf_put_str(b, zsh_head);
        put_word_taken(b, "words");
        buf_put_str(b, zsh_rest);
        put_value_cases(b, &zsh);
        buf_put_str(b, "\n                list=(\n");
        for (size_t i = 0; i < n; i++)
                zsh_item(b, "", groups[i]->name, groups[i]->summary);
        buf_put_str(b, "                )\n                _describe command list ;;\n");
        for (size_t i = 0; i < n; i++) {
                if (cli_group_is_command(groups[i]))
                        continue;
                buf_printf(b, "        '%s/')\n                list=(\n", groups[i]->name);
                for (size_t k = 0; k < groups[i]->n_commands; k++)
                        zsh_item(b, "", groups[i]->commands[k].name,
                                 groups[i]->commands[k].summary);
                buf_put_str(b, "                )\n                _describe command list ;;\n");
        }
        each_command(b, &zsh, zsh_words);
        /* Found through fpath it is the function's body; sourced, it has to be made known. */
        buf_put_str(b, "        esac\n"
                       "}\n"
                       "if [[ $funcstack[1] == _weir ]]; then\n"
                       "        _weir \"$@\"\n"
                       "elif (( $+functions[compdef] )); then\n"
                       "        compdef _weir weir\n"
                       "fi\n");
}

/* ---- fish ---- */

static const char fish_head[] =
        "# fish completion for weir; made by 'weir completion fish'.\n"
        "function __weir_at --description 'whether these are the words of weir so far'\n"
        "        set -l words\n"
        "        set -l skip 0\n"
        "        for word in (commandline -opc)[2..-1]\n"
        "                if test $skip -eq 1\n"
        "                        set skip 0\n"
        "                else if contains -- $word --url --token --wordpress\n"
        "                        set skip 1\n"
        "                else if not string match -q -- '-*' $word\n"
        "                        set -a words $word\n"
        "                end\n"
        "        end\n"
        "        if test (count $argv) -eq 0\n"
        "                test (count $words) -eq 0\n"
        "        else if test (count $argv) -eq 1; and not contains -- $argv[1] $__weir_whole\n"
        "                test (count $words) -eq 1; and test \"$words[1]\" = \"$argv[1]\"\n"
        "        else\n"
        "                test (count $words) -ge (count $argv)\n"
        "                and test \"$words[1..\"(count $argv)\"]\" = \"$argv\"\n"
        "        end\n"
        "end\n"
        "complete -c weir -f\n";

static void fish_begin(const struct place *at)
{
        buf_printf(at->out, "complete -c weir -n '__weir_at %s%s%s'", at->group->name,
                   at->command->name ? " " : "", command_name(at));
}

static void fish_option(const struct place *at, const struct option_def *o)
{
        struct buf words CLEANUP(buf_release) = {0};
        enum value_kind kind = kind_of(o->arg, &words);
        fish_begin(at);
        buf_printf(at->out, " -l %s", o->name);
        if (kind == VALUE_OF_FILE || kind == VALUE_OF_FOLDER)
                buf_put_str(at->out, " -r -F");
        else if (kind == VALUE_OF_CHOICE)
                buf_printf(at->out, " -x -a '%s'", buf_cstr(&words));
        else if (kind == VALUE_OF_ANY)
                buf_put_str(at->out, " -x");
        buf_put_str(at->out, " -d ");
        put_quoted(at->out, o->text);
        buf_put_byte(at->out, '\n');
}

static void fish_words(const struct place *at)
{
        struct buf words CLEANUP(buf_release) = {0};
        put_usage_words(&words, at->command->usage);
        if (words.len) {
                fish_begin(at);
                buf_printf(at->out, " -a '%s'\n", buf_cstr(&words));
        }
        each_option(at, fish_option);
}

static void fish_name(struct buf *b, const char *group, const char *name, const char *summary)
{
        buf_printf(b, "complete -c weir -n '__weir_at%s%s' -a %s -d ", *group ? " " : "", group,
                   name);
        put_quoted(b, summary);
        buf_put_byte(b, '\n');
}

static void put_fish(struct buf *b)
{
        size_t n;
        const struct cli_group *const *groups = cli_groups(&n);
        buf_put_str(b, "set -g __weir_whole ");
        put_whole_groups(b, " ");
        buf_put_byte(b, '\n');
        buf_put_str(b, fish_head);
        for (size_t i = 0; i < n; i++) {
                fish_name(b, "", groups[i]->name, groups[i]->summary);
                for (size_t k = 0; k < groups[i]->n_commands && !cli_group_is_command(groups[i]);
                     k++)
                        fish_name(b, groups[i]->name, groups[i]->commands[k].name,
                                  groups[i]->commands[k].summary);
        }
        each_command(b, NULL, fish_words);
}

/* ---- the command ---- */

static const struct {
        const char *name;
        void (*put)(struct buf *b);
} shells[] = {
        {"bash", put_bash},
        {"zsh", put_zsh},
        {"fish", put_fish},
};

static int completion(struct cli *cli, struct problem *p)
{
        const char *shell = cli->args.positional[0];
        for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
                if (strcmp(shells[i].name, shell) == 0) {
                        shells[i].put(&cli->out);
                        return OK;
                }
        }
        return problem_set(p, ERR_BADARG, "there is no script for '%s'; bash, zsh and fish",
                           SHOWN_MAX(slice_str(shell), 32));
}

static const struct cli_command command = {
        .usage = "bash|zsh|fish",
        .summary = "Print a script that lets a shell complete the words of weir.",
        .text = "  weir completion bash > /etc/bash_completion.d/weir\n"
                "  weir completion zsh > /usr/local/share/zsh/site-functions/_weir\n"
                "  weir completion fish > ~/.config/fish/completions/weir.fish\n\n"
                "For this shell alone:\n\n"
                "  source <(weir completion bash)\n",
        .min_words = 1,
        .max_words = 1,
        .is_local = true,
        .run = completion,
};

const struct cli_group cli_group_completion = {
        "completion", "Let a shell complete the words of weir.", &command, 1};
