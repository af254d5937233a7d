/* See actionscheduler.h. */
#include "serve/actionscheduler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/plural.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "cli/request.h"
#include "cli/text.h"
#include "serve/actionscheduler_int.h"
#include "wire/json.h"

#define HOOKS_MAX 200 /* patterns of --hooks */

/* ---- numbers ---- */

void tally_add(struct tally *t, struct slice text, const char *example)
{
        size_t at = t->last; /* most often the same as before */
        if (at >= t->n || !slice_eq(slice_str(t->rows[at].text), text))
                for (at = 0; at < t->n && !slice_eq(slice_str(t->rows[at].text), text); at++)
                        ;
        if (at == t->n) {
                t->rows = xrealloc(t->rows, (t->n + 1) * sizeof(*t->rows));
                t->rows[t->n] = (struct tally_row){.text = xcalloc(1, text.len + 1)};
                memcpy(t->rows[t->n].text, text.ptr ? text.ptr : "", text.len);
                (void)snprintf(t->rows[t->n].first, sizeof(t->rows[t->n].first), "%s", example);
                t->n++;
        }
        t->rows[at].n++;
        t->last = at;
}

static void tally_release(struct tally *t)
{
        for (size_t i = 0; i < t->n; i++)
                free(t->rows[i].text);
        free(t->rows);
}

void moving_leave(struct moving *m, const char *what, uint64_t id, struct slice why)
{
        char example[48];
        (void)snprintf(example, sizeof(example), "%s %llu", what, (unsigned long long)id);
        tally_add(&m->left, why, example);
}

/* ---- what is asked for ---- */

/* Action Scheduler's own upkeep, which works only in its runner. */
static bool is_upkeep(struct slice hook)
{
        static const char start[] = "action_scheduler";
        size_t len = strlen(start);
        return hook.len > len && memcmp(hook.ptr, start, len) == 0 &&
               (hook.ptr[len] == '/' || hook.ptr[len] == '_');
}

bool moving_wants(const struct moving *m, struct slice hook)
{
        struct slice pattern = SLICE_NONE;
        if (!m->patterns)
                return !is_upkeep(hook);
        (void)registry_explain(m->patterns, hook, &pattern);
        return pattern.len > 0;
}

static int read_hooks(struct moving *m, struct problem *problem)
{
        const char *at = args_get(&m->args, "hooks");
        struct registry_entry entries[HOOKS_MAX];
        size_t n = 0;
        if (!at)
                return OK;
        for (;;) {
                size_t len = strcspn(at, ",");
                struct slice pattern = slice_make(at, len);
                int r = registry_check_pattern(pattern, problem);
                if (r != OK)
                        return problem_set(problem, ERR_BADARG,
                                           "--hooks takes names or patterns such as "
                                           "'mail_*,sync', each of 1 to %d bytes",
                                           REGISTRY_PATTERN_MAX);
                if (n == HOOKS_MAX)
                        return problem_set(problem, ERR_TOOBIG, "--hooks takes at most %d patterns",
                                           HOOKS_MAX);
                entries[n++] = (struct registry_entry){.pattern = pattern, .tier = TIER_NORMAL};
                at += len;
                if (!*at)
                        break;
                at++;
        }
        m->patterns = registry_new(entries, n);
        return OK;
}

static int read_limit(struct moving *m, struct problem *problem)
{
        const char *text = args_find_value(&m->args, "limit");
        m->limit = UINT64_MAX;
        if (text && (!slice_to_u64(slice_str(text), &m->limit) || !m->limit))
                return problem_set(problem, ERR_BADARG,
                                   "--limit takes a number from 1 on, not '%s'", SHOWN_STR(text));
        return OK;
}

static int find_site(struct moving *m, struct problem *problem)
{
        const char *path = args_get(&m->args, "config"), *name = args_get(&m->args, "wordpress");
        if (!path)
                return problem_set(problem, ERR_SYNTAX, "which configuration?  Say -c FILE");
        if (!name)
                return problem_set(problem, ERR_SYNTAX,
                                   "which site?  Say --wordpress NAME, as a wordpress section of "
                                   "the configuration is called");
        int r = config_read_file(&m->config, path, problem);
        if (r != OK)
                return r;
        m->site = config_sites_find(&m->config.sites, name, &m->blog);
        return m->site ? OK
                       : problem_set(problem, ERR_NOTFOUND, "%s has no wordpress section '%s'",
                                     path, SHOWN_STR(name));
}

static int read_command_line(struct moving *m, struct problem *problem)
{
        if (m->args.n_positional)
                return problem_set(problem, ERR_SYNTAX, "unexpected argument '%s'",
                                   SHOWN_STR(m->args.positional[0]));
        m->is_dry = args_has(&m->args, "dry-run");
        m->queue = args_get(&m->args, "queue");
        int r = read_hooks(m, problem);
        if (r == OK)
                r = read_limit(m, problem);
        if (r == OK)
                r = cli_server(&m->args, &m->url, problem);
        return r == OK ? find_site(m, problem) : r;
}

/* ---- what is told ---- */

static void put_json_rows(struct buf *b, const char *key, const struct tally *t, const char *name)
{
        json_put_key(b, key);
        buf_put_byte(b, '[');
        for (size_t i = 0; i < t->n; i++) {
                json_put_comma(b);
                buf_put_byte(b, '{');
                json_put_key(b, name);
                json_put_text_lossy(b, slice_str(t->rows[i].text));
                json_put_key(b, "count");
                buf_put_u64(b, t->rows[i].n);
                if (t->rows[i].first[0]) {
                        json_put_key(b, "first");
                        json_put_text_lossy(b, slice_str(t->rows[i].first));
                }
                buf_put_byte(b, '}');
        }
        buf_put_byte(b, ']');
}

static void put_json(const struct moving *m, struct buf *b)
{
        buf_put_byte(b, '{');
        json_put_key(b, "dry_run");
        buf_put_str(b, m->is_dry ? "true" : "false");
        json_put_key(b, "jobs");
        buf_put_u64(b, m->jobs);
        json_put_key(b, "schedules");
        buf_put_u64(b, m->schedules);
        put_json_rows(b, "hooks", &m->hooks, "hook");
        put_json_rows(b, "left", &m->left, "reason");
        buf_put_str(b, "}\n");
}

static void put_text(const struct moving *m, struct buf *b)
{
        unsigned long long jobs = m->jobs, schedules = m->schedules;
        const char *moved = m->is_dry ? "would move" : "moved";
        for (size_t i = 0; i < m->hooks.n; i++) {
                buf_printf(b, "%10llu  ", (unsigned long long)m->hooks.rows[i].n);
                text_put_safe(b, slice_str(m->hooks.rows[i].text));
                buf_put_byte(b, '\n');
        }
        if (m->is_export)
                buf_printf(b, "%s %llu %s and %llu %s into %s\n", moved, jobs,
                           plural(jobs, "job", "jobs"), schedules,
                           plural(schedules, "schedule", "schedules"), m->site->name);
        else
                buf_printf(b, "%s %llu %s of %s into weir, %llu of them as schedules\n", moved,
                           jobs + schedules, plural(jobs + schedules, "action", "actions"),
                           m->site->name, schedules);
}

static void put_left(const struct moving *m, struct buf *b)
{
        for (size_t i = 0; i < m->left.n; i++) {
                const struct tally_row *row = &m->left.rows[i];
                buf_printf(b, "weir: %llu %s left where %s: ", (unsigned long long)row->n,
                           plural(row->n, "was", "were"), plural(row->n, "it was", "they were"));
                text_put_safe(b, slice_str(row->text));
                buf_put_str(b, " (first: ");
                text_put_safe(b, slice_str(row->first));
                buf_put_str(b, ")\n");
        }
}

static int tell(const struct moving *m, struct problem *problem)
{
        struct buf out CLEANUP(buf_release) = {0}, notes CLEANUP(buf_release) = {0};
        if (args_has(&m->args, "json")) {
                put_json(m, &out);
        } else {
                put_text(m, &out);
                put_left(m, &notes);
        }
        if (fwrite(out.ptr, 1, out.len, stdout) != out.len || fflush(stdout) != 0)
                return problem_set(problem, ERR_IO, "cannot write the output: %s", strerror(errno));
        fputs(buf_cstr(&notes), stderr);
        return OK;
}

/* ---- both commands ---- */

static int open_both(struct moving *m, struct problem *problem)
{
        int r = store_open(&m->store, MODE_OBSERVE, problem);
        if (r == OK && !m->store.facts.is_migrated)
                fprintf(stderr, "weir: Action Scheduler has not migrated this site yet: actions "
                                "that are still posts are not seen\n");
        if (r == OK && (!m->is_dry || m->is_export))
                r = client_connect(&m->client, problem);
        if (r == OK && !m->is_dry)
                r = transfer_begin(&m->transfer, &m->store, m->is_export, problem);
        return r;
}

static int move(struct moving *m, struct problem *problem)
{
        struct problem ignored;
        int r = read_command_line(m, problem);
        if (r != OK)
                return r;
        store_init(&m->store, &m->site->store, -1);
        client_init(&m->client, &m->url);
        r = open_both(m, problem);
        bool is_open = r == OK;
        if (is_open)
                r = m->is_export ? moving_export(m, problem) : moving_import(m, problem);
        /* After an error too: what was moved until then is moved. */
        if (is_open)
                r = r == OK ? tell(m, problem) : (tell(m, &ignored), r);
        client_release(&m->client);
        store_release(&m->store);
        return r;
}

static int run(bool is_export, int argc, char **argv)
{
        struct moving m = {.is_export = is_export};
        struct problem problem = {0};
        const char *name = is_export ? "export" : "import";
        config_init(&m.config);
        int r = args_parse(&m.args,
                           is_export ? cli_export_actions_options : cli_import_actions_options,
                           argv + 1, argc - 1, &problem);
        if (r == OK && args_has(&m.args, "help"))
                return cli_help(name, "actionscheduler");
        if (r == OK)
                r = move(&m, &problem);
        int code = r == OK ? m.left.n && !m.is_dry : err_exit(r);
        if (r != OK)
                fprintf(stderr, "weir %s actionscheduler: %s\n", name, problem.detail);
        m.patterns = registry_free(m.patterns);
        tally_release(&m.hooks);
        tally_release(&m.left);
        (void)config_site_of_blog_free(m.blog); /* NULL */
        config_release(&m.config);
        return code;
}

int actionscheduler_import_main(int argc, char **argv)
{
        return run(false, argc, argv);
}

int actionscheduler_export_main(int argc, char **argv)
{
        return run(true, argc, argv);
}
