/* ping: another client of a weir that is busy with something else, and how long it waits.
 *
 *   ping --port N
 *
 * Sends PING, waits for the answer, pauses for GAP_US and sends the next one, until its standard
 * input ends; then one line of JSON comes out.  The pause leaves the server's core to what it is
 * busy with, and is short beside a wait that somebody would feel.  A process of its own in C:
 * threads of an interpreter wait for each other for milliseconds. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sample.h"

#define GAP_US     200
#define SILENCE_MS 30000
#define BUCKET_NS  10000 /* waits are counted to 10 us, up to 2 s; the longest one exactly */
#define BUCKETS    200000
#define SLOW_NS    5000000

static uint64_t counts[BUCKETS], n_pings, n_slow;
static int64_t longest_ns;

static int connect_to(unsigned port)
{
        struct sockaddr_in sa = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
                die("cannot connect to port %u: %s", port, strerror(errno));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        return fd;
}

/* False once the standard input has ended. */
static bool pause_a_little(void)
{
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        struct timespec gap = {.tv_nsec = GAP_US * 1000L};
        return ppoll(&input, 1, &gap, NULL) == 0;
}

static int64_t one_ping(int fd)
{
        static const char request[] = "*1\r\n$4\r\nPING\r\n", answer[] = "+PONG\r\n";
        char in[sizeof(answer)];
        size_t got = 0;
        int64_t began = now_ns();
        if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1)
                die("send: %s", strerror(errno));
        while (got < sizeof(answer) - 1) {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                if (poll(&p, 1, SILENCE_MS) == 0)
                        die("no answer for %d s", SILENCE_MS / 1000);
                ssize_t n = recv(fd, in + got, sizeof(in) - got, 0);
                if (n <= 0)
                        die("the server closed");
                got += (size_t)n;
        }
        int64_t took = now_ns() - began;
        if (got != sizeof(answer) - 1 || memcmp(in, answer, got) != 0)
                die("not PONG: %.*s", (int)got, in);
        return took;
}

static void count(int64_t ns)
{
        int64_t bucket = ns / BUCKET_NS;
        counts[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
        n_pings++;
        n_slow += ns > SLOW_NS;
        longest_ns = ns > longest_ns ? ns : longest_ns;
}

static double percentile_us(double part)
{
        uint64_t below = 0;
        for (size_t i = 0; i < BUCKETS; i++) {
                below += counts[i];
                if ((double)below > part * (double)n_pings)
                        return (double)(i + 1) * BUCKET_NS / 1e3;
        }
        return (double)longest_ns / 1e3;
}

int main(int argc, char **argv)
{
        if (argc != 3 || strcmp(argv[1], "--port") != 0)
                die("usage: ping --port N");
        int fd = connect_to((unsigned)strtoul(argv[2], NULL, 10));
        while (pause_a_little())
                count(one_ping(fd));
        printf("{\"pings\":%" PRIu64 ",\"over_5ms\":%" PRIu64 ",\"p50_us\":%.0f,\"p99_us\":%.0f,"
               "\"max_us\":%.1f}\n",
               n_pings, n_slow, percentile_us(0.5), percentile_us(0.99), (double)longest_ns / 1e3);
        close(fd);
        return 0;
}
