/* Circuit breakers: for clients that ask, for jobs that start.
 *
 * The circuit decides (state/circuit.h); here every decision becomes an effect before a client
 * hears of it, so that a restart knows which probe is out.  All is done by the loop thread: two
 * clients that ask in the same instant cannot both be the probe.
 *
 * Jobs that an open breaker keeps wait on thing.waiting.  When it closes they are let go, a bounded
 * number per turn; when it is half-open one is let go, and as long as no probe runs one more each
 * second, since the first may have been canceled or may find no worker.
 *
 * A job with a target that has no breaker costs one lookup.  The first failure makes it, with
 * defaults; before that there is nothing to know. */
#include "things/breaker.h"

#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/say.h"
#include "state/breaker.h"
#include "things/scope.h"

/* A SET in the log at most: name, reason, the last reports, the circuit. */
#define ASK_BYTES 2048
/* Jobs let go per turn, so that one turn stays short. */
#define WAKE_STEPS     2000
#define WINDOW_DEFAULT 60000
#define VOLUME_DEFAULT 10

static struct breaker *find(const struct core *core, struct slice name)
{
        struct thing *t = thing_find(&core->state, THING_BREAKER, name);
        return t ? breaker_of(t) : NULL;
}

static bool is_queue_name(struct slice name)
{
        struct slice prefix = SLICE_LIT(BREAKER_QUEUE_PREFIX);
        return name.len > prefix.len && memcmp(name.ptr, prefix.ptr, prefix.len) == 0;
}

/* ---- changes ---- */

/* The queue it stands before; NULL when there is none. */
static struct queue *queue_of(const struct core *core, const struct breaker *b)
{
        return b->is_of_queue ? scope_queue(core, &b->thing, SLICE_LIT(BREAKER_QUEUE_PREFIX))
                              : NULL;
}

static bool is_refusing(const struct circuit *c)
{
        return c->state == CIRCUIT_OPEN || c->probe_id;
}

/* Lets go the jobs that may try now. */
static void wake(struct core *core, struct breaker *b)
{
        if (is_refusing(&b->circuit))
                return;
        bool is_closed = b->circuit.state == CIRCUIT_CLOSED;
        (void)state_unblock(&core->state, &b->thing, is_closed ? WAKE_STEPS : 1);
        scope_wake(core, queue_of(core, b));
        breaker_arm(&core->state, b, core->now.steady_ns);
}

/* Emits the NOTE in core->body, tells people and lets go whom it concerns. */
static void change(struct core *core, struct breaker *b, const char *why)
{
        enum circuit_state from = b->circuit.state;
        bool was_refusing = is_refusing(&b->circuit);
        thing_note(core, &b->thing, buf_slice(&core->body));
        if (b->circuit.state != from)
                say_info("core", "breaker changed", "name", b->thing.name, "from",
                         circuit_state_name(from), "to", circuit_state_name(b->circuit.state),
                         "why", why);
        if (was_refusing)
                wake(core, b);
}

static struct buf *new_note(struct core *core, enum breaker_op op)
{
        buf_clear(&core->body);
        buf_put_byte(&core->body, (char)op);
        return &core->body;
}

/* The lease of the job that is the probe, when that is longer than the probe's deadline; else 0. */
static int64_t probe_lease_ns(const struct core *core, const struct breaker *b)
{
        const struct job *job = b->probe_job ? state_job(&core->state, b->probe_job) : NULL;
        if (!job || job->state != JOB_LEASED || job->more->fence != b->circuit.probe_id)
                return 0;
        return job->more->deadline_ns > core->now.steady_ns ? job->more->deadline_ns : 0;
}

/* Does what is due by now: the end of a cool-down, the death of a probe. */
static void settle(struct core *core, struct breaker *b)
{
        while (circuit_next_ns(&b->circuit) <= core->now.steady_ns) {
                int64_t lease_ns = probe_lease_ns(core, b);
                if (lease_ns) {
                        buf_put_varint(new_note(core, BREAKER_OP_PROBE), (uint64_t)lease_ns);
                        change(core, b, "");
                        continue;
                }
                bool is_open = b->circuit.state == CIRCUIT_OPEN;
                (void)new_note(core, BREAKER_OP_EXPIRE);
                change(core, b, is_open ? "the cool-down is over" : "the probe did not report");
        }
}

void breaker_due(struct core *core, struct thing *t)
{
        struct breaker *b = breaker_of(t);
        bool was_refusing = is_refusing(&b->circuit);
        settle(core, b);
        if (breaker_forget_ns(b) <= core->now.steady_ns) {
                thing_gone(core, t);
                return;
        }
        if (!was_refusing) /* else settle() has done it */
                wake(core, b);
        breaker_arm(&core->state, b, core->now.steady_ns);
}

static const char *why_ended(const struct circuit *c, bool is_good)
{
        if (c->state == CIRCUIT_HALF_OPEN)
                return is_good ? "the probe succeeded" : "the probe failed";
        bool is_row = c->rule.failures && c->in_a_row + 1 >= c->rule.failures;
        return is_row ? "too many failures in a row" : "too high a rate of failures";
}

static void note_end(struct core *core, struct breaker *b, uint64_t id, enum ask_end end,
                     bool is_report)
{
        const char *why = why_ended(&b->circuit, end == ASK_GOOD);
        struct buf *body = new_note(core, BREAKER_OP_END);
        buf_put_varint(body, id);
        buf_put_byte(body, (char)end);
        buf_put_byte(body, is_report);
        change(core, b, why);
}

static int check_room(const struct core *core, struct problem *problem)
{
        if (core->state.things[THING_BREAKER].len < LIMIT_BREAKERS)
                return OK;
        return problem_set(problem, ERR_LIMIT, "there are %d circuit breakers already",
                           LIMIT_BREAKERS);
}

/* ---- jobs ---- */

static struct breaker *find_of_queue(const struct core *core, const struct queue *queue)
{
        if (!core->state.n_queue_breakers)
                return NULL;
        struct thing *t = scope_find(core, THING_BREAKER, SLICE_LIT(BREAKER_QUEUE_PREFIX),
                                     name_slice(queue->name));
        return t ? breaker_of(t) : NULL;
}

static struct slice target_of(const struct job *job)
{
        return job->extra ? job->extra->options.target : SLICE_NONE;
}

static struct breaker *find_of_target(const struct core *core, const struct job *job)
{
        struct slice target = target_of(job);
        return target.len ? find(core, target) : NULL;
}

struct thing *breaker_of_queue(struct core *core, const struct queue *queue)
{
        struct breaker *b = find_of_queue(core, queue);
        return b && is_refusing(&b->circuit) ? &b->thing : NULL;
}

struct thing *breaker_block(struct core *core, const struct job *job)
{
        struct breaker *b = find_of_target(core, job);
        return b && is_refusing(&b->circuit) ? &b->thing : NULL;
}

void breaker_want(struct core *core, struct thing *t)
{
        breaker_arm(&core->state, breaker_of(t), core->now.steady_ns);
}

int64_t breaker_wait_ns(const struct core *core, struct thing *t)
{
        return circuit_wait(&breaker_of(t)->circuit, core->now.steady_ns);
}

static void start_one(struct core *core, struct breaker *b, const struct job *job)
{
        ASSERT(!is_refusing(&b->circuit));
        struct buf *body = new_note(core, BREAKER_OP_ASK);
        buf_put_varint(body, core->state.fence + 1);
        buf_put_varint(body, job_id(job));
        change(core, b, "");
}

void breaker_start(struct core *core, const struct job *job)
{
        ASSERT(job->state != JOB_LEASED);
        struct breaker *queue = find_of_queue(core, job->queue);
        struct breaker *target = find_of_target(core, job);
        if (queue)
                start_one(core, queue, job);
        if (target && target != queue)
                start_one(core, target, job);
}

static void end_one(struct core *core, struct breaker *b, uint64_t id, enum ask_end end)
{
        settle(core, b);
        const struct circuit *c = &b->circuit;
        if (c->state != CIRCUIT_CLOSED && c->probe_id != id)
                return; /* only the probe has a say */
        if (c->state == CIRCUIT_CLOSED &&
            (end == ASK_CANCELED || (end == ASK_GOOD && !c->in_a_row && !c->rule.rate_percent)))
                return; /* nothing would change */
        note_end(core, b, id, end, false);
}

/* A target fails for the first time: from now on it is watched. */
static struct breaker *make_target(struct core *core, struct slice name)
{
        const struct circuit_rule rule = circuit_rule_default();
        struct circuit circuit;
        if (is_queue_name(name) || check_room(core, NULL) != OK)
                return NULL;
        circuit_init(&circuit, &rule, core->now.steady_ns);
        const struct breaker_body body = {
                .circuit = &circuit, .salt = rng_u64(core->options.rng), .is_passing = true};
        buf_clear(&core->body);
        breaker_put(&body, &core->body);
        thing_set(core, THING_BREAKER, name, buf_slice(&core->body));
        return find(core, name);
}

static enum ask_end end_of(enum breaker_outcome outcome, bool counts_handlers)
{
        switch (outcome) {
        case BREAKER_OK:
                return ASK_GOOD;
        case BREAKER_HANDLER_FAILED:
                return counts_handlers ? ASK_BAD : ASK_GOOD;
        case BREAKER_TIMED_OUT:
                return ASK_BAD;
        case BREAKER_RELEASED:
                break;
        }
        return ASK_CANCELED;
}

void breaker_end(struct core *core, const struct job *job, enum breaker_outcome outcome)
{
        struct breaker *queue = find_of_queue(core, job->queue);
        struct slice name = target_of(job);
        if (queue)
                end_one(core, queue, job->more->fence, end_of(outcome, queue->counts_handlers));
        if (!name.len)
                return;
        struct breaker *target = find(core, name);
        enum ask_end end = end_of(outcome, true);
        if (!target && end == ASK_BAD)
                target = make_target(core, name);
        if (target && target != queue)
                end_one(core, target, job->more->fence, end);
}

/* ---- tokens ---- */

/* Of an ask: its id, and a keyed hash that only this breaker can make. */
static uint64_t token_mark(uint64_t salt, uint64_t id)
{
        return hash_bytes(salt, slice_make(&id, sizeof(id)));
}

static void token_make(uint64_t salt, uint64_t id, char *ret)
{
        uint8_t bytes[TOKEN_BYTES];
        store_u64(bytes, id);
        store_u64(bytes + sizeof(uint64_t), token_mark(salt, id));
        hex_from_bytes(bytes, TOKEN_BYTES, ret);
}

static bool token_read(const struct breaker *b, const uint8_t *token, uint64_t *ret)
{
        *ret = load_u64(token);
        return *ret > 0 && *ret <= b->circuit.last_id &&
               load_u64(token + sizeof(uint64_t)) == token_mark(b->salt, *ret);
}

/* ---- commands ---- */

static int no_breaker(struct slice name, struct problem *problem)
{
        return problem_set(problem, ERR_NOTFOUND, "there is no circuit breaker '%.*s'",
                           (int)name.len, name.ptr);
}

static int read_rule(const struct arg *arg, struct circuit_rule *ret, struct problem *problem)
{
        const struct arg *threshold = &arg[P_BREAKER_THRESHOLD], *rate = &arg[P_BREAKER_RATE];
        const struct arg *window = &arg[P_BREAKER_WINDOW], *volume = &arg[P_BREAKER_VOLUME];
        const struct arg *cool = &arg[P_BREAKER_COOLDOWN], *max = &arg[P_BREAKER_COOLDOWNMAX];
        struct circuit_rule rule = circuit_rule_default();
        if (!rate->is_set && (window->is_set || volume->is_set))
                return problem_set(problem, ERR_BADARG, "window and volume go with rate only");
        if (threshold->is_set)
                rule.failures = (uint32_t)threshold->num;
        if (rate->is_set) {
                rule.rate_percent = (uint32_t)rate->num;
                rule.rate_min = volume->is_set ? (uint32_t)volume->num : VOLUME_DEFAULT;
                rule.rate_window_ms = window->is_set ? window->num : WINDOW_DEFAULT;
        }
        if (cool->is_set)
                rule.cool_ms = cool->num;
        if (max->is_set)
                rule.cool_max_ms = max->num;
        else if (rule.cool_max_ms < rule.cool_ms)
                rule.cool_max_ms = rule.cool_ms;
        if (arg[P_BREAKER_PROBE].is_set)
                rule.probe_ms = arg[P_BREAKER_PROBE].num;
        *ret = rule;
        return circuit_rule_check(ret, problem);
}

int exec_breaker(struct core *core, struct session *session, const struct command *cmd,
                 struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may set one */
        struct slice name = cmd->arg[P_BREAKER_NAME].text;
        bool counts_handlers = cmd->arg[P_BREAKER_HANDLERS].num;
        struct circuit_rule rule;
        struct circuit circuit;
        int r = read_rule(cmd->arg, &rule, problem);
        if (r == OK && counts_handlers && !is_queue_name(name))
                r = problem_set(problem, ERR_BADARG,
                                "handlers is for queue:NAME; elsewhere all failures count");
        struct breaker *b = find(core, name);
        if (r == OK && !b)
                r = check_room(core, problem);
        if (r == OK)
                r = core_admit(core, ASK_BYTES, 0, problem);
        if (r != OK)
                return r;
        if (b) {
                settle(core, b);
                circuit = b->circuit;
                circuit_set_rule(&circuit, &rule);
        } else {
                circuit_init(&circuit, &rule, core->now.steady_ns);
        }
        const struct breaker_body body = {b,
                                          &circuit,
                                          b ? b->salt : rng_u64(core->options.rng),
                                          b ? b->probe_job : 0,
                                          false,
                                          counts_handlers};
        buf_clear(&core->body);
        breaker_put(&body, &core->body);
        r = thing_try_set(core, THING_BREAKER, name, buf_slice(&core->body), problem);
        if (r != OK)
                return r;
        say_info("core", "breaker set", "name", find(core, name)->thing.name);
        reply_ok(reply);
        return OK;
}

int exec_unbreaker(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may remove one */
        struct slice name = cmd->arg[P_UNBREAKER_NAME].text;
        struct breaker *b = find(core, name);
        if (!b)
                return no_breaker(name, problem);
        struct queue *q = queue_of(core, b);
        say_info("core", "breaker removed", "name", b->thing.name);
        thing_gone(core, &b->thing); /* lets its jobs go */
        scope_wake(core, q);
        reply_ok(reply);
        return OK;
}

/* -1: not by itself. */
static int64_t retry_ms(const struct circuit *c, int64_t now_ns)
{
        int64_t ns = circuit_wait(c, now_ns);
        return ns == CIRCUIT_NEVER ? -1 : ns / NS_PER_MS + (ns % NS_PER_MS != 0);
}

/* Jobs that it keeps.  That of a queue is asked once for all of them, so they stay in the queue. */
static int64_t n_waiting_jobs(const struct core *core, const struct breaker *b)
{
        const struct queue *q = is_refusing(&b->circuit) ? queue_of(core, b) : NULL;
        return (int64_t)(b->thing.waiting.len + (q ? q->n_ready : 0));
}

static void tell_breaker(const struct core *core, const struct breaker *b, struct reply *reply)
{
        const struct circuit *c = &b->circuit;
        uint64_t bad, all;
        circuit_rate(c, core->now.steady_ns, &bad, &all);
        const struct breaker_state_reply told = {
                .name = thing_name(&b->thing),
                .state = circuit_state_name(c->state),
                .reason = buf_slice(&b->reason),
                .probing = c->probe_id != 0,
                .held = c->is_held,
                .handlers = b->counts_handlers,
                .passing = b->is_passing,
                .since_ms = (core->now.steady_ns - c->since_ns) / NS_PER_MS,
                .retry_ms = retry_ms(c, core->now.steady_ns),
                .failures = c->in_a_row,
                .window_failures = (int64_t)bad,
                .window_outcomes = (int64_t)all,
                .trips = (int64_t)c->trips,
                .waiting_jobs = n_waiting_jobs(core, b),
                .threshold = c->rule.failures,
                .rate = c->rule.rate_percent,
                .window_ms = c->rule.rate_window_ms,
                .volume = c->rule.rate_min,
                .cooldown_ms = c->rule.cool_ms,
                .cooldown_max_ms = c->rule.cool_max_ms,
                .probe_ms = c->rule.probe_ms,
        };
        reply_breaker_state(reply, &told);
}

int exec_breakerstate(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        struct slice name = cmd->arg[P_BREAKERSTATE_NAME].text;
        const struct breaker *b = find(core, name);
        if (!b)
                return no_breaker(name, problem);
        tell_breaker(core, b, reply);
        return OK;
}

static void tell_sorted(struct reply *reply, const struct reply_items *items)
{
        struct thing *const *sorted = items->of;
        for (size_t i = 0; i < items->n; i++)
                tell_breaker(items->core, breaker_of(sorted[i]), reply);
}

int exec_breakers(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)cmd;
        (void)problem;
        size_t n;
        struct thing **sorted = scope_sorted(core, THING_BREAKER, &n);
        const struct breakers_reply told = {{n, tell_sorted, core, sorted}};
        reply_breakers(reply, &told);
        free(sorted);
        return OK;
}

int exec_ask(struct core *core, struct session *session, const struct command *cmd,
             struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may ask */
        struct slice name = cmd->arg[P_ASK_NAME].text;
        const struct circuit_rule rule = circuit_rule_default();
        struct breaker *b = find(core, name);
        struct circuit circuit;
        char token[2 * TOKEN_BYTES];
        if (!b && is_queue_name(name))
                return no_breaker(name, problem);
        int r = b ? OK : check_room(core, problem);
        if (r == OK)
                r = core_admit(core, ASK_BYTES, 0, problem);
        if (r != OK)
                return r;
        if (b)
                settle(core, b);
        else
                circuit_init(&circuit, &rule, core->now.steady_ns);
        if (b)
                circuit = b->circuit;
        uint64_t id = core->state.fence + 1;
        enum circuit_verdict v = circuit_ask(&circuit, core->now.steady_ns, id, NULL);
        if (v == CIRCUIT_REFUSED) {
                const struct breaker_verdict_reply refused = {
                        .verdict = "refused",
                        .retry_ms = retry_ms(&circuit, core->now.steady_ns),
                };
                reply_breaker_verdict(reply, &refused);
                return OK;
        }
        const struct breaker_body body = {b,
                                          &circuit,
                                          b ? b->salt : rng_u64(core->options.rng),
                                          0,
                                          b ? b->is_passing : true,
                                          b && b->counts_handlers};
        buf_clear(&core->body);
        breaker_put(&body, &core->body);
        r = thing_try_set(core, THING_BREAKER, name, buf_slice(&core->body), problem);
        if (r != OK)
                return r;
        token_make(body.salt, id, token);
        const struct breaker_verdict_reply passed = {
                .verdict = v == CIRCUIT_PROBE ? "probe" : "pass",
                .token = slice_make(token, sizeof(token)),
        };
        reply_breaker_verdict(reply, &passed);
        return OK;
}

int exec_report(struct core *core, struct session *session, const struct command *cmd,
                struct reply *reply, struct problem *problem)
{
        (void)session; /* who has the token may report */
        struct slice name = cmd->arg[P_REPORT_NAME].text;
        bool is_ok = cmd->arg[P_REPORT_OUTCOME].num == 0;
        struct breaker *b = find(core, name);
        uint64_t id;
        if (!b)
                return no_breaker(name, problem);
        if (!token_read(b, cmd->arg[P_REPORT_TOKEN].token, &id))
                return problem_set(problem, ERR_NOTOWNER,
                                   "the token is not of an ask of the breaker '%.*s'",
                                   (int)name.len, name.ptr);
        settle(core, b);
        if (!breaker_is_reported(b, id))
                note_end(core, b, id, is_ok ? ASK_GOOD : ASK_BAD, true);
        const struct breaker_reported_reply told = {circuit_state_name(b->circuit.state)};
        reply_breaker_reported(reply, &told);
        return OK;
}

static void force(struct core *core, struct breaker *b, enum circuit_force what,
                  struct slice reason)
{
        static const char *const why[] = {
                [CIRCUIT_FORCE_CLOSE] = "closed by hand",
                [CIRCUIT_FORCE_TRIP] = "tripped by hand",
                [CIRCUIT_FORCE_HOLD] = "held open by hand",
        };
        settle(core, b);
        struct buf *body = new_note(core, BREAKER_OP_FORCE);
        buf_put_byte(body, (char)what);
        buf_put_lv(body, reason);
        change(core, b, why[what]);
        say_info("core", "breaker forced", "name", b->thing.name, "what", why[what], "reason",
                 buf_cstr(&b->reason));
}

int exec_trip(struct core *core, struct session *session, const struct command *cmd,
              struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may trip */
        struct slice name = cmd->arg[P_TRIP_NAME].text;
        struct breaker *b = find(core, name);
        if (!b)
                return no_breaker(name, problem);
        force(core, b, cmd->arg[P_TRIP_HOLD].num ? CIRCUIT_FORCE_HOLD : CIRCUIT_FORCE_TRIP,
              cmd->arg[P_TRIP_REASON].text);
        reply_ok(reply);
        return OK;
}

int exec_closebreaker(struct core *core, struct session *session, const struct command *cmd,
                      struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may close */
        struct slice name = cmd->arg[P_CLOSEBREAKER_NAME].text;
        struct breaker *b = find(core, name);
        if (!b)
                return no_breaker(name, problem);
        force(core, b, CIRCUIT_FORCE_CLOSE, SLICE_NONE);
        reply_ok(reply);
        return OK;
}
