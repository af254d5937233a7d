/* Records: what a batch is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "log/record.h"

static void put_record(struct buf *b, uint8_t type, const char *body)
{
        size_t begun_at = record_begin(b, type, 3);
        buf_put_str(b, body);
        record_end(b, begun_at);
}

static void records_come_back_in_order_with_type_version_and_body(void **state)
{
        (void)state;
        struct buf b;
        buf_init(&b, 0);
        put_record(&b, 1, "one");
        put_record(&b, 255, "");
        put_record(&b, 7, "three");
        struct slice rest = buf_slice(&b);
        struct record r;
        assert_int_equal(record_next(&rest, &r), OK);
        assert_int_equal(r.type, 1);
        assert_int_equal(r.version, 3);
        assert_true(slice_eq(r.body, SLICE_LIT("one")));
        assert_int_equal(record_next(&rest, &r), OK);
        assert_int_equal(r.type, 255);
        assert_int_equal(r.body.len, 0);
        assert_int_equal(record_next(&rest, &r), OK);
        assert_true(slice_eq(r.body, SLICE_LIT("three")));
        assert_int_equal(record_next(&rest, &r), ERR_NOTFOUND);
        uint32_t n;
        assert_true(record_count(buf_slice(&b), &n));
        assert_int_equal(n, 3);
        buf_release(&b);
}

static void the_bytes_are_as_drawn(void **state)
{
        (void)state;
        struct buf b;
        buf_init(&b, 0);
        put_record(&b, 0x11, "ab");
        assert_int_equal(b.len, RECORD_HEADER_BYTES + 2);
        assert_memory_equal(b.ptr, "\x02\0\0\0\x11\x03\0\0", 8);
        assert_memory_equal(b.ptr + 12, "ab", 2);
        buf_release(&b);
}

static void every_flipped_bit_makes_a_record_unsound(void **state)
{
        (void)state;
        struct buf b;
        buf_init(&b, 0);
        put_record(&b, 1, "the body of a record");
        for (size_t bit = 0; bit < b.len * 8; bit++) {
                b.ptr[bit / 8] ^= (char)(1U << bit % 8);
                struct slice rest = buf_slice(&b);
                struct record r;
                assert_int_equal(record_next(&rest, &r), ERR_CORRUPT);
                b.ptr[bit / 8] ^= (char)(1U << bit % 8);
        }
        buf_release(&b);
}

static void a_record_cut_anywhere_is_unsound(void **state)
{
        (void)state;
        struct buf b;
        buf_init(&b, 0);
        put_record(&b, 1, "the body of a record");
        for (size_t len = 1; len < b.len; len++) {
                struct slice rest = slice_make(b.ptr, len);
                struct record r;
                uint32_t n;
                assert_int_equal(record_next(&rest, &r), ERR_CORRUPT);
                assert_false(record_count(slice_make(b.ptr, len), &n));
        }
        buf_release(&b);
}

static void a_length_up_to_the_largest_number_is_not_believed(void **state)
{
        (void)state;
        char bytes[RECORD_HEADER_BYTES + 4] = {0};
        store_u32(bytes, UINT32_MAX);
        struct slice rest = slice_make(bytes, sizeof(bytes));
        struct record r;
        uint32_t n;
        assert_int_equal(record_next(&rest, &r), ERR_CORRUPT);
        assert_false(record_count(rest, &n));
}

static void a_buffer_without_room_keeps_its_error(void **state)
{
        (void)state;
        struct buf b;
        buf_init(&b, 20);
        put_record(&b, 1, "longer than twenty bytes in all");
        assert_true(b.failed);
        buf_release(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(records_come_back_in_order_with_type_version_and_body),
                cmocka_unit_test(the_bytes_are_as_drawn),
                cmocka_unit_test(every_flipped_bit_makes_a_record_unsound),
                cmocka_unit_test(a_record_cut_anywhere_is_unsound),
                cmocka_unit_test(a_length_up_to_the_largest_number_is_not_believed),
                cmocka_unit_test(a_buffer_without_room_keeps_its_error),
        };
        return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
