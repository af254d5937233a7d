/* See schedule.h.
 *
 * Slots are asked for, never listed: the next one costs a division or a call of cron_next().  The
 * last slot before a time is found by halving, since "the first slot after t" never decreases as t
 * grows: some 40 calls, whether weir was away for a minute or for a year of seconds.
 *
 * A zone whose file is gone after a restart does not keep weir from starting: the schedule has no
 * slots then and says why. */
#include "state/schedule.h"

#include <stdlib.h>

#include "state/state.h"

#define BODY_VERSION 1
#define TIME_MAX_MS  SCHEDULE_TIME_MAX_MS

/* Numbers in the log. */
enum note_op { NOTE_PASS = 1, NOTE_END = 2, NOTE_PAUSE = 3, NOTE_RESUME = 4 };

/* ---- slots ---- */

int slots_init(struct slots *ret, const struct schedule_def *def, struct problem *problem)
{
        *ret = (struct slots){
                .is_cron = def->cron.len > 0,
                .every_ms = def->every_ms,
                .first_ms = def->first_ms,
                .until_ms = def->until_ms ? def->until_ms : INT64_MAX,
        };
        int r = ret->is_cron ? cron_parse(def->cron, &ret->cron, problem) : OK;
        if (r != OK || !def->zone.len) {
                ret->tz = r == OK ? tz_utc() : NULL;
                return r;
        }
        const struct tz *tz = NULL;
        r = tz_open(def->zone, &tz, problem);
        ret->tz = r == OK ? tz : NULL;
        return r;
}

static int64_t interval_next(const struct slots *s, int64_t after_ms)
{
        if (after_ms < s->first_ms)
                return s->first_ms;
        return s->first_ms + ((after_ms - s->first_ms) / s->every_ms + 1) * s->every_ms;
}

int64_t slots_next(const struct slots *s, int64_t after_ms)
{
        int64_t next = INT64_MAX;
        if (!s->tz || after_ms >= s->until_ms)
                return INT64_MAX;
        if (!s->is_cron)
                next = interval_next(s, after_ms);
        else
                next = cron_next(&s->cron, s->tz,
                                 after_ms < s->first_ms ? s->first_ms - 1 : after_ms);
        return next > s->until_ms || next > TIME_MAX_MS ? INT64_MAX : next;
}

int64_t slots_newest(const struct slots *s, int64_t after_ms, int64_t until_ms)
{
        int64_t low = after_ms, high = until_ms; /* a slot is in (low, until]; none in (high, until]
                                                  */
        ASSERT(slots_next(s, after_ms) <= until_ms);
        while (high - low > 1) {
                int64_t middle = low + (high - low) / 2;
                if (slots_next(s, middle) <= until_ms)
                        low = middle;
                else
                        high = middle;
        }
        return high;
}

uint64_t slots_count(const struct slots *s, int64_t after_ms, int64_t until_ms, uint64_t max)
{
        uint64_t n = 0;
        int64_t at = slots_next(s, after_ms);
        if (at > until_ms)
                return 0;
        if (!s->is_cron) {
                if (until_ms > s->until_ms)
                        until_ms = s->until_ms;
                return (uint64_t)((until_ms - at) / s->every_ms) + 1;
        }
        for (; at <= until_ms && n < max; n++)
                at = slots_next(s, at);
        return n;
}

/* ---- bodies ---- */

/* The definition keeps options unpacked. */
static void put_options(struct buf *b, const struct job_options *options)
{
        struct buf packed CLEANUP(buf_release) = {0};
        options_pack(options, &packed);
        buf_put_lv(b, buf_slice(&packed));
}

static void get_options(struct reader *r, struct job_options *ret)
{
        if (!options_unpack(reader_lv(r), ret))
                r->failed = true;
}

#define PUT_SLOT(b, o, at)    buf_put_varint(b, (uint64_t)(o)->at)
#define GET_SLOT(r, o, at)    (o)->at = (__typeof__((o)->at))get_max(r, TIME_MAX_MS)
#define PUT_OPTIONS(b, o, at) put_options(b, &(o)->at)
#define GET_OPTIONS(r, o, at) get_options(r, &(o)->at)

#define PAST_FIELDS(F)                                                                             \
        F(U8, status, ALWAYS, "status", "0 active, 1 paused, 2 stopped")                           \
        F(SLOT, cursor_ms, ALWAYS, "cursor_ms", "every slot up to here was handled")               \
        F(SLOT, last_slot_ms, ALWAYS, "last_slot_ms",                                              \
          "the last slot for which a job was created; 0 = none")                                   \
        F(NUM, last_job, ALWAYS, "last_job", "that job")                                           \
        F(NUM, since_id, ALWAYS, "since_id", "jobs from here on are of this definition")           \
        F(NUM, failures, ALWAYS, "failures", "failed jobs in a row")                               \
        F(NUM, stop_job, ALWAYS, "stop_job", "the job whose failure stopped it; 0 = not stopped")  \
        F(NUM, n_jobs, ALWAYS, "n_jobs", "jobs created")                                           \
        F(NUM, n_missed, ALWAYS, "n_missed", "slots missed")                                       \
        F(NUM, n_overlapped, ALWAYS, "n_overlapped", "slots skipped because a job had not ended")

#define DEF_FIELDS(F)                                                                              \
        F(U8, is_first_given, ALWAYS, "is_first_given", "first_ms was given, not derived")         \
        F(U8, missed, ALWAYS, "missed", "missed slots: 0 skip, 1 one, 2 all")                      \
        F(U8, overlap, ALWAYS, "overlap", "overlapping jobs: 0 skip, 1 queue, 2 allow, 3 cancel")  \
        F(U8, priority, ALWAYS, "priority", "of its jobs")                                         \
        F(SLOT, every_ms, ALWAYS, "every_ms", "interval; 0 with a cron expression")                \
        F(SLOT, first_ms, ALWAYS, "first_ms", "no slot is earlier")                                \
        F(SLOT, until_ms, ALWAYS, "until_ms", "no slot is later; 0 = no end")                      \
        F(SLOT, jitter_ms, ALWAYS, "jitter_ms", "maximum random delay of a job")                   \
        F(SLOT, window_ms, ALWAYS, "window_ms", "how late a job may be created; 0 = any")          \
        F(NUM, stop_after, ALWAYS, "stop_after", "failures in a row that stop it; 0 = never")      \
        F(U16, attempts, ALWAYS, "attempts", "of its jobs")                                        \
        F(U32, timeout_ms, ALWAYS, "timeout_ms", "of its jobs")                                    \
        F(SLOT, expires_in, ALWAYS, "expires_in", "of its jobs, in ms")                            \
        F(TEXT, cron, ALWAYS, "cron", "expression; empty for an interval")                         \
        F(TEXT, zone, ALWAYS, "zone", "time zone of the expression; empty = UTC")                  \
        F(TEXT, hook, ALWAYS, "hook", "of its jobs")                                               \
        F(TEXT, queue, ALWAYS, "queue", "of its jobs")                                             \
        F(TEXT, group, ALWAYS, "group", "of its jobs")                                             \
        F(OPTIONS, options, ALWAYS, "options", "of its jobs")                                      \
        F(TEXT, args, ALWAYS, "args", "of its jobs")

static const struct field schedule_fields[] = {PAST_FIELDS(DOC_FIELD) DEF_FIELDS(DOC_FIELD)};

static void put_past(const struct schedule_past *o, struct buf *b)
{
        PAST_FIELDS(PUT_FIELD)
}

static bool read_past(struct reader *r, struct schedule_past *o)
{
        PAST_FIELDS(GET_FIELD)
        return !r->failed && o->status < SCHEDULE_STATUS_COUNT && o->last_slot_ms <= o->cursor_ms;
}

static void put_def(const struct schedule_def *o, struct buf *b)
{
        DEF_FIELDS(PUT_FIELD)
}

/* The texts borrow from `bytes`. */
static bool read_def(struct slice bytes, struct schedule_def *o)
{
        struct reader reader = reader_make(bytes), *r = &reader;
        DEF_FIELDS(GET_FIELD)
        bool is_timed = o->cron.len ? o->every_ms == 0 : o->every_ms > 0;
        return !r->failed && !reader_left(r) && is_timed && o->missed < MISSED_COUNT &&
               o->overlap < OVERLAP_COUNT && o->hook.len && o->queue.len && o->attempts;
}

void schedule_put(const struct schedule_def *def, const struct schedule_past *past,
                  struct buf *body)
{
        buf_put_byte(body, BODY_VERSION);
        put_past(past, body);
        put_def(def, body);
}

static void put(const struct thing *t, struct buf *body)
{
        const struct schedule *sch = CONTAINER_OF(t, const struct schedule, thing);
        schedule_put(&sch->def, &sch->past, body);
}

/* ---- changes ---- */

static void arm(struct state *s, struct schedule *sch)
{
        sch->next_ms = slots_next(&sch->slots, sch->past.cursor_ms);
        thing_alarm(s, &sch->thing, sch->past.status == SCHEDULE_ACTIVE ? sch->next_ms : INT64_MAX);
}

void schedule_trouble(struct schedule *sch, const char *why)
{
        free(sch->trouble);
        sch->trouble = why ? strdup(why) : NULL;
}

static void init(struct state *s, struct thing *t)
{
        struct schedule *sch = schedule_of(t);
        (void)s;
        list_init(&sch->jobs);
        buf_init(&sch->text, 0);
        sch->next_ms = INT64_MAX;
}

static void release(struct state *s, struct thing *t)
{
        struct schedule *sch = schedule_of(t);
        (void)s;
        ASSERT(!sch->n_tied);
        buf_release(&sch->text);
        schedule_trouble(sch, NULL);
}

/* The log forgets it, jobs of it still live. */
static bool clear(struct state *s, struct schedule *sch)
{
        buf_clear(&sch->text);
        sch->def = (struct schedule_def){0};
        sch->past = (struct schedule_past){0};
        sch->slots = (struct slots){0};
        schedule_trouble(sch, NULL);
        arm(s, sch);
        return true;
}

static bool set(struct state *s, struct thing *t, struct slice body)
{
        struct schedule *sch = schedule_of(t);
        struct reader r = reader_make(body);
        struct schedule_past past;
        struct schedule_def def;
        struct problem problem;
        if (!body.len)
                return clear(s, sch);
        if (reader_u8(&r) != BODY_VERSION || !read_past(&r, &past))
                return false;
        struct slice packed = reader_bytes(&r, reader_left(&r));
        if (!read_def(packed, &def))
                return false;
        buf_clear(&sch->text);
        buf_put_slice(&sch->text, packed);
        if (sch->text.failed || !read_def(buf_slice(&sch->text), &sch->def))
                return false;
        sch->past = past;
        bool has_slots = slots_init(&sch->slots, &sch->def, &problem) == OK;
        schedule_trouble(sch, has_slots ? NULL : problem.detail);
        arm(s, sch);
        return true;
}

void schedule_put_pass(struct buf *body, int64_t cursor_ms, uint64_t missed, uint64_t overlapped)
{
        buf_put_byte(body, NOTE_PASS);
        buf_put_varint(body, (uint64_t)schedule_time(cursor_ms));
        buf_put_varint(body, missed);
        buf_put_varint(body, overlapped);
}

void schedule_put_end(struct buf *body, uint64_t failures, uint64_t stop_job)
{
        buf_put_byte(body, NOTE_END);
        buf_put_varint(body, failures);
        buf_put_varint(body, stop_job);
}

void schedule_put_pause(struct buf *body)
{
        buf_put_byte(body, NOTE_PAUSE);
}

void schedule_put_resume(struct buf *body)
{
        buf_put_byte(body, NOTE_RESUME);
}

static void move_cursor(struct schedule_past *p, int64_t to_ms)
{
        to_ms = schedule_time(to_ms);
        if (to_ms > p->cursor_ms)
                p->cursor_ms = to_ms;
}

static void note_pass(struct schedule_past *p, struct reader *r)
{
        int64_t to_ms = (int64_t)get_max(r, TIME_MAX_MS);
        uint64_t missed = reader_varint(r), overlapped = reader_varint(r);
        move_cursor(p, to_ms);
        p->n_missed += missed;
        p->n_overlapped += overlapped;
}

static void note_end(struct schedule_past *p, struct reader *r)
{
        p->failures = reader_varint(r);
        p->stop_job = reader_varint(r);
        if (p->stop_job && p->status == SCHEDULE_ACTIVE)
                p->status = SCHEDULE_STOPPED;
}

/* What lies in the time of the pause is not made up for. */
static void note_resume(const struct state *s, struct schedule_past *p)
{
        move_cursor(p, s->wall_ms);
        p->failures = 0;
        p->stop_job = 0;
        p->status = SCHEDULE_ACTIVE;
}

static bool note(struct state *s, struct thing *t, struct slice body)
{
        struct schedule *sch = schedule_of(t);
        struct reader r = reader_make(body);
        struct schedule_past past = sch->past;
        switch (reader_u8(&r)) {
        case NOTE_PASS:
                note_pass(&past, &r);
                break;
        case NOTE_END:
                note_end(&past, &r);
                break;
        case NOTE_PAUSE:
                past.status = SCHEDULE_PAUSED;
                break;
        case NOTE_RESUME:
                note_resume(s, &past);
                break;
        default:
                return false;
        }
        if (r.failed || reader_left(&r))
                return false;
        sch->past = past;
        arm(s, sch);
        return true;
}

/* ---- its jobs ---- */

void schedule_fired(struct state *s, const struct job *job)
{
        const struct job_options *o = &job->extra->options;
        struct thing *t = thing_find(s, THING_SCHEDULE, o->schedule);
        if (!t || !thing_is_durable(t))
                return; /* in replay: its SET comes later and knows of this job */
        struct schedule_past *p = &schedule_of(t)->past;
        p->n_jobs++;
        p->last_job = job_id(job);
        if (o->slot_ms && o->slot_ms <= TIME_MAX_MS) {
                move_cursor(p, (int64_t)o->slot_ms);
                p->last_slot_ms = (int64_t)o->slot_ms;
        }
        arm(s, schedule_of(t));
}

static void join(struct state *s, struct job *job)
{
        if (!job->extra->options.schedule.len)
                return;
        struct thing *t = thing_get(s, THING_SCHEDULE, job->extra->options.schedule);
        job->extra->schedule = t;
        schedule_of(t)->n_tied++;
}

static void moved(struct job *job)
{
        struct job_extra *x = job->extra;
        if (!x->schedule)
                return;
        struct schedule *sch = schedule_of(x->schedule);
        bool is_wanted = job->state != JOB_FINISHED;
        if (is_wanted == list_is_linked(&x->sibling))
                return;
        if (is_wanted) {
                list_push_back(&sch->jobs, &x->sibling);
                sch->n_jobs++;
        } else {
                list_remove(&x->sibling);
                sch->n_jobs--;
        }
}

static void part(struct state *s, struct job *job)
{
        struct job_extra *x = job->extra;
        struct thing *t = x->schedule;
        if (!t)
                return;
        struct schedule *sch = schedule_of(t);
        if (list_is_linked(&x->sibling)) {
                list_remove(&x->sibling);
                sch->n_jobs--;
        }
        x->schedule = NULL;
        ASSERT(sch->n_tied > 0);
        if (--sch->n_tied == 0 && !thing_is_durable(t))
                thing_drop(s, t);
}

static bool is_needed(const struct thing *t)
{
        return CONTAINER_OF(t, const struct schedule, thing)->n_tied > 0;
}

static void check(const struct thing *t)
{
        const struct schedule *sch = CONTAINER_OF(t, const struct schedule, thing);
        bool is_due = sch->past.status == SCHEDULE_ACTIVE && sch->next_ms != INT64_MAX;
        size_t n = 0;
        LIST_FOREACH(&sch->jobs, it)
        n++;
        ASSERT(n == sch->n_jobs && n <= sch->n_tied);
        ASSERT(thing_is_durable(t) || sch->n_tied);
        if (!thing_is_durable(t))
                return;
        ASSERT(sch->next_ms == slots_next(&sch->slots, sch->past.cursor_ms));
        ASSERT(heap_has(&t->alarm) == is_due);
        ASSERT(sch->past.last_slot_ms <= sch->past.cursor_ms);
        ASSERT((sch->past.stop_job != 0) >= (sch->past.status == SCHEDULE_STOPPED));
}

const struct thing_ops schedule_ops = {
        .text = "A schedule: what it creates when, and how far it has come.",
        .body = "u8 version 1, then:",
        .fields = schedule_fields,
        .n_fields = ARRAY_LEN(schedule_fields),
        .size = sizeof(struct schedule),
        .is_ordered = true,
        .is_wall = true,
        .init = init,
        .set = set,
        .put = put,
        .note = note,
        .release = release,
        .join = join,
        .moved = moved,
        .part = part,
        .is_needed = is_needed,
        .check = check,
};
