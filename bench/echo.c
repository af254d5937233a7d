/* echo: what one request and its answer cost on this machine, without a disk and without work.
 *
 *   echo --seconds S
 *
 * A server that reads whatever came on 64 connections and then answers each, and a client that
 * sends its next request when it has the answer: the traffic of `64x1`, by the same system calls
 * as the generator and any server with an epoll.  No server that syncs can be faster than this.
 *
 * Threads: the server's and the client's, each with its own ends of the connections. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNS         64
#define REQUEST_BYTES 250 /* a 200-byte job with its words */
#define ANSWER_BYTES  50
#define WAIT_MS       100

static int served[CONNS], asking[CONNS];
static _Atomic bool is_over;
static double server_us;

static _Noreturn void fail(const char *what)
{
        fprintf(stderr, "echo: %s: %s\n", what, strerror(errno));
        exit(1);
}

static double clock_us(clockid_t which)
{
        struct timespec ts;
        clock_gettime(which, &ts);
        return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void connect_all(void)
{
        struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(sa);
        int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
        if (listener < 0 || bind(listener, (struct sockaddr *)&sa, len) != 0 ||
            getsockname(listener, (struct sockaddr *)&sa, &len) != 0 ||
            listen(listener, CONNS) != 0)
                fail("listen");
        for (int i = 0; i < CONNS; i++) {
                asking[i] = socket(AF_INET, SOCK_STREAM, 0);
                if (asking[i] < 0 || connect(asking[i], (struct sockaddr *)&sa, len) != 0)
                        fail("connect");
                served[i] = accept(listener, NULL, NULL);
                if (served[i] < 0 ||
                    setsockopt(served[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
                    setsockopt(asking[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
                        fail("accept");
        }
        close(listener);
}

static int watch_all(const int *fds)
{
        int epoll = epoll_create1(0);
        for (int i = 0; i < CONNS; i++) {
                struct epoll_event ev = {.events = EPOLLIN, .data.fd = fds[i]};
                if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &ev) != 0)
                        fail("epoll");
        }
        return epoll;
}

/* Messages are small and one is under way on a connection, so each is whole. */
static void take(int fd)
{
        char room[4096];
        if (recv(fd, room, sizeof(room), 0) <= 0)
                fail("recv");
}

static void give(int fd, size_t bytes)
{
        static const char zeros[REQUEST_BYTES];
        if (send(fd, zeros, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
                fail("send");
}

/* Like one that syncs: all that came is read first, then all are answered. */
static void *serve(void *unused)
{
        struct epoll_event events[CONNS];
        int epoll = watch_all(served);
        double began_us = clock_us(CLOCK_THREAD_CPUTIME_ID);
        while (!is_over) {
                int n = epoll_wait(epoll, events, CONNS, WAIT_MS);
                for (int i = 0; i < n; i++)
                        take(events[i].data.fd);
                for (int i = 0; i < n; i++)
                        give(events[i].data.fd, ANSWER_BYTES);
        }
        server_us = clock_us(CLOCK_THREAD_CPUTIME_ID) - began_us;
        return unused;
}

static void ask(double seconds)
{
        struct epoll_event events[CONNS];
        pthread_t server;
        int epoll = watch_all(asking);
        uint64_t ops = 0;
        if (pthread_create(&server, NULL, serve, NULL) != 0)
                fail("thread");
        double began_us = clock_us(CLOCK_MONOTONIC), cpu_us = clock_us(CLOCK_THREAD_CPUTIME_ID);
        double now_us = began_us;
        for (int i = 0; i < CONNS; i++)
                give(asking[i], REQUEST_BYTES);
        for (; now_us - began_us < seconds * 1e6; now_us = clock_us(CLOCK_MONOTONIC)) {
                int n = epoll_wait(epoll, events, CONNS, WAIT_MS);
                for (int i = 0; i < n; i++) {
                        take(events[i].data.fd);
                        ops++;
                        give(events[i].data.fd, REQUEST_BYTES);
                }
        }
        cpu_us = clock_us(CLOCK_THREAD_CPUTIME_ID) - cpu_us;
        is_over = true;
        pthread_join(server, NULL);
        printf("{\"work\":\"echo\",\"ops\":%" PRIu64 ",\"seconds\":%.6f,\"server_us\":%.1f,"
               "\"generator_us\":%.1f}\n",
               ops, (now_us - began_us) / 1e6, server_us, cpu_us);
}

int main(int argc, char **argv)
{
        static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
                                                {NULL, 0, NULL, 0}};
        double seconds = 0;
        int c;
        while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
                seconds = c == 's' ? strtod(optarg, NULL) : 0;
        if (seconds <= 0 || optind != argc) {
                fprintf(stderr, "usage: echo --seconds S\n");
                return 2;
        }
        connect_all();
        ask(seconds);
        return 0;
}
