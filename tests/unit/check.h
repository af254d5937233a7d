/* What every unit test needs: cmocka with the headers it asks for, comparisons of slices and texts,
 * and a way to see that our own mistakes end the process. */
#ifndef WEIR_TESTS_UNIT_CHECK_H
#define WEIR_TESTS_UNIT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/slice.h"

#define assert_slice(got, text)                                                                    \
        do {                                                                                       \
                struct slice got_ = (got), want_ = slice_str(text);                                \
                assert_int_equal(got_.len, want_.len);                                             \
                if (want_.len)                                                                     \
                        assert_memory_equal(got_.ptr, want_.ptr, want_.len);                       \
        } while (0)

#define same(got, want) assert_string_equal(got, want)

static inline void has(const char *text, const char *part)
{
        if (!text || !strstr(text, part))
                fail_msg("'%s' does not hold '%s'", text ? text : "(null)", part);
}

static inline void has_not(const char *text, const char *part)
{
        if (strstr(text, part))
                fail_msg("'%s' holds '%s'", text, part);
}

static inline void starts_with(const char *text, const char *with)
{
        if (strncmp(text, with, strlen(with)) != 0)
                fail_msg("'%s' does not start with '%s'", text, with);
}

static inline size_t times(const char *text, const char *part)
{
        size_t n = 0;
        for (; (text = strstr(text, part)); text++)
                n++;
        return n;
}

/* Runs fn in a child that must abort; its stderr goes to fd, or nowhere when that is -1. */
static inline void assert_panics_to(void (*fn)(void), int fd)
{
        int status = 0;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                struct rlimit none = {0, 0};
                (void)setrlimit(RLIMIT_CORE, &none);
                (void)signal(SIGABRT, SIG_DFL); /* cmocka's own handler would go on */
                (void)dup2(fd >= 0 ? fd : open("/dev/null", O_WRONLY), STDERR_FILENO);
                fn();
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static inline void assert_panics(void (*fn)(void))
{
        assert_panics_to(fn, -1);
}

#endif
