/* AUDIT: a page of the audit trail (core/audit.h), of what the log still holds and of history.
 *
 * Entries move from the log to history while weir runs.  Those of the log are copied when history
 * is asked, so that one that moves meanwhile is in the copy, or in history's answer, or in both; a
 * number is told once. */
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "core/audit.h"
#include "core/kernel.h"
#include "state/audit.h"

#define LIMIT_DEFAULT 50
/* The longest page of the longest entries, twice: of the log and of history. */
#define PAGE_BYTES (16 * MIB)

struct review {
        struct session_wait base;
        struct archive_audits query;
        struct audit_entry *live; /* of the log, newest first; in the arena of the query */
        size_t n_live;
        char texts[3][LIMIT_NAME_BYTES]; /* of the filter */
};

static struct slice keep(char *room, const struct arg *arg)
{
        size_t len = arg->text.len < LIMIT_NAME_BYTES ? arg->text.len : LIMIT_NAME_BYTES;
        if (!arg->is_set || !len)
                return SLICE_NONE;
        memcpy(room, arg->text.ptr, len);
        return slice_make(room, len);
}

static void set_query(struct review *w, const struct command *cmd)
{
        const struct arg *arg = cmd->arg;
        w->query = (struct archive_audits){
                .before =
                        arg[P_AUDIT_BEFORE].is_set ? (uint64_t)arg[P_AUDIT_BEFORE].num : INT64_MAX,
                .since_ms = arg[P_AUDIT_SINCE].num,
                .until_ms = arg[P_AUDIT_UNTIL].num,
                .who = keep(w->texts[0], &arg[P_AUDIT_WHO]),
                .command = keep(w->texts[1], &arg[P_AUDIT_COMMAND]),
                .match = keep(w->texts[2], &arg[P_AUDIT_MATCH]),
                .limit = arg[P_AUDIT_LIMIT].is_set ? (size_t)arg[P_AUDIT_LIMIT].num : LIMIT_DEFAULT,
        };
        arena_init(&w->query.arena, PAGE_BYTES);
}

/* False: no memory. */
static bool copy_live(const struct core *core, struct review *w)
{
        struct archive_audits *q = &w->query;
        const struct list *all = &core->state.audits;
        w->live = arena_array(&q->arena, q->limit, sizeof(*w->live));
        if (!w->live)
                return false;
        for (struct list *it = all->prev; it != all && w->n_live < q->limit; it = it->prev) {
                const struct audit *a = audit_of_link(it);
                if (!archive_audits_want(q, &a->is))
                        continue;
                struct audit_entry *to = &w->live[w->n_live++];
                struct slice *const texts[] = {&to->who,    &to->role,    &to->address,
                                               &to->door,   &to->command, &to->what,
                                               &to->before, &to->after,   &to->reason};
                *to = a->is;
                for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                        *texts[i] = arena_copy(&q->arena, *texts[i]);
                        if (!texts[i]->ptr)
                                return false;
                }
        }
        return true;
}

/* ---- telling ---- */

/* Both lists as one, the largest number first; what the log has comes before the same of history.
 */
struct merge {
        const struct review *w;
        size_t live, row;
        uint64_t down_to; /* history looked no further */
};

static const struct audit_entry *next_entry(struct merge *m)
{
        const struct archive_audits *q = &m->w->query;
        const struct audit_entry *a = m->live < m->w->n_live ? &m->w->live[m->live] : NULL;
        const struct audit_entry *b = m->row < q->n_rows ? &q->rows[m->row] : NULL;
        if (a && b && a->number == b->number)
                m->row++;
        if (a && (!b || a->number >= b->number)) {
                m->live++;
                return a->number >= m->down_to ? a : NULL;
        }
        m->row += b != NULL;
        return b;
}

static void tell_entry(struct reply *reply, const struct audit_entry *e)
{
        const struct audit_entry_reply told = {
                .number = (int64_t)e->number,
                .at_ms = e->at_ms,
                .who = e->who,
                .role = e->role,
                .address = e->address,
                .door = e->door,
                .command = e->command,
                .what = e->what,
                .before = e->before,
                .after = e->after,
                .reason = e->reason,
                .times = (int64_t)e->times,
        };
        reply_audit_entry(reply, &told);
}

static void tell_entries(struct reply *reply, const struct reply_items *items)
{
        struct merge m = *(const struct merge *)items->of;
        for (size_t i = 0; i < items->n; i++)
                tell_entry(reply, next_entry(&m));
}

static void tell_page(const struct core *core, struct reply *reply, const struct review *w,
                      const char *problem)
{
        const struct archive_audits *q = &w->query;
        const struct audit_entry *e;
        struct merge first = {.w = w, .down_to = q->is_cut ? q->last : 0};
        struct merge m = first;
        char cursor[AUDIT_NUMBER_BYTES] = "";
        size_t n = 0;
        uint64_t last = 0;
        while (n < q->limit && (e = next_entry(&m))) {
                last = e->number;
                n++;
        }
        if (n < q->limit && q->is_cut)
                last = q->last;
        if (last > 1 && (n == q->limit || q->is_cut))
                (void)audit_name(last, cursor);
        const struct audit_reply told = {
                .entries = {n, tell_entries, core, &first}, .cursor = cursor, .problem = problem};
        reply_audit(reply, &told);
}

static void review_free(struct review *w)
{
        arena_release(&w->query.arena);
        free(w);
}

static void on_answer(struct archive_audits *q)
{
        struct review *w = q->ctx;
        struct session *session = w->base.session;
        const char *problem = "";
        if (q->err)
                problem = "history cannot be read: what is older is missing";
        else if (q->n_damaged)
                problem = "entries in history are damaged and left out: weir history verify";
        if (session) {
                wait_end(w->base.core, &w->base);
                tell_page(w->base.core, session->ops->reply_begin(session), w, problem);
                session->ops->reply_end(session);
        }
        review_free(w);
}

static void cancel(struct core *core, struct session_wait *wait)
{
        wait_end(core, wait); /* the archive has it, and on_answer() frees it */
}

static const struct wait_ops review_ops = {.cancel = cancel};

int exec_audit(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        struct archive *archive = core->options.archive;
        struct review *w = xcalloc(1, sizeof(*w));
        set_query(w, cmd);
        if (!copy_live(core, w)) {
                review_free(w);
                return problem_set(problem, ERR_NOMEM, "no memory for a page of the audit trail");
        }
        if (!archive || !archive->ops->audits) {
                tell_page(core, reply, w, "there is no history: what is older is not known");
                review_free(w);
                return OK;
        }
        w->query.done = on_answer;
        w->query.ctx = w;
        wait_begin(core, &w->base, &review_ops, session);
        archive->ops->audits(archive, &w->query);
        return CORE_LATER;
}
