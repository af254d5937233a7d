/* See site_turns.h. */
#include "work/site_turns.h"

static size_t find_waiting(const struct turn_blog *blogs, size_t n, bool is_critical)
{
        size_t best = TURNS_NONE;
        for (size_t i = 0; i < n; i++)
                if (blogs[i].wants > 0 && blogs[i].is_critical == is_critical &&
                    (best == TURNS_NONE || blogs[i].last < blogs[best].last))
                        best = i;
        return best;
}

size_t turns_next(struct turns *t, const struct turn_blog *blogs, size_t n)
{
        size_t critical = find_waiting(blogs, n, true), other = find_waiting(blogs, n, false);
        if (critical == TURNS_NONE)
                return other;
        if (other == TURNS_NONE)
                return critical;
        if (t->n_critical < TURNS_CRITICAL_MAX) {
                t->n_critical++;
                return critical;
        }
        t->n_critical = 0;
        return other;
}

/* Those with something due first, then the one whose last turn is the longest ago. */
static size_t find_coming(const struct turn_reserved *blogs, size_t n)
{
        size_t best = TURNS_NONE;
        for (size_t i = 0; i < n; i++) {
                const struct turn_reserved *b = &blogs[i];
                if (!b->has_hooks || b->is_there)
                        continue;
                if (best == TURNS_NONE || (b->is_due && !blogs[best].is_due) ||
                    (b->is_due == blogs[best].is_due && b->last < blogs[best].last))
                        best = i;
        }
        return best;
}

/* Those without anything due first, then the one that is there for the longest time. */
static size_t find_leaving(const struct turn_reserved *blogs, size_t n)
{
        size_t best = TURNS_NONE;
        for (size_t i = 0; i < n; i++) {
                const struct turn_reserved *b = &blogs[i];
                if (!b->is_there || b->stayed_ms < (b->is_due ? TURNS_FULL_MS : TURNS_STAY_MS))
                        continue;
                if (best == TURNS_NONE || (!b->is_due && blogs[best].is_due) ||
                    (b->is_due == blogs[best].is_due && b->stayed_ms > blogs[best].stayed_ms))
                        best = i;
        }
        return best;
}

struct turn_move turns_reserved(const struct turn_reserved *blogs, size_t n, size_t places)
{
        struct turn_move move = {find_coming(blogs, n), TURNS_NONE};
        size_t n_there = 0, n_leaving = 0;
        for (size_t i = 0; i < n; i++) {
                n_there += blogs[i].is_there;
                n_leaving += !blogs[i].is_there && blogs[i].is_leaving;
        }
        if (move.come == TURNS_NONE || n_there + n_leaving < places)
                return move;
        if (blogs[move.come].is_due && !n_leaving)
                move.leave = find_leaving(blogs, n);
        move.come = TURNS_NONE;
        return move;
}
