/* The commands of schedules.
 *
 * SCHEDULE is meant to be sent again, by every deployment.  So the same times leave the schedule
 * where it is: an interval keeps its first slot, nothing fires twice and nothing is left out. Other
 * times begin anew, but never before a slot that was served.  What counts failures begins anew too:
 * a new definition may be the repair, and jobs of the old one do not count for it.
 *
 * While a schedule is paused or stopped its slots go by, and RESUMESCHEDULE does not make up for
 * them whatever MISSED says: somebody wanted them not to run.  MISSED is for what nobody wanted. */
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/params.h"
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
        const struct command_def *enqueue = command_find(SLICE_LIT("ENQUEUE"));
        struct job_spec spec;
        int r = OK;
        job_spec_init(&spec);
        for (size_t i = P_SCHEDULE_HOOK; i < cmd->def->n_params && r == OK; i++) {
                int param = command_param(enqueue, slice_str(cmd->def->params[i].name));
                if (param >= 0 && cmd->arg[i].is_set &&
                    (i >= P_SCHEDULE_QUEUE || i <= P_SCHEDULE_ARGS))
                        r = job_spec_set(&spec, (size_t)param, &cmd->arg[i], problem);
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

static void tell_time(struct reply *reply, const char *key, int64_t ms)
{
        reply_key(reply, key);
        if (ms > 0 && ms != INT64_MAX)
                reply_int(reply, ms);
        else
                reply_null(reply);
}

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
        reply_record(reply, 3);
        reply_key(reply, "created");
        reply_bool(reply, is_new);
        reply_key(reply, "state");
        reply_str(reply, state_name(sch));
        tell_time(reply, "next_ms", next_of(sch));
        reply_end(reply);
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

int exec_pauseschedule(struct core *core, struct session *session, const struct command *cmd,
                       struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may pause */
        struct schedule *sch;
        int r = find_named(core, cmd, &sch, problem);
        if (r != OK)
                return r;
        if (sch->past.status != SCHEDULE_PAUSED) {
                buf_clear(&core->body);
                schedule_put_pause(&core->body);
                thing_note(core, &sch->thing, buf_slice(&core->body));
                say_info("core", "schedule paused", "schedule", sch->thing.name);
        }
        reply_ok(reply);
        return OK;
}

int exec_resumeschedule(struct core *core, struct session *session, const struct command *cmd,
                        struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may resume */
        struct schedule *sch;
        int r = find_named(core, cmd, &sch, problem);
        if (r != OK)
                return r;
        if (sch->past.status != SCHEDULE_ACTIVE) {
                buf_clear(&core->body);
                schedule_put_resume(&core->body);
                thing_note(core, &sch->thing, buf_slice(&core->body));
                say_info("core", "schedule resumed", "schedule", sch->thing.name);
        }
        reply_ok(reply);
        return OK;
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
        reply_wrap(reply, "id");
        reply_int(reply, (int64_t)id);
        return OK;
}

/* From now on; as if it were resumed, when it is not active. */
static void tell_slots(const struct core *core, const struct slots *slots, int64_t cursor_ms,
                       struct reply *reply, size_t max)
{
        int64_t told[LIMIT_NEXT_RUNS], now_ms = core->now.wall_ms;
        int64_t at = cursor_ms < now_ms ? now_ms : cursor_ms;
        size_t n = 0;
        while (n < max && (at = slots_next(slots, at)) != INT64_MAX)
                told[n++] = at;
        reply_list(reply, n);
        for (size_t i = 0; i < n; i++)
                reply_int(reply, told[i]);
        reply_end(reply);
}

static void tell_next(const struct core *core, const struct schedule *sch, struct reply *reply,
                      size_t max)
{
        tell_slots(core, &sch->slots, sch->past.cursor_ms, reply, max);
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
        reply_wrap(reply, "next");
        tell_next(core, sch, reply, how_many(&cmd->arg[P_NEXTRUNS_COUNT]));
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
        reply_wrap(reply, "next");
        tell_slots(core, &slots, past.cursor_ms, reply, how_many(&cmd->arg[P_SCHEDULETRY_COUNT]));
        return OK;
}

/* ---- SCHEDULED, SCHEDULES ---- */

static void tell_or_null(struct reply *reply, const char *key, struct slice text)
{
        reply_key(reply, key);
        if (text.len)
                reply_text(reply, text);
        else
                reply_null(reply);
}

static void tell_count(struct reply *reply, const char *key, uint64_t value)
{
        reply_key(reply, key);
        reply_int(reply, (int64_t)value);
}

static void tell_times(const struct schedule *sch, struct reply *reply)
{
        const struct schedule_def *d = &sch->def;
        tell_or_null(reply, "cron", d->cron);
        tell_time(reply, "every_ms", d->every_ms);
        tell_or_null(reply, "zone", d->cron.len && !d->zone.len ? SLICE_LIT("UTC") : d->zone);
        tell_time(reply, "first_ms", d->first_ms);
        tell_time(reply, "until_ms", d->until_ms);
        tell_count(reply, "jitter_ms", (uint64_t)d->jitter_ms);
        reply_key(reply, "missed");
        reply_str(reply, missed_names[d->missed]);
        tell_time(reply, "window_ms", schedule_late_ms(sch));
        reply_key(reply, "overlap");
        reply_str(reply, overlap_names[d->overlap]);
        tell_count(reply, "stop_after", d->stop_after);
}
#define TIMES_FIELDS 10

static void tell_job(const struct schedule_def *d, struct reply *reply)
{
        const struct job_options *o = &d->options;
        tell_or_null(reply, "hook", d->hook);
        reply_key(reply, "args");
        reply_payload(reply, d->args);
        tell_or_null(reply, "queue", d->queue);
        tell_or_null(reply, "group", d->group);
        tell_count(reply, "priority", d->priority);
        tell_count(reply, "attempts", d->attempts);
        tell_time(reply, "timeout_ms", d->timeout_ms);
        tell_or_null(reply, "backoff", o->backoff);
        tell_time(reply, "maxrun_ms", (int64_t)o->maxrun_ms);
        tell_or_null(reply, "key", o->key);
        tell_time(reply, "key_max", (int64_t)o->key_max);
        tell_or_null(reply, "limit", o->limit);
        tell_or_null(reply, "target", o->target);
        tell_time(reply, "expires_ms", (int64_t)d->expires_in);
        tell_time(reply, "result_ms", (int64_t)o->result_ms);
        reply_key(reply, "is_signed");
        reply_bool(reply, o->signature.len > 0);
        tell_or_null(reply, "signature", o->signature);
}
#define JOB_FIELDS 17

static void tell_reason(const struct schedule *sch, struct reply *reply)
{
        char text[96];
        reply_key(reply, "reason");
        if (sch->past.status == SCHEDULE_STOPPED) {
                (void)snprintf(text, sizeof(text),
                               sch->past.failures == 1
                                       ? "%llu job has failed: job %llu"
                                       : "%llu jobs in a row have failed, the last was job %llu",
                               (unsigned long long)sch->past.failures,
                               (unsigned long long)sch->past.stop_job);
                reply_str(reply, text);
        } else if (sch->trouble) {
                reply_str(reply, sch->trouble);
        } else {
                reply_null(reply);
        }
}

static void tell_past(const struct core *core, const struct schedule *sch, struct reply *reply)
{
        const struct schedule_past *p = &sch->past;
        tell_time(reply, "next_ms", next_of(sch));
        reply_key(reply, "next");
        tell_next(core, sch, reply, NEXT_SHOWN);
        tell_time(reply, "last_slot_ms", p->last_slot_ms);
        tell_time(reply, "last_job", (int64_t)p->last_job);
        tell_count(reply, "jobs", p->n_jobs);
        tell_count(reply, "live_jobs", sch->n_jobs);
        tell_count(reply, "missed_slots", p->n_missed);
        tell_count(reply, "overlapped_slots", p->n_overlapped);
        tell_count(reply, "failures", p->failures);
}
#define PAST_FIELDS 9

int exec_scheduled(struct core *core, struct session *session, const struct command *cmd,
                   struct reply *reply, struct problem *problem)
{
        (void)session; /* anybody may look */
        struct schedule *sch;
        int r = find_named(core, cmd, &sch, problem);
        if (r != OK)
                return r;
        reply_map(reply, 3 + TIMES_FIELDS + JOB_FIELDS + PAST_FIELDS);
        reply_key(reply, "name");
        reply_text(reply, thing_name(&sch->thing));
        reply_key(reply, "state");
        reply_str(reply, state_name(sch));
        tell_reason(sch, reply);
        tell_times(sch, reply);
        tell_job(&sch->def, reply);
        tell_past(core, sch, reply);
        reply_end(reply);
        return OK;
}

static void tell_row(const struct schedule *sch, struct reply *reply)
{
        const struct schedule_def *d = &sch->def;
        reply_map(reply, 11);
        reply_key(reply, "name");
        reply_text(reply, thing_name(&sch->thing));
        reply_key(reply, "state");
        reply_str(reply, state_name(sch));
        tell_or_null(reply, "hook", d->hook);
        tell_or_null(reply, "queue", d->queue);
        tell_or_null(reply, "cron", d->cron);
        tell_time(reply, "every_ms", d->every_ms);
        tell_or_null(reply, "zone", d->cron.len && !d->zone.len ? SLICE_LIT("UTC") : d->zone);
        tell_time(reply, "next_ms", next_of(sch));
        tell_time(reply, "last_slot_ms", sch->past.last_slot_ms);
        tell_time(reply, "last_job", (int64_t)sch->past.last_job);
        tell_count(reply, "failures", sch->past.failures);
        reply_end(reply);
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
        reply_map(reply, 2);
        reply_key(reply, "schedules");
        reply_list(reply, p.n);
        for (size_t i = 0; i < p.n; i++)
                tell_row(CONTAINER_OF(p.things[i], const struct schedule, thing), reply);
        reply_end(reply);
        reply_key(reply, "cursor");
        reply_text(reply, page_cursor(&p));
        reply_end(reply);
        return OK;
}
