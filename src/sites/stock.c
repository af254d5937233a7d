/* See stock.h. */
#include "sites/stock.h"

/* What runners would have done in STOCK_MS; it doubles at most, because a stock that is gone at the
 * first look tells little. */
static uint64_t next_stock(const struct stock *s, int64_t took_ms)
{
        uint64_t most = 2 * s->given;
        uint64_t n = took_ms > 0 ? s->given * STOCK_MS / (uint64_t)took_ms : most;
        return n < most ? n : most;
}

size_t stock_room(const struct stock *s, int64_t now_ms, bool is_idle, uint32_t runners)
{
        int64_t took_ms = now_ms - s->begun_ms;
        if (!is_idle && s->given && took_ms < STOCK_AT_LEAST_MS)
                return 0;
        uint64_t n = runners < 1 ? 1 : runners > STOCK_RUNNERS ? STOCK_RUNNERS : runners;
        uint64_t least = n * STOCK_BATCH * STOCK_BATCHES;
        uint64_t want = next_stock(s, took_ms);
        want = want > least ? want : least;
        return (size_t)(want < STOCK_MAX ? want : STOCK_MAX);
}

void stock_begin(struct stock *s, int64_t now_ms)
{
        s->begun_ms = now_ms;
        s->given = 0;
}

void stock_add(struct stock *s, uint64_t n)
{
        s->given += n;
}

void stock_halve(struct stock *s)
{
        s->given /= 2;
}
