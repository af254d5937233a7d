/* Arenas: alignment, the limit, large requests, what clear keeps, memory that runs out. */
#include "check.h"

#include <stdlib.h>

static bool is_out_of_memory;
static int n_allocated;

static void *counted_malloc(size_t size)
{
        if (is_out_of_memory)
                return NULL;
        n_allocated++;
        return malloc(size);
}

#define malloc counted_malloc
#include "../../src/base/arena.c" /* NOLINT(bugprone-suspicious-include) */
#undef malloc

static void allocations_are_aligned_and_do_not_overlap(void **state)
{
        struct arena a;
        unsigned char *p[500];

        (void)state;
        arena_init(&a, 10 * MIB);
        for (size_t i = 0; i < 500; i++) {
                size_t size = i * 7 % 1500;
                p[i] = arena_alloc(&a, size);
                assert_non_null(p[i]);
                assert_int_equal((uintptr_t)p[i] % 16, 0);
                memset(p[i], (int)(i & 255), size);
        }
        for (size_t i = 0; i < 500; i++)
                for (size_t k = 0; k < i * 7 % 1500; k++)
                        assert_int_equal(p[i][k], i & 255);
        arena_release(&a);
}

static void the_limit_holds_at_the_byte_in_steps_of_sixteen(void **state)
{
        struct arena a;

        (void)state;
        for (size_t n = 1023; n <= 1025; n++) {
                arena_init(&a, 1024);
                assert_int_equal(arena_alloc(&a, n) != NULL, n <= 1024);
                arena_release(&a);
        }
        arena_init(&a, 1000); /* counts as 1008 */
        assert_non_null(arena_alloc(&a, 1000));
        assert_null(arena_alloc(&a, 1));
        assert_null(arena_alloc(&a, 0));
        arena_clear(&a);
        for (int i = 0; i < 63; i++)
                assert_non_null(arena_alloc(&a, 1));
        assert_null(arena_alloc(&a, 1));
        arena_release(&a);
}

static void a_size_that_would_wrap_is_refused(void **state)
{
        struct arena a;

        (void)state;
        arena_init(&a, 0);
        assert_null(arena_alloc(&a, SIZE_MAX));
        assert_null(arena_alloc(&a, SIZE_MAX - 8));
        assert_null(arena_array(&a, SIZE_MAX / 8, 16));
        assert_null(arena_array(&a, 1ULL << 33, 1ULL << 31));
        assert_int_equal(a.used_bytes, 0);
        assert_non_null(arena_array(&a, 10, 10));
        assert_int_equal(a.used_bytes, 112);
        arena_release(&a);
        arena_init(&a, SIZE_MAX);
        assert_null(arena_alloc(&a, SIZE_MAX - 15));
        arena_release(&a);
}

static void clearing_keeps_one_block_and_uses_it_again(void **state)
{
        struct arena a;

        (void)state;
        arena_init(&a, 10 * MIB);
        arena_clear(&a); /* nothing yet: nothing happens */
        n_allocated = 0;
        void *first = arena_alloc(&a, 100);
        assert_int_equal(n_allocated, 1);
        for (int i = 0; i < 100; i++)
                assert_non_null(arena_alloc(&a, 300));
        assert_true(n_allocated > 5);
        arena_clear(&a);
        assert_int_equal(a.used_bytes, 0);
        n_allocated = 0;
        for (int i = 0; i < 100; i++) {
                assert_ptr_equal(arena_alloc(&a, 100), first);
                arena_clear(&a);
        }
        assert_int_equal(n_allocated, 0);
        arena_release(&a);
}

static void a_large_request_has_its_own_block_and_wastes_no_small_one(void **state)
{
        struct arena a;

        (void)state;
        arena_init(&a, 10 * MIB);
        n_allocated = 0;
        assert_non_null(arena_alloc(&a, MIB)); /* first of all: a kept block comes along */
        assert_int_equal(n_allocated, 2);
        char *small = arena_alloc(&a, 16);
        assert_non_null(arena_alloc(&a, MIB));
        assert_int_equal(n_allocated, 3);
        char *next = arena_alloc(&a, 16);
        assert_ptr_equal(next, small + 16);
        arena_clear(&a);
        n_allocated = 0;
        assert_ptr_equal(arena_alloc(&a, 16), small);
        assert_int_equal(n_allocated, 0);
        arena_release(&a);
}

static void without_memory_the_answer_is_null_and_nothing_is_counted(void **state)
{
        struct arena a;

        (void)state;
        arena_init(&a, 10 * MIB);
        is_out_of_memory = true;
        assert_null(arena_alloc(&a, 1));
        assert_null(arena_copy(&a, SLICE_LIT("x")).ptr);
        is_out_of_memory = false;
        assert_non_null(arena_alloc(&a, 1));
        size_t used = a.used_bytes;
        is_out_of_memory = true;
        assert_null(arena_alloc(&a, MIB));
        assert_null(arena_alloc(&a, MIB));
        assert_non_null(arena_alloc(&a, 1)); /* there is room in the block */
        is_out_of_memory = false;
        assert_int_equal(a.used_bytes, used + 16);
        arena_release(&a);
}

static void copies_are_copies_and_an_empty_one_is_not_null(void **state)
{
        struct arena a;
        char text[] = "text";

        (void)state;
        arena_init(&a, 64);
        struct slice copy = arena_copy(&a, slice_str(text));
        text[0] = 'T';
        assert_slice(copy, "text");
        struct slice empty = arena_copy(&a, SLICE_NONE);
        assert_non_null(empty.ptr);
        assert_int_equal(empty.len, 0);
        assert_null(arena_copy(&a, slice_make("", 33)).ptr); /* not even looked at */
        arena_release(&a);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(allocations_are_aligned_and_do_not_overlap),
                cmocka_unit_test(the_limit_holds_at_the_byte_in_steps_of_sixteen),
                cmocka_unit_test(a_size_that_would_wrap_is_refused),
                cmocka_unit_test(clearing_keeps_one_block_and_uses_it_again),
                cmocka_unit_test(a_large_request_has_its_own_block_and_wastes_no_small_one),
                cmocka_unit_test(without_memory_the_answer_is_null_and_nothing_is_counted),
                cmocka_unit_test(copies_are_copies_and_an_empty_one_is_not_null),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
