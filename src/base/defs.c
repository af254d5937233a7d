/* The end of the road for our own mistakes, and the allocators that may take it.
 *
 * panic() must work when everything else is doubtful: it formats on the stack, writes with
 * write(2), takes no lock for good (say_dump only tries) and allocates nothing.  backtrace(3)
 * loads libgcc on its first call, which allocates; a constructor makes that call early.  A panic
 * inside a panic, or in a second thread meanwhile, aborts at once. */
#include "base/defs.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"

#define BACKTRACE_MAX 64

static void write_stderr(const char *text, size_t len)
{
        ssize_t n = write(STDERR_FILENO, text, len);
        (void)n; /* there is nobody left to tell */
}

/* The first backtrace() dlopens the unwinder; that must not happen with a damaged heap. */
__attribute__((constructor)) static void backtrace_load(void)
{
        void *frame[1];
        (void)backtrace(frame, 1);
}

void panic(const char *file, int line, const char *func, const char *claim)
{
        static atomic_flag has_begun = ATOMIC_FLAG_INIT;
        char text[1024];
        void *frames[BACKTRACE_MAX];

        if (atomic_flag_test_and_set(&has_begun))
                abort();
        int n = snprintf(text, sizeof(text), "\nweir: panic: %s:%d: %s: claim failed: %s\n", file,
                         line, func, claim);
        if (n > 0)
                write_stderr(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
        static const char recent[] = "--- recent lines\n", trace[] = "--- backtrace\n";
        write_stderr(recent, sizeof(recent) - 1);
        say_dump(STDERR_FILENO);
        write_stderr(trace, sizeof(trace) - 1);
        backtrace_symbols_fd(frames, backtrace(frames, BACKTRACE_MAX), STDERR_FILENO);
        abort();
}

void *xmalloc(size_t size)
{
        void *p = malloc(size ? size : 1);
        if (!p)
                panic(__FILE__, __LINE__, __func__, "memory is left");
        return p;
}

void *xcalloc(size_t n, size_t size)
{
        void *p = n && size ? calloc(n, size) : calloc(1, 1);
        if (!p)
                panic(__FILE__, __LINE__, __func__, "memory is left");
        return p;
}

void *xrealloc(void *p, size_t size)
{
        void *q = realloc(p, size ? size : 1);
        if (!q)
                panic(__FILE__, __LINE__, __func__, "memory is left");
        return q;
}

char *xstrdup(const char *s)
{
        size_t size = strlen(s) + 1;
        char *copy = xmalloc(size);

        memcpy(copy, s, size);
        return copy;
}
