/* The byte formats: what is written is read back, what is short or bad fails for good. */
#include "check.h"

#include "base/bytes.h"

static void fixed_integers_are_little_endian(void **state)
{
        char p[8];

        (void)state;
        store_u16(p, 0x0102);
        assert_memory_equal(p, "\x02\x01", 2);
        assert_int_equal(load_u16(p), 0x0102);
        store_u32(p, 0x01020304);
        assert_memory_equal(p, "\x04\x03\x02\x01", 4);
        assert_int_equal(load_u32(p), 0x01020304);
        store_u64(p, 0x0102030405060708ULL);
        assert_memory_equal(p, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
        assert_true(load_u64(p) == 0x0102030405060708ULL);
}

static void varints_have_the_length_their_value_needs_and_read_back(void **state)
{
        (void)state;
        for (unsigned bit = 0; bit < 64; bit++) {
                for (int delta = -1; delta <= 1; delta++) {
                        uint64_t v = (1ULL << bit) + (uint64_t)(int64_t)delta;
                        unsigned bits = v ? 64 - (unsigned)__builtin_clzll(v) : 1;
                        struct buf b;
                        buf_init(&b, 0);
                        buf_put_varint(&b, v);
                        assert_int_equal(b.len, (bits + 6) / 7);
                        struct reader r = reader_make(buf_slice(&b));
                        assert_true(reader_varint(&r) == v);
                        assert_false(r.failed);
                        assert_int_equal(reader_left(&r), 0);
                        buf_release(&b);
                }
        }
}

static void a_record_of_everything_reads_back(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        buf_put_byte(&b, (char)0xab);
        buf_put(&b, "\x01\x02\x03\x04", 4);
        buf_put(&b, "\x01\x02\x03\x04\x05\x06\x07\x08", 8);
        buf_put_lv(&b, SLICE_LIT("text"));
        buf_put_lv(&b, SLICE_NONE);
        buf_put(&b, "raw", 3);
        struct reader r = reader_make(buf_slice(&b));
        assert_int_equal(reader_u8(&r), 0xab);
        assert_int_equal(reader_u32(&r), 0x04030201);
        assert_true(reader_u64(&r) == 0x0807060504030201ULL);
        assert_slice(reader_lv(&r), "text");
        assert_int_equal(reader_lv(&r).len, 0);
        assert_false(r.failed);
        assert_slice(reader_bytes(&r, 3), "raw");
        assert_int_equal(reader_left(&r), 0);
        assert_false(r.failed);
        buf_release(&b);
}

static void one_byte_too_few_fails_and_stays_failed(void **state)
{
        static const char bytes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        struct reader r = reader_make(slice_make(bytes, 7));

        (void)state;
        assert_true(reader_u64(&r) == 0);
        assert_true(r.failed);
        assert_int_equal(reader_u8(&r), 0); /* there would be bytes */
        assert_int_equal(reader_left(&r), 0);
        r = reader_make(slice_make(bytes, 3));
        assert_int_equal(reader_u32(&r), 0);
        assert_true(r.failed);
        assert_int_equal(reader_bytes(&r, 0).len, 0);
        assert_true(r.failed);
        r = reader_make(SLICE_NONE);
        assert_int_equal(reader_bytes(&r, 0).len, 0);
        assert_false(r.failed);
        assert_int_equal(reader_u8(&r), 0);
        assert_true(r.failed);
}

static void a_length_beyond_the_end_fails(void **state)
{
        struct reader r = reader_make(SLICE_LIT("\x05text"));

        (void)state;
        assert_null(reader_lv(&r).ptr);
        assert_true(r.failed);
        /* A length near 2^64 must not wrap. */
        r = reader_make(SLICE_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01xx"));
        assert_null(reader_lv(&r).ptr);
        assert_true(r.failed);
}

static void bad_varints_are_refused(void **state)
{
        static const struct slice bad[] = {
                {"", 0},
                {"\x80", 1},
                {"\xff\xff", 2},
                {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10},     /* bit 64 */
                {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11}, /* eleven bytes */
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct reader r = reader_make(bad[i]);
                assert_true(reader_varint(&r) == 0);
                assert_true(r.failed);
                assert_int_equal(reader_left(&r), 0);
        }
        struct reader r = reader_make(SLICE_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
        assert_true(reader_varint(&r) == UINT64_MAX);
        assert_false(r.failed);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(fixed_integers_are_little_endian),
                cmocka_unit_test(varints_have_the_length_their_value_needs_and_read_back),
                cmocka_unit_test(a_record_of_everything_reads_back),
                cmocka_unit_test(one_byte_too_few_fails_and_stays_failed),
                cmocka_unit_test(a_length_beyond_the_end_fails),
                cmocka_unit_test(bad_varints_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
