/* See config_lines.h.
 *
 * libconfuse knows lines only while it parses: values are judged afterwards, when it has forgotten
 * them.  So the text is gone through once more, by a scanner that knows as much of the grammar as
 * is needed to tell names from values:
 *
 *      name = value      name = {value, value}      name "title" { ... }      name { ... }
 *      # comment         // comment                 / * comment * /          "text" 'text'
 *
 * It is only used to say where something is; a file it misreads gets a sentence without a line. */
#include "serve/config_lines.h"

#include <stdio.h>

/* ---- words ---- */

enum word_type { WORD_NAME, WORD_TEXT, WORD_SIGN, WORD_END };

struct word {
        enum word_type type;
        struct slice text; /* of a WORD_TEXT without its quotes, escapes as they are */
        char sign;
        unsigned line;
};

struct scan {
        struct slice rest;
        unsigned line;
        unsigned comment_line; /* of a comment that has no end; 0: none */
};

static void skip(struct scan *s, size_t n)
{
        for (size_t i = 0; i < n; i++)
                s->line += s->rest.ptr[i] == '\n';
        s->rest = slice_make(s->rest.ptr + n, s->rest.len - n);
}

static bool starts(const struct scan *s, const char *with)
{
        size_t n = strlen(with);
        return s->rest.len >= n && memcmp(s->rest.ptr, with, n) == 0;
}

static void skip_comment(struct scan *s)
{
        unsigned line = s->line;
        skip(s, 2);
        while (s->rest.len && !starts(s, "*/"))
                skip(s, 1);
        if (!s->rest.len)
                s->comment_line = line;
        skip(s, s->rest.len ? 2 : 0);
}

static void skip_blanks(struct scan *s)
{
        for (;;) {
                if (starts(s, "#") || starts(s, "//"))
                        while (s->rest.len && *s->rest.ptr != '\n')
                                skip(s, 1);
                else if (starts(s, "/*"))
                        skip_comment(s);
                else if (s->rest.len && strchr(" \t\r\n", *s->rest.ptr) && *s->rest.ptr)
                        skip(s, 1);
                else
                        return;
        }
}

static bool is_name(char c)
{
        return c && !strchr(" \t\r\n{}=,+\"'#()", c);
}

static struct word next_text(struct scan *s, unsigned line)
{
        char quote = *s->rest.ptr;
        skip(s, 1);
        struct slice from = s->rest;
        while (s->rest.len && *s->rest.ptr != quote)
                skip(s, *s->rest.ptr == '\\' && s->rest.len > 1 ? 2 : 1);
        struct slice text = slice_make(from.ptr, from.len - s->rest.len);
        skip(s, s->rest.len ? 1 : 0);
        return (struct word){.type = WORD_TEXT, .text = text, .line = line};
}

static struct word next_word(struct scan *s)
{
        skip_blanks(s);
        unsigned line = s->line;
        if (!s->rest.len)
                return (struct word){.type = WORD_END, .line = line};
        if (*s->rest.ptr == '"' || *s->rest.ptr == '\'')
                return next_text(s, line);
        struct slice from = s->rest;
        while (s->rest.len && is_name(*s->rest.ptr))
                skip(s, 1);
        size_t n = from.len - s->rest.len;
        if (n)
                return (struct word){
                        .type = WORD_NAME, .text = slice_make(from.ptr, n), .line = line};
        skip(s, 1);
        return (struct word){.type = WORD_SIGN, .sign = *from.ptr, .line = line};
}

/* ---- the way through it ---- */

/* After "=": one value, or a list of them. */
static void skip_value(struct scan *s)
{
        struct word w = next_word(s);
        if (w.type != WORD_SIGN || w.sign != '{')
                return;
        while (w.type != WORD_END && !(w.type == WORD_SIGN && w.sign == '}'))
                w = next_word(s);
}

/* Sections of the way that are open: as many as lead to where the scan is.  `depth` counts all. */
struct place {
        size_t depth, matched;
        unsigned line; /* of the deepest section of the way so far, or the option */
        size_t rank;   /* how much of the way that is */
};

static void found(struct place *p, size_t rank, unsigned line)
{
        if (rank < p->rank)
                return;
        p->rank = rank;
        p->line = line;
}

static void enter(struct place *p, const struct config_way *way, const struct word *name,
                  struct slice title)
{
        bool is_next = p->depth == p->matched && p->matched < way->n &&
                       slice_eq(name->text, way->section[p->matched]) &&
                       slice_eq(title, way->title[p->matched]);
        p->depth++;
        if (!is_next)
                return;
        p->matched++;
        found(p, p->matched, name->line);
}

static void leave(struct place *p)
{
        if (p->depth == 0)
                return; /* the parser has said so already */
        if (p->matched == p->depth)
                p->matched--;
        p->depth--;
}

unsigned config_lines_find(struct slice text, const struct config_way *way)
{
        struct scan s = {.rest = text, .line = 1};
        struct place p = {0};
        struct word name = {.type = WORD_END};
        struct slice title = SLICE_NONE;
        for (struct word w = next_word(&s); w.type != WORD_END; w = next_word(&s)) {
                if (w.type == WORD_NAME && name.type != WORD_NAME) {
                        name = w;
                        title = SLICE_NONE;
                } else if (w.type == WORD_TEXT || w.type == WORD_NAME) {
                        title = w.text;
                } else if (w.sign == '=') {
                        if (p.depth == p.matched && p.matched == way->n && way->option.len &&
                            slice_eq(name.text, way->option))
                                found(&p, way->n + 1, name.line);
                        skip_value(&s);
                        name.type = WORD_END;
                } else if (w.sign == '{') {
                        enter(&p, way, &name, title);
                        name.type = WORD_END;
                } else if (w.sign == '}') {
                        leave(&p);
                        name.type = WORD_END;
                }
        }
        return p.line;
}

/* ---- a file that ends too early ---- */

#define OPEN_MAX 16

/* What is open at the end of the text and where it began; NULL: nothing is. */
static const char *what_is_open(struct slice text, unsigned *ret_line)
{
        struct scan s = {.rest = text, .line = 1};
        unsigned lines[OPEN_MAX] = {0};
        size_t depth = 0;
        for (struct word w = next_word(&s); w.type != WORD_END; w = next_word(&s)) {
                if (w.type != WORD_SIGN)
                        continue;
                if (w.sign == '{' && depth < OPEN_MAX)
                        lines[depth++] = w.line;
                else if (w.sign == '}' && depth)
                        depth--;
        }
        *ret_line = depth ? lines[depth - 1] : s.comment_line;
        return depth ? "{" : s.comment_line ? "/*" : NULL;
}

int config_lines_check(struct slice text, const char *path, struct problem *problem)
{
        unsigned line = 0;
        const char *open = what_is_open(text, &line);
        return open ? problem_set(problem, ERR_BADARG, "%s:%u: this %s is never closed", path, line,
                                  open)
                    : OK;
}

/* ---- from a sentence to its line ---- */

static bool take_prefix(struct slice *s, const char *prefix)
{
        size_t n = strlen(prefix);
        if (s->len < n || memcmp(s->ptr, prefix, n) != 0)
                return false;
        *s = slice_make(s->ptr + n, s->len - n);
        return true;
}

static struct slice take_until(struct slice *s, char end)
{
        const char *at = s->len ? memchr(s->ptr, end, s->len) : NULL;
        size_t n = at ? (size_t)(at - s->ptr) : s->len;
        struct slice taken = slice_make(s->ptr, n);
        *s = slice_make(s->ptr + n, s->len - n);
        return taken;
}

static void add_section(struct config_way *way, const char *section, struct slice title)
{
        way->section[way->n] = slice_str(section);
        way->title[way->n++] = title;
}

/* Sections of the top that hold no others. */
static bool take_titled(struct slice *sentence, struct config_way *way)
{
        static const struct {
                const char *name, *begins;
        } sections[] = {
                {"wordpress", "wordpress \""}, {"mysql", "mysql \""}, {"class", "class \""}};
        for (size_t i = 0; i < ARRAY_LEN(sections); i++)
                if (take_prefix(sentence, sections[i].begins)) {
                        add_section(way, sections[i].name, take_until(sentence, '"'));
                        return true;
                }
        return false;
}

/* target "shop", metric "x": elevated must ...    throttle level "critical": delays takes ...
 * throttle: mode must ...                         log_level must ...
 * wordpress "shop": prefix must ...               class "etl": tier must ... */
static struct config_way way_of(struct slice sentence)
{
        struct config_way way = {.n = 0};
        if (take_prefix(&sentence, "target \"")) {
                add_section(&way, "target", take_until(&sentence, '"'));
                if (take_prefix(&sentence, "\", metric \""))
                        add_section(&way, "metric", take_until(&sentence, '"'));
                (void)take_prefix(&sentence, "\": "); /* it follows in every such sentence */
        } else if (take_titled(&sentence, &way)) {
                (void)take_prefix(&sentence, "\": ");
        } else if (take_prefix(&sentence, "throttle level \"")) {
                add_section(&way, "throttle", SLICE_NONE);
                add_section(&way, "level", take_until(&sentence, '"'));
                (void)take_prefix(&sentence, "\": ");
        } else if (take_prefix(&sentence, "throttle: ")) {
                add_section(&way, "throttle", SLICE_NONE);
        }
        way.option = take_until(&sentence, ' ');
        if (way.option.len && way.option.ptr[way.option.len - 1] == ':')
                way.option.len--;
        return way;
}

void config_lines_name(struct slice text, const char *path, struct problem *problem)
{
        char sentence[PROBLEM_DETAIL_MAX];
        (void)snprintf(sentence, sizeof(sentence), "%s", problem->detail);
        struct config_way way = way_of(slice_str(sentence));
        unsigned line = config_lines_find(text, &way);
        if (line)
                (void)problem_set(problem, problem->err, "%s:%u: %s", path, line, sentence);
        else
                (void)problem_set(problem, problem->err, "%s: %s", path, sentence);
}
