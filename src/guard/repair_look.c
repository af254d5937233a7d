/* See repair_look.h: short ways to run a statement of a repair and to read its answer. */
#include "guard/repair_look.h"

#include "base/shown.h"

uint64_t look_u64(struct slice cell)
{
        uint64_t v;

        return slice_to_u64(cell, &v) ? v : 0;
}

void look_put_index(struct buf *sql, const char *index)
{
        buf_put_str(sql, " FORCE INDEX (");
        mysql_put_name(sql, slice_str(index));
        buf_put_byte(sql, ')');
}

void look_put_ids(struct buf *sql, const uint64_t *ids, size_t n)
{
        for (size_t i = 0; i < n; i++)
                buf_printf(sql, "%s%llu", i ? ", " : " IN (", (unsigned long long)ids[i]);
        buf_put_byte(sql, ')');
}

bool look_may_mend(const struct repair_look *l, enum site_repair repair)
{
        return l->plan->mode == MODE_ENFORCE && l->plan->repairs[repair] == MODE_ENFORCE;
}

void look_advise(struct repair_look *l, unsigned advice, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        shown_vprintf(l->s->memory.advice[advice], STORE_ADVICE_MAX, fmt, args);
        va_end(args);
}

void look_forget(struct repair_look *l, unsigned advice)
{
        l->s->memory.advice[advice][0] = '\0';
}

int look_run(struct repair_look *l, struct mysql_result *ret)
{
        return store_run(l->s, ret, l->problem);
}

int look_unless_locked(int err)
{
        return err == ERR_LOCKED ? OK : err;
}

int look_count(struct repair_look *l, uint32_t *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cell;
        int err = look_run(l, &r);

        if (!err)
                *ret = mysql_result_next(&r, &cell, 1) ? (uint32_t)look_u64(cell) : 0;
        return err;
}

int look_read_ids(struct repair_look *l, struct look_ids *ret)
{
        CLEANUP(mysql_result_release) struct mysql_result r = {0};
        struct slice cell;
        int err = look_run(l, &r);

        ret->n = 0;
        while (!err && ret->n < ARRAY_LEN(ret->at) && mysql_result_next(&r, &cell, 1))
                ret->at[ret->n++] = look_u64(cell);
        return err;
}

void look_copy_cell(char *ret, size_t size, struct slice cell)
{
        size_t n = cell.len < size ? cell.len : size - 1;

        if (n)
                memcpy(ret, cell.ptr, n);
        ret[n] = '\0';
}

void look_walk_on(struct store_walk *w, uint32_t seen, bool is_last)
{
        w->seen += seen;
        if (!is_last)
                return;
        *w = (struct store_walk){.found = w->seen};
}

uint32_t look_walk_found(const struct store_walk *w)
{
        return w->found > w->seen ? w->found : w->seen;
}

void look_put_failed(struct store *s, const struct store_walk *w, int64_t from_s, unsigned rows)
{
        struct buf *sql = &s->sql;

        buf_printf(sql, " FROM (SELECT action_id FROM %s", s->actions);
        look_put_index(sql, s->facts.status_index);
        buf_put_str(sql, " WHERE status = 'failed'");
        if (from_s) {
                buf_put_str(sql, " AND scheduled_date_gmt >= ");
                store_put_date(sql, from_s);
        }
        if (w->at_id)
                buf_printf(sql,
                           " AND (scheduled_date_gmt < '%s' OR (scheduled_date_gmt = '%s' AND "
                           "action_id < %llu))",
                           w->at_date, w->at_date, (unsigned long long)w->at_id);
        buf_printf(sql,
                   " ORDER BY scheduled_date_gmt DESC, action_id DESC LIMIT %u) AS page JOIN %s a "
                   "USING (action_id) ORDER BY a.scheduled_date_gmt DESC, a.action_id DESC",
                   rows, s->actions);
}
