/* What is due at a site, by hook, without reading more than a bounded number of its rows.
 *
 * Hooks are found by hops over the index that begins with them: the first hook, then the first
 * behind it, and so on.  Each hop reads one entry, where DISTINCT reads all of them.  Then one
 * capped count for each hook, several to a statement, with the index forced: a count over all hooks
 * at once would read every action that is due.
 *
 * Where a hop goes on.  The column sorts without case and accents, so `hook > 'sync'` would be
 * right but reads every entry of 'sync' first.  `hook >= 'sync' + the lowest text that can follow`
 * does not.  Before that character stands a space, because 'sync a' sorts before 'sync_'.
 *
 * Spellings.  "Sync" and "sync" are two hooks to PHP and one to the index.  A count tells how many
 * of its rows are spelled as the hop found them; where that is not all, a second one groups them by
 * their bytes.  It sees the first rows that are due, up to the cap, as the count does.
 *
 * Known weakness: of hooks that share their first HOP_CHARS characters only one is found, because
 * the index has no more of them. */
#include "guard/store.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define ROWS_MAX     5000 /* of one survey that are counted, about 15 ms of the server's time */
#define CAP_MIN      10   /* of a hook, however many there are */
#define CHUNK        25   /* hooks of one statement */
#define CLAIMED_LOOK 2000 /* claimed actions that are looked at, newest claims first */
#define HOP_CHARS    160  /* the index has 163 characters of a hook */
#define ARENA_MAX    (8 * MIB)

/* The date of a row as Unix seconds; UNIX_TIMESTAMP() ends in 2038. */
#define UNIX_OF(date) "TIMESTAMPDIFF(SECOND, '1970-01-01', " date ")"
#define BYTES_OF_HOOK "CAST(CONVERT(hook USING utf8mb4) AS BINARY)"

struct look {
        struct store *s;
        struct site_survey *v;
        int64_t due_by_s;
        struct slice names[SITE_HOOKS_MAX]; /* one spelling of each, as the hops found them */
        size_t n_names;
        uint16_t mixed[SITE_HOOKS_MAX]; /* of the names: those with more than one spelling */
        size_t n_mixed;
        struct problem *problem;
};

static uint32_t cell_count(struct slice cell)
{
        uint64_t n = 0;
        return slice_to_u64(cell, &n) && n < UINT32_MAX ? (uint32_t)n : 0;
}

static int64_t cell_time(struct slice cell)
{
        int64_t s = 0;
        return slice_to_i64(cell, &s) && s > 0 ? s : 0;
}

static int no_memory(const struct look *l)
{
        return problem_set(l->problem, ERR_NOMEM, "no memory is left for the survey");
}

static void put_forced(struct buf *sql, const struct store *s, const char *index)
{
        buf_printf(sql, "%s FORCE INDEX (", s->actions);
        mysql_put_name(sql, slice_str(index));
        buf_put_byte(sql, ')');
}

/* ---- hooks ---- */

/* The least text that sorts behind every spelling of the hook; see above. */
static void put_successor(struct buf *ret, struct slice hook, char lowest)
{
        size_t len = 0, n_chars = 0;
        while (len < hook.len && n_chars < HOP_CHARS) {
                size_t n = utf8_sequence(hook.ptr + len, hook.len - len);
                len += n ? n : 1;
                n_chars++;
        }
        buf_put(ret, hook.ptr, len);
        if (len < hook.len) {
                buf_put_str(ret, "zzz"); /* sorts behind nearly all of them */
                return;
        }
        buf_put_byte(ret, ' ');
        buf_put_byte(ret, lowest);
}

/* The first hook from that text on; SLICE_NONE: there is none. */
static int hop(struct look *l, struct slice from, struct slice *ret)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cell;
        struct buf *sql = &l->s->sql;
        buf_put_str(sql, "SELECT hook FROM ");
        put_forced(sql, l->s, l->s->facts.hook_index);
        buf_put_str(sql, " WHERE hook >= ");
        mysql_put_text(sql, from);
        buf_put_str(sql, " LIMIT 1");
        int r = store_run(l->s, &rows, l->problem);
        *ret = SLICE_NONE;
        if (r != OK || !mysql_result_next(&rows, &cell, 1) || !cell.ptr)
                return r;
        *ret = arena_copy(&l->v->arena, cell);
        return ret->ptr ? OK : no_memory(l);
}

static int find_hooks(struct look *l)
{
        struct buf from CLEANUP(buf_release) = {0};
        struct slice hook;
        for (;;) {
                int r = hop(l, buf_slice(&from), &hook);
                if (r != OK || !hook.ptr)
                        return r;
                /* One found twice is longer than the index, and nothing leads past it. */
                if (l->n_names == SITE_HOOKS_MAX ||
                    (l->n_names && slice_eq(l->names[l->n_names - 1], hook))) {
                        l->v->are_hooks_cut = true;
                        return OK;
                }
                l->names[l->n_names++] = hook;
                buf_clear(&from);
                put_successor(&from, hook, l->s->facts.lowest);
        }
}

static void add_hook(struct look *l, const struct site_hook *hook)
{
        if (l->v->n_hooks < SITE_HOOKS_MAX)
                l->v->hooks[l->v->n_hooks++] = *hook;
        else
                l->v->are_hooks_cut = true;
}

/* ---- due ---- */

/* "(SELECT `columns` of its first rows that are due) t" */
static void put_due(struct look *l, const char *columns, struct slice hook)
{
        struct buf *sql = &l->s->sql;
        buf_printf(sql, "(SELECT %s, scheduled_date_gmt AS d FROM ", columns);
        put_forced(sql, l->s, l->s->facts.hook_index);
        buf_put_str(sql, " WHERE hook = ");
        mysql_put_text(sql, hook);
        buf_put_str(sql, " AND status = 'pending' AND scheduled_date_gmt <= ");
        store_put_date(sql, l->due_by_s);
        buf_printf(sql, " AND claim_id = 0 LIMIT %u) t", l->v->due_cap + 1);
}

static void put_count(struct look *l, size_t at)
{
        struct buf *sql = &l->s->sql;
        struct buf same CLEANUP(buf_release) = {0};
        buf_put_str(&same, BYTES_OF_HOOK " = ");
        mysql_put_text(&same, l->names[at]);
        buf_put_str(&same, " AS same");
        buf_printf(sql, "SELECT %zu, COUNT(*), SUM(same), " UNIX_OF("MIN(d)") " FROM ", at);
        put_due(l, buf_cstr(&same), l->names[at]);
}

static int count_chunk(struct look *l, size_t from, size_t until)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cells[4];
        for (size_t i = from; i < until; i++) {
                buf_put_str(&l->s->sql, i == from ? "" : " UNION ALL ");
                put_count(l, i);
        }
        int r = store_run(l->s, &rows, l->problem);
        while (r == OK && mysql_result_next(&rows, cells, 4)) {
                size_t at = cell_count(cells[0]);
                uint32_t n = cell_count(cells[1]);
                if (at < from || at >= until)
                        continue;
                if (n == cell_count(cells[2]))
                        add_hook(l, &(struct site_hook){.hook = l->names[at],
                                                        .due = n,
                                                        .oldest_due_s = cell_time(cells[3])});
                else
                        l->mixed[l->n_mixed++] = (uint16_t)at;
        }
        return r;
}

/* The spellings of one hook, each counted apart. */
static int count_spellings(struct look *l, struct slice hook)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cells[3];
        buf_put_str(&l->s->sql, "SELECT h, COUNT(*), " UNIX_OF("MIN(d)") " FROM ");
        put_due(l, STORE_SPELLING, hook);
        buf_put_str(&l->s->sql, " " STORE_BY_SPELLING);
        int r = store_run(l->s, &rows, l->problem);
        while (r == OK && mysql_result_next(&rows, cells, 3)) {
                struct site_hook found = {.hook = arena_copy(&l->v->arena, cells[0]),
                                          .due = cell_count(cells[1]),
                                          .oldest_due_s = cell_time(cells[2])};
                if (!found.hook.ptr)
                        return no_memory(l);
                add_hook(l, &found);
        }
        return r;
}

static int count_due(struct look *l)
{
        size_t cap = l->n_names ? ROWS_MAX / l->n_names : SITE_COUNT_CAP;
        if (cap > SITE_COUNT_CAP)
                cap = SITE_COUNT_CAP;
        l->v->due_cap = cap > CAP_MIN ? (uint32_t)cap : CAP_MIN;
        for (size_t from = 0; from < l->n_names; from += CHUNK) {
                size_t until = from + CHUNK < l->n_names ? from + CHUNK : l->n_names;
                int r = count_chunk(l, from, until);
                if (r != OK)
                        return r;
        }
        for (size_t i = 0; i < l->n_mixed; i++) {
                int r = count_spellings(l, l->names[l->mixed[i]]);
                if (r != OK)
                        return r;
        }
        return OK;
}

/* ---- the rest ---- */

static struct site_hook *find_hook(struct site_survey *v, struct slice hook)
{
        for (size_t i = 0; i < v->n_hooks; i++)
                if (slice_eq(v->hooks[i].hook, hook))
                        return &v->hooks[i];
        return NULL;
}

static int count_running(struct look *l)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cells[2];
        struct buf *sql = &l->s->sql;
        buf_put_str(sql, "SELECT h, COUNT(*) FROM (SELECT " STORE_SPELLING " FROM ");
        put_forced(sql, l->s, l->s->facts.status_index);
        buf_printf(sql, " WHERE status = 'in-progress' LIMIT %d) t " STORE_BY_SPELLING,
                   SITE_COUNT_CAP + 1);
        int r = store_run(l->s, &rows, l->problem);
        while (r == OK && mysql_result_next(&rows, cells, 2)) {
                struct site_hook *known = find_hook(l->v, cells[0]);
                uint32_t n = cell_count(cells[1]);
                l->v->running += n;
                if (known) {
                        known->running = n;
                        continue;
                }
                struct site_hook found = {.hook = arena_copy(&l->v->arena, cells[0]), .running = n};
                if (!found.hook.ptr)
                        return no_memory(l);
                add_hook(l, &found);
        }
        return r;
}

/* Finished actions may keep a claim for ever; claims that count are the newest. */
static int read_totals(struct look *l)
{
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct slice cells[3] = {SLICE_NONE};
        struct buf *sql = &l->s->sql;
        buf_put_str(sql, "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM ");
        put_forced(sql, l->s, l->s->facts.status_index);
        buf_printf(sql, " WHERE status = 'failed' LIMIT %d) f), ", SITE_COUNT_CAP + 1);
        buf_put_str(sql, "(SELECT COUNT(*) FROM (SELECT status FROM ");
        put_forced(sql, l->s, l->s->facts.claim_index);
        buf_printf(sql,
                   " WHERE claim_id > 0 ORDER BY claim_id DESC LIMIT %d) c WHERE status = "
                   "'pending'), ",
                   CLAIMED_LOOK);
        buf_put_str(sql, "(SELECT " UNIX_OF("scheduled_date_gmt") " FROM ");
        put_forced(sql, l->s, l->s->facts.status_index);
        buf_put_str(sql, " WHERE status = 'pending' AND scheduled_date_gmt > ");
        store_put_date(sql, l->v->now_s);
        buf_put_str(sql, " ORDER BY scheduled_date_gmt LIMIT 1)");
        int r = store_run(l->s, &rows, l->problem);
        if (r == OK && mysql_result_next(&rows, cells, 3)) {
                l->v->failed = cell_count(cells[0]);
                l->v->claimed = cell_count(cells[1]);
                l->v->next_due_s = cell_time(cells[2]);
        }
        return r;
}

static void tell_facts(const struct store_facts *f, struct site_survey *v)
{
        (void)snprintf(v->server, sizeof(v->server), "%s", f->server);
        (void)snprintf(v->url, sizeof(v->url), "%s", f->url);
        (void)snprintf(v->store, sizeof(v->store), "schema %s%s",
                       f->schema[0] ? f->schema : "unknown",
                       f->is_migrated ? "" : ", not migrated yet");
}

static int look(struct look *l)
{
        int r = store_now(l->s, &l->v->now_s, l->problem);
        if (r != OK)
                return r;
        l->due_by_s += l->v->now_s;
        r = find_hooks(l);
        if (r == OK)
                r = count_due(l);
        if (r == OK)
                r = count_running(l);
        if (r == OK)
                r = read_totals(l);
        return r;
}

int store_survey(struct store *s, int64_t horizon_s, struct site_survey *ret,
                 struct problem *problem)
{
        int64_t began_ns = clock_boot_ns();
        struct look *l = xcalloc(1, sizeof(*l));
        *l = (struct look){.s = s, .v = ret, .due_by_s = horizon_s, .problem = problem};
        arena_init(&ret->arena, ARENA_MAX);
        tell_facts(&s->facts, ret);
        ret->hooks = arena_array(&ret->arena, SITE_HOOKS_MAX, sizeof(*ret->hooks));
        int r = ret->hooks ? look(l) : no_memory(l);
        free(l);
        ret->took_us = (clock_boot_ns() - began_ns) / 1000;
        return r;
}
