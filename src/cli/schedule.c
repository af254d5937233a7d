/* weir schedule: add, list, show, pause, resume, run, next, remove.
 *
 * Durations and moments are read here as people write them; everything else goes through as it is,
 * because the server knows what is allowed and says so. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/shown.h"
#include "cli/json.h"
#include "cli/listing.h"
#include "cli/text.h"

#define ARGS_MAX_BYTES MIB /* what the server takes as a payload */

static enum tone state_tone(struct slice state)
{
        if (slice_eq(state, SLICE_LIT("active")))
                return TONE_GREEN;
        if (slice_eq(state, SLICE_LIT("stopped")))
                return TONE_RED;
        return slice_eq(state, SLICE_LIT("paused")) ? TONE_YELLOW : TONE_DIM;
}

/* "every 5 min", or the expression and its zone. */
static void put_times(struct buf *b, const struct value *v)
{
        struct slice cron = field_text(v, "cron");
        if (!cron.len) {
                buf_put_str(b, "every ");
                duration_put(b, field_int(v, "every_ms"));
                return;
        }
        buf_put_slice(b, cron);
        buf_put_byte(b, ' ');
        buf_put_slice(b, field_text(v, "zone"));
}

/* ---- add ---- */

/* clang-format off */
#define TIMES_OPTIONS                                                                              \
        {"cron", "TEXT", "when: 'minute hour day month weekday', seconds first if six, @hourly"},  \
        {"every", "DURATION", "when: 30s, 5m, 1h30m; counted from the first, so it never drifts"}, \
        {"zone", "NAME", "time zone of --cron, as Europe/Berlin (UTC)"},                           \
        {"first", "TIME", "the first slot: 2026-11-15T10:00[Z|+01:00], 10:00, @UNIX"},             \
        {"until", "TIME", "no slot after that"}
/* clang-format on */

static const struct option_def add_options[] = {
        TIMES_OPTIONS,
        {"jitter", "DURATION", "start a job up to so long after its slot, at random"},
        {"missed", "WHAT", "for slots that went by: skip, one (job for all), all (one each)"},
        {"window", "DURATION", "how long after its slot a job is still made (skip 1m, all 1d)"},
        {"overlap", "WHAT", "when its last job has not ended: skip, queue, allow, cancel"},
        {"stop-after", "N", "stop after N failed jobs in a row, 0 never (5)"},
        {"queue", "NAME", "the queue its jobs wait in (default)"},
        {"group", "NAME", "the tenant they belong to"},
        {"priority", "N", "0 to 255, lower runs first (100)"},
        {"timeout", "DURATION", "how long one attempt may go without a sign of life (5m)"},
        {"attempts", "N", "how often each is tried (3)"},
        {"backoff", "RULE", "wait between attempts: none, fixed:5s, exp:5s,2,5m,15%, list:1s,30s"},
        {"key", "NAME", "jobs with this name run one at a time, over all queues"},
        {"key-max", "N", "... or up to N at a time (1)"},
        {"limit", "NAME", "a rate limit each start takes from"},
        {"target", "NAME", "the circuit breaker of what they call"},
        {"expires", "DURATION", "canceled when not started so long after it was made"},
        {"result-for", "DURATION", "how long results are kept after the end"},
        {"max-run", "DURATION", "how long an attempt may run, however often its lease is extended"},
        {"signature", "TEXT", "keyid:hex over what decides what runs, where jobs are signed"},
        {NULL, NULL, NULL},
};

static const char *const texts[][2] = {
        {"cron", "CRON"},
        {"zone", "ZONE"},
        {"missed", "MISSED"},
        {"overlap", "OVERLAP"},
        {"stop-after", "STOPAFTER"},
        {"queue", "QUEUE"},
        {"group", "GROUP"},
        {"priority", "PRIORITY"},
        {"attempts", "ATTEMPTS"},
        {"backoff", "BACKOFF"},
        {"key", "KEY"},
        {"key-max", "KEYMAX"},
        {"limit", "LIMIT"},
        {"target", "TARGET"},
        {"signature", "SIGNATURE"},
};

static const struct {
        const char *option, *keyword;
        bool is_moment;
} times[] = {
        {"every", "EVERY", false},     {"first", "FIRST", true},
        {"until", "UNTIL", true},      {"jitter", "JITTER", false},
        {"window", "WINDOW", false},   {"timeout", "TIMEOUT", false},
        {"expires", "EXPIRES", false}, {"result-for", "RESULTFOR", false},
        {"max-run", "MAXRUN", false},
};
#define N_SLOT_TIMES 3 /* those of TIMES_OPTIONS are the first */

static int add_times(struct cli *cli, struct cli_request *req, size_t n, struct problem *p)
{
        for (size_t i = 0; i < n; i++) {
                const char *text = args_get(&cli->args, times[i].option);
                char what[32];
                int64_t ms;
                if (!text)
                        continue;
                (void)snprintf(what, sizeof(what), "--%s", times[i].option);
                int r = times[i].is_moment ? moment_parse(what, text, clock_wall_ms(), &ms, p)
                                           : duration_parse(what, text, &ms, p);
                if (r != OK)
                        return r;
                cli_request_add_str(req, times[i].keyword);
                cli_request_add_int(req, ms);
        }
        return OK;
}

/* The text itself, "-" for standard input, or "@FILE". */
static int read_payload(const char *word, struct buf *ret, struct problem *p)
{
        bool is_stdin = strcmp(word, "-") == 0;
        if (!is_stdin && word[0] != '@') {
                buf_put_str(ret, word);
                return OK;
        }
        FILE *f = is_stdin ? stdin : fopen(word + 1, "re");
        if (!f)
                return problem_set(p, ERR_IO, "cannot read %s: %s", SHOWN_LONG(word + 1),
                                   strerror(errno));
        size_t n = 0;
        do {
                if (!buf_reserve(ret, 65536))
                        break;
                n = fread(ret->ptr + ret->len, 1, 65536, f);
                ret->len += n;
        } while (n > 0 && ret->len <= ARGS_MAX_BYTES);
        bool is_bad = ferror(f);
        if (!is_stdin)
                (void)fclose(f);
        if (is_bad)
                return problem_set(p, ERR_IO, "cannot read %s", SHOWN_LONG(word));
        if (ret->failed || ret->len > ARGS_MAX_BYTES)
                return problem_set(p, ERR_TOOBIG, "%s is larger than %d bytes", SHOWN_LONG(word),
                                   (int)ARGS_MAX_BYTES);
        return OK;
}

static void say_added(struct cli *cli, const struct value *v)
{
        /* A record: a list in RESP. */
        bool is_new = v->n > 0 && value_int(&v->items[0], 0);
        int64_t next_ms = v->n > 2 ? value_int(&v->items[2], 0) : 0;
        buf_printf(&cli->out, "%s schedule ", is_new ? "added" : "replaced");
        text_put_safe(&cli->out, slice_str(cli->args.positional[0]));
        if (next_ms > 0) {
                buf_put_str(&cli->out, ", next at ");
                moment_put(&cli->out, next_ms);
        } else if (v->n > 1) {
                buf_put_str(&cli->out, ", which is ");
                text_put_safe(&cli->out, value_text(&v->items[1]));
        }
        buf_put_byte(&cli->out, '\n');
}

static int schedule_add(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        struct buf payload CLEANUP(buf_release) = {0};
        int r = OK;
        if (cli->args.n_positional > 2)
                r = read_payload(cli->args.positional[2], &payload, p);
        if (r != OK)
                return r;
        cli_request_init_named(&req, cli, "SCHEDULE");
        cli_request_add_str(&req, cli->args.positional[1]);
        cli_request_add(&req, buf_slice(&payload));
        for (size_t i = 0; i < ARRAY_LEN(texts); i++)
                cli_request_add_option(&req, &cli->args, texts[i][0], texts[i][1]);
        r = add_times(cli, &req, ARRAY_LEN(times), p);
        if (r == OK)
                r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (!cli->is_json) {
                say_added(cli, v);
                return OK;
        }
        static const char *const keys[] = {"{\"created\":", ",\"state\":", ",\"next_ms\":"};
        for (size_t i = 0; i < ARRAY_LEN(keys) && i < v->n; i++) {
                buf_put_str(&cli->out, keys[i]);
                value_put_json(&cli->out, &v->items[i]);
        }
        buf_put_str(&cli->out, "}\n");
        return OK;
}

/* ---- list ---- */

static const struct column columns[] = {
        {"SCHEDULE", false, true}, {"STATE", false, false}, {"HOOK", false, true},
        {"QUEUE", false, true},    {"TIMES", false, true},  {"NEXT", false, false},
        {"LAST", false, false},    {"FAILED", true, false},
};

static void add_relative(struct table *t, int64_t at_ms, int64_t now_ms)
{
        struct buf text CLEANUP(buf_release) = {0};
        if (at_ms > 0)
                moment_put_relative(&text, at_ms, now_ms);
        table_add(t, buf_slice(&text), TONE_PLAIN);
}

static void list_row(struct table *t, const struct value *v, int64_t now_ms)
{
        struct buf when CLEANUP(buf_release) = {0};
        struct slice state = field_text(v, "state");
        put_times(&when, v);
        table_add(t, field_text(v, "name"), TONE_PLAIN);
        table_add(t, state, state_tone(state));
        table_add(t, field_text(v, "hook"), TONE_PLAIN);
        table_add(t, field_text(v, "queue"), TONE_PLAIN);
        table_add(t, buf_slice(&when), TONE_PLAIN);
        add_relative(t, field_int(v, "next_ms"), now_ms);
        add_relative(t, field_int(v, "last_slot_ms"), now_ms);
        table_add_int(t, field_int(v, "failures"));
}

static const struct listing listing = {
        .command = "SCHEDULES",
        .key = "schedules",
        .empty = "no schedules\n",
        .options = listing_match_options,
        .columns = columns,
        .n_columns = ARRAY_LEN(columns),
        .row = list_row,
};

static int schedule_list(struct cli *cli, struct problem *p)
{
        return listing_run(cli, &listing, p);
}

/* ---- show ---- */

static void put_label(struct cli *cli, const char *name)
{
        cli_put_label(cli, 13, name);
}

static void show_text(struct cli *cli, const char *label, struct slice text)
{
        if (!text.len)
                return;
        put_label(cli, label);
        text_put_safe_lines(&cli->out, text, 15);
        buf_put_byte(&cli->out, '\n');
}

static void show_moment(struct cli *cli, const char *label, int64_t at_ms, int64_t now_ms)
{
        if (at_ms <= 0)
                return;
        put_label(cli, label);
        moment_put(&cli->out, at_ms);
        buf_put_str(&cli->out, " (");
        moment_put_relative(&cli->out, at_ms, now_ms);
        buf_put_str(&cli->out, ")\n");
}

static void show_duration(struct cli *cli, const char *label, int64_t ms)
{
        if (ms <= 0)
                return;
        put_label(cli, label);
        duration_put(&cli->out, ms);
        buf_put_byte(&cli->out, '\n');
}

static void show_number(struct cli *cli, const char *label, int64_t n)
{
        put_label(cli, label);
        buf_printf(&cli->out, "%lld\n", (long long)n);
}

static void show_when(struct cli *cli, const struct value *v, int64_t now_ms)
{
        struct buf when CLEANUP(buf_release) = {0};
        put_times(&when, v);
        show_text(cli, "times", buf_slice(&when));
        show_moment(cli, "first", field_int(v, "first_ms"), now_ms);
        show_moment(cli, "until", field_int(v, "until_ms"), now_ms);
        show_duration(cli, "jitter", field_int(v, "jitter_ms"));
        show_text(cli, "missed", field_text(v, "missed"));
        show_duration(cli, "window", field_int(v, "window_ms"));
        show_text(cli, "overlap", field_text(v, "overlap"));
        show_number(cli, "stop after", field_int(v, "stop_after"));
}

static void show_what(struct cli *cli, const struct value *v)
{
        static const char *const shown[] = {"hook",    "args", "queue", "group",
                                            "backoff", "key",  "limit", "target"};
        for (size_t i = 0; i < ARRAY_LEN(shown); i++)
                show_text(cli, shown[i], field_text(v, shown[i]));
        show_number(cli, "priority", field_int(v, "priority"));
        show_number(cli, "attempts", field_int(v, "attempts"));
        show_duration(cli, "timeout", field_int(v, "timeout_ms"));
        show_duration(cli, "max run", field_int(v, "maxrun_ms"));
        if (field_int(v, "key_max"))
                show_number(cli, "key max", field_int(v, "key_max"));
        show_duration(cli, "expires", field_int(v, "expires_ms"));
        show_duration(cli, "result for", field_int(v, "result_ms"));
}

static void show_past(struct cli *cli, const struct value *v, int64_t now_ms)
{
        const struct value *next = value_get(v, "next");
        show_moment(cli, "last slot", field_int(v, "last_slot_ms"), now_ms);
        if (field_int(v, "last_job"))
                show_number(cli, "last job", field_int(v, "last_job"));
        show_number(cli, "jobs", field_int(v, "jobs"));
        show_number(cli, "not ended", field_int(v, "live_jobs"));
        show_number(cli, "slots missed", field_int(v, "missed_slots"));
        show_number(cli, "overlapped", field_int(v, "overlapped_slots"));
        show_number(cli, "failures", field_int(v, "failures"));
        for (size_t i = 0; next && field_int(v, "next_ms") && i < next->n; i++)
                show_moment(cli, i ? "" : "next", value_int(&next->items[i], 0), now_ms);
}

static void show_schedule(struct cli *cli, const struct value *v)
{
        int64_t now_ms = clock_wall_ms();
        struct slice state = field_text(v, "state");
        buf_put_str(&cli->out, "schedule ");
        text_put_safe(&cli->out, field_text(v, "name"));
        buf_put_str(&cli->out, "  ");
        screen_put_toned(&cli->screen, &cli->out, state_tone(state), state);
        buf_put_byte(&cli->out, '\n');
        show_text(cli, "reason", field_text(v, "reason"));
        show_when(cli, v, now_ms);
        show_what(cli, v);
        show_past(cli, v, now_ms);
}

static int schedule_show(struct cli *cli, struct problem *p)
{
        return cli_show_named(cli, "SCHEDULED", show_schedule, p);
}

/* ---- the small ones ---- */

static int schedule_pause(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "PAUSESCHEDULE", "paused schedule", p);
}

static int schedule_resume(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "RESUMESCHEDULE", "resumed schedule", p);
}

static int schedule_remove(struct cli *cli, struct problem *p)
{
        return cli_change_named(cli, "UNSCHEDULE", "removed schedule", p);
}

static void show_added(struct cli *cli, const struct value *v)
{
        buf_printf(&cli->out, "added job %lld\n", (long long)value_int(v, 0));
}

static int schedule_run(struct cli *cli, struct problem *p)
{
        return cli_show_named(cli, "RUNSCHEDULE", show_added, p);
}

static bool has_times(const struct args *args)
{
        static const char *const options[] = {"cron", "every", "zone", "first", "until"};
        for (size_t i = 0; i < ARRAY_LEN(options); i++)
                if (args_has(args, options[i]))
                        return true;
        return false;
}

/* Of a schedule as it is, or of times that it would get; without a name, of times alone. */
static int ask_next(struct cli *cli, struct cli_request *req, struct problem *p)
{
        const char *name = cli->args.n_positional ? cli->args.positional[0] : NULL;
        if (!has_times(&cli->args)) {
                if (!name)
                        return problem_set(p, ERR_SYNTAX, "give NAME, --cron or --every");
                cli_request_init(req, "NEXTRUNS");
                cli_request_add_str(req, name);
                return OK;
        }
        if (!args_has(&cli->args, "cron") && !args_has(&cli->args, "every"))
                return problem_set(p, ERR_SYNTAX,
                                   "--zone, --first and --until go with --cron or "
                                   "--every");
        cli_request_init(req, "SCHEDULETRY");
        cli_request_add_option(req, &cli->args, "cron", "CRON");
        cli_request_add_option(req, &cli->args, "zone", "ZONE");
        if (name) {
                cli_request_add_str(req, "NAME");
                cli_request_add_str(req, name);
        }
        return add_times(cli, req, N_SLOT_TIMES, p);
}

static void show_slots(struct cli *cli, const struct value *v)
{
        int64_t now_ms = clock_wall_ms();
        for (size_t i = 0; i < v->n; i++) {
                moment_put(&cli->out, value_int(&v->items[i], 0));
                buf_put_str(&cli->out, "  ");
                moment_put_relative(&cli->out, value_int(&v->items[i], 0), now_ms);
                buf_put_byte(&cli->out, '\n');
        }
        if (!v->n)
                buf_put_str(&cli->notes, "it has no more slots\n");
}

static int schedule_next(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        int r = ask_next(cli, &req, p);
        if (r != OK)
                return r;
        cli_request_add_option(&req, &cli->args, "count", "COUNT");
        return cli_show(cli, &req, show_slots, p);
}

static const struct option_def list_options[] = {
        {"match", "TEXT", "only schedules whose name holds TEXT"},
        LISTING_PAGE_OPTIONS,
        {NULL, NULL, NULL},
};

static const struct option_def next_options[] = {
        TIMES_OPTIONS,
        {"count", "N", "how many, up to 1000 (10)"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {.name = "add",
         .usage = "NAME HOOK [ARGS]",
         .summary = "Set a schedule, new or in place of the one with that name.",
         .text = "The same times again leave it where it is, so it can be part of a deployment.\n"
                 "ARGS is the text itself, @FILE, or - for standard input.\n\n"
                 "  weir schedule add report nightly-report --cron '30 4 * * *' --zone "
                 "Europe/Berlin\n"
                 "  weir schedule add sync pull '{\"shop\":1}' --every 5m --overlap skip\n",
         .options = add_options,
         .min_words = 2,
         .max_words = 3,
         .run = schedule_add},
        {.name = "list",
         .usage = "",
         .summary = "List schedules by name.",
         .text = "FAILED is how many jobs have failed in a row.\n",
         .options = list_options,
         .run = schedule_list},
        {.name = "show",
         .usage = "NAME",
         .summary = "Show a schedule: what, when, and what came of it.",
         .min_words = 1,
         .max_words = 1,
         .run = schedule_show},
        {.name = "pause",
         .usage = "NAME",
         .summary = "Make no more jobs of a schedule until it is resumed.",
         .text = "Jobs it has made go on.\n",
         .min_words = 1,
         .max_words = 1,
         .run = schedule_pause},
        {.name = "resume",
         .usage = "NAME",
         .summary = "Let a paused or stopped schedule go on.",
         .text = "It goes on with the next slot; those that went by are not made up for.\n",
         .min_words = 1,
         .max_words = 1,
         .run = schedule_resume},
        {.name = "run",
         .usage = "NAME",
         .summary = "Make a job of a schedule now, outside its slots.",
         .min_words = 1,
         .max_words = 1,
         .run = schedule_run},
        {.name = "next",
         .usage = "[NAME]",
         .summary = "Tell the next slots of a schedule, or of times before they are set.",
         .text = "With --cron or --every nothing is set: it tells what 'add' would make of them,\n"
                 "for a new schedule or for NAME.\n\n"
                 "  weir schedule next report --count 3\n"
                 "  weir schedule next --cron '30 4 * * MON-FRI' --zone Europe/Berlin\n",
         .options = next_options,
         .max_words = 1,
         .run = schedule_next},
        {.name = "remove",
         .usage = "NAME",
         .summary = "Remove a schedule. Jobs it has made stay.",
         .min_words = 1,
         .max_words = 1,
         .run = schedule_remove},
};

const struct cli_group cli_group_schedule = {"schedule", "Run jobs at times, again and again.",
                                             commands, ARRAY_LEN(commands)};
