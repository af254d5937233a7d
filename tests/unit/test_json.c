/* The JSON reader: what it takes, what it refuses and how it says so, and what it finds. */
#include "check.h"

#include <stdio.h>

#include "wire/json.h"

static bool is_good(const char *doc)
{
        return json_is_valid(slice_str(doc), 8);
}

static struct json_value parse(const char *doc)
{
        struct json_value v = {JSON_NULL, SLICE_NONE};
        struct problem p = {0};

        if (json_parse(slice_str(doc), 64, &v, &p) != OK)
                fail_msg("%s: %s", doc, p.detail);
        return v;
}

static void every_kind_of_value_is_taken_with_its_exact_bytes(void **state)
{
        static const struct {
                const char *doc, *text;
                enum json_type type;
        } good[] = {
                {"null", "null", JSON_NULL},
                {" true\t", "true", JSON_BOOL},
                {"\r\nfalse\n", "false", JSON_BOOL},
                {"0", "0", JSON_NUMBER},
                {" -12.50e+3 ", "-12.50e+3", JSON_NUMBER},
                {"\"a b\"", "\"a b\"", JSON_STRING},
                {" [ ] ", "[ ]", JSON_ARRAY},
                {"{ }", "{ }", JSON_OBJECT},
                {"[1, [2], {\"a\" : [ ]} ]", "[1, [2], {\"a\" : [ ]} ]", JSON_ARRAY},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                struct json_value v = parse(good[i].doc);
                assert_int_equal(v.type, good[i].type);
                assert_slice(v.text, good[i].text);
        }
}

static void well_formed_documents_are_taken(void **state)
{
        static const char *const good[] = {
                "0",
                "-0",
                "-1",
                "1.0",
                "0.0",
                "1e5",
                "1E-5",
                "1e+05",
                "123456789012345678901234567890",
                "\"\"",
                "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uabCD\"",
                "\"\\ud83d\\udc1f\"",
                "\"\xf0\x9f\x90\x9f \xc3\xa4 \x7f\"",
                "\"\xe2\x80\xa8\"", /* U+2028 may stand raw */
                "[[],{},[{}],\"]\",\"}\"]",
                "{\"\":0}",
                "{\"a\":1,\"a\":2}", /* the binder's business */
                "[0,-0,1.5,\"\",null,true,false]",
                "\n\t\r [\n\t\r 1\n\t\r ,\n\t\r 2\n\t\r ]\n\t\r ",
                "{\n\t\r \"a\"\n\t\r :\n\t\r 1\n\t\r ,\n\t\r \"b\"\n\t\r :\n\t\r 2\n\t\r }",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                if (!is_good(good[i]))
                        fail_msg("refused: %s", good[i]);
}

static const char *const not_json[] = {
        "",
        " ",
        "nul",
        "nulll",
        "True",
        "tru",
        "fals",
        "NaN",
        "+1",
        "-",
        "01",
        "-01",
        "00",
        "1.",
        ".5",
        "1.e5",
        "1e",
        "1e+",
        "1e+x",
        "0x10",
        "1 2",
        "1,",
        "Infinity",
        "--1",
        "\"",
        "\"a",
        "'a'",
        "\"\\",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u\"",
        "\"\\u12\"",
        "\"\\u123",
        "\"\\u123g\"",
        "\"\\U0041\"",
        "\"\n\"",
        "\"\t\"",
        "\"\x01\"",
        "\"a\x1f\"",
        "\"\\\n\"",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,,2]",
        "[}",
        "[1}",
        "[\"a\"",
        "[\"a\":1]",
        "{",
        "}",
        "{]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{1:2}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\"::1}",
        "{\"a\":1]",
        "{\"a\",\"b\"}",
        "{\"a\":}",
        "[]]",
        "{}{}",
        "[] x",
        "// c\n1",
        "/**/1",
        "\xef\xbb\xbf"
        "1",
        "\xc2\xa0"
        "1",
        "\f1",
        "\v1",
        "@",
        "\x80",
        /* lone surrogates */
        "\"\\ud800\"",
        "\"\\udbff x\"",
        "\"\\udc00\"",
        "\"\\udfff\"",
        "\"\\ud800\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800\\n\"",
        "\"\\ud800\\udc0\"",
        "\"\\ud800\\",
        "\"\\ud800\\u\"",
        "\"\\ud800",
        /* ill-formed UTF-8 */
        "\"\x80\"",
        "\"\xc0\x80\"",
        "\"\xc3\"",
        "\"\xe2\x82\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xff\"",
        "\"\xf0\x9f\x90",
};

static void everything_else_is_refused(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(not_json); i++)
                if (is_good(not_json[i]))
                        fail_msg("taken: %s", not_json[i]);
        assert_false(json_is_valid(SLICE_NONE, 8));
        assert_false(json_is_valid(SLICE_LIT("\0"), 8));
        assert_false(json_is_valid(SLICE_LIT("1\0"), 8));
        assert_false(json_is_valid(SLICE_LIT("\"\0\""), 8));
        assert_false(json_is_valid(SLICE_LIT("\"\\\0\""), 8));
        assert_false(json_is_valid(SLICE_LIT("[1\0]"), 8));
        assert_false(json_is_valid(SLICE_LIT("{\"a\":1\0}"), 8));
}

/* Each prefix lies in memory of its own, so that a sanitizer sees a byte read past its end. */
static void no_prefix_of_a_container_is_a_document(void **state)
{
        static const char doc[] =
                "{\"hook\":\"send \\\"mail\\\" \\ud83d\\udc1f\",\"args\":[1,-2.5e3,"
                "true,false,null,{\"k\":\"v \xf0\x9f\x90\x9f\"}],\"n\":1}";

        (void)state;
        assert_true(is_good(doc));
        for (size_t n = 0; n < sizeof(doc) - 1; n++) {
                char *copy = malloc(n + 1);
                assert_non_null(copy);
                char *exact = copy + 1; /* an odd address */
                memcpy(exact, doc, n);
                assert_false(json_is_valid(slice_make(exact, n), 8));
                free(copy);
        }
}

static void a_bad_byte_is_seen_at_any_place_in_a_string(void **state)
{
        static const char bad[] = {'\n', '\x1f', '\x80', '\xff', '\0'};
        char doc[80];

        (void)state;
        for (size_t len = 1; len < 70; len++) {
                for (size_t at = 1; at <= len; at++) {
                        memset(doc, 'x', sizeof(doc));
                        doc[0] = doc[len + 1] = '"';
                        assert_true(json_is_valid(slice_make(doc, len + 2), 0));
                        for (size_t k = 0; k < sizeof(bad); k++) {
                                doc[at] = bad[k];
                                assert_false(json_is_valid(slice_make(doc, len + 2), 0));
                        }
                        doc[at] = '"';
                        assert_false(json_is_valid(slice_make(doc, len + 2), 0));
                }
        }
}

static void depth_is_allowed_up_to_the_limit_and_not_beyond(void **state)
{
        static char doc[2 * JSON_DEPTH_MAX + 2];
        static const unsigned limits[] = {0, 1, 2, 63, 64, 65, 128, JSON_DEPTH_MAX};
        struct json_value v;
        struct problem p;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
                for (unsigned depth = limits[i] > 0 ? limits[i] - 1 : 0; depth <= limits[i] + 1;
                     depth++) {
                        if (depth == 0 || depth > JSON_DEPTH_MAX)
                                continue;
                        memset(doc, '[', depth);
                        memset(doc + depth, ']', depth);
                        assert_int_equal(json_is_valid(slice_make(doc, 2 * depth), limits[i]),
                                         depth <= limits[i]);
                        doc[depth - 1] = '{';
                        doc[depth] = '}';
                        assert_int_equal(json_is_valid(slice_make(doc, 2 * depth), limits[i]),
                                         depth <= limits[i]);
                }
        }
        assert_true(json_is_valid(SLICE_LIT("1"), 0));
        assert_int_equal(json_parse(SLICE_LIT("[[]]"), 1, &v, &p), ERR_SYNTAX);
        assert_non_null(strstr(p.detail, "deeper"));
        assert_non_null(strstr(p.detail, "offset 1 "));
        /* Brackets side by side are no depth. */
        assert_true(json_is_valid(SLICE_LIT("[[],[],{},[{}]]"), 3));
}

static void objects_and_arrays_may_alternate_at_any_depth(void **state)
{
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        for (unsigned i = 0; i < JSON_DEPTH_MAX; i++)
                buf_put_str(&b, i % 3 ? "[" : "{\"k\":");
        buf_put_str(&b, "1");
        for (unsigned i = JSON_DEPTH_MAX; i-- > 0;)
                buf_put_str(&b, i % 3 ? "]" : "}");
        assert_true(json_is_valid(buf_slice(&b), JSON_DEPTH_MAX));
        for (size_t i = b.len - JSON_DEPTH_MAX; i < b.len; i++) {
                b.ptr[i] ^= ']' ^ '}'; /* the wrong one */
                assert_false(json_is_valid(buf_slice(&b), JSON_DEPTH_MAX));
                b.ptr[i] ^= ']' ^ '}';
        }
        buf_release(&b);
}

static const struct {
        const char *doc, *detail;
} sentences[] = {
        {"", "JSON: expected a value, found the end at offset 0 (column 1)"},
        {"{\"a\" 1}", "JSON: expected ':' after the key, found '1' at offset 5 (column 6)"},
        {"{\n  \"\xc3\xa4\": tru\n}", "JSON: expected true, found byte 0x0a at offset 13 "
                                      "(line 2, column 11)"},
        {"[1,\n2,\n]", "JSON: expected a value, found ']' at offset 7 (line 3, column 1)"},
        {"[1 2]", "JSON: expected ',' or ']' after the value, found '2' at offset 3 (column 4)"},
        {"{\"a\":1 2}", "JSON: expected ',' or '}' after the value, found '2' at offset 7 "
                        "(column 8)"},
        {"{a:1}", "JSON: expected a key or '}', found 'a' at offset 1 (column 2)"},
        {"{\"a\":1,}", "JSON: expected a key after ',', found '}' at offset 7 (column 8)"},
        {"\"abc", "JSON: expected the string's closing quote, found the end at offset 4 "
                  "(column 5)"},
        {"1 x", "JSON: expected nothing more after the value, found 'x' at offset 2 (column 3)"},
        {"01", "JSON: expected no digit after a leading zero, found '1' at offset 1 (column 2)"},
        {"1.x", "JSON: expected a digit after the point, found 'x' at offset 2 (column 3)"},
        {"1e+", "JSON: expected a digit of the exponent, found the end at offset 3 (column 4)"},
        {"-a", "JSON: expected a digit, found 'a' at offset 1 (column 2)"},
        {"\"a\tb\"", "JSON: expected an escape in place of the raw control character, "
                     "found byte 0x09 at offset 2 (column 3)"},
        {"\"\\q\"", "JSON: expected one of \" \\ / b f n r t u after a backslash, found "
                    "'q' at offset 2 (column 3)"},
        {"\"\\u00g0\"", "JSON: expected four hex digits after \\u, found 'g' at offset 5 "
                        "(column 6)"},
        {"\"\\udc00\"", "JSON: expected a high surrogate before this low one, found '\\' "
                        "at offset 1 (column 2)"},
        {"\"\\ud800x\"", "JSON: expected a low surrogate after this high one, found 'x' "
                         "at offset 7 (column 8)"},
        {"\"\xc3x\"", "JSON: expected well-formed UTF-8, found byte 0xc3 at offset 1 (column 2)"},
};

static void an_error_says_where_and_what_was_expected(void **state)
{
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(sentences); i++) {
                struct json_value v = {JSON_BOOL, SLICE_LIT("untouched")};
                struct problem p = {0};
                assert_int_equal(json_parse(slice_str(sentences[i].doc), 8, &v, &p), ERR_SYNTAX);
                assert_int_equal(p.err, ERR_SYNTAX);
                assert_string_equal(p.detail, sentences[i].detail);
                assert_slice(v.text, "untouched");
        }
        struct json_value v;
        assert_int_equal(json_parse(SLICE_NONE, 8, &v, NULL), ERR_SYNTAX);
}

static void members_come_in_order_with_raw_keys_and_exact_values(void **state)
{
        static const char *const want[][2] = {
                {"hook", "\"a\\\"b\""},
                {"args", "{ \"x\":[1, \"]}\" ] }"},
                {"n", "-12"},
                {"\\u0071", "null"},
                {"", "[]"},
                {"f", "1.5e3"},
                {"t", "true"},
        };
        struct json_value root = parse(" { \"hook\" : \"a\\\"b\", \"args\":{ \"x\":[1, \"]}\" ] } ,"
                                       "\n\"n\":-12,\"\\u0071\": null , \"\":[], \"f\":1.5e3\t,"
                                       "\"t\":true} ");
        struct json_iter it = {0};
        struct json_value v;
        struct slice key;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(want); i++) {
                assert_true(json_object_next(&root, &it, &key, &v));
                assert_slice(key, want[i][0]);
                assert_slice(v.text, want[i][1]);
        }
        assert_false(json_object_next(&root, &it, &key, &v));
        assert_false(json_object_next(&root, &it, &key, &v));
        assert_int_equal(json_count(&root), ARRAY_LEN(want));
}

static void elements_come_in_order_with_exact_bytes(void **state)
{
        static const char *const want[] = {"1",  "\"a,]\"", "[2,[3]]", "{\"k\":\"\\\\\"}",
                                           "{}", "false",   "\"\"",    "0"};
        struct json_value root = parse("[1 , \"a,]\",[2,[3]],{\"k\":\"\\\\\"}\n,{},false,\"\",0]");
        struct json_iter it = {0};
        struct json_value v;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(want); i++) {
                assert_true(json_array_next(&root, &it, &v));
                assert_slice(v.text, want[i]);
        }
        assert_false(json_array_next(&root, &it, &v));
        assert_int_equal(json_count(&root), ARRAY_LEN(want));
        root = parse("[ ]");
        it = (struct json_iter){0};
        assert_false(json_array_next(&root, &it, &v));
        assert_int_equal(json_count(&root), 0);
}

/* The end of a nested value is found in blocks of 64 bytes: put quotes, backslashes and brackets
 * on every side of their edges. */
static void a_nested_value_ends_where_it_ends_at_any_offset(void **state)
{
        static const char *const inner[] = {
                "[\"\\\\\"]",          "[\"\\\"]\"]",          "{\"}\\\\\\\"]\":\"[\"}",
                "[[],[[]]]",           "[\"\\\\\\\\\",\"x\"]", "{\"a\":{\"b\":\"{\"}}",
                "[1,2,{\"\\\"\":[]}]",
        };
        struct buf b;

        (void)state;
        buf_init(&b, 0);
        for (size_t i = 0; i < ARRAY_LEN(inner); i++) {
                for (size_t pad = 0; pad < 200; pad++) {
                        struct json_value v, w;
                        struct json_iter it = {0};
                        buf_clear(&b);
                        buf_put_str(&b, "[[\"");
                        for (size_t k = 0; k < pad; k++)
                                buf_put_byte(&b, "]x[}"[k % 4]);
                        buf_put_str(&b, "\",");
                        buf_put_str(&b, inner[i]);
                        buf_put_str(&b, "],7]");
                        v = parse(buf_cstr(&b));
                        assert_true(json_array_next(&v, &it, &w));
                        assert_int_equal(w.text.len, b.len - 4);
                        struct json_iter within = {0};
                        struct json_value x;
                        assert_true(json_array_next(&w, &within, &x));
                        assert_int_equal(x.text.len, pad + 2);
                        assert_true(json_array_next(&w, &within, &x));
                        assert_slice(x.text, inner[i]);
                        assert_false(json_array_next(&w, &within, &x));
                        assert_true(json_array_next(&v, &it, &w));
                        assert_slice(w.text, "7");
                        assert_false(json_array_next(&v, &it, &w));
                }
        }
        buf_release(&b);
}

static void asking_a_value_for_what_it_is_not_is_harmless(void **state)
{
        static const char *const docs[] = {"null", "true", "1", "\"1\"", "[1]", "{\"a\":1}"};
        struct arena a;

        (void)state;
        arena_init(&a, 0);
        for (size_t i = 0; i < ARRAY_LEN(docs); i++) {
                struct json_value v = parse(docs[i]), w;
                struct json_iter it = {0};
                struct slice s;
                int64_t n;
                bool is;
                assert_int_equal(v.type, i);
                assert_int_equal(json_to_bool(&v, &is), v.type == JSON_BOOL);
                assert_int_equal(json_to_i64(&v, &n), v.type == JSON_NUMBER);
                assert_int_equal(json_to_text(&v, &a, &s), v.type == JSON_STRING ? OK : ERR_BADARG);
                assert_int_equal(json_array_next(&v, &it, &w), v.type == JSON_ARRAY);
                it = (struct json_iter){0};
                assert_int_equal(json_object_next(&v, &it, &s, &w), v.type == JSON_OBJECT);
                assert_int_equal(json_get(&v, "a", &w), v.type == JSON_OBJECT);
                assert_int_equal(json_count(&v), v.type >= JSON_ARRAY);
        }
        arena_release(&a);
}

static void a_member_is_found_by_name_however_its_key_is_written(void **state)
{
        struct json_value root = parse("{\"a\":1,\"queue\":2,\"\\u0071ueue\":3,\"q\\u0075\":4,"
                                       "\"\\ud83d\\udc1f\":5,\"\":6,\"sl\\/ash\":7,\"b\\\\c\":8}");
        struct json_value v;

        (void)state;
        assert_true(json_get(&root, "queue", &v));
        assert_slice(v.text, "2"); /* the first of two */
        assert_true(json_get(&root, "qu", &v));
        assert_slice(v.text, "4");
        assert_true(json_get(&root, "\xf0\x9f\x90\x9f", &v));
        assert_slice(v.text, "5");
        assert_true(json_get(&root, "", &v));
        assert_slice(v.text, "6");
        assert_true(json_get(&root, "sl/ash", &v));
        assert_slice(v.text, "7");
        assert_false(json_get(&root, "queu", &v));
        assert_false(json_get(&root, "queuee", &v));
        assert_false(json_get(&root, "u0071ueue", &v));
        assert_false(json_get(&root, "quux", &v));
}

static void keys_compare_by_meaning(void **state)
{
        (void)state;
        assert_true(json_key_is(SLICE_LIT("\\u0061bc"), SLICE_LIT("abc")));
        assert_true(json_key_is(SLICE_LIT("ab\\u0063"), SLICE_LIT("abc")));
        assert_true(json_key_is(SLICE_LIT("\\u00e4"), SLICE_LIT("\xc3\xa4")));
        assert_true(json_key_is(SLICE_LIT("\\n"), SLICE_LIT("\n")));
        assert_false(json_key_is(SLICE_LIT("\\u0061bc"), SLICE_LIT("abd")));
        assert_false(json_key_is(SLICE_LIT("\\u0061bc"), SLICE_LIT("ab")));
        assert_false(json_key_is(SLICE_LIT("\\u0061bc"), SLICE_LIT("abcd")));
        assert_false(json_key_is(SLICE_LIT("\\u0061bc"), SLICE_NONE));
        assert_false(json_key_is(SLICE_LIT("abc"), SLICE_LIT("ab")));
        assert_false(json_key_is(SLICE_LIT("abc"), SLICE_LIT("xb")));
        assert_true(json_key_is(SLICE_NONE, SLICE_NONE));
        assert_false(json_key_is(SLICE_NONE, SLICE_LIT("a")));
}

static void integers_are_exact_up_to_sixty_four_bits(void **state)
{
        static const struct {
                const char *doc;
                int64_t value;
                bool is_one;
        } known[] = {
                {"0", 0, true},
                {"-0", 0, true},
                {"-1", -1, true},
                {"9007199254740993", 9007199254740993, true}, /* 2^53 + 1: no double */
                {"9223372036854775807", INT64_MAX, true},
                {"-9223372036854775808", INT64_MIN, true},
                {"9223372036854775808", 0, false},
                {"-9223372036854775809", 0, false},
                {"1.0", 0, false},
                {"1e3", 0, false},
                {"123456789012345678901234567890", 0, false},
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(known); i++) {
                struct json_value v = parse(known[i].doc);
                int64_t n = 42;
                assert_int_equal(json_to_i64(&v, &n), known[i].is_one);
                assert_true(n == (known[i].is_one ? known[i].value : 42));
        }
}

static void booleans_are_read(void **state)
{
        struct json_value v = parse("true");
        bool is = false;

        (void)state;
        assert_true(json_to_bool(&v, &is) && is);
        v = parse("false");
        assert_true(json_to_bool(&v, &is) && !is);
}

static void a_string_without_escapes_is_borrowed(void **state)
{
        struct json_value v = parse("\"plain \xc3\xa4\"");
        struct slice s;

        (void)state;
        assert_int_equal(json_to_text(&v, NULL, &s), OK); /* no arena is needed */
        assert_slice(s, "plain \xc3\xa4");
        assert_ptr_equal(s.ptr, v.text.ptr + 1);
        v = parse("\"\"");
        assert_int_equal(json_to_text(&v, NULL, &s), OK);
        assert_int_equal(s.len, 0);
}

static void escapes_are_read_into_the_arena(void **state)
{
        struct json_value v =
                parse("\"x\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e4\\u20AC\\ud83d\\udc1f"
                      "\\udbff\\udfff\\uffff\\u07ff\\u0800y\"");
        struct arena a;
        struct slice s;

        (void)state;
        arena_init(&a, 4096);
        assert_int_equal(json_to_text(&v, &a, &s), OK);
        assert_slice(s, "x\"\\/\b\f\n\r\tA\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x9f\xf4\x8f\xbf\xbf"
                        "\xef\xbf\xbf\xdf\xbf\xe0\xa0\x80y");
        assert_true(slice_is_utf8(s));
        v = parse("\"a\\u0000b\"");
        assert_int_equal(json_to_text(&v, &a, &s), OK);
        assert_int_equal(s.len, 3);
        assert_memory_equal(s.ptr, "a\0b", 3);
        arena_release(&a);
}

static void a_full_arena_is_told_and_changes_nothing(void **state)
{
        struct json_value v = parse("\"more than sixteen bytes\\n\"");
        struct slice s = SLICE_LIT("before");
        struct arena a;

        (void)state;
        arena_init(&a, 16);
        assert_int_equal(json_to_text(&v, &a, &s), ERR_NOMEM);
        assert_slice(s, "before");
        arena_release(&a);
}

static void a_type_has_a_name_for_sentences(void **state)
{
        (void)state;
        assert_string_equal(json_type_name(JSON_NULL), "null");
        assert_string_equal(json_type_name(JSON_ARRAY), "an array");
        assert_string_equal(json_type_name(JSON_OBJECT), "an object");
}

static void ask_too_deep(void)
{
        (void)json_is_valid(SLICE_LIT("1"), JSON_DEPTH_MAX + 1);
}

static void asking_for_more_depth_than_there_is_is_our_mistake(void **state)
{
        (void)state;
        assert_panics(ask_too_deep);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_kind_of_value_is_taken_with_its_exact_bytes),
                cmocka_unit_test(well_formed_documents_are_taken),
                cmocka_unit_test(everything_else_is_refused),
                cmocka_unit_test(no_prefix_of_a_container_is_a_document),
                cmocka_unit_test(a_bad_byte_is_seen_at_any_place_in_a_string),
                cmocka_unit_test(depth_is_allowed_up_to_the_limit_and_not_beyond),
                cmocka_unit_test(objects_and_arrays_may_alternate_at_any_depth),
                cmocka_unit_test(an_error_says_where_and_what_was_expected),
                cmocka_unit_test(members_come_in_order_with_raw_keys_and_exact_values),
                cmocka_unit_test(elements_come_in_order_with_exact_bytes),
                cmocka_unit_test(a_nested_value_ends_where_it_ends_at_any_offset),
                cmocka_unit_test(asking_a_value_for_what_it_is_not_is_harmless),
                cmocka_unit_test(a_member_is_found_by_name_however_its_key_is_written),
                cmocka_unit_test(keys_compare_by_meaning),
                cmocka_unit_test(integers_are_exact_up_to_sixty_four_bits),
                cmocka_unit_test(booleans_are_read),
                cmocka_unit_test(a_string_without_escapes_is_borrowed),
                cmocka_unit_test(escapes_are_read_into_the_arena),
                cmocka_unit_test(a_full_arena_is_told_and_changes_nothing),
                cmocka_unit_test(a_type_has_a_name_for_sentences),
                cmocka_unit_test(asking_for_more_depth_than_there_is_is_our_mistake),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
