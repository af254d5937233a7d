/* Locks: mutexes and semaphores with a time to live, fair waiting and fences.
 *
 * A place that becomes free, because it was given back, ran out or was taken away, goes to the
 * first waiter in the same moment (`give_up` is the only way a place becomes free).  So nobody
 * polls, nobody overtakes, and whoever waits, waits for a full lock.  A mutex is handed on with
 * one record, which names the new holder; the old one is not mentioned.
 *
 * What a holder may do depends on the clock of the turn alone: each command first lets everything
 * expire that is due (`expire`), so it does not matter whether the alarm rang already.
 *
 * The fence is the state's one counter, shared with the leases of jobs: larger means later over
 * all names, and a resource that remembers the largest it saw can refuse everybody older, even one
 * that slept through the end of its lock.
 *
 * Tokens are never shown except to their holder.
 *
 * Switched off (locks.enabled), no place is given to anybody: a caller that went on without the
 * exclusion it asked for would be worse than one that stands still.  LOCK is refused, those who
 * wait are told when it happens, so nobody waits while it is off, and a place that becomes free
 * stays free.  Holders keep theirs. */
#include "things/lock.h"

#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/plural.h"
#include "base/say.h"
#include "core/page.h"
#include "state/lock.h"

#define LIST_LIMIT_DEFAULT 50
/* A SET or a TAKE beside name and owner. */
#define LOCK_RECORD_BYTES 160

#define TTL_FORMS         3 /* ttl, ex, px: in that order */

enum reenter { REENTER_REFUSE, REENTER_RENEW };

_Static_assert(LIMIT_LOCK_PLACES <= LOCK_COUNT_MAX && LIMIT_NAME_BYTES <= LOCK_OWNER_BYTES,
               "state/ cannot see the table above it");
_Static_assert(TOKEN_BYTES == LOCK_TOKEN_BYTES, "a command's token is a holder's");

struct lock_wait {
        struct session_wait base;
        struct list link; /* on lock->waiters */
        struct lock *lock;
        uint32_t ttl_ms;
        uint8_t owner_len;
        char owner[];
};

static const struct wait_ops lock_wait_ops;

/* ---- how long ---- */

/* `first` is the place of "ttl" among the parameters. */
static int take_ttl(const struct command *cmd, size_t first, uint32_t *ret_ms,
                    struct problem *problem)
{
        const struct arg *ttl = &cmd->arg[first];
        int64_t ms = ttl[0].num + ttl[1].num * MS_PER_S + ttl[2].num; /* one of them is set */
        if (!ms)
                return problem_set(problem, ERR_BADARG,
                                   "ttl or ex is missing: say EX seconds, PX milliseconds, or a "
                                   "number of milliseconds from %lld on",
                                   MS_PER_S);
        *ret_ms = (uint32_t)ms;
        return OK;
}

/* ---- answers ---- */

static int64_t ms_between(int64_t from_ns, int64_t to_ns)
{
        return to_ns > from_ns ? (to_ns - from_ns) / NS_PER_MS : 0;
}

static void tell_granted(const struct core *core, struct reply *reply, uint32_t count,
                         const struct lock_holder *h)
{
        char token[2 * LOCK_TOKEN_BYTES];
        hex_from_bytes(h->token, LOCK_TOKEN_BYTES, token);
        const struct lock_granted_reply told = {
                .token = slice_make(token, sizeof(token)),
                .fence = (int64_t)h->fence,
                .ttl_ms = h->ttl_ms,
                .until_ms = core->now.wall_ms + h->ttl_ms,
                .count = count,
                .acquired = true,
        };
        reply_lock_granted(reply, &told);
}

static void tell_holders(struct reply *reply, const struct reply_items *items)
{
        const struct lock *l = items->of;
        int64_t now_ns = items->core->now.steady_ns;
        for (uint32_t i = 0; i < l->n_holders; i++) {
                const struct lock_holder *h = &l->holders[i];
                const struct holder_reply told = {
                        .owner = h->owner,
                        .fence = (int64_t)h->fence,
                        .age_ms = ms_between(h->since_ns, now_ns),
                        .ttl_ms = h->ttl_ms,
                        .remaining_ms = ms_between(now_ns, h->deadline_ns),
                };
                reply_holder(reply, &told);
        }
}

static struct lock_state_reply held_state(const struct core *core, const struct lock *l)
{
        return (struct lock_state_reply){
                .name = thing_name(&l->thing),
                .state = "held",
                .count = l->count,
                .waiting = l->n_waiting,
                .holders = {l->n_holders, tell_holders, core, l},
        };
}

/* Where the answer has names, a client need not tell null from an object. */
static void tell_refused(const struct core *core, struct reply *reply, const struct lock *l)
{
        struct lock_refused_reply refused = {.lock = held_state(core, l)};
        reply_lock_refused(reply, reply->ops->has_names ? &refused : NULL);
}

/* ---- changes ---- */

static struct lock_holder make_holder(struct core *core, uint32_t ttl_ms, struct slice owner)
{
        ASSERT(!core->are_locks_off);
        struct lock_holder h = {
                .fence = core->state.fence + 1,
                .since_ns = core->now.steady_ns,
                .deadline_ns = core->now.steady_ns + ttl_ms * NS_PER_MS,
                .ttl_ms = ttl_ms,
                .owner = owner,
        };
        rng_fill(core->options.rng, h.token, sizeof(h.token));
        core->totals.locks_granted++;
        return h;
}

static struct buf *empty_body(struct core *core)
{
        buf_clear(&core->body);
        return &core->body;
}

static struct slice body_of_one(struct core *core, uint32_t count, const struct lock_holder *h)
{
        lock_put_set(empty_body(core), count, h, 1);
        return buf_slice(&core->body);
}

/* One more holder beside others.  The note may be skipped in replay, its fence must not be. */
static void take_beside(struct core *core, struct lock *l, const struct lock_holder *h)
{
        lock_put_take(empty_body(core), h);
        thing_note(core, &l->thing, buf_slice(&core->body));
        struct effect meta = {
                .type = EFFECT_META_FULL,
                .next_id = core->state.next_id,
                .fence = core->state.fence,
                .next_queue_id = core->state.next_queue_id,
        };
        core_emit(core, &meta);
}

static void renew(struct core *core, struct lock *l, const struct lock_holder *h, uint32_t ttl_ms)
{
        struct lock_holder later = *h;
        later.ttl_ms = ttl_ms;
        later.deadline_ns = core->now.steady_ns + ttl_ms * NS_PER_MS;
        lock_put_renew(empty_body(core), &later);
        thing_note(core, &l->thing, buf_slice(&core->body));
}

static void leave_queue(struct lock_wait *w)
{
        list_remove(&w->link);
        w->lock->n_waiting--;
}

/* The place of holder i goes to the first waiter; without one the last holder takes the lock with
 * it.  False: the lock is gone. */
static bool give_up(struct core *core, struct lock *l, uint32_t i)
{
        struct list *first = list_peek_front(&l->waiters);
        uint64_t fence = l->holders[i].fence;
        if (!first && l->n_holders == 1) {
                thing_gone(core, &l->thing);
                return false;
        }
        bool is_handed_on = l->n_holders == 1;
        if (!is_handed_on) {
                lock_put_drop(empty_body(core), fence);
                thing_note(core, &l->thing, buf_slice(&core->body));
        }
        if (!first)
                return true;
        struct lock_wait *w = CONTAINER_OF(first, struct lock_wait, link);
        struct session *session = w->base.session;
        struct lock_holder h = make_holder(core, w->ttl_ms, slice_make(w->owner, w->owner_len));
        leave_queue(w);
        wait_end(core, &w->base);
        if (is_handed_on)
                thing_set(core, THING_LOCK, thing_name(&l->thing), body_of_one(core, l->count, &h));
        else
                take_beside(core, l, &h);
        tell_granted(core, session->ops->reply_begin(session), l->count, &h);
        free(w);
        session->ops->reply_end(session);
        return true;
}

/* Ends what is due.  False: the lock is gone. */
static bool expire(struct core *core, struct lock *l)
{
        for (uint32_t i = 0; i < l->n_holders;) {
                if (l->holders[i].deadline_ns > core->now.steady_ns) {
                        i++;
                        continue;
                }
                core->totals.locks_expired++;
                if (!give_up(core, l, i))
                        return false;
                i = 0; /* holders have moved; the new ones are not due */
        }
        return true;
}

void lock_due(struct core *core, struct thing *t)
{
        struct lock *l = lock_of(t);
        if (expire(core, l) && !heap_has(&t->alarm))
                lock_rearm(&core->state, l);
}

/* ---- finding ---- */

/* The lock as of now; NULL when nobody holds it. */
static struct lock *find(struct core *core, struct slice name)
{
        struct thing *t = thing_find(&core->state, THING_LOCK, name);
        return t && expire(core, lock_of(t)) ? lock_of(t) : NULL;
}

static int no_such_lock(struct slice name, struct problem *problem)
{
        return problem_set(problem, ERR_NOTFOUND, "nobody holds a lock '%.*s'", (int)name.len,
                           name.ptr);
}

static int find_held(struct core *core, const struct command *cmd, struct lock **ret,
                     const struct lock_holder **ret_holder, struct problem *problem)
{
        struct slice name = cmd->arg[P_UNLOCK_NAME].text;
        struct lock *l = find(core, name);
        if (!l)
                return no_such_lock(name, problem);
        const struct lock_holder *h = lock_holder(l, cmd->arg[P_UNLOCK_TOKEN].token);
        if (!h) {
                const struct lock_holder *now = &l->holders[l->n_holders - 1];
                bool has_owner = now->owner.len > 0;
                return problem_set(problem, ERR_NOTOWNER,
                                   "that token does not hold the lock '%.*s' (any more); fence "
                                   "%llu does%s%.*s",
                                   (int)name.len, name.ptr, (unsigned long long)now->fence,
                                   has_owner ? ", owner " : "", (int)now->owner.len,
                                   has_owner ? now->owner.ptr : "");
        }
        *ret = l;
        *ret_holder = h;
        return OK;
}

/* ---- LOCK ---- */

static void lock_cancel(struct core *core, struct session_wait *base)
{
        struct lock_wait *w = CONTAINER_OF(base, struct lock_wait, base);
        leave_queue(w);
        wait_end(core, base);
        free(w);
}

/* Without a problem the time was over. */
static void refuse_wait(struct core *core, struct lock_wait *w, const struct problem *problem)
{
        struct session *session = w->base.session;
        const struct lock *l = w->lock;
        lock_cancel(core, &w->base);
        struct reply *reply = session->ops->reply_begin(session);
        if (problem)
                reply_error(reply, problem);
        else
                tell_refused(core, reply, l);
        session->ops->reply_end(session);
}

static void lock_time_over(struct core *core, struct session_wait *base)
{
        struct lock_wait *w = CONTAINER_OF(base, struct lock_wait, base);
        struct problem p;
        if (core->is_stopping)
                (void)problem_set(&p, ERR_STOPPING, "weir stops; the lock was not taken");
        refuse_wait(core, w, core->is_stopping ? &p : NULL);
}

static int switched_off(struct problem *problem)
{
        return problem_set(problem, ERR_DISABLED,
                           "locks are switched off; the setting locks.enabled says so");
}

void locks_switched_off(struct core *core)
{
        const struct hash *locks = &core->state.things[THING_LOCK];
        struct problem p;
        (void)switched_off(&p);
        for (struct hash_node *n = NULL; (n = hash_next(locks, n));) {
                const struct lock *l = CONTAINER_OF(n, struct lock, thing.node);
                for (struct list *w; (w = list_peek_front(&l->waiters));)
                        refuse_wait(core, CONTAINER_OF(w, struct lock_wait, link), &p);
        }
}

static const struct wait_ops lock_wait_ops = {lock_time_over, lock_cancel};

static int wait_for(struct core *core, struct session *session, struct lock *l, uint32_t ttl_ms,
                    const struct command *cmd)
{
        struct slice owner = cmd->arg[P_LOCK_OWNER].text;
        struct lock_wait *w = xmalloc(sizeof(*w) + owner.len);
        *w = (struct lock_wait){
                .lock = l,
                .ttl_ms = ttl_ms,
                .owner_len = (uint8_t)owner.len,
        };
        if (owner.len)
                memcpy(w->owner, owner.ptr, owner.len);
        wait_begin(core, &w->base, &lock_wait_ops, session);
        list_push_back(&l->waiters, &w->link);
        l->n_waiting++;
        wait_until(core, &w->base, core->now.steady_ns + cmd->arg[P_LOCK_WAIT].num * NS_PER_MS);
        return CORE_LATER;
}

/* The caller holds it already. */
static int enter_again(struct core *core, struct lock *l, const struct lock_holder *h,
                       uint32_t ttl_ms, const struct command *cmd, struct reply *reply,
                       struct problem *problem)
{
        if (cmd->arg[P_LOCK_REENTER].num != REENTER_RENEW)
                return problem_set(problem, ERR_STATE,
                                   "that token holds the lock already, with fence %llu; REENTER "
                                   "renew would renew it",
                                   (unsigned long long)h->fence);
        renew(core, l, h, ttl_ms);
        tell_granted(core, reply, l->count, h);
        return OK;
}

static int check_lock(const struct core *core, const struct lock *l, uint32_t count,
                      const struct command *cmd, struct problem *problem)
{
        struct slice name = cmd->arg[P_LOCK_NAME].text;
        if (cmd->arg[P_LOCK_REENTER].is_set && !cmd->arg[P_LOCK_TOKEN].is_set)
                return problem_set(problem, ERR_BADARG, "reenter needs the token it is about");
        if (core->is_stopping)
                return problem_set(problem, ERR_STOPPING, "weir stops and gives no locks");
        if (l && l->count != count)
                return problem_set(problem, ERR_STATE,
                                   "the lock '%.*s' has %u %s while it is held, so count cannot "
                                   "be %u",
                                   (int)name.len, name.ptr, l->count,
                                   plural(l->count, "place", "places"), count);
        if (!l && core->state.things[THING_LOCK].len >= LIMIT_LOCKS)
                return problem_set(problem, ERR_LIMIT, "%d names are locked, which is the limit",
                                   LIMIT_LOCKS);
        return OK;
}

static int take(struct core *core, struct lock *l, uint32_t count, uint32_t ttl_ms,
                const struct command *cmd, struct reply *reply, struct problem *problem)
{
        struct slice name = cmd->arg[P_LOCK_NAME].text, owner = cmd->arg[P_LOCK_OWNER].text;
        int r = core_admit(core, LOCK_RECORD_BYTES + name.len + owner.len, 0, problem);
        if (r != OK)
                return r;
        struct lock_holder h = make_holder(core, ttl_ms, owner);
        if (l)
                take_beside(core, l, &h);
        else
                r = thing_try_set(core, THING_LOCK, name, body_of_one(core, count, &h), problem);
        if (r == OK)
                tell_granted(core, reply, count, &h);
        return r;
}

int exec_lock(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem)
{
        struct lock *l = find(core, cmd->arg[P_LOCK_NAME].text);
        uint32_t count = cmd->arg[P_LOCK_COUNT].is_set ? (uint32_t)cmd->arg[P_LOCK_COUNT].num : 1;
        const struct lock_holder *mine = NULL;
        if (l && cmd->arg[P_LOCK_TOKEN].is_set)
                mine = lock_holder(l, cmd->arg[P_LOCK_TOKEN].token);
        if (core->are_locks_off && !mine)
                return switched_off(problem);
        uint32_t ttl_ms;
        int r = take_ttl(cmd, P_LOCK_TTL, &ttl_ms, problem);
        if (r == OK)
                r = check_lock(core, l, count, cmd, problem);
        if (r != OK)
                return r;
        if (mine)
                return enter_again(core, l, mine, ttl_ms, cmd, reply, problem);
        if (!l || !lock_is_full(l))
                return take(core, l, count, ttl_ms, cmd, reply, problem);
        if (cmd->arg[P_LOCK_WAIT].num > 0)
                return wait_for(core, session, l, ttl_ms, cmd);
        tell_refused(core, reply, l);
        return OK;
}

/* ---- the others ---- */

int exec_unlock(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session; /* the token is what counts */
        struct lock *l;
        const struct lock_holder *h;
        int r = find_held(core, cmd, &l, &h, problem);
        if (r != OK)
                return r;
        (void)give_up(core, l, (uint32_t)(h - l->holders));
        reply_ok(reply);
        return OK;
}

int exec_renew(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* the token is what counts */
        struct lock *l;
        const struct lock_holder *h;
        uint32_t ttl_ms;
        int r = take_ttl(cmd, P_RENEW_TTL, &ttl_ms, problem);
        if (r == OK)
                r = find_held(core, cmd, &l, &h, problem);
        if (r != OK)
                return r;
        renew(core, l, h, ttl_ms);
        const struct lock_renewed_reply told = {
                .fence = (int64_t)h->fence,
                .ttl_ms = h->ttl_ms,
                .until_ms = core->now.wall_ms + h->ttl_ms,
        };
        reply_lock_renewed(reply, &told);
        return OK;
}

int exec_locked(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        struct slice name = cmd->arg[P_LOCKED_NAME].text;
        (void)problem; /* a name that is not locked is a free lock */
        const struct lock *l = find(core, name);
        /* How many places a free one has is said by the next LOCK. */
        struct lock_state_reply state =
                l ? held_state(core, l) : (struct lock_state_reply){.name = name, .state = "free"};
        reply_lock_state(reply, &state);
        return OK;
}

static void warn_forced(const struct lock *l, uint32_t n, struct slice reason)
{
        const struct lock_holder *h = &l->holders[0];
        char why[LIMIT_NAME_BYTES + 1], owner[LIMIT_NAME_BYTES + 1];
        (void)snprintf(why, sizeof(why), "%.*s", (int)reason.len, reason.len ? reason.ptr : "");
        (void)snprintf(owner, sizeof(owner), "%.*s", (int)h->owner.len,
                       h->owner.len ? h->owner.ptr : "");
        say_warn("core", "a lock was taken away by force", "lock", l->thing.name, "reason", why,
                 "holders", SAY_I64(n), "owner", owner, "fence", SAY_I64(h->fence));
}

int exec_forceunlock(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)session; /* who may send commands at all may send this one; the log tells of it */
        struct slice name = cmd->arg[P_FORCEUNLOCK_NAME].text;
        struct lock *l = find(core, name);
        if (!l)
                return no_such_lock(name, problem);
        uint32_t n = l->n_holders;
        warn_forced(l, n, cmd->arg[P_FORCEUNLOCK_REASON].text);
        core->totals.locks_forced++;
        /* New holders come in behind the old ones. */
        for (uint32_t i = 0; i < n && give_up(core, l, 0); i++)
                ;
        reply_lock_forced(reply, &(struct lock_forced_reply){n});
        return OK;
}

/* ---- LOCKS ---- */

static void tell_rows(struct reply *reply, const struct reply_items *items)
{
        const struct page *p = items->of;
        int64_t now_ns = items->core->now.steady_ns;
        for (size_t i = 0; i < p->n; i++) {
                const struct lock *l = CONTAINER_OF(p->things[i], const struct lock, thing);
                const struct lock_holder *h = &l->holders[0];
                const struct lock_row_reply told = {
                        .name = thing_name(&l->thing),
                        .count = l->count,
                        .held = l->n_holders,
                        .waiting = l->n_waiting,
                        .owner = h->owner,
                        .fence = (int64_t)h->fence,
                        .age_ms = ms_between(h->since_ns, now_ns),
                        .remaining_ms = ms_between(now_ns, h->deadline_ns),
                };
                reply_lock_row(reply, &told);
        }
}

int exec_locks(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)problem;
        const struct arg *limit = &cmd->arg[P_LOCKS_LIMIT];
        const struct thing *locks[LIMIT_LIST_LOCKS];
        struct page p = {.things = locks,
                         .max = limit->is_set ? (size_t)limit->num : LIST_LIMIT_DEFAULT,
                         .match = cmd->arg[P_LOCKS_MATCH].text};
        page_fill(&p, &core->state, THING_LOCK, cmd->arg[P_LOCKS_CURSOR].text);
        const struct locks_reply told = {
                .locks = {p.n, tell_rows, core, &p},
                .cursor = page_cursor(&p),
                .enabled = !core->are_locks_off,
        };
        reply_locks(reply, &told);
        return OK;
}
