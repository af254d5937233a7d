/* Virtual tables over the store.
 *
 * A row of the list of tables is one of them: its columns, its cursor and what is done with that.
 * The rest of what SQLite asks of a virtual table is the same for all and comes after the list.
 *
 * Texts are NULL when they are empty, and blobs when they are not UTF-8 or hold a NUL, as in the
 * history file.  They are copied: SQLite may keep a value longer than a page lives (max(error)). */
#include "history/sql_tables.h"

#include <stdlib.h>

#include "base/clock.h"
#include "history/events_json.h"
#include "history/sql_tables_int.h"
#include "state/event.h"
#include "state/job.h"
#include "state/option.h"

/* ---- values ---- */

void sql_tell_text(sqlite3_context *ret, struct slice s)
{
        if (!s.len)
                sqlite3_result_null(ret);
        else if (events_json_is_text(s))
                sqlite3_result_text64(ret, s.ptr, s.len, SQLITE_TRANSIENT, SQLITE_UTF8);
        else
                sqlite3_result_blob64(ret, s.ptr, s.len, SQLITE_TRANSIENT);
}

void sql_tell_moment(sqlite3_context *ret, int64_t ms)
{
        char room[CLOCK_TEXT_SIZE];
        const char *text = sql_moment(ms, room);
        if (text)
                sqlite3_result_text(ret, text, -1, SQLITE_TRANSIENT);
        else
                sqlite3_result_null(ret);
}

/* ---- jobs ---- */

struct job_cursor {
        struct sql_cursor base;
        struct sql_walk walk;
        struct buf scratch;
};

static struct job_cursor *job_cursor_of(const struct sql_cursor *c)
{
        return CONTAINER_OF(c, struct job_cursor, base);
}

static void tell_started(sqlite3_context *ret, const struct job_view *v, bool is_text)
{
        if (!v->started_ms)
                sqlite3_result_null(ret);
        else if (is_text)
                MOMENT(v->started_ms);
        else
                NUMBER(v->started_ms);
}

static void tell_events(sqlite3_context *ret, const struct job_view *v, struct buf *scratch)
{
        buf_clear(scratch);
        events_json_write_all(scratch, v);
        if (scratch->failed)
                sqlite3_result_error_nomem(ret);
        else
                TEXT(buf_slice(scratch));
}

static uint64_t run_of(const struct job_view *v)
{
        struct job_options o = {0};
        return v->options.len && options_unpack(v->options, &o) ? o.run : 0;
}

/* In the order of the view that the history file had for people.  `run` is one of the options,
 * which are unpacked with the texts. */
#define JOB_COLUMNS(X)                                                                             \
        X(ID, "id", "INTEGER", KEY_ID, false, NUMBER(v->id))                                       \
        X(STATUS, "status", "TEXT", KEY_STATUS, false,                                             \
          TEXT(slice_str(job_status_name(v->status))))                                             \
        X(HOOK, "hook", "TEXT", KEY_HOOK, false, TEXT(v->hook))                                    \
        X(QUEUE, "queue", "TEXT", KEY_QUEUE, false, TEXT(v->queue))                                \
        X(GROUP, "group", "TEXT", KEY_GROUP, false, TEXT(v->group))                                \
        X(PRIORITY, "priority", "INTEGER", KEY_NONE, false, NUMBER(v->priority))                   \
        X(ATTEMPT, "attempt", "INTEGER", KEY_NONE, false, NUMBER(v->attempt))                      \
        X(ATTEMPTS, "attempts_max", "INTEGER", KEY_NONE, false, NUMBER(v->attempts_max))           \
        X(TIMEOUT, "timeout_ms", "INTEGER", KEY_NONE, false, NUMBER(v->timeout_ms))                \
        X(CREATED, "created", "TEXT", KEY_CREATED, false, MOMENT(v->created_ms))                   \
        X(DUE, "due", "TEXT", KEY_NONE, false, MOMENT(v->due_ms))                                  \
        X(STARTED, "started", "TEXT", KEY_NONE, false, tell_started(ret, v, true))                 \
        X(FINISHED, "finished", "TEXT", KEY_FINISHED, false, MOMENT(v->finished_ms))               \
        X(WORKER, "worker", "TEXT", KEY_WORKER, false, TEXT(v->worker))                            \
        X(FENCE, "fence", "INTEGER", KEY_NONE, false, NUMBER(v->fence))                            \
        X(ARGS, "args", "TEXT", KEY_NONE, true, TEXT(v->args))                                     \
        X(PROGRESS, "progress", "TEXT", KEY_NONE, true, TEXT(v->progress))                         \
        X(RESULT, "result", "TEXT", KEY_NONE, true, TEXT(v->result))                               \
        X(ERROR, "error", "TEXT", KEY_NONE, true, TEXT(v->error))                                  \
        X(EVENTS, "events", "TEXT", KEY_NONE, true, tell_events(ret, v, &c->scratch))              \
        X(RUN, "run", "INTEGER", KEY_NONE, true, NUMBER(run_of(v)))                                \
        X(CREATED_MS, "created_ms", "INTEGER", KEY_CREATED_MS, false, NUMBER(v->created_ms))       \
        X(DUE_MS, "due_ms", "INTEGER", KEY_NONE, false, NUMBER(v->due_ms))                         \
        X(STARTED_MS, "started_ms", "INTEGER", KEY_NONE, false, tell_started(ret, v, false))       \
        X(FINISHED_MS, "finished_ms", "INTEGER", KEY_FINISHED_MS, false, NUMBER(v->finished_ms))

static const struct sql_column job_columns[] = {JOB_COLUMNS(COLUMN_ROW)};

static void jobs_column(struct sql_cursor *base, sqlite3_context *ret, int i)
{
        enum { JOB_COLUMNS(COLUMN_NUMBER) };
        struct job_cursor *c = job_cursor_of(base);
        const struct job_view *v = sql_walk_job(&c->walk);
        switch (i) {
                JOB_COLUMNS(COLUMN_CASE)
        default:
                break;
        }
}

static void jobs_open(struct sql_cursor *c)
{
        sql_walk_init(&job_cursor_of(c)->walk, c->shared);
}

static void jobs_close(struct sql_cursor *c)
{
        sql_walk_release(&job_cursor_of(c)->walk);
        buf_release(&job_cursor_of(c)->scratch);
}

static const struct sql_table jobs_table;

static int jobs_begin(struct sql_cursor *c, const char *plan, sqlite3_value **values)
{
        return sql_walk_begin(&job_cursor_of(c)->walk, &jobs_table.shape, plan, values);
}

static int jobs_next(struct sql_cursor *c)
{
        return sql_walk_next(&job_cursor_of(c)->walk);
}

static bool jobs_is_end(const struct sql_cursor *c)
{
        return !sql_walk_job(&job_cursor_of(c)->walk);
}

static int64_t jobs_rowid(const struct sql_cursor *c)
{
        return (int64_t)sql_walk_job(&job_cursor_of(c)->walk)->id;
}

static const struct sql_table jobs_table = {
        .name = "jobs",
        .shape = {job_columns, ARRAY_LEN(job_columns), .second_order = -1, .rows = 1e6,
                  .rows_per_id = 1},
        .cursor_bytes = sizeof(struct job_cursor),
        .choose = sql_plan_choose,
        .open = jobs_open,
        .close = jobs_close,
        .begin = jobs_begin,
        .next = jobs_next,
        .is_end = jobs_is_end,
        .column = jobs_column,
        .rowid = jobs_rowid,
};

/* ---- events ---- */

struct event_cursor {
        struct sql_cursor base;
        struct sql_walk walk;
        struct event event;
        struct slice rest; /* of this job's, packed */
        int64_t number;
};

static struct event_cursor *event_cursor_of(const struct sql_cursor *c)
{
        return CONTAINER_OF(c, struct event_cursor, base);
}

#define EVENT_COLUMNS(X)                                                                           \
        X(JOB, "job", "INTEGER", KEY_ID, false, NUMBER(sql_walk_job(&c->walk)->id))                \
        X(NUMBER, "number", "INTEGER", KEY_NONE, false, NUMBER(c->number))                         \
        X(EVENT, "event", "TEXT", KEY_NONE, false, TEXT(slice_str(event_name(e->type))))           \
        X(AT, "at", "TEXT", KEY_NONE, false, MOMENT(e->wall_ms))                                   \
        X(AT_MS, "at_ms", "INTEGER", KEY_NONE, false, NUMBER(e->wall_ms))                          \
        X(WORKER, "worker", "TEXT", KEY_NONE, false, TEXT(e->worker))                              \
        X(MESSAGE, "message", "TEXT", KEY_NONE, false, TEXT(e->message))

static const struct sql_column event_columns[] = {EVENT_COLUMNS(COLUMN_ROW)};

static void events_column(struct sql_cursor *base, sqlite3_context *ret, int i)
{
        enum { EVENT_COLUMNS(COLUMN_NUMBER) };
        const struct event_cursor *c = event_cursor_of(base);
        const struct event *e = &c->event;
        switch (i) {
                EVENT_COLUMNS(COLUMN_CASE)
        default:
                break;
        }
}

static void events_open(struct sql_cursor *c)
{
        sql_walk_init(&event_cursor_of(c)->walk, c->shared);
}

static void events_close(struct sql_cursor *c)
{
        sql_walk_release(&event_cursor_of(c)->walk);
}

/* The first event of the job that the walk is at: its creation, which is not stored. */
static void begin_job(struct event_cursor *c)
{
        const struct job_view *v = sql_walk_job(&c->walk);
        c->number = 0;
        if (!v)
                return;
        c->rest = v->events;
        c->event = (struct event){.type = EVENT_CREATED, .wall_ms = v->created_ms};
}

static const struct sql_table events_table;

static int events_begin(struct sql_cursor *base, const char *plan, sqlite3_value **values)
{
        struct event_cursor *c = event_cursor_of(base);
        int rc = sql_walk_begin(&c->walk, &events_table.shape, plan, values);
        begin_job(c);
        return rc;
}

static int events_next(struct sql_cursor *base)
{
        struct event_cursor *c = event_cursor_of(base);
        c->number++;
        if (event_next(&c->rest, sql_walk_job(&c->walk)->created_ms, &c->event))
                return SQLITE_OK;
        int rc = sql_walk_next(&c->walk);
        begin_job(c);
        return rc;
}

static bool events_is_end(const struct sql_cursor *c)
{
        return !sql_walk_job(&event_cursor_of(c)->walk);
}

static int64_t events_rowid(const struct sql_cursor *base)
{
        const struct event_cursor *c = event_cursor_of(base);
        _Static_assert(JOB_EVENTS_KEPT < 127, "the creation is one more");
        return (int64_t)(sql_walk_job(&c->walk)->id * 128 + (uint64_t)c->number);
}

static const struct sql_table events_table = {
        .name = "events",
        .shape = {event_columns, ARRAY_LEN(event_columns), .second_order = 1, .needs_texts = true,
                  .rows = 4e6, .rows_per_id = 4},
        .cursor_bytes = sizeof(struct event_cursor),
        .choose = sql_plan_choose,
        .open = events_open,
        .close = events_close,
        .begin = events_begin,
        .next = events_next,
        .is_end = events_is_end,
        .column = events_column,
        .rowid = events_rowid,
};

/* ---- incidents ---- */

#define INCIDENTS_PAGE 1000

struct incident_cursor {
        struct sql_cursor base;
        struct archive_incidents page;
        size_t at;
};

static struct incident_cursor *incident_cursor_of(const struct sql_cursor *c)
{
        return CONTAINER_OF(c, struct incident_cursor, base);
}

#define INCIDENT_COLUMNS(X)                                                                        \
        X(NUMBER, "number", "INTEGER", KEY_NONE, false, NUMBER(row->number))                       \
        X(AT, "at", "TEXT", KEY_NONE, false, MOMENT(row->at_ms))                                   \
        X(EVENT, "event", "TEXT", KEY_NONE, false, TEXT(row->event))                               \
        X(MESSAGE, "message", "TEXT", KEY_NONE, false, TEXT(row->message))                         \
        X(AT_MS, "at_ms", "INTEGER", KEY_NONE, false, NUMBER(row->at_ms))

static const struct sql_column incident_columns[] = {INCIDENT_COLUMNS(COLUMN_ROW)};

static void incidents_column(struct sql_cursor *base, sqlite3_context *ret, int i)
{
        enum { INCIDENT_COLUMNS(COLUMN_NUMBER) };
        const struct incident_cursor *c = incident_cursor_of(base);
        const struct archive_incident *row = &c->page.rows[c->at];
        switch (i) {
                INCIDENT_COLUMNS(COLUMN_CASE)
        default:
                break;
        }
}

/* There are at most 100,000, the newest first: no condition is worth more than reading them. */
static int incidents_choose(const struct sql_shape *shape, sqlite3_index_info *info)
{
        const struct sqlite3_index_orderby *o = info->aOrderBy;
        info->orderByConsumed = info->nOrderBy == 1 && o[0].iColumn <= 0 && o[0].desc;
        info->estimatedRows = (sqlite3_int64)shape->rows;
        info->estimatedCost = shape->rows;
        return SQLITE_OK;
}

static void incidents_open(struct sql_cursor *c)
{
        arena_init(&incident_cursor_of(c)->page.arena, 0);
}

static void incidents_close(struct sql_cursor *c)
{
        arena_release(&incident_cursor_of(c)->page.arena);
}

static int get_incidents(struct incident_cursor *c)
{
        struct sql_shared *shared = c->base.shared;
        struct archive_incidents *q = &c->page;
        struct problem p = {0};
        arena_clear(&q->arena);
        q->limit = INCIDENTS_PAGE;
        q->n_rows = 0;
        q->err = OK;
        c->at = 0;
        int err = shared->source->incidents(shared->source, q, &p);
        if (err)
                q->n_rows = 0;
        return err ? sql_shared_fail(shared, err, &p) : SQLITE_OK;
}

static int incidents_begin(struct sql_cursor *base, const char *plan, sqlite3_value **values)
{
        struct incident_cursor *c = incident_cursor_of(base);
        (void)plan; /* there is one way only */
        (void)values;
        c->page.before = UINT64_MAX;
        return get_incidents(c);
}

static int incidents_next(struct sql_cursor *base)
{
        struct incident_cursor *c = incident_cursor_of(base);
        c->at++;
        if (c->at < c->page.n_rows || c->page.n_rows < INCIDENTS_PAGE)
                return SQLITE_OK;
        c->page.before = c->page.rows[c->at - 1].number;
        return get_incidents(c);
}

static bool incidents_is_end(const struct sql_cursor *c)
{
        return incident_cursor_of(c)->at >= incident_cursor_of(c)->page.n_rows;
}

static int64_t incidents_rowid(const struct sql_cursor *base)
{
        const struct incident_cursor *c = incident_cursor_of(base);
        return (int64_t)c->page.rows[c->at].number;
}

static const struct sql_table incidents_table = {
        .name = "incidents",
        .shape = {incident_columns, ARRAY_LEN(incident_columns), .rows = 1e5, .rows_per_id = 1},
        .cursor_bytes = sizeof(struct incident_cursor),
        .choose = incidents_choose,
        .open = incidents_open,
        .close = incidents_close,
        .begin = incidents_begin,
        .next = incidents_next,
        .is_end = incidents_is_end,
        .column = incidents_column,
        .rowid = incidents_rowid,
};

static const struct sql_table *const tables[] = {&jobs_table, &events_table, &sql_minutes_table,
                                                 &incidents_table, &sql_audit_table};

/* ---- what SQLite calls ---- */

struct vtab {
        sqlite3_vtab base; /* first, as in struct sql_cursor */
        const struct sql_table *table;
        struct sql_shared *shared;
};

static const struct vtab *vtab_of(const sqlite3_vtab_cursor *c)
{
        return (const struct vtab *)(const void *)c->pVtab;
}

static struct sql_cursor *cursor_of(sqlite3_vtab_cursor *c)
{
        return CONTAINER_OF(c, struct sql_cursor, base);
}

/* A connection registers each table with its own copy of what it is and what it shares. */
static int connect_table(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **ret_error)
{
        const struct vtab *like = aux;
        const struct sql_shape *shape = &like->table->shape;
        struct buf sql CLEANUP(buf_release) = {0};
        (void)argc; /* the name, and no arguments */
        (void)argv;
        (void)ret_error; /* that of declare_vtab stays with the connection */
        buf_put_str(&sql, "CREATE TABLE x(");
        for (size_t i = 0; i < shape->n_columns; i++)
                buf_printf(&sql, "%s\"%s\" %s", i ? ", " : "", shape->columns[i].name,
                           shape->columns[i].type);
        buf_put_byte(&sql, ')');
        struct vtab *t = calloc(1, sizeof(*t));
        int rc = t && !sql.failed ? sqlite3_declare_vtab(db, buf_cstr(&sql)) : SQLITE_NOMEM;
        if (rc != SQLITE_OK) {
                free(t);
                return rc;
        }
        *t = *like;
        *ret = &t->base;
        return SQLITE_OK;
}

static int disconnect_table(sqlite3_vtab *t)
{
        free(CONTAINER_OF(t, struct vtab, base));
        return SQLITE_OK;
}

static int best_index(sqlite3_vtab *t, sqlite3_index_info *info)
{
        const struct sql_table *table = CONTAINER_OF(t, struct vtab, base)->table;
        return table->choose(&table->shape, info);
}

static int open_cursor(sqlite3_vtab *t, sqlite3_vtab_cursor **ret)
{
        const struct vtab *v = CONTAINER_OF(t, struct vtab, base);
        struct sql_cursor *c = calloc(1, v->table->cursor_bytes);
        if (!c)
                return SQLITE_NOMEM;
        c->shared = v->shared;
        v->table->open(c);
        *ret = &c->base;
        return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *c)
{
        vtab_of(c)->table->close(cursor_of(c));
        free(cursor_of(c));
        return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *c, int number, const char *plan, int n,
                  sqlite3_value **values)
{
        (void)number; /* the plan is a text */
        (void)n;      /* as many as it has words for */
        return vtab_of(c)->table->begin(cursor_of(c), plan, values);
}

static int next(sqlite3_vtab_cursor *c)
{
        return vtab_of(c)->table->next(cursor_of(c));
}

static int is_end(sqlite3_vtab_cursor *c)
{
        return vtab_of(c)->table->is_end(cursor_of(c));
}

static int column(sqlite3_vtab_cursor *c, sqlite3_context *ret, int i)
{
        vtab_of(c)->table->column(cursor_of(c), ret, i);
        return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *c, sqlite3_int64 *ret)
{
        *ret = vtab_of(c)->table->rowid(cursor_of(c));
        return SQLITE_OK;
}

/* Without xCreate the table is there by its name alone, and there is no other of its kind. */
static const sqlite3_module module = {
        .xConnect = connect_table,
        .xDisconnect = disconnect_table,
        .xBestIndex = best_index,
        .xOpen = open_cursor,
        .xClose = close_cursor,
        .xFilter = filter,
        .xNext = next,
        .xEof = is_end,
        .xColumn = column,
        .xRowid = rowid,
};

int sql_tables_register(sqlite3 *db, struct sql_shared *shared)
{
        for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
                struct vtab *like = calloc(1, sizeof(*like));
                if (!like)
                        return SQLITE_NOMEM;
                *like = (struct vtab){.table = tables[i], .shared = shared};
                /* Frees it in any case. */
                int rc = sqlite3_create_module_v2(db, tables[i]->name, &module, like, free);
                if (rc != SQLITE_OK)
                        return rc;
        }
        return SQLITE_OK;
}

const char *sql_table_name(size_t i)
{
        return i < ARRAY_LEN(tables) ? tables[i]->name : NULL;
}

void sql_table_put_columns(size_t i, struct buf *b)
{
        const struct sql_shape *shape = &tables[i]->shape;
        for (size_t k = 0; k < shape->n_columns; k++)
                buf_printf(b, "%s%s", k ? ", " : "", shape->columns[k].name);
}
