/* Sockets that clients connect to.  The first thread accepts on all of them. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "door/address.h"
#include "proxy/proxy_int.h"

#define BACKLOG      1024
#define ADDRESS_TEXT 80 /* "[v6]:port" of the longest kind */

/* As it really is: port 0 was any. */
static char *describe(int fd, const struct address *a)
{
        struct address own = {.path = NULL};
        socklen_t len = sizeof(own.ip);
        char host[INET6_ADDRSTRLEN] = "?", text[ADDRESS_TEXT];
        if (a->path)
                return xstrdup(a->path);
        (void)getsockname(fd, &own.ip.any, &len); /* bound: it has one */
        if (own.ip.any.sa_family == AF_INET6) {
                (void)inet_ntop(AF_INET6, &own.ip.v6.sin6_addr, host, sizeof(host));
                (void)snprintf(text, sizeof(text), "[%s]:%u", host, ntohs(own.ip.v6.sin6_port));
        } else {
                (void)inet_ntop(AF_INET, &own.ip.v4.sin_addr, host, sizeof(host));
                (void)snprintf(text, sizeof(text), "%s:%u", host, ntohs(own.ip.v4.sin_port));
        }
        return xstrdup(text);
}

static int bind_socket(int fd, const struct address *a)
{
        int one = 1;
        if (a->path) {
                struct sockaddr_un un = {.sun_family = AF_UNIX};
                memcpy(un.sun_path, a->path, strlen(a->path) + 1);
                mode_t old = umask(0111); /* whoever may connect to the server's own may to this */
                int r = bind(fd, (struct sockaddr *)&un, sizeof(un));
                (void)umask(old);
                return r;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (a->ip.any.sa_family == AF_INET6)
                (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        if (a->is_loopback)
                address_stop_pacing(fd);
        socklen_t len = a->ip.any.sa_family == AF_INET6 ? sizeof(a->ip.v6) : sizeof(a->ip.v4);
        return bind(fd, &a->ip.any, len);
}

static int open_socket(const char *text, const struct address *a, int *ret, struct problem *problem)
{
        int family = a->path ? AF_UNIX : a->ip.any.sa_family;
        int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind_socket(fd, a) != 0 || listen(fd, BACKLOG) != 0) {
                int error = errno;
                if (fd >= 0)
                        (void)close(fd);
                return problem_set(problem, ERR_IO, "mysql: cannot listen on %s: %s", text,
                                   strerror(error));
        }
        *ret = fd;
        return OK;
}

int entrance_new(struct door *d, const char *text, struct entrance **ret, struct problem *problem)
{
        struct address a;
        int fd = -1;
        int r = address_parse(text, &a, problem);
        if (r == OK && a.path)
                r = address_clear_path(a.path, problem);
        if (r == OK)
                r = open_socket(text, &a, &fd, problem);
        if (r != OK)
                return r;
        struct entrance *l = xcalloc(1, sizeof(*l));
        l->source.kind = SOURCE_ENTRANCE;
        l->door = d;
        l->fd = fd;
        l->text = xstrdup(text);
        l->address = describe(fd, &a);
        l->path = a.path ? xstrdup(a.path) : NULL;
        *ret = l;
        return OK;
}

/* Fails only when the kernel has no memory left: the first thread may have it any time. */
void entrance_open(struct entrance *l)
{
        int r = mail_watch(&l->door->proxy->workers[0], l->fd, &l->source, EPOLLIN);
        ASSERT(r == OK);
}

/* A thread may have it in a batch of events right now: the struct stays. */
void entrance_close(struct entrance *l)
{
        if (l->fd >= 0)
                (void)close(l->fd);
        l->fd = -1;
        if (l->path)
                (void)unlink(l->path);
}

struct entrance *entrance_free(struct entrance *l)
{
        entrance_close(l);
        free(l->text);
        free(l->address);
        free(l->path);
        free(l);
        return NULL;
}
