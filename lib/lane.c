/* Credits and the client's own throttling.
 *
 * Credits are kept as units, credits x cost: a loop that makes its steps larger or smaller goes on
 * with what it was given, and a step that does not fit asks.
 *
 * Throttling is the rule of Google's SRE book: a client that sees more than every K-th of its
 * requests refused keeps a share of them back, so that refusing costs the server nothing.  The
 * plain rule has one weakness here.  Its requests go on counting while nothing is asked: after two
 * minutes of refusals at 20 a second it would ask once in two minutes, and one grant among 2,400
 * refusals would change nothing.  weir's refusals are no coin tosses of an overloaded server but
 * the state of a database, so two things are added:
 *
 *      a probe     one question in PROBE_MS passes, whatever the dice say
 *      pardon      a grant forgets the refusals before it that exceed K: the probability is 0
 *
 * so a loop that is refused for an hour asks once a second, and is at full speed one second after
 * the database is well.
 *
 * History is a ring of cells, moved on by each function that reads it; a pause longer than the ring
 * empties it.  Everything is O(LANE_CELLS) with no allocation but the key's. */
#include "lane.h"

void lane_init(struct lane *l)
{
        *l = (struct lane){0};
        buf_init(&l->key, 0);
}

void lane_release(struct lane *l)
{
        buf_release(&l->key);
}

bool lane_use_credit(struct lane *l, uint32_t cost, int64_t now_ns)
{
        if (l->units < cost || now_ns >= l->units_until_ns)
                return false;
        l->units -= cost;
        return true;
}

void lane_put_credits(struct lane *l, uint32_t credits, uint32_t cost, int64_t until_ns)
{
        l->units = (uint64_t)credits * cost;
        l->units_until_ns = until_ns;
}

/* Empties the cells between the newest and now. */
static struct lane_cell *cell_now(struct lane *l, int64_t now_ns)
{
        int64_t cell = now_ns / LANE_CELL_NS;

        if (cell - l->newest >= LANE_CELLS)
                l->newest = cell - LANE_CELLS;
        while (l->newest < cell)
                l->cells[++l->newest % LANE_CELLS] = (struct lane_cell){0};
        return &l->cells[l->newest % LANE_CELLS];
}

static void sum(const struct lane *l, uint64_t *ret_requests, uint64_t *ret_accepts)
{
        *ret_requests = *ret_accepts = 0;
        for (size_t i = 0; i < LANE_CELLS; i++) {
                *ret_requests += l->cells[i].requests;
                *ret_accepts += l->cells[i].accepts;
        }
}

double lane_pressure(struct lane *l, uint32_t k_percent, int64_t now_ns)
{
        uint64_t requests, accepts;

        if (k_percent == 0)
                return 0;
        (void)cell_now(l, now_ns);
        sum(l, &requests, &accepts);
        double over = (double)requests - (double)accepts * k_percent / 100;
        return over > 0 ? over / ((double)requests + 1) : 0;
}

int64_t lane_admit(struct lane *l, uint32_t k_percent, int64_t probe_ns, double dice,
                   int64_t now_ns)
{
        double pressure = lane_pressure(l, k_percent, now_ns);
        int64_t left_ns = l->asked_ns ? l->asked_ns + probe_ns - now_ns : 0;

        if (left_ns > 0 && dice < pressure) {
                cell_now(l, now_ns)->requests++;
                return left_ns;
        }
        l->asked_ns = now_ns;
        return 0;
}

/* Takes requests away, oldest first, until no more than K times the accepts are left.  Those that
 * were accepted stay: accepts <= requests in every cell. */
static void pardon(struct lane *l, uint32_t k_percent)
{
        uint64_t requests, accepts;

        sum(l, &requests, &accepts);
        uint64_t may = accepts * k_percent / 100;
        for (int64_t n = l->newest + 1; n <= l->newest + LANE_CELLS && requests > may; n++) {
                struct lane_cell *c = &l->cells[n % LANE_CELLS];
                uint64_t spare = c->requests - c->accepts;
                uint64_t drop = requests - may < spare ? requests - may : spare;
                c->requests -= (uint32_t)drop;
                requests -= drop;
        }
}

void lane_answered(struct lane *l, uint32_t k_percent, bool is_granted, int64_t now_ns)
{
        struct lane_cell *c = cell_now(l, now_ns);

        c->requests++;
        if (!is_granted)
                return;
        c->accepts++;
        pardon(l, k_percent);
}

struct lane *lanes_find(struct lanes *all, struct slice key, int64_t now_ns)
{
        struct lane *oldest = NULL;

        for (size_t i = 0; i < all->n; i++) {
                struct lane *l = &all->lane[i];
                if (slice_eq(buf_slice(&l->key), key)) {
                        l->used_ns = now_ns;
                        return l;
                }
                if (!oldest || l->used_ns < oldest->used_ns)
                        oldest = l;
        }
        if (all->n < LANES_MAX) {
                oldest = &all->lane[all->n++];
                lane_init(oldest);
        }
        struct buf kept = oldest->key; /* its memory serves the next */
        *oldest = (struct lane){.key = kept, .used_ns = now_ns};
        buf_clear(&oldest->key);
        buf_put_slice(&oldest->key, key);
        if (!oldest->key.failed)
                return oldest;
        buf_clear(&oldest->key); /* no question has an empty key: it is never found */
        return NULL;
}

void lanes_forget(struct lanes *all)
{
        for (size_t i = 0; i < all->n; i++)
                lane_release(&all->lane[i]);
        all->n = 0;
}
