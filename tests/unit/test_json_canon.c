/* Documents that mean the same have one canonical text; others have not. */
#include "check.h"

#include "wire/json_canon.h"

static void assert_canon(const char *doc, const char *want)
{
        struct buf b CLEANUP(buf_release) = {0};
        if (!json_canon(slice_str(doc), &b))
                fail_msg("%s has no canonical text", doc);
        assert_slice(buf_slice(&b), want);
}

static void space_order_and_escapes_make_no_difference(void **state)
{
        (void)state;
        assert_canon("{\"b\":1,\"a\":2}", "{\"a\":2,\"b\":1}");
        assert_canon(" {\n \"a\" : 2 , \"b\" : 1 } ", "{\"a\":2,\"b\":1}");
        assert_canon("{\"\\u0061\":\"\\u00e9\\/\"}", "{\"a\":\"\xc3\xa9/\"}");
        assert_canon("{\"ab\":1,\"a\":2,\"\":3}", "{\"\":3,\"a\":2,\"ab\":1}");
        assert_canon("{\"o\":{\"y\":[],\"x\":{}}}", "{\"o\":{\"x\":{},\"y\":[]}}");
        assert_canon("[true,false,null,\"\"]", "[true,false,null,\"\"]");
}

static void numbers_count_by_their_value(void **state)
{
        static const char *const same[][4] = {
                {"1", "1.0", "10e-1", "0.1E+1"},
                {"0", "-0", "0.00", "0e9"},
                {"-1500", "-1.5e3", "-150e1", "-1500.000"},
                {"15e-1", "1.5", "1.50", "0.15e1"},
                {"1e100", "10e99", "0.1e101", "1E+100"},
        };
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(same); i++)
                for (size_t k = 0; k < ARRAY_LEN(same[i]); k++)
                        assert_canon(same[i][k], same[i][0]);
        /* Not rounded: a double could not tell these apart. */
        assert_canon("9007199254740993", "9007199254740993");
        assert_canon("9007199254740992", "9007199254740992");
}

static void the_order_of_an_array_and_of_doubles_stays(void **state)
{
        (void)state;
        assert_canon("[2,1]", "[2,1]");
        assert_canon("{\"a\":2,\"b\":0,\"a\":1}", "{\"a\":2,\"a\":1,\"b\":0}");
}

static void what_is_no_json_has_no_canonical_text(void **state)
{
        static const char *const bad[] = {
                "", "a", "{", "[1,]", "{\"a\":1}x", "\xff", "1e9999999999999999999"};
        struct buf b CLEANUP(buf_release) = {0};
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                assert_false(json_canon(slice_str(bad[i]), &b));
}

static void a_large_document_has_room(void **state)
{
        struct buf doc CLEANUP(buf_release) = {0}, canon CLEANUP(buf_release) = {0};
        (void)state;
        buf_put_byte(&doc, '{');
        for (int i = 0; i < 150000; i++)
                buf_put_str(&doc, i ? ",\"\":0" : "\"\":0");
        buf_put_byte(&doc, '}');
        assert_true(json_canon(buf_slice(&doc), &canon));
        assert_int_equal(canon.len, doc.len);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(space_order_and_escapes_make_no_difference),
                cmocka_unit_test(numbers_count_by_their_value),
                cmocka_unit_test(the_order_of_an_array_and_of_doubles_stays),
                cmocka_unit_test(what_is_no_json_has_no_canonical_text),
                cmocka_unit_test(a_large_document_has_room),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
