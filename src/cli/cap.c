/* weir cap: how many jobs that share a key or a group may run at once. */
#include "cli/listing.h"

static void put_max(struct buf *b, const struct value *cap, int64_t now_ms)
{
        (void)now_ms;
        if (field_int(cap, "max"))
                buf_put_i64(b, field_int(cap, "max"));
        else
                buf_put_byte(b, '-');
}

static enum tone max_tone(const struct value *cap)
{
        return field_int(cap, "max") ? TONE_PLAIN : TONE_DIM;
}

static const struct column columns[] = {
        {"CAP", .key = "name", .may_shrink = true},
        {"MAX", .put = put_max, .tone_of = max_tone, .is_right = true},
        {"WEIGHT", .key = "weight", .as = AS_INT},
        {"RUNNING", .key = "running", .as = AS_INT},
        {"WAITING", .key = "waiting", .as = AS_INT},
};

static const struct listing listing = {
        .empty = "no caps are set, and no key keeps a job waiting\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

static const struct cli_command commands[] = {
        {"list", "", "List the caps that are set or keep a job waiting.",
         "MAX is '-' where none is set: a key then allows what its jobs say.\n\n"
         "  weir cap list\n",
         .command = "CAPS", .listing = &listing},
        {"set", "NAME MAX", "Set how many jobs of a key or a group may run at once.",
         "NAME is key:NAME or group:NAME. With a MAX of 0 a group has no cap, only its "
         "weight, "
         "and\n"
         "a key allows what its jobs say.\n\n"
         "  weir cap set group:acme 5 --weight 2\n"
         "  weir cap set key:erp-import 1\n",
         .command = "CAP", .done = "set cap"},
        {"remove", "NAME", "Take a cap back.", "  weir cap remove group:acme\n", .command = "UNCAP",
         .done = "removed cap"},
};

const struct cli_group cli_group_cap = {"cap", "Say how many jobs of a key or group run at once.",
                                        commands, ARRAY_LEN(commands)};
