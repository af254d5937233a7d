/* What is in the data folder: would a start take it?
 *
 * A weir that is at work there has read all of the log, and changes it meanwhile: then the log is
 * not looked at.  Otherwise it is read whole, as a start does.  History is always read whole: a
 * server checks a row or a block only when it is asked for it. */
#include <stdio.h>

#include "base/plural.h"
#include "history/archive_file.h"
#include "log/file.h"
#include "serve/doctor.h"

#define PATH_BYTES 4096

static void keep_first(void *ctx, const char *file, uint64_t offset, const char *reason)
{
        char *first = ctx;
        if (!first[0])
                (void)snprintf(first, 256, "%s at byte %llu: %s", file, (unsigned long long)offset,
                               reason);
}

static void check_log(struct doctor *d, const char *data, const char *log)
{
        struct disk *disk;
        struct file_log_report report = {0};
        struct problem p = {0};
        char first[256] = "", fix[400];
        int r = disk_open_existing(log, &disk, &p);
        if (r == ERR_NOTFOUND) {
                doctor_tell(d, VERDICT_FINE, "log", NULL, "there is none yet");
                return;
        }
        if (r == OK) {
                r = file_log_verify(disk, keep_first, first, &report, &p);
                disk = disk->ops->release(disk);
        }
        (void)snprintf(fix, sizeof(fix),
                       "'weir log verify %s' shows all damage, 'weir log salvage %s NEWDIR' saves "
                       "what is sound",
                       data, data);
        if (r != OK)
                doctor_tell(d, VERDICT_BAD, "log", fix, "it cannot be read: %s", p.detail);
        else if (report.bad_places)
                doctor_tell(d, VERDICT_BAD, "log", fix, "%llu damaged %s, the first: %s",
                            (unsigned long long)report.bad_places,
                            plural(report.bad_places, "place", "places"), first);
        else
                doctor_tell(d, VERDICT_FINE, "log", NULL, "all of its %llu %s sound",
                            (unsigned long long)report.batches,
                            plural(report.batches, "batch is", "batches are"));
}

static void keep_first_text(void *ctx, const char *what)
{
        char *first = ctx;
        if (!first[0])
                (void)snprintf(first, 256, "%s", what);
}

static void check_history(struct doctor *d, const char *path, bool is_in_use)
{
        struct problem p = {0};
        struct archive_report report;
        char first[256] = "";
        int r = archive_file_verify(path, is_in_use, keep_first_text, first, &report, &p);
        if (r == ERR_NOTFOUND)
                doctor_tell(d, VERDICT_FINE, "history", NULL, "there is none yet");
        else if (r != OK)
                doctor_tell(d, VERDICT_BAD, "history",
                            "docs/history.md says how, and what can be saved", "%s", p.detail);
        else if (report.damaged)
                doctor_tell(d, VERDICT_BAD, "history",
                            "'weir history verify' lists all damage; docs/history.md says what can "
                            "be saved",
                            "%llu damaged %s, the first: %s", (unsigned long long)report.damaged,
                            plural(report.damaged, "place", "places"), first);
        else
                doctor_tell(d, VERDICT_FINE, "history", NULL, "all of its %llu %s sound",
                            (unsigned long long)report.rows,
                            plural(report.rows, "job is", "jobs are"));
}

void doctor_check_data(struct doctor *d, const char *data)
{
        char log[PATH_BYTES], history[PATH_BYTES];
        if (snprintf(log, sizeof(log), "%s/log", data) >= (int)sizeof(log) ||
            snprintf(history, sizeof(history), "%s/history.db", data) >= (int)sizeof(history))
                return; /* no server could use it either */
        bool is_in_use = disk_is_in_use(log);
        if (is_in_use)
                doctor_tell(d, VERDICT_FINE, "log", NULL, "in use by a weir that has read it");
        else
                check_log(d, data, log);
        check_history(d, history, is_in_use);
}
