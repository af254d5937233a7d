/* See queue_name.h. */
#include "cli/queue_name.h"

#include <string.h>

#include "base/shown.h"
#include "cli/listing.h"

#define LOOKED_AT_MAX 1000 /* queues that may be suggested */

bool queue_name_look(struct cli *cli, const char *name, struct buf *ret_nearest)
{
        const char *names[LOOKED_AT_MAX + 1] = {NULL};
        struct buf texts CLEANUP(buf_release) = {0};
        const struct value *queues;
        struct cli_request req;
        struct problem unused;
        size_t n = 0;
        cli_request_init(&req, "QUEUES");
        if (cli_request_call(cli, &req, &queues, &unused) != OK)
                return true;
        for (size_t i = 0; i < list_len(queues); i++) {
                struct slice one = field_text(&queues->items[i], "name");
                if (slice_eq(one, slice_str(name)))
                        return true;
                if (i >= LOOKED_AT_MAX)
                        continue;
                buf_put_slice(&texts, one);
                buf_put_byte(&texts, '\0');
        }
        for (size_t at = 0; at < texts.len; at += strlen(names[n++]) + 1)
                names[n] = texts.ptr + at;
        const char *near = nearest_name(name, names);
        buf_put_str(ret_nearest, near ? near : "");
        return false;
}

void queue_name_note(struct cli *cli)
{
        struct buf near CLEANUP(buf_release) = {0};
        const char *name = args_get(&cli->args, "queue");
        if (cli->is_json || !name || queue_name_look(cli, name, &near))
                return;
        buf_printf(&cli->notes, "there is no queue '%s'%s%s%s\n", SHOWN_STR(name),
                   near.len ? "; did you mean '" : "", SHOWN(buf_slice(&near)),
                   near.len ? "'?" : "");
}
