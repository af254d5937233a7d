/* See config_cluster.h. */
#include "serve/config_cluster.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/shown.h"
#include "serve/config_rows.h"
#include "serve/config_secret.h"
#include "serve/config_targets.h"
#include "serve/config_tls.h"
#include "wire/server_url.h"

#define SECRET_MIN 22
#define SECRET_MAX 512

static struct config_at at_of(struct config_cluster *c, struct problem *problem)
{
        return (struct config_at){
                .section = SECTION_CLUSTER, .own = c, .where = "cluster: ", .problem = problem};
}

void config_cluster_init(struct config_cluster *c)
{
        struct config_at at = at_of(c, NULL);
        *c = (struct config_cluster){.kind = -1};
        config_rows_init(&at);
}

void config_cluster_release(struct config_cluster *c)
{
        struct config_at at = at_of(c, NULL);
        for (size_t i = 0; c->logins && i < c->n_hosts; i++)
                config_server_release(&c->logins[i].server);
        free(c->logins);
        c->logins = NULL;
        config_password_release(&c->password);
        config_password_release(&c->secret);
        config_rows_release(&at);
}

/* ---- the database ---- */

/* "db1:5432", "db1", "[::1]:5432", "::1" or a path. */
static int take_host(const struct config_at *at, const char *text, int usual_port,
                     struct sql_server *ret)
{
        const char *colon = strrchr(text, ':'), *end = text + strlen(text);
        bool is_bracketed = text[0] == '[';
        bool has_port =
                colon && *text != '/' &&
                (is_bracketed ? colon > text && colon[-1] == ']' : strchr(text, ':') == colon);
        int64_t port = usual_port;
        if (has_port) {
                if (!slice_to_i64(slice_str(colon + 1), &port) || port < 1 || port > 65535)
                        return config_wrong(at, ERR_BADARG,
                                            "hosts: '%s' has no port of 1 to 65535 after its ':'",
                                            SHOWN_STR(text));
                end = colon;
        }
        const char *begin = text + is_bracketed;
        if (is_bracketed)
                end = end > text && end[-1] == ']' ? end - 1 : begin;
        if (begin >= end)
                return config_wrong(at, ERR_BADARG,
                                    "hosts must be names or addresses, as \"db1:%d\", not '%s'",
                                    usual_port, SHOWN_STR(text));
        ret->host = xmalloc((size_t)(end - begin) + 1);
        memcpy(ret->host, begin, (size_t)(end - begin));
        ret->host[end - begin] = '\0';
        ret->port = (int)port;
        return OK;
}

static int take_database(struct config_cluster *c, const struct config_at *at, cfg_t *section)
{
        bool is_postgres = c->kind == CLUSTER_POSTGRES;
        if (c->kind < 0)
                return config_wrong(at, ERR_BADARG, "kind is missing: \"postgres\" or \"mysql\"");
        if (!c->n_hosts)
                return config_wrong(at, ERR_BADARG,
                                    "hosts is missing: the servers of the database, as "
                                    "{\"db1:%d\", \"db2:%d\"}",
                                    is_postgres ? 5432 : 3306, is_postgres ? 5432 : 3306);
        int r = config_password_take(at, c->password_file, c->password_env, &c->password);
        c->logins = xcalloc(c->n_hosts, sizeof(*c->logins));
        for (size_t i = 0; r == OK && i < c->n_hosts; i++) {
                struct sql_login *l = &c->logins[i];
                *l = (struct sql_login){.user = c->user,
                                        .password = c->password,
                                        .database = c->database,
                                        .tls = c->tls};
                r = take_host(at, c->hosts[i], is_postgres ? 5432 : 3306, &l->server);
                if (r == OK)
                        r = config_tls_take_login(at, l, section);
        }
        c->ledger = (struct ledger_options){.logins = c->logins,
                                            .n_logins = c->n_hosts,
                                            .space = LEDGER_SPACE,
                                            .durability = (enum ledger_durability)c->durability};
        return r;
}

/* ---- the machine ---- */

static int take_node(struct config_cluster *c, const struct config_at *at)
{
        static const char allowed[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
        char host[LOG_NAME_MAX + 1] = "";
        if (!c->node) {
                (void)gethostname(host, sizeof(host) - 1); /* cut or empty: judged below */
                c->node = xstrdup(host);
        }
        size_t len = strlen(c->node);
        if (len < 1 || len > LOG_NAME_MAX || strspn(c->node, allowed) != len)
                return config_wrong(at, ERR_BADARG,
                                    "node must be 1 to %d letters, digits, '.', '_' and '-', not "
                                    "'%s'",
                                    LOG_NAME_MAX, SHOWN_STR(c->node));
        return OK;
}

static int take_address(const struct config_cluster *c, const struct config_at *at)
{
        struct server_url url;
        struct problem why;
        if (!c->address)
                return config_wrong(at, ERR_BADARG,
                                    "address is missing: where the other machines reach this one's "
                                    "resp, as \"weir1:7379\"");
        if (strlen(c->address) > LOG_ADDRESS_MAX)
                return config_wrong(at, ERR_BADARG, "address is longer than %d bytes",
                                    LOG_ADDRESS_MAX);
        int r = server_url_parse(c->address, &url, &why);
        if (r != OK)
                return config_wrong(at, r, "address: %s", why.detail);
        if (url.is_unix || url.token[0])
                return config_wrong(at, ERR_BADARG,
                                    "address must be a host and a port that other machines can "
                                    "reach, without a token, not '%s'",
                                    url.text);
        return OK;
}

static int take_secret(struct config_cluster *c, const struct config_at *at)
{
        char text[SECRET_MAX + 3];
        struct problem why;
        if (!c->secret_file)
                return config_wrong(at, ERR_BADARG,
                                    "secret_file is missing: a file with the secret that the "
                                    "machines of the cluster share");
        int r = config_read_secret("secret file", c->secret_file, text, sizeof(text), &why);
        if (r < 0)
                return config_wrong(at, r, "%s", why.detail);
        size_t n = (size_t)r;
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
                n--;
        text[n] = '\0';
        r = OK;
        if (n < SECRET_MIN || n > SECRET_MAX || strlen(text) != n || strchr(text, '\n'))
                r = config_wrong(at, ERR_BADARG,
                                 "secret file %s must hold one line of %d to %d characters",
                                 SHOWN_STR(c->secret_file), SECRET_MIN, SECRET_MAX);
        else
                c->secret = xstrdup(text);
        explicit_bzero(text, sizeof(text));
        return r;
}

int config_cluster_take(struct config_cluster *c, cfg_t *section, struct problem *problem)
{
        struct config_at at = at_of(c, problem);
        if (!section)
                return OK;
        c->is_given = true;
        int r = config_rows_take(&at, section);
        config_rows_finish(&at);
        if (r == OK)
                r = take_database(c, &at, section);
        if (r == OK)
                r = take_node(c, &at);
        if (r == OK)
                r = take_address(c, &at);
        if (r == OK)
                r = take_secret(c, &at);
        return r;
}
