/* The turn, and the life of the loop.
 *
 * The first callback of a turn begins it; the check handle, which libuv runs after all callbacks of
 * a poll, ends it.  Timers are called before the poll, so the prepare handle ends a turn begun
 * there; otherwise what it did would wait until the poll returns.
 *
 * A turn is short, whatever clients send (loop/share.h).  When its time is over, work that is left
 * goes on in the next one, after a poll that does not sleep. */
#include "loop/loop.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/say.h"
#include "core/core.h"
#include "loop/loop_int.h"

void loop_on_idle(uv_idle_t *handle)
{
        (void)handle;
}

static bool has_work(const struct loop *l)
{
        EACH_MEMBER (l, m)
                if (m->ops->has_work(m->ctx))
                        return true;
        return false;
}

/* Returns whether a member has work left. */
static bool flush(const struct loop *l)
{
        bool is_left = false;
        EACH_MEMBER (l, m)
                is_left |= m->ops->flush(m->ctx);
        return is_left;
}

/* --- the lead -------------------------------------------------------------------------------- */

/* While it cannot be told, this often is looked again whether it can. */
#define HOLD_LOOK_MS 20

/* What is in memory may be told only while nobody else can lead. */
static void look_at_lead(struct loop *l)
{
        bool is_held = !core_may_tell(l->core, clock_boot_ns());
        if (is_held == l->is_held)
                return;
        l->is_held = is_held;
        if (is_held) {
                say_warn("loop", "another machine may lead by now, nothing is answered");
                loop_timer_start(&l->hold_timer, HOLD_LOOK_MS, HOLD_LOOK_MS);
        } else {
                say_info("loop", "nobody else leads, answering again");
                loop_timer_stop(&l->hold_timer);
        }
        EACH_MEMBER (l, m)
                if (m->ops->hold)
                        m->ops->hold(m->ctx, is_held);
}

static void on_hold(void *ctx)
{
        (void)ctx; /* the turn is all it is for */
}

/* --- memory --------------------------------------------------------------------------------- */

static uint64_t used_bytes(const struct loop *l)
{
        uint64_t bytes = core_live_bytes(l->core);
        EACH_MEMBER (l, m)
                bytes += *m->bytes;
        return bytes;
}

static void on_trim(void *ctx)
{
        struct loop *l = ctx;
        uint64_t bytes = used_bytes(l);
        if (trim_look(&l->trim, bytes, clock_boot_ns())) {
#ifdef __GLIBC__
                uint64_t began_ns = uv_hrtime();
                (void)malloc_trim(0); /* whether there was something to give */
                say_debug("loop", "gave freed memory back", "us",
                          SAY_I64((uv_hrtime() - began_ns) / 1000));
#endif
        }
        if (!trim_note(&l->trim, bytes))
                loop_timer_stop(&l->trim_timer);
}

/* --- the turn ------------------------------------------------------------------------------- */

void loop_turn_begin(struct loop *l)
{
        if (l->is_in_turn)
                return;
        ASSERT(l->core);
        l->is_in_turn = true;
        turn_watch_begin(&l->turns, uv_hrtime());
        share_begin(&l->share, l->turns.began_ns);
        l->boot_ns = clock_boot_ns();
        l->now.steady_ns = l->boot_ns + l->steady_base_ns;
        l->now.wall_ms = clock_wall_ms();
        core_turn(l->core, l->now);
}

static void on_core_timer(void *ctx)
{
        ((struct loop *)ctx)->core_timer_ns = INT64_MAX; /* the turn is all it is for */
}

static void arm_core_timer(struct loop *l)
{
        int64_t next = core_next_ns(l->core);
        if (next == l->core_timer_ns)
                return;
        l->core_timer_ns = next;
        if (next == INT64_MAX) {
                loop_timer_stop(&l->core_timer);
                return;
        }
        int64_t ms = (next - l->now.steady_ns + NS_PER_MS - 1) / NS_PER_MS;
        loop_timer_start(&l->core_timer, ms > 0 ? ms : 0, 0);
}

static void stop_if_done(struct loop *l)
{
        if (!l->is_stopping || l->is_stopped)
                return;
        bool is_done = core_is_settled(l->core);
        EACH_MEMBER (l, m)
                is_done = is_done && m->ops->is_idle(m->ctx);
        if (!is_done && !l->is_stop_late)
                return;
        l->is_stopped = true;
        uv_stop(&l->uv);
}

static void end_turn(struct loop *l)
{
        if (!l->is_in_turn)
                return;
        look_at_lead(l);
        l->has_work = has_work(l);
        if (l->has_work)
                share_extend(&l->share, uv_hrtime());
        uint64_t now_ns;
        do {
                if (l->has_work)
                        EACH_MEMBER (l, m)
                                m->ops->run(m->ctx);
                loop_hand_over_batch(l);
                loop_take_durable(l);
                l->has_work = flush(l);
                now_ns = uv_hrtime();
                share_look(&l->share, now_ns);
        } while (l->has_work && !l->share.is_over);
        if (l->has_work)
                (void)uv_idle_start(&l->busy, loop_on_idle); /* fails only without a callback */
        else
                (void)uv_idle_stop(&l->busy); /* never fails */
        if (trim_note(&l->trim, used_bytes(l)) && !loop_timer_is_on(&l->trim_timer))
                loop_timer_start(&l->trim_timer, TRIM_LOOK_MS, TRIM_LOOK_MS);
        arm_core_timer(l);
        l->is_in_turn = false;
        turn_watch_end(&l->turns, now_ns);
        stop_if_done(l);
        if (IS_CHECKED)
                loop_check(l);
}

static void on_prepare(uv_prepare_t *handle)
{
        end_turn(handle->data);
}

static void on_check(uv_check_t *handle)
{
        struct loop *l = handle->data;
        if (l->has_work)
                loop_turn_begin(l);
        end_turn(l);
        if (!uv_is_active((const uv_handle_t *)&l->gather))
                return;
        /* A whole turn and not only a commit: a batch that was waited for is reported from inside
         * it, and its replies would stay here until something else happens. */
        loop_turn_begin(l);
        end_turn(l);
}

/* The shortest way from the disk to the socket: the rest of the turn comes after. */
static void on_durable(void *ctx)
{
        look_at_lead(ctx);
        loop_take_durable(ctx);
        (void)flush(ctx); /* the end of the turn asks again */
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_stop_late(void *ctx)
{
        struct loop *l = ctx;
        l->is_stop_late = true;
        EACH_MEMBER (l, m)
                m->ops->cut(m->ctx);
}

void loop_stop(struct loop *l)
{
        if (l->is_stopping)
                return;
        loop_turn_begin(l);
        l->is_stopping = true;
        loop_timer_start(&l->stop_timer, LOOP_STOP_MS, 0);
        core_stop(l->core); /* ends the waits, so that members see none */
        EACH_MEMBER (l, m)
                m->ops->stop(m->ctx);
}

int loop_new(struct loop **ret, struct problem *problem)
{
        struct loop *l = xcalloc(1, sizeof(*l));
        int r = uv_loop_init(&l->uv);
        if (r == 0) {
                r = loop_mailbox_init(l); /* fails when file descriptors are out */
                if (r < 0)
                        (void)uv_loop_close(&l->uv); /* has no handles */
        }
        if (r < 0) {
                free(l);
                return problem_set(problem, ERR_IO, "cannot make an event loop: %s",
                                   uv_strerror(r));
        }
        l->prepare.data = l->check.data = l;
        /* None of these fails. */
        (void)uv_prepare_init(&l->uv, &l->prepare);
        (void)uv_check_init(&l->uv, &l->check);
        (void)uv_idle_init(&l->uv, &l->gather);
        (void)uv_idle_init(&l->uv, &l->busy);
        (void)uv_prepare_start(&l->prepare, on_prepare);
        (void)uv_check_start(&l->check, on_check);
        loop_timer_init(l, &l->gather_timer, loop_on_gather_late, l);
        loop_timer_init(l, &l->core_timer, on_core_timer, l);
        loop_timer_init(l, &l->stop_timer, on_stop_late, l);
        loop_timer_init(l, &l->trim_timer, on_trim, l);
        loop_timer_init(l, &l->hold_timer, on_hold, l);
        l->core_timer_ns = INT64_MAX;
        l->durable_mail = (struct loop_mail){.deliver = on_durable, .ctx = l};
        *ret = l;
        return OK;
}

void loop_set_core(struct loop *l, struct core *core, int64_t steady_base_ns)
{
        ASSERT(!l->core && !l->n_members);
        l->core = core;
        l->steady_base_ns = l->log_base_ns = steady_base_ns;
        l->durable_seen = core_durable_seq(core);
        atomic_init(&l->durable_seq, l->durable_seen);
}

void loop_led(struct loop *l)
{
        l->durable_seen = core_durable_seq(l->core);
        atomic_store(&l->durable_seq, l->durable_seen);
        l->committed = l->answered = l->n_requests;
        l->steady_base_ns = l->log_base_ns;
        if (!l->is_in_turn)
                return;
        /* The core has the time of the last batch until it is told another one, and commands run in
         * this turn: leases and locks that they get would be over when the next turn tells it. */
        l->now.steady_ns = l->boot_ns + l->steady_base_ns;
        core_turn(l->core, l->now);
}

void loop_advance(struct loop *l, int64_t steady_ns)
{
        l->log_base_ns = steady_ns - clock_boot_ns();
        if (l->log_base_ns > l->steady_base_ns)
                l->steady_base_ns = l->log_base_ns;
}

void loop_join(struct loop *l, struct loop_member member)
{
        ASSERT(l->core && l->n_members < LOOP_MEMBERS_MAX);
        l->members[l->n_members++] = member;
}

int loop_run(struct loop *l)
{
        ASSERT(l->core);
        l->thread = pthread_self();
        /* Jobs may be due and batches open since recovery. */
        loop_turn_begin(l);
        end_turn(l);
        if (!l->is_stopped)
                (void)uv_run(&l->uv, UV_RUN_DEFAULT); /* says whether handles are left: they are */
        return l->is_stop_late ? ERR_TIMEOUT : OK;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
        (void)ctx;
        if (!uv_is_closing(handle))
                uv_close(handle, NULL);
}

struct loop *loop_free(struct loop *l)
{
        if (!l)
                return NULL;
        EACH_MEMBER (l, m)
                m->ops->close(m->ctx);
        /* Handles of others on this loop (signals) must be closed too, or their memory could go
         * before the loop has let go of it. */
        uv_walk(&l->uv, close_handle, NULL);
        l->is_in_turn = false;
        (void)uv_run(&l->uv, UV_RUN_DEFAULT);
        int r = uv_loop_close(&l->uv);
        ASSERT(r == 0);
        EACH_MEMBER (l, m)
                m->ops->free(m->ctx);
        free(l);
        return NULL;
}

void loop_check(const struct loop *l)
{
        ASSERT(!l->is_in_turn);
        ASSERT(l->durable_seen <= atomic_load(&l->durable_seq));              /* (1) */
        ASSERT(l->answered <= l->committed && l->committed <= l->n_requests); /* (2) */
        ASSERT((uv_is_active((const uv_handle_t *)&l->gather) ||
                loop_timer_is_on(&l->gather_timer)) == (l->gather_until_ns != 0)); /* (3) */
        ASSERT(uv_is_active((const uv_handle_t *)&l->busy) == l->has_work);        /* (4) */
        ASSERT(l->has_work == has_work(l));
        ASSERT(loop_timer_is_on(&l->core_timer) == (l->core_timer_ns != INT64_MAX)); /* (5) */
        ASSERT(l->is_stopping || (!l->is_stopped && !l->is_stop_late));              /* (6) */
        ASSERT(loop_timer_is_on(&l->hold_timer) == l->is_held);                      /* (7) */
        EACH_MEMBER (l, m)
                m->ops->check(m->ctx);
}
