/* The simplest owner of a log of several machines: it keeps a sum of every batch it has, and what
 * it was told.  Checks that batches arrive in order and without a gap, and that callbacks come when
 * they may. */
#ifndef WEIR_TESTS_LOG_BOOK_H
#define WEIR_TESTS_LOG_BOOK_H

#include "log/log.h"

struct book {
        struct log *log;
        uint64_t first, next; /* it has the batches [first, next); equal: none */
        uint64_t *sums;       /* of each, from `first` on */
        size_t cap;
        bool is_leading;
        bool is_in_flight;
        uint64_t flying_sum;
        uint64_t n_arrived, n_restarted, n_led, n_lost, n_durable, n_notified;
        struct log_tail tail; /* of the last lead */
        struct problem problem;
        /* Told of each batch that is durable, and of each lead; may be NULL. */
        void (*on_durable)(struct book *b, uint64_t seq, uint64_t sum);
        void (*on_led)(struct book *b);
        void *ctx;
};

uint64_t book_sum(struct slice batch); /* 0 when it is empty */
/* Sets the callbacks, and lets it lead if that is wanted. */
void book_open(struct book *b, struct log *log, bool wants_lead);
void book_release(struct book *b); /* closes the log, too */
/* The next batch; nothing may be in flight. */
void book_append(struct book *b, struct slice batch);
/* 0: it has none of that number, or that is empty. */
uint64_t book_at(const struct book *b, uint64_t seq);

#endif
