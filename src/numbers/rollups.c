/* See rollups.h.
 *
 * Whatever happened since the turn before was done at the time of that turn, since the core's clock
 * stands still between turns.  So when a turn finds another minute, all that the tally holds
 * belongs to the minute before.  If minutes have passed without a turn, nothing happened in them:
 * one empty rollup stands for all of them (rollup.since).  If the wall was set forward nobody knows
 * what was there: nothing stands for that.  If it was set back, minutes are counted again and the
 * archive adds them up; memory begins anew, because it would have them twice.
 *
 * The minute of the start is asked of the archive, which may have what was before the restart, and
 * not of memory.
 *
 * Cost: with 500 busy hooks a minute takes 0.5 ms to take out and pack, and 11-17 KB of memory
 * afterwards.  The archive takes 3 ms more, on its own thread. */
#include "numbers/rollups.h"

#include <stdlib.h>

#include "base/civil.h"
#include "base/duration.h"
#include "core/rollup_view.h"
#include "numbers/series.h"
#include "throttle/throttle_state.h"

#define NS_PER_MIN (60 * NS_PER_S)

_Static_assert(SERIES_COUNTS == ROLLUP_COUNTS && SERIES_IDS == ROLLUP_TOTALS,
               "the totals of a rollup are the series, in their order");

struct kept {
        int64_t at;
        struct buf body;
};

struct rollups {
        int64_t minute;    /* that is going on, Unix; -1: no turn yet, or the last was */
        int64_t second;    /* steady, of the last look at gauges and levels */
        int64_t turned_ns; /* steady, of the last turn */
        uint64_t seen[SERIES_COUNTS];
        uint64_t gauges[ROLLUP_GAUGES]; /* the largest within the minute */
        int64_t memory_from;            /* minutes from this one on are in memory, all of them */
        struct kept kept[ROLLUPS_IN_MEMORY]; /* a ring: the next is at n % its length */
        size_t n;
};

int64_t rollups_minute(const struct core *core)
{
        int64_t minute = floor_div(core->now.wall_ms, MS_PER_MIN);
        return minute > 0 ? minute : 0;
}

/* ---- closing a minute ---- */

static void keep(struct core *core, struct rollup *r)
{
        struct rollups *all = core->rollups;
        const struct archive *archive = core->options.archive;
        struct kept *k = &all->kept[all->n++ % ROLLUPS_IN_MEMORY];
        if (all->n > ROLLUPS_IN_MEMORY && k->at >= all->memory_from)
                all->memory_from = k->at + 1;
        k->at = r->at;
        buf_clear(&k->body);
        rollup_pack(r, &k->body);
        if (archive && archive->ops->roll && !k->body.failed)
                archive->ops->roll(core->options.archive, buf_slice(&k->body));
}

static void take_gauges(struct core *core)
{
        for (size_t i = 0; i < ROLLUP_GAUGES; i++)
                core->rollups->gauges[i] = series_gauge(core, (enum series_id)(SERIES_COUNTS + i));
}

static void close_minute(struct core *core)
{
        struct rollups *all = core->rollups;
        struct rollup r;
        uint64_t totals[SERIES_COUNTS];
        rollup_init(&r);
        r.at = r.since = all->minute;
        r.span = ROLLUP_MINUTE;
        series_totals(core, totals);
        for (size_t i = 0; i < SERIES_COUNTS; i++)
                r.totals[i] = totals[i] - all->seen[i];
        memcpy(all->seen, totals, sizeof(totals));
        memcpy(r.totals + ROLLUP_COUNTS, all->gauges, sizeof(all->gauges));
        tally_take(core->tally, &r);
        keep(core, &r);
        rollup_release(&r);
        take_gauges(core);
}

/* The minutes in which no turn was, up to this one. */
static void close_idle(struct core *core, int64_t now)
{
        struct rollups *all = core->rollups;
        struct rollup r;
        rollup_init(&r);
        r.since = all->minute + 1;
        r.at = now - 1;
        r.span = ROLLUP_MINUTE;
        memcpy(r.totals + ROLLUP_COUNTS, all->gauges, sizeof(all->gauges));
        tally_take(core->tally, &r); /* empty */
        keep(core, &r);
        rollup_release(&r);
}

/* At the start, and when the wall was set back: what the archive has of this minute, or of later
 * ones, is more than memory has. */
static void begin(struct core *core, int64_t minute)
{
        struct rollups *all = core->rollups;
        bool has_archive = core->options.archive && core->options.archive->ops->rollups;
        int64_t last = minute > all->minute ? minute : all->minute;
        if (!has_archive)
                all->memory_from = INT64_MIN;
        else if (last >= all->memory_from)
                all->memory_from = last + 1;
}

/* Once a second: levels last for minutes, and gauges are told by the second. */
static void look(struct core *core)
{
        struct rollups *all = core->rollups;
        const struct throttle *t = core->throttle;
        for (size_t i = 0; i < ROLLUP_GAUGES; i++) {
                uint64_t v = series_gauge(core, (enum series_id)(SERIES_COUNTS + i));
                all->gauges[i] = v > all->gauges[i] ? v : all->gauges[i];
        }
        for (size_t i = 0; i < t->n_targets; i++)
                tally_level(core->tally, slice_str(t->targets[i].name),
                            t->targets[i].leveler.level);
}

static void rollups_turn(struct core *core)
{
        struct rollups *all = core->rollups;
        int64_t now = rollups_minute(core), second = core->now.steady_ns / NS_PER_S;
        int64_t passed_ns = core->now.steady_ns - all->turned_ns;
        all->turned_ns = core->now.steady_ns;
        if (second != all->second && all->minute >= 0)
                look(core);
        all->second = second;
        if (now == all->minute)
                return;
        if (all->minute >= 0)
                close_minute(core);
        bool is_later = all->minute >= 0 && now > all->minute;
        if (!is_later)
                begin(core, now);
        else if (now > all->minute + 1 && now - all->minute - 2 <= passed_ns / NS_PER_MIN)
                close_idle(core, now);
        all->minute = now;
}

/* ---- asking ---- */

bool rollups_ask(struct core *core, struct archive_rollups *q)
{
        const struct rollups *all = core->rollups;
        const struct archive *archive = core->options.archive;
        struct rollup_view *v = q->view;
        int64_t to = v->from + (int64_t)v->n * v->step;
        size_t n = all->n < ROLLUPS_IN_MEMORY ? all->n : ROLLUPS_IN_MEMORY;
        for (size_t i = 0; i < n; i++) {
                const struct kept *k = &all->kept[i];
                if (k->at < all->memory_from || k->at >= to || k->body.failed)
                        continue;
                int err = rollup_view_add(v, buf_slice(&k->body));
                ASSERT(err != ERR_CORRUPT); /* it was packed here */
        }
        q->from = v->from;
        q->to = to < all->memory_from ? to : all->memory_from;
        q->mid = floor_div(q->to, q->span) * q->span;
        if (q->from >= q->to || !archive || !archive->ops->rollups)
                return false;
        archive->ops->rollups(core->options.archive, q);
        return true;
}

/* ---- the feature ---- */

static void rollups_init(struct core *core)
{
        core->rollups = xcalloc(1, sizeof(*core->rollups));
        core->rollups->minute = -1;
}

static void rollups_release(struct core *core)
{
        for (size_t i = 0; i < ROLLUPS_IN_MEMORY; i++)
                buf_release(&core->rollups->kept[i].body);
        free(core->rollups);
}

/* The rest of the minute comes with the next start. */
static void rollups_end(struct core *core)
{
        if (core->rollups->minute >= 0)
                close_minute(core);
        core->rollups->minute = -1;
}

/* Checks that were counted while the core followed belong to no minute that is kept. */
static void rollups_promoted(struct core *core)
{
        struct rollup r;
        rollup_init(&r);
        tally_take(core->tally, &r);
        rollup_release(&r);
}

static void rollups_check(const struct core *core)
{
        tally_check(core->tally);
}

const struct feature rollups_feature = {.name = "rollups",
                                        .init = rollups_init,
                                        .release = rollups_release,
                                        .turn = rollups_turn,
                                        .promoted = rollups_promoted,
                                        .end = rollups_end,
                                        .check = rollups_check};
