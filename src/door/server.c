/* The server: listeners, connections, and what the turn of the loop asks of them.
 *
 * Connections that may run on (answered waits, drained output, input left over by those that had
 * used their share) are in the round, `resumed`.  One that has used its share goes to the end of
 * the round; what is left of the round when the turn is over goes first in the next turn.
 *
 * Replies leave when the log has reported their batch.  Connections with held replies are on a list
 * of their own, so that no turn scans all connections.
 *
 * Stopping: the listeners close, input is read no more, and each connection closes when its last
 * byte has left. */
#include "door/server.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "api/setting_table.h"
#include "base/say.h"
#include "door/door_int.h"
#include "door/listen.h"
#include "door/openapi.h"

/* An argument vector of 10,000 jobs, and as much again unescaped or joined. */
#define ARENA_MAX_BYTES (4ULL * LIMIT_COMMAND_BYTES)
/* How often the files of the certificate are looked at. */
#define TLS_LOOK_MS 1000
/* So many connections of each list are checked in a turn of a debug build. */
#define CHECK_MAX 64

/* --- the turn ------------------------------------------------------------------------------- */

static void list_move_all(struct list *from, struct list *to)
{
        if (list_is_empty(from))
                return;
        from->next->prev = to->prev;
        to->prev->next = from->next;
        from->prev->next = to;
        to->prev = from->prev;
        list_init(from);
}

static bool has_work(const void *ctx)
{
        const struct server *s = ctx;
        return !list_is_empty(&s->resumed);
}

/* One round: connections that come on while it runs wait for the next.  What is left of it when the
 * turn is over goes first in the next turn, begun with the connection whose go was cut short. */
static void run_resumed(void *ctx)
{
        struct server *s = ctx;
        struct conn *last = NULL;
        struct list now;
        list_init(&now);
        list_move_all(&s->resumed, &now);
        while (!list_is_empty(&now) && !s->loop->share.is_over) {
                last = CONTAINER_OF(now.next, struct conn, run_link);
                list_remove(&last->run_link);
                conn_run(last);
        }
        list_move_all(&s->resumed, &now);
        list_move_all(&now, &s->resumed);
        if (last && last->is_go_open && list_is_linked(&last->run_link)) {
                list_remove(&last->run_link);
                list_insert_before(s->resumed.next, &last->run_link);
        }
}

static void release_held(void *ctx)
{
        struct server *s = ctx;
        list_move_all(&s->held, &s->dirty);
        if (!core_is_congested(s->core))
                list_move_all(&s->congested, &s->resumed);
}

static void flush_all(struct server *s)
{
        while (!list_is_empty(&s->dirty))
                conn_flush(CONTAINER_OF(s->dirty.next, struct conn, out_link));
}

/* Then cuts connections, the heaviest first, until the rest is within client_bytes_max.  The reason
 * that a cut connection is given leaves at once: no other turn may come soon. */
static bool flush_dirty(void *ctx)
{
        struct server *s = ctx;
        who_look(s);
        if (s->is_over)
                use_cut(s);
        flush_all(s);
        while (s->counter[DOOR_CLIENT_BYTES] > s->client_bytes_max && s->heavy.len) {
                conn_cut_heavy(CONTAINER_OF(heap_peek(&s->heavy), struct conn, weight));
                flush_all(s);
        }
        return has_work(s);
}

static bool is_idle(const void *ctx)
{
        const struct server *s = ctx;
        return list_is_empty(&s->conns);
}

static void check(const void *ctx)
{
        const struct server *s = ctx;
        size_t n = 0;
        for (const struct list *it = s->conns.next; it != &s->conns && n < CHECK_MAX;
             it = it->next) {
                const struct conn *c = CONTAINER_OF(it, struct conn, link);
                ASSERT(c->server == s && !c->is_closed); /* (1) */
                conn_check(c);
                n++;
        }
        ASSERT(n <= s->counter[DOOR_CONNECTIONS]);                         /* (2) */
        ASSERT(list_is_empty(&s->conns) == !s->counter[DOOR_CONNECTIONS]); /* (2) */
        ASSERT(list_is_empty(&s->dirty));                                  /* (3) */
        ASSERT(s->counter[DOOR_CLIENT_BYTES] <= s->client_bytes_max);      /* (4) */
        ASSERT(s->counter[DOOR_CLIENT_BYTES] == 0 || s->heavy.len > 0);    /* (4) */
        ASSERT(s->strangers <= s->counter[DOOR_CONNECTIONS]);              /* (5) */
        ASSERT(s->n_spare <= SERVER_SPARE_BUFS);                           /* (6) */
        stream_check(s);
        peers_check(&s->peers);
        login_check(&s->login);
        ASSERT(!s->loop->is_stopping || !s->n_listeners);       /* (7) */
        ASSERT(s->is_gated == (s->is_following || s->is_held)); /* (8) */
        ASSERT(!s->is_following || !s->is_held);                /* (8) */
}

/* --- life ----------------------------------------------------------------------------------- */

static void close_listeners(struct server *s)
{
        for (size_t i = 0; i < s->n_listeners; i++)
                listener_close(s->listeners[i]);
        s->n_listeners = 0;
}

static void stop(void *ctx)
{
        struct server *s = ctx;
        close_listeners(s);
        LIST_FOREACH(&s->conns, it)
        conn_stop(CONTAINER_OF(it, struct conn, link));
}

static void close_all(void *ctx)
{
        struct server *s = ctx;
        close_listeners(s);
        relays_close(s);
        LIST_FOREACH(&s->conns, it)
        conn_close(CONTAINER_OF(it, struct conn, link));
}

static void cut(void *ctx)
{
        struct server *s = ctx;
        say_warn("door", "stopping took too long, cutting what is open", "connections",
                 SAY_I64(s->counter[DOOR_CONNECTIONS]));
        close_all(s);
}

static void server_free(void *ctx)
{
        struct server *s = ctx;
        stream_release(s);
        relays_release(s);
        told_free(s);
        who_release(s);
        login_release(&s->login);
        peers_release(&s->peers);
        buf_release(&s->openapi);
        while (s->n_spare)
                buf_release(&s->spare[--s->n_spare]);
        arena_release(&s->arena);
        heap_release(&s->heavy);
        free(s->listeners);
        free(s->argv);
        free(s->read_buf);
        free(s->tls_plain);
        buf_release(&s->tls_out);
        s->tls = tls_store_free(s->tls);
        free(s);
}

static void hold(void *ctx, bool is_held)
{
        server_hold(ctx, is_held);
}

static const struct loop_ops server_ops = {
        .has_work = has_work,
        .run = run_resumed,
        .durable = release_held,
        .flush = flush_dirty,
        .hold = hold,
        .stop = stop,
        .cut = cut,
        .is_idle = is_idle,
        .check = check,
        .close = close_all,
        .free = server_free,
};

/* The usual soft limit of 1024 is for programs that use select(2). */
static void raise_open_files(struct server *s)
{
        const rlim_t want = LIMIT_CONNECTIONS + 256; /* and the files of log and history */
        struct rlimit limit;
        s->files_max = INT_MAX;
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want)
                return;
        limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
        int r = setrlimit(RLIMIT_NOFILE, &limit);
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX)
                s->files_max = (int)limit.rlim_cur;
        if (r < 0 || limit.rlim_cur < want)
                say_warn("door", "fewer files may be open than connections are allowed", "files",
                         SAY_I64(limit.rlim_cur), "connections", SAY_I64(LIMIT_CONNECTIONS));
}

uint64_t server_client_bytes_default(void)
{
        uint64_t all = uv_get_total_memory(), ours = uv_get_constrained_memory();
        uint64_t quarter = (ours && ours < all ? ours : all) / 4; /* ours: 0 or huge = no limit */
        uint64_t least = (uint64_t)setting_table[SET_TOP_client_memory].min;
        return quarter > least ? quarter : least;
}

static int listen_all(struct server *s, const struct server_options *o, struct problem *p)
{
        size_t n = 0;
        for (int kind = 0; kind < SERVER_KINDS; kind++)
                n += o->addresses[kind].n;
        s->listeners = xcalloc(n + 1, sizeof(struct listener *));
        for (int kind = 0; kind < SERVER_KINDS; kind++) {
                for (size_t i = 0; i < o->addresses[kind].n; i++) {
                        struct listener_options l = {(enum server_kind)kind,
                                                     o->addresses[kind].text[i], o->is_insecure};
                        int r = listener_new(s, &l, &s->listeners[s->n_listeners], p);
                        if (r != OK)
                                return r;
                        s->n_listeners++;
                }
        }
        return OK;
}

/* --- TLS ------------------------------------------------------------------------------------ */

static void look_at_tls(void *ctx)
{
        const struct server *s = ctx;
        tls_store_look(s->tls, s->loop->now.wall_ms);
}

static int begin_tls(struct server *s, const struct server_options *o, struct problem *p)
{
        if (!o->tls.cert)
                return OK;
        int r = tls_store_new(&o->tls, clock_wall_ms(), &s->tls, p);
        if (r != OK)
                return r;
        s->tls_plain = xmalloc(TLS_PLAIN_MAX(SERVER_READ_BYTES));
        loop_timer_start(&s->tls_timer, TLS_LOOK_MS, TLS_LOOK_MS);
        return OK;
}

int server_set_tls(struct server *s, const struct tls_files *files, struct problem *problem)
{
        return s->tls ? tls_store_set(s->tls, files, clock_wall_ms(), problem) : OK;
}

int server_new(struct loop *loop, const struct server_options *options, struct server **ret,
               struct problem *p)
{
        struct server *s = xcalloc(1, sizeof(*s));
        s->loop = loop;
        s->core = loop->core;
        s->version = options->version ? options->version : "0";
        s->is_check_open = options->is_check_open;
        s->client_bytes_max =
                options->client_bytes ? options->client_bytes : server_client_bytes_default();
        heap_init(&s->heavy);
        s->started_ms = clock_wall_ms();
        list_init(&s->conns);
        list_init(&s->dirty);
        list_init(&s->held);
        list_init(&s->resumed);
        list_init(&s->congested);
        use_init(s);
        conn_deadlines_init(s);
        who_init(s);
        stream_init(s);
        login_init(&s->login, slice_str(options->instance ? options->instance : ""));
        peers_init(&s->peers, rng_u64(&s->login.rng));
        s->secret = options->cluster_secret ? slice_str(options->cluster_secret) : SLICE_NONE;
        s->http = &http_door;
        s->conn_bytes = s->secret.len ? http_door.conn_bytes : 0;
        s->node = options->node ? options->node : "";
        relays_init(s);
        told_init(s);
        s->read_buf = xmalloc(SERVER_READ_BYTES);
        s->argv = xcalloc(LIMIT_COMMAND_ARGS, sizeof(s->argv[0]));
        arena_init(&s->arena, ARENA_MAX_BYTES);
        buf_init(&s->openapi, 0);
        openapi_put(&s->openapi, s->version, s->login.cookie);
        raise_open_files(s);
        loop_join(loop, (struct loop_member){&server_ops, s, &s->counter[DOOR_CLIENT_BYTES]});
        loop_timer_init(loop, &s->tls_timer, look_at_tls, s);
        int r = begin_tls(s, options, p);
        if (r == OK)
                r = listen_all(s, options, p);
        if (r == OK)
                *ret = s;
        return r;
}

/* --- in a cluster --------------------------------------------------------------------------- */

static void set_gate(struct server *s, bool is_following, bool is_doubted)
{
        s->is_following = is_following;
        s->is_doubted = is_doubted;
        s->is_held = is_doubted && !is_following;
        s->is_gated = is_following || is_doubted;
}

/* What waited for the gate runs on, or is relayed. */
static void resume_all(struct server *s)
{
        LIST_FOREACH(&s->conns, it)
        {
                struct conn *c = CONTAINER_OF(it, struct conn, link);
                c->is_stalled = false;
                conn_resume(c);
        }
}

static void change_role(struct server *s, bool is_following)
{
        bool may_leave = !s->is_held; /* else what it says may be out of date */
        set_gate(s, is_following, s->is_doubted);
        if (list_is_empty(&s->conns))
                return;
        loop_turn_begin(s->loop);
        LIST_FOREACH(&s->conns, it)
        {
                struct conn *c = CONTAINER_OF(it, struct conn, link);
                if (conn_relay(c) && relay_is_waiting(c)) /* for a leader, which is here now */
                        relay_cancel(c);
                if (c->has_state || conn_relay(c))
                        conn_hang_up(c, may_leave);
        }
        resume_all(s);
}

void server_hang_up(struct server *s)
{
        if (!list_is_empty(&s->conns))
                loop_turn_begin(s->loop);
        LIST_FOREACH(&s->conns, it)
        conn_hang_up(CONTAINER_OF(it, struct conn, link), !s->is_held);
}

bool server_is_empty(const struct server *s)
{
        LIST_FOREACH(&s->conns, it)
        {
                if (session_is_waiting(&CONTAINER_OF(it, struct conn, link)->session))
                        return false;
        }
        return true;
}

void server_lead(struct server *s)
{
        if (!s->is_following)
                return;
        change_role(s, false);
        relays_set_leader(s, NULL);
        s->lag = 0;
        s->n_led++;
}

void server_follow(struct server *s, const char *leader)
{
        const char *old = s->relays.leader;
        if (s->is_following && (leader && old ? strcmp(leader, old) == 0 : leader == old))
                return;
        if (!list_is_empty(&s->conns))
                loop_turn_begin(s->loop);
        if (!s->is_following)
                change_role(s, true);
        relays_set_leader(s, leader);
}

void server_hold(struct server *s, bool is_held)
{
        bool was_held = s->is_held;
        set_gate(s, s->is_following, is_held);
        if (!was_held || s->is_held || list_is_empty(&s->conns))
                return;
        loop_turn_begin(s->loop);
        list_move_all(&s->held, &s->dirty);
        resume_all(s);
}

void server_set_lag(struct server *s, uint64_t batches)
{
        s->lag = batches;
}

const char *server_address(const struct server *s, enum server_kind kind, size_t i)
{
        for (size_t k = 0; k < s->n_listeners; k++)
                if (s->listeners[k]->kind == kind && i-- == 0)
                        return s->listeners[k]->address;
        return NULL;
}
