/* A guard that surveys, proposes and steps, and puts actions in front, against a model of the
 * actions table of a site. Runners claim, run and defer actions and add the next one of a series, a
 * person edits and cancels them, locks refuse statements, answers get lost, the log has no room,
 * and the process is killed at every point.
 *
 * Whatever happens: an action that weir moved is in the ledger with its original, no action gets a
 * date before its original or later than max_deferral allows, what must not wait is not moved, and
 * when all is calm each action has its original date again and the ledger is empty. An action that
 * weir put in front is in the ledger of priorities, only those of the critical tier are put there,
 * and when no hook is of that tier any more each pending action has its own priority again.
 *
 * WEIR_SEED repeats a run, WEIR_ROUNDS makes more of them.
 * weir-test: long */
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
#include "sites/sites.h"
#include "state/front.h"
#include "state/moved.h"
#include "support/rig.h"
#include "throttle/throttle_state.h"

#define ROWS       400
#define STEPS      800
#define PAGE       6 /* rows of one move: small, so that a hook has several batches */
#define INTERVAL_S 5
#define FAR_S      1000000 /* where a person moves actions to: no deferral ends there */
#define CALM_MAX   500     /* cycles */

static const char *const hooks[] = {"pay", "mail", "news", "sync", "sYnc"};
#define HOOKS ARRAY_LEN(hooks)
static const struct slice site = SLICE_LIT("blog");

enum row_status { ROW_FREE, ROW_PENDING, ROW_CLAIMED, ROW_OVER };

struct row {
        enum row_status status;
        size_t hook;
        bool is_async;
        int64_t original_s;         /* of the schedule; of an async one its first date */
        int64_t date_s;             /* the column */
        bool is_moved;              /* weir gave it date_s */
        uint8_t priority, original; /* the column; what it was before weir, or its series had */
        uint32_t series;            /* 0: it runs once */
        /* A runner claimed it where weir had moved it to: the ledger may have let go of it, and for
         * an async one, or when the runner defers it, such a date then counts as its original. */
        int64_t claimed_at_s;
};

struct world {
        struct rig rig;
        struct rng dice;
        struct row rows[ROWS + 1]; /* by id */
        size_t n_rows;
        struct site_plan plan;
        bool has_plan;
        size_t next_step, next_front;
        size_t next_hook; /* the next that is put in front */
        size_t n_kills;
        uint64_t settings; /* the version that the plan was made with */
        int64_t horizon_s;
        double load;
        uint64_t max_deferral_s;
        bool is_full, is_calm;
        uint64_t room;
};

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

static int64_t now_s(const struct world *w)
{
        return w->rig.now.wall_ms / MS_PER_S;
}

static void set_up(struct world *w)
{
        static const struct core_metric metric = {.name = "threads_running",
                                                  .rule = {{5, 15}, {3, 10}, NS_PER_S, false}};
        static const struct core_target target = {
                .name = "shop", .metrics = &metric, .n_metrics = 1, .mode = -1};
        static const struct registry_entry own[] = {{SLICE_LIT("pay"), TIER_CRITICAL},
                                                    {SLICE_LIT("mail"), TIER_HIGH},
                                                    {SLICE_LIT("news"), TIER_NORMAL},
                                                    {SLICE_LIT("sync"), TIER_DEFERRABLE}};
        static const struct site_options options = {.name = "blog",
                                                    .target = "shop",
                                                    .mode = MODE_ENFORCE,
                                                    .interval_ms = INTERVAL_S * MS_PER_S,
                                                    .is_front = true};
        struct core_throttle throttle = {.targets = &target,
                                         .n_targets = 1,
                                         .registry = own,
                                         .n_registry = ARRAY_LEN(own),
                                         .ramp_cycles = 3,
                                         .ramp_cycle_ns = INTERVAL_S * NS_PER_S};
        policy_init(&throttle.policy);
        core_set_throttle(w->rig.core, &throttle);
        core_set_sites(w->rig.core, &options, 1, NULL);
        rig_sample(&w->rig, 0, 0, w->load);
        rig_turn(&w->rig);
}

static void pass_s(struct world *w, int64_t s)
{
        for (; s > 0; s--) {
                rig_pass_ms(&w->rig, MS_PER_S);
                rig_sample(&w->rig, 0, 0, w->load);
        }
        rig_turn(&w->rig);
}

/* ---- what must hold ---- */

/* Is this an original that the ledger may have for the row? */
static bool is_original(const struct row *r, int64_t original_s)
{
        return original_s == r->original_s ||
               (original_s > r->original_s && original_s <= r->claimed_at_s);
}

static bool ledger_has(const struct world *w, uint64_t id)
{
        const struct row *r = &w->rows[id];
        const struct hash *all = &w->rig.core->state.things[THING_MOVED];
        for (const struct hash_node *n = NULL; (n = hash_next(all, n));) {
                const struct moved_values *v = &moved_of(n)->values;
                struct reader reader = reader_make(v->rows);
                struct site_row row = {0};
                if (!slice_eq(v->hook, slice_str(hooks[r->hook])) ||
                    (v->date_s != r->date_s && v->before_s != r->date_s))
                        continue;
                while (moved_next(&reader, &row))
                        if (row.id == id && is_original(r, row.original_s))
                                return true;
        }
        return false;
}

static bool front_has(const struct world *w, uint64_t id)
{
        static struct front_row rows[FRONT_ROWS_MAX];
        const struct row *r = &w->rows[id];
        const struct front *f = front_find(&w->rig.core->state, site, slice_str(hooks[r->hook]));
        size_t n = f ? front_unpack(&f->values, rows) : 0;
        for (size_t i = 0; i < n; i++)
                if (rows[i].id == id || (r->series && rows[i].series == r->series))
                        return rows[i].priority == r->original;
        return false;
}

static void check(struct world *w)
{
        state_check(&w->rig.core->state);
        for (uint64_t id = 1; id <= w->n_rows; id++) {
                const struct row *r = &w->rows[id];
                assert_true(r->date_s >= r->original_s);
                if (r->status == ROW_PENDING && r->is_moved && r->date_s > now_s(w))
                        assert_true(ledger_has(w, id));
                if (r->status != ROW_OVER && !r->priority)
                        assert_true(front_has(w, id));
        }
}

static void defer(struct world *w, struct row *r, int64_t to_s, bool is_max_known)
{
        if (is_max_known && w->max_deferral_s && !r->claimed_at_s)
                assert_true(to_s <= r->original_s + (int64_t)w->max_deferral_s);
        assert_true(to_s > r->date_s);
        r->date_s = to_s;
        r->is_moved = true;
}

static void give_back(struct row *r, int64_t to_s)
{
        assert_true(to_s >= r->original_s);
        r->date_s = to_s;
        r->is_moved = false;
}

/* Was the plan made with the settings of now? */
static bool is_plan_of_now(const struct world *w)
{
        return w->settings == w->rig.core->state.settings_version;
}

/* ---- the guard ---- */

static void end_cycle(struct world *w)
{
        if (w->has_plan)
                site_plan_release(&w->plan);
        w->has_plan = false;
        rig_turn(&w->rig);
}

static bool is_due(const struct world *w, const struct row *r, size_t hook, int64_t by_s)
{
        return r->status == ROW_PENDING && r->hook == hook && r->date_s <= now_s(w) + by_s;
}

static void begin_cycle(struct world *w)
{
        struct site_survey v = {.now_s = now_s(w)};
        arena_init(&v.arena, 0);
        v.hooks = arena_array(&v.arena, HOOKS, sizeof(*v.hooks));
        assert_non_null(v.hooks);
        v.n_hooks = HOOKS;
        for (size_t i = 0; i < HOOKS; i++) {
                v.hooks[i] = (struct site_hook){.hook = slice_str(hooks[i])};
                for (size_t id = 1; id <= w->n_rows; id++)
                        v.hooks[i].due += is_due(w, &w->rows[id], i, w->horizon_s);
        }
        uint64_t before = state_digest(&w->rig.core->state);
        sites_surveyed(w->rig.core, site, &v, &w->plan);
        assert_true(state_digest(&w->rig.core->state) == before); /* a plan changes nothing */
        if (w->plan.mode != MODE_ENFORCE)
                assert_int_equal(w->plan.n_steps, 0);
        w->has_plan = true;
        w->next_step = w->next_front = 0;
        w->settings = w->rig.core->state.settings_version;
        w->horizon_s = w->plan.horizon_s;
        rig_turn(&w->rig);
}

static size_t read_due(struct world *w, const struct site_step *step, struct site_due_row *ret)
{
        size_t n = 0;
        for (uint64_t id = 1; id <= w->n_rows && n < PAGE; id++) {
                const struct row *r = &w->rows[id];
                if (slice_eq(step->hook, slice_str(hooks[r->hook])) &&
                    is_due(w, r, r->hook, w->horizon_s) && r->date_s >= step->not_before_s)
                        ret[n++] = (struct site_due_row){
                                .row = {id, r->is_async ? r->date_s : r->original_s},
                                .current_s = r->date_s,
                                .is_async = r->is_async};
        }
        return n;
}

/* What runners, people and the clock do while the guard waits for an answer. */
static void meanwhile(struct world *w);
static void kill_process(struct world *w);

/* Does the process die here?  Then the cycle is over. */
static bool is_killed_here(struct world *w)
{
        if (w->is_calm || roll(w, 40))
                return false;
        kill_process(w);
        return true;
}

/* A statement for these rows; false: it was refused, or (is_lost) nobody knows. */
static bool is_refused(struct world *w)
{
        return !w->is_calm && !roll(w, 4);
}

static bool is_lost(struct world *w)
{
        return !w->is_calm && !roll(w, 10);
}

static void do_move(struct world *w, struct site_step *step)
{
        struct site_due_row rows[PAGE];
        struct problem problem;
        uint64_t n_changed = 0;
        size_t n = read_due(w, step, rows);
        assert_true(step->tier != TIER_CRITICAL);
        meanwhile(w);
        if (!n || sites_propose(w->rig.core, site, step, rows, &n, &problem) != OK || !n)
                return;
        if (is_killed_here(w)) /* it is not durable, and so nothing was moved */
                return;
        rig_turn(&w->rig);
        meanwhile(w);
        bool refused = is_refused(w), lost = is_lost(w);
        for (size_t i = 0; i < n && !refused; i++) {
                struct row *r = &w->rows[rows[i].row.id];
                if (r->status != ROW_PENDING || r->date_s != rows[i].current_s)
                        continue;
                assert_true(is_original(r, rows[i].row.original_s));
                defer(w, r, step->to_s, is_plan_of_now(w));
                n_changed++;
        }
        if (is_killed_here(w))
                return;
        if (lost) {
                if (roll(w, 2))
                        sites_stepped(w->rig.core, site, step, 0, true);
                end_cycle(w);
                return;
        }
        sites_stepped(w->rig.core, site, step, n_changed, refused);
}

static void do_shift_or_return(struct world *w, struct site_step *step)
{
        struct problem problem;
        uint64_t n_changed = 0;
        bool is_shift = step->kind == STEP_SHIFT;
        meanwhile(w);
        if (is_shift && sites_propose_shift(w->rig.core, site, step, &problem) != OK)
                return;
        if (is_killed_here(w))
                return;
        rig_turn(&w->rig);
        meanwhile(w);
        bool refused = is_refused(w), lost = is_lost(w);
        for (size_t i = 0; i < step->n_rows && (!refused || i < step->n_rows / 2); i++) {
                struct row *r = &w->rows[step->rows[i].id];
                if (r->status != ROW_PENDING ||
                    (r->date_s != step->from_s[0] && r->date_s != step->from_s[1]))
                        continue;
                assert_true(is_original(r, step->rows[i].original_s));
                if (is_shift)
                        defer(w, r, step->to_s, is_plan_of_now(w) && !step->is_resumed);
                else
                        give_back(r, step->rows[i].original_s);
                n_changed++;
        }
        if (is_killed_here(w))
                return;
        if (lost)
                end_cycle(w);
        else
                sites_stepped(w->rig.core, site, step, n_changed, refused);
}

/* ---- each second ---- */

static bool is_critical(const struct world *w, size_t hook)
{
        return registry_tier(w->rig.core->throttle->registry, slice_str(hooks[hook])) ==
               TIER_CRITICAL;
}

static void put_front(struct world *w)
{
        struct front_row rows[ROWS];
        struct problem problem;
        size_t n = 0, hook = w->next_hook++ % HOOKS;
        for (uint64_t id = 1; id <= w->n_rows; id++) {
                const struct row *r = &w->rows[id];
                if (r->status == ROW_PENDING && r->hook == hook && r->priority)
                        rows[n++] = (struct front_row){id, r->series, r->priority};
        }
        meanwhile(w);
        if (!n ||
            sites_front(w->rig.core, site, slice_str(hooks[hook]), rows, &n, &problem) != OK ||
            is_killed_here(w)) /* it is not durable, and so nothing was changed */
                return;
        assert_true(!n || is_critical(w, hook));
        rig_turn(&w->rig);
        meanwhile(w);
        for (size_t i = 0; i < n && !is_refused(w); i++) {
                struct row *r = &w->rows[rows[i].id];
                assert_int_equal(rows[i].priority, r->original);
                if (r->status == ROW_PENDING)
                        r->priority = 0;
        }
        (void)is_killed_here(w);
}

/* Looks after the ledger of one hook of the plan. */
static void look_after(struct world *w, const struct site_front *front)
{
        struct front_row seen[2 * ROWS];
        size_t n = 0;
        for (uint64_t id = 1; id <= w->n_rows; id++) {
                const struct row *r = &w->rows[id];
                bool is_asked = r->series != 0;
                for (size_t i = 0; i < front->n_rows; i++)
                        is_asked = is_asked || front->rows[i].id == id;
                if (is_asked && r->status != ROW_OVER && !r->priority &&
                    slice_eq(front->hook, slice_str(hooks[r->hook])))
                        seen[n++] = (struct front_row){id, r->series, 0};
        }
        bool is_all = w->is_calm || roll(w, 4);
        meanwhile(w);
        sites_fronted(w->rig.core, site, front, seen, &n, is_all);
        if (is_killed_here(w))
                return;
        for (size_t i = 0; i < n && !is_refused(w); i++) {
                struct row *r = &w->rows[seen[i].id];
                assert_int_equal(seen[i].priority, r->original);
                if (r->status == ROW_PENDING && !r->priority)
                        r->priority = seen[i].priority;
        }
}

static void top_up(struct world *w)
{
        struct site_pace pace = {.is_idle = w->is_calm || roll(w, 2), .runners = 1};
        struct site_plan plan;
        size_t n_kills = w->n_kills;
        sites_top_up(w->rig.core, site, &pace, &plan);
        for (size_t i = 0; i < plan.n_steps && w->n_kills == n_kills; i++) {
                assert_int_equal(plan.steps[i].kind, STEP_RETURN);
                do_shift_or_return(w, &plan.steps[i]);
                rig_turn(&w->rig);
        }
        site_plan_release(&plan);
}

static void each_second(struct world *w)
{
        put_front(w);
        rig_turn(&w->rig);
        top_up(w);
        rig_turn(&w->rig);
}

static void guard_goes_on(struct world *w)
{
        if (w->is_calm || !roll(w, 3))
                each_second(w);
        if (!w->has_plan) {
                begin_cycle(w);
                return;
        }
        if (w->next_front < w->plan.n_fronts) {
                look_after(w, &w->plan.fronts[w->next_front++]);
                rig_turn(&w->rig);
                return;
        }
        if (w->next_step == w->plan.n_steps) {
                end_cycle(w);
                return;
        }
        struct site_step *step = &w->plan.steps[w->next_step++];
        if (step->kind == STEP_MOVE)
                do_move(w, step);
        else
                do_shift_or_return(w, step);
        rig_turn(&w->rig);
}

/* ---- others ---- */

static void step_add(struct world *w)
{
        if (w->n_rows == ROWS)
                return;
        bool is_async = roll(w, 2);
        int64_t date_s = now_s(w) + (is_async ? 0 : (int64_t)roll(w, 60) - 40);
        uint8_t priority = (uint8_t)(1 + roll(w, 20));
        w->rows[++w->n_rows] =
                (struct row){.status = ROW_PENDING,
                             .hook = roll(w, HOOKS),
                             .is_async = is_async,
                             .original_s = date_s,
                             .date_s = date_s,
                             .priority = priority,
                             .original = priority,
                             .series = !is_async && roll(w, 2) ? (uint32_t)w->n_rows : 0};
}

/* The next of its series, as Action Scheduler makes it: the priority is that of the last one. */
static void add_next(struct world *w, const struct row *last)
{
        if (w->n_rows == ROWS)
                return;
        struct row next = *last;
        next.status = ROW_PENDING;
        next.original_s = next.date_s = now_s(w) + 30;
        next.is_moved = false;
        next.claimed_at_s = 0;
        w->rows[++w->n_rows] = next;
}

static struct row *some_row(struct world *w, enum row_status status)
{
        for (size_t i = 0; w->n_rows && i < 10; i++) {
                struct row *r = &w->rows[1 + roll(w, w->n_rows)];
                if (r->status == status)
                        return r;
        }
        return NULL;
}

static void step_claim(struct world *w)
{
        struct row *r = some_row(w, ROW_PENDING);
        if (!r || r->date_s > now_s(w) || roll(w, 2))
                return;
        r->status = ROW_CLAIMED;
        if (r->is_moved)
                r->claimed_at_s = r->date_s;
}

static void step_run_or_release(struct world *w)
{
        struct row *r = some_row(w, ROW_CLAIMED);
        if (!r)
                return;
        r->status = roll(w, 2) ? ROW_OVER : ROW_PENDING;
        if (r->status == ROW_OVER && r->series)
                add_next(w, r);
}

/* A runner asks before it runs the action; it may die before it moves it. */
static void step_defer(struct world *w)
{
        struct row *r = some_row(w, ROW_CLAIMED);
        char id[24], date[24];
        unsigned long long to_s = 0;
        if (!r)
                return;
        (void)say_i64(id, r - w->rows);
        (void)say_i64(date, r->date_s);
        const char *reply = rig_do(&w->rig, "SITEDEFER", "blog", id, hooks[r->hook], date);
        const char *to = strstr(reply, "to:");
        if (!strstr(reply, "is_wait:true") || !to || sscanf(to, "to:%llu", &to_s) != 1)
                return;
        if (roll(w, 6))
                defer(w, r, (int64_t)to_s, true);
        r->status = ROW_PENDING;
        assert_true(!r->is_moved || r->date_s <= now_s(w) ||
                    ledger_has(w, (uint64_t)(r - w->rows)));
}

static void step_person(struct world *w)
{
        struct row *r = some_row(w, ROW_PENDING);
        if (!r || roll(w, 4))
                return;
        if (roll(w, 2)) {
                r->status = ROW_OVER; /* canceled */
        } else {
                r->original_s = r->date_s = now_s(w) + FAR_S + (int64_t)(r - w->rows);
                r->is_moved = false;
        }
}

static void step_time(struct world *w)
{
        pass_s(w, 1 + (int64_t)roll(w, roll(w, 3) ? 8 : 100));
}

static void step_load(struct world *w)
{
        static const double loads[] = {1, 1, 8, 20, 20};
        w->load = loads[roll(w, ARRAY_LEN(loads))];
        pass_s(w, 3);
}

static void step_setting(struct world *w)
{
        static const char *const lines[][3] = {
                {"SETTINGSET", "site.blog.mode", "observe"},
                {"SETTINGSET", "site.blog.mode", "off"},
                {"SETTINGUNSET", "site.blog.mode"},
                {"SETTINGUNSET", "site.blog.mode"},
                {"SETTINGUNSET", "site.blog.mode"},
                {"REGISTRYSET", "sync", "critical"},
                {"REGISTRYSET", "news", "high"},
                {"REGISTRYSET", "mail", "deferrable"},
                {"REGISTRYUNSET", "sync"},
                {"REGISTRYUNSET", "news"},
                {"REGISTRYUNSET", "mail"},
                {"SETTINGSET", "throttle.deferrals_per_hour", "10"},
                {"SETTINGUNSET", "throttle.deferrals_per_hour"},
                {"SETTINGUNSET", "throttle.deferrals_per_hour"},
                {"SETTINGSET", "throttle.delay.critical.deferrable", "7s"},
                {"SETTINGUNSET", "throttle.delay.critical.deferrable"},
                {"THROTTLE", "PAUSE"},
                {"THROTTLE", "RESUME"},
        };
        const char *const *line = lines[roll(w, ARRAY_LEN(lines))];
        if (roll(w, 3))
                return;
        (void)rig_do(&w->rig, line[0], line[1], line[2]);
        rig_turn(&w->rig);
}

static void step_max_deferral(struct world *w)
{
        static const char *const words[] = {"0s", "0s", "20s", "600s", "3600s"};
        static const uint64_t values_s[] = {0, 0, 20, 600, 3600};
        size_t i = roll(w, ARRAY_LEN(words));
        if (roll(w, 5))
                return;
        if (strcmp(rig_do(&w->rig, "SETTINGSET", "throttle.max_deferral", words[i]), "OK") == 0)
                w->max_deferral_s = values_s[i];
        rig_turn(&w->rig);
}

static void kill_process(struct world *w)
{
        w->n_kills++;
        if (w->has_plan)
                site_plan_release(&w->plan);
        w->has_plan = false;
        rig_restart(&w->rig);
        set_up(w);
}

static void step_restart(struct world *w)
{
        if (roll(w, 4))
                return;
        end_cycle(w);
        assert_true(rig_replays(&w->rig));
        set_up(w);
}

static void step_reload(struct world *w)
{
        set_up(w);
}

static void step_full(struct world *w)
{
        if (!w->is_full && roll(w, 8))
                return;
        w->is_full = !w->is_full;
        w->rig.log.stat.is_disk_full = w->is_full;
        w->rig.log.stat.room_bytes = w->is_full ? 1000 : w->room;
        rig_turn(&w->rig);
}

static void meanwhile(struct world *w)
{
        static void (*const others[])(struct world *) = {step_claim, step_run_or_release,
                                                         step_defer, step_person, step_setting};
        while (!w->is_calm && !roll(w, 2))
                others[roll(w, ARRAY_LEN(others))](w);
}

/* ---- rounds ---- */

/* In both ledgers. */
static size_t n_kept(const struct world *w)
{
        const struct hash *things = w->rig.core->state.things;
        return things[THING_MOVED].len + things[THING_FRONT].len;
}

/* Nothing is refused any more, and no hook is critical: everything comes back. */
static void calm_down(struct world *w)
{
        static const char *const unset[] = {"site.blog.mode", "throttle.deferrals_per_hour",
                                            "throttle.max_deferral",
                                            "throttle.delay.critical.deferrable"};
        w->is_calm = true;
        w->load = 1;
        w->max_deferral_s = 0;
        w->is_full = true;
        step_full(w);
        for (size_t i = 0; i < ARRAY_LEN(unset); i++)
                (void)rig_do(&w->rig, "SETTINGUNSET", unset[i]);
        (void)rig_do(&w->rig, "THROTTLE", "RESUME");
        (void)rig_do(&w->rig, "REGISTRYUNSET", "sync");
        (void)rig_do(&w->rig, "REGISTRYSET", "pay", "normal");
        for (uint64_t id = 1; id <= w->n_rows; id++)
                if (w->rows[id].status == ROW_CLAIMED)
                        w->rows[id].status = ROW_PENDING;
        pass_s(w, 60);
        for (int i = 0; i < CALM_MAX && (n_kept(w) || w->has_plan); i++) {
                guard_goes_on(w);
                check(w);
                if (!w->has_plan)
                        pass_s(w, INTERVAL_S);
        }
        assert_int_equal(n_kept(w), 0);
        for (uint64_t id = 1; id <= w->n_rows; id++) {
                const struct row *r = &w->rows[id];
                if (r->status != ROW_PENDING)
                        continue;
                assert_int_equal(r->priority, r->original);
                if (!r->claimed_at_s)
                        assert_true(r->date_s == r->original_s);
        }
}

static void run_round(uint64_t seed)
{
        static void (*const steps[])(struct world *) = {
                guard_goes_on,     guard_goes_on, guard_goes_on,
                guard_goes_on,     guard_goes_on, guard_goes_on,
                guard_goes_on,     guard_goes_on, guard_goes_on,
                guard_goes_on,     step_add,      step_add,
                step_add,          step_add,      step_claim,
                step_claim,        step_defer,    step_run_or_release,
                step_person,       step_time,     step_time,
                step_load,         step_setting,  step_setting,
                step_max_deferral, step_restart,  step_reload,
                step_full,
        };
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        rig_init(&w->rig);
        w->room = w->rig.log.stat.room_bytes;
        w->load = 20;
        set_up(w);
        for (int i = 0; i < STEPS; i++) {
                steps[roll(w, ARRAY_LEN(steps))](w);
                check(w);
        }
        calm_down(w);
        end_cycle(w);
        rig_release(&w->rig);
        free(w);
}

static void moved_actions_always_find_their_way_back(void **unused)
{
        (void)unused;
        say_setup(SAY_ERROR, false);
        dice_play(20, run_round);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(moved_actions_always_find_their_way_back),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
