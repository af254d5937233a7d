/* The files of a history as the copy of a mirror (mirror.h): what a transaction changes on its way
 * to the mirror, and the number of the last transaction that the files have.
 *
 * A transaction of the files is one of SQLite.  What it changes is gathered here, and when it is to
 * end it goes to the mirror first:
 *
 *      BEGIN; mirrored_put(), mirrored_bury(), mirrored_drop() beside each change of the tables
 *      mirrored_commit()                the mirror has it
 *      COMMIT; mirrored_done() or, if anything failed, ROLLBACK; mirrored_undo()
 *
 * Only then do the files have it.  A crash or a failure in between leaves the files behind the
 * mirror, and they are brought up to date before anything else is written (is_behind).  An unknown
 * commit is the same case.
 *
 * The table `mirror` of the file, which only a copy has, keeps the number, and the last row of
 * MIRROR_LEAD: as long as the mirror has that one and none between it and the number, the copy is
 * one of what the mirror has.  Block n of transaction t has the number t * MIRRORED_BLOCKS + n, so
 * no number is used again.
 *
 * Without a mirror nothing here does anything.  Threads: that of the writer. */
#ifndef WEIR_HISTORY_MIRRORED_H
#define WEIR_HISTORY_MIRRORED_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "history/mirror.h"

#define MIRRORED_SHIFT    16
#define MIRRORED_BLOCKS   (1ULL << MIRRORED_SHIFT) /* a transaction has no more of them */
#define MIRRORED_ID_BYTES 16

struct mirrored_change;

struct mirrored {
        struct mirror *mirror; /* borrowed; NULL: none */
        sqlite3 *db;           /* borrowed */
        const char *path;      /* of the history file; borrowed */
        uint64_t change;       /* the last that the files have; 0: none */
        struct mirrored_lead {
                uint64_t change; /* its transaction; 0: none is known */
                uint8_t id[MIRRORED_ID_BYTES];
        } lead;           /* the last of those that the files have */
        bool is_same;     /* the mirror has it too; looked up again after each failure */
        bool is_behind;   /* the mirror may have more than the files */
        bool is_damaged;  /* a block of the files cannot be read: it is to be fetched again */
        bool is_applying; /* what is changed comes from the mirror; upto: and ends there */
        bool is_forced;   /* a transaction even when nothing changes: it proves who leads */
        uint64_t upto;
        size_t n_missing; /* blocks that could not be fetched, as of the last comparison */
        /* Called when a transaction has all it needs, before it waits for the mirror; may be NULL.
         */
        void (*on_built)(void *ctx);
        void *on_built_ctx;
        /* Of the open transaction. */
        struct mirrored_change *changes;
        size_t n_changes, cap_changes;
        struct buf bodies;
        uint64_t n_blocks;
        bool is_committed;      /* the mirror has it */
        struct problem trouble; /* of the mirror; err is OK when there is none */
};

/* Says what the file is from now on: the copy of that mirror, or, when it is NULL, no copy.
 * ERR_STATE: it has jobs of its own, which no mirror has. */
int mirrored_set(struct mirrored *m, struct mirror *mirror, struct problem *p) MUST_CHECK;
void mirrored_release(struct mirrored *m); /* all zeros is fine */

/* Does what is changed now go to a mirror? */
static inline bool mirrored_is_on(const struct mirrored *m)
{
        return m && m->mirror && !m->is_applying;
}

/* The number of the next block. */
uint64_t mirrored_number(struct mirrored *m);
/* The bytes are copied.  These fail only without memory, and mirrored_commit() tells. */
void mirrored_put(struct mirrored *m, enum mirror_kind kind, uint64_t key, struct slice body);
void mirrored_bury(struct mirrored *m, uint64_t block, struct slice dead);
void mirrored_drop(struct mirrored *m, enum mirror_kind kind, uint64_t key);

int mirrored_commit(struct mirrored *m, struct problem *p) MUST_CHECK;
void mirrored_done(struct mirrored *m);
void mirrored_undo(struct mirrored *m);

/* The same for transactions that change no blocks.  Both return a code of SQLite; a mirror that
 * failed is SQLITE_ERROR, with the reason in m->trouble. */
int mirrored_begin(struct mirrored *m);
int mirrored_end(struct mirrored *m);
/* Tells what failed and rolls back; returns p->err. */
int mirrored_fail(struct mirrored *m, struct problem *p);

/* Runs a statement with numbers as its parameters, within a transaction. */
int mirrored_run(sqlite3 *db, const char *sql, const int64_t *numbers, int n);
/* Keeps the last row of MIRROR_LEAD.  A code of SQLite. */
int mirrored_set_lead(struct mirrored *m, const struct mirrored_lead *lead);

#endif
