/* Doors of the MySQL proxy and their classes, out of the configuration file.
 *
 *      mysql "shop" {
 *              listen = {"127.0.0.1:3307"}
 *              server = "127.0.0.1:3306"
 *              target = "shop"
 *              mode = "observe"
 *      }
 *      class "etl" {
 *              user = "etl*"
 *              tier = "deferrable"
 *      }
 *
 * Everything is checked here, so that the proxy never meets a setting that makes no sense.  Names
 * are not looked up: the file may be checked on another machine than the one it is for. */
#include "serve/config_doors.h"

#include <confuse.h>
#include <stdlib.h>
#include <sys/un.h>

#include "base/network.h"
#include "base/shown.h"
#include "gate/identity.h"
#include "proxy/proxy.h"
#include "serve/config_rows.h"
#include "serve/config_tls.h"

#define SERVER_PORT 3306

/* ---- addresses ---- */

static int read_path(const struct config_at *at, const char *name, const char *text,
                     struct config_address *ret)
{
        const size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
        if (text[0] != '/' || strlen(text) > max)
                return config_wrong(at, ERR_BADARG,
                                    "%s: the path of a unix socket begins with / and has at most "
                                    "%zu bytes, not '%s'",
                                    name, max, SHOWN_STR(text));
        (void)snprintf(ret->host, sizeof(ret->host), "%s", text);
        ret->is_path = true;
        ret->port = 0;
        return OK;
}

/* What stands before the port, without brackets; len 0: nothing.  False: it is no host. */
static bool take_host(struct slice text, struct slice *ret)
{
        struct ip ip;
        *ret = text;
        bool is_six = text.len >= 2 && text.ptr[0] == '[' && text.ptr[text.len - 1] == ']';
        if (is_six) {
                *ret = slice_make(text.ptr + 1, text.len - 2);
                return memchr(ret->ptr, ':', ret->len) && ip_parse(*ret, &ip);
        }
        for (size_t i = 0; i < text.len; i++)
                if ((uint8_t)text.ptr[i] <= ' ' || strchr("[]:,\"'", text.ptr[i]))
                        return false;
        return text.len <= CONFIG_HOST_MAX;
}

/* usual_port 0: it listens there, and must name the port; the host may be left out. */
static int read_address(const struct config_at *at, const char *name, const char *text,
                        int usual_port, struct config_address *ret)
{
        *ret = (struct config_address){.port = usual_port};
        if (strchr(text, '/'))
                return read_path(at, name, text, ret);
        const char *colon = strrchr(text, ':');
        if (colon && strchr(colon, ']'))
                colon = NULL; /* [::1] */
        int64_t port = usual_port;
        struct slice host;
        bool is_fine = colon ? slice_to_i64(slice_str(colon + 1), &port) : usual_port != 0;
        is_fine =
                is_fine && port >= (usual_port ? 1 : 0) && port <= 65535 &&
                take_host(slice_make(text, colon ? (size_t)(colon - text) : strlen(text)), &host) &&
                (host.len || !usual_port);
        if (!is_fine)
                return config_wrong(at, ERR_BADARG,
                                    "%s takes \"host:port\", %s or the path of a unix socket, and "
                                    "an IPv6 address as \"[::1]:%d\", not '%s'",
                                    name, usual_port ? "\"host\"" : "\":port\"",
                                    usual_port ? usual_port : 3307, SHOWN_STR(text));
        if (!host.len || slice_eq_nocase(host, SLICE_LIT("localhost")))
                host = SLICE_LIT("127.0.0.1");
        (void)snprintf(ret->host, sizeof(ret->host), "%.*s", (int)host.len, host.ptr);
        ret->port = (int)port;
        return OK;
}

static bool is_same_address(const struct config_address *a, const struct config_address *b)
{
        return strcmp(a->host, b->host) == 0 && a->port == b->port;
}

/* "10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "unix". */
static int check_network(const struct config_at *at, const char *name, const char *text)
{
        struct network network;
        if (strcmp(text, "unix") == 0)
                return OK;
        if (!network_parse(slice_str(text), &network))
                return config_wrong(at, ERR_BADARG,
                                    "%s takes an address or a network such as \"10.0.0.0/8\" or "
                                    "\"2001:db8::/32\", or \"unix\", not '%s'",
                                    name, SHOWN_STR(text));
        if (!network_ends_with_zeros(&network))
                return config_wrong(at, ERR_BADARG,
                                    "%s: '%s' has bits beyond its first %s; a network ends with "
                                    "zeros",
                                    name, SHOWN_STR(text), strchr(text, '/') + 1);
        return OK;
}

/* ---- a door ---- */

void config_door_init(struct config_door *door)
{
        *door = (struct config_door){.name = ""};
        const struct config_at at = {.section = SECTION_MYSQL, .own = door};
        config_rows_init(&at);
}

void config_door_server(const struct config_door *door, struct config_address *ret)
{
        struct problem problem;
        const struct config_at at = {.problem = &problem};
        int r = read_address(&at, "server", door->server, SERVER_PORT, ret);
        ASSERT(r == OK); /* it was checked */
}

static int check_addresses(const struct config_at *at, const struct config_door *door)
{
        struct config_address server, listen;
        if (door->n_listen == 0)
                return config_wrong(at, ERR_BADARG,
                                    "listen is missing: where MySQL clients connect, such as "
                                    "listen = {\"127.0.0.1:3307\"}");
        int r = read_address(at, "server", door->server, SERVER_PORT, &server);
        for (size_t i = 0; r == OK && i < door->n_listen; i++) {
                r = read_address(at, "listen", door->listen[i], 0, &listen);
                if (r == OK && is_same_address(&listen, &server))
                        r = config_wrong(at, ERR_BADARG,
                                         "server '%s' is where the door itself listens; it must "
                                         "be the address of the database server",
                                         SHOWN_STR(door->server));
        }
        for (size_t i = 0; r == OK && i < door->n_proxy_from; i++)
                r = check_network(at, "proxy_protocol_from", door->proxy_from[i]);
        return r;
}

static int check_client_tls(const struct config_at *at, const struct config_door *door)
{
        bool is_terminated = door->tls == PROXY_TLS_TERMINATE;
        if (is_terminated && !door->tls_cert && !door->tls_key)
                return config_wrong(at, ERR_BADARG,
                                    "tls terminate needs tls_cert and tls_key, the certificate "
                                    "that clients see and its key");
        if (!is_terminated && (door->tls_cert || door->tls_key))
                return config_wrong(at, ERR_BADARG, "%s needs tls = \"terminate\"",
                                    door->tls_cert ? "tls_cert" : "tls_key");
        return config_tls_check_pair(at, door->tls_cert, door->tls_key);
}

static int check_server_tls(const struct config_at *at, const struct config_door *door)
{
        bool is_verified = door->server_tls == PROXY_SERVER_VERIFY;
        const char *word = setting_table[SET_MYSQL_server_tls].choices[door->server_tls];
        if (door->server_tls != PROXY_SERVER_AS_CLIENT && strchr(door->server, '/'))
                return config_wrong(at, ERR_BADARG,
                                    "server_tls %s is for a host: what goes over a unix socket "
                                    "stays on this machine",
                                    word);
        if (door->server_tls != PROXY_SERVER_AS_CLIENT && door->tls == PROXY_TLS_BLIND)
                return config_wrong(at, ERR_BADARG,
                                    "server_tls %s makes no sense with tls = \"blind\": the client "
                                    "encrypts for the server itself",
                                    word);
        if (is_verified && !door->server_ca)
                return config_wrong(at, ERR_BADARG,
                                    "server_tls verify needs server_ca, the certificates that are "
                                    "trusted; those of the system are usually in "
                                    "/etc/ssl/certs/ca-certificates.crt");
        if (!is_verified && (door->server_ca || door->server_name))
                return config_wrong(at, ERR_BADARG, "%s needs server_tls = \"verify\"",
                                    door->server_ca ? "server_ca" : "server_name");
        int r = config_tls_check_ca(at, "server_ca", door->server_ca);
        return r == OK ? config_tls_check_name(at, "server_name", door->server_name) : r;
}

/* "": there is none, and only rules and limits count. */
static int take_target(const struct config_at *at, struct config_door *door,
                       const struct config_targets *targets)
{
        if (door->target)
                return *door->target ? config_check_target(at, door->target, targets) : OK;
        for (size_t i = 0; i < targets->n && !door->target; i++)
                if (targets->probes[i].kind == PROBE_MYSQL)
                        door->target = xstrdup(targets->probes[i].name);
        if (!door->target)
                door->target = xstrdup("");
        return OK;
}

static int take_door(struct config_door *door, const struct config_targets *targets, cfg_t *cfg,
                     struct problem *problem)
{
        const char *name = cfg_title(cfg);
        struct config_at at = {.section = SECTION_MYSQL, .own = door, .problem = problem};
        (void)snprintf(at.where, sizeof(at.where), "mysql \"%s\": ", SHOWN_STR(name));
        config_door_init(door);
        if (!config_is_name(name))
                return config_wrong(&at, ERR_BADARG,
                                    "a door needs a name of 1 to %d bytes of UTF-8 without '/' "
                                    "and control characters",
                                    PROBE_NAME_MAX);
        (void)snprintf(door->name, sizeof(door->name), "%s", name);
        int r = config_rows_take(&at, cfg);
        config_rows_finish(&at);
        if (r == OK)
                r = check_addresses(&at, door);
        if (r == OK)
                r = check_client_tls(&at, door);
        if (r == OK)
                r = check_server_tls(&at, door);
        return r == OK ? take_target(&at, door, targets) : r;
}

/* The door that listens there already, up to address `n` of the last one; NULL: none does. */
static const struct config_door *find_listener(const struct config_doors *d, size_t n,
                                               const struct config_address *where)
{
        struct problem unused; /* all of them were read before */
        const struct config_at at = {.problem = &unused};
        for (size_t i = 0; i < d->n; i++) {
                const struct config_door *door = &d->doors[i];
                for (size_t k = 0; k < (i + 1 == d->n ? n : door->n_listen); k++) {
                        struct config_address its;
                        if (read_address(&at, "listen", door->listen[k], 0, &its) == OK &&
                            is_same_address(&its, where))
                                return door;
                }
        }
        return NULL;
}

/* Of the last door, after all others.  Each port 0 is another one. */
static int check_twice(const struct config_doors *d, struct problem *problem)
{
        const struct config_door *door = &d->doors[d->n - 1];
        struct config_at at = {.problem = problem};
        (void)snprintf(at.where, sizeof(at.where), "mysql \"%s\": ", SHOWN_STR(door->name));
        for (size_t i = 0; i < door->n_listen; i++) {
                struct config_address mine;
                int r = read_address(&at, "listen", door->listen[i], 0, &mine);
                if (r != OK)
                        return r;
                bool is_any = !mine.is_path && mine.port == 0;
                const struct config_door *other = is_any ? NULL : find_listener(d, i, &mine);
                if (other)
                        return config_wrong(&at, ERR_BADARG,
                                            "listen: mysql \"%s\" has '%s' already; an address "
                                            "may be there once",
                                            SHOWN_STR(other->name), SHOWN_STR(door->listen[i]));
        }
        return OK;
}

/* ---- a class ---- */

void config_class_init(struct config_class *class)
{
        *class = (struct config_class){.name = ""};
        const struct config_at at = {.section = SECTION_CLASS, .own = class};
        config_rows_init(&at);
}

static struct slice text_of(const char *text)
{
        return text ? slice_str(text) : SLICE_NONE;
}

struct class_row config_class_row(const struct config_class *c)
{
        static const struct {
                uint16_t number;
                char sqlstate[6];
        } errors[] = {
#define X(number, sqlstate) {number, sqlstate},
                CLASS_ERROR_MAP(X)
#undef X
        };
        struct class_row row = {.name = slice_str(c->name),
                                .door = text_of(c->door),
                                .statements = (enum class_statements)c->statements,
                                .identity = text_of(c->identity),
                                .tier = c->tier,
                                .mode = c->mode,
                                .wait_ms = c->wait_ms,
                                .error = errors[c->error].number,
                                .concurrency = c->concurrency,
                                .rate = c->rate,
                                .time_budget_ms = (uint32_t)c->budget_ms};
#define X(pattern) row.pattern = text_of(c->pattern);
        CLASS_PATTERN_MAP(X)
#undef X
        memcpy(row.sqlstate, errors[c->error].sqlstate, sizeof(row.sqlstate));
        return row;
}

static int check_door(const struct config_at *at, const char *name, const struct config_doors *d)
{
        char have[PROBLEM_DETAIL_MAX] = "";
        size_t len = 0;
        for (size_t i = 0; i < d->n; i++)
                if (strcmp(d->doors[i].name, name) == 0)
                        return OK;
        for (size_t i = 0; i < d->n && len < sizeof(have); i++) /* cut is fine */
                len += (size_t)snprintf(have + len, sizeof(have) - len, "%s'%s'", i ? ", " : "",
                                        SHOWN_STR(d->doors[i].name));
        return config_wrong(at, ERR_BADARG, "mysql '%s' is not in this file; it has %s",
                            SHOWN_STR(name), d->n ? have : "no mysql section");
}

/* What gate/sql_class.h cannot know: a text that was said must not be empty, and a class that says
 * nothing would be for everybody. */
static int check_matchers(const struct config_at *at, const struct config_class *class)
{
        bool has_any = class->statements != CLASS_STATEMENTS_ANY;
        const struct {
                const char *name, *text;
        } patterns[] = {
#define X(pattern) {#pattern, class->pattern},
                CLASS_PATTERN_MAP(X)
#undef X
                        {"identity", class->identity}};
        for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
                const char *text = patterns[i].text;
                has_any |= text && i + 1 < ARRAY_LEN(patterns); /* not for the identity */
                if (text && !*text)
                        return config_wrong(at, ERR_BADARG, "%s is empty: leave it out instead",
                                            patterns[i].name);
        }
        if (has_any)
                return OK;
        return config_wrong(at, ERR_BADARG,
                            "nothing says which transactions it is for: give user, database, "
                            "program, comment, address, digest or statements; user = \"*\" is for "
                            "all");
}

static int check_identity(const struct config_at *at, const char *text)
{
        struct identity identity;
        struct problem why;
        int r = text ? identity_parse(slice_str(text), &identity, &why) : OK;
        return r == OK ? OK : config_wrong(at, r, "identity: %s", why.detail);
}

static int check_class(const struct config_at *at, const struct config_class *class)
{
        struct problem why;
        struct class_row row = config_class_row(class);
        int r = check_matchers(at, class);
        if (r == OK)
                r = check_identity(at, class->identity);
        if (r != OK)
                return r;
        r = class_row_check(&row, &why);
        return r == OK ? OK : config_wrong(at, r, "%s", why.detail);
}

static int take_class(struct config_class *class, const struct config_doors *d, cfg_t *cfg,
                      struct problem *problem)
{
        const char *name = cfg_title(cfg);
        struct config_at at = {.section = SECTION_CLASS, .own = class, .problem = problem};
        (void)snprintf(at.where, sizeof(at.where), "class \"%s\": ", SHOWN_STR(name));
        config_class_init(class);
        if (!config_is_name(name))
                return config_wrong(&at, ERR_BADARG,
                                    "a class needs a name of 1 to %d bytes of UTF-8 without '/' "
                                    "and control characters",
                                    PROBE_NAME_MAX);
        (void)snprintf(class->name, sizeof(class->name), "%s", name);
        int r = config_rows_take(&at, cfg);
        if (r == OK && class->door)
                r = check_door(&at, class->door, d);
        return r == OK ? check_class(&at, class) : r;
}

/* ---- all of them ---- */

static int take_doors(struct config_doors *d, const struct config_targets *targets, cfg_t *cfg,
                      struct problem *problem)
{
        unsigned n = cfg_size(cfg, "mysql");
        if (n > CONFIG_DOORS_MAX)
                return problem_set(problem, ERR_BADARG, "more than %d mysql sections",
                                   CONFIG_DOORS_MAX);
        d->doors = xcalloc(n + 1, sizeof(*d->doors));
        int r = OK;
        for (unsigned i = 0; r == OK && i < n; i++) {
                r = take_door(&d->doors[d->n++], targets, cfg_getnsec(cfg, "mysql", i), problem);
                if (r == OK)
                        r = check_twice(d, problem);
        }
        return r;
}

int config_doors_take(struct config_doors *d, const struct config_targets *targets, cfg_t *cfg,
                      struct problem *problem)
{
        int r = take_doors(d, targets, cfg, problem);
        if (r != OK)
                return r;
        unsigned n = cfg_size(cfg, "class");
        if (n > CONFIG_CLASSES_MAX)
                return problem_set(problem, ERR_BADARG, "more than %d class sections",
                                   CONFIG_CLASSES_MAX);
        d->classes = xcalloc(n + 1, sizeof(*d->classes));
        for (unsigned i = 0; r == OK && i < n; i++)
                r = take_class(&d->classes[d->n_classes++], d, cfg_getnsec(cfg, "class", i),
                               problem);
        return r;
}

void config_doors_release(struct config_doors *d)
{
        for (size_t i = 0; i < d->n; i++) {
                const struct config_at at = {.section = SECTION_MYSQL, .own = &d->doors[i]};
                config_rows_release(&at);
        }
        for (size_t i = 0; i < d->n_classes; i++) {
                const struct config_at at = {.section = SECTION_CLASS, .own = &d->classes[i]};
                config_rows_release(&at);
        }
        free(d->doors);
        free(d->classes);
        *d = (struct config_doors){0};
}
