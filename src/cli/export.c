/* weir export: what there is, as lines of JSON, for moving to another weir, for a look with jq, or
 * for keeping what was set by hand under version control.
 *
 *      {"type":"weir","version":1,"at_ms":...}
 *      {"type":"limit","name":"api","amount":100,...}      one line a thing, cli/kinds.c
 *      {"type":"job","id":17,"status":"pending",...}       what runs, then oldest first, so that a
 *      {"type":"end","lines":2}                            job comes after those it waits for
 *
 * Each page is written as it comes, so a million jobs take no memory here.  The last line tells a
 * whole file from one that broke off.  The file is no snapshot: a change made meanwhile may be in
 * it or not.  `weir backup` makes a snapshot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/export_left.h"
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
        struct idmap written;  /* running jobs that are in it already */
        bool has_batches;      /* with all their jobs, which name them then */
        struct left_jobs left; /* what its jobs leave behind */
};

/* ---- writing ---- */

static int write_some(struct exporting *x, struct problem *p)
{
        const struct buf *b = &x->cli->out;
        return b->len < WRITE_BYTES && !b->failed ? OK : cli_write_out(x->cli, p);
}

/* Payloads are bytes, and a signature covers each byte.  So JSON is written as it is, unless a
 * reader would lose spaces around it; everything else is base64.  An empty payload is left out. */
static void put_bytes(struct buf *b, const char *key, struct slice bytes)
{
        static const char spaces[] = " \t\r\n";
        if (!bytes.len)
                return;
        bool is_bare = !strchr(spaces, bytes.ptr[0]) && !strchr(spaces, bytes.ptr[bytes.len - 1]);
        json_put_comma(b);
        buf_printf(b, "\"%s", key);
        if (is_bare && json_is_valid(bytes, DEPTH_MAX) && !memchr(bytes.ptr, '\n', bytes.len)) {
                buf_put_str(b, "\":");
                buf_put_slice(b, bytes);
                return;
        }
        buf_put_str(b, "_base64\":\"");
        base64_put(b, bytes);
        buf_put_byte(b, '"');
}

static void put_field(struct buf *b, const char *key, const struct value *v)
{
        bool is_nothing = !v || v->type == VALUE_NULL || (v->type == VALUE_TEXT && !v->text.len);
        if (strcmp(key, "args") == 0) {
                put_bytes(b, key, value_text(v));
        } else if (!is_nothing) {
                json_put_key(b, key);
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

/* A field by its name, or one of a callback ("ondone.hook") whose job was not made yet. */
static const struct value *find_field(const struct value *v, const char *name)
{
        const char *dot = strchr(name, '.');
        char outer[KIND_KEY_MAX];
        if (!dot)
                return value_get(v, name);
        (void)snprintf(outer, sizeof(outer), "%.*s", (int)(dot - name), name);
        const struct value *callback = value_get(v, outer);
        return field_int(callback, "job") ? NULL : value_get(callback, dot + 1);
}

static bool is_moved(struct exporting *x, const struct kind *k, const struct value *v)
{
        if (!k->is_moved || k->is_moved(v))
                return true;
        x->left.kinds[k - kinds] += k->left_one != NULL;
        return false;
}

static void put_thing(struct exporting *x, const struct kind *k, const struct value *v)
{
        struct buf *b = &x->cli->out;
        struct slice list = field_text(v, "list"), kind = field_text(v, "kind");
        char room[KIND_KEY_MAX];
        begin_line(b, k->type);
        for (size_t i = 0; k->words[i]; i++)
                put_field(b, k->words[i], value_get(v, k->words[i]));
        for (const struct kind_field *f = k->fields; f->name; f++) {
                bool is_list = list.len && slice_eq(slice_str(f->name), kind);
                const struct value *found = find_field(v, is_list ? "list" : f->name);
                if (f->rule == FIELD_BYTES)
                        put_bytes(b, kind_field_key(f, room), value_text(found));
                else
                        put_field(b, kind_field_key(f, room), found);
        }
        if (k->then_field)
                put_field(b, k->then_field, value_get(v, k->then_field));
        buf_put_str(b, "}\n");
        x->lines++;
}

/* Asks for one thing in full.  `name` must be a copy: this reply replaces that of the list. */
static int put_shown(struct exporting *x, const struct kind *k, struct slice name,
                     struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        cli_request_init(&req, k->show);
        cli_request_add(&req, name);
        int r = cli_request_call(x->cli, &req, &v, p);
        if (r == OK && is_moved(x, k, v))
                put_thing(x, k, v);
        return r == ERR_NOTFOUND ? OK : r; /* gone since it was listed */
}

static int put_rows(struct exporting *x, const struct kind *k, const struct value *rows,
                    struct problem *p)
{
        struct arena names;
        int r = OK;
        size_t n = list_len(rows), n_names = 0;
        arena_init(&names, 0);
        struct slice *list = xcalloc(n + 1, sizeof(*list));
        for (size_t i = 0; i < n; i++) {
                if (!is_moved(x, k, &rows->items[i]))
                        continue;
                if (k->show)
                        list[n_names++] = arena_copy(&names, field_text(&rows->items[i], "name"));
                else
                        put_thing(x, k, &rows->items[i]);
        }
        for (size_t i = 0; i < n_names && r == OK; i++)
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
                        r = write_some(x, p);
        } while (r == OK && x->cursor.len);
        return r;
}

/* ---- jobs ---- */

/* A job that was retried counts for its batch no more. */
static bool keeps_batch(struct exporting *x, const struct value *options)
{
        if (field_int(options, "run"))
                return false;
        x->left.unbatched += !x->has_batches;
        return x->has_batches;
}

static void put_option(struct exporting *x, const struct value *options, struct slice key,
                       const struct value *v)
{
        char name[32];
        bool is_batch = slice_eq(key, SLICE_LIT("batch"));
        bool is_told = job_line_has_key(key) || slice_eq(key, SLICE_LIT("expires_ms"));
        if (!is_told || key.len >= sizeof(name) || (is_batch && !keeps_batch(x, options)))
                return;
        memcpy(name, key.ptr, key.len);
        name[key.len] = '\0';
        put_field(&x->cli->out, name, v);
}

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
        for (size_t i = 0; options && options->type == VALUE_MAP && i + 1 < options->n; i += 2)
                put_option(x, options, value_text(&options->items[i]), &options->items[i + 1]);
        buf_put_str(b, "}\n");
        x->left.scheduled += field_text(options, "schedule").len > 0;
        x->lines++;
        x->jobs++;
}

/* Running jobs are listed twice: see export_all(). */
static void put_job_once(struct exporting *x, const struct value *job)
{
        uint64_t id = (uint64_t)field_int(job, "id");
        if (idmap_get(&x->written, id))
                return;
        if (field_is(job, "status", "in-progress")) {
                idmap_put(&x->written, id, x);
                x->left.running++;
        }
        put_job(x, job);
}

static int put_jobs(struct exporting *x, const char *status, struct problem *p)
{
        int r;
        buf_clear(&x->cursor);
        do {
                struct cli_request req;
                const struct value *v;
                cli_request_init(&req, "JOBS");
                cli_request_add_str(&req, "STATUS");
                cli_request_add_str(&req, status);
                cli_request_add_filter(&req, &x->cli->args);
                cli_request_add_str(&req, "ORDER");
                cli_request_add_str(&req, "oldest");
                cli_request_add_page(&req, PAGE, buf_slice(&x->cursor));
                r = cli_request_call(x->cli, &req, &v, p);
                if (r != OK)
                        return r;
                const struct value *jobs = value_get(v, "jobs");
                for (size_t i = 0; i < list_len(jobs); i++)
                        put_job_once(x, &jobs->items[i]);
                buf_clear(&x->cursor);
                buf_put_slice(&x->cursor, field_text(v, "cursor"));
                progress_tell(&x->progress, x->jobs, 0);
                r = write_some(x, p);
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
                        return problem_set(p, ERR_BADARG,
                                           "--only %s: there are settings, tiers, hosts, queues, "
                                           "limits, breakers, caps, rules, schedules, batches and "
                                           "jobs",
                                           SHOWN(slice_make(at, n)));
                at += n + (at[n] ? 1 : 0);
        }
        return OK;
}

/* Running jobs come first, because others may wait for them.  They are listed once more at the end,
 * because a job that has started meanwhile was in neither list. */
static int export_all(struct exporting *x, struct problem *p)
{
        const struct args *args = &x->cli->args;
        const char *one = args_get(args, "status");
        const char *const statuses[] = {one ? one : "in-progress", "pending", "in-progress"};
        bool has_some = one || cli_has_filter(args), has_jobs = is_only(args, "jobs");
        struct buf *b = &x->cli->out;
        int r = OK;
        x->has_batches = has_jobs && is_only(args, "batches") && !has_some;
        begin_line(b, "weir");
        buf_printf(b, ",\"version\":1,\"at_ms\":%lld}\n", (long long)clock_wall_ms());
        for (size_t i = 0; i < n_kinds && r == OK; i++) /* a part of a batch would end too early */
                if (is_only(args, kinds[i].plural) && !(kinds[i].has_jobs && has_some))
                        r = put_kind(x, &kinds[i], p);
        for (size_t i = 0; has_jobs && i < (one ? 1 : ARRAY_LEN(statuses)) && r == OK; i++)
                r = put_jobs(x, statuses[i], p);
        if (r != OK)
                return r;
        begin_line(b, "end");
        buf_printf(b, ",\"lines\":%llu}\n", (unsigned long long)x->lines);
        return cli_write_out(x->cli, p);
}

static int export(struct cli *cli, struct problem *p)
{
        struct exporting x = {.cli = cli};
        int r = check_only(&cli->args, p);
        if (r != OK)
                return r;
        idmap_init(&x.written);
        progress_init(&x.progress, "exported", "jobs", 0, false);
        r = export_all(&x, p);
        progress_end(&x.progress);
        buf_release(&x.cursor);
        idmap_release(&x.written);
        if (r != OK)
                return r;
        uint64_t things = x.lines - x.jobs;
        buf_printf(&cli->notes, "exported %llu %s and %llu %s\n", (unsigned long long)things,
                   plural(things, "thing", "things"), (unsigned long long)x.jobs,
                   plural(x.jobs, "job", "jobs"));
        return left_put(&cli->notes, cli, &x.left, is_only, p);
}

static const struct option_def options[] = {
        {"only", "KINDS",
         "some of: settings,tiers,hosts,queues,limits,breakers,caps,rules,schedules,batches,jobs"},
        {"status", "STATUS", "jobs of this status (pending and in-progress)"},
        {"hook", "NAME", "jobs of this hook"},
        {"queue", "NAME", "jobs of this queue"},
        {"group", "NAME", "jobs of this group"},
        {"match", "TEXT", "jobs whose hook, args, result or error hold TEXT"},
        {NULL, NULL, NULL},
};

static const struct cli_command command = {
        .usage = "",
        .summary = "Write jobs, batches, schedules, rules and settings as lines of JSON.",
        .text = "'weir import' takes them in. What does not move is told at the end, with how much "
                "of\n"
                "it there is: locks, leases, history, what of a limit is used. A whole copy is\n"
                "'weir backup'. 'weir export actionscheduler' moves jobs to a WordPress site; see "
                "its\n"
                "--help.\n\n"
                "  weir export > weir.ndjson\n"
                "  weir export --only schedules,rules | jq -c .\n"
                "  weir export --only jobs --status failed --hook mail.send > failed.ndjson\n",
        .options = options,
        .run = export,
};

const struct cli_group cli_group_export = {"export", "Write jobs and settings as lines of JSON.",
                                           &command, 1};
