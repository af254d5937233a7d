/* The stream of events for the page.
 *
 * Once a second, while there are listeners: the events of the gate since the last time and the
 * answer of NOW are composed once, and the same bytes go to all listeners.
 *
 *      id: 1794732660000-17
 *      event: event
 *      data: {"at_ms":...,"event":"...","message":"..."}
 *
 *      id: 1794732660000-17
 *      event: now
 *      data: {...}
 *
 * The id is the time at which this weir was started and the number of events that the listener
 * knows.  A browser that lost the connection repeats it in Last-Event-ID and gets the events it
 * missed, as far as weir still has them; after a restart of weir it gets all.  A number alone would
 * mean another event after a restart.
 *
 * Like any reply, a frame leaves when the batch that it reports is durable.
 *
 * A listener that does not read is dropped past STREAM_UNSENT_MAX; a browser then connects again.
 * The kernel's buffer is kept small, or it would hide megabytes of unread output.  Events that come
 * faster than STREAM_EVENTS_MAX a second are left out from the oldest on; /v1/throttle/history has
 * them.
 *
 * Cost: nothing without listeners; with some, one NOW a second and one copy for each. */
#include "door/stream.h"

#include <stdlib.h>

#include "base/say.h"
#include "door/door_int.h"
#include "door/json_reply.h"
#include "wire/json.h"

#define STREAM_RETRY_MS   2000
#define STREAM_SOCKET_MAX (64 * 1024)
#define STREAM_EVENTS_MAX 100

/* Apart from the connection, so that the many that do not listen are not larger for it. */
struct stream_listener {
        struct list link; /* stream.listeners */
        struct conn *conn;
        bool has_login;
        struct secret login;
};

/* --- composing ------------------------------------------------------------------------------ */

static void put_id(const struct server *s, struct buf *b, uint64_t number)
{
        buf_printf(b, "id: %lld-%llu\n", (long long)s->started_ms, (unsigned long long)number);
}

/* A line break would end the data; in JSON one can only stand where a space may. */
static void put_data(struct buf *b, size_t from)
{
        while (b->len > from && b->ptr[b->len - 1] == '\n')
                b->len--;
        for (size_t i = from; i < b->len; i++)
                if (b->ptr[i] == '\n' || b->ptr[i] == '\r')
                        b->ptr[i] = ' ';
        buf_put_str(b, "\n\n");
}

struct telling {
        const struct server *server;
        struct buf *to;
};

static void put_event(void *ctx, const struct core_event *e)
{
        const struct telling *t = ctx;
        struct buf *b = t->to;
        put_id(t->server, b, e->number + 1);
        buf_put_str(b, "event: event\ndata: ");
        size_t from = b->len;
        buf_put_byte(b, '{');
        json_put_key(b, "at_ms");
        buf_put_i64(b, e->at_ms);
        json_put_key(b, "event");
        json_put_text_lossy(b, slice_str(e->name));
        json_put_key(b, "message");
        json_put_text_lossy(b, slice_str(e->text));
        buf_put_byte(b, '}');
        put_data(b, from);
}

static uint64_t put_events(struct server *s, struct buf *b, uint64_t from)
{
        struct telling t = {s, b};
        uint64_t n = core_n_events(s->core);
        if (n - from > STREAM_EVENTS_MAX)
                from = n - STREAM_EVENTS_MAX;
        core_each_event(s->core, from, n, put_event, &t);
        return n;
}

static void put_now(struct server *s, struct buf *b)
{
        struct stream *stream = &s->stream;
        struct json_reply reply;
        size_t begin = b->len;
        put_id(s, b, stream->told);
        buf_put_str(b, "event: now\ndata: ");
        size_t from = b->len;
        arena_clear(&s->arena);
        command_init(&s->command, command_find(SLICE_LIT("NOW")));
        json_reply_init(&reply, b);
        int r = command_finish(&s->command, &s->arena, &s->problem);
        if (r == OK)
                r = core_exec(s->core, &stream->session, &s->command, &reply.reply, &s->problem);
        ASSERT(r != CORE_LATER); /* NOW has nothing to wait for */
        if (r != OK || reply.err != OK) {
                b->len = begin;
                return;
        }
        json_reply_finish(&reply);
        put_data(b, from);
}

/* --- listeners ------------------------------------------------------------------------------ */

/* "1794732660000-17".  False: nothing we have given. */
static bool read_id(const struct server *s, struct slice id, uint64_t *ret)
{
        int64_t started_ms;
        const char *dash = id.len ? memchr(id.ptr, '-', id.len) : NULL;
        if (!dash || !slice_to_i64(slice_make(id.ptr, (size_t)(dash - id.ptr)), &started_ms) ||
            !slice_to_u64(slice_make(dash + 1, (size_t)(id.ptr + id.len - dash) - 1), ret))
                return false;
        if (started_ms != s->started_ms)
                *ret = 0; /* of another life of weir: it knows nothing of this one */
        return true;
}

void stream_join(struct server *s, struct conn *c, struct slice last_id,
                 const struct login_session *login)
{
        struct stream *stream = &s->stream;
        struct buf *out = conn_out(c);
        uint64_t known, n = core_n_events(s->core);
        int size = STREAM_SOCKET_MAX;
        (void)uv_send_buffer_size(&c->uv.handle, &size); /* without it: dropped later */
        if (stream->n == 0) {
                stream->told = n;
                stream->beats = 0;
                loop_timer_start(&stream->timer, STREAM_BEAT_MS, STREAM_BEAT_MS);
        }
        buf_printf(out, "retry: %d\n\n", STREAM_RETRY_MS);
        if (read_id(s, last_id, &known)) {
                /* What the others get at the next beat comes to this one then, too. */
                struct telling t = {s, out};
                if (stream->told > STREAM_EVENTS_MAX && known < stream->told - STREAM_EVENTS_MAX)
                        known = stream->told - STREAM_EVENTS_MAX;
                core_each_event(s->core, known, stream->told, put_event, &t);
        }
        put_now(s, out);
        conn_listen(c);
        conn_replied(c, core_reply_seq(s->core));
        struct stream_listener *l = xcalloc(1, sizeof(*l));
        l->conn = c;
        l->has_login = login != NULL;
        if (login)
                l->login = login->id;
        list_push_back(&stream->listeners, &l->link);
        stream->n++;
}

void stream_leave(struct server *s, const struct conn *c)
{
        LIST_FOREACH(&s->stream.listeners, it)
        {
                struct stream_listener *l = CONTAINER_OF(it, struct stream_listener, link);
                if (l->conn != c)
                        continue;
                list_remove(&l->link);
                free(l);
                s->stream.n--;
        }
        if (s->stream.n == 0)
                loop_timer_stop(&s->stream.timer);
}

static void feed(struct server *s, struct stream_listener *l, uint64_t seq)
{
        struct conn *c = l->conn;
        if (c->is_closing)
                return;
        if (l->has_login && !login_touch(&s->login, &l->login, s->loop->now.steady_ns)) {
                conn_stop(c);
                return;
        }
        if (conn_unsent(c) > STREAM_UNSENT_MAX) {
                s->counter[DOOR_CUT]++;
                say_info("door", "a live listener does not read, closing it", "connection",
                         SAY_I64(conn_id(c)));
                conn_close(c);
                return;
        }
        buf_put_slice(conn_out(c), buf_slice(&s->stream.frame));
        conn_replied(c, seq);
}

static void on_beat(void *ctx)
{
        struct server *s = ctx;
        struct stream *stream = &s->stream;
        buf_clear(&stream->frame);
        if (++stream->beats % STREAM_HELLO == 0)
                buf_put_str(&stream->frame, ": still here\n\n");
        stream->told = put_events(s, &stream->frame, stream->told);
        put_now(s, &stream->frame);
        if (stream->frame.failed)
                return; /* memory is out: another second, another try */
        uint64_t seq = core_reply_seq(s->core);
        LIST_FOREACH(&stream->listeners, it)
        feed(s, CONTAINER_OF(it, struct stream_listener, link), seq);
}

/* --- life ----------------------------------------------------------------------------------- */

void stream_init(struct server *s)
{
        struct stream *stream = &s->stream;
        list_init(&stream->listeners);
        buf_init(&stream->frame, 0);
        session_init(&stream->session, NULL); /* no reply ever comes late */
        loop_timer_init(s->loop, &stream->timer, on_beat, s);
}

void stream_release(struct server *s)
{
        ASSERT(s->stream.n == 0);
        session_release(s->core, &s->stream.session);
        buf_release(&s->stream.frame);
}

void stream_check(const struct server *s)
{
        size_t n = 0;
        LIST_FOREACH(&s->stream.listeners, it)
        n++;
        ASSERT(n == s->stream.n && n <= LIMIT_LIVE);           /* (1) */
        ASSERT(loop_timer_is_on(&s->stream.timer) == (n > 0)); /* (2) */
        ASSERT(s->stream.told <= core_n_events(s->core));      /* (3) */
}
