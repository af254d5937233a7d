/* Base64, strict. */
#include "check.h"

#include "base/base64.h"

static void base64_goes_both_ways(void **state)
{
        static const char *const rows[][2] = {
                {"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"},
        };
        static const char *const wrong[] = {"Z",    "Zg",   "Zg=",  "Zg==Zg==", "Z===",  "====",
                                            "Zh==", "Zm9=", "Zm 8", "Zm-_",     "Zg==\n"};
        char out[16];
        size_t len;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct buf b;
                buf_init(&b, 0);
                base64_put(&b, slice_str(rows[i][0]));
                assert_slice(buf_slice(&b), rows[i][1]);
                assert_true(base64_decode(slice_str(rows[i][1]), out, &len));
                assert_slice(slice_make(out, len), rows[i][0]);
                buf_release(&b);
        }
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
                assert_false(base64_decode(slice_str(wrong[i]), out, &len));
}

static void what_is_taken_is_in_the_arena_or_the_reason_is_told(void **state)
{
        struct arena arena;
        struct slice got = SLICE_NONE;

        (void)state;
        arena_init(&arena, 64);
        assert_int_equal(base64_take(&arena, SLICE_LIT("Zm9v"), &got), OK);
        assert_slice(got, "foo");
        assert_int_equal(base64_take(&arena, SLICE_LIT("Zh=="), &got), ERR_BADARG);
        char large[128];
        memset(large, 'Z', sizeof(large));
        assert_int_equal(base64_take(&arena, slice_make(large, sizeof(large)), &got), ERR_NOMEM);
        assert_slice(got, "foo");
        arena_release(&arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(base64_goes_both_ways),
                cmocka_unit_test(what_is_taken_is_in_the_arena_or_the_reason_is_told),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
