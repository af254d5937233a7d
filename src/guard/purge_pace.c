/* See purge_pace.h. */
#include "guard/purge_pace.h"

#include "base/clock.h"

#define MEASURED_NS  (10 * NS_PER_S) /* a rate is that of so long a time */
#define LEAST_NS     NS_PER_S        /* one of a shorter time is no rate */
#define ROWS_TELL    40              /* a slice of fewer rows is mostly the way to the server */
#define FORGET       64              /* the best of times grows by this part with each slice */
#define REFUSED_NS   (100 * NS_PER_MS)
#define SHRINK_TIMES 4

unsigned purge_pace_rows(const struct purge_pace *p)
{
        return p->rows ? p->rows : PACE_ROWS_FIRST;
}

static unsigned next_rows(const struct purge_slice *s)
{
        int64_t took_ns = s->ended_ns - s->began_ns;
        int64_t rows = s->asked;
        if (s->is_refused)
                rows = rows / 2;
        else if (took_ns > PACE_SLICE_NS)
                rows = took_ns > SHRINK_TIMES * PACE_SLICE_NS ? rows / SHRINK_TIMES
                                                              : rows * PACE_SLICE_NS / took_ns;
        else if (took_ns < PACE_SLICE_NS / 2)
                rows = rows + rows / 2 + 1;
        if (rows < 1)
                return 1;
        return rows < PACE_ROWS_MAX ? (unsigned)rows : PACE_ROWS_MAX;
}

/* How many times longer a row takes than at the best of times. */
static double slowdown(struct purge_pace *p, const struct purge_slice *s, int64_t took_ns)
{
        if (s->changed < ROWS_TELL)
                return 1;
        int64_t row_ns = took_ns / (int64_t)s->changed + 1;
        if (!p->best_ns || row_ns < p->best_ns)
                p->best_ns = row_ns;
        double slow = (double)row_ns / (double)p->best_ns;
        p->best_ns += p->best_ns / FORGET + 1;
        return slow < PACE_SLOW_MAX ? slow : PACE_SLOW_MAX;
}

static void measure(struct purge_pace *p, int64_t now_ns, int64_t least_ns)
{
        int64_t ns = now_ns - p->since_ns;
        if (!p->since_ns || ns < least_ns)
                return;
        p->per_s = (double)p->n_done * (double)NS_PER_S / (double)ns;
        p->since_ns = now_ns;
        p->n_done = 0;
}

void purge_pace_took(struct purge_pace *p, const struct purge_slice *s)
{
        int64_t took_ns = s->ended_ns - s->began_ns;
        double rest_ns = (double)took_ns * PACE_REST * slowdown(p, s, took_ns);
        p->rows = next_rows(s);
        p->due_ns = s->ended_ns + (int64_t)rest_ns + (s->is_refused ? REFUSED_NS : 0);
        if (!p->since_ns)
                p->since_ns = s->began_ns;
        p->n_done += s->done;
        measure(p, s->ended_ns, MEASURED_NS);
}

void purge_pace_sleep(struct purge_pace *p, int64_t now_ns, int64_t until_ns)
{
        measure(p, now_ns, LEAST_NS);
        p->since_ns = 0;
        p->n_done = 0;
        if (p->due_ns < until_ns)
                p->due_ns = until_ns;
}
