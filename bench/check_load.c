/* check_load: asks a server whether it may go, over and over, by RESP or by HTTP.
 *
 *   check_load --port N (--resp "CHECK a:b" | --get /path) [--conns N] [--depth N] [--rate N]
 *              [--seconds S] [--warm S] [--pid PID] [--writers N --write-port N]
 *
 * Without a rate each connection keeps `depth` asks under way, all written at once when the last
 * answer of the batch is in: what is measured is how many there are in a second.
 *
 * With a rate the asks leave at their times, whatever became of those before (an open loop), and a
 * latency counts from the time at which the ask was due.  A server that stands still for 10 ms then
 * shows 10 ms to every ask that was due meanwhile; a generator that waits for its answer before it
 * sends the next one, as wrk does, would have sent one only.  It does not sleep: it has a core of
 * its own, and a timer would be late by more than what is measured.
 *
 * Writers are connections beside it that enqueue one job after the other, each on disk before it is
 * answered.  No ask may wait for the disk, so the asks must not be later with writers than without.
 *
 * One line of JSON comes out.  Every answer is looked at: one that is no grant ends the program. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arg.h"
#include "sample.h"

#define CONNS_MAX   1024
#define DEPTH_MAX   1024
#define DUE_MAX     8192 /* asks under way on a connection in an open loop: a second at 8,000/s */
#define IN_BYTES    (256u << 10)
#define SILENCE_MS  10000
#define SAMPLES_MAX (8u << 20)
#define NS          1e9

struct load;

struct conn {
        struct load *load;
        int fd;
        bool is_writer;
        size_t awaited; /* answers still to come of what was sent */
        char *in;
        size_t in_len, in_done;
        int64_t *due; /* open loop: a ring of the times at which the asks under way were due */
        size_t due_first, due_n;
        int64_t sent_ns; /* writers: when the job was sent */
};

struct load {
        unsigned port, write_port, n_conns, n_writers, depth;
        double rate, seconds, warm_s;
        pid_t pid;
        bool is_http;
        char *request; /* `depth` of them, one after the other */
        size_t request_len, write_len;
        char write[256];
        struct conn *conns; /* the askers, then the writers */
        int epoll;
        uint64_t answers, writes;
        bool is_counting;
        int64_t *took, *write_took; /* ns, of at most SAMPLES_MAX */
        size_t n_took, n_write_took;
};

/* ---- answers: the bytes of the first one, or 0 when it is not whole ---- */

static void wrong(const char *what, const char *p, const char *end)
{
        int n = end - p > 200 ? 200 : (int)(end - p);
        die("%s: %.*s", what, n, p);
}

static const char *line_end(const char *p, const char *end)
{
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        return nl ? nl + 1 : NULL;
}

/* RESP without recursion: `pending` values are still to come. */
static size_t resp_answer(const char *p, const char *end)
{
        const char *begin = p;
        int64_t pending = 1;
        for (; pending > 0; pending--) {
                if (p >= end)
                        return 0;
                char type = *p;
                const char *next = line_end(p, end);
                if (!next)
                        return 0;
                if (type == '-')
                        wrong("refused", p, end);
                if (type == '$' || type == '*') {
                        int64_t n = strtoll(p + 1, NULL, 10);
                        if (type == '*')
                                pending += n > 0 ? n : 0;
                        else if (n >= 0)
                                next += n + 2;
                }
                if (next > end)
                        return 0;
                p = next;
        }
        return (size_t)(p - begin);
}

static size_t http_answer(const char *p, const char *end)
{
        static const char name[] = "ontent-";
        const char *body = memmem(p, (size_t)(end - p), "\r\n\r\n", 4);
        if (!body)
                return 0;
        if (memcmp(p, "HTTP/1.1 200", 12) != 0)
                wrong("not 200", p, end);
        const char *at = p;
        size_t n = 0;
        while ((at = memmem(at, (size_t)(body - at), name, sizeof(name) - 1)) != NULL) {
                at += sizeof(name) - 1;
                if (strncasecmp(at, "length:", 7) == 0) {
                        n = strtoul(at + 7, NULL, 10);
                        break;
                }
        }
        size_t whole = (size_t)(body + 4 - p) + n;
        return whole <= (size_t)(end - p) ? whole : 0;
}

/* ---- connections ---- */

static void conn_open(struct conn *c, struct load *l, unsigned port, bool is_writer)
{
        struct sockaddr_in sa = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int one = 1;
        c->load = l;
        c->is_writer = is_writer;
        c->in = malloc(IN_BYTES);
        c->due = calloc(DUE_MAX, sizeof(*c->due));
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (!c->in || !c->due || c->fd < 0 ||
            connect(c->fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
                die("cannot connect to port %u: %s", port, strerror(errno));
        (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &ev) != 0)
                die("epoll_ctl: %s", strerror(errno));
}

/* Blocks when the server does not read; what is under way is bounded, so it fits the socket. */
static void conn_send(struct conn *c, const char *bytes, size_t len)
{
        while (len > 0) {
                ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL);
                if (n < 0 && errno != EINTR)
                        die("send: %s", strerror(errno));
                bytes += n > 0 ? n : 0;
                len -= n > 0 ? (size_t)n : 0;
        }
}

static void send_batch(struct conn *c)
{
        struct load *l = c->load;
        if (c->is_writer) {
                c->awaited = 1;
                c->sent_ns = now_ns();
                conn_send(c, l->write, l->write_len);
                return;
        }
        c->awaited = l->depth;
        conn_send(c, l->request, l->request_len);
}

static void note(int64_t *all, size_t *n, int64_t ns)
{
        if (*n < SAMPLES_MAX)
                all[(*n)++] = ns;
}

static void answered(struct conn *c)
{
        struct load *l = c->load;
        if (c->awaited == 0)
                die("an answer that was not asked for");
        c->awaited--;
        if (c->is_writer) {
                l->writes += l->is_counting;
                if (l->is_counting)
                        note(l->write_took, &l->n_write_took, now_ns() - c->sent_ns);
                return;
        }
        l->answers += l->is_counting;
        if (l->rate > 0) {
                int64_t due = c->due[c->due_first];
                c->due_first = (c->due_first + 1) % DUE_MAX;
                c->due_n--;
                if (l->is_counting)
                        note(l->took, &l->n_took, now_ns() - due);
        }
}

static void conn_read(struct conn *c)
{
        struct load *l = c->load;
        ssize_t got = recv(c->fd, c->in + c->in_len, IN_BYTES - c->in_len, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (got <= 0)
                die("the server closed");
        c->in_len += (size_t)got;
        while (c->in_done < c->in_len) {
                const char *p = c->in + c->in_done, *end = c->in + c->in_len;
                size_t n = l->is_http && !c->is_writer ? http_answer(p, end) : resp_answer(p, end);
                if (n == 0)
                        break;
                if (!l->is_http && !c->is_writer && !memmem(p, n, "granted", 7))
                        wrong("no grant", p, end);
                c->in_done += n;
                answered(c);
        }
        memmove(c->in, c->in + c->in_done, c->in_len - c->in_done);
        c->in_len -= c->in_done;
        c->in_done = 0;
        if (c->awaited == 0 && (c->is_writer || l->rate <= 0))
                send_batch(c);
}

/* ---- the loop ---- */

/* Sends what is due; the number of the next ask. */
static uint64_t send_due(struct load *l, uint64_t k, int64_t begin, int64_t now)
{
        double gap = NS / l->rate;
        for (;; k++) {
                int64_t due = begin + (int64_t)((double)k * gap);
                if (due > now)
                        return k;
                struct conn *c = &l->conns[k % l->n_conns];
                if (c->due_n == DUE_MAX)
                        die("the server is %d asks behind on one connection", DUE_MAX);
                c->due[(c->due_first + c->due_n++) % DUE_MAX] = due;
                c->awaited++;
                conn_send(c, l->request, l->request_len);
        }
}

static void run(struct load *l, struct sample *a, struct sample *b)
{
        struct epoll_event events[64];
        int64_t begin = now_ns(), from = begin + (int64_t)(l->warm_s * NS);
        int64_t until = from + (int64_t)(l->seconds * NS), heard = begin;
        uint64_t k = 0;
        for (unsigned i = 0; i < l->n_conns + l->n_writers; i++)
                if (l->conns[i].is_writer || l->rate <= 0)
                        send_batch(&l->conns[i]);
        for (;;) {
                int64_t now = now_ns();
                if (!l->is_counting && now >= from) {
                        sample_take(l->pid, "", a);
                        l->is_counting = true;
                }
                if (now >= until)
                        break;
                if (now - heard > SILENCE_MS * 1000000LL)
                        die("no answer for %d s", SILENCE_MS / 1000);
                if (l->rate > 0)
                        k = send_due(l, k, begin, now);
                int n = epoll_wait(l->epoll, events, 64, l->rate > 0 ? 0 : 100);
                for (int i = 0; i < n; i++)
                        conn_read(events[i].data.ptr);
                if (n > 0)
                        heard = now;
        }
        sample_take(l->pid, "", b);
}

/* ---- options and result ---- */

static void fill_request(struct load *l, const char *resp, const char *path)
{
        char one[1024];
        int n;
        if (path) {
                l->is_http = true;
                n = snprintf(one, sizeof(one), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
        } else {
                char *words = strdup(resp), *rest = words, *word, body[900] = "";
                int used = 0, count = 0;
                while (words && (word = strsep(&rest, " ")) != NULL && used < 800) {
                        used += snprintf(body + used, sizeof(body) - (size_t)used, "$%zu\r\n%s\r\n",
                                         strlen(word), word);
                        count++;
                }
                free(words);
                n = snprintf(one, sizeof(one), "*%d\r\n%s", count, body);
        }
        unsigned times = l->rate > 0 ? 1 : l->depth;
        l->request = malloc((size_t)n * times);
        if (!l->request)
                die("out of memory");
        for (unsigned i = 0; i < times; i++)
                memcpy(l->request + (size_t)n * i, one, (size_t)n);
        l->request_len = (size_t)n * times;
        l->write_len = (size_t)snprintf(l->write, sizeof(l->write),
                                        "*3\r\n$7\r\nENQUEUE\r\n$4\r\nhook\r\n$2\r\n{}\r\n");
}

static void parse(struct load *l, int argc, char **argv)
{
        static const struct option options[] = {
                {"port", 1, 0, 'p'},    {"resp", 1, 0, 'r'},       {"get", 1, 0, 'g'},
                {"conns", 1, 0, 'c'},   {"depth", 1, 0, 'd'},      {"rate", 1, 0, 'R'},
                {"seconds", 1, 0, 's'}, {"warm", 1, 0, 'w'},       {"pid", 1, 0, 'i'},
                {"writers", 1, 0, 'W'}, {"write-port", 1, 0, 'P'}, {0, 0, 0, 0}};
        const char *resp = "CHECK bench:check:load", *path = NULL;
        int opt;
        while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (opt) {
                case 'p':
                        l->port = number_arg(optarg, 1, 65535);
                        break;
                case 'P':
                        l->write_port = number_arg(optarg, 1, 65535);
                        break;
                case 'c':
                        l->n_conns = number_arg(optarg, 1, CONNS_MAX);
                        break;
                case 'W':
                        l->n_writers = number_arg(optarg, 0, CONNS_MAX);
                        break;
                case 'd':
                        l->depth = number_arg(optarg, 1, DEPTH_MAX);
                        break;
                case 'i':
                        l->pid = (pid_t)number_arg(optarg, 1, 1u << 30);
                        break;
                case 'R':
                        l->rate = strtod(optarg, NULL);
                        break;
                case 's':
                        l->seconds = strtod(optarg, NULL);
                        break;
                case 'w':
                        l->warm_s = strtod(optarg, NULL);
                        break;
                case 'r':
                        resp = optarg;
                        break;
                case 'g':
                        path = optarg;
                        break;
                default:
                        die("see the head of bench/check_load.c");
                }
        }
        if (!l->port || (l->n_writers && !l->write_port))
                die("no port given");
        fill_request(l, resp, path);
}

static int compare(const void *a, const void *b)
{
        int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
        return (x > y) - (x < y);
}

static void print_spread(const char *name, int64_t *all, size_t n)
{
        if (n == 0)
                return;
        qsort(all, n, sizeof(*all), compare);
        printf(",\"%sp50_us\":%.1f,\"%sp99_us\":%.1f,\"%sp999_us\":%.1f,\"%smax_us\":%.1f", name,
               (double)all[n / 2] / 1e3, name, (double)all[n * 99 / 100] / 1e3, name,
               (double)all[n * 999 / 1000] / 1e3, name, (double)all[n - 1] / 1e3);
}

int main(int argc, char **argv)
{
        static struct load l = {.n_conns = 1, .depth = 1, .seconds = 1, .warm_s = 0.1};
        struct sample a = {0}, b = {0};
        parse(&l, argc, argv);
        l.epoll = epoll_create1(EPOLL_CLOEXEC);
        l.conns = calloc(l.n_conns + l.n_writers, sizeof(*l.conns));
        l.took = malloc(SAMPLES_MAX * sizeof(*l.took));
        l.write_took = malloc(SAMPLES_MAX * sizeof(*l.write_took));
        if (l.epoll < 0 || !l.conns || !l.took || !l.write_took)
                die("out of memory");
        for (unsigned i = 0; i < l.n_conns + l.n_writers; i++)
                conn_open(&l.conns[i], &l, i < l.n_conns ? l.port : l.write_port, i >= l.n_conns);
        run(&l, &a, &b);
        sample_print("check", l.answers, &a, &b);
        printf(",\"writes\":%" PRIu64, l.writes);
        print_spread("", l.took, l.n_took);
        print_spread("write_", l.write_took, l.n_write_took);
        puts("}");
        return 0;
}
