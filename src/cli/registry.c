/* weir registry: which tier a hook has. */
#include <stdlib.h>
#include <string.h>

#include "cli/listing.h"

static const char *const tiers[] = {"critical", "high", "normal", "deferrable"};

static bool is_default(const struct value *entry)
{
        return field_is_true(entry, "default");
}

static size_t rank_of(struct slice tier)
{
        size_t i = 0;
        while (i < ARRAY_LEN(tiers) && !slice_eq(tier, slice_str(tiers[i])))
                i++;
        return i;
}

/* Most important first, then by name; what was set before the default of the same pattern. */
static int compare(const void *a, const void *b)
{
        const struct value *x = *(const struct value *const *)a;
        const struct value *y = *(const struct value *const *)b;
        size_t rank_x = rank_of(field_text(x, "tier")), rank_y = rank_of(field_text(y, "tier"));
        if (rank_x != rank_y)
                return rank_x < rank_y ? -1 : 1;
        struct slice p = field_text(x, "pattern"), q = field_text(y, "pattern");
        int r = memcmp(p.ptr, q.ptr, p.len < q.len ? p.len : q.len);
        if (r == 0 && p.len != q.len)
                r = p.len < q.len ? -1 : 1;
        return r ? r : (int)is_default(x) - (int)is_default(y);
}

/* A default is replaced when its pattern was set: no hook gets its tier from it.  There are about a
 * dozen defaults. */
static const char *from_of(const struct value *list, const struct value *entry)
{
        if (!is_default(entry))
                return "set";
        for (size_t i = 0; i < list->n; i++)
                if (!is_default(&list->items[i]) &&
                    slice_eq(field_text(&list->items[i], "pattern"), field_text(entry, "pattern")))
                        return "default, replaced";
        return "default";
}

static const struct column columns[] = {
        {"PATTERN", .may_shrink = true},
        {.title = "TIER"},
        {.title = "FROM"},
};

static void show_all(struct cli *cli, const struct value *v)
{
        if (!list_len(v)) {
                buf_put_str(&cli->notes, "no patterns: every hook is normal\n");
                return;
        }
        const struct value **sorted = xcalloc(v->n, sizeof(const struct value *));
        struct table t;
        for (size_t i = 0; i < v->n; i++)
                sorted[i] = &v->items[i];
        qsort(sorted, v->n, sizeof(const struct value *), compare);
        table_init(&t, columns, ARRAY_LEN(columns));
        for (size_t i = 0; i < v->n; i++) {
                const char *from = from_of(v, sorted[i]);
                enum tone tone = strstr(from, "replaced") ? TONE_DIM : TONE_PLAIN;
                table_add(&t, field_text(sorted[i], "pattern"), tone);
                table_add(&t, field_text(sorted[i], "tier"), tone);
                table_add(&t, slice_str(from), tone);
        }
        table_print(&t, &cli->screen, &cli->out);
        table_release(&t);
        free(sorted);
}

static void show_set(struct cli *cli, const struct value *v)
{
        (void)v; /* what was asked for is what is */
        buf_put_str(&cli->out, "set ");
        text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        buf_put_str(&cli->out, " to ");
        text_put_safe(&cli->out, slice_str(cli->args.positional[1]));
        buf_put_byte(&cli->out, '\n');
}

static void show_tier(struct cli *cli, const struct value *v)
{
        struct slice pattern = field_text(v, "pattern");
        text_put_safe(&cli->out, field_text(v, "tier"));
        buf_put_str(&cli->out, pattern.len ? "  by " : "  no pattern matches");
        text_put_safe(&cli->out, pattern);
        buf_put_byte(&cli->out, '\n');
}

static const struct cli_command commands[] = {
        {"list", "", "List the patterns of hooks and their tiers.", "  weir registry list\n",
         .command = "REGISTRY", .show = show_all},
        {"set", "PATTERN TIER",
         "Give the hooks of a pattern a tier: critical, high, normal, "
         "deferrable.",
         "In a pattern * stands for any text and ? for one byte; quote it. The most "
         "specific\n"
         "pattern decides: an exact name, then the longest text before the first wildcard. "
         "A\n"
         "pattern that is there is changed, a default is replaced, and parked jobs are "
         "judged "
         "again.\n\n"
         "  weir registry set 'erp_export_*' deferrable\n",
         .command = "REGISTRYSET", .show = show_set},
        {"unset", "PATTERN", "Take back a pattern that was set; a default holds again.",
         "Defaults cannot be unset, only set to another tier.\n\n"
         "  weir registry unset 'erp_export_*'\n",
         .command = "REGISTRYUNSET", .done = "unset"},
        {"test", "HOOK", "Say which tier a hook has, and which pattern decides.",
         "  weir registry test klaviyo_sync\n", .command = "TIER", .show = show_tier},
};

const struct cli_group cli_group_registry = {"registry", "Show and set how important hooks are.",
                                             commands, ARRAY_LEN(commands)};
