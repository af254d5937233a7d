/* The commands of schedules.
 *
 * SCHEDULE is meant to be sent again, by every deployment.  So the same times leave the schedule
 * where it is: an interval keeps its first slot, nothing fires twice and nothing is left out. Other
 * times begin anew, but never before a slot that was served.  What counts failures begins anew too:
 * a new definition may be the repair, and jobs of the old one do not count for it.
 *
 * While a schedule is paused or stopped its slots go by, and RESUMESCHEDULE does not make up for
 * them whatever MISSED says: a person wanted them not to run.  MISSED is about an absence of weir.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
#include "api/replies.h"
#include "base/say.h"
#include "core/page.h"
#include "jobs/schedule.h"
#include "state/schedule.h"

#define LIST_LIMIT_DEFAULT 50
#define NEXT_RUNS_DEFAULT  10
#define NEXT_SHOWN         5
#define STOP_AFTER_DEFAULT 5

static const char *const missed_names[MISSED_COUNT] = {"skip", "one", "all"};
static const char *const overlap_names[OVERLAP_COUNT] = {"skip", "queue", "allow", "cancel"};

/* ---- finding ---- */

static struct schedule *find(const struct core *core, struct slice name)
{
        struct thing *t = thing_find(&core->state, THING_SCHEDULE, name);
        return t && thing_is_durable(t) ? schedule_of(t) : NULL;
}

static int find_named(const struct core *core, const struct command *cmd, struct schedule **ret,
                      struct problem *problem)
{
        struct slice name = cmd->arg[P_SCHEDULE_NAME].text;
        *ret = find(core, name);
        return *ret ? OK
                    : problem_set(problem, ERR_NOTFOUND, "there is no schedule '%.*s'",
                                  (int)name.len, name.ptr);
}

static const char *state_name(const struct schedule *sch)
{
        switch ((enum schedule_status)sch->past.status) {
        case SCHEDULE_PAUSED:
                return "paused";
        case SCHEDULE_STOPPED:
                return "stopped";
        case SCHEDULE_ACTIVE:
        case SCHEDULE_STATUS_COUNT:
                break;
        }
        return sch->next_ms == INT64_MAX && sch->slots.tz ? "done" : "active";
}

/* ---- SCHEDULE ---- */

/* The job it makes, checked as ENQUEUE would check it. */
static int read_job(const struct command *cmd, struct schedule_def *def, struct problem *problem)
{
        static const struct {
                uint8_t of_schedule, of_enqueue;
        } params[] = {
                {P_SCHEDULE_HOOK, P_ENQUEUE_HOOK},
                {P_SCHEDULE_ARGS, P_ENQUEUE_ARGS},
#define JOB_OPTION(p, ...) {P_SCHEDULE_##p, P_ENQUEUE_##p},
#define ENQUEUE_OPTION(...)
#include "api/job_options.def"
        };
        struct job_spec spec;
        int r = OK;
        job_spec_init(&spec);
        for (size_t i = 0; i < ARRAY_LEN(params) && r == OK; i++) {
                const struct arg *arg = &cmd->arg[params[i].of_schedule];
                if (arg->is_set)
                        r = job_spec_set(&spec, params[i].of_enqueue, arg, problem);
        }
        if (r == OK)
                r = job_spec_finish(&spec, problem);
        def->hook = spec.hook;
        def->args = spec.args;
        def->queue = spec.queue;
        def->group = spec.group;
        def->priority = spec.priority;
        def->attempts = spec.attempts;
        def->timeout_ms = spec.timeout_ms;
        def->expires_in = spec.expires_in;
        def->options = spec.options;
        return r;
}

/* `arg` is where the times begin: in SCHEDULETRY they come first. */
static int read_times(const struct arg *arg, struct schedule_def *def, struct problem *problem)
{
        def->cron = arg[P_SCHEDULETRY_CRON].text;
        def->zone = arg[P_SCHEDULETRY_ZONE].text;
        def->every_ms = arg[P_SCHEDULETRY_EVERY].num;
        def->first_ms = arg[P_SCHEDULETRY_FIRST].num;
        def->until_ms = arg[P_SCHEDULETRY_UNTIL].num;
        def->is_first_given = arg[P_SCHEDULETRY_FIRST].is_set;
        const struct {
                bool is_wrong;
                const char *text;
        } rules[] = {
                {!def->cron.len && !def->every_ms, "cron or every is missing"},
                {def->zone.len && !def->cron.len,
                 "zone goes with cron: an interval is the same everywhere"},
                {def->until_ms && def->first_ms > def->until_ms, "until is before first"},
        };
        for (size_t i = 0; i < ARRAY_LEN(rules); i++)
                if (rules[i].is_wrong)
                        return problem_set(problem, ERR_BADARG, "%s", rules[i].text);
        return OK;
}

static int read_def(const struct command *cmd, struct schedule_def *def, struct problem *problem)
{
        const struct arg *arg = cmd->arg;
        *def = (struct schedule_def){
                .jitter_ms = arg[P_SCHEDULE_JITTER].num,
                .window_ms = arg[P_SCHEDULE_WINDOW].num,
                .stop_after = arg[P_SCHEDULE_STOPAFTER].is_set
                                      ? (uint64_t)arg[P_SCHEDULE_STOPAFTER].num
                                      : STOP_AFTER_DEFAULT,
                .missed = (uint8_t)arg[P_SCHEDULE_MISSED].num,
                .overlap = (uint8_t)arg[P_SCHEDULE_OVERLAP].num,
        };
        int r = read_times(arg + P_SCHEDULE_CRON, def, problem);
        return r == OK ? read_job(cmd, def, problem) : r;
}

static bool has_same_times(const struct schedule_def *a, const struct schedule_def *b)
{
        return slice_eq(a->cron, b->cron) && slice_eq(a->zone, b->zone) &&
               a->every_ms == b->every_ms && a->is_first_given == b->is_first_given &&
               (!a->is_first_given || a->first_ms == b->first_ms);
}

/* Where a schedule begins that begins now.  A first slot in the past only says how the others lie:
 * they are not made up for. */
static int64_t begin_ms(const struct schedule_def *def, int64_t now_ms)
{
        bool is_ahead = def->is_first_given && def->first_ms > 0 && def->first_ms >= now_ms;
        return is_ahead ? def->first_ms - 1 : now_ms;
}

/* What a new definition leaves of the past. */
static void carry_on(const struct core *core, const struct schedule *old, struct schedule_def *def,
                     struct schedule_past *past)
{
        int64_t now_ms = schedule_time(core->now.wall_ms);
        bool is_same = old && has_same_times(&old->def, def);
        *past = old ? old->past : (struct schedule_past){0};
        if (!def->cron.len && !def->is_first_given)
                def->first_ms = is_same ? old->def.first_ms : now_ms + def->every_ms;
        int64_t cursor_ms = is_same ? past->cursor_ms : begin_ms(def, now_ms);
        /* Slots that went by while it was stopped, or was done, were not missed. */
        if (old && (past->status == SCHEDULE_STOPPED || old->next_ms == INT64_MAX))
                cursor_ms = cursor_ms > now_ms ? cursor_ms : now_ms;
        if (past->status == SCHEDULE_STOPPED)
                past->status = SCHEDULE_ACTIVE;
        if (cursor_ms > past->cursor_ms)
                past->cursor_ms = cursor_ms;
        past->failures = 0;
        past->stop_job = 0;
        past->since_id = core->state.next_id;
}

/* May it have these times?  ret: its slots. */
static int check_slots(const struct schedule *old, const struct schedule_def *def,
                       const struct schedule_past *past, struct slots *ret, struct problem *problem)
{
        int r = slots_init(ret, def, problem);
        if (r != OK)
                return r;
        bool is_over = slots_next(ret, past->cursor_ms) == INT64_MAX;
        if (is_over && !(old && has_same_times(&old->def, def)))
                return problem_set(problem, ERR_BADARG,
                                   "it would never run: there is no slot before until");
        return OK;
}

static int check_new(const struct core *core, const struct schedule *old,
                     const struct schedule_def *def, const struct schedule_past *past,
                     struct problem *problem)
{
        struct slots slots;
        size_t n = core->state.things[THING_SCHEDULE].len; /* some may be of removed ones */
        if (!old && n >= LIMIT_SCHEDULES)
                return problem_set(problem, ERR_LIMIT, "there are %d schedules already",
                                   LIMIT_SCHEDULES);
        return check_slots(old, def, past, &slots, problem);
}

/* A time, or a number, that is not given. */
static int64_t or_none(int64_t ms)
{
        return ms > 0 && ms != INT64_MAX ? ms : REPLY_NONE;
}

static struct slice text_or_none(struct slice text)
{
        return text; /* an empty one is told as null */
}

static int64_t number_or_none(uint64_t n)
{
        return or_none((int64_t)n);
}

/* An option of either type, as the view has it. */
#define OR_NULL(value)                                                                             \
        _Generic((value), struct slice : text_or_none, uint64_t : number_or_none)(value)

static int64_t next_of(const struct schedule *sch)
{
        return sch->past.status == SCHEDULE_ACTIVE ? sch->next_ms : INT64_MAX;
}

int exec_schedule(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may set one */
        struct schedule_def def;
        struct schedule_past past;
        struct slice name = cmd->arg[P_SCHEDULE_NAME].text;
        const struct schedule *old = find(core, name);
        bool is_new = !old;
        int r = read_def(cmd, &def, problem);
        if (r != OK)
                return r;
        carry_on(core, old, &def, &past);
        r = check_new(core, old, &def, &past, problem);
        if (r != OK)
                return r;
        buf_clear(&core->body);
        schedule_put(&def, &past, &core->body);
        if (core->body.failed)
                return problem_set(problem, ERR_NOMEM, "no memory for the schedule");
        r = core_admit(core, core->body.len + name.len, 0, problem);
        if (r == OK)
                r = thing_try_set(core, THING_SCHEDULE, name, buf_slice(&core->body), problem);
        if (r != OK)
                return r;
        const struct schedule *sch = find(core, name);
        say_info("core", is_new ? "schedule made" : "schedule replaced", "schedule",
                 sch->thing.name, "next_ms", SAY_I64(sch->next_ms));
        const struct schedule_set_reply told = {
                .created = is_new,
                .state = state_name(sch),
                .next_ms = or_none(next_of(sch)),
        };
        reply_schedule_set(reply, &told);
        return OK;
}

/* ---- the small ones ---- */

int exec_unschedule(struct core *core, struct session *session, const struct command *cmd,
                    struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may remove one */
        struct schedule *sch;
        int r = find_named(core, cmd, &sch, problem);
        if (r != OK)
                return r;
        say_info("core", "schedule removed", "schedule", sch->thing.name);
        thing_gone(core, &sch->thing);
        reply_ok(reply);
        return OK;
}

static int set_paused(struct core *core, const struct command *cmd, bool is_paused,
                      struct reply *reply, struct problem *problem)
{
        struct schedule *sch;
        int r = find_named(core, cmd, &sch, problem);
        if (r != OK)
                return r;
        if (sch->past.status != (is_paused ? SCHEDULE_PAUSED : SCHEDULE_ACTIVE)) {
                buf_clear(&core->body);
                if (is_paused)
                        schedule_put_pause(&core->body);
                else
                        schedule_put_resume(&core->body);
                thing_note(core, &sch->thing, buf_slice(&core->body));
                say_info("core", is_paused ? "schedule paused" : "schedule resumed", "schedule",
                         sch->thing.name);
        }
        reply_ok(reply);
        return OK;
}

int exec_pauseschedule(struct core *core, struct session *session, const struct command *cmd,
                       struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may pause */
        return set_paused(core, cmd, true, reply, problem);
}

int exec_resumeschedule(struct core *core, struct session *session, const struct command *cmd,
                        struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may resume */
        return set_paused(core, cmd, false, reply, problem);
}

int exec_runschedule(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may add work */
        struct schedule *sch;
        uint64_t id;
        int r = find_named(core, cmd, &sch, problem);
        if (r == OK)
                r = schedule_fire(core, sch, 0, &id, problem);
        if (r != OK)
                return r;
        reply_enqueued(reply, &(struct enqueued_reply){(int64_t)id});
        return OK;
}

struct next_runs {
        size_t n;
        int64_t at_ms[LIMIT_NEXT_RUNS];
};

static void tell_runs(struct reply *reply, const struct reply_items *items)
{
        const struct next_runs *runs = items->of;
        for (size_t i = 0; i < runs->n; i++)
                reply_int(reply, runs->at_ms[i]);
}

/* From now on; as if it were resumed, when it is not active. */
static struct reply_items find_runs(const struct core *core, const struct slots *slots,
                                    int64_t cursor_ms, size_t max, struct next_runs *room)
{
        int64_t now_ms = core->now.wall_ms, at = cursor_ms < now_ms ? now_ms : cursor_ms;
        room->n = 0;
        while (room->n < max && (at = slots_next(slots, at)) != INT64_MAX)
                room->at_ms[room->n++] = at;
        return (struct reply_items){room->n, tell_runs, core, room};
}

static size_t how_many(const struct arg *count)
{
        return count->is_set ? (size_t)count->num : NEXT_RUNS_DEFAULT;
}

int exec_nextruns(struct core *core, struct session *session, const struct command *cmd,
                  struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        struct schedule *sch;
        int r = find_named(core, cmd, &sch, problem);
        if (r != OK)
                return r;
        struct next_runs room;
        const struct next_runs_reply told = {find_runs(core, &sch->slots, sch->past.cursor_ms,
                                                       how_many(&cmd->arg[P_NEXTRUNS_COUNT]),
                                                       &room)};
        reply_next_runs(reply, &told);
        return OK;
}

int exec_scheduletry(struct core *core, struct session *session, const struct command *cmd,
                     struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may ask */
        struct schedule_def def = {0};
        struct schedule_past past;
        struct slots slots;
        const struct schedule *old = find(core, cmd->arg[P_SCHEDULETRY_NAME].text);
        int r = read_times(cmd->arg, &def, problem);
        if (r != OK)
                return r;
        carry_on(core, old, &def, &past);
        r = check_slots(old, &def, &past, &slots, problem);
        if (r != OK)
                return r;
        struct next_runs room;
        const struct next_runs_reply told = {find_runs(
                core, &slots, past.cursor_ms, how_many(&cmd->arg[P_SCHEDULETRY_COUNT]), &room)};
        reply_next_runs(reply, &told);
        return OK;
}

/* ---- SCHEDULED, SCHEDULES ---- */

static struct slice zone_of(const struct schedule_def *d)
{
        return d->cron.len && !d->zone.len ? SLICE_LIT("UTC") : d->zone;
}

/* Why it does not run; empty: it does. */
static struct slice reason_of(const struct schedule *sch, char *room, size_t size)
{
        if (sch->past.status != SCHEDULE_STOPPED)
                return sch->trouble ? slice_str(sch->trouble) : SLICE_NONE;
        (void)snprintf(
                room, size,
                sch->past.failures == 1 ? "%llu job has failed: job %llu"
                                        : "%llu jobs in a row have failed, the last was job %llu",
                (unsigned long long)sch->past.failures, (unsigned long long)sch->past.stop_job);
        return slice_str(room);
}

int exec_scheduled(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        struct schedule *sch;
        int r = find_named(core, cmd, &sch, problem);
        if (r != OK)
                return r;
        const struct schedule_def *d = &sch->def;
        const struct schedule_past *p = &sch->past;
        const struct job_options *o = &d->options;
        struct next_runs runs;
        char reason[96];
        const struct schedule_reply told = {
                .name = thing_name(&sch->thing),
                .state = state_name(sch),
                .reason = reason_of(sch, reason, sizeof(reason)),
                .cron = d->cron,
                .every_ms = or_none(d->every_ms),
                .zone = zone_of(d),
                .first_ms = or_none(d->first_ms),
                .until_ms = or_none(d->until_ms),
                .jitter_ms = d->jitter_ms,
                .missed = missed_names[d->missed],
                .window_ms = or_none(schedule_late_ms(sch)),
                .overlap = overlap_names[d->overlap],
                .stop_after = (int64_t)d->stop_after,
                .hook = d->hook,
                .args = d->args,
                .queue = d->queue,
                .group = d->group,
                .priority = d->priority,
                .attempts = d->attempts,
                .timeout_ms = or_none(d->timeout_ms),
                .backoff = o->backoff,
                .expires_ms = or_none((int64_t)d->expires_in),
                .is_signed = o->signature.len > 0,
#define TOLD_PLAIN(field) .field = OR_NULL(o->field),
#define TOLD_OWN(field)
#define TOLD_SPEC(field)
#define JOB_OPTION(p, name, how, field, ...) TOLD_##how(field)
#define ENQUEUE_OPTION(...)
#include "api/job_options.def"
                .next_ms = or_none(next_of(sch)),
                .next = find_runs(core, &sch->slots, p->cursor_ms, NEXT_SHOWN, &runs),
                .last_slot_ms = or_none(p->last_slot_ms),
                .last_job = or_none((int64_t)p->last_job),
                .jobs = (int64_t)p->n_jobs,
                .live_jobs = (int64_t)sch->n_jobs,
                .missed_slots = (int64_t)p->n_missed,
                .overlapped_slots = (int64_t)p->n_overlapped,
                .failures = (int64_t)p->failures,
        };
        reply_schedule(reply, &told);
        return OK;
}

static void tell_rows(struct reply *reply, const struct reply_items *items)
{
        const struct page *p = items->of;
        for (size_t i = 0; i < p->n; i++) {
                const struct schedule *sch =
                        CONTAINER_OF(p->things[i], const struct schedule, thing);
                const struct schedule_def *d = &sch->def;
                const struct schedule_row_reply told = {
                        .name = thing_name(&sch->thing),
                        .state = state_name(sch),
                        .hook = d->hook,
                        .queue = d->queue,
                        .cron = d->cron,
                        .every_ms = or_none(d->every_ms),
                        .zone = zone_of(d),
                        .next_ms = or_none(next_of(sch)),
                        .last_slot_ms = or_none(sch->past.last_slot_ms),
                        .last_job = or_none((int64_t)sch->past.last_job),
                        .failures = (int64_t)sch->past.failures,
                };
                reply_schedule_row(reply, &told);
        }
}

int exec_schedules(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        (void)problem;
        const struct arg *limit = &cmd->arg[P_SCHEDULES_LIMIT];
        const struct thing *things[LIMIT_LIST_SCHEDULES];
        struct page p = {.things = things,
                         .max = limit->is_set ? (size_t)limit->num : LIST_LIMIT_DEFAULT,
                         .match = cmd->arg[P_SCHEDULES_MATCH].text};
        page_fill(&p, &core->state, THING_SCHEDULE, cmd->arg[P_SCHEDULES_CURSOR].text);
        const struct schedules_reply told = {
                .schedules = {p.n, tell_rows, core, &p},
                .cursor = page_cursor(&p),
        };
        reply_schedules(reply, &told);
        return OK;
}
