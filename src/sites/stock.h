/* How many moved actions may return now: so many that runners do not run dry, and so few that new
 * work does not wait behind them.
 *
 * What returns has the oldest dates and is claimed before everything new.  So what is due is kept
 * at a small stock, and topped up once a second to
 *
 *      the larger of 4 batches for each runner and 5 s of the best rate of the last minute
 *
 * The rate is what disappeared from the stock between two looks.  New work that came meanwhile
 * makes it look smaller than it is; the best of a minute is near the truth.  Pure: no clock. */
#ifndef WEIR_SITES_STOCK_H
#define WEIR_SITES_STOCK_H

#include "base/defs.h"

#define STOCK_SECONDS  60
#define STOCK_BATCH    25 /* what a runner claims at once, by default */
#define STOCK_BATCHES  4
#define STOCK_RATE_S   5
#define STOCK_RUNNERS  64 /* more are not believed */
#define STOCK_LOOK_MAX 10 /* s; what was given longer ago tells no rate */

struct stock {
        uint32_t best[STOCK_SECONDS]; /* per second, by the second of the look */
        int64_t at_s;                 /* of the last look; 0: none */
        uint32_t had;                 /* due then, with what was given since */
        bool was_full;                /* more than that was due */
};

/* At a look: how many may return.  `due` up to cap + 1. */
uint32_t stock_room(struct stock *s, int64_t now_s, uint32_t due, uint32_t cap, uint32_t runners);
void stock_given(struct stock *s, uint64_t n);
/* The load has risen: half as fast. */
void stock_halve(struct stock *s);

#endif
