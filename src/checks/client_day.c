/* See client_day.h. */
#include "checks/client_day.h"

#include "base/civil.h"
#include "throttle/throttle_state.h"

int64_t day_last(const struct core *core)
{
        return floor_div(core->now.wall_ms, MS_PER_MIN);
}

int64_t day_first(const struct core *core)
{
        return day_last(core) - CLIENT_MINUTES + 1;
}

int64_t day_start(const struct core *core)
{
        return floor_div(core->start_ms, MS_PER_MIN);
}

static void name_metric(const struct core *core, size_t target, size_t metric,
                        struct day_minute *ret)
{
        const struct throttle *t = core->throttle;
        ret->target = ret->metric = "";
        if (target >= t->n_targets)
                return;
        ret->target = t->targets[target].name;
        if (metric < t->targets[target].n_metrics)
                ret->metric = t->targets[target].metrics[metric].name;
}

/* NULL: it did not ask then, or the minute is not in `past`. */
static const struct tally_asks *past_at(const struct client_day *d, int64_t minute)
{
        const struct rollup_view *v = d->past;
        if (!v || minute < v->from || minute >= v->from + (int64_t)v->n)
                return NULL;
        const struct tally_asks *c = &v->points[minute - v->from].cell.asks;
        return c->granted || c->refused ? c : NULL;
}

static bool take_past(const struct client_day *d, int64_t minute, struct day_minute *ret)
{
        const struct tally_asks *c = past_at(d, minute);
        if (!c)
                return false;
        *ret = (struct day_minute){c->granted, c->refused, c->observed, c->waited_ms, {0}, "", ""};
        for (size_t i = 0; i < CHECK_REASONS; i++)
                ret->by_reason[i] = c->by_reason[i];
        if (c->cause.len) { /* the target, a NUL, the metric, and a NUL behind it */
                ret->target = c->cause.ptr;
                ret->metric = c->cause.ptr + strlen(c->cause.ptr) + 1;
        }
        return true;
}

/* The minute of the start has a part before it and one after it.  While it lasts, memory has the
 * second alone and `past` the first alone; then history adds them up. */
static void add_past(const struct client_day *d, int64_t minute, struct day_minute *ret)
{
        struct day_minute before;
        if (minute != day_start(d->core) || !take_past(d, minute, &before))
                return;
        if (minute != day_last(d->core)) {
                /* It has less when it could not be written, and for a moment before it is. */
                if (before.granted + before.refused > ret->granted + ret->refused)
                        *ret = before;
                return;
        }
        ret->granted += before.granted;
        ret->refused += before.refused;
        ret->observed += before.observed;
        ret->waited_ms += before.waited_ms;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                ret->by_reason[i] += before.by_reason[i];
        if (!*ret->metric) {
                ret->target = before.target;
                ret->metric = before.metric;
        }
}

bool day_at(const struct client_day *d, int64_t minute, struct day_minute *ret)
{
        const struct client_minute *m =
                d->client ? minutes_peek(&d->client->minutes, minute) : NULL;
        if (!m)
                return take_past(d, minute, ret);
        *ret = (struct day_minute){m->granted, m->refused, m->observed, m->waited_ms, {0}, "", ""};
        for (size_t i = 0; i < CHECK_REASONS; i++)
                ret->by_reason[i] = m->by_reason[i];
        name_metric(d->core, m->target, m->metric, ret);
        add_past(d, minute, ret);
        return true;
}

struct client_totals day_past(const struct client_day *d, int64_t *ret_first, int64_t *ret_last)
{
        struct client_totals t = {0};
        *ret_first = *ret_last = 0;
        for (int64_t at = day_first(d->core); at <= day_last(d->core); at++) {
                const struct tally_asks *c = past_at(d, at);
                if (!c)
                        continue;
                *ret_first = *ret_first ? *ret_first : at;
                *ret_last = at;
                t.granted += c->granted;
                t.refused += c->refused;
                t.observed += c->observed;
                t.waited_ms += c->waited_ms;
                for (size_t i = 0; i < CHECK_REASONS; i++)
                        t.by_reason[i] += c->by_reason[i];
        }
        return t;
}
