/* A value from a program: the first line it prints.
 *
 * It is run at every tick, without a shell, in a session of its own, with nothing to read, no
 * other descriptor of ours and, of our environment, only what is named: the rest may hold the
 * passwords of other targets.  When its time is over, its whole group is killed.  A program that
 * fails says why on stderr; the first line of that is in the sentence. */
#include "probe/probe_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shown.h"

#define LINE_MAX_BYTES 256
#define REAP_MS        500 /* for a process that was killed */

struct command {
        const struct probe_options *options;
        char **env;
};

/* One run: out and err, the first bytes of each. */
struct run {
        pid_t pid;
        int pid_fd;
        int fds[2]; /* -1: at its end */
        char text[2][LINE_MAX_BYTES + 1];
        size_t len[2];
};

static int command_check(const char *source, struct problem *problem)
{
        (void)source; /* whatever it is called, it is what the program prints */
        (void)problem;
        return OK;
}

static int spawn(const struct command *c, const int *out, const int *err, pid_t *ret)
{
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attr;
        sigset_t none, all;
        (void)sigemptyset(&none);
        (void)sigfillset(&all);
        int r = posix_spawn_file_actions_init(&files);
        if (r)
                return r;
        r = posix_spawnattr_init(&attr);
        if (r) {
                (void)posix_spawn_file_actions_destroy(&files);
                return r;
        }
        (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                      POSIX_SPAWN_SETSIGDEF);
        (void)posix_spawnattr_setsigmask(&attr, &none);
        (void)posix_spawnattr_setsigdefault(&attr, &all);
        r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        if (!r)
                r = posix_spawn_file_actions_adddup2(&files, out[1], 1);
        if (!r)
                r = posix_spawn_file_actions_adddup2(&files, err[1], 2);
        if (!r)
                r = posix_spawn_file_actions_addclosefrom_np(&files, 3);
        if (!r)
                r = posix_spawnp(ret, c->options->argv[0], &files, &attr, c->options->argv, c->env);
        (void)posix_spawnattr_destroy(&attr);
        (void)posix_spawn_file_actions_destroy(&files);
        return r;
}

static void close_pair(const int *pair)
{
        (void)close(pair[0]);
        (void)close(pair[1]);
}

static int start(struct run *run, const struct command *c)
{
        int out[2], err[2];
        if (pipe2(out, O_CLOEXEC) != 0)
                return errno;
        if (pipe2(err, O_CLOEXEC) != 0) {
                int r = errno;
                close_pair(out);
                return r;
        }
        int r = spawn(c, out, err, &run->pid);
        if (r) {
                close_pair(out);
                close_pair(err);
                return r;
        }
        (void)close(out[1]);
        (void)close(err[1]);
        run->fds[0] = out[0];
        run->fds[1] = err[0];
        run->pid_fd = pidfd_open(run->pid, 0);
        return 0;
}

/* What does not fit is read and forgotten, so that the program can end. */
static void drain(struct run *run, int i)
{
        char more[4096];
        ssize_t n = read(run->fds[i], more, sizeof(more));
        if (n <= 0) {
                (void)close(run->fds[i]);
                run->fds[i] = -1;
                return;
        }
        size_t room = LINE_MAX_BYTES - run->len[i];
        size_t take = (size_t)n < room ? (size_t)n : room;
        memcpy(run->text[i] + run->len[i], more, take);
        run->len[i] += take;
}

/* What is in the pipes when it has ended; others may hold them open for ever. */
static void drain_rest(struct run *run)
{
        for (int i = 0; i < 2; i++) {
                struct pollfd fd = {.fd = run->fds[i], .events = POLLIN};
                while (run->fds[i] >= 0 && run->len[i] < LINE_MAX_BYTES && poll(&fd, 1, 0) > 0)
                        drain(run, i);
        }
}

/* OK when it has ended. */
static int listen_to(struct run *run, const struct sql_wait *w)
{
        for (;;) {
                struct pollfd fds[] = {{.fd = w->stop_fd, .events = POLLIN},
                                       {.fd = run->pid_fd, .events = POLLIN},
                                       {.fd = run->fds[0], .events = POLLIN},
                                       {.fd = run->fds[1], .events = POLLIN}};
                int64_t left_ms = (w->deadline_ns - clock_boot_ns()) / NS_PER_MS;
                if (left_ms <= 0)
                        return ERR_TIMEOUT;
                int n = poll(fds, ARRAY_LEN(fds), (int)left_ms);
                ASSERT(n >= 0 || errno == EINTR);
                if (n < 0)
                        continue;
                if (fds[0].revents)
                        return ERR_STOPPING;
                for (int i = 0; i < 2; i++)
                        if (fds[2 + i].revents)
                                drain(run, i);
                if (fds[1].revents) {
                        drain_rest(run);
                        return OK;
                }
        }
}

/* The exit status; -1 when even a killed process does not end. */
static int reap(struct run *run)
{
        struct pollfd ended = {.fd = run->pid_fd, .events = POLLIN};
        int status = -1;
        (void)kill(-run->pid, SIGKILL); /* what it has left behind, too */
        (void)kill(run->pid, SIGKILL);  /* it may not have its own group yet */
        (void)poll(&ended, 1, REAP_MS);
        if (waitpid(run->pid, &status, run->pid_fd >= 0 ? WNOHANG : 0) != run->pid)
                status = -1;
        for (int i = 0; i < 2; i++)
                if (run->fds[i] >= 0)
                        (void)close(run->fds[i]);
        if (run->pid_fd >= 0)
                (void)close(run->pid_fd);
        return status;
}

static size_t line_len(const struct run *run, int i)
{
        const char *end = memchr(run->text[i], '\n', run->len[i]);
        return end ? (size_t)(end - run->text[i]) : run->len[i];
}

static void judge(const struct run *run, const char *program, int status, struct reading *ret)
{
        struct slice said = slice_make(run->text[1], line_len(run, 1));
        if (status != -1 && WIFSIGNALED(status))
                reading_fail(ret, "%s was ended by signal %d", SHOWN_MAX(slice_str(program), 40),
                             WTERMSIG(status));
        else if (status == -1 || WEXITSTATUS(status) != 0)
                reading_fail(ret, "%s ended with %d%s%s", SHOWN_MAX(slice_str(program), 40),
                             status == -1 ? -1 : WEXITSTATUS(status), said.len ? ": " : "",
                             SHOWN_MAX(said, 80));
        else
                reading_set_text(ret, run->text[0], line_len(run, 0));
}

static void ask(const struct command *c, const struct sql_wait *w, struct reading *ret)
{
        const struct probe_options *o = c->options;
        struct run run = {.pid_fd = -1, .fds = {-1, -1}};
        struct problem problem;
        int r = start(&run, c);
        if (r) {
                reading_fail(ret, "cannot run %s: %s", SHOWN_MAX(slice_str(o->argv[0]), 80),
                             strerror(r));
                return;
        }
        r = listen_to(&run, w);
        int status = reap(&run); /* a program that has ended keeps its own */
        if (r != OK) {
                (void)wait_problem(w, r, &problem);
                reading_fail(ret, "%s: %s, killed", SHOWN_MAX(slice_str(o->argv[0]), 60),
                             problem.detail);
                ret->is_silent = true;
                return;
        }
        judge(&run, o->argv[0], status, ret);
}

static int command_sample(void *self, const struct sql_wait *w, struct reading *ret)
{
        const struct command *c = self;
        ask(c, w, &ret[0]);
        for (size_t i = 1; i < c->options->n_metrics; i++)
                ret[i] = ret[0];
        return OK;
}

/* ---- its environment ---- */

static bool is_named(char *const *env, const char *name)
{
        size_t len = strlen(name);
        for (; env && *env; env++)
                if (strncmp(*env, name, len) == 0 && ((*env)[len] == '=' || !(*env)[len]))
                        return true;
        return false;
}

/* Nothing when we have no such variable. */
static void put_own(char **env, size_t *n, const char *name)
{
        const char *value = getenv(name);
        if (!value)
                return;
        size_t size = strlen(name) + strlen(value) + 2;
        env[*n] = xmalloc(size);
        (void)snprintf(env[(*n)++], size, "%s=%s", name, value);
}

static char **make_env(char *const *named)
{
        static const char *const usual[] = {"PATH", "HOME", "LANG", "TZ"};
        size_t n_named = 0, n = 0;
        while (named && named[n_named])
                n_named++;
        char **env = xcalloc(ARRAY_LEN(usual) + n_named + 1, sizeof(*env));
        for (size_t i = 0; i < ARRAY_LEN(usual); i++)
                if (!is_named(named, usual[i]))
                        put_own(env, &n, usual[i]);
        for (size_t i = 0; i < n_named; i++) {
                if (strchr(named[i], '='))
                        env[n++] = xstrdup(named[i]);
                else
                        put_own(env, &n, named[i]);
        }
        return env;
}

static void command_close(void *self)
{
        struct command *c = self;
        for (char **at = c->env; *at; at++)
                free(*at);
        free(c->env);
        free(c);
}

static void *command_open(const struct probe_options *o, const struct sql_server *server,
                          bool is_replica)
{
        struct command *c = xmalloc(sizeof(*c));
        (void)server; /* it runs here */
        (void)is_replica;
        ASSERT(o->argv && o->argv[0]);
        c->options = o;
        c->env = make_env(o->env);
        return c;
}

const struct prober_ops command_prober = {
        .check = command_check,
        .open = command_open,
        .close = command_close,
        .sample = command_sample,
};
