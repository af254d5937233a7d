/* The tape: one byte for what was said, then its value.
 *
 *      INTEGER                zigzag varint
 *      TEXT, PAYLOAD          varint length, bytes
 *      KEY, WRAP              varint length, bytes and a NUL that the length counts
 *      LIST, MAP, RECORD      varint count
 *      NIL NO YES OK END      nothing
 *
 * Keys carry their NUL because a reply takes C strings: so they are played from where they lie,
 * without a copy.  What is said is kept, not how it was sent, so an answer given over RESP2 can be
 * given again in RESP3 or JSON.
 *
 * A tape comes from the log, so it is walked once before a word of it is said: a reply that has
 * begun cannot be taken back.  Numbers of the codes are on disk: append new ones, never reuse. */
#include "core/answer_tape.h"

#include "base/bytes.h"

/* Containers inside each other; the encoders have as many bits. */
#define DEPTH_MAX 32

enum code {
        CODE_END,
        CODE_NIL,
        CODE_NO,
        CODE_YES,
        CODE_INTEGER,
        CODE_TEXT,
        CODE_PAYLOAD,
        CODE_OK,
        CODE_LIST,
        CODE_MAP,
        CODE_RECORD,
        CODE_KEY,
        CODE_WRAP,
};

/* --- recording ------------------------------------------------------------------------------ */

static struct tape *of(struct reply *r)
{
        return CONTAINER_OF(r, struct tape, reply);
}

static struct buf *put_code(struct reply *r, enum code code)
{
        struct buf *b = of(r)->bytes;
        buf_put_byte(b, (char)code);
        return b;
}

static void put_name(struct reply *r, enum code code, const char *name)
{
        buf_put_lv(put_code(r, code), slice_make(name, strlen(name) + 1));
}

static void record_null(struct reply *r)
{
        (void)put_code(r, CODE_NIL);
        reply_null(of(r)->to);
}

static void record_boolean(struct reply *r, bool v)
{
        (void)put_code(r, v ? CODE_YES : CODE_NO);
        reply_bool(of(r)->to, v);
}

static void record_integer(struct reply *r, int64_t v)
{
        uint64_t bits = (uint64_t)v;
        buf_put_varint(put_code(r, CODE_INTEGER), (bits << 1) ^ (v < 0 ? UINT64_MAX : 0));
        reply_int(of(r)->to, v);
}

static void record_text(struct reply *r, struct slice v)
{
        buf_put_lv(put_code(r, CODE_TEXT), v);
        reply_text(of(r)->to, v);
}

static void record_payload(struct reply *r, struct slice v)
{
        buf_put_lv(put_code(r, CODE_PAYLOAD), v);
        reply_payload(of(r)->to, v);
}

static void record_ok(struct reply *r)
{
        (void)put_code(r, CODE_OK);
        reply_ok(of(r)->to);
}

static void record_list(struct reply *r, size_t n)
{
        buf_put_varint(put_code(r, CODE_LIST), n);
        reply_list(of(r)->to, n);
}

static void record_map(struct reply *r, size_t n)
{
        buf_put_varint(put_code(r, CODE_MAP), n);
        reply_map(of(r)->to, n);
}

static void record_record(struct reply *r, size_t n)
{
        buf_put_varint(put_code(r, CODE_RECORD), n);
        reply_record(of(r)->to, n);
}

static void record_key(struct reply *r, const char *name)
{
        put_name(r, CODE_KEY, name);
        reply_key(of(r)->to, name);
}

static void record_end(struct reply *r)
{
        (void)put_code(r, CODE_END);
        reply_end(of(r)->to);
}

static void record_error(struct reply *r, const struct problem *problem)
{
        of(r)->is_error = true;
        of(r)->problem = *problem;
        reply_error(of(r)->to, problem);
}

static void record_wrap(struct reply *r, const char *name)
{
        put_name(r, CODE_WRAP, name);
        reply_wrap(of(r)->to, name);
}

#define RECORD_OPS                                                                                 \
        .null = record_null, .boolean = record_boolean, .integer = record_integer,                 \
        .text = record_text, .payload = record_payload, .ok = record_ok, .list = record_list,      \
        .map = record_map, .record = record_record, .key = record_key, .end = record_end,          \
        .error = record_error, .wrap = record_wrap

/* The few commands that ask how they are heard are told the truth. */
static const struct reply_ops plain_ops = {RECORD_OPS};
static const struct reply_ops named_ops = {RECORD_OPS, .has_names = true};

void tape_init(struct tape *t, struct reply *to, struct buf *bytes)
{
        const struct reply_ops *ops = to->ops->has_names ? &named_ops : &plain_ops;
        *t = (struct tape){.reply = {ops}, .to = to, .bytes = bytes};
}

/* --- playing -------------------------------------------------------------------------------- */

/* One thing said.  num: INTEGER, or the count of a container. */
struct step {
        enum code code;
        uint64_t num;
        struct slice text;
};

static bool is_name(struct slice s)
{
        return s.len > 0 && memchr(s.ptr, '\0', s.len) == s.ptr + s.len - 1;
}

/* False: the bytes are no step. */
static bool next_step(struct reader *r, struct step *ret)
{
        *ret = (struct step){.code = (enum code)reader_u8(r)};
        switch (ret->code) {
        case CODE_END:
        case CODE_NIL:
        case CODE_NO:
        case CODE_YES:
        case CODE_OK:
                return !r->failed;
        case CODE_INTEGER:
        case CODE_LIST:
        case CODE_MAP:
        case CODE_RECORD:
                ret->num = reader_varint(r);
                return !r->failed;
        case CODE_TEXT:
        case CODE_PAYLOAD:
                ret->text = reader_lv(r);
                return !r->failed;
        case CODE_KEY:
        case CODE_WRAP:
                ret->text = reader_lv(r);
                return !r->failed && is_name(ret->text);
        }
        return false;
}

/* What a container that is open still wants. */
struct frame {
        uint64_t left; /* values */
        bool has_keys, is_key_said;
};

/* Whether this step may come here; keeps the frames up to date. */
static bool follows(const struct step *step, struct frame *frames, size_t *depth, bool is_first)
{
        struct frame *f = &frames[*depth];
        if (step->code == CODE_WRAP)
                return is_first;
        if (step->code == CODE_END) {
                bool is_full = *depth > 0 && f->left == 0 && !f->is_key_said;
                *depth -= is_full;
                return is_full;
        }
        if (f->left == 0 || (step->code == CODE_KEY && (!f->has_keys || f->is_key_said)))
                return false;
        if (step->code == CODE_KEY) {
                f->is_key_said = true;
                return true;
        }
        if (f->has_keys && !f->is_key_said)
                return false;
        f->is_key_said = false;
        f->left--;
        if (step->code != CODE_LIST && step->code != CODE_MAP && step->code != CODE_RECORD)
                return true;
        if (++*depth == DEPTH_MAX)
                return false;
        frames[*depth] = (struct frame){.left = step->num, .has_keys = step->code != CODE_LIST};
        return true;
}

/* One whole value, perhaps wrapped, and nothing behind it. */
static bool is_tape(struct slice bytes)
{
        struct reader r = reader_make(bytes);
        struct frame frames[DEPTH_MAX] = {{.left = 1}};
        struct step step;
        size_t depth = 0;
        for (bool is_first = true; reader_left(&r); is_first = false)
                if (!next_step(&r, &step) || !follows(&step, frames, &depth, is_first))
                        return false;
        return depth == 0 && frames[0].left == 0;
}

static void say(const struct step *step, struct reply *to)
{
        switch (step->code) {
        case CODE_END:
                reply_end(to);
                break;
        case CODE_NIL:
                reply_null(to);
                break;
        case CODE_NO:
        case CODE_YES:
                reply_bool(to, step->code == CODE_YES);
                break;
        case CODE_INTEGER:
                reply_int(to, (int64_t)(step->num >> 1 ^ (step->num & 1 ? UINT64_MAX : 0)));
                break;
        case CODE_TEXT:
                reply_text(to, step->text);
                break;
        case CODE_PAYLOAD:
                reply_payload(to, step->text);
                break;
        case CODE_OK:
                reply_ok(to);
                break;
        case CODE_LIST:
                reply_list(to, step->num);
                break;
        case CODE_MAP:
                reply_map(to, step->num);
                break;
        case CODE_RECORD:
                reply_record(to, step->num);
                break;
        case CODE_KEY:
                reply_key(to, step->text.ptr);
                break;
        case CODE_WRAP:
                reply_wrap(to, step->text.ptr);
                break;
        }
}

bool tape_play(struct slice bytes, struct reply *to)
{
        struct reader r = reader_make(bytes);
        struct step step;
        if (!is_tape(bytes))
                return false;
        while (reader_left(&r) && next_step(&r, &step))
                say(&step, to);
        return true;
}
