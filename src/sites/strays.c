/* Actions that stand at the date of a move which the ledger does not know any more: the database
 * was restored from a backup that was taken while they were moved, or weir's own data were lost.
 *
 * They come into the ledger again, and nothing else is done here: what is in the ledger waits with
 * its tier, moves on and returns in stocks like all that weir has moved.  A batch that is wrong
 * does no harm (state/moved.h), so it does not matter what became of the actions since they were
 * read. */
#include <stdlib.h>

#include "sites/sites_state.h"

static int by_hook_date_and_id(const void *a, const void *b)
{
        const struct site_stray *x = a, *y = b;
        int order = slice_cmp(x->hook, y->hook);
        if (order)
                return order;
        if (x->date_s != y->date_s)
                return x->date_s < y->date_s ? -1 : 1;
        return (x->row.id > y->row.id) - (x->row.id < y->row.id);
}

static bool is_stray_right(const struct site_stray *row)
{
        return row->hook.len && row->hook.len <= SITE_HOOK_MAX && row->date_s > 0 &&
               row->date_s <= MOVED_DATE_MAX && row->row.original_s > 0 &&
               row->row.original_s < row->date_s;
}

/* Those that can be, each once. */
static size_t keep_right(struct site_stray *rows, size_t n)
{
        size_t n_kept = 0;
        for (size_t i = 0; i < n; i++)
                if (is_stray_right(&rows[i]) &&
                    (!n_kept || by_hook_date_and_id(&rows[i], &rows[n_kept - 1]) != 0))
                        rows[n_kept++] = rows[i];
        return n_kept;
}

/* Those that weir knows nothing of. */
static size_t keep_unknown(const struct core *core, const struct site *s, struct site_stray *rows,
                           size_t n)
{
        struct moved_ask *asks = xcalloc(n + 1, sizeof(*asks));
        size_t n_kept = 0;
        for (size_t i = 0; i < n; i++)
                asks[i] = (struct moved_ask){
                        .id = rows[i].row.id, .hook = rows[i].hook, .date_s = rows[i].date_s};
        moved_find(&core->state, slice_str(s->name), asks, n);
        for (size_t i = 0; i < n; i++)
                if (!moved_answer(asks, n, rows[i].hook, rows[i].row.id))
                        rows[n_kept++] = rows[i];
        free(asks);
        return n_kept;
}

/* The first of the rows have one hook and one date; how many, at most a batch. */
static size_t count_alike(const struct site_stray *rows, size_t n)
{
        size_t end = 1;
        while (end < n && end < SITE_ROWS_MAX && rows[end].date_s == rows->date_s &&
               slice_eq(rows[end].hook, rows->hook))
                end++;
        return end;
}

static int add_strays(struct core *core, const struct site *s, const struct site_stray *strays,
                      size_t n)
{
        struct buf packed CLEANUP(buf_release) = {0};
        struct site_row rows[SITE_ROWS_MAX];
        struct problem problem; /* no room: the next look finds them again */
        uint64_t number;
        struct moved_values v = {.site = slice_str(s->name),
                                 .hook = strays->hook,
                                 .date_s = strays->date_s,
                                 .made_s = s->survey.now_s,
                                 .n_moved = n};
        for (size_t i = 0; i < n; i++)
                rows[i] = strays[i].row;
        moved_pack(&v, rows, n, &packed);
        return site_add_batch(core, &v, &number, &problem);
}

void sites_take_strays(struct core *core, struct slice site, struct site_stray *rows, size_t *n,
                       bool is_taken)
{
        const struct site *s = site_by_name(core, site);
        size_t n_found = *n, at = 0;
        *n = 0;
        if (!s || !n_found)
                return;
        qsort(rows, n_found, sizeof(*rows), by_hook_date_and_id);
        n_found = keep_unknown(core, s, rows, keep_right(rows, n_found));
        bool may_take = site_mode(core, s) == MODE_ENFORCE && !s->is_leaving;
        if (!is_taken) {
                *n = n_found;
                return;
        }
        while (may_take && at < n_found) {
                size_t n_alike = count_alike(rows + at, n_found - at);
                if (add_strays(core, s, rows + at, n_alike) != OK)
                        break;
                at += n_alike;
        }
        *n = at;
}
