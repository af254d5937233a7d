/* One cycle of a site: the survey, the plan of the loop, its steps, and repairs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "guard/guard_site.h"

/* A cycle that has more to do goes on after so many times the time it took. */
#define REST_FACTOR  3
#define REST_MIN_MS  100
#define REST_MORE_MS 1000 /* while there is more to move */
/* A page of which a statement takes longer is made smaller: runners wait for its row locks. */
#define PAGE_LONG_NS     (100 * NS_PER_MS)
#define PAGE_ROWS_MIN    25
#define PAGE_REST_MAX_MS 2000
/* Blogs of a network are looked for each so many intervals, and no less than once a minute. */
#define BLOGS_INTERVALS 12
#define BLOGS_MAX_MS    60000

static int report_step(struct guard_site *s, struct site_step *step, uint64_t n_changed,
                       bool is_refused)
{
        s->talk.step = step;
        s->talk.n_changed = n_changed;
        s->talk.is_refused = is_refused;
        return guard_talk(s, TALK_STEPPED);
}

/* What a person reads in the log of the action. */
static void put_message(const struct site_step *step, const char *reason, char *ret, size_t size)
{
        char date[32];
        time_t to = (time_t)step->to_s;
        struct tm utc;
        if (step->kind == STEP_RETURN) {
                (void)snprintf(ret, size, STORE_RETURNED "its date; the database is calm again");
                return;
        }
        (void)gmtime_r(&to, &utc); /* cannot fail for a date that a column can hold */
        (void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &utc);
        (void)snprintf(ret, size, STORE_DEFERRED "%s UTC, tier %s: %s", date, tier_name(step->tier),
                       reason);
}

/* The lines of a step.  What was changed by now is not undone for want of a line. */
static int write_log(struct guard_site *s, const struct site_plan *plan,
                     const struct site_step *step, uint64_t *ids, size_t n)
{
        struct problem problem;
        char message[512];
        int r = OK;
        put_message(step, plan->reason, message, sizeof(message));
        if (step->kind == STEP_RETURN)
                r = store_log_returned(&s->store, ids, n, message, &problem);
        else
                r = store_keep_dated(&s->store, ids, &n, step->to_s, &problem);
        if (r == OK && step->kind != STEP_RETURN)
                r = store_log(&s->store, ids, n, message, &problem);
        if (r == OK || r == ERR_LOCKED)
                return OK;
        guard_tell_failed(s, &problem);
        return r;
}

/* Into the ledger, and then to their date. */
static int move_rows(struct guard_site *s, const struct site_plan *plan, struct site_step *step,
                     struct site_due_row *rows, size_t n, const struct store_claims *claims)
{
        uint64_t ids[SITE_ROWS_MAX], n_moved = 0;
        struct problem problem;
        int r = OK;
        s->talk.step = step;
        s->talk.rows = rows;
        s->talk.n_rows = n;
        if (n)
                r = guard_talk(s, TALK_PROPOSE);
        n = n ? s->talk.n_rows : 0;
        if (r != OK || !n) /* no room for the ledger: later */
                return r == ERR_STOPPING ? r : OK;
        r = store_move(&s->store, rows, n, step->to_s, claims, &n_moved, &problem);
        /* After a lost connection nobody knows what was moved. */
        int told = report_step(s, step, n_moved, r != OK && r != ERR_LOCKED);
        if (r != OK && r != ERR_LOCKED) {
                guard_tell_failed(s, &problem);
                return r;
        }
        for (size_t i = 0; i < n; i++)
                ids[i] = rows[i].row.id;
        if (told == OK && n_moved)
                told = write_log(s, plan, step, ids, n);
        s->has_more_to_move =
                s->has_more_to_move || r == ERR_LOCKED; /* the next cycle tries again */
        return told;
}

/* A page of due actions of a hook.  *ret_n: how many were found. */
static int move_page(struct guard_site *s, const struct site_plan *plan, struct site_step *step,
                     size_t *ret_n)
{
        struct site_due_row rows[SITE_ROWS_MAX];
        struct problem problem;
        size_t max = s->move_rows;
        int r = store_read_due(&s->store, step, s->now_s + s->horizon_s, rows, max, ret_n,
                               &problem);
        if (r != OK) {
                guard_tell_failed(s, &problem);
                return r;
        }
        s->has_more_to_move = s->has_more_to_move || *ret_n == max;
        return move_rows(s, plan, step, rows, *ret_n, NULL);
}

static bool has_moves(const struct site_plan *plan)
{
        for (size_t i = 0; i < plan->n_steps; i++)
                if (plan->steps[i].kind == STEP_MOVE)
                        return true;
        return false;
}

/* Before each action a runner checks that it is still in its claim and due.  If not, it releases
 * the rest of its batch and claims again, critical actions first.  So moving the rest of a batch
 * ends the batch after its current action.  The rows stay in the claim until the runner releases
 * it: no other runner can run them meanwhile. */
int guard_cut_batches(struct guard_site *s)
{
        struct store_claims claims;
        struct problem problem;
        struct site_plan *plan = &s->plan;
        if (!has_moves(plan))
                return OK;
        int r = store_read_claims(&s->store, &claims, &problem);
        for (size_t i = 0; r == OK && claims.n && i < plan->n_steps; i++) {
                struct site_due_row rows[SITE_ROWS_MAX];
                struct site_step *step = &plan->steps[i];
                size_t n;
                if (step->kind != STEP_MOVE)
                        continue;
                r = store_read_claimed(&s->store, step, &claims, rows, &n, &problem);
                if (r != OK)
                        break;
                r = move_rows(s, plan, step, rows, n, &claims);
                if (r != OK)
                        return r; /* and told */
        }
        if (r == OK || r == ERR_STOPPING)
                return r;
        guard_tell_failed(s, &problem);
        return r;
}

static void adapt_page(struct guard_site *s, int64_t locked_ns)
{
        if (locked_ns > PAGE_LONG_NS)
                s->move_rows = s->move_rows / 2 > PAGE_ROWS_MIN ? s->move_rows / 2 : PAGE_ROWS_MIN;
        else if (locked_ns < PAGE_LONG_NS / 4)
                s->move_rows = s->move_rows * 2 < SITE_ROWS_MAX ? s->move_rows * 2 : SITE_ROWS_MAX;
}

/* Front first, moves second: runners wait for the row locks of a page, so the guard rests as long
 * as it held them.  Moves never stop for actions of the critical tier: an action that is not moved
 * runs, and they wait for it. */
static void give_way(struct guard_site *s, int64_t locked_ns)
{
        int64_t rest_ms = locked_ns / NS_PER_MS;
        if (locked_ns > PAGE_LONG_NS / 4)
                guard_rest(s, rest_ms < PAGE_REST_MAX_MS ? rest_ms : PAGE_REST_MAX_MS);
}

/* One page of each hook in a cycle: the next survey is a second away, and no hook waits for the
 * backlog of another. */
static int do_move(struct guard_site *s, const struct site_plan *plan, struct site_step *step,
                   size_t *budget)
{
        size_t n;
        s->store.longest_ns = 0;
        int r = move_page(s, plan, step, &n);
        int64_t locked_ns = s->store.longest_ns;
        *budget -= n < *budget ? n : *budget;
        adapt_page(s, locked_ns);
        if (r == OK)
                r = guard_tick(s);
        if (r == OK)
                give_way(s, locked_ns);
        return r;
}

int guard_do_step(struct guard_site *s, const struct site_plan *plan, struct site_step *step,
                  size_t *budget)
{
        struct problem problem;
        uint64_t n_changed = 0;
        int r = OK;
        if (step->kind == STEP_MOVE)
                return do_move(s, plan, step, budget);
        if (step->kind == STEP_SHIFT) {
                s->talk.step = step;
                r = guard_talk(s, TALK_SHIFT);
                if (r == OK)
                        r = store_shift(&s->store, step, &n_changed, &problem);
                else
                        return r == ERR_STOPPING ? r : OK; /* the ledger has no room: later */
        } else {
                r = store_return(&s->store, step, &n_changed, &problem);
        }
        if (r != OK && r != ERR_LOCKED) {
                guard_tell_failed(s, &problem);
                return r;
        }
        *budget -= step->n_rows < *budget ? step->n_rows : *budget;
        int told = report_step(s, step, n_changed, r == ERR_LOCKED);
        if (told != OK || !n_changed)
                return told;
        uint64_t ids[SITE_ROWS_MAX];
        for (size_t i = 0; i < step->n_rows; i++)
                ids[i] = step->rows[i].id;
        return write_log(s, plan, step, ids, step->n_rows);
}

/* What repairs look at, because the loop takes the survey itself.  Wants site_survey_release(). */
static struct site_survey copy_for_repairs(const struct site_survey *v)
{
        struct site_survey ret = {.now_s = v->now_s, .failed = v->failed, .n_hooks = v->n_hooks};
        arena_init(&ret.arena, 0);
        ret.hooks = arena_array(&ret.arena, v->n_hooks + 1, sizeof(*ret.hooks));
        ASSERT(ret.hooks);
        for (size_t i = 0; i < v->n_hooks; i++) {
                ret.hooks[i] = (struct site_hook){.hook = arena_copy(&ret.arena, v->hooks[i].hook)};
                ASSERT(ret.hooks[i].hook.ptr);
        }
        return ret;
}

int guard_take_strays(void *ctx, struct site_stray *rows, size_t *n, bool is_taken)
{
        struct guard_site *s = ctx;
        s->talk.strays = rows;
        s->talk.n_rows = *n;
        s->talk.is_taken = is_taken;
        int r = guard_talk(s, TALK_STRAYS);
        *n = r == OK ? s->talk.n_rows : 0;
        return r;
}

static int run_repairs(struct guard_site *s, const struct site_plan *plan,
                       struct site_survey *found)
{
        struct problem problem;
        found->advice = s->front_problem[0] ? s->front_problem : NULL;
        int r = store_repair(&s->store, plan, found, &problem);
        s->talk.survey = found;
        if (r == OK || r == ERR_LOCKED)
                r = guard_talk(s, TALK_REPAIRED);
        else
                guard_tell_failed(s, &problem);
        return r;
}

/* ---- a network ---- */

int guard_look_for_blogs(struct guard_site *s)
{
        struct problem problem;
        int64_t now_ns = clock_boot_ns(), period_ms = BLOGS_INTERVALS * s->interval_ms;
        if (!s->options->is_network || now_ns < s->blogs_ns)
                return OK;
        /* What is wrong with blog 1 is for its own cycle, which follows. */
        int r = store_open(&s->store, MODE_TEST_OBSERVE, &problem);
        if (r != OK && !mysql_conn_is_open(s->store.conn))
                return OK;
        struct network_blogs *blogs = xcalloc(1, sizeof(*blogs));
        /* Also after a statement that took too long: the cycle must not wait for it each time. */
        s->blogs_ns = now_ns + (period_ms < BLOGS_MAX_MS ? period_ms : BLOGS_MAX_MS) * NS_PER_MS;
        r = network_read(&s->store, blogs, &problem);
        if (r != OK) {
                free(blogs);
                return OK; /* the connection is gone: the cycle makes it again, or tells why not */
        }
        s->talk.blogs = blogs;
        return guard_talk(s, TALK_BLOGS);
}

/* Blog 1 of a network without Action Scheduler: all is well, and there is nothing to do. */
static int tell_empty(struct guard_site *s)
{
        struct site_survey survey = {0};
        struct problem problem;
        int r = store_now(&s->store, &survey.now_s, &problem);
        if (r != OK) {
                guard_tell_failed(s, &problem);
                return r;
        }
        arena_init(&survey.arena, 0);
        (void)snprintf(survey.server, sizeof(survey.server), "%s", s->store.facts.server);
        (void)snprintf(survey.store, sizeof(survey.store), "no tables of Action Scheduler");
        s->talk.survey = &survey;
        site_plan_release(&s->plan);
        s->talk.plan = &s->plan;
        r = guard_talk(s, TALK_SURVEYED);
        site_survey_release(&survey);
        site_plan_release(&s->plan); /* it would work on tables */
        return r;
}

int guard_cycle(struct guard_site *s, enum gate_mode mode, int64_t *ret_rest_ms)
{
        struct problem problem;
        struct site_survey survey = {0};
        struct site_plan *plan = &s->plan;
        size_t budget = GUARD_ROWS_PER_CYCLE;
        int64_t began_ns = clock_boot_ns();
        int r = store_open(&s->store, mode, &problem);
        if (r == OK && mode == MODE_ENFORCE)
                r = store_take_place(&s->store, &problem);
        s->tries_front = true;
        if (r == ERR_NOTFOUND && s->options->is_network && s->store.facts.has_no_tables)
                return tell_empty(s);
        if (r == OK)
                r = store_survey(&s->store, s->horizon_s, &survey, &problem);
        if (r != OK) {
                site_survey_release(&survey);
                guard_tell_failed(s, &problem);
                return r;
        }
        struct site_survey found = copy_for_repairs(&survey);
        int64_t survey_ms = survey.took_us / 1000;
        survey.slow_ms = s->slow_ms > survey_ms ? s->slow_ms : survey_ms;
        s->talk.survey = &survey;
        s->now_s = survey.now_s;
        s->now_ns = clock_boot_ns();
        site_plan_release(plan);
        s->talk.plan = plan;
        r = guard_talk(s, TALK_SURVEYED);
        site_survey_release(&survey); /* is empty, unless the loop stops and did not take it */
        s->horizon_s = plan->horizon_s;
        s->has_more_to_move = false;
        r = r == OK ? guard_tick(s) : r;
        for (size_t i = 0; r == OK && i < plan->n_fronts && !guard_is_interrupted(s); i++)
                r = guard_look_after(s, &plan->fronts[i]);
        for (size_t i = 0; r == OK && i < plan->n_steps && budget && !guard_is_interrupted(s);
             i++) {
                r = guard_do_step(s, plan, &plan->steps[i], &budget);
                r = r == OK ? guard_tick(s) : r;
                guard_serve_requests(s);
        }
        if (r == OK && plan->mode >= MODE_OBSERVE)
                r = run_repairs(s, plan, &found);
        site_survey_release(&found);
        int64_t took_ms = (clock_boot_ns() - began_ns) / NS_PER_MS;
        s->slow_ms = took_ms > s->slow_ms / 2 ? took_ms : s->slow_ms / 2;
        *ret_rest_ms = 0;
        if (!budget)
                *ret_rest_ms = took_ms * REST_FACTOR + REST_MIN_MS;
        else if (s->has_more_to_move)
                *ret_rest_ms = s->interval_ms < REST_MORE_MS ? s->interval_ms : REST_MORE_MS;
        return r;
}
