/* See now.h.
 *
 * NOW is made of what other rooms count; nothing is kept for it.
 *
 * THROTTLED is a ring of the last actions that were held back.  Jobs are one entry each.  Checks
 * may be refused a million times a second, so within a second those of the same identity, reason
 * and target are one entry that counts them; a hash finds it.  And when a second has filled the
 * ring with checks already, more of them are only passed over: else many identities would push
 * each other out of it, and each refusal would pay for the text of an entry that nobody sees.  So a
 * refused check costs one look into the hash, and memory is what the ring has. */
#include "operator/now.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/replies.h"
#include "base/shown.h"
#include "numbers/last_hour.h"
#include "numbers/series.h"
#include "throttle/throttle_int.h"

#define RATE_SECONDS   5
#define COUNT_DEFAULT  20
#define TARGET_SHOWN   64
#define KEY_HEAD       3 /* verdict, reason, target */
#define DECIMAL_DIGITS 10

/* ---- what was held back ---- */

struct action {
        struct hash_node node; /* while is_counting; key: the head and the identity */
        bool is_counting;      /* a check that more of its kind are counted into */
        bool is_job;
        bool is_done;    /* else it only would have been */
        int64_t second;  /* steady */
        int64_t wall_ms; /* of the first of them */
        uint64_t job;
        uint64_t times;
        enum tier tier;
        const char *reason;
        char target[TARGET_SHOWN];
        char text[THROTTLE_TEXT];
        size_t key_len;
        char key[KEY_HEAD + IDENTITY_BYTES];
};

struct throttled {
        struct action actions[THROTTLED_KEPT];
        uint64_t n; /* ever; the next one's place is n % THROTTLED_KEPT */
        struct hash counting;
        int64_t second; /* of the last new entry of a check */
        unsigned n_new; /* entries of checks made in that second */
};

struct throttled *throttled_new(uint64_t hash_seed)
{
        struct throttled *t = xcalloc(1, sizeof(*t));
        hash_init(&t->counting, hash_seed);
        return t;
}

struct throttled *throttled_free(struct throttled *t)
{
        if (!t)
                return NULL;
        hash_release(&t->counting);
        free(t);
        return NULL;
}

static void stop_counting(struct throttled *t, struct action *a)
{
        if (a->is_counting)
                hash_remove(&t->counting, &a->node);
        a->is_counting = false;
}

/* How much of a text fits, without cutting a character of UTF-8. */
static size_t fitting(struct slice text, size_t room)
{
        if (text.len <= room)
                return text.len;
        while (room > 0 && ((unsigned char)text.ptr[room] & 0xc0) == 0x80)
                room--;
        return room;
}

static void put_text(char *ret, size_t size, const char *text)
{
        size_t n = fitting(slice_str(text), size - 1);
        memcpy(ret, text, n);
        ret[n] = '\0';
}

static struct action *action_new(struct core *core, const char *target, const char *text)
{
        struct throttled *t = core->throttled;
        struct action *a = &t->actions[t->n++ % THROTTLED_KEPT];
        stop_counting(t, a);
        a->second = core->now.steady_ns / NS_PER_S;
        a->wall_ms = core->now.wall_ms;
        a->times = 1;
        put_text(a->target, sizeof(a->target), target);
        put_text(a->text, sizeof(a->text), text);
        return a;
}

void throttled_deferral(struct core *core, const struct job *job, enum tier tier,
                        const struct gate_answer *answer, const char *target, const char *text)
{
        struct action *a = action_new(core, target, text);
        struct slice group = name_slice(job->group);
        char who[3 * LIMIT_NAME_BYTES + 32];
        int n = snprintf(who, sizeof(who), "%llu:%.*s:%.*s%s%.*s", (unsigned long long)job_id(job),
                         (int)job->hook->len, job->hook->text, (int)job->queue->name->len,
                         job->queue->name->text, group.len ? ":" : "", (int)group.len,
                         group.len ? group.ptr : "");
        size_t len = fitting(slice_make(who, (size_t)n), IDENTITY_BYTES);
        memcpy(a->key + KEY_HEAD, who, len);
        a->key_len = KEY_HEAD + len;
        a->is_job = true;
        a->is_done = answer->is_wait;
        a->job = job_id(job);
        a->tier = tier;
        a->reason = gate_reason_name(answer->reason);
}

/* "a metric is above its threshold: threads_running 150 against 15" */
static void put_why(const struct check_answer *answer, enum check_reason reason, char *ret,
                    size_t size)
{
        const struct check_metric *m =
                answer->verdict.value >= 0 ? &answer->metrics[answer->verdict.value] : NULL;
        if (answer->would.name)
                m = &answer->would;
        const char *text = check_reason_text(reason);
        const char *slot_end = strchr(answer->rule, ':'); /* the slot is for machines */
        if (reason == CHECK_THRESHOLD && m)
                (void)snprintf(ret, size, "%s: %s %g against %g", text, m->name, m->v.value,
                               m->v.threshold);
        else if (reason == CHECK_UNKNOWN && m)
                (void)snprintf(ret, size, "%s: %s%s%s", text, m->name, m->error[0] ? ", " : "",
                               m->error);
        else if ((reason == CHECK_HOLD || reason == CHECK_RATIO) && answer->rule[0])
                (void)snprintf(ret, size, "%s: %s", text,
                               SHOWN_LONG(slot_end ? slot_end + 1 : answer->rule));
        else
                (void)snprintf(ret, size, "%s", text);
}

/* False: it is passed over. */
static bool may_add(struct throttled *t, int64_t second)
{
        if (t->second != second) {
                t->second = second;
                t->n_new = 0;
        }
        if (t->n_new == THROTTLED_KEPT)
                return false;
        t->n_new++;
        return true;
}

static void new_refusal(struct core *core, const struct check_answer *answer,
                        enum check_reason reason, struct slice key)
{
        char text[2 * THROTTLE_TEXT], target[TARGET_SHOWN];
        put_why(answer, reason, text, sizeof(text));
        (void)snprintf(target, sizeof(target), "%.*s", (int)answer->target.len,
                       answer->target.len ? answer->target.ptr : "");
        struct action *a = action_new(core, target, text);
        memcpy(a->key, key.ptr, key.len);
        a->key_len = key.len;
        a->is_job = false;
        a->is_done = !answer->verdict.is_granted;
        a->job = 0;
        a->tier = answer->tier;
        a->reason = check_reason_name(reason);
        a->is_counting = true;
        hash_insert(&core->throttled->counting, &a->node, slice_make(a->key, key.len));
}

void throttled_refusal(struct core *core, const struct asking *asking,
                       const struct check_answer *answer)
{
        struct throttled *t = core->throttled;
        const struct check_verdict *v = &answer->verdict;
        enum check_reason reason = v->is_granted ? v->would_reason : v->reason;
        int64_t second = core->now.steady_ns / NS_PER_S;
        struct slice who = asking->who.whole;
        char key[KEY_HEAD + IDENTITY_BYTES] = {(char)v->is_granted, (char)reason,
                                               (char)asking->target};
        ASSERT(who.len <= IDENTITY_BYTES);
        memcpy(key + KEY_HEAD, who.ptr, who.len);
        struct slice whole = slice_make(key, KEY_HEAD + who.len);
        struct hash_node *found = hash_find(&t->counting, whole);
        struct action *a = found ? CONTAINER_OF(found, struct action, node) : NULL;
        if (a && a->second == second) {
                a->times++;
                return;
        }
        if (!may_add(t, second))
                return;
        if (a)
                stop_counting(t, a);
        new_refusal(core, answer, reason, whole);
}

/* Invariants: what the hash holds are the entries that count, each under its own key. */
void throttled_check(const struct throttled *t)
{
        size_t n = 0;
        for (size_t i = 0; i < THROTTLED_KEPT; i++) {
                const struct action *a = &t->actions[i];
                if (!a->is_counting)
                        continue;
                n++;
                ASSERT(hash_find(&t->counting, slice_make(a->key, a->key_len)) == &a->node);
        }
        ASSERT(n == t->counting.len);
}

static const char *verdict_of(const struct action *a)
{
        static const char *const verdicts[2][2] = {{"would_refuse", "refused"},
                                                   {"would_defer", "deferred"}};
        return verdicts[a->is_job][a->is_done];
}

static void tell_action(struct reply *reply, const struct action *a)
{
        reply_map(reply, 10);
        tell_int(reply, "at_ms", a->wall_ms);
        tell_str(reply, "kind", a->is_job ? "job" : "check");
        tell_text(reply, "identity", slice_make(a->key + KEY_HEAD, a->key_len - KEY_HEAD));
        tell_str(reply, "tier", tier_name(a->tier));
        tell_str(reply, "verdict", verdict_of(a));
        tell_str(reply, "reason", a->reason);
        tell_str(reply, "target", a->target);
        tell_str(reply, "text", a->text);
        reply_key(reply, "job");
        if (a->is_job)
                reply_int(reply, (int64_t)a->job);
        else
                reply_null(reply);
        tell_int(reply, "times", (int64_t)a->times);
        reply_end(reply);
}

int exec_throttled(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)problem;
        const struct throttled *t = core->throttled;
        size_t n = cmd->arg[0].is_set ? (size_t)cmd->arg[0].num : COUNT_DEFAULT;
        if (n > THROTTLED_KEPT)
                n = THROTTLED_KEPT;
        if (n > t->n)
                n = (size_t)t->n;
        reply_wrap(reply, "actions");
        reply_list(reply, n);
        for (size_t i = 1; i <= n; i++)
                tell_action(reply, &t->actions[(t->n - i) % THROTTLED_KEPT]);
        reply_end(reply);
        return OK;
}

/* ---- now ---- */

static void tell_decimal(struct reply *reply, const char *key, double value)
{
        reply_key(reply, key);
        reply_decimal(reply, value, DECIMAL_DIGITS);
}

static void tell_gate(struct core *core, struct reply *reply)
{
        const struct throttle *t = core->throttle;
        int64_t now = core->now.steady_ns, pause_ns = throttle_pause_ns(core);
        int64_t left_ms = pause_ns == INT64_MAX ? -1 : (pause_ns - now) / NS_PER_MS;
        tell_str(reply, "mode", mode_name(t->mode));
        tell_str(reply, "check_mode", mode_name(check_mode(core)));
        tell_str(reply, "level", level_name(t->enforced));
        tell_str(reply, "target", t->deciding >= 0 ? t->targets[t->deciding].name : "");
        tell_int(reply, "since_ms", (now - t->level_since_ns) / NS_PER_MS);
        throttle_tell_watched(core, reply);
        reply_key(reply, "paused");
        reply_bool(reply, pause_ns != 0);
        tell_int(reply, "pause_left_ms", pause_ns ? left_ms : 0);
        reply_key(reply, "targets");
        reply_list(reply, t->n_targets);
        for (size_t i = 0; i < t->n_targets; i++)
                throttle_tell_target(core, reply, &t->targets[i], false);
        reply_end(reply);
}

static void tell_by_tier(struct reply *reply, const char *key, const size_t n[TIERS])
{
        reply_key(reply, key);
        reply_map(reply, TIERS);
        for (size_t i = 0; i < TIERS; i++)
                tell_int(reply, tier_name((enum tier)i), (int64_t)n[i]);
        reply_end(reply);
}

static void tell_jobs(struct core *core, struct reply *reply)
{
        const struct state *s = &core->state;
        int64_t failed_from_ms;
        uint64_t ready = 0, scheduled = 0, waiting = 0;
        for (struct hash_node *n = NULL; (n = hash_next(&s->queues, n));) {
                const struct queue *q = CONTAINER_OF(n, struct queue, node);
                ready += q->n_ready;
                scheduled += q->n_scheduled;
                waiting += q->n_waiting;
        }
        reply_map(reply, 9);
        tell_int(reply, "ready", (int64_t)ready);
        tell_int(reply, "scheduled", (int64_t)scheduled);
        tell_int(reply, "waiting", (int64_t)waiting);
        tell_int(reply, "running", s->running.len);
        tell_int(reply, "finished", (int64_t)s->n_finished);
        tell_int(reply, "failed_hour", (int64_t)last_hour_failed(core, &failed_from_ms));
        tell_int(reply, "failed_from_ms", failed_from_ms);
        tell_by_tier(reply, "parked", s->n_parked);
        tell_by_tier(reply, "returning", s->n_returning);
        reply_end(reply);
}

/* NAN in the first second after the start: nothing is known yet. */
static double rate_of(const struct core *core, enum series_id id)
{
        unsigned seconds = series_known(core, RATE_SECONDS);
        return seconds ? (double)series_sum(core, id, seconds) / seconds : NAN;
}

static void tell_rates(const struct core *core, struct reply *reply)
{
        double deferred = 0;
        for (size_t i = 0; i < TIERS; i++)
                deferred += rate_of(core, (enum series_id)(SERIES_DEFERRED_CRITICAL + i));
        reply_map(reply, 7);
        tell_decimal(reply, "enqueued", rate_of(core, SERIES_ENQUEUED));
        tell_decimal(reply, "started", rate_of(core, SERIES_STARTED));
        tell_decimal(reply, "completed", rate_of(core, SERIES_COMPLETED));
        tell_decimal(reply, "failed", rate_of(core, SERIES_FAILED));
        tell_decimal(reply, "deferred", deferred);
        tell_decimal(reply, "granted", rate_of(core, SERIES_GRANTED));
        tell_decimal(reply, "refused", rate_of(core, SERIES_REFUSED));
        reply_end(reply);
}

int exec_now(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        throttle_refresh(core);
        reply_map(reply, 20);
        tell_int(reply, "at_ms", core->now.wall_ms);
        tell_int(reply, "start_ms", core->start_ms);
        tell_gate(core, reply);
        reply_key(reply, "jobs");
        tell_jobs(core, reply);
        reply_key(reply, "rates");
        tell_rates(core, reply);
        reply_key(reply, "ramp");
        throttle_tell_ramp(core, reply);
        reply_key(reply, "checks");
        reply_map(reply, 3);
        tell_int(reply, "waiting", (int64_t)core->checking->n_waiting);
        tell_int(reply, "rules", (int64_t)core->state.things[THING_RULE].len);
        tell_int(reply, "starved", (int64_t)clients_starved(core));
        reply_end(reply);
        reply_key(reply, "throttle_enabled");
        reply_bool(reply, !core->throttle->is_off);
        reply_key(reply, "locks_enabled");
        reply_bool(reply, !core->are_locks_off);
        reply_key(reply, "everything_paused");
        reply_bool(reply, core->is_everything_paused);
        tell_int(reply, "events", (int64_t)core->throttle->n_events);
        reply_end(reply);
        return OK;
}
