/* When a batch goes to the log, and who waits for the disk.
 *
 * That depends on the disk and on the load (measured on two cores, a sync of 100 us).  As long as
 * syncs are quick and batches small, the loop waits itself: waking the log's thread and being woken
 * by it would cost a third of the sync again, and meanwhile the next commands of all other clients
 * collect in their sockets, so the next batch has them all.  That is 1.3 times the commands at 1, 8
 * and 64 clients.  The price: an answer that needs no disk may be late by one sync.  So while
 * clients check, the thread does it, and gives way to the loop (log.h).
 *
 * Large batches, as pipelining makes them, and slow syncs are left to the thread: the loop applies
 * the next batch meanwhile.  With slow syncs the clients just answered are about to send their next
 * command, and taking them along makes one batch of what would become two.  The loop waits for them
 * awake, for at most an eighth of a sync, and only until as many have come as were answered. */
#include "core/core.h"
#include "loop/loop_int.h"

/* How long the next commands of answered clients are waited for: a share of a sync, and never
 * long; and for how many it is worth it. */
#define GATHER_SHARE 8
#define GATHER_NS    400000
#define GATHER_MIN   4
#define GATHER_MAX   512
/* While syncs take less than this, the loop waits for those of batches of at most so many
 * commands itself. */
#define QUICK_SYNC_NS 500000
#define NOW_COMMANDS  128
/* After a check, more are expected for this long. */
#define CHECKS_NS (600 * NS_PER_S)

static bool has_quick_syncs(const struct loop *l)
{
        return core_sync_ns(l->core) < QUICK_SYNC_NS;
}

void loop_note_check(struct loop *l)
{
        l->checked_ns = l->now.steady_ns;
}

void loop_hand_over_batch(struct loop *l)
{
        if (l->gather_until_ns) {
                if (l->n_requests < l->gather_want && uv_hrtime() < l->gather_until_ns)
                        return;
                l->gather_until_ns = 0;
                (void)uv_idle_stop(&l->gather); /* never fails */
        }
        uint64_t n = l->n_requests - l->committed;
        bool is_checked = l->checked_ns && l->now.steady_ns - l->checked_ns < CHECKS_NS;
        bool is_now = n <= NOW_COMMANDS && has_quick_syncs(l) && !is_checked;
        core_log_gives_way(l->core, is_checked);
        uint64_t began_ns = is_now ? uv_hrtime() : 0;
        if (!(is_now ? core_commit_now(l->core) : core_commit(l->core)))
                return;
        l->committed += n;
        if (is_now)
                l->turns.waited_ns += uv_hrtime() - began_ns;
}

/* The clients of a batch that was just answered are likely to send their next command at once:
 * waiting for them a little, awake, makes one batch of what would become two. */
static void gather(struct loop *l, uint64_t answered)
{
        uint64_t ns = core_sync_ns(l->core) / GATHER_SHARE;
        if (answered < GATHER_MIN || answered > GATHER_MAX || has_quick_syncs(l))
                return;
        l->gather_until_ns = uv_hrtime() + (ns < GATHER_NS ? ns : GATHER_NS);
        l->gather_want = l->n_requests + answered;
        (void)uv_idle_start(&l->gather, loop_on_idle); /* fails only without a callback */
}

/* A log without a thread reports from inside core_commit, so this looks again after each. */
void loop_take_durable(struct loop *l)
{
        for (;;) {
                uint64_t seq = atomic_load_explicit(&l->durable_seq, memory_order_acquire);
                if (seq <= l->durable_seen)
                        return;
                l->durable_seen = seq;
                core_durable(l->core, seq);
                gather(l, l->committed - l->answered);
                l->answered = l->committed;
                loop_hand_over_batch(l);
                EACH_MEMBER (l, m)
                        m->ops->durable(m->ctx);
        }
}

void loop_log_durable(struct loop *l, uint64_t seq)
{
        atomic_store_explicit(&l->durable_seq, seq, memory_order_release);
        if (!pthread_equal(pthread_self(), l->thread))
                loop_post(l, &l->durable_mail);
}
