/* A thread of the proxy: an epoll loop over the connections that were given to it.
 *
 * The first thread also accepts, and gives each connection to the thread that has fewest: a hash of
 * the kernel's over a few long-lived connections would be uneven. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proxy/proxy_int.h"

#define EVENTS_MAX 128
#define ACCEPT_MAX 64 /* of one event */
#define LOOK_NS    NS_PER_S

/* ---- mail ---- */

static struct pair *take_arrival(struct worker *w)
{
        struct pair *c = NULL;
        (void)pthread_mutex_lock(&w->mail_lock);
        if (!list_is_empty(&w->arrivals)) {
                c = CONTAINER_OF(list_peek_front(&w->arrivals), struct pair, link);
                list_remove(&c->link);
        }
        (void)pthread_mutex_unlock(&w->mail_lock);
        return c;
}

static struct pair *take_decided(struct worker *w, struct admit_answer **ret)
{
        struct pair *c = NULL;
        (void)pthread_mutex_lock(&w->mail_lock);
        if (!list_is_empty(&w->mail)) {
                c = CONTAINER_OF(list_peek_front(&w->mail), struct pair, mail);
                list_remove(&c->mail);
                *ret = c->decision;
                c->decision = NULL;
        }
        (void)pthread_mutex_unlock(&w->mail_lock);
        return c;
}

static struct kill_order *take_kills(struct worker *w)
{
        (void)pthread_mutex_lock(&w->mail_lock);
        struct kill_order *kills = w->kills;
        w->kills = NULL;
        (void)pthread_mutex_unlock(&w->mail_lock);
        return kills;
}

static void run_kills(struct worker *w)
{
        for (struct kill_order *k = take_kills(w), *next; k; k = next) {
                next = k->next;
                for (struct list *i = w->conns.next; i != &w->conns; i = i->next) {
                        struct pair *c = CONTAINER_OF(i, struct pair, link);
                        if (c->door == k->door && c->thread_id == k->thread_id) {
                                pair_killed(c);
                                break;
                        }
                }
                free(k);
        }
}

static void take_mail(struct worker *w)
{
        struct admit_answer *answer = NULL;
        if (!atomic_load_explicit(&w->has_mail, memory_order_relaxed)) /* else the bell rings */
                return;
        atomic_store(&w->has_mail, false);
        for (struct pair *c; (c = take_arrival(w));)
                pair_begin(w, c);
        for (struct pair *c; (c = take_decided(w, &answer));) {
                pair_decide(c, answer);
                free(answer);
        }
        run_kills(w);
}

/* ---- accepting ---- */

static struct worker *least_busy(struct proxy *p)
{
        struct worker *best = &p->workers[0];
        for (unsigned i = 1; i < p->n_workers; i++)
                if (atomic_load(&p->workers[i].n_conns) < atomic_load(&best->n_conns))
                        best = &p->workers[i];
        return best;
}

/* Before a greeting an error has no SQLSTATE. */
static void turn_away(int fd, unsigned number, const char *text)
{
        struct buf out CLEANUP(buf_release) = {0};
        mysql_put_error(&out, 0, number, NULL, slice_str(text));
        (void)!send(fd, out.ptr, out.len, MSG_NOSIGNAL | MSG_DONTWAIT); /* a new socket takes it */
        (void)close(fd);
}

static bool has_room(struct door *d)
{
        (void)pthread_mutex_lock(&d->lock);
        uint32_t max = d->setup->max_connections;
        bool has = !max || d->n_connections < max;
        d->n_connections += has;
        d->accepted += has;
        d->refused += !has;
        (void)pthread_mutex_unlock(&d->lock);
        return has;
}

/* No file is left for it.  It must be taken off the queue all the same, or epoll would ring for
 * ever: with the one file that was kept for this. */
static bool accept_without_room(struct worker *w, const struct entrance *l)
{
        (void)close(w->spare_fd);
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
                turn_away(fd, 1040, "weir: Too many connections: no more files may be open");
        w->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return fd >= 0;
}

static bool accept_one(struct worker *w, struct entrance *l)
{
        struct sockaddr_storage peer = {0};
        socklen_t len = sizeof(peer);
        int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
                return accept_without_room(w, l);
        if (fd < 0)
                return errno == EINTR || errno == ECONNABORTED;
        if (atomic_load(&l->door->is_draining)) {
                turn_away(fd, 1053, "weir: this door takes no more connections: it is draining");
                return true;
        }
        if (!has_room(l->door)) {
                turn_away(fd, 1040, "weir: Too many connections: max_connections of this door");
                return true;
        }
        mail_arrival(least_busy(l->door->proxy), pair_new(l->door, fd, &peer));
        return true;
}

/* ---- the loop ---- */

static void handle(struct worker *w, const struct epoll_event *e)
{
        struct source *source = e->data.ptr;
        uint64_t n;
        switch (source->kind) {
        case SOURCE_WAKE:
                (void)!read(w->wake_fd, &n, sizeof(n)); /* nothing to read is fine */
                break;
        case SOURCE_ENTRANCE:
                for (int i = 0; i < ACCEPT_MAX; i++)
                        if (!accept_one(w, CONTAINER_OF(source, struct entrance, source)))
                                break;
                break;
        case SOURCE_CLIENT: {
                struct pair *c = CONTAINER_OF(source, struct pair, client.source);
                pair_ready(c, &c->client, e->events);
                break;
        }
        case SOURCE_SERVER: {
                struct pair *c = CONTAINER_OF(source, struct pair, server.source);
                pair_ready(c, &c->server, e->events);
                break;
        }
        }
}

/* Timeouts and draining; seconds are fine enough. */
static void look_at_all(struct worker *w)
{
        struct list *next;
        if (w->now_ns - w->looked_ns < LOOK_NS && !atomic_load(&w->proxy->is_stopping))
                return;
        w->looked_ns = w->now_ns;
        for (struct list *i = w->conns.next; i != &w->conns; i = next) {
                next = i->next;
                pair_look(CONTAINER_OF(i, struct pair, link));
        }
}

/* Doors whose admission this thread keeps. */
static void give_turns(struct worker *w)
{
        struct proxy *p = w->proxy;
        int64_t next_ns = INT64_MAX;
        if (atomic_load(&w->turn_ns) > w->now_ns)
                return;
        (void)pthread_mutex_lock(&p->list_lock);
        atomic_store(&w->turn_ns, INT64_MAX); /* who wants one sooner meanwhile says so again */
        for (size_t i = 0; i < p->n_doors; i++) {
                struct door *d = p->doors[i];
                if (d->keeper != w)
                        continue;
                (void)pthread_mutex_lock(&d->lock);
                if (d->turn_ns <= w->now_ns)
                        door_turn(d, w->now_ns);
                if (d->turn_ns < next_ns)
                        next_ns = d->turn_ns;
                (void)pthread_mutex_unlock(&d->lock);
        }
        (void)pthread_mutex_unlock(&p->list_lock);
        mail_want_turn(w, next_ns);
}

static int sleep_ms(const struct worker *w)
{
        int64_t next_ns = atomic_load(&w->turn_ns);
        int64_t ns = next_ns == INT64_MAX ? LOOK_NS : next_ns - w->now_ns;
        if (ns > LOOK_NS)
                ns = LOOK_NS;
        return ns <= 0 ? 0 : (int)((ns + NS_PER_MS - 1) / NS_PER_MS);
}

static void free_dead(struct worker *w)
{
        while (!list_is_empty(&w->dead)) {
                struct pair *c = CONTAINER_OF(list_peek_front(&w->dead), struct pair, link);
                list_remove(&c->link);
                pair_free(c);
        }
}

/* One batch of events, and everything that became due. */
static void work(struct worker *w, const struct epoll_event *events, int n)
{
        (void)pthread_mutex_lock(&w->lock);
        w->now_ns = clock_boot_ns();
        for (int i = 0; i < n; i++)
                handle(w, &events[i]);
        take_mail(w);
        look_at_all(w);
        give_turns(w);
        free_dead(w);
        (void)pthread_mutex_unlock(&w->lock);
}

static void *run(void *arg)
{
        struct worker *w = arg;
        struct epoll_event events[EVENTS_MAX];
        while (!atomic_load(&w->proxy->is_cut)) {
                int n = epoll_wait(w->epoll_fd, events, EVENTS_MAX, sleep_ms(w));
                ASSERT(n >= 0 || errno == EINTR);
                work(w, events, n);
        }
        return NULL;
}

/* ---- life ---- */

void worker_init(struct worker *w, struct proxy *p, unsigned number)
{
        w->proxy = p;
        w->number = number;
        w->wake.kind = SOURCE_WAKE;
        w->epoll_fd = w->wake_fd = -1;
        w->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        list_init(&w->conns);
        list_init(&w->dead);
        list_init(&w->mail);
        list_init(&w->arrivals);
        (void)pthread_mutex_init(&w->lock, NULL);
        (void)pthread_mutex_init(&w->mail_lock, NULL);
        atomic_store(&w->turn_ns, INT64_MAX);
        w->bytes = xmalloc(READ_BYTES);
}

int worker_start(struct worker *w, struct problem *problem)
{
        w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        int r = w->epoll_fd < 0 || w->wake_fd < 0 ? errno : 0;
        if (!r && mail_watch(w, w->wake_fd, &w->wake, EPOLLIN) != OK)
                r = errno;
        if (!r)
                r = pthread_create(&w->thread, NULL, run, w);
        if (r)
                return problem_set(problem, ERR_IO, "mysql: no thread could be made: %s",
                                   strerror(r));
        w->is_started = true;
        return OK;
}

void worker_join(struct worker *w)
{
        if (!w->is_started)
                return;
        mail_wake(w);
        (void)pthread_join(w->thread, NULL);
}

void worker_release(struct worker *w)
{
        while (!list_is_empty(&w->arrivals)) {
                struct pair *c = CONTAINER_OF(list_peek_front(&w->arrivals), struct pair, link);
                list_remove(&c->link);
                list_push_back(&w->conns, &c->link);
        }
        while (!list_is_empty(&w->conns))
                pair_close(CONTAINER_OF(list_peek_front(&w->conns), struct pair, link));
        free_dead(w);
        for (struct kill_order *k = w->kills, *next; k; k = next) {
                next = k->next;
                free(k);
        }
        free(w->bytes);
        if (w->epoll_fd >= 0)
                (void)close(w->epoll_fd);
        if (w->wake_fd >= 0)
                (void)close(w->wake_fd);
        if (w->spare_fd >= 0)
                (void)close(w->spare_fd);
        (void)pthread_mutex_destroy(&w->lock);
        (void)pthread_mutex_destroy(&w->mail_lock);
}
