/* Random histories of schedules against a model that fits on a page: it walks every slot one by one
 * where the core divides and halves.  Time passes, the wall clock jumps forward and back, the core
 * is restarted from a log that a busy cleaner trims; jobs end well, badly or are canceled;
 * definitions come again, change and go.  After every step each job must be the one the model made:
 * same schedule, same slot, same order.  That no slot makes two jobs is checked by itself, and that
 * with MISSED all and OVERLAP allow none is left out within the window.
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
#include "state/schedule.h"
#include "support/rig.h"

#define NAMES      3
#define STEPS      250
#define MINUTE     60000LL
#define HOUR       (60 * MINUTE)
#define TICK       10000 /* of the clock and of windows, so that their ends meet */
#define LIVE_MAX   20000
#define NO_SLOT    INT64_MAX
#define STOP_AFTER 3

static const char *const names[NAMES] = {"a", "b", "c"};
static const char *const missed_words[] = {"skip", "one", "all"};
static const char *const overlap_words[] = {"skip", "queue", "allow", "cancel"};
enum { SKIP, ONE, ALL };
enum { LAP_SKIP, LAP_QUEUE, LAP_ALLOW, LAP_CANCEL };
enum { ACTIVE, PAUSED, STOPPED };

struct model {
        bool exists, is_cron;
        int64_t every, first; /* cron: slots are the multiples of every */
        int64_t until, window;
        int missed, overlap, status;
        int64_t cursor;
        uint64_t n_missed, n_overlapped, failures, since;
        /* Jobs that have not ended, of removed definitions too. */
        uint64_t live[LIVE_MAX];
        size_t n_live;
        int64_t highest; /* slot of this life of the schedule */
};

struct world {
        struct rig rig;
        struct rng dice;
        struct model models[NAMES];
        uint64_t next_id; /* of the next job, as the model has it */
        struct expected {
                uint64_t id;
                size_t name;
                int64_t slot;
        } expected[LIVE_MAX];
        size_t n_expected;
};

static uint64_t roll(struct world *w, uint64_t n)
{
        return rng_below(&w->dice, n);
}

static int64_t now_ms(const struct world *w)
{
        return w->rig.now.wall_ms;
}

static const char *number(char *ret, int64_t v)
{
        (void)snprintf(ret, 24, "%lld", (long long)v);
        return ret;
}

/* ---- the model ---- */

static int64_t model_next(const struct model *m, int64_t after)
{
        int64_t slot = m->first;
        if (m->is_cron) {
                slot = after - after % m->every + m->every;
        } else {
                if (after > slot) /* near it, then step by step */
                        slot += (after - slot) / m->every * m->every - m->every;
                while (slot <= after || slot < m->first)
                        slot += m->every;
        }
        return m->until && slot > m->until ? NO_SLOT : slot;
}

static void model_make(struct world *w, size_t name, int64_t slot)
{
        struct model *m = &w->models[name];
        if (slot) {
                assert_true(slot > m->highest); /* never twice, never back */
                m->highest = slot;
                m->cursor = slot;
        }
        assert_true(w->n_expected < LIVE_MAX && m->n_live < LIVE_MAX);
        w->expected[w->n_expected++] = (struct expected){w->next_id, name, slot};
        m->live[m->n_live++] = w->next_id++;
}

static void model_slot(struct world *w, size_t name, int64_t slot)
{
        struct model *m = &w->models[name];
        if (m->n_live && m->overlap == LAP_SKIP) {
                m->n_overlapped++;
                m->cursor = slot;
                return;
        }
        if (m->overlap == LAP_CANCEL)
                m->n_live = 0;
        model_make(w, name, slot);
}

/* The slots of one schedule up to now. */
static void model_serve(struct world *w, size_t name)
{
        struct model *m = &w->models[name];
        int64_t now = now_ms(w), newest = 0;
        if (!m->exists || m->status != ACTIVE)
                return;
        int64_t from = m->cursor;
        for (int64_t slot = from; (slot = model_next(m, slot)) <= now;)
                newest = slot;
        for (int64_t slot = from; (slot = model_next(m, slot)) <= now;) {
                bool is_late = now - slot > m->window;
                if (!is_late && (m->missed == ALL || slot == newest)) {
                        model_slot(w, name, slot);
                        continue;
                }
                m->n_missed++;
                m->cursor = now - newest > m->window ? now : slot;
        }
}

static void model_end(struct model *m, size_t i)
{
        m->n_live--;
        memmove(&m->live[i], &m->live[i + 1], (m->n_live - i) * sizeof(m->live[0]));
}

/* ---- jobs made are jobs expected ---- */

static void check_made(struct world *w)
{
        struct state *s = &w->rig.core->state;
        assert_true(s->next_id == w->next_id);
        for (size_t i = 0; i < w->n_expected; i++) {
                const struct expected *e = &w->expected[i];
                const struct job *job = state_job(s, e->id);
                assert_non_null(job);
                assert_true(slice_eq(job->extra->options.schedule, slice_str(names[e->name])));
                assert_true((int64_t)job->extra->options.slot_ms == e->slot);
        }
        w->n_expected = 0;
}

static void check(struct world *w)
{
        struct state *s = &w->rig.core->state;
        check_made(w);
        state_check(s);
        for (size_t i = 0; i < NAMES; i++) {
                const struct model *m = &w->models[i];
                struct thing *t = thing_find(s, THING_SCHEDULE, slice_str(names[i]));
                assert_int_equal(t && thing_is_durable(t), m->exists);
                if (!m->exists)
                        continue;
                const struct schedule *sch = schedule_of(t);
                assert_int_equal(sch->past.status, m->status);
                assert_int_equal(sch->past.failures, m->failures);
                assert_int_equal(sch->past.n_missed, m->n_missed);
                assert_int_equal(sch->past.n_overlapped, m->n_overlapped);
                assert_int_equal(sch->n_jobs, m->n_live);
                assert_true(sch->next_ms == model_next(m, m->cursor));
                assert_true(sch->past.last_slot_ms <= m->highest);
        }
}

/* Turns until nothing is left to do at this moment; ids are given schedule by schedule in the order
 * of their next slots, so the model must know who came first: each one alone, by what was made. */
static void turns(struct world *w)
{
        struct state *s = &w->rig.core->state;
        uint64_t from = s->next_id;
        for (int i = 0; i < 8; i++)
                rig_turn(&w->rig);
        assert_true(core_next_ns(w->rig.core) > w->rig.now.steady_ns);
        struct expected *made = calloc(s->next_id - from + 1, sizeof(*made));
        size_t n_made = 0;
        for (uint64_t id = from; id < s->next_id; id++) {
                const struct job *job = state_job(s, id);
                assert_non_null(job);
                size_t name = (size_t)(job->extra->options.schedule.ptr[0] - 'a');
                made[n_made++] = (struct expected){id, name, (int64_t)job->extra->options.slot_ms};
        }
        assert_true(w->next_id == from && w->n_expected == 0);
        for (size_t i = 0; i < NAMES; i++)
                model_serve(w, i);
        assert_int_equal(n_made, w->n_expected);
        /* The model's jobs of a schedule are the core's, in the same order. */
        for (size_t name = 0; name < NAMES; name++) {
                struct model *m = &w->models[name];
                size_t at = 0;
                for (size_t i = 0; i < n_made; i++) {
                        if (w->expected[i].name != name)
                                continue;
                        while (at < n_made && made[at].name != name)
                                at++;
                        assert_true(at < n_made && made[at].slot == w->expected[i].slot);
                        for (size_t j = 0; j < m->n_live; j++)
                                if (m->live[j] == w->expected[i].id) {
                                        m->live[j] = made[at].id | 1ULL << 63; /* not twice */
                                        break;
                                }
                        at++;
                }
                for (size_t j = 0; j < m->n_live; j++)
                        m->live[j] &= ~(1ULL << 63);
        }
        w->n_expected = 0;
        free(made);
}

/* ---- steps ---- */

static void step_pass(struct world *w)
{
        w->rig.now.steady_ns += NS_PER_MS;
        w->rig.now.wall_ms += (int64_t)roll(w, 3 * MINUTE / TICK) * TICK;
        turns(w);
}

static void step_forward(struct world *w)
{
        w->rig.now.wall_ms += (int64_t)roll(w, 5 * HOUR / TICK) * TICK;
        w->rig.now.steady_ns += NS_PER_MS;
        turns(w);
}

static void step_back(struct world *w)
{
        w->rig.now.wall_ms -= (int64_t)roll(w, 5 * HOUR / TICK) * TICK;
        w->rig.now.steady_ns += NS_PER_MS;
        turns(w);
}

static void model_define(struct world *w, size_t name, const struct model *def, bool is_first_new)
{
        struct model *m = &w->models[name];
        struct model old = *m;
        int64_t now = now_ms(w);
        bool is_same = old.exists && old.is_cron == def->is_cron && old.every == def->every &&
                       !is_first_new;
        m->is_cron = def->is_cron;
        m->every = def->every;
        m->until = def->until;
        m->window = def->window;
        m->missed = def->missed;
        m->overlap = def->overlap;
        if (!is_same)
                m->first = def->first ? def->first : now + def->every;
        if (m->is_cron)
                m->first = 0;
        if (!old.exists) {
                m->cursor = m->highest = 0;
                m->n_missed = m->n_overlapped = 0;
                m->status = ACTIVE;
        }
        int64_t begin = is_same ? m->cursor : now;
        bool was_done = old.exists && model_next(&old, old.cursor) == NO_SLOT;
        if (m->status == STOPPED || was_done)
                begin = begin > now ? begin : now;
        if (m->status == STOPPED)
                m->status = ACTIVE;
        if (begin > m->cursor)
                m->cursor = begin;
        m->exists = true;
        m->failures = 0;
        m->since = w->next_id;
}

static void step_define(struct world *w)
{
        size_t name = roll(w, NAMES);
        char every[24], window[24], until[24], cron[32];
        struct model def = {
                .is_cron = roll(w, 2),
                .every = (int64_t[]){MINUTE, 2 * MINUTE, 5 * MINUTE, 30 * MINUTE}[roll(w, 4)],
                .until = roll(w, 4) ? 0
                                    : now_ms(w) + HOUR + (int64_t)roll(w, 4 * HOUR / TICK) * TICK,
                .missed = (int)roll(w, 3),
                .overlap = (int)roll(w, 4),
        };
        if (w->models[name].exists && roll(w, 2)) { /* the same times again */
                def.is_cron = w->models[name].is_cron;
                def.every = w->models[name].every;
        }
        def.window = (roll(w, 2) ? MINUTE : HOUR) + (int64_t)roll(w, 3 * HOUR / TICK) * TICK;
        (void)snprintf(cron, sizeof(cron), "*/%lld * * * *", (long long)(def.every / MINUTE));
        struct model before = w->models[name];
        model_define(w, name, &def, false);
        bool is_over = model_next(&w->models[name], w->models[name].cursor) == NO_SLOT;
        const char *text =
                rig_do(&w->rig, "SCHEDULE", names[name], "hook", "", def.is_cron ? "CRON" : "EVERY",
                       def.is_cron ? cron : number(every, def.every), "MISSED",
                       missed_words[def.missed], "OVERLAP", overlap_words[def.overlap], "WINDOW",
                       number(window, def.window), "ATTEMPTS", "1", "STOPAFTER", "3", "UNTIL",
                       number(until, def.until ? def.until : 32503680000000));
        if (text[0] == '!') { /* after a jump back: until lies before what was served */
                assert_true(is_over);
                w->models[name] = before;
        }
}

static void step_remove(struct world *w)
{
        size_t name = roll(w, NAMES);
        struct model *m = &w->models[name];
        if (roll(w, 3))
                return;
        const char *text = rig_do(&w->rig, "UNSCHEDULE", names[name]);
        assert_true((text[0] == 'O') == m->exists);
        m->exists = false;
}

static void step_pause(struct world *w)
{
        size_t name = roll(w, NAMES);
        struct model *m = &w->models[name];
        if (!m->exists)
                return;
        if (roll(w, 2)) {
                assert_string_equal(rig_do(&w->rig, "PAUSESCHEDULE", names[name]), "OK");
                m->status = PAUSED;
                return;
        }
        assert_string_equal(rig_do(&w->rig, "RESUMESCHEDULE", names[name]), "OK");
        if (m->status == ACTIVE)
                return;
        m->status = ACTIVE;
        m->failures = 0;
        if (m->cursor < now_ms(w))
                m->cursor = now_ms(w);
}

static void step_run(struct world *w)
{
        size_t name = roll(w, NAMES);
        if (!w->models[name].exists)
                return;
        char id[24];
        const char *text = rig_do(&w->rig, "RUNSCHEDULE", names[name]);
        assert_string_equal(text, number(id, (int64_t)w->next_id));
        model_make(w, name, 0);
}

static void count_end(struct model *m, uint64_t id, bool is_failed)
{
        if (!m->exists || id < m->since)
                return;
        if (is_failed) {
                m->failures++;
                if (m->failures >= STOP_AFTER && m->status == ACTIVE)
                        m->status = STOPPED;
        } else if (m->status != STOPPED) {
                m->failures = 0;
        }
}

/* Whatever a worker gets must be a job that lives. */
static void step_work(struct world *w)
{
        char token[33], text[24];
        uint64_t id = rig_claim(&w->rig, "w", "default", token);
        if (!id)
                return;
        const struct job *job = state_job(&w->rig.core->state, id);
        struct model *m = &w->models[job->extra->options.schedule.ptr[0] - 'a'];
        size_t at = 0;
        while (at < m->n_live && m->live[at] != id)
                at++;
        assert_true(at < m->n_live);
        bool is_failed = roll(w, 2);
        number(text, (int64_t)id);
        if (is_failed)
                assert_string_equal(rig_do(&w->rig, "FAIL", text, token, "dice"), "'failed'");
        else
                assert_string_equal(rig_do(&w->rig, "COMPLETE", text, token), "OK");
        model_end(m, at);
        count_end(m, id, is_failed);
}

static void step_work_much(struct world *w)
{
        for (int i = 0; i < 40; i++)
                step_work(w);
}

static void step_cancel(struct world *w)
{
        struct model *m = &w->models[roll(w, NAMES)];
        char text[24];
        if (!m->n_live)
                return;
        size_t at = roll(w, m->n_live);
        assert_string_equal(rig_do(&w->rig, "CANCEL", number(text, (int64_t)m->live[at])), "OK");
        model_end(m, at);
}

static void step_restart(struct world *w)
{
        int64_t now = now_ms(w);
        /* Down for a while: what is due then is made by the first turn, so the digest is compared
         * before time goes on. */
        assert_true(rig_replays(&w->rig));
        if (roll(w, 2)) {
                w->rig.now.wall_ms = now + (int64_t)roll(w, 2 * HOUR / TICK) * TICK;
                w->rig.now.steady_ns += NS_PER_MS;
                turns(w);
        }
}

static void step_clean(struct world *w)
{
        rig_fall_behind(&w->rig, &w->dice);
        turns(w);
        memory_archive_commit(&w->rig.archive, roll(w, 10));
}

static void run_round(uint64_t seed)
{
        static void (*const steps[])(struct world *) = {
                step_pass,   step_pass, step_pass,  step_pass,      step_pass,    step_forward,
                step_back,   step_work, step_work,  step_work_much, step_cancel,  step_define,
                step_define, step_run,  step_pause, step_remove,    step_restart, step_clean,
        };
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        rig_init(&w->rig);
        w->next_id = w->rig.core->state.next_id;
        for (int i = 0; i < STEPS; i++) {
                steps[roll(w, ARRAY_LEN(steps))](w);
                check(w);
        }
        rig_release(&w->rig);
        free(w);
}

static void schedules_do_what_the_model_does(void **unused)
{
        (void)unused;
        say_setup(SAY_ERROR, false); /* stopped and missed ones are no news here */
        dice_play(25, run_round);
}

/* ---- crashes ---- */

/* A turn whose batch is on its way to the disk when the power goes, as often as not: the batch is
 * there afterwards or it is not. */
static void crash_in_a_turn(struct world *w)
{
        struct memory_log *log = &w->rig.log;
        log->is_manual = true;
        core_turn(w->rig.core, w->rig.now);
        (void)core_commit(w->rig.core);
        if (log->in_flight && roll(w, 2)) {
                buf_release(&log->batches[log->last_seq - 1]);
                log->batches[--log->last_seq] = (struct buf){0};
        }
        log->in_flight = 0;
        log->is_manual = false;
        rig_restart(&w->rig);
}

/* All slots of a schedule that have a job, in the order of the jobs: each later than the one
 * before, and with `step` exactly that much later. */
static void check_slots(struct world *w, const char *name, int64_t step)
{
        const struct state *s = &w->rig.core->state;
        uint64_t id = 0;
        int64_t last = 0;
        for (struct job *job; (job = idmap_next(&s->jobs, id, &id)); id++) {
                if (!slice_eq(job->extra->options.schedule, slice_str(name)))
                        continue;
                int64_t slot = (int64_t)job->extra->options.slot_ms;
                assert_true(slot > last);
                assert_true(!last || !step || slot == last + step);
                last = slot;
        }
        assert_true(last > 0);
        const struct thing *t = thing_find(s, THING_SCHEDULE, slice_str(name));
        assert_true(CONTAINER_OF(t, const struct schedule, thing)->past.last_slot_ms == last);
}

static void run_crashes(uint64_t seed)
{
        struct world *w = calloc(1, sizeof(*w));
        assert_non_null(w);
        rng_init_seed(&w->dice, seed);
        rig_init(&w->rig);
        (void)rig_do(&w->rig, "SCHEDULE", "a", "h", "", "EVERY", "60000", "MISSED", "all",
                     "OVERLAP", "allow");
        (void)rig_do(&w->rig, "SCHEDULE", "b", "h", "", "CRON", "*/2 * * * *", "MISSED", "all",
                     "OVERLAP", "queue");
        (void)rig_do(&w->rig, "SCHEDULE", "c", "h", "", "EVERY", "120000", "OVERLAP", "cancel");
        for (int i = 0; i < 200; i++) {
                w->rig.now.steady_ns += NS_PER_MS;
                w->rig.now.wall_ms += (int64_t)roll(w, 3 * MINUTE / TICK) * TICK;
                if (roll(w, 20) == 0)
                        w->rig.now.wall_ms -= (int64_t)roll(w, 20 * MINUTE / TICK) * TICK;
                if (roll(w, 2)) {
                        crash_in_a_turn(w);
                } else {
                        w->rig.log.stat.head_seq = w->rig.log.last_seq;
                        w->rig.log.stat.retained_bytes = 1ULL << 30;
                        rig_turn(&w->rig);
                }
                state_check(&w->rig.core->state);
        }
        w->rig.now.wall_ms += HOUR;
        rig_turn(&w->rig);
        check_slots(w, "a", MINUTE);
        check_slots(w, "b", 2 * MINUTE);
        check_slots(w, "c", 0);
        rig_release(&w->rig);
        free(w);
}

static void a_crash_loses_no_slot_and_makes_none_twice(void **unused)
{
        (void)unused;
        say_setup(SAY_ERROR, false);
        dice_play(8, run_crashes);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(schedules_do_what_the_model_does),
                cmocka_unit_test(a_crash_loses_no_slot_and_makes_none_twice),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
