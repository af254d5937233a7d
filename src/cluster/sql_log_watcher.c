/* The watcher: one chore at a time over one connection, each when it is due.
 *
 *      connect -> [find the oldest batch] -> read on, every 20 ms at the tail
 *
 * What a follower has read may turn out not to hold: a server that fails over forgets rows that
 * were not replicated, and other rows may take their numbers.  It notices by these rules, and then
 * starts again from the oldest batch:
 *
 *   (1) the next row has the next number.  If it is missing and a later one is there, the leader
 *       trimmed past this follower
 *   (2) it is of the same leader (epoch and node), or the first row of the next epoch.  A leader
 *       writes the first row of its epoch on top of all it has read, and counts the epoch up by
 *       one; so whatever stands between is noticed
 *   (3) over a new connection, and before it takes the lead, the last row is read once more.  It
 *       must be there, of the same leader
 *
 * The row of an epoch has no content, so it does no harm to have one that was written again by
 * another node. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/say.h"
#include "cluster/ledger_sql.h"
#include "cluster/sql_log_int.h"

static void due_in(struct sql_log *s, enum chore chore, int64_t ms)
{
        s->watcher.at_ns[chore] = s->boot_ns() + ms * NS_PER_MS;
}

void watcher_failed(struct sql_log *s, enum chore chore, const char *what, const struct problem *p)
{
        struct watcher *w = &s->watcher;
        due_in(s, chore, RETRY_MS);
        if (p->err != ERR_STOPPING)
                sql_log_say(s, &w->said_ns, what, w->ledger->ops->where(w->ledger), p);
}

void watcher_forget_place(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        w->has_place = w->is_checked = w->is_at_tail = w->has_pushed = false;
        w->last = (struct ledger_head){0};
        w->closed[0] = '\0';
        w->at_ns[CHORE_READ] = w->at_ns[CHORE_PROMOTE] = 0;
        (void)pthread_mutex_lock(&s->mu);
        s->marks.n = 0;
        s->marks.bytes = 0;
        (void)pthread_mutex_unlock(&s->mu);
}

void watcher_set_role(struct sql_log *s, enum role role)
{
        struct watcher *w = &s->watcher;
        w->role = role;
        w->expired_ns = w->same_ns = 0;
        w->is_verified = false;
        /* In a claim the last row is read once more, and the tail is looked for. */
        w->is_checked = w->is_at_tail = false;
        w->n_unsafe = 0;
        w->at_ns[CHORE_READ] = w->at_ns[CHORE_PROMOTE] = 0;
        due_in(s, CHORE_LOOK, LOOK_EVERY_MS);
        if (role == ROLE_LEAD)
                due_in(s, CHORE_VERIFY, SECOND_MS);
}

/* ---- reading ---- */

static bool is_same_row(const struct ledger_head *a, const struct ledger_head *b)
{
        return a->seq == b->seq && a->epoch == b->epoch && a->kind == b->kind &&
               strcmp(a->node, b->node) == 0;
}

/* Rules 1 and 2. */
static bool follows(const struct watcher *w, const struct ledger_head *h)
{
        if (h->seq != w->next)
                return false;
        if (w->is_first)
                return true;
        if (h->epoch == w->last.epoch && strcmp(h->node, w->last.node) == 0)
                return h->kind != LEDGER_EPOCH;
        return h->kind == LEDGER_EPOCH && h->epoch == w->last.epoch + 1;
}

/* What people are told; the rest is for `weir move`. */
static struct slice first_line(struct slice text)
{
        const char *end = text.len ? memchr(text.ptr, '\n', text.len) : NULL;
        if (end)
                text.len = (size_t)(end - text.ptr);
        return text.len ? text : SLICE_LIT("closed");
}

static void take_row(void *ctx, const struct ledger_head *h, struct slice body)
{
        struct sql_log *s = ctx;
        struct watcher *w = &s->watcher;
        if (w->is_broken || w->is_short)
                return;
        if (!w->is_checked && !w->is_first && w->last.seq) { /* rule 3 */
                w->is_broken = !is_same_row(h, &w->last);
                w->is_checked = !w->is_broken;
                return;
        }
        w->is_broken = !follows(w, h);
        if (w->is_broken)
                return;
        bool is_batch = h->kind == LEDGER_BATCH;
        w->is_short = !sql_log_push_batch(s, h->seq, is_batch ? body : SLICE_NONE);
        if (w->is_short)
                return;
        if (h->kind == LEDGER_CLOSED)
                ledger_text(w->closed, sizeof(w->closed), first_line(body));
        else if (h->kind == LEDGER_OPENED)
                w->closed[0] = '\0';
        w->last = *h;
        w->next = h->seq + 1;
        w->is_first = false;
        w->has_pushed = true;
        w->n_read += body.len + 1;
}

static void restart(struct sql_log *s, const char *why)
{
        struct watcher *w = &s->watcher;
        say_info("cluster", "following the log again from its oldest batch", "reason", why, "batch",
                 SAY_I64(w->next));
        bool is_told = w->has_pushed;
        watcher_forget_place(s);
        if (is_told)
                sql_log_push_restarted(s);
}

/* The oldest batch, or behind the last row when there is none. */
static bool find_place(struct sql_log *s, const struct sql_wait *wait)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        struct ledger_head last;
        if (w->ledger->ops->tail(w->ledger, wait, &last, &w->first, &p) != OK) {
                watcher_failed(s, CHORE_READ, "cannot read the log, trying again", &p);
                return false;
        }
        w->is_first = w->first <= last.seq;
        w->last = last;
        if (w->is_first)
                w->last = (struct ledger_head){0};
        w->next = w->first;
        w->has_place = true;
        w->is_checked = true;
        return true;
}

void watcher_read(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        if (sql_log_is_queue_full(s)) { /* poll() wakes */
                w->at_ns[CHORE_READ] = INT64_MAX;
                due_in(s, CHORE_PROMOTE, RETRY_MS);
                return;
        }
        struct sql_wait wait = sql_log_wait(s, s->watcher_stop_fd, CALL_MS);
        if (!w->is_checked && w->is_first) /* nothing was read yet that could be looked for */
                w->has_place = false;
        if (!w->has_place && !find_place(s, &wait))
                return;
        bool is_checking = !w->is_checked && !w->is_first && w->last.seq;
        w->is_broken = w->is_short = false;
        w->n_read = 0;
        int r = w->ledger->ops->read(w->ledger, is_checking ? w->last.seq : w->next, READ_BYTES,
                                     &wait, take_row, s, &p);
        if (w->n_read)
                sql_log_notify(s);
        /* Rows that came before the connection failed were whole. */
        if (r == ERR_NOTFOUND || w->is_broken || (r == OK && is_checking && !w->is_checked)) {
                restart(s, r == ERR_NOTFOUND ? "the rows that come next were trimmed"
                                             : "a row that was read is not there any more");
                return;
        }
        if (r != OK || w->is_short) {
                if (w->is_short)
                        (void)problem_set(&p, ERR_NOMEM, "no memory for a batch");
                watcher_failed(s, CHORE_READ, "cannot read the log, trying again", &p);
                due_in(s, CHORE_PROMOTE, RETRY_MS);
                return;
        }
        w->is_checked = true;
        if (w->is_first) /* what was there is gone */
                w->has_place = false;
        w->is_at_tail = w->n_read == 0 && !is_checking && !w->is_first;
        due_in(s, CHORE_READ, w->n_read > READ_BYTES || is_checking ? 0 : READ_EVERY_MS);
}

/* ---- the other chores ---- */

static void chore_meet(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct log_member self = {.is_self = true, .priority = s->priority};
        struct log_member members[LOG_MEMBERS_MAX];
        struct problem p = {0};
        size_t n = 0;
        struct sql_wait wait = sql_log_wait(s, s->watcher_stop_fd, CALL_MS);
        memcpy(self.node, s->name, sizeof(self.node));
        memcpy(self.address, s->address, sizeof(self.address));
        (void)pthread_mutex_lock(&s->mu);
        self.is_leader = s->is_leading;
        self.epoch = s->is_leading ? s->epoch : w->last.epoch;
        self.seq = s->polled_seq;
        if (!self.seq && w->has_place && w->is_at_tail && !w->has_pushed)
                self.seq = w->last.seq; /* there is nothing to have */
        self.digest_seq = s->digest_seq;
        self.digest = s->digest;
        (void)pthread_mutex_unlock(&s->mu);
        due_in(s, CHORE_MEET, SECOND_MS);
        if (w->ledger->ops->meet(w->ledger, &self, s->node, &wait, members, LOG_MEMBERS_MAX, &n,
                                 &p) != OK) {
                watcher_failed(s, CHORE_MEET, "cannot meet the other nodes, trying again", &p);
                return;
        }
        (void)pthread_mutex_lock(&s->mu);
        memcpy(s->members, members, n * sizeof(*members));
        s->n_members = n;
        s->met_ns = s->boot_ns();
        /* The others told their last second where they were a second before. */
        s->ready_seq = w->met_seq_before;
        (void)pthread_mutex_unlock(&s->mu);
        w->met_seq_before = w->met_seq;
        w->met_seq = self.seq;
}

/* Less safe than was asked for, twice in a row: what is appended now might be lost. */
static void unsafe(struct sql_log *s, const struct problem *p)
{
        struct watcher *w = &s->watcher;
        sql_log_say(s, &w->said_ns, "the database is not as safe as it must be",
                    w->ledger->ops->where(w->ledger), p);
        if (++w->n_unsafe < 2 || w->role != ROLE_LEAD)
                return;
        lead_lose(s, s->term, p);
}

static void chore_verify(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        struct sql_wait wait = sql_log_wait(s, s->watcher_stop_fd, CALL_MS);
        due_in(s, CHORE_VERIFY, SECOND_MS);
        int r = w->ledger->ops->verify(w->ledger, &wait, &p);
        if (r == OK || r == ERR_UNAVAIL)
                w->n_unsafe = 0;
        if (r == ERR_UNAVAIL) /* as safe as it must be, but commits wait for another server */
                sql_log_say(s, &w->said_ns, "the database cannot write at the moment",
                            w->ledger->ops->where(w->ledger), &p);
        else if (r == ERR_STATE)
                unsafe(s, &p);
        else if (r != OK)
                watcher_failed(s, CHORE_VERIFY, "cannot verify the database, trying again", &p);
}

/* Trimming goes on from where it was, so that rows that were removed and not vacuumed yet are not
 * looked at each time.  A server that fails over may have them back: then it must begin there, or
 * they would stay, with a gap behind them. */
static void chore_trim(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        struct ledger_head last;
        int r = OK;
        (void)pthread_mutex_lock(&s->mu);
        /* Not the row before the batch in flight: its insert, done again, would be refused. */
        uint64_t before = s->trim_before < s->last.seq ? s->trim_before : s->last.seq;
        (void)pthread_mutex_unlock(&s->mu);
        if (!before || (w->is_first_known && w->first >= before)) {
                w->at_ns[CHORE_TRIM] = INT64_MAX; /* trim() wakes */
                return;
        }
        struct sql_wait wait = sql_log_wait(s, s->watcher_stop_fd, CALL_MS);
        w->at_ns[CHORE_TRIM] = 0;
        if (!w->is_first_known)
                r = w->ledger->ops->tail(w->ledger, &wait, &last, &w->first, &p);
        w->is_first_known |= r == OK;
        uint64_t from = w->first;
        if (r == OK && from < before)
                r = w->ledger->ops->trim(w->ledger, &w->first, before, &wait, &p);
        if (w->first == from) /* the newest row stays for now */
                due_in(s, CHORE_TRIM, SECOND_MS);
        if (r != OK) {
                watcher_failed(s, CHORE_TRIM, "cannot trim the log, trying again", &p);
                return;
        }
        (void)pthread_mutex_lock(&s->mu);
        s->retained_bytes = marks_bytes_from(&s->marks, w->first);
        (void)pthread_mutex_unlock(&s->mu);
}

/* ---- steps ---- */

#define IN(role) (1U << (role))
static const struct {
        unsigned roles;
        void (*run)(struct sql_log *s);
} chores[CHORES] = {
        [CHORE_RENEW] = {IN(ROLE_CLAIM) | IN(ROLE_LEAD), chore_renew},
        [CHORE_HAND_OVER] = {IN(ROLE_LEAD), chore_hand_over},
        [CHORE_MEET] = {IN(ROLE_FOLLOW) | IN(ROLE_CLAIM) | IN(ROLE_LEAD), chore_meet},
        [CHORE_VERIFY] = {IN(ROLE_LEAD), chore_verify},
        [CHORE_LOOK] = {IN(ROLE_FOLLOW), chore_look},
        [CHORE_READ] = {IN(ROLE_FOLLOW), watcher_read},
        [CHORE_PROMOTE] = {IN(ROLE_CLAIM), chore_promote},
        [CHORE_TRIM] = {IN(ROLE_LEAD), chore_trim},
};

static void connect_watcher(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        struct sql_wait wait = sql_log_wait(s, s->watcher_stop_fd, CONNECT_MS);
        int r = w->ledger->ops->connect(w->ledger, &wait, &p);
        /* Also when it failed: a server that failed over may have forgotten what was read. */
        w->is_checked = w->is_at_tail = w->is_first_known = false;
        w->expired_ns = w->same_ns = 0;
        if (r == OK) {
                w->said_ns = 0;
                w->n_unsafe = 0;
                for (size_t i = 0; i < CHORES; i++)
                        w->at_ns[i] = 0;
                return;
        }
        w->connect_ns = s->boot_ns() + RETRY_MS * NS_PER_MS;
        if (r == ERR_STATE) {
                w->connect_ns = s->boot_ns() + SECOND_MS * NS_PER_MS;
                unsafe(s, &p);
        } else if (r != ERR_STOPPING) {
                sql_log_say(s, &w->said_ns, "cannot connect to the database, retrying",
                            w->ledger->ops->where(w->ledger), &p);
        }
}

/* The lead may have been lost elsewhere, or by the time that has passed. */
static void watch_lead(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p;
        if (w->role != ROLE_LEAD)
                return;
        (void)pthread_mutex_lock(&s->mu);
        bool is_leading = s->is_leading;
        uint64_t term = s->term;
        (void)pthread_mutex_unlock(&s->mu);
        if (is_leading && s->boot_ns() - w->sent_ns > CUT_OFF_MS * NS_PER_MS) {
                (void)problem_set(&p, ERR_UNAVAIL, "the lease could not be renewed for %d s",
                                  CUT_OFF_MS / 1000);
                lead_lose(s, term, &p);
                is_leading = false;
        }
        if (!is_leading) {
                watcher_forget_place(s);
                watcher_set_role(s, ROLE_FOLLOW);
        }
}

/* What other threads want of the watcher. */
static void hear(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        (void)pthread_mutex_lock(&s->mu);
        if (w->at_ns[CHORE_READ] == INT64_MAX && s->queue_bytes <= QUEUE_BYTES_MAX)
                w->at_ns[CHORE_READ] = 0;
        if (w->at_ns[CHORE_TRIM] == INT64_MAX && s->trim_before > w->first &&
            s->last.seq > w->first)
                w->at_ns[CHORE_TRIM] = 0;
        if (w->at_ns[CHORE_HAND_OVER] == INT64_MAX && s->hand_to[0] && !s->appender.is_picked)
                w->at_ns[CHORE_HAND_OVER] = 0;
        (void)pthread_mutex_unlock(&s->mu);
}

bool watcher_step(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        watch_lead(s);
        int64_t now = s->boot_ns();
        if (!w->ledger->ops->is_open(w->ledger)) {
                if (now < w->connect_ns)
                        return false;
                connect_watcher(s);
                return true;
        }
        hear(s);
        for (size_t i = 0; i < CHORES; i++) {
                if (!(chores[i].roles & IN(w->role)) || now < w->at_ns[i])
                        continue;
                chores[i].run(s);
                if (!w->ledger->ops->is_open(w->ledger)) {
                        w->is_checked = w->is_at_tail = false;
                        w->expired_ns = w->same_ns = 0;
                }
                return true;
        }
        return false;
}

static int64_t next_ns(const struct sql_log *s)
{
        const struct watcher *w = &s->watcher;
        if (!w->ledger->ops->is_open(w->ledger))
                return w->connect_ns;
        int64_t at = INT64_MAX;
        for (size_t i = 0; i < CHORES; i++)
                if (chores[i].roles & IN(w->role) && w->at_ns[i] < at)
                        at = w->at_ns[i];
        return at;
}

void *watcher_main(void *sql_log)
{
        struct sql_log *s = sql_log;
        uint64_t unused;
        (void)pthread_setname_np(pthread_self(), "log-watch"); /* for people */
        for (;;) {
                bool is_busy = watcher_step(s);
                struct sql_wait wait = {.stop_fd = s->watcher_stop_fd,
                                        .deadline_ns = is_busy ? 0 : next_ns(s)};
                struct pollfd stop = {.fd = s->watcher_stop_fd, .events = POLLIN};
                int r = poll(&stop, 1, 0) > 0 ? ERR_STOPPING
                                              : wait_for(&wait, s->wake_fd, POLLIN, NULL);
                if (r == ERR_STOPPING)
                        return NULL;
                if (r == OK && read(s->wake_fd, &unused, sizeof(unused)) < 0)
                        ASSERT(errno == EAGAIN);
        }
}
