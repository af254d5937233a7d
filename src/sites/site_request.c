/* Commands that the thread of the site answers from its database: actions, one action, and locks.
 *
 * A request belongs to the guard from request() until it calls done(), which answers the client, if
 * it is still there, and frees the request. */
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/say.h"
#include "base/shown.h"
#include "sites/sites_state.h"

#define ASK_BYTES  (8 * MIB) /* of one answer */
#define WHY_MAX    512       /* a reason (SITE_TEXT) and what it means */
#define LOCKS_TOLD 1000

struct site_ask {
        struct session_wait base;
        struct site_request request;
        char site[SITE_NAME_MAX + 1];
        bool is_moved_list;
        uint64_t next_moved; /* of a list of moved actions: cursor of its next page; 0: none */
};

/* ---- answers ---- */

/* Where the action is shown in WordPress; "" when the address of the site is not known. */
static void put_link(const struct site *s, const struct site_action *a, char *ret, size_t size)
{
        static const char digits[] = "0123456789ABCDEF";
        int n = snprintf(ret, size,
                         "%stools.php?page=action-scheduler&status=%.*s&s=", s->survey.url,
                         (int)a->status.len, a->status.ptr);
        ret[s->survey.url[0] ? n : 0] = '\0';
        for (size_t i = 0; s->survey.url[0] && i < a->hook.len && (size_t)n + 4 < size; i++) {
                unsigned char c = (unsigned char)a->hook.ptr[i];
                bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
                if (is_plain) {
                        ret[n++] = (char)c;
                } else {
                        ret[n++] = '%';
                        ret[n++] = digits[c >> 4];
                        ret[n++] = digits[c & 15];
                }
                ret[n] = '\0';
        }
}

/* Which of the actions weir has moved, and from where.  The caller frees it. */
static struct moved_ask *find_moved(const struct core *core, const struct site *s,
                                    const struct site_request *q)
{
        struct moved_ask *asks = xcalloc(q->n_actions + 1, sizeof(*asks));
        for (size_t i = 0; i < q->n_actions; i++) {
                const struct site_action *a = &q->actions[i];
                bool is_pending = slice_eq(a->status, SLICE_LIT("pending"));
                asks[i] = (struct moved_ask){.id = a->id,
                                             .hook = a->hook,
                                             .date_s = is_pending ? a->scheduled_s : INT64_MIN};
        }
        moved_find(&core->state, slice_str(s->name), asks, q->n_actions);
        return asks;
}

#define LINK_MAX 1024

/* moved: NULL: weir has not moved it. */
static struct site_action_reply action_row(struct core *core, const struct site *s,
                                           const struct site_action *a,
                                           const struct moved_ask *moved, char link[LINK_MAX])
{
        enum tier tier;
        int64_t original_s = a->original_s ? a->original_s : a->scheduled_s;
        (void)site_decide(core, s, a->hook, &tier);
        if (moved)
                original_s = moved->original_s;
        put_link(s, a, link, LINK_MAX);
        return (struct site_action_reply){
                .id = (int64_t)a->id,
                .hook = a->hook,
                .status = a->status,
                .tier = tier_name(tier),
                .group = a->group,
                .args = a->args,
                .schedule = a->schedule,
                .priority = a->priority,
                .attempts = a->attempts,
                .claim = (int64_t)a->claim,
                .scheduled_ms = a->scheduled_s * MS_PER_S,
                .original_ms = original_s * MS_PER_S,
                .last_attempt_ms = a->last_attempt_s * MS_PER_S,
                .moved = moved != NULL,
                .url = link,
        };
}

static void tell_actions(struct reply *reply, const struct reply_items *items)
{
        const struct site_ask *ask = items->of;
        const struct site_request *q = &ask->request;
        struct core *core = ask->base.core;
        const struct site *s = site_by_name(core, slice_str(ask->site));
        struct moved_ask *asks = find_moved(core, s, q);
        for (size_t i = 0; i < q->n_actions; i++) {
                const struct site_action *a = &q->actions[i];
                char link[LINK_MAX];
                struct site_action_reply row = action_row(
                        core, s, a, moved_answer(asks, q->n_actions, a->hook, a->id), link);
                reply_site_action(reply, &row);
        }
        free(asks);
}

static void tell_page(const struct site_ask *ask, struct reply *reply)
{
        const struct site_request *q = &ask->request;
        char cursor[24] = "";
        if (ask->is_moved_list && ask->next_moved)
                (void)say_i64(cursor, (int64_t)ask->next_moved);
        else if (!ask->is_moved_list && q->has_more && q->n_actions)
                (void)say_i64(cursor, (int64_t)q->next_id);
        const struct site_actions_reply told = {
                .actions = {q->n_actions, tell_actions, ask->base.core, ask}, .cursor = cursor};
        reply_site_actions(reply, &told);
}

static void tell_lines(struct reply *reply, const struct reply_items *items)
{
        const struct site_request *q = items->of;
        for (size_t i = 0; i < q->n_lines; i++) {
                const struct site_log_line_reply told = {q->lines[i].at_s * MS_PER_S,
                                                         q->lines[i].message};
                reply_site_log_line(reply, &told);
        }
}

static void explain(struct core *core, const struct site *s, const struct site_action *a,
                    bool is_moved, char ret[WHY_MAX])
{
        char reason[SITE_TEXT];
        enum tier tier;
        int64_t now_s = s->survey.now_s;
        struct gate_answer answer = site_decide(core, s, a->hook, &tier);
        bool is_waiting = answer.would_wait && site_mode(core, s) == MODE_ENFORCE;
        site_put_reason(core, s, reason);
        if (!slice_eq(a->status, SLICE_LIT("pending")))
                (void)snprintf(ret, WHY_MAX, "it is %.*s: it waits for nothing", (int)a->status.len,
                               a->status.ptr);
        else if (a->claim)
                (void)snprintf(ret, WHY_MAX, "a runner has claimed it (claim %llu)",
                               (unsigned long long)a->claim);
        else if (is_moved)
                (void)snprintf(ret, WHY_MAX,
                               is_waiting ? "weir moved it: %s; its tier is %s"
                                          : "weir moved it, and it returns when those before it "
                                            "have run: %s; its tier is %s",
                               reason, tier_name(tier));
        else if (a->scheduled_s > now_s)
                (void)snprintf(ret, WHY_MAX, "it is not due yet");
        else if (is_waiting)
                (void)snprintf(ret, WHY_MAX, "it is due; weir moves it at its next cycle: %s",
                               reason);
        else
                (void)snprintf(ret, WHY_MAX, "it is due and waits for a runner");
}

static void tell_why(struct site_ask *ask, struct reply *reply)
{
        const struct site_request *q = &ask->request;
        struct core *core = ask->base.core;
        const struct site *s = site_by_name(core, slice_str(ask->site));
        const struct site_action *a = &q->actions[0];
        char link[LINK_MAX], why[WHY_MAX];
        struct moved_ask *asks = find_moved(core, s, q);
        const struct moved_ask *moved = moved_answer(asks, q->n_actions, a->hook, a->id);
        explain(core, s, a, moved != NULL, why);
        const struct site_why_reply told = {
                .action = action_row(core, s, a, moved, link),
                .why = why,
                .log = {q->n_lines, tell_lines, core, q},
        };
        reply_site_why(reply, &told);
        free(asks);
}

/* Held ones come first; the rows of the others are kept for their fences. */
static size_t count_held(const struct site_request *q)
{
        size_t n = 0;
        while (n < q->n_locks && q->locks[n].expires_s)
                n++;
        return n;
}

static void tell_locks(struct reply *reply, const struct reply_items *items)
{
        const struct site_request *q = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct site_lock *l = &q->locks[i];
                const struct site_lock_reply told = {l->key, (int64_t)l->fence,
                                                     l->expires_s * MS_PER_S};
                reply_site_lock(reply, &told);
        }
}

static void tell_lock(const struct site_request *q, struct reply *reply)
{
        const struct site_lock *l = q->n_locks ? &q->locks[0] : &(struct site_lock){0};
        const struct site_lock_taken_reply told = {
                .acquired = q->is_granted,
                .token = q->is_granted ? l->token : SLICE_NONE,
                .fence = (int64_t)l->fence,
                .expires_ms = l->expires_s * MS_PER_S,
        };
        reply_site_lock_taken(reply, &told);
}

/* ---- the report ---- */

static void tell_tables(struct reply *reply, const struct reply_items *items)
{
        const struct site_report *v = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct site_table_size *t = &v->tables[i];
                const struct site_table_reply told = {t->name, (int64_t)t->rows, (int64_t)t->bytes};
                reply_site_table(reply, &told);
        }
}

static void tell_figures(struct reply *reply, const struct reply_items *items)
{
        const struct site_figure *figures = items->of;
        for (size_t i = 0; i < items->n; i++) {
                const struct site_figure *f = &figures[i];
                const struct site_figure_reply told = {.name = f->name,
                                                       .count = (int64_t)f->count,
                                                       .estimate = f->is_estimate,
                                                       .seconds = f->seconds};
                reply_site_figure(reply, &told);
        }
}

static void tell_report(const struct site_ask *ask, struct reply *reply)
{
        const struct core *core = ask->base.core;
        const struct site *s = site_by_name(core, slice_str(ask->site));
        const struct site_report *v = ask->request.report;
        struct reply_items lists[SITE_LISTS];
        for (size_t i = 0; i < SITE_LISTS; i++)
                lists[i] = (struct reply_items){v->n[i], tell_figures, core, v->lists[i]};
        const struct site_report_reply told = {
                .tables = {SITE_TABLES, tell_tables, core, v},
                .statuses = lists[SITE_STATUSES],
                .days = lists[SITE_DAYS],
                .pending = lists[SITE_PENDING],
                .created = lists[SITE_CREATED],
                .failed = lists[SITE_FAILED],
                .past_due = lists[SITE_PAST_DUE],
                .slowest = lists[SITE_SLOWEST],
                .past = (int64_t)v->past,
                .past_lines = (int64_t)v->past_lines,
                .past_bytes = (int64_t)v->past_bytes,
                .past_estimate = v->is_past_estimate,
                .finished_per_day = (int64_t)v->finished_per_day,
                .deleted_per_second = (int64_t)v->deleted_per_s,
                .duplicates = s->faults[REPAIR_DUPLICATES].found,
                .advice = site_advice_items(core, s),
        };
        reply_site_report(reply, &told);
}

static void tell(struct site_ask *ask, struct reply *reply)
{
        struct site_request *q = &ask->request;
        struct problem problem = q->problem;
        if (q->err == OK && !site_by_name(ask->base.core, slice_str(ask->site)))
                q->err = problem_set(&problem, ERR_NOTFOUND, "the site was removed");
        if (q->err == OK && q->kind == REQUEST_ACTION && !q->n_actions)
                q->err = problem_set(&problem, ERR_NOTFOUND, "there is no action %llu",
                                     (unsigned long long)q->id);
        if (q->err == OK && q->kind == REQUEST_REPORT && !q->report)
                q->err = problem_set(&problem, ERR_INTERNAL, "the guard made no report");
        if (q->err != OK) {
                reply_error(reply, &problem);
                return;
        }
        switch (q->kind) {
        case REQUEST_ACTIONS:
                tell_page(ask, reply);
                break;
        case REQUEST_ACTION:
                tell_why(ask, reply);
                break;
        case REQUEST_LOCKS: {
                const struct site_locks_reply told = {
                        .locks = {count_held(q), tell_locks, ask->base.core, q}};
                reply_site_locks(reply, &told);
                break;
        }
        case REQUEST_REPORT:
                tell_report(ask, reply);
                break;
        case REQUEST_LOCK:
                tell_lock(q, reply);
                break;
        case REQUEST_UNLOCK: {
                const struct site_unlocked_reply told = {.released = q->is_granted};
                reply_site_unlocked(reply, &told);
                break;
        }
        }
}

static void ask_free(struct site_ask *ask)
{
        arena_release(&ask->request.arena);
        free(ask);
}

static void ask_done(struct site_request *q)
{
        struct site_ask *ask = q->ctx;
        struct session *session = ask->base.session;
        if (session) {
                wait_end(ask->base.core, &ask->base);
                tell(ask, session->ops->reply_begin(session));
                session->ops->reply_end(session);
        }
        ask_free(ask);
}

/* ---- questions ---- */

static void ask_cancel(struct core *core, struct session_wait *w)
{
        wait_end(core, w); /* the guard has it, and ask_done() frees it */
}

static const struct wait_ops ask_wait_ops = {.cancel = ask_cancel};

static struct site_ask *ask_new(enum site_request_kind kind, const struct site *s)
{
        struct site_ask *ask = xcalloc(1, sizeof(*ask));
        (void)snprintf(ask->site, sizeof(ask->site), "%s", s->name);
        ask->request.kind = kind;
        ask->request.done = ask_done;
        ask->request.ctx = ask;
        arena_init(&ask->request.arena, ASK_BYTES);
        return ask;
}

/* A copy that lives as long as the request; cannot fail for what a command holds. */
static struct slice keep(struct site_ask *ask, struct slice text)
{
        struct slice copy = arena_copy(&ask->request.arena, text);
        ASSERT(copy.ptr || !text.len);
        return copy;
}

static int ask_guard(struct core *core, struct session *session, struct site_ask *ask,
                     struct problem *problem)
{
        const struct sites_guard *guard = &core->sites->guard;
        wait_begin(core, &ask->base, &ask_wait_ops, session);
        if (guard->request && guard->request(guard->ctx, slice_str(ask->site), &ask->request))
                return CORE_LATER;
        wait_end(core, &ask->base);
        ask_free(ask);
        return problem_set(problem, ERR_UNAVAIL,
                           "the site is off: its mode is off, or weir is stopping");
}

/* Where a row of a batch is in the list of moved actions: newest batches, and in them the newest
 * originals, first.  Stays true when others come and go. */
#define PLACES (SITE_ROWS_MAX + 1)

struct numbered {
        uint64_t number;
        const struct moved *batch;
};

static int newest_first(const void *a, const void *b)
{
        uint64_t x = ((const struct numbered *)a)->number;
        uint64_t y = ((const struct numbered *)b)->number;
        return (x < y) - (x > y);
}

/* The caller frees it. */
static struct numbered *sort_batches(const struct core *core, const struct site *s,
                                     struct slice hook, size_t *ret_n)
{
        size_t n = 0;
        struct numbered *all = xcalloc(core->state.things[THING_MOVED].len + 1, sizeof(*all));
        for (const struct moved_hook *h = NULL; (h = site_next_hook(core, s, h));) {
                if (hook.len && !slice_eq(hook, h->hook))
                        continue;
                LIST_FOREACH(&h->batches, it)
                {
                        const struct moved *m = moved_of_link(it);
                        all[n++] = (struct numbered){m->number, m};
                }
        }
        qsort(all, n, sizeof(*all), newest_first);
        *ret_n = n;
        return all;
}

/* The ids of a page of moved actions.  from: the cursor; 0: the first page. */
static void take_moved(const struct core *core, const struct site *s, uint64_t from,
                       struct site_ask *ask)
{
        struct site_request *q = &ask->request;
        uint64_t *ids = arena_array(&q->arena, q->limit, sizeof(*ids));
        size_t n;
        struct numbered *all = sort_batches(core, s, q->hook, &n);
        ASSERT(ids);
        q->ids = ids;
        for (size_t i = 0; i < n && !ask->next_moved; i++) {
                struct site_row rows[SITE_ROWS_MAX], row = {0};
                struct reader r = reader_make(all[i].batch->values.rows);
                size_t left = 0;
                if (from && all[i].number * PLACES > from)
                        continue;
                while (moved_next(&r, &row))
                        rows[left++] = row;
                for (; left && !ask->next_moved; left--) {
                        uint64_t place = all[i].number * PLACES + left;
                        if (from && place > from)
                                continue;
                        if (q->n_ids == q->limit)
                                ask->next_moved = place;
                        else
                                ids[q->n_ids++] = rows[left - 1].id;
                }
        }
        free(all);
}

int exec_siteactions(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)reply; /* the guard's thread answers */
        static const char *const statuses[] = {
                "pending", "due", "in-progress", "complete", "failed", "canceled", ""};
        const struct arg *arg = cmd->arg;
        const struct site *s = site_need(core, arg[P_SITEACTIONS_NAME].text, problem);
        if (!s)
                return problem->err;
        struct site_ask *ask = ask_new(REQUEST_ACTIONS, s);
        struct site_request *q = &ask->request;
        const struct arg *status = &arg[P_SITEACTIONS_STATUS], *limit = &arg[P_SITEACTIONS_LIMIT];
        q->limit = limit->is_set ? (uint32_t)limit->num : 50;
        q->hook = keep(ask, arg[P_SITEACTIONS_HOOK].text);
        if (status->is_set)
                q->status = slice_str(statuses[status->num]);
        ask->is_moved_list = status->is_set && !q->status.len;
        if (ask->is_moved_list)
                take_moved(core, s, (uint64_t)arg[P_SITEACTIONS_CURSOR].num, ask);
        else
                q->id = (uint64_t)arg[P_SITEACTIONS_CURSOR].num;
        return ask_guard(core, session, ask, problem);
}

int exec_sitewhy(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)reply; /* the guard's thread answers */
        const struct site *s = site_need(core, cmd->arg[P_SITEWHY_NAME].text, problem);
        if (!s)
                return problem->err;
        struct site_ask *ask = ask_new(REQUEST_ACTION, s);
        ask->request.id = (uint64_t)cmd->arg[P_SITEWHY_ID].num;
        return ask_guard(core, session, ask, problem);
}

int exec_sitereport(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)reply; /* the guard's thread answers */
        const struct site *s = site_need(core, cmd->arg[P_SITEREPORT_NAME].text, problem);
        return s ? ask_guard(core, session, ask_new(REQUEST_REPORT, s), problem) : problem->err;
}

int exec_sitelocks(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)reply; /* the guard's thread answers */
        const struct site *s = site_need(core, cmd->arg[P_SITELOCKS_NAME].text, problem);
        if (!s)
                return problem->err;
        struct site_ask *ask = ask_new(REQUEST_LOCKS, s);
        ask->request.limit = LOCKS_TOLD;
        return ask_guard(core, session, ask, problem);
}

static struct slice keep_token(struct site_ask *ask, const uint8_t token[TOKEN_BYTES])
{
        char text[2 * TOKEN_BYTES + 1];
        hex_from_bytes(token, TOKEN_BYTES, text);
        return keep(ask, slice_make(text, sizeof(text) - 1));
}

int exec_sitelock(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)reply; /* the guard's thread answers */
        const struct arg *arg = cmd->arg, *ttl = &arg[P_SITELOCK_TTL];
        const struct site *s = site_need(core, arg[P_SITELOCK_NAME].text, problem);
        if (!s)
                return problem->err;
        struct site_ask *ask = ask_new(REQUEST_LOCK, s);
        uint8_t token[TOKEN_BYTES];
        rng_fill(core->options.rng, token, sizeof(token));
        if (arg[P_SITELOCK_TOKEN].is_set)
                memcpy(token, arg[P_SITELOCK_TOKEN].token, sizeof(token));
        ask->request.key = keep(ask, arg[P_SITELOCK_KEY].text);
        ask->request.ttl_s = ttl->is_set ? ttl->num : 60;
        ask->request.token = keep_token(ask, token);
        return ask_guard(core, session, ask, problem);
}

int exec_siteunlock(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)reply; /* the guard's thread answers */
        const struct arg *arg = cmd->arg, *token = &arg[P_SITEUNLOCK_TOKEN];
        const struct site *s = site_need(core, arg[P_SITEUNLOCK_NAME].text, problem);
        if (!s)
                return problem->err;
        if (!token->is_set && !arg[P_SITEUNLOCK_FORCE].num)
                return problem_set(problem, ERR_BADARG,
                                   "pass the TOKEN of the holder, or FORCE to take the lock away");
        struct site_ask *ask = ask_new(REQUEST_UNLOCK, s);
        ask->request.key = keep(ask, arg[P_SITEUNLOCK_KEY].text);
        ask->request.is_forced = arg[P_SITEUNLOCK_FORCE].num;
        if (token->is_set)
                ask->request.token = keep_token(ask, token->token);
        if (ask->request.is_forced)
                say_info("site", "lock taken away by an operator", "site", s->name, "key",
                         SHOWN(ask->request.key));
        return ask_guard(core, session, ask, problem);
}
