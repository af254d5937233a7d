/* See config_diff.h.
 *
 * Each text becomes a list of names with values, in order of names; the two lists are merged.  The
 * names of titled sections are entries of their own, so that a whole target that comes or goes is
 * one line and not twenty.
 *
 * Where the order of sections is a setting too, it is an entry: its name is that of the sections
 * with an empty title, its value the list of their titles. */
#include "cli/config_diff.h"

#include <stdlib.h>

#include "api/setting_table.h"
#include "cli/screen.h"

#define DEPTH_MAX 8
#define STEP      '\x1f' /* between the words of a name: a title may have dots of its own */

struct entry {
        struct slice name, value; /* in the list's texts; the value of a line is the caller's */
        size_t at, len, value_at; /* the name and the value in the texts, while these still grow */
        bool is_order;
};

struct entries {
        struct entry *all;
        size_t n, cap;
        struct buf texts;
};

static struct entry *add(struct entries *e, size_t at, struct slice value)
{
        if (e->n == e->cap) {
                e->cap = e->cap ? 2 * e->cap : 64;
                e->all = xrealloc(e->all, e->cap * sizeof(*e->all));
        }
        e->all[e->n] = (struct entry){.value = value, .at = at, .len = e->texts.len - at};
        return &e->all[e->n++];
}

static struct slice next_line(struct slice *rest)
{
        struct slice line = text_take_line(rest);
        while (line.len && *line.ptr == ' ')
                line = slice_make(line.ptr + 1, line.len - 1);
        return line;
}

/* `target "shop" {` is target.shop; `throttle {` is throttle. */
static void put_section(struct buf *b, struct slice line)
{
        for (size_t i = 0; i + 2 < line.len; i++) {
                char c = line.ptr[i];
                if (c == ' ' && i + 1 < line.len && line.ptr[i + 1] == '"') {
                        buf_put_byte(b, STEP);
                        i++;
                } else if (c != '"') {
                        buf_put_byte(b, c);
                }
        }
}

/* A check that names no target uses the first one.  An ask with a threshold uses the first metric
 * of its target.  So the order of these sections is a setting.  One kind per depth at most. */
static const char *ordered_kind(struct slice line)
{
        static const char *const kinds[] = {"target", "metric"};
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                size_t n = strlen(kinds[i]);
                if (line.len > n && memcmp(line.ptr, kinds[i], n) == 0 && line.ptr[n] == ' ')
                        return kinds[i];
        }
        return NULL;
}

/* The way to where the reading is, target, shop, and how long it was at each depth. */
struct way {
        char text[1024];
        size_t len[DEPTH_MAX + 1];
        const char *kind[DEPTH_MAX + 1];  /* of the sections there whose order matters */
        struct buf titles[DEPTH_MAX + 1]; /* theirs so far: "a", "b" */
        size_t depth;
};

static void note_place(struct way *way, struct slice name, const char *kind)
{
        struct buf *titles = &way->titles[way->depth];
        size_t skip = strlen(kind) + 1;
        way->kind[way->depth] = kind;
        buf_put_str(titles, titles->len ? ", \"" : "\"");
        buf_put(titles, name.ptr + skip, name.len - skip);
        buf_put_byte(titles, '"');
}

/* A section, or the whole text, is over: the order within it is known. */
static void end_places(struct entries *e, struct way *way)
{
        struct buf *titles = &way->titles[way->depth];
        if (!titles->len)
                return;
        size_t at = e->texts.len;
        buf_put(&e->texts, way->text, way->len[way->depth]);
        buf_put_str(&e->texts, way->kind[way->depth]);
        buf_put_byte(&e->texts, STEP);
        struct entry *order = add(e, at, SLICE_NONE);
        order->is_order = true;
        order->value_at = e->texts.len;
        buf_put_byte(&e->texts, '{');
        buf_put_slice(&e->texts, buf_slice(titles));
        buf_put_byte(&e->texts, '}');
        order->value.len = e->texts.len - order->value_at;
        buf_clear(titles);
}

static void enter(struct entries *e, struct way *way, struct slice line)
{
        struct buf name;
        bool has_title = memchr(line.ptr, '"', line.len) != NULL;
        buf_init(&name, sizeof(way->text));
        put_section(&name, line);
        const char *kind = has_title ? ordered_kind(line) : NULL;
        if (kind)
                note_place(way, buf_slice(&name), kind);
        size_t have = way->len[way->depth];
        ASSERT(way->depth < DEPTH_MAX);
        if (have + name.len + 1 < sizeof(way->text)) { /* else it is cut: no name is so long */
                memcpy(way->text + have, name.ptr, name.len);
                have += name.len;
        }
        if (has_title) {
                size_t at = e->texts.len;
                buf_put(&e->texts, way->text, have);
                (void)add(e, at, SLICE_LIT("")); /* complete as it is */
        }
        way->text[have++] = STEP;
        way->len[++way->depth] = have;
        buf_release(&name);
}

static int by_name(const void *a, const void *b)
{
        const struct entry *x = a, *y = b;
        return slice_cmp(x->name, y->name);
}

static void entries_init(struct entries *e, struct slice text)
{
        struct way way = {.depth = 0};
        *e = (struct entries){.n = 0};
        while (text.len) {
                struct slice line = next_line(&text);
                if (!line.len || *line.ptr == '#')
                        continue;
                if (*line.ptr == '}') {
                        end_places(e, &way);
                        way.depth -= way.depth > 0;
                        continue;
                }
                const char *equals = memmem(line.ptr, line.len, " = ", 3);
                if (!equals) {
                        enter(e, &way, line);
                        continue;
                }
                size_t at = e->texts.len, n = (size_t)(equals - line.ptr);
                buf_put(&e->texts, way.text, way.len[way.depth]);
                buf_put(&e->texts, line.ptr, n);
                (void)add(e, at, slice_make(equals + 3, line.len - n - 3)); /* complete */
        }
        end_places(e, &way);
        for (size_t i = 0; i <= DEPTH_MAX; i++)
                buf_release(&way.titles[i]);
        for (size_t i = 0; i < e->n; i++) {
                struct entry *one = &e->all[i];
                one->name = slice_make(e->texts.ptr + one->at, one->len);
                if (one->is_order)
                        one->value.ptr = e->texts.ptr + one->value_at;
        }
        if (e->n)
                qsort(e->all, e->n, sizeof(*e->all), by_name);
}

static void entries_release(struct entries *e)
{
        buf_release(&e->texts);
        free(e->all);
}

/* Is it within the section `of`, which was told as a whole? */
static bool is_within(struct slice name, struct slice of)
{
        return of.len && name.len > of.len && name.ptr[of.len] == STEP &&
               memcmp(name.ptr, of.ptr, of.len) == 0;
}

/* With its quotes, from a list of them; empty at the end. */
static struct slice next_title(struct slice *rest)
{
        const char *from = memchr(rest->ptr, '"', rest->len);
        const char *end = rest->ptr + rest->len;
        const char *to = from ? memchr(from + 1, '"', (size_t)(end - from - 1)) : NULL;
        if (!to)
                return SLICE_NONE;
        *rest = slice_make(to + 1, (size_t)(end - to - 1));
        return slice_make(from, (size_t)(to + 1 - from));
}

static struct slice next_common(struct slice *rest, struct slice other)
{
        struct slice title;
        do
                title = next_title(rest);
        while (title.len && !slice_contains(other, title));
        return title;
}

/* The same one is first, and those that are in both come one after the other as before. */
static bool is_same_order(struct slice was, struct slice now)
{
        struct slice a = was, b = now, x = next_title(&a), y = next_title(&b);
        if (!slice_eq(x, y))
                return false;
        while (x.len && slice_eq(x, y)) {
                x = next_common(&a, now);
                y = next_common(&b, was);
        }
        return slice_eq(x, y);
}

static bool is_same(const struct entry *was, const struct entry *now)
{
        return was->is_order ? is_same_order(was->value, now->value)
                             : slice_eq(was->value, now->value);
}

/* The words of a name with dots between them. */
static struct slice dotted(const struct entry *e, struct buf *room)
{
        buf_clear(room);
        for (size_t i = 0; i < e->name.len - e->is_order; i++)
                buf_put_byte(room, e->name.ptr[i] == STEP ? '.' : e->name.ptr[i]);
        buf_put_str(room, e->is_order ? " order" : "");
        return buf_slice(room);
}

void config_diff(struct slice was, struct slice now,
                 void (*fn)(void *ctx, struct slice name, struct slice was, struct slice now),
                 void *ctx)
{
        struct entries a, b;
        struct slice told = SLICE_NONE; /* the section that was told last */
        struct buf room CLEANUP(buf_release) = {0};
        entries_init(&a, was);
        entries_init(&b, now);
        for (size_t i = 0, k = 0; i < a.n || k < b.n;) {
                const struct entry *x = i < a.n ? &a.all[i] : NULL;
                const struct entry *y = k < b.n ? &b.all[k] : NULL;
                int order = !x ? 1 : !y ? -1 : slice_cmp(x->name, y->name);
                const struct entry *first = order <= 0 ? x : y;
                ASSERT(first); /* one of them is there */
                i += order <= 0;
                k += order >= 0;
                /* A list of titles that only one text has tells nothing: each title is told. */
                bool is_silent = order == 0 ? is_same(x, y) : first->is_order;
                if (is_silent || is_within(first->name, told))
                        continue;
                if (order != 0 && !first->value.len)
                        told = first->name;
                fn(ctx, dotted(first, &room), order <= 0 ? x->value : SLICE_NONE,
                   order >= 0 ? y->value : SLICE_NONE);
        }
        entries_release(&a);
        entries_release(&b);
}

void config_diff_put(struct buf *ret, struct slice name, struct slice was, struct slice now)
{
        buf_put_slice(ret, name);
        buf_put_str(ret, ": ");
        if (was.ptr && now.ptr) {
                buf_put_slice(ret, was);
                buf_put_str(ret, " -> ");
                buf_put_slice(ret, now);
                return;
        }
        struct slice value = was.ptr ? was : now;
        buf_put_slice(ret, value);
        buf_put_str(ret, value.len ? " " : "");
        buf_put_str(ret, was.ptr ? "removed" : "added");
}

bool config_needs_restart(struct slice name)
{
        const struct setting_def *def = setting_find(name);
        return def && def->flags & SETTING_RESTART;
}
