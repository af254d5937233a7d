/* Sockets that are listened on. */
#ifndef WEIR_DOOR_LISTEN_H
#define WEIR_DOOR_LISTEN_H

#include <uv.h>

#include "base/err.h"
#include "door/conn.h"
#include "door/server.h"

struct server;

/* One socket that is listened on.  Closed by listener_close; freed when libuv is done. */
struct listener {
        union {
                uv_handle_t handle;
                uv_stream_t stream;
                uv_tcp_t tcp;
                uv_pipe_t pipe;
        } uv;
        struct server *server;
        const struct door *door;
        enum server_kind kind;
        char *address; /* as it really is */
        bool is_local;
        bool is_tls;
        bool is_closed;
        /* Takes a connection off the queue when there is no memory for a real one; libuv would
         * never offer another before. */
        uv_tcp_t spare;
        bool is_spare_used;
};

struct listener_options {
        enum server_kind kind;
        const char *text;
        bool is_insecure; /* other machines may connect without TLS */
};
int listener_new(struct server *s, const struct listener_options *options, struct listener **ret,
                 struct problem *p) MUST_CHECK;
void listener_close(struct listener *l);

#endif
