/* A connection of the generator: its buffers, its numbered payloads and its checks.
 *
 * What costs time in a generator is formatting and many small system calls, and both would be
 * charged to whoever shares the two cores with it.  So the enqueue requests of a whole batch are
 * written once, at the start; a batch patches ten digits per job and goes out in one send().  Only
 * the JSON payload, which differs from job to job, is written each time.
 * Replies come in through reads of up to 256 KiB. */
#include "gen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A whole batch of 32 claimed 200-byte jobs is some 15 kB; larger reads only save calls. */
#define IN_BYTES (256u << 10)

static const char *stage_name(enum stage stage)
{
        static const char *const names[] = {"idle", "put", "claim", "ack", "next", "done"};
        return names[stage];
}

/* Says what was wrong together with the bytes that were read, then ends the program. */
void conn_wrong(struct conn *c, const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        fprintf(stderr, "gen: %s, connection %u, %s: ", c->run->proto->name, c->index,
                stage_name(c->stage));
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fputs("; next bytes: \"", stderr);
        for (size_t i = c->in_done; i < c->in_len && i < c->in_done + 200; i++) {
                unsigned char b = (unsigned char)c->in[i];
                if (b >= ' ' && b < 127)
                        fputc(b, stderr);
                else
                        fprintf(stderr, "\\x%02x", b);
        }
        fputs("\"\n", stderr);
        exit(1);
}

static void *must_alloc(size_t n)
{
        void *p = calloc(1, n);
        if (!p)
                die("out of memory (%zu bytes)", n);
        return p;
}

static void grow(char **bytes, size_t *cap, size_t need)
{
        size_t n = *cap ? *cap : 4096;
        while (n < need)
                n *= 2;
        *bytes = realloc(*bytes, n);
        if (!*bytes)
                die("out of memory (%zu bytes)", n);
        *cap = n;
}

static int connect_tcp(const struct run *run)
{
        struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)run->port)};
        if (inet_pton(AF_INET, run->host, &sa.sin_addr) != 1)
                die("bad address %s", run->host);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
        if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
                die("connect %s:%u: %s", run->host, run->port, strerror(errno));
        if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
                die("TCP_NODELAY: %s", strerror(errno));
        return fd;
}

static int connect_unix(const char *path)
{
        struct sockaddr_un sa = {.sun_family = AF_UNIX};
        if (strlen(path) >= sizeof(sa.sun_path))
                die("%s is too long for a socket's name", path);
        snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
                die("connect %s: %s", path, strerror(errno));
        return fd;
}

void conn_open(struct conn *c, struct run *run, unsigned index)
{
        c->run = run;
        c->index = index;
        c->in_cap = IN_BYTES;
        c->in = must_alloc(c->in_cap);
        c->held = must_alloc(run->depth * sizeof(*c->held));

        c->fd = run->socket_path ? connect_unix(run->socket_path) : connect_tcp(run);
        run->proto->prepare(c);
}

/* A request and its reply before the clock runs; the reply must begin with `first`. */
void conn_call(struct conn *c, const char *req, size_t len, char first)
{
        if (send(c->fd, req, len, MSG_NOSIGNAL) != (ssize_t)len)
                die("setup: send: %s", strerror(errno));
        c->in_len = c->in_done = 0;
        while (c->in_len == 0 || c->in[c->in_len - 1] != '\n') {
                ssize_t n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, 0);
                if (n <= 0)
                        die("setup: the server closed the connection");
                c->in_len += (size_t)n;
        }
        if (c->in[0] != first)
                conn_wrong(c, "setup was refused");
        c->in_len = 0;
}

void conn_use_reqs(struct conn *c)
{
        c->out = c->reqs;
        c->out_len = c->reqs_len;
        c->out_done = 0;
}

char *conn_more(struct conn *c, size_t n)
{
        if (c->reqs_len + n > c->reqs_cap)
                grow(&c->reqs, &c->reqs_cap, c->reqs_len + n);
        return c->reqs + c->reqs_len;
}

void conn_add(struct conn *c, const char *bytes, size_t len)
{
        memcpy(conn_more(c, len), bytes, len);
        c->reqs_len += len;
}

void conn_addf(struct conn *c, const char *fmt, ...)
{
        va_list ap;
        va_start(ap, fmt);
        char *to = conn_more(c, 512);
        int n = vsnprintf(to, 512, fmt, ap);
        va_end(ap);
        if (n < 0 || n >= 512)
                die("request too long");
        c->reqs_len += (size_t)n;
}

void number_write(char *to, uint32_t number)
{
        for (int i = NUMBER_DIGITS - 1; i >= 0; i--) {
                to[i] = (char)('0' + number % 10);
                number /= 10;
        }
}

static uint32_t number_read(const char *from)
{
        uint32_t v = 0;
        for (int i = 0; i < NUMBER_DIGITS; i++)
                v = v * 10 + (uint32_t)(from[i] - '0');
        return v;
}

/* `depth` times head + payload + tail, each of the same length. */
void conn_make_puts(struct conn *c, const char *head, const char *tail)
{
        size_t head_len = strlen(head), tail_len = strlen(tail), payload = c->run->payload;
        c->put_stride = head_len + payload + tail_len;
        c->put_number = head_len + NUMBER_OFFSET;
        c->puts_len = c->put_stride * c->run->depth;
        c->puts = must_alloc(c->puts_len);
        for (unsigned i = 0; i < c->run->depth; i++) {
                char *p = c->puts + i * c->put_stride;
                memcpy(p, head, head_len);
                memcpy(p + head_len, c->run->template, payload);
                memcpy(p + head_len + payload, tail, tail_len);
        }
}

size_t conn_number_puts(struct conn *c, size_t n)
{
        struct run *run = c->run;
        for (size_t i = 0; i < n; i++)
                number_write(c->puts + i * c->put_stride + c->put_number, run->next_number++);
        c->out = c->puts;
        c->out_len = n * c->put_stride;
        c->out_done = 0;
        return n;
}

/* Is it one of ours, and whole?  Sets its number then. */
static bool is_ours(const struct run *run, const char *payload, size_t len, uint32_t *ret_number)
{
        if (len < PAYLOAD_MIN)
                return false;
        *ret_number = number_read(payload + NUMBER_OFFSET);
        if (run->is_json) {
                char args[JSON_MAX];
                return json_args(*ret_number, args) == len && memcmp(payload, args, len) == 0;
        }
        return len == run->payload && memcmp(payload, run->template, NUMBER_OFFSET) == 0 &&
               payload[len - 1] == '}';
}

/* A claimed payload: ours, whole, and claimed for the first time. */
struct held *conn_hold(struct conn *c, const char *payload, size_t len)
{
        struct run *run = c->run;
        uint32_t number;
        if (!is_ours(run, payload, len, &number))
                conn_wrong(c, "a payload came back changed (%zu bytes)", len);
        if (number >= run->next_number)
                conn_wrong(c, "job number %u was never put", number);
        uint64_t bit = UINT64_C(1) << (number % 64);
        if (run->seen[number / 64] & bit)
                conn_wrong(c, "job number %u was delivered twice", number);
        run->seen[number / 64] |= bit;
        if (c->n_held >= run->depth)
                conn_wrong(c, "more jobs than were asked for");
        struct held *h = &c->held[c->n_held++];
        h->number = number;
        run->count.claims++;
        return h;
}

void conn_check_id(struct conn *c, int64_t id)
{
        if (id <= c->last_id)
                conn_wrong(c, "id %lld after %lld", (long long)id, (long long)c->last_id);
        c->last_id = id;
}

bool conn_fill(struct conn *c)
{
        if (c->in_done == c->in_len)
                c->in_done = c->in_len = 0;
        if (c->in_len == c->in_cap) {
                if (c->in_done == 0) {
                        grow(&c->in, &c->in_cap, c->in_len + 1);
                } else {
                        memmove(c->in, c->in + c->in_done, c->in_len - c->in_done);
                        c->in_len -= c->in_done;
                        c->in_done = 0;
                }
        }
        ssize_t n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, MSG_DONTWAIT);
        if (n == 0)
                conn_wrong(c, "the server closed the connection");
        if (n < 0) {
                if (errno == EAGAIN || errno == EINTR)
                        return false;
                conn_wrong(c, "recv: %s", strerror(errno));
        }
        c->in_len += (size_t)n;
        return true;
}

bool conn_flush(struct conn *c)
{
        ssize_t n = send(c->fd, c->out + c->out_done, c->out_len - c->out_done,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
                conn_wrong(c, "send: %s", strerror(errno));
        if (n > 0)
                c->out_done += (size_t)n;
        return c->out_done == c->out_len;
}
