/* Asks that wait: CHECK with WAIT.
 *
 * An ask that may not go now is parked and answered when it may, so that nobody needs to poll.
 * Each identity has a lane of its parked asks, first come first served, and the lanes of a target
 * take turns: a client with a hundred asks gets no more than one with a single ask.
 *
 * The parked are looked at when a sample comes, when a pause ends, and every ROUND_NS besides (a
 * rule may have ended).
 * When the storm is over they do not all go at once: a round lets go what the credit pool of the
 * target allows, and at least one.  The dice are not rolled again for an ask within its suggested
 * wait: else waiting would beat every ratio.  And an asker that was told to pause (gate/credit.h)
 * and waits all the same is parked until then: who waits is paced without doing anything. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "checks/check_ctx.h"
#include "throttle/retarget.h"

#define ROUND_NS     (250 * NS_PER_MS)
#define ROUND_MIN_NS (100 * NS_PER_MS) /* samples may come by the hundred */
#define ROUND_DUE_NS (5 * NS_PER_MS)   /* and so may pauses end */
#define ROUND_LOOKS  1024              /* lanes looked at per round, so that a turn stays short */
#define LANE_LOOKS   64                /* asks of a lane passed by to find one of another kind */

struct lane {
        struct hash_node node; /* key: target and identity */
        struct list link;      /* on the target's lanes */
        struct list waits;
        size_t key_len;
        char key[];
};

struct check_wait {
        struct session_wait base;
        struct list link; /* on its lane */
        struct lane *lane;
        int64_t since_ns;
        int64_t again_ns; /* not looked at before */
        double roll;      /* how the dice fell that refused it; NAN: no dice did */
        struct ask_ctx ask;
        size_t n_text;
        char text[]; /* the identity, and the metrics as they were asked for */
};

static const struct wait_ops check_wait_ops;

static struct check_wait *wait_of(struct session_wait *w)
{
        return CONTAINER_OF(w, struct check_wait, base);
}

/* ---- telling ---- */

/* Printing a fraction is a quarter of a pipelined check, and samples are fewer than asks. */
static struct slice number_text(struct told_number *n, double value)
{
        if (isnan(value))
                return SLICE_NONE;
        if (n->len && n->value == value)
                return slice_make(n->text, n->len);
        bool is_whole = fabs(value) < 1e15 && (double)(int64_t)value == value;
        int len = is_whole ? snprintf(n->text, sizeof(n->text), "%lld", (long long)value)
                           : snprintf(n->text, sizeof(n->text), "%.10g", value);
        ASSERT(len > 0 && (size_t)len < sizeof(n->text));
        n->len = (uint8_t)len;
        n->value = value;
        return slice_make(n->text, n->len);
}

static void tell_answer(struct core *core, int target, struct reply *reply,
                        const struct check_answer *a)
{
        const struct check_verdict *v = &a->verdict;
        const struct check_metric *m = v->value >= 0 ? &a->metrics[v->value] : NULL;
        struct metric *of = m ? &core->throttle->targets[target].metrics[m->number] : NULL;
        bool would_refuse = v->is_granted && v->would_refuse;
        /* Slices of literals: strlen() of five fields would be 2 % of a check. */
        const struct check_reply told = {
                .verdict = v->is_granted ? SLICE_LIT("granted") : SLICE_LIT("refused"),
                .reason = check_reason_name(v->reason),
                .metric = m ? slice_str(m->name) : SLICE_LIT(""),
                .value =
                        of && m->v.is_known ? number_text(&of->told_value, m->v.value) : SLICE_NONE,
                .threshold = of ? number_text(&of->told_threshold, m->v.threshold) : SLICE_NONE,
                .age_ms = m ? m->age_ms : -1,
                .rule = a->rule,
                .wait_ms = a->wait_ms,
                .credits = a->credits,
                .credit_ms = a->credit_ms,
                .would = would_refuse ? slice_str(check_reason_name(v->would_reason))
                                      : SLICE_LIT(""),
                .target = a->target,
        };
        reply_check(reply, &told);
}

/* ---- lanes ---- */

static struct lane *lane_get(struct core *core, const struct ask_ctx *a)
{
        struct check_ctx *c = core->checking;
        char key[IDENTITY_BYTES + 1];
        size_t len = a->who.whole.len + 1;
        key[0] = (char)(a->target + 1);
        memcpy(key + 1, a->who.whole.ptr, len - 1);
        struct hash_node *n = hash_find(&c->lanes, slice_make(key, len));
        if (n)
                return CONTAINER_OF(n, struct lane, node);
        struct lane *lane = xcalloc(1, sizeof(*lane) + len);
        memcpy(lane->key, key, len);
        lane->key_len = len;
        list_init(&lane->waits);
        hash_insert(&c->lanes, &lane->node, slice_make(lane->key, len));
        list_push_back(&check_state_of(core, a->target)->lanes, &lane->link);
        return lane;
}

/* Off its lane; the lane goes when it was the last.  `w` is the caller's to answer and free. */
static void leave(struct core *core, struct check_wait *w)
{
        struct lane *lane = w->lane;
        struct check_state *s = check_state_of(core, w->ask.target);
        list_remove(&w->link);
        s->n_waiting--;
        core->checking->n_waiting--;
        wait_end(core, &w->base);
        if (!list_is_empty(&lane->waits))
                return;
        list_remove(&lane->link);
        hash_remove(&core->checking->lanes, &lane->node);
        free(lane);
}

static void answer(struct core *core, struct check_wait *w, struct check_answer *a)
{
        struct session *session = w->base.session;
        int64_t waited_ms = (core->now.steady_ns - w->since_ns) / NS_PER_MS;
        int target = w->ask.target;
        leave(core, w);
        w->ask.client = client_get(core, &w->ask.who);
        check_settle(core, &w->ask, a, waited_ms < UINT32_MAX ? (uint32_t)waited_ms : UINT32_MAX);
        check_give_credits(core, &w->ask, a);
        free(w);
        session->is_free = true;
        tell_answer(core, target, session->ops->reply_begin(session), a);
        session->ops->reply_end(session);
}

static void time_over(struct core *core, struct session_wait *base)
{
        struct check_wait *w = wait_of(base);
        struct check_answer *a = &core->checking->answer;
        if (!isnan(w->roll) && w->again_ns > core->now.steady_ns)
                w->ask.roll = &w->roll; /* a short wait is no second chance */
        check_answer(core, &w->ask, a);
        answer(core, w, a);
}

static void cancel(struct core *core, struct session_wait *base)
{
        struct check_wait *w = wait_of(base);
        leave(core, w);
        free(w);
}

static const struct wait_ops check_wait_ops = {time_over, cancel};

/* The texts of an ask, copied behind the wait. */
static void keep_texts(struct check_wait *w, const struct ask_ctx *a)
{
        struct problem problem;
        char *at = w->text;
        memcpy(at, a->who.whole.ptr, a->who.whole.len);
        ASSERT(identity_parse(slice_make(at, a->who.whole.len), &w->ask.who, &problem) == OK);
        at += a->who.whole.len;
        for (size_t i = 0; i < a->n_metrics; i++) {
                memcpy(at, a->asked[i].ptr, a->asked[i].len);
                w->ask.asked[i] = slice_make(at, a->asked[i].len);
                at += a->asked[i].len;
        }
}

/* The dice that refused an ask; NAN: none did. */
static double roll_of(const struct check_answer *a)
{
        return a->verdict.reason == CHECK_RATIO ? a->verdict.roll : NAN;
}

/* When a parked ask is looked at again. */
static int64_t again_of(const struct core *core, const struct check_answer *a)
{
        if (a->verdict.reason != CHECK_RATIO)
                return 0;
        return core->now.steady_ns + a->wait_ms * NS_PER_MS;
}

static void note_due(struct check_state *s, int64_t again_ns)
{
        if (again_ns && (!s->due_ns || again_ns < s->due_ns))
                s->due_ns = again_ns;
}

/* Puts an ask at the end of the lane of its identity and target. */
static void enter_lane(struct core *core, struct check_wait *w)
{
        struct check_state *s = check_state_of(core, w->ask.target);
        w->lane = lane_get(core, &w->ask);
        list_push_back(&w->lane->waits, &w->link);
        note_due(s, w->again_ns);
        s->n_waiting++;
        core->checking->n_waiting++;
}

static int park(struct core *core, struct session *session, const struct ask_ctx *a,
                int64_t again_ns, int64_t wait_ms)
{
        size_t n = a->who.whole.len;
        for (size_t i = 0; i < a->n_metrics; i++)
                n += a->asked[i].len;
        struct check_wait *w = xmalloc(sizeof(*w) + n);
        w->ask = *a;
        w->ask.address = slice_str(session->address); /* lives as long as the wait */
        w->since_ns = core->now.steady_ns;
        w->again_ns = again_ns;
        w->roll = a->roll ? *a->roll : NAN;
        w->ask.roll = NULL;
        keep_texts(w, a);
        wait_begin(core, &w->base, &check_wait_ops, session);
        enter_lane(core, w);
        core->checking->parked++;
        wait_until(core, &w->base, core->now.steady_ns + wait_ms * NS_PER_MS);
        return CORE_LATER;
}

/* ---- rounds ---- */

/* Asks of one identity about one target differ in no more than this: what one gets, the other
 * would. */
static bool is_alike(const struct ask_ctx *a, const struct ask_ctx *b)
{
        return a->tier == b->tier && a->n_metrics == b->n_metrics &&
               memcmp(a->metrics, b->metrics, a->n_metrics) == 0;
}

/* True: it was answered. */
static bool try_wait(struct core *core, struct check_wait *w)
{
        struct check_answer *a = &core->checking->answer;
        if (w->again_ns > core->now.steady_ns) {
                note_due(check_state_of(core, w->ask.target), w->again_ns);
                return false;
        }
        check_answer(core, &w->ask, a);
        if (a->verdict.is_granted) {
                answer(core, w, a);
                return true;
        }
        w->again_ns = again_of(core, a);
        w->roll = roll_of(a);
        note_due(check_state_of(core, w->ask.target), w->again_ns);
        return false;
}

/* Looks at the first ask of a lane, and when it may not go at the first of another kind: who waits
 * for one metric does not wait for another.  True: one was answered. */
static bool try_lane(struct core *core, struct lane *lane)
{
        const struct check_wait *last = NULL;
        size_t looks = 0;
        LIST_FOREACH(&lane->waits, it)
        {
                struct check_wait *w = CONTAINER_OF(it, struct check_wait, link);
                if (looks++ == LANE_LOOKS)
                        return false;
                if (last && is_alike(&last->ask, &w->ask))
                        continue;
                if (try_wait(core, w))
                        return true; /* and the lane may be gone */
                last = w;
        }
        return false;
}

static void serve_round(struct core *core, struct check_state *s)
{
        int64_t since = core->now.steady_ns - s->served_ns;
        double per_round =
                s->pool.credits * (double)(since < ROUND_NS ? since : ROUND_NS) / (double)NS_PER_S;
        size_t quota = per_round > 1 ? (size_t)per_round : 1;
        s->served_ns = core->now.steady_ns;
        s->due_ns = 0;
        const struct list *vain = NULL; /* the first since somebody went */
        for (size_t looks = 0; quota && looks < ROUND_LOOKS; looks++) {
                struct list *first = list_peek_front(&s->lanes);
                if (!first || first == vain)
                        return; /* nobody is left, or all were looked at in vain */
                struct lane *lane = CONTAINER_OF(first, struct lane, link);
                list_remove(first);
                list_push_back(&s->lanes, first); /* its turn is over, whatever comes of it */
                if (try_lane(core, lane)) {
                        quota--;
                        vain = NULL;
                } else if (!vain) {
                        vain = first;
                }
        }
}

void checking_turn(struct core *core)
{
        struct check_ctx *c = core->checking;
        checking_tick(core);
        for (size_t i = 0; c->n_waiting && i <= c->n_targets; i++) {
                struct check_state *s = &c->targets[i];
                int64_t since = core->now.steady_ns - s->served_ns;
                bool is_due = s->due_ns && s->due_ns <= core->now.steady_ns;
                if (s->n_waiting && (since >= ROUND_NS || (s->has_news && since >= ROUND_MIN_NS) ||
                                     (is_due && since >= ROUND_DUE_NS))) {
                        s->has_news = false;
                        serve_round(core, s);
                }
        }
}

int64_t checking_next_ns(const struct core *core)
{
        const struct check_ctx *c = core->checking;
        int64_t next = INT64_MAX;
        for (size_t i = 0; c->n_waiting && i <= c->n_targets; i++) {
                const struct check_state *s = &c->targets[i];
                int64_t at = s->served_ns + (s->has_news ? ROUND_MIN_NS : ROUND_NS);
                int64_t due = s->served_ns + ROUND_DUE_NS;
                if (s->due_ns > due)
                        due = s->due_ns;
                if (s->due_ns && due < at)
                        at = due;
                if (s->n_waiting && at < next)
                        next = at;
        }
        return next;
}

/* ---- the targets are set up again ---- */

/* All parked asks, in the order of their turns; off their lanes, which are gone. */
static void take_all(struct core *core, struct list *ret)
{
        struct check_ctx *c = core->checking;
        size_t n = 0;
        for (size_t i = 0; i <= c->n_targets; i++) {
                LIST_FOREACH(&c->targets[i].lanes, it)
                {
                        struct lane *lane = CONTAINER_OF(it, struct lane, link);
                        LIST_FOREACH(&lane->waits, wait)
                        {
                                list_remove(wait);
                                list_push_back(ret, wait);
                                n++;
                        }
                        list_remove(it);
                        hash_remove(&c->lanes, &lane->node);
                        free(lane);
                }
        }
        ASSERT(n == c->n_waiting);
        c->n_waiting = 0;
}

static void answer_gone(struct core *core, struct check_wait *w, const struct target *old)
{
        struct session *session = w->base.session;
        struct problem problem;
        (void)problem_set(&problem, ERR_NOTFOUND,
                          "target '%s', or a metric that was asked for, is not configured any more",
                          old[w->ask.target].name);
        wait_end(core, &w->base);
        free(w);
        session->is_free = true;
        reply_error(session->ops->reply_begin(session), &problem);
        session->ops->reply_end(session);
}

/* False: the target or a metric of the ask is gone. */
static bool renumber(struct ask_ctx *a, const struct retarget *map)
{
        int target = retarget_target(map, a->target);
        if (a->target < 0)
                return true; /* it asked about none */
        for (size_t i = 0; i < a->n_metrics; i++) {
                int metric = retarget_metric(map, a->target, a->metrics[i]);
                if (metric < 0)
                        return false;
                a->metrics[i] = (uint8_t)metric;
        }
        if (target < 0)
                return false;
        a->target = target;
        return true;
}

void checking_retarget(struct core *core, const struct retarget *map, const struct target *old)
{
        struct check_ctx *c = core->checking;
        struct check_state *states = c->targets;
        struct list parked;
        list_init(&parked);
        take_all(core, &parked);
        c->targets = NULL;
        checking_reset(core);
        ASSERT(c->targets);
        for (size_t i = 0; i < map->n_old; i++) {
                if (map->old[i].target < 0)
                        continue;
                struct check_state *to = &c->targets[map->old[i].target];
                to->pool = states[i].pool;
                to->refused_ns = states[i].refused_ns;
                to->healthy_ms = states[i].healthy_ms;
                to->served_ns = states[i].served_ns;
        }
        free(states);
        LIST_FOREACH(&parked, it)
        {
                struct check_wait *w = CONTAINER_OF(it, struct check_wait, link);
                list_remove(it);
                if (renumber(&w->ask, map))
                        enter_lane(core, w);
                else
                        answer_gone(core, w, old);
        }
        clients_retarget(core, map);
}

/* ---- the command ---- */

int exec_check(struct core *core, struct session *session, const struct command *cmd,
               struct reply *reply, struct problem *problem)
{
        const struct arg *arg = cmd->arg;
        struct check_answer *a = &core->checking->answer;
        struct ask_ctx asking;
        struct check_ask ask = {
                .identity = arg[P_CHECK_IDENTITY].text,
                .target = arg[P_CHECK_TARGET].is_set ? arg[P_CHECK_TARGET].text : SLICE_NONE,
                .tier = arg[P_CHECK_PRIORITY].is_set ? (int)arg[P_CHECK_PRIORITY].num : -1,
                .metrics = arg[P_CHECK_METRICS].is_set ? cmd->claim.queues : NULL,
                .n_metrics = arg[P_CHECK_METRICS].is_set ? cmd->claim.n_queues : 0,
                .threshold = NAN,
                .cost = arg[P_CHECK_COST].is_set ? (uint32_t)arg[P_CHECK_COST].num : 1,
                .address = slice_str(session->address),
                .is_authenticated = session->is_authenticated,
        };
        int r = check_look_up(core, &ask, &asking, problem);
        if (r != OK)
                return r;
        throttle_ask(core);
        bool may_wait = arg[P_CHECK_WAIT].is_set && arg[P_CHECK_WAIT].num > 0 && !core->is_stopping;
        if (may_wait && check_paced_ns(&asking) > core->now.steady_ns)
                return park(core, session, &asking, check_paced_ns(&asking), arg[P_CHECK_WAIT].num);
        check_answer(core, &asking, a);
        if (may_wait && !a->verdict.is_granted) {
                double roll = roll_of(a);
                asking.roll = &roll;
                return park(core, session, &asking, again_of(core, a), arg[P_CHECK_WAIT].num);
        }
        check_settle(core, &asking, a, 0);
        check_give_credits(core, &asking, a);
        tell_answer(core, asking.target, reply, a);
        return OK;
}
