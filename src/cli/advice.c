/* See advice.h.
 *
 * A table with the present and the proposed thresholds of each metric comes first, then for each
 * metric its usual values and what to write or type.  The commands are in the order in which the
 * server accepts them: at no time may critical begin below elevated. */
#include "cli/advice.h"

#include <stdlib.h>
#include <string.h>

#include "cli/fields.h"
#include "cli/text.h"

#define HOURS_PER_LINE 12

static const char *const level_keys[] = {"elevated", "critical"};

/* Where a level is entered, of "5,3"; 0 when there is none. */
static double enter_of(const struct value *set, const char *level)
{
        char room[64];
        struct slice text = field_text(set, level);
        size_t len = text.len < sizeof(room) ? text.len : 0;
        memcpy(room, len ? text.ptr : "", len);
        room[len] = '\0';
        return strtod(room, NULL); /* ends at the comma */
}

/* "5,3", with what is to stand for the comma; a dash when there is no such level. */
static void put_pair(struct buf *b, struct slice pair, const char *comma)
{
        const char *at = pair.len ? memchr(pair.ptr, ',', pair.len) : NULL;
        size_t len = at ? (size_t)(at - pair.ptr) : pair.len;
        text_put_safe(b, pair.len ? slice_make(pair.ptr, len) : SLICE_LIT("-"));
        if (!at)
                return;
        buf_put_str(b, comma);
        text_put_safe(b, slice_make(at + 1, pair.len - len - 1));
}

/* ---- the table ---- */

static const struct column columns[] = {
        {"TARGET", .may_shrink = true},
        {"METRIC", .may_shrink = true},
        {.title = "THRESHOLDS"},
        {.title = "ELEVATED", .is_right = true},
        {.title = "CRITICAL", .is_right = true},
        {"TIMES ENTERED", .is_right = true, .key = "entered", .as = AS_INT},
        {"MIN ELEVATED", .is_right = true, .key = "elevated_minutes", .as = AS_INT},
        {"MIN CRITICAL", .is_right = true, .key = "critical_minutes", .as = AS_INT},
};

static void add_thresholds(struct table *t, const struct value *target, const struct value *metric,
                           const char *key)
{
        const struct value *set = value_get(metric, key);
        struct buf text CLEANUP(buf_release) = {0};
        if (!set || set->type != VALUE_MAP)
                return;
        table_add(t, field_text(target, "name"), TONE_PLAIN);
        table_add(t, field_text(metric, "name"), TONE_PLAIN);
        table_add(t, slice_str(key), TONE_DIM);
        for (size_t i = 0; i < ARRAY_LEN(level_keys); i++) {
                buf_clear(&text);
                put_pair(&text, field_text(set, level_keys[i]), "/");
                table_add(t, buf_slice(&text), TONE_PLAIN);
        }
        table_add_row(t, value_get(set, "last_day"), 0);
}

static void put_table(struct cli *cli, const struct value *targets)
{
        struct table t;
        table_init(&t, columns, ARRAY_LEN(columns));
        for (size_t i = 0; i < list_len(targets); i++) {
                const struct value *metrics = value_get(&targets->items[i], "metrics");
                for (size_t k = 0; k < list_len(metrics); k++) {
                        add_thresholds(&t, &targets->items[i], &metrics->items[k], "present");
                        add_thresholds(&t, &targets->items[i], &metrics->items[k], "proposed");
                }
        }
        table_print(&t, &cli->screen, &cli->out);
        table_release(&t);
}

/* ---- each metric ---- */

static void put_usual(struct buf *b, const struct value *usual)
{
        for (size_t i = 0; i < list_len(usual); i++) {
                struct slice value = value_text(&usual->items[i]);
                if (i % HOURS_PER_LINE == 0)
                        buf_printf(b, "%s  %02zu:00 UTC ", i ? "\n" : "", i);
                buf_put_byte(b, ' ');
                text_put_safe(b, value.len ? value : SLICE_LIT("-"));
        }
        buf_put_byte(b, '\n');
}

/* A word as a shell wants it. */
static void put_shell_word(struct buf *b, struct slice word)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789._-:/@%+,";
        bool is_plain = word.len > 0;
        for (size_t i = 0; i < word.len; i++)
                is_plain &= word.ptr[i] && strchr(plain, word.ptr[i]) != NULL;
        if (is_plain) {
                buf_put_slice(b, word);
                return;
        }
        buf_put_byte(b, '\'');
        for (size_t i = 0; i < word.len; i++) {
                if (word.ptr[i] == '\'')
                        buf_put_str(b, "'\\'");
                buf_put_byte(b, word.ptr[i]);
        }
        buf_put_byte(b, '\'');
}

static void put_command(struct buf *b, const struct value *target, const struct value *metric,
                        const char *level)
{
        struct buf name CLEANUP(buf_release) = {0};
        struct slice proposed = field_text(value_get(metric, "proposed"), level);
        if (slice_eq(proposed, field_text(value_get(metric, "present"), level)))
                return;
        buf_put_str(&name, "target.");
        buf_put_slice(&name, field_text(target, "name"));
        buf_put_byte(&name, '.');
        buf_put_slice(&name, field_text(metric, "name"));
        buf_put_byte(&name, '.');
        buf_put_str(&name, level);
        buf_put_str(b, "  weir setting set ");
        put_shell_word(b, buf_slice(&name));
        buf_put_byte(b, ' ');
        text_put_safe(b, proposed);
        buf_put_byte(b, '\n');
}

/* Where it stands in weir.conf, and the line. */
static void put_line(struct buf *b, const struct value *target, const struct value *metric)
{
        const struct value *set = value_get(metric, "proposed");
        if (field_is_true(target, "own")) {
                buf_put_str(b, "  in weir.conf, throttle:  queue_depth = {");
                put_pair(b, field_text(set, "elevated"), ", ");
                buf_put_str(b, ", ");
                put_pair(b, field_text(set, "critical"), ", ");
                buf_put_str(b, "}\n");
                return;
        }
        buf_put_str(b, "  in weir.conf, target \"");
        text_put_safe(b, field_text(target, "name"));
        buf_put_str(b, "\", metric \"");
        text_put_safe(b, field_text(metric, "name"));
        buf_put_str(b, "\":  elevated = {");
        put_pair(b, field_text(set, "elevated"), ", ");
        buf_put_str(b, "} critical = {");
        put_pair(b, field_text(set, "critical"), ", ");
        buf_put_str(b, "}\n");
}

static void put_proposal(struct buf *b, const struct value *target, const struct value *metric)
{
        const struct value *now = value_get(metric, "present"),
                           *set = value_get(metric, "proposed");
        bool is_same = true;
        for (size_t i = 0; i < ARRAY_LEN(level_keys); i++)
                is_same &= slice_eq(field_text(now, level_keys[i]), field_text(set, level_keys[i]));
        if (is_same) {
                buf_put_str(b, "  the present thresholds are those that would be proposed\n");
                return;
        }
        put_line(b, target, metric);
        bool is_raised = field_text(now, "critical").len &&
                         enter_of(set, "elevated") > enter_of(now, "critical");
        put_command(b, target, metric, level_keys[is_raised]);
        put_command(b, target, metric, level_keys[!is_raised]);
}

static void put_metric(struct buf *b, const struct value *target, const struct value *metric)
{
        const struct value *proposed = value_get(metric, "proposed");
        buf_put_byte(b, '\n');
        text_put_safe(b, field_text(target, "name"));
        buf_put_str(b, ", ");
        text_put_safe(b, field_text(metric, "name"));
        buf_put_str(b, ": learned from ");
        buf_printf(b, "%lld h; usual values by hour of the day:\n",
                   (long long)field_int(metric, "learned_hours"));
        put_usual(b, value_get(metric, "usual"));
        if (field_text(metric, "thresholds_from").len) {
                buf_put_str(b, "  present thresholds: ");
                text_put_safe(b, field_text(metric, "thresholds_from"));
                buf_put_byte(b, '\n');
        }
        if (proposed && proposed->type == VALUE_MAP) {
                put_proposal(b, target, metric);
                return;
        }
        buf_put_str(b, "  nothing is proposed: ");
        text_put_safe(b, field_text(metric, "reason"));
        buf_put_byte(b, '\n');
}

void advice_show(struct cli *cli, const struct value *v)
{
        const struct value *targets = value_get(v, "targets");
        struct slice problem = field_text(v, "problem");
        if (list_len(targets) == 0)
                buf_put_str(&cli->out, "no target is watched\n");
        else
                put_table(cli, targets);
        for (size_t i = 0; i < list_len(targets); i++) {
                const struct value *metrics = value_get(&targets->items[i], "metrics");
                for (size_t k = 0; k < list_len(metrics); k++)
                        put_metric(&cli->out, &targets->items[i], &metrics->items[k]);
        }
        if (problem.len) {
                text_put_safe(&cli->notes, problem);
                buf_put_byte(&cli->notes, '\n');
        }
}
