/* weir pause, weir resume: the emergency stop, over every queue and every tier.
 *
 * It is the setting queues.paused, so it is durable and can be seen and changed like any other. */
#include "base/shown.h"
#include "cli/listing.h"

#define SETTING "queues.paused"

/* A name means that one queue was meant. */
static int check_words(const struct cli *cli, const char *verb, struct problem *p)
{
        const struct args *args = &cli->args;
        if (args->n_positional == 0)
                return OK;
        return problem_set(p, ERR_SYNTAX,
                           "'weir %s' %s every queue; for one say 'weir queue %s %s'", verb,
                           verb[0] == 'p' ? "stops" : "starts", verb,
                           SHOWN_STR(args->positional[args->n_positional - 1]));
}

static int change(struct cli *cli, bool is_pause, struct problem *p)
{
        bool was_paused = false;
        struct cli_request req;
        const struct value *v;
        int r = check_words(cli, is_pause ? "pause" : "resume", p);
        if (r == OK)
                r = cli_everything_is_paused(cli, &was_paused, p);
        cli_request_init(&req, is_pause ? "SETTINGSET" : "SETTINGUNSET");
        cli_request_add_str(&req, SETTING);
        if (is_pause)
                cli_request_add_str(&req, "true");
        if (r == OK)
                r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json)
                buf_printf(&cli->out, "{\"everything_paused\":%s}\n", is_pause ? "true" : "false");
        else if (is_pause)
                buf_put_str(&cli->out,
                            "everything is paused: no job of any queue starts, critical ones "
                            "included, before 'weir resume'\n");
        else if (was_paused)
                buf_put_str(&cli->out, "jobs start again; a queue that was paused by itself stays "
                                       "paused\n");
        else
                buf_put_str(&cli->out, "nothing was paused as a whole; 'weir queue list' shows "
                                       "queues that are\n");
        return OK;
}

static int pause_run(struct cli *cli, struct problem *p)
{
        return change(cli, true, p);
}

static int resume_run(struct cli *cli, struct problem *p)
{
        return change(cli, false, p);
}

static const struct cli_command pause_command = {
        .usage = "",
        .summary = "Stop everything: no job of any queue starts, critical ones included.",
        .text = "Jobs are still taken in, those that run may finish, and it holds over restarts,\n"
                "until 'weir resume'. One queue is 'weir queue pause'; what the load of databases\n"
                "makes wait is 'weir throttle pause', which lets critical jobs run.\n",
        .max_words = 2,
        .run = pause_run,
};

static const struct cli_command resume_command = {
        .usage = "",
        .summary = "Let jobs start again after 'weir pause'.",
        .text = "A queue that was paused by itself stays paused.\n",
        .max_words = 2,
        .run = resume_run,
};

const struct cli_group cli_group_pause = {"pause", "Stop everything: no job of any queue starts.",
                                          &pause_command, 1};
const struct cli_group cli_group_resume = {"resume", "Let jobs start again after 'weir pause'.",
                                           &resume_command, 1};
