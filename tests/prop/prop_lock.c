/* Random commands against a model of locks that fits on a page: holders and waiters in arrays,
 * looked at one by one.  Restarts, a cleaner that always works and trims of the log are mixed in,
 * so what is replayed is what a trimmed log still holds; a fence is never given twice.
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
#include "state/lock.h"
#include "support/rig.h"

#define NAMES    3
#define SESSIONS 8
#define PLACES   3
#define STEPS    800
#define TOKENS   64

static const char *const names[NAMES] = {"a", "b", "c"};

struct model_holder {
        char token[33];
        unsigned long long fence;
        int64_t deadline_ms;
};

struct model_waiter {
        size_t session;
        int64_t ttl_ms, until_ms;
};

struct model_lock {
        size_t count, n_holders, n_waiters;
        struct model_holder holders[PLACES];
        struct model_waiter waiters[SESSIONS];
};

struct world {
        struct rig rig;
        struct rng dice;
        struct model_lock locks[NAMES];
        struct rig_session sessions[SESSIONS];
        char old[TOKENS][33]; /* tokens given some time, held or not */
        size_t n_old;
        unsigned long long fence;
        bool is_off; /* locks.enabled is false: nobody waits, and nobody is granted anything */
};

static int64_t now_ms(const struct world *w)
{
        return w->rig.now.wall_ms;
}

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

static const char *number(char *ret, int64_t v)
{
        (void)snprintf(ret, 24, "%lld", (long long)v);
        return ret;
}

/* ---- the model ---- */

static void model_grant(struct world *w, struct model_lock *l, const char *text, int64_t ttl_ms)
{
        struct model_holder *h = &l->holders[l->n_holders++];
        if (sscanf(text, "{token:'%32[0-9a-f]' fence:%llu", h->token, &h->fence) != 2)
                fail_msg("not a lock: %s", text);
        assert_true(h->fence > w->fence);
        w->fence = h->fence;
        h->deadline_ms = now_ms(w) + ttl_ms;
        memcpy(w->old[w->n_old++ % TOKENS], h->token, 33);
}

static void remove_waiter(struct model_lock *l, size_t i)
{
        l->n_waiters--;
        memmove(&l->waiters[i], &l->waiters[i + 1], (l->n_waiters - i) * sizeof(l->waiters[0]));
}

/* A place became free: whoever waits longest must have been given it. */
static void model_free(struct world *w, struct model_lock *l, size_t i)
{
        l->n_holders--;
        memmove(&l->holders[i], &l->holders[i + 1], (l->n_holders - i) * sizeof(l->holders[0]));
        if (l->n_waiters) {
                struct model_waiter first = l->waiters[0];
                struct rig_session *s = &w->sessions[first.session];
                assert_true(s->is_answered);
                remove_waiter(l, 0);
                model_grant(w, l, text_reply_str(&s->reply), first.ttl_ms);
        }
        if (!l->n_holders)
                l->count = 0;
}

static struct model_holder *model_find(struct model_lock *l, const char *token)
{
        for (size_t i = 0; i < l->n_holders; i++)
                if (strcmp(l->holders[i].token, token) == 0)
                        return &l->holders[i];
        return NULL;
}

static struct rig_session *idle_session(struct world *w, size_t *ret)
{
        size_t start = roll(w, SESSIONS);
        for (size_t i = 0; i < SESSIONS; i++) {
                *ret = (start + i) % SESSIONS;
                if (!session_is_waiting(&w->sessions[*ret].base))
                        return &w->sessions[*ret];
        }
        return NULL;
}

/* ---- steps ---- */

static void step_lock(struct world *w)
{
        char ttl[24], wait[24], count[24];
        size_t name = roll(w, NAMES), who;
        struct model_lock *l = &w->locks[name];
        struct rig_session *s = idle_session(w, &who);
        if (!s)
                return;
        int64_t ttl_ms = 100 + (int64_t)roll(w, 200);
        int64_t wait_ms = roll(w, 2) ? (int64_t)roll(w, 300) : 0;
        size_t places = l->count && roll(w, 8) ? l->count : 1 + roll(w, PLACES);
        const char *text =
                rig_as(&w->rig, s, "LOCK", names[name], "PX", number(ttl, ttl_ms), "WAIT",
                       number(wait, wait_ms), "COUNT", number(count, (int64_t)places));
        if (w->is_off) {
                assert_int_equal(strncmp(text, "!DISABLED", 9), 0);
        } else if (l->count && places != l->count) {
                assert_int_equal(strncmp(text, "!STATE", 6), 0);
        } else if (l->n_holders < places) {
                l->count = places;
                model_grant(w, l, text, ttl_ms);
        } else if (wait_ms == 0) {
                assert_string_equal(text, "null");
        } else {
                assert_string_equal(text, "(waits)");
                l->waiters[l->n_waiters++] =
                        (struct model_waiter){who, ttl_ms, now_ms(w) + wait_ms};
        }
}

static const char *some_token(struct world *w, const struct model_lock *l)
{
        if (l->n_holders && roll(w, 3))
                return l->holders[roll(w, l->n_holders)].token;
        if (!w->n_old)
                return "00000000000000000000000000000000";
        return w->old[roll(w, w->n_old < TOKENS ? w->n_old : TOKENS)];
}

static void refused(const struct model_lock *l, const char *text)
{
        assert_int_equal(strncmp(text, l->n_holders ? "!NOTOWNER" : "!NOTFOUND", 9), 0);
}

static void step_unlock(struct world *w)
{
        size_t name = roll(w, NAMES);
        struct model_lock *l = &w->locks[name];
        char token[33];
        memcpy(token, some_token(w, l), sizeof(token));
        struct model_holder *h = model_find(l, token);
        const char *text = rig_do(&w->rig, "UNLOCK", names[name], token);
        if (!h) {
                refused(l, text);
                return;
        }
        assert_string_equal(text, "OK");
        model_free(w, l, (size_t)(h - l->holders));
}

static void step_renew(struct world *w)
{
        size_t name = roll(w, NAMES);
        struct model_lock *l = &w->locks[name];
        char token[33], ttl[24];
        memcpy(token, some_token(w, l), sizeof(token));
        struct model_holder *h = model_find(l, token);
        int64_t ttl_ms = 100 + (int64_t)roll(w, 200);
        const char *text = rig_do(&w->rig, "RENEW", names[name], token, "PX", number(ttl, ttl_ms));
        if (!h) {
                refused(l, text);
                return;
        }
        unsigned long long fence = 0;
        assert_int_equal(sscanf(text, "{fence:%llu", &fence), 1);
        assert_true(fence == h->fence);
        h->deadline_ms = now_ms(w) + ttl_ms;
}

static void step_reenter(struct world *w)
{
        size_t name = roll(w, NAMES);
        struct model_lock *l = &w->locks[name];
        if (!l->n_holders)
                return;
        char token[33], count[24];
        bool is_renewing = roll(w, 2);
        struct model_holder *h = &l->holders[roll(w, l->n_holders)];
        memcpy(token, h->token, sizeof(token));
        const char *text = rig_do(&w->rig, "LOCK", names[name], "PX", "250", "TOKEN", token,
                                  "COUNT", number(count, (int64_t)l->count), "REENTER",
                                  is_renewing ? "renew" : "refuse");
        if (!is_renewing) {
                assert_int_equal(strncmp(text, "!STATE", 6), 0);
                return;
        }
        char again[33];
        assert_int_equal(sscanf(text, "{token:'%32[0-9a-f]'", again), 1);
        assert_string_equal(again, token);
        h->deadline_ms = now_ms(w) + 250;
}

static void step_force(struct world *w)
{
        size_t name = roll(w, NAMES);
        struct model_lock *l = &w->locks[name];
        char n[24];
        if (roll(w, 4))
                return;
        size_t before = l->n_holders;
        const char *text = rig_do(&w->rig, "FORCEUNLOCK", names[name], "REASON", "dice");
        if (!before) {
                assert_int_equal(strncmp(text, "!NOTFOUND", 9), 0);
                return;
        }
        assert_string_equal(text, number(n, (int64_t)before));
        for (size_t i = 0; i < before; i++)
                model_free(w, l, 0);
}

/* Fences are given by lock in the order of the deadlines, which the model need not know: the
 * earliest deadline of all goes first, as the alarms ring. */
static bool expire_first(struct world *w)
{
        struct model_lock *found = NULL;
        size_t at = 0;
        unsigned long long best = 0;
        for (size_t i = 0; i < NAMES; i++) {
                struct model_lock *l = &w->locks[i];
                for (size_t j = 0; j < l->n_holders; j++) {
                        if (l->holders[j].deadline_ms > now_ms(w))
                                continue;
                        /* Served in the order of the fences that were given for them. */
                        unsigned long long next = UINT64_MAX;
                        if (l->n_waiters)
                                (void)sscanf(
                                        text_reply_str(&w->sessions[l->waiters[0].session].reply),
                                        "{token:'%*32[0-9a-f]' fence:%llu", &next);
                        if (!found || next < best) {
                                found = l;
                                at = j;
                                best = next;
                        }
                        break; /* of one lock the oldest holder goes first */
                }
        }
        if (found)
                model_free(w, found, at);
        return found != NULL;
}

static void step_time(struct world *w)
{
        int64_t ms = 1 + (int64_t)roll(w, 60);
        rig_pass_ms(&w->rig, ms);
        while (expire_first(w))
                ;
        for (size_t i = 0; i < NAMES; i++) {
                struct model_lock *l = &w->locks[i];
                for (size_t j = 0; j < l->n_waiters;) {
                        struct rig_session *s = &w->sessions[l->waiters[j].session];
                        bool is_over = l->waiters[j].until_ms <= now_ms(w);
                        assert_int_equal(s->is_answered, is_over);
                        if (is_over) {
                                assert_string_equal(text_reply_str(&s->reply), "null");
                                remove_waiter(l, j);
                        } else {
                                j++;
                        }
                }
        }
}

static void step_vanish(struct world *w)
{
        struct model_lock *l = &w->locks[roll(w, NAMES)];
        if (!l->n_waiters)
                return;
        size_t i = roll(w, l->n_waiters);
        session_release(w->rig.core, &w->sessions[l->waiters[i].session].base);
        remove_waiter(l, i);
}

/* Off and on again: whoever waits is told, and whoever holds keeps it. */
static void step_switch(struct world *w)
{
        if (!w->is_off && roll(w, 8))
                return;
        w->is_off = !w->is_off;
        if (w->is_off || roll(w, 2))
                (void)rig_do(&w->rig, "SETTINGSET", "locks.enabled", w->is_off ? "off" : "on");
        else
                (void)rig_do(&w->rig, "SETTINGUNSET", "locks.enabled");
        for (size_t i = 0; w->is_off && i < NAMES; i++) {
                struct model_lock *l = &w->locks[i];
                for (; l->n_waiters; remove_waiter(l, 0)) {
                        struct rig_session *s = &w->sessions[l->waiters[0].session];
                        assert_true(s->is_answered);
                        assert_int_equal(strncmp(text_reply_str(&s->reply), "!DISABLED", 9), 0);
                }
        }
}

static void step_restart(struct world *w)
{
        if (roll(w, 8))
                return;
        for (size_t i = 0; i < SESSIONS; i++)
                session_release(w->rig.core, &w->sessions[i].base);
        for (size_t i = 0; i < NAMES; i++)
                w->locks[i].n_waiters = 0;
        assert_true(rig_replays(&w->rig));
}

static void step_clean(struct world *w)
{
        rig_fall_behind(&w->rig, &w->dice);
        rig_turn(&w->rig);
}

static void check(struct world *w)
{
        struct state *s = &w->rig.core->state;
        state_check(s);
        assert_true(s->fence >= w->fence);
        for (size_t i = 0; i < NAMES; i++) {
                const struct model_lock *m = &w->locks[i];
                struct thing *t = thing_find(s, THING_LOCK, slice_str(names[i]));
                assert_int_equal(t != NULL, m->n_holders > 0);
                if (!t)
                        continue;
                const struct lock *l = lock_of(t);
                assert_int_equal(l->count, m->count);
                assert_int_equal(l->n_holders, m->n_holders);
                assert_int_equal(l->n_waiting, m->n_waiters);
                for (size_t j = 0; j < m->n_holders; j++) {
                        const struct lock_holder *h = &l->holders[j];
                        int64_t left_ns = h->deadline_ns - w->rig.now.steady_ns;
                        assert_true(h->fence == m->holders[j].fence);
                        assert_true(left_ns == (m->holders[j].deadline_ms - now_ms(w)) * NS_PER_MS);
                }
        }
}

static void run_round(uint64_t seed)
{
        static void (*const steps[])(struct world *) = {
                step_lock,   step_lock,    step_lock,    step_lock,   step_unlock, step_unlock,
                step_unlock, step_renew,   step_reenter, step_time,   step_time,   step_force,
                step_vanish, step_restart, step_clean,   step_switch,
        };
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        rig_init(&w->rig);
        for (size_t i = 0; i < SESSIONS; i++)
                rig_session_init(&w->sessions[i]);
        for (int i = 0; i < STEPS; i++) {
                steps[roll(w, ARRAY_LEN(steps))](w);
                check(w);
        }
        for (size_t i = 0; i < SESSIONS; i++)
                rig_session_release(&w->rig, &w->sessions[i]);
        rig_release(&w->rig);
        free(w);
}

static void locks_do_what_the_model_does(void **unused)
{
        (void)unused;
        say_setup(SAY_ERROR, false); /* the forced ones are no news here */
        dice_play(80, run_round);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(locks_do_what_the_model_does),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
