/* Conditions on ids and times become ranges of whole numbers, conditions on names a filter.
 *
 * Times are also told as ISO text, which people compare with text of any length: '2026', a date, a
 * moment.  The order of such texts is the order of the times, so the range that a comparison allows
 * is found by bisection over the times: exact for whatever text it is, and nothing is parsed. */
#include "history/sql_plan.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"

/* From the year 0 to 9999: those that have a text of the usual length, as SQLite's strftime(). */
#define MOMENT_FIRST  (-62167219200000)
#define MOMENT_LAST   253402300799999

#define NEWEST_FIRST  "newest_first"
#define WITHOUT_TEXTS "without_texts"

const char *sql_moment(int64_t ms, char *ret)
{
        return ms >= MOMENT_FIRST && ms <= MOMENT_LAST ? clock_text(ms, ret) : NULL;
}

/* ---- choosing ---- */

static const struct {
        unsigned char code;
        const char *text;
} operators[] = {
        {SQLITE_INDEX_CONSTRAINT_EQ, "="},  {SQLITE_INDEX_CONSTRAINT_LT, "<"},
        {SQLITE_INDEX_CONSTRAINT_LE, "<="}, {SQLITE_INDEX_CONSTRAINT_GT, ">"},
        {SQLITE_INDEX_CONSTRAINT_GE, ">="},
};

static const char *operator_text(unsigned char code)
{
        for (size_t i = 0; i < ARRAY_LEN(operators); i++)
                if (operators[i].code == code)
                        return operators[i].text;
        return NULL;
}

static bool is_name(enum sql_key key)
{
        return key >= KEY_STATUS && key <= KEY_KIND;
}

static bool is_moment(enum sql_key key)
{
        return key >= KEY_CREATED;
}

/* -1 is the rowid, which is the id where an id has one row; NULL: something else. */
static const struct sql_column *column_at(const struct sql_shape *shape, int i)
{
        if (i < 0 && shape->second_order >= 0)
                return NULL;
        return &shape->columns[i < 0 ? 0 : i];
}

/* The column of a condition; NULL: the store cannot help. */
static const struct sql_column *column_of(const struct sql_shape *shape, sqlite3_index_info *info,
                                          int i)
{
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        const struct sql_column *column = column_at(shape, c->iColumn);
        if (!c->usable || !column || column->key == KEY_NONE)
                return NULL;
        if (is_name(column->key) && c->op != SQLITE_INDEX_CONSTRAINT_EQ)
                return NULL;
        /* The store compares bytes; NOCASE and RTRIM do not.  Numbers have no collation. */
        bool has_collation = is_name(column->key) || is_moment(column->key);
        if (has_collation && sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") != 0)
                return NULL;
        return column;
}

/* How many rows are left of so many: guesses, so that the planner asks for what is rare first. */
static double rows_after(const struct sql_shape *shape, double rows, enum sql_key key, bool is_eq)
{
        if (key == KEY_ID && is_eq)
                return shape->rows_per_id;
        if (key == KEY_STATUS || key == KEY_KIND || key == KEY_STEP_S)
                return rows / 4;
        return rows / (is_eq ? 50 : 3);
}

static bool is_order_ours(const struct sql_shape *shape, const sqlite3_index_info *info)
{
        const struct sqlite3_index_orderby *o = info->aOrderBy;
        const struct sql_column *first = info->nOrderBy ? column_at(shape, o[0].iColumn) : NULL;
        if (!first || first->key != KEY_ID || info->nOrderBy > 2)
                return false;
        return info->nOrderBy == 1 || (o[1].iColumn == shape->second_order && !o[1].desc);
}

static bool uses_texts(const struct sql_shape *shape, uint64_t used)
{
        for (size_t i = 0; i < shape->n_columns; i++)
                if (shape->columns[i].is_text && (used >> (i < 63 ? i : 63) & 1))
                        return true;
        return shape->needs_texts;
}

int sql_plan_choose(const struct sql_shape *shape, sqlite3_index_info *info)
{
        struct buf plan CLEANUP(buf_release) = {0};
        double rows = shape->rows;
        int n = 0;
        for (int i = 0; i < info->nConstraint; i++) {
                const struct sql_column *column = column_of(shape, info, i);
                const char *op = operator_text(info->aConstraint[i].op);
                if (!column || !op)
                        continue;
                bool is_eq = info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ;
                info->aConstraintUsage[i].argvIndex = ++n; /* and not omit: SQLite tests it too */
                buf_printf(&plan, "%s%s ", column->name, op);
                rows = rows_after(shape, rows, column->key, is_eq);
                if (column->key == KEY_ID && is_eq && shape->second_order < 0)
                        info->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
        }
        info->orderByConsumed = is_order_ours(shape, info);
        if (info->orderByConsumed && info->aOrderBy[0].desc)
                buf_put_str(&plan, NEWEST_FIRST " ");
        if (!uses_texts(shape, info->colUsed))
                buf_put_str(&plan, WITHOUT_TEXTS " ");
        info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
        info->estimatedCost = rows + 20; /* beginning a loop costs something as well */
        plan.len -= plan.len > 0;        /* the last space */
        info->idxStr = sqlite3_mprintf("%s", buf_cstr(&plan));
        info->needToFreeIdxStr = 1;
        return plan.failed || !info->idxStr ? SQLITE_NOMEM : SQLITE_OK;
}

/* ---- applying ---- */

#define RANGE_ALL ((struct sql_range){INT64_MIN, INT64_MAX})

struct narrowing {
        struct sql_range id, created, finished;
        const struct sql_shape *shape;
        struct sql_plan *plan;
        struct arena *arena;
        const char *op; /* of the condition that is looked at; more of the plan may follow it */
};

static void raise_low(struct sql_range *r, int64_t low)
{
        r->low = low > r->low ? low : r->low;
}

static void lower_high(struct sql_range *r, int64_t high)
{
        r->high = high < r->high ? high : r->high;
}

static bool is_strict(const char *op)
{
        return op[0] != '=' && op[1] != '=';
}

/* The value is from low to high.  At the ends of what a number can be the range is left too large,
 * which is no mistake. */
static void narrow_range(struct sql_range *r, const char *op, int64_t low, int64_t high)
{
        if (op[0] != '<')
                raise_low(r, is_strict(op) && low < INT64_MAX ? low + 1 : low);
        if (op[0] != '>')
                lower_high(r, is_strict(op) && high > INT64_MIN ? high - 1 : high);
}

static int64_t to_i64(double v)
{
        if (v >= 0x1p63)
                return INT64_MAX;
        return v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static void narrow_numbers(struct sql_range *r, const char *op, sqlite3_value *value)
{
        if (sqlite3_value_type(value) == SQLITE_INTEGER) {
                int64_t v = sqlite3_value_int64(value);
                narrow_range(r, op, v, v);
        } else if (sqlite3_value_type(value) == SQLITE_FLOAT) {
                double v = sqlite3_value_double(value);
                narrow_range(r, op, to_i64(floor(v) - 1), to_i64(ceil(v) + 1));
        }
}

/* The first moment whose text is not before this one (is_after: is after it); MOMENT_LAST + 1:
 * there is none. */
static int64_t first_moment(struct slice text, bool is_after)
{
        int64_t low = MOMENT_FIRST, high = MOMENT_LAST + 1;
        char room[CLOCK_TEXT_SIZE];
        while (low < high) {
                int64_t middle = low + (high - low) / 2;
                int order = slice_cmp(slice_str(clock_text(middle, room)), text);
                if (order > 0 || (order == 0 && !is_after))
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

static struct slice value_bytes(sqlite3_value *value)
{
        const void *ptr = sqlite3_value_blob(value);
        return slice_make(ptr, (size_t)sqlite3_value_bytes(value));
}

static void narrow_moments(struct sql_range *r, const char *op, sqlite3_value *value)
{
        if (sqlite3_value_type(value) != SQLITE_TEXT)
                return;
        struct slice text = value_bytes(value);
        if (op[0] != '<')
                raise_low(r, first_moment(text, is_strict(op)));
        if (op[0] != '>')
                lower_high(r, first_moment(text, !is_strict(op)) - 1);
}

/* A name that jobs must have.  None has two, and an empty one is NULL. */
static int narrow_name(struct narrowing *n, struct slice *name, sqlite3_value *value)
{
        int type = sqlite3_value_type(value);
        if (type != SQLITE_TEXT && type != SQLITE_BLOB)
                return OK;
        struct slice bytes = value_bytes(value);
        if (!bytes.len || (name->len && !slice_eq(*name, bytes))) {
                n->plan->is_empty = true;
                return OK;
        }
        *name = arena_copy(n->arena, bytes);
        return name->ptr ? OK : ERR_NOMEM;
}

static void narrow_status(struct narrowing *n, sqlite3_value *value)
{
        struct job_filter *f = &n->plan->query.filter;
        if (sqlite3_value_type(value) != SQLITE_TEXT)
                return;
        int status = job_status_from_name(value_bytes(value));
        if (status < JOB_COMPLETE || (f->status >= 0 && f->status != status))
                n->plan->is_empty = true;
        f->status = status;
}

static void narrow_kind(struct narrowing *n, sqlite3_value *value)
{
        if (sqlite3_value_type(value) != SQLITE_TEXT)
                return;
        struct slice name = value_bytes(value);
        uint64_t kind = 0;
        for (size_t i = 0; i < n->shape->n_kinds; i++)
                if (slice_eq(slice_str(n->shape->kinds[i]), name))
                        kind = 1ULL << i;
        n->plan->kinds &= kind;
}

/* What a condition narrows: a range or a name, or NULL. */
static struct sql_range *range_of(struct narrowing *n, enum sql_key key)
{
        if (key == KEY_ID)
                return &n->id;
        if (key == KEY_CREATED_MS || key == KEY_CREATED)
                return &n->created;
        if (key == KEY_FINISHED_MS || key == KEY_FINISHED)
                return &n->finished;
        if (key == KEY_AT_MS || key == KEY_AT)
                return &n->plan->at_ms;
        return key == KEY_STEP_S ? &n->plan->step_s : NULL;
}

static struct slice *name_of(struct narrowing *n, enum sql_key key)
{
        struct job_filter *f = &n->plan->query.filter;
        if (key == KEY_HOOK)
                return &f->hook;
        if (key == KEY_QUEUE)
                return &f->queue;
        if (key == KEY_GROUP)
                return &f->group;
        return key == KEY_WORKER ? &f->worker : NULL;
}

static int narrow(struct narrowing *n, enum sql_key key, sqlite3_value *value)
{
        struct sql_range *range = range_of(n, key);
        struct slice *name = name_of(n, key);
        if (sqlite3_value_type(value) == SQLITE_NULL)
                n->plan->is_empty = true; /* a comparison with NULL is never true */
        else if (name)
                return narrow_name(n, name, value);
        else if (range && is_moment(key))
                narrow_moments(range, n->op, value);
        else if (range)
                narrow_numbers(range, n->op, value);
        else if (key == KEY_STATUS)
                narrow_status(n, value);
        else if (key == KEY_KIND)
                narrow_kind(n, value);
        return OK;
}

static bool is_nothing(const struct sql_range *r)
{
        return r->low > r->high;
}

/* What the ranges are to the store, where 0 is no bound. */
static void use_ranges(struct narrowing *n)
{
        struct archive_query *q = &n->plan->query;
        raise_low(&n->id, 1);
        n->plan->is_empty |= is_nothing(&n->id) || is_nothing(&n->created) ||
                             is_nothing(&n->finished) || is_nothing(&n->plan->at_ms) ||
                             is_nothing(&n->plan->step_s) || !n->plan->kinds;
        if (n->plan->is_empty)
                return;
        if (n->id.low == n->id.high) {
                q->id = (uint64_t)n->id.low;
                return;
        }
        q->after_id = (uint64_t)n->id.low - 1;
        q->before_id = n->id.high < INT64_MAX ? (uint64_t)n->id.high + 1 : 0;
        q->filter.since_ms = n->created.low > 0 ? n->created.low : 0;
        q->filter.until_ms = n->created.high < INT64_MAX ? n->created.high + 1 : 0;
        q->filter.ended_since_ms = n->finished.low > 0 ? n->finished.low : 0;
}

/* A word of the plan: a column with its operator, which has the next value, or something to do. */
static int apply_word(struct narrowing *n, struct slice word, sqlite3_value ***next)
{
        const struct sql_shape *shape = n->shape;
        struct archive_query *q = &n->plan->query;
        size_t len = 0;
        while (len < word.len && !strchr("<=>", word.ptr[len]))
                len++;
        if (len == word.len) {
                q->is_oldest = q->is_oldest && !slice_eq(word, SLICE_LIT(NEWEST_FIRST));
                q->is_without_texts |= slice_eq(word, SLICE_LIT(WITHOUT_TEXTS));
                return OK;
        }
        n->op = word.ptr + len;
        for (size_t i = 0; i < shape->n_columns; i++)
                if (slice_eq(slice_str(shape->columns[i].name), slice_make(word.ptr, len)))
                        return narrow(n, shape->columns[i].key, *(*next)++);
        return OK;
}

int sql_plan_apply(const struct sql_shape *shape, const char *plan, sqlite3_value **values,
                   struct arena *arena, struct sql_plan *ret)
{
        struct narrowing n = {RANGE_ALL, RANGE_ALL, RANGE_ALL, shape, ret, arena, ""};
        *ret = (struct sql_plan){.query = {.is_oldest = true, .filter = {.status = -1}},
                                 .at_ms = RANGE_ALL,
                                 .step_s = RANGE_ALL,
                                 .kinds = UINT64_MAX};
        while (*plan) {
                size_t len = strcspn(plan, " ");
                int err = apply_word(&n, slice_make(plan, len), &values);
                if (err)
                        return err;
                plan += len + (plan[len] == ' ');
        }
        use_ranges(&n);
        return OK;
}
