/* See guard.h.
 *
 * A conversation is one question of the thread and one answer of the loop:
 *
 *      IDLE     -> ASKED      guard_talk(), on the thread: posts a mail and waits
 *      ASKED    -> HANDLED    hear(), on the loop: the question has effects that must be durable
 *      ASKED    -> IDLE       hear(): answered at once
 *      HANDLED  -> IDLE       guard_durable(): the effects are durable, the thread goes on
 *
 * What a question carries is in struct talk: the thread owns it while IDLE, the loop otherwise. */
#include "guard/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "guard/guard_site.h"

#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 30000

struct guard {
        struct loop *loop;
        struct loop_mail mail;
        struct list sites;
        guard_found found; /* may be NULL */
        void *found_ctx;
        bool is_stopping;
};

/* ---- the thread: talking to the loop ---- */

int guard_talk(struct guard_site *s, enum talk_kind kind)
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

void guard_tell_failed(struct guard_site *s, const struct problem *problem)
{
        s->talk.problem = *problem;
        (void)guard_talk(s, TALK_FAILED); /* ERR_STOPPING: there is no one to tell */
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

void guard_serve_requests(struct guard_site *s)
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

bool guard_is_interrupted(struct guard_site *s)
{
        (void)pthread_mutex_lock(&s->lock);
        bool is = s->wants_cycle || s->is_stopping;
        (void)pthread_mutex_unlock(&s->lock);
        return is;
}

static void *guard_thread(void *ctx)
{
        struct guard_site *s = ctx;
        for (;;) {
                int64_t rest_ms = 0;
                int r = guard_talk(s, TALK_MODE);
                (void)pthread_mutex_lock(&s->lock);
                bool is_stopping = s->is_stopping;
                s->wants_cycle = false;
                enum gate_mode mode = s->talk.mode;
                (void)pthread_mutex_unlock(&s->lock);
                if (is_stopping)
                        return NULL;
                if (mode == MODE_OFF) {
                        store_close(&s->store);
                } else {
                        r = guard_look_for_blogs(s);
                        r = r == OK ? guard_cycle(s, mode, &rest_ms) : r;
                }
                if (r == OK) {
                        s->retry_ms = RETRY_MIN_MS;
                        rest_ms = rest_ms ? rest_ms : s->interval_ms;
                } else {
                        rest_ms = s->retry_ms > s->interval_ms ? s->retry_ms : s->interval_ms;
                        s->retry_ms =
                                2 * s->retry_ms < RETRY_MAX_MS ? 2 * s->retry_ms : RETRY_MAX_MS;
                }
                guard_rest(s, rest_ms);
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
                sites_fronted(core, name, t->asked, t->fronts, &t->n_rows, t->is_all);
                break;
        case TALK_TOP_UP:
                sites_top_up(core, name, &t->pace, t->plan);
                break;
        case TALK_BLOGS:
                free(s->blogs);
                s->blogs = TAKE_PTR(t->blogs);
                break;
        case TALK_STRAYS:
                sites_take_strays(core, name, t->strays, &t->n_rows, t->is_taken);
                break;
        }
        bool must_be_durable = t->kind == TALK_PROPOSE || t->kind == TALK_SHIFT ||
                               (t->kind == TALK_FRONT && t->n_rows) ||
                               (t->kind == TALK_STRAYS && t->is_taken && t->n_rows);
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

static struct network_blogs *take_blogs(struct guard *g, const char **ret_site)
{
        LIST_FOREACH(&g->sites, it)
        {
                struct guard_site *s = CONTAINER_OF(it, struct guard_site, link);
                (void)pthread_mutex_lock(&s->lock);
                struct network_blogs *blogs = TAKE_PTR(s->blogs);
                (void)pthread_mutex_unlock(&s->lock);
                *ret_site = s->options->name;
                if (blogs)
                        return blogs;
        }
        return NULL;
}

/* Outside of all locks and lists: sites are started and stopped for it. */
static void tell_blogs(struct guard *g)
{
        const char *site;
        for (struct network_blogs *blogs; (blogs = take_blogs(g, &site));) {
                if (g->found)
                        g->found(g->found_ctx, site, blogs);
                free(blogs);
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
        tell_blogs(g);
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

void guard_set_found(struct guard *g, guard_found found, void *ctx)
{
        g->found = found;
        g->found_ctx = ctx;
}

/* ---- life ---- */

static struct guard_site *site_free(struct guard_site *s)
{
        store_release(&s->store);
        site_plan_release(&s->plan);
        free(s->found);
        free(s->blogs);
        free(s->talk.blogs); /* the loop did not take it any more */
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
        s->move_rows = SITE_ROWS_MAX;
        s->asked_end = &s->asked;
        s->found = xcalloc(GUARD_FRONT_FIND, sizeof(*s->found));
        s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        (void)pthread_mutex_init(&s->lock, NULL);
        (void)pthread_cond_init(&s->answered, NULL);
        store_init(&s->store, options, s->stop_fd);
        s->store.ledger = (struct store_ledger){guard_take_strays, s};
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
