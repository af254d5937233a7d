/* weir ping: is it there, and how far away. */
#include "base/clock.h"
#include "cli/json.h"
#include "cli/request.h"

static int ping(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        int64_t begun_ns = clock_boot_ns();
        cli_request_init(&req, "PING");
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        int64_t us = (clock_boot_ns() - begun_ns) / 1000;
        if (cli->is_json)
                value_put_json(&cli->out, v);
        else
                buf_printf(&cli->out, "weir answers on %s in %lld.%02lld ms", cli->url.text,
                           (long long)(us / 1000), (long long)(us % 1000 / 10));
        buf_put_byte(&cli->out, '\n');
        return OK;
}

static const struct cli_command command = {
        .usage = "", .summary = "Ask whether weir answers.", .run = ping};

const struct cli_group cli_group_ping = {"ping", "Ask whether weir answers.", &command, 1};
