#include "proxy/health.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy/proxy_int.h"

#define KNOCK_MS      1000
#define KNOCK_WAIT_MS 500
#define LOOK_UP_NS    (60 * NS_PER_S)

struct health {
        struct proxy *proxy;
        pthread_t thread;
        int wake_fd;
        atomic_bool is_stopping;
        int64_t looked_up_ns;
};

void health_poke(struct health *h)
{
        uint64_t one = 1;
        if (h)
                (void)!write(h->wake_fd, &one, sizeof(one)); /* full is as good */
}

/* ---- where a server is ---- */

static bool put_path(const char *path, struct server_address *ret)
{
        struct sockaddr_un *un = (struct sockaddr_un *)&ret->any;
        if (strlen(path) >= sizeof(un->sun_path))
                return false;
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, path, strlen(path) + 1);
        ret->len = sizeof(*un);
        return true;
}

/* The first address that answers, else the first of all.  NULL or why there is none. */
static const char *look_up(const struct setup *s, struct server_address *ret)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
        *ret = (struct server_address){.len = 0};
        if (!s->server_host)
                return put_path(s->server, ret) ? NULL : "the path is too long";
        int r = getaddrinfo(s->server_host, s->server_port, &hints, &found);
        if (r != 0)
                return gai_strerror(r);
        memcpy(&ret->any, found->ai_addr, found->ai_addrlen);
        ret->len = found->ai_addrlen;
        freeaddrinfo(found);
        return NULL;
}

/* NULL: somebody listens there. */
static const char *knock(const struct server_address *to)
{
        int fd = socket(to->any.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int error = 0;
        socklen_t len = sizeof(error);
        if (fd < 0)
                return strerror(errno);
        if (connect(fd, (const struct sockaddr *)&to->any, to->len) != 0) {
                struct pollfd p = {.fd = fd, .events = POLLOUT};
                error = errno;
                if (error == EINPROGRESS)
                        error = poll(&p, 1, KNOCK_WAIT_MS) == 1 ? 0 : ETIMEDOUT;
                if (!error)
                        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
        }
        (void)close(fd);
        return error ? strerror(error) : NULL;
}

/* ---- doors ---- */

static void tell(struct door *d, const struct setup *s, const struct server_address *at,
                 const char *why)
{
        (void)pthread_mutex_lock(&d->lock);
        if (d->setup == s) { /* a reload may have named another server */
                d->looked_up = s;
                if (at->len)
                        d->server = *at;
                (void)snprintf(d->problem, sizeof(d->problem), "%s%s%s", why ? s->server : "",
                               why ? ": " : "", why ? why : "");
        }
        (void)pthread_mutex_unlock(&d->lock);
}

static void look_at(struct door *d, bool is_due)
{
        struct server_address at;
        (void)pthread_mutex_lock(&d->lock);
        bool is_away = d->problem[0];
        bool is_new = d->looked_up != d->setup;
        struct setup *s = setup_ref(d->setup);
        (void)pthread_mutex_unlock(&d->lock);
        if (is_away || is_new || is_due) {
                const char *why = look_up(s, &at);
                if (!why && is_away)
                        why = knock(&at);
                tell(d, s, &at, why);
        }
        setup_unref(s);
}

/* Doors are freed only with the proxy, after this thread. */
void health_look(struct door *d)
{
        look_at(d, true);
}

static bool look_at_all(struct health *h)
{
        struct proxy *p = h->proxy;
        struct door *doors[TRAFFIC_DOORS_MAX];
        int64_t now_ns = clock_boot_ns();
        bool is_due = now_ns - h->looked_up_ns >= LOOK_UP_NS, has_trouble = false;
        (void)pthread_mutex_lock(&p->list_lock);
        size_t n = p->n_doors;
        memcpy(doors, p->doors, sizeof(doors));
        (void)pthread_mutex_unlock(&p->list_lock);
        if (is_due)
                h->looked_up_ns = now_ns;
        for (size_t i = 0; i < n; i++) {
                look_at(doors[i], is_due);
                (void)pthread_mutex_lock(&doors[i]->lock);
                has_trouble |= doors[i]->problem[0] != '\0';
                (void)pthread_mutex_unlock(&doors[i]->lock);
        }
        return has_trouble;
}

static void *run(void *arg)
{
        struct health *h = arg;
        while (!atomic_load(&h->is_stopping)) {
                bool has_trouble = look_at_all(h);
                struct pollfd p = {.fd = h->wake_fd, .events = has_trouble ? 0 : POLLIN};
                uint64_t n;
                (void)poll(&p, 1, has_trouble ? KNOCK_MS : (int)(LOOK_UP_NS / NS_PER_MS));
                (void)!read(h->wake_fd, &n, sizeof(n));
        }
        return NULL;
}

/* ---- life ---- */

int health_new(struct proxy *p, struct health **ret, struct problem *problem)
{
        struct health *h = xcalloc(1, sizeof(*h));
        h->proxy = p;
        h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        int r = h->wake_fd < 0 ? errno : pthread_create(&h->thread, NULL, run, h);
        if (r != 0) {
                if (h->wake_fd >= 0)
                        (void)close(h->wake_fd);
                free(h);
                return problem_set(problem, ERR_IO, "mysql: no thread could be made: %s",
                                   strerror(r));
        }
        *ret = h;
        return OK;
}

struct health *health_free(struct health *h)
{
        if (!h)
                return NULL;
        atomic_store(&h->is_stopping, true);
        health_poke(h);
        (void)pthread_join(h->thread, NULL);
        (void)close(h->wake_fd);
        free(h);
        return NULL;
}
