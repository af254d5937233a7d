/* fork(2) and execve(2) by hand, because libuv's uv_spawn has no place for resource limits, and
 * setting them on a process that already runs leaves it a moment without any.
 *
 * The worker has threads (name lookups), so between fork and exec only async-signal-safe calls are
 * made; everything that allocates or searches is done before.  What goes wrong in the child comes
 * back through a pipe that exec closes: step and errno.
 *
 * A file that is no program (ENOEXEC) is refused.  execvp(3) would give it to a shell, and jobs
 * never reach one that nobody asked for. */
#include "work/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/shown.h"

#define CPU_GRACE_S  5 /* from SIGXCPU to SIGKILL */
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

struct report {
        const char *step; /* a literal: same address in parent and child */
        int error;
};

static const char *env_get(char **env, const char *name)
{
        size_t len = strlen(name);
        for (; *env; env++)
                if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
                        return *env + len + 1;
        return NULL;
}

/* The file of a program without a slash; false when no folder of the path has one. */
static bool find_in_path(const char *program, const char *path, char *ret, size_t size)
{
        for (const char *at = path; *at;) {
                const char *end = strchrnul(at, ':');
                int n = snprintf(ret, size, "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "./",
                                 program);
                if (n > 0 && (size_t)n < size && access(ret, X_OK) == 0)
                        return true;
                at = *end ? end + 1 : end;
        }
        return false;
}

bool spawn_finds(const char *program, const char *path, const char *dir)
{
        char file[PATH_MAX];
        if (!strchr(program, '/'))
                return find_in_path(program, path ? path : DEFAULT_PATH, file, sizeof(file));
        if (!dir || program[0] == '/')
                return access(program, X_OK) == 0;
        int n = snprintf(file, sizeof(file), "%s/%s", dir, program);
        return n > 0 && (size_t)n < sizeof(file) && access(file, X_OK) == 0;
}

static bool limit(int what, uint64_t soft, uint64_t hard)
{
        struct rlimit now;
        if (getrlimit(what, &now) != 0)
                return false;
        struct rlimit wanted = {.rlim_cur = soft, .rlim_max = hard};
        if (now.rlim_max != RLIM_INFINITY && now.rlim_max < hard)
                wanted.rlim_max = now.rlim_max; /* an ordinary user cannot raise it */
        if (wanted.rlim_cur > wanted.rlim_max)
                wanted.rlim_cur = wanted.rlim_max;
        return setrlimit(what, &wanted) == 0;
}

/* Signals as a program expects them: none blocked, none caught or ignored. */
static void reset_signals(void)
{
        sigset_t none;
        for (int i = 1; i < NSIG; i++)
                if (i != SIGKILL && i != SIGSTOP)
                        (void)signal(i, SIG_DFL); /* fails for those glibc keeps to itself */
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The pipes may themselves be 0 to 2 when the worker was started with those closed, so they are
 * moved out of the way first. */
static bool take_stdio(const int *from)
{
        int moved[3];
        for (int i = 0; i < 3; i++)
                if ((moved[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 3)) < 0)
                        return false;
        for (int i = 0; i < 3; i++)
                if (dup2(moved[i], i) < 0)
                        return false;
        return true;
}

static const char *prepare(const struct spawn *s, pid_t parent)
{
        if (setsid() < 0)
                return "setsid";
        if (!take_stdio(s->stdio))
                return "dup2";
        if (s->dir && chdir(s->dir) != 0)
                return "chdir";
        if (s->nice && setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + s->nice) != 0)
                return "nice";
        if (s->cpu_s && !limit(RLIMIT_CPU, (uint64_t)s->cpu_s, (uint64_t)s->cpu_s + CPU_GRACE_S))
                return "cpu";
        if (s->memory_bytes && !limit(RLIMIT_AS, s->memory_bytes, s->memory_bytes))
                return "memory";
        reset_signals();
        /* The parent may have died before this took hold. */
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
                return "prctl";
        return NULL;
}

_Noreturn static void child(const struct spawn *s, const char *file, pid_t parent, int back)
{
        struct report r = {.step = prepare(s, parent)};
        if (!r.step) {
                (void)execve(file, s->argv, s->env);
                r.step = "";
        }
        r.error = errno;
        (void)!write(back, &r, sizeof(r));
        _exit(127);
}

static int describe(const struct spawn *s, const struct report *r, struct problem *p)
{
        static const int lasting[] = {ENOENT, EACCES, ENOTDIR, ENOEXEC, ELOOP, ENAMETOOLONG, E2BIG};
        int err = ERR_UNAVAIL;
        for (size_t i = 0; i < ARRAY_LEN(lasting); i++)
                if (r->error == lasting[i])
                        err = ERR_NOTFOUND;
        if (strcmp(r->step, "chdir") == 0)
                return problem_set(p, ERR_NOTFOUND, "cannot run %s in %s: %s",
                                   SHOWN_MAX(slice_str(s->argv[0]), 100),
                                   SHOWN_MAX(slice_str(s->dir), 100), strerror(r->error));
        return problem_set(p, err, "cannot run %s: %s%s%s", SHOWN_MAX(slice_str(s->argv[0]), 100),
                           r->step, r->step[0] ? ": " : "", strerror(r->error));
}

static int fork_and_exec(const struct spawn *s, const char *file, pid_t *ret, struct problem *p)
{
        int back[2];
        struct report r = {.step = "fork"};
        if (pipe2(back, O_CLOEXEC) != 0) {
                r = (struct report){"pipe", errno};
                return describe(s, &r, p);
        }
        pid_t parent = getpid(), pid = fork();
        if (pid == 0)
                child(s, file, parent, back[1]);
        r.error = errno;
        (void)close(back[1]); /* only to be sure of the end */
        ssize_t n = 0;
        if (pid > 0)
                do
                        n = read(back[0], &r, sizeof(r));
                while (n < 0 && errno == EINTR);
        (void)close(back[0]); /* only read from */
        if (pid > 0 && n <= 0) {
                *ret = pid;
                return OK;
        }
        if (pid > 0)
                (void)waitpid(pid, NULL, 0);
        return describe(s, &r, p);
}

int spawn_start(const struct spawn *s, pid_t *ret, struct problem *p)
{
        char found[PATH_MAX];
        const char *path = env_get(s->env, "PATH");
        if (strchr(s->argv[0], '/'))
                return fork_and_exec(s, s->argv[0], ret, p);
        if (!find_in_path(s->argv[0], path ? path : DEFAULT_PATH, found, sizeof(found)))
                return problem_set(p, ERR_NOTFOUND, "cannot run %s: no such program in PATH",
                                   SHOWN_MAX(slice_str(s->argv[0]), 100));
        return fork_and_exec(s, found, ret, p);
}
