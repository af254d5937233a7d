/* The SQL table `audit`: one row for each entry of the audit trail, the newest first. */
#include <stdio.h>

#include "history/audits.h"
#include "history/sql_tables_int.h"

#define PAGE 1000

struct audit_cursor {
        struct sql_cursor base;
        struct archive_audits page;
        size_t at;
};

static struct audit_cursor *cursor_of(const struct sql_cursor *c)
{
        return CONTAINER_OF(c, struct audit_cursor, base);
}

#define AUDIT_COLUMNS(X)                                                                           \
        X(NUMBER, "number", "INTEGER", KEY_NONE, false, NUMBER(row->number))                       \
        X(AT, "at", "TEXT", KEY_NONE, false, MOMENT(row->at_ms))                                   \
        X(WHO, "who", "TEXT", KEY_NONE, false, TEXT(row->who))                                     \
        X(ROLE, "role", "TEXT", KEY_NONE, false, TEXT(row->role))                                  \
        X(ADDRESS, "address", "TEXT", KEY_NONE, false, TEXT(row->address))                         \
        X(DOOR, "door", "TEXT", KEY_NONE, false, TEXT(row->door))                                  \
        X(COMMAND, "command", "TEXT", KEY_NONE, false, TEXT(row->command))                         \
        X(WHAT, "what", "TEXT", KEY_NONE, false, TEXT(row->what))                                  \
        X(BEFORE, "before", "TEXT", KEY_NONE, false, TEXT(row->before))                            \
        X(AFTER, "after", "TEXT", KEY_NONE, false, TEXT(row->after))                               \
        X(REASON, "reason", "TEXT", KEY_NONE, false, TEXT(row->reason))                            \
        X(TIMES, "times", "INTEGER", KEY_NONE, false, NUMBER(row->times))                          \
        X(AT_MS, "at_ms", "INTEGER", KEY_NONE, false, NUMBER(row->at_ms))

static const struct sql_column columns[] = {AUDIT_COLUMNS(COLUMN_ROW)};

static void audit_column(struct sql_cursor *base, sqlite3_context *ret, int i)
{
        enum { AUDIT_COLUMNS(COLUMN_NUMBER) };
        const struct audit_cursor *c = cursor_of(base);
        const struct audit_entry *row = &c->page.rows[c->at];
        switch (i) {
                AUDIT_COLUMNS(COLUMN_CASE)
        default:
                break;
        }
}

/* People's changes are few: no condition is worth more than reading them. */
static int audit_choose(const struct sql_shape *shape, sqlite3_index_info *info)
{
        const struct sqlite3_index_orderby *o = info->aOrderBy;
        info->orderByConsumed = info->nOrderBy == 1 && o[0].iColumn <= 0 && o[0].desc;
        info->estimatedRows = (sqlite3_int64)shape->rows;
        info->estimatedCost = shape->rows;
        return SQLITE_OK;
}

static void audit_open_cursor(struct sql_cursor *c)
{
        arena_init(&cursor_of(c)->page.arena, 0);
}

static void audit_close_cursor(struct sql_cursor *c)
{
        arena_release(&cursor_of(c)->page.arena);
}

/* One of a page is named; weir history verify names all. */
static void tell_damage(struct audit_cursor *c)
{
        char what[80];
        (void)snprintf(what, sizeof(what), "audit entry %llu: its checksum is wrong",
                       (unsigned long long)c->page.damaged_at);
        sql_shared_tell(c->base.shared, what);
}

static int get_page(struct audit_cursor *c)
{
        struct sql_shared *shared = c->base.shared;
        struct archive_audits *q = &c->page;
        struct problem p = {0};
        c->at = 0;
        do {
                arena_clear(&q->arena);
                q->limit = PAGE;
                q->n_rows = 0;
                q->err = OK;
                q->is_cut = false;
                q->n_damaged = 0;
                int err = shared->source->audits(shared->source, q, &p);
                if (err) {
                        q->n_rows = 0;
                        return sql_shared_fail(shared, err, &p);
                }
                if (q->n_damaged)
                        tell_damage(c);
                q->before = q->last;
        } while (q->is_cut && !q->n_rows);
        return SQLITE_OK;
}

static int audit_begin(struct sql_cursor *base, const char *plan, sqlite3_value **values)
{
        struct audit_cursor *c = cursor_of(base);
        (void)plan; /* there is one way only */
        (void)values;
        c->page.before = UINT64_MAX;
        c->page.last = 0;
        return get_page(c);
}

static int audit_next(struct sql_cursor *base)
{
        struct audit_cursor *c = cursor_of(base);
        c->at++;
        if (c->at < c->page.n_rows || (c->page.n_rows < PAGE && !c->page.is_cut))
                return SQLITE_OK;
        return get_page(c);
}

static bool audit_is_end(const struct sql_cursor *c)
{
        return cursor_of(c)->at >= cursor_of(c)->page.n_rows;
}

static int64_t audit_rowid(const struct sql_cursor *base)
{
        const struct audit_cursor *c = cursor_of(base);
        return (int64_t)c->page.rows[c->at].number;
}

const struct sql_table sql_audit_table = {
        .name = "audit",
        .shape = {columns, ARRAY_LEN(columns), .rows = 1e5, .rows_per_id = 1},
        .cursor_bytes = sizeof(struct audit_cursor),
        .choose = audit_choose,
        .open = audit_open_cursor,
        .close = audit_close_cursor,
        .begin = audit_begin,
        .next = audit_next,
        .is_end = audit_is_end,
        .column = audit_column,
        .rowid = audit_rowid,
};
