/* Random takes, starts of jobs, asks and reports, with restarts, a cleaner that always works and
 * trims of the log mixed in.  What must hold whatever happens:
 *
 *   limits     no window of a period holds more grants than the amount; no stretch of time more
 *              tokens than the burst and what the rate gives in it.  Every grant that a client or a
 *              worker was told of is kept here with its time, and all of them are looked at.
 *   breakers   while a probe lives nobody else passes, whoever asks: clients and jobs
 *   replay     a restart arrives at the same state
 *   waiting    nobody waits for ever: in the end all are answered and all jobs are started
 *
 * WEIR_SEED repeats a run, WEIR_ROUNDS makes more of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/say.h"
#include "core/kernel.h"
#include "prop/dice.h"
#include "state/breaker.h"
#include "state/limit.h"
#include "support/rig.h"

#define SESSIONS 6
#define STEPS    600
#define GRANTS   (STEPS * 24)
#define JOBS     64 /* running at once, as far as the model knows */

struct rule {
        const char *name, *amount, *period, *kind;
        const char *burst; /* NULL: a window */
};

static const struct rule rules[] = {
        {"api", "5", "200", "window", NULL},    {"odd", "3", "77", "window", NULL},
        {"tok", "7", "300", "tokens", "4"},     {"queue:q", "4", "150", "window", NULL},
        {"hook:h", "3", "120", "window", NULL}, {"hook:k", "5", "100", "tokens", "1"},
};
enum { API, ODD, TOK, QUEUE, HOOK_H, HOOK_K, RULES };

struct grant {
        int64_t at_ns;
        uint64_t n;
};

struct running {
        char id[24], token[33];
};

struct world {
        struct rig rig;
        struct rng dice;
        struct grant grants[RULES][GRANTS];
        size_t n_grants[RULES];
        struct rig_session sessions[SESSIONS];
        size_t rule_of[SESSIONS], cost_of[SESSIONS]; /* of a waiting TAKE */
        bool is_waiting[SESSIONS];
        struct running running[JOBS];
        size_t n_running, n_added, n_started;
        char probe[33]; /* the living probe of `db`; empty: none */
        int64_t probe_until_ns;
        char passes[8][33]; /* asks of `db` that have not reported */
        size_t n_passes;
        uint64_t open_fence; /* the last fence given while `smtp` was open */
};

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

static const char *number(char *ret, int64_t v)
{
        (void)snprintf(ret, 24, "%lld", (long long)v);
        return ret;
}

/* ---- the promise of a limit ---- */

static void check_window(const struct world *w, size_t r, uint64_t amount, int64_t period_ns)
{
        const struct grant *g = w->grants[r];
        size_t last = w->n_grants[r] - 1;
        uint64_t sum = 0;
        for (size_t i = w->n_grants[r]; i-- > 0 && g[last].at_ns - g[i].at_ns < period_ns;)
                sum += g[i].n;
        if (sum > amount)
                fail_msg("%s: %llu in a window", rules[r].name, (unsigned long long)sum);
}

static void check_tokens(const struct world *w, size_t r, uint64_t amount, int64_t period_ns,
                         uint64_t burst)
{
        const struct grant *g = w->grants[r];
        size_t last = w->n_grants[r] - 1;
        uint64_t sum = 0;
        for (size_t i = w->n_grants[r]; i-- > 0;) {
                uint64_t since_ns = (uint64_t)(g[last].at_ns - g[i].at_ns);
                sum += g[i].n;
                if (sum * (uint64_t)period_ns > burst * (uint64_t)period_ns + since_ns * amount)
                        fail_msg("%s: %llu tokens in %llu ns", rules[r].name,
                                 (unsigned long long)sum, (unsigned long long)since_ns);
        }
}

static void granted(struct world *w, size_t r, uint64_t n)
{
        uint64_t amount = strtoull(rules[r].amount, NULL, 10);
        int64_t period_ns = strtoll(rules[r].period, NULL, 10) * NS_PER_MS;
        assert_true(w->n_grants[r] < GRANTS);
        w->grants[r][w->n_grants[r]++] = (struct grant){w->rig.now.steady_ns, n};
        if (!rules[r].burst)
                check_window(w, r, amount, period_ns);
        else
                check_tokens(w, r, amount, period_ns, strtoull(rules[r].burst, NULL, 10));
}

/* ---- steps ---- */

static bool is_granted(const char *text)
{
        bool yes = strncmp(text, "{granted:1", 10) == 0;
        if (!yes && strncmp(text, "{granted:0", 10) != 0)
                fail_msg("TAKE answered %s", text);
        return yes;
}

static void collect_waiting(struct world *w)
{
        for (size_t i = 0; i < SESSIONS; i++) {
                if (!w->is_waiting[i] || !w->sessions[i].is_answered)
                        continue;
                w->is_waiting[i] = false;
                if (is_granted(text_reply_str(&w->sessions[i].reply)))
                        granted(w, w->rule_of[i], w->cost_of[i]);
        }
}

static void step_take(struct world *w)
{
        char cost_text[24], wait[24];
        size_t i = roll(w, SESSIONS), r = roll(w, TOK + 1), cost = 1 + roll(w, 3);
        if (w->is_waiting[i])
                return;
        const char *text = rig_as(&w->rig, &w->sessions[i], "TAKE", rules[r].name, "COST",
                                  number(cost_text, (int64_t)cost), "WAIT",
                                  number(wait, roll(w, 2) ? (int64_t)(1 + roll(w, 400)) : 0));
        if (strcmp(text, "(waits)") == 0) {
                w->is_waiting[i] = true;
                w->rule_of[i] = r;
                w->cost_of[i] = cost;
        } else if (is_granted(text)) {
                granted(w, r, cost);
        }
}

static void step_passing(struct world *w)
{
        char name[24], amount[24];
        (void)snprintf(name, sizeof(name), "ip%llu", (unsigned long long)roll(w, 5));
        (void)is_granted(rig_do(&w->rig, "TAKE", name, "AMOUNT",
                                number(amount, 1 + (int64_t)roll(w, 3)), "PERIOD", "50", "KIND",
                                roll(w, 2) ? "window" : "tokens"));
}

static void step_change(struct world *w)
{
        char amount[24], period[24];
        if (roll(w, 5) == 0)
                rig_do(&w->rig, "UNLIMIT", "changing");
        else if (roll(w, 5) == 0)
                rig_do(&w->rig, "RESETLIMIT", "changing");
        else
                rig_do(&w->rig, "LIMIT", "changing", number(amount, 1 + (int64_t)roll(w, 9)),
                       number(period, 10 + (int64_t)roll(w, 500)), "KIND",
                       roll(w, 2) ? "window" : "tokens");
        rig_do(&w->rig, "TAKE", "changing");
}

static void step_enqueue(struct world *w)
{
        const char *limits[] = {"api", "changing", "nosuch"};
        const char *hooks[] = {"h", "k", "m"};
        w->n_added++;
        rig_do(&w->rig, "ENQUEUE", hooks[roll(w, 3)], "", "QUEUE", roll(w, 2) ? "q" : "r",
               "ATTEMPTS", "1000", roll(w, 3) ? "LIMIT" : "TARGET",
               roll(w, 3) ? limits[roll(w, 3)] : "smtp");
}

/* One job at a time, so that the reply says all there is to know. */
static bool step_claim_one(struct world *w)
{
        char hook[8] = "", queue[8] = "";
        unsigned long long id = 0;
        if (w->n_running == JOBS)
                return false;
        struct running *job = &w->running[w->n_running];
        const char *text = rig_do(&w->rig, "CLAIM", "w", "LEASE", "400", "QUEUES", "q", "r");
        if (sscanf(text, "[{id:%llu token:'%32[0-9a-f]' hook:'%7[a-z]'", &id, job->token, hook) !=
            3)
                return false;
        (void)snprintf(job->id, sizeof(job->id), "%llu", id);
        const struct job *live = state_job(&w->rig.core->state, id);
        assert_int_equal(sscanf(strstr(text, "queue:'"), "queue:'%7[a-z]'", queue), 1);
        if (queue[0] == 'q')
                granted(w, QUEUE, 1);
        if (hook[0] == 'h' || hook[0] == 'k')
                granted(w, hook[0] == 'h' ? HOOK_H : HOOK_K, 1);
        if (live->extra && slice_eq(live->extra->options.limit, SLICE_LIT("api")))
                granted(w, API, 1);
        w->n_running++;
        w->n_started++;
        return true;
}

static void step_claim(struct world *w)
{
        for (uint64_t n = roll(w, 6); n > 0 && step_claim_one(w); n--)
                ;
}

static void step_end(struct world *w)
{
        if (!w->n_running)
                return;
        size_t i = roll(w, w->n_running);
        const struct running job = w->running[i];
        w->running[i] = w->running[--w->n_running];
        const char *text;
        switch (roll(w, 4)) {
        case 0:
                text = rig_do(&w->rig, "FAIL", job.id, job.token, "x");
                break;
        case 1:
                text = rig_do(&w->rig, "RELEASE", job.id, job.token);
                break;
        case 2:
                return; /* its worker has died */
        default:
                text = rig_do(&w->rig, "COMPLETE", job.id, job.token);
                break;
        }
        if (text[0] == '!') /* its lease had run out */
                assert_true(strncmp(text, "!NOTOWNER", 9) == 0 || strncmp(text, "!STATE", 6) == 0 ||
                            strncmp(text, "!NOTFOUND", 9) == 0);
}

static void step_ask(struct world *w)
{
        char verdict[16] = "", token[33] = "";
        const char *text = rig_do(&w->rig, "ASK", "db");
        assert_true(sscanf(text, "{verdict:'%15[a-z]' token:'%32[0-9a-f]'", verdict, token) >= 1);
        if (verdict[0] == 'r')
                return;
        assert_true(!w->probe[0] || w->rig.now.steady_ns >= w->probe_until_ns);
        w->probe[0] = '\0';
        if (strcmp(verdict, "probe") == 0) {
                memcpy(w->probe, token, sizeof(token));
                w->probe_until_ns = w->rig.now.steady_ns + 100 * NS_PER_MS;
        } else if (w->n_passes < ARRAY_LEN(w->passes)) {
                memcpy(w->passes[w->n_passes++], token, sizeof(token));
        }
}

static void step_report(struct world *w)
{
        const char *outcome = roll(w, 3) ? "fail" : "ok";
        char token[33];
        if (w->probe[0] && roll(w, 2)) {
                memcpy(token, w->probe, sizeof(token));
                if (roll(w, 4)) /* else its client was killed */
                        rig_do(&w->rig, "REPORT", "db", token, outcome);
                else
                        rig_pass_ms(&w->rig, 100);
                w->probe[0] = '\0';
        } else if (w->n_passes) {
                memcpy(token, w->passes[--w->n_passes], sizeof(token));
                rig_do(&w->rig, "REPORT", "db", token, outcome);
        }
}

static void step_force(struct world *w)
{
        if (roll(w, 6))
                return;
        const char *name = roll(w, 2) ? "db" : "smtp";
        if (roll(w, 2))
                rig_do(&w->rig, "TRIP", name, "REASON", "dice");
        else
                rig_do(&w->rig, "CLOSEBREAKER", name);
        if (name[0] == 'd') /* either way the probe has no say any more */
                w->probe[0] = '\0';
}

static void step_time(struct world *w)
{
        w->rig.now.steady_ns += (int64_t)roll(w, NS_PER_MS); /* never on the dot */
        rig_pass_ms(&w->rig, (int64_t)roll(w, 40));
}

static void step_restart(struct world *w)
{
        if (roll(w, 6))
                return;
        for (size_t i = 0; i < SESSIONS; i++) {
                session_release(w->rig.core, &w->sessions[i].base);
                w->is_waiting[i] = false;
        }
        assert_true(rig_replays(&w->rig));
}

static void step_clean(struct world *w)
{
        rig_fall_behind(&w->rig, &w->dice);
        rig_turn(&w->rig);
}

/* Of the jobs started since the breaker opened one may run, and it is the probe. */
static void check_smtp(struct world *w)
{
        struct state *s = &w->rig.core->state;
        struct thing *t = thing_find(s, THING_BREAKER, SLICE_LIT("smtp"));
        size_t n = 0;
        if (!t || breaker_of(t)->circuit.state == CIRCUIT_CLOSED)
                return;
        const struct circuit *c = &breaker_of(t)->circuit;
        if (c->state == CIRCUIT_OPEN)
                w->open_fence = s->fence;
        for (size_t i = 0; i < s->running.len; i++) {
                const struct job *job = CONTAINER_OF(s->running.entries[i].node, struct job, node);
                if (job->more->fence <= w->open_fence || !job->extra ||
                    !slice_eq(job->extra->options.target, SLICE_LIT("smtp")))
                        continue;
                assert_true(job->more->fence == c->probe_id);
                n++;
        }
        assert_true(n <= 1);
}

/* Time goes on until all are served: nobody was forgotten. */
static void run_out(struct world *w)
{
        rig_do(&w->rig, "UNLIMIT", "changing");
        if (thing_find(&w->rig.core->state, THING_BREAKER, SLICE_LIT("smtp")))
                rig_do(&w->rig, "CLOSEBREAKER", "smtp");
        for (int turns = 0; turns < 20000; turns++) {
                size_t pending = 0;
                rig_pass_ms(&w->rig, 20);
                collect_waiting(w);
                while (step_claim_one(w)) {
                        w->n_running--;
                        rig_do(&w->rig, "COMPLETE", w->running[w->n_running].id,
                               w->running[w->n_running].token);
                }
                for (size_t i = 0; i < SESSIONS; i++)
                        pending += w->is_waiting[i];
                if (!pending && !w->rig.core->state.running.len &&
                    w->rig.core->state.jobs.len == w->rig.core->state.n_finished)
                        return;
        }
        fail_msg("%zu jobs are left", w->rig.core->state.jobs.len);
}

static void begin(struct world *w)
{
        rig_init(&w->rig);
        for (size_t i = 0; i < SESSIONS; i++)
                rig_session_init(&w->sessions[i]);
        for (size_t i = 0; i < RULES; i++) {
                const struct rule *r = &rules[i];
                const char *burst = r->burst ? "BURST" : (char *)NULL;
                assert_string_equal(rig_do(&w->rig, "LIMIT", r->name, r->amount, r->period, "KIND",
                                           r->kind, burst, r->burst),
                                    "OK");
        }
        assert_string_equal(rig_do(&w->rig, "BREAKER", "db", "THRESHOLD", "2", "COOLDOWN", "50",
                                   "COOLDOWNMAX", "200", "PROBE", "100"),
                            "OK");
        if (roll(w, 2))
                assert_string_equal(rig_do(&w->rig, "BREAKER", "smtp", "THRESHOLD", "3", "RATE",
                                           "60", "WINDOW", "300", "VOLUME", "5", "COOLDOWN", "60",
                                           "COOLDOWNMAX", "150", "PROBE", "40"),
                                    "OK");
}

static void run_round(uint64_t seed)
{
        static void (*const steps[])(struct world *) = {
                step_take,    step_take,  step_take,    step_passing, step_change,
                step_enqueue, step_claim, step_claim,   step_end,     step_end,
                step_ask,     step_ask,   step_report,  step_report,  step_force,
                step_time,    step_time,  step_restart, step_clean,
        };
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        begin(w);
        for (int i = 0; i < STEPS; i++) {
                steps[roll(w, ARRAY_LEN(steps))](w);
                collect_waiting(w);
                state_check(&w->rig.core->state);
                check_smtp(w);
        }
        run_out(w);
        for (size_t i = 0; i < SESSIONS; i++)
                rig_session_release(&w->rig, &w->sessions[i]);
        rig_release(&w->rig);
        free(w);
}

static void limits_and_breakers_keep_their_promises_over_restarts(void **unused)
{
        (void)unused;
        say_setup(SAY_ERROR, false); /* breakers that change are no news here */
        dice_play(30, run_round);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(limits_and_breakers_keep_their_promises_over_restarts),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
