/* weir queue: list, show, set, pause, resume.
 *
 * Jobs make queues, so that the server takes any name.  A person who steers a queue means one that
 * exists: here a name that does not exist is an error, with the nearest one, unless --create is
 * given. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/listing.h"
#include "cli/queue_name.h"
#include "cli/text.h"

static void put_state(struct buf *b, const struct value *q, int64_t now_ms)
{
        (void)now_ms;
        buf_put_str(b, field_is_true(q, "paused") ? "paused" : "open");
}

static enum tone state_tone(const struct value *q)
{
        return field_is_true(q, "paused") ? TONE_YELLOW : TONE_PLAIN;
}

static void put_oldest(struct buf *b, const struct value *q, int64_t now_ms)
{
        int64_t oldest_ms = field_int(q, "oldest_due_ms");
        if (oldest_ms > 0)
                duration_put(b, now_ms > oldest_ms ? now_ms - oldest_ms : 0);
}

static const struct column columns[] = {
        {"QUEUE", .key = "name", .may_shrink = true},
        {"STATE", .put = put_state, .tone_of = state_tone},
        {"READY", .key = "ready", .as = AS_INT},
        {"SCHEDULED", .key = "scheduled", .as = AS_INT},
        {"WAITING", .key = "waiting", .as = AS_INT},
        {"RUNNING", .key = "running", .as = AS_INT},
        {"COMPLETED", .key = "completed", .as = AS_INT},
        {"FAILED", .key = "failed", .as = AS_INT},
        {"CANCELED", .key = "canceled", .as = AS_INT},
        {"OLDEST", .put = put_oldest},
};

static const struct listing listing = {
        .empty = "no queues yet: the first job makes one\n",
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
};

static int queue_list(struct cli *cli, struct problem *p)
{
        bool is_paused = false;
        int r = listing_run(cli, &listing, p);
        if (r != OK || cli->is_json)
                return r;
        r = cli_everything_is_paused(cli, &is_paused, p);
        if (is_paused)
                buf_put_str(&cli->notes, "everything is paused: no job starts before 'weir "
                                         "resume'\n");
        return r;
}

/* ---- a name that does not exist ---- */

/* Says more of ERR_NOTFOUND; anything else is passed on. */
static int explain(struct cli *cli, int r, bool can_create, struct problem *p)
{
        struct buf near CLEANUP(buf_release) = {0};
        const char *name = cli->args.positional[0];
        if (r != ERR_NOTFOUND)
                return r;
        (void)queue_name_look(cli, name, &near); /* that it does not exist is known */
        return problem_set(p, ERR_NOTFOUND, "there is no queue '%s'%s%s%s%s", SHOWN_STR(name),
                           near.len ? "; did you mean '" : "", SHOWN(buf_slice(&near)),
                           near.len ? "'?" : "", can_create ? " (--create makes a new one)" : "");
}

/* ---- show ---- */

#define LABEL_WIDTH 12

static const struct field_line counts[] = {
        {"ready", .key = "ready", .as = AS_INT, .none = "0"},
        {"scheduled", .key = "scheduled", .as = AS_INT, .none = "0"},
        {"waiting", .key = "waiting", .as = AS_INT, .none = "0"},
        {"running", .key = "running", .as = AS_INT, .none = "0"},
        {"enqueued", .key = "enqueued", .as = AS_INT, .none = "0"},
        {"completed", .key = "completed", .as = AS_INT, .none = "0"},
        {"failed", .key = "failed", .as = AS_INT, .none = "0"},
        {"canceled", .key = "canceled", .as = AS_INT, .none = "0"},
        {"oldest", .key = "oldest_due_ms", .as = AS_AGE},
        {.label = NULL},
};

static const struct field_line settings[] = {
        {"cap", .key = "cap", .as = AS_INT, .none = "any number of jobs"},
        {"claim size", .key = "claimsize", .as = AS_INT, .none = "as many as a claim asks for"},
        {"claims", .key = "claims", .as = AS_INT, .none = "any number of claims"},
        {"lease", .key = "lease", .as = AS_DURATION, .none = "5 min (the default)"},
        {"fair", .key = "fair", .none = ""},
        {"backoff", .key = "backoff", .none = ""},
        {"history", .key = "history", .none = ""},
        {.label = NULL},
};

static void show_queue(struct cli *cli, const struct value *v)
{
        buf_put_str(&cli->out, "queue ");
        text_put_safe(&cli->out, field_text(v, "name"));
        buf_put_str(&cli->out, "  ");
        screen_put_toned(&cli->screen, &cli->out, state_tone(v),
                         slice_str(field_is_true(v, "paused") ? "paused" : "open"));
        buf_put_byte(&cli->out, '\n');
        put_field_lines(&cli->screen, &cli->out, LABEL_WIDTH, counts, v);
        buf_put_str(&cli->out, "settings\n");
        put_field_lines(&cli->screen, &cli->out, LABEL_WIDTH, settings, v);
}

static int run_explained(struct cli *cli, struct problem *p)
{
        return explain(cli, cli_run_row(cli, p), false, p);
}

/* ---- changes ---- */

static int change_one(struct cli *cli, const char *command, const char *done, struct problem *p)
{
        struct cli_request req;
        bool is_pause = strcmp(command, "PAUSE") == 0;
        cli_request_init_named(&req, cli, command);
        if (is_pause && !args_has(&cli->args, "create"))
                cli_request_add_str(&req, "EXISTING");
        return explain(cli, cli_change(cli, &req, done, p), is_pause, p);
}

/* Those whose state differs.  The names are copied: each answer takes the place of the last. */
static int change_all(struct cli *cli, const char *command, const char *done, struct problem *p)
{
        struct buf names CLEANUP(buf_release) = {0};
        bool is_pause = strcmp(command, "PAUSE") == 0;
        const struct value *v;
        struct cli_request req;
        uint64_t n = 0;
        cli_request_init(&req, "QUEUES");
        int r = cli_request_call(cli, &req, &v, p);
        for (size_t i = 0; r == OK && i < list_len(v); i++) {
                if (field_is_true(&v->items[i], "paused") == is_pause)
                        continue;
                buf_put_slice(&names, field_text(&v->items[i], "name"));
                buf_put_byte(&names, '\0');
                n++;
        }
        for (size_t at = 0; r == OK && at < names.len; at += strlen(names.ptr + at) + 1) {
                cli_request_init(&req, command);
                cli_request_add_str(&req, names.ptr + at);
                r = cli_request_call(cli, &req, &v, p);
        }
        if (r != OK)
                return r;
        if (cli->is_json)
                buf_printf(&cli->out, "{\"%s\":%llu}\n", done, (unsigned long long)n);
        else
                buf_printf(&cli->out, "%s %llu %s\n", done, (unsigned long long)n,
                           plural(n, "queue", "queues"));
        return OK;
}

static int change_queues(struct cli *cli, const char *command, const char *done, struct problem *p)
{
        bool is_all = args_has(&cli->args, "all");
        char one[32];
        if (is_all == (cli->args.n_positional > 0))
                return problem_set(p, ERR_SYNTAX, "name a QUEUE, or say --all%s",
                                   is_all ? ", not both" : "");
        if (is_all && strcmp(command, "PAUSE") == 0 && args_has(&cli->args, "create"))
                return problem_set(p, ERR_SYNTAX, "--create goes with the name of a QUEUE");
        (void)snprintf(one, sizeof(one), "%s queue", done);
        return is_all ? change_all(cli, command, done, p) : change_one(cli, command, one, p);
}

static int queue_pause(struct cli *cli, struct problem *p)
{
        return change_queues(cli, "PAUSE", "paused", p);
}

static int queue_resume(struct cli *cli, struct problem *p)
{
        return change_queues(cli, "RESUME", "resumed", p);
}

static int queue_set(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        int r = cli_request_of_row(&req, cli, p);
        if (r != OK)
                return r;
        if (req.argc == 2) /* the command and the name */
                return problem_set(p, ERR_SYNTAX, "say what to set");
        if (!args_has(&cli->args, "create"))
                cli_request_add_str(&req, "EXISTING");
        return explain(cli, cli_change(cli, &req, "set queue", p), true, p);
}

/* clang-format off */
#define CREATE_OPTION {"create", NULL, "also when no job has named the queue yet"}
/* clang-format on */

static const struct option_def set_options[] = {
        {"fair", "on|off", "turns between the groups of its jobs, by their weights"},
        {"lease", "DURATION", "lease of jobs and claims that name none; 0s: 5m, the default"},
        CREATE_OPTION,
        {NULL, NULL, NULL},
};

static const struct option_def pause_options[] = {
        {"all", NULL, "every queue there is; 'weir pause' stops new ones too"},
        CREATE_OPTION,
        {NULL, NULL, NULL},
};

static const struct option_def resume_options[] = {
        {"all", NULL, "every queue that is paused"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"list", "", "List queues with their counts.",
         "WAITING jobs wait for another job, a key, a limit or a breaker: 'weir job why' "
         "says\n"
         "for which. OLDEST is how long the first ready job has been waiting.\n\n"
         "  weir queue list\n",
         .command = "QUEUES", .run = queue_list},
        {"show", "QUEUE", "Show a queue with its settings.", "  weir queue show mail\n",
         .command = "QUEUE", .show = show_queue, .run = run_explained},
        {"set", "QUEUE", "Change settings of a queue while it runs.",
         "What is not named stays as it is. As Action Scheduler would run it, 25 jobs a "
         "batch and\n"
         "one batch at a time:\n\n"
         "  weir queue set default --claim-size 25 --claims 1 --lease 5m\n",
         .options = set_options, .command = "QUEUESET", .apart = "existing", .run = queue_set},
        {"pause", "QUEUE | --all", "Hand out no more jobs of a queue, or of all there are.",
         "Jobs are still taken in, and those that run may finish.\n\n"
         "  weir queue pause mail\n"
         "  weir queue pause --all\n",
         .options = pause_options, .max_words = 1, .run = queue_pause},
        {"resume", "QUEUE | --all", "Hand out the jobs of paused queues again.", NULL,
         .options = resume_options, .max_words = 1, .run = queue_resume},
        {"remove", "QUEUE", "Remove a queue that has no jobs, with its settings and its pause.",
         "History keeps the jobs that ended. The next job that names the queue makes it "
         "anew.\n\n"
         "  weir queue remove mial\n",
         .command = "UNQUEUE", .done = "removed queue", .run = run_explained},
};

const struct cli_group cli_group_queue = {"queue",
                                          "List, show, set, pause, resume and remove queues.",
                                          commands, ARRAY_LEN(commands)};
