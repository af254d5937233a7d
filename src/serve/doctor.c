/* Checks a set-up for known mistakes: each line is one thing, what
 * it is like, and when it is not right, what to do.
 *
 * Nothing is changed: the one file that is written (to time the disk) is gone before it is used.
 * Targets are asked by the same probes as the server's, so a missing privilege shows here and not
 * at night.  `warn` is for what works and is not wise; only `bad` makes the exit code 1. */
#include "serve/doctor.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "cli/fields.h"
#include "cli/request.h"
#include "door/tls_files.h"
#include "serve/config.h"
#include "wire/json.h"
#include "wire/mysql_login.h"

#define SAMPLES_AT_ONCE 64
#define EXTRA_MS        1000

void doctor_tell(struct doctor *d, enum verdict verdict, const char *name, const char *fix,
                 const char *fmt, ...)
{
        va_list args;
        if (d->n == FINDINGS_MAX)
                return;
        struct finding *f = &d->findings[d->n++];
        f->verdict = verdict;
        f->name = name;
        (void)snprintf(f->fix, sizeof(f->fix), "%s", fix ? fix : "");
        va_start(args, fmt);
        (void)vsnprintf(f->text, sizeof(f->text), fmt, args);
        va_end(args);
}

/* ---- the configuration ---- */

static bool is_local(const char *addr)
{
        return addr[0] == '/' || addr[0] == '.' || strncmp(addr, "127.", 4) == 0 ||
               strncmp(addr, "localhost:", 10) == 0 || strncmp(addr, "[::1]", 5) == 0 ||
               strncmp(addr, "unix:", 5) == 0;
}

/* The first address that other machines can reach, or NULL. */
static const char *open_address(struct config *c)
{
        for (int kind = 0; kind < SERVER_KINDS; kind++) {
                struct config_addresses all = config_addresses(c, (enum server_kind)kind);
                for (size_t i = 0; i < *all.n; i++)
                        if (!is_local(all.text[i]))
                                return all.text[i];
        }
        return NULL;
}

static void check_addresses(struct doctor *d, struct config *c)
{
        const char *addr = open_address(c);
        struct problem problem;
        if (addr && !config_has_token(c))
                doctor_tell(d, VERDICT_BAD, "access",
                            "set token_file in the configuration, or listen on 127.0.0.1 only",
                            "%s can be reached from elsewhere, and no token is asked for", addr);
        else if (config_check_access(c, c, &problem) != OK)
                doctor_tell(d, VERDICT_BAD, "access",
                            strstr(problem.detail, "token")
                                    ? "put a longer token into the token file"
                                    : "use TLS there, or say that it is meant",
                            "%s", problem.detail);
        else if (c->is_insecure)
                doctor_tell(d, VERDICT_WARN, "access",
                            "use resp_tls and http_tls, unless the network or a proxy encrypts",
                            "insecure = true: the token and all payloads may pass in the clear");
        else
                doctor_tell(d, VERDICT_FINE, "access", NULL,
                            config_has_token(c) ? "clients must show a token"
                                                : "only this machine can reach it");
}

static void check_certificate(struct doctor *d, const struct config *c)
{
        struct tls_files files = config_tls_files(c);
        struct tls_ctx *ctx = NULL;
        struct problem problem;
        char date[TLS_DATE_MAX];
        int64_t now_ms = clock_wall_ms();
        if (!files.cert)
                return;
        if (tls_ctx_new(&files, now_ms, &ctx, &problem) != OK) {
                doctor_tell(d, VERDICT_BAD, "certificate", "'weir help tls' makes one for trying",
                            "%s", problem.detail);
                return;
        }
        bool is_early = tls_ctx_begins_ms(ctx) > now_ms;
        bool is_late = tls_ctx_ends_ms(ctx) - now_ms < TLS_ENDS_SOON_MS;
        doctor_tell(d, is_early || is_late ? VERDICT_WARN : VERDICT_FINE, "certificate",
                    is_late ? "put a new one there; weir reads it by itself" : NULL, "%s %s on %s",
                    files.cert, is_early ? "begins" : "ends",
                    tls_date(is_early ? tls_ctx_begins_ms(ctx) : tls_ctx_ends_ms(ctx), date));
        (void)tls_ctx_free(ctx);
}

static void check_secret(struct doctor *d, const char *name, const char *path)
{
        struct stat st;
        if (!path)
                return;
        if (stat(path, &st) != 0)
                doctor_tell(d, VERDICT_BAD, name, "put it there, mode 600", "%s: %s", path,
                            strerror(errno));
        else if (st.st_mode & (S_IRWXG | S_IRWXO))
                doctor_tell(d, VERDICT_WARN, name, "chmod 600 it", "%s has mode %03o", path,
                            (unsigned)(st.st_mode & 0777));
        else
                doctor_tell(d, VERDICT_FINE, name, NULL, "%s is for its owner alone", path);
}

static bool check_config(struct doctor *d, const struct args *args, struct config *c)
{
        const char *path = args_get(args, "config"), *data = args_get(args, "data");
        struct problem p = {0};
        int r = path ? config_read_file(c, path, &p) : OK;
        if (data)
                config_set_data(c, data);
        if (r == OK)
                r = config_finish(c, &p);
        if (r != OK) {
                static const char prefix[] = "configuration ";
                bool is_named = strncmp(p.detail, prefix, sizeof(prefix) - 1) == 0;
                doctor_tell(d, VERDICT_BAD, "configuration",
                            r == ERR_IO ? "name the server's file with -c FILE"
                                        : "'weir config check FILE' says in which line",
                            "%s", p.detail + (is_named ? sizeof(prefix) - 1 : 0));
                return false;
        }
        if (path)
                doctor_tell(d, VERDICT_FINE, "configuration", NULL, "%s is sound, %zu %s", path,
                            c->targets.n, plural(c->targets.n, "target", "targets"));
        check_secret(d, "token file", c->token_file);
        for (size_t i = 0; i < c->tokens.n; i++)
                check_secret(d, "token file", c->tokens.tokens[i].secret_file);
        check_secret(d, "signing keys", c->signing_keys_file);
        check_addresses(d, c);
        check_certificate(d, c);
        return true;
}

/* ---- the server ---- */

static int server_of(const struct args *args, const struct config *c, struct server_url *ret,
                     struct problem *p)
{
        const char *env = getenv("WEIR_URL");
        int r = cli_server(args, ret, p);
        if (r != OK || args_has(args, "url") || (env && *env))
                return r;
        char token[sizeof(ret->token)];
        memcpy(token, ret->token, sizeof(token));
        r = server_url_parse(c->n_resp ? c->resp[0] : SERVER_URL_DEFAULT, ret, p);
        if (r != OK)
                return r;
        for (size_t i = 0; !token[0] && i <= c->tokens.n; i++) {
                const struct config_secrets *s = i ? &c->tokens.tokens[i - 1].secrets : &c->token;
                if (s->n)
                        (void)snprintf(token, sizeof(token), "%s", s->text[0]);
        }
        memcpy(ret->token, token, sizeof(token));
        return OK;
}

/* History as the server has it at this moment: it may be unable to write a file that is sound. */
static void check_writing(struct doctor *d, struct client *client)
{
        const struct slice ask[] = {SLICE_LIT("NOW")};
        const struct value *v;
        struct problem p;
        if (client_call(client, ask, 1, &v, &p) != OK)
                return; /* of a version that has no such answer, or just gone */
        const struct value *history = value_get(v, "history");
        int64_t waiting = field_int(history, "waiting");
        struct slice problem = field_text(history, "problem");
        if (field_int(history, "failing_since_ms"))
                doctor_tell(d, VERDICT_BAD, "history",
                            "docs/history.md, 'When history cannot be written'",
                            "the server cannot write it, and %lld finished %s: %.*s",
                            (long long)waiting, plural((uint64_t)waiting, "job waits", "jobs wait"),
                            (int)problem.len, problem.ptr);
}

/* Connects, shows the token and pings. */
static void check_resp(struct doctor *d, const struct server_url *url)
{
        const struct slice ping[] = {SLICE_LIT("PING")};
        const char *name = url->is_tls ? "server, TLS" : "server", *fix = NULL;
        const struct value *v;
        struct client client;
        struct problem p = {0};
        client_init(&client, url);
        int64_t began_ns = clock_boot_ns();
        int r = client_connect(&client, &p);
        if (r == OK)
                r = client_call(&client, ping, 1, &v, &p);
        if (r == OK) {
                doctor_tell(d, VERDICT_FINE, name, NULL, "answers on %s in %.1f ms", url->text,
                            (double)(clock_boot_ns() - began_ns) / 1e6);
                if (!d->has_asked)
                        check_writing(d, &client);
                d->has_asked = true;
        } else {
                if (r == ERR_UNAVAIL)
                        fix = url->is_tls ? "start weir; docs/tls.md, 'When it fails', explains "
                                            "what TLS says"
                                          : "start it: systemctl start weir";
                else if (r == ERR_NOAUTH || r == ERR_BADTOKEN)
                        fix = "--token @FILE, or -c with the configuration that names its token "
                              "file";
                else
                        fix = "see what listens there: ss -ltnp";
                doctor_tell(d, r == ERR_UNAVAIL ? VERDICT_WARN : VERDICT_BAD, name, fix, "%s",
                            p.detail);
        }
        client_release(&client);
}

/* The doors with TLS, with the token that the plain one gets.  The certificate is not verified
 * unless the environment names an authority: it is for the names that clients use, the address is
 * one of this machine, and check_certificate() has looked at the file. */
static void check_resp_tls(struct doctor *d, const struct config *c, const struct server_url *plain)
{
        for (size_t i = 0; i < c->n_resp_tls; i++) {
                const char *addr = c->resp_tls[i];
                char text[300];
                struct server_url url;
                struct problem p = {0};
                const char *port = strrchr(addr, ':');
                if (port && strcmp(port, ":0") == 0)
                        continue; /* a free one, which only the server knows */
                (void)snprintf(text, sizeof(text), "rediss://%s%s",
                               addr[0] == ':' ? "127.0.0.1" : "", addr);
                int r = server_url_parse(text, &url, &p);
                if (r == OK)
                        r = server_url_add_env(&url, &p);
                if (r != OK) {
                        doctor_tell(d, VERDICT_BAD, "server, TLS", NULL, "%s: %s", addr, p.detail);
                        continue;
                }
                if (!url.tls.ca[0])
                        (void)snprintf(url.tls.verify, sizeof(url.tls.verify), "off");
                memcpy(url.user, plain->user, sizeof(url.user));
                memcpy(url.token, plain->token, sizeof(url.token));
                check_resp(d, &url);
        }
}

/* host:port of the HTTP door takes connections?  0 or an errno. */
static int try_port(const struct server_url *url)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
        char port[8];
        int error = ECONNREFUSED;
        (void)snprintf(port, sizeof(port), "%u", (unsigned)url->port);
        if (getaddrinfo(url->host, port, &hints, &all) != 0)
                return EADDRNOTAVAIL;
        for (struct addrinfo *a = all; a && error; a = a->ai_next) {
                int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (fd < 0)
                        continue;
                struct timeval wait = {.tv_sec = 3};
                (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
                error = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
                (void)close(fd);
        }
        freeaddrinfo(all);
        return error;
}

static void check_http(struct doctor *d, const struct config *c)
{
        struct server_url url;
        struct problem p = {0};
        for (size_t i = 0; i < c->n_http + c->n_http_tls; i++) {
                const char *addr = i < c->n_http ? c->http[i] : c->http_tls[i - c->n_http];
                if (server_url_parse(addr, &url, &p) != OK || url.is_unix || !url.port)
                        continue;
                int error = try_port(&url);
                doctor_tell(d, error ? VERDICT_WARN : VERDICT_FINE, "http",
                            error ? "start weir, or see what keeps it from listening" : NULL,
                            error ? "%s does not take connections: %s" : "%s takes connections%s",
                            addr, error ? strerror(error) : "");
        }
}

static void check_server(struct doctor *d, const struct args *args, const struct config *c)
{
        struct server_url url;
        struct problem p = {0};
        if (server_of(args, c, &url, &p) != OK) {
                doctor_tell(d, VERDICT_BAD, "server", "see 'weir help' for what --url takes", "%s",
                            p.detail);
                return;
        }
        check_resp(d, &url);
        const char *env = getenv("WEIR_URL");
        if (!args_has(args, "url") && !(env && *env)) { /* else it is another server's door */
                check_resp_tls(d, c, &url);
                check_http(d, c);
        }
}

/* ---- the targets ---- */

static void on_news(void *ctx)
{
        uint64_t one = 1;
        const int *fd = ctx;
        if (write(*fd, &one, sizeof(one)) < 0)
                ASSERT(errno == EAGAIN); /* it knows */
}

struct round {
        const struct config_targets *targets;
        struct probe_sample (*samples)[PROBE_METRICS_MAX]; /* at_ns 0: none yet */
        int fd;
};

static bool is_complete(const struct round *r)
{
        for (size_t i = 0; i < r->targets->n; i++)
                for (size_t k = 0; k < r->targets->probes[i].n_metrics; k++)
                        if (!r->samples[i][k].at_ns)
                                return false;
        return true;
}

/* Every metric has had its turn by then: a rate needs two. */
static int64_t longest_ms(const struct config_targets *t)
{
        int64_t ms = 0;
        for (size_t i = 0; i < t->n; i++) {
                int64_t all = 2 * t->probes[i].timeout_ms + t->probes[i].interval_ms + EXTRA_MS;
                ms = all > ms ? all : ms;
        }
        return ms;
}

static void collect(struct round *r, struct probe *probe)
{
        struct probe_sample some[SAMPLES_AT_ONCE];
        int64_t until_ns = clock_boot_ns() + longest_ms(r->targets) * NS_PER_MS;
        while (!is_complete(r) && clock_boot_ns() < until_ns) {
                struct pollfd pfd = {.fd = r->fd, .events = POLLIN};
                uint64_t unused;
                (void)poll(&pfd, 1, 100); /* the samples are looked for whatever woke it */
                (void)!read(r->fd, &unused, sizeof(unused));
                for (size_t n; (n = probe_take(probe, some, ARRAY_LEN(some)));)
                        for (size_t i = 0; i < n; i++)
                                r->samples[some[i].target][some[i].metric] = some[i];
        }
}

static void tell_target(struct doctor *d, const struct round *r, size_t i)
{
        const struct probe_options *o = &r->targets->probes[i];
        size_t bad = 0;
        for (size_t k = 0; k < o->n_metrics; k++) {
                const struct probe_sample *s = &r->samples[i][k];
                if (s->at_ns && !s->is_error)
                        continue;
                bad++;
                doctor_tell(
                        d, VERDICT_BAD, "target",
                        "docs/probes.md has the privileges and the settings that each kind needs",
                        "%s: %s: %s", o->name, o->metrics[k].name,
                        s->at_ns ? s->error : "nothing came");
        }
        if (!bad)
                doctor_tell(d, VERDICT_FINE, "target", NULL, "%s (%s): %zu %s can be read", o->name,
                            probe_kind_name(o->kind), o->n_metrics,
                            plural(o->n_metrics, "metric", "metrics"));
}

static void check_targets(struct doctor *d, const struct config_targets *targets)
{
        struct round r = {.targets = targets};
        struct probe *probe = NULL;
        struct problem p = {0};
        if (!targets->n)
                return;
        r.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r.samples = xcalloc(targets->n, sizeof(*r.samples));
        int e = r.fd < 0 ? problem_set(&p, ERR_IO, "eventfd: %s", strerror(errno))
                         : probe_start(targets->probes, targets->n, on_news, &r.fd, &probe, &p);
        if (e == OK)
                collect(&r, probe);
        else
                doctor_tell(d, VERDICT_BAD, "target", "see the log of weir", "%s", p.detail);
        probe = probe_stop(probe);
        for (size_t i = 0; i < targets->n && e == OK; i++)
                tell_target(d, &r, i);
        free(r.samples);
        if (r.fd >= 0)
                (void)close(r.fd);
}

/* ---- the doors of the MySQL proxy ---- */

static int connect_path(const char *path)
{
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        memcpy(un.sun_path, path, strnlen(path, sizeof(un.sun_path) - 1)); /* it fits */
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)&un, sizeof(un)) == 0)
                return fd;
        int error = errno;
        if (fd >= 0)
                (void)close(fd);
        errno = error;
        return -1;
}

/* A socket, or -1 and errno. */
static int connect_host(const char *host, int port, int64_t timeout_ms)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
        struct timeval wait = {.tv_sec = timeout_ms / MS_PER_S,
                               .tv_usec = timeout_ms % MS_PER_S * 1000};
        char text[8];
        int fd = -1, error = EADDRNOTAVAIL;
        (void)snprintf(text, sizeof(text), "%d", port);
        if (getaddrinfo(host, text, &hints, &all) != 0)
                all = NULL;
        for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
                fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (fd < 0)
                        continue;
                (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
                if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
                        break;
                error = errno == EINPROGRESS ? ETIMEDOUT : errno;
                (void)close(fd);
                fd = -1;
        }
        if (all)
                freeaddrinfo(all);
        errno = error;
        return fd;
}

/* The packet that a MySQL server begins with: its payload, or -1. */
static ssize_t read_greeting(int fd, int64_t timeout_ms, uint8_t *bytes, size_t size)
{
        struct timeval wait = {.tv_sec = timeout_ms / MS_PER_S,
                               .tv_usec = timeout_ms % MS_PER_S * 1000};
        size_t have = 0, want = 4;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        while (have < want) {
                ssize_t n = recv(fd, bytes + have, want - have, 0);
                if (n <= 0)
                        return -1;
                have += (size_t)n;
                if (have == 4 && want == 4)
                        want += bytes[0] | bytes[1] << 8 | bytes[2] << 16;
                if (want > size)
                        return -1;
        }
        return (ssize_t)have - 4;
}

static void check_door(struct doctor *d, const struct config_door *door)
{
        static const char fix[] = "start the database server, or set `server` of the door";
        struct config_address at;
        struct mysql_greeting greeting;
        struct problem why;
        uint8_t bytes[1024];
        config_door_server(door, &at);
        int fd = at.is_path ? connect_path(at.host)
                            : connect_host(at.host, at.port, door->connect_timeout_ms);
        if (fd < 0) {
                doctor_tell(d, VERDICT_BAD, "mysql", fix, "%s: the server %s is away: %s",
                            door->name, door->server, strerror(errno));
                return;
        }
        ssize_t n = read_greeting(fd, door->connect_timeout_ms, bytes, sizeof(bytes));
        int r = n < 0 ? problem_set(&why, ERR_SYNTAX, "it does not greet as a MySQL server")
                      : mysql_greeting_edit(bytes + 4, (size_t)n, 0, &greeting, &why);
        (void)close(fd);
        if (r == OK)
                doctor_tell(d, VERDICT_FINE, "mysql", NULL, "%s: the server %s answers, version %s",
                            door->name, door->server, SHOWN(greeting.version));
        else
                doctor_tell(d, VERDICT_BAD, "mysql", fix, "%s: the server %s: %s", door->name,
                            door->server, why.detail);
}

/* ---- telling ---- */

static const struct {
        const char *word;
        enum tone tone;
} verdicts[] = {
        [VERDICT_FINE] = {"ok  ", TONE_GREEN},
        [VERDICT_WARN] = {"warn", TONE_YELLOW},
        [VERDICT_BAD] = {"bad ", TONE_RED},
};

static size_t count_of(const struct doctor *d, enum verdict verdict)
{
        size_t n = 0;
        for (size_t i = 0; i < d->n; i++)
                n += d->findings[i].verdict == verdict;
        return n;
}

static void put_text(const struct doctor *d, struct buf *b)
{
        struct screen screen;
        screen_init(&screen);
        for (size_t i = 0; i < d->n; i++) {
                const struct finding *f = &d->findings[i];
                screen_put_toned(&screen, b, verdicts[f->verdict].tone,
                                 slice_str(verdicts[f->verdict].word));
                buf_printf(b, "  %-14s ", f->name);
                text_put_safe(b, slice_str(f->text));
                buf_put_byte(b, '\n');
                if (f->fix[0])
                        buf_printf(b, "      %-14s -> %s\n", "", f->fix);
        }
        size_t bad = count_of(d, VERDICT_BAD), warn = count_of(d, VERDICT_WARN);
        if (bad || warn)
                buf_printf(b, "%zu to fix, %zu to think about\n", bad, warn);
        else
                buf_put_str(b, "all is well\n");
}

static void put_json(const struct doctor *d, struct buf *b)
{
        static const char *const names[] = {"ok", "warn", "bad"};
        buf_printf(b, "{\"ok\":%s,\"checks\":[", count_of(d, VERDICT_BAD) ? "false" : "true");
        for (size_t i = 0; i < d->n; i++) {
                const struct finding *f = &d->findings[i];
                json_put_comma(b);
                buf_put_byte(b, '{');
                json_put_key(b, "name");
                json_put_text(b, slice_str(f->name));
                json_put_key(b, "verdict");
                json_put_text(b, slice_str(names[f->verdict]));
                json_put_key(b, "text");
                json_put_text_lossy(b, slice_str(f->text));
                json_put_key(b, "fix");
                json_put_text_lossy(b, slice_str(f->fix));
                buf_put_byte(b, '}');
        }
        buf_put_str(b, "]}\n");
}

/* ---- the command ---- */

static void look(struct doctor *d, const struct args *args)
{
        struct config config;
        config_init(&config);
        if (check_config(d, args, &config)) {
                if (doctor_check_folder(d, config.data)) {
                        doctor_check_sync(d, config.data);
                        doctor_check_data(d, config.data);
                }
                doctor_check_space(d, config.data);
                check_server(d, args, &config);
                check_targets(d, &config.targets);
                for (size_t i = 0; i < config.doors.n; i++)
                        check_door(d, &config.doors.doors[i]);
        }
        doctor_check_files(d);
        doctor_check_clock(d);
        doctor_check_zones(d);
        config_release(&config);
}

int doctor_main(int argc, char **argv)
{
        struct args args = {0};
        struct problem p = {0};
        struct buf out CLEANUP(buf_release) = {0};
        int r = args_parse(&args, cli_doctor_options, argv + 1, argc - 1, &p);
        if (r == OK && args.n_positional)
                r = problem_set(&p, ERR_SYNTAX, "unexpected argument '%s'",
                                SHOWN_STR(args.positional[0]));
        if (r != OK) {
                fprintf(stderr, "weir doctor: %s\n", p.detail);
                return err_exit(r);
        }
        if (args_has(&args, "help"))
                return cli_help("doctor", NULL);
        struct doctor *d = xcalloc(1, sizeof(*d));
        look(d, &args);
        if (args_has(&args, "json"))
                put_json(d, &out);
        else
                put_text(d, &out);
        bool is_well = count_of(d, VERDICT_BAD) == 0;
        free(d);
        bool is_written = fwrite(out.ptr, 1, out.len, stdout) == out.len && fflush(stdout) == 0;
        if (!is_written)
                fprintf(stderr, "weir doctor: cannot write the output: %s\n", strerror(errno));
        return is_well && is_written ? 0 : 1;
}
