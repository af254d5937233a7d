/* weir import: what an export wrote, into a weir that may be running and may have things already.
 *
 * Things with names are set, in place of those with the same name.  Jobs are new: they get new ids,
 * and what said "after 17" says the new id of 17.  The server's answers tell the new ids, so a job
 * that waits for one just sent is held back until that is answered; exports list oldest first, so
 * it never has to look ahead.
 *
 * A job that was running becomes one that waits: stop the workers of the old weir first, or it may
 * run twice.  Finished jobs are left out: history does not move (docs/terminal.md). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/idmap.h"
#include "cli/job_line.h"
#include "cli/kinds.h"
#include "cli/listing.h"
#include "cli/progress.h"
#include "wire/json.h"

#define DEPTH_MAX 64
#define TOLD_MAX  20

struct importing {
        struct cli *cli;
        struct bulk *bulk;
        struct progress progress;
        struct job_line line;
        struct arena arena;
        struct idmap ids; /* old id -> new id, as a pointer */
        size_t n_missing; /* ids of `after` in this line that are not known */
        uint64_t things, finished, bad, untied;
        int64_t exported_ms;      /* when; 0: not told */
        bool is_export, is_whole; /* the first and the last line were there */
};

static void tell_bad(struct importing *m, uint64_t first, uint64_t last, const struct problem *why)
{
        progress_end(&m->progress);
        if (m->bad < TOLD_MAX)
                fprintf(stderr,
                        first == last ? "weir: line %llu: %s\n" : "weir: from line %llu: %s\n",
                        (unsigned long long)first, why->detail);
        m->bad += last - first + 1;
}

static void on_added(void *ctx, uint64_t line, uint64_t tag, int64_t id)
{
        struct importing *m = ctx;
        (void)line;
        if (tag && id > 0 && !idmap_get(&m->ids, tag))
                idmap_put(&m->ids, tag, (void *)(uintptr_t)id); // NOLINT(performance-no-int-to-ptr)
}

static void on_refused(void *ctx, uint64_t first, uint64_t last, const struct problem *why)
{
        tell_bad(ctx, first, last, why);
}

static uint64_t map_id(void *ctx, uint64_t id)
{
        struct importing *m = ctx;
        uint64_t found = (uintptr_t)idmap_get(&m->ids, id);
        m->n_missing += !found;
        return found;
}

/* ---- jobs ---- */

static int parse_job(struct importing *m, struct slice text, struct problem *p)
{
        const struct job_line_rules rules = {.is_export = true, .map_id = map_id, .ctx = m};
        m->n_missing = 0;
        return job_line_parse(&m->line, text, &rules, p);
}

/* What was said as a moment, as it is said to a server now. */
static void put_times(struct job_line *l)
{
        int64_t now_ms = clock_wall_ms();
        if (l->due_ms > now_ms)
                job_line_put(l, "AT", l->due_ms);
        if (l->expires_ms)
                job_line_put(l, "EXPIRES", l->expires_ms > now_ms ? l->expires_ms - now_ms : 1);
}

static int take_job(struct importing *m, struct slice text, uint64_t number, struct problem *p)
{
        struct problem why = {0};
        struct job_line *l = &m->line;
        int r = parse_job(m, text, &why);
        if (r == OK && m->n_missing) {
                r = bulk_wait(m->bulk, p); /* it may be on its way */
                if (r != OK)
                        return r;
                r = parse_job(m, text, &why);
                m->untied += m->n_missing > 0;
        }
        if (r != OK) {
                tell_bad(m, number, number, &why);
                return OK;
        }
        bool is_live = !l->status.len || slice_eq(l->status, SLICE_LIT("pending")) ||
                       slice_eq(l->status, SLICE_LIT("in-progress"));
        if (!is_live) {
                m->finished++;
                return OK;
        }
        put_times(l);
        l->job.line = number;
        l->job.tag = l->id;
        return bulk_add(m->bulk, &l->job, p);
}

/* ---- things ---- */

/* The text of a member: strings without their quotes, numbers as they are written. */
static bool member_text(struct importing *m, const struct json_value *root, const char *name,
                        struct slice *ret)
{
        struct json_value v;
        if (strcmp(name, "args") == 0 && json_get(root, "args_base64", &v))
                return json_to_text(&v, &m->arena, ret) == OK &&
                       base64_take(&m->arena, *ret, ret) == OK;
        if (!json_get(root, name, &v) || v.type == JSON_NULL)
                return false;
        if (v.type != JSON_STRING || strcmp(name, "args") == 0) {
                *ret = v.text;
                return true;
        }
        return json_to_text(&v, &m->arena, ret) == OK;
}

static void put_left(struct importing *m, struct cli_request *req, struct slice text)
{
        int64_t left_ms;
        if (!slice_to_i64(text, &left_ms))
                return;
        if (left_ms < 0) {
                cli_request_add_str(req, "ENDLESS");
                return;
        }
        int64_t gone_ms = m->exported_ms ? clock_wall_ms() - m->exported_ms : 0;
        cli_request_add_str(req, "FOR");
        cli_request_add_int(req, left_ms > gone_ms ? left_ms - gone_ms : 1);
}

static void put_field(struct importing *m, struct cli_request *req, const struct kind_field *f,
                      struct slice text)
{
        bool is_zero = slice_eq(text, SLICE_LIT("0")), is_one = slice_eq(text, SLICE_LIT("1"));
        if ((f->rule == FIELD_NOT_ZERO && is_zero) || (f->rule == FIELD_NOT_ONE && is_one))
                return;
        if (f->rule == FIELD_LEFT) {
                put_left(m, req, text);
                return;
        }
        if (f->rule == FIELD_FLAG) {
                if (slice_eq(text, SLICE_LIT("true")))
                        cli_request_add_str(req, f->keyword);
                return;
        }
        cli_request_add_str(req, f->keyword);
        cli_request_add(req, text);
}

static int set_thing(struct importing *m, const struct kind *k, const struct json_value *root,
                     struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        struct slice text, name = SLICE_NONE;
        cli_request_init(&req, k->set);
        for (size_t i = 0; k->words[i]; i++) {
                bool is_there = member_text(m, root, k->words[i], &text);
                if (!is_there && strcmp(k->words[i], "args") != 0)
                        return problem_set(p, ERR_BADARG, "it has no %s", k->words[i]);
                cli_request_add(&req, is_there ? text : SLICE_NONE);
                name = i ? name : text;
        }
        bool is_cron = member_text(m, root, "cron", &text);
        for (const struct kind_field *f = k->fields; f->name; f++) {
                bool is_zone = strcmp(f->name, "zone") == 0;
                if (member_text(m, root, f->name, &text) && (!is_zone || is_cron))
                        put_field(m, &req, f, text);
        }
        int r = cli_request_call(m->cli, &req, &v, p);
        if (r != OK || !k->then || !member_text(m, root, k->then_field, &text) ||
            !slice_eq(text, slice_str(k->then_value)))
                return r;
        const struct slice then[] = {slice_str(k->then), name};
        return client_call(&m->cli->client, then, ARRAY_LEN(then), &v, p);
}

static bool is_lost(int r)
{
        return r == ERR_UNAVAIL || r == ERR_IO || r == ERR_TIMEOUT || r == ERR_STOPPING;
}

static int take_thing(struct importing *m, const struct kind *k, const struct json_value *root,
                      uint64_t number, struct problem *p)
{
        struct problem why = {0};
        int r = bulk_wait(m->bulk, p); /* answers must not be mixed up */
        if (r != OK)
                return r;
        r = set_thing(m, k, root, &why);
        if (r == OK) {
                m->things++;
        } else if (is_lost(r)) {
                *p = why;
                return r;
        } else {
                tell_bad(m, number, number, &why);
        }
        return OK;
}

/* ---- lines ---- */

static int take_line(struct importing *m, struct slice text, uint64_t number, struct problem *p)
{
        struct json_value root, v;
        struct slice type = SLICE_NONE;
        struct problem why = {0};
        arena_clear(&m->arena);
        int r = json_parse(text, DEPTH_MAX, &root, &why);
        if (r == OK && json_get(&root, "type", &v))
                (void)!json_to_text(&v, &m->arena, &type); /* else it is none we know */
        if (r == OK && slice_eq(type, SLICE_LIT("job")))
                return take_job(m, text, number, p);
        const struct kind *k = kind_find(type);
        if (r == OK && k)
                return take_thing(m, k, &root, number, p);
        if (slice_eq(type, SLICE_LIT("weir"))) {
                m->is_export = true;
                if (json_get(&root, "at_ms", &v))
                        (void)json_to_i64(&v, &m->exported_ms); /* 0 when it is no number */
                return OK;
        }
        if (slice_eq(type, SLICE_LIT("end"))) {
                m->is_whole = true;
                return OK;
        }
        if (r == OK)
                (void)problem_set(&why, ERR_BADARG, "it is of no type that is known here");
        tell_bad(m, number, number, &why);
        return OK;
}

static int take_lines(struct importing *m, const char *path, struct problem *p)
{
        struct line_reader reader;
        struct slice text;
        uint64_t size;
        int r = line_reader_open(&reader, path, &size, p);
        if (r != OK)
                return r;
        progress_init(&m->progress, "imported", "jobs", size, m->cli->is_json);
        while ((r = line_reader_next(&reader, &text, p)) == OK) {
                r = take_line(m, text, reader.line, p);
                if (r != OK)
                        break;
                progress_tell(&m->progress, bulk_added(m->bulk), reader.offset);
        }
        line_reader_close(&reader);
        return r == ERR_NOTFOUND ? OK : r;
}

static void tell_all(struct importing *m)
{
        struct buf *b = m->cli->is_json ? &m->cli->out : &m->cli->notes;
        unsigned long long jobs = bulk_added(m->bulk), things = m->things;
        if (m->cli->is_json) {
                buf_printf(b,
                           "{\"jobs\":%llu,\"things\":%llu,\"finished\":%llu,\"bad\":%llu,"
                           "\"untied\":%llu,\"unknown\":%llu}\n",
                           jobs, things, (unsigned long long)m->finished,
                           (unsigned long long)m->bad, (unsigned long long)m->untied,
                           (unsigned long long)bulk_unknown(m->bulk));
                return;
        }
        buf_printf(&m->cli->out, "imported %llu jobs and %llu things\n", jobs, things);
        if (m->finished)
                buf_printf(b, "%llu finished jobs were left out: history does not move\n",
                           (unsigned long long)m->finished);
        if (m->untied)
                buf_printf(b,
                           "%llu jobs waited for jobs that are not in the file; they do not "
                           "any more\n",
                           (unsigned long long)m->untied);
        if (bulk_unknown(m->bulk))
                buf_printf(b, "of %llu more jobs it is not known whether they were added\n",
                           (unsigned long long)bulk_unknown(m->bulk));
        if (m->bad)
                buf_printf(b, "weir: %llu lines could not be imported\n",
                           (unsigned long long)m->bad);
        if (m->is_export && !m->is_whole)
                buf_put_str(b, "weir: the file broke off: its last line is missing\n");
}

static int import(struct cli *cli, struct problem *p)
{
        struct importing m = {.cli = cli};
        struct problem later = {0};
        const char *once = args_get(&cli->args, "once");
        if (once && (!once[0] || strlen(once) > 200))
                return problem_set(p, ERR_BADARG, "--once takes 1 to 200 bytes");
        struct bulk_options options = {
                .client = &cli->client,
                .is_skipping = true,
                .once = once,
                .added = on_added,
                .refused = on_refused,
                .ctx = &m,
        };
        m.bulk = bulk_new(&options);
        job_line_init(&m.line);
        arena_init(&m.arena, 4 * LINE_MAX_BYTES);
        idmap_init(&m.ids);
        int r = take_lines(&m, cli->args.positional[0], p);
        int e = bulk_finish(m.bulk, r == OK ? p : &later);
        r = r == OK ? e : r;
        progress_end(&m.progress);
        tell_all(&m);
        if (m.bad || (m.is_export && !m.is_whole))
                cli->exit_code = 1;
        m.bulk = bulk_free(m.bulk);
        job_line_release(&m.line);
        arena_release(&m.arena);
        idmap_release(&m.ids);
        return r;
}

static const struct option_def options[] = {
        {"once", "KEY", "again with the same KEY and FILE adds no job twice (24 h)"},
        {NULL, NULL, NULL},
};

static const struct cli_command command = {
        .usage = "FILE|-",
        .summary = "Take in what 'weir export' wrote.",
        .text = "Things with names are set, in place of those of the same name. Jobs are new and\n"
                "get new ids; running ones wait again, finished ones are left out. A bad line is\n"
                "told, left out, and makes the exit code 1.\n\n"
                "  weir import weir.ndjson --once move-1\n"
                "  weir --url old:7379 export | weir --url new:7379 import -\n",
        .options = options,
        .min_words = 1,
        .max_words = 1,
        .run = import,
};

const struct cli_group cli_group_import = {"import", "Take in what an export wrote.", &command, 1};
