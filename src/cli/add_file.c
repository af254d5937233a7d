/* weir job add --file: a file of jobs, as fast as the server takes them.
 *
 * The file is read as a stream and never held whole, so that a pipe may go on for hours.  A bad
 * line ends it before anything of its chunk is sent.  Jobs that were sent before stay, and the last
 * message counts them.  With --skip-bad bad lines are reported and left out. */
#include "cli/add_file.h"

#include <stdio.h>

#include "base/plural.h"
#include "base/shown.h"
#include "cli/interrupt.h"
#include "cli/job_line.h"
#include "cli/progress.h"

#define TOLD_MAX 20 /* bad lines that are told one by one; the rest are counted */

struct filing {
        struct cli *cli;
        const struct job_line_rules *rules;
        struct job_line line; /* of the job that is read */
        struct bulk *bulk;
        struct progress progress;
        uint64_t bad;
        uint64_t listed; /* ids in the output */
};

static void on_added(void *ctx, uint64_t line, uint64_t tag, int64_t id)
{
        struct filing *f = ctx;
        struct buf *b = &f->cli->out;
        (void)line;
        (void)tag;
        if (f->cli->is_json)
                buf_put_str(b, f->listed++ ? "," : "");
        if (f->cli->is_json || args_has(&f->cli->args, "id-only"))
                buf_put_i64(b, id);
        if (!f->cli->is_json && args_has(&f->cli->args, "id-only"))
                buf_put_byte(b, '\n');
}

static void tell_bad(void *ctx, uint64_t first, uint64_t last, const struct problem *why)
{
        struct filing *f = ctx;
        if (f->bad <= TOLD_MAX)
                progress_end(&f->progress);
        if (f->bad == TOLD_MAX)
                fprintf(stderr, "weir: ... more bad lines are only counted\n");
        else if (f->bad < TOLD_MAX && first == last)
                fprintf(stderr, "weir: line %llu: %s\n", (unsigned long long)first, why->detail);
        else if (f->bad < TOLD_MAX)
                fprintf(stderr, "weir: lines %llu to %llu were not added: %s\n",
                        (unsigned long long)first, (unsigned long long)last, why->detail);
        f->bad += last - first + 1;
}

static int take_line(struct filing *f, struct slice text, uint64_t number, struct problem *p)
{
        struct problem why = {0};
        int r = job_line_parse(&f->line, text, f->rules, &why);
        if (r == OK) {
                f->line.job.line = number;
                return bulk_add(f->bulk, &f->line.job, p);
        }
        tell_bad(f, number, number, &why);
        if (args_has(&f->cli->args, "skip-bad"))
                return OK;
        bulk_drop(f->bulk);
        return problem_set(p, ERR_BADARG, "line %llu is no job", (unsigned long long)number);
}

static int take_lines(struct filing *f, struct line_reader *reader, struct problem *p)
{
        struct slice text;
        int r;
        job_line_init(&f->line);
        while ((r = line_reader_next(reader, &text, p)) == OK) {
                r = take_line(f, text, reader->line, p);
                if (r != OK)
                        break;
                progress_tell(&f->progress, bulk_added(f->bulk), reader->offset);
        }
        job_line_release(&f->line);
        return r == ERR_NOTFOUND ? OK : r;
}

/* What became of it, however it ended. */
static int conclude(struct filing *f, int r, struct problem *p)
{
        struct problem cause = *p;
        unsigned long long added = bulk_added(f->bulk), unknown = bulk_unknown(f->bulk);
        const char *jobs = plural(added, "job", "jobs");
        if (f->cli->is_json)
                buf_put_str(&f->cli->out, "]}\n");
        else if (r == OK && !args_has(&f->cli->args, "id-only"))
                buf_printf(&f->cli->out, "added %llu %s\n", added, jobs);
        if (r == OK && f->bad) {
                buf_printf(&f->cli->notes, "weir: %llu bad %s left out\n",
                           (unsigned long long)f->bad, plural(f->bad, "line was", "lines were"));
                f->cli->exit_code = 1;
        }
        if (r == OK)
                return OK;
        if (!added && !unknown)
                return problem_set(p, r, "%s (nothing was added)",
                                   SHOWN_MAX(slice_str(cause.detail), 180));
        if (unknown)
                return problem_set(p, r,
                                   "%s (added for sure: %llu %s; of %llu more, up to line %llu, it "
                                   "is not known)",
                                   SHOWN_MAX(slice_str(cause.detail), 140), added, jobs, unknown,
                                   (unsigned long long)bulk_last_line(f->bulk));
        return problem_set(p, r, "%s (added: %llu %s, nothing after line %llu)",
                           SHOWN_MAX(slice_str(cause.detail), 180), added, jobs,
                           (unsigned long long)bulk_last_line(f->bulk));
}

static int file_lines(struct filing *f, struct problem *p)
{
        struct line_reader reader;
        struct problem later = {0};
        uint64_t size;
        const struct args *args = &f->cli->args;
        int r = line_reader_open(&reader, args_get(args, "file"), &size, p);
        if (r != OK)
                return r;
        struct bulk_options options = {
                .client = &f->cli->client,
                .is_skipping = args_has(args, "skip-bad"),
                .once = args_get(args, "once"),
                .added = on_added,
                .refused = tell_bad,
                .ctx = f,
        };
        interrupt_catch();
        f->bulk = bulk_new(&options);
        progress_init(&f->progress, "added", "jobs", size, f->cli->is_json);
        if (f->cli->is_json)
                buf_put_str(&f->cli->out, "{\"ids\":[");
        r = take_lines(f, &reader, p);
        if (r == ERR_STOPPING) /* what was collected is not on its way */
                bulk_drop(f->bulk);
        int e = bulk_finish(f->bulk, r == OK ? p : &later);
        progress_end(&f->progress);
        line_reader_close(&reader);
        if (r != OK && later.err)
                fprintf(stderr, "weir: %s\n", later.detail);
        r = conclude(f, r == OK ? e : r, p);
        f->bulk = bulk_free(f->bulk);
        return r;
}

int add_file(struct cli *cli, const struct slice *defaults, size_t n_defaults, struct problem *p)
{
        struct buf words CLEANUP(buf_release) = {0};
        const char *once = args_get(&cli->args, "once");
        if (once && (!once[0] || strlen(once) > 200))
                return problem_set(p, ERR_BADARG, "--once takes 1 to 200 bytes");
        for (size_t i = 0; i < n_defaults; i++)
                bulk_put_word(&words, defaults[i]);
        const struct job_line_rules rules = {
                .defaults = buf_slice(&words),
                .hook = cli->args.n_positional ? slice_str(cli->args.positional[0]) : SLICE_NONE,
        };
        struct filing f = {.cli = cli, .rules = &rules};
        return file_lines(&f, p);
}
