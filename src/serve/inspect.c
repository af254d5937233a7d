/* Offline tools for the log.  None of them changes the folder it reads: `salvage` writes a new
 * one, and says what it had to leave behind.
 *
 * DIR is a data folder (its `log` is meant) or a log folder itself. */
#include "serve/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/plural.h"
#include "history/archive_file.h"
#include "log/file.h"
#include "log/record.h"
#include "serve/history_sql.h"
#include "serve/salvage.h"
#include "state/effect.h"

static const char usage[] =
        "usage: weir log verify DIR            read everything, report every damaged place\n"
        "       weir log dump DIR              print every record as a line of JSON\n"
        "       weir log salvage DIR NEWDIR    write what is sound into a new data folder\n"
        "\n"
        "DIR is a data folder; weir must not be running on it for salvage. Salvage leaves\n"
        "history to you: when 'weir history verify DIR' finds it sound, copy all of its files,\n"
        "DIR/history.db*, into NEWDIR.\n"
        "verify and salvage exit with 9 when there is damage.\n";

/* `dir`, or `dir`/log when that is there. */
static int open_log_disk(const char *dir, struct disk **ret, struct problem *problem)
{
        char path[4096];
        struct stat st;
        int n = snprintf(path, sizeof(path), "%s/log", dir);
        if (n < 0 || (size_t)n >= sizeof(path))
                return problem_set(problem, ERR_BADARG, "the path is too long");
        bool has_log = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
        const char *folder = has_log ? path : dir;
        if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))
                return problem_set(problem, ERR_NOTFOUND, "%s is not a folder", folder);
        return disk_open_folder(folder, ret, problem);
}

static void tell_bad(void *ctx, const char *file, uint64_t offset, const char *reason)
{
        fprintf(stderr, "%s%s offset %llu: %s\n", (const char *)ctx, file,
                (unsigned long long)offset, reason);
}

static void tell_report(const struct file_log_report *r)
{
        printf("segments=%llu spares=%llu batches=%llu records=%llu bytes=%llu first_seq=%llu "
               "last_seq=%llu torn_batches=%llu torn_bytes=%llu damaged=%llu\n",
               (unsigned long long)r->segments, (unsigned long long)r->spares,
               (unsigned long long)r->batches, (unsigned long long)r->records,
               (unsigned long long)r->bytes, (unsigned long long)r->first_seq,
               (unsigned long long)r->last_seq, (unsigned long long)r->cut_batches,
               (unsigned long long)r->cut_bytes, (unsigned long long)r->bad_places);
}

static int verify(char **words, struct problem *problem)
{
        struct disk *disk;
        struct file_log_report report = {0};
        int r = open_log_disk(words[0], &disk, problem);
        if (r != OK)
                return r;
        char prefix[] = "damaged: ";
        r = file_log_verify(disk, tell_bad, prefix, &report, problem);
        disk = disk->ops->release(disk);
        if (r == OK)
                tell_report(&report);
        if (r == OK && report.bad_places)
                r = problem_set(problem, ERR_CORRUPT,
                                "%llu damaged places; 'weir log salvage' "
                                "writes what is sound into a new folder",
                                (unsigned long long)report.bad_places);
        return r;
}

static int dump_batch(void *ctx, uint64_t seq, struct slice batch)
{
        struct problem *problem = ctx;
        struct record record;
        struct effect effect;
        struct buf line;
        int r;
        buf_init(&line, 0);
        while ((r = record_next(&batch, &record)) == OK) {
                r = effect_read(&record, &effect, problem);
                if (r != OK)
                        break;
                buf_clear(&line);
                effect_to_json(&effect, seq, &line);
                if (fwrite(line.ptr, 1, line.len, stdout) != line.len) {
                        r = problem_set(problem, ERR_IO, "cannot write to standard output");
                        break;
                }
        }
        buf_release(&line);
        return r == ERR_NOTFOUND ? OK : r;
}

static int dump(char **words, struct problem *problem)
{
        struct disk *disk;
        int r = open_log_disk(words[0], &disk, problem);
        if (r != OK)
                return r;
        r = file_log_walk(disk, dump_batch, problem, problem);
        disk = disk->ops->release(disk);
        return r;
}

/* Its companions may hold most finished jobs: a copy of history.db alone lacks them. */
static void tell_history_files(const char *from, const char *to)
{
        char path[4096];
        int n = snprintf(path, sizeof(path), "%s/history.db", from);
        if (n < 0 || n >= (int)sizeof(path) || access(path, F_OK) != 0)
                return;
        printf("history is not part of the log; copy it when 'weir history verify %s' finds it "
               "sound:\n  cp %s* %s/\n",
               from, path, to);
}

static int save(char **words, struct problem *problem)
{
        struct disk *from = NULL;
        struct file_log_report report = {0};
        int r = open_log_disk(words[0], &from, problem);
        if (r != OK)
                return r;
        char prefix[] = "left behind: ";
        r = salvage(from, words[1], tell_bad, prefix, &report, problem);
        from = from->ops->release(from);
        if (r != OK)
                return r;
        tell_report(&report);
        tell_history_files(words[0], words[1]);
        if (report.bad_places)
                return problem_set(problem, ERR_CORRUPT, "%llu %s left behind; the rest is in %s",
                                   (unsigned long long)report.bad_places,
                                   plural(report.bad_places, "place was", "places were"), words[1]);
        return OK;
}

static const struct {
        const char *name;
        int n_words;
        int (*run)(char **words, struct problem *problem);
} tools[] = {
        {"verify", 1, verify},
        {"dump", 1, dump},
        {"salvage", 2, save},
};

int inspect_main(int argc, char **argv)
{
        if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
                fputs(usage, stdout);
                return 0;
        }
        for (size_t i = 0; argc > 1 && i < ARRAY_LEN(tools); i++) {
                struct problem problem = {0};
                if (strcmp(argv[1], tools[i].name) != 0 || argc != 2 + tools[i].n_words)
                        continue;
                int r = tools[i].run(argv + 2, &problem);
                if (r != OK)
                        fprintf(stderr, "weir log %s: %s\n", argv[1], problem.detail);
                return err_exit(r);
        }
        fputs(usage, stderr);
        return err_exit(ERR_SYNTAX);
}

/* ---- history ---- */

static const char history_usage[] =
        "usage: weir history verify DIR         read every finished job, report all damage\n"
        "       weir history sql [DIR] [SQL]    query it; 'weir history sql --help' says more\n"
        "\n"
        "DIR is a data folder, or a history file itself, beside which its companions history.db-*\n"
        "must lie; weir may be running on it.  Both exit with 9 when there is damage.\n";

static void tell_damage(void *ctx, const char *what)
{
        (void)ctx;
        fprintf(stderr, "damaged: %s\n", what);
}

static int verify_history(const char *dir, struct problem *problem)
{
        char path[4096], log[4096];
        struct stat st;
        struct archive_report report;
        bool is_folder = stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
        int n = snprintf(path, sizeof(path), is_folder ? "%s/history.db" : "%s", dir);
        int m = snprintf(log, sizeof(log), "%s/log", dir);
        if (n < 0 || n >= (int)sizeof(path) || m < 0 || m >= (int)sizeof(log))
                return problem_set(problem, ERR_BADARG, "the path is too long");
        /* A lone file does not tell: then a -shm file may be made beside it. */
        bool is_in_use = !is_folder || disk_is_in_use(log);
        int r = archive_file_verify(path, is_in_use, tell_damage, NULL, &report, problem);
        if (r != OK)
                return r;
        printf("rows=%llu unchecked=%llu damaged=%llu\n", (unsigned long long)report.rows,
               (unsigned long long)report.unchecked, (unsigned long long)report.damaged);
        if (!report.damaged)
                return OK;
        return problem_set(
                problem, ERR_CORRUPT, "%llu damaged %s; docs/history.md says what can be saved",
                (unsigned long long)report.damaged, plural(report.damaged, "place", "places"));
}

int inspect_history_main(int argc, char **argv)
{
        struct problem problem = {0};
        if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
                fputs(history_usage, stdout);
                return 0;
        }
        if (argc > 1 && strcmp(argv[1], "sql") == 0)
                return history_sql_main(argc - 1, argv + 1);
        if (argc != 3 || strcmp(argv[1], "verify") != 0) {
                fputs(history_usage, stderr);
                return err_exit(ERR_SYNTAX);
        }
        int r = verify_history(argv[2], &problem);
        if (r != OK)
                fprintf(stderr, "weir history verify: %s\n", problem.detail);
        return err_exit(r);
}
