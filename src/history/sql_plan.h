/* What of a statement's conditions the store itself can apply: between SQLite's planner and
 * struct archive_query, or the ranges of minutes.
 *
 * SQLite asks for a plan once for each way to nest the loops of a statement (sql_plan_choose), and
 * hands it back with the values when a loop begins (sql_plan_apply).  The plan is a text, which
 * EXPLAIN QUERY PLAN shows: "hook= created>= newest_first without_texts".
 *
 * SQLite tests every condition itself again.  So a plan may let through more than it was asked for,
 * and never less: numbers are rounded outwards, and a value that the store cannot compare as SQLite
 * does narrows nothing. */
#ifndef WEIR_HISTORY_SQL_PLAN_H
#define WEIR_HISTORY_SQL_PLAN_H

#include <sqlite3.h>

#include "base/err.h"
#include "core/archive.h"

/* What conditions on a column can be given to the store. */
enum sql_key {
        KEY_NONE,
        /* Names: = alone. */
        KEY_STATUS,
        KEY_HOOK,
        KEY_QUEUE,
        KEY_GROUP,
        KEY_WORKER,
        KEY_KIND, /* one of shape->kinds */
        /* Numbers. */
        KEY_ID,
        KEY_CREATED_MS,
        KEY_FINISHED_MS,
        KEY_AT_MS,
        KEY_STEP_S,
        /* Moments as ISO text. */
        KEY_CREATED,
        KEY_FINISHED,
        KEY_AT,
};

struct sql_column {
        const char *name, *type;
        enum sql_key key;
        bool is_text; /* in the part of a job that is unpacked only when it is asked for */
};

/* What the planner knows of a table. */
struct sql_shape {
        const struct sql_column *columns;
        size_t n_columns;
        /* Rows are told in the order of the id column, and with the same id in the order of this
         * one; -1: an id has one row. */
        int second_order;
        bool needs_texts;         /* whatever columns are used, or it has none */
        const char *const *kinds; /* what its KEY_KIND can be */
        size_t n_kinds;
        double rows; /* a guess, for the planner; an id has about rows_per_id of them */
        double rows_per_id;
};

/* Fills in what xBestIndex must.  An SQLite code. */
int sql_plan_choose(const struct sql_shape *shape, sqlite3_index_info *info) MUST_CHECK;

/* Both ends are in it; no bound is the least or the largest number. */
struct sql_range {
        int64_t low, high;
};

/* A walk that was planned: what to look for, and whether there is nothing to be found. */
struct sql_plan {
        struct archive_query query;     /* of jobs, without limits; its slices are in the arena */
        struct sql_range at_ms, step_s; /* of minutes */
        uint64_t kinds;                 /* of minutes: 1 << i for shape->kinds[i] */
        bool is_empty;
};

/* The plan and its values, as xFilter gets them.  ERR_NOMEM. */
int sql_plan_apply(const struct sql_shape *shape, const char *plan, sqlite3_value **values,
                   struct arena *arena, struct sql_plan *ret) MUST_CHECK;

/* A moment as the tables tell it, "2026-09-21T14:13:20.123Z", in CLOCK_TEXT_SIZE bytes; NULL when
 * it has no four-digit year. */
const char *sql_moment(int64_t ms, char *ret);

#endif
