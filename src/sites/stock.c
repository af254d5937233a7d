/* See stock.h. */
#include "sites/stock.h"

#include <string.h>

static void stock_note(struct stock *s, int64_t now_s, uint32_t per_s)
{
        int64_t from_s = s->at_s && now_s - s->at_s < STOCK_SECONDS ? s->at_s + 1
                                                                    : now_s - STOCK_SECONDS + 1;
        for (int64_t i = from_s; i <= now_s; i++)
                s->best[(uint64_t)i % STOCK_SECONDS] = 0;
        uint32_t *now = &s->best[(uint64_t)now_s % STOCK_SECONDS];
        *now = per_s > *now ? per_s : *now;
}

static uint32_t stock_best(const struct stock *s)
{
        uint32_t best = 0;
        for (size_t i = 0; i < STOCK_SECONDS; i++)
                best = s->best[i] > best ? s->best[i] : best;
        return best;
}

uint32_t stock_room(struct stock *s, int64_t now_s, uint32_t due, uint32_t cap, uint32_t runners)
{
        int64_t passed_s = now_s - s->at_s;
        bool is_known = s->at_s && passed_s >= 0 && passed_s <= STOCK_LOOK_MAX && !s->was_full &&
                        due <= s->had;
        uint32_t gone = is_known ? s->had - due : 0;
        stock_note(s, now_s, gone / (uint32_t)(is_known && passed_s > 1 ? passed_s : 1));
        s->at_s = now_s;
        s->had = due;
        s->was_full = due > cap;
        uint32_t n = runners < 1 ? 1 : runners > STOCK_RUNNERS ? STOCK_RUNNERS : runners;
        uint64_t least = (uint64_t)n * STOCK_BATCH * STOCK_BATCHES;
        uint64_t want = (uint64_t)stock_best(s) * STOCK_RATE_S;
        want = want > least ? want : least;
        want = want < cap ? want : cap;
        return want > due ? (uint32_t)want - due : 0;
}

void stock_given(struct stock *s, uint64_t n)
{
        s->had += (uint32_t)n;
}

void stock_halve(struct stock *s)
{
        for (size_t i = 0; i < STOCK_SECONDS; i++)
                s->best[i] /= 2;
}
