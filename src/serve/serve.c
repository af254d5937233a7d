/* `weir serve`: the pieces put together, in the order that makes each promise true.
 *
 *   make the loop -> lock and recover the log -> open history -> replay into the core -> listen
 *   -> give up system calls -> "ready"
 *
 * A machine of a cluster follows at first: its log is replayed while it runs (serve/cluster.h).
 *
 * and backwards on SIGTERM or SIGINT: no new connections, waits ended, the open batch synced,
 * answers sent, history given what it was promised, log closed.  SIGHUP reads the configuration
 * again.
 *
 * When the log fails there is nothing left to promise: the process says why and ends at once,
 * without answering any client. */
#include "serve/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/say.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "core/audit.h"
#include "door/server.h"
#include "features/features.h"
#include "history/history.h"
#include "log/file.h"
#include "loop/loop.h"
#include "serve/audit_syslog.h"
#include "serve/cluster.h"
#include "serve/config.h"
#include "serve/move_mark.h"
#include "serve/probes.h"
#include "serve/reload.h"
#include "serve/sandbox.h"
#include "serve/site_guards.h"
#include "state/backoff.h"
#include "state/job.h"
#include "wire/json.h"

/* Of what a reload changed, in the audit trail; escaped it still fits. */
#define CHANGED_BYTES 400

struct daemon {
        const struct args *args;
        struct reload reload; /* has the configuration */
        struct rng rng;
        struct loop *loop;
        struct cluster *cluster; /* NULL: this weir is alone */
        struct log *log;
        struct archive *archive;
        struct loop_mail archive_mail; /* history has something for the core */
        struct core *core;
        struct server *server; /* the loop owns it */
        struct probes *probes;
        struct site_guards *guards;
        struct proxies *proxies;
        struct exporter *exporter;
        struct audit_syslog *audit_syslog; /* NULL: nothing is sent */
        uv_signal_t signals[3];
        bool is_greeting;
        struct backoff backoff;     /* of queues that set none */
        struct sign_keys sign_keys; /* of the configuration; the core looks here */
};

static void on_durable(void *ctx, uint64_t seq)
{
        struct daemon *d = ctx;
        loop_log_durable(d->loop, seq);
}

/* On the log's thread.  No client may be answered any more: no flush, no exit handlers. */
static void on_log_failed(void *ctx, const struct problem *problem)
{
        (void)ctx; /* nothing of the daemon may be touched from here */
        say_error("log", "cannot be written, stopping at once; nothing unsynced was acknowledged",
                  "why", problem->detail);
        _exit(err_exit(ERR_IO));
}

static void on_archive_news(void *ctx)
{
        struct daemon *d = ctx;
        loop_post(d->loop, &d->archive_mail);
}

static void poll_archive(void *ctx)
{
        const struct daemon *d = ctx;
        core_archive_poll(d->core);
}

static int64_t wall_clock(void *ctx)
{
        (void)ctx; /* there is one wall clock */
        return clock_wall_ms();
}

static int path_in_data(const struct daemon *d, const char *name, char *ret, size_t size,
                        struct problem *problem)
{
        int n = snprintf(ret, size, "%s/%s", d->reload.config->data, name);
        if (n < 0 || (size_t)n >= size)
                return problem_set(problem, ERR_BADARG, "the data path is too long");
        return OK;
}

/* The log of a weir that was alone would be left behind with all its jobs. */
static int open_shared_log(struct daemon *d, const char *path, struct problem *problem)
{
        if (access(path, F_OK) == 0)
                return problem_set(problem, ERR_STATE,
                                   "%s is the log of a weir without a cluster: 'weir move "
                                   "--to-cluster' brings it into this one; then, or to leave it "
                                   "alone, name another folder with `data`",
                                   path);
        int r = cluster_open(&d->reload.config->cluster, d->loop, &d->rng, &d->cluster, problem);
        if (r == OK)
                d->log = cluster_log(d->cluster);
        return r;
}

static int open_log(struct daemon *d, struct problem *problem)
{
        char path[4096];
        struct disk *disk = NULL;
        struct log_tail tail;
        const struct config_cluster *cluster = &d->reload.config->cluster;
        if (mkdir(d->reload.config->data, 0700) != 0 && errno != EEXIST)
                return problem_set(problem, ERR_IO, "data folder %s: %s", d->reload.config->data,
                                   strerror(errno));
        int r = path_in_data(d, "log", path, sizeof(path), problem);
        if (r == OK)
                r = move_mark_check(d->reload.config->data, problem);
        if (r == OK && cluster->is_given)
                return open_shared_log(d, path, problem);
        if (r == OK)
                r = disk_open_folder(path, &disk, problem);
        struct file_log_options options = {.is_threaded = true};
        if (r == OK)
                r = file_log_open(&disk, &options, &d->log, problem);
        if (r != OK)
                return r;
        d->log->durable = on_durable;
        d->log->failed = on_log_failed;
        d->log->ctx = d;
        r = d->log->ops->lead(d->log, &tail, problem);
        if (r == OK && tail.cut_batches)
                say_warn("log", "cut a torn batch at the end: it was never acknowledged", "bytes",
                         SAY_I64(tail.cut_bytes));
        return r;
}

static int open_history(struct daemon *d, struct problem *problem)
{
        char path[4096];
        int r = path_in_data(d, "history.db", path, sizeof(path), problem);
        if (r != OK)
                return r;
        struct history_options options = {
                .path = path,
                .keep_done_ms = d->reload.config->keep_done_ms,
                .keep_failed_ms = d->reload.config->keep_failed_ms,
                .keep_incidents_ms = d->reload.config->keep_incidents_ms,
                .keep_audit_ms = d->reload.config->keep_audit_ms,
                .view_of = job_view,
                .wall_ms = wall_clock,
                .mirror = d->cluster ? cluster_mirror(d->cluster) : NULL,
                .is_following = d->cluster != NULL,
        };
        r = history_open(&options, &d->archive, problem);
        if (r != OK)
                return r;
        d->archive_mail = (struct loop_mail){.deliver = poll_archive, .ctx = d};
        d->archive->notify = on_archive_news;
        d->archive->notify_ctx = d;
        return OK;
}

/* The configuration may be another one each time. */
static enum history_policy history_of(void *ctx, struct slice queue)
{
        const struct daemon *d = ctx;
        return config_history_of(d->reload.config, queue);
}

static int open_core(struct daemon *d, struct problem *problem)
{
        d->backoff = backoff_default();
        struct core_options options = {
                .parts = &weir_parts,
                .log = d->log,
                .archive = d->archive,
                .rng = &d->rng,
                .history_of = history_of,
                .ctx = d,
                .sign_keys = &d->sign_keys,
                .backoff = &d->backoff,
                .watch_ns = clock_boot_ns,
        };
        d->core = core_new(&options);
        if (d->cluster) {
                core_follow(d->core);
                return OK;
        }
        int64_t began_ns = clock_boot_ns();
        int r = core_recover(d->core, problem);
        if (r != OK)
                return r;
        struct counter_row rows[CORE_COUNTERS_MAX];
        size_t n = core_counters(d->core, rows, ARRAY_LEN(rows));
        uint64_t jobs = 0;
        for (size_t i = 0; i < n; i++)
                if (strcmp(rows[i].name, "jobs_live") == 0)
                        jobs = rows[i].value;
        say_info("core", "recovered", "jobs", SAY_I64(jobs), "ms",
                 SAY_I64((clock_boot_ns() - began_ns) / NS_PER_MS));
        return OK;
}

/* Tells systemd, if NOTIFY_SOCKET is set. */
static void notify_systemd(const char *text)
{
        const char *path = getenv("NOTIFY_SOCKET");
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(addr.sun_path))
                return;
        memcpy(addr.sun_path, path, strlen(path));
        if (path[0] == '@')
                addr.sun_path[0] = '\0';
        socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return;
        if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&addr, len) < 0)
                say_warn("serve", "systemd was not told", "errno", strerror(errno));
        (void)close(fd); /* a datagram is sent or lost by now */
}

/* systemd waits for the READY=1 that follows. */
static void notify_reloading(void)
{
        char text[80];
        struct timespec now;
        (void)clock_gettime(CLOCK_MONOTONIC, &now); /* always there */
        (void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
                       (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
        notify_systemd(text);
}

/* Nobody knows who sent the signal. */
static void audit_reload(struct daemon *d, const struct buf *changed)
{
        struct buf after CLEANUP(buf_release) = {0};
        struct slice lines = slice_make(changed->ptr, shown_len(buf_slice(changed), CHANGED_BYTES));
        struct audit_entry e = {.who = SLICE_LIT("nobody"),
                                .door = SLICE_LIT("signal"),
                                .command = SLICE_LIT("CONFIGRELOAD"),
                                .what = SLICE_LIT("SIGHUP")};
        buf_put_byte(&after, '{');
        json_put_key(&after, "changed");
        json_put_text_lossy(&after, lines);
        buf_put_byte(&after, '}');
        e.after = buf_slice(&after);
        core_audit(d->core, &e);
}

/* Within a turn: it may emit effects. */
static void reload_on_signal(struct daemon *d)
{
        struct buf changed CLEANUP(buf_release) = {0}, restart CLEANUP(buf_release) = {0};
        struct problem problem;
        notify_reloading();
        if (reload_run(&d->reload, false, &changed, &restart, &problem) == OK)
                audit_reload(d, &changed); /* an error is said to the log */
        notify_systemd("READY=1");
}

/* The folder of the data belongs to one weir of a machine, and a proxy may stand before several
 * machines.  Those of a cluster are one weir. */
static void put_instance(const struct config *config, struct buf *ret)
{
        const char *data = config->data;
        char host[256] = "";
        if (config->cluster.is_given) {
                buf_printf(ret, "cluster:%s:%s", config->cluster.hosts[0],
                           config->cluster.database);
                return;
        }
        char *whole = realpath(data, NULL);
        (void)gethostname(host, sizeof(host) - 1); /* without one the folder must do */
        buf_put_str(ret, host);
        buf_put_byte(ret, ':');
        buf_put_str(ret, whole ? whole : data);
        free(whole);
}

/* All that the core must know of the configuration, except by probes and guards. */
static void configure_core(struct daemon *d)
{
        const struct config *config = d->reload.config;
        core_set_locks(d->core, config->are_locks_off);
        if (d->audit_syslog)
                core_set_audit_sink(d->core, audit_syslog_send, d->audit_syslog);
        reload_offer(&d->reload);
        config_tokens_apply(&config->tokens, &config->token, d->core);
        reload_set_exporter(&d->reload);
}

static void on_emptied(void *ctx)
{
        struct daemon *d = ctx;
        configure_core(d);
        probes_tell_core(d->probes);
        proxies_tell_core(d->proxies, d->reload.config);
}

static void on_leads(void *ctx, bool is_leader)
{
        struct daemon *d = ctx;
        struct problem problem;
        if (site_guards_set(d->guards, d->reload.config, is_leader, &problem) != OK)
                say_error("serve", "the guards of WordPress sites do not start", "why",
                          problem.detail);
}

static void begin_cluster(struct daemon *d)
{
        const struct cluster_parts parts = {.core = d->core,
                                            .archive = d->archive,
                                            .server = d->server,
                                            .configure = on_emptied,
                                            .leads = on_leads,
                                            .ctx = d};
        cluster_begin(d->cluster, &parts);
}

static int open_server(struct daemon *d, struct problem *problem)
{
        struct buf instance CLEANUP(buf_release) = {0};
        const struct config *config = d->reload.config;
        loop_set_core(d->loop, d->core, core_steady_ns(d->core) - clock_boot_ns());
        d->reload.core = d->core;
        if (config->is_audit_syslog)
                d->audit_syslog = audit_syslog_new();
        put_instance(config, &instance);
        d->exporter = d->reload.exporter = exporter_new(WEIR_VERSION, buf_cstr(&instance));
        d->probes = d->reload.probes = probes_new(d->reload.config, d->loop);
        configure_core(d);
        struct server_options options = {
                .tls = config_tls_files(config),
                .is_insecure = config->is_insecure,
                .is_check_open = config->is_check_open,
                .client_bytes = config->client_bytes,
                .version = WEIR_VERSION,
                .instance = buf_cstr(&instance),
                .cluster_secret = config->cluster.secret,
                .node = config->cluster.node,
        };
        for (enum server_kind kind = 0; kind < SERVER_KINDS; kind++) {
                struct config_addresses a = config_addresses(d->reload.config, kind);
                options.addresses[kind] =
                        (struct server_addresses){(const char *const *)a.text, *a.n};
        }
        int r = server_new(d->loop, &options, &d->server, problem);
        d->reload.server = d->server;
        if (r == OK)
                r = probes_start(d->probes, problem);
        if (r == OK)
                r = site_guards_start(d->reload.config, d->loop, !d->cluster, &d->guards, problem);
        d->reload.guards = d->guards;
        if (r == OK)
                r = proxies_start(d->reload.config, d->loop, &d->proxies, problem);
        d->reload.proxies = d->proxies;
        if (r == OK && d->cluster)
                begin_cluster(d);
        return r;
}

static void print_addresses(const struct server *s, enum server_kind kind, const char *name)
{
        if (kind >= SERVER_RESP_TLS && !server_address(s, kind, 0))
                return;
        printf(" %s=", name);
        for (size_t i = 0; server_address(s, kind, i); i++)
                printf("%s%s", i ? "," : "", server_address(s, kind, i));
}

static void print_ready(const struct daemon *d)
{
        printf("ready");
        print_addresses(d->server, SERVER_HTTP, "http");
        print_addresses(d->server, SERVER_RESP, "resp");
        print_addresses(d->server, SERVER_HTTP_TLS, "http_tls");
        print_addresses(d->server, SERVER_RESP_TLS, "resp_tls");
        for (size_t i = 0; proxies_address(d->proxies, i); i++)
                printf("%s%s", i ? "," : " mysql=", proxies_address(d->proxies, i));
        printf("\n");
        if (d->is_greeting) {
                const char *http = server_address(d->server, SERVER_HTTP, 0);
                printf("\n  page       http://%s/\n"
                       "  data       %s\n\n"
                       "Try in another terminal:\n"
                       "  build/weir job add hello '{\"to\":\"world\"}'\n"
                       "  build/weir work --exec 'cat' --queue default --once\n"
                       "  curl -s http://%s/v1/jobs\n\n"
                       "Ctrl-C stops it; nothing accepted is lost.\n",
                       http, d->reload.config->data, http);
        }
        (void)fflush(stdout); /* there may be no reader */
        notify_systemd("READY=1");
}

static void on_signal(uv_signal_t *handle, int signum)
{
        struct daemon *d = handle->data;
        loop_turn_begin(d->loop);
        if (signum == SIGHUP) {
                reload_on_signal(d);
                return;
        }
        say_info("serve", "stopping", "signal", SAY_I64(signum));
        notify_systemd("STOPPING=1");
        loop_stop(d->loop);
}

static int run(struct daemon *d)
{
        static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
        _Static_assert(ARRAY_LEN(signals) == ARRAY_LEN(d->signals), "one handle each");
        for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
                int r = uv_signal_init(&d->loop->uv, &d->signals[i]);
                ASSERT(r == 0);
                d->signals[i].data = d;
                r = uv_signal_start(&d->signals[i], on_signal, signals[i]);
                ASSERT(r == 0);
                uv_unref((uv_handle_t *)&d->signals[i]);
        }
        print_ready(d);
        int r = loop_run(d->loop);
        for (size_t i = 0; i < ARRAY_LEN(signals); i++)
                (void)uv_signal_stop(&d->signals[i]); /* a second one ends the process at once */
        return r;
}

static void close_all(struct daemon *d)
{
        d->proxies = proxies_free(d->proxies);
        d->guards = site_guards_free(d->guards);
        d->probes = probes_free(d->probes);
        if (d->core)
                core_set_tracer(d->core, NULL);
        d->exporter = exporter_free(d->exporter);
        if (d->core && !core_is_following(d->core))
                core_end(d->core);
        if (d->cluster)
                cluster_stop(d->cluster);
        if (d->archive)
                d->archive = d->archive->ops->close(d->archive);
        if (d->log)
                d->log = d->log->ops->close(d->log);
        d->loop = loop_free(d->loop);
        d->core = core_free(d->core);
        d->cluster = cluster_free(d->cluster);
        d->audit_syslog = audit_syslog_free(d->audit_syslog);
        d->reload.config = config_unref(d->reload.config);
        free(d->reload.path);
        sign_keys_release(&d->sign_keys);
}

/* The log says what is wrong with it; what to do then is known here. */
static int advise(const struct daemon *d, int r, struct problem *problem)
{
        struct problem found = *problem;
        const char *data = d->reload.config->data;
        if (r == ERR_LOCKED)
                return problem_set(problem, r,
                                   "%s: stop that one, or name another folder with --data",
                                   found.detail);
        if (r == ERR_CORRUPT)
                return problem_set(problem, r,
                                   "%s; 'weir log verify %s' shows all damage, "
                                   "'weir log salvage %s NEWDIR' saves what is sound",
                                   found.detail, data, data);
        return r;
}

static int start(struct daemon *d, struct problem *problem)
{
        sandbox_begin();
        rng_init_system(&d->rng);
        int r = loop_new(&d->loop, problem);
        if (r == OK)
                r = advise(d, open_log(d, problem), problem);
        if (r == OK)
                r = open_history(d, problem);
        if (r == OK)
                r = advise(d, open_core(d, problem), problem);
        if (r == OK)
                r = open_server(d, problem);
        /* Last: the files are found, the addresses taken, the threads there. */
        if (r == OK)
                r = sandbox_enter((enum sandbox_mode)d->reload.config->seccomp,
                                  sandbox_has_programs(d->reload.config), problem);
        return r;
}

static int take_addresses(struct config *c, const struct args *args, struct problem *problem)
{
        static const char *const options[SERVER_KINDS] = {
                [SERVER_RESP] = "resp",
                [SERVER_HTTP] = "http",
                [SERVER_RESP_TLS] = "resp-tls",
                [SERVER_HTTP_TLS] = "http-tls",
        };
        int r = OK;
        for (enum server_kind kind = 0; kind < SERVER_KINDS; kind++) {
                size_t at = 0;
                if (args_has(args, options[kind]))
                        config_clear_addresses(c, kind);
                for (const char *a; r == OK && (a = args_next(args, options[kind], &at));)
                        r = config_add_address(c, kind, a, problem);
        }
        return r;
}

static void on_taken(void *ctx, struct config *config)
{
        struct daemon *d = ctx;
        say_setup(config->log_level, config->is_log_json);
        sign_keys_release(&d->sign_keys);
        d->sign_keys = config->sign_keys;
        sign_keys_init(&config->sign_keys); /* moved, not copied */
}

static int take_seccomp(struct config *c, const char *given, struct problem *problem)
{
        const char *const *choices = setting_table[SET_TOP_seccomp].choices;
        if (!given)
                return OK;
        for (int i = 0; i < SETTING_CHOICES_MAX && choices[i]; i++) {
                if (strcmp(given, choices[i]) == 0) {
                        c->seccomp = i;
                        return OK;
                }
        }
        return problem_set(problem, ERR_BADARG, "--seccomp takes on, kill, log or off, not '%s'",
                           given);
}

/* The file and on top of it the options: at start, and each time the file is read again. */
static int take_settings(void *ctx, struct config *c, struct problem *problem)
{
        struct daemon *d = ctx;
        const struct args *args = d->args;
        const char *file = args_get(args, "config"), *data = args_get(args, "data");
        const char *token = args_get(args, "token-file"), *level = args_get(args, "log-level");
        enum say_level log_level = SAY_INFO;
        int r = file ? config_read_file(c, file, problem) : OK;
        if (r == OK)
                r = take_addresses(c, args, problem);
        if (r == OK && token)
                r = config_set_token_file(c, token, problem);
        if (r == OK && level && !say_level_from_name(level, &log_level))
                r = problem_set(problem, ERR_BADARG,
                                "--log-level takes debug, info, warn or error, not '%s'", level);
        if (level)
                c->log_level = log_level;
        if (data)
                config_set_data(c, data);
        c->is_log_json |= args_has(args, "log-json");
        c->is_insecure |= args_has(args, "insecure");
        if (r == OK)
                r = take_seccomp(c, args_get(args, "seccomp"), problem);
        if (r == OK)
                r = config_finish(c, problem);
        return r;
}

static void put_given(void *ctx, struct buf *ret)
{
        static const struct {
                const char *option, *setting;
        } rows[] = {
                {"data", "data"},         {"resp", "resp"},
                {"http", "http"},         {"token-file", "token_file"},
                {"resp-tls", "resp_tls"}, {"http-tls", "http_tls"},
                {"insecure", "insecure"}, {"log-level", "log_level"},
                {"log-json", "log_json"}, {"seccomp", "seccomp"},
        };
        const struct daemon *d = ctx;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                if (!args_has(d->args, rows[i].option))
                        continue;
                buf_put_str(ret, rows[i].setting);
                buf_put_byte(ret, '\n');
        }
}

int serve_main(int argc, char **argv)
{
        struct daemon d = {0};
        struct problem problem = {0};
        struct args args = {0};
        d.args = &args;
        d.reload = (struct reload){.config = config_new(),
                                   .loaded_ms = clock_wall_ms(),
                                   .read = take_settings,
                                   .given = put_given,
                                   .taken = on_taken,
                                   .ctx = &d};
        sign_keys_init(&d.sign_keys);
        int r = args_parse(&args, cli_serve_options, argv + 1, argc - 1, &problem);
        if (r == OK && args_has(&args, "help"))
                return cli_help("serve", NULL);
        if (r == OK && args.n_positional)
                r = problem_set(&problem, ERR_SYNTAX, "'%s' is not understood; see weir help serve",
                                args.positional[0]);
        if (r == OK)
                r = take_settings(&d, d.reload.config, &problem);
        if (r == OK)
                r = config_check_access(d.reload.config, d.reload.config, &problem);
        if (r == OK)
                r = config_check_tls(d.reload.config, &problem);
        if (r == OK && args_get(&args, "config"))
                d.reload.path = realpath(args_get(&args, "config"), NULL); /* just read: there */
        d.is_greeting = args_has(&args, "greet");
        if (r == OK && args_has(&args, "check")) {
                printf("settings are fine\n");
                close_all(&d);
                return 0;
        }
        on_taken(&d, d.reload.config);
        (void)signal(SIGPIPE, SIG_IGN); /* a peer that left is an EPIPE, not an end */
        if (r == OK)
                r = start(&d, &problem);
        if (r != OK) {
                (void)fflush(stdout); /* order on a terminal only */
                fprintf(stderr, "weir serve: %s\n", problem.detail);
                close_all(&d);
                return err_exit(problem.err);
        }
        r = run(&d);
        close_all(&d);
        say_info("serve", "stopped");
        return r == OK ? 0 : err_exit(r);
}
