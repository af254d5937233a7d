/* How many moved actions may return now: so many that runners do not run dry, and so few that new
 * work does not wait long behind them.
 *
 * What returns has the oldest dates, and Action Scheduler takes it before everything new.  A stock
 * that were topped up all the time would let nothing else run until the last one is back.  So a
 * stock is given when nothing that is due has waited for a second, and the next one when that is so
 * again: what came meanwhile runs in between.  Its size is what runners do in 5 s, found by how
 * long the last one took, and at least 4 batches for each runner.
 *
 * When something waits all the time (a group that no runner takes, more new work than runners can
 * do), a stock is given once a minute.  Pure: no clock. */
#ifndef WEIR_SITES_STOCK_H
#define WEIR_SITES_STOCK_H

#include "base/defs.h"

#define STOCK_BATCH       25 /* what a runner claims at once, by default */
#define STOCK_BATCHES     4
#define STOCK_RUNNERS     64 /* more are not believed */
#define STOCK_MAX         5000
#define STOCK_MS          5000 /* what one is to last */
#define STOCK_AT_LEAST_MS 60000

struct stock {
        int64_t begun_ms; /* when the last one was */
        uint64_t given;   /* how many came back since; 0: there was none */
};

/* At a look, by a clock that only goes on: how many may return.  is_idle: nothing has waited for a
 * second. */
size_t stock_room(const struct stock *s, int64_t now_ms, bool is_idle, uint32_t runners);
/* A stock is about to return; each part of it is added when it has. */
void stock_begin(struct stock *s, int64_t now_ms);
void stock_add(struct stock *s, uint64_t n);
/* The load has risen: half as many. */
void stock_halve(struct stock *s);

#endif
