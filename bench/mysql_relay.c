/* mysql_relay: copies bytes between clients and one server and looks at none of them.
 *
 *   mysql_relay --server PORT [--listen PORT] [--threads N]
 *
 * This is the yardstick for the MySQL door: a user-space proxy between two TCP connections cannot
 * cost less than this.  It prints `ready PORT` when it listens and runs until a signal ends it.
 *
 * Each client connection gets one server connection; both stay on one thread.  A thread waits in a
 * level-triggered epoll, reads, and writes at once; it waits for room only after a short write.
 * That makes four system calls for a request and its reply, plus the waits, which many connections
 * share.
 *
 * Threads: the main thread accepts and deals the pairs out in turn, through a pipe to each thread.
 * After that only the thread of a pair touches it. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arg.h"
#include "sample.h"

#define THREADS_MAX  64
#define BACKLOG      1024
#define BUFFER_BYTES 16384
#define EVENTS_MAX   128

struct pair;

/* One of the two connections of a pair. */
struct end {
        struct pair *pair;
        struct end *other;
        int fd;
        uint32_t events;      /* what epoll watches this end for */
        size_t held_at, held; /* bytes read from this end that the other one did not take yet */
        char buffer[BUFFER_BYTES];
};

struct pair {
        struct end client, server;
        struct pair *next_dead; /* freed when the turn is over: events of it may still follow */
        bool is_dead;
};

/* A thread that relays. */
struct relay {
        int epoll;
        int pairs_in, pairs_out; /* a pipe of pointers to new pairs */
};

static struct relay relays[THREADS_MAX];

static void watch(int epoll, struct end *e, uint32_t events)
{
        if (e->events == events)
                return;
        e->events = events;
        struct epoll_event ev = {.events = events, .data.ptr = e};
        if (epoll_ctl(epoll, EPOLL_CTL_MOD, e->fd, &ev) != 0)
                die("epoll: %s", strerror(errno));
}

/* What each end waits for follows from what is held: an end is read only while nothing that came
 * from it is held, and waits for room while something for it is. */
static void watch_both(int epoll, struct pair *p)
{
        struct end *ends[] = {&p->client, &p->server};
        for (size_t i = 0; i < 2; i++) {
                uint32_t in = ends[i]->held ? 0 : EPOLLIN;
                uint32_t out = ends[i]->other->held ? EPOLLOUT : 0;
                watch(epoll, ends[i], in | out);
        }
}

/* Writes what came from `from` to the other end.  Returns false when the connection is over. */
static bool give(struct end *from)
{
        while (from->held > 0) {
                ssize_t n = send(from->other->fd, from->buffer + from->held_at, from->held,
                                 MSG_NOSIGNAL);
                if (n < 0)
                        return errno == EAGAIN || errno == EINTR;
                from->held_at += (size_t)n;
                from->held -= (size_t)n;
        }
        return true;
}

/* One read.  A reply that is longer than the buffer comes with the next turn. */
static bool take(struct end *from)
{
        ssize_t n = recv(from->fd, from->buffer, sizeof(from->buffer), 0);
        if (n == 0)
                return false;
        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        from->held_at = 0;
        from->held = (size_t)n;
        return give(from);
}

/* Returns false when the connection is over. */
static bool serve(struct end *e, uint32_t events)
{
        if ((events & EPOLLOUT) && e->other->held && !give(e->other))
                return false;
        if (e->held)
                return !(events & (EPOLLERR | EPOLLHUP));
        return take(e);
}

static void add(int epoll, int fd, void *ptr)
{
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ptr};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
                die("epoll: %s", strerror(errno));
}

static void take_pair(struct relay *r)
{
        struct pair *p;
        if (read(r->pairs_in, &p, sizeof(void *)) != sizeof(void *))
                die("pipe: %s", strerror(errno));
        add(r->epoll, p->client.fd, &p->client);
        add(r->epoll, p->server.fd, &p->server);
}

static void free_all(struct pair *dead)
{
        while (dead) {
                struct pair *next = dead->next_dead;
                free(dead);
                dead = next;
        }
}

static void *run_relay(void *arg)
{
        struct relay *r = arg;
        struct epoll_event events[EVENTS_MAX];
        for (;;) {
                struct pair *dead = NULL;
                int n = epoll_wait(r->epoll, events, EVENTS_MAX, -1);
                for (int i = 0; i < n; i++) {
                        struct end *e = events[i].data.ptr;
                        if (!e) {
                                take_pair(r);
                                continue;
                        }
                        struct pair *p = e->pair;
                        if (p->is_dead)
                                continue;
                        if (serve(e, events[i].events)) {
                                watch_both(r->epoll, p);
                                continue;
                        }
                        close(p->client.fd);
                        close(p->server.fd);
                        p->is_dead = true;
                        p->next_dead = dead;
                        dead = p;
                }
                free_all(dead);
        }
        return NULL;
}

static void end_init(struct end *e, struct end *other, struct pair *p, int fd)
{
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        e->pair = p;
        e->other = other;
        e->fd = fd;
        e->events = EPOLLIN;
        e->held = 0;
}

/* The server's end connects in the background; a failure arrives as an event. */
static void start_pair(int client, const struct sockaddr_in *server, const struct relay *r)
{
        struct pair *p = malloc(sizeof(*p));
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (!p || fd < 0)
                die("no room for a connection: %s", strerror(errno));
        if (connect(fd, (const struct sockaddr *)server, sizeof(*server)) != 0 &&
            errno != EINPROGRESS) {
                close(fd);
                close(client);
                free(p);
                return;
        }
        p->is_dead = false;
        end_init(&p->client, &p->server, p, client);
        end_init(&p->server, &p->client, p, fd);
        if (write(r->pairs_out, &p, sizeof(void *)) != sizeof(void *))
                die("pipe: %s", strerror(errno));
}

static int listen_on(unsigned port)
{
        struct sockaddr_in sa = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = htons((uint16_t)port)};
        socklen_t len = sizeof(sa);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
            bind(fd, (struct sockaddr *)&sa, len) != 0 || listen(fd, BACKLOG) != 0 ||
            getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
                die("listen: %s", strerror(errno));
        printf("ready %u\n", ntohs(sa.sin_port));
        fflush(stdout);
        return fd;
}

static void start_threads(unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                struct relay *r = &relays[i];
                pthread_t thread;
                int pipe_fds[2];
                r->epoll = epoll_create1(EPOLL_CLOEXEC);
                if (r->epoll < 0 || pipe2(pipe_fds, O_CLOEXEC) != 0)
                        die("no thread: %s", strerror(errno));
                r->pairs_in = pipe_fds[0];
                r->pairs_out = pipe_fds[1];
                add(r->epoll, r->pairs_in, NULL);
                if (pthread_create(&thread, NULL, run_relay, r) != 0)
                        die("no thread: %s", strerror(errno));
                pthread_detach(thread);
        }
}

int main(int argc, char **argv)
{
        static const struct option options[] = {{"server", required_argument, NULL, 's'},
                                                {"listen", required_argument, NULL, 'l'},
                                                {"threads", required_argument, NULL, 't'},
                                                {NULL, 0, NULL, 0}};
        unsigned server_port = 0, port = 0, threads = 2, turn = 0;
        int opt;
        while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (opt == 's')
                        server_port = number_arg(optarg, 1, 65535);
                else if (opt == 'l')
                        port = number_arg(optarg, 0, 65535);
                else if (opt == 't')
                        threads = number_arg(optarg, 1, THREADS_MAX);
                else
                        return 2;
        }
        if (!server_port || optind != argc)
                die("--server is needed, and nothing but options");
        struct sockaddr_in server = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                     .sin_port = htons((uint16_t)server_port)};
        start_threads(threads);
        for (int listener = listen_on(port);;) {
                int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (client >= 0)
                        start_pair(client, &server, &relays[turn++ % threads]);
                else if (errno != EINTR && errno != ECONNABORTED)
                        die("accept: %s", strerror(errno));
        }
}
