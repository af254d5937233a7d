/* See ramp.h for the law.
 *
 * The share of a cycle is of what is parked when it begins, not of what was parked at first: nobody
 * has to remember which jobs belong to the ramp, and jobs that left or came in between cannot make
 * it wrong.  The last cycle's share is one, so nothing stays behind.
 *
 * Slots instead of one uniform roll per job: uniform moments clump (of 100 jobs in 100 slots about
 * a third share theirs), and clumps on a database that has just recovered are what a ramp is
 * against. The moment is still random within the slot, so that several ramps do not march in step.
 */
#include "gate/ramp.h"

void ramp_init(struct ramp *r, unsigned cycles, int64_t cycle_ns)
{
        ASSERT(cycle_ns >= 0);
        *r = (struct ramp){
                .cycles = cycles ? cycles : RAMP_CYCLES,
                .cycle_ns = cycle_ns ? cycle_ns : RAMP_CYCLE_NS,
        };
}

void ramp_begin(struct ramp *r, int64_t now_ns)
{
        ramp_init(r, r->cycles, r->cycle_ns);
        r->is_running = true;
        r->next_ns = now_ns;
}

void ramp_stop(struct ramp *r)
{
        r->is_running = false;
        r->last_ns = 0;
}

void ramp_step(struct ramp *r, int64_t now_ns, const size_t n_parked[TIERS],
               size_t ret_release[TIERS])
{
        uint64_t parked = 0;

        memset(ret_release, 0, TIERS * sizeof(ret_release[0]));
        if (!r->is_running || now_ns < r->next_ns)
                return;
        for (size_t tier = 0; tier < TIERS; tier++)
                parked += n_parked[tier];
        if (r->cycle == r->cycles || parked == 0) {
                r->is_running = false;
                return;
        }
        unsigned left = r->cycles - r->cycle;
        uint64_t share = parked / left + (parked % left != 0);
        uint64_t rest = share; /* dealt out from the most important tier on */
        for (size_t tier = 0; tier < TIERS; tier++) {
                ret_release[tier] = n_parked[tier] < rest ? n_parked[tier] : (size_t)rest;
                rest -= ret_release[tier];
        }
        r->cycle++;
        if (r->cycle == r->cycles)
                r->last_ns = now_ns;
        r->next_ns = now_ns + r->cycle_ns;
        r->n_given = share;
        r->n_placed = 0;
        r->released += share;
}

int64_t ramp_jitter_ms(struct ramp *r, struct rng *dice)
{
        unsigned __int128 cycle_ms = (uint64_t)(r->cycle_ns / NS_PER_MS);
        uint64_t n = r->n_given ? r->n_given : 1;
        /* Asked for more jobs than it gave: they share the last slot. */
        uint64_t i = r->n_placed < n ? r->n_placed : n - 1;
        uint64_t from = (uint64_t)(cycle_ms * i / n), to = (uint64_t)(cycle_ms * (i + 1) / n);

        r->n_placed++;
        return (int64_t)(from + (to > from ? rng_below(dice, to - from) : 0));
}

int64_t ramp_end_ns(const struct ramp *r)
{
        return r->next_ns + (int64_t)(r->cycles - r->cycle) * r->cycle_ns;
}

bool ramp_is_last(const struct ramp *r)
{
        return r->last_ns != 0;
}

int64_t ramp_behind_ns(const struct ramp *r, int64_t now_ns)
{
        if (!ramp_is_last(r))
                return r->is_running ? ramp_end_ns(r) + r->cycle_ns - now_ns : 0;
        int64_t due_ns = r->last_ns + r->cycle_ns + (now_ns - r->last_ns) / 2;
        return due_ns > now_ns ? due_ns - now_ns : 0;
}

int64_t ramp_next_ns(const struct ramp *r)
{
        return r->is_running ? r->next_ns : INT64_MAX;
}

bool ramp_is_running(const struct ramp *r)
{
        return r->is_running;
}

unsigned ramp_cycles(const struct ramp *r)
{
        return r->cycles;
}
