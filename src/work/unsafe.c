/* Which words of a command are code is known for the programs of one table: shells, languages and
 * clients of databases that take a script as an argument.  It is found behind a wrapper too
 * (`env`, `sudo -u www`, `timeout 5`): every word of the command may be the interpreter's name. */
#include "work/unsafe.h"

#include <string.h>

#include "base/shown.h"

#define NAMES_MAX 16

static const struct interpreter {
        const char *names[NAMES_MAX];
        const char *letters;       /* of the option whose value is code; NULL: every word is */
        const char *long_names[2]; /* the same option in long form */
        bool is_clustered;         /* the letter may stand anywhere among others: sh -lce */
} interpreters[] = {
        {{"sh", "bash", "rbash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh", "su",
          "runuser"},
         "c",
         {"--command"},
         true},
        {{"python", "pypy"}, "c", {NULL}, false},
        {{"perl", "ruby", "lua"}, "eE", {NULL}, false},
        {{"node", "nodejs", "deno", "bun"}, "ep", {"--eval", "--print"}, false},
        {{"php"}, "rBRE", {"--run"}, false},
        {{"mysql", "mariadb"}, "e", {"--execute"}, false},
        {{"psql"}, "c", {"--command"}, false},
        {{"ssh", "sqlite"}, NULL, {NULL}, false},
};

/* The first value of a job's own text in the word; NULL when there is none. */
static const char *find_text(const char *word)
{
        static const char *const names[] = {"{hook}", "{queue}", "{group}"};
        for (const char *at = strchr(word, '{'); at; at = strchr(at + 1, '{'))
                for (size_t i = 0; i < ARRAY_LEN(names); i++)
                        if (strncmp(at, names[i], strlen(names[i])) == 0 &&
                            (at == word || at[-1] != '$')) /* ${hook} is a shell's */
                                return at;
        return NULL;
}

/* "python3.11" is python. */
static const struct interpreter *find_interpreter(const char *word)
{
        const char *slash = strrchr(word, '/');
        const char *base = slash ? slash + 1 : word;
        size_t len = strlen(base);
        while (len > 1 && strchr("0123456789.", base[len - 1]))
                len--;
        for (size_t i = 0; i < ARRAY_LEN(interpreters); i++)
                for (size_t k = 0; k < NAMES_MAX && interpreters[i].names[k]; k++)
                        if (slice_eq(slice_str(interpreters[i].names[k]), slice_make(base, len)))
                                return &interpreters[i];
        return NULL;
}

/* Whether the next word is code: -c, -lc, --eval. */
static bool is_code_option(const struct interpreter *in, const char *word)
{
        size_t len = strlen(word);
        for (size_t i = 0; i < ARRAY_LEN(in->long_names) && in->long_names[i]; i++)
                if (strcmp(word, in->long_names[i]) == 0)
                        return true;
        if (len < 2 || word[0] != '-' || word[1] == '-')
                return false;
        return in->is_clustered ? strpbrk(word, in->letters) != NULL
                                : strchr(in->letters, word[len - 1]) != NULL;
}

/* Whether the word has the code in it: -eprint, --eval=f(). */
static bool has_code_inside(const struct interpreter *in, const char *word)
{
        for (size_t i = 0; i < ARRAY_LEN(in->long_names) && in->long_names[i]; i++) {
                size_t len = strlen(in->long_names[i]);
                if (strncmp(word, in->long_names[i], len) == 0 && word[len] == '=')
                        return true;
        }
        return word[0] == '-' && word[1] && strchr(in->letters, word[1]);
}

/* The word of code with a job's text in it, from the interpreter's name on; NULL for none. */
static const char *find_code(const struct interpreter *in, char *const *words, size_t n)
{
        bool is_code = false;
        for (size_t i = 0; i < n; i++) {
                ASSERT(words[i]);
                bool has_text = find_text(words[i]) != NULL;
                if (!in->letters) {
                        if (has_text)
                                return words[i];
                        continue;
                }
                if (has_text && (is_code || has_code_inside(in, words[i])))
                        return words[i];
                if (is_code && words[i][0] == '-')
                        continue; /* an option between -c and its script */
                is_code = is_code_option(in, words[i]);
        }
        return NULL;
}

static int refuse(const char *name, const char *word, const char *why, const char *permit,
                  struct problem *p)
{
        return problem_set(p, ERR_BADARG,
                           "%s: '%s' %s; use the variables WEIR_HOOK, WEIR_GROUP and WEIR_QUEUE "
                           "instead, or say %s",
                           name, SHOWN_MAX(slice_str(word), 100), why, permit);
}

int unsafe_check(const struct words *command, const char *name, const char *permit,
                 struct problem *p)
{
        for (size_t i = 0; i < command->n; i++) {
                const char *word = command->argv[i];
                ASSERT(word);
                const struct interpreter *in = find_interpreter(word);
                const char *code =
                        in ? find_code(in, command->argv + i + 1, command->n - i - 1) : NULL;
                if (code)
                        return refuse(name, code,
                                      "puts a value that the job's author chooses into code",
                                      permit, p);
                const char *text = find_text(word);
                if (text && text == word + (i ? strspn(word, "-") : 0))
                        return refuse(name, word,
                                      i ? "begins with a value that the job's author chooses and "
                                          "that could be an option"
                                        : "lets a job choose any program of PATH",
                                      permit, p);
        }
        return OK;
}
