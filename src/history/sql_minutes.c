/* The table `minutes`: a row for each name of each rollup (core/rollup.h), and one for its totals.
 *
 * Conditions on the time and the step decide which rollups are read, those on the kind which parts
 * of a rollup are unpacked.  One that is damaged is told of and passed over. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/civil.h"
#include "base/clock.h"
#include "base/duration.h"
#include "core/rollup.h"
#include "history/sql_tables_int.h"

#define PAGE_MINUTES 32 /* rollups that are read at once, of up to 25 KB each */
#define S_PER_MIN    60

static const unsigned spans[] = {ROLLUP_MINUTE, ROLLUP_TEN, ROLLUP_HOUR};

/* By enum tally_kind; the last one is of the totals. */
enum { KIND_ALL = TALLY_KINDS, KINDS };
static const char *const kinds[KINDS] = {
        [TALLY_METRIC] = "metric", [TALLY_HOOK] = "hook",     [TALLY_QUEUE] = "queue",
        [TALLY_CLIENT] = "client", [TALLY_TARGET] = "target", [KIND_ALL] = "all",
};

/* Places of rollup.totals: those of enum series_id (numbers/series.h). */
enum total {
        TOTAL_ENQUEUED,
        TOTAL_STARTED,
        TOTAL_COMPLETED,
        TOTAL_FAILED,
        TOTAL_GRANTED,
        TOTAL_REFUSED,
        TOTAL_DEFERRED, /* the first of TIERS */
        TOTAL_PARKED = ROLLUP_COUNTS,
        TOTAL_READY,
};
_Static_assert(TOTAL_DEFERRED + TIERS == TOTAL_PARKED && TOTAL_READY + 1 == ROLLUP_TOTALS,
               "totals are those of the series");

struct minute_cursor {
        struct sql_cursor base;
        struct sql_plan plan;
        struct arena arena; /* of the plan */
        struct sql_minutes page;
        size_t step;          /* of `spans`: the one after that of the page */
        size_t at;            /* of the page: the next to be unpacked */
        struct rollup rollup; /* what the row is of */
        unsigned kind;        /* of the row; KINDS: the rollup has no more of them */
        size_t row;           /* of the kind's table */
        struct buf scratch;
        bool is_end;
};

static struct minute_cursor *minute_cursor_of(const struct sql_cursor *c)
{
        return CONTAINER_OF(c, struct minute_cursor, base);
}

/* ---- what a row holds ---- */

static const struct rollup_row *row_of(const struct minute_cursor *c)
{
        return c->kind < TALLY_KINDS ? &c->rollup.tables[c->kind].rows[c->row] : NULL;
}

/* The next three are NULL when the row is of another kind. */
static const struct tally_jobs *jobs_of(const struct minute_cursor *c)
{
        bool is_of_jobs = c->kind == TALLY_HOOK || c->kind == TALLY_QUEUE;
        return is_of_jobs ? &row_of(c)->cell.jobs : NULL;
}

static const struct tally_asks *asks_of(const struct minute_cursor *c)
{
        bool is_of_asks = c->kind == TALLY_CLIENT || c->kind == TALLY_TARGET;
        return is_of_asks ? &row_of(c)->cell.asks : NULL;
}

static const struct tally_values *values_of(const struct minute_cursor *c)
{
        return c->kind == TALLY_METRIC ? &row_of(c)->cell.values : NULL;
}

/* -1: a row of its kind has no such number. */
static int64_t total_of(const struct minute_cursor *c, enum total what)
{
        const struct tally_jobs *jobs = jobs_of(c);
        const struct tally_asks *asks = asks_of(c);
        if (c->kind == KIND_ALL) {
                uint64_t n = c->rollup.totals[what];
                for (size_t i = 1; what == TOTAL_DEFERRED && i < TIERS; i++)
                        n += c->rollup.totals[what + i];
                return (int64_t)n;
        }
        if (jobs && what == TOTAL_STARTED)
                return (int64_t)octaves_total(&jobs->wait);
        if (jobs && what == TOTAL_COMPLETED)
                return jobs->completed;
        if (jobs && what == TOTAL_FAILED)
                return jobs->failed;
        if (jobs && what == TOTAL_DEFERRED)
                return jobs->deferred;
        if (asks && what == TOTAL_GRANTED)
                return asks->granted;
        return asks && what == TOTAL_REFUSED ? (int64_t)asks->refused : -1;
}

static void tell_total(sqlite3_context *ret, const struct minute_cursor *c, enum total what)
{
        int64_t n = total_of(c, what);
        if (n >= 0)
                NUMBER(n);
}

/* Rounded: octaves are not exact to a ms. */
static void tell_time(sqlite3_context *ret, const struct minute_cursor *c, bool is_run, double q)
{
        const struct tally_jobs *jobs = jobs_of(c);
        double ms = jobs ? octaves_quantile(is_run ? &jobs->run : &jobs->wait, q) : NAN;
        if (!isnan(ms))
                NUMBER(llround(ms));
}

enum value { VALUE_SAMPLES, VALUE_MIN, VALUE_MEAN, VALUE_MAX };

/* With the digits that a float has, as SERIES tells it. */
static void tell_value(sqlite3_context *ret, const struct minute_cursor *c, enum value what)
{
        const struct tally_values *values = values_of(c);
        char digits[32];
        if (!values)
                return;
        const double numbers[] = {values->n, values->min, values->sum / values->n, values->max};
        if (what == VALUE_SAMPLES) {
                NUMBER(values->n);
        } else if (values->n) {
                (void)snprintf(digits, sizeof(digits), "%.7g", numbers[what]);
                sqlite3_result_double(ret, strtod(digits, NULL));
        }
}

/* A metric is named by its target, a NUL, and its own name. */
static struct slice target_of_metric(struct slice name)
{
        const char *nul = name.len ? memchr(name.ptr, '\0', name.len) : NULL;
        return nul ? slice_make(name.ptr, (size_t)(nul - name.ptr)) : SLICE_NONE;
}

static struct slice own_name_of_metric(struct slice name)
{
        size_t skipped = target_of_metric(name).len;
        skipped += skipped > 0;
        return slice_make(name.ptr + skipped, name.len - skipped);
}

static void tell_name(sqlite3_context *ret, const struct minute_cursor *c)
{
        const struct rollup_row *row = row_of(c);
        if (row && !row->name.len)
                TEXT(SLICE_LIT("other"));
        else if (row)
                TEXT(values_of(c) ? own_name_of_metric(row->name) : row->name);
}

static void tell_target(sqlite3_context *ret, const struct minute_cursor *c)
{
        if (values_of(c))
                TEXT(target_of_metric(row_of(c)->name));
}

/* The worst that a target had: unknown after critical, as it may be either. */
static void tell_level(sqlite3_context *ret, const struct tally_asks *asks)
{
        unsigned worst = LEVELS;
        while (worst && !(asks->levels >> (worst - 1) & 1))
                worst--;
        if (worst)
                TEXT(slice_str(level_name((enum level)(worst - 1))));
}

/* {"threshold":5}, or nothing. */
static void put_reasons(struct buf *b, const struct tally_asks *asks)
{
        for (unsigned i = 0; i < CHECK_REASONS; i++)
                if (asks->by_reason[i])
                        buf_printf(b, "%s\"%s\":%lu", b->len ? "," : "{",
                                   check_reason_name((enum check_reason)i),
                                   (unsigned long)asks->by_reason[i]);
        if (b->len)
                buf_put_byte(b, '}');
}

/* "load1 on db", as `weir client show` has it, or nothing. */
static void put_cause(struct buf *b, struct slice metric)
{
        if (!metric.len)
                return;
        buf_put_slice(b, own_name_of_metric(metric));
        buf_put_str(b, " on ");
        buf_put_slice(b, target_of_metric(metric));
}

enum ask { ASK_OBSERVED, ASK_WAITED, ASK_REASONS, ASK_CAUSE, ASK_LEVEL };

static void tell_ask(sqlite3_context *ret, struct minute_cursor *c, enum ask what)
{
        const struct tally_asks *asks = asks_of(c);
        if (!asks)
                return;
        buf_clear(&c->scratch);
        switch (what) {
        case ASK_OBSERVED:
                NUMBER(asks->observed);
                return;
        case ASK_WAITED:
                NUMBER(asks->waited_ms);
                return;
        case ASK_LEVEL:
                tell_level(ret, asks);
                return;
        case ASK_REASONS:
                put_reasons(&c->scratch, asks);
                break;
        case ASK_CAUSE:
                put_cause(&c->scratch, asks->cause);
                break;
        }
        if (c->scratch.failed)
                sqlite3_result_error_nomem(ret);
        else
                TEXT(buf_slice(&c->scratch));
}

/* What is not told is NULL. */
#define MINUTE_COLUMNS(X)                                                                          \
        X(AT, "at", "TEXT", KEY_AT, false, MOMENT(MS_PER_MIN * c->rollup.at))                      \
        X(STEP, "step_s", "INTEGER", KEY_STEP_S, false, NUMBER(S_PER_MIN * c->rollup.span))        \
        X(KIND, "kind", "TEXT", KEY_KIND, false, TEXT(slice_str(kinds[c->kind])))                  \
        X(NAME, "name", "TEXT", KEY_NONE, false, tell_name(ret, c))                                \
        X(TARGET, "target", "TEXT", KEY_NONE, false, tell_target(ret, c))                          \
        X(ENQUEUED, "enqueued", "INTEGER", KEY_NONE, false, tell_total(ret, c, TOTAL_ENQUEUED))    \
        X(STARTED, "started", "INTEGER", KEY_NONE, false, tell_total(ret, c, TOTAL_STARTED))       \
        X(COMPLETED, "completed", "INTEGER", KEY_NONE, false, tell_total(ret, c, TOTAL_COMPLETED)) \
        X(FAILED, "failed", "INTEGER", KEY_NONE, false, tell_total(ret, c, TOTAL_FAILED))          \
        X(DEFERRED, "deferred", "INTEGER", KEY_NONE, false, tell_total(ret, c, TOTAL_DEFERRED))    \
        X(WAIT_P50, "wait_p50_ms", "INTEGER", KEY_NONE, false, tell_time(ret, c, false, 0.5))      \
        X(WAIT_P95, "wait_p95_ms", "INTEGER", KEY_NONE, false, tell_time(ret, c, false, 0.95))     \
        X(WAIT_P99, "wait_p99_ms", "INTEGER", KEY_NONE, false, tell_time(ret, c, false, 0.99))     \
        X(RUN_P50, "run_p50_ms", "INTEGER", KEY_NONE, false, tell_time(ret, c, true, 0.5))         \
        X(RUN_P95, "run_p95_ms", "INTEGER", KEY_NONE, false, tell_time(ret, c, true, 0.95))        \
        X(RUN_P99, "run_p99_ms", "INTEGER", KEY_NONE, false, tell_time(ret, c, true, 0.99))        \
        X(PARKED, "parked", "INTEGER", KEY_NONE, false, tell_total(ret, c, TOTAL_PARKED))          \
        X(READY, "ready", "INTEGER", KEY_NONE, false, tell_total(ret, c, TOTAL_READY))             \
        X(GRANTED, "granted", "INTEGER", KEY_NONE, false, tell_total(ret, c, TOTAL_GRANTED))       \
        X(REFUSED, "refused", "INTEGER", KEY_NONE, false, tell_total(ret, c, TOTAL_REFUSED))       \
        X(OBSERVED, "observed", "INTEGER", KEY_NONE, false, tell_ask(ret, c, ASK_OBSERVED))        \
        X(WAITED, "waited_ms", "INTEGER", KEY_NONE, false, tell_ask(ret, c, ASK_WAITED))           \
        X(REASONS, "reasons", "TEXT", KEY_NONE, false, tell_ask(ret, c, ASK_REASONS))              \
        X(CAUSE, "cause", "TEXT", KEY_NONE, false, tell_ask(ret, c, ASK_CAUSE))                    \
        X(LEVEL, "level", "TEXT", KEY_NONE, false, tell_ask(ret, c, ASK_LEVEL))                    \
        X(SAMPLES, "samples", "INTEGER", KEY_NONE, false, tell_value(ret, c, VALUE_SAMPLES))       \
        X(MIN, "min", "REAL", KEY_NONE, false, tell_value(ret, c, VALUE_MIN))                      \
        X(MEAN, "mean", "REAL", KEY_NONE, false, tell_value(ret, c, VALUE_MEAN))                   \
        X(MAX, "max", "REAL", KEY_NONE, false, tell_value(ret, c, VALUE_MAX))                      \
        X(SINCE, "since", "TEXT", KEY_NONE, false, MOMENT(MS_PER_MIN * c->rollup.since))           \
        X(AT_MS, "at_ms", "INTEGER", KEY_AT_MS, false, NUMBER(MS_PER_MIN * c->rollup.at))

static const struct sql_column minute_columns[] = {MINUTE_COLUMNS(COLUMN_ROW)};

static void minutes_column(struct sql_cursor *base, sqlite3_context *ret, int i)
{
        enum { MINUTE_COLUMNS(COLUMN_NUMBER) };
        struct minute_cursor *c = minute_cursor_of(base);
        switch (i) {
                MINUTE_COLUMNS(COLUMN_CASE)
        default:
                break;
        }
}

/* ---- the walk ---- */

static void minutes_open(struct sql_cursor *base)
{
        struct minute_cursor *c = minute_cursor_of(base);
        arena_init(&c->arena, 0);
        arena_init(&c->page.arena, 0);
        rollup_init(&c->rollup);
}

static void minutes_close(struct sql_cursor *base)
{
        struct minute_cursor *c = minute_cursor_of(base);
        arena_release(&c->arena);
        arena_release(&c->page.arena);
        rollup_release(&c->rollup);
        buf_release(&c->scratch);
}

static bool is_step_asked(const struct sql_plan *plan, unsigned span)
{
        int64_t step_s = (int64_t)span * S_PER_MIN;
        return step_s >= plan->step_s.low && step_s <= plan->step_s.high;
}

/* The next page of this step, or the first of the next one. */
static int get_page(struct minute_cursor *c)
{
        struct sql_shared *shared = c->base.shared;
        struct sql_minutes *q = &c->page;
        const struct sql_range *at_ms = &c->plan.at_ms;
        struct problem p = {0};
        if (shared->is_stopped)
                return SQLITE_INTERRUPT;
        if (q->n_rows == PAGE_MINUTES) {
                q->from = q->rows[PAGE_MINUTES - 1].at + 1;
        } else {
                while (c->step < ARRAY_LEN(spans) && !is_step_asked(&c->plan, spans[c->step]))
                        c->step++;
                c->is_end = c->step == ARRAY_LEN(spans);
                if (c->is_end)
                        return SQLITE_OK;
                q->span = spans[c->step++];
                q->from = at_ms->low > 0 ? (at_ms->low - 1) / MS_PER_MIN + 1 : 0;
                q->to = floor_div(at_ms->high, MS_PER_MIN);
                q->limit = PAGE_MINUTES;
        }
        arena_clear(&q->arena);
        q->n_rows = 0;
        c->at = 0;
        int err = shared->source->minutes(shared->source, q, &p);
        c->is_end = err != OK;
        return err ? sql_shared_fail(shared, err, &p) : SQLITE_OK;
}

static void tell_damage(struct minute_cursor *c, int64_t at)
{
        char what[80], room[CLOCK_TEXT_SIZE];
        const char *text = sql_moment(at * MS_PER_MIN, room);
        (void)snprintf(what, sizeof(what), "minute %s of step_s %u", text ? text : "of no time",
                       c->page.span * S_PER_MIN);
        sql_shared_tell(c->base.shared, what);
}

/* Its first row is the next. */
static int unpack(struct minute_cursor *c, const struct sql_minute *m)
{
        static const struct problem no_memory = {.detail = "no memory for a minute of history"};
        rollup_release(&c->rollup);
        int err = rollup_unpack(m->body, (unsigned)c->plan.kinds & ROLLUP_ALL_KINDS, &c->rollup);
        if (!err && (c->rollup.span != c->page.span || c->rollup.at != m->at))
                err = ERR_CORRUPT;
        if (err == ERR_CORRUPT)
                tell_damage(c, m->at);
        c->kind = err ? KINDS : 0;
        c->row = 0;
        return err == ERR_NOMEM ? sql_shared_fail(c->base.shared, err, &no_memory) : SQLITE_OK;
}

/* Most often `other` has nothing: all names had room. */
static bool is_idle(unsigned kind, const union tally_cell *cell)
{
        const struct tally_jobs *jobs = &cell->jobs;
        if (kind == TALLY_METRIC)
                return !cell->values.n;
        if (kind == TALLY_CLIENT || kind == TALLY_TARGET)
                return !cell->asks.granted && !cell->asks.refused && !cell->asks.levels;
        return !jobs->completed && !jobs->failed && !jobs->deferred &&
               !octaves_total(&jobs->wait) && !octaves_total(&jobs->run);
}

/* From c->kind and c->row on; false: the rollup has no more. */
static bool find_row(struct minute_cursor *c)
{
        for (; c->kind < KINDS; c->kind++, c->row = 0) {
                if (!(c->plan.kinds >> c->kind & 1))
                        continue;
                const struct rollup_table *t =
                        c->kind == KIND_ALL ? NULL : &c->rollup.tables[c->kind];
                if (t && !c->row && is_idle(c->kind, &t->rows[0].cell))
                        c->row++;
                if (c->row < (t ? t->n : 1))
                        return true;
        }
        return false;
}

/* To the row that it is at, or to the end. */
static int settle(struct minute_cursor *c)
{
        int rc = SQLITE_OK;
        while (rc == SQLITE_OK && !c->is_end && !find_row(c))
                rc = c->at < c->page.n_rows ? unpack(c, &c->page.rows[c->at++]) : get_page(c);
        return rc;
}

static int minutes_begin(struct sql_cursor *base, const char *plan, sqlite3_value **values)
{
        struct minute_cursor *c = minute_cursor_of(base);
        struct problem p = {.detail = "no memory for the values of a condition"};
        arena_clear(&c->arena);
        int err = sql_plan_apply(&sql_minutes_table.shape, plan, values, &c->arena, &c->plan);
        c->is_end = err || c->plan.is_empty;
        c->step = c->at = c->page.n_rows = 0;
        c->kind = KINDS;
        return err ? sql_shared_fail(base->shared, err, &p) : settle(c);
}

static int minutes_next(struct sql_cursor *base)
{
        struct minute_cursor *c = minute_cursor_of(base);
        c->row++;
        return settle(c);
}

static bool minutes_is_end(const struct sql_cursor *c)
{
        return minute_cursor_of(c)->is_end;
}

/* SQLite tells rows apart by it, also those of two loops. */
static int64_t minutes_rowid(const struct sql_cursor *base)
{
        const struct minute_cursor *c = minute_cursor_of(base);
        _Static_assert(TALLY_NAMES < 512 && KINDS <= 8 && ARRAY_LEN(spans) < 4, "bits of it");
        return ((c->rollup.at * 4 + (int64_t)c->step) * 8 + c->kind) * 512 + (int64_t)c->row;
}

const struct sql_table sql_minutes_table = {
        .name = "minutes",
        .shape = {minute_columns, ARRAY_LEN(minute_columns), .needs_texts = true, .kinds = kinds,
                  .n_kinds = KINDS, .rows = 1e5},
        .cursor_bytes = sizeof(struct minute_cursor),
        .choose = sql_plan_choose,
        .open = minutes_open,
        .close = minutes_close,
        .begin = minutes_begin,
        .next = minutes_next,
        .is_end = minutes_is_end,
        .column = minutes_column,
        .rowid = minutes_rowid,
};
