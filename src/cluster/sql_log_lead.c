/* The chores of the lease.
 *
 * The lease is for liveness alone: it keeps two nodes from competing, and tells a node that was
 * not heard of for too long that it may no longer answer from memory.  What refuses a deposed
 * leader is the log: the first row of an epoch takes the number that the deposed one would use.
 *
 *      look: expired, twice -> take -> [verify, read to the tail, insert the row of the epoch] ->
 * lead
 *
 * A node serves only when the row of its epoch is durable.  Everything before it is durable then,
 * too, also rows whose writer never learned what became of them.  When the number is taken, a row
 * of another node landed meanwhile: read on, and try the next number.  An insert whose outcome is
 * unknown needs no care: if the row turns out to be there, it is read like any other, and the
 * next one is inserted behind it.
 *
 * Handing over gives the lease to the other node's name, already expired.  That node takes it when
 * it next looks; any other one waits for a second, so nothing is stuck if the node is gone. */
#include <stdlib.h>

#include "base/say.h"
#include "cluster/sql_log_int.h"

#define BUSY_MS        20
#define RESIGN_MS      1000
#define HEX_OF_NODE    16
#define RENEW_FRACTION 3
#define RENEW_MIN_MS   1000 /* an answer may take so long, however short the lease is */

static int64_t lease_ms(const struct sql_log *s)
{
        const struct ledger *l = s->watcher.ledger;
        int64_t ms = l->ops->lease_ms(l);
        return ms > s->lease_min_ms ? ms : s->lease_min_ms;
}

static struct sql_wait lease_wait(const struct sql_log *s)
{
        int64_t ms = lease_ms(s) / RENEW_FRACTION;
        return sql_log_wait(s, s->watcher_stop_fd, ms > RENEW_MIN_MS ? ms : RENEW_MIN_MS);
}

static void due_in(struct sql_log *s, enum chore chore, int64_t ms)
{
        s->watcher.at_ns[chore] = s->boot_ns() + ms * NS_PER_MS;
}

/* A node that holds or held the lease; else it is the name of one that was given it. */
static bool is_incarnation(const char *node)
{
        size_t len = strlen(node);
        return len > HEX_OF_NODE + 1 && node[len - HEX_OF_NODE - 1] == '.';
}

/* "b" of "b.0123456789abcdef" and of "b". */
static void name_of(const char *node, char *ret)
{
        size_t len = strlen(node);
        if (is_incarnation(node))
                len -= HEX_OF_NODE + 1;
        if (len > LOG_NAME_MAX)
                len = LOG_NAME_MAX;
        memcpy(ret, node, len);
        ret[len] = '\0';
}

/* ---- taking it ---- */

/* ret_is_mine: the lease is this node's for its length from when the question was sent. */
static int take(struct sql_log *s, bool *ret_is_mine, struct problem *p)
{
        struct watcher *w = &s->watcher;
        struct sql_wait wait = lease_wait(s);
        int64_t sent_ns = s->boot_ns(), ms = lease_ms(s);
        int r = w->ledger->ops->lease_take(w->ledger, s->node, ms, &wait, ret_is_mine, p);
        if (r == OK && *ret_is_mine) {
                w->sent_ns = sent_ns;
                w->held_ns = sent_ns + ms * NS_PER_MS;
                w->at_ns[CHORE_RENEW] = sent_ns + ms * NS_PER_MS / RENEW_FRACTION;
        }
        return r;
}

/* Live members that should rather lead. */
static int64_t n_before_me(struct sql_log *s)
{
        int64_t n = 0;
        (void)pthread_mutex_lock(&s->mu);
        int64_t age_ms = (s->boot_ns() - s->met_ns) / NS_PER_MS;
        for (size_t i = 0; i < s->n_members; i++)
                n += s->members[i].priority > s->priority &&
                     s->members[i].seen_ms + age_ms <= MEMBER_GONE_MS;
        (void)pthread_mutex_unlock(&s->mu);
        return n;
}

/* A lease of which more is left than anybody was given is one of a clock that went back.  Its
 * holder renews it soon; if it does not, nobody could wait for its end. */
static bool is_over(const struct sql_log *s, const struct ledger_lease *lease)
{
        return !lease->node[0] || lease->left_ms <= 0 ||
               lease->left_ms > LEDGER_LEASE_FAR * lease_ms(s);
}

/* Notes what was seen of the lease. */
static void see(struct sql_log *s, const struct ledger_lease *lease)
{
        struct watcher *w = &s->watcher;
        int64_t now_ns = s->boot_ns(), until_ns = now_ns + lease->left_ms * NS_PER_MS;
        int64_t moved_ns = until_ns - w->until_ns;
        if (!w->same_ns || moved_ns > MOVED_MS * NS_PER_MS || -moved_ns > MOVED_MS * NS_PER_MS ||
            strcmp(lease->node, w->lease.node) != 0) {
                w->same_ns = now_ns;
                w->until_ns = until_ns;
        }
        if (!is_over(s, lease))
                w->expired_ns = 0;
        else if (!w->expired_ns)
                w->expired_ns = now_ns;
        w->lease = *lease;
}

/* The holder may answer from memory for the length of its lease by its own clock.  The database's
 * clock is not enough to tell when that is over: after a failover it is another one, and the lease
 * may be an older one.  So another node's lease must have stood still for its whole length. */
static bool may_take(struct sql_log *s, int64_t sent_ns)
{
        const struct watcher *w = &s->watcher;
        const char *node = w->lease.node;
        bool is_mine = strcmp(node, s->node) == 0 && sent_ns < w->held_ns;
        if (is_mine || (strcmp(node, s->name) == 0 && w->expired_ns))
                return true;
        if (!w->expired_ns)
                return false;
        bool is_held = is_incarnation(node);
        if (is_held && sent_ns - w->same_ns < lease_ms(s) * NS_PER_MS)
                return false;
        int64_t ms = (node[0] ? EXPIRED_MS : 0) + PRIORITY_MS * n_before_me(s);
        return sent_ns - w->expired_ns >= ms * NS_PER_MS;
}

/* Says so.  Only a mover leads a log that is closed. */
static bool is_closed(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p;
        if (!w->closed[0] || s->is_mover)
                return false;
        (void)problem_set(&p, ERR_STATE, "%s", w->closed);
        sql_log_say(s, &w->said_ns, "nobody can lead: the log is closed",
                    w->ledger->ops->where(w->ledger), &p);
        return true;
}

void chore_look(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        struct sql_wait wait = lease_wait(s);
        struct ledger_lease lease = {0};
        int64_t sent_ns = s->boot_ns();
        bool is_mine = false;
        due_in(s, CHORE_LOOK, LOOK_EVERY_MS);
        if (w->ledger->ops->lease_look(w->ledger, &wait, &lease, &p) != OK) {
                w->expired_ns = w->same_ns = 0; /* it must answer both times */
                watcher_failed(s, CHORE_LOOK, "cannot look at the lease, trying again", &p);
                return;
        }
        see(s, &lease);
        bool is_led = lease.left_ms > 0;
        (void)pthread_mutex_lock(&s->mu);
        name_of(is_led ? lease.node : "", s->leader);
        bool wants_lead = s->wants_lead && !s->is_stopping;
        (void)pthread_mutex_unlock(&s->mu);
        if (!wants_lead || !w->is_at_tail || !may_take(s, sent_ns) || is_closed(s))
                return;
        if (take(s, &is_mine, &p) != OK)
                watcher_failed(s, CHORE_LOOK, "cannot take the lease, trying again", &p);
        else if (is_mine)
                watcher_set_role(s, ROLE_CLAIM);
        else
                w->expired_ns = 0; /* another one was faster */
}

/* The lease of a leader was over before it could be renewed (a database that was away, a machine
 * that slept).  Others may have had it, and may not know yet that it is over for them.  It goes on
 * only if nobody took it, and nobody began an epoch. */
static int take_again(struct sql_log *s, bool *ret_is_mine, struct problem *p)
{
        struct watcher *w = &s->watcher;
        const struct ledger_ops *ops = w->ledger->ops;
        struct sql_wait wait = lease_wait(s);
        struct ledger_lease lease = {0};
        struct ledger_head last;
        uint64_t first;
        int r = ops->lease_look(w->ledger, &wait, &lease, p);
        if (r == OK)
                r = ops->tail(w->ledger, &wait, &last, &first, p);
        if (r != OK)
                return r;
        (void)pthread_mutex_lock(&s->mu);
        uint64_t epoch = s->epoch;
        (void)pthread_mutex_unlock(&s->mu);
        *ret_is_mine = strcmp(lease.node, s->node) == 0 && strcmp(last.node, s->node) == 0 &&
                       last.epoch == epoch;
        return *ret_is_mine ? take(s, ret_is_mine, p) : OK;
}

/* ret_is_mine: it was this node's all the time, and is. */
static int renew(struct sql_log *s, bool *ret_is_mine, struct problem *p)
{
        struct watcher *w = &s->watcher;
        int64_t begun_ns = s->boot_ns(), held_ns = w->held_ns;
        bool is_late = begun_ns >= held_ns;
        *ret_is_mine = false;
        if (is_late && w->role == ROLE_CLAIM)
                return OK; /* the claim begins anew */
        int r = is_late ? take_again(s, ret_is_mine, p) : take(s, ret_is_mine, p);
        /* An answer that took so long may tell of a lease that others had meanwhile. */
        if (is_late)
                held_ns = begun_ns + lease_ms(s) * NS_PER_MS;
        *ret_is_mine &= s->boot_ns() < held_ns;
        return r;
}

void chore_renew(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        bool is_mine;
        if (renew(s, &is_mine, &p) != OK) {
                watcher_failed(s, CHORE_RENEW, "cannot renew the lease, trying again", &p);
                return;
        }
        if (!is_mine)
                w->held_ns = 0;
        if (!is_mine && w->role == ROLE_CLAIM) {
                watcher_set_role(s, ROLE_FOLLOW);
                return;
        }
        if (!is_mine) {
                (void)problem_set(&p, ERR_UNAVAIL, "another node may have taken the lease");
                lead_lose(s, s->term, &p);
                return;
        }
        (void)pthread_mutex_lock(&s->mu);
        if (s->is_leading)
                s->until_ns = w->held_ns;
        (void)pthread_mutex_unlock(&s->mu);
}

/* ---- promotion ---- */

static void give_up_claim(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        struct sql_wait wait = lease_wait(s);
        bool is_done;
        /* If this fails, the lease ends by itself. */
        (void)w->ledger->ops->lease_give(w->ledger, s->node, s->name, 0, &wait, &is_done, &p);
        watcher_set_role(s, ROLE_FOLLOW);
        due_in(s, CHORE_LOOK, SECOND_MS);
}

/* Is the database safe, and from where on can the log be read? */
static void verify_claim(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        struct ledger_head last;
        uint64_t first;
        struct sql_wait wait = lease_wait(s);
        int r = w->ledger->ops->verify(w->ledger, &wait, &p);
        if (r == ERR_STATE) {
                sql_log_say(s, &w->said_ns, "cannot lead: the database is not safe",
                            w->ledger->ops->where(w->ledger), &p);
                give_up_claim(s);
                return;
        }
        if (r == OK || r == ERR_UNAVAIL) /* in the latter case the row of the epoch waits */
                r = w->ledger->ops->tail(w->ledger, &wait, &last, &first, &p);
        if (r != OK) {
                watcher_failed(s, CHORE_PROMOTE, "cannot verify the database, trying again", &p);
                return;
        }
        w->is_verified = true;
        w->first = first;
}

static void begin_to_lead(struct sql_log *s, const struct ledger_head *row)
{
        struct watcher *w = &s->watcher;
        /* It must have landed within the lease: else another one may have it by now, and answer
         * from memory without what would be written here.  Then, or without memory, it is read like
         * any other row. */
        if (s->boot_ns() >= w->held_ns || !sql_log_push_batch(s, row->seq, SLICE_NONE))
                return;
        w->last = *row;
        (void)pthread_mutex_lock(&s->mu);
        memcpy(s->leader, s->name, sizeof(s->leader));
        (void)pthread_mutex_unlock(&s->mu);
        say_info("cluster", "this node leads", "node", s->name, "epoch", SAY_I64(row->epoch),
                 "batch", SAY_I64(row->seq));
        lead_begin(s, row, w->first, w->held_ns);
        watcher_set_role(s, ROLE_LEAD);
}

static void insert_epoch(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        struct sql_wait wait = sql_log_wait(s, s->watcher_stop_fd, lease_ms(s));
        struct ledger_head row = {
                .seq = w->last.seq + 1, .epoch = w->last.epoch + 1, .kind = LEDGER_EPOCH};
        memcpy(row.node, s->node, sizeof(row.node));
        w->is_at_tail = false; /* whatever comes of it */
        switch (w->ledger->ops->append(w->ledger, &row, SLICE_NONE, &w->last, &wait, &p)) {
        case LEDGER_DURABLE:
                begin_to_lead(s, &row);
                return;
        case LEDGER_TAKEN:
                return; /* read on */
        case LEDGER_REFUSED:
                /* The last row is gone, or the database is not safe any more: look at both. */
                w->is_checked = w->is_verified = false;
                break;
        case LEDGER_BUSY:
                due_in(s, CHORE_PROMOTE, BUSY_MS);
                return;
        case LEDGER_FULL:
                w->ledger->ops->disconnect(w->ledger); /* perhaps another server takes writes */
                break;
        case LEDGER_UNKNOWN:
                break;
        }
        watcher_failed(s, CHORE_PROMOTE, "cannot begin an epoch yet, trying again", &p);
}

void chore_promote(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        (void)pthread_mutex_lock(&s->mu);
        /* Of the last lead of this node; the appender wakes this thread when it lets go. */
        bool is_busy = s->appender.is_picked || s->is_telling;
        (void)pthread_mutex_unlock(&s->mu);
        if (is_busy)
                due_in(s, CHORE_PROMOTE, BUSY_MS);
        else if (!w->is_verified)
                verify_claim(s);
        else if (!w->is_at_tail)
                watcher_read(s);
        else if (is_closed(s)) /* meanwhile */
                give_up_claim(s);
        else
                insert_epoch(s);
}

/* ---- handing it over ---- */

static bool is_ready(const struct sql_log *s, const struct log_member *m) /* mu held */
{
        int64_t age_ms = (s->boot_ns() - s->met_ns) / NS_PER_MS;
        return strcmp(m->node, s->name) != 0 && m->seen_ms + age_ms <= MEMBER_GONE_MS &&
               m->seq >= s->ready_seq;
}

/* The ready member of the highest priority, the furthest of these; NULL when none is ready. */
static const struct log_member *best_member(const struct sql_log *s) /* mu held */
{
        const struct log_member *best = NULL;
        for (size_t i = 0; i < s->n_members; i++) {
                const struct log_member *m = &s->members[i];
                if (!is_ready(s, m))
                        continue;
                if (!best || m->priority > best->priority ||
                    (m->priority == best->priority && m->seq > best->seq))
                        best = m;
        }
        return best;
}

static int choose(const struct sql_log *s, struct slice node, const struct log_member **ret,
                  struct problem *p) /* mu held */
{
        *ret = NULL;
        if (!s->is_leading || s->told_term != s->term)
                return problem_set(p, ERR_STATE, "node %s does not lead", s->name);
        if (slice_eq(node, slice_str(s->name)))
                return problem_set(p, ERR_BADARG, "node %s leads already", s->name);
        if (node.len == 0) {
                *ret = best_member(s);
                return *ret ? OK : problem_set(p, ERR_STATE, "no other node is ready to lead");
        }
        for (size_t i = 0; i < s->n_members; i++)
                if (slice_eq(node, slice_str(s->members[i].node)))
                        *ret = &s->members[i];
        if (!*ret)
                return problem_set(p, ERR_NOTFOUND, "unknown node '%.*s'", (int)node.len, node.ptr);
        if (!is_ready(s, *ret))
                return problem_set(p, ERR_STATE, "node %s is not ready to lead: it is %s",
                                   (*ret)->node,
                                   (*ret)->seq < s->ready_seq ? "behind" : "not running");
        return OK;
}

int sql_log_hand_over(struct log *log, struct slice node, bool is_trial, struct problem *problem)
{
        struct sql_log *s = sql_log_of(log);
        const struct log_member *to;
        (void)pthread_mutex_lock(&s->mu);
        int r = choose(s, node, &to, problem);
        if (r == OK && !is_trial)
                memcpy(s->hand_to, to->node, sizeof(s->hand_to));
        (void)pthread_mutex_unlock(&s->mu);
        if (r == OK && !is_trial)
                sql_log_wake_watcher(s);
        return r;
}

void chore_hand_over(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        struct problem p = {0};
        char to[LOG_NAME_MAX + 1];
        bool is_done = false;
        w->at_ns[CHORE_HAND_OVER] = INT64_MAX; /* hand_over(), and the appender, wake */
        (void)pthread_mutex_lock(&s->mu);
        memcpy(to, s->hand_to, sizeof(to));
        s->appender.is_held = to[0] != '\0';
        bool is_waiting = !to[0] || s->appender.is_picked;
        if (!is_waiting)
                s->until_ns = 0; /* before the other one can have it */
        (void)pthread_mutex_unlock(&s->mu);
        if (is_waiting)
                return;
        struct sql_wait wait = lease_wait(s);
        if (w->ledger->ops->lease_give(w->ledger, s->node, to, 0, &wait, &is_done, &p) == OK) {
                if (is_done)
                        (void)problem_set(&p, ERR_UNAVAIL, "the lead was handed over to %s", to);
                else
                        (void)problem_set(&p, ERR_UNAVAIL, "another node has taken the lease");
                lead_lose(s, s->term, &p);
                return;
        }
        /* It may have been given or not: the next renewal tells. */
        (void)pthread_mutex_lock(&s->mu);
        s->hand_to[0] = '\0';
        s->appender.is_held = false;
        (void)pthread_cond_signal(&s->for_appender);
        (void)pthread_mutex_unlock(&s->mu);
        w->at_ns[CHORE_RENEW] = 0;
        watcher_failed(s, CHORE_HAND_OVER, "cannot hand the lead over", &p);
}

void lead_resign(struct sql_log *s)
{
        struct watcher *w = &s->watcher;
        const struct ledger_ops *ops = w->ledger->ops;
        struct problem p = {0};
        bool is_done;
        (void)pthread_mutex_lock(&s->mu);
        bool is_held = s->is_leading || w->role == ROLE_CLAIM;
        const struct log_member *to = best_member(s);
        s->is_leading = false;
        s->until_ns = 0;
        (void)pthread_mutex_unlock(&s->mu);
        if (!is_held || !ops->is_open(w->ledger))
                return;
        struct sql_wait wait = sql_log_wait(s, -1, RESIGN_MS);
        /* If this fails, the lease ends by itself. */
        (void)ops->lease_give(w->ledger, s->node, to ? to->node : s->name, 0, &wait, &is_done, &p);
}
