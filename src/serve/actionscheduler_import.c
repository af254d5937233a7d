/* Actions become jobs and schedules.
 *
 * Each batch is taken out of Action Scheduler's reach, then made in weir, then ended in Action
 * Scheduler (guard/transfer.h).  A batch that an earlier import left on its way comes first.
 *
 * A job is made once: its request carries an idempotency key, which weir knows for a day, and the
 * same name is the KEY of the job.  So the job of an action that has been on its way for longer, or
 * that was imported with other options before, is found among those of its hook.
 *
 * A recurring action is a schedule, found by its name.  Its instance that is due, or nearly (the
 * clocks of two machines differ), is a job of its own, and the schedule begins behind it: so the
 * schedule itself tells a later import whether there must be such a job. */
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/shown.h"
#include "cli/fields.h"
#include "cli/request.h"
#include "serve/actionscheduler_int.h"
#include "wire/digest.h"

#define KNOWN_S      (23LL * 3600) /* weir knows a key for 24 hours */
#define NEAR_MS      (60 * MS_PER_S)
#define JOBS_OF_PAGE "500"
#define HASH_CHARS   8 /* of the args and the group, in the name of a schedule */
#define LINE_MAX     (PROBLEM_DETAIL_MAX + 64)

/* One action of a batch on its way. */
struct item {
        struct transfer_action action;
        char mark[MARK_MAX];
        int result; /* of weir: OK, or why not */
        bool is_schedule;
        bool is_half; /* the schedule is made and the job is not */
        int64_t job;
        struct problem problem;
        char name[2 * LIMIT_NAME_BYTES]; /* of the schedule */
        char line[LINE_MAX];
};

struct importing {
        struct moving *m;
        struct item *items; /* TRANSFER_ROWS of them */
        size_t n;
        struct mysql_result rows; /* what the items borrow from */
};

static bool is_lost(int r)
{
        return r == ERR_UNAVAIL || r == ERR_IO || r == ERR_TIMEOUT || r == ERR_STOPPING;
}

static bool is_its_own_fault(int r)
{
        return r == ERR_BADARG || r == ERR_TOOBIG || r == ERR_SYNTAX || r == ERR_CONFLICT;
}

static bool is_recurring(const struct transfer_action *a)
{
        return a->kind == TRANSFER_INTERVAL || a->kind == TRANSFER_CRON;
}

/* ---- requests ---- */

static void make_mark(const struct moving *m, struct item *it)
{
        (void)snprintf(it->mark, sizeof(it->mark), MARK_PREFIX "%s:%llu:%c%lld", m->site->name,
                       (unsigned long long)it->action.id, MARK_KINDS[it->action.kind],
                       (long long)it->action.date_s);
}

/* What jobs and schedules have in common.  Action Scheduler never tries an action again. */
static void put_options(const struct moving *m, struct cli_request *req, const struct item *it)
{
        const struct transfer_action *a = &it->action;
        cli_request_add_str(req, "PRIORITY");
        cli_request_add_int(req, a->priority);
        cli_request_add_str(req, "ATTEMPTS");
        cli_request_add_int(req, 1);
        cli_request_add_str(req, "KEY");
        cli_request_add_str(req, it->mark);
        if (m->queue) {
                cli_request_add_str(req, "QUEUE");
                cli_request_add_str(req, m->queue);
        }
        if (a->group.len) {
                cli_request_add_str(req, "GROUP");
                cli_request_add(req, a->group);
        }
}

/* `unique` has room for the unique key. */
static void put_job(const struct moving *m, struct cli_request *req, const struct item *it,
                    struct buf *unique)
{
        const struct transfer_action *a = &it->action;
        cli_request_init(req, "IDEMPOTENT");
        cli_request_add_str(req, it->mark);
        cli_request_add_str(req, "ENQUEUE");
        cli_request_add(req, a->hook);
        cli_request_add(req, a->args);
        put_options(m, req, it);
        if (a->date_s) {
                cli_request_add_str(req, "AT");
                cli_request_add_int(req, a->date_s * MS_PER_S);
        }
        if (!a->unique_key.len || is_recurring(a))
                return;
        buf_clear(unique);
        buf_printf(unique, MARK_PREFIX "%s:", m->site->name);
        buf_put_slice(unique, a->unique_key);
        cli_request_add_str(req, "UNIQUE");
        cli_request_add(req, buf_slice(unique));
        cli_request_add_str(req, "SCOPE");
        cli_request_add_str(req, "running");
}

static void put_schedule(const struct moving *m, struct cli_request *req, const struct item *it,
                         bool is_behind)
{
        const struct transfer_action *a = &it->action;
        int64_t first_ms = a->date_s * MS_PER_S;
        bool is_cron = a->kind == TRANSFER_CRON;
        if (is_behind)
                first_ms += is_cron ? MS_PER_S : a->every_s * MS_PER_S;
        cli_request_init(req, "SCHEDULE");
        cli_request_add_str(req, it->name);
        cli_request_add(req, a->hook);
        cli_request_add(req, a->args);
        cli_request_add_str(req, is_cron ? "CRON" : "EVERY");
        if (is_cron)
                cli_request_add_str(req, a->cron);
        else
                cli_request_add_int(req, a->every_s * MS_PER_S);
        cli_request_add_str(req, "FIRST");
        cli_request_add_int(req, first_ms);
        cli_request_add_str(req, "MISSED");
        cli_request_add_str(req, "one");
        put_options(m, req, it);
}

/* "shop:hook", and a part of the digest of its args and group where it has some. */
static void name_schedule(const struct moving *m, struct item *it)
{
        const struct transfer_action *a = &it->action;
        const struct slice parts[] = {a->args, a->group};
        char digest[DIGEST_TEXT];
        struct buf name CLEANUP(buf_release) = {0};
        buf_printf(&name, "%s:", m->site->name);
        buf_put_slice(&name, a->hook);
        digest_text(parts, ARRAY_LEN(parts), digest);
        if (!slice_eq(a->args, SLICE_LIT("[]")) || a->group.len)
                buf_printf(&name, ":%.*s", HASH_CHARS, digest);
        (void)snprintf(it->name, sizeof(it->name), "%s", buf_cstr(&name));
}

/* ---- jobs ---- */

/* Jobs that a schedule made have its mark too. */
static bool is_job_of(const struct value *job, const struct item *it)
{
        const struct value *options = value_get(job, "options");
        return field_is(options, "key", it->mark) && !field_text(options, "schedule").len;
}

/* The job of this mark, live or from history; 0: there is none. */
static int find_job(struct moving *m, const struct item *it, int64_t *ret, struct problem *problem)
{
        struct buf cursor CLEANUP(buf_release) = {0};
        *ret = 0;
        do {
                struct cli_request req;
                const struct value *v;
                cli_request_init(&req, "JOBS");
                cli_request_add_str(&req, "HOOK");
                cli_request_add(&req, it->action.hook);
                cli_request_add_page(&req, JOBS_OF_PAGE, buf_slice(&cursor));
                int r = client_call(&m->client, req.argv, req.argc, &v, problem);
                if (r != OK) /* a hook that weir refuses has no jobs */
                        return is_its_own_fault(r) ? OK : r;
                const struct value *jobs = value_get(v, "jobs");
                for (size_t i = 0; i < list_len(jobs); i++)
                        if (is_job_of(&jobs->items[i], it))
                                *ret = field_int(&jobs->items[i], "id");
                buf_clear(&cursor);
                buf_put_slice(&cursor, field_text(v, "cursor"));
        } while (!*ret && cursor.len);
        return OK;
}

static int enqueue(struct moving *m, struct item *it, struct problem *problem)
{
        struct cli_request req;
        struct buf unique CLEANUP(buf_release) = {0};
        const struct value *v;
        put_job(m, &req, it, &unique);
        int r = client_call(&m->client, req.argv, req.argc, &v, problem);
        if (r == OK)
                it->job = value_int(v, 0);
        return r;
}

static bool is_known(const struct item *it)
{
        return it->action.taken_s < KNOWN_S;
}

/* After an answer to ENQUEUE.  ERR_STATE: the key was used for a request with other options, so
 * there is or was a job, whose id is 0 when it is gone. */
static int settle(struct moving *m, struct item *it, int answered, struct problem *problem)
{
        return answered == ERR_STATE ? find_job(m, it, &it->job, problem) : answered;
}

/* The key of an action that has been on its way for long may be forgotten. */
static int enqueue_once(struct moving *m, struct item *it, struct problem *problem)
{
        int r = is_known(it) ? OK : find_job(m, it, &it->job, problem);
        if (r != OK || it->job)
                return r;
        return settle(m, it, enqueue(m, it, problem), problem);
}

static bool is_sent_at_once(const struct item *it)
{
        return !it->action.why && !is_recurring(&it->action) && is_known(it);
}

/* All requests are on their way at once; the answers come in their order. */
static int enqueue_all(struct importing *x, struct problem *problem)
{
        struct moving *m = x->m;
        for (size_t i = 0; i < x->n; i++) {
                struct cli_request req;
                struct buf unique CLEANUP(buf_release) = {0};
                if (!is_sent_at_once(&x->items[i]))
                        continue;
                put_job(m, &req, &x->items[i], &unique);
                int r = client_send(&m->client, req.argv, req.argc, problem);
                if (r != OK)
                        return r;
        }
        for (size_t i = 0; i < x->n; i++) {
                struct item *it = &x->items[i];
                const struct value *v;
                if (!is_sent_at_once(it))
                        continue;
                it->result = client_receive(&m->client, &v, &it->problem);
                if (is_lost(it->result)) {
                        *problem = it->problem;
                        return it->result;
                }
                if (it->result == OK)
                        it->job = value_int(v, 0);
        }
        return OK;
}

/* ---- schedules ---- */

/* The first slot of the schedule of this action; 0: it is not there.  ERR_CONFLICT: the name has
 * one of another action. */
static int find_schedule(struct moving *m, struct item *it, int64_t *ret, struct problem *problem)
{
        const struct slice words[] = {SLICE_LIT("SCHEDULED"), slice_str(it->name)};
        const struct value *v;
        int r = client_call(&m->client, words, ARRAY_LEN(words), &v, problem);
        *ret = 0;
        if (r == ERR_NOTFOUND)
                return OK;
        if (r == OK && !field_is(v, "key", it->mark))
                return problem_set(problem, ERR_CONFLICT,
                                   "another schedule has the same hook, args and group");
        if (r == OK)
                *ret = field_int(v, "first_ms");
        return r;
}

static int set_schedule(struct moving *m, struct item *it, struct problem *problem)
{
        struct cli_request req;
        const struct value *v;
        int64_t date_ms = it->action.date_s * MS_PER_S, first_ms = 0;
        bool is_near = date_ms <= clock_wall_ms() + NEAR_MS;
        it->is_schedule = true;
        name_schedule(m, it);
        int r = find_schedule(m, it, &first_ms, problem);
        if (r == OK && first_ms) {
                is_near = first_ms != date_ms;
        } else if (r == OK) {
                put_schedule(m, &req, it, is_near);
                r = client_call(&m->client, req.argv, req.argc, &v, problem);
        }
        if (r != OK || !is_near)
                return r;
        r = enqueue_once(m, it, problem);
        it->is_half = r != OK;
        return r;
}

/* ---- a batch ---- */

static int make_apart(struct moving *m, struct item *it, struct problem *problem)
{
        const struct transfer_action *a = &it->action;
        if (is_sent_at_once(it))
                it->result = settle(m, it, it->result, &it->problem);
        else if (a->why)
                it->result = problem_set(&it->problem, ERR_BADARG, "it has %s",
                                         transfer_why_text(a->why));
        else if (is_recurring(a))
                it->result = set_schedule(m, it, &it->problem);
        else
                it->result = enqueue_once(m, it, &it->problem);
        if (!is_lost(it->result) && !it->is_half)
                return OK;
        *problem = it->problem;
        return it->result;
}

static void end_item(struct item *it, struct transfer_end *ret)
{
        *ret = (struct transfer_end){
                .id = it->action.id, .is_back = it->result != OK, .line = it->line};
        if (it->result != OK)
                (void)snprintf(it->line, sizeof(it->line), "weir: given back: %s",
                               it->problem.detail);
        else if (it->is_schedule)
                (void)snprintf(it->line, sizeof(it->line), "weir: moved to weir as schedule %s",
                               SHOWN_STR(it->name));
        else if (!it->job)
                (void)snprintf(it->line, sizeof(it->line),
                               "weir: moved to weir; its job has ended there");
        else
                (void)snprintf(it->line, sizeof(it->line), "weir: moved to weir as job %lld",
                               (long long)it->job);
}

static void count_item(struct moving *m, const struct item *it)
{
        if (it->result != OK) {
                moving_leave(m, "action", it->action.id, slice_str(it->problem.detail));
                return;
        }
        m->jobs += !it->is_schedule;
        m->schedules += it->is_schedule;
        tally_add(&m->hooks, it->action.hook, "");
}

static int make_batch(struct importing *x, struct problem *problem)
{
        struct moving *m = x->m;
        struct transfer_end ends[TRANSFER_ROWS];
        struct problem first = {0};
        int r = enqueue_all(x, problem), stop = OK;
        for (size_t i = 0; i < x->n && r == OK; i++)
                r = make_apart(m, &x->items[i], problem);
        for (size_t i = 0; i < x->n && r == OK; i++) {
                struct item *it = &x->items[i];
                end_item(it, &ends[i]);
                if (it->result != OK && !is_its_own_fault(it->result) && stop == OK) {
                        stop = it->result;
                        first = it->problem;
                }
        }
        if (r == OK)
                r = transfer_finish(&m->transfer, ends, x->n, problem);
        for (size_t i = 0; i < x->n && r == OK; i++)
                count_item(m, &x->items[i]);
        if (r == OK && stop != OK) {
                *problem = first;
                return stop;
        }
        return r;
}

/* Everything that is on its way, also from an import that was interrupted. */
static int make_taken(struct importing *x, struct problem *problem)
{
        for (;;) {
                int r = transfer_read_taken(&x->m->transfer, &x->rows, problem);
                if (r != OK)
                        return r;
                x->n = 0;
                while (x->n < TRANSFER_ROWS && transfer_next(&x->rows, &x->items[x->n].action)) {
                        struct item *it = &x->items[x->n++];
                        *it = (struct item){.action = it->action};
                        make_mark(x->m, it);
                }
                if (!x->n)
                        return OK;
                r = make_batch(x, problem);
                if (r != OK)
                        return r;
        }
}

/* ---- the whole ---- */

static void count_dry(struct moving *m, const struct transfer_action *a)
{
        m->jobs += !is_recurring(a);
        m->schedules += is_recurring(a);
        tally_add(&m->hooks, a->hook, "");
}

static int move_ids(struct importing *x, const uint64_t *ids, size_t n, struct problem *problem)
{
        struct moving *m = x->m;
        struct mysql_result rows CLEANUP(mysql_result_release) = {0};
        struct transfer_action a;
        uint64_t taken[TRANSFER_ROWS];
        size_t n_taken = 0;
        if (!n)
                return OK;
        int r = transfer_read(&m->store, ids, n, &rows, problem);
        while (r == OK && transfer_next(&rows, &a)) {
                if (a.why)
                        moving_leave(m, "action", a.id, slice_str(transfer_why_text(a.why)));
                else if (m->is_dry)
                        count_dry(m, &a);
                else
                        taken[n_taken++] = a.id;
        }
        if (r == OK)
                r = transfer_take(&m->transfer, taken, n_taken, problem);
        return r == OK && n_taken ? make_taken(x, problem) : r;
}

static bool is_enough(const struct moving *m, size_t n_more)
{
        return m->jobs + m->schedules + n_more >= m->limit;
}

/* rows: of transfer_walk(). */
static int move_rows(struct importing *x, struct mysql_result *rows, uint64_t *at,
                     struct problem *problem)
{
        struct slice cells[2];
        uint64_t ids[TRANSFER_ROWS], id;
        size_t n = 0;
        int r = OK;
        while (r == OK && !is_enough(x->m, 0) && mysql_result_next(rows, cells, 2)) {
                if (!slice_to_u64(cells[0], &id))
                        continue;
                *at = id > *at ? id : *at;
                if (!moving_wants(x->m, cells[1]))
                        continue;
                ids[n++] = id;
                if (n < TRANSFER_ROWS && !is_enough(x->m, n))
                        continue;
                r = move_ids(x, ids, n, problem);
                n = 0;
        }
        return r == OK ? move_ids(x, ids, n, problem) : r;
}

static int move_all(struct importing *x, struct problem *problem)
{
        uint64_t at = 0;
        bool is_end = false;
        int r = x->m->is_dry ? OK : make_taken(x, problem);
        while (r == OK && !is_end && !is_enough(x->m, 0)) {
                struct mysql_result rows CLEANUP(mysql_result_release) = {0};
                r = transfer_walk(&x->m->store, &at, &rows, &is_end, problem);
                if (r == OK)
                        r = move_rows(x, &rows, &at, problem);
        }
        return r;
}

int moving_import(struct moving *m, struct problem *problem)
{
        struct importing x = {.m = m, .items = xcalloc(TRANSFER_ROWS, sizeof(*x.items))};
        int r = move_all(&x, problem);
        mysql_result_release(&x.rows);
        free(x.items);
        return r;
}
