/* A WordPress site, "blog", on the gate of throttle_box.h: surveys are made by hand, and a guard
 * that does nothing stands for the thread of the site. */
#ifndef WEIR_TESTS_UNIT_SITE_BOX_H
#define WEIR_TESTS_UNIT_SITE_BOX_H

#include "throttle_box.h"

#include <stdio.h>

#include "core/kernel.h"
#include "sites/sites.h"
#include "sites/sites_state.h"
#include "state/moved.h"

#define INTERVAL_S 5

static const struct slice blog = SLICE_LIT("blog");

#define ok(rig, ...) assert_string_equal(rig_do(rig, __VA_ARGS__), "OK")

/* What the guard was asked for. */
static struct {
        int n_wakes;
        struct site_request *request;
} asked;

static inline void wake(void *ctx, struct slice site)
{
        (void)ctx;
        assert_slice(site, "blog");
        asked.n_wakes++;
}

static inline bool take_request(void *ctx, struct slice site, struct site_request *q)
{
        (void)ctx;
        assert_slice(site, "blog");
        asked.request = q;
        return true;
}

static inline bool refuse_request(void *ctx, struct slice site, struct site_request *q)
{
        (void)ctx;
        (void)site;
        (void)q;
        return false;
}

static const struct sites_guard idle_guard = {.wake = wake, .request = take_request};

static inline void set_sites(struct rig *rig, enum gate_mode mode, const struct sites_guard *guard)
{
        const struct site_options options = {.name = "blog",
                                             .target = "shop",
                                             .mode = mode,
                                             .interval_ms = INTERVAL_S * MS_PER_S,
                                             .is_front = true};
        core_set_sites(rig->core, &options, 1, guard);
}

static inline void set_gate(struct rig *rig)
{
        static const struct registry_entry own[] = {{SLICE_LIT("pay"), TIER_CRITICAL},
                                                    {SLICE_LIT("renew"), TIER_HIGH},
                                                    {SLICE_LIT("news"), TIER_NORMAL},
                                                    {SLICE_LIT("sync"), TIER_DEFERRABLE}};
        struct core_throttle options = {.targets = &shop,
                                        .n_targets = 1,
                                        .registry = own,
                                        .n_registry = ARRAY_LEN(own),
                                        .ramp_cycles = 3,
                                        .ramp_cycle_ns = INTERVAL_S * NS_PER_S};
        policy_init(&options.policy);
        core_set_throttle(rig->core, &options);
}

static inline void bench(struct rig *rig, enum gate_mode mode, double load)
{
        rig_init(rig);
        asked.n_wakes = 0;
        asked.request = NULL;
        set_gate(rig);
        set_sites(rig, mode, &idle_guard);
        sample_for(rig, load, 2);
}

/* The process dies and comes back: what was in the log is there. */
static inline void restart(struct rig *rig, double load)
{
        rig_turn(rig);
        assert_true(rig_replays(rig));
        set_gate(rig);
        set_sites(rig, MODE_ENFORCE, &idle_guard);
        sample_for(rig, load, 2);
}

static inline int64_t now_s(const struct rig *rig)
{
        return rig->now.wall_ms / MS_PER_S;
}

static int64_t slow_ms; /* what the next surveys tell of their cycles */

/* hook, due, hook, due, ..., NULL */
static inline void survey(struct rig *rig, struct site_plan *ret, ...)
{
        struct site_survey v = {.now_s = now_s(rig)};
        va_list words;
        arena_init(&v.arena, 0);
        v.hooks = arena_array(&v.arena, 200, sizeof(*v.hooks));
        assert_non_null(v.hooks);
        va_start(words, ret);
        for (const char *hook; (hook = va_arg(words, const char *));)
                v.hooks[v.n_hooks++] =
                        (struct site_hook){.hook = arena_copy(&v.arena, slice_str(hook)),
                                           .due = va_arg(words, unsigned)};
        va_end(words);
        v.slow_ms = slow_ms;
        sites_surveyed(rig->core, blog, &v, ret);
        rig_turn(rig);
}

static inline struct site_due_row due_row(uint64_t id, int64_t original_s)
{
        return (struct site_due_row){.row = {id, original_s}, .current_s = original_s};
}

/* Proposes rows of the hook for that date; how many may be moved. */
static inline size_t propose(struct rig *rig, struct site_step *step, struct site_due_row *rows,
                             size_t n)
{
        struct problem problem;
        assert_int_equal(sites_propose(rig->core, blog, step, rows, &n, &problem), OK);
        rig_turn(rig);
        return n;
}

/* Moves n actions with ids from `id` on, due now and a second apart, to now + in_s. */
static inline uint64_t move(struct rig *rig, const char *hook, uint64_t id, size_t n, int64_t in_s)
{
        struct site_due_row rows[SITE_ROWS_MAX];
        struct site_step step = {
                .kind = STEP_MOVE, .hook = slice_str(hook), .to_s = now_s(rig) + in_s};
        for (size_t i = 0; i < n; i++)
                rows[i] = due_row(id + i, now_s(rig) - 100 + (int64_t)i);
        assert_int_equal(propose(rig, &step, rows, n), n);
        sites_stepped(rig->core, blog, &step, n, false);
        rig_turn(rig);
        return step.batch;
}

static inline size_t n_batches(const struct rig *rig)
{
        return rig->core->state.things[THING_MOVED].len;
}

static const struct moved *batch(const struct rig *rig, uint64_t number)
{
        char name[MOVED_NAME_MAX];
        moved_put_name(name, blog, number);
        const struct thing *t = thing_find(&rig->core->state, THING_MOVED, slice_str(name));
        return t ? CONTAINER_OF(t, const struct moved, thing) : NULL;
}

/* The original that the ledger has for a row of the hook at that date; 0: none. */
static inline int64_t original_of(const struct rig *rig, const char *hook, uint64_t id,
                                  int64_t date_s)
{
        struct moved_ask ask = {.id = id, .hook = slice_str(hook), .date_s = date_s};
        moved_find(&rig->core->state, blog, &ask, 1);
        return ask.is_found ? ask.original_s : 0;
}

static inline struct site_stray stray(const char *hook, uint64_t id, int64_t original_s,
                                      int64_t date_s)
{
        return (struct site_stray){slice_str(hook), {id, original_s}, date_s};
}

static inline size_t take_strays(struct rig *rig, struct site_stray *rows, size_t n, bool is_taken)
{
        sites_take_strays(rig->core, blog, rows, &n, is_taken);
        rig_turn(rig);
        return n;
}

static inline void assert_delay(const struct rig *rig, const struct site_step *step,
                                int64_t delay_s)
{
        assert_in_range(step->to_s - now_s(rig), delay_s, delay_s + delay_s / 10);
}

/* Plans, and does nothing. */
static inline size_t n_steps(struct rig *rig, const char *hook, unsigned due)
{
        struct site_plan plan;
        survey(rig, &plan, hook, due, NULL);
        size_t n = plan.n_steps;
        site_plan_release(&plan);
        return n;
}

/* A while later, with two runners; is_idle: nothing waits. */
static inline void top_up(struct rig *rig, struct site_plan *ret, int64_t later_ms, bool is_idle)
{
        const struct site_pace pace = {.is_idle = is_idle, .runners = 2};
        rig_pass_ms(rig, later_ms);
        sites_top_up(rig->core, blog, &pace, ret);
        for (size_t i = 0; i < ret->n_steps; i++)
                sites_stepped(rig->core, blog, &ret->steps[i], ret->steps[i].n_rows, false);
        rig_turn(rig);
}

/* How many rows it gives back. */
static inline size_t topped_up(struct rig *rig, int64_t later_ms, bool is_idle)
{
        struct site_plan plan;
        size_t n = 0;
        top_up(rig, &plan, later_ms, is_idle);
        for (size_t i = 0; i < plan.n_steps; i++)
                n += plan.steps[i].n_rows;
        site_plan_release(&plan);
        return n;
}

#endif
