/* weir job: add, list, show, cancel, events.
 *
 * `show` is the page an operator reads at night: every field that says something, what the job
 * was given and what it gave back, and then its story, one line an event. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/text.h"

#define ARGS_MAX_BYTES MIB        /* what the server takes as a payload */
#define MANY_MAX_JOBS  10000      /* in one ENQUEUEMANY */
#define MANY_MAX_BYTES (16 * MIB) /* well below the server's limit of a request */
#define LIST_DEFAULT   "50"
#define LIST_ALL_STEP  "1000"

/* Reads a file (or standard input for "-") whole; at most max bytes. */
static int read_whole(const char *path, size_t max, struct buf *ret, struct problem *p)
{
        bool is_stdin = strcmp(path, "-") == 0;
        FILE *f = is_stdin ? stdin : fopen(path, "re");
        if (!f)
                return problem_set(p, ERR_IO, "cannot read %.200s: %s", path, strerror(errno));
        size_t n;
        do {
                if (!buf_reserve(ret, 65536))
                        break;
                n = fread(ret->ptr + ret->len, 1, 65536, f);
                ret->len += n;
        } while (n > 0 && ret->len <= max);
        int error = ferror(f) ? errno : 0;
        if (!is_stdin)
                (void)fclose(f);
        if (error)
                return problem_set(p, ERR_IO, "cannot read %.200s: %s", path, strerror(error));
        if (ret->failed || ret->len > max)
                return problem_set(p, ERR_TOOBIG, "%.200s is larger than %zu bytes", path, max);
        return OK;
}

/* The ARGS word: the text itself, "-" or "@FILE". */
static int read_args(const char *word, struct buf *ret, struct problem *p)
{
        if (strcmp(word, "-") == 0)
                return read_whole("-", ARGS_MAX_BYTES, ret, p);
        if (word[0] == '@')
                return read_whole(word + 1, ARGS_MAX_BYTES, ret, p);
        buf_put_str(ret, word);
        return OK;
}

/* The options of ENQUEUE that were given, translated. */
static int add_options(const struct args *args, struct cli_request *req, struct problem *p)
{
        const char *in = args_get(args, "in"), *at = args_get(args, "at");
        const char *timeout = args_get(args, "timeout");
        int64_t ms;
        if (in && at)
                return problem_set(p, ERR_BADARG, "--in and --at exclude each other");
        cli_request_add_option(req, args, "queue", "QUEUE");
        cli_request_add_option(req, args, "group", "GROUP");
        cli_request_add_option(req, args, "priority", "PRIORITY");
        cli_request_add_option(req, args, "attempts", "ATTEMPTS");
        if (in) {
                int r = duration_parse("--in", in, &ms, p);
                if (r != OK)
                        return r;
                cli_request_add_str(req, "IN");
                cli_request_add_int(req, ms);
        }
        if (at) {
                int r = moment_parse("--at", at, clock_wall_ms(), &ms, p);
                if (r != OK)
                        return r;
                cli_request_add_str(req, "AT");
                cli_request_add_int(req, ms);
        }
        if (timeout) {
                int r = duration_parse("--timeout", timeout, &ms, p);
                if (r != OK)
                        return r;
                cli_request_add_str(req, "TIMEOUT");
                cli_request_add_int(req, ms);
        }
        return OK;
}

static int add_one(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        struct buf args CLEANUP(buf_release);
        const struct value *v;
        buf_init(&args, 0);
        int r = OK;
        if (cli->args.n_positional > 1)
                r = read_args(cli->args.positional[1], &args, p);
        if (r != OK)
                return r;
        cli_request_init(&req, "ENQUEUE");
        cli_request_add_str(&req, cli->args.positional[0]);
        cli_request_add(&req, buf_slice(&args));
        r = add_options(&cli->args, &req, p);
        if (r == OK)
                r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        if (cli->is_json)
                value_put_json(&cli->out, v);
        else
                buf_printf(&cli->out, args_has(&cli->args, "id-only") ? "%lld" : "added job %lld",
                           (long long)value_int(v, 0));
        buf_put_byte(&cli->out, '\n');
        return OK;
}

struct many {
        struct slice *argv;
        size_t argc, first; /* words before the first job */
        size_t bytes;
        uint64_t added;
};

/* Sends what was collected; the ids go to cli->out. */
static int many_flush(struct cli *cli, struct many *m, struct problem *p)
{
        const struct value *v;
        if (m->argc == m->first)
                return OK;
        int r = client_call(&cli->client, m->argv, m->argc, &v, p);
        if (r != OK)
                return r;
        for (size_t i = 0; i < v->n; i++) {
                if (cli->is_json)
                        buf_put_str(&cli->out, m->added ? "," : "");
                if (cli->is_json || args_has(&cli->args, "id-only"))
                        buf_put_i64(&cli->out, value_int(&v->items[i], 0));
                if (!cli->is_json && args_has(&cli->args, "id-only"))
                        buf_put_byte(&cli->out, '\n');
                m->added++;
        }
        m->argc = m->first;
        m->bytes = 0;
        return OK;
}

static int many_lines(struct cli *cli, struct many *m, struct slice text, struct problem *p)
{
        while (text.len) {
                const char *end = memchr(text.ptr, '\n', text.len);
                size_t len = end ? (size_t)(end - text.ptr) : text.len;
                struct slice line = slice_make(text.ptr, len);
                text = slice_make(text.ptr + len + (end ? 1 : 0), text.len - len - (end ? 1 : 0));
                if (line.len && line.ptr[line.len - 1] == '\r')
                        line.len--;
                if (line.len == 0)
                        continue;
                bool is_full = m->argc - m->first >= 2 * (size_t)MANY_MAX_JOBS ||
                               m->bytes + line.len > MANY_MAX_BYTES;
                int r = is_full ? many_flush(cli, m, p) : OK;
                if (r != OK)
                        return r;
                m->argv[m->argc++] = slice_str(cli->args.positional[0]);
                m->argv[m->argc++] = line;
                m->bytes += line.len;
        }
        return many_flush(cli, m, p);
}

static int add_many(struct cli *cli, struct problem *p)
{
        struct cli_request req;
        struct buf text CLEANUP(buf_release);
        struct many m = {0};
        buf_init(&text, 0);
        if (cli->args.n_positional > 1)
                return problem_set(p, ERR_SYNTAX, "with --many the file holds the arguments");
        cli_request_init(&req, "ENQUEUEMANY");
        int r = add_options(&cli->args, &req, p);
        if (r == OK)
                r = read_whole(args_get(&cli->args, "many"), 1024 * MIB, &text, p);
        if (r != OK)
                return r;
        cli_request_add_str(&req, "JOBS");
        m.argv = xcalloc(REQUEST_WORDS_MAX + 2 * (size_t)MANY_MAX_JOBS, sizeof(*m.argv));
        memcpy(m.argv, req.argv, req.argc * sizeof(*m.argv));
        m.argc = m.first = req.argc;
        if (cli->is_json)
                buf_put_byte(&cli->out, '[');
        r = many_lines(cli, &m, buf_slice(&text), p);
        free(m.argv);
        if (r != OK && m.added) {
                struct problem cause = *p;
                return problem_set(p, r, "%.200s (after %llu jobs had been added)", cause.detail,
                                   (unsigned long long)m.added);
        }
        if (cli->is_json)
                buf_put_str(&cli->out, "]\n");
        else if (!args_has(&cli->args, "id-only"))
                buf_printf(&cli->out, "added %llu jobs\n", (unsigned long long)m.added);
        return r;
}

static int job_add(struct cli *cli, struct problem *p)
{
        return args_has(&cli->args, "many") ? add_many(cli, p) : add_one(cli, p);
}

static enum tone status_tone(struct slice status)
{
        static const struct {
                struct slice status;
                enum tone tone;
        } tones[] = {
                {SLICE_LIT("pending"), TONE_YELLOW}, {SLICE_LIT("in-progress"), TONE_BLUE},
                {SLICE_LIT("complete"), TONE_GREEN}, {SLICE_LIT("failed"), TONE_RED},
                {SLICE_LIT("canceled"), TONE_DIM},
        };
        for (size_t i = 0; i < ARRAY_LEN(tones); i++)
                if (slice_eq(tones[i].status, status))
                        return tones[i].tone;
        return TONE_PLAIN;
}

static int64_t field_int(const struct value *job, const char *key)
{
        return value_int(value_get(job, key), 0);
}

static struct slice field(const struct value *job, const char *key)
{
        return value_text(value_get(job, key));
}

/* What matters about its time: when it will run, since when it runs, how long ago it ended. */
static void put_when(struct buf *b, const struct value *job, int64_t now_ms)
{
        int64_t due = field_int(job, "due_ms"), started = field_int(job, "started_ms");
        int64_t finished = field_int(job, "finished_ms");
        struct slice status = field(job, "status");
        if (finished > 0) {
                moment_put_relative(b, finished, now_ms);
        } else if (slice_eq(status, SLICE_LIT("in-progress")) && started > 0) {
                buf_put_str(b, "for ");
                duration_put(b, now_ms > started ? now_ms - started : 0);
        } else if (due > now_ms) {
                moment_put_relative(b, due, now_ms);
        } else {
                buf_put_str(b, "due for ");
                duration_put(b, now_ms - due);
        }
}

static struct slice job_detail(const struct value *job)
{
        struct slice error = field(job, "error"), progress = field(job, "progress");
        struct slice status = field(job, "status");
        if (slice_eq(status, SLICE_LIT("failed")) && error.len)
                return error;
        if (slice_eq(status, SLICE_LIT("in-progress")) && progress.len)
                return progress;
        return field(job, "args");
}

static void list_row(struct table *t, const struct value *job, int64_t now_ms)
{
        struct buf when CLEANUP(buf_release);
        char attempt[32];
        buf_init(&when, 0);
        put_when(&when, job, now_ms);
        (void)snprintf(attempt, sizeof(attempt), "%lld/%lld", (long long)field_int(job, "attempt"),
                       (long long)field_int(job, "attempts"));
        struct slice status = field(job, "status");
        table_add_int(t, field_int(job, "id"));
        table_add(t, status, status_tone(status));
        table_add(t, field(job, "hook"), TONE_PLAIN);
        table_add(t, field(job, "queue"), TONE_PLAIN);
        table_add(t, field(job, "group"), TONE_PLAIN);
        table_add(t, slice_str(attempt), TONE_PLAIN);
        table_add(t, buf_slice(&when), TONE_DIM);
        /* A listing shows the beginning; a megabyte in a row helps nobody, pipe or not. */
        struct slice detail = job_detail(job);
        detail.len = detail.len > 200 ? 200 : detail.len;
        table_add(t, detail, TONE_PLAIN);
}

struct listing {
        struct table table;
        struct buf cursor; /* where the next page begins; empty at the end */
        uint64_t n;
        int64_t now_ms;
};

static int list_page(struct cli *cli, struct listing *l, struct problem *p)
{
        static const char *const filters[][2] = {{"status", "STATUS"},
                                                 {"hook", "HOOK"},
                                                 {"queue", "QUEUE"},
                                                 {"group", "GROUP"},
                                                 {"match", "MATCH"}};
        struct cli_request req;
        const struct value *v;
        const char *limit = args_get(&cli->args, "limit");
        bool is_all = args_has(&cli->args, "all");
        cli_request_init(&req, "JOBS");
        for (size_t i = 0; i < ARRAY_LEN(filters); i++)
                cli_request_add_option(&req, &cli->args, filters[i][0], filters[i][1]);
        cli_request_add_str(&req, "LIMIT");
        cli_request_add_str(&req, limit ? limit : (is_all ? LIST_ALL_STEP : LIST_DEFAULT));
        if (l->cursor.len) {
                cli_request_add_str(&req, "CURSOR");
                cli_request_add(&req, buf_slice(&l->cursor));
        }
        int r = cli_request_call(cli, &req, &v, p);
        if (r != OK)
                return r;
        const struct value *jobs = value_get(v, "jobs");
        for (size_t i = 0; jobs && i < jobs->n; i++, l->n++) {
                if (cli->is_json) {
                        buf_put_str(&cli->out, l->n ? "," : "");
                        value_put_json(&cli->out, &jobs->items[i]);
                } else {
                        list_row(&l->table, &jobs->items[i], l->now_ms);
                }
        }
        buf_clear(&l->cursor);
        buf_put_slice(&l->cursor, field(v, "cursor"));
        return OK;
}

static const struct column list_columns[] = {
        {"ID", true, false},    {"STATUS", false, false}, {"HOOK", false, true},
        {"QUEUE", false, true}, {"GROUP", false, true},   {"ATTEMPT", true, false},
        {"WHEN", false, false}, {"DETAIL", false, true},
};

static void list_finish(struct cli *cli, struct listing *l)
{
        if (cli->is_json) {
                struct value cursor = {.type = VALUE_TEXT, .text = buf_slice(&l->cursor)};
                buf_put_str(&cli->out, "],\"cursor\":");
                value_put_json(&cli->out, &cursor);
                buf_put_str(&cli->out, "}\n");
                return;
        }
        if (l->n == 0) {
                buf_put_str(&cli->notes, "no jobs\n");
                return;
        }
        table_print(&l->table, &cli->screen, &cli->out);
        if (l->cursor.len)
                buf_printf(&cli->notes,
                           "there are more: --all shows them, --cursor %s the next page\n",
                           buf_cstr(&l->cursor));
}

static int job_list(struct cli *cli, struct problem *p)
{
        struct listing l = {.now_ms = clock_wall_ms()};
        const char *cursor = args_get(&cli->args, "cursor");
        table_init(&l.table, list_columns, ARRAY_LEN(list_columns));
        buf_init(&l.cursor, 0);
        if (cursor)
                buf_put_str(&l.cursor, cursor);
        if (cli->is_json)
                buf_put_str(&cli->out, "{\"jobs\":[");
        int r;
        do {
                r = list_page(cli, &l, p);
        } while (r == OK && l.cursor.len && args_has(&cli->args, "all"));
        if (r == OK)
                list_finish(cli, &l);
        else
                buf_clear(&cli->out);
        table_release(&l.table);
        buf_release(&l.cursor);
        return r;
}

static void put_label(struct cli *cli, const char *name)
{
        char label[16];
        int len = snprintf(label, sizeof(label), "  %-11s", name);
        screen_put_toned(&cli->screen, &cli->out, TONE_DIM, slice_make(label, (size_t)len));
}

static void show_text(struct cli *cli, const char *name, struct slice text)
{
        if (text.len == 0)
                return;
        put_label(cli, name);
        text_put_safe_lines(&cli->out, text, 13);
        buf_put_byte(&cli->out, '\n');
}

static void show_moment(struct cli *cli, const char *name, int64_t at_ms, int64_t now_ms)
{
        if (at_ms <= 0)
                return;
        put_label(cli, name);
        moment_put(&cli->out, at_ms);
        buf_put_str(&cli->out, " (");
        moment_put_relative(&cli->out, at_ms, now_ms);
        buf_put_str(&cli->out, ")\n");
}

static void show_numbers(struct cli *cli, const struct value *job)
{
        int64_t timeout = field_int(job, "timeout"), fence = field_int(job, "fence");
        put_label(cli, "priority");
        buf_printf(&cli->out, "%lld\n", (long long)field_int(job, "priority"));
        put_label(cli, "attempt");
        buf_printf(&cli->out, "%lld of %lld\n", (long long)field_int(job, "attempt"),
                   (long long)field_int(job, "attempts"));
        if (timeout > 0) {
                put_label(cli, "timeout");
                duration_put(&cli->out, timeout);
                buf_put_byte(&cli->out, '\n');
        }
        if (fence > 0) {
                put_label(cli, "fence");
                buf_printf(&cli->out, "%lld\n", (long long)fence);
        }
}

static void show_times(struct cli *cli, const struct value *job, int64_t now_ms)
{
        int64_t started = field_int(job, "started_ms"), finished = field_int(job, "finished_ms");
        bool is_pending = slice_eq(field(job, "status"), SLICE_LIT("pending"));
        show_moment(cli, "created", field_int(job, "created_ms"), now_ms);
        if (is_pending)
                show_moment(cli, "due", field_int(job, "due_ms"), now_ms);
        show_moment(cli, "started", started, now_ms);
        show_moment(cli, "finished", finished, now_ms);
        if (started > 0 && finished >= started) {
                put_label(cli, "took");
                duration_put(&cli->out, finished - started);
                buf_put_byte(&cli->out, '\n');
        }
        show_moment(cli, "lease until", field_int(job, "lease_until_ms"), now_ms);
}

static enum tone event_tone(struct slice event)
{
        if (slice_eq(event, SLICE_LIT("completed")))
                return TONE_GREEN;
        if (slice_eq(event, SLICE_LIT("failed")) || slice_eq(event, SLICE_LIT("timed out")))
                return TONE_RED;
        return TONE_BOLD;
}

/* One line an event: when, how long after the one before, what, by whom, what was said. */
static void put_events(struct cli *cli, const struct value *events)
{
        int64_t last_ms = 0;
        for (size_t i = 0; i < events->n; i++) {
                const struct value *e = &events->items[i];
                struct slice name = field(e, "event"), worker = field(e, "worker");
                struct slice message = field(e, "message");
                int64_t at_ms = field_int(e, "at_ms");
                struct buf since CLEANUP(buf_release);
                buf_init(&since, 0);
                if (last_ms) {
                        buf_put_byte(&since, '+');
                        duration_put(&since, at_ms > last_ms ? at_ms - last_ms : 0);
                }
                buf_put_str(&cli->out, "  ");
                moment_put(&cli->out, at_ms);
                buf_printf(&cli->out, "  %-12s  ", buf_cstr(&since));
                screen_put_toned(&cli->screen, &cli->out, event_tone(name), name);
                if (worker.len) {
                        buf_put_str(&cli->out, " by ");
                        text_put_safe(&cli->out, worker);
                }
                if (message.len) {
                        buf_put_str(&cli->out, ": ");
                        text_put_safe(&cli->out, message);
                }
                buf_put_byte(&cli->out, '\n');
                last_ms = at_ms;
        }
}

static void put_job(struct cli *cli, const struct value *job)
{
        int64_t now_ms = clock_wall_ms();
        struct slice status = field(job, "status");
        buf_printf(&cli->out, "job %lld  ", (long long)field_int(job, "id"));
        screen_put_toned(&cli->screen, &cli->out, status_tone(status), status);
        buf_put_byte(&cli->out, '\n');
        show_text(cli, "hook", field(job, "hook"));
        show_text(cli, "queue", field(job, "queue"));
        show_text(cli, "group", field(job, "group"));
        show_numbers(cli, job);
        show_times(cli, job, now_ms);
        show_text(cli, "worker", field(job, "worker"));
        show_text(cli, "args", field(job, "args"));
        show_text(cli, "progress", field(job, "progress"));
        show_text(cli, "result", field(job, "result"));
        show_text(cli, "error", field(job, "error"));
}

static int call_with_id(struct cli *cli, const char *command, const struct value **ret,
                        struct problem *p)
{
        struct cli_request req;
        cli_request_init(&req, command);
        cli_request_add_str(&req, cli->args.positional[0]);
        return cli_request_call(cli, &req, ret, p);
}

static int job_show(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = call_with_id(cli, "JOB", &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                value_put_json(&cli->out, v);
                if (cli->out.len && cli->out.ptr[cli->out.len - 1] == '}')
                        cli->out.len--; /* the events join the map */
        } else {
                put_job(cli, v);
        }
        r = call_with_id(cli, "EVENTS", &v, p);
        if (r != OK) {
                buf_clear(&cli->out);
                return r;
        }
        if (cli->is_json) {
                buf_put_str(&cli->out, ",\"events\":");
                value_put_json(&cli->out, v);
                buf_put_str(&cli->out, "}\n");
                return OK;
        }
        buf_put_str(&cli->out, "events\n");
        put_events(cli, v);
        return OK;
}

static int job_events(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = call_with_id(cli, "EVENTS", &v, p);
        if (r != OK)
                return r;
        if (cli->is_json) {
                value_put_json(&cli->out, v);
                buf_put_byte(&cli->out, '\n');
        } else {
                put_events(cli, v);
        }
        return OK;
}

static int job_cancel(struct cli *cli, struct problem *p)
{
        const struct value *v;
        int r = call_with_id(cli, "CANCEL", &v, p);
        if (r != OK)
                return r;
        if (cli->is_json)
                value_put_json(&cli->out, v);
        else
                buf_printf(&cli->out, "canceled job %s", cli->args.positional[0]);
        buf_put_byte(&cli->out, '\n');
        return OK;
}

static const struct option_def add_option_table[] = {
        {"queue", "NAME", "the queue it waits in (default)"},
        {"group", "NAME", "a name to find related jobs by"},
        {"priority", "N", "0 to 255, lower runs first (100)"},
        {"in", "DURATION", "not before this long from now: 500ms, 30s, 5m, 2h, 1d"},
        {"at", "TIME", "not before: 2026-11-15T10:00[Z|+01:00], 10:00, @UNIX"},
        {"timeout", "DURATION", "how long one attempt may go without a sign of life (5m)"},
        {"attempts", "N", "how often it is tried (3)"},
        {"many", "FILE", "one job for each line of FILE (- for stdin); the line is its ARGS"},
        {"id-only", NULL, "print the id and nothing else"},
        {NULL, NULL, NULL},
};

static const struct option_def list_option_table[] = {
        {"status", "STATUS", "pending, in-progress, complete, failed or canceled"},
        {"hook", "NAME", "jobs of this hook"},
        {"queue", "NAME", "jobs of this queue"},
        {"group", "NAME", "jobs of this group"},
        {"match", "TEXT", "jobs whose hook, args, result or error hold TEXT"},
        {"limit", "N", "at most this many, up to 1000 (50)"},
        {"cursor", "CURSOR", "continue where an earlier listing ended"},
        {"all", NULL, "all of them, page after page"},
        {NULL, NULL, NULL},
};

static const struct cli_command commands[] = {
        {"add", "HOOK [ARGS | - | @FILE]", "Add a job to a queue.",
         "HOOK says what is to be done, ARGS with what (often JSON; any bytes will do).\n"
         "'-' reads ARGS from standard input, '@FILE' from a file.\n\n"
         "  weir job add resize '{\"image\": 17}' --queue media\n"
         "  weir job add report --at 06:00 --attempts 5\n",
         add_option_table, 1, 2, false, job_add},
        {"list", "", "List jobs, newest first, waiting or finished.", NULL, list_option_table, 0, 0,
         false, job_list},
        {"show", "ID", "Show a job and its whole story.", NULL, NULL, 1, 1, false, job_show},
        {"cancel", "ID", "Cancel a job that has not finished.", NULL, NULL, 1, 1, false,
         job_cancel},
        {"events", "ID", "Show what happened to a job.", NULL, NULL, 1, 1, false, job_events},
};

const struct cli_group cli_group_job = {"job", "Add, list, show and cancel jobs.", commands,
                                        ARRAY_LEN(commands)};
