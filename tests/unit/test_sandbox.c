/* The filter of system calls, each time in a process of its own, which it then is for good. */
#include "../../src/serve/sandbox.c" /* NOLINT(bugprone-suspicious-include) */

#include <fcntl.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

#define FINE      0
#define WRONG     100 /* and the row of what went wrong */
#define UNENTERED 99

/* The status of a process that is filtered and then runs `fn`. */
static int filtered(uint32_t action, bool has_programs, int (*fn)(void))
{
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(load(action, has_programs) == 0 ? fn() : UNENTERED);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool is_refused(long r)
{
        return r == -1 && errno == ENOSYS;
}

static int try_what_is_forbidden(void)
{
        static char name[] = "/bin/true";
        char *argv[] = {name, NULL};
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
                return WRONG;
        if (!is_refused(execve(name, argv, NULL)))
                return WRONG + 1;
        if (!is_refused(syscall(SYS_execveat, AT_FDCWD, name, argv, NULL, 0)))
                return WRONG + 2;
        if (!is_refused(syscall(SYS_process_vm_writev, getpid(), NULL, 0, NULL, 0, 0)))
                return WRONG + 3;
        if (!is_refused(socket(AF_PACKET, SOCK_RAW, 0)))
                return WRONG + 4;
        if (!is_refused(mprotect(page, 4096, PROT_READ | PROT_EXEC)))
                return WRONG + 5;
        if (!is_refused(syscall(SYS_mmap, NULL, 4096, PROT_WRITE | PROT_EXEC,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
                return WRONG + 6;
        if (!is_refused(syscall(SYS_bpf, 0, NULL, 0)) || !is_refused(unshare(CLONE_NEWUSER)))
                return WRONG + 7;
        if (!is_refused(syscall(SYS_tgkill, getppid(), getppid(), 0)) ||
            syscall(SYS_tgkill, getpid(), gettid(), 0) != 0)
                return WRONG + 11;
        if (!is_refused(chroot("/")) || !is_refused(setuid(0)))
                return WRONG + 8;
        if (!is_refused(ioctl(0, TIOCSTI, "x")))
                return WRONG + 9;
#if !IS_SANITIZED
        if (!is_refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)) || fork() != -1)
                return WRONG + 10;
#endif
        return FINE;
}

static void what_a_server_has_no_use_for_is_refused(void **state)
{
        (void)state;
        assert_int_equal(filtered(SCMP_ACT_ERRNO(ENOSYS), false, try_what_is_forbidden), FINE);
}

static void *nothing(void *arg)
{
        return arg;
}

static int try_what_is_needed(void)
{
        pthread_t thread;
        struct stat st;
        int pair[2];
        void *ret = NULL;
        if (pthread_create(&thread, NULL, nothing, pair) != 0 || pthread_join(thread, &ret) != 0 ||
            ret != pair)
                return WRONG;
        if (stat("/", &st) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
                return WRONG + 1;
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (fd < 0 && errno != EAFNOSUPPORT)
                return WRONG + 2;
        void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return code == MAP_FAILED ? WRONG + 3 : FINE; /* so are libraries loaded */
}

static void what_it_needs_goes(void **state)
{
        (void)state;
        assert_int_equal(filtered(SCMP_ACT_ERRNO(ENOSYS), false, try_what_is_needed), FINE);
        assert_int_equal(filtered(SCMP_ACT_TRAP, false, try_what_is_needed), FINE);
}

static int run_a_program(void)
{
        static char name[] = "/bin/true";
        char *argv[] = {name, NULL};
        (void)execve(name, argv, NULL);
        return WRONG;
}

static int try_what_is_never_allowed(void)
{
        if (!IS_SANITIZED && !is_refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)))
                return WRONG;
        if (!is_refused(syscall(SYS_bpf, 0, NULL, 0)) || !is_refused(unshare(CLONE_NEWUSER)))
                return WRONG + 1;
        return run_a_program();
}

static void the_wide_list_lets_programs_run_and_still_refuses(void **state)
{
        (void)state;
        assert_int_equal(filtered(SCMP_ACT_ERRNO(ENOSYS), true, try_what_is_never_allowed), 0);
}

static void a_call_that_kills_is_named(void **state)
{
        (void)state;
        int fds[2], status;
        char said[200], wanted[80];
        assert_int_equal(pipe(fds), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct problem problem;
                (void)dup2(fds[1], STDERR_FILENO);
                say_setup(SAY_ERROR, false);
                _exit(sandbox_enter(SANDBOX_KILL, false, &problem) == OK ? run_a_program()
                                                                         : UNENTERED);
        }
        (void)close(fds[1]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), err_exit(ERR_FORBIDDEN));
        ssize_t n = read(fds[0], said, sizeof(said) - 1);
        assert_true(n > 0);
        said[n] = '\0';
        (void)snprintf(wanted, sizeof(wanted), "does not allow system call %d\n", SYS_execve);
        assert_non_null(strstr(said, wanted));
        (void)close(fds[0]);
}

static int forbid_privileges(void)
{
        struct problem problem;
        sandbox_begin();
        if (sandbox_enter(SANDBOX_OFF, false, &problem) != OK)
                return WRONG;
        return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? run_a_program() : WRONG;
}

static void without_a_filter_privileges_cannot_be_gained_either(void **state)
{
        (void)state;
        pid_t pid = fork();
        int status;
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(forbid_privileges());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_a_server_has_no_use_for_is_refused),
                cmocka_unit_test(what_it_needs_goes),
                cmocka_unit_test(the_wide_list_lets_programs_run_and_still_refuses),
                cmocka_unit_test(a_call_that_kills_is_named),
                cmocka_unit_test(without_a_filter_privileges_cannot_be_gained_either),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
