/* See series_minutes.h.
 *
 * Steps begin at multiples of their length in Unix time, and one is told when it is over.  The
 * archive has minutes for 2 days, ten minutes for 10 and hours for 30: the longest of these that a
 * step is made of is read, so a month is 720 rows, whatever happened in it. */
#include "numbers/series_minutes.h"

#include <math.h>
#include <stdlib.h>

#include "api/params.h"
#include "api/replies.h"
#include "base/civil.h"
#include "base/duration.h"
#include "core/rollup_view.h"
#include "numbers/rollups.h"
#include "numbers/series.h"
#include "throttle/throttle_state.h"

#define S_PER_MIN       60
#define MINUTES_PER_DAY 1440LL

enum { OF_HOOK, OF_QUEUE, OF_CLIENT, OF_TARGET, OF_METRIC }; /* as the choices of OF */
static const struct {
        const char *name;
        enum tally_kind kind;
} kinds[] = {
        [OF_HOOK] = {"hook", TALLY_HOOK},       [OF_QUEUE] = {"queue", TALLY_QUEUE},
        [OF_CLIENT] = {"client", TALLY_CLIENT}, [OF_TARGET] = {"target", TALLY_TARGET},
        [OF_METRIC] = {"metric", TALLY_METRIC},
};

struct telling {
        struct session_wait base;
        struct archive_rollups query;
        struct rollup_view view;
        int of; /* -1: all */
        struct slice name, target;
        struct slice metrics[SERIES_METRICS];
        struct arena arena; /* of the texts */
};

/* ---- what is asked ---- */

bool series_is_by_minutes(const struct command *cmd)
{
        const struct arg *seconds = &cmd->arg[P_SERIES_SECONDS], *step = &cmd->arg[P_SERIES_STEP];
        return cmd->arg[P_SERIES_OF].is_set || cmd->arg[P_SERIES_NAME].is_set ||
               cmd->arg[P_SERIES_UNTIL].is_set ||
               (seconds->is_set && seconds->num > SERIES_SECONDS) ||
               (step->is_set && step->num % S_PER_MIN == 0);
}

static bool fits(int64_t length, int64_t step)
{
        return (length + step - 1) / step <= SERIES_POINTS;
}

/* Rollups of how many minutes are there for steps that begin so many minutes ago; 0: none. */
static unsigned span_of(int64_t step, int64_t age)
{
        static const struct {
                unsigned span;
                int64_t kept;
        } spans[] = {
                {ROLLUP_HOUR, INT64_MAX},
                {ROLLUP_TEN, 10 * MINUTES_PER_DAY},
                {ROLLUP_MINUTE, 2 * MINUTES_PER_DAY},
        };
        for (size_t i = 0; i < ARRAY_LEN(spans); i++)
                if (step % spans[i].span == 0 && (age - step <= spans[i].kept || !i))
                        return spans[i].span;
        return 0;
}

/* The shortest step that is usual, has no more points than may be, and is still there. */
static int64_t usual_step(int64_t length, int64_t age)
{
        static const int64_t steps[] = {1, 5, 10, 30, 60, 120, 240, 720};
        for (size_t i = 0; i < ARRAY_LEN(steps); i++)
                if (fits(length, steps[i]) && span_of(steps[i], age))
                        return steps[i];
        return MINUTES_PER_DAY;
}

static int window_of(const struct core *core, const struct command *cmd, struct telling *w,
                     struct problem *problem)
{
        const struct arg *seconds = &cmd->arg[P_SERIES_SECONDS], *step = &cmd->arg[P_SERIES_STEP];
        const struct arg *until = &cmd->arg[P_SERIES_UNTIL];
        struct rollup_view *v = &w->view;
        int64_t now = rollups_minute(core), end = now;
        int64_t length =
                ((seconds->is_set ? seconds->num : SERIES_SECONDS) + S_PER_MIN - 1) / S_PER_MIN;
        if (until->is_set && until->num / MS_PER_MIN < end)
                end = until->num / MS_PER_MIN;
        if (step->is_set && step->num % S_PER_MIN)
                return problem_set(problem, ERR_BADARG,
                                   "STEP must be a multiple of 60 beyond the last hour, not %lld",
                                   (long long)step->num);
        v->step = step->is_set ? step->num / S_PER_MIN : usual_step(length, now - end + length);
        if (!fits(length, v->step))
                return problem_set(problem, ERR_BADARG,
                                   "that would be %lld points; at most %d: take a longer STEP",
                                   (long long)((length + v->step - 1) / v->step), SERIES_POINTS);
        v->n = (size_t)((length + v->step - 1) / v->step);
        v->from = floor_div(end, v->step) * v->step - (int64_t)v->n * v->step;
        w->query.span = span_of(v->step, now - v->from);
        if (!w->query.span)
                return problem_set(problem, ERR_BADARG,
                                   "STEP must be a multiple of 600 beyond 2 days, and of 3600 "
                                   "beyond 10 days, not %lld",
                                   (long long)(v->step * S_PER_MIN));
        return OK;
}

static struct slice metric_name(struct arena *arena, struct slice target, struct slice metric)
{
        char room[TALLY_METRIC_BYTES];
        return arena_copy(arena, tally_metric_name(target, metric, room));
}

size_t series_name_metrics(const struct core *core, struct slice target, struct arena *arena,
                           struct slice ret[SERIES_METRICS])
{
        const struct throttle *t = core->throttle;
        size_t n = 0;
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                if (target.len && !slice_eq(target, slice_str(g->name)))
                        continue;
                for (size_t k = 0; k < g->n_metrics && n < SERIES_METRICS; k++)
                        ret[n++] = metric_name(arena, slice_str(g->name),
                                               slice_str(g->metrics[k].name));
        }
        return n;
}

size_t series_find_metric(const struct slice *names, size_t n, const struct target *g,
                          size_t metric)
{
        char room[TALLY_METRIC_BYTES];
        struct slice name =
                tally_metric_name(slice_str(g->name), slice_str(g->metrics[metric].name), room);
        size_t i = 0;
        while (i < n && !slice_eq(names[i], name))
                i++;
        return i;
}

static int name_of(const struct core *core, const struct command *cmd, struct telling *w,
                   struct problem *problem)
{
        const struct arg *of = &cmd->arg[P_SERIES_OF], *name = &cmd->arg[P_SERIES_NAME];
        w->name = arena_copy(&w->arena, name->text);
        w->target = arena_copy(&w->arena, cmd->arg[P_SERIES_TARGET].text);
        w->of = of->is_set ? (int)of->num : -1;
        w->view.kind = -1;
        if (of->is_set != name->is_set)
                return problem_set(problem, ERR_BADARG, "OF and NAME go together");
        if (w->of == OF_METRIC && !w->target.len)
                return problem_set(problem, ERR_BADARG, "OF metric needs the TARGET that has it");
        if (w->of < 0) {
                w->view.n_metrics = series_name_metrics(core, w->target, &w->arena, w->metrics);
                w->view.metrics = w->metrics;
                return OK;
        }
        w->view.kind = (int)kinds[w->of].kind;
        w->view.name = w->of == OF_METRIC ? metric_name(&w->arena, w->target, w->name) : w->name;
        return OK;
}

/* ---- telling ---- */

/* One number of each point: fn says which. */
struct curve {
        const struct telling *w;
        double (*fn)(const struct rollup_point *p, size_t which, double q);
        size_t which;
        double q;
};

static void tell_numbers(struct reply *reply, const struct reply_items *items)
{
        const struct curve *l = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct rollup_point *p = &l->w->view.points[i];
                double v = p->is_known ? l->fn(p, l->which, l->q) : NAN;
                if (isnan(v))
                        reply_null(reply);
                else
                        reply_int(reply, (int64_t)v);
        }
}

static void tell_decimals(struct reply *reply, const struct reply_items *items)
{
        const struct curve *l = items->of;
        for (size_t i = 0; i < items->n; i++)
                reply_decimal(reply, l->fn(&l->w->view.points[i], l->which, l->q), 7);
}

static struct reply_items numbers(const struct core *core, const struct curve *l)
{
        return (struct reply_items){l->w->view.n, tell_numbers, core, l};
}

static double total_at(const struct rollup_point *p, size_t which, double q)
{
        (void)q;
        return (double)p->totals[which];
}

struct values_list {
        const struct telling *w;
        size_t metric; /* n_metrics: it is new */
};

static void tell_values(struct reply *reply, const struct reply_items *items)
{
        const struct values_list *l = items->of;
        const struct rollup_view *v = &l->w->view;
        for (size_t i = 0; i < items->n; i++)
                reply_decimal(reply,
                              l->metric < v->n_metrics ? v->maxima[l->metric * v->n + i] : NAN, 7);
}

/* Those that are configured now: it may have changed since it was asked. */
static void tell_metrics(struct reply *reply, const struct reply_items *items)
{
        const struct telling *w = items->of;
        const struct throttle *t = items->core->throttle;
        size_t left = items->n;
        for (size_t i = 0; i < t->n_targets; i++) {
                const struct target *g = &t->targets[i];
                if (w->target.len && !slice_eq(w->target, slice_str(g->name)))
                        continue;
                for (size_t k = 0; k < g->n_metrics && left; k++, left--) {
                        const struct values_list l = {
                                w, series_find_metric(w->metrics, w->view.n_metrics, g, k)};
                        const struct reply_items values = {w->view.n, tell_values, items->core, &l};
                        series_tell_metric(reply, g, k, values);
                }
        }
}

static void tell_all(struct core *core, struct reply *reply, const struct telling *w)
{
        const struct rollup_view *v = &w->view;
        struct curve lists[SERIES_IDS];
        struct series_told told = {
                .from_ms = v->from * MS_PER_MIN, .step_ms = v->step * MS_PER_MIN, .n = v->n};
        int target = w->target.len ? throttle_target(core, w->target) : -1;
        bool is_gone = w->target.len && target < 0;
        for (size_t i = 0; i < SERIES_IDS; i++) {
                lists[i] = (struct curve){w, total_at, i, 0};
                told.points[i] = numbers(core, &lists[i]);
        }
        told.metrics = (struct reply_items){is_gone ? 0 : series_count_metrics(core, target),
                                            tell_metrics, core, w};
        series_tell(reply, &told);
}

enum { JOBS_STARTED, JOBS_COMPLETED, JOBS_FAILED, JOBS_DEFERRED, JOBS_WAIT, JOBS_RUN };

static double jobs_at(const struct rollup_point *p, size_t which, double q)
{
        const struct tally_jobs *c = &p->cell.jobs;
        switch (which) {
        case JOBS_STARTED:
                return (double)octaves_total(&c->wait);
        case JOBS_COMPLETED:
                return c->completed;
        case JOBS_FAILED:
                return c->failed;
        case JOBS_DEFERRED:
                return c->deferred;
        default:
                return round(octaves_quantile(which == JOBS_WAIT ? &c->wait : &c->run, q));
        }
}

static void tell_jobs(struct core *core, struct reply *reply, const struct telling *w)
{
        const struct rollup_view *v = &w->view;
        const struct curve lists[] = {
                {w, jobs_at, JOBS_STARTED, 0}, {w, jobs_at, JOBS_COMPLETED, 0},
                {w, jobs_at, JOBS_FAILED, 0},  {w, jobs_at, JOBS_DEFERRED, 0},
                {w, jobs_at, JOBS_WAIT, 0.5},  {w, jobs_at, JOBS_WAIT, 0.95},
                {w, jobs_at, JOBS_WAIT, 0.99}, {w, jobs_at, JOBS_RUN, 0.5},
                {w, jobs_at, JOBS_RUN, 0.95},  {w, jobs_at, JOBS_RUN, 0.99},
        };
        const struct series_times_reply wait = {numbers(core, &lists[4]), numbers(core, &lists[5]),
                                                numbers(core, &lists[6])};
        const struct series_times_reply run = {numbers(core, &lists[7]), numbers(core, &lists[8]),
                                               numbers(core, &lists[9])};
        const struct series_of_jobs_reply told = {
                .from_ms = v->from * MS_PER_MIN,
                .step_ms = v->step * MS_PER_MIN,
                .n = (int64_t)v->n,
                .of = kinds[w->of].name,
                .name = w->name,
                .started = numbers(core, &lists[0]),
                .completed = numbers(core, &lists[1]),
                .failed = numbers(core, &lists[2]),
                .deferred = numbers(core, &lists[3]),
                .wait_ms = &wait,
                .run_ms = &run,
        };
        reply_series_of_jobs(reply, &told);
}

enum { ASKS_GRANTED, ASKS_REFUSED, ASKS_OBSERVED, ASKS_WAITED, ASKS_REASON };

static double asks_at(const struct rollup_point *p, size_t which, double q)
{
        const struct tally_asks *c = &p->cell.asks;
        (void)q;
        switch (which) {
        case ASKS_GRANTED:
                return c->granted;
        case ASKS_REFUSED:
                return c->refused;
        case ASKS_OBSERVED:
                return c->observed;
        case ASKS_WAITED:
                return (double)c->waited_ms;
        default:
                return c->by_reason[which - ASKS_REASON];
        }
}

static bool has_reason(const struct telling *w, size_t reason)
{
        for (size_t i = 0; i < w->view.n; i++)
                if (w->view.points[i].cell.asks.by_reason[reason])
                        return true;
        return false;
}

static void tell_reasons(struct reply *reply, const struct reply_items *items)
{
        const struct telling *w = items->of;
        for (size_t i = 0; i < CHECK_REASONS; i++) {
                const struct curve l = {w, asks_at, ASKS_REASON + i, 0};
                if (!has_reason(w, i))
                        continue;
                reply_key(reply, check_reason_name((enum check_reason)i));
                reply_list(reply, w->view.n);
                const struct reply_items points = numbers(items->core, &l);
                tell_numbers(reply, &points);
                reply_end(reply);
        }
}

/* The worst that a target had: unknown after critical, as it may be either. */
static void tell_levels(struct reply *reply, const struct reply_items *items)
{
        const struct telling *w = items->of;
        for (size_t i = 0; i < items->n; i++) {
                unsigned levels = w->view.points[i].cell.asks.levels, worst = LEVELS;
                while (worst && !(levels >> (worst - 1) & 1))
                        worst--;
                if (worst)
                        reply_str(reply, level_name((enum level)(worst - 1)));
                else
                        reply_null(reply);
        }
}

static void tell_asks(struct core *core, struct reply *reply, const struct telling *w)
{
        const struct rollup_view *v = &w->view;
        const struct curve lists[] = {{w, asks_at, ASKS_GRANTED, 0},
                                      {w, asks_at, ASKS_REFUSED, 0},
                                      {w, asks_at, ASKS_OBSERVED, 0},
                                      {w, asks_at, ASKS_WAITED, 0}};
        size_t n_reasons = 0;
        for (size_t i = 0; i < CHECK_REASONS; i++)
                n_reasons += has_reason(w, i);
        const struct series_of_asks_reply told = {
                .from_ms = v->from * MS_PER_MIN,
                .step_ms = v->step * MS_PER_MIN,
                .n = (int64_t)v->n,
                .of = kinds[w->of].name,
                .name = w->name,
                .granted = numbers(core, &lists[0]),
                .refused = numbers(core, &lists[1]),
                .observed = numbers(core, &lists[2]),
                .waited_ms = numbers(core, &lists[3]),
                .reasons = {n_reasons, tell_reasons, core, w},
                .levels = {v->n, tell_levels, core, w},
        };
        reply_series_of_asks(reply, &told);
}

enum { VALUES_MIN, VALUES_MEAN, VALUES_MAX };

static double values_at(const struct rollup_point *p, size_t which, double q)
{
        const struct tally_values *c = &p->cell.values;
        (void)q;
        if (!c->n)
                return NAN;
        if (which == VALUES_MEAN)
                return c->sum / c->n;
        return which == VALUES_MIN ? c->min : c->max;
}

static void tell_one_metric(struct core *core, struct reply *reply, const struct telling *w)
{
        const struct rollup_view *v = &w->view;
        const struct curve lists[] = {{w, values_at, VALUES_MIN, 0},
                                      {w, values_at, VALUES_MEAN, 0},
                                      {w, values_at, VALUES_MAX, 0}};
        const struct series_of_values_reply told = {
                .from_ms = v->from * MS_PER_MIN,
                .step_ms = v->step * MS_PER_MIN,
                .n = (int64_t)v->n,
                .of = kinds[w->of].name,
                .target = w->target,
                .name = w->name,
                .min = {v->n, tell_decimals, core, &lists[0]},
                .mean = {v->n, tell_decimals, core, &lists[1]},
                .max = {v->n, tell_decimals, core, &lists[2]},
        };
        reply_series_of_values(reply, &told);
}

static void tell(struct core *core, struct reply *reply, const struct telling *w)
{
        if (w->of < 0)
                tell_all(core, reply, w);
        else if (w->of == OF_HOOK || w->of == OF_QUEUE)
                tell_jobs(core, reply, w);
        else if (w->of == OF_METRIC)
                tell_one_metric(core, reply, w);
        else
                tell_asks(core, reply, w);
}

/* ---- waiting for the archive ---- */

static void telling_free(struct telling *w)
{
        rollup_view_release(&w->view);
        arena_release(&w->arena);
        free(w);
}

/* What cannot be read is not known, and told as null. */
static void on_answer(struct archive_rollups *q)
{
        struct telling *w = q->ctx;
        struct session *session = w->base.session;
        if (session) {
                wait_end(w->base.core, &w->base);
                session->is_free = true; /* as when it is answered at once */
                tell(w->base.core, session->ops->reply_begin(session), w);
                session->ops->reply_end(session);
        }
        telling_free(w);
}

static void cancel(struct core *core, struct session_wait *wait)
{
        wait_end(core, wait); /* the archive has it, and on_answer() frees it */
}

static const struct wait_ops telling_ops = {.cancel = cancel};

int series_minutes(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        struct telling *w = xcalloc(1, sizeof(*w));
        arena_init(&w->arena, 0);
        arena_init(&w->view.texts, 0);
        int r = name_of(core, cmd, w, problem);
        if (r == OK)
                r = window_of(core, cmd, w, problem);
        if (r != OK) {
                telling_free(w);
                return r;
        }
        rollup_view_init(&w->view);
        w->query.view = &w->view;
        w->query.done = on_answer;
        w->query.ctx = w;
        if (rollups_ask(core, &w->query)) {
                wait_begin(core, &w->base, &telling_ops, session);
                return CORE_LATER;
        }
        tell(core, reply, w);
        telling_free(w);
        return OK;
}
