/* What a door was told by the file, read once and then only shared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "proxy/proxy_int.h"

#define USUAL_PORT "3306"

/* ---- networks ---- */

bool setup_trusts(const struct setup *s, const struct ip *peer)
{
        if (!peer)
                return s->trusts_unix;
        for (size_t i = 0; i < s->n_networks; i++)
                if (network_has(&s->networks[i], peer))
                        return true;
        return false;
}

static int read_networks(const struct proxy_door *o, struct setup *s, struct problem *problem)
{
        s->networks = xcalloc(o->n_proxy_from + 1, sizeof(*s->networks));
        for (size_t i = 0; i < o->n_proxy_from; i++) {
                const char *text = o->proxy_from[i];
                if (strcmp(text, "unix") == 0)
                        s->trusts_unix = true;
                else if (!network_parse(slice_str(text), &s->networks[s->n_networks++]))
                        return problem_set(problem, ERR_BADARG,
                                           "'%s' is no network; write 10.0.0.0/8, fd00::/8, one "
                                           "address, or unix",
                                           SHOWN_STR(text));
        }
        return OK;
}

/* ---- the server ---- */

/* "host:port", "[v6]:port", "host", or a path. */
static void read_server(struct setup *s, const char *text)
{
        s->server = xstrdup(text);
        if (text[0] == '/')
                return;
        const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
        bool has_port = colon && (bracket ? colon > bracket : strchr(text, ':') == colon);
        size_t len = has_port ? (size_t)(colon - text) : strlen(text);
        const char *host = text;
        if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
                host++;
                len -= 2;
        }
        s->server_host = xmalloc(len + 1);
        memcpy(s->server_host, host, len);
        s->server_host[len] = '\0';
        s->server_port = xstrdup(has_port ? colon + 1 : USUAL_PORT);
}

static int read_tls(const struct proxy_door *o, struct setup *s, struct problem *problem)
{
        int r = OK;
        if (o->tls == PROXY_TLS_TERMINATE)
                r = stream_accept_ctx(o->tls_cert, o->tls_key, &s->client_tls_ctx, problem);
        if (r == OK)
                r = stream_connect_ctx(o->server_tls == PROXY_SERVER_VERIFY, o->server_ca,
                                       &s->server_tls_ctx, problem);
        return r;
}

static void read_classes(const struct proxy_door *o, struct setup *s)
{
        s->classes = class_table_new(o->rows, o->n_rows, slice_str(o->name));
        for (size_t i = 0; i < class_table_len(s->classes); i++) {
                const struct class_row *row = class_table_row(s->classes, i);
                s->has_digests |= row->digest.len > 0;
                s->has_modes |= row->mode >= 0;
        }
}

/* ---- life ---- */

int setup_new(const struct proxy_door *o, struct setup **ret, struct problem *problem)
{
        struct setup *s = xcalloc(1, sizeof(*s));
        atomic_init(&s->refs, 1);
        s->mode = o->mode;
        s->wait_ns = o->wait_ms * NS_PER_MS;
        s->connect_timeout_ns = o->connect_timeout_ms * NS_PER_MS;
        s->max_connections = o->max_connections;
        s->max_user_connections = o->max_user_connections;
        s->is_comment_trusted = o->is_comment_trusted;
        s->tls = o->tls;
        s->server_tls = o->server_tls;
        s->sends_proxy = o->sends_proxy;
        read_classes(o, s);
        read_server(s, o->server);
        s->server_name = xstrdup(o->server_name   ? o->server_name
                                 : s->server_host ? s->server_host
                                                  : "localhost");
        int r = read_networks(o, s, problem);
        if (r == OK)
                r = read_tls(o, s, problem);
        if (r != OK) {
                setup_unref(s);
                return r;
        }
        *ret = s;
        return OK;
}

struct setup *setup_ref(struct setup *s)
{
        atomic_fetch_add(&s->refs, 1);
        return s;
}

struct setup *setup_unref(struct setup *s)
{
        if (!s || atomic_fetch_sub(&s->refs, 1) > 1)
                return NULL;
        s->classes = class_table_free(s->classes);
        s->client_tls_ctx = stream_ctx_free(s->client_tls_ctx);
        s->server_tls_ctx = stream_ctx_free(s->server_tls_ctx);
        free(s->server);
        free(s->server_host);
        free(s->server_port);
        free(s->server_name);
        free(s->networks);
        free(s);
        return NULL;
}
