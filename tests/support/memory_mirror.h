/* A mirror of history (history/mirror.h) in memory, for tests: one store, and a mirror for each
 * machine that uses it, with faults.
 *
 * Threads: the mirror's ops on the writer thread of its history; the rest on any. */
#ifndef WEIR_TESTS_MEMORY_MIRROR_H
#define WEIR_TESTS_MEMORY_MIRROR_H

#include <pthread.h>

#include "base/buf.h"
#include "base/rand.h"
#include "history/mirror.h"

struct memory_mirror_row {
        enum mirror_kind kind;
        uint64_t key, change;
        struct buf body, dead;
};

/* What the machines share. */
struct memory_mirror_store {
        pthread_mutex_t lock;
        pthread_cond_t news;
        struct memory_mirror_row *rows;
        size_t n_rows, cap_rows;
        uint64_t epoch, change;
        struct rng dice;
        struct memory_mirror_store *saved; /* as it was before a doomed commit; NULL: none */
};

void memory_mirror_store_init(struct memory_mirror_store *s, uint64_t seed);
void memory_mirror_store_release(struct memory_mirror_store *s);
/* What was committed since the doomed commit is gone.  The mirrors are to be broken then. */
void memory_mirror_store_revert(struct memory_mirror_store *s);

struct memory_mirror_op;

struct memory_mirror {
        struct mirror base;
        struct memory_mirror_store *store;
        /* With the store's lock: */
        uint64_t epoch;
        unsigned lost, unknown; /* of a hundred calls and commits fail so; commits that were done */
        unsigned n_faults;      /* so many did */
        bool is_away;           /* every call fails */
        bool is_broken;         /* the next one does */
        bool is_doomed;         /* the next commit is done, then the mirror is away */
        bool is_held;           /* commits wait */
        bool is_in_commit;      /* one waits; store->news tells */
        void (*on_commit)(void *ctx); /* after a commit, before it returns; may be NULL */
        void *on_commit_ctx;
        /* The writer thread's. */
        struct memory_mirror_op *ops;
        size_t n_ops, cap_ops;
        uint64_t change;
};

void memory_mirror_init(struct memory_mirror *m, struct memory_mirror_store *s);
void memory_mirror_release(struct memory_mirror *m);
/* It may write from now on, and those of an earlier epoch no more when it has begun to. */
void memory_mirror_lead(struct memory_mirror *m);
void memory_mirror_set_faults(struct memory_mirror *m, unsigned lost, unsigned unknown);
void memory_mirror_set_away(struct memory_mirror *m, bool is_away);
void memory_mirror_break(struct memory_mirror *m); /* the next call finds the connection lost */
/* The next commit is seen by all, and its answer lost with the server: see revert(). */
void memory_mirror_doom(struct memory_mirror *m);
bool memory_mirror_is_away(struct memory_mirror *m);
void memory_mirror_set_on_commit(struct memory_mirror *m, void (*fn)(void *ctx), void *ctx);
/* Holds commits back, or lets them go on; waiting for one to be held. */
void memory_mirror_hold(struct memory_mirror *m, bool is_held);
void memory_mirror_wait_held(struct memory_mirror *m);

#endif
