/* The turn of the loop.
 *
 * libuv calls back when something happened: bytes came, a timer fell due, another thread has
 * news.  The first callback of a turn tells the core the time (server_turn_begin); the check
 * handle, which libuv runs after all callbacks of a poll, ends it:
 *
 *      connections that may run on do so          (answered waits, drained output, input left
 *                                                 over by those that had used their share)
 *      core_commit                                one batch to the log, if none is in flight
 *      output that may leave is written           one call per connection
 *
 * A turn is short, whatever clients send (door/share.h): a connection that has used its share goes
 * to the end of the round, `resumed`, and when the time of the turn is over the round goes on in
 * the next one, after a poll that does not sleep.
 *
 * Timers are called before the poll, so the prepare handle ends a turn begun there; otherwise
 * what it did would wait until the poll returns.
 *
 * Who waits for the disk depends on the disk and on the load (measured on two cores, a sync of 100
 * us).  As long as syncs are quick and batches small, the loop does: waking the log's thread and
 * being woken by it would cost a third of the sync again, and while it waits the next commands of
 * all other clients collect in their sockets, so the next batch has them all.  That is 1.3 times
 * the commands at 1, 8 and 64 clients.  What it costs: an answer that needs no disk may be late by
 * one sync.  So while clients check, the thread does it, and gives way to the loop (log.h).
 *
 * Large batches, as pipelining makes them, and slow syncs are the thread's: there the loop applies
 * the next batch meanwhile.  With slow syncs the clients just answered are about to send their next
 * command, and taking them along makes one batch of what would become two; the loop waits for them
 * awake, for at most an eighth of a sync, and only until as many have come as were answered.
 *
 * Replies leave when the log has reported their batch.  Connections with held replies are on a list
 * of their own; nobody scans all.
 *
 * Stopping: the listeners close, waits are answered with nothing, input is read no more, and
 * each connection closes when its last byte has left; a timer cuts what takes too long. */
#include "door/server.h"

#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "api/setting_table.h"
#include "base/say.h"
#include "door/door_int.h"
#include "door/listen.h"
#include "door/openapi.h"

/* A spare buffer begins with this much and is kept up to this much: 32 pipelined claims of small
 * jobs fit, and all spares together stay below 8 MiB. */
#define SPARE_FIRST_BYTES (16 * KIB)
#define SPARE_LAST_BYTES  (64 * KIB)
/* An argument vector of 10,000 jobs, and as much again unescaped or joined. */
#define ARENA_MAX_BYTES (4ULL * LIMIT_COMMAND_BYTES)

/* How long the next commands of answered clients are waited for: a share of a sync, and never
 * long; and for how many it is worth it. */
#define GATHER_SHARE 8
#define GATHER_NS    400000
#define GATHER_MIN   4
#define GATHER_MAX   512
/* While syncs take less than this, the loop waits for those of batches of at most so many
 * commands itself. */
#define QUICK_SYNC_NS 500000
#define NOW_COMMANDS  128
/* So long after a check others are expected. */
#define CHECKS_NS (600 * NS_PER_S)
/* When clients hold half of what they may, unsent output of each is bounded by this: slow readers
 * are slowed down before any is cut. */
#define TIGHT_OUTPUT_BYTES (64 * KIB)

/* --- lists of connections ------------------------------------------------------------------- */

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

/* One round: those that come on while it runs wait for the next.  What is left of it when the turn
 * is over goes first in the next turn, begun with the connection whose go was cut short. */
static void run_resumed(struct server *s)
{
        struct conn *last = NULL;
        struct list now;
        list_init(&now);
        list_move_all(&s->resumed, &now);
        while (!list_is_empty(&now) && !s->share.is_over) {
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

static void flush_dirty(struct server *s)
{
        while (!list_is_empty(&s->dirty))
                conn_flush(CONTAINER_OF(s->dirty.next, struct conn, out_link));
}

/* The heaviest first, until the rest is within the total. */
static void cut_heavy(struct server *s)
{
        while (s->counter[DOOR_CLIENT_BYTES] > s->client_bytes_max && s->heavy.len)
                conn_cut_heavy(CONTAINER_OF(heap_peek(&s->heavy), struct conn, weight));
}

size_t server_output_max(const struct server *s)
{
        return s->counter[DOOR_CLIENT_BYTES] < s->client_bytes_max / 2 ? LIMIT_OUTPUT_BYTES
                                                                       : TIGHT_OUTPUT_BYTES;
}

/* --- the turn ------------------------------------------------------------------------------- */

static void on_idle(uv_idle_t *handle)
{
        (void)handle; /* while it is active, polls do not sleep: that is all */
}

static uint64_t n_commands(const struct server *s)
{
        return s->counter[DOOR_RESP_COMMANDS] + s->counter[DOOR_HTTP_REQUESTS];
}

static bool has_quick_syncs(const struct server *s)
{
        return core_sync_ns(s->core) < QUICK_SYNC_NS;
}

/* Somebody checks: the loop must not wait for a sync, or an answer that needs no disk would. */
static bool has_checks(const struct server *s)
{
        return s->asked_ns && s->now.steady_ns - s->asked_ns < CHECKS_NS;
}

/* Hands the open batch to the log, unless one is in flight or more is expected any moment. */
static void commit(struct server *s)
{
        if (s->gather_until_ns && n_commands(s) < s->gather_want &&
            uv_hrtime() < s->gather_until_ns)
                return;
        if (s->gather_until_ns) {
                s->gather_until_ns = 0;
                (void)uv_idle_stop(&s->gather); /* never fails */
        }
        uint64_t n = n_commands(s) - s->committed;
        bool is_checked = has_checks(s);
        bool is_now = n <= NOW_COMMANDS && has_quick_syncs(s) && !is_checked;
        core_log_gives_way(s->core, is_checked);
        uint64_t began_ns = is_now ? uv_hrtime() : 0;
        if (is_now ? core_commit_now(s->core) : core_commit(s->core))
                s->committed += n;
        if (is_now)
                s->turns.waited_ns += uv_hrtime() - began_ns;
}

/* The clients of a batch that was just answered are likely to send their next command at once:
 * waiting for them a little, awake, makes one batch of what would become two. */
static void gather(struct server *s, uint64_t answered)
{
        uint64_t ns = core_sync_ns(s->core) / GATHER_SHARE;
        if (answered < GATHER_MIN || answered > GATHER_MAX || has_quick_syncs(s))
                return;
        s->gather_until_ns = uv_hrtime() + (ns < GATHER_NS ? ns : GATHER_NS);
        s->gather_want = n_commands(s) + answered;
        (void)uv_idle_start(&s->gather, on_idle); /* fails only without a callback */
}

void server_turn_begin(struct server *s)
{
        if (s->is_in_turn)
                return;
        s->is_in_turn = true;
        s->turns.began_ns = uv_hrtime();
        s->turns.waited_ns = 0;
        share_begin(&s->share, s->turns.began_ns);
        s->now.steady_ns = clock_boot_ns() + s->steady_base_ns;
        s->now.wall_ms = clock_wall_ms();
        core_turn(s->core, s->now);
}

/* What the log has reported since we last looked.  A log without a thread reports from inside
 * core_commit, so this looks again after each. */
static void take_durable(struct server *s)
{
        for (;;) {
                uint64_t seq = atomic_load_explicit(&s->durable_seq, memory_order_acquire);
                if (seq <= s->durable_seen)
                        return;
                s->durable_seen = seq;
                core_durable(s->core, seq);
                gather(s, s->committed - s->answered);
                s->answered = s->committed;
                commit(s);
                list_move_all(&s->held, &s->dirty);
                if (!core_is_congested(s->core))
                        list_move_all(&s->congested, &s->resumed);
        }
}

static void on_core_timer(uv_timer_t *timer)
{
        struct server *s = timer->data;
        s->core_timer_ns = INT64_MAX;
        server_turn_begin(s);
}

static void arm_core_timer(struct server *s)
{
        int64_t next = core_next_ns(s->core);
        if (next == s->core_timer_ns)
                return;
        s->core_timer_ns = next;
        if (next == INT64_MAX) {
                (void)uv_timer_stop(&s->core_timer);
                return;
        }
        int64_t ms = (next - s->now.steady_ns + NS_PER_MS - 1) / NS_PER_MS;
        (void)uv_timer_start(&s->core_timer, on_core_timer, ms > 0 ? (uint64_t)ms : 0, 0);
}

static void forget_old_turns(struct turn_watch *t, uint64_t now_ns)
{
        uint64_t slot = now_ns / TURN_SLOT_NS;
        for (size_t n = 0; t->slot < slot && n < TURN_SLOTS; n++)
                t->max_ns[++t->slot % TURN_SLOTS] = 0;
        t->slot = slot;
}

static void count_turn(struct turn_watch *t)
{
        uint64_t now_ns = uv_hrtime(), ns = now_ns - t->began_ns - t->waited_ns;
        forget_old_turns(t, now_ns);
        if (ns > t->max_ns[t->slot % TURN_SLOTS])
                t->max_ns[t->slot % TURN_SLOTS] = ns;
        t->slow += ns > TURN_SLOW_NS;
}

uint64_t server_turn_max_ns(const struct server *s)
{
        struct turn_watch t = s->turns;
        uint64_t max = 0;
        forget_old_turns(&t, uv_hrtime());
        for (size_t i = 0; i < TURN_SLOTS; i++)
                max = t.max_ns[i] > max ? t.max_ns[i] : max;
        return max;
}

static uint64_t used_bytes(const struct server *s)
{
        return core_live_bytes(s->core) + s->counter[DOOR_CLIENT_BYTES];
}

static void give_back(void)
{
#ifdef __GLIBC__
        uint64_t began_ns = uv_hrtime();
        (void)malloc_trim(0); /* whether there was something to give */
        say_debug("door", "gave freed memory back", "us", SAY_I64((uv_hrtime() - began_ns) / 1000));
#endif
}

static void on_trim(uv_timer_t *timer)
{
        struct server *s = timer->data;
        uint64_t bytes = used_bytes(s);
        if (trim_look(&s->trim, bytes, clock_boot_ns()))
                give_back();
        if (!trim_note(&s->trim, bytes))
                (void)uv_timer_stop(timer); /* never fails */
}

static void note_memory(struct server *s)
{
        if (trim_note(&s->trim, used_bytes(s)) && !uv_is_active((uv_handle_t *)&s->trim_timer))
                (void)uv_timer_start(&s->trim_timer, on_trim, TRIM_LOOK_MS, TRIM_LOOK_MS);
}

static void end_turn(struct server *s)
{
        if (!s->is_in_turn)
                return;
        if (!list_is_empty(&s->resumed))
                share_extend(&s->share, uv_hrtime());
        do {
                run_resumed(s);
                commit(s);
                take_durable(s);
                flush_dirty(s);
                share_look(&s->share, uv_hrtime());
                cut_heavy(s);
        } while (!list_is_empty(&s->resumed) && !s->share.is_over);
        if (list_is_empty(&s->resumed))
                (void)uv_idle_stop(&s->busy); /* never fails */
        else
                (void)uv_idle_start(&s->busy, on_idle); /* fails only without a callback */
        note_memory(s);
        arm_core_timer(s);
        s->is_in_turn = false;
        count_turn(&s->turns);
        if (s->is_stopping && !s->is_stopped &&
            (s->is_stop_late || (list_is_empty(&s->conns) && core_is_settled(s->core)))) {
                s->is_stopped = true;
                uv_stop(&s->loop);
        }
}

static void on_prepare(uv_prepare_t *handle)
{
        end_turn(handle->data);
}

static void on_check(uv_check_t *handle)
{
        struct server *s = handle->data;
        if (!list_is_empty(&s->resumed))
                server_turn_begin(s); /* the round goes on */
        end_turn(s);
        if (!s->gather_until_ns)
                return;
        /* A whole turn and not only a commit: a batch that was waited for is reported from inside
         * it, and its replies would stay here until something else happens. */
        server_turn_begin(s);
        end_turn(s);
}

/* The shortest way from the disk to the socket: no other callback comes between. */
static void on_durable(uv_async_t *handle)
{
        struct server *s = handle->data;
        server_turn_begin(s);
        take_durable(s);
        flush_dirty(s);
}

static void on_archive(uv_async_t *handle)
{
        struct server *s = handle->data;
        server_turn_begin(s);
        core_archive_poll(s->core);
}

void server_log_durable(void *ctx, uint64_t seq)
{
        struct server *s = ctx;
        atomic_store_explicit(&s->durable_seq, seq, memory_order_release);
        if (!pthread_equal(pthread_self(), s->loop_thread))
                (void)uv_async_send(&s->durable_async); /* fails only on a closed handle */
}

static void on_notice(uv_async_t *handle)
{
        struct server *s = handle->data;
        server_turn_begin(s);
        if (s->on_notice)
                s->on_notice(s->notice_ctx);
}

void server_notice(void *ctx)
{
        struct server *s = ctx;
        (void)uv_async_send(&s->notice_async); /* fails only on a closed handle */
}

void server_archive_notify(void *ctx)
{
        struct server *s = ctx;
        (void)uv_async_send(&s->archive_async);
}

/* --- what connections ask for --------------------------------------------------------------- */

void server_asked(struct server *s)
{
        s->asked_ns = s->now.steady_ns;
}

uint64_t server_seq_of(struct server *s, const struct command_def *def)
{
        if (!(def->flags & COMMAND_FREE))
                return core_reply_seq(s->core);
        server_asked(s);
        return 0;
}

uint64_t server_late_seq(struct server *s, struct session *session)
{
        bool is_free = session->is_free;
        session->is_free = false;
        return is_free ? 0 : core_reply_seq(s->core);
}

struct buf server_take_buf(struct server *s)
{
        struct buf b;
        if (s->n_spare)
                return s->spare[--s->n_spare];
        buf_init(&b, 0);
        if (buf_reserve(&b, SPARE_FIRST_BYTES))
                return b;
        buf_clear(&b);
        return b;
}

void server_give_buf(struct server *s, struct buf *b)
{
        if (b->cap <= SPARE_LAST_BYTES && s->n_spare < SERVER_SPARE_BUFS && b->cap) {
                buf_clear(b);
                s->spare[s->n_spare++] = *b;
                buf_init(b, 0);
        } else {
                buf_release(b);
        }
}

size_t server_counters(const struct server *s, struct counter_row *ret, size_t max)
{
        static const struct counter_row rows[DOOR_COUNTERS] = {
#define X(id, name, kind, text) {name, kind, text, 0},
                DOOR_COUNTER_MAP(X)
#undef X
        };
        size_t n = max < DOOR_COUNTERS ? max : DOOR_COUNTERS;
        for (size_t i = 0; i < n; i++) {
                ret[i] = rows[i];
                ret[i].value = s->counter[i];
        }
        return n;
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_stop_late(uv_timer_t *timer)
{
        struct server *s = timer->data;
        server_turn_begin(s);
        s->is_stop_late = true;
        say_warn("door", "stopping took too long, cutting what is open", "connections",
                 SAY_I64(s->counter[DOOR_CONNECTIONS]));
        LIST_FOREACH(&s->conns, it)
        conn_close(CONTAINER_OF(it, struct conn, link));
}

void server_stop(struct server *s)
{
        if (s->is_stopping)
                return;
        server_turn_begin(s);
        s->is_stopping = true;
        (void)uv_timer_start(&s->stop_timer, on_stop_late, SERVER_STOP_MS, 0);
        for (size_t i = 0; i < s->n_listeners; i++)
                listener_close(s->listeners[i]);
        s->n_listeners = 0;
        core_stop(s->core);
        LIST_FOREACH(&s->conns, it)
        conn_stop(CONTAINER_OF(it, struct conn, link));
}

static int init_loop(struct server *s)
{
        int r = uv_loop_init(&s->loop);
        if (r < 0)
                return r;
        s->loop.data = s;
        s->prepare.data = s->check.data = s->core_timer.data = s->deadline_timer.data =
                s->stop_timer.data = s->durable_async.data = s->archive_async.data =
                        s->notice_async.data = s->trim_timer.data = s;
        /* None of these fails, except the first async handle when file descriptors are out. */
        r = uv_async_init(&s->loop, &s->durable_async, on_durable);
        if (r < 0) {
                (void)uv_loop_close(&s->loop);
                return r;
        }
        ASSERT(uv_async_init(&s->loop, &s->archive_async, on_archive) == 0);
        ASSERT(uv_async_init(&s->loop, &s->notice_async, on_notice) == 0);
        ASSERT(uv_prepare_init(&s->loop, &s->prepare) == 0);
        ASSERT(uv_check_init(&s->loop, &s->check) == 0);
        ASSERT(uv_idle_init(&s->loop, &s->gather) == 0);
        ASSERT(uv_idle_init(&s->loop, &s->busy) == 0);
        ASSERT(uv_timer_init(&s->loop, &s->core_timer) == 0);
        ASSERT(uv_timer_init(&s->loop, &s->deadline_timer) == 0);
        ASSERT(uv_timer_init(&s->loop, &s->stop_timer) == 0);
        ASSERT(uv_timer_init(&s->loop, &s->trim_timer) == 0);
        ASSERT(uv_prepare_start(&s->prepare, on_prepare) == 0);
        ASSERT(uv_check_start(&s->check, on_check) == 0);
        return 0;
}

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

int server_new(const struct server_options *options, struct server **ret, struct problem *p)
{
        struct server *s = xcalloc(1, sizeof(*s));
        s->core = options->core;
        s->version = options->version ? options->version : "0";
        s->steady_base_ns = options->steady_base_ns;
        s->is_check_open = options->is_check_open;
        s->on_notice = options->on_notice;
        s->notice_ctx = options->notice_ctx;
        s->client_bytes_max =
                options->client_bytes ? options->client_bytes : server_client_bytes_default();
        heap_init(&s->heavy);
        s->core_timer_ns = INT64_MAX;
        s->durable_seen = core_durable_seq(s->core);
        atomic_init(&s->durable_seq, s->durable_seen);
        s->started_ms = clock_wall_ms();
        list_init(&s->conns);
        list_init(&s->dirty);
        list_init(&s->held);
        list_init(&s->resumed);
        list_init(&s->congested);
        for (size_t i = 0; i < CONN_DEADLINE_COUNT; i++)
                list_init(&s->deadlines[i]);
        if (options->token && *options->token) {
                s->has_token = true;
                secret_init(&s->token, slice_str(options->token));
        }
        int uv = init_loop(s);
        if (uv < 0) {
                free(s);
                return problem_set(p, ERR_IO, "cannot make an event loop: %s", uv_strerror(uv));
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
        int r = listen_all(s, options, p);
        if (r != OK) {
                server_free(s);
                return r;
        }
        *ret = s;
        return OK;
}

int server_run(struct server *s)
{
        s->loop_thread = pthread_self();
        /* Jobs may be due and batches open since recovery. */
        server_turn_begin(s);
        end_turn(s);
        if (!s->is_stopped)
                (void)uv_run(&s->loop,
                             UV_RUN_DEFAULT); /* says whether handles are left: they are */
        return s->is_stop_late ? ERR_TIMEOUT : OK;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
        (void)ctx;
        if (!uv_is_closing(handle))
                uv_close(handle, NULL);
}

struct server *server_free(struct server *s)
{
        if (!s)
                return NULL;
        LIST_FOREACH(&s->conns, it)
        conn_close(CONTAINER_OF(it, struct conn, link));
        for (size_t i = 0; i < s->n_listeners; i++)
                listener_close(s->listeners[i]);
        /* Handles of others on this loop (signals) must be closed too, or their memory could go
         * before the loop has let go of it. */
        uv_walk(&s->loop, close_handle, NULL);
        s->is_in_turn = false;
        (void)uv_run(&s->loop, UV_RUN_DEFAULT);
        ASSERT(uv_loop_close(&s->loop) == 0);
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
        return NULL;
}

const char *server_address(const struct server *s, enum server_kind kind, size_t i)
{
        for (size_t k = 0; k < s->n_listeners; k++)
                if (s->listeners[k]->kind == kind && i-- == 0)
                        return s->listeners[k]->address;
        return NULL;
}

uv_loop_t *server_loop(struct server *s)
{
        return &s->loop;
}
