/* See guard.h.
 *
 * A conversation is one question of the thread and one answer of the loop:
 *
 *      IDLE     -> ASKED      talk(), on the thread: posts a mail and waits
 *      ASKED    -> HANDLED    hear(), on the loop: the question has effects that must be durable
 *      ASKED    -> IDLE       hear(): answered at once
 *      HANDLED  -> IDLE       guard_durable(): the effects are durable, the thread goes on
 *
 * What a question carries is in struct talk: the thread owns it while IDLE, the loop otherwise. */
#include "guard/guard.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"

#define RETRY_MIN_MS   1000
#define RETRY_MAX_MS   30000
#define ROWS_PER_CYCLE 10000
/* A cycle that has more to do goes on after so many times the time it took. */
#define REST_FACTOR 3
#define REST_MIN_MS 100
/* The work of each second: at most this share of the time. */
#define TICK_NS      NS_PER_S
#define TICK_SHARE   5
#define FRONT_FIND   (2 * FRONT_ROWS_MAX)
#define FRONT_SOON_S 60 /* what falls due so soon is put in front already */

enum talk_kind {
        TALK_MODE,
        TALK_FAILED,
        TALK_SURVEYED,
        TALK_PROPOSE,
        TALK_SHIFT,
        TALK_STEPPED,
        TALK_REPAIRED,
        TALK_FRONT,
        TALK_FRONTED,
        TALK_TOP_UP,
};

struct talk {
        enum talk_kind kind;
        enum { IDLE, ASKED, HANDLED } state;
        uint64_t durable_seq; /* HANDLED: answered when this batch is durable */
        int result;
        struct problem problem;
        enum gate_mode mode;
        struct site_survey *survey;
        struct site_plan *plan;
        struct site_step *step;
        struct site_due_row *rows;
        size_t n_rows;
        uint64_t n_changed;
        bool is_refused;
        struct slice hook;
        struct front_row *fronts; /* n_rows of them */
        bool is_all;
        struct site_due_now due_now;
};

struct guard {
        struct loop *loop;
        struct loop_mail mail;
        struct list sites;
        bool is_stopping;
};

struct guard_site {
        struct list link;
        struct guard *guard;
        const struct store_options *options;
        int64_t interval_ms;
        pthread_t thread;
        int stop_fd, wake_fd;

        pthread_mutex_t lock;
        pthread_cond_t answered;
        /* Under the lock: */
        struct talk talk;
        struct site_request *asked, **asked_end; /* requests that the thread has to run */
        struct site_request *done;               /* and those that the loop has to answer */
        bool wants_cycle, is_stopping;

        /* The thread's own: */
        struct store store;
        int64_t now_s, horizon_s; /* of the last survey and plan */
        int64_t now_ns;           /* when now_s was read */
        int64_t slow_ms;          /* the slowest of the last cycles; half as much with each */
        struct site_plan plan;    /* the last one: it tells what each second's work is */
        int64_t tick_ns;          /* when that work is due */
        struct store_front_row *found;
        char front_problem[STORE_ADVICE_MAX]; /* why nothing is put in front; "" */
        int64_t retry_ms;
};

/* ---- the thread: talking to the loop ---- */

/* Asks and waits; the answer is in s->talk.  ERR_STOPPING: there is none. */
static int talk(struct guard_site *s, enum talk_kind kind)
{
        (void)pthread_mutex_lock(&s->lock); /* cannot fail: not recursive, never held here */
        s->talk.kind = kind;
        s->talk.state = ASKED;
        loop_post(s->guard->loop, &s->guard->mail);
        while (s->talk.state != IDLE && !s->is_stopping)
                (void)pthread_cond_wait(&s->answered, &s->lock);
        int r = s->talk.state == IDLE ? s->talk.result : ERR_STOPPING;
        (void)pthread_mutex_unlock(&s->lock);
        return r;
}

static void signal_fd(int fd)
{
        uint64_t one = 1;
        ssize_t n = write(fd, &one, sizeof(one));
        ASSERT(n == sizeof(one) || errno == EAGAIN); /* the counter is full: it is readable */
}

static void drain_fd(int fd)
{
        uint64_t n;
        (void)!read(fd, &n, sizeof(n)); /* nothing to read is fine */
}

static void fail(struct guard_site *s, const struct problem *problem)
{
        s->talk.problem = *problem;
        (void)talk(s, TALK_FAILED); /* ERR_STOPPING: there is no one to tell */
}

/* ---- the thread: requests ---- */

static struct site_request *next_request(struct guard_site *s)
{
        (void)pthread_mutex_lock(&s->lock);
        struct site_request *q = s->is_stopping ? NULL : s->asked;
        if (q) {
                s->asked = q->next;
                if (!s->asked)
                        s->asked_end = &s->asked;
        }
        (void)pthread_mutex_unlock(&s->lock);
        return q;
}

static void serve_requests(struct guard_site *s)
{
        for (struct site_request *q; (q = next_request(s));) {
                q->err = store_open(&s->store, MODE_OBSERVE, &q->problem);
                if (q->err == OK)
                        store_answer(&s->store, q);
                (void)pthread_mutex_lock(&s->lock);
                q->next = s->done;
                s->done = q;
                (void)pthread_mutex_unlock(&s->lock);
                loop_post(s->guard->loop, &s->guard->mail);
        }
}

static bool is_interrupted(struct guard_site *s)
{
        (void)pthread_mutex_lock(&s->lock);
        bool is = s->wants_cycle || s->is_stopping;
        (void)pthread_mutex_unlock(&s->lock);
        return is;
}

/* ---- the thread: a cycle ---- */

static int report_step(struct guard_site *s, struct site_step *step, uint64_t n_changed,
                       bool is_refused)
{
        s->talk.step = step;
        s->talk.n_changed = n_changed;
        s->talk.is_refused = is_refused;
        return talk(s, TALK_STEPPED);
}

/* What a person reads in the log of the action. */
static void put_message(const struct site_step *step, const char *reason, char *ret, size_t size)
{
        char date[32];
        time_t to = (time_t)step->to_s;
        struct tm utc;
        if (step->kind == STEP_RETURN) {
                (void)snprintf(ret, size, "weir: returned to its date; the database is calm again");
                return;
        }
        (void)gmtime_r(&to, &utc); /* cannot fail for a date that a column can hold */
        (void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &utc);
        (void)snprintf(ret, size, "weir: deferred to %s UTC, tier %s: %s", date,
                       tier_name(step->tier), reason);
}

/* The lines of a step.  What was changed by now is not undone for want of a line. */
static int write_log(struct guard_site *s, const struct site_plan *plan,
                     const struct site_step *step, uint64_t *ids, size_t n)
{
        struct problem problem;
        char message[512];
        int r = step->kind == STEP_RETURN
                        ? OK
                        : store_keep_dated(&s->store, ids, &n, step->to_s, &problem);
        put_message(step, plan->reason, message, sizeof(message));
        if (r == OK && n)
                r = store_log(&s->store, ids, n, message, &problem);
        if (r == OK || r == ERR_LOCKED)
                return OK;
        fail(s, &problem);
        return r;
}

/* A page of due actions of a hook.  *ret_n: how many were found, 0 when the hook is done with. */
static int move_page(struct guard_site *s, const struct site_plan *plan, struct site_step *step,
                     size_t *ret_n)
{
        struct site_due_row rows[SITE_ROWS_MAX];
        uint64_t ids[SITE_ROWS_MAX], n_moved = 0;
        struct problem problem;
        size_t n = 0;
        *ret_n = 0;
        int r = store_read_due(&s->store, step, s->now_s + s->horizon_s, rows, SITE_ROWS_MAX, &n,
                               &problem);
        if (r != OK) {
                fail(s, &problem);
                return r;
        }
        size_t n_found = n;
        s->talk.step = step;
        s->talk.rows = rows;
        s->talk.n_rows = n;
        if (n)
                r = talk(s, TALK_PROPOSE);
        n = n ? s->talk.n_rows : 0;
        if (r != OK || !n) /* no room for the ledger: later */
                return r == ERR_STOPPING ? r : OK;
        r = store_move(&s->store, rows, n, step->to_s, &n_moved, &problem);
        /* After a lost connection nobody knows what was moved. */
        int told = report_step(s, step, n_moved, r != OK && r != ERR_LOCKED);
        if (r != OK && r != ERR_LOCKED) {
                fail(s, &problem);
                return r;
        }
        for (size_t i = 0; i < n; i++)
                ids[i] = rows[i].row.id;
        if (told == OK && n_moved)
                told = write_log(s, plan, step, ids, n);
        *ret_n = r == ERR_LOCKED ? 0 : n_found; /* refused by locks: the next cycle tries again */
        return told;
}

static int tick(struct guard_site *s);

/* *budget: rows that may still be moved in this cycle. */
static int do_move(struct guard_site *s, const struct site_plan *plan, struct site_step *step,
                   size_t *budget)
{
        size_t n = SITE_ROWS_MAX;
        int r = OK;
        while (r == OK && *budget && n == SITE_ROWS_MAX && !is_interrupted(s)) {
                r = tick(s);
                if (r == OK)
                        r = move_page(s, plan, step, &n);
                *budget -= n < *budget ? n : *budget;
        }
        return r;
}

static int do_step(struct guard_site *s, const struct site_plan *plan, struct site_step *step,
                   size_t *budget)
{
        struct problem problem;
        uint64_t n_changed = 0;
        int r = OK;
        if (step->kind == STEP_MOVE)
                return do_move(s, plan, step, budget);
        if (step->kind == STEP_SHIFT) {
                s->talk.step = step;
                r = talk(s, TALK_SHIFT);
                if (r == OK)
                        r = store_shift(&s->store, step, &n_changed, &problem);
                else
                        return r == ERR_STOPPING ? r : OK; /* the ledger has no room: later */
        } else {
                r = store_return(&s->store, step, &n_changed, &problem);
        }
        if (r != OK && r != ERR_LOCKED) {
                fail(s, &problem);
                return r;
        }
        *budget -= step->n_rows < *budget ? step->n_rows : *budget;
        int told = report_step(s, step, n_changed, r == ERR_LOCKED);
        if (told != OK || !n_changed)
                return told;
        uint64_t ids[SITE_ROWS_MAX];
        for (size_t i = 0; i < step->n_rows; i++)
                ids[i] = step->rows[i].id;
        return write_log(s, plan, step, ids, step->n_rows);
}

/* ---- the thread: each second ---- */

static int64_t site_now_s(const struct guard_site *s)
{
        return s->now_s + (clock_boot_ns() - s->now_ns) / NS_PER_S;
}

static int put_hook_front(struct guard_site *s, struct slice hook, struct front_row *rows, size_t n,
                          struct problem *problem)
{
        uint64_t n_changed;
        s->talk.hook = hook;
        s->talk.fronts = rows;
        s->talk.n_rows = n;
        int r = talk(s, TALK_FRONT);
        if (r != OK)
                return r == ERR_STOPPING ? r : OK; /* the ledger has no room: later */
        if (!s->talk.n_rows)
                return OK;
        return store_put_front(&s->store, rows, s->talk.n_rows, &n_changed, problem);
}

/* Those of `found` that are not in front yet, hook by hook. */
static int put_found_front(struct guard_site *s, size_t n, struct problem *problem)
{
        struct front_row rows[FRONT_ROWS_MAX];
        for (size_t at = 0, end; at < n; at = end) {
                size_t n_rows = 0;
                for (end = at; end < n && s->found[end].hook == s->found[at].hook; end++)
                        if (s->found[end].row.priority && n_rows < FRONT_ROWS_MAX)
                                rows[n_rows++] = s->found[end].row;
                int r = n_rows ? put_hook_front(s, s->plan.critical[s->found[at].hook], rows,
                                                n_rows, problem)
                               : OK;
                if (r != OK && r != ERR_LOCKED) /* locked: in a second */
                        return r;
        }
        return OK;
}

static int put_front(struct guard_site *s, struct problem *problem)
{
        const struct site_plan *plan = &s->plan;
        uint64_t n_changed;
        size_t n;
        if (!plan->is_front || !plan->n_critical || s->front_problem[0])
                return OK;
        int r = store_find_front(&s->store, plan->critical, plan->n_critical,
                                 site_now_s(s) + FRONT_SOON_S, s->found, FRONT_FIND, &n, problem);
        if (r != OK || !n)
                return r;
        if (s->store.facts.has_priority)
                return put_found_front(s, n, problem);
        return store_date_front(&s->store, plan->critical, plan->n_critical, s->found, n,
                                site_now_s(s), &n_changed, problem);
}

/* The ledger of one hook, compared with the site; gives back what is not wanted in front. */
static int check_front(struct guard_site *s, const struct site_front *front,
                       struct problem *problem)
{
        struct front_row *seen = xcalloc(2 * FRONT_FIND, sizeof(*seen));
        uint64_t n_changed;
        size_t n;
        bool is_all;
        int r = store_see_front(&s->store, front->hook, front->rows, front->n_rows, seen,
                                2 * FRONT_FIND, &n, &is_all, problem);
        if (r == OK) {
                s->talk.hook = front->hook;
                s->talk.fronts = seen;
                s->talk.n_rows = n;
                s->talk.is_all = is_all;
                r = talk(s, TALK_FRONTED);
                if (r == OK && s->talk.n_rows)
                        r = store_put_back(&s->store, seen, s->talk.n_rows, &n_changed, problem);
        }
        free(seen);
        return r;
}

static int do_step(struct guard_site *s, const struct site_plan *plan, struct site_step *step,
                   size_t *budget);

static int top_up(struct guard_site *s, struct problem *problem)
{
        struct site_plan returns = {0};
        size_t budget = ROWS_PER_CYCLE;
        if (!s->plan.is_returning)
                return OK;
        int r = store_count_due(&s->store, SITE_STOCK_MAX, &s->talk.due_now.due,
                                &s->talk.due_now.runners, problem);
        if (r != OK)
                return r;
        s->talk.plan = &returns;
        r = talk(s, TALK_TOP_UP);
        for (size_t i = 0; r == OK && i < returns.n_steps && !is_interrupted(s); i++)
                r = do_step(s, &returns, &returns.steps[i], &budget);
        s->plan.is_returning = r == OK && returns.is_returning;
        site_plan_release(&returns);
        return r;
}

/* A missing privilege is told as advice: the rest of the guard works without it. */
static int note_front(struct guard_site *s, int r, const struct problem *problem)
{
        if (r == ERR_LOCKED)
                return OK;
        if (r != ERR_FORBIDDEN)
                return r;
        (void)snprintf(s->front_problem, sizeof(s->front_problem),
                       "Actions of the critical tier are not put in front: %s", problem->detail);
        return OK;
}

/* What is done each second, between the steps of a cycle and while it rests. */
static int tick(struct guard_site *s)
{
        struct problem problem;
        int64_t began_ns = clock_boot_ns();
        if (began_ns < s->tick_ns || !mysql_conn_is_open(s->store.conn))
                return OK;
        int r = note_front(s, put_front(s, &problem), &problem);
        if (r == OK)
                r = top_up(s, &problem);
        int64_t took_ns = clock_boot_ns() - began_ns;
        s->tick_ns = began_ns + (took_ns * TICK_SHARE > TICK_NS ? took_ns * TICK_SHARE : TICK_NS);
        if (r != OK && r != ERR_STOPPING)
                fail(s, &problem);
        return r;
}

/* What repairs look at, because the loop takes the survey itself.  Wants site_survey_release(). */
static struct site_survey copy_for_repairs(const struct site_survey *v)
{
        struct site_survey ret = {.now_s = v->now_s, .failed = v->failed, .n_hooks = v->n_hooks};
        arena_init(&ret.arena, 0);
        ret.hooks = arena_array(&ret.arena, v->n_hooks + 1, sizeof(*ret.hooks));
        ASSERT(ret.hooks);
        for (size_t i = 0; i < v->n_hooks; i++) {
                ret.hooks[i] = (struct site_hook){.hook = arena_copy(&ret.arena, v->hooks[i].hook)};
                ASSERT(ret.hooks[i].hook.ptr);
        }
        return ret;
}

static int repair(struct guard_site *s, const struct site_plan *plan, struct site_survey *found)
{
        struct problem problem;
        found->advice = s->front_problem[0] ? s->front_problem : NULL;
        int r = store_repair(&s->store, plan, found, &problem);
        s->talk.survey = found;
        if (r == OK || r == ERR_LOCKED)
                r = talk(s, TALK_REPAIRED);
        else
                fail(s, &problem);
        return r;
}

/* A refusal is told, and keeps nothing else from being done. */
static int look_after(struct guard_site *s, const struct site_front *front)
{
        struct problem problem;
        int r = note_front(s, check_front(s, front, &problem), &problem);
        if (r != OK && r != ERR_STOPPING)
                fail(s, &problem);
        return r;
}

/* *ret_rest_ms: 0: until the next interval. */
static int cycle(struct guard_site *s, enum gate_mode mode, int64_t *ret_rest_ms)
{
        struct problem problem;
        struct site_survey survey = {0};
        struct site_plan *plan = &s->plan;
        size_t budget = ROWS_PER_CYCLE;
        int64_t began_ns = clock_boot_ns();
        bool was_known = s->store.is_known;
        int r = store_open(&s->store, mode, &problem);
        if (!was_known)
                s->front_problem[0] = '\0';
        if (r == OK)
                r = store_survey(&s->store, s->horizon_s, &survey, &problem);
        if (r != OK) {
                site_survey_release(&survey);
                fail(s, &problem);
                return r;
        }
        struct site_survey found = copy_for_repairs(&survey);
        int64_t survey_ms = survey.took_us / 1000;
        survey.slow_ms = s->slow_ms > survey_ms ? s->slow_ms : survey_ms;
        s->talk.survey = &survey;
        s->now_s = survey.now_s;
        s->now_ns = clock_boot_ns();
        site_plan_release(plan);
        s->talk.plan = plan;
        r = talk(s, TALK_SURVEYED);
        site_survey_release(&survey); /* is empty, unless the loop stops and did not take it */
        s->horizon_s = plan->horizon_s;
        r = r == OK ? tick(s) : r;
        for (size_t i = 0; r == OK && i < plan->n_fronts && !is_interrupted(s); i++)
                r = look_after(s, &plan->fronts[i]);
        for (size_t i = 0; r == OK && i < plan->n_steps && budget && !is_interrupted(s); i++) {
                r = do_step(s, plan, &plan->steps[i], &budget);
                r = r == OK ? tick(s) : r;
                serve_requests(s);
        }
        if (r == OK && plan->mode >= MODE_OBSERVE)
                r = repair(s, plan, &found);
        site_survey_release(&found);
        int64_t took_ms = (clock_boot_ns() - began_ns) / NS_PER_MS;
        s->slow_ms = took_ms > s->slow_ms / 2 ? took_ms : s->slow_ms / 2;
        *ret_rest_ms = budget ? 0 : took_ms * REST_FACTOR + REST_MIN_MS;
        return r;
}

/* Until the time is over, a cycle is wanted, or it is time to stop; does the work of each second
 * and runs requests meanwhile. */
static void rest(struct guard_site *s, int64_t ms)
{
        int64_t until_ns = clock_boot_ns() + ms * NS_PER_MS;
        for (;;) {
                int64_t now_ns = clock_boot_ns();
                int64_t left_ms = (until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
                if (left_ms <= 0 || is_interrupted(s))
                        return;
                bool ticks = mysql_conn_is_open(s->store.conn) &&
                             (s->plan.is_front || s->plan.is_returning);
                int64_t tick_ms = (s->tick_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
                if (ticks && tick_ms < left_ms)
                        left_ms = tick_ms > 0 ? tick_ms : 0;
                struct pollfd fds[] = {{.fd = s->stop_fd, .events = POLLIN},
                                       {.fd = s->wake_fd, .events = POLLIN}};
                (void)poll(fds, ARRAY_LEN(fds), (int)left_ms); /* interrupted is fine */
                drain_fd(s->wake_fd);
                serve_requests(s);
                if (ticks && !is_interrupted(s) && tick(s) != OK)
                        return; /* the next cycle connects again, or it is time to stop */
        }
}

static void *guard_thread(void *ctx)
{
        struct guard_site *s = ctx;
        for (;;) {
                int64_t rest_ms = 0;
                int r = talk(s, TALK_MODE);
                (void)pthread_mutex_lock(&s->lock);
                bool is_stopping = s->is_stopping;
                s->wants_cycle = false;
                (void)pthread_mutex_unlock(&s->lock);
                if (is_stopping)
                        return NULL;
                if (s->talk.mode == MODE_OFF)
                        store_close(&s->store);
                else
                        r = cycle(s, s->talk.mode, &rest_ms);
                if (r == OK) {
                        s->retry_ms = RETRY_MIN_MS;
                        rest_ms = rest_ms ? rest_ms : s->interval_ms;
                } else {
                        rest_ms = s->retry_ms > s->interval_ms ? s->retry_ms : s->interval_ms;
                        s->retry_ms =
                                2 * s->retry_ms < RETRY_MAX_MS ? 2 * s->retry_ms : RETRY_MAX_MS;
                }
                rest(s, rest_ms);
        }
}

/* ---- the loop: answering ---- */

static void answer(struct guard_site *s)
{
        s->talk.state = IDLE;
        (void)pthread_cond_signal(&s->answered);
}

/* Under the lock. */
static void hear(struct guard_site *s)
{
        struct core *core = s->guard->loop->core;
        struct talk *t = &s->talk;
        struct slice name = slice_str(s->options->name);
        t->result = OK;
        switch (t->kind) {
        case TALK_MODE:
                t->mode = sites_mode(core, name);
                break;
        case TALK_FAILED:
                sites_failed(core, name, t->problem.detail);
                break;
        case TALK_SURVEYED:
                sites_surveyed(core, name, t->survey, t->plan);
                break;
        case TALK_PROPOSE:
                t->result = sites_propose(core, name, t->step, t->rows, &t->n_rows, &t->problem);
                break;
        case TALK_SHIFT:
                t->result = sites_propose_shift(core, name, t->step, &t->problem);
                break;
        case TALK_STEPPED:
                sites_stepped(core, name, t->step, t->n_changed, t->is_refused);
                break;
        case TALK_REPAIRED:
                sites_repaired(core, name, t->survey->faults, t->survey->advice);
                break;
        case TALK_FRONT:
                t->result = sites_front(core, name, t->hook, t->fronts, &t->n_rows, &t->problem);
                break;
        case TALK_FRONTED:
                sites_fronted(core, name, t->hook, t->fronts, &t->n_rows, t->is_all);
                break;
        case TALK_TOP_UP:
                sites_top_up(core, name, &t->due_now, t->plan);
                break;
        }
        bool must_be_durable = t->kind == TALK_PROPOSE || t->kind == TALK_SHIFT ||
                               (t->kind == TALK_FRONT && t->n_rows);
        if (must_be_durable && t->result == OK) {
                t->durable_seq = core_reply_seq(core);
                t->state = HANDLED;
                if (core_durable_seq(core) < t->durable_seq)
                        return;
        }
        answer(s);
}

static struct site_request *take_done(struct guard_site *s)
{
        struct site_request *q = s->done;
        s->done = NULL;
        return q;
}

static void answer_requests(struct site_request *q)
{
        for (struct site_request *next; q; q = next) {
                next = q->next;
                q->done(q);
        }
}

/* Mail of the threads. */
static void guard_hear(void *ctx)
{
        struct guard *g = ctx;
        LIST_FOREACH(&g->sites, it)
        {
                struct guard_site *s = CONTAINER_OF(it, struct guard_site, link);
                (void)pthread_mutex_lock(&s->lock);
                if (s->talk.state == ASKED)
                        hear(s);
                struct site_request *done = take_done(s);
                (void)pthread_mutex_unlock(&s->lock);
                answer_requests(done);
        }
}

static void guard_durable(void *ctx)
{
        struct guard *g = ctx;
        LIST_FOREACH(&g->sites, it)
        {
                struct guard_site *s = CONTAINER_OF(it, struct guard_site, link);
                (void)pthread_mutex_lock(&s->lock);
                if (s->talk.state == HANDLED && g->loop->durable_seen >= s->talk.durable_seq)
                        answer(s);
                (void)pthread_mutex_unlock(&s->lock);
        }
}

static struct guard_site *find_site(struct guard *g, struct slice name)
{
        LIST_FOREACH(&g->sites, it)
        {
                struct guard_site *s = CONTAINER_OF(it, struct guard_site, link);
                if (slice_eq(slice_str(s->options->name), name))
                        return s;
        }
        return NULL;
}

static void guard_wake(void *ctx, struct slice site)
{
        struct guard_site *s = find_site(ctx, site);
        if (!s)
                return;
        (void)pthread_mutex_lock(&s->lock);
        s->wants_cycle = true;
        (void)pthread_mutex_unlock(&s->lock);
        signal_fd(s->wake_fd);
}

static bool guard_request(void *ctx, struct slice site, struct site_request *q)
{
        struct guard *g = ctx;
        struct guard_site *s = g->is_stopping ? NULL : find_site(g, site);
        if (!s || sites_mode(g->loop->core, site) == MODE_OFF)
                return false;
        q->next = NULL;
        (void)pthread_mutex_lock(&s->lock);
        *s->asked_end = q;
        s->asked_end = &q->next;
        (void)pthread_mutex_unlock(&s->lock);
        signal_fd(s->wake_fd);
        return true;
}

struct sites_guard guard_for_core(struct guard *g)
{
        return (struct sites_guard){.wake = guard_wake, .request = guard_request, .ctx = g};
}

/* ---- life ---- */

static struct guard_site *site_free(struct guard_site *s)
{
        store_release(&s->store);
        site_plan_release(&s->plan);
        free(s->found);
        (void)pthread_mutex_destroy(&s->lock);
        (void)pthread_cond_destroy(&s->answered);
        if (s->stop_fd >= 0)
                (void)close(s->stop_fd); /* an eventfd: nothing can be lost */
        if (s->wake_fd >= 0)
                (void)close(s->wake_fd);
        free(s);
        return NULL;
}

static int start_thread(struct guard_site *s)
{
        sigset_t all, old;
        (void)sigfillset(&all); /* signals belong to the loop */
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        int r = pthread_create(&s->thread, NULL, guard_thread, s);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        return r;
}

int guard_start(struct guard *g, const struct store_options *options, int64_t interval_ms,
                struct guard_site **ret, struct problem *problem)
{
        struct guard_site *s = xcalloc(1, sizeof(*s));
        s->guard = g;
        s->options = options;
        s->interval_ms = interval_ms;
        s->retry_ms = RETRY_MIN_MS;
        s->asked_end = &s->asked;
        s->found = xcalloc(FRONT_FIND, sizeof(*s->found));
        s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        (void)pthread_mutex_init(&s->lock, NULL);
        (void)pthread_cond_init(&s->answered, NULL);
        store_init(&s->store, options, s->stop_fd);
        list_push_back(&g->sites, &s->link);
        int r = s->stop_fd < 0 || s->wake_fd < 0 ? errno : start_thread(s);
        if (r != 0) {
                list_remove(&s->link);
                (void)site_free(s); /* NULL */
                return problem_set(problem, ERR_IO, "no thread for the site %s: %s", options->name,
                                   strerror(r));
        }
        *ret = s;
        return OK;
}

struct guard_site *guard_stop(struct guard_site *s)
{
        if (!s)
                return NULL;
        (void)pthread_mutex_lock(&s->lock);
        s->is_stopping = true;
        (void)pthread_cond_signal(&s->answered);
        (void)pthread_mutex_unlock(&s->lock);
        signal_fd(s->stop_fd);
        int r = pthread_join(s->thread, NULL);
        ASSERT(r == 0);
        list_remove(&s->link);
        answer_requests(take_done(s));
        for (struct site_request *q = s->asked; q; q = q->next)
                q->err = problem_set(&q->problem, ERR_STOPPING, "the site is stopped");
        answer_requests(s->asked);
        return site_free(s);
}

static void end_all(struct guard *g)
{
        g->is_stopping = true;
        LIST_FOREACH(&g->sites, it)
        {
                struct guard_site *s = CONTAINER_OF(it, struct guard_site, link);
                (void)pthread_mutex_lock(&s->lock);
                struct site_request *asked = s->asked, *done = take_done(s);
                s->asked = NULL;
                s->asked_end = &s->asked;
                (void)pthread_mutex_unlock(&s->lock);
                for (struct site_request *q = asked; q; q = q->next)
                        q->err = problem_set(&q->problem, ERR_STOPPING, "weir is stopping");
                answer_requests(asked);
                answer_requests(done);
        }
}

/* ---- as a member of the loop ---- */

static bool member_has_work(const void *ctx)
{
        (void)ctx; /* mail brings all of it */
        return false;
}

static void member_none(void *ctx)
{
        (void)ctx; /* nothing to do then */
}

static bool member_flush(void *ctx)
{
        (void)ctx; /* it has no output */
        return false;
}

static void member_stop(void *ctx)
{
        end_all(ctx);
}

static bool member_is_idle(const void *ctx)
{
        (void)ctx; /* guard_stop() waits for the threads */
        return true;
}

static void member_check(const void *ctx)
{
        const struct guard *g = ctx;
        LIST_FOREACH(&g->sites, it)
        ASSERT(CONTAINER_OF(it, const struct guard_site, link)->guard == g);
}

static void member_close(void *ctx)
{
        const struct guard *g = ctx;
        ASSERT(list_is_empty(&g->sites)); /* the caller has stopped them */
}

struct guard *guard_new(struct loop *loop)
{
        static const struct loop_ops ops = {.has_work = member_has_work,
                                            .run = member_none,
                                            .durable = guard_durable,
                                            .flush = member_flush,
                                            .stop = member_stop,
                                            .cut = member_none,
                                            .is_idle = member_is_idle,
                                            .check = member_check,
                                            .close = member_close,
                                            .free = free};
        static const uint64_t no_bytes; /* its clients are those of the doors */
        struct guard *g = xcalloc(1, sizeof(*g));
        g->loop = loop;
        g->mail = (struct loop_mail){.deliver = guard_hear, .ctx = g};
        list_init(&g->sites);
        loop_join(loop, (struct loop_member){&ops, g, &no_bytes});
        return g;
}
