/* weir export: what there is, as lines of JSON, for moving to another weir, for a look with jq, or
 * for keeping what was set by hand under version control.
 *
 *      {"type":"weir","version":1,"at_ms":...}
 *      {"type":"limit","name":"api","amount":100,...}      one line a thing, cli/kinds.c
 *      {"type":"job","id":17,"status":"pending",...}       oldest first, so that a job comes after
 *      {"type":"end","lines":2}                            those that it waits for
 *
 * It is written as it comes, a page at a time, so a million jobs take no memory here; the last line
 * tells a whole file from one that broke off.  It is not one moment: what changes meanwhile may be
 * in it or not.  `weir backup` is. */
#include <errno.h>
#include <stdio.h>
/* OpenSSL has a type of that name, which nothing here uses; ours is an error. */
#define ERR_STATE openssl_err_state
#include <openssl/evp.h>
#undef ERR_STATE
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/job_line.h"
#include "cli/json.h"
#include "cli/kinds.h"
#include "cli/listing.h"
#include "cli/progress.h"
#include "wire/json.h"

#define PAGE        "1000"
#define WRITE_BYTES (256 * KIB)
#define DEPTH_MAX   64

struct exporting {
        struct cli *cli;
        struct progress progress;
        uint64_t lines, jobs;
        struct buf cursor;
};

/* ---- writing ---- */

static int write_some(struct exporting *x, size_t threshold, struct problem *p)
{
        struct buf *b = &x->cli->out;
        if (b->failed)
                return problem_set(p, ERR_NOMEM, "no memory for the output");
        if (b->len < threshold || !b->len)
                return OK;
        if (fwrite(b->ptr, 1, b->len, stdout) != b->len || fflush(stdout) != 0)
                return problem_set(p, ERR_IO, "cannot write the output: %s", strerror(errno));
        buf_clear(b);
        return OK;
}

static void put_base64(struct buf *b, struct slice bytes)
{
        buf_put_byte(b, '"');
        if (buf_reserve(b, 4 * (bytes.len / 3 + 1) + 1)) /* and the NUL that OpenSSL adds */
                b->len += (size_t)EVP_EncodeBlock((unsigned char *)b->ptr + b->len,
                                                  (const unsigned char *)bytes.ptr, (int)bytes.len);
        buf_put_byte(b, '"');
}

/* Payloads are bytes: JSON stays as it is, others are wrapped.  None at all is left out. */
static void put_args(struct buf *b, struct slice args)
{
        if (!args.len)
                return;
        if (json_is_valid(args, DEPTH_MAX) && !memchr(args.ptr, '\n', args.len)) {
                json_put_key(b, "args");
                buf_put_slice(b, args);
        } else {
                json_put_key(b, "args_base64");
                put_base64(b, args);
        }
}

static void put_field(struct buf *b, const char *name, const struct value *v)
{
        bool is_nothing = !v || v->type == VALUE_NULL || (v->type == VALUE_TEXT && !v->text.len);
        if (strcmp(name, "args") == 0) {
                put_args(b, value_text(v));
        } else if (!is_nothing) {
                json_put_key(b, name);
                value_put_json(b, v);
        }
}

static void begin_line(struct buf *b, const char *type)
{
        buf_put_byte(b, '{');
        json_put_key(b, "type");
        json_put_text(b, slice_str(type));
}

/* ---- things ---- */

static bool is_true(const struct value *v, const char *key)
{
        const struct value *found = key ? value_get(v, key) : NULL;
        return found && found->num;
}

static void put_thing(struct exporting *x, const struct kind *k, const struct value *v)
{
        struct buf *b = &x->cli->out;
        struct slice list = field_text(v, "list"), kind = field_text(v, "kind");
        if ((k->wanted && !is_true(v, k->wanted)) || is_true(v, k->unwanted))
                return;
        begin_line(b, k->type);
        for (size_t i = 0; k->words[i]; i++)
                put_field(b, k->words[i], value_get(v, k->words[i]));
        for (const struct kind_field *f = k->fields; f->name; f++) {
                bool is_list = list.len && slice_eq(slice_str(f->name), kind);
                put_field(b, f->name, value_get(v, is_list ? "list" : f->name));
        }
        if (k->then_field)
                put_field(b, k->then_field, value_get(v, k->then_field));
        buf_put_str(b, "}\n");
        x->lines++;
}

/* One of them in full, by a question of its own; the names come from a copy of the list, since the
 * answer to the next question takes its place. */
static int put_shown(struct exporting *x, const struct kind *k, struct slice name,
                     struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, k->show);
        cli_request_add(&req, name);
        int r = cli_request_call(x->cli, &req, &v, p);
        if (r == OK)
                put_thing(x, k, v);
        return r == ERR_NOTFOUND ? OK : r; /* gone since it was listed */
}

static int put_rows(struct exporting *x, const struct kind *k, const struct value *rows,
                    struct problem *p)
{
        struct arena names;
        int r = OK;
        size_t n = rows && rows->type == VALUE_LIST ? rows->n : 0;
        if (!k->show) {
                for (size_t i = 0; i < n; i++)
                        put_thing(x, k, &rows->items[i]);
                return OK;
        }
        arena_init(&names, 0);
        struct slice *list = xcalloc(n + 1, sizeof(*list));
        for (size_t i = 0; i < n; i++)
                list[i] = arena_copy(&names, field_text(&rows->items[i], "name"));
        for (size_t i = 0; i < n && r == OK; i++)
                r = list[i].ptr ? put_shown(x, k, list[i], p)
                                : problem_set(p, ERR_NOMEM, "no memory for a list");
        free(list);
        arena_release(&names);
        return r;
}

static int put_kind(struct exporting *x, const struct kind *k, struct problem *p)
{
        int r;
        buf_clear(&x->cursor);
        do {
                struct cli_request req;
                const struct value *v;
                cli_request_init(&req, k->list);
                if (k->key && x->cursor.len) {
                        cli_request_add_str(&req, "CURSOR");
                        cli_request_add(&req, buf_slice(&x->cursor));
                }
                r = cli_request_call(x->cli, &req, &v, p);
                if (r == ERR_UNKNOWN) /* an older server has none of these */
                        return OK;
                if (r != OK)
                        return r;
                buf_clear(&x->cursor);
                if (k->key)
                        buf_put_slice(&x->cursor, field_text(v, "cursor"));
                r = put_rows(x, k, k->key ? value_get(v, k->key) : v, p);
                if (r == OK)
                        r = write_some(x, WRITE_BYTES, p);
        } while (r == OK && x->cursor.len);
        return r;
}

/* ---- jobs ---- */

static void put_job(struct exporting *x, const struct value *job)
{
        static const char *const fields[] = {"id",     "status",  "hook",      "args",
                                             "queue",  "group",   "priority",  "attempts",
                                             "due_ms", "attempt", "created_ms"};
        static const char *const ends[] = {"finished_ms", "error"};
        struct buf *b = &x->cli->out;
        const struct value *options = value_get(job, "options");
        begin_line(b, "job");
        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
                put_field(b, fields[i], value_get(job, fields[i]));
        if (field_int(job, "timeout") > 0)
                put_field(b, "timeout", value_get(job, "timeout"));
        for (size_t i = 0; field_int(job, "finished_ms") && i < ARRAY_LEN(ends); i++)
                put_field(b, ends[i], value_get(job, ends[i]));
        for (size_t i = 0; options && options->type == VALUE_MAP && i + 1 < options->n; i += 2) {
                char name[32];
                struct slice key = value_text(&options->items[i]);
                bool is_moved = job_line_has_key(key) || slice_eq(key, SLICE_LIT("expires_ms"));
                if (!is_moved || key.len >= sizeof(name))
                        continue;
                memcpy(name, key.ptr, key.len);
                name[key.len] = '\0';
                put_field(b, name, &options->items[i + 1]);
        }
        buf_put_str(b, "}\n");
        x->lines++;
        x->jobs++;
}

static int put_jobs(struct exporting *x, const char *status, struct problem *p)
{
        static const char *const filters[][2] = {
                {"hook", "HOOK"}, {"queue", "QUEUE"}, {"group", "GROUP"}, {"match", "MATCH"}};
        int r;
        buf_clear(&x->cursor);
        do {
                struct cli_request req;
                const struct value *v;
                cli_request_init(&req, "JOBS");
                cli_request_add_str(&req, "STATUS");
                cli_request_add_str(&req, status);
                for (size_t i = 0; i < ARRAY_LEN(filters); i++)
                        cli_request_add_option(&req, &x->cli->args, filters[i][0], filters[i][1]);
                cli_request_add_str(&req, "ORDER");
                cli_request_add_str(&req, "oldest");
                cli_request_add_str(&req, "LIMIT");
                cli_request_add_str(&req, PAGE);
                if (x->cursor.len) {
                        cli_request_add_str(&req, "CURSOR");
                        cli_request_add(&req, buf_slice(&x->cursor));
                }
                r = cli_request_call(x->cli, &req, &v, p);
                if (r != OK)
                        return r;
                const struct value *jobs = value_get(v, "jobs");
                for (size_t i = 0; jobs && i < jobs->n; i++)
                        put_job(x, &jobs->items[i]);
                buf_clear(&x->cursor);
                buf_put_slice(&x->cursor, field_text(v, "cursor"));
                progress_tell(&x->progress, x->jobs, 0);
                r = write_some(x, WRITE_BYTES, p);
        } while (r == OK && x->cursor.len);
        return r;
}

/* ---- the command ---- */

static bool is_only(const struct args *args, const char *plural)
{
        const char *only = args_get(args, "only");
        size_t len = strlen(plural);
        for (const char *at = only; at && *at;) {
                size_t n = strcspn(at, ",");
                if (n == len && memcmp(at, plural, len) == 0)
                        return true;
                at += n + (at[n] ? 1 : 0);
        }
        return !only;
}

static int check_only(const struct args *args, struct problem *p)
{
        const char *only = args_get(args, "only");
        for (const char *at = only; at && *at;) {
                size_t n = strcspn(at, ",");
                bool is_known = n == 4 && memcmp(at, "jobs", 4) == 0;
                for (size_t i = 0; i < n_kinds; i++)
                        is_known |= slice_eq(slice_str(kinds[i].plural), slice_make(at, n));
                if (!is_known)
                        return problem_set(
                                p, ERR_BADARG,
                                "--only %.*s: there are settings, tiers, queues, limits, "
                                "breakers, caps, rules, schedules and jobs",
                                (int)(n > 32 ? 32 : n), at);
                at += n + (at[n] ? 1 : 0);
        }
        return OK;
}

static int export_all(struct exporting *x, struct problem *p)
{
        const struct args *args = &x->cli->args;
        const char *status = args_get(args, "status");
        struct buf *b = &x->cli->out;
        int r = OK;
        begin_line(b, "weir");
        buf_printf(b, ",\"version\":1,\"at_ms\":%lld}\n", (long long)clock_wall_ms());
        for (size_t i = 0; i < n_kinds && r == OK; i++)
                if (is_only(args, kinds[i].plural))
                        r = put_kind(x, &kinds[i], p);
        if (r == OK && is_only(args, "jobs"))
                r = put_jobs(x, status ? status : "pending", p);
        if (r == OK && is_only(args, "jobs") && !status)
                r = put_jobs(x, "in-progress", p);
        if (r != OK)
                return r;
        begin_line(b, "end");
        buf_printf(b, ",\"lines\":%llu}\n", (unsigned long long)x->lines);
        return write_some(x, 1, p);
}

static int export(struct cli *cli, struct problem *p)
{
        struct exporting x = {.cli = cli};
        int r = check_only(&cli->args, p);
        if (r != OK)
                return r;
        buf_init(&x.cursor, 0);
        progress_init(&x.progress, "exported", "jobs", 0, false);
        r = export_all(&x, p);
        progress_end(&x.progress);
        buf_release(&x.cursor);
        if (r == OK)
                buf_printf(&cli->notes, "exported %llu things and %llu jobs\n",
                           (unsigned long long)(x.lines - x.jobs), (unsigned long long)x.jobs);
        return r;
}

static const struct option_def options[] = {
        {"only", "KINDS",
         "some of: settings,tiers,queues,limits,breakers,caps,rules,schedules,jobs"},
        {"status", "STATUS", "jobs of this status (pending and in-progress)"},
        {"hook", "NAME", "jobs of this hook"},
        {"queue", "NAME", "jobs of this queue"},
        {"group", "NAME", "jobs of this group"},
        {"match", "TEXT", "jobs whose hook, args, result or error hold TEXT"},
        {NULL, NULL, NULL},
};

static const struct cli_command command = {
        .usage = "",
        .summary = "Write jobs, schedules, rules and settings as lines of JSON.",
        .text = "'weir import' takes them in. Not in it: batches, locks, leases, events, history,\n"
                "and the part of a limit that is used. A whole copy is 'weir backup'.\n\n"
                "  weir export > weir.ndjson\n"
                "  weir export --only schedules,rules | jq -c .\n"
                "  weir export --only jobs --status failed --hook mail.send > failed.ndjson\n",
        .options = options,
        .run = export,
};

const struct cli_group cli_group_export = {"export", "Write jobs and settings as lines of JSON.",
                                           &command, 1};
