/* Listening.
 *
 * A unix socket's file stays behind after a crash and then blocks the next start.  It is removed
 * only when it is a socket and no process answers on it; two starting at the same moment are kept
 * apart by the lock on the data folder, which is taken before.  The mode is set through the umask
 * at bind, so that there is no moment at which others can connect. */
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

static int remove_stale_socket(const char *path, struct problem *p)
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
        int r = status < 0 ? status : conn_accept(l->server, l->door, stream, l->is_local);
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
        int r = remove_stale_socket(a->path, p);
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

/* Nothing is lost on the way to ourselves, so a congestion control that paces its packets (bbr,
 * where the system prefers it) only costs a timer per answer: 3 % at 64 clients.  reno is in every
 * kernel; where it may not be chosen, the system's choice serves as well. */
static void stop_pacing(const uv_handle_t *handle)
{
        static const char plain[] = "reno";
        int fd;
        if (uv_fileno(handle, &fd) == 0)
                (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof(plain) - 1);
}

static int bind_ip(struct listener *l, const char *text, const struct address *a, struct problem *p)
{
        unsigned flags = a->ip.any.sa_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0;
        int r = uv_tcp_bind(&l->uv.tcp, &a->ip.any, flags);
        if (r < 0)
                return refuse_listen(text, r, p);
        if (a->is_loopback)
                stop_pacing(&l->uv.handle);
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

int listener_new(struct server *s, enum server_kind kind, const char *text, const char *token,
                 struct listener **ret, struct problem *p)
{
        struct address a;
        int r = address_parse(text, &a, p);
        if (r != OK)
                return r;
        r = address_check_token(&a, text, token, p);
        if (r != OK)
                return r;
        struct listener *l = xcalloc(1, sizeof(*l));
        l->server = s;
        l->kind = kind;
        l->door = kind == SERVER_RESP ? &resp_door : &http_door;
        l->is_local = a.path != NULL;
        r = listener_open(l, text, &a, p);
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
