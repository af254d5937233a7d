/* Deletes finished actions past their time, with their log lines. */
#include "guard/repair_look.h"

#define DELETE_AT_ONCE 200  /* finished actions of one cycle */
#define DELETE_STEP    50   /* of one statement */
#define LOGS_AT_ONCE   1000 /* log lines of one step */
/* When it ended; an action that was canceled before any attempt has only its date. */
#define ENDED                                                                                      \
        "IF(a.last_attempt_gmt > '0000-00-00 00:00:00', a.last_attempt_gmt, a.scheduled_date_gmt)"

struct retention {
        const char *status;
        int64_t before_s;
};

/* Log lines first: lines without an action stay for ever.  *ret_is_done: no line is left. */
static int delete_logs(struct repair_look *l, const uint64_t *ids, size_t n, bool *ret_is_done)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct look_ids lines;
        int err;

        buf_printf(&l->s->sql, "SELECT log_id FROM %s", l->s->logs);
        look_put_index(&l->s->sql, LOOK_LOG_INDEX);
        buf_put_str(&l->s->sql, " WHERE action_id");
        look_put_ids(&l->s->sql, ids, n);
        buf_printf(&l->s->sql, " LIMIT %d", LOGS_AT_ONCE);
        err = look_read_ids(l, &lines);
        if (!err && lines.n) {
                buf_printf(&l->s->sql, "DELETE FROM %s WHERE log_id", l->s->logs);
                look_put_ids(&l->s->sql, lines.at, lines.n);
                err = look_run(l, &r);
        }
        *ret_is_done = !err && lines.n < LOGS_AT_ONCE;
        return err;
}

static int delete_actions(struct repair_look *l, const struct retention *t,
                          const struct look_ids *ids)
{
        struct site_fault *fault = &l->survey->faults[REPAIR_RETENTION];
        int err = OK;

        for (size_t i = 0; !err && i < ids->n && fault->mended < DELETE_AT_ONCE; i += DELETE_STEP) {
                CLEANUP(mysql_result_release) struct mysql_result r = {0};
                size_t n = ids->n - i < DELETE_STEP ? ids->n - i : DELETE_STEP;
                bool is_done = false;

                err = look_unless_locked(delete_logs(l, ids->at + i, n, &is_done));
                if (err || !is_done)
                        continue;
                buf_printf(&l->s->sql, "DELETE a FROM %s AS a WHERE a.action_id", l->s->actions);
                look_put_ids(&l->s->sql, ids->at + i, n);
                buf_printf(&l->s->sql, " AND a.status = '%s' AND " ENDED " < ", t->status);
                store_put_date(&l->s->sql, t->before_s);
                err = look_unless_locked(look_run(l, &r));
                if (!err)
                        fault->mended += (uint32_t)r.affected;
        }
        return err;
}

/* Those with the oldest dates; an action seldom ends long after its date.  Those without a date
 * stay, and they must not fill the page. */
static int look_at_status(struct repair_look *l, const struct retention *t, uint32_t *found)
{
        struct store *s = l->s;
        struct look_ids ids;
        int err;

        buf_printf(&s->sql, "SELECT a.action_id FROM (SELECT action_id FROM %s", s->actions);
        look_put_index(&s->sql, s->facts.status_index);
        buf_printf(&s->sql,
                   " WHERE status = '%s' AND scheduled_date_gmt > '0000-00-00 00:00:00' ORDER BY "
                   "scheduled_date_gmt, action_id LIMIT %d) AS page "
                   "JOIN %s a USING "
                   "(action_id) WHERE a.status = '%s' AND " ENDED
                   " > '0000-00-00 00:00:00' AND " ENDED " < ",
                   t->status, LOOK_WALK_ROWS, s->actions, t->status);
        store_put_date(&s->sql, t->before_s);
        err = look_read_ids(l, &ids);
        if (err)
                return err;
        *found += (uint32_t)ids.n;
        return look_may_mend(l, REPAIR_RETENTION) ? delete_actions(l, t, &ids) : OK;
}

int look_at_retention(struct repair_look *l)
{
        const struct store_options *o = l->s->options;
        int64_t now_s = l->survey->now_s;
        const struct {
                const char *status;
                int64_t keep_s;
        } kinds[] = {{"complete", o->retention_s},
                     {"canceled", o->retention_s},
                     {"failed", o->retention_failed_s}};
        uint32_t found = 0;
        int err = OK;

        if (!l->plan->is_calm)
                return OK;
        for (size_t i = 0; !err && i < ARRAY_LEN(kinds); i++)
                if (kinds[i].keep_s > 0) {
                        struct retention t = {kinds[i].status, now_s - kinds[i].keep_s};
                        err = look_at_status(l, &t, &found);
                }
        if (!err)
                l->s->memory.found[REPAIR_RETENTION] = found;
        return err;
}
