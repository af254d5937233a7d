/* Splitting a command line without a shell.
 *
 * A shell between the worker and the command would read whatever a job's hook or id put into the
 * line.  So there is none: the text is split once, at start, and placeholders are filled in per
 * job, inside their words.  A text that needs a shell is refused at start with a hint, because
 * passing "|" to the program as an argument is never what was meant. */
#include "work/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define WORDS_MAX 1024

void words_release(struct words *w)
{
        for (size_t i = 0; i < w->n; i++)
                free(w->argv[i]);
        free(w->argv);
        *w = (struct words){0};
}

void words_add(struct words *w, const char *word)
{
        if (w->n % 16 == 0)
                w->argv = xrealloc(w->argv, (w->n + 17) * sizeof(*w->argv));
        w->argv[w->n++] = xstrdup(word);
        w->argv[w->n] = NULL;
}

void env_add(struct words *env, const char *name, const char *value)
{
        struct buf entry CLEANUP(buf_release) = {0};
        buf_printf(&entry, "%s=%s", name, value);
        words_add(env, buf_cstr(&entry));
}

void env_make(struct words *ret, const struct words *extra)
{
        static const char *const kept[] = {"PATH", "LANG", "HOME"};
        *ret = (struct words){0};
        for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
                const char *value = getenv(kept[i]);
                if (value && !env_get(extra->argv, kept[i]))
                        env_add(ret, kept[i], value);
        }
        for (size_t i = 0; i < extra->n; i++)
                words_add(ret, extra->argv[i]);
}

const char *env_get(char *const *env, const char *name)
{
        size_t len = strlen(name);
        for (; env && *env; env++)
                if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
                        return *env + len + 1;
        return NULL;
}

static void words_end(struct words *w, struct buf *word)
{
        words_add(w, buf_cstr(word));
        buf_clear(word);
}

struct splitter {
        const char *at;
        struct buf word;
        bool has_word; /* also true for '' */
};

static int shell_needed(char c, struct problem *p)
{
        return problem_set(p, ERR_BADARG,
                           "--exec: '%c' would need a shell, and none is used: quote it with '' if "
                           "it is meant as it is, or run sh -c '...'",
                           c);
}

/* *at is behind the opening quote; afterwards behind the closing one. */
static int take_quoted(struct splitter *s, char quote, struct problem *p)
{
        s->has_word = true;
        for (; *s->at != quote; s->at++) {
                if (*s->at == '\0')
                        return problem_set(p, ERR_BADARG, "--exec: a %c is never closed", quote);
                if (quote == '"' && strchr("$`", *s->at))
                        return shell_needed(*s->at, p);
                if (quote == '"' && *s->at == '\\' && s->at[1] && strchr("\\\"$`", s->at[1]))
                        s->at++;
                buf_put_byte(&s->word, *s->at);
        }
        s->at++;
        return OK;
}

static int take_char(struct splitter *s, struct problem *p)
{
        char c = *s->at++;
        if (c == '\'' || c == '"')
                return take_quoted(s, c, p);
        if (strchr("|&;<>()$`", c))
                return shell_needed(c, p);
        if (c == '\\') {
                if (*s->at == '\0')
                        return problem_set(p, ERR_BADARG, "--exec: nothing follows the last \\");
                c = *s->at++;
        }
        s->has_word = true;
        buf_put_byte(&s->word, c);
        return OK;
}

static int split(struct splitter *s, struct words *ret, struct problem *p)
{
        for (;;) {
                bool is_end = *s->at == '\0';
                if (is_end || strchr(" \t\n", *s->at)) {
                        if (s->has_word)
                                words_end(ret, &s->word);
                        s->has_word = false;
                        if (is_end)
                                break;
                        s->at++;
                        continue;
                }
                int r = take_char(s, p);
                if (r != OK)
                        return r;
                if (ret->n == WORDS_MAX)
                        return problem_set(p, ERR_TOOBIG, "--exec: more than %d words", WORDS_MAX);
        }
        if (ret->n == 0)
                return problem_set(p, ERR_BADARG, "--exec: the command is empty");
        return OK;
}

int words_split(const char *text, struct words *ret, struct problem *p)
{
        struct splitter s = {.at = text};
        struct words words = {0};
        buf_init(&s.word, 0);
        int r = split(&s, &words, p);
        buf_release(&s.word);
        if (r != OK) {
                words_release(&words);
                return r;
        }
        *ret = words;
        return OK;
}

static const struct word_value *value_at(const char *at, const struct word_value *values,
                                         size_t n_values)
{
        for (size_t i = 0; i < n_values; i++) {
                size_t len = strlen(values[i].name);
                if (strncmp(at + 1, values[i].name, len) == 0 && at[1 + len] == '}')
                        return &values[i];
        }
        return NULL;
}

static bool may_name_a_program(struct slice value)
{
        return value.len > 0 && value.ptr[0] != '.' && value.ptr[0] != '-' &&
               !memchr(value.ptr, '/', value.len);
}

int words_fill(const struct words *w, const struct word_value *values, size_t n_values,
               struct words *ret, struct problem *p)
{
        struct words filled = {0};
        struct buf word CLEANUP(buf_release) = {0};
        for (size_t i = 0; i < w->n; i++) {
                for (const char *at = w->argv[i]; *at; at++) {
                        const struct word_value *v = NULL;
                        if (*at == '{' && (at == w->argv[i] || at[-1] != '$'))
                                v = value_at(at, values, n_values);
                        if (!v) {
                                buf_put_byte(&word, *at);
                                continue;
                        }
                        if (i == 0 && !may_name_a_program(v->value)) {
                                words_release(&filled);
                                return problem_set(
                                        p, ERR_BADARG,
                                        "the job's %s cannot be part of a program's name", v->name);
                        }
                        buf_put_slice(&word, v->value);
                        at += strlen(v->name) + 1;
                }
                words_end(&filled, &word);
        }
        *ret = filled;
        return OK;
}
