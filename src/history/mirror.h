/* Where a history is kept besides its own files: a database that several machines share.
 *
 * The files of a history are then a copy: whatever the writer changes goes to the mirror first, in
 * one transaction with one number, and to the files after that.  On a machine that does not lead,
 * the copy is brought up to date from the mirror; on one that begins to lead, before it serves.
 *
 * Blocks are rows as they are (history/blocks.h): bytes, and the dead among their jobs.  Minutes,
 * incidents and entries of the audit trail are rows with a key and a body.  Each row has the number
 * of the transaction that changed it last, so that a copy asks for what changed since.
 *
 * A machine that begins to lead puts a row of MIRROR_LEAD with a random body, which never changes.
 * It tells one database from another, and one whose last transactions are lost from what it was: a
 * reader can see a transaction that is gone when the server behind it fails, and then the next one
 * has its number.  The transaction in its place is the first of another leader.
 *
 * Threads: that of the writer. */
#ifndef WEIR_HISTORY_MIRROR_H
#define WEIR_HISTORY_MIRROR_H

#include "base/err.h"
#include "base/slice.h"

/* The numbers are in databases out there. */
enum mirror_kind {
        MIRROR_BLOCK,
        MIRROR_MINUTE,
        MIRROR_INCIDENT,
        MIRROR_AUDIT,
        MIRROR_LEAD, /* its key is its transaction; 16 random bytes */
        MIRROR_KINDS
};

struct mirror_row {
        enum mirror_kind kind;
        uint64_t key;      /* the number of the block, of the incident, ...; see each writer */
        uint64_t change;   /* the transaction that made or changed it */
        struct slice body; /* of a block: its bytes as they are in a segment */
        struct slice dead; /* of a block: the column `dead`; else empty */
};

/* What a copy asks for: the rows that were put or buried after `since`. */
struct mirror_page {
        uint64_t since;
        uint64_t bytes; /* of bodies, about; whole transactions, at least one */
        int (*fn)(void *ctx, const struct mirror_row *row, struct problem *problem);
        void *ctx;
        /* Set by the mirror: nothing up to this transaction is left.  That of last() when the page
         * is the last one. */
        uint64_t upto;
};

struct mirror;
struct mirror_ops {
        /* Begins transaction `change`, the one after the last.  ERR_STATE: this machine does not
         * lead any more, or that is not the next number (last() tells which); ERR_IO, ERR_TIMEOUT:
         * the database cannot be had, try again. */
        int (*begin)(struct mirror *m, uint64_t change, struct problem *problem);
        /* Makes the row, or replaces it; its `change` is that of the transaction. */
        int (*put)(struct mirror *m, const struct mirror_row *row, struct problem *problem);
        int (*bury)(struct mirror *m, uint64_t block, struct slice dead, struct problem *problem);
        int (*drop)(struct mirror *m, enum mirror_kind kind, uint64_t key, struct problem *problem);
        /* OK: durable and replicated.  ERR_STATE: as of begin.  After any other error nothing or
         * all of it is there or will be, and last() tells which. */
        int (*commit)(struct mirror *m, struct problem *problem);
        void (*abandon)(struct mirror *m); /* after an error of any but commit */
        /* The number of the last transaction; 0: there was none. */
        int (*last)(struct mirror *m, uint64_t *ret, struct problem *problem);
        /* Calls page->fn for the rows of the page in order of their change, as of one moment; an
         * error of fn ends it. */
        int (*since)(struct mirror *m, struct mirror_page *page, struct problem *problem);
        /* Keys of a kind that are there, in order, from `from` on, at most n: a copy finds out what
         * was dropped. */
        int (*keys)(struct mirror *m, enum mirror_kind kind, uint64_t from, uint64_t *ret, size_t n,
                    size_t *ret_n, struct problem *problem);
        struct mirror *(*free)(struct mirror *m); /* returns NULL */
};

struct mirror {
        const struct mirror_ops *ops;
};

#endif
