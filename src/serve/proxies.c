/* See proxies.h. */
#include "serve/proxies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/proxy.h"
#include "serve/learned.h"
#include "traffic/traffic.h"

_Static_assert(CONFIG_DOORS_MAX == TRAFFIC_DOORS_MAX, "one bound for both");
_Static_assert(PROBE_NAME_MAX == TRAFFIC_NAME_MAX, "config_is_name() judges both");

struct proxies {
        struct loop *loop;
        struct proxy *proxy; /* NULL: there was no door yet */
        size_t n_doors;
        struct learned *learned; /* NULL: there was no door yet */
        /* Those whose files were read: it is done once, and not for a reload. */
        char read[CONFIG_DOORS_MAX][PROBE_NAME_MAX + 1];
        size_t n_read;
};

static bool was_read(const struct proxies *p, const char *name)
{
        for (size_t i = 0; i < p->n_read; i++)
                if (strcmp(p->read[i], name) == 0)
                        return true;
        return false;
}

/* Of doors that are new.  One that was away for a while is read again. */
static void read_learned(struct proxies *p, const struct config *config)
{
        const struct config_doors *d = &config->doors;
        for (size_t i = 0; i < d->n; i++)
                if (!was_read(p, d->doors[i].name))
                        learned_read(p->proxy, config->data, i, d->doors[i].name);
        for (size_t i = 0; i < d->n; i++)
                (void)snprintf(p->read[i], sizeof(p->read[i]), "%s", d->doors[i].name);
        p->n_read = d->n;
        if (!p->learned)
                p->learned = learned_new(p->proxy, config->data);
}

static struct proxy_door door_options(const struct config_door *d, const struct class_row *rows,
                                      size_t n_rows)
{
        return (struct proxy_door){
                .name = d->name,
                .listens = (const char *const *)d->listen,
                .n_listens = d->n_listen,
                .server = d->server,
                .mode = (enum gate_mode)d->mode,
                .wait_ms = d->wait_ms,
                .connect_timeout_ms = d->connect_timeout_ms,
                .concurrency = d->concurrency,
                .is_floor_off = d->deferrable_floor == 0,
                .max_connections = d->max_connections,
                .max_user_connections = d->max_user_connections,
                .is_comment_trusted = d->comment_tiers == CONFIG_COMMENT_ANY,
                .tls = (enum proxy_tls_mode)d->tls,
                .tls_cert = d->tls_cert,
                .tls_key = d->tls_key,
                .server_tls = (enum proxy_server_tls)d->server_tls,
                .server_ca = d->server_ca,
                .server_name = d->server_name,
                .proxy_from = (const char *const *)d->proxy_from,
                .n_proxy_from = d->n_proxy_from,
                .sends_proxy = d->sends_proxy,
                .rows = rows,
                .n_rows = n_rows,
        };
}

int proxies_change(struct proxies *p, const struct config *config, struct problem *problem)
{
        const struct config_doors *d = &config->doors;
        struct proxy_door doors[CONFIG_DOORS_MAX];
        int r = OK;
        if (!p->proxy && d->n)
                r = proxy_new(p->loop, config->mysql_threads, &p->proxy, problem);
        if (r != OK || !p->proxy)
                return r;
        struct class_row *rows = xcalloc(d->n_classes + 1, sizeof(*rows));
        for (size_t i = 0; i < d->n_classes; i++)
                rows[i] = config_class_row(&d->classes[i]);
        for (size_t i = 0; i < d->n; i++)
                doors[i] = door_options(&d->doors[i], rows, d->n_classes);
        r = proxy_change(p->proxy, doors, d->n, problem);
        if (r == OK) {
                p->n_doors = d->n;
                read_learned(p, config);
        }
        free(rows);
        return r;
}

void proxies_tell_core(struct proxies *p, const struct config *config)
{
        struct traffic_options options[CONFIG_DOORS_MAX];
        const struct config_doors *d = &config->doors;
        if (!p->proxy)
                return;
        struct traffic_threads threads = proxy_for_core(p->proxy);
        for (size_t i = 0; i < d->n; i++) {
                const struct config_door *door = &d->doors[i];
                options[i] = (struct traffic_options){.name = door->name,
                                                      .target = *door->target ? door->target : NULL,
                                                      .mode = (enum gate_mode)door->mode};
        }
        core_set_traffic(p->loop->core, options, d->n, &threads);
}

int proxies_start(const struct config *config, struct loop *loop, struct proxies **ret,
                  struct problem *problem)
{
        struct proxies *p = xcalloc(1, sizeof(*p));
        p->loop = loop;
        int r = proxies_change(p, config, problem);
        if (r != OK) {
                (void)proxies_free(p); /* NULL */
                return r;
        }
        proxies_tell_core(p, config);
        *ret = p;
        return OK;
}

const char *proxies_address(const struct proxies *p, size_t i)
{
        for (size_t door = 0; door < p->n_doors; door++) {
                const char *address;
                for (size_t k = 0; (address = proxy_address(p->proxy, door, k)); k++)
                        if (i-- == 0)
                                return address;
        }
        return NULL;
}

struct proxies *proxies_free(struct proxies *p)
{
        if (!p)
                return NULL;
        p->learned = learned_free(p->learned);
        p->proxy = proxy_free(p->proxy);
        free(p);
        return NULL;
}
