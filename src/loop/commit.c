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
 * awake, for at most an eighth of a sync, and only until as many have come as were answered.
 *
 * In a log of several machines a batch costs a database's commit, however small it is, and that may
 * take milliseconds.  Clients that come in two halves, one of which waits while the other is
 * written, get half of what they could then.  So there the loop waits for them, asleep, for as
 * much of a commit as they are of all: with a longer wait two halves would be quicker.  Where it
 * waited in vain (clients that work before they come back, or so many that answering them takes
 * longer), it waits after ever fewer batches. */
#include "core/core.h"
#include "loop/loop_int.h"

/* How long the next commands of answered clients are waited for: a share of a sync, and never
 * long; and for how many it is worth it. */
#define GATHER_SHARE 8
#define GATHER_NS    400000
#define GATHER_MIN   4
#define GATHER_MAX   512
/* The same for a log of several machines whose commits take at least so long. */
#define SLOW_COMMIT_NS  (2 * NS_PER_MS)
#define SLOW_GATHER_NS  (20 * NS_PER_MS)
#define SLOW_MISSED_MAX 3 /* after 2^4 batches at most it is tried again */
#define COMMIT_MEAN     8 /* the time of a commit is a mean over so many */
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
        l->checked_ns = l->boot_ns;
}

/* Whether most of the expected commands came in time. */
static bool has_paid(const struct loop *l)
{
        uint64_t came = l->n_requests - l->gather_from, want = l->gather_want - l->gather_from;
        return 2 * came >= want && uv_hrtime() < l->gather_until_ns;
}

/* A wait for a slow commit that did not pay is followed by batches without one. */
static void learn(struct loop *l)
{
        if (!has_paid(l))
                l->gather_missed += l->gather_missed < SLOW_MISSED_MAX ? 2 : 0;
        else if (l->gather_missed)
                l->gather_missed--;
        l->gather_rest = l->gather_missed ? 1u << l->gather_missed : 0;
}

static void end_gather(struct loop *l)
{
        if (!uv_is_active((const uv_handle_t *)&l->gather))
                learn(l);
        l->gather_until_ns = 0;
        (void)uv_idle_stop(&l->gather); /* never fails */
        loop_timer_stop(&l->gather_timer);
}

void loop_on_gather_late(void *ctx)
{
        struct loop *l = ctx;
        if (l->gather_until_ns)
                l->gather_until_ns = 1; /* the timer's clock is not exact; the turn ends the wait */
}

void loop_hand_over_batch(struct loop *l)
{
        if (l->gather_until_ns) {
                if (l->n_requests < l->gather_want && uv_hrtime() < l->gather_until_ns)
                        return;
                end_gather(l);
        }
        uint64_t n = l->n_requests - l->committed;
        bool is_checked = l->checked_ns && l->boot_ns - l->checked_ns < CHECKS_NS;
        bool is_now = n <= NOW_COMMANDS && has_quick_syncs(l) && !is_checked;
        core_log_gives_way(l->core, is_checked);
        uint64_t began_ns = is_now ? uv_hrtime() : 0;
        if (!(is_now ? core_commit_now(l->core) : core_commit(l->core)))
                return;
        l->committed += n;
        if (is_now)
                l->turns.waited_ns += uv_hrtime() - began_ns;
}

static bool has_slow_commits(const struct loop *l)
{
        return core_is_shared(l->core) && l->commit_ns >= SLOW_COMMIT_NS;
}

static bool may_gather(struct loop *l, uint64_t answered)
{
        if (answered < GATHER_MIN)
                return false;
        if (!has_slow_commits(l))
                return answered <= GATHER_MAX && !has_quick_syncs(l);
        if (l->gather_rest == 0)
                return true;
        l->gather_rest--;
        return false;
}

static uint64_t slow_gather_ns(const struct loop *l, uint64_t answered)
{
        uint64_t waiting = l->n_requests - l->committed;
        return l->commit_ns * answered / (answered + waiting);
}

/* The clients of a batch that was just answered are likely to send their next command at once:
 * waiting for them a little makes one batch of what would become two. */
static void gather(struct loop *l, uint64_t answered)
{
        if (!may_gather(l, answered))
                return;
        bool is_slow = has_slow_commits(l);
        uint64_t ns = is_slow ? slow_gather_ns(l, answered) : core_sync_ns(l->core) / GATHER_SHARE;
        uint64_t max_ns = is_slow ? SLOW_GATHER_NS : GATHER_NS;
        ns = ns < max_ns ? ns : max_ns;
        l->gather_until_ns = uv_hrtime() + ns;
        l->gather_from = l->n_requests;
        l->gather_want = l->n_requests + answered;
        if (is_slow)
                loop_timer_start(&l->gather_timer, (int64_t)(ns / NS_PER_MS) + 1, 0);
        else
                (void)uv_idle_start(&l->gather, loop_on_idle); /* fails only without a callback */
}

/* One that took very long (a checkpoint, a busy machine) says little about the next. */
static void note_commit(struct loop *l, uint64_t ns)
{
        uint64_t mean_ns = l->commit_ns ? l->commit_ns : ns;
        ns = ns < 2 * mean_ns ? ns : 2 * mean_ns;
        l->commit_ns = mean_ns - mean_ns / COMMIT_MEAN + ns / COMMIT_MEAN;
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
                note_commit(l, core_sync_ns(l->core));
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
