/* Connections.
 *
 * Input arrives in the server's one read buffer.  When nothing of an earlier read is left over,
 * requests run straight out of it, and only an unfinished rest is copied to the connection.  So
 * a busy connection costs one read call a turn and no copy, and an idle one holds no buffer.
 *
 * Output collects in one buffer, taken from the server's spares at the first byte and given back
 * when the last has left.  Bytes that report something not yet durable are held behind a mark.
 * A reply is thus never a separate object: holding back is one comparison for the whole run of
 * replies in a batch, and one write call sends them all.
 *
 * A peer that does not read: uv_try_write takes what the socket takes; the rest goes out in
 * copies of at most CONN_WRITE_CHUNK, so that taking a chunk counts as progress and the buffer
 * behind it may grow and move meanwhile.  Past LIMIT_OUTPUT_BYTES no more requests are run.  What
 * all connections hold together is counted as well; past the total the one that holds most is cut.
 *
 * Nothing here closes a connection from inside a call of the core: the core may be in the middle
 * of answering it.  Such a connection is put on `dirty` and falls when it is flushed. */
#include "door/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/duration.h"
#include "base/say.h"
#include "door/address.h"
#include "door/admit.h"
#include "door/conn_int.h"
#include "door/listen.h"

/* Pipelined input kept while a claim waits; reading on is how we see that the peer went away. */
#define WAIT_INPUT_MAX (64 * KIB)
/* One reply may be large (a claim of many large jobs), but not without end. */
#define OUT_MAX (256 * MIB)
/* The largest request, as chunks with their framing, and a read more. */
#define IN_MAX (2ULL * LIMIT_COMMAND_BYTES + 2 * SERVER_READ_BYTES)
_Static_assert(OUT_MAX < UINT32_MAX && IN_MAX < UINT32_MAX, "offsets of a connection fit");
#define LINGER_MS 2000
/* A deadline that is looked at so late was not looked at in time. */
#define ASLEEP_NS (50 * NS_PER_MS)
/* Moving the unsent rest down costs a copy; do it when at least as much is gone. */
#define COMPACT_BYTES (64 * KIB)
/* Output that is counted before it could leave: more than an answer usually has. */
#define COUNT_BYTES (64 * KIB)

static const int64_t deadline_ms[CONN_DEADLINE_COUNT] = {
        [CONN_DEADLINE_PREAUTH] = LIMIT_PREAUTH_MS,  [CONN_DEADLINE_REQUEST] = LIMIT_STALL_MS,
        [CONN_DEADLINE_TOKEN] = LIMIT_TOKEN_WAIT_MS, [CONN_DEADLINE_OUTPUT] = LIMIT_STALL_MS,
        [CONN_DEADLINE_LINGER] = LINGER_MS,          [CONN_DEADLINE_RELAY] = RELAY_WAIT_MS,
};

struct write {
        uv_write_t req;
        size_t len;
        char bytes[];
};

static const struct relay_ops *relay_ops(const struct conn *c)
{
        return c->server->relays.ops;
}

static void unlink_if(struct list *node)
{
        if (list_is_linked(node))
                list_remove(node);
}

static void count(struct conn *c, enum door_counter which, uint64_t n)
{
        c->server->counter[which] += n;
}

/* --- deadlines ------------------------------------------------------------------------------ */

static void deadline_clear(struct conn *c)
{
        unlink_if(&c->time_link);
        c->deadline = CONN_DEADLINE_NONE;
}

static void deadline_start(struct conn *c, enum conn_deadline kind)
{
        struct server *s = c->server;
        deadline_clear(c);
        c->deadline = (uint8_t)kind;
        c->deadline_ns = s->loop->boot_ns + deadline_ms[kind] * NS_PER_MS;
        list_push_back(&s->deadlines[kind], &c->time_link);
        loop_timer_hasten(&s->deadline_timer, deadline_ms[kind]);
}

static void on_deadline(void *ctx)
{
        struct server *s = ctx;
        int64_t next_ns = INT64_MAX;
        for (size_t i = 0; i < CONN_DEADLINE_COUNT; i++) {
                struct list *head = &s->deadlines[i];
                while (!list_is_empty(head)) {
                        struct conn *c = CONTAINER_OF(head->next, struct conn, time_link);
                        if (c->deadline_ns > s->loop->boot_ns) {
                                if (c->deadline_ns < next_ns)
                                        next_ns = c->deadline_ns;
                                break;
                        }
                        conn_cut(c);
                }
        }
        if (next_ns != INT64_MAX)
                loop_timer_start(&s->deadline_timer,
                                 (next_ns - s->loop->boot_ns + NS_PER_MS - 1) / NS_PER_MS, 0);
}

void conn_deadlines_init(struct server *s)
{
        for (size_t i = 0; i < CONN_DEADLINE_COUNT; i++)
                list_init(&s->deadlines[i]);
        loop_timer_init(s->loop, &s->deadline_timer, on_deadline, s);
}

/* The client has sent something, and it is weir that is behind: it slept past the deadline, or
 * cannot run commands now.  A drip of bytes does not make a deadline longer. */
static bool is_kept_waiting(const struct conn *c)
{
        const struct server *s = c->server;
        int fd, n = 0;
        if (c->in.len > c->in_at && core_is_congested(s->core))
                return true;
        if (s->loop->boot_ns - c->deadline_ns < ASLEEP_NS)
                return false;
        return uv_fileno(&c->uv.handle, &fd) == 0 && ioctl(fd, FIONREAD, &n) == 0 && n > 0;
}

void conn_cut(struct conn *c)
{
        enum conn_deadline kind = c->deadline;
        struct problem p;
        char text[DURATION_TEXT_MAX];
        deadline_clear(c);
        if (kind == CONN_DEADLINE_TOKEN) {
                c->is_held_back = false;
                conn_make_dirty(c);
                return;
        }
        if (kind == CONN_DEADLINE_RELAY) {
                relay_ops(c)->give_up(c);
                return;
        }
        if (kind == CONN_DEADLINE_PREAUTH && is_kept_waiting(c)) {
                deadline_start(c, kind);
                return;
        }
        if (kind != CONN_DEADLINE_LINGER)
                count(c, DOOR_CUT, 1);
        if (kind == CONN_DEADLINE_PREAUTH) {
                (void)problem_set(&p, ERR_NOAUTH, "not authenticated within %s",
                                  duration_words(LIMIT_PREAUTH_MS, text));
        } else if (kind == CONN_DEADLINE_REQUEST) {
                (void)problem_set(&p, ERR_TIMEOUT, "the request was not complete within %s",
                                  duration_words(LIMIT_STALL_MS, text));
        } else {
                conn_close(c);
                return;
        }
        c->door->refuse(c, &p);
        conn_finish(c, false);
}

/* --- memory --------------------------------------------------------------------------------- */

/* After its buffers may have changed.  The smallest key comes first, hence the complement. */
static void count_memory(struct conn *c)
{
        struct server *s = c->server;
        size_t relayed = conn_relay(c) ? relay_ops(c)->bytes(c) : 0;
        size_t now = c->is_closed ? 0 : c->in.cap + c->out.cap + c->writing + relayed;
        if (now == c->held_bytes)
                return;
        s->counter[DOOR_CLIENT_BYTES] += now - c->held_bytes; /* may wrap on the way: unsigned */
        use_count_bytes(c, now - c->held_bytes);
        c->held_bytes = (uint32_t)now;
        if (now && heap_has(&c->weight))
                heap_update(&s->heavy, &c->weight, UINT64_MAX - now);
        else if (now)
                heap_push(&s->heavy, &c->weight, UINT64_MAX - now);
        else if (heap_has(&c->weight))
                heap_remove(&s->heavy, &c->weight);
}

static void say_heavy(struct conn *c)
{
        struct server *s = c->server;
        uint64_t n = muffle_count(&s->heavy_said, s->loop->now.steady_ns);
        if (n)
                say_warn("door", "clients hold too much memory, cutting the heaviest", "address",
                         c->session.address, "door", c->door->name, "connection",
                         SAY_I64(conn_id(c)), "held", SAY_I64(c->held_bytes), "unsent",
                         SAY_I64(conn_unsent(c)), "all", SAY_I64(s->counter[DOOR_CLIENT_BYTES]),
                         "client_memory", SAY_I64(s->client_bytes_max), "cut", SAY_I64(n));
}

void conn_cut_heavy(struct conn *c)
{
        struct problem p;
        count(c, DOOR_CUT_MEMORY, 1);
        say_heavy(c);
        (void)problem_set(&p, ERR_LIMIT,
                          "all clients together hold more than client_memory (%llu bytes), and "
                          "this request is the largest",
                          (unsigned long long)c->server->client_bytes_max);
        conn_cut_for(c, &p);
}

/* A peer that does not read cannot be told; one that is sending can. */
void conn_cut_for(struct conn *c, const struct problem *why)
{
        if (c->is_closing || conn_relay(c) || session_is_waiting(&c->session) ||
            conn_unsent(c) >= c->in.len - c->in_at) {
                conn_close(c);
                return;
        }
        c->door->refuse(c, why);
        buf_release(&c->in);
        c->in_at = c->need = 0;
        conn_finish(c, true);
        count_memory(c);
}

/* --- output --------------------------------------------------------------------------------- */

size_t conn_unsent(const struct conn *c)
{
        return c->out.len - c->sent + c->writing;
}

struct buf *conn_out(struct conn *c)
{
        if (!c->out.cap) {
                c->out = server_take_buf(c->server);
                c->out.max = OUT_MAX;
                c->sent = c->ready = 0;
        }
        return &c->out;
}

void conn_make_dirty(struct conn *c)
{
        if (c->is_closed)
                return;
        unlink_if(&c->out_link);
        list_push_back(&c->server->dirty, &c->out_link);
}

void conn_replied(struct conn *c, uint64_t seq)
{
        struct conn_mark *last = c->n_marks ? &c->marks[c->n_marks - 1] : NULL;
        if (!last && seq <= c->server->loop->durable_seen) {
                c->ready = c->out.len;
        } else if (last && (last->seq >= seq || c->n_marks == CONN_MARKS)) {
                last->end = c->out.len;
                if (last->seq < seq)
                        last->seq = seq;
        } else {
                c->marks[c->n_marks++] = (struct conn_mark){seq, c->out.len};
        }
        if (!list_is_linked(&c->out_link) || c->out.failed)
                conn_make_dirty(c);
}

/* One that is in the round already keeps its place. */
void conn_resume(struct conn *c)
{
        if (!list_is_linked(&c->run_link))
                list_push_back(&c->server->resumed, &c->run_link);
}

void conn_replied_late(struct conn *c, uint64_t seq)
{
        conn_replied(c, seq);
        conn_resume(c);
}

static void on_written(uv_write_t *req, int status)
{
        struct conn *c = req->data;
        struct write *w = CONTAINER_OF(req, struct write, req);
        size_t n = w->len;
        free(w);
        if (c->is_closed)
                return;
        loop_turn_begin(c->server->loop);
        if (status < 0) {
                conn_close(c);
                return;
        }
        count(c, DOOR_BYTES_OUT, n);
        c->writing -= (uint32_t)n;
        if (c->deadline == CONN_DEADLINE_OUTPUT)
                deadline_clear(c);
        if (c->writing && c->deadline == CONN_DEADLINE_NONE && !c->is_listening)
                deadline_start(c, CONN_DEADLINE_OUTPUT);
        conn_make_dirty(c);
        conn_resume(c); /* an unfinished request gets its own deadline back */
}

/* The socket is full: let libuv wait for it. */
void conn_write_later(struct conn *c, const char *bytes, size_t n)
{
        struct write *w = malloc(sizeof(*w) + n);
        if (!w) {
                conn_close(c);
                return;
        }
        memcpy(w->bytes, bytes, n);
        w->len = n;
        w->req.data = c;
        uv_buf_t b = uv_buf_init(w->bytes, (unsigned)n);
        if (uv_write(&w->req, &c->uv.stream, &b, 1, on_written) < 0) {
                free(w);
                conn_close(c);
                return;
        }
        c->writing += (uint32_t)n;
        if (c->deadline != CONN_DEADLINE_PREAUTH && c->deadline != CONN_DEADLINE_RELAY &&
            !c->is_listening)
                deadline_start(c, CONN_DEADLINE_OUTPUT);
}

static void write_ready(struct conn *c)
{
        if (c->tls) {
                conn_tls_write(c);
                return;
        }
        uv_buf_t b = uv_buf_init(c->out.ptr + c->sent, 0);
        b.len = c->ready - c->sent;
        int n = uv_try_write(&c->uv.stream, &b, 1);
        if (n < 0 && n != UV_EAGAIN) {
                conn_close(c);
                return;
        }
        if (n > 0) {
                c->sent += (size_t)n;
                count(c, DOOR_BYTES_OUT, (uint64_t)n);
        }
        size_t rest = c->ready - c->sent;
        if (rest > CONN_WRITE_CHUNK)
                rest = CONN_WRITE_CHUNK;
        if (rest) {
                c->sent += rest;
                conn_write_later(c, c->out.ptr + c->sent - rest, rest);
        }
}

static void pass_marks(struct conn *c)
{
        unsigned passed = 0;
        while (passed < c->n_marks && c->marks[passed].seq <= c->server->loop->durable_seen)
                c->ready = c->marks[passed++].end;
        if (!passed)
                return;
        c->n_marks = (uint8_t)(c->n_marks - passed);
        memmove(c->marks, c->marks + passed, c->n_marks * sizeof(c->marks[0]));
}

static void shrink_output(struct conn *c)
{
        if (c->sent == c->out.len) {
                server_give_buf(c->server, &c->out);
                c->sent = c->ready = 0;
        } else if (c->sent >= COMPACT_BYTES && c->sent >= c->out.len / 2) {
                buf_drop_front(&c->out, c->sent);
                for (unsigned i = 0; i < c->n_marks; i++)
                        c->marks[i].end -= c->sent;
                c->ready -= c->sent;
                c->sent = 0;
        }
}

static void set_reading(struct conn *c, bool is_reading);

/* All output has left and no more will come. */
static void end_output(struct conn *c)
{
        int fd;
        if (c->tls)
                conn_tls_say_goodbye(c);
        if (!c->is_faulty || c->is_eof || uv_fileno(&c->uv.handle, &fd) < 0 ||
            shutdown(fd, SHUT_WR) < 0) {
                conn_close(c);
                return;
        }
        c->is_lingering = true;
        deadline_start(c, CONN_DEADLINE_LINGER);
        set_reading(c, true);
}

void conn_flush(struct conn *c)
{
        unlink_if(&c->out_link);
        if (c->is_closed || c->is_lingering)
                return;
        if (c->out.failed) {
                say_warn("door", "closing a connection: its reply is too large or memory is out",
                         "door", c->door->name, "connection", SAY_I64(conn_id(c)));
                conn_close(c);
                return;
        }
        if (c->server->is_held && c->has_state) { /* until the lease is certain */
                list_push_back(&c->server->held, &c->out_link);
                count_memory(c);
                return;
        }
        if (c->tls && conn_is_shaking(c)) { /* nothing can be said yet */
                count_memory(c);
                if (c->is_closing)
                        conn_close(c);
                return;
        }
        pass_marks(c);
        if (c->ready > c->sent && !c->writing && !c->is_held_back)
                write_ready(c);
        if (c->is_closed)
                return;
        if (c->n_marks)
                list_push_back(&c->server->held, &c->out_link);
        if (c->out.cap)
                shrink_output(c);
        count_memory(c);
        if (c->is_closing && conn_unsent(c) == 0 && !session_is_waiting(&c->session))
                end_output(c);
        else if (!c->is_reading && !c->is_closing && conn_unsent(c) < server_output_max(c->server))
                conn_resume(c);
        if (conn_relay(c))
                relay_ops(c)->flushed(c);
}

/* --- input ---------------------------------------------------------------------------------- */

static void begin_go(struct conn *c)
{
        (void)share_enter(&c->server->loop->share, &c->active_turn); /* counts it; that is all */
        if (!c->is_go_open)
                c->spent_commands = c->spent_bytes = 0;
        c->is_go_open = false;
        c->go_out = (uint32_t)c->out.len;
}

static bool has_used_share(const struct conn *c)
{
        const struct share *s = &c->server->loop->share;
        return c->spent_commands >= s->commands ||
               c->spent_bytes + (c->out.len - c->go_out) >= s->bytes;
}

static bool has_share(const struct conn *c)
{
        return !c->server->loop->share.is_over && !has_used_share(c);
}

/* It has input left: to the end of the round. */
static void wait_for_go(struct conn *c)
{
        if (list_is_linked(&c->run_link))
                return;
        c->is_go_open = !has_used_share(c);
        c->spent_bytes += (uint32_t)c->out.len - c->go_out;
        c->go_out = (uint32_t)c->out.len;
        list_push_back(&c->server->resumed, &c->run_link);
}

void conn_spend(struct conn *c, size_t bytes)
{
        struct share *s = &c->server->loop->share;
        c->spent_commands++;
        use_count_command(c);
        c->spent_bytes += (uint32_t)bytes; /* of a read, or LIMIT_COMMAND_BYTES */
        if (share_spend(s, bytes + (c->out.len - c->go_out) / c->spent_commands))
                share_look(s, uv_hrtime());
}

/* Something has to happen before its next request can run. */
static bool is_waiting(const struct conn *c)
{
        return session_is_waiting(&c->session) || c->is_stalled ||
               (c->has_state && c->server->is_held) ||
               (conn_relay(c) && relay_ops(c)->is_waiting(c));
}

/* Its share aside. */
static bool is_free_to_run(const struct conn *c)
{
        return !c->is_closing && !c->is_closed && !c->is_listening && !is_waiting(c) &&
               (!conn_relay(c) || relay_ops(c)->can_take(c)) &&
               conn_unsent(c) < server_output_max(c->server) &&
               !core_is_congested(c->server->core) && !use_is_over(c);
}

bool conn_can_run(const struct conn *c)
{
        return is_free_to_run(c) && has_share(c);
}

/* One read a turn: a peer that sends faster than we read would hold the turn for itself. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
        struct conn *c = CONTAINER_OF(handle, struct conn, uv.handle);
        struct server *s = c->server;
        (void)suggested;
        loop_turn_begin(s->loop);
        size_t n = s->loop->share.read_bytes < SERVER_READ_BYTES ? s->loop->share.read_bytes
                                                                 : SERVER_READ_BYTES;
        bool must_wait = c->read_turn == s->loop->share.turn;
        if (c->tls && s->loop->share.is_over && conn_is_shaking(c))
                must_wait = true; /* a step of a handshake takes as long as hundreds of commands */
        if (must_wait)
                n = 0; /* libuv calls on_read with UV_ENOBUFS and comes again after the next poll */
        c->read_turn = s->loop->share.turn;
        *ret = uv_buf_init(s->read_buf, (unsigned)n);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b);

static void set_reading(struct conn *c, bool is_reading)
{
        if (c->is_reading == is_reading)
                return;
        c->is_reading = is_reading;
        if (!is_reading)
                (void)uv_read_stop(&c->uv.stream); /* never fails (libuv documents it) */
        else if (uv_read_start(&c->uv.stream, on_alloc, on_read) < 0)
                conn_close(c);
}

/* After the input was run as far as it goes: what do we wait for now? */
static void settle(struct conn *c)
{
        if (c->is_closed || c->is_lingering)
                return;
        size_t pending = c->in.len - c->in_at;
        bool must_wait = is_waiting(c), can_run = is_free_to_run(c);
        if (can_run && pending && pending >= c->need && !has_share(c)) {
                can_run = false;
                wait_for_go(c);
        }
        if (c->is_eof && (can_run || pending == 0) && !must_wait) {
                if (conn_relay(c))
                        relay_ops(c)->end_input(c);
                else
                        conn_finish(c, false);
        }
        if (!c->is_closing && !must_wait && core_is_congested(c->server->core) &&
            !list_is_linked(&c->run_link))
                list_push_back(&c->server->congested, &c->run_link);
        if (!c->is_closing && !must_wait && use_is_over(c) && !list_is_linked(&c->run_link))
                use_wait(c);
        bool is_unfinished = pending && can_run && !c->is_closing;
        if (is_unfinished && c->deadline == CONN_DEADLINE_NONE)
                deadline_start(c, CONN_DEADLINE_REQUEST);
        else if (!is_unfinished && c->deadline == CONN_DEADLINE_REQUEST)
                deadline_clear(c);
        if (c->in.cap || c->out.cap > COUNT_BYTES || conn_relay(c))
                count_memory(c); /* what is smaller is counted when it was flushed */
        set_reading(
                c, !c->is_closing && !c->is_eof &&
                           (can_run || c->is_listening || (must_wait && pending < WAIT_INPUT_MAX)));
}

static void shrink_input(struct conn *c)
{
        if (c->in_at == c->in.len) {
                if (c->in.cap)
                        buf_release(&c->in);
                c->in_at = 0;
        } else if (c->in_at >= c->in.len / 2) {
                buf_drop_front(&c->in, c->in_at);
                c->in_at = 0;
        }
}

/* As far as it goes; the requests of one that no leader serves are refused up to here. */
static size_t run_input(struct conn *c, char *bytes, size_t n)
{
        size_t used =
                conn_relay(c) ? relay_ops(c)->input(c, bytes, n) : c->door->input(c, bytes, n);
        if (c->is_unserved && conn_can_run(c))
                c->is_unserved = false;
        return used;
}

void conn_run(struct conn *c)
{
        if (c->is_closed || c->is_lingering)
                return;
        size_t pending = c->in.len - c->in_at;
        begin_go(c);
        if (pending && pending >= c->need && conn_can_run(c)) {
                c->need = 0;
                c->in_at += run_input(c, c->in.ptr + c->in_at, pending);
                shrink_input(c);
        }
        settle(c);
}

static void keep_input(struct conn *c, const char *bytes, size_t n)
{
        if (!c->in.cap)
                buf_init(&c->in, IN_MAX);
        buf_put(&c->in, bytes, n);
        if (c->in.failed)
                conn_close(c);
}

static void take_input(struct conn *c, char *bytes, size_t n)
{
        begin_go(c);
        if (c->in.len == c->in_at && conn_can_run(c)) {
                c->need = 0;
                size_t used = run_input(c, bytes, n);
                if (used < n && !c->is_closing && !c->is_closed)
                        keep_input(c, bytes + used, n - used);
                settle(c);
        } else {
                keep_input(c, bytes, n);
                conn_run(c);
        }
}

static void check_preauth(struct conn *c, size_t n)
{
        struct problem p;
        c->preauth_bytes += n;
        if (c->preauth_bytes <= LIMIT_PREAUTH_BYTES || c->is_closing || c->is_closed)
                return;
        count(c, DOOR_CUT, 1);
        (void)problem_set(&p, ERR_NOAUTH, "more than %d bytes before authentication",
                          LIMIT_PREAUTH_BYTES);
        c->door->refuse(c, &p);
        conn_finish(c, true);
}

void conn_end_input(struct conn *c, bool is_clean)
{
        c->is_eof = true;
        if (!is_clean || session_is_waiting(&c->session) || c->is_lingering || c->is_listening)
                conn_close(c);
        else
                conn_run(c);
}

void conn_take(struct conn *c, char *bytes, size_t n)
{
        take_input(c, bytes, n);
        if (!c->is_authed && c->door->counts_preauth)
                check_preauth(c, n);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
        struct conn *c = CONTAINER_OF(stream, struct conn, uv.stream);
        if (n == 0 || n == UV_ENOBUFS || c->is_closed)
                return;
        loop_turn_begin(c->server->loop);
        if (n < 0) {
                conn_end_input(c, n == UV_EOF && !c->tls); /* TLS says goodbye itself */
                return;
        }
        count(c, DOOR_BYTES_IN, (uint64_t)n);
        if (c->is_lingering || c->is_closing || c->is_listening)
                return;
        if (c->tls)
                conn_tls_read(c, b->base, (size_t)n);
        else
                conn_take(c, b->base, (size_t)n);
}

/* --- life ----------------------------------------------------------------------------------- */

static void count_stranger(struct conn *c, bool is_more)
{
        c->peer->strangers += is_more ? 1 : -1U;
        if (!c->is_near)
                c->server->strangers += is_more ? 1 : -1UL;
}

static void set_authed(struct conn *c, bool is_authed)
{
        if (c->is_authed != is_authed && c->peer)
                count_stranger(c, !is_authed);
        c->is_authed = is_authed;
}

static void leave_peer(struct conn *c)
{
        if (!c->peer)
                return;
        if (!c->is_authed)
                count_stranger(c, false);
        peer_leave(&c->server->peers, c->peer);
        c->peer = NULL;
}

static void on_closed(uv_handle_t *handle)
{
        free(CONTAINER_OF(handle, struct conn, uv.handle));
}

void conn_close(struct conn *c)
{
        if (c->is_closed)
                return;
        c->is_closed = true;
        use_become(c, NULL);
        session_release(c->server->core, &c->session);
        unlink_if(&c->link);
        unlink_if(&c->out_link);
        unlink_if(&c->run_link);
        deadline_clear(c);
        if (conn_relay(c))
                relay_ops(c)->end(c);
        free(conn_told(c));
        c->cluster.told = NULL;
        c->door->close(c);
        buf_release(&c->in);
        if (c->out.cap)
                server_give_buf(c->server, &c->out);
        if (c->tls)
                conn_tls_release(c);
        count_memory(c);
        leave_peer(c);
        c->server->counter[DOOR_CONNECTIONS]--;
        uv_close(&c->uv.handle, on_closed);
}

void conn_finish(struct conn *c, bool is_faulty)
{
        if (c->is_closing || c->is_closed)
                return;
        c->is_closing = true;
        c->is_faulty = is_faulty;
        if (c->deadline == CONN_DEADLINE_REQUEST)
                deadline_clear(c);
        if (!is_faulty)
                set_reading(c, false);
        conn_make_dirty(c);
}

void conn_listen(struct conn *c)
{
        c->is_listening = true;
        deadline_clear(c);
}

/* The leader answers what it has got, and closes then. */
static void stop_relay(struct conn *c)
{
        if (relay_ops(c)->is_waiting(c)) {
                relay_ops(c)->give_up(c);
                conn_run(c);
                conn_finish(c, false);
                return;
        }
        c->is_eof = true;
        settle(c);
}

void conn_stop(struct conn *c)
{
        /* A listener that does not read is not waited for: it is owed nothing. */
        if (c->is_lingering || c->is_held_back || (c->is_listening && c->writing))
                conn_close(c);
        else if (conn_relay(c) && !c->is_closing)
                stop_relay(c);
        else
                conn_finish(c, false);
}

void conn_hang_up(struct conn *c, bool may_leave)
{
        if (c->is_closed)
                return;
        use_become(c, NULL);
        session_release(c->server->core, &c->session); /* a wait ends without an answer */
        use_become(c, c->server->stranger);
        if (c->is_lingering)
                return;
        if (may_leave)
                pass_marks(c);
        else
                c->ready = c->sent;
        if (c->out.cap)
                c->out.len = c->ready;
        c->n_marks = 0;
        if (conn_relay(c))
                relay_ops(c)->end(c);
        buf_release(&c->in);
        c->in_at = c->need = 0;
        c->is_stalled = false;
        if (c->is_held_back || (c->is_listening && c->writing))
                conn_close(c);
        else
                conn_finish(c, true);
        if (!c->is_closed)
                conn_make_dirty(c); /* one that was closing already */
}

void conn_authenticated(struct conn *c, struct grant *grant)
{
        set_authed(c, true);
        c->session.is_authenticated = true;
        use_become(c, grant);
        if (c->deadline == CONN_DEADLINE_PREAUTH)
                deadline_clear(c);
}

void conn_secured(struct conn *c)
{
        c->preauth_bytes = 0;
        if (c->server->needs_token)
                return;
        set_authed(c, true);
        if (c->deadline == CONN_DEADLINE_PREAUTH)
                deadline_clear(c);
}

void conn_certified(struct conn *c)
{
        struct grant *grant = who_is_certified(c);
        if (grant)
                conn_authenticated(c, grant);
}

void conn_forget_auth(struct conn *c)
{
        if (!c->server->needs_token || !c->is_authed)
                return;
        struct grant *grant = who_is_certified(c);
        if (grant) {
                conn_authenticated(c, grant);
                return;
        }
        set_authed(c, false);
        c->session.is_authenticated = false;
        use_become(c, c->server->stranger);
        c->preauth_bytes = 0;
        deadline_start(c, CONN_DEADLINE_PREAUTH);
}

bool conn_count_failure(struct conn *c)
{
        struct server *s = c->server;
        count(c, DOOR_AUTH_FAILURES, 1);
        core_audit_login(s->core, &c->session);
        if (!c->peer)
                return false;
        bool is_slow = peer_fail(c->peer, s->loop->now.steady_ns);
        uint64_t n = peer_fail_line(&s->peers, c->peer, s->loop->now.steady_ns);
        if (n)
                say_warn("door", "wrong access token", "address",
                         c->session.address[0] ? c->session.address : "unix socket", "door",
                         c->door->name, "since_last_line", SAY_I64(n), "all",
                         SAY_I64(c->peer->failures));
        return is_slow;
}

void conn_hold_back(struct conn *c)
{
        if (c->is_closed)
                return;
        conn_finish(c, true);
        c->is_held_back = true;
        deadline_start(c, CONN_DEADLINE_TOKEN);
}

/* --- in a cluster --------------------------------------------------------------------------- */

bool conn_is_tls(const struct conn *c)
{
        const struct told *told = conn_told(c);
        return told ? told->is_tls : c->tls != NULL;
}

void conn_wait_for_leader(struct conn *c, bool must_wait)
{
        if (must_wait)
                deadline_start(c, CONN_DEADLINE_RELAY);
        else if (c->deadline == CONN_DEADLINE_RELAY)
                deadline_clear(c);
        if (!must_wait && !c->is_authed)
                deadline_start(c, CONN_DEADLINE_PREAUTH);
}

void conn_hand_over(struct conn *c)
{
        set_authed(c, true); /* no stranger here: the leader counts it */
        conn_wait_for_leader(c, false);
        if (c->writing && !c->is_listening)
                deadline_start(c, CONN_DEADLINE_OUTPUT);
        conn_resume(c);
}

bool conn_become(struct conn *c, const struct conn_origin *origin)
{
        struct server *s = c->server;
        c->peer->use.bytes -= c->held_bytes;
        leave_peer(c);
        if (c->door != origin->door) {
                c->door->close(c);
                c->door = origin->door;
                memset((char *)c + sizeof(*c), 0, c->door->conn_bytes - sizeof(*c));
                c->session.ops = &c->door->session;
                c->door->open(c);
        }
        c->is_local = origin->is_local;
        c->is_near = origin->is_near;
        c->preauth_bytes = 0;
        (void)snprintf(c->session.address, sizeof(c->session.address), "%s", origin->address);
        c->peer = peer_join(&s->peers, c->session.address, c->is_near);
        c->peer->use.bytes += c->held_bytes;
        if (!c->is_authed)
                count_stranger(c, true);
        return admit_conn(c);
}

static struct conn *conn_new(struct server *s, const struct door *door, bool is_local)
{
        struct conn *c =
                calloc(1, s->conn_bytes > door->conn_bytes ? s->conn_bytes : door->conn_bytes);
        if (!c)
                return NULL;
        c->server = s;
        c->door = door;
        c->is_local = c->is_near = is_local;
        c->is_authed = !s->needs_token;
        c->weight.id = ++s->next_conn_id;
        c->weight.pos = HEAP_NOWHERE;
        c->opened_ms = s->loop->now.wall_ms;
        session_init(&c->session, &door->session);
        if (s->needs_token)
                use_become(c, s->stranger);
        int r = is_local ? uv_pipe_init(&s->loop->uv, &c->uv.pipe, 0)
                         : uv_tcp_init(&s->loop->uv, &c->uv.tcp);
        if (r < 0) {
                use_become(c, NULL);
                free(c);
                return NULL;
        }
        list_push_back(&s->conns, &c->link);
        count(c, DOOR_CONNECTIONS, 1);
        door->open(c);
        return c;
}

/* Left empty when the peer is gone already. */
static void take_address(struct conn *c)
{
        struct sockaddr_storage peer;
        int len = sizeof(peer);
        if (uv_tcp_getpeername(&c->uv.tcp, (struct sockaddr *)&peer, &len) < 0)
                return;
        c->is_near = sockaddr_is_loopback((const struct sockaddr *)&peer);
        if (uv_ip_name((const struct sockaddr *)&peer, c->session.address,
                       sizeof(c->session.address)) < 0)
                c->session.address[0] = '\0';
}

int conn_accept(struct listener *l)
{
        struct server *s = l->server;
        struct conn *c = conn_new(s, l->door, l->is_local);
        if (!c)
                return ERR_NOMEM;
        if (uv_accept(&l->uv.stream, &c->uv.stream) < 0) {
                conn_close(c);
                return ERR_IO;
        }
        count(c, DOOR_ACCEPTED, 1);
        if (l->is_tls) {
                c->is_authed = false; /* a stranger until its handshake is done */
                if (!conn_tls_begin(c)) {
                        conn_close(c);
                        return OK; /* it is off the queue */
                }
        }
        if (!l->is_local) {
                (void)uv_tcp_nodelay(&c->uv.tcp, 1); /* slower without it, but not wrong */
                take_address(c);
        }
        c->peer = peer_join(&s->peers, c->session.address, c->is_near);
        if (!c->is_authed)
                count_stranger(c, true);
        if (!admit_conn(c))
                return OK;
        if (!c->is_authed)
                deadline_start(c, CONN_DEADLINE_PREAUTH);
        set_reading(c, true);
        return OK;
}

void conn_check(const struct conn *c)
{
        size_t at = c->ready;
        uint64_t seq = 0;
        ASSERT(c->sent <= c->ready && c->ready <= c->out.len);
        for (unsigned i = 0; i < c->n_marks; i++) {
                ASSERT(c->marks[i].end >= at && c->marks[i].seq > seq);
                at = c->marks[i].end;
                seq = c->marks[i].seq;
        }
        ASSERT(at == c->out.len);
        ASSERT(c->n_marks == 0 || list_is_linked(&c->out_link));
        ASSERT(c->in_at <= c->in.len);
        ASSERT((c->held_bytes > 0) == heap_has(&c->weight));
}
