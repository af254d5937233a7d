/* Addresses to listen on.
 *
 * An address is "host:port", ":port", "[v6]:port" or the path of a unix socket.  A name is looked
 * up once, at the start; "localhost" is the usual one.  What it resolves to decides whether it is
 * public.  A public address without a token is refused, because everybody who can reach it could
 * run and read jobs; so is one with a token that could be guessed. */
#include "door/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/say.h"
#include "base/slice.h"

/* 22 characters of base64 are 128 bits.  Of 22 random digits or letters, eight are different, but
 * for a rare exception. */
#define PUBLIC_TOKEN_BYTES    22
#define PUBLIC_TOKEN_DISTINCT 8

bool sockaddr_is_loopback(const struct sockaddr *a)
{
        if (a->sa_family == AF_INET)
                return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
        if (a->sa_family != AF_INET6)
                return false;
        const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(six))
                return six->s6_addr[12] == 127;
        return IN6_IS_ADDR_LOOPBACK(six);
}

static int look_up(const char *host, const char *port, struct address *ret, struct problem *p)
{
        struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                 .ai_socktype = SOCK_STREAM,
                                 .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
        struct addrinfo *found = NULL, *use;
        int r = getaddrinfo(host, port, &hints, &found);
        if (r || !found)
                return problem_set(p, ERR_BADARG, "cannot find the address %s: %s", host,
                                   gai_strerror(r));
        use = found;
        for (struct addrinfo *a = found; a; a = a->ai_next) {
                if (a->ai_family == AF_INET) { /* "localhost" is 127.0.0.1 to most clients */
                        use = a;
                        break;
                }
        }
        memcpy(&ret->ip, use->ai_addr, use->ai_addrlen);
        freeaddrinfo(found);
        ret->is_loopback = sockaddr_is_loopback(&ret->ip.any);
        return OK;
}

int address_parse(const char *text, struct address *ret, struct problem *p)
{
        *ret = (struct address){0};
        if (strchr(text, '/')) {
                struct sockaddr_un un;
                if (strlen(text) >= sizeof(un.sun_path))
                        return problem_set(p, ERR_BADARG,
                                           "the path of a unix socket may have %zu bytes: %s",
                                           sizeof(un.sun_path) - 1, text);
                ret->path = text;
                ret->is_loopback = true;
                return OK;
        }
        const char *colon = strrchr(text, ':');
        int64_t port;
        if (!colon || !slice_to_i64(slice_str(colon + 1), &port) || port < 0 || port > 65535)
                return problem_set(p, ERR_BADARG,
                                   "an address is host:port, :port or a path with '/', not %s",
                                   text);
        char host[256] = "127.0.0.1";
        size_t n = (size_t)(colon - text);
        if (n >= 2 && text[0] == '[' && colon[-1] == ']') {
                text++;
                n -= 2;
        } else if (memchr(text, ':', n)) {
                return problem_set(p, ERR_BADARG, "write an IPv6 address as [%.*s]:%s", (int)n,
                                   text, colon + 1);
        }
        if (n >= sizeof(host))
                return problem_set(p, ERR_BADARG, "this host name is too long");
        if (n) {
                memcpy(host, text, n);
                host[n] = '\0';
        }
        return look_up(host, colon + 1, ret, p);
}

static unsigned distinct_bytes(const char *text)
{
        bool is_seen[256] = {false};
        unsigned n = 0;
        for (; *text; text++) {
                n += !is_seen[(uint8_t)*text];
                is_seen[(uint8_t)*text] = true;
        }
        return n;
}

int address_check_token(const struct address *a, const char *text, const char *token,
                        struct problem *p)
{
        static const char advice[] = "; make one with: openssl rand -hex 32";
        if (a->is_loopback)
                return OK;
        if (!token || !*token)
                return problem_set(p, ERR_FORBIDDEN,
                                   "%s can be reached from other machines: set a token, or listen "
                                   "on 127.0.0.1 or a unix socket",
                                   text);
        if (strlen(token) < PUBLIC_TOKEN_BYTES)
                return problem_set(p, ERR_FORBIDDEN,
                                   "%s can be reached from other machines: the token must have %d "
                                   "characters or more, not %zu%s",
                                   text, PUBLIC_TOKEN_BYTES, strlen(token), advice);
        if (distinct_bytes(token) < PUBLIC_TOKEN_DISTINCT)
                return problem_set(p, ERR_FORBIDDEN,
                                   "%s can be reached from other machines: the token must have %d "
                                   "different characters or more, not %u%s",
                                   text, PUBLIC_TOKEN_DISTINCT, distinct_bytes(token), advice);
        return OK;
}

int address_check_tls(const struct address *a, const char *text, bool is_tls, bool is_insecure,
                      struct problem *p)
{
        if (is_tls && a->path)
                return problem_set(p, ERR_BADARG,
                                   "%s is a unix socket and needs no TLS: name it in resp or http",
                                   text);
        if (is_tls || is_insecure || a->is_loopback)
                return OK;
        return problem_set(p, ERR_FORBIDDEN,
                           "%s can be reached from other machines and is not encrypted: name it in "
                           "resp_tls or http_tls instead, or listen on 127.0.0.1 or a unix socket, "
                           "or set insecure = true",
                           text);
}

/* Two that start at the same moment are kept apart by the lock on the data folder, which is taken
 * before. */
int address_clear_path(const char *path, struct problem *p)
{
        struct stat st;
        if (lstat(path, &st) < 0)
                return errno == ENOENT ? OK
                                       : problem_set(p, ERR_IO, "cannot look at %s: %s", path,
                                                     strerror(errno));
        if (!S_ISSOCK(st.st_mode))
                return problem_set(p, ERR_BADARG, "%s is there and is not a socket", path);
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        memcpy(un.sun_path, path, strlen(path) + 1);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return problem_set(p, ERR_IO, "cannot make a socket: %s", strerror(errno));
        int r = connect(fd, (struct sockaddr *)&un, sizeof(un));
        int why = errno;
        (void)close(fd); /* nothing was written to it */
        if (r == 0 || why != ECONNREFUSED)
                return problem_set(p, ERR_LOCKED, "another process answers on %s", path);
        if (unlink(path) < 0)
                return problem_set(p, ERR_IO, "cannot remove the stale socket %s: %s", path,
                                   strerror(errno));
        say_info("door", "removed a socket that nobody answered on", "path", path);
        return OK;
}

void address_stop_pacing(int fd)
{
        static const char plain[] = "reno";
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof(plain) - 1);
}
