/* Finds actions that stand at the date of a move which weir does not know any more.
 *
 * It gave them back and forgot them; then the database of the site was restored from a backup that
 * was taken while they were moved.  Or weir's own data were lost.  Two facts are still there: the
 * last line of weir in the log of the action is of a move, to the very date that the action has;
 * and the serialized schedule has the original.  An async action has none: it was due when that
 * line was written, so it gets the date of the line.
 *
 *      read a page of pending actions    whose dates lie ahead, as far as a move reaches
 *      read the last line of each        and keep those that it names with their dates
 *      is another weir there?            then they may be in its ledger
 *      ask the loop                      it leaves out what is in the ledger, and takes the others
 *
 * The order is the point.  A move is in the ledger before its row is changed, by this thread or by
 * the plugin: asked after the row was read, the ledger knows every move that is under way.  This
 * thread makes the returns itself, and none between the steps of a look.  What the ledger takes is
 * given back by its own statements, under their conditions: pending, unclaimed, still at that date.
 *
 * Another weir has a ledger of its own, so weirs make room for each other: each holds one of
 * PLACES locks by name (GET_LOCK) as long as it is connected, before it moves anything.  Nothing is
 * taken while the other place is not free.
 *
 * Known weaknesses: a weir on another node of a Galera cluster, or one that is just starting again,
 * is not seen.  So no action is taken more than TAKEN_TIMES times; its lines tell how often it was.
 * The end of a connection that was cut is seen late by some servers: its place stays taken so long.
 * Moves that went further than the matrix allows today are not found before they are as near. */
#include "guard/repair_look.h"

#include "base/arena.h"

#define PLACES      2
#define TAKEN_TIMES 3

/* The beginning of the lines that are counted: it must not change. */
#define TAKEN_MARK "weir: known again"
#define TAKEN_LINE                                                                                 \
        TAKEN_MARK " as moved, after a backup was restored or weir's data were lost; it returns "  \
                   "to its date like others"

#define SECONDS(date) "TIMESTAMPDIFF(SECOND, '1970-01-01', " date ")"

/* ---- places ---- */

/* The name of the lock; one of at most 64 characters, of this site alone. */
static void put_place(struct store *s, int place)
{
        buf_printf(&s->sql, "CONCAT('weir.guard.%d.', LEFT(SHA2(CONCAT(DATABASE(), '.', ", place);
        mysql_put_text(&s->sql, slice_str(s->options->prefix));
        buf_put_str(&s->sql, "), 256), 40))");
}

int store_take_place(struct store *s, struct problem *problem)
{
        for (int place = 1; place <= PLACES && !s->has_place; place++) {
                CLEANUP(mysql_result_release) struct mysql_result r = {0};
                struct slice cell = SLICE_NONE;

                buf_put_str(&s->sql, "SELECT GET_LOCK(");
                put_place(s, place);
                buf_put_str(&s->sql, ", 0)");
                int err = store_run(s, &r, problem);
                if (err) /* some clusters have no such locks */
                        return mysql_conn_is_open(s->conn) ? OK : err;
                s->has_place = mysql_result_next(&r, &cell, 1) && slice_eq(cell, SLICE_LIT("1"));
        }
        return OK;
}

/* *ret_other: the connection of another guard; 0: none, or this one has no place either. */
static int see_places(struct repair_look *l, bool *ret_is_alone, uint64_t *ret_other)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[PLACES + 1] = {SLICE_NONE};
        bool has_own = false;

        *ret_is_alone = false;
        *ret_other = 0;
        buf_put_str(&l->s->sql, "SELECT CONNECTION_ID()");
        for (int place = 1; place <= PLACES; place++) {
                buf_put_str(&l->s->sql, ", IS_USED_LOCK(");
                put_place(l->s, place);
                buf_put_byte(&l->s->sql, ')');
        }
        int err = look_run(l, &r);
        if (err)
                return mysql_conn_is_open(l->s->conn) ? OK : err;
        if (!mysql_result_next(&r, cells, ARRAY_LEN(cells)))
                return OK;
        for (size_t i = 1; i < ARRAY_LEN(cells); i++) {
                has_own |= cells[i].ptr && slice_eq(cells[i], cells[0]);
                if (cells[i].ptr && !slice_eq(cells[i], cells[0]))
                        *ret_other = look_u64(cells[i]);
        }
        *ret_is_alone = has_own && !*ret_other;
        return OK;
}

/* ---- reading ---- */

/* Pending actions that are not due yet, the nearest first, below the walk. */
static int read_ahead(struct repair_look *l, struct store_walk *w, struct look_ids *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[2];
        struct buf *sql = &l->s->sql;

        ret->n = 0;
        buf_printf(sql, "SELECT action_id, scheduled_date_gmt FROM %s", l->s->actions);
        look_put_index(sql, l->s->facts.status_index);
        buf_put_str(sql, " WHERE status = 'pending' AND scheduled_date_gmt > ");
        store_put_date(sql, l->survey->now_s);
        buf_put_str(sql, " AND scheduled_date_gmt <= ");
        store_put_date(sql, l->survey->now_s + l->plan->reach_s);
        if (w->at_id)
                buf_printf(sql,
                           " AND scheduled_date_gmt >= '%s' AND (scheduled_date_gmt > '%s' OR "
                           "action_id > %llu)",
                           w->at_date, w->at_date, (unsigned long long)w->at_id);
        buf_printf(sql, " ORDER BY scheduled_date_gmt, action_id LIMIT %d", LOOK_WALK_ROWS);
        int err = look_run(l, &r);
        while (!err && ret->n < LOOK_WALK_ROWS && mysql_result_next(&r, cells, ARRAY_LEN(cells))) {
                w->at_id = look_u64(cells[0]);
                look_copy_cell(w->at_date, sizeof(w->at_date), cells[1]);
                ret->at[ret->n++] = w->at_id;
        }
        return err;
}

/* Of these actions: the lines of a move that have none of a return behind them.  *ids: them. */
static int keep_last_lines(struct repair_look *l, struct look_ids *ids)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[2];

        if (!ids->n)
                return OK;
        buf_printf(&l->s->sql,
                   "SELECT action_id, MAX(IF(message LIKE '" STORE_DEFERRED
                   "%%', log_id, 0)) AS moved FROM %s",
                   l->s->logs);
        look_put_index(&l->s->sql, LOOK_LOG_INDEX);
        buf_put_str(&l->s->sql, " WHERE action_id");
        look_put_ids(&l->s->sql, ids->at, ids->n);
        buf_printf(&l->s->sql,
                   " GROUP BY action_id HAVING moved > MAX(IF(message LIKE '" STORE_RETURNED
                   "%%', log_id, 0)) AND SUM(message LIKE '" TAKEN_MARK "%%') < %d",
                   TAKEN_TIMES);
        int err = look_run(l, &r);
        ids->n = 0;
        while (!err && ids->n < LOOK_WALK_ROWS && mysql_result_next(&r, cells, ARRAY_LEN(cells)))
                ids->at[ids->n++] = look_u64(cells[1]);
        return err;
}

int64_t store_stray_original_s(const struct store_stray *stray, int64_t now_s)
{
        int64_t due_s = stray->line_s > 0 && stray->line_s < now_s ? stray->line_s : now_s;

        if (stray->schedule_s > 0) /* not earlier: a series would go on from there, and run twice */
                return stray->schedule_s < stray->date_s ? stray->schedule_s : 0;
        return stray->runs_once && due_s < stray->date_s ? due_s : 0;
}

/* Does the line say that the action was moved to the date that it has? */
static bool names_date(struct slice line, struct slice date)
{
        const struct slice head = SLICE_LIT(STORE_DEFERRED);

        return line.len == head.len + date.len && memcmp(line.ptr, head.ptr, head.len) == 0 &&
               slice_eq(slice_make(line.ptr + head.len, date.len), date);
}

enum {
        COL_ID,
        COL_DATE,
        COL_DATE_S,
        COL_SCHEDULE_S,
        COL_ONCE,
        COL_HOOK,
        COL_LINE,
        COL_LINE_S,
        COLS
};

static int64_t cell_i64(struct slice cell)
{
        int64_t v;

        return slice_to_i64(cell, &v) ? v : 0;
}

/* False: it is not what was looked for. */
static bool take_stray(struct repair_look *l, const struct slice cells[COLS],
                       struct site_stray *ret)
{
        const struct store_stray stray = {.date_s = cell_i64(cells[COL_DATE_S]),
                                          .schedule_s = cell_i64(cells[COL_SCHEDULE_S]),
                                          .line_s = cell_i64(cells[COL_LINE_S]),
                                          .runs_once = look_u64(cells[COL_ONCE])};

        *ret = (struct site_stray){
                .row = {look_u64(cells[COL_ID]), store_stray_original_s(&stray, l->survey->now_s)},
                .date_s = stray.date_s};
        if (!cells[COL_LINE].ptr || !names_date(cells[COL_LINE], cells[COL_DATE]) ||
            !ret->row.original_s || !ret->row.id)
                return false;
        ret->hook = arena_copy(&l->survey->arena, cells[COL_HOOK]);
        return ret->hook.ptr != NULL;
}

/* The actions of these lines. */
static int read_strays(struct repair_look *l, const struct look_ids *lines, struct site_stray *ret,
                       size_t *ret_n)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cells[COLS];
        struct buf *sql = &l->s->sql;

        *ret_n = 0;
        if (!lines->n)
                return OK;
        buf_put_str(sql,
                    "SELECT a.action_id, a.scheduled_date_gmt, " SECONDS(
                            "a.scheduled_date_gmt") ", " STORE_SCHEDULE_DATE ", " LOOK_RUNS_ONCE
                                                    ", CONVERT(a.hook USING utf8mb4), "
                                                    "LEFT(l.message, ");
        buf_printf(sql, "%zu), ", strlen(STORE_DEFERRED "2026-05-01 12:05:00"));
        buf_printf(sql,
                   SECONDS("l.log_date_gmt") " FROM %s AS l FORCE INDEX (PRIMARY) STRAIGHT_JOIN %s "
                                             "AS a FORCE INDEX (PRIMARY) ON a.action_id = "
                                             "l.action_id WHERE l.log_id",
                   l->s->logs, l->s->actions);
        look_put_ids(sql, lines->at, lines->n);
        buf_put_str(sql, " AND a.status = 'pending' AND a.claim_id = 0");
        int err = look_run(l, &r);
        while (!err && *ret_n < lines->n && mysql_result_next(&r, cells, COLS))
                *ret_n += take_stray(l, cells, &ret[*ret_n]);
        return err;
}

/* ---- taking ---- */

static int log_taken(struct repair_look *l, const struct site_stray *rows, size_t n)
{
        uint64_t ids[LOOK_WALK_ROWS];

        for (size_t i = 0; i < n; i++)
                ids[i] = rows[i].row.id;
        return look_unless_locked(store_log(l->s, ids, n, TAKEN_LINE, l->problem));
}

/* other: its connection; 0: nothing is known of another weir. */
static void tell_left(struct repair_look *l, size_t n, uint64_t other)
{
        char whose[64] = "it cannot see whether another one guards the site";

        if (other)
                (void)snprintf(whose, sizeof(whose),
                               "another weir guards the site (connection %llu)",
                               (unsigned long long)other);
        look_advise(l, ADVICE_RESTORED,
                    "%zu actions stand at the date of a move that this weir does not know, and %s. "
                    "They run at that date.",
                    n, whose);
}

static int ask_ledger(struct repair_look *l, struct site_stray *rows, size_t *n, bool is_taken)
{
        const struct store_ledger *ledger = &l->s->ledger;

        return ledger->take(ledger->ctx, rows, n, is_taken) == OK
                       ? OK
                       : problem_set(l->problem, ERR_STOPPING, "weir is stopping");
}

/* *n: those that are not in the ledger, or were not before. */
static int take_strays(struct repair_look *l, struct site_stray *rows, size_t *n)
{
        uint64_t other;
        bool is_alone;
        int err = see_places(l, &is_alone, &other);

        if (!err)
                err = ask_ledger(l, rows, n, is_alone);
        if (err || !*n)
                return err;
        if (!is_alone) {
                tell_left(l, *n, other);
                return OK;
        }
        l->survey->faults[REPAIR_RESTORED].mended += (uint32_t)*n;
        return log_taken(l, rows, *n);
}

int look_at_restored(struct repair_look *l)
{
        struct store *s = l->s;
        struct store_walk *w = &s->memory.strays;
        struct site_stray rows[LOOK_WALK_ROWS];
        struct look_ids ids;
        size_t n = 0;

        s->memory.found[REPAIR_RESTORED] = 0;
        if (!s->ledger.take)
                return OK;
        int err = read_ahead(l, w, &ids);
        bool is_last = ids.n < LOOK_WALK_ROWS;
        if (!err)
                err = keep_last_lines(l, &ids);
        if (!err)
                err = read_strays(l, &ids, rows, &n);
        if (!err && n && look_may_mend(l, REPAIR_RESTORED))
                err = take_strays(l, rows, &n);
        else if (!err && n)
                err = ask_ledger(l, rows, &n, false);
        if (err)
                return err;
        look_walk_on(w, (uint32_t)n, is_last);
        s->memory.found[REPAIR_RESTORED] = look_walk_found(w);
        if (l->survey->faults[REPAIR_RESTORED].mended || !look_walk_found(w))
                look_forget(l, ADVICE_RESTORED);
        return OK;
}
