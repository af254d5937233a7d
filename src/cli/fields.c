/* See fields.h. */
#include "cli/fields.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/text.h"

int64_t field_int(const struct value *v, const char *key)
{
        return value_int(value_get(v, key), 0);
}

bool field_is_true(const struct value *v, const char *key)
{
        const struct value *found = value_get(v, key);
        return found && found->type == VALUE_BOOL && found->num;
}

struct slice field_text(const struct value *v, const char *key)
{
        return value_text(value_get(v, key));
}

bool field_is(const struct value *v, const char *key, const char *text)
{
        return slice_eq(field_text(v, key), slice_str(text));
}

size_t list_len(const struct value *v)
{
        return v && v->type == VALUE_LIST ? v->n : 0;
}

const struct value *list_find(const struct value *list, struct slice name)
{
        for (size_t i = 0; name.len && i < list_len(list); i++)
                if (slice_eq(field_text(&list->items[i], "name"), name))
                        return &list->items[i];
        return NULL;
}

enum tone level_tone(struct slice level)
{
        if (slice_eq(level, SLICE_LIT("normal")))
                return TONE_GREEN;
        return slice_eq(level, SLICE_LIT("critical")) ? TONE_RED : TONE_YELLOW;
}

bool is_switched_off(const struct value *v)
{
        return value_get(v, "enabled") && !field_is_true(v, "enabled");
}

/* Without making texts safe: table_add() does that, and lines do it for themselves. */
static void put_field(struct buf *b, const struct value *v, const char *key, enum field_as as,
                      int64_t now_ms)
{
        int64_t n = as == AS_TEXT || as == AS_OR_DASH ? 0 : field_int(v, key);
        struct slice text = field_text(v, key);
        switch (as) {
        case AS_TEXT:
                buf_put_slice(b, text);
                break;
        case AS_OR_DASH:
                buf_put_slice(b, text.len ? text : SLICE_LIT("-"));
                break;
        case AS_MOMENT:
                moment_put(b, n);
                break;
        case AS_RELATIVE:
                if (n > 0)
                        moment_put_relative(b, n, now_ms);
                break;
        case AS_INT:
                buf_put_i64(b, n);
                break;
        case AS_DURATION:
                duration_put(b, n);
                break;
        case AS_LEFT:
                duration_put_left(b, n);
                break;
        case AS_WAIT:
                if (n)
                        duration_put_left(b, n);
                else
                        buf_put_str(b, "now");
                break;
        case AS_AGE:
                if (n > 0)
                        duration_put(b, now_ms > n ? now_ms - n : 0);
                break;
        }
}

void table_add_row(struct table *t, const struct value *row, int64_t now_ms)
{
        struct buf text CLEANUP(buf_release) = {0};
        for (size_t i = t->n_cells % t->n_columns; i < t->n_columns; i++) {
                const struct column *c = &t->columns[i];
                ASSERT(c->key || c->put);
                buf_clear(&text);
                if (c->put)
                        c->put(&text, row, now_ms);
                else
                        put_field(&text, row, c->key, c->as, now_ms);
                table_add(t, buf_slice(&text), c->tone_of ? c->tone_of(row) : c->tone);
        }
}

void table_print_rows(const struct screen *s, struct buf *out, const struct column *columns,
                      size_t n_columns, const struct value *rows)
{
        struct table t;
        int64_t now_ms = clock_wall_ms();
        table_init(&t, columns, n_columns);
        for (size_t i = 0; i < list_len(rows); i++)
                table_add_row(&t, &rows->items[i], now_ms);
        if (list_len(rows))
                table_print(&t, s, out);
        table_release(&t);
}

void put_label(const struct screen *s, struct buf *out, int width, const char *label)
{
        char text[32];
        int len = snprintf(text, sizeof(text), "  %-*.*s", width, (int)sizeof(text) - 3, label);
        screen_put_toned(s, out, TONE_DIM, slice_make(text, (size_t)len));
}

void put_moment_line(struct buf *out, int64_t at_ms, int64_t now_ms)
{
        moment_put(out, at_ms);
        buf_put_str(out, " (");
        moment_put_relative(out, at_ms, now_ms);
        buf_put_str(out, ")\n");
}

/* Texts may have lines, which are indented behind their label. */
static void put_line(struct buf *out, int width, const struct field_line *l, const struct value *v,
                     int64_t now_ms)
{
        struct buf text CLEANUP(buf_release) = {0};
        if (l->as == AS_MOMENT && !l->put) {
                put_moment_line(out, field_int(v, l->key), now_ms);
                return;
        }
        if (l->put)
                l->put(&text, v, now_ms);
        else
                put_field(&text, v, l->key, l->as, now_ms);
        text_put_safe_lines(out, buf_slice(&text), (size_t)width + 2);
        buf_put_byte(out, '\n');
}

void put_field_lines(const struct screen *s, struct buf *out, int width,
                     const struct field_line *lines, const struct value *v)
{
        int64_t now_ms = clock_wall_ms();
        for (const struct field_line *l = lines; l->label; l++) {
                bool is_text = l->as == AS_TEXT || l->as == AS_OR_DASH;
                bool is_there = l->put || (is_text ? field_text(v, l->key).len > 0
                                                   : field_int(v, l->key) > 0);
                if (!is_there && !l->none)
                        continue;
                put_label(s, out, width, l->label);
                if (is_there)
                        put_line(out, width, l, v, now_ms);
                else
                        buf_printf(out, "%s\n", l->none);
        }
}
