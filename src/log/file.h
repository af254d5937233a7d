/* The log in files of one folder: preallocated, zero-filled, recycled segments.
 * log/README.md draws the bytes and lists the invariants. */
#ifndef WEIR_LOG_FILE_H
#define WEIR_LOG_FILE_H

#include "log/disk.h"
#include "log/log.h"

#define FILE_LOG_SEGMENT_BYTES (64 * MIB)

struct file_log_options {
        uint64_t segment_bytes; /* of a new folder; 0 = FILE_LOG_SEGMENT_BYTES; small in tests */
        bool is_threaded;       /* false: append writes and syncs before it returns (simulation) */
        uint64_t seed;          /* 0 = drawn at random; else the same bytes are written each time */
};

/* Takes the disk (it is NULL afterwards, also on error). */
int file_log_open(struct disk **disk, const struct file_log_options *options, struct log **ret,
                  struct problem *p) MUST_CHECK;

/* Offline tools; none of them changes the folder it reads. */
struct file_log_report {
        uint64_t segments, spares, batches, records, bytes;
        uint64_t first_seq, last_seq;
        uint64_t cut_batches, cut_bytes; /* a torn tail, as a start would cut it */
        uint64_t bad_places;             /* damage: 0 when the log is sound */
};
typedef void (*file_log_bad_fn)(void *ctx, const char *file, uint64_t offset, const char *reason);

/* Every sound batch in order, read-only and without the lock (`weir log dump`); stops with
 * ERR_CORRUPT at the first damaged place, and silently before a torn tail. */
int file_log_walk(struct disk *disk, log_read_fn fn, void *ctx, struct problem *p) MUST_CHECK;
/* Reads everything and reports every damaged place, not only the first. */
int file_log_verify(struct disk *disk, file_log_bad_fn bad, void *ctx, struct file_log_report *ret,
                    struct problem *p) MUST_CHECK;
/* Writes every sound record into a new log in the (empty) folder of `to`, in order. */
int file_log_salvage(struct disk *from, struct disk *to, file_log_bad_fn left_behind, void *ctx,
                     struct file_log_report *ret, struct problem *p) MUST_CHECK;
/* Copies a log that may be written meanwhile into the (empty) folder of `to`, up to a batch that is
 * durable or in flight; `ret` gets the segments and bytes. */
int file_log_copy(struct disk *from, struct disk *to, struct file_log_report *ret,
                  struct problem *p) MUST_CHECK;

#endif
