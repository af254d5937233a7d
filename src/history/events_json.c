/* Events between their packed form (state/event.h) and the JSON of the history file.  The writer
 * side allocates nothing once its buffer has grown; the reader side runs once a listed row. */
#include "history/events_json.h"

#include <string.h>

#include "state/event.h"
#include "wire/json.h"

bool events_json_is_text(struct slice s)
{
        return s.len == 0 || (slice_is_utf8(s) && !memchr(s.ptr, '\0', s.len));
}

/* The last event of the plain list of events. */
static struct event plain_end(const struct job_view *v)
{
        struct event e = {EVENT_COMPLETED, v->finished_ms, v->worker, SLICE_NONE};
        if (v->status == JOB_FAILED) {
                e.type = EVENT_FAILED;
                e.message = v->error;
        } else if (v->status == JOB_CANCELED) {
                e.type = EVENT_CANCELED;
        }
        return e;
}

static struct event plain_start(const struct job_view *v)
{
        return (struct event){EVENT_STARTED, v->started_ms, v->worker, SLICE_NONE};
}

bool events_json_is_plain(const struct job_view *v)
{
        struct slice rest = v->events;
        struct event start = plain_start(v);
        struct event end = plain_end(v);
        if (v->started_ms > 0 && !event_skip(&rest, &start, v->created_ms))
                return false;
        return event_skip(&rest, &end, v->created_ms) && rest.len == 0;
}

/* The view of the file cannot make JSON of a blob. */
static bool is_plain_text(const struct job_view *v)
{
        return events_json_is_plain(v) && events_json_is_text(v->worker) &&
               events_json_is_text(plain_end(v).message);
}

static void put_text(struct buf *b, const char *key, const char *hex_key, struct slice s)
{
        if (!s.len)
                return;
        if (slice_is_utf8(s)) {
                json_put_key(b, key);
                json_put_text(b, s);
                return;
        }
        json_put_key(b, hex_key);
        buf_put_byte(b, '"');
        if (buf_reserve(b, s.len * 2)) {
                hex_from_bytes((const uint8_t *)s.ptr, s.len, b->ptr + b->len);
                b->len += s.len * 2;
        }
        buf_put_byte(b, '"');
}

static void put_event(struct buf *b, const struct event *e)
{
        json_put_comma(b);
        buf_put_byte(b, '{');
        json_put_key(b, "event");
        json_put_text(b, slice_str(event_name(e->type)));
        json_put_key(b, "at");
        buf_put_i64(b, e->wall_ms);
        put_text(b, "worker", "worker_hex", e->worker);
        put_text(b, "message", "message_hex", e->message);
        buf_put_byte(b, '}');
}

void events_json_write_all(struct buf *b, const struct job_view *v)
{
        struct slice rest = v->events;
        struct event e = {.type = EVENT_CREATED, .wall_ms = v->created_ms};
        buf_put_byte(b, '[');
        do
                put_event(b, &e);
        while (event_next(&rest, v->created_ms, &e));
        buf_put_byte(b, ']');
}

void events_json_write(struct buf *b, const struct job_view *v)
{
        if (!is_plain_text(v))
                events_json_write_all(b, v);
}

/* The text under `key`, or under `hex_key`, or nothing. */
static int get_text(const struct json_value *object, const char *key, const char *hex_key,
                    struct arena *arena, struct slice *ret)
{
        struct json_value value;
        *ret = SLICE_NONE;
        if (json_get(object, key, &value))
                return json_to_text(&value, arena, ret);
        if (!json_get(object, hex_key, &value))
                return OK;
        struct slice hex;
        int err = json_to_text(&value, arena, &hex);
        if (err)
                return err;
        uint8_t *bytes = arena_alloc(arena, hex.len / 2 + 1);
        if (!bytes)
                return ERR_NOMEM;
        if (hex.len % 2 || !slice_to_hex_bytes(hex, bytes, hex.len / 2))
                return ERR_CORRUPT;
        *ret = slice_make(bytes, hex.len / 2);
        return OK;
}

static int get_event(const struct json_value *object, struct arena *arena, struct event *ret)
{
        struct json_value value;
        struct slice name;
        if (!json_get(object, "event", &value))
                return ERR_CORRUPT;
        int err = json_to_text(&value, arena, &name);
        if (err)
                return err;
        int type = event_from_name(name);
        if (type < 0 || !json_get(object, "at", &value) || !json_to_i64(&value, &ret->wall_ms))
                return ERR_CORRUPT;
        ret->type = (enum event_type)type;
        err = get_text(object, "worker", "worker_hex", arena, &ret->worker);
        return err ? err : get_text(object, "message", "message_hex", arena, &ret->message);
}

static int pack_json(struct slice json, struct arena *arena, struct buf *b, int64_t created_ms)
{
        struct json_value root;
        struct json_value value;
        struct json_iter it = {0};
        struct problem ignored; /* the caller says which job it was */
        if (json_parse(json, 2, &root, &ignored) != OK || root.type != JSON_ARRAY)
                return ERR_CORRUPT;
        bool is_first = true;
        while (json_array_next(&root, &it, &value)) {
                struct event e;
                int err = get_event(&value, arena, &e);
                if (err)
                        return err == ERR_NOMEM ? err : ERR_CORRUPT;
                /* Packed events begin after the creation. */
                if (!is_first || e.type != EVENT_CREATED)
                        event_pack(b, &e, created_ms);
                is_first = false;
        }
        return OK;
}

int events_json_read(struct slice json, struct arena *arena, struct buf *scratch,
                     struct job_view *v)
{
        v->events = SLICE_NONE;
        buf_clear(scratch);
        if (json.len) {
                int err = pack_json(json, arena, scratch, v->created_ms);
                if (err)
                        return err;
        } else {
                struct event e = plain_start(v);
                if (v->started_ms > 0)
                        event_pack(scratch, &e, v->created_ms);
                e = plain_end(v);
                event_pack(scratch, &e, v->created_ms);
        }
        if (scratch->failed)
                return ERR_NOMEM;
        if (!scratch->len)
                return OK;
        struct slice packed = arena_copy(arena, buf_slice(scratch));
        if (!packed.ptr)
                return ERR_NOMEM;
        v->events = packed;
        return OK;
}
