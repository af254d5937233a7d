/* weir job add: one job, or one for each line of a file.
 *
 * Most options come from the row of ENQUEUE (cli/params.h).
 *
 * Many unsigned jobs travel in few large requests.  A signature is over one job's args, so signed
 * jobs go one by one.  Their priority, attempts and timeout are always sent, because the signature
 * must cover the values that the job has in the end, not defaults that the server may change. */
#include "cli/add.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/add_file.h"
#include "cli/bulk.h"
#include "cli/json.h"
#include "cli/params.h"
#include "cli/text.h"
#include "wire/sign.h"

#define KEYS_MAX_BYTES (16 * KIB) /* of a key file; all keys that may be in one fit */

/* The server's defaults, which a signature must cover. */
#define PRIORITY_DEFAULT   100
#define ATTEMPTS_DEFAULT   3
#define TIMEOUT_DEFAULT_MS 300000

/* Besides those of ENQUEUE. */
const struct option_def add_options[] = {
        {"after", "ID,ID...", "not before these jobs have ended; repeatable"},
        {"sign", "FILE", "sign it with a key of this file; see signing_keys_file in weir.conf(5)"},
        {"sign-key", "ID", "the key to sign with (the first of the file)"},
        {"many", "FILE", "one job for each line of FILE (- for stdin); the line is its ARGS"},
        {"file", "FILE", "jobs as lines of JSON (- for stdin), as POST /v1/jobs takes them"},
        {"skip-bad", NULL, "with --file: leave out lines that are no job, and tell which"},
        {"once", "KEY", "with --file: again with the same KEY and FILE adds nothing twice (24 h)"},
        {"id-only", NULL, "print the id and nothing else"},
        {NULL, NULL, NULL},
};

struct adding {
        struct cli *cli;
        struct cli_request req;   /* signed: ENQUEUE hook args ... SIGNATURE text */
        struct buf after;         /* all ids of --after */
        struct sign_keys keys;    /* none: not signed */
        struct sign_fields signs; /* all but args, which each job has its own */
        char signature[SIGN_TEXT_MAX];
};

/* All ids of a repeated --after count: a job must not wait for fewer jobs than were named. */
static int add_given(struct adding *a, struct problem *p)
{
        const struct args *args = &a->cli->args;
        size_t at = 0;
        if (args_has(args, "in") && args_has(args, "at"))
                return problem_set(p, ERR_BADARG, "--in and --at exclude each other");
        for (const char *ids; (ids = args_next(args, "after", &at));)
                buf_printf(&a->after, "%s%s", a->after.len ? "," : "", ids);
        if (args_has(args, "after")) {
                cli_request_add_str(&a->req, "AFTER");
                cli_request_add(&a->req, buf_slice(&a->after));
        }
        return cli_request_add_params(&a->req, a->cli, p);
}

/* ---- signed jobs ---- */

static int load_keys(struct adding *a, const char *path, struct problem *p)
{
        struct stat st;
        struct problem why = {0};
        struct buf text CLEANUP(buf_release) = {0};
        if (stat(path, &st) != 0)
                return problem_set(p, ERR_IO, "cannot read %s: %s", SHOWN_LONG(path),
                                   strerror(errno));
        if (st.st_mode & (S_IWGRP | S_IWOTH | S_IROTH))
                return problem_set(p, ERR_FORBIDDEN,
                                   "%s can be read or written by others: chmod 600 it",
                                   SHOWN_LONG(path));
        int r = cli_read_file(path, KEYS_MAX_BYTES, &text, p);
        if (r == OK) {
                r = sign_keys_load(&a->keys, buf_slice(&text), &why);
                if (r != OK)
                        (void)problem_set(p, r, "%s: %s", SHOWN_MAX(slice_str(path), 100),
                                          SHOWN_MAX(slice_str(why.detail), 180));
                else if (!a->keys.len)
                        r = problem_set(p, ERR_BADARG, "%s holds no key", SHOWN_LONG(path));
        }
        if (text.ptr)
                explicit_bzero(text.ptr, text.cap);
        return r;
}

static struct slice text_or(const struct args *args, const char *option, const char *fallback)
{
        const char *text = args_get(args, option);
        return slice_str(text ? text : fallback);
}

static void add_signed_number(struct adding *a, const char *option, const char *keyword, int64_t n,
                              uint64_t *ret)
{
        *ret = (uint64_t)n;
        if (args_has(&a->cli->args, option))
                return;
        cli_request_add_str(&a->req, keyword);
        cli_request_add_int(&a->req, n);
}

static int add_signed(struct adding *a, struct problem *p)
{
        const struct args *args = &a->cli->args;
        const char *timeout = args_get(args, "timeout");
        const char *conflict = args_get(args, "conflict");
        int64_t priority = PRIORITY_DEFAULT, attempts = ATTEMPTS_DEFAULT;
        int64_t timeout_ms = TIMEOUT_DEFAULT_MS;
        if (conflict && strcmp(conflict, "replace") == 0)
                return problem_set(p, ERR_BADARG,
                                   "--sign and --conflict replace exclude each other: the job "
                                   "would get these args and keep its own signature");
        int r = args_number(args, "priority", (struct range){0, 255}, &priority, p);
        if (r == OK)
                r = args_number(args, "attempts", (struct range){0, UINT32_MAX}, &attempts, p);
        if (r == OK && timeout)
                r = duration_parse("--timeout", timeout, &timeout_ms, p);
        if (r == OK)
                r = add_given(a, p);
        if (r != OK)
                return r;
        add_signed_number(a, "priority", "PRIORITY", priority, &a->signs.priority);
        add_signed_number(a, "attempts", "ATTEMPTS", attempts, &a->signs.attempts);
        add_signed_number(a, "timeout", "TIMEOUT", timeout_ms, &a->signs.timeout_ms);
        a->signs.hook = slice_str(args->positional[0]);
        a->signs.queue = text_or(args, "queue", "default");
        a->signs.group = text_or(args, "group", "");
        a->signs.single = text_or(args, "key", "");
        cli_request_add_str(&a->req, "SIGNATURE");
        cli_request_add_str(&a->req, "");
        return OK;
}

/* Sends the one job with these args, signed if that was asked for. */
static int call_one(struct adding *a, struct slice args, const struct value **ret,
                    struct problem *p)
{
        a->req.argv[2] = args;
        if (a->keys.len) {
                a->signs.args = args;
                int r = sign_make(&a->keys, text_or(&a->cli->args, "sign-key", ""), &a->signs,
                                  a->signature, p);
                if (r != OK)
                        return r;
                a->req.argv[a->req.argc - 1] = slice_str(a->signature);
        }
        return cli_request_call(a->cli, &a->req, ret, p);
}

/* ENQUEUE hook args options; the args come later. */
static int prepare_one(struct adding *a, struct problem *p)
{
        cli_request_init(&a->req, "ENQUEUE");
        cli_request_add_str(&a->req, a->cli->args.positional[0]);
        cli_request_add_str(&a->req, "");
        return a->keys.len ? add_signed(a, p) : add_given(a, p);
}

/* The answer is an id, and with a unique key it may be that of a job that was there. */
static void put_added(struct buf *out, const struct args *args, long long id)
{
        const char *conflict = args_get(args, "conflict");
        bool is_new = !args_has(args, "unique") ||
                      (conflict && slice_eq_nocase(slice_str(conflict), SLICE_LIT("reject")));
        if (args_has(args, "id-only"))
                buf_printf(out, "%lld", id);
        else if (is_new)
                buf_printf(out, "added job %lld", id);
        else
                buf_printf(out, "job %lld holds the unique key: added now, or there before", id);
}

static int add_one(struct adding *a, struct problem *p)
{
        struct cli *cli = a->cli;
        struct buf args CLEANUP(buf_release) = {0};
        const struct value *v;
        int r = OK;
        if (cli->args.n_positional > 1)
                r = cli_read_args(cli->args.positional[1], &args, p);
        if (r == OK)
                r = prepare_one(a, p);
        if (r == OK)
                r = call_one(a, buf_slice(&args), &v, p);
        if (r != OK)
                return r;
        if (cli->is_json)
                value_put_json(&cli->out, v);
        else
                put_added(&cli->out, &cli->args, value_int(v, 0));
        buf_put_byte(&cli->out, '\n');
        return OK;
}

/* ---- many ---- */

struct many {
        struct adding *adding;
        struct slice *argv;
        size_t argc, first; /* words before the first job */
        size_t bytes;
        uint64_t added;
};

static void many_added(struct many *m, const struct value *id)
{
        struct cli *cli = m->adding->cli;
        bool is_listed = args_has(&cli->args, "id-only");
        if (cli->is_json)
                buf_put_str(&cli->out, m->added ? "," : "");
        if (cli->is_json || is_listed)
                buf_put_i64(&cli->out, value_int(id, 0));
        if (!cli->is_json && is_listed)
                buf_put_byte(&cli->out, '\n');
        m->added++;
}

/* Sends what was collected; the ids go to cli->out. */
static int many_flush(struct many *m, struct problem *p)
{
        const struct value *v;
        if (m->argc == m->first)
                return OK;
        int r = client_call(&m->adding->cli->client, m->argv, m->argc, &v, p);
        if (r != OK)
                return r;
        for (size_t i = 0; i < v->n; i++)
                many_added(m, &v->items[i]);
        m->argc = m->first;
        m->bytes = 0;
        return OK;
}

static int many_line(struct many *m, struct slice line, struct problem *p)
{
        const struct value *v;
        if (m->adding->keys.len) {
                int r = call_one(m->adding, line, &v, p);
                if (r == OK)
                        many_added(m, v);
                return r;
        }
        bool is_full = m->argc - m->first >= 2 * (size_t)BULK_CHUNK_JOBS ||
                       m->bytes + line.len > BULK_CHUNK_BYTES;
        int r = is_full ? many_flush(m, p) : OK;
        if (r != OK)
                return r;
        m->argv[m->argc++] = slice_str(m->adding->cli->args.positional[0]);
        m->argv[m->argc++] = line;
        m->bytes += line.len;
        return OK;
}

static int many_lines(struct many *m, struct slice text, struct problem *p)
{
        while (text.len) {
                struct slice line = text_take_line(&text);
                if (line.len && line.ptr[line.len - 1] == '\r')
                        line.len--;
                int r = line.len ? many_line(m, line, p) : OK;
                if (r != OK)
                        return r;
        }
        return many_flush(m, p);
}

/* ENQUEUEMANY options JOBS; signed jobs go one by one. */
static int prepare_many(struct adding *a, struct problem *p)
{
        if (a->cli->args.n_positional > 1)
                return problem_set(p, ERR_SYNTAX, "with --many the file holds the arguments");
        if (a->keys.len)
                return prepare_one(a, p);
        cli_request_init(&a->req, "ENQUEUEMANY");
        int r = add_given(a, p);
        cli_request_add_str(&a->req, "JOBS");
        return r;
}

static int add_many(struct adding *a, struct problem *p)
{
        struct cli *cli = a->cli;
        struct buf text CLEANUP(buf_release) = {0};
        struct many m = {.adding = a};
        int r = prepare_many(a, p);
        if (r == OK)
                r = cli_read_file(args_get(&cli->args, "many"), 1024 * MIB, &text, p);
        if (r != OK)
                return r;
        m.argv = xcalloc(REQUEST_WORDS_MAX + 2 * (size_t)BULK_CHUNK_JOBS, sizeof(*m.argv));
        memcpy(m.argv, a->req.argv, a->req.argc * sizeof(*m.argv));
        m.argc = m.first = a->req.argc;
        if (cli->is_json)
                buf_put_str(&cli->out, "{\"ids\":[");
        r = many_lines(&m, buf_slice(&text), p);
        free(m.argv);
        if (r != OK && m.added) {
                struct problem cause = *p;
                return problem_set(p, r, "%s (after %llu %s had been added)",
                                   SHOWN_LONG(cause.detail), (unsigned long long)m.added,
                                   plural(m.added, "job", "jobs"));
        }
        if (cli->is_json)
                buf_put_str(&cli->out, "]}\n");
        else if (!args_has(&cli->args, "id-only"))
                buf_printf(&cli->out, "added %llu %s\n", (unsigned long long)m.added,
                           plural(m.added, "job", "jobs"));
        return r;
}

/* The options apply to every line that does not set them itself. */
static int add_from_file(struct adding *a, struct problem *p)
{
        const struct args *args = &a->cli->args;
        if (args_has(args, "sign") || args_has(args, "many"))
                return problem_set(p, ERR_BADARG,
                                   "--file excludes --many and --sign: a line of the file has its "
                                   "own args, and its own signature");
        if (args->n_positional > 1)
                return problem_set(p, ERR_SYNTAX, "with --file the file holds the arguments");
        cli_request_init(&a->req, "ENQUEUEMANY");
        int r = add_given(a, p);
        return r == OK ? add_file(a->cli, a->req.argv + 1, a->req.argc - 1, p) : r;
}

int cli_job_add(struct cli *cli, struct problem *p)
{
        struct adding a = {.cli = cli};
        const struct args *args = &cli->args;
        const char *keys = args_get(args, "sign");
        bool has_file = args_has(args, "file");
        int r = OK;
        if (!has_file && (args_has(args, "skip-bad") || args_has(args, "once")))
                return problem_set(p, ERR_BADARG, "--skip-bad and --once need --file");
        if (!has_file && !args->n_positional)
                return problem_set(p, ERR_SYNTAX, "missing argument: HOOK, or --file FILE");
        if (!keys && args_has(args, "sign-key"))
                return problem_set(p, ERR_BADARG, "--sign-key needs --sign FILE");
        sign_keys_init(&a.keys);
        if (!has_file && keys)
                r = load_keys(&a, keys, p);
        if (r == OK && has_file)
                r = add_from_file(&a, p);
        else if (r == OK)
                r = args_has(args, "many") ? add_many(&a, p) : add_one(&a, p);
        buf_release(&a.after);
        sign_keys_release(&a.keys);
        return r;
}
