/* See tls_command.h.
 *
 * The key of the authority is forgotten: whoever finds these files can sign nothing with them.  All
 * of them are made anew together. */
#include "serve/tls_command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/plural.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "serve/cert_make.h"

#define NAMES_MAX    32
#define DAYS_DEFAULT 365
#define DAYS_MAX     3650
/* Clocks of other machines may be late. */
#define BEGINS_AGO_MS MS_PER_HOUR

enum file { CA_CRT, SERVER_CRT, SERVER_KEY, CLIENT_CRT, CLIENT_KEY, FILES };

static const char *const file_names[FILES] = {"ca.crt", "server.crt", "server.key", "client.crt",
                                              "client.key"};

struct making {
        const char *dir;
        const char *names[NAMES_MAX];
        size_t n_names;
        int64_t days;
        bool is_forced;
        struct buf text[FILES];
        struct problem *problem;
};

/* ---- certificates ---- */

static int make_certs(struct making *m)
{
        int64_t now_ms = clock_wall_ms(), ends_ms = now_ms + m->days * MS_PER_DAY;
        struct cert_spec spec = {.kind = CERT_AUTHORITY,
                                 .name = "weir test authority",
                                 .begins_ms = now_ms - BEGINS_AGO_MS,
                                 .ends_ms = ends_ms};
        struct cert *ca = cert_new(&spec, NULL);
        spec.kind = CERT_CLIENT;
        spec.name = "weir-client";
        struct cert *client = ca ? cert_new(&spec, ca) : NULL;
        spec.kind = CERT_SERVER;
        spec.name = m->names[0];
        spec.names = m->names;
        spec.n_names = m->n_names;
        struct cert *server = client ? cert_new(&spec, ca) : NULL;
        if (server) {
                cert_put(ca, &m->text[CA_CRT]);
                cert_put(server, &m->text[SERVER_CRT]);
                cert_put_key(server, &m->text[SERVER_KEY]);
                cert_put(client, &m->text[CLIENT_CRT]);
                cert_put_key(client, &m->text[CLIENT_KEY]);
        }
        bool is_fine = server;
        (void)cert_free(server);
        (void)cert_free(client);
        (void)cert_free(ca);
        return is_fine ? OK
                       : problem_set(m->problem, ERR_BADARG,
                                     "no certificate can be made for these names; --name takes "
                                     "names of hosts and addresses");
}

/* ---- files ---- */

static int path_of(const struct making *m, const char *name, const char *end, char ret[PATH_MAX])
{
        int n = snprintf(ret, PATH_MAX, "%s/%s%s", m->dir, name, end);
        return n > 0 && n < PATH_MAX ? OK
                                     : problem_set(m->problem, ERR_BADARG, "--dir is too long: %s",
                                                   SHOWN_STR(m->dir));
}

static int check_absent(const struct making *m)
{
        char path[PATH_MAX];
        struct stat st;
        int r = OK;
        for (size_t i = 0; r == OK && !m->is_forced && i < FILES; i++) {
                r = path_of(m, file_names[i], "", path);
                if (r == OK && lstat(path, &st) == 0)
                        r = problem_set(m->problem, ERR_CONFLICT,
                                        "%s is there; --force replaces all of them",
                                        SHOWN_LONG(path));
        }
        return r;
}

static int put_all(int fd, struct slice text)
{
        while (text.len) {
                ssize_t n = write(fd, text.ptr, text.len);
                if (n < 0 && errno != EINTR)
                        return -1;
                if (n > 0)
                        text = slice_make(text.ptr + n, text.len - (size_t)n);
        }
        return 0;
}

/* Under another name first: a server that looks finds the old file or the whole new one. */
static int write_file(const struct making *m, enum file file)
{
        char path[PATH_MAX], part[PATH_MAX];
        int r = path_of(m, file_names[file], "", path);
        if (r == OK)
                r = path_of(m, file_names[file], ".part", part);
        if (r != OK)
                return r;
        (void)unlink(part); /* left over by one that was killed */
        int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        bool is_fine = fd >= 0 && put_all(fd, buf_slice(&m->text[file])) == 0;
        if (fd >= 0 && close(fd) != 0)
                is_fine = false;
        if (is_fine && rename(part, path) == 0)
                return OK;
        return problem_set(m->problem, ERR_IO, "cannot write %s: %s", SHOWN_LONG(path),
                           strerror(errno));
}

static int write_files(const struct making *m)
{
        if (mkdir(m->dir, 0700) != 0 && errno != EEXIST)
                return problem_set(m->problem, ERR_IO, "cannot make %s: %s", SHOWN_LONG(m->dir),
                                   strerror(errno));
        int r = check_absent(m);
        for (enum file i = 0; r == OK && i < FILES; i++)
                r = write_file(m, i);
        return r;
}

/* ---- the command ---- */

static void tell(const struct making *m)
{
        char *whole = realpath(m->dir, NULL);
        const char *dir = whole ? whole : m->dir;
        printf("made in %s, for %lld %s:\n", dir, (long long)m->days,
               plural((uint64_t)m->days, "day", "days"));
        for (size_t i = 0; i < FILES; i++)
                printf("  %s\n", file_names[i]);
        printf("\nFor weir.conf:\n"
               "  resp_tls = {\"127.0.0.1:7381\"}\n"
               "  http_tls = {\"127.0.0.1:7382\"}\n"
               "  tls {\n"
               "          cert = \"%s/server.crt\"\n"
               "          key = \"%s/server.key\"\n"
               "          ca = \"%s/ca.crt\"\n"
               "          verify_client = ask\n"
               "  }\n\n"
               "Try:\n"
               "  redis-cli --tls --cacert %s/ca.crt -p 7381 ping\n"
               "  curl --cacert %s/ca.crt https://localhost:7382/healthz\n"
               "  curl --cacert %s/ca.crt --cert %s/client.crt --key %s/client.key "
               "https://localhost:7382/healthz\n",
               dir, dir, dir, dir, dir, dir, dir, dir);
        free(whole);
}

static int take_args(struct making *m, const struct args *args, char host[256])
{
        const char *days = args_get(args, "days"), *dir = args_get(args, "dir");
        size_t at = 0;
        m->dir = dir && *dir ? dir : "tls";
        m->is_forced = args_has(args, "force");
        m->days = DAYS_DEFAULT;
        if (args->n_positional)
                return problem_set(m->problem, ERR_SYNTAX, "unexpected argument '%s'",
                                   SHOWN_STR(args->positional[0]));
        if (days && (!slice_to_i64(slice_str(days), &m->days) || m->days < 1 || m->days > DAYS_MAX))
                return problem_set(m->problem, ERR_BADARG, "--days takes 1 to %d, not '%s'",
                                   DAYS_MAX, SHOWN_STR(days));
        for (const char *name; (name = args_next(args, "name", &at));) {
                if (m->n_names == NAMES_MAX - 4)
                        return problem_set(m->problem, ERR_BADARG, "at most %d of --name",
                                           NAMES_MAX - 4);
                if (!*name || strlen(name) > CERT_NAME_MAX)
                        return problem_set(m->problem, ERR_BADARG,
                                           "--name takes a name or an address of 1 to %d bytes, "
                                           "not '%s'",
                                           CERT_NAME_MAX, SHOWN_STR(name));
                m->names[m->n_names++] = name;
        }
        m->names[m->n_names++] = "localhost";
        m->names[m->n_names++] = "127.0.0.1";
        m->names[m->n_names++] = "::1";
        if (gethostname(host, 255) == 0 && *host && strlen(host) <= CERT_NAME_MAX)
                m->names[m->n_names++] = host;
        return OK;
}

int tls_self_signed_main(int argc, char **argv)
{
        struct args args = {0};
        struct problem p = {0};
        struct making m = {.problem = &p};
        char host[256] = "";
        int r = args_parse(&args, cli_tls_options, argv + 1, argc - 1, &p);
        if (r == OK && args_has(&args, "help"))
                return cli_help("tls", "self-signed");
        if (r == OK)
                r = take_args(&m, &args, host);
        if (r == OK)
                r = make_certs(&m);
        if (r == OK)
                r = write_files(&m);
        if (r == OK)
                tell(&m);
        for (size_t i = 0; i < FILES; i++) {
                if (m.text[i].ptr)
                        explicit_bzero(m.text[i].ptr, m.text[i].cap);
                buf_release(&m.text[i]);
        }
        if (r == OK && fflush(stdout) != 0)
                r = problem_set(&p, ERR_IO, "cannot write the output: %s", strerror(errno));
        if (r != OK)
                fprintf(stderr, "weir tls self-signed: %s\n", p.detail);
        return err_exit(r);
}
