/* What is in the data folder: would a start take it?
 *
 * A weir that is at work there has read all of it, and changes it meanwhile: then nothing is looked
 * at.  Otherwise the log is read whole, as a start does; of history as much as a start looks at. */
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

static void check_history(struct doctor *d, const char *path)
{
        struct problem p = {0};
        int r = archive_file_check(path, &p);
        if (r == ERR_NOTFOUND)
                doctor_tell(d, VERDICT_FINE, "history", NULL, "there is none yet");
        else if (r != OK)
                doctor_tell(d, VERDICT_BAD, "history",
                            "docs/history.md says how, and what can be saved", "%s", p.detail);
        else
                doctor_tell(d, VERDICT_FINE, "history", NULL, "its tables can be read");
}

void doctor_check_data(struct doctor *d, const char *data)
{
        char log[PATH_BYTES], history[PATH_BYTES];
        if (snprintf(log, sizeof(log), "%s/log", data) >= (int)sizeof(log) ||
            snprintf(history, sizeof(history), "%s/history.db", data) >= (int)sizeof(history))
                return; /* no server could use it either */
        if (disk_is_in_use(log)) {
                doctor_tell(d, VERDICT_FINE, "log", NULL, "in use by a weir that has read it");
                doctor_tell(d, VERDICT_FINE, "history", NULL, "in use as well");
                return;
        }
        check_log(d, data, log);
        check_history(d, history);
}
