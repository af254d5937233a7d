/* See sites.h. */
#include "cli/sites.h"

void site_put_due(struct buf *b, const struct value *site, int64_t now_ms)
{
        (void)now_ms;
        buf_put_i64(b, field_int(site, "due"));
        buf_put_str(b, field_is_true(site, "capped") ? "+" : "");
}

/* "12", and in a mode that moves nothing "0 (120 would)". */
static void put_moved(struct buf *b, const struct value *site, int64_t now_ms)
{
        (void)now_ms;
        buf_put_i64(b, field_int(site, "moved"));
        if (!field_is(site, "mode", "enforce") && field_int(site, "would_move"))
                buf_printf(b, " (%lld would)", (long long)field_int(site, "would_move"));
}

static enum tone level_of_site(const struct value *site)
{
        return level_tone(field_text(site, "level"));
}

static enum tone failed_tone(const struct value *site)
{
        return field_int(site, "failed") ? TONE_YELLOW : TONE_PLAIN;
}

const struct column site_columns[SITE_COLUMNS] = {
        {"SITE", .key = "name", .may_shrink = true},
        {"MODE", .key = "mode"},
        {"LEVEL", .key = "level", .tone_of = level_of_site},
        {"DUE", .put = site_put_due, .is_right = true},
        {"MOVED", .put = put_moved, .is_right = true},
        {"RUNNING", .key = "running", .as = AS_INT},
        {"FAILED", .key = "failed", .as = AS_INT, .tone_of = failed_tone},
        {"OLDEST", .key = "oldest_due_ms", .as = AS_AGE},
        {"ERROR", .key = "error", .tone = TONE_RED, .may_shrink = true},
};
