/* Payloads in JSON: every kind of bytes is told so that they are known, and what was told gives the
 * same bytes when it is read again. */
#include "check.h"

#include "base/base64.h"
#include "wire/json.h"
#include "wire/payload.h"

#define DEPTH 3

static void each_kind_of_bytes_has_members_of_its_own(void **state)
{
        static const struct {
                struct slice bytes;
                const char *json;
        } rows[] = {
                {SLICE_LIT("{ \"a\":1 }"), "{\"p\":{ \"a\":1 }"},
                {SLICE_LIT("\"hello\""), "{\"p\":\"hello\""},
                {SLICE_LIT("hello"), "{\"p\":\"hello\",\"p_is_text\":true"},
                {SLICE_LIT(""), "{\"p\":\"\",\"p_is_text\":true"},
                {SLICE_LIT("\"\""), "{\"p\":\"\""},
                {SLICE_LIT("1\n"), "{\"p\":1\n"},
                {SLICE_LIT("[[[1]]]"), "{\"p\":[[[1]]]"},
                {SLICE_LIT("[[[[1]]]]"), "{\"p\":\"[[[[1]]]]\",\"p_is_text\":true"},
                {SLICE_LIT("\xff"), "{\"p_base64\":\"/w==\""},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct buf b;
                buf_init(&b, 0);
                buf_put_byte(&b, '{');
                payload_put_json(&b, SLICE_LIT("p"), rows[i].bytes, DEPTH);
                assert_slice(buf_slice(&b), rows[i].json);
                payload_put_json(&b, SLICE_LIT("q"), rows[i].bytes, DEPTH);
                buf_put_byte(&b, '}');
                assert_true(json_is_valid(buf_slice(&b), DEPTH + 1));
                buf_release(&b);
        }
}

/* What the members mean, read by the words of payload.h. */
static struct slice read_again(const struct json_value *root, struct arena *arena)
{
        struct json_value v, is_text;
        struct slice bytes;
        if (json_get(root, "p_base64", &v)) {
                assert_int_equal(json_to_text(&v, arena, &bytes), OK);
                assert_int_equal(base64_take(arena, bytes, &bytes), OK);
                return bytes;
        }
        assert_true(json_get(root, "p", &v));
        if (!json_get(root, "p_is_text", &is_text))
                return v.text;
        assert_int_equal(json_to_text(&v, arena, &bytes), OK);
        return bytes;
}

static void what_was_told_gives_the_same_bytes(void **state)
{
        static const struct slice rows[] = {
                SLICE_LIT("hello"),
                SLICE_LIT("\"hello\""),
                SLICE_LIT(""),
                SLICE_LIT("\"\""),
                SLICE_LIT("null"),
                SLICE_LIT("1e2"),
                SLICE_LIT("1.10"),
                SLICE_LIT("{ \"a\":1 }"),
                SLICE_LIT("{\"a\":1,\"a\":2}"),
                SLICE_LIT("a\0b\n\"\\"),
                SLICE_LIT("\xc3\xbc"),
                SLICE_LIT("\xc3"),
                SLICE_LIT("{a}"),
                SLICE_LIT("12345678901234567890"),
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct arena arena;
                struct buf b;
                struct json_value root;
                struct problem p;
                arena_init(&arena, 0);
                buf_init(&b, 0);
                buf_put_byte(&b, '{');
                payload_put_json(&b, SLICE_LIT("p"), rows[i], DEPTH);
                buf_put_byte(&b, '}');
                assert_int_equal(json_parse(buf_slice(&b), DEPTH + 1, &root, &p), OK);
                assert_true(slice_eq(read_again(&root, &arena), rows[i]));
                buf_release(&b);
                arena_release(&arena);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_kind_of_bytes_has_members_of_its_own),
                cmocka_unit_test(what_was_told_gives_the_same_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
