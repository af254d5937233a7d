/* Listening.
 *
 * The mode of a unix socket is set through the umask at bind, so that there is no moment at which
 * others can connect. */
#include "door/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/say.h"
#include "door/address.h"
#include "door/door_int.h"

/* Clients that wait while we are busy; the kernel caps it at net.core.somaxconn. */
#define BACKLOG 1024
/* "[v6]:port" of the longest kind. */
#define ADDRESS_TEXT 80

static void on_spare_closed(uv_handle_t *handle)
{
        ((struct listener *)handle->data)->is_spare_used = false;
}

static void turn_away(struct listener *l)
{
        if (l->is_spare_used || uv_tcp_init(&l->server->loop->uv, &l->spare) < 0)
                return;
        l->is_spare_used = true;
        l->spare.data = l;
        (void)uv_accept(&l->uv.stream, (uv_stream_t *)&l->spare); /* closed either way */
        uv_close((uv_handle_t *)&l->spare, on_spare_closed);
}

static void on_connection(uv_stream_t *stream, int status)
{
        struct listener *l = stream->data;
        if (l->is_closed)
                return;
        loop_turn_begin(l->server->loop);
        int r = status < 0 ? status : conn_accept(l);
        if (r == ERR_NOMEM && !l->is_local)
                turn_away(l);
        if (r < 0)
                say_warn("door", "cannot accept a connection", "address", l->address, "why",
                         status < 0 ? uv_strerror(status) : err_text(r));
}

static int refuse_listen(const char *text, int uv_error, struct problem *p)
{
        return problem_set(p, ERR_IO, "cannot listen on %s: %s%s", text, uv_strerror(uv_error),
                           uv_error == UV_EADDRINUSE
                                   ? "; if that is no weir, name another with --resp and --http"
                                   : "");
}

static int bind_path(struct listener *l, const struct address *a, struct problem *p)
{
        int r = address_clear_path(a->path, p);
        if (r != OK)
                return r;
        mode_t old = umask(0117);
        r = uv_pipe_bind(&l->uv.pipe, a->path);
        (void)umask(old);
        if (r < 0)
                return refuse_listen(a->path, r, p);
        l->address = xstrdup(a->path);
        return OK;
}

static void describe(struct listener *l)
{
        struct sockaddr_storage room;
        int len = sizeof(room);
        char host[INET6_ADDRSTRLEN] = "?", text[ADDRESS_TEXT];
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&room;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&room;
        if (uv_tcp_getsockname(&l->uv.tcp, (struct sockaddr *)&room, &len) < 0)
                room.ss_family = AF_UNSPEC;
        if (room.ss_family == AF_INET6) {
                (void)uv_ip6_name(v6, host, sizeof(host));
                (void)snprintf(text, sizeof(text), "[%s]:%u", host, ntohs(v6->sin6_port));
        } else {
                (void)uv_ip4_name(v4, host, sizeof(host));
                (void)snprintf(text, sizeof(text), "%s:%u", host, ntohs(v4->sin_port));
        }
        l->address = xstrdup(text);
}

static int bind_ip(struct listener *l, const char *text, const struct address *a, struct problem *p)
{
        unsigned flags = a->ip.any.sa_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0;
        int r = uv_tcp_bind(&l->uv.tcp, &a->ip.any, flags);
        if (r < 0)
                return refuse_listen(text, r, p);
        int fd;
        if (a->is_loopback && uv_fileno(&l->uv.handle, &fd) == 0)
                address_stop_pacing(fd);
        return OK;
}

static int listener_open(struct listener *l, const char *text, const struct address *a,
                         struct problem *p)
{
        int r = a->path ? uv_pipe_init(&l->server->loop->uv, &l->uv.pipe, 0)
                        : uv_tcp_init(&l->server->loop->uv, &l->uv.tcp);
        if (r < 0) {
                free(l);
                return problem_set(p, ERR_IO, "cannot make a socket: %s", uv_strerror(r));
        }
        l->uv.handle.data = l;
        r = a->path ? bind_path(l, a, p) : bind_ip(l, text, a, p);
        if (r == OK) {
                r = uv_listen(&l->uv.stream, BACKLOG, on_connection);
                if (r < 0)
                        r = refuse_listen(text, r, p);
        }
        if (r != OK)
                listener_close(l);
        else if (!l->is_local)
                describe(l);
        return r;
}

int listener_new(struct server *s, const struct listener_options *o, struct listener **ret,
                 struct problem *p)
{
        struct address a;
        bool is_resp = o->kind == SERVER_RESP || o->kind == SERVER_RESP_TLS;
        bool is_tls = o->kind == SERVER_RESP_TLS || o->kind == SERVER_HTTP_TLS;
        int r = address_parse(o->text, &a, p);
        if (r == OK && !s->needs_token)
                r = address_check_token(&a, o->text, NULL, p);
        if (r == OK)
                r = address_check_tls(&a, o->text, is_tls, o->is_insecure, p);
        if (r != OK)
                return r;
        ASSERT(!is_tls || s->tls);
        struct listener *l = xcalloc(1, sizeof(*l));
        l->server = s;
        l->kind = o->kind;
        l->door = is_resp ? &resp_door : &http_door;
        l->is_local = a.path != NULL;
        l->is_tls = is_tls;
        r = listener_open(l, o->text, &a, p);
        if (r == OK)
                *ret = l;
        return r;
}

static void on_closed(uv_handle_t *handle)
{
        struct listener *l = handle->data;
        free(l->address);
        free(l);
}

void listener_close(struct listener *l)
{
        if (l->is_closed)
                return;
        l->is_closed = true;
        uv_close(&l->uv.handle, on_closed);
}
