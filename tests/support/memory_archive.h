/* An archive in memory, for tests and simulation: what was handed over is committed when the
 * test says so, and a crash forgets what was not. */
#ifndef WEIR_TESTS_MEMORY_ARCHIVE_H
#define WEIR_TESTS_MEMORY_ARCHIVE_H

#include "base/buf.h"
#include "base/idmap.h"
#include "core/archive.h"

struct memory_row {
        struct job_view view; /* owns its slices */
        char *bytes;
};

struct memory_incident {
        struct archive_incident row; /* borrows from: */
        struct buf event, message;
};

/* An entry of the audit trail: handed over, then durable, then reported. */
struct memory_audit {
        struct audit_entry row; /* borrows from: */
        struct buf bytes;
        bool is_durable, is_reported;
};

struct memory_archive {
        struct archive base;
        struct idmap rows; /* struct memory_row */
        struct job **handed;
        size_t n_handed, cap_handed, n_committed; /* the first n_committed are not yet reported */
        struct archive_query *asked;
        struct archive_removal *to_remove;
        struct memory_incident *incidents; /* durable as soon as they are noted */
        size_t n_incidents;
        struct archive_incidents *inquiries;
        struct memory_audit *audits; /* the durable ones once each, by when they were handed over */
        size_t n_audits;
        struct archive_audits *reviews;
        struct buf *rolls; /* packed minutes, durable as soon as they are there */
        size_t n_rolls;
        struct archive_rollups *surveys;
        bool is_broken;   /* whoever asks or deletes is told of an error */
        size_t budget;    /* rows that a listing may look at before it is cut; 0: all */
        uint64_t ignored; /* handed over again after a crash */
        uint64_t room;    /* that it has for rows; 0: more than anybody needs */
        bool is_stuck;    /* it takes nothing at the moment */
};

void memory_archive_init(struct memory_archive *a);
void memory_archive_release(struct memory_archive *a);
/* Makes all of the audit trail and up to n jobs of what was handed over durable; poll() reports it.
 */
void memory_archive_commit(struct memory_archive *a, size_t n);
/* The process is gone: what was handed over is forgotten, what was committed stays. */
void memory_archive_crash(struct memory_archive *a);
/* Rows that the other has and this one has not, or only of an earlier run. */
void memory_archive_copy(struct memory_archive *to, const struct memory_archive *from);
const struct job_view *memory_archive_find(const struct memory_archive *a, uint64_t id);

#endif
