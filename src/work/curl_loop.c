/* The seam between libcurl's multi interface and libuv: libcurl says which sockets to watch and
 * when to be called at the latest, libuv tells it what happened.
 *
 * One struct watch per socket, hung onto the socket inside libcurl (curl_multi_assign).  libcurl
 * closes a socket right after it took it back, so the watch is stopped at that moment and freed
 * when libuv has let go of it.  libcurl must not be entered from its own callbacks: a wanted call
 * "now" becomes a timer of 0 ms. */
#include "work/curl_loop.h"

#include <stdlib.h>

struct curl_loop {
        CURLM *multi;
        uv_loop_t *loop;
        uv_timer_t timer;
        curl_loop_done_fn done;
};

struct watch {
        uv_poll_t poll;
        struct curl_loop *owner;
        curl_socket_t socket;
        int events; /* that libcurl waits for */
};

static void take_ended(struct curl_loop *c)
{
        CURLMsg *message;
        int left;
        while ((message = curl_multi_info_read(c->multi, &left)) != NULL) {
                if (message->msg != CURLMSG_DONE)
                        continue;
                CURL *easy = message->easy_handle;
                CURLcode result = message->data.result;
                char *ctx = NULL;
                (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &ctx);
                (void)curl_multi_remove_handle(c->multi, easy); /* the message is gone with it */
                c->done(ctx, result);
        }
}

static void act(struct curl_loop *c, curl_socket_t socket, int what)
{
        int running;
        (void)curl_multi_socket_action(c->multi, socket, what, &running);
        take_ended(c);
}

static void on_timer(uv_timer_t *timer)
{
        act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct watch *w = poll->data;
        /* A peer that answers before it has read the whole request and then closes resets the
         * connection: the answer is still there to be read.  Told of an error instead, libcurl
         * would throw it away; if there is no answer, reading says what went wrong. */
        int what = status < 0 ? CURL_CSELECT_IN : 0;
        if (events & UV_READABLE)
                what |= CURL_CSELECT_IN;
        if (events & UV_WRITABLE)
                what |= CURL_CSELECT_OUT;
        act(w->owner, w->socket, what);
        if (status < 0 && !uv_is_closing((uv_handle_t *)poll)) /* libuv has stopped at the error */
                (void)uv_poll_start(poll, w->events, on_poll);
}

static void on_watch_closed(uv_handle_t *h)
{
        free(h->data);
}

static int on_want_timer(CURLM *multi, long timeout_ms, void *ctx)
{
        struct curl_loop *c = ctx;
        (void)multi;
        if (timeout_ms < 0)
                (void)uv_timer_stop(&c->timer);
        else
                (void)uv_timer_start(&c->timer, on_timer, (uint64_t)timeout_ms, 0);
        return 0;
}

static struct watch *watch_new(struct curl_loop *c, curl_socket_t socket)
{
        struct watch *w = xcalloc(1, sizeof(*w));
        w->owner = c;
        w->socket = socket;
        if (uv_poll_init_socket(c->loop, &w->poll, socket) != 0) {
                free(w);
                return NULL;
        }
        w->poll.data = w;
        (void)curl_multi_assign(c->multi, socket, w);
        return w;
}

static int on_want_socket(CURL *easy, curl_socket_t socket, int what, void *ctx, void *socket_ctx)
{
        struct curl_loop *c = ctx;
        struct watch *w = socket_ctx;
        (void)easy;
        if (what == CURL_POLL_REMOVE) {
                if (w) {
                        (void)uv_poll_stop(&w->poll);
                        uv_close((uv_handle_t *)&w->poll, on_watch_closed);
                        (void)curl_multi_assign(c->multi, socket, NULL);
                }
                return 0;
        }
        if (!w)
                w = watch_new(c, socket);
        if (!w)
                return -1; /* the transfer fails */
        w->events = what == CURL_POLL_IN    ? UV_READABLE
                    : what == CURL_POLL_OUT ? UV_WRITABLE
                                            : UV_READABLE | UV_WRITABLE;
        return uv_poll_start(&w->poll, w->events, on_poll) == 0 ? 0 : -1;
}

int curl_loop_new(uv_loop_t *loop, size_t max_kept, curl_loop_done_fn done, struct curl_loop **ret,
                  struct problem *p)
{
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return problem_set(p, ERR_INTERNAL, "libcurl cannot be used");
        struct curl_loop *c = xcalloc(1, sizeof(*c));
        c->loop = loop;
        c->done = done;
        c->multi = curl_multi_init();
        if (!c->multi) {
                free(c);
                return problem_set(p, ERR_NOMEM, "no memory for libcurl");
        }
        (void)uv_timer_init(loop, &c->timer);
        c->timer.data = c;
        (void)curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_want_socket);
        (void)curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
        (void)curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_want_timer);
        (void)curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
        (void)curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)max_kept);
        *ret = c;
        return OK;
}

bool curl_loop_add(struct curl_loop *c, CURL *easy)
{
        return curl_multi_add_handle(c->multi, easy) == CURLM_OK;
}

void curl_loop_remove(struct curl_loop *c, CURL *easy)
{
        (void)curl_multi_remove_handle(c->multi, easy); /* only fails for what is not in it */
}

static void on_timer_closed(uv_handle_t *h)
{
        free(h->data);
}

void curl_loop_close(struct curl_loop *c)
{
        (void)curl_multi_cleanup(c->multi); /* gives back the sockets it kept */
        curl_global_cleanup();
        uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}
