/* What servers say of their processors: read, bounded, and never trusted. */
#include "check.h"

#include "probe/cores.h"

static unsigned number(const char *text)
{
        return cores_read(slice_str(text), CORES_NUMBER);
}

static unsigned list(const char *text)
{
        return cores_read(slice_str(text), CORES_LIST);
}

static void a_number_is_from_1_to_1024(void **unused)
{
        (void)unused;
        assert_int_equal(number("1"), 1);
        assert_int_equal(number("16"), 16);
        assert_int_equal(number("1023"), 1023);
        assert_int_equal(number("1024"), 1024);
        assert_int_equal(number("1025"), 0);
        assert_int_equal(number("0"), 0);
        assert_int_equal(number("99999999999999999999"), 0);
}

static void a_list_counts_numbers_and_ranges(void **unused)
{
        (void)unused;
        assert_int_equal(list("0"), 1);
        assert_int_equal(list("0-3"), 4);
        assert_int_equal(list("0-3,8,10-11"), 7);
        assert_int_equal(list("64-127"), 64);
        assert_int_equal(list("0-1023"), 1024);
        assert_int_equal(list("0-1024"), 0);
        assert_int_equal(list("0-1023,2000"), 0);
        assert_int_equal(list("0-65535,0-65535,0-65535"), 0);
}

static void nonsense_is_not_known(void **unused)
{
        (void)unused;
        static const char *const texts[] = {
                "",     " 4", "4 ",   "-4", "4.5",           "4-",  "4-2",  ",",
                "0-3,", ",1", "0--3", "a",  "0-99999999999", "1e3", "0-3;8"};
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                assert_int_equal(list(texts[i]), 0);
                assert_int_equal(number(texts[i]), 0);
        }
        assert_int_equal(number("0-3"), 0);
        assert_int_equal(cores_read(slice_make("4\0", 2), CORES_NUMBER), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_number_is_from_1_to_1024),
                cmocka_unit_test(a_list_counts_numbers_and_ranges),
                cmocka_unit_test(nonsense_is_not_known),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
