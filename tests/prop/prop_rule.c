/* Random commands against a model of rules that fits on a page: an array of all rules there can be,
 * looked through in the order that is written in checks/rule.h.  Restarts, some with a steady time
 * that goes back to the last one in the log, jumps of the wall clock, a cleaner that always works
 * and trims of the log are mixed in.
 *
 * And bodies made of dice: whatever a log brings is taken over or rejected, and what is rejected
 * leaves the thing as it was.
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
#include "checks/rule.h"
#include "core/kernel.h"
#include "prop/dice.h"
#include "state/rulelog.h"
#include "support/rig.h"

#define STEPS   400
#define NAMES   6
#define TARGETS 3
#define SLOTS   3
#define TRIES   2 /* one that observes, one that is enforced: in the order they are looked at */
#define ALL     0
#define DAY_MS  86400000

static const char *const names[NAMES] = {"all", "a", "b", "a:b", "b:a:b", "c"};
static const char *const targets[TARGETS] = {"", "shop", "files"};
static const char *const slots[SLOTS] = {"share", "metrics", "threshold"};
static const char *const lists[SLOTS][2] = {{"", ""}, {"lag", "lag,busy"}, {"lag=1", "busy=2.5"}};

struct model_rule {
        bool is_there;
        enum rule_kind kind;
        bool is_observing;
        uint32_t ratio_ppm;
        const char *list;
        int64_t until_ns;
};

struct world {
        struct rig rig;
        struct rng dice;
        struct model_rule rules[NAMES][TARGETS][SLOTS][TRIES];
        uint64_t n_changes; /* entries that the history was given */
};

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

static int64_t now_ns(const struct world *w)
{
        return w->rig.now.steady_ns;
}

static void set_up(struct world *w)
{
        static const struct core_metric metrics[] = {
                {.name = "lag", .rule = {{5, 15}, {3, 10}, NS_PER_S, false}},
                {.name = "busy", .rule = {{5, 15}, {3, 10}, NS_PER_S, false}},
        };
        static const struct core_target all[] = {
                {.name = "shop", .metrics = metrics, .n_metrics = 2, .mode = -1},
                {.name = "files", .metrics = metrics, .n_metrics = 2, .mode = -1},
        };
        struct core_throttle options = {.targets = all, .n_targets = 2};
        policy_init(&options.policy);
        options.checks.mode = MODE_ENFORCE;
        core_set_throttle(w->rig.core, &options);
}

/* ---- the model ---- */

static void model_set(struct world *w, size_t name, size_t target, const struct model_rule *r)
{
        size_t slot = r->kind == RULE_METRICS ? 1 : r->kind == RULE_THRESHOLD ? 2 : 0;
        w->rules[name][target][slot][!r->is_observing] = *r;
        w->n_changes++;
}

static void model_time(struct world *w)
{
        for (size_t i = 0; i < NAMES; i++)
                for (size_t k = 0; k < TARGETS; k++)
                        for (size_t s = 0; s < SLOTS * TRIES; s++) {
                                struct model_rule *r = &w->rules[i][k][s / TRIES][s % TRIES];
                                if (!r->is_there || r->until_ns > now_ns(w))
                                        continue;
                                r->is_there = false;
                                w->n_changes++;
                        }
}

static int model_name(struct slice text)
{
        for (size_t i = 0; i < NAMES; i++)
                if (slice_eq(text, slice_str(names[i])))
                        return (int)i;
        return -1;
}

/* The next rule of that slot in the order of the identity; NULL at the end.  *at goes on. */
static const struct model_rule *model_next(const struct world *w, const struct identity *who,
                                           size_t target, size_t slot, size_t *at)
{
        /* The whole, the parts, all; each for the target and for every target, and of each the
         * one that is tried out first: enforced, it would stand in the place of the other. */
        while (*at < 2 * TRIES * (who->n + 2)) {
                size_t step = (*at)++, place = step / (2 * TRIES);
                struct slice text = place == 0        ? who->whole
                                    : place <= who->n ? who->part[place - 1]
                                                      : SLICE_LIT("all");
                int name = model_name(text);
                size_t t = step / TRIES % 2 ? 0 : target;
                if (name >= 0 && w->rules[name][t][slot][step % TRIES].is_there)
                        return &w->rules[name][t][slot][step % TRIES];
        }
        return NULL;
}

/* ---- steps ---- */

static const char *number(char *ret, int64_t v)
{
        (void)snprintf(ret, 24, "%lld", (long long)v);
        return ret;
}

static void step_set(struct world *w)
{
        static const char *const ratios[] = {"0", "0.25", "1"};
        static const uint32_t ppm[] = {0, 250000, 1000000};
        struct model_rule r = {.is_there = true, .kind = (enum rule_kind)roll(w, RULE_KINDS)};
        size_t name = roll(w, NAMES), target = roll(w, TARGETS), ratio = roll(w, 3);
        size_t slot = r.kind == RULE_METRICS ? 1 : r.kind == RULE_THRESHOLD ? 2 : 0;
        int64_t for_ms = 1 + (int64_t)roll(w, 20000);
        char length[24];
        struct slice argv[16] = {SLICE_LIT("RULESET"), slice_str(names[name]),
                                 slice_str(rule_kind_name(r.kind)), SLICE_LIT("FOR"),
                                 slice_str(number(length, for_ms))};
        size_t argc = 5;
        r.is_observing = roll(w, 3) == 0;
        r.list = lists[slot][roll(w, 2)];
        r.until_ns = now_ns(w) + for_ms * NS_PER_MS;
        if (r.is_observing) {
                argv[argc++] = SLICE_LIT("MODE");
                argv[argc++] = SLICE_LIT("observe");
        }
        if (r.kind == RULE_RATIO) {
                argv[argc++] = SLICE_LIT("RATIO");
                argv[argc++] = slice_str(ratios[ratio]);
                r.ratio_ppm = ppm[ratio];
        }
        if (slot) {
                argv[argc++] = slice_str(slots[slot]); /* the keyword is the name of the slot */
                argv[argc++] = slice_str(r.list);
        }
        if (target) {
                argv[argc++] = SLICE_LIT("TARGET");
                argv[argc++] = slice_str(targets[target]);
        }
        assert_string_equal(rig_argv(&w->rig, &w->rig.me, argv, argc), "OK");
        model_set(w, name, target, &r);
}

static void step_unset(struct world *w)
{
        size_t name = roll(w, NAMES), target = roll(w, TARGETS), n = 0;
        enum rule_kind kind = (enum rule_kind)roll(w, RULE_KINDS);
        bool has_kind = roll(w, 2), has_mode = roll(w, 2), is_observing = roll(w, 2);
        struct slice argv[8] = {SLICE_LIT("RULEUNSET"), slice_str(names[name])};
        size_t argc = 2;
        if (target) {
                argv[argc++] = SLICE_LIT("TARGET");
                argv[argc++] = slice_str(targets[target]);
        }
        if (has_kind) {
                argv[argc++] = SLICE_LIT("KIND");
                argv[argc++] = slice_str(rule_kind_name(kind));
        }
        if (has_mode) {
                argv[argc++] = SLICE_LIT("MODE");
                argv[argc++] = is_observing ? SLICE_LIT("observe") : SLICE_LIT("enforce");
        }
        for (size_t s = 0; s < SLOTS * TRIES; s++) {
                struct model_rule *r = &w->rules[name][target][s / TRIES][s % TRIES];
                if (!r->is_there || (has_kind && r->kind != kind) ||
                    (has_mode && r->is_observing != is_observing))
                        continue;
                r->is_there = false;
                n++;
        }
        w->n_changes += n;
        const char *text = rig_argv(&w->rig, &w->rig.me, argv, argc);
        if (n)
                assert_string_equal(text, "OK");
        else
                assert_int_equal(strncmp(text, "!NOTFOUND", 9), 0);
}

static void step_prioritize(struct world *w)
{
        size_t name = 1 + roll(w, NAMES - 1);
        struct model_rule r = {.is_there = true,
                               .kind = RULE_RATIO,
                               .ratio_ppm = 900000,
                               .list = "",
                               .until_ns = now_ns(w) + 7000 * NS_PER_MS};
        assert_string_equal(rig_do(&w->rig, "PRIORITIZE", names[name], "FOR", "7000"), "OK");
        model_set(w, ALL, 0, &r);
        r.ratio_ppm = 0;
        model_set(w, name, 0, &r);
}

static struct model_rule *model_ratio(struct world *w, size_t name)
{
        struct model_rule *r = &w->rules[name][0][0][1];
        return r->is_there && r->kind == RULE_RATIO ? r : NULL;
}

static void step_unprioritize(struct world *w)
{
        size_t name = 1 + roll(w, NAMES - 1), n_first = 0;
        struct model_rule *first = model_ratio(w, name), *all = model_ratio(w, ALL);
        const char *text = rig_do(&w->rig, "UNPRIORITIZE", names[name]);
        if (!first || first->ratio_ppm) {
                assert_int_equal(strncmp(text, "!NOTFOUND", 9), 0);
                return;
        }
        assert_string_equal(text, "OK");
        first->is_there = false;
        w->n_changes++;
        for (size_t i = ALL + 1; i < NAMES; i++)
                n_first += model_ratio(w, i) && model_ratio(w, i)->ratio_ppm == 0;
        if (n_first || !all)
                return;
        all->is_there = false;
        w->n_changes++;
}

static void step_time(struct world *w)
{
        rig_pass_ms(&w->rig, (int64_t)roll(w, 3000));
        model_time(w);
}

static void step_jump(struct world *w)
{
        w->rig.now.wall_ms += roll(w, 2) ? DAY_MS : -DAY_MS;
        rig_turn(&w->rig);
}

static void step_restart(struct world *w)
{
        if (roll(w, 4))
                return;
        uint64_t before = state_digest(&w->rig.core->state);
        if (roll(w, 2)) { /* as the door does it; nothing was logged since */
                int64_t lost_ns = now_ns(w) - core_steady_ns(w->rig.core);
                assert_true(lost_ns <= RULELOG_BEAT_NS + 3 * NS_PER_S);
                w->rig.now.steady_ns = core_steady_ns(w->rig.core);
        }
        rig_restart(&w->rig);
        set_up(w);
        assert_true(before == state_digest(&w->rig.core->state));
}

static void step_clean(struct world *w)
{
        rig_fall_behind(&w->rig, &w->dice);
        rig_turn(&w->rig);
}

/* ---- checks ---- */

static void check_rule(const struct rule *got, const struct model_rule *want)
{
        assert_int_equal(got != NULL, want != NULL);
        if (!want)
                return;
        assert_int_equal(got->kind, want->kind);
        assert_int_equal(got->ratio_ppm, want->ratio_ppm);
        assert_true(got->until_ns == want->until_ns);
        assert_true(slice_eq(got->list, slice_str(want->list)));
}

static void check_share(const struct world *w, const struct identity *who, size_t target,
                        const struct rule_match *m)
{
        const struct model_rule *r, *share = NULL, *observed = NULL, *holds[2] = {NULL, NULL};
        size_t at = 0;
        while ((r = model_next(w, who, target, 0, &at))) {
                if (r->kind == RULE_HOLD)
                        holds[r->is_observing] = r; /* the last is the most general */
                if (!share && !r->is_observing)
                        share = r;
                else if (!share && !observed)
                        observed = r;
        }
        check_rule(m->share, holds[0] ? holds[0] : share);
        check_rule(m->observed, holds[1] ? holds[1] : observed);
}

struct lists {
        const struct model_rule *threshold, *metrics[IDENTITY_PARTS + 2];
        size_t n;
        bool observes; /* one of them does */
};

/* is_trial: as if those that observe were enforced. */
static struct lists model_lists(const struct world *w, const struct identity *who, size_t target,
                                bool is_trial)
{
        struct lists l = {.n = 0};
        size_t last = SIZE_MAX, at = 0;
        const struct model_rule *r;
        do
                l.threshold = model_next(w, who, target, 2, &at);
        while (l.threshold && l.threshold->is_observing && !is_trial);
        l.observes = l.threshold && l.threshold->is_observing;
        at = 0;
        while ((r = model_next(w, who, target, 1, &at))) {
                if (r->is_observing && !is_trial)
                        continue;
                size_t place = (at - 1) / (2 * TRIES); /* of one name only the first */
                bool is_new = place != last && (place <= who->n || l.n == 0);
                for (size_t i = 0; i < l.n; i++)
                        is_new = is_new && l.metrics[i] != r;
                if (is_new)
                        l.metrics[l.n++] = r;
                l.observes |= is_new && r->is_observing;
                last = place;
        }
        return l;
}

static void check_lists(const struct rule_match *m, const struct lists *want)
{
        check_rule(m->threshold, want->threshold);
        /* "b:a:b": the second "b" has nothing to say but what the first did. */
        assert_int_equal(m->n_metrics, want->n);
        for (size_t i = 0; i < want->n; i++)
                check_rule(m->metrics[i], want->metrics[i]);
}

static void check_trial(const struct world *w, const struct identity *who, size_t target)
{
        struct rule_match m;
        struct lists want = model_lists(w, who, target, true);
        const struct rule *r = rule_match_trial(w->rig.core, who, slice_str(targets[target]), &m);
        assert_int_equal(r != NULL, want.observes);
        if (!r)
                return;
        assert_int_equal(r->mode, MODE_OBSERVE);
        check_lists(&m, &want);
}

static void check(struct world *w)
{
        static const char *const asking[] = {"a", "b", "c", "x", "a:b", "b:a", "b:a:b", "x:c:a"};
        struct state *s = &w->rig.core->state;
        struct identity who;
        struct rule_match m;
        struct problem problem;
        size_t n = 0, target = roll(w, TARGETS);
        assert_int_equal(
                identity_parse(slice_str(asking[roll(w, ARRAY_LEN(asking))]), &who, &problem), OK);
        rule_match(w->rig.core, &who, slice_str(targets[target]), &m);
        check_share(w, &who, target, &m);
        struct lists enforced = model_lists(w, &who, target, false);
        check_lists(&m, &enforced);
        check_trial(w, &who, target);
        state_check(s);
        for (size_t i = 0; i < NAMES; i++)
                for (size_t k = 0; k < TARGETS; k++)
                        for (size_t j = 0; j < SLOTS * TRIES; j++)
                                n += w->rules[i][k][j / TRIES][j % TRIES].is_there;
        assert_int_equal(s->things[THING_RULE].len, n);
        const struct thing *t = thing_find(s, THING_RULELOG, SLICE_LIT(RULELOG_NAME));
        const struct rulelog *l = t ? CONTAINER_OF(t, const struct rulelog, thing) : NULL;
        assert_int_equal(l ? l->first + l->n : 0, w->n_changes);
}

static void run_round(uint64_t seed)
{
        static void (*const steps[])(struct world *) = {
                step_set,  step_set,  step_set,  step_set,     step_unset, step_prioritize,
                step_time, step_time, step_jump, step_restart, step_clean, step_unprioritize,
        };
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        rig_init(&w->rig);
        set_up(w);
        for (int i = 0; i < STEPS; i++) {
                steps[roll(w, ARRAY_LEN(steps))](w);
                check(w);
        }
        rig_release(&w->rig);
        free(w);
}

static void rules_do_what_the_model_does(void **unused)
{
        (void)unused;
        say_setup(SAY_ERROR, false); /* each change is said: no news here */
        dice_play(20, run_round);
}

/* ---- bodies ---- */

static void put_some(struct rng *dice, struct buf *b)
{
        char bytes[24];
        rng_fill(dice, bytes, sizeof(bytes));
        buf_put_lv(b, slice_make(bytes, rng_below(dice, sizeof(bytes))));
}

/* A body that could be, more or less. */
static void put_rule(struct rng *dice, struct buf *b)
{
        buf_put_byte(b, (char)(rng_below(dice, 20) ? 1 : rng_below(dice, 3)));
        buf_put_byte(b, (char)rng_below(dice, RULE_KINDS + (rng_below(dice, 10) == 0)));
        buf_put_byte(b, (char)rng_below(dice, MODES + (rng_below(dice, 10) == 0)));
        buf_put_byte(b, (char)rng_below(dice, 2 + (rng_below(dice, 10) == 0)));
        buf_put_varint(b, rng_u64(dice) >> rng_below(dice, 64));
        buf_put_varint(b, rng_u64(dice) >> rng_below(dice, 64));
        buf_put_varint(b, rng_below(dice, RULE_RATIO_ONE + RULE_RATIO_ONE / 10));
        for (int i = 0; i < 4; i++)
                put_some(dice, b);
}

static void put_entry(struct rng *dice, struct buf *b)
{
        buf_put_varint(b, rng_u64(dice) >> rng_below(dice, 64));
        buf_put_byte(b, (char)rng_below(dice, RULELOG_ACTIONS + (rng_below(dice, 50) == 0)));
        for (int i = 0; i < 4; i++)
                put_some(dice, b);
}

static void put_rulelog(struct rng *dice, struct buf *b)
{
        buf_put_varint(b, rng_u64(dice) >> rng_below(dice, 64));
        uint64_t n =
                rng_below(dice, 20) ? rng_below(dice, 10) : RULELOG_KEPT - 2 + rng_below(dice, 4);
        while (n--)
                put_entry(dice, b);
}

/* Some bytes are other ones, some are missing, some are too many. */
static void spoil(struct rng *dice, struct buf *b)
{
        switch (rng_below(dice, 6)) {
        case 0:
                b->len = rng_below(dice, b->len + 1);
                break;
        case 1:
                put_some(dice, b);
                break;
        case 2:
                for (uint64_t n = 1 + rng_below(dice, 3); n && b->len; n--)
                        b->ptr[rng_below(dice, b->len)] = (char)rng_u64(dice);
                break;
        case 3:
                b->len = 0;
                for (uint64_t n = rng_below(dice, 40); n; n--)
                        buf_put_byte(b, (char)rng_u64(dice));
                break;
        default:
                break;
        }
}

static bool apply(struct state *s, struct thing *t, struct slice body, bool is_note)
{
        const struct thing_ops *ops = thing_kinds[t->kind];
        char *copy = xmalloc(body.len ? body.len : 1); /* no more than this may be read */
        memcpy(copy, body.ptr ? body.ptr : "", body.len);
        struct slice exact = slice_make(copy, body.len);
        bool is_taken = is_note ? ops->note(s, t, exact) : ops->set(s, t, exact);
        free(copy);
        return is_taken;
}

static void check_values(const struct thing *t)
{
        if (t->kind != THING_RULE)
                return;
        const struct rule *r = CONTAINER_OF(t, const struct rule, thing);
        assert_true(r->until_ns >= 0 && r->set_ms >= 0 && r->ratio_ppm <= RULE_RATIO_ONE);
        assert_true(r->mode < MODES && r->flags <= RULE_ENDS_ITSELF);
}

/* Applies it as a log would; true when it was taken over.  What is taken reads back the same and is
 * not taken with a byte more; what is not leaves the thing as it was. */
static bool try_body(struct state *s, struct thing *t, struct slice body, bool is_note)
{
        const struct thing_ops *ops = thing_kinds[t->kind];
        struct buf before, after, again;
        buf_init(&before, 0);
        buf_init(&after, 0);
        buf_init(&again, 0);
        ops->put(t, &before);
        bool is_taken = apply(s, t, body, is_note);
        ops->put(t, &after);
        ops->check(t);
        if (!is_taken) {
                assert_true(slice_eq(buf_slice(&before), buf_slice(&after)));
        } else {
                assert_true(ops->set(s, t, buf_slice(&after)));
                ops->put(t, &again);
                assert_true(slice_eq(buf_slice(&after), buf_slice(&again)));
                buf_clear(&again);
                buf_put_slice(&again, body);
                buf_put_byte(&again, 0);
                assert_false(apply(s, t, buf_slice(&again), is_note));
                check_values(t);
        }
        buf_release(&before);
        buf_release(&after);
        buf_release(&again);
        return is_taken;
}

static void whatever_a_log_brings_is_taken_whole_or_not_at_all(void **unused)
{
        (void)unused;
        static const char *const rule_names[] = {"share:a",     "metrics:a/shop", "threshold:a:b",
                                                 "share:",      "share",          "",
                                                 "share:/shop", "other:a"};
        struct rng dice;
        struct state s;
        struct buf b;
        size_t n_taken[3] = {0}, n_bad_names = 0;
        dice_init(&dice, "bodies");
        state_init(&s, 1, thing_kinds);
        buf_init(&b, 0);
        for (uint64_t i = 0; i < dice_rounds(20000); i++) {
                size_t name = rng_below(&dice, ARRAY_LEN(rule_names));
                struct thing *rule = thing_get(&s, THING_RULE, slice_str(rule_names[name]));
                struct thing *log = thing_get(&s, THING_RULELOG, SLICE_LIT(RULELOG_NAME));
                buf_clear(&b);
                put_rule(&dice, &b);
                spoil(&dice, &b);
                bool is_taken = try_body(&s, rule, buf_slice(&b), false);
                n_taken[0] += is_taken;
                n_bad_names += is_taken && name >= 3;
                buf_clear(&b);
                put_rulelog(&dice, &b);
                spoil(&dice, &b);
                n_taken[1] += try_body(&s, log, buf_slice(&b), false);
                buf_clear(&b);
                put_entry(&dice, &b);
                spoil(&dice, &b);
                n_taken[2] += try_body(&s, log, buf_slice(&b), true);
        }
        assert_int_equal(n_bad_names, 0);
        for (size_t i = 0; i < 3; i++)
                assert_true(n_taken[i] > 100); /* else nothing was tried */
        buf_release(&b);
        state_release(&s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rules_do_what_the_model_does),
                cmocka_unit_test(whatever_a_log_brings_is_taken_whole_or_not_at_all),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
