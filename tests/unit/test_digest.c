/* Digests of parts: pinned, since they are in logs that are older than this build. */
#include "check.h"

#include "wire/digest.h"

static void the_digest_of_parts_never_changes(void **state)
{
        const struct slice parts[] = {SLICE_LIT("ab"), SLICE_LIT("c"), SLICE_NONE};
        char text[DIGEST_TEXT];

        (void)state;
        digest_text(parts, ARRAY_LEN(parts), text);
        assert_slice(slice_make(text, sizeof(text)),
                     "03bbec117707a23f74de53c77d0ac02d9db8dcb0cb4947584373fdcac2a5dfae");
}

static void parts_do_not_run_together(void **state)
{
        const struct slice one[] = {SLICE_LIT("ab"), SLICE_LIT("c")};
        const struct slice other[] = {SLICE_LIT("a"), SLICE_LIT("bc")};
        const struct slice fewer[] = {SLICE_LIT("abc")};
        char text[3][DIGEST_TEXT];

        (void)state;
        digest_text(one, ARRAY_LEN(one), text[0]);
        digest_text(other, ARRAY_LEN(other), text[1]);
        digest_text(fewer, ARRAY_LEN(fewer), text[2]);
        assert_memory_not_equal(text[0], text[1], DIGEST_TEXT);
        assert_memory_not_equal(text[0], text[2], DIGEST_TEXT);
}

/* OpenSSL's own test of the algorithm is "abc"; nothing is put around bytes. */
static void bytes_and_numbers_are_taken_as_they_are(void **state)
{
        uint8_t abc[DIGEST_BYTES], parts[DIGEST_BYTES], again[DIGEST_BYTES];
        char hex[DIGEST_TEXT];
        struct digest d;

        (void)state;
        digest_init(&d);
        digest_put_bytes(&d, "ab", 2);
        digest_put_bytes(&d, NULL, 0);
        digest_put_bytes(&d, "c", 1);
        assert_true(digest_end(&d, abc));
        hex_from_bytes(abc, sizeof(abc), hex);
        assert_slice(slice_make(hex, sizeof(hex)),
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        digest_init(&d);
        digest_put(&d, SLICE_LIT("abc"));
        assert_true(digest_end(&d, parts));
        digest_init(&d);
        digest_put_num(&d, 3);
        digest_put_bytes(&d, "abc", 3);
        assert_true(digest_end(&d, again));
        assert_memory_equal(parts, again, sizeof(parts));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_digest_of_parts_never_changes),
                cmocka_unit_test(parts_do_not_run_together),
                cmocka_unit_test(bytes_and_numbers_are_taken_as_they_are),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
