/* See sandbox.h.
 *
 * There are two lists.  The narrow one names what the server itself calls, and nothing else goes:
 * no exec, no fork, no ptrace, no memory that is writable and executable, no sockets but those of
 * the network and of Unix.  It does not fit a server with a target of the kind `command`: the
 * program would inherit it.  Such a server gets the wide one, which forbids what neither weir nor a
 * program that prints a number has a use for.
 *
 * What happens to a call that is not allowed:
 *
 *   on     it fails with ENOSYS, and the kernel writes a line to the audit log.  A server that
 * holds everybody's jobs should not die because a newer C library tries a newer call; ENOSYS is
 * what such a library expects from an older kernel, and it goes on with the call it used before. An
 * attacker's call fails all the same. kill   weir says which call it was, and ends.  For those who
 * want to know at once, and for our own tests: in builds with sanitizers, `on` means `kill`. log it
 * is only written to the audit log.
 *
 * The kernel remembers which calls are always allowed, so that the filter costs a few nanoseconds a
 * call; only those that are looked at by their arguments run through it. */
#include "serve/sandbox.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/say.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* names of mappings, which newer C libraries give */
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

#define CALL(name)                                                                                 \
        {                                                                                          \
                SCMP_SYS(name), {0}, 0                                                             \
        }
/* Only with an argument (counted from 0) of which the bits of a mask have this value. */
#define WITH(name, n, mask, value)                                                                 \
        {                                                                                          \
                SCMP_SYS(name), {(n), SCMP_CMP_MASKED_EQ, (mask), (value)}, 1                      \
        }
#define WITH_WORD(name, n, value) WITH(name, n, UINT32_MAX, value)

struct call {
        int nr;
        struct scmp_arg_cmp arg;
        unsigned n_args;
};

/* A table of words. */
/* clang-format off */
static const struct call narrow[] = {
        /* Files: the log, history and its backup, the configuration, certificates, time zones. */
        CALL(read), CALL(write), CALL(readv), CALL(writev), CALL(pread64), CALL(pwrite64),
        CALL(preadv), CALL(pwritev), CALL(preadv2), CALL(pwritev2), CALL(lseek), CALL(open),
        CALL(openat), CALL(close), CALL(close_range), CALL(creat), CALL(stat), CALL(lstat),
        CALL(fstat), CALL(newfstatat), CALL(statx), CALL(statfs), CALL(fstatfs), CALL(access),
        CALL(faccessat), CALL(faccessat2), CALL(readlink), CALL(readlinkat), CALL(getcwd),
        CALL(getdents), CALL(getdents64), CALL(mkdir), CALL(mkdirat), CALL(rmdir), CALL(unlink),
        CALL(unlinkat), CALL(rename), CALL(renameat), CALL(renameat2), CALL(link), CALL(linkat),
        CALL(truncate), CALL(ftruncate), CALL(fallocate), CALL(fadvise64), CALL(readahead),
        CALL(fsync), CALL(fdatasync), CALL(sync_file_range), CALL(msync), CALL(flock), CALL(fcntl),
        CALL(dup), CALL(dup2), CALL(dup3), CALL(pipe), CALL(pipe2), CALL(umask), CALL(chmod),
        CALL(fchmod), CALL(fchmodat), CALL(chown), CALL(fchown), CALL(fchownat), CALL(utimes),
        CALL(utimensat), CALL(inotify_init1), CALL(inotify_add_watch), CALL(inotify_rm_watch),
        WITH_WORD(ioctl, 1, TCGETS), WITH_WORD(ioctl, 1, TIOCGWINSZ), WITH_WORD(ioctl, 1, FIONBIO),
        WITH_WORD(ioctl, 1, FIOCLEX), WITH_WORD(ioctl, 1, FIONREAD),
        WITH_WORD(ioctl, 1, SIOCGIFNAME), WITH_WORD(ioctl, 1, SIOCGIFINDEX),
        /* Waiting. */
        CALL(poll), CALL(ppoll), CALL(select), CALL(pselect6), CALL(epoll_create),
        CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_wait), CALL(epoll_pwait),
        CALL(epoll_pwait2), CALL(eventfd), CALL(eventfd2), CALL(timerfd_create),
        CALL(timerfd_settime), CALL(timerfd_gettime),
        /* Sockets; getaddrinfo() asks the kernel over netlink which addresses there are. */
        WITH_WORD(socket, 0, AF_UNIX), WITH_WORD(socket, 0, AF_INET),
        WITH_WORD(socket, 0, AF_INET6), WITH_WORD(socket, 0, AF_NETLINK),
        WITH_WORD(socketpair, 0, AF_UNIX), CALL(bind), CALL(listen), CALL(accept), CALL(accept4),
        CALL(connect), CALL(shutdown), CALL(getsockname), CALL(getpeername), CALL(getsockopt),
        CALL(setsockopt), CALL(sendto), CALL(recvfrom), CALL(sendmsg), CALL(recvmsg),
        CALL(sendmmsg), CALL(recvmmsg),
        /* Memory: libraries are loaded late (plugins of libmariadb, name services), but nothing is
         * made executable that was written here. */
        WITH(mmap, 2, PROT_WRITE | PROT_EXEC, 0), WITH(mmap, 2, PROT_WRITE | PROT_EXEC, PROT_WRITE),
        WITH(mmap, 2, PROT_WRITE | PROT_EXEC, PROT_EXEC), WITH(mprotect, 2, PROT_EXEC, 0),
        CALL(munmap), CALL(mremap), CALL(madvise), CALL(brk), CALL(mlock), CALL(munlock),
        CALL(membarrier),
        /* Threads, and no processes.  The flags of clone3 cannot be seen. */
        WITH(clone, 0, CLONE_THREAD, CLONE_THREAD), CALL(exit), CALL(exit_group), CALL(futex),
        CALL(futex_waitv), CALL(set_robust_list), CALL(get_robust_list), CALL(rseq),
        CALL(set_tid_address), CALL(sched_yield), CALL(sched_getaffinity), CALL(sched_getscheduler),
        CALL(sched_setscheduler), CALL(sched_getparam), CALL(getpriority), CALL(setpriority),
        WITH_WORD(prctl, 0, PR_SET_NAME), WITH_WORD(prctl, 0, PR_GET_NAME),
        WITH_WORD(prctl, 0, PR_SET_VMA), WITH_WORD(prctl, 0, PR_GET_DUMPABLE),
        /* Signals; how abort() sends one is in add_narrow(). */
        CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(rt_sigtimedwait),
        CALL(sigaltstack), CALL(restart_syscall), CALL(pause),
        /* Clocks and facts. */
        CALL(clock_gettime), CALL(clock_getres), CALL(clock_nanosleep), CALL(nanosleep),
        CALL(gettimeofday), CALL(time), CALL(times), CALL(getcpu), CALL(getpid), CALL(getppid),
        CALL(gettid), CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid), CALL(getresuid),
        CALL(getresgid), CALL(getgroups), CALL(uname), CALL(sysinfo), CALL(getrandom),
        CALL(getrusage), CALL(getrlimit),
        {SCMP_SYS(prlimit64), {2, SCMP_CMP_EQ, 0, 0}, 1}, /* reads, does not set */
#if IS_SANITIZED
        /* The leak checker stops all threads from a process of its own. */
        CALL(clone), CALL(ptrace), CALL(wait4), CALL(prctl), CALL(prlimit64), CALL(kill),
        CALL(personality), CALL(process_vm_readv),
#endif
};

static const struct call never[] = {
#if !IS_SANITIZED
        CALL(ptrace), CALL(process_vm_readv), CALL(personality),
#endif
        CALL(process_vm_writev), CALL(process_madvise),
        CALL(pidfd_getfd), CALL(kcmp), CALL(bpf), CALL(perf_event_open), CALL(userfaultfd),
        CALL(io_uring_setup), CALL(io_uring_enter), CALL(io_uring_register), CALL(mount),
        CALL(umount), CALL(umount2), CALL(mount_setattr), CALL(move_mount), CALL(open_tree),
        CALL(fsopen), CALL(fsconfig), CALL(fsmount), CALL(fspick), CALL(pivot_root), CALL(chroot),
        CALL(unshare), CALL(setns), CALL(open_by_handle_at), CALL(name_to_handle_at),
        CALL(fanotify_init), CALL(quotactl), CALL(quotactl_fd), CALL(swapon), CALL(swapoff),
        CALL(acct), CALL(reboot), CALL(kexec_load), CALL(kexec_file_load), CALL(init_module),
        CALL(finit_module), CALL(delete_module), CALL(settimeofday), CALL(clock_settime),
        CALL(clock_adjtime), CALL(adjtimex), CALL(sethostname), CALL(setdomainname), CALL(iopl),
        CALL(ioperm), CALL(modify_ldt), CALL(syslog), CALL(vhangup),
        CALL(uselib), CALL(lookup_dcookie), CALL(add_key), CALL(request_key), CALL(keyctl),
        CALL(mbind), CALL(migrate_pages), CALL(move_pages), CALL(set_mempolicy),
};
/* clang-format on */

static bool is_narrow; /* since sandbox_enter() */

/* Async-signal-safe. */
static void on_forbidden(int signum, siginfo_t *info, void *context)
{
        static const char said[] = "weir: seccomp does not allow system call ";
        char digits[12];
        size_t at = sizeof(digits);
        (void)signum;
        (void)context;
        if (info->si_syscall == -1)
                return; /* a debugger has taken the call away, and gives the answer itself */
        digits[--at] = '\n';
        for (unsigned nr = (unsigned)info->si_syscall; at == sizeof(digits) - 1 || nr; nr /= 10)
                digits[--at] = (char)('0' + nr % 10);
        (void)!write(STDERR_FILENO, said, sizeof(said) - 1);
        (void)!write(STDERR_FILENO, digits + at, sizeof(digits) - at);
        _exit(err_exit(ERR_FORBIDDEN));
}

static bool is_killing(enum sandbox_mode mode)
{
#if IS_SANITIZED
        return mode == SANDBOX_ON || mode == SANDBOX_KILL;
#else
        return mode == SANDBOX_KILL;
#endif
}

static uint32_t refusal(enum sandbox_mode mode)
{
        if (mode == SANDBOX_LOG)
                return SCMP_ACT_LOG;
        return is_killing(mode) ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(ENOSYS);
}

/* Calls that this machine or this libseccomp does not know are left out by seccomp_rule_add(). */
static int add_calls(scmp_filter_ctx ctx, uint32_t action, const struct call *calls, size_t n)
{
        int r = 0;
        for (size_t i = 0; i < n && r == 0; i++)
                r = seccomp_rule_add_array(ctx, action, calls[i].nr, calls[i].n_args,
                                           &calls[i].arg);
        return r;
}

static int add_narrow(scmp_filter_ctx ctx, uint32_t action)
{
        const struct scmp_arg_cmp own = {
                .arg = 0, .op = SCMP_CMP_EQ, .datum_a = (scmp_datum_t)getpid()};
        int r = add_calls(ctx, SCMP_ACT_ALLOW, narrow, ARRAY_LEN(narrow));
        if (r == 0) /* to its own threads, and to nobody else's */
                r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, own);
        /* The C library tries clone3 first, and clone when it is not there.  A rule that says what
         * is done anyway is a mistake to libseccomp. */
        if (r == 0 && action == SCMP_ACT_TRAP)
                r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
        return r;
}

/* `action` is what happens to a call that is not allowed. */
static int load(uint32_t action, bool has_programs)
{
        scmp_filter_ctx ctx = seccomp_init(has_programs ? SCMP_ACT_ALLOW : action);
        if (!ctx)
                return -ENOMEM;
        /* All threads at once.  No slower memory for the sake of code that weir does not run:
         * there is no interpreter of strangers' programs in it. */
        int r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
        (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_LOG, 1); /* kernels since 4.14 */
        (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_SSB, 1);
        (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list */
        if (r == 0)
                r = has_programs ? add_calls(ctx, action, never, ARRAY_LEN(never))
                                 : add_narrow(ctx, action);
        if (r == 0)
                r = seccomp_load(ctx);
        seccomp_release(ctx);
        return r;
}

void sandbox_begin(void)
{
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* Linux has it since 3.5 */
}

int sandbox_enter(enum sandbox_mode mode, bool has_programs, struct problem *problem)
{
        struct sigaction action = {.sa_sigaction = on_forbidden, .sa_flags = SA_SIGINFO};
        if (mode == SANDBOX_OFF)
                return OK;
        if (is_killing(mode) && sigaction(SIGSYS, &action, NULL) != 0)
                return problem_set(problem, ERR_INTERNAL, "sigaction: %s", strerror(errno));
        int r = load(refusal(mode), has_programs);
        if (r == 0) {
                is_narrow = !has_programs && mode != SANDBOX_LOG;
                say_info("serve",
                         mode == SANDBOX_LOG ? "system calls are watched"
                                             : "system calls are filtered",
                         "list", has_programs ? "wide: a target runs a program" : "narrow");
                return OK;
        }
        if (mode == SANDBOX_KILL)
                return problem_set(problem, ERR_STATE,
                                   "seccomp = \"kill\", and the filter cannot be installed: %s",
                                   strerror(-r));
        say_warn("serve", "system calls are not filtered", "errno", strerror(-r));
        return OK;
}

bool sandbox_has_programs(const struct config *c)
{
        for (size_t i = 0; i < c->targets.n; i++)
                if (c->targets.probes[i].kind == PROBE_COMMAND)
                        return true;
        return false;
}

int sandbox_check(const struct config *c, struct problem *problem)
{
        if (!is_narrow || !sandbox_has_programs(c))
                return OK;
        return problem_set(problem, ERR_STATE,
                           "a target of the kind command needs a restart: weir was started without "
                           "one, and has given up starting programs (seccomp)");
}
