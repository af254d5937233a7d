/* weir import: what an export wrote, into a weir that may be running and may have things already.
 *
 * Things with names are set, in place of those with the same name.  Jobs are new: they get new ids,
 * and what said "after 17" says the new id of 17.  The server's answers tell the new ids, so a job
 * that waits for one just sent is held back until that is answered; an export lists jobs in an
 * order in which it never has to look ahead.  Batches are made before their jobs and closed after
 * them.
 *
 * The same export imported twice would run every job twice.  So each request carries an idempotency
 * key made of the time of the export, unless --once names another or --again asks for a second
 * import.  The server knows keys for a day; an older export is refused without one of the two.
 *
 * A job that was running becomes one that waits: stop the workers of the old weir first, or it may
 * run twice.  Finished jobs are left out: history does not move (docs/terminal.md). */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/idmap.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/import_batch.h"
#include "cli/interrupt.h"
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
        struct idmap ids; /* old id -> new id, as a pointer, or on_its_way */
        struct import_batches batches;
        /* Of the line that is read: */
        uint64_t number;        /* from 1 */
        struct json_value root; /* the whole of it */
        size_t n_missing;       /* ids of `after` that are not known */
        bool is_unbatched;      /* its job comes without its batch */
        /* Of the whole import: */
        const char *once; /* --once, or made of the time of the export; NULL: none */
        bool is_again;    /* --again */
        bool is_refused;  /* too old to tell whether it was imported before */
        char own_once[40];
        uint64_t things, finished, bad, untied, unbatched, ran;
        int64_t exported_ms;      /* when; 0: not told */
        bool is_export, is_whole; /* the first and the last line were there */
};

static void tell_bad(void *ctx, uint64_t first, uint64_t last, const struct problem *why)
{
        struct importing *m = ctx;
        progress_end(&m->progress);
        if (m->bad < TOLD_MAX)
                fprintf(stderr,
                        first == last ? "weir: line %llu: %s\n" : "weir: from line %llu: %s\n",
                        (unsigned long long)first, why->detail);
        m->bad += last - first + 1;
}

/* Stands for a new id that the server has not told yet.  It stays for a job that is refused. */
static char on_its_way;

static void on_added(void *ctx, uint64_t line, uint64_t tag, int64_t id)
{
        struct importing *m = ctx;
        (void)line;
        if (!tag || id <= 0)
                return;
        (void)idmap_take(&m->ids, tag);                 /* on_its_way */
        idmap_put(&m->ids, tag, (void *)(uintptr_t)id); // NOLINT(performance-no-int-to-ptr)
}

static uint64_t map_id(void *ctx, uint64_t id)
{
        struct importing *m = ctx;
        const void *found = idmap_get(&m->ids, id);
        if (found && found != &on_its_way)
                return (uintptr_t)found;
        m->n_missing++;
        return 0;
}

static bool keeps_batch(void *ctx, struct slice name)
{
        struct importing *m = ctx;
        m->is_unbatched = import_batches_is_lost(&m->batches, name);
        return !m->is_unbatched;
}

/* ---- jobs ---- */

static int parse_job(struct importing *m, struct slice text, struct problem *p)
{
        const struct job_line_rules rules = {
                .is_export = true, .map_id = map_id, .keeps_batch = keeps_batch, .ctx = m};
        m->n_missing = 0;
        m->is_unbatched = false;
        return job_line_parse(&m->line, text, &rules, p);
}

/* Moments of the export, as options of a request.  With a key the request must be the same the next
 * time, so "now" is then the time of the export. */
static void put_times(const struct importing *m, struct job_line *l)
{
        int64_t now_ms = m->once && m->exported_ms ? m->exported_ms : clock_wall_ms();
        if (l->due_ms > now_ms)
                job_line_put(l, "AT", l->due_ms);
        if (l->expires_ms)
                job_line_put(l, "EXPIRES", l->expires_ms > now_ms ? l->expires_ms - now_ms : 1);
}

static int take_job(struct importing *m, struct slice text, struct problem *p)
{
        struct problem why = {0};
        struct job_line *l = &m->line;
        int r = parse_job(m, text, &why);
        if (r == OK && m->n_missing) {
                r = bulk_wait(m->bulk, p); /* it may be on its way */
                if (r != OK)
                        return r;
                r = parse_job(m, text, &why);
        }
        if (r != OK) {
                tell_bad(m, m->number, m->number, &why);
                return OK;
        }
        bool was_running = slice_eq(l->status, SLICE_LIT("in-progress"));
        if (l->status.len && !was_running && !slice_eq(l->status, SLICE_LIT("pending"))) {
                m->finished++;
                return OK;
        }
        if (l->id && idmap_get(&m->ids, l->id)) /* it started while the file was written */
                return OK;
        if (l->id)
                idmap_put(&m->ids, l->id, &on_its_way);
        m->untied += m->n_missing > 0;
        m->unbatched += m->is_unbatched;
        m->ran += was_running;
        put_times(m, l);
        l->job.line = m->number;
        l->job.tag = l->id;
        return bulk_add(m->bulk, &l->job, p);
}

/* ---- things ---- */

/* Is `key` this name, or that of the same bytes in base64? */
static bool is_key(struct slice key, const char *name, bool is_bytes)
{
        size_t len = strlen(name);
        return json_key_is(key, slice_str(name)) ||
               (is_bytes && key.len > len && memcmp(key.ptr, name, len) == 0 &&
                slice_eq(slice_make(key.ptr + len, key.len - len), SLICE_LIT("_base64")));
}

static bool is_args(const char *word)
{
        return strcmp(word, "args") == 0;
}

/* Refuses unknown keys, of a newer weir or mistyped: to ignore one would lose its value. */
static int check_keys(const struct importing *m, const struct kind *k, struct problem *p)
{
        struct json_iter it = {0};
        struct json_value v;
        struct slice key;
        char room[KIND_KEY_MAX];
        while (json_object_next(&m->root, &it, &key, &v)) {
                bool is_known = is_key(key, "type", false) ||
                                (k->then_field && is_key(key, k->then_field, false));
                for (size_t i = 0; k->words[i]; i++)
                        is_known |= is_key(key, k->words[i], is_args(k->words[i]));
                for (const struct kind_field *f = k->fields; f->name; f++)
                        is_known |= is_key(key, kind_field_key(f, room), f->rule == FIELD_BYTES);
                if (!is_known)
                        return problem_set(p, ERR_BADARG, "'%s' is not known in a %s", SHOWN(key),
                                           k->type);
        }
        return OK;
}

/* The text of a member of the line: a string without its quotes, a number as it is written.  Bytes
 * are the JSON text, or decoded from base64.  ERR_NOTFOUND: there is no such member. */
static int member_text(struct importing *m, const char *key, bool is_bytes, struct slice *ret,
                       struct problem *p)
{
        struct json_value v;
        char wrapped[KIND_KEY_MAX + sizeof("_base64")];
        int r;
        (void)snprintf(wrapped, sizeof(wrapped), "%s_base64", key);
        if (is_bytes && json_get(&m->root, wrapped, &v)) {
                r = v.type == JSON_STRING ? json_to_text(&v, &m->arena, ret) : ERR_BADARG;
                if (r == OK)
                        r = base64_take(&m->arena, *ret, ret);
                return r == ERR_BADARG
                               ? problem_set(p, ERR_BADARG, "%s is not padded base64", wrapped)
                               : r;
        }
        if (!json_get(&m->root, key, &v) || (v.type == JSON_NULL && !is_bytes))
                return ERR_NOTFOUND;
        if (v.type != JSON_STRING || is_bytes) {
                *ret = v.text;
                return OK;
        }
        r = json_to_text(&v, &m->arena, ret);
        return r == OK ? OK : problem_set(p, r, "no memory for %s", key);
}

/* At least a second, the server's minimum: a thing whose time is over then ends by itself. */
static void put_left(struct importing *m, struct cli_request *req, struct slice text)
{
        int64_t left_ms;
        if (!slice_to_i64(text, &left_ms))
                return;
        if (left_ms < 0) {
                cli_request_add_str(req, "ENDLESS");
                return;
        }
        if (m->exported_ms)
                left_ms -= clock_wall_ms() - m->exported_ms;
        cli_request_add_str(req, "FOR");
        cli_request_add_int(req, left_ms > MS_PER_S ? left_ms : MS_PER_S);
}

static void put_field(struct importing *m, struct cli_request *req, const struct kind_field *f,
                      struct slice text)
{
        bool is_said = !(f->rule == FIELD_NOT_ZERO && slice_eq(text, SLICE_LIT("0"))) &&
                       !(f->rule == FIELD_NOT_ONE && slice_eq(text, SLICE_LIT("1"))) && f->keyword;
        if (f->rule == FIELD_LEFT) {
                put_left(m, req, text);
        } else if (f->rule == FIELD_FLAG) {
                if (slice_eq(text, SLICE_LIT("true")))
                        cli_request_add_str(req, f->keyword);
        } else if (is_said) {
                cli_request_add_str(req, f->keyword);
                cli_request_add(req, text);
        }
}

/* Adds the words and options that make the thing; *ret_name borrows from the line or the arena. */
static int put_words(struct importing *m, const struct kind *k, struct cli_request *req,
                     struct slice *ret_name, struct problem *p)
{
        struct slice text, zone;
        char room[KIND_KEY_MAX];
        bool is_cron = member_text(m, "cron", false, &zone, p) == OK;
        for (size_t i = 0; k->words[i]; i++) {
                text = SLICE_NONE;
                int r = member_text(m, k->words[i], is_args(k->words[i]), &text, p);
                if (r == ERR_NOTFOUND && !is_args(k->words[i]))
                        return problem_set(p, ERR_BADARG, "it has no %s", k->words[i]);
                if (r != OK && r != ERR_NOTFOUND)
                        return r;
                cli_request_add(req, text);
                *ret_name = i ? *ret_name : text;
        }
        for (const struct kind_field *f = k->fields; f->name; f++) {
                bool is_zone = strcmp(f->name, "zone") == 0;
                int r = member_text(m, kind_field_key(f, room), f->rule == FIELD_BYTES, &text, p);
                if (r == OK && (!is_zone || is_cron))
                        put_field(m, req, f, text);
                else if (r != OK && r != ERR_NOTFOUND)
                        return r;
        }
        return OK;
}

/* The second request that a thing may need, such as PAUSE.  That of a batch waits for its jobs. */
static int do_then(struct importing *m, const struct kind *k, struct slice name, struct problem *p)
{
        const struct value *v;
        struct slice text;
        if (!k->then_field || k->has_jobs || member_text(m, k->then_field, false, &text, p) != OK)
                return OK;
        const char *command = kind_then(k, text);
        if (!command)
                return OK;
        const struct slice then[] = {slice_str(command), name};
        return client_call(&m->cli->client, then, ARRAY_LEN(then), &v, p);
}

static void expect_jobs(struct importing *m, const struct kind *k, struct slice name, bool is_made)
{
        struct slice status = SLICE_NONE, total;
        struct problem ignored;
        uint64_t n = 0;
        (void)!member_text(m, k->then_field, false, &status, &ignored); /* then it is open */
        if (member_text(m, "total", false, &total, &ignored) == OK)
                (void)slice_to_u64(total, &n); /* 0: any number will do */
        import_batches_add(&m->batches, name, n, kind_then(k, status), is_made);
}

/* With a key a batch is made once, as its jobs are; everything else may be set again. */
static int set_thing(struct importing *m, const struct kind *k, struct problem *p)
{
        struct cli_request req;
        const struct value *v;
        struct slice name = SLICE_NONE;
        char key[256];
        bool is_once = m->once && k->has_jobs;
        cli_request_init(&req, is_once ? "IDEMPOTENT" : k->set);
        if (is_once) {
                (void)snprintf(key, sizeof(key), "%s/batch%llu", m->once,
                               (unsigned long long)m->number);
                cli_request_add_str(&req, key);
                cli_request_add_str(&req, k->set);
        }
        int r = check_keys(m, k, p);
        if (r == OK)
                r = put_words(m, k, &req, &name, p);
        if (r == OK)
                r = cli_request_call(m->cli, &req, &v, p);
        if (k->has_jobs && name.len)
                expect_jobs(m, k, name, r == OK);
        return r == OK ? do_then(m, k, name, p) : r;
}

static bool is_lost(int r)
{
        return r == ERR_UNAVAIL || r == ERR_IO || r == ERR_TIMEOUT || r == ERR_STOPPING;
}

static int take_thing(struct importing *m, const struct kind *k, struct problem *p)
{
        struct problem why = {0};
        int r = bulk_wait(m->bulk, p); /* answers must not be mixed up */
        if (r != OK)
                return r;
        r = set_thing(m, k, &why);
        if (is_lost(r)) {
                *p = why;
                return r;
        }
        if (r == OK)
                m->things++;
        else
                tell_bad(m, m->number, m->number, &why);
        return OK;
}

/* ---- lines ---- */

/* The server keeps idempotency keys for 24 hours; an hour is left for the import itself. */
#define KNOWN_MS (23LL * 3600 * MS_PER_S)

static int choose_key(struct importing *m, struct problem *p)
{
        char age[DURATION_TEXT_MAX];
        int64_t age_ms = clock_wall_ms() - m->exported_ms;
        if (m->once || m->is_again || !m->exported_ms)
                return OK;
        m->is_refused = age_ms > KNOWN_MS;
        if (m->is_refused)
                return problem_set(p, ERR_CONFLICT,
                                   "this export was made %s ago, and whether it was imported "
                                   "before is known for a day only; pass --again to import it",
                                   duration_words(age_ms, age));
        (void)snprintf(m->own_once, sizeof(m->own_once), "export-%lld", (long long)m->exported_ms);
        m->once = m->own_once;
        bulk_set_once(m->bulk, m->once);
        return OK;
}

static int take_line(struct importing *m, struct slice text, struct problem *p)
{
        struct json_value v;
        struct slice type = SLICE_NONE;
        struct problem why = {0};
        arena_clear(&m->arena);
        int r = json_parse(text, DEPTH_MAX, &m->root, &why);
        if (r == OK && json_get(&m->root, "type", &v))
                (void)!json_to_text(&v, &m->arena, &type); /* else it is none we know */
        if (r == OK && slice_eq(type, SLICE_LIT("job")))
                return take_job(m, text, p);
        const struct kind *k = kind_find(type);
        if (r == OK && k)
                return take_thing(m, k, p);
        if (slice_eq(type, SLICE_LIT("weir"))) {
                m->is_export = true;
                if (json_get(&m->root, "at_ms", &v))
                        (void)json_to_i64(&v, &m->exported_ms); /* 0 when it is no number */
                return choose_key(m, p);
        }
        if (slice_eq(type, SLICE_LIT("end"))) {
                m->is_whole = true;
                return OK;
        }
        if (r == OK)
                (void)problem_set(&why, ERR_BADARG, "it is of no type that is known here");
        tell_bad(m, m->number, m->number, &why);
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
        interrupt_catch();
        progress_init(&m->progress, "imported", "jobs", size, m->cli->is_json);
        while ((r = line_reader_next(&reader, &text, p)) == OK) {
                m->number = reader.line;
                r = take_line(m, text, p);
                if (r != OK)
                        break;
                progress_tell(&m->progress, bulk_added(m->bulk), reader.offset);
        }
        line_reader_close(&reader);
        return r == ERR_NOTFOUND ? OK : r;
}

static void tell_counts(struct importing *m, struct buf *b)
{
        const struct {
                uint64_t n;
                const char *one, *many;
        } rows[] = {
                {m->finished, "finished job was left out: history does not move",
                 "finished jobs were left out: history does not move"},
                {m->ran, "job ran in the old weir and waits again here",
                 "jobs ran in the old weir and wait again here"},
                {m->untied, "job waited for jobs that are not in the file; it does not any more",
                 "jobs waited for jobs that are not in the file; they do not any more"},
                {m->unbatched, "job comes without its batch, which could not be made",
                 "jobs come without their batch, which could not be made"},
                {bulk_unknown(m->bulk), "more job: it is not known whether it was added",
                 "more jobs: it is not known whether they were added"},
                {m->bad, "line could not be imported", "lines could not be imported"},
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (rows[i].n)
                        buf_printf(b, "%s%llu %s\n", i + 1 == ARRAY_LEN(rows) ? "weir: " : "",
                                   (unsigned long long)rows[i].n,
                                   plural(rows[i].n, rows[i].one, rows[i].many));
        if (m->is_export && !m->is_whole)
                buf_put_str(b, "weir: the file broke off: its last line is missing\n");
}

static void tell_all(struct importing *m)
{
        unsigned long long jobs = bulk_added(m->bulk), things = m->things;
        if (!m->cli->is_json) {
                buf_printf(&m->cli->out, "imported %llu %s and %llu %s\n", jobs,
                           plural(jobs, "job", "jobs"), things, plural(things, "thing", "things"));
                tell_counts(m, &m->cli->notes);
                return;
        }
        const struct {
                const char *key;
                uint64_t n;
        } numbers[] = {{"jobs", jobs},
                       {"things", things},
                       {"finished", m->finished},
                       {"bad", m->bad},
                       {"ran", m->ran},
                       {"untied", m->untied},
                       {"unbatched", m->unbatched},
                       {"open_batches", m->batches.open},
                       {"unknown", bulk_unknown(m->bulk)}};
        buf_put_byte(&m->cli->out, '{');
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
                json_put_key(&m->cli->out, numbers[i].key);
                buf_put_u64(&m->cli->out, numbers[i].n);
        }
        buf_put_str(&m->cli->out, "}\n");
}

static int import_file(struct importing *m, struct problem *p)
{
        struct problem later = {0};
        int r = take_lines(m, m->cli->args.positional[0], p);
        if (r == ERR_STOPPING) /* what was collected is not on its way */
                bulk_drop(m->bulk);
        int e = bulk_finish(m->bulk, r == OK ? p : &later);
        r = r == OK ? e : r;
        if (r == OK)
                r = import_batches_finish(&m->batches, m->cli, p);
        progress_end(&m->progress);
        return r;
}

static int import(struct cli *cli, struct problem *p)
{
        struct importing m = {.cli = cli,
                              .once = args_get(&cli->args, "once"),
                              .is_again = args_has(&cli->args, "again")};
        if (m.once && m.is_again)
                return problem_set(p, ERR_BADARG, "--once and --again contradict each other");
        if (m.once && (!m.once[0] || strlen(m.once) > 200))
                return problem_set(p, ERR_BADARG, "--once takes 1 to 200 bytes");
        struct bulk_options options = {
                .client = &cli->client,
                .is_skipping = true,
                .once = m.once,
                .added = on_added,
                .refused = tell_bad,
                .ctx = &m,
        };
        m.bulk = bulk_new(&options);
        job_line_init(&m.line);
        arena_init(&m.arena, 4 * LINE_MAX_BYTES);
        idmap_init(&m.ids);
        import_batches_init(&m.batches);
        int r = import_file(&m, p);
        if (!m.is_refused)
                tell_all(&m);
        if (m.bad || m.batches.open || (m.is_export && !m.is_whole))
                cli->exit_code = 1;
        m.bulk = bulk_free(m.bulk);
        job_line_release(&m.line);
        arena_release(&m.arena);
        idmap_release(&m.ids);
        import_batches_release(&m.batches);
        return r;
}

static const struct option_def options[] = {
        {"once", "KEY", "key of this import instead of the time of the export (24 h)"},
        {"again", NULL, "add the jobs although this export may have been imported before"},
        {NULL, NULL, NULL},
};

static const struct cli_command command = {
        .usage = "FILE|-",
        .summary = "Take in what 'weir export' wrote.",
        .text = "Things with names are set, in place of those of the same name; a batch must be "
                "new,\n"
                "and is closed when all its jobs have come. Jobs get new ids; running ones wait\n"
                "again, finished ones are left out. A bad line is told, left out, and makes the\n"
                "exit code 1. Importing the same export again within a day adds nothing twice;\n"
                "with --again it does. An export older than that is refused without --again.\n\n"
                "'weir import actionscheduler' moves actions of a WordPress site; see its "
                "--help.\n\n"
                "  weir import weir.ndjson\n"
                "  weir --url old:7379 export | weir --url new:7379 import -\n",
        .options = options,
        .min_words = 1,
        .max_words = 1,
        .run = import,
};

const struct cli_group cli_group_import = {"import", "Take in what an export wrote.", &command, 1};
