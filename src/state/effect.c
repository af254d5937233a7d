/* Effects as bytes, made from the rows of effect_map.h: a writer and a reader for each, and a table
 * of fields for what need not be fast. */
#include "state/effect.h"

#include "state/field.h"
#include "state/thing.h"
#include "wire/json.h"

_Static_assert(JOB_TOKEN_BYTES == FIELD_TOKEN_BYTES, "a token is a field");

/* ---- types of fields that only effects have; see field.h for the others ---- */

enum { MARK_KEEP = 1, MARK_FINAL = 2 };

static uint8_t marks_of(const struct effect *e)
{
        return (e->keep ? MARK_KEEP : 0) | (e->is_final ? MARK_FINAL : 0);
}

static void get_marks(struct reader *r, struct effect *e)
{
        uint8_t marks = get_u8_max(r, MARK_KEEP | MARK_FINAL);
        e->keep = marks & MARK_KEEP;
        e->is_final = marks & MARK_FINAL;
}

static uint8_t get_gate(struct reader *r)
{
        uint8_t v = get_u8_max(r, PARKED_HOW_ALL << PARK_HOW_SHIFT | PARK_STEP_MASK);
        if ((v & PARK_STEP_MASK) >= PARK_STEPS)
                r->failed = true;
        return v;
}

/* Ids are in the order in which jobs ended, so differences may be negative: zigzag. */
static void put_ids(struct buf *b, const uint64_t *ids, size_t n)
{
        uint64_t last = 0;
        buf_put_varint(b, n);
        for (size_t i = 0; i < n; i++) {
                int64_t d = (int64_t)(ids[i] - last);
                buf_put_varint(b, ((uint64_t)d << 1) ^ (uint64_t)(d >> 63));
                last = ids[i];
        }
}

/* They stay packed, in e->text. */
static void get_ids(struct reader *r, struct effect *e)
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

#define PUT_PACKED(b, o, at) buf_put_lv(b, (o)->at)
#define GET_PACKED(r, o, at) (o)->at = reader_lv(r)
#define PUT_MARKS(b, o, at)  buf_put_byte(b, (char)marks_of(o))
#define GET_MARKS(r, o, at)  get_marks(r, o)
#define PUT_STATE(b, o, at)  buf_put_byte(b, (char)(o)->at)
#define GET_STATE(r, o, at)  (o)->at = reader_u8(r) /* is_sound_full() looks at it */
#define PUT_KIND(b, o, at)   buf_put_byte(b, (char)(o)->at)
#define GET_KIND(r, o, at)   (o)->at = get_u8_max(r, THING_KINDS - 1)
#define PUT_GATE(b, o, at)   buf_put_byte(b, (char)(o)->at)
#define GET_GATE(r, o, at)   (o)->at = get_gate(r)
#define PUT_KEPT(b, o, at)   buf_put_varint(b, (o)->at)
#define GET_KEPT(r, o, at)   (o)->at = (uint16_t)get_max(r, JOB_EVENTS_KEPT)
#define PUT_IDS(b, o, at)    put_ids(b, (o)->at, (o)->n_ids)
#define GET_IDS(r, o, at)    get_ids(r, o)

/* ---- one writer, one reader and one list of fields per effect ---- */

/* Is the field in the record?  A new record has everything of the newest version. */
#define WRITES_ALWAYS(e) true
#define WRITES_V2(e)     true
#define WRITES_MORE(e)   (e)->has_more
#define READS_ALWAYS(e)  true
#define READS_V2(e)      ((e)->version >= 2)
#define READS_MORE(e)    (e)->has_more

#define WRITE(type, at, when, label, says)                                                         \
        if (WRITES_##when(o)) {                                                                    \
                PUT_##type(b, o, at);                                                              \
        }
#define READ(type, at, when, label, says)                                                          \
        if (READS_##when(o)) {                                                                     \
                GET_##type(r, o, at);                                                              \
        }
#define ROW(type, at, when, label, says)                                                           \
        {label, says, FIELD_TYPE_##type, WHEN_##when, offsetof(struct effect, at)},

#define X(NAME, name, subject, text)                                                               \
        static void name##_write(struct buf *b, const struct effect *o)                            \
        {                                                                                          \
                NAME##_FIELDS(WRITE)                                                               \
        }                                                                                          \
        static void name##_read(struct reader *r, struct effect *o)                                \
        {                                                                                          \
                NAME##_FIELDS(READ)                                                                \
        }                                                                                          \
        static const struct field name##_fields[] = {NAME##_FIELDS(ROW)};
EFFECT_MAP(X)
#undef X

static const struct effect_row {
        const char *name, *text;
        void (*write)(struct buf *b, const struct effect *e);
        void (*read)(struct reader *r, struct effect *e);
        const struct field *fields;
        size_t n_fields;
} effect_rows[EFFECT_COUNT] = {
#define X(NAME, name, subject, text)                                                               \
        [EFFECT_##NAME] = {#name,       text,          name##_write,                               \
                           name##_read, name##_fields, ARRAY_LEN(name##_fields)},
        EFFECT_MAP(X)
#undef X
};

const char *effect_name(enum effect_type type)
{
        return type > EFFECT_NONE && type < EFFECT_COUNT ? effect_rows[type].name : "unknown";
}

const char *effect_text(enum effect_type type)
{
        ASSERT(type > EFFECT_NONE && type < EFFECT_COUNT);
        return effect_rows[type].text;
}

const struct field *effect_fields(enum effect_type type, size_t *ret_n)
{
        ASSERT(type > EFFECT_NONE && type < EFFECT_COUNT);
        *ret_n = effect_rows[type].n_fields;
        return effect_rows[type].fields;
}

void effect_write(struct buf *batch, const struct effect *e)
{
        ASSERT(e->type > EFFECT_NONE && e->type < EFFECT_COUNT);
        size_t at = record_begin(batch, (uint8_t)e->type, EFFECT_VERSION);
        effect_rows[e->type].write(batch, e);
        record_end(batch, at);
}

/* Does the record keep what state/job.h promises of a job in that state? */
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

/* What a full record says of a job, for those who make a job of an effect. */
static void take_view(struct effect *e)
{
        const struct job_view *v = &e->view;
        e->id = v->id;
        e->due_ms = v->due_ms;
        e->priority = v->priority;
        e->attempts = v->attempts_max;
        e->timeout_ms = v->timeout_ms;
        e->queue = v->queue;
        e->hook = v->hook;
        e->group = v->group;
        e->args = v->args;
        e->options = v->options;
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
        bool is_sound = !r.failed && !reader_left(&r);
        if (ret->type == EFFECT_JOB_FULL || ret->type == EFFECT_JOB_BACK) {
                take_view(ret);
                is_sound = is_sound && is_sound_full(ret);
        }
        if (!is_sound)
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

/* ---- as text ---- */

static void put_json_text(struct buf *b, const char *key, struct slice s)
{
        if (!s.len)
                return;
        buf_printf(b, ",\"%s\":", key);
        json_put_text_lossy(b, s);
}

static void put_json_number(struct buf *b, const char *key, uint64_t v)
{
        if (v)
                buf_printf(b, ",\"%s\":%lld", key, (long long)v);
}

static void put_json_bool(struct buf *b, const char *key, bool v)
{
        buf_printf(b, ",\"%s\":%s", key, v ? "true" : "false");
}

static void put_json_ids(struct buf *b, struct slice rest)
{
        uint64_t at = 0;
        const char *comma = "";
        buf_put_str(b, ",\"ids\":[");
        for (; effect_next_id(&rest, &at); comma = ",")
                buf_printf(b, "%s%llu", comma, (unsigned long long)at);
        buf_put_byte(b, ']');
}

static const char *status_text(const struct effect *e)
{
        return e->state == JOB_FINISHED ? job_status_name(e->outcome)
               : e->state == JOB_LEASED ? job_status_name(JOB_RUNNING)
                                        : job_status_name(JOB_PENDING);
}

/* Numbers of 0 and empty texts are left out, and so are packed bytes. */
static void put_json_field(struct buf *b, const struct effect *e, const struct field *f)
{
        const void *at = (const char *)e + f->at;
        char hex[2 * FIELD_TOKEN_BYTES];
        switch ((enum field_type)f->type) {
        case FIELD_TYPE_U8:
        case FIELD_TYPE_GATE:
                put_json_number(b, f->key, *(const uint8_t *)at);
                break;
        case FIELD_TYPE_U16:
        case FIELD_TYPE_KEPT:
                put_json_number(b, f->key, *(const uint16_t *)at);
                break;
        case FIELD_TYPE_U32:
                put_json_number(b, f->key, *(const uint32_t *)at);
                break;
        case FIELD_TYPE_NUM:
        case FIELD_TYPE_FENCE:
        case FIELD_TYPE_TIME:
                put_json_number(b, f->key, *(const uint64_t *)at);
                break;
        case FIELD_TYPE_BOOL:
                put_json_bool(b, f->key, *(const bool *)at);
                break;
        case FIELD_TYPE_MARKS:
                put_json_bool(b, "keep", e->keep);
                put_json_bool(b, "final", e->is_final);
                break;
        case FIELD_TYPE_TEXT:
                put_json_text(b, f->key, *(const struct slice *)at);
                break;
        case FIELD_TYPE_TOKEN:
                hex_from_bytes(at, FIELD_TOKEN_BYTES, hex);
                put_json_text(b, f->key, slice_make(hex, sizeof(hex)));
                break;
        case FIELD_TYPE_STATE:
                put_json_text(b, f->key, slice_str(status_text(e)));
                break;
        case FIELD_TYPE_KIND:
                put_json_text(b, f->key, slice_str(thing_kind_name(e->kind)));
                break;
        case FIELD_TYPE_IDS:
                put_json_ids(b, e->text);
                break;
        case FIELD_TYPE_PACKED:
        case FIELD_TYPE_OPTIONS:
        case FIELD_TYPE_SLOT:
        case FIELD_TYPE_DOUBLE: /* not in an effect */
        case FIELD_TYPE_COUNT:
                break;
        }
}

void effect_to_json(const struct effect *e, uint64_t seq, struct buf *b)
{
        const struct effect_row *row = &effect_rows[e->type];
        ASSERT(e->type > EFFECT_NONE && e->type < EFFECT_COUNT);
        buf_printf(b, "{\"seq\":%llu,\"type\":\"%s\"", (unsigned long long)seq, row->name);
        for (size_t i = 0; i < row->n_fields; i++)
                if (row->fields[i].when != WHEN_MORE || e->has_more)
                        put_json_field(b, e, &row->fields[i]);
        buf_put_str(b, "}\n");
}
