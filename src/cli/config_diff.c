/* See config_diff.h.
 *
 * Each text becomes a list of names with values, in order of names; the two lists are merged.  The
 * names of titled sections are entries of their own, so that a whole target that comes or goes is
 * one line and not twenty. */
#include "cli/config_diff.h"

#include <stdlib.h>

#define DEPTH_MAX 8
#define STEP      '\x1f' /* between the words of a name: a title may have dots of its own */

struct entry {
        struct slice name, value; /* the name is in the list's texts; the value is the caller's */
        size_t at, len;           /* the name, while the texts still grow */
};

struct entries {
        struct entry *all;
        size_t n, cap;
        struct buf texts;
};

static void add(struct entries *e, size_t at, struct slice value)
{
        if (e->n == e->cap) {
                e->cap = e->cap ? 2 * e->cap : 64;
                e->all = xrealloc(e->all, e->cap * sizeof(*e->all));
        }
        e->all[e->n++] = (struct entry){.value = value, .at = at, .len = e->texts.len - at};
}

static struct slice next_line(struct slice *rest)
{
        const char *end = memchr(rest->ptr, '\n', rest->len);
        size_t n = end ? (size_t)(end - rest->ptr) : rest->len;
        struct slice line = slice_make(rest->ptr, n);
        *rest = slice_make(rest->ptr + n + (end != NULL), rest->len - n - (end != NULL));
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

/* The way to where the reading is, target, shop, and how long it was at each depth. */
struct way {
        char text[1024];
        size_t len[DEPTH_MAX + 1];
        size_t depth;
};

static void enter(struct entries *e, struct way *way, struct slice line)
{
        struct buf name;
        bool has_title = memchr(line.ptr, '"', line.len) != NULL;
        buf_init(&name, sizeof(way->text));
        put_section(&name, line);
        size_t have = way->len[way->depth];
        ASSERT(way->depth < DEPTH_MAX);
        if (have + name.len + 1 < sizeof(way->text)) { /* else it is cut: no name is so long */
                memcpy(way->text + have, name.ptr, name.len);
                have += name.len;
        }
        if (has_title) {
                size_t at = e->texts.len;
                buf_put(&e->texts, way->text, have);
                add(e, at, SLICE_LIT(""));
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
        buf_init(&e->texts, 0);
        while (text.len) {
                struct slice line = next_line(&text);
                if (!line.len || *line.ptr == '#')
                        continue;
                if (*line.ptr == '}') {
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
                add(e, at, slice_make(equals + 3, line.len - n - 3));
        }
        for (size_t i = 0; i < e->n; i++)
                e->all[i].name = slice_make(e->texts.ptr + e->all[i].at, e->all[i].len);
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

/* The words of a name with dots between them. */
static struct slice dotted(struct slice name, struct buf *room)
{
        buf_clear(room);
        for (size_t i = 0; i < name.len; i++)
                buf_put_byte(room, name.ptr[i] == STEP ? '.' : name.ptr[i]);
        return buf_slice(room);
}

void config_diff(struct slice was, struct slice now,
                 void (*fn)(void *ctx, struct slice name, struct slice was, struct slice now),
                 void *ctx)
{
        struct entries a, b;
        struct slice told = SLICE_NONE; /* the section that was told last */
        struct buf room;
        buf_init(&room, 0);
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
                if (order == 0 && slice_eq(x->value, y->value))
                        continue;
                if (is_within(first->name, told))
                        continue;
                if (order != 0 && !first->value.len)
                        told = first->name;
                fn(ctx, dotted(first->name, &room), order <= 0 ? x->value : SLICE_NONE,
                   order >= 0 ? y->value : SLICE_NONE);
        }
        entries_release(&a);
        entries_release(&b);
        buf_release(&room);
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
        static const char *const names[] = {
                "data",
                "resp",
                "http",
                "token_file",
                "check_without_token",
                "history_keep_done",
                "history_keep_failed",
        };
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (slice_eq(name, slice_str(names[i])))
                        return true;
        return false;
}
