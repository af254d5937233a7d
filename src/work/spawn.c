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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/shown.h"
#include "work/words.h"

#define CPU_GRACE_S  5 /* from SIGXCPU to SIGKILL */
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

struct report {
        const char *step; /* a literal: same address in parent and child */
        int error;
};

static bool is_program(const char *file)
{
        struct stat st;
        return access(file, X_OK) == 0 && stat(file, &st) == 0 && S_ISREG(st.st_mode);
}

/* The files that a program without a slash may be, as this process sees them.  More than the first,
 * because an account may be kept from that. */
static void find_in_path(const char *program, const char *path, struct words *ret)
{
        char file[PATH_MAX];
        for (const char *at = path; *at;) {
                const char *end = strchrnul(at, ':');
                int n = snprintf(file, sizeof(file), "%.*s%s%s", (int)(end - at), at,
                                 end > at ? "/" : "./", program);
                if (n > 0 && (size_t)n < sizeof(file) && is_program(file))
                        words_add(ret, file);
                at = *end ? end + 1 : end;
        }
}

static void find_files(const struct spawn *s, struct words *ret)
{
        const char *path = env_get(s->env, "PATH");
        *ret = (struct words){0};
        if (strchr(s->argv[0], '/'))
                words_add(ret, s->argv[0]);
        else
                find_in_path(s->argv[0], path ? path : DEFAULT_PATH, ret);
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

/* The account last of what needs rights, and the folder after it: it must be one that the account
 * may enter. */
static const char *change_account(const struct spawn *s)
{
        /* Only its owner can open /dev/stderr, and a pipe belongs to the process that made it. */
        for (int i = 0; s->account && i < 3; i++)
                if (fchown(i, s->account->uid, s->account->gid) != 0)
                        return "fchown";
        const char *failed = s->account ? account_become(s->account) : NULL;
        if (failed)
                return failed;
        return s->dir && chdir(s->dir) != 0 ? "chdir" : NULL;
}

static const char *prepare(const struct spawn *s, pid_t parent)
{
        if (setsid() < 0)
                return "setsid";
        if (!take_stdio(s->stdio))
                return "dup2";
        if (s->files && setrlimit(RLIMIT_NOFILE, s->files) != 0)
                return "files";
        if (s->umask >= 0)
                (void)umask((mode_t)s->umask); /* gives the old one */
        if (s->nice && setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + s->nice) != 0)
                return "nice";
        if (s->cpu_s && !limit(RLIMIT_CPU, (uint64_t)s->cpu_s, (uint64_t)s->cpu_s + CPU_GRACE_S))
                return "cpu";
        if (s->memory_bytes && !limit(RLIMIT_AS, s->memory_bytes, s->memory_bytes))
                return "memory";
        const char *failed = change_account(s);
        if (failed)
                return failed;
        reset_signals();
        /* After the account, a change of which clears it.  The parent may have died before this
         * took hold. */
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
                return "prctl";
        return NULL;
}

_Noreturn static void child(const struct spawn *s, char **files, pid_t parent, int back)
{
        struct report r = {.step = prepare(s, parent)};
        r.error = errno;
        if (!r.step) { /* the next file only where the account is kept from one */
                r = (struct report){"", EACCES};
                for (; *files && r.error == EACCES; files++) {
                        (void)execve(*files, s->argv, s->env);
                        r.error = errno;
                }
        }
        (void)!write(back, &r, sizeof(r));
        _exit(127);
}

/* execve(2) says ENOENT also of a script that is there while the program of its #! line is not. */
static bool is_orphan(const struct spawn *s, const char *file, const struct report *r)
{
        bool is_found_here = file && (file[0] == '/' || !s->dir);
        return r->error == ENOENT && r->step[0] == '\0' && is_found_here && access(file, F_OK) == 0;
}

static int describe(const struct spawn *s, const char *file, const struct report *r,
                    struct problem *p)
{
        static const int lasting[] = {ENOENT, EACCES,       ENOTDIR, ENOEXEC,
                                      ELOOP,  ENAMETOOLONG, E2BIG,   EPERM};
        int err = ERR_UNAVAIL;
        for (size_t i = 0; i < ARRAY_LEN(lasting); i++)
                if (r->error == lasting[i])
                        err = ERR_NOTFOUND;
        if (strcmp(r->step, "chdir") == 0)
                return problem_set(p, ERR_NOTFOUND, "cannot run %s in %s: %s",
                                   SHOWN_MAX(slice_str(s->argv[0]), 100),
                                   SHOWN_MAX(slice_str(s->dir), 100), strerror(r->error));
        return problem_set(p, err, "cannot run %s: %s%s%s%s", SHOWN_MAX(slice_str(s->argv[0]), 100),
                           r->step, r->step[0] ? ": " : "", strerror(r->error),
                           is_orphan(s, file, r) ? " (the program of its #! line)" : "");
}

static int fork_and_exec(const struct spawn *s, char **files, pid_t *ret, struct problem *p)
{
        int back[2];
        struct report r = {.step = "fork"};
        if (pipe2(back, O_CLOEXEC) != 0) {
                r = (struct report){"pipe", errno};
                return describe(s, files[0], &r, p);
        }
        pid_t parent = getpid(), pid = fork();
        if (pid == 0)
                child(s, files, parent, back[1]);
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
        return describe(s, files[0], &r, p);
}

int spawn_start(const struct spawn *s, pid_t *ret, struct problem *p)
{
        struct words files;
        find_files(s, &files);
        int r = files.n ? fork_and_exec(s, files.argv, ret, p)
                        : problem_set(p, ERR_NOTFOUND, "cannot run %s: no such program in PATH",
                                      SHOWN_MAX(slice_str(s->argv[0]), 100));
        words_release(&files);
        return r;
}

/* ---- before the first job ---- */

/* An exit code of the child that tries; 0 when nothing is in the way. */
enum obstacle { OBSTACLE_NONE, OBSTACLE_ACCOUNT, OBSTACLE_FOLDER, OBSTACLE_MISSING, OBSTACLE_MODE };

/* For a child: leaves it in another folder, under another account. */
static enum obstacle find_obstacle(const struct spawn *s)
{
        struct words files = {0};
        if (s->account && account_become(s->account))
                return OBSTACLE_ACCOUNT;
        if (s->dir && chdir(s->dir) != 0)
                return OBSTACLE_FOLDER;
        if (!s->argv[0])
                return OBSTACLE_NONE;
        find_files(s, &files);
        const char *file = files.n ? files.argv[0] : "";
        enum obstacle found = is_program(file) ? OBSTACLE_NONE : OBSTACLE_MODE;
        if (access(file, F_OK) != 0)
                found = OBSTACLE_MISSING;
        words_release(&files);
        return found;
}

int spawn_check(const struct spawn *s, struct problem *p)
{
        const char *user = s->account ? s->account->user : NULL;
        const char *program = s->argv[0] ? s->argv[0] : "";
        int how = 0;
        pid_t pid = fork();
        if (pid == 0)
                _exit((int)find_obstacle(s));
        if (pid < 0 || waitpid(pid, &how, 0) != pid || !WIFEXITED(how))
                return problem_set(p, ERR_UNAVAIL, "no process can be started: %s",
                                   strerror(errno));
        switch ((enum obstacle)WEXITSTATUS(how)) {
        case OBSTACLE_NONE:
                return OK;
        case OBSTACLE_ACCOUNT:
                return problem_set(p, ERR_FORBIDDEN,
                                   "this worker may not run commands as user '%s', although it "
                                   "runs as root: CAP_SETUID and CAP_SETGID are missing",
                                   user);
        case OBSTACLE_FOLDER:
                return problem_set(p, ERR_BADARG, "%s%s cannot enter the folder '%s'",
                                   user ? "user " : "", user ? user : "this worker",
                                   SHOWN_LONG(s->dir));
        case OBSTACLE_MODE:
                return problem_set(p, ERR_BADARG,
                                   "'%s' is no program that %s%s may run: it must be a file with "
                                   "the right to be executed (chmod +x)",
                                   SHOWN_LONG(program), user ? "user " : "",
                                   user ? user : "this worker");
        case OBSTACLE_MISSING:
                break;
        }
        return problem_set(p, ERR_BADARG, "there is no program '%s'%s%s%s", SHOWN_LONG(program),
                           user ? " that user " : "", user ? user : "", user ? " can see" : "");
}
