/* Where a database is: names for people, and addresses to try.
 *
 * Neither client library looks a name up without blocking, so it is done here, aside, and they get
 * addresses only.  A name with several addresses has each tried in turn, in the order of the
 * resolver; what is left of the time is shared evenly among those that are left, so that one that
 * swallows packets does not use up all of it. */
#include "sql/login.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/shown.h"
#include "sql/wait.h"

#define ADDRESSES_MAX 8
#define ADDRESS_MAX   320 /* a name in the DNS has 253 bytes */

struct addresses {
        char text[ADDRESSES_MAX][INET6_ADDRSTRLEN];
        size_t n;
        int failure; /* of getaddrinfo */
};

struct lookup {
        struct addresses found;
        char host[];
};

bool server_is_socket(const struct sql_server *s)
{
        return s->host[0] == '/';
}

/* "10.0.0.2:3306", "[::1]:3306", or the path of the socket; cut when it is longer than the room. */
static void put_address(const struct sql_server *s, char *ret, size_t size)
{
        if (server_is_socket(s))
                (void)snprintf(ret, size, "%s", s->host);
        else if (strchr(s->host, ':'))
                (void)snprintf(ret, size, "[%s]:%d", s->host, s->port);
        else
                (void)snprintf(ret, size, "%s:%d", s->host, s->port);
}

bool server_is_called(const struct sql_server *s, const char *name)
{
        char address[ADDRESS_MAX];
        put_address(s, address, sizeof(address));
        return strcasecmp(s->host, name) == 0 || strcasecmp(address, name) == 0 ||
               (s->name && strcasecmp(s->name, name) == 0);
}

const char *server_where(const struct sql_server *s, char *ret)
{
        char address[WHERE_MAX];
        put_address(s, address, sizeof(address));
        if (s->name)
                (void)snprintf(ret, WHERE_MAX, "%s (%s)", s->name,
                               SHOWN_MAX(slice_str(address), 80));
        else
                (void)snprintf(ret, WHERE_MAX, "%s", address);
        return ret;
}

const char *server_tls_name(const struct sql_server *s)
{
        return s->tls_name ? s->tls_name : s->host;
}

enum sql_tls_mode server_tls_mode(const struct sql_server *s, const struct sql_tls *tls)
{
        return server_is_socket(s) ? SQL_TLS_OFF : tls->mode;
}

static void look_up(void *arg)
{
        struct lookup *l = arg;
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
        struct addrinfo *list = NULL;
        l->found.failure = getaddrinfo(l->host, NULL, &hints, &list);
        for (struct addrinfo *a = list; a && l->found.n < ADDRESSES_MAX; a = a->ai_next)
                if (getnameinfo(a->ai_addr, a->ai_addrlen, l->found.text[l->found.n],
                                sizeof(l->found.text[0]), NULL, 0, NI_NUMERICHOST) == 0)
                        l->found.n++;
        if (list)
                freeaddrinfo(list);
}

static int resolve(const char *host, const struct sql_wait *w, struct addresses *ret,
                   struct problem *problem)
{
        struct in6_addr unused;
        *ret = (struct addresses){0};
        if (inet_pton(AF_INET, host, &unused) == 1 || inet_pton(AF_INET6, host, &unused) == 1) {
                (void)snprintf(ret->text[ret->n++], sizeof(ret->text[0]), "%s", host);
                return OK;
        }
        size_t len = strlen(host) + 1;
        struct lookup *l = xmalloc(sizeof(*l) + len);
        *l = (struct lookup){0};
        memcpy(l->host, host, len);
        struct aside *ask = aside_begin(look_up, l);
        if (!ask)
                return problem_set(problem, ERR_IO, "no thread is left to look the name %s up",
                                   SHOWN_STR(host));
        int r = aside_wait(ask, w);
        if (r == OK)
                *ret = ((const struct lookup *)aside_arg(ask))->found;
        (void)aside_end(ask); /* NULL */
        if (r != OK)
                return problem_set(problem, r, "the name %s could not be looked up in time",
                                   SHOWN_STR(host));
        if (!ret->n)
                return problem_set(problem, ERR_IO, "the name %s is not known: %s", SHOWN_STR(host),
                                   gai_strerror(ret->failure));
        return OK;
}

int server_attempt(const struct sql_server *s, const struct sql_wait *w,
                   int (*attempt)(void *self, const char *address, const struct sql_wait *w,
                                  struct problem *problem),
                   void *self, struct problem *problem)
{
        struct addresses found;
        if (server_is_socket(s))
                return attempt(self, s->host, w, problem);
        int r = resolve(s->host, w, &found, problem);
        if (r != OK)
                return r;
        for (size_t i = 0; i < found.n; i++) {
                struct sql_wait share = *w;
                int64_t now_ns = clock_boot_ns();
                share.deadline_ns = now_ns + (w->deadline_ns - now_ns) / (int64_t)(found.n - i);
                r = attempt(self, found.text[i], &share, problem);
                if (r == OK || r == ERR_STOPPING || r == ERR_FORBIDDEN)
                        return r;
        }
        return r;
}

bool is_nobody_there(int error)
{
        return error == ECONNREFUSED || error == ENOENT || error == EACCES;
}
