/* Interned names: one text, one object, freed with its last holder. */
#include "check.h"

#include "state/name.h"

static void the_same_text_is_the_same_name(void **unused)
{
        (void)unused;
        struct name_table t;
        name_table_init(&t, 1);
        struct name *a = name_get(&t, SLICE_LIT("mail")), *b = name_get(&t, SLICE_LIT("mail"));
        struct name *c = name_get(&t, SLICE_LIT("mai"));
        assert_ptr_equal(a, b);
        assert_ptr_not_equal(a, c);
        assert_slice(name_slice(a), "mail");
        name_unref(&t, a);
        assert_slice(name_slice(b), "mail");
        name_unref(&t, b);
        name_unref(&t, c);
        name_unref(&t, NULL);
        assert_int_equal(t.bytes, 0);
        name_table_release(&t);
}

static void the_empty_text_is_a_name_too(void **unused)
{
        (void)unused;
        struct name_table t;
        name_table_init(&t, 1);
        struct name *n = name_get(&t, SLICE_NONE);
        assert_int_equal(name_slice(n).len, 0);
        name_unref(&t, n);
        name_table_release(&t);
        assert_int_equal(name_slice(NULL).len, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_same_text_is_the_same_name),
                cmocka_unit_test(the_empty_text_is_a_name_too),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
