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

/* Then cuts connections, the heaviest first, until the rest is within client_bytes_max. */
static bool flush_dirty(void *ctx)
{
        struct server *s = ctx;
        while (!list_is_empty(&s->dirty))
                conn_flush(CONTAINER_OF(s->dirty.next, struct conn, out_link));
        while (s->counter[DOOR_CLIENT_BYTES] > s->client_bytes_max && s->heavy.len)
                conn_cut_heavy(CONTAINER_OF(heap_peek(&s->heavy), struct conn, weight));
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
        ASSERT(!s->loop->is_stopping || !s->n_listeners); /* (7) */
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
        free(s);
}

static const struct loop_ops server_ops = {
        .has_work = has_work,
        .run = run_resumed,
        .durable = release_held,
        .flush = flush_dirty,
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
        s->listeners = xcalloc(o->n_resp + o->n_http + 1, sizeof(struct listener *));
        for (size_t i = 0; i < o->n_resp + o->n_http; i++) {
                enum server_kind kind = i < o->n_resp ? SERVER_RESP : SERVER_HTTP;
                const char *text = i < o->n_resp ? o->resp_addrs[i] : o->http_addrs[i - o->n_resp];
                int r = listener_new(s, kind, text, o->token, &s->listeners[i], p);
                if (r != OK)
                        return r;
                s->n_listeners++;
        }
        return OK;
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
        conn_deadlines_init(s);
        if (options->token && *options->token) {
                s->has_token = true;
                secret_init(&s->token, slice_str(options->token));
        }
        stream_init(s);
        login_init(&s->login, slice_str(options->instance ? options->instance : ""));
        peers_init(&s->peers, rng_u64(&s->login.rng));
        s->read_buf = xmalloc(SERVER_READ_BYTES);
        s->argv = xcalloc(LIMIT_COMMAND_ARGS, sizeof(s->argv[0]));
        arena_init(&s->arena, ARENA_MAX_BYTES);
        buf_init(&s->openapi, 0);
        openapi_put(&s->openapi, s->version, s->login.cookie);
        raise_open_files(s);
        loop_join(loop, (struct loop_member){&server_ops, s, &s->counter[DOOR_CLIENT_BYTES]});
        int r = listen_all(s, options, p);
        if (r == OK)
                *ret = s;
        return r;
}

const char *server_address(const struct server *s, enum server_kind kind, size_t i)
{
        for (size_t k = 0; k < s->n_listeners; k++)
                if (s->listeners[k]->kind == kind && i-- == 0)
                        return s->listeners[k]->address;
        return NULL;
}
