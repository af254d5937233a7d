/* Tables and tones.
 *
 * Cells are collected first, because a column is as wide as its widest cell; a listing is at most
 * a few thousand rows, so memory is no question.  Width is counted in terminal columns: UTF-8 is
 * decoded here (strictly) and wcwidth() knows the wide and the combining characters, for which
 * the character type of the locale must be a UTF-8 one: screen_init() sees to that.
 *
 * Payloads, errors and names come from the client that enqueued the job.  A terminal obeys escape
 * sequences, so every control character is shown instead of sent. */
#include "cli/screen.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define SHRUNK_MIN 8   /* columns a cut cell keeps */
#define ALIGN_MAX  200 /* columns: where nothing is cut, a wider cell does not make others wider */

struct cell {
        size_t at, len; /* in table.text */
        size_t width;   /* terminal columns */
        enum tone tone;
};

static const char *const tone_codes[] = {
        [TONE_PLAIN] = "",        [TONE_BOLD] = "\033[1m",   [TONE_DIM] = "\033[2m",
        [TONE_RED] = "\033[31m",  [TONE_GREEN] = "\033[32m", [TONE_YELLOW] = "\033[33m",
        [TONE_BLUE] = "\033[34m",
};

void screen_init(struct screen *s)
{
        const char *no_color = getenv("NO_COLOR");
        const char *term = getenv("TERM");
        struct winsize size = {0};
        *s = (struct screen){0};
        /* Only the width of characters depends on this; where it fails all count as one. */
        (void)setlocale(LC_CTYPE, "C.UTF-8");
        if (!isatty(STDOUT_FILENO))
                return;
        s->has_tones = !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
                s->width = size.ws_col;
}

void screen_put_toned(const struct screen *s, struct buf *b, enum tone tone, struct slice text)
{
        bool is_toned = s->has_tones && tone != TONE_PLAIN && text.len > 0;
        if (is_toned)
                buf_put_str(b, tone_codes[tone]);
        buf_put_slice(b, text);
        if (is_toned)
                buf_put_str(b, "\033[0m");
}

/* Length of the UTF-8 character at s, 0 when there is none (RFC 3629: no overlong forms, no
 * surrogates, nothing past U+10FFFF). */
static size_t utf8_decode(struct slice s, uint32_t *ret)
{
        static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
        const unsigned char *p = (const unsigned char *)s.ptr;
        if (s.len == 0)
                return 0;
        if (p[0] < 0x80) {
                *ret = p[0];
                return 1;
        }
        size_t n = 0;
        if (p[0] >= 0xc2 && p[0] <= 0xdf)
                n = 2;
        else if ((p[0] & 0xf0) == 0xe0)
                n = 3;
        else if (p[0] >= 0xf0 && p[0] <= 0xf4)
                n = 4;
        if (n == 0 || s.len < n)
                return 0;
        uint32_t c = p[0] & (0x7fu >> n);
        for (size_t i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (p[i] & 0x3f);
        }
        if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
                return 0;
        *ret = c;
        return n;
}

static bool is_obeyed(uint32_t c)
{
        return c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0x200e && c <= 0x200f) ||
               (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* One character (or bad byte) off the front of *rest, made visible. */
static void put_safe_char(struct buf *b, struct slice *rest)
{
        uint32_t c = 0;
        size_t n = utf8_decode(*rest, &c);
        if (n == 0) {
                buf_printf(b, "\\x%02x", (unsigned char)rest->ptr[0]);
                n = 1;
        } else if (!is_obeyed(c)) {
                buf_put(b, rest->ptr, n);
        } else if (c == '\n' || c == '\r' || c == '\t') {
                buf_put_byte(b, '\\');
                buf_put_byte(b, c == '\n' ? 'n' : (c == '\r' ? 'r' : 't'));
        } else {
                buf_printf(b, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
        }
        *rest = slice_make(rest->ptr + n, rest->len - n);
}

void text_put_safe(struct buf *b, struct slice text)
{
        while (text.len)
                put_safe_char(b, &text);
}

void text_put_safe_lines(struct buf *b, struct slice text, size_t indent)
{
        while (text.len && text.ptr[text.len - 1] == '\n')
                text.len--;
        while (text.len) {
                if (text.ptr[0] != '\n') {
                        put_safe_char(b, &text);
                        continue;
                }
                buf_put_byte(b, '\n');
                for (size_t i = 0; i < indent; i++)
                        buf_put_byte(b, ' ');
                text = slice_make(text.ptr + 1, text.len - 1);
        }
}

static size_t char_width(uint32_t c)
{
        int w = c < 0x80 ? 1 : wcwidth((wchar_t)c);
        return w < 0 ? 1 : (size_t)w;
}

size_t text_width(struct slice text)
{
        size_t width = 0;
        while (text.len) {
                uint32_t c = '?';
                size_t n = utf8_decode(text, &c);
                n = n ? n : 1;
                width += char_width(c);
                text = slice_make(text.ptr + n, text.len - n);
        }
        return width;
}

struct slice text_take_line(struct slice *rest)
{
        const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
        size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
        struct slice line = slice_make(rest->ptr, len);
        size_t used = end ? len + 1 : len;
        *rest = slice_make(rest->ptr + used, rest->len - used);
        return line;
}

/* The longest front of text that is at most `width` columns wide. */
static struct slice text_front(struct slice text, size_t width)
{
        size_t at = 0;
        while (at < text.len) {
                uint32_t c = '?';
                size_t n = utf8_decode(slice_make(text.ptr + at, text.len - at), &c);
                size_t w = char_width(c);
                if (w > width)
                        break;
                width -= w;
                at += n ? n : 1;
        }
        return slice_make(text.ptr, at);
}

void table_init(struct table *t, const struct column *columns, size_t n_columns)
{
        *t = (struct table){.columns = columns, .n_columns = n_columns};
        buf_init(&t->text, 0);
}

void table_release(struct table *t)
{
        free(t->cells);
        free(t->widths);
        buf_release(&t->text);
        *t = (struct table){0};
}

void table_add(struct table *t, struct slice text, enum tone tone)
{
        if (t->n_cells == t->cap) {
                t->cap = t->cap ? t->cap * 2 : 256;
                t->cells = xrealloc(t->cells, t->cap * sizeof(*t->cells));
        }
        size_t at = t->text.len;
        text_put_safe(&t->text, text);
        struct slice safe = slice_make(t->text.ptr + at, t->text.len - at);
        t->cells[t->n_cells++] = (struct cell){at, safe.len, text_width(safe), tone};
}

void table_add_int(struct table *t, int64_t v)
{
        char text[24];
        int len = snprintf(text, sizeof(text), "%lld", (long long)v);
        table_add(t, slice_make(text, (size_t)len), TONE_PLAIN);
}

/* Fills widths[]; shrinks the columns that may until the row fits the screen. */
static void table_measure(const struct table *t, const struct screen *s, size_t *widths)
{
        size_t total = 2 * (t->n_columns - 1);
        for (size_t c = 0; c < t->n_columns; c++) {
                widths[c] = strlen(t->columns[c].title);
                for (size_t i = c; i < t->n_cells; i += t->n_columns)
                        if (t->cells[i].width > widths[c])
                                widths[c] = t->cells[i].width;
                if (t->widths && t->widths[c] > widths[c])
                        widths[c] = t->widths[c];
                if (!s->width && widths[c] > ALIGN_MAX)
                        widths[c] = ALIGN_MAX;
                total += widths[c];
        }
        while (s->width && total > s->width) {
                size_t widest = t->n_columns;
                for (size_t c = 0; c < t->n_columns; c++)
                        if (t->columns[c].may_shrink && widths[c] > SHRUNK_MIN &&
                            (widest == t->n_columns || widths[c] > widths[widest]))
                                widest = c;
                if (widest == t->n_columns)
                        return;
                size_t over = total - s->width, room = widths[widest] - SHRUNK_MIN;
                size_t cut = over < room ? over : room;
                /* Evenly: the widest gives way only down to its middle before the next. */
                cut = cut > 4 ? 4 : cut;
                widths[widest] -= cut;
                total -= cut;
        }
}

struct place {
        size_t width;
        bool is_right, is_last;
};

static void put_cell(const struct screen *s, struct buf *b, struct slice text, enum tone tone,
                     struct place place)
{
        size_t width = text_width(text);
        bool is_cut = s->width && width > place.width;
        if (is_cut) {
                text = text_front(text, place.width - 1);
                width = text_width(text) + 1;
        }
        size_t pad = width < place.width ? place.width - width : 0;
        for (size_t i = 0; place.is_right && i < pad; i++)
                buf_put_byte(b, ' ');
        screen_put_toned(s, b, tone, text);
        if (is_cut)
                buf_put_str(b, "\u2026");
        for (size_t i = 0; !place.is_right && !place.is_last && i < pad; i++)
                buf_put_byte(b, ' ');
        buf_put_str(b, place.is_last ? "\n" : "  ");
}

static struct slice cell_text(const struct table *t, size_t i)
{
        return slice_make(t->text.ptr + t->cells[i].at, t->cells[i].len);
}

/* Whether the row that begins with cell `first` is to be shown.  A key that is no column here is
 * part of the text: "to=mail" may stand in the args. */
static bool row_fits(const struct table *t, const struct filter *f, size_t first)
{
        bool is_column = false;
        if (!f->text.len)
                return true;
        for (size_t c = 0; c < t->n_columns; c++)
                is_column |= slice_eq_nocase(slice_str(t->columns[c].title), f->key);
        struct slice whole = f->text;
        if (f->key.len && !is_column) /* the two lie in one text, a '=' between them */
                whole = slice_make(f->key.ptr, f->key.len + 1 + f->text.len);
        for (size_t c = 0; c < t->n_columns; c++) {
                if (is_column && !slice_eq_nocase(slice_str(t->columns[c].title), f->key))
                        continue;
                if (filter_finds(cell_text(t, first + c), whole))
                        return true;
        }
        return false;
}

static bool column_is_right(const struct column *c)
{
        return c->is_right || c->as >= AS_INT;
}

static void put_titles(const struct table *t, const struct screen *s, const size_t *widths,
                       struct buf *ret)
{
        for (size_t c = 0; c < t->n_columns; c++) {
                struct place place = {widths[c], column_is_right(&t->columns[c]),
                                      c + 1 == t->n_columns};
                put_cell(s, ret, slice_str(t->columns[c].title), TONE_BOLD, place);
        }
}

static void put_rows(const struct table *t, const struct screen *s, const size_t *widths,
                     struct buf *ret)
{
        bool is_shown = true;
        for (size_t i = 0; i < t->n_cells; i++) {
                size_t c = i % t->n_columns;
                struct place place = {widths[c], column_is_right(&t->columns[c]),
                                      c + 1 == t->n_columns};
                if (c == 0)
                        is_shown = row_fits(t, &s->filter, i);
                if (is_shown)
                        put_cell(s, ret, cell_text(t, i), t->cells[i].tone, place);
        }
}

void table_print(const struct table *t, const struct screen *s, struct buf *ret)
{
        ASSERT(t->n_columns > 0);
        size_t *widths = xcalloc(t->n_columns, sizeof(*widths));
        table_measure(t, s, widths);
        put_titles(t, s, widths, ret);
        put_rows(t, s, widths, ret);
        free(widths);
}

void table_print_part(struct table *t, const struct screen *s, struct buf *ret)
{
        ASSERT(t->n_columns > 0);
        size_t *widths = xcalloc(t->n_columns, sizeof(*widths));
        table_measure(t, s, widths);
        if (!t->widths)
                put_titles(t, s, widths, ret);
        put_rows(t, s, widths, ret);
        free(t->widths);
        t->widths = widths;
        t->n_cells = 0;
        buf_clear(&t->text);
}
