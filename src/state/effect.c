/* Effects as bytes.  See effect.h for the rows.  Writing and reading stand side by side, one pair
 * of functions a row, in one table: a row that is written must also be readable. */
#include "state/effect.h"

#include <stdlib.h>

#include "state/thing.h"
#include "wire/json.h"

struct effect_row {
        const char *name;
        void (*write)(struct buf *b, const struct effect *e);
        void (*read)(struct reader *r, struct effect *e);
};

static void put_i64(struct buf *b, int64_t v)
{
        ASSERT(v >= 0);
        buf_put_varint(b, (uint64_t)v);
}

static int64_t get_i64(struct reader *r)
{
        uint64_t v = reader_varint(r);
        if (v > INT64_MAX)
                r->failed = true;
        return r->failed ? 0 : (int64_t)v;
}

/* A varint that must fit a smaller field. */
static uint64_t get_max(struct reader *r, uint64_t max)
{
        uint64_t v = reader_varint(r);
        if (v > max)
                r->failed = true;
        return r->failed ? 0 : v;
}

static bool get_bool(struct reader *r)
{
        uint8_t v = reader_u8(r);
        if (v > 1)
                r->failed = true;
        return v == 1;
}

/* A text that version 1 of the record did not have, at its end. */
static struct slice get_added(struct reader *r, const struct effect *e)
{
        return e->version > 1 ? reader_lv(r) : SLICE_NONE;
}

static uint64_t get_added_number(struct reader *r, const struct effect *e)
{
        return e->version > 1 ? reader_varint(r) : 0;
}

static void put_token(struct buf *b, const uint8_t *token)
{
        buf_put(b, token, JOB_TOKEN_BYTES);
}

static void get_token(struct reader *r, uint8_t *ret)
{
        struct slice s = reader_bytes(r, JOB_TOKEN_BYTES);
        if (!r->failed)
                memcpy(ret, s.ptr, JOB_TOKEN_BYTES);
}

enum { MARK_KEEP = 1, MARK_FINAL = 2 };

/* What the effects that end an attempt begin with. */
static void put_end(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->id);
        buf_put_byte(b, (char)((e->keep ? MARK_KEEP : 0) | (e->is_final ? MARK_FINAL : 0)));
        buf_put_varint(b, e->queue_id);
}

static void get_end(struct reader *r, struct effect *e)
{
        e->id = reader_varint(r);
        uint8_t marks = reader_u8(r);
        if (marks > (MARK_KEEP | MARK_FINAL))
                r->failed = true;
        e->keep = marks & MARK_KEEP;
        e->is_final = marks & MARK_FINAL;
        e->queue_id = reader_varint(r);
}

static void clock_write(struct buf *b, const struct effect *e)
{
        put_i64(b, e->steady_ns);
        put_i64(b, e->wall_ms);
}

static void clock_read(struct reader *r, struct effect *e)
{
        e->steady_ns = get_i64(r);
        e->wall_ms = get_i64(r);
}

static void job_new_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->id);
        put_i64(b, e->due_ms);
        buf_put_byte(b, (char)e->priority);
        buf_put_byte(b, (char)e->flags);
        buf_put_varint(b, e->attempts);
        buf_put_varint(b, e->timeout_ms);
        buf_put_varint(b, e->queue_id);
        buf_put_lv(b, e->queue);
        buf_put_lv(b, e->hook);
        buf_put_lv(b, e->group);
        buf_put_lv(b, e->args);
        buf_put_lv(b, e->options);
}

static void job_new_read(struct reader *r, struct effect *e)
{
        e->id = reader_varint(r);
        e->due_ms = get_i64(r);
        e->priority = reader_u8(r);
        e->flags = reader_u8(r);
        e->attempts = (uint16_t)get_max(r, UINT16_MAX);
        e->timeout_ms = (uint32_t)get_max(r, UINT32_MAX);
        e->queue_id = reader_varint(r);
        e->queue = reader_lv(r);
        e->hook = reader_lv(r);
        e->group = reader_lv(r);
        e->args = reader_lv(r);
        e->options = get_added(r, e);
}

static void job_start_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->id);
        buf_put_varint(b, e->fence);
        put_token(b, e->token);
        put_i64(b, e->deadline_ns);
        buf_put_varint(b, e->lease_ms);
        buf_put_lv(b, e->worker);
        buf_put_varint(b, e->other_id);
}

static void job_start_read(struct reader *r, struct effect *e)
{
        e->id = reader_varint(r);
        e->fence = reader_varint(r);
        get_token(r, e->token);
        e->deadline_ns = get_i64(r);
        e->lease_ms = (uint32_t)get_max(r, UINT32_MAX);
        e->worker = reader_lv(r);
        e->other_id = get_added_number(r, e);
        if (e->fence == 0)
                r->failed = true;
}

/* DONE and CANCEL. */
static void job_end_write(struct buf *b, const struct effect *e)
{
        put_end(b, e);
        buf_put_lv(b, e->text);
}

static void job_end_read(struct reader *r, struct effect *e)
{
        get_end(r, e);
        e->text = reader_lv(r);
}

static void job_fail_write(struct buf *b, const struct effect *e)
{
        put_end(b, e);
        put_i64(b, e->due_ms);
        buf_put_lv(b, e->text);
}

static void job_fail_read(struct reader *r, struct effect *e)
{
        get_end(r, e);
        e->due_ms = get_i64(r);
        e->text = reader_lv(r);
}

static void job_timeout_write(struct buf *b, const struct effect *e)
{
        put_end(b, e);
        put_i64(b, e->deadline_ns);
}

static void job_timeout_read(struct reader *r, struct effect *e)
{
        get_end(r, e);
        e->deadline_ns = get_i64(r);
}

static void job_release_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->id);
        put_i64(b, e->due_ms);
}

static void job_release_read(struct reader *r, struct effect *e)
{
        e->id = reader_varint(r);
        e->due_ms = get_i64(r);
}

static void job_extend_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->id);
        put_i64(b, e->deadline_ns);
        buf_put_varint(b, e->lease_ms);
}

static void job_extend_read(struct reader *r, struct effect *e)
{
        e->id = reader_varint(r);
        e->deadline_ns = get_i64(r);
        e->lease_ms = (uint32_t)get_max(r, UINT32_MAX);
}

static void job_progress_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->id);
        buf_put_lv(b, e->text);
}

static void job_progress_read(struct reader *r, struct effect *e)
{
        e->id = reader_varint(r);
        e->text = reader_lv(r);
}

static void grace_end_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->id);
}

static void grace_end_read(struct reader *r, struct effect *e)
{
        e->id = reader_varint(r);
}

static void archived_write(struct buf *b, const struct effect *e)
{
        /* Ids come in the order they ended, so differences may be negative: zigzag. */
        uint64_t last = 0;
        buf_put_varint(b, e->n_ids);
        for (size_t i = 0; i < e->n_ids; i++) {
                int64_t d = (int64_t)(e->ids[i] - last);
                buf_put_varint(b, ((uint64_t)d << 1) ^ (uint64_t)(d >> 63));
                last = e->ids[i];
        }
}

static void archived_read(struct reader *r, struct effect *e)
{
        e->n_ids = (size_t)reader_varint(r);
        e->text = reader_bytes(r, reader_left(r));
        struct slice rest = e->text;
        uint64_t at = 0;
        size_t n = 0;
        while (effect_next_id(&rest, &at))
                n++;
        if (n != e->n_ids || rest.len)
                r->failed = true;
}

bool effect_next_id(struct slice *rest, uint64_t *at)
{
        if (!rest->len)
                return false;
        struct reader r = reader_make(*rest);
        uint64_t z = reader_varint(&r);
        if (r.failed)
                return false;
        *at += (z >> 1) ^ (0 - (z & 1));
        *rest = slice_make(r.at, reader_left(&r));
        return true;
}

static void queue_set_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->queue_id);
        buf_put_lv(b, e->queue);
        buf_put_byte(b, e->is_paused);
        buf_put_lv(b, e->options);
}

static void queue_set_read(struct reader *r, struct effect *e)
{
        e->queue_id = reader_varint(r);
        e->queue = reader_lv(r);
        e->is_paused = get_bool(r);
        e->options = get_added(r, e);
}

static void queue_gone_write(struct buf *b, const struct effect *e)
{
        buf_put_lv(b, e->queue);
}

static void queue_gone_read(struct reader *r, struct effect *e)
{
        e->queue = reader_lv(r);
}

static void meta_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->next_id);
        buf_put_varint(b, e->fence);
        buf_put_varint(b, e->next_queue_id);
}

static void meta_read(struct reader *r, struct effect *e)
{
        e->next_id = reader_varint(r);
        e->fence = reader_varint(r);
        e->next_queue_id = reader_varint(r);
}

static void queue_full_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->queue_id);
        buf_put_lv(b, e->queue);
        buf_put_byte(b, e->is_paused);
        buf_put_varint(b, e->enqueued);
        buf_put_varint(b, e->completed);
        buf_put_varint(b, e->failed);
        buf_put_varint(b, e->canceled);
        buf_put_lv(b, e->options);
}

static void queue_full_read(struct reader *r, struct effect *e)
{
        e->queue_id = reader_varint(r);
        e->queue = reader_lv(r);
        e->is_paused = get_bool(r);
        e->enqueued = reader_varint(r);
        e->completed = reader_varint(r);
        e->failed = reader_varint(r);
        e->canceled = reader_varint(r);
        e->options = get_added(r, e);
}

static void job_full_write_more(struct buf *b, const struct effect *e)
{
        const struct job_view *v = &e->view;
        buf_put_varint(b, v->fence);
        put_token(b, e->token);
        put_i64(b, e->deadline_ns);
        buf_put_varint(b, e->lease_ms);
        put_i64(b, v->started_ms);
        put_i64(b, v->finished_ms);
        buf_put_byte(b, e->is_lease_open);
        buf_put_lv(b, v->worker);
        buf_put_lv(b, v->progress);
        buf_put_lv(b, v->result);
        buf_put_lv(b, v->error);
        buf_put_varint(b, e->events_kept);
        buf_put_lv(b, v->events);
}

static void job_full_write(struct buf *b, const struct effect *e)
{
        const struct job_view *v = &e->view;
        buf_put_varint(b, v->id);
        put_i64(b, v->due_ms);
        put_i64(b, v->created_ms);
        buf_put_byte(b, (char)v->priority);
        buf_put_byte(b, (char)e->flags);
        buf_put_byte(b, (char)e->state);
        buf_put_byte(b, (char)e->outcome);
        buf_put_varint(b, v->attempt);
        buf_put_varint(b, v->attempts_max);
        buf_put_varint(b, v->timeout_ms);
        buf_put_varint(b, e->queue_id);
        buf_put_lv(b, v->queue);
        buf_put_lv(b, v->hook);
        buf_put_lv(b, v->group);
        buf_put_lv(b, v->args);
        buf_put_byte(b, e->has_more);
        if (e->has_more)
                job_full_write_more(b, e);
        buf_put_lv(b, v->options);
        buf_put_varint(b, e->other_id);
}

static void job_full_read_more(struct reader *r, struct effect *e)
{
        struct job_view *v = &e->view;
        v->fence = reader_varint(r);
        get_token(r, e->token);
        e->deadline_ns = get_i64(r);
        e->lease_ms = (uint32_t)get_max(r, UINT32_MAX);
        v->started_ms = get_i64(r);
        v->finished_ms = get_i64(r);
        e->is_lease_open = get_bool(r);
        v->worker = reader_lv(r);
        v->progress = reader_lv(r);
        v->result = reader_lv(r);
        v->error = reader_lv(r);
        e->events_kept = (uint16_t)get_max(r, JOB_EVENTS_KEPT);
        v->events = reader_lv(r);
}

/* What state/job.h promises of a job in that state. */
static bool is_sound_full(const struct effect *e)
{
        const struct job_view *v = &e->view;
        if (v->attempt > v->attempts_max || e->outcome >= JOB_STATUS_COUNT)
                return false;
        switch ((enum job_state)e->state) {
        case JOB_SCHEDULED:
        case JOB_READY:
        case JOB_HELD:
                return true;
        case JOB_WAITING:
                return false;
        case JOB_LEASED:
                return e->has_more && e->is_lease_open && v->fence > 0;
        case JOB_FINISHED:
                return e->has_more && e->outcome >= JOB_COMPLETE &&
                       (!e->is_lease_open || e->outcome == JOB_FAILED);
        }
        return false;
}

static void job_full_read(struct reader *r, struct effect *e)
{
        struct job_view *v = &e->view;
        e->id = v->id = reader_varint(r);
        e->due_ms = v->due_ms = get_i64(r);
        v->created_ms = get_i64(r);
        e->priority = v->priority = reader_u8(r);
        e->flags = reader_u8(r);
        e->state = reader_u8(r);
        e->outcome = reader_u8(r);
        v->attempt = (uint16_t)get_max(r, UINT16_MAX);
        e->attempts = v->attempts_max = (uint16_t)get_max(r, UINT16_MAX);
        e->timeout_ms = v->timeout_ms = (uint32_t)get_max(r, UINT32_MAX);
        e->queue_id = reader_varint(r);
        e->queue = v->queue = reader_lv(r);
        e->hook = v->hook = reader_lv(r);
        e->group = v->group = reader_lv(r);
        e->args = v->args = reader_lv(r);
        e->has_more = get_bool(r);
        if (e->has_more)
                job_full_read_more(r, e);
        e->options = v->options = get_added(r, e);
        e->other_id = get_added_number(r, e);
        if (!is_sound_full(e))
                r->failed = true;
}

static void thing_gone_write(struct buf *b, const struct effect *e)
{
        buf_put_byte(b, (char)e->kind);
        buf_put_lv(b, e->name);
}

static void thing_gone_read(struct reader *r, struct effect *e)
{
        e->kind = reader_u8(r);
        e->name = reader_lv(r);
        if (e->kind >= THING_KINDS)
                r->failed = true;
}

static void thing_write(struct buf *b, const struct effect *e)
{
        thing_gone_write(b, e);
        buf_put_lv(b, e->body);
}

static void thing_read(struct reader *r, struct effect *e)
{
        thing_gone_read(r, e);
        e->body = reader_lv(r);
}

static void job_after_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->id);
        buf_put_varint(b, e->other_id);
}

static void job_after_read(struct reader *r, struct effect *e)
{
        e->id = reader_varint(r);
        e->other_id = reader_varint(r);
}

static void job_due_write(struct buf *b, const struct effect *e)
{
        job_release_write(b, e);
        buf_put_lv(b, e->text);
}

static void job_due_read(struct reader *r, struct effect *e)
{
        job_release_read(r, e);
        e->text = reader_lv(r);
}

static void job_args_write(struct buf *b, const struct effect *e)
{
        buf_put_varint(b, e->id);
        buf_put_lv(b, e->args);
}

static void job_args_read(struct reader *r, struct effect *e)
{
        e->id = reader_varint(r);
        e->args = reader_lv(r);
}

static void job_park_write(struct buf *b, const struct effect *e)
{
        job_due_write(b, e);
        buf_put_byte(b, (char)e->priority);
        put_i64(b, e->deadline_ns);
}

static void job_park_read(struct reader *r, struct effect *e)
{
        job_due_read(r, e);
        e->priority = reader_u8(r);
        e->deadline_ns = get_i64(r);
}

static void job_gate_write(struct buf *b, const struct effect *e)
{
        job_park_write(b, e);
        buf_put_byte(b, (char)e->flags);
}

static void job_gate_read(struct reader *r, struct effect *e)
{
        job_park_read(r, e);
        e->flags = reader_u8(r);
        if ((e->flags & PARK_STEP_MASK) >= PARK_STEPS ||
            e->flags >> PARK_HOW_SHIFT > PARKED_HOW_ALL)
                r->failed = true;
}

static void job_tier_write(struct buf *b, const struct effect *e)
{
        job_progress_write(b, e);
        buf_put_byte(b, (char)e->priority);
        buf_put_byte(b, (char)e->flags);
}

static void job_tier_read(struct reader *r, struct effect *e)
{
        job_progress_read(r, e);
        e->priority = reader_u8(r);
        e->flags = reader_u8(r);
}

static const struct effect_row effect_rows[EFFECT_COUNT] = {
        [EFFECT_CLOCK] = {"clock", clock_write, clock_read},
        [EFFECT_JOB_NEW] = {"job_new", job_new_write, job_new_read},
        [EFFECT_JOB_START] = {"job_start", job_start_write, job_start_read},
        [EFFECT_JOB_DONE] = {"job_done", job_end_write, job_end_read},
        [EFFECT_JOB_FAIL] = {"job_fail", job_fail_write, job_fail_read},
        [EFFECT_JOB_TIMEOUT] = {"job_timeout", job_timeout_write, job_timeout_read},
        [EFFECT_JOB_RELEASE] = {"job_release", job_release_write, job_release_read},
        [EFFECT_JOB_EXTEND] = {"job_extend", job_extend_write, job_extend_read},
        [EFFECT_JOB_PROGRESS] = {"job_progress", job_progress_write, job_progress_read},
        [EFFECT_JOB_CANCEL] = {"job_cancel", job_end_write, job_end_read},
        [EFFECT_ARCHIVED] = {"archived", archived_write, archived_read},
        [EFFECT_QUEUE_SET] = {"queue_set", queue_set_write, queue_set_read},
        [EFFECT_QUEUE_GONE] = {"queue_gone", queue_gone_write, queue_gone_read},
        [EFFECT_META_FULL] = {"meta_full", meta_write, meta_read},
        [EFFECT_QUEUE_FULL] = {"queue_full", queue_full_write, queue_full_read},
        [EFFECT_JOB_FULL] = {"job_full", job_full_write, job_full_read},
        [EFFECT_GRACE_END] = {"grace_end", grace_end_write, grace_end_read},
        [EFFECT_THING_SET] = {"thing_set", thing_write, thing_read},
        [EFFECT_THING_NOTE] = {"thing_note", thing_write, thing_read},
        [EFFECT_THING_GONE] = {"thing_gone", thing_gone_write, thing_gone_read},
        [EFFECT_JOB_BACK] = {"job_back", job_full_write, job_full_read},
        [EFFECT_JOB_AFTER] = {"job_after", job_after_write, job_after_read},
        [EFFECT_JOB_DUE] = {"job_due", job_due_write, job_due_read},
        [EFFECT_JOB_ARGS] = {"job_args", job_args_write, job_args_read},
        [EFFECT_JOB_PARK] = {"job_park", job_park_write, job_park_read},
        [EFFECT_JOB_TIER] = {"job_tier", job_tier_write, job_tier_read},
        [EFFECT_JOB_GATE] = {"job_gate", job_gate_write, job_gate_read},
};

const char *effect_name(enum effect_type type)
{
        return type > EFFECT_NONE && type < EFFECT_COUNT ? effect_rows[type].name : "unknown";
}

void effect_write(struct buf *batch, const struct effect *e)
{
        ASSERT(e->type > EFFECT_NONE && e->type < EFFECT_COUNT);
        size_t at = record_begin(batch, (uint8_t)e->type, EFFECT_VERSION);
        effect_rows[e->type].write(batch, e);
        record_end(batch, at);
}

int effect_read(const struct record *record, struct effect *ret, struct problem *problem)
{
        if (record->type == EFFECT_NONE || record->type >= EFFECT_COUNT)
                return problem_set(problem, ERR_CORRUPT,
                                   "record type %u is not known: was this written by a newer weir?",
                                   record->type);
        if (record->version < 1 || record->version > EFFECT_VERSION)
                return problem_set(problem, ERR_CORRUPT,
                                   "record %s has version %u and this weir reads up to %u",
                                   effect_name(record->type), record->version, EFFECT_VERSION);
        *ret = (struct effect){.type = record->type, .version = record->version};
        struct reader r = reader_make(record->body);
        effect_rows[record->type].read(&r, ret);
        if (r.failed || reader_left(&r))
                return problem_set(problem, ERR_CORRUPT, "record %s is not well formed",
                                   effect_name(record->type));
        return OK;
}

void effect_of_job(const struct job *job, struct effect *ret)
{
        *ret = (struct effect){
                .type = EFFECT_JOB_FULL,
                .id = job_id(job),
                .queue_id = job->queue->id,
                .flags = job->flags & JOB_FLAGS_ALL,
                .state = job->state == JOB_WAITING ? JOB_READY : job->state,
                .outcome = job->outcome,
                .has_more = job->more != NULL,
        };
        job_view(job, &ret->view);
        if (!job->more)
                return;
        memcpy(ret->token, job->more->token, JOB_TOKEN_BYTES);
        ret->deadline_ns = job->more->deadline_ns;
        ret->lease_ms = job->more->lease_ms;
        ret->is_lease_open = job->more->is_lease_open;
        ret->events_kept = job->more->events_kept;
        ret->other_id = job->more->claim;
}

void effect_of_queue(const struct queue *q, struct effect *ret)
{
        *ret = (struct effect){
                .type = EFFECT_QUEUE_FULL,
                .queue = name_slice(q->name),
                .queue_id = q->id,
                .is_paused = q->is_paused,
                .options = buf_slice(&q->packed),
                .enqueued = q->enqueued,
                .completed = q->completed,
                .failed = q->failed,
                .canceled = q->canceled,
        };
}

static void json_text_field(struct buf *b, const char *key, struct slice s)
{
        if (!s.len)
                return;
        buf_printf(b, ",\"%s\":", key);
        json_put_text_lossy(b, s);
}

static void json_int_field(struct buf *b, const char *key, int64_t v)
{
        if (v)
                buf_printf(b, ",\"%s\":%lld", key, (long long)v);
}

void effect_to_json(const struct effect *e, uint64_t seq, struct buf *b)
{
        buf_printf(b, "{\"seq\":%llu,\"type\":\"%s\"", (unsigned long long)seq,
                   effect_name(e->type));
        json_int_field(b, "id", (int64_t)e->id);
        json_int_field(b, "steady_ns", e->steady_ns);
        json_int_field(b, "wall_ms", e->wall_ms);
        json_int_field(b, "next_id", (int64_t)e->next_id);
        json_int_field(b, "queue_id", (int64_t)e->queue_id);
        json_int_field(b, "fence", (int64_t)(e->fence ? e->fence : e->view.fence));
        json_int_field(b, "due_ms", e->due_ms);
        json_int_field(b, "deadline_ns", e->deadline_ns);
        json_int_field(b, "lease_ms", e->lease_ms);
        json_int_field(b, "timeout_ms", e->timeout_ms);
        json_int_field(b, "attempts", e->attempts);
        json_int_field(b, "priority", e->priority);
        json_int_field(b, "enqueued", (int64_t)e->enqueued);
        json_int_field(b, "completed", (int64_t)e->completed);
        json_int_field(b, "failed", (int64_t)e->failed);
        json_int_field(b, "canceled", (int64_t)e->canceled);
        json_text_field(b, "queue", e->queue);
        json_text_field(b, "hook", e->hook);
        json_text_field(b, "group", e->group);
        json_text_field(b, "worker", e->worker.len ? e->worker : e->view.worker);
        json_text_field(b, "args", e->args);
        if (e->type == EFFECT_JOB_START) {
                char hex[2 * JOB_TOKEN_BYTES];
                hex_from_bytes(e->token, JOB_TOKEN_BYTES, hex);
                json_text_field(b, "token", slice_make(hex, sizeof(hex)));
        }
        if (e->type == EFFECT_JOB_FULL)
                json_text_field(b, "status",
                                slice_str(e->state == JOB_FINISHED ? job_status_name(e->outcome)
                                          : e->state == JOB_LEASED ? "in-progress"
                                                                   : "pending"));
        if (e->type == EFFECT_JOB_FAIL || e->type == EFFECT_JOB_TIMEOUT)
                buf_printf(b, ",\"final\":%s", e->is_final ? "true" : "false");
        if (e->type == EFFECT_QUEUE_SET || e->type == EFFECT_QUEUE_FULL)
                buf_printf(b, ",\"paused\":%s", e->is_paused ? "true" : "false");
        if (e->type >= EFFECT_THING_SET && e->type <= EFFECT_THING_GONE) {
                json_text_field(b, "kind", slice_str(thing_ops(e->kind)->name));
                json_text_field(b, "name", e->name);
                json_text_field(b, "body", e->body);
        }
        if (e->type == EFFECT_ARCHIVED) {
                struct slice rest = e->text;
                uint64_t at = 0;
                const char *comma = "";
                buf_put_str(b, ",\"ids\":[");
                while (effect_next_id(&rest, &at)) {
                        buf_printf(b, "%s%llu", comma, (unsigned long long)at);
                        comma = ",";
                }
                buf_put_byte(b, ']');
        } else {
                json_text_field(b, "text", e->text);
        }
        buf_put_str(b, "}\n");
}
