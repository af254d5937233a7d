/* The threads of the probes, and the way of a sample to the loop.
 *
 * A thread per server: one for the target itself, one for each of its replicas, so that a server
 * that hangs delays no other.  A thread's tick is connect if need be, sample, post.  All of a
 * tick shares one deadline.  Whatever a thread waits for, it waits for stop_fd as well.
 *
 *      connected --lost--> connect again in the same tick (it may only have been idle for long)
 *      connected --no answer--> rest 1 s, 2 s, 4 s, 8 s, 10 s, 10 s ...
 *      not connected --connect failed--> rest as above
 *      resting: every tick repeats the last sentence, so that its age stays small
 *
 * There is one box per metric and a ring of the full ones: a loop that is busy finds the newest
 * sample of each metric and never a backlog, and the memory is fixed.
 *
 * Replicas put their lag into slots of the target.  Each time one has, the lag of all is computed
 * and posted as the sample of replication_lag.  The same happens when the list of skipped replicas
 * changes.  Skipped replicas are still asked, so that their lag is known when they count again.
 *
 * Invariants, checked by probe_check() when samples are taken:
 *   (1) at most ring_size boxes are in the ring, one per metric
 *   (2) the boxes in the ring are full */
#include "probe/probe.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/say.h"
#include "probe/probe_int.h"
#include "sql/tls.h"

#define STOP_GRACE_MS                                                                              \
        2000 /* beyond the timeout of a target, for a thread that cannot be reached                \
              */

struct sample_box {
        struct probe_sample sample;
        bool is_full;
};

struct target {
        const struct probe_options *options;
        struct sample_box *boxes; /* one per metric */
        struct lag_slot *slots;
        uint32_t lag_mask; /* the metrics that are the lag of its replicas; 0: none, or it has none
                            */
};

struct worker {
        struct probe *probe;
        struct target *target;
        size_t replica; /* SIZE_MAX: the target itself */
        const struct prober_ops *ops;
        void *prober;
        pthread_t thread;
        bool is_started;
        bool is_ended; /* under the mutex */
        int wake_fd;
        atomic_bool is_asleep;
        /* Of its thread only. */
        bool is_connected;
        struct rest rest;
        struct reading why; /* it rests */
        struct reading *readings;
        size_t n_readings;
};

struct probe {
        struct target *targets;
        size_t n_targets;
        struct worker *workers;
        size_t n_workers;
        int stop_fd;
        _Atomic int64_t asked_ns;
        void (*notify)(void *ctx);
        void *ctx;
        pthread_mutex_t mutex; /* of all below, the boxes and the slots */
        pthread_cond_t ended;  /* one of the threads has */
        struct sample_box **ring;
        size_t ring_size, ring_at, ring_len;
};

static const struct {
        const char *name;
        const struct prober_ops *ops;
} kinds[PROBE_KINDS] = {
        [PROBE_MYSQL] = {"mysql", &mysql_prober},
        [PROBE_POSTGRES] = {"postgres", &postgres_prober},
        [PROBE_HOST] = {"host", &host_prober},
        [PROBE_HTTP] = {"http", &http_prober},
        [PROBE_COMMAND] = {"command", &command_prober},
};

const char *probe_kind_name(enum probe_kind kind)
{
        ASSERT(kind < PROBE_KINDS);
        return kinds[kind].name;
}

bool probe_kind_from_name(const char *name, enum probe_kind *ret)
{
        for (size_t i = 0; i < PROBE_KINDS; i++) {
                if (strcmp(name, kinds[i].name) == 0) {
                        *ret = (enum probe_kind)i;
                        return true;
                }
        }
        return false;
}

int probe_check_source(enum probe_kind kind, const char *source, struct problem *problem)
{
        ASSERT(kind < PROBE_KINDS);
        return kinds[kind].ops->check(source, problem);
}

const char *metric_source(const struct probe_metric *m)
{
        return m->source ? m->source : m->name;
}

/* ---- samples ---- */

/* What the connection says of its server. */
struct server_words {
        const char *tls;
        unsigned cores;
};

/* The mutex is held. */
static void put(struct probe *p, struct sample_box *box, const struct reading *r, int64_t at_ns,
                const struct server_words *server)
{
        struct probe_sample *s = &box->sample;
        s->cores = server->cores;
        s->value = r->value;
        s->at_ns = at_ns;
        s->is_error = r->is_error;
        s->is_silent = r->is_silent;
        memcpy(s->error, r->text, sizeof(s->error));
        (void)snprintf(s->tls, sizeof(s->tls), "%s", server->tls);
        if (box->is_full)
                return;
        ASSERT(p->ring_len < p->ring_size);
        p->ring[(p->ring_at + p->ring_len++) % p->ring_size] = box;
        box->is_full = true;
}

static bool is_lag(const struct target *t, size_t metric)
{
        return t->lag_mask >> metric & 1;
}

/* The mutex is held.  False: there is nothing to tell yet. */
static bool put_lag(struct probe *p, struct target *t, int64_t at_ns)
{
        static const struct server_words several = {"", 0};
        struct reading all;
        int64_t all_at_ns;
        if (!lag_combine(t->slots, t->options->n_replicas, t->options, &all, &all_at_ns))
                return false;
        for (size_t i = 0; i < t->options->n_metrics; i++)
                if (is_lag(t, i))
                        put(p, &t->boxes[i], &all, all.is_error ? at_ns : all_at_ns, &several);
        return true;
}

/* The mutex is held. */
static bool put_replica(struct worker *w, int64_t at_ns)
{
        struct target *t = w->target;
        struct lag_slot *slot = &t->slots[w->replica];
        slot->reading = w->readings[0];
        slot->at_ns = at_ns;
        slot->is_known = true;
        return put_lag(w->probe, t, at_ns);
}

static void post(struct worker *w, int64_t at_ns)
{
        struct probe *p = w->probe;
        bool is_news = false;
        const char *tls = w->is_connected && w->ops->tls ? w->ops->tls(w->prober) : NULL;
        const struct server_words server = {tls ? tls : "",
                                            w->ops->cores ? w->ops->cores(w->prober) : 0};
        (void)pthread_mutex_lock(&p->mutex); /* cannot fail: not recursive, always valid */
        if (w->replica != SIZE_MAX) {
                is_news = put_replica(w, at_ns);
        } else {
                for (size_t i = 0; i < w->n_readings; i++) {
                        if (w->readings[i].is_skipped || is_lag(w->target, i))
                                continue;
                        put(p, &w->target->boxes[i], &w->readings[i], at_ns, &server);
                        is_news = true;
                }
        }
        (void)pthread_mutex_unlock(&p->mutex);
        if (is_news && p->notify)
                p->notify(p->ctx);
}

static bool is_skipped(const struct sql_server *s, const char *const *hosts, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (server_is_called(s, hosts[i]))
                        return true;
        return false;
}

/* The mutex is held.  True when it is another than before for one of its replicas. */
static bool mark_skipped(struct target *t, const char *const *hosts, size_t n)
{
        bool is_changed = false;
        for (size_t i = 0; i < t->options->n_replicas; i++) {
                bool is = is_skipped(&t->options->replicas[i], hosts, n);
                is_changed |= is != t->slots[i].is_skipped;
                t->slots[i].is_skipped = is;
        }
        return is_changed;
}

void probe_set_skipped(struct probe *p, const char *const *hosts, size_t n)
{
        bool is_news = false;
        (void)pthread_mutex_lock(&p->mutex);
        for (size_t i = 0; i < p->n_targets; i++) {
                struct target *t = &p->targets[i];
                if (mark_skipped(t, hosts, n) && t->lag_mask)
                        is_news |= put_lag(p, t, clock_boot_ns());
        }
        (void)pthread_mutex_unlock(&p->mutex);
        if (is_news && p->notify)
                p->notify(p->ctx);
}

/* The mutex is held. */
static void probe_check(const struct probe *p)
{
        ASSERT(p->ring_len <= p->ring_size &&
               (p->ring_at < p->ring_size || !p->ring_len)); /* (1) */
        for (size_t i = 0; i < p->ring_len; i++)
                ASSERT(p->ring[(p->ring_at + i) % p->ring_size]->is_full); /* (2) */
}

size_t probe_take(struct probe *p, struct probe_sample *ret, size_t max)
{
        size_t n = 0;
        (void)pthread_mutex_lock(&p->mutex);
        if (IS_CHECKED)
                probe_check(p);
        while (n < max && p->ring_len) {
                struct sample_box *box = p->ring[p->ring_at];
                p->ring_at = (p->ring_at + 1) % p->ring_size;
                p->ring_len--;
                box->is_full = false;
                ret[n++] = box->sample;
        }
        (void)pthread_mutex_unlock(&p->mutex);
        return n;
}

/* ---- a thread ---- */

static void fail_all(struct worker *w)
{
        for (size_t i = 0; i < w->n_readings; i++)
                w->readings[i] = w->why;
}

/* False when there is no connection; the readings say why. */
static bool connect_worker(struct worker *w, const struct sql_wait *wait)
{
        struct problem problem = {0};
        if (!w->ops->connect || w->is_connected)
                return true;
        if (!rest_is_over(&w->rest, clock_boot_ns())) {
                fail_all(w);
                return false;
        }
        int r = w->ops->connect(w->prober, wait, &problem);
        w->is_connected = r == OK;
        if (w->is_connected)
                return true;
        reading_fail(&w->why, "%s", problem.detail);
        w->why.is_silent = is_silence(r);
        fail_all(w);
        rest_begin(&w->rest, clock_boot_ns());
        return false;
}

static void disconnect_worker(struct worker *w)
{
        if (w->is_connected)
                w->ops->disconnect(w->prober);
        w->is_connected = false;
}

static int sample(struct worker *w, const struct sql_wait *wait)
{
        for (size_t i = 0; i < w->n_readings; i++)
                w->readings[i] = (struct reading){.is_skipped = true};
        return w->ops->sample(w->prober, wait, w->readings);
}

/* Why nothing more is asked for a while: the first error of this tick. */
static void begin_rest(struct worker *w)
{
        reading_fail(&w->why, "no answer");
        w->why.is_silent = true;
        for (size_t i = w->n_readings; i-- > 0;)
                if (w->readings[i].is_error)
                        w->why = w->readings[i];
        rest_begin(&w->rest, clock_boot_ns());
}

/* One tick, except for posting what came of it. */
static void take_sample(struct worker *w)
{
        const struct probe_options *o = w->target->options;
        struct sql_wait wait = {
                .stop_fd = w->probe->stop_fd,
                .deadline_ns = clock_boot_ns() + o->timeout_ms * NS_PER_MS,
                .timeout_ms = o->timeout_ms,
        };
        bool was_connected = w->is_connected;
        if (!connect_worker(w, &wait))
                return;
        int r = sample(w, &wait);
        if (r == ERR_IO && was_connected) {
                disconnect_worker(w);
                if (!connect_worker(w, &wait))
                        return;
                r = sample(w, &wait);
        }
        if (r == OK) {
                w->rest = (struct rest){0};
                return;
        }
        if (w->ops->connect)
                begin_rest(w);
        disconnect_worker(w);
}

static int64_t pause_ns(struct worker *w)
{
        const struct probe_options *o = w->target->options;
        int64_t after_ms = o->hibernate_after_ms ? o->hibernate_after_ms : HIBERNATE_MS;
        int64_t every_ms = o->hibernate_every_ms ? o->hibernate_every_ms : HIBERNATE_EVERY_MS;
        /* Set before looking: a caller that asks after the look sees it and wakes this thread. */
        atomic_store(&w->is_asleep, true);
        bool is_idle = clock_boot_ns() - atomic_load(&w->probe->asked_ns) >= after_ms * NS_PER_MS;
        if (!is_idle)
                atomic_store(&w->is_asleep, false);
        return (is_idle && every_ms > o->interval_ms ? every_ms : o->interval_ms) * NS_PER_MS;
}

/* Until the next tick; false when it is time to stop.  Ticks keep their beat as long as they are
 * shorter than the interval. */
static bool wait_for_tick(struct worker *w, int64_t began_ns)
{
        struct sql_wait wait = {.stop_fd = w->probe->stop_fd,
                                .deadline_ns = began_ns + pause_ns(w)};
        uint64_t unused;
        int r = wait_for(&wait, w->wake_fd, POLLIN, NULL);
        if (r == ERR_TIMEOUT) { /* late already?  Stopping comes first all the same. */
                struct pollfd stop = {.fd = wait.stop_fd, .events = POLLIN};
                if (poll(&stop, 1, 0) > 0)
                        r = ERR_STOPPING;
        }
        if (r == OK && read(w->wake_fd, &unused, sizeof(unused)) < 0)
                ASSERT(errno == EAGAIN);
        atomic_store(&w->is_asleep, false);
        return r != ERR_STOPPING;
}

static void *worker_thread(void *ctx)
{
        struct worker *w = ctx;
        int64_t began_ns;
        do {
                began_ns = clock_boot_ns();
                take_sample(w);
                post(w, clock_boot_ns());
        } while (wait_for_tick(w, began_ns));
        disconnect_worker(w);
        (void)pthread_mutex_lock(&w->probe->mutex);
        w->is_ended = true;
        (void)pthread_cond_signal(&w->probe->ended);
        (void)pthread_mutex_unlock(&w->probe->mutex);
        return NULL;
}

void probe_asked(struct probe *p)
{
        uint64_t one = 1;
        atomic_store(&p->asked_ns, clock_boot_ns());
        for (size_t i = 0; i < p->n_workers; i++) {
                struct worker *w = &p->workers[i];
                if (atomic_load_explicit(&w->is_asleep, memory_order_seq_cst) &&
                    atomic_exchange(&w->is_asleep, false) &&
                    write(w->wake_fd, &one, sizeof(one)) < 0)
                        ASSERT(errno == EAGAIN); /* it has been told very often */
        }
}

/* ---- start and stop ---- */

_Static_assert(PROBE_METRICS_MAX <= 32, "a bit for each");

static uint32_t find_lags(const struct probe_options *o)
{
        uint32_t mask = 0;
        for (size_t i = 0; o->n_replicas && i < o->n_metrics; i++)
                if (strcmp(metric_source(&o->metrics[i]), "replication_lag") == 0)
                        mask |= 1U << i;
        return mask;
}

static void add_worker(struct probe *p, struct target *t, size_t replica)
{
        const struct probe_options *o = t->options;
        bool is_replica = replica != SIZE_MAX;
        struct worker *w = &p->workers[p->n_workers++];
        *w = (struct worker){
                .probe = p,
                .target = t,
                .replica = replica,
                .ops = kinds[o->kind].ops,
                .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                .n_readings = is_replica ? 1 : o->n_metrics,
        };
        w->readings = xcalloc(w->n_readings, sizeof(*w->readings));
        w->prober = w->ops->open(o, is_replica ? &o->replicas[replica] : &o->primary, is_replica);
}

static void add_target(struct probe *p, const struct probe_options *o)
{
        size_t index = p->n_targets++;
        struct target *t = &p->targets[index];
        ASSERT(o->n_metrics > 0 && o->n_metrics <= PROBE_METRICS_MAX);
        ASSERT(o->interval_ms > 0 && o->timeout_ms > 0);
        *t = (struct target){
                .options = o,
                .boxes = xcalloc(o->n_metrics, sizeof(*t->boxes)),
                .slots = xcalloc(o->n_replicas + 1, sizeof(*t->slots)),
                .lag_mask = find_lags(o),
        };
        for (size_t i = 0; i < o->n_metrics; i++)
                t->boxes[i].sample = (struct probe_sample){.target = index, .metric = i};
        p->ring_size += o->n_metrics;
        add_worker(p, t, SIZE_MAX);
        for (size_t i = 0; t->lag_mask && i < o->n_replicas; i++) {
                t->slots[i].name = o->replicas[i].name ? o->replicas[i].name : o->replicas[i].host;
                add_worker(p, t, i);
        }
}

static struct probe *free_all(struct probe *p)
{
        for (size_t i = 0; i < p->n_workers; i++) {
                struct worker *w = &p->workers[i];
                w->ops->close(w->prober);
                if (w->wake_fd >= 0)
                        (void)close(w->wake_fd);
                free(w->readings);
        }
        for (size_t i = 0; i < p->n_targets; i++) {
                free(p->targets[i].boxes);
                free(p->targets[i].slots);
        }
        if (p->stop_fd >= 0)
                (void)close(p->stop_fd);
        (void)pthread_mutex_destroy(&p->mutex);
        (void)pthread_cond_destroy(&p->ended);
        free(p->workers);
        free(p->targets);
        free(p->ring);
        free(p);
        return NULL;
}

/* Signals belong to the loop. */
static int start_threads(struct probe *p)
{
        sigset_t all, old;
        int r = 0;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        for (size_t i = 0; !r && i < p->n_workers; i++) {
                struct worker *w = &p->workers[i];
                r = w->wake_fd < 0 ? EMFILE : pthread_create(&w->thread, NULL, worker_thread, w);
                w->is_started = r == 0;
        }
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        return r;
}

/* None of these can fail with glibc. */
static void init_locks(struct probe *p)
{
        pthread_condattr_t attr;
        (void)pthread_condattr_init(&attr);
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&p->ended, &attr);
        (void)pthread_condattr_destroy(&attr);
        (void)pthread_mutex_init(&p->mutex, NULL);
}

int probe_start(const struct probe_options *targets, size_t n, void (*notify)(void *ctx), void *ctx,
                struct probe **ret, struct problem *problem)
{
        struct probe *p = xcalloc(1, sizeof(*p));
        size_t n_workers = n;
        for (size_t i = 0; i < n; i++)
                n_workers += targets[i].n_replicas;
        p->notify = notify;
        p->ctx = ctx;
        p->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        p->workers = xcalloc(n_workers + 1, sizeof(*p->workers));
        p->targets = xcalloc(n + 1, sizeof(*p->targets));
        atomic_init(&p->asked_ns, clock_boot_ns());
        init_locks(p);
        http_prober_setup();
        tls_setup();
        for (size_t i = 0; i < n; i++)
                add_target(p, &targets[i]);
        p->ring = xcalloc(p->ring_size + 1, sizeof(struct sample_box *));
        int r = p->stop_fd < 0 ? EMFILE : start_threads(p);
        if (r) {
                (void)probe_stop(p); /* NULL */
                return problem_set(problem, ERR_UNAVAIL, "cannot start the probes: %s",
                                   strerror(r));
        }
        *ret = p;
        return OK;
}

/* Waits until the thread has ended; false when it is too late for that. */
static bool join(struct worker *w, const struct timespec *until)
{
        struct probe *p = w->probe;
        (void)pthread_mutex_lock(&p->mutex);
        while (!w->is_ended && pthread_cond_timedwait(&p->ended, &p->mutex, until) != ETIMEDOUT)
                ;
        bool is_ended = w->is_ended;
        (void)pthread_mutex_unlock(&p->mutex);
        if (is_ended)
                (void)pthread_join(w->thread, NULL); /* at once: it has nothing left to do */
        return is_ended;
}

static struct timespec stop_deadline(const struct probe *p)
{
        struct timespec until;
        int64_t ms = 0;
        for (size_t i = 0; i < p->n_targets; i++)
                if (p->targets[i].options->timeout_ms > ms)
                        ms = p->targets[i].options->timeout_ms;
        (void)clock_gettime(CLOCK_MONOTONIC, &until); /* always there */
        int64_t ns = until.tv_nsec + (ms + STOP_GRACE_MS) * NS_PER_MS;
        until.tv_sec += ns / NS_PER_S;
        until.tv_nsec = ns % NS_PER_S;
        return until;
}

struct probe *probe_stop(struct probe *p)
{
        uint64_t one = 1;
        bool is_all = true;
        if (!p)
                return NULL;
        struct timespec until = stop_deadline(p);
        if (p->stop_fd >= 0 && write(p->stop_fd, &one, sizeof(one)) < 0)
                ASSERT(errno == EAGAIN);
        for (size_t i = 0; i < p->n_workers; i++) {
                struct worker *w = &p->workers[i];
                if (!w->is_started || join(w, &until))
                        continue;
                is_all = false;
                say_warn("probe", "does not end and is left behind", "target",
                         w->target->options->name);
        }
        return is_all ? free_all(p) : NULL; /* a thread that is left still uses it */
}
