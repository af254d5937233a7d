/* The last words of a panicking process, and allocation that cannot fail. */
#include "check.h"

#include <stdlib.h>
#include <sys/mman.h>

static bool is_out_of_memory;

static void *sometimes_malloc(size_t size)
{
        return is_out_of_memory ? NULL : malloc(size);
}
static void *sometimes_calloc(size_t n, size_t size)
{
        return is_out_of_memory ? NULL : calloc(n, size);
}
static void *sometimes_realloc(void *p, size_t size)
{
        return is_out_of_memory ? NULL : realloc(p, size);
}

#define malloc  sometimes_malloc
#define calloc  sometimes_calloc
#define realloc sometimes_realloc
#include "../../src/base/defs.c" /* NOLINT(bugprone-suspicious-include) */
#undef malloc
#undef calloc
#undef realloc

static void say_and_fail(void)
{
        int lives = 0;

        for (int i = 0; i < 3; i++)
                say_info("cat", "lost a life", "left", SAY_I64(lives));
        ASSERT(lives == 9);
}

static void a_panic_tells_place_claim_recent_lines_and_backtrace(void **state)
{
        static char text[65536];
        int fd = memfd_create("stderr", 0);

        (void)state;
        assert_panics_to(say_and_fail, fd);
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        assert_true(n > 0);
        text[n] = '\0';
        assert_non_null(strstr(text, "weir: panic: "));
        assert_non_null(strstr(text, "test_defs.c:"));
        assert_non_null(strstr(text, "say_and_fail"));
        assert_non_null(strstr(text, "lives == 9"));
        char *recent = strstr(text, "--- recent lines");
        assert_non_null(recent);
        assert_non_null(strstr(recent, "lost a life"));
        char *trace = strstr(recent, "--- backtrace");
        assert_non_null(trace);
        assert_non_null(strstr(trace, "(")); /* at least one frame, file(symbol+offset) */
        (void)close(fd);
}

static void an_assertion_that_holds_says_nothing(void **state)
{
        int n = 0;

        (void)state;
        ASSERT(++n == 1);
        assert_int_equal(n, 1); /* and looks once */
}

static void allocations_of_nothing_are_something(void **state)
{
        void *a = xmalloc(0), *b = xcalloc(0, 8), *c = xcalloc(8, 0), *d = xrealloc(NULL, 0);
        char *e = xstrdup("");

        (void)state;
        assert_true(a && b && c && d && e);
        d = xrealloc(d, 10);
        memset(d, 1, 10);
        assert_string_equal(e, "");
        free(a);
        free(b);
        free(c);
        free(d);
        free(e);
        e = xstrdup("copy");
        assert_string_equal(e, "copy");
        free(e);
}

static void malloc_fails(void)
{
        is_out_of_memory = true;
        free(xmalloc(1));
}
static void calloc_fails(void)
{
        is_out_of_memory = true;
        free(xcalloc(1, 1));
}
static void realloc_fails(void)
{
        is_out_of_memory = true;
        free(xrealloc(NULL, 1));
}
static void strdup_fails(void)
{
        is_out_of_memory = true;
        free(xstrdup("x"));
}

static void without_memory_the_process_ends(void **state)
{
        (void)state;
        assert_panics(malloc_fails);
        assert_panics(calloc_fails);
        assert_panics(realloc_fails);
        assert_panics(strdup_fails);
}

static void alignment_rounds_up_to_the_next_multiple(void **state)
{
        (void)state;
        assert_int_equal(ALIGN_UP(0, 16), 0);
        assert_int_equal(ALIGN_UP(1, 16), 16);
        assert_int_equal(ALIGN_UP(16, 16), 16);
        assert_int_equal(ALIGN_UP((uint64_t)17, 16), 32);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_panic_tells_place_claim_recent_lines_and_backtrace),
                cmocka_unit_test(an_assertion_that_holds_says_nothing),
                cmocka_unit_test(allocations_of_nothing_are_something),
                cmocka_unit_test(without_memory_the_process_ends),
                cmocka_unit_test(alignment_rounds_up_to_the_next_multiple),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
