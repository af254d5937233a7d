/* weir token: access tokens with roles. */
#include "cli/listing.h"
#include "cli/text.h"

static void put_narrowed(struct buf *b, const struct value *token, int64_t now_ms)
{
        static const char *const keys[] = {"queues", "identities", "names"};
        const char *before = "";
        (void)now_ms;
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
                struct slice patterns = field_text(token, keys[i]);
                if (!patterns.len)
                        continue;
                buf_printf(b, "%s%s %.*s", before, keys[i], (int)patterns.len, patterns.ptr);
                before = ", ";
        }
        if (!*before)
                buf_put_byte(b, '-');
}

static const struct column columns[] = {
        {"TOKEN", .key = "name"},
        {"ROLE", .key = "role"},
        {"FOR", .put = put_narrowed, .may_shrink = true},
        {"FROM", .key = "source"},
        {"ENDS", .key = "until_ms", .as = AS_RELATIVE},
        {"USED", .key = "used_ms", .as = AS_AGE},
        {"BY", .key = "used_from"},
};

static const struct listing listing = {
        .empty = "there are no tokens: whoever reaches weir on this machine may do everything\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

/* The secret alone on standard output, so that it can be put into a file or a pipe. */
static void show_secret(struct cli *cli, const struct value *v)
{
        struct slice name = field_text(v, "name"), role = field_text(v, "role");
        struct slice secret = field_text(v, "secret");
        buf_printf(&cli->out, "%.*s\n", (int)secret.len, secret.ptr);
        buf_printf(&cli->notes,
                   "This is the secret of token '%.*s' (%.*s). weir keeps only its hash and cannot "
                   "show it again.\n",
                   (int)name.len, name.ptr, (int)role.len, role.ptr);
        if (field_int(v, "old_until_ms"))
                buf_put_str(&cli->notes, "The old secret stays valid for the time given by --keep, "
                                         "which is 24 h unless you say otherwise.\n");
}

static const struct cli_command commands[] = {
        {"list", "", "List the access tokens, without their secrets.", NULL, .command = "TOKENS",
         .listing = &listing},
        {"add", "NAME ROLE", "Add an access token and print its secret, once.",
         "ROLE is reader, producer, worker, checker, locker, operator or admin, or several with\n"
         "commas between them. The first token must be an admin's: from then on every client\n"
         "must show one.\n\n"
         "  weir token add ops admin\n"
         "  weir token add ci producer,worker --queues 'build-*,mail' --for 90d\n"
         "  weir token add etl checker --identities 'etl:*'\n",
         .command = "TOKENADD", .show = show_secret},
        {"rotate", "NAME", "Give a token a new secret; the old one stays valid for a while.",
         "  weir token rotate ci --keep 1h\n", .command = "TOKENROTATE", .show = show_secret},
        {"remove", "NAME", "Remove a token and close the connections that use it.",
         "  weir token remove ci\n", .command = "TOKENREMOVE", .done = "removed token"},
};

const struct cli_group cli_group_token = {"token", "Say who may do what: access tokens with roles.",
                                          commands, ARRAY_LEN(commands)};
