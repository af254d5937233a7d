/* CRC-32C: the published values, and all ways of computing it against the definition. */
#include "check.h"

#include "../../src/base/crc.c" /* NOLINT(bugprone-suspicious-include) */

/* Straight from the definition, a bit at a time. */
static uint32_t slow(uint32_t crc, const unsigned char *p, size_t n)
{
        crc = ~crc;
        for (size_t i = 0; i < n; i++) {
                crc ^= p[i];
                for (int bit = 0; bit < 8; bit++)
                        crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
        }
        return ~crc;
}

static void known_values_come_out(void **state)
{
        unsigned char bytes[32];

        (void)state;
        assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
        assert_int_equal(crc32c(0, "", 0), 0);
        assert_int_equal(crc32c(7, NULL, 0), 7);
        assert_int_equal(crc32c(0, "a", 1), 0xc1d04330);
        /* RFC 3720, B.4. */
        memset(bytes, 0, sizeof(bytes));
        assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
        memset(bytes, 0xff, sizeof(bytes));
        assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
        for (unsigned i = 0; i < 32; i++)
                bytes[i] = (unsigned char)i;
        assert_int_equal(crc32c(0, bytes, 32), 0x46dd794e);
        for (unsigned i = 0; i < 32; i++)
                bytes[i] = (unsigned char)(31 - i);
        assert_int_equal(crc32c(0, bytes, 32), 0x113fdb5c);
}

static void every_length_agrees_with_the_definition_at_any_alignment(void **state)
{
        static unsigned char bytes[8200];
        uint32_t x = 1;

        (void)state;
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
        for (size_t n = 0; n < 8192; n += n < 900 ? 1 : 37) {
                const unsigned char *p = bytes + n % 8;
                uint32_t want = slow(0x1234, p, n);
                assert_int_equal(crc32c(0x1234, p, n), want);
                assert_int_equal(~update_table(~0x1234U, p, n), want);
#if defined(__x86_64__)
                if (__builtin_cpu_supports("sse4.2"))
                        assert_int_equal(~update_sse42(~0x1234U, p, n), want);
#endif
        }
}

static void a_sum_can_be_continued(void **state)
{
        static unsigned char bytes[5000];

        (void)state;
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (unsigned char)(i * i >> 3);
        uint32_t whole = crc32c(0, bytes, sizeof(bytes));
        for (size_t cut = 0; cut <= sizeof(bytes); cut += 61)
                assert_int_equal(crc32c(crc32c(0, bytes, cut), bytes + cut, sizeof(bytes) - cut),
                                 whole);
}

static void every_flipped_bit_is_seen(void **state)
{
        unsigned char bytes[400] = {0};

        (void)state;
        uint32_t whole = crc32c(0, bytes, sizeof(bytes));
        for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
                bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
                assert_int_not_equal(crc32c(0, bytes, sizeof(bytes)), whole);
                bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
}

static void the_instruction_is_used_where_there_is_one(void **state)
{
        (void)state;
#if defined(__x86_64__)
        if (__builtin_cpu_supports("sse4.2")) {
                assert_true(crc_update == update_sse42);
                return;
        }
#endif
        assert_true(crc_update == update_table);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(known_values_come_out),
                cmocka_unit_test(every_length_agrees_with_the_definition_at_any_alignment),
                cmocka_unit_test(the_instruction_is_used_where_there_is_one),
                cmocka_unit_test(a_sum_can_be_continued),
                cmocka_unit_test(every_flipped_bit_is_seen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
