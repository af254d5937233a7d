/* The option parser: long options only, from tables.
 *
 * getopt_long was rejected because its tables cannot carry the help text, it reports errors on
 * its own, and it has global state.  Here an error names the nearest option there is.  A word is
 * "near" when at most a third of its letters (and at least one) differ by insertion, deletion,
 * replacement or swapping of neighbours. */
#include "cli/options.h"

#include <string.h>

#include "base/shown.h"
#include "base/slice.h"

const struct option_def options_common[] = {
        {"url", "URL",
         "where weir listens: redis://host:port, rediss://host:port (TLS), unix:/path, host:port"},
        {"token", "TOKEN", "access token, or @FILE to read it from a file"},
        {"json", NULL, "print JSON for programs"},
        {"help", NULL, "print this help"},
        {NULL, NULL, NULL},
};

#define WORD_MAX 32

static size_t min3(size_t a, size_t b, size_t c)
{
        size_t ab = a < b ? a : b;
        return ab < c ? ab : c;
}

/* Damerau-Levenshtein, restricted; words are cut at WORD_MAX, which no name here reaches. */
static size_t distance(const char *a, const char *b)
{
        size_t d[WORD_MAX + 1][WORD_MAX + 1];
        size_t n = strnlen(a, WORD_MAX), m = strnlen(b, WORD_MAX);
        for (size_t i = 0; i <= n; i++) {
                for (size_t j = 0; j <= m; j++) {
                        if (i == 0 || j == 0) {
                                d[i][j] = i + j;
                                continue;
                        }
                        size_t change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                        d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1, change);
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                            d[i - 2][j - 2] + 1 < d[i][j])
                                d[i][j] = d[i - 2][j - 2] + 1;
                }
        }
        return d[n][m];
}

const char *nearest_name(const char *word, const char *const *names)
{
        const char *best = NULL;
        size_t best_distance = SIZE_MAX;
        for (; *names; names++) {
                size_t d = distance(word, *names);
                size_t len = strlen(*names);
                bool is_prefix = strlen(word) >= 2 && strncmp(word, *names, strlen(word)) == 0;
                if (is_prefix)
                        d = 0;
                if (d < best_distance && (d <= 1 || d <= len / 3)) {
                        best = *names;
                        best_distance = d;
                }
        }
        return best;
}

static const struct option_def *args_find(const struct args *a, struct slice name)
{
        const struct option_def *const tables[] = {a->own, a->more, options_common};
        for (size_t i = 0; i < ARRAY_LEN(tables); i++)
                for (const struct option_def *o = tables[i]; o && o->name; o++)
                        if (slice_eq(slice_str(o->name), name))
                                return o;
        return NULL;
}

static int unknown_option(const struct args *a, struct slice name, struct problem *p)
{
        const struct option_def *const tables[] = {a->own, a->more, options_common};
        const char *names[ARGS_MAX] = {NULL};
        char word[WORD_MAX + 1] = {0};
        size_t n = 0;
        for (size_t i = 0; i < ARRAY_LEN(tables); i++)
                for (const struct option_def *o = tables[i]; o && o->name && n + 1 < ARGS_MAX; o++)
                        names[n++] = o->name;
        memcpy(word, name.ptr, name.len < WORD_MAX ? name.len : WORD_MAX);
        const char *near = nearest_name(word, names);
        if (near)
                return problem_set(p, ERR_SYNTAX, "there is no option --%s; did you mean --%s?",
                                   word, near);
        return problem_set(p, ERR_SYNTAX, "there is no option --%s; --help lists them", word);
}

struct command_line {
        char **argv;
        int argc, at; /* `at` is the next word to read */
};

/* The few options that have a letter too; empty: there is none. */
static struct slice long_name(const struct args *a, const char *given)
{
        static const struct {
                const char *letter, *name;
        } letters[] = {{"-h", "help"}, {"-c", "config"}, {"-t", "check"}};
        for (size_t i = 0; i < ARRAY_LEN(letters); i++)
                if (strcmp(given, letters[i].letter) == 0 &&
                    args_find(a, slice_str(letters[i].name)))
                        return slice_str(letters[i].name);
        return SLICE_NONE;
}

/* The next word is an option, and the word after it may be its value. */
static int parse_option(struct args *a, struct command_line *line, struct problem *p)
{
        const char *given = line->argv[line->at++];
        const char *word = given + 2;
        const char *equals = strchr(word, '=');
        struct slice name = slice_make(word, equals ? (size_t)(equals - word) : strlen(word));
        if (given[1] != '-') {
                name = long_name(a, given);
                if (!name.len)
                        return problem_set(p, ERR_SYNTAX,
                                           "there is no option %s; --help lists them",
                                           SHOWN_MAX(slice_str(given), 32));
        }
        const struct option_def *def = args_find(a, name);
        if (!def)
                return unknown_option(a, name, p);
        const char *value = "";
        if (!def->arg && equals)
                return problem_set(p, ERR_SYNTAX, "--%s takes no value", def->name);
        if (def->arg && equals) {
                value = equals + 1;
        } else if (def->arg && def->arg[0] != '[') {
                if (line->at == line->argc)
                        return problem_set(p, ERR_SYNTAX, "--%s needs a value: --%s %s", def->name,
                                           def->name, def->arg);
                value = line->argv[line->at++];
        }
        if (a->n_given == ARGS_MAX)
                return problem_set(p, ERR_TOOBIG, "more than %d options", ARGS_MAX);
        a->given[a->n_given].def = def;
        a->given[a->n_given++].value = value;
        return OK;
}

static int parse(struct args *a, struct command_line *line, bool stops_at_word, struct problem *p)
{
        bool options_end = false;
        while (line->at < line->argc) {
                const char *word = line->argv[line->at];
                if (!options_end && word[0] == '-' && word[1] != '\0' && strcmp(word, "--") != 0) {
                        int r = parse_option(a, line, p);
                        if (r != OK)
                                return r;
                        continue;
                }
                if (!options_end && word[0] == '-' && word[1] == '-')
                        options_end = true;
                else if (stops_at_word)
                        break;
                else if (a->n_positional == ARGS_MAX)
                        return problem_set(p, ERR_TOOBIG, "more than %d words", ARGS_MAX);
                else
                        a->positional[a->n_positional++] = word;
                line->at++;
        }
        return OK;
}

int args_parse(struct args *a, const struct option_def *own, char **argv, int argc,
               struct problem *p)
{
        struct command_line line = {.argv = argv, .argc = argc};
        a->own = own;
        return parse(a, &line, false, p);
}

int args_parse_leading(struct args *a, char **argv, int argc, int *ret_used, struct problem *p)
{
        struct command_line line = {.argv = argv, .argc = argc};
        int r = parse(a, &line, true, p);
        *ret_used = line.at;
        return r;
}

const char *args_next(const struct args *a, const char *name, size_t *at)
{
        ASSERT(args_find(a, slice_str(name)));
        for (; *at < a->n_given; (*at)++)
                if (strcmp(a->given[*at].def->name, name) == 0)
                        return a->given[(*at)++].value;
        return NULL;
}

const char *args_get(const struct args *a, const char *name)
{
        const char *last = NULL;
        size_t at = 0;
        for (const char *v = args_next(a, name, &at); v; v = args_next(a, name, &at))
                last = v;
        return last;
}

const char *args_find_value(const struct args *a, const char *name)
{
        return args_find(a, slice_str(name)) ? args_get(a, name) : NULL;
}

bool args_has(const struct args *a, const char *name)
{
        return args_get(a, name) != NULL;
}
