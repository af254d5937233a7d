/* REGISTRYTRY: how many waiting jobs would a pattern move from which tier to which?
 *
 * All live jobs are walked, a bounded number a turn, and those that wait are looked up in two
 * registries: the one that holds and the one that would.  Jobs share hooks, so what a hook moves
 * from and to is remembered by its name for the length of a step; names may be freed and their
 * memory used again between turns, so not longer.  Jobs that come or go while a walk is going on
 * may be counted or not; on a walk of one turn the count is exact.
 *
 * Costs: about 40 ns a job, so 20,000 jobs keep a turn below a millisecond. */
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "throttle/throttle_state.h"

#define STEP_JOBS   20000
#define HOOKS_KNOWN 512 /* a power of two */

struct trial {
        struct session_wait base;
        struct list link; /* on throttle.tries */
        struct registry *now, *then;
        uint64_t at; /* the walk goes on below this id */
        uint64_t moves[TIERS][TIERS];
};

struct known_hook {
        const struct name *name;
        uint8_t from, to;
};

static void trial_free(struct trial *y)
{
        registry_free(y->now);
        registry_free(y->then);
        free(y);
}

static const struct known_hook *look_up(const struct trial *y, struct known_hook *known,
                                        const struct name *hook)
{
        /* Names are allocated: their low bits say nothing. */
        struct known_hook *k = &known[((uintptr_t)hook >> 5) % HOOKS_KNOWN];
        if (k->name != hook)
                *k = (struct known_hook){hook, (uint8_t)registry_tier(y->now, name_slice(hook)),
                                         (uint8_t)registry_tier(y->then, name_slice(hook))};
        return k;
}

/* True when all have been looked at. */
static bool step(const struct core *core, struct trial *y)
{
        struct known_hook known[HOOKS_KNOWN] = {{0}};
        for (size_t n = 0; n < STEP_JOBS; n++) {
                uint64_t id;
                const struct job *job =
                        y->at > 1 ? idmap_prev(&core->state.jobs, y->at - 1, &id) : NULL;
                if (!job)
                        return true;
                y->at = id;
                bool is_waiting = job->state != JOB_LEASED && job->state != JOB_FINISHED;
                if (!is_waiting || (job->extra && job->extra->options.tier))
                        continue; /* a job with a tier of its own keeps it */
                const struct known_hook *k = look_up(y, known, job->hook);
                y->moves[k->from][k->to]++;
        }
        return false;
}

static void tell_moves(struct reply *reply, const struct reply_items *items)
{
        const struct trial *y = items->of;
        for (size_t from = 0; from < TIERS; from++)
                for (size_t to = 0; to < TIERS; to++) {
                        const struct tier_move_reply told = {
                                .from = tier_name((enum tier)from),
                                .to = tier_name((enum tier)to),
                                .jobs = (int64_t)y->moves[from][to],
                        };
                        if (from != to && told.jobs)
                                reply_tier_move(reply, &told);
                }
}

static void tell(const struct trial *y, struct reply *reply)
{
        struct registry_try_reply told = {.moves = {0, tell_moves, NULL, y}};
        for (size_t from = 0; from < TIERS; from++)
                for (size_t to = 0; to < TIERS; to++)
                        if (from != to && y->moves[from][to]) {
                                told.total += (int64_t)y->moves[from][to];
                                told.moves.n++;
                        }
        reply_registry_try(reply, &told);
}

static void cancel(struct core *core, struct session_wait *w)
{
        struct trial *y = CONTAINER_OF(w, struct trial, base);
        list_remove(&y->link);
        wait_end(core, w);
        trial_free(y);
}

static const struct wait_ops trial_wait_ops = {.cancel = cancel};

static void registry_try_turn(struct core *core)
{
        LIST_FOREACH(&core->throttle->tries, it)
        {
                struct trial *y = CONTAINER_OF(it, struct trial, link);
                struct session *session = y->base.session;
                if (!step(core, y))
                        continue;
                list_remove(it);
                wait_end(core, &y->base);
                tell(y, session->ops->reply_begin(session));
                session->ops->reply_end(session);
                trial_free(y);
        }
}

int exec_registrytry(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        struct slice pattern = cmd->arg[P_REGISTRYTRY_PATTERN].text;
        int r = registry_check_pattern(pattern, problem);
        if (r != OK)
                return r;
        const struct registry_entry more = {pattern, (enum tier)cmd->arg[P_REGISTRYTRY_TIER].num};
        struct trial *y = xcalloc(1, sizeof(*y));
        y->now = throttle_build_registry(core, NULL);
        y->then = throttle_build_registry(core, &more);
        y->at = core->state.next_id;
        if (step(core, y)) {
                tell(y, reply);
                trial_free(y);
                return OK;
        }
        wait_begin(core, &y->base, &trial_wait_ops, session);
        list_push_back(&core->throttle->tries, &y->link);
        return CORE_LATER;
}

static int64_t registry_try_next_ns(const struct core *core)
{
        return list_is_empty(&core->throttle->tries) ? INT64_MAX : core->now.steady_ns;
}

const struct feature registry_tries_feature = {.name = "trials of the registry",
                                               .turn = registry_try_turn,
                                               .next_ns = registry_try_next_ns};
