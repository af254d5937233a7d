/* The law of admission: tickets, limits, counts and words.  See admission.h.
 *
 *      state            entered by                     leaves by
 *      NONE             admission_end, _leave,         admission_ask
 *                       a refusal
 *      WAITING          admission_ask                  ticket_run, ticket_refuse, _leave
 *      RUNNING          admission_ask, ticket_run      admission_end, _leave
 *
 * Invariants, checked by admission_check():
 *      (1) every waiting ticket stands in the lane of its class that its dice and tier say, in the
 *          order in which they asked
 *      (2) a class is in the lines that lanes_settle() would put it into, and has an alarm exactly
 *          when tickets of it wait
 *      (3) the sums over the classes are right: running, executing, excess
 *      (4) no ticket waits that could go, but for those left to the next turn (is_behind); so while
 *          tickets of a tier wait for the window, one of it executes
 *      (5) the window is 1 at least
 *
 * When the policy grants and no ticket waits, asking and ending touch the class, the ticket and the
 * first lines of the admission: no search, no allocation, no text. */
#include "gate/admission.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/admission_int.h"

#define WAIT_MAX_NS     (86400 * NS_PER_S)
#define INTERVAL_MAX_NS (1000000 * NS_PER_S) /* between two starts of the lowest rate */
#define DEBT_MAX_NS     (1000000 * NS_PER_S) /* of a budget */
#define RETRY_MS        1000                 /* when no limit says more */
#define COST_OF         8                    /* transactions that the average cost is of */
#define LONG_AGO        (INT64_MIN / 4)

static const struct {
        const char *name, *text;
} reasons[ADMIT_REASONS] = {
#define X(id, name, text) {name, text},
        ADMIT_REASON_MAP(X)
#undef X
};

const char *admit_reason_name(enum admit_reason reason)
{
        ASSERT((unsigned)reason < ADMIT_REASONS);
        return reasons[reason].name;
}

const char *admit_reason_text(enum admit_reason reason)
{
        ASSERT((unsigned)reason < ADMIT_REASONS);
        return reasons[reason].text;
}

/* Times come from several threads, so one may be a little older than the last. */
static void pass_time(struct admission *a, int64_t now_ns)
{
        if (a->now_ns < now_ns)
                a->now_ns = now_ns;
}

static struct admit_class *class_at(const struct admission *a, size_t number)
{
        ASSERT(number < a->n && a->classes[number]);
        return a->classes[number];
}

struct admission *admission_new(uint64_t seed, admission_decided decided, void *ctx)
{
        struct admission *a = xcalloc(1, sizeof(*a));
        a->now_ns = LONG_AGO;
        a->decided = decided;
        a->ctx = ctx;
        rng_init_seed(&a->rng, seed);
        for (unsigned i = 0; i < LINES; i++)
                heap_init(&a->ready[i]);
        heap_init(&a->alarms);
        look_init(a);
        return a;
}

struct admission *admission_free(struct admission *a)
{
        if (!a)
                return NULL;
        for (size_t i = 0; i < a->n; i++)
                free(a->classes[i]);
        for (unsigned i = 0; i < LINES; i++)
                heap_release(&a->ready[i]);
        heap_release(&a->alarms);
        a->digests = digests_free(a->digests);
        door_policy_unref(a->policy);
        free(a);
        return NULL;
}

/* ---- words ---- */

static const struct class_verdicts *verdicts_of(const struct admission *a,
                                                const struct admit_class *c)
{
        if (!a->policy || c->number >= a->policy->n || !a->policy->classes[c->number].is_known)
                return NULL;
        return &a->policy->classes[c->number];
}

static uint32_t retry_after(double wait_ns)
{
        return (uint32_t)fmin(fmax(0, floor(wait_ns / NS_PER_MS)) + 1, UINT32_MAX);
}

static uint32_t retry_ms(const struct admission *a, const struct admit_class *c,
                         enum admit_reason reason)
{
        const struct class_verdicts *v = verdicts_of(a, c);

        if (reason == ADMIT_BY_RATE)
                return retry_after((double)(c->next_ns - a->now_ns) +
                                   (double)c->waiting * (double)c->interval_ns);
        if (reason == ADMIT_BY_BUDGET)
                return retry_after((double)(c->paid_ns - a->now_ns));
        if (reason == ADMIT_BY_POLICY && v && v->retry_ms)
                return v->retry_ms;
        return RETRY_MS;
}

/* "its class runs as many as it may (2)". */
static void say_limit(const struct admission *a, const struct admit_class *c,
                      struct admit_answer *ret)
{
        const char *text = admit_reason_text(ret->reason);
        size_t size = sizeof(ret->why);

        switch (ret->reason) {
        case ADMIT_BY_CONCURRENCY:
                (void)snprintf(ret->why, size, "%s (%u)", text, c->limits.concurrency);
                break;
        case ADMIT_BY_RATE:
                (void)snprintf(ret->why, size, "%s (%g)", text, c->limits.rate);
                break;
        case ADMIT_BY_BUDGET:
                (void)snprintf(ret->why, size, "%s (%g ms a second)", text,
                               (double)c->limits.budget_ns / NS_PER_MS);
                break;
        case ADMIT_BY_DOOR:
                (void)snprintf(ret->why, size, "%s (%u)", text, a->concurrency);
                break;
        case ADMIT_BY_NONE:
        case ADMIT_BY_POLICY:
        case ADMIT_BY_LOAD:
        case ADMIT_BY_NEW:
        case ADMIT_REASONS:
        default:
                (void)snprintf(ret->why, size, "%s", text);
                break;
        }
}

/* "the window of 4 is full, 6 of its class execute, usually 2; the database is 2.5 times as slow as
 * usual, 40 statements run, usually up to 9". */
static void say_load(const struct admission *a, const struct admit_class *c,
                     struct admit_answer *ret)
{
        char usual[32] = "none usually", why[ADMIT_WHY] = "";
        if (c->free)
                (void)snprintf(usual, sizeof(usual), "usually %u", c->free);
        if (a->is_over)
                look_say(a, why, sizeof(why));
        (void)snprintf(ret->why, sizeof(ret->why),
                       "the window of %u is full, %u of its class execute, %s%s%s", window_size(a),
                       c->executing, usual, why[0] ? "; " : "", why);
}

/* "a rule holds it: ... (the rule)". */
static void say_policy(const struct admission *a, const struct admit_class *c,
                       struct admit_answer *ret)
{
        const struct class_verdicts *v = verdicts_of(a, c);
        const char *why = v ? v->why : "", *rule = v ? v->rule : "";
        int n = snprintf(ret->why, sizeof(ret->why), "%s%s%s", check_reason_text(ret->check_reason),
                         why[0] ? ": " : "", why);
        /* The rule is left out where it has no room, and never cut. */
        if (rule[0] && n > 0 && (size_t)n + strlen(rule) + 4 < sizeof(ret->why))
                (void)snprintf(ret->why + n, sizeof(ret->why) - (size_t)n, " (%s)", rule);
}

static void say_why(const struct admission *a, const struct admit_class *c,
                    struct admit_answer *ret)
{
        if (ret->reason == ADMIT_BY_POLICY)
                say_policy(a, c, ret);
        else if (ret->reason == ADMIT_BY_LOAD)
                say_load(a, c, ret);
        else
                say_limit(a, c, ret);
}

/* ---- counts ---- */

static void count_time(struct admit_times *times, int64_t ns)
{
        uint64_t units = ns > 0 ? ((uint64_t)ns + 15999) / 16000 : 0;
        unsigned i = units > 1 ? 64 - (unsigned)__builtin_clzll(units - 1) : 0;
        times->n[i < ADMIT_BUCKETS ? i : ADMIT_BUCKETS - 1]++;
        times->sum_ns += ns > 0 ? (uint64_t)ns : 0;
}

static void count_held(struct admit_class *c, struct ticket *t, enum admit_reason reason)
{
        t->is_held = true;
        c->counts.held++;
        c->counts.by_reason[reason]++;
}

/* A wait has ended.  The moment that the core needs for a new class does not count. */
static void count_wait(struct admit_class *c, struct ticket *t)
{
        bool is_long = t->state == TICKET_NONE || t->waited_ns >= NEW_LEAST_NS;
        if (!t->is_held && is_long)
                count_held(c, t, ADMIT_BY_NEW);
        if (t->is_held)
                count_time(&c->counts.waits, t->waited_ns);
}

/* ---- starting and ending ---- */

void ticket_start(struct admission *a, struct admit_class *c, struct ticket *t, bool takes_rate)
{
        if (takes_rate && c->interval_ns) {
                int64_t from_ns = a->now_ns - c->slack_ns;
                c->next_ns = (c->next_ns > from_ns ? c->next_ns : from_ns) + c->interval_ns;
        }
        t->state = TICKET_RUNNING;
        t->waited_ns = a->now_ns - t->asked_ns;
        c->running++;
        a->running++;
        ticket_execute(a, c, t);
        c->counts.transactions++;
        c->counts.last_ns = a->now_ns;
}

static void answer_init(struct admit_answer *ret, enum admit_verdict verdict,
                        enum admit_reason reason)
{
        ret->verdict = verdict;
        ret->reason = reason;
        ret->check_reason = CHECK_GRANTED;
        ret->would_wait = false;
        ret->retry_ms = 0;
        ret->waited_ns = 0;
        ret->why[0] = '\0';
}

void ticket_run(struct admission *a, struct admit_class *c, struct ticket *t)
{
        struct admit_answer answer;

        answer_init(&answer, ADMIT_RUN, ADMIT_BY_NONE);
        ticket_start(a, c, t, true);
        answer.waited_ns = t->waited_ns;
        count_wait(c, t);
        a->decided(a->ctx, t, &answer);
}

static void answer_refused(const struct admission *a, struct admit_class *c, struct ticket *t,
                           enum admit_reason reason, struct admit_answer *ret)
{
        answer_init(ret, ADMIT_REFUSE, reason);
        ret->check_reason = (enum check_reason)c->reason[band_of(c, t->roll)];
        ret->retry_ms = retry_ms(a, c, reason);
        ret->waited_ns = t->waited_ns = a->now_ns - t->asked_ns;
        say_why(a, c, ret);
        t->state = TICKET_NONE;
        c->counts.refused++;
        c->counts.last_ns = a->now_ns;
        count_wait(c, t);
}

void ticket_refuse(struct admission *a, struct admit_class *c, struct ticket *t,
                   enum admit_reason reason)
{
        struct admit_answer answer;

        answer_refused(a, c, t, reason, &answer);
        a->decided(a->ctx, t, &answer);
}

/* The window is used up: it may grow.  What only observes says so where nothing is enforced. */
static void note_full(struct admission *a, enum admit_reason reason, bool is_enforced)
{
        if (reason == ADMIT_BY_LOAD && (is_enforced || !a->n_enforced))
                a->is_used_up = true;
}

/* Lets it go, and says what enforcing everything would have done. */
static void observe(struct admission *a, struct admit_class *c, struct ticket *t,
                    struct admit_answer *ret)
{
        unsigned band = band_of(c, t->roll);
        enum lane_kind kind = (enum lane_kind)c->would[band];
        enum admit_reason reason = lanes_obstacle(a, c, kind, t->is_stray);

        answer_init(ret, ADMIT_RUN, ADMIT_BY_NONE);
        note_full(a, reason, c->is_enforced);
        if (reason != ADMIT_BY_NONE) {
                ret->would_wait = true;
                ret->reason = reason;
                ret->check_reason = (enum check_reason)c->would_reason[band];
                say_why(a, c, ret);
                c->counts.observed++;
                c->counts.by_reason[reason]++;
        }
        ticket_start(a, c, t, reason == ADMIT_BY_NONE || c->is_enforced);
}

/* Of one that could go, but would overtake those who wait for the next turn. */
static enum admit_reason reason_behind(const struct admit_class *c, const struct ticket *t)
{
        enum lane_kind kind = (enum lane_kind)c->kind[band_of(c, t->roll)];
        return class_needs_window(c, kind, t->is_stray) ? ADMIT_BY_LOAD : ADMIT_BY_DOOR;
}

static void hold(struct admission *a, struct admit_class *c, struct ticket *t,
                 enum admit_reason reason, struct admit_answer *ret)
{
        if (reason == ADMIT_BY_NONE) {
                a->is_behind = true;
                reason = reason_behind(c, t);
        }
        note_full(a, reason, true);
        if (reason != ADMIT_BY_NEW)
                count_held(c, t, reason);
        if (c->limits.wait_ns == 0 && reason != ADMIT_BY_NEW) {
                answer_refused(a, c, t, reason, ret);
                return;
        }
        answer_init(ret, ADMIT_WAIT, reason);
        ret->check_reason = (enum check_reason)c->reason[band_of(c, t->roll)];
        say_why(a, c, ret);
        t->state = TICKET_WAITING;
        lanes_push(a, c, t);
}

void admission_ask(struct admission *a, struct ticket *t, size_t class_number, int64_t now_ns,
                   struct admit_answer *ret)
{
        struct admit_class *c = class_at(a, class_number);

        ASSERT(t->state == TICKET_NONE);
        pass_time(a, now_ns);
        look_if_due(a);
        t->class_number = c->number;
        t->is_stray = class_strays(a, c, t->digest);
        t->roll = rng_unit(&a->rng);
        t->asked_ns = a->now_ns;
        t->deadline_ns = a->now_ns + c->limits.wait_ns;
        t->waited_ns = 0;
        t->is_held = false;
        unsigned band = band_of(c, t->roll);
        enum lane_kind kind = (enum lane_kind)c->kind[band];
        if (!c->is_enforced) {
                observe(a, c, t, ret);
                return;
        }
        enum admit_reason reason = lanes_obstacle(a, c, kind, t->is_stray);
        bool is_behind_others = c->limits.wait_ns && lanes_is_ahead(a, c, kind, t->is_stray);
        if (reason != ADMIT_BY_NONE || is_behind_others) {
                hold(a, c, t, reason, ret);
        } else if (c->would[band] != c->kind[band]) {
                observe(a, c, t, ret);
        } else {
                answer_init(ret, ADMIT_RUN, ADMIT_BY_NONE);
                ticket_start(a, c, t, true);
        }
        if (c->waiting)
                lanes_settle(a, c);
}

/* The time is taken from what the class may use in the next seconds.  What only observes owes at
 * most a second: enforcing would not have let all of it start. */
static void charge(const struct admission *a, struct admit_class *c, int64_t busy_ns)
{
        if (!c->limits.budget_ns)
                return;
        double wall_ns = (double)busy_ns * NS_PER_S / (double)c->limits.budget_ns;
        int64_t most_ns = a->now_ns + (c->is_enforced ? DEBT_MAX_NS : NS_PER_S);
        if (c->paid_ns < a->now_ns - NS_PER_S)
                c->paid_ns = a->now_ns - NS_PER_S;
        if (wall_ns >= (double)(most_ns - c->paid_ns))
                c->paid_ns = most_ns > c->paid_ns ? most_ns : c->paid_ns;
        else
                c->paid_ns += (int64_t)ceil(wall_ns);
}

static void count_use(const struct admission *a, struct admit_class *c, const struct ticket *t,
                      const struct ticket_use *use)
{
        static const struct ticket_use none;
        if (!use)
                use = &none;
        int64_t busy_ns = use->busy_ns > 0 ? use->busy_ns : 0;
        int64_t us = busy_ns / 1000 < INT32_MAX ? busy_ns / 1000 : INT32_MAX;

        c->counts.statements += use->statements;
        c->counts.rows += use->rows;
        c->counts.errors += use->errors;
        c->counts.busy_ns += (uint64_t)busy_ns;
        c->counts.last_ns = a->now_ns;
        count_time(&c->counts.services, a->now_ns - t->asked_ns - t->waited_ns);
        c->cost_of += c->cost_of < COST_OF; /* the first ones count in full */
        int64_t cost_us = c->cost_us + (us - (int64_t)c->cost_us) / c->cost_of;
        c->cost_us = cost_us > 1 ? (uint32_t)cost_us : 1;
        charge(a, c, busy_ns);
        look_end(a, c, t, busy_ns);
}

void admission_idle(struct admission *a, struct ticket *t, int64_t now_ns)
{
        struct admit_class *c = class_at(a, t->class_number);

        ASSERT(t->state == TICKET_RUNNING && !t->is_idle);
        pass_time(a, now_ns);
        look_if_due(a);
        ticket_rest(a, c, t);
        if (!a->waiting)
                return;
        lanes_settle(a, c);
        lanes_dispatch(a);
}

void admission_resume(struct admission *a, struct ticket *t, int64_t now_ns)
{
        struct admit_class *c = class_at(a, t->class_number);

        ASSERT(t->state == TICKET_RUNNING && t->is_idle);
        pass_time(a, now_ns);
        look_if_due(a);
        ticket_execute(a, c, t);
        if (c->waiting)
                lanes_settle(a, c);
}

void admission_end(struct admission *a, struct ticket *t, const struct ticket_use *use,
                   int64_t now_ns)
{
        struct admit_class *c = class_at(a, t->class_number);

        ASSERT(t->state == TICKET_RUNNING);
        pass_time(a, now_ns);
        look_if_due(a);
        if (!t->is_idle)
                ticket_rest(a, c, t);
        t->state = TICKET_NONE;
        c->running--;
        a->running--;
        count_use(a, c, t, use);
        if (!a->waiting)
                return;
        lanes_settle(a, c);
        lanes_dispatch(a);
}

void admission_leave(struct admission *a, struct ticket *t, const struct ticket_use *use,
                     int64_t now_ns)
{
        struct admit_class *c = class_at(a, t->class_number);

        if (t->state == TICKET_RUNNING) {
                admission_end(a, t, use, now_ns);
                return;
        }
        ASSERT(t->state == TICKET_WAITING);
        pass_time(a, now_ns);
        lanes_remove(a, c, t);
        t->state = TICKET_NONE;
        t->waited_ns = a->now_ns - t->asked_ns;
        c->counts.left++;
        count_wait(c, t);
        lanes_settle(a, c);
        lanes_dispatch(a);
}

int64_t admission_turn(struct admission *a, int64_t now_ns)
{
        pass_time(a, now_ns);
        if (!a->waiting)
                return INT64_MAX;
        look_if_due(a);
        lanes_expire(a);
        if (!a->waiting)
                return INT64_MAX;
        if (a->is_behind)
                return a->now_ns;
        int64_t next_ns = a->looked_ns + LOOK_NS;
        if (a->alarms.len && heap_key_to_i64(heap_peek_key(&a->alarms)) < next_ns)
                next_ns = heap_key_to_i64(heap_peek_key(&a->alarms));
        return next_ns > a->now_ns ? next_ns : a->now_ns;
}

/* ---- what the file and the core say ---- */

static void set_rate(const struct admission *a, struct admit_class *c, double rate)
{
        if (!(rate > 0)) {
                c->interval_ns = 0;
                return;
        }
        double interval_ns = fmin(ceil((double)NS_PER_S / rate), (double)INTERVAL_MAX_NS);
        double burst = fmax(1, ceil(rate / 10));
        c->interval_ns = interval_ns > 1 ? (int64_t)interval_ns : 1;
        c->slack_ns = (int64_t)((burst - 1) * (double)c->interval_ns);
        if (c->next_ns > a->now_ns + c->interval_ns)
                c->next_ns = a->now_ns + c->interval_ns;
}

static struct admit_class *class_make(struct admission *a, size_t number)
{
        struct admit_class *c = xcalloc(1, sizeof(*c));
        c->number = (uint16_t)number;
        c->next_ns = c->paid_ns = LONG_AGO;
        c->spent_ns = c->settled_ns = a->now_ns;
        c->cost_us = FIRST_COST_US;
        list_init(&c->executing_list);
        lanes_init(c);
        a->classes[number] = c;
        if (a->n <= number)
                a->n = number + 1;
        return c;
}

/* In a mode that only observes nothing waits. */
static void release_all(struct admission *a, struct admit_class *c)
{
        struct ticket *t = NULL;
        while ((t = lanes_oldest(c))) {
                lanes_remove(a, c, t);
                ticket_run(a, c, t);
        }
}

static void set_wait(struct admit_class *c)
{
        for (unsigned i = 0; i < LANES; i++) {
                LIST_FOREACH(&c->lanes[i], it)
                {
                        struct ticket *t = CONTAINER_OF(it, struct ticket, place);
                        t->deadline_ns = t->asked_ns + c->limits.wait_ns;
                }
        }
}

void admission_set_class(struct admission *a, size_t number, const struct class_limits *limits,
                         int64_t now_ns)
{
        ASSERT(number < ADMIT_CLASSES_MAX);
        pass_time(a, now_ns);
        struct admit_class *c = a->classes[number] ? a->classes[number] : class_make(a, number);
        bool is_new_budget =
                limits->budget_ns != c->limits.budget_ns || limits->mode != c->limits.mode;

        c->limits = *limits;
        if (c->limits.wait_ns < 0)
                c->limits.wait_ns = 0;
        else if (c->limits.wait_ns > WAIT_MAX_NS)
                c->limits.wait_ns = WAIT_MAX_NS;
        set_rate(a, c, limits->rate);
        if (is_new_budget && c->paid_ns >= a->now_ns)
                c->paid_ns = a->now_ns - 1; /* the debts of another budget are forgotten */
        class_adopt(a, c);
        set_wait(c);
        if (!c->is_enforced)
                release_all(a, c);
        lanes_settle(a, c);
        lanes_dispatch(a);
}

void admission_set_door(struct admission *a, uint32_t concurrency, bool is_floor_off,
                        int64_t now_ns)
{
        pass_time(a, now_ns);
        a->concurrency = concurrency;
        a->is_floor_off = is_floor_off;
        lanes_dispatch(a);
}

void admission_publish(struct admission *a, struct door_policy *policy, int64_t now_ns)
{
        struct door_policy *old = a->policy;

        pass_time(a, now_ns);
        a->policy = policy;
        for (size_t i = 0; i < a->n; i++)
                if (a->classes[i])
                        class_adopt(a, a->classes[i]);
        look_sample(a);
        lanes_settle_all(a);
        look_if_due(a);
        lanes_dispatch(a);
        door_policy_unref(old);
}

/* ---- what was learned ---- */

bool admission_memory(const struct admission *a, size_t number, struct usual_memory *ret)
{
        if (number >= a->n || !a->classes[number] || !a->classes[number]->usual.memory.ends)
                return false;
        *ret = a->classes[number]->usual.memory;
        return true;
}

bool admission_remember(struct admission *a, size_t number, const struct usual_memory *memory)
{
        struct admit_class *c = class_at(a, number);
        if (!usual_restore(&c->usual, memory))
                return false;
        a->looked_ns = 0; /* at the next call it is looked at anew */
        return true;
}

size_t admission_digests(const struct admission *a, struct digest_row *ret)
{
        return digests_copy(a->digests, ret);
}

/* A class that is learned and has known statements is settled: what is new to it is new. */
bool admission_remember_digest(struct admission *a, const struct digest_row *row)
{
        struct admit_class *c = class_at(a, row->class_number);

        if (!digest_row_is_valid(row))
                return false;
        digests_put(a->digests, row);
        if (usual_is_learned(&c->usual) && c->usual.memory.seconds >= USUAL_LEAST_S) {
                c->digested = USUAL_ENDS;
                c->digested_ns = a->now_ns - USUAL_LEAST_S * NS_PER_S;
        }
        return true;
}

const struct usual_metric *admission_metric(const struct admission *a)
{
        return &a->metric;
}

bool admission_remember_metric(struct admission *a, const double n[USUAL_BUCKETS], double seconds)
{
        return usual_metric_restore(&a->metric, n, seconds);
}

/* ---- views ---- */

size_t admission_classes(const struct admission *a)
{
        return a->n;
}

/* What keeps the ticket now: not always what made it wait. */
static void see_obstacle(const struct admission *a, const struct admit_class *c,
                         const struct ticket *t, struct admit_answer *ret)
{
        unsigned band = band_of(c, t->roll);
        enum lane_kind kind = (enum lane_kind)c->kind[band];
        enum admit_reason reason = lanes_obstacle(a, c, kind, t->is_stray);
        answer_init(ret, ADMIT_WAIT, reason == ADMIT_BY_NONE ? reason_behind(c, t) : reason);
        ret->check_reason = (enum check_reason)c->reason[band];
        say_why(a, c, ret);
}

bool admission_view(const struct admission *a, size_t number, int64_t now_ns,
                    struct class_view *ret)
{
        if (number >= a->n || !a->classes[number])
                return false;
        const struct admit_class *c = a->classes[number];
        const struct ticket *oldest = lanes_oldest(c);
        const struct usual_memory *usual = &c->usual.memory;
        bool is_learned = usual_is_learned(&c->usual);
        struct class_pace pace = look_pace(a, c);
        *ret = (struct class_view){
                .counts = &c->counts,
                .running = c->running,
                .waiting = c->waiting,
                .executing = c->executing,
                .excess = c->excess,
                .free = c->free,
                .usual = is_learned ? usual->executing : 0,
                .usual_ms = is_learned ? exp(usual->log_time) / NS_PER_MS : 0,
                .slowdown = isnan(pace.slowdown) ? 0 : pace.slowdown,
                .oldest_ns = oldest && now_ns > oldest->asked_ns ? now_ns - oldest->asked_ns : 0,
                .verdicts = verdicts_of(a, c),
                .limits = c->limits,
        };
        if (oldest)
                see_obstacle(a, c, oldest, &ret->wait);
        return true;
}

void admission_state(const struct admission *a, struct admission_state *ret)
{
        *ret = (struct admission_state){
                .running = a->running,
                .waiting = a->waiting,
                .executing = a->executing,
                .excess = window_excess(a, TIER_DEFERRABLE, true),
                .window = window_size(a),
                .concurrency = a->concurrency,
                .is_learned = a->is_learned,
                .is_server_known = look_knows_server(a),
                .is_over = a->is_over,
                .is_enforced = a->n_enforced > 0,
                .slowdown = isnan(a->slowdown) ? 0 : a->slowdown,
                .slow_share = a->slow_share,
                .server = look_server(a),
                .server_most = look_server_most(a),
        };
        if (a->is_over)
                look_say(a, ret->why, sizeof(ret->why));
}

const char *admission_state_learning(const struct admission_state *s)
{
        if (s->is_learned)
                return NULL;
        return s->is_server_known ? "learning: only deferrable work waits for load yet"
                                  : "learning: nothing waits for load yet";
}

static void check_executing(const struct admit_class *c)
{
        uint32_t n = 0, strays = 0;
        int64_t since_ns = INT64_MIN;

        LIST_FOREACH(&c->executing_list, it)
        {
                const struct ticket *t = CONTAINER_OF(it, const struct ticket, place);
                ASSERT(t->state == TICKET_RUNNING && !t->is_idle);
                ASSERT(t->class_number == c->number && t->since_ns >= since_ns);
                since_ns = t->since_ns;
                strays += t->is_stray;
                n++;
        }
        ASSERT(n == c->executing && n <= c->running);
        ASSERT(strays == c->strays);
}

void admission_check(const struct admission *a)
{
        uint32_t running = 0, executing = 0, excess[2][TIERS] = {{0}}, by_tier[2][TIERS] = {{0}};

        for (size_t i = 0; i < a->n; i++) {
                const struct admit_class *c = a->classes[i];
                if (!c)
                        continue;
                check_executing(c);
                running += c->running;
                executing += c->executing;
                ASSERT(!c->is_free || !c->excess);
                excess[c->is_enforced][c->tier] += c->excess;
                by_tier[c->is_enforced][c->tier] += c->is_free ? 0 : c->executing;
        }
        ASSERT(running == a->running && executing == a->executing);
        ASSERT(memcmp(excess, a->excess, sizeof(excess)) == 0);
        ASSERT(memcmp(by_tier, a->executing_tier, sizeof(by_tier)) == 0);
        ASSERT(a->width >= 1);
        lanes_check(a);
}
