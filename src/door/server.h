/* The server: one libuv loop, its listeners, its connections, and the turn that ties them to the
 * core.
 *
 * Threads: everything on the thread that calls server_run(), except server_log_durable() and
 * server_archive_notify() and server_notice(), which may be called from any thread while the server
 * exists. */
#ifndef WEIR_DOOR_SERVER_H
#define WEIR_DOOR_SERVER_H

#include <uv.h>

#include "base/err.h"

struct core;
struct server;

enum server_kind { SERVER_RESP, SERVER_HTTP };

struct server_options {
        /* "host:port", ":port" (127.0.0.1), "[::1]:port", or a path of a unix socket (holds a
         * '/'); port 0 picks a free one. */
        const char *const *resp_addrs;
        size_t n_resp;
        const char *const *http_addrs;
        size_t n_http;
        const char *token; /* clients must show it; NULL = none, loopback only */
        /* Checks of the foreign contracts need no token (never what changes or lists anything). */
        bool is_check_open;
        uint64_t client_bytes;  /* all clients' unsent output and unfinished input; 0: default */
        const char *version;    /* of weir; must outlive the server */
        const char *instance;   /* what no other weir has, for login_init(); NULL: it is alone */
        struct core *core;      /* recovered; not owned */
        int64_t steady_base_ns; /* steady time is clock_boot_ns() + this */
        /* Called on the loop, within a turn, some time after server_notice(); may be NULL. */
        void (*on_notice)(void *ctx);
        void *notice_ctx;
};

/* A quarter of the memory of the machine, or of the control group, and never less than can be
 * configured: the largest request, and as much again for all others. */
uint64_t server_client_bytes_default(void);

/* Listens on every address; clients may connect when this returns, and are served from
 * server_run() on. */
int server_new(const struct server_options *options, struct server **ret,
               struct problem *problem) MUST_CHECK;
/* Serves until server_stop() has done its work.  ERR_TIMEOUT: something was still open when the
 * time for stopping ran out, and was cut. */
int server_run(struct server *s);
/* Stops listening, ends waits, lets the open batch become durable, answers, closes; within
 * SERVER_STOP_MS.  On the loop thread, from a callback of the loop or before server_run(). */
#define SERVER_STOP_MS 1500
void server_stop(struct server *s);
struct server *server_free(struct server *s);
DEFINE_CLEANUP(struct server, server_free)

/* The i-th address of a kind as it really is (the port that was picked); NULL past the last. */
const char *server_address(const struct server *s, enum server_kind kind, size_t i);
uv_loop_t *server_loop(struct server *s);

/* For log->durable and archive->notify; ctx is the server. */
void server_log_durable(void *ctx, uint64_t seq);
void server_archive_notify(void *ctx);
/* Any thread: on_notice is to be called. */
void server_notice(void *ctx);

#endif
