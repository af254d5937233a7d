/* Buffers: growth, the limit at n-1, n and n+1, the sticky error, numbers. */
#include "check.h"

#include <stdio.h>

static bool is_out_of_memory;

static void *sometimes_realloc(void *p, size_t size)
{
        return is_out_of_memory ? NULL : realloc(p, size);
}

#define realloc sometimes_realloc
#include "../../src/base/buf.c" /* NOLINT(bugprone-suspicious-include) */
#undef realloc

static void a_new_buffer_is_empty_and_owns_nothing(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 100);
        assert_int_equal(buf_slice(&b).len, 0);
        assert_null(b.ptr);
        assert_string_equal(buf_cstr(&b), "");
        buf_put(&b, NULL, 0);
        buf_drop_front(&b, 0);
        assert_false(b.failed);
        buf_release(&b);
}

static void what_is_put_in_comes_out_in_order(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        buf_put(&b, "ab", 2);
        buf_put_byte(&b, 'c');
        buf_put_str(&b, "de");
        buf_put_slice(&b, SLICE_LIT("fg"));
        buf_put_i64(&b, -12);
        buf_put_u64(&b, 34);
        buf_printf(&b, "<%d %s>", 5, "x");
        assert_slice(buf_slice(&b), "abcdefg-1234<5 x>");
        assert_string_equal(buf_cstr(&b), "abcdefg-1234<5 x>");
        buf_release(&b);
        assert_null(b.ptr);
        assert_int_equal(b.len, 0);
}

static void a_buffer_takes_exactly_its_limit(void **state)
{
        (void)state;
        for (size_t n = 99; n <= 101; n++) {
                struct buf b;
                buf_init(&b, 100);
                for (size_t i = 0; i < n; i++)
                        buf_put_byte(&b, 'x');
                assert_int_equal(b.failed, n > 100);
                assert_int_equal(b.len, n > 100 ? 100 : n);
                assert_int_equal(strlen(buf_cstr(&b)), b.len); /* room for the NUL even then */
                buf_release(&b);
        }
}

static void after_the_first_failure_nothing_is_added(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 10);
        buf_put_str(&b, "12345");
        buf_put_str(&b, "678901"); /* too long: nothing of it goes in */
        assert_true(b.failed);
        buf_put_byte(&b, 'x'); /* would fit */
        buf_put_i64(&b, 1);
        buf_printf(&b, "y");
        buf_put(&b, NULL, 0);
        assert_false(buf_reserve(&b, 1));
        assert_slice(buf_slice(&b), "12345");
        buf_clear(&b);
        assert_false(b.failed);
        buf_put_str(&b, "1234567890");
        assert_slice(buf_slice(&b), "1234567890");
        buf_release(&b);
}

static void without_memory_the_buffer_fails_and_keeps_what_it_has(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        buf_put_str(&b, "kept");
        is_out_of_memory = true;
        for (int i = 0; i < 100; i++)
                buf_put_str(&b, "more");
        is_out_of_memory = false;
        assert_true(b.failed);
        assert_memory_equal(b.ptr, "keptmoremore", 12);
        assert_int_equal(b.len % 4, 0);
        buf_release(&b);
}

static void a_length_that_overflows_is_refused(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        buf_put_str(&b, "x");
        assert_false(buf_reserve(&b, SIZE_MAX));
        assert_true(b.failed);
        buf_clear(&b);
        assert_false(buf_reserve(&b, PTRDIFF_MAX));
        assert_true(b.failed);
        buf_release(&b);
}

static void growth_costs_few_reallocations(void **state)
{
        struct buf b;
        size_t n = 0, cap = 0;

        (void)state;
        buf_init(&b, 0);
        for (size_t i = 0; i < 1000000; i++) {
                buf_put_byte(&b, 'x');
                n += b.cap != cap;
                cap = b.cap;
        }
        assert_true(n < 30);
        assert_true(b.cap < 1600000);
        buf_release(&b);
}

static void numbers_are_written_as_printf_writes_them(void **state)
{
        char want[32];

        (void)state;
        for (int bit = 0; bit < 64; bit++) {
                for (int delta = -2; delta <= 2; delta++) {
                        uint64_t v = (1ULL << bit) + (uint64_t)(int64_t)delta;
                        struct buf b;
                        buf_init(&b, 0);
                        buf_put_u64(&b, v);
                        (void)snprintf(want, sizeof(want), "%llu", (unsigned long long)v);
                        assert_string_equal(buf_cstr(&b), want);
                        buf_clear(&b);
                        buf_put_i64(&b, (int64_t)v);
                        (void)snprintf(want, sizeof(want), "%lld", (long long)v);
                        assert_string_equal(buf_cstr(&b), want);
                        buf_release(&b);
                }
        }
        for (uint64_t v = 0, tens = 1; v < 20; v++, tens *= 10) {
                struct buf b;
                buf_init(&b, 0);
                buf_put_u64(&b, tens);
                buf_put_byte(&b, ' ');
                buf_put_u64(&b, tens - 1);
                (void)snprintf(want, sizeof(want), "%llu", (unsigned long long)tens);
                assert_memory_equal(buf_cstr(&b), want, strlen(want));
                (void)snprintf(want, sizeof(want), " %llu", (unsigned long long)tens - 1);
                assert_string_equal(strchr(buf_cstr(&b), ' '), want);
                buf_release(&b);
        }
}

static void formatted_text_longer_than_the_room_makes_room(void **state)
{
        struct buf b;

        (void)state;
        for (int n = 0; n < 300; n++) {
                buf_init(&b, 400);
                buf_put_str(&b, "ab");
                buf_printf(&b, "%*d", n, 7);
                assert_int_equal(b.len, 2 + (n ? n : 1));
                assert_int_equal(b.ptr[b.len - 1], '7');
                assert_false(b.failed);
                buf_release(&b);
        }
        buf_init(&b, 10);
        buf_printf(&b, "%s", "");
        assert_false(b.failed);
        assert_int_equal(b.len, 0);
        buf_printf(&b, "%s", "0123456789");
        assert_slice(buf_slice(&b), "0123456789");
        buf_clear(&b);
        buf_printf(&b, "%s", "0123456789a");
        assert_true(b.failed);
        assert_int_equal(b.len, 0);
        buf_release(&b);
}

static void dropping_the_front_moves_the_rest_down(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        buf_put_str(&b, "0123456789");
        buf_drop_front(&b, 1);
        assert_slice(buf_slice(&b), "123456789");
        buf_drop_front(&b, 2);
        assert_slice(buf_slice(&b), "3456789");
        buf_drop_front(&b, 0);
        assert_slice(buf_slice(&b), "3456789");
        buf_drop_front(&b, 7);
        assert_int_equal(b.len, 0);
        buf_release(&b);
}

static void drop_too_much(void)
{
        struct buf b;

        buf_init(&b, 0);
        buf_put_str(&b, "12");
        buf_drop_front(&b, 3);
}

static void dropping_more_than_there_is_is_our_mistake(void **state)
{
        (void)state;
        assert_panics(drop_too_much);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_new_buffer_is_empty_and_owns_nothing),
                cmocka_unit_test(what_is_put_in_comes_out_in_order),
                cmocka_unit_test(a_buffer_takes_exactly_its_limit),
                cmocka_unit_test(after_the_first_failure_nothing_is_added),
                cmocka_unit_test(without_memory_the_buffer_fails_and_keeps_what_it_has),
                cmocka_unit_test(a_length_that_overflows_is_refused),
                cmocka_unit_test(growth_costs_few_reallocations),
                cmocka_unit_test(numbers_are_written_as_printf_writes_them),
                cmocka_unit_test(formatted_text_longer_than_the_room_makes_room),
                cmocka_unit_test(dropping_the_front_moves_the_rest_down),
                cmocka_unit_test(dropping_more_than_there_is_is_our_mistake),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
