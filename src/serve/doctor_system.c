/* What weir needs of the machine: a folder on a disk that keeps its word, room, descriptors, a
 * clock that is right, and time zones.
 *
 * The speed of a sync decides how many batches a second can be acknowledged, so it is measured,
 * with the same call on the same disk; a sync that takes no time at all is as telling as a slow
 * one. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/tz.h"
#include "serve/doctor.h"

#define SYNCS          100
#define SYNC_BYTES     4096
#define SLOW_P99_US    20000 /* every acknowledgement waits this long, once in a hundred */
#define FAST_P50_US    15    /* no disk does that; a cache without a battery does */
#define FILES_WANTED   4096
#define SPACE_BAD      (256 * MIB)
#define SPACE_WARN     (2048 * MIB)
#define CLOCK_ERROR_US 500000 /* "at" and cron are in seconds */

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define ZFS_SUPER_MAGIC   0x2fc12fc1
#define FUSE_SUPER_MAGIC_ 0x65735546

static const struct {
        unsigned long magic;
        const char *name;
        enum verdict verdict;
        const char *fix;
} filesystems[] = {
        {EXT4_SUPER_MAGIC, "ext4", VERDICT_FINE, NULL},
        {XFS_SUPER_MAGIC, "xfs", VERDICT_FINE, NULL},
        {BTRFS_SUPER_MAGIC, "btrfs", VERDICT_FINE, NULL},
        {ZFS_SUPER_MAGIC, "zfs", VERDICT_FINE, NULL},
        {F2FS_SUPER_MAGIC, "f2fs", VERDICT_FINE, NULL},
        {TMPFS_MAGIC, "tmpfs", VERDICT_BAD,
         "it is memory and gone with the next boot: choose a folder on a disk"},
        {RAMFS_MAGIC, "ramfs", VERDICT_BAD,
         "it is memory and gone with the next boot: choose a folder on a disk"},
        {OVERLAYFS_SUPER_MAGIC, "overlayfs", VERDICT_WARN,
         "it is gone with the container: mount a volume there"},
        {NFS_SUPER_MAGIC, "nfs", VERDICT_BAD,
         "locks and syncs over a network are not what they must be: use a local disk"},
        {SMB_SUPER_MAGIC, "smb", VERDICT_BAD,
         "locks and syncs over a network are not what they must be: use a local disk"},
        {FUSE_SUPER_MAGIC_, "fuse", VERDICT_WARN,
         "whether a sync reaches a disk depends on what is behind it: find out"},
};

/* ---- the folder ---- */

static void tell_missing(struct doctor *d, const char *data)
{
        char parent[4096];
        (void)snprintf(parent, sizeof(parent), "%s", data);
        char *slash = strrchr(parent, '/');
        if (slash && slash != parent)
                *slash = '\0';
        const char *where = slash ? parent : ".";
        if (access(where, W_OK | X_OK) == 0)
                doctor_tell(d, VERDICT_WARN, "data folder",
                            "the first start makes it; or name the one that is used, with --data "
                            "or -c",
                            "%s is not there yet; %s can be written", data, where);
        else
                doctor_tell(d, VERDICT_BAD, "data folder",
                            "make it, and give it to the user that weir runs as, mode 700",
                            "%s is not there, and cannot be made: %s", data, strerror(errno));
}

static void tell_filesystem(struct doctor *d, const char *data)
{
        struct statfs fs;
        if (statfs(data, &fs) != 0)
                return;
        for (size_t i = 0; i < ARRAY_LEN(filesystems); i++) {
                if (filesystems[i].magic != (unsigned long)fs.f_type)
                        continue;
                doctor_tell(d, filesystems[i].verdict, "data folder", filesystems[i].fix,
                            "%s can be written and is on %s", data, filesystems[i].name);
                return;
        }
        doctor_tell(d, VERDICT_FINE, "data folder", NULL,
                    "%s can be written and is on a file system of type %lx", data,
                    (unsigned long)fs.f_type);
}

bool doctor_check_folder(struct doctor *d, const char *data)
{
        struct stat st;
        if (stat(data, &st) != 0) {
                tell_missing(d, data);
                return false;
        }
        if (!S_ISDIR(st.st_mode)) {
                doctor_tell(d, VERDICT_BAD, "data folder", "name a folder with --data",
                            "%s is no folder", data);
                return false;
        }
        if (access(data, R_OK | W_OK | X_OK) != 0) {
                doctor_tell(d, VERDICT_BAD, "data folder",
                            "run this as the user of weir, or chown the folder to it",
                            "%s cannot be written: %s", data, strerror(errno));
                return false;
        }
        if (st.st_mode & (S_IRWXG | S_IRWXO))
                doctor_tell(d, VERDICT_WARN, "data folder", "chmod 700 it: jobs may hold secrets",
                            "%s can be looked into by others (mode %03o)", data,
                            (unsigned)(st.st_mode & 0777));
        tell_filesystem(d, data);
        return true;
}

/* ---- syncs ---- */

static int compare(const void *a, const void *b)
{
        const int64_t *x = a, *y = b;
        return (*x > *y) - (*x < *y);
}

/* Times of SYNCS writes with their syncs, sorted; false with errno. */
static bool measure(int fd, int64_t us[SYNCS])
{
        static char block[SYNC_BYTES];
        for (int i = 0; i < SYNCS; i++) {
                memset(block, i, sizeof(block));
                int64_t began_ns = clock_boot_ns();
                if (pwrite(fd, block, sizeof(block), (off_t)i * SYNC_BYTES) != SYNC_BYTES ||
                    fdatasync(fd) != 0)
                        return false;
                us[i] = (clock_boot_ns() - began_ns) / 1000;
        }
        qsort(us, SYNCS, sizeof(us[0]), compare);
        return true;
}

/* A file of the size that is written later: what is measured is the sync, not its growth. */
static int make_file(const char *data, char *ret_path, size_t size)
{
        (void)snprintf(ret_path, size, "%s/doctor.XXXXXX", data);
        int fd = mkostemp(ret_path, O_CLOEXEC);
        if (fd < 0)
                return -1;
        (void)unlink(ret_path); /* it is ours alone, and gone whatever happens */
        if (posix_fallocate(fd, 0, (off_t)SYNCS * SYNC_BYTES) != 0 || fsync(fd) != 0) {
                (void)close(fd);
                return -1;
        }
        return fd;
}

void doctor_check_sync(struct doctor *d, const char *data)
{
        char path[4096];
        int64_t us[SYNCS];
        struct stat st;
        if (stat(data, &st) != 0)
                return; /* told already */
        int fd = make_file(data, path, sizeof(path));
        if (fd < 0 || !measure(fd, us)) {
                doctor_tell(d, VERDICT_BAD, "disk sync", "look at the disk and at dmesg",
                            "cannot write and sync a file in %s: %s", data, strerror(errno));
        } else {
                int64_t median = us[SYNCS / 2];
                double p50 = (double)median / 1000, p99 = (double)us[SYNCS - 2] / 1000;
                enum verdict verdict = VERDICT_FINE;
                const char *fix = NULL;
                if (us[SYNCS - 2] > SLOW_P99_US) {
                        verdict = VERDICT_WARN;
                        fix = "every answer waits for a sync: use a faster disk, or one that fewer "
                              "share";
                } else if (us[SYNCS / 2] < FAST_P50_US) {
                        verdict = VERDICT_WARN;
                        fix = "no disk syncs that fast: make sure that its cache survives a power "
                              "loss";
                }
                doctor_tell(d, verdict, "disk sync", fix,
                            "p50 %.2f ms, p99 %.2f ms, %.2f ms at most, of %d writes and fdatasync",
                            p50, p99, (double)us[SYNCS - 1] / 1000, SYNCS);
        }
        if (fd >= 0)
                (void)close(fd);
}

/* ---- room ---- */

void doctor_check_space(struct doctor *d, const char *data)
{
        struct statvfs fs;
        if (statvfs(data, &fs) != 0)
                return; /* told already */
        uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
        uint64_t all_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
        enum verdict verdict = VERDICT_FINE;
        if (free_bytes < SPACE_BAD)
                verdict = VERDICT_BAD;
        else if (free_bytes < SPACE_WARN || free_bytes < all_bytes / 20)
                verdict = VERDICT_WARN;
        doctor_tell(d, verdict, "free disk",
                    verdict == VERDICT_FINE
                            ? NULL
                            : "make room: without it new work is refused (history_keep_done in "
                              "weir.conf(5) says how long finished jobs are kept)",
                    "%.1f of %.1f GiB", (double)free_bytes / (1024.0 * MIB),
                    (double)all_bytes / (1024.0 * MIB));
        if (fs.f_files && fs.f_favail < 1000)
                doctor_tell(d, VERDICT_WARN, "free disk", "remove files from that file system",
                            "%llu more files can be made", (unsigned long long)fs.f_favail);
}

/* ---- the system ---- */

void doctor_check_files(struct doctor *d)
{
        struct rlimit limit;
        if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
                return; /* cannot fail with these arguments */
        bool is_low = limit.rlim_cur < FILES_WANTED;
        char fix[160];
        (void)snprintf(fix, sizeof(fix),
                       "each connection takes one: LimitNOFILE=%d in the unit, or ulimit -n %d",
                       FILES_WANTED * 4, FILES_WANTED * 4);
        doctor_tell(d, is_low ? VERDICT_WARN : VERDICT_FINE, "open files", is_low ? fix : NULL,
                    "%llu may be open (at most %llu), for what is started from here",
                    (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
}

void doctor_check_clock(struct doctor *d)
{
        struct timex t = {0};
        bool is_systemd = access("/run/systemd/timesync/synchronized", F_OK) == 0;
        int state = adjtimex(&t);
        const char *fix = "start systemd-timesyncd, chrony or ntpd: schedules and 'at' follow this "
                          "clock";
        if (state < 0) {
                doctor_tell(d, VERDICT_WARN, "clock", fix, "the kernel does not say: %s",
                            strerror(errno));
        } else if ((state == TIME_ERROR || (t.status & STA_UNSYNC)) && !is_systemd) {
                doctor_tell(d, VERDICT_WARN, "clock", fix, "nothing keeps it right (no NTP)");
        } else {
                bool is_wide = t.maxerror > CLOCK_ERROR_US && !is_systemd;
                doctor_tell(d, is_wide ? VERDICT_WARN : VERDICT_FINE, "clock", is_wide ? fix : NULL,
                            "synchronised, wrong by at most %.3f s", (double)t.maxerror / 1e6);
        }
}

void doctor_check_zones(struct doctor *d)
{
        const struct tz *zone;
        struct problem p = {0};
        int r = tz_open(SLICE_LIT("Europe/Berlin"), &zone, &p);
        doctor_tell(d, r == OK ? VERDICT_FINE : VERDICT_WARN, "time zones",
                    r == OK ? NULL : "install tzdata: schedules in a zone are refused without it",
                    r == OK ? "can be read%s" : "cannot be read: %s", r == OK ? "" : p.detail);
}
