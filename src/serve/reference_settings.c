/* See reference_settings.h. */
#include "serve/reference_settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/setting_table.h"
#include "base/duration.h"

/* A sentence of a row for scdoc: `words` become bold, and what scdoc would take for markup is
 * escaped. */
static void put_scd(struct buf *b, const char *text)
{
        for (; *text; text++) {
                if (*text == '_' || *text == '*' || *text == '<')
                        buf_put_byte(b, '\\');
                buf_put_byte(b, *text == '`' ? '*' : *text);
        }
}

/* How a value is written: "duration", n, true | false. */
static void put_form(struct buf *b, const struct setting_def *def)
{
        static const char *const forms[] = {
                [SETTING_BOOL] = "true | false", [SETTING_INT] = "n",
                [SETTING_NUMBER] = "number",     [SETTING_SHARE] = "number",
                [SETTING_SIZE] = "\"size\"",     [SETTING_DURATION] = "\"duration\"",
                [SETTING_CHOICE] = "\"word\"",   [SETTING_TEXT] = "\"text\"",
                [SETTING_TEXTS] = "{...}",       [SETTING_INTS] = "{...}",
                [SETTING_NUMBERS] = "{...}",     [SETTING_DURATIONS] = "{...}",
                [SETTING_PAIR] = "{...}",
        };
        buf_put_str(b, def->form ? def->form : forms[def->type]);
}

/* What is allowed, as a sentence with a blank before it; nothing when the form says it. */
static void put_range(struct buf *b, const struct setting_def *def)
{
        char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
        bool is_time = def->type == SETTING_DURATION || def->type == SETTING_DURATIONS;
        if (def->type == SETTING_SHARE) {
                buf_put_str(b, " Above 0, at most 1.");
        } else if (def->type == SETTING_CHOICE) {
                buf_put_str(b, " One of ");
                setting_put_choices(def, "`", b);
                buf_put_byte(b, '.');
        } else if (is_time && def->max) {
                buf_printf(b, " From %s to %s.", duration_text(def->min, least),
                           duration_text(def->max, most));
        } else if (def->type == SETTING_INT || (def->type == SETTING_NUMBER && def->max)) {
                buf_printf(b, " From %lld%s%s%s to %lld.", (long long)def->min,
                           def->zero ? " (" : "", def->zero ? def->zero : "", def->zero ? ")" : "",
                           (long long)def->max);
        }
}

static void put_default(struct buf *b, const struct setting_def *def)
{
        char text[DURATION_TEXT_MAX];
        ASSERT(def->otherwise || def->usual_text || def->type < SETTING_TEXT);
        buf_put_str(b, " Default: ");
        if (def->otherwise)
                buf_put_str(b, def->otherwise);
        else if (def->type == SETTING_BOOL)
                buf_put_str(b, def->usual ? "`true`" : "`false`");
        else if (def->type == SETTING_CHOICE)
                buf_printf(b, "`\"%s\"`", def->choices[def->usual]);
        else if (def->type == SETTING_DURATION)
                buf_printf(b, "`\"%s\"`", duration_text(def->usual, text));
        else if (def->type == SETTING_SHARE || def->type == SETTING_NUMBER)
                buf_printf(b, "%g", def->usual_number);
        else if (def->type == SETTING_INT)
                buf_put_i64(b, def->usual);
        else
                buf_printf(b, def->type == SETTING_TEXTS ? "`{\"%s\"}`" : "`\"%s\"`",
                           def->usual_text);
        buf_put_byte(b, '.');
}

/* The sentences of the row, what is allowed, and the default. */
static void put_text(struct buf *b, const struct setting_def *def, bool has_default)
{
        buf_put_byte(b, (char)toupper((unsigned char)def->text[0]));
        buf_printf(b, "%s.%s%s", def->text + 1, def->more ? " " : "", def->more ? def->more : "");
        if (!has_default)
                return;
        put_range(b, def);
        put_default(b, def);
        if (def->flags & SETTING_RESTART)
                buf_put_str(b, " Changes with a restart only.");
        if (def->live)
                buf_printf(b, " While weir runs: `%s`.", def->live);
}

void reference_settings_man(struct buf *b)
{
        enum setting_section section = SECTION_TOP;
        struct buf text;
        buf_init(&text, 0);
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                if (def->section == SECTION_LIVE)
                        continue;
                if (def->section != section) {
                        section = def->section;
                        buf_put_str(b, "## ");
                        put_scd(b, setting_sections[section].form);
                        buf_put_str(b, "\n\n");
                        put_scd(b, setting_sections[section].text);
                        buf_put_str(b, "\n\n");
                }
                buf_clear(&text);
                buf_printf(&text, "`%s` = ", def->name);
                put_form(&text, def);
                buf_put_str(&text, "\n\t");
                if (def->kinds)
                        buf_printf(&text, "(Kind %s.) ", def->kinds);
                put_text(&text, def, true);
                buf_put_str(&text, "\n\n");
                put_scd(b, buf_cstr(&text));
        }
        buf_release(&text);
}

void reference_settings_md(struct buf *b)
{
        char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
        buf_put_str(b, "| name | value | meaning |\n|---|---|---|\n");
        for (enum setting_id id = 0; id < SETTING_IDS; id++) {
                const struct setting_def *def = &setting_table[id];
                if (!def->live)
                        continue;
                buf_printf(b, "| `%s` | ", def->live);
                if (def->type == SETTING_BOOL)
                        buf_put_str(b, "`true` or `false`");
                else if (def->type == SETTING_CHOICE)
                        setting_put_choices(def, "`", b);
                else if (def->type == SETTING_DURATION || def->type == SETTING_DURATIONS)
                        buf_printf(b, "duration, %s to %s", duration_text(def->min, least),
                                   duration_text(def->max, most));
                else if (def->type == SETTING_INT)
                        buf_printf(b, "%lld to %lld", (long long)def->min, (long long)def->max);
                else
                        buf_put_str(b, def->type == SETTING_PAIR ? "`enter,exit` or `auto`"
                                                                 : "number");
                buf_put_str(b, " | ");
                put_text(b, def, false);
                buf_put_str(b, " |\n");
        }
}

void reference_settings_restart(struct buf *b)
{
        const char *comma = "";
        buf_put_str(b, "Needs a restart: ");
        for (enum setting_id id = 0; id < SETTING_IDS; id++)
                if (setting_table[id].flags & SETTING_RESTART) {
                        buf_printf(b, "%s`%s`", comma, setting_table[id].name);
                        comma = ", ";
                }
        buf_put_str(b, ". All other settings change at once.\n");
}
